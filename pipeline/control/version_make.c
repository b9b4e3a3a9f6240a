/* SPDX-License-Identifier: BSD-3-Clause */
#include "version_make.h"
#include "context_parts.h"
#include "../engine.h"
#include "../error.h"
#include "../context.h"
#include "../mem/context_alloc.h"
#include "../plugin/handler.h"
#include "../exec/measure.h"
#include "settings.h"
#include "../view.h"
#include "../observe/traced.h"
#include "../worker.h"
#include "../worker_call.h"

#include <string.h>

/* What a context has only once stays with the old version until the new one takes over. */
static void inherit(struct sp_context *c, struct sp_context *old)
{
	c->id = old->id;
	c->home = old->home;
	c->flows = old->flows;
	c->home_only = old->home_only || (c->nic->workers > 1 && c->registered->flags & SP_HANDLER_HOME);
	c->inherited = true;
	c->older = old;
	c->generation = old->generation + 1;
	memcpy(c->peer, old->peer, sizeof(c->peer));
	c->peer_self = old->peer_self;
	c->peer_set = old->peer_set;
}

int sp_version_create(struct sp_context *old, const struct sp_handler *h, struct sp_context **successor,
		      struct sp_error *error)
{
	const struct sp_context_config config = {.name = old->name, .setting = old->setting, .settings = old->settings};
	struct sp_context *c = NULL;
	int r = sp_context_check(h, error);

	if (r)
		return r;
	sp_handler_hold(h);
	c = sp_context_create(old->nic, old->name, h, old->device);
	if (!c)
		return sp_error_set(error, ENOMEM, "", "no memory for context %s", old->name);
	inherit(c, old);
	r = sp_context_prepare(c, &config, error);
	if (!r)
		r = sp_settings_check(c, error);
	if (!r)
		r = sp_settings_generic(c, error);
	if (!r)
		r = sp_context_configure(c, NULL, error);
	if (r) {
		sp_context_free(c);
		return r;
	}
	for (uint16_t w = 0; w < c->nic->workers; w++)
		c->view[w]->rate = old->view[w]->rate; /* it may have been changed since attach() */
	r = sp_context_attach(c, error);
	if (!r && (c->qp_count ? c->qp_count : old->qp_count != 0) != old->qp_count)
		r = sp_error_set(error, EINVAL, "qp", "the version before had %u QPs, this one wants one",
				 old->qp_count);
	if (r) {
		r = sp_context_alloc_refused(c, r, error);
		sp_version_discard(c);
		return r;
	}
	*successor = c;
	return 0;
}

void sp_version_discard(struct sp_context *c)
{
	sp_context_purge(c);
	sp_context_end(c);
	sp_traced_gone(c);
	sp_context_free(c);
}

int sp_version_migrate(struct sp_worker *w, struct sp_context *to, struct sp_context *from, enum sp_migrate when,
		       struct sp_error *error)
{
	struct sp_view *v = to->view[w->index], *before = from->view[w->index];
	int r;

	if (!to->handler->migrate)
		return 0;
	to->error = error;
	v->pub.now = before->pub.now = w->now;
	sp_doing_begin(w, v, SP_DOING_MIGRATE, NULL, 0);
	r = to->handler->migrate(&v->pub, &before->pub, when);
	sp_doing_end(w);
	to->error = NULL;
	if (r > 0)
		r = -EINVAL;
	if (r < 0 && error && !error->text[0])
		sp_error_set(error, -r, "", "handler %s: migrate(): %s", to->handler->name, strerror(-r));
	return r;
}

/* On the home worker: ends what is open there; the current version may take what is left. */
static void drain(struct sp_worker *w, void *arg)
{
	struct sp_context *c = arg;

	sp_context_end_messages(w, c);
	sp_context_purge_worker(w, c);
	sp_version_migrate(w, sp_context_newest(c), c, SP_MIGRATE_DRAINED, NULL);
}

void sp_version_drain(struct sp_context *c)
{
	struct sp_nic *nic = c->nic;

	sp_context_purge(c);
	sp_worker_call(nic->worker[c->home], drain, c);
	sp_context_end(c);
}

void sp_version_free(struct sp_context *c)
{
	sp_traced_gone(c);
	sp_context_free(c);
}
