/* SPDX-License-Identifier: BSD-3-Clause */
/* says: from the stack's end */
#include "spindle-bpf.h"

SP_BPF_HANDLER(big_stack, 0)
{
	asm volatile("*(u64 *)(r10 - 520) = %0" : : "r"(p->now) : "memory");
	return 0;
}
