/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Routing in tori, fat trees, HyperX and graphs, and the VCs that keep a lossless network free of deadlock: the links
 * that packets wait for, each with its VC, are in an order, and every way goes up in it.
 *   torus     dimensions in turn; in a ring, VC 1 from the link that closes it (the dateline) on; valiant: VCs 2 and 3
 *             after the intermediate switch
 *   fat tree  links up, then links down
 *   dragonfly the VC is the number of links between groups passed before
 *   HyperX    dimensions in turn, one link each; valiant: VC 1 after the intermediate switch; DOAL: a detour in VC 0,
 *             then the direct link in VC 1; ecmp, spray: dimensions in any order, the VC is the number of links passed
 *   graph     the number of links passed, if the shortest ways make a cycle of links
 */
#include "route.h"

#define NO_DIMENSION 255

uint32_t net_route_pick(struct net *n, const struct net_slot *s, uint32_t at, uint32_t count, enum net_routing routing)
{
	uint64_t state;

	if (count <= 1)
		return 0;
	if (routing == NET_SPRAY)
		return net_random(n, count);
	if (routing != NET_ECMP)
		return s->packet.dst % count;
	state = s->packet.flow + at * 0xD1342543DE82EF95u;
	state ^= n->config.seed;
	return (uint32_t)((sp_splitmix(&state) >> 32) * count >> 32);
}

/* The port with the shortest queue of `count` from `first` on; of equal ones, the first from a random one on. */
static uint32_t shortest_queue(struct net *n, uint32_t first, uint32_t count)
{
	const uint32_t begin = net_random(n, count);
	uint32_t best = first + begin;

	for (uint32_t i = 1; i < count; i++) {
		const uint32_t p = first + (begin + i < count ? begin + i : begin + i - count);

		if (n->port[p].bytes < n->port[best].bytes)
			best = p;
	}
	return best;
}

static uint32_t coordinate(const struct net_topology *t, uint32_t at, uint32_t d)
{
	return at / t->stride[d] % t->size[d];
}

/* Tori and HyperX, valiant: the switch to go to now. */
static uint32_t target_of(struct net *n, struct net_slot *s, uint32_t at, enum net_routing routing)
{
	const struct net_topology *t = n->topology;

	if (routing == NET_VALIANT && s->packet.hops == 1 && s->group == NET_NONE) {
		s->mid = net_random(n, t->switches);
		s->phase = 0;
		n->counters.detours++;
	}
	if (s->phase == 0 && s->mid == at) {
		s->phase = 1;
		s->dimension = NO_DIMENSION;
	}
	return s->phase ? net_switch_of(t, s->packet.dst) : s->mid;
}

static uint32_t route_torus(struct net *n, struct net_slot *s, uint32_t at, enum net_routing routing)
{
	const struct net_topology *t = n->topology;
	const uint32_t to = target_of(n, s, at, routing);

	for (uint32_t d = 0; d < t->dimensions; d++) {
		const uint32_t x = coordinate(t, at, d), y = coordinate(t, to, d);
		const uint32_t forward = (y + t->size[d] - x) % t->size[d];

		if (forward)
			return t->first[at] + t->per_switch + 2 * d + (2 * forward > t->size[d]);
	}
	return t->host_port[s->packet.dst];
}

static uint32_t route_fattree(struct net *n, struct net_slot *s, uint32_t at, enum net_routing routing)
{
	const struct net_topology *t = n->topology;
	const uint32_t dst = s->packet.dst;
	uint32_t l = 0, low, below, first, port;

	while (at >= t->level_first[l + 1])
		l++;
	low = (at - t->level_first[l]) / t->group[l] * t->span[l];
	below = l ? t->span[l - 1] : 1;
	if (dst - low < t->span[l]) /* wraps if dst < low */
		return t->first[at] + (dst - low) / below;
	first = t->first[at] + t->down[l];
	if (routing == NET_ECMP || routing == NET_SPRAY)
		return first + net_route_pick(n, s, at, t->up[l], routing);
	port = first + dst / below % t->up[l];
	if (routing == NET_ADAPTIVE && n->port[port].bytes > n->config.output_buffer / 2)
		port = shortest_queue(n, first, t->up[l]);
	return port;
}

/* The first of the links from x to y in a dimension whose first port is base. */
static uint32_t hyperx_port(const struct net_topology *t, uint32_t base, uint32_t x, uint32_t y)
{
	return base + (y < x ? y : y - 1) * t->width;
}

static uint32_t one_of_width(struct net *n, const struct net_slot *s, uint32_t at, uint32_t first,
			     enum net_routing routing)
{
	if (routing == NET_ADAPTIVE)
		return shortest_queue(n, first, n->topology->width);
	return first + net_route_pick(n, s, at, n->topology->width, routing);
}

/* DOAL: the direct link to y, or any other link of the dimension if the packet has made no detour in it yet. */
static uint32_t route_doal(struct net *n, const struct net_slot *s, uint32_t base, uint32_t d, uint32_t x, uint32_t y)
{
	const struct net_topology *t = n->topology;
	const uint32_t direct = shortest_queue(n, hyperx_port(t, base, x, y), t->width);
	const uint32_t ports = (t->size[d] - 1) * t->width;
	const uint64_t cost = 2 * (n->port[direct].bytes / n->config.flit) + 1;
	uint32_t detour;

	if (s->dimension == d || t->size[d] < 3)
		return direct;
	detour = shortest_queue(n, base,
				ports); /* the shortest of all: if it is one of the direct links, it is no detour */
	if (2 * (2 * (uint64_t)(n->port[detour].bytes / n->config.flit) + 1) >= cost)
		return direct;
	n->counters.detours += (detour - base) / t->width != (y < x ? y : y - 1);
	return detour;
}

static uint32_t route_hyperx(struct net *n, struct net_slot *s, uint32_t at, enum net_routing routing)
{
	const struct net_topology *t = n->topology;
	const uint32_t to = target_of(n, s, at, routing);
	uint32_t open = 0, skip = 0;

	if (routing == NET_ECMP || routing == NET_SPRAY) {
		for (uint32_t d = 0; d < t->dimensions; d++)
			open += coordinate(t, at, d) != coordinate(t, to, d);
		skip = net_route_pick(n, s, at, open, routing);
	}
	for (uint32_t d = 0, base = t->first[at] + t->per_switch; d < t->dimensions;
	     base += (t->size[d++] - 1) * t->width) {
		const uint32_t x = coordinate(t, at, d), y = coordinate(t, to, d);

		if (x == y || skip-- > 0)
			continue;
		if (routing == NET_ADAPTIVE)
			return route_doal(n, s, base, d, x, y);
		return one_of_width(n, s, at, hyperx_port(t, base, x, y), routing);
	}
	return t->host_port[s->packet.dst];
}

static bool is_closer(const struct net_topology *t, uint32_t port, uint32_t at, uint32_t to)
{
	const uint32_t peer = t->peer[port];

	return peer != NET_NONE && !net_is_host(peer) &&
	       net_distance(t, t->at[peer], to) + 1 == net_distance(t, at, to);
}

static uint32_t route_graph(struct net *n, struct net_slot *s, uint32_t at, enum net_routing routing)
{
	const struct net_topology *t = n->topology;
	const uint32_t to = net_switch_of(t, s->packet.dst);
	uint32_t count = 0, pick, best = NET_NONE;

	if (at == to)
		return t->host_port[s->packet.dst];
	for (uint32_t p = t->first[at]; p < t->first[at + 1]; p++)
		if (is_closer(t, p, at, to)) {
			count++;
			if (best == NET_NONE || n->port[p].bytes < n->port[best].bytes)
				best = p;
		}
	if (routing == NET_ADAPTIVE)
		return best;
	pick = net_route_pick(n, s, at, count, routing);
	for (uint32_t p = t->first[at];; p++)
		if (is_closer(t, p, at, to) && !pick--)
			return p;
}

uint32_t net_route(struct net *n, struct net_slot *s, uint32_t at, enum net_routing routing)
{
	switch (n->topology->kind) {
	case NET_TORUS:
		return route_torus(n, s, at, routing);
	case NET_FATTREE:
		return route_fattree(n, s, at, routing);
	case NET_DRAGONFLY:
		return net_route_dragonfly(n, s, at, routing);
	case NET_HYPERX:
		return route_hyperx(n, s, at, routing);
	case NET_GRAPH:
		return route_graph(n, s, at, routing);
	case NET_STAR:
		break;
	}
	return n->topology->host_port[s->packet.dst];
}

/* What changes of a packet that leaves by a port. */
struct step {
	uint8_t vc, dimension, crossed;
};

static struct step step_torus(const struct net *n, const struct net_slot *s, uint32_t port)
{
	const struct net_topology *t = n->topology;
	const uint32_t at = t->at[port], local = port - t->first[at] - t->per_switch, d = local / 2;
	const uint32_t x = coordinate(t, at, d);
	const bool closes = local % 2 ? x == 0 : x + 1 == t->size[d];
	struct step step = {.dimension = (uint8_t)d};
	uint8_t each = 1;

	for (uint32_t i = 0; i < t->dimensions; i++)
		each = t->size[i] > 3 ? 2 : each;
	step.crossed = (s->dimension == d && s->crossed) || closes;
	step.vc = each == 2 ? step.crossed : 0;
	if (n->config.routing == NET_VALIANT && s->phase)
		step.vc = (uint8_t)(step.vc + each);
	return step;
}

static struct step step_hyperx(const struct net *n, const struct net_slot *s, uint32_t port)
{
	const struct net_topology *t = n->topology;
	const uint32_t at = t->at[port], next = t->at[t->peer[port]];
	struct step step = {0};
	uint32_t d = 0;

	while (coordinate(t, at, d) == coordinate(t, next, d))
		d++;
	step.dimension = (uint8_t)d;
	if (n->config.routing == NET_VALIANT)
		step.vc = s->phase;
	else if (n->config.routing == NET_ADAPTIVE) /* groups make no detours */
		step.vc = s->group != NET_NONE ||
			  coordinate(t, next, d) == coordinate(t, net_switch_of(t, s->packet.dst), d);
	else if (n->config.routing != NET_MINIMAL)
		step.vc = (uint8_t)s->links;
	return step;
}

static struct step step_of(const struct net *n, const struct net_slot *s, uint32_t port)
{
	const struct net_topology *t = n->topology;
	struct step step = {.vc = s->vc, .dimension = s->dimension, .crossed = s->crossed};

	if (net_is_host(t->peer[port]))
		return step;
	if (t->kind == NET_TORUS) {
		step = step_torus(n, s, port);
	} else if (t->kind == NET_HYPERX) {
		step = step_hyperx(n, s, port);
	} else if (t->kind == NET_DRAGONFLY) { /* crossed: links between groups */
		step.vc = s->crossed;
		step.crossed = (uint8_t)(s->crossed + (port - t->first[t->at[port]] >= t->per_switch + t->a - 1));
	} else {
		step.vc = t->kind == NET_GRAPH && t->cyclic ? (uint8_t)s->links : 0;
	}
	if (step.vc >= n->lane_vcs) /* only if not lossless */
		step.vc = (uint8_t)(n->lane_vcs - 1);
	step.vc = (uint8_t)(step.vc + s->priority * n->lane_vcs);
	return step;
}

uint8_t net_route_vc(const struct net *n, const struct net_slot *s, uint32_t port)
{
	return step_of(n, s, port).vc;
}

void net_route_enter(const struct net *n, struct net_slot *s, uint32_t port)
{
	const struct step step = step_of(n, s, port);

	if (n->topology->kind == NET_DRAGONFLY && step.crossed != s->crossed)
		s->link = NET_NONE;
	s->vc = step.vc;
	s->dimension = step.dimension;
	s->crossed = step.crossed;
	s->links++;
}
