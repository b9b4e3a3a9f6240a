/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Says what a watched handler does wrong, and stops one that does not return. For one NIC or several, in virtual time,
 * on one thread; one guard at a time in a process (it takes a timer signal, and SIGSEGV, SIGBUS, SIGFPE, SIGILL,
 * which it passes on once it has named the handler and the packet).
 */
#ifndef TESTBED_GUARD_H
#define TESTBED_GUARD_H

#include "../pipeline/watch.h"

#define SP_GUARD_SAID 20 /* complaints in full; the rest is only counted */

struct sp_guard;

struct sp_guard_config {
	uint64_t limit_ms; /* of processor time that one call of a handler may take; 0: 2000 */
	/* One complaint, in words, without newline: context, handler, function, packet (counted from 1), what. */
	void (*say)(void *arg, const char *text);
	void *arg;
};

int sp_guard_create(const struct sp_guard_config *config, struct sp_guard **guard); /* -ENOMEM, -EBUSY */
void sp_guard_destroy(struct sp_guard *guard);					    /* NULL is fine */
int sp_guard_add(struct sp_guard *guard, struct sp_nic *nic);			    /* sp_nic_watch */
/* Runs fn(arg) and returns what it returns. While it runs, handlers' calls are timed.
 * -ETIMEDOUT: a call did not return in time, and was left (said): nothing of the NIC may be used any more, not even to
 * destroy it. */
int sp_guard_run(struct sp_guard *guard, int (*fn)(void *arg), void *arg);
uint64_t sp_guard_complaints(const struct sp_guard *guard);

#endif
