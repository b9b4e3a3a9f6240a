/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA with threads: two NICs of two workers each, whose packets come to whichever worker asks first and are handed
 * over to their QP's; an application at each end, whose QPs are on both workers and share a completion queue and a
 * receive queue. For the thread sanitizer, and for the bytes.
 */
#include "../../host-api/rdma.h"
#include "../lib/two_nics.h"

enum { PAIRS = 6, SLOTS = 4, ROOMS = 2 * SLOTS, SIZE = 3000, ENTRIES = 64 };
#ifdef __SANITIZE_THREAD__
#define FEW 150 /* what is not ordered is told the first time */
#else
#define FEW 1000
#endif

struct link {
	struct sp_rdma_pair *qp;
	uint64_t sent, came; /* messages */
	uint64_t acked;	     /* by completions of ours */
};

struct side {
	struct sp_dev *dev;
	struct sp_rdma *rdma;
	struct sp_rdma_pd *pd;
	struct sp_rdma_cq *cq;
	struct sp_rdma_srq *srq;
	struct sp_mr *memory;
	struct sp_rdma_mr *mr;
	uint8_t *out, *in, *written; /* [PAIRS][ROOMS][SIZE]; receives [ENTRIES][SIZE]; WRITEs [PAIRS][ROOMS][SIZE] */
	struct link link[PAIRS];
	uint64_t each; /* messages of each QP */
	uint64_t slept;
	const char *wrong;
};

static struct side side[2];

static uint32_t length(uint64_t k)
{
	return k % 3 ? 8 + (uint32_t)(k % 100) : SIZE - (uint32_t)(k % 1000);
}

static uint8_t byte(uint64_t k, uint32_t i, unsigned pair, unsigned from)
{
	return (uint8_t)(k * 13 + i * 7 + (i >> 8) + pair * 3 + from);
}

static bool writes(uint64_t k)
{
	return k % 2;
}

static int receive(struct side *s, uint64_t entry)
{
	const struct sp_rdma_sge sge = {(uintptr_t)s->in + entry * SIZE, SIZE, s->mr->lkey};
	const struct sp_rdma_recv_wr wr = {.wr_id = entry, .sge = &sge, .sges = 1};

	int rc;

	/* A worker that was stopped while it copies an entry holds up the one that comes to the same place. */
	for (unsigned again = 0; (rc = sp_rdma_post_srq_recv(s->srq, &wr, NULL)) == -EAGAIN && again < 100000; again++)
		sched_yield();
	return rc;
}

static void open_side(unsigned e)
{
	const struct sp_rdma_attr attr = {.qps = 64};
	const struct sp_rdma_srq_attr receives = {.entries = ENTRIES, .sges = 1};
	const uint64_t area = (uint64_t)PAIRS * ROOMS * SIZE;
	struct side *s = &side[e];
	struct sp_error error = {.text = "no memory"};

	*s = (struct side){.dev = two_ends[e].dev, .each = getenv("SPINDLE_LONG") ? 100000 : FEW};
	if (sp_rdma_open(s->dev, &attr, &s->rdma, &error) || sp_rdma_pd_alloc(s->rdma, &s->pd) ||
	    sp_rdma_cq_create(s->rdma, 1024, true, NULL, &s->cq) || sp_rdma_srq_create(s->pd, &receives, &s->srq) ||
	    sp_mr_alloc(s->dev, 2 * area + ENTRIES * SIZE, &s->memory) ||
	    sp_rdma_mr_reg(s->pd, s->memory, 0, s->memory->len, SP_RDMA_LOCAL_WRITE | SP_RDMA_REMOTE_WRITE, &s->mr))
		two_bail(&error);
	s->out = s->memory->addr;
	s->written = s->out + area;
	s->in = s->written + area;
	for (uint64_t i = 0; i < ENTRIES; i++)
		CU_ASSERT_EQUAL_FATAL(receive(s, i), 0);
}

static void close_side(struct side *s)
{
	CU_ASSERT_EQUAL(sp_rdma_close(s->rdma), 0);
	CU_ASSERT_EQUAL(sp_mr_free(s->memory), 0);
}

static struct sp_rdma_pair *pair_on(struct side *s, bool shared)
{
	const struct sp_rdma_qp_init init = {.type = SP_RDMA_RC,
					     .send_cq = s->cq,
					     .recv_cq = s->cq,
					     .srq = shared ? s->srq : NULL,
					     .send_wr = 2 * SLOTS,
					     .recv_wr = ENTRIES};
	struct sp_rdma_pair *qp = NULL;

	CU_ASSERT_EQUAL_FATAL(sp_rdma_qp_create(s->pd, &init, &qp), 0);
	return qp;
}

/* From RESET to RTS. The peer is at 10.0.0.`host`. */
static int connect_to(struct sp_rdma_pair *qp, uint8_t host, uint32_t peer)
{
	struct sp_rdma_qp_attr a = {.ip = {[10] = 0xFF, 0xFF, 10, 0, 0, host},
				    .dest_qp = peer,
				    .path_mtu = 1024,
				    .access = SP_RDMA_REMOTE_WRITE,
				    .max_rd_atomic = 1,
				    .max_dest_rd_atomic = 1,
				    .min_rnr_timer = 1,
				    .timeout = 20, /* 4 s: no frame is lost, a busy machine must not look like it */
				    .retry_cnt = 7,
				    .rnr_retry = 7};
	int rc;

	a.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_PKEY | SP_RDMA_QP_PORT | SP_RDMA_QP_ACCESS;
	a.state = SP_RDMA_INIT;
	rc = sp_rdma_qp_modify(qp, &a);
	a.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_AV | SP_RDMA_QP_PATH_MTU | SP_RDMA_QP_DEST_QP | SP_RDMA_QP_RQ_PSN |
		 SP_RDMA_QP_MAX_DEST_RD | SP_RDMA_QP_MIN_RNR;
	a.state = SP_RDMA_RTR;
	rc = rc ? rc : sp_rdma_qp_modify(qp, &a);
	a.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_SQ_PSN | SP_RDMA_QP_TIMEOUT | SP_RDMA_QP_RETRY_CNT |
		 SP_RDMA_QP_RNR_RETRY | SP_RDMA_QP_MAX_RD;
	a.state = SP_RDMA_RTS;
	return rc ? rc : sp_rdma_qp_modify(qp, &a);
}

#define MUST(condition)                                                                                                \
	do {                                                                                                           \
		if (!(condition)) {                                                                                    \
			s->wrong = #condition;                                                                         \
			return false;                                                                                  \
		}                                                                                                      \
	} while (0)

/* Message k of a pair: a SEND, or a WRITE whose immediate tells of it. The peer has looked at message k - ROOMS, which
 * was written there before: without it, it would not have sent its own message k - SLOTS, which has come. */
static bool post(struct side *s, unsigned e, unsigned p, uint64_t k)
{
	const uint64_t at = ((uint64_t)p * ROOMS + k % ROOMS) * SIZE;
	const struct sp_rdma_sge sge = {(uintptr_t)s->out + at, length(k), s->mr->lkey};
	const struct sp_rdma_send_wr wr = {.wr_id = 1000 + p,
					   .op = writes(k) ? SP_RDMA_WR_WRITE_IMM : SP_RDMA_WR_SEND_IMM,
					   .flags = SP_RDMA_SIGNALED,
					   .sge = &sge,
					   .sges = 1,
					   .imm = p,
					   .remote = (uintptr_t)side[!e].written + at,
					   .rkey = side[!e].mr->rkey};

	for (uint32_t i = 0; i < length(k); i++)
		s->out[at + i] = byte(k, i, p, e);
	MUST(!sp_rdma_post_send(s->link[p].qp, &wr, NULL));
	return true;
}

static bool post_more(struct side *s, unsigned e)
{
	for (unsigned p = 0; p < PAIRS; p++) {
		struct link *l = &s->link[p];

		while (l->sent < s->each && l->sent < l->acked + SLOTS && l->sent < l->came + SLOTS)
			if (!post(s, e, p, l->sent++))
				return false;
	}
	return true;
}

static bool came(struct side *s, unsigned e, const struct sp_rdma_wc *wc)
{
	struct link *l = wc->imm < PAIRS ? &s->link[wc->imm] : NULL;
	const uint8_t *bytes = s->in + wc->wr_id * SIZE;
	uint64_t k;

	MUST(l && wc->flags == SP_RDMA_WC_IMM && wc->qp == sp_rdma_qp_number(l->qp) && wc->wr_id < ENTRIES);
	k = l->came++;
	MUST(wc->op == (writes(k) ? SP_RDMA_WC_RECV_WRITE_IMM : SP_RDMA_WC_RECV) && wc->len == length(k));
	if (writes(k))
		bytes = s->written + ((uint64_t)wc->imm * ROOMS + k % ROOMS) * SIZE;
	for (uint32_t i = 0; i < wc->len; i++)
		MUST(bytes[i] == byte(k, i, wc->imm, !e));
	MUST(!receive(s, wc->wr_id));
	return true;
}

static bool all_there(const struct side *s)
{
	for (unsigned p = 0; p < PAIRS; p++)
		if (s->link[p].came < s->each || s->link[p].acked < s->each)
			return false;
	return true;
}

static bool talk(struct side *s, unsigned e)
{
	struct sp_rdma_wc wc[16];

	while (!all_there(s)) {
		int n;

		if (!post_more(s, e))
			return false;
		n = sp_rdma_poll_cq(s->cq, wc, 16);
		MUST(n >= 0);
		if (!n) {
			s->slept++;
			MUST(!sp_rdma_cq_wait(s->cq, PATIENCE));
		}
		for (int i = 0; i < n; i++) {
			MUST(wc[i].status == SP_RDMA_OK);
			if (wc[i].op & SP_RDMA_WC_RECV) {
				if (!came(s, e, &wc[i]))
					return false;
			} else {
				MUST(wc[i].wr_id >= 1000 && wc[i].wr_id < 1000 + PAIRS);
				s->link[wc[i].wr_id - 1000].acked++;
			}
		}
	}
	return true;
}

static void *program(void *arg)
{
	struct side *s = arg;

	talk(s, (unsigned)(s - side));
	return NULL;
}

static void make(void)
{
	two_make();
	two_cable.wire[0].spread = two_cable.wire[1].spread = true;
	open_side(0);
	open_side(1);
}

static void unmake(void)
{
	for (unsigned e = 0; e < 2; e++) {
		CU_ASSERT_PTR_NULL(side[e].wrong);
		if (side[e].wrong)
			printf("# side %u: not %s\n", e, side[e].wrong);
		close_side(&side[e]);
	}
	two_unmake();
}

static void programs_and_workers_of_two_nics(void)
{
	pthread_t thread;

	make();
	for (unsigned p = 0; p < PAIRS; p++) {
		for (unsigned e = 0; e < 2; e++)
			side[e].link[p].qp = pair_on(&side[e], true);
		for (unsigned e = 0; e < 2; e++)
			CU_ASSERT_EQUAL_FATAL(connect_to(side[e].link[p].qp, (uint8_t)(2 - e),
							 sp_rdma_qp_number(side[!e].link[p].qp)),
					      0);
	}
	CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, program, &side[1]), 0);
	program(&side[0]);
	pthread_join(thread, NULL);
	for (unsigned e = 0; e < 2; e++) {
		CU_ASSERT(side[e].slept > 0);
		for (unsigned p = 0; p < PAIRS; p++)
			CU_ASSERT_EQUAL(sp_rdma_qp_destroy(side[e].link[p].qp), 0);
	}
	unmake();
}

TEST(messages_go_both_ways_on_qps_of_both_workers)
{
	two_mode = THREADS;
	programs_and_workers_of_two_nics();
}

#ifndef __SANITIZE_THREAD__
/* The application has the queues at other addresses than the NIC. The sanitizer does not see that a buffer which one
 * worker has filled goes through them to the other, and calls it a race, now and then. */
TEST(messages_go_both_ways_between_attached_applications)
{
	two_mode = ATTACHED;
	programs_and_workers_of_two_nics();
}
#endif

/* ---- the end of a QP ---- */

/* The other side sends as long as there is room; its QP ends when nothing is answered any more. */
static bool send_until_refused(struct side *s, struct sp_rdma_pair *qp, unsigned e)
{
	const struct sp_rdma_sge sge = {(uintptr_t)s->out, SIZE, s->mr->lkey};
	const struct sp_rdma_send_wr wr = {.op = e ? SP_RDMA_WR_SEND : SP_RDMA_WR_WRITE,
					   .flags = SP_RDMA_SIGNALED,
					   .sge = &sge,
					   .sges = 1,
					   .remote = (uintptr_t)side[!e].written,
					   .rkey = side[!e].mr->rkey};
	int rc;

	while (!(rc = sp_rdma_post_send(qp, &wr, NULL)))
		;
	MUST(rc == -EAGAIN);
	return true;
}

/* Both ends of a connection end while completions of both queues are being made, at another moment in each round. */
static bool end_in_the_middle(struct side *s, uint64_t round)
{
	struct sp_rdma_pair *qp[2];
	uint32_t number[2];
	struct sp_rdma_wc wc;

	for (unsigned e = 0; e < 2; e++) {
		qp[e] = pair_on(&side[e], true);
		number[e] = sp_rdma_qp_number(qp[e]);
	}
	for (unsigned e = 0; e < 2; e++)
		MUST(!connect_to(qp[e], (uint8_t)(2 - e), number[!e]));
	for (unsigned e = 0; e < 2; e++)
		if (!send_until_refused(&side[e], qp[e], e))
			return false;
	for (uint64_t pause = round * 7919 % 20000; pause; pause--)
		__asm__ volatile("" ::: "memory");
	if (round % 2) /* ... and at least one is there */
		MUST(!sp_rdma_cq_wait(side[0].cq, PATIENCE));
	for (unsigned e = 0; e < 2; e++) {
		int rc;

		while ((rc = sp_rdma_qp_destroy(qp[e])) == -EAGAIN)
			;
		MUST(!rc);
		/* What came before is there; what comes later would be found in a later round. */
		while (sp_rdma_poll_cq(side[e].cq, &wc, 1) == 1) {
			MUST(wc.qp == number[e]);
			if (wc.op & SP_RDMA_WC_RECV && wc.status == SP_RDMA_OK)
				MUST(!receive(&side[e], wc.wr_id));
		}
	}
	return true;
}

TEST(a_qp_that_is_destroyed_completes_nothing_later)
{
	struct sp_rdma_wc wc;

	two_mode = THREADS;
	make();
	for (uint64_t round = 0; round < FEW / 4 && end_in_the_middle(&side[0], round); round++)
		;
	usleep(20000);
	for (unsigned e = 0; e < 2; e++) {
		CU_ASSERT_EQUAL(sp_rdma_poll_cq(side[e].cq, &wc, 1), 0);
		CU_ASSERT_EQUAL(sp_rdma_cq_destroy(side[e].cq), 0);
		CU_ASSERT_EQUAL(sp_rdma_srq_destroy(side[e].srq), 0);
	}
	unmake();
}
