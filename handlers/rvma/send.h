/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks of operations: started, acknowledged, refused, timed out. */
#ifndef HANDLERS_RVMA_SEND_H
#define HANDLERS_RVMA_SEND_H

#include "state.h"

#pragma GCC visibility push(hidden)
int rv_post(struct sp_ctx *c, const struct sp_command *command); /* put and get */
/* x may have something to send: it opened, an ACK arrived, an operation was posted, its deadline has come. */
void rv_send_more(struct sp_ctx *c, struct rv_session *x);
/* Starts blocks while the window has room. */
void rv_start_blocks(struct sp_ctx *c, struct rv_session *x);
/* Handles blocks that have ended: ends their operations, or the session when the peer is silent. */
void rv_collect(struct sp_ctx *c, struct rv_session *x);
int rv_acked(struct sp_ctx *c, struct rv_session *x, const void *datagram, size_t len); /* -EINVAL */
void rv_nacked(struct sp_ctx *c, struct rv_session *x, uint64_t transfer, enum sp_rvma_status why);
#pragma GCC visibility pop

#endif
