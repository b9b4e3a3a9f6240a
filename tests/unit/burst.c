/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is done for a burst at once: packets like the one before are not looked up again, ICRCs are checked together,
 * buffers go back in one piece. A burst must come to the same end as its packets one by one, and give back what came.
 */
#include "../lib/dut.h"

#define PACKETS 4000
#define QPS	3

/* ---- a handler that writes down what it is given ---- */

struct seen {
	uint32_t context, dest_qp, psn, len, hash, frame_len;
	uint16_t qp_index, data;
	uint8_t opcode, flags, l3, l4;
};
static struct seen *seen;
static unsigned seen_count;

static int attach(struct sp_ctx *c)
{
	return sp_qp_claim(c, QPS);
}

static uint32_t payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	CU_ASSERT_FATAL(seen_count < 2 * PACKETS);
	seen[seen_count++] = (struct seen){.context = sp_view_of(c)->context->id,
					   .dest_qp = p->dest_qp,
					   .psn = p->psn,
					   .len = p->len,
					   .hash = p->hash,
					   .frame_len = p->frame_len,
					   .qp_index = p->qp_index,
					   .data = (uint16_t)(p->data - p->frame),
					   .opcode = p->opcode,
					   .flags = p->flags,
					   .l3 = p->l3,
					   .l4 = p->l4};
	return SP_DONE;
}

static const struct sp_handler recorder = {SP_HANDLER_HEAD, .name = "recorder", .doc = "writes down packets' fields",
					   .attach = attach, .payload = payload};
SP_HANDLER(recorder)

/* ---- the same packets in bursts and alone ---- */

/* Runs of a flow, with what may be different about a packet in the midst of one. */
struct flow {
	uint64_t seed;
	uint32_t qp, psn;
	uint8_t last; /* byte of the source address */
	enum frame_ip ip;
};

static void next_frame(struct flow *flow, struct frame *f)
{
	uint64_t *seed = &flow->seed;
	uint8_t bytes[64];

	if (dut_random(seed) % 6 == 0)
		flow->qp = 16 + dut_random(seed) % (2 * QPS + 2); /* two contexts' and two of nobody */
	if (dut_random(seed) % 12 == 0)
		flow->ip = dut_random(seed) % 3 ? FRAME_IP4 : dut_random(seed) % FRAME_IPS;
	if (dut_random(seed) % 8 == 0)
		flow->last = 1 + dut_random(seed) % 3;
	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)dut_random(seed);
	dut_roce(f, flow->ip, flow->qp, flow->psn++ & 0xFFFFFF, bytes, dut_random(seed) % sizeof(bytes));
	if (!frame_is6(flow->ip))
		f->bytes[f->l3 + 15] = flow->last;
	if (dut_random(seed) % 5 == 0)
		f->bytes[f->l4 + 1] = (uint8_t)dut_random(seed);
	if (dut_random(seed) % 9 == 0)
		f->bytes[f->l4 + 8 + 1] |= 0x80; /* solicited event */
	if (dut_random(seed) % 20 == 0 && !frame_is6(flow->ip))
		f->bytes[f->l3 + 19] ^= 0x40; /* another destination */
	if (!frame_is6(flow->ip))
		frame_checksum4(f);
	dut_seal(f);
	if (dut_random(seed) % 15 == 0)
		f->bytes[dut_random(seed) % 3 ? f->len - 1 : f->data - 1] ^= 1; /* the ICRC is wrong now */
	if (dut_random(seed) % 30 == 0)
		f->bytes[dut_random(seed) % f->len] ^= 1u << dut_random(seed) % 8;
	if (dut_random(seed) % 40 == 0)
		f->len = 1 + dut_random(seed) % f->len;
}

static void run(uint64_t run, bool bursts, uint64_t drops[SP_DROP_COUNT], uint64_t taken[2])
{
	struct dut r;
	struct flow flow = {.seed = run * 77 + 1, .qp = 16, .last = 1};
	uint32_t id[2];

	dut_prepare(&r, 1);
	r.config.icrc_off = run & 1;
	dut_create(&r);
	id[0] = dut_context(&r, "a", "recorder", "qp=16");
	id[1] = dut_context(&r, "b", "recorder", "qp=19");
	for (unsigned i = 0; i < PACKETS; i++) {
		struct frame f;

		next_frame(&flow, &f);
		dut_feed(&r, &f);
		if (!bursts || dut_random(&flow.seed) % 25 == 0)
			dut_settle(&r, i);
		if (!bursts) /* both take as many random numbers */
			dut_random(&flow.seed);
	}
	dut_settle(&r, PACKETS);
	dut_check_totals(&r);
	memcpy(drops, r.nic->worker[0]->drops, sizeof(r.nic->worker[0]->drops));
	for (unsigned i = 0; i < 2; i++)
		taken[i] = dut_counter(&r, id[i], "packets");
	dut_stop(&r);
}

static int by_context(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;

	return x->context != y->context ? (x->context < y->context ? -1 : 1) : x->psn < y->psn ? -1 : x->psn > y->psn;
}

TEST(a_burst_comes_to_the_same_end_as_its_packets_one_by_one)
{
	for (uint64_t n = 0; n < 6; n++) {
		uint64_t drops[2][SP_DROP_COUNT], taken[2][2];
		struct seen *one = calloc(2 * PACKETS, sizeof(*one)), *many = calloc(2 * PACKETS, sizeof(*many));
		unsigned count, out = 0;

		seen = one;
		seen_count = 0;
		run(n, false, drops[0], taken[0]);
		count = seen_count;
		seen = many;
		seen_count = 0;
		run(n, true, drops[1], taken[1]);
		CU_ASSERT_EQUAL(seen_count, count);
		CU_ASSERT(count > PACKETS / 4);
		CU_ASSERT(drops[0][SP_DROP_BAD_QP] && drops[0][SP_DROP_WRONG_DESTINATION] &&
			  (n & 1 || drops[0][SP_DROP_BAD_ICRC] > 20));
		CU_ASSERT(!memcmp(drops[0], drops[1], sizeof(drops[0])));
		CU_ASSERT(!memcmp(taken[0], taken[1], sizeof(taken[0])));
		/* Each context has had its own in the order of arrival, which PSNs tell, but for those damaged. */
		if (!(n & 1))
			for (unsigned i = 1, last[2] = {0}; i < count; i++) {
				const unsigned c = many[i].context == many[0].context;

				out += many[i].psn < last[c];
				last[c] = many[i].psn;
			}
		CU_ASSERT_EQUAL(out, 0);
		qsort(one, count, sizeof(*one), by_context);
		qsort(many, count, sizeof(*many), by_context);
		CU_ASSERT(!memcmp(one, many, count * sizeof(*one)));
		free(one);
		free(many);
	}
}

/* ---- buffers ---- */

static void feed(struct dut *r, struct rte_mbuf *m)
{
	dut_need((void **)&r->port.rx[0].arrival, &r->port.rx[0].room, r->port.rx[0].tail, sizeof(struct dut_arrival));
	r->port.rx[0].arrival[r->port.rx[0].tail++] = (struct dut_arrival){m, 0};
}

static void not_needed(void *addr, void *arg)
{
	++*(unsigned *)arg;
}

/* Each kind of buffer that is not to be put back like the others, at each place of a burst of those that are. */
TEST(buffers_go_back_where_they_came_from)
{
	enum { HELD, INDIRECT, EXTERNAL, CHAINED, OTHER_POOL, KINDS };
	struct rte_mempool *pool = rte_pktmbuf_pool_create("burst", 63, 0, 0, 2048, SOCKET_ID_ANY);

	CU_ASSERT_PTR_NOT_NULL_FATAL(pool);
	seen = calloc(2 * PACKETS, sizeof(*seen));
	for (unsigned kind = 0; kind < KINDS; kind++)
		for (unsigned at = 0; at < SP_BURST; at += 5) {
			struct rte_mbuf *odd = kind == OTHER_POOL ? rte_pktmbuf_alloc(pool) : sp_packet_alloc(), *whole;
			static uint8_t outside[1024] __attribute__((aligned(64)));
			static struct rte_mbuf_ext_shared_info shared;
			unsigned freed = 0;
			struct frame f;
			struct dut r;

			seen_count = 0;
			dut_start(&r, 1);
			r.in_use -= kind == OTHER_POOL ? 0 : 1;
			dut_context(&r, "a", "recorder", "qp=16");
			dut_roce(&f, FRAME_IP4, 16, 0, NULL, 40);
			whole = odd;
			if (kind == EXTERNAL) {
				shared.free_cb = not_needed;
				shared.fcb_opaque = &freed;
				rte_mbuf_ext_refcnt_set(&shared, 1);
				rte_pktmbuf_attach_extbuf(odd, outside, 0, sizeof(outside), &shared);
			}
			memcpy(rte_pktmbuf_append(odd, (uint16_t)f.len), f.bytes, f.len);
			if (kind == HELD)
				rte_mbuf_refcnt_update(odd, 1);
			if (kind == INDIRECT)
				odd = rte_pktmbuf_clone(whole, sp_process_pool());
			if (kind == CHAINED)
				rte_pktmbuf_chain(odd, sp_packet_alloc());
			for (unsigned i = 0; i < SP_BURST; i++)
				if (i == at)
					feed(&r, odd);
				else
					dut_feed(&r, &f);
			r.port.fed++;
			dut_settle(&r, 1);
			CU_ASSERT_EQUAL(seen_count, SP_BURST);
			if (kind == HELD || kind == INDIRECT) { /* still the test's */
				CU_ASSERT_EQUAL(rte_mbuf_refcnt_read(whole), 1);
				CU_ASSERT(!memcmp(rte_pktmbuf_mtod(whole, void *), f.bytes, f.len));
				rte_pktmbuf_free(whole);
			}
			CU_ASSERT_EQUAL(freed, kind == EXTERNAL);
			CU_ASSERT_EQUAL(rte_mempool_in_use_count(pool), 0);
			dut_stop(&r); /* finds all buffers back */
		}
	rte_mempool_free(pool);
	free(seen);
}
