/* SPDX-License-Identifier: BSD-3-Clause */
/* Control threads run functions on workers, between two of their polls. */
#ifndef PIPELINE_WORKER_CALL_H
#define PIPELINE_WORKER_CALL_H

struct sp_nic;
struct sp_worker;

/* Runs fn(w, arg) on a worker between two of its polls, and waits for it; where no threads run, at once. The worker has
 * finished all that it did before: control calls need this barrier before they free something. nic->control must be
 * held. */
void sp_worker_call(struct sp_worker *w, void (*fn)(struct sp_worker *, void *), void *arg);
/* The same for functions that only read: -ETIMEDOUT where the worker has stopped in a handler's call; then fn is not
 * run. */
int sp_worker_look(struct sp_worker *w, void (*fn)(struct sp_worker *, void *), void *arg);

/* Holds all workers between two of their polls until sp_workers_go(); sp_worker_call() works meanwhile. nic->control
 * must be held. -ETIMEDOUT: a worker has not come round, and all go on. */
int sp_workers_stand(struct sp_nic *nic);
void sp_workers_go(struct sp_nic *nic);

/* [worker] Runs the function that a control thread has asked for. */
void sp_worker_answer(struct sp_worker *w);

#endif
