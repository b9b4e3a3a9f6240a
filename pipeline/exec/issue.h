/* SPDX-License-Identifier: BSD-3-Clause */
/* Turns host work into packets, in small steps under the context's pace. */
#ifndef PIPELINE_EXEC_ISSUE_H
#define PIPELINE_EXEC_ISSUE_H

#include "../../handlers/spindle-handler.h"

struct sp_context;
struct sp_worker;

unsigned sp_issues_run(struct sp_worker *w); /* number of packets requested */
sp_time sp_issues_next(struct sp_worker *w); /* time when a context may send again; SP_NEVER: none wants to */
void sp_issues_purge(struct sp_worker *w, struct sp_context *c);

#endif
