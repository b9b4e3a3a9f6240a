/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Real NICs at the hosts of a network: their frames travel whole through its switches, in virtual time (world.h). A
 * frame goes to the host that its destination MAC belongs to; one to a multicast or broadcast MAC goes to every host
 * with a MAC but its own, as one packet for each. On the wire a frame takes its bytes, at least 60, and 24 more, as in
 * link.h. A switch's ECN mark sets Congestion Experienced in an IP header that allows it. A frame's priority is that of
 * its VLAN tag (PCP); without one, the upper three bits of its DSCP. The frames of a NIC leave in order: with PFC, one
 * of a paused priority keeps those behind it waiting, whatever theirs is.
 *
 * The NICs move the network on: the port that was taken first does so at each of its events, so its NIC must be in the
 * world. Each NIC has one worker. Threads: one thread owns the network and everything attached to it.
 */
#ifndef TESTBED_NET_NICS_H
#define TESTBED_NET_NICS_H

#include "../../pipeline/nic.h"
#include "net.h"

struct net_nics_config {
	struct net_config net; /* without callbacks */
	uint64_t memory;       /* bytes for frames in flight, at most 2^44; 0: 2^31. Beyond it, senders wait */
};

struct net_nics_counters {
	uint64_t unknown;   /* frames to a MAC that no host has: dropped */
	uint64_t oversized; /* frames larger than any packet buffer: dropped. Not 0: the results are wrong */
	uint64_t held;	    /* times that a sender waited for memory. Not 0: the results are not exact */
	uint64_t waited;    /* times that a frame had arrived and found no packet buffer: so, too */
	uint64_t congested; /* frames that arrived with Congestion Experienced set by a switch */
};

struct net_nics;

/* As net_create. */
int net_nics_create(const struct net_nics_config *config, struct net_nics **nics, char *why, size_t whylen);
void net_nics_destroy(struct net_nics *nics); /* after the NICs; frees the frames in flight */

/* For struct sp_port_config of the NIC at a host: ops, and ops_arg; NULL: no such host. */
extern const struct sp_port_ops net_nics_ops;
void *net_nics_port(struct net_nics *nics, uint32_t host);

/* The host has this MAC; several MACs may belong to one host. -EINVAL: no such host, a multicast MAC, or one that
 * another host has; -ENOMEM. */
int net_nics_mac(struct net_nics *nics, uint32_t host, const uint8_t mac[6]);

struct net *net_nics_net(struct net_nics *nics); /* for net_count() and net_next() */
/* For an event loop of its own: `touched` is called, and must make no call, when the NIC at a host has to be polled: a
 * frame has come for it, or it may send again. From now on no port moves the network on: the caller does, by net_run(),
 * before it polls NICs. */
void net_nics_watch(struct net_nics *nics, void (*touched)(void *arg, uint32_t host), void *arg);
void net_nics_count(const struct net_nics *nics, struct net_nics_counters *counters);

#endif
