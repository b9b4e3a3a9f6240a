/* SPDX-License-Identifier: BSD-3-Clause */
#include "pending.h"
#include "../engine.h"
#include "neighbour.h"
#include "../observe/tap.h"
#include "transmit.h"
#include "../worker.h"

#include <errno.h>
#include <string.h>

#include <rte_mbuf.h>

#define PENDING_FOR (4 * SP_SEC) /* four requests without an answer */

int sp_pending_add(struct sp_worker *w, uint16_t port, const uint8_t next_hop[16], uint32_t context, struct rte_mbuf *m)
{
	struct sp_waiting *place;

	if (w->pending.count == SP_NEIGHBOUR_PENDING)
		return -EAGAIN;
	place = sp_pool_take(&w->places);
	place->frame = m;
	place->port = port;
	place->context = context;
	place->until = w->now + PENDING_FOR;
	memcpy(place->next_hop, next_hop, 16);
	sp_queue_append(&w->pending, place);
	return 0;
}

/* True: the frame was sent or dropped. */
static bool leaves(struct sp_worker *w, const struct sp_waiting *p)
{
	uint8_t *mac = rte_pktmbuf_mtod(p->frame, uint8_t *);

	if (!sp_transmit_room(w, p->port)) /* a full queue must not drop it as tx-full */
		sp_transmit_flush_port(w, p->port);
	if (!sp_neighbour_find(w->nic->neighbours, p->port, p->next_hop, w->now, mac) && sp_transmit_room(w, p->port) &&
	    !sp_transmit_packet(w, p->port, p->frame)) {
		if (unlikely(w->tap != NULL))
			w->tap->sender(w, p->port, p->context);
		return true;
	}
	if (w->now < p->until)
		return false;
	w->drops[SP_DROP_TX_NO_NEIGHBOUR]++;
	if (unlikely(w->tap != NULL))
		w->tap->unsent(w, p->port, p->frame, p->context, SP_DROP_TX_NO_NEIGHBOUR);
	rte_pktmbuf_free(p->frame);
	return true;
}

void sp_pending_send(struct sp_worker *w)
{
	for (unsigned n = w->pending.count; n; n--) {
		struct sp_waiting *place = sp_queue_take(&w->pending);

		if (leaves(w, place))
			sp_pool_give(&w->places, place);
		else
			sp_queue_append(&w->pending, place);
	}
}
