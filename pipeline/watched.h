/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inside of watching (watch.h). A context of a watched NIC has a table of functions of its own: each tells of the
 * call, calls the handler's, and looks at what that has done. So a context that is not watched has nothing to ask.
 */
#ifndef PIPELINE_WATCHED_H
#define PIPELINE_WATCHED_H

#include "limits.h"
#include "watch.h"

struct sp_worker;
struct sp_context;

/* A call under way, on the stack of who makes it. */
struct sp_calling {
	struct sp_watched_call told;
	struct sp_calling *outer;
};

/* A NIC's. On one thread. */
struct sp_watcher {
	struct sp_watch watch[SP_MAX_WATCHES];
	unsigned count;
	struct sp_calling *calling; /* the innermost; NULL: none */
	const void *again;	    /* the frame for which miss() has been wrong to say SP_AGAIN */
	struct {
		const struct sp_packet *packet;	 /* that is being dispatched; NULL: none */
		bool matched, ended;		 /* told already */
		uint64_t sent[SP_PORT_LOOP + 1]; /* frames told of those that have been queued, by queue */
	} worker[SP_MAX_WORKERS];
	uint8_t frame[SP_PACKET_ROOM]; /* of one in several pieces */
};

/* A context's. */
struct sp_watched {
	struct sp_handler table;     /* what context->handler points to */
	unsigned told;		     /* kinds of overruns that have been, bits */
	struct sp_allocation *block; /* that is looked at next; NULL: the first */
};

/* ---- watched.c: contexts ---- */
int sp_watched_create(struct sp_context *c); /* -ENOMEM; sets c->handler */
void sp_watched_gone(struct sp_context *c);  /* detached: what does it leave? */
void sp_watched_destroy(struct sp_context *c);

/* ---- watch.c: telling ---- */
struct sp_watcher *sp_watcher_of(struct sp_ctx *c);
void sp_watch_enter(struct sp_watcher *w, struct sp_calling *call);
void sp_watch_leave(struct sp_watcher *w, struct sp_calling *call);
void sp_watch_posted(struct sp_ctx *c, const struct sp_event *event);

#endif
