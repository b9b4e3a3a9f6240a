/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdma, selective repeat: the requester's part. A packet counts as lost by time of sending, as in
 * handlers/reliability: a report says which packet came last, and what was sent a reordering window before that one and
 * is not there will not come. The end of what was sent is probed.
 */
#include "selective.h"
#include "wqe.h"

#define SENT_LOG 17 /* unit of `sent`: 131 ns, in ps */
#define REORDER	 8  /* reordering window: this part of a round trip, as the default of sp_rel_config.reorder */
#define PROBES	 6  /* doublings of the time to the next probe, at most */

/* Those PSNs of an operation that a packet begins with: of a READ, the oldest that is not answered. */
static void rdma_op_packets(const struct rdma_qp *qp, const struct rdma_op *op, uint64_t *from, uint64_t *to)
{
	const struct rdma_sq *q = &qp->sq;

	*from = op->seq > q->una ? op->seq : q->una;
	*to = rdma_op_reads(op) ? *from + 1 : rdma_op_end(op);
	*to = *to < q->end ? *to : q->end;
}

/* The first one of [from, to) whose bit is set, or not set. `to`: none. */
static uint64_t rdma_find(const struct rdma_selective *s, const uint64_t *bits, bool set, uint64_t from, uint64_t to)
{
	while (from < to) {
		const uint64_t word = rdma_bits(bits, s->mask, (uint32_t)from), left = set ? word : ~word;

		if (left) {
			from += (uint32_t)__builtin_ctzll(left);
			break;
		}
		from += 64;
	}
	return from < to ? from : to;
}

static void rdma_lose(struct rdma_selective *s, uint64_t seq)
{
	const uint32_t i = (uint32_t)seq & s->mask;

	s->losses += !rdma_bit(s->lost, i);
	rdma_bit_set(s->lost, i);
}

static void rdma_unlose(struct rdma_selective *s, uint64_t seq)
{
	const uint32_t i = (uint32_t)seq & s->mask;

	s->losses -= rdma_bit(s->lost, i);
	rdma_bit_clear(s->lost, i);
}

static uint32_t rdma_sent_now(const struct sp_ctx *c)
{
	return (uint32_t)(c->now >> SENT_LOG) & ~1u;
}

void rdma_selective_sent(struct sp_ctx *c, struct rdma_qp *qp, uint64_t seq)
{
	struct rdma_selective *s = qp->selective;
	const uint32_t i = (uint32_t)seq & s->mask;

	rdma_unlose(s, seq);
	rdma_bit_clear(s->has, i);
	s->sent[i] = rdma_sent_now(c) | (seq < qp->sq.end);
}

void rdma_selective_advance(struct rdma_qp *qp, uint64_t una)
{
	struct rdma_selective *s = qp->selective;

	if (qp->sq.una > una)
		s->probes = 0;
	for (uint64_t seq = una; s->losses && seq < qp->sq.una && seq - una <= s->mask; seq++)
		rdma_unlose(s, seq);
}

void rdma_selective_skip(struct rdma_qp *qp)
{
	struct rdma_selective *s = qp->selective;
	struct rdma_sq *q = &qp->sq;
	struct rdma_op *op = q->send;

	if (q->at >= q->end)
		return;
	for (; s->losses && op && op->seq < q->end; op = op->next) {
		uint64_t from, to;

		rdma_op_packets(qp, op, &from, &to);
		from = from > q->at ? from : q->at;
		if (from < to && !op->status)
			from = rdma_find(s, s->lost, true, from, to);
		if (from < to) {
			q->at = from;
			q->send = op;
			return;
		}
	}
	for (op = q->send; op && op->begun && rdma_op_end(op) <= q->end;)
		op = op->next;
	q->at = q->end;
	q->send = op;
}

void rdma_selective_again(struct rdma_qp *qp, bool all)
{
	struct rdma_selective *s = qp->selective;
	struct rdma_sq *q = &qp->sq;

	if (q->una >= q->end)
		return;
	rdma_lose(s, q->una);
	q->at = q->una;
	q->send = q->wait;
	for (struct rdma_op *op = q->wait; all && op && op->seq < q->end; op = op->next) {
		uint64_t from, to;

		rdma_op_packets(qp, op, &from, &to);
		for (; from < to; from++)
			if (!rdma_bit(s->has, (uint32_t)from & s->mask))
				rdma_lose(s, from);
	}
}

void rdma_selective_acked(struct sp_ctx *c, struct rdma_qp *qp, uint64_t seq)
{
	struct rdma_selective *s = qp->selective;
	const uint32_t sent = s->sent[(uint32_t)seq & s->mask];

	if (!(sent & 1))
		sp_rtt_sample(&s->rtt, (sp_time)(rdma_sent_now(c) - sent) << SENT_LOG);
}

/* The peer has the packets from PSN `at` on whose bits are set. */
static void rdma_has(struct rdma_selective *s, uint64_t at, uint64_t bits)
{
	const uint32_t shift = at % 64, words = s->mask / 64;
	const uint64_t part[2] = {bits << shift, shift ? bits >> (64 - shift) : 0};

	for (uint32_t k = 0; k < 2; k++) {
		const uint32_t word = ((uint32_t)(at & s->mask) / 64 + k) & words;

		s->has[word] |= part[k];
		s->losses -= (uint32_t)__builtin_popcountll(s->lost[word] & part[k]);
		s->lost[word] &= ~part[k];
	}
}

/* The PSNs up to before `seq` have come, it has not, and the bitmap tells of those behind it. Only what is in the
 * window counts. */
static void rdma_report_bits(struct rdma_qp *qp, uint64_t seq, const uint8_t *bitmap, uint32_t len)
{
	struct rdma_selective *s = qp->selective;
	const uint64_t window = qp->sq.una + s->mask + 1, end = qp->sq.end < window ? qp->sq.end : window;

	for (uint64_t i = qp->sq.una; i < seq && i < end; i++) {
		rdma_bit_set(s->has, (uint32_t)i & s->mask);
		if (i != qp->sq.una) /* that one is a READ, whose answer is missing */
			rdma_unlose(s, i);
	}
	if (seq < end)
		rdma_bit_clear(s->has, (uint32_t)seq & s->mask);
	for (uint64_t at = seq + 1; len && at < end; at += 64) {
		const uint32_t bytes = len < 8 ? len : 8;
		uint64_t bits = 0;

		for (uint32_t i = 0; i < bytes; i++)
			bits |= (uint64_t)bitmap[i] << 8 * i;
		rdma_has(s, at, end - at < 64 ? bits & ((1ull << (end - at)) - 1) : bits);
		bitmap += bytes;
		len -= bytes;
	}
}

struct rdma_evidence {
	uint64_t latest; /* the PSN that has come last, */
	uint32_t sent;	 /* and when it was sent */
	uint64_t limit;	 /* the report does not tell of PSNs from here on */
	uint64_t first;	 /* lost one */
	unsigned found;
};

/* Looks for lost packets of an operation. False: those behind were sent too late, too. */
static bool rdma_report_losses(struct rdma_qp *qp, const struct rdma_op *op, struct rdma_evidence *e)
{
	struct rdma_selective *s = qp->selective;
	const uint32_t window = (uint32_t)(s->rtt.smoothed / REORDER >> SENT_LOG);
	uint64_t from, to;

	rdma_op_packets(qp, op, &from, &to);
	to = to < e->limit ? to : e->limit;
	for (; (from = rdma_find(s, s->has, false, from, to)) < to; from++) {
		const uint32_t i = (uint32_t)from & s->mask;
		const int32_t before = (int32_t)((e->sent & ~1u) - (s->sent[i] & ~1u));

		if (before < (int32_t)window || (before == 0 && from >= e->latest)) {
			if (!(s->sent[i] & 1)) /* what follows was sent later, for the first time and again */
				return false;
			continue;
		}
		if (rdma_bit(s->lost, i))
			continue;
		rdma_lose(s, from);
		e->first = from < e->first ? from : e->first;
		e->found++;
	}
	return true;
}

unsigned rdma_selective_report(struct sp_ctx *c, struct rdma_qp *qp, uint64_t seq, const uint8_t *from, uint32_t len,
			       bool *oldest)
{
	struct rdma_selective *s = qp->selective;
	struct rdma_sq *q = &qp->sq;
	const uint64_t latest = q->una + (uint64_t)(int64_t)rdma_psn_diff(sp_load_be32(from), (uint32_t)q->una);
	const uint32_t room = qp->mtu < RDMA_GAP_BYTES ? qp->mtu : RDMA_GAP_BYTES;
	struct rdma_evidence e = {.latest = latest, .limit = UINT64_MAX, .first = UINT64_MAX};
	sp_time ago;

	*oldest = false;
	len -= 4;
	rdma_report_bits(qp, seq, from + 4, len);
	if (len >= room)
		e.limit = seq + 1 + 8 * len;
	if (latest >= q->end || latest + s->mask < q->end - 1) /* when it was sent is not known any more */
		return 0;
	e.sent = s->sent[(uint32_t)latest & s->mask];
	ago = (sp_time)(rdma_sent_now(c) - (e.sent & ~1u)) << SENT_LOG;
	if (!(e.sent & 1))
		sp_rtt_sample(&s->rtt, ago);
	else if (ago < s->rtt.least) /* it was the earlier one that came */
		return 0;
	for (struct rdma_op *op = q->wait; op && op->seq < q->end && !op->status; op = op->next)
		/* The request of a READ whose responses come has come. */
		if ((!rdma_op_reads(op) || op->seq >= q->una) && !rdma_report_losses(qp, op, &e))
			break;
	*oldest = e.first == q->una;
	if (e.first < q->at) {
		q->at = e.first;
		for (q->send = q->wait; rdma_op_end(q->send) <= e.first;)
			q->send = q->send->next;
	}
	return e.found;
}

sp_time rdma_selective_probe_at(const struct rdma_qp *qp)
{
	const struct rdma_selective *s = qp->selective;
	const struct rdma_sq *q = &qp->sq;
	const sp_time from = s->probed > q->heard ? s->probed : q->heard;

	/* A READ's answer may take long; the timeout watches it. */
	if (rdma_op_reads(q->wait))
		return SP_NEVER;
	return from + (sp_rtt_late(&s->rtt) << (s->probes < PROBES ? s->probes : PROBES));
}

/* ---- responder ---- */
uint32_t rdma_selective_gaps(const struct rdma_qp *qp, uint8_t latest[4], uint8_t bitmap[RDMA_GAP_BYTES])
{
	const struct rdma_selective *s = qp->selective;
	const uint32_t room = qp->mtu < RDMA_GAP_BYTES ? qp->mtu : RDMA_GAP_BYTES;
	uint32_t len = 0, left = s->gots, psn = qp->in.psn + 1;

	sp_store_be32(latest, s->latest);
	/* A lap ends with the expected PSN, which is not kept. */
	for (; left && len < room; len += 8, psn += 64) {
		const uint64_t bits = rdma_bits(s->got, s->mask, psn);

		left -= (uint32_t)__builtin_popcountll(bits);
		for (uint32_t i = 0; i < 8; i++)
			bitmap[len + i] = (uint8_t)(bits >> 8 * i);
	}
	return len;
}
