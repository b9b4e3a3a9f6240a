/* SPDX-License-Identifier: BSD-3-Clause */
/* Commands from host programs and events to them; the embedded device. */
#ifndef PIPELINE_HOST_H
#define PIPELINE_HOST_H

#include "worker.h"

int sp_events_create(struct sp_context *c);
unsigned sp_commands_run(struct sp_worker *w);
bool sp_commands_waiting(const struct sp_worker *w);

#endif
