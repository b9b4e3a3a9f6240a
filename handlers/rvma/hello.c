/* SPDX-License-Identifier: BSD-3-Clause */
/* rvma, HELLO and WELCOME: both ends exchange tokens and parameters before the first transfer. */
#include "hello.h"
#include "answer.h"
#include "session.h"

#define RV_HELLO_FIRST	   SP_MS /* HELLO is repeated after this, then after twice that */
#define RV_HELLO_MOST	   (200 * SP_MS)
#define RV_CANDIDATE_STAYS (10 * SP_MS) /* a candidate is not replaced before: a HELLO may arrive late */

static void rv_send_hello(struct sp_ctx *c, struct rv_session *x, const struct rv_names *names, uint64_t echo)
{
	const struct rv *s = rv_of(c);
	struct sp_rvma_hello hello = {.version = SP_RVMA_VERSION};

	sp_store_be32(hello.qp, s->qp);
	sp_store_be32(hello.mtu, s->mtu);
	sp_store_be32(hello.window, s->blocks);
	sp_store_be64(hello.token, names->token);
	sp_store_be64(hello.nonce, names->nonce);
	sp_store_be64(hello.echo, echo);
	rv_send_control(c, x, echo ? SP_RVMA_WELCOME : SP_RVMA_HELLO, &hello, sizeof(hello), NULL, 0);
}

static void rv_names_new(struct sp_ctx *c, const struct rv_session *x, struct rv_names *names)
{
	*names = (struct rv_names){.token = rv_token(c, x)};
	do
		names->nonce = sp_random(c);
	while (!names->nonce);
}

static void rv_names_take(const struct rv *s, struct rv_names *names, const struct sp_packet *p)
{
	const struct sp_rvma_hello *hello = (const void *)p->data;
	const uint32_t mtu = sp_load_be32(hello->mtu);

	names->peer_token = sp_load_be64(hello->token);
	names->peer_nonce = sp_load_be64(hello->nonce);
	names->mtu = mtu < s->mtu ? mtu : s->mtu;
	names->window = sp_load_be32(hello->window);
	names->ipv6 = p->flags & SP_PKT_IPV6;
	memcpy(names->from, rv_addresses(p), names->ipv6 ? 32 : 8);
}

void rv_hello_begin(struct sp_ctx *c, struct rv_session *x)
{
	if (x->hello_began)
		return;
	if (x->state == RV_SESSION_OFFER &&
	    x->candidate.token) { /* the peer that asked last is more likely to be alive */
		x->names = x->candidate;
		x->candidate = (struct rv_names){.token = 0};
	}
	if (x->state == RV_SESSION_IDLE) {
		rv_names_new(c, x, &x->names);
		x->state = RV_SESSION_HELLO;
	}
	x->gone = false;
	x->hello_began = c->now | 1;
	x->hello_wait = RV_HELLO_FIRST;
	rv_send_hello(c, x, &x->names, 0);
	sp_timer_arm(c, &x->timer, c->now + x->hello_wait);
}

void rv_hello_timer(struct sp_ctx *c, struct rv_session *x)
{
	const sp_time until = x->hello_began + rv_of(c)->timeout;

	if (c->now >= until) {
		rv_session_end(c, x, SP_RVMA_PEER_GONE);
		return;
	}
	rv_send_hello(c, x, &x->names, 0);
	x->hello_wait = 2 * x->hello_wait < RV_HELLO_MOST ? 2 * x->hello_wait : RV_HELLO_MOST;
	sp_timer_arm(c, &x->timer, c->now + x->hello_wait < until ? c->now + x->hello_wait : until);
}

/* Returns the names to send to the peer: those that it knows already, or those that it will use once it accepts the
 * offer. NULL: it is too soon for another offer. */
static const struct rv_names *rv_offer(struct sp_ctx *c, struct rv_session *x, const struct sp_packet *p)
{
	const struct sp_rvma_hello *hello = (const void *)p->data;
	const struct rv *s = rv_of(c);
	const uint64_t nonce = sp_load_be64(hello->nonce);

	if (x->state == RV_SESSION_IDLE || x->state == RV_SESSION_HELLO) {
		if (x->state == RV_SESSION_IDLE)
			rv_names_new(c, x, &x->names);
		rv_names_take(s, &x->names, p);
		x->state = RV_SESSION_OFFER;
		x->offered = c->now;
		return &x->names;
	}
	if (x->names.peer_nonce == nonce)
		return &x->names;
	if (x->candidate.token && x->candidate.peer_nonce == nonce)
		return &x->candidate;
	/* We have sent HELLO too. The peer's answer to that is the session. With two pairs of names, its packets of one
	 * session would end the other, and ours would count as repeats. */
	if (x->state == RV_SESSION_OFFER && x->hello_began)
		return NULL;
	if (x->candidate.token && c->now - x->offered < RV_CANDIDATE_STAYS)
		return NULL;
	rv_names_new(c, x, &x->candidate);
	rv_names_take(s, &x->candidate, p);
	x->offered = c->now;
	return &x->candidate;
}

static uint32_t rv_welcome(struct sp_ctx *c, struct rv_session *x, const struct sp_packet *p)
{
	const struct sp_rvma_hello *hello = (const void *)p->data;
	const uint64_t echo = sp_load_be64(hello->echo);

	if (!x || !echo || echo != x->names.nonce)
		return SP_DROP(RV_BAD_CONTROL);
	if (x->state ==
	    RV_SESSION_OPEN) /* repeated, or from another session: then the peer's next packets will show it */
		return x->names.peer_nonce == sp_load_be64(hello->nonce) ? SP_DONE : SP_DROP(RV_BAD_CONTROL);
	rv_names_take(rv_of(c), &x->names, p);
	if (x->hello_began)
		x->rtt = c->now > x->hello_began ? c->now - x->hello_began : 1;
	rv_session_open(c, x);
	return SP_DONE;
}

static void rv_source(const struct sp_packet *p, uint8_t ip[16])
{
	const uint8_t *l3 = p->frame + p->l3;

	if (p->flags & SP_PKT_IPV6) {
		memcpy(ip, l3 + 8, 16);
		return;
	}
	memset(ip, 0, 10);
	ip[10] = ip[11] = 0xFF;
	memcpy(ip + 12, l3 + 12, 4);
}

uint32_t rv_hello(struct sp_ctx *c, struct sp_packet *p)
{
	const struct sp_rvma_hello *hello = (const void *)p->data;
	const struct rv_names *names;
	struct rv_session *x;
	uint8_t ip[16];
	uint32_t qp;

	if (p->len < sizeof(*hello))
		return SP_DROP(RV_SHORT_HEADER);
	if (hello->version != SP_RVMA_VERSION)
		return SP_DROP(RV_BAD_VERSION);
	qp = sp_load_be32(hello->qp);
	if (rv_of(c)->implicit || qp > SP_ROCE_QP_MASK || !sp_roce_qp_valid(qp) ||
	    sp_load_be32(hello->mtu) < SP_RVMA_MTU_MIN || !sp_load_be32(hello->window) || !sp_load_be64(hello->nonce))
		return SP_DROP(RV_BAD_CONTROL);
	rv_source(p, ip);
	x = rv_session_of(c, ip, qp);
	if (p->opcode == SP_RVMA_WELCOME)
		return rv_welcome(c, x, p);
	if (sp_load_be64(hello->echo))
		return SP_DROP(RV_BAD_CONTROL);
	if (!x && rv_session_new(c, ip, qp, &x))
		return SP_DROP(RV_NO_SESSION);
	names = rv_offer(c, x, p);
	if (!names)
		return SP_DROP(RV_NO_SESSION);
	rv_send_hello(c, x, names, names->peer_nonce);
	return SP_DONE;
}
