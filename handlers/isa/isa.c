/* SPDX-License-Identifier: BSD-3-Clause */
/* Compiled for every x86-64: it must run where the rest cannot. */
#include "isa.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

static const char *const names[SP_ISA_LEVELS] = {"baseline", "avx2", "avx512"};

/* Read-only once known, which is before main(). */
static struct feature {
	enum sp_isa_level level; /* the first that has it */
	const char *name;
	bool there;
} feature[] = {{SP_ISA_AVX2, "AVX2"},	    {SP_ISA_AVX2, "BMI1"},	  {SP_ISA_AVX2, "BMI2"},
	       {SP_ISA_AVX2, "FMA"},	    {SP_ISA_AVX2, "F16C"},	  {SP_ISA_AVX2, "MOVBE"},
	       {SP_ISA_AVX2, "LZCNT"},	    {SP_ISA_AVX2, "PCLMULQDQ"},	  {SP_ISA_AVX512, "AVX512F"},
	       {SP_ISA_AVX512, "AVX512BW"}, {SP_ISA_AVX512, "AVX512VL"},  {SP_ISA_AVX512, "AVX512DQ"},
	       {SP_ISA_AVX512, "GFNI"},	    {SP_ISA_AVX512, "VPCLMULQDQ"}};
#define FEATURES (sizeof(feature) / sizeof(*feature))
static enum sp_isa_level level, best;
static bool wide, known;

#if defined(__x86_64__)
static bool cpuid_ecx(uint32_t leaf, unsigned bit)
{
	uint32_t a, b, c, d;

	return __get_cpuid(leaf, &a, &b, &c, &d) && c >> bit & 1;
}

/* What is of AVX counts only if the system saves its registers: the compiler's function asks for that. */
static void look(void)
{
	__builtin_cpu_init();
	const bool there[FEATURES] = {__builtin_cpu_supports("avx2") != 0,
				      __builtin_cpu_supports("bmi") != 0,
				      __builtin_cpu_supports("bmi2") != 0,
				      __builtin_cpu_supports("fma") != 0,
				      cpuid_ecx(1, 29),
				      cpuid_ecx(1, 22),
				      cpuid_ecx(0x80000001, 5),
				      __builtin_cpu_supports("pclmul") != 0,
				      __builtin_cpu_supports("avx512f") != 0,
				      __builtin_cpu_supports("avx512bw") != 0,
				      __builtin_cpu_supports("avx512vl") != 0,
				      __builtin_cpu_supports("avx512dq") != 0,
				      __builtin_cpu_supports("gfni") != 0,
				      __builtin_cpu_supports("vpclmulqdq") != 0};

	for (unsigned i = 0; i < FEATURES; i++)
		feature[i].there = there[i];
}
#else
static void look(void)
{
}
#endif

static bool complete(enum sp_isa_level l)
{
	for (unsigned i = 0; i < FEATURES; i++)
		if (feature[i].level <= l && !feature[i].there)
			return false;
	return true;
}

static bool there(const char *name)
{
	for (unsigned i = 0; i < FEATURES; i++)
		if (!strcmp(feature[i].name, name))
			return feature[i].there;
	return false;
}

/* Of a program with more rights than its user has, too: all levels compute the same. */
__attribute__((constructor)) static void find_out(void)
{
	if (known)
		return;
	look();
	wide = there("AVX512F") && there("AVX512BW") && there("AVX512VL") && there("AVX512DQ");
	best = complete(SP_ISA_AVX512) ? SP_ISA_AVX512 : complete(SP_ISA_AVX2) ? SP_ISA_AVX2 : SP_ISA_BASELINE;
	sp_isa_choose(getenv("SPINDLE_ISA"), best, &level, NULL, 0);
	known = true;
}

enum sp_isa_level sp_isa_level(void)
{
	find_out(); /* another constructor may come first */
	return level;
}

enum sp_isa_level sp_isa_best(void)
{
	find_out();
	return best;
}

bool sp_isa_wide(void)
{
	find_out();
	return wide;
}

const char *sp_isa_name(enum sp_isa_level l)
{
	return names[l];
}

const char *sp_isa_lacks(enum sp_isa_level l, char *text, size_t room)
{
	size_t used = 0;

	find_out();
	*text = 0;
	for (unsigned i = 0; i < FEATURES && used < room; i++)
		if (feature[i].level <= l && !feature[i].there)
			used += (size_t)snprintf(text + used, room - used, "%s%s", used ? ", " : "", feature[i].name);
	return text;
}

int sp_isa_choose(const char *word, enum sp_isa_level highest, enum sp_isa_level *taken, char *why, size_t room)
{
	char lacks[160];

	*taken = highest;
	if (!word)
		return 0;
	for (unsigned i = 0; i < SP_ISA_LEVELS; i++) {
		if (strcmp(word, names[i]))
			continue;
		if (i <= highest) {
			*taken = i;
			return 0;
		}
		if (why)
			snprintf(why, room, "SPINDLE_ISA=%s: this processor has the level %s; it lacks %s", word,
				 names[highest], sp_isa_lacks(i, lacks, sizeof(lacks)));
		return -ENOTSUP;
	}
	if (why)
		snprintf(why, room, "SPINDLE_ISA=%.40s: there is no such level; there are %s, %s and %s", word,
			 names[0], names[1], names[2]);
	return -EINVAL;
}

int sp_isa_check(char *why, size_t room)
{
	enum sp_isa_level l;

	return sp_isa_choose(getenv("SPINDLE_ISA"), sp_isa_best(), &l, why, room);
}
