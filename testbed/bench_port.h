/* SPDX-License-Identifier: BSD-3-Clause */
/* What the cases' own ports have in common: packets without end, and what is sent is nobody's. */
#ifndef TESTBED_BENCH_PORT_H
#define TESTBED_BENCH_PORT_H

#include <rte_mbuf.h>

#include "../pipeline/nic.h"

static inline unsigned bench_port_discard(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned count,
					  sp_time now)
{
	(void)port;
	(void)queue;
	(void)now;
	rte_pktmbuf_free_bulk(packet, count);
	return count;
}

static inline sp_time bench_port_always(void *port, uint16_t queue, bool blocked)
{
	(void)port;
	(void)queue;
	(void)blocked;
	return 0;
}

#endif
