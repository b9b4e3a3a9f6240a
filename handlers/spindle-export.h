/* SPDX-License-Identifier: BSD-3-Clause */
/* What the first handler of a context offers to its companion, such as erasure coding to a receive bitmap. Only these
 * two include it, next to spindle-handler.h. sp_first() returns it, with the first handler's `struct sp_ctx`, which
 * each call takes. Calls return 0 or -errno; -ENOENT: there is no such message (any more). */
#ifndef SPINDLE_EXPORT_H
#define SPINDLE_EXPORT_H

#include "spindle-handler.h"
#include "wire/rdma.h" /* SGEs, work requests, completions */

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

/* ---- QPs: of `rdma` ---- */
/* A work request, or a receive entry, of the companion. It is a part of the companion's state, zeroed before its first
 * use, and the first handler's from post() or receive() to done(). w: as an application writes it; owner is not looked
 * at. Behind it, SGEs of regions of the QP's protection domain, or bytes (SP_RDMA_INLINED). A receive: w.sges, w.wr_id.
 */
struct sp_qp_work {
	struct sp_rdma_wqe w;
	union {
		struct sp_rdma_sge sge[SP_RDMA_SGES];
		uint8_t inlined[SP_RDMA_INLINE];
	};
	struct sp_qp_work *next; /* the first handler's, and the rest */
	bool out;
};
static_assert(offsetof(struct sp_qp_work, sge) == sizeof(struct sp_rdma_wqe), "as in a queue");

/* The companion's. On the QP's worker, with the companion's context there; never from within a call to the table below,
 * which they may call. */
struct sp_qp_calls {
	/* Once for each work that post() and receive() took, which is the companion's again: a request that the peer
	 * has acknowledged, and of which no port has a frame; a receive that a message has filled; or any that has
	 * failed, or was flushed. Requests that were begun come in the order of post(), receives in that of their
	 * messages. */
	void (*done)(struct sp_ctx *, struct sp_qp_work *, const struct sp_rdma_cqe *);
	/* The QP is no longer the companion's, and has none of its work: after unbind(), or as it was reset or
	 * destroyed. Not when the context ends: then detach() comes, whatever is out. */
	void (*ended)(struct sp_ctx *, uint32_t qp);
};

struct sp_qp_now {
	uint32_t peer_qp, mtu, pd;
	uint8_t type, state, reads; /* enum sp_rdma_qp_type, sp_rdma_qp_state; reads: READs and ATOMICs at once */
	uint8_t peer[16];	    /* address, IPv4 mapped; RC and UC */
};

/* A QP of the application, which the companion uses beside it. All but worker() on the QP's worker, else -EXDEV;
 * -ENOENT: there is no such QP. */
struct sp_qp_export {
	int (*worker)(struct sp_ctx *, uint32_t qp); /* the worker's number */
	int (*now)(struct sp_ctx *, uint32_t qp, struct sp_qp_now *);
	/* From now on the QP takes requests and receives of the companion. All messages fill the companion's receives,
	 * none the application's. -ENOTCONN: in RESET or ERR. -EBUSY: it is bound already, or has not ended yet. */
	int (*bind)(struct sp_ctx *, uint32_t qp, const struct sp_qp_calls *);
	/* Takes no more work. What was not begun is flushed, the rest ends as it would; then ended(). -ENOTCONN. */
	int (*unbind)(struct sp_ctx *, uint32_t qp);
	/* They come to the QP's other work, of which none is held up for long, and are charged to its owner. -ENOTCONN:
	 * it is not bound, or its state takes none (requests: RTS, SQD; receives: from INIT on). -EBUSY: it is out. */
	int (*post)(struct sp_ctx *, uint32_t qp, struct sp_qp_work *);
	int (*receive)(struct sp_ctx *, uint32_t qp, struct sp_qp_work *);
	/* Where [addr, addr + len) of a region of the QP's protection domain lies, for this call. write: it may be
	 * written. How many pieces, at most `room` (SP_RDMA_SEGMENTS suffice); -EACCES, -E2BIG. */
	int (*memory)(struct sp_ctx *, uint32_t qp, uint32_t lkey, uint64_t addr, uint64_t len, bool write,
		      struct sp_piece *, unsigned room);
};

/* What a first handler does not have is NULL. */
struct sp_export {
	const struct sp_qp_export *qps;				     /* the rest: messages */
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
