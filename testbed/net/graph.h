/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The graph of a topology: every port of every switch in one array, the ports of a switch next to each other. Builders
 * make it (build.h, graph_file.c); routing and switches read it.
 */
#ifndef TESTBED_NET_GRAPH_H
#define TESTBED_NET_GRAPH_H

#include "topology.h"

#define NET_NONE      UINT32_MAX
#define NET_HOST_PEER 0x80000000u /* bit of a peer: it is a host */
#define NET_FAR	      UINT16_MAX  /* distance of what cannot be reached */
#define NET_NAME      32u

struct net_topology {
	enum net_kind kind;
	uint32_t hosts, switches, links;
	uint32_t *first;     /* [switches + 1]: its first port */
	uint32_t *peer;	     /* [ports]: NET_NONE, NET_HOST_PEER | host, or the port at the other end */
	uint32_t *at;	     /* [ports]: its switch */
	uint32_t *host_port; /* [hosts]: the port that it is at */

	/* torus, HyperX */
	uint32_t dimensions, size[NET_MAX_DIMENSIONS], stride[NET_MAX_DIMENSIONS];
	uint32_t width;	     /* HyperX: parallel links */
	uint32_t per_switch; /* hosts; dragonfly, too */
	/* fat tree. Level l is made of groups, each of which spans span[l] hosts and has group[l] switches. */
	uint32_t levels, down[NET_MAX_LEVELS], up[NET_MAX_LEVELS];
	uint32_t level_first[NET_MAX_LEVELS + 1], span[NET_MAX_LEVELS], group[NET_MAX_LEVELS];
	/* dragonfly: switches of a group, groups, links between two groups, ports to other groups of a switch */
	uint32_t a, g, n, h;
	/* graph */
	uint16_t *distance; /* [switches * switches] */
	bool cyclic;	    /* its shortest ways make a cycle of links, or it is too large to know */
	char (*host_name)[NET_NAME];
};

static inline uint32_t net_ports(const struct net_topology *t)
{
	return t->first[t->switches];
}

static inline uint32_t net_switch_of(const struct net_topology *t, uint32_t host)
{
	return t->at[t->host_port[host]];
}

static inline bool net_is_host(uint32_t peer)
{
	return peer != NET_NONE && (peer & NET_HOST_PEER);
}

/* In every topology, the hosts of a switch are at its first ports. */
static inline bool net_has_host(const struct net_topology *t, uint32_t at)
{
	return t->first[at] < t->first[at + 1] && net_is_host(t->peer[t->first[at]]);
}

static inline uint16_t net_distance(const struct net_topology *t, uint32_t from, uint32_t to)
{
	return t->distance[(size_t)from * t->switches + to];
}

/* A graph whose switches have no ports yet; NULL: no memory. */
struct net_topology *net_graph_create(enum net_kind kind, uint32_t switches, uint32_t hosts);
/* Gives every switch its ports, all free. ports(arg, switch). -ENOMEM. */
int net_graph_ports(struct net_topology *t, uint32_t (*ports)(const struct net_topology *t, uint32_t at));
void net_graph_host(struct net_topology *t, uint32_t at, uint32_t port, uint32_t host);
void net_graph_link(struct net_topology *t, uint32_t a, uint32_t a_port, uint32_t b, uint32_t b_port);
/* Distances from a switch in links, NET_FAR where there is no way. queue: room for all switches. */
void net_graph_measure(const struct net_topology *t, uint32_t from, uint16_t *distance, uint32_t *queue);

#endif
