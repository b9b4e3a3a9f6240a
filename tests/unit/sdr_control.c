/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams between two ends of an SDR connection: what the applications see. */
#include "../lib/datagrams.h"

TEST_EACH_WAY(datagrams_arrive_whole_without_receive_or_credit)
{
	static const uint32_t size[] = {4, 5, 7, 8, 0, 63, 64, 65, 500, LONGEST};
	const unsigned count = sizeof(size) / sizeof(*size);
	struct sdr_qp_attr in = qps_usual, out = qps_usual;
	struct sdr_qp_status status;
	uint32_t len;

	out.no_recv = in.no_send = true; /* directions are those of messages */
	qps_make(&out, &in);
	qps_join();
	sdr_qp_status(qp_a.qp, &status);
	CU_ASSERT_EQUAL(status.control_bytes, LONGEST);
	for (unsigned i = 0; i < count; i++) {
		CU_ASSERT_EQUAL(dgram_send(&qp_a, size[i] ? i + 1 : 0, size[i]), 0);
		CU_ASSERT_EQUAL(dgram_send(&qp_b, size[i] ? i + 100 : 0, size[i]), 0);
	}
	two_run(SP_MS);
	for (int back = 0; back < 2; back++) {
		struct qp_end *e = back ? &qp_a : &qp_b;

		WAIT_FOR(dgram_counter(e, "datagrams_received") == count);
		for (unsigned i = 0; i < count; i++) {
			CU_ASSERT_EQUAL(dgram_recv(e, &len), size[i] ? i + (back ? 100 : 1) : 0);
			CU_ASSERT_EQUAL(len, size[i]);
		}
		dgram_recv(e, &len);
		CU_ASSERT_EQUAL(len, UINT32_MAX);
		CU_ASSERT_EQUAL(dgram_lost(e), 0);
	}
	sdr_qp_status(qp_b.qp, &status);
	CU_ASSERT(!status.granted && !status.may_send);
	qps_unmake();
}

TEST_EACH_WAY(datagrams_have_bounds)
{
	struct sdr_qp_attr four = qps_usual;
	uint8_t bytes[2 * SDR_CONTROL_BYTES] = {0};
	uint32_t len;

	four.control_slots = 4;
	qps_make(&four, &qps_usual);
	CU_ASSERT_EQUAL(dgram_send(&qp_a, 1, 4), -ENOTCONN);
	CU_ASSERT_EQUAL(sdr_control_recv(qp_a.qp, bytes, 10), -EAGAIN);
	qps_join();
	CU_ASSERT_EQUAL(sdr_control_send(qp_a.qp, bytes, LONGEST + 1), -EMSGSIZE);
	CU_ASSERT_EQUAL(sdr_control_send(qp_a.qp, bytes, UINT32_MAX), -EMSGSIZE);
	CU_ASSERT_EQUAL(sdr_control_send(qp_a.qp, NULL, 0), 0);
	for (uint32_t i = 1; i < 5; i++) /* nothing has gone yet; where threads send, it may have */
		if (two_mode == VIRTUAL || i < 4)
			CU_ASSERT_EQUAL(dgram_send(&qp_a, i, 100), i < 4 ? 0 : -EAGAIN);
	two_run(SP_MS);
	WAIT_FOR(dgram_counter(&qp_b, "datagrams_received") == 4);
	CU_ASSERT_EQUAL(sdr_control_recv(qp_b.qp, NULL, 0), 0);
	CU_ASSERT_EQUAL(sdr_control_recv(qp_b.qp, bytes, 99), -EMSGSIZE);
	CU_ASSERT_EQUAL(sdr_control_recv(qp_b.qp, NULL, 0), -EMSGSIZE);
	CU_ASSERT_EQUAL(dgram_recv(&qp_b, &len), 1); /* it has stayed */
	CU_ASSERT_EQUAL(dgram_recv(&qp_b, &len), 2);
	CU_ASSERT_EQUAL(sdr_qp_disconnect(qp_b.qp), 0);
	CU_ASSERT_EQUAL(dgram_recv(&qp_b, &len), 3); /* had come before */
	CU_ASSERT_EQUAL(dgram_send(&qp_b, 1, 4), -ENOTCONN);
	CU_ASSERT_EQUAL(dgram_send(&qp_a, 1, 4), 0); /* there is room again */
	two_run(SP_MS);
	WAIT_FOR(sp_nic_dropped(qp_b.nic, "bad-control") == 1);
	dgram_recv(&qp_b, &len);
	CU_ASSERT_EQUAL(len, UINT32_MAX);
	qps_unmake();

	four.control_slots = 4097; /* only the handler knows this limit */
	qps_make(&qps_usual, &qps_usual);
	struct sp_error error;
	struct sdr_qp *qp;

	CU_ASSERT(sdr_qp_create(qp_a.context, &four, &qp, &error) < 0);
	CU_ASSERT_STRING_EQUAL(error.key, "control-slots");
	qps_unmake();
}

TEST_EACH_WAY(plain_peers_get_no_datagrams)
{
	struct sdr_qp_attr plain = qps_usual;
	struct sdr_qp_status status;
	uint8_t byte = 0;

	plain.implicit_credit = true;
	qps_make(&plain, &plain);
	qps_join();
	CU_ASSERT_EQUAL(sdr_control_send(qp_a.qp, &byte, 1), -EOPNOTSUPP);
	CU_ASSERT_EQUAL(sdr_control_recv(qp_a.qp, &byte, 1), -EOPNOTSUPP);
	sdr_qp_status(qp_a.qp, &status);
	CU_ASSERT_EQUAL(status.control_bytes, 0);
	qps_unmake();
}

TEST_EACH_WAY(the_oldest_make_room_and_are_counted)
{
	struct sdr_qp_attr four = qps_usual;
	uint32_t len, i;

	four.control_slots = 4;
	qps_make(&qps_usual, &four);
	qps_join();
	for (i = 1; i <= 3; i++)
		CU_ASSERT_EQUAL(dgram_send(&qp_a, i, 50), 0);
	two_run(SP_MS);
	WAIT_FOR(dgram_counter(&qp_b, "datagrams_received") == 3);
	CU_ASSERT_EQUAL(dgram_recv(&qp_b, &len), 1);
	for (; i <= 14; i++)
		CU_ASSERT_EQUAL(dgram_send(&qp_a, i, 50), 0);
	two_run(SP_MS);
	WAIT_FOR(dgram_counter(&qp_b, "datagrams_received") == 14);
	for (i = 11; i <= 14; i++) /* oldest first */
		CU_ASSERT_EQUAL(dgram_recv(&qp_b, &len), i);
	dgram_recv(&qp_b, &len);
	CU_ASSERT_EQUAL(len, UINT32_MAX);
	CU_ASSERT_EQUAL(dgram_lost(&qp_b), 9);
	CU_ASSERT_EQUAL(dgram_send(&qp_a, 20, 50), 0);
	two_run(SP_MS);
	WAIT_FOR(dgram_counter(&qp_b, "datagrams_received") == 15);
	CU_ASSERT_EQUAL(dgram_recv(&qp_b, &len), 20);
	dgram_recv(&qp_b, &len);
	CU_ASSERT_EQUAL(dgram_lost(&qp_b), 9);
	qps_unmake();
}

TEST_EACH_WAY(a_datagram_wakes_who_sleeps)
{
	uint32_t len;

	if (two_mode == VIRTUAL) /* nobody sleeps there */
		return;
	qps_make(&qps_usual, &qps_usual);
	qps_join();
	qps_settle(&qp_b);
	CU_ASSERT_EQUAL(sp_dev_arm(qp_b.dev), 0);
	CU_ASSERT_EQUAL(sp_dev_wait(qp_b.dev, 10 * SP_MS), -ETIMEDOUT);
	CU_ASSERT_EQUAL(sp_dev_arm(qp_b.dev), 0);
	CU_ASSERT_EQUAL(dgram_send(&qp_a, 7, 10), 0);
	CU_ASSERT_EQUAL(sp_dev_wait(qp_b.dev, PATIENCE), 0);
	WAIT_FOR(dgram_counter(&qp_b, "datagrams_received") == 1);
	CU_ASSERT_EQUAL(dgram_recv(&qp_b, &len), 7);
	qps_unmake();
}

TEST_EACH_WAY(the_end_of_the_context_is_told)
{
	struct sdr_qp_status status;
	uint8_t byte = 0;

	qps_make(&qps_usual, &qps_usual);
	qps_join();
	sdr_qp_status(qp_b.qp, &status);
	CU_ASSERT_EQUAL(sp_nic_context_remove(qp_b.nic, status.id), 0);
	CU_ASSERT_EQUAL(sdr_control_recv(qp_b.qp, &byte, 1), -ECONNRESET);
	CU_ASSERT_EQUAL(sdr_control_send(qp_b.qp, &byte, 1), -ECONNRESET);
	qps_unmake();
}

/* ---- beside data, in virtual time ---- */
static sp_time whole, again; /* when the message was there; when the flood goes on */
static uint64_t said, heard;
static struct sdr_recv *message;

static void flood(void *arg, sp_time now)
{
	uint32_t len;
	again = whole == SP_NEVER ? now + SP_US : SP_NEVER;
	while (whole == SP_NEVER && dgram_send(&qp_a, 1, LONGEST) == 0)
		said++;
	for (dgram_recv(&qp_b, &len); len != UINT32_MAX; dgram_recv(&qp_b, &len))
		heard++;
	if (whole == SP_NEVER && sdr_recv_test(message) == 0)
		whole = now;
}

static sp_time flood_next(void *arg)
{
	return again;
}

static bool is_whole(void *arg)
{
	return whole != SP_NEVER;
}

/* How long a message of 64 KiB takes from A to B. */
static sp_time transfer(uint64_t rate, bool floods)
{
	const struct sp_world_host host = {.step = flood, .next = flood_next};
	struct sdr_qp_attr attr = qps_usual;
	struct sdr_send *s;

	two_mode = VIRTUAL;
	attr.rate_bps = rate;
	qps_make(&attr, &qps_usual);
	qps_join();
	CU_ASSERT_EQUAL(sdr_recv_post(qp_b.qp, qp_b.mr, 0, 65536, &message), 0);
	two_run(10 * SP_MS);
	whole = SP_NEVER;
	said = heard = again = 0;
	if (floods)
		CU_ASSERT_EQUAL(sp_world_add_host(two_world, &host), 0);
	two_run(2 * SP_MS); /* the port has what it holds */
	sp_time start = sp_world_now(two_world);
	CU_ASSERT_EQUAL(sdr_send_post(qp_a.qp, qp_a.mr, 0, 65536, 0, &s), 0);
	while (whole == SP_NEVER && sp_world_now(two_world) < start + SP_SEC) {
		CU_ASSERT(sp_world_run(two_world, sp_world_now(two_world) + SP_US, is_whole, NULL) >= 0);
		if (whole == SP_NEVER && sdr_recv_test(message) == 0)
			whole = sp_world_now(two_world);
	}
	CU_ASSERT_NOT_EQUAL(whole, SP_NEVER);
	CU_ASSERT_EQUAL(memcmp(qp_a.bytes, qp_b.bytes, 65536), 0);
	two_run(SP_MS);
	qps_unmake();
	return whole - start;
}

TEST(a_flood_leaves_half_the_port_to_data)
{
	const sp_time alone = transfer(0, false) - 50 * SP_US, beside = transfer(0, true) - 50 * SP_US;

	printf("# 64 KiB in %.1f us, beside a flood in %.1f us with %u datagrams\n", (double)alone / SP_US,
	       (double)beside / SP_US, (unsigned)heard);
	/* What was in the queues of port and wire when the message began is ahead of it: 512 packets. */
	CU_ASSERT(beside < 2 * alone + 512 * 900 * SP_NS + 10 * SP_US);
	CU_ASSERT(heard > 2000);
}

TEST(datagrams_do_not_wait_for_the_pace_nor_slow_it)
{
	const sp_time alone = transfer(20000000, false), beside = transfer(20000000, true);

	printf("# 64 KiB in %.1f us, beside a flood in %.1f us with %u datagrams\n", (double)alone / SP_US,
	       (double)beside / SP_US, (unsigned)heard);
	CU_ASSERT(beside < alone + SP_MS);
	CU_ASSERT(heard > 100); /* some 64 packets have gone: they were not counted in the pace */
}

TEST(a_datagram_overtakes_data_that_is_paced)
{
	struct sdr_qp_attr slow = qps_usual;
	struct sdr_recv *r;
	struct sdr_send *s;
	uint32_t len;

	two_mode = VIRTUAL;
	slow.rate_bps = 1000000; /* a packet takes 9 ms */
	qps_make(&slow, &qps_usual);
	qps_join();
	CU_ASSERT_EQUAL(sdr_recv_post(qp_b.qp, qp_b.mr, 0, 65536, &r), 0);
	two_run(10 * SP_MS);
	CU_ASSERT_EQUAL(sdr_send_post(qp_a.qp, qp_a.mr, 0, 65536, 0, &s), 0);
	two_run(20 * SP_MS);
	CU_ASSERT_EQUAL(dgram_send(&qp_a, 3, 500), 0);
	two_run(100 * SP_US);
	CU_ASSERT_EQUAL(dgram_recv(&qp_b, &len), 3);
	two_run(SP_SEC);
	CU_ASSERT_EQUAL(sdr_recv_test(r), 0);
	qps_unmake();
}
