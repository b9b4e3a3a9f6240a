/* SPDX-License-Identifier: BSD-3-Clause */
/* says: instruction 6 divides 32 bits, which DPDK compiles wrongly */
/* The upper half of r0 is gone after the division: verifiers know 1 << 32, the processor has 0. What is computed of
 * that is an offset of 0 to them, and one of 2048 bytes behind the packet's copy to the processor. */
#include "spindle-bpf.h"

SP_BPF_HANDLER(escape, 64)
{
	uint64_t out;

	asm volatile("r0 = 1 ll\n"
		     "r0 <<= 32\n"
		     "r4 = 7\n"
		     "r5 = 3\n"
		     "w4 /= w5\n"
		     "r0 >>= 32\n"
		     "r2 = 1\n"
		     "r2 -= r0\n"
		     "r2 *= 2048\n"
		     "r1 = %[p]\n"
		     "r1 += r2\n"
		     "%[out] = *(u64 *)(r1 + 0)\n"
		     : [out] "=r"(out)
		     : [p] "r"(p)
		     : "r0", "r1", "r2", "r3", "r4", "r5");
	sp_bpf_state_set(0, out);
	return SP_DONE;
}
