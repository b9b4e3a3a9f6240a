/* SPDX-License-Identifier: BSD-3-Clause */
/* control(): requests with data to a context's handler, or to the service that contexts share. Callers hold
 * nic->control. */
#ifndef PIPELINE_CONTROL_SERVICE_H
#define PIPELINE_CONTROL_SERVICE_H

#include "../../handlers/spindle-handler.h"

struct sp_context;
struct sp_error;
struct sp_nic;

/* The context of this service; NULL: none yet. */
struct sp_context *sp_service_find(struct sp_nic *nic, const char *service);
/* Runs control() of context c, or of its service, on the worker that the request is for. Returns the handler's status;
 * -EOPNOTSUPP: there is no control(), or no service; -ENOENT: no such QP; -EAGAIN: the context is disabled. */
int sp_service_ask(struct sp_context *c, bool service, struct sp_control *control);
/* The context is about to end: tells its service. */
void sp_service_gone(struct sp_context *c);

#endif
