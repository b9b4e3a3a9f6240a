/* SPDX-License-Identifier: BSD-3-Clause */
/* Transfers that are arriving. */
#ifndef HANDLERS_RVMA_TRANSFER_H
#define HANDLERS_RVMA_TRANSFER_H

#include "state.h"

#pragma GCC visibility push(hidden)
/* A transfer is either a put or the data of a get; that get may have ended. */
static inline bool rv_is_put(const struct rv_transfer *t)
{
	return t->window != RV_NONE;
}

/* Into and out of the session's list. */
void rv_transfer_add(struct rv_transfer *t);
void rv_transfer_remove(struct rv_transfer *t);
/* Refuses all packets that are missing. */
void rv_transfer_refuse(struct sp_ctx *c, const struct rv_transfer *t, enum sp_rvma_status why);
/* Ends a transfer before its last packet: refuses what is missing, ends a put, closes the message. The get that it
 * brings data for is not touched: see rv_transfer_end(). */
void rv_transfer_stop(struct sp_ctx *c, struct rv_transfer *t, enum sp_rvma_status why);
#pragma GCC visibility pop

#endif
