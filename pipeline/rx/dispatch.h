/* SPDX-License-Identifier: BSD-3-Clause */
/* From a burst of received packets to the contexts that they belong to. */
#ifndef PIPELINE_RX_DISPATCH_H
#define PIPELINE_RX_DISPATCH_H

#include <stdint.h>

struct rte_mbuf;
struct sp_worker;

/* Parses, matches and runs packets. Every one of them ends in a context, the exception port or a drop, or waits; the
 * buffers are no longer the caller's. */
void sp_dispatch(struct sp_worker *w, uint16_t port, struct rte_mbuf **packet, unsigned n);
/* Packets that other workers have handed over, from each of them one burst; how many there were. */
unsigned sp_dispatch_handed_over(struct sp_worker *w);
/* A burst of what this worker has sent to the NIC itself; how many there were. */
unsigned sp_dispatch_loop(struct sp_worker *w);

#endif
