/* SPDX-License-Identifier: BSD-3-Clause */
#include "rdma_host.h"

struct rdma_fake rdma_f;

struct sp_rdma *rdma_r;
struct sp_rdma_pd *rdma_pd;
struct sp_rdma_cq *rdma_cq;
struct sp_rdma_pair *rdma_qp;

/* ---- the device ---- */
static void *regions[16];

static int mr_alloc(struct sp_dev *d, uint64_t len, struct sp_mr *mr)
{
	mr->id = ++rdma_f.regions;
	CU_ASSERT_FATAL(mr->id < 16);
	mr->addr = regions[mr->id] = aligned_alloc(4096, (len + 4095) / 4096 * 4096);
	memset(mr->addr, 0, len);
	return 0;
}

static int mr_free(struct sp_dev *d, struct sp_mr *mr)
{
	free(mr->addr);
	regions[mr->id] = NULL;
	return 0;
}

static int context_open(struct sp_dev *d, const char *name, const char *handler, const struct sp_setting *s, size_t n,
			uint32_t *id, struct sp_error *error)
{
	CU_ASSERT_STRING_EQUAL(handler, "rdma");
	for (size_t i = 0; i < n; i++)
		snprintf(rdma_f.set + strlen(rdma_f.set), sizeof(rdma_f.set) - strlen(rdma_f.set), "%s=%s;", s[i].key,
			 s[i].value);
	*id = RDMA_CONTEXT;
	return 0;
}

static int context_close(struct sp_dev *d, uint32_t id)
{
	CU_ASSERT_EQUAL(id, RDMA_CONTEXT);
	return 0;
}

static int context_qp(struct sp_dev *d, uint32_t id, uint32_t *qpn)
{
	*qpn = RDMA_QP;
	return 0;
}

static int address(struct sp_dev *d, int family, uint8_t ip[16])
{
	memset(ip, 0, 16);
	ip[10] = ip[11] = 0xFF;
	ip[15] = 4;
	return family == AF_INET ? 0 : -ENOENT;
}

static int post(struct sp_dev *d, const struct sp_command *c)
{
	if (rdma_f.gone)
		return -ENODEV;
	if (rdma_f.full)
		return -EAGAIN;
	rdma_f.bells++;
	rdma_f.bell = *c;
	return 0;
}

static int take(struct sp_dev *d, uint32_t id, struct sp_event *e)
{
	if (rdma_f.gone)
		return -ENODEV;
	if (!rdma_f.events)
		return 0;
	*e = rdma_f.event[0];
	memmove(rdma_f.event, rdma_f.event + 1, --rdma_f.events * sizeof(*e));
	return 1;
}

static int progress(struct sp_dev *d, sp_time now)
{
	return rdma_f.gone ? -ENODEV : 0;
}

static sp_time deadline(struct sp_dev *d)
{
	return SP_NEVER;
}

static int arm(struct sp_dev *d, enum sp_arm what)
{
	return -EOPNOTSUPP;
}

/* ---- control requests ---- */
static int say(struct sp_control *c, const void *bytes, uint32_t len)
{
	const uint32_t n = len - (uint32_t)rdma_f.short_by;

	CU_ASSERT_FATAL(n <= c->out_room);
	memcpy(c->out, bytes, n);
	c->out_len = n;
	return 0;
}

static int cm(struct sp_control *c)
{
	const struct sp_cm_id id = {++rdma_f.next_id};
	struct sp_cm_listen listening;
	uint32_t len = rdma_f.cm_len[0];

	switch (c->op) {
	case SP_CM_CREATE:
		return say(c, &id, sizeof(id));
	case SP_CM_LISTEN:
		memcpy(&listening, c->in, sizeof(listening));
		listening.port = listening.port ? listening.port : 4000;
		return say(c, &listening, sizeof(listening));
	case SP_CM_DESTROY:
		rdma_f.ended++;
		return 0;
	case SP_CM_TAKE:
		if (!rdma_f.cms)
			return -ENOENT;
		memcpy(c->out, &rdma_f.cm[0], len);
		c->out_len = len;
		memmove(rdma_f.cm, rdma_f.cm + 1, --rdma_f.cms * sizeof(rdma_f.cm[0]));
		memmove(rdma_f.cm_len, rdma_f.cm_len + 1, rdma_f.cms * sizeof(len));
		return 0;
	default:
		return 0;
	}
}

static int control(struct sp_dev *d, bool service, struct sp_control *c)
{
	const struct sp_rdma_id id = {rdma_f.next_id + 1};
	const struct sp_rdma_keys keys = {0x100, 0x200};
	const struct sp_rdma_qp made = rdma_f.made.qp ? rdma_f.made : (struct sp_rdma_qp){RDMA_QP, RDMA_WORKER};
	const struct sp_rdma_qp_attr attr = {.state = SP_RDMA_ERR};
	struct sp_rdma_qp_attr changed;

	CU_ASSERT_EQUAL(c->context, RDMA_CONTEXT);
	CU_ASSERT_FATAL(c->in_len <= sizeof(rdma_f.in));
	rdma_f.op = c->op;
	rdma_f.qp = c->qp;
	rdma_f.service = service;
	rdma_f.in_len = c->in_len;
	if (c->in_len)
		memcpy(rdma_f.in, c->in, c->in_len);
	if (rdma_f.status)
		return rdma_f.status;
	if (service)
		return cm(c);
	switch (c->op) {
	case SP_RDMA_QUERY:
		return say(c, &rdma_f.limits, sizeof(rdma_f.limits));
	case SP_RDMA_CQ_CREATE:
		memcpy(&rdma_f.cq, c->in, sizeof(rdma_f.cq));
		rdma_f.slot = 0;
		break;
	case SP_RDMA_SRQ_CREATE:
		memcpy(&rdma_f.srq, c->in, sizeof(rdma_f.srq));
		break;
	case SP_RDMA_PD_CREATE:
	case SP_RDMA_AH_CREATE:
		break;
	case SP_RDMA_MR_REG:
		return say(c, &keys, sizeof(keys));
	case SP_RDMA_QP_CREATE:
		memcpy(&rdma_f.pair, c->in, sizeof(rdma_f.pair));
		return say(c, &made, sizeof(made));
	case SP_RDMA_QP_MODIFY:
		memcpy(&changed, c->in, sizeof(changed));
		if (changed.mask & SP_RDMA_QP_STATE && changed.state == SP_RDMA_RTR)
			rdma_f.rtr = changed;
		if (changed.mask & SP_RDMA_QP_STATE && changed.state == SP_RDMA_RTS)
			rdma_f.rts = changed;
		return 0;
	case SP_RDMA_QP_QUERY:
		return say(c, &attr, sizeof(attr));
	default:
		return 0;
	}
	rdma_f.next_id++;
	return say(c, &id, sizeof(id));
}

static const struct sp_dev_ops ops = {.mr_alloc = mr_alloc,
				      .mr_free = mr_free,
				      .context_open = context_open,
				      .context_qp = context_qp,
				      .context_close = context_close,
				      .address = address,
				      .command_post = post,
				      .control = control,
				      .event_take = take,
				      .progress = progress,
				      .next_deadline = deadline,
				      .arm = arm};

/* ---- opening ---- */
void rdma_host_fresh(void)
{
	memset(&rdma_f, 0, sizeof(rdma_f));
	rdma_f.dev.ops = &ops;
	rdma_f.limits = (struct sp_rdma_limits){.qps = 64,
						.wrs = 1u << 15,
						.sges = 16,
						.cqes = 1u << 22,
						.inlined = SP_RDMA_INLINE,
						.reads = 16,
						.segments = 64};
}

void rdma_host_open(void)
{
	static const struct sp_rdma_qp_attr rts = {.mask = SP_RDMA_QP_STATE, .state = SP_RDMA_RTS};
	struct sp_rdma_qp_init init = {
		.type = SP_RDMA_RC, .send_wr = 3, .recv_wr = 4, .send_sges = 2, .recv_sges = 2, .inlined = 64};

	rdma_host_fresh();
	CU_ASSERT_EQUAL_FATAL(sp_rdma_open(&rdma_f.dev, NULL, &rdma_r, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(sp_rdma_pd_alloc(rdma_r, &rdma_pd), 0);
	CU_ASSERT_EQUAL_FATAL(sp_rdma_cq_create(rdma_r, 4, true, &rdma_f, &rdma_cq), 0);
	init.send_cq = init.recv_cq = rdma_cq;
	init.user = &rdma_qp;
	CU_ASSERT_EQUAL_FATAL(sp_rdma_qp_create(rdma_pd, &init, &rdma_qp), 0);
	CU_ASSERT_EQUAL_FATAL(sp_rdma_qp_modify(rdma_qp, &rts), 0);
}

void rdma_host_shut(void)
{
	rdma_f.status = 0;
	CU_ASSERT_EQUAL(sp_rdma_close(rdma_r), 0);
	for (unsigned i = 0; i < 16; i++)
		CU_ASSERT_PTR_NULL(regions[i]);
}

/* ---- the NIC's side ---- */
void rdma_host_event(uint16_t type, uint64_t cookie, uint64_t arg0)
{
	rdma_f.event[rdma_f.events++] =
		(struct sp_event){.context = RDMA_CONTEXT, .type = type, .cookie = cookie, .arg = {arg0}};
}

uint8_t *rdma_host_memory(uint32_t id, uint64_t offset)
{
	return (uint8_t *)regions[id] + offset;
}

struct sp_rdma_queue *rdma_host_queue(bool send)
{
	return (void *)rdma_host_memory(rdma_f.pair.mem, send ? rdma_f.pair.sq : rdma_f.pair.rq);
}

struct sp_rdma_wqe *rdma_host_wqe(uint32_t index)
{
	const uint32_t stride = sp_rdma_sq_stride(rdma_f.pair.send_sges, rdma_f.pair.inlined);

	return (void *)((uint8_t *)(rdma_host_queue(true) + 1) + (index % (1u << rdma_f.pair.sq_log)) * stride);
}

struct sp_rdma_rqe *rdma_host_rqe(uint32_t index)
{
	const uint32_t stride = sp_rdma_rq_stride(rdma_f.pair.recv_sges);

	return (void *)((uint8_t *)(rdma_host_queue(false) + 1) + (index % (1u << rdma_f.pair.rq_log)) * stride);
}

struct sp_rdma_cq_head *rdma_host_cq(void)
{
	return (void *)rdma_host_memory(rdma_f.cq.mem, rdma_f.cq.offset);
}

void rdma_host_complete(uint64_t wr_id, uint8_t status)
{
	struct sp_rdma_cqe *e = (struct sp_rdma_cqe *)(rdma_host_cq() + 1) + rdma_f.slot % (1u << rdma_f.cq.log);
	const uint32_t lap = rdma_f.slot++ >> rdma_f.cq.log;

	e->wr_id = wr_id;
	e->status = status;
	e->op = SP_RDMA_WC_RECV;
	e->flags = SP_RDMA_WC_IMM;
	e->len = 77;
	e->imm = 88;
	e->qp = RDMA_QP;
	e->src_qp = 99;
	e->entries = rdma_f.slot;
	__atomic_store_n(&e->phase, ~lap & 1, __ATOMIC_RELEASE);
}
