/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reliable messages over SDR with erasure coding: the core's message j is the SDR messages 2j, the data, and 2j + 1,
 * the parity, which is empty where the sender sends none. The NIC repairs what it can, and repaired chunks count as
 * arrived at both ends. This file makes sure that nothing counts as lost that may still be repaired: for the core, data
 * are in flight until their parity has left, and the peer is not told that a unit is missing while the NIC repairs it.
 * What is missing after that is retransmitted as usual.
 */
#include <stdlib.h>

#include "reliable_private.h"
#include "sdr_private.h"

/* How long a possible repair may take. After that, its units count as missing: the NIC may be waiting for a length that
 * it will never learn. */
#define SDR_EC_PATIENCE (2 * SP_MS)

int sdr_ec_open(struct sdr_reliable *r, enum sdr_reliable_scheme scheme)
{
	struct sdr_qp *qp = r->qp;
	const struct sdr_qp_info *info = &qp->info;
	struct sdr_reliable_ec *ec = &r->ec;
	uint64_t bytes;
	int rc = 0;

	ec->pairs = info->ec_code != SDR_CODE_NONE;
	ec->codes = scheme == SDR_EC_MDS || scheme == SDR_EC_XOR || scheme == SDR_AUTO;
	if ((scheme == SDR_EC_MDS && info->ec_code != SDR_CODE_MDS) ||
	    (scheme == SDR_EC_XOR && info->ec_code != SDR_CODE_XOR) || (scheme == SDR_AUTO && !ec->pairs))
		return -EINVAL;
	if (!ec->pairs)
		return 0;
	ec->chooses = scheme == SDR_AUTO;
	r->slots = info->max_messages / 2;
	bytes = sdr_ec_parity_bytes(qp, info->max_message_bytes);
	ec->stride = bytes < info->max_message_bytes ? bytes : info->max_message_bytes;
	/* They belong to the QP: packets may be in flight until it is destroyed. */
	if (ec->codes && !qp->no_send && !qp->parity_out)
		rc = sdr_mr_alloc(qp->context, r->slots * ec->stride, &qp->parity_out);
	if (!rc && !qp->no_recv && !qp->parity_in)
		rc = sdr_mr_alloc(qp->context, r->slots * ec->stride, &qp->parity_in);
	return rc;
}

/* ---- sending ---- */
int sdr_ec_may_send(const struct sdr_reliable *r, uint64_t len)
{
	if (r->qp->no_send)
		return -EOPNOTSUPP;
	if (len > r->qp->info.max_message_bytes)
		return -EINVAL;
	if (!r->qp->connected)
		return -ENOTCONN;
	return r->send.next - r->ec.left < r->slots ? 0 : -EAGAIN;
}

/* Decided once for each message. */
static bool sdr_ec_wants_parity(struct sdr_reliable *r, struct sdr_reliable_op *op)
{
	if (!op->judged) {
		op->plain = !r->ec.codes || !op->length ||
			    (r->ec.chooses && !sdr_auto_wants_parity(r, op->length, &op->code)) ||
			    sdr_ec_parity_bytes_of(r->qp, op->code, op->length) > r->ec.stride;
	}
	op->judged = true;
	return !op->plain;
}

static int sdr_ec_send_parity(struct sdr_reliable *r, struct sdr_reliable_op *op)
{
	const uint64_t slot = op->message % r->slots;
	int rc = sdr_send_parity_of(r->qp, op->code, op->mr, op->offset, op->length, r->qp->parity_out,
				    slot * r->ec.stride, &op->parity_send);

	if (rc)
		return rc;
	op->coded = true;
	r->ec.under_way++;
	r->ec.coded++;
	r->ec.coded_of[op->code]++;
	r->ec.units += sdr_ec_parity_bytes_of(r->qp, op->code, op->length) / r->chunk_bytes;
	return 0;
}

bool sdr_ec_start(struct sdr_reliable *r, struct sdr_reliable_op *op)
{
	op->skipped = op->phase != SDR_OP_WAITS;
	if (!sdr_ec_begun(r) ||
	    (!op->send && sdr_send_stream_start(r->qp, op->skipped ? 0 : op->length, op->immediate, &op->send)))
		return false;
	r->ec.broken |= sdr_send_message(op->send) != 2 * op->message; /* another caller has sent */
	if (op->skipped && !op->ended)
		op->ended = sdr_send_stream_end(op->send) == 0;
	return op->ended || !op->skipped;
}

/* Whether the NIC may have it. The NIC sends parity behind the data, which must leave room for it there. And it never
 * releases parity that is not cleared for sending. */
static bool sdr_ec_has_room(const struct sdr_reliable *r, const struct sdr_reliable_op *op)
{
	const struct sp_rel_message *m = &r->sender.message[op->message & (r->sender.config.messages - 1)];

	return 2 * op->message + 1 < r->ec.may_send &&
	       (2 * (r->ec.under_way + 1) <= r->qp->segments || m->next == m->units);
}

/* Begins the parity of a message; an empty one if the message has ended already. */
static bool sdr_ec_begin(struct sdr_reliable *r, struct sdr_reliable_op *op)
{
	int rc = -EINVAL;

	if (!op->parity_send && op->phase == SDR_OP_OPEN && sdr_ec_wants_parity(r, op)) {
		if (!sdr_ec_has_room(r, op))
			return false;
		rc = sdr_ec_send_parity(r, op);
	}
	/* The message's memory may be bad; its data will tell. */
	if (!op->parity_send && rc != -EAGAIN)
		rc = sdr_send_stream_start(r->qp, 0, 0, &op->parity_send);
	if (!op->parity_send || (!op->coded && sdr_send_stream_end(op->parity_send)))
		return false;
	if (op->coded)
		sp_rel_hold(&r->sender, op->message, SP_NEVER);
	return true;
}

bool sdr_ec_begun(struct sdr_reliable *r)
{
	struct sdr_reliable_ec *ec = &r->ec;

	while (ec->begun < r->send_start && sdr_ec_begin(r, sdr_reliable_op_of(r, &r->send, ec->begun)))
		ec->begun++;
	return ec->begun == r->send_start;
}

bool sdr_ec_left(struct sdr_reliable *r)
{
	struct sdr_reliable_ec *ec = &r->ec;
	const uint64_t before = ec->left;

	/* In order, as they leave. */
	for (; ec->left < ec->begun; ec->left++) {
		struct sdr_reliable_op *op = sdr_reliable_op_of(r, &r->send, ec->left);

		if (op->skipped && op->send && sdr_send_poll(op->send))
			break;
		op->send = op->skipped ? NULL : op->send;
		if (sdr_send_poll(op->parity_send))
			break;
		op->parity_send = NULL;
		if (!op->coded)
			continue;
		ec->under_way--;
		sp_rel_hold(&r->sender, op->message, r->now);
	}
	return ec->left != before;
}

void sdr_ec_sent_again(struct sdr_reliable *r, struct sdr_reliable_op *op, uint32_t unit)
{
	r->ec.fallbacks += op->coded && !op->again;
	op->runs += !op->again++ || unit != op->latest + 1;
	op->latest = unit;
}

/* ---- receiving ---- */
int sdr_ec_post(struct sdr_reliable *r)
{
	struct sdr_reliable_ec *ec = &r->ec;

	for (; ec->posted < r->recv.next; ec->posted++) {
		struct sdr_reliable_op *op = sdr_reliable_op_of(r, &r->recv, ec->posted);
		const uint64_t bytes = sdr_ec_parity_bytes(r->qp, op->length);
		const int rc = sdr_recv_post(r->qp, r->qp->parity_in, ec->posted % r->slots * ec->stride,
					     bytes < ec->stride ? bytes : ec->stride, &op->parity_recv);

		if (rc)
			return rc;
	}
	return 0;
}

bool sdr_ec_recv_over(struct sdr_reliable *r, struct sdr_reliable_op *op)
{
	if (op->recv && sdr_recv_complete(op->recv) == 0)
		op->recv = NULL;
	if (op->message >= r->ec.posted)
		return false;
	if (op->parity_recv && sdr_recv_complete(op->parity_recv) == 0)
		op->parity_recv = NULL;
	return !op->recv && !op->parity_recv;
}

static bool sdr_ec_has(const uint64_t *bitmap, uint64_t chunk)
{
	return bitmap && sdr_recv_chunk(bitmap, chunk);
}

/* The bitmap of the parity received so far, and its code; NULL: none, or the code is not known yet. */
static const uint64_t *sdr_ec_parity(const struct sdr_reliable_op *op, uint64_t *chunks,
				     const struct sp_ec_shape **code)
{
	const struct sdr_qp *qp = op->reliable->qp;
	const struct sdr_qp_info *info = &qp->info;
	struct sdr_recv_status status, data;
	uint32_t immediate, mask, possible;
	const uint64_t *bitmap;

	if (!op->parity_recv || sdr_recv_status(op->parity_recv, &status) || !status.open || !status.packets ||
	    sdr_recv_status(op->recv, &data) || sdr_recv_bitmap_get(op->parity_recv, &bitmap, chunks))
		return NULL;
	sdr_recv_imm_get(op->parity_recv, &immediate, &mask);
	possible = sp_ec_possible(sp_ec_immediate(sdr_ec_kind(info), info->ec_k, info->ec_m, data.length), immediate,
				  mask, qp->codes);
	if (!possible || possible & (possible - 1) || (!data.length_known && mask != UINT32_MAX))
		return NULL;
	*code = &qp->code[__builtin_ctz(possible)];
	return bitmap;
}

/* Whether the missing chunks of data [at, end) can be repaired with the parity from `row` on. Adds the chunks that have
 * arrived to *come. */
static bool sdr_ec_repairable(bool xor, const struct sp_ec_shape *code, const uint64_t *data, uint64_t at, uint64_t end,
			      const uint64_t *parity, uint64_t row, uint64_t *come)
{
	const uint64_t rows = sp_ec_units((end - at) * code->m, code->k);
	uint64_t missing = 0, have = 0;
	uint8_t lost[SP_EC_CHUNKS_MAX] = {0};
	bool each = true;

	for (uint64_t i = at; i < end; i++)
		if (!sdr_ec_has(data, i)) {
			const uint64_t group = (i - at) % rows;

			missing++;
			each = each && !lost[group]++ && sdr_ec_has(parity, row + group);
		}
	*come += end - at - missing;
	for (uint64_t i = 0; i < rows; i++)
		have += sdr_ec_has(parity, row + i);
	return missing && (xor? each : missing <= have);
}

uint32_t sdr_ec_mending(struct sdr_reliable *r, struct sdr_reliable_op *op, const uint64_t *data, uint64_t chunks,
			uint64_t from)
{
	const bool xor = r->qp->info.ec_code == SDR_CODE_XOR;
	uint64_t rows = 0, come = 0, first = UINT64_MAX;
	const struct sp_ec_shape *code;
	const uint64_t *parity = sdr_ec_parity(op, &rows, &code);

	if (!parity)
		return UINT32_MAX;
	for (uint64_t at = 0, row = 0; at < chunks && row < rows; at += code->k, row += code->m) {
		const uint64_t end = chunks - at < code->k ? chunks : at + code->k;

		if (row + sp_ec_units((end - at) * code->m, code->k) > rows)
			break;
		if (!sdr_ec_repairable(xor, code, data, at, end, parity, row, &come) || end <= from ||
		    first != UINT64_MAX)
			continue;
		for (first = at > from ? at : from; first < end && sdr_ec_has(data, first); first++)
			;
		first = first < end ? first : UINT64_MAX;
	}
	if (first == UINT64_MAX)
		return UINT32_MAX;
	if (come != op->come || !op->waits) { /* repairs make progress */
		op->come = come;
		op->waits = true;
		op->since = r->now;
	}
	return r->now - op->since < SDR_EC_PATIENCE ? (uint32_t)first : UINT32_MAX;
}
