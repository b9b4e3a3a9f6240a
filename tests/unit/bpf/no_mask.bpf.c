/* SPDX-License-Identifier: BSD-3-Clause */
/* says: mask it */
#include "spindle-bpf.h"

SP_BPF_HANDLER(no_mask, 0)
{
	return p->head[p->len];
}
