/* SPDX-License-Identifier: BSD-3-Clause */
/* Compares the results with what was expected. Each difference goes to standard error, with the option. */
#ifndef COMMAND_REPLAY_EXPECT_H
#define COMMAND_REPLAY_EXPECT_H

#include "state.h"

int replay_expect_check(struct replay *r); /* can the expectations be read? 0, or -errno after a message */
void replay_expect_memory(struct replay *r);
void replay_expect_rest(struct replay *r); /* report and recording, which must be complete */

#endif
