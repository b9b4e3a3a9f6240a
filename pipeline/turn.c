/* SPDX-License-Identifier: BSD-3-Clause */
#include "turn.h"
#include "dispatch.h"
#include "message.h"
#include "metered.h"
#include "share.h"
#include "transmit.h"
#include "watched.h"

#include <rte_mbuf.h>

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

static __attribute__((noinline)) void note_error(struct sp_view *v, const struct sp_packet *p, uint32_t verdict)
{
	if (verdict == p->verdict && verdict == SP_ERROR)
		sp_wrong_note(v, SP_WRONG_ERROR, 0, 0, 0, 0);
	else if ((verdict & 0xFF) == SP_DROP_KIND)
		sp_wrong_note(v, SP_WRONG_REASON, verdict >> 8, v->context->reasons, 0, 0);
	else if (verdict == SP_SENT || verdict == SP_FORWARD)
		sp_wrong_note(v, SP_WRONG_SENT, 0, 0, 0, 0);
	else
		sp_wrong_note(v, SP_WRONG_VERDICT, p->verdict, 0, 0, 0);
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
	note_error(v, p, verdict);
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
	sp_doing_view(v->owner, cv);
	__atomic_store_n(&e->beside.last, v->owner->now, __ATOMIC_RELAXED);
	for (unsigned i = 0, j; i < n; i = j) {
		const uint32_t before = p[i]->verdict;

		j = i + 1;
		if (before != SP_DONE && before != SP_END)
			continue;
		if (c->handler->payload_burst) {
			while (j < n && p[j]->verdict == before)
				j++;
			c->handler->payload_burst(&cv->pub, &e->beside, p + i, j - i);
		} else if (c->handler->payload) {
			c->handler->payload(&cv->pub, &e->beside, p[i]);
		}
		cv->packets += j - i;
		for (unsigned k = i; k < j; k++) {
			p[k]->verdict = before;
			cv->bytes += p[k]->frame_len;
		}
	}
	sp_doing_view(v->owner, v);
}

/* Packets of one message, from its inside. Returns whether a verdict ended it. */
static inline bool run_payload(struct sp_view *v, struct sp_message *m, struct sp_packet *const *p, unsigned n)
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
static bool run_header(struct sp_view *v, struct sp_message_entry *e, struct sp_packet *p)
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
		c->companion->handler->header(&cv->pub, &e->beside,
					      p); /* it cannot refuse the first handler's message */
		sp_doing_view(v->owner, v);
	}
	sp_doing_call(v->owner, SP_DOING_PACKETS);
	sp_message_opened(v, e);
	return true;
}

/* What is left of the turn of a context whose handler has been replaced meanwhile is the newest copy's, which has a
 * turn in this round, too. */
static void leave_to_newest(struct sp_view *v, struct sp_packet *const *p, unsigned n)
{
	struct sp_worker *w = v->owner;
	struct sp_view *newest = sp_context_newest(v->context)->view[w->index];

	for (unsigned i = 0; i < n; i++) {
		if (!newest->batched && w->actives == RTE_DIM(w->active)) {
			park(newest, p[i]);
			continue;
		}
		if (!newest->batched)
			w->active[w->actives++] = newest;
		newest->batch[newest->batched++] = p[i];
	}
}

/* One run: consecutive packets with one key. Returns how many at its end are not this copy's, which has been
 * replaced. */
static unsigned run_message(struct sp_view *v, struct sp_packet *const *p, unsigned n, bool replaced)
{
	unsigned tries = 0;

	while (n) {
		struct sp_message_entry *e = NULL;

		sp_doing_at(v->owner, (uint32_t)(p - v->owner->doing.packet));
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
				park(sp_context_newest(v->context)->view[v->pub.worker], p[i]);
			return 0;
		case SP_ENTER_FULL:
			for (unsigned i = 0; i < n; i++)
				sp_turn_drop(v->owner, p[i], SP_DROP_MESSAGE_TABLE_FULL);
			v->dropped += n;
			return 0;
		case SP_ENTER_NEWER:
			return n;
		case SP_ENTER_MISS:
			if (replaced)
				return n;
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

/* Packets of one copy, in order of arrival. */
static void run_own(struct sp_view *v, struct sp_packet **p, unsigned n)
{
	const struct sp_handler *h = v->context->handler;
	struct sp_worker *w = v->owner;
	unsigned i, j, left;

	if (!h->classify) {
		settle_run(v, p, n, run_payload(v, NULL, p, n));
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
			settle_run(v, p + i, j - i, run_payload(v, NULL, p + i, j - i));
		else if (unlikely((left = run_message(v, p + i, j - i, false)) != 0))
			leave_to_newest(v, p + j - left, left);
	}
}

/* ---- contexts whose handler has been replaced while messages were open: these end where they began ---- */

/* Of packets of the context those of this copy's messages. The others are left in p; returns how many. */
static unsigned run_older(struct sp_view *v, struct sp_packet **p, unsigned n)
{
	const struct sp_handler *h = v->context->handler;
	struct sp_worker *w = v->owner;
	struct sp_packet **q = v->batch; /* these first, then the others: a fault report shows all of them */
	bool here[RTE_DIM(v->batch)];
	unsigned own = 0, at = 0, left = 0, i, j;

	if (sp_messages_quiet(v->context))
		return n;
	v->pub.now = w->now;
	sp_doing_begin(w, v, SP_DOING_PACKETS, p, n);
	for (i = 0; i < n; i++) {
		uint64_t key;

		sp_doing_at(w, i);
		key = h->classify(&v->pub, p[i]);
		here[i] = key != SP_NO_MESSAGE && key <= SP_REJECT(256) && sp_message_is_here(v, key);
		if (here[i])
			p[i]->key = key;
		own += here[i];
	}
	for (i = 0, j = own; i < n; i++)
		q[here[i] ? at++ : j++] = p[i];
	sp_doing_begin(w, v, SP_DOING_PACKETS, q, n);
	for (i = 0; i < own; i = j) {
		unsigned other;

		for (j = i + 1; j < own && q[j]->key == q[i]->key; j++)
			;
		other = run_message(v, q + i, j - i, true);
		while (other) /* the message has ended just now */
			p[left++] = q[j - other--];
	}
	for (i = own; i < n; i++)
		p[left++] = q[i];
	return left;
}

static void run_copies(struct sp_view *v, struct sp_packet **p, unsigned n)
{
	struct sp_context *older[SP_MAX_COPIES], *c = v->context;
	unsigned copies = 0;

	if (c->home_only && c->home != v->pub.worker) { /* looked up when it was not yet so */
		for (unsigned i = 0; i < n; i++)
			sp_dispatch_hand_over(v->owner, c, p[i]);
		return;
	}
	while (copies < SP_MAX_COPIES && (c = __atomic_load_n(&c->older, __ATOMIC_ACQUIRE)) != NULL)
		older[copies++] = c;
	while (n && copies) /* the oldest first: only of the others it is certain that they open nothing any more */
		n = run_older(older[--copies]->view[v->pub.worker], p, n);
	if (!n)
		return;
	sp_doing_begin(v->owner, v, SP_DOING_PACKETS, p, n);
	run_own(v, p, n);
}

/* Packets that were looked up before another copy took over are the newest's, whose own come after. Returns whose turn
 * it is; NULL: it has had its turn. */
static struct sp_view *gather(struct sp_view *v)
{
	struct sp_context *c = sp_context_newest(v->context);
	struct sp_view *newest = c->view[v->pub.worker];

	while ((c = __atomic_load_n(&c->older, __ATOMIC_ACQUIRE)) != NULL) {
		struct sp_view *o = c->view[v->pub.worker];

		memmove(newest->batch + o->batched, newest->batch, newest->batched * sizeof(*newest->batch));
		memcpy(newest->batch, o->batch, o->batched * sizeof(*newest->batch));
		newest->batched += o->batched;
		o->batched = 0;
	}
	return newest->batched ? newest : NULL;
}

static inline bool has_copies(const struct sp_context *c)
{
	return __atomic_load_n(&c->older, __ATOMIC_ACQUIRE) || __atomic_load_n(&c->newer, __ATOMIC_ACQUIRE);
}

static inline void run_packets(struct sp_view *v, struct sp_packet **p, unsigned n)
{
	if (unlikely(__atomic_load_n(&v->context->older, __ATOMIC_ACQUIRE) != NULL))
		run_copies(v, p, n);
	else
		run_own(v, p, n);
}

void sp_turn_refuse(struct sp_view *v, struct sp_packet *const *p, unsigned n, enum sp_drop why)
{
	for (unsigned i = 0; i < n; i++)
		sp_turn_drop(v->owner, p[i], why);
	v->dropped += n;
	*(why == SP_DROP_OVER_BUDGET ? &v->over_budget : &v->disabled) += n;
}

/* Of a context with a budget: packet by packet, so that it is told which one cost too much, and what follows from that
 * holds for the next one already. */
static uint64_t run_budgeted(struct sp_view *v, struct sp_packet **p, unsigned n, uint64_t began)
{
	struct sp_worker *w = v->owner;
	struct sp_meter *m = &v->meter;

	if (began == SP_UNMEASURED)
		began = sp_meter_clock(w);
	for (unsigned i = 0; i < n; i++) {
		uint64_t now;

		if (sp_view_disabled(v)) {
			sp_turn_refuse(v, p + i, n - i, SP_DROP_CONTEXT_DISABLED);
			break;
		}
		if (m->debt) {
			sp_turn_refuse(v, p + i, 1, SP_DROP_OVER_BUDGET);
			m->debt -= RTE_MIN(m->debt, v->context->budget.cycles);
			continue;
		}
		run_packets(v, p + i, 1);
		now = sp_meter_clock(w);
		sp_meter_note(v, now - began, 1);
		began = now;
	}
	return began;
}

/* began: what the clock has said last, or SP_UNMEASURED. Returns what it says now. */
static inline uint64_t run_context(struct sp_view *v, uint64_t began)
{
	struct sp_worker *w = v->owner;
	struct sp_packet **p = v->batch;
	const unsigned n = v->batched;
	uint64_t now;

	v->batched = 0;
	v->pub.now = w->now;
	if (sp_view_disabled(v)) {
		sp_turn_refuse(v, p, n, SP_DROP_CONTEXT_DISABLED);
		return began;
	}
	sp_doing_begin(w, v, SP_DOING_PACKETS, p, n);
	if (!w->metering) {
		run_packets(v, p, n);
		return began;
	}
	if (unlikely(v->context->budget.cycles))
		return run_budgeted(v, p, n, began);
	if (sp_meter_alike(v, n)) {
		run_packets(v, p, n);
		return SP_UNMEASURED;
	}
	if (began == SP_UNMEASURED)
		began = sp_meter_clock(w);
	run_packets(v, p, n);
	now = sp_meter_clock(w);
	sp_meter_note(v, now - began, n);
	return now;
}

void sp_turns_run(struct sp_worker *w)
{
	uint64_t clock = SP_UNMEASURED;

	if (unlikely(w->observed))
		sp_onlook_match(w);
	if (w->share)
		sp_share_judge(w);
	for (unsigned i = 0; i < w->actives; i++) { /* a context whose copy was replaced may join it meanwhile */
		struct sp_view *v = w->active[i];

		if (unlikely(has_copies(v->context)) && !(v = gather(v)))
			continue;
		clock = run_context(v, clock);
	}
	w->actives = 0;
	sp_doing_end(w);
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

/* Who keeps on one worker may release on another: it is the sum that counts, of which a few more may be kept by several
 * workers at the same moment. */
static int64_t kept(const struct sp_context *c)
{
	int64_t sum = 0;

	for (uint16_t w = 0; w < c->nic->workers; w++)
		sum += __atomic_load_n(&c->view[w]->kept, __ATOMIC_RELAXED);
	return sum;
}

int sp_packet_keep(struct sp_ctx *c, struct sp_packet *p)
{
	struct sp_view *v = sp_view_of(c);

	if (!p->buf) {
		sp_watch_wrong(c, "kept a packet that has been sent");
		return -EINVAL;
	}
	if (unlikely(kept(v->context) >= SP_MAX_KEPT)) {
		v->kept_refused++;
		sp_wrong_note(v, SP_WRONG_KEPT, SP_MAX_KEPT, 0, 0, 0);
		return -ENOBUFS;
	}
	rte_mbuf_refcnt_update(p->buf, 1);
	__atomic_store_n(&v->kept, v->kept + 1, __ATOMIC_RELAXED);
	return 0;
}

void sp_packet_release(struct sp_ctx *c, void *buf)
{
	struct sp_view *v = sp_view_of(c);

	rte_pktmbuf_free(buf);
	__atomic_store_n(&v->kept, v->kept - 1, __ATOMIC_RELAXED);
}
