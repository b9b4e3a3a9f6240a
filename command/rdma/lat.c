/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle rdma lat and ping ADDRESS: one message at a time, on one QP. */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../interrupt.h"
#include "client.h"
#include "show.h"

#define SAMPLES_MOST 10000000u

static struct {
	uint64_t size, count; /* count: the message that is on its way */
	bool sent, back;      /* its request has completed; its echo has come */
	uint64_t bad, lost;
	double *sample; /* microseconds */
	size_t samples, room;
} run;

static int sent(struct rdma_ends *e, struct rdma_queue *q, uint32_t number)
{
	(void)e, (void)q;
	run.sent |= number == (uint32_t)run.count;
	return 0;
}

static int came(struct rdma_ends *e, struct rdma_queue *q, const uint8_t *bytes, uint32_t len, uint32_t imm)
{
	(void)q;
	if (imm != ((uint32_t)run.count & 0x7FFFFFFF) || run.back) /* of one that was given up */
		return 0;
	run.back = true;
	if (len != run.size || (e->how.flags & RDMA_HELLO_VERIFY && !rdma_right(bytes, run.count, len)))
		run.bad++;
	return 0;
}

/* What the peer writes to as its answer, and its last byte then. */
static uint8_t *landing(const struct rdma_ends *e, const struct rdma_queue *q)
{
	return q->area + e->slots * e->stride;
}

static uint8_t stamp(uint64_t count)
{
	return (uint8_t)(1 + count % 255);
}

static int post(struct rdma_ends *e, struct rdma_queue *q)
{
	static const enum sp_rdma_wr_op ops[] = {SP_RDMA_WR_SEND_IMM, SP_RDMA_WR_WRITE, SP_RDMA_WR_READ,
						 SP_RDMA_WR_FETCH_ADD};
	const struct rdma_message m = {.op = ops[e->how.op],
				       .number = (uint32_t)run.count,
				       .len = (uint32_t)run.size,
				       .bytes = q->area,
				       .remote = q->va,
				       .imm = (uint32_t)run.count & 0x7FFFFFFF,
				       .signaled = true};

	run.sent = run.back = false;
	if (e->how.flags & RDMA_HELLO_VERIFY && e->how.op <= RDMA_WRITE)
		rdma_fill(q->area, run.count, run.size);
	if (e->how.op == RDMA_WRITE)
		q->area[run.size - 1] = stamp(run.count);
	return rdma_ends_post(e, q, &m, 1);
}

static bool over(const struct rdma_ends *e, const struct rdma_queue *q)
{
	if (e->how.op == RDMA_SEND)
		return run.sent && run.back;
	if (e->how.op == RDMA_WRITE)
		return run.sent && __atomic_load_n(&landing(e, q)[run.size - 1], __ATOMIC_ACQUIRE) == stamp(run.count);
	return run.sent;
}

static void look(const struct rdma_ends *e, const struct rdma_queue *q)
{
	uint64_t old;

	if (!(e->how.flags & RDMA_HELLO_VERIFY))
		return;
	if (e->how.op == RDMA_WRITE)
		run.bad += !rdma_right(landing(e, q), run.count, run.size - 1);
	if (e->how.op == RDMA_READ)
		run.bad += !rdma_right(q->area, 0, run.size);
	if (e->how.op == RDMA_ATOMIC) {
		memcpy(&old, q->area, sizeof(old));
		run.bad += old != run.count;
	}
}

static int keep(const struct rdma_asked *a, double sample)
{
	if (run.samples == run.room) {
		const size_t room = run.room ? 2 * run.room : 4096;
		double *more = room <= SAMPLES_MOST * 2ull ? realloc(run.sample, room * sizeof(*more)) : NULL;

		if (!more)
			return rdma_fail(a, "no memory for so many times");
		run.sample = more;
		run.room = room;
	}
	run.sample[run.samples++] = sample;
	return 0;
}

/* One message and its answer: 1, 0 if it was lost, or -1. *took: ps. */
static int one(struct rdma_ends *e, sp_time patience, sp_time *took)
{
	struct rdma_queue *q = &e->queue[0];
	const sp_time begun = sp_clock();
	sp_time now = begun;
	unsigned looks = 0;

	if (post(e, q))
		return -1;
	while (!over(e, q)) {
		if (interrupt_came() && now - begun > SP_SEC)
			return rdma_fail(e->asked, "interrupted");
		if (now - begun > patience && run.sent)
			return 0;
		if (now - begun > patience + RDMA_SILENCE)
			return rdma_fail(e->asked, "no answer");
		/* Nothing tells of a WRITE that comes: look again and again, but let others work. */
		if (e->how.op == RDMA_WRITE ? rdma_ends_poll(e) < 0 : rdma_ends_wait(e) < 0)
			return -1;
		if (e->how.op == RDMA_WRITE && ++looks % 16 == 0)
			sched_yield();
		now = sp_clock();
	}
	*took = sp_clock() - begun;
	look(e, q);
	return 1;
}

static int begin(struct rdma_ends *e, uint64_t size)
{
	struct rdma_word answer;

	e->sent = sent;
	e->came = came;
	free(run.sample);
	memset(&run, 0, sizeof(run));
	run.size = size;
	memset(landing(e, &e->queue[0]), 0, size);
	return rdma_client_ask(e, RDMA_START, 0, size, &answer);
}

int rdma_client_lat(struct rdma_ends *e, uint64_t size)
{
	const struct rdma_asked *a = e->asked;
	/* As perftest: half of the round trip where the peer answers with a message. */
	const double part = e->how.op <= RDMA_WRITE ? 2 : 1;
	const bool lossy = e->how.type != SP_RDMA_RC && e->how.op == RDMA_SEND;
	struct rdma_word answer;
	sp_time took = 0, begun;
	int rc = begin(e, size);

	begun = sp_clock();
	while (!rc && !interrupt_came() &&
	       (a->duration ? sp_clock() - begun < a->duration : run.samples < a->iterations)) {
		const int n = one(e, lossy ? 200 * SP_MS : RDMA_SILENCE, &took);

		if (n < 0)
			return -1;
		if (!n && !lossy)
			return rdma_fail(a, "an answer was lost");
		run.lost += !n;
		if (run.lost > 100)
			return rdma_fail(a, "more than 100 messages or answers were lost");
		rc = n ? keep(a, (double)took / SP_US / part) : 0;
		run.count++;
	}
	rc = rc ? rc : rdma_client_ask(e, RDMA_END, e->how.op == RDMA_SEND ? run.count : 0, size, &answer);
	if (rc)
		return rc;
	show_lat(a, size, run.sample, run.samples, run.lost);
	return run.bad ? rdma_fail(a, "%" PRIu64 " messages had wrong bytes", run.bad) : 0;
}

/* A line for each, as ping(8). */
int rdma_client_ping(struct rdma_ends *e, uint64_t size)
{
	const struct rdma_asked *a = e->asked;
	int rc = begin(e, size);

	while (!rc && !interrupt_came() && (!a->iterations || run.count < a->iterations)) {
		sp_time took = 0, next = sp_clock() + a->interval;
		const int n = one(e, SP_SEC, &took);

		if (n < 0)
			return -1;
		run.lost += !n;
		show_ping(a, size, run.count, n ? (double)took / SP_US : -1);
		rc = n ? keep(a, (double)took / SP_US) : 0;
		run.count++;
		while (!rc && (!a->iterations || run.count < a->iterations) && sp_clock() < next && !interrupt_came())
			nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	if (rc)
		return rc;
	show_ping_end(a, run.count, run.sample, run.samples);
	if (run.bad)
		return rdma_fail(a, "%" PRIu64 " messages had wrong bytes", run.bad);
	return run.samples ? 0 : -1;
}
