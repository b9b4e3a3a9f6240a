/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets for contexts that want all of theirs on the home worker (SP_HANDLER_HOME), and that have come to another one.
 * For each pair of workers there is a bounded queue with one writer and one reader, without locks. A packet in it does
 * not count as received; the home worker receives it in its next poll, parses it once more, and counts it.
 */
#ifndef PIPELINE_HANDOVER_H
#define PIPELINE_HANDOVER_H

#include "limits.h"

#include <stdint.h>
#include <stdbool.h>

struct sp_worker;
struct rte_mbuf;
struct sp_nic;

/* Queues for all workers, where there are several. -ENOMEM. */
int sp_handover_create(struct sp_nic *nic);
void sp_handover_destroy(struct sp_nic *nic); /* and the packets in them */
/* The packet, checked and received by that port, is the other worker's from here on. False: its queue is full. */
bool sp_handover_give(struct sp_worker *w, uint16_t to, uint16_t port, struct rte_mbuf *packet);
/* Up to a burst of packets of one port that another worker has handed over; the next port's come in the next round. */
unsigned sp_handover_take(struct sp_worker *w, uint16_t from, struct rte_mbuf *packet[SP_BURST], uint16_t *port);
bool sp_handover_waits(const struct sp_worker *w);

#endif
