/* SPDX-License-Identifier: BSD-3-Clause */
/* A port: an ethdev with one queue pair per worker, or port ops (links, captures). */
#ifndef PIPELINE_PORT_H
#define PIPELINE_PORT_H

#include <rte_ethdev.h>

#include "worker.h"

/* Finds, configures and starts it; queues: pairs wanted. Errors are in words, key "port". */
int sp_port_open(struct sp_port *port, const struct sp_port_config *config, struct sp_nic *nic, uint16_t queues,
		 struct sp_error *error);
void sp_port_close(struct sp_port *port);
int sp_port_mac(const struct sp_port *port, uint8_t mac[6]); /* -ENOTSUP: port ops have none */

static inline unsigned sp_port_receive(struct sp_port *p, uint16_t queue, struct rte_mbuf **packet, sp_time now)
{
	return p->ops ? p->ops->receive(p->arg, queue, packet, SP_BURST, now)
		      : rte_eth_rx_burst(p->ethdev, queue, packet, SP_BURST);
}

static inline unsigned sp_port_transmit(struct sp_port *p, uint16_t queue, struct rte_mbuf **packet, unsigned n,
					sp_time now)
{
	return p->ops ? p->ops->transmit(p->arg, queue, packet, n, now)
		      : rte_eth_tx_burst(p->ethdev, queue, packet, (uint16_t)n);
}

#endif
