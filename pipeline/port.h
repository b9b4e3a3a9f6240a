/* SPDX-License-Identifier: BSD-3-Clause */
/* A port: an ethdev with one queue pair per worker, or port ops (links, captures). */
#ifndef PIPELINE_PORT_H
#define PIPELINE_PORT_H

#include <rte_ethdev.h>

#include "limits.h"
#include "vdev.h"

struct sp_nic;

/* A port of the NIC. */
struct sp_port {
	struct sp_nic *nic;
	uint16_t index;
	const struct sp_port_ops *ops; /* NULL: ethdev */
	void *arg;
	uint16_t ethdev;
	uint8_t mac[6];		  /* what it sends from and answers as; read-only once the NIC exists */
	struct rte_mempool *pool; /* an ethdev's receive buffers */
	bool taken, started;
	struct sp_vdev *vdev;	     /* made by the NIC, or NULL */
	struct sp_port_below *below; /* what is known of the driver and the kernel; NULL: ops */
};

/* Finds or makes, configures and starts it; queues: pairs wanted. Errors are in words, key "port", "mtu" or "workers".
 * What it made is gone again on failure, and after sp_port_close. */
int sp_port_open(struct sp_port *port, const struct sp_port_config *config, struct sp_nic *nic, uint16_t queues,
		 struct sp_error *error);
/* From here on the device does nothing by itself: what was mapped for it can be unmapped. */
void sp_port_stop(struct sp_port *port);
void sp_port_close(struct sp_port *port);
int sp_port_mac(const struct sp_port *port, uint8_t mac[6]); /* -ENOTSUP: it has none that the NIC may take */
/* Once all are open: -EADDRINUSE where the kernel sees a port's packets too, and has one of the NIC's addresses. */
int sp_ports_check(const struct sp_nic *nic, struct sp_error *error);

/* Packets that never reached the driver, since the port was opened: the kernel had no room. false: the driver does not
 * tell. A control call. */
bool sp_port_kernel_drops(const struct sp_port *port, uint64_t *drops);

/* May packets be sent whose payload lies in registered memory, and not in the driver's own buffers? Only where the
 * driver's source says so: it is read, or copied, before the buffer is given back, by who can reach it. */
bool sp_port_external(const struct sp_port *port);
bool sp_port_reads_memory(const struct sp_port *port); /* ... by itself, once it is mapped: a PCI device */
/* Lets the devices of a NIC's ports reach memory, and ends that; control calls, for memory that stays where it is in
 * between. Whole pages (of 4 KiB, or of the huge ones that it lies on) are meant: two regions in one page are -EEXIST.
 * Without effect where no port's device reads memory by itself. -ENOMEM (RLIMIT_MEMLOCK), -ENOTSUP. */
int sp_port_map(struct sp_nic *nic, void *addr, uint64_t len);
void sp_port_unmap(struct sp_nic *nic, void *addr, uint64_t len);

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
