/* SPDX-License-Identifier: BSD-3-Clause */
/* What is asked of the kernel over rtnetlink(7): addresses, and filters of traffic control. Control calls, for the
 * start: a running NIC has no rights for them. */
#ifndef PIPELINE_PORTS_NETLINK_H
#define PIPELINE_PORTS_NETLINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Gives an interface this address (IPv4 mapped; prefix 0: the address alone), without duplicate address detection. An
 * address that it has already stays. -errno: -EPERM needs CAP_NET_ADMIN, -EACCES IPv6 is off there. */
int sp_netlink_add_address(unsigned index, const uint8_t ip[16], uint8_t prefix);

/* Does traffic control drop all that the interface receives, before the kernel's protocols see it? Packet sockets and
 * XDP, by which the NIC receives, come first. What counts is the first filter at the ingress, one of
 *   matchall action drop
 *   bpf da bytecode '1,6 0 0 2'
 * for all protocols; whatever else might drop is not believed. 1: yes; 0: no; -errno: the kernel does not tell. */
int sp_netlink_drops_ingress(unsigned index);

/* The decision about a filter, for each message of a dump in its order. */
enum sp_filter_says { SP_FILTER_NOTHING, SP_FILTER_DROPS_ALL, SP_FILTER_DOES_NOT };
enum sp_filter_says sp_netlink_filter(const void *message, size_t len);

#endif
