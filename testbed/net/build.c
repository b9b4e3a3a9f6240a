/* SPDX-License-Identifier: BSD-3-Clause */
/* Builders of the regular topologies. The order of ports and links is that of SST's merlin where it has one. */
#include "build.h"

#include <stdlib.h>

static struct net_topology *with_ports(struct net_topology *t,
				       uint32_t (*ports)(const struct net_topology *t, uint32_t at))
{
	if (t && net_graph_ports(t, ports)) {
		net_topology_destroy(t);
		return NULL;
	}
	return t;
}

static uint32_t star_ports(const struct net_topology *t, uint32_t at)
{
	(void)at;
	return t->hosts;
}

struct net_topology *net_build_star(uint32_t hosts)
{
	struct net_topology *t = with_ports(net_graph_create(NET_STAR, 1, hosts), star_ports);

	for (uint32_t h = 0; t && h < hosts; h++)
		net_graph_host(t, 0, h, h);
	return t;
}

static void put_hosts(struct net_topology *t)
{
	for (uint32_t h = 0; h < t->hosts; h++)
		net_graph_host(t, h / t->per_switch, h % t->per_switch, h);
}

static struct net_topology *grid(enum net_kind kind, const uint32_t *size, uint32_t dimensions, uint32_t per_switch)
{
	struct net_topology *t;
	uint32_t switches = 1;

	for (uint32_t d = 0; d < dimensions; d++)
		switches *= size[d];
	t = net_graph_create(kind, switches, switches * per_switch);
	if (!t)
		return NULL;
	t->dimensions = dimensions;
	t->per_switch = per_switch;
	for (uint32_t d = 0, stride = 1; d < dimensions; stride *= size[d++]) {
		t->size[d] = size[d];
		t->stride[d] = stride;
	}
	return t;
}

static uint32_t torus_ports(const struct net_topology *t, uint32_t at)
{
	(void)at;
	return t->per_switch + 2 * t->dimensions;
}

/* In each dimension a port forward, then a port back. Two switches in a dimension are linked twice. */
struct net_topology *net_build_torus(const uint32_t *size, uint32_t dimensions, uint32_t per_switch)
{
	struct net_topology *t = with_ports(grid(NET_TORUS, size, dimensions, per_switch), torus_ports);

	if (!t)
		return NULL;
	put_hosts(t);
	for (uint32_t s = 0; s < t->switches; s++)
		for (uint32_t d = 0; d < dimensions; d++) {
			const uint32_t x = s / t->stride[d] % size[d], port = per_switch + 2 * d;
			const uint32_t next =
				s + (x + 1 == size[d] ? 0 : t->stride[d]) - (x + 1 == size[d] ? x * t->stride[d] : 0);

			if (size[d] > 1)
				net_graph_link(t, s, port, next, port + 1);
		}
	return t;
}

static uint32_t hyperx_ports(const struct net_topology *t, uint32_t at)
{
	uint32_t ports = t->per_switch;

	(void)at;
	for (uint32_t d = 0; d < t->dimensions; d++)
		ports += (t->size[d] - 1) * t->width;
	return ports;
}

struct net_topology *net_build_hyperx(const uint32_t *size, uint32_t dimensions, uint32_t per_switch, uint32_t width)
{
	struct net_topology *t = grid(NET_HYPERX, size, dimensions, per_switch);

	if (t)
		t->width = width;
	t = with_ports(t, hyperx_ports);
	if (!t)
		return NULL;
	put_hosts(t);
	for (uint32_t s = 0; s < t->switches; s++)
		for (uint32_t d = 0, base = per_switch; d < dimensions; base += (size[d++] - 1) * width) {
			const uint32_t x = s / t->stride[d] % size[d];

			for (uint32_t y = x + 1; y < size[d]; y++) /* y's port to x has index x, x's to y index y - 1 */
				for (uint32_t w = 0; w < width; w++)
					net_graph_link(t, s, base + (y - 1) * width + w, s + (y - x) * t->stride[d],
						       base + x * width + w);
		}
	return t;
}

static uint32_t level_of(const struct net_topology *t, uint32_t at)
{
	uint32_t l = 0;

	while (at >= t->level_first[l + 1])
		l++;
	return l;
}

static uint32_t fattree_ports(const struct net_topology *t, uint32_t at)
{
	const uint32_t l = level_of(t, at);

	return t->down[l] + t->up[l];
}

/* Switch i of a group at level l + 1 is above switch i / up of each group below it: that one's link up i % up. */
struct net_topology *net_build_fattree(const uint32_t *down, const uint32_t *up, uint32_t levels)
{
	uint32_t span[NET_MAX_LEVELS], group[NET_MAX_LEVELS], switches = 0;
	struct net_topology *t;

	for (uint32_t l = 0; l < levels; l++) {
		span[l] = down[l] * (l ? span[l - 1] : 1);
		group[l] = l ? group[l - 1] * up[l - 1] : 1;
	}
	for (uint32_t l = 0; l < levels; l++)
		switches += span[levels - 1] / span[l] * group[l];
	t = net_graph_create(NET_FATTREE, switches, span[levels - 1]);
	if (!t)
		return NULL;
	t->levels = levels;
	for (uint32_t l = 0; l < levels; l++) {
		t->down[l] = down[l];
		t->up[l] = up[l];
		t->span[l] = span[l];
		t->group[l] = group[l];
		t->level_first[l + 1] = t->level_first[l] + span[levels - 1] / span[l] * group[l];
	}
	t = with_ports(t, fattree_ports);
	if (!t)
		return NULL;
	for (uint32_t h = 0; h < t->hosts; h++)
		net_graph_host(t, h / down[0], h % down[0], h);
	for (uint32_t l = 0; l + 1 < levels; l++)
		for (uint32_t s = 0; s < t->level_first[l + 1] - t->level_first[l]; s++)
			for (uint32_t u = 0; u < up[l]; u++) {
				const uint32_t mine = s / group[l], above = mine / down[l + 1];

				net_graph_link(t, t->level_first[l] + s, down[l] + u,
					       t->level_first[l + 1] + above * group[l + 1] + s % group[l] * up[l] + u,
					       mine % down[l + 1]);
			}
	return t;
}

static uint32_t dragonfly_ports(const struct net_topology *t, uint32_t at)
{
	(void)at;
	return t->per_switch + t->a - 1 + t->h;
}

/*
 * The links of a group to the others are dealt out to its switches, h to each: number k * (g - 1) + o is link k to the
 * other group o (counted without the own one), so that each switch reaches many groups.
 */
struct net_topology *net_build_dragonfly(uint32_t per_switch, uint32_t a, uint32_t n, uint32_t g)
{
	struct net_topology *t = net_graph_create(NET_DRAGONFLY, a * g, a * g * per_switch);
	uint32_t global;

	if (!t)
		return NULL;
	t->per_switch = per_switch;
	t->a = a;
	t->g = g;
	t->n = n;
	t->h = (uint32_t)(((uint64_t)(g - 1) * n + a - 1) / a);
	t = with_ports(t, dragonfly_ports);
	if (!t)
		return NULL;
	put_hosts(t);
	global = per_switch + a - 1;
	for (uint32_t s = 0; s < t->switches; s++)
		for (uint32_t r = s % a + 1; r < a; r++)
			net_graph_link(t, s, per_switch + r - 1, s - s % a + r, per_switch + s % a);
	for (uint32_t i = 0; i < g; i++)
		for (uint32_t j = i + 1; j < g; j++)
			for (uint32_t k = 0; k < n; k++) {
				const uint32_t x = k * (g - 1) + j - 1, y = k * (g - 1) + i;

				net_graph_link(t, i * a + x / t->h, global + x % t->h, j * a + y / t->h,
					       global + y % t->h);
			}
	return t;
}
