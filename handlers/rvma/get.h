/* SPDX-License-Identifier: BSD-3-Clause */
/* Gets: data that arrives for them, and the answers to gets of peers. */
#ifndef HANDLERS_RVMA_GET_H
#define HANDLERS_RVMA_GET_H

#include "state.h"

#pragma GCC visibility push(hidden)
/* DATA arrives for the get with that number. Returns where to place it, or NULL. */
struct rv_op *rv_get_find(struct sp_ctx *c, struct rv_session *x, uint64_t get, uint64_t length,
			  const struct sp_mem **mem, uint64_t *at);
void rv_get_end(struct sp_ctx *c, struct rv_op *op, enum sp_rvma_status why);
/* As rv_transfer_stop(). Ends the get too that it brings data for. */
void rv_transfer_end(struct sp_ctx *c, struct rv_transfer *t, enum sp_rvma_status why);
/* A get of the peer's was accepted: its data go out as a transfer of ours, then rv_read_end(). NO_ROOM. */
enum sp_rvma_status rv_serve(struct sp_ctx *c, struct rv_session *x, uint64_t get, const struct sp_mem *mem,
			     uint64_t at, uint64_t length, uint32_t window, uint32_t buffer);
/* Ends the answers to gets that read this window. */
void rv_serves_end(struct sp_ctx *c, uint32_t window);
#pragma GCC visibility pop

#endif
