/* SPDX-License-Identifier: BSD-3-Clause */
/* A context as one worker sees it. Marks at the fields: see exec_context.h. */
#ifndef PIPELINE_VIEW_H
#define PIPELINE_VIEW_H

#include <sys/queue.h>

#include "../handlers/spindle-handler.h"
#include "limits.h"
#include "meter.h"
#include "wrong.h"

struct sp_context;
struct sp_worker;

/* What a view has had of its worker, and what of its waits. [worker] */
struct sp_portion {
	uint64_t cost;		 /* cycles of a packet, of late; 0: none has been measured */
	uint64_t had;		 /* virtual time: cycles by weight, see share.c */
	uint64_t seen;		 /* cycles measured that are in it */
	uint64_t known;		 /* cost as it was then */
	uint32_t period;	 /* of shortage that it is of */
	uint16_t first, last;	 /* in the backlog, index + 1 */
	uint16_t packets, place; /* there; in the list of who has some */
};

/* A context as one worker sees it; pub is what handlers get. */
struct sp_view {
	struct sp_ctx pub;
	struct sp_context *context;
	struct sp_worker *owner;
	struct sp_lender *lender; /* its payload that ports have */
	uint64_t packets, bytes;  /* taken; [worker] writes, others read for reports */
	uint64_t forwarded;
	uint64_t drops[SP_MAX_DROPS];
	uint64_t counters[SP_MAX_COUNTERS];
	uint64_t dma_faults, dma_traced, events_lost, sent, sent_bytes;
	uint64_t errors;       /* verdicts that are none, sends that were not */
	struct sp_wrong wrong; /* the last such thing; [worker] writes, copies.c moves, a snapshot copies it */
	int64_t kept;	       /* packets that handlers hold; summed over workers */
	uint64_t ended;	       /* verdicts SP_END; these are among `packets` */
	uint64_t answered;     /* verdicts SP_SENT; these too */
	struct sp_meter meter;
	struct sp_alike alike[2];	       /* turns with packets, and without */
	uint64_t over_budget, disabled;	       /* drops by these two of the NIC's names; they are among `dropped` */
	uint64_t kept_refused;		       /* beyond SP_MAX_KEPT */
	uint64_t backlog_full;		       /* drops by this name of the NIC's; among `dropped`, too */
	struct sp_work *work_head, *work_tail; /* deferred work; FIFO */
	struct sp_view *working_next;	       /* in the worker's list of those that have some */
	uint64_t dropped;		       /* by handlers' reasons and errors of this context, all together */
	bool touched;			       /* on the worker's list of views with something new for the host */
	SLIST_ENTRY(sp_view) touched_next;
	/* the packets of the current burst that are this context's */
	struct sp_packet *batch[SP_BURST + SP_PARKED];
	unsigned batched;
	struct sp_portion portion;
	/* ---- copies.c: [worker], or a control thread while the worker stands still */
	uint64_t handed,
		taken_over; /* packets counted here whose count a newer copy has; of `packets`, an older one's */
	uint32_t timers;    /* armed */
} SP_CACHE_ALIGNED;

/* sp_ctx.watch */
enum { SP_WATCH_TRACED = 1, SP_WATCH_PAYLOAD_LESS = 2 };

static inline struct sp_view *sp_view_of(struct sp_ctx *c)
{
	return (struct sp_view *)c; /* pub is the first member */
}

#endif
