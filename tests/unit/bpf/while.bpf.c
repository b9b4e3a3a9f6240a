/* SPDX-License-Identifier: BSD-3-Clause */
/* says: a loop */
#include "spindle-bpf.h"

SP_BPF_HANDLER(rounds, 0)
{
	uint64_t at = 0, next;

	while ((next = sp_bpf_load((uint32_t)at, 1)) != 0)
		at += next;
	return at & 1;
}
