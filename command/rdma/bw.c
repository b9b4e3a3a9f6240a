/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle rdma bw ADDRESS: keeps every QP's queue full. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "../interrupt.h"
#include "client.h"
#include "show.h"

/* The peak is the best of such times. Completions come in bursts, so it takes some of them to tell a rate. */
#define WINDOW	     (10 * SP_MS)
#define WINDOW_LEAST (4ull * RDMA_BATCH)
#define LARGE	     65536 /* each of such messages is signalled */

static struct {
	uint64_t size, wanted, done; /* of all queues; wanted: of each, 0: no end */
	uint64_t bad;		     /* answers of READ and ATOMIC */
	uint64_t window_done;
	sp_time begun, window, last_done;
	double peak; /* bytes/s */
} run;

static int sent(struct rdma_ends *e, struct rdma_queue *q, uint32_t number)
{
	const uint8_t *bytes = q->area;
	uint64_t old;

	/* number: of the latest request that is done with, and all before it are. */
	while ((uint32_t)q->done != number + 1) {
		bytes = q->area + rdma_slot(e, q->done);
		if (q->done == q->posted)
			return rdma_fail(e->asked, "the NIC has completed what was not posted");
		if (e->how.flags & RDMA_HELLO_VERIFY && e->how.op == RDMA_READ)
			run.bad += !rdma_right(bytes, q->done % e->slots, run.size);
		if (e->how.flags & RDMA_HELLO_VERIFY && e->how.op == RDMA_ATOMIC) {
			memcpy(&old, bytes, sizeof(old));
			run.bad += old != q->done;
		}
		q->done++;
		run.done++;
	}
	return 0;
}

static int came(struct rdma_ends *e, struct rdma_queue *q, const uint8_t *bytes, uint32_t len, uint32_t imm)
{
	(void)e, (void)q, (void)bytes, (void)len, (void)imm;
	return 0;
}

static void message(struct rdma_ends *e, struct rdma_queue *q, struct rdma_message *m)
{
	static const enum sp_rdma_wr_op ops[] = {SP_RDMA_WR_SEND, SP_RDMA_WR_WRITE, SP_RDMA_WR_READ,
						 SP_RDMA_WR_FETCH_ADD};
	const bool verify = e->how.flags & RDMA_HELLO_VERIFY;
	uint8_t *bytes = q->area + rdma_slot(e, q->posted);

	if (verify && (e->how.op == RDMA_SEND || e->how.op == RDMA_WRITE))
		rdma_fill(bytes, q->posted, run.size);
	*m = (struct rdma_message){.op = verify && e->how.op == RDMA_SEND ? SP_RDMA_WR_SEND_IMM : ops[e->how.op],
				   .number = (uint32_t)q->posted,
				   .len = (uint32_t)run.size,
				   .bytes = bytes,
				   /* all ATOMICs go to one place */
				   .remote = q->va + (e->how.op == RDMA_ATOMIC ? 0 : rdma_slot(e, q->posted)),
				   .imm = (uint32_t)q->posted & 0x7FFFFFFF,
				   .signaled = run.size >= LARGE};
	q->posted++;
}

/* Posts what there is room for. The last of a list is signalled: it stands for all before it. */
static int fill(struct rdma_ends *e, struct rdma_queue *q, bool stop)
{
	struct rdma_message m[RDMA_BATCH];
	const uint64_t in_flight = q->posted - q->done;
	uint64_t room = e->depth - in_flight, left = run.wanted ? run.wanted - q->posted : UINT64_MAX;
	unsigned n = 0;

	/* Lists of some length: a doorbell and a completion for each. */
	if (stop || !left || (room < RDMA_BATCH && room < e->depth / 2))
		return 0;
	room = room < left ? room : left;
	while (n < RDMA_BATCH && n < room)
		message(e, q, &m[n++]);
	if (!n)
		return 0;
	m[n - 1].signaled = true;
	return rdma_ends_post(e, q, m, n);
}

static void peak(sp_time now)
{
	double rate;

	if (now - run.window < WINDOW || run.done - run.window_done < WINDOW_LEAST)
		return;
	rate = (double)(run.done - run.window_done) * (double)run.size / ((double)(now - run.window) / SP_SEC);
	run.peak = rate > run.peak ? rate : run.peak;
	run.window = now;
	run.window_done = run.done;
}

static int measure(struct rdma_ends *e)
{
	const struct rdma_asked *a = e->asked;
	bool busy = true;

	run.begun = run.window = run.last_done = sp_clock();
	while (busy) {
		sp_time now = sp_clock();
		const bool stop = interrupt_came() || (a->duration && now - run.begun >= a->duration);
		const uint64_t before = run.done;

		busy = false;
		for (uint32_t i = 0; i < e->queues; i++) {
			struct rdma_queue *q = &e->queue[i];

			if (fill(e, q, stop))
				return -1;
			busy |= q->posted != q->done || (!stop && (!run.wanted || q->posted < run.wanted));
		}
		if (rdma_ends_wait(e) < 0)
			return -1;
		now = sp_clock();
		if (run.done != before)
			run.last_done = now;
		else if (now - run.last_done > RDMA_SILENCE)
			return rdma_fail(a, "no request completes");
		peak(now);
	}
	return 0;
}

int rdma_client_bw(struct rdma_ends *e, uint64_t size)
{
	const struct rdma_asked *a = e->asked;
	struct rdma_word answer;
	struct show_bw row;

	e->sent = sent;
	e->came = came;
	memset(&run, 0, sizeof(run));
	run.size = size;
	run.wanted = a->duration ? 0 : a->iterations;
	for (uint32_t i = 0; i < e->queues; i++)
		e->queue[i].posted = e->queue[i].done = 0;
	if (rdma_client_ask(e, RDMA_START, 0, size, &answer) || measure(e))
		return -1;
	row = (struct show_bw){.size = size,
			       .iterations = run.done,
			       .seconds = (double)(run.last_done - run.begun) / SP_SEC,
			       .peak = run.peak};
	if (rdma_client_ask(e, RDMA_END, e->queue[0].posted, size, &answer))
		return -1;
	row.verified = a->verify;
	row.received = answer.count;
	row.srq = e->peer_srq;
	row.counted = e->how.op == RDMA_SEND;
	row.bad = answer.bad + run.bad;
	show_bw(a, &row);
	if (row.bad)
		return rdma_fail(a, "%" PRIu64 " messages had wrong bytes", row.bad);
	if (row.counted && e->how.type == SP_RDMA_RC && row.received != row.iterations)
		return rdma_fail(a, "the peer has received %" PRIu64 " messages of %" PRIu64, row.received,
				 row.iterations);
	return 0;
}
