/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets into messages. */
#ifndef HANDLERS_SDR_PLACE_H
#define HANDLERS_SDR_PLACE_H

#include "state.h"

#pragma GCC visibility push(hidden)
uint32_t sdr_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *const *packet, unsigned n);
int sdr_packets(struct sp_ctx *c, const struct sp_command *command, struct sp_event *result); /* SP_SDR_CMD_PACKETS */
#pragma GCC visibility pop

#endif
