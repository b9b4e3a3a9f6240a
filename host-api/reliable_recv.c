/* SPDX-License-Identifier: BSD-3-Clause */
/* Reliable messages over SDR: receiving, and telling the sender what has come. */
#include "reliable_private.h"

static struct sdr_reliable_op *sdr_recv_op(const struct sdr_reliable *r, uint64_t k)
{
	return &r->recv[k % r->slots];
}

int sdr_reliable_recv(struct sdr_reliable *r, struct sp_mr *mr, uint64_t offset, uint64_t len,
		      struct sdr_reliable_op **out)
{
	struct sdr_reliable_op *op = sdr_recv_op(r, r->recv_next);
	struct sdr_recv *recv;
	int rc;

	if (r->error)
		return r->error;
	if (op->phase != SDR_OP_FREE)
		return -EAGAIN;
	rc = sdr_recv_post(r->qp, mr, offset, len, &recv);
	if (rc)
		return rc;
	*op = (struct sdr_reliable_op){.reliable = r,
				       .phase = SDR_OP_OPEN,
				       .message = r->recv_next++,
				       .offset = offset,
				       .length = len,
				       .mr = mr,
				       .recv = recv};
	r->wake = 0;
	*out = op;
	return 0;
}

uint32_t sdr_reliable_recv_done(const struct sdr_reliable_op *op)
{
	struct sdr_recv_status status;
	const uint64_t *bitmap;
	uint64_t chunks;
	uint32_t done = 0;

	if (sdr_recv_status(op->recv, &status) || !status.open || sdr_recv_bitmap_get(op->recv, &bitmap, &chunks))
		return 0;
	for (uint64_t i = 0; i < chunks; i += 64)
		done += (uint32_t)__builtin_popcountll(__atomic_load_n(&bitmap[i / 64], __ATOMIC_ACQUIRE));
	return done;
}

/* ---- which messages have come --------------------------------------------------------------------------------------
 */
static void sdr_recv_forward(struct sdr_reliable *r)
{
	const uint64_t begin = r->receiver.begin;

	if (begin > r->base && begin - r->base >= r->slots) {
		for (uint32_t i = 0; i < r->slots; i++)
			r->come[i] = 0;
		r->base = begin;
	}
	while (r->base < begin || r->come[r->base % r->slots])
		r->come[r->base++ % r->slots] = 0;
}

/* Something of message k has come: its sender, who has as many slots as we, is done with those so far before it. */
static void sdr_recv_heard(struct sdr_reliable *r, uint64_t k)
{
	if (k < r->base + r->slots)
		return;
	if (r->receiver.begin < k + 1 - r->slots)
		r->receiver.begin = k + 1 - r->slots;
	sdr_recv_forward(r);
}

static void sdr_recv_whole(struct sdr_reliable *r, struct sdr_reliable_op *op, const struct sdr_recv_status *status)
{
	sdr_recv_imm_get(op->recv, &op->immediate, &op->mask);
	op->length = status->length;
	if (op->message >= r->base)
		r->come[op->message % r->slots] = sdr_reliable_units(r, op->length);
	if (!r->tell || op->message < r->news)
		r->news = op->message;
	r->tell = true;
	r->received++;
	op->phase = SDR_OP_ENDING;
	op->result = 0;
}

static void sdr_recv_give_up(struct sdr_reliable *r, struct sdr_reliable_op *op, int error)
{
	r->received_failed++;
	op->phase = SDR_OP_ENDING;
	op->result = error;
}

static void sdr_recv_look(struct sdr_reliable *r, struct sdr_reliable_op *op)
{
	struct sdr_recv_status status;
	const int late = sdr_reliable_expired(op, r->recv_timeout);

	sdr_recv_status(op->recv, &status);
	if (status.packets)
		sdr_recv_heard(r, op->message);
	if (status.complete && status.length_known)
		sdr_recv_whole(r, op, &status);
	else if (status.complete) /* all that was posted is there, and the end has not come with it */
		sdr_recv_give_up(r, op, -EMSGSIZE);
	else if (late)
		sdr_recv_give_up(r, op, late);
	else if (op->message < r->receiver.begin)
		sdr_recv_give_up(r, op, -ECANCELED);
}

/* ---- acknowledgements ----------------------------------------------------------------------------------------------
 */
/* Units beyond the sender's own are not claimed: no bit of theirs is ever set, whatever was posted. */
static bool sdr_recv_tell_one(struct sdr_reliable *r, struct sp_rel_ack_maker *maker, uint64_t k)
{
	const struct sdr_reliable_op *op = sdr_recv_op(r, k);
	struct sdr_recv_status status;
	const uint64_t *bitmap;
	uint64_t chunks;

	if (r->come[k % r->slots])
		return sp_rel_ack_add(maker, k, NULL, r->come[k % r->slots]);
	if (op->phase != SDR_OP_OPEN || op->message != k)
		return true;
	/* The bitmap is this message's only while it is open. */
	if (sdr_recv_status(op->recv, &status) || !status.open || !status.packets ||
	    sdr_recv_bitmap_get(op->recv, &bitmap, &chunks))
		return true;
	return sp_rel_ack_add(maker, k, bitmap, (uint32_t)chunks);
}

static void sdr_recv_tell(struct sdr_reliable *r, const struct sp_rel_asked *asked)
{
	uint8_t bytes[SDR_CONTROL_BYTES];
	struct sp_rel_ack_maker maker;
	const uint64_t end = r->recv_next < r->base + r->slots ? r->recv_next : r->base + r->slots;
	uint64_t k = asked ? asked->from_message : r->news; /* of the rest it has heard, and there may be no room */
	size_t len;

	k = k > r->base ? k : r->base;
	sp_rel_ack_begin(&maker, bytes, r->datagram_bytes, asked, r->base);
	while (k < end && sdr_recv_tell_one(r, &maker, k))
		k++;
	len = sp_rel_ack_end(&maker);
	/* One that does not go is one that was lost. */
	r->answers += sdr_control_send(r->qp, bytes, (uint32_t)len) == 0;
}

void sdr_reliable_recv_progress(struct sdr_reliable *r)
{
	sdr_recv_forward(r);
	for (uint64_t k = r->recv_first; k < r->recv_next; k++) {
		struct sdr_reliable_op *op = sdr_recv_op(r, k);

		if (sdr_reliable_past(op, k))
			continue;
		if (op->phase == SDR_OP_OPEN)
			sdr_recv_look(r, op);
		if (op->phase == SDR_OP_ENDING && sdr_recv_complete(op->recv) == 0)
			op->phase = SDR_OP_OVER;
	}
	while (r->recv_first < r->recv_next && sdr_reliable_past(sdr_recv_op(r, r->recv_first), r->recv_first))
		r->recv_first++;
	sdr_recv_forward(r);
	if (r->asked || r->tell)
		sdr_recv_tell(r, r->asked ? &r->question : NULL);
	r->asked = r->tell = false;
}

sp_time sdr_reliable_recv_deadline(const struct sdr_reliable *r)
{
	for (uint64_t k = r->recv_first; k < r->recv_next; k++) {
		const struct sdr_reliable_op *op = sdr_recv_op(r, k);

		if (op->message == k && op->phase == SDR_OP_OPEN) /* all have the same time */
			return op->deadline;
	}
	return SP_NEVER;
}
