/* SPDX-License-Identifier: BSD-3-Clause */
/* rvma, windows: mailboxes, and the commands of the host on them. */
#include "window.h"
#include "bucket.h"
#include "get.h"
#include "transfer.h"

#define RV_WINDOW_FLAGS                                                                                                \
	(SP_RVMA_OPS | SP_RVMA_MANAGED | SP_RVMA_CATCH_ALL | SP_RVMA_SILENT | SP_RVMA_READABLE | SP_RVMA_FORGET |      \
	 SP_RVMA_REGION)

int rv_windows_attach(struct sp_ctx *c)
{
	struct rv *s = rv_of(c);
	const uint64_t seed = sp_random(c);
	void *table = sp_alloc(c, sp_rvma_table_bytes(s->windows)),
	     *held = sp_alloc(c, sp_rvma_table_bytes(s->buffers));

	s->window = sp_alloc(c, s->windows * sizeof(*s->window));
	s->buffer = sp_alloc(c, s->buffers * sizeof(*s->buffer));
	s->count = sp_alloc(c, s->counters * sizeof(*s->count));
	s->counter_free = sp_alloc(c, s->counters * sizeof(*s->counter_free));
	if (!table || !s->window)
		return sp_fail(c, ENOMEM, "windows", "no memory for %u windows", s->windows);
	if (!held || !s->buffer)
		return sp_fail(c, ENOMEM, "buffers", "no memory for %u buffers", s->buffers);
	if (!s->count || !s->counter_free)
		return sp_fail(c, ENOMEM, "counters", "no memory for %u counters", s->counters);
	sp_rvma_table_init(&s->table, s->windows, seed, table);
	sp_rvma_table_init(&s->held, s->buffers, seed, held);
	while (s->counters_free < s->counters) {
		s->counter_free[s->counters_free] = s->counters - 1 - s->counters_free;
		s->counters_free++;
	}
	s->buffer_free = s->window_free = s->catch_all = s->configured = s->handing = RV_NONE;
	return 0;
}

void rv_windows_detach(struct sp_ctx *c)
{
	struct rv *s = rv_of(c);

	for (uint32_t i = 0; i < s->buffer_fresh; i++) {
		if (s->buffer[i].mem)
			sp_mem_put(c, s->buffer[i].mem);
		if (s->buffer[i].notify)
			sp_mem_put(c, s->buffer[i].notify);
		s->buffer[i].mem = s->buffer[i].notify = NULL;
	}
}

static struct rv_window *rv_window_find(struct rv *s, uint64_t id)
{
	const uint32_t at = id ? (uint32_t)id : s->configured;
	struct rv_window *w;

	if (at >= s->windows)
		return NULL;
	w = &s->window[at];
	return w->used && (!id || w->generation == id >> 32) ? w : NULL;
}

static int rv_window_open(struct sp_ctx *c, const struct sp_command *command, struct sp_event *result)
{
	struct rv *s = rv_of(c);
	const uint64_t mailbox = command->arg[0], flags = command->arg[3];
	const uint32_t at = s->window_free != RV_NONE ? s->window_free : s->window_fresh;
	struct rv_window *w = &s->window[at];
	uint32_t generation;

	if (flags & ~(uint64_t)RV_WINDOW_FLAGS)
		return -EINVAL;
	if (flags & SP_RVMA_REGION && flags & (SP_RVMA_OPS | SP_RVMA_MANAGED | SP_RVMA_CATCH_ALL))
		return -EINVAL;
	if ((flags & SP_RVMA_CATCH_ALL && s->catch_all != RV_NONE) ||
	    sp_rvma_table_find(&s->table, mailbox) != UINT32_MAX)
		return -EEXIST;
	if (at == s->windows)
		return -ENOSPC;
	if (at == s->window_fresh)
		s->window_fresh++;
	else
		s->window_free = w->posted.first;
	generation = w->generation + 1;
	*w = (struct rv_window){.mailbox = mailbox,
				.key = command->arg[1],
				.threshold = command->arg[2],
				.flags = (uint32_t)flags,
				.generation = generation ? generation : 1,
				.used = true,
				.counter = RV_NONE,
				.retiring = RV_NONE,
				.posted = {RV_NONE, RV_NONE, 0},
				.held = {RV_NONE, RV_NONE, 0}};
	sp_rvma_table_add(&s->table, mailbox, at);
	if (flags & SP_RVMA_CATCH_ALL)
		s->catch_all = at;
	result->arg[0] = SP_RVMA_WINDOW(at, w->generation);
	rv_window_publish(c, w);
	RV_PUBLISH(c, s, w, refused, 0);
	sp_dma_store64(c, s->area, rv_lost(s, w), 0);
	RV_PUBLISH(c, s, w, id, result->arg[0]);
	return 0;
}

static int rv_window_limit(struct rv_window *w, const uint64_t *arg)
{
	w->limit_buffers = arg[1] < UINT32_MAX ? (uint32_t)arg[1] : UINT32_MAX;
	w->limit_bytes = arg[2];
	w->limit_put = arg[3];
	w->limit_rate = arg[4];
	w->rated = arg[4] != 0;
	w->rate_at = 0;
	return 0;
}

static int rv_window_inc_epoch(struct sp_ctx *c, struct rv_window *w)
{
	if (w->flags & SP_RVMA_REGION)
		return -EINVAL;
	if (!w->posted.count)
		return -ENODATA;
	rv_bucket_retire(c, w, SP_RVMA_PARTIAL);
	return 0;
}

static int rv_window_close(struct sp_ctx *c, struct rv_window *w)
{
	if (w->closed && !w->posted.count)
		return -ESHUTDOWN;
	w->closed = true;
	for (uint32_t n = 0; w->posted.count && n < RV_SLICE; n++)
		rv_bucket_retire(c, w, SP_RVMA_PARTIAL | SP_RVMA_ENDED);
	rv_window_publish(c, w);
	return w->posted.count ? -EINPROGRESS : 0;
}

/* Ends puts that are arriving in the window, for this reason. */
static void rv_window_end_puts(struct sp_ctx *c, const struct rv_window *w, enum sp_rvma_status why)
{
	struct rv *s = rv_of(c);
	const uint32_t at = rv_line(s, w);

	for (uint32_t i = 0; i < s->peers && w->open; i++)
		for (struct rv_transfer *t = s->session[i].transfers, *next; t; t = next) {
			next = t->next;
			if (t->window == at)
				rv_transfer_stop(c, t, why);
		}
}

static int rv_window_free(struct sp_ctx *c, struct rv_window *w)
{
	struct rv *s = rv_of(c);
	const uint32_t at = rv_line(s, w);

	if (!w->freeing) {
		w->closed = w->freeing = true;
		rv_window_end_puts(c, w, SP_RVMA_CLOSED);
		if (w->open)
			rv_serves_end(c, at);
		sp_rvma_table_remove(&s->table, w->mailbox);
		s->catch_all = s->catch_all == at ? RV_NONE : s->catch_all;
	}
	if (w->open || w->handing || !rv_bucket_empty(c, w))
		return -EAGAIN;
	RV_PUBLISH(c, s, w, id, 0);
	s->configured = s->configured == at ? RV_NONE : s->configured;
	w->used = false;
	w->posted.first = s->window_free;
	s->window_free = at;
	return 0;
}

static int rv_window_epoch(struct rv *s, const struct rv_window *w, uint64_t epoch, struct sp_event *result)
{
	const struct rv_buffer *b = rv_bucket_held(s, w, epoch);

	if (!b)
		return -ENODATA;
	result->arg[0] = b->address;
	result->arg[1] = rv_bucket_length(w, b);
	result->arg[2] = b->flags;
	result->arg[3] = b->mailbox;
	result->arg[4] = epoch;
	return 0;
}

/* Before the first epoch. Buffers of a window that forgets are gone as soon as they have left the head. */
static int rv_window_begin(const struct rv_window *w, struct sp_event *result)
{
	if (w->flags & SP_RVMA_REGION || w->first_held || (w->flags & SP_RVMA_FORGET && w->epoch))
		return -ENODATA;
	memset(result->arg, 0, sizeof(result->arg));
	result->arg[3] = w->mailbox;
	result->arg[4] = SP_RVMA_BEGIN;
	return 0;
}

static int rv_window_rewind(struct sp_ctx *c, struct rv_window *w, uint64_t epoch, struct sp_event *result)
{
	const uint64_t keep = epoch + 1; /* epochs that stay completed */
	int rc;

	if (epoch == SP_RVMA_BEGIN)
		rc = rv_window_begin(w, result);
	else
		rc = rv_window_epoch(rv_of(c), w, epoch, result);
	if (rc)
		return rc;
	rv_window_end_puts(
		c, w,
		SP_RVMA_REWOUND); /* this hands over buffers that waited for these puts; the rewind forgets them */
	if (w->notified != w->epoch)
		return -EINPROGRESS;
	/* The latest epochs go first: if it stops half way, the window is rewound by less. */
	rv_bucket_rewind(c, w, w->epoch - keep < RV_SLICE ? keep : w->epoch - RV_SLICE + 1);
	return w->epoch == keep ? 0 : -EINPROGRESS;
}

int rv_window_command(struct sp_ctx *c, const struct sp_command *command, struct sp_event *result)
{
	struct rv *s = rv_of(c);
	const uint64_t *arg = command->arg;
	struct rv_window *w;

	if (command->op == SP_RVMA_CMD_WINDOW)
		return rv_window_open(c, command, result);
	w = rv_window_find(s, command->op == SP_CMD_POST ? arg[5] : arg[0]);
	if (!w || (w->freeing && command->op != SP_RVMA_CMD_FREE))
		return -ENOENT;
	switch (command->op) {
	case SP_CMD_POST:
		return rv_bucket_post(c, w, command);
	case SP_RVMA_CMD_LIMIT:
		return rv_window_limit(w, arg);
	case SP_RVMA_CMD_INC_EPOCH:
		return rv_window_inc_epoch(c, w);
	case SP_RVMA_CMD_CLOSE:
		return rv_window_close(c, w);
	case SP_RVMA_CMD_FREE:
		return rv_window_free(c, w);
	case SP_RVMA_CMD_EPOCH:
		return rv_window_epoch(s, w, arg[1], result);
	case SP_RVMA_CMD_RELEASE:
		return rv_bucket_held(s, w, arg[1]) ? rv_bucket_release(c, w, arg[1]) : -ENODATA;
	case SP_RVMA_CMD_REWIND:
		return rv_window_rewind(c, w, arg[1], result);
	default:
		return -EOPNOTSUPP;
	}
}

/* A report holds packets up, so it shows a limited number of windows, and of completed buffers in all. */
#define RV_REPORTED  256u
#define RV_LOOKED_AT 65536u

static void rv_report_held(const struct rv *s, const struct rv_window *w, struct sp_report *r, uint32_t *room)
{
	uint32_t at = w->held.first;

	sp_report_open(r, "completed", true);
	for (uint64_t epoch = w->first_held; epoch < w->notified && *room; epoch++, --*room) {
		const struct rv_buffer *b = &s->buffer[at];

		sp_report_open(r, NULL, false);
		sp_report_uint(r, "epoch", epoch);
		sp_report_uint(r, "length", rv_bucket_length(w, b));
		sp_report_uint(r, "puts", b->ops);
		sp_report_uint(r, "mailbox", b->mailbox);
		sp_report_bool(r, "partial", b->flags & SP_RVMA_PARTIAL);
		sp_report_bool(r, "lost", b->flags & SP_RVMA_LOST);
		sp_report_close(r);
		at = b->next;
	}
	sp_report_close(r);
}

static void rv_report_window(const struct rv *s, const struct rv_window *w, struct sp_report *r, uint32_t *room)
{
	sp_report_open(r, NULL, false);
	sp_report_uint(r, "mailbox", w->mailbox);
	sp_report_string(r, "mode",
			 w->flags & SP_RVMA_REGION    ? "region"
			 : w->flags & SP_RVMA_MANAGED ? "managed"
						      : "steered");
	sp_report_string(r, "counts", w->flags & SP_RVMA_OPS ? "ops" : "bytes");
	sp_report_uint(r, "threshold", w->threshold);
	sp_report_uint(r, "epoch", w->notified);
	sp_report_uint(r, "posted", w->posted.count);
	sp_report_uint(r, "retiring", w->epoch - w->notified);
	sp_report_uint(r, "held", w->notified - w->first_held);
	sp_report_bool(r, "closed", w->closed);
	sp_report_bool(r, "catch_all", w->flags & SP_RVMA_CATCH_ALL);
	sp_report_uint(r, "open", w->open);
	sp_report_uint(r, "puts", w->puts);
	sp_report_uint(r, "bytes", w->bytes);
	sp_report_uint(r, "refused", w->refused);
	rv_report_held(s, w, r, room);
	sp_report_close(r);
}

void rv_windows_report(struct sp_ctx *c, struct sp_report *r)
{
	const struct rv *s = rv_of(c);
	uint32_t room = RV_REPORTED, shown = 0;

	sp_report_uint(r, "mailboxes", s->table.count);
	sp_report_uint(r, "counters_free", s->counters_free);
	sp_report_open(r, "windows", true);
	for (uint32_t i = 0; i < s->window_fresh && i < RV_LOOKED_AT && shown < RV_REPORTED; i++)
		if (s->window[i].used) {
			shown++;
			rv_report_window(s, &s->window[i], r, &room);
		}
	sp_report_close(r);
}
