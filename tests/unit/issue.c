/* SPDX-License-Identifier: BSD-3-Clause */
/* What a context does of its own accord: deferred work, and host work that becomes packets under a pace. */
#include "../../pipeline/exec/issue.h"
#include "../lib/timed.h"

/* ---- deferred work ---- */

#define RULE(rule) TEST_BETWEEN(timed_start, timed_stop, rule)

static void start_works(struct sp_ctx *c, struct timed *s)
{
	for (unsigned i = 0; i < 3; i++)
		sp_work_start(c, &s->work[i]);
	sp_work_start(c, &s->work[1]); /* it is in the queue already */
}

RULE(deferred_work_runs_one_slice_a_poll_the_oldest_first)
{
	uint32_t id = dut_context(&dut, "a", "timed", "qp=16");
	timed_state(id)->slices[0] = 3;
	timed_state(id)->slices[1] = 1;
	timed_state(id)->slices[2] = 2;
	timed_inside(id, start_works);
	for (unsigned i = 1; i <= 6; i++) {
		CU_ASSERT(sp_nic_next_deadline(dut.nic, 0) <= i);
		sp_nic_poll(dut.nic, 0, i);
		CU_ASSERT_EQUAL(timed_happenings, i);
	}
	CU_ASSERT_STRING_EQUAL(timed_log(), "a:w0 a:w1 a:w2 a:w0 a:w2 a:w0 ");
	CU_ASSERT_EQUAL(sp_nic_poll(dut.nic, 0, 7), 0);
	CU_ASSERT_EQUAL(sp_nic_next_deadline(dut.nic, 0), SP_NEVER);
}

RULE(work_may_start_itself_again)
{
	uint32_t id = dut_context(&dut, "a", "timed", "qp=16");
	timed_state(id)->again[0] = true;
	timed_inside(id, start_works);
	dut_run(&dut, 0, 100);
	CU_ASSERT_STRING_EQUAL(timed_log(), "a:w0 a:w1 a:w2 a:w0 ");
}

RULE(the_work_of_a_context_goes_with_it)
{
	uint32_t a = dut_context(&dut, "a", "timed", "qp=16");
	uint32_t b = dut_context(&dut, "b", "timed", "qp=17");
	for (unsigned i = 0; i < 3; i++)
		timed_state(a)->slices[i] = timed_state(b)->slices[i] = 2;
	timed_inside(a, start_works);
	timed_inside(b, start_works);
	sp_nic_poll(dut.nic, 0, 1);
	sp_nic_context_remove(dut.nic, b);
	dut_run(&dut, 1, 100);
	CU_ASSERT_STRING_EQUAL(timed_log(), "a:w0 a:w1 a:w2 a:w0 a:w1 a:w2 ");
	timed_inside(a, start_works); /* the queue's ends still fit together */
	sp_nic_context_remove(dut.nic, a);
	CU_ASSERT_EQUAL(sp_nic_next_deadline(dut.nic, 0), SP_NEVER);
}

/* ---- issue ---- */

static void start_first(struct sp_ctx *c, struct timed *s)
{
	sp_issue_start(c, &s->issue[0]);
}

static void start_three(struct sp_ctx *c, struct timed *s)
{
	for (unsigned i = 0; i < 3; i++)
		sp_issue_start(c, &s->issue[i]);
}

RULE(issue_is_given_a_budget_and_no_context_more_than_a_burst_a_poll)
{
	uint32_t id = dut_context(&dut, "a", "timed", "qp=16");
	timed_state(id)->job[0].want = 1000;
	timed_inside(id, start_first);
	for (unsigned i = 1; i < 10; i++) {
		sp_nic_poll(dut.nic, 0, i);
		CU_ASSERT_EQUAL(dut.port.sents, i * SP_BURST);
	}
	CU_ASSERT_EQUAL(timed_state(id)->job[0].most, SP_BURST);
	dut_run(&dut, 10, 1000);
	CU_ASSERT_EQUAL(dut.port.sents, 1000);
	CU_ASSERT_EQUAL(sp_nic_next_deadline(dut.nic, 0), SP_NEVER);
}

RULE(the_issues_of_a_context_take_turns)
{
	uint32_t id = dut_context(&dut, "a", "timed", "qp=16");
	for (unsigned i = 0; i < 3; i++) {
		timed_state(id)->job[i].want = 3 + i;
		timed_state(id)->job[i].each = 1;
	}
	timed_inside(id, start_three);
	dut_run(&dut, 0, 100);
	CU_ASSERT_STRING_EQUAL(timed_log(), "a:i0 a:i1 a:i2 a:i0 a:i1 a:i2 a:i0 a:i1 a:i2 a:i1 a:i2 a:i2 ");
}

RULE(contexts_take_turns)
{
	unsigned sent[26] = {0};
	uint32_t id[12];

	for (unsigned i = 0; i < 12; i++) { /* more than one poll serves */
		char name[2] = {(char)('a' + i)}, qp[16];

		snprintf(qp, sizeof(qp), "qp=%u", 16 + i);
		id[i] = dut_context(&dut, name, "timed", qp);
		timed_state(id[i])->job[0].want = 10000;
		timed_inside(id[i], start_first);
	}
	for (unsigned i = 1; i <= 30; i++)
		sp_nic_poll(dut.nic, 0, i);
	for (unsigned i = 0; i < timed_happenings; i++)
		sent[timed_happened[i].context - 'a']++;
	for (unsigned i = 0; i < 12; i++)
		CU_ASSERT_EQUAL(sent[i], 30 * SP_ISSUES_PER_POLL * SP_BURST / 12);
	/* One of them goes: the others do not notice. */
	sp_nic_context_remove(dut.nic, id[3]);
	sp_nic_context_remove(dut.nic, id[11]);
	timed_happenings = 0;
	for (unsigned i = 31; i <= 40; i++)
		sp_nic_poll(dut.nic, 0, i);
	CU_ASSERT_EQUAL(timed_happenings, 10 * SP_ISSUES_PER_POLL * SP_BURST);
	for (unsigned i = 0; i < timed_happenings; i++)
		CU_ASSERT(timed_happened[i].context != 'd' && timed_happened[i].context != 'l');
}

RULE(an_issue_that_waits_is_not_called_until_it_is_started)
{
	uint32_t id = dut_context(&dut, "a", "timed", "qp=16");
	timed_state(id)->job[0].want = 5;
	timed_state(id)->job[0].dry = SP_ISSUE_WAIT;
	timed_inside(id, start_first);
	dut_run(&dut, 0, 100);
	CU_ASSERT_EQUAL(dut.port.sents, 5);
	CU_ASSERT_EQUAL(timed_state(id)->job[0].calls, 1);
	for (unsigned i = 0; i < 10; i++)
		sp_nic_poll(dut.nic, 0, 100 + i);
	CU_ASSERT_EQUAL(timed_state(id)->job[0].calls, 1);
	timed_state(id)->job[0].want = 7;
	timed_inside(id, start_first);
	timed_inside(id, start_first); /* twice is once */
	dut_run(&dut, 200, 300);
	CU_ASSERT_EQUAL(dut.port.sents, 7);
	CU_ASSERT_EQUAL(timed_state(id)->job[0].calls, 2);
}

RULE(a_start_during_issue_is_not_lost)
{
	uint32_t id = dut_context(&dut, "a", "timed", "qp=16");
	timed_state(id)->job[0].want = 5;
	timed_state(id)->job[0].dry = SP_ISSUE_WAIT;
	timed_state(id)->job[0].grow = 3;
	timed_inside(id, start_first);
	dut_run(&dut, 0, 10 * SP_US);
	CU_ASSERT_EQUAL(dut.port.sents, 8);
}

TEST(an_issue_started_on_another_worker_runs_at_home)
{
	struct frame f;

	timed_start_with(3, true);
	uint32_t id = dut_context(&dut, "a", "timed", "qp=16");
	timed_state(id)->job[0].want = 4;
	timed_state(id)->job[0].dry = SP_ISSUE_WAIT;
	timed_state(id)->job[1].want = 2;
	timed_state(id)->job[2].want = 1;
	dut_roce(&f, FRAME_IP4, 16, 0, NULL, 0);
	timed_todo = start_three;
	for (uint16_t q = 1; q < 3; q++)
		for (unsigned i = 0; i < 3; i++)
			dut_feed_bytes(&dut.port, q, 0, f.bytes, f.len);
	sp_nic_poll(dut.nic, 1, 1);
	sp_nic_poll(dut.nic, 2, 1);
	CU_ASSERT_EQUAL(dut.port.sents, 0);
	CU_ASSERT(sp_nic_next_deadline(dut.nic, 0) <= 1); /* at home there is something to do */
	dut_run(&dut, 1, 1000);
	CU_ASSERT_EQUAL(dut.port.sents, 7);
	for (unsigned i = 0; i < 3; i++)
		CU_ASSERT_EQUAL(timed_state(id)->job[i].worker, 0);
	timed_state(id)->job[0].want = 6; /* and again */
	dut_feed_bytes(&dut.port, 2, 0, f.bytes, f.len);
	dut_settle(&dut, 1001);
	CU_ASSERT_EQUAL(dut.port.sents, 9);
	/* Started elsewhere, and the context goes before home has looked. */
	dut_feed_bytes(&dut.port, 2, 0, f.bytes, f.len);
	sp_nic_poll(dut.nic, 2, 1002);
	sp_nic_context_remove(dut.nic, id);
	dut_settle(&dut, 1003);
	timed_stop();
}

RULE(attach_may_start_work_and_issues)
{
	dut_context(&dut, "a", "timed", "qp=16;start=yes");
	dut_run(&dut, 0, 100);
	CU_ASSERT_STRING_EQUAL(timed_log(), "a:w0 a:i0 ");
}

/* ---- pace ---- */

/* A frame's time on the wire: preamble and delimiter, frame, FCS, gap. */
static unsigned __int128 wire_bits(uint32_t payload)
{
	return 8ull * (8 + 14 + 20 + 8 + 12 + payload + (-payload & 3) + 4 + 4 + 12);
}

TEST(paced_packets_are_a_wire_time_apart_and_the_long_run_is_exact)
{
	static const struct {
		const char *text;
		uint64_t rate;
	} rate[] = {{"rate=1G", 1000000000}, {"rate=400G", 400000000000}, {"rate=333333333", 333333333}, {"rate=7", 7}};
	const sp_time begin = 123456789;

	for (unsigned k = 0; k < 4; k++)
		for (uint32_t bytes = 0; bytes < 1400; bytes += 333) {
			const unsigned count = k == 3 ? 100 : 2000;
			char settings[64];
			unsigned bad = 0;

			timed_start();
			snprintf(settings, sizeof(settings), "qp=16;%s", rate[k].text);
			uint32_t id = dut_context(&dut, "a", "timed", settings);
			timed_state(id)->job[0].want = count;
			timed_state(id)->bytes = bytes;
			dut_settle(&dut, begin);
			timed_inside(id, start_first);
			dut_run(&dut, begin, SP_NEVER - 1);
			CU_ASSERT_EQUAL(dut.port.sents, count);
			CU_ASSERT_EQUAL(timed_state(id)->job[0].most, 1);
			for (unsigned i = 0; i < dut.port.sents; i++)
				bad += dut.port.sent[i].at !=
				       begin + (sp_time)(wire_bits(bytes) * i * SP_SEC / rate[k].rate);
			CU_ASSERT_EQUAL(bad, 0);
			timed_stop();
		}
}

RULE(having_been_idle_gives_no_right_to_a_burst)
{
	uint32_t id = dut_context(&dut, "a", "timed", "qp=16;rate=10G");
	timed_state(id)->job[0].dry = SP_ISSUE_WAIT;
	for (unsigned round = 0; round < 5; round++) {
		sp_time begin = (round + 1) * SP_SEC;
		unsigned first = dut.port.sents;

		timed_state(id)->job[0].want += 50;
		dut_settle(&dut, begin);
		timed_inside(id, start_first);
		dut_run(&dut, begin, begin + SP_MS);
		CU_ASSERT_EQUAL(dut.port.sents, first + 50);
		for (unsigned i = first; i < dut.port.sents; i++)
			CU_ASSERT_EQUAL(dut.port.sent[i].at, begin + (i - first) * (sp_time)wire_bits(0) * 100);
	}
}

TEST(a_worker_that_comes_late_makes_up_for_a_little_only)
{
	const sp_time apart = (sp_time)wire_bits(0) * 1000; /* 656 ns at 1 Gbit/s */

	timed_start();
	uint32_t id = dut_context(&dut, "a", "timed", "qp=16;rate=1G");
	timed_state(id)->job[0].want = 1000000;
	dut_settle(&dut, SP_SEC);
	timed_inside(id, start_first);
	for (sp_time t = 0; t <= SP_MS; t += 5 * SP_US) /* every 5 us: the rate is kept */
		sp_nic_poll(dut.nic, 0, SP_SEC + t);
	CU_ASSERT(dut.port.sents >= SP_MS / apart);
	CU_ASSERT(dut.port.sents <= SP_MS / apart + 1);
	unsigned before = dut.port.sents;
	dut_settle(&dut, SP_SEC + 100 * SP_MS); /* 99 ms later: 10 us of them */
	CU_ASSERT(dut.port.sents - before >= 10 * SP_US / apart);
	CU_ASSERT(dut.port.sents - before <= 10 * SP_US / apart + 2);
	timed_stop();
}

static uint64_t new_rate;

static void change_pace(struct sp_ctx *c, struct timed *s)
{
	sp_pace(c, new_rate);
}

RULE(the_pace_changes_from_the_next_packet_on)
{
	uint32_t id = dut_context(&dut, "a", "timed", "qp=16;rate=1k");
	timed_state(id)->job[0].want = 3000;
	timed_inside(id, start_first);
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(dut.port.sents, 1); /* the next one would be due in 656 ms */
	new_rate = 1000000;
	timed_inside(id, change_pace);
	dut_run(&dut, 1, 656 * SP_US - 1);
	CU_ASSERT_EQUAL(dut.port.sents, 1);
	dut_run(&dut, 656 * SP_US, 2 * 656 * SP_US + 1);
	CU_ASSERT_EQUAL(dut.port.sents, 3);
	new_rate = 0;
	timed_inside(id, change_pace);
	dut_settle(&dut, 2 * 656 * SP_US + 2);
	CU_ASSERT_EQUAL(dut.port.sents, 3000); /* as fast as the port goes */
}

RULE(every_context_has_its_own_pace)
{
	static const char *const rate[] = {"qp=16;rate=1G", "qp=17;rate=2G", "qp=18;rate=3G"};
	unsigned sent[3] = {0};

	for (unsigned i = 0; i < 3; i++) {
		char name[2] = {(char)('a' + i)};
		uint32_t id = dut_context(&dut, name, "timed", rate[i]);

		timed_state(id)->job[0].want = 1000000;
		timed_inside(id, start_first);
	}
	dut_run(&dut, 0, (sp_time)wire_bits(0) * 1000 * 600 - 1); /* 600 packets' time at 1 Gbit/s */
	for (unsigned i = 0; i < timed_happenings; i++)
		sent[timed_happened[i].context - 'a']++;
	for (unsigned i = 0; i < 3; i++)
		CU_ASSERT_EQUAL(sent[i], 600 * (i + 1));
}

/* ---- ports, neighbours and buffers that hold it up ---- */

RULE(a_slow_port_gets_everything_in_order_and_time_goes_on)
{
	dut.port.gap = SP_US;
	uint32_t id = dut_context(&dut, "a", "timed", "qp=16");
	timed_state(id)->job[0].want = 3000;
	timed_inside(id, start_first);
	sp_time done = dut_run(&dut, 0, SP_SEC);
	CU_ASSERT_EQUAL_FATAL(dut.port.sents, 3000);
	CU_ASSERT_EQUAL(dut.port.sent[2999].at, 2999 * SP_US); /* never waiting for the NIC */
	CU_ASSERT(done <= 3001 * SP_US);
	for (unsigned i = 0; i < 3000; i++) {
		const uint8_t *psn = dut.port.sent[i].bytes + 14 + 20 + 8 + 9;

		CU_ASSERT_EQUAL((unsigned)psn[0] << 16 | (unsigned)psn[1] << 8 | psn[2], i);
	}
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "tx-full"), 0);
}

RULE(a_paced_context_on_a_slower_port_goes_at_the_ports_pace)
{
	dut.port.gap = SP_US;
	uint32_t id = dut_context(&dut, "a", "timed", "qp=16;rate=400G");
	timed_state(id)->job[0].want = 2000;
	timed_inside(id, start_first);
	dut_run(&dut, 0, SP_SEC);
	CU_ASSERT_EQUAL_FATAL(dut.port.sents, 2000);
	CU_ASSERT_EQUAL(dut.port.sent[1999].at, 1999 * SP_US);
}

TEST(an_unknown_neighbour_holds_issues_up_and_loses_none)
{
	static const uint8_t answer[42] = {2, 0, 0, 0, 0, 1, 2, 0,   0, 0, 0, 2, 8, 6, 0, 1, 8, 0,   6, 4, 0,
					   2, 2, 0, 0, 0, 0, 2, 192, 0, 2, 1, 2, 0, 0, 0, 0, 1, 192, 0, 2, 2};
	unsigned arp = 0, roce = 0;

	timed_start_with(1, false);
	uint32_t id = dut_context(&dut, "a", "timed", "qp=16");
	timed_state(id)->job[0].want = 500;
	timed_inside(id, start_first);
	dut_feed_bytes(&dut.port, 0, 100 * SP_MS, answer, sizeof(answer));
	dut_run(&dut, 0, 200 * SP_MS);
	for (unsigned i = 0; i < dut.port.sents; i++) {
		arp += dut.port.sent[i].bytes[12] == 8 && dut.port.sent[i].bytes[13] == 6;
		roce += dut.port.sent[i].bytes[12] == 8 && dut.port.sent[i].bytes[13] == 0;
	}
	CU_ASSERT_EQUAL(roce, 500);
	CU_ASSERT_EQUAL(arp, 1);
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "tx-no-neighbour"), 0);
	timed_stop();
}

RULE(without_buffers_issues_wait_for_some)
{
	static struct rte_mbuf *all[SP_PACKET_POOL + 1];
	unsigned n = 0;

	uint32_t id = dut_context(&dut, "a", "timed", "qp=16");
	timed_state(id)->job[0].want = 100;
	while (n < SP_PACKET_POOL && (all[n] = sp_packet_alloc()))
		n++;
	CU_ASSERT_EQUAL(n, SP_PACKET_POOL);
	timed_inside(id, start_first);
	dut_run(&dut, 0, 20 * SP_US);
	CU_ASSERT_EQUAL(dut.port.sents, 0);
	CU_ASSERT(sp_nic_next_deadline(dut.nic, 0) < 30 * SP_US);
	rte_pktmbuf_free_bulk(all, n);
	dut_run(&dut, 20 * SP_US, 40 * SP_US);
	CU_ASSERT_EQUAL(dut.port.sents, 100);
}
