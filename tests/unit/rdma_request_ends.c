/* SPDX-License-Identifier: BSD-3-Clause */
/* The requester of rdma: how work requests end that do not end well; states, UC, UD, rates; forged answers. */
#include "rdma_request_peer.h"

static void begin_rc(void)
{
	begin(3, 1024, 77);
}

static void post_sends(unsigned n)
{
	while (n--)
		post(SP_RDMA_WR_SEND, SP_RDMA_SIGNALED, 100);
}

static struct sp_rdma_wqe *wqe(unsigned i)
{
	return (struct sp_rdma_wqe *)(void *)entry_of(i);
}

static struct sp_rdma_sge *sge(unsigned i)
{
	return (struct sp_rdma_sge *)(void *)(entry_of(i) + sizeof(struct sp_rdma_wqe));
}

/* `ok` requests have completed, then one with this status, and then the others were flushed. */
static void expect(unsigned ok, uint8_t status)
{
	CU_ASSERT_EQUAL(w->error, status);
	CU_ASSERT_EQUAL(w->counters[RDMA_REQUESTS_DONE], ok);
	CU_ASSERT_EQUAL(w->done, w->posted);
	CU_ASSERT_EQUAL(w->errors, 1);
	CU_ASSERT(w->done == ok + 1 || w->last.status == SP_RDMA_FLUSHED);
	/* What is posted later is flushed, too. */
	post_sends(2);
	run_for(SP_US);
	CU_ASSERT_EQUAL(w->done, w->posted);
	CU_ASSERT_EQUAL(w->last.status, SP_RDMA_FLUSHED);
	end();
}

/* ---- the peer refuses ---- */
static void refused(uint8_t syndrome, uint8_t status)
{
	begin_rc();
	post_sends(3);
	run_for(100 * SP_US);
	w->refuse = syndrome;
	post_sends(3);
	run_for(SP_SEC / 100);
	expect(3, status);
}

TEST_CALL(invalid_request, refused(0x61, SP_RDMA_REM_INV_REQ_ERR))
TEST_CALL(remote_access, refused(0x62, SP_RDMA_REM_ACCESS_ERR))
TEST_CALL(remote_operation, refused(0x63, SP_RDMA_REM_OP_ERR))

TEST(a_refused_read)
{
	begin_rc();
	w->refuse = 0x62;
	post(SP_RDMA_WR_READ, SP_RDMA_SIGNALED, 5000);
	post_sends(1);
	run_for(SP_SEC / 100);
	expect(0, SP_RDMA_REM_ACCESS_ERR);
}

TEST(a_peer_that_is_silent)
{
	sp_time began, last;

	begin_rc();
	w->mute = true;
	began = last = w->c.now;
	post_sends(2);
	while (!w->done && step(w->c.now + SP_SEC))
		last = w->done ? last : w->c.now;
	CU_ASSERT_EQUAL(w->counters[RDMA_TIMEOUTS], 8);
	/* Eight times 4.096 us * 2^6. */
	CU_ASSERT(last - began >= 8 * 262144000ull && last - began < 9 * 262144000ull);
	run_for(SP_US);
	expect(0, SP_RDMA_RETRY_EXC_ERR);
}

TEST(no_timeout_is_for_ever)
{
	begin_rc();
	w->mute = true;
	w->qp.attr.timeout = 0;
	post_sends(2);
	run_for(1000 * SP_SEC);
	CU_ASSERT_EQUAL(w->done, 0);
	CU_ASSERT_EQUAL(w->qp.sq_at, SP_NEVER);
	rdma_sq_reset(&w->c, &w->qp);
	end();
}

TEST(a_receiver_that_is_never_ready)
{
	begin_rc();
	w->rnr = 1000;
	w->qp.attr.rnr_retry = 2;
	rdma_sq_state(&w->c, &w->qp, SP_RDMA_RTS);
	post_sends(2);
	run_for(SP_SEC / 100);
	CU_ASSERT_EQUAL(w->counters[RDMA_RNRS_RECEIVED], 3);
	expect(0, SP_RDMA_RNR_RETRY_EXC_ERR);
}

TEST(seven_is_infinite)
{
	begin_rc();
	w->rnr = 1000;
	post_sends(2);
	run_for(SP_SEC / 100);
	CU_ASSERT(w->counters[RDMA_RNRS_RECEIVED] > 100);
	w->rnr = 0;
	run_for(SP_SEC / 100);
	CU_ASSERT_EQUAL(w->done, 2);
	CU_ASSERT_EQUAL(w->error, 0);
	end();
}

/* What has come from the peer is handed over at once, before anything is sent. */
static void all_at_once(void)
{
	for (unsigned i = 0; i < w->airs; i++)
		if (w->air[i].used && !w->air[i].to_peer)
			deliver(&w->air[i]);
}

/* The sequence NAK has been heeded, but nothing sent, when the next NAK says to wait. */
TEST(not_ready_behind_what_is_to_be_sent_again)
{
	begin_rc();
	w->mute = true;
	w->qp.attr.rnr_retry = 1;
	post_sends(3);
	run_for(10 * SP_US);
	CU_ASSERT_EQUAL(w->packets, 3);
	answer(SP_RC_ACKNOWLEDGE, 78, 0x60, NULL, 0);
	answer(SP_RC_ACKNOWLEDGE, 79, 0x20 | 10, NULL, 0);
	all_at_once();
	CU_ASSERT_EQUAL(w->qp.sq.rnrs, 0); /* it counts */
	run_for(319 * SP_US);
	CU_ASSERT_EQUAL(w->packets, 3);
	run_for(2 * SP_US);
	CU_ASSERT_EQUAL(w->packets, 4);
	CU_ASSERT_EQUAL(w->done, 2);
	rdma_sq_reset(&w->c, &w->qp);
	end();
}

/* ---- work requests that cannot be ---- */
/* The third of five requests, which the function has spoiled. */
static void spoiled(uint8_t op, uint32_t len, void (*spoil)(unsigned i), uint8_t status)
{
	begin_rc();
	post_sends(2);
	post(op, SP_RDMA_SIGNALED, len);
	spoil(2);
	post_sends(2);
	w->expected[2].op = rdma_wc_op(wqe(2)->op);
	run_for(SP_SEC / 100);
	expect(2, status);
}

static void spoil_op(unsigned i)
{
	wqe(i)->op = 10;
}
static void spoil_key(unsigned i)
{
	sge(i)->lkey = 5;
}
static void spoil_range(unsigned i)
{
	sge(i)->addr = BASE + MEMORY - 3;
}
static void spoil_sges(unsigned i)
{
	wqe(i)->sges = 255;
}
static void spoil_inlined(unsigned i)
{
	wqe(i)->flags |= SP_RDMA_INLINED;
	wqe(i)->length = UINT32_MAX;
}
static void spoil_length(unsigned i)
{
	wqe(i)->sges = 2;
	sge(i)[0].len = sge(i)[1].len = UINT32_MAX;
}
static void spoil_imm(unsigned i)
{
	wqe(i)->imm = 1;
}
TEST_CALL(an_opcode_that_is_none, spoiled(SP_RDMA_WR_WRITE, 8, spoil_op, SP_RDMA_LOC_QP_OP_ERR))
TEST_CALL(a_key_that_is_none, spoiled(SP_RDMA_WR_WRITE, 8, spoil_key, SP_RDMA_LOC_PROT_ERR))
TEST_CALL(a_range_beyond_the_region, spoiled(SP_RDMA_WR_READ, 8, spoil_range, SP_RDMA_LOC_PROT_ERR))
TEST_CALL(more_sges_than_the_queue_has, spoiled(SP_RDMA_WR_SEND, 8, spoil_sges, SP_RDMA_LOC_QP_OP_ERR))
TEST_CALL(more_inline_data_than_there_is_room, spoiled(SP_RDMA_WR_SEND, 8, spoil_inlined, SP_RDMA_LOC_QP_OP_ERR))
TEST_CALL(longer_than_a_message_may_be, spoiled(SP_RDMA_WR_SEND, 8, spoil_length, SP_RDMA_LOC_LEN_ERR))
TEST_CALL(an_atomic_of_four_bytes, spoiled(SP_RDMA_WR_CAS, 4, spoil_imm, SP_RDMA_LOC_LEN_ERR))
TEST_CALL(a_key_that_is_not_to_be_invalidated, spoiled(SP_RDMA_WR_LOCAL_INV, 0, spoil_imm, SP_RDMA_LOC_PROT_ERR))

TEST(a_region_that_ends_while_it_is_sent)
{
	begin_rc();
	w->mute = true;
	post_sends(1);
	run_for(100 * SP_US);
	w->mr.key = 0;
	run_for(SP_SEC / 100);
	expect(0, SP_RDMA_LOC_PROT_ERR);
}

/* ---- order ---- */
TEST(a_fence_waits_for_reads)
{
	begin_rc();
	post(SP_RDMA_WR_READ, SP_RDMA_SIGNALED, 3000);
	post(SP_RDMA_WR_SEND, SP_RDMA_SIGNALED, 3);
	post(SP_RDMA_WR_SEND, SP_RDMA_SIGNALED | SP_RDMA_FENCE, 3);
	run_for(SP_US);
	CU_ASSERT_EQUAL(w->packets, 2);
	run_for(SP_SEC / 100);
	CU_ASSERT_EQUAL(w->packets, 3);
	CU_ASSERT_EQUAL(w->done, 3);
	end();
}

TEST(no_more_reads_at_once_than_agreed)
{
	begin_rc();
	for (unsigned i = 0; i < 9; i++)
		post(i % 3 ? SP_RDMA_WR_READ : SP_RDMA_WR_FETCH_ADD, SP_RDMA_SIGNALED, 8);
	run_for(SP_US);
	CU_ASSERT_EQUAL(w->packets, 4);
	run_for(SP_SEC / 100);
	CU_ASSERT_EQUAL(w->done, 9);
	end();
}

TEST(draining)
{
	begin_rc();
	post_sends(3);
	run_for(SP_US);
	w->qp.state = SP_RDMA_SQD;
	w->qp.attr.sqd_notify = 1;
	rdma_sq_state(&w->c, &w->qp, SP_RDMA_RTS);
	post_sends(2);
	CU_ASSERT_EQUAL(w->told, 0);
	run_for(SP_SEC / 100);
	CU_ASSERT_EQUAL(w->told, 1);
	CU_ASSERT_EQUAL(w->done, 3);
	CU_ASSERT_EQUAL(w->qp.attr.draining, 0);
	w->qp.state = SP_RDMA_RTS;
	rdma_sq_state(&w->c, &w->qp, SP_RDMA_SQD);
	run_for(SP_SEC / 100);
	CU_ASSERT_EQUAL(w->told, 1);
	CU_ASSERT_EQUAL(w->done, 5);
	end();
}

TEST(a_reset_forgets_and_waits_for_ports)
{
	begin_rc();
	post_sends(5);
	run_for(SP_US / 2);
	rdma_sq_reset(&w->c, &w->qp);
	w->qp.state = SP_RDMA_RESET;
	CU_ASSERT_FALSE(rdma_sq_settled(&w->c, &w->qp));
	CU_ASSERT_NOT_EQUAL(w->mr.uses, 0);
	run_for(SP_SEC / 100);
	CU_ASSERT(rdma_sq_settled(&w->c, &w->qp));
	CU_ASSERT_EQUAL(w->done, 0);
	end();
}

/* Nobody looks at the queue's end while all operations are out, so the doorbell stays rung. */
TEST(one_more_after_as_many_as_a_qp_may_have_out)
{
	begin_rc();
	post_sends(RDMA_OPS);
	run_for(SP_SEC / 100);
	CU_ASSERT_EQUAL(w->done, RDMA_OPS);
	post_sends(1);
	run_for(SP_SEC / 100);
	CU_ASSERT_EQUAL(w->done, RDMA_OPS + 1);
	end();
}

TEST(a_pool_without_operations)
{
	struct rdma_op *free;

	begin_rc();
	free = w->s.out.pool->free;
	w->s.out.pool->free = NULL;
	post_sends(3);
	run_for(100 * SP_US);
	CU_ASSERT_EQUAL(w->packets, 0);
	CU_ASSERT_PTR_EQUAL(w->s.out.pool->waiting, &w->qp);
	w->s.out.pool->free = free;
	rdma_pool_pass_on(&w->c);
	CU_ASSERT_PTR_NULL(w->s.out.pool->waiting);
	run_for(SP_SEC / 100);
	CU_ASSERT_EQUAL(w->done, 3);
	end();
}

/* ---- UC, UD ---- */
static void begin_type(uint8_t type)
{
	begin_rc();
	w->mute = true;
	w->qp.type = type;
}

static const struct air *sent(uint8_t opcode)
{
	for (unsigned i = 0; i < IN_AIR; i++)
		if (w->air[i].used && w->air[i].p.opcode == opcode)
			return &w->air[i];
	return NULL;
}

TEST(unreliable_connection)
{
	begin_type(SP_RDMA_UC);
	post(SP_RDMA_WR_SEND_IMM, SP_RDMA_SIGNALED, 3000);
	post(SP_RDMA_WR_WRITE_IMM, SP_RDMA_SIGNALED, 10);
	run_for(SP_US);
	CU_ASSERT(sent(SP_UC_SEND_FIRST) && sent(SP_UC_SEND_MIDDLE) && sent(SP_UC_SEND_LAST_IMM));
	CU_ASSERT(sent(SP_UC_WRITE_ONLY_IMM) && sent(SP_UC_WRITE_ONLY_IMM)->p.len == 30);
	CU_ASSERT(sent(SP_UC_WRITE_ONLY_IMM)->p.psn == 80 && !sent(SP_UC_WRITE_ONLY_IMM)->ask);
	run_for(10 * SP_US); /* the ports have sent them */
	CU_ASSERT_EQUAL(w->done, 2);
	CU_ASSERT_EQUAL(w->qp.sq_at, SP_NEVER);
	post(SP_RDMA_WR_READ, SP_RDMA_SIGNALED, 10);
	run_for(SP_US);
	CU_ASSERT_EQUAL(w->error, SP_RDMA_LOC_QP_OP_ERR);
	CU_ASSERT_EQUAL(w->qp.state, SP_RDMA_SQE);
	w->qp.state = SP_RDMA_RTS; /* it may go on */
	rdma_sq_state(&w->c, &w->qp, SP_RDMA_SQE);
	post(SP_RDMA_WR_SEND, SP_RDMA_SIGNALED, 10);
	run_for(10 * SP_US);
	CU_ASSERT_EQUAL(w->last.status, SP_RDMA_OK);
	CU_ASSERT_EQUAL(w->done, 4);
	end();
}

TEST(who_has_left_sqe_is_not_flushed)
{
	begin_type(SP_RDMA_UC);
	post(SP_RDMA_WR_READ, SP_RDMA_SIGNALED, 10);
	run_for(SP_US);
	CU_ASSERT_EQUAL(w->qp.state, SP_RDMA_SQE);
	w->qp.state = SP_RDMA_RTS;
	rdma_sq_state(&w->c, &w->qp, SP_RDMA_SQE);
	w->qp.state = SP_RDMA_SQD;
	rdma_sq_state(&w->c, &w->qp, SP_RDMA_RTS);
	post(SP_RDMA_WR_SEND, SP_RDMA_SIGNALED, 10);
	run_for(10 * SP_US);
	CU_ASSERT_EQUAL(w->done, 1);
	w->qp.state = SP_RDMA_RTS;
	rdma_sq_state(&w->c, &w->qp, SP_RDMA_SQD);
	run_for(10 * SP_US);
	CU_ASSERT_EQUAL(w->done, 2);
	CU_ASSERT_EQUAL(w->last.status, SP_RDMA_OK);
	end();
}

TEST(datagrams)
{
	const struct air *a;

	begin_type(SP_RDMA_UD);
	w->qp.mtu = 0; /* UD has none */
	w->qp.attr.qkey = 0x5555;
	post(SP_RDMA_WR_SEND, SP_RDMA_SIGNALED, 1000);
	wqe(0)->ah = 1;
	wqe(0)->remote_qp = 0xFFABCDEF;
	wqe(0)->qkey = 0x1111;
	post(SP_RDMA_WR_SEND_IMM, SP_RDMA_SIGNALED, 0);
	wqe(1)->ah = 1;
	wqe(1)->qkey = 0x80000000;
	run_for(SP_US);
	a = sent(SP_UD_SEND_ONLY);
	CU_ASSERT(a && a->p.len == 1008 && a->p.dest_qp == 0xABCDEF && sp_load_be32(a->bytes) == 0x1111 &&
		  sp_load_be32(a->bytes + 4) == QPN && a->p.psn == 77);
	a = sent(SP_UD_SEND_ONLY_IMM);
	CU_ASSERT(a && a->p.len == 12 && sp_load_be32(a->bytes) == 0x5555 && a->p.psn == 78);
	run_for(10 * SP_US);
	CU_ASSERT_EQUAL(w->done, 2);
	post(SP_RDMA_WR_SEND, SP_RDMA_SIGNALED, 4097);
	wqe(2)->ah = 1;
	run_for(SP_US);
	CU_ASSERT_EQUAL(w->error, SP_RDMA_LOC_LEN_ERR);
	CU_ASSERT_EQUAL(w->qp.state, SP_RDMA_SQE);
	end();
}

TEST(a_datagram_to_nowhere)
{
	begin_type(SP_RDMA_UD);
	post(SP_RDMA_WR_SEND, SP_RDMA_SIGNALED, 10);
	run_for(SP_US);
	CU_ASSERT_EQUAL(w->error, SP_RDMA_LOC_QP_OP_ERR);
	end();
}

/* ---- rates ---- */
TEST(a_rate_limit)
{
	begin_rc();
	w->qp.attr.rate = 100; /* Mbit/s */
	post(SP_RDMA_WR_WRITE, SP_RDMA_SIGNALED, 50000);
	run_for(3000 * SP_US);
	CU_ASSERT_EQUAL(w->done, 0);
	run_for(2000 * SP_US); /* 4 ms and a bit for the headers */
	CU_ASSERT_EQUAL(w->done, 1);
	CU_ASSERT_EQUAL(w->counters[RDMA_REPEATED], 0);
	end();
}

TEST(congestion_slows_down_and_passes)
{
	struct sp_packet cnp = {.opcode = SP_ROCE_CNP};
	const uint64_t full = 12500000000ull;

	begin_rc();
	w->s.cc = true;
	rdma_request_answer(&w->c, &w->qp, &cnp);
	CU_ASSERT_EQUAL(w->qp.sq.rate.now, full / 2);
	rdma_request_answer(&w->c, &w->qp, &cnp); /* too soon */
	CU_ASSERT_EQUAL(w->qp.sq.rate.now, full / 2);
	w->c.now += 51 * SP_US;
	rdma_request_answer(&w->c, &w->qp, &cnp);
	CU_ASSERT(w->qp.sq.rate.now < full / 2 && w->qp.sq.rate.now >= full / 4);
	w->c.now += 60 * SP_US;
	post_sends(1);
	run_for(SP_SEC / 10);
	CU_ASSERT(w->qp.sq.rate.now > full / 4);
	w->c.now += SP_SEC;
	post_sends(1);
	run_for(SP_SEC / 10);
	post_sends(1);
	run_for(SP_SEC / 10);
	CU_ASSERT_EQUAL(w->qp.sq.rate.now, 0);
	w->s.cc = false;
	rdma_request_answer(&w->c, &w->qp, &cnp);
	CU_ASSERT_EQUAL(w->qp.sq.rate.now, 0);
	CU_ASSERT_EQUAL(w->counters[RDMA_CNPS_RECEIVED], 4);
	end();
}

/* ---- forged answers ---- */
TEST(ghosts_acknowledge_nothing)
{
	static const int32_t ghost[] = {-1, -1000, 3, 4, 1000, 0x7FFFFF};

	begin_rc();
	w->mute = true;
	post_sends(3);
	run_for(SP_US);
	for (unsigned i = 0; i < sizeof(ghost) / sizeof(ghost[0]); i++)
		for (uint8_t op = SP_RC_READ_RESPONSE_FIRST; op <= SP_RC_ATOMIC_ACKNOWLEDGE; op++) {
			uint8_t bytes[16] = {0};
			struct sp_packet p = {
				.opcode = op, .data = bytes, .len = 12, .psn = rdma_psn(77u + (uint32_t)ghost[i])};

			rdma_request_answer(&w->c, &w->qp, &p);
			CU_ASSERT_EQUAL(p.verdict, SP_DROP(RDMA_STRAY));
		}
	CU_ASSERT_EQUAL(w->qp.sq.una, 77);
	w->mute = false;
	run_for(SP_SEC / 100);
	CU_ASSERT_EQUAL(w->done, 3);
	CU_ASSERT_EQUAL(w->error, 0);
	end();
}

TEST(a_response_of_the_wrong_length)
{
	uint8_t bytes[2048] = {0};
	struct sp_packet p = {.opcode = SP_RC_READ_RESPONSE_FIRST, .data = bytes, .len = 4 + 1023, .psn = 77};

	begin_rc();
	w->mute = true;
	post(SP_RDMA_WR_READ, SP_RDMA_SIGNALED, 3000);
	run_for(SP_US);
	rdma_request_answer(&w->c, &w->qp, &p);
	CU_ASSERT_EQUAL(p.verdict, SP_DROP(RDMA_BAD_ANSWER));
	run_for(SP_US);
	expect(0, SP_RDMA_BAD_RESP_ERR);
}

/* Whatever comes: no byte outside of what a READ was to write, and an end. */
static void forged(uint64_t seed)
{
	static const uint8_t ops[] = {SP_RC_READ_RESPONSE_FIRST,
				      SP_RC_READ_RESPONSE_MIDDLE,
				      SP_RC_READ_RESPONSE_LAST,
				      SP_RC_READ_RESPONSE_ONLY,
				      SP_RC_ACKNOWLEDGE,
				      SP_RC_ATOMIC_ACKNOWLEDGE,
				      SP_ROCE_CNP};
	uint8_t bytes[4200];

	begin(seed, 256, (uint32_t)seed * 99991 & 0xFFFFFF);
	w->s.cc = true;
	w->quiet = true;
	for (unsigned i = 0; i < 2000; i++) {
		struct sp_packet p = {.opcode = ops[draw(7)], .data = bytes};

		while (w->posted < 60000 && room() && draw(3))
			post(draw(2) ? SP_RDMA_WR_READ : SP_RDMA_WR_SEND, SP_RDMA_SIGNALED, draw(2000));
		run_for(draw(3) * SP_US);
		for (unsigned k = 0; k < sizeof(bytes); k += 4)
			*(uint32_t *)(void *)(bytes + k) = draw(1u << 31) * 2 + draw(2);
		bytes[0] = draw(3) ? bytes[0] & 31 : bytes[0];
		p.len = draw(3) ? 4 + 256 * draw(2) : draw(300);
		p.psn = rdma_psn((uint32_t)w->qp.sq.una + draw(40) - 5);
		rdma_request_answer(&w->c, &w->qp, &p);
		w->bad = false;
		if (w->qp.state == SP_RDMA_ERR) {
			run_for(SP_SEC / 100);
			break;
		}
	}
	w->bad = false;
	rdma_qp_error(&w->c, &w->qp, -1);
	run_for(SP_SEC);
	w->bad = false;
	CU_ASSERT_EQUAL(w->qp.sq.ops, 0);
	CU_ASSERT_EQUAL(w->qp.sq.reads, 0);
	end();
}

TEST(forged_answers)
{
	for (uint64_t seed = 1; seed < suite_times(100); seed++)
		forged(seed);
}
