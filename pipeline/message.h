/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of a context and the order of their handlers.
 *
 * An entry's word goes NEW -> HEADER -> OPEN -> ENDING -> FREE by compare-and-swap, with a count of the runs of packets
 * inside. A message that is closed (CLOSING bit) lets nobody in; the worker that leaves last runs completion(). With
 * one worker the same steps are plain loads and stores. With several workers, runs of packets in open messages are not
 * counted: each worker says which message it is inside, and a worker that ends a message looks at all of these.
 */
#ifndef PIPELINE_MESSAGE_H
#define PIPELINE_MESSAGE_H

#include "message_table.h"

enum sp_enter {
	SP_ENTER_OPEN,	 /* inside: run payload, then sp_message_leave */
	SP_ENTER_HEADER, /* inside and alone: run header, then sp_message_opened or sp_message_refused */
	SP_ENTER_BUSY,	 /* another worker is in header(): park */
	SP_ENTER_MISS,	 /* no such message (SLOTS) */
	SP_ENTER_FULL,	 /* no room for a new one (HASHED) */
	SP_ENTER_NEWER,	 /* no such message, and a newer version opens them (HASHED) */
};

enum sp_enter sp_message_enter(struct sp_view *v, uint64_t key, struct sp_message_entry **entry);
void sp_message_opened(struct sp_view *v, struct sp_message_entry *e);	/* HEADER -> OPEN, still inside */
void sp_message_refused(struct sp_view *v, struct sp_message_entry *e); /* HEADER -> FREE, outside */
/* end: closes the message as well, for this reason. */
void sp_message_leave(struct sp_view *v, struct sp_message_entry *e, bool end, enum sp_end why);
/* Whether a packet with that key belongs to this version, which drains: the message is open there, or may still be
 * opened. */
bool sp_message_is_here(struct sp_view *v, uint64_t key);
/* Ends all messages, which no packet may be inside of. Home worker. */
void sp_messages_end_all(struct sp_view *v);
/* Ends what has been idle for too long (part of the table at a time); returns when to look again. Home worker. */
sp_time sp_messages_sweep(struct sp_view *v);
/* Gives back the entries of messages that this worker has ended while another one changed their table. */
void sp_messages_reclaim(struct sp_worker *w);
/* For a watched context: see sp_messages_clear(). */
void sp_message_clear(struct sp_ctx *c, struct sp_message *m);
bool sp_message_is_open(struct sp_ctx *c, uint64_t key); /* SLOTS */

/* ---- for message_calls.c: with a count in the entry's word, as a message is held between runs of packets ---- */
enum sp_enter sp_message_enter_counted(struct sp_view *v, struct sp_message_entry *e, uint32_t tag);
enum sp_enter sp_message_enter_hashed(struct sp_view *v, uint64_t key, struct sp_message_entry **entry);
void sp_message_leave_counted(struct sp_view *v, struct sp_message_entry *e, bool end, enum sp_end why);
int sp_message_close_entry(struct sp_view *v, struct sp_message_entry *e, uint32_t tag, enum sp_end why);

#endif
