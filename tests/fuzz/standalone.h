/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bounded stand-in for libFuzzer, so that builds without clang fuzz too (gcc -DFUZZ_STANDALONE, best under ASan):
 *   program [COUNT [SEED]]    COUNT mutations (FUZZ_COUNT) of the built-in inputs; the same SEED, the same bytes
 *   program FILE...           runs these inputs (a crash that libFuzzer kept, a corpus)
 * Every input is a malloc of exactly its size, so that ASan sees a read one byte past its end.
 * The includer defines LLVMFuzzerTestOneInput and calls fuzz_standalone() from main().
 */
#ifndef TESTS_FUZZ_STANDALONE_H
#define TESTS_FUZZ_STANDALONE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __SANITIZE_ADDRESS__
#define FUZZ_COUNT 100000 /* each takes several times as long */
#else
#define FUZZ_COUNT 200000
#endif
#define FUZZ_MAX 4096 /* bytes of one input */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline uint64_t fuzz_random(uint64_t *state) /* splitmix64 */
{
	uint64_t z = *state += 0x9E3779B97F4A7C15u;

	z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
	z = (z ^ z >> 27) * 0x94D049BB133111EBu;
	return z ^ z >> 31;
}

static inline int fuzz_input(const uint8_t *bytes, size_t len)
{
	uint8_t *exact = malloc(len ? len : 1);

	if (!exact)
		return -1;
	memcpy(exact, bytes, len);
	LLVMFuzzerTestOneInput(len ? exact : exact + 1, len); /* also an empty input has no readable byte */
	free(exact);
	return 0;
}

/* One change in place; returns the new length. What is changed leans towards the front: that is where headers are. */
static inline size_t fuzz_mutate(uint8_t *b, size_t len, uint64_t *state, const uint8_t *other, size_t other_len)
{
	static const uint8_t interesting[] = {0,    1,	  4,	5,    7,    8,	  0x0F, 0x10,
					      0x40, 0x45, 0x4F, 0x60, 0x7F, 0x80, 0x81, 0xFF};
	uint64_t r = fuzz_random(state), v = fuzz_random(state);
	size_t at = len ? (r >> 8) % (r & 0x80 && len > 80 ? 80 : len) : 0, n;

	switch (r & 0x7F ? (r & 0x7F) % 9 : 9) {
	case 0: /* a bit */
		if (len)
			b[at] ^= 1u << (v & 7);
		return len;
	case 1:
		if (len)
			b[at] = (uint8_t)v;
		return len;
	case 2:
		if (len)
			b[at] = interesting[v % sizeof(interesting)];
		return len;
	case 3: /* a number near by: lengths that are one off */
		if (len)
			b[at] += (uint8_t)(v % 9) - 4;
		return len;
	case 4: /* a 16-bit field */
		if (len - at >= 2 && len) {
			uint16_t word = v & 0x10000 ? (uint16_t)v : v & 0x20000 ? (uint16_t)len : interesting[v % 16];
			b[at] = word >> 8, b[at + 1] = (uint8_t)word;
		}
		return len;
	case 5: /* cut off */
		return at;
	case 6: /* longer */
		n = v % 64;
		n = n < FUZZ_MAX - len ? n : FUZZ_MAX - len;
		for (size_t i = 0; i < n; i++)
			b[len + i] = (uint8_t)fuzz_random(state);
		return len + n;
	case 7: /* bytes out */
		n = v % 16;
		n = n < len - at ? n : len - at;
		memmove(b + at, b + at + n, len - at - n);
		return len - n;
	case 8: /* bytes in */
		n = v % 16;
		n = n < FUZZ_MAX - len ? n : FUZZ_MAX - len;
		memmove(b + at + n, b + at, len - at);
		return len + n;
	default: /* the tail of another input */
		n = at < other_len ? other_len - at : 0;
		memcpy(b + at, other + at, n);
		return at + n;
	}
}

static inline int fuzz_files(int argc, char **argv)
{
	static uint8_t bytes[1 << 20];

	for (int i = 1; i < argc; i++) {
		FILE *f = fopen(argv[i], "rb");

		if (!f) {
			perror(argv[i]);
			return 2;
		}
		size_t len = fread(bytes, 1, sizeof(bytes), f);
		fclose(f);
		if (fuzz_input(bytes, len))
			return 2;
	}
	return 0;
}

/* Returns what main() should. */
__attribute__((unused)) static int fuzz_standalone(int argc, char **argv, const uint8_t *const *seed,
						   const size_t *seed_len, size_t seeds)
{
	char *end = NULL;
	unsigned long long count = argc > 1 ? strtoull(argv[1], &end, 0) : FUZZ_COUNT;
	uint64_t state = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	uint8_t bytes[FUZZ_MAX];

	if (argc > 1 && (*end || end == argv[1]))
		return fuzz_files(argc, argv);
	for (size_t i = 0; i < seeds; i++)
		if (seed_len[i] > FUZZ_MAX || fuzz_input(seed[i], seed_len[i]))
			return 2;
	for (unsigned long long i = 0; i < count && seeds; i++) {
		size_t from = fuzz_random(&state) % seeds, other = fuzz_random(&state) % seeds, len = seed_len[from];
		unsigned changes = 1 + fuzz_random(&state) % 4;

		memcpy(bytes, seed[from], len);
		while (changes--)
			len = fuzz_mutate(bytes, len, &state, seed[other], seed_len[other]);
		if (fuzz_input(bytes, len))
			return 2;
	}
	printf("%llu inputs\n", count + seeds);
	return 0;
}

#endif
