/* SPDX-License-Identifier: BSD-3-Clause */
/* says: returns an address */
#include "spindle-bpf.h"

SP_BPF_HANDLER(leak, 0)
{
	return (uint64_t)p;
}
