/* SPDX-License-Identifier: BSD-3-Clause */
/* says: two functions in the section */
#include "spindle-bpf.h"

SP_BPF_HANDLER(two, 0)
{
	return 0 * p->len;
}

__attribute__((section("handler/two"), used)) uint64_t other(struct sp_bpf_packet *p)
{
	return p->len;
}
