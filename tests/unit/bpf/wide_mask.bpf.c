/* SPDX-License-Identifier: BSD-3-Clause */
/* says: of the packet's copy */
#include "spindle-bpf.h"

SP_BPF_HANDLER(wide_mask, 0)
{
	return p->head[p->len & 255];
}
