/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts that want all their packets on their home worker (SP_HANDLER_HOME), on a NIC whose port has several queues.
 */
#include "../../pipeline/observe/trace.h"
#include "../lib/probe.h"

#define QP 64

/* Two contexts: of the first one worker 0 is home, of the second one worker 1. */
static const struct sp_handler at_home = {SP_HANDLER_HEAD,
					  .name = "at-home",
					  .params = probe_params,
					  .drops = probe_drops,
					  .msg_size = PROBE_STATE,
					  .messages = SP_MESSAGES_HASHED,
					  .flags = SP_HANDLER_HOME,
					  .attach = probe_attach,
					  .detach = probe_detach,
					  .classify = probe_classify,
					  .header = probe_header,
					  .payload = probe_payload,
					  .completion = probe_completion};
SP_HANDLER(at_home)
PROBE(anywhere, "anywhere", SP_MESSAGES_HASHED, NULL, NULL)

static void feed(uint16_t queue, uint32_t qp, struct probe_words w)
{
	struct frame f;

	w.magic = PROBE_MAGIC;
	if (qp)
		dut_roce(&f, FRAME_IP4, qp, 0, &w, sizeof(w));
	else
		dut_udp(&f, 7, &w, sizeof(w));
	dut_feed_bytes(&dut.port, queue, 0, f.bytes, f.len);
}

static uint32_t start(uint16_t workers)
{
	probe_log_clear();
	dut_start(&dut, workers);
	return dut_context(&dut, "home", "at-home", "qp=64;filter=udp port 7");
}

static void end(void)
{
	dut_stop(&dut);
	probe_log_clear();
}

static unsigned handled(uint8_t worker)
{
	unsigned n = 0;

	for (unsigned i = 0; i < probe_log.n; i++)
		n += probe_log.call[i].what == 'p' && probe_log.call[i].worker == worker;
	return n;
}

TEST(packets_that_come_to_any_worker_are_handled_on_the_home_worker)
{
	uint64_t seed = 3;

	for (uint16_t workers = 1; workers <= 4; workers++) {
		const uint32_t first = start(workers);
		const uint32_t second = dut_context(&dut, "second", "at-home", "qp=65");
		unsigned fed[2] = {0, 0};

		for (unsigned i = 0; i < 900; i++) {
			const unsigned to = (unsigned)(dut_random(&seed) % 3);
			const struct probe_words w = {.key = 10 * (to / 2) + dut_random(&seed) % 5,
						      .serial = i,
						      .verdict = dut_random(&seed) % 9 ? SP_DONE : SP_END};

			feed((uint16_t)(dut_random(&seed) % workers), (const uint32_t[]){QP, 0, QP + 1}[to], w);
			fed[to / 2]++;
		}
		CU_ASSERT(dut_run(&dut, 1, SP_SEC) < SP_SEC); /* deadlines alone let it happen */
		if (workers > 1) {
			CU_ASSERT_EQUAL(handled(0), fed[0]);
			CU_ASSERT_EQUAL(handled(1), fed[1]);
		}
		CU_ASSERT_EQUAL(dut_counter(&dut, first, "packets"), fed[0]);
		CU_ASSERT_EQUAL(dut_counter(&dut, second, "packets"), fed[1]);
		CU_ASSERT(probe_check_order(false) > 100);
		dut_check_totals(&dut);
		CU_ASSERT_EQUAL(dut_deadline(&dut), SP_NEVER);
		end();
	}
}

TEST(other_contexts_packets_stay_where_they_come)
{
	start(2);
	dut_context(&dut, "second", "anywhere", "qp=66");
	for (unsigned i = 0; i < 20; i++)
		feed(i & 1, 66, (struct probe_words){.key = i});
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(handled(0), 10);
	CU_ASSERT_EQUAL(handled(1), 10);
	end();
}

TEST(a_packet_handed_over_is_received_once_by_the_worker_that_handles_it)
{
	struct sp_nic_totals t;
	const uint32_t id = start(2);

	for (uint32_t i = 0; i < 40; i++)
		feed(1, QP, (struct probe_words){.key = 1, .serial = i});
	while (sp_nic_poll(dut.nic, 1, 5))
		;
	CU_ASSERT_EQUAL(handled(0) + handled(1), 0);
	CU_ASSERT_EQUAL(sp_nic_next_deadline(dut.nic, 1), SP_NEVER);
	CU_ASSERT_EQUAL(sp_nic_next_deadline(dut.nic, 0), 0); /* it has not been polled since: at once */
	sp_nic_totals(dut.nic, &t);
	CU_ASSERT_EQUAL(t.received + t.bytes + t.taken + t.dropped + t.parked, 0);
	dut_settle(&dut, 6);
	CU_ASSERT_EQUAL(handled(0), 40);
	for (unsigned i = 2; i < probe_log.n; i++) /* attach, header; in order of arrival */
		CU_ASSERT_EQUAL(probe_log.call[i].serial, i - 2);
	sp_nic_totals(dut.nic, &t);
	CU_ASSERT_EQUAL(t.received, 40);
	CU_ASSERT_EQUAL(t.bytes, dut_counter(&dut, id, "bytes"));
	dut_check_totals(&dut);
	end();
}

TEST(packets_that_the_home_worker_cannot_take_are_dropped_as_handover_full)
{
	struct sp_nic_totals t;
	const uint32_t id = start(2);

	for (uint32_t i = 0; i < SP_HANDOVER + 10; i++)
		feed(1, QP, (struct probe_words){.key = 1});
	while (sp_nic_poll(dut.nic, 1, 5))
		;
	sp_nic_totals(dut.nic, &t);
	CU_ASSERT_EQUAL(t.received, 10);
	CU_ASSERT_EQUAL(t.dropped, 10);
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "handover-full"), 10);
	dut_settle(&dut, 6);
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "packets"), SP_HANDOVER);
	feed(1, QP, (struct probe_words){.key = 1}); /* there is room again */
	dut_settle(&dut, 7);
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "packets"), SP_HANDOVER + 1);
	dut_check_totals(&dut);
	end();
}

TEST(what_was_handed_over_for_a_context_that_goes_is_nobodys)
{
	const uint32_t id = start(2);

	for (uint32_t i = 0; i < 7; i++)
		feed(1, QP, (struct probe_words){.key = 1});
	while (sp_nic_poll(dut.nic, 1, 5))
		;
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, id), 0);
	dut_settle(&dut, 6);
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "bad-qp"), 7);
	CU_ASSERT_EQUAL(handled(0) + handled(1), 0);
	dut_check_totals(&dut);
	end();
}

TEST(a_nic_that_ends_releases_packets_handed_over)
{
	start(2);
	for (uint32_t i = 0; i < 7; i++)
		feed(1, QP, (struct probe_words){.key = 1});
	while (sp_nic_poll(dut.nic, 1, 5))
		;
	end(); /* counts packet buffers */
}

/* ---- whoever looks on ---- */

static struct {
	unsigned arrived, matched, fates;
	enum sp_capture_fate fate;
} told;

static void arrived(void *arg, const struct sp_packet *p, int parsed, sp_time now)
{
	told.arrived++;
}

static void matched(void *arg, const struct sp_packet *p, const char *context, const char *handler)
{
	told.matched++;
}

static void fate(void *arg, const struct sp_packet *p, enum sp_capture_fate what, const char *reason)
{
	told.fates++;
	told.fate = what;
}

TEST(a_watch_is_told_of_a_packet_handed_over_once)
{
	const struct sp_tracer watch = {.arrived = arrived, .matched = matched, .fate = fate};

	probe_log_clear();
	dut_start(&dut, 2);
	memset(&told, 0, sizeof(told));
	CU_ASSERT_EQUAL_FATAL(sp_nic_trace(dut.nic, &watch), 0);
	dut_context(&dut, "home", "at-home", "qp=64");
	for (unsigned i = 0; i < 3; i++)
		feed(1, QP, (struct probe_words){.key = 1, .verdict = SP_DROP(1)});
	while (sp_nic_poll(dut.nic, 1, 5))
		;
	CU_ASSERT_EQUAL(told.arrived, 3);
	CU_ASSERT_EQUAL(told.fates, 0);
	dut_settle(&dut, 6);
	CU_ASSERT_EQUAL(told.arrived, 3);
	CU_ASSERT_EQUAL(told.matched, 3);
	CU_ASSERT_EQUAL(told.fates, 3);
	CU_ASSERT_EQUAL(told.fate, SP_CAPTURE_DROPPED);
	end();
}
