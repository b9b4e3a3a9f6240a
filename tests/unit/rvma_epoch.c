/* SPDX-License-Identifier: BSD-3-Clause */
/* RVMA's rules of when a buffer is the application's: thresholds, epochs, closing, what is kept, on real packets. */
#include "../lib/rvma_nic.h"

/* ---- thresholds ---- */
TEST(a_threshold_of_one_takes_a_buffer_a_put)
{
	const uint64_t ops = (rw_begin(), rw_window(1, 0, 1, SP_RVMA_OPS)), bytes = rw_window(2, 0, 1, 0);

	for (unsigned i = 0; i < 10; i++) {
		rw_post(ops, i * 256, 200, i);
		rw_post(bytes, 4096 + i * 256, 200, 10 + i);
	}
	for (unsigned i = 0; i < 10; i++) {
		rw_put(1, 0, 0, 200 - i, (uint8_t)i);
		rw_put(2, 0, i, 150, (uint8_t)(100 + i));
		CU_ASSERT(rw_told(i, i * 256, 200 - i, i, 0, 1));
		CU_ASSERT(rw_told(10 + i, 4096 + i * 256, 150, i, 0, 1));
		CU_ASSERT(rw_filled(i * 256, (uint8_t)i, 200 - i));
		CU_ASSERT(rw_filled(4096 + i * 256 + i, (uint8_t)(100 + i), 150));
		CU_ASSERT_EQUAL(rw_line(ops)->epoch, i + 1);
		CU_ASSERT_EQUAL(rw_line(ops)->posted, 9 - i);
		CU_ASSERT_EQUAL(rw_line(bytes)->held, i + 1);
		CU_ASSERT_EQUAL(rw_line(bytes)->puts, i + 1);
		CU_ASSERT_EQUAL(rw_line(bytes)->bytes, (i + 1) * 150);
	}
	CU_ASSERT_EQUAL(dut_counter(&dut, rw_context, "epochs"), 20);
	rw_stop();
}

TEST(a_threshold_that_is_never_reached_is_ended_by_inc_epoch)
{
	const uint64_t never = (rw_begin(), rw_window(1, 0, 0, 0)), high = rw_window(2, 0, 1000, 0);

	rw_post(never, 0, 256, 0);
	rw_post(high, 256, 256, 1);
	for (unsigned i = 0; i < 50; i++) {
		rw_put(1, 0, 0, 256, 1);
		rw_put(2, 0, 0, 19, 2);
	}
	CU_ASSERT(rw_silent(0) && rw_silent(1));
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_INC_EPOCH, never, 0, 0, 0), 0);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_INC_EPOCH, high, 0, 0, 0), 0);
	CU_ASSERT(rw_told(0, 0, 50 * 256, 0, SP_RVMA_PARTIAL, 50));
	CU_ASSERT(rw_told(1, 256, 950, 0, SP_RVMA_PARTIAL, 50));
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_INC_EPOCH, never, 0, 0, 0), -ENODATA);
	rw_stop();
}

TEST(a_buffers_threshold_stands_before_its_windows)
{
	const uint64_t id = (rw_begin(), rw_window(1, 0, 3, SP_RVMA_OPS));

	CU_ASSERT_EQUAL(rw_post_with(id, 0, 64, 0, 1), 0);
	rw_post(id, 64, 64, 1);
	rw_put(1, 0, 0, 1, 1);
	CU_ASSERT(rw_told(0, 0, 1, 0, 0, 1));
	for (unsigned i = 0; i < 3; i++) {
		CU_ASSERT(rw_silent(1));
		rw_put(1, 0, 0, 1, 2);
	}
	CU_ASSERT(rw_told(1, 64, 3, 1, 0, 3));
	rw_stop();
}

/* Bytes count as they come, an operation when it is whole. */
TEST(a_put_open_across_an_epoch_change_goes_on_into_its_buffer)
{
	const uint64_t id = (rw_begin(), rw_window(1, 0, 2 * rw_mtu, 0));
	struct transfer a = {1, 0, 0, 4 * rw_mtu, 1, 0, 0}, b = {1, 0, 0, 3 * rw_mtu, 2, 0, 0};

	rw_post(id, 0, 1024, 0);
	rw_post(id, 1024, 1024, 1);
	rw_post(id, 2048, 1024, 2);
	rw_start(&a);
	rw_start(&b);
	rw_packet(&a, 3);
	rw_packet(&a, 1);
	CU_ASSERT_EQUAL(rw_line(id)->posted, 2); /* the first buffer has left, */
	CU_ASSERT(rw_silent(0));		 /* ... and is not the application's yet */
	rw_packet(&b, 0);
	rw_packet(&b, 1); /* the second one has left, too */
	rw_put(1, 0, 0, 2 * rw_mtu, 3);
	CU_ASSERT_EQUAL(rw_line(id)->posted, 0);
	rw_packet(&b, 2);
	CU_ASSERT(rw_silent(0) && rw_silent(1) && rw_silent(2)); /* in order of epochs, though these are whole */
	CU_ASSERT_EQUAL(rw_line(id)->epoch, 0);
	rw_packet(&a, 2);
	CU_ASSERT(rw_silent(0) && rw_silent(1) && rw_silent(2));
	rw_packet(&a, 0);
	CU_ASSERT(rw_told(0, 0, 4 * rw_mtu, 0, 0, 1));
	CU_ASSERT(rw_told(1, 1024, 3 * rw_mtu, 1, 0, 1));
	CU_ASSERT(rw_told(2, 2048, 2 * rw_mtu, 2, 0, 1));
	CU_ASSERT(rw_filled(0, 1, 4 * rw_mtu) && rw_filled(1024, 2, 3 * rw_mtu) && rw_filled(2048, 3, 2 * rw_mtu));
	CU_ASSERT(rw_untouched(4 * rw_mtu, 1024 - 4 * rw_mtu) && rw_untouched(1024 + 3 * rw_mtu, 1024 - 3 * rw_mtu));
	CU_ASSERT(rw_nothing_refused());
	rw_stop();
}

TEST(inc_epoch_waits_for_the_puts_that_are_open)
{
	const uint64_t id = (rw_begin(), rw_window(1, 0, 0, SP_RVMA_MANAGED));
	struct transfer a = {1, 0, APPEND, 2 * rw_mtu, 1, 0, 0};

	rw_post(id, 0, 1024, 0);
	rw_post(id, 1024, 1024, 1);
	rw_put(1, 0, APPEND, 10, 9);
	rw_start(&a);
	rw_packet(&a, 1);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_INC_EPOCH, id, 0, 0, 0), 0);
	rw_put(1, 0, APPEND, 20, 3);
	CU_ASSERT(rw_silent(0));
	CU_ASSERT(rw_filled(1024, 3, 20)); /* the next buffer is the head */
	rw_packet(&a, 0);
	CU_ASSERT(rw_told(0, 0, 10 + 2 * rw_mtu, 0, SP_RVMA_PARTIAL, 2));
	CU_ASSERT(rw_filled(0, 9, 10) && rw_filled(10, 1, 2 * rw_mtu));
	CU_ASSERT(rw_silent(1));
	rw_stop();
}

/* ---- visible only after all the data ---- */
static struct {
	uint64_t data;	     /* bytes written into the buffer, */
	unsigned line, told; /* writes to its notification: behind the address, of the address */
	unsigned epochs;     /* writes of the window's epoch, after the notification */
} seen;

/* Each write of the NIC's, in its order: data, then the notification's line, then its address, then the epoch. */
static void sees_write(void *arg, const struct sp_traced_call *call, const struct sp_mem *mem, uint64_t offset,
		       const void *from, uint64_t len)
{
	const uint64_t length = 3 * rw_mtu;
	if (mem->base == rw_memory) {
		seen.data += len;
		CU_ASSERT(rw_silent(0) && !seen.line && !seen.told);
	} else if (mem->base == (const uint8_t *)rw_note && offset) {
		seen.line++;
		CU_ASSERT(seen.data == length && !seen.told && offset >= 8 && offset + len <= sizeof(*rw_note));
		CU_ASSERT_EQUAL(rw_note[0].address, 0);
	} else if (mem->base == (const uint8_t *)rw_note) {
		seen.told++;
		CU_ASSERT(seen.data == length && seen.line && len == 8 && rw_note[0].length == length);
		CU_ASSERT(rw_filled(128, 5, length));
	} else if (offset == sizeof(struct sp_rvma_area) + offsetof(struct sp_rvma_window_status, epoch)) {
		seen.epochs += seen.data != 0;
		CU_ASSERT(!seen.data || seen.told);
	}
}

TEST(a_notification_is_visible_only_after_all_the_data)
{
	const struct sp_tracer watch = {.wrote = sees_write};
	struct transfer t = {1, 0, 0, 3 * rw_mtu, 5, 0, 0};

	memset(&seen, 0, sizeof(seen));
	rw_watcher = &watch;
	rw_begin();
	rw_watcher = NULL;
	uint64_t id = rw_window(1, 0, 2 * rw_mtu + 1, 0);
	rw_post(id, 128, 4 * rw_mtu, 0);
	rw_start(&t);
	for (uint64_t i = 3; i--;)
		rw_packet(&t, i);
	CU_ASSERT(rw_told(0, 128, 3 * rw_mtu, 0, 0, 1));
	CU_ASSERT_EQUAL(seen.data, 3 * rw_mtu);
	CU_ASSERT(seen.line == 1 && seen.told == 1 && seen.epochs == 1);
	rw_stop();
}

/* ---- closing ---- */
TEST(a_closed_window_refuses_and_hands_its_buffers_over_in_order)
{
	const uint64_t id = (rw_begin(), rw_window(1, 0, 2, SP_RVMA_OPS));
	struct transfer a = {1, 0, 64, 2 * rw_mtu, 1, 0, 0};

	for (unsigned i = 0; i < 3; i++)
		rw_post(id, i * 1024, 1024, i);
	rw_put(1, 0, 0, 5, 2);
	rw_start(&a);
	rw_packet(&a, 0);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_CLOSE, id, 0, 0, 0), 0);
	CU_ASSERT_EQUAL(rw_line(id)->closed, 1);
	CU_ASSERT_EQUAL(rw_line(id)->posted, 0);
	CU_ASSERT(rw_silent(0) && rw_silent(1) && rw_silent(2));
	rw_put(1, 0, 0, 5, 3);
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_CLOSED), 1);
	CU_ASSERT_EQUAL(rw_post_with(id, 4096, 64, 3, 0), -ESHUTDOWN);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_CLOSE, id, 0, 0, 0), -ESHUTDOWN);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_INC_EPOCH, id, 0, 0, 0), -ENODATA);
	rw_packet(&a, 1); /* what was open is let in */
	CU_ASSERT(rw_told(0, 0, 5 + 2 * rw_mtu, 0, SP_RVMA_PARTIAL | SP_RVMA_ENDED, 2));
	CU_ASSERT(rw_told(1, 1024, 0, 1, SP_RVMA_PARTIAL | SP_RVMA_ENDED, 0));
	CU_ASSERT(rw_told(2, 2048, 0, 2, SP_RVMA_PARTIAL | SP_RVMA_ENDED, 0));
	CU_ASSERT(rw_filled(0, 2, 5) && rw_filled(64, 1, 2 * rw_mtu));
	CU_ASSERT(rw_nothing_refused());
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_EPOCH, id, 2, 0, 0), 0); /* completed ones are kept */
	rw_stop();
}

TEST(a_window_that_is_freed_ends_its_puts_and_notifies_nothing)
{
	const uint64_t id = (rw_begin(), rw_window(1, 0, rw_mtu, 0));
	struct transfer a = {1, 0, 0, 3 * rw_mtu, 1, 0, 0};

	rw_post(id, 0, 1024, 0);
	rw_post(id, 1024, 1024, 1);
	rw_start(&a);
	rw_packet(&a, 0); /* the first buffer waits for it */
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_FREE, id, 0, 0, 0), 0);
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_CLOSED), 1);
	memset(rw_memory, 0xEE, 2048);
	rw_packet(&a, 1);
	rw_packet(&a, 2);
	rw_put(1, 0, 0, 10, 2);
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_NO_MAILBOX), 1);
	CU_ASSERT(rw_silent(0) && rw_silent(1) && rw_untouched(0, 2048));
	CU_ASSERT(rw_nothing_refused());
	CU_ASSERT_EQUAL(sp_mr_free(rw_memory_mr), 0);
	CU_ASSERT_EQUAL_FATAL(sp_mr_reg(dut.dev, rw_memory, MEMORY, &rw_memory_mr), 0);
	rw_window(1, 0, 0, 0);
	rw_stop();
}

/* ---- puts that never become whole ---- */
TEST(a_put_that_stays_away_is_given_up_and_its_buffer_told_as_such)
{
	const uint64_t id = (rw_begin_with("timeout=1s"), rw_window(1, 0, 2 * rw_mtu, 0));
	const uint64_t other = rw_window(2, 0, 1, 0);
	struct transfer a = {1, 0, 0, 3 * rw_mtu, 1, 0, 0};

	rw_post(id, 0, 1024, 0);
	rw_post(id, 1024, 1024, 1);
	rw_start(&a);
	rw_packet(&a, 0);
	rw_packet(&a, 2);
	rw_put(1, 0, 0, 2 * rw_mtu, 2);
	CU_ASSERT(rw_silent(0) && rw_silent(1));
	CU_ASSERT_EQUAL(rw_lost(id), 0);
	rw_now = dut_run(&dut, rw_now, rw_now + 10 * SP_SEC);
	CU_ASSERT(rw_lost(id) == 1 && rw_lost(other) == 0);
	CU_ASSERT(rw_told(0, 0, 2 * rw_mtu, 0, SP_RVMA_LOST, 0));
	CU_ASSERT(rw_told(1, 1024, 2 * rw_mtu, 1, 0, 1));
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_GIVEN_UP), 1);
	memset(rw_memory, 0xEE, 1024); /* it is the application's: nothing is written there any more */
	rw_packet(&a, 1);
	CU_ASSERT(rw_untouched(0, 1024));
	CU_ASSERT(rw_nothing_refused());
	rw_stop();
}

/* ---- what is kept ---- */
static int epoch_is(uint64_t id, uint64_t epoch, uint64_t at, uint64_t length)
{
	const int rc = rw_command(SP_RVMA_CMD_EPOCH, id, epoch, 0, 0);

	if (!rc) {
		CU_ASSERT_EQUAL(rw_answer.arg[0], (uint64_t)(uintptr_t)(rw_memory + at));
		CU_ASSERT_EQUAL(rw_answer.arg[1], length);
		CU_ASSERT_EQUAL(rw_answer.arg[4], epoch);
	}
	return rc;
}

/* Ten buffers of a put each, of 10, 11, ... bytes; two more are posted. */
static uint64_t ten_epochs(uint64_t flags)
{
	const uint64_t id = rw_window(1, 0, 1, SP_RVMA_OPS | flags);

	for (unsigned i = 0; i < 12; i++)
		rw_post(id, i * 256, 256, i);
	for (unsigned i = 0; i < 10; i++)
		rw_put(1, 0, flags & SP_RVMA_MANAGED ? APPEND : 0, 10 + i, (uint8_t)i);
	CU_ASSERT_EQUAL(rw_line(id)->epoch, 10);
	return id;
}

TEST(completed_buffers_are_kept_until_they_are_released)
{
	const uint64_t id = (rw_begin(), ten_epochs(0));

	for (unsigned i = 0; i < 10; i++)
		CU_ASSERT_EQUAL(epoch_is(id, i, i * 256, 10 + i), 0);
	CU_ASSERT_EQUAL(epoch_is(id, 10, 0, 0), -ENODATA);
	CU_ASSERT_EQUAL(epoch_is(id, UINT64_MAX, 0, 0), -ENODATA);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_RELEASE, id, 10, 0, 0), -ENODATA);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_RELEASE, id, 3, 0, 0), 0);
	CU_ASSERT_EQUAL(rw_line(id)->held, 6);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_RELEASE, id, 3, 0, 0), -ENODATA);
	for (unsigned i = 0; i < 10; i++)
		CU_ASSERT_EQUAL(epoch_is(id, i, i * 256, 10 + i), i <= 3 ? -ENODATA : 0);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_RELEASE, id, 9, 0, 0), 0);
	CU_ASSERT_EQUAL(rw_line(id)->held, 0);
	CU_ASSERT_EQUAL(rw_line(id)->epoch, 10);
	rw_put(1, 0, 0, 99, 1);
	CU_ASSERT_EQUAL(epoch_is(id, 10, 2560, 99), 0);
	rw_stop();
}

TEST(a_window_goes_back_to_any_epoch_that_was_not_released)
{
	for (uint64_t to = 0; to < 10; to++) {
		const uint64_t id = (rw_begin(), ten_epochs(0));

		CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_RELEASE, id, 2, 0, 0), 0);
		rw_put(1, 0, 0, 0, 1); /* epoch 10 */
		CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_REWIND, id, 11, 0, 0), -ENODATA);
		if (to <= 2) {
			CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_REWIND, id, to, 0, 0), -ENODATA);
			CU_ASSERT_EQUAL(rw_line(id)->epoch, 11);
		} else {
			CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_REWIND, id, to, 0, 0), 0);
			CU_ASSERT_EQUAL(rw_answer.arg[0], (uint64_t)(uintptr_t)(rw_memory + to * 256));
			CU_ASSERT_EQUAL(rw_answer.arg[1], 10 + to);
			CU_ASSERT_EQUAL(rw_line(id)->epoch, to + 1);
			CU_ASSERT_EQUAL(rw_line(id)->held, to - 2);
			CU_ASSERT_EQUAL(rw_line(id)->posted, 1);
			CU_ASSERT_EQUAL(epoch_is(id, to, to * 256, 10 + to), 0);
			CU_ASSERT_EQUAL(epoch_is(id, to + 1, 0, 0), -ENODATA);
			rw_put(1, 0, 0, 200, 7); /* the head goes on from there */
			CU_ASSERT(rw_told(11, 11 * 256, 200, to + 1, 0, 1));
			CU_ASSERT_EQUAL(epoch_is(id, to + 1, 11 * 256, 200), 0);
			CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_RELEASE, id, to + 1, 0, 0), 0);
			CU_ASSERT_EQUAL(rw_line(id)->held, 0);
			CU_ASSERT_EQUAL(rw_state()->held.count, 0); /* all descriptors have been given back */
		}
		rw_stop();
	}
}

TEST(a_rewound_head_begins_anew_and_its_open_puts_are_refused)
{
	const uint64_t id = (rw_begin(), rw_window(1, 0, 3 * rw_mtu, SP_RVMA_MANAGED));
	struct transfer a = {1, 0, APPEND, 4 * rw_mtu, 2, 0, 0}, b = {1, 0, APPEND, 2 * rw_mtu, 3, 0, 0};

	for (unsigned i = 0; i < 3; i++)
		rw_post(id, i * 1024, 1024, i);
	rw_put(1, 0, APPEND, 3 * rw_mtu, 1);
	CU_ASSERT(rw_told(0, 0, 3 * rw_mtu, 0, 0, 1));
	rw_start(&a);
	rw_start(&b);
	for (unsigned i = 0; i < 3; i++)
		rw_packet(&a, i); /* epoch 1 has left the head, and waits */
	rw_packet(&b, 0);
	CU_ASSERT(rw_silent(1));
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_REWIND, id, 0, 0, 0), 0);
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_REWOUND), 2);
	CU_ASSERT_EQUAL(rw_lost(id), 0);			     /* their sender lives */
	CU_ASSERT(rw_told(1, 1024, 4 * rw_mtu, 1, SP_RVMA_LOST, 0)); /* ... is handed over, and forgotten */
	CU_ASSERT_EQUAL(epoch_is(id, 1, 0, 0), -ENODATA);
	CU_ASSERT_EQUAL(rw_line(id)->epoch, 1);
	memset(rw_memory + 1024, 0xEE, 2048);
	rw_packet(&a, 3);
	rw_packet(&b, 1);
	CU_ASSERT(rw_untouched(1024, 2048) && rw_silent(2));
	rw_put(1, 0, APPEND, 3 * rw_mtu - 1, 4);
	CU_ASSERT(rw_silent(2)); /* what had come before does not count */
	rw_put(1, 0, APPEND, 1, 5);
	CU_ASSERT(rw_told(2, 2048, 3 * rw_mtu, 1, 0, 2));
	CU_ASSERT(rw_filled(2048, 4, 3 * rw_mtu - 1) && rw_filled(2048 + 3 * rw_mtu - 1, 5, 1));
	CU_ASSERT(rw_nothing_refused());
	rw_stop();
}

TEST(a_window_goes_back_to_the_begin_of_its_first_epoch)
{
	const uint64_t id = (rw_begin(), rw_window(1, 0, 2 * rw_mtu, 0));
	struct transfer a = {1, 0, 0, 3 * rw_mtu, 2, 0, 0}, b = {1, 0, 0, 3 * rw_mtu, 3, 0, 0};

	for (unsigned i = 0; i < 3; i++)
		rw_post(id, i * 1024, 1024, i);
	rw_start(&a); /* a sender that dies in the first epoch */
	rw_packet(&a, 0);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_REWIND, id, 0, 0, 0), -ENODATA);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_REWIND, id, SP_RVMA_BEGIN, 0, 0), 0);
	CU_ASSERT(rw_answer.arg[0] == 0 && rw_answer.arg[1] == 0 && rw_answer.arg[4] == SP_RVMA_BEGIN);
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_REWOUND), 1);
	CU_ASSERT(rw_line(id)->epoch == 0 && rw_line(id)->held == 0 && rw_line(id)->posted == 3);
	CU_ASSERT(rw_line(id)->bytes == 0 && rw_line(id)->puts == 0);
	rw_put(1, 0, 0, rw_mtu, 4);
	CU_ASSERT(rw_silent(0)); /* what had come before does not count */
	rw_put(1, 0, 0, rw_mtu, 5);
	CU_ASSERT(rw_told(0, 0, 2 * rw_mtu, 0, 0, 2));
	rw_put(1, 0, 0, 2 * rw_mtu, 6);
	CU_ASSERT(rw_told(1, 1024, 2 * rw_mtu, 1, 0, 1));
	rw_start(&b);
	rw_packet(&b, 0);
	CU_ASSERT(rw_line(id)->epoch == 2 && rw_line(id)->held == 2 && rw_line(id)->bytes == 4 * rw_mtu);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_REWIND, id, SP_RVMA_BEGIN, 0, 0), 0);
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_REWOUND), 1);
	CU_ASSERT(rw_line(id)->epoch == 0 && rw_line(id)->held == 0 && rw_line(id)->posted == 1);
	CU_ASSERT(rw_line(id)->bytes == 0 && rw_line(id)->puts == 0);
	CU_ASSERT_EQUAL(rw_state()->held.count, 0); /* all descriptors have been given back */
	CU_ASSERT_EQUAL(epoch_is(id, 0, 0, 0), -ENODATA);
	rw_put(1, 0, 0, 2 * rw_mtu, 7);
	CU_ASSERT(rw_told(2, 2048, 2 * rw_mtu, 0, 0, 1));
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_RELEASE, id, 0, 0, 0), 0);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_REWIND, id, SP_RVMA_BEGIN, 0, 0), -ENODATA);
	CU_ASSERT_EQUAL(rw_line(id)->epoch, 1);
	CU_ASSERT(rw_nothing_refused());
	rw_stop();
}

TEST(a_rewind_takes_back_the_bytes_and_puts_of_what_it_discards)
{
	const uint64_t id = (rw_begin(), ten_epochs(0)); /* of 10 + i bytes each */
	uint64_t bytes = 0;

	for (unsigned i = 0; i < 10; i++)
		bytes += 10 + i;
	CU_ASSERT(rw_line(id)->bytes == bytes && rw_line(id)->puts == 10);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_REWIND, id, 7, 0, 0), 0);
	CU_ASSERT(rw_line(id)->bytes == bytes - 18 - 19 && rw_line(id)->puts == 8);
	rw_stop();
}

TEST(a_window_that_forgets_keeps_nothing)
{
	rw_begin_with("buffers=12");

	const uint64_t id = ten_epochs(SP_RVMA_FORGET);

	CU_ASSERT_EQUAL(rw_line(id)->held, 0);
	CU_ASSERT_EQUAL(epoch_is(id, 9, 0, 0), -ENODATA);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_REWIND, id, 9, 0, 0), -ENODATA);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_REWIND, id, SP_RVMA_BEGIN, 0, 0), -ENODATA);
	for (unsigned i = 0; i < 10; i++) /* the descriptors are free again */
		rw_post(id, 4096, 64, 20);
	CU_ASSERT_EQUAL(rw_post_with(id, 4096, 64, 20, 0), -ENOBUFS);
	rw_stop();
}

/* An implicit session sends nothing: what would be read is refused for want of room for an answer. */
TEST(a_get_of_what_is_not_complete_or_not_readable_is_refused)
{
	const uint64_t id = (rw_begin(), ten_epochs(SP_RVMA_READABLE)), other = rw_window(2, 0, 1, SP_RVMA_OPS);
	const uint64_t region = rw_window(3, 0, 0, SP_RVMA_REGION | SP_RVMA_READABLE);

	rw_get(1, 0, 0, 256, 0);
	rw_get(1, 0, 256, 0, 9);
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_NO_ROOM), 2);
	rw_get(1, 0, 0, 1, 10);
	rw_get(1, 0, 0, 1, UINT32_MAX);
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_NOT_COMPLETE), 2);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_RELEASE, id, 3, 0, 0), 0);
	rw_get(1, 0, 0, 1, 5);
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_NO_ROOM), 1);
	rw_get(1, 0, 0, 1, 6);
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_NOT_COMPLETE), 1);
	rw_get(1, 0, 0, 257, 0);
	rw_get(1, 0, 257, 0, 0);
	rw_get(1, 0, UINT64_MAX, 1, 0);
	rw_get(1, 0, 1, UINT64_MAX, 0);
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_BAD_RANGE), 4);
	rw_get(1, 1, 0, 1, 0);
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_BAD_KEY), 1);
	rw_post(other, 8192, 64, 30);
	rw_put(2, 0, 0, 10, 1);
	rw_get(2, 0, 0, 1, 0);
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_NOT_READABLE), 1);
	rw_get(9, 0, 0, 1, 0);
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_NO_MAILBOX), 1);
	rw_get(3, 0, 0, 1, 0);
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_NOT_COMPLETE), 1);
	rw_post(region, 16384, 64, 31);
	rw_get(3, 0, 0, 64, 0); /* at any time */
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_NO_ROOM), 1);
	rw_get(3, 0, 0, 65, 0);
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_BAD_RANGE), 1);
	CU_ASSERT(rw_nothing_refused());
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_FREE, id, 0, 0, 0), 0); /* none of them has left anything open */
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_FREE, region, 0, 0, 0), 0);
	rw_stop();
}

/* ---- counters ---- */
TEST(counts_beyond_the_nics_counters_are_in_host_memory)
{
	rw_begin_with("counters=2");

	const uint64_t id[4] = {rw_window(0, 0, 3, SP_RVMA_OPS), rw_window(1, 0, 300, 0),
				rw_window(2, 0, 3, SP_RVMA_OPS), rw_window(3, 0, 300, 0)};
	void *base;
	uint64_t len;

	CU_ASSERT_EQUAL_FATAL(sp_context_area(dut.dev, rw_context, &base, &len), 0);
	struct sp_rvma_area *area = base;
	struct sp_rvma_count *spilled = (struct sp_rvma_count *)(void *)((uint8_t *)base + area->spill);
	for (unsigned i = 0; i < 4; i++) {
		rw_post(id[i], i * 1024, 512, i);
		rw_post(id[i], i * 1024 + 512, 512, 4 + i);
	}
	CU_ASSERT_EQUAL(dut_counter(&dut, rw_context, "spilled_counters"), 2);
	for (unsigned n = 0; n < 2; n++)
		for (unsigned i = 0; i < 4; i++)
			rw_put(i, 0, 0, 100, (uint8_t)i);
	for (unsigned i = 0; i < 2; i++) /* on the NIC */
		CU_ASSERT(!spilled[(uint32_t)id[i]].bytes && !spilled[(uint32_t)id[i]].ops);
	for (unsigned i = 2; i < 4; i++) {
		CU_ASSERT_EQUAL(spilled[(uint32_t)id[i]].bytes, 200);
		CU_ASSERT_EQUAL(spilled[(uint32_t)id[i]].ops, 2);
	}
	for (unsigned i = 0; i < 4; i++) {
		CU_ASSERT(rw_silent(i));
		rw_put(i, 0, 0, 100, (uint8_t)i);
		CU_ASSERT(rw_told(i, i * 1024, 300, 0, 0, 3));
	}
	CU_ASSERT_EQUAL(dut_counter(&dut, rw_context, "spilled_counters"), 4); /* the next heads of these two */
	CU_ASSERT_EQUAL(spilled[(uint32_t)id[2]].bytes, 0);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_INC_EPOCH, id[0], 0, 0, 0), 0); /* gives its counter back */
	rw_post(id[2], 4096, 64, 8);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_INC_EPOCH, id[2], 0, 0, 0), 0); /* ... which the next head takes */
	CU_ASSERT_EQUAL(dut_counter(&dut, rw_context, "spilled_counters"), 4);
	rw_put(2, 0, 0, 10, 1);
	CU_ASSERT_EQUAL(spilled[(uint32_t)id[2]].bytes, 0);
	rw_stop();
}

/* ---- the configuration ---- */
TEST(the_area_says_what_the_context_is)
{
	void *base;
	uint64_t len;

	rw_begin_with("windows=100;ops=7;peers=3");
	CU_ASSERT_EQUAL_FATAL(sp_context_area(dut.dev, rw_context, &base, &len), 0);
	struct sp_rvma_area *area = base;
	CU_ASSERT_EQUAL(area->magic, 0x414D5652); /* "RVMA" */
	CU_ASSERT_EQUAL(area->version, SP_RVMA_AREA_VERSION);
	CU_ASSERT_EQUAL(area->qp, QP);
	CU_ASSERT_EQUAL(area->mtu, rw_mtu);
	CU_ASSERT(area->windows == 100 && area->ops == 7 && area->peers == 3);
	CU_ASSERT(area->bytes <= len && area->spill + 100 * 16 <= area->bytes);
	CU_ASSERT(area->window >= 64 && area->window + 100 * 64 <= area->op && area->op + 7 * 16 <= area->spill);
	CU_ASSERT(area->window % 64 == 0 && area->op % 16 == 0 && area->spill % 16 == 0);
	rw_stop();
}

TEST(a_configured_window_is_number_0)
{
	rw_begin_with("mailbox=0x11FF0011;key=5;threshold=2;epoch=ops;mode=managed;readable=yes;post-bytes=4096");
	CU_ASSERT_EQUAL(sp_nic_context_post_bytes(dut.nic, rw_context), 4096);
	rw_post(0, 0, 256, 0);
	rw_put(0x11FF0011, 5, APPEND, 10, 1);
	rw_put(0x11FF0011, 5, APPEND, 10, 2);
	CU_ASSERT(rw_told(0, 0, 20, 0, 0, 2));
	CU_ASSERT(rw_filled(0, 1, 10) && rw_filled(10, 2, 10));
	rw_get(0x11FF0011, 5, 0, 1, 0);
	CU_ASSERT_EQUAL(rw_refused(SP_RVMA_NO_ROOM), 1); /* readable */
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_CLOSE, 0, 0, 0, 0), 0);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_FREE, 0, 0, 0, 0), 0);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_FREE, 0, 0, 0, 0), -ENOENT);
	rw_stop();
}

TEST(a_wrong_setting_is_refused_by_its_name)
{
	static const char *const wrong[][2] = {
		{"session=maybe", "session"},
		{"mailbox=-1", "mailbox"},
		{"mailbox=0x1FFFFFFFFFFFFFFFF", "mailbox"},
		{"mailbox=7x", "mailbox"},
		{"mailbox=1;epoch=eons", "epoch"},
		{"mailbox=1;mode=odd", "mode"},
		{"mailbox=1;mode=region;epoch=ops", "mode"},
		{"window=3", "window"},
		{"timeout=0s", "timeout"},
		{"ack-delay=2s", "ack-delay"},
		{"mtu=63", "mtu"},
	};

	dut_start(&dut, 1);
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct sp_error error = {0};
		char all[128];
		uint32_t id;

		snprintf(all, sizeof(all), "qp=64;%s", wrong[i][0]);
		CU_ASSERT_NOT_EQUAL(dut_try_context(&dut, "c", "rvma", all, &id, &error), 0);
		CU_ASSERT_STRING_EQUAL(error.key, wrong[i][1]);
	}
	dut_stop(&dut);
}
