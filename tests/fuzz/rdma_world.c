/* SPDX-License-Identifier: BSD-3-Clause */
#include "rdma_world.h"

#include <rte_mbuf.h>
#include <rte_mempool.h>

#include "../../handlers/wire/roce.h"
#include "../../pipeline/context.h"
#include "../../pipeline/frame/icrc.h"
#include "../../pipeline/engine.h"
#include "../lib/ports.h"
#include "../lib/seeds.h"

#define CQ_LOG	 8u
#define SRQ_AT	 0x5000u
#define SQ_AT(i) (0x6000u + (i)*0x2000u)
#define RQ_AT(i) (SQ_AT(i) + 0x1000u)
#define LOG	 3u
#define SGES	 2u
#define INLINED	 64u
#define HELD	 64u

static const uint8_t peer[16] = {[10] = 0xFF, 0xFF, 192, 0, 2, 2}, own[16] = {[10] = 0xFF, 0xFF, 192, 0, 2, 1};
static const uint32_t rights[ZONES] = {15, 5, 1, 0, 31, 15, 31, 4}; /* zone 5: of another protection domain */
static const bool constant[ZONES] = {[3] = true, [5] = true, [7] = true};

struct app apps[2] = {{.hostile = false}, {.hostile = true}};
struct sp_nic *nic;
static struct sp_dev *dev;
static uint8_t memory[2][GUARD + REGION + GUARD] __attribute__((aligned(64)));
static uint8_t closed[ZONE];
static sp_time now;
static uint64_t buffers;

const char *const world_counters[] = {"messages",	"duplicates",	    "acks_sent",
				      "naks_sequence",	"naks_invalid",	    "naks_access",
				      "naks_operation", "naks_rnr",	    "reads_served",
				      "read_packets",	"atomics",	    "cnps_sent",
				      "packets_sent",	"packets_repeated", "timeouts",
				      "naks_received",	"rnrs_received",    "cnps_received",
				      "requests_done",	"requests_failed",  NULL};
uint64_t world_sums[sizeof(world_counters) / sizeof(*world_counters)];

/* ---- the port: a driver that keeps what it sends ---- */
static struct rte_mbuf *held[HELD];
static unsigned helds, room;
static bool keeping;

static void let_go(void)
{
	rte_pktmbuf_free_bulk(held, helds);
	helds = 0;
}

static unsigned transmit(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned count, sp_time at)
{
	if (count > room)
		count = room;
	for (unsigned i = 0; i < count; i++)
		if (keeping && helds < HELD)
			held[helds++] = packet[i];
		else
			rte_pktmbuf_free(packet[i]);
	return count;
}

static const struct sp_port_ops port = {port_receive_one, transmit, port_next_one, true};

void world_keep(uint8_t how)
{
	keeping = how & 1;
	room = how & 0x70 ? UINT32_MAX : how & 3;
	if (!(how & 0x0C))
		let_go();
}

void world_pass(sp_time time)
{
	now += time;
	sp_nic_poll(nic, 0, now);
}

struct rdma_qp *state_of(struct app *a, unsigned i)
{
	struct rdma *s = sp_context_by_id(nic, a->context)->state;

	return &s->qp[(a->qp[i].number - s->first_qp) % s->qps];
}

/* ---- packets ---- */
static void spoil(uint8_t *ip, uint32_t whole)
{
	switch (draw() % 8) {
	case 0:
		ip[15] ^= 8; /* a stranger */
		break;
	case 1:
		ip[20 + 8 + 2] ^= 1; /* P_Key */
		break;
	case 2:
		ip[1] |= 3; /* congestion */
		break;
	case 3:
		ip[20 + 8 + 1] ^= 0x30; /* pad */
		break;
	default:
		ip[20 + 8 + draw() % (whole - 32)] ^= (uint8_t)(1u << draw() % 8);
	}
}

void world_packet(struct app *a, unsigned i, uint8_t opcode, uint32_t psn, const uint8_t *ext, uint32_t ext_len,
		  uint32_t payload)
{
	uint8_t f[1400] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0}, *ip = f + 14, *udp = ip + 20, *bth = udp + 8;
	const uint32_t len = ext_len + payload, pad = -len & 3, whole = 20 + 8 + 12 + len + pad + 4;
	const uint8_t flags = draw();
	struct rte_mbuf *m = sp_packet_alloc();
	uint16_t sum;

	PROMISE(m);
	ip[0] = 0x45;
	sp_store_be16(ip + 2, (uint16_t)whole);
	ip[8] = 64;
	ip[9] = 17;
	memcpy(ip + 12, peer + 12, 4);
	memcpy(ip + 16, own + 12, 4);
	sp_store_be16(udp, 0xC001);
	sp_store_be16(udp + 2, SP_ROCE_PORT);
	sp_store_be16(udp + 4, (uint16_t)(whole - 20));
	bth[0] = opcode;
	bth[1] = (uint8_t)(pad << 4 | (flags & 0x80));
	sp_store_be16(bth + 2, SP_ROCE_PKEY);
	sp_store_be32(bth + 4, a->qp[i].number);
	sp_store_be32(bth + 8, (psn & 0xFFFFFF) | (flags & 1 ? 0x80000000 : 0));
	memcpy(bth + 12, ext, ext_len);
	memset(bth + 12 + ext_len, flags, payload);
	if (draw_one_of(20))
		spoil(ip, whole);
	sum = sp_checksum(ip, 20, 0);
	memcpy(ip + 10, &sum, 2);
	sp_store_le32(ip + whole - 4, sp_icrc(ip, 20, whole - 4));
	memcpy(rte_pktmbuf_append(m, (uint16_t)(14 + whole)), f, 14 + whole);
	port_one = m;
}

/* ---- requests ---- */
/* The hostile one's memory is its own: the other's is refused by the NIC where it is another user's, and here both are
 * the same user's. */
static void own_memory_only(const struct app *a, uint32_t op, uint8_t *in, uint32_t len)
{
	const uint32_t other = apps[!a->hostile].mr->id;
	uint32_t at = op == SP_RDMA_QP_CREATE ? 24 : op == SP_RDMA_MR_REG ? 32 + 16 : 16, mem;

	for (; at + 4 <= len; at += 24) {
		memcpy(&mem, in + at, 4);
		if (mem == other)
			memcpy(in + at, &a->mr->id, 4);
		if (op != SP_RDMA_MR_REG)
			return;
	}
}
static_assert(offsetof(struct sp_rdma_qp_create, mem) == 24 && offsetof(struct sp_rdma_cq_create, mem) == 16 &&
		      offsetof(struct sp_rdma_srq_create, mem) == 16 && sizeof(struct sp_rdma_mr_reg) == 32 &&
		      offsetof(struct sp_rdma_segment, mem) == 16 && sizeof(struct sp_rdma_segment) == 24,
	      "where a request names memory");

int world_ask(struct app *a, uint32_t op, uint32_t qp, bool service, const void *in, uint32_t len, void *out,
	      uint32_t out_room)
{
	static uint8_t changed[SP_CONTROL_BYTES], answer[SP_CONTROL_BYTES];
	uint32_t bytes = out_room;
	int rc;

	if (len)
		memcpy(changed, in, len);
	if (a->hostile && draw_one_of(16)) {
		for (unsigned k = draw() % 4; k && len; k--)
			changed[draw() % len] = draw();
		if (draw_one_of(4))
			len = (uint32_t)draw_near(len) % sizeof(changed);
		if (draw_one_of(4))
			bytes = draw();
	}
	if (a->hostile)
		own_memory_only(a, op, changed, len);
	rc = sp_control_call(dev, a->context, service, op, qp, changed, len, answer, &bytes);
	PROMISE(rc <= 0);
	if (!rc && out)
		memcpy(out, answer, bytes < out_room ? bytes : out_room);
	return rc;
}

static uint32_t make(struct app *a, uint32_t op, const void *in, uint32_t len)
{
	struct sp_rdma_id id = {0};
	const int rc = world_ask(a, op, 0, false, in, len, &id, sizeof(id));

	PROMISE(a->hostile || !rc);
	return id.id;
}

static void region(struct app *a, unsigned zone)
{
	struct {
		struct sp_rdma_mr_reg reg;
		struct sp_rdma_segment segment[2];
	} r = {{VA + zone * ZONE, ROOM, zone == 5 ? a->other_pd : a->pd, rights[zone], 1, 0},
	       {{ROOM, DATA + zone * ZONE, a->mr->id, 0}}};
	uint32_t len = sizeof(r) - sizeof(r.segment[1]);
	struct sp_rdma_keys keys = {0};
	int rc;

	if (zone == 4) { /* in two pieces, the other way round */
		r.reg.segments = 2;
		r.segment[0].len = r.segment[1].len = ROOM / 2;
		r.segment[1].offset = r.segment[0].offset;
		r.segment[1].mem = a->mr->id;
		r.segment[0].offset += ROOM / 2;
		len = sizeof(r);
	}
	rc = world_ask(a, SP_RDMA_MR_REG, 0, false, &r, len, &keys, sizeof(keys));
	PROMISE(a->hostile || !rc);
	a->key[zone] = keys.lkey;
}

void world_region_anew(struct app *a, unsigned zone)
{
	const int rc = world_ask(a, SP_RDMA_MR_DEREG, 0, false, &a->key[zone], 4, NULL, 0);

	PROMISE(a->hostile || !rc || rc == -EAGAIN || rc == -EBUSY);
	if (!rc || (a->hostile && draw_one_of(8)))
		region(a, zone);
}

static void window(struct app *a, unsigned which)
{
	const struct sp_rdma_mw_alloc in = {a->pd, which ? SP_RDMA_MW_2 : SP_RDMA_MW_1};
	struct sp_rdma_keys keys = {0};
	const int rc = world_ask(a, SP_RDMA_MW_ALLOC, 0, false, &in, sizeof(in), &keys, sizeof(keys));

	PROMISE(a->hostile || !rc);
	a->window[which] = keys.rkey;
}

void world_window_anew(struct app *a, unsigned which)
{
	const int rc = world_ask(a, SP_RDMA_MW_DEALLOC, 0, false, &a->window[which], 4, NULL, 0);

	PROMISE(a->hostile || !rc || rc == -EAGAIN);
	if (!rc)
		window(a, which);
}

/* ---- QPs ---- */
/* What it has posted no longer completes. */
static void forget(struct app *a, unsigned i)
{
	world_poll(a);
	for (unsigned k = 0; k < WRS; k++)
		if (a->out[k] == i + 1)
			a->out[k] = 0;
}

static int modify(struct app *a, unsigned i, const struct sp_rdma_qp_attr *attr)
{
	return world_ask(a, SP_RDMA_QP_MODIFY, a->qp[i].number, false, attr, sizeof(*attr), NULL, 0);
}

void world_state(struct app *a, unsigned i, uint32_t state)
{
	const struct sp_rdma_qp_attr attr = {.mask = SP_RDMA_QP_STATE, .state = state, .draining = 1};

	if (!a->qp[i].lost)
		modify(a, i, &attr);
}

static void connect(struct app *a, unsigned i)
{
	const bool rc = a->qp[i].type == SP_RDMA_RC, ud = a->qp[i].type == SP_RDMA_UD;
	struct sp_rdma_qp_attr x = {.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_PKEY | SP_RDMA_QP_PORT |
					    (ud ? SP_RDMA_QP_QKEY : SP_RDMA_QP_ACCESS),
				    .state = SP_RDMA_INIT,
				    .access = 15,
				    .qkey = QKEY,
				    .dest_qp = 0x77,
				    .rq_psn = 0xFFFFF0,
				    .sq_psn = 0xFFFFF8,
				    .path_mtu = i ? 256 : 1024,
				    .max_rd_atomic = 4,
				    .max_dest_rd_atomic = 4,
				    .min_rnr_timer = 1,
				    .timeout = 8,
				    .retry_cnt = 3,
				    .rnr_retry = 3};
	int r;

	memcpy(x.ip, a->hostile && i == 2 ? own : peer, 16);
	r = modify(a, i, &x);
	x.state = SP_RDMA_RTR;
	x.mask = SP_RDMA_QP_STATE;
	if (!ud)
		x.mask |= SP_RDMA_QP_AV | SP_RDMA_QP_PATH_MTU | SP_RDMA_QP_DEST_QP | SP_RDMA_QP_RQ_PSN;
	if (rc)
		x.mask |= SP_RDMA_QP_MAX_DEST_RD | SP_RDMA_QP_MIN_RNR;
	r = r ? r : modify(a, i, &x);
	x.state = SP_RDMA_RTS;
	x.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_SQ_PSN;
	if (rc)
		x.mask |= SP_RDMA_QP_TIMEOUT | SP_RDMA_QP_RETRY_CNT | SP_RDMA_QP_RNR_RETRY | SP_RDMA_QP_MAX_RD;
	r = r ? r : modify(a, i, &x);
	PROMISE(a->hostile || !r);
}

static void empty_queues(struct app *a, unsigned i)
{
	memset(a->memory + GUARD + SQ_AT(i), 0, 0x2000);
	a->qp[i].sq_tail = a->qp[i].rq_tail = 0;
}

void world_reset(struct app *a, unsigned i)
{
	if (a->qp[i].lost)
		return;
	world_state(a, i, SP_RDMA_RESET);
	forget(a, i);
	empty_queues(a, i);
	connect(a, i);
}

static void make_qp(struct app *a, unsigned i)
{
	static const uint32_t types[QPS] = {SP_RDMA_RC, SP_RDMA_RC, SP_RDMA_UC, SP_RDMA_UD};
	const struct sp_rdma_qp_create q = {.sq = SQ_AT(i),
					    .rq = RQ_AT(i),
					    .mem = a->mr->id,
					    .type = types[i],
					    .pd = a->pd,
					    .send_cq = a->cq,
					    .recv_cq = a->cq,
					    .srq = i == 1 ? a->srq : 0,
					    .sq_log = LOG,
					    .rq_log = LOG,
					    .send_sges = SGES,
					    .recv_sges = SGES,
					    .inlined = INLINED,
					    .all_signaled = i == 2};
	struct sp_rdma_qp made = {0};
	int rc;

	empty_queues(a, i);
	rc = world_ask(a, SP_RDMA_QP_CREATE, 0, false, &q, sizeof(q), &made, sizeof(made));
	PROMISE(a->hostile || !rc);
	a->qp[i].lost = rc;
	if (rc)
		return;
	a->qp[i].number = made.qp;
	a->qp[i].worker = made.worker;
	a->qp[i].type = types[i];
	connect(a, i);
}

void world_anew(struct app *a, unsigned i)
{
	const int rc = world_ask(a, SP_RDMA_QP_DESTROY, a->qp[i].number, false, NULL, 0, NULL, 0);

	PROMISE(a->hostile || !rc || rc == -EAGAIN);
	forget(a, i);
	a->qp[i].lost = true;
	if (!rc || (a->hostile && draw_one_of(8)))
		make_qp(a, i);
}

/* ---- what an application posts ---- */
void world_ring(struct app *a, unsigned i)
{
	const struct sp_command c = {.op = SP_RDMA_CMD_DOORBELL,
				     .flags = SP_CMD_ON(a->qp[i].worker),
				     .context = a->context,
				     .arg = {a->qp[i].number}};
	struct sp_event result;

	sp_command_call(dev, &c, &result);
}

static uint64_t given(struct app *a, uint8_t of)
{
	a->out[++a->wr_id % WRS] = of;
	return a->wr_id;
}

void world_post(struct app *a, unsigned i, struct sp_rdma_wqe *w, const struct sp_rdma_sge *sge)
{
	struct sp_rdma_queue *q = (struct sp_rdma_queue *)(void *)(a->memory + GUARD + SQ_AT(i));
	uint8_t *entry = (uint8_t *)(q + 1) + a->qp[i].sq_tail % (1u << LOG) * sp_rdma_sq_stride(SGES, INLINED);

	if (a->qp[i].lost || (!a->hostile && *(uint32_t *)(void *)entry))
		return;
	w->wr_id = given(a, (uint8_t)(i + 1));
	w->owner = 1;
	memcpy(entry, w, sizeof(*w));
	memcpy(entry + sizeof(*w), sge, SGES * sizeof(*sge));
	q->tail = ++a->qp[i].sq_tail;
	if (!__atomic_exchange_n(&q->rung, 1, __ATOMIC_SEQ_CST) || a->hostile)
		world_ring(a, i);
}

void world_receive(struct app *a, unsigned i, const struct sp_rdma_sge *sge, uint32_t sges)
{
	const bool shared = i == 1;
	struct sp_rdma_queue *q = (struct sp_rdma_queue *)(void *)(a->memory + GUARD + (shared ? SRQ_AT : RQ_AT(i)));
	uint32_t *tail = shared ? &a->srq_tail : &a->qp[i].rq_tail;
	uint8_t *entry = (uint8_t *)(q + 1) + *tail % (1u << LOG) * sp_rdma_rq_stride(SGES);
	struct sp_rdma_rqe head = {1, sges, 0};

	if ((a->qp[i].lost && !shared) || (!a->hostile && *(uint32_t *)(void *)entry))
		return;
	head.wr_id = given(a, shared ? OUT_SHARED : (uint8_t)(i + 1));
	memcpy(entry, &head, sizeof(head));
	memcpy(entry + sizeof(head), sge, SGES * sizeof(*sge));
	q->tail = ++*tail;
}

static void completed(struct app *a, const struct sp_rdma_cqe *e)
{
	uint8_t *out = &a->out[e->wr_id % WRS];
	unsigned i = *out - 1u;

	PROMISE(*out && e->wr_id <= a->wr_id && e->status <= SP_RDMA_FATAL_ERR);
	if (*out == OUT_SHARED)
		i = 1;
	PROMISE(e->qp == a->qp[i].number);
	PROMISE((e->op & SP_RDMA_WC_RECV) || *out != OUT_SHARED);
	*out = 0;
}

void world_poll(struct app *a)
{
	struct sp_rdma_cq_head *head = (struct sp_rdma_cq_head *)(void *)(a->memory + GUARD);
	struct sp_rdma_cqe *e;
	struct sp_event event;

	for (;; a->taken++) {
		e = (struct sp_rdma_cqe *)(void *)(head + 1) + (a->taken & ((1u << CQ_LOG) - 1));
		if ((a->taken >> CQ_LOG & 1 ? 0 : 1) != e->phase || (a->hostile && draw_one_of(4)))
			break;
		if (!a->hostile)
			completed(a, e);
	}
	head->consumer = a->taken;
	head->armed = a->taken & 3;
	while (sp_event_take(dev, a->context, &event) == 1)
		;
}

/* ---- the world ---- */
void world_open(struct app *a)
{
	static const struct sp_setting set[] = {
		{"qp", "any"},	   {"qps", "6"},
		{"cqs", "3"},	   {"srqs", "2"},
		{"pds", "3"},	   {"mrs", "16"},
		{"ahs", "3"},	   {"requests", "64"},
		{"ecn", "yes"},	   {"congestion-control", "yes"},
		{"cc-rate", "1G"}, {"send-window", "8"},
	};
	struct sp_rdma_cq_create cq = {.log = CQ_LOG, .channel = 1, .mem = a->mr->id};
	struct sp_rdma_srq_create srq = {.offset = SRQ_AT, .log = LOG, .sges = SGES, .limit = 2, .mem = a->mr->id};
	struct sp_rdma_ah ah = {.ip = {0}};
	struct sp_error error;

	memset(a->memory + GUARD, 0, DATA);
	memset(a->out, 0, sizeof(a->out));
	memset(a->qp, 0, sizeof(a->qp));
	a->taken = a->srq_tail = 0;
	PROMISE(!sp_context_open(dev, a->hostile ? "hostile" : "fair", "rdma", set, sizeof(set) / sizeof(*set),
				 &a->context, &error));
	a->pd = srq.pd = ah.pd = make(a, SP_RDMA_PD_CREATE, NULL, 0);
	a->other_pd = make(a, SP_RDMA_PD_CREATE, NULL, 0);
	a->cq = make(a, SP_RDMA_CQ_CREATE, &cq, sizeof(cq));
	a->srq = make(a, SP_RDMA_SRQ_CREATE, &srq, sizeof(srq));
	memcpy(ah.ip, a->hostile ? own : peer, 16);
	a->ah = make(a, SP_RDMA_AH_CREATE, &ah, sizeof(ah));
	for (unsigned z = 0; z < ZONES; z++)
		region(a, z);
	window(a, 0);
	window(a, 1);
	for (unsigned i = 0; i < QPS; i++)
		make_qp(a, i);
}

static void sum_up(struct app *a)
{
	for (unsigned k = 0; world_counters[k]; k++)
		world_sums[k] += sp_nic_context_counter(nic, a->context, world_counters[k]);
}

void world_close(struct app *a)
{
	sum_up(a);
	PROMISE(!sp_context_close(dev, a->context));
}

void world_begin(void)
{
	struct sp_nic_config config = {.addresses = 1,
				       .ports = 1,
				       .port[0].ops = &port,
				       .mtu = 2000,
				       .mac = {2, 0, 0, 0, 0, 1},
				       .neighbours = 1,
				       .neighbour[0].mac = {2, 0, 0, 0, 0, 2}};
	struct sp_error error;

	PROMISE(!sp_eal_init(0, NULL, &error));
	memcpy(config.address[0].ip, own, 16);
	memcpy(config.neighbour[0].ip, peer, 16);
	config.address[0].prefix = 24;
	buffers = seeds_buffers();
	room = UINT32_MAX;
	keeping = false;
	PROMISE(!sp_nic_create(&config, &error, &nic) && !sp_nic_dev(nic, false, &dev));
	memset(closed, 0xA5, sizeof(closed));
	memset(memory, 0xA5, sizeof(memory));
	for (unsigned i = 0; i < 2; i++) {
		apps[i].memory = memory[i];
		PROMISE(!sp_mr_reg(dev, memory[i] + GUARD, REGION, &apps[i].mr));
	}
	for (unsigned i = 0; i < 2; i++)
		world_open(&apps[i]);
}

void world_end(void)
{
	sum_up(&apps[0]);
	sum_up(&apps[1]);
	let_go();
	sp_dev_close(dev);
	sp_nic_destroy(nic);
	nic = NULL;
	PROMISE(seeds_buffers() == buffers);
}

void world_check(void)
{
	const uint8_t *data = apps[0].memory + GUARD + DATA;

	for (unsigned i = 0; i < 2; i++)
		PROMISE(!memcmp(memory[i], closed, GUARD) && !memcmp(memory[i] + GUARD + REGION, closed, GUARD));
	for (unsigned z = 0; z < ZONES; z++)
		PROMISE(!memcmp(data + z * ZONE + ROOM, closed, ZONE - ROOM) &&
			(!constant[z] || !memcmp(data + z * ZONE, closed, ROOM)));
}
