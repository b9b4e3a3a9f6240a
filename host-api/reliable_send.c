/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reliable messages over SDR: sending. The core decides which unit goes next. This file runs SDR's streams, and makes
 * sure that the core knows when a unit has left: a message reaches the core only once it is cleared for sending, and
 * the core requests an acknowledgement only when the NIC has sent all units handed to it. So a request never overtakes
 * a unit.
 */
#include "reliable_private.h"

static struct sdr_reliable_op *sdr_send_op(const struct sdr_reliable *r, uint64_t k)
{
	return sdr_reliable_op_of(r, &r->send, k);
}

int sdr_reliable_send(struct sdr_reliable *r, struct sp_mr *mr, uint64_t offset, uint64_t len, uint32_t immediate,
		      struct sdr_reliable_op **out)
{
	struct sdr_reliable_op op = {.phase = SDR_OP_WAITS,
				     .sends = true,
				     .offset = offset,
				     .length = len,
				     .immediate = immediate,
				     .mr = mr};
	int rc = sdr_reliable_ready(r, &r->send);

	if (rc && rc != -EAGAIN)
		return rc;
	if (len && !mr)
		return -EINVAL;
	if (len && (offset > mr->len || len > mr->len - offset))
		return -EFAULT;
	if (r->ec.pairs) /* the NIC gets it once it is cleared for sending */
		rc = rc ? rc : sdr_ec_may_send(r, len);
	else
		rc = rc ? rc : sdr_send_stream_start(r->qp, len, immediate, &op.send);
	if (rc)
		return rc;
	if (op.send && sdr_send_message(op.send) != r->send.next) /* another caller has sent on this QP */
		return sdr_reliable_fail(r, -EINVAL);
	*out = sdr_reliable_begin(r, &r->send, &op);
	return 0;
}

uint32_t sdr_reliable_send_done(const struct sdr_reliable_op *op)
{
	const struct sp_rel_sender *s = &op->reliable->sender;

	return op->phase == SDR_OP_OPEN ? s->message[op->message & (s->config.messages - 1)].acked : 0;
}

/* ---- the life of a message ---- */
/* The core uses SDR's numbers: every message is started there, even one that ended before it was cleared. False: the
 * NIC does not take it now. */
static bool sdr_send_to_core(struct sdr_reliable *r)
{
	struct sdr_reliable_op *op = sdr_send_op(r, r->send_start);
	uint64_t number;

	if (r->ec.pairs && !sdr_ec_start(r, op))
		return false;
	/* It has room: the operation that had this place here has ended, and so have all before. */
	sp_rel_start(&r->sender, sdr_reliable_units(r, op->length), r->now, &number);
	if (op->phase == SDR_OP_WAITS)
		op->phase = SDR_OP_OPEN;
	else
		sp_rel_release(&r->sender, number);
	r->send_start++;
	return true;
}

static void sdr_send_decide(struct sdr_reliable *r, struct sdr_reliable_op *op, int result)
{
	/* Cancelled while it waits: those before it wait too, and must get their numbers first. With pairs the NIC has
	 * none of them yet, and each gets its number in its turn. */
	while (!r->ec.pairs && r->send_start <= op->message)
		sdr_send_to_core(r);
	if (op->message < r->send_start)
		sp_rel_release(&r->sender, op->message);
	sdr_reliable_decide(&r->send, op, result);
}

/* Ends once the NIC has returned the buffer. */
static void sdr_send_end(struct sdr_reliable *r, struct sdr_reliable_op *op)
{
	if (op->send && !op->ended)
		op->ended = sdr_send_stream_end(op->send) == 0;
	if (op->ended && op->send && sdr_send_poll(op->send) == 0)
		op->send = NULL;
	if (!op->send && (!r->ec.pairs || op->message < r->ec.left || op->message >= r->send_start))
		sdr_reliable_over(&r->send, op);
}

/* The core has ended more messages: find them. */
static void sdr_send_find(struct sdr_reliable *r)
{
	const uint64_t over = r->sender.counters.done + r->sender.counters.refused;
	struct sdr_reliable_op *after;

	for (struct sdr_reliable_op *op = r->send.live.first; op && r->send.seen < over; op = after) {
		const enum sp_rel_state state = sp_rel_state(&r->sender, op->message);

		after = op->after;
		if (op->phase != SDR_OP_OPEN || (state != SP_REL_DONE && state != SP_REL_REFUSED))
			continue;
		if (r->ec.chooses && state == SP_REL_DONE)
			sdr_auto_arrived(r, op);
		sdr_send_decide(r, op, state == SP_REL_DONE ? 0 : -EREMOTEIO);
		r->send.seen++;
	}
}

/* ---- what goes next ---- */
/* Hands a unit to the NIC. */
static int sdr_send_unit(struct sdr_reliable *r, const struct sp_rel_next *next, uint64_t *bits)
{
	struct sdr_reliable_op *op = sdr_send_op(r, next->message);
	const uint64_t at = next->unit * r->chunk_bytes, left = op->length - at;
	const uint64_t len = left < r->chunk_bytes ? left : r->chunk_bytes, packets = len ? (len - 1) / r->mtu + 1 : 1;

	const int rc = sdr_send_stream_continue(op->send, op->mr, op->offset + at, len, at);

	*bits = len * 8 + packets * r->packet_bits;
	if (!rc && r->ec.chooses)
		sdr_auto_sent(r, len);
	return rc;
}

static void sdr_send_pump(struct sdr_reliable *r, uint64_t queued)
{
	struct sp_rel_next next;
	uint64_t bits = 0;
	int rc;

	if (r->ec.chooses)
		sdr_auto_sending(r, queued);
	for (;;) {
		sp_rel_next(&r->sender, r->now, &next);
		r->blocked = next.what != SP_REL_NOTHING;
		if (!r->blocked || queued >= (next.what == SP_REL_ASK ? 1 : r->queue))
			return;
		if (next.what == SP_REL_ASK)
			rc = sdr_control_send(r->qp, &next.poll, sizeof(next.poll));
		else
			rc = sdr_send_unit(r, &next, &bits);
		if (rc == -EAGAIN)
			return;
		if (rc) { /* bad memory, or the QP has failed: its status tells */
			r->refusal = true;
			if (next.what == SP_REL_ASK)
				return;
			sdr_send_decide(r, sdr_send_op(r, next.message), rc);
			continue;
		}
		queued += next.what != SP_REL_ASK;
		if (next.what == SP_REL_UNIT_AGAIN)
			sdr_ec_sent_again(r, sdr_send_op(r, next.message), next.unit);
		sp_rel_sent(&r->sender, &next, bits, r->now);
	}
}

/* Whether the next message may be sent. One that has ended needs only its number. */
static bool sdr_send_cleared(const struct sdr_reliable *r, uint64_t may_send)
{
	if (!r->ec.pairs)
		return r->send_start < may_send;
	return 2 * r->send_start < may_send || sdr_send_op(r, r->send_start)->phase != SDR_OP_WAITS;
}

void sdr_reliable_send_progress(struct sdr_reliable *r, const struct sdr_qp_status *status)
{
	struct sdr_qp_status now = *status;
	struct sdr_reliable_op *after;
	uint64_t queued;

	/* Parity that is with the NIC must not count as data. */
	while (r->ec.pairs && sdr_ec_left(r))
		sdr_qp_status(r->qp, &now);
	queued = now.queued - r->ec.under_way;
	r->ec.may_send = now.may_send;
	sdr_send_find(r);
	sdr_reliable_expire(r, &r->send, sdr_send_decide);
	for (struct sdr_reliable_op *op = r->send.ending.first; op; op = after) {
		after = op->after;
		sdr_send_end(r, op);
	}
	r->refusal = false;
	while (r->send_start < r->send.next && sdr_send_cleared(r, now.may_send) && sdr_send_to_core(r))
		;
	if (r->ec.pairs)
		sdr_ec_begun(r);
	if (r->abandoned)
		r->blocked = true; /* there is no peer to send to */
	else
		sdr_send_pump(r, queued);
}

sp_time sdr_reliable_send_deadline(const struct sdr_reliable *r)
{
	const sp_time next = r->refusal ? r->now : r->blocked ? SP_NEVER : sp_rel_deadline(&r->sender);
	const sp_time over = sdr_reliable_side_deadline(&r->send);

	return over < next ? over : next;
}
