/* SPDX-License-Identifier: BSD-3-Clause */
/* Handover of packets to their context's home worker (SP_HANDLER_HOME). Each pair of workers has a bounded
 * single-producer single-consumer queue, so no worker waits. A packet in it counts as not received yet; the home worker
 * receives it in its next poll, parses it again, and counts it. */
#ifndef PIPELINE_EXEC_HANDOVER_H
#define PIPELINE_EXEC_HANDOVER_H

#include "../limits.h"

#include <stdint.h>
#include <stdbool.h>

struct sp_worker;
struct rte_mbuf;
struct sp_nic;

/* Creates the queues of a NIC with several workers. -ENOMEM. */
int sp_handover_create(struct sp_nic *nic);
void sp_handover_destroy(struct sp_nic *nic); /* frees queued packets */
/* Hands a packet, received and checked on that port, to another worker. False: the queue is full. */
bool sp_handover_give(struct sp_worker *w, uint16_t to, uint16_t port, struct rte_mbuf *packet);
/* Takes up to a burst of packets of one port from another worker; other ports follow in later rounds. */
unsigned sp_handover_take(struct sp_worker *w, uint16_t from, struct rte_mbuf *packet[SP_BURST], uint16_t *port);
bool sp_handover_waits(const struct sp_worker *w);

#endif
