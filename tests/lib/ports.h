/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions for struct sp_port_ops of ports that do nothing, or receive one packet. */
#ifndef TESTS_PORTS_H
#define TESTS_PORTS_H

#include "../../pipeline/nic.h"

/* receive: nothing comes. */
unsigned port_hear_nothing(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now);
/* transmit: takes all and frees them. */
unsigned port_swallow(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned count, sp_time now);
/* next: there may be something at any time, or never. */
sp_time port_always(void *port, uint16_t queue, bool blocked);
sp_time port_never(void *port, uint16_t queue, bool blocked);
/* The one packet that comes next, by the first queue, or NULL. */
extern struct rte_mbuf *port_one;
unsigned port_receive_one(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now);
sp_time port_next_one(void *port, uint16_t queue, bool blocked);

#endif
