/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reports what a watched handler does wrong, and stops a handler that does not return. For one NIC or several, in
 * virtual time, on one thread; one guard at a time in a process. It uses SIGVTALRM (a handler that sleeps is woken by
 * it), and SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT. When a handler crashes, it writes the handler and the packet to
 * standard error, then restores the previous action of the signal. It also reports a handler that calls exit(); the
 * status is 1 then.
 */
#ifndef TESTBED_GUARD_H
#define TESTBED_GUARD_H

#include "../pipeline/observe/trace.h"

#define SP_GUARD_SAID                                                                                                  \
	20 /* complaints reported in full; the rest is counted, and reported as a number by sp_guard_destroy */

struct sp_guard;

struct sp_guard_config {
	/* processor time for one call of a handler, ms; 0: 2000. A handler that sleeps may take ten times that. So
	 * may all calls together at one moment of virtual time without a packet arriving: work, timers that are
	 * always due. */
	uint64_t limit_ms;
	/* Reports one complaint, as text without newline: context, handler, function, packet (counted from 1), what. */
	void (*say)(void *arg, const char *text);
	/* Called after a handler's crash or exit() has been reported: a last chance to flush files. It runs in the
	 * signal handler: it may call fflush() and the like, but must not allocate. May be NULL. */
	void (*crash)(void *arg);
	void *arg;
	const char *program; /* begins the line about a crash; NULL: "spindle" */
};

int sp_guard_create(const struct sp_guard_config *config, struct sp_guard **guard); /* -ENOMEM, -EBUSY */
void sp_guard_destroy(struct sp_guard *guard);					    /* NULL is fine */
int sp_guard_add(struct sp_guard *guard, struct sp_nic *nic);			    /* watches the NIC */
/* Runs fn(arg) and returns its result. While it runs, handlers' calls are timed. -ETIMEDOUT: a call did not return in
 * time and was aborted, which was reported. Nothing of the NIC may be used any more, not even to destroy it. A call
 * that never leaves the C library, whose locks it may hold, ends the process instead (reported, status 1). -errno: no
 * timer available; fn was not called. */
int sp_guard_run(struct sp_guard *guard, int (*fn)(void *arg), void *arg);
uint64_t sp_guard_complaints(const struct sp_guard *guard);

/* Callbacks of a watch run inside the handler's call. Between these two, the call is not aborted, and a crash is not
 * the handler's. For callbacks that take a lock that is needed later, as stdio's and malloc's. They nest; without a
 * guard they have no effect. */
void sp_guard_hold(void);
void sp_guard_let(void);

#endif
