/* SPDX-License-Identifier: BSD-3-Clause */
/* Reload: replaces a running NIC's handlers by the new contents of their file. */
#include "version_make.h"
#include "../error.h"
#include "versions.h"
#include "../engine.h"
#include "../context.h"
#include "../plugin/handler.h"
#include "../plugin/plugin.h"
#include "../ports/port.h"
#include "../process.h"
#include "../observe/report.h"
#include "../observe/stats.h"
#include "../observe/watchdog.h"
#include "../worker_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <rte_ethdev.h>
#include <rte_rcu_qsbr.h>

#define PASSING SP_SEC /* limit of a reload's wait for the workers' RCU quiescence; objects still in use then stay */

pthread_mutex_t sp_reloading = PTHREAD_MUTEX_INITIALIZER;

/* ---- packets lost by a reload ---- */

struct flow {
	struct sp_nic_totals totals;
	uint64_t closed; /* dropped: their context was gone */
	uint64_t missed; /* by ports: no room, or no buffer */
};

static void flow_read(struct sp_nic *nic, struct flow *f)
{
	struct sp_snapshot s;

	*f = (struct flow){.closed = 0};
	sp_snapshot_take(nic, false, &s);
	sp_snapshot_totals(nic, &s, &f->totals);
	for (uint16_t w = 0; w < nic->workers; w++)
		f->closed += s.worker[w].drops[SP_DROP_CONTEXT_CLOSED];
	sp_snapshot_free(&s);
	for (unsigned i = 0; i < nic->ports; i++) {
		struct rte_eth_stats stats;

		if (!nic->port[i].ops && !rte_eth_stats_get(nic->port[i].ethdev, &stats))
			f->missed += stats.imissed + stats.rx_nombuf;
	}
}

/* Of the packets received in between: those that no context, exception port or drop accounts for, those dropped only
 * because of the reload, and those that ports had no room for. */
static uint64_t lost(const struct flow *before, const struct flow *after)
{
	const struct sp_nic_totals *b = &before->totals, *a = &after->totals;
	const int64_t received = (int64_t)(a->received - b->received);
	const int64_t accounted = (int64_t)(a->taken - b->taken + a->forwarded - b->forwarded + a->dropped -
					    b->dropped + a->parked - b->parked);
	const int64_t gone = received - accounted + (int64_t)(after->closed - before->closed);

	return (gone > 0 ? (uint64_t)gone : 0) + (after->missed - before->missed);
}

/* ---- the affected contexts ---- */

struct swap {
	struct sp_nic *nic;
	struct sp_plugin *plugin;
	struct sp_object *object; /* the new one */
	struct sp_error *error;
	struct sp_context **successor;
	size_t successors;
	bool migrates;
};

static const struct sp_handler *handler_named(const struct sp_object *object, const char *name)
{
	const struct sp_handler *handler[SP_NOTED];
	unsigned n;

	sp_handlers_of(object, handler, &n);
	for (unsigned i = 0; i < n; i++)
		if (!strcmp(handler[i]->name, name))
			return handler[i];
	return NULL;
}

static const char *file_of(const struct sp_object *object)
{
	const struct sp_handler *handler[SP_NOTED];
	unsigned n;

	sp_handlers_of(object, handler, &n); /* one at least */
	return sp_handler_file(handler[0]);
}

/* Puts the context's name before the text of attach() or migrate(). */
static int refuse(const struct sp_context *c, struct sp_error *error, int r)
{
	char said[sizeof(error->text)];

	if (!error)
		return r;
	memcpy(said, error->text, sizeof(said));
	snprintf(error->text, sizeof(error->text), "context %s: %.180s", c->name, *said ? said : strerror(-r));
	return r;
}

static int refuse_full(struct sp_context *c, struct sp_error *error)
{
	struct sp_context *oldest = c;
	struct sp_version_holds holds;
	char text[128];

	while (oldest->older)
		oldest = oldest->older;
	sp_version_look(oldest, &holds);
	return sp_error_set(error, EBUSY, "", "context %s has %d copies of handler %s in flight; copy %u holds: %s",
			    c->name, SP_MAX_VERSIONS, c->registered->name, oldest->generation,
			    sp_version_says(&holds, text, sizeof(text)));
}

static int succeed(struct swap *s, struct sp_context *c)
{
	const struct sp_handler *h = handler_named(s->object, c->registered->name);
	struct sp_context *successor;
	int r;

	if (c->companion)
		return sp_error_set(s->error, EOPNOTSUPP, "",
				    "context %s has handlers %s and %s: two that work on the same messages cannot be "
				    "reloaded; remove the context and add it again",
				    c->name, c->registered->name, c->companion->registered->name);
	if (!h)
		return sp_error_set(s->error, ENOENT, "", "context %s has handler %s, which is not in the new file",
				    c->name, c->registered->name);
	if (sp_versions_count(c) >= SP_MAX_VERSIONS)
		return refuse_full(c, s->error);
	r = sp_version_create(c, h, &successor, s->error);
	if (r)
		return refuse(c, s->error, r);
	s->successor[s->successors++] = successor;
	s->migrates |= h->migrate != NULL;
	return 0;
}

static bool is_about(const struct swap *s, const struct sp_context *c)
{
	return c && (sp_context_is_of(c, s->plugin) || (c->companion && sp_context_is_of(c->companion, s->plugin)));
}

/* Applies `force` to versions left by earlier reloads, too: one that never drains would otherwise block reloads for
 * ever. */
static void hasten(const struct swap *s, sp_time force)
{
	for (uint32_t i = 0; force && i < s->nic->context_next; i++) {
		struct sp_context *c = s->nic->context[i], *older;

		for (c = is_about(s, c) ? c->older : NULL; c; c = older) {
			struct sp_version_holds holds;

			older = c->older;
			if (!c->force || c->force > c->replaced + force)
				c->force = c->replaced + force;
			sp_version_collect(c, &holds);
		}
	}
}

/* Makes a successor for each affected context; stops at the first that fails. */
static int succeed_all(struct swap *s)
{
	struct sp_nic *nic = s->nic;
	size_t n = 0;
	int r = 0;

	for (uint32_t i = 0; i < nic->context_next; i++)
		n += is_about(s, nic->context[i]);
	s->successor = calloc(n + 1, sizeof(*s->successor));
	if (!s->successor)
		return sp_error_set(s->error, ENOMEM, "", "out of memory");
	for (uint32_t i = 0; i < nic->context_next && !r; i++)
		if (is_about(s, nic->context[i]))
			r = succeed(s, nic->context[i]);
	return r;
}

struct migrate {
	struct sp_context *context;
	struct sp_error *error;
	int result;
};

static void migrate(struct sp_worker *w, void *arg)
{
	struct migrate *m = arg;

	m->result = sp_version_migrate(w, m->context, m->context->older, SP_MIGRATE_SWAP, m->error);
}

/* Workers stand still only here, so that no packet runs between migrate() and take-over. */
static int take_over(struct swap *s)
{
	int r = s->migrates ? sp_workers_stand(s->nic) : 0;

	if (r)
		return sp_error_set(s->error, -r, "", "the NIC's workers do not come round: %s", strerror(-r));
	for (size_t i = 0; i < s->successors && !r; i++) {
		struct migrate m = {.context = s->successor[i], .error = s->error};

		sp_worker_call(s->nic->worker[m.context->home], migrate, &m);
		if (m.result)
			r = refuse(m.context, s->error, m.result);
	}
	for (size_t i = 0; i < s->successors && !r; i++)
		sp_version_publish(s->successor[i]);
	if (s->migrates)
		sp_workers_go(s->nic);
	return r;
}

/* Waits until no worker uses a pointer that it looked up before (RCU). */
static void pass(struct sp_nic *nic)
{
	const uint64_t token = rte_rcu_qsbr_start(nic->readers);
	const struct timespec pause = {.tv_nsec = 20000};
	const sp_time until = sp_clock() + PASSING;

	while (!rte_rcu_qsbr_check(nic->readers, token, false) && sp_clock() < until)
		nanosleep(&pause, NULL);
}

/* ---- reload ---- */

/* nic->control is held. Discards the successors on failure. */
static int swap(struct swap *s, const char *name, sp_time force, struct sp_report *r)
{
	struct flow before, after;
	int rc = sp_watchdog_pass(s->nic, s->error);

	if (!rc) {
		hasten(s, force);
		rc = succeed_all(s);
	}
	if (!rc) {
		flow_read(s->nic, &before);
		rc = take_over(s);
	}
	if (rc) {
		while (s->successors)
			sp_version_discard(s->successor[--s->successors]);
		return rc;
	}
	sp_plugin_replace(s->object);
	pass(s->nic);
	sp_report_string(r, "handler", name);
	sp_report_string(r, "file", file_of(s->object));
	sp_report_open(r, "contexts", true);
	for (size_t i = 0; i < s->successors; i++) {
		struct sp_context *c = s->successor[i];

		c->older->force = force ? s->nic->worker[c->home]->now + force : 0;
		sp_report_open(r, NULL, false);
		sp_report_string(r, "name", c->name);
		sp_versions_report(r, c, true);
		sp_report_close(r);
	}
	sp_report_close(r);
	flow_read(s->nic, &after);
	sp_report_uint(r, "received_meanwhile", after.totals.received - before.totals.received);
	sp_report_uint(r, "lost", lost(&before, &after));
	return 0;
}

int sp_nic_handler_reload(struct sp_nic *nic, const char *name, const char *file, sp_time force, char **json,
			  struct sp_error *error)
{
	struct swap s = {.nic = nic, .error = error};
	struct sp_report *r = NULL;
	int rc;

	if (json)
		*json = NULL;
	if (error)
		memset(error, 0, sizeof(*error));
	pthread_mutex_lock(&sp_reloading);
	s.plugin = sp_plugin_named(name, error, &rc);
	if (!rc)
		rc = sp_plugin_renew(s.plugin, file, &s.object, error);
	if (rc)
		goto out;
	r = sp_report_new();
	pthread_mutex_lock(&nic->control);
	rc = r ? swap(&s, name, force, r) : sp_error_set(error, ENOMEM, "", "out of memory");
	pthread_mutex_unlock(&nic->control);
	if (rc) {
		sp_plugin_discard(s.object);
		free(sp_report_finish(r));
		sp_plugins_collect(); /* objects of versions that were forced to end */
		goto out;
	}
	sp_plugins_collect();
	if (error)
		memset(error, 0, sizeof(*error)); /* attach() may leave notes there */
	sp_versions_finish(r, json);		  /* the reload is done, with or without memory for the answer */
out:
	pthread_mutex_unlock(&sp_reloading);
	free(s.successor);
	return rc;
}
