/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_mbuf.h>

#include "../pipeline/limits.h"
#include "flow.h"
#include "link.h"
#include "random.h"
#include "shortage.h"

#define DEFAULT_QUEUE 256
#define MAX_QUEUE     (1u << 20)
#define MAX_DELAY     (1000 * SP_SEC)
#define MAX_BANDWIDTH 1000000000000000ull /* 1 Pbit/s; (frame + overhead) * 8 * 10^12 + bandwidth stays below 2^64 */

struct flight {
	sp_time arrival;
	uint64_t sequence; /* ties: first sent, first delivered */
	struct rte_mbuf *packet;
};

/* Packets on their way to one receive queue: a binary heap, earliest first. */
struct heap {
	struct flight *flight;
	uint32_t count;
};

struct direction {
	struct sp_link_direction config;
	struct sp_random random;
	sp_time busy;	    /* when the wire is free again */
	uint64_t remainder; /* of the last serialisation time, in 1/bandwidth ps: keeps the rate exact */
	sp_time *leaving;   /* ring: when the packets waiting for the wire will have left it */
	uint32_t leaving_first, leaving_count;
	struct heap heap[SP_MAX_WORKERS];
	uint16_t queues;
	uint32_t limit, in_flight;
	uint64_t sequence;
	struct sp_link_counters counters;
	struct sp_shortage shortage;
};

struct end {
	struct direction *out, *in;
};

struct sp_link {
	struct direction direction[2];
	struct end end[2];
};

static sp_time later(sp_time t, sp_time by)
{
	return by >= SP_NEVER - t ? SP_NEVER - 1 : t + by;
}

static bool before(const struct flight *a, const struct flight *b)
{
	return a->arrival != b->arrival ? a->arrival < b->arrival : a->sequence < b->sequence;
}

static void heap_push(struct heap *h, struct flight new)
{
	uint32_t i = h->count++;

	for (uint32_t up; i && before(&new, &h->flight[up = (i - 1) / 2]); i = up)
		h->flight[i] = h->flight[up];
	h->flight[i] = new;
}

static struct rte_mbuf *heap_pop(struct heap *h)
{
	struct rte_mbuf *first = h->flight[0].packet;
	struct flight last = h->flight[--h->count];
	uint32_t i = 0;

	for (uint32_t child; (child = 2 * i + 1) < h->count; i = child) {
		if (child + 1 < h->count && before(&h->flight[child + 1], &h->flight[child]))
			child++;
		if (!before(&h->flight[child], &last))
			break;
		h->flight[i] = h->flight[child];
	}
	h->flight[i] = last;
	return first;
}

static bool probability(double p)
{
	return p >= 0.0 && p <= 1.0; /* false for NaN */
}

static bool direction_valid(const struct sp_link_direction *c)
{
	return probability(c->loss) && probability(c->duplicate) && probability(c->reorder) && c->delay <= MAX_DELAY &&
	       c->reorder_delay <= MAX_DELAY && c->bandwidth <= MAX_BANDWIDTH && c->queue <= MAX_QUEUE;
}

/* As many packets as can be under way at once, repeats included. */
static uint32_t flight_limit(const struct sp_link_direction *c)
{
	const uint32_t most = SP_PACKET_POOL / 2;
	double seconds = (double)(c->delay + c->reorder_delay) / (double)SP_SEC;
	double packets = c->bandwidth ? seconds * (double)c->bandwidth / ((SP_LINK_MIN_FRAME + SP_LINK_OVERHEAD) * 8)
				      : (double)most;

	packets = 2 * (packets + c->queue + 1);
	return packets < most ? (uint32_t)packets : most;
}

static int direction_init(struct direction *d, const struct sp_link_direction *config, uint16_t queues)
{
	d->config = *config;
	if (!d->config.queue)
		d->config.queue = DEFAULT_QUEUE;
	d->queues = queues ? queues : 1;
	d->limit = flight_limit(&d->config);
	d->leaving = calloc(d->config.queue, sizeof(*d->leaving));
	if (!d->leaving)
		return -ENOMEM;
	for (uint16_t q = 0; q < d->queues; q++) {
		d->heap[q].flight = calloc(d->limit, sizeof(*d->heap[q].flight));
		if (!d->heap[q].flight)
			return -ENOMEM;
	}
	return 0;
}

int sp_link_create(const struct sp_link_config *config, struct sp_link **link)
{
	struct sp_link *l;

	for (int e = 0; e < 2; e++)
		if (!direction_valid(&config->direction[e]) || config->queues[e] > SP_MAX_WORKERS)
			return -EINVAL;
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	for (unsigned e = 0; e < 2; e++) {
		int err = direction_init(&l->direction[e], &config->direction[e], config->queues[!e]);

		if (err) {
			sp_link_destroy(l);
			return err;
		}
		sp_random_seed(&l->direction[e].random, config->seed, e);
		l->end[e] = (struct end){.out = &l->direction[e], .in = &l->direction[!e]};
	}
	*link = l;
	return 0;
}

void sp_link_destroy(struct sp_link *link)
{
	if (!link)
		return;
	for (int e = 0; e < 2; e++) {
		struct direction *d = &link->direction[e];

		for (uint16_t q = 0; q < d->queues; q++) {
			while (d->heap[q].count)
				rte_pktmbuf_free(heap_pop(&d->heap[q]));
			free(d->heap[q].flight);
		}
		free(d->leaving);
	}
	free(link);
}

void *sp_link_port(struct sp_link *link, unsigned end)
{
	return &link->end[end & 1];
}

/* A buffer of its own with the packet's bytes, at most SP_PACKET_ROOM; NULL: there is none now. */
static struct rte_mbuf *packet_copy(struct rte_mbuf *m)
{
	struct rte_mbuf *copy = sp_packet_alloc();
	char *to = copy ? rte_pktmbuf_append(copy, (uint16_t)rte_pktmbuf_pkt_len(m)) : NULL;

	for (; to && m; m = m->next) {
		memcpy(to, rte_pktmbuf_mtod(m, char *), m->data_len);
		to += m->data_len;
	}
	return copy;
}

/* The receiver may write to the frame, so it must be nobody else's; usually it already is, and is handed over as it
 * stands. */
static bool packet_is_own(struct rte_mbuf *m)
{
	return RTE_MBUF_DIRECT(m) && m->nb_segs == 1 && rte_mbuf_refcnt_read(m) == 1;
}

static void packet_fly(struct direction *d, struct rte_mbuf *m, sp_time arrival)
{
	uint16_t queue = sp_flow_queue(rte_pktmbuf_mtod(m, uint8_t *), m->data_len, d->queues);

	heap_push(&d->heap[queue], (struct flight){.arrival = arrival, .sequence = d->sequence++, .packet = m});
	d->in_flight++;
}

/* How long the wire is taken; fractions of a picosecond are carried over to the next packet of a busy period. */
static sp_time serialisation(struct direction *d, uint32_t len, bool idle)
{
	uint64_t bits, numerator;

	if (!d->config.bandwidth)
		return 0;
	bits = 8ull * ((len < SP_LINK_MIN_FRAME ? SP_LINK_MIN_FRAME : len) + SP_LINK_OVERHEAD);
	numerator = bits * SP_SEC + (idle ? 0 : d->remainder);
	d->remainder = numerator % d->config.bandwidth;
	return numerator / d->config.bandwidth;
}

/* False: a buffer is needed and there is none. Then nothing has happened. */
static bool packet_send(struct direction *d, struct rte_mbuf *m, sp_time now)
{
	const struct sp_random before = d->random;
	/* Every packet draws the same numbers, whatever becomes of it: runs that differ in one probability can be
	 * compared. */
	const bool chance = sp_random_chance(&d->random, d->config.loss);
	const bool again = sp_random_chance(&d->random, d->config.duplicate);
	const bool late[2] = {sp_random_chance(&d->random, d->config.reorder),
			      sp_random_chance(&d->random, d->config.reorder)};
	const bool idle = d->busy <= now, own = packet_is_own(m), fits = rte_pktmbuf_pkt_len(m) <= SP_PACKET_ROOM;
	const bool lost = chance || (!own && !fits), twice = !lost && again && fits;
	struct rte_mbuf *first = m, *copy = NULL;
	sp_time arrival;

	if (!lost && !own)
		first = packet_copy(m);
	if (twice && first)
		copy = packet_copy(m);
	if (!first || (twice && !copy)) {
		if (first != m)
			rte_pktmbuf_free(first);
		d->random = before;
		return false;
	}
	d->busy = later(idle ? now : d->busy, serialisation(d, rte_pktmbuf_pkt_len(m), idle));
	arrival = later(d->busy, d->config.delay);
	if (d->busy > now)
		d->leaving[(d->leaving_first + d->leaving_count++) % d->config.queue] = d->busy;
	d->counters.offered++;
	d->counters.lost += lost;
	d->counters.duplicated += twice;
	d->counters.oversized += !chance && !fits && (!own || again);
	if (first != m || lost)
		rte_pktmbuf_free(m);
	if (lost)
		return true;
	first->ol_flags = 0;
	first->tx_offload = 0;
	d->counters.reordered += late[0] + (copy && late[1]);
	packet_fly(d, first, late[0] ? later(arrival, d->config.reorder_delay) : arrival);
	if (copy)
		packet_fly(d, copy, late[1] ? later(arrival, d->config.reorder_delay) : arrival);
	return true;
}

static void wire_drain(struct direction *d, sp_time now)
{
	while (d->leaving_count && d->leaving[d->leaving_first] <= now) {
		d->leaving_first = (d->leaving_first + 1) % d->config.queue;
		d->leaving_count--;
	}
}

static unsigned link_transmit(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned count, sp_time now)
{
	struct direction *d = ((struct end *)port)->out;
	unsigned sent = 0;

	(void)queue;
	wire_drain(d, now);
	while (sent < count && d->leaving_count < d->config.queue) {
		if (d->in_flight + 2 > d->limit) {
			d->counters.held++;
			break;
		}
		if (!packet_send(d, packet[sent], now)) {
			sp_shortage_begin(&d->shortage, now);
			d->counters.held++;
			break;
		}
		sp_shortage_end(&d->shortage);
		sent++;
	}
	return sent;
}

static unsigned link_receive(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	struct direction *d = ((struct end *)port)->in;
	struct heap *h = &d->heap[queue];
	unsigned n = 0;

	if (queue >= d->queues)
		return 0;
	while (n < max && h->count && h->flight[0].arrival <= now) {
		packet[n] = heap_pop(h);
		d->counters.bytes += rte_pktmbuf_pkt_len(packet[n++]);
	}
	d->counters.delivered += n;
	d->in_flight -= n;
	return n;
}

static sp_time first_arrival(const struct direction *d)
{
	sp_time first = SP_NEVER;

	for (uint16_t q = 0; q < d->queues; q++)
		if (d->heap[q].count && d->heap[q].flight[0].arrival < first)
			first = d->heap[q].flight[0].arrival;
	return first;
}

static sp_time link_next(void *port, uint16_t queue, bool transmit_blocked)
{
	const struct end *e = port;
	const struct heap *h = &e->in->heap[queue];
	sp_time next = queue < e->in->queues && h->count ? h->flight[0].arrival : SP_NEVER;

	if (transmit_blocked) {
		const struct direction *d = e->out;
		sp_time room = 0; /* there is room already */

		if (d->leaving_count == d->config.queue)
			room = d->leaving[d->leaving_first];
		else if (d->in_flight + 2 > d->limit)
			room = first_arrival(d);
		else if (d->shortage.on)
			room = sp_shortage_next(&d->shortage);
		if (room < next)
			next = room;
	}
	return next;
}

const struct sp_port_ops sp_link_ops = {.receive = link_receive, .transmit = link_transmit, .next = link_next};

void sp_link_count(const struct sp_link *link, unsigned direction, struct sp_link_counters *counters)
{
	*counters = link->direction[direction & 1].counters;
}

uint64_t sp_link_in_flight(const struct sp_link *link, unsigned direction)
{
	return link->direction[direction & 1].in_flight;
}
