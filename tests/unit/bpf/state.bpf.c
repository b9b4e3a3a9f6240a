/* SPDX-License-Identifier: BSD-3-Clause */
/* says: words of state */
#include "spindle-bpf.h"

SP_BPF_HANDLER(state, 1000000)
{
	return p->len & 1;
}
