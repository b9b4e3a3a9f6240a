/* SPDX-License-Identifier: BSD-3-Clause */
#include "pace.h"
#include "../engine.h"
#include "../context.h"
#include "../view.h"
#include "../worker.h"

#include <errno.h>
#include <rte_common.h>

#define WIRE_EXTRA 24 /* preamble and delimiter 8, FCS 4, gap 12 */

void sp_pace_charge(struct sp_view *c, sp_time now, uint32_t bytes)
{
	const sp_time late = c->owner->late;
	const uint64_t bits = (uint64_t)(bytes + WIRE_EXTRA) * 8 * SP_SEC + c->tx_rest;

	if (now > late && c->tx_next < now - late)
		c->tx_next = now - late;
	c->tx_next += bits / c->rate;
	c->tx_rest = bits % c->rate;
}

int sp_pace(struct sp_ctx *ctx, uint64_t bits_per_second)
{
	struct sp_view *v = sp_view_of(ctx);
	struct sp_view *c = sp_context_newest(v->context)->view[v->pub.worker];

	if (v->pub.worker != v->context->home && !(v->context->handler->flags & SP_HANDLER_FLOWS))
		return -EXDEV;

	/* What has been sent already takes the rest of its time at the new rate. */
	if (c->tx_next > v->owner->now && bits_per_second != c->rate) {
		unsigned __int128 left = (unsigned __int128)(c->tx_next - v->owner->now) * c->rate;

		left = bits_per_second ? left / bits_per_second : 0;
		c->tx_next = v->owner->now + (sp_time)RTE_MIN(left, (unsigned __int128)(SP_NEVER / 2));
	}
	c->rate = bits_per_second;
	c->tx_rest = 0;
	return 0;
}

void sp_pace_set(struct sp_context *c, uint64_t rate)
{
	const bool flows = c->handler->flags & SP_HANDLER_FLOWS;

	for (uint16_t w = 0; w < c->nic->workers; w++)
		c->view[w]->rate = flows	  ? rate && rate < c->nic->workers ? 1 : rate / c->nic->workers
				   : w == c->home ? rate
						  : 0;
}
