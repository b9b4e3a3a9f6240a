/* SPDX-License-Identifier: BSD-3-Clause */
/* What a long path that loses packets leaves of a QP's rate: WRITEs by go back N and by selective repeat, in virtual
 * time. The printed lines are what docs/rdma.md has. */
#define SIDE   (130u << 20)
#define IN_AIR 32768
#include "rdma_request_loop.h"

#define MESSAGE (4u << 20)
#define PLACES	32u /* where WRITEs go, in turn: no two that are under way overlap */
#define RTT	(25 * SP_MS)
#define TIME	(SP_SEC / 4)
#define GBIT	10u

static void post_write(struct side *x, const struct side *peer)
{
	struct sp_rdma_queue *q = (struct sp_rdma_queue *)(void *)(x->mem + (256 << 10));
	uint8_t *e = x->mem + (256 << 10) + 64 + (size_t)(x->posted % DEPTH) * sp_rdma_sq_stride(4, 64);
	const struct sp_rdma_wqe h = {.op = SP_RDMA_WR_WRITE,
				      .sges = 1,
				      .flags = SP_RDMA_SIGNALED,
				      .wr_id = x->posted,
				      .rkey = peer->lkey,
				      .remote = VA + x->posted % PLACES * MESSAGE};
	const struct sp_rdma_sge g = {VA, MESSAGE, x->lkey};

	memcpy(e + 4, (const uint8_t *)&h + 4, sizeof(h) - 4);
	memcpy(e + sizeof(h), &g, sizeof(g));
	__atomic_store_n((uint32_t *)(void *)e, 1, __ATOMIC_RELEASE);
	__atomic_store_n(&q->tail, ++x->posted, __ATOMIC_RELEASE);
	if (!__atomic_exchange_n(&q->rung, 1, __ATOMIC_SEQ_CST))
		rdma_command(&n->c, &(struct sp_command){.op = SP_RDMA_CMD_DOORBELL, .arg = {x->qp}}, NULL);
}

static void poll(unsigned k)
{
	struct side *x = &n->side[k];
	struct sp_rdma_cq_head *head = (struct sp_rdma_cq_head *)(void *)x->mem;

	for (;; x->cq_at++, x->done++) {
		const struct sp_rdma_cqe *e = (const struct sp_rdma_cqe *)(void *)(x->mem + 64) + x->cq_at % 512;

		if (__atomic_load_n(&e->phase, __ATOMIC_ACQUIRE) != !(x->cq_at / 512 % 2))
			break;
		MUST(!e->status && e->wr_id == x->done);
	}
	__atomic_store_n(&head->consumer, x->cq_at, __ATOMIC_RELEASE);
	while (!k && x->posted - x->done < DEPTH - 1)
		post_write(x, &n->side[1]);
}

/* Packets so far. Selective repeat has holes, but sends for the first time as fast as packets arrive. */
static uint64_t arrived(bool selective)
{
	return selective ? n->counters[RDMA_SENT] : n->s.qp[n->side[0].qp - n->s.first_qp].sq.una;
}

/* Gbit/s of payload. buffers: of packets ahead; 0: go back N. loss: of 100 000 packets. */
static double goodput(unsigned buffers, unsigned loss)
{
	double rate, again;
	uint64_t before;

	loop_selective = buffers;
	loop_buffers = buffers ? buffers : 1;
	begin(7, 4096);
	for (unsigned i = 0; i < MESSAGE; i += 4)
		*(uint32_t *)(void *)(n->side[0].mem + DATA + i) = draw(1u << 31);
	n->loss = loss;
	poll(0);
	run_for(3 * RTT);
	before = arrived(buffers);
	run_for(TIME);
	CU_ASSERT_FALSE(n->bad);
	rate = 8e-9 * 4096 * (double)(arrived(buffers) - before) / ((double)TIME / SP_SEC);
	again = 100.0 * (double)n->counters[RDMA_REPEATED] / (double)(n->counters[RDMA_SENT] + 1);
	for (unsigned i = 0; i < PLACES && i < n->side[0].done; i++)
		CU_ASSERT(!memcmp(n->side[1].mem + DATA + i * MESSAGE, n->side[0].mem + DATA, MESSAGE));
	printf("# loss %.0e, %s", loss / (double)LOSSES, buffers ? "selective repeat" : "go back N");
	if (buffers)
		printf(" with %u buffers", buffers);
	printf(": %.2f Gbit/s, %.2f %% sent again\n", rate, again);
	while (gave)
		free(given[--gave]);
	return rate;
}

TEST(selective_repeat_keeps_the_rate_of_a_long_path_that_loses)
{
	const unsigned losses[] = {0, 10, 100, 1000};
	const double least[] = {0.95, 0.95, 0.95, 0.9}, most[] = {1, 0.7, 0.2, 0.05}; /* of the link; of go back N */

	loop_delay = RTT / 2;
	loop_timeout = 14; /* 67 ms */
	loop_packet = 0;
	loop_byte = 8 * (SP_SEC / 1000000000) / GBIT;
	loop_rate = GBIT * 990; /* no queue builds up */
	loop_window = 32768;
	for (unsigned i = 0; i < 4; i++) {
		const double back = goodput(0, losses[i]), repeat = goodput(8192, losses[i]);

		CU_ASSERT(repeat >= least[i] * GBIT * 4096 / 4178);
		CU_ASSERT(back <= most[i] * GBIT);
	}
	CU_ASSERT(goodput(256, 1000) >= GBIT / 4);
}
