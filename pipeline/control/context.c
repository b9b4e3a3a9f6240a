/* SPDX-License-Identifier: BSD-3-Clause */
#include "../rx/rule.h"
#include "context.h"
#include "context_parts.h"
#include "../error.h"
#include "../rx/flow_cache.h"
#include "../observe/gone.h"
#include "../mem/context_alloc.h"
#include "../plugin/handler.h"
#include "../context.h"
#include "../view.h"
#include "../exec/rings.h"
#include "../rx/match.h"
#include "../mem/memory.h"
#include "../exec/measure.h"
#include "../plugin/plugin.h"
#include "service.h"
#include "settings.h"
#include "versions.h"
#include "../observe/traced.h"

#include <stdio.h>
#include <stdlib.h>

/* A packet without a QP runs through every filter, so one application must not take all of them. */
static bool has_too_many_filters(const struct sp_context *c)
{
	const struct sp_nic *nic = c->nic;
	unsigned n = 0;

	for (uint32_t i = 0; i < nic->context_next; i++)
		n += nic->context[i] && nic->context[i]->account == c->account && nic->context[i]->rule;
	return c->account && n >= SP_APPLICATION_RULES;
}

/* Call it before the first rule: workers use their caches as soon as a rule exists. */
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

/* Makes the context visible to workers. */
static int publish(struct sp_context *c, struct sp_error *error)
{
	struct sp_nic *nic = c->nic;
	struct sp_context *other = NULL;
	const char *filter = sp_setting(c, "filter");
	const unsigned list = nic->rules & 1;
	unsigned at = 0;
	int r;

	if (!c->qp_count && (c->qp_first || c->qp_any)) {
		if (sp_context_alloc_qps(c, 1))
			return sp_context_alloc_refused(c, -EDQUOT, error);
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
			if (!++nic->context_generation) /* 0 is no id */
				nic->context_generation = 1;
			*id = (uint32_t)nic->context_generation << 16 | i;
			if (i >= nic->context_next)
				__atomic_store_n(&nic->context_next, i + 1, __ATOMIC_RELEASE);
			return 0;
		}
	return -ENOSPC;
}

static uint32_t contexts(const struct sp_nic *nic)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < nic->context_next; i++)
		n += nic->context[i] != NULL;
	return n;
}

static const char *config_value(const struct sp_context_config *config, const char *key)
{
	for (size_t i = 0; i < config->settings; i++)
		if (!strcmp(config->setting[i].key, key))
			return config->setting[i].value;
	return NULL;
}

static int open_service(struct sp_nic *nic, const char *service, struct sp_error *error)
{
	const struct sp_setting qp = {"qp", "1"};
	const struct sp_context_config config = {.name = service, .handler = service, .setting = &qp, .settings = 1};
	struct sp_context *c;

	return sp_service_find(nic, service) ? 0 : sp_context_add(nic, &config, NULL, &c, error);
}

int sp_context_add(struct sp_nic *nic, const struct sp_context_config *config, struct sp_device *device,
		   struct sp_context **context, struct sp_error *error)
{
	const char *name = config->name ? config->name : ""; /* "" becomes HANDLER-QP, see publish() */
	const uint32_t owner = device ? device->owner : 0;
	const struct sp_handler *h;
	struct sp_context *c = NULL;
	const char *companion;
	uint32_t id = 0;
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
	h = sp_handler_take(config->handler ? config->handler : "");
	if (!h)
		return sp_handler_missing(config->handler ? config->handler : "given", "handler", error);
	r = sp_context_check(h, error);
	if (!r && owner && h->flags & SP_HANDLER_SERVICE)
		r = sp_error_set(error, EPERM, "handler", "handler %s serves all applications: the NIC opens it",
				 h->name);
	if (!r && h->service)
		r = open_service(nic, h->service, error);
	if (!r && free_id(nic, &id))
		r = sp_error_set(error, ENOSPC, "", "more than %d contexts", SP_MAX_CONTEXTS);
	if (r) {
		sp_handler_put(h);
		return r;
	}
	c = sp_context_create(nic, name, h, device);
	if (!c)
		return sp_error_set(error, ENOMEM, "", "no memory for context %s", name);
	c->id = id;
	c->home = (uint16_t)((id & 0xFFFF) % nic->workers);
	r = sp_account_leaves_contexts(c->account, contexts(nic), SP_MAX_CONTEXTS) ? sp_account_contexts(c->account, 1)
										   : -ENOSPC;
	if (r) {
		sp_handler_put(h);
		sp_traced_destroy(c);
		free(c);
		return r == -ENOSPC
			       ? sp_error_set(error, ENOSPC, "",
					      "the NIC keeps the contexts that are left for other users")
			       : sp_error_set(error, EDQUOT, "",
					      "this application may have at most %u contexts (contexts in [limits])",
					      device->account->limit.contexts);
	}
	companion = config_value(config, "companion");
	if (companion) {
		const struct sp_handler *ch = sp_handler_take(companion);

		if (!ch) {
			r = sp_handler_missing(companion, "companion", error);
			goto fail;
		}
		c->companion = sp_context_create(nic, name, ch, device);
		if (!c->companion) {
			r = sp_error_set(error, ENOMEM, "", "no memory for context %s", name);
			goto fail;
		}
		c->companion->first = c;
		c->companion->home = c->home;
		c->companion->id = id;
	}
	if (c->companion && h->flags & SP_HANDLER_FLOWS && c->companion->handler->flags & SP_HANDLER_HOME) {
		r = sp_error_set(error, EINVAL, "companion", "handler %s wants one worker, and flows of %s have many",
				 companion, h->name);
		goto fail;
	}
	c->home_only =
		nic->workers > 1 && ((h->flags | (c->companion ? c->companion->handler->flags : 0)) & SP_HANDLER_HOME);
	c->flows = nic->workers > 1 && h->flags & SP_HANDLER_FLOWS;
	r = sp_context_prepare(c, config, error);
	if (!r && c->companion)
		r = sp_context_prepare(c->companion, config, error);
	if (!r)
		r = sp_settings_check(c, error);
	if (!r)
		r = sp_settings_generic(c, error);
	if (!r)
		r = sp_context_configure(c, device, error);
	if (!r && c->companion)
		r = sp_context_configure(c->companion, NULL, error);
	if (r) {
		r = sp_context_alloc_refused(c, r, error);
		goto fail;
	}
	if (c->companion) { /* a companion uses the context's budget and weight */
		c->companion->budget = c->budget;
		c->companion->weight = c->weight;
	}
	r = sp_context_attach(c, error);
	r = r ? sp_context_alloc_refused(c, r, error) : publish(c, error);
	if (r) {
		sp_context_remove(c);
		return r;
	}
	*context = c;
	return 0;
fail:
	sp_context_free(c);
	return r;
}

/* ---- removing a context ---- */

static void remove_rule(struct sp_nic *nic, const struct sp_rule *rule)
{
	const uint64_t rules = nic->rules;
	const unsigned list = rules & 1;
	unsigned n = 0;

	if (!rule)
		return;
	/* No worker reads the other list: all have passed a quiescent state since the last change. */
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

	sp_service_gone(c);
	sp_qp_table_release(nic->qps, c);
	remove_rule(nic, c->rule);
	if (nic->context[c->id & 0xFFFF] == c) /* not yet set if adding failed */
		__atomic_store_n(&nic->context[c->id & 0xFFFF], NULL, __ATOMIC_RELEASE);
	/* Calls every worker: afterwards none holds a pointer that it looked up before. */
	sp_context_purge(c);
	sp_qp_table_trim(nic->qps);
	sp_versions_end(c);
	sp_context_end(c);
	sp_traced_gone(c);
	sp_stats_remember(nic, c);
	sp_context_free(c);
	sp_plugins_collect();
}
