/* SPDX-License-Identifier: BSD-3-Clause */
/* The rate at which a context sends. */
#ifndef PIPELINE_TX_PACE_H
#define PIPELINE_TX_PACE_H

#include "../../handlers/spindle-handler.h"

struct sp_context;

/* A context with a rate has sent a frame of so many bytes. Home worker. */
void sp_pace_charge(struct sp_context *c, sp_time now, uint32_t bytes);

#endif
