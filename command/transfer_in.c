/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receiver's side of one transfer. A message is written to its place once all of it has come, and digested when it
 * is its turn; its buffer then takes another one. A message that the sender says has left, and of which nothing more
 * comes for a while, lacks chunks: they are named, and come again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transfer.h"

#define PATIENCE_LEAST (10 * SP_MS) /* threads that share a processor may rest for so long */
#define PATIENCE_MOST  SP_SEC
#define PATIENCE_GAPS  8	    /* usual times between looks that find something new */
#define GAP_MOST       (20 * SP_MS) /* longer ones are pauses */

enum in_state { IN_FREE, IN_POSTED, IN_COMPLETE, IN_RELEASING };

struct in_slot {
	enum in_state state;
	struct sdr_recv *recv;
	uint64_t message, len;
	uint64_t packets; /* that had come at the last look */
	sp_time since;	  /* when it was posted, or started if that was later */
	sp_time news;	  /* when more had come, or was said to have left */
	uint64_t round;	  /* that has left, by the sender's word; 0: none */
	uint64_t asked;	  /* the last round after which chunks were named */
	uint64_t before;  /* packets when they were */
	unsigned empty;	  /* rounds in a row that brought nothing */
	uint64_t written, digested;
};

struct in {
	struct transfer *t;
	int fd;
	uint64_t next_post, next_digest, started;
	bool digest_known;
	uint8_t digest[TRANSFER_DIGEST]; /* the sender's */
	sp_time gap, news;		 /* between news of any message, smoothed; when the last were */
	struct in_slot slot[TALK_WINDOW];
};

static uint8_t *in_bytes(const struct in *in, const struct in_slot *s)
{
	return (uint8_t *)in->t->mr->addr + s->message % in->t->window * in->t->stride;
}

static int in_post(struct in *in, sp_time now, bool *did)
{
	struct transfer *t = in->t;

	while (in->next_post < t->messages) {
		const uint64_t k = in->next_post;
		struct in_slot *s = &in->slot[k % t->window];
		int rc;

		if (s->state != IN_FREE)
			return 0;
		*s = (struct in_slot){.message = k, .len = transfer_length(t, k), .since = now, .news = now};
		rc = sdr_recv_post(t->qp, t->mr, k % t->window * t->stride, s->len, &s->recv);
		if (rc)
			return rc == -EAGAIN ? 0 : transfer_nic_fail(t, "sdr_recv_post", rc);
		s->state = IN_POSTED;
		in->next_post++;
		*did = true;
	}
	return 0;
}

/* ---- what is missing ---- */
static sp_time in_patience(const struct in *in, const struct in_slot *s)
{
	sp_time patience = PATIENCE_GAPS * in->gap;

	patience = patience > PATIENCE_LEAST ? patience : PATIENCE_LEAST;
	for (unsigned i = 0; i < s->empty && patience < PATIENCE_MOST; i++)
		patience *= 2; /* all is lost: it does not get better by more of it */
	return patience < PATIENCE_MOST ? patience : PATIENCE_MOST;
}

static sp_time in_ask_at(const struct in *in, const struct in_slot *s)
{
	return s->state == IN_POSTED && s->round > s->asked ? s->news + in_patience(in, s) : SP_NEVER;
}

static int in_ask(struct in *in, struct in_slot *s)
{
	struct transfer *t = in->t;
	struct talk_range range[TALK_RANGES];
	const uint64_t all = (s->len - 1) / t->chunk + 1;
	struct sdr_recv_status status;
	const uint64_t *bitmap;
	uint64_t chunks;
	unsigned n = 1;
	int rc = sdr_recv_status(s->recv, &status);

	if (!rc)
		rc = sdr_recv_bitmap_get(s->recv, &bitmap, &chunks);
	if (rc)
		return transfer_nic_fail(t, "sdr_recv_bitmap_get", rc);
	if (status.open)
		n = talk_missing(bitmap, chunks < all ? chunks : all, range, TALK_RANGES);
	else
		range[0] = (struct talk_range){0, (uint32_t)all};
	if (!n) /* it has just become complete */
		return 0;
	s->empty = s->packets > s->before ? 0 : s->empty + (s->asked != 0);
	s->before = s->packets;
	s->asked = s->round;
	for (unsigned i = 0; i < n; i++)
		t->repeated += range[i].count;
	return transfer_tell(t, json_pack("{s:I, s:I, s:o}", "missing", (json_int_t)s->message, "round",
					  (json_int_t)s->round, "ranges", talk_ranges(range, n)));
}

static int in_watch(struct in *in, struct in_slot *s, sp_time now, bool *did)
{
	struct transfer *t = in->t;
	struct sdr_recv_status status;
	int rc = sdr_recv_status(s->recv, &status);

	if (rc)
		return transfer_nic_fail(t, "sdr_recv_status", rc);
	if (status.packets != s->packets) {
		in->gap += (now - in->news < GAP_MOST ? now - in->news : GAP_MOST) / 8 - in->gap / 8;
		in->news = s->news = now;
		s->packets = status.packets;
	}
	if (status.complete) {
		if (status.length != s->len)
			return transfer_fail(t, "message %llu is shorter than it said", (unsigned long long)s->message);
		s->state = IN_COMPLETE;
		t->done += s->len;
		*did = true;
		return transfer_tell(t, json_pack("{s:I}", "done", (json_int_t)s->message));
	}
	return now >= in_ask_at(in, s) ? in_ask(in, s) : 0;
}

/* Nothing comes although the sender says that all has left, or from the first packet on. Only the oldest message tells:
 * others wait for it. A round of repetition that is under way may take its time. */
static int in_silence(struct in *in, const struct in_slot *s, sp_time now)
{
	const bool waiting = s->round ? s->round > s->asked : s->message < in->started;
	const sp_time limit = in->t->stall < TALK_SILENCE ? in->t->stall : TALK_SILENCE;

	if (!waiting || now < s->since || now - s->since < limit || now < in->news || now - in->news < limit)
		return 0;
	return transfer_fail(in->t, "no packet comes from its NIC for %u s", (unsigned)(limit / SP_SEC));
}

/* ---- what is there ---- */
/* A slice of what is complete: to its place in the file, into the digest when it is its turn. */
static int in_store(struct in *in, struct in_slot *s, bool *did)
{
	struct transfer *t = in->t;
	const uint64_t left = s->len - s->written, begin = s->message * t->message + s->written;
	ssize_t n;
	int rc;

	if (left) {
		*did = true;
		n = pwrite(in->fd, in_bytes(in, s) + s->written, left < TRANSFER_SLICE ? left : TRANSFER_SLICE,
			   (off_t)begin);
		if (n < 0 && errno != EINTR)
			return transfer_fail(t, "writing the file: %s", strerror(errno));
		s->written += n > 0 ? (uint64_t)n : 0;
	}
	if (s->message == in->next_digest && s->digested < s->written) { /* what is digested is also written */
		const uint64_t ready = s->written - s->digested, some = ready < TRANSFER_SLICE ? ready : TRANSFER_SLICE;

		*did = true;
		rc = transfer_digest(t, in_bytes(in, s) + s->digested, some);
		if (rc)
			return rc;
		s->digested += some;
		in->next_digest += s->digested == s->len;
	}
	if (s->written == s->len && s->digested == s->len)
		s->state = IN_RELEASING;
	return 0;
}

static int in_slot_step(struct in *in, struct in_slot *s, sp_time now, bool *did)
{
	int rc;

	if (s->state == IN_POSTED)
		return in_watch(in, s, now, did);
	if (s->state != IN_RELEASING)
		return 0;
	rc = sdr_recv_complete(s->recv);
	if (rc)
		return rc == -EAGAIN ? 0 : transfer_nic_fail(in->t, "sdr_recv_complete", rc);
	s->state = IN_FREE;
	*did = true;
	return 0;
}

/* ---- what is said ---- */
static int in_heard(struct in *in, const json_t *line)
{
	struct transfer *t = in->t;
	struct in_slot *s;
	uint64_t k, round;

	if (json_object_get(line, "start")) {
		if (talk_uint(line, "start", in->started, in->started, &k) || k >= t->messages)
			return transfer_fail(t, "protocol error: a message out of turn");
		in->started++;
		s = &in->slot[k % t->window];
		if (s->state == IN_POSTED && s->message == k)
			s->since = s->news = sp_clock();
		return 0;
	}
	if (json_object_get(line, "digest")) {
		if (in->digest_known ||
		    talk_bytes(line, "digest", in->digest, sizeof(in->digest), sizeof(in->digest), NULL))
			return transfer_fail(t, "protocol error: no digest");
		in->digest_known = true;
		return 0;
	}
	if (!in->started || talk_uint(line, "sent", 0, in->started - 1, &k) ||
	    talk_uint(line, "round", 1, INT64_MAX, &round))
		return transfer_fail(t, "protocol error: nothing known");
	s = &in->slot[k % t->window];
	if (s->state == IN_POSTED && s->message == k) { /* otherwise it is complete, and the word crossed ours */
		s->round = round;
		s->news = sp_clock();
	}
	return 0;
}

/* One look at everything. */
static int in_round(struct in *in, bool *did)
{
	struct transfer *t = in->t;
	struct in_slot *oldest = NULL, *turn = NULL, *first = NULL;
	const sp_time now = sp_clock();
	json_t *line;
	int rc = 0;

	for (unsigned n = 0; n < TALK_WINDOW && (rc = transfer_listen(t, &line)) == 1; n++) {
		*did = true;
		rc = in_heard(in, line);
		json_decref(line);
		if (rc)
			return rc;
	}
	if (rc >= 0)
		rc = transfer_look(t);
	for (uint64_t i = 0; !rc && i < t->window; i++) {
		struct in_slot *s = &in->slot[i];

		rc = in_slot_step(in, s, now, did);
		if (s->state == IN_POSTED && (!first || s->message < first->message))
			first = s;
		if (s->state != IN_COMPLETE)
			continue;
		if (s->message == in->next_digest)
			turn = s;
		if (s->written < s->len && (!oldest || s->message < oldest->message))
			oldest = s;
	}
	turn = turn ? turn : oldest;
	if (!rc && turn) {
		rc = in_store(in, turn, did);
		in->news = now; /* we get on, whatever the sender does */
	}
	if (!rc)
		rc = in_post(in, now, did);
	if (!rc && first)
		rc = in_silence(in, first, now);
	if (!rc && now > in->news && now - in->news > t->stall)
		rc = transfer_fail(t, "it does not get on for %u s", (unsigned)(t->stall / SP_SEC));
	return rc;
}

static sp_time in_deadline(const struct in *in)
{
	sp_time next = sp_clock() + SP_SEC;

	for (uint64_t i = 0; i < in->t->window; i++) {
		const sp_time at = in_ask_at(in, &in->slot[i]);

		next = at < next ? at : next;
	}
	return next;
}

/* What the bar shows: messages that are complete, and what has come of others. */
static void in_show(struct in *in)
{
	struct transfer *t = in->t;
	const uint64_t done = t->done;

	for (uint64_t i = 0; i < t->window; i++)
		if (in->slot[i].state == IN_POSTED)
			t->done += in->slot[i].packets * t->mtu < in->slot[i].len ? in->slot[i].packets * t->mtu
										  : in->slot[i].len;
	transfer_progress(t);
	t->done = done;
}

int transfer_in(struct transfer *t, int fd, const struct transfer_others *others)
{
	struct in *in = calloc(1, sizeof(*in));
	struct pollfd fds[32];
	int rc;

	if (!in)
		return transfer_fail(t, "out of memory");
	in->t = t;
	in->fd = fd;
	in->news = sp_clock();
	rc = transfer_digest_begin(t);
	while (!rc && !(in->next_digest == t->messages && in->digest_known)) {
		bool did = false;

		rc = in_round(in, &did);
		others->step(others->arg);
		in_show(in);
		if (!rc && !did)
			rc = transfer_sleep(t, fds, others->fds(others->arg, fds), in_deadline(in));
	}
	if (!rc)
		rc = transfer_digest_end(t);
	if (!rc && memcmp(t->digest, in->digest, sizeof(in->digest)))
		rc = transfer_fail(t, "what has come is not what was sent: the SHA-256 differ (did the file change?)");
	t->ended = sp_clock();
	free(in);
	return rc;
}
