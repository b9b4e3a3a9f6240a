/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a rule with many seeds: 50 times as many with SPINDLE_LONG=1, one with SPINDLE_SEED=N, a quarter with
 * AddressSanitizer. A failing run prints its seed; three failures end the rule. */
#ifndef TESTS_SEEDS_H
#define TESTS_SEEDS_H

#include <rte_mbuf.h>
#include <rte_mempool.h>
#include "../../pipeline/nic.h"
#include "../../testbed/random.h"
#include "suite.h"

struct seeds {
	const char *rule, *only;
	uint64_t seed; /* of the run that seeds_next() has begun */
	unsigned count, done, bad;
	uint64_t buffers; /* free packet buffers before it */
};

/* What is sent: the same bytes for the same seed and stream. bytes: a multiple of 8. */
void seeds_fill(uint8_t *to, size_t bytes, uint64_t seed, uint64_t stream);
/* Packet buffers of the process that nobody has. */
uint64_t seeds_buffers(void);
void seeds_eal(void);
struct seeds seeds_begin(const char *rule, unsigned count);
/* The next run: false when there is none. */
bool seeds_next(struct seeds *s);
/* After all that the run has made is gone: whether no packet buffer is lost. */
bool seeds_whole(const struct seeds *s);
/* What was wrong with it; "": nothing. */
void seeds_told(struct seeds *s, const char *wrong);

#endif
