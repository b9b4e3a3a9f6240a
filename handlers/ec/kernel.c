/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernel.h"

const struct sp_ec_kernel *sp_ec_kernel(enum sp_isa_level level)
{
#ifdef __x86_64__
	static const struct sp_ec_kernel *const of[] = {&sp_ec_baseline, &sp_ec_avx2, &sp_ec_gfni};

	if (level > sp_isa_best())
		return NULL;
	return level == SP_ISA_AVX2 && sp_isa_best() == SP_ISA_AVX2 && sp_isa_wide() ? &sp_ec_avx512 : of[level];
#else
	return level == SP_ISA_BASELINE ? &sp_ec_baseline : NULL;
#endif
}
