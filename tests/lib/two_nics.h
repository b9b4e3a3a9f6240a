/* SPDX-License-Identifier: BSD-3-Clause */
/* Two NICs with a perfect link and a device on each, in three ways: in virtual time, with threads, and attached
 * through their sockets. TEST_EACH_WAY makes three rules of one. */
#ifndef TESTS_TWO_NICS_H
#define TESTS_TWO_NICS_H

#include "../../host-api/device.h"
#include "../../testbed/link.h"
#include "../../testbed/world.h"
#include "cable.h"
#include "suite.h"

/* How the NICs of the next ends_make() run. */
extern enum two_mode { VIRTUAL, THREADS, ATTACHED } two_mode;

#define PATIENCE (60 * SP_SEC)

/* Virtual time has run as far as it should; with threads, what is to come may take its time. */
#define WAIT_FOR(condition)                                                                                            \
	do {                                                                                                           \
		const sp_time wait_until = sp_clock() + PATIENCE;                                                      \
		while (two_mode != VIRTUAL && !(condition) && sp_clock() < wait_until)                                 \
			usleep(100);                                                                                   \
		CU_ASSERT(condition);                                                                                  \
	} while (0)

struct two_end {
	struct sp_nic *nic;
	struct sp_server *server;
	struct sp_dev *dev;
};

extern struct two_end two_ends[2];
extern struct sp_link *two_link;
extern struct sp_world *two_world;
extern struct cable two_cable;
void two_bail(const struct sp_error *error);
void two_make(void);
void two_run(sp_time time);
/* Nothing of the library's own is left. */
void two_unmake(void);

/* The same rule three times. */
#define TEST_EACH_WAY(rule)                                                                                            \
	static void rule(void);                                                                                        \
	SUITE_RULE(rule##_virtual, #rule, NULL)                                                                        \
	{                                                                                                              \
		two_mode = VIRTUAL;                                                                                    \
		rule();                                                                                                \
	}                                                                                                              \
	TEST(rule##_with_threads)                                                                                      \
	{                                                                                                              \
		two_mode = THREADS;                                                                                    \
		rule();                                                                                                \
	}                                                                                                              \
	TEST(rule##_attached)                                                                                          \
	{                                                                                                              \
		two_mode = ATTACHED;                                                                                   \
		rule();                                                                                                \
	}                                                                                                              \
	static void rule(void)

#endif
