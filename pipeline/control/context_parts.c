/* SPDX-License-Identifier: BSD-3-Clause */
#include "../rx/rule.h"
#include "context_parts.h"
#include "../mem/canary.h"
#include "../error.h"
#include "../exec/fate.h"
#include "../mem/account.h"
#include "../mem/context_alloc.h"
#include "../plugin/handler.h"
#include "../exec/rings.h"
#include "../exec/issue.h"
#include "../tx/zero_copy.h"
#include "../rx/match.h"
#include "../exec/measure.h"
#include "../mem/memory.h"
#include "../user.h"
#include "../exec/message.h"
#include "../tx/path.h"
#include "../exec/scheduler.h"
#include "settings.h"
#include "../exec/timer.h"
#include "../observe/traced.h"
#include "../exec/work.h"
#include "../worker_call.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- making a context ---- */

int sp_context_check(const struct sp_handler *h, struct sp_error *error)
{
	const char *what = NULL;

	if (h->messages != SP_MESSAGES_NONE && !h->classify)
		what = "has messages but no classify()";
	else if (h->messages == SP_MESSAGES_NONE && !h->classify && (h->header || h->completion))
		what = "has no messages of its own: it can only be a companion";
	else if (h->messages > SP_MESSAGES_SLOTS)
		what = "names an unknown kind of messages";
	else if (sp_names_count(h->drops) > SP_MAX_DROPS || sp_names_count(h->counters) > SP_MAX_COUNTERS)
		what = "declares too many drop reasons or counters";
	return what ? sp_error_set(error, EINVAL, "handler", "handler %s %s", h->name, what) : 0;
}

struct sp_context *sp_context_create(struct sp_nic *nic, const char *name, const struct sp_handler *h,
				     struct sp_device *device)
{
	struct sp_context *c = calloc(1, sizeof(*c));

	if (!c) {
		sp_handler_put(h);
		return NULL;
	}
	if (device) {
		c->device = device;
		c->owner = device->owner;
		c->account = device->account;
		c->door = device->driven || nic->tracers ? NULL : &device->door;
	}
	snprintf(c->name, sizeof(c->name), "%s", name);
	c->nic = nic;
	c->handler = c->registered = h;
	c->file = sp_handler_file(h);
	c->reasons = sp_names_count(h->drops);
	c->counters = sp_names_count(h->counters);
	c->attaching = true;
	c->generation = 1;
	if (nic->tracers && sp_traced_create(c)) {
		sp_handler_put(h);
		free(c);
		return NULL;
	}
	c->heeded = c->door || c->traced;
	return c;
}

static size_t entity_bytes(const struct sp_context *c)
{
	return c->nic->workers * sizeof(struct sp_entity);
}

/* A companion uses its context's entities, and a newer version those of the older one. */
static int create_entities(struct sp_context *c)
{
	const struct sp_context *other = c->first ? c->first : c->older;
	struct sp_entity *e;
	int r;

	if (other) {
		memcpy(c->entity, other->entity, sizeof(c->entity));
		return 0;
	}
	r = sp_context_charge(c, entity_bytes(c));
	if (r)
		return r;
	e = aligned_alloc(64, entity_bytes(c));
	if (!e) {
		sp_memory_credit(c->nic, c->account, entity_bytes(c));
		return -ENOMEM;
	}
	memset(e, 0, entity_bytes(c));
	for (uint16_t w = 0; w < c->nic->workers; w++) {
		c->entity[w] = &e[w];
		e[w].view = c->view[w];
		e[w].share = c->account ? &c->account->share[w] : &c->nic->own->share[w];
		if (c->account && c->account->user->limited)
			e[w].allowance = &c->account->user->allowance[w];
		sp_queue_init(&e[w].backlog);
	}
	return 0;
}

static void free_entities(struct sp_context *c)
{
	if (c->first || c->inherited || !c->entity[0])
		return;
	free(c->entity[0]); /* one array */
	sp_memory_credit(c->nic, c->account, entity_bytes(c));
}

static int create_views(struct sp_context *c)
{
	int r;

	for (uint16_t w = 0; w < c->nic->workers; w++) {
		struct sp_view *v = sp_context_alloc(c, sizeof(*v), 0);

		if (!v)
			return -ENOMEM;
		if (w == c->home || c->registered->flags & SP_HANDLER_FLOWS) {
			v->paths = sp_context_alloc(c, sizeof(*v->paths), 0);
			if (!v->paths)
				return -ENOMEM;
		}
		v->context = c;
		v->owner = c->nic->worker[w];
		v->pub.state = c->state;
		v->pub.counters = v->counters;
		v->pub.worker = w;
		v->pub.workers = c->nic->workers;
		v->pub.home = c->home;
		v->pub.version = c->registered->version;
		v->pub.watch =
			(c->traced ? SP_WATCH_TRACED : 0) | (c->nic->config.payload_less ? SP_WATCH_PAYLOAD_LESS : 0);
		c->view[w] = v;
	}
	r = create_entities(c);
	for (uint16_t w = 0; w < c->nic->workers && !r; w++) {
		c->view[w]->entity = c->entity[w];
		c->view[w]->allowance = c->entity[w]->allowance;
	}
	return r;
}

int sp_context_prepare(struct sp_context *c, const struct sp_context_config *config, struct sp_error *error)
{
	int r = 0;

	if (c->handler->ctx_size)
		c->state = sp_context_alloc(c, c->handler->ctx_size, c->traced ? SP_CANARY_STATE : 0);
	if (c->state && c->traced)
		sp_canary_put((uint8_t *)c->state + c->handler->ctx_size, SP_CANARY_STATE);
	if ((c->handler->ctx_size && !c->state) || create_views(c) || sp_zc_create(c) || (r = sp_events_create(c)) ||
	    sp_settings_copy(c, config->setting, config->settings))
		return r == -EMFILE ? sp_error_set(error, EMFILE, "", SP_NO_DESCRIPTOR)
				    : sp_error_set(error, ENOMEM, "",
						   "no memory for context %s, or memory-limit reached", c->name);
	return 0;
}

struct attach {
	struct sp_context *context;
	struct sp_error *error;
	int result;
};

static int attach_one(struct sp_worker *w, struct sp_context *c, struct sp_error *error)
{
	struct sp_view *v = c->view[w->index];
	int r = 0;

	c->error = error;
	v->pub.now = w->now;
	sp_doing_begin(w, v, SP_DOING_ATTACH, NULL, 0);
	if (c->handler->attach)
		r = c->handler->attach(&v->pub);
	sp_doing_end(w);
	c->error = NULL;
	if (r > 0) /* the handler's fault: neither 0 nor -errno */
		r = -EINVAL;
	if (r < 0 && error && !error->text[0])
		sp_error_set(error, -r, "", "handler %s: %s", c->handler->name, strerror(-r));
	if (!r && error) /* attach() may leave a note about an optional feature */
		*error = (struct sp_error){.key = ""};
	c->attaching = false;
	c->attached = !r;
	return r;
}

static void enlist(struct sp_worker *w, struct sp_context *c)
{
	if (sp_messages_idle(c)) {
		c->sweep_at = w->now;
		LIST_INSERT_HEAD(&w->sweeping, c, sweeping);
	}
	if (c->nic->workers > 1)
		LIST_INSERT_HEAD(&w->elsewhere, c->view[w->index], elsewhere);
}

/* On a worker that is not the home of a context with flows. */
static void enlist_flows(struct sp_worker *w, void *arg)
{
	struct sp_context *c = arg;

	LIST_INSERT_HEAD(&w->elsewhere, c->view[w->index], elsewhere);
}

/* On the home worker, so that attach() may make the same calls as other handler functions. */
static void attach(struct sp_worker *w, void *arg)
{
	struct attach *a = arg;
	struct sp_context *c = a->context;

	a->result = attach_one(w, c, a->error);
	if (!a->result && c->companion)
		a->result = attach_one(w, c->companion, a->error);
	if (!a->result && c->handler->messages != SP_MESSAGES_NONE && !c->messages)
		a->result = sp_error_set(a->error, EINVAL, "handler",
					 "handler %s did not say how many messages it wants", c->handler->name);
	if (a->result)
		return;
	enlist(w, c);
	if (c->companion)
		enlist(w, c->companion);
}

/* ---- removing a context ---- */

void sp_context_purge_worker(struct sp_worker *w, struct sp_context *c)
{
	const struct sp_context *listed;

	if (!c->first && !c->inherited &&
	    c->entity[w->index]) { /* otherwise waiting packets belong to another version */
		sp_parked_purge(w, c->entity[w->index]);
		sp_scheduler_purge(w, c->entity[w->index]);
	}
	sp_touch_forget(w, c);
	sp_timers_purge(&w->timers, c);
	sp_work_purge(w, c);
	sp_issues_purge(w, c);
	if (c->home == w->index) {
		LIST_FOREACH (listed, &w->sweeping, sweeping)
			if (listed == c) {
				LIST_REMOVE(c, sweeping);
				break;
			}
	}
}

static void purge_both(struct sp_worker *w, void *arg)
{
	struct sp_context *c = arg;

	sp_context_purge_worker(w, c);
	if (c->companion)
		sp_context_purge_worker(w, c->companion);
}

static void detach(struct sp_worker *w, struct sp_context *c)
{
	struct sp_ctx *pub = &c->view[w->index]->pub;

	pub->now = w->now;
	sp_doing_begin(w, c->view[w->index], SP_DOING_DETACH, NULL, 0);
	if (c->attached && c->handler->detach)
		c->handler->detach(pub);
	sp_doing_end(w);
	c->attached = false;
}

void sp_context_end_messages(struct sp_worker *w, struct sp_context *c)
{
	sp_doing_begin(w, c->view[w->index], SP_DOING_COMPLETION, NULL, 0);
	sp_messages_end_all(c->view[w->index]);
	sp_doing_end(w);
}

/* On the home worker, after all other workers were purged. */
static void end(struct sp_worker *w, void *arg)
{
	struct sp_context *c = arg;

	if (c->attached)
		sp_context_end_messages(w, c);
	purge_both(w, c); /* completion() may have armed timers or started issues */
	if (c->companion)
		detach(w, c->companion);
	detach(w, c);
	purge_both(w, c);
}

void sp_context_free(struct sp_context *c)
{
	if (!c)
		return;
	sp_rule_destroy(c->rule);
	sp_paths_free(c);
	sp_zc_end(c);
	sp_messages_destroy(c);
	if (c->area && !c->inherited)
		sp_mem_put(&c->view[c->home]->pub, c->area); /* frees it with the events */
	sp_events_destroy(c);
	for (size_t i = 0; i < c->settings; i++) {
		free((void *)(uintptr_t)c->setting[i].key);
		free((void *)(uintptr_t)c->setting[i].value);
	}
	free(c->setting);
	sp_context_alloc_end(c);
	free_entities(c);
	if (c->companion)
		sp_context_free(c->companion);
	if (!c->first && !c->inherited)
		sp_account_contexts(c->account, -1);
	sp_traced_destroy(c);
	sp_handler_put(c->registered);
	free(c);
}

int sp_context_attach(struct sp_context *c, struct sp_error *error)
{
	struct attach a = {.context = c, .error = error};

	sp_worker_call(c->nic->worker[c->home], attach, &a);
	for (uint16_t w = 0; !a.result && c->flows && w < c->nic->workers; w++)
		if (w != c->home)
			sp_worker_call(c->nic->worker[w], enlist_flows, c);
	return a.result;
}

void sp_context_purge(struct sp_context *c)
{
	for (unsigned w = 0; w < c->nic->workers; w++)
		sp_worker_call(c->nic->worker[w], purge_both, c);
}

void sp_context_end(struct sp_context *c)
{
	sp_worker_call(c->nic->worker[c->home], end, c);
}
