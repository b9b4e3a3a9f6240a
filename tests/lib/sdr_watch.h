/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks every frame that leaves against the rules of the wire and notes every frame that arrives. Receives are
 * compared with these notes. */
#ifndef TESTS_SDR_WATCH_H
#define TESTS_SDR_WATCH_H

#include "sdr_params.h"

#define PAIR_JUNK 2

struct pair_end {
	struct pair *pair;
	unsigned end;
};

bool pair_seen(void *arg, bool in, const uint8_t *frame, uint32_t len, uint64_t tag, sp_time now);

#endif
