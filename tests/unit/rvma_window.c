/* SPDX-License-Identifier: BSD-3-Clause */
/* RVMA's rules of what a put finds at a mailbox and where its bytes go, on real packets. */
#include "../lib/rvma_nic.h"

/* ---- placement ---- */
TEST(a_window_is_filled_in_reverse_order_as_in_any)
{
	const uint64_t id = (rw_begin(), rw_window(0x10, 7, 10 * rw_mtu, 0));
	struct transfer t[10];

	rw_post(id, 4096, 10 * rw_mtu, 0);
	for (uint64_t i = 0; i < 10; i++) {
		t[i] = (struct transfer){0x10, 7, i * rw_mtu, rw_mtu, (uint8_t)i, 0, 0};
		rw_start(&t[i]);
	}
	for (unsigned i = 10; i--;) {
		CU_ASSERT(rw_silent(0));
		rw_packet(&t[i], 0);
	}
	CU_ASSERT(rw_told(0, 4096, 10 * rw_mtu, 0, 0, 10));
	for (unsigned i = 0; i < 10; i++)
		CU_ASSERT(rw_filled(4096 + i * rw_mtu, (uint8_t)i, rw_mtu));
	CU_ASSERT(rw_untouched(0, 4096) && rw_untouched(4096 + 10 * rw_mtu, 4096));
	rw_stop();
}

TEST(packets_of_one_put_come_in_any_order_and_count_once)
{
	const uint64_t id = (rw_begin(), rw_window(0x10, 7, 1, SP_RVMA_OPS));
	const uint64_t length = 100 * rw_mtu - 13; /* two blocks, and a short end */
	struct transfer t = {0x10, 7, 5, length, 3, 0, 0};

	rw_post(id, 0, 100 * rw_mtu, 0);
	rw_start(&t);
	for (uint64_t i = 0; i < 100; i++) {
		rw_packet(&t, i * 37 % 100);
		rw_packet(&t, i * 37 % 100);
		rw_packet(&t, i / 2 * 37 % 100);
		CU_ASSERT_EQUAL(rw_silent(0), i < 99);
	}
	CU_ASSERT(rw_told(0, 0, length, 0, 0, 1));
	CU_ASSERT(rw_untouched(0, 5) && rw_filled(5, 3, length) && rw_untouched(5 + length, rw_mtu));
	CU_ASSERT_EQUAL(dut_counter(&dut, rw_context, "placed_packets"), 100);
	CU_ASSERT_EQUAL(dut_counter(&dut, rw_context, "duplicates"), 200);
	CU_ASSERT_EQUAL(dut_counter(&dut, rw_context, "puts"), 1);
	rw_stop();
}

/* Section III of the paper: 0x11FF0011 and 0x11FF0031 are two mailboxes, not memory 32 bytes apart. */
TEST(two_mailboxes_are_never_adjacent_memory)
{
	const uint64_t low = (rw_begin(), rw_window(0x11FF0011, 0, 32, 0)), high = rw_window(0x11FF0031, 0, 32, 0);

	rw_post(low, 0, 64, 0);
	rw_post(high, 1024, 64, 1);
	rw_put(0x11FF0011, 0, 0, 32, 1);
	CU_ASSERT(rw_told(0, 0, 32, 0, 0, 1));
	CU_ASSERT(rw_silent(1));
	rw_put(0x11FF0031, 0, 0, 32, 2);
	CU_ASSERT(rw_told(1, 1024, 32, 0, 0, 1));
	CU_ASSERT(rw_filled(0, 1, 32) && rw_untouched(32, 992) && rw_filled(1024, 2, 32) && rw_untouched(1056, 32));
	/* ... and one message of 64 bytes is made by offsets in one mailbox. */
	CU_ASSERT_EQUAL(rw_post_with(low, 2048, 64, 2, 64), 0);
	rw_put(0x11FF0011, 0, 32, 32, 4);
	rw_put(0x11FF0011, 0, 0, 32, 3);
	CU_ASSERT(rw_told(2, 2048, 64, 1, 0, 2));
	CU_ASSERT(rw_filled(2048, 3, 32) && rw_filled(2080, 4, 32));
	rw_stop();
}

TEST(steered_puts_may_overlap_and_both_count)
{
	const uint64_t id = (rw_begin(), rw_window(1, 0, 60, 0));

	rw_post(id, 0, 64, 0);
	rw_put(1, 0, 0, 40, 1);
	rw_put(1, 0, 20, 40, 2);
	CU_ASSERT(rw_told(0, 0, 80, 0, 0, 2));
	CU_ASSERT(rw_filled(0, 1, 20) && rw_filled(20, 2, 40) && rw_untouched(60, 4));
	rw_stop();
}

TEST(managed_puts_are_appended_in_order_of_their_first_packets)
{
	const uint64_t id = (rw_begin(), rw_window(1, 0, 3, SP_RVMA_OPS | SP_RVMA_MANAGED));
	struct transfer a = {1, 0, APPEND, 3 * rw_mtu, 1, 0, 0}, b = {1, 0, APPEND, rw_mtu + 1, 2, 0, 0};

	rw_post(id, 0, 1024, 0);
	rw_start(&a);
	rw_start(&b);
	rw_packet(&b, 1);
	rw_packet(&a, 2);
	rw_put(1, 0, APPEND, 10, 3);
	CU_ASSERT(rw_filled(rw_mtu + 1 + 3 * rw_mtu, 3, 10)); /* behind what the two have reserved */
	rw_packet(&a, 0);
	rw_packet(&a, 1);
	CU_ASSERT(rw_silent(0));
	rw_packet(&b, 0);
	CU_ASSERT(rw_told(0, 0, 4 * rw_mtu + 11, 0, 0, 3));
	CU_ASSERT(rw_filled(0, 2, rw_mtu + 1) && rw_filled(rw_mtu + 1, 1, 3 * rw_mtu) &&
		  rw_untouched(4 * rw_mtu + 11, 64));
	rw_stop();
}

TEST(a_put_without_an_offset_goes_to_the_start_of_a_steered_buffer)
{
	const uint64_t id = (rw_begin(), rw_window(1, 0, 0, 0));

	rw_post(id, 0, 64, 0);
	rw_put(1, 0, APPEND, 20, 1);
	rw_put(1, 0, APPEND, 10, 2);
	CU_ASSERT(rw_filled(0, 2, 10) && rw_memory[10] == rw_pattern(1, 10));
	CU_ASSERT(rw_nothing_refused());
	rw_stop();
}

TEST(an_offset_is_refused_by_a_managed_window)
{
	const uint64_t id = (rw_begin(), rw_window(1, 0, 0, SP_RVMA_MANAGED));

	rw_post(id, 0, 64, 0);
	rw_put(1, 0, 0, 20, 1);
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_WRONG_MODE), 1);
	CU_ASSERT(rw_nothing_refused() && rw_untouched(0, 64));
	rw_stop();
}

TEST(a_put_of_no_bytes_is_an_operation)
{
	const uint64_t ops = (rw_begin(), rw_window(1, 0, 2, SP_RVMA_OPS)), bytes = rw_window(2, 0, 1, 0);

	rw_post(ops, 0, 64, 0);
	rw_post(bytes, 64, 64, 1);
	rw_put(1, 0, 64, 0, 0); /* at the very end */
	CU_ASSERT(rw_silent(0));
	rw_put(1, 0, 0, 0, 0);
	CU_ASSERT(rw_told(0, 0, 0, 0, 0, 2));
	rw_put(2, 0, 0, 0, 0);
	CU_ASSERT(rw_silent(1)); /* and no byte */
	rw_put(2, 0, 0, 1, 9);
	CU_ASSERT(rw_told(1, 64, 1, 0, 0, 2));
	CU_ASSERT(rw_nothing_refused());
	rw_stop();
}

TEST(a_region_takes_puts_at_offsets_and_never_completes)
{
	const uint64_t id = (rw_begin(), rw_window(1, 5, 10, SP_RVMA_REGION));

	rw_post(id, 0, 256, 0);
	CU_ASSERT_EQUAL(rw_post_with(id, 256, 256, 1, 0), -EDQUOT); /* it is one buffer */
	for (unsigned i = 0; i < 20; i++)
		rw_put(1, 5, 100, 100, (uint8_t)i);
	rw_put(1, 5, 200, 57, 0);
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_TOO_LARGE), 1);
	CU_ASSERT(rw_silent(0) && rw_filled(100, 19, 100) && rw_untouched(0, 100) && rw_untouched(200, 100));
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_INC_EPOCH, id, 0, 0, 0), -EINVAL);
	CU_ASSERT_EQUAL(rw_line(id)->epoch, 0);
	CU_ASSERT_EQUAL(rw_line(id)->puts, 20);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_CLOSE, id, 0, 0, 0), 0);
	CU_ASSERT(rw_told(0, 0, 2000, 0, SP_RVMA_PARTIAL | SP_RVMA_ENDED, 20));
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_WINDOW, 2, 0, 0, SP_RVMA_REGION | SP_RVMA_MANAGED), -EINVAL);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_WINDOW, 2, 0, 0, SP_RVMA_REGION | SP_RVMA_OPS), -EINVAL);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_WINDOW, 2, 0, 0, SP_RVMA_REGION | SP_RVMA_CATCH_ALL), -EINVAL);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_WINDOW, 2, 0, 0, 1 << 7), -EINVAL);
	rw_stop();
}

/* ---- what is refused ---- */
TEST(a_put_larger_than_what_the_head_has_left_is_refused_whole)
{
	const uint64_t steered = (rw_begin(), rw_window(1, 0, 0, 0)), managed = rw_window(2, 0, 0, SP_RVMA_MANAGED);

	rw_post(steered, 0, 1000, 0);
	rw_post(steered, 1000, 4000, 1); /* the next one would have room: it is not asked */
	rw_post(managed, 8192, 1000, 2);
	rw_put(1, 0, 0, 1001, 1);
	rw_put(1, 0, 1, 1000, 1);
	rw_put(1, 0, 1000, 1, 1);
	rw_put(1, 0, 1001, 0, 1);
	rw_put(2, 0, APPEND, 600, 2);
	rw_put(2, 0, APPEND, 401, 3);
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_TOO_LARGE), 5);
	CU_ASSERT(rw_nothing_refused());
	CU_ASSERT(rw_untouched(0, 5000) && rw_filled(8192, 2, 600) && rw_untouched(8792, 400));
	rw_put(1, 0, 0, 1000, 4);
	rw_put(2, 0, APPEND, 400, 5);
	CU_ASSERT(rw_nothing_refused() && rw_filled(0, 4, 1000) && rw_filled(8792, 5, 400));
	CU_ASSERT_EQUAL(rw_line(steered)->refused, 4);
	CU_ASSERT_EQUAL(rw_line(managed)->refused, 1);
	rw_stop();
}

/* A later packet does not open it anew, though there would be room by then. */
TEST(what_was_refused_stays_refused)
{
	const uint64_t id = (rw_begin(), rw_window(1, 0, 0, 0));
	struct transfer t = {1, 0, 0, 3 * rw_mtu, 1, 0, 0};

	rw_start(&t);
	rw_packet(&t, 1);
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_NO_BUFFER), 1);
	rw_post(id, 0, 1024, 0);
	rw_packet(&t, 0);
	rw_packet(&t, 2);
	rw_packet(&t, 1);
	CU_ASSERT(rw_nothing_refused() && rw_untouched(0, 1024));
	CU_ASSERT_EQUAL(rw_line(id)->puts, 0);
	rw_stop();
}

/* ... not by blocks either that were too far ahead to be marked then. */
TEST(what_was_refused_stays_refused_beyond_the_window)
{
	struct transfer t = {1, 0, 0, 6 * 64 * rw_mtu, 1, 0, .number = 2};

	rw_begin_with("window=4");
	uint64_t id = rw_window(1, 0, 0, 0);
	rw_packet(&t, 0); /* of six blocks the first two are within the window */
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_NO_BUFFER), 1);
	rw_post(id, 0, t.length, 0);
	rw_put(1, 0, 0, 0, 0); /* blocks 0 and 1: the window moves on */
	rw_put(1, 0, 0, 0, 0);
	rw_packet(&t, 2 * 64);
	rw_packet(&t, 3 * 64);
	rw_packet(&t, 1);
	CU_ASSERT(rw_nothing_refused() && rw_untouched(0, t.length));
	CU_ASSERT_EQUAL(rw_line(id)->puts, 2);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_INC_EPOCH, id, 0, 0, 0), 0);
	CU_ASSERT(rw_told(0, 0, 0, 0, SP_RVMA_PARTIAL, 2)); /* nothing is open in it */
	rw_stop();
}

TEST(offset_and_length_do_not_overflow)
{
	const uint64_t id = (rw_begin(), rw_window(1, 0, 0, 0));

	rw_post(id, 0, 1000, 0);
	rw_put(1, 0, UINT64_MAX - 1, 10, 1);
	rw_put(1, 0, UINT64_MAX - 9, 10, 1);
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_BAD_RANGE), 2);
	rw_put(1, 0, UINT64_MAX - 10, 10, 1); /* ends where numbers end: it is just too far */
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_TOO_LARGE), 1);
	rw_put(1, 0, 1ull << 63, 0, 1);
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_TOO_LARGE), 1);
	CU_ASSERT(rw_nothing_refused() && rw_untouched(0, 2000));
	rw_stop();
}

TEST(a_length_of_2_63_is_dropped_by_name)
{
	const uint64_t wrong[] = {1ull << 63, UINT64_MAX, (1ull << 32) * rw_mtu + 1};
	struct transfer t = {1, 0, 0, 0, 1, 0, 0};
	const uint64_t id = (rw_begin(), rw_window(1, 0, 0, 0));

	rw_post(id, 0, 1000, 0);
	for (unsigned i = 0; i < 3; i++) {
		t.length = wrong[i];
		t.number = rw_next_transfer++;
		rw_packet(&t, 0);
	}
	CU_ASSERT_EQUAL(dut_view(&dut, rw_context, dropped), 3);
	t.length = (1ull << 32) * rw_mtu; /* the longest there is: too large for this buffer */
	t.number = rw_next_transfer++;
	rw_packet(&t, 0);
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_TOO_LARGE), 1);
	CU_ASSERT(rw_nothing_refused() && rw_untouched(0, 1000));
	CU_ASSERT_EQUAL(rw_post_with(id, 0, 1ull << 63, 1, 0), -EFAULT);
	CU_ASSERT_EQUAL(rw_post_with(id, 1ull << 63, 1ull << 63, 1, 0), -EFAULT);
	CU_ASSERT_EQUAL(rw_post_with(id, 0, 0, 1, 0), 0); /* a buffer of no bytes: puts of none can come */
	rw_stop();
}

TEST(a_wrong_key_is_refused_and_counted)
{
	const uint64_t id = (rw_begin(), rw_window(1, 0x0123456789ABCDEF, 0, 0));

	rw_post(id, 0, 1000, 0);
	for (unsigned bit = 0; bit < 64; bit++)
		rw_put(1, 0x0123456789ABCDEF ^ 1ull << bit, 0, 10, 1);
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_BAD_KEY), 64);
	CU_ASSERT_EQUAL(dut_counter(&dut, rw_context, "bad_keys"), 64);
	CU_ASSERT_EQUAL(rw_line(id)->refused, 64);
	CU_ASSERT(rw_nothing_refused() && rw_untouched(0, 1000));
	rw_put(1, 0x0123456789ABCDEF, 0, 10, 1);
	CU_ASSERT(rw_nothing_refused() && rw_filled(0, 1, 10));
	rw_stop();
}

TEST(every_packet_of_a_put_must_agree_with_its_first)
{
	const uint64_t id = (rw_begin(), rw_window(1, 9, 1, SP_RVMA_OPS)), other = rw_window(2, 9, 1, SP_RVMA_OPS);
	struct transfer t = {1, 9, 0, 3 * rw_mtu, 1, 0, 0}, forged;

	rw_post(id, 0, 1024, 0);
	rw_post(other, 4096, 1024, 1);
	rw_start(&t);
	rw_packet(&t, 0);
	forged = t;
	forged.fill = 2;
	forged.key = 8;
	rw_packet(&forged, 1);
	CU_ASSERT_EQUAL(dut_counter(&dut, rw_context, "bad_keys"), 1);
	forged.key = 9;
	forged.mailbox = 2;
	rw_packet(&forged, 1);
	forged.mailbox = 1;
	forged.length = 4 * rw_mtu;
	rw_packet(&forged, 1);
	CU_ASSERT(rw_filled(0, 1, rw_mtu) && rw_untouched(rw_mtu, 960) && rw_untouched(4096, 1024));
	rw_packet(&t, 1);
	rw_packet(&t, 2);
	CU_ASSERT(rw_told(0, 0, 3 * rw_mtu, 0, 0, 1));
	CU_ASSERT(rw_filled(0, 1, 3 * rw_mtu));
	rw_stop();
}

TEST(a_mailbox_that_is_not_there_is_no_mailbox)
{
	rw_begin();
	rw_put(1, 0, 0, 10, 1);
	rw_window(2, 0, 0, 0);
	rw_put(1, 0, 0, 10, 1);
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_NO_MAILBOX), 2);
	CU_ASSERT(rw_nothing_refused());
	rw_stop();
}

TEST(an_empty_bucket_refuses)
{
	const uint64_t id = (rw_begin(), rw_window(1, 0, 10, 0));

	rw_put(1, 0, 0, 10, 1);
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_NO_BUFFER), 1);
	rw_post(id, 0, 10, 0);
	rw_put(1, 0, 0, 10, 2);
	rw_put(1, 0, 0, 10, 3);
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_NO_BUFFER), 1);
	CU_ASSERT(rw_nothing_refused() && rw_told(0, 0, 10, 0, 0, 1) && rw_filled(0, 2, 10));
	rw_stop();
}

/* ---- the catch-all ---- */
TEST(the_catch_all_gets_what_has_no_mailbox_or_no_buffer)
{
	const uint64_t all = (rw_begin(), rw_window(100, 1, 1, SP_RVMA_OPS | SP_RVMA_CATCH_ALL)),
		       id = rw_window(1, 2, 10, 0);

	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_WINDOW, 101, 1, 1, SP_RVMA_CATCH_ALL), -EEXIST);
	for (unsigned i = 0; i < 3; i++)
		rw_post(all, i * 64, 64, i);
	rw_put(77, 1, 0, 10, 1); /* not there: the catch-all's key */
	CU_ASSERT(rw_told(0, 0, 10, 0, 0, 1) && rw_filled(0, 1, 10));
	CU_ASSERT_EQUAL(rw_note[0].mailbox, 77);
	rw_put(1, 2, 0, 10, 2); /* there, and empty: its own key */
	CU_ASSERT(rw_told(1, 64, 10, 1, 0, 1) && rw_filled(64, 2, 10));
	CU_ASSERT_EQUAL(rw_note[1].mailbox, 1);
	rw_put(77, 2, 0, 10, 3);
	rw_put(1, 1, 0, 10, 3);
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_BAD_KEY), 2);
	rw_post(id, 256, 64, 3);
	rw_put(1, 2, 0, 10, 4); /* has a buffer now */
	CU_ASSERT(rw_told(3, 256, 10, 0, 0, 1));
	rw_put(100, 1, 0, 10, 5); /* its own mailbox */
	CU_ASSERT(rw_told(2, 128, 10, 2, 0, 1));
	CU_ASSERT_EQUAL(dut_counter(&dut, rw_context, "caught"), 2);
	rw_put(1, 2, 0, 10, 4);
	rw_put(77, 1, 0, 10, 4); /* it is empty, too */
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_NO_BUFFER), 2);
	CU_ASSERT(rw_nothing_refused());
	rw_stop();
}

TEST(a_closed_window_is_not_caught_nor_does_a_closed_catch_all_catch)
{
	const uint64_t all = (rw_begin(), rw_window(100, 0, 0, SP_RVMA_CATCH_ALL)), id = rw_window(1, 0, 0, 0);

	rw_post(all, 0, 64, 0);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_CLOSE, id, 0, 0, 0), 0);
	rw_put(1, 0, 0, 10, 1);
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_CLOSED), 1);
	rw_window(2, 0, 0, 0);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_CLOSE, all, 0, 0, 0), 0);
	rw_put(2, 0, 0, 10, 1);
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_NO_BUFFER), 1);
	rw_put(3, 0, 0, 10, 1);
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_CLOSED), 1);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_FREE, all, 0, 0, 0), 0);
	rw_put(3, 0, 0, 10, 1);
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_NO_MAILBOX), 1);
	CU_ASSERT(rw_nothing_refused() && rw_untouched(0, 64));
	rw_window(101, 0, 0, SP_RVMA_CATCH_ALL); /* there can be another one */
	rw_stop();
}

/* ---- limits ---- */
TEST(a_window_takes_no_more_than_its_limits)
{
	const uint64_t id = (rw_begin(), rw_window(1, 0, 100, 0));
	const struct sp_command limit = {
		.op = SP_RVMA_CMD_LIMIT, .context = rw_context, .arg = {id, 2, 300, 100, 1000}};

	CU_ASSERT_EQUAL(sp_command_call(dut.dev, &limit, NULL), 0);
	CU_ASSERT_EQUAL(rw_post_with(id, 0, 301, 0, 0), -EDQUOT);
	rw_post(id, 0, 200, 0);
	CU_ASSERT_EQUAL(rw_post_with(id, 200, 101, 1, 0), -EDQUOT);
	rw_post(id, 200, 100, 1);
	CU_ASSERT_EQUAL(rw_post_with(id, 300, 0, 2, 0), -EDQUOT);
	rw_put(1, 0, 0, 101, 1);
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_TOO_LARGE), 1);
	rw_put(1, 0, 0, 100, 1); /* 1000 bytes a second: the next 100 ms are paid for */
	CU_ASSERT(rw_told(0, 0, 100, 0, 0, 1));
	rw_post(id, 0, 200, 2); /* there is room again */
	rw_now += SP_SEC / 10 - 1;
	rw_put(1, 0, 0, 50, 1);
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_RATE), 1);
	rw_now += 1;
	rw_put(1, 0, 0, 50, 1);
	rw_now += SP_SEC / 20;
	rw_put(1, 0, 50, 50, 1);
	CU_ASSERT(rw_told(1, 200, 100, 1, 0, 2));
	CU_ASSERT(rw_nothing_refused());
	rw_stop();
}

TEST(a_rate_of_a_byte_a_second_does_not_overflow)
{
	const uint64_t id = (rw_begin(), rw_window(1, 0, 0, 0));
	const struct sp_command limit = {.op = SP_RVMA_CMD_LIMIT, .context = rw_context, .arg = {id, 0, 0, 0, 1}};

	rw_post(id, 0, MEMORY, 0);
	CU_ASSERT_EQUAL(sp_command_call(dut.dev, &limit, NULL), 0);
	rw_put(1, 0, 0, 8192, 1);
	rw_now += 8191 * SP_SEC;
	rw_put(1, 0, 0, 1, 1);
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_RATE), 1);
	rw_now += SP_SEC;
	rw_put(1, 0, 0, 1, 1);
	CU_ASSERT(rw_nothing_refused());
	rw_stop();
}

TEST(descriptors_windows_and_mailboxes_are_as_many_as_configured)
{
	rw_begin_with("windows=2;buffers=3");

	const uint64_t a = rw_window(1, 0, 0, 0), b = rw_window(2, 0, 0, 0);

	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_WINDOW, 1, 0, 0, 0), -EEXIST);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_WINDOW, 3, 0, 0, 0), -ENOSPC);
	rw_post(a, 0, 64, 0);
	rw_post(b, 64, 64, 1);
	rw_post(b, 128, 64, 2);
	CU_ASSERT_EQUAL(rw_post_with(a, 192, 64, 3, 0), -ENOBUFS);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_FREE, b, 0, 0, 0), 0);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_CLOSE, b, 0, 0, 0), -ENOENT);
	CU_ASSERT_EQUAL(rw_post_with(b, 192, 64, 3, 0), -ENOENT);

	const uint64_t c = rw_window(2, 0, 0, 0); /* the same place, another turn */

	CU_ASSERT_EQUAL((uint32_t)c, (uint32_t)b);
	CU_ASSERT_NOT_EQUAL(c, b);
	CU_ASSERT_EQUAL(rw_line(c)->id, c);
	CU_ASSERT_EQUAL(rw_post_with(b, 192, 64, 3, 0), -ENOENT);
	rw_post(c, 64, 64, 1);
	rw_post(c, 128, 64, 2);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_FREE, 0, 0, 0, 0), -ENOENT); /* none was configured */
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_FREE, UINT64_MAX, 0, 0, 0), -ENOENT);
	CU_ASSERT(rw_silent(1) && rw_silent(2));
	rw_stop();
}

/* ---- memory ---- */
TEST(a_notification_outside_registered_memory_is_refused)
{
	const uint64_t id = (rw_begin(), rw_window(1, 0, 1, SP_RVMA_OPS));
	struct sp_command cmd = {.op = SP_CMD_POST, .context = rw_context, .cookie = 1};
	static const struct {
		uint64_t notes, buffer; /* 1: the region; 0: none; 2: unknown */
		uint64_t offset, length, note, cookie;
		int rc;
	} step[] = {
		{1, 1, 0, 64, NOTES * 64, 1, -EFAULT},
		{1, 1, 0, 64, NOTES * 64 - 32, 1, -EFAULT},
		{1, 1, 0, 64, UINT64_MAX - 63, 1, -EFAULT},
		{1, 1, 0, 64, 8, 1, -EINVAL},
		{1, 1, 0, 64, 0, 0, -EINVAL},
		{2, 1, 0, 64, 0, 1, -EFAULT},
		{1, 2, 0, 64, 0, 1, -EFAULT},
		{1, 0, 0, 64, 0, 1, -EFAULT},
		{1, 1, MEMORY, 1, 0, 1, -EFAULT},
		{1, 1, MEMORY - 1, 2, 0, 1, -EFAULT},
		{1, 1, UINT64_MAX, 2, 0, 1, -EFAULT},
		{0, 1, 0, 64, UINT64_MAX, 1, 0},
	};

	for (unsigned i = 0; i < sizeof(step) / sizeof(*step); i++) {
		const uint64_t ids[2] = {step[i].buffer == 1 ? rw_memory_mr->id
					 : step[i].buffer    ? 9999
							     : 0,
					 step[i].notes == 1 ? rw_notes_mr->id
					 : step[i].notes    ? 9999
							    : 0};
		const uint64_t arg[] = {ids[0] | ids[1] << 32, step[i].offset, step[i].length, step[i].note, 0, id};

		memcpy(cmd.arg, arg, sizeof(arg));
		cmd.cookie = step[i].cookie;
		CU_ASSERT_EQUAL(sp_command_call(dut.dev, &cmd, NULL), step[i].rc);
	}
	CU_ASSERT_EQUAL(rw_line(id)->posted, 1);
	rw_put(1, 0, 0, 10, 1); /* without a notification the epoch tells */
	CU_ASSERT_EQUAL(rw_line(id)->epoch, 1);
	CU_ASSERT(rw_filled(0, 1, 10));
	for (unsigned i = 0; i < NOTES; i++)
		CU_ASSERT(rw_silent(i));
	rw_stop();
}

TEST(memory_of_a_posted_buffer_stays_until_it_is_handed_over)
{
	const uint64_t id = (rw_begin(), rw_window(1, 0, 1, SP_RVMA_OPS));

	rw_post(id, 0, 64, 0);
	CU_ASSERT_EQUAL(sp_mr_free(rw_memory_mr), -EBUSY);
	CU_ASSERT_EQUAL(sp_mr_free(rw_notes_mr), -EBUSY);
	rw_put(1, 0, 0, 10, 1);
	CU_ASSERT(rw_told(0, 0, 10, 0, 0, 1));
	CU_ASSERT_EQUAL(sp_mr_free(rw_memory_mr), 0);
	CU_ASSERT_EQUAL(sp_mr_free(rw_notes_mr), 0);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_EPOCH, id, 0, 0, 0), 0); /* what is kept is no memory */
	CU_ASSERT_EQUAL_FATAL(sp_mr_reg(dut.dev, rw_memory, MEMORY, &rw_memory_mr), 0);
	CU_ASSERT_EQUAL_FATAL(sp_mr_reg(dut.dev, rw_note, NOTES * sizeof(*rw_note), &rw_notes_mr), 0);
	rw_stop();
}

/* ---- a million ---- */
TEST(a_million_mailboxes_are_apart)
{
	enum { MILLION = 1 << 20 };
	uint64_t id = 0;

	rw_begin_with("windows=1048576;buffers=8;counters=8");
	for (uint32_t i = 0; i < MILLION; i++)
		id = rw_window(0x11FF0011ull + i * 0x20ull, i, 1, SP_RVMA_OPS);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_WINDOW, 1, 0, 0, 0), -ENOSPC);
	rw_post(id, 0, 64, 0);
	rw_put(0x11FF0011ull + (MILLION - 1) * 0x20ull, MILLION - 1, 0, 10, 1);
	CU_ASSERT(rw_told(0, 0, 10, 0, 0, 1));
	rw_put(0x11FF0011ull + (MILLION - 2) * 0x20ull, MILLION - 2, 0, 10, 1);
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_NO_BUFFER), 1);
	rw_stop();
}
