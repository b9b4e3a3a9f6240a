/* SPDX-License-Identifier: BSD-3-Clause */
#include "../lib/link_ends.h"

TEST(a_frame_arrives_after_its_time_on_the_wire_and_the_delay)
{
	struct sp_link *link =
		link_open((struct sp_link_config){.direction[0] = {.bandwidth = 1000000000, .delay = 5 * SP_US}});
	/* 1000 + 24 bytes at 1 ns a bit */
	const sp_time arrival = 3 * SP_US + 8192 * SP_NS + 5 * SP_US;

	CU_ASSERT_EQUAL(link_next_at(link, 1), SP_NEVER);
	CU_ASSERT_EQUAL(link_send_at(link, 0, link_frame(1000, 7, 1), 3 * SP_US), 1);
	CU_ASSERT_EQUAL(link_next_at(link, 1), arrival);
	CU_ASSERT_EQUAL(link_receive_at(link, 1, arrival - 1), -1);
	CU_ASSERT_EQUAL(link_receive_at(link, 1, arrival), 7);
	CU_ASSERT_EQUAL(link_receive_at(link, 0, SP_SEC), -1); /* not back to the sender */
	sp_link_destroy(link);
}

TEST(a_short_frame_takes_the_time_of_the_shortest_that_ethernet_has)
{
	struct sp_link *link = link_open((struct sp_link_config){.direction[1] = {.bandwidth = 1000000000}});

	link_send_at(link, 1, link_frame(42, 0, 1), 0);
	CU_ASSERT_EQUAL(link_next_at(link, 0),
			84 * 8 * SP_NS); /* 64 with FCS, preamble and gap: the textbook's 672 ns */
	sp_link_destroy(link);
}

TEST(frames_queue_behind_each_other_without_rounding_errors_adding_up)
{
	/* 7 Gbit/s: (100 + 24) * 8 bits take 141714.28... ps */
	struct sp_link *link =
		link_open((struct sp_link_config){.direction[0] = {.bandwidth = 7000000000, .queue = 2000}});

	for (uint32_t i = 0; i < 1400; i++)
		CU_ASSERT_EQUAL_FATAL(link_send_at(link, 0, link_frame(100, i, 1), 0), 1);
	for (uint32_t i = 0; i < 1399; i++)
		CU_ASSERT_EQUAL(link_receive_at(link, 1, SP_SEC), (int)i);
	CU_ASSERT_EQUAL(link_next_at(link, 1), 1400ull * 992 * 1000 / 7); /* exactly 198.4 us */
	sp_link_destroy(link);
}

TEST(the_sender_is_held_back_while_its_queue_is_full_and_told_until_when)
{
	struct sp_link *link = link_open(
		(struct sp_link_config){.direction[0] = {.bandwidth = 1000000000, .delay = SP_MS, .queue = 3}});
	void *port = sp_link_port(link, 0);
	struct rte_mbuf *m[5];

	for (uint32_t i = 0; i < 5; i++)
		m[i] = link_frame(101, i, 1); /* 125 bytes: 1 us each */
	CU_ASSERT_EQUAL(sp_link_ops.transmit(port, 0, m, 5, 0), 3);
	CU_ASSERT_EQUAL(sp_link_ops.next(port, 0, false), SP_NEVER);
	CU_ASSERT_EQUAL(sp_link_ops.next(port, 0, true), SP_US);
	CU_ASSERT_EQUAL(sp_link_ops.transmit(port, 0, m + 3, 2, SP_US - 1), 0);
	CU_ASSERT_EQUAL(sp_link_ops.transmit(port, 0, m + 3, 2, SP_US), 1);
	CU_ASSERT_EQUAL(sp_link_ops.next(port, 0, true), 2 * SP_US);
	rte_pktmbuf_free(m[4]);
	sp_link_destroy(link);
}

TEST(loss_is_as_likely_as_asked_for)
{
	const double chance[] = {0, 0.01, 0.3, 1};
	const unsigned count = 20000;

	for (unsigned i = 0; i < 4; i++) {
		struct sp_link *link =
			link_open((struct sp_link_config){.direction[0] = {.loss = chance[i]}, .seed = 42});
		double expected = chance[i] * count, sigma = sqrt(expected * (1 - chance[i]));
		struct sp_link_counters n;
		unsigned arrived = 0;

		for (uint32_t k = 0; k < count; k++) {
			link_send_at(link, 0, link_frame(64, k, 1), k);
			arrived += link_receive_at(link, 1, k) >= 0;
		}
		sp_link_count(link, 0, &n);
		CU_ASSERT_EQUAL(n.lost, count - arrived);
		CU_ASSERT_EQUAL(n.offered, count);
		CU_ASSERT(fabs((double)n.lost - expected) <= 4 * sigma);
		sp_link_destroy(link);
	}
}

TEST(a_duplicate_has_the_same_bytes_in_a_buffer_of_its_own)
{
	struct sp_link *link = link_open((struct sp_link_config){.direction[0] = {.duplicate = 1, .delay = SP_US}});
	struct rte_mbuf *m[3];
	struct sp_link_counters n;

	link_send_at(link, 0, link_frame(200, 99, 1), 0);
	CU_ASSERT_EQUAL_FATAL(sp_link_ops.receive(sp_link_port(link, 1), 0, m, 3, SP_US), 2);
	CU_ASSERT_EQUAL(m[0]->pkt_len, 200);
	CU_ASSERT_EQUAL(m[1]->pkt_len, 200);
	CU_ASSERT_EQUAL(memcmp(rte_pktmbuf_mtod(m[0], void *), rte_pktmbuf_mtod(m[1], void *), 200), 0);
	memset(rte_pktmbuf_mtod(m[0], void *), 0xAA, 200);
	CU_ASSERT_EQUAL(link_number_of(m[1]), 99);
	sp_link_count(link, 0, &n);
	CU_ASSERT_EQUAL(n.duplicated, 1);
	CU_ASSERT_EQUAL(n.delivered, 2);
	CU_ASSERT_EQUAL(n.bytes, 400);
	rte_pktmbuf_free(m[0]);
	rte_pktmbuf_free(m[1]);
	sp_link_destroy(link);
}

TEST(a_reordered_packet_is_overtaken)
{
	struct sp_link *link = link_open((struct sp_link_config){
		.direction[0] = {.bandwidth = 1000000000, .delay = SP_US, .reorder = 0.1, .reorder_delay = 20 * SP_US},
		.seed = 5});
	bool seen[200] = {false};
	unsigned overtaken = 0;
	struct sp_link_counters n;
	int last = -1, number;

	for (uint32_t k = 0; k < 200; k++)
		CU_ASSERT_EQUAL_FATAL(link_send_at(link, 0, link_frame(101, k, 1), 0), 1);
	for (unsigned k = 0; k < 200; k++) {
		sp_time at = link_next_at(link, 1);

		number = link_receive_at(link, 1, at);
		CU_ASSERT_FATAL(number >= 0 && number < 200 && !seen[number]);
		seen[number] = true;
		if (at != (uint64_t)(number + 1) * SP_US + SP_US) { /* one a microsecond leaves the wire */
			CU_ASSERT_EQUAL(at, (uint64_t)(number + 1) * SP_US + 21 * SP_US);
			overtaken += number < 180; /* for the last 20 nobody is left who could overtake */
			CU_ASSERT(number >= 180 || number < last);
		} else {
			CU_ASSERT(number > last);
			last = number;
		}
	}
	sp_link_count(link, 0, &n);
	CU_ASSERT(overtaken > 0 && overtaken <= n.reordered);
	sp_link_destroy(link);
}

/* A run with everything going wrong: what arrived when, as a number. */
static uint64_t run(uint64_t seed, double loss, double duplicate, uint64_t *lost_set)
{
	struct sp_link *link = link_open((struct sp_link_config){.direction[0] = {.bandwidth = 400000000000,
										  .delay = SP_US,
										  .loss = loss,
										  .duplicate = duplicate,
										  .reorder = 0.1,
										  .reorder_delay = 300 * SP_NS},
								 .seed = seed});
	uint64_t hash = 0, arrived[4] = {0};
	struct sp_link_counters n;
	unsigned seen = 0;

	for (uint32_t k = 0; k < 256; k++)
		CU_ASSERT_EQUAL(link_send_at(link, 0, link_frame(60 + k, k, 1), k * 7 * SP_NS), 1);
	for (sp_time at; (at = link_next_at(link, 1)) != SP_NEVER; seen++) {
		int number = link_receive_at(link, 1, at);

		CU_ASSERT_FATAL(number >= 0);
		arrived[number / 64] |= 1ull << number % 64;
		hash = (hash ^ at ^ (uint64_t)number << 48) * 0x9E3779B97F4A7C15u;
		hash ^= hash >> 29;
	}
	sp_link_count(link, 0, &n);
	CU_ASSERT_EQUAL(n.delivered, seen);
	CU_ASSERT_EQUAL(n.offered + n.duplicated, n.delivered + n.lost);
	CU_ASSERT_EQUAL(sp_link_in_flight(link, 0), 0);
	if (lost_set)
		memcpy(lost_set, arrived, sizeof(arrived));
	sp_link_destroy(link);
	return hash;
}

TEST(packets_that_arrive_at_the_same_time_come_in_the_order_of_sending)
{
	struct sp_link *link = link_open((struct sp_link_config){.direction[0] = {.delay = SP_US}});

	for (uint32_t k = 0; k < 100; k++)
		CU_ASSERT_EQUAL(link_send_at(link, 0, link_frame(64, k, 1), 0), 1);
	for (uint32_t k = 0; k < 100; k++)
		CU_ASSERT_EQUAL(link_receive_at(link, 1, SP_US), (int)k);
	sp_link_destroy(link);
}

TEST(the_same_seed_gives_the_same_packets_at_the_same_times)
{
	uint64_t first = run(1, 0.1, 0.1, NULL);

	CU_ASSERT_EQUAL(run(1, 0.1, 0.1, NULL), first);
	CU_ASSERT_NOT_EQUAL(run(2, 0.1, 0.1, NULL), first);
}

TEST(losses_do_not_depend_on_the_other_probabilities)
{
	uint64_t with[4], without[4];

	run(3, 0.2, 0.5, with);
	run(3, 0.2, 0, without);
	CU_ASSERT_EQUAL(memcmp(with, without, sizeof(with)), 0);
}

TEST(the_two_directions_lose_independently)
{
	struct sp_link *link =
		link_open((struct sp_link_config){.direction = {{.loss = 0.5}, {.loss = 0.5}}, .seed = 9});
	unsigned same = 0;

	for (uint32_t k = 0; k < 1000; k++) {
		link_send_at(link, 0, link_frame(64, k, 1), k);
		link_send_at(link, 1, link_frame(64, k, 1), k);
		same += (link_receive_at(link, 0, k) < 0) == (link_receive_at(link, 1, k) < 0);
	}
	CU_ASSERT(same > 400 && same < 600);
	sp_link_destroy(link);
}

TEST(a_flow_stays_on_its_queue_and_flows_spread_over_all_queues)
{
	struct sp_link *link = link_open((struct sp_link_config){.queues = {1, 4}});
	unsigned per_queue[4] = {0};
	int queue_of[64];

	memset(queue_of, -1, sizeof(queue_of));
	for (uint32_t k = 0; k < 256; k++)
		link_send_at(link, 0, link_frame(80, k, (uint16_t)(49152 + k % 64)), 0);
	for (uint16_t q = 0; q < 4; q++) {
		struct rte_mbuf *m;

		while (sp_link_ops.receive(sp_link_port(link, 1), q, &m, 1, 0)) {
			uint32_t flow = link_number_of(m) % 64;

			CU_ASSERT(queue_of[flow] == -1 || queue_of[flow] == q);
			queue_of[flow] = q;
			per_queue[q]++;
			rte_pktmbuf_free(m);
		}
		CU_ASSERT(per_queue[q] >= 4);
	}
	CU_ASSERT_EQUAL(per_queue[0] + per_queue[1] + per_queue[2] + per_queue[3], 256);
	sp_link_destroy(link);
}

TEST(memory_in_flight_is_bounded_and_then_the_sender_waits_for_an_arrival)
{
	/* 100 ms at 400 Gbit/s hold 5 GB */
	struct sp_link *link = link_open((struct sp_link_config){
		.direction[0] = {.bandwidth = 400000000000, .delay = 100 * SP_MS, .duplicate = 0.5},
		.memory = 4 << 20});
	struct rte_mbuf *m = sp_packet_alloc();
	struct sp_link_counters n;
	sp_time now = 0, arrival;
	uint32_t sent = 0;

	CU_ASSERT_PTR_NOT_NULL_FATAL(m);
	unsigned before = rte_mempool_avail_count(m->pool);
	while (link_send_at(link, 0, link_frame(1500, sent, 1), now) && sent < 20000)
		now = ++sent * SP_US;
	sp_link_count(link, 0, &n);
	CU_ASSERT_EQUAL(n.held, 1);
	CU_ASSERT(sp_link_in_flight(link, 0) > 1500 && sp_link_in_flight(link, 0) < (4 << 20) / 1400);
	CU_ASSERT_EQUAL(rte_mempool_avail_count(m->pool), before);
	arrival = link_next_at(link, 1);
	CU_ASSERT_EQUAL(sp_link_ops.next(sp_link_port(link, 0), 0, true), arrival);
	for (uint32_t k = 0; k < 1000; k++)
		while (link_next_at(link, 1) <= arrival + k * SP_US)
			CU_ASSERT_EQUAL(link_receive_at(link, 1, arrival + k * SP_US), (int)k);
	CU_ASSERT_EQUAL(sp_link_ops.next(sp_link_port(link, 0), 0, true), 0);
	CU_ASSERT_EQUAL(link_send_at(link, 0, link_frame(1500, 0, 1), arrival + SP_MS), 1);
	sp_link_destroy(link);
	CU_ASSERT_EQUAL(rte_mempool_avail_count(m->pool), before);
	rte_pktmbuf_free(m);
}

TEST(a_shared_buffer_is_not_handed_to_the_receiver_who_may_write_to_it)
{
	struct sp_link *link = link_open((struct sp_link_config){.seed = 1});
	struct rte_mbuf *m = link_frame(100, 11, 1), *got;

	rte_mbuf_refcnt_update(m, 1);
	link_send_at(link, 0, m, 0);
	CU_ASSERT_EQUAL_FATAL(sp_link_ops.receive(sp_link_port(link, 1), 0, &got, 1, 0), 1);
	CU_ASSERT(got != m);
	CU_ASSERT_EQUAL(link_number_of(got), 11);
	CU_ASSERT_EQUAL(rte_mbuf_refcnt_read(m), 1);
	rte_pktmbuf_free(got);
	rte_pktmbuf_free(m);
	sp_link_destroy(link);
}

TEST(without_a_buffer_for_what_has_arrived_it_waits_and_time_goes_on)
{
	struct sp_link *link = link_open((struct sp_link_config){.direction[0] = {.duplicate = 1}});
	struct rte_mbuf *m = link_frame(100, 11, 1), *got[2];
	void *port = sp_link_port(link, 1);
	struct sp_link_counters n;

	rte_mbuf_refcnt_update(m, 1);
	CU_ASSERT_EQUAL(link_send_at(link, 0, m, 0), 1);
	buffers_take_all();
	for (sp_time now = 0; now < 10 * SP_US; now += SP_US) {
		CU_ASSERT_EQUAL_FATAL(sp_link_ops.receive(port, 0, got, 2, now), 0);
		CU_ASSERT_EQUAL_FATAL(sp_link_ops.next(port, 0, false), now + SP_US);
		CU_ASSERT_EQUAL(sp_link_ops.next(sp_link_port(link, 0), 0, true), 0);
	}
	buffers_give_back();
	CU_ASSERT_EQUAL(link_receive_at(link, 1, 10 * SP_US), 11);
	CU_ASSERT_EQUAL(link_next_at(link, 1), 0); /* as before: it is there */
	CU_ASSERT_EQUAL(link_receive_at(link, 1, 10 * SP_US), 11);
	CU_ASSERT_EQUAL(link_next_at(link, 1), SP_NEVER);
	sp_link_count(link, 0, &n);
	CU_ASSERT_EQUAL(n.offered, 1);
	CU_ASSERT_EQUAL(n.delivered, 2);
	CU_ASSERT_EQUAL(n.waited, 10);
	rte_pktmbuf_free(m);
	sp_link_destroy(link);
}

TEST(a_shortage_that_never_ends_is_time_that_stands_still)
{
	struct sp_link *link = link_open((struct sp_link_config){.seed = 1});
	struct rte_mbuf *m = link_frame(100, 11, 1), *got;
	void *port = sp_link_port(link, 1);
	unsigned attempts = 0;
	sp_time now = 0, next;

	rte_mbuf_refcnt_update(m, 1);
	link_send_at(link, 0, m, 0);
	buffers_take_all();
	for (;; now = next) {
		CU_ASSERT_EQUAL_FATAL(sp_link_ops.receive(port, 0, &got, 1, now), 0);
		next = link_next_at(link, 1);
		if (next == now || ++attempts == 100000)
			break;
	}
	CU_ASSERT(now > 2000 * SP_SEC); /* as long as a packet can be on its way */
	CU_ASSERT(attempts < 100000);
	buffers_give_back();
	rte_pktmbuf_free(m);
	sp_link_destroy(link);
}

/* What arrives at the two ends of a link with everything of old going wrong, and when, as a number. */
static uint64_t outcome(uint64_t seed)
{
	const struct sp_link_direction there = {.bandwidth = 25000000000,
						.delay = 3 * SP_US,
						.loss = 0.03,
						.duplicate = 0.02,
						.reorder = 0.05,
						.reorder_delay = 2 * SP_US,
						.queue = 16};
	const struct sp_link_direction back = {.bandwidth = 10000000000,
					       .delay = 50 * SP_NS,
					       .loss = 0.2,
					       .duplicate = 0.3,
					       .reorder = 0.4,
					       .reorder_delay = SP_US};
	struct sp_link *link = link_open((struct sp_link_config){.direction = {there, back}, .seed = seed});
	struct sp_link_counters n;
	uint64_t hash = seed;

	for (uint32_t k = 0; k < 5000; k++) {
		for (unsigned e = 0; e < 2; e++) {
			link_send_at(link, e, link_frame(64 + k * 37 % 1000, k, 1), k * 200 * SP_NS);
			for (int number; (number = link_receive_at(link, e, k * 200 * SP_NS)) >= 0;) {
				hash = (hash ^ k ^ (uint64_t)(2 * number + (int)e) << 40) * 0x9E3779B97F4A7C15u;
				hash ^= hash >> 29;
			}
			hash += link_next_at(link, e) * 3;
		}
	}
	for (unsigned e = 0; e < 2; e++) {
		sp_link_count(link, e, &n);
		hash = (hash ^ n.offered ^ n.lost << 16 ^ n.duplicated << 32 ^ n.reordered << 48) * 0x9E3779B97F4A7C15u;
	}
	sp_link_destroy(link);
	return hash;
}

/* Recorded before links had jitter, bursts and corruption: who noted a seed finds the same run. */
TEST(a_seed_gives_the_outcome_that_it_always_gave)
{
	CU_ASSERT_EQUAL(run(1, 0.1, 0.1, NULL), 0x46BF2D98E379051Au);
	CU_ASSERT_EQUAL(run(2, 0.1, 0.1, NULL), 0x7B2335B92E805414u);
	CU_ASSERT_EQUAL(run(3, 0.1, 0.1, NULL), 0x12F5B93125C23CB0u);
	CU_ASSERT_EQUAL(outcome(1), 0xA804BE7F749D8FDBu);
	CU_ASSERT_EQUAL(outcome(2), 0x0F432B1568486E1Fu);
	CU_ASSERT_EQUAL(outcome(3), 0x044724852F19BC28u);
}
