/* SPDX-License-Identifier: BSD-3-Clause */
#include "message.h"
#include "context.h"
#include "dispatch.h"
#include "engine.h"
#include "exec_context.h"
#include "grant.h"
#include "metered.h"
#include "view.h"
#include "watched.h"

#include <inttypes.h>
#include <rte_common.h>
#include <sched.h>

enum { FREE, NEW, HEADER, OPEN, ENDING };
#define STATE(w)		((unsigned)((w)&7))
#define CLOSING			8ull
#define WHY(w)			((enum sp_end)((w) >> 4 & 7))
#define STARTED			128ull /* header() has taken it */
#define INSIDE			256ull /* one run of packets inside */
#define COUNT(w)		((w) >> 8 & 0xFFFFFF)
#define TAG(w)			((uint32_t)((w) >> 32))
#define WORD(tag, state, count) ((uint64_t)(tag) << 32 | (uint64_t)(count) << 8 | (state))

#define WAYS 15
#define LAST                                                                                                           \
	(100 * SP_US) /* with several workers a message's `last` may be older than its last packet by this, or less */
#define SWEEP 4096    /* entries one tick of the idle timeout looks at */

struct bucket {
	_Atomic uint32_t entry[WAYS]; /* index + 1; [shared] written under table->busy */
	uint32_t pad;
} SP_CACHE_ALIGNED;

/* Where a worker is with a run of packets. Two lines: processors fetch them in pairs, the next worker's with it. */
struct inside {
	_Atomic uint32_t at; /* entry's index + 1, 0: nowhere; [worker] writes, whoever ends a message reads */
	uint8_t apart[124];
};

struct sp_messages_table {
	struct sp_message_entry *entry;
	struct inside *inside; /* a worker each; NULL: there is one worker */
	uint8_t *states;       /* message state of the handler, then of the companion, per entry */
	size_t stride;	       /* bytes per entry in states */
	uint32_t limit, mask;  /* entries; buckets - 1 */
	struct bucket *bucket;
	uint64_t seed;
	_Atomic uint32_t busy; /* HASHED: whoever may change buckets and free list; never waited for */
	uint32_t free;	       /* under busy: index + 1 of the first free entry */
	_Atomic bool closed;   /* HASHED: messages are opened in a newer copy; [shared] written under busy */
	_Atomic uint32_t open;
	_Atomic uint32_t started;	       /* those of them whose header has run */
	_Atomic uint32_t dead[SP_MAX_WORKERS]; /* [worker] ended here, not yet given back: index + 1 */
	sp_time idle, last;		       /* last: see LAST */
	uint32_t cursor;		       /* of the sweep for idle messages; [worker home] */
};

/* With one worker the locked forms would only cost. */
static inline bool swap(const struct sp_view *v, _Atomic uint64_t *word, uint64_t *old, uint64_t new)
{
	if (v->pub.workers == 1) {
		atomic_store_explicit(word, new, memory_order_relaxed);
		return true;
	}
	return atomic_compare_exchange_weak_explicit(word, old, new, memory_order_seq_cst, memory_order_acquire);
}

static inline uint64_t load(const _Atomic uint64_t *word)
{
	return atomic_load_explicit(word, memory_order_acquire);
}

static uint64_t mix(uint64_t k)
{
	k ^= k >> 33;
	k *= 0xff51afd7ed558ccdull;
	k ^= k >> 33;
	k *= 0xc4ceb9fe1a85ec53ull;
	return k ^ k >> 33;
}

static bool try_busy(const struct sp_view *v, struct sp_messages_table *t)
{
	uint32_t zero = 0;

	return v->pub.workers == 1 ||
	       atomic_compare_exchange_strong_explicit(&t->busy, &zero, 1, memory_order_acquire, memory_order_relaxed);
}

static void end_busy(struct sp_messages_table *t)
{
	atomic_store_explicit(&t->busy, 0, memory_order_release);
}

/* For one message's state. */
static size_t room(const struct sp_context *c, bool watched)
{
	const size_t bytes = c->handler->msg_size;

	return bytes ? RTE_ALIGN(bytes + (watched ? SP_CANARY : 0), 16) : 0;
}

static void clear(const struct sp_messages_table *t, struct sp_message_entry *e, const struct sp_context *c)
{
	if (t->stride)
		memset(e->pub.state, 0, t->stride);
	if (!c->watched)
		return;
	if (c->handler->msg_size)
		sp_canary_put((uint8_t *)e->pub.state + c->handler->msg_size, SP_CANARY);
	if (c->companion && c->companion->handler->msg_size)
		sp_canary_put((uint8_t *)e->beside.state + c->companion->handler->msg_size, SP_CANARY);
}

void sp_message_clear(struct sp_ctx *c, struct sp_message *m)
{
	const struct sp_context *context = sp_view_of(c)->context;

	clear(context->messages, (struct sp_message_entry *)m, context);
}

int sp_messages_create(struct sp_context *c, uint32_t limit, sp_time idle)
{
	const size_t own = room(c, c->watched), beside = c->companion ? room(c->companion, c->watched) : 0;
	const size_t charged = room(c, false) + (c->companion ? room(c->companion, false) : 0);
	struct sp_messages_table *t;
	uint32_t buckets = 1;

	if (limit == 0 || limit > SP_MAX_MESSAGES || c->messages)
		return -EINVAL;
	t = sp_grant_alloc(c, sizeof(*t), 0);
	if (!t)
		return -ENOMEM;
	t->limit = limit;
	t->idle = idle;
	t->stride = own + beside;
	t->entry = sp_grant_alloc(c, sizeof(*t->entry) * (size_t)limit, 0);
	t->states = t->stride ? sp_grant_alloc(c, charged * limit, (t->stride - charged) * limit) : NULL;
	if (!t->entry || (t->stride && !t->states))
		return -ENOMEM;
	if (c->nic->workers > 1) {
		t->inside = sp_grant_alloc(c, sizeof(*t->inside) * c->nic->workers, 0);
		if (!t->inside)
			return -ENOMEM;
		t->last = idle && idle / 16 < LAST ? idle / 16 : LAST;
	}
	for (uint32_t i = 0; i < limit; i++) {
		t->entry[i].pub.state = t->states + i * t->stride;
		t->entry[i].beside.state = t->states + i * t->stride + own;
		t->entry[i].next = i + 2 <= limit ? i + 2 : 0;
	}
	if (c->handler->messages == SP_MESSAGES_HASHED) {
		while (buckets < limit / 2) /* two entries in a bucket of 15 on the average: it hardly ever overflows */
			buckets *= 2;
		t->bucket = sp_grant_alloc(c, sizeof(*t->bucket) * (size_t)buckets, 0);
		if (!t->bucket)
			return -ENOMEM;
		t->mask = buckets - 1;
		t->free = 1;
		t->seed = sp_worker_random(c->nic->worker[c->home]);
	}
	c->messages = t;
	return 0;
}

void sp_messages_destroy(struct sp_context *c)
{
	c->messages = NULL; /* its memory is the context's */
}

bool sp_messages_quiet(const struct sp_context *c)
{
	struct sp_messages_table *t = c->messages;

	return !t || ((!t->bucket || atomic_load_explicit(&t->closed, memory_order_acquire)) && !sp_messages_open(c));
}

bool sp_message_is_here(struct sp_view *v, uint64_t key)
{
	struct sp_messages_table *t = v->context->messages;

	if (!t->bucket)
		return sp_message_is_open(&v->pub, key);
	if (!atomic_load_explicit(&t->closed, memory_order_acquire))
		return true;
	for (unsigned i = 0; i < WAYS; i++) {
		struct bucket *b = &t->bucket[mix(key ^ t->seed) & t->mask];
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

void sp_messages_close(struct sp_context *c)
{
	struct sp_messages_table *t = c->messages;
	uint32_t zero = 0;

	if (!t || !t->bucket)
		return;
	/* A single worker inserts without busy, and is the only one to ask: it has seen closed, or it has not. */
	while (c->nic->workers > 1 &&
	       !atomic_compare_exchange_weak_explicit(&t->busy, &zero, 1, memory_order_acquire, memory_order_relaxed)) {
		zero = 0;
		sched_yield();
	}
	atomic_store_explicit(&t->closed, true, memory_order_release);
	if (c->nic->workers > 1)
		end_busy(t);
}

uint32_t sp_messages_started(const struct sp_context *c)
{
	return c->messages ? atomic_load_explicit(&c->messages->started, memory_order_relaxed) : 0;
}

uint32_t sp_messages_open(const struct sp_context *c)
{
	return c->messages ? atomic_load_explicit(&c->messages->open, memory_order_relaxed) : 0;
}

/* ---- finding and entering ---- */

static enum sp_enter enter_entry(struct sp_view *v, struct sp_message_entry *e, uint32_t tag)
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

/* ---- several workers: who is inside ---- */

/*
 * Nearly all runs of packets enter a message that is open. Were they counted in its word, that would travel between the
 * workers twice a run, and each way takes as long as a handler takes for several small packets. So a worker says on a
 * line of its own where it is, and then looks at the word, which nobody writes meanwhile. (The word counts the others:
 * who runs the header, and who holds a message between runs.) Whoever ends the message sets CLOSING, and then looks at
 * all these lines. All four are sequentially consistent: either a worker sees CLOSING and does not enter, or it is
 * seen, and sees CLOSING when it has left; then it looks in turn whether it was the last. That is decided by ENDING,
 * which one of them sets. It looks at the lines once more then: what it has seen of them before may be about an earlier
 * message in this entry, which other words of the same bits were about. From CLOSING on nobody enters, so what is found
 * empty stays so.
 */
static bool anybody_inside(const struct sp_context *c, const struct sp_messages_table *t, uint32_t at)
{
	for (uint16_t i = 0; i < c->nic->workers; i++)
		if (atomic_load_explicit(&t->inside[i].at, memory_order_seq_cst) == at)
			return true;
	return false;
}

static void finish(struct sp_view *v, struct sp_message_entry *e, uint64_t w);

/* After CLOSING was set or somebody has left: the last one out finishes. */
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
		atomic_store_explicit(&e->word, w, memory_order_seq_cst); /* whoever is inside looks at it after this */
	}
}

/* Where the message is not open, or this worker is inside another one already: no. */
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
	end_when_left(v, e); /* who wanted to may have seen us */
	return false;
}

/* A run's: as enter_entry(), but mostly without writing to what others read. */
static inline enum sp_enter enter_run(struct sp_view *v, struct sp_messages_table *t, struct sp_message_entry *e,
				      uint32_t tag)
{
	return t->inside && likely(enter_open(v, t, e, tag)) ? SP_ENTER_OPEN : enter_entry(v, e, tag);
}

static void leave_counted(struct sp_view *v, struct sp_message_entry *e, bool end, enum sp_end why);

/* The entry of a key in its bucket; the key is only certain once inside, when the entry cannot be given back. */
static enum sp_enter enter_hashed(struct sp_view *v, struct sp_messages_table *t, struct bucket *b, uint64_t key,
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
		how = run ? enter_run(v, t, e, TAG(load(&e->word))) : enter_entry(v, e, TAG(load(&e->word)));
		if (how == SP_ENTER_BUSY)
			return how;
		if (how == SP_ENTER_MISS)
			continue;
		if (__atomic_load_n(&e->pub.key, __ATOMIC_RELAXED) == key) {
			*entry = e;
			return how;
		}
		(run ? sp_message_leave : leave_counted)(v, e, false, 0);
	}
	return SP_ENTER_MISS;
}

static void give_back(struct sp_messages_table *t, uint32_t at)
{
	struct sp_message_entry *e = &t->entry[at - 1];
	struct bucket *b = &t->bucket[mix(e->pub.key ^ t->seed) & t->mask];

	for (unsigned i = 0; i < WAYS; i++)
		if (atomic_load_explicit(&b->entry[i], memory_order_relaxed) == at)
			atomic_store_explicit(&b->entry[i], 0, memory_order_release);
	e->next = t->free;
	t->free = at;
}

static void drain_dead(struct sp_messages_table *t, unsigned worker)
{
	uint32_t at = atomic_load_explicit(&t->dead[worker], memory_order_relaxed);

	atomic_store_explicit(&t->dead[worker], 0, memory_order_relaxed);
	while (at) {
		uint32_t next = t->entry[at - 1].next;
		give_back(t, at);
		at = next;
	}
}

/* Opens a message for its first packet. Losing the race for the table means: look again at the next poll. */
static enum sp_enter insert_hashed(struct sp_view *v, struct sp_messages_table *t, struct bucket *b, uint64_t key,
				   struct sp_message_entry **entry)
{
	enum sp_enter how;
	unsigned way = WAYS;

	if (!try_busy(v, t))
		return SP_ENTER_BUSY;
	drain_dead(t, v->pub.worker);
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
			e->beside.key = key;
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

/* Is a packet that comes now to be the message's last one? */
static inline bool told_of(const struct sp_messages_table *t, const struct sp_message_entry *e, sp_time now)
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
		struct bucket *b = &t->bucket[mix(key ^ t->seed) & t->mask];

		how = enter_hashed(v, t, b, key, true, entry);
		if (how == SP_ENTER_MISS && unlikely(atomic_load_explicit(&t->closed, memory_order_acquire))) {
			/* Once more: what was opened just before it was closed is seen now. */
			how = enter_hashed(v, t, b, key, true, entry);
			if (how == SP_ENTER_MISS)
				how = SP_ENTER_NEWER;
		} else if (how == SP_ENTER_MISS) {
			how = insert_hashed(v, t, b, key, entry);
		}
	}
	if (how == SP_ENTER_HEADER) {
		struct sp_message_entry *e = *entry;

		if (t->stride) /* of a watched context, its header() puts the canaries back */
			memset(e->pub.state, 0, t->stride);
		e->pub.first = e->beside.first = v->owner->now;
		__atomic_store_n(&e->pub.last, v->owner->now, __ATOMIC_RELAXED);
		e->beside.last = v->owner->now;
	} else if (how == SP_ENTER_OPEN && told_of(t, *entry, v->owner->now)) {
		__atomic_store_n(&(*entry)->pub.last, v->owner->now, __ATOMIC_RELAXED);
	}
	return how;
}

/* ---- leaving and ending ---- */

static void finish(struct sp_view *v, struct sp_message_entry *e, uint64_t w)
{
	struct sp_context *c = v->context;
	struct sp_messages_table *t = c->messages;
	const enum sp_end why = WHY(w);

	struct sp_view *const before = v->owner->doing.view; /* the call that this one may be within */
	const uint32_t doing = sp_doing_call(v->owner, SP_DOING_COMPLETION);

	v->pub.now = v->owner->now;
	if (w & STARTED)
		atomic_fetch_sub_explicit(&t->started, 1, memory_order_relaxed);
	else /* no header has cleared it: completion() shall not see what an earlier message left */
		clear(t, e, c);
	if (c->companion && c->companion->attached) {
		struct sp_view *beside = c->companion->view[v->pub.worker];

		beside->pub.now = v->owner->now;
		sp_doing_view(v->owner, beside);
		if (c->companion->handler->completion)
			c->companion->handler->completion(&beside->pub, &e->beside, why);
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
	/* Last: from here on the slot can be opened again, also by another worker. */
	atomic_store_explicit(&e->word, WORD(TAG(w), FREE, 0), memory_order_release);
	if (!t->bucket)
		return;
	if (try_busy(v, t)) {
		drain_dead(t, v->pub.worker);
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
			drain_dead(c->messages, w->index);
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

	/* A slot's owner opened it: it stays, and the next packet tries again. Whoever has closed it meanwhile was
	 * promised a completion. */
	while (!swap(v, &e->word, &w,
		     w & CLOSING ? (w & ~(INSIDE | 7)) | ENDING : WORD(TAG(w), t->bucket ? ENDING : NEW, 0)))
		;
	if (w & CLOSING) {
		finish(v, e, w);
		return;
	}
	if (!t->bucket)
		return;
	/* ENDING kept everybody out while the entry goes onto the list. */
	atomic_fetch_sub_explicit(&t->open, 1, memory_order_relaxed);
	e->next = atomic_load_explicit(&t->dead[v->pub.worker], memory_order_relaxed);
	atomic_store_explicit(&t->dead[v->pub.worker], (uint32_t)(e - t->entry) + 1, memory_order_relaxed);
	atomic_store_explicit(&e->word, WORD(TAG(w), FREE, 0), memory_order_release);
	v->owner->dead = true;
}

static void leave_counted(struct sp_view *v, struct sp_message_entry *e, bool end, enum sp_end why)
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
		leave_counted(v, e, end, why);
		return;
	}
	w = load(&e->word);
	while (unlikely(end) && !(w & CLOSING) && !swap(v, &e->word, &w, w | CLOSING | (uint64_t)why << 4))
		;
	atomic_store_explicit(&t->inside[v->pub.worker].at, 0, memory_order_seq_cst);
	if (unlikely(atomic_load_explicit(&e->word, memory_order_seq_cst) & CLOSING))
		end_when_left(v, e);
}

static int close_entry(struct sp_view *v, struct sp_message_entry *e, uint32_t tag, enum sp_end why)
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
			close_entry(v, &t->entry[i], TAG(w), SP_END_DETACH);
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

/* ---- handlers' calls ---- */

static void refuse_open(struct sp_ctx *ctx, uint64_t key)
{
	const struct sp_context *c = sp_view_of(ctx)->context;

	if (c->handler->messages != SP_MESSAGES_SLOTS)
		sp_watch_wrong(ctx, "opened a message, but messages = %s",
			       c->handler->messages == SP_MESSAGES_NONE ? "none" : "hashed");
	else if (!c->messages)
		sp_watch_wrong(ctx, "opened a message where it has none: %s",
			       c->first ? "a companion's are its context's" : "sp_messages_limit() comes first");
	else if (key >> 63)
		sp_watch_wrong(ctx, "opened message 0x%" PRIx64 ", whose tag is not below 2^31", key);
	else
		sp_watch_wrong(ctx, "opened slot %u of %u", (uint32_t)key, c->messages->limit);
}

int sp_message_open(struct sp_ctx *ctx, uint64_t key)
{
	struct sp_view *v = sp_view_of(ctx);
	struct sp_messages_table *t = v->context->messages;
	uint32_t slot = (uint32_t)key;
	struct sp_message_entry *e;

	if (!t || t->bucket || slot >= t->limit || key >> 63) {
		refuse_open(ctx, key);
		return -EINVAL;
	}
	e = &t->entry[slot];
	if (STATE(load(&e->word)) != FREE)
		return -EEXIST;
	e->pub.key = e->beside.key = key;
	e->pub.first = v->owner->now;
	__atomic_store_n(&e->pub.last, v->owner->now, __ATOMIC_RELAXED);
	atomic_fetch_add_explicit(&t->open, 1, memory_order_relaxed);
	/* Release: who gets in sees all that the handler wrote before. */
	atomic_store_explicit(&e->word, WORD(key >> 32, NEW, 0), memory_order_release);
	return 0;
}

/* Where there is no header() to come first, a slot that was opened is open before anything has come. */
static enum sp_enter enter_slot(struct sp_view *v, struct sp_message_entry *e, uint32_t tag)
{
	const struct sp_context *c = v->context;
	const unsigned state = STATE(load(&e->word));
	enum sp_enter how = SP_ENTER_MISS;

	if (state == OPEN ||
	    (state == NEW && !c->registered->header && !(c->companion && c->companion->registered->header)))
		how = enter_entry(v, e, tag);
	if (how == SP_ENTER_HEADER) {
		clear(v->context->messages, e, c);
		e->beside.first = e->beside.last = e->pub.first;
		sp_message_opened(v, e);
		how = SP_ENTER_OPEN;
	}
	return how;
}

/* A companion holds its first context's messages, and gets its own side of them. */
struct sp_message *sp_message_hold(struct sp_ctx *ctx, uint64_t key)
{
	struct sp_view *v = sp_view_of(ctx);
	const bool beside = v->context->first;
	struct sp_message_entry *e;
	struct sp_messages_table *t;
	enum sp_enter how;

	if (beside)
		v = v->context->first->view[ctx->worker];
	t = v->context->messages;
	if (!t || (!t->bucket && (uint32_t)key >= t->limit))
		return NULL;
	if (t->bucket) {
		how = enter_hashed(v, t, &t->bucket[mix(key ^ t->seed) & t->mask], key, false, &e);
	} else {
		e = &t->entry[(uint32_t)key];
		how = enter_slot(v, e, (uint32_t)(key >> 32));
	}
	if (how != SP_ENTER_OPEN)
		return NULL;
	return beside ? &e->beside : &e->pub;
}

void sp_message_release(struct sp_ctx *ctx, struct sp_message *m)
{
	struct sp_view *v = sp_view_of(ctx);

	if (v->context->first)
		leave_counted(v->context->first->view[ctx->worker],
			      (void *)((uint8_t *)m - offsetof(struct sp_message_entry, beside)), false, 0);
	else
		leave_counted(v, (struct sp_message_entry *)m, false, 0);
}

int sp_message_close(struct sp_ctx *ctx, uint64_t key)
{
	struct sp_view *v = sp_view_of(ctx);
	struct sp_messages_table *t = v->context->messages;

	if (!t)
		return -ENOENT;
	if (!t->bucket) {
		if ((uint32_t)key >= t->limit)
			return -ENOENT;
		return close_entry(v, &t->entry[(uint32_t)key], (uint32_t)(key >> 32), SP_END_CLOSED);
	}
	struct bucket *b = &t->bucket[mix(key ^ t->seed) & t->mask];

	for (unsigned i = 0; i < WAYS; i++) {
		uint32_t at = atomic_load_explicit(&b->entry[i], memory_order_acquire);

		if (at && __atomic_load_n(&t->entry[at - 1].pub.key, __ATOMIC_RELAXED) == key) {
			struct sp_message_entry *e = &t->entry[at - 1];
			uint64_t w = load(&e->word);

			/* A reused entry has another tag by now, and is then not found. One that has ended may stand
			 * beside its successor until it is given back: look on. */
			if (__atomic_load_n(&e->pub.key, __ATOMIC_RELAXED) == key &&
			    !close_entry(v, e, TAG(w), SP_END_CLOSED))
				return 0;
		}
	}
	return -ENOENT;
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
			close_entry(v, e, TAG(w), SP_END_TIMEOUT);
	}
	/* Four looks at every entry per idle time, whatever the number of entries. */
	return now + t->idle / 4 / (t->limit / n) + 1;
}

sp_time sp_messages_idle(const struct sp_context *c)
{
	return c->messages ? c->messages->idle : 0;
}
