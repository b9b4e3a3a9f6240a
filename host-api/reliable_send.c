/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reliable messages over SDR: sending. The core says which unit goes next; here are SDR's streams, and what the core
 * must not be wrong about: when a unit has left. So messages are the core's only once they are cleared to be sent, and
 * it asks the peer only when the NIC has sent all units that it was given: a question overtakes none of them.
 */
#include "reliable_private.h"

static struct sdr_reliable_op *sdr_send_op(const struct sdr_reliable *r, uint64_t k)
{
	return &r->send[k % r->slots];
}

int sdr_reliable_send(struct sdr_reliable *r, struct sp_mr *mr, uint64_t offset, uint64_t len, uint32_t immediate,
		      struct sdr_reliable_op **out)
{
	struct sdr_reliable_op *op = sdr_send_op(r, r->send_next);
	struct sdr_send *send;
	int rc;

	if (r->error)
		return r->error;
	if (len && !mr)
		return -EINVAL;
	if (len && (offset > mr->len || len > mr->len - offset))
		return -EFAULT;
	if (op->phase != SDR_OP_FREE)
		return -EAGAIN;
	rc = sdr_send_stream_start(r->qp, len, immediate, &send);
	if (rc)
		return rc;
	if (sdr_send_message(send) != r->send_next) /* somebody else has sent on this QP */
		return sdr_reliable_fail(r, -EINVAL);
	*op = (struct sdr_reliable_op){.reliable = r,
				       .phase = SDR_OP_WAITS,
				       .sends = true,
				       .message = r->send_next++,
				       .offset = offset,
				       .length = len,
				       .immediate = immediate,
				       .mr = mr,
				       .send = send};
	r->wake = 0;
	*out = op;
	return 0;
}

uint32_t sdr_reliable_send_done(const struct sdr_reliable_op *op)
{
	const struct sp_rel_sender *s = &op->reliable->sender;

	return op->phase == SDR_OP_OPEN ? s->message[op->message & (s->config.messages - 1)].acked : 0;
}

/* ---- the life of a message -----------------------------------------------------------------------------------------
 */
/* The core's numbers are SDR's: each message is started there, one that is over before it was cleared, too. */
static void sdr_send_to_core(struct sdr_reliable *r, struct sdr_reliable_op *op)
{
	uint64_t number;

	/* It has room: whose place this one has here is over, and so are all before. */
	sp_rel_start(&r->sender, sdr_reliable_units(r, op->length), r->now, &number);
	op->phase = SDR_OP_OPEN;
	r->send_start++;
}

static void sdr_send_decide(struct sdr_reliable *r, struct sdr_reliable_op *op, int result)
{
	if (op->phase == SDR_OP_WAITS) {
		/* Cancelled: those before it wait too, and must have their numbers first. */
		while (r->send_start <= op->message)
			sdr_send_to_core(r, sdr_send_op(r, r->send_start));
	}
	sp_rel_release(&r->sender, op->message);
	op->phase = SDR_OP_ENDING;
	op->result = result;
	r->sent += !result;
	r->sent_failed += result != 0;
}

/* Until the NIC has given the buffer back. */
static void sdr_send_end(struct sdr_reliable_op *op)
{
	if (!op->ended)
		op->ended = sdr_send_stream_end(op->send) == 0;
	if (op->ended && sdr_send_poll(op->send) == 0)
		op->phase = SDR_OP_OVER;
}

static void sdr_send_look(struct sdr_reliable *r, struct sdr_reliable_op *op)
{
	if (op->phase == SDR_OP_WAITS || op->phase == SDR_OP_OPEN) {
		const int late = sdr_reliable_expired(op, r->timeout);

		if (op->phase == SDR_OP_OPEN && sp_rel_state(&r->sender, op->message) == SP_REL_DONE)
			sdr_send_decide(r, op, 0);
		else if (late)
			sdr_send_decide(r, op, late);
	}
	if (op->phase == SDR_OP_ENDING)
		sdr_send_end(op);
}

/* ---- what goes next ------------------------------------------------------------------------------------------------
 */
/* A unit into the NIC's hands. */
static int sdr_send_unit(struct sdr_reliable *r, const struct sp_rel_next *next, uint64_t *bits)
{
	struct sdr_reliable_op *op = sdr_send_op(r, next->message);
	const uint64_t at = next->unit * r->chunk_bytes, left = op->length - at;
	const uint64_t len = left < r->chunk_bytes ? left : r->chunk_bytes, packets = len ? (len - 1) / r->mtu + 1 : 1;

	*bits = len * 8 + packets * r->packet_bits;
	return sdr_send_stream_continue(op->send, op->mr, op->offset + at, len, at);
}

static void sdr_send_pump(struct sdr_reliable *r, uint64_t queued)
{
	struct sp_rel_next next;
	uint64_t bits = 0;
	int rc;

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
		if (rc) { /* the message's memory, or the QP: that tells its status */
			r->refusal = true;
			if (next.what == SP_REL_ASK)
				return;
			sdr_send_decide(r, sdr_send_op(r, next.message), rc);
			continue;
		}
		queued += next.what != SP_REL_ASK;
		sp_rel_sent(&r->sender, &next, bits, r->now);
	}
}

void sdr_reliable_send_progress(struct sdr_reliable *r, const struct sdr_qp_status *status)
{
	for (uint64_t k = r->send_first; k < r->send_next; k++)
		if (!sdr_reliable_past(sdr_send_op(r, k), k))
			sdr_send_look(r, sdr_send_op(r, k));
	while (r->send_first < r->send_next && sdr_reliable_past(sdr_send_op(r, r->send_first), r->send_first))
		r->send_first++;
	r->refusal = false;
	while (r->send_start < r->send_next && r->send_start < status->may_send)
		sdr_send_to_core(r, sdr_send_op(r, r->send_start));
	sdr_send_pump(r, status->queued);
}

sp_time sdr_reliable_send_deadline(const struct sdr_reliable *r)
{
	sp_time next = r->refusal ? r->now : r->blocked ? SP_NEVER : sp_rel_deadline(&r->sender);

	for (uint64_t k = r->send_first; k < r->send_next; k++) {
		const struct sdr_reliable_op *op = sdr_send_op(r, k);

		if (op->message == k &&
		    (op->phase == SDR_OP_WAITS || op->phase == SDR_OP_OPEN)) /* all have the same time */
			return op->deadline < next ? op->deadline : next;
	}
	return next;
}
