/* SPDX-License-Identifier: BSD-3-Clause */
#include "seeds.h"

uint64_t seeds_buffers(void)
{
	struct rte_mbuf *m = sp_packet_alloc();
	struct rte_mempool *pool = m ? m->pool : NULL;

	rte_pktmbuf_free(m);
	return pool ? rte_mempool_avail_count(pool) : 0;
}

void seeds_fill(uint8_t *to, size_t bytes, uint64_t seed, uint64_t stream)
{
	struct sp_random x;

	sp_random_seed(&x, seed, stream);
	for (size_t i = 0; i < bytes; i += 8) {
		const uint64_t v = sp_random_next(&x);

		memcpy(to + i, &v, 8);
	}
}

void seeds_eal(void)
{
	static bool once;
	struct sp_error error;

	if (!once && sp_eal_init(0, NULL, &error)) {
		printf("Bail out! %s\n", error.text);
		exit(99);
	}
	once = true;
}

struct seeds seeds_begin(const char *rule, unsigned count)
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

bool seeds_next(struct seeds *s)
{
	if (s->bad == 3 || s->done == (s->only ? 1 : s->count))
		return false;
	s->done++;
	s->seed = s->only ? strtoull(s->only, NULL, 0) : s->done;
	s->buffers = seeds_buffers();
	return true;
}

bool seeds_whole(const struct seeds *s)
{
	return seeds_buffers() == s->buffers;
}

void seeds_told(struct seeds *s, const char *wrong)
{
	if (!*wrong)
		return;
	printf("# %s: SPINDLE_SEED=%llu %s\n", s->rule, (unsigned long long)s->seed, wrong);
	s->bad++;
}
