/* SPDX-License-Identifier: BSD-3-Clause */
/* The sender's side of one transfer: messages are read into registered memory in order, streamed, streamed again where
 * the receiver lacks chunks, and ended when it has said that it has them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transfer.h"

enum out_state { OUT_FREE, OUT_READING, OUT_STARTING, OUT_STREAMING, OUT_ENDING };

struct out_slot {
	enum out_state state;
	struct sdr_send *send;
	uint64_t message, len, read;
	bool told;	/* that all of this round has left */
	bool has;	/* the receiver has it */
	uint64_t round; /* counts from 1 */
	struct talk_range todo[TALK_RANGES];
	unsigned todos, next;
};

struct out {
	struct transfer *t;
	int fd;
	uint64_t next_read; /* the message being read, or to be read next */
	uint64_t completed; /* messages that the receiver has */
	bool full;	    /* the NIC could not take something: it does not say when it can */
	struct out_slot slot[TALK_WINDOW];
};

/* -EAGAIN is no failure; anything else is told. */
static int out_tried(struct out *o, const char *what, int rc)
{
	o->full |= rc == -EAGAIN;
	return rc && rc != -EAGAIN ? transfer_nic_fail(o->t, what, rc) : 0;
}

static uint64_t out_chunks(const struct transfer *t, const struct out_slot *s)
{
	return (s->len - 1) / t->chunk + 1;
}

/* A slice of the file, digested as it comes. */
static int out_read(struct out *o, struct out_slot *s)
{
	struct transfer *t = o->t;
	uint8_t *to = (uint8_t *)t->mr->addr + s->message % t->window * t->stride + s->read;
	const uint64_t left = s->len - s->read;
	const ssize_t n = pread(o->fd, to, left < TRANSFER_SLICE ? left : TRANSFER_SLICE,
				(off_t)(s->message * t->message + s->read));

	if (n < 0 && errno == EINTR)
		return 0;
	if (n < 0)
		return transfer_fail(t, "reading the file: %s", strerror(errno));
	if (!n)
		return transfer_fail(t, "the file was shortened while it was read");
	s->read += (uint64_t)n;
	if (s->read == s->len)
		s->state = OUT_STARTING;
	return transfer_digest(t, to, (size_t)n);
}

static int out_start(struct out *o, struct out_slot *s)
{
	const int rc = sdr_send_stream_start(o->t->qp, s->len, 0, &s->send);

	if (rc)
		return out_tried(o, "sdr_send_stream_start", rc);
	s->state = OUT_STREAMING;
	s->round = 1;
	s->told = s->has = false;
	s->todo[0] = (struct talk_range){0, (uint32_t)out_chunks(o->t, s)};
	s->todos = 1;
	s->next = 0;
	o->next_read++;
	return transfer_tell(o->t, json_pack("{s:I}", "start", (json_int_t)s->message));
}

/* The ranges that are to go, until the NIC takes no more; tells when all has left. */
static int out_stream(struct out *o, struct out_slot *s, bool *did)
{
	struct transfer *t = o->t;
	int rc;

	for (; s->next < s->todos; s->next++) {
		const uint64_t at = (uint64_t)s->todo[s->next].first * t->chunk;
		const uint64_t len = (uint64_t)s->todo[s->next].count * t->chunk;

		rc = sdr_send_stream_continue(s->send, t->mr, s->message % t->window * t->stride + at,
					      len < s->len - at ? len : s->len - at, at);
		if (rc)
			return out_tried(o, "sdr_send_stream_continue", rc);
		*did = true;
	}
	if (s->told)
		return 0;
	rc = sdr_send_poll(s->send);
	if (rc)
		return rc == -EAGAIN ? 0 : transfer_nic_fail(o->t, "sdr_send_poll", rc);
	*did = s->told = true;
	return transfer_tell(t, json_pack("{s:I, s:I}", "sent", (json_int_t)s->message, "round", (json_int_t)s->round));
}

static int out_end(struct out *o, struct out_slot *s, bool *did)
{
	int rc;

	if (s->state == OUT_STREAMING) {
		rc = sdr_send_stream_end(s->send);
		if (rc)
			return out_tried(o, "sdr_send_stream_end", rc);
		s->state = OUT_ENDING;
		*did = true;
	}
	rc = sdr_send_poll(s->send);
	if (rc)
		return rc == -EAGAIN ? 0 : transfer_nic_fail(o->t, "sdr_send_poll", rc);
	s->state = OUT_FREE;
	*did = true;
	return 0;
}

static int out_slot_step(struct out *o, struct out_slot *s, bool *did)
{
	switch (s->state) {
	case OUT_FREE:
	case OUT_READING:
	case OUT_STARTING:
		return 0;
	case OUT_STREAMING:
		if (!s->has)
			return out_stream(o, s, did);
		/* fallthrough */
	default:
		return out_end(o, s, did);
	}
}

/* One slice of reading, at the most: what the peer says is not to wait long. */
static int out_fill(struct out *o, bool *did)
{
	struct transfer *t = o->t;
	struct out_slot *s = &o->slot[o->next_read % t->window];
	const uint64_t before = o->next_read;
	int rc = 0;

	if (o->next_read == t->messages)
		return 0;
	if (s->state == OUT_FREE)
		*s = (struct out_slot){
			.state = OUT_READING, .message = o->next_read, .len = transfer_length(t, o->next_read)};
	if (s->state == OUT_READING) {
		*did = true;
		rc = out_read(o, s);
	}
	if (!rc && s->state == OUT_STARTING)
		rc = out_start(o, s);
	*did |= o->next_read != before;
	return rc;
}

/* The message that a line speaks of: one that has started and that the receiver does not have yet. */
static struct out_slot *out_named(struct out *o, const json_t *line, const char *key)
{
	uint64_t k;

	if (!o->next_read || talk_uint(line, key, 0, o->next_read - 1, &k))
		return NULL;

	struct out_slot *s = &o->slot[k % o->t->window];

	return s->state == OUT_STREAMING && s->message == k && !s->has ? s : NULL;
}

static int out_heard(struct out *o, const json_t *line)
{
	struct transfer *t = o->t;
	struct out_slot *s;
	uint64_t round;

	if (json_object_get(line, "done")) {
		s = out_named(o, line, "done");
		if (!s)
			return transfer_fail(t, "protocol error: done with what it was not sent");
		s->has = true;
		o->completed++;
		t->done += s->len;
		return 0;
	}
	s = out_named(o, line, "missing");
	if (!s || !s->told || talk_uint(line, "round", s->round, s->round, &round) ||
	    talk_ranges_get(line, out_chunks(t, s), s->todo, TALK_RANGES, &s->todos))
		return transfer_fail(t, "protocol error: it misses what it was not sent");
	s->next = 0;
	s->told = false;
	s->round++;
	for (unsigned i = 0; i < s->todos; i++)
		t->repeated += s->todo[i].count;
	return 0;
}

/* One look at everything. */
static int out_round(struct out *o, bool *did)
{
	struct transfer *t = o->t;
	json_t *line;
	int rc = 0;

	for (unsigned n = 0; n < TALK_WINDOW && (rc = transfer_listen(t, &line)) == 1; n++) {
		*did = true;
		rc = out_heard(o, line);
		json_decref(line);
		if (rc)
			return rc;
	}
	if (rc >= 0)
		rc = transfer_look(t);
	for (uint64_t i = 0; !rc && i < t->window; i++)
		rc = out_slot_step(o, &o->slot[i], did);
	return rc ? rc : out_fill(o, did);
}

/* Is what was read still what the file is? */
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

/* Digests are compared; only then has the file arrived. */
static int out_finish(struct out *o)
{
	struct transfer *t = o->t;
	uint8_t theirs[TRANSFER_DIGEST];
	json_t *line = NULL;
	int rc = transfer_digest_end(t);

	if (!rc)
		rc = transfer_tell(t, json_pack("{s:o}", "digest", talk_hex(t->digest, sizeof(t->digest))));
	if (!rc)
		rc = transfer_await(t, SP_NEVER, &line); /* its disk may be slow */
	if (rc)
		return rc;
	rc = talk_bytes(line, "saved", theirs, sizeof(theirs), sizeof(theirs), NULL);
	json_decref(line);
	if (rc || memcmp(theirs, t->digest, sizeof(theirs)))
		return transfer_fail(t,
				     rc ? "protocol error: no end" : "it has saved something else: the SHA-256 differ");
	t->ended = sp_clock();
	return 0;
}

int transfer_out(struct transfer *t, int fd)
{
	struct out *o = calloc(1, sizeof(*o));
	struct stat before;
	int rc = 0;

	if (!o)
		return transfer_fail(t, "out of memory");
	o->t = t;
	o->fd = fd;
	if (fstat(fd, &before))
		rc = transfer_fail(t, "the file: %s", strerror(errno));
	if (!rc && (uint64_t)before.st_size != t->size)
		rc = transfer_fail(t, "the file changed before it was read");
	if (!rc)
		rc = transfer_digest_begin(t);
	while (!rc && o->completed < t->messages) {
		bool did = false;

		o->full = false;
		rc = out_round(o, &did);
		transfer_progress(t);
		if (!rc && !did)
			rc = transfer_sleep(t, NULL, 0, sp_clock() + (o->full ? SP_MS : SP_SEC));
	}
	if (!rc)
		rc = out_unchanged(o, &before);
	if (!rc)
		rc = out_finish(o);
	free(o);
	return rc;
}
