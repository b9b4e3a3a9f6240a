/* SPDX-License-Identifier: BSD-3-Clause */
/* The sdr_ calls of libspindle on two real NICs with a perfect link between them, three times: in virtual time; with
 * NICs that have threads of their own; and attached to such NICs, through their sockets. */
#include "../lib/sdr_qps.h"

TEST_EACH_WAY(one_shots_arrive_in_order_of_posting)
{
	struct sdr_recv *r[3];
	struct sdr_send *s[3];
	const uint64_t size[3] = {10000, 0, 65536};
	struct sdr_recv_status status;
	const uint64_t *bitmap;
	uint64_t chunks;
	uint32_t imm, mask;

	qps_make(&qps_usual, &qps_usual);
	qps_join();
	for (unsigned i = 0; i < 3; i++)
		CU_ASSERT_EQUAL(sdr_send_post(qp_a.qp, qp_a.mr, i * 100000, size[i], 0x11111111 * (i + 1), &s[i]), 0);
	two_run(10 * SP_MS);
	CU_ASSERT_EQUAL(sdr_send_poll(s[0]), -EAGAIN); /* nothing is posted over there */
	for (unsigned i = 0; i < 3; i++)
		CU_ASSERT_EQUAL(sdr_recv_post(qp_b.qp, qp_b.mr, i * 100000, 65536, &r[i]), 0);
	two_run(10 * SP_MS);
	for (unsigned i = 0; i < 3; i++) {
		if (two_mode != VIRTUAL) {
			CU_ASSERT_EQUAL(sdr_send_wait(s[i], PATIENCE), 0);
			CU_ASSERT_EQUAL(sdr_recv_wait(r[i], SDR_WAIT_ALL, NULL, PATIENCE), 0);
		} else {
			CU_ASSERT_EQUAL(sdr_send_poll(s[i]), 0);
		}
		CU_ASSERT_EQUAL(sdr_recv_test(r[i]), 0);
		sdr_recv_status(r[i], &status);
		CU_ASSERT(status.complete && status.length_known && status.length == size[i] && status.message == i);
		CU_ASSERT_EQUAL(status.packets, size[i] ? (size[i] + MTU - 1) / MTU : 1);
		sdr_recv_bitmap_get(r[i], &bitmap, &chunks);
		CU_ASSERT_EQUAL(chunks, size[i] ? (size[i] + CHUNK - 1) / CHUNK : 1);
		CU_ASSERT_EQUAL(bitmap[0], (1ull << chunks) - 1);
		CU_ASSERT_EQUAL(memcmp(qp_a.bytes + i * 100000, qp_b.bytes + i * 100000, size[i]), 0);
		CU_ASSERT_EQUAL(qp_b.bytes[i * 100000 + size[i]], 0);
		/* eight packets carry it whole, one carries four bits */
		CU_ASSERT_EQUAL(sdr_recv_imm_get(r[i], &imm, &mask), i == 1 ? -ENODATA : 0);
		CU_ASSERT_EQUAL(imm, i == 1 ? 2 : 0x11111111 * (i + 1));
		CU_ASSERT_EQUAL(mask, i == 1 ? 15 : UINT32_MAX);
	}
	for (unsigned i = 0; i < 3; i++)
		qps_complete(r[i]);
	qps_unmake();
}

TEST_EACH_WAY(streams_fill_any_chunks_and_fill_gaps_later)
{
	struct sdr_recv *r;
	struct sdr_send *s;
	const uint64_t *bitmap;
	uint64_t chunks, words[2], packets;

	qps_make(&qps_usual, &qps_usual);
	qps_join();
	CU_ASSERT_EQUAL(sdr_recv_post(qp_b.qp, qp_b.mr, 0, 65536, &r), 0);
	CU_ASSERT_EQUAL(sdr_send_stream_start(qp_a.qp, 20000, 9, &s), 0);
	CU_ASSERT_EQUAL(sdr_send_stream_continue(s, qp_a.mr, 16384, 20000 - 16384, 16384), 0);
	CU_ASSERT_EQUAL(sdr_send_stream_continue(s, qp_a.mr, 4096, 2 * MTU, 4096), 0);
	CU_ASSERT_EQUAL(sdr_send_stream_continue(s, qp_a.mr, 4096, 2 * MTU, 4097), -EINVAL);
	CU_ASSERT_EQUAL(sdr_send_stream_continue(s, qp_a.mr, 4096, 2 * MTU + 1, 4096), -EINVAL);
	CU_ASSERT_EQUAL(sdr_send_stream_continue(s, qp_a.mr, 0, 8192, 16384), -EINVAL);
	two_run(5 * SP_MS);
	WAIT_FOR(sdr_send_poll(s) == 0); /* all so far; the stream goes on */
	WAIT_FOR(qps_packets_of(r) == 6);
	sdr_recv_bitmap_get(r, &bitmap, &chunks);
	CU_ASSERT_EQUAL(chunks, 5);
	CU_ASSERT_EQUAL(bitmap[0], 1u << 4);
	CU_ASSERT_EQUAL(sdr_recv_packets_get(r, 1, words, 2, &packets), 0);
	CU_ASSERT(packets == 4 && words[0] == 3);
	CU_ASSERT_EQUAL(sdr_recv_packets_get(r, 4, words, 2, &packets), 0);
	CU_ASSERT(packets == 4 && words[0] == 15);
	CU_ASSERT_EQUAL(sdr_recv_packets_get(r, 5, words, 2, &packets), -ERANGE);
	CU_ASSERT_EQUAL(sdr_recv_packets_get(r, 1, words, 0, &packets), -ENOSPC);
	CU_ASSERT_EQUAL(sdr_send_stream_continue(s, qp_a.mr, 0, 16384, 0), 0);
	CU_ASSERT_EQUAL(sdr_send_stream_end(s), 0);
	CU_ASSERT_EQUAL(sdr_send_stream_continue(s, qp_a.mr, 0, 16384, 0), -EINVAL);
	two_run(5 * SP_MS);
	CU_ASSERT_EQUAL(sdr_send_wait(s, two_mode == VIRTUAL ? 0 : PATIENCE), 0);
	WAIT_FOR(sdr_recv_test(r) == 0);
	CU_ASSERT_EQUAL(memcmp(qp_a.bytes, qp_b.bytes, 20000), 0);
	qps_unmake();
}

/* What the library needs of the area's first line it has read when the queue pair was made, and the NIC reads nothing
 * there: with several workers, where their counts are depends on it. */
TEST_EACH_WAY(the_areas_first_line_is_read_once)
{
	struct sdr_qp_status status;
	struct sdr_recv *r;
	struct sdr_send *s;
	uint64_t len;
	void *area;

	if (two_mode == ATTACHED) /* it is another process's to write there */
		return;
	qps_make(&qps_usual, &qps_usual);
	qps_join();
	sdr_qp_status(qp_b.qp, &status);
	CU_ASSERT_EQUAL_FATAL(sp_context_area(qp_b.dev, status.id, &area, &len), 0);
	memset(area, 0xFF, 64);
	CU_ASSERT_EQUAL(sdr_recv_post(qp_b.qp, qp_b.mr, 0, 65536, &r), 0);
	CU_ASSERT_EQUAL(sdr_send_stream_start(qp_a.qp, 16 * MTU, 9, &s), 0);
	CU_ASSERT_EQUAL(sdr_send_stream_continue(s, qp_a.mr, 4 * MTU, 5 * MTU, 4 * MTU), 0);
	two_run(5 * SP_MS);
	WAIT_FOR(qps_packets_of(r) == 5);
	CU_ASSERT_EQUAL(sdr_send_stream_continue(s, qp_a.mr, 0, 4 * MTU, 0), 0);
	two_run(5 * SP_MS);
	WAIT_FOR(qps_packets_of(r) == 9);
	CU_ASSERT_EQUAL(sdr_send_stream_continue(s, qp_a.mr, 9 * MTU, 7 * MTU, 9 * MTU), 0);
	CU_ASSERT_EQUAL(sdr_send_stream_end(s), 0);
	two_run(5 * SP_MS);
	WAIT_FOR(sdr_recv_test(r) == 0);
	CU_ASSERT_EQUAL(qps_packets_of(r), 16);
	CU_ASSERT_EQUAL(memcmp(qp_a.bytes, qp_b.bytes, 16 * MTU), 0);
	CU_ASSERT_EQUAL(sdr_send_wait(s, two_mode == VIRTUAL ? 0 : PATIENCE), 0);
	qps_complete(r);
	qps_unmake();
}

TEST_EACH_WAY(a_receive_completed_early_takes_nothing_more)
{
	struct sdr_recv *r;
	struct sdr_send *s;

	qps_make(&qps_usual, &qps_usual);
	qps_join();
	CU_ASSERT_EQUAL(sdr_recv_post(qp_b.qp, qp_b.mr, 0, 65536, &r), 0);
	CU_ASSERT_EQUAL(sdr_send_stream_start(qp_a.qp, 8192, 0, &s), 0);
	CU_ASSERT_EQUAL(sdr_send_stream_continue(s, qp_a.mr, 0, 4096, 0), 0);
	two_run(5 * SP_MS);
	WAIT_FOR(qps_packets_of(r) == 4);
	qps_complete(r);
	memset(qp_b.bytes, 0xEE, 65536);
	CU_ASSERT_EQUAL(sdr_send_stream_continue(s, qp_a.mr, 0, 8192, 0), 0);
	two_run(5 * SP_MS);
	WAIT_FOR(sp_nic_dropped(qp_b.nic, "late") == 8);
	for (unsigned i = 0; i < 65536; i++)
		if (qp_b.bytes[i] != 0xEE)
			CU_FAIL("a late packet was written");
	qps_unmake();
}

TEST_EACH_WAY(handles_and_ranges_are_bounded)
{
	struct sdr_recv *r;
	struct sdr_send *s;

	qps_make(&qps_usual, &qps_usual);
	CU_ASSERT_EQUAL(sdr_send_post(qp_a.qp, qp_a.mr, 0, 1, 0, &s), -ENOTCONN);
	qps_join();
	CU_ASSERT_EQUAL(sdr_recv_post(qp_b.qp, qp_b.mr, ROOM - 10, 11, &r), -EFAULT);
	CU_ASSERT_EQUAL(sdr_recv_post(qp_b.qp, qp_b.mr, UINT64_MAX, 2, &r), -EFAULT);
	CU_ASSERT_EQUAL(sdr_recv_post(qp_b.qp, qp_b.mr, 0, 65537, &r), -EINVAL);
	CU_ASSERT_EQUAL(sdr_recv_post(qp_b.qp, qp_a.mr, 0, 1, &r), -EINVAL); /* another NIC's memory */
	CU_ASSERT_EQUAL(sdr_send_post(qp_a.qp, qp_a.mr, ROOM, 1, 0, &s), -EFAULT);
	CU_ASSERT_EQUAL(sdr_send_post(qp_a.qp, NULL, 0, 1, 0, &s), -EINVAL);
	for (unsigned i = 0; i < 5; i++) {
		CU_ASSERT_EQUAL(sdr_recv_post(qp_b.qp, qp_b.mr, 0, 1, &r), i < 4 ? 0 : -EAGAIN);
		CU_ASSERT_EQUAL(sdr_send_stream_start(qp_a.qp, 1, 0, &s), i < 4 ? 0 : -EAGAIN);
	}
	qps_settle(&qp_b);
	CU_ASSERT_EQUAL(sdr_mr_dereg(qp_b.mr), -EBUSY); /* posted */
	qps_unmake();
}

TEST_EACH_WAY(ends_that_do_not_fit_do_not_connect)
{
	struct sdr_qp_attr other = qps_usual;
	struct sdr_qp_info info;

	other.generations = 2;
	qps_make(&qps_usual, &other);
	sdr_qp_info_get(qp_b.qp, &info);
	CU_ASSERT_EQUAL(sdr_qp_connect(qp_a.qp, &info), -EPROTO);
	CU_ASSERT_STRING_EQUAL(sdr_qp_mismatch(qp_a.qp, &info), "generations");
	sdr_qp_info_get(qp_a.qp, &info);
	info.ec_m = 1;
	CU_ASSERT_EQUAL(sdr_qp_connect(qp_a.qp, &info), -EPROTO);
	CU_ASSERT_STRING_EQUAL(sdr_qp_mismatch(qp_a.qp, &info), "ec");
	sdr_qp_info_get(qp_a.qp, &info);
	info.magic = __builtin_bswap32(info.magic);
	CU_ASSERT_EQUAL(sdr_qp_connect(qp_a.qp, &info), -EPROTO);
	qps_unmake();

	other = (struct sdr_qp_attr){.mtu = 4096, .chunk_bytes = 4096};
	qps_make(&other, &other);
	sdr_qp_info_get(qp_b.qp, &info);
	CU_ASSERT_EQUAL(sdr_qp_connect(qp_a.qp, &info), -EMSGSIZE); /* the port has 1500 */
	qps_unmake();
}

TEST_EACH_WAY(impossible_queue_pairs_name_the_parameter)
{
	struct sdr_qp_attr bad = qps_usual;
	struct sp_error error;
	struct sdr_qp *qp;

	qps_make(&qps_usual, &qps_usual);
	bad.chunk_bytes = 1500;
	CU_ASSERT_EQUAL(sdr_qp_create(qp_a.context, &bad, &qp, &error), -EINVAL);
	CU_ASSERT_STRING_EQUAL(error.key, "chunk-bytes");
	bad = qps_usual;
	bad.max_messages = 2000;
	CU_ASSERT_EQUAL(sdr_qp_create(qp_a.context, &bad, &qp, &error), -EINVAL);
	CU_ASSERT_STRING_EQUAL(error.key, "max-messages");
	bad = qps_usual;
	bad.split = "1+2+3";
	CU_ASSERT_EQUAL(sdr_qp_create(qp_a.context, &bad, &qp, NULL), -EINVAL);
	bad = qps_usual;
	bad.segments = UINT32_MAX;
	CU_ASSERT_EQUAL(sdr_qp_create(qp_a.context, &bad, &qp, &error), -EINVAL);
	CU_ASSERT_STRING_EQUAL(error.key, "segments");
	bad = qps_usual;
	for (unsigned i = 0; i < 3; i++) {
		bad.mtu = (uint32_t[]){63, 4097, UINT32_MAX}[i];
		CU_ASSERT_EQUAL(sdr_qp_create(qp_a.context, &bad, &qp, &error), -EINVAL);
		CU_ASSERT_STRING_EQUAL(error.key, "mtu");
	}
	bad = qps_usual;
	bad.max_message_bytes = 1ull << 40;
	CU_ASSERT_EQUAL(sdr_qp_create(qp_a.context, &bad, &qp, &error), -EINVAL);
	CU_ASSERT_STRING_EQUAL(error.key, "max-message-bytes");
	bad = qps_usual;
	bad.generations = UINT32_MAX;
	CU_ASSERT_EQUAL(sdr_qp_create(qp_a.context, &bad, &qp, &error), -EINVAL);
	CU_ASSERT_STRING_EQUAL(error.key, "generations");
	qps_unmake();
}

TEST_EACH_WAY(queue_pairs_get_numbers_that_do_not_overlap)
{
	struct sdr_qp *qp[3], *taken;
	struct sdr_qp_info i[4];
	struct sdr_qp_attr three = qps_usual;

	three.generations = 3;
	qps_make(&qps_usual, &qps_usual);
	sdr_qp_info_get(qp_a.qp, &i[0]);
	for (int n = 0; n < 3; n++) {
		CU_ASSERT_EQUAL_FATAL(sdr_qp_create(qp_a.context, n ? &qps_usual : &three, &qp[n], NULL), 0);
		sdr_qp_info_get(qp[n], &i[n + 1]);
	}
	for (int n = 0; n < 4; n++)
		for (int m = 0; m < n; m++) {
			CU_ASSERT(i[n].qpn >= i[m].qpn + i[m].generations || i[m].qpn >= i[n].qpn + i[n].generations);
			CU_ASSERT_NOT_EQUAL(i[n].control_qpn, i[m].control_qpn);
		}
	three.qpn = i[0].qpn + 1;
	CU_ASSERT_EQUAL(sdr_qp_create(qp_a.context, &three, &taken, NULL), -EADDRINUSE);
	for (int n = 0; n < 3; n++)
		CU_ASSERT_EQUAL(sdr_qp_destroy(qp[n]), 0);
	qps_unmake();
}

/* In real time, on one NIC alone: what can be waited for without a peer. */
TEST_EACH_WAY(waiting_ends_with_the_event_or_the_timeout)
{
	struct sdr_recv *r;
	uint64_t seen = 0;

	qps_make(&qps_usual, &qps_usual);
	qps_join();
	CU_ASSERT_EQUAL(sdr_recv_post(qp_b.qp, qp_b.mr, 0, 65536, &r), 0);
	sp_time start = sp_clock();
	CU_ASSERT_EQUAL(sdr_recv_wait(r, SDR_WAIT_ALL, NULL, 20 * SP_MS), -ETIMEDOUT);
	CU_ASSERT(sp_clock() - start >= 20 * SP_MS);
	CU_ASSERT_EQUAL(sdr_recv_wait(r, SDR_WAIT_ANY, &seen, 0), -ETIMEDOUT);
	CU_ASSERT_EQUAL(sdr_recv_wait(r, SDR_WAIT_ANY, NULL, 0), -EINVAL);
	CU_ASSERT_EQUAL(sdr_recv_complete_wait(r, SP_SEC), 0);
	qps_unmake();
}

TEST_EACH_WAY(disconnecting_gives_the_buffers_back)
{
	struct sdr_send *s, *t;
	struct sdr_qp_status status;

	qps_make(&qps_usual, &qps_usual);
	qps_join();
	CU_ASSERT_EQUAL(sdr_send_post(qp_a.qp, qp_a.mr, 0, 5000, 0, &s), 0);
	CU_ASSERT_EQUAL(sdr_send_stream_start(qp_a.qp, 5000, 0, &t), 0);
	qps_settle(&qp_a);
	CU_ASSERT_EQUAL(sdr_send_poll(s), -EAGAIN);
	CU_ASSERT_EQUAL(sdr_qp_disconnect(qp_a.qp), 0);
	CU_ASSERT_EQUAL(sdr_send_poll(s), 0);
	CU_ASSERT_EQUAL(sdr_send_poll(t), 0);
	CU_ASSERT_EQUAL(sdr_qp_disconnect(qp_a.qp), -ENOTCONN);
	sdr_qp_status(qp_a.qp, &status);
	CU_ASSERT(status.closed && !status.connected && !status.error);
	CU_ASSERT_EQUAL(sdr_send_post(qp_a.qp, qp_a.mr, 0, 5000, 0, &s), -ENOTCONN);
	qps_unmake();
}

TEST_EACH_WAY(calls_after_the_nic_has_ended_the_context_say_so)
{
	struct sdr_recv *r, *open, *t;
	struct sdr_send *s, *u;
	struct sdr_qp_status status;
	struct sdr_recv_status rs;
	struct sdr_qp_info info;
	struct sp_mr *mr;
	const uint64_t *bitmap;
	uint64_t chunks, words[2], packets, seen = 0;
	uint32_t imm;

	qps_make(&qps_usual, &qps_usual);
	qps_join();
	CU_ASSERT_EQUAL_FATAL(sdr_mr_alloc(qp_b.context, 65536, &mr), 0);
	CU_ASSERT_EQUAL(sdr_recv_post(qp_b.qp, qp_b.mr, 0, 65536, &r), 0);
	CU_ASSERT_EQUAL(sdr_recv_post(qp_b.qp, mr, 0, 65536, &open), 0);
	CU_ASSERT_EQUAL(sdr_send_post(qp_a.qp, qp_a.mr, 0, 65536, 7, &s), 0);
	CU_ASSERT_EQUAL(sdr_send_stream_start(qp_b.qp, 5000, 0, &u), 0);
	two_run(5 * SP_MS);
	qps_settle(&qp_b);
	WAIT_FOR(sdr_recv_test(r) == 0);
	sdr_recv_bitmap_get(r, &bitmap, &chunks);
	CU_ASSERT_EQUAL(sdr_mr_dereg(mr), -EBUSY);
	sdr_qp_status(qp_b.qp, &status);
	CU_ASSERT_EQUAL(sp_nic_context_remove(qp_b.nic, status.id), 0);

	CU_ASSERT_EQUAL(sdr_recv_test(r), -ECONNRESET);
	CU_ASSERT_EQUAL(sdr_recv_test(open), -ECONNRESET);
	CU_ASSERT_EQUAL(bitmap[0], 0); /* still to be read, and wiped: the message was given up */
	CU_ASSERT_EQUAL(sdr_recv_bitmap_get(r, &bitmap, &chunks), -ECONNRESET);
	CU_ASSERT_EQUAL(sdr_recv_packets_get(r, 0, words, 2, &packets), -ECONNRESET);
	CU_ASSERT_EQUAL(sdr_recv_imm_get(r, &imm, NULL), -ECONNRESET);
	CU_ASSERT_EQUAL(sdr_recv_status(r, &rs), -ECONNRESET);
	CU_ASSERT_EQUAL(sdr_recv_wait(open, SDR_WAIT_ANY, &seen, SP_SEC), -ECONNRESET);
	CU_ASSERT_EQUAL(sdr_recv_complete(r), -ECONNRESET);
	CU_ASSERT_EQUAL(sdr_recv_complete_wait(open, SP_SEC), -ECONNRESET);
	CU_ASSERT_EQUAL(sdr_recv_post(qp_b.qp, qp_b.mr, 0, 1, &t), -ECONNRESET);
	CU_ASSERT_EQUAL(sdr_send_post(qp_b.qp, qp_b.mr, 0, 1, 0, &s), -ECONNRESET);
	CU_ASSERT_EQUAL(sdr_send_stream_continue(u, qp_b.mr, 0, MTU, 0), -ECONNRESET);
	CU_ASSERT_EQUAL(sdr_send_stream_end(u), -ECONNRESET);
	CU_ASSERT_EQUAL(sdr_send_poll(u), -ECONNRESET);
	CU_ASSERT_EQUAL(sdr_send_wait(u, SP_SEC), -ECONNRESET);
	CU_ASSERT_EQUAL(sdr_qp_disconnect(qp_b.qp), -ECONNRESET);
	sdr_qp_info_get(qp_a.qp, &info);
	CU_ASSERT_EQUAL(sdr_qp_connect(qp_b.qp, &info), -ECONNRESET);
	CU_ASSERT_EQUAL(sdr_qp_status(qp_b.qp, &status), 0);
	CU_ASSERT_EQUAL(status.error, -ECONNRESET);
	CU_ASSERT_EQUAL(sdr_mr_dereg(mr), 0); /* posted no longer */
	qps_unmake();
}

TEST_EACH_WAY(a_receive_that_is_whole_says_so_without_a_look_at_events)
{
	struct sp_command wrong = {.op = 0x7FFF};
	struct sdr_recv_status rs;
	struct sdr_qp_status status;
	struct sdr_recv *r;
	struct sdr_send *s;

	qps_make(&qps_usual, &qps_usual);
	qps_join();
	CU_ASSERT_EQUAL(sdr_recv_post(qp_b.qp, qp_b.mr, 0, 65536, &r), 0);
	CU_ASSERT_EQUAL(sdr_send_post(qp_a.qp, qp_a.mr, 0, 65536, 7, &s), 0);
	two_run(5 * SP_MS);
	WAIT_FOR(sdr_recv_test(r) == 0);
	sdr_qp_status(qp_b.qp, &status);
	wrong.context = status.id;
	CU_ASSERT_EQUAL(sp_command_post(qp_b.dev, &wrong), 0);
	two_run(5 * SP_MS);
	CU_ASSERT_EQUAL(sdr_recv_test(r), 0); /* the event that ends it may be there */
	WAIT_FOR(sdr_recv_status(r, &rs) == -EIO);
	CU_ASSERT_EQUAL(sdr_recv_test(r), -EIO);
	qps_unmake();
}

/* The first that notices need not be sdr_recv_test(). */
TEST_EACH_WAY(the_first_call_after_the_end_of_the_context_says_so)
{
	struct sdr_qp_status status;
	struct sdr_recv *r;
	uint32_t imm;

	for (int what = 0; what < 3; what++) {
		qps_make(&qps_usual, &qps_usual);
		qps_join();
		CU_ASSERT_EQUAL(sdr_recv_post(qp_b.qp, qp_b.mr, 0, 65536, &r), 0);
		sdr_qp_status(qp_b.qp, &status);
		CU_ASSERT_EQUAL(sp_nic_context_remove(qp_b.nic, status.id), 0);
		CU_ASSERT_EQUAL(what == 0   ? sdr_recv_imm_get(r, &imm, NULL)
				: what == 1 ? sdr_qp_disconnect(qp_b.qp)
					    : sdr_recv_complete(r),
				-ECONNRESET);
		qps_unmake();
	}
}

TEST_EACH_WAY(parity_repairs_what_was_not_sent)
{
	struct sdr_qp_attr coded = qps_usual;
	struct sdr_qp_status status;
	struct sdr_recv *r, *rp;
	struct sdr_send *s, *sp;
	struct sp_mr *out, *in;
	struct sdr_ec codes[SDR_EC_CODES];

	coded.ec = (struct sdr_ec){.code = SDR_CODE_MDS, .k = 4, .m = 2};
	qps_make(&coded, &coded);
	CU_ASSERT_EQUAL(sdr_send_parity(qp_a.qp, qp_a.mr, 0, 1, qp_a.mr, 0, &sp), -ENOTCONN);
	qps_join();
	CU_ASSERT_EQUAL(sdr_ec_parity_bytes(qp_a.qp, 0), 0);
	CU_ASSERT_EQUAL(sdr_ec_parity_bytes(qp_a.qp, 1), CHUNK);
	CU_ASSERT_EQUAL(sdr_ec_parity_bytes(qp_a.qp, 4 * CHUNK), 2 * CHUNK);
	CU_ASSERT_EQUAL(sdr_ec_parity_bytes(qp_a.qp, 4 * CHUNK + 1), 3 * CHUNK);
	CU_ASSERT_EQUAL(sdr_mr_alloc(qp_a.context, 3 * CHUNK, &out), 0);
	CU_ASSERT_EQUAL(sdr_mr_alloc(qp_b.context, 3 * CHUNK, &in), 0);
	CU_ASSERT_EQUAL(sdr_send_parity(qp_a.qp, qp_a.mr, 0, 1, out, 0, &sp), -EINVAL); /* of no message */
	CU_ASSERT_EQUAL(sdr_recv_post(qp_b.qp, qp_b.mr, 0, 5 * CHUNK, &r), 0);
	CU_ASSERT_EQUAL(sdr_recv_post(qp_b.qp, in, 0, 3 * CHUNK, &rp), 0);
	/* All but chunks 1 and 2. */
	CU_ASSERT_EQUAL(sdr_send_stream_start(qp_a.qp, 5 * CHUNK, 9, &s), 0);
	CU_ASSERT_EQUAL(sdr_send_stream_continue(s, qp_a.mr, 0, CHUNK, 0), 0);
	CU_ASSERT_EQUAL(sdr_send_stream_continue(s, qp_a.mr, 3 * CHUNK, 2 * CHUNK, 3 * CHUNK), 0);
	CU_ASSERT_EQUAL(sdr_send_parity(qp_a.qp, qp_a.mr, 0, 65537, out, 0, &sp), -EINVAL);
	CU_ASSERT_EQUAL(sdr_send_parity(qp_a.qp, qp_a.mr, qp_a.mr->len, 1, out, 0, &sp), -EFAULT);
	CU_ASSERT_EQUAL(sdr_send_parity(qp_a.qp, qp_a.mr, 0, 5 * CHUNK, out, 1, &sp), -EFAULT);
	CU_ASSERT_EQUAL(sdr_send_parity(qp_a.qp, qp_a.mr, 0, 5 * CHUNK, NULL, 0, &sp), -EINVAL);
	CU_ASSERT_EQUAL(sdr_send_parity(qp_a.qp, qp_a.mr, 0, 5 * CHUNK, out, 0, &sp), 0);
	CU_ASSERT_EQUAL(sdr_send_message(sp), 1);
	two_run(10 * SP_MS);
	WAIT_FOR(sdr_recv_test(r) == 0 && sdr_recv_test(rp) == 0);
	CU_ASSERT_EQUAL(memcmp(qp_a.bytes, qp_b.bytes, 5 * CHUNK), 0);
	CU_ASSERT_EQUAL(two_mode == VIRTUAL ? sdr_send_poll(sp) : sdr_send_wait(sp, PATIENCE), 0);
	sdr_qp_status(qp_b.qp, &status);
	CU_ASSERT_EQUAL(status.repaired, 2);
	CU_ASSERT_EQUAL(status.repaired_runs, 1);
	CU_ASSERT_EQUAL(sdr_send_stream_end(s), 0);
	qps_complete(r);
	qps_complete(rp);
	/* Of another of its codes: all but chunk 0. */
	CU_ASSERT_EQUAL(sdr_ec_codes(qp_a.qp, codes), 3);
	CU_ASSERT(codes[0].k == 4 && codes[0].m == 2 && codes[1].k == 4 && codes[1].m == 1);
	CU_ASSERT(codes[1].code == SDR_CODE_MDS && codes[2].k == 2 && codes[2].m == 1);
	CU_ASSERT_EQUAL(sdr_recv_post(qp_b.qp, qp_b.mr, 0, 4 * CHUNK, &r), 0);
	CU_ASSERT_EQUAL(sdr_recv_post(qp_b.qp, in, 0, 2 * CHUNK, &rp), 0);
	CU_ASSERT_EQUAL(sdr_send_stream_start(qp_a.qp, 4 * CHUNK, 9, &s), 0);
	CU_ASSERT_EQUAL(sdr_send_stream_continue(s, qp_a.mr, 2 * CHUNK, 3 * CHUNK, CHUNK), 0);
	CU_ASSERT_EQUAL(sdr_send_parity_of(qp_a.qp, 3, qp_a.mr, CHUNK, 4 * CHUNK, out, 0, &sp), -EINVAL);
	CU_ASSERT_EQUAL(sdr_send_parity_of(qp_a.qp, UINT_MAX, qp_a.mr, CHUNK, 4 * CHUNK, out, 0, &sp), -EINVAL);
	CU_ASSERT_EQUAL(sdr_send_parity_of(qp_a.qp, 1, qp_a.mr, CHUNK, 4 * CHUNK, out, 0, &sp), 0);
	two_run(10 * SP_MS);
	WAIT_FOR(sdr_recv_test(r) == 0 && sdr_recv_test(rp) == 0);
	CU_ASSERT_EQUAL(memcmp(qp_a.bytes + CHUNK, qp_b.bytes, 4 * CHUNK), 0);
	CU_ASSERT_EQUAL(two_mode == VIRTUAL ? sdr_send_poll(sp) : sdr_send_wait(sp, PATIENCE), 0);
	sdr_qp_status(qp_b.qp, &status);
	CU_ASSERT_EQUAL(status.repaired, 3);
	CU_ASSERT_EQUAL(status.repaired_runs, 2);
	CU_ASSERT_EQUAL(sdr_send_stream_end(s), 0);
	qps_complete(r);
	qps_complete(rp);
	CU_ASSERT_EQUAL(sdr_mr_dereg(out), 0);
	CU_ASSERT_EQUAL(sdr_mr_dereg(in), 0);
	qps_unmake();

	qps_make(&qps_usual, &qps_usual);
	qps_join();
	CU_ASSERT_EQUAL(sdr_ec_parity_bytes(qp_a.qp, 1), 0);
	CU_ASSERT_EQUAL(sdr_ec_codes(qp_a.qp, codes), 0);
	CU_ASSERT_EQUAL(sdr_send_parity(qp_a.qp, qp_a.mr, 0, 1, qp_a.mr, 0, &sp), -EOPNOTSUPP);
	qps_unmake();
}
