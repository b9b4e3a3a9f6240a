/* SPDX-License-Identifier: BSD-3-Clause */
/* The requester of rdma, alone against a peer that was written from the specification (rdma_request.h). */
#include "rdma_request_peer.h"

static void post_any(void)
{
	static const uint8_t ops[] = {SP_RDMA_WR_WRITE,	    SP_RDMA_WR_WRITE_IMM, SP_RDMA_WR_SEND, SP_RDMA_WR_SEND_IMM,
				      SP_RDMA_WR_SEND_INV,  SP_RDMA_WR_READ,	  SP_RDMA_WR_READ, SP_RDMA_WR_CAS,
				      SP_RDMA_WR_FETCH_ADD, SP_RDMA_WR_LOCAL_INV};
	const uint8_t op = ops[draw(sizeof(ops))];
	/* The last entry that fits asks for a completion, or the application would not know. */
	uint8_t flags = (draw(2) || w->posted - w->done > DEPTH / 2 ? SP_RDMA_SIGNALED : 0) |
			(draw(8) ? 0 : SP_RDMA_FENCE) | (draw(4) ? 0 : SP_RDMA_SOLICITED);
	uint32_t len = draw(3) ? draw(4 * w->qp.mtu) : draw(4) ? draw(100) : draw(SLOT - 16);

	if (op == SP_RDMA_WR_CAS || op == SP_RDMA_WR_FETCH_ADD)
		len = 8;
	else if (op == SP_RDMA_WR_LOCAL_INV)
		len = 0;
	else if (op != SP_RDMA_WR_READ && len <= 100 && draw(2))
		flags |= SP_RDMA_INLINED;
	post(op, flags, draw(20) || len == 8 ? len : 0);
}

static void finish(void)
{
	post(SP_RDMA_WR_SEND, SP_RDMA_SIGNALED, 1);
	for (unsigned i = 0; i < 1000 && w->done < w->posted && !w->bad; i++)
		run_for(SP_SEC / 1000);
	CU_ASSERT_EQUAL(w->done, w->posted);
	CU_ASSERT_EQUAL(w->error, 0);
	CU_ASSERT_EQUAL(w->received, w->sends);
	CU_ASSERT(!memcmp(w->written, w->wanted, MEMORY));
	run_for(SP_SEC / 100);
	CU_ASSERT(rdma_sq_settled(&w->c, &w->qp));
	CU_ASSERT_EQUAL(w->qp.sq.ops, 0);
	CU_ASSERT_EQUAL(w->qp.sq.reads, 0);
	CU_ASSERT_EQUAL(w->qp.sq_at, SP_NEVER);
}

static void any(uint64_t seed, unsigned count, unsigned loss, unsigned repeat, unsigned late, unsigned rnr)
{
	static const uint32_t mtus[] = {256, 512, 1024, 4096};

	begin(seed, mtus[seed % 4], seed % 3 ? 0xFFFFF0 : (uint32_t)seed * 12345 & 0xFFFFFF);
	w->loss = loss;
	w->repeat = repeat;
	w->late = late;
	w->rnr = rnr;
	w->eagain = seed % 2 ? 50 : 0;
	while (w->posted < count && !w->bad) {
		for (unsigned n = draw(20); n-- && room();)
			post_any();
		run_for(draw(50) * SP_US);
	}
	finish();
	if (!loss && !repeat && !late && !rnr)
		CU_ASSERT_EQUAL(w->counters[RDMA_REPEATED] + w->counters[RDMA_TIMEOUTS], 0);
	if (w->bad || w->done < w->posted)
		printf("# seed %lu: posted %u, done %u, packets %u, repeated %lu, timeouts %lu\n", seed, w->posted,
		       w->done, w->packets, w->counters[RDMA_REPEATED], w->counters[RDMA_TIMEOUTS]);
	end();
}

TEST(anything_arrives_as_posted_and_completes_in_order)
{
	for (uint64_t seed = 0; seed < 8; seed++)
		any(seed, 400, 0, 0, 0, 0);
}

TEST(nothing_is_sent_twice_on_a_good_link)
{
	begin(1, 1024, 5);
	for (unsigned i = 0; i < 1000; i++) {
		while (room())
			post_any();
		run_for(100 * SP_US);
	}
	CU_ASSERT_EQUAL(w->counters[RDMA_REPEATED], 0);
	CU_ASSERT_EQUAL(w->counters[RDMA_TIMEOUTS], 0);
	finish();
	end();
}

TEST(receivers_that_are_not_ready)
{
	for (uint64_t seed = 0; seed < 8; seed++)
		any(seed, 300, 0, 0, 0, 100);
}

TEST(a_link_that_loses)
{
	for (uint64_t seed = 0; seed < suite_times(16); seed++)
		any(seed, 400, 20, 0, 0, 0);
}

TEST(a_link_that_repeats_and_reorders)
{
	for (uint64_t seed = 0; seed < suite_times(16); seed++)
		any(seed, 400, 0, 30, 30, 0);
}

TEST(a_link_that_does_it_all)
{
	for (uint64_t seed = 100; seed < 100 + suite_times(16); seed++)
		any(seed, 300, 15, 15, 15, 30);
}
