/* SPDX-License-Identifier: BSD-3-Clause */
/* says: hands to a call an address */
#include "spindle-bpf.h"

SP_BPF_HANDLER(pointer, 0)
{
	return sp_bpf_load((uint64_t)p, 8);
}
