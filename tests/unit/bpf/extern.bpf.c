/* SPDX-License-Identifier: BSD-3-Clause */
/* says: variable or constant 'limit' */
#include "spindle-bpf.h"

extern uint64_t limit;

SP_BPF_HANDLER(extern_, 0)
{
	return p->len > limit;
}
