/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets through a network of testbed/net: each host sends its packets in order, each not before its time, as soon as
 * its link takes it. */
#ifndef TESTS_NET_TRAFFIC_H
#define TESTS_NET_TRAFFIC_H

#include "../../testbed/net/net.h"

struct traffic_packet {
	uint32_t src, dst, bytes;
	sp_time from; /* not sent before */
	sp_time sent, arrived;
	uint64_t flow;
	uint32_t next; /* of the same host */
	uint16_t hops;
	uint16_t times; /* that it has arrived */
	uint8_t priority;
	bool dropped, ecn;
};

struct traffic {
	struct net_topology *topology;
	struct net *net;
	struct traffic_packet *packet;
	uint32_t count, room;
	uint32_t *first, *last; /* of each host: what it has yet to send */
	uint64_t early;		/* packets that net_send refused at first */
	uint64_t drops;		/* that config.drop told */
	uint64_t digest;	/* of all deliveries and their times */
	sp_time end;		/* of the last delivery */
};

/* config: without topology and callbacks. A topology or configuration that is refused ends the test. */
void traffic_open(struct traffic *t, const char *topology, struct net_config config);
void traffic_close(struct traffic *t);
/* A packet; times must not decrease from call to call. Its number. */
uint32_t traffic_add(struct traffic *t, uint32_t src, uint32_t dst, uint32_t bytes, sp_time from, uint64_t flow);
/* Sends everything, and runs until nothing moves. True: the counters add up, and nothing is left. */
bool traffic_run(struct traffic *t);

#endif
