/* SPDX-License-Identifier: BSD-3-Clause */
/* says: too many branches */
#include "spindle-bpf.h"

SP_BPF_HANDLER(branches, 0)
{
	volatile uint64_t last;
	uint32_t n = 0;

#pragma unroll
	for (int i = 0; i < 40; i++)
		if (p->head[i] > 7) {
			last = i;
			n += last & 3;
		} else {
			n ^= i;
		}
	return n & 1;
}
