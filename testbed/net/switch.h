/* SPDX-License-Identifier: BSD-3-Clause */
/* What happens to packets in a switch and on its links. */
#ifndef TESTBED_NET_SWITCH_H
#define TESTBED_NET_SWITCH_H

#include "fabric.h"

void net_event_run(struct net *n, const struct net_event *e);
/* Lossless: the host at a port, or the switch at the other end of its link, has room for more again: told after the
 * delay of the link. */
void net_credit_return(struct net *n, uint32_t port, uint32_t vc, uint32_t bytes);

#endif
