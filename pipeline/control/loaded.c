/* SPDX-License-Identifier: BSD-3-Clause */
/* Plug-ins of a running NIC: load, unload, report, and collection of drained versions. */
#include "../error.h"
#include "versions.h"
#include "../engine.h"
#include "../context.h"
#include "../plugin/handler.h"
#include "../plugin/plugin.h"
#include "../process.h"
#include "../observe/report.h"
#include "../observe/watchdog.h"

#include <stdio.h>
#include <stdlib.h>

bool sp_context_is_of(const struct sp_context *c, const struct sp_plugin *plugin)
{
	return sp_object_plugin(sp_handler_object(c->registered)) == plugin;
}

struct sp_plugin *sp_plugin_named(const char *name, struct sp_error *error, int *rc)
{
	struct sp_plugin *p = sp_plugin_find(name);

	*rc = p ? 0 : -ENOENT;
	if (p)
		return p;
	if (sp_handler_find(name))
		*rc = sp_error_set(error, EINVAL, "", "handler %s is built in: it comes from no plug-in", name);
	else
		sp_handler_missing(name, "", error);
	return NULL;
}

/* ---- reports ---- */

static void tell_copy(struct sp_report *r, uint32_t copy, const struct sp_version_holds *h, const char *state)
{
	sp_report_open(r, NULL, false);
	sp_report_uint(r, "copy", copy);
	sp_report_uint(r, "packets", h->packets);
	sp_report_uint(r, "open_messages", h->messages);
	sp_report_uint(r, "timers", h->timers);
	sp_report_uint(r, "issues", h->issues);
	sp_report_uint(r, "work", h->works);
	sp_report_uint(r, "waiting", h->waiting);
	sp_report_uint(r, "kept", h->held > 0 ? (uint64_t)h->held : 0);
	sp_report_uint(r, "lent", h->lent);
	sp_report_string(r, "state", state);
	sp_report_close(r);
}

void sp_versions_report(struct sp_report *r, struct sp_context *c, bool collect)
{
	struct sp_context *copy[SP_MAX_VERSIONS + 1];
	struct sp_version_holds holds;
	unsigned n = 0;

	for (struct sp_context *o = c; o && n <= SP_MAX_VERSIONS; o = o->older)
		copy[n++] = o;
	sp_report_open(r, "copies", true);
	while (n-- > 1) {
		const uint32_t number = copy[n]->generation;
		bool gone = false;

		if (collect)
			gone = sp_version_collect(copy[n], &holds);
		else
			sp_version_look(copy[n], &holds);
		tell_copy(r, number, &holds, gone ? "gone" : "draining");
	}
	sp_version_look(c, &holds);
	tell_copy(r, c->generation, &holds, "running");
	sp_report_close(r);
}

int sp_versions_finish(struct sp_report *r, char **json)
{
	char *text = sp_report_finish(r);

	if (json)
		*json = text;
	else
		free(text);
	return text ? 0 : -ENOMEM;
}

/* ---- load, unload ---- */

struct tell {
	struct sp_report *report;
	const struct sp_plugin *only; /* NULL: all */
};

static void tell_object(void *arg, const struct sp_object_text *o)
{
	const struct tell *t = arg;

	if (t->only && sp_object_plugin(o->object) != t->only)
		return;
	sp_report_open(t->report, NULL, false);
	sp_report_string(t->report, "file", o->file);
	sp_report_uint(t->report, "load", o->copy);
	sp_report_string(t->report, "state", o->replaced ? "replaced" : "loaded");
	sp_report_uint(t->report, "users", o->users);
	sp_report_open(t->report, "handlers", true);
	for (unsigned i = 0; i < o->handlers; i++) {
		sp_report_open(t->report, NULL, false);
		sp_report_string(t->report, "name", o->handler[i]->name);
		sp_report_uint(t->report, "version", o->handler[i]->version);
		sp_report_close(t->report);
	}
	sp_report_close(t->report);
	sp_report_close(t->report);
}

static int tell_objects(struct sp_nic *nic, const struct sp_plugin *only, char **json)
{
	struct tell t = {.report = sp_report_new(), .only = only};

	*json = NULL;
	if (!t.report)
		return -ENOMEM;
	sp_report_open(t.report, "plugins", true);
	sp_objects_each(tell_object, &t);
	sp_report_close(t.report);
	sp_report_open(t.report, "contexts", true);
	pthread_mutex_lock(&nic->control);
	for (uint32_t i = 0; i < nic->context_next; i++) {
		struct sp_context *c = nic->context[i];
		const char *file = c ? sp_handler_file(c->registered) : NULL;

		if (!file || (only && !sp_context_is_of(c, only)))
			continue;
		sp_report_open(t.report, NULL, false);
		sp_report_string(t.report, "name", c->name);
		sp_report_string(t.report, "handler", c->registered->name);
		sp_report_string(t.report, "file", file);
		sp_versions_report(t.report, c, false);
		sp_report_close(t.report);
	}
	pthread_mutex_unlock(&nic->control);
	sp_report_close(t.report);
	return sp_versions_finish(t.report, json);
}

int sp_nic_handler_text(struct sp_nic *nic, char **json)
{
	return tell_objects(nic, NULL, json);
}

int sp_nic_handler_load(struct sp_nic *nic, const char *file, char **json, struct sp_error *error)
{
	int rc;

	if (json)
		*json = NULL;
	pthread_mutex_lock(&sp_reloading);
	rc = sp_plugin_load_named(file, error);
	if (!rc && json)
		tell_objects(nic, sp_plugin_find(file), json);
	pthread_mutex_unlock(&sp_reloading);
	return rc;
}

/* Names this NIC's contexts that use the plug-in, and what their older versions hold. */
static int refuse_unload(struct sp_nic *nic, const struct sp_plugin *plugin, const char *name, struct sp_error *error)
{
	char text[sizeof(error->text)] = "", holds_text[96];
	const size_t len = strlen(name);
	struct sp_version_holds holds;
	size_t at = 0;

	for (uint32_t i = 0; i < nic->context_next; i++)
		for (struct sp_context *c = nic->context[i]; c; c = c->older) {
			const bool own = sp_context_is_of(c, plugin);

			if ((!own && !(c->companion && sp_context_is_of(c->companion, plugin))) || at >= sizeof(text))
				continue;
			sp_version_look(c, &holds);
			at += (size_t)snprintf(text + at, sizeof(text) - at, "%scontext %s, copy %u: %s",
					       at ? "; " : "", c->name, c->generation,
					       !c->newer && !holds.messages && !holds.timers
						       ? "in use"
						       : sp_version_says(&holds, holds_text, sizeof(holds_text)));
		}
	/* The end of a long path tells more than its start. */
	return sp_error_set(error, EBUSY, "", "handler %s%s is held: %.180s", len > 40 ? "..." : "",
			    len > 40 ? name + len - 40 : name, at ? text : "by another NIC of this process");
}

int sp_nic_handler_unload(struct sp_nic *nic, const char *name, struct sp_error *error)
{
	struct sp_plugin *plugin;
	int rc;

	if (error)
		memset(error, 0, sizeof(*error));
	sp_nic_handler_collect(nic);
	pthread_mutex_lock(&sp_reloading);
	plugin = sp_plugin_named(name, error, &rc);
	if (!rc) {
		pthread_mutex_lock(&nic->control);
		rc = sp_plugin_drop(plugin);
		if (rc == -EBUSY)
			refuse_unload(nic, plugin, name, error);
		pthread_mutex_unlock(&nic->control);
	}
	pthread_mutex_unlock(&sp_reloading);
	return rc;
}

/* ---- collection of drained versions ---- */

unsigned sp_nic_handler_collect(struct sp_nic *nic)
{
	bool gone = false;

	/* Another control call is running: the next round collects. */
	if (!atomic_load(&nic->draining) || pthread_mutex_trylock(&nic->control))
		return atomic_load(&nic->draining);
	if (sp_watchdog_pass(nic, NULL)) { /* do not hold control while waiting for a stopped worker */
		pthread_mutex_unlock(&nic->control);
		return atomic_load(&nic->draining);
	}
	for (uint32_t i = 0; i < nic->context_next; i++) {
		struct sp_context *older;

		for (struct sp_context *c = nic->context[i] ? nic->context[i]->older : NULL; c; c = older) {
			struct sp_version_holds holds;

			older = c->older;
			gone |= sp_version_collect(c, &holds);
		}
	}
	pthread_mutex_unlock(&nic->control);
	if (gone)
		sp_plugins_collect();
	return atomic_load(&nic->draining);
}
