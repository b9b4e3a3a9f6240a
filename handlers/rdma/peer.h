/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, what QPs have in common whose peers have one address: so many bytes of READ responses under way, however many
 * QPs ask for them. They are given to QPs in turns. On the QPs' worker, each of which knows its own. */
#ifndef HANDLERS_RDMA_PEER_H
#define HANDLERS_RDMA_PEER_H

#include "state.h"

#define RDMA_READ_TURN (64u << 10) /* bytes; a multiple of any path MTU */

int rdma_peers_attach(struct sp_ctx *);
/* Of a QP that is connected; and no longer. */
void rdma_peer_join(struct sp_ctx *, struct rdma_qp *);
void rdma_peer_leave(struct sp_ctx *, struct rdma_qp *);
/* The QP has a turn, to answer a READ of which so many bytes are left: qp->turn bytes. False: it waits in line, and is
 * started then. */
bool rdma_peer_turn(struct sp_ctx *, struct rdma_qp *, uint32_t left);
/* So many bytes of its turn were sent. */
void rdma_peer_sent(struct sp_ctx *, struct rdma_qp *, uint32_t bytes);
/* It wants no more for now: the rest of its turn is free, and it waits for none. */
void rdma_peer_done(struct sp_ctx *, struct rdma_qp *);

#endif
