/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rule under many seeds, each a run in virtual time of its own: fifty times as many with SPINDLE_LONG=1, only the one
 * with SPINDLE_SEED=N, fewer where AddressSanitizer looks at addresses, not at values. A run that finds something wrong
 * is told with its seed, and after three of them it is enough.
 */
#ifndef TESTS_PROPERTY_SEEDS_H
#define TESTS_PROPERTY_SEEDS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_mbuf.h>
#include <rte_mempool.h>

#include "../../pipeline/nic.h"
#include "../../testbed/random.h"
#include "../lib/suite.h"

struct seeds {
	const char *rule, *only;
	uint64_t seed; /* of the run that seeds_next() has begun */
	unsigned count, done, bad;
	uint64_t buffers; /* free packet buffers before it */
};

/* Packet buffers of the process that nobody has. */
static inline uint64_t seeds_buffers(void)
{
	struct rte_mbuf *m = sp_packet_alloc();
	struct rte_mempool *pool = m ? m->pool : NULL;

	rte_pktmbuf_free(m);
	return pool ? rte_mempool_avail_count(pool) : 0;
}

/* What is sent: the same bytes for the same seed and stream. bytes: a multiple of 8. */
static inline void seeds_fill(uint8_t *to, size_t bytes, uint64_t seed, uint64_t stream)
{
	struct sp_random x;

	sp_random_seed(&x, seed, stream);
	for (size_t i = 0; i < bytes; i += 8) {
		const uint64_t v = sp_random_next(&x);

		memcpy(to + i, &v, 8);
	}
}

static inline void seeds_eal(void)
{
	static bool once;
	struct sp_error error;

	if (!once && sp_eal_init(0, NULL, &error)) {
		printf("Bail out! %s\n", error.text);
		exit(99);
	}
	once = true;
}

static inline struct seeds seeds_begin(const char *rule, unsigned count)
{
	const char *more = getenv("SPINDLE_LONG");
	struct seeds s = {.rule = rule, .only = getenv("SPINDLE_SEED"), .count = count};

	seeds_eal();
	if (more && *more && strcmp(more, "0"))
		s.count *= 50;
#ifdef __SANITIZE_ADDRESS__
	else
		s.count = (count + 3) / 4;
#endif
	return s;
}

/* The next run: false when there is none. */
static inline bool seeds_next(struct seeds *s)
{
	if (s->bad == 3 || s->done == (s->only ? 1 : s->count))
		return false;
	s->done++;
	s->seed = s->only ? strtoull(s->only, NULL, 0) : s->done;
	s->buffers = seeds_buffers();
	return true;
}

/* After all that the run has made is gone: whether no packet buffer is lost. */
static inline bool seeds_whole(const struct seeds *s)
{
	return seeds_buffers() == s->buffers;
}

/* What was wrong with it; "": nothing. */
static inline void seeds_told(struct seeds *s, const char *wrong)
{
	if (!*wrong)
		return;
	printf("# %s: SPINDLE_SEED=%llu %s\n", s->rule, (unsigned long long)s->seed, wrong);
	s->bad++;
}

#endif
