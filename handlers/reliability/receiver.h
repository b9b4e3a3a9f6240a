/* SPDX-License-Identifier: BSD-3-Clause */
/* The receiving half of reliability: makes ACKs from bitmaps. No clock, no I/O, no memory: the caller says what it has.
 */
#ifndef RELIABILITY_RECEIVER_H
#define RELIABILITY_RECEIVER_H

#include <stdbool.h>
#include <stddef.h>

#include "../wire/reliability.h"

struct sp_rel_receiver {
	uint64_t poll;	/* highest number seen; 0: none */
	uint64_t begin; /* the sender needs no more of messages below; only grows */
	uint64_t end;	/* when it last asked, nothing was sent of messages from here on; only grows */
};

struct sp_rel_asked {
	uint64_t poll, from_message;
	uint32_t from_unit;
};
/* Takes a datagram. 0: it is a POLL, to be answered even if it is old or repeated. -EINVAL: it is none, or impossible.
 */
int sp_rel_poll_take(struct sp_rel_receiver *r, const void *datagram, size_t len, struct sp_rel_asked *asked);

/* An ACK in the making: begin; then messages in ascending order, from the one that the poll asks for up to r->end; then
 * its length. Messages of which nothing has arrived may be left out. Messages below `base` are left out. */
struct sp_rel_ack_maker {
	uint8_t *bytes;
	size_t room, len;
	uint64_t from_message, to_message;
	uint32_t from_unit, to_unit;
	unsigned entries;
	uint32_t repaired, repaired_runs; /* set after sp_rel_ack_begin(), if there are any */
	bool cut;
	bool stopped; /* the ACK is full: nothing more will fit */
};
#define SP_REL_ACK_LEAST 96 /* room for one entry and some bits */
/* asked: the POLL, or NULL. base: all messages below are complete, or below r->begin. room: at least SP_REL_ACK_LEAST.
 */
void sp_rel_ack_begin(struct sp_rel_ack_maker *m, void *bytes, size_t room, const struct sp_rel_asked *asked,
		      uint64_t base);
/* bitmap: unit i is bit i % 64 of word i / 64; bits may be set meanwhile. NULL: the message is complete. False: it did
 * not fit completely, and nothing more will. */
bool sp_rel_ack_add(struct sp_rel_ack_maker *m, uint64_t message, const uint64_t *bitmap, uint32_t units);
/* The ACK says nothing of units from this one on: they may still arrive without being sent again. */
bool sp_rel_ack_stop(struct sp_rel_ack_maker *m, uint64_t message, uint32_t unit);
/* Says that the message is refused. reason: for the owner of the sender; 0: none. Returns as above. */
bool sp_rel_ack_refuse(struct sp_rel_ack_maker *m, uint64_t message, uint8_t reason);
size_t sp_rel_ack_end(struct sp_rel_ack_maker *m);

#endif
