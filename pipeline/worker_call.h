/* SPDX-License-Identifier: BSD-3-Clause */
/* What control threads want done on workers, between two of their polls. */
#ifndef PIPELINE_WORKER_CALL_H
#define PIPELINE_WORKER_CALL_H

struct sp_nic;
struct sp_worker;

/* Runs fn(w, arg) on a worker between two of its polls and waits; where no threads run, at once. All that the worker
 * did before is done by then: the barrier that control calls need before they free something. nic->control must be
 * held. */
void sp_worker_call(struct sp_worker *w, void (*fn)(struct sp_worker *, void *), void *arg);
/* The same for who only looks: -ETIMEDOUT where the worker has stopped in a handler's call; then fn is not run. */
int sp_worker_look(struct sp_worker *w, void (*fn)(struct sp_worker *, void *), void *arg);

/* All workers stand still, between two of their polls, until sp_workers_go(); what sp_worker_call asks they do
 * meanwhile. nic->control must be held. -ETIMEDOUT: one has not come round, and all go on. */
int sp_workers_stand(struct sp_nic *nic);
void sp_workers_go(struct sp_nic *nic);

/* [worker] Does what has been asked for. */
void sp_worker_answer(struct sp_worker *w);

#endif
