/* SPDX-License-Identifier: BSD-3-Clause */
#include "calls.h"
#include "../entity.h"
#include "../context.h"
#include "fate.h"
#include "measure.h"
#include "message.h"
#include "../worker.h"

static __attribute__((noinline)) void note_error(struct sp_view *v, const struct sp_packet *p, uint32_t verdict)
{
	if (verdict == p->verdict && verdict == SP_ERROR)
		sp_last_error_note(v, SP_LAST_ERROR_ERROR, 0, 0, 0, 0);
	else if ((verdict & 0xFF) == SP_DROP_KIND)
		sp_last_error_note(v, SP_LAST_ERROR_REASON, verdict >> 8, v->context->reasons, 0, 0);
	else if (verdict == SP_SENT || verdict == SP_FORWARD)
		sp_last_error_note(v, SP_LAST_ERROR_SENT, 0, 0, 0, 0);
	else
		sp_last_error_note(v, SP_LAST_ERROR_VERDICT, p->verdict, 0, 0, 0);
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
		v->ended += verdict == SP_END;
		v->packets++;
		v->bytes += p->frame_len;
		w->taken++;
		return;
	case SP_SENT:
		if (p->buf || reason) /* it was not sent after all */
			break;
		v->answered++;
		v->packets++;
		v->bytes += p->frame_len;
		w->taken++;
		return;
	case SP_FORWARD:
		if (reason || unlikely(!p->buf)) /* sent already: it cannot go two ways */
			break;
		v->forwarded++;
		sp_packet_forward(w, p);
		return;
	case SP_DROP_KIND:
		if (reason >= v->context->reasons)
			break;
		v->drops[reason]++;
		v->dropped++;
		if (unlikely(w->tap != NULL))
			w->tap->fate(w, p, SP_CAPTURE_DROPPED, v->context->handler->drops[reason]);
		w->refused++;
		return;
	default:
		break;
	}
	v->dropped++;
	v->errors++;
	note_error(v, p, verdict);
	sp_packet_drop(w, p, SP_DROP_HANDLER_ERROR);
}

struct sp_ctx *sp_second(struct sp_ctx *first)
{
	struct sp_view *v = sp_view_of(first), *cv;

	if (!v->context->companion)
		return NULL;
	cv = v->context->companion->view[v->pub.worker];
	cv->pub.now = v->owner->now;
	sp_doing_view(v->owner, cv);
	return &cv->pub;
}

void sp_second_end(struct sp_ctx *first)
{
	struct sp_view *v = sp_view_of(first);

	sp_doing_view(v->owner, v);
}

/* The companion sees what the first handler has accepted. */
static void call_companion(struct sp_view *v, struct sp_message_entry *e, struct sp_packet *const *p, unsigned n)
{
	const struct sp_context *c = v->context->companion;
	struct sp_view *cv = c->view[v->pub.worker];

	cv->pub.now = v->owner->now;
	sp_doing_view(v->owner, cv);
	__atomic_store_n(&e->companion.last, v->owner->now, __ATOMIC_RELAXED);
	for (unsigned i = 0, j; i < n; i = j) {
		const uint32_t before = p[i]->verdict;

		j = i + 1;
		if (before != SP_DONE && before != SP_END)
			continue;
		if (c->handler->payload_burst) {
			while (j < n && p[j]->verdict == before)
				j++;
			c->handler->payload_burst(&cv->pub, &e->companion, p + i, j - i);
		} else if (c->handler->payload) {
			c->handler->payload(&cv->pub, &e->companion, p[i]);
		}
		cv->packets += j - i;
		for (unsigned k = i; k < j; k++) {
			p[k]->verdict = before;
			cv->bytes += p[k]->frame_len;
		}
	}
	sp_doing_view(v->owner, v);
}

/* payload() for packets of one message, which the worker is inside; m is NULL where there is no message. Returns
 * whether any verdict is other than SP_DONE. */
static inline bool call_payload(struct sp_view *v, struct sp_message *m, struct sp_packet *const *p, unsigned n)
{
	const struct sp_handler *h = v->context->handler;
	struct sp_worker *w = v->owner;
	const uint32_t at = (uint32_t)(p - w->doing.packet);
	uint32_t all = 0;

	if (h->payload_burst) {
		sp_doing_at(w, at);
		all = h->payload_burst(&v->pub, m, p, n);
	} else if (h->payload) {
		for (unsigned i = 0; i < n; i++) {
			sp_doing_at(w, at + i);
			p[i]->verdict = h->payload(&v->pub, m, p[i]);
			all |= p[i]->verdict;
		}
	}
	return all != 0;
}

/* special: some verdicts are not SP_DONE. Returns whether one of them ends the message. */
static inline bool settle_all(struct sp_view *v, struct sp_packet *const *p, unsigned n, bool special)
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
static bool call_miss(struct sp_view *v, struct sp_packet *p, bool again)
{
	const struct sp_handler *h = v->context->handler;
	uint32_t verdict;

	if (!h->miss) {
		sp_packet_drop(v->owner, p, SP_DROP_NO_MESSAGE);
		v->dropped++;
		return false;
	}
	sp_doing_call(v->owner, SP_DOING_MISS);
	verdict = h->miss(&v->pub, p);
	if (verdict != SP_AGAIN || !again) {
		p->verdict = verdict;
		settle(v, p, verdict);
	}
	sp_doing_call(v->owner, SP_DOING_PACKETS);
	return verdict == SP_AGAIN && again;
}

/* The first packet of a message: header, then on as payload. Returns whether the message is open. */
static bool call_header(struct sp_view *v, struct sp_message_entry *e, struct sp_packet *p)
{
	struct sp_context *c = v->context;
	uint32_t verdict;

	sp_doing_call(v->owner, SP_DOING_HEADER);
	verdict = c->handler->header ? c->handler->header(&v->pub, &e->pub, p) : SP_DONE;
	if (verdict != SP_DONE) {
		p->verdict = verdict;
		settle(v, p, verdict == SP_END ? SP_ERROR : verdict);
		sp_doing_call(v->owner, SP_DOING_PACKETS);
		sp_message_refused(v, e);
		return false;
	}
	if (c->companion && c->companion->handler->header) {
		struct sp_view *cv = c->companion->view[v->pub.worker];

		cv->pub.now = v->owner->now;
		sp_doing_view(v->owner, cv);
		c->companion->handler->header(&cv->pub, &e->companion, p); /* it cannot refuse the message */
		sp_doing_view(v->owner, v);
	}
	sp_doing_call(v->owner, SP_DOING_PACKETS);
	sp_message_opened(v, e);
	return true;
}

unsigned sp_call_message(struct sp_view *v, struct sp_packet *const *p, unsigned n, bool draining)
{
	unsigned tries = 0;

	while (n) {
		struct sp_message_entry *e = NULL;

		sp_doing_at(v->owner, (uint32_t)(p - v->owner->doing.packet));
		switch (sp_message_enter(v, p[0]->key, &e)) {
		case SP_ENTER_HEADER:
			if (!call_header(v, e, p[0])) {
				p++;
				n--;
				continue;
			}
			break;
		case SP_ENTER_OPEN:
			break;
		case SP_ENTER_BUSY:
			for (unsigned i = 0; i < n; i++)
				sp_packet_park(v->owner, v->entity, p[i]);
			return 0;
		case SP_ENTER_FULL:
			for (unsigned i = 0; i < n; i++)
				sp_packet_drop(v->owner, p[i], SP_DROP_MESSAGE_TABLE_FULL);
			v->dropped += n;
			return 0;
		case SP_ENTER_NEWER:
			return n;
		case SP_ENTER_MISS:
			if (draining)
				return n;
			if (call_miss(v, p[0], tries++ < 2))
				continue;
			tries = 0;
			p++;
			n--;
			continue;
		}
		const bool special = call_payload(v, &e->pub, p, n);

		if (v->context->companion)
			call_companion(v, e, p, n);
		/* All n packets belong to the message, also those behind the one whose verdict ends it. */
		sp_message_leave(v, e, settle_all(v, p, n, special), SP_END_VERDICT);
		return 0;
	}
	return 0;
}

/* Sets packets' keys; those that are rejected are done with. Returns how many are left. */
static inline unsigned classify(struct sp_view *v, struct sp_packet **p, unsigned n)
{
	const struct sp_handler *h = v->context->handler;
	struct sp_worker *w = v->owner;
	const uint32_t at = (uint32_t)(p - w->doing.packet);
	unsigned left = 0;

	if (h->classify_burst) {
		sp_doing_at(w, at);
		if (likely(!h->classify_burst(&v->pub, p, n)))
			return n;
	} else {
		for (unsigned i = 0; i < n; i++) {
			sp_doing_at(w, at + i);
			p[i]->key = h->classify(&v->pub, p[i]);
		}
	}
	for (unsigned i = 0; i < n; i++) {
		const uint64_t key = p[i]->key;

		if (unlikely(key > SP_REJECT(256) && key != SP_NO_MESSAGE)) {
			p[i]->verdict = SP_DROP(UINT64_MAX - 1 - key);
			settle(v, p[i], p[i]->verdict);
			continue;
		}
		p[left++] = p[i];
	}
	return left;
}

void sp_call_packets(struct sp_view *v, struct sp_packet **p, unsigned n)
{
	const struct sp_handler *h = v->context->handler;
	struct sp_worker *w = v->owner;
	unsigned i, j, left;

	if (!h->classify) {
		settle_all(v, p, n, call_payload(v, NULL, p, n));
		return;
	}
	sp_doing_call(w, SP_DOING_CLASSIFY);
	n = classify(v, p, n);
	sp_doing_call(w, SP_DOING_PACKETS);
	for (i = 0; i < n; i = j) {
		const uint64_t key = p[i]->key;

		for (j = i + 1; j < n && p[j]->key == key; j++)
			;
		if (unlikely(key == SP_NO_MESSAGE || h->messages == SP_MESSAGES_NONE))
			settle_all(v, p + i, j - i, call_payload(v, NULL, p + i, j - i));
		else if (unlikely((left = sp_call_message(v, p + i, j - i, false)) != 0))
			for (; left; left--)
				sp_entity_add(v->entity, p[j - left]);
	}
}
