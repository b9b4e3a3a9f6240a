/* SPDX-License-Identifier: BSD-3-Clause */
/* Handlers' calls on a packet: send it back, keep its buffer, release it. */
#include "../engine.h"
#include "../context.h"
#include "../limit.h"
#include "../observe/tap.h"
#include "../tx/transmit.h"
#include "../view.h"
#include "../worker.h"
#include "last_error.h"

#include <rte_mbuf.h>

int sp_packet_send(struct sp_ctx *c, struct sp_packet *p)
{
	struct sp_view *v = sp_view_of(c);
	int r;

	if (!p->buf) {
		sp_tap_wrong(c, "sent a packet that has been sent");
		return -EINVAL;
	}
	r = sp_limited_sends(v) ? -EAGAIN : sp_transmit_packet(v->owner, p->port, p->buf);
	if (r)
		return r;
	if (unlikely(v->owner->tap != NULL))
		v->owner->tap->sender(v->owner, p->port, v->context->id);
	p->buf = NULL;
	v->sent++;
	v->sent_bytes += p->frame_len;
	sp_limit_sent(v, 1, p->frame_len);
	return 0;
}

/* A packet that one worker keeps may be released on another: so the sum over all workers has the limit. Workers that
 * keep packets at the same moment may exceed it by a few. */
static int64_t held(const struct sp_context *c)
{
	int64_t sum = 0;

	for (uint16_t w = 0; w < c->nic->workers; w++)
		sum += __atomic_load_n(&c->view[w]->held, __ATOMIC_RELAXED);
	return sum;
}

int sp_packet_keep(struct sp_ctx *c, struct sp_packet *p)
{
	struct sp_view *v = sp_view_of(c);

	if (!p->buf) {
		sp_tap_wrong(c, "kept a packet that has been sent");
		return -EINVAL;
	}
	if (unlikely(held(v->context) >= SP_MAX_HELD)) {
		v->held_refused++;
		sp_last_error_note(v, SP_LAST_ERROR_HELD, SP_MAX_HELD, 0, 0, 0);
		return -ENOBUFS;
	}
	rte_mbuf_refcnt_update(p->buf, 1);
	__atomic_store_n(&v->held, v->held + 1, __ATOMIC_RELAXED);
	return 0;
}

void sp_packet_release(struct sp_ctx *c, void *buf)
{
	struct sp_view *v = sp_view_of(c);

	rte_pktmbuf_free(buf);
	__atomic_store_n(&v->held, v->held - 1, __ATOMIC_RELAXED);
}
