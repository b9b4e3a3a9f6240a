/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs of puts of one packet. */
#ifndef HANDLERS_RVMA_RUN_H
#define HANDLERS_RVMA_RUN_H

#include "state.h"

#pragma GCC visibility push(hidden)
#define RV_EXPECT 32u /* packets of a run at most */
/* Places the puts at the beginning of these packets of no message, up to the first one that is not a plain one. Returns
 * how many. */
unsigned rv_run(struct sp_ctx *c, struct sp_packet *const *packet, unsigned n);
#pragma GCC visibility pop

#endif
