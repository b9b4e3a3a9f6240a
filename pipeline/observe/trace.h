/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Trace: reports each call of a handler, the data that it writes and sends, the fate of each packet, and misuse of the
 * interface. For `spindle replay` and tests; virtual time only, one thread.
 *
 * No cost when off: contexts of a traced NIC get their own table of functions (traced.c), which call the handler's;
 * the packet path only has the branch that it shares with capture (tap.h). A traced NIC finishes each packet of a
 * burst before the next one, as if each had its own poll: a packet behind the last one of a message is in no message,
 * and contexts send in order of arrival. It rings no doorbells. Reports, memory charges, frames and their times are the
 * same as without trace.
 */
#ifndef PIPELINE_OBSERVE_TRACE_H
#define PIPELINE_OBSERVE_TRACE_H

#include "../../handlers/spindle-handler.h"
#include "../../handlers/wire/capture.h"
#include "../nic.h"

#define SP_MAX_TRACERS 4

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
const char *sp_called_name(enum sp_called); /* name of the member of struct sp_handler */

/* One call of a handler. Pointers are valid until the callback returns. */
struct sp_traced_call {
	const char *context, *handler; /* names; for a companion: the context's name and the companion's handler */
	uint32_t id;		       /* of the context */
	enum sp_called function;
	uint16_t worker;
	sp_time now;
	struct sp_packet *const *packet; /* the call's packets; NULL: none */
	unsigned packets;
	const struct sp_message *message; /* NULL: none */
	/* for leave() only */
	uint64_t result; /* return value: verdict, key, status (as int64_t) ...; 0 for void */
	uint64_t cycles; /* TSC */
};

/* Every member may be NULL. Callbacks must not call the NIC. Order for a packet: arrived, matched (unless it was
 * dropped or answered by the NIC before), its calls, fate; no other packet arrives in between. A packet that waits for
 * a header() on another worker, or for its home worker (SP_HANDLER_HOME), continues later as another struct sp_packet
 * with the same p->frame. */
struct sp_tracer {
	void *arg;
	/* parsed: SP_PARSED_* of parser.h, or -1 - enum sp_drop: the packet is dropped, and only frame, frame_len and
	 * buf of p are valid. */
	void (*arrived)(void *arg, const struct sp_packet *p, int parsed, sp_time now);
	void (*matched)(void *arg, const struct sp_packet *p, const char *context, const char *handler);
	/* reason: of a drop, else NULL. A packet that a handler forwards counts as taken, and sent() reports it. If
	 * p->buf is NULL, p's pointers may be invalid. */
	void (*fate)(void *arg, const struct sp_packet *p, enum sp_capture_fate fate, const char *reason);
	void (*enter)(void *arg, const struct sp_traced_call *call);
	void (*leave)(void *arg, const struct sp_traced_call *call);
	/* Below, call is the innermost handler's call; NULL: the NIC acts by itself. */
	/* from: NULL for atomic operations and sp_dma_store64, whose result is in memory then. Bytes that the NIC
	 * itself sends or publishes are not reported. */
	void (*wrote)(void *arg, const struct sp_traced_call *call, const struct sp_mem *mem, uint64_t offset,
		      const void *from, uint64_t len);
	/* A complete frame is queued for that port (SP_CAPTURE_EXCEPTION, SP_CAPTURE_LOOP). call is NULL for the NIC's
	 * answers, for packets from the exception port, and for packets that waited for a neighbour (reported when they
	 * leave). Forwarded packets are not reported, see fate. */
	void (*sent)(void *arg, const struct sp_traced_call *call, uint16_t port, const void *frame, uint32_t len);
	/* Events accepted by the host's queue, and the result of command(), even if the host wants no event
	 * (SP_CMD_REPLY). */
	void (*posted)(void *arg, const struct sp_traced_call *call, const struct sp_event *event);
	/* Misuse by a handler, as text ("returned 99, which is no verdict"): for each occurrence, before leave(); for
	 * overruns once per context. */
	void (*wrong)(void *arg, const struct sp_traced_call *call, const char *what);
};

/*
 * Call it before the first context, on a NIC that is not started (-EBUSY); sp_nic_start() then fails with -EBUSY. At
 * most SP_MAX_TRACERS (-ENOSPC), called in this order. watch is copied. -ENOMEM.
 *
 * Reported as misuse: invalid verdicts, drop reasons and message keys; writes behind ctx_size, msg_size or a block of
 * sp_alloc; ranges outside a region, unaligned words; required functions that are missing (a timer armed without
 * timer(), and the like), and calls at a wrong time; at the end of a context, by a call with the function
 * SP_CALLED_DETACH that is not reported otherwise: packets held and never released, or released and never held.
 */
int sp_nic_trace(struct sp_nic *nic, const struct sp_tracer *watch);

#endif
