/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ChaCha20 is written here as no library fits: arc4random(3) of glibc 2.36 makes a system call per number, libcrypto
 * takes locks, and would be linked into every program with a NIC in it.
 */
#include "generator.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

static inline uint64_t rotl(uint64_t x, int k)
{
	return x << k | x >> (64 - k);
}

static inline uint32_t rotl32(uint32_t x, int k)
{
	return x << k | x >> (32 - k);
}

static inline void quarter(uint32_t *a, uint32_t *b, uint32_t *c, uint32_t *d)
{
	*a += *b;
	*d = rotl32(*d ^ *a, 16);
	*c += *d;
	*b = rotl32(*b ^ *c, 12);
	*a += *b;
	*d = rotl32(*d ^ *a, 8);
	*c += *d;
	*b = rotl32(*b ^ *c, 7);
}

void sp_chacha20_block(const uint32_t key[8], uint32_t counter, const uint32_t nonce[3], uint32_t out[16])
{
	uint32_t in[16] = {0x61707865, 0x3320646E, 0x79622D32, 0x6B206574};
	uint32_t x[16];

	memcpy(in + 4, key, 8 * sizeof(*key));
	in[12] = counter;
	memcpy(in + 13, nonce, 3 * sizeof(*nonce));
	memcpy(x, in, sizeof(x));
	for (unsigned i = 0; i < 10; i++) {
		quarter(&x[0], &x[4], &x[8], &x[12]);
		quarter(&x[1], &x[5], &x[9], &x[13]);
		quarter(&x[2], &x[6], &x[10], &x[14]);
		quarter(&x[3], &x[7], &x[11], &x[15]);
		quarter(&x[0], &x[5], &x[10], &x[15]);
		quarter(&x[1], &x[6], &x[11], &x[12]);
		quarter(&x[2], &x[7], &x[8], &x[13]);
		quarter(&x[3], &x[4], &x[9], &x[14]);
	}
	for (unsigned i = 0; i < 16; i++)
		out[i] = x[i] + in[i];
}

/* The first words become the next key. */
static void fill(struct sp_generator *g)
{
	static const uint32_t nonce[3];
	uint32_t block[16];

	for (uint32_t i = 0; i < SP_GENERATOR_BLOCKS; i++) {
		sp_chacha20_block(g->key, i, nonce, block);
		memcpy(g->pool + 8 * i, block, sizeof(block));
	}
	memcpy(g->key, g->pool, sizeof(g->key));
	explicit_bzero(g->pool, sizeof(g->key));
	explicit_bzero(block, sizeof(block));
	g->left = (sizeof(g->pool) - sizeof(g->key)) / sizeof(*g->pool);
}

void sp_seed_words(uint64_t *word, unsigned n, uint64_t seed)
{
	for (unsigned i = 0; i < n; i++) {
		uint64_t x = seed += 0x9E3779B97F4A7C15ull;

		x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
		x = (x ^ x >> 27) * 0x94D049BB133111EBull;
		word[i] = x ^ x >> 31;
	}
}

void sp_generator_seed(struct sp_generator *g, uint64_t seed)
{
	memset(g, 0, sizeof(*g));
	sp_seed_words(g->state, 4, seed);
}

int sp_generator_secret(struct sp_generator *g)
{
	uint32_t key[8];
	ssize_t got;

	do
		got = getrandom(key, sizeof(key), 0);
	while (got < 0 && errno == EINTR);
	if (got != sizeof(key)) /* up to 256 bytes are never cut short */
		return got < 0 ? -errno : -EIO;
	memcpy(g->key, key, sizeof(key));
	explicit_bzero(key, sizeof(key));
	g->left = 0;
	g->secret = true;
	return 0;
}

/* xoshiro256** by Blackman and Vigna (public domain) */
static uint64_t seeded(uint64_t *s)
{
	const uint64_t result = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotl(s[3], 45);
	return result;
}

uint64_t sp_generator_next(struct sp_generator *g)
{
	uint64_t *at, number;

	if (!g->secret)
		return seeded(g->state);
	if (!g->left)
		fill(g);
	at = &g->pool[sizeof(g->pool) / sizeof(*g->pool) - g->left--];
	number = *at;
	*at = 0;
	return number;
}

uint64_t sp_generator_below(struct sp_generator *g, uint64_t limit)
{
	return (uint64_t)((unsigned __int128)sp_generator_next(g) * limit >> 64);
}
