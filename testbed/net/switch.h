/* SPDX-License-Identifier: BSD-3-Clause */
/* What happens to packets in a switch and on its links. */
#ifndef TESTBED_NET_SWITCH_H
#define TESTBED_NET_SWITCH_H

#include "fabric.h"

/* pfc.c. A packet has come into an input queue of a host's port, or left it: true if the host has to be told, by the
 * next event of the port's link. */
bool net_pfc_came(struct net *n, uint32_t port, uint32_t vc);
bool net_pfc_left(struct net *n, uint32_t port, uint32_t vc);
/* The link is free, and a frame is due: sends it, if there still is something to say. */
void net_pfc_send(struct net *n, uint32_t port);
void net_pfc_repeat(struct net *n, uint32_t port);
/* The host hears of it. more: priorities that it says something of, << 8 those that it pauses. */
void net_pfc_heard(struct net *n, uint32_t host, uint32_t more);
static inline bool net_is_paused(const struct net *n, const struct net_lane *lane)
{
	return lane->paused > n->now;
}

void net_event_run(struct net *n, const struct net_event *e);
/* Lossless: the host at a port, or the switch at the other end of its link, has room for more again: told after the
 * delay of the link. */
void net_credit_return(struct net *n, uint32_t port, uint32_t vc, uint32_t bytes);

#endif
