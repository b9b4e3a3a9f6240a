/* SPDX-License-Identifier: BSD-3-Clause */
/* Two workers put datagrams into the few slots of an SDR connection while the application takes them out: what it gets
 * is whole and comes once, and what it does not get is counted. */
#include "../lib/datagrams.h"

static void flood(uint32_t slots)
{
	enum { MOST = 10000 };
	const uint32_t count = suite_times(MOST);
	struct sdr_qp_attr few = qps_usual;
	static uint8_t times[MOST];
	const sp_time until = sp_clock() + PATIENCE;
	uint32_t sent = 0, got = 0, len, number;

	few.control_slots = slots;
	memset(times, 0, sizeof(times));
	qps_make(&qps_usual, &few);
	two_cable.wire[0].spread = true;
	qps_join();
	while (sp_clock() < until) {
		if (sent < count && dgram_send(&qp_a, sent, 8 + sent % 1000) == 0)
			sent++;
		number = dgram_recv(&qp_b, &len);
		if (len != UINT32_MAX) {
			got++;
			CU_ASSERT_FATAL(number < count && len == 8 + number % 1000);
			CU_ASSERT_EQUAL(times[number]++, 0);
		} else if (sent == count && dgram_counter(&qp_a, "datagrams_sent") == count &&
			   dgram_counter(&qp_b, "datagrams_received") + sp_nic_dropped(qp_b.nic, "datagram-busy") ==
				   count) {
			break;
		}
	}
	for (dgram_recv(&qp_b, &len); len != UINT32_MAX; dgram_recv(&qp_b, &len))
		got++;
	CU_ASSERT_EQUAL(sent, count);
	CU_ASSERT(got > 0);
	CU_ASSERT_EQUAL(got + dgram_lost(&qp_b), dgram_counter(&qp_b, "datagrams_received"));
	qps_unmake();
}

TEST(datagrams_that_two_workers_take_in_stay_whole)
{
	two_mode = THREADS;
	flood(3);
	flood(1); /* both write to the same one */
}

TEST(datagrams_that_two_workers_take_in_stay_whole_attached)
{
	two_mode = ATTACHED;
	flood(3);
	flood(1);
}
