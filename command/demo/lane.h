/* SPDX-License-Identifier: BSD-3-Clause */
/* One transfer of the file by one scheme, in virtual time of its own: two NICs, a link, a program on each. */
#ifndef COMMAND_DEMO_LANE_H
#define COMMAND_DEMO_LANE_H

#include "record.h"

/* Runs the transfer and compares what arrived. 0, or 1 after a message. */
int demo_lane_run(const struct demo *d, struct demo_lane *l);
void demo_lane_free(struct demo_lane *l);

#endif
