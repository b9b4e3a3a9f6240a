/* SPDX-License-Identifier: BSD-3-Clause */
/* Receives, and the message that a packet is for. */
#ifndef HANDLERS_SDR_RECEIVE_H
#define HANDLERS_SDR_RECEIVE_H

#include "state.h"

#pragma GCC visibility push(hidden)
uint64_t sdr_classify(struct sp_ctx *c, struct sp_packet *p);
bool sdr_classify_burst(struct sp_ctx *c, struct sp_packet *const *packet, unsigned n);
uint32_t sdr_miss(struct sp_ctx *c, struct sp_packet *p);
void sdr_completion(struct sp_ctx *c, struct sp_message *m, enum sp_end end);
int sdr_post(struct sp_ctx *c, const struct sp_command *command);
int sdr_complete(struct sp_ctx *c, const struct sp_command *command);
/* A packet of message k has arrived. */
void sdr_message_seen(struct sp_ctx *c, struct sdr *s, uint64_t k);
/* Opens posted receives in order, and grants them to the peer. */
void sdr_open_due(struct sp_ctx *c);
/* Moves the slot on to its next message, if it may. */
bool sdr_roll(struct sp_ctx *c, struct sdr *s, struct sdr_slot *slot);
void sdr_receive_detach(struct sp_ctx *c);
#pragma GCC visibility pop

#endif
