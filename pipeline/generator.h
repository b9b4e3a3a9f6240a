/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random numbers. Of a seed, so that runs repeat; or of getrandom(2), for what a stranger must not guess. The second
 * kind is a pool that ChaCha20 fills under a key from the kernel: drawing makes no system call, and a pool is never
 * empty. Each filling replaces the key, and a number that was drawn leaves the pool, so the memory of a NIC tells
 * nothing about numbers drawn before. One thread at a time.
 */
#ifndef PIPELINE_GENERATOR_H
#define PIPELINE_GENERATOR_H

#include <stdbool.h>
#include <stdint.h>

#define SP_GENERATOR_BLOCKS 4 /* ChaCha20 blocks of a filling */

struct sp_generator {
	uint64_t state[4]; /* xoshiro256** */
	bool secret;
	unsigned left; /* numbers in the pool */
	uint32_t key[8];
	uint64_t pool[SP_GENERATOR_BLOCKS * 8];
};

void sp_generator_seed(struct sp_generator *g, uint64_t seed);
/* From here on the numbers come from getrandom(2), not from the seed. -errno: the kernel gave none; nothing changes. */
int sp_generator_secret(struct sp_generator *g);
uint64_t sp_generator_next(struct sp_generator *g);
/* 0 to limit - 1, each as likely as the others to within limit / 2^64. */
uint64_t sp_generator_below(struct sp_generator *g, uint64_t limit);
/* The block function of ChaCha20 (RFC 8439, 2.3). */
void sp_chacha20_block(const uint32_t key[8], uint32_t counter, const uint32_t nonce[3], uint32_t out[16]);

/* splitmix64 */
void sp_seed_words(uint64_t *word, unsigned n, uint64_t seed);

#endif
