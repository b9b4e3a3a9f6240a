/* SPDX-License-Identifier: BSD-3-Clause */
/* rvma, peers and their sessions: which peers are known, by which token, and how a session ends. */
#include "session.h"
#include "answer.h"
#include "op.h"
#include "sender.h"
#include "transfer.h"

#define RV_LOOK	       64	    /* sessions that HELLO looks at to reuse one; sessions that a report shows */
#define RV_OFFER_STAYS (10 * SP_MS) /* an OFFER is not reused before */
#define RV_INDEX       0xFFFFull    /* bits of a token that are the session's index */
static_assert(SP_RVMA_PEERS_MAX <= RV_INDEX, "tokens have room for the index");

/* ---- the end of a session ---- */
static uint32_t *rv_head(struct sp_ctx *c, const uint8_t ip[16], uint32_t qp)
{
	const struct rv *s = rv_of(c);
	uint8_t bytes[20];

	memcpy(bytes, ip, 16);
	memcpy(bytes + 16, &qp, 4);
	return &s->same[sp_hash(c, bytes, sizeof(bytes)) & s->same_mask];
}

/* Clears all state of the session. Which peer it is with, stays. */
static void rv_session_clear(struct sp_ctx *c, struct rv_session *x, enum sp_rvma_status why)
{
	struct rv *s = rv_of(c);

	x->state = RV_SESSION_IDLE; /* so that no packet goes to the peer */
	x->generation++;
	rv_ops_end(c, x, why);
	rv_sender_forget(c, x);
	for (struct rv_transfer *t = x->transfers, *next; t; t = next) {
		next = t->next;
		rv_transfer_stop(c, t, SP_RVMA_GIVEN_UP); /* their gets have ended with the operations */
	}
	sp_timer_cancel(c, &x->timer);
	sp_timer_cancel(c, &x->ack_timer);
	if (x->end) {
		memset(x->block, 0, s->blocks * sizeof(*x->block));
		sp_dma_store64(c, s->area, s->layout.gone, ++s->peers_gone);
	}
	x->names = x->candidate = (struct rv_names){.token = 0};
	x->receiver = (struct sp_rel_receiver){.poll = 0};
	x->base = x->end = x->ordered = 0;
	x->hello_began = 0;
}

void rv_session_end(struct sp_ctx *c, struct rv_session *x, enum sp_rvma_status why)
{
	struct rv *s = rv_of(c);
	const struct rv_names next = x->candidate;
	uint32_t *at = rv_head(c, x->ip, x->qp);

	if (x->state == RV_SESSION_FREE || s->implicit)
		return;
	rv_session_clear(c, x, why);
	x->gone = true;
	if (next.token) { /* the peer has restarted, and its packets may be in flight */
		x->names = next;
		x->state = RV_SESSION_OFFER;
		return;
	}
	if (x->named)
		return;
	while (*at != x->index)
		at = &s->session[*at].chain;
	*at = x->chain;
	sp_path_close(c, x->path);
	x->path = NULL;
	x->state = RV_SESSION_FREE;
	x->chain = s->session_free;
	s->session_free = x->index;
}

void rv_bye(struct sp_ctx *c, struct rv_session *x)
{
	struct sp_rvma_bye bye;

	if (!x->names.peer_token)
		return;
	if (x->end) /* so that the peer does not take delivered blocks for lost */
		rv_send_ack(c, x, NULL);
	sp_store_be64(bye.token, x->names.peer_token);
	sp_store_be64(bye.nonce, x->names.nonce);
	rv_send_control(c, x, SP_RVMA_BYE, &bye, sizeof(bye), NULL, 0);
}

/* ---- peers ---- */
struct rv_session *rv_session_of(struct sp_ctx *c, const uint8_t ip[16], uint32_t qp)
{
	struct rv *s = rv_of(c);

	for (uint32_t i = *rv_head(c, ip, qp); i != RV_NONE; i = s->session[i].chain)
		if (s->session[i].qp == qp && !memcmp(s->session[i].ip, ip, 16))
			return &s->session[i];
	return NULL;
}

uint64_t rv_token(struct sp_ctx *c, const struct rv_session *x)
{
	uint64_t token;

	do
		token = (sp_random(c) & ~RV_INDEX) | x->index;
	while (token == x->index || token == x->names.token || token == x->candidate.token);
	return token;
}

/* True: the slot can be reused. Nobody uses an offer that was not accepted, a peer that was silent for long, or a peer
 * that is gone. */
static bool rv_makes_room(const struct sp_ctx *c, const struct rv *s, const struct rv_session *x)
{
	const bool offer = x->state == RV_SESSION_OFFER;

	if (x->first_op || x->transfers)
		return false;
	if ((offer || x->candidate.token) && c->now - x->offered < RV_OFFER_STAYS)
		return false;
	if (x->named)
		return x->gone && (offer || x->state == RV_SESSION_IDLE);
	return offer || (x->state == RV_SESSION_OPEN && c->now - x->heard_at >= s->timeout);
}

static bool rv_make_room(struct sp_ctx *c, uint32_t look)
{
	struct rv *s = rv_of(c);

	for (uint32_t i = 0; i < look && i < s->peers; i++) {
		struct rv_session *x = &s->session[s->hand];

		s->hand = s->hand + 1 < s->peers ? s->hand + 1 : 0;
		if (!rv_makes_room(c, s, x))
			continue;
		if (x->state == RV_SESSION_OPEN)
			rv_bye(c, x);
		x->named = 0;
		x->candidate.token = 0;
		rv_session_end(c, x, SP_RVMA_PEER_GONE);
		return true;
	}
	return false;
}

int rv_session_new(struct sp_ctx *c, const uint8_t ip[16], uint32_t qp, struct rv_session **session)
{
	struct rv *s = rv_of(c);
	uint32_t *head = rv_head(c, ip, qp);
	struct rv_session *x;
	struct sp_path *path;
	int rc;

	if (s->session_free == RV_NONE && !rv_make_room(c, RV_LOOK))
		return -ENOSPC;
	rc = sp_path_open(c, ip, false, &path);
	if (rc)
		return rc;
	x = &s->session[s->session_free];
	s->session_free = x->chain;
	x->state = RV_SESSION_IDLE;
	memcpy(x->ip, ip, 16);
	x->qp = qp;
	x->psn = (uint32_t)sp_random(c) & SP_ROCE_PSN_MASK;
	x->path = path;
	x->gone = false;
	x->rtt = 0;
	x->chain = *head;
	*head = x->index;
	*session = x;
	return 0;
}

int rv_peer(struct sp_ctx *c, const struct sp_command *command, struct sp_event *result)
{
	struct rv *s = rv_of(c);
	struct rv_session *x;
	uint8_t ip[16];
	int rc;

	if (s->implicit)
		return -EOPNOTSUPP;
	if (command->arg[2] > SP_ROCE_QP_MASK || !sp_roce_qp_valid((uint32_t)command->arg[2]))
		return -EINVAL;
	memcpy(ip, command->arg, sizeof(ip));
	x = rv_session_of(c, ip, (uint32_t)command->arg[2]);
	if (!x) {
		if (s->session_free == RV_NONE)
			rv_make_room(c, s->peers);
		rc = rv_session_new(c, ip, (uint32_t)command->arg[2], &x);
		if (rc)
			return rc;
	}
	if (!x->named) {
		s->naming = s->naming % RV_INDEX + 1;
		x->named = s->naming;
	}
	x->gone = false;
	result->arg[0] = (uint64_t)x->named << 16 | x->index;
	return 0;
}

struct rv_session *rv_peer_get(struct rv *s, uint32_t peer)
{
	const uint32_t index = peer & RV_INDEX;

	return index < s->peers && s->session[index].named && s->session[index].named == peer >> 16 ? &s->session[index]
												    : NULL;
}

/* ---- attach and detach ---- */
int rv_sessions_attach(struct sp_ctx *c)
{
	struct rv *s = rv_of(c);
	const size_t sender = rv_sender_bytes(s);
	uint32_t heads = 1;
	struct rv_block *block;
	struct rv_op **block_op;
	uint8_t *senders;

	if (!sender) /* rv.blocks is not a power of two */
		return -EINVAL;
	while (heads < s->peers)
		heads *= 2;
	s->session = sp_alloc(c, s->peers * sizeof(*s->session));
	s->same = sp_alloc(c, heads * sizeof(*s->same));
	block = sp_alloc(c, (size_t)s->peers * s->blocks * sizeof(*block));
	block_op = sp_alloc(c, (size_t)s->peers * s->blocks * sizeof(*block_op));
	senders = s->implicit ? NULL : sp_alloc(c, s->peers * sender);
	if (!s->session || !s->same || !block || !block_op || (!senders && !s->implicit))
		return sp_fail(c, ENOMEM, "peers", "no memory for %u sessions with a window of %u blocks", s->peers,
			       s->blocks);
	s->same_mask = heads - 1;
	memset(s->same, 0xFF, heads * sizeof(*s->same)); /* RV_NONE */
	for (uint32_t i = 0; i < s->peers; i++) {
		struct rv_session *x = &s->session[i];

		x->index = i;
		x->generation = 1;
		x->block = block + (size_t)i * s->blocks;
		x->block_op = block_op + (size_t)i * s->blocks;
		x->sender_memory = senders ? senders + i * sender : NULL;
		x->timer.cookie = 2ull * i;
		x->ack_timer.cookie = 2ull * i + 1;
		x->get_at = SP_NEVER;
		x->chain = i + 1 < s->peers ? i + 1 : RV_NONE;
	}
	if (s->implicit) {
		s->session[0].state = RV_SESSION_OPEN;
		s->session[0].mtu = s->mtu;
		s->session_free = RV_NONE;
	}
	return 0;
}

void rv_sessions_detach(struct sp_ctx *c)
{
	struct rv *s = rv_of(c);

	for (uint32_t i = 0; i < s->peers; i++)
		rv_bye(c, &s->session[i]);
}

/* ---- tokens ---- */
void rv_session_open(struct sp_ctx *c, struct rv_session *x)
{
	x->state = RV_SESSION_OPEN;
	x->mtu = x->names.mtu;
	x->heard_at = c->now;
	x->hello_began = 0;
	x->gone = false;
	sp_timer_cancel(c, &x->timer);
	c->counters[RV_SESSIONS]++;
	rv_sender_wake(c, x);
}

/* The peer has restarted. This packet proves that it has accepted our offer. */
static void rv_session_replace(struct sp_ctx *c, struct rv_session *x)
{
	const struct rv_names names = x->candidate;

	rv_session_clear(c, x, SP_RVMA_PEER_GONE);
	x->names = names;
	c->counters[RV_RESTARTS]++;
	rv_session_open(c, x);
}

/* True: a packet between the session's two addresses, from the peer. Both ends send from the address that the other
 * one sends to, else the peer would not have known the WELCOME. */
static bool rv_is_from(const struct rv_names *names, const struct sp_packet *p)
{
	const bool ipv6 = p->flags & SP_PKT_IPV6;

	return names->ipv6 == ipv6 && !memcmp(names->from, rv_addresses(p), ipv6 ? 32 : 8);
}

struct rv_session *rv_session_find(struct sp_ctx *c, const struct sp_packet *p, const uint8_t token[8], uint8_t *why)
{
	struct rv *s = rv_of(c);
	const uint64_t named = sp_load_be64(token);
	struct rv_session *x = &s->session[named & RV_INDEX];

	if (s->implicit)
		return &s->session[0];
	*why = RV_BAD_TOKEN;
	if ((named & RV_INDEX) >= s->peers || named <= RV_INDEX)
		return NULL;
	if (x->candidate.token == named && rv_is_from(&x->candidate, p))
		rv_session_replace(c, x);
	if (x->candidate.token == named)
		*why = RV_WRONG_PEER;
	if (x->names.token != named || x->state < RV_SESSION_OFFER)
		return NULL;
	*why = RV_WRONG_PEER;
	if (!rv_is_from(&x->names, p))
		return NULL;
	x->heard_at = c->now;
	if (x->state == RV_SESSION_OFFER)
		rv_session_open(c, x);
	return x;
}

/* ---- report ---- */
void rv_sessions_report(struct sp_ctx *c, struct sp_report *r)
{
	static const char *const states[] = {[RV_SESSION_IDLE] = "idle",
					     [RV_SESSION_HELLO] = "hello",
					     [RV_SESSION_OFFER] = "offered",
					     [RV_SESSION_OPEN] = "open"};
	const struct rv *s = rv_of(c);
	unsigned shown = 0;

	for (uint32_t i = 0; i < s->peers && shown < RV_LOOK; i++) {
		const struct rv_session *x = &s->session[i];

		if (x->state == RV_SESSION_FREE)
			continue;
		shown++;
		sp_report_open(r, NULL, false);
		sp_report_string(r, "state", states[x->state]);
		sp_report_uint(r, "qp", x->qp);
		sp_report_uint(r, "mtu", x->mtu);
		sp_report_uint(r, "blocks_in", x->base);
		sp_report_uint(r, "transfers_in", x->open);
		sp_report_uint(r, "blocks_out", x->sends ? x->sender.begin : 0);
		sp_report_uint(r, "blocks_under_way", x->sends ? x->sender.end - x->sender.begin : 0);
		sp_report_uint(r, "round_trip", x->sends ? x->sender.rtt.smoothed : x->rtt);
		sp_report_close(r);
	}
}
