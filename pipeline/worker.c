/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker.h"

static inline uint64_t rotl(uint64_t x, int k)
{
	return x << k | x >> (64 - k);
}

/* xoshiro256** by Blackman and Vigna (public domain) */
uint64_t sp_worker_random(struct sp_worker *w)
{
	uint64_t *s = w->random, result = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotl(s[3], 45);
	return result;
}
