/* SPDX-License-Identifier: BSD-3-Clause */
/* The receiving half of reliability: ACKs made from bitmaps. No clock, no I/O, no memory: the caller says what it has.
 */
#ifndef RELIABILITY_RECEIVER_H
#define RELIABILITY_RECEIVER_H

#include <stdbool.h>
#include <stddef.h>

#include "../wire/reliability.h"

struct sp_rel_receiver {
	uint64_t poll;	/* latest number seen; 0: none */
	uint64_t begin; /* messages that the sender has no more use for are below; grows */
	uint64_t end;	/* of messages from here on nothing had been sent when it last asked; grows */
};

struct sp_rel_asked {
	uint64_t poll, from_message;
	uint32_t from_unit;
};
/* A datagram that came. 0: a POLL, to be answered, an old or repeated one too. -EINVAL: it is none, or cannot be true.
 */
int sp_rel_poll_take(struct sp_rel_receiver *r, const void *datagram, size_t len, struct sp_rel_asked *asked);

/* An ACK under construction: begin; then messages in ascending order, at the most from the one on that the poll asks
 * for up to r->end; then its length. Those of which nothing has come may be left out, those below `base` are. */
struct sp_rel_ack_maker {
	uint8_t *bytes;
	size_t room, len;
	uint64_t from_message, to_message;
	uint32_t from_unit, to_unit;
	unsigned entries;
	uint32_t repaired, repaired_runs; /* set them after sp_rel_ack_begin, if there are any */
	bool cut;
	bool stopped; /* there is no use in going on */
};
#define SP_REL_ACK_LEAST 96 /* room for one entry and some bits */
/* asked: NULL: unasked. base: all messages below are complete, or below r->begin. room: at least SP_REL_ACK_LEAST. */
void sp_rel_ack_begin(struct sp_rel_ack_maker *m, void *bytes, size_t room, const struct sp_rel_asked *asked,
		      uint64_t base);
/* bitmap: unit i is bit i % 64 of word i / 64; words may change meanwhile (0 to 1 only). NULL: the message is complete.
 * False: not all of it fitted, nothing more will. */
bool sp_rel_ack_add(struct sp_rel_ack_maker *m, uint64_t message, const uint64_t *bitmap, uint32_t units);
/* Nothing is said of what is missing from this unit on, for it may come without being sent again. */
bool sp_rel_ack_stop(struct sp_rel_ack_maker *m, uint64_t message, uint32_t unit);
/* The message is refused; reason: for the sender's owner, 0: none. As above. */
bool sp_rel_ack_refuse(struct sp_rel_ack_maker *m, uint64_t message, uint8_t reason);
size_t sp_rel_ack_end(struct sp_rel_ack_maker *m);

#endif
