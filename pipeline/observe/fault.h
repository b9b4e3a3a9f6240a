/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What handler's call a thread is in, read by a signal handler on that thread: there, neither the call nor its context
 * can end meanwhile. Two ask: the watchdog, which sends a signal to a worker that does not come back, and the program's
 * own handler of crashes (sp_fault_here, see nic.h). Nothing here changes what the worker does: a handler is trusted
 * code, and after a crash nobody knows what it has left half done.
 */
#ifndef PIPELINE_OBSERVE_FAULT_H
#define PIPELINE_OBSERVE_FAULT_H

#include "../worker.h"

#define SP_FAULT_FRAMES 32
#define SP_FAULT_BYTES	(SP_FAULT_FRAMES * 2048u) /* of all frames of a fault; the first one is always whole */

#define SP_FAULT_SIGNAL_STACK (256u << 10)

/* A copy of struct sp_fault with all that it points to: the context may go. */
struct sp_seen {
	bool call; /* the thread is in a handler's call */
	char context[40], handler[40], file[256];
	uint32_t id, what; /* of the context; enum sp_doing_what */
	struct sp_fault fault;
	uint8_t bytes[SP_FAULT_BYTES];
};

/* The watchdog's question to a worker. The worker's thread answers in the signal's handler. */
struct sp_question {
	int tid;		   /* [worker] writes, relaxed; the watchdog reads */
	uint64_t polls;		   /* [watchdog] the poll that is meant: a later one has nothing to do with it */
	struct sp_seen *seen;	   /* [watchdog] until asked is set, then [worker] until answered is */
	_Atomic uint32_t asked;	   /* [watchdog] counts; release */
	_Atomic uint32_t answered; /* [worker] the last one; release */
	/* [worker] Signal handlers' that want one (SA_ONSTACK): a handler that calls itself without end has used up the
	 * thread's own. */
	uint8_t *stack;
};

/* The signal, one for the process: a real-time one that nobody had taken, from the first NIC that is started on. 0, or
 * -EBUSY: there is none left; then the watchdog does not ask. */
int sp_fault_signal(int *number);
/* [worker] This thread is w's. NULL: no longer. */
void sp_fault_thread(struct sp_worker *w);

#endif
