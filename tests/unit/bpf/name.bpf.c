/* SPDX-License-Identifier: BSD-3-Clause */
/* says: is no name for a handler */
#include "spindle-bpf.h"

SP_BPF_HANDLER(NoName, 0)
{
	return p->len & 1;
}
