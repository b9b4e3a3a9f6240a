/* SPDX-License-Identifier: BSD-3-Clause */
/* The application's datagrams, in both directions. */
#ifndef HANDLERS_SDR_DATAGRAM_H
#define HANDLERS_SDR_DATAGRAM_H

#include "state.h"

#pragma GCC visibility push(hidden)
int sdr_datagram(struct sp_ctx *c, const struct sp_command *command);
unsigned sdr_send_datagrams(struct sp_ctx *c, struct sdr *s, unsigned budget); /* returns how many packets */
void sdr_drop_datagrams(struct sp_ctx *c, struct sdr *s);		       /* those that wait to be sent */
/* A datagram has arrived. Any worker. Returns a verdict. */
uint32_t sdr_take_datagram(struct sp_ctx *c, struct sdr *s, const uint8_t *bytes, uint32_t len);
#pragma GCC visibility pop

#endif
