/* SPDX-License-Identifier: BSD-3-Clause */
/* The graph of a topology: made port by port, and measured. */
#include "graph.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct net_topology *net_graph_create(enum net_kind kind, uint32_t switches, uint32_t hosts)
{
	struct net_topology *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->kind = kind;
	t->switches = switches;
	t->hosts = hosts;
	t->first = calloc(switches + 1, sizeof(*t->first));
	t->host_port = calloc(hosts, sizeof(*t->host_port));
	if (!t->first || !t->host_port) {
		net_topology_destroy(t);
		return NULL;
	}
	return t;
}

void net_topology_destroy(struct net_topology *t)
{
	if (!t)
		return;
	free(t->first);
	free(t->peer);
	free(t->at);
	free(t->host_port);
	free(t->distance);
	free(t->host_name);
	free(t);
}

int net_graph_ports(struct net_topology *t, uint32_t (*ports)(const struct net_topology *t, uint32_t at))
{
	for (uint32_t s = 0; s < t->switches; s++)
		t->first[s + 1] = t->first[s] + ports(t, s);
	t->peer = malloc((net_ports(t) + 1) * sizeof(*t->peer));
	t->at = malloc((net_ports(t) + 1) * sizeof(*t->at));
	if (!t->peer || !t->at)
		return -ENOMEM;
	for (uint32_t s = 0; s < t->switches; s++)
		for (uint32_t p = t->first[s]; p < t->first[s + 1]; p++) {
			t->peer[p] = NET_NONE;
			t->at[p] = s;
		}
	return 0;
}

void net_graph_host(struct net_topology *t, uint32_t at, uint32_t port, uint32_t host)
{
	t->peer[t->first[at] + port] = NET_HOST_PEER | host;
	t->host_port[host] = t->first[at] + port;
}

void net_graph_link(struct net_topology *t, uint32_t a, uint32_t a_port, uint32_t b, uint32_t b_port)
{
	t->peer[t->first[a] + a_port] = t->first[b] + b_port;
	t->peer[t->first[b] + b_port] = t->first[a] + a_port;
	t->links++;
}

void net_graph_measure(const struct net_topology *t, uint32_t from, uint16_t *distance, uint32_t *queue)
{
	uint32_t read = 0, write = 0;

	for (uint32_t s = 0; s < t->switches; s++)
		distance[s] = NET_FAR;
	distance[from] = 0;
	queue[write++] = from;
	while (read < write) {
		const uint32_t s = queue[read++];

		for (uint32_t p = t->first[s]; p < t->first[s + 1]; p++) {
			const uint32_t peer = t->peer[p];

			if (peer == NET_NONE || net_is_host(peer) || distance[t->at[peer]] != NET_FAR)
				continue;
			distance[t->at[peer]] = (uint16_t)(distance[s] + 1);
			queue[write++] = t->at[peer];
		}
	}
}

enum net_kind net_topology_kind(const struct net_topology *t)
{
	return t->kind;
}

uint32_t net_topology_hosts(const struct net_topology *t)
{
	return t->hosts;
}

uint32_t net_topology_switches(const struct net_topology *t)
{
	return t->switches;
}

uint32_t net_topology_links(const struct net_topology *t)
{
	return t->links;
}

/* The farthest switch with a host, from one switch. */
static uint16_t eccentricity(const struct net_topology *t, uint32_t from, uint16_t *distance, uint32_t *queue)
{
	uint16_t most = 0;

	net_graph_measure(t, from, distance, queue);
	for (uint32_t s = 0; s < t->switches; s++)
		if (distance[s] != NET_FAR && distance[s] > most && net_has_host(t, s))
			most = distance[s];
	return most;
}

/* Tori, HyperX and the lowest level of fat trees look the same from every switch. No way in a dragonfly is longer
 * than 3. */
uint32_t net_topology_diameter(const struct net_topology *t)
{
	uint16_t *distance = malloc(t->switches * sizeof(*distance));
	uint32_t *queue = malloc(t->switches * sizeof(*queue));
	const bool alike = t->kind != NET_GRAPH && t->kind != NET_DRAGONFLY;
	uint32_t most = 0;

	for (uint32_t s = 0; distance && queue && s < t->switches; s++) {
		const uint32_t e = net_has_host(t, s) ? eccentricity(t, s, distance, queue) : 0;

		most = e > most ? e : most;
		if (alike || (t->kind == NET_DRAGONFLY && most == 3))
			break;
	}
	free(distance);
	free(queue);
	return most;
}

int net_topology_hops(const struct net_topology *t, uint32_t from, uint32_t to)
{
	uint16_t *distance;
	uint32_t *queue;
	int hops = -1;

	if (from >= t->hosts || to >= t->hosts)
		return -1;
	if (t->distance)
		return net_distance(t, net_switch_of(t, from), net_switch_of(t, to)) + 1;
	distance = malloc(t->switches * sizeof(*distance));
	queue = malloc(t->switches * sizeof(*queue));
	if (distance && queue) {
		net_graph_measure(t, net_switch_of(t, from), distance, queue);
		hops = distance[net_switch_of(t, to)] + 1;
	}
	free(distance);
	free(queue);
	return hops;
}

int64_t net_topology_host(const struct net_topology *t, const char *name)
{
	char *end;
	unsigned long n;

	if (t->host_name) {
		for (uint32_t h = 0; h < t->hosts; h++)
			if (!strcmp(t->host_name[h], name))
				return h;
		return -1;
	}
	if (*name < '0' || *name > '9')
		return -1;
	errno = 0;
	n = strtoul(name, &end, 10);
	return *end || errno || n >= t->hosts ? -1 : (int64_t)n;
}
