/* SPDX-License-Identifier: BSD-3-Clause */
/* What the first handler of a context offers to its companion, such as erasure coding to a receive bitmap. Only these
 * two include it, next to spindle-handler.h. sp_first() returns it, with the first handler's `struct sp_ctx`, which
 * each call takes. Calls return 0 or -errno; -ENOENT: there is no such message (any more). */
#ifndef SPINDLE_EXPORT_H
#define SPINDLE_EXPORT_H

#include "spindle-handler.h"

/* The same for all messages. */
struct sp_message_limits {
	uint32_t messages;    /* at once, in each direction */
	uint32_t chunk_bytes; /* per bit of the bitmap */
	uint64_t bytes;	      /* of a message, at most */
	uint8_t user_bits;    /* of the user's immediate in each packet; 0: messages have none */
	bool rolls; /* a message may be replaced by the next one of its slot under the same key, even while it is held
		     */
};

/* A message being received. */
struct sp_extent {
	uint64_t message;	  /* number of the message, from 0 */
	const struct sp_mem *mem; /* of the buffer, which is in mem from offset on */
	uint64_t offset, bytes;	  /* bytes: said by the sender if `fixed`, otherwise as posted */
	bool fixed, complete;
	uint32_t immediate, mask; /* the user's immediate as far as it has arrived, and which of its bits have */
};

struct sp_export {
	void (*limits)(struct sp_ctx *, struct sp_message_limits *); /* from attach() on */

	/* Only while inside the message: in payload() or completion() of the companion, or after sp_message_hold(). */
	int (*extent)(struct sp_ctx *, uint64_t key, struct sp_extent *);
	uint64_t (*chunk)(struct sp_ctx *, const struct sp_packet *); /* of an accepted packet */
	/* Bit i: chunk `chunk` + i has arrived. If two workers complete chunks at the same time and then ask, one sees
	 * both. */
	uint64_t (*present)(struct sp_ctx *, uint64_t key, uint64_t chunk);
	/* Reserves those of the chunks `chunk` + i whose bit i of *wanted is set: only the companion writes to them
	 * until supply(), and packets that arrive for them count as repeats. The message's length is fixed at that of
	 * extent(). *wanted: the chunks that are the companion's now. 0: all packets of the others have arrived.
	 * -EAGAIN: other workers may still be writing to some of the others; call again. -ERANGE: there are no such
	 * chunks, and none is reserved. */
	int (*reserve)(struct sp_ctx *, uint64_t key, uint64_t chunk, uint64_t *wanted);
	/* Bit i: chunk `chunk` + i is, or was, reserved. */
	uint64_t (*reserved)(struct sp_ctx *, uint64_t key, uint64_t chunk);
	/* These reserved chunks are in place, and count as arrived. -EINVAL: some are not reserved, or there are none.
	 */
	int (*supply)(struct sp_ctx *, uint64_t key, uint64_t chunk, uint64_t chunks);

	/* On the home worker. Sends a message of `bytes` in memory region `mem` at `offset`, as ready() says: each call
	 * makes `bytes` more of it ready, from its beginning on, in whole chunks. It is sent after all of the message
	 * before it. `message` must be the next one. -EFAULT: not within a region. -EINVAL, -EAGAIN: no room.
	 * -ENOTCONN. -EOPNOTSUPP. */
	int (*send)(struct sp_ctx *, uint64_t message, uint64_t mem, uint64_t offset, uint64_t bytes,
		    uint32_t immediate);
	int (*ready)(struct sp_ctx *, uint64_t message, uint64_t bytes);
};

#endif
