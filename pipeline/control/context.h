/* SPDX-License-Identifier: BSD-3-Clause */
/* Adds and removes execution contexts. Callers hold nic->control. */
#ifndef PIPELINE_CONTROL_CONTEXT_H
#define PIPELINE_CONTROL_CONTEXT_H

#include "../../handlers/spindle-handler.h"

#include <stddef.h>
#include <stdint.h>

struct sp_worker;
struct sp_handler;
struct sp_nic;
struct sp_context_config;
struct sp_device;
struct sp_context;
struct sp_error;

/* device: the device that opens the context; NULL: the NIC's own. -EDQUOT: a limit of the application. */
int sp_context_add(struct sp_nic *nic, const struct sp_context_config *config, struct sp_device *device,
		   struct sp_context **context, struct sp_error *error);
/* Ends the context's messages, timers, issues and work on every worker, then detaches and frees it. */
void sp_context_remove(struct sp_context *c);

#endif
