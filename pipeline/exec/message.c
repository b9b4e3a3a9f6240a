/* SPDX-License-Identifier: BSD-3-Clause */
#include "message.h"
#include "../engine.h"
#include "../context.h"
#include "measure.h"

#define SWEEP 4096 /* entries checked per sweep for idle messages */

/* ---- finding and entering ---- */

enum sp_enter sp_message_enter_counted(struct sp_view *v, struct sp_message_entry *e, uint32_t tag)
{
	uint64_t w = load(&e->word);

	for (;;) {
		if (TAG(w) != tag || w & CLOSING)
			return SP_ENTER_MISS;
		switch (STATE(w)) {
		case OPEN:
			if (swap(v, &e->word, &w, w + INSIDE))
				return SP_ENTER_OPEN;
			break;
		case NEW:
			if (swap(v, &e->word, &w, WORD(tag, HEADER, 1)))
				return SP_ENTER_HEADER;
			break;
		case HEADER:
			return SP_ENTER_BUSY;
		default:
			return SP_ENTER_MISS;
		}
	}
}

/* ---- several workers: which worker is inside ---- */

/* Nearly all runs of packets enter an open message. Counting them in the message's word would move its cache line
 * between workers twice per run; each move costs as much as a handler needs for several small packets. So a worker
 * stores in its own line which message it is inside, then reads the word, which rarely changes. (The word counts the
 * rest: the worker in header(), and handlers that hold a message between runs.) A worker that ends the message sets
 * CLOSING, then reads all those lines. These four accesses are sequentially consistent: a worker either sees CLOSING
 * and does not enter; or the ending worker sees it inside, and it then sees CLOSING on leaving and checks whether it is
 * the last. ENDING decides: one worker sets it, and reads the lines again, since its first look may concern an earlier
 * message in this entry with the same word. After CLOSING no worker enters, so a message found empty stays empty. */
static bool anybody_inside(const struct sp_context *c, const struct sp_messages_table *t, uint32_t at)
{
	for (uint16_t i = 0; i < c->nic->workers; i++)
		if (atomic_load_explicit(&t->inside[i].at, memory_order_seq_cst) == at)
			return true;
	return false;
}

static void finish(struct sp_view *v, struct sp_message_entry *e, uint64_t w);

/* After CLOSING was set or a worker has left: the last worker to leave ends the message. */
static __attribute__((noinline)) void end_when_left(struct sp_view *v, struct sp_message_entry *e)
{
	const struct sp_messages_table *t = v->context->messages;
	const uint32_t at = (uint32_t)(e - t->entry) + 1;

	for (;;) {
		uint64_t w = atomic_load_explicit(&e->word, memory_order_seq_cst), ending = (w & ~7ull) | ENDING;

		if (!(w & CLOSING) || COUNT(w) || STATE(w) == ENDING || STATE(w) == FREE ||
		    anybody_inside(v->context, t, at))
			return;
		if (!atomic_compare_exchange_strong_explicit(&e->word, &w, ending, memory_order_seq_cst,
							     memory_order_seq_cst))
			continue;
		if (!anybody_inside(v->context, t, at)) {
			finish(v, e, ending);
			return;
		}
		atomic_store_explicit(&e->word, w, memory_order_seq_cst); /* workers inside read this later */
	}
}

/* Fails if the message is not open, or this worker is inside another one. */
static inline bool enter_open(struct sp_view *v, struct sp_messages_table *t, struct sp_message_entry *e, uint32_t tag)
{
	struct inside *me = &t->inside[v->pub.worker];
	uint64_t w = load(&e->word);

	if (STATE(w) != OPEN || TAG(w) != tag || w & CLOSING || atomic_load_explicit(&me->at, memory_order_relaxed))
		return false;
	atomic_store_explicit(&me->at, (uint32_t)(e - t->entry) + 1, memory_order_seq_cst);
	w = atomic_load_explicit(&e->word, memory_order_seq_cst);
	if (likely(STATE(w) == OPEN && TAG(w) == tag && !(w & CLOSING)))
		return true;
	atomic_store_explicit(&me->at, 0, memory_order_seq_cst);
	end_when_left(v, e); /* an ending worker may have seen us inside */
	return false;
}

/* For a run: as sp_message_enter_counted(), but mostly without writing to shared lines. */
static inline enum sp_enter enter_run(struct sp_view *v, struct sp_messages_table *t, struct sp_message_entry *e,
				      uint32_t tag)
{
	return t->inside && likely(enter_open(v, t, e, tag)) ? SP_ENTER_OPEN : sp_message_enter_counted(v, e, tag);
}

/* Finds the entry of a key. The key is stable only once inside, when the entry cannot be freed. */
static inline enum sp_enter enter_hashed(struct sp_view *v, struct sp_messages_table *t, struct bucket *b, uint64_t key,
					 bool run, struct sp_message_entry **entry)
{
	for (unsigned i = 0; i < WAYS; i++) {
		uint32_t at = atomic_load_explicit(&b->entry[i], memory_order_acquire);
		struct sp_message_entry *e;
		enum sp_enter how;

		if (!at)
			continue;
		e = &t->entry[at - 1];
		if (__atomic_load_n(&e->pub.key, __ATOMIC_RELAXED) != key)
			continue;
		how = run ? enter_run(v, t, e, TAG(load(&e->word)))
			  : sp_message_enter_counted(v, e, TAG(load(&e->word)));
		if (how == SP_ENTER_BUSY)
			return how;
		if (how == SP_ENTER_MISS)
			continue;
		if (__atomic_load_n(&e->pub.key, __ATOMIC_RELAXED) == key) {
			*entry = e;
			return how;
		}
		(run ? sp_message_leave : sp_message_leave_counted)(v, e, false, 0);
	}
	return SP_ENTER_MISS;
}

/* Opens a message for its first packet. BUSY: another worker holds the table, so retry in the next poll. */
static enum sp_enter insert_hashed(struct sp_view *v, struct sp_messages_table *t, struct bucket *b, uint64_t key,
				   struct sp_message_entry **entry)
{
	enum sp_enter how;
	unsigned way = WAYS;

	if (!try_busy(v, t))
		return SP_ENTER_BUSY;
	sp_messages_give_back(t, v->pub.worker);
	how = enter_hashed(v, t, b, key, true, entry);
	if (how == SP_ENTER_MISS && unlikely(atomic_load_explicit(&t->closed, memory_order_relaxed))) {
		how = SP_ENTER_NEWER;
	} else if (how == SP_ENTER_MISS) {
		for (unsigned i = 0; i < WAYS && way == WAYS; i++)
			if (!atomic_load_explicit(&b->entry[i], memory_order_relaxed))
				way = i;
		how = SP_ENTER_FULL;
		if (way < WAYS && t->free) {
			struct sp_message_entry *e = &t->entry[t->free - 1];
			uint32_t at = t->free, tag = (TAG(load(&e->word)) + 1) & 0x7FFFFFFF;

			t->free = e->next;
			__atomic_store_n(&e->pub.key, key, __ATOMIC_RELAXED);
			e->companion.key = key;
			atomic_store_explicit(&e->word, WORD(tag, HEADER, 1), memory_order_release);
			atomic_store_explicit(&b->entry[way], at, memory_order_release);
			atomic_fetch_add_explicit(&t->open, 1, memory_order_relaxed);
			*entry = e;
			how = SP_ENTER_HEADER;
		}
	}
	end_busy(t);
	return how;
}

/* True if the packet's time is written to the message: rarely with several workers, to keep the cache line shared. */
static inline bool is_noted(const struct sp_messages_table *t, const struct sp_message_entry *e, sp_time now)
{
	return !t->inside || now >= __atomic_load_n(&e->pub.last, __ATOMIC_RELAXED) + t->last;
}

enum sp_enter sp_message_enter(struct sp_view *v, uint64_t key, struct sp_message_entry **entry)
{
	struct sp_messages_table *t = v->context->messages;
	enum sp_enter how;

	if (v->context->handler->messages == SP_MESSAGES_SLOTS) {
		uint32_t slot = (uint32_t)key;

		if (slot >= t->limit)
			return SP_ENTER_MISS;
		*entry = &t->entry[slot];
		how = enter_run(v, t, *entry, (uint32_t)(key >> 32));
	} else {
		struct bucket *b = bucket_of(t, key);

		how = enter_hashed(v, t, b, key, true, entry);
		if (how == SP_ENTER_MISS && unlikely(atomic_load_explicit(&t->closed, memory_order_acquire))) {
			/* Look again: this sees messages opened just before the table closed. */
			how = enter_hashed(v, t, b, key, true, entry);
			if (how == SP_ENTER_MISS)
				how = SP_ENTER_NEWER;
		} else if (how == SP_ENTER_MISS) {
			how = insert_hashed(v, t, b, key, entry);
		}
	}
	if (how == SP_ENTER_HEADER) {
		struct sp_message_entry *e = *entry;

		if (t->stride) /* for a traced context, header() restores the canaries */
			memset(e->pub.state, 0, t->stride);
		e->pub.first = e->companion.first = v->owner->now;
		__atomic_store_n(&e->pub.last, v->owner->now, __ATOMIC_RELAXED);
		e->companion.last = v->owner->now;
	} else if (how == SP_ENTER_OPEN && is_noted(t, *entry, v->owner->now)) {
		__atomic_store_n(&(*entry)->pub.last, v->owner->now, __ATOMIC_RELAXED);
	}
	return how;
}

enum sp_enter sp_message_enter_hashed(struct sp_view *v, uint64_t key, struct sp_message_entry **entry)
{
	struct sp_messages_table *t = v->context->messages;

	return enter_hashed(v, t, bucket_of(t, key), key, false, entry);
}

/* ---- leaving and ending ---- */

static void finish(struct sp_view *v, struct sp_message_entry *e, uint64_t w)
{
	struct sp_context *c = v->context;
	struct sp_messages_table *t = c->messages;
	const enum sp_end why = WHY(w);

	struct sp_view *const before = v->owner->doing.view; /* an outer call, if any */
	const uint32_t doing = sp_doing_call(v->owner, SP_DOING_COMPLETION);

	v->pub.now = v->owner->now;
	if (w & STARTED)
		atomic_fetch_sub_explicit(&t->started, 1, memory_order_relaxed);
	else /* no header() cleared the state: hide an earlier message's state from completion() */
		sp_messages_clear(c, e);
	if (c->companion && c->companion->attached) {
		struct sp_view *companion = c->companion->view[v->pub.worker];

		companion->pub.now = v->owner->now;
		sp_doing_view(v->owner, companion);
		if (c->companion->handler->completion)
			c->companion->handler->completion(&companion->pub, &e->companion, why);
		sp_doing_view(v->owner, before);
	}
	if (c->handler->completion)
		c->handler->completion(&v->pub, &e->pub, why);
	sp_doing_call(v->owner, doing);
	atomic_fetch_sub_explicit(&t->open, 1, memory_order_relaxed);
	if (t->bucket) {
		uint32_t at = (uint32_t)(e - t->entry) + 1;

		e->next = atomic_load_explicit(&t->dead[v->pub.worker], memory_order_relaxed);
		atomic_store_explicit(&t->dead[v->pub.worker], at, memory_order_relaxed);
	}
	/* Store last: from here on any worker can reopen the slot. */
	atomic_store_explicit(&e->word, WORD(TAG(w), FREE, 0), memory_order_release);
	if (!t->bucket)
		return;
	if (try_busy(v, t)) {
		sp_messages_give_back(t, v->pub.worker);
		end_busy(t);
	} else {
		v->owner->dead = true;
	}
}

void sp_messages_reclaim(struct sp_worker *w)
{
	bool left = false;

	const uint32_t ids = __atomic_load_n(&w->nic->context_next, __ATOMIC_ACQUIRE);

	for (uint32_t id = 0; id < ids; id++) {
		struct sp_context *c = __atomic_load_n(&w->nic->context[id], __ATOMIC_ACQUIRE);

		if (!c || !c->messages || !c->messages->bucket ||
		    !atomic_load_explicit(&c->messages->dead[w->index], memory_order_relaxed))
			continue;
		if (try_busy(c->view[w->index], c->messages)) {
			sp_messages_give_back(c->messages, w->index);
			end_busy(c->messages);
		} else {
			left = true;
		}
	}
	w->dead = left;
}

void sp_message_opened(struct sp_view *v, struct sp_message_entry *e)
{
	uint64_t w = load(&e->word);

	while (!swap(v, &e->word, &w, (w & ~(uint64_t)7) | OPEN | STARTED))
		;
	atomic_fetch_add_explicit(&v->context->messages->started, 1, memory_order_relaxed);
}

void sp_message_refused(struct sp_view *v, struct sp_message_entry *e)
{
	struct sp_messages_table *t = v->context->messages;
	uint64_t w = load(&e->word);

	/* A slot stays NEW, since its owner opened it: the next packet retries. If it was closed meanwhile,
	 * completion() must run. */
	while (!swap(v, &e->word, &w,
		     w & CLOSING ? (w & ~(INSIDE | 7)) | ENDING : WORD(TAG(w), t->bucket ? ENDING : NEW, 0)))
		;
	if (w & CLOSING) {
		finish(v, e, w);
		return;
	}
	if (!t->bucket)
		return;
	/* ENDING keeps all workers out until the entry is in the list of ended messages. */
	atomic_fetch_sub_explicit(&t->open, 1, memory_order_relaxed);
	e->next = atomic_load_explicit(&t->dead[v->pub.worker], memory_order_relaxed);
	atomic_store_explicit(&t->dead[v->pub.worker], (uint32_t)(e - t->entry) + 1, memory_order_relaxed);
	atomic_store_explicit(&e->word, WORD(TAG(w), FREE, 0), memory_order_release);
	v->owner->dead = true;
}

void sp_message_leave_counted(struct sp_view *v, struct sp_message_entry *e, bool end, enum sp_end why)
{
	const bool several = v->pub.workers > 1;
	uint64_t w = load(&e->word), next;

	do {
		next = w - INSIDE;
		if (end && !(w & CLOSING))
			next |= CLOSING | (uint64_t)why << 4;
		if (next & CLOSING && !COUNT(next) && !several)
			next = (next & ~(uint64_t)7) | ENDING;
	} while (!swap(v, &e->word, &w, next));
	if (STATE(next) == ENDING)
		finish(v, e, next);
	else if (several && next & CLOSING && !COUNT(next))
		end_when_left(v, e);
}

void sp_message_leave(struct sp_view *v, struct sp_message_entry *e, bool end, enum sp_end why)
{
	struct sp_messages_table *t = v->context->messages;
	uint64_t w;

	if (!t->inside ||
	    atomic_load_explicit(&t->inside[v->pub.worker].at, memory_order_relaxed) != (uint32_t)(e - t->entry) + 1) {
		sp_message_leave_counted(v, e, end, why);
		return;
	}
	w = load(&e->word);
	while (unlikely(end) && !(w & CLOSING) && !swap(v, &e->word, &w, w | CLOSING | (uint64_t)why << 4))
		;
	atomic_store_explicit(&t->inside[v->pub.worker].at, 0, memory_order_seq_cst);
	if (unlikely(atomic_load_explicit(&e->word, memory_order_seq_cst) & CLOSING))
		end_when_left(v, e);
}

int sp_message_close_entry(struct sp_view *v, struct sp_message_entry *e, uint32_t tag, enum sp_end why)
{
	const bool several = v->pub.workers > 1;
	uint64_t w = load(&e->word), next;

	do {
		if (TAG(w) != tag || w & CLOSING || STATE(w) == FREE || STATE(w) == ENDING)
			return -ENOENT;
		next = w | CLOSING | (uint64_t)why << 4;
		if (!COUNT(w) && !several)
			next = (next & ~(uint64_t)7) | ENDING;
	} while (!swap(v, &e->word, &w, next));
	if (STATE(next) == ENDING)
		finish(v, e, next);
	else if (several && !COUNT(next))
		end_when_left(v, e);
	return 0;
}

void sp_messages_end_all(struct sp_view *v)
{
	struct sp_messages_table *t = v->context->messages;

	for (uint32_t i = 0; t && i < t->limit; i++) {
		uint64_t w = load(&t->entry[i].word);

		if (STATE(w) != FREE)
			sp_message_close_entry(v, &t->entry[i], TAG(w), SP_END_DETACH);
	}
}

bool sp_message_is_open(struct sp_ctx *ctx, uint64_t key)
{
	const struct sp_messages_table *t = sp_view_of(ctx)->context->messages;
	uint64_t w;

	if (!t || t->bucket || (uint32_t)key >= t->limit)
		return false;
	w = load(&t->entry[(uint32_t)key].word);
	return TAG(w) == key >> 32 && !(w & CLOSING) && STATE(w) != FREE && STATE(w) != ENDING;
}

sp_time sp_messages_sweep(struct sp_view *v)
{
	struct sp_messages_table *t = v->context->messages;
	const sp_time now = v->owner->now;
	const uint32_t n = t->limit < SWEEP ? t->limit : SWEEP;

	for (uint32_t i = 0; i < n; i++) {
		struct sp_message_entry *e = &t->entry[t->cursor];
		uint64_t w = load(&e->word);
		sp_time last = __atomic_load_n(&e->pub.last, __ATOMIC_RELAXED);

		t->cursor = t->cursor + 1 == t->limit ? 0 : t->cursor + 1;
		if (STATE(w) == OPEN && last <= now && now - last >= t->idle + t->last)
			sp_message_close_entry(v, e, TAG(w), SP_END_TIMEOUT);
	}
	/* Checks each entry four times per idle time, for any number of entries. */
	return now + t->idle / 4 / (t->limit / n) + 1;
}

bool sp_message_is_here(struct sp_view *v, uint64_t key)
{
	struct sp_messages_table *t = v->context->messages;

	if (!t->bucket)
		return sp_message_is_open(&v->pub, key);
	if (!atomic_load_explicit(&t->closed, memory_order_acquire))
		return true;
	for (unsigned i = 0; i < WAYS; i++) {
		struct bucket *b = bucket_of(t, key);
		uint32_t at = atomic_load_explicit(&b->entry[i], memory_order_acquire);
		struct sp_message_entry *e = &t->entry[at ? at - 1 : 0];
		uint64_t w;

		if (!at || __atomic_load_n(&e->pub.key, __ATOMIC_RELAXED) != key)
			continue;
		w = load(&e->word);
		if (!(w & CLOSING) && (STATE(w) == HEADER || STATE(w) == OPEN))
			return true;
	}
	return false;
}

void sp_message_clear(struct sp_ctx *c, struct sp_message *m)
{
	const struct sp_context *context = sp_view_of(c)->context;

	sp_messages_clear(context, (struct sp_message_entry *)m);
}
