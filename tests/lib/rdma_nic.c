/* SPDX-License-Identifier: BSD-3-Clause */
#include "rdma_nic.h"

uint32_t rn_context, rn_pd, rn_cq, rn_mem, rn_key, rn_qpn, rn_worker, rn_type;
uint32_t rn_cq_log = 4, rn_mtu = RN_MTU;
const struct sp_port_ops *rn_port;
uint16_t rn_workers = 1;
const uint8_t *rn_ip = dut_peer4;
uint8_t rn_class, rn_hops;
uint8_t *rn_memory;
sp_time rn_now;
bool rn_selective;
bool rn_ack, rn_solicited, rn_six, rn_marked_ce;
uint8_t rn_pads;
uint16_t rn_pkey;
const uint8_t *rn_source;

static struct sp_mr *rn_mr;
static uint32_t rn_lap, rn_sent, rn_sq_tail, rn_rq_tail, rn_srq_tail;

int rn_control(uint32_t op, uint32_t qp, const void *in, uint32_t in_len, void *out, uint32_t out_len)
{
	uint32_t room = out_len;
	const int rc = sp_control_call(dut.dev, rn_context, false, op, qp, in, in_len, out, &room);

	CU_ASSERT(rc || room == out_len);
	return rc;
}

uint32_t rn_id(uint32_t op, const void *in, uint32_t in_len)
{
	struct sp_rdma_id id = {0};

	CU_ASSERT_EQUAL_FATAL(rn_control(op, 0, in, in_len, &id, sizeof(id)), 0);
	CU_ASSERT_FATAL(id.id != 0);
	return id.id;
}

int rn_end(uint32_t op, uint32_t id)
{
	return rn_control(op, 0, &id, sizeof(id), NULL, 0);
}

int rn_register(uint64_t va, uint64_t at, uint64_t len, uint32_t pd, uint32_t access, struct sp_rdma_keys *keys)
{
	struct {
		struct sp_rdma_mr_reg reg;
		struct sp_rdma_segment segment;
	} r = {{va, len, pd, access, 1, 0}, {len, at, rn_mem, 0}};

	return rn_control(SP_RDMA_MR_REG, 0, &r, sizeof(r), keys, sizeof(*keys));
}

void rn_begin(const char *settings)
{
	static const struct sp_neighbour_config known[2] = {{DUT_IP4(192, 0, 2, 1), {2, 0, 0, 0, 0, 2}},
							    {DUT_IP6(1), {2, 0, 0, 0, 0, 2}}};
	struct sp_rdma_cq_create cq = {.cookie = 0xC0, .offset = RN_CQ, .log = rn_cq_log, .channel = 1};
	struct sp_rdma_keys keys;
	char all[256];

	dut_prepare(&dut, rn_workers);
	memcpy(dut.config.neighbour, known, sizeof(known));
	dut.config.neighbours = 2;
	if (rn_port) {
		dut.config.port[0].ops = rn_port;
		dut.config.mtu = 5000;
	}
	dut_create(&dut);
	snprintf(all, sizeof(all), "qp=64;qps=16;%s", settings);
	rn_context = dut_context(&dut, "c", "rdma", all);
	rn_memory = aligned_alloc(64, RN_MEMORY);
	CU_ASSERT_FATAL(rn_memory != NULL);
	memset(rn_memory, 0, RN_DATA);
	memset(rn_memory + RN_DATA, 0xEE, RN_MEMORY - RN_DATA);
	CU_ASSERT_EQUAL_FATAL(sp_mr_reg(dut.dev, rn_memory, RN_MEMORY, &rn_mr), 0);
	cq.mem = rn_mem = rn_mr->id;
	rn_now = SP_SEC;
	rn_lap = rn_sent = rn_srq_tail = 0;
	rn_pd = rn_id(SP_RDMA_PD_CREATE, NULL, 0);
	rn_cq = rn_id(SP_RDMA_CQ_CREATE, &cq, sizeof(cq));
	CU_ASSERT_EQUAL_FATAL(rn_register(RN_VA, RN_DATA, RN_MEMORY - RN_DATA, rn_pd, 15, &keys), 0);
	rn_key = keys.rkey;
	rn_qpn = 0;
}

void rn_stop(void)
{
	if (rn_qpn)
		CU_ASSERT_EQUAL(rn_destroy(), 0);
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_CQ_DESTROY, rn_cq), 0);
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_MR_DEREG, rn_key), 0);
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_PD_DESTROY, rn_pd), 0);
	rn_abandon();
}

void rn_abandon(void)
{
	dut_check_totals(&dut);
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, rn_context), 0);
	CU_ASSERT_EQUAL(sp_mr_free(rn_mr), 0);
	dut_stop(&dut);
	free(rn_memory);
}

void rn_qp(uint32_t type, uint32_t srq)
{
	const struct sp_rdma_qp_create a = {.cookie = 0xA0,
					    .sq = RN_SQS,
					    .rq = RN_RQS,
					    .mem = rn_mem,
					    .type = type,
					    .pd = rn_pd,
					    .send_cq = rn_cq,
					    .recv_cq = rn_cq,
					    .srq = srq,
					    .sq_log = 4,
					    .rq_log = 4,
					    .send_sges = 4,
					    .recv_sges = 4};
	struct sp_rdma_qp made = {0};

	memset(rn_memory + RN_SQS, 0, RN_DATA - RN_SQS);
	CU_ASSERT_EQUAL_FATAL(rn_control(SP_RDMA_QP_CREATE, 0, &a, sizeof(a), &made, sizeof(made)), 0);
	rn_qpn = made.qp;
	rn_worker = made.worker;
	rn_type = type;
	rn_restart();
}

void rn_restart(void)
{
	rn_sq_tail = rn_rq_tail = 0;
}

int rn_modify(const struct sp_rdma_qp_attr *a)
{
	return rn_control(SP_RDMA_QP_MODIFY, rn_qpn, a, sizeof(*a), NULL, 0);
}

int rn_state(uint32_t state)
{
	const struct sp_rdma_qp_attr a = {.mask = SP_RDMA_QP_STATE, .state = state};

	return rn_modify(&a);
}

void rn_to(uint32_t state)
{
	const bool rc = rn_type == SP_RDMA_RC, ud = rn_type == SP_RDMA_UD;
	struct sp_rdma_qp_attr a = {.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_PKEY | SP_RDMA_QP_PORT |
					    (ud ? SP_RDMA_QP_QKEY : SP_RDMA_QP_ACCESS),
				    .state = SP_RDMA_INIT,
				    .access = 15,
				    .qkey = 0x11111111,
				    .dest_qp = RN_PEER,
				    .selective = rn_selective,
				    .rq_psn = RN_PSN,
				    .path_mtu = rn_mtu,
				    .traffic_class = rn_class,
				    .hop_limit = rn_hops,
				    .max_rd_atomic = 4,
				    .max_dest_rd_atomic = 4,
				    .min_rnr_timer = 14,
				    .timeout = 14,
				    .retry_cnt = 7,
				    .rnr_retry = 7};

	memcpy(a.ip, rn_ip, 16);
	CU_ASSERT_EQUAL_FATAL(rn_modify(&a), 0);
	if (state == SP_RDMA_INIT)
		return;
	a.state = SP_RDMA_RTR;
	a.mask = SP_RDMA_QP_STATE;
	if (!ud)
		a.mask |= SP_RDMA_QP_AV | SP_RDMA_QP_PATH_MTU | SP_RDMA_QP_DEST_QP | SP_RDMA_QP_RQ_PSN;
	if (rc)
		a.mask |= SP_RDMA_QP_MAX_DEST_RD | SP_RDMA_QP_MIN_RNR | (rn_selective ? SP_RDMA_QP_SELECTIVE : 0);
	CU_ASSERT_EQUAL_FATAL(rn_modify(&a), 0);
	if (state == SP_RDMA_RTR)
		return;
	a.state = SP_RDMA_RTS;
	a.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_SQ_PSN;
	if (rc)
		a.mask |= SP_RDMA_QP_TIMEOUT | SP_RDMA_QP_RETRY_CNT | SP_RDMA_QP_RNR_RETRY | SP_RDMA_QP_MAX_RD;
	CU_ASSERT_EQUAL_FATAL(rn_modify(&a), 0);
}

void rn_connect(uint32_t type)
{
	rn_qp(type, 0);
	rn_to(SP_RDMA_RTS);
}

struct sp_rdma_qp_attr rn_attr(void)
{
	struct sp_rdma_qp_attr a = {0};

	CU_ASSERT_EQUAL(rn_control(SP_RDMA_QP_QUERY, rn_qpn, NULL, 0, &a, sizeof(a)), 0);
	return a;
}

int rn_destroy(void)
{
	int rc;

	for (unsigned i = 0; (rc = rn_control(SP_RDMA_QP_DESTROY, rn_qpn, NULL, 0, NULL, 0)) == -EAGAIN && i < 100; i++)
		dut_settle(&dut, rn_now += SP_US);
	rn_qpn = 0;
	return rc;
}

struct rdma_qp *rn_state_of(void)
{
	struct rdma *s = sp_context_by_id(dut.nic, rn_context)->state;

	return &s->qp[rn_qpn - s->first_qp];
}

/* ---- the application ---- */
static void rn_post(uint64_t queue, uint32_t *tail, uint64_t wr_id, const struct sp_rdma_sge *sge, uint32_t sges)
{
	struct sp_rdma_queue *q = (struct sp_rdma_queue *)(void *)(rn_memory + queue);
	uint8_t *entry = rn_memory + queue + sizeof(*q) + (*tail % 16) * sp_rdma_rq_stride(4);
	struct sp_rdma_rqe head = {1, sges, wr_id};

	CU_ASSERT_EQUAL(*(uint32_t *)(void *)entry, 0); /* the NIC has taken it before */
	memcpy(entry + sizeof(head), sge, (sges < 4 ? sges : 4) * sizeof(*sge));
	memcpy(entry, &head, sizeof(head));
	q->tail = ++*tail;
}

void rn_receive_sges(uint64_t wr_id, const struct sp_rdma_sge *sge, uint32_t sges)
{
	rn_post(RN_RQS, &rn_rq_tail, wr_id, sge, sges);
}

void rn_receive(uint64_t wr_id, uint64_t at, uint32_t len)
{
	const struct sp_rdma_sge sge = {RN_VA + at, len, rn_key};

	rn_receive_sges(wr_id, &sge, 1);
}

void rn_srq_receive(uint64_t wr_id, uint64_t at, uint32_t len)
{
	const struct sp_rdma_sge sge = {RN_VA + at, len, rn_key};

	rn_post(RN_SRQ, &rn_srq_tail, wr_id, &sge, 1);
}

static void rn_fill(const struct sp_rdma_wqe *w, const struct sp_rdma_sge *sge, uint32_t sges)
{
	struct sp_rdma_queue *q = (struct sp_rdma_queue *)(void *)(rn_memory + RN_SQS);
	uint8_t *entry = rn_memory + RN_SQS + sizeof(*q) + (rn_sq_tail % 16) * sp_rdma_sq_stride(4, 0);

	CU_ASSERT_EQUAL(*(uint32_t *)(void *)entry, 0); /* the NIC has taken it before */
	if (sges)
		memcpy(entry + sizeof(*w), sge, sges * sizeof(*sge));
	memcpy(entry, w, sizeof(*w));
	q->tail = ++rn_sq_tail;
}

static void rn_ring(void)
{
	const struct sp_command c = {
		.op = SP_RDMA_CMD_DOORBELL, .flags = SP_CMD_ON(rn_worker), .context = rn_context, .arg = {rn_qpn}};
	struct sp_event result;

	CU_ASSERT_EQUAL(sp_command_call(dut.dev, &c, &result), 0);
}

void rn_post_wqe(const struct sp_rdma_wqe *w, const struct sp_rdma_sge *sge, uint32_t sges)
{
	rn_fill(w, sge, sges);
	rn_doorbell();
}

void rn_post_send(uint64_t wr_id, uint64_t at, uint32_t len)
{
	const struct sp_rdma_wqe w = {.owner = 1, .op = SP_RDMA_WR_SEND, .sges = 1, .wr_id = wr_id};
	const struct sp_rdma_sge sge = {RN_VA + at, len, rn_key};

	rn_post_wqe(&w, &sge, 1);
}

void rn_request(const struct sp_rdma_wqe *w, const struct sp_rdma_sge *sge)
{
	struct sp_rdma_wqe e = *w;

	e.owner = 1;
	e.sges = sge != NULL;
	rn_fill(&e, sge, e.sges);
	rn_ring();
}

void rn_doorbell(void)
{
	rn_ring();
	rn_go();
}

const struct sp_rdma_cqe *rn_completion(void)
{
	struct sp_rdma_cq_head *head = (struct sp_rdma_cq_head *)(void *)(rn_memory + RN_CQ);
	const struct sp_rdma_cqe *e = (const struct sp_rdma_cqe *)(const void *)(head + 1);

	e += rn_lap & ((1u << rn_cq_log) - 1);
	if (e->phase != (rn_lap >> rn_cq_log & 1 ? 0 : 1))
		return NULL;
	head->consumer = ++rn_lap;
	return e;
}

bool rn_completed(uint64_t wr_id, uint8_t status, uint8_t op, uint32_t len)
{
	const struct sp_rdma_cqe *e = rn_completion();

	if (!e)
		return printf("# no completion\n"), false;
	if (e->wr_id == wr_id && e->status == status && e->op == op && e->len == len && e->qp == rn_qpn)
		return true;
	printf("# completion: wr_id %llu status %u op %u len %u qp %u\n", (unsigned long long)e->wr_id, e->status,
	       e->op, e->len, e->qp);
	return false;
}

bool rn_event(uint16_t type, uint64_t what)
{
	struct sp_event e = {0};
	const int rc = sp_event_take(dut.dev, rn_context, &e);

	if (rc == 1 && e.type == type && (type == SP_RDMA_EVENT_CQ || e.arg[0] == what))
		return true;
	printf("# event: %d, type %x arg %llu\n", rc, e.type, (unsigned long long)e.arg[0]);
	return false;
}

bool rn_no_event(void)
{
	struct sp_event e = {0};

	return !sp_event_take(dut.dev, rn_context, &e);
}

/* ---- the peer ---- */
uint8_t rn_byte(uint32_t i)
{
	return (uint8_t)(i * 7 + i / 251 + 1);
}

void rn_feed(uint8_t opcode, uint32_t psn, const void *ext, uint32_t ext_len, const void *payload, uint32_t len)
{
	uint8_t bytes[1400];
	struct frame f;

	if (ext_len)
		memcpy(bytes, ext, ext_len);
	if (len)
		memcpy(bytes + ext_len, payload, len);
	dut_roce(&f, rn_six ? FRAME_IP6 : FRAME_IP4, rn_qpn, psn & 0xFFFFFF, bytes, ext_len + len);
	f.bytes[f.l4 + 8] = opcode;
	f.bytes[f.l4 + 8 + 8] = rn_ack ? 0x80 : 0;
	f.bytes[f.l4 + 8 + 1] = (uint8_t)((f.bytes[f.l4 + 8 + 1] & 0x3F) | (rn_solicited ? 0x80 : 0));
	if (rn_pads)
		f.bytes[f.l4 + 8 + 1] = (uint8_t)((f.bytes[f.l4 + 8 + 1] & ~0x30) | (rn_pads & 3) << 4);
	if (rn_pkey)
		frame_put16(&f, f.l4 + 8 + 2, rn_pkey);
	if (rn_source)
		memcpy(f.bytes + f.l3 + 12, rn_source, 4);
	if (rn_marked_ce)
		f.bytes[f.l3 + 1] |= 3;
	if (!rn_six)
		frame_checksum4(&f);
	dut_seal(&f);
	dut_feed(&dut, &f);
	rn_ack = rn_solicited = rn_six = rn_marked_ce = false;
	rn_pads = 0;
	rn_pkey = 0;
	rn_source = NULL;
}

void rn_go(void)
{
	dut_settle(&dut, rn_now += SP_US);
}

void rn_packet(uint8_t opcode, uint32_t psn, const void *ext, uint32_t ext_len, const void *payload, uint32_t len)
{
	uint8_t own[1400];

	for (uint32_t i = 0; !payload && i < len; i++)
		own[i] = rn_byte(i);
	rn_feed(opcode, psn, ext, ext_len, payload ? payload : own, len);
	rn_go();
}

void rn_reth(uint8_t *to, uint64_t va, uint32_t rkey, uint32_t len)
{
	sp_store_be64(to, va);
	sp_store_be32(to + 8, rkey);
	sp_store_be32(to + 12, len);
}

void rn_write(uint8_t opcode, uint32_t psn, uint64_t va, uint32_t rkey, uint32_t dma_len, uint32_t len)
{
	uint8_t reth[16];

	rn_reth(reth, va, rkey, dma_len);
	rn_packet(opcode, psn, reth, sizeof(reth), NULL, len);
}

void rn_atomic(uint8_t opcode, uint32_t psn, uint64_t va, uint32_t rkey, uint64_t swap_add, uint64_t compare)
{
	uint8_t ext[28];

	sp_store_be64(ext, va);
	sp_store_be32(ext + 8, rkey);
	sp_store_be64(ext + 12, swap_add);
	sp_store_be64(ext + 20, compare);
	rn_packet(opcode, psn, ext, sizeof(ext), NULL, 0);
}

bool rn_answered(struct rn_answer *a)
{
	const uint8_t *b, *l3;
	uint32_t head = 12, len;

	if (rn_sent == dut.port.sents)
		return false;
	l3 = dut.port.sent[rn_sent].bytes + 14;
	b = l3 + 20 + 8;
	len = sp_load_be16(l3 + 2) - 20 - 8 - 4;
	rn_sent++;
	*a = (struct rn_answer){.opcode = b[0], .qp = sp_load_be24(b + 5), .psn = sp_load_be24(b + 9)};
	if (a->opcode >= 0x0D && a->opcode <= 0x12 && a->opcode != 0x0E) {
		a->syndrome = b[12];
		a->msn = sp_load_be24(b + 13);
		head += 4;
	}
	a->payload = b + head;
	a->len = len - head - (b[1] >> 4 & 3);
	return true;
}

bool rn_acked(uint8_t syndrome, uint32_t psn)
{
	struct rn_answer a;

	if (!rn_answered(&a))
		return printf("# no answer\n"), false;
	if (a.opcode == 0x11 && a.syndrome == syndrome && a.psn == (psn & 0xFFFFFF) && a.qp == RN_PEER)
		return true;
	printf("# answer: opcode %x syndrome %x psn %x\n", a.opcode, a.syndrome, a.psn);
	return false;
}

bool rn_silent(void)
{
	struct rn_answer a;

	return !rn_answered(&a) || (printf("# answer: opcode %x syndrome %x psn %x\n", a.opcode, a.syndrome, a.psn), 0);
}

bool rn_filled(uint64_t at, uint32_t from, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		if (rn_memory[RN_DATA + at + i] != rn_byte(from + i))
			return false;
	return true;
}

bool rn_untouched(uint64_t at, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		if (rn_memory[RN_DATA + at + i] != 0xEE)
			return false;
	return true;
}

static uint8_t rn_copy[RN_MEMORY];

struct sp_mr *rn_region(void)
{
	return rn_mr;
}

void rn_watch(void)
{
	memcpy(rn_copy, rn_memory, RN_MEMORY);
}

static bool rn_same(uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++)
		if (rn_memory[i] != rn_copy[i])
			return printf("# byte 0x%llx has changed\n", (unsigned long long)i), false;
	return true;
}

bool rn_only(uint64_t at, uint64_t len)
{
	const uint64_t cq = sizeof(struct sp_rdma_cq_head) + (sizeof(struct sp_rdma_cqe) << rn_cq_log);
	const uint64_t rq = RN_RQS + sizeof(struct sp_rdma_queue);

	for (unsigned i = 0; i < 16; i++)
		memcpy(rn_copy + rq + i * sp_rdma_rq_stride(4), rn_memory + rq + i * sp_rdma_rq_stride(4),
		       sizeof(uint32_t));
	return rn_same(RN_CQ + cq, RN_DATA + at) && rn_same(RN_DATA + at + len, RN_MEMORY);
}

void rn_anew(void)
{
	struct rn_answer a;
	struct sp_event e;

	CU_ASSERT_EQUAL(rn_state(SP_RDMA_RESET), 0);
	while (rn_completion())
		;
	while (rn_answered(&a))
		;
	while (sp_event_take(dut.dev, rn_context, &e) == 1)
		;
	memset(rn_memory + RN_SQS, 0, RN_DATA - RN_SQS);
	rn_restart();
	rn_to(SP_RDMA_RTS);
}

uint64_t rn_count(const char *counter)
{
	return dut_counter(&dut, rn_context, counter);
}

uint64_t rn_dropped(const char *reason)
{
	return dut_dropped(reason);
}
