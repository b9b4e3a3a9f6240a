/* SPDX-License-Identifier: BSD-3-Clause */
/* says: divides by what may be 0 */
#include "spindle-bpf.h"

SP_BPF_HANDLER(modulo, 0)
{
	return p->len % p->hash;
}
