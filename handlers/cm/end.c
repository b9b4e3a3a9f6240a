/* SPDX-License-Identifier: BSD-3-Clause */
/* Repetition, what follows when nobody answers, and how ids end. */
#include "end.h"

#include "event.h"
#include "mad.h"
#include "table.h"

#define CM_LINGER    (30 * SP_SEC) /* a peer whose message was refused repeats it a few times, 4.3 s or 8.2 s apart */
#define CM_WAIT_MOST SP_CM_TIME(20)
#define CM_NO_ROOM   (2 * SP_MS)

void cm_set(struct sp_ctx *c, struct cm_id *x, enum cm_state state)
{
	sp_timer_cancel(c, &x->timer);
	x->state = (uint8_t)state;
	cm_of(c)->states_entered[state]++;
	if (state == CM_CLOSED) {
		cm_settle(x, true);
		cm_qp_leave(c, x);
		cm_remote_leave(c, x);
	}
}

void cm_await(struct sp_ctx *c, struct cm_id *x, enum cm_state state)
{
	cm_set(c, x, state);
	x->tries = 0;
	x->extended = false;
	x->wait = cm_of(c)->retry;
	sp_timer_arm(c, &x->timer, c->now + x->wait);
}

void cm_allow(struct sp_ctx *c, struct cm_id *x, enum cm_state state, sp_time time)
{
	cm_set(c, x, state);
	sp_timer_arm(c, &x->timer, c->now + time);
}

void cm_timewait(struct sp_ctx *c, struct cm_id *x)
{
	const sp_time time = SP_CM_TIME(x->timeout), most = cm_of(c)->timewait;

	cm_settle(x, true);
	cm_qp_leave(c, x);
	cm_allow(c, x, CM_TIMEWAIT, time < most ? time : most);
}

void cm_reject(struct sp_ctx *c, struct cm_id *x, uint16_t reason, const uint8_t *private_data, uint16_t len)
{
	cm_send_rej(c, x, reason, private_data, len);
	cm_settle(x, true);
	cm_qp_leave(c, x);
	cm_set(c, x, CM_REFUSAL); /* as long as the application has the id */
}

void cm_refuse_again(struct sp_ctx *c, struct cm_id *x)
{
	cm_send_again(c, x);
	if (!x->app)
		sp_timer_arm(c, &x->timer, c->now + CM_LINGER);
}

/* ---- the end that the application wants ---- */
static void cm_end_listener(struct sp_ctx *c, struct cm_id *x)
{
	struct cm_id *next;

	for (struct cm_id *o = x->app->list; o; o = next) {
		next = o->app_next;
		if (o->listener == x && cm_untaken(o))
			cm_end(c, o);
	}
	cm_id_free(c, x);
}

void cm_end(struct sp_ctx *c, struct cm_id *x)
{
	switch (x->state) {
	case CM_LISTEN:
		cm_end_listener(c, x);
		return;
	case CM_REQ_SENT: /* a REP that comes later is rejected, as no id is its */
		cm_send_rej(c, x, SP_CM_TIMEOUT, NULL, 0);
		cm_id_free(c, x);
		return;
	case CM_REQ_RCVD:
	case CM_REP_SENT:
	case CM_REP_RCVD:
		cm_reject(c, x, SP_CM_CONSUMER, NULL, 0);
		break;
	case CM_ESTABLISHED:
		cm_send_dreq(c, x);
		cm_await(c, x, CM_DREQ_SENT);
		break;
	case CM_DREQ_RCVD:
		cm_send_drep(c, x, x->tid);
		cm_timewait(c, x);
		break;
	case CM_SIDR_RCVD:
		cm_send_sidr_rep(c, x, SP_SIDR_REJECT, NULL);
		cm_set(c, x, CM_SIDR_DONE);
		break;
	case CM_DREQ_SENT:
	case CM_TIMEWAIT:
	case CM_REFUSAL:
	case CM_SIDR_DONE:
		break;
	default:
		cm_id_free(c, x);
		return;
	}
	if (x->state == CM_REFUSAL || x->state == CM_SIDR_DONE)
		cm_allow(c, x, x->state, CM_LINGER);
	cm_id_orphan(c, x);
}

void cm_app_gone(struct sp_ctx *c, uint32_t context)
{
	struct cm_app *app = cm_app_find(c, context, false);

	if (!app)
		return;
	for (struct cm_id *x = app->list; x; x = x->app_next)
		x->notes = 0;
	app->first = NULL;
	app->last = &app->first;
	while (app->list)
		cm_end(c, app->list);
	cm_app_free(c, app);
}

/* ---- time ---- */
/* Nobody answers. */
static void cm_give_up(struct sp_ctx *c, struct cm_id *x)
{
	const enum cm_state was = x->state;

	c->counters[CM_TIMEOUTS]++;
	if (was == CM_DREQ_SENT) {
		cm_tell(c, x, SP_CM_EVENT_DISCONNECTED, -ETIMEDOUT, NULL, 0);
		cm_timewait(c, x);
		return;
	}
	if (was == CM_SIDR_SENT) {
		cm_set(c, x, CM_CLOSED);
	} else if (was == CM_SIDR_RCVD) {
		cm_send_sidr_rep(c, x, SP_SIDR_REJECT, NULL);
		cm_settle(x, true);
		cm_set(c, x, CM_SIDR_DONE);
	} else if (was == CM_REQ_SENT) {
		cm_send_rej(c, x, SP_CM_TIMEOUT, NULL, 0);
		cm_set(c, x, CM_CLOSED);
	} else {
		cm_reject(c, x, SP_CM_TIMEOUT, NULL, 0);
	}
	cm_tell(c, x, SP_CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL, 0);
}

static void cm_repeat(struct sp_ctx *c, struct cm_id *x)
{
	if (x->tries >= x->retries) {
		cm_give_up(c, x);
	} else if (cm_send_again(c, x)) {
		x->tries++;
		x->extended = false;
		x->wait = x->wait < CM_WAIT_MOST / 2 ? 2 * x->wait : CM_WAIT_MOST;
		c->counters[CM_RETRIES]++;
		sp_timer_arm(c, &x->timer, c->now + x->wait);
	} else {
		sp_timer_arm(c, &x->timer, c->now + CM_NO_ROOM);
	}
}

void cm_expire(struct sp_ctx *c, struct cm_id *x)
{
	switch (x->state) {
	case CM_REQ_SENT:
	case CM_REP_SENT:
	case CM_DREQ_SENT:
	case CM_SIDR_SENT:
		cm_repeat(c, x);
		return;
	case CM_REQ_RCVD:
	case CM_REP_RCVD:
	case CM_SIDR_RCVD:
		cm_give_up(c, x);
		return;
	case CM_DREQ_RCVD: /* the peer has given up by now, or soon */
		cm_send_drep(c, x, x->tid);
		cm_timewait(c, x);
		return;
	case CM_TIMEWAIT:
		cm_tell(c, x, SP_CM_EVENT_TIMEWAIT, 0, NULL, 0);
		break;
	default:
		break;
	}
	if (x->app)
		cm_set(c, x, CM_CLOSED);
	else
		cm_id_free(c, x);
}
