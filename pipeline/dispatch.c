/* SPDX-License-Identifier: BSD-3-Clause */
#include "dispatch.h"
#include "handover.h"
#include "icrc.h"
#include "local.h"
#include "onlooker.h"
#include "turn.h"

/* Whoever it is handed over to counts it as received. */
static void hand_over(struct sp_worker *w, const struct sp_context *c, struct sp_packet *p)
{
	if (!sp_handover_give(w, c->home, p->port, p->buf)) {
		sp_turn_drop(w, p, SP_DROP_HANDOVER_FULL);
		return;
	}
	w->rx[p->port].packets--;
	w->rx[p->port].bytes -= p->frame_len;
	if (unlikely(w->observed))
		sp_onlook_hand_over(w, p);
	p->buf = NULL;
}

static inline void add(struct sp_worker *w, struct sp_context *c, struct sp_packet *p)
{
	struct sp_view *v = c->view[w->index];

	if (unlikely(c->home_only) && c->home != w->index) {
		hand_over(w, c, p);
		return;
	}
	if (!v->batched)
		w->active[w->actives++] = v;
	v->batch[v->batched++] = p;
}

/* Whichever port it came by: the weak host model. */
static inline bool is_own(const struct sp_nic *nic, const struct sp_packet *p)
{
	const uint8_t *to = sp_packet_destination(p);

	if (likely(!(p->flags & SP_PKT_IPV6))) {
		uint32_t ip;

		memcpy(&ip, to, 4);
		for (unsigned i = 0; i < nic->own4s; i++)
			if (nic->own4[i] == ip)
				return true;
		return false;
	}
	for (unsigned i = 0; i < nic->own6s; i++)
		if (!memcmp(nic->own6[i], to, 16))
			return true;
	return false;
}

static bool is_peer(const struct sp_context *c, const struct sp_packet *p)
{
	static const uint8_t mapped[12] = {[10] = 0xFF, [11] = 0xFF};
	const uint8_t *from = sp_packet_source(p);

	if (unlikely(c->peer_self && p->port != SP_PORT_LOOP)) /* the NIC's own address, but from a wire */
		return false;
	if (p->flags & SP_PKT_IPV6)
		return !memcmp(c->peer, from, 16);
	return !memcmp(c->peer, mapped, 12) && !memcmp(c->peer + 12, from, 4);
}

static inline bool icrc_right(const struct sp_packet *p)
{
	const uint8_t *l3 = p->frame + p->l3;
	const uint32_t pad = p->data[-11] >> 4 & 3; /* BTH byte 1 */
	const uint32_t len = (uint32_t)(p->data - l3) + p->len + pad;
	uint32_t there;

	memcpy(&there, l3 + len, 4);
	return rte_le_to_cpu_32(there) == sp_icrc(l3, (uint32_t)(p->l4 - p->l3), len);
}

/* RoCEv2: by QP number. Returns false when nobody has that QP (then the filters may still want it). */
static bool match_qp(struct sp_worker *w, struct sp_packet *p)
{
	const struct sp_nic *nic = w->nic;
	const struct sp_qp *qp;

	if (!nic->icrc_off && likely(!w->handing) && unlikely(!icrc_right(p))) {
		sp_turn_drop(w, p, SP_DROP_BAD_ICRC);
		return true;
	}
	qp = sp_qp_table_find(nic->qps, p->dest_qp);
	if (unlikely(!qp))
		return false;
	if (unlikely(!is_own(nic, p))) {
		sp_turn_drop(w, p, SP_DROP_WRONG_DESTINATION);
		return true;
	}
	if (unlikely(atomic_load_explicit(&qp->context->peer_set, memory_order_acquire) && !nic->any_source &&
		     !is_peer(qp->context, p))) {
		sp_turn_drop(w, p, SP_DROP_WRONG_SOURCE);
		return true;
	}
	p->qp_index = qp->index;
	add(w, qp->context, p);
	return true;
}

static void answered(struct sp_worker *w, const struct sp_packet *p)
{
	w->answered++;
	if (unlikely(w->observed))
		sp_onlook_fate(w, p, SP_CAPTURE_ANSWERED, NULL);
}

/* The others: filters in order, then the NIC itself, then the normal way. */
static void match_rules(struct sp_worker *w, struct sp_packet *p, int parsed, uint16_t ethertype)
{
	const unsigned list = atomic_load_explicit(&w->nic->rules, memory_order_acquire);

	for (unsigned i = 0; i < SP_MAX_RULES; i++) {
		const struct sp_rule *rule = atomic_load_explicit(&w->nic->rule[list][i], memory_order_acquire);

		if (!rule)
			break;
		if (sp_rule_matches(rule, p->buf)) {
			p->qp_index = 0;
			add(w, sp_rule_context(rule), p);
			return;
		}
	}
	if (parsed == SP_PARSED_ROCE)
		sp_turn_drop(w, p, is_own(w->nic, p) ? SP_DROP_BAD_QP : SP_DROP_WRONG_DESTINATION);
	else if (sp_local_answer(w, p, parsed, ethertype))
		answered(w, p);
	else
		sp_turn_forward(w, p);
}

void sp_dispatch(struct sp_worker *w, uint16_t port, struct rte_mbuf **packet, unsigned n)
{
	struct sp_packet pk[SP_BURST];
	uint64_t bytes = 0;
	unsigned left = 0;

	if (unlikely(w->observed) && sp_onlook_arrive(w, port, pk, packet, n)) {
		for (unsigned i = 0; i < n; i++)
			sp_dispatch(w, port, &packet[i], 1);
		return;
	}
	for (unsigned i = 0; i < n; i++) {
		struct rte_mbuf *m = packet[i];
		struct sp_packet *p = &pk[i];
		uint16_t ethertype = 0;
		int parsed;

		bytes += m->pkt_len;
		p->buf = m;
		p->port = port;
		if (unlikely(m->nb_segs > 1) && rte_pktmbuf_linearize(m)) {
			sp_turn_drop(w, p, SP_DROP_NOT_LINEAR);
			continue;
		}
		parsed = sp_parse(rte_pktmbuf_mtod(m, uint8_t *), m->data_len, p, &ethertype);
		if (likely(parsed == SP_PARSED_ROCE) && likely(match_qp(w, p)))
			continue;
		if (unlikely(parsed < 0))
			sp_turn_drop(w, p, (enum sp_drop)(-1 - parsed));
		else
			match_rules(w, p, parsed, ethertype);
	}
	w->rx[port].packets += n;
	w->rx[port].bytes += bytes;
	sp_turns_run(w);
	if (unlikely(w->observed))
		sp_onlook_settle(w);
	for (unsigned i = 0; i < n; i++)
		if (likely(pk[i].buf != NULL))
			packet[left++] = pk[i].buf;
	rte_pktmbuf_free_bulk(packet, left);
}

static void dispatch_again(struct sp_worker *w, struct sp_parked *again, unsigned n)
{
	if (unlikely(w->observed) && sp_onlook_again(w, again, n)) {
		for (unsigned i = 0; i < n; i++)
			dispatch_again(w, &again[i], 1);
		return;
	}
	for (unsigned i = 0; i < n; i++) {
		struct sp_view *v = again[i].view;

		if (!v->batched)
			w->active[w->actives++] = v;
		v->batch[v->batched++] = &again[i].packet;
	}
	sp_turns_run(w);
	if (unlikely(w->observed))
		sp_onlook_settle(w);
	for (unsigned i = 0; i < n; i++)
		if (again[i].packet.buf)
			rte_pktmbuf_free(again[i].packet.buf);
}

unsigned sp_dispatch_parked(struct sp_worker *w)
{
	struct sp_parked again[SP_PARKED];
	const unsigned n = w->parked_count;

	memcpy(again, w->parked, n * sizeof(*again));
	w->parked_count = 0;
	dispatch_again(w, again, n);
	return n;
}

void sp_dispatch_forget(struct sp_worker *w, const struct sp_context *c)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < w->parked_count; i++) {
		if (w->parked[i].view->context == c) {
			w->drops[SP_DROP_CONTEXT_CLOSED]++;
			if (unlikely(w->observed))
				sp_onlook_forget(w, &w->parked[i]);
			rte_pktmbuf_free(w->parked[i].packet.buf);
			continue;
		}
		w->parked[kept++] = w->parked[i];
	}
	w->parked_count = kept;
}
