/* SPDX-License-Identifier: BSD-3-Clause */
/* Host work that becomes packets, pulled a bit at a time under the context's pace; and deferred work in slices. */
#ifndef PIPELINE_ISSUE_H
#define PIPELINE_ISSUE_H

#include "../handlers/spindle-handler.h"

struct sp_context;
struct sp_worker;

unsigned sp_issues_run(struct sp_worker *w); /* packets asked for */
sp_time sp_issues_next(struct sp_worker *w); /* when a context may send again; SP_NEVER: nobody wants to */
void sp_issues_purge(struct sp_worker *w, struct sp_context *c);
/* A context with a rate has sent a frame of so many bytes. Home worker. */
void sp_pace_charge(struct sp_context *c, sp_time now, uint32_t bytes);
unsigned sp_work_run(struct sp_worker *w);	 /* one slice */
sp_time sp_work_next(const struct sp_worker *w); /* when there is a slice that may run; SP_NEVER */
void sp_work_purge(struct sp_worker *w, const struct sp_context *c);

#endif
