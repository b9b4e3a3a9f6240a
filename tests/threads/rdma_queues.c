/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queues of an rdma context that workers share. Two threads are the workers: they call what the handler calls, each
 * with its worker's context, as fast as they can; the NIC itself stands still meanwhile. The application is the
 * library.
 */
#include <sched.h>

#include "../../handlers/rdma/cq.h"
#include "../../handlers/rdma/rq.h"
#include "../../host-api/rdma_private.h"
#include "../lib/dut.h"

#define WORKERS 2
#define LONG	(20 * SP_SEC) /* a sleep that long has missed its wake-up */

static struct sp_rdma *rdma;
static struct sp_rdma_pd *pd;
static struct sp_rdma_cq *cq;
static struct rdma *state;

static struct worker {
	pthread_t thread;
	struct sp_ctx *c;
	uint32_t index;
	uint64_t seed;
	uint64_t done; /* atomic: rounds, or entries */
	uint64_t wrong;
} __attribute__((aligned(128))) worker[WORKERS];

static uint64_t todo;
static uint64_t go __attribute__((aligned(128))); /* atomic: rounds that may begin */
static uint64_t taken[WORKERS];			  /* atomic: entries of each that the application has */
static bool enough __attribute__((aligned(128))); /* atomic: whatever they wait for will not come */

/* Of a rule; where others use the processors, its threads wait for each other much longer than they work. */
static uint64_t rounds_asked(uint64_t few)
{
	return getenv("SPINDLE_LONG") ? 100000000 : suite_times((unsigned)few);
}

static sp_time time_asked(void)
{
	return getenv("SPINDLE_LONG") ? SP_NEVER : sp_clock() + 10 * SP_SEC;
}

static bool given_up(void)
{
	return __atomic_load_n(&enough, __ATOMIC_ACQUIRE);
}

/* There may be fewer processors than threads. */
static void spin(uint64_t *spins)
{
	if (++*spins % 512 == 0)
		sched_yield();
}

static void pause_of(uint64_t *seed)
{
	uint64_t pause = dut_random(seed) % (1u << dut_random(seed) % 10);

	while (pause--)
		__asm__ volatile("" ::: "memory");
}

static void begin(uint32_t entries)
{
	const struct sp_rdma_attr attr = {
		.qps = 8, .cqs = 4, .srqs = 4, .pds = 4, .mrs = 8, .ahs = 1, .name = "shared"};
	struct sp_error error = {.text = ""};
	struct sp_context *context;

	dut_start(&dut, WORKERS);
	CU_ASSERT_EQUAL_FATAL(sp_rdma_open(dut.dev, &attr, &rdma, &error), 0);
	CU_ASSERT_EQUAL_FATAL(sp_rdma_pd_alloc(rdma, &pd), 0);
	CU_ASSERT_EQUAL_FATAL(sp_rdma_cq_create(rdma, entries, true, NULL, &cq), 0);
	context = sp_context_by_id(dut.nic, rdma->id);
	state = context->state;
	for (uint32_t w = 0; w < WORKERS; w++) {
		worker[w] = (struct worker){.c = &context->view[w]->pub, .index = w, .seed = 7 + w};
		taken[w] = 0;
	}
	go = 0;
	enough = false;
}

static void end(void)
{
	CU_ASSERT_EQUAL(sp_rdma_close(rdma), 0);
	dut_stop(&dut);
}

static void start(void *(*body)(void *))
{
	for (uint32_t w = 0; w < WORKERS; w++)
		CU_ASSERT_EQUAL_FATAL(pthread_create(&worker[w].thread, NULL, body, &worker[w]), 0);
}

static void join(void)
{
	for (uint32_t w = 0; w < WORKERS; w++) {
		pthread_join(worker[w].thread, NULL);
		CU_ASSERT_EQUAL(worker[w].wrong, 0);
	}
}

static struct rdma_cq *shared_cq(void)
{
	return &state->cq[cq->object.id - 1];
}

/* Each field tells of the others, so that a half of another entry is seen. */
static struct sp_rdma_cqe entry_of(uint32_t w, uint64_t k)
{
	return (struct sp_rdma_cqe){.wr_id = (uint64_t)w << 56 | k,
				    .len = (uint32_t)(k * 3),
				    .imm = (uint32_t)(k ^ 0x5A5A5A5A),
				    .qp = (uint32_t)(k + w),
				    .src_qp = (uint32_t)~k,
				    .entries = (uint32_t)(k * 7),
				    .op = SP_RDMA_WC_RECV};
}

/* Whole, of a worker, and the next one of that worker. */
static bool entry_right(const struct sp_rdma_wc *wc, uint64_t next[WORKERS])
{
	const uint32_t w = (uint32_t)(wc->wr_id >> 56);
	const uint64_t k = wc->wr_id & 0xFFFFFFFFFFFFFF;
	const struct sp_rdma_cqe e = entry_of(w < WORKERS ? w : 0, k);

	return w < WORKERS && k == next[w]++ && wc->status == SP_RDMA_OK && wc->len == e.len && wc->imm == e.imm &&
	       wc->qp == e.qp && wc->src_qp == e.src_qp && wc->done == e.entries && wc->op == SP_RDMA_WC_RECV;
}

/* ---- arming ---- */

/* 1 or 2; a round has no more, so that nothing that comes later wakes an application that has missed the last one. */
static unsigned posts_of(uint32_t w, uint64_t round)
{
	return 1 + ((round * 0x9E3779B97F4A7C15 >> (40 + w)) & 1);
}

static void *post_rounds(void *arg)
{
	struct worker *p = arg;
	uint64_t k = 0, spins = 0;

	for (uint64_t round = 0; round < todo; round++) {
		while (__atomic_load_n(&go, __ATOMIC_ACQUIRE) <= round) {
			if (given_up())
				return NULL;
			spin(&spins);
		}
		for (unsigned left = posts_of(p->index, round); left; left--) {
			const struct sp_rdma_cqe e = entry_of(p->index, k++);

			pause_of(&p->seed);
			p->wrong += !rdma_cq_post(p->c, shared_cq(), &e, left == 1);
		}
		__atomic_store_n(&p->done, round + 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

static bool notice(void)
{
	struct sp_rdma_notice n;

	return sp_rdma_notice_take(rdma, &n) == 1 && n.kind == SP_RDMA_NOTICE_CQ && n.cq == cq;
}

/* False: no wake-up has come. */
static bool sleep_until_woken(uint64_t *spins)
{
	const sp_time until = sp_clock() + LONG;

	while (!notice()) {
		spin(spins);
		if (*spins % 8192 == 0 && sp_clock() > until)
			return false;
	}
	return true;
}

TEST(no_completion_is_slept_over)
{
	uint64_t seed = 3, next[WORKERS] = {0}, round, slept = 0, woken, arms, wrong = 0, spins = 0;
	struct sp_rdma_wc wc[4];
	bool lost = false;
	sp_time until;

	begin(64);
	todo = rounds_asked(400000);
	until = time_asked();
	start(post_rounds);
	for (round = 0; round < todo && !lost && !wrong && (round % 64 || sp_clock() < until); round++) {
		const bool solicited = dut_random(&seed) % 2;
		unsigned left = posts_of(0, round) + posts_of(1, round);
		bool armed = false;

		woken = arms = 0;
		__atomic_store_n(&go, round + 1, __ATOMIC_RELEASE);
		while (left) {
			int n;

			pause_of(&seed);
			n = sp_rdma_poll_cq(cq, wc, 4);
			for (int i = 0; i < n; i++)
				wrong += !entry_right(&wc[i], next);
			left -= (unsigned)n;
			if (n || !left)
				continue;
			if (!armed) { /* ... then look once more */
				sp_rdma_cq_arm(cq, solicited);
				armed = true;
				arms++;
				continue;
			}
			slept++;
			lost = !sleep_until_woken(&spins);
			if (lost)
				break;
			woken++;
			armed = false;
		}
		for (uint32_t w = 0; w < WORKERS && !lost; w++)
			while (__atomic_load_n(&worker[w].done, __ATOMIC_ACQUIRE) <= round)
				spin(&spins);
		while (notice()) /* of an arming whose entry was found */
			woken++;
		wrong += woken > arms;
		cq->head->armed = SP_RDMA_ARM_NONE;
	}
	__atomic_store_n(&enough, true, __ATOMIC_RELEASE);
	join();
	printf("# %llu rounds, slept %llu times\n", (unsigned long long)round, (unsigned long long)slept);
	CU_ASSERT_FALSE(lost);
	CU_ASSERT_EQUAL(wrong, 0);
	CU_ASSERT(round == todo || sp_clock() >= until);
	CU_ASSERT(slept > round / 100);
	end();
}

/* ---- completion queues ---- */

/* No more of each worker than half of the queue has room for. */
static void *post_entries(void *arg)
{
	struct worker *p = arg;
	const uint64_t room = (1u << cq->log) / WORKERS;
	uint64_t spins = 0, k = 0;

	for (; k < todo && !given_up(); k++) {
		const struct sp_rdma_cqe e = entry_of(p->index, k);

		while (k - __atomic_load_n(&taken[p->index], __ATOMIC_ACQUIRE) >= room && !given_up())
			spin(&spins);
		if (given_up())
			break;
		p->wrong += !rdma_cq_post(p->c, shared_cq(), &e, false);
	}
	p->done = k;
	return NULL;
}

static bool take_all(uint64_t next[WORKERS], uint64_t *got)
{
	struct sp_rdma_wc wc[8];
	const int count = sp_rdma_poll_cq(cq, wc, 8);
	bool right = count >= 0;

	for (int i = 0; i < count; i++)
		right &= entry_right(&wc[i], next);
	*got += (uint64_t)count;
	for (uint32_t w = 0; w < WORKERS; w++)
		__atomic_store_n(&taken[w], next[w], __ATOMIC_RELEASE);
	return right;
}

TEST(each_entry_of_two_workers_is_there_once_and_whole)
{
	uint64_t next[WORKERS] = {0}, got = 0, spins = 0;
	struct sp_rdma_notice n;
	bool right = true;
	sp_time until;

	begin(64);
	todo = rounds_asked(1000000);
	until = time_asked();
	start(post_entries);
	while (got < WORKERS * todo && right) {
		right = take_all(next, &got);
		spin(&spins);
		if (spins % 4096 == 0 && sp_clock() > until)
			break;
	}
	__atomic_store_n(&enough, true, __ATOMIC_RELEASE);
	join();
	for (unsigned i = 0; i < 64 / 8; i++)
		right &= take_all(next, &got);
	printf("# %llu entries\n", (unsigned long long)got);
	CU_ASSERT(right);
	CU_ASSERT_EQUAL(got, worker[0].done + worker[1].done);
	CU_ASSERT_EQUAL(sp_rdma_notice_take(rdma, &n), 0); /* nobody armed it */
	end();
}

/* Until the queue has ended. done: how many it was told that it had posted. */
static void *post_too_many(void *arg)
{
	struct worker *p = arg;

	for (uint64_t k = 0; k < todo; k++) {
		const struct sp_rdma_cqe e = entry_of(p->index, k);

		if (!rdma_cq_post(p->c, shared_cq(), &e, false)) {
			p->wrong += !rdma_cq_failed(shared_cq());
			return NULL;
		}
		__atomic_store_n(&p->done, k + 1, __ATOMIC_RELEASE);
	}
	p->wrong++; /* so many do not fit */
	__atomic_store_n(&enough, true, __ATOMIC_RELEASE);
	return NULL;
}

/* QPs on both workers, one with this queue and one with another. */
static void make_pairs(struct sp_rdma_cq *other, struct sp_rdma_pair *pair[8])
{
	struct sp_rdma_qp_init init = {.type = SP_RDMA_RC, .send_wr = 2, .recv_wr = 2};
	const struct sp_rdma_qp_attr a = {.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_PKEY | SP_RDMA_QP_PORT |
						  SP_RDMA_QP_ACCESS,
					  .state = SP_RDMA_INIT};

	for (unsigned i = 0; i < 8; i++) {
		init.send_cq = i < 6 ? cq : other;
		init.recv_cq = i < 4 ? cq : other;
		init.user = &pair[i];
		CU_ASSERT_EQUAL_FATAL(sp_rdma_qp_create(pd, &init, &pair[i]), 0);
		CU_ASSERT_EQUAL_FATAL(sp_rdma_qp_modify(pair[i], &a), 0);
	}
}

/* lie: the application says that it has taken what was never there. */
static void overflow(bool lie)
{
	unsigned ended = 0, fatal[8] = {0}, count = 0;
	const uint8_t *behind;
	struct sp_rdma_pair *pair[8];
	struct sp_rdma_cq *other;
	struct sp_rdma_notice n;
	struct sp_rdma_wc wc[32];
	uint64_t next[WORKERS] = {0}, seed = 5, wrong = 0;

	begin(16);
	CU_ASSERT_EQUAL_FATAL(sp_rdma_cq_create(rdma, 16, true, NULL, &other), 0);
	make_pairs(other, pair);
	todo = 1000000;
	start(post_too_many);
	if (lie)
		while (!rdma_cq_failed(shared_cq()) && !given_up())
			__atomic_store_n(&cq->head->consumer, (uint32_t)dut_random(&seed), __ATOMIC_RELEASE);
	join();
	behind = (const uint8_t *)&cq->entry[16];
	for (unsigned i = 0; i < 64 && behind < cq->memory.addr + cq->memory.len; i++, behind++)
		CU_ASSERT_EQUAL(*behind, 0);
	count = (unsigned)sp_rdma_poll_cq(cq, wc, 32);
	if (!lie) { /* what was posted is there, and nothing else */
		CU_ASSERT_EQUAL(count, 16);
		for (unsigned i = 0; i < count; i++)
			wrong += !entry_right(&wc[i], next);
		CU_ASSERT_EQUAL(wrong, 0);
		CU_ASSERT_EQUAL(worker[0].done, next[0]);
		CU_ASSERT_EQUAL(worker[1].done, next[1]);
	}
	dut_settle(&dut, SP_SEC);
	while (sp_rdma_notice_take(rdma, &n) == 1) {
		CU_ASSERT_EQUAL(n.kind, SP_RDMA_NOTICE_ASYNC);
		if (n.cq) {
			CU_ASSERT(n.cq == cq && n.async == SP_RDMA_ASYNC_CQ_ERR);
			ended++;
		} else if (n.qp) {
			CU_ASSERT_EQUAL(n.async, SP_RDMA_ASYNC_QP_FATAL);
			fatal[(struct sp_rdma_pair **)n.user - pair]++;
		}
	}
	CU_ASSERT_EQUAL(ended, 1);
	for (unsigned i = 0; i < 8; i++) {
		struct sp_rdma_qp_attr a;

		CU_ASSERT_EQUAL(fatal[i], i < 6);
		CU_ASSERT_EQUAL(sp_rdma_qp_query(pair[i], &a), 0);
		CU_ASSERT_EQUAL(a.state, i < 6 ? SP_RDMA_ERR : SP_RDMA_INIT);
	}
	CU_ASSERT_EQUAL(dut_counter(&dut, rdma->id, "cq_overflows"), 1);
	end();
}

TEST(two_workers_that_overflow_a_queue_end_it_and_its_qps_once)
{
	for (unsigned i = 0; i < suite_times(20); i++)
		overflow(false);
}

TEST(a_consumer_that_lies_to_two_workers_costs_its_own_queue)
{
	for (unsigned i = 0; i < suite_times(20); i++)
		overflow(true);
}

/* ---- shared receive queues ---- */

enum { SGES = 3, DEPTH = 64 };
static struct sp_rdma_srq *srq;
static uint8_t *seen; /* [most], atomic */
static uint64_t seen_all, most;

static struct sp_rdma_sge sge_of(uint64_t k, uint32_t i)
{
	return (struct sp_rdma_sge){k * 31 + i, (uint32_t)(k % 1000 + i), (uint32_t)(k * 5 + i)};
}

static void *take_entries(void *arg)
{
	struct worker *p = arg;
	struct rdma_rq *q = &state->srq[srq->object.id - 1];
	struct rdma_receive r;
	uint64_t spins = 0;

	while (__atomic_load_n(&seen_all, __ATOMIC_ACQUIRE) < __atomic_load_n(&todo, __ATOMIC_ACQUIRE) && !given_up()) {
		const int rc = rdma_rq_take(p->c, q, &r);

		if (!rc) {
			spin(&spins);
			continue;
		}
		p->wrong += rc != 1 || r.wr_id >= most || r.sges != r.wr_id % SGES + 1;
		for (uint32_t i = 0; i < r.sges && !p->wrong; i++) {
			const struct sp_rdma_sge s = sge_of(r.wr_id, i);

			p->wrong += memcmp(&s, &r.sge[i], sizeof(s)) != 0;
		}
		if (p->wrong) {
			__atomic_store_n(&enough, true, __ATOMIC_RELEASE);
			break;
		}
		p->wrong += __atomic_fetch_add(&seen[r.wr_id], 1, __ATOMIC_RELAXED);
		p->done++;
		__atomic_fetch_add(&seen_all, 1, __ATOMIC_ACQ_REL);
	}
	return NULL;
}

TEST(each_entry_of_a_shared_receive_queue_is_taken_once_and_whole)
{
	const struct sp_rdma_srq_attr attr = {.entries = DEPTH, .sges = SGES, .limit = DEPTH / 2};
	uint64_t posted = 0, limits = 0, spins = 0;
	struct sp_rdma_notice n;
	sp_time until;

	begin(16);
	CU_ASSERT_EQUAL_FATAL(sp_rdma_srq_create(pd, &attr, &srq), 0);
	most = todo = suite_times(1000000);
	until = time_asked();
	seen = calloc(most, 1);
	CU_ASSERT_FATAL(seen != NULL);
	seen_all = 0;
	start(take_entries);
	while (posted < most && !given_up()) {
		struct sp_rdma_sge sge[SGES];
		const struct sp_rdma_recv_wr wr = {.wr_id = posted, .sge = sge, .sges = (unsigned)(posted % SGES) + 1};

		for (uint32_t i = 0; i < wr.sges; i++)
			sge[i] = sge_of(posted, i);
		if (!sp_rdma_post_srq_recv(srq, &wr, NULL)) {
			posted++;
			continue;
		}
		spin(&spins);
		if (spins % 4096 == 0 && sp_clock() > until)
			break;
	}
	__atomic_store_n(&todo, posted, __ATOMIC_RELEASE); /* and no more */
	join();
	printf("# %llu entries\n", (unsigned long long)posted);
	CU_ASSERT_EQUAL(seen_all, posted);
	CU_ASSERT_EQUAL(worker[0].done + worker[1].done, posted);
	while (sp_rdma_notice_take(rdma, &n) == 1) {
		CU_ASSERT(n.srq == srq && n.async == SP_RDMA_ASYNC_SRQ_LIMIT);
		limits++;
	}
	CU_ASSERT_EQUAL(limits, 1); /* a limit tells once, whoever goes below it */
	free(seen);
	end();
}
