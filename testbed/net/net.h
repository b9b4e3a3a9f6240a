/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A network of switches between hosts, in virtual time. The model is that of SST's merlin (hr_router), packet by
 * packet:
 *
 *   host link -> input queue -> crossbar -> output queue -> link -> input queue of the next switch -> ... -> host
 *
 * A switch has at each port an input and an output queue of bytes for each virtual channel (VC). Packets cut through:
 * the head of a packet goes on while its tail still arrives; a packet is delivered when its tail has arrived. So, with
 * nobody in its way, a packet of F flits that passes H switches takes
 *
 *   serialisation(F * flit bytes) + (H + 1) * link_delay + H * (switch_in + switch_out)
 *
 * Bytes on the wire are rounded up to whole flits, and the time of a packet on a link up to whole ps (no rounding where
 * 8 * 10^12 is a multiple of the rate: 100, 200, 400 Gbit/s, 1 and 2 Tbit/s, 4 GB/s). In the crossbar, a packet
 * occupies its input and its output for serialisation / crossbar. A packet's room in a queue is free again when it
 * begins to leave, as in merlin. Lossless: an output sends a packet only if the next input queue has room for all of
 * it; news of room takes link_delay. Not lossless: who finds a queue full is dropped. Hosts take whatever arrives. The
 * head of each input queue is routed when it becomes the head. Among waiting heads, the one that was served least
 * recently is next, chosen after all that comes at the same time is there.
 *
 * Priorities have queues of their own, as many VCs each as the routing needs, and links send the queues in turn.
 * With PFC a host knows nothing of the room in its switch: it sends until the switch pauses a priority (net_pfc).
 *
 * Threads: one thread owns a network. The same seed and calls give the same events. No memory is allocated per packet
 * once as many packets as now were in flight before. At most 2^26 are.
 */
#ifndef TESTBED_NET_NET_H
#define TESTBED_NET_NET_H

#include "../../handlers/wire/host.h"
#include "topology.h"

#define NET_GROUP      0x80000000u /* bit of dst: a group of net_group_add() */
#define NET_MAX_VCS    16u
#define NET_MAX_BYTES  (1u << 24)	/* of a packet */
#define NET_MAX_RATE   2000000000000ull /* bit/s */
#define NET_PRIORITIES 8u		/* at most, of IEEE 802.1Q */
#define NET_MAX_GROUPS 4096u

/*
 * Which routings a topology has, and how many VCs they need if the network is lossless:
 *             minimal  valiant  adaptive        ugal  ecmp    spray
 *   star      1        -        -               -     -       -
 *   torus     2 (a)    4 (a)    -               -     -       -
 *   fattree   1        -        1 (b)           -     1       1
 *   dragonfly 2        3        3 (c)           3     2       2
 *   hyperx    1        2        2 (d)           -     dims    dims
 *   graph     (e)      -        (e)             -     (e)     (e)
 * minimal: one shortest way for each destination. valiant: by a random switch (dragonfly: group). ecmp: one shortest
 * way for each flow. spray: any, for each packet. (a) one in a phase where no dimension is longer than 3. (b) another
 * link up than the minimal one if that one's room is below half. (c) merlin's adaptive-local: the way by a random group
 * (to the own group: switch of it) if its credits are more than twice the direct one's, and at the entry of each group
 * the link to the next with the shortest queue; ugal: shortest queue times hops, decided at the first switch.
 * (d) merlin's DOAL: in each dimension in turn, direct or by one detour, whichever has less of weight * (2q + 1),
 * weight the number of hops. (e) 1 if the shortest ways of the graph make no cycle of links, else its diameter.
 */
enum net_routing { NET_MINIMAL, NET_VALIANT, NET_ADAPTIVE, NET_UGAL, NET_ECMP, NET_SPRAY, NET_ROUTINGS };

extern const char *const net_routing_names[NET_ROUTINGS]; /* "minimal", ... */

enum net_drop {
	NET_DROP_INPUT_FULL,  /* not lossless: the input queue of a switch had no room */
	NET_DROP_OUTPUT_FULL, /* not lossless: the output queue of a switch had no room */
	NET_DROP_OVERSIZED,   /* the packet is larger than a queue, or NET_MAX_BYTES, or has no bytes */
	NET_DROP_NO_HOST, /* it comes from or goes to none of the network's hosts, or to a group of another source */
	NET_DROP_MEMORY,  /* there is no memory for more packets in flight: the results are not exact from then on */
	NET_DROPS
};

extern const char *const net_drop_names[NET_DROPS]; /* "input_full", ... */

struct net_packet {
	uint32_t src, dst; /* hosts; src is set by net_send. dst: also NET_GROUP | group; delivered: always a host */
	uint32_t bytes;	   /* on the wire */
	uint16_t hops;	   /* switches it has passed, set by the network */
	bool ecn;	   /* set by a switch whose output queue was above the threshold */
	uint8_t priority;  /* one that the network does not have counts as its highest */
	uint32_t byte_ps;  /* ps of a byte on each link of its way; 0: as the links' rate says */
	sp_time late;	   /* ps, at most 1 s: so much longer its last link takes; later packets may overtake it */
	uint64_t flow;	   /* what ECMP hashes */
	void *user;	   /* the caller's, not touched; every copy to a group has the same */
	uint64_t tag;
};

/*
 * Priority flow control (IEEE 802.1Qbb) of the links from hosts to their switches; links between switches keep their
 * credits. Once the input queue of a priority has xoff bytes, the switch sends the host a PAUSE frame for it, and
 * another with time 0 once it has no more than xon. The frame takes 84 bytes on the link, before the packets that wait
 * there. The host ends the packet that it is sending. A pause lasts `quanta` times 512 bit times, and the switch
 * repeats it after half of that. The input buffer must hold xoff and what comes until the host has stopped:
 *
 *   mtu + rate * (2 * link_delay + switch_in + response + a packet of mtu bytes on the link + a PAUSE frame)
 *
 * and another mtu with store_forward. net_create() refuses less, with the number needed.
 */
struct net_pfc {
	bool on;
	uint32_t xoff, xon; /* bytes; 0: all that the buffer has beyond that; half of xoff */
	uint32_t mtu;	    /* bytes of the largest packet on the wire; larger ones are dropped; 0: 4224 */
	uint32_t quanta;    /* 1 to 65535; 0: 65535 */
	sp_time response;   /* from a frame's end until the host has stopped, at most 1 s */
};

struct net_config {
	const struct net_topology *topology; /* must outlive the network */
	enum net_routing routing;
	uint64_t rate;	    /* bit/s of every link, up to NET_MAX_RATE */
	sp_time link_delay; /* ps; at most 1 s each */
	sp_time switch_in, switch_out;
	double crossbar;		      /* its bandwidth as a multiple of the link's, 1 to 64 */
	uint32_t flit;			      /* bytes, 1 to 65536 */
	uint32_t input_buffer, output_buffer; /* bytes of each VC of each port */
	uint32_t vcs;			      /* of each priority; 0: as many as the routing needs */
	uint32_t priorities;		      /* 1 to NET_PRIORITIES; 0: 1 */
	bool lossless;
	struct net_pfc pfc; /* of a lossless network: instead of credits where hosts are */
	bool store_forward; /* a switch waits for the tail of a packet: one serialisation more for each switch */
	bool order;	    /* count packets that arrive out of order within (src, dst, flow); costs memory */
	uint32_t ecn;	    /* mark if more bytes than this are in the output queue of a port; 0: never */
	uint64_t seed;
	/* A packet's tail has arrived at host p->dst. May call net_send. */
	void (*deliver)(void *arg, const struct net_packet *p, sp_time now);
	/* After net_send was false: the host may send again. NULL: nobody wants to know. May call net_send. */
	void (*room)(void *arg, uint32_t host, sp_time now);
	/* A packet is dropped. NULL: nobody wants to know. Must not call net_send. */
	void (*drop)(void *arg, const struct net_packet *p, enum net_drop why, sp_time now);
	void *arg;
};

struct net_counters {
	uint64_t sent;		   /* packets accepted by net_send */
	uint64_t copied;	   /* more of them by groups: sent + copied = delivered + dropped + in flight */
	uint64_t delivered, bytes; /* bytes delivered */
	uint64_t dropped[NET_DROPS];
	uint64_t in_flight;
	uint64_t marked;       /* ECN marks: packets that a switch was the first to mark */
	uint64_t reordered;    /* config.order: packets that arrived after a later one of their flow */
	uint64_t unordered;    /* config.order: packets of flows beyond the first 2^20, not checked */
	uint64_t detours;      /* packets sent on a way longer than the shortest, and detours of DOAL */
	uint64_t pauses;       /* PFC: times that a priority of a host was paused */
	uint64_t pause_frames; /* also those that repeat or end a pause */
	sp_time first_pause;   /* when the first was sent; SP_NEVER: none was */
	sp_time paused;	       /* how long priorities of hosts stood still, in all, as far as that is over */
	uint64_t events;
	uint64_t memory;			/* bytes, of the network as it is now */
	uint32_t highest_input, highest_output; /* bytes in one queue, at most */
};

struct net;

/* What merlin's tests take for 8,192 nodes: minimal, 400 Gbit/s, 20 ns links, 30 + 30 ns switches, crossbar 1.5, flit
 * 32, buffers of 64 and 32 KiB, VCs as needed, lossless, no ECN. The caller sets topology, routing and callbacks. */
void net_defaults(struct net_config *config);

/* How many VCs a lossless network with this routing needs; 0: this topology has no such routing. */
uint32_t net_vcs_needed(const struct net_topology *topology, enum net_routing routing);

/* -EINVAL: why names what is wrong, with the number of VCs needed if there are too few; -ENOMEM. why: whylen bytes,
 * always ended by a NUL. */
int net_create(const struct net_config *config, struct net **net, char *why, size_t whylen);
void net_destroy(struct net *net); /* drops what is in flight without a call */

/* Sends a packet from a host at `now`, which must not be before the last net_run(). True: taken (or dropped: the drop
 * is told and counted). False: the host's link is busy, or the switch has no room; config.room() tells when to try
 * again. */
bool net_send(struct net *net, uint32_t host, const struct net_packet *packet, sp_time now);

sp_time net_next(const struct net *net);      /* time of the next event; SP_NEVER: none */
void net_run(struct net *net, sp_time until); /* all events up to and including `until`; SP_NEVER: until none is left */
void net_count(const struct net *net, struct net_counters *counters);

/* A group of hosts that `source` sends to: a packet with dst = NET_GROUP | *group goes along a tree of shortest ways
 * and is copied in the switches where it branches, one copy after the other through the crossbar. -EINVAL: no such
 * host, or one twice; -ENOSPC: NET_MAX_GROUPS; -ENOMEM. The group lives as long as the network. */
int net_group_add(struct net *net, uint32_t source, const uint32_t *hosts, uint32_t count, uint32_t *group);

/* What PFC is with these numbers: the config's, or what 0 stands for. headroom: bytes that the input buffer has beyond
 * xoff. As net_create. */
int net_pfc_numbers(const struct net_config *config, struct net_pfc *pfc, uint32_t *headroom, char *why, size_t whylen);

/* How long a packet takes on one link, in ps, rounded up. */
sp_time net_serialisation(const struct net *net, uint32_t bytes);

#endif
