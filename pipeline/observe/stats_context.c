/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts and handlers in the NIC's report: counters of all versions, and the cost of their calls. */
#include "../exec/rings.h"
#include "../exec/message_table.h"
#include "../exec/measure.h"
#include "report.h"
#include "stats.h"
#include "watchdog.h"
#include "../worker_call.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- sums: of a context's versions, of a handler's contexts ---- */

struct sum {
	struct sp_context_counts all; /* without the pointers */
	struct sp_drop_sums drops, counters;
};

/* Fields to sum and report in a loop; the others are handled by hand. */
static const struct field {
	const char *name;
	size_t at;
} field[] = {
	{"packets", offsetof(struct sp_context_counts, packets)},
	{"bytes", offsetof(struct sp_context_counts, bytes)},
	{"forwarded", offsetof(struct sp_context_counts, forwarded)},
	{"dropped", offsetof(struct sp_context_counts, dropped)},
	{"errors", offsetof(struct sp_context_counts, errors)},
	{"sent", offsetof(struct sp_context_counts, sent)},
	{"sent_bytes", offsetof(struct sp_context_counts, sent_bytes)},
	{"lent", offsetof(struct sp_context_counts, lent)},
	{"dma_faults", offsetof(struct sp_context_counts, dma_faults)},
	{"events_lost", offsetof(struct sp_context_counts, events_lost)},
	{"kept", offsetof(struct sp_context_counts, held)},
	{"kept_refused", offsetof(struct sp_context_counts, held_refused)},
};
#define FIELDS (sizeof(field) / sizeof(*field))

static uint64_t value(const struct sp_context_counts *c, const struct field *f)
{
	return *(const uint64_t *)((const uint8_t *)c + f->at);
}

static void add(struct sum *s, const struct sp_context_counts *c)
{
	const struct sp_handler *h = c->context->handler;

	for (const struct field *f = field; f < field + FIELDS; f++)
		*(uint64_t *)((uint8_t *)&s->all + f->at) += value(c, f);
	s->all.ended += c->ended;
	s->all.answered += c->answered;
	sp_meter_add(&s->all.meter, &c->meter);
	for (unsigned i = 0; i < c->context->counters; i++)
		sp_stats_drop(&s->counters, h->counters[i], c->counters[i], true);
	for (unsigned i = 0; i < c->context->reasons; i++)
		sp_stats_drop(&s->drops, h->drops[i], c->drops[i], false);
	sp_stats_drop(&s->drops, sp_drop_names[SP_DROP_OVER_BUDGET], c->over_budget, false);
	sp_stats_drop(&s->drops, sp_drop_names[SP_DROP_BACKLOG_FULL], c->backlog_full, false);
	sp_stats_drop(&s->drops, sp_drop_names[SP_DROP_CONTEXT_DISABLED], c->disabled, false);
	sp_stats_drop(&s->drops, sp_drop_names[SP_DROP_OVER_LIMIT], c->over_limit, false);
}

static void report_verdicts(const struct sp_context_counts *c, struct sp_report *r)
{
	const uint64_t special = c->ended + c->answered;

	sp_report_open(r, "verdicts", false);
	sp_report_uint(r, "done", c->packets > special ? c->packets - special : 0);
	sp_report_uint(r, "end", c->ended);
	sp_report_uint(r, "answered", c->answered);
	sp_report_uint(r, "forwarded", c->forwarded);
	sp_report_uint(r, "dropped", c->dropped);
	sp_report_uint(r, "errors", c->errors);
	sp_report_close(r);
}

static void report_cycles(const struct sp_meter *m, struct sp_report *r)
{
	uint64_t all = 0;

	for (unsigned i = 0; i < SP_METER_BUCKETS; i++)
		all += m->bucket[i];
	sp_report_open(r, "cycles", false);
	sp_report_uint(r, "turns", m->runs);
	sp_report_uint(r, "packets", m->packets);
	sp_report_uint(r, "total", m->cycles);
	sp_report_uint(r, "min", m->least);
	sp_report_uint(r, "mean", all ? (m->cycles + all / 2) / all : 0);
	sp_report_uint(r, "p50", sp_meter_quantile(m, 0.5));
	sp_report_uint(r, "p99", sp_meter_quantile(m, 0.99));
	sp_report_uint(r, "max", m->most);
	sp_report_uint(r, "overruns", m->overruns);
	sp_report_open(r, "histogram", true); /* [most cycles, how many]; null: no bound */
	for (unsigned i = 0; i < SP_METER_BUCKETS; i++) {
		if (!m->bucket[i])
			continue;
		sp_report_open(r, NULL, true);
		if (sp_meter_bound(i) == UINT64_MAX)
			sp_report_string(r, NULL, NULL);
		else
			sp_report_uint(r, NULL, sp_meter_bound(i));
		sp_report_uint(r, NULL, m->bucket[i]);
		sp_report_close(r);
	}
	sp_report_close(r);
	sp_report_close(r);
}

static void report_named(const struct sp_drop_sums *s, const char *name, struct sp_report *r)
{
	sp_report_open(r, name, false);
	for (size_t i = 0; i < s->count; i++)
		sp_report_uint(r, s->sum[i].name, s->sum[i].count);
	sp_report_close(r);
}

/* The whole sum; the meters only if metering is on. */
static void report_sum(const struct sum *s, bool metering, struct sp_report *r)
{
	for (const struct field *f = field; f < field + FIELDS; f++)
		sp_report_uint(r, f->name, value(&s->all, f));
	report_verdicts(&s->all, r);
	if (metering)
		report_cycles(&s->all.meter, r);
	report_named(&s->counters, "counters", r);
	report_named(&s->drops, "drops", r);
}

static void forget(struct sum *s)
{
	free(s->drops.sum);
	free(s->counters.sum);
}

/* ---- names ---- */

static const struct sp_device *application(const struct sp_context *c)
{
	const struct sp_device *d = NULL;

	if (c->owner && !c->first)
		for (d = c->nic->device; d && d->owner != c->owner;)
			d = d->next;
	return d;
}

/* NAME, or NAME@PID for an application's. */
static void name_context(const struct sp_context *c, char name[SP_REPORT_NAME])
{
	const struct sp_device *d = application(c);

	if (d)
		snprintf(name, SP_REPORT_NAME, "%s@%u", c->name, d->pid);
	else
		snprintf(name, SP_REPORT_NAME, "%s", c->name);
}

static bool is_first(const struct sp_context_counts *c)
{
	return c->newest == c->context && !c->context->first;
}

struct sp_stats_name *sp_stats_names(const struct sp_snapshot *s)
{
	struct sp_stats_name *names = calloc(s->contexts + 1, sizeof(*names));
	struct sp_report *taken = sp_report_new(); /* set of names in use */

	for (size_t i = 0; names && i < s->contexts; i++) {
		const struct sp_context *c = s->context[i].context;
		char *name = names[i].text;

		if (!is_first(&s->context[i]))
			continue;
		name_context(c, name);
		/* Names in a JSON object must differ, but an application may use one twice. */
		while (strlen(name) + 8 < SP_REPORT_NAME && sp_report_has(taken, name))
			snprintf(name + strlen(name), SP_REPORT_NAME - strlen(name), "#%u", c->id & 0xFFFF);
		sp_report_bool(taken, name, true);
	}
	free(sp_report_finish(taken));
	return names;
}

/* ---- contexts ---- */

struct ask {
	struct sp_context *context;
	struct sp_report *report;
};

/* Runs on the home worker, like all calls of the handler. */
static void ask(struct sp_worker *w, void *arg)
{
	const struct ask *a = arg;
	struct sp_view *v = a->context->view[w->index];

	sp_doing_begin(w, v, SP_DOING_REPORT, NULL, 0);
	a->context->handler->report(&v->pub, a->report);
	sp_doing_end(w);
}

static void report_handler(struct sp_context *c, struct sp_report *r)
{
	struct ask a = {.context = c, .report = sp_report_new()};

	if (!a.report) {
		sp_report_spoil(r);
		return;
	}
	if (sp_worker_look(c->nic->worker[c->home], ask, &a)) {
		free(sp_report_finish(a.report));
		sp_report_string(r, "report", "the handler's home worker has stopped");
	} else if (!sp_report_adopt(r, a.report))
		sp_report_string(r, "report", "the handler's own report is invalid");
}

static void report_limits(const struct sp_context *c, struct sp_report *r)
{
	static const char *const overrun[] = {
		[SP_OVERRUN_COUNT] = "count", [SP_OVERRUN_DROP] = "drop", [SP_OVERRUN_DISABLE] = "disable"};

	sp_report_open(r, "limits", false);
	sp_report_uint(r, "weight", c->weight);
	if (c->budget.cycles) {
		sp_report_uint(r, "budget", c->budget.cycles);
		sp_report_string(r, "overrun", overrun[c->budget.overrun]);
	}
	sp_report_close(r);
}

/* Enabled or disabled, and since when, by the workers' clock. */
static void report_condition(const struct sp_snapshot *s, const struct sp_context *c, const struct sp_meter *m,
			     struct sp_report *r)
{
	unsigned draining = 0;
	sp_time now = 0;

	for (uint16_t w = 0; w < c->nic->workers; w++)
		now = s->worker[w].now > now ? s->worker[w].now : now;
	for (const struct sp_context *o = c->older; o; o = o->older)
		draining++;
	sp_report_open(r, "condition", false);
	sp_report_string(r, "state", m->until > now ? "disabled" : "enabled");
	if (m->until > now)
		sp_report_uint(r, "enabled_in_us", (m->until - now) / SP_US);
	sp_report_uint(r, "disabled", m->disabled);
	sp_report_uint(r, "copy", c->generation);
	sp_report_uint(r, "draining", draining);
	sp_report_close(r);
}

static const char *copy_state(const struct sp_context *c)
{
	return c->newer ? "draining" : "running";
}

/* Each version separately, if there are several. */
static void report_copies(const struct sp_context_counts *c, size_t count, struct sp_report *r)
{
	sp_report_open(r, "copies", true);
	for (size_t i = 0; i < count; i++) {
		if (c[i].context->first)
			continue;
		sp_report_open(r, NULL, false);
		sp_report_uint(r, "copy", c[i].context->generation);
		sp_report_string(r, "state", copy_state(c[i].context));
		sp_report_uint(r, "packets", c[i].run);
		if (c[i].context->messages)
			sp_report_uint(r, "open_messages", sp_messages_open(c[i].context));
		sp_report_close(r);
	}
	sp_report_close(r);
}

/* counts: the newest version or its companion, the first of `count` entries about this context. */
static void report_context(const struct sp_snapshot *s, const struct sp_context_counts *counts, size_t count,
			   const char *name, bool handlers, struct sp_report *r)
{
	struct sp_context *c = counts->context;
	const struct sp_device *d = application(c);
	struct sum sum = {0};
	const struct sp_last_error *last = &counts->last_error;
	uint64_t open = 0;
	char text[160];
	bool said;

	for (size_t i = 0; i < count; i++)
		if (counts[i].newest == c) {
			add(&sum, &counts[i]);
			if (counts[i].last_error.what && (!last->what || counts[i].last_error.at > last->at))
				last = &counts[i].last_error;
			open += counts[i].context->messages ? sp_messages_open(counts[i].context) : 0;
		}
	sp_report_open(r, name, false);
	sp_report_string(r, "handler", c->handler->name);
	if (d) {
		sp_report_open(r, "application", false);
		sp_report_uint(r, "pid", d->pid);
		sp_report_uint(r, "uid", d->uid);
		sp_report_close(r);
	}
	report_sum(&sum, c->nic->worker[0]->metering, r);
	if (c->messages)
		sp_report_uint(r, "open_messages", open);
	said = sp_watchdog_last(c->nic, c->id, c->registered->name, last->what ? last->at : 0, text, sizeof(text)) ||
	       sp_last_error_text(last, text, sizeof(text));
	sp_report_string(r, "last_fault", said ? text : NULL);
	if (!c->first) {
		report_limits(c, r);
		report_condition(s, c, &sum.all.meter, r);
		if (c->older)
			report_copies(counts, count, r);
	}
	forget(&sum);
	if (handlers && c->handler->report)
		report_handler(c, r);
	if (c->companion)
		report_context(s, counts + 1, count - 1, "companion", handlers, r);
	sp_report_close(r);
}

size_t sp_stats_contexts(const struct sp_snapshot *s, const struct sp_stats_name *names, bool handlers,
			 const char *only, struct sp_report *r)
{
	size_t found = 0;

	sp_report_open(r, "contexts", false);
	for (size_t i = 0, next; i < s->contexts; i = next) {
		char name[SP_REPORT_NAME];

		for (next = i + 1; next < s->contexts && !*names[next].text;)
			next++;
		name_context(s->context[i].context, name);
		if (only && strcmp(only, names[i].text) && strcmp(only, name) &&
		    strcmp(only, s->context[i].context->name))
			continue;
		report_context(s, &s->context[i], next - i, names[i].text, handlers, r);
		found++;
	}
	sp_report_close(r);
	return found;
}

/* ---- handlers ---- */

/* The contexts' handler whose name follows `after`. Such handlers live as long as their contexts; others may go. */
static const struct sp_handler *handler_next(const struct sp_snapshot *s, const struct sp_handler *after)
{
	const struct sp_handler *next = NULL;

	for (const struct sp_context_counts *c = s->context; c < s->context + s->contexts; c++) {
		const struct sp_handler *h = c->context->registered;
		if ((!after || strcmp(h->name, after->name) > 0) && (!next || strcmp(h->name, next->name) < 0))
			next = h;
	}
	return next;
}

void sp_stats_handlers(const struct sp_snapshot *s, struct sp_report *r)
{
	sp_report_open(r, "handlers", false);
	for (const struct sp_handler *h = handler_next(s, NULL); h; h = handler_next(s, h)) {
		struct sum sum = {0};
		uint64_t contexts = 0;

		/* compare names: versions come from several plug-ins */
		for (const struct sp_context_counts *c = s->context; c < s->context + s->contexts; c++)
			if (!strcmp(c->context->registered->name, h->name)) {
				contexts += c->newest == c->context;
				add(&sum, c);
			}
		sp_report_open(r, h->name, false);
		sp_report_uint(r, "contexts", contexts);
		report_sum(&sum, s->context->context->nic->worker[0]->metering, r);
		sp_report_close(r);
		forget(&sum);
	}
	sp_report_close(r);
}
