/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rvma, the buffers of a window: posting, the head and what has been placed in it, retirement, hand-over, what is held.
 */
#include "bucket.h"
#include "../mem_range.h"
#include "copy.h"

static uint32_t rv_index(const struct rv *s, const struct rv_buffer *b)
{
	return (uint32_t)(b - s->buffer);
}

static struct rv_buffer *rv_buffer_take(struct rv *s)
{
	struct rv_buffer *b;

	if (s->buffer_free != RV_NONE) {
		b = &s->buffer[s->buffer_free];
		s->buffer_free = b->next;
		return b;
	}
	return s->buffer_fresh < s->buffers ? &s->buffer[s->buffer_fresh++] : NULL;
}

static void rv_buffer_give(struct sp_ctx *c, struct rv_buffer *b)
{
	struct rv *s = rv_of(c);

	if (b->mem)
		sp_mem_put(c, b->mem);
	if (b->notify)
		sp_mem_put(c, b->notify);
	*b = (struct rv_buffer){.next = s->buffer_free};
	s->buffer_free = rv_index(s, b);
}

static void rv_queue_push(struct rv *s, struct rv_queue *q, struct rv_buffer *b)
{
	const uint32_t at = rv_index(s, b);

	b->next = RV_NONE;
	if (q->count++)
		s->buffer[q->last].next = at;
	else
		q->first = at;
	q->last = at;
}

static struct rv_buffer *rv_queue_pop(struct rv *s, struct rv_queue *q)
{
	struct rv_buffer *b = &s->buffer[q->first];

	q->first = b->next;
	if (!--q->count)
		q->first = q->last = RV_NONE;
	return b;
}

/* ---- counters ---- */
/* The counts of a head are on the NIC as long as counters are free there, otherwise in the area (section IV-B of the
 * paper). */
static bool rv_spilled(const struct rv *s, const struct rv_window *w)
{
	return w->counter >= s->counters;
}

static uint64_t rv_spill(const struct rv *s, const struct rv_window *w)
{
	return s->layout.spill + rv_line(s, w) * sizeof(struct sp_rvma_count);
}

static void rv_counter_give(struct rv *s, struct rv_window *w)
{
	if (w->counter != RV_NONE && !rv_spilled(s, w))
		s->counter_free[s->counters_free++] = w->counter;
	w->counter = RV_NONE;
}

static void rv_counter_zero(struct sp_ctx *c, struct rv_window *w)
{
	struct rv *s = rv_of(c);

	if (w->counter == RV_NONE)
		return;
	if (!rv_spilled(s, w)) {
		s->count[w->counter] = (struct sp_rvma_count){0};
		return;
	}
	sp_dma_store64(c, s->area, rv_spill(s, w) + offsetof(struct sp_rvma_count, bytes), 0);
	sp_dma_store64(c, s->area, rv_spill(s, w) + offsetof(struct sp_rvma_count, ops), 0);
}

/* Makes posted.first the head, if there is one. */
static void rv_head_begin(struct sp_ctx *c, struct rv_window *w)
{
	struct rv *s = rv_of(c);

	if (!w->posted.count || w->flags & SP_RVMA_REGION) {
		rv_counter_give(s, w);
		return;
	}
	if (w->counter == RV_NONE || rv_spilled(s, w)) {
		if (s->counters_free) {
			w->counter = s->counter_free[--s->counters_free];
		} else {
			w->counter = s->counters;
			c->counters[RV_SPILLS]++;
		}
	}
	rv_counter_zero(c, w);
}

/* A count that is read back from the area decides about thresholds only, never about where a put goes. */
struct sp_rvma_count rv_bucket_count(struct sp_ctx *c, struct rv_window *w, struct rv_buffer *b, uint64_t bytes,
				     uint64_t ops)
{
	struct rv *s = rv_of(c);
	struct sp_rvma_count n = {0};

	if (b->state != RV_POSTED || w->counter == RV_NONE) {
		n = (struct sp_rvma_count){b->bytes += bytes, b->ops += ops};
	} else if (!rv_spilled(s, w)) {
		struct sp_rvma_count *count = &s->count[w->counter];

		n = (struct sp_rvma_count){count->bytes += bytes, count->ops += ops};
	} else {
		sp_dma_add64(c, s->area, rv_spill(s, w) + offsetof(struct sp_rvma_count, bytes), bytes, &n.bytes);
		sp_dma_add64(c, s->area, rv_spill(s, w) + offsetof(struct sp_rvma_count, ops), ops, &n.ops);
		n.bytes += bytes;
		n.ops += ops;
	}
	return n;
}

/* ---- posting ---- */
static int rv_post_memory(struct sp_ctx *c, struct rv_buffer *b, const struct sp_command *command)
{
	const uint32_t id = (uint32_t)command->arg[0], notify = (uint32_t)(command->arg[0] >> 32);

	b->offset = command->arg[1];
	b->length = command->arg[2];
	b->notify_offset = command->arg[3];
	if (mem_range_get(c, id, b->offset, b->length, &b->mem))
		return -EFAULT;
	if (!notify)
		return 0;
	if (mem_range_get(c, notify, b->notify_offset, sizeof(struct sp_rvma_notification), &b->notify))
		return -EFAULT;
	if (((uintptr_t)b->notify->base + b->notify_offset) % sizeof(struct sp_rvma_notification))
		return -EINVAL;
	return 0;
}

static bool rv_post_allowed(const struct rv_window *w, uint64_t length)
{
	if (w->flags & SP_RVMA_REGION && w->posted.count)
		return false;
	if (w->limit_buffers && w->posted.count >= w->limit_buffers)
		return false;
	return !w->limit_bytes || (length <= w->limit_bytes && w->posted_bytes <= w->limit_bytes - length);
}

int rv_bucket_post(struct sp_ctx *c, struct rv_window *w, const struct sp_command *command)
{
	struct rv *s = rv_of(c);
	struct rv_buffer *b;
	int rc;

	if (w->closed)
		return -ESHUTDOWN;
	if (command->arg[0] >> 32 && !command->cookie)
		return -EINVAL; /* nobody would see the notification */
	if (!rv_post_allowed(w, command->arg[2]))
		return -EDQUOT;
	b = rv_buffer_take(s);
	if (!b)
		return -ENOBUFS;
	rc = rv_post_memory(c, b, command);
	if (rc) {
		rv_buffer_give(c, b);
		return rc;
	}
	b->address = command->cookie;
	b->threshold = command->arg[4] ? command->arg[4] : w->threshold;
	b->mailbox = w->mailbox;
	b->state = RV_POSTED;
	w->posted_bytes += b->length;
	rv_queue_push(s, &w->posted, b);
	if (w->posted.count == 1)
		rv_head_begin(c, w);
	RV_PUBLISH(c, s, w, posted, w->posted.count);
	return 0;
}

/* ---- retirement ---- */
uint64_t rv_bucket_length(const struct rv_window *w, const struct rv_buffer *b)
{
	return w->flags & SP_RVMA_MANAGED ? b->tail : b->bytes;
}

static void rv_notify(struct sp_ctx *c, const struct rv_window *w, const struct rv_buffer *b, uint64_t epoch)
{
	const struct sp_rvma_notification n = {.length = rv_bucket_length(w, b),
					       .epoch = epoch,
					       .flags = b->flags,
					       .mailbox = b->mailbox,
					       .puts = b->ops};
	const size_t behind = offsetof(struct sp_rvma_notification, length);

	sp_dma_write(c, b->notify, b->notify_offset + behind, (const uint8_t *)&n + behind, sizeof(n) - behind);
	sp_dma_store64(c, b->notify, b->notify_offset + offsetof(struct sp_rvma_notification, address), b->address);
}

void rv_window_publish(struct sp_ctx *c, const struct rv_window *w)
{
	const struct rv *s = rv_of(c);

	RV_PUBLISH(c, s, w, posted, w->posted.count);
	RV_PUBLISH(c, s, w, puts, w->puts);
	RV_PUBLISH(c, s, w, bytes, w->bytes);
	RV_PUBLISH(c, s, w, held, w->notified - w->first_held);
	RV_PUBLISH(c, s, w, closed, w->closed);
	RV_PUBLISH(c, s, w, epoch, w->notified);
}

/* Forgets the first held buffer. */
static void rv_forget(struct sp_ctx *c, struct rv_buffer *b, const struct rv_window *w, uint64_t epoch)
{
	struct rv *s = rv_of(c);

	sp_rvma_table_remove(&s->held, RV_EPOCH(rv_line(s, w), epoch));
	if (b->open)
		b->state = RV_FORGOTTEN;
	else
		rv_buffer_give(c, b);
}

static void rv_forget_first(struct sp_ctx *c, struct rv_window *w)
{
	struct rv_buffer *b = rv_queue_pop(rv_of(c), &w->held);

	rv_forget(c, b, w, w->first_held++);
}

static void rv_hand_over_later(struct sp_ctx *c, struct rv_window *w)
{
	struct rv *s = rv_of(c);

	if (w->handing)
		return;
	w->handing = true;
	w->next_handing = s->handing;
	s->handing = rv_line(s, w);
	sp_work_start(c, &s->work);
}

bool rv_bucket_work(struct sp_ctx *c, struct sp_work *work)
{
	struct rv *s = rv_of(c);
	struct rv_window *w = &s->window[s->handing];

	(void)work;
	s->handing = w->next_handing;
	w->handing = false;
	rv_bucket_hand_over(c, w);
	return s->handing != RV_NONE;
}

void rv_bucket_hand_over(struct sp_ctx *c, struct rv_window *w)
{
	struct rv *s = rv_of(c);
	const uint64_t before = w->notified;

	while (w->notified < w->epoch && !w->freeing && !s->buffer[w->retiring].open) {
		struct rv_buffer *b = &s->buffer[w->retiring];

		if (w->notified - before == RV_HANDED) { /* one put can have held up any number of buffers */
			rv_hand_over_later(c, w);
			break;
		}

		rv_copied(s);
		w->retiring = b->next;
		b->state = RV_COMPLETE;
		if (b->notify) {
			rv_notify(c, w, b, w->notified);
			sp_mem_put(c, b->notify);
			b->notify = NULL;
		}
		if (!(w->flags & SP_RVMA_READABLE)) {
			sp_mem_put(c, b->mem);
			b->mem = NULL;
		}
		w->notified++;
		c->counters[RV_EPOCHS]++;
		if (w->flags & SP_RVMA_FORGET)
			rv_forget_first(c, w);
	}
	if (w->notified == before)
		return;
	RV_PUBLISH(c, s, w, held, w->notified - w->first_held);
	RV_PUBLISH(c, s, w, epoch, w->notified);
}

void rv_bucket_retire(struct sp_ctx *c, struct rv_window *w, uint8_t flags)
{
	struct rv *s = rv_of(c);
	struct rv_buffer *b = &s->buffer[w->posted.first];
	const struct sp_rvma_count n = rv_bucket_count(c, w, b, 0, 0);

	rv_queue_pop(s, &w->posted);
	w->posted_bytes -= b->length;
	b->bytes = n.bytes;
	b->ops = n.ops;
	b->flags |= flags;
	b->state = RV_RETIRING;
	rv_queue_push(s, &w->held, b);
	if (w->notified == w->epoch)
		w->retiring = rv_index(s, b);
	sp_rvma_table_add(&s->held, RV_EPOCH(rv_line(s, w), w->epoch), rv_index(s, b));
	w->epoch++;
	rv_head_begin(c, w);
	RV_PUBLISH(c, s, w, posted, w->posted.count);
	rv_bucket_hand_over(c, w);
}

/* ---- held buffers ---- */
struct rv_buffer *rv_bucket_held(struct rv *s, const struct rv_window *w, uint64_t epoch)
{
	if (epoch < w->first_held || epoch >= w->notified)
		return NULL;

	const uint32_t at = sp_rvma_table_find(&s->held, RV_EPOCH(rv_line(s, w), epoch));

	return at == UINT32_MAX ? NULL : &s->buffer[at];
}

int rv_bucket_release(struct sp_ctx *c, struct rv_window *w, uint64_t epoch)
{
	struct rv *s = rv_of(c);
	int rc = 0;

	for (uint32_t n = 0; !rc && w->first_held <= epoch; n++)
		if (s->buffer[w->held.first].open)
			rc = -EAGAIN;
		else if (n == RV_SLICE)
			rc = -EINPROGRESS;
		else
			rv_forget_first(c, w);
	RV_PUBLISH(c, s, w, held, w->notified - w->first_held);
	return rc;
}

/* Takes back what has come into a buffer. The counts may be from the area, and say anything. */
static void rv_uncount(struct rv_window *w, struct sp_rvma_count n)
{
	w->bytes -= n.bytes < w->bytes ? n.bytes : w->bytes;
	w->puts -= n.ops < w->puts ? n.ops : w->puts;
}

void rv_bucket_rewind(struct sp_ctx *c, struct rv_window *w, uint64_t keep)
{
	struct rv *s = rv_of(c);
	struct rv_buffer *b = keep ? rv_bucket_held(s, w, keep - 1) : NULL;
	uint32_t next = b ? b->next : w->held.first;

	if (b)
		b->next = RV_NONE;
	else
		w->held.first = RV_NONE;
	w->held.last = b ? rv_index(s, b) : RV_NONE;
	w->held.count -= (uint32_t)(w->epoch - keep);
	for (uint64_t later = keep; later < w->epoch; later++) {
		struct rv_buffer *x = &s->buffer[next];

		next = x->next;
		rv_uncount(w, (struct sp_rvma_count){x->bytes, x->ops});
		rv_forget(c, x, w, later);
	}
	w->epoch = w->notified = keep;
	if (w->posted.count) {
		struct rv_buffer *head = &s->buffer[w->posted.first];

		rv_uncount(w, rv_bucket_count(c, w, head, 0, 0));
		rv_counter_zero(c, w);
		head->tail = 0;
		head->flags = 0;
		head->mailbox = w->mailbox;
	}
	rv_window_publish(c, w);
}

bool rv_bucket_empty(struct sp_ctx *c, struct rv_window *w)
{
	struct rv *s = rv_of(c);

	for (uint32_t n = 0; w->posted.count || w->held.count; n++) {
		if (n == RV_SLICE)
			return false;
		if (w->posted.count)
			rv_buffer_give(c, rv_queue_pop(s, &w->posted));
		else
			rv_forget_first(c, w);
	}
	rv_counter_give(s, w);
	return true;
}

void rv_bucket_read_end(struct sp_ctx *c, struct rv_buffer *b)
{
	b->open--;
	if (b->state == RV_FORGOTTEN && !b->open)
		rv_buffer_give(c, b);
}
