/* SPDX-License-Identifier: BSD-3-Clause */
#include "dispatch.h"
#include "handover.h"
#include "icrc.h"
#include "local.h"
#include "message.h"
#include "onlooker.h"
#include "watched.h"

static inline void drop(struct sp_worker *w, struct sp_packet *p, enum sp_drop why)
{
	w->drops[why]++; /* buf stays: freed with the burst */
	if (unlikely(w->observed))
		sp_onlook_fate(w, p, SP_CAPTURE_DROPPED, sp_drop_names[why]);
}

/* The normal way for what no context takes. */
static void forward(struct sp_worker *w, struct sp_packet *p)
{
	if (!w->nic->has_exception) {
		drop(w, p, SP_DROP_NO_MATCH);
		return;
	}
	if (sp_transmit_packet(w, SP_MAX_PORTS, p->buf)) {
		drop(w, p, SP_DROP_EXCEPTION_FULL);
		return;
	}
	if (w->nic->ports > 1 && p->port < SP_MAX_PORTS && p->frame_len >= 12)
		sp_station_heard(&w->nic->stations, p->frame + 6, p->port);
	if (unlikely(w->observed))
		sp_onlook_fate(w, p, SP_CAPTURE_FORWARDED, NULL);
	p->buf = NULL;
	w->forwarded++;
}

/* Accounts for one packet by its verdict. */
static inline void settle(struct sp_view *v, struct sp_packet *p, uint32_t verdict)
{
	struct sp_worker *w = v->owner;
	uint32_t reason = verdict >> 8;

	switch (verdict & 0xFF) {
	case SP_DONE:
	case SP_END:
		if (unlikely(reason))
			break;
		v->packets++;
		v->bytes += p->frame_len;
		w->taken++;
		return;
	case SP_SENT:
		if (p->buf || reason) /* it was not sent after all */
			break;
		v->packets++;
		v->bytes += p->frame_len;
		w->taken++;
		return;
	case SP_FORWARD:
		if (reason || unlikely(!p->buf)) /* sent already: it cannot go two ways */
			break;
		v->forwarded++;
		forward(w, p);
		return;
	case SP_DROP_KIND:
		if (reason >= v->context->reasons)
			break;
		v->drops[reason]++;
		v->dropped++;
		if (unlikely(w->observed))
			sp_onlook_fate(w, p, SP_CAPTURE_DROPPED, v->context->handler->drops[reason]);
		w->refused++;
		return;
	default:
		break;
	}
	v->dropped++;
	v->errors++;
	drop(w, p, SP_DROP_HANDLER_ERROR);
}

static void park(struct sp_view *v, struct sp_packet *p)
{
	struct sp_worker *w = v->owner;

	if (w->parked_count == SP_PARKED) {
		drop(w, p, SP_DROP_HEADER_BUSY);
		return;
	}
	w->parked[w->parked_count].packet = *p;
	w->parked[w->parked_count].record = unlikely(w->observed) ? sp_onlook_park(w, p) : NULL;
	w->parked[w->parked_count++].view = v;
	p->buf = NULL;
}

/* The companion sees what the first handler has accepted. */
static void beside(struct sp_view *v, struct sp_message_entry *e, struct sp_packet *const *p, unsigned n)
{
	const struct sp_context *c = v->context->companion;
	struct sp_view *cv = c->view[v->pub.worker];

	cv->pub.now = v->owner->now;
	__atomic_store_n(&e->beside.last, v->owner->now, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < n; i++) {
		uint32_t before = p[i]->verdict;

		if (before != SP_DONE && before != SP_END)
			continue;
		if (c->handler->payload)
			c->handler->payload(&cv->pub, &e->beside, p[i]);
		else if (c->handler->payload_burst)
			c->handler->payload_burst(&cv->pub, &e->beside, &p[i], 1);
		p[i]->verdict = before;
		cv->packets++;
		cv->bytes += p[i]->frame_len;
	}
}

/* Packets of one message, from its inside. Returns whether a verdict ended it. */
static inline bool run_payload(struct sp_view *v, struct sp_message *m, struct sp_packet *const *p, unsigned n)
{
	const struct sp_handler *h = v->context->handler;
	uint32_t all = 0;

	if (h->payload_burst) {
		all = h->payload_burst(&v->pub, m, p, n);
	} else if (h->payload) {
		for (unsigned i = 0; i < n; i++) {
			p[i]->verdict = h->payload(&v->pub, m, p[i]);
			all |= p[i]->verdict;
		}
	}
	return all != 0;
}

static inline bool settle_run(struct sp_view *v, struct sp_packet *const *p, unsigned n, bool special)
{
	bool end = false;

	if (likely(!special)) {
		uint64_t bytes = 0;

		for (unsigned i = 0; i < n; i++)
			bytes += p[i]->frame_len;
		v->packets += n;
		v->bytes += bytes;
		v->owner->taken += n;
		return false;
	}
	for (unsigned i = 0; i < n; i++) {
		end |= p[i]->verdict == SP_END;
		settle(v, p[i], p[i]->verdict);
	}
	return end;
}

/* A packet of no open message. Returns whether the handler has opened it meanwhile. */
static bool missed(struct sp_view *v, struct sp_packet *p, bool again)
{
	const struct sp_handler *h = v->context->handler;
	uint32_t verdict;

	if (!h->miss) {
		drop(v->owner, p, SP_DROP_NO_MESSAGE);
		v->dropped++;
		return false;
	}
	verdict = h->miss(&v->pub, p);
	if (verdict == SP_AGAIN && again)
		return true;
	p->verdict = verdict;
	settle(v, p, verdict);
	return false;
}

/* The first packet of a message: header, then on as payload. Returns whether the message is open. */
static bool run_header(struct sp_view *v, struct sp_message_entry *e, struct sp_packet *p)
{
	struct sp_context *c = v->context;
	uint32_t verdict = c->handler->header ? c->handler->header(&v->pub, &e->pub, p) : SP_DONE;

	if (verdict != SP_DONE) {
		p->verdict = verdict;
		settle(v, p, verdict == SP_END ? SP_ERROR : verdict);
		sp_message_refused(v, e);
		return false;
	}
	if (c->companion && c->companion->handler->header) {
		struct sp_view *cv = c->companion->view[v->pub.worker];
		cv->pub.now = v->owner->now;
		c->companion->handler->header(&cv->pub, &e->beside,
					      p); /* it cannot refuse the first handler's message */
	}
	sp_message_opened(v, e);
	return true;
}

/* One run: consecutive packets with one key. */
static void run_message(struct sp_view *v, struct sp_packet *const *p, unsigned n)
{
	unsigned tries = 0;

	while (n) {
		struct sp_message_entry *e = NULL;

		switch (sp_message_enter(v, p[0]->key, &e)) {
		case SP_ENTER_HEADER:
			if (!run_header(v, e, p[0])) {
				p++;
				n--;
				continue;
			}
			break;
		case SP_ENTER_OPEN:
			break;
		case SP_ENTER_BUSY:
			for (unsigned i = 0; i < n; i++)
				park(v, p[i]);
			return;
		case SP_ENTER_FULL:
			for (unsigned i = 0; i < n; i++)
				drop(v->owner, p[i], SP_DROP_MESSAGE_TABLE_FULL);
			v->dropped += n;
			return;
		case SP_ENTER_MISS:
			if (missed(v, p[0], tries++ < 2))
				continue;
			tries = 0;
			p++;
			n--;
			continue;
		}
		bool special = run_payload(v, &e->pub, p, n), end = false;

		if (special) /* a message ends with the packet that says so; what follows in the run is of it all the
				same */
			for (unsigned i = 0; i < n; i++)
				end |= p[i]->verdict == SP_END;
		if (v->context->companion)
			beside(v, e, p, n);
		settle_run(v, p, n, special);
		sp_message_leave(v, e, end, SP_END_VERDICT);
		return;
	}
}

/* Packets of one context, in order of arrival. */
static void run_context(struct sp_view *v)
{
	const struct sp_handler *h = v->context->handler;
	struct sp_packet **p = v->batch;
	unsigned n = v->batched, i, j;

	v->batched = 0;
	v->pub.now = v->owner->now;
	if (!h->classify) {
		settle_run(v, p, n, run_payload(v, NULL, p, n));
		return;
	}
	for (i = j = 0; i < n; i++) {
		uint64_t key = h->classify(&v->pub, p[i]);

		if (unlikely(key > SP_REJECT(256) && key != SP_NO_MESSAGE)) {
			p[i]->verdict = SP_DROP(UINT64_MAX - 1 - key);
			settle(v, p[i], p[i]->verdict);
			continue;
		}
		p[i]->key = key;
		p[j++] = p[i];
	}
	n = j;
	for (i = 0; i < n; i = j) {
		const uint64_t key = p[i]->key;

		for (j = i + 1; j < n && p[j]->key == key; j++)
			;
		if (unlikely(key == SP_NO_MESSAGE || h->messages == SP_MESSAGES_NONE))
			settle_run(v, p + i, j - i, run_payload(v, NULL, p + i, j - i));
		else
			run_message(v, p + i, j - i);
	}
}

/* Whoever it is handed over to counts it as received. */
static void hand_over(struct sp_worker *w, const struct sp_context *c, struct sp_packet *p)
{
	if (!sp_handover_give(w, c->home, p->port, p->buf)) {
		drop(w, p, SP_DROP_HANDOVER_FULL);
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
		drop(w, p, SP_DROP_BAD_ICRC);
		return true;
	}
	qp = sp_qp_table_find(nic->qps, p->dest_qp);
	if (unlikely(!qp))
		return false;
	if (unlikely(!is_own(nic, p))) {
		drop(w, p, SP_DROP_WRONG_DESTINATION);
		return true;
	}
	if (unlikely(atomic_load_explicit(&qp->context->peer_set, memory_order_acquire) && !nic->any_source &&
		     !is_peer(qp->context, p))) {
		drop(w, p, SP_DROP_WRONG_SOURCE);
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
		drop(w, p, is_own(w->nic, p) ? SP_DROP_BAD_QP : SP_DROP_WRONG_DESTINATION);
	else if (sp_local_answer(w, p, parsed, ethertype))
		answered(w, p);
	else
		forward(w, p);
}

static void run_active(struct sp_worker *w)
{
	if (unlikely(w->observed))
		sp_onlook_match(w);
	for (unsigned i = 0; i < w->actives; i++)
		run_context(w->active[i]);
	w->actives = 0;
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
			drop(w, p, SP_DROP_NOT_LINEAR);
			continue;
		}
		parsed = sp_parse(rte_pktmbuf_mtod(m, uint8_t *), m->data_len, p, &ethertype);
		if (likely(parsed == SP_PARSED_ROCE) && likely(match_qp(w, p)))
			continue;
		if (unlikely(parsed < 0))
			drop(w, p, (enum sp_drop)(-1 - parsed));
		else
			match_rules(w, p, parsed, ethertype);
	}
	w->rx[port].packets += n;
	w->rx[port].bytes += bytes;
	run_active(w);
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
	run_active(w);
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

/* ---- handlers' calls on packets ---- */

int sp_packet_send(struct sp_ctx *c, struct sp_packet *p)
{
	struct sp_view *v = sp_view_of(c);
	int r;

	if (!p->buf) {
		sp_watch_wrong(c, "sent a packet that has been sent");
		return -EINVAL;
	}
	r = sp_transmit_packet(v->owner, p->port, p->buf);
	if (r)
		return r;
	if (unlikely(v->owner->observed))
		sp_onlook_sender(v->owner, p->port, v->context->id);
	p->buf = NULL;
	v->sent++;
	v->sent_bytes += p->frame_len;
	return 0;
}

int sp_packet_keep(struct sp_ctx *c, struct sp_packet *p)
{
	struct sp_view *v = sp_view_of(c);

	if (!p->buf) {
		sp_watch_wrong(c, "kept a packet that has been sent");
		return -EINVAL;
	}
	rte_mbuf_refcnt_update(p->buf, 1);
	v->kept++;
	return 0;
}

void sp_packet_release(struct sp_ctx *c, void *buf)
{
	rte_pktmbuf_free(buf);
	sp_view_of(c)->kept--;
}
