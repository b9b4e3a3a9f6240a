/* SPDX-License-Identifier: BSD-3-Clause */
/* Control packets that arrive. */
#ifndef HANDLERS_SDR_CONTROL_H
#define HANDLERS_SDR_CONTROL_H

#include "state.h"

#pragma GCC visibility push(hidden)
uint32_t sdr_control(struct sp_ctx *c, struct sp_packet *p); /* verdict */
#pragma GCC visibility pop

#endif
