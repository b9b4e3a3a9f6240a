/* SPDX-License-Identifier: BSD-3-Clause */
/* A port: an ethdev with one queue pair per worker, or port ops (links, captures). */
#ifndef PIPELINE_PORTS_PORT_H
#define PIPELINE_PORTS_PORT_H

#include <rte_ethdev.h>

#include "../limits.h"
#include "vdev.h"

struct sp_nic;

/* A port of the NIC. */
struct sp_port {
	struct sp_nic *nic;
	uint16_t index;
	const struct sp_port_ops *ops; /* NULL: ethdev */
	void *arg;
	uint16_t ethdev;
	uint8_t mac[6];		  /* source address of the port's frames; read-only once the NIC exists */
	struct rte_mempool *pool; /* an ethdev's receive buffers */
	bool taken, started;
	struct sp_vdev *vdev;	     /* made by the NIC, or NULL */
	struct sp_port_below *below; /* facts about driver and kernel; NULL with ops */
	struct sp_port_wake *wake;   /* NULL with ops */
};

/* Finds or creates the device, configures and starts it with that many queue pairs. Errors have text and the key
 * "port", "mtu" or "workers". Failure and sp_port_close remove a device that this call created. */
int sp_port_open(struct sp_port *port, const struct sp_port_config *config, struct sp_nic *nic, uint16_t queues,
		 struct sp_error *error);
/* Stops the device's DMA, so that mapped memory can be unmapped. */
void sp_port_stop(struct sp_port *port);
void sp_port_close(struct sp_port *port);
int sp_port_mac(const struct sp_port *port, uint8_t mac[6]); /* -ENOTSUP: no MAC for the NIC to use */

/* The local kernel beside a port. */
struct sp_port_kernel {
	unsigned interface; /* index of the interface below it; 0: none that is known */
	bool shared;	    /* the kernel receives what the port does, or is its peer */
	bool tap;	    /* the kernel is at the other end */
	bool hidden;	    /* shared, but nothing reaches the kernel while the port is open */
};
struct sp_port_kernel sp_port_kernel(const struct sp_port *port);
int sp_port_set_mac(const struct sp_port *port, const uint8_t mac[6]); /* the device's; -errno */
/* The port's interface is in another network namespace: nothing is asked about it any more. */
void sp_port_set_abroad(struct sp_port *port);

/* Packets that the kernel dropped before the driver, since the port was opened. False: the driver does not report them.
 * A control call. */
bool sp_port_kernel_drops(const struct sp_port *port, uint64_t *drops);

/* May packets carry payload in registered memory instead of mbufs (zero copy)? Only for drivers whose source shows it
 * is safe: payload is read or copied before the mbuf is freed, by a reader with access to the memory. */
bool sp_port_external(const struct sp_port *port);
bool sp_port_reads_memory(const struct sp_port *port); /* by DMA, once mapped: a PCI device */
/* Maps memory for DMA by the NIC's ports, and unmaps it. Control calls; the memory must stay in place in between. Whole
 * pages are mapped (4 KiB, or the huge pages below): two regions in one page are -EEXIST. Does nothing if no port uses
 * DMA. -ENOMEM (RLIMIT_MEMLOCK), -ENOTSUP. */
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
