/* SPDX-License-Identifier: BSD-3-Clause */
#include "loop.h"
#include "dispatch.h"
#include "worker.h"

#include <rte_mbuf.h>
#include <rte_common.h>

int sp_loop_send(struct sp_worker *w, struct rte_mbuf *m)
{
	struct sp_tx_queue *q = &w->tx[SP_PORT_LOOP];

	if (q->count == SP_TX_QUEUE) {
		w->drops[SP_DROP_TX_FULL]++;
		return -EAGAIN;
	}
	q->packet[(q->head + q->count++) % SP_TX_QUEUE] = m;
	return 0;
}

unsigned sp_loop_receive(struct sp_worker *w)
{
	struct sp_tx_queue *q = &w->tx[SP_PORT_LOOP];
	struct rte_mbuf *packet[SP_BURST];
	const unsigned n = RTE_MIN(q->count, (unsigned)SP_BURST);

	for (unsigned i = 0; i < n; i++) {
		packet[i] = q->packet[(q->head + i) % SP_TX_QUEUE];
		q->bytes += packet[i]->pkt_len;
	}
	q->head = (q->head + n) % SP_TX_QUEUE;
	q->count -= n;
	q->packets += n;
	sp_dispatch(w, SP_PORT_LOOP, packet, n);
	return n;
}
