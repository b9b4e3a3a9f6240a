/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a packet goes from a switch, and in which VC. */
#ifndef TESTBED_NET_ROUTE_H
#define TESTBED_NET_ROUTE_H

#include "fabric.h"

/* The port by which a packet leaves the switch `at`. May fix which way it takes (mid, link, phase) and count detours.
 */
uint32_t net_route(struct net *n, struct net_slot *s, uint32_t at, enum net_routing routing);
/* The VC of its next queue if it leaves by the port; it stays in its own towards a host. */
uint8_t net_route_vc(const struct net *n, const struct net_slot *s, uint32_t port);
/* It does leave by the port. */
void net_route_enter(const struct net *n, struct net_slot *s, uint32_t port);

/* route_dragonfly.c */
uint32_t net_route_dragonfly(struct net *n, struct net_slot *s, uint32_t at, enum net_routing routing);

/* One of `count` equal ways, 0 to count - 1: by the destination, by the flow or at random. */
uint32_t net_route_pick(struct net *n, const struct net_slot *s, uint32_t at, uint32_t count, enum net_routing routing);

/* 0 to count - 1 */
static inline uint32_t net_random(struct net *n, uint32_t count)
{
	return (uint32_t)(((sp_random_next(&n->random) >> 32) * count) >> 32);
}

#endif
