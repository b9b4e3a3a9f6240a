/* SPDX-License-Identifier: BSD-3-Clause */
#include "measure.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "../interrupt.h"
#include "../stat/ask.h"
#include "../stat/since.h"

#define SAMPLES_MOST 10000000u
#define PATIENCE     (30 * SP_SEC) /* for a message, before the run is given up */

struct run {
	struct perf_session *s;
	struct perf_measured *m;
	bool sends, receives;
	bool stop;	      /* no message is posted any more */
	bool told, peer_told; /* {"end"} has been said, has come */
	uint64_t peer_sent;
	sp_time begun, next, interval, posted_at, moved;
	uint64_t row_sent, row_received, seen;
	uint64_t rounds; /* round trips that the client has begun */
	bool away;	 /* one of them has not ended */
	json_t *result;	 /* the peer's line, if it was ready first */
	unsigned idle;
	size_t room;
	void (*row)(void *arg, const struct perf_row *row);
	void *arg;
};

/* ---- processors ---- */
static uint64_t program_time(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return ((uint64_t)u.ru_utime.tv_sec + (uint64_t)u.ru_stime.tv_sec) * 1000000000u +
	       ((uint64_t)u.ru_utime.tv_usec + (uint64_t)u.ru_stime.tv_usec) * 1000u;
}

/* The report of our NIC; NULL: it gives none. */
static json_t *ask_nic(struct sp_attach_link *link, const char *nic)
{
	const struct stat_asked asked = {.nic = nic};
	struct stat_sample sample = {.report = NULL};

	return link->fd >= 0 && !stat_ask(link, &asked, &sample) ? sample.report : NULL;
}

static uint64_t nic_time(const json_t *now, const json_t *before)
{
	const json_t *list = json_object_get(now, "workers"), *earlier = json_object_get(before, "workers");
	uint64_t sum = 0;

	for (size_t i = 0; i < json_array_size(list); i++)
		sum += stat_since(json_array_get(list, i), json_array_get(earlier, i), "busy_us") * 1000;
	return sum;
}

/* ---- rows ---- */
static int add_row(struct run *r, sp_time now)
{
	struct perf_measured *m = r->m;
	const struct perf_end *e = &r->s->end;
	struct perf_row *more = realloc(m->row, (m->rows + 1) * sizeof(*more));
	struct perf_row *row;

	if (!more)
		return perf_fail(r->s, "out of memory");
	m->row = more;
	row = &more[m->rows];
	*row = (struct perf_row){.begin = m->rows ? row[-1].end : 0,
				 .end = (now - r->begun) / SP_NS,
				 .sent = e->sent - r->row_sent,
				 .received = e->received - r->row_received};
	m->rows++;
	r->row_sent = e->sent;
	r->row_received = e->received;
	r->row(r->arg, row);
	return 0;
}

static int add_sample(struct run *r, sp_time trip)
{
	struct perf_measured *m = r->m;

	if (m->samples == SAMPLES_MOST)
		return 0;
	if (m->samples == r->room) {
		const size_t room = r->room ? 2 * r->room : 4096;
		double *more = realloc(m->sample, room * sizeof(*more));

		if (!more)
			return perf_fail(r->s, "out of memory");
		m->sample = more;
		r->room = room;
	}
	m->sample[m->samples++] = (double)trip / (double)SP_US;
	return 0;
}

static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* ---- messages ---- */
static bool over(const struct run *r, sp_time now)
{
	const struct perf_plan *p = &r->s->plan;

	return p->messages ? r->s->end.posted >= p->messages : now - r->begun >= p->time * SP_NS;
}

static int post_many(struct run *r, sp_time now)
{
	int rc = 0;

	for (unsigned i = 0; !rc && i < PERF_DEPTH_MOST && !(r->stop = over(r, now)); i++)
		rc = r->s->op->post(&r->s->end);
	return rc == -EAGAIN ? 0 : rc;
}

/* The client: one round trip after the other. */
static int ping(struct run *r)
{
	struct perf_end *e = &r->s->end;
	const sp_time now = sp_clock();
	int rc;

	if (e->received < r->rounds)
		return 0;
	if (r->away && add_sample(r, now - r->posted_at))
		return -ENOMEM;
	r->away = false;
	r->stop = over(r, now);
	if (r->stop)
		return 0;
	r->posted_at = sp_clock();
	rc = r->s->op->post(e);
	r->away = !rc;
	r->rounds += !rc;
	return rc == -EAGAIN ? 0 : rc;
}

/* The server sends back as many as have come. */
static int pong(struct run *r)
{
	struct perf_end *e = &r->s->end;
	int rc = 0;

	while (!rc && e->posted < e->received)
		rc = r->s->op->post(e);
	r->stop = r->peer_told && e->posted == r->peer_sent;
	return rc == -EAGAIN ? 0 : rc;
}

static int move(struct run *r, sp_time now)
{
	struct perf_end *e = &r->s->end;
	int rc = r->s->op->progress(e);

	if (!rc && r->sends && !r->stop)
		rc = r->s->plan.way != PERF_LATENCY ? post_many(r, now) : e->server ? pong(r) : ping(r);
	return rc ? perf_fail_end(r->s, rc) : 0;
}

static int hear(struct run *r)
{
	json_t *line;
	int rc = perf_listen(r->s, &line);

	if (rc != 1)
		return rc;
	if (json_object_get(line, "result") && !r->result) {
		r->result = line;
		return 0;
	}
	rc = !r->receives || r->peer_told || talk_uint(line, "end", 0, UINT64_MAX / 2, &r->peer_sent);
	r->peer_told = true;
	json_decref(line);
	return rc ? perf_fail(r->s, "the peer says something else than \"end\"") : 0;
}

/* Lets others have the processor while nothing happens. */
static int rest(struct run *r, sp_time now)
{
	const struct perf_end *e = &r->s->end;

	if (e->sent + e->received != r->seen) {
		r->seen = e->sent + e->received;
		r->moved = now;
		r->idle = 0;
		return 0;
	}
	if (now - r->moved > PATIENCE)
		return perf_fail(r->s, "no message has arrived for 30 s");
	if (++r->idle > 256 && r->s->plan.way != PERF_LATENCY)
		nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
	else if (r->idle > 16)
		sched_yield();
	return 0;
}

static int run(struct run *r)
{
	const struct perf_end *e = &r->s->end;

	for (unsigned round = 0;; round++) {
		const sp_time now = sp_clock();

		if (interrupt_came())
			return perf_fail(r->s, "interrupted");
		if (move(r, now) || rest(r, now))
			return -1;
		if (now >= r->next) {
			r->next += r->interval;
			if (add_row(r, now))
				return -1;
		}
		if (r->sends && r->stop && !r->told && e->sent == e->posted) {
			r->told = true;
			if (perf_say(r->s, json_pack("{s:I}", "end", (json_int_t)e->posted)))
				return -1;
		}
		if ((round % 64 == 0 || r->stop || r->idle) && hear(r))
			return -1;
		if (r->peer_told && e->received > r->peer_sent)
			return perf_fail(r->s, "more messages have come than the peer has sent");
		if ((!r->sends || r->told) && (!r->receives || (r->peer_told && e->received == r->peer_sent)))
			return add_row(r, sp_clock());
	}
}

/* ---- results ---- */
static int take_result(struct perf_session *s, const json_t *line, struct perf_result *p)
{
	const json_t *o = json_object_get(line, "result");

	return talk_uint(o, "sent", 0, UINT64_MAX / 2, &p->sent) ||
			       talk_uint(o, "received", 0, UINT64_MAX / 2, &p->received) ||
			       talk_uint(o, "time", 1, UINT64_MAX / 2, &p->time) ||
			       talk_uint(o, "program", 0, UINT64_MAX / 2, &p->program) ||
			       talk_uint(o, "nic", 0, UINT64_MAX / 2, &p->nic)
		       ? perf_fail(s, "the peer's result makes no sense")
		       : 0;
}

/* Tells our result, and waits for the peer's. Our NIC goes on meanwhile. */
static int exchange(struct run *r)
{
	const struct perf_result *own = &r->m->own;
	json_t *line = r->result;
	int rc = perf_say(r->s, json_pack("{s:{s:I, s:I, s:I, s:I, s:I}}", "result", "sent", (json_int_t)own->sent,
					  "received", (json_int_t)own->received, "time", (json_int_t)own->time,
					  "program", (json_int_t)own->program, "nic", (json_int_t)own->nic));

	r->result = NULL;
	if (!rc && line)
		rc = 1;
	while (!rc && !(rc = perf_listen(r->s, &line))) {
		if (interrupt_came())
			return perf_fail(r->s, "interrupted");
		if (move(r, sp_clock()) || rest(r, sp_clock()))
			return -1;
	}
	if (rc == 1) {
		rc = take_result(r->s, line, &r->m->peer);
		json_decref(line);
	}
	if (!rc && (r->m->peer.sent != own->received || r->m->peer.received != own->sent))
		rc = perf_fail(r->s,
			       "messages are missing: here %llu sent and %llu received, at the peer %llu and %llu",
			       (unsigned long long)own->sent, (unsigned long long)own->received,
			       (unsigned long long)r->m->peer.sent, (unsigned long long)r->m->peer.received);
	return rc;
}

int perf_measure(struct perf_session *s, uint64_t interval, void (*row)(void *arg, const struct perf_row *row),
		 void *arg, struct perf_measured *m)
{
	static struct sp_attach_link link; /* large */
	const uint64_t way = s->plan.way;
	const bool up = s->end.server ? way == PERF_DOWN : way == PERF_UP;
	struct run r = {.s = s,
			.m = m,
			.sends = up || way >= PERF_BOTH,
			.receives = !up,
			.interval = interval * SP_NS,
			.row = row,
			.arg = arg};
	json_t *before, *after;
	uint64_t program;
	int rc;

	memset(m, 0, sizeof(*m));
	memset(&link, 0, sizeof(link));
	if (sp_attach_connect(&link, s->nic))
		link.fd = -1;
	before = ask_nic(&link, s->nic);
	program = program_time();
	r.begun = r.moved = sp_clock();
	r.next = r.begun + r.interval;
	rc = run(&r);
	m->own = (struct perf_result){.sent = s->end.sent,
				      .received = s->end.received,
				      .time = (sp_clock() - r.begun) / SP_NS,
				      .program = program_time() - program};
	after = ask_nic(&link, s->nic);
	m->own.nic = before && after ? nic_time(after, before) : 0;
	json_decref(before);
	json_decref(after);
	if (link.fd >= 0)
		close(link.fd);
	if (m->samples)
		qsort(m->sample, m->samples, sizeof(*m->sample), compare);
	rc = rc ? rc : exchange(&r);
	json_decref(r.result);
	return rc;
}

void perf_forget(struct perf_measured *m)
{
	free(m->row);
	free(m->sample);
}
