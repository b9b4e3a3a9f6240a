/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a network consists of while it runs. Packets in flight are in one array; queues are lists through it by index.
 * Ports are numbered as in the topology's graph, queues (port, VC) as port * vcs + VC.
 */
#ifndef TESTBED_NET_FABRIC_H
#define TESTBED_NET_FABRIC_H

#include "../random.h"
#include "events.h"
#include "graph.h"
#include "net.h"
#include "order.h"

#define NET_PAUSE_BYTES 84u /* of a PAUSE frame: 64, preamble and gap */

/* A packet in flight. */
struct net_slot {
	struct net_packet packet;
	uint32_t next;	 /* in its queue, or among the free ones */
	uint32_t size;	 /* bytes, in whole flits */
	uint32_t at;	 /* the port where it arrives next, or is */
	uint32_t group;	 /* that it goes to; NET_NONE */
	uint32_t number; /* config.order: its number in its flow */
	/* Routing, see route.c: */
	uint32_t mid;	   /* the switch or group to pass first; NET_NONE */
	uint32_t link;	   /* dragonfly: the link chosen to the other group; NET_NONE */
	uint16_t branch;   /* group: copies already made at this switch */
	uint8_t vc;	   /* of the queue that it is in, of all priorities' */
	uint8_t priority;  /* one of the network's */
	uint8_t phase;	   /* 0: to mid; 1: to its destination; dragonfly: 2: to the switch mid of its group */
	uint8_t dimension; /* that it moves in; 255: none yet */
	uint8_t crossed;   /* torus: it has crossed the dateline of this dimension */
	uint16_t links;	   /* between switches, so far */
};

struct net_list {
	uint32_t first, last; /* first NET_NONE: empty */
	uint32_t bytes;
};

struct net_queue {
	struct net_list in, out;
	uint32_t credits; /* room in the next switch's input queue for what is in `out` */
	uint32_t want;	  /* the port that the head of `in` goes to; NET_NONE: there is none */
	uint8_t want_vc;
	uint64_t served;	 /* when the head was let through last: a count */
	uint32_t next, previous; /* among those that want the same port: queues */
};

struct net_port {
	uint32_t wanted;		      /* the first queue whose head wants it; NET_NONE */
	uint32_t bytes;			      /* in its output queues */
	sp_time link_free;		      /* when its link can take a packet */
	sp_time in_free, out_free;	      /* when its side of the crossbar can */
	uint8_t turn;			      /* the VC that was sent last */
	bool link_event, in_event, out_event; /* there is an event at that time */
};

struct net_host {
	sp_time link_free;
	bool event, resume; /* there is an event when its link is free, when a pause is over */
};

/* A priority of a host. */
struct net_lane {
	sp_time paused, since; /* PFC: until then, and since when; paused 0: not */
	uint32_t credits;
	uint32_t wants; /* bytes that it has been refused; 0: none */
};

/* PFC: what a switch tells the host at a port. Bits are priorities. */
struct net_pause {
	uint8_t over;	  /* has reached xoff, and not come down to xon */
	uint8_t told;	  /* what the last frame said */
	bool due, repeat; /* a frame is to be sent; it repeats what was told */
	bool event;	  /* there is an event to repeat it */
};

/* A group's tree: the ports that a switch copies to are branch[first[switch]] to branch[first[switch + 1] - 1]. */
struct net_group {
	uint32_t source, count;
	uint32_t *first, *branch;
};

struct net {
	struct net_config config;
	const struct net_topology *topology;
	uint32_t vcs;	   /* of all priorities */
	uint32_t lane_vcs; /* of one */
	uint32_t lanes;	   /* priorities */
	uint32_t largest;  /* of the packets so far, in whole flits: an output has room if one more of these fits */
	uint32_t ps_per_byte, ps_per_byte_x; /* on links and in the crossbar; 0: no whole number */
	double rate_x;
	struct net_slot *slot;
	uint32_t slots, free_slot, used;
	struct net_port *port;
	struct net_queue *queue;
	struct net_host *host;
	struct net_lane *lane;	 /* [hosts * lanes] */
	struct net_pause *pause; /* [ports]; NULL: no PFC */
	struct net_pfc pfc;
	sp_time pause_lasts, pause_takes; /* a pause; its frame on a link */
	struct net_group *group;
	uint32_t groups;
	struct net_events events;
	struct net_order *order;
	struct sp_random random;
	uint64_t grants;
	sp_time now;
	struct net_counters counters;
};

/* slots.c. A free packet; NET_NONE: no memory. Slots move when there have to be more of them. */
uint32_t net_slot_take(struct net *n);
void net_slot_drop(struct net *n, uint32_t i);
/* Drops a packet, told and counted. */
void net_drop(struct net *n, uint32_t i, enum net_drop why);

static inline uint32_t net_queue_of(const struct net *n, uint32_t port, uint32_t vc)
{
	return port * n->vcs + vc;
}

static inline sp_time net_link_time(const struct net *n, uint32_t bytes)
{
	const unsigned __int128 bits = (unsigned __int128)bytes * 8 * 1000000000000ull;

	if (n->ps_per_byte)
		return (sp_time)bytes * n->ps_per_byte;
	return (sp_time)((bits + n->config.rate - 1) / n->config.rate);
}

/* A packet on each of its links. */
static inline sp_time net_slot_time(const struct net *n, const struct net_slot *s)
{
	return s->packet.byte_ps ? (sp_time)s->size * s->packet.byte_ps : net_link_time(n, s->size);
}

static inline sp_time net_crossbar_time(const struct net *n, uint32_t bytes)
{
	const double ps = (double)net_link_time(n, bytes) / n->config.crossbar;
	const sp_time whole = (sp_time)ps;

	return whole + ((double)whole < ps);
}

#endif
