/* SPDX-License-Identifier: BSD-3-Clause */
/* says: compile with -mcpu=v2 */
/* flags: -mcpu=v3 */
#include "spindle-bpf.h"

SP_BPF_HANDLER(version3, 0)
{
	return p->len > p->frame_len ? SP_ERROR : SP_DONE;
}
