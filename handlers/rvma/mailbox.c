/* SPDX-License-Identifier: BSD-3-Clause */
/* rvma, what a put or get finds at a mailbox, whether it is allowed, and what it changes there. */
#include "mailbox.h"
#include "bucket.h"
#include "copy.h"

/* ---- puts ---- */
static struct rv_window *rv_catch_all(struct rv *s)
{
	return s->catch_all == RV_NONE ? NULL : &s->window[s->catch_all];
}

/* Compares whole keys, also when the mailbox does not exist: the time that it takes gives nothing away. */
static uint64_t rv_key_differs(const struct rv *s, const struct rv_window *w, uint64_t key)
{
	uint64_t differs = key ^ (w ? w : s->window)->key;

	__asm__ volatile("" : "+r"(differs)); /* computed here, not later where it is used */
	return differs;
}

/* Would the head take a put of this length? Sets *offset to where it goes. */
static enum sp_rvma_status rv_fits(const struct rv_window *w, const struct rv_buffer *b, uint64_t length,
				   uint64_t *offset)
{
	if (w->flags & SP_RVMA_MANAGED) {
		if (*offset != SP_RVMA_APPEND)
			return SP_RVMA_WRONG_MODE;
		*offset = b->tail;
	} else if (*offset == SP_RVMA_APPEND) {
		*offset = 0;
	}
	if (length > UINT64_MAX - *offset)
		return SP_RVMA_BAD_RANGE;
	if (*offset > b->length || length > b->length - *offset || (w->limit_put && length > w->limit_put))
		return SP_RVMA_TOO_LARGE;
	return SP_RVMA_DELIVERED;
}

/* A token bucket, one put deep: the next put is admitted when the bytes of the last one are paid for. */
static bool rv_rate_allows(struct sp_ctx *c, struct rv_window *w, uint64_t length)
{
	const unsigned __int128 pause = (unsigned __int128)length * SP_SEC;

	if (!w->limit_rate)
		return true;
	if (c->now < w->rate_at)
		return false;
	const unsigned __int128 at = pause / w->limit_rate + c->now;

	w->rate_at = at < SP_NEVER ? (sp_time)at : SP_NEVER - 1;
	return true;
}

static enum sp_rvma_status rv_admit(struct sp_ctx *c, struct rv_window *named, struct rv_transfer *t, uint64_t key,
				    uint64_t offset, struct rv_window **in)
{
	struct rv *s = rv_of(c);
	struct rv_window *catch_all = rv_catch_all(s), *w = named ? named : catch_all;
	const uint64_t differs = rv_key_differs(s, w, key);
	enum sp_rvma_status why;

	*in = w;
	if (!w)
		return SP_RVMA_NO_MAILBOX;
	if (differs)
		return SP_RVMA_BAD_KEY;
	if (w->closed)
		return SP_RVMA_CLOSED;
	if (!w->posted.count && catch_all)
		w = catch_all; /* has no buffer either if it is closed */
	if (!w->posted.count)
		return SP_RVMA_NO_BUFFER;
	*in = w;
	why = rv_fits(w, &s->buffer[w->posted.first], t->length, &offset);
	if (why == SP_RVMA_DELIVERED && !rv_rate_allows(c, w, t->length))
		why = SP_RVMA_RATE;
	t->at = offset;
	return why;
}

enum sp_rvma_status rv_put_begin(struct sp_ctx *c, struct rv_transfer *t, uint64_t mailbox, uint64_t key,
				 uint64_t offset)
{
	struct rv *s = rv_of(c);
	const uint32_t at = sp_rvma_table_find(&s->table, mailbox);
	struct rv_window *named = at == UINT32_MAX ? NULL : &s->window[at], *w;
	const enum sp_rvma_status why = rv_admit(c, named, t, key, offset, &w);

	if (why != SP_RVMA_DELIVERED) {
		c->counters[RV_BAD_KEYS] += why == SP_RVMA_BAD_KEY;
		if (w)
			RV_PUBLISH(c, s, w, refused, ++w->refused);
		return why;
	}

	struct rv_buffer *b = &s->buffer[w->posted.first];

	c->counters[RV_CAUGHT] += w != named;
	if (w->flags & SP_RVMA_MANAGED)
		b->tail += t->length;
	b->open++;
	w->open++;
	t->window = rv_line(s, w);
	t->buffer = w->posted.first;
	t->mem = b->mem;
	t->at += b->offset;
	t->mailbox = mailbox;
	t->secret = key;
	return SP_RVMA_DELIVERED;
}

void rv_put_bytes(struct sp_ctx *c, struct rv_transfer *t, uint32_t bytes)
{
	struct rv *s = rv_of(c);
	struct rv_window *w = &s->window[t->window];
	struct rv_buffer *b = &s->buffer[t->buffer];
	const struct sp_rvma_count n = rv_bucket_count(c, w, b, bytes, 0);

	c->counters[RV_PACKETS]++;
	c->counters[RV_BYTES] += bytes;
	w->bytes += bytes;
	if (b->state == RV_POSTED && !(w->flags & (SP_RVMA_OPS | SP_RVMA_REGION)) && b->threshold &&
	    n.bytes >= b->threshold)
		rv_bucket_retire(c, w, 0);
}

void rv_put_end(struct sp_ctx *c, struct rv_transfer *t, enum sp_rvma_status why)
{
	struct rv *s = rv_of(c);
	struct rv_window *w = &s->window[t->window];
	struct rv_buffer *b = &s->buffer[t->buffer];

	w->open--;
	b->open--;
	rv_copied(s);
	RV_PUBLISH(c, s, w, bytes, w->bytes);
	if (why != SP_RVMA_DELIVERED) {
		b->flags |= SP_RVMA_LOST;
		if (why == SP_RVMA_GIVEN_UP) {
			uint64_t before;

			sp_dma_add64(c, s->area, rv_lost(s, w), 1, &before);
		}
	} else {
		const struct sp_rvma_count n = rv_bucket_count(c, w, b, 0, 1);

		c->counters[RV_PUTS]++;
		w->puts++;
		RV_PUBLISH(c, s, w, puts, w->puts);
		b->mailbox = t->mailbox;
		if (b->state == RV_POSTED && w->flags & SP_RVMA_OPS && b->threshold && n.ops >= b->threshold)
			rv_bucket_retire(c, w, 0);
	}
	rv_bucket_hand_over(c, w);
}

bool rv_window_silent(struct sp_ctx *c, uint64_t mailbox)
{
	struct rv *s = rv_of(c);
	const uint32_t at = sp_rvma_table_find(&s->table, mailbox);
	const struct rv_window *w = at == UINT32_MAX ? rv_catch_all(s) : &s->window[at];

	return w && w->flags & SP_RVMA_SILENT;
}

/* ---- gets ---- */
enum sp_rvma_status rv_read_begin(struct sp_ctx *c, uint64_t mailbox, uint64_t key, uint32_t back, uint64_t offset,
				  uint64_t length, uint32_t *window, uint32_t *buffer, uint64_t *at)
{
	struct rv *s = rv_of(c);
	const uint32_t line = sp_rvma_table_find(&s->table, mailbox);
	struct rv_window *w = line == UINT32_MAX ? NULL : &s->window[line];
	const uint64_t differs = rv_key_differs(s, w, key);
	struct rv_buffer *b = NULL;

	if (!w)
		return SP_RVMA_NO_MAILBOX;
	if (differs) {
		c->counters[RV_BAD_KEYS]++;
		return SP_RVMA_BAD_KEY;
	}
	if (!(w->flags & SP_RVMA_READABLE))
		return SP_RVMA_NOT_READABLE;
	if (w->flags & SP_RVMA_REGION && w->posted.count && !back)
		b = &s->buffer[w->posted.first];
	else if (!(w->flags & SP_RVMA_REGION))
		b = rv_bucket_held(s, w, w->notified - 1 - back);
	if (!b)
		return SP_RVMA_NOT_COMPLETE;
	if (offset > b->length || length > b->length - offset)
		return SP_RVMA_BAD_RANGE;
	b->open++;
	w->open++;
	*window = line;
	*buffer = w->flags & SP_RVMA_REGION ? w->posted.first : (uint32_t)(b - s->buffer);
	*at = b->offset + offset;
	return SP_RVMA_DELIVERED;
}

void rv_read_end(struct sp_ctx *c, uint32_t window, uint32_t buffer)
{
	struct rv *s = rv_of(c);
	struct rv_window *w = &s->window[window];

	w->open--;
	rv_bucket_read_end(c, &s->buffer[buffer]);
	rv_bucket_hand_over(c, w);
}
