/* SPDX-License-Identifier: BSD-3-Clause */
#include "live_say.h"

void live_start(const char *kind, uint16_t workers)
{
	live_clear();
	dut_start(&dut, workers);
	live_load(&dut, kind);
}

uint32_t live_add(const char *name, const char *settings)
{
	return dut_context(&dut, name, "live", settings);
}

void live_say(uint64_t key, uint32_t verdict)
{
	live_feed(&dut, 5, key, verdict);
}

void live_settle(void)
{
	dut_settle(&dut, dut.nic->worker[0]->now);
}

unsigned live_collect(void)
{
	return sp_nic_handler_collect(dut.nic);
}

void live_replace(const char *kind)
{
	json_decref(live_reload(&dut, kind, 0));
}

void live_refused_at(const char *name, const char *file, int rc, const char *words, int line)
{
	struct sp_error error = {.key = ""};
	const unsigned unloads = live.unloads, loads = live.loads;
	const int got = live_try(&dut, name, file, 0, NULL, &error);

	if (got != rc || !strstr(error.text, words))
		printf("# line %d: %d '%s'\n", line, got, error.text);
	CU_ASSERT_EQUAL(got, rc);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, words));
	CU_ASSERT_EQUAL(live.loads - loads, live.unloads - unloads); /* what was loaded for it has gone */
}
