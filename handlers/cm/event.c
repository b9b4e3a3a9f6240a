/* SPDX-License-Identifier: BSD-3-Clause */
/* What applications are told: an id keeps what happened until it is taken, and the application's event queue only says
 * that there is something. */
#include "event.h"

#define CM_OWED_AGAIN (1 * SP_MS)

static bool cm_post(struct sp_ctx *c, const struct cm_app *app, uint64_t cookie)
{
	const struct sp_event e = {.context = app->context, .type = SP_RDMA_EVENT_CM, .cookie = cookie};

	return sp_event_post_to(c, app->context, &e) != -EAGAIN; /* -ENOENT: it ends; SP_CONTROL_GONE will come */
}

void cm_tell(struct sp_ctx *c, struct cm_id *x, uint8_t type, int32_t status, const uint8_t *private_data, uint16_t len)
{
	struct cm_app *app = x->app;
	struct cm_note *n = x->note;

	if (!app)
		return;
	while (n->queued && n < &x->note[CM_NOTES - 1])
		n++;
	if (n->queued)
		return; /* no way through the states has so many */
	*n = (struct cm_note){.id = x, .type = type, .status = status, .private_index = CM_PRIVATE, .queued = true};
	if (private_data) {
		n->private_index = type == SP_CM_EVENT_REJECTED;
		x->private_len[n->private_index] = len;
		memcpy(x->private_data[n->private_index], private_data, len);
	}
	*app->last = n;
	app->last = &n->next;
	x->notes++;
	if (!cm_post(c, app, x->cookie)) {
		app->owed++;
		c->counters[CM_EVENTS_LATE]++;
		if (!cm_of(c)->tick.armed || cm_of(c)->tick.at > c->now + CM_OWED_AGAIN)
			sp_timer_arm(c, &cm_of(c)->tick, c->now + CM_OWED_AGAIN);
	}
}

bool cm_events_owed(struct sp_ctx *c)
{
	struct cm *s = cm_of(c);
	bool owed = false;

	for (uint32_t i = 0; i < s->apps; i++) {
		struct cm_app *app = &s->app[i];

		while (app->used && app->owed && cm_post(c, app, app->first ? app->first->id->cookie : 0))
			app->owed--;
		owed |= app->used && app->owed;
	}
	return owed;
}

int cm_take(struct cm_app *app, struct sp_control *r)
{
	struct cm_note *n = app->first;
	struct sp_cm_event e;
	const uint8_t *data;
	struct cm_id *x;

	if (!n)
		return -ENOENT;
	x = n->id;
	e = (struct sp_cm_event){.cookie = x->cookie,
				 .id = x->local,
				 .type = n->type,
				 .status = n->status,
				 .qp = x->remote_qp,
				 .psn = x->psn,
				 .qkey = x->qkey,
				 .peer_port = x->peer_port,
				 .own_port = x->own_port,
				 .qp_type = x->qp_type,
				 .responder_resources = x->responder_resources,
				 .initiator_depth = x->initiator_depth,
				 .retry_count = x->retry_count,
				 .rnr_retry_count = x->rnr_retry_count,
				 .srq = x->srq,
				 .path_mtu_code = x->path_mtu_code,
				 .timeout = x->timeout,
				 .selective = x->selective};
	memcpy(e.own, x->own, 16);
	if (x->peer)
		memcpy(e.peer, x->peer->ip, 16);
	data = n->private_index < CM_PRIVATE ? x->private_data[n->private_index] : NULL;
	e.private_len = data ? x->private_len[n->private_index] : 0;
	if (r->out_room < sizeof(e) + e.private_len)
		return -EMSGSIZE;
	memcpy(r->out, &e, sizeof(e));
	if (data)
		memcpy((uint8_t *)r->out + offsetof(struct sp_cm_event, private_data), data, e.private_len);
	r->out_len = (uint32_t)(sizeof(e) + e.private_len);
	app->first = n->next;
	if (!app->first)
		app->last = &app->first;
	n->queued = false;
	x->notes--;
	return 0;
}

bool cm_untaken(const struct cm_id *x)
{
	for (unsigned i = 0; i < CM_NOTES; i++)
		if (x->note[i].queued && x->note[i].type == SP_CM_EVENT_REQUEST)
			return true;
	return false;
}
