/* SPDX-License-Identifier: BSD-3-Clause */
/* A context as one worker sees it. Marks at the fields: see context.h. */
#ifndef PIPELINE_VIEW_H
#define PIPELINE_VIEW_H

#include <sys/queue.h>

#include "../handlers/spindle-handler.h"
#include "limits.h"
#include "exec/meter.h"
#include "exec/last_error.h"

struct sp_allowance;
struct sp_path;
/* Paths of a context on one worker. */
struct sp_paths {
	struct sp_path *path[SP_PATH_HEADS]; /* lists */
	struct sp_path *free;
	unsigned count;
};
struct sp_context;
struct sp_entity;
struct sp_zc_queue;
struct sp_worker;

/* A context as one worker sees it; pub is what handlers get. */
struct sp_view {
	struct sp_ctx pub;
	struct sp_context *context;
	struct sp_worker *owner;
	struct sp_entity *entity;	/* the context's on this worker; a companion has that of its first context */
	struct sp_zc_queue *zc_queue;	/* payload that ports still read */
	struct sp_allowance *allowance; /* the entity's */
	uint64_t packets, bytes;	/* taken; [worker] writes, others read for reports */
	uint64_t forwarded;
	uint64_t drops[SP_MAX_DROPS];
	uint64_t counters[SP_MAX_COUNTERS];
	uint64_t dma_faults, dma_traced, events_lost, sent, sent_bytes;
	uint64_t errors;		 /* wrong verdicts */
	struct sp_last_error last_error; /* the last error; [worker] writes, versions.c moves, a snapshot copies it */
	int64_t held;			 /* packets that handlers hold; summed over workers */
	uint64_t ended;			 /* verdicts SP_END; these are among `packets` */
	uint64_t answered;		 /* verdicts SP_SENT; these too */
	struct sp_meter meter;
	struct sp_sample sample[2];	       /* of runs with packets, and without */
	uint64_t over_budget, disabled;	       /* drops by these reasons of the NIC; part of `dropped` */
	uint64_t held_refused;		       /* attempts to keep more than SP_MAX_HELD packets */
	uint64_t backlog_full;		       /* drops by this reason of the NIC; part of `dropped` */
	struct sp_work *work_head, *work_tail; /* deferred work; FIFO */
	TAILQ_ENTRY(sp_view) working;	       /* in the worker's list of views with deferred work */
	uint64_t over_limit;		       /* the same: by this one */
	uint64_t dropped;		       /* by the handler's reasons, and by the NIC's for this context */
	uint8_t touched; /* enum sp_news; not 0: in the worker's list of views with something new for the host */
	SLIST_ENTRY(sp_view) touched_next;
	/* ---- versions.c: [worker], or a control thread while the worker stands still */
	uint64_t handed;     /* packets that this version ran, and a newer version counts */
	uint64_t taken_over; /* part of `packets`: run by older versions */
	uint32_t timers;     /* armed */
	/* ---- sending: on the home worker's view alone, but with SP_HANDLER_FLOWS on each. One line has what each poll
	 * looks at for all that want to send. */
	TAILQ_ENTRY(sp_view) issuing SP_CACHE_ALIGNED; /* in the worker's list of views with issues */
	struct sp_issue *issues;		       /* circular list, last started */
	uint64_t issue_turn;			       /* the poll after the one of its last turn */
	sp_time tx_next;			       /* when issue() may send again */
	uint64_t rate;				       /* bit/s, 0 = no limit */
	uint64_t tx_rest;	     /* remainder of the last division by rate: in the long run the pace is exact */
	bool is_issuing, issue_sent; /* issue_sent: in its last turn */
	struct sp_issue *issue_elsewhere; /* started on another worker; [shared] atomic exchange */
	LIST_ENTRY(sp_view) elsewhere;	  /* in the worker's list */
	struct sp_paths *paths;
} SP_CACHE_ALIGNED;

/* What is new for the host. PROGRESS: how far what it has posted itself is; see SP_ARM_RECEIVE. */
enum sp_news { SP_NEWS_OTHER = 1, SP_NEWS_PROGRESS = 2 };

/* sp_ctx.watch */
enum { SP_WATCH_TRACED = 1, SP_WATCH_PAYLOAD_LESS = 2 };

static inline struct sp_view *sp_view_of(struct sp_ctx *c)
{
	return (struct sp_view *)c; /* pub is the first member */
}

void sp_last_error_note(struct sp_view *v, enum sp_last_error_kind what, uint64_t a, uint64_t b, uint64_t c,
			uint32_t id);

#endif
