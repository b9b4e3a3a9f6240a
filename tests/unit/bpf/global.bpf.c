/* SPDX-License-Identifier: BSD-3-Clause */
/* says: variable or constant '.bss' */
#include "spindle-bpf.h"

static uint64_t seen;

SP_BPF_HANDLER(global, 0)
{
	seen += p->len;
	return seen & 1;
}
