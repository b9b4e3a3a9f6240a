/* SPDX-License-Identifier: BSD-3-Clause */
/* The rig of one test program, and short words for what most tests of a handler that is replaced do. */
#ifndef TESTS_LIVE_SAY_H
#define TESTS_LIVE_SAY_H

#include "live_rig.h"

static inline void start(const char *kind, uint16_t workers)
{
	live_clear();
	dut_start(&dut, workers);
	live_load(&dut, kind);
}

static inline uint32_t add(const char *name, const char *settings)
{
	return dut_context(&dut, name, "live", settings);
}

static inline void feed(uint64_t key, uint32_t verdict)
{
	live_feed(&dut, 5, key, verdict);
}

static inline void run(void)
{
	dut_settle(&dut, dut.nic->worker[0]->now);
}

static inline unsigned collect(void)
{
	return sp_nic_handler_collect(dut.nic);
}

static inline void reload(const char *kind)
{
	json_decref(live_reload(&dut, kind, 0));
}

static inline void refused_at(const char *name, const char *file, int rc, const char *words, int line)
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
#define REFUSED(name, file, rc, words) refused_at(name, file, rc, words, __LINE__)

#endif
