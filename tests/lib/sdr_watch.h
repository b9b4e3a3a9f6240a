/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What goes over the wires, as the taps see it: every packet that leaves is checked against the rules of the wire,
 * every packet that comes is noted. These notes, and nothing that the NIC says, are what receives are compared with.
 */
#ifndef TESTS_SDR_WATCH_H
#define TESTS_SDR_WATCH_H

#include "sdr_params.h"

#define PAIR_JUNK 2

struct pair_end {
	struct pair *rig;
	unsigned end;
};

bool pair_seen(void *arg, bool in, const uint8_t *frame, uint32_t len, uint64_t tag, sp_time now);

#endif
