/* SPDX-License-Identifier: BSD-3-Clause */
/* says: the name is taken */
#include "spindle-bpf.h"

SP_BPF_HANDLER(count, 0)
{
	return p->len & 1;
}
