/* SPDX-License-Identifier: BSD-3-Clause */
/* Random numbers that nobody can guess, and those of a seed. */
#include "../../pipeline/generator.h"

#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/seccomp.h>

#include "../lib/suite.h"

static void words_of(const uint8_t *bytes, uint32_t *word, unsigned n)
{
	memcpy(word, bytes, n * sizeof(*word)); /* little endian, as ChaCha20 has it */
}

/* RFC 8439, 2.3.2 */
TEST(the_block_function_is_that_of_the_rfc)
{
	static const uint8_t nonce_bytes[12] = {0, 0, 0, 9, 0, 0, 0, 0x4A};
	static const uint32_t expected[16] = {0xE4E7F110, 0x15593BD1, 0x1FDD0F50, 0xC47120A3, 0xC7F4D1C7, 0x0368C033,
					      0x9AAA2204, 0x4E6CD4C3, 0x466482D2, 0x09AA9F07, 0x05D7C214, 0xA2028BD9,
					      0xD19C12B5, 0xB94E16DE, 0xE883D0CB, 0x4E3C50A2};
	uint8_t key_bytes[32];
	uint32_t key[8], nonce[3], out[16];

	for (unsigned i = 0; i < 32; i++)
		key_bytes[i] = (uint8_t)i;
	words_of(key_bytes, key, 8);
	words_of(nonce_bytes, nonce, 3);
	sp_chacha20_block(key, 1, nonce, out);
	CU_ASSERT_EQUAL(memcmp(out, expected, sizeof(out)), 0);
}

/* The pool is ChaCha20 under the key, whose first 32 bytes are the next key, over several fillings. */
TEST(secret_numbers_are_chacha20s_and_the_key_is_replaced)
{
	static const uint32_t nonce[3];
	struct sp_generator g = {.secret = true};
	uint32_t key[8];

	for (unsigned i = 0; i < 8; i++)
		g.key[i] = key[i] = 0x01020304 * i + 5;
	for (unsigned filling = 0; filling < 5; filling++) {
		uint64_t stream[SP_GENERATOR_BLOCKS * 8];

		for (uint32_t i = 0; i < SP_GENERATOR_BLOCKS; i++) {
			uint32_t block[16];

			sp_chacha20_block(key, i, nonce, block);
			memcpy(stream + 8 * i, block, sizeof(block));
		}
		for (unsigned i = 4; i < SP_GENERATOR_BLOCKS * 8; i++)
			CU_ASSERT_EQUAL(sp_generator_next(&g), stream[i]);
		CU_ASSERT_NOT_EQUAL(memcmp(g.key, key, sizeof(key)), 0);
		memcpy(key, stream, sizeof(key));
		CU_ASSERT_EQUAL(memcmp(g.key, key, sizeof(key)), 0);
		for (unsigned i = 0; i < SP_GENERATOR_BLOCKS * 8; i++) /* what was drawn is nowhere any more */
			CU_ASSERT_EQUAL(g.pool[i], 0);
	}
}

TEST(a_seed_repeats_and_the_kernel_does_not)
{
	static struct sp_generator g[4];
	uint64_t n[4];
	unsigned equal = 0;

	for (unsigned i = 0; i < 4; i++) {
		sp_generator_seed(&g[i], 5);
		if (i >= 2)
			CU_ASSERT_EQUAL(sp_generator_secret(&g[i]), 0);
	}
	for (unsigned draws = 0; draws < 1000; draws++) {
		for (unsigned i = 0; i < 4; i++)
			n[i] = sp_generator_next(&g[i]);
		CU_ASSERT_EQUAL(n[0], n[1]);
		equal += n[2] == n[0] || n[3] == n[0] || n[2] == n[3];
	}
	CU_ASSERT_EQUAL(equal, 0);
}

/* Chi square of bytes: 255 degrees of freedom, standard deviation 22.6. Wide bounds: once in many billion runs. */
TEST(secret_numbers_are_evenly_spread)
{
	static struct sp_generator g;
	static uint32_t seen[256], below[7];
	const unsigned draws = 1 << 16;
	const double each = draws * 8 / 256.0;
	double chi = 0;

	CU_ASSERT_EQUAL_FATAL(sp_generator_secret(&g), 0);
	for (unsigned i = 0; i < draws; i++) {
		const uint64_t n = sp_generator_next(&g);

		for (unsigned b = 0; b < 8; b++)
			seen[n >> 8 * b & 0xFF]++;
	}
	for (unsigned i = 0; i < 256; i++)
		chi += (seen[i] - each) * (seen[i] - each) / each;
	CU_ASSERT(chi > 100 && chi < 450);
	for (unsigned i = 0; i < 70000; i++) {
		const uint64_t n = sp_generator_below(&g, 7);

		CU_ASSERT_FATAL(n < 7);
		below[n]++;
	}
	for (unsigned i = 0; i < 7; i++)
		CU_ASSERT(below[i] > 9000 && below[i] < 11000);
}

/* In strict mode a process that makes any system call but read, write and exit is killed. */
TEST(drawing_makes_no_system_call)
{
	static struct sp_generator g;
	int status = -1;
	pid_t child;

	CU_ASSERT_EQUAL_FATAL(sp_generator_secret(&g), 0);
	fflush(NULL);
	child = fork();
	if (!child) {
		uint64_t sum = 0;

		if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
			syscall(SYS_exit, 2);
		for (unsigned i = 0; i < 1000000; i++)
			sum |= sp_generator_next(&g);
		syscall(SYS_exit, ~sum ? 3 : 0);
	}
	CU_ASSERT_EQUAL_FATAL(waitpid(child, &status, 0), child);
	CU_ASSERT_EQUAL(status, 0);
}
