/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The testbed's random numbers: xoshiro256** (Blackman, Vigna 2018), seeded through splitmix64 so that neighbouring
 * seeds give unrelated streams. Not the C library's: the same seed must give the same run on every machine.
 */
#ifndef TESTBED_RANDOM_H
#define TESTBED_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct sp_random {
	uint64_t s[4];
};

static inline uint64_t sp_splitmix(uint64_t *state)
{
	uint64_t z = *state += 0x9E3779B97F4A7C15u;

	z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
	z = (z ^ z >> 27) * 0x94D049BB133111EBu;
	return z ^ z >> 31;
}

/* stream: several independent generators from one seed. */
static inline void sp_random_seed(struct sp_random *r, uint64_t seed, uint64_t stream)
{
	uint64_t state = seed;

	state = sp_splitmix(&state) ^ stream * 0xD1342543DE82EF95u;
	for (int i = 0; i < 4; i++)
		r->s[i] = sp_splitmix(&state);
}

static inline uint64_t sp_random_next(struct sp_random *r)
{
	uint64_t *s = r->s, x = s[1] * 5, result = (x << 7 | x >> 57) * 9, t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = s[3] << 45 | s[3] >> 19;
	return result;
}

/* True with probability p: never for 0, always for 1. */
static inline bool sp_random_chance(struct sp_random *r, double p)
{
	return (double)(sp_random_next(r) >> 11) * 0x1p-53 < p;
}

#endif
