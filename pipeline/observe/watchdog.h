/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The watchdog: a thread of a NIC that is started, which looks now and then whether the workers still go round. A
 * worker that has been in one handler's call for config.stall is stuck: it runs (its thread's processor time grows) or
 * it waits (for a lock, in a system call). The watchdog finds out which call that is, remembers it, and calls
 * config.fault; control calls do not wait for such a worker. After SP_STALLS_FATAL times config.stall it calls
 * config.fault again, and says that the call is fatal: what then happens is the program's choice (`spindle run` ends).
 */
#ifndef PIPELINE_OBSERVE_WATCHDOG_H
#define PIPELINE_OBSERVE_WATCHDOG_H

#include "fault.h"

#define SP_FAULTS	16 /* remembered */
#define SP_STALL	SP_SEC
#define SP_STALLS_FATAL 4
#define SP_FAULT_TEXT	200

struct sp_report;

/* [control] Before the workers' threads, and once they run. -ENOMEM, -EAGAIN. A watchdog lives until its NIC goes, and
 * what it remembers with it. */
int sp_watchdog_create(struct sp_nic *nic);
int sp_watchdog_start(struct sp_nic *nic);
/* Older copies of handlers are not collected any more. nic->control must not be held, for that waits for it. */
void sp_watchdog_settle(struct sp_nic *nic);
void sp_watchdog_stop(struct sp_nic *nic); /* [control] the workers have ended */
void sp_watchdog_destroy(struct sp_nic *nic);

/* Has it stopped? Any thread. */
bool sp_watchdog_stopped(const struct sp_nic *nic, uint16_t worker);
/* [control] Before what all workers must do, which cannot be taken back: 0, or, where one has stopped, -ETIMEDOUT and
 * words. It may wait for as long as finding that out takes. */
int sp_watchdog_pass(struct sp_nic *nic, struct sp_error *error);
/* The last fault, of those remembered, of that handler in that context, if it began after `after`: in words. False:
 * none.
 */
bool sp_watchdog_last(struct sp_nic *nic, uint32_t context, const char *handler, sp_time after, char *text,
		      size_t room);
/* The latest faults, as a list `faults`. */
void sp_watchdog_report(struct sp_nic *nic, struct sp_report *r);

#endif
