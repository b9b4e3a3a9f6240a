/* SPDX-License-Identifier: BSD-3-Clause */
#include "service.h"
#include "../engine.h"
#include "../context.h"
#include "../exec/measure.h"
#include "../plugin/handler.h"
#include "../worker.h"
#include "../worker_call.h"

struct sp_context *sp_service_find(struct sp_nic *nic, const char *service)
{
	for (uint32_t i = 0; i < nic->context_next; i++) {
		struct sp_context *c = nic->context[i];

		if (c && !c->owner && c->registered->flags & SP_HANDLER_SERVICE &&
		    !strcmp(c->registered->name, service))
			return c;
	}
	return NULL;
}

struct asked {
	struct sp_context *context;
	struct sp_control *control;
	int result;
};

static void run(struct sp_worker *w, void *arg)
{
	struct asked *a = arg;
	struct sp_view *v = a->context->view[w->index];
	uint64_t began;

	a->result = -EAGAIN;
	if (sp_view_disabled(v))
		return;
	v->pub.now = w->now;
	began = sp_call_begin(v, SP_DOING_COMMAND);
	a->result = a->context->handler->control(&v->pub, a->control);
	sp_call_end(v, began);
}

static int ask(struct sp_context *c, struct sp_control *control)
{
	struct asked a = {c, control, -EOPNOTSUPP};
	uint16_t on = c->home;

	control->out_len = 0;
	if (!c->handler->control)
		return -EOPNOTSUPP;
	if (control->qp && control->context == c->id) {
		if (control->qp - c->qp_first >= c->qp_count)
			return -ENOENT;
		if (c->handler->flags & SP_HANDLER_FLOWS)
			on = sp_flow_worker(c, control->qp - c->qp_first);
	}
	sp_worker_call(c->nic->worker[on], run, &a);
	if (control->out_len > control->out_room) /* the handler's fault */
		control->out_len = 0;
	return a.result > 0 ? -EINVAL : a.result;
}

int sp_service_ask(struct sp_context *c, bool service, struct sp_control *control)
{
	if (control->op < SP_CONTROL_OWN)
		return -EINVAL;
	if (service)
		c = c->registered->service ? sp_service_find(c->nic, c->registered->service) : NULL;
	return c ? ask(c, control) : -EOPNOTSUPP;
}

void sp_service_gone(struct sp_context *c)
{
	struct sp_control gone = {.op = SP_CONTROL_GONE, .context = c->id};
	struct sp_context *service = c->registered->service ? sp_service_find(c->nic, c->registered->service) : NULL;

	if (service)
		ask(service, &gone);
}
