/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets that arrive. */
#ifndef HANDLERS_RVMA_PLACE_H
#define HANDLERS_RVMA_PLACE_H

#include "state.h"

#pragma GCC visibility push(hidden)
/* Returns SP_NO_MESSAGE for control packets and transfers of one packet, the message's key for others, or SP_REJECT. */
uint64_t rv_classify(struct sp_ctx *c, struct sp_packet *p);
bool rv_classify_burst(struct sp_ctx *c, struct sp_packet *const *packet, unsigned n);
uint32_t rv_header(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p);
uint32_t rv_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *const *p, unsigned n);
void rv_completion(struct sp_ctx *c, struct sp_message *m, enum sp_end end);
#pragma GCC visibility pop

#endif
