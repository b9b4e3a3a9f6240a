/* SPDX-License-Identifier: BSD-3-Clause */
#include "message_nic.h"

PROBE(hashed, "hashed", SP_MESSAGES_HASHED, NULL, NULL)
PROBE(hashed_burst, "hashed-burst", SP_MESSAGES_HASHED, NULL, probe_burst)
PROBE(slots_plain, "slots-plain", SP_MESSAGES_SLOTS, NULL, NULL)
PROBE(slots, "slots", SP_MESSAGES_SLOTS, probe_miss, NULL)

uint32_t message_begin(const char *handler, const char *settings)
{
	char all[128];

	probe_log_clear();
	dut_start(&dut, 1);
	snprintf(all, sizeof(all), "qp=64;%s", settings);
	return dut_context(&dut, "c", handler, all);
}

void message_stop(void)
{
	dut_check_totals(&dut);
	dut_stop(&dut);
	probe_log_clear();
}

void message_say(struct probe_words w)
{
	probe_feed(&dut, QP, &w);
}

struct probe_call *message_last(void)
{
	CU_ASSERT_FATAL(probe_log.n > 0);
	return &probe_log.call[probe_log.n - 1];
}
