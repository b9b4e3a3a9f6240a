/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <math.h>

#include <rte_mbuf.h>
#include <rte_mempool.h>

#include "../../testbed/link.h"
#include "drain.h"
#include "suite.h"

static struct sp_link *open_link(struct sp_link_config config)
{
	struct sp_link *link = NULL;
	struct sp_error error;

	CU_ASSERT_EQUAL_FATAL(sp_eal_init(0, NULL, &error), 0);
	CU_ASSERT_EQUAL_FATAL(sp_link_create(&config, &link), 0);
	return link;
}

/* An IPv4/UDP frame; `number` stands in the last four bytes, `flow` is the UDP source port. */
static struct rte_mbuf *frame(uint32_t len, uint32_t number, uint16_t flow)
{
	struct rte_mbuf *m = sp_packet_alloc();
	uint8_t *p = m ? (uint8_t *)rte_pktmbuf_append(m, (uint16_t)len) : NULL;

	CU_ASSERT_PTR_NOT_NULL_FATAL(p);
	memset(p, 0, len);
	p[12] = 8;
	p[14] = 0x45;
	p[23] = 17;
	memcpy(p + 26, "\x0a\x00\x00\x01\x0a\x00\x00\x02", 8);
	p[34] = (uint8_t)(flow >> 8);
	p[35] = (uint8_t)flow;
	memcpy(p + len - 4, &number, 4);
	return m;
}

static uint32_t number_of(struct rte_mbuf *m)
{
	uint32_t number;

	memcpy(&number, rte_pktmbuf_mtod_offset(m, uint8_t *, m->data_len - 4), 4);
	return number;
}

static unsigned send_at(struct sp_link *link, unsigned end, struct rte_mbuf *m, sp_time now)
{
	unsigned sent = sp_link_ops.transmit(sp_link_port(link, end), 0, &m, 1, now);

	if (!sent)
		rte_pktmbuf_free(m);
	return sent;
}

static int receive_at(struct sp_link *link, unsigned end, sp_time now)
{
	struct rte_mbuf *m;
	int number;

	if (!sp_link_ops.receive(sp_link_port(link, end), 0, &m, 1, now))
		return -1;
	number = (int)number_of(m);
	rte_pktmbuf_free(m);
	return number;
}

static sp_time next_at(struct sp_link *link, unsigned end)
{
	return sp_link_ops.next(sp_link_port(link, end), 0, false);
}

static void a_frame_arrives_after_its_time_on_the_wire_and_the_delay(void)
{
	struct sp_link *link =
		open_link((struct sp_link_config){.direction[0] = {.bandwidth = 1000000000, .delay = 5 * SP_US}});
	/* 1000 + 24 bytes at 1 ns a bit */
	const sp_time arrival = 3 * SP_US + 8192 * SP_NS + 5 * SP_US;

	CU_ASSERT_EQUAL(next_at(link, 1), SP_NEVER);
	CU_ASSERT_EQUAL(send_at(link, 0, frame(1000, 7, 1), 3 * SP_US), 1);
	CU_ASSERT_EQUAL(next_at(link, 1), arrival);
	CU_ASSERT_EQUAL(receive_at(link, 1, arrival - 1), -1);
	CU_ASSERT_EQUAL(receive_at(link, 1, arrival), 7);
	CU_ASSERT_EQUAL(receive_at(link, 0, SP_SEC), -1); /* not back to the sender */
	sp_link_destroy(link);
}

static void a_short_frame_takes_the_time_of_the_shortest_that_ethernet_has(void)
{
	struct sp_link *link = open_link((struct sp_link_config){.direction[1] = {.bandwidth = 1000000000}});

	send_at(link, 1, frame(42, 0, 1), 0);
	CU_ASSERT_EQUAL(next_at(link, 0), 84 * 8 * SP_NS); /* 64 with FCS, preamble and gap: the textbook's 672 ns */
	sp_link_destroy(link);
}

static void frames_queue_behind_each_other_without_rounding_errors_adding_up(void)
{
	/* 7 Gbit/s: (100 + 24) * 8 bits take 141714.28... ps */
	struct sp_link *link =
		open_link((struct sp_link_config){.direction[0] = {.bandwidth = 7000000000, .queue = 2000}});

	for (uint32_t i = 0; i < 1400; i++)
		CU_ASSERT_EQUAL_FATAL(send_at(link, 0, frame(100, i, 1), 0), 1);
	for (uint32_t i = 0; i < 1399; i++)
		CU_ASSERT_EQUAL(receive_at(link, 1, SP_SEC), (int)i);
	CU_ASSERT_EQUAL(next_at(link, 1), 1400ull * 992 * 1000 / 7); /* exactly 198.4 us */
	sp_link_destroy(link);
}

static void the_sender_is_held_back_while_its_queue_is_full_and_told_until_when(void)
{
	struct sp_link *link = open_link(
		(struct sp_link_config){.direction[0] = {.bandwidth = 1000000000, .delay = SP_MS, .queue = 3}});
	void *port = sp_link_port(link, 0);
	struct rte_mbuf *m[5];

	for (uint32_t i = 0; i < 5; i++)
		m[i] = frame(101, i, 1); /* 125 bytes: 1 us each */
	CU_ASSERT_EQUAL(sp_link_ops.transmit(port, 0, m, 5, 0), 3);
	CU_ASSERT_EQUAL(sp_link_ops.next(port, 0, false), SP_NEVER);
	CU_ASSERT_EQUAL(sp_link_ops.next(port, 0, true), SP_US);
	CU_ASSERT_EQUAL(sp_link_ops.transmit(port, 0, m + 3, 2, SP_US - 1), 0);
	CU_ASSERT_EQUAL(sp_link_ops.transmit(port, 0, m + 3, 2, SP_US), 1);
	CU_ASSERT_EQUAL(sp_link_ops.next(port, 0, true), 2 * SP_US);
	rte_pktmbuf_free(m[4]);
	sp_link_destroy(link);
}

static void loss_is_as_likely_as_asked_for(void)
{
	const double chance[] = {0, 0.01, 0.3, 1};
	const unsigned count = 20000;

	for (unsigned i = 0; i < 4; i++) {
		struct sp_link *link =
			open_link((struct sp_link_config){.direction[0] = {.loss = chance[i]}, .seed = 42});
		double expected = chance[i] * count, sigma = sqrt(expected * (1 - chance[i]));
		struct sp_link_counters n;
		unsigned arrived = 0;

		for (uint32_t k = 0; k < count; k++) {
			send_at(link, 0, frame(64, k, 1), k);
			arrived += receive_at(link, 1, k) >= 0;
		}
		sp_link_count(link, 0, &n);
		CU_ASSERT_EQUAL(n.lost, count - arrived);
		CU_ASSERT_EQUAL(n.offered, count);
		CU_ASSERT(fabs((double)n.lost - expected) <= 4 * sigma);
		sp_link_destroy(link);
	}
}

static void a_duplicate_has_the_same_bytes_in_a_buffer_of_its_own(void)
{
	struct sp_link *link = open_link((struct sp_link_config){.direction[0] = {.duplicate = 1, .delay = SP_US}});
	struct rte_mbuf *m[3];
	struct sp_link_counters n;

	send_at(link, 0, frame(200, 99, 1), 0);
	CU_ASSERT_EQUAL_FATAL(sp_link_ops.receive(sp_link_port(link, 1), 0, m, 3, SP_US), 2);
	CU_ASSERT_EQUAL(m[0]->pkt_len, 200);
	CU_ASSERT_EQUAL(m[1]->pkt_len, 200);
	CU_ASSERT_EQUAL(memcmp(rte_pktmbuf_mtod(m[0], void *), rte_pktmbuf_mtod(m[1], void *), 200), 0);
	memset(rte_pktmbuf_mtod(m[0], void *), 0xAA, 200);
	CU_ASSERT_EQUAL(number_of(m[1]), 99);
	sp_link_count(link, 0, &n);
	CU_ASSERT_EQUAL(n.duplicated, 1);
	CU_ASSERT_EQUAL(n.delivered, 2);
	CU_ASSERT_EQUAL(n.bytes, 400);
	rte_pktmbuf_free(m[0]);
	rte_pktmbuf_free(m[1]);
	sp_link_destroy(link);
}

static void a_reordered_packet_is_overtaken(void)
{
	struct sp_link *link = open_link((struct sp_link_config){
		.direction[0] = {.bandwidth = 1000000000, .delay = SP_US, .reorder = 0.1, .reorder_delay = 20 * SP_US},
		.seed = 5});
	bool seen[200] = {false};
	unsigned overtaken = 0;
	struct sp_link_counters n;
	int last = -1, number;

	for (uint32_t k = 0; k < 200; k++)
		CU_ASSERT_EQUAL_FATAL(send_at(link, 0, frame(101, k, 1), 0), 1);
	for (unsigned k = 0; k < 200; k++) {
		sp_time at = next_at(link, 1);

		number = receive_at(link, 1, at);
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
	struct sp_link *link = open_link((struct sp_link_config){.direction[0] = {.bandwidth = 400000000000,
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
		CU_ASSERT_EQUAL(send_at(link, 0, frame(60 + k, k, 1), k * 7 * SP_NS), 1);
	for (sp_time at; (at = next_at(link, 1)) != SP_NEVER; seen++) {
		int number = receive_at(link, 1, at);

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

static void packets_that_arrive_at_the_same_time_come_in_the_order_of_sending(void)
{
	struct sp_link *link = open_link((struct sp_link_config){.direction[0] = {.delay = SP_US}});

	for (uint32_t k = 0; k < 100; k++)
		CU_ASSERT_EQUAL(send_at(link, 0, frame(64, k, 1), 0), 1);
	for (uint32_t k = 0; k < 100; k++)
		CU_ASSERT_EQUAL(receive_at(link, 1, SP_US), (int)k);
	sp_link_destroy(link);
}

static void the_same_seed_gives_the_same_packets_at_the_same_times(void)
{
	uint64_t first = run(1, 0.1, 0.1, NULL);

	CU_ASSERT_EQUAL(run(1, 0.1, 0.1, NULL), first);
	CU_ASSERT_NOT_EQUAL(run(2, 0.1, 0.1, NULL), first);
}

static void what_is_lost_does_not_depend_on_the_other_probabilities(void)
{
	uint64_t with[4], without[4];

	run(3, 0.2, 0.5, with);
	run(3, 0.2, 0, without);
	CU_ASSERT_EQUAL(memcmp(with, without, sizeof(with)), 0);
}

static void the_two_directions_lose_independently(void)
{
	struct sp_link *link =
		open_link((struct sp_link_config){.direction = {{.loss = 0.5}, {.loss = 0.5}}, .seed = 9});
	unsigned same = 0;

	for (uint32_t k = 0; k < 1000; k++) {
		send_at(link, 0, frame(64, k, 1), k);
		send_at(link, 1, frame(64, k, 1), k);
		same += (receive_at(link, 0, k) < 0) == (receive_at(link, 1, k) < 0);
	}
	CU_ASSERT(same > 400 && same < 600);
	sp_link_destroy(link);
}

static void a_flow_stays_on_its_queue_and_flows_spread_over_all_queues(void)
{
	struct sp_link *link = open_link((struct sp_link_config){.queues = {1, 4}});
	unsigned per_queue[4] = {0};
	int queue_of[64];

	memset(queue_of, -1, sizeof(queue_of));
	for (uint32_t k = 0; k < 256; k++)
		send_at(link, 0, frame(80, k, (uint16_t)(49152 + k % 64)), 0);
	for (uint16_t q = 0; q < 4; q++) {
		struct rte_mbuf *m;

		while (sp_link_ops.receive(sp_link_port(link, 1), q, &m, 1, 0)) {
			uint32_t flow = number_of(m) % 64;

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

static void buffers_in_flight_are_bounded_and_given_back(void)
{
	/* 100 ms at 400 Gbit/s would hold millions of packets */
	struct sp_link *link = open_link((struct sp_link_config){
		.direction[0] = {.bandwidth = 400000000000, .delay = 100 * SP_MS, .duplicate = 0.5}});
	struct rte_mbuf *m = sp_packet_alloc();
	struct sp_link_counters n;
	unsigned before;

	CU_ASSERT_PTR_NOT_NULL_FATAL(m);
	before = rte_mempool_avail_count(m->pool);
	for (uint32_t k = 0; k < 20000; k++)
		if (!send_at(link, 0, frame(64, k, 1), k * SP_US))
			break;
	sp_link_count(link, 0, &n);
	CU_ASSERT(n.held > 0);
	CU_ASSERT_EQUAL(n.oversized, 0);
	CU_ASSERT(sp_link_in_flight(link, 0) > 1000);
	CU_ASSERT_EQUAL(sp_link_ops.next(sp_link_port(link, 0), 0, true), next_at(link, 1));
	CU_ASSERT_EQUAL(rte_mempool_avail_count(m->pool), before - sp_link_in_flight(link, 0));
	sp_link_destroy(link);
	CU_ASSERT_EQUAL(rte_mempool_avail_count(m->pool), before);
	rte_pktmbuf_free(m);
}

static void a_shared_buffer_is_not_handed_to_the_receiver_who_may_write_to_it(void)
{
	struct sp_link *link = open_link((struct sp_link_config){.seed = 1});
	struct rte_mbuf *m = frame(100, 11, 1), *got;

	rte_mbuf_refcnt_update(m, 1);
	send_at(link, 0, m, 0);
	CU_ASSERT_EQUAL_FATAL(sp_link_ops.receive(sp_link_port(link, 1), 0, &got, 1, 0), 1);
	CU_ASSERT(got != m);
	CU_ASSERT_EQUAL(number_of(got), 11);
	CU_ASSERT_EQUAL(rte_mbuf_refcnt_read(m), 1);
	rte_pktmbuf_free(got);
	rte_pktmbuf_free(m);
	sp_link_destroy(link);
}

static void without_a_buffer_for_a_copy_the_packet_waits_and_time_goes_on(void)
{
	struct sp_link *link = open_link((struct sp_link_config){.direction[0] = {.duplicate = 1}});
	struct rte_mbuf *m = frame(100, 11, 1);
	void *port = sp_link_port(link, 0);
	struct sp_link_counters n;

	drain();
	for (sp_time now = 0; now < 10 * SP_US; now += SP_US) {
		CU_ASSERT_EQUAL_FATAL(sp_link_ops.transmit(port, 0, &m, 1, now), 0);
		CU_ASSERT_EQUAL_FATAL(sp_link_ops.next(port, 0, true), now + SP_US);
		CU_ASSERT_EQUAL(sp_link_ops.next(port, 0, false), SP_NEVER);
	}
	refill();
	CU_ASSERT_EQUAL_FATAL(sp_link_ops.transmit(port, 0, &m, 1, 10 * SP_US), 1);
	CU_ASSERT_EQUAL(receive_at(link, 1, 10 * SP_US), 11);
	CU_ASSERT_EQUAL(receive_at(link, 1, 10 * SP_US), 11);
	CU_ASSERT_EQUAL(sp_link_ops.next(port, 0, true), 0); /* as before */
	sp_link_count(link, 0, &n);
	CU_ASSERT_EQUAL(n.offered, 1);
	CU_ASSERT_EQUAL(n.lost, 0);
	CU_ASSERT_EQUAL(n.held, 10);
	sp_link_destroy(link);
}

static void a_packet_that_had_to_wait_for_a_buffer_meets_the_same_fate(void)
{
	uint64_t lost = 0, arrived[2] = {0};

	for (unsigned k = 0; k < 2; k++) {
		struct sp_link *link =
			open_link((struct sp_link_config){.direction[0] = {.loss = 0.3, .duplicate = 0.5}, .seed = 4});

		for (uint32_t i = 0; i < 64; i++) {
			struct rte_mbuf *m = frame(100, i, 1);
			unsigned sent = 0;

			rte_mbuf_refcnt_update(m, 1); /* a copy is needed */
			if (k) {
				drain();
				sent = sp_link_ops.transmit(sp_link_port(link, 0), 0, &m, 1, i);
				refill();
			}
			lost |= (uint64_t)sent << i; /* without a buffer only those go that are lost */
			if (!sent)
				CU_ASSERT_EQUAL(sp_link_ops.transmit(sp_link_port(link, 0), 0, &m, 1, i), 1);
			rte_pktmbuf_free(m);
			for (unsigned copies = 0; receive_at(link, 1, i) >= 0; copies++)
				arrived[k] = arrived[k] * 3 + i + copies;
		}
		sp_link_destroy(link);
	}
	CU_ASSERT(lost != 0 && lost != UINT64_MAX);
	CU_ASSERT_EQUAL(arrived[0], arrived[1]);
}

static void a_shortage_that_never_ends_is_time_that_stands_still(void)
{
	struct sp_link *link = open_link((struct sp_link_config){.direction[0] = {.duplicate = 1}});
	struct rte_mbuf *m = frame(100, 11, 1);
	void *port = sp_link_port(link, 0);
	unsigned attempts = 0;
	sp_time now = 0, next;

	drain();
	for (;; now = next) {
		CU_ASSERT_EQUAL_FATAL(sp_link_ops.transmit(port, 0, &m, 1, now), 0);
		next = sp_link_ops.next(port, 0, true);
		if (next == now || ++attempts == 100000)
			break;
	}
	CU_ASSERT(now > 2000 * SP_SEC); /* as long as a packet can be on its way */
	CU_ASSERT(attempts < 100000);
	refill();
	rte_pktmbuf_free(m);
	sp_link_destroy(link);
}

static void parameters_that_make_no_sense_are_refused(void)
{
	const struct sp_link_direction bad[] = {
		{.loss = -0.1},	       {.loss = 1.1},
		{.loss = NAN},	       {.duplicate = NAN},
		{.duplicate = 2},      {.reorder = -1},
		{.reorder = INFINITY}, {.bandwidth = UINT64_MAX},
		{.delay = SP_NEVER},   {.reorder_delay = SP_NEVER},
		{.queue = UINT32_MAX},
	};
	struct sp_link *link;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		for (int e = 0; e < 2; e++) {
			struct sp_link_config config = {.seed = 1};

			config.direction[e] = bad[i];
			CU_ASSERT_EQUAL(sp_link_create(&config, &link), -EINVAL);
		}
	CU_ASSERT_EQUAL(sp_link_create(&(struct sp_link_config){.queues = {1, 1000}}, &link), -EINVAL);
}

SUITE("link", TEST(a_frame_arrives_after_its_time_on_the_wire_and_the_delay),
      TEST(a_short_frame_takes_the_time_of_the_shortest_that_ethernet_has),
      TEST(frames_queue_behind_each_other_without_rounding_errors_adding_up),
      TEST(the_sender_is_held_back_while_its_queue_is_full_and_told_until_when), TEST(loss_is_as_likely_as_asked_for),
      TEST(a_duplicate_has_the_same_bytes_in_a_buffer_of_its_own), TEST(a_reordered_packet_is_overtaken),
      TEST(packets_that_arrive_at_the_same_time_come_in_the_order_of_sending),
      TEST(the_same_seed_gives_the_same_packets_at_the_same_times),
      TEST(what_is_lost_does_not_depend_on_the_other_probabilities), TEST(the_two_directions_lose_independently),
      TEST(a_flow_stays_on_its_queue_and_flows_spread_over_all_queues),
      TEST(buffers_in_flight_are_bounded_and_given_back),
      TEST(a_shared_buffer_is_not_handed_to_the_receiver_who_may_write_to_it),
      TEST(without_a_buffer_for_a_copy_the_packet_waits_and_time_goes_on),
      TEST(a_packet_that_had_to_wait_for_a_buffer_meets_the_same_fate),
      TEST(a_shortage_that_never_ends_is_time_that_stands_still), TEST(parameters_that_make_no_sense_are_refused))
