/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A ring allreduce across datacenters, in virtual time: NICs in a ring, each with a port and a link to the next and a
 * port to the one before, a reliable SDR connection over each link, and a host program for each NIC. Every node has a
 * buffer of as many segments as there are nodes. In 2 (nodes - 1) rounds every node sends a segment to the next: first
 * partial sums, until every node has one segment of the total sum; then these segments go round.
 *
 * A node begins a round when it has received the message of the round before and its own has been acknowledged, as in
 * the recurrence of the paper's appendix (arXiv 2505.05366, C): T[i](r + 1) = max(T[i](r), T[i-1](r)) + a message's
 * time. In the paper, the node before has ended its round when its message is acknowledged. Here the message arrives
 * half a round trip earlier, so lost chunks delay the next node a little less. Adding takes no time.
 */
#ifndef TESTBED_ALLREDUCE_H
#define TESTBED_ALLREDUCE_H

#include "transfer.h"

#define SP_ALLREDUCE_NODES_MAX 16u

struct sp_allreduce_config {
	struct sp_transfer_config way; /* the path from each node to the next; message: bytes of a segment */
	uint32_t nodes;		       /* 2 to SP_ALLREDUCE_NODES_MAX */
};

struct sp_allreduce;

/* As sp_transfer_create. */
int sp_allreduce_create(const struct sp_allreduce_config *config, struct sp_error *error, struct sp_allreduce **ring);
/* Runs the next allreduce, with new numbers. All nodes begin together. took: until all messages are acknowledged, and
 * so every node has the sum. 0; -EBADMSG: a node has a wrong sum; else as sp_transfer_send. After an error, only
 * destroy. */
int sp_allreduce_run(struct sp_allreduce *ring, sp_time *took);
/* Sums over all connections; messages: segments; verified: bytes of results. */
void sp_allreduce_count(const struct sp_allreduce *ring, struct sp_transfer_counters *counters);
void sp_allreduce_destroy(struct sp_allreduce *ring);

#endif
