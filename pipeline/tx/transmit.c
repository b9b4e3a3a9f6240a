/* SPDX-License-Identifier: BSD-3-Clause */
/* Transmit: a bounded queue per worker and port in front of the driver. */
#include "../limit.h"
#include "../engine.h"
#include "../context.h"
#include "../observe/tap.h"
#include "../ports/port.h"
#include "../view.h"
#include "../worker.h"

#include <rte_ip.h>

/* The exception port's queue has the index SP_MAX_PORTS. */
static struct sp_port *port_of(struct sp_worker *w, uint16_t port)
{
	if (port == SP_MAX_PORTS)
		return w->nic->has_exception ? w->nic->exception : NULL;
	return port < w->nic->ports ? &w->nic->port[port] : NULL;
}

static inline bool has_port(const struct sp_worker *w, uint16_t port)
{
	return likely(port < w->nic->ports) || (port == SP_MAX_PORTS && w->nic->has_exception);
}

unsigned sp_transmit_room(const struct sp_worker *w, uint16_t port)
{
	return SP_TX_QUEUE - w->tx[port].count;
}

void sp_transmit_flush_port(struct sp_worker *w, uint16_t index)
{
	struct sp_port *port = port_of(w, index);
	struct sp_tx_queue *q = &w->tx[index];

	q->blocked = false;
	while (q->count) {
		unsigned run = RTE_MIN(q->count, SP_TX_QUEUE - q->head), done, bytes = 0;

		run = RTE_MIN(run, 64u);
		for (unsigned i = 0; i < run; i++)
			q->length[i] = q->packet[q->head + i]->pkt_len;
		if (unlikely(w->tap != NULL))
			w->tap->offer(w, index, q->head, run);
		done = sp_port_transmit(port, w->index, q->packet + q->head, run, w->now);
		if (unlikely(w->tap != NULL))
			w->tap->took(w, index, q->head, done);
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
			sp_transmit_flush_port(w, i);
	if (w->tx[SP_MAX_PORTS].count)
		sp_transmit_flush_port(w, SP_MAX_PORTS);
}

/* Drivers may keep sent buffers until the next transmit, which an empty pool would prevent. */
void sp_transmit_reclaim(struct sp_worker *w)
{
	for (unsigned i = 0; i < w->nic->ports; i++)
		if (!w->nic->port[i].ops)
			rte_eth_tx_done_cleanup(w->nic->port[i].ethdev, w->index, 0); /* -ENOTSUP: frees nothing */
}

/* 0, or -EAGAIN: the port takes no more, either. */
static __attribute__((noinline)) int make_room(struct sp_worker *w, uint16_t port, struct rte_mbuf *m)
{
	sp_transmit_flush_port(w, port);
	if (sp_transmit_room(w, port))
		return 0;
	if (port != SP_MAX_PORTS) { /* else it was received, and counts as exception-full */
		w->drops[SP_DROP_TX_FULL]++;
		if (unlikely(w->tap != NULL))
			w->tap->unsent(w, port, m, 0, SP_DROP_TX_FULL);
	}
	return -EAGAIN;
}

int sp_transmit_packet(struct sp_worker *w, uint16_t port, struct rte_mbuf *m)
{
	struct sp_tx_queue *q = &w->tx[port];

	if (!has_port(w, port))
		return -ENODEV;
	if (unlikely(q->count == SP_TX_QUEUE) && make_room(w, port, m))
		return -EAGAIN;
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

int sp_transmit_loop(struct sp_worker *w, struct rte_mbuf *m)
{
	struct sp_tx_queue *q = &w->tx[SP_PORT_LOOP];

	if (q->count == SP_TX_QUEUE) {
		w->drops[SP_DROP_TX_FULL]++;
		return -EAGAIN;
	}
	q->packet[(q->head + q->count++) % SP_TX_QUEUE] = m;
	return 0;
}

int sp_transmit_frame(struct sp_worker *w, uint16_t port, const void *frame, uint32_t len)
{
	struct rte_mbuf *m;
	int r;

	if (!has_port(w, port))
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
	int r = sp_limited_sends(v) ? -EAGAIN : sp_transmit_frame(v->owner, port, frame, len);

	if (!r) {
		if (unlikely(v->owner->tap != NULL))
			v->owner->tap->sender(v->owner, port, v->context->id);
		v->sent++;
		v->sent_bytes += len;
		sp_limit_sent(v, 1, len);
	}
	return r;
}

uint16_t sp_checksum(const void *bytes, size_t len, uint32_t sum)
{
	sum = __rte_raw_cksum(bytes, len, sum);
	return (uint16_t)~__rte_raw_cksum_reduce(sum);
}
