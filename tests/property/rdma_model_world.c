/* SPDX-License-Identifier: BSD-3-Clause */
/* The applications of the model's test. */
#include "rdma_model_world.h"

#include <errno.h>

#define ACCESS 15u
#define IPV4                                                                                                           \
	{                                                                                                              \
		[10] = 0xFF, [11] = 0xFF, 1, 2, 3, 4                                                                   \
	}

struct world world;

/* ---- keys ---- */
static struct world_key key_make(uint64_t va, uint64_t len, uint32_t access, unsigned parts, const uint64_t (*part)[2])
{
	struct {
		struct sp_rdma_mr_reg r;
		struct sp_rdma_segment g[3];
	} in = {.r = {va, len, world.pd, access, parts, 0}};
	struct sp_rdma_keys keys;
	struct rm_key *k;

	for (unsigned i = 0; i < parts; i++)
		in.g[i] = (struct sp_rdma_segment){part[i][0], NIC_ARENA + part[i][1], 0, 0};
	if (nic_control(SP_RDMA_MR_REG, 0, &in, (uint32_t)(sizeof(in.r) + parts * sizeof(in.g[0])), &keys,
			sizeof(keys)))
		abort();
	k = rm_key_new(keys.lkey);
	k->access = access;
	k->va = va;
	k->len = len;
	k->parts = parts;
	for (unsigned i = 0; i < parts; i++) {
		k->part[i].len = part[i][0];
		k->part[i].at = part[i][1];
	}
	return (struct world_key){keys.lkey, va, len};
}

static void key_end(struct world_key *w)
{
	const struct sp_rdma_id id = {w->key};
	int r = -EAGAIN;

	for (unsigned i = 0; i < RM_KEYS; i++)
		if (rm.key[i].live && rm.key[i].key == w->key)
			rm.key[i].live = false;
	for (unsigned i = 0; r == -EAGAIN && i < 100 && !rm.bad; i++) {
		r = nic_control(SP_RDMA_MR_DEREG, 0, &id, sizeof(id), NULL, 0);
		if (r)
			nic_run(20 * RM_US);
	}
	RM_MUST(!r || rm.bad, "a region does not end: %d", r);
}

static struct world_key window_make(void)
{
	const uint64_t at = WORLD_HALF + nic_draw((WORLD_HALF - 8192) / 8) * 8;

	return key_make(WORLD_VA * 2 + nic_draw(1u << 20) * 8ull, 8192, ACCESS, 1, (const uint64_t[][2]){{8192, at}});
}

void world_window_renew(uint32_t qp, unsigned k)
{
	key_end(&world.window[qp][k]);
	world.window[qp][k] = window_make();
}

/* ---- completions ---- */
static void poll(void)
{
	for (uint32_t i = 0; i < RM_CQS; i++) {
		struct sp_rdma_cq_head *head = (struct sp_rdma_cq_head *)(void *)(nic.memory + NIC_CQ(i));
		const struct sp_rdma_cqe *e = (const struct sp_rdma_cqe *)(const void *)(head + 1);
		bool any = false, solicited = false;

		for (;; world.cq_at[i]++) {
			const uint32_t lap = world.cq_at[i] >> NIC_CQ_LOG;
			const struct sp_rdma_cqe *x = e + (world.cq_at[i] & ((1u << NIC_CQ_LOG) - 1));

			if (x->phase != !(lap & 1))
				break;
			any = true;
			solicited |= rm_completed(x);
		}
		head->consumer = world.cq_at[i];
		any = world.armed[i] == SP_RDMA_ARM_ANY ? any : world.armed[i] == SP_RDMA_ARM_SOLICITED && solicited;
		RM_MUST(world.signals[i] == any, "CQ %u: %u events, not %u", i, world.signals[i], any);
		if (any)
			world.armed[i] = SP_RDMA_ARM_NONE;
		world.signals[i] = 0;
	}
}

static void signal_cq(uint64_t cookie)
{
	world.signals[cookie % RM_CQS]++;
}

void world_arm(uint32_t cq, uint32_t how)
{
	((struct sp_rdma_cq_head *)(void *)(nic.memory + NIC_CQ(cq)))->armed = how;
	world.armed[cq] = how;
}

/* ---- begin, end ---- */
static uint32_t make(uint32_t op, const void *in, uint32_t in_len)
{
	struct sp_rdma_id id = {0};

	if (nic_control(op, 0, in, in_len, &id, sizeof(id)))
		abort();
	return id.id;
}

void world_begin(uint64_t seed)
{
	static uint8_t bytes[RM_ARENA];
	static const uint64_t odd[][2] = {{4096, WORLD_HALF + 4}};
	static const uint64_t all[][2] = {{5000, RM_ARENA - 5000}, {100000, 0}, {RM_ARENA - 105000, 100000}};
	const struct sp_rdma_ah ah = {.ip = IPV4, .pd = 1};
	const struct sp_rdma_srq_create srq = {.offset = NIC_RQ(RM_SRQ), .log = 5, .pd = 1, .sges = SP_RDMA_SGES};

	memset(&world, 0, sizeof(world));
	nic = (struct nic){.window = 256, .requests = 512, .poll = poll, .signal = signal_cq, .random = seed};
	rm_begin();
	if (seed & 1) {
		nic.window = 4 + nic_draw(60);
		nic.requests = 64;
	}
	nic_begin(seed);
	if (!bytes[0] && !bytes[1])
		for (uint32_t i = 0; i < RM_ARENA; i++)
			bytes[i] = (uint8_t)((i * 2654435761u) >> 21); /* no draw: each seed is the same alone */
	memcpy(rm.arena, bytes, RM_ARENA);
	memcpy(nic.memory + NIC_ARENA, rm.arena, RM_ARENA);
	world.pd = make(SP_RDMA_PD_CREATE, NULL, 0);
	for (uint32_t i = 0; i < RM_CQS; i++) {
		const struct sp_rdma_cq_create cq = {.cookie = i, .offset = NIC_CQ(i), .log = NIC_CQ_LOG, .channel = 1};

		world.cq[i] = make(SP_RDMA_CQ_CREATE, &cq, sizeof(cq));
	}
	world.srq = make(SP_RDMA_SRQ_CREATE, &srq, sizeof(srq));
	world.ah = make(SP_RDMA_AH_CREATE, &ah, sizeof(ah));
	world.all = key_make(WORLD_VA, RM_ARENA, ACCESS, 3, all);
	world.odd = key_make(WORLD_VA / 2, 4096, ACCESS, 1, odd);
	world.closed = key_make(WORLD_VA / 4, 4096, SP_RDMA_LOCAL_WRITE, 1, odd);
	for (unsigned i = 0; i < RM_QPS; i++)
		for (unsigned k = 0; k < 2; k++)
			world.window[i][k] = window_make();
}

void world_end(void)
{
	for (uint32_t i = 0; i < RM_QPS; i++)
		if (rm.qp[i].exists)
			world_destroy(i);
	rm_compare();
	for (unsigned i = 0; i < RM_QPS && !rm.bad; i++)
		for (unsigned k = 0; k < 2; k++)
			key_end(&world.window[i][k]);
	if (!rm.bad) {
		key_end(&world.all);
		RM_MUST(!nic_control(SP_RDMA_SRQ_DESTROY, 0, &world.srq, 4, NULL, 0), "the SRQ does not end");
		for (uint32_t i = 0; i < RM_CQS; i++)
			RM_MUST(!nic_control(SP_RDMA_CQ_DESTROY, 0, &world.cq[i], 4, NULL, 0), "CQ %u does not end", i);
	}
	nic_end();
}

static void modify(uint32_t qp, struct sp_rdma_qp_attr a, uint8_t state, uint32_t mask)
{
	const bool ud = rm.qp[qp].type == SP_RDMA_UD;
	int r;

	if (ud)
		mask &= SP_RDMA_QP_PKEY | SP_RDMA_QP_PORT | SP_RDMA_QP_QKEY | SP_RDMA_QP_SQ_PSN;
	else if (rm.qp[qp].type == SP_RDMA_UC)
		mask &= ~(uint32_t)(SP_RDMA_QP_MAX_DEST_RD | SP_RDMA_QP_MIN_RNR | SP_RDMA_QP_TIMEOUT |
				    SP_RDMA_QP_RETRY_CNT | SP_RDMA_QP_RNR_RETRY | SP_RDMA_QP_MAX_RD);
	a.mask = (mask & ~(uint32_t)(ud ? SP_RDMA_QP_ACCESS : SP_RDMA_QP_QKEY)) | SP_RDMA_QP_STATE;
	a.state = state;
	r = nic_control(SP_RDMA_QP_MODIFY, NIC_QP + qp, &a, sizeof(a), NULL, 0);
	RM_MUST(!r, "QP %u: to state %u: %d", qp, state, r);
	rm_modified(qp, state, a.rq_psn, a.sq_psn);
}

static void clear_queues(uint32_t qp)
{
	memset(nic.memory + NIC_SQ(qp), 0, NIC_SQ(1) - NIC_SQ(0));
	memset(nic.memory + NIC_RQ(qp), 0, NIC_RQ(1) - NIC_RQ(0));
	world.sq_tail[qp] = world.rq_tail[qp] = 0;
}

/* The handler chooses the slot of a QP by chance: those that are not wanted are given back. */
static void create(uint32_t qp, const struct world_pair *w)
{
	struct sp_rdma_qp_create a = {.sq = NIC_SQ(qp),
				      .rq = NIC_RQ(qp),
				      .type = w->type,
				      .pd = world.pd,
				      .send_cq = world.cq[nic_draw(RM_CQS)],
				      .recv_cq = world.cq[nic_draw(RM_CQS)],
				      .srq = w->srq ? world.srq : 0,
				      .sq_log = 5,
				      .rq_log = 5,
				      .send_sges = SP_RDMA_SGES,
				      .recv_sges = SP_RDMA_SGES,
				      .inlined = SP_RDMA_INLINE,
				      .all_signaled = w->all_signaled};
	struct sp_rdma_qp made = {0};
	struct rm_qp *q = &rm.qp[qp];

	clear_queues(qp);
	for (unsigned i = 0; made.qp != NIC_QP + qp; i++) {
		if (i)
			nic_control(SP_RDMA_QP_DESTROY, made.qp, NULL, 0, NULL, 0);
		if (i > 1000 || nic_control(SP_RDMA_QP_CREATE, 0, &a, sizeof(a), &made, sizeof(made)))
			abort();
	}
	memset(q, 0, sizeof(*q));
	q->exists = true;
	q->type = w->type;
	q->number = made.qp;
	q->rq = w->srq ? RM_SRQ : qp;
	q->all_signaled = w->all_signaled;
	q->mtu = w->mtu;
	q->access = w->access;
	q->max_rd = w->max_rd;
	q->max_dest = w->max_dest;
	q->min_rnr = nic_draw(8) + 1;
	q->timeout = w->timeout;
	q->retry = w->retry;
	q->rnr_retry = w->rnr_retry;
	q->qkey = 0x11111;
	rm_modified(qp, SP_RDMA_RESET, 0, 0);
}

static void bring_up(uint32_t qp, uint32_t rq_psn, uint32_t sq_psn, uint8_t state)
{
	const struct rm_qp *q = &rm.qp[qp];
	const struct sp_rdma_qp_attr a = {.access = q->access,
					  .qkey = q->qkey,
					  .ip = IPV4,
					  .dest_qp = NIC_QP + (qp ^ 1),
					  .rq_psn = rq_psn,
					  .sq_psn = sq_psn,
					  .path_mtu = q->mtu,
					  .max_rd_atomic = (uint8_t)q->max_rd,
					  .max_dest_rd_atomic = (uint8_t)q->max_dest,
					  .min_rnr_timer = (uint8_t)q->min_rnr,
					  .timeout = (uint8_t)q->timeout,
					  .retry_cnt = (uint8_t)q->retry,
					  .rnr_retry = (uint8_t)q->rnr_retry};

	if (state >= SP_RDMA_INIT)
		modify(qp, a, SP_RDMA_INIT, SP_RDMA_QP_PKEY | SP_RDMA_QP_PORT | SP_RDMA_QP_ACCESS | SP_RDMA_QP_QKEY);
	if (state >= SP_RDMA_RTR)
		modify(qp, a, SP_RDMA_RTR,
		       SP_RDMA_QP_AV | SP_RDMA_QP_PATH_MTU | SP_RDMA_QP_DEST_QP | SP_RDMA_QP_RQ_PSN |
			       SP_RDMA_QP_MAX_DEST_RD | SP_RDMA_QP_MIN_RNR);
	if (state >= SP_RDMA_RTS)
		modify(qp, a, SP_RDMA_RTS,
		       SP_RDMA_QP_TIMEOUT | SP_RDMA_QP_RETRY_CNT | SP_RDMA_QP_RNR_RETRY | SP_RDMA_QP_SQ_PSN |
			       SP_RDMA_QP_MAX_RD);
	if (state > SP_RDMA_RTS)
		world_modify(qp, state, false);
}

void world_make(uint32_t pair, const struct world_pair *w, uint8_t state0, uint8_t state1)
{
	const uint32_t psn[2] = {nic_draw(2) ? 0xFFFFF0 + nic_draw(16) : nic_draw(1u << 24), nic_draw(1u << 24)};

	for (uint32_t k = 0; k < 2; k++)
		create(2 * pair + k, w);
	for (uint32_t k = 0; k < 2; k++)
		bring_up(2 * pair + k, psn[!k], psn[k], k ? state1 : state0);
	world.ending[pair] = 0;
	world.draining[2 * pair] = world.draining[2 * pair + 1] = 0;
}

void world_random_pair(uint32_t pair)
{
	static const uint32_t mtus[] = {256, 256, 512, 1024, 4096};
	const struct world_pair w = {.type = nic_draw(4)   ? SP_RDMA_RC
					     : nic_draw(2) ? SP_RDMA_UC
							   : SP_RDMA_UD,
				     .mtu = mtus[nic_draw(5)],
				     .access = nic_draw(20) ? ACCESS : nic_draw(16),
				     .max_rd = 1 + nic_draw(nic_draw(2) ? 16 : 3),
				     .max_dest = 16,
				     .rnr_retry = nic_draw(6) ? 7 : nic_draw(7),
				     .retry = nic_draw(6) ? 7 : nic_draw(8),
				     .timeout = 5 + nic_draw(4),
				     .srq = !nic_draw(3),
				     .all_signaled = !nic_draw(4)};
	struct world_pair x = w;

	x.max_dest = nic_draw(10) ? x.max_rd : 1 + nic_draw(16);
	world_make(pair, &x, SP_RDMA_RTS, nic_draw(8) ? SP_RDMA_RTS : SP_RDMA_RTR);
}

void world_destroy(uint32_t qp)
{
	int r = -EAGAIN;

	nic_look();
	rm_modified(qp, SP_RDMA_RESET, 0, 0);
	rm.qp[qp].exists = false;
	for (unsigned i = 0; r == -EAGAIN && i < 100; i++) {
		r = nic_control(SP_RDMA_QP_DESTROY, NIC_QP + qp, NULL, 0, NULL, 0);
		if (r)
			nic_run(10 * RM_US);
	}
	RM_MUST(!r, "QP %u does not end: %d", qp, r);
	nic_forget(qp);
}

int world_modify(uint32_t qp, uint8_t state, bool tell)
{
	const struct sp_rdma_qp_attr a = {.mask = SP_RDMA_QP_STATE | (state == SP_RDMA_SQD ? SP_RDMA_QP_SQD_NOTIFY : 0),
					  .state = state,
					  .sqd_notify = tell};
	const int r = nic_control(SP_RDMA_QP_MODIFY, NIC_QP + qp, &a, sizeof(a), NULL, 0);

	if (r)
		return r;
	rm_modified(qp, state, 0, 0);
	if (state == SP_RDMA_SQD)
		rm.qp[qp].drain_tell = tell;
	if (state == SP_RDMA_RESET)
		clear_queues(qp);
	nic_look();
	return 0;
}

/* ---- requests ---- */
/* Cuts `len` bytes into pieces of the half of the arena that begins at `from`. */
static uint8_t scatter(struct sp_rdma_sge *g, uint64_t from, uint32_t len)
{
	uint8_t n = 0;

	for (uint32_t most = nic_draw(2) ? 1 : 1 + nic_draw(SP_RDMA_SGES); n < most; n++) {
		const uint32_t take = n + 1u == most ? len : nic_draw(len + 1);

		g[n] = (struct sp_rdma_sge){WORLD_VA + from + nic_draw(WORLD_HALF - take), take, world.all.key};
		len -= take;
	}
	return n;
}

struct rm_wr world_request(uint32_t qp, uint8_t op, uint32_t len)
{
	const struct rm_qp *q = &rm.qp[qp];
	const bool atomic = op == SP_RDMA_WR_CAS || op == SP_RDMA_WR_FETCH_ADD;
	struct rm_wr w = {.id = ++world.posts << 8 | qp,
			  .op = op,
			  .len = atomic ? 8 : len,
			  .imm = nic_draw(1u << 31),
			  .rkey = world.all.key,
			  .ah = world.ah,
			  .qkey = nic_draw(4)	? q->qkey
				  : nic_draw(2) ? 0x80000000
						: 0x77,
			  .to = NIC_QP + (qp ^ 1),
			  .compare_add = nic_draw(4),
			  .swap = nic_draw(4)};

	w.flags = (uint8_t)((nic_draw(2) ? SP_RDMA_SIGNALED : 0) | (nic_draw(8) ? 0 : SP_RDMA_FENCE) |
			    (nic_draw(2) ? SP_RDMA_SOLICITED : 0));
	if (op == SP_RDMA_WR_LOCAL_INV) {
		w.flags |= SP_RDMA_SIGNALED;
		w.len = 0;
		return w;
	}
	w.remote = WORLD_VA + (op == SP_RDMA_WR_READ && nic_draw(2) ? nic_draw(RM_ARENA - w.len)
								    : WORLD_HALF + nic_draw(WORLD_HALF - w.len));
	if (atomic)
		w.remote = WORLD_VA + WORLD_HALF + nic_draw(4) * 8;
	if (!rm_op_reads(op) && w.len <= SP_RDMA_INLINE && !nic_draw(3)) {
		w.flags |= SP_RDMA_INLINED;
		for (uint32_t i = 0; i < w.len; i++)
			w.inlined[i] = (uint8_t)nic_draw(256);
	} else {
		w.sges = scatter(w.sge, rm_op_reads(op) || !nic_draw(4) ? WORLD_HALF : 0, w.len);
	}
	return w;
}

/* Makes it wrong; a fault that this request cannot have leaves it as it is. */
void world_spoil(uint32_t qp, struct rm_wr *w, enum world_fault f)
{
	const bool remote = w->op <= SP_RDMA_WR_WRITE_IMM || rm_op_reads(w->op),
		   atomic = w->op == SP_RDMA_WR_CAS || w->op == SP_RDMA_WR_FETCH_ADD;
	const bool rc = rm.qp[qp].type == SP_RDMA_RC;

	if (!rc && f <= FAULT_MEMORY && !w->len)
		return;
	switch (f) {
	case FAULT_KEY:
		w->rkey ^= remote ? 0x40000000 : 0;
		break;
	case FAULT_BOUNDS:
		w->remote = remote ? WORLD_VA + RM_ARENA - (w->len + 7) / 8 * 8 + 8 : 0;
		break;
	case FAULT_RIGHTS:
		w->rkey = world.closed.key;
		w->remote = world.closed.va;
		break;
	case FAULT_ALIGNMENT:
		w->remote += atomic ? 4 : 0;
		break;
	case FAULT_MEMORY:
		w->rkey = atomic ? world.odd.key : w->rkey;
		w->remote = atomic ? world.odd.va + 8 : w->remote;
		break;
	case FAULT_LKEY:
		if (w->flags & SP_RDMA_INLINED || !w->sges || !w->sge[w->sges - 1].len)
			return;
		w->sge[w->sges - 1].lkey ^= 0x40000000;
		w->bad = SP_RDMA_LOC_PROT_ERR;
		break;
	case FAULT_LENGTH:
		if (!atomic)
			return;
		w->sges = 1;
		w->sge[0].len = 4;
		w->bad = SP_RDMA_LOC_LEN_ERR;
		break;
	case FAULT_OPCODE:
		w->op = 10;
		w->bad = SP_RDMA_LOC_QP_OP_ERR;
		break;
	case FAULT_INLINE:
		if (w->op == SP_RDMA_WR_LOCAL_INV)
			return;
		w->flags |= SP_RDMA_INLINED;
		w->len = SP_RDMA_INLINE + 1;
		w->bad = SP_RDMA_LOC_QP_OP_ERR;
		break;
	default:
		break;
	}
}

bool world_post(uint32_t qp, const struct rm_wr *w)
{
	const uint32_t stride = sp_rdma_sq_stride(SP_RDMA_SGES, SP_RDMA_INLINE);
	struct sp_rdma_queue *queue = (struct sp_rdma_queue *)(void *)(nic.memory + NIC_SQ(qp));
	uint8_t *to = (uint8_t *)(queue + 1) + (world.sq_tail[qp] % RM_DEPTH) * stride;
	const struct sp_rdma_wqe head = {.owner = 1,
					 .op = w->op,
					 .flags = w->flags,
					 .sges = w->sges,
					 .wr_id = w->id,
					 .imm = w->imm,
					 .length = w->len,
					 .remote = w->remote,
					 .rkey = w->rkey,
					 .ah = w->ah,
					 .compare_add = w->compare_add,
					 .swap = w->swap,
					 .remote_qp = w->to,
					 .qkey = w->qkey};
	const struct rm_qp *q = &rm.qp[qp];

	if (*(uint32_t *)(void *)to || q->posted - q->wait >= 96 || q->sent.tail - q->sent.head > 100)
		return false;
	rm_post(qp, w);
	if (w->flags & SP_RDMA_INLINED)
		memcpy(to + sizeof(head), w->inlined, SP_RDMA_INLINE);
	else
		memcpy(to + sizeof(head), w->sge, sizeof(w->sge));
	memcpy(to, &head, sizeof(head));
	queue->tail = ++world.sq_tail[qp];
	if (!queue->rung) {
		queue->rung = 1;
		nic_doorbell(qp);
	}
	return true;
}

bool world_receive(uint32_t rq, enum world_entry how)
{
	const uint32_t stride = sp_rdma_rq_stride(SP_RDMA_SGES), mtu = rq < RM_SRQ ? rm.qp[rq].mtu : 4096;
	struct sp_rdma_queue *queue = (struct sp_rdma_queue *)(void *)(nic.memory + NIC_RQ(rq));
	uint8_t *to = (uint8_t *)(queue + 1) + (world.rq_tail[rq] % RM_DEPTH) * stride;
	struct rm_entry e = {.id = ++world.receives << 8 | rq | 1ull << 63};
	struct sp_rdma_rqe head;

	if (*(uint32_t *)(void *)to || rm.rq[rq].tail - rm.rq[rq].head >= RM_DEPTH)
		return false;
	if (rq < RM_SRQ && rm.qp[rq].received.tail - rm.qp[rq].received.head > 100)
		return false;
	e.sges = scatter(e.sge, WORLD_HALF, how == ENTRY_SHORT ? nic_draw(mtu) : 6 * mtu);
	if (how == ENTRY_KEY)
		e.sge[0].lkey ^= 0x40000000;
	e.malformed = how == ENTRY_MALFORMED;
	head = (struct sp_rdma_rqe){1, e.malformed ? SP_RDMA_SGES + 1 : e.sges, e.id};
	rm_post_receive(rq, &e);
	memcpy(to + sizeof(head), e.sge, sizeof(e.sge));
	memcpy(to, &head, sizeof(head));
	queue->tail = ++world.rq_tail[rq];
	return true;
}
