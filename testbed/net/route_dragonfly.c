/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Routing in dragonflies: at most one link in the own group, one to the other group, one there. The link to the other
 * group is chosen where the packet enters a group: one of those with the fewest links to the end.
 *
 * Adaptive is merlin's adaptive-local, which decides at the first switch and at the entry of each group: at the first
 * switch directly or by a random group, or, for a destination in the own group, by a random switch of it; at every
 * entry which link to the next group. Within a group it does not change its mind. The detour within a group takes two
 * of its links, the second in the next VC.
 */
#include "route.h"

#define THRESHOLD 2
#define WITHIN	  2 /* phase: to the switch `mid` of the own group */

/* Link k from a group to another: its number among the links of the group, as build.c deals them out. */
static uint32_t number_of(const struct net_topology *t, uint32_t group, uint32_t other, uint32_t k)
{
	return k * (t->g - 1) + (other < group ? other : other - 1);
}

static uint32_t port_to(const struct net_topology *t, uint32_t at, uint32_t other, uint32_t k)
{
	const uint32_t x = number_of(t, at / t->a, other, k), r = at % t->a, gateway = x / t->h;

	if (gateway == r)
		return t->first[at] + t->per_switch + t->a - 1 + x % t->h;
	return t->first[at] + t->per_switch + (gateway < r ? gateway : gateway - 1);
}

/* Links of a way that begins with link k: from `at` to the group and, if it is not NET_NONE, the switch `to` in it. */
static uint32_t length_by(const struct net_topology *t, uint32_t at, uint32_t other, uint32_t to, uint32_t k)
{
	return 1 + (number_of(t, at / t->a, other, k) / t->h != at % t->a) +
	       (to != NET_NONE && number_of(t, other, at / t->a, k) / t->h != to % t->a);
}

/* A link to the other group. */
static uint32_t choose(struct net *n, const struct net_slot *s, uint32_t at, uint32_t other, uint32_t to,
		       enum net_routing routing)
{
	const struct net_topology *t = n->topology;
	const bool by_queue = routing == NET_ADAPTIVE || routing == NET_UGAL;
	uint32_t shortest = 4, count = 0, best = 0, bytes = UINT32_MAX, pick;

	for (uint32_t k = 0; k < t->n; k++) {
		const uint32_t length = length_by(t, at, other, to, k);

		if (length > shortest)
			continue;
		if (length < shortest) {
			shortest = length;
			count = 0;
			bytes = UINT32_MAX;
		}
		count++;
		if (by_queue && n->port[port_to(t, at, other, k)].bytes < bytes) {
			bytes = n->port[port_to(t, at, other, k)].bytes;
			best = k;
		}
	}
	if (by_queue)
		return best;
	pick = net_route_pick(n, s, at, count, routing);
	for (uint32_t k = 0;; k++)
		if (length_by(t, at, other, to, k) == shortest && !pick--)
			return k;
}

/* Merlin's rule: so much more room must the detour's queue have than the direct one's, if they have these bytes. */
static bool has_more_room(const struct net *n, uint64_t direct, uint64_t detour)
{
	const uint64_t room = n->config.output_buffer;

	return (room > detour ? room - detour : 0) > THRESHOLD * (room > direct ? room - direct : 0);
}

/* Adaptive: is the way by group `mid` better now? */
static bool is_better(struct net *n, const struct net_slot *s, uint32_t at, uint32_t to, uint32_t mid,
		      enum net_routing routing)
{
	const struct net_topology *t = n->topology;
	const uint32_t k = choose(n, s, at, to / t->a, to, routing), m = choose(n, s, at, mid, NET_NONE, routing);
	const uint64_t direct = n->port[port_to(t, at, to / t->a, k)].bytes;
	const uint64_t detour = n->port[port_to(t, at, mid, m)].bytes;

	if (routing == NET_ADAPTIVE)
		return has_more_room(n, direct, detour);
	return direct * length_by(t, at, to / t->a, to, k) > detour * (length_by(t, at, mid, NET_NONE, m) + 2);
}

/* To a switch of the group, directly. */
static uint32_t port_within(const struct net_topology *t, uint32_t at, uint32_t to)
{
	const uint32_t from = at % t->a, other = to % t->a;

	return t->first[at] + t->per_switch + (other < from ? other : other - 1);
}

/* Adaptive, at its first switch, to another one of the group: by a third? */
static void decide_within(struct net *n, struct net_slot *s, uint32_t at, uint32_t to)
{
	const struct net_topology *t = n->topology;
	const uint32_t low = at < to ? at : to, high = at < to ? to : at;
	uint32_t mid;

	if (t->a < 3)
		return;
	mid = at - at % t->a + net_random(n, t->a - 2);
	mid += mid >= low;
	mid += mid >= high;
	if (has_more_room(n, n->port[port_within(t, at, to)].bytes, n->port[port_within(t, at, mid)].bytes)) {
		s->mid = mid;
		s->phase = WITHIN;
		n->counters.detours++;
	}
}

/* At its first switch: by another group? */
static void decide(struct net *n, struct net_slot *s, uint32_t at, uint32_t to, enum net_routing routing)
{
	const struct net_topology *t = n->topology;
	const uint32_t from = at / t->a, group = to / t->a;
	const uint32_t low = from < group ? from : group, high = from < group ? group : from;
	uint32_t mid;

	if (from == group && routing == NET_ADAPTIVE)
		decide_within(n, s, at, to);
	if (from == group || t->g < 3)
		return;
	mid = net_random(n, t->g - 2);
	mid += mid >= low;
	mid += mid >= high;
	if (routing == NET_VALIANT || is_better(n, s, at, to, mid, routing)) {
		s->mid = mid;
		s->phase = 0;
		n->counters.detours++;
	}
}

uint32_t net_route_dragonfly(struct net *n, struct net_slot *s, uint32_t at, enum net_routing routing)
{
	const struct net_topology *t = n->topology;
	const uint32_t to = net_switch_of(t, s->packet.dst);
	uint32_t group = to / t->a;

	if (at == to)
		return t->host_port[s->packet.dst];
	if (s->packet.hops == 1 && s->group == NET_NONE &&
	    (routing == NET_VALIANT || routing == NET_ADAPTIVE || routing == NET_UGAL))
		decide(n, s, at, to, routing);
	if (s->phase == WITHIN) {
		if (s->mid != at)
			return port_within(t, at, s->mid);
		s->phase = 1;
		s->crossed++; /* the next VC, as if it had come from another group */
	}
	if (s->phase == 0) {
		if (s->mid == at / t->a)
			s->phase = 1;
		else
			group = s->mid;
	}
	if (at / t->a == group)
		return port_within(t, at, to);
	if (s->link == NET_NONE)
		s->link = choose(n, s, at, group, s->phase ? to : NET_NONE, routing);
	return port_to(t, at, group, s->link);
}
