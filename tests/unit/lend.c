/* SPDX-License-Identifier: BSD-3-Clause */
/* Payload that is sent from where it lies: the same bytes on the wire, and nothing is anybody's again, nor gone, before
 * the port has given it back. */
#include "../../host-api/sdr.h"
#include "../../pipeline/host.h"
#include "../../pipeline/lend.h"
#include "../../pipeline/match.h"
#include "../../pipeline/memory.h"

#include "rig_send.h"

/* ---- a port that may keep what it is given, as a driver may until its ring is full ---- */

static struct {
	struct rte_mbuf *held[4096];
	unsigned helds;
	bool keeps, full;
	unsigned most; /* that it takes at once; 0: all */
	struct {
		uint32_t len;
		uint16_t pieces;
		const uint8_t *second; /* where its second piece lies */
		uint8_t bytes[5200];
	} last;
	unsigned sent, lent;
} pier;

static unsigned pier_receive(void *arg, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	(void)arg;
	(void)queue;
	(void)packet;
	(void)max;
	(void)now;
	return 0;
}

static void pier_look(const struct rte_mbuf *m)
{
	pier.last.len = 0;
	pier.last.pieces = m->nb_segs;
	pier.last.second = m->next ? rte_pktmbuf_mtod(m->next, const uint8_t *) : NULL;
	for (const struct rte_mbuf *s = m; s; s = s->next) {
		if (pier.last.len + s->data_len > sizeof(pier.last.bytes))
			abort();
		memcpy(pier.last.bytes + pier.last.len, rte_pktmbuf_mtod(s, const void *), s->data_len);
		pier.last.len += s->data_len;
	}
	CU_ASSERT_EQUAL(pier.last.len, m->pkt_len);
}

static unsigned pier_transmit(void *arg, uint16_t queue, struct rte_mbuf **packet, unsigned count, sp_time now)
{
	(void)arg;
	(void)queue;
	(void)now;
	if (pier.full)
		return 0;
	if (pier.most && count > pier.most)
		count = pier.most;
	for (unsigned i = 0; i < count; i++) {
		pier_look(packet[i]);
		pier.sent++;
		pier.lent += packet[i]->nb_segs > 1;
		if (!pier.keeps)
			rte_pktmbuf_free(packet[i]);
		else if (pier.helds < RTE_DIM(pier.held))
			pier.held[pier.helds++] = packet[i];
		else
			abort();
	}
	return count;
}

static sp_time pier_next(void *arg, uint16_t queue, bool blocked)
{
	(void)arg;
	(void)queue;
	(void)blocked;
	return SP_NEVER;
}

static void give_back(unsigned at)
{
	rte_pktmbuf_free(pier.held[at]);
	pier.helds--;
	memmove(pier.held + at, pier.held + at + 1, (pier.helds - at) * sizeof(pier.held[0]));
}

static void give_all_back(void)
{
	while (pier.helds)
		give_back(0);
}

static const struct sp_port_ops lending = {pier_receive, pier_transmit, pier_next, true},
				copying = {pier_receive, pier_transmit, pier_next, false};

/* ---- a NIC on it ---- */

static unsigned pieces_in_use;

static void open_nic(const struct sp_port_ops *ops)
{
	static const struct sp_neighbour_config known[2] = {{RIG_IP4(192, 0, 2, 1), {2, 0, 0, 0, 0, 2}},
							    {RIG_IP6(1), {2, 0, 0, 0, 0, 2}}};

	memset(&pier, 0, sizeof(pier));
	rig_log_clear();
	rig_prepare(&rig, 1);
	pieces_in_use = rte_mempool_in_use_count(sp_registry_pieces());
	memcpy(rig.config.neighbour, known, sizeof(known));
	rig.config.neighbours = 2;
	rig.config.mtu = 5000;
	rig.config.port[0].ops = ops;
	rig_create(&rig);
}

static void close_nic(void)
{
	give_all_back();
	end();
	CU_ASSERT_EQUAL(rte_mempool_in_use_count(sp_registry_pieces()), pieces_in_use);
}

static struct sp_mr *region(uint64_t bytes)
{
	struct sp_mr *mr;
	uint64_t seed = 5;

	CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(rig.dev, bytes, &mr), 0);
	for (uint64_t i = 0; i < bytes; i++)
		((uint8_t *)mr->addr)[i] = (uint8_t)rig_random(&seed);
	return mr;
}

static void send_from(uint32_t id, const struct sp_mr *mr, uint64_t offset, uint32_t len)
{
	struct sp_send s = {.dest_qp = 16, .udp_source = 0xC123, .len = len, .offset = offset};

	tell.send = &s;
	CU_ASSERT_EQUAL(call(id, CMD_SEND_MEM, 0, mr->id), 0);
	tell.send = NULL;
	rig_poll(&rig, 1);
}

static struct sp_lender *lender(uint32_t id)
{
	return sp_context_by_id(rig.nic, id)->view[0]->lender;
}

static bool seal_is_right(void)
{
	uint32_t crc;

	memcpy(&crc, pier.last.bytes + pier.last.len - 4, 4); /* little-endian, as this machine */
	return crc == rig_icrc(pier.last.bytes + 14, pier.last.len - 4 - 14);
}

/* ---- the wire ---- */

static const uint32_t lengths[] = {0,
				   1,
				   SP_LEND_MIN - 5,
				   SP_LEND_MIN - 4,
				   SP_LEND_MIN - 3,
				   SP_LEND_MIN - 2,
				   SP_LEND_MIN - 1,
				   SP_LEND_MIN,
				   SP_LEND_MIN + 1,
				   SP_LEND_MIN + 2,
				   SP_LEND_MIN + 3,
				   SP_LEND_MIN + 4,
				   1431,
				   1432,
				   1433,
				   1434,
				   1435,
				   1436,
				   1800,
				   4093,
				   4094,
				   4095,
				   4096};
#define EXTS (SP_EXT_MAX / 4 + 1)

struct frame_sent {
	uint32_t len;
	uint8_t bytes[5200];
};

/* Every length with every length of extension headers. */
static void send_all(const struct sp_port_ops *ops, bool six, struct frame_sent *frame)
{
	uint8_t ext[SP_EXT_MAX];
	struct sp_mr *mr;
	uint32_t id;

	open_nic(ops);
	id = rig_context(&rig, "s", "sender", six ? "qp=5;peer=:" : "qp=5;peer=4");
	mr = region(8192);
	memcpy(ext, (uint8_t *)mr->addr + 100, sizeof(ext));
	for (unsigned i = 0; i < RTE_DIM(lengths); i++)
		for (unsigned e = 0; e < EXTS; e++) {
			struct sp_send s = {.dest_qp = 0x123456 + i,
					    .psn = 0xFFFFF0 + e + i,
					    .opcode = 0x2B,
					    .flags = e % 3 ? 0 : SP_PKT_SE,
					    .udp_source = (uint16_t)(0xC000 + i),
					    .ext = ext,
					    .ext_len = e * 4,
					    .len = lengths[i],
					    .offset = i * 7 + e};
			const uint8_t *at = (const uint8_t *)mr->addr + s.offset;
			const bool stays = ops->external && s.len >= SP_LEND_MIN;

			tell.send = &s;
			CU_ASSERT_EQUAL(call(id, CMD_SEND_MEM, 0, mr->id), 0);
			rig_poll(&rig, 1);
			CU_ASSERT_EQUAL(pier.last.pieces, stays ? 3 : 1);
			CU_ASSERT(!stays || pier.last.second == at);
			if (pier.last.len <= 2000)
				CU_ASSERT(seal_is_right());
			frame->len = pier.last.len;
			memcpy(frame++->bytes, pier.last.bytes, pier.last.len);
		}
	CU_ASSERT_EQUAL(rig_view(&rig, id, sent), RTE_DIM(lengths) * EXTS);
	CU_ASSERT_EQUAL(pier.sent, RTE_DIM(lengths) * EXTS);
	CU_ASSERT_EQUAL(sp_mr_free(mr), 0);
	close_nic();
}

static void a_frame_lent_has_the_bytes_of_a_frame_copied(void)
{
	const unsigned n = RTE_DIM(lengths) * EXTS;
	struct frame_sent *frame = calloc(2 * n, sizeof(*frame));

	CU_ASSERT_PTR_NOT_NULL_FATAL(frame);
	for (unsigned six = 0; six < 2; six++) {
		unsigned differ = 0;

		send_all(&copying, six, frame);
		send_all(&lending, six, frame + n);
		for (unsigned i = 0; i < n; i++)
			differ += frame[i].len != frame[n + i].len ||
				  memcmp(frame[i].bytes, frame[n + i].bytes, frame[i].len);
		CU_ASSERT_EQUAL(differ, 0);
	}
	free(frame);
}

/* Runs whose packets are lent, copied, too long, by turns. */
static void runs_lent_have_the_bytes_of_runs_copied(void)
{
	enum { RUNS = 40, RUN = 45 };
	struct frame_sent *frame = calloc(2 * RUNS * RUN, sizeof(*frame)), *f = frame;
	static uint8_t ext[SP_EXT_MAX] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20};
	unsigned differ = 0, pieces = 0, large = 0;

	CU_ASSERT_PTR_NOT_NULL_FATAL(frame);
	for (unsigned side = 0; side < 2; side++) {
		uint64_t seed = 11;
		struct sp_mr *mr;
		uint32_t id;

		open_nic(side ? &lending : &copying);
		id = rig_context(&rig, "s", "sender", "qp=5;peer=4");
		mr = region(16384);
		pier.keeps = true;
		for (unsigned round = 0; round < RUNS; round++) {
			struct sp_send s[RUN];

			for (unsigned i = 0; i < RUN; i++) {
				const uint64_t x = rig_random(&seed);

				s[i] = (struct sp_send){.dest_qp = 16 + (x >> 8) % 2,
							.psn = i,
							.ext = ext,
							.ext_len = 4 * (x >> 9) % 20,
							.len = i && x % 4 ? s[i - 1].len
									  : lengths[(x >> 20) % RTE_DIM(lengths)],
							.offset = (x >> 32) % 8192};
				large += side && s[i].len >= SP_LEND_MIN;
			}
			tell.run = s;
			tell.runs = RUN;
			CU_ASSERT_EQUAL(call(id, CMD_SEND_RUN, 0, mr->id), 0);
			CU_ASSERT_EQUAL(tell.ran, RUN);
			rig_poll(&rig, 1);
			CU_ASSERT_EQUAL_FATAL(pier.helds, RUN);
			for (unsigned i = 0; i < RUN; i++, f++) {
				pier_look(pier.held[i]);
				pieces += side && pier.last.pieces == 3;
				f->len = pier.last.len;
				memcpy(f->bytes, pier.last.bytes, f->len);
			}
			give_all_back();
		}
		CU_ASSERT_EQUAL(lender(id)->back, lender(id)->lent);
		CU_ASSERT_EQUAL(sp_mr_free(mr), 0);
		close_nic();
	}
	for (unsigned i = 0; i < RUNS * RUN; i++)
		differ += frame[i].len != frame[RUNS * RUN + i].len ||
			  memcmp(frame[i].bytes, frame[RUNS * RUN + i].bytes, frame[i].len);
	CU_ASSERT_EQUAL(differ, 0);
	CU_ASSERT_EQUAL(pieces, large);
	free(frame);
}

/* Of more regions than a lender has places for, and packets that come back in no order: each region is in use until its
 * own are back, and no longer. */
static void each_region_is_in_use_until_its_own_packets_are_back(void)
{
	enum { REGIONS = SP_LENT_REGIONS + 3, EACH = 5 };
	struct sp_mr *mr[REGIONS];
	unsigned left[REGIONS] = {0}, owner[REGIONS * EACH];
	uint64_t seed = 23;
	uint32_t id;

	open_nic(&lending);
	id = rig_context(&rig, "s", "sender", "qp=5;peer=4");
	pier.keeps = true;
	for (unsigned i = 0; i < REGIONS; i++)
		mr[i] = region(8192);
	for (unsigned i = 0; i < REGIONS * EACH; i++) {
		struct sp_send s[EACH] = {{.dest_qp = 16, .len = 2048}, {.dest_qp = 16, .len = 1500}};
		const unsigned of = i % REGIONS, n = 1 + i % 2;

		tell.run = s;
		tell.runs = n;
		CU_ASSERT_EQUAL(call(id, CMD_SEND_RUN, 0, mr[of]->id), 0);
		CU_ASSERT_EQUAL(tell.ran, (int)n);
		rig_poll(&rig, 1);
		owner[i] = of;
		left[of] += n;
	}
	for (unsigned i = 0, k = 0; i < REGIONS * EACH; i++) /* to each packet its region */
		for (unsigned n = 0; n < 1 + i % 2; n++)
			pier.held[k++]->hash.usr = owner[i];
	for (unsigned i = 0; i < REGIONS; i++)
		CU_ASSERT_EQUAL(sp_mr_free(mr[i]), -EBUSY);
	while (pier.helds) {
		const unsigned at = (unsigned)(rig_random(&seed) % pier.helds), of = pier.held[at]->hash.usr;

		give_back(at);
		CU_ASSERT_EQUAL(sp_mr_free(mr[of]), --left[of] ? -EBUSY : 0);
	}
	CU_ASSERT_EQUAL(lender(id)->back, lender(id)->lent);
	close_nic();
}

/* From bytes that are nobody's region there is nothing to wait for. */
static void payload_that_lies_in_no_region_is_copied(void)
{
	static uint8_t bytes[4096];
	struct sp_send s = {.dest_qp = 16, .bytes = bytes, .len = sizeof(bytes)};
	uint32_t id;

	open_nic(&lending);
	id = rig_context(&rig, "s", "sender", "qp=5;peer=4");
	tell.send = &s;
	CU_ASSERT_EQUAL(call(id, CMD_SEND, 0, 0), 0);
	rig_poll(&rig, 1);
	CU_ASSERT_EQUAL(pier.last.pieces, 1);
	CU_ASSERT_EQUAL(lender(id)->lent, 0);
	close_nic();
}

static void a_packet_that_waits_for_a_neighbour_is_copied(void)
{
	struct sp_send s = {.dest_qp = 16, .len = 2000};
	struct sp_mr *mr;
	uint32_t id;

	open_nic(&lending);
	rig.config.neighbours = 0;
	sp_dev_close(rig.dev);
	sp_nic_destroy(rig.nic);
	rig_create(&rig);
	id = rig_context(&rig, "s", "sender", "qp=5;peer=4");
	mr = region(4096);
	tell.send = &s;
	CU_ASSERT_EQUAL(call(id, CMD_SEND_MEM, 0, mr->id), 0);
	rig_poll(&rig, 1);
	CU_ASSERT_EQUAL(rig.nic->worker[0]->pending_count, 1);
	CU_ASSERT_EQUAL(lender(id)->lent, 0);
	CU_ASSERT_EQUAL(sp_mr_free(mr), 0);
	close_nic();
}

/* Nobody else's bytes are touched, and the receiver can tell. */
static void bytes_changed_too_early_spoil_their_own_packet_only(void)
{
	struct sp_mr *mr;
	uint32_t id;

	open_nic(&lending);
	id = rig_context(&rig, "s", "sender", "qp=5;peer=4");
	mr = region(4096);
	pier.keeps = true;
	send_from(id, mr, 0, 1200);
	send_from(id, mr, 2000, 1200);
	CU_ASSERT(seal_is_right());
	((uint8_t *)mr->addr)[500] ^= 1;
	pier_look(pier.held[0]);
	CU_ASSERT(!seal_is_right());
	pier_look(pier.held[1]);
	CU_ASSERT(seal_is_right());
	close_nic();
}

static void filters_see_all_pieces_of_a_frame(void)
{
	struct sp_rule *yes, *no;
	struct sp_error error;
	struct sp_mr *mr;
	char text[64];
	uint32_t id;

	open_nic(&lending);
	id = rig_context(&rig, "s", "sender", "qp=5;peer=4");
	mr = region(4096);
	pier.keeps = true;
	send_from(id, mr, 0, 1500);
	for (unsigned at = 30; at < pier.last.len; at += 20) { /* headers, payload, ICRC */
		const unsigned byte = RTE_MIN(at, pier.last.len - 2);

		snprintf(text, sizeof(text), "ether[%u] = %u", byte, pier.last.bytes[byte]);
		CU_ASSERT_EQUAL_FATAL(sp_rule_create(text, NULL, &yes, &error), 0);
		snprintf(text, sizeof(text), "ether[%u] != %u", byte, pier.last.bytes[byte]);
		CU_ASSERT_EQUAL_FATAL(sp_rule_create(text, NULL, &no, &error), 0);
		CU_ASSERT(sp_rule_matches(yes, pier.held[0]));
		CU_ASSERT(!sp_rule_matches(no, pier.held[0]));
		sp_rule_destroy(yes);
		sp_rule_destroy(no);
	}
	close_nic();
}

/* ---- bounds ---- */

static void what_is_beyond_the_bound_is_copied(void)
{
	struct sp_mr *mr;
	uint32_t id;

	open_nic(&lending);
	id = rig_context(&rig, "s", "sender", "qp=5;peer=4");
	mr = region(4096);
	pier.keeps = true;
	for (unsigned i = 0; i < SP_LENT + 10; i++)
		send_from(id, mr, i, 1100);
	CU_ASSERT_EQUAL(pier.sent, SP_LENT + 10);
	CU_ASSERT_EQUAL(pier.lent, SP_LENT);
	give_back(0);
	send_from(id, mr, 0, 1100);
	send_from(id, mr, 0, 1100);
	CU_ASSERT_EQUAL(pier.lent, SP_LENT + 1);
	close_nic();
}

static void without_pieces_left_packets_are_copied(void)
{
	static struct rte_mbuf *taken[SP_PIECES];
	struct sp_mr *mr;
	unsigned n = 0;
	uint32_t id;

	open_nic(&lending);
	id = rig_context(&rig, "s", "sender", "qp=5;peer=4");
	mr = region(4096);
	while (n < SP_PIECES && (taken[n] = rte_pktmbuf_alloc(sp_registry_pieces())))
		n++;
	send_from(id, mr, 0, 1100);
	CU_ASSERT_EQUAL(pier.sent, 1);
	CU_ASSERT_EQUAL(pier.lent, 0);
	CU_ASSERT(seal_is_right());
	rte_pktmbuf_free_bulk(taken, n);
	send_from(id, mr, 0, 1100);
	CU_ASSERT_EQUAL(pier.lent, 1);
	close_nic();
}

/* ---- all of it at once ---- */

enum { CROWD = SP_LENT_REGIONS + 3, CROWD_RUN = 45, CROWD_BYTES = 16384, WANTED = 4096 };

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
	for (; *from < pier.helds; ++*from, crowd.arrived++) {
		struct rte_mbuf *m = pier.held[*from];
		const struct wanted *w = &crowd.wanted[crowd.arrived % WANTED];
		const uint8_t *payload = pier.last.bytes + 14 + 20 + 8 + 12;
		bool right = crowd.arrived < crowd.accepted;

		pier_look(m);
		right &= pier.last.len == 14 + 20 + 8 + 12 + (w->len + 3) / 4 * 4 + 4;
		right &= payload[-5] == 16 + w->region && payload[-1] == (crowd.arrived & 0xFF); /* BTH: QP, PSN */
		for (uint32_t i = 0; right && i < w->len; i++)
			right = payload[i] == crowd_byte(w->region, w->offset + i);
		CU_ASSERT_FATAL(right);
		CU_ASSERT(pier.last.len > 2000 || seal_is_right());
		m->hash.usr = w->region;
		crowd.lent[w->region] += m->nb_segs > 1;
	}
}

static void crowd_return(unsigned at)
{
	const struct rte_mbuf *m = pier.held[at];

	crowd.out[m->hash.usr]--;
	crowd.lent[m->hash.usr] -= m->nb_segs > 1;
	give_back(at);
}

/* A run out of one region, or by turns of two. */
static void crowd_send(struct sp_ctx *c, uint64_t *seed)
{
	const uint32_t region[2] = {(uint32_t)(rig_random(seed) % CROWD), (uint32_t)(rig_random(seed) % CROWD)};
	const unsigned n = 1 + (unsigned)(rig_random(seed) % CROWD_RUN), second = rig_random(seed) % 2;
	const unsigned wrong = rig_random(seed) % 8 ? CROWD_RUN : (unsigned)(rig_random(seed) % CROWD_RUN);
	const struct sp_mem *mem[2];
	struct sp_send s[CROWD_RUN];
	unsigned of[CROWD_RUN] = {0};
	int r;

	for (unsigned k = 0; k < 2; k++) {
		struct sp_mr **mr = &crowd.mr[region[k]];

		if (!*mr) {
			CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(rig.dev, CROWD_BYTES, mr), 0);
			for (uint64_t i = 0; i < CROWD_BYTES; i++)
				((uint8_t *)(*mr)->addr)[i] = crowd_byte(region[k], i);
		}
		mem[k] = sp_mem_get(c, (*mr)->id);
		CU_ASSERT_PTR_NOT_NULL_FATAL(mem[k]);
	}
	for (unsigned i = 0; i < n; i++) {
		const uint64_t x = rig_random(seed);
		const bool as_before = i && x % 8;

		of[i] = as_before ? of[i - 1] : second & (unsigned)(x >> 60);
		s[i] = (struct sp_send){.dest_qp = 16 + region[of[i]],
					.psn = crowd.accepted + i,
					.udp_source = (uint16_t)(0xC000 + x % 2),
					.len = as_before ? s[i - 1].len : lengths[(x >> 20) % RTE_DIM(lengths)],
					.mem = mem[of[i]],
					.offset = (x >> 32) % (CROWD_BYTES - 4096)};
		if (i == wrong)
			s[i].offset = CROWD_BYTES - s[i].len + 1;
	}
	r = sp_send_roce_run(c, tell.path[0], s, n);
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
static void runs_cut_short_anywhere_lose_nothing_and_give_back_once(void)
{
	static struct rte_mbuf *piece[SP_PIECES], *buffer[SP_PACKET_POOL];
	unsigned pieces = 0, buffers = 0, seen = 0, freed = 0, refused = 0, bounded = 0, blocked = 0;
	uint64_t seed = 41;
	uint32_t id;

	memset(&crowd, 0, sizeof(crowd));
	open_nic(&lending);
	id = rig_context(&rig, "s", "sender", "qp=5;peer=4");
	pier.keeps = true;
	for (unsigned round = 0; round < 1500; round++) {
		const uint64_t x = rig_random(&seed);

		if (x % 100 == 0 || x % 100 == 1) { /* ... or there is plenty again */
			rte_pktmbuf_free_bulk(piece, pieces);
			rte_pktmbuf_free_bulk(buffer, buffers);
			pieces = buffers = 0;
			if (x % 2)
				pieces = take_all_but(sp_registry_pieces(), piece, (unsigned)(x >> 8) % 150);
			if (x >> 20 & 1)
				buffers = take_all_but(sp_registry_pool(), buffer, (unsigned)(x >> 24) % 80);
		}
		pier.full = pier.full ? (x >> 32) % 16 : (x >> 32) % 40 == 0; /* for a while */
		pier.most = (x >> 34) % 2 ? 1 + (unsigned)(x >> 36) % 20 : 0;
		crowd_send(&sp_context_by_id(rig.nic, id)->view[0]->pub, &seed);
		bounded += lender(id)->lent - lender(id)->back == SP_LENT;
		blocked += !sp_transmit_room(rig.nic->worker[0], 0);
		rig_poll(&rig, 1);
		crowd_arrive(&seen);
		/* A few are out, or by turns more than may be lent. */
		while (pier.helds > (round / 250 % 2 ? SP_LENT + 900 : (x >> 40) % 3 * 40)) {
			crowd_return((unsigned)(rig_random(&seed) % pier.helds));
			seen--;
		}
		for (unsigned k = 0; k < CROWD; k++) {
			int r;

			if (!crowd.mr[k] || (x >> 44) % 4)
				continue;
			r = sp_mr_free(crowd.mr[k]);
			CU_ASSERT(crowd.lent[k] ? r == -EBUSY : crowd.out[k] ? r == 0 || r == -EBUSY : r == 0);
			freed += !r;
			refused += r != 0;
			crowd.mr[k] = r ? crowd.mr[k] : NULL;
		}
	}
	pier.full = false;
	pier.most = 0;
	for (unsigned i = 0; i < 10; i++)
		rig_poll(&rig, 1);
	crowd_arrive(&seen);
	CU_ASSERT_EQUAL(crowd.arrived, crowd.accepted);
	CU_ASSERT_EQUAL(rig_view(&rig, id, sent), crowd.accepted);
	CU_ASSERT(crowd.accepted > 10000 && pier.lent > 5000);
	CU_ASSERT(freed > 100 && refused > 100 && bounded > 20 && blocked > 20);
	while (pier.helds)
		crowd_return((unsigned)(rig_random(&seed) % pier.helds));
	CU_ASSERT_EQUAL(lender(id)->back, lender(id)->lent);
	for (unsigned k = 0; k < CROWD; k++)
		CU_ASSERT(crowd.out[k] == 0 && (!crowd.mr[k] || sp_mr_free(crowd.mr[k]) == 0));
	rte_pktmbuf_free_bulk(piece, pieces);
	rte_pktmbuf_free_bulk(buffer, buffers);
	close_nic();
}

/* ---- settling ---- */

/* Several ports give back as they like: all up to the mark must be back, however many others are. */
static void packets_given_back_in_any_order_settle_when_all_are_back(void)
{
	struct sp_ctx *c;
	struct sp_mr *mr;
	uint64_t mark[200], seed = 1;
	bool out[200];
	uint32_t id;

	open_nic(&lending);
	id = rig_context(&rig, "s", "sender", "qp=5;peer=4");
	c = &sp_context_by_id(rig.nic, id)->view[0]->pub;
	mr = region(4096);
	CU_ASSERT(sp_send_settled(c, sp_send_mark(c)));
	pier.keeps = true;
	for (unsigned round = 0; round < 30; round++) {
		unsigned order[200];

		for (unsigned i = 0; i < 200; i++) {
			send_from(id, mr, i, 1100);
			mark[i] = sp_send_mark(c);
			out[i] = true;
			order[i] = i;
		}
		while (pier.helds) {
			const unsigned at = (unsigned)(rig_random(&seed) % RTE_MIN(pier.helds, 1 + round * 7));
			bool all = true;

			out[order[at]] = false;
			memmove(order + at, order + at + 1, (pier.helds - 1 - at) * sizeof(order[0]));
			give_back(at);
			for (unsigned i = 0; i < 200; i++) {
				all &= !out[i];
				if (sp_send_settled(c, mark[i]) != all)
					CU_FAIL("settled too early or too late");
			}
		}
	}
	CU_ASSERT_EQUAL(pier.lent, 6000);
	close_nic();
}

static struct sdr_context *sdr;
static struct sdr_qp *qp;

static void open_sdr(struct sp_dev *dev, const struct sdr_qp_attr *more)
{
	struct sdr_qp_attr attr = {.mtu = 2048,
				   .chunk_bytes = 2048,
				   .max_message_bytes = 1 << 20,
				   .max_messages = 4,
				   .nonce = 5,
				   .implicit_credit = true,
				   .qpn = 0x100,
				   .segments = more ? more->segments : 0};
	struct sp_error error = {.text = ""};
	struct sdr_qp_info peer;

	CU_ASSERT_EQUAL_FATAL(sdr_context_create(dev, NULL, &sdr), 0);
	CU_ASSERT_EQUAL_FATAL(sdr_qp_create(sdr, &attr, &qp, &error), 0);
	sdr_qp_info_get(qp, &peer);
	memcpy(peer.ip, rig_peer4, 16);
	peer.nonce = 6;
	CU_ASSERT_EQUAL_FATAL(sdr_qp_connect(qp, &peer), 0);
}

static void close_sdr(void)
{
	CU_ASSERT_EQUAL(sdr_qp_destroy(qp), 0);
	CU_ASSERT_EQUAL(sdr_context_destroy(sdr), 0);
}

static void polls(unsigned n)
{
	while (n--)
		rig_poll(&rig, 1);
}

static void a_buffer_is_the_applications_again_when_the_port_has_given_it_back(void)
{
	struct sdr_send *send[3];
	struct sp_mr *mr;

	open_nic(&lending);
	open_sdr(rig.dev, NULL);
	mr = region(65536);
	pier.keeps = true;
	CU_ASSERT_EQUAL_FATAL(sdr_send_post(qp, mr, 0, 5 * 2048, 0, &send[0]), 0);
	CU_ASSERT_EQUAL_FATAL(sdr_send_post(qp, mr, 20000, 2048, 0, &send[1]), 0);
	CU_ASSERT_EQUAL_FATAL(sdr_send_post(qp, mr, 30000, 100, 0, &send[2]), 0); /* copied */
	polls(10);
	CU_ASSERT_EQUAL_FATAL(pier.helds, 7);
	for (unsigned back = 0; back < 7; back++) {
		CU_ASSERT_EQUAL(sdr_send_poll(send[0]), -EAGAIN);
		CU_ASSERT_EQUAL(sdr_send_poll(send[1]), -EAGAIN);
		CU_ASSERT_EQUAL(sp_mr_free(mr), -EBUSY);
		if (back == 4)
			break;
		give_back(0);
		polls(2);
	}
	give_back(0);
	polls(2);
	CU_ASSERT_EQUAL(sdr_send_poll(send[0]), 0);
	CU_ASSERT_EQUAL(sdr_send_poll(send[1]), -EAGAIN);
	give_back(0);
	polls(2);
	CU_ASSERT_EQUAL(sdr_send_poll(send[1]), 0);
	CU_ASSERT_EQUAL(sdr_send_poll(send[2]), 0);
	CU_ASSERT_EQUAL(sp_mr_free(mr), 0);
	CU_ASSERT_EQUAL(rig.nic->worker[0]->issuing, NULL); /* nobody asks any more */
	close_sdr();
	close_nic();
}

static void a_stream_goes_on_while_its_pieces_are_out(void)
{
	struct sdr_send *send;
	struct sp_mr *mr;
	uint32_t id;

	open_nic(&lending);
	open_sdr(rig.dev, &(struct sdr_qp_attr){.segments = 3});
	mr = region(65536);
	pier.keeps = true;
	CU_ASSERT_EQUAL_FATAL(sdr_send_stream_start(qp, 5 * 2048, 0, &send), 0);
	for (unsigned i = 0; i < 3; i++)
		CU_ASSERT_EQUAL(sdr_send_stream_continue(send, mr, i * 2048, 2048, i * 2048), 0);
	polls(5);
	CU_ASSERT_EQUAL(pier.sent, 3);
	CU_ASSERT_EQUAL(sdr_send_poll(send), -EAGAIN);
	CU_ASSERT_EQUAL(sdr_send_stream_continue(send, mr, 0, 2048, 0), -EAGAIN); /* all segments are in use */
	give_back(0);
	polls(2);
	CU_ASSERT_EQUAL(sdr_send_stream_continue(send, mr, 3 * 2048, 2048, 3 * 2048), 0);
	polls(2);
	CU_ASSERT_EQUAL(pier.sent, 4);
	CU_ASSERT_EQUAL(sdr_send_poll(send), -EAGAIN);
	give_back(2); /* the last one first */
	polls(2);
	CU_ASSERT_EQUAL(sdr_send_poll(send), -EAGAIN);
	give_all_back();
	polls(2);
	CU_ASSERT_EQUAL(sdr_send_poll(send), 0);
	CU_ASSERT_EQUAL(sdr_send_stream_continue(send, mr, 4 * 2048, 2048, 4 * 2048), 0);
	CU_ASSERT_EQUAL(sdr_send_stream_continue(send, mr, 0, 2048, 0), 0);
	CU_ASSERT_EQUAL(sdr_send_stream_end(send), 0);
	polls(2);
	CU_ASSERT_EQUAL(sdr_send_poll(send), -EAGAIN);
	give_back(0);
	polls(2);
	CU_ASSERT_EQUAL_FATAL(sp_nic_context_find(rig.nic, "sdr-256", &id), 0);
	CU_ASSERT_EQUAL(rig_counter(&rig, id, "messages_sent"), 0);
	CU_ASSERT_EQUAL(sdr_send_poll(send), -EAGAIN);
	give_all_back();
	polls(2);
	CU_ASSERT_EQUAL(rig_counter(&rig, id, "messages_sent"), 1);
	CU_ASSERT_EQUAL(sdr_send_poll(send), 0);
	CU_ASSERT_EQUAL(sp_mr_free(mr), 0);
	close_sdr();
	close_nic();
}

/* ---- whoever goes first ---- */

static void a_region_outlives_the_context_whose_packets_are_out(void)
{
	const uint64_t before = (open_nic(&lending), rig.nic->memory_used);
	struct sdr_send *send;
	struct sp_mr *mr;
	uint8_t copy[2048];

	open_sdr(rig.dev, NULL);
	mr = region(65536);
	memcpy(copy, (uint8_t *)mr->addr + 2048, sizeof(copy));
	pier.keeps = true;
	CU_ASSERT_EQUAL_FATAL(sdr_send_post(qp, mr, 0, 3 * 2048, 0, &send), 0);
	polls(5);
	CU_ASSERT_EQUAL_FATAL(pier.helds, 3);
	pier.full = true; /* ... and some wait in the NIC's own queue */
	CU_ASSERT_EQUAL_FATAL(sdr_send_post(qp, mr, 0, 3 * 2048, 0, &send), 0);
	polls(5);
	CU_ASSERT_EQUAL(pier.helds, 3);
	close_sdr();
	CU_ASSERT_EQUAL(sp_mr_free(mr), -EBUSY);
	CU_ASSERT_PTR_NOT_NULL(rig.nic->lendings);
	pier.full = false;
	polls(5);
	CU_ASSERT_EQUAL(pier.helds, 6);
	pier_look(pier.held[1]);
	CU_ASSERT(!memcmp(pier.last.bytes + 14 + 20 + 8 + 12 + 20, copy, 2048));
	give_all_back();
	CU_ASSERT_EQUAL(sp_mr_free(mr), 0);
	CU_ASSERT_EQUAL(rig.nic->memory_used, before);
	close_nic();
}

/* What the server does when an application's socket closes. */
static void memory_of_an_application_that_dies_stays_until_its_packets_are_back(void)
{
	const uint64_t before = (open_nic(&lending), rig.nic->memory_used);
	const struct sp_setting setting[] = {{"qp", "5"}, {"peer", "4"}};
	const struct sp_send s = {.dest_qp = 16, .len = 2048, .offset = 63488};
	struct sp_device *device;
	struct sp_mr *mr, *other;
	struct sp_command c;
	uint8_t copy[2048];
	uint32_t id;

	CU_ASSERT_EQUAL_FATAL(sp_device_create(rig.nic, true, NULL, &device), 0);
	CU_ASSERT_EQUAL_FATAL(sp_context_open(&device->pub, "s", "sender", setting, 2, &id, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(&device->pub, 65536, &mr), 0);
	memset(mr->addr, 0x5A, 65536);
	memset(copy, 0x5A, sizeof(copy));
	pier.keeps = true;
	tell.send = &s;
	for (unsigned i = 0; i < 3; i++) {
		c = (struct sp_command){.op = CMD_SEND_MEM, .context = id, .arg = {0, mr->id}};
		CU_ASSERT_EQUAL(sp_command_call(&device->pub, &c, NULL), 0);
	}
	tell.send = NULL;
	polls(1);
	CU_ASSERT_EQUAL_FATAL(pier.helds, 3);
	sp_dev_close(&device->pub);
	CU_ASSERT_EQUAL(rig.nic->memory_used, before + 65536);
	pier_look(pier.held[2]);
	CU_ASSERT(!memcmp(pier.last.bytes + 14 + 20 + 8 + 12, copy, 2048));
	give_all_back();
	other = region(4096); /* makes room first */
	CU_ASSERT_EQUAL(rig.nic->memory_used, before + 4096);
	CU_ASSERT_EQUAL(sp_mr_free(other), 0);
	close_nic();
}

/* Some with the port, some still in the NIC's queue, of more regions than share a reference. */
static void runs_of_an_application_that_dies_keep_each_its_region_and_no_other(void)
{
	enum { REGIONS = SP_LENT_REGIONS + 2, EACH = 20, BYTES = 65536 };
	const uint64_t before = (open_nic(&lending), rig.nic->memory_used);
	const struct sp_setting setting[] = {{"qp", "5"}, {"peer", "4"}};
	struct sp_send s[EACH];
	struct sp_device *device;
	struct sp_mr *mr, *other;
	struct sp_command c;
	uint8_t same[2000];
	unsigned wrong = 0;
	uint32_t id;

	CU_ASSERT_EQUAL_FATAL(sp_device_create(rig.nic, true, NULL, &device), 0);
	CU_ASSERT_EQUAL_FATAL(sp_context_open(&device->pub, "s", "sender", setting, 2, &id, NULL), 0);
	pier.keeps = true;
	for (unsigned k = 0; k < REGIONS; k++) {
		CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(&device->pub, BYTES, &mr), 0);
		memset(mr->addr, 0x50 + (int)k, BYTES);
		for (unsigned i = 0; i < EACH; i++)
			s[i] = (struct sp_send){.dest_qp = 16 + k, .psn = i, .len = 2000, .offset = i * 2000};
		tell.run = s;
		tell.runs = EACH;
		pier.full = k > 0;
		pier.most = k ? 0 : EACH / 2; /* the port is full within the first region's run */
		c = (struct sp_command){.op = CMD_SEND_RUN, .context = id, .arg = {0, mr->id}};
		CU_ASSERT_EQUAL(sp_command_call(&device->pub, &c, NULL), 0);
		CU_ASSERT_EQUAL(tell.ran, EACH);
		polls(1);
	}
	CU_ASSERT_EQUAL(pier.helds, EACH / 2);
	pier.full = true;
	sp_dev_close(&device->pub);
	CU_ASSERT_EQUAL(rig.nic->memory_used, before + (uint64_t)REGIONS * BYTES);
	pier.full = false;
	pier.most = 0;
	polls(5);
	CU_ASSERT_EQUAL_FATAL(pier.helds, REGIONS * EACH);
	for (unsigned i = 0; i < pier.helds; i++) {
		memset(same, 0x50 + (int)(i / EACH), sizeof(same));
		pier_look(pier.held[i]);
		wrong += pier.last.pieces != 3 || memcmp(pier.last.bytes + 14 + 20 + 8 + 12, same, sizeof(same)) ||
			 pier.last.bytes[14 + 20 + 8 + 7] != 16 + i / EACH;
	}
	CU_ASSERT_EQUAL(wrong, 0);
	for (unsigned left = REGIONS; left; left--) { /* the last region's first */
		while (pier.helds > (left - 1) * EACH + 1)
			give_back(pier.helds - 1);
		other = region(4096); /* makes room first */
		CU_ASSERT_EQUAL(rig.nic->memory_used, before + 4096 + (uint64_t)left * BYTES);
		CU_ASSERT_EQUAL(sp_mr_free(other), 0);
		give_back(pier.helds - 1);
	}
	other = region(4096);
	CU_ASSERT_EQUAL(rig.nic->memory_used, before + 4096);
	CU_ASSERT_EQUAL(sp_mr_free(other), 0);
	close_nic();
}

static void a_connection_closed_by_the_application_says_so_at_once(void)
{
	const struct sp_command close = {.op = SP_CMD_CLOSE};
	struct sdr_send *send;
	struct sp_command c;
	struct sp_mr *mr;
	uint32_t id;

	open_nic(&lending);
	open_sdr(rig.dev, NULL);
	mr = region(65536);
	pier.keeps = true;
	CU_ASSERT_EQUAL_FATAL(sdr_send_post(qp, mr, 0, 3 * 2048, 0, &send), 0);
	polls(5);
	CU_ASSERT_EQUAL_FATAL(sp_nic_context_find(rig.nic, "sdr-256", &id), 0);
	c = close;
	c.context = id;
	CU_ASSERT_EQUAL(sp_command_call(rig.dev, &c, NULL), 0);
	CU_ASSERT_EQUAL(sdr_send_poll(send), 0); /* nobody waits for these any more */
	CU_ASSERT_EQUAL(sp_mr_free(mr), -EBUSY); /* but the port has them */
	give_all_back();
	CU_ASSERT_EQUAL(sp_mr_free(mr), 0);
	close_sdr();
	close_nic();
}

/* A PCI driver may keep what it was given when it is stopped; a later owner of the port, or the process's end, frees
 * it. */
static void packets_given_back_after_the_nic_has_gone_do_no_harm(void)
{
	struct sdr_send *send;
	struct sp_mr *mr;

	open_nic(&lending);
	open_sdr(rig.dev, NULL);
	mr = region(65536);
	pier.keeps = true;
	CU_ASSERT_EQUAL_FATAL(sdr_send_post(qp, mr, 0, 5 * 2048, 0, &send), 0);
	polls(5);
	CU_ASSERT_EQUAL_FATAL(pier.helds, 5);
	close_sdr();
	sp_dev_close(rig.dev);
	sp_nic_destroy(rig.nic);
	give_back(3);
	give_all_back();
	rig_port_free(&rig.port);
	rig_port_free(&rig.exception);
	rig_log_clear();
	CU_ASSERT_EQUAL(rte_mempool_in_use_count(sp_registry_pieces()), pieces_in_use);
	CU_ASSERT_EQUAL(rte_mempool_in_use_count(sp_registry_pool()), rig.in_use);
}

static void a_nic_may_go_with_packets_in_its_queue(void)
{
	struct sdr_send *send;
	struct sp_mr *mr;

	open_nic(&lending);
	open_sdr(rig.dev, NULL);
	mr = region(65536);
	pier.full = true;
	CU_ASSERT_EQUAL_FATAL(sdr_send_post(qp, mr, 0, 5 * 2048, 0, &send), 0);
	polls(5);
	CU_ASSERT_EQUAL(pier.sent, 0);
	close_sdr();
	CU_ASSERT_EQUAL(sp_mr_free(mr), -EBUSY);
	close_nic();
}

SUITE("lend", TEST(a_frame_lent_has_the_bytes_of_a_frame_copied), TEST(runs_lent_have_the_bytes_of_runs_copied),
      TEST(each_region_is_in_use_until_its_own_packets_are_back), TEST(payload_that_lies_in_no_region_is_copied),
      TEST(a_packet_that_waits_for_a_neighbour_is_copied), TEST(bytes_changed_too_early_spoil_their_own_packet_only),
      TEST(filters_see_all_pieces_of_a_frame), TEST(what_is_beyond_the_bound_is_copied),
      TEST(without_pieces_left_packets_are_copied), TEST(runs_cut_short_anywhere_lose_nothing_and_give_back_once),
      TEST(packets_given_back_in_any_order_settle_when_all_are_back),
      TEST(a_buffer_is_the_applications_again_when_the_port_has_given_it_back),
      TEST(a_stream_goes_on_while_its_pieces_are_out), TEST(a_region_outlives_the_context_whose_packets_are_out),
      TEST(memory_of_an_application_that_dies_stays_until_its_packets_are_back),
      TEST(runs_of_an_application_that_dies_keep_each_its_region_and_no_other),
      TEST(a_connection_closed_by_the_application_says_so_at_once),
      TEST(packets_given_back_after_the_nic_has_gone_do_no_harm), TEST(a_nic_may_go_with_packets_in_its_queue))
