/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Says what a watched handler does wrong, and stops one that does not return. For one NIC or several, in virtual time,
 * on one thread; one guard at a time in a process. It takes SIGVTALRM (a handler that sleeps wakes up early by it), and
 * SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT, which it passes on to whom they were before once it has named the
 * handler and the packet on standard error; exit() called by a handler is said so too, and its status is 1.
 */
#ifndef TESTBED_GUARD_H
#define TESTBED_GUARD_H

#include "../pipeline/watch.h"

#define SP_GUARD_SAID 20 /* complaints in full; the rest is only counted, and said once by sp_guard_destroy */

struct sp_guard;

struct sp_guard_config {
	/* of processor time that one call of a handler may take; 0: 2000. One that sleeps may take ten times that, and
	 * so may all calls together that run without virtual time passing or a packet arriving: work, timers that are
	 * always due. */
	uint64_t limit_ms;
	/* One complaint, in words, without newline: context, handler, function, packet (counted from 1), what. */
	void (*say)(void *arg, const char *text);
	/* A handler's call crashes or calls exit(), the line about it has been written: a last chance for files to be
	 * flushed. Called in the signal handler: no more than fflush() and the like, nothing that allocates. May be
	 * NULL. */
	void (*crash)(void *arg);
	void *arg;
	const char *program; /* begins the line about a crash; NULL: "spindle" */
};

int sp_guard_create(const struct sp_guard_config *config, struct sp_guard **guard); /* -ENOMEM, -EBUSY */
void sp_guard_destroy(struct sp_guard *guard);					    /* NULL is fine */
int sp_guard_add(struct sp_guard *guard, struct sp_nic *nic);			    /* sp_nic_watch */
/* Runs fn(arg) and returns what it returns. While it runs, handlers' calls are timed.
 * -ETIMEDOUT: a call did not return in time, and was left (said): nothing of the NIC may be used any more, not even to
 * destroy it. A call that never leaves the C library, whose locks it may hold, ends the process instead (said, status
 * 1). -errno: there is no timer to be had; fn was not called. */
int sp_guard_run(struct sp_guard *guard, int (*fn)(void *arg), void *arg);
uint64_t sp_guard_complaints(const struct sp_guard *guard);

/* Callbacks of a watch run inside the handler's call; between these two it is not left, and a crash is not the
 * handler's. For whoever holds a lock there that is needed later, as stdio's and malloc's are. They nest; without a
 * guard they do nothing. */
void sp_guard_hold(void);
void sp_guard_let(void);

#endif
