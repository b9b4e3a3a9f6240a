/* SPDX-License-Identifier: BSD-3-Clause */
/* A NIC whose QP answers the frames that come by stdin, in virtual time: for captured.py. What it reads, a line each,
 *and what it says (numbers are hexadecimal): key VA LEN RIGHTS	a region there: key KEY qp PSN MTU DEST V6	a QP in
 *RTR: qp NUMBER receives N		so many receive entries, one after the other
 *	store VA BYTES		the application stores
 *	frame BYTES		a packet arrives: answer BYTES for each that leaves; receive LEN IMM BYTES for each
 *entry that has completed, BYTES is "-" for a WRITE memory VA LEN		memory BYTES Each is ended by a line
 *"ok". */
#include "../lib/rdma_nic.h"

#define RECEIVES (512u << 10) /* of the data: where receive entries begin */
#define ENTRY	 8192u
#define REGIONS	 16u

static struct {
	struct {
		uint64_t va, len, at; /* at: in the data */
		uint32_t key;
	} region[REGIONS];
	unsigned regions, posted, wanted;
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

static uint8_t *memory_at(uint64_t va)
{
	for (unsigned i = 0; i < m.regions; i++)
		if (va - m.region[i].va < m.region[i].len)
			return rn_memory + RN_DATA + m.region[i].at + (va - m.region[i].va);
	CU_FAIL_FATAL("no such region");
	return NULL;
}

static void add_region(uint64_t va, uint64_t len, uint32_t rights)
{
	struct sp_rdma_keys keys;

	m.used = (m.used + 127) / 64 * 64 + va % 64; /* an aligned address has aligned memory */
	CU_ASSERT_FATAL(m.regions < REGIONS && m.used + len < RECEIVES);
	CU_ASSERT_EQUAL_FATAL(rn_register(va, RN_DATA + m.used, len, rn_pd, rights | 1, &keys), 0);
	memset(rn_memory + RN_DATA + m.used, 0, len);
	m.region[m.regions].va = va;
	m.region[m.regions].len = len;
	m.region[m.regions].at = m.used;
	m.region[m.regions++].key = keys.rkey;
	m.used += len;
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
	a.state = SP_RDMA_INIT;
	a.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_PKEY | SP_RDMA_QP_PORT | SP_RDMA_QP_ACCESS;
	CU_ASSERT_EQUAL_FATAL(rn_modify(&a), 0);
	a.state = SP_RDMA_RTR;
	a.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_AV | SP_RDMA_QP_PATH_MTU | SP_RDMA_QP_DEST_QP | SP_RDMA_QP_RQ_PSN |
		 SP_RDMA_QP_MAX_DEST_RD | SP_RDMA_QP_MIN_RNR;
	CU_ASSERT_EQUAL_FATAL(rn_modify(&a), 0);
	printf("qp %x\n", rn_qpn);
}

static void post(void)
{
	static unsigned out;
	const struct rdma_qp *qp = rn_state_of();

	out = m.posted - qp->own.next;
	for (; m.posted < m.wanted && out < 16; m.posted++, out++)
		rn_receive(m.posted, RECEIVES + m.posted % 64 * ENTRY, ENTRY);
}

static void received(void)
{
	const struct sp_rdma_cqe *e;
	char word[64];

	while ((e = rn_completion())) {
		CU_ASSERT(!e->status && e->wr_id < m.posted);
		snprintf(word, sizeof(word), "receive %x %x", e->len,
			 e->flags & SP_RDMA_WC_IMM ? sp_load_be32(&e->imm) : 0);
		if (e->op == SP_RDMA_WC_RECV)
			say(word, rn_memory + RN_DATA + RECEIVES + e->wr_id % 64 * ENTRY, e->len);
		else
			printf("%s -\n", word);
	}
}

static void arrives(const uint8_t *frame, unsigned len)
{
	const unsigned sent = dut.port.sents;

	dut_feed_bytes(&dut.port, 0, rn_now, frame, len);
	for (unsigned i = 0; i < 20; i++)
		dut_settle(&dut, rn_now += SP_US);
	for (unsigned i = sent; i < dut.port.sents; i++)
		say("answer", dut.port.sent[i].bytes, dut.port.sent[i].len);
	received();
	post();
}

static void obey(char *line)
{
	static uint8_t bytes[1 << 18];
	unsigned long long a = 0, b = 0, c = 0, d = 0;
	char word[16] = "", *rest;
	unsigned n;

	sscanf(line, "%15s %llx %llx %llx %llx", word, &a, &b, &c, &d);
	rest = strrchr(line, ' ');
	if (!strcmp(word, "key")) {
		add_region(a, b, (uint32_t)c);
	} else if (!strcmp(word, "qp")) {
		ready((uint32_t)a, (uint32_t)b, (uint32_t)c, d);
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
	rn_begin("");
	rn_qp(SP_RDMA_RC, 0);
}

static void end_one(void)
{
	CU_ASSERT_EQUAL(rn_destroy(), 0);
	for (unsigned i = 0; i < m.regions; i++)
		CU_ASSERT_EQUAL(rn_end(SP_RDMA_MR_DEREG, m.region[i].key), 0);
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
