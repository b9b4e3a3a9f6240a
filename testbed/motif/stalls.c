/* SPDX-License-Identifier: BSD-3-Clause */
#include "stalls.h"

#include <errno.h>
#include <stdlib.h>

#include "links.h"

int stalls_create(struct stalls *s, const struct goal_detours *detours, uint32_t ranks, bool together, uint64_t seed)
{
	if (goal_detours_share(detours) > STALLS_SHARE_MAX)
		return -ERANGE;
	s->detours = detours;
	s->phase = calloc(ranks, sizeof(*s->phase));
	if (!s->phase)
		return -ENOMEM;
	for (uint32_t rank = 0; rank < ranks && !together; rank++) {
		struct sp_random random;

		sp_random_seed(&random, seed, rank);
		s->phase[rank] = sp_random_next(&random) % detours->period;
	}
	return 0;
}

void stalls_free(struct stalls *s)
{
	free(s->phase);
	s->phase = NULL;
}

sp_time stalls_stretch(void *stalls, uint32_t rank, uint8_t cpu, sp_time from, sp_time work)
{
	const struct stalls *s = stalls;
	const sp_time begin = from % s->detours->period + s->phase[rank];
	sp_time added = 0, more = goal_detours_added(s->detours, begin, work);

	(void)cpu;
	/* Later by some detours, it meets more of them. */
	while (more > added && work + more < LINKS_TIME_MAX) {
		added = more;
		more = goal_detours_added(s->detours, begin, work + added);
	}
	return from + work + more;
}
