/* SPDX-License-Identifier: BSD-3-Clause */
/* Control packets to a peer: acknowledgements, refusals, and the sending of all others. */
#ifndef HANDLERS_RVMA_ANSWER_H
#define HANDLERS_RVMA_ANSWER_H

#include "state.h"

#pragma GCC visibility push(hidden)
/* Sends a control packet. One that cannot be sent is lost. */
void rv_send_control(struct sp_ctx *c, struct rv_session *x, uint8_t opcode, const void *head, uint32_t head_len,
		     const void *bytes, uint32_t len);
/* asked: the POLL that it answers, or NULL. */
void rv_send_ack(struct sp_ctx *c, struct rv_session *x, const struct sp_rel_asked *asked);
/* Refuses those blocks of a transfer that are not complete, and drops packets of them that arrive later. Sends a NACK
 * unless `silent` or beyond nack-rate. */
void rv_refuse(struct sp_ctx *c, struct rv_session *x, uint64_t transfer, uint64_t packets, enum sp_rvma_status why,
	       bool silent);
#pragma GCC visibility pop

#endif
