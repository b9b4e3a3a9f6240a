/* SPDX-License-Identifier: BSD-3-Clause */
#include "ports.h"

#include <rte_mbuf.h>

unsigned port_hear_nothing(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	return 0;
}

unsigned port_swallow(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned count, sp_time now)
{
	rte_pktmbuf_free_bulk(packet, count);
	return count;
}

sp_time port_always(void *port, uint16_t queue, bool blocked)
{
	return 0;
}

sp_time port_never(void *port, uint16_t queue, bool blocked)
{
	return SP_NEVER;
}

struct rte_mbuf *port_one;

unsigned port_receive_one(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	if (!port_one || queue || !max)
		return 0;
	*packet = port_one;
	port_one = NULL;
	return 1;
}

sp_time port_next_one(void *port, uint16_t queue, bool blocked)
{
	return port_one ? 0 : SP_NEVER;
}
