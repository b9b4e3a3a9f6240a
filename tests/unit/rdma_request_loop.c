/* SPDX-License-Identifier: BSD-3-Clause */
/* All of the rdma handler with a stand-in for the NIC: two QPs of a context talk to each other, both ways at once, over
 * a link that loses, repeats and reorders, in virtual time. */
#include "rdma_request_loop.h"

/* ---- control ---- */
static void control(uint32_t op, uint32_t qp, const void *in, uint32_t in_len, void *out, uint32_t out_room)
{
	struct sp_control x = {.op = op, .qp = qp, .in_len = in_len, .in = in, .out = out, .out_room = out_room};

	CU_ASSERT_EQUAL_FATAL(rdma_control(&n->c, &x), 0);
}

static uint32_t make(uint32_t op, const void *in, uint32_t in_len)
{
	struct sp_rdma_id id;

	control(op, 0, in, in_len, &id, sizeof(id));
	return id.id;
}

static void modify(uint32_t qp, struct sp_rdma_qp_attr a, uint32_t state, uint32_t mask)
{
	a.state = state;
	a.mask = mask | SP_RDMA_QP_STATE;
	control(SP_RDMA_QP_MODIFY, qp, &a, sizeof(a), NULL, 0);
}

static void connect(unsigned k, uint32_t mtu)
{
	const struct sp_rdma_qp_attr a = {.access = 15,
					  .ip = {[10] = 0xFF, [11] = 0xFF, 1, 2, 3, 4},
					  .dest_qp = n->side[!k].qp,
					  .rq_psn = 0xFFFFF0 + !k,
					  .sq_psn = 0xFFFFF0 + k,
					  .path_mtu = mtu,
					  .max_rd_atomic = 4,
					  .max_dest_rd_atomic = 4,
					  .min_rnr_timer = 1,
					  .timeout = 7,
					  .retry_cnt = 7,
					  .rnr_retry = 7};

	modify(n->side[k].qp, a, SP_RDMA_INIT, PKEY | PORT | ACCESS);
	modify(n->side[k].qp, a, SP_RDMA_RTR, TO_RTR | SP_RDMA_QP_MAX_DEST_RD | RNR);
	modify(n->side[k].qp, a, SP_RDMA_RTS, TO_RTS);
}

static void begin(uint64_t seed, uint32_t mtu)
{
	uint32_t pd;

	n = sp_alloc(NULL, sizeof(*n));
	n->random = seed * 2654435761u + 1;
	n->mem = (struct sp_mem){.base = sp_alloc(NULL, 2 * SIDE), .len = 2 * SIDE};
	n->c = (struct sp_ctx){.state = &n->s, .counters = n->counters, .workers = 1, .now = SP_SEC};
	rdma_configure(&n->c, &(uint64_t){0});
	CU_ASSERT_EQUAL_FATAL(rdma_attach(&n->c), 0);
	pd = make(SP_RDMA_PD_CREATE, NULL, 0);
	for (unsigned k = 0; k < 2; k++) {
		const uint64_t at = k * SIDE;
		struct side *x = &n->side[k];
		const struct sp_rdma_cq_create cq = {.offset = at, .log = 9};
		struct sp_rdma_qp_create qp = {.sq = at + (256 << 10),
					       .rq = at + (512 << 10),
					       .type = SP_RDMA_RC,
					       .pd = pd,
					       .sq_log = LOG,
					       .rq_log = LOG,
					       .send_sges = 4,
					       .recv_sges = 2,
					       .inlined = 64};
		struct {
			struct sp_rdma_mr_reg r;
			struct sp_rdma_segment g[2];
		} mr = {{VA, SIDE - DATA, pd, 15, 2, 0},
			{{5000, at + DATA, 0, 0}, {SIDE - DATA - 5000, at + DATA + 5000, 0, 0}}};
		struct sp_rdma_keys keys;
		struct sp_rdma_qp made;

		x->mem = n->mem.base + at;
		x->wanted = sp_alloc(NULL, AREA);
		for (unsigned i = 0; i < AREA; i += 4)
			*(uint32_t *)(void *)(x->mem + DATA + AREA_SOURCE * AREA + i) = draw(1u << 31);
		memset(x->mem + DATA + AREA_SOURCE * AREA, 0, 8); /* of ATOMICs */
		qp.send_cq = qp.recv_cq = make(SP_RDMA_CQ_CREATE, &cq, sizeof(cq));
		control(SP_RDMA_MR_REG, 0, &mr, sizeof(mr), &keys, sizeof(keys));
		x->lkey = keys.lkey;
		control(SP_RDMA_QP_CREATE, 0, &qp, sizeof(qp), &made, sizeof(made));
		x->qp = made.qp;
	}
	connect(0, mtu);
	connect(1, mtu);
}

static void end(void)
{
	CU_ASSERT_FALSE(n->bad);
	for (unsigned k = 0; k < 2; k++) {
		CU_ASSERT(!memcmp(n->side[k].wanted, n->side[k].mem + DATA + AREA_WRITTEN * AREA, AREA));
		control(SP_RDMA_QP_DESTROY, n->side[k].qp, NULL, 0, NULL, 0);
		control(SP_RDMA_MR_DEREG, 0, &(struct sp_rdma_id){n->side[k].lkey}, 4, NULL, 0);
		for (unsigned i = 0; i < n->side[k].posted; i++)
			free(n->side[k].request[i].bytes);
	}
	while (gave)
		free(given[--gave]);
}

/* ---- the applications ---- */
static uint8_t *entry(const struct side *x, uint32_t queue, uint32_t i, uint32_t stride)
{
	return x->mem + queue + 64 + (size_t)(i % DEPTH) * stride;
}

static void post_receive(struct side *x)
{
	uint8_t *e = entry(x, 512 << 10, x->receives, sp_rdma_rq_stride(2));
	const uint64_t at = VA + AREA_RECEIVE * AREA + x->receives % DEPTH * SLOT;
	const struct sp_rdma_rqe h = {.sges = 2, .wr_id = x->receives};
	const struct sp_rdma_sge g[2] = {{at, 1001, x->lkey}, {at + 1001, SLOT - 1001, x->lkey}};

	memcpy(e, &h, sizeof(h));
	memcpy(e + sizeof(h), g, sizeof(g));
	__atomic_store_n((uint32_t *)(void *)e, 1, __ATOMIC_RELEASE);
	__atomic_store_n((uint32_t *)(void *)(x->mem + (512 << 10)), ++x->receives, __ATOMIC_RELEASE);
}

static void post(struct side *x, struct side *peer)
{
	static const uint8_t ops[] = {SP_RDMA_WR_WRITE, SP_RDMA_WR_WRITE_IMM, SP_RDMA_WR_SEND,	   SP_RDMA_WR_SEND_IMM,
				      SP_RDMA_WR_READ,	SP_RDMA_WR_READ,      SP_RDMA_WR_FETCH_ADD};
	struct sp_rdma_queue *q = (struct sp_rdma_queue *)(void *)(x->mem + (256 << 10));
	struct request *r = &x->request[x->posted];
	uint8_t *e = entry(x, 256 << 10, x->posted, sp_rdma_sq_stride(4, 64));
	uint8_t *mine = x->mem + DATA + x->posted % DEPTH * SLOT;
	const uint64_t at = VA + x->posted % DEPTH * SLOT, far = draw(AREA - SLOT - 8);
	struct sp_rdma_wqe h = {.op = ops[draw(sizeof(ops))], .sges = 2, .wr_id = x->posted, .rkey = peer->lkey};
	struct sp_rdma_sge g[2];

	*r = (struct request){
		.op = h.op, .len = draw(3) ? draw(3000) : draw(SLOT), .imm = draw(1u << 31), .from = far + 8};
	r->signaled = draw(2) || x->posted - x->done > DEPTH / 2;
	h.flags = (r->signaled ? SP_RDMA_SIGNALED : 0) | (draw(8) ? 0 : SP_RDMA_FENCE);
	h.imm = r->imm;
	if (h.op == SP_RDMA_WR_FETCH_ADD) {
		r->len = 8;
		r->from = 0;
		h.compare_add = 1;
	}
	for (uint32_t i = 0; i < r->len; i++)
		mine[i] = (uint8_t)draw(256);
	h.remote = VA + (h.op == SP_RDMA_WR_FETCH_ADD || h.op == SP_RDMA_WR_READ ? AREA_SOURCE * AREA + r->from
										 : AREA_WRITTEN * AREA + far);
	if (h.op <= SP_RDMA_WR_WRITE_IMM)
		memcpy(peer->wanted + far, mine, r->len);
	if (h.op >= SP_RDMA_WR_WRITE_IMM && h.op <= SP_RDMA_WR_SEND_IMM)
		x->sent[x->sends++] = x->posted;
	if (h.op == SP_RDMA_WR_SEND || h.op == SP_RDMA_WR_SEND_IMM)
		r->bytes = memcpy(malloc(SLOT), mine, r->len);
	g[0] = (struct sp_rdma_sge){at, draw(r->len + 1), x->lkey};
	g[1] = (struct sp_rdma_sge){at + g[0].len, r->len - g[0].len, x->lkey};
	memcpy(e + 4, (uint8_t *)&h + 4, sizeof(h) - 4);
	memcpy(e + sizeof(h), g, sizeof(g));
	__atomic_store_n((uint32_t *)(void *)e, 1, __ATOMIC_RELEASE);
	__atomic_store_n(&q->tail, ++x->posted, __ATOMIC_RELEASE);
	if (!__atomic_exchange_n(&q->rung, 1, __ATOMIC_SEQ_CST))
		rdma_command(&n->c, &(struct sp_command){.op = SP_RDMA_CMD_DOORBELL, .arg = {x->qp}}, NULL);
}

static void sent_done(struct side *x, const struct side *peer, uint32_t i)
{
	const struct request *r = &x->request[i];
	uint8_t *mine = x->mem + DATA + i % DEPTH * SLOT;

	MUST(r->op != SP_RDMA_WR_READ || !memcmp(mine, peer->mem + DATA + AREA_SOURCE * AREA + r->from, r->len));
	memset(mine, 0xEE, r->len);
}

static void completed(struct side *x, struct side *peer, const struct sp_rdma_cqe *e)
{
	MUST(!e->status);
	if (n->bad)
		return;
	if (e->op < SP_RDMA_WC_RECV) {
		for (; x->done < e->wr_id; x->done++) {
			MUST(!x->request[x->done].signaled);
			sent_done(x, peer, x->done);
		}
		MUST(x->done == e->wr_id && x->request[x->done].signaled && e->entries == x->done + 1);
		sent_done(x, peer, x->done++);
	} else {
		const struct request *r = &peer->request[peer->sent[x->received]];

		MUST(x->received < peer->sends && e->len == r->len && e->wr_id == x->received);
		MUST(r->op == SP_RDMA_WR_SEND ? !e->flags : e->flags == SP_RDMA_WC_IMM && e->imm == r->imm);
		MUST(!r->bytes ||
		     !memcmp(x->mem + DATA + AREA_RECEIVE * AREA + e->wr_id % DEPTH * SLOT, r->bytes, r->len));
		x->received++;
	}
}

static void poll(unsigned k)
{
	struct side *x = &n->side[k];
	struct sp_rdma_cq_head *head = (struct sp_rdma_cq_head *)(void *)x->mem;

	for (;; x->cq_at++) {
		const struct sp_rdma_cqe *e = (const struct sp_rdma_cqe *)(void *)(x->mem + 64) + x->cq_at % 512;

		if (__atomic_load_n(&e->phase, __ATOMIC_ACQUIRE) != !(x->cq_at / 512 % 2))
			break;
		completed(x, &n->side[!k], e);
	}
	__atomic_store_n(&head->consumer, x->cq_at, __ATOMIC_RELEASE);
}

/* ---- time ---- */
static bool step(sp_time until)
{
	struct air *next = NULL;
	struct sp_timer *timer = NULL;
	sp_time at = until;
	bool more = false;

	for (unsigned i = 0; i < 8; i++)
		if (n->issue[i % 2]) {
			struct sp_issue *issue = n->issue[i % 2];
			int r;

			n->issue[i % 2] = NULL;
			r = rdma_issue(&n->c, issue, 1 + draw(32));
			n->waits |= r == SP_ISSUE_WAIT;
			n->issue[i % 2] = r == SP_ISSUE_MORE ? issue : n->issue[i % 2];
		}
	poll(0);
	poll(1);
	more = n->issue[0] || n->issue[1];
	at = more && n->c.now + SP_US < until ? n->c.now + SP_US : until;
	while (n->airs && !n->air[n->airs - 1].used)
		n->airs--;
	for (unsigned i = 0; i < n->airs; i++)
		if (n->air[i].used && n->air[i].at < at) {
			next = &n->air[i];
			at = next->at;
		}
	for (unsigned i = 0; i < 8 && n->timer[i]; i++)
		if (n->timer[i]->armed && n->timer[i]->at < at) {
			timer = n->timer[i];
			at = timer->at;
		}
	n->c.now = at > n->c.now ? at : n->c.now;
	for (; n->back < n->lents && n->lent[n->back % IN_AIR] <= n->c.now; n->back++)
		;
	if (n->waits) { /* it is called when ports are done, or too often */
		n->waits = false;
		rdma_qp_start(&n->c, &n->s.qp[n->side[0].qp - n->s.first_qp]);
		rdma_qp_start(&n->c, &n->s.qp[n->side[1].qp - n->s.first_qp]);
		more |= next || timer || n->back < n->lents;
	}
	if (timer) {
		timer->armed = 0;
		rdma_timer(&n->c, timer);
	} else if (next) {
		struct sp_packet *p = &next->p;

		rdma_payload(&n->c, NULL, &p, 1);
		next->used = false;
	}
	return (next || timer || more) && n->c.now < until;
}

static void run_for(sp_time t)
{
	const sp_time until = n->c.now + t;

	while (!n->bad && step(until))
		;
	n->c.now = until;
}

static void both_ways(uint64_t seed, unsigned loss, unsigned repeat, unsigned late)
{
	static const uint32_t mtus[] = {256, 1024, 4096, 512};

	begin(seed, mtus[seed % 4]);
	n->loss = loss;
	n->repeat = repeat;
	n->late = late;
	for (unsigned i = 0; i < 10000 && !n->bad; i++) {
		bool all = true;

		for (unsigned k = 0; k < 2; k++) {
			struct side *x = &n->side[k];

			for (unsigned c = draw(12); c-- && x->posted < 300 && x->posted - x->done < DEPTH - 1;)
				post(x, &n->side[!k]);
			if (x->posted >= 300 && !x->request[x->posted - 1].signaled && x->posted < 400 &&
			    x->posted - x->done < DEPTH - 1)
				post(x, &n->side[!k]);
			for (unsigned c = draw(6); c-- && x->receives - x->received < DEPTH - 1;)
				post_receive(x);
			all &= x->posted >= 300 && x->done == x->posted && x->received == n->side[!k].sends;
		}
		if (all)
			break;
		run_for(draw(60) * SP_US);
	}
	for (unsigned k = 0; k < 2; k++) {
		CU_ASSERT_EQUAL(n->side[k].done, n->side[k].posted);
		CU_ASSERT_EQUAL(n->side[k].received, n->side[!k].sends);
	}
	n->loss = n->repeat = 0;
	run_for(SP_SEC / 100);
	if (n->bad || n->side[0].done != n->side[0].posted)
		printf("# seed %lu: now %llu us, done %u of %u, %u of %u, repeated %lu, timeouts %lu\n", seed,
		       n->c.now / SP_US, n->side[0].done, n->side[0].posted, n->side[1].done, n->side[1].posted,
		       n->counters[RDMA_REPEATED], n->counters[RDMA_TIMEOUTS]);
	end();
}

TEST(over_a_good_link)
{
	for (uint64_t seed = 0; seed < 8; seed++)
		both_ways(seed, 0, 0, 0);
}

TEST(over_a_link_that_loses)
{
	for (uint64_t seed = 0; seed < suite_times(12); seed++)
		both_ways(seed, 15, 0, 0);
}

TEST(over_a_link_that_repeats_and_reorders)
{
	for (uint64_t seed = 0; seed < suite_times(12); seed++)
		both_ways(seed, 0, 20, 20);
}

TEST(over_a_link_that_does_it_all)
{
	for (uint64_t seed = 50; seed < 50 + suite_times(12); seed++)
		both_ways(seed, 10, 10, 10);
}
