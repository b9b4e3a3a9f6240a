/* SPDX-License-Identifier: BSD-3-Clause */
/* Reliable messages over SDR: receiving, and acknowledging. */
#include "reliable_private.h"

#define SDR_RELIABLE_ANSWERS 8 /* datagrams per answer: bits of 60000 units */

int sdr_reliable_recv(struct sdr_reliable *r, struct sp_mr *mr, uint64_t offset, uint64_t len,
		      struct sdr_reliable_op **out)
{
	struct sdr_reliable_op op = {.phase = SDR_OP_OPEN, .offset = offset, .length = len, .mr = mr};
	int rc = sdr_reliable_ready(r, &r->recv);

	rc = rc || !r->ec.pairs ? rc : sdr_ec_post(r);
	rc = rc ? rc : sdr_recv_post(r->qp, mr, offset, len, &op.recv);
	if (rc)
		return rc;
	*out = sdr_reliable_begin(r, &r->recv, &op);
	if (r->ec.pairs)
		sdr_ec_post(r); /* what is not posted now is posted with later progress */
	return 0;
}

uint32_t sdr_reliable_recv_done(const struct sdr_reliable_op *op, const uint64_t **bitmap)
{
	struct sdr_recv_status status;
	const uint64_t *words;
	uint64_t chunks;
	uint32_t done = 0;

	if (sdr_recv_status(op->recv, &status) || !status.open || sdr_recv_bitmap_get(op->recv, &words, &chunks))
		return 0;
	for (uint64_t i = 0; i < chunks; i += 64)
		done += (uint32_t)__builtin_popcountll(__atomic_load_n(&words[i / 64], __ATOMIC_ACQUIRE));
	*bitmap = words;
	return done;
}

/* ---- which messages have come ---- */
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

/* Message k has arrived. Its sender has as many slots as we have, so it is done with the message that had this slot
 * before. */
static void sdr_recv_heard(struct sdr_reliable *r, uint64_t k)
{
	if (k < r->base + r->slots)
		return;
	if (r->receiver.begin < k + 1 - r->slots)
		r->receiver.begin = k + 1 - r->slots;
	sdr_recv_forward(r);
}

/* The sender must hear of message k. */
static void sdr_recv_news(struct sdr_reliable *r, uint64_t k)
{
	r->news = r->tell && r->news < k ? r->news : k;
	r->news_end = r->tell && r->news_end > k + 1 ? r->news_end : k + 1;
	r->tell = true;
}

static void sdr_recv_whole(struct sdr_reliable *r, struct sdr_reliable_op *op, const struct sdr_recv_status *status)
{
	sdr_recv_heard(r, op->message);
	sdr_recv_imm_get(op->recv, &op->immediate, &op->mask);
	op->length = status->length;
	if (op->message >= r->base)
		r->come[op->message % r->slots] = sdr_reliable_units(r, op->length);
	sdr_recv_news(r, op->message);
	sdr_reliable_decide(&r->recv, op, 0);
}

static void sdr_recv_refuse(struct sdr_reliable *r, struct sdr_reliable_op *op, int error)
{
	if (op->message >= r->base)
		sdr_recv_news(r, op->message);
	sdr_reliable_decide(&r->recv, op, error);
}

/* Whether it has ended. */
static bool sdr_recv_look(struct sdr_reliable *r, struct sdr_reliable_op *op)
{
	struct sdr_recv_status status;

	sdr_recv_status(op->recv, &status);
	if (!status.complete)
		return false;
	if (status.length_known)
		sdr_recv_whole(r, op, &status);
	else /* all that was posted has arrived, but not the end of the message */
		sdr_recv_refuse(r, op, -EMSGSIZE);
	return true;
}

static void sdr_recv_give_up(struct sdr_reliable *r, struct sdr_reliable_op *op, int error)
{
	if (!sdr_recv_look(r, op))
		sdr_recv_refuse(r, op, error);
}

/* The NIC has completed more receives: find them. The NIC may count one that was abandoned here, or one that is found
 * only later. Each look finds all that are complete, so the exact number does not matter. */
static void sdr_recv_find(struct sdr_reliable *r, uint64_t completed)
{
	struct sdr_reliable_op *after;

	for (struct sdr_reliable_op *op = r->recv.live.first; op && r->recv.seen < completed; op = after) {
		after = op->after;
		r->recv.seen += sdr_recv_look(r, op);
	}
	r->recv.seen = completed;
}

/* ---- acknowledgements ---- */
/* Adds the bitmap of one message. Units beyond the sender's length are not acknowledged: no bit of theirs is ever set.
 * Nor is a partial last unit before the length is known: the message may have more bytes than were posted. */
static bool sdr_recv_tell_one(struct sdr_reliable *r, struct sp_rel_ack_maker *maker, uint64_t k, bool asked)
{
	struct sdr_reliable_op *op = sdr_reliable_op_of(r, &r->recv, k);
	struct sdr_recv_status status;
	const uint64_t *bitmap;
	uint32_t mending = UINT32_MAX;
	bool fits;
	uint64_t chunks;

	if (r->come[k % r->slots])
		return sp_rel_ack_add(maker, k, NULL, r->come[k % r->slots]);
	if (op->phase != SDR_OP_OPEN || op->message != k)
		return sp_rel_ack_refuse(maker, k, 0);
	/* The bitmap is this message's only while it is open. */
	if (sdr_recv_status(op->recv, &status) || !status.open || (!status.packets && !r->ec.pairs) ||
	    sdr_recv_bitmap_get(op->recv, &bitmap, &chunks))
		return true;
	if (!status.length_known)
		chunks = op->length / r->chunk_bytes;
	if (r->ec.pairs && asked)
		mending = sdr_ec_mending(r, op, bitmap, sdr_reliable_units(r, status.length),
					 k == maker->from_message ? maker->from_unit : 0);
	fits = sp_rel_ack_add(maker, k, bitmap, (uint32_t)chunks);
	if (mending == UINT32_MAX)
		return fits;
	return sp_rel_ack_stop(maker, k, mending);
}

/* Sends up to SDR_RELIABLE_ANSWERS datagrams. The sender asks again for the rest. */
static void sdr_recv_tell(struct sdr_reliable *r, const struct sp_rel_asked *asked)
{
	uint8_t bytes[SDR_CONTROL_BYTES];
	struct sp_rel_ack_maker maker;
	struct sp_rel_asked part = asked ? *asked : (struct sp_rel_asked){.from_message = r->news};
	const uint64_t posted = r->recv.next < r->base + r->slots ? r->recv.next : r->base + r->slots;
	const uint64_t begun = r->tell && r->news_end > r->receiver.end ? r->news_end : r->receiver.end;
	const uint64_t end = posted < begun ? posted : begun;

	for (unsigned n = 0; n < SDR_RELIABLE_ANSWERS; n++) {
		uint64_t k = part.from_message > r->base ? part.from_message : r->base;
		size_t len;

		sp_rel_ack_begin(&maker, bytes, r->datagram_bytes, asked ? &part : NULL, r->base);
		maker.repaired = (uint32_t)r->ec.repaired;
		maker.repaired_runs = (uint32_t)r->ec.repaired_runs;
		while (k < end && sdr_recv_tell_one(r, &maker, k, asked))
			k++;
		len = sp_rel_ack_end(&maker);
		/* One that cannot be sent counts as lost. */
		if (sdr_control_send(r->qp, bytes, (uint32_t)len))
			return;
		r->answers++;
		if (!asked || !maker.cut || maker.stopped)
			return;
		part.from_message = maker.to_message;
		part.from_unit = maker.to_unit;
	}
}

void sdr_reliable_recv_progress(struct sdr_reliable *r, const struct sdr_qp_status *status)
{
	struct sdr_reliable_op *after;

	r->ec.repaired = status->repaired;
	r->ec.repaired_runs = status->repaired_runs;
	if (r->ec.pairs)
		sdr_ec_post(r);
	sdr_recv_forward(r);
	sdr_recv_find(r, status->completed);
	while (r->recv.live.first && r->recv.live.first->message < r->receiver.begin)
		sdr_recv_give_up(r, r->recv.live.first, -ECANCELED);
	sdr_reliable_expire(r, &r->recv, sdr_recv_give_up);
	for (struct sdr_reliable_op *op = r->recv.ending.first; op; op = after) {
		after = op->after;
		if (r->ec.pairs ? sdr_ec_recv_over(r, op) : sdr_recv_complete(op->recv) == 0)
			sdr_reliable_over(&r->recv, op);
	}
	sdr_recv_forward(r);
	if (r->asked || r->tell)
		sdr_recv_tell(r, r->asked ? &r->question : NULL);
	r->asked = r->tell = false;
}
