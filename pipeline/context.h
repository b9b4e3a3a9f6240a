/* SPDX-License-Identifier: BSD-3-Clause */
/* Execution contexts: made, found, taken down. nic->control is held by the callers. */
#ifndef PIPELINE_CONTEXT_H
#define PIPELINE_CONTEXT_H

#include "../handlers/spindle-handler.h"

#include <stddef.h>
#include <stdint.h>

struct sp_worker;
struct sp_handler;
struct sp_nic;
struct sp_context_config;
struct sp_device;
struct sp_context;
struct sp_error;

/* device: that opens it, or NULL: the NIC's own. -EDQUOT: beyond a limit of the application's. */
int sp_context_add(struct sp_nic *nic, const struct sp_context_config *config, struct sp_device *device,
		   struct sp_context **context, struct sp_error *error);
/* Ends its messages, timers, issues and work on every worker, then detaches and frees it. */
void sp_context_remove(struct sp_context *c);

#endif
