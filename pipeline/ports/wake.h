/* SPDX-License-Identifier: BSD-3-Clause */
/* How a port wakes a worker that sleeps. Control calls, but for the last two. */
#ifndef PIPELINE_PORTS_WAKE_H
#define PIPELINE_PORTS_WAKE_H

#include <rte_ethdev.h>

#include "../limits.h"

struct sp_port_wake;

/* Before the device is configured: asks for interrupts where the driver has them. NULL: no memory. */
struct sp_port_wake *sp_port_wake_create(uint16_t ethdev, const struct rte_eth_dev_info *info, uint16_t queues,
					 struct rte_eth_conf *conf);
/* The device has started. socket: the driver's own, of each queue; NULL: it has none. */
void sp_port_wake_started(struct sp_port_wake *k, const int *socket);
void sp_port_wake_destroy(
	struct sp_port_wake *k); /* no worker runs, and the device is not gone yet; NULL: does nothing */
/* From now on, what comes for a queue shows at that epoll descriptor; -1: no more. */
void sp_port_wake_watch(struct sp_port_wake *k, uint16_t queue, int epoll);

/* [worker] Does what comes for its queue wake it? False: it has to look. */
bool sp_port_wakes(const struct sp_port_wake *k, uint16_t queue);
/* [worker] Turns the signals of its queue on or off, where that is the worker's to do. What came before may be told or
 * not: look again after it. */
void sp_port_wake_signal(struct sp_port_wake *k, uint16_t queue, bool on);

#endif
