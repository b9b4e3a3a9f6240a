/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that an agent in the application serves: what the agent is asked, what peers get, and what a slow, silent or
 * hostile agent brings about. The test is the agent, too. */
#include "../lib/rdma_nic.h"

#define WAY(i)	(RN_PSN + (i))
#define LOG	12u
#define ROOM	(1u << LOG)
#define STAGING (512u << 10) /* offset in the data */
#define VA	0x5000000000ull
#define LEN	(64u << 10)

static uint32_t key;
static uint8_t theirs[LEN]; /* what is at VA in the application; no NIC has made it */
static struct sp_event asked;

/* [VA, VA + LEN): the agent's, then as much that the NIC has made. */
static int reg(struct sp_rdma_keys *keys)
{
	struct {
		struct sp_rdma_mr_reg head;
		struct sp_rdma_segment segment[2];
	} r = {{VA, 2 * LEN, rn_pd, 15, 2, 0}, {{LEN, 0, SP_RDMA_FETCHED, 0}, {LEN, RN_DATA, rn_mem, 0}}};

	return rn_control(SP_RDMA_MR_REG, 0, &r, sizeof(r), keys, sizeof(*keys));
}

static void begin_with(const char *settings, uint32_t type)
{
	struct sp_rdma_agent agent = {.offset = RN_DATA + STAGING, .log = LOG};
	struct sp_rdma_keys keys;

	rn_begin(settings);
	agent.mem = rn_mem;
	CU_ASSERT_EQUAL(reg(&keys), -EOPNOTSUPP); /* there is no agent */
	agent.log = 31;
	CU_ASSERT_EQUAL(rn_control(SP_RDMA_AGENT, 0, &agent, sizeof(agent), NULL, 0), -EINVAL);
	agent.log = LOG;
	agent.mem = 12345;
	CU_ASSERT_EQUAL(rn_control(SP_RDMA_AGENT, 0, &agent, sizeof(agent), NULL, 0), -ENOENT);
	agent.mem = rn_mem;
	agent.offset = RN_MEMORY - sp_rdma_agent_bytes(16, LOG) + 64;
	CU_ASSERT_EQUAL(rn_control(SP_RDMA_AGENT, 0, &agent, sizeof(agent), NULL, 0), -EFAULT);
	agent.offset = RN_DATA + STAGING;
	CU_ASSERT_EQUAL_FATAL(rn_control(SP_RDMA_AGENT, 0, &agent, sizeof(agent), NULL, 0), 0);
	CU_ASSERT_EQUAL(rn_control(SP_RDMA_AGENT, 0, &agent, sizeof(agent), NULL, 0), -EBUSY);
	CU_ASSERT_EQUAL_FATAL(reg(&keys), 0);
	key = keys.rkey;
	rn_connect(type);
	for (uint32_t i = 0; i < LEN; i++) {
		theirs[i] = rn_byte(i + 5000);
		rn_memory[RN_DATA + i] = rn_byte(i + 5000 + LEN);
	}
}

static void begin(void)
{
	begin_with("", SP_RDMA_RC);
}

static void end(void)
{
	const uint32_t qp = rn_qpn;

	if (qp)
		CU_ASSERT_EQUAL(rn_destroy(), 0);
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_MR_DEREG, key), 0);
	rn_stop();
}

#define RULE(name) TEST_BETWEEN(begin, end, name)

/* The next event asks for this. */
static bool asks(unsigned kind, uint64_t at, uint32_t len)
{
	if (sp_event_take(dut.dev, rn_context, &asked) != 1)
		return printf("# the agent is asked nothing\n"), false;
	if (asked.type == SP_RDMA_EVENT_FETCH && asked.arg[0] == (rn_qpn | (uint64_t)kind << 32) &&
	    asked.arg[1] == VA + at && asked.arg[2] == (len | (uint64_t)key << 32) &&
	    asked.arg[3] >= RN_DATA + STAGING && asked.arg[3] + len <= RN_DATA + STAGING + sp_rdma_agent_bytes(16, LOG))
		return true;
	printf("# event %x: kind %llu at %llx len %llu\n", asked.type, (unsigned long long)asked.arg[0] >> 32,
	       (unsigned long long)(asked.arg[1] - VA), (unsigned long long)asked.arg[2] & UINT32_MAX);
	return false;
}

static int answer_with(uint64_t id, uint64_t status, uint64_t value)
{
	struct sp_command c = {.op = SP_RDMA_CMD_FETCHED,
			       .context = rn_context,
			       .flags = SP_CMD_ON(rn_worker),
			       .arg = {rn_qpn, id, status, value}};

	return sp_command_call(dut.dev, &c, NULL);
}

/* As an agent does: copies, and answers. */
static int serve(void)
{
	uint8_t *staging = rn_memory + asked.arg[3], *own = theirs + (asked.arg[1] - VA);
	const uint32_t len = (uint32_t)asked.arg[2];
	uint64_t before = 0;

	switch (asked.arg[0] >> 32) {
	case SP_RDMA_FETCH_READ:
		for (uint32_t i = 0; i < len; i++) /* it may lie in what the NIC has made */
			staging[i] =
				asked.arg[1] - VA + i < LEN ? own[i] : rn_memory[RN_DATA + asked.arg[1] - VA + i - LEN];
		break;
	case SP_RDMA_FETCH_WRITE:
		memcpy(own, staging, len);
		break;
	default:
		memcpy(&before, own, 8);
		if (asked.arg[0] >> 32 == SP_RDMA_FETCH_ADD)
			*(uint64_t *)(void *)own = before + *(uint64_t *)(void *)staging;
		else if (before == *(uint64_t *)(void *)(staging + 8))
			memcpy(own, staging, 8);
	}
	return answer_with(asked.cookie, 0, before);
}

static void pass(sp_time t)
{
	dut_run(&dut, rn_now, rn_now + t);
	rn_now += t;
}

static bool quiet(void)
{
	return rn_no_event() && rn_silent();
}

static void read_of(uint32_t psn, uint64_t at, uint32_t len)
{
	uint8_t reth[16];

	rn_reth(reth, VA + at, key, len);
	rn_packet(SP_RC_READ_REQUEST, psn, reth, 16, NULL, 0);
}

/* The next responses bring [at, at + len) of the region, PSNs from psn on; `more` follow. */
static bool responses(uint32_t psn, uint64_t at, uint32_t len)
{
	for (uint32_t i = 0; i < len; i += RN_MTU, psn++) {
		const uint32_t bytes = len - i < RN_MTU ? len - i : RN_MTU;
		struct rn_answer a = {0};
		bool ok = rn_answered(&a) && a.psn == (psn & 0xFFFFFF) && a.len == bytes && a.opcode >= 0x0D &&
			  a.opcode <= 0x10;

		for (uint32_t k = 0; ok && k < bytes; k++)
			ok = a.payload[k] ==
			     (at + i + k < LEN ? theirs[at + i + k] : rn_byte((uint32_t)(at + i + k) + 5000));
		if (!ok)
			return printf("# response at %u: opcode %x psn %x len %u\n", i, a.opcode, a.psn, a.len), false;
	}
	return true;
}

static bool failed(uint32_t psn)
{
	return rn_acked(0x63, psn) && rn_attr().state == SP_RDMA_ERR &&
	       rn_event(SP_RDMA_EVENT_ASYNC, SP_RDMA_ASYNC_QP_FATAL) && rn_count("fetches_failed") == 1;
}

RULE(a_read_waits_for_the_agent)
{
	read_of(WAY(0), 100, 1000);
	CU_ASSERT(rn_silent());
	CU_ASSERT(asks(SP_RDMA_FETCH_READ, 100, 1000));
	CU_ASSERT(quiet());
	read_of(WAY(4), 3, 5); /* one after the other */
	CU_ASSERT(quiet());
	CU_ASSERT_EQUAL(serve(), 0);
	rn_go();
	CU_ASSERT(responses(WAY(0), 100, 1000));
	CU_ASSERT(asks(SP_RDMA_FETCH_READ, 3, 5));
	CU_ASSERT_EQUAL(serve(), 0);
	rn_go();
	CU_ASSERT(responses(WAY(4), 3, 5));
	CU_ASSERT(quiet());
	CU_ASSERT_EQUAL(rn_count("fetches"), 2);
}

RULE(a_long_read_is_fetched_in_parts_and_again_if_it_is_asked_again)
{
	uint8_t reth[16];

	read_of(WAY(0), 10, 2 * ROOM + 1);
	for (uint32_t i = 0; i < 3; i++) {
		CU_ASSERT(asks(SP_RDMA_FETCH_READ, 10 + i * ROOM, i == 2 ? 1 : ROOM));
		CU_ASSERT(quiet());
		CU_ASSERT_EQUAL(serve(), 0);
		rn_go();
		CU_ASSERT(responses(WAY(i * (ROOM / RN_MTU)), 10 + i * ROOM, i == 2 ? 1 : ROOM));
	}
	theirs[10 + RN_MTU] ^= 1; /* what is there by then */
	rn_reth(reth, VA + 10 + RN_MTU, key, RN_MTU);
	rn_packet(SP_RC_READ_REQUEST, WAY(1), reth, 16, NULL, 0);
	CU_ASSERT(asks(SP_RDMA_FETCH_READ, 10 + RN_MTU, RN_MTU));
	CU_ASSERT_EQUAL(serve(), 0);
	rn_go();
	CU_ASSERT(responses(WAY(1), 10 + RN_MTU, RN_MTU));
	CU_ASSERT(quiet());
}

/* What the NIC has made it reads by itself; of what lies astride the agent brings all. */
RULE(a_region_may_be_the_agents_in_part)
{
	read_of(WAY(0), LEN, 600);
	CU_ASSERT(responses(WAY(0), LEN, 600));
	read_of(WAY(3), LEN - 300, 600);
	CU_ASSERT(asks(SP_RDMA_FETCH_READ, LEN - 300, 600));
	CU_ASSERT_EQUAL(serve(), 0);
	rn_go();
	CU_ASSERT(responses(WAY(3), LEN - 300, 600));
	CU_ASSERT(quiet());
	/* A part behind the agent's: it is not asked for that. */
	read_of(WAY(6), LEN - ROOM, 2 * ROOM);
	CU_ASSERT(asks(SP_RDMA_FETCH_READ, LEN - ROOM, ROOM));
	CU_ASSERT_EQUAL(serve(), 0);
	rn_go();
	CU_ASSERT(responses(WAY(6), LEN - ROOM, 2 * ROOM));
	CU_ASSERT(quiet());
}

RULE(an_atomic_is_the_agents_and_is_done_once)
{
	struct rn_answer a;
	uint64_t value = 41;

	memcpy(theirs + 64, &value, 8);
	rn_atomic(SP_RC_FETCH_ADD, WAY(0), VA + 64, key, 1, 0);
	CU_ASSERT(asks(SP_RDMA_FETCH_ADD, 64, 8));
	rn_atomic(SP_RC_FETCH_ADD, WAY(0), VA + 64, key, 1, 0); /* a repeated one */
	CU_ASSERT(quiet());
	CU_ASSERT_EQUAL(serve(), 0);
	rn_go();
	CU_ASSERT(rn_answered(&a) && a.opcode == 0x12 && a.psn == WAY(0) && sp_load_be64(a.payload) == 41);
	rn_atomic(SP_RC_FETCH_ADD, WAY(0), VA + 64, key, 1, 0); /* from what is remembered */
	CU_ASSERT(rn_answered(&a) && sp_load_be64(a.payload) == 41);
	rn_atomic(SP_RC_COMPARE_SWAP, WAY(1), VA + 64, key, 77, 42);
	CU_ASSERT(asks(SP_RDMA_FETCH_CAS, 64, 8));
	CU_ASSERT_EQUAL(serve(), 0);
	rn_go();
	CU_ASSERT(rn_answered(&a) && a.psn == WAY(1) && sp_load_be64(a.payload) == 42);
	memcpy(&value, theirs + 64, 8);
	CU_ASSERT_EQUAL(value, 77);
	rn_atomic(SP_RC_FETCH_ADD, WAY(2), VA + LEN, key, 1, 0); /* the NIC's own */
	CU_ASSERT(rn_answered(&a) && a.psn == WAY(2));
	CU_ASSERT(quiet());
}

static void write_of(uint8_t opcode, uint32_t psn, uint64_t at, uint32_t all, uint32_t len)
{
	uint8_t reth[16];

	rn_reth(reth, VA + at, key, all);
	rn_packet(opcode, psn, reth, opcode == SP_RC_WRITE_FIRST || opcode == SP_RC_WRITE_ONLY ? 16 : 0, NULL, len);
}

RULE(a_write_is_acknowledged_when_the_agent_has_it)
{
	rn_feed(SP_RC_WRITE_FIRST, WAY(0), ((uint8_t[16]){0}), 0, NULL, 0); /* too short: nothing */
	rn_go();
	CU_ASSERT(rn_dropped("short-header") == 1);
	write_of(SP_RC_WRITE_FIRST, WAY(0), 50, RN_MTU + 10, RN_MTU);
	CU_ASSERT(asks(SP_RDMA_FETCH_WRITE, 50, RN_MTU));
	rn_ack = true;
	write_of(SP_RC_WRITE_LAST, WAY(1), 0, 0, 10);
	CU_ASSERT(quiet()); /* the agent is busy */
	CU_ASSERT_EQUAL(serve(), 0);
	rn_go();
	CU_ASSERT(rn_silent());
	CU_ASSERT(asks(SP_RDMA_FETCH_WRITE, 50 + RN_MTU, 10));
	/* What is asked behind a WRITE sees what it has written, and acknowledges it: it waits. */
	read_of(WAY(2), 50, 20);
	CU_ASSERT(quiet());
	CU_ASSERT_EQUAL(serve(), 0);
	rn_go();
	CU_ASSERT(asks(SP_RDMA_FETCH_READ, 50, 20));
	CU_ASSERT_EQUAL(serve(), 0);
	rn_go();
	for (uint32_t i = 0; i < RN_MTU; i++)
		CU_ASSERT_EQUAL(theirs[50 + i], rn_byte(i));
	CU_ASSERT_EQUAL(theirs[50 + RN_MTU], rn_byte(0));
	CU_ASSERT(responses(WAY(2), 50, 20)); /* and no ACK before: it acknowledges all */
	rn_ack = true;
	write_of(SP_RC_WRITE_ONLY, WAY(3), 8, 4, 4);
	CU_ASSERT(asks(SP_RDMA_FETCH_WRITE, 8, 4));
	CU_ASSERT(quiet());
	CU_ASSERT_EQUAL(serve(), 0);
	rn_go();
	CU_ASSERT(rn_acked(0x1F, WAY(3)));
}

/* Two parts of the staging area: one is the agent's, the other is filled. Then what comes is dropped, and asked for
 * when the agent is done. It is no RNR NAK: the peer may have asked for no attempts after one. */
RULE(writes_that_find_the_staging_area_full_come_again)
{
	const uint32_t part = ROOM / RN_MTU;
	uint32_t i;

	write_of(SP_RC_WRITE_FIRST, WAY(0), 0, 40 * RN_MTU, RN_MTU);
	CU_ASSERT(asks(SP_RDMA_FETCH_WRITE, 0, RN_MTU));
	for (i = 1; i <= part; i++)
		write_of(SP_RC_WRITE_MIDDLE, WAY(i), 0, 0, RN_MTU);
	write_of(SP_RC_WRITE_MIDDLE, WAY(i), 0, 0, RN_MTU); /* no room */
	CU_ASSERT(quiet());
	CU_ASSERT_EQUAL(serve(), 0);
	rn_go();
	CU_ASSERT(asks(SP_RDMA_FETCH_WRITE, RN_MTU, ROOM));
	CU_ASSERT_EQUAL(serve(), 0);
	rn_go();
	CU_ASSERT(rn_acked(0x60, WAY(i)));
	for (; i < 40; i++) {
		rn_ack = i == 39;
		write_of(i == 39 ? SP_RC_WRITE_LAST : SP_RC_WRITE_MIDDLE, WAY(i), 0, 0, RN_MTU);
		CU_ASSERT(asks(SP_RDMA_FETCH_WRITE, i * RN_MTU, RN_MTU));
		CU_ASSERT_EQUAL(serve(), 0);
		rn_go();
	}
	CU_ASSERT(rn_acked(0x1F, WAY(39)));
	for (uint32_t k = 0; k < 40 * RN_MTU; k++)
		CU_ASSERT_EQUAL(theirs[k], rn_byte(k % RN_MTU));
}

/* A completion is not seen before what came earlier has been asked: in one burst, too. */
RULE(a_completion_comes_behind_what_the_agent_is_asked)
{
	uint8_t ext[28];

	for (unsigned i = 0; i < 4; i++)
		rn_receive(i, 70000, 100);
	rn_reth(ext, VA, key, 4);
	rn_feed(SP_RC_WRITE_ONLY, WAY(0), ext, 16, "abcd", 4);
	rn_ack = true;
	rn_feed(SP_RC_SEND_ONLY, WAY(1), NULL, 0, "e", 1);
	rn_go();
	CU_ASSERT(asks(SP_RDMA_FETCH_WRITE, 0, 4));
	CU_ASSERT(rn_completed(0, SP_RDMA_OK, SP_RDMA_WC_RECV, 1));
	CU_ASSERT(rn_silent()); /* nor is it acknowledged before */
	/* The next WRITE cannot be asked yet, so neither it nor what is behind it completes. */
	rn_reth(ext, VA + 8, key, 4);
	rn_feed(SP_RC_WRITE_ONLY, WAY(2), ext, 16, "fghi", 4);
	rn_feed(SP_RC_SEND_ONLY, WAY(3), NULL, 0, "j", 1);
	rn_go();
	CU_ASSERT_PTR_NULL(rn_completion());
	CU_ASSERT_EQUAL(serve(), 0);
	rn_go();
	CU_ASSERT(asks(SP_RDMA_FETCH_WRITE, 8, 4));
	CU_ASSERT_EQUAL(serve(), 0);
	rn_go();
	CU_ASSERT(rn_acked(0x60, WAY(3))); /* come again */
	rn_packet(SP_RC_SEND_ONLY, WAY(3), NULL, 0, "j", 1);
	CU_ASSERT(rn_completed(1, SP_RDMA_OK, SP_RDMA_WC_RECV, 1));
	/* With immediate data. */
	rn_reth(ext, VA + 16, key, RN_MTU + 1);
	rn_feed(SP_RC_WRITE_FIRST, WAY(4), ext, 16, theirs, RN_MTU);
	rn_feed(SP_RC_WRITE_LAST_IMM, WAY(5), "1234", 4, "k", 1);
	rn_go();
	CU_ASSERT(asks(SP_RDMA_FETCH_WRITE, 16, RN_MTU + 1));
	CU_ASSERT(rn_completed(2, SP_RDMA_OK, SP_RDMA_WC_RECV_WRITE_IMM, RN_MTU + 1));
	rn_reth(ext, VA + 24, key, 1);
	memset(ext + 16, 5, 4);
	rn_packet(SP_RC_WRITE_ONLY_IMM, WAY(6), ext, 20, "l", 1);
	CU_ASSERT_PTR_NULL(rn_completion());
	CU_ASSERT_EQUAL(serve(), 0);
	rn_go();
	CU_ASSERT(rn_acked(0x60, WAY(6)));
	CU_ASSERT(quiet());
	rn_packet(SP_RC_WRITE_ONLY_IMM, WAY(6), ext, 20, "l", 1);
	CU_ASSERT(asks(SP_RDMA_FETCH_WRITE, 24, 1));
	CU_ASSERT(rn_completed(3, SP_RDMA_OK, SP_RDMA_WC_RECV_WRITE_IMM, 1));
	CU_ASSERT_EQUAL(serve(), 0);
	rn_go();
}

RULE(what_is_behind_an_atomic_waits_for_it)
{
	struct rn_answer a;
	uint8_t ext[28];

	rn_receive(0, 70000, 100);
	sp_store_be64(ext, VA);
	sp_store_be32(ext + 8, key);
	sp_store_be64(ext + 12, 1);
	sp_store_be64(ext + 20, 0);
	for (unsigned i = 0; i < 2; i++) { /* a SEND, a WRITE */
		rn_feed(SP_RC_FETCH_ADD, WAY(i * 2), ext, 28, NULL, 0);
		if (i) {
			uint8_t reth[16];

			rn_reth(reth, VA, key, 4);
			rn_feed(SP_RC_WRITE_ONLY, WAY(3), reth, 16, "abcd", 4);
		} else {
			rn_feed(SP_RC_SEND_ONLY, WAY(1), NULL, 0, "e", 1);
		}
		rn_go();
		CU_ASSERT(asks(SP_RDMA_FETCH_ADD, 0, 8));
		CU_ASSERT_PTR_NULL(rn_completion());
		CU_ASSERT(quiet());
		CU_ASSERT_EQUAL(serve(), 0);
		rn_go();
		CU_ASSERT(rn_answered(&a) && a.opcode == 0x12 && a.psn == WAY(i * 2));
		CU_ASSERT(rn_acked(0x60, WAY(i * 2 + 1)));
		if (i)
			continue;
		rn_packet(SP_RC_SEND_ONLY, WAY(1), NULL, 0, "e", 1);
		CU_ASSERT(rn_completed(0, SP_RDMA_OK, SP_RDMA_WC_RECV, 1));
	}
}

/* ---- agents that do not do their work ---- */
static void silence(unsigned kind)
{
	begin_with("fetch-timeout=1ms", SP_RDMA_RC);
	rn_receive(1, 70000, 100);
	rn_packet(SP_RC_SEND_ONLY, WAY(0), NULL, 0, NULL, 4);
	CU_ASSERT(rn_completed(1, SP_RDMA_OK, SP_RDMA_WC_RECV, 4));
	if (kind == SP_RDMA_FETCH_READ)
		read_of(WAY(1), 0, 1000);
	else if (kind == SP_RDMA_FETCH_WRITE)
		write_of(SP_RC_WRITE_ONLY, WAY(1), 0, 100, 100);
	else
		rn_atomic(SP_RC_FETCH_ADD, WAY(1), VA, key, 1, 0);
	CU_ASSERT(asks(kind, 0, kind == SP_RDMA_FETCH_READ ? 1000 : kind == SP_RDMA_FETCH_WRITE ? 100 : 8));
}

TEST(silence_ends_in_a_remote_operational_error)
{
	static const unsigned kinds[] = {SP_RDMA_FETCH_READ, SP_RDMA_FETCH_WRITE, SP_RDMA_FETCH_ADD};

	for (unsigned i = 0; i < 6; i++) {
		silence(kinds[i % 3]);
		if (i < 3) {
			pass(900 * SP_US);
			CU_ASSERT(quiet());
			pass(200 * SP_US);
		} else { /* it says that it cannot */
			CU_ASSERT_EQUAL(answer_with(asked.cookie, EFAULT, 0), 0);
			rn_go();
		}
		CU_ASSERT(failed(WAY(1)));
		CU_ASSERT_EQUAL(serve(), -ENOENT); /* late */
		rn_go();
		CU_ASSERT(quiet());
		end();
	}
}

RULE(answers_that_nobody_waits_for_change_nothing)
{
	const uint32_t gone = rn_qpn;
	uint64_t id;

	CU_ASSERT_EQUAL(answer_with(0, 0, 0), -ENOENT);
	CU_ASSERT_EQUAL(answer_with(1, 0, 0), -ENOENT);
	read_of(WAY(0), 0, 100);
	CU_ASSERT(asks(SP_RDMA_FETCH_READ, 0, 100));
	id = asked.cookie;
	CU_ASSERT_EQUAL(answer_with(id + 1, 0, 0), -ENOENT);
	CU_ASSERT_EQUAL(answer_with(id - 1, EIO, 0), -ENOENT);
	rn_qpn++;
	CU_ASSERT_EQUAL(answer_with(id, 0, 0), -ENOENT); /* no such QP */
	rn_qpn--;
	CU_ASSERT(quiet());
	CU_ASSERT_EQUAL(serve(), 0);
	CU_ASSERT_EQUAL(serve(), -ENOENT); /* twice */
	CU_ASSERT_EQUAL(answer_with(id, EIO, 0), -ENOENT);
	rn_go();
	CU_ASSERT(responses(WAY(0), 0, 100));
	CU_ASSERT_EQUAL(rn_attr().state, SP_RDMA_RTS);
	read_of(WAY(1), 0, 100);
	CU_ASSERT(asks(SP_RDMA_FETCH_READ, 0, 100));
	id = asked.cookie;
	CU_ASSERT_EQUAL(rn_state(SP_RDMA_RESET), 0);
	CU_ASSERT_EQUAL(answer_with(id, 0, 0), -ENOENT);
	rn_to(SP_RDMA_RTS);
	read_of(WAY(0), 0, 100); /* anew: an answer to what was asked before is none to this */
	CU_ASSERT(asks(SP_RDMA_FETCH_READ, 0, 100));
	CU_ASSERT_EQUAL(answer_with(id, 0, 0), -ENOENT);
	CU_ASSERT_EQUAL(rn_destroy(), 0);
	rn_qpn = gone;
	CU_ASSERT_EQUAL(serve(), -ENOENT);
	rn_qpn = 0;
	CU_ASSERT(quiet());
}

/* The NIC asks once more when there is room for events. */
RULE(a_full_event_queue_delays_what_is_asked)
{
	const struct sp_event *e = &asked;
	unsigned n = 0;

	for (uint32_t i = 0; i < 70000 && !rn_count("events_owed"); i++) { /* events of a queue that is armed */
		((struct sp_rdma_cq_head *)(void *)(rn_memory + RN_CQ))->armed = SP_RDMA_ARM_ANY;
		rn_receive(i, 70000, 100);
		rn_packet(SP_RC_SEND_ONLY, WAY(i), NULL, 0, NULL, 1);
		CU_ASSERT_PTR_NOT_NULL(rn_completion());
		n++;
	}
	read_of(WAY(n), 0, 100);
	while (sp_event_take(dut.dev, rn_context, &asked) == 1)
		CU_ASSERT_EQUAL(e->type, SP_RDMA_EVENT_CQ);
	pass(100 * SP_US);
	while (sp_event_take(dut.dev, rn_context, &asked) == 1 && e->type == SP_RDMA_EVENT_CQ)
		;
	CU_ASSERT_EQUAL(e->type, SP_RDMA_EVENT_FETCH);
	CU_ASSERT_EQUAL(serve(), 0);
	rn_go();
	CU_ASSERT(responses(WAY(n), 0, 100));
}

RULE(a_region_that_ends_meanwhile_is_read_no_more)
{
	struct sp_rdma_keys keys;

	read_of(WAY(0), 0, 100);
	CU_ASSERT(asks(SP_RDMA_FETCH_READ, 0, 100));
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_MR_DEREG, key), 0);
	CU_ASSERT_EQUAL(serve(), 0);
	rn_go();
	CU_ASSERT(rn_acked(0x62, WAY(0)));
	CU_ASSERT_EQUAL(reg(&keys), 0);
	key = keys.rkey;
}

/* Its own requests and receives name staging memory of their own. */
RULE(the_applications_own_work_does_not_name_it)
{
	struct sp_rdma_sge sge = {VA, 100, key};

	rn_request(&(struct sp_rdma_wqe){.op = SP_RDMA_WR_SEND, .wr_id = 5}, &sge);
	rn_go();
	CU_ASSERT(rn_completed(5, SP_RDMA_LOC_PROT_ERR, SP_RDMA_WC_SEND, 100));
	CU_ASSERT(quiet());
	CU_ASSERT_EQUAL(rn_destroy(), 0);
	rn_connect(SP_RDMA_RC);
	rn_receive_sges(6, &sge, 1);
	rn_packet(SP_RC_SEND_ONLY, WAY(0), NULL, 0, NULL, 4);
	CU_ASSERT(rn_completed(6, SP_RDMA_LOC_PROT_ERR, SP_RDMA_WC_RECV, 0));
	CU_ASSERT(rn_acked(0x63, WAY(0)));
}

TEST(an_unreliable_write_is_the_agents_too)
{
	uint8_t reth[16];

	begin_with("fetch-timeout=1ms", SP_RDMA_UC);
	for (unsigned i = 0; i < 2; i++) {
		rn_reth(reth, VA + i, key, 10);
		rn_packet(0x2A, WAY(i), reth, 16, NULL, 10);
		CU_ASSERT(asks(SP_RDMA_FETCH_WRITE, i, 10));
		if (!i)
			pass(2 * SP_MS); /* as if it were lost */
	}
	CU_ASSERT_EQUAL(serve(), 0);
	CU_ASSERT_EQUAL(theirs[1], rn_byte(0));
	CU_ASSERT_EQUAL(rn_attr().state, SP_RDMA_RTS);
	CU_ASSERT(quiet());
	end();
}

/* A READ's place in the NIC serves another one later, which does not get what the first one has left there. */
RULE(what_was_fetched_is_for_one_read)
{
	for (uint32_t i = 0; i < 10; i++) {
		if (i % 4) { /* the NIC's own, until the first one's place is next */
			read_of(WAY(i), LEN + i, 10);
		} else {
			read_of(WAY(i), 100 * i, 10);
			CU_ASSERT(asks(SP_RDMA_FETCH_READ, 100 * i, 10));
			CU_ASSERT_EQUAL(serve(), 0);
			rn_go();
		}
		CU_ASSERT(responses(WAY(i), i % 4 ? LEN + i : 100 * i, 10));
	}
	CU_ASSERT(quiet());
}

TEST(what_comes_ahead_is_the_agents_in_its_turn)
{
	rn_selective = true;
	begin_with("", SP_RDMA_RC);
	rn_selective = false;
	write_of(SP_RC_WRITE_FIRST, WAY(0), 0, 2 * RN_MTU + 10, RN_MTU);
	CU_ASSERT(asks(SP_RDMA_FETCH_WRITE, 0, RN_MTU) && !serve());
	rn_go();
	CU_ASSERT(rn_silent());
	write_of(SP_RC_WRITE_LAST, WAY(2), 0, 0, 10);
	CU_ASSERT(rn_no_event() && !rn_count("placed_ahead") && rn_count("kept_ahead") == 1);
	write_of(SP_RC_WRITE_MIDDLE, WAY(1), 0, 0, RN_MTU);
	CU_ASSERT(asks(SP_RDMA_FETCH_WRITE, RN_MTU, RN_MTU + 10) && !serve());
	rn_go();
	CU_ASSERT_EQUAL(theirs[2 * RN_MTU], rn_byte(0));
	end();
}
