/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A ring allreduce across datacenters, in virtual time: NICs in a ring, each with a port and a link towards the next
 * and a port towards the one before, a reliable SDR connection over each link, and a host program for each NIC. Every
 * node has a buffer of as many segments as there are nodes. In 2 (nodes - 1) rounds everyone sends a segment to the
 * next: first what has been summed up so far, until everyone has a segment of the sum of all; then these go round.
 *
 * A node begins a round when it has received the message of the round before and its own has been acknowledged, as in
 * the recurrence of the paper's appendix (arXiv 2505.05366, C): T[i](r + 1) = max(T[i](r), T[i-1](r)) + a message's
 * time. There the one before has ended its round when it is acknowledged; here its message is there half a round trip
 * sooner, so that lost chunks hold up the next node a little less. Adding up takes no time.
 */
#ifndef TESTBED_ALLREDUCE_H
#define TESTBED_ALLREDUCE_H

#include "transfer.h"

#define SP_ALLREDUCE_NODES_MAX 16u

struct sp_allreduce_config {
	struct sp_transfer_config way; /* from each node to the next; message: bytes of a segment */
	uint32_t nodes;		       /* 2 to SP_ALLREDUCE_NODES_MAX */
};

struct sp_allreduce;

/* As sp_transfer_create says. */
int sp_allreduce_create(const struct sp_allreduce_config *config, struct sp_error *error, struct sp_allreduce **ring);
/* The next allreduce, which all nodes begin together with other numbers than before. took: until all messages are
 * acknowledged, and so everyone has the sum. 0; -EBADMSG: somebody has another sum; else as sp_transfer_send. After an
 * error, only destroy. */
int sp_allreduce_run(struct sp_allreduce *ring, sp_time *took);
/* Of all connections together; messages: segments. verified: bytes of results. */
void sp_allreduce_count(const struct sp_allreduce *ring, struct sp_transfer_counters *counters);
void sp_allreduce_destroy(struct sp_allreduce *ring);

#endif
