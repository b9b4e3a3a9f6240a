/* SPDX-License-Identifier: BSD-3-Clause */
/* Implicit credit: slots move on by themselves, and each packet goes to its own message though others were lost. */
#include "../lib/sdr_alone.h"

/* ---- implicit credit ---- */
TEST(implicit_credit_moves_a_slot_on_with_its_next_generation)
{
	static const char *const setting[] = {MTU_SETTINGS, "credit", "implicit", "max-messages", "2", NULL};

	alone_attach(&alone_nic, setting, 64 * 256, 1);
	for (uint64_t k = 0; k < 20; k++)
		CU_ASSERT_EQUAL(alone_post_to(&alone_nic, k, k * 256, 256), 0);
	CU_ASSERT_EQUAL(alone_nic.opened, 2);
	for (uint64_t k = 0; k < 20; k++) {
		CU_ASSERT_EQUAL(alone_give(alone_of_message(k, 2, 4, 0)), SP_DONE);
		if (k % 3) /* every third stays incomplete: with four generations it makes way all the same */
			CU_ASSERT_EQUAL(alone_give(alone_of_message(k, 2, 4, 1)), SP_DONE);
		if (k >= 2)
			CU_ASSERT_EQUAL(alone_give(alone_of_message(k - 2, 2, 4, 1)), SP_DROP(SDR_LATE));
		CU_ASSERT(alone_filled(alone_nic.mem[BUFFER].base + k * 256, MTU, (uint8_t)(k + 1)));
		if (k % 3 == 0)
			CU_ASSERT(alone_untouched(alone_nic.mem[BUFFER].base + k * 256 + MTU, MTU));
	}
	const char *text = alone_report(&alone_nic);
	char want[64];

	for (unsigned k = 0; k < 20; k++) { /* all of them, in order, finished or not */
		snprintf(want, sizeof(want), "id=%u message=%u generation=%u length=256 packets=%u", k % 2, k,
			 k / 2 % 4, k % 3 ? 2 : 1);
		text = strstr(text, want);
		CU_ASSERT_PTR_NOT_NULL_FATAL(text);
	}
	CU_ASSERT_EQUAL(alone_give(alone_of_message(20, 2, 4, 0)),
			SP_DROP(SDR_LATE)); /* nothing is queued: generation 2 was there */
	fake_detach(&alone_nic);
}

/* ---- implicit credit, packets lost: which message is it that a packet is for? ---- */
static void attach_moving(const char *slots, const char *generations, uint64_t posts)
{
	static const char *setting[] = {MTU_SETTINGS, "credit",	     "implicit", "max-messages",
					NULL,	      "generations", NULL,	 NULL};
	const size_t n = sizeof(setting) / sizeof(*setting);

	setting[n - 4] = slots;
	setting[n - 2] = generations;
	alone_attach(&alone_nic, setting, 256 * 256, 1);
	for (uint64_t k = 0; k < posts; k++)
		CU_ASSERT_EQUAL_FATAL(alone_post_to(&alone_nic, k, k * 256, 256), 0);
}

/* Packet p of message k, with that PSN. */
static uint32_t give_psn(uint64_t k, uint32_t p, uint32_t psn)
{
	const struct sdr *s = alone_nic.c.state;
	struct packet *x = alone_of_message(k, s->slots, s->generations, p);

	x->psn = psn;
	return alone_give(x);
}

/* Two slots, four generations, messages 0 to 9 whole: each slot has its fifth open, and H is 9. PSNs count from `first`
 * on, on every QP; each of generation 0 has had 8 packets, the others 4. */
static void attach_at_nine(uint32_t first)
{
	attach_moving("2", "4", 40);
	for (uint64_t k = 0; k < 10; k++)
		for (uint32_t p = 0; p < 2; p++)
			CU_ASSERT_EQUAL_FATAL(
				give_psn(k, p, (first + (uint32_t)(k / 8 * 4 + k % 2 * 2) + p) & 0xFFFFFF), SP_DONE);
}

static bool has(uint64_t k, uint32_t p)
{
	return alone_filled(alone_nic.mem[BUFFER].base + k * 256 + p * MTU, MTU, (uint8_t)(k + 1));
}

/* What the host reads as sdr_qp_status.granted: the sender waits for nothing, and may use every receive posted. */
TEST(all_that_is_posted_counts_as_granted)
{
	const struct sp_sdr_connection *host;

	attach_moving("2", "4", 5);
	host = (const void *)(alone_nic.mem[0].base + ((struct sdr *)alone_nic.c.state)->layout.connection);
	CU_ASSERT_EQUAL(host->granted, 5);
	CU_ASSERT_EQUAL(give_psn(0, 0, 0), SP_DONE);
	CU_ASSERT_EQUAL(host->granted, 5);
	CU_ASSERT_EQUAL(alone_post_to(&alone_nic, 5, 5 * 256, 256), 0);
	CU_ASSERT_EQUAL(host->granted, 6);
	fake_detach(&alone_nic);
}

TEST(a_message_lost_whole_is_skipped_reported_and_given_back)
{
	attach_moving("2", "4", 10);
	CU_ASSERT_EQUAL(alone_nic.refs[BUFFER], 10);
	for (uint64_t k = 0; k < 10; k++)
		if (k != 2 && k != 4 && k != 5) /* two of slot 0 in a row */
			CU_ASSERT_EQUAL(give_psn(k, 0, 0), SP_DONE);
	for (uint64_t k = 0; k < 10; k++) {
		const bool lost = k == 2 || k == 4 || k == 5;
		char want[160];

		snprintf(want, sizeof(want),
			 "message=%u generation=%u length=256 packets=%u duplicates=0 late=0 chunk_bitmap=0 "
			 "complete=false",
			 (unsigned)k, (unsigned)(k / 2 % 4), !lost);
		CU_ASSERT_PTR_NOT_NULL(strstr(alone_report(&alone_nic), want));
		CU_ASSERT(lost ? alone_untouched(alone_nic.mem[BUFFER].base + k * 256, 256) : has(k, 0));
	}
	CU_ASSERT_EQUAL(alone_nic.refs[BUFFER], 2); /* 8 and 9 */
	CU_ASSERT_EQUAL(alone_nic.counters[SDR_RELEASED], 8);
	CU_ASSERT_EQUAL(give_psn(4, 1, 0), SP_DROP(SDR_LATE)); /* its turn is over, and it is 5 late: 16 is not meant */
	CU_ASSERT_PTR_NOT_NULL(
		strstr(alone_report(&alone_nic), "message=4 generation=2 length=256 packets=0 duplicates=0 late=1 "));
	fake_detach(&alone_nic);
}

/* The report keeps 64 messages here: 64 is remembered where 0 was, and 66 where 2 was. */
TEST(a_message_skipped_has_no_bitmap_of_an_older_one)
{
	char want[128];

	attach_moving("2", "4", 60);
	for (uint64_t k = 0; k < 70; k++) {
		if (k >= 4)
			CU_ASSERT_EQUAL(alone_post_to(&alone_nic, k + 56, 0, 256), 0);
		for (uint32_t p = 0; p < 2; p++)
			if (k != 2 && k != 64) /* lost whole */
				CU_ASSERT_EQUAL(give_psn(k, p, 0), SP_DONE);
		if (k < 4)
			continue;
		/* the turn of the one two before is over, if it has begun at all */
		const bool lost = k - 2 == 2 || k - 2 == 64;

		snprintf(want, sizeof(want),
			 "message=%u generation=%u length=256 packets=%u duplicates=0 late=0 chunk_bitmap=%u",
			 (unsigned)k - 2, (unsigned)(k - 2) / 2 % 4, lost ? 0 : 2, !lost);
		CU_ASSERT_PTR_NOT_NULL(strstr(alone_report(&alone_nic), want));
	}
	fake_detach(&alone_nic);
}

/* 10 comes after 11 has: of what 2 has, 9 messages ago, nothing is promised. Whatever the PSN says. */
TEST(what_is_not_beyond_the_highest_message_moves_the_slot_on)
{
	attach_at_nine(100);
	CU_ASSERT_EQUAL(give_psn(11, 0, 106), SP_DONE);
	CU_ASSERT_EQUAL(give_psn(10, 0, 100), SP_DONE);
	CU_ASSERT(has(10, 0) && has(2, 0));
	CU_ASSERT_EQUAL(alone_nic.drops[SDR_LATE], 0);
	fake_detach(&alone_nic);
}

/* The sender has 10 and 11 in flight and no more: the generation of 12, 13, 14, 15 means 4, 5, 6, 7. */
TEST(more_than_the_slots_beyond_the_highest_message_is_late)
{
	attach_at_nine(100);
	for (uint64_t k = 12; k < 16; k++) {
		char want[128];

		CU_ASSERT_EQUAL(give_psn(k, 0, 110), SP_DROP(SDR_LATE));
		snprintf(want, sizeof(want), "message=%u generation=%u length=256 packets=2 duplicates=0 late=1 ",
			 (unsigned)k - 8, (unsigned)k / 2 % 4);
		CU_ASSERT_PTR_NOT_NULL(strstr(alone_report(&alone_nic), want));
	}
	CU_ASSERT(has(8, 0) && alone_line(&alone_nic, 0)->message == 9 && alone_line(&alone_nic, 1)->message == 10);
	CU_ASSERT_EQUAL(give_psn(11, 0, 110), SP_DONE); /* late ones have not made it 12 or more; 11 does */
	CU_ASSERT_EQUAL(give_psn(12, 0, 110), SP_DONE);
	fake_detach(&alone_nic);
}

/* 10 or 2, 8 messages apart: PSNs 0 to 3 after `first` were on that QP, for all places of the circle's end. */
TEST(between_two_messages_the_psn_decides)
{
	const struct {
		uint32_t ahead; /* of the newest accepted on the QP */
		uint32_t verdict;
	} step[] = {
		{1, SP_DONE},
		{2, SP_DONE},
		{1000, SP_DONE},
		{0x7FFFFF, SP_DONE},
		{0, SP_DROP(SDR_LATE)}, /* the newest itself, again */
		{0xFFFFFF, SP_DROP(SDR_LATE)},
		{0xFFFFFD, SP_DROP(SDR_LATE)},
		{0x800001, SP_DROP(SDR_LATE)},
		{0x800000, SP_DROP(SDR_LATE)},
	};

	for (uint32_t first = 0; first < 8; first++)
		for (unsigned i = 0; i < sizeof(step) / sizeof(*step); i++) {
			const uint32_t newest = (0xFFFFFC + first + 3) & 0xFFFFFF;

			attach_at_nine(0xFFFFFC + first);
			CU_ASSERT_EQUAL(give_psn(10, 0, (newest + step[i].ahead) & 0xFFFFFF), step[i].verdict);
			CU_ASSERT_EQUAL(has(10, 0), step[i].verdict == SP_DONE);
			CU_ASSERT(has(8, 1) && has(2, 0) && has(2, 1));
			CU_ASSERT_EQUAL(give_psn(10, 1, (newest + 2000) & 0xFFFFFF), SP_DONE); /* not held up */
			fake_detach(&alone_nic);
		}
}

/* Two channels, one slot, three generations: of message 3 packets 0 and 1 came, by one QP each. What comes by their QP
 * after 4 and 5 is 6, or else the rest of 3: just that, as it was sent. */
TEST(the_rest_of_an_old_message_is_late_though_newer_than_all)
{
	static const char *const setting[] = {MTU_SETTINGS,  "credit", "implicit", "max-messages", "1", "channels", "2",
					      "generations", "3",      NULL};
	const struct {
		uint32_t packet, channel, psn;
		uint32_t verdict;
	} next[] = {
		{2, 0, 12, SP_DROP(SDR_LATE)}, {8, 0, 15, SP_DROP(SDR_LATE)}, {3, 1, 13, SP_DROP(SDR_LATE)},
		{2, 0, 13, SP_DONE},	       {4, 0, 12, SP_DONE},	      {0, 0, 12, SP_DONE},
		{0, 1, 13, SP_DONE},
	};

	for (unsigned i = 0; i < sizeof(next) / sizeof(*next); i++)
		for (uint32_t wrap = 0; wrap < 4;
		     wrap++) { /* PSNs 11, 12: the circle's end is before, between, after */
			alone_attach(&alone_nic, setting, 16 * M_BYTES, 1);
			for (uint64_t k = 0; k < 8; k++)
				CU_ASSERT_EQUAL_FATAL(alone_post_to(&alone_nic, k, k * M_BYTES, M_BYTES), 0);
			for (uint64_t k = 0; k < 6; k++)
				for (uint32_t p = 0; p < 2; p++) {
					struct packet *x = alone_packet(0, p, MTU);

					x->qp_index = (uint32_t)k % 3 * 2 + p;
					x->psn = ((k < 3 ? 5 : 11 + p) - 12 + wrap - 1) & 0xFFFFFF;
					CU_ASSERT_EQUAL_FATAL(alone_give(x), SP_DONE);
				}
			struct packet *x = alone_packet(0, next[i].packet, MTU);

			x->qp_index = next[i].channel;
			x->psn = (next[i].psn - 12 + wrap - 1) & 0xFFFFFF;
			CU_ASSERT_EQUAL(alone_give(x), next[i].verdict);
			CU_ASSERT_EQUAL(alone_line(&alone_nic, 0)->message, next[i].verdict == SP_DONE ? 7 : 6);
			fake_detach(&alone_nic);
		}

	/* Two slots: 4 and 5 had one packet each. A second one by PSN, but of the slot of 4: that is 10's. */
	attach_moving("2", "3", 12);
	for (uint64_t k = 0; k < 9; k++)
		CU_ASSERT_EQUAL(give_psn(k, 0, (uint32_t)k), SP_DONE);
	CU_ASSERT_EQUAL(give_psn(11, 1, 6), SP_DROP(SDR_LATE)); /* three beyond 8 */
	CU_ASSERT_EQUAL(give_psn(10, 1, 6), SP_DONE);
	CU_ASSERT(has(10, 1));
	fake_detach(&alone_nic);
}

TEST(psns_that_start_anew_with_each_message_or_are_all_alike_drop_nothing)
{
	for (uint32_t factor = 0; factor < 2; factor++) {
		attach_moving("2", "4", 40);
		for (uint64_t k = 0; k < 40; k++)
			for (uint32_t p = 0; p < 2; p++)
				if (k % 7 != 3) /* lost whole */
					CU_ASSERT_EQUAL(give_psn(k, p, 50 + p * factor), SP_DONE);
		CU_ASSERT_EQUAL(alone_nic.drops[SDR_LATE], 0);
		fake_detach(&alone_nic);
	}
	/* One slot: the first QP to be used again decides already, before anything is known of the PSNs. */
	attach_moving("1", "3", 20);
	for (uint64_t k = 0; k < 20; k++)
		for (uint32_t p = 0; p < 2; p++)
			CU_ASSERT_EQUAL(give_psn(k, p, p), SP_DONE);
	fake_detach(&alone_nic);
}

/* Once they were seen not to count PSNs are not asked again, though they count from there on. */
TEST(psns_that_once_misled_are_not_asked_again)
{
	attach_moving("2", "4", 40);
	for (uint64_t k = 0; k < 10; k++) /* message 1 has an older one than message 0 */
		CU_ASSERT_EQUAL(give_psn(k, 0, k == 1 ? 50 : 100 + (uint32_t)k), SP_DONE);
	CU_ASSERT_EQUAL(give_psn(10, 0, 60), SP_DONE);
	fake_detach(&alone_nic);
}

/* A packet dropped tells nothing: 9 has not been accepted, so 11 would be three beyond the highest. */
TEST(only_accepted_packets_count_for_the_choice)
{
	attach_moving("2", "4", 40);
	for (uint64_t k = 0; k < 9; k++)
		CU_ASSERT_EQUAL(give_psn(k, 0, 100 + (uint32_t)k), SP_DONE);
	struct packet *x = alone_of_message(9, 2, 4, 5); /* 256 bytes were posted */
	x->psn = 200;
	CU_ASSERT_EQUAL(alone_give(x), SP_DROP(SDR_BEYOND_END));
	CU_ASSERT_EQUAL(alone_line(&alone_nic, 1)->message, 10);
	CU_ASSERT_EQUAL(give_psn(11, 0, 110), SP_DROP(SDR_LATE));
	CU_ASSERT_EQUAL(give_psn(9, 0, 109), SP_DONE);
	CU_ASSERT_EQUAL(give_psn(11, 0, 111), SP_DONE);
	/* Nor is its PSN kept: the newest on that QP is 109. */
	CU_ASSERT_EQUAL(give_psn(13, 0, 113), SP_DONE);
	CU_ASSERT_EQUAL(give_psn(15, 0, 115), SP_DONE);
	CU_ASSERT_EQUAL(give_psn(17, 0, 109), SP_DROP(SDR_LATE));
	CU_ASSERT_EQUAL(give_psn(17, 0, 110), SP_DONE);
	fake_detach(&alone_nic);

	/* Nor do late ones of a message of which none was accepted. */
	attach_at_nine(100);
	CU_ASSERT_EQUAL(give_psn(10, 0, 110), SP_DONE);
	x = alone_of_message(11, 2, 4, 5);
	x->psn = 111;
	CU_ASSERT_EQUAL(alone_give(x), SP_DROP(SDR_BEYOND_END));
	CU_ASSERT_EQUAL(alone_complete(&alone_nic, 11), 0);
	CU_ASSERT_EQUAL(give_psn(11, 0, 111), SP_DROP(SDR_LATE));
	CU_ASSERT_EQUAL(give_psn(13, 0, 113), SP_DROP(SDR_LATE)); /* three beyond 10 */
	CU_ASSERT_EQUAL(give_psn(12, 0, 112), SP_DONE);
	CU_ASSERT_EQUAL(give_psn(13, 0, 113), SP_DONE);
	fake_detach(&alone_nic);
}

/* Receives that were taken back while they waited: not given back twice, not filled, and their packets are late. */
TEST(receives_taken_back_are_stepped_over_with_the_skipped)
{
	attach_moving("2", "4", 20);
	CU_ASSERT_EQUAL(give_psn(0, 0, 0), SP_DONE);
	for (uint64_t k = 4; k <= 12; k += 4)
		CU_ASSERT_EQUAL(alone_complete(&alone_nic, k), 0);
	CU_ASSERT_EQUAL(alone_nic.refs[BUFFER], 17);
	CU_ASSERT_EQUAL(give_psn(2, 0, 0), SP_DONE);
	CU_ASSERT_EQUAL(give_psn(4, 0, 0), SP_DROP(SDR_LATE));
	CU_ASSERT_EQUAL(give_psn(2, 1, 0), SP_DONE); /* it was the next one, so nothing was skipped or ended */
	CU_ASSERT_EQUAL(alone_nic.refs[BUFFER], 16);
	CU_ASSERT_EQUAL(give_psn(7, 0, 0), SP_DONE);
	CU_ASSERT_EQUAL(give_psn(8, 0, 0), SP_DROP(SDR_LATE)); /* skips 6 */
	CU_ASSERT_EQUAL(alone_line(&alone_nic, 0)->message, 0);
	CU_ASSERT_EQUAL(alone_line(&alone_nic, 0)->released, 9);
	CU_ASSERT_EQUAL(alone_nic.refs[BUFFER], 11); /* 9, 11, 13 to 19, 10, and 7 which is open */
	CU_ASSERT_EQUAL(give_psn(6, 0, 0), SP_DROP(SDR_LATE));
	CU_ASSERT_EQUAL(give_psn(9, 0, 0), SP_DONE);
	CU_ASSERT_EQUAL(give_psn(13, 0, 0), SP_DROP(SDR_LATE)); /* four beyond 9 */
	CU_ASSERT_EQUAL(give_psn(11, 0, 0), SP_DONE);
	CU_ASSERT_EQUAL(give_psn(13, 0, 0), SP_DONE);
	CU_ASSERT_EQUAL(give_psn(14, 0, 0), SP_DONE); /* over 10, for which nothing came, and 12 */
	CU_ASSERT(has(14, 0));
	for (uint64_t k = 4; k <= 12; k += 2)
		CU_ASSERT(alone_untouched(alone_nic.mem[BUFFER].base + k * 256, 256));
	fake_detach(&alone_nic);
}

/* Taken by the host while packets were missing: such a message need not be complete to make way. */
TEST(a_message_that_the_host_has_taken_makes_way)
{
	for (uint32_t generations = 1; generations <= 3; generations++) {
		attach_moving("1", (const char *[]){"1", "2", "3"}[generations - 1], 6);
		for (uint64_t k = 0; k < 6; k++) {
			CU_ASSERT_EQUAL(give_psn(k, 0, 0), SP_DONE);
			CU_ASSERT(has(k, 0));
			CU_ASSERT_EQUAL(alone_complete(&alone_nic, k), 0);
		}
		fake_detach(&alone_nic);
	}
}

TEST(with_two_generations_a_complete_message_makes_way_or_a_newer_psn)
{
	/* PSNs that say nothing. In the first turn of the generations nothing can be late yet. */
	attach_moving("1", "2", 4);
	CU_ASSERT_EQUAL(give_psn(0, 0, 0), SP_DONE);
	CU_ASSERT_EQUAL(give_psn(1, 0, 0), SP_DONE);
	CU_ASSERT_EQUAL(give_psn(0, 1, 0), SP_DROP(SDR_LATE)); /* 1 is not complete */
	CU_ASSERT_EQUAL(give_psn(1, 1, 0), SP_DONE);
	CU_ASSERT_EQUAL(give_psn(2, 1, 0), SP_DONE);
	CU_ASSERT(has(2, 1) && alone_untouched(alone_nic.mem[BUFFER].base + MTU, MTU));
	fake_detach(&alone_nic);

	/* PSNs that count. */
	attach_moving("1", "2", 6);
	CU_ASSERT_EQUAL(give_psn(0, 0, 10), SP_DONE);
	CU_ASSERT_EQUAL(give_psn(1, 0, 20), SP_DONE);
	CU_ASSERT_EQUAL(give_psn(2, 0, 12), SP_DONE); /* 1 is not complete */
	CU_ASSERT(has(2, 0));
	CU_ASSERT_EQUAL(give_psn(1, 0, 20), SP_DROP(SDR_LATE));
	CU_ASSERT_EQUAL(give_psn(2, 1, 13), SP_DONE); /* and now it is: that makes nothing of what is old */
	CU_ASSERT_EQUAL(give_psn(1, 0, 20), SP_DROP(SDR_LATE));
	CU_ASSERT_EQUAL(give_psn(3, 1, 23), SP_DONE);
	CU_ASSERT(has(3, 1) && alone_untouched(alone_nic.mem[BUFFER].base + 3 * 256, MTU));
	fake_detach(&alone_nic);
}

/* One generation: the next message's packets are told from this one's by completeness alone, within one burst. */
TEST(with_one_generation_a_complete_message_makes_way_at_once)
{
	static const char *const setting[] = {MTU_SETTINGS, "credit",	   "implicit", "max-messages",
					      "1",	    "generations", "1",	       NULL};
	static struct packet burst[8];
	struct sp_packet *run[8];

	alone_attach(&alone_nic, setting, 64 * 256, 1);
	for (uint64_t k = 0; k < 3; k++)
		alone_post_to(&alone_nic, k, k * 256, 256);
	for (uint32_t i = 0; i < 8; i++) { /* 3 messages of 2 packets, and 2 too many */
		burst[i] = *alone_of_message(i / 2, 1, 1, i % 2);
		run[i] = alone_build(&burst[i]);
	}
	alone_nic.h->payload_burst(&alone_nic.c, &alone_nic.message[0].m, run, 8);
	for (uint32_t k = 0; k < 3; k++)
		CU_ASSERT(alone_filled(alone_nic.mem[BUFFER].base + k * 256, 256, (uint8_t)(k + 1)));
	CU_ASSERT(alone_untouched(alone_nic.mem[BUFFER].base + 3 * 256, 1000));
	CU_ASSERT_EQUAL(alone_nic.counters[SDR_DUPLICATES], 2);
	alone_post_to(&alone_nic, 3, 3 * 256, 256); /* the last one is complete: it makes way now */
	CU_ASSERT_EQUAL(alone_give(alone_of_message(3, 1, 1, 0)), SP_DONE);
	CU_ASSERT(alone_filled(alone_nic.mem[BUFFER].base + 3 * 256, MTU, 4));
	fake_detach(&alone_nic);
}

TEST(completing_and_posting_again_goes_on_for_ever)
{
	alone_attach(&alone_nic, alone_implicit4, 4 * 256, 1);
	for (uint64_t k = 0; k < 1000; k++) {
		if (k >= 4)
			CU_ASSERT_EQUAL_FATAL(alone_complete(&alone_nic, k - 4), 0);
		CU_ASSERT_EQUAL_FATAL(alone_post_to(&alone_nic, k, k % 4 * 256, 256), 0);
		CU_ASSERT_EQUAL_FATAL(alone_give(alone_of_message(k, 4, 4, 1)), SP_DONE);
		CU_ASSERT_EQUAL_FATAL(alone_give(alone_of_message(k, 4, 4, 0)), SP_DONE);
		CU_ASSERT_EQUAL_FATAL(alone_line(&alone_nic, k % 4)->message, k + 1);
		CU_ASSERT_EQUAL_FATAL(alone_line(&alone_nic, k % 4)->state, SP_SDR_OPEN | SP_SDR_COMPLETE);
	}
	CU_ASSERT_EQUAL(alone_nic.counters[SDR_DUPLICATES], 0);
	CU_ASSERT_EQUAL(alone_nic.counters[SDR_MESSAGES], 1000);
	CU_ASSERT_EQUAL(alone_nic.refs[BUFFER], 4);
	fake_detach(&alone_nic);
}
