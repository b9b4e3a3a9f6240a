/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Looking over handlers' shoulders: each call of theirs, what it writes and sends, what becomes of each packet, and
 * what they do that they may not. For `spindle replay` and for tests; in virtual time only, on one thread.
 *
 * It costs nothing where it is off: the contexts of a watched NIC get a table of functions of their own (watched.c),
 * which call the handler's; the packet path itself has no more than the branch that captures have too (onlooker.h).
 * A watched NIC takes the packets of a burst one by one, each to its end before the next (as if each had come in a poll
 * of its own: what follows the packet that ends its message is not of that message any more, and contexts send in the
 * order of arrival), and rings no doorbells; all else is as without: reports, what memory is charged, frames and their
 * times.
 */
#ifndef PIPELINE_WATCH_H
#define PIPELINE_WATCH_H

#include "../handlers/spindle-handler.h"
#include "../handlers/wire/capture.h"
#include "nic.h"

#define SP_MAX_WATCHES 4

enum sp_called {
	SP_CALLED_ATTACH,
	SP_CALLED_DETACH,
	SP_CALLED_CLASSIFY,
	SP_CALLED_MISS,
	SP_CALLED_HEADER,
	SP_CALLED_PAYLOAD, /* also the burst form */
	SP_CALLED_COMPLETION,
	SP_CALLED_COMMAND,
	SP_CALLED_ISSUE,
	SP_CALLED_WORK,
	SP_CALLED_TIMER,
	SP_CALLED_REPORT,
	SP_CALLED_COUNT
};
const char *sp_called_name(enum sp_called); /* as the member of struct sp_handler is called */

/* A call of a handler. Pointers last until the callback returns. */
struct sp_watched_call {
	const char *context, *handler; /* names; a companion's: NAME of the context and its own handler's */
	uint32_t id;		       /* of the context */
	enum sp_called function;
	uint16_t worker;
	sp_time now;
	struct sp_packet *const *packet; /* those that it is called with; NULL: none */
	unsigned packets;
	const struct sp_message *message; /* NULL: none */
	/* of leave() only */
	uint64_t result; /* what it returned: verdict, key, status (as int64_t) ...; 0 where it returns nothing */
	uint64_t cycles; /* TSC */
};

/*
 * Every member may be NULL. Callbacks must not call the NIC. Order for a packet: arrived, matched (unless it was
 * dropped, or the NIC answers it, before), its calls, fate; nothing else arrives meanwhile. One that waits for a
 * header() on another worker, or for its context's home worker (SP_HANDLER_HOME), has what is left of that later, as
 * another struct sp_packet: p->frame is the same.
 */
struct sp_watch {
	void *arg;
	/* parsed: SP_PARSED_* of parser.h, or -1 - the enum sp_drop for which it is dropped: then only frame, frame_len
	 * and buf of p are valid. */
	void (*arrived)(void *arg, const struct sp_packet *p, int parsed, sp_time now);
	void (*matched)(void *arg, const struct sp_packet *p, const char *context, const char *handler);
	/* reason: of what is dropped, else NULL. A packet that a handler sends on is taken, and told by sent(). What p
	 * points to may be gone where p->buf is NULL. */
	void (*fate)(void *arg, const struct sp_packet *p, enum sp_capture_fate fate, const char *reason);
	void (*enter)(void *arg, const struct sp_watched_call *call);
	void (*leave)(void *arg, const struct sp_watched_call *call);
	/* Below, call is the innermost handler's call that does it; NULL: nobody's, the NIC does it by itself. */
	/* from: NULL for the atomic operations and sp_dma_store64, whose outcome is in place then. Not told: bytes that
	 * the NIC itself sends from or publishes. */
	void (*wrote)(void *arg, const struct sp_watched_call *call, const struct sp_mem *mem, uint64_t offset,
		      const void *from, uint64_t len);
	/* As it is queued for that port (SP_CAPTURE_EXCEPTION, SP_CAPTURE_LOOP), complete. Of nobody's call: answers of
	 * the NIC's own, what comes from the exception port, and what has waited for a neighbour, which is told when it
	 * leaves. Not told: packets that are forwarded, see fate. */
	void (*sent)(void *arg, const struct sp_watched_call *call, uint16_t port, const void *frame, uint32_t len);
	/* Events that the host's queue has taken; and at the end of command() its result, whether or not the host has
	 * asked for an event (SP_CMD_REPLY). */
	void (*posted)(void *arg, const struct sp_watched_call *call, const struct sp_event *event);
	/* What a handler does wrong, in words ("returned 99, which is no verdict"): once per occurrence, before
	 * leave(); for what it has overrun, once per context. */
	void (*wrong)(void *arg, const struct sp_watched_call *call, const char *what);
};

/*
 * Before the first context is added, and on a NIC that is not started (-EBUSY); sp_nic_start() then says -EBUSY. At
 * most SP_MAX_WATCHES (-ENOSPC), called in the order in which they were added. watch is copied. -ENOMEM.
 *
 * What is told as wrong: verdicts, drop reasons and message keys that are none; bytes written behind ctx_size, msg_size
 * or what sp_alloc gave; ranges outside a region, words at odd places; functions that are needed and missing (a timer
 * armed without timer(), and the like), and calls at a wrong time; when a context goes, by a call whose function is
 * SP_CALLED_DETACH and which is not told otherwise: packets kept and never released, or released and never kept.
 */
int sp_nic_watch(struct sp_nic *nic, const struct sp_watch *watch);

#endif
