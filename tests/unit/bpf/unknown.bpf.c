/* SPDX-License-Identifier: BSD-3-Clause */
/* says: calls 'bpf_map_lookup_elem', which is none */
#include "spindle-bpf.h"

uint64_t bpf_map_lookup_elem(void *map, void *key);

SP_BPF_HANDLER(unknown, 0)
{
	return bpf_map_lookup_elem(p, p);
}
