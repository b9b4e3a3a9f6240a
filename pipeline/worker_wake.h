/* SPDX-License-Identifier: BSD-3-Clause */
/* For who has something for a worker. See worker_sleep.h. */
#ifndef PIPELINE_WORKER_WAKE_H
#define PIPELINE_WORKER_WAKE_H

#include <sys/eventfd.h>

#include "worker.h"

/* Any thread, after a full barrier. A system call only if the worker sleeps. */
static inline void sp_worker_wake(struct sp_worker *w)
{
	/* Once for each sleep: whoever comes later finds 0. */
	if (atomic_load(&w->asleep) && atomic_exchange(&w->asleep, 0))
		eventfd_write(w->wake, 1);
}

#endif
