/* SPDX-License-Identifier: BSD-3-Clause */
/* The way out: a bounded queue per worker and port in front of the driver. */
#include "exec_context.h"
#include "neighbour.h"
#include "onlooker.h"
#include "path.h"
#include "port.h"
#include "registry.h"
#include "view.h"

#include <rte_ip.h>

/* The exception port's queue comes after the ports'. */
static struct sp_port *port_of(struct sp_worker *w, uint16_t port)
{
	if (port == SP_MAX_PORTS)
		return w->nic->has_exception ? w->nic->exception : NULL;
	return port < w->nic->ports ? &w->nic->port[port] : NULL;
}

unsigned sp_transmit_room(const struct sp_worker *w, uint16_t port)
{
	return SP_TX_QUEUE - w->tx[port].count;
}

static void flush(struct sp_worker *w, uint16_t index)
{
	struct sp_port *port = port_of(w, index);
	struct sp_tx_queue *q = &w->tx[index];

	q->blocked = false;
	while (q->count) {
		unsigned run = RTE_MIN(q->count, SP_TX_QUEUE - q->head), done, bytes = 0;

		run = RTE_MIN(run, 64u);
		for (unsigned i = 0; i < run; i++)
			q->length[i] = q->packet[q->head + i]->pkt_len;
		if (unlikely(w->observed))
			sp_onlook_offer(w, index, q->head, run);
		done = sp_port_transmit(port, w->index, q->packet + q->head, run, w->now);
		if (unlikely(w->observed))
			sp_onlook_took(w, index, q->head, done);
		for (unsigned i = 0; i < done; i++)
			bytes += q->length[i];
		q->packets += done;
		q->bytes += bytes;
		q->count -= done;
		q->head = (q->head + done) % SP_TX_QUEUE;
		if (done < run) {
			q->blocked = true;
			return;
		}
	}
}

void sp_transmit_flush(struct sp_worker *w)
{
	for (uint16_t i = 0; i < w->nic->ports; i++)
		if (w->tx[i].count)
			flush(w, i);
	if (w->tx[SP_MAX_PORTS].count)
		flush(w, SP_MAX_PORTS);
}

/* Drivers may hold on to buffers that have been sent until the next packet comes: with none left there is no next. */
void sp_transmit_reclaim(struct sp_worker *w)
{
	for (unsigned i = 0; i < w->nic->ports; i++)
		if (!w->nic->port[i].ops)
			rte_eth_tx_done_cleanup(w->nic->port[i].ethdev, w->index, 0); /* -ENOTSUP: it does not */
}

int sp_transmit_packet(struct sp_worker *w, uint16_t port, struct rte_mbuf *m)
{
	struct sp_tx_queue *q = &w->tx[port];

	if (!port_of(w, port))
		return -ENODEV;
	if (q->count == SP_TX_QUEUE)
		flush(w, port);
	if (q->count == SP_TX_QUEUE) {
		if (port != SP_MAX_PORTS) { /* else it was received, and counts as exception-full */
			w->drops[SP_DROP_TX_FULL]++;
			if (unlikely(w->observed))
				sp_onlook_unsent(w, port, m, 0, SP_DROP_TX_FULL);
		}
		return -EAGAIN;
	}
	q->packet[(q->head + q->count++) % SP_TX_QUEUE] = m;
	return 0;
}

void sp_transmit_run(struct sp_worker *w, uint16_t port, struct rte_mbuf *const *m, unsigned n)
{
	struct sp_tx_queue *q = &w->tx[port];

	for (unsigned i = 0; i < n; i++)
		q->packet[(q->head + q->count + i) % SP_TX_QUEUE] = m[i];
	q->count += n;
}

int sp_transmit_frame(struct sp_worker *w, uint16_t port, const void *frame, uint32_t len)
{
	struct rte_mbuf *m;
	int r;

	if (!port_of(w, port))
		return -ENODEV;
	if (len < RTE_ETHER_HDR_LEN || len > w->nic->config.mtu + RTE_ETHER_HDR_LEN + 8 || len > SP_PACKET_ROOM)
		return -EMSGSIZE;
	m = sp_packet_alloc();
	if (!m) {
		w->drops[SP_DROP_TX_FULL]++;
		return -EAGAIN;
	}
	memcpy(rte_pktmbuf_append(m, (uint16_t)len), frame, len);
	r = sp_transmit_packet(w, port, m);
	if (r)
		rte_pktmbuf_free(m);
	return r;
}

int sp_send_frame(struct sp_ctx *c, uint16_t port, const void *frame, uint32_t len)
{
	struct sp_view *v = sp_view_of(c);
	int r = sp_transmit_frame(v->owner, port, frame, len);

	if (!r) {
		if (unlikely(v->owner->observed))
			sp_onlook_sender(v->owner, port, v->context->id);
		v->sent++;
		v->sent_bytes += len;
	}
	return r;
}

/* ---- frames whose next hop is not known yet ---- */

#define PENDING_FOR (4 * SP_SEC) /* four requests, and no answer */

int sp_transmit_later(struct sp_worker *w, uint16_t port, const uint8_t next_hop[16], uint32_t context,
		      struct rte_mbuf *m)
{
	struct sp_pending *p;

	if (w->pending_count == SP_NEIGHBOUR_PENDING)
		return -EAGAIN;
	p = &w->pending[w->pending_count++];
	p->packet = m;
	p->port = port;
	p->context = context;
	p->until = w->now + PENDING_FOR;
	memcpy(p->next_hop, next_hop, 16);
	return 0;
}

void sp_transmit_pending(struct sp_worker *w)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < w->pending_count; i++) {
		struct sp_pending *p = &w->pending[i];
		uint8_t *frame = rte_pktmbuf_mtod(p->packet, uint8_t *);

		if (!sp_transmit_room(w, p->port)) /* waits, and is not lost: no tx-full */
			flush(w, p->port);
		if (!sp_neighbour_find(w->nic->neighbours, p->port, p->next_hop, w->now, frame) &&
		    sp_transmit_room(w, p->port) && !sp_transmit_packet(w, p->port, p->packet)) {
			if (unlikely(w->observed))
				sp_onlook_sender(w, p->port, p->context);
			continue;
		}
		if (w->now >= p->until) {
			w->drops[SP_DROP_TX_NO_NEIGHBOUR]++;
			if (unlikely(w->observed))
				sp_onlook_unsent(w, p->port, p->packet, p->context, SP_DROP_TX_NO_NEIGHBOUR);
			rte_pktmbuf_free(p->packet);
			continue;
		}
		w->pending[kept++] = *p;
	}
	w->pending_count = kept;
}

uint16_t sp_checksum(const void *bytes, size_t len, uint32_t sum)
{
	sum = __rte_raw_cksum(bytes, len, sum);
	return (uint16_t)~__rte_raw_cksum_reduce(sum);
}
