/* SPDX-License-Identifier: BSD-3-Clause */
/* says: 0 sections handler/NAME */
#include "spindle-bpf.h"

__attribute__((section("xdp"), used)) uint64_t other(struct sp_bpf_packet *p)
{
	return p->len;
}
