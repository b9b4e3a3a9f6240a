/* SPDX-License-Identifier: BSD-3-Clause */
/* says: a loop */
#include "spindle-bpf.h"

SP_BPF_HANDLER(loop, 0)
{
	uint64_t n = 0;

#pragma clang loop unroll(disable)
	for (uint32_t i = 0; i < p->len; i++)
		n += sp_bpf_load(i, 1);
	return n & 1;
}
