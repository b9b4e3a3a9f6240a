/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A message goes through rounds. Each round sends what is missing (PIECES). When that has left, there is a pause
 * (WAITING), and then the sender asks, with the number of the round. The answer begins the next round.
 *
 * Datagrams may be lost: the sender asks again. They may be repeated, overtaken, or late from an earlier round or
 * message: an answer names message and round, and counts once and only for these. Answering changes nothing at the
 * receiver. Anything that is not a valid answer is dropped.
 */
#include "repeat.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>

#define MAGIC	  0x52505431u /* "RPT1" */
#define HEAD	  24u	      /* bytes of a datagram before its bitmap */
#define WAIT_MOST 64u	      /* the longest wait for an answer, in pauses */

/* ASK: what has arrived? SOME: the chunks in the bitmap. WHOLE: all. GONE: the receive has ended and was not
 * complete. */
enum word { ASK = 1, SOME, WHOLE, GONE };

struct datagram { /* big-endian; in the bitmap, chunk i is bit i % 8 of byte i / 8 */
	uint32_t magic, word;
	uint64_t message;
	uint32_t round, chunks; /* chunks: bits in the bitmap */
	uint64_t bitmap[(SDR_CONTROL_BYTES - HEAD) / 8];
};
_Static_assert(sizeof(struct datagram) == SDR_CONTROL_BYTES, "on the wire");

enum phase { FREE, PIECES, WAITING, POSTED, ENDING };

struct repeat_op {
	struct repeat *r;
	enum phase phase;
	int result;
	uint64_t message, offset, len;
	sp_time until, due; /* due: the next question */
	struct sp_mr *mr;
	struct sdr_send *send;
	struct sdr_recv *recv;
	uint32_t chunks, next, round;		       /* next: the first chunk that this round has not handled */
	sp_time wait;				       /* for the answer */
	bool ended;				       /* sdr_send_stream_end has been called */
	uint64_t have[(SDR_CONTROL_BYTES - HEAD) / 8]; /* by the latest answer */
};

struct repeat {
	struct sdr_qp *qp;
	struct sdr_qp_info info;
	sp_time pause, now, wake;
	int error;
	uint64_t sends, recvs, chunks; /* started, posted so far; sent so far */
	struct repeat_op *send, *recv; /* message k is at k % max_messages */
	uint64_t *whole;	       /* by place in recv: the latest one that was complete, + 1 */
};

int repeat_open(struct sdr_qp *qp, sp_time pause, struct repeat **out)
{
	struct sdr_qp_status status;
	struct repeat *r;
	int rc = sdr_qp_status(qp, &status);

	if (rc || status.error)
		return rc ? rc : status.error;
	if (pause > 10 * SP_SEC)
		return -EINVAL;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->qp = qp;
	r->pause = pause ? pause : SP_MS;
	rc = sdr_qp_info_get(qp, &r->info);
	if (!rc && (status.control_bytes <= HEAD ||
		    (r->info.max_message_bytes - 1) / r->info.chunk_bytes >= (status.control_bytes - HEAD) / 8 * 64))
		rc = -EOPNOTSUPP;
	r->send = calloc(r->info.max_messages, sizeof(*r->send));
	r->recv = calloc(r->info.max_messages, sizeof(*r->recv));
	r->whole = calloc(r->info.max_messages, sizeof(*r->whole));
	if (!rc && (!r->send || !r->recv || !r->whole))
		rc = -ENOMEM;
	if (rc) {
		repeat_close(r);
		return rc;
	}
	*out = r;
	return 0;
}

void repeat_close(struct repeat *r)
{
	free(r->send);
	free(r->recv);
	free(r->whole);
	free(r);
}

int repeat_send(struct repeat *r, struct sp_mr *mr, uint64_t offset, uint64_t len, uint32_t immediate, sp_time until,
		struct repeat_op **out)
{
	struct repeat_op *op = &r->send[r->sends % r->info.max_messages];
	struct sdr_send *send;
	int rc;

	if (op->phase != FREE)
		return -EAGAIN;
	if (len && (!mr || offset > mr->len || len > mr->len - offset))
		return -EFAULT;
	rc = sdr_send_stream_start(r->qp, len, immediate, &send);
	if (rc)
		return rc;
	*op = (struct repeat_op){.r = r,
				 .phase = PIECES,
				 .message = r->sends++,
				 .offset = offset,
				 .len = len,
				 .until = until,
				 .mr = mr,
				 .send = send,
				 .chunks = len ? (uint32_t)((len - 1) / r->info.chunk_bytes + 1) : 1};
	r->wake = 0;
	*out = op;
	return 0;
}

int repeat_recv(struct repeat *r, struct sp_mr *mr, uint64_t offset, uint64_t len, sp_time until,
		struct repeat_op **out)
{
	struct repeat_op *op = &r->recv[r->recvs % r->info.max_messages];
	struct sdr_recv *recv;
	int rc;

	if (op->phase != FREE)
		return -EAGAIN;
	rc = sdr_recv_post(r->qp, mr, offset, len, &recv);
	if (rc)
		return rc;
	*op = (struct repeat_op){
		.r = r, .phase = POSTED, .message = r->recvs++, .len = len, .until = until, .recv = recv};
	r->wake = 0;
	*out = op;
	return 0;
}

static void end(struct repeat_op *op, int result)
{
	op->phase = ENDING;
	op->result = result;
}

/* ---- the sending side ---- */
static void pieces(struct repeat_op *op)
{
	struct repeat *r = op->r;
	int rc;

	for (; op->next < op->chunks; op->next++) {
		const uint64_t at = (uint64_t)op->next * r->info.chunk_bytes, left = op->len - at;
		const uint64_t len = left < r->info.chunk_bytes ? left : r->info.chunk_bytes;

		if (op->have[op->next / 64] >> (op->next % 64) & 1)
			continue;
		rc = sdr_send_stream_continue(op->send, op->mr, op->offset + at, len, at);
		if (rc == -EAGAIN) /* continues when the NIC has sent some */
			return;
		if (rc) {
			end(op, rc);
			return;
		}
		r->chunks++;
	}
	if (sdr_send_poll(op->send) == 0) { /* all have left */
		op->phase = WAITING;
		op->round++;
		op->wait = r->pause;
		op->due = r->now + r->pause;
	}
}

static void ask(struct repeat_op *op)
{
	const struct datagram d = {.magic = htobe32(MAGIC),
				   .word = htobe32(ASK),
				   .message = htobe64(op->message),
				   .round = htobe32(op->round)};

	(void)sdr_control_send(op->r->qp, &d, HEAD); /* one that cannot be sent counts as lost */
	op->due = op->r->now + op->wait;
	if (op->wait < WAIT_MOST * op->r->pause)
		op->wait *= 2;
}

static void answered(struct repeat *r, const struct datagram *d, uint32_t len)
{
	struct repeat_op *op = &r->send[be64toh(d->message) % r->info.max_messages];
	const uint32_t chunks = be32toh(d->chunks);

	if (op->phase != WAITING || op->message != be64toh(d->message) || op->round != be32toh(d->round))
		return;
	if (be32toh(d->word) == WHOLE)
		end(op, 0);
	else if (be32toh(d->word) == GONE)
		end(op, -ECANCELED);
	else if (be32toh(d->word) == SOME && chunks && len == HEAD + ((uint64_t)chunks + 63) / 64 * 8) {
		for (uint32_t i = 0; i < (len - HEAD) / 8; i++)
			op->have[i] = le64toh(d->bitmap[i]);
		op->phase = PIECES;
		op->next = 0;
	}
}

static void send_step(struct repeat_op *op, uint64_t may_send)
{
	if ((op->phase == PIECES || op->phase == WAITING) && op->r->now >= op->until)
		end(op, -ETIMEDOUT);
	/* Pieces of messages that are not cleared would fill the queue that earlier messages need for
	 * retransmissions. */
	if (op->phase == PIECES && op->message < may_send)
		pieces(op);
	if (op->phase == WAITING && op->r->now >= op->due)
		ask(op);
	if (op->phase == ENDING && !op->ended)
		op->ended = sdr_send_stream_end(op->send) == 0;
}

/* ---- the receiving side ---- */
static void answer(struct repeat *r, struct datagram *d)
{
	const uint64_t k = be64toh(d->message);
	const struct repeat_op *op = &r->recv[k % r->info.max_messages];
	struct sdr_recv_status status;
	const uint64_t *bitmap;
	uint64_t chunks;
	uint32_t words = 0;

	d->chunks = 0;
	if (k >= r->recvs)
		return;
	if (r->whole[k % r->info.max_messages] == k + 1)
		d->word = htobe32(WHOLE);
	else if (op->message != k || op->phase != POSTED)
		d->word = htobe32(GONE);
	else { /* before it is open, the bitmap belongs to an earlier message */
		if (sdr_recv_status(op->recv, &status) || !status.open ||
		    sdr_recv_bitmap_get(op->recv, &bitmap, &chunks) || !chunks)
			return;
		d->word = htobe32(SOME);
		d->chunks = htobe32((uint32_t)chunks);
		for (words = 0; words < (chunks + 63) / 64; words++)
			d->bitmap[words] = htole64(__atomic_load_n(&bitmap[words], __ATOMIC_ACQUIRE));
	}
	(void)sdr_control_send(r->qp, d, HEAD + words * 8);
}

static void recv_step(struct repeat_op *op)
{
	struct sdr_recv_status status;

	if (op->phase != POSTED || sdr_recv_status(op->recv, &status))
		return;
	if (status.complete && status.length_known) {
		op->len = status.length;
		op->r->whole[op->message % op->r->info.max_messages] = op->message + 1;
		end(op, 0);
	} else if (status.complete) { /* all that was posted has arrived, but not the end */
		end(op, -EMSGSIZE);
	} else if (op->r->now >= op->until) {
		end(op, -ETIMEDOUT);
	}
}

/* ---- both ---- */
int repeat_poll(struct repeat_op *op, uint64_t *len)
{
	int rc = op->r->error;

	if (!rc && op->phase != ENDING)
		return -EAGAIN;
	/* The NIC must have released the buffer. */
	if (!rc)
		rc = op->recv ? sdr_recv_complete(op->recv) : op->ended ? sdr_send_poll(op->send) : -EAGAIN;
	if (rc == -EAGAIN)
		return rc;
	if (len)
		*len = op->len;
	op->phase = FREE;
	return rc ? rc : op->result;
}

int repeat_progress(struct repeat *r, sp_time now)
{
	struct sdr_qp_status status;
	struct datagram d;
	int len;

	r->now = now;
	sdr_qp_status(r->qp, &status);
	if (status.error || status.peer_restarted) /* the peer has lost this connection */
		r->error = status.error ? status.error : -ECONNABORTED;
	if (r->error)
		return r->error;
	for (uint32_t i = 0; i < r->info.max_messages; i++)
		recv_step(&r->recv[i]);
	while ((len = sdr_control_recv(r->qp, &d, sizeof(d))) >= 0) {
		if (len < (int)HEAD || be32toh(d.magic) != MAGIC)
			continue;
		if (be32toh(d.word) == ASK)
			answer(r, &d);
		else
			answered(r, &d, (uint32_t)len);
	}
	r->wake = SP_NEVER;
	for (uint64_t k = r->sends > r->info.max_messages ? r->sends - r->info.max_messages : 0; k < r->sends; k++)
		send_step(&r->send[k % r->info.max_messages], status.may_send); /* the oldest first */
	for (uint32_t i = 0; i < r->info.max_messages; i++) {
		const struct repeat_op *out = &r->send[i], *in = &r->recv[i];

		if (out->phase == WAITING && out->due < r->wake)
			r->wake = out->due;
		if ((out->phase == PIECES || out->phase == WAITING) && out->until < r->wake)
			r->wake = out->until;
		if (in->phase == POSTED && in->until < r->wake)
			r->wake = in->until;
	}
	return 0;
}

sp_time repeat_deadline(const struct repeat *r)
{
	return r->wake;
}

uint64_t repeat_chunks(const struct repeat *r)
{
	return r->chunks;
}
