/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts that want all their packets on their home worker (SP_HANDLER_HOME), on a NIC whose port has several queues.
 */
#include "../../pipeline/watch.h"
#include "rig.h"

#define QP 64

static struct rig rig;

/* Two contexts: of the first one worker 0 is home, of the second one worker 1. */
static const struct sp_handler at_home = {SP_HANDLER_HEAD,
					  .name = "at-home",
					  .params = rig_params,
					  .drops = rig_drops,
					  .msg_size = RIG_STATE,
					  .messages = SP_MESSAGES_HASHED,
					  .flags = SP_HANDLER_HOME,
					  .attach = rig_attach,
					  .detach = rig_detach,
					  .classify = rig_classify,
					  .header = rig_header,
					  .payload = rig_payload,
					  .completion = rig_completion};
SP_HANDLER(at_home)
RIG_PROBE(anywhere, "anywhere", SP_MESSAGES_HASHED, NULL, NULL)

static void feed(uint16_t queue, uint32_t qp, struct rig_words w)
{
	struct frame f;

	w.magic = RIG_MAGIC;
	if (qp)
		rig_roce(&f, FRAME_IP4, qp, 0, &w, sizeof(w));
	else
		rig_udp(&f, 7, &w, sizeof(w));
	rig_feed_bytes(&rig.port, queue, 0, f.bytes, f.len);
}

static uint32_t start(uint16_t workers)
{
	rig_log_clear();
	rig_start(&rig, workers);
	return rig_context(&rig, "home", "at-home", "qp=64;filter=udp port 7");
}

static void end(void)
{
	rig_stop(&rig);
	rig_log_clear();
}

static unsigned handled(uint8_t worker)
{
	unsigned n = 0;

	for (unsigned i = 0; i < rig_log.n; i++)
		n += rig_log.call[i].what == 'p' && rig_log.call[i].worker == worker;
	return n;
}

TEST(packets_that_come_to_any_worker_are_handled_on_the_home_worker)
{
	uint64_t seed = 3;

	for (uint16_t workers = 1; workers <= 4; workers++) {
		const uint32_t first = start(workers);
		const uint32_t second = rig_context(&rig, "second", "at-home", "qp=65");
		unsigned fed[2] = {0, 0};

		for (unsigned i = 0; i < 900; i++) {
			const unsigned to = (unsigned)(rig_random(&seed) % 3);
			const struct rig_words w = {.key = 10 * (to / 2) + rig_random(&seed) % 5,
						    .serial = i,
						    .verdict = rig_random(&seed) % 9 ? SP_DONE : SP_END};

			feed((uint16_t)(rig_random(&seed) % workers), (const uint32_t[]){QP, 0, QP + 1}[to], w);
			fed[to / 2]++;
		}
		CU_ASSERT(rig_run(&rig, 1, SP_SEC) < SP_SEC); /* deadlines alone let it happen */
		if (workers > 1) {
			CU_ASSERT_EQUAL(handled(0), fed[0]);
			CU_ASSERT_EQUAL(handled(1), fed[1]);
		}
		CU_ASSERT_EQUAL(rig_counter(&rig, first, "packets"), fed[0]);
		CU_ASSERT_EQUAL(rig_counter(&rig, second, "packets"), fed[1]);
		CU_ASSERT(rig_check_order(false) > 100);
		rig_check_totals(&rig);
		CU_ASSERT_EQUAL(rig_deadline(&rig), SP_NEVER);
		end();
	}
}

TEST(other_contexts_packets_stay_where_they_come)
{
	start(2);
	rig_context(&rig, "second", "anywhere", "qp=66");
	for (unsigned i = 0; i < 20; i++)
		feed(i & 1, 66, (struct rig_words){.key = i});
	rig_settle(&rig, 1);
	CU_ASSERT_EQUAL(handled(0), 10);
	CU_ASSERT_EQUAL(handled(1), 10);
	end();
}

TEST(a_packet_handed_over_is_received_once_by_the_worker_that_handles_it)
{
	struct sp_nic_totals t;
	const uint32_t id = start(2);

	for (uint32_t i = 0; i < 40; i++)
		feed(1, QP, (struct rig_words){.key = 1, .serial = i});
	while (sp_nic_poll(rig.nic, 1, 5))
		;
	CU_ASSERT_EQUAL(handled(0) + handled(1), 0);
	CU_ASSERT_EQUAL(sp_nic_next_deadline(rig.nic, 1), SP_NEVER);
	CU_ASSERT_EQUAL(sp_nic_next_deadline(rig.nic, 0), 0); /* it has not been polled since: at once */
	sp_nic_totals(rig.nic, &t);
	CU_ASSERT_EQUAL(t.received + t.bytes + t.taken + t.dropped + t.parked, 0);
	rig_settle(&rig, 6);
	CU_ASSERT_EQUAL(handled(0), 40);
	for (unsigned i = 2; i < rig_log.n; i++) /* attach, header; in order of arrival */
		CU_ASSERT_EQUAL(rig_log.call[i].serial, i - 2);
	sp_nic_totals(rig.nic, &t);
	CU_ASSERT_EQUAL(t.received, 40);
	CU_ASSERT_EQUAL(t.bytes, rig_counter(&rig, id, "bytes"));
	rig_check_totals(&rig);
	end();
}

TEST(what_the_home_worker_does_not_come_round_to_is_dropped_as_handover_full)
{
	struct sp_nic_totals t;
	const uint32_t id = start(2);

	for (uint32_t i = 0; i < SP_HANDOVER + 10; i++)
		feed(1, QP, (struct rig_words){.key = 1});
	while (sp_nic_poll(rig.nic, 1, 5))
		;
	sp_nic_totals(rig.nic, &t);
	CU_ASSERT_EQUAL(t.received, 10);
	CU_ASSERT_EQUAL(t.dropped, 10);
	CU_ASSERT_EQUAL(sp_nic_dropped(rig.nic, "handover-full"), 10);
	rig_settle(&rig, 6);
	CU_ASSERT_EQUAL(rig_counter(&rig, id, "packets"), SP_HANDOVER);
	feed(1, QP, (struct rig_words){.key = 1}); /* there is room again */
	rig_settle(&rig, 7);
	CU_ASSERT_EQUAL(rig_counter(&rig, id, "packets"), SP_HANDOVER + 1);
	rig_check_totals(&rig);
	end();
}

TEST(what_was_handed_over_for_a_context_that_goes_is_nobodys)
{
	const uint32_t id = start(2);

	for (uint32_t i = 0; i < 7; i++)
		feed(1, QP, (struct rig_words){.key = 1});
	while (sp_nic_poll(rig.nic, 1, 5))
		;
	CU_ASSERT_EQUAL(sp_nic_context_remove(rig.nic, id), 0);
	rig_settle(&rig, 6);
	CU_ASSERT_EQUAL(sp_nic_dropped(rig.nic, "bad-qp"), 7);
	CU_ASSERT_EQUAL(handled(0) + handled(1), 0);
	rig_check_totals(&rig);
	end();
}

TEST(a_nic_that_ends_lets_go_of_what_was_handed_over)
{
	start(2);
	for (uint32_t i = 0; i < 7; i++)
		feed(1, QP, (struct rig_words){.key = 1});
	while (sp_nic_poll(rig.nic, 1, 5))
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
	const struct sp_watch watch = {.arrived = arrived, .matched = matched, .fate = fate};

	rig_log_clear();
	rig_start(&rig, 2);
	memset(&told, 0, sizeof(told));
	CU_ASSERT_EQUAL_FATAL(sp_nic_watch(rig.nic, &watch), 0);
	rig_context(&rig, "home", "at-home", "qp=64");
	for (unsigned i = 0; i < 3; i++)
		feed(1, QP, (struct rig_words){.key = 1, .verdict = SP_DROP(1)});
	while (sp_nic_poll(rig.nic, 1, 5))
		;
	CU_ASSERT_EQUAL(told.arrived, 3);
	CU_ASSERT_EQUAL(told.fates, 0);
	rig_settle(&rig, 6);
	CU_ASSERT_EQUAL(told.arrived, 3);
	CU_ASSERT_EQUAL(told.matched, 3);
	CU_ASSERT_EQUAL(told.fates, 3);
	CU_ASSERT_EQUAL(told.fate, SP_CAPTURE_DROPPED);
	end();
}
