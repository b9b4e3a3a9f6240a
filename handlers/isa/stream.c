/* SPDX-License-Identifier: BSD-3-Clause */
#include "stream.h"

sp_isa_stream_fn *sp_isa_stream;

sp_isa_stream_fn *sp_isa_stream_of(enum sp_isa_level level)
{
#ifdef __x86_64__
	static sp_isa_stream_fn *const of[] = {sp_isa_stream_baseline, sp_isa_stream_avx2, sp_isa_stream_avx512};

	return of[level];
#else
	(void)level;
	return sp_isa_stream_baseline;
#endif
}

__attribute__((constructor)) static void choose(void)
{
	sp_isa_stream = sp_isa_stream_of(sp_isa_level());
}
