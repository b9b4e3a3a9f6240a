/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages become packets. */
#ifndef HANDLERS_SDR_SEND_H
#define HANDLERS_SDR_SEND_H

#include "state.h"

#pragma GCC visibility push(hidden)
int sdr_send_command(struct sp_ctx *c, const struct sp_command *command);
void sdr_send_detach(struct sp_ctx *c);
int sdr_issue(struct sp_ctx *c, struct sp_issue *issue, unsigned budget);
/* For a companion: see spindle-export.h. */
int sdr_export_send(struct sp_ctx *c, uint64_t k, uint64_t mem, uint64_t offset, uint64_t bytes, uint32_t immediate);
int sdr_export_ready(struct sp_ctx *c, uint64_t k, uint64_t bytes);
#pragma GCC visibility pop

#endif
