/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of a context and the order of their handlers.
 *
 * An entry's word goes NEW -> HEADER -> OPEN -> ENDING -> FREE by compare-and-swap, with a count of packet runs inside.
 * A message with the CLOSING bit admits no worker; the last worker to leave runs completion(). With one worker the
 * steps are plain loads and stores. With several, runs in open messages are not counted: each worker publishes which
 * message it is inside, and a worker that ends a message reads all of these.
 */
#ifndef PIPELINE_EXEC_MESSAGE_H
#define PIPELINE_EXEC_MESSAGE_H

#include "message_table.h"

enum sp_enter {
	SP_ENTER_OPEN,	 /* inside: run payload, then sp_message_leave */
	SP_ENTER_HEADER, /* inside, alone: run header, then sp_message_opened or sp_message_refused */
	SP_ENTER_BUSY,	 /* another worker is in header(): park */
	SP_ENTER_MISS,	 /* no such message (SLOTS) */
	SP_ENTER_FULL,	 /* no room for a new one (HASHED) */
	SP_ENTER_NEWER,	 /* no such message; a newer version opens new ones (HASHED) */
};

enum sp_enter sp_message_enter(struct sp_view *v, uint64_t key, struct sp_message_entry **entry);
void sp_message_opened(struct sp_view *v, struct sp_message_entry *e);	/* HEADER -> OPEN, still inside */
void sp_message_refused(struct sp_view *v, struct sp_message_entry *e); /* HEADER -> FREE, outside */
/* end: also closes the message, for this reason. */
void sp_message_leave(struct sp_view *v, struct sp_message_entry *e, bool end, enum sp_end why);
/* True if a packet with that key belongs to this draining version: its message is open here, or may still be opened
 * here. */
bool sp_message_is_here(struct sp_view *v, uint64_t key);
/* Ends all messages; no packet may be inside. Home worker. */
void sp_messages_end_all(struct sp_view *v);
/* Ends idle messages, a part of the table per call; returns when to call again. Home worker. */
sp_time sp_messages_sweep(struct sp_view *v);
/* Frees entries of messages that this worker ended while another worker held their table. */
void sp_messages_reclaim(struct sp_worker *w);
/* For a traced context: see sp_messages_clear(). */
void sp_message_clear(struct sp_ctx *c, struct sp_message *m);
bool sp_message_is_open(struct sp_ctx *c, uint64_t key); /* SLOTS */

/* ---- for message_calls.c: counted in the entry's word, for messages held between runs of packets ---- */
enum sp_enter sp_message_enter_counted(struct sp_view *v, struct sp_message_entry *e, uint32_t tag);
enum sp_enter sp_message_enter_hashed(struct sp_view *v, uint64_t key, struct sp_message_entry **entry);
void sp_message_leave_counted(struct sp_view *v, struct sp_message_entry *e, bool end, enum sp_end why);
int sp_message_close_entry(struct sp_view *v, struct sp_message_entry *e, uint32_t tag, enum sp_end why);

#endif
