/* SPDX-License-Identifier: BSD-3-Clause */
#include "link.h"
#include "packet_number.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_mbuf.h>

#include "../pipeline/limits.h"
#include "in_flight.h"
#include "flow.h"
#include "frames.h"
#include "shortage.h"

#define DEFAULT_QUEUE 256
#define MAX_MEMORY    (1ull << 44)

struct direction {
	struct sp_impairment impairment;
	uint32_t queue;
	sp_time *leaving; /* ring: when the packets waiting for the wire will have left it */
	uint32_t leaving_first, leaving_count;
	struct sp_in_flight packets[SP_MAX_WORKERS];
	uint16_t queues;
	struct sp_frames frames;
	uint64_t memory; /* that packets in flight may still take */
	uint32_t kept;	 /* head: bytes kept of frames longer than `whole` */
	uint32_t whole;
	bool payload_less;
	bool full; /* the last packet offered was refused */
	bool (*lose)(void *arg, const uint8_t *frame, uint32_t len);
	void *lose_arg;
	uint64_t in_flight;
	struct sp_link_counters counters;
	struct sp_shortage shortage[SP_MAX_WORKERS]; /* of buffers for packets that have arrived */
};

struct end {
	struct direction *out, *in;
};

struct sp_link {
	struct direction direction[2];
	struct end end[2];
};

static int direction_init(struct direction *d, const struct sp_link_config *config, unsigned e)
{
	const uint32_t queue = config->direction[e].queue;
	const uint16_t queues = config->queues[!e];
	int err;

	sp_impairment_init(&d->impairment, &config->direction[e], config->seed, e);
	d->queue = queue ? queue : DEFAULT_QUEUE;
	d->queues = queues ? queues : 1;
	d->memory = config->memory ? config->memory : SP_LINK_MEMORY;
	d->payload_less = config->payload_less;
	d->kept = !config->payload_less ? SP_PACKET_ROOM : config->head ? config->head : SP_LINK_HEAD;
	d->whole = !config->payload_less ? SP_PACKET_ROOM : d->kept < SP_LINK_WHOLE ? SP_LINK_WHOLE : d->kept;
	d->lose = config->lose[e];
	d->lose_arg = config->lose_arg[e];
	d->leaving = calloc(d->queue, sizeof(*d->leaving));
	err = d->leaving ? sp_frames_init(&d->frames) : -ENOMEM;
	for (uint16_t q = 0; !err && q < d->queues; q++)
		err = sp_in_flight_init(&d->packets[q]);
	return err;
}

static int config_check(const struct sp_link_config *c)
{
	for (int e = 0; e < 2; e++)
		if (sp_link_check(&c->direction[e]) || c->queues[e] > SP_MAX_WORKERS)
			return -EINVAL;
	return c->memory > MAX_MEMORY || (c->head && (c->head < SP_LINK_MIN_FRAME || c->head > SP_PACKET_ROOM))
		       ? -EINVAL
		       : 0;
}

int sp_link_create(const struct sp_link_config *config, struct sp_link **link)
{
	struct sp_link *l;
	int err = config_check(config);

	if (err)
		return err;
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	for (unsigned e = 0; e < 2; e++) {
		err = direction_init(&l->direction[e], config, e);
		if (err) {
			sp_link_destroy(l);
			return err;
		}
		l->end[e] = (struct end){.out = &l->direction[e], .in = &l->direction[!e]};
	}
	*link = l;
	return 0;
}

int sp_link_change(struct sp_link *link, unsigned direction, const struct sp_link_direction *config)
{
	const int err = sp_link_check(config);

	if (!err)
		sp_impairment_change(&link->direction[direction & 1].impairment, config);
	return err;
}

void sp_link_destroy(struct sp_link *link)
{
	if (!link)
		return;
	for (int e = 0; e < 2; e++) {
		struct direction *d = &link->direction[e];

		for (uint16_t q = 0; q < d->queues; q++)
			sp_in_flight_free(&d->packets[q]);
		sp_frames_free(&d->frames);
		free(d->leaving);
	}
	free(link);
}

void *sp_link_port(struct sp_link *link, unsigned end)
{
	return &link->end[end & 1];
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* Bytes of a frame that the link carries. */
static uint32_t kept_of(const struct direction *d, uint32_t len)
{
	return len <= d->whole ? len : d->kept;
}

/*
 * Sends a copy of the packet, or of its head. Passing the sender's buffer on would be no faster: a buffer that was in
 * flight is in no cache. And buffers are the process's: packets in flight would use them up.
 */
static void packet_depart(struct direction *d, const struct rte_mbuf *m, uint16_t queue, const struct sp_fate *fate,
			  const struct sp_copy *copy)
{
	const uint64_t number = sp_packet_number(m);
	const uint32_t len = rte_pktmbuf_pkt_len(m);
	uint32_t left = kept_of(d, len);
	uint8_t *frame = sp_frames_take(&d->frames, left), *to = frame;

	for (uint32_t n; left && m; m = m->next, left -= n, to += n) {
		n = smaller(left, m->data_len);
		memcpy(to, rte_pktmbuf_mtod(m, const uint8_t *), n);
	}
	if (copy->corrupted && len)
		frame[copy->bit / 8] ^= (uint8_t)(1u << copy->bit % 8);
	sp_in_flight_put(&d->packets[queue], (struct sp_in_flight_packet){.arrival = copy->arrival,
									  .in_turn = fate->in_turn,
									  .packet = frame,
									  .len = len,
									  .number = number});
	d->in_flight++;
}

static bool is_lost(struct direction *d, const struct rte_mbuf *m, uint32_t len)
{
	uint8_t room[SP_LINK_HEAD];

	return d->lose(d->lose_arg, rte_pktmbuf_read(m, 0, smaller(len, sizeof(room)), room), len);
}

static void packet_send(struct direction *d, struct rte_mbuf *m, uint16_t queue, sp_time now)
{
	const uint32_t len = rte_pktmbuf_pkt_len(m);
	struct sp_fate fate;

	sp_impair(&d->impairment, len, now, &fate);
	if (d->lose && is_lost(d, m, len))
		fate.copies = 0;
	if (fate.copies && len > SP_PACKET_ROOM) {
		d->counters.oversized++;
		fate.copies = 0;
	}
	if (fate.left > now)
		d->leaving[(d->leaving_first + d->leaving_count++) % d->queue] = fate.left;
	d->counters.offered++;
	d->counters.lost += !fate.copies;
	d->counters.duplicated += fate.copies == 2;
	for (unsigned k = 0; k < fate.copies; k++) {
		const struct sp_copy *copy = &fate.copy[k];

		d->counters.reordered += copy->reordered;
		d->counters.corrupted += copy->corrupted;
		if (copy->corrupted && d->payload_less)
			d->counters.lost++;
		else
			packet_depart(d, m, queue, &fate, copy);
	}
	rte_pktmbuf_free(m);
}

static void wire_drain(struct direction *d, sp_time now)
{
	while (d->leaving_count && d->leaving[d->leaving_first] <= now) {
		d->leaving_first = (d->leaving_first + 1) % d->queue;
		d->leaving_count--;
	}
}

static uint16_t queue_of(const struct direction *d, const struct rte_mbuf *m)
{
	uint8_t room[SP_LINK_HEAD]; /* has room for addresses and ports */
	const uint32_t len = smaller(rte_pktmbuf_pkt_len(m), sizeof(room));

	return d->queues == 1 ? 0 : sp_flow_queue(rte_pktmbuf_read(m, 0, len, room), len, d->queues);
}

static unsigned link_transmit(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned count, sp_time now)
{
	struct direction *d = ((struct end *)port)->out;
	unsigned sent = 0;

	(void)queue;
	wire_drain(d, now);
	for (d->full = false; sent < count && d->leaving_count < d->queue; sent++) {
		const uint16_t to = queue_of(d, packet[sent]);

		/* Room for two copies: whether there is room must not depend on the packet's fate. */
		d->full = !sp_frames_ready(&d->frames, kept_of(d, rte_pktmbuf_pkt_len(packet[sent])), &d->memory) ||
			  !sp_in_flight_reserve(&d->packets[to], 2, &d->memory);
		if (d->full) {
			d->counters.held++;
			break;
		}
		packet_send(d, packet[sent], to, now);
	}
	return sent;
}

/* Delivers the packet in a buffer; NULL: there is no buffer, the packet stays where it is. */
static struct rte_mbuf *packet_deliver(struct direction *d, const struct sp_in_flight_packet *f)
{
	struct rte_mbuf *m = sp_packet_alloc();

	if (!m)
		return NULL;
	memcpy(rte_pktmbuf_append(m, (uint16_t)f->len), f->packet, kept_of(d, f->len));
	sp_frames_drop(&d->frames, f->packet);
	sp_packet_number_set(m, f->number);
	return m;
}

static unsigned link_receive(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	struct direction *d = ((struct end *)port)->in;
	const struct sp_in_flight_packet *first;
	unsigned n = 0;

	if (queue >= d->queues)
		return 0;
	while (n < max && (first = sp_in_flight_first(&d->packets[queue])) && first->arrival <= now) {
		packet[n] = packet_deliver(d, first);
		if (!packet[n]) {
			sp_shortage_begin(&d->shortage[queue], now);
			d->counters.waited++;
			break;
		}
		sp_shortage_end(&d->shortage[queue]);
		d->counters.bytes += first->len;
		sp_in_flight_take(&d->packets[queue]);
		n++;
	}
	d->counters.delivered += n;
	d->in_flight -= n;
	if (n)
		d->full = false;
	return n;
}

/* When there is something to receive next. A packet that has arrived and found no buffer is tried again. */
static sp_time receive_next(const struct direction *d, uint16_t queue)
{
	const struct sp_in_flight_packet *first = sp_in_flight_first(&d->packets[queue]);

	if (!first)
		return SP_NEVER;
	return d->shortage[queue].on ? sp_shortage_next(&d->shortage[queue]) : first->arrival;
}

static sp_time first_arrival(const struct direction *d)
{
	sp_time first = SP_NEVER;

	for (uint16_t q = 0; q < d->queues; q++) {
		const sp_time next = receive_next(d, q);

		first = next < first ? next : first;
	}
	return first;
}

static sp_time link_next(void *port, uint16_t queue, bool transmit_blocked)
{
	const struct end *e = port;
	sp_time next = queue < e->in->queues ? receive_next(e->in, queue) : SP_NEVER;

	if (transmit_blocked) {
		const struct direction *d = e->out;
		sp_time room = 0; /* there is room now */

		if (d->leaving_count == d->queue)
			room = d->leaving[d->leaving_first];
		else if (d->full)
			room = first_arrival(d);
		next = room < next ? room : next;
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
