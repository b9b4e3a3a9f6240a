/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Taking a worker out of a handler's call that does not come back. The loops that make the calls (turns, timers,
 * commands, issues, work, control calls) run behind a mark, from which the worker can go on; the warden sends the
 * worker's thread a signal, whose handler looks what the thread is in, copies that for the warden, and, where the
 * interrupted instruction is the plug-in's own, jumps to the mark. Code of the NIC, of libraries and of the kernel is
 * never interrupted for good: there the signal's handler returns, and the warden asks again. So no lock and no list of
 * ours is ever left half done, and what the handler itself holds is its context's, which is disabled for good.
 *
 * A plug-in that is nearly always in code of others would hardly ever be found in its own. So where asking has not
 * helped, and the processor can do it (x86), the thread goes on from there instruction by instruction, up to a number
 * of them that the warden gives, until one is the plug-in's, the call has ended, or a system call is next: within one
 * SIGTRAP may become blocked, and a trap would then end the process. A program that wants SIGTRAP for itself keeps it,
 * and there it stays at asking.
 *
 * Handlers that are linked in lie among the NIC's own code, and are never taken out.
 */
#ifndef PIPELINE_RECOVER_H
#define PIPELINE_RECOVER_H

#include "worker.h"

#include <stdint.h>
#include <stdbool.h>
#include <setjmp.h>
#include <signal.h>

struct sp_code;

#define SP_FAULT_FRAMES 32
#define SP_FAULT_BYTES	(SP_FAULT_FRAMES * 2048u) /* of all frames of a fault; the first one is always whole */

/* What the signal's handler saw; it holds nothing of the context's, which may go. */
struct sp_seen {
	bool call, taken; /* in a handler's call; and out of it, by a jump */
	bool linked;	  /* it never will be: that is no plug-in's */
	char context[40], handler[40];
	uint32_t id, what; /* of the context; enum sp_doing_what */
	unsigned frames;
	uint32_t frame_at[SP_FAULT_FRAMES], frame_len[SP_FAULT_FRAMES];
	uint8_t bytes[SP_FAULT_BYTES];
};

/* A worker's. */
struct sp_catch {
	sigjmp_buf mark;		  /* [worker] */
	volatile sig_atomic_t marked;	  /* [worker] the mark is of a function that has not returned */
	struct sp_view *volatile culprit; /* [worker] from the jump to the mark */
	volatile uint32_t left;		  /* [worker] instructions that it still goes on by one by one; 0: as always */
	int tid;			  /* [worker] writes, relaxed; the warden reads */
	/* ---- a question; the worker's thread answers in the signal's handler ---- */
	uint64_t polls;		   /* [warden] the poll that is meant: in another one nothing is taken out */
	uint32_t steps;		   /* [warden] so many instructions are worth it; 0: only where it is */
	struct sp_seen *seen;	   /* [warden] until asked is set, then [worker] until answered is */
	_Atomic uint32_t asked;	   /* [warden] counts; release */
	_Atomic uint32_t answered; /* [worker] the last one; release */
};

/*
 * Runs fn(w, arg), which makes handlers' calls; NULL, or, where the worker had to be taken out, in whose call: that
 * context is disabled for good and must not be called again (sp_context.aborted). What fn has done so far must stand in
 * memory. Not within another one. [worker]
 */
struct sp_view *sp_guard(struct sp_worker *w, void (*fn)(struct sp_worker *w, void *arg), void *arg);

/* Of which call w->doing is; what it was before, to be set again after one within another. */
static inline uint32_t sp_doing_call(struct sp_worker *w, uint32_t what)
{
	const uint32_t before = __atomic_load_n(&w->doing.what, __ATOMIC_RELAXED);

	__atomic_store_n(&w->doing.what, what, __ATOMIC_RELAXED);
	return before;
}

const char *sp_doing_name(uint32_t what);

/* Where a handler's code lies. [control] before the context is called. */
void sp_code_find(const struct sp_handler *h, struct sp_code *code);

/* The signal, one for the process: a real-time one that nobody had taken, from the first NIC that is started on; and
 * SIGTRAP, where nobody had. 0, or -EBUSY: there is none left; then nobody is taken out. */
int sp_recover_signal(int *number);
/* [worker] This thread is w's. NULL: no longer. */
void sp_recover_thread(struct sp_worker *w);

#endif
