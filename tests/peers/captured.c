/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A NIC with a QP that talks with whoever writes to stdin, in virtual time: for captured.py. What it reads, a line
 * each, and what it says (numbers are hexadecimal):
 *
 *   area VA LEN             memory there
 *   key VA LEN RIGHTS       a region of it: key KEY
 *   qp PSN MTU DEST V6      the QP in RTR, from whatever state: qp NUMBER
 *   sends PSN               the QP in RTS
 *   receives N              so many receive entries, one after the other
 *   store VA BYTES          the application stores
 *   post OP FLAGS IMM REMOTE RKEY LEN COMPARE-ADD SWAP BYTES
 *                           a work request of LEN bytes, which begin with BYTES
 *   frame BYTES             a packet arrives
 *   memory VA LEN           memory BYTES
 *   end                     all begins anew
 *
 * Each is ended by a line "ok". What comes of `post` and `frame`:
 *
 *   sent BYTES              a frame
 *   receive LEN IMM KEY BYTES
 *                           a receive entry; BYTES is "-" for a WRITE; KEY has been invalidated
 *   ended STATUS            a receive entry that has got nothing
 *   done STATUS BYTES       a work request; BYTES are in its memory then
 */
#include "../lib/rdma_nic.h"

#include <endian.h>

#define REQUESTS (512u << 10) /* of the data: where the memory of work requests begins */
#define REQUEST	 16384u
#define RECEIVES (768u << 10) /* and of receive entries */
#define ENTRY	 8192u
#define TURN	 32u /* so many of an entry's memory */
#define AREAS	 64u

static struct {
	struct {
		uint64_t va, len, at; /* at: in the data */
	} area[AREAS];
	uint32_t key[AREAS], len[16];
	unsigned areas, keys, posted, wanted, requests;
	uint64_t used;
} m;

static unsigned bytes_of(const char *hex, uint8_t *to, unsigned room)
{
	unsigned n = 0, x;

	for (; n < room && sscanf(hex, "%2x", &x) == 1; hex += 2)
		to[n++] = (uint8_t)x;
	return n;
}

static void say(const char *word, const uint8_t *bytes, uint64_t len)
{
	printf("%s ", word);
	for (uint64_t i = 0; i < len; i++)
		printf("%02x", bytes[i]);
	printf("\n");
}

/* Where it is in the data. */
static uint64_t place_of(uint64_t va)
{
	for (unsigned i = 0; i < m.areas; i++)
		if (va - m.area[i].va < m.area[i].len)
			return m.area[i].at + (va - m.area[i].va);
	CU_FAIL_FATAL("no such memory");
	return 0;
}

static uint8_t *memory_at(uint64_t va)
{
	return rn_memory + RN_DATA + place_of(va);
}

static void add_area(uint64_t va, uint64_t len)
{
	m.used = (m.used + 127) / 64 * 64 + va % 64; /* an aligned address has aligned memory */
	CU_ASSERT_FATAL(m.areas < AREAS && m.used + len < REQUESTS);
	memset(rn_memory + RN_DATA + m.used, 0, len);
	m.area[m.areas].va = va;
	m.area[m.areas].len = len;
	m.area[m.areas++].at = m.used;
	m.used += len;
}

static void add_key(uint64_t va, uint64_t len, uint32_t rights)
{
	struct sp_rdma_keys keys;

	CU_ASSERT_FATAL(m.keys < AREAS);
	CU_ASSERT_EQUAL_FATAL(rn_register(va, RN_DATA + place_of(va), len, rn_pd, rights | 1, &keys), 0);
	m.key[m.keys++] = keys.rkey;
	printf("key %x\n", keys.rkey);
}

static void ready(uint32_t psn, uint32_t mtu, uint32_t dest, bool six)
{
	struct sp_rdma_qp_attr a = {.access = 15,
				    .dest_qp = dest,
				    .rq_psn = psn,
				    .path_mtu = mtu,
				    .max_dest_rd_atomic = 16,
				    .min_rnr_timer = 12};

	memcpy(a.ip, six ? dut_peer6 : dut_peer4, 16);
	CU_ASSERT_EQUAL_FATAL(rn_state(SP_RDMA_RESET), 0);
	memset(rn_memory + RN_SQS, 0, RN_DATA - RN_SQS);
	rn_restart();
	m.posted = m.wanted = m.requests = 0;
	a.state = SP_RDMA_INIT;
	a.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_PKEY | SP_RDMA_QP_PORT | SP_RDMA_QP_ACCESS;
	CU_ASSERT_EQUAL_FATAL(rn_modify(&a), 0);
	a.state = SP_RDMA_RTR;
	a.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_AV | SP_RDMA_QP_PATH_MTU | SP_RDMA_QP_DEST_QP | SP_RDMA_QP_RQ_PSN |
		 SP_RDMA_QP_MAX_DEST_RD | SP_RDMA_QP_MIN_RNR;
	CU_ASSERT_EQUAL_FATAL(rn_modify(&a), 0);
	printf("qp %x\n", rn_qpn);
}

static void sends(uint32_t psn)
{
	const struct sp_rdma_qp_attr a = {.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_SQ_PSN | SP_RDMA_QP_TIMEOUT |
						  SP_RDMA_QP_RETRY_CNT | SP_RDMA_QP_RNR_RETRY | SP_RDMA_QP_MAX_RD,
					  .state = SP_RDMA_RTS,
					  .sq_psn = psn,
					  .max_rd_atomic = 16,
					  .timeout = 20, /* 4 s: nothing is sent again */
					  .retry_cnt = 7,
					  .rnr_retry = 7};

	CU_ASSERT_EQUAL_FATAL(rn_modify(&a), 0);
}

static void post(void)
{
	static unsigned out;
	const struct rdma_qp *qp = rn_state_of();

	out = m.posted - qp->own.next;
	for (; m.posted < m.wanted && out < 16; m.posted++, out++)
		rn_receive(m.posted, RECEIVES + m.posted % TURN * ENTRY, ENTRY);
}

static void completed(const struct sp_rdma_cqe *e)
{
	char word[64];

	if (e->op < SP_RDMA_WC_RECV) {
		snprintf(word, sizeof(word), "done %x", e->status);
		say(word, rn_memory + RN_DATA + REQUESTS + e->wr_id % 16 * REQUEST, m.len[e->wr_id % 16]);
		return;
	}
	if (e->status) {
		printf("ended %x\n", e->status);
		return;
	}
	CU_ASSERT(e->wr_id < m.posted);
	snprintf(word, sizeof(word), "receive %x %x %x", e->len, e->flags & SP_RDMA_WC_IMM ? sp_load_be32(&e->imm) : 0,
		 e->flags & SP_RDMA_WC_INV ? e->imm : 0);
	if (e->op == SP_RDMA_WC_RECV)
		say(word, rn_memory + RN_DATA + RECEIVES + e->wr_id % TURN * ENTRY, e->len);
	else
		printf("%s -\n", word);
}

/* What has come of it. sent: frames that had left before. */
static void tell(unsigned sent)
{
	const struct sp_rdma_cqe *e;

	for (unsigned i = 0; i < 20; i++)
		dut_settle(&dut, rn_now += SP_US);
	for (unsigned i = sent; i < dut.port.sents; i++)
		say("sent", dut.port.sent[i].bytes, dut.port.sent[i].len);
	while ((e = rn_completion()))
		completed(e);
	post();
}

static void arrives(const uint8_t *frame, unsigned len)
{
	const unsigned sent = dut.port.sents;

	dut_feed_bytes(&dut.port, 0, rn_now, frame, len);
	tell(sent);
}

static void request(const char *line)
{
	const unsigned sent = dut.port.sents;
	const uint64_t at = REQUESTS + m.requests % 16 * REQUEST;
	unsigned op = 0, flags = 0, imm = 0, rkey = 0, len = 0;
	unsigned long long remote = 0, compare_add = 0, swap = 0;
	struct sp_rdma_sge sge;
	struct sp_rdma_wqe w;

	CU_ASSERT_EQUAL_FATAL(sscanf(line, "post %x %x %x %llx %x %x %llx %llx", &op, &flags, &imm, &remote, &rkey,
				     &len, &compare_add, &swap),
			      8);
	CU_ASSERT_FATAL(len <= REQUEST);
	memset(rn_memory + RN_DATA + at, 0, REQUEST);
	bytes_of(strrchr(line, ' ') + 1, rn_memory + RN_DATA + at, len);
	w = (struct sp_rdma_wqe){.op = (uint8_t)op,
				 .flags = (uint8_t)flags,
				 .wr_id = m.requests,
				 .imm = op == SP_RDMA_WR_SEND_INV ? imm : htobe32(imm),
				 .remote = remote,
				 .rkey = rkey,
				 .compare_add = compare_add,
				 .swap = swap};
	sge = (struct sp_rdma_sge){RN_VA + at, len, rn_key};
	m.len[m.requests++ % 16] = len;
	rn_request(&w, len ? &sge : NULL);
	tell(sent);
}

static void obey(char *line)
{
	static uint8_t bytes[1 << 18];
	unsigned long long a = 0, b = 0, c = 0, d = 0;
	char word[16] = "", *rest;
	unsigned n;

	sscanf(line, "%15s %llx %llx %llx %llx", word, &a, &b, &c, &d);
	rest = strrchr(line, ' ');
	if (!strcmp(word, "area")) {
		add_area(a, b);
	} else if (!strcmp(word, "key")) {
		add_key(a, b, (uint32_t)c);
	} else if (!strcmp(word, "qp")) {
		ready((uint32_t)a, (uint32_t)b, (uint32_t)c, d);
	} else if (!strcmp(word, "sends")) {
		sends((uint32_t)a);
	} else if (!strcmp(word, "post") && rest) {
		request(line);
	} else if (!strcmp(word, "receives")) {
		m.wanted = (unsigned)a;
		post();
	} else if (!strcmp(word, "store") && rest) {
		n = bytes_of(rest + 1, bytes, sizeof(bytes));
		memcpy(memory_at(a), bytes, n);
	} else if (!strcmp(word, "frame") && rest) {
		n = bytes_of(rest + 1, bytes, sizeof(bytes));
		arrives(bytes, n);
	} else if (!strcmp(word, "memory")) {
		say("memory", memory_at(a), b);
	} else {
		CU_FAIL("no such word");
	}
	printf("ok\n");
	fflush(stdout);
}

static void begin_one(void)
{
	memset(&m, 0, sizeof(m));
	rn_cq_log = 6;
	rn_begin("");
	rn_qp(SP_RDMA_RC, 0);
}

static void end_one(void)
{
	CU_ASSERT_EQUAL(rn_destroy(), 0);
	for (unsigned i = 0; i < m.keys; i++)
		CU_ASSERT_EQUAL(rn_end(SP_RDMA_MR_DEREG, m.key[i]), 0);
	rn_stop();
}

TEST(answers)
{
	static char line[1 << 19];

	begin_one();
	while (fgets(line, sizeof(line), stdin)) {
		if (strcmp(line, "end\n") != 0) {
			obey(line);
			continue;
		}
		end_one();
		begin_one();
		printf("ok\n");
		fflush(stdout);
	}
	end_one();
}
