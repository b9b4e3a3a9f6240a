/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The events of a network. Most come from a link, whose delay is always the same, so that they are put in the order of
 * their times: a ring each for them. The others go into a heap with four children to a node. Events of the same time
 * happen in the order in which they were put.
 */
#ifndef TESTBED_NET_EVENTS_H
#define TESTBED_NET_EVENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "../../handlers/wire/host.h"

enum net_event_kind {
	NET_ARRIVE,
	NET_DELIVER,
	NET_CREDIT,
	NET_LINK_FREE,
	NET_IN_FREE,
	NET_OUT_FREE,
	NET_HOST_FREE,
	NET_PAUSE,	/* a PAUSE frame takes effect */
	NET_REPEAT,	/* a switch repeats a pause */
	NET_HOST_RESUME /* a pause has run out */
};

struct net_event {
	sp_time at;
	uint64_t order;
	uint32_t id, more; /* a packet, a port or a host; of a credit: the queue, and bytes; of a pause: priorities */
	enum net_event_kind kind;
};

struct net_ring {
	struct net_event *event;
	size_t room, first, count; /* room: a power of two */
};

/* The rings: what arrives from switches, what arrives from hosts, credits, and PAUSE frames. */
enum { NET_FROM_SWITCH, NET_FROM_HOST, NET_CREDITS, NET_PAUSES, NET_RINGS };

struct net_events {
	struct net_ring ring[NET_RINGS];
	struct net_event *heap;
	size_t room, count;
	uint64_t order;
};

/* Makes room in the heap and in the rings of packets, so that as many events fit in each of them. False: no memory. */
bool net_events_room(struct net_events *e, size_t heap, size_t ring);
void net_events_free(struct net_events *e);
size_t net_events_memory(const struct net_events *e);

/* In the order of times, within a ring. False: there was no room and no memory for more. */
bool net_events_follow(struct net_events *e, unsigned ring, sp_time at, enum net_event_kind kind, uint32_t id,
		       uint32_t more);
/* At any time. There must be room. */
void net_events_put(struct net_events *e, sp_time at, enum net_event_kind kind, uint32_t id);
sp_time net_events_next(const struct net_events *e); /* SP_NEVER */
/* Takes the first event if it is due by `until`. */
bool net_events_take(struct net_events *e, sp_time until, struct net_event *event);

#endif
