/* SPDX-License-Identifier: BSD-3-Clause */
/* The port that holds frames until the device has sent them. */
#include "watch.h"

#include <rte_mbuf.h>

static bool before(const struct sp_device_port *p, unsigned a, unsigned b)
{
	return p->held[a].at != p->held[b].at ? p->held[a].at < p->held[b].at : p->held[a].number < p->held[b].number;
}

static void swap(struct sp_device_port *p, unsigned a, unsigned b)
{
	const typeof(p->held[0]) t = p->held[a];

	p->held[a] = p->held[b];
	p->held[b] = t;
}

static void put(struct sp_device_port *p, sp_time at, struct rte_mbuf *frame)
{
	unsigned i = p->helds++;

	p->held[i].at = at;
	p->held[i].number = p->number++;
	p->held[i].frame = frame;
	for (; i && before(p, i, (i - 1) / 2); i = (i - 1) / 2)
		swap(p, i, (i - 1) / 2);
}

static void take(struct sp_device_port *p)
{
	p->held[0] = p->held[--p->helds];
	for (unsigned i = 0, child; (child = 2 * i + 1) < p->helds; i = child) {
		if (child + 1 < p->helds && before(p, child + 1, child))
			child++;
		if (!before(p, child, i))
			return;
		swap(p, i, child);
	}
}

/* Sends what is due. The port behind may have no room. */
static void send_due(struct sp_device_port *p, uint16_t queue, sp_time now)
{
	p->blocked = false;
	while (p->helds && p->held[0].at <= now) {
		if (!p->ops->transmit(p->port, queue, &p->held[0].frame, 1, now)) {
			p->blocked = true;
			return;
		}
		take(p);
	}
}

static unsigned device_receive(void *arg, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	struct sp_device_port *p = arg;

	if (!queue)
		send_due(p, 0, now);
	return p->ops->receive(p->port, queue, packet, max, now);
}

static unsigned device_transmit(void *arg, uint16_t queue, struct rte_mbuf **packet, unsigned count, sp_time now)
{
	struct sp_device_port *p = arg;
	unsigned n;

	for (n = 0; n < count && p->helds < SP_DEVICE_FRAMES; n++) {
		const struct rte_mbuf *m = packet[n];
		const void *frame = m->nb_segs == 1 ? rte_pktmbuf_mtod(m, const void *) : NULL;
		const sp_time at = sp_device_watch_frame(p->watch, p->index, frame, m->pkt_len);

		put(p, at > now ? at : now, packet[n]);
	}
	send_due(p, queue, now);
	return n;
}

/* One worker, that of queue 0, sends what is held. */
static sp_time device_next(void *arg, uint16_t queue, bool transmit_blocked)
{
	struct sp_device_port *p = arg;
	const bool mine = !queue || transmit_blocked;
	sp_time next = p->ops->next(p->port, queue, mine && p->blocked);

	if (mine && p->helds && !p->blocked && p->held[0].at < next)
		next = p->held[0].at;
	return next;
}

const struct sp_port_ops sp_device_port_ops = {
	.receive = device_receive, .transmit = device_transmit, .next = device_next};

void sp_device_port_flush(struct sp_device_port *p)
{
	while (p->helds) {
		if (!p->ops->transmit(p->port, 0, &p->held[0].frame, 1, p->held[0].at))
			rte_pktmbuf_free(p->held[0].frame);
		take(p);
	}
}
