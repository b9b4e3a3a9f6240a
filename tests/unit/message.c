/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages: header once and first, payload, completion once and last, however a message begins and ends. */
#include "../lib/message_nic.h"

static const struct sp_handler headless = {SP_HANDLER_HEAD,	     .name = "headless",
					   .params = probe_params,   .drops = probe_drops,
					   .msg_size = PROBE_STATE,  .messages = SP_MESSAGES_SLOTS,
					   .attach = probe_attach,   .classify = probe_classify,
					   .payload = probe_payload, .completion = probe_completion};

SP_HANDLER(headless)

/* ---- hashed ---- */

TEST(header_comes_first_and_completion_last_when_a_verdict_ends_the_message)
{
	message_begin("hashed", "");
	message_say((struct probe_words){.key = 7, .serial = 1});
	dut_settle(&dut, 10);
	message_say((struct probe_words){.key = 7, .serial = 2});
	dut_settle(&dut, 20);
	message_say((struct probe_words){.key = 7, .serial = 3, .verdict = SP_END});
	dut_settle(&dut, 30);
	CU_ASSERT_STRING_EQUAL(probe_letters(7), "hpppc");
	CU_ASSERT_EQUAL(message_last()->serial, SP_END_VERDICT);
	CU_ASSERT_EQUAL(message_last()->first, 10);
	CU_ASSERT_EQUAL(message_last()->last, 30);
	CU_ASSERT_EQUAL(probe_check_order(true), 1);
	message_stop();
}

TEST(packets_after_the_end_in_one_run_are_still_of_the_message)
{
	message_begin("hashed-burst", "");
	message_say((struct probe_words){.key = 7, .verdict = SP_END});
	message_say((struct probe_words){.key = 7});
	message_say((struct probe_words){.key = 7});
	dut_settle(&dut, 1);
	CU_ASSERT_STRING_EQUAL(probe_letters(SP_NO_MESSAGE), "ahbpppc");
	message_say((struct probe_words){.key = 7});
	dut_settle(&dut, 2);
	CU_ASSERT_STRING_EQUAL(probe_letters(7), "hpppchp");
	message_stop();
}

TEST(a_message_closed_by_the_host_completes_as_closed)
{
	uint32_t id = message_begin("hashed", "");

	message_say((struct probe_words){.key = 7});
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_CLOSE, 8), -ENOENT);
	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_CLOSE, 7), 0);
	CU_ASSERT_STRING_EQUAL(probe_letters(7), "hpc");
	CU_ASSERT_EQUAL(message_last()->serial, SP_END_CLOSED);
	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_CLOSE, 7), -ENOENT);
	CU_ASSERT_EQUAL(probe_check_order(true), 1);
	message_stop();
}

TEST(a_message_closed_from_inside_completes_after_its_packets)
{
	message_begin("hashed", "");
	message_say((struct probe_words){.key = 7, .action = PROBE_CLOSE});
	message_say((struct probe_words){.key = 7});
	message_say((struct probe_words){.key = 8, .action = PROBE_CLOSE_EARLY});
	dut_settle(&dut, 1);
	CU_ASSERT_STRING_EQUAL(probe_letters(7), "hppc");
	CU_ASSERT_STRING_EQUAL(probe_letters(8), "hpc");
	CU_ASSERT_EQUAL(message_last()->serial, SP_END_CLOSED);
	CU_ASSERT_EQUAL(probe_check_order(true), 2);
	message_stop();
}

/* What work() needs: a message that cannot end under it. */
TEST(a_message_that_is_held_completes_when_it_is_released)
{
	static const struct {
		const char *handler;
		uint64_t key;
	} kind[] = {{"hashed", 7}, {"slots", SP_SLOT_KEY(3, 9)}};

	for (unsigned i = 0; i < 2; i++) {
		uint32_t id = message_begin(kind[i].handler, "");
		struct sp_ctx *c = &sp_context_by_id(dut.nic, id)->view[0]->pub;
		const uint64_t key = kind[i].key;

		CU_ASSERT_PTR_NULL(sp_message_hold(c, key));
		if (i) {
			CU_ASSERT_EQUAL(sp_message_open(c, key), 0);
			CU_ASSERT_PTR_NULL(sp_message_hold(c, key)); /* nothing has come yet */
			CU_ASSERT_PTR_NULL(sp_message_hold(c, SP_SLOT_KEY(3, 8)));
			CU_ASSERT_PTR_NULL(sp_message_hold(c, SP_SLOT_KEY(UINT32_MAX, 9)));
		}
		message_say((struct probe_words){.key = key});
		dut_settle(&dut, 1);
		struct sp_message *m = sp_message_hold(c, key);
		CU_ASSERT_PTR_NOT_NULL_FATAL(m);
		CU_ASSERT_EQUAL(m->key, key);
		CU_ASSERT_EQUAL(sp_message_close(c, key), 0);
		CU_ASSERT_STRING_EQUAL(probe_letters(key), "hp");
		CU_ASSERT_PTR_NULL(sp_message_hold(c, key)); /* it is ending */
		sp_message_release(c, m);
		CU_ASSERT_STRING_EQUAL(probe_letters(key), "hpc");
		CU_ASSERT_PTR_NULL(sp_message_hold(c, key));
		CU_ASSERT_EQUAL(probe_check_order(true), 1);
		message_stop();
	}
}

/* ... and one of which nothing has come: without header() there is nothing to wait for. */
TEST(a_slot_without_header_can_be_held_before_anything_has_come)
{
	uint32_t id = message_begin("headless", "");
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
		message_say((struct probe_words){.key = key});
		dut_settle(&dut, 1);
		for (unsigned b = 0; b < PROBE_STATE; b++) /* the first packet does not begin it anew */
			CU_ASSERT_EQUAL(((uint8_t *)m->state)[b], 0xA5);
		CU_ASSERT_EQUAL(sp_message_close(c, key), 0);
		CU_ASSERT_PTR_NULL(sp_message_hold(c, key));
		CU_ASSERT_STRING_EQUAL(probe_letters(key), i ? "pcp" : "p");
		sp_message_release(c, m);
		CU_ASSERT_STRING_EQUAL(probe_letters(key), i ? "pcpc" : "pc");
	}
	message_stop();
}

TEST(the_first_reason_to_end_is_the_one_told)
{
	message_begin("hashed", "");
	message_say((struct probe_words){.key = 7, .action = PROBE_CLOSE, .verdict = SP_END});
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(message_last()->serial, SP_END_CLOSED);
	CU_ASSERT_STRING_EQUAL(probe_letters(7), "hpc");
	message_stop();
}

TEST(an_idle_message_completes_by_timeout_and_a_busy_one_does_not)
{
	unsigned late = 0;

	message_begin("hashed", "idle=100us");
	message_say((struct probe_words){.key = 7});
	message_say((struct probe_words){.key = 8});
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
	message_stop();
}

TEST(the_configurations_timeout_goes_before_the_handlers)
{
	message_begin("hashed", "idle=1s;message-timeout=10us");
	message_say((struct probe_words){.key = 7});
	dut_settle(&dut, 0);
	dut_run(&dut, 0, 20 * SP_US);
	CU_ASSERT_STRING_EQUAL(probe_letters(7), "hpc");
	message_stop();
}

TEST(messages_of_a_context_that_goes_complete_as_detached)
{
	uint32_t id = message_begin("hashed", "");

	message_say((struct probe_words){.key = 7});
	message_say((struct probe_words){.key = 8});
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, id), 0);
	CU_ASSERT_STRING_EQUAL(probe_letters(SP_NO_MESSAGE), "ahphpccd");
	for (unsigned i = 0; i < probe_log.n; i++)
		CU_ASSERT(probe_log.call[i].what != 'c' || probe_log.call[i].serial == SP_END_DETACH);
	CU_ASSERT_EQUAL(probe_check_order(true), 2);
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, id), -ENOENT);
	message_stop();
}

TEST(state_is_zero_before_every_header)
{
	message_begin("hashed", "messages=1"); /* one entry: its state is used again and again */
	for (unsigned i = 0; i < 50; i++)
		message_say((struct probe_words){.key = i, .verdict = SP_END});
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(probe_check_order(true), 50); /* also checks that no header saw a dirty state */
	message_stop();
}

TEST(a_header_that_refuses_leaves_no_message)
{
	uint32_t id = message_begin("hashed", "messages=2");

	for (unsigned i = 0; i < 10; i++) /* more than fit, were they kept */
		message_say((struct probe_words){.key = i, .header = SP_DROP(1)});
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "probe-one"), 10);
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "packets"), 0);
	CU_ASSERT_STRING_EQUAL(probe_letters(SP_NO_MESSAGE), "ahhhhhhhhhh");
	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_CLOSE, 3), -ENOENT);
	message_say((struct probe_words){.key = 3});
	message_say((struct probe_words){.key = 4});
	dut_settle(&dut, 2);
	CU_ASSERT_STRING_EQUAL(probe_letters(3), "hhp");
	CU_ASSERT_STRING_EQUAL(probe_letters(4), "hhp");
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "message-table-full"), 0);
	message_stop();
}

TEST(a_refused_packet_does_not_speak_for_those_behind_it)
{
	message_begin("hashed", "");
	message_say((struct probe_words){.key = 7, .serial = 1, .header = SP_DROP(0)});
	message_say((struct probe_words){.key = 7, .serial = 2});
	message_say((struct probe_words){.key = 7, .serial = 3});
	dut_settle(&dut, 1);
	CU_ASSERT_STRING_EQUAL(probe_letters(7), "hhpp");
	CU_ASSERT_EQUAL(probe_log.call[2].serial, 2);
	message_stop();
}

TEST(invalid_header_verdicts_count_as_handler_errors)
{
	message_begin("hashed", "");
	message_say((struct probe_words){.key = 1, .header = SP_END});
	message_say((struct probe_words){.key = 2, .header = SP_ERROR});
	message_say((struct probe_words){.key = 3, .header = SP_SENT});
	message_say((struct probe_words){.key = 4, .header = SP_AGAIN});
	message_say((struct probe_words){.key = 5, .header = SP_DROP(2)}); /* there are two reasons: 0 and 1 */
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "handler-error"), 5);
	message_stop();
}

TEST(a_message_closed_in_its_header_completes_even_if_refused)
{
	message_begin("hashed", "");
	message_say((struct probe_words){.key = 7, .action = PROBE_CLOSE_EARLY, .header = SP_DROP(0)});
	dut_settle(&dut, 1);
	CU_ASSERT_STRING_EQUAL(probe_letters(7), "hc");
	CU_ASSERT_EQUAL(message_last()->serial, SP_END_CLOSED);
	message_say((struct probe_words){.key = 7});
	dut_settle(&dut, 2);
	CU_ASSERT_STRING_EQUAL(probe_letters(7), "hchp");
	message_stop();
}

TEST(a_full_table_drops_by_name_and_has_room_again_after_an_end)
{
	uint32_t id = message_begin("hashed", "messages=4");

	for (unsigned i = 1; i <= 6; i++)
		message_say((struct probe_words){.key = i});
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "message-table-full"), 2);
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "packets"), 4);
	message_say((struct probe_words){.key = 2, .verdict = SP_END});
	message_say((struct probe_words){.key = 5});
	message_say((struct probe_words){.key = 6});
	dut_settle(&dut, 2);
	CU_ASSERT_STRING_EQUAL(probe_letters(2), "hppc");
	CU_ASSERT_STRING_EQUAL(probe_letters(5), "hp");
	CU_ASSERT_STRING_EQUAL(probe_letters(6), "");
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "message-table-full"), 3);
	message_stop();
}

TEST(keys_of_one_bucket_are_kept_apart)
{
	message_begin("hashed", "messages=3"); /* fewer than 4 messages: one bucket */
	for (unsigned round = 0; round < 3; round++)
		for (unsigned i = 0; i < 3; i++)
			message_say((struct probe_words){
				.key = (uint64_t)i << (30 * i), .serial = round, .verdict = round == 2 ? SP_END : 0});
	dut_settle(&dut, 1);
	for (unsigned i = 1; i < 3; i++)
		CU_ASSERT_STRING_EQUAL(probe_letters((uint64_t)i << (30 * i)), "hpppc");
	CU_ASSERT_EQUAL(probe_check_order(true), 3);
	message_stop();
}

TEST(a_hundred_thousand_messages_in_random_order_agree_with_a_model)
{
	enum { KEYS = 3000, LIMIT = 2048, STEPS = 400000 };
	static uint8_t open[KEYS];
	uint64_t seed = 1, full = 0, starts = 0, ends = 0, taken = 0;
	unsigned now_open = 0, wrong = 0;
	uint32_t id = message_begin("hashed", "messages=2048");

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
			message_say(
				(struct probe_words){.key = key * 0x100000001ull, .verdict = stop ? SP_END : SP_DONE});
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
	message_stop();
}

TEST(a_table_fills_to_its_last_entry)
{
	enum { LIMIT = 60000 };

	message_begin("hashed", "messages=60000");
	for (unsigned i = 0; i < LIMIT + 100; i++) {
		message_say((struct probe_words){.key = i * 0x9E3779B97F4A7C15ull});
		if (i % 1024 == 0)
			dut_settle(&dut, i);
	}
	dut_settle(&dut, LIMIT);
	uint64_t full = sp_nic_dropped(dut.nic, "message-table-full");
	CU_ASSERT_EQUAL(full, 100); /* a bucket that overflows before the table does would add to it */
	message_stop();
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

	probe_log_clear();
	dut_start(&dut, 2);
	uint32_t id = dut_context(&dut, "c", "hashed", "qp=64");
	probe_log.in_header = poll_the_other;
	message_say(w); /* to worker 0 */
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
	message_stop();
}

TEST(only_a_bounded_number_of_packets_can_wait)
{
	uint32_t id = with_two_workers(SP_PARKED + 10);

	dut_settle(&dut, 6);
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "packets"), SP_PARKED + 1);
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "header-busy"), 10);
	message_stop();
}

TEST(packets_that_wait_for_a_removed_context_are_dropped_as_context_closed)
{
	uint32_t id = with_two_workers(5);

	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, id), 0);
	dut_settle(&dut, 6);
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "context-closed"), 5);
	CU_ASSERT_STRING_EQUAL(probe_letters(7), "hpc");
	message_stop();
}
