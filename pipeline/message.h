/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of a context and the order of their handlers.
 *
 * word of an entry: NEW -> HEADER -> OPEN -> ENDING -> FREE by compare-and-swap, with a count of packets' runs inside.
 * A closed message (CLOSING bit) lets nobody in; whoever leaves last runs completion(). With one worker the same steps
 * are taken with plain loads and stores. With several, runs of packets in open messages are not counted: each worker
 * says where it is, and whoever ends a message looks at what all of them say.
 */
#ifndef PIPELINE_MESSAGE_H
#define PIPELINE_MESSAGE_H

#include "../handlers/spindle-handler.h"

struct sp_context;
struct sp_view;
struct sp_worker;

/* One message. word (shared): bits 0-2 state, 3 closing, 4-6 why, 7 header has run, 8-31 how many are inside (with
 * several workers, without most runs of packets), 32-63 tag. See message.c. */
struct sp_message_entry {
	struct sp_message pub;
	_Atomic uint64_t word;
	uint32_t next;		  /* HASHED: free list or a worker's list of ended ones, index + 1 */
	struct sp_message beside; /* the same for the companion, with its own state */
};

enum sp_enter {
	SP_ENTER_OPEN,	 /* inside: run payload, then sp_message_leave */
	SP_ENTER_HEADER, /* inside and alone: run header, then sp_message_opened or sp_message_refused */
	SP_ENTER_BUSY,	 /* another worker is in header(): park */
	SP_ENTER_MISS,	 /* no such message (SLOTS) */
	SP_ENTER_FULL,	 /* no room for a new one (HASHED) */
	SP_ENTER_NEWER,	 /* no such message, and new ones are the newer copy's (HASHED) */
};

int sp_messages_create(struct sp_context *c, uint32_t limit, sp_time idle);
void sp_messages_destroy(struct sp_context *c);

enum sp_enter sp_message_enter(struct sp_view *v, uint64_t key, struct sp_message_entry **entry);
void sp_message_opened(struct sp_view *v, struct sp_message_entry *e);	/* HEADER -> OPEN, still inside */
void sp_message_refused(struct sp_view *v, struct sp_message_entry *e); /* HEADER -> FREE, outside */
/* end: close it as well, for this reason. */
void sp_message_leave(struct sp_view *v, struct sp_message_entry *e, bool end, enum sp_end why);
/* Whether a packet with that key is this older copy's: its message is open there, or may still be opened. */
bool sp_message_is_here(struct sp_view *v, uint64_t key);
/* Nothing is open in it, and nothing will be by a packet. */
bool sp_messages_quiet(const struct sp_context *c);
/* HASHED: from here on none is opened in it: whoever finds none afterwards has seen all that ever were. A control
 * thread, while workers go on; it waits for them, and never they for it. */
void sp_messages_close(struct sp_context *c);
/* No packet may be inside any message: ends all. Home worker. */
void sp_messages_end_all(struct sp_view *v);
/* Ends what has been idle for too long (part of the table at a time); returns when to look again. Home worker. */
sp_time sp_messages_sweep(struct sp_view *v);
/* Of a watched context: zeroes the state of a message, and the companion's, with a canary behind each. */
void sp_message_clear(struct sp_ctx *c, struct sp_message *m);
bool sp_message_is_open(struct sp_ctx *c, uint64_t key); /* SLOTS */
sp_time sp_messages_idle(const struct sp_context *c);	 /* ps, 0 = no timeout */
/* Gives back entries whose messages this worker ended. */
void sp_messages_reclaim(struct sp_worker *w);
uint32_t sp_messages_open(const struct sp_context *c);	  /* how many there are now */
uint32_t sp_messages_started(const struct sp_context *c); /* those of them that have had a packet, and can time out */

#endif
