/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups: a tree of shortest ways from a source to its hosts. A switch that the tree has already is entered only once,
 * so that nobody gets a packet twice.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "route.h"

/* A tree as it is being made: the port by which each switch is entered (NET_NONE: not yet), and which ports are used.
 */
struct tree {
	bool *reached, *used; /* [switches], [ports] */
	uint32_t *way;	      /* ports on the way to a host */
};

/* The shortest way to a host, as ports: the last is the host's. */
static uint32_t walk(struct net *n, uint32_t source, uint32_t host, uint32_t *way)
{
	const struct net_topology *t = n->topology;
	struct net_slot s = {.packet = {.src = source, .dst = host},
			     .mid = NET_NONE,
			     .link = NET_NONE,
			     .phase = 1,
			     .group = 0,
			     .dimension = UINT8_MAX};
	uint32_t at = net_switch_of(t, source), count = 0;

	for (;;) {
		const uint32_t port = net_route(n, &s, at, NET_MINIMAL);

		way[count++] = port;
		if (net_is_host(t->peer[port]))
			return count;
		net_route_enter(n, &s, port);
		at = t->at[t->peer[port]];
	}
}

/* Adds what is new of the way: from the last switch on that the tree has already. */
static void tree_add(const struct net_topology *t, struct tree *tree, uint32_t count)
{
	uint32_t i = count;

	while (!tree->reached[t->at[tree->way[i - 1]]])
		i--;
	for (i--; i < count; i++) {
		tree->reached[t->at[tree->way[i]]] = true;
		tree->used[tree->way[i]] = true;
	}
}

static int pack(const struct net_topology *t, const struct tree *tree, struct net_group *g)
{
	uint32_t count = 0;

	for (uint32_t p = 0; p < net_ports(t); p++)
		count += tree->used[p];
	g->first = malloc((t->switches + 1) * sizeof(*g->first));
	g->branch = malloc(count * sizeof(*g->branch));
	if (!g->first || !g->branch) {
		free(g->first);
		free(g->branch);
		return -ENOMEM;
	}
	count = 0;
	for (uint32_t s = 0; s < t->switches; s++) {
		g->first[s] = count;
		for (uint32_t p = t->first[s]; p < t->first[s + 1]; p++)
			if (tree->used[p])
				g->branch[count++] = p;
	}
	g->first[t->switches] = count;
	return 0;
}

static int make(struct net *n, const uint32_t *hosts, uint32_t count, struct net_group *g)
{
	const struct net_topology *t = n->topology;
	struct tree tree = {.reached = calloc(t->switches, sizeof(bool)),
			    .used = calloc(net_ports(t), sizeof(bool)),
			    .way = malloc((t->switches + 1) * sizeof(uint32_t))};
	int err = tree.reached && tree.used && tree.way ? 0 : -ENOMEM;

	if (!err)
		tree.reached[net_switch_of(t, g->source)] = true;
	for (uint32_t i = 0; !err && i < count; i++)
		if (tree.used[t->host_port[hosts[i]]])
			err = -EINVAL;
		else
			tree_add(t, &tree, walk(n, g->source, hosts[i], tree.way));
	if (!err)
		err = pack(t, &tree, g);
	free(tree.reached);
	free(tree.used);
	free(tree.way);
	return err;
}

int net_group_add(struct net *n, uint32_t source, const uint32_t *hosts, uint32_t count, uint32_t *group)
{
	struct net_group g = {.source = source, .count = count}, *more;
	int err;

	if (source >= n->topology->hosts || !count)
		return -EINVAL;
	for (uint32_t i = 0; i < count; i++)
		if (hosts[i] >= n->topology->hosts)
			return -EINVAL;
	if (n->groups == NET_MAX_GROUPS)
		return -ENOSPC;
	more = realloc(n->group, (n->groups + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	n->group = more;
	err = make(n, hosts, count, &g);
	if (err)
		return err;
	*group = n->groups;
	n->group[n->groups++] = g;
	return 0;
}
