/* SPDX-License-Identifier: BSD-3-Clause */
/* Handlers' calls on messages: open, hold, release, close. */
#include "../context.h"
#include "message.h"
#include "../observe/tap.h"
#include "../worker.h"

#include <inttypes.h>

static void refuse_open(struct sp_ctx *ctx, uint64_t key)
{
	const struct sp_context *c = sp_view_of(ctx)->context;

	if (c->handler->messages != SP_MESSAGES_SLOTS)
		sp_tap_wrong(ctx, "opened a message, but messages = %s",
			     c->handler->messages == SP_MESSAGES_NONE ? "none" : "hashed");
	else if (!c->messages)
		sp_tap_wrong(ctx, "opened a message where it has none: %s",
			     c->first ? "a companion's are its context's" : "sp_messages_limit() comes first");
	else if (key >> 63)
		sp_tap_wrong(ctx, "opened message 0x%" PRIx64 ", whose tag is not below 2^31", key);
	else
		sp_tap_wrong(ctx, "opened slot %u of %u", (uint32_t)key, c->messages->limit);
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
	e->pub.key = e->companion.key = key;
	e->pub.first = v->owner->now;
	__atomic_store_n(&e->pub.last, v->owner->now, __ATOMIC_RELAXED);
	atomic_fetch_add_explicit(&t->open, 1, memory_order_relaxed);
	/* Release: a worker that enters sees all earlier writes of the handler. */
	atomic_store_explicit(&e->word, WORD(key >> 32, NEW, 0), memory_order_release);
	return 0;
}

/* Without a header(), a slot is open as soon as the handler opens it. */
static enum sp_enter enter_slot(struct sp_view *v, struct sp_message_entry *e, uint32_t tag)
{
	const struct sp_context *c = v->context;
	const unsigned state = STATE(load(&e->word));
	enum sp_enter how = SP_ENTER_MISS;

	if (state == OPEN ||
	    (state == NEW && !c->registered->header && !(c->companion && c->companion->registered->header)))
		how = sp_message_enter_counted(v, e, tag);
	if (how == SP_ENTER_HEADER) {
		sp_messages_clear(c, e);
		e->companion.first = e->companion.last = e->pub.first;
		sp_message_opened(v, e);
		how = SP_ENTER_OPEN;
	}
	return how;
}

/* A companion holds the first context's message, and gets its own part of it. */
struct sp_message *sp_message_hold(struct sp_ctx *ctx, uint64_t key)
{
	struct sp_view *v = sp_view_of(ctx);
	const bool companion = v->context->first;
	struct sp_message_entry *e;
	struct sp_messages_table *t;
	enum sp_enter how;

	if (companion)
		v = v->context->first->view[ctx->worker];
	t = v->context->messages;
	if (!t || (!t->bucket && (uint32_t)key >= t->limit))
		return NULL;
	if (t->bucket) {
		how = sp_message_enter_hashed(v, key, &e);
	} else {
		e = &t->entry[(uint32_t)key];
		how = enter_slot(v, e, (uint32_t)(key >> 32));
	}
	if (how != SP_ENTER_OPEN)
		return NULL;
	return companion ? &e->companion : &e->pub;
}

void sp_message_release(struct sp_ctx *ctx, struct sp_message *m)
{
	struct sp_view *v = sp_view_of(ctx);

	if (v->context->first)
		sp_message_leave_counted(v->context->first->view[ctx->worker],
					 (void *)((uint8_t *)m - offsetof(struct sp_message_entry, companion)), false,
					 0);
	else
		sp_message_leave_counted(v, (struct sp_message_entry *)m, false, 0);
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
		return sp_message_close_entry(v, &t->entry[(uint32_t)key], (uint32_t)(key >> 32), SP_END_CLOSED);
	}
	struct bucket *b = bucket_of(t, key);

	for (unsigned i = 0; i < WAYS; i++) {
		uint32_t at = atomic_load_explicit(&b->entry[i], memory_order_acquire);

		if (at && __atomic_load_n(&t->entry[at - 1].pub.key, __ATOMIC_RELAXED) == key) {
			struct sp_message_entry *e = &t->entry[at - 1];
			uint64_t w = load(&e->word);

			/* A reused entry has another tag, so it does not match. An ended entry may stay beside its
			 * successor until it is freed: look on. */
			if (__atomic_load_n(&e->pub.key, __ATOMIC_RELAXED) == key &&
			    !sp_message_close_entry(v, e, TAG(w), SP_END_CLOSED))
				return 0;
		}
	}
	return -ENOENT;
}
