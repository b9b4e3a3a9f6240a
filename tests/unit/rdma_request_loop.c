/* SPDX-License-Identifier: BSD-3-Clause */
/* All of the rdma handler with a stand-in for the NIC: two QPs of a context talk to each other, both ways at once, over
 * a link that loses, repeats and reorders, in virtual time. */
#include "rdma_request_loop.h"

static uint64_t placed, kept; /* packets ahead of others, so far */

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
	for (unsigned i = 0; i < n->s.selective.slots; i++)
		CU_ASSERT_FALSE(n->s.selective.slot[i].taken);
	CU_ASSERT_EQUAL(n->s.selective.buffers[0].left, loop_buffers);
	placed += n->counters[RDMA_PLACED_AHEAD];
	kept += n->counters[RDMA_KEPT_AHEAD];
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

static bool lies; /* reports do: a QP may end, and no more */

static void completed(struct side *x, struct side *peer, const struct sp_rdma_cqe *e)
{
	if (lies)
		return;
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

static void both_ways(uint64_t seed, unsigned loss, unsigned repeat, unsigned late)
{
	static const uint32_t mtus[] = {256, 1024, 4096, 512};

	begin(seed, mtus[seed % 4]);
	n->loss = loss * (LOSSES / 1000);
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
	CU_ASSERT_EQUAL(placed + kept, 0);
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

/* ---- selective repeat: every byte, completions in order; with many buffers for packets ahead, and with few ---- */
static void both_ways_selective(uint64_t seed, unsigned loss, unsigned repeat, unsigned late)
{
	loop_selective = true;
	loop_buffers = seed % 3 ? 64 : 3;
	both_ways(seed, loss, repeat, late);
	loop_selective = false;
}

TEST(selective_over_a_link_that_loses)
{
	for (uint64_t seed = 0; seed < suite_times(40); seed++)
		both_ways_selective(seed, 15, 0, 0);
	CU_ASSERT(placed > 1000 && kept > 1000);
}

TEST(selective_over_a_link_that_repeats_and_reorders)
{
	for (uint64_t seed = 0; seed < suite_times(40); seed++)
		both_ways_selective(seed, 0, 20, 20);
}

TEST(selective_over_a_link_that_does_it_all)
{
	for (uint64_t seed = 50; seed < 50 + suite_times(40); seed++)
		both_ways_selective(seed, 10, 10, 10);
}

/* Reports at random from the peer's address, of any length, with any bits: they harm the QP's own conversation only. */
static void lie(struct side *x)
{
	uint8_t bytes[HEAD + 4096 + 4];
	struct sp_packet p = {.data = bytes + HEAD, .len = draw(8) ? 4 + draw(64) : 4 + draw(4000)};
	struct rdma_sq *q = &n->s.qp[x->qp - n->s.first_qp].sq;

	p.frame = bytes;
	p.l3 = 14;
	p.l4 = 34;
	p.frame_len = HEAD + p.len + 4;
	p.dest_qp = x->qp;
	p.qp_index = (uint16_t)(x->qp - n->s.first_qp);
	p.opcode = SP_RC_ACKNOWLEDGE;
	p.flags = SP_PKT_ROCE;
	p.psn = rdma_psn((uint32_t)q->una + draw(4) * draw(300) - draw(2));
	for (uint32_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)draw(256);
	memcpy(bytes + 14 + 12, (const uint8_t[]){1, 2, 3, 4}, 4);
	bytes[14 + 1] = 0;
	bytes[HEAD - 10] = bytes[HEAD - 9] = 0xFF;
	bytes[HEAD] = 0x60;
	sp_store_be32(bytes + HEAD + 4, (uint32_t)q->una + draw(600) - 300);
	rdma_payload(&n->c, NULL, (struct sp_packet *[]){&p}, 1);
}

TEST(reports_that_lie_harm_only_those_who_made_them)
{
	lies = true;
	for (uint64_t seed = 0; seed < suite_times(40); seed++) {
		loop_selective = true;
		begin(seed, 1024);
		for (unsigned i = 0; i < 400; i++) {
			struct side *x = &n->side[0];

			while (x->posted - n->s.qp[x->qp - n->s.first_qp].sq.done < DEPTH && x->posted < 4000)
				post(x, &n->side[1]);
			while (n->side[1].receives - n->s.qp[n->side[1].qp - n->s.first_qp].in.msn < DEPTH - 1)
				post_receive(&n->side[1]);
			run_for(draw(20) * SP_US);
			lie(x);
		}
		for (unsigned k = 0; k < 2; k++) {
			CU_ASSERT_EQUAL(rdma_state(&n->s.qp[n->side[k].qp - n->s.first_qp]) == SP_RDMA_RTR, 0);
			memcpy(n->side[k].wanted, n->side[k].mem + DATA + AREA_WRITTEN * AREA, AREA);
		}
		run_for(SP_SEC);
		end();
	}
	loop_selective = lies = false;
}
