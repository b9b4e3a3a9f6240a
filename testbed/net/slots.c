/* SPDX-License-Identifier: BSD-3-Clause */
/* The packets in flight: one array with a list of free ones. Whoever makes it larger makes room for their events. */
#include <stdlib.h>

#include "fabric.h"

#define FIRST_SLOTS 256u
#define MAX_SLOTS   (1u << 26)

/* Events that are not of packets: of each port three, of each host one; with PFC one more of each. */
static size_t standing_events(const struct net *n)
{
	const size_t more = n->pause ? 1 : 0;

	return net_ports(n->topology) * (3 + more) + n->topology->hosts * (1 + more);
}

static bool more_slots(struct net *n)
{
	const uint32_t room = n->slots ? n->slots * 2 : FIRST_SLOTS;
	struct net_slot *more;

	if (room > MAX_SLOTS || !net_events_room(&n->events, standing_events(n) + room, room))
		return false;
	more = realloc(n->slot, room * sizeof(*more));
	if (!more)
		return false;
	n->slot = more;
	for (uint32_t i = room; i-- > n->slots;) {
		n->slot[i].next = n->free_slot;
		n->free_slot = i;
	}
	n->slots = room;
	return true;
}

uint32_t net_slot_take(struct net *n)
{
	const uint32_t i = n->free_slot != NET_NONE || more_slots(n) ? n->free_slot : NET_NONE;

	if (i != NET_NONE) {
		n->free_slot = n->slot[i].next;
		n->used++;
	}
	return i;
}

void net_slot_drop(struct net *n, uint32_t i)
{
	n->slot[i].next = n->free_slot;
	n->free_slot = i;
	n->used--;
}

void net_drop(struct net *n, uint32_t i, enum net_drop why)
{
	const struct net_packet p = n->slot[i].packet;

	net_slot_drop(n, i);
	n->counters.dropped[why]++;
	if (n->config.drop)
		n->config.drop(n->config.arg, &p, why, n->now);
}
