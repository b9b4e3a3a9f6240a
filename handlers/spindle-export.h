/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a context's first handler offers to its companion, such as erasure decoding beside a receive bitmap: included by
 * these two, beside spindle-handler.h. sp_first() gets it, with the first handler's `struct sp_ctx` that each call
 * takes. Calls return 0 or -errno: -ENOENT where there is no such message (any more).
 */
#ifndef SPINDLE_EXPORT_H
#define SPINDLE_EXPORT_H

#include "spindle-handler.h"

/* What all messages have in common. */
struct sp_message_limits {
	uint32_t messages;    /* at once, each way */
	uint32_t chunk_bytes; /* for one bit of the bitmap */
	uint64_t bytes;	      /* of one message, at most */
	uint8_t user_bits;    /* of the user's immediate in each packet; 0: messages have none */
	bool rolls; /* a message may make way for its slot's next one under the same key, and while it is held */
};

/* A message being received. */
struct sp_extent {
	uint64_t message;	  /* its number, from 0 */
	const struct sp_mem *mem; /* where its bytes go: in mem from offset on */
	uint64_t offset, bytes;	  /* bytes: as told by the sender if `fixed`, otherwise as posted */
	bool fixed, complete;
	uint32_t immediate, mask; /* the user's immediate, as far as it has come, and which of its bits have */
};

struct sp_export {
	void (*limits)(struct sp_ctx *, struct sp_message_limits *); /* from attach() on */

	/* From the inside of that message: payload() or completion() of the companion, or sp_message_hold(). */
	int (*extent)(struct sp_ctx *, uint64_t key, struct sp_extent *);
	uint64_t (*chunk)(struct sp_ctx *, const struct sp_packet *); /* that an accepted packet is of */
	/* Bit i: chunk `chunk` + i is there. Two who complete chunks at the same time and then ask: one sees both. */
	uint64_t (*present)(struct sp_ctx *, uint64_t key, uint64_t chunk);
	/* Of chunks `chunk` + i, those with bit i of *wanted become the companion's, to be written by it alone, until
	 * supply(): packets that come for them are repeats. The message's length is what extent() says from now on.
	 * *wanted says which are the companion's now. 0: all packets of the others have come. -EAGAIN: so they have, or
	 * another worker still writes some, call again until it has. -ERANGE: there are no such chunks, and none is
	 * reserved. */
	int (*reserve)(struct sp_ctx *, uint64_t key, uint64_t chunk, uint64_t *wanted);
	/* Bit i: chunk `chunk` + i is, or has been, the companion's. */
	uint64_t (*reserved)(struct sp_ctx *, uint64_t key, uint64_t chunk);
	/* Those reserved are in place: they count as arrived. -EINVAL: some are not the companion's, or there are none.
	 */
	int (*supply)(struct sp_ctx *, uint64_t key, uint64_t chunk, uint64_t chunks);

	/* On the home worker. A message of `bytes` in memory region `mem` at `offset`, which is sent as it gets
	 * ready(): `bytes` more of it, from its beginning on, in whole chunks; and once all of the message before it
	 * was sent. `message` must be the next to be sent. -EFAULT: not within a region. -EINVAL, -EAGAIN: no room.
	 * -ENOTCONN. -EOPNOTSUPP. */
	int (*send)(struct sp_ctx *, uint64_t message, uint64_t mem, uint64_t offset, uint64_t bytes,
		    uint32_t immediate);
	int (*ready)(struct sp_ctx *, uint64_t message, uint64_t bytes);
};

#endif
