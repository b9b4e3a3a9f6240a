/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames that wait for their next hop's MAC. */
#ifndef PIPELINE_TX_PENDING_H
#define PIPELINE_TX_PENDING_H

#include <stdint.h>

struct rte_mbuf;
struct sp_worker;

/* Queues a frame of that context. Takes the buffer on success; -EAGAIN: SP_NEIGHBOUR_PENDING frames wait already. */
int sp_pending_add(struct sp_worker *w, uint16_t port, const uint8_t next_hop[16], uint32_t context,
		   struct rte_mbuf *m);
/* Sends the frames whose next hop is known now, and drops those past their time limit (tx-no-neighbour). */
void sp_pending_send(struct sp_worker *w);

#endif
