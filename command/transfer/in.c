/* SPDX-License-Identifier: BSD-3-Clause */
/* A message is written to the file when it is complete, and digested in order; then its buffer is posted again. */
#include "in.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "digest.h"
#include "show.h"
#include "words.h"

enum in_state { IN_FREE, IN_POSTED, IN_COMPLETE };

struct in_slot {
	enum in_state state;
	struct sdr_reliable_op *op;
	uint64_t message, len;
	uint64_t come;		    /* bytes */
	uint64_t written, digested; /* digested: given to the hasher */
	uint64_t hashed;	    /* when so many bytes of all are, its bytes may be overwritten */
};

struct in {
	struct transfer *t;
	struct recv_file *file;
	uint64_t next_post, next_digest;
	uint64_t hashing; /* bytes given to the hasher */
	uint64_t stored;  /* of them noted as written and digested */
	bool behind;	  /* the hasher is, and does not tell when it goes on */
	bool digest_known;
	uint8_t digest[TRANSFER_DIGEST]; /* the sender's */
	sp_time news;			 /* of the last progress: data came, or was written */
	struct in_slot slot[TALK_WINDOW];
};

static uint8_t *in_bytes(const struct in *in, const struct in_slot *s)
{
	return (uint8_t *)in->t->mr->addr + s->message % in->t->window * in->t->stride;
}

static int in_post(struct in *in, bool *did)
{
	struct transfer *t = in->t;

	while (in->next_post < t->messages) {
		const uint64_t k = in->next_post;
		struct in_slot *s = &in->slot[k % t->window];
		int rc;

		if (s->state != IN_FREE)
			return 0;
		if (s->hashed > transfer_hashed(t)) {
			in->behind = true;
			return 0;
		}
		*s = (struct in_slot){.message = k, .len = transfer_length(t, k)};
		rc = sdr_reliable_recv(t->reliable, t->mr, k % t->window * t->stride, s->len, &s->op);
		if (rc)
			return rc == -EAGAIN ? 0 : transfer_nic_fail(t, "sdr_reliable_recv", rc);
		s->state = IN_POSTED;
		in->next_post++;
		*did = true;
	}
	return 0;
}

static int in_watch(struct in *in, struct in_slot *s, sp_time now, bool *did)
{
	struct transfer *t = in->t;
	struct sdr_reliable_op_status status;
	uint64_t come;
	int rc = sdr_reliable_poll(s->op);

	if (rc && rc != -EAGAIN)
		return rc == -EMSGSIZE || rc == -ECANCELED
			       ? transfer_fail(t, "message %llu is not what it said", (unsigned long long)s->message)
			       : transfer_nic_fail(t, "receiving", rc);
	sdr_reliable_op_status(s->op, &status);
	come = (uint64_t)status.done * t->chunk < s->len ? (uint64_t)status.done * t->chunk : s->len;
	if (come > s->come) {
		t->done += come - s->come;
		s->come = come;
		in->news = now;
	}
	if (rc)
		return 0;
	if (status.length != s->len)
		return transfer_fail(t, "message %llu is shorter than it said", (unsigned long long)s->message);
	sdr_reliable_op_free(s->op);
	s->state = IN_COMPLETE;
	*did = true;
	return 0;
}

/* ---- data ---- */
/* Notes how far the file is stored and digested: a later attempt can keep these bytes. */
static int in_stored(struct in *in, bool all)
{
	uint8_t digest[TRANSFER_DIGEST];
	uint64_t bytes;
	char why[300];

	if (!in->file->resume || in->stored == in->hashing)
		return 0;
	if (transfer_hash_note(in->t, all, &bytes, digest))
		return -1;
	if (bytes == in->stored)
		return 0;
	in->stored = bytes;
	return recv_file_note(in->file, in->t->from + bytes, digest, why) ? transfer_fail(in->t, "%s", why) : 0;
}

/* Writes a slice of a complete message, and digests it if it is next. */
static int in_store(struct in *in, struct in_slot *s)
{
	struct transfer *t = in->t;
	const uint64_t left = s->len - s->written, begin = transfer_begin(t, s->message) + s->written;
	ssize_t n;
	int rc;

	if (left) {
		rc = recv_file_reach(in->file, begin + (left < TRANSFER_SLICE ? left : TRANSFER_SLICE));
		if (rc)
			return transfer_fail(t, "writing the file: %s", strerror(-rc));
		n = pwrite(in->file->fd, in_bytes(in, s) + s->written, left < TRANSFER_SLICE ? left : TRANSFER_SLICE,
			   (off_t)begin);
		if (n < 0 && errno != EINTR)
			return transfer_fail(t, "writing the file: %s", strerror(errno));
		s->written += n > 0 ? (uint64_t)n : 0;
	}
	if (s->message == in->next_digest && s->digested < s->written) { /* all that is digested has been written */
		const uint64_t ready = s->written - s->digested, some = ready < TRANSFER_SLICE ? ready : TRANSFER_SLICE;

		if (transfer_hash(t, in_bytes(in, s) + s->digested, some))
			return -1;
		s->digested += some;
		in->hashing += some;
		s->hashed = in->hashing;
		in->next_digest += s->digested == s->len;
	}
	if (s->written == s->len && s->digested == s->len)
		s->state = IN_FREE;
	return 0;
}

/* ---- lines of the sender ---- */
static int in_heard(struct in *in, const json_t *line)
{
	struct transfer *t = in->t;
	uint64_t rtt;

	if (in->digest_known || talk_bytes(line, "digest", in->digest, sizeof(in->digest), sizeof(in->digest), NULL) ||
	    talk_uint(line, "repeated", 0, INT64_MAX, &t->repeated) ||
	    talk_uint(line, "needless", 0, INT64_MAX, &t->needless) ||
	    talk_uint(line, "parity", 0, INT64_MAX, &t->parity) || talk_uint(line, "rtt", 0, SP_NEVER / SP_NS, &rtt))
		return transfer_fail(t, "protocol error: out of turn");
	in->digest_known = true;
	t->rtt = rtt * SP_NS;
	return 0;
}

/* One round of all work. */
static int in_round(struct in *in, bool *did)
{
	struct transfer *t = in->t;
	struct in_slot *oldest = NULL, *turn = NULL;
	const sp_time now = sp_clock();
	json_t *line;
	int rc = transfer_listen(t, &line);

	if (rc == 1) {
		*did = true;
		rc = in_heard(in, line);
		json_decref(line);
	}
	if (!rc)
		rc = transfer_look(t);
	for (uint64_t i = 0; !rc && i < t->window; i++) {
		struct in_slot *s = &in->slot[i];

		if (s->state == IN_POSTED)
			rc = in_watch(in, s, now, did);
		if (s->state != IN_COMPLETE)
			continue;
		if (s->message == in->next_digest)
			turn = s;
		if (s->written < s->len && (!oldest || s->message < oldest->message))
			oldest = s;
	}
	turn = turn ? turn : oldest;
	if (!rc && turn) {
		rc = in_store(in, turn);
		in->news = now; /* writing is progress, too */
		*did = true;
	}
	if (!rc)
		rc = in_stored(in, false);
	if (!rc)
		rc = in_post(in, did);
	if (in->behind)
		in->news = now;
	if (!rc && now > in->news && now - in->news > t->stall)
		rc = transfer_fail(t, "it makes no progress for %u s", (unsigned)(t->stall / SP_SEC));
	return rc;
}

int transfer_in(struct transfer *t, struct recv_file *file)
{
	struct sdr_reliable_status status;
	struct in *in = calloc(1, sizeof(*in));
	int rc = 0;

	if (!in)
		return transfer_fail(t, "out of memory");
	in->t = t;
	in->file = file;
	in->news = sp_clock();
	while (!rc && !(in->next_digest == t->messages && in->digest_known)) {
		bool did = false;

		in->behind = false;
		rc = in_round(in, &did);
		t->others->step(t->others->arg);
		transfer_progress(t);
		if (!rc && !did)
			rc = transfer_sleep(t, sp_clock() + (in->behind || (file->resume && in->stored < in->hashing)
								     ? TRANSFER_PAUSE
								     : SP_SEC));
	}
	if (in_stored(in, true)) /* also after an error */
		rc = -1;
	if (!rc)
		rc = transfer_digest_end(t);
	if (!rc && memcmp(t->digest, in->digest, sizeof(in->digest))) {
		recv_file_forget(file);
		rc = transfer_fail(t,
				   "what has come is not what was sent: the SHA-256 differ, though the sender's file "
				   "has not changed; bytes of somebody else came, or a memory is faulty");
	}
	if (!rc) {
		sdr_reliable_status(t->reliable, &status);
		t->repaired = status.repaired;
	}
	t->ended = sp_clock();
	free(in);
	return rc;
}
