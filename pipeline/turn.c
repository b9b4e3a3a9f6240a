/* SPDX-License-Identifier: BSD-3-Clause */
#include "turn.h"
#include "message.h"
#include "watched.h"

void sp_turn_forward(struct sp_worker *w, struct sp_packet *p)
{
	if (!w->nic->has_exception) {
		sp_turn_drop(w, p, SP_DROP_NO_MATCH);
		return;
	}
	if (sp_transmit_packet(w, SP_MAX_PORTS, p->buf)) {
		sp_turn_drop(w, p, SP_DROP_EXCEPTION_FULL);
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
		sp_turn_forward(w, p);
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
	sp_turn_drop(w, p, SP_DROP_HANDLER_ERROR);
}

static void park(struct sp_view *v, struct sp_packet *p)
{
	struct sp_worker *w = v->owner;

	if (w->parked_count == SP_PARKED) {
		sp_turn_drop(w, p, SP_DROP_HEADER_BUSY);
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
		sp_turn_drop(v->owner, p, SP_DROP_NO_MESSAGE);
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
				sp_turn_drop(v->owner, p[i], SP_DROP_MESSAGE_TABLE_FULL);
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

void sp_turns_run(struct sp_worker *w)
{
	if (unlikely(w->observed))
		sp_onlook_match(w);
	for (unsigned i = 0; i < w->actives; i++)
		run_context(w->active[i]);
	w->actives = 0;
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
