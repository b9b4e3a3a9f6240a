/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets whose payload is lent come back in whatever order, while runs are cut short anywhere: each region is in use
 * until its own are back and no longer, nothing is lost, and all is given back once. */
#include "../../pipeline/tx/transmit.h"
#include "../lib/tx_ring.h"

/* Of more regions than a lender has places for, and packets that come back in no order: each region is in use until its
 * own are back, and no longer. */
TEST(each_region_is_in_use_until_its_own_packets_are_back)
{
	enum { REGIONS = SP_ZC_REGIONS + 3, EACH = 5 };
	struct sp_mr *mr[REGIONS];
	unsigned left[REGIONS] = {0}, owner[REGIONS * EACH];
	uint64_t seed = 23;

	tx_ring_start(&tx_ring_lending);
	uint32_t id = dut_context(&dut, "s", "sender", "qp=5;peer=4");
	tx_ring.keeps = true;
	for (unsigned i = 0; i < REGIONS; i++)
		mr[i] = test_region(8192);
	for (unsigned i = 0; i < REGIONS * EACH; i++) {
		struct sp_send s[EACH] = {{.dest_qp = 16, .len = 2048}, {.dest_qp = 16, .len = 1500}};
		const unsigned of = i % REGIONS, n = 1 + i % 2;

		sender_job.run = s;
		sender_job.runs = n;
		CU_ASSERT_EQUAL(sender_call(id, CMD_SEND_RUN, 0, mr[of]->id), 0);
		CU_ASSERT_EQUAL(sender_job.ran, (int)n);
		dut_poll(&dut, 1);
		owner[i] = of;
		left[of] += n;
	}
	for (unsigned i = 0, k = 0; i < REGIONS * EACH; i++) /* to each packet its region */
		for (unsigned n = 0; n < 1 + i % 2; n++)
			tx_ring.held[k++]->hash.usr = owner[i];
	for (unsigned i = 0; i < REGIONS; i++)
		CU_ASSERT_EQUAL(sp_mr_free(mr[i]), -EBUSY);
	while (tx_ring.helds) {
		const unsigned at = (unsigned)(dut_random(&seed) % tx_ring.helds), of = tx_ring.held[at]->hash.usr;

		tx_ring_free(at);
		CU_ASSERT_EQUAL(sp_mr_free(mr[of]), --left[of] ? -EBUSY : 0);
	}
	CU_ASSERT_EQUAL(lender_of(id)->back, lender_of(id)->lent);
	tx_ring_stop();
}

/* Several ports give back as they like: all up to the mark must be back, however many others are. */
TEST(packets_given_back_in_any_order_settle_when_all_are_back)
{
	uint64_t mark[200], seed = 1;
	bool out[200];

	tx_ring_start(&tx_ring_lending);
	uint32_t id = dut_context(&dut, "s", "sender", "qp=5;peer=4");
	struct sp_ctx *c = &sp_context_by_id(dut.nic, id)->view[0]->pub;
	struct sp_mr *mr = test_region(4096);
	CU_ASSERT(sp_send_settled(c, sp_send_mark(c)));
	tx_ring.keeps = true;
	for (unsigned round = 0; round < 30; round++) {
		unsigned order[200];

		for (unsigned i = 0; i < 200; i++) {
			send_from(id, mr, i, 1100);
			mark[i] = sp_send_mark(c);
			out[i] = true;
			order[i] = i;
		}
		while (tx_ring.helds) {
			const unsigned at = (unsigned)(dut_random(&seed) % RTE_MIN(tx_ring.helds, 1 + round * 7));
			bool all = true;

			out[order[at]] = false;
			memmove(order + at, order + at + 1, (tx_ring.helds - 1 - at) * sizeof(order[0]));
			tx_ring_free(at);
			for (unsigned i = 0; i < 200; i++) {
				all &= !out[i];
				if (sp_send_settled(c, mark[i]) != all)
					CU_FAIL("settled too early or too late");
			}
		}
	}
	CU_ASSERT_EQUAL(tx_ring.lent, 6000);
	tx_ring_stop();
}

/* An issue asks, then sends more, and a flush during those sends brings back what it has asked for. No packet that
 * comes back later would start it. */
TEST(an_issue_whose_packets_came_back_after_it_asked_does_not_sleep)
{
	struct sp_issue issue = {.wait = 1};

	tx_ring_start(&tx_ring_lending);
	uint32_t id = dut_context(&dut, "s", "sender", "qp=5;peer=4");
	struct sp_view *v = sp_context_by_id(dut.nic, id)->view[0];
	tx_ring.keeps = true;
	send_from(id, test_region(4096), 0, 2048);
	CU_ASSERT(!sp_send_settled(&v->pub, sp_send_mark(&v->pub)));
	tx_ring_free_all();
	CU_ASSERT(!sp_zc_await(v, &issue));
	CU_ASSERT_EQUAL(dut.nic->worker[0]->awaited, 0);
	sp_zc_forget(v);
	tx_ring_stop();
}

/* ---- all of it at once ---- */

enum { CROWD = SP_ZC_REGIONS + 3, CROWD_RUN = 45, CROWD_BYTES = 16384, WANTED = 4096 };

/* What a packet that was accepted must be, in the order in which they were; and what is known of the regions. */
static struct {
	struct wanted {
		uint32_t region, offset, len;
	} wanted[WANTED];
	unsigned accepted, arrived;
	struct sp_mr *mr[CROWD];
	unsigned out[CROWD];  /* packets accepted and not given back */
	unsigned lent[CROWD]; /* of them, held by the port, and lent for sure */
} crowd;

static uint8_t crowd_byte(uint32_t region, uint64_t at)
{
	return (uint8_t)(region * 37 + at * 7 + (at >> 8));
}

/* What has come to the port since the last time: hash.usr gets whose it is. */
static void crowd_arrive(unsigned *from)
{
	for (; *from < tx_ring.helds; ++*from, crowd.arrived++) {
		struct rte_mbuf *m = tx_ring.held[*from];
		const struct wanted *w = &crowd.wanted[crowd.arrived % WANTED];
		const uint8_t *payload = tx_ring.last.bytes + 14 + 20 + 8 + 12;
		bool right = crowd.arrived < crowd.accepted;

		tx_ring_look(m);
		right &= tx_ring.last.len == 14 + 20 + 8 + 12 + (w->len + 3) / 4 * 4 + 4;
		right &= payload[-5] == 16 + w->region && payload[-1] == (crowd.arrived & 0xFF); /* BTH: QP, PSN */
		for (uint32_t i = 0; right && i < w->len; i++)
			right = payload[i] == crowd_byte(w->region, w->offset + i);
		CU_ASSERT_FATAL(right);
		CU_ASSERT(tx_ring.last.len > 2000 || tx_ring_icrc_ok());
		m->hash.usr = w->region;
		crowd.lent[w->region] += m->nb_segs > 1;
	}
}

static void crowd_return(unsigned at)
{
	const struct rte_mbuf *m = tx_ring.held[at];

	crowd.out[m->hash.usr]--;
	crowd.lent[m->hash.usr] -= m->nb_segs > 1;
	tx_ring_free(at);
}

/* A run out of one region, or by turns of two. */
static void crowd_send(struct sp_ctx *c, uint64_t *seed)
{
	const uint32_t region[2] = {(uint32_t)(dut_random(seed) % CROWD), (uint32_t)(dut_random(seed) % CROWD)};
	const unsigned n = 1 + (unsigned)(dut_random(seed) % CROWD_RUN), second = dut_random(seed) % 2;
	const unsigned wrong = dut_random(seed) % 8 ? CROWD_RUN : (unsigned)(dut_random(seed) % CROWD_RUN);
	const struct sp_mem *mem[2];
	struct sp_send s[CROWD_RUN];
	unsigned of[CROWD_RUN] = {0};

	for (unsigned k = 0; k < 2; k++) {
		struct sp_mr **mr = &crowd.mr[region[k]];

		if (!*mr) {
			CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(dut.dev, CROWD_BYTES, mr), 0);
			for (uint64_t i = 0; i < CROWD_BYTES; i++)
				((uint8_t *)(*mr)->addr)[i] = crowd_byte(region[k], i);
		}
		mem[k] = sp_mem_get(c, (*mr)->id);
		CU_ASSERT_PTR_NOT_NULL_FATAL(mem[k]);
	}
	for (unsigned i = 0; i < n; i++) {
		const uint64_t x = dut_random(seed);
		const bool as_before = i && x % 8;

		of[i] = as_before ? of[i - 1] : second & (unsigned)(x >> 60);
		s[i] = (struct sp_send){.dest_qp = 16 + region[of[i]],
					.psn = crowd.accepted + i,
					.udp_source = (uint16_t)(0xC000 + x % 2),
					.len = as_before ? s[i - 1].len
							 : lend_lengths[(x >> 20) % RTE_DIM(lend_lengths)],
					.mem = mem[of[i]],
					.offset = (x >> 32) % (CROWD_BYTES - 4096)};
		if (i == wrong)
			s[i].offset = CROWD_BYTES - s[i].len + 1;
	}
	int r = sp_send_roce_run(c, sender_job.path[0], s, n);
	CU_ASSERT(r > 0 || r == -EAGAIN || (r == -EFAULT && !wrong));
	CU_ASSERT(r <= (int)RTE_MIN(n, wrong));
	for (int i = 0; i < r; i++, crowd.accepted++) {
		crowd.wanted[crowd.accepted % WANTED] = (struct wanted){region[of[i]], (uint32_t)s[i].offset, s[i].len};
		crowd.out[region[of[i]]]++;
	}
	sp_mem_put(c, mem[0]);
	sp_mem_put(c, mem[1]);
}

/* All but so many of a pool. */
static unsigned take_all_but(struct rte_mempool *pool, struct rte_mbuf **taken, unsigned leave)
{
	const unsigned there = rte_mempool_avail_count(pool);
	unsigned n = 0;

	while (n + leave < there && (taken[n] = rte_pktmbuf_alloc(pool)))
		n++;
	return n;
}

/* Ports that are full in the middle of a run, pieces and buffers that run short there, packets that cannot be sent,
 * more regions than a lender has places for, regions that go and come: each packet accepted is sent once, as it should
 * be, in order, and a region is in use exactly as long as something of it is out. */
TEST(runs_cut_short_anywhere_lose_nothing_and_give_back_once)
{
	static struct rte_mbuf *piece[SP_PIECES], *buffer[SP_PACKET_POOL];
	unsigned pieces = 0, buffers = 0, seen = 0, freed = 0, refused = 0, bounded = 0, blocked = 0;
	uint64_t seed = 41;

	memset(&crowd, 0, sizeof(crowd));
	tx_ring_start(&tx_ring_lending);
	uint32_t id = dut_context(&dut, "s", "sender", "qp=5;peer=4");
	tx_ring.keeps = true;
	for (unsigned round = 0; round < 1500; round++) {
		const uint64_t x = dut_random(&seed);

		if (x % 100 == 0 || x % 100 == 1) { /* ... or there is plenty again */
			rte_pktmbuf_free_bulk(piece, pieces);
			rte_pktmbuf_free_bulk(buffer, buffers);
			pieces = buffers = 0;
			if (x % 2)
				pieces = take_all_but(sp_process_pieces(), piece, (unsigned)(x >> 8) % 150);
			if (x >> 20 & 1)
				buffers = take_all_but(sp_process_pool(), buffer, (unsigned)(x >> 24) % 80);
		}
		tx_ring.full = tx_ring.full ? (x >> 32) % 16 : (x >> 32) % 40 == 0; /* for a while */
		tx_ring.most = (x >> 34) % 2 ? 1 + (unsigned)(x >> 36) % 20 : 0;
		crowd_send(&sp_context_by_id(dut.nic, id)->view[0]->pub, &seed);
		bounded += lender_of(id)->lent - lender_of(id)->back == SP_ZC_MAX;
		blocked += !sp_transmit_room(dut.nic->worker[0], 0);
		dut_poll(&dut, 1);
		crowd_arrive(&seen);
		/* A few are out, or by turns more than may be lent. */
		while (tx_ring.helds > (round / 250 % 2 ? SP_ZC_MAX + 900 : (x >> 40) % 3 * 40)) {
			crowd_return((unsigned)(dut_random(&seed) % tx_ring.helds));
			seen--;
		}
		for (unsigned k = 0; k < CROWD; k++) {
			if (!crowd.mr[k] || (x >> 44) % 4)
				continue;
			int r = sp_mr_free(crowd.mr[k]);
			CU_ASSERT(crowd.lent[k] ? r == -EBUSY : crowd.out[k] ? r == 0 || r == -EBUSY : r == 0);
			freed += !r;
			refused += r != 0;
			crowd.mr[k] = r ? crowd.mr[k] : NULL;
		}
	}
	tx_ring.full = false;
	tx_ring.most = 0;
	for (unsigned i = 0; i < 10; i++)
		dut_poll(&dut, 1);
	crowd_arrive(&seen);
	CU_ASSERT_EQUAL(crowd.arrived, crowd.accepted);
	CU_ASSERT_EQUAL(dut_view(&dut, id, sent), crowd.accepted);
	CU_ASSERT(crowd.accepted > 10000 && tx_ring.lent > 5000);
	CU_ASSERT(freed > 100 && refused > 100 && bounded > 20 && blocked > 20);
	while (tx_ring.helds)
		crowd_return((unsigned)(dut_random(&seed) % tx_ring.helds));
	CU_ASSERT_EQUAL(lender_of(id)->back, lender_of(id)->lent);
	for (unsigned k = 0; k < CROWD; k++)
		CU_ASSERT(crowd.out[k] == 0 && (!crowd.mr[k] || sp_mr_free(crowd.mr[k]) == 0));
	rte_pktmbuf_free_bulk(piece, pieces);
	rte_pktmbuf_free_bulk(buffer, buffers);
	tx_ring_stop();
}
