/* SPDX-License-Identifier: BSD-3-Clause */
/* The rate at which a context sends. */
#ifndef PIPELINE_TX_PACE_H
#define PIPELINE_TX_PACE_H

#include "../../handlers/spindle-handler.h"

struct sp_context;
struct sp_view;

/* A context with a rate has sent a frame of so many bytes here. */
void sp_pace_charge(struct sp_view *v, sp_time now, uint32_t bytes);
/* Before workers know the context. bit/s; with SP_HANDLER_FLOWS each worker has its part. */
void sp_pace_set(struct sp_context *c, uint64_t rate);

#endif
