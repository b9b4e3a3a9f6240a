/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What Linux's Soft-RoCE once did wrong, as rules for us: the requester's half. The responder's half is in
 * rdma_reads.c: a_duplicate_read_within_a_write_leaves_the_write_alone, the_ack_of_a_duplicate_does_not_pass_a_read.
 */
#include "rdma_request_peer.h"

#define PSN 77u
#define MTU 1024u

static void begin_mute(void)
{
	begin(3, MTU, PSN);
	w->mute = true;
}

/* Response k of the first request, a READ of three packets. */
static void respond(uint8_t opcode, uint32_t k, uint32_t len)
{
	answer(opcode, PSN + k, 31, w->source + w->expected[0].from + k * MTU, len);
	run_for(10 * SP_US);
}

/* A READ whose first response has come, and which is asked for again. */
static void partly_answered(void)
{
	begin_mute();
	post(SP_RDMA_WR_READ, SP_RDMA_SIGNALED, 2 * MTU + 100);
	run_for(SP_US);
	respond(SP_RC_READ_RESPONSE_FIRST, 0, MTU);
	run_for(300 * SP_US); /* a timeout */
	CU_ASSERT_EQUAL(w->counters[RDMA_TIMEOUTS], 1);
	CU_ASSERT_EQUAL(w->done, 0);
}

static void completes(void)
{
	CU_ASSERT_EQUAL(w->done, 1);
	CU_ASSERT_EQUAL(w->error, 0);
	CU_ASSERT_FALSE(w->bad);
	end();
}

TEST(a_partly_answered_read_goes_on_with_first)
{
	partly_answered();
	respond(SP_RC_READ_RESPONSE_FIRST, 1, MTU);
	respond(SP_RC_READ_RESPONSE_LAST, 2, 100);
	completes();
}

TEST(a_partly_answered_read_ends_with_only)
{
	partly_answered();
	respond(SP_RC_READ_RESPONSE_MIDDLE, 1, MTU);
	respond(SP_RC_READ_RESPONSE_ONLY, 2, 100);
	completes();
}

TEST(a_read_begins_anew_within_what_has_come)
{
	partly_answered();
	respond(SP_RC_READ_RESPONSE_FIRST, 0, MTU);
	CU_ASSERT_EQUAL(w->done, 0);
	respond(SP_RC_READ_RESPONSE_MIDDLE, 1, MTU);
	respond(SP_RC_READ_RESPONSE_LAST, 2, 100);
	completes();
}

TEST(an_ack_completes_nothing_past_a_read_without_an_answer)
{
	unsigned packets;

	begin_mute();
	post(SP_RDMA_WR_READ, SP_RDMA_SIGNALED, 100);
	post(SP_RDMA_WR_SEND, SP_RDMA_SIGNALED, 100);
	run_for(SP_US);
	packets = w->packets;
	answer(SP_RC_ACKNOWLEDGE, PSN + 1, 31, NULL, 0);
	run_for(10 * SP_US);
	CU_ASSERT_EQUAL(w->done, 0);
	CU_ASSERT(w->packets > packets); /* it tells that the answer was lost */
	respond(SP_RC_READ_RESPONSE_ONLY, 0, 100);
	CU_ASSERT_EQUAL(w->done, 1);
	answer(SP_RC_ACKNOWLEDGE, PSN + 1, 31, NULL, 0);
	run_for(10 * SP_US);
	CU_ASSERT_EQUAL(w->done, 2);
	CU_ASSERT_EQUAL(w->error, 0);
	end();
}
