/* SPDX-License-Identifier: BSD-3-Clause */
/* Builders of the regular topologies. The numbers must have been checked (parse.c): the products are within the bounds
 * of topology.h. NULL: no memory. */
#ifndef TESTBED_NET_BUILD_H
#define TESTBED_NET_BUILD_H

#include "graph.h"

struct net_topology *net_build_star(uint32_t hosts);
struct net_topology *net_build_torus(const uint32_t *size, uint32_t dimensions, uint32_t per_switch);
struct net_topology *net_build_hyperx(const uint32_t *size, uint32_t dimensions, uint32_t per_switch, uint32_t width);
/* up[levels - 1] is 0.. */
struct net_topology *net_build_fattree(const uint32_t *down, const uint32_t *up, uint32_t levels);
/* per_switch hosts, a switches a group, n links between two groups, g groups */
struct net_topology *net_build_dragonfly(uint32_t per_switch, uint32_t a, uint32_t n, uint32_t g);

#endif
