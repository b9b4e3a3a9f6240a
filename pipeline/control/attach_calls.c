/* SPDX-License-Identifier: BSD-3-Clause */
/* Handlers' calls during attach(): memory, QPs, messages, the area; and errors about an account's limits. */
#include "../mem/account.h"
#include "../engine.h"
#include "../error.h"
#include "../context.h"
#include "../mem/context_alloc.h"
#include "../exec/measure.h"
#include "../exec/rings.h"
#include "../rx/match.h"
#include "../mem/memory.h"
#include "../exec/message_table.h"
#include "../observe/tap.h"
#include "../view.h"
#include "../worker_call.h"

#include <inttypes.h>

int sp_context_alloc_refused(const struct sp_context *c, int r, struct sp_error *error)
{
	const char *over = c->over || !c->companion ? c->over : c->companion->over;
	const struct sp_limits *limit = c->account ? &c->account->limit : NULL;

	if (!r || !over || !limit)
		return r;
	if (!strcmp(over, "memory"))
		return sp_error_set(error, EDQUOT, "memory",
				    "this application may have at most %" PRIu64
				    " bytes of memory (memory in [limits])",
				    limit->memory);
	if (!strcmp(over, "reserve"))
		return sp_error_set(error, ENOSPC, "qp", "the NIC keeps the QP numbers that are left for other users");
	if (!strcmp(over, "regions"))
		return sp_error_set(error, EDQUOT, "", "this application may have at most %u regions and areas",
				    SP_REGIONS);
	if (!strcmp(over, "QPs"))
		return sp_error_set(error, EDQUOT, "qp", "this application may have at most %u QPs (qps in [limits])",
				    limit->qps);
	return sp_error_set(error, EDQUOT, "",
			    "this application may have at most %u messages at once (messages in [limits])",
			    limit->messages);
}

int sp_context_alloc_qps(struct sp_context *c, uint32_t count)
{
	int r = -ENOSPC;

	if (!sp_account_leaves_qps(c->account, count, c->nic->qps->claimed, SP_MAX_QPS)) {
		c->over = "reserve";
		return r;
	}
	r = sp_account_qps(c->account, count);
	if (r)
		c->over = "QPs";
	else
		c->charged_qps += count;
	return r;
}

/* A newer version inherits the area, since the host has it mapped. */
static int inherit_area(struct sp_context *c, uint64_t bytes, struct sp_error *error)
{
	const uint64_t before = c->older->area ? c->older->area->len : 0;

	if (bytes && bytes != before)
		return sp_error_set(error, EINVAL, "",
				    "the version before had an area of %" PRIu64 " bytes, this one wants %" PRIu64,
				    before, bytes);
	c->area = bytes ? c->older->area : NULL;
	return 0;
}

/* Takes the memory that the server has allocated for the area, or allocates it. */
static int back_area(struct sp_context *c, uint64_t bytes, struct sp_device *d, struct sp_backing *b)
{
	int r;

	if (d && d->made && d->made->len == bytes) {
		*b = *d->made;
		d->made = NULL;
		return 0;
	}
	if (d && d->ahead) {
		d->wanted = bytes;
		return -EAGAIN;
	}
	r = sp_memory_back(c->nic, c->account, NULL, bytes, d && d->owner ? SP_BACKING_SHARED_READ : SP_BACKING_PRIVATE,
			   b);
	if (r == -EDQUOT && !sp_account_allows(c->account, sp_shm_pages(bytes)))
		c->over = "memory";
	return r;
}

struct configuring {
	struct sp_context *context;
	uint64_t area;
	int result;
};

/* On the home worker, so that a crash or an endless call has a name. */
static void configure(struct sp_worker *w, void *arg)
{
	struct configuring *call = arg;
	struct sp_view *v = call->context->view[w->index];

	v->pub.now = w->now;
	sp_doing_begin(w, v, SP_DOING_CONFIGURE, NULL, 0);
	call->result = call->context->handler->configure(&v->pub, &call->area);
	sp_doing_end(w);
}

int sp_context_configure(struct sp_context *c, struct sp_device *device, struct sp_error *error)
{
	struct sp_ctx *pub = &c->view[c->home]->pub;
	struct sp_backing b;
	struct sp_mem *mem;
	struct configuring call = {.context = c};
	uint64_t bytes;
	int r;

	c->error = error;
	if (c->handler->configure)
		sp_worker_call(c->nic->worker[c->home], configure, &call);
	c->error = NULL;
	r = call.result;
	bytes = call.area;
	if (r < 0 && error && !error->text[0])
		sp_error_set(error, -r, "", "handler %s: %s", c->handler->name, strerror(-r));
	if (r)
		return r < 0 ? r : -EINVAL; /* invalid: neither 0 nor -errno */
	if (c->first && bytes)
		return sp_error_set(error, EINVAL, "companion",
				    "handler %s shares memory with the host: it cannot be a companion",
				    c->handler->name);
	if (c->inherited)
		return inherit_area(c, bytes, error);
	if (!bytes)
		return 0;
	r = back_area(c, bytes, device, &b);
	if (!r) {
		r = sp_memory_insert(c->nic, &b, c->owner, &mem);
		if (r == -EDQUOT)
			c->over = "regions";
		if (r)
			sp_memory_unback(c->nic, &b);
	}
	if (r)
		return r == -EAGAIN ? r
				    : sp_error_set(error, ENOMEM, "",
						   "no memory for the %" PRIu64
						   " bytes that handler %s shares with the host",
						   bytes, c->handler->name);
	c->area = c->events->area = mem;
	sp_mem_get(pub, mem->id);
	return 0;
}

static bool late(struct sp_ctx *ctx, const char *function)
{
	if (sp_view_of(ctx)->context->attaching)
		return false;
	sp_tap_wrong(ctx, "called %s() outside attach()", function);
	return true;
}

void *sp_alloc(struct sp_ctx *ctx, size_t bytes)
{
	struct sp_context *c = sp_view_of(ctx)->context;

	if (late(ctx, "sp_alloc"))
		return NULL;
	return c->traced ? sp_context_alloc_traced(c, bytes) : sp_context_alloc(c, bytes, 0);
}

int sp_qp_claim(struct sp_ctx *ctx, uint32_t count)
{
	struct sp_context *c = sp_view_of(ctx)->context;

	if (late(ctx, "sp_qp_claim") || (!c->qp_first && !c->qp_any))
		return sp_fail(ctx, EINVAL, "qp", "handler %s needs a qp", c->handler->name);
	if (c->inherited) { /* it inherits the QPs of the older version */
		if (count == c->older->qp_count) {
			c->qp_first = c->older->qp_first;
			c->qp_count = count;
			return 0;
		}
		return sp_fail(ctx, EINVAL, "qp", "the version before had %u QPs, this one wants %u",
			       c->older->qp_count, count);
	}
	if (c->qp_any && count && count <= SP_MAX_QPS && sp_qp_table_row(c->nic->qps, count, &c->qp_first))
		return sp_fail(ctx, ENOSPC, "qp", "the NIC has no %u free QP numbers in a row", count);
	if (!count || count > SP_MAX_QPS || c->qp_first + count > 0xFFFFFF)
		return sp_fail(ctx, EINVAL, "qp", "QPs %u + %u reach beyond the last QP number 0xFFFFFE", c->qp_first,
			       count);
	if (c->qp_first == 1 && count > 1)
		return sp_fail(ctx, EINVAL, "qp", "QP 1 stands alone");
	for (uint32_t i = 0; i < count; i++) {
		const struct sp_qp *qp = sp_qp_table_find(c->nic->qps, c->qp_first + i);

		if (qp)
			return sp_fail(ctx, EADDRINUSE, "qp", "QP %u (0x%x) belongs to context %s already",
				       c->qp_first + i, c->qp_first + i, sp_context_name_for(c, qp->context));
	}
	/* A second claim replaces the first. */
	if (sp_context_alloc_qps(c, count > c->qp_count ? count - c->qp_count : 0))
		return sp_fail(ctx, EDQUOT, "qp", "too many QPs");
	c->qp_count = count;
	return 0;
}

uint16_t sp_qp_worker(struct sp_ctx *ctx, uint32_t index)
{
	return sp_flow_worker(sp_view_of(ctx)->context, index);
}

int sp_qp_control(struct sp_ctx *ctx, uint32_t *qp)
{
	struct sp_context *c = sp_view_of(ctx)->context;
	int r;

	if (late(ctx, "sp_qp_control") || c->first) /* a companion has no QPs of its own */
		return -EINVAL;
	if (c->inherited) {
		*qp = c->older->qp_control;
		return *qp ? 0 : sp_fail(ctx, EINVAL, "qp", "the version before had no control QP, this one wants one");
	}
	if (!c->qp_control && sp_context_alloc_qps(c, 1))
		return sp_fail(ctx, EDQUOT, "qp", "too many QPs");
	r = sp_qp_table_next(c->nic->qps, c->qp_first, c->qp_count, qp);
	if (!r)
		c->qp_control = *qp;
	return r;
}

int sp_messages_limit(struct sp_ctx *ctx, uint32_t limit, sp_time idle)
{
	struct sp_context *c = sp_view_of(ctx)->context;
	uint32_t charged;
	int r;

	if (late(ctx, "sp_messages_limit"))
		return -EINVAL;
	if (c->messages)
		return sp_fail(ctx, EINVAL, "", "handler %s asks twice for messages", c->handler->name);
	if (!limit || limit > SP_MAX_MESSAGES)
		return sp_fail(ctx, EINVAL, "", "handler %s asks for %u messages at once; 1 to %u are possible",
			       c->handler->name, limit, SP_MAX_MESSAGES);
	/* A version that inherits also takes over the older version's charge. */
	charged = !c->inherited ? limit : limit > c->older->charged_messages ? limit - c->older->charged_messages : 0;
	if (sp_account_messages(c->account, charged)) {
		c->over = "messages";
		return sp_fail(ctx, EDQUOT, "", "too many messages");
	}
	r = sp_messages_create(c, limit, c->idle ? c->idle : idle);
	if (r) {
		sp_account_messages(c->account, -(int64_t)charged);
		return sp_fail(ctx, -r, "", "no memory for %u messages, or memory-limit reached", limit);
	}
	c->charged_messages = charged;
	return 0;
}

const struct sp_mem *sp_host_area(struct sp_ctx *ctx)
{
	return late(ctx, "sp_host_area") ? NULL : sp_view_of(ctx)->context->area;
}
