/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages are read into registered memory in order, and sent. A buffer is used again when the receiver has its
 * message. */
#include "out.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "digest.h"
#include "show.h"
#include "words.h"

enum out_state { OUT_FREE, OUT_READING, OUT_READY, OUT_SENT };

struct out_slot {
	enum out_state state;
	struct sdr_reliable_op *op;
	uint64_t message, len, read;
	uint64_t acked;	 /* bytes */
	uint64_t hashed; /* when so many bytes of all are, its bytes may be overwritten */
};

struct out {
	struct transfer *t;
	int fd;
	uint64_t next_read; /* the message being read, or to be read next */
	uint64_t completed; /* the receiver has all messages below */
	uint64_t hashing;   /* bytes given to the hasher */
	bool behind;	    /* the hasher is, and does not tell either */
	bool full;	    /* the library refused a message: it does not tell when it has room */
	sp_time news;	    /* of the last progress: data was acknowledged, or read */
	uint64_t answers;   /* acknowledgements, and messages that the receiver has cleared to send */
	sp_time answered;   /* of the last answer, or when none was due */
	struct out_slot slot[TALK_WINDOW];
};

/* Reads and digests a slice of the file. */
static int out_read(struct out *o, struct out_slot *s)
{
	struct transfer *t = o->t;
	uint8_t *to = (uint8_t *)t->mr->addr + s->message % t->window * t->stride + s->read;
	const uint64_t left = s->len - s->read;
	const ssize_t n = pread(o->fd, to, left < TRANSFER_SLICE ? left : TRANSFER_SLICE,
				(off_t)(transfer_begin(t, s->message) + s->read));

	if (n < 0 && errno == EINTR)
		return 0;
	if (n < 0)
		return transfer_fail(t, "reading the file: %s", strerror(errno));
	if (!n)
		return transfer_fail(t, "the file was shortened while it was read");
	s->read += (uint64_t)n;
	o->hashing += (uint64_t)n;
	s->hashed = o->hashing;
	if (s->read == s->len)
		s->state = OUT_READY;
	return transfer_hash(t, to, (size_t)n);
}

static int out_send(struct out *o, struct out_slot *s)
{
	struct transfer *t = o->t;
	const int rc = sdr_reliable_send(t->reliable, t->mr, s->message % t->window * t->stride, s->len, 0, &s->op);

	o->full |= rc == -EAGAIN;
	if (rc)
		return rc == -EAGAIN ? 0 : transfer_nic_fail(t, "sdr_reliable_send", rc);
	s->state = OUT_SENT;
	o->next_read++;
	return 0;
}

/* Reads one slice at most: acknowledgements must not wait. */
static int out_fill(struct out *o, sp_time now, bool *did)
{
	struct transfer *t = o->t;
	struct out_slot *s = &o->slot[o->next_read % t->window];
	const uint64_t before = o->next_read;
	int rc = 0;

	if (o->next_read == t->messages)
		return 0;
	if ((s->state == OUT_FREE && s->hashed > transfer_hashed(t)) ||
	    (s->state == OUT_READING && !transfer_hash_room(t))) {
		o->behind = true;
		o->news = now;
		return 0;
	}
	if (s->state == OUT_FREE)
		*s = (struct out_slot){
			.state = OUT_READING, .message = o->next_read, .len = transfer_length(t, o->next_read)};
	if (s->state == OUT_READING) {
		*did = true;
		o->news = now;
		rc = out_read(o, s);
	}
	if (!rc && s->state == OUT_READY)
		rc = out_send(o, s);
	*did |= o->next_read != before;
	return rc;
}

static int out_watch(struct out *o, struct out_slot *s, sp_time now, bool *did)
{
	struct transfer *t = o->t;
	struct sdr_reliable_op_status status;
	uint64_t acked;
	int rc = sdr_reliable_poll(s->op);

	if (rc && rc != -EAGAIN)
		return transfer_nic_fail(t, "sending", rc);
	sdr_reliable_op_status(s->op, &status);
	acked = (uint64_t)status.done * t->chunk < s->len ? (uint64_t)status.done * t->chunk : s->len;
	if (acked > s->acked) {
		t->done += acked - s->acked;
		s->acked = acked;
		o->news = now;
	}
	if (rc)
		return 0;
	sdr_reliable_op_free(s->op);
	s->state = OUT_FREE;
	o->completed++;
	*did = true;
	return 0;
}

/* Whether an acknowledgement is due. It is not if all cleared messages have been acknowledged: the receiver may be
 * slow. */
static bool out_waits(const struct out *o, const struct sdr_qp_status *qp)
{
	bool out = false;

	for (uint64_t i = 0; i < o->t->window && !out; i++)
		if (o->slot[i].state == OUT_SENT)
			out = !qp->peer_seen || (o->slot[i].message < qp->may_send / (o->t->coded ? 2 : 1) &&
						 o->slot[i].acked < o->slot[i].len);
	return out;
}

/* Detects a broken path or a NIC that has gone, while the receiver's program still sends "alive". */
static int out_silence(struct out *o, sp_time now)
{
	struct transfer *t = o->t;
	const sp_time limit = t->stall < TALK_SILENCE ? t->stall : TALK_SILENCE;
	struct sdr_reliable_status status;
	struct sdr_qp_status qp;
	uint64_t answers;

	sdr_reliable_status(t->reliable, &status);
	sdr_qp_status(t->qp, &qp);
	answers = status.acks + qp.may_send;
	if (answers != o->answers || !out_waits(o, &qp))
		o->answered = now;
	o->answers = answers;
	if (now > o->answered && now - o->answered > limit)
		return transfer_fail(t, "no answer comes from its NIC for %u s", (unsigned)(limit / SP_SEC));
	if (now > o->news && now - o->news > t->stall)
		return transfer_fail(t, "it makes no progress for %u s", (unsigned)(t->stall / SP_SEC));
	return 0;
}

/* One round of all work. */
static int out_round(struct out *o, bool *did)
{
	struct transfer *t = o->t;
	const sp_time now = sp_clock();
	json_t *line;
	int rc = transfer_listen(t, &line);

	if (rc == 1) {
		json_decref(line);
		return transfer_fail(t, "protocol error: out of turn");
	}
	if (!rc)
		rc = transfer_look(t);
	for (uint64_t i = 0; !rc && i < t->window; i++)
		if (o->slot[i].state == OUT_SENT)
			rc = out_watch(o, &o->slot[i], now, did);
	if (!rc)
		rc = out_fill(o, now, did);
	return rc ? rc : out_silence(o, now);
}

/* Whether the file has not changed since it was opened. */
static int out_unchanged(struct out *o, const struct stat *before)
{
	struct stat now;

	if (fstat(o->fd, &now))
		return transfer_fail(o->t, "the file: %s", strerror(errno));
	if (now.st_size != before->st_size || now.st_mtim.tv_sec != before->st_mtim.tv_sec ||
	    now.st_mtim.tv_nsec != before->st_mtim.tv_nsec)
		return transfer_fail(o->t, "the file changed while it was read");
	return 0;
}

/* Compares the digests: then the file has arrived. */
static int out_finish(struct out *o)
{
	struct transfer *t = o->t;
	uint8_t theirs[TRANSFER_DIGEST];
	json_t *line = NULL;
	int rc = transfer_digest_end(t);

	transfer_counts(t);
	if (!rc)
		rc = transfer_tell(t, json_pack("{s:o, s:I, s:I, s:I, s:I}", "digest",
						talk_hex(t->digest, sizeof(t->digest)), "repeated",
						(json_int_t)t->repeated, "needless", (json_int_t)t->needless, "parity",
						(json_int_t)t->parity, "rtt", (json_int_t)(t->rtt / SP_NS)));
	if (!rc)
		rc = transfer_await(t, SP_NEVER, &line); /* the receiver's disk may be slow */
	if (rc)
		return rc;
	rc = talk_bytes(line, "saved", theirs, sizeof(theirs), sizeof(theirs), NULL);
	rc = rc ? rc : talk_uint(line, "repaired", 0, INT64_MAX, &t->repaired);
	json_decref(line);
	if (rc || memcmp(theirs, t->digest, sizeof(theirs)))
		return transfer_fail(t,
				     rc ? "protocol error: no end" : "it has saved something else: the SHA-256 differ");
	t->ended = sp_clock();
	return 0;
}

int transfer_out(struct transfer *t, int fd, const struct stat *opened)
{
	struct out *o = calloc(1, sizeof(*o));
	int rc = 0;

	if (!o)
		return transfer_fail(t, "out of memory");
	o->t = t;
	o->fd = fd;
	o->news = o->answered = sp_clock();
	while (!rc && o->completed < t->messages) {
		bool did = false;

		o->full = o->behind = false;
		rc = out_round(o, &did);
		transfer_counts(t);
		transfer_progress(t);
		if (!rc && !did)
			rc = transfer_sleep(t, sp_clock() + (o->behind ? TRANSFER_PAUSE : o->full ? SP_MS : SP_SEC));
	}
	if (!rc)
		rc = out_unchanged(o, opened);
	if (!rc)
		rc = out_finish(o);
	free(o);
	return rc;
}
