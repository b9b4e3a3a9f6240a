/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker that finds nothing to do sleeps until something comes: a packet, an application's command, another worker's
 * packets or issues, a control call. Its ports, and sp_worker_wake(), show at its epoll descriptor.
 *
 *   worker: asleep = 1, ports signal, applications are parked; polls once more; sleeps
 *   others: store what they have for the worker, then read asleep; if it is 1, they wake the worker
 *
 * With a full barrier between each store and load, one of the two sees the other.
 */
#ifndef PIPELINE_WORKER_SLEEP_H
#define PIPELINE_WORKER_SLEEP_H

#include <stdbool.h>

#include "worker.h"

/* The longest sleep: nothing needs it, but for what a driver should tell and does not. */
#define SP_SLEEP_MOST (20 * SP_MS)

/* For all workers of a NIC, before and after their threads. A worker that cannot be woken (no descriptors left) does
 * not sleep in this way. */
void sp_sleep_start(struct sp_nic *nic);
void sp_sleep_stop(struct sp_nic *nic);
void sp_sleep_destroy(struct sp_worker *w); /* nobody can wake it any more */

/* [worker] From here on what comes wakes it. Poll once more, and then sleep or end. False: it cannot sleep, as a port
 * does not wake it, or many applications are active. */
bool sp_sleep_begin(struct sp_worker *w);
bool sp_sleep(struct sp_worker *w, sp_time most); /* false: nothing has come */
void sp_sleep_end(struct sp_worker *w);

/* [worker] At the end of a poll: wakes those that it has given something. */
void sp_sleep_wake_others(struct sp_worker *w);

#endif
