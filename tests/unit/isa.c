/* SPDX-License-Identifier: BSD-3-Clause */
/* Levels of instructions: which one a word chooses, and copies past the caches by each that the processor has. */
#include "../../handlers/isa/isa.h"
#include "../../handlers/stream_copy.h"
#include "../lib/suite.h"

#define ROOM 4096

TEST(a_level_is_chosen_by_its_name_up_to_the_best_one)
{
	static const char *const names[] = {"baseline", "avx2", "avx512"};
	enum sp_isa_level level;
	char why[256];

	for (unsigned best = 0; best < SP_ISA_LEVELS; best++) {
		CU_ASSERT_EQUAL(sp_isa_choose(NULL, best, &level, why, sizeof(why)), 0);
		CU_ASSERT_EQUAL(level, best);
		for (unsigned i = 0; i < SP_ISA_LEVELS; i++) {
			CU_ASSERT_STRING_EQUAL(sp_isa_name(i), names[i]);
			CU_ASSERT_EQUAL(sp_isa_choose(names[i], best, &level, why, sizeof(why)),
					i <= best ? 0 : -ENOTSUP);
			CU_ASSERT_EQUAL(level, i <= best ? i : best);
			if (i > best) /* both are named */
				CU_ASSERT(strstr(why, names[i]) && strstr(why, names[best]));
		}
	}
}

TEST(another_word_is_no_level)
{
	static const char *const words[] = {"", "AVX2", "avx", "avx5120", "base line"};
	enum sp_isa_level level;
	char why[256];

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		CU_ASSERT_EQUAL(sp_isa_choose(words[i], SP_ISA_AVX2, &level, why, sizeof(why)), -EINVAL);
		CU_ASSERT_EQUAL(level, SP_ISA_AVX2);
		CU_ASSERT_PTR_NOT_NULL(strstr(why, "baseline, avx2 and avx512"));
	}
}

/* LZCNT as the processor does it: without it, it is BSR. Some virtual machines have it, and their kernel lists no abm.
 */
static bool counts_zeros(void)
{
	uint64_t n = 1;

#if defined(__x86_64__)
	__asm__("lzcnt %0, %0" : "+r"(n) : : "cc");
#endif
	return n == 63;
}

/* The kernel of Linux lists what the processor has, too. */
TEST(the_processors_level_is_what_the_kernel_says)
{
	static const char *const needs[SP_ISA_LEVELS][16] = {
		[SP_ISA_AVX2] = {"avx2", "bmi1", "bmi2", "fma", "f16c", "movbe", "pclmulqdq"},
		[SP_ISA_AVX512] = {"avx512f", "avx512bw", "avx512vl", "avx512dq", "gfni", "vpclmulqdq"}};
	static char line[1 << 14], word[32];
	unsigned best = SP_ISA_BASELINE;
	bool all = counts_zeros(), wide = true;
	FILE *f = fopen("/proc/cpuinfo", "r");

	while (f && fgets(line, sizeof(line), f) && strncmp(line, "flags", 5))
		;
	if (f)
		fclose(f);
	line[strcspn(line, "\n")] = ' ';
	for (unsigned i = 0; i < 4; i++) { /* the first ones, of AVX-512 itself */
		snprintf(word, sizeof(word), " %s ", needs[SP_ISA_AVX512][i]);
		wide &= strstr(line, word) != NULL;
	}
	CU_ASSERT_EQUAL(sp_isa_wide(), wide);
	for (unsigned l = SP_ISA_AVX2; l < SP_ISA_LEVELS; l++) {
		for (unsigned i = 0; needs[l][i]; i++) {
			snprintf(word, sizeof(word), " %s ", needs[l][i]);
			all &= strstr(line, word) != NULL;
		}
		if (all)
			best = l;
	}
	CU_ASSERT_EQUAL(sp_isa_best(), best);
	CU_ASSERT(sp_isa_level() <= best);
	CU_ASSERT_EQUAL(sp_isa_lacks(best, line, sizeof(line))[0], 0);
	CU_ASSERT_EQUAL(sp_isa_lacks(SP_ISA_AVX512, line, sizeof(line))[0] == 0, best == SP_ISA_AVX512);
}

TEST(each_level_copies_lines_from_any_place_and_no_other_byte)
{
	static uint8_t from[ROOM + 64], to[ROOM] __attribute__((aligned(64))), want[ROOM];

	for (unsigned i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)(i * 31 + i / 256);
	for (unsigned level = 0; level <= sp_isa_best(); level++)
		for (uint32_t len = 0; len <= ROOM - 128; len += 64)
			for (unsigned at = 0; at < 64; at += 1 + len / 512) {
				memset(to, 0xA5, ROOM);
				memset(want, 0xA5, ROOM);
				memcpy(want + 64, from + at, len);
				sp_isa_stream_of(level)(to + 64, from + at, len);
				sp_stream_fence();
				CU_ASSERT_EQUAL_FATAL(memcmp(to, want, ROOM), 0);
			}
	CU_ASSERT_PTR_EQUAL(sp_isa_stream, sp_isa_stream_of(sp_isa_level()));
}
