/* SPDX-License-Identifier: BSD-3-Clause */
/* A link without payload, of any length, and with damage. */
#include "../lib/link_ends.h"

/* Everything that can be counted or timed of a run with mixed lengths; *bytes: of what arrived, or NULL. */
static uint64_t lengths_and_times(struct sp_link_config config, uint64_t *bytes, struct sp_link_counters *n)
{
	struct sp_link *link = link_open(config);
	struct rte_mbuf *m;
	uint64_t hash = 0;

	for (uint32_t k = 0; k < 2000; k++)
		CU_ASSERT_EQUAL_FATAL(link_send_at(link, 0, link_frame(64 + k * 997 % 8937, k, 1), k * SP_US), 1);
	for (sp_time at; (at = link_next_at(link, 1)) != SP_NEVER;) {
		CU_ASSERT_EQUAL_FATAL(sp_link_ops.receive(sp_link_port(link, 1), 0, &m, 1, at), 1);
		CU_ASSERT_EQUAL(m->data_len, m->pkt_len);
		hash = (hash ^ at ^ (uint64_t)m->pkt_len << 48) * 0x9E3779B97F4A7C15u;
		hash ^= hash >> 29;
		for (uint32_t i = 0; bytes && i < m->pkt_len; i++)
			*bytes += rte_pktmbuf_mtod(m, uint8_t *)[i] * (i + 1ull);
		CU_ASSERT_EQUAL(rte_pktmbuf_mtod(m, uint8_t *)[14], 0x45);
		rte_pktmbuf_free(m);
	}
	sp_link_count(link, 0, n);
	sp_link_destroy(link);
	return hash;
}

TEST(without_payload_lengths_times_and_counters_are_the_same)
{
	struct sp_link_config config = {.direction[0] = {.bandwidth = 100000000000,
							 .delay = 5 * SP_MS,
							 .jitter = 10 * SP_US,
							 .loss = 0.01,
							 .burst_begin = 0.01,
							 .burst_end = 0.2,
							 .burst_loss = 0.9,
							 .duplicate = 0.02,
							 .reorder = 0.1,
							 .reorder_delay = 30 * SP_US},
					.seed = 6};
	struct sp_link_counters n, less;
	const uint64_t full = lengths_and_times(config, NULL, &n);

	config.payload_less = true;
	CU_ASSERT_EQUAL(lengths_and_times(config, NULL, &less), full);
	CU_ASSERT_EQUAL(memcmp(&n, &less, sizeof(n)), 0);
	CU_ASSERT(n.lost > 50 && n.duplicated > 10 && n.reordered > 100 && n.held + n.waited == 0);
}

TEST(without_payload_short_frames_are_whole_and_of_long_ones_the_head_comes)
{
	struct sp_link *link =
		link_open((struct sp_link_config){.direction[0] = {.delay = SP_US}, .payload_less = true});

	for (uint32_t len = 1270; len <= 1290; len++) {
		struct rte_mbuf *m = link_frame(len, len, 1), *got;
		uint8_t *bytes = rte_pktmbuf_mtod(m, uint8_t *), sent[1290];

		for (uint32_t i = 60; i < len; i++)
			bytes[i] = (uint8_t)(i * 7 + len);
		memcpy(sent, bytes, len);
		CU_ASSERT_EQUAL_FATAL(link_send_at(link, 0, m, len * SP_US), 1);
		m = sp_packet_alloc(); /* the buffer that it would land in */
		memset(rte_pktmbuf_append(m, (uint16_t)len), 0xEE, len);
		rte_pktmbuf_free(m);
		CU_ASSERT_EQUAL_FATAL(sp_link_ops.receive(sp_link_port(link, 1), 0, &got, 1, (len + 1) * SP_US), 1);
		CU_ASSERT_EQUAL(got->data_len, len);
		CU_ASSERT_EQUAL(memcmp(rte_pktmbuf_mtod(got, void *), sent, len <= SP_LINK_WHOLE ? len : SP_LINK_HEAD),
				0);
		rte_pktmbuf_free(got);
	}
	sp_link_destroy(link);
}

static struct {
	uint32_t calls, bytes;
	bool whole;
} asked;

static bool odd_ones(void *arg, const uint8_t *bytes, uint32_t len)
{
	asked.calls++;
	asked.bytes += len;
	asked.whole &= bytes[14] == 0x45 && bytes[35] == 1; /* within SP_LINK_HEAD */
	return *(uint32_t *)arg && asked.calls % 2;
}

TEST(a_judge_of_ones_own_loses_packets_besides_the_impairments)
{
	uint32_t on = 1;
	struct sp_link *link = link_open((struct sp_link_config){.direction = {{.loss = 0.25}, {.loss = 0}},
								 .lose = {odd_ones, NULL},
								 .lose_arg = {&on, NULL},
								 .seed = 4});
	struct sp_link_counters n;
	unsigned back = 0;

	memset(&asked, 0, sizeof(asked));
	asked.whole = true;
	for (uint32_t k = 0; k < 2000; k++) {
		CU_ASSERT_EQUAL_FATAL(link_send_at(link, 0, link_frame(100 + k % 5, k, 1), k), 1);
		CU_ASSERT_EQUAL_FATAL(link_send_at(link, 1, link_frame(100, k, 1), k), 1);
		link_receive_at(link, 1, k);
		back += link_receive_at(link, 0, k) == (int)k;
	}
	sp_link_count(link, 0, &n);
	CU_ASSERT(asked.whole);
	CU_ASSERT_EQUAL(asked.calls, 2000);
	CU_ASSERT_EQUAL(asked.bytes, 2000 * 102);
	CU_ASSERT(n.lost > 1000 + 150 && n.lost < 1000 + 350); /* a quarter of those that it would leave */
	CU_ASSERT_EQUAL(back, 2000);
	sp_link_destroy(link);
}

TEST(without_payload_what_is_corrupted_is_lost)
{
	struct sp_link_config config = {.direction[0] = {.corrupt = 0.1, .duplicate = 0.3}, .payload_less = true};
	struct sp_link_counters n;

	lengths_and_times(config, NULL, &n);
	CU_ASSERT(n.corrupted > 100);
	CU_ASSERT_EQUAL(n.lost, n.corrupted);
	CU_ASSERT_EQUAL(n.offered + n.duplicated, n.delivered + n.lost);
}

TEST(every_byte_comes_through_whatever_the_length)
{
	struct sp_link_config config = {.direction[0] = {.bandwidth = 100000000000, .delay = 5 * SP_MS}};
	uint64_t sum = 0, expected = 0;
	struct sp_link_counters n;

	for (uint32_t k = 0; k < 2000; k++) {
		const uint32_t len = 64 + k * 997 % 8937;
		struct rte_mbuf *m = link_frame(len, k, 1);

		for (uint32_t i = 0; i < len; i++)
			expected += rte_pktmbuf_mtod(m, uint8_t *)[i] * (i + 1ull);
		rte_pktmbuf_free(m);
	}
	lengths_and_times(config, &sum, &n);
	CU_ASSERT_EQUAL(sum, expected);
	CU_ASSERT_EQUAL(n.delivered, 2000);
}

TEST(corruption_inverts_exactly_one_bit_of_a_copy)
{
	struct sp_link *link =
		link_open((struct sp_link_config){.direction[0] = {.corrupt = 0.5, .duplicate = 0.5}, .seed = 12});
	struct rte_mbuf *want = link_frame(120, 5, 1), *m;
	unsigned inverted = 0, arrived = 0;
	struct sp_link_counters n;

	for (uint32_t k = 0; k < 1000; k++) {
		link_send_at(link, 0, link_frame(120, 5, 1), k);
		for (; sp_link_ops.receive(sp_link_port(link, 1), 0, &m, 1, k); arrived++) {
			unsigned bits = 0;

			for (unsigned i = 0; i < 120; i++)
				bits += (unsigned)__builtin_popcount(rte_pktmbuf_mtod(m, uint8_t *)[i] ^
								     rte_pktmbuf_mtod(want, uint8_t *)[i]);
			CU_ASSERT_FATAL(bits <= 1);
			inverted += bits;
			rte_pktmbuf_free(m);
		}
	}
	sp_link_count(link, 0, &n);
	CU_ASSERT_EQUAL(n.corrupted, inverted);
	CU_ASSERT_EQUAL(n.delivered, arrived);
	CU_ASSERT(fabs(inverted - arrived * 0.5) <= 4 * sqrt(arrived * 0.25));
	rte_pktmbuf_free(want);
	sp_link_destroy(link);
}

TEST(a_long_fat_link_holds_nobody_back_and_is_exact)
{
	/* 400 Gbit/s for 100 ms, in packets that take 9,600 and 1,000 bytes on the wire: 192 ns and 20 ns */
	struct sp_link *link = link_open((struct sp_link_config){
		.direction[0] = {.bandwidth = 400000000000, .delay = 100 * SP_MS}, .payload_less = true});
	const uint32_t count = 2 * 471500;
	struct sp_link_counters n;
	sp_time now = 0;

	for (uint32_t k = 0; k < count; k++) {
		struct rte_mbuf *m = sp_packet_alloc();
		uint8_t *p = (uint8_t *)rte_pktmbuf_append(m, k & 1 ? 976 : 9576);

		memcpy(p + 60, &k, sizeof(k));
		if (!sp_link_ops.transmit(sp_link_port(link, 0), 0, &m, 1, now))
			CU_FAIL_FATAL("held back");
		now += k & 1 ? 20 * SP_NS : 192 * SP_NS;
	}
	CU_ASSERT_EQUAL(sp_link_in_flight(link, 0), count);
	CU_ASSERT(now < 100 * SP_MS && now > 99 * SP_MS);
	now = 100 * SP_MS;
	for (uint32_t k = 0, number; k < count; k++) {
		struct rte_mbuf *m = NULL;

		now += k & 1 ? 20 * SP_NS : 192 * SP_NS;
		if (link_next_at(link, 1) != now || sp_link_ops.receive(sp_link_port(link, 1), 0, &m, 1, now) != 1)
			CU_FAIL_FATAL("not when it should");
		memcpy(&number, rte_pktmbuf_mtod(m, uint8_t *) + 60, sizeof(number));
		if (number != k || m->pkt_len != (k & 1 ? 976 : 9576))
			CU_FAIL_FATAL("not what it should");
		rte_pktmbuf_free(m);
	}
	sp_link_count(link, 0, &n);
	CU_ASSERT_EQUAL(n.held, 0);
	CU_ASSERT_EQUAL(n.delivered, count);
	sp_link_destroy(link);
}

TEST(parameters_that_make_no_sense_are_refused)
{
	const struct sp_link_direction bad[] = {
		{.loss = -0.1},
		{.loss = 1.1},
		{.loss = NAN},
		{.duplicate = NAN},
		{.duplicate = 2},
		{.reorder = -1},
		{.reorder = INFINITY},
		{.bandwidth = UINT64_MAX},
		{.delay = SP_NEVER},
		{.reorder_delay = SP_NEVER},
		{.queue = UINT32_MAX},
		{.jitter = SP_NEVER},
		{.corrupt = NAN},
		{.corrupt = -1e-9},
		{.burst_begin = NAN},
		{.burst_begin = 1.5},
		{.burst_end = NAN},
		{.burst_end = -1},
		{.burst_loss = 1.001},
		{.burst_loss = NAN},
		{.jitter = 1000 * SP_SEC + 1},
		{.delay = sp_link_distance(-1)},
	};
	struct sp_link *link;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		for (int e = 0; e < 2; e++) {
			struct sp_link_config config = {.seed = 1};

			config.direction[e] = bad[i];
			CU_ASSERT_EQUAL(sp_link_create(&config, &link), -EINVAL);
		}
	CU_ASSERT_EQUAL(sp_link_create(&(struct sp_link_config){.queues = {1, 1000}}, &link), -EINVAL);
	CU_ASSERT_EQUAL(sp_link_create(&(struct sp_link_config){.memory = UINT64_MAX}, &link), -EINVAL);
	CU_ASSERT_EQUAL(sp_link_create(&(struct sp_link_config){.payload_less = true, .head = 1}, &link), -EINVAL);
	CU_ASSERT_EQUAL(sp_link_create(&(struct sp_link_config){.payload_less = true, .head = 9601}, &link), -EINVAL);
}
