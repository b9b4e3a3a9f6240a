/* SPDX-License-Identifier: BSD-3-Clause */
/* rvma, the reliable sender of a session, and the list of sessions that have something to send. */
#include "sender.h"

#define RV_FLIGHT 4096 /* packets of a session in flight, unless it has more blocks */

static struct sp_rel_config rv_sender_config(const struct rv *s)
{
	uint32_t flight = RV_FLIGHT;

	while (flight > s->blocks && flight / SP_RVMA_BLOCK > s->blocks)
		flight /= 2;
	return (struct sp_rel_config){
		.scheme = SP_REL_NACK,
		.timeout = s->timeout,
		.messages = s->blocks,
		.units = SP_RVMA_BLOCK,
		.in_flight = flight < s->blocks ? s->blocks : flight,
	};
}

size_t rv_sender_bytes(const struct rv *s)
{
	const struct sp_rel_config config = rv_sender_config(s);

	return sp_rel_sender_bytes(&config);
}

static void rv_sender_begin(const struct rv *s, struct rv_session *x)
{
	struct sp_rel_config config = rv_sender_config(s);

	config.rtt = x->rtt;
	memset(x->sender_memory, 0, sp_rel_sender_bytes(&config));
	sp_rel_sender_init(&x->sender, &config, x->sender_memory);
	x->settled = 0;
	x->sends = true;
}

void rv_sender_wake(struct sp_ctx *c, struct rv_session *x)
{
	struct rv *s = rv_of(c);

	if (!x->sends && !x->first_op)
		return;
	if (!x->sends)
		rv_sender_begin(s, x);
	if (x->active)
		return;
	x->active = true;
	x->next_active = NULL;
	*(s->active ? &s->active_last->next_active : &s->active) = x;
	s->active_last = x;
	sp_issue_start(c, &s->issue);
}

void rv_sender_forget(struct sp_ctx *c, struct rv_session *x)
{
	struct rv *s = rv_of(c);

	for (struct rv_session **at = &s->active; x->active && *at; at = &(*at)->next_active)
		if (*at == x) {
			*at = x->next_active;
			break;
		}
	x->active = x->sends = false;
	x->next_active = NULL;
	x->get_at = SP_NEVER;
	s->active_last = s->active;
	while (s->active_last && s->active_last->next_active)
		s->active_last = s->active_last->next_active;
}
