/* SPDX-License-Identifier: BSD-3-Clause */
/* The connection, clear-to-send to the peer, and control packets that are sent. */
#ifndef HANDLERS_SDR_CONNECTION_H
#define HANDLERS_SDR_CONNECTION_H

#include "state.h"

#pragma GCC visibility push(hidden)
int sdr_connect(struct sp_ctx *c, const struct sp_command *command);
/* Sets SP_SDR_CONNECTED and the like, for the host too. Any worker. */
void sdr_flag(struct sp_ctx *c, struct sdr *s, uint64_t flag);
/* Home worker. `head` begins the packet, which has `len` bytes in all. Returns 0 or an error of sp_send_roce(). */
int sdr_send_control(struct sp_ctx *c, struct sdr *s, struct sp_sdr_control *head, enum sp_sdr_control_type type,
		     uint32_t len, uint8_t flags);
/* Sends CTS or ENDED with a count. Home worker. */
int sdr_send_count(struct sp_ctx *c, struct sdr *s, enum sp_sdr_control_type type, uint64_t count);
/* More receives are open: the peer gets a clear-to-send, repeated until it is seen to know. */
void sdr_cts_start(struct sp_ctx *c);
void sdr_cts_timer(struct sp_ctx *c);
/* Somebody says that the peer has restarted: asks the peer. Home worker. */
void sdr_probe_start(struct sp_ctx *c);
void sdr_probe_timer(struct sp_ctx *c);
#pragma GCC visibility pop

#endif
