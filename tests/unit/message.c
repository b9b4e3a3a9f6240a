/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages: header once and first, payload, completion once and last, however a message begins and ends. */
#include "../lib/probe.h"

PROBE(hashed, "hashed", SP_MESSAGES_HASHED, NULL, NULL)
PROBE(hashed_burst, "hashed-burst", SP_MESSAGES_HASHED, NULL, probe_burst)
PROBE(slots, "slots", SP_MESSAGES_SLOTS, probe_miss, NULL)
static const struct sp_handler headless = {SP_HANDLER_HEAD,	   .name = "headless",
					   .params = probe_params,   .drops = probe_drops,
					   .msg_size = PROBE_STATE,  .messages = SP_MESSAGES_SLOTS,
					   .attach = probe_attach,   .classify = probe_classify,
					   .payload = probe_payload, .completion = probe_completion};
SP_HANDLER(headless)
PROBE(slots_plain, "slots-plain", SP_MESSAGES_SLOTS, NULL, NULL)

#define QP 0x40

static uint32_t begin(const char *handler, const char *settings)
{
	char all[128];

	probe_log_clear();
	dut_start(&dut, 1);
	snprintf(all, sizeof(all), "qp=64;%s", settings);
	return dut_context(&dut, "c", handler, all);
}

static void end(void)
{
	dut_check_totals(&dut);
	dut_stop(&dut);
	probe_log_clear();
}

static void say(struct probe_words w)
{
	probe_feed(&dut, QP, &w);
}

static struct probe_call *last_call(void)
{
	CU_ASSERT_FATAL(probe_log.n > 0);
	return &probe_log.call[probe_log.n - 1];
}

/* ---- hashed ---- */

TEST(header_comes_first_and_completion_last_when_a_verdict_ends_the_message)
{
	begin("hashed", "");
	say((struct probe_words){.key = 7, .serial = 1});
	dut_settle(&dut, 10);
	say((struct probe_words){.key = 7, .serial = 2});
	dut_settle(&dut, 20);
	say((struct probe_words){.key = 7, .serial = 3, .verdict = SP_END});
	dut_settle(&dut, 30);
	CU_ASSERT_STRING_EQUAL(probe_letters(7), "hpppc");
	CU_ASSERT_EQUAL(last_call()->serial, SP_END_VERDICT);
	CU_ASSERT_EQUAL(last_call()->first, 10);
	CU_ASSERT_EQUAL(last_call()->last, 30);
	CU_ASSERT_EQUAL(probe_check_order(true), 1);
	end();
}

TEST(packets_after_the_end_in_one_run_are_still_of_the_message)
{
	begin("hashed-burst", "");
	say((struct probe_words){.key = 7, .verdict = SP_END});
	say((struct probe_words){.key = 7});
	say((struct probe_words){.key = 7});
	dut_settle(&dut, 1);
	CU_ASSERT_STRING_EQUAL(probe_letters(SP_NO_MESSAGE), "ahbpppc");
	say((struct probe_words){.key = 7});
	dut_settle(&dut, 2);
	CU_ASSERT_STRING_EQUAL(probe_letters(7), "hpppchp");
	end();
}

TEST(a_message_closed_by_the_host_completes_as_closed)
{
	uint32_t id = begin("hashed", "");

	say((struct probe_words){.key = 7});
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_CLOSE, 8), -ENOENT);
	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_CLOSE, 7), 0);
	CU_ASSERT_STRING_EQUAL(probe_letters(7), "hpc");
	CU_ASSERT_EQUAL(last_call()->serial, SP_END_CLOSED);
	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_CLOSE, 7), -ENOENT);
	CU_ASSERT_EQUAL(probe_check_order(true), 1);
	end();
}

TEST(a_message_closed_from_inside_completes_after_its_packets)
{
	begin("hashed", "");
	say((struct probe_words){.key = 7, .action = PROBE_CLOSE});
	say((struct probe_words){.key = 7});
	say((struct probe_words){.key = 8, .action = PROBE_CLOSE_EARLY});
	dut_settle(&dut, 1);
	CU_ASSERT_STRING_EQUAL(probe_letters(7), "hppc");
	CU_ASSERT_STRING_EQUAL(probe_letters(8), "hpc");
	CU_ASSERT_EQUAL(last_call()->serial, SP_END_CLOSED);
	CU_ASSERT_EQUAL(probe_check_order(true), 2);
	end();
}

/* What work() needs: a message that cannot end under it. */
TEST(a_message_that_is_held_completes_when_it_is_released)
{
	static const struct {
		const char *handler;
		uint64_t key;
	} kind[] = {{"hashed", 7}, {"slots", SP_SLOT_KEY(3, 9)}};

	for (unsigned i = 0; i < 2; i++) {
		uint32_t id = begin(kind[i].handler, "");
		struct sp_ctx *c = &sp_context_by_id(dut.nic, id)->view[0]->pub;
		const uint64_t key = kind[i].key;
		struct sp_message *m;

		CU_ASSERT_PTR_NULL(sp_message_hold(c, key));
		if (i) {
			CU_ASSERT_EQUAL(sp_message_open(c, key), 0);
			CU_ASSERT_PTR_NULL(sp_message_hold(c, key)); /* nothing has come yet */
			CU_ASSERT_PTR_NULL(sp_message_hold(c, SP_SLOT_KEY(3, 8)));
			CU_ASSERT_PTR_NULL(sp_message_hold(c, SP_SLOT_KEY(UINT32_MAX, 9)));
		}
		say((struct probe_words){.key = key});
		dut_settle(&dut, 1);
		m = sp_message_hold(c, key);
		CU_ASSERT_PTR_NOT_NULL_FATAL(m);
		CU_ASSERT_EQUAL(m->key, key);
		CU_ASSERT_EQUAL(sp_message_close(c, key), 0);
		CU_ASSERT_STRING_EQUAL(probe_letters(key), "hp");
		CU_ASSERT_PTR_NULL(sp_message_hold(c, key)); /* it is ending */
		sp_message_release(c, m);
		CU_ASSERT_STRING_EQUAL(probe_letters(key), "hpc");
		CU_ASSERT_PTR_NULL(sp_message_hold(c, key));
		CU_ASSERT_EQUAL(probe_check_order(true), 1);
		end();
	}
}

/* ... and one of which nothing has come: without header() there is nothing to wait for. */
TEST(a_slot_without_header_can_be_held_before_anything_has_come)
{
	uint32_t id = begin("headless", "");
	struct sp_ctx *c = &sp_context_by_id(dut.nic, id)->view[0]->pub;
	const uint64_t key = SP_SLOT_KEY(3, 9);
	struct sp_message *m;

	CU_ASSERT_PTR_NULL(sp_message_hold(c, key));
	for (unsigned i = 0; i < 2; i++) {
		CU_ASSERT_EQUAL(sp_message_open(c, key), 0);
		CU_ASSERT_PTR_NULL(sp_message_hold(c, SP_SLOT_KEY(3, 8)));
		m = sp_message_hold(c, key);
		CU_ASSERT_PTR_NOT_NULL_FATAL(m);
		CU_ASSERT_EQUAL(m->key, key);
		for (unsigned b = 0; b < PROBE_STATE; b++)
			CU_ASSERT_EQUAL(((uint8_t *)m->state)[b], 0);
		memset(m->state, 0xA5, PROBE_STATE);
		say((struct probe_words){.key = key});
		dut_settle(&dut, 1);
		for (unsigned b = 0; b < PROBE_STATE; b++) /* the first packet does not begin it anew */
			CU_ASSERT_EQUAL(((uint8_t *)m->state)[b], 0xA5);
		CU_ASSERT_EQUAL(sp_message_close(c, key), 0);
		CU_ASSERT_PTR_NULL(sp_message_hold(c, key));
		CU_ASSERT_STRING_EQUAL(probe_letters(key), i ? "pcp" : "p");
		sp_message_release(c, m);
		CU_ASSERT_STRING_EQUAL(probe_letters(key), i ? "pcpc" : "pc");
	}
	end();
}

TEST(the_first_reason_to_end_is_the_one_told)
{
	begin("hashed", "");
	say((struct probe_words){.key = 7, .action = PROBE_CLOSE, .verdict = SP_END});
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(last_call()->serial, SP_END_CLOSED);
	CU_ASSERT_STRING_EQUAL(probe_letters(7), "hpc");
	end();
}

TEST(an_idle_message_completes_by_timeout_and_a_busy_one_does_not)
{
	unsigned late = 0;

	begin("hashed", "idle=100us");
	say((struct probe_words){.key = 7});
	say((struct probe_words){.key = 8});
	dut_settle(&dut, 0);
	for (unsigned i = 1; i <= 20; i++) { /* key 8 hears something every 50 us */
		struct probe_words w = {.magic = PROBE_MAGIC, .key = 8, .serial = i};
		struct frame f;

		dut_roce(&f, FRAME_IP4, QP, 0, &w, sizeof(w));
		dut_feed_bytes(&dut.port, 0, i * 50 * SP_US, f.bytes, f.len);
	}
	dut_run(&dut, 0, SP_MS);
	CU_ASSERT_STRING_EQUAL(probe_letters(7), "hpc");
	CU_ASSERT_STRING_EQUAL(probe_letters(8), "hppppppppppppppppppppp");
	for (unsigned i = 0; i < probe_log.n; i++)
		if (probe_log.call[i].what == 'c') {
			CU_ASSERT_EQUAL(probe_log.call[i].serial, SP_END_TIMEOUT);
			CU_ASSERT(probe_log.call[i].now >= 100 * SP_US);
			CU_ASSERT(probe_log.call[i].now <= 130 * SP_US);
			late++;
		}
	CU_ASSERT_EQUAL(late, 1);
	/* Nothing left to wait for once the last one is gone. */
	CU_ASSERT(dut_run(&dut, SP_MS, SP_SEC) < SP_MS + 130 * SP_US);
	CU_ASSERT_EQUAL(probe_check_order(true), 2);
	CU_ASSERT_EQUAL(sp_nic_next_deadline(dut.nic, 0), SP_NEVER);
	end();
}

TEST(the_configurations_timeout_goes_before_the_handlers)
{
	begin("hashed", "idle=1s;message-timeout=10us");
	say((struct probe_words){.key = 7});
	dut_settle(&dut, 0);
	dut_run(&dut, 0, 20 * SP_US);
	CU_ASSERT_STRING_EQUAL(probe_letters(7), "hpc");
	end();
}

TEST(messages_of_a_context_that_goes_complete_as_detached)
{
	uint32_t id = begin("hashed", "");

	say((struct probe_words){.key = 7});
	say((struct probe_words){.key = 8});
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, id), 0);
	CU_ASSERT_STRING_EQUAL(probe_letters(SP_NO_MESSAGE), "ahphpccd");
	for (unsigned i = 0; i < probe_log.n; i++)
		CU_ASSERT(probe_log.call[i].what != 'c' || probe_log.call[i].serial == SP_END_DETACH);
	CU_ASSERT_EQUAL(probe_check_order(true), 2);
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, id), -ENOENT);
	end();
}

TEST(state_is_zero_before_every_header)
{
	begin("hashed", "messages=1"); /* one entry: its state is used again and again */
	for (unsigned i = 0; i < 50; i++)
		say((struct probe_words){.key = i, .verdict = SP_END});
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(probe_check_order(true), 50); /* also checks that no header saw a dirty state */
	end();
}

TEST(a_header_that_refuses_leaves_no_message)
{
	uint32_t id = begin("hashed", "messages=2");

	for (unsigned i = 0; i < 10; i++) /* more than fit, were they kept */
		say((struct probe_words){.key = i, .header = SP_DROP(1)});
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "probe-one"), 10);
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "packets"), 0);
	CU_ASSERT_STRING_EQUAL(probe_letters(SP_NO_MESSAGE), "ahhhhhhhhhh");
	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_CLOSE, 3), -ENOENT);
	say((struct probe_words){.key = 3});
	say((struct probe_words){.key = 4});
	dut_settle(&dut, 2);
	CU_ASSERT_STRING_EQUAL(probe_letters(3), "hhp");
	CU_ASSERT_STRING_EQUAL(probe_letters(4), "hhp");
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "message-table-full"), 0);
	end();
}

TEST(a_refused_packet_does_not_speak_for_those_behind_it)
{
	begin("hashed", "");
	say((struct probe_words){.key = 7, .serial = 1, .header = SP_DROP(0)});
	say((struct probe_words){.key = 7, .serial = 2});
	say((struct probe_words){.key = 7, .serial = 3});
	dut_settle(&dut, 1);
	CU_ASSERT_STRING_EQUAL(probe_letters(7), "hhpp");
	CU_ASSERT_EQUAL(probe_log.call[2].serial, 2);
	end();
}

TEST(header_verdicts_that_are_none_count_as_handler_errors)
{
	begin("hashed", "");
	say((struct probe_words){.key = 1, .header = SP_END});
	say((struct probe_words){.key = 2, .header = SP_ERROR});
	say((struct probe_words){.key = 3, .header = SP_SENT});
	say((struct probe_words){.key = 4, .header = SP_AGAIN});
	say((struct probe_words){.key = 5, .header = SP_DROP(2)}); /* there are two reasons: 0 and 1 */
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "handler-error"), 5);
	end();
}

TEST(what_was_closed_during_its_header_completes_even_if_refused)
{
	begin("hashed", "");
	say((struct probe_words){.key = 7, .action = PROBE_CLOSE_EARLY, .header = SP_DROP(0)});
	dut_settle(&dut, 1);
	CU_ASSERT_STRING_EQUAL(probe_letters(7), "hc");
	CU_ASSERT_EQUAL(last_call()->serial, SP_END_CLOSED);
	say((struct probe_words){.key = 7});
	dut_settle(&dut, 2);
	CU_ASSERT_STRING_EQUAL(probe_letters(7), "hchp");
	end();
}

TEST(a_full_table_drops_by_name_and_has_room_again_after_an_end)
{
	uint32_t id = begin("hashed", "messages=4");

	for (unsigned i = 1; i <= 6; i++)
		say((struct probe_words){.key = i});
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "message-table-full"), 2);
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "packets"), 4);
	say((struct probe_words){.key = 2, .verdict = SP_END});
	say((struct probe_words){.key = 5});
	say((struct probe_words){.key = 6});
	dut_settle(&dut, 2);
	CU_ASSERT_STRING_EQUAL(probe_letters(2), "hppc");
	CU_ASSERT_STRING_EQUAL(probe_letters(5), "hp");
	CU_ASSERT_STRING_EQUAL(probe_letters(6), "");
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "message-table-full"), 3);
	end();
}

TEST(keys_of_one_bucket_are_kept_apart)
{
	begin("hashed", "messages=3"); /* fewer than 4 messages: one bucket */
	for (unsigned round = 0; round < 3; round++)
		for (unsigned i = 0; i < 3; i++)
			say((struct probe_words){
				.key = (uint64_t)i << (30 * i), .serial = round, .verdict = round == 2 ? SP_END : 0});
	dut_settle(&dut, 1);
	for (unsigned i = 1; i < 3; i++)
		CU_ASSERT_STRING_EQUAL(probe_letters((uint64_t)i << (30 * i)), "hpppc");
	CU_ASSERT_EQUAL(probe_check_order(true), 3);
	end();
}

TEST(a_hundred_thousand_messages_in_random_order_agree_with_a_model)
{
	enum { KEYS = 3000, LIMIT = 2048, STEPS = 400000 };
	static uint8_t open[KEYS];
	uint64_t seed = 1, full = 0, starts = 0, ends = 0, taken = 0;
	unsigned now_open = 0, wrong = 0;
	uint32_t id = begin("hashed", "messages=2048");

	memset(open, 0, sizeof(open));
	for (unsigned i = 0; i < STEPS;) {
		unsigned n = 1 + dut_random(&seed) % 64;
		uint64_t expect[256][2];
		unsigned expects = 0, before = probe_log.n, at;

		/* Consecutive packets of one key make a run: the model is told what a run does, so no key twice here.
		 */
		for (unsigned k = 0; k < n && i < STEPS; k++, i++) {
			static uint64_t last = KEYS;
			uint64_t key = dut_random(&seed) % KEYS;
			bool stop = dut_random(&seed) % 3 == 0;

			if (key == last)
				continue;
			last = key;
			say((struct probe_words){.key = key * 0x100000001ull, .verdict = stop ? SP_END : SP_DONE});
			if (!open[key] && now_open == LIMIT) {
				full++;
				continue;
			}
			taken++;
			if (!open[key]) {
				open[key] = 1;
				now_open++;
				starts++;
				expect[expects][0] = 'h';
				expect[expects++][1] = key;
			}
			expect[expects][0] = 'p';
			expect[expects++][1] = key;
			if (stop) {
				open[key] = 0;
				now_open--;
				ends++;
				expect[expects][0] = 'c';
				expect[expects++][1] = key;
			}
		}
		dut_settle(&dut, i);
		at = before;
		for (unsigned k = 0; k < expects; k++, at++)
			wrong += at >= probe_log.n || (uint64_t)probe_log.call[at].what != expect[k][0] ||
				 probe_log.call[at].key != expect[k][1] * 0x100000001ull;
		wrong += at != probe_log.n;
		if (wrong)
			break;
	}
	CU_ASSERT_EQUAL(wrong, 0);
	CU_ASSERT(starts > 100000);
	CU_ASSERT(ends > 100000);
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "message-table-full"), full);
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "packets"), taken);
	CU_ASSERT_EQUAL(probe_check_order(false), starts);
	end();
}

TEST(a_table_fills_to_its_last_entry)
{
	enum { LIMIT = 60000 };
	uint64_t full;

	begin("hashed", "messages=60000");
	for (unsigned i = 0; i < LIMIT + 100; i++) {
		say((struct probe_words){.key = i * 0x9E3779B97F4A7C15ull});
		if (i % 1024 == 0)
			dut_settle(&dut, i);
	}
	dut_settle(&dut, LIMIT);
	full = sp_nic_dropped(dut.nic, "message-table-full");
	CU_ASSERT_EQUAL(full, 100); /* a bucket that overflows before the table does would add to it */
	end();
}

/* ---- two workers, one of them in header(): header() itself polls the other one ---- */

static void poll_the_other(void)
{
	unsigned rounds = 0;

	while (sp_nic_poll(dut.nic, 1, 5) && ++rounds < 20)
		;
	CU_ASSERT_EQUAL(sp_nic_next_deadline(dut.nic, 1), 5); /* what waits is looked at again at once */
}

static uint32_t with_two_workers(unsigned packets)
{
	struct probe_words w = {.magic = PROBE_MAGIC, .key = 7};
	struct frame f;
	uint32_t id;

	probe_log_clear();
	dut_start(&dut, 2);
	id = dut_context(&dut, "c", "hashed", "qp=64");
	probe_log.in_header = poll_the_other;
	say(w); /* to worker 0 */
	for (w.serial = 1; w.serial <= packets; w.serial++) {
		dut_roce(&f, FRAME_IP4, QP, 0, &w, sizeof(w));
		dut_feed_bytes(&dut.port, 1, 0, f.bytes, f.len);
	}
	sp_nic_poll(dut.nic, 0, 5);
	return id;
}

TEST(packets_wait_while_another_worker_is_in_header)
{
	uint32_t id = with_two_workers(3);

	CU_ASSERT_STRING_EQUAL(probe_letters(7), "hp");
	dut_settle(&dut, 6);
	CU_ASSERT_STRING_EQUAL(probe_letters(7), "hpppp");
	for (unsigned i = 1; i < probe_log.n; i++) {
		CU_ASSERT_EQUAL(probe_log.call[i].worker, probe_log.call[i].serial != 0);
		CU_ASSERT(i < 3 || probe_log.call[i].serial == i - 2); /* in order of arrival */
	}
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "packets"), 4);
	CU_ASSERT_EQUAL(sp_nic_next_deadline(dut.nic, 1), SP_NEVER);
	end();
}

TEST(of_those_that_wait_only_so_many_have_a_place)
{
	uint32_t id = with_two_workers(SP_PARKED + 10);

	dut_settle(&dut, 6);
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "packets"), SP_PARKED + 1);
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "header-busy"), 10);
	end();
}

TEST(what_waits_for_a_context_that_goes_is_dropped_as_context_closed)
{
	uint32_t id = with_two_workers(5);

	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, id), 0);
	dut_settle(&dut, 6);
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "context-closed"), 5);
	CU_ASSERT_STRING_EQUAL(probe_letters(7), "hpc");
	end();
}

/* ---- slots ---- */

#define KEY(slot, tag) SP_SLOT_KEY(slot, tag)

TEST(a_slot_that_is_not_open_sends_packets_to_miss)
{
	uint32_t id = begin("slots", "messages=4");

	say((struct probe_words){.key = KEY(1, 0), .miss = SP_DROP(0)});
	say((struct probe_words){.key = KEY(4, 0), .miss = SP_DROP(1)}); /* beyond the last */
	say((struct probe_words){.key = KEY(0xFFFFFFFF, 0x7FFFFFFF), .miss = SP_DONE});
	dut_settle(&dut, 1);
	CU_ASSERT_STRING_EQUAL(probe_letters(SP_NO_MESSAGE), "ammm");
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "probe-zero"), 1);
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "probe-one"), 1);
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "packets"), 1);
	end();
}

TEST(without_miss_such_packets_are_dropped_as_no_message)
{
	begin("slots-plain", "messages=4");
	say((struct probe_words){.key = KEY(1, 0)});
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "no-message"), 1);
	end();
}

TEST(an_open_slot_takes_packets_of_its_tag_and_no_other)
{
	uint32_t id = begin("slots", "messages=4");

	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_OPEN, KEY(1, 5)), 0);
	say((struct probe_words){.key = KEY(1, 5)});
	say((struct probe_words){.key = KEY(1, 4), .miss = SP_DROP(0)});
	say((struct probe_words){.key = KEY(1, 5), .verdict = SP_END});
	dut_settle(&dut, 1);
	say((struct probe_words){.key = KEY(1, 5), .miss = SP_DROP(1)});
	dut_settle(&dut, 2);
	CU_ASSERT_STRING_EQUAL(probe_letters(KEY(1, 5)), "hppcm");
	CU_ASSERT_STRING_EQUAL(probe_letters(KEY(1, 4)), "m");
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "packets"), 2);
	end();
}

TEST(a_slot_opens_once_until_it_has_ended)
{
	uint32_t id = begin("slots", "messages=4");

	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_OPEN, KEY(4, 0)), -EINVAL);
	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_OPEN, KEY(3, 0x80000000u)), -EINVAL);
	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_OPEN, KEY(3, 1)), 0);
	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_OPEN, KEY(3, 1)), -EEXIST);
	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_OPEN, KEY(3, 2)), -EEXIST);
	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_CLOSE, KEY(3, 2)), -ENOENT);
	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_CLOSE, KEY(3, 1)), 0);
	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_OPEN, KEY(3, 2)), 0);
	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_CLOSE, KEY(9, 2)), -ENOENT);
	end();
}

TEST(a_message_without_a_packet_completes_with_zeroed_state)
{
	uint32_t id = begin("slots", "messages=1");

	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_OPEN, KEY(0, 1)), 0);
	say((struct probe_words){.key = KEY(0, 1), .verdict = SP_END}); /* leaves 0xA5 in the state */
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_OPEN, KEY(0, 2)), 0);
	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_CLOSE, KEY(0, 2)), 0);
	CU_ASSERT_STRING_EQUAL(probe_letters(KEY(0, 2)), "c");
	CU_ASSERT_EQUAL(last_call()->serial, SP_END_CLOSED);
	CU_ASSERT(last_call()->dirty); /* is not what the header of the message before has left */
	end();
}

TEST(miss_may_open_the_message_and_look_again)
{
	uint32_t id = begin("slots", "messages=4");

	say((struct probe_words){.key = KEY(2, 9), .miss = SP_AGAIN});
	dut_settle(&dut, 1);
	CU_ASSERT_STRING_EQUAL(probe_letters(KEY(2, 9)), "mhp");
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "packets"), 1);
	/* Another tag: the old message goes, the new one comes, in one call. */
	say((struct probe_words){.key = KEY(2, 8), .miss = SP_AGAIN, .action = PROBE_CLOSE_MISS});
	dut_settle(&dut, 2);
	CU_ASSERT_STRING_EQUAL(probe_letters(SP_NO_MESSAGE), "amhpmchp");
	CU_ASSERT_EQUAL(probe_check_order(false), 2);
	end();
}

TEST(looking_again_in_vain_ends_as_a_handler_error)
{
	begin("slots", "messages=4");
	say((struct probe_words){.key = KEY(4, 0), .miss = SP_AGAIN}); /* cannot be opened */
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "handler-error"), 1);
	CU_ASSERT(probe_log.n <= 1 + 3);
	end();
}

TEST(a_slot_is_in_use_until_completion_has_returned)
{
	uint32_t id = begin("slots", "messages=4");

	probe_log.reopen = true;
	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_OPEN, KEY(0, 1)), 0);
	say((struct probe_words){.key = KEY(0, 1), .verdict = SP_END});
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(probe_log.reopened, -EEXIST);
	probe_log.reopen = false;
	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_OPEN, KEY(0, 2)), 0);
	say((struct probe_words){.key = KEY(0, 1), .miss = SP_DROP(0)});
	say((struct probe_words){.key = KEY(0, 2)});
	dut_settle(&dut, 2);
	CU_ASSERT_STRING_EQUAL(probe_letters(KEY(0, 1)), "hpcm");
	CU_ASSERT_STRING_EQUAL(probe_letters(KEY(0, 2)), "hp");
	end();
}

TEST(a_refused_slot_stays_open_for_the_next_packet)
{
	uint32_t id = begin("slots", "messages=4");

	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_OPEN, KEY(0, 1)), 0);
	say((struct probe_words){.key = KEY(0, 1), .header = SP_DROP(0)});
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_OPEN, KEY(0, 1)), -EEXIST);
	say((struct probe_words){.key = KEY(0, 1)});
	dut_settle(&dut, 2);
	CU_ASSERT_STRING_EQUAL(probe_letters(KEY(0, 1)), "hhp");
	CU_ASSERT(!probe_log.call[2].dirty); /* the second header found its state zeroed again */
	end();
}

TEST(posted_slots_do_not_time_out_and_cost_no_polls)
{
	uint32_t id = begin("slots", "messages=4;idle=10us");

	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_OPEN, KEY(0, 1)), 0);
	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_OPEN, KEY(1, 1)), 0);
	dut_settle(&dut, SP_MS);
	CU_ASSERT_EQUAL(sp_nic_next_deadline(dut.nic, 0), SP_NEVER);
	say((struct probe_words){.key = KEY(0, 1)});
	dut_settle(&dut, 2 * SP_MS);
	dut_run(&dut, 2 * SP_MS, 3 * SP_MS);
	CU_ASSERT_STRING_EQUAL(probe_letters(KEY(0, 1)), "hpc");
	CU_ASSERT_EQUAL(last_call()->serial, SP_END_TIMEOUT);
	CU_ASSERT_STRING_EQUAL(probe_letters(KEY(1, 1)), "");
	end();
}

TEST(thousands_of_slots_in_random_order_agree_with_a_model)
{
	enum { SLOTS = 64, STEPS = 100000 };
	struct {
		bool open;
		uint32_t tag;
	} model[SLOTS] = {0};
	uint64_t seed = 2, misses = 0, taken = 0;
	uint32_t id = begin("slots", "messages=64");
	unsigned wrong = 0;

	for (unsigned i = 0; i < STEPS && !wrong; i++) {
		unsigned s = dut_random(&seed) % SLOTS, what = dut_random(&seed) % 8;
		uint32_t tag = model[s].tag + (dut_random(&seed) % 4 == 0);

		if (what == 0) {
			wrong += dut_call(&dut, id, PROBE_CMD_OPEN, KEY(s, tag)) != (model[s].open ? -EEXIST : 0);
			if (!model[s].open)
				model[s].tag = tag;
			model[s].open = true;
		} else if (what == 1) {
			bool is = model[s].open && model[s].tag == tag;

			wrong += dut_call(&dut, id, PROBE_CMD_CLOSE, KEY(s, tag)) != (is ? 0 : -ENOENT);
			if (is)
				model[s].open = false;
		} else {
			bool is = model[s].open && model[s].tag == tag, stop = what == 2;

			say((struct probe_words){
				.key = KEY(s, tag), .verdict = stop ? SP_END : SP_DONE, .miss = SP_DROP(0)});
			dut_settle(&dut, i);
			taken += is;
			misses += !is;
			wrong += dut_counter(&dut, id, "packets") != taken ||
				 dut_counter(&dut, id, "probe-zero") != misses;
			if (is && stop)
				model[s].open = false;
		}
	}
	CU_ASSERT_EQUAL(wrong, 0);
	CU_ASSERT(taken > 10000);
	CU_ASSERT(misses > 10000);
	end();
}
