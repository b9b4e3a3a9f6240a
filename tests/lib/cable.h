/* SPDX-License-Identifier: BSD-3-Clause */
/* A perfect link between the ports of two NICs whose workers are threads. It copies frames and keeps their order.
 * A full link leaves frames with the sender. */
#ifndef TESTS_CABLE_H
#define TESTS_CABLE_H

#include <pthread.h>
#include <rte_mbuf.h>
#include <string.h>
#include "../../pipeline/nic.h"

#define CABLE_FRAMES 256u

struct cable_wire {
	pthread_mutex_t lock;
	struct rte_mbuf *frame[CABLE_FRAMES];
	unsigned first, count;
	_Atomic bool spread; /* frames come by whichever queue asks first; otherwise by the first */
};

struct cable_end {
	struct cable_wire *in, *out;
};

struct cable {
	struct cable_wire wire[2];
	struct cable_end end[2];
};

void cable_open(struct cable *p);
void cable_close(struct cable *p);
unsigned cable_receive(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now);
unsigned cable_transmit(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned count, sp_time now);
sp_time cable_next(void *port, uint16_t queue, bool blocked);
extern const struct sp_port_ops cable_ops;

#endif
