/* SPDX-License-Identifier: BSD-3-Clause */
/* The NIC's report: a snapshot, formatted by the caller's thread. */
#include "context.h"
#include "host.h"
#include "message.h"
#include "port.h"
#include "report.h"
#include "stats.h"

#include <stdio.h>
#include <stdlib.h>

#include <rte_ethdev.h>

static void report_nic(const struct sp_nic *nic, struct sp_report *r)
{
	sp_report_string(r, "name", nic->config.name);
	if (nic->started)
		sp_report_uint(r, "uptime_s", (sp_clock() - nic->started_at) / SP_SEC);
	sp_report_uint(r, "memory_used", atomic_load_explicit(&nic->memory_used, memory_order_relaxed));
}

static void report_totals(const struct sp_nic *nic, const struct sp_snapshot *s, struct sp_report *r)
{
	struct sp_nic_totals t;

	sp_snapshot_totals(nic, s, &t);
	sp_report_uint(r, "packets", t.received);
	sp_report_uint(r, "bytes", t.bytes);
	sp_report_uint(r, "sent", t.sent);
	sp_report_uint(r, "sent_bytes", t.sent_bytes);
	sp_report_uint(r, "taken", t.taken);
	sp_report_uint(r, "answered", t.answered);
	sp_report_uint(r, "forwarded", t.forwarded);
	sp_report_uint(r, "dropped", t.dropped);
	sp_report_uint(r, "parked", t.parked);
}

static void report_drops(const struct sp_nic *nic, const struct sp_snapshot *snapshot, struct sp_report *r)
{
	struct sp_drop_sums s = sp_stats_drops(nic, snapshot);

	sp_report_open(r, "drops", false);
	for (size_t i = 0; i < s.count; i++)
		sp_report_uint(r, s.sum[i].name, s.sum[i].count);
	sp_report_close(r);
	free(s.sum);
}

static void report_ethdev(const struct sp_port *port, struct sp_report *r)
{
	struct rte_eth_stats s;
	uint64_t kernel;

	sp_report_string(r, "device", port->nic->config.port[port->index].device);
	if (sp_port_kernel_drops(port, &kernel))
		sp_report_uint(r, "kernel_drops", kernel);
	else
		sp_report_string(r, "kernel_drops", NULL); /* the driver does not tell */
	if (rte_eth_stats_get(port->ethdev, &s))
		return;
	sp_report_uint(r, "missed", s.imissed);
	sp_report_uint(r, "receive_errors", s.ierrors);
	sp_report_uint(r, "no_buffers", s.rx_nombuf);
	sp_report_uint(r, "transmit_errors", s.oerrors);
}

static void report_ports(const struct sp_nic *nic, const struct sp_snapshot *s, struct sp_report *r)
{
	sp_report_open(r, "ports", true);
	for (unsigned p = 0; p <= SP_PORT_LOOP; p++) {
		struct sp_rx_count rx = {0}, tx = {0};

		if (p >= nic->ports && !(p == SP_PORT_LOOP && nic->looping))
			continue;
		for (uint16_t w = 0; w < nic->workers; w++) {
			rx.packets += s->worker[w].rx[p].packets;
			rx.bytes += s->worker[w].rx[p].bytes;
			tx.packets += s->worker[w].tx[p].packets;
			tx.bytes += s->worker[w].tx[p].bytes;
		}
		sp_report_open(r, NULL, false);
		if (p == SP_PORT_LOOP)
			sp_report_string(r, "device", "loop");
		else if (!nic->port[p].ops)
			report_ethdev(&nic->port[p], r);
		sp_report_uint(r, "packets", rx.packets);
		sp_report_uint(r, "bytes", rx.bytes);
		sp_report_uint(r, "sent", tx.packets);
		sp_report_uint(r, "sent_bytes", tx.bytes);
		sp_report_close(r);
	}
	sp_report_close(r);
}

static void report_workers(const struct sp_nic *nic, const struct sp_snapshot *s, struct sp_report *r)
{
	sp_report_open(r, "workers", true);
	for (uint16_t i = 0; i < nic->workers; i++) {
		const struct sp_worker_counts *w = &s->worker[i];
		uint64_t packets = 0, dropped = w->refused;

		for (unsigned p = 0; p <= SP_PORT_LOOP; p++)
			packets += w->rx[p].packets;
		for (unsigned d = 0; d < SP_DROP_FIRST_TX; d++)
			dropped += w->drops[d];
		sp_report_open(r, NULL, false);
		sp_report_uint(r, "packets", packets);
		sp_report_uint(r, "taken", w->taken + w->answered);
		sp_report_uint(r, "answered", w->answered);
		sp_report_uint(r, "forwarded", w->forwarded);
		sp_report_uint(r, "dropped", dropped);
		sp_report_uint(r, "parked", w->parked);
		sp_report_uint(r, "polls", w->polls);
		sp_report_uint(r, "busy_polls", w->busy_polls);
		if (nic->started) {
			sp_report_uint(r, "running_us", w->ran / SP_US);
			sp_report_uint(r, "busy_us", w->busy / SP_US);
			sp_report_uint(r, "busy_percent", w->ran ? w->busy * 100 / w->ran : 0);
		}
		sp_report_close(r);
	}
	sp_report_close(r);
}

/* ---- applications ---- */

static const struct sp_device *application(const struct sp_nic *nic, uint32_t owner)
{
	const struct sp_device *d = NULL;

	if (owner)
		for (d = nic->device; d && d->owner != owner;)
			d = d->next;
	return d;
}

static void report_applications(const struct sp_nic *nic, struct sp_report *r)
{
	sp_report_open(r, "applications", true);
	for (const struct sp_device *d = nic->device; d; d = d->next) {
		const struct sp_account *a = d->account;

		if (!d->owner)
			continue;
		sp_report_open(r, NULL, false);
		sp_report_uint(r, "pid", d->pid);
		sp_report_uint(r, "uid", d->uid);
		if (a) {
			sp_report_uint(r, "memory", atomic_load_explicit(&a->memory, memory_order_relaxed));
			sp_report_uint(r, "memory_limit", a->limit.memory);
			sp_report_uint(r, "contexts", a->contexts);
			sp_report_uint(r, "contexts_limit", a->limit.contexts);
			sp_report_uint(r, "qps", a->qps);
			sp_report_uint(r, "qps_limit", a->limit.qps);
			sp_report_uint(r, "messages", a->messages);
			sp_report_uint(r, "messages_limit", a->limit.messages);
		}
		sp_report_close(r);
	}
	sp_report_close(r);
}

/* ---- contexts ---- */

struct ask {
	struct sp_context *context;
	struct sp_report *report;
};

/* On the home worker, like any other call of the handler. */
static void ask(struct sp_worker *w, void *arg)
{
	const struct ask *a = arg;

	a->context->handler->report(&a->context->view[w->index]->pub, a->report);
}

static void report_handler(struct sp_context *c, struct sp_report *r)
{
	struct ask a = {.context = c, .report = sp_report_new()};

	if (!a.report) {
		sp_report_spoil(r);
		return;
	}
	sp_worker_call(c->nic->worker[c->home], ask, &a);
	if (!sp_report_adopt(r, a.report))
		sp_report_string(r, "report", "the handler's own report is no good");
}

/* counts: of the context; those of its companion follow. */
static void report_context(const struct sp_context_counts *counts, const char *name, bool handlers, struct sp_report *r)
{
	static const struct {
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
		{"kept", offsetof(struct sp_context_counts, kept)},
	};
	struct sp_context *c = counts->context;
	const struct sp_device *d = c->first ? NULL : application(c->nic, c->owner);

	sp_report_open(r, name, false);
	sp_report_string(r, "handler", c->handler->name);
	if (d) {
		sp_report_open(r, "application", false);
		sp_report_uint(r, "pid", d->pid);
		sp_report_uint(r, "uid", d->uid);
		sp_report_close(r);
	}
	for (size_t i = 0; i < sizeof(field) / sizeof(*field); i++)
		sp_report_uint(r, field[i].name, *(const uint64_t *)((const uint8_t *)counts + field[i].at));
	if (c->messages)
		sp_report_uint(r, "open_messages", sp_messages_open(c));
	sp_report_open(r, "counters", false);
	for (unsigned i = 0; i < c->counters; i++)
		sp_report_uint(r, c->handler->counters[i], counts->counters[i]);
	sp_report_close(r);
	sp_report_open(r, "drops", false);
	for (unsigned i = 0; i < c->reasons; i++)
		if (counts->drops[i])
			sp_report_uint(r, c->handler->drops[i], counts->drops[i]);
	sp_report_close(r);
	if (handlers && c->handler->report)
		report_handler(c, r);
	if (c->companion)
		report_context(counts + 1, "companion", handlers, r);
	sp_report_close(r);
}

/* NAME, or NAME@PID of an application's. */
static void name_context(const struct sp_context *c, char name[SP_REPORT_NAME])
{
	const struct sp_device *d = application(c->nic, c->owner);

	if (d)
		snprintf(name, SP_REPORT_NAME, "%s@%u", c->name, d->pid);
	else
		snprintf(name, SP_REPORT_NAME, "%s", c->name);
}

/* only: of that name, or NULL. Returns how many there were. */
static size_t report_contexts(const struct sp_snapshot *s, bool handlers, const char *only, struct sp_report *r)
{
	size_t found = 0;

	sp_report_open(r, "contexts", false);
	for (size_t i = 0; i < s->contexts; i++) {
		const struct sp_context *c = s->context[i].context;
		char name[SP_REPORT_NAME];

		if (c->first)
			continue;
		name_context(c, name);
		if (only && strcmp(only, name) && strcmp(only, c->name))
			continue;
		/* An application may give several of its contexts one name; an object may not. */
		while (strlen(name) + 8 < SP_REPORT_NAME && sp_report_has(r, name))
			snprintf(name + strlen(name), SP_REPORT_NAME - strlen(name), "#%u", c->id & 0xFFFF);
		report_context(&s->context[i], name, handlers, r);
		found++;
	}
	sp_report_close(r);
	return found;
}

/* The first name behind `after` among the contexts' handlers, which stay as long as their contexts; others may go. */
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

/* A handler over all its contexts. */
static void report_handlers(const struct sp_snapshot *s, struct sp_report *r)
{
	sp_report_open(r, "handlers", false);
	for (const struct sp_handler *h = handler_next(s, NULL); h; h = handler_next(s, h)) {
		uint64_t contexts = 0, packets = 0, bytes = 0, dropped = 0, sent = 0;

		for (const struct sp_context_counts *c = s->context; c < s->context + s->contexts; c++)
			if (c->context->registered == h) {
				contexts++;
				packets += c->packets;
				bytes += c->bytes;
				dropped += c->dropped;
				sent += c->sent;
			}
		sp_report_open(r, h->name, false);
		sp_report_uint(r, "contexts", contexts);
		sp_report_uint(r, "packets", packets);
		sp_report_uint(r, "bytes", bytes);
		sp_report_uint(r, "dropped", dropped);
		sp_report_uint(r, "sent", sent);
		sp_report_close(r);
	}
	sp_report_close(r);
}

/* context: only that one, or NULL. -ENOENT, -ENOMEM: the report is not whole. */
static int report_all(struct sp_nic *nic, bool handlers, const char *context, struct sp_report *r)
{
	struct sp_snapshot s;
	int status = 0;

	pthread_mutex_lock(&nic->control);
	status = sp_snapshot_take(nic, true, &s);
	if (status)
		goto out;
	report_nic(nic, r);
	if (!context) {
		report_totals(nic, &s, r);
		report_drops(nic, &s, r);
		report_ports(nic, &s, r);
		report_workers(nic, &s, r);
		report_handlers(&s, r);
		report_applications(nic, r);
	}
	if (!report_contexts(&s, handlers, context, r) && context)
		status = -ENOENT;
	sp_snapshot_free(&s);
out:
	pthread_mutex_unlock(&nic->control);
	return status;
}

void sp_nic_report(struct sp_nic *nic, struct sp_report *r)
{
	if (report_all(nic, true, NULL, r))
		sp_report_spoil(r);
}

int sp_nic_report_text(struct sp_nic *nic, bool handlers, const char *context, char **json)
{
	struct sp_report *r = sp_report_new();
	int status = r ? report_all(nic, handlers, context && *context ? context : NULL, r) : -ENOMEM;
	char *text = sp_report_finish(r);

	if (!status && !text)
		status = -ENOMEM;
	if (status) {
		free(text);
		return status;
	}
	*json = text;
	return 0;
}
