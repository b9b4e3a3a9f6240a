/* SPDX-License-Identifier: BSD-3-Clause */
/* The NIC's report: a snapshot, formatted in the caller's thread. */
#include "../engine.h"
#include "../exec/rings.h"
#include "../mem/account.h"
#include "../ports/port.h"
#include "../user.h"
#include "report.h"
#include "stats.h"
#include "watchdog.h"

#include <stdio.h>
#include <stdlib.h>

#include <rte_cycles.h>
#include <rte_ethdev.h>

static void report_nic(const struct sp_nic *nic, struct sp_report *r)
{
	sp_report_string(r, "name", nic->config.name);
	if (nic->started)
		sp_report_uint(r, "uptime_s", (sp_clock() - nic->started_at) / SP_SEC);
	sp_report_uint(r, "memory_used", atomic_load_explicit(&nic->memory_used, memory_order_relaxed));
	if (nic->worker[0]->metering && !nic->config.cycles)
		sp_report_uint(r, "tsc_hz", rte_get_tsc_hz()); /* unit of the cycles below */
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
		sp_report_string(r, "kernel_drops", NULL); /* the driver does not report them */
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

/* Cycles that each context's calls took on a worker. */
static void report_spent(const struct sp_snapshot *s, uint16_t worker, const struct sp_stats_name *names,
			 struct sp_report *r)
{
	uint64_t all = 0;

	for (size_t i = 0; i < s->contexts; i++)
		all += s->context[i].cycles[worker];
	sp_report_uint(r, "cycles", all);
	sp_report_open(r, "contexts", false);
	for (size_t i = 0, next; i < s->contexts; i = next) {
		uint64_t cycles = 0;

		for (next = i; next < s->contexts && (next == i || !*names[next].text); next++)
			cycles += s->context[next].cycles[worker];
		if (cycles)
			sp_report_uint(r, names[i].text, cycles);
	}
	sp_report_close(r);
}

static void report_workers(const struct sp_nic *nic, const struct sp_snapshot *s, const struct sp_stats_name *names,
			   struct sp_report *r)
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
		sp_report_bool(r, "stopped", sp_watchdog_stopped(nic, i));
		sp_report_uint(r, "polls", w->polls);
		sp_report_uint(r, "busy_polls", w->busy_polls);
		sp_report_uint(r, "sleeps", w->sleeps);
		sp_report_uint(r, "woken", w->woken);
		if (nic->started) {
			sp_report_uint(r, "running_us", w->ran / SP_US);
			sp_report_uint(r, "busy_us", w->busy / SP_US);
			sp_report_uint(r, "busy_percent", w->ran ? w->busy * 100 / w->ran : 0);
		}
		if (nic->worker[i]->metering)
			report_spent(s, i, names, r);
		sp_report_close(r);
	}
	sp_report_close(r);
}

/* ---- applications ---- */

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

/* Of each user: what its applications have and had together. */
static void report_users(const struct sp_nic *nic, const struct sp_snapshot *s, struct sp_report *r)
{
	sp_report_open(r, "users", true);
	for (const struct sp_user *u = nic->user; u; u = u->next) {
		uint64_t waits = 0, drops = 0, cycles = 0;

		for (uint16_t w = 0; w < nic->workers; w++) {
			waits += __atomic_load_n(&u->allowance[w].waits, __ATOMIC_RELAXED);
			drops += __atomic_load_n(&u->allowance[w].drops, __ATOMIC_RELAXED);
		}
		for (size_t i = 0; i < s->contexts; i++) {
			const struct sp_account *a = s->context[i].context->account;

			for (uint16_t w = 0; a && a->user == u && w < nic->workers; w++)
				cycles += s->context[i].cycles[w];
		}
		if (!atomic_load(&u->applications) && !atomic_load(&u->memory))
			continue;
		sp_report_open(r, NULL, false);
		sp_report_uint(r, "uid", u->uid);
		sp_report_uint(r, "weight", u->share[0].weight);
		sp_report_uint(r, "applications", atomic_load(&u->applications));
		sp_report_uint(r, "memory", atomic_load(&u->memory));
		sp_report_uint(r, "contexts", u->contexts);
		sp_report_uint(r, "qps", u->qps);
		if (nic->worker[0]->metering)
			sp_report_uint(r, "cycles", cycles); /* of the contexts that there are */
		sp_report_bool(r, "limited", u->limited);
		sp_report_uint(r, "limit_waits", waits);
		sp_report_uint(r, "limit_drops", drops);
		sp_report_close(r);
	}
	sp_report_close(r);
}

/* context: only this one, or NULL. -ENOENT; -ENOMEM: the report is incomplete. */
static int report_all(struct sp_nic *nic, bool handlers, const char *context, struct sp_report *r)
{
	struct sp_stats_name *names = NULL;
	struct sp_snapshot s;
	int status = 0;

	pthread_mutex_lock(&nic->control);
	status = sp_snapshot_take(nic, true, &s);
	if (status)
		goto out;
	names = sp_stats_names(&s);
	if (!names) {
		status = -ENOMEM;
		goto free;
	}
	report_nic(nic, r);
	if (!context) {
		report_totals(nic, &s, r);
		report_drops(nic, &s, r);
		report_ports(nic, &s, r);
		report_workers(nic, &s, names, r);
		sp_stats_handlers(&s, r);
		report_applications(nic, r);
		report_users(nic, &s, r);
		sp_watchdog_report(nic, r);
	}
	if (!sp_stats_contexts(&s, names, handlers, context, r) && context)
		status = -ENOENT;
free:
	free(names);
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
