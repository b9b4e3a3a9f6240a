/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets from a port go to the link at the time they were read; packets that leave the link are sent by the other
 * port. In virtual time a full link blocks its sender. Nothing can block a real sender: packets that do not fit are
 * dropped, as by a switch.
 */
#include "loop.h"

#include <time.h>

#include <rte_mbuf.h>
#include <rte_pause.h>

#include "../../pipeline/ports/port.h"
#include "../interrupt.h"

#define PRECISE	 (200 * SP_US) /* closer than this to the next packet, it spins instead of sleeping */
#define PAUSE	 50000	       /* ns; packets that arrive meanwhile wait in the port */
#define PATIENCE (100 * SP_MS) /* with a driver that takes nothing */

_Static_assert(WIRE_BURST >= SP_BURST, "room for one burst of a port");

static void give_up(struct rte_mbuf **packet, unsigned n)
{
	if (n)
		rte_pktmbuf_free_bulk(packet, n);
}

/* Drops frames larger than the MTU. They come from a port whose kernel has merged segments (GRO). */
static unsigned keep_fitting(struct wire_way *y, struct rte_mbuf **packet, unsigned n, uint32_t most)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < n; i++) {
		const uint32_t len = rte_pktmbuf_pkt_len(packet[i]);

		y->received++;
		y->received_bytes += len;
		if (len <= most) {
			packet[kept++] = packet[i];
		} else {
			y->oversized++;
			rte_pktmbuf_free(packet[i]);
		}
	}
	return kept;
}

/* From the port into the link. Returns whether packets came. */
static bool take(struct wire *w, unsigned e, sp_time now)
{
	struct wire_way *y = &w->way[e];
	struct rte_mbuf *packet[WIRE_BURST];
	const unsigned n = sp_port_receive(y->from, 0, packet, now);
	const unsigned fit = keep_fitting(y, packet, n, SP_PORT_FRAME(w->mtu));
	struct sp_link_counters before, after;
	unsigned sent;

	if (!fit)
		return n;
	sp_link_count(w->link, e, &before);
	sent = sp_link_ops.transmit(y->in, 0, packet, fit, now);
	if (sent < fit) {
		sp_link_count(w->link, e, &after);
		*(after.held > before.held ? &y->memory_dropped : &y->queue_dropped) += fit - sent;
		give_up(packet + sent, fit - sent);
	}
	return true;
}

/* Collects the packets that have arrived by now, one by one, as each has its own due time. */
static void collect(struct wire_way *y, sp_time now)
{
	y->first = y->count = 0;
	while (y->count < WIRE_BURST) {
		const sp_time due = sp_link_ops.next(y->out, 0, false);

		if (due > now || !sp_link_ops.receive(y->out, 0, &y->packet[y->count], 1, now))
			return;
		y->due[y->count++] = due;
	}
}

static void count_sent(struct wire_way *y, unsigned n, const uint32_t *len, sp_time now)
{
	for (unsigned i = 0; i < n; i++) {
		const sp_time due = y->due[y->first + i], late = now > due ? now - due : 0;

		y->sent_bytes += len[i];
		y->late_sum += (double)late;
		if (late > y->late_most)
			y->late_most = late;
	}
	y->sent += n;
	y->first += n;
	y->count -= n;
	y->refusing = false;
}

/* From the link to the port. Returns whether it made progress. If a driver takes nothing for PATIENCE, its peer has
 * gone: waiting packets are dropped, and so are later ones until the driver takes packets again. */
static bool give(struct wire_way *y, sp_time start, sp_time now)
{
	uint32_t len[WIRE_BURST];
	unsigned sent;

	if (!y->count)
		collect(y, now);
	if (!y->count)
		return false;
	for (unsigned i = 0; i < y->count; i++) /* the driver frees what it takes */
		len[i] = rte_pktmbuf_pkt_len(y->packet[y->first + i]);
	sent = sp_port_transmit(y->to, 0, y->packet + y->first, y->count, now);
	if (sent) {
		count_sent(y, sent, len, sp_clock() - start);
		return true;
	}
	if (!y->refusing) {
		y->refusing = true;
		y->refused_since = now;
	}
	if (now - y->refused_since < PATIENCE)
		return false;
	y->refused += y->count;
	give_up(y->packet + y->first, y->count);
	y->count = 0;
	return true;
}

static void rest(const struct wire *w, sp_time now)
{
	const struct timespec pause = {.tv_nsec = PAUSE};
	sp_time due = SP_NEVER;

	for (unsigned e = 0; e < 2; e++) {
		const struct wire_way *y = &w->way[e];
		const sp_time next = y->count ? now + 2 * PRECISE : sp_link_ops.next(y->out, 0, false);

		due = next < due ? next : due;
	}
	if (due > now && due - now > PRECISE)
		nanosleep(&pause, NULL);
	else
		rte_pause();
}

void wire_run(struct wire *w)
{
	const sp_time start = sp_clock();
	sp_time now = 0;

	while (now < w->duration && !interrupt_came()) {
		bool busy = false;

		for (unsigned e = 0; e < 2; e++)
			busy |= take(w, e, now);
		for (unsigned e = 0; e < 2; e++)
			busy |= give(&w->way[e], start, now);
		if (!busy)
			rest(w, now);
		now = sp_clock() - start;
	}
	w->ran = now;
}

uint64_t wire_in_flight(const struct wire *w, unsigned e)
{
	return sp_link_in_flight(w->link, e) + w->way[e].count;
}
