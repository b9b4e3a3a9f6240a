/* SPDX-License-Identifier: BSD-3-Clause */
#include "context.h"
#include "config.h"
#include "copies.h"
#include "dispatch.h"
#include "flow_cache.h"
#include "grant.h"
#include "handler.h"
#include "host.h"
#include "kept.h"
#include "issue.h"
#include "lend.h"
#include "match.h"
#include "memory.h"
#include "message.h"
#include "metered.h"
#include "path.h"
#include "plugin.h"
#include "recover.h"
#include "registry.h"
#include "rule.h"
#include "settings.h"
#include "share.h"
#include "timer.h"
#include "watched.h"
#include "worker_call.h"

#include <stdio.h>
#include <stdlib.h>

struct sp_context *sp_context_by_id(struct sp_nic *nic, uint32_t id)
{
	struct sp_context *c;

	if ((id & 0xFFFF) >= SP_MAX_CONTEXTS)
		return NULL;
	c = __atomic_load_n(&nic->context[id & 0xFFFF], __ATOMIC_ACQUIRE);
	return c && c->id == id ? c : NULL;
}

uint64_t sp_context_sum(const struct sp_context *c, size_t field)
{
	uint64_t sum = 0;

	for (unsigned w = 0; w < c->nic->workers; w++)
		sum += *(const uint64_t *)((const uint8_t *)c->view[w] + field);
	return sum;
}

/* ---- making one ---- */

static int check_handler(const struct sp_handler *h, struct sp_error *error)
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

/* h has been taken, and is put with the context; or here. */
static struct sp_context *create(struct sp_nic *nic, const char *name, const struct sp_handler *h,
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
		c->door = device->driven || nic->watcher ? NULL : &device->door;
	}
	snprintf(c->name, sizeof(c->name), "%s", name);
	c->nic = nic;
	c->handler = c->registered = h;
	sp_code_find(h, &c->code);
	c->reasons = sp_names_count(h->drops);
	c->counters = sp_names_count(h->counters);
	c->attaching = true;
	c->copy = 1;
	if (nic->watcher && sp_watched_create(c)) {
		sp_handler_put(h);
		free(c);
		return NULL;
	}
	c->heeded = c->door || c->watched;
	return c;
}

static int create_views(struct sp_context *c)
{
	for (uint16_t w = 0; w < c->nic->workers; w++) {
		struct sp_view *v = sp_grant_alloc(c, sizeof(*v), 0);

		if (!v)
			return -ENOMEM;
		v->context = c;
		v->owner = c->nic->worker[w];
		v->pub.state = c->state;
		v->pub.counters = v->counters;
		v->pub.worker = w;
		v->pub.workers = c->nic->workers;
		v->pub.home = c->home;
		v->pub.version = c->registered->version;
		v->pub.watch =
			(c->watched ? SP_WATCH_TRACED : 0) | (c->nic->config.payload_less ? SP_WATCH_PAYLOAD_LESS : 0);
		c->view[w] = v;
	}
	return 0;
}

/* State, views and settings: what attach() needs. */
static int prepare(struct sp_context *c, const struct sp_context_config *config, struct sp_error *error)
{
	int r = 0;

	if (c->handler->ctx_size)
		c->state = sp_grant_alloc(c, c->handler->ctx_size, c->watched ? SP_CANARY_STATE : 0);
	if (c->state && c->watched)
		sp_canary_put((uint8_t *)c->state + c->handler->ctx_size, SP_CANARY_STATE);
	if ((c->handler->ctx_size && !c->state) || create_views(c) || sp_lending_create(c) ||
	    (r = sp_events_create(c)) || sp_settings_copy(c, config->setting, config->settings))
		return r == -EMFILE ? sp_error_set(error, EMFILE, "", SP_NO_DESCRIPTOR)
				    : sp_error_set(error, ENOMEM, "",
						   "no memory for context %s, or memory-limit reached", c->name);
	return 0;
}

/* A worker had to be taken out of a call of it: it is not called again. */
static bool is_aborted(const struct sp_context *c)
{
	return atomic_load_explicit(&c->aborted, memory_order_relaxed);
}

struct attach {
	struct sp_context *context;
	struct sp_error *error;
	int result;
};

/* The call alone: what does not come back is broken off, see recover.h. */
static void call_attach(struct sp_worker *w, void *arg)
{
	struct attach *a = arg;
	struct sp_view *v = a->context->view[w->index];

	sp_doing_begin(w, v, SP_DOING_ATTACH, NULL, 0);
	a->result = v->context->handler->attach(&v->pub);
	sp_doing_end(w);
}

static int attach_one(struct sp_worker *w, struct sp_context *c, struct sp_error *error)
{
	struct sp_ctx *pub = &c->view[w->index]->pub;
	struct attach call = {.context = c};
	int r;

	c->error = error;
	pub->now = w->now;
	if (c->handler->attach && sp_guard(w, call_attach, &call))
		call.result =
			sp_error_set(error, ETIMEDOUT, "", "handler %s: attach() did not come back, and was broken off",
				     c->handler->name);
	r = call.result;
	c->error = NULL;
	if (r > 0) /* neither 0 nor -errno */
		r = -EINVAL;
	if (r < 0 && error && !error->text[0])
		sp_error_set(error, -r, "", "handler %s: %s", c->handler->name, strerror(-r));
	if (!r && error) /* of what it does without */
		*error = (struct sp_error){.key = ""};
	c->attaching = false;
	c->attached = !r;
	return r;
}

static void enlist(struct sp_worker *w, struct sp_context *c)
{
	if (sp_messages_idle(c)) {
		c->sweep_at = w->now;
		c->sweep_next = w->sweeping;
		w->sweeping = c;
	}
	if (c->nic->workers > 1) {
		c->elsewhere_next = w->elsewhere;
		w->elsewhere = c;
	}
}

/* On the home worker, so that attach() may send, arm and start like any other handler call. */
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

/* Every packet that no QP takes is held against every filter: one application must not have them all. */
static bool has_too_many_filters(const struct sp_context *c)
{
	const struct sp_nic *nic = c->nic;
	unsigned n = 0;

	for (uint32_t i = 0; i < nic->context_next; i++)
		n += nic->context[i] && nic->context[i]->account == c->account && nic->context[i]->rule;
	return c->account && n >= SP_APPLICATION_RULES;
}

const char *sp_context_name_for(const struct sp_context *c, const struct sp_context *other)
{
	return !c->owner || c->owner == other->owner ? other->name : "of another application";
}

/* Before the first rule: workers use their caches once there is one. */
static int make_flow_caches(struct sp_nic *nic)
{
	for (unsigned i = 0; i < nic->workers; i++) {
		struct sp_worker *w = nic->worker[i];

		if (w->flow_cache)
			continue;
		w->flow_cache = aligned_alloc(64, sizeof(*w->flow_cache));
		if (!w->flow_cache)
			return -ENOMEM;
		memset(w->flow_cache, 0, sizeof(*w->flow_cache));
	}
	return 0;
}

/* From here on workers see it. */
static int publish(struct sp_context *c, struct sp_error *error)
{
	struct sp_nic *nic = c->nic;
	struct sp_context *other = NULL;
	const char *filter = sp_setting(c, "filter");
	const unsigned list = nic->rules & 1;
	unsigned at = 0;
	int r;

	if (!c->qp_count && (c->qp_first || c->qp_any)) {
		if (sp_grant_qps(c, 1))
			return sp_grant_refused(c, -EDQUOT, error);
		if (c->qp_any && sp_qp_table_row(nic->qps, 1, &c->qp_first))
			return sp_error_set(error, ENOSPC, "qp", "the NIC has no free QP number");
		c->qp_count = 1;
	}
	if (!c->name[0] && !c->qp_count)
		return sp_error_set(error, EINVAL, "", "a context without a QP number needs a name");
	if (!c->name[0])
		snprintf(c->name, sizeof(c->name), "%s-%u", c->handler->name, c->qp_first);
	if (!c->qp_count && !filter && !c->qp_control)
		return sp_error_set(error, EINVAL, "", "context %s takes no packets: it needs a qp or a filter",
				    c->name);
	if (filter) {
		if (has_too_many_filters(c))
			return sp_error_set(error, EDQUOT, "filter", "this application may have at most %d filters",
					    SP_APPLICATION_RULES);
		while (at < SP_MAX_RULES && nic->rule[list][at])
			at++;
		if (at == SP_MAX_RULES)
			return sp_error_set(error, ENOSPC, "filter", "more than %d filters", SP_MAX_RULES);
		r = make_flow_caches(nic);
		if (r)
			return sp_error_set(error, -r, "filter", "no memory");
		r = sp_rule_create(filter, c, &c->rule, error);
		if (r)
			return r;
	}
	if (c->qp_count) {
		r = sp_qp_table_claim(nic->qps, c->qp_first, c->qp_count, 0, c, &other);
		if (r)
			return sp_error_set(error, -r, "qp", "QPs %u to %u: %s%s", c->qp_first,
					    c->qp_first + c->qp_count - 1, other ? "context " : strerror(-r),
					    other ? sp_context_name_for(c, other) : "");
	}
	if (c->qp_control) {
		r = sp_qp_table_claim(nic->qps, c->qp_control, 1, SP_QP_CONTROL, c, &other);
		if (r)
			return sp_error_set(error, -r, "qp", "control QP %u: %s", c->qp_control, strerror(-r));
	}
	c->events->qp = c->qp_first;
	if (c->rule) {
		atomic_store_explicit(&nic->rule[list][at], c->rule, memory_order_release);
		atomic_fetch_add_explicit(&nic->rules, 2, memory_order_release);
	}
	__atomic_store_n(&nic->context[c->id & 0xFFFF], c, __ATOMIC_RELEASE);
	return 0;
}

static int free_id(struct sp_nic *nic, uint32_t *id)
{
	for (uint32_t i = 0; i < SP_MAX_CONTEXTS; i++)
		if (!nic->context[i]) {
			if (!++nic->context_turn) /* 0 is no id */
				nic->context_turn = 1;
			*id = (uint32_t)nic->context_turn << 16 | i;
			if (i >= nic->context_next)
				__atomic_store_n(&nic->context_next, i + 1, __ATOMIC_RELEASE);
			return 0;
		}
	return -ENOSPC;
}

static void destroy(struct sp_context *c)
{
	if (!c)
		return;
	/* What it kept it would have released itself; with a newer copy there, that may have it. */
	if (is_aborted(c) && !c->newer)
		sp_kept_release(c);
	sp_rule_destroy(c->rule);
	sp_paths_free(c);
	sp_lending_end(c);
	sp_messages_destroy(c);
	if (c->area && !c->apart)
		sp_mem_put(&c->view[c->home]->pub, c->area); /* it goes with the events */
	sp_events_destroy(c);
	for (size_t i = 0; i < c->settings; i++) {
		free((void *)(uintptr_t)c->setting[i].key);
		free((void *)(uintptr_t)c->setting[i].value);
	}
	free(c->setting);
	sp_grants_end(c);
	if (c->companion)
		destroy(c->companion);
	if (!c->first && !c->apart)
		sp_account_contexts(c->account, -1);
	sp_watched_destroy(c);
	sp_handler_put(c->registered);
	free(c);
}

static const char *config_value(const struct sp_context_config *config, const char *key)
{
	for (size_t i = 0; i < config->settings; i++)
		if (!strcmp(config->setting[i].key, key))
			return config->setting[i].value;
	return NULL;
}

int sp_context_add(struct sp_nic *nic, const struct sp_context_config *config, struct sp_device *device,
		   struct sp_context **context, struct sp_error *error)
{
	const char *name = config->name ? config->name : ""; /* then it is known as HANDLER-QP, see publish() */
	const uint32_t owner = device ? device->owner : 0;
	const struct sp_handler *h;
	struct sp_context *c = NULL;
	const char *beside;
	struct attach a;
	uint32_t id;
	int r;

	if (error)
		memset(error, 0, sizeof(*error));
	if (strlen(name) >= sizeof(c->name))
		return sp_error_set(error, EINVAL, "", "a context's name has at most %zu characters",
				    sizeof(c->name) - 1);
	for (size_t i = 0; i < config->settings; i++)
		if (!config->setting[i].key || !config->setting[i].value)
			return sp_error_set(error, EINVAL, "", "setting %zu has no key or no value", i + 1);
	for (uint32_t i = 0; i < nic->context_next; i++)
		if (nic->context[i] && !owner && !nic->context[i]->owner && !strcmp(nic->context[i]->name, name))
			return sp_error_set(error, EEXIST, "", "there is a context %s already", name);
	if (free_id(nic, &id))
		return sp_error_set(error, ENOSPC, "", "more than %d contexts", SP_MAX_CONTEXTS);
	h = sp_handler_take(config->handler ? config->handler : "");
	if (!h)
		return sp_handler_missing(config->handler ? config->handler : "given", "handler", error);
	r = check_handler(h, error);
	if (r) {
		sp_handler_put(h);
		return r;
	}
	c = create(nic, name, h, device);
	if (!c)
		return sp_error_set(error, ENOMEM, "", "no memory for context %s", name);
	c->id = id;
	c->home = (uint16_t)((id & 0xFFFF) % nic->workers);
	r = sp_account_contexts(c->account, 1);
	if (r) {
		sp_handler_put(h);
		sp_watched_destroy(c);
		free(c);
		return sp_error_set(error, EDQUOT, "", "this application may have at most %u contexts",
				    device->account->limit.contexts);
	}
	beside = config_value(config, "companion");
	if (beside) {
		const struct sp_handler *ch = sp_handler_take(beside);

		if (!ch) {
			r = sp_handler_missing(beside, "companion", error);
			goto fail;
		}
		c->companion = create(nic, name, ch, device);
		if (!c->companion) {
			r = sp_error_set(error, ENOMEM, "", "no memory for context %s", name);
			goto fail;
		}
		c->companion->first = c;
		c->companion->home = c->home;
		c->companion->id = id;
	}
	c->home_only =
		nic->workers > 1 && ((h->flags | (c->companion ? c->companion->handler->flags : 0)) & SP_HANDLER_HOME);
	r = prepare(c, config, error);
	if (!r && c->companion)
		r = prepare(c->companion, config, error);
	if (!r)
		r = sp_settings_check(c, error);
	if (!r)
		r = sp_settings_generic(c, error);
	if (!r)
		r = sp_grant_configure(c, device, error);
	if (!r && c->companion)
		r = sp_grant_configure(c->companion, NULL, error);
	if (r) {
		r = sp_grant_refused(c, r, error);
		goto fail;
	}
	if (c->companion) { /* they share what the context has */
		c->companion->budget = c->budget;
		c->companion->weight = c->weight;
	}
	a = (struct attach){.context = c, .error = error};
	sp_worker_call(nic->worker[c->home], attach, &a);
	r = a.result ? sp_grant_refused(c, a.result, error) : publish(c, error);
	if (r) {
		sp_context_remove(c);
		return r;
	}
	*context = c;
	return 0;
fail:
	destroy(c);
	return r;
}

/* ---- taking one down ---- */

static void purge(struct sp_worker *w, void *arg)
{
	struct sp_context *c = arg;

	sp_dispatch_forget(w, c);
	sp_share_forget(w, c);
	sp_touch_forget(w, c);
	sp_timers_purge(&w->timers, c);
	sp_work_purge(w, c);
	if (c->home == w->index) {
		sp_issues_purge(w, c);
		for (struct sp_context **at = &w->sweeping; *at; at = &(*at)->sweep_next)
			if (*at == c) {
				*at = c->sweep_next;
				break;
			}
	}
}

static void purge_both(struct sp_worker *w, void *arg)
{
	struct sp_context *c = arg;

	purge(w, c);
	if (c->companion)
		purge(w, c->companion);
}

static void detach(struct sp_worker *w, struct sp_context *c)
{
	struct sp_ctx *pub = &c->view[w->index]->pub;

	pub->now = w->now;
	sp_doing_begin(w, c->view[w->index], SP_DOING_DETACH, NULL, 0);
	if (c->attached && c->handler->detach && !is_aborted(c))
		c->handler->detach(pub);
	sp_doing_end(w);
	c->attached = false;
}

/* On the home worker; the others have nothing of the context any more. */
static void end_guarded(struct sp_worker *w, void *arg)
{
	struct sp_context *c = arg;

	if (c->attached && !is_aborted(c)) {
		sp_doing_begin(w, c->view[w->index], SP_DOING_COMPLETION, NULL, 0);
		sp_messages_end_all(c->view[w->index]);
		sp_doing_end(w);
	}
	purge_both(w, c); /* completion() may have armed or started something again */
	if (c->companion)
		detach(w, c->companion);
	detach(w, c);
	purge_both(w, c);
}

static void end(struct sp_worker *w, void *arg)
{
	while (sp_guard(w, end_guarded, arg)) /* broken off: once more, without the calls */
		;
}

static void remove_rule(struct sp_nic *nic, const struct sp_rule *rule)
{
	const uint64_t rules = nic->rules;
	const unsigned list = rules & 1;
	unsigned n = 0;

	if (!rule)
		return;
	/* Nobody reads the other list: all workers have passed by since the last change. */
	for (unsigned i = 0; i < SP_MAX_RULES && nic->rule[list][i]; i++)
		if (nic->rule[list][i] != rule)
			nic->rule[!list][n++] = nic->rule[list][i];
	while (n < SP_MAX_RULES)
		nic->rule[!list][n++] = NULL;
	atomic_store_explicit(&nic->rules, (rules & ~1ull) + 2 + !list, memory_order_release);
}

void sp_context_remove(struct sp_context *c)
{
	struct sp_nic *nic = c->nic;

	sp_qp_table_release(nic->qps, c);
	remove_rule(nic, c->rule);
	if (nic->context[c->id & 0xFFFF] == c) /* not yet there when adding it failed */
		__atomic_store_n(&nic->context[c->id & 0xFFFF], NULL, __ATOMIC_RELEASE);
	/* Every worker passes by here: then none holds a pointer that it looked up before. */
	for (unsigned w = 0; w < nic->workers; w++)
		sp_worker_call(nic->worker[w], purge_both, c);
	sp_copies_end(c);
	sp_worker_call(nic->worker[c->home], end, c);
	sp_watched_gone(c);
	sp_stats_remember(nic, c);
	destroy(c);
	sp_plugins_collect();
}

/* ---- one copy of a handler after another: copies.c says when ---- */

/* What the context has but once stays where it is until the successor takes over. */
static void inherit(struct sp_context *c, struct sp_context *old)
{
	c->id = old->id;
	c->home = old->home;
	c->home_only = old->home_only || (c->nic->workers > 1 && c->registered->flags & SP_HANDLER_HOME);
	c->apart = true;
	c->older = old;
	c->copy = old->copy + 1;
	memcpy(c->peer, old->peer, sizeof(c->peer));
	c->peer_self = old->peer_self;
	c->peer_set = old->peer_set;
}

int sp_context_succeed(struct sp_context *old, const struct sp_handler *h, struct sp_context **successor,
		       struct sp_error *error)
{
	const struct sp_context_config config = {.name = old->name, .setting = old->setting, .settings = old->settings};
	struct sp_context *c = NULL;
	struct attach a;
	int r = check_handler(h, error);

	if (r)
		return r;
	sp_handler_hold(h);
	c = create(old->nic, old->name, h, old->device);
	if (!c)
		return sp_error_set(error, ENOMEM, "", "no memory for context %s", old->name);
	inherit(c, old);
	r = prepare(c, &config, error);
	if (!r)
		r = sp_settings_check(c, error);
	if (!r)
		r = sp_settings_generic(c, error);
	if (!r)
		r = sp_grant_configure(c, NULL, error);
	if (r) {
		destroy(c);
		return r;
	}
	c->rate = old->rate; /* somebody may have changed it meanwhile */
	a = (struct attach){.context = c, .error = error};
	sp_worker_call(c->nic->worker[c->home], attach, &a);
	if (!a.result && (c->qp_count ? c->qp_count : old->qp_count != 0) != old->qp_count)
		a.result = sp_error_set(error, EINVAL, "qp", "the copy before had %u QPs, this one wants one",
					old->qp_count);
	if (a.result) {
		r = sp_grant_refused(c, a.result, error);
		sp_context_discard(c);
		return r;
	}
	*successor = c;
	return 0;
}

void sp_context_discard(struct sp_context *c)
{
	for (unsigned w = 0; w < c->nic->workers; w++)
		sp_worker_call(c->nic->worker[w], purge_both, c);
	sp_worker_call(c->nic->worker[c->home], end, c);
	sp_watched_gone(c);
	destroy(c);
}

struct migrate {
	struct sp_context *to, *from;
	enum sp_migrate when;
	int result;
};

static void call_migrate(struct sp_worker *w, void *arg)
{
	struct migrate *m = arg;
	struct sp_view *v = m->to->view[w->index];

	sp_doing_begin(w, v, SP_DOING_MIGRATE, NULL, 0);
	m->result = m->to->handler->migrate(&v->pub, &m->from->view[w->index]->pub, m->when);
	sp_doing_end(w);
}

int sp_context_migrate(struct sp_worker *w, struct sp_context *to, struct sp_context *from, enum sp_migrate when,
		       struct sp_error *error)
{
	struct migrate call = {.to = to, .from = from, .when = when};
	int r;

	if (!to->handler->migrate || is_aborted(to) || is_aborted(from))
		return 0;
	to->error = error;
	to->view[w->index]->pub.now = from->view[w->index]->pub.now = w->now;
	if (sp_guard(w, call_migrate, &call))
		call.result =
			sp_error_set(error, ETIMEDOUT, "",
				     "handler %s: migrate() did not come back, and was broken off", to->handler->name);
	r = call.result;
	to->error = NULL;
	if (r > 0)
		r = -EINVAL;
	if (r < 0 && error && !error->text[0])
		sp_error_set(error, -r, "", "handler %s: migrate(): %s", to->handler->name, strerror(-r));
	return r;
}

static void end_messages(struct sp_worker *w, void *arg)
{
	struct sp_context *c = arg;

	if (is_aborted(c))
		return;
	sp_doing_begin(w, c->view[w->index], SP_DOING_COMPLETION, NULL, 0);
	sp_messages_end_all(c->view[w->index]);
	sp_doing_end(w);
}

/* On the home worker: what is open there ends, and the newest copy may take what is left. */
static void bequeath(struct sp_worker *w, void *arg)
{
	struct sp_context *c = arg;

	while (sp_guard(w, end_messages, c))
		;
	purge(w, c);
	sp_context_migrate(w, sp_context_newest(c), c, SP_MIGRATE_DRAINED, NULL);
}

void sp_context_bequeath(struct sp_context *c)
{
	struct sp_nic *nic = c->nic;

	for (unsigned w = 0; w < nic->workers; w++)
		sp_worker_call(nic->worker[w], purge_both, c);
	sp_worker_call(nic->worker[c->home], bequeath, c);
	sp_worker_call(nic->worker[c->home], end, c);
}

void sp_context_bury(struct sp_context *c)
{
	sp_watched_gone(c);
	destroy(c);
}

/* ---- handlers' calls ---- */

/* Multiplied by a secret and folded, word by word: without the keys nobody knows which differences cancel. */
uint64_t sp_hash(struct sp_ctx *ctx, const void *bytes, size_t len)
{
	const uint64_t *key = sp_view_of(ctx)->context->nic->hash_key, mix = key[1] | 1;
	const uint8_t *b = bytes;
	uint64_t hash = key[0] ^ len * mix;

	for (; len; len -= RTE_MIN(len, sizeof(uint64_t)), b += sizeof(uint64_t)) {
		uint64_t word = 0;

		memcpy(&word, b, RTE_MIN(len, sizeof(word)));
		const unsigned __int128 product = (unsigned __int128)(hash ^ word) * mix;
		hash = key[0] + ((uint64_t)product ^ (uint64_t)(product >> 64));
	}
	return hash >> 1;
}

uint64_t sp_random(struct sp_ctx *ctx)
{
	return sp_worker_random(sp_view_of(ctx)->owner);
}

const struct sp_export *sp_first(struct sp_ctx *ctx, struct sp_ctx **first)
{
	struct sp_context *c = sp_view_of(ctx)->context->first;

	if (!c)
		return NULL;
	*first = &c->view[ctx->worker]->pub;
	return c->handler->exports;
}
