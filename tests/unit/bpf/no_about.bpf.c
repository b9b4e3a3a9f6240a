/* SPDX-License-Identifier: BSD-3-Clause */
/* says: SP_BPF_HANDLER */
#include "spindle-bpf.h"

__attribute__((section("handler/no_about"), used)) uint64_t other(struct sp_bpf_packet *p)
{
	return p->len;
}
