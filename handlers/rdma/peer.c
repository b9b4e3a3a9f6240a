/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, READ responses of all QPs of a peer. */
#include "peer.h"

/* A QP has at most one peer, so the entries that are made for a worker's QPs suffice. */
int rdma_peers_attach(struct sp_ctx *c)
{
	struct rdma *s = rdma_of(c);
	struct rdma_peer *peer = sp_alloc(c, s->qps * sizeof(*peer));
	uint32_t buckets = 16;

	while (buckets < s->qps / c->workers)
		buckets *= 2;
	if (!peer)
		return sp_fail(c, ENOMEM, "qps", "no memory for %u QPs", s->qps);
	for (uint32_t w = 0; w < c->workers; w++) {
		s->worker[w].peers = sp_alloc(c, buckets * sizeof(peer));
		s->worker[w].peer_mask = buckets - 1;
		if (!s->worker[w].peers)
			return sp_fail(c, ENOMEM, "qps", "no memory for %u QPs", s->qps);
	}
	for (uint32_t i = 0; i < s->qps; i++) {
		struct rdma_worker *w = &s->worker[sp_qp_worker(c, i)];

		peer[i].next = w->peers_free;
		w->peers_free = &peer[i];
	}
	return 0;
}

static struct rdma_peer **rdma_peer_bucket(struct sp_ctx *c, const uint8_t ip[16])
{
	const struct rdma_worker *w = &rdma_of(c)->worker[c->worker];

	return &w->peers[sp_hash(c, ip, 16) & w->peer_mask];
}

void rdma_peer_join(struct sp_ctx *c, struct rdma_qp *qp)
{
	struct rdma_peer **bucket = rdma_peer_bucket(c, qp->attr.ip), *p = *bucket;
	struct rdma_worker *w = &rdma_of(c)->worker[c->worker];

	while (p && memcmp(p->ip, qp->attr.ip, sizeof(p->ip)))
		p = p->next;
	if (!p) {
		p = w->peers_free;
		w->peers_free = p->next;
		*p = (struct rdma_peer){.next = *bucket};
		memcpy(p->ip, qp->attr.ip, sizeof(p->ip));
		*bucket = p;
	}
	p->users++;
	qp->peer = p;
}

/* The oldest one in line may have its turn. */
static void rdma_peer_pass_on(struct sp_ctx *c, const struct rdma_peer *p)
{
	if (p->waiting && (!p->bytes || p->bytes + RDMA_READ_TURN <= rdma_of(c)->peer_reads))
		sp_issue_start(c, &p->waiting->issue);
}

static void rdma_peer_line_up(struct rdma_peer *p, struct rdma_qp *qp)
{
	qp->peer_waits = true;
	qp->peer_before = p->waiting_last;
	qp->peer_next = NULL;
	*(p->waiting_last ? &p->waiting_last->peer_next : &p->waiting) = qp;
	p->waiting_last = qp;
}

static void rdma_peer_step_out(struct rdma_peer *p, struct rdma_qp *qp)
{
	*(qp->peer_before ? &qp->peer_before->peer_next : &p->waiting) = qp->peer_next;
	*(qp->peer_next ? &qp->peer_next->peer_before : &p->waiting_last) = qp->peer_before;
	qp->peer_waits = false;
}

bool rdma_peer_turn(struct sp_ctx *c, struct rdma_qp *qp, uint32_t left)
{
	const uint32_t turn = left < RDMA_READ_TURN ? left : RDMA_READ_TURN;
	struct rdma_peer *p = qp->peer;

	if (qp->turn || !left)
		return true;
	/* One at least has its turn, whatever the limit is. */
	if ((p->waiting && p->waiting != qp) || (p->bytes && p->bytes + turn > rdma_of(c)->peer_reads)) {
		if (!qp->peer_waits) {
			rdma_peer_line_up(p, qp);
			c->counters[RDMA_READS_HELD]++;
		}
		return false;
	}
	if (qp->peer_waits)
		rdma_peer_step_out(p, qp);
	qp->turn = turn;
	p->bytes += turn;
	rdma_peer_pass_on(c, p);
	return true;
}

void rdma_peer_sent(struct sp_ctx *c, struct rdma_qp *qp, uint32_t bytes)
{
	if (!bytes)
		return;
	bytes = bytes < qp->turn ? bytes : qp->turn;
	qp->turn -= bytes;
	qp->peer->bytes -= bytes;
	rdma_peer_pass_on(c, qp->peer);
}

void rdma_peer_done(struct sp_ctx *c, struct rdma_qp *qp)
{
	struct rdma_peer *p = qp->peer;

	if (!p || (!qp->turn && !qp->peer_waits))
		return;
	if (qp->peer_waits)
		rdma_peer_step_out(p, qp);
	p->bytes -= qp->turn;
	qp->turn = 0;
	rdma_peer_pass_on(c, p);
}

void rdma_peer_leave(struct sp_ctx *c, struct rdma_qp *qp)
{
	struct rdma_peer *p = qp->peer, **at = p ? rdma_peer_bucket(c, p->ip) : NULL;
	struct rdma_worker *w = &rdma_of(c)->worker[c->worker];

	rdma_peer_done(c, qp);
	qp->peer = NULL;
	if (!p || --p->users)
		return;
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	p->next = w->peers_free;
	w->peers_free = p;
}
