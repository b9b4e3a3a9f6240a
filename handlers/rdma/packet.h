/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, operations -> packets. On the QP's worker. */
#ifndef HANDLERS_RDMA_PACKET_H
#define HANDLERS_RDMA_PACKET_H

#include "wqe.h"

#define RDMA_BATCH 32 /* packets that are made together */

/* Packets that are handed to the NIC together. */
struct rdma_batch {
	unsigned n, pieces;
	struct sp_path *path;
	struct sp_send send[RDMA_BATCH];
	struct rdma_op *op[RDMA_BATCH]; /* that it is of, */
	uint64_t seq[RDMA_BATCH];	/* from this PSN on, */
	uint64_t end[RDMA_BATCH];	/* to before this one */
	uint8_t ext[RDMA_BATCH][32];
	struct sp_piece piece[2 * SP_RDMA_SEGMENTS];
};

/* Adds the packet of the operation that begins with PSN sq.at. `ask` for an acknowledgement. 0: it was added, and sq.at
 * has moved. -ENOBUFS: it does not fit any more; send the others first. -EAGAIN. Otherwise the operation has failed. */
int rdma_packet_add(struct sp_ctx *, struct rdma_qp *, struct rdma_batch *, struct rdma_op *, bool ask);

#endif
