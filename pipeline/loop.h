/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The NIC talking to itself: packets for one of its own addresses touch no port. Each worker has a bounded queue, its
 * tx[SP_PORT_LOOP]; what a worker sends it receives itself, in its next poll, as from a port: parsed, ICRC and all.
 */
#ifndef PIPELINE_LOOP_H
#define PIPELINE_LOOP_H

struct sp_worker;
struct rte_mbuf;

/* Takes the packet on success; -EAGAIN (counted tx-full). */
int sp_loop_send(struct sp_worker *w, struct rte_mbuf *m);
/* Dispatches a burst of what waits; returns how many. What is sent meanwhile waits for the next poll. */
unsigned sp_loop_receive(struct sp_worker *w);

#endif
