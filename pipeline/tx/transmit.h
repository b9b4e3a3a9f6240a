/* SPDX-License-Identifier: BSD-3-Clause */
/* Transmit: all frames to ports pass here. */
#ifndef PIPELINE_TX_TRANSMIT_H
#define PIPELINE_TX_TRANSMIT_H

#include <stdint.h>

struct rte_mbuf;
struct sp_worker;

/* Copies a frame (Ethernet header included) into the queue; -EAGAIN (counted tx-full), -EMSGSIZE, -ENODEV. */
int sp_transmit_frame(struct sp_worker *w, uint16_t port, const void *frame, uint32_t len);
/* Takes the packet on success. */
int sp_transmit_packet(struct sp_worker *w, uint16_t port, struct rte_mbuf *m);
/* Sends to the NIC itself: the worker receives the packet in its next poll. Takes the packet on success; -EAGAIN
 * (counted tx-full). */
int sp_transmit_loop(struct sp_worker *w, struct rte_mbuf *m);
/* Takes n packets. The caller has checked the port, its room (sp_transmit_room), and that no tap is set. */
void sp_transmit_run(struct sp_worker *w, uint16_t port, struct rte_mbuf *const *m, unsigned n);
void sp_transmit_flush(struct sp_worker *w);
void sp_transmit_flush_port(struct sp_worker *w, uint16_t port);
void sp_transmit_reclaim(struct sp_worker *w); /* frees sent buffers that drivers still keep */
unsigned sp_transmit_room(const struct sp_worker *w, uint16_t port);

#endif
