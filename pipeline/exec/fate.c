/* SPDX-License-Identifier: BSD-3-Clause */
#include "fate.h"
#include "../engine.h"
#include "handover.h"
#include "queue.h"
#include "../tx/transmit.h"

#include <rte_mbuf.h>

void sp_packet_forward(struct sp_worker *w, struct sp_packet *p)
{
	if (!w->nic->has_exception) {
		sp_packet_drop(w, p, SP_DROP_NO_MATCH);
		return;
	}
	/* Kernels put fragments (af_packet's fan-out) and segments (GRO) together, and net_tap never gets past a packet
	 * that is too large for it. */
	if (unlikely(p->frame_len > w->nic->exception_most)) {
		sp_packet_drop(w, p, SP_DROP_EXCEPTION_MTU);
		return;
	}
	if (sp_transmit_packet(w, SP_MAX_PORTS, p->buf)) {
		sp_packet_drop(w, p, SP_DROP_EXCEPTION_FULL);
		return;
	}
	if (w->nic->ports > 1 && p->port < SP_MAX_PORTS && p->frame_len >= 12)
		sp_mac_table_learn(&w->nic->macs, p->frame + 6, p->port);
	if (unlikely(w->tap != NULL))
		w->tap->fate(w, p, SP_CAPTURE_FORWARDED, NULL);
	p->buf = NULL;
	w->forwarded++;
}

void sp_packet_park(struct sp_worker *w, struct sp_entity *e, struct sp_packet *p)
{
	struct sp_waiting *place;

	if (w->parked.count == SP_PARKED) {
		sp_packet_drop(w, p, SP_DROP_HEADER_BUSY);
		return;
	}
	place = sp_pool_take(&w->places);
	place->packet = *p;
	place->entity = e;
	place->record = unlikely(w->tap != NULL) ? w->tap->park(w, p) : NULL;
	sp_queue_append(&w->parked, place);
	p->buf = NULL;
}

void sp_packet_hand_over(struct sp_worker *w, uint16_t to, struct sp_packet *p)
{
	if (!sp_handover_give(w, to, p->port, p->buf)) {
		sp_packet_drop(w, p, SP_DROP_HANDOVER_FULL);
		return;
	}
	w->rx[p->port].packets--;
	w->rx[p->port].bytes -= p->frame_len;
	if (unlikely(w->tap != NULL))
		w->tap->hand_over(w, p);
	p->buf = NULL;
}

void sp_waiting_drop(struct sp_worker *w, struct sp_waiting *waiting)
{
	w->drops[SP_DROP_CONTEXT_CLOSED]++;
	if (unlikely(w->tap != NULL))
		w->tap->forget(w, waiting);
	rte_pktmbuf_free(waiting->packet.buf);
}

void sp_parked_purge(struct sp_worker *w, const struct sp_entity *e)
{
	for (unsigned n = w->parked.count; n; n--) {
		struct sp_waiting *place = sp_queue_take(&w->parked);

		if (place->entity != e) {
			sp_queue_append(&w->parked, place);
			continue;
		}
		sp_waiting_drop(w, place);
		sp_pool_give(&w->places, place);
	}
}
