/* SPDX-License-Identifier: BSD-3-Clause */
/* Control packets that arrive. */
#ifndef HANDLERS_RVMA_CONTROL_H
#define HANDLERS_RVMA_CONTROL_H

#include "state.h"

#pragma GCC visibility push(hidden)
static inline bool rv_is_control(const struct sp_packet *p)
{
	return p->opcode >= SP_RVMA_POLL && p->opcode <= SP_RVMA_BYE;
}

uint32_t rv_control(struct sp_ctx *c, struct sp_packet *p); /* verdict */
#pragma GCC visibility pop

#endif
