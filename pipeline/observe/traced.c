/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions of a traced context: each wraps the handler's own. */
#include "traced.h"
#include "../mem/canary.h"
#include "../context.h"
#include "../mem/context_alloc.h"
#include "../exec/message.h"
#include "tap.h"
#include "../view.h"

#include <inttypes.h>
#include <stdlib.h>

#include <rte_cycles.h>

enum { STATE = 1, MESSAGE = 2, BLOCK = 4, COUNTERS = 8 }; /* kinds of overruns already reported */

static struct sp_context *context_of(struct sp_ctx *c)
{
	return sp_view_of(c)->context;
}

/* ---- a call ---- */

struct call {
	struct sp_calling traced;
	struct sp_ctx *c;
	const struct sp_handler *handler;
	uint64_t began;
};

static const struct sp_handler *enter(struct call *call, struct sp_ctx *c, enum sp_called function,
				      const struct sp_message *message, struct sp_packet *const *packet, unsigned n)
{
	const struct sp_context *context = context_of(c);

	call->c = c;
	call->handler = context->registered;
	call->traced.told = (struct sp_traced_call){.context = context->name,
						    .handler = context->registered->name,
						    .id = context->id,
						    .function = function,
						    .worker = c->worker,
						    .now = c->now,
						    .packet = packet,
						    .packets = n,
						    .message = message};
	sp_trace_enter(sp_tracers_of(c), &call->traced);
	call->began = rte_rdtsc();
	return call->handler;
}

static void returned(struct call *call, uint64_t result)
{
	call->traced.told.cycles = rte_rdtsc() - call->began;
	call->traced.told.result = result;
}

static const char *plural(unsigned n)
{
	return n == 1 ? "" : "s";
}

/* First counter that is used but not declared, and so in no report; or the number of counters. */
static unsigned stray_counter(const struct sp_ctx *c, unsigned declared)
{
	unsigned i = declared;

	while (i < SP_MAX_COUNTERS && !c->counters[i])
		i++;
	return i;
}

/* Reports once per kind and context, since an overrun repeats with every packet. */
static void check_overruns(struct call *call)
{
	struct sp_context *context = context_of(call->c);
	struct sp_traced *x = context->traced;
	const struct sp_handler *h = call->handler;
	const struct sp_message *m = call->traced.told.message;
	unsigned counter;
	size_t block;

	if (!(x->told & STATE) && h->ctx_size &&
	    !sp_canary_lives((uint8_t *)context->state + h->ctx_size, SP_CANARY_STATE)) {
		x->told |= STATE;
		sp_tap_wrong(call->c, "wrote behind its context state (ctx_size %zu)", h->ctx_size);
	}
	if (!(x->told & MESSAGE) && m && h->msg_size &&
	    !sp_canary_lives((uint8_t *)m->state + h->msg_size, SP_CANARY)) {
		x->told |= MESSAGE;
		sp_tap_wrong(call->c, "wrote behind its message state (msg_size %zu)", h->msg_size);
	}
	if (!(x->told & BLOCK) && (block = sp_context_alloc_overrun(context, &context->traced->block)) != 0) {
		x->told |= BLOCK;
		sp_tap_wrong(call->c, "wrote behind a block of %zu bytes from sp_alloc", block);
	}
	if (!(x->told & COUNTERS) && (counter = stray_counter(call->c, context->counters)) < SP_MAX_COUNTERS) {
		x->told |= COUNTERS;
		sp_tap_wrong(call->c, "counted by counter %u, but declares %u counter%s", counter, context->counters,
			     plural(context->counters));
	}
}

static void leave(struct call *call)
{
	check_overruns(call);
	sp_trace_leave(sp_tracers_of(call->c), &call->traced);
}

/* ---- return values ---- */

static void check_reason(struct call *call, uint64_t reason, const char *how)
{
	const unsigned declared = context_of(call->c)->reasons;

	if (reason < declared)
		return;
	if (declared)
		sp_tap_wrong(call->c, "%s by reason %" PRIu64 ", but declares %u reason%s", how, reason, declared,
			     plural(declared));
	else
		sp_tap_wrong(call->c, "%s by reason %" PRIu64 ", but declares no reasons", how, reason);
}

static void check_verdict(struct call *call, const struct sp_packet *p, uint32_t verdict)
{
	const uint32_t kind = verdict & 0xFF, reason = verdict >> 8;

	if (verdict == SP_AGAIN)
		sp_tap_wrong(call->c, "returned SP_AGAIN, which only miss() may");
	else if (kind > SP_SENT || (reason && kind != SP_DROP_KIND))
		sp_tap_wrong(call->c, "returned %u, which is no verdict", verdict);
	else if ((kind == SP_FORWARD || kind == SP_DROP_KIND) && !p->buf)
		sp_tap_wrong(call->c, "verdict %s, but the packet was sent",
			     kind == SP_FORWARD ? "SP_FORWARD" : "SP_DROP");
	else if (kind == SP_DROP_KIND)
		check_reason(call, reason, "drops");
	else if (kind == SP_SENT && p->buf)
		sp_tap_wrong(call->c, "verdict SP_SENT, but the packet was not sent");
}

static void check_status(struct call *call, int status)
{
	if (status > 0)
		sp_tap_wrong(call->c, "returned %d, which is neither 0 nor a negative error number", status);
}

/* ---- wrapped functions ---- */

static int attach(struct sp_ctx *c)
{
	const struct sp_error *error = context_of(c)->error;
	struct call call;
	int r = enter(&call, c, SP_CALLED_ATTACH, NULL, NULL, 0)->attach(c);

	returned(&call, (uint64_t)(int64_t)r);
	check_status(&call, r);
	if (r < 0 && error && !error->text[0])
		sp_tap_wrong(c, "returned %d without sp_fail()", r);
	leave(&call);
	return r;
}

static void detach(struct sp_ctx *c)
{
	struct call call;

	enter(&call, c, SP_CALLED_DETACH, NULL, NULL, 0)->detach(c);
	returned(&call, 0);
	leave(&call);
}

static uint64_t classify(struct sp_ctx *c, struct sp_packet *p)
{
	struct call call;
	uint64_t key = enter(&call, c, SP_CALLED_CLASSIFY, NULL, &p, 1)->classify(c, p);

	returned(&call, key);
	if (key > SP_REJECT(256) && key != SP_NO_MESSAGE)
		check_reason(&call, SP_REJECT(0) - key, "rejects");
	else if (key >> 63 && key != SP_NO_MESSAGE && call.handler->messages == SP_MESSAGES_SLOTS)
		sp_tap_wrong(c, "returned message key 0x%" PRIx64 ", whose tag is not below 2^31", key);
	leave(&call);
	return key;
}

/* The pipeline calls again up to three times; report only once. */
static void check_again(struct sp_ctx *c, const struct sp_packet *p)
{
	struct sp_tracers *w = sp_tracers_of(c);

	if (sp_message_is_open(c, p->key) || w->again == p->frame)
		return;
	w->again = p->frame;
	sp_tap_wrong(c, "returned SP_AGAIN, but has not opened message 0x%" PRIx64, p->key);
}

static uint32_t miss(struct sp_ctx *c, struct sp_packet *p)
{
	struct call call;
	uint32_t verdict = enter(&call, c, SP_CALLED_MISS, NULL, &p, 1)->miss(c, p);

	returned(&call, verdict);
	if (verdict == SP_AGAIN)
		check_again(c, p);
	else
		check_verdict(&call, p, verdict);
	leave(&call);
	return verdict;
}

/* Exists even if the handler has none: it is the first call for each message. */
static uint32_t header(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	struct call call;
	uint32_t verdict;

	if (!context_of(c)->first) /* a companion's context has done it */
		sp_message_clear(c, m);
	if (!context_of(c)->registered->header)
		return SP_DONE;
	verdict = enter(&call, c, SP_CALLED_HEADER, m, &p, 1)->header(c, m, p);
	returned(&call, verdict);
	if (verdict == SP_END)
		sp_tap_wrong(c, "returned SP_END, which header() may not");
	else
		check_verdict(&call, p, verdict);
	leave(&call);
	return verdict;
}

static uint32_t payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	struct call call;
	uint32_t verdict = enter(&call, c, SP_CALLED_PAYLOAD, m, &p, 1)->payload(c, m, p);

	returned(&call, verdict);
	check_verdict(&call, p, verdict);
	leave(&call);
	return verdict;
}

static uint32_t payload_burst(struct sp_ctx *c, struct sp_message *m, struct sp_packet *const *p, unsigned n)
{
	struct call call;
	uint32_t all = enter(&call, c, SP_CALLED_PAYLOAD, m, p, n)->payload_burst(c, m, p, n), set = 0;

	returned(&call, all);
	for (unsigned i = 0; i < n; i++) {
		set |= p[i]->verdict;
		check_verdict(&call, p[i], p[i]->verdict);
	}
	if (!all != !set)
		sp_tap_wrong(c, "returned %u, but the packets' verdicts make %u", all, set);
	leave(&call);
	return all;
}

static void completion(struct sp_ctx *c, struct sp_message *m, enum sp_end why)
{
	struct call call;

	enter(&call, c, SP_CALLED_COMPLETION, m, NULL, 0)->completion(c, m, why);
	returned(&call, 0);
	leave(&call);
}

static int command(struct sp_ctx *c, const struct sp_command *cmd, struct sp_event *result)
{
	struct sp_event answer;
	struct call call;
	int r = enter(&call, c, SP_CALLED_COMMAND, NULL, NULL, 0)->command(c, cmd, result);

	returned(&call, (uint64_t)(int64_t)r);
	check_status(&call, r);
	answer = *result;
	answer.status = r;
	sp_trace_posted(c, &answer);
	leave(&call);
	return r;
}

static int issue(struct sp_ctx *c, struct sp_issue *i, unsigned budget)
{
	const uint64_t before = sp_view_of(c)->sent;
	struct call call;
	int r = enter(&call, c, SP_CALLED_ISSUE, NULL, NULL, 0)->issue(c, i, budget);
	uint64_t sent = sp_view_of(c)->sent - before;

	returned(&call, (uint64_t)(int64_t)r);
	if (r != SP_ISSUE_DONE && r != SP_ISSUE_MORE && r != SP_ISSUE_WAIT)
		sp_tap_wrong(c, "returned %d, which is none of SP_ISSUE_*", r);
	if (sent > budget)
		sp_tap_wrong(c, "sent %" PRIu64 " packets, and had a budget of %u", sent, budget);
	leave(&call);
	return r;
}

static bool work(struct sp_ctx *c, struct sp_work *w)
{
	struct call call;
	bool more = enter(&call, c, SP_CALLED_WORK, NULL, NULL, 0)->work(c, w);

	returned(&call, more);
	leave(&call);
	return more;
}

static void timer(struct sp_ctx *c, struct sp_timer *t)
{
	struct call call;

	enter(&call, c, SP_CALLED_TIMER, NULL, NULL, 0)->timer(c, t);
	returned(&call, 0);
	leave(&call);
}

static void report(struct sp_ctx *c, struct sp_report *r)
{
	struct call call;

	enter(&call, c, SP_CALLED_REPORT, NULL, NULL, 0)->report(c, r);
	returned(&call, 0);
	leave(&call);
}

/* ---- contexts ---- */

int sp_traced_create(struct sp_context *c)
{
	const struct sp_handler *h = c->registered;
	struct sp_traced *x = calloc(1, sizeof(*x));

	if (!x)
		return -ENOMEM;
	x->table = *h;
	/* Missing functions stay NULL, since the pipeline checks for NULL. */
	x->table.attach = h->attach ? attach : NULL;
	x->table.detach = h->detach ? detach : NULL;
	x->table.classify = h->classify ? classify : NULL;
	x->table.classify_burst = NULL; /* single calls only: each is reported */
	x->table.miss = h->miss ? miss : NULL;
	x->table.header = header;
	x->table.payload = h->payload ? payload : NULL;
	x->table.payload_burst = h->payload_burst ? payload_burst : NULL;
	x->table.completion = h->completion ? completion : NULL;
	x->table.command = h->command ? command : NULL;
	x->table.issue = h->issue ? issue : NULL;
	x->table.work = h->work ? work : NULL;
	x->table.timer = h->timer ? timer : NULL;
	x->table.report = h->report ? report : NULL;
	c->traced = x;
	c->handler = &x->table;
	return 0;
}

void sp_traced_gone(struct sp_context *c)
{
	struct sp_ctx *pub = &c->view[c->home]->pub;
	int64_t held;

	if (!c->traced)
		return;
	if (c->companion)
		sp_traced_gone(c->companion);
	held = (int64_t)sp_context_sum(c, offsetof(struct sp_view, held));
	if (!held)
		return;
	/* No call is active, but the report needs the context. */
	struct sp_calling last = {.told = {.context = c->name,
					   .handler = c->registered->name,
					   .id = c->id,
					   .function = SP_CALLED_DETACH,
					   .worker = c->home,
					   .now = pub->now},
				  .outer = sp_tracers_of(pub)->calling};

	sp_tracers_of(pub)->calling = &last;
	if (held > 0)
		sp_tap_wrong(pub, "kept %" PRId64 " packet%s and never released %s", held, plural((unsigned)held),
			     held == 1 ? "it" : "them");
	else
		sp_tap_wrong(pub, "released %" PRId64 " packet%s more than it kept", -held, plural((unsigned)-held));
	sp_tracers_of(pub)->calling = last.outer;
}

void sp_traced_destroy(struct sp_context *c)
{
	free(c->traced);
	c->traced = NULL;
}
