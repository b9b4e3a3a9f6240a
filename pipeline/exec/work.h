/* SPDX-License-Identifier: BSD-3-Clause */
/* Deferred work in slices. */
#ifndef PIPELINE_EXEC_WORK_H
#define PIPELINE_EXEC_WORK_H

#include "../../handlers/spindle-handler.h"

struct sp_context;
struct sp_worker;

unsigned sp_work_run(struct sp_worker *w);	 /* one slice */
sp_time sp_work_next(const struct sp_worker *w); /* when a slice may run; SP_NEVER */
void sp_work_purge(struct sp_worker *w, const struct sp_context *c);

#endif
