/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether the packets of a flow arrive in the order in which they were sent: each gets a number in its flow. */
#ifndef TESTBED_NET_ORDER_H
#define TESTBED_NET_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NET_MAX_FLOWS (1u << 20)
#define NET_UNORDERED UINT32_MAX /* the number of a packet that is not checked */

struct net_order;

struct net_order *net_order_create(void); /* NULL: no memory */
void net_order_destroy(struct net_order *o);
size_t net_order_memory(const struct net_order *o);
/* The number of the next packet from src to dst; NET_UNORDERED: there are too many flows. */
uint32_t net_order_sent(struct net_order *o, uint32_t src, uint32_t dst, uint64_t flow);
/* True: a later one has arrived before. */
bool net_order_late(struct net_order *o, uint32_t src, uint32_t dst, uint64_t flow, uint32_t number);

#endif
