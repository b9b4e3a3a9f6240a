/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs the contexts that have packets: which context, which version of its handler, at what cost. */
#ifndef PIPELINE_EXEC_RUN_H
#define PIPELINE_EXEC_RUN_H

struct sp_worker;

/* Every context with packets (w->active), in the order in which their first packets came. */
void sp_run_contexts(struct sp_worker *w);
/* Packets that waited for a header handler on another worker, once more. Returns how many. */
unsigned sp_run_parked(struct sp_worker *w);
/* Packets that waited for their context's turn, for a quantum. Returns how many. */
unsigned sp_run_backlog(struct sp_worker *w);

#endif
