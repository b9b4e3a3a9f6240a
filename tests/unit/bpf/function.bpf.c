/* SPDX-License-Identifier: BSD-3-Clause */
/* says: calls the function 'twice' */
#include "spindle-bpf.h"

static __attribute__((noinline)) uint64_t twice(uint64_t x)
{
	return sp_bpf_load(x, 1) + sp_bpf_load(x + 1, 1);
}

SP_BPF_HANDLER(function, 0)
{
	return twice(3) + twice(p->len);
}
