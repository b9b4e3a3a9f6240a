/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, work requests: entries of the send queue, copied once into operations. On the QP's worker. */
#ifndef HANDLERS_RDMA_WQE_H
#define HANDLERS_RDMA_WQE_H

#include "state.h"

/* PSNs of a READ request, at most: a longer READ has several, one after the other, so that fewer than 2^23 PSNs are
 * out.
 */
#ifndef RDMA_READ_PART /* tests have a smaller one */
#define RDMA_READ_PART (1u << 22)
#endif

struct rdma_op {
	struct rdma_op *next;
	uint64_t wr_id;
	uint64_t seq;	 /* its first PSN */
	uint64_t packet; /* number of its first request packet */
	uint64_t mark;	 /* ports may have frames of it up to this one; 0: none */
	uint64_t remote, compare_add, swap;
	uint32_t packets; /* PSNs that it takes; none: rdma_op_local() */
	uint32_t len;	  /* bytes of its memory */
	uint32_t rkey, imm, ah, remote_qp, qkey;
	uint8_t op, flags, sges;
	uint8_t status;		   /* enum sp_rdma_status: how it ends; SP_RDMA_OK until it has failed */
	bool begun;		   /* something of it was sent; rdma_op_local(): it is done */
	bool counted;		   /* in the QP's reads */
	struct sp_qp_work *second; /* NULL: the application's */
	struct rdma_mr *held[SP_RDMA_SGES];
	union {
		struct sp_rdma_sge sge[SP_RDMA_SGES];
		uint8_t inlined[SP_RDMA_INLINE];
	};
} __attribute__((aligned(64)));

static inline bool rdma_op_reads(const struct rdma_op *op)
{
	return op->op >= SP_RDMA_WR_READ && op->op <= SP_RDMA_WR_FETCH_ADD;
}
/* It takes no packets: the QP does it between those before and those after it. */
static inline bool rdma_op_local(const struct rdma_op *op)
{
	return op->op == SP_RDMA_WR_LOCAL_INV || op->op == SP_RDMA_WR_BIND_MW;
}
static inline uint64_t rdma_op_end(const struct rdma_op *op)
{
	return op->seq + op->packets;
}

/* The queue has an entry. If not, the next doorbell comes as a command. */
bool rdma_wqe_waits(struct rdma_qp *);
/* The queue's next entry, last of the QP's operations; status: it must fail. NULL: there is none, or the QP has to wait
 * for an operation, and is started then. */
struct rdma_op *rdma_wqe_fetch(struct sp_ctx *, struct rdma_qp *);
/* Skips an entry that rdma_wqe_waits() has found. */
void rdma_wqe_skip(struct rdma_qp *, uint64_t *wr_id, uint8_t *op);
/* Ends an operation that is in no list. */
void rdma_op_free(struct sp_ctx *, struct rdma_op *);
/* The QP no longer waits for one. */
void rdma_pool_leave(struct sp_ctx *, struct rdma_qp *);
/* Starts the QP that waits longest, if there is one for it. */
void rdma_pool_pass_on(struct sp_ctx *);
/* Pieces of [at, at + len) of an operation's memory, which it holds from now on. How many; -EACCES, -E2BIG. */
int rdma_op_pieces(struct sp_ctx *, const struct rdma_qp *, struct rdma_op *, uint32_t at, uint32_t len,
		   struct sp_piece *out, unsigned room);

/* attach(), detach(). */
int rdma_request_attach(struct sp_ctx *);
void rdma_request_detach(struct sp_ctx *);

#endif
