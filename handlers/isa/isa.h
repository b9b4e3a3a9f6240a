/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Levels of instructions. Each kernel (ICRC, erasure codes, copies past the caches) is compiled once for each level, in
 * the same binary. The processor's best level is taken at start; SPINDLE_ISA in the environment names a lower one.
 *
 *   baseline  x86-64-v2, and PCLMULQDQ where the processor has it (all since 2010; x86-64-v2 does not promise it)
 *   avx2      x86-64-v3 and PCLMULQDQ; for erasure codes AVX-512 (F, BW, VL, DQ), where the processor has it but lacks
 *             something of the next level: Skylake, Cascade Lake
 *   avx512    avx2, AVX-512 (F, BW, VL, DQ), GFNI and VPCLMULQDQ: Ice Lake, Zen 4
 *
 * The levels say nothing of other code: the option `cpu` of the build does that, and libc's memcpy() looks by itself.
 *
 * This is a folder of its own, which includes nothing of ours: handlers/ and pipeline/ both have kernels.
 */
#ifndef ISA_ISA_H
#define ISA_ISA_H

#include <stdbool.h>
#include <stddef.h>

enum sp_isa_level { SP_ISA_BASELINE, SP_ISA_AVX2, SP_ISA_AVX512, SP_ISA_LEVELS };

/* The level whose kernels run. Known before main(), and never changes. Where SPINDLE_ISA names no level that can be, it
 * is the processor's best: sp_isa_check() finds that out. */
enum sp_isa_level sp_isa_level(void);
/* The highest level of this processor, and of the system, which has to save the registers. */
enum sp_isa_level sp_isa_best(void);
/* True: it has AVX-512 (F, BW, VL, DQ), whether or not it has the rest of the level. */
bool sp_isa_wide(void);
const char *sp_isa_name(enum sp_isa_level level);
/* "GFNI, VPCLMULQDQ": what the processor lacks for a level; "" if it lacks nothing. Returns text. */
const char *sp_isa_lacks(enum sp_isa_level level, char *text, size_t room);
/* Is SPINDLE_ISA right? 0; -EINVAL: there is no such level; -ENOTSUP: the processor lacks it. why: a line. */
int sp_isa_check(char *why, size_t room);
/* The same of any word (NULL: none) and best level. *level is the one to take, also after an error. */
int sp_isa_choose(const char *word, enum sp_isa_level best, enum sp_isa_level *level, char *why, size_t room);

#endif
