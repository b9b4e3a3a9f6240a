/* SPDX-License-Identifier: BSD-3-Clause */
/* says: use sp_bpf_state_add() */
#include "spindle-bpf.h"

SP_BPF_HANDLER(atomic, 0)
{
	__sync_fetch_and_add(&p->now, 1);
	return 0;
}
