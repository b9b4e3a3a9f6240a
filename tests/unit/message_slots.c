/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages in slots: their tags, and packets that find no open message. */
#include "../lib/message_nic.h"

/* ---- slots ---- */

#define KEY(slot, tag) SP_SLOT_KEY(slot, tag)

TEST(a_slot_that_is_not_open_sends_packets_to_miss)
{
	uint32_t id = message_begin("slots", "messages=4");

	message_say((struct probe_words){.key = KEY(1, 0), .miss = SP_DROP(0)});
	message_say((struct probe_words){.key = KEY(4, 0), .miss = SP_DROP(1)}); /* beyond the last */
	message_say((struct probe_words){.key = KEY(0xFFFFFFFF, 0x7FFFFFFF), .miss = SP_DONE});
	dut_settle(&dut, 1);
	CU_ASSERT_STRING_EQUAL(probe_letters(SP_NO_MESSAGE), "ammm");
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "probe-zero"), 1);
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "probe-one"), 1);
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "packets"), 1);
	message_stop();
}

TEST(without_miss_such_packets_are_dropped_as_no_message)
{
	message_begin("slots-plain", "messages=4");
	message_say((struct probe_words){.key = KEY(1, 0)});
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "no-message"), 1);
	message_stop();
}

TEST(an_open_slot_takes_packets_of_its_tag_and_no_other)
{
	uint32_t id = message_begin("slots", "messages=4");

	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_OPEN, KEY(1, 5)), 0);
	message_say((struct probe_words){.key = KEY(1, 5)});
	message_say((struct probe_words){.key = KEY(1, 4), .miss = SP_DROP(0)});
	message_say((struct probe_words){.key = KEY(1, 5), .verdict = SP_END});
	dut_settle(&dut, 1);
	message_say((struct probe_words){.key = KEY(1, 5), .miss = SP_DROP(1)});
	dut_settle(&dut, 2);
	CU_ASSERT_STRING_EQUAL(probe_letters(KEY(1, 5)), "hppcm");
	CU_ASSERT_STRING_EQUAL(probe_letters(KEY(1, 4)), "m");
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "packets"), 2);
	message_stop();
}

TEST(a_slot_opens_once_until_it_has_ended)
{
	uint32_t id = message_begin("slots", "messages=4");

	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_OPEN, KEY(4, 0)), -EINVAL);
	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_OPEN, KEY(3, 0x80000000u)), -EINVAL);
	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_OPEN, KEY(3, 1)), 0);
	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_OPEN, KEY(3, 1)), -EEXIST);
	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_OPEN, KEY(3, 2)), -EEXIST);
	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_CLOSE, KEY(3, 2)), -ENOENT);
	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_CLOSE, KEY(3, 1)), 0);
	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_OPEN, KEY(3, 2)), 0);
	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_CLOSE, KEY(9, 2)), -ENOENT);
	message_stop();
}

TEST(a_message_without_a_packet_completes_with_zeroed_state)
{
	uint32_t id = message_begin("slots", "messages=1");

	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_OPEN, KEY(0, 1)), 0);
	message_say((struct probe_words){.key = KEY(0, 1), .verdict = SP_END}); /* leaves 0xA5 in the state */
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_OPEN, KEY(0, 2)), 0);
	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_CLOSE, KEY(0, 2)), 0);
	CU_ASSERT_STRING_EQUAL(probe_letters(KEY(0, 2)), "c");
	CU_ASSERT_EQUAL(message_last()->serial, SP_END_CLOSED);
	CU_ASSERT(message_last()->dirty); /* is not what the header of the message before has left */
	message_stop();
}

TEST(miss_may_open_the_message_and_look_again)
{
	uint32_t id = message_begin("slots", "messages=4");

	message_say((struct probe_words){.key = KEY(2, 9), .miss = SP_AGAIN});
	dut_settle(&dut, 1);
	CU_ASSERT_STRING_EQUAL(probe_letters(KEY(2, 9)), "mhp");
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "packets"), 1);
	/* Another tag: the old message goes, the new one comes, in one call. */
	message_say((struct probe_words){.key = KEY(2, 8), .miss = SP_AGAIN, .action = PROBE_CLOSE_MISS});
	dut_settle(&dut, 2);
	CU_ASSERT_STRING_EQUAL(probe_letters(SP_NO_MESSAGE), "amhpmchp");
	CU_ASSERT_EQUAL(probe_check_order(false), 2);
	message_stop();
}

TEST(looking_again_in_vain_ends_as_a_handler_error)
{
	message_begin("slots", "messages=4");
	message_say((struct probe_words){.key = KEY(4, 0), .miss = SP_AGAIN}); /* cannot be opened */
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "handler-error"), 1);
	CU_ASSERT(probe_log.n <= 1 + 3);
	message_stop();
}

TEST(a_slot_is_in_use_until_completion_has_returned)
{
	uint32_t id = message_begin("slots", "messages=4");

	probe_log.reopen = true;
	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_OPEN, KEY(0, 1)), 0);
	message_say((struct probe_words){.key = KEY(0, 1), .verdict = SP_END});
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(probe_log.reopened, -EEXIST);
	probe_log.reopen = false;
	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_OPEN, KEY(0, 2)), 0);
	message_say((struct probe_words){.key = KEY(0, 1), .miss = SP_DROP(0)});
	message_say((struct probe_words){.key = KEY(0, 2)});
	dut_settle(&dut, 2);
	CU_ASSERT_STRING_EQUAL(probe_letters(KEY(0, 1)), "hpcm");
	CU_ASSERT_STRING_EQUAL(probe_letters(KEY(0, 2)), "hp");
	message_stop();
}

TEST(a_refused_slot_stays_open_for_the_next_packet)
{
	uint32_t id = message_begin("slots", "messages=4");

	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_OPEN, KEY(0, 1)), 0);
	message_say((struct probe_words){.key = KEY(0, 1), .header = SP_DROP(0)});
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_OPEN, KEY(0, 1)), -EEXIST);
	message_say((struct probe_words){.key = KEY(0, 1)});
	dut_settle(&dut, 2);
	CU_ASSERT_STRING_EQUAL(probe_letters(KEY(0, 1)), "hhp");
	CU_ASSERT(!probe_log.call[2].dirty); /* the second header found its state zeroed again */
	message_stop();
}

TEST(posted_slots_do_not_time_out_and_cost_no_polls)
{
	uint32_t id = message_begin("slots", "messages=4;idle=10us");

	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_OPEN, KEY(0, 1)), 0);
	CU_ASSERT_EQUAL(dut_call(&dut, id, PROBE_CMD_OPEN, KEY(1, 1)), 0);
	dut_settle(&dut, SP_MS);
	CU_ASSERT_EQUAL(sp_nic_next_deadline(dut.nic, 0), SP_NEVER);
	message_say((struct probe_words){.key = KEY(0, 1)});
	dut_settle(&dut, 2 * SP_MS);
	dut_run(&dut, 2 * SP_MS, 3 * SP_MS);
	CU_ASSERT_STRING_EQUAL(probe_letters(KEY(0, 1)), "hpc");
	CU_ASSERT_EQUAL(message_last()->serial, SP_END_TIMEOUT);
	CU_ASSERT_STRING_EQUAL(probe_letters(KEY(1, 1)), "");
	message_stop();
}

TEST(thousands_of_slots_in_random_order_agree_with_a_model)
{
	enum { SLOTS = 64, STEPS = 100000 };
	struct {
		bool open;
		uint32_t tag;
	} model[SLOTS] = {0};
	uint64_t seed = 2, misses = 0, taken = 0;
	uint32_t id = message_begin("slots", "messages=64");
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

			message_say((struct probe_words){
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
	message_stop();
}
