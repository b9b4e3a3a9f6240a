/* SPDX-License-Identifier: BSD-3-Clause */
#include "message_table.h"
#include "../mem/canary.h"
#include "../engine.h"
#include "../context.h"
#include "../mem/context_alloc.h"
#include "../worker.h"

#include <sched.h>

#include <rte_branch_prediction.h>
#include <rte_common.h>

/* With several workers a message's `last` may lag behind its last packet by up to this. */
#define LAST (100 * SP_US)

/* Bytes for the state of one message. */
static size_t room(const struct sp_context *c, bool traced)
{
	const size_t bytes = c->handler->msg_size;

	return bytes ? RTE_ALIGN(bytes + (traced ? SP_CANARY : 0), 16) : 0;
}

void sp_messages_clear(const struct sp_context *c, struct sp_message_entry *e)
{
	const struct sp_messages_table *t = c->messages;

	if (t->stride)
		memset(e->pub.state, 0, t->stride);
	if (!c->traced)
		return;
	if (c->handler->msg_size)
		sp_canary_put((uint8_t *)e->pub.state + c->handler->msg_size, SP_CANARY);
	if (c->companion && c->companion->handler->msg_size)
		sp_canary_put((uint8_t *)e->companion.state + c->companion->handler->msg_size, SP_CANARY);
}

int sp_messages_create(struct sp_context *c, uint32_t limit, sp_time idle)
{
	const size_t own = room(c, c->traced), companion = c->companion ? room(c->companion, c->traced) : 0;
	const size_t charged = room(c, false) + (c->companion ? room(c->companion, false) : 0);
	struct sp_messages_table *t;
	uint32_t buckets = 1;

	if (limit == 0 || limit > SP_MAX_MESSAGES || c->messages)
		return -EINVAL;
	t = sp_context_alloc(c, sizeof(*t), 0);
	if (!t)
		return -ENOMEM;
	t->limit = limit;
	t->idle = idle;
	t->stride = own + companion;
	t->entry = sp_context_alloc(c, sizeof(*t->entry) * (size_t)limit, 0);
	t->states = t->stride ? sp_context_alloc(c, charged * limit, (t->stride - charged) * limit) : NULL;
	if (!t->entry || (t->stride && !t->states))
		return -ENOMEM;
	if (c->nic->workers > 1) {
		t->inside = sp_context_alloc(c, sizeof(*t->inside) * c->nic->workers, 0);
		if (!t->inside)
			return -ENOMEM;
		t->last = idle && idle / 16 < LAST ? idle / 16 : LAST;
	}
	for (uint32_t i = 0; i < limit; i++) {
		t->entry[i].pub.state = t->states + i * t->stride;
		t->entry[i].companion.state = t->states + i * t->stride + own;
		t->entry[i].next = i + 2 <= limit ? i + 2 : 0;
	}
	if (c->handler->messages == SP_MESSAGES_HASHED) {
		while (buckets < limit / 2) /* on average two entries in a bucket of 15: overflow is very rare */
			buckets *= 2;
		t->bucket = sp_context_alloc(c, sizeof(*t->bucket) * (size_t)buckets, 0);
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
	c->messages = NULL; /* the context frees the memory */
}

sp_time sp_messages_idle(const struct sp_context *c)
{
	return c->messages ? c->messages->idle : 0;
}

bool sp_messages_quiet(const struct sp_context *c)
{
	struct sp_messages_table *t = c->messages;

	return !t || ((!t->bucket || atomic_load_explicit(&t->closed, memory_order_acquire)) && !sp_messages_open(c));
}

void sp_messages_close(struct sp_context *c)
{
	struct sp_messages_table *t = c->messages;
	uint32_t zero = 0;

	if (!t || !t->bucket)
		return;
	/* A single worker needs no lock: it is the only reader of `closed`. */
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

static void give_back(struct sp_messages_table *t, uint32_t at)
{
	struct sp_message_entry *e = &t->entry[at - 1];
	struct bucket *b = bucket_of(t, e->pub.key);

	for (unsigned i = 0; i < WAYS; i++)
		if (atomic_load_explicit(&b->entry[i], memory_order_relaxed) == at)
			atomic_store_explicit(&b->entry[i], 0, memory_order_release);
	e->next = t->free;
	t->free = at;
}

void sp_messages_give_back(struct sp_messages_table *t, unsigned worker)
{
	uint32_t at = atomic_load_explicit(&t->dead[worker], memory_order_relaxed);

	atomic_store_explicit(&t->dead[worker], 0, memory_order_relaxed);
	while (at) {
		uint32_t next = t->entry[at - 1].next;
		give_back(t, at);
		at = next;
	}
}
