/* SPDX-License-Identifier: BSD-3-Clause */
/* Internals of trace (watch.h). A context of a traced NIC has its own table of functions: each reports the call, calls
 * the handler's function, and checks the result. So other contexts need no check. */
#ifndef PIPELINE_OBSERVE_TRACED_H
#define PIPELINE_OBSERVE_TRACED_H

#include "../limits.h"
#include "trace.h"

struct sp_worker;
struct sp_context;

/* An active call, on the caller's stack. */
struct sp_calling {
	struct sp_traced_call told;
	struct sp_calling *outer;
};

/* Trace state of a NIC, used by one thread. */
struct sp_tracers {
	struct sp_tracer watch[SP_MAX_TRACERS];
	unsigned count;
	struct sp_calling *calling; /* innermost call; NULL: none */
	const void *again;	    /* the frame for which miss() returned SP_AGAIN in error */
	struct {
		const struct sp_packet *packet;	 /* packet being dispatched; NULL: none */
		bool matched, ended;		 /* already reported */
		uint64_t sent[SP_PORT_LOOP + 1]; /* queued frames already reported, per queue */
	} worker[SP_MAX_WORKERS];
	uint8_t frame[SP_PACKET_ROOM]; /* linear copy of a multi-segment frame */
};

/* Trace state of a context. */
struct sp_traced {
	struct sp_handler table;     /* context->handler points to it */
	unsigned told;		     /* bitmap of overruns already reported */
	struct sp_allocation *block; /* next block to check; NULL: the first */
};

/* ---- traced.c: contexts ---- */
int sp_traced_create(struct sp_context *c); /* -ENOMEM; sets c->handler */
void sp_traced_gone(struct sp_context *c);  /* after detach: checks for leaks */
void sp_traced_destroy(struct sp_context *c);

/* ---- tracer.c: reports ---- */
struct sp_tracers *sp_tracers_of(struct sp_ctx *c);
void sp_trace_enter(struct sp_tracers *w, struct sp_calling *call);
void sp_trace_leave(struct sp_tracers *w, struct sp_calling *call);
void sp_trace_posted(struct sp_ctx *c, const struct sp_event *event);

#endif
