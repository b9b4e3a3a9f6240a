/* SPDX-License-Identifier: BSD-3-Clause */
/* What is asked of the kernel over netlink(7): addresses, XDP programs, filters of traffic control, and where an
 * interface is. Control calls, for the start: a running NIC has no rights for them. */
#ifndef PIPELINE_PORTS_NETLINK_H
#define PIPELINE_PORTS_NETLINK_H

#include <net/if.h>
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

/* The number of the XDP program on an interface; 0: there is none. -errno: the kernel does not tell. */
int sp_netlink_xdp(unsigned index, uint32_t *program);

/* Where an interface is. */
struct sp_netlink_link {
	unsigned master; /* the bridge or bond that it belongs to; 0: none */
	unsigned peer; /* what IFLA_LINK tells: the other end of a veth, what a VLAN interface is made on; 0: nothing */
	bool abroad;   /* the peer is in another network namespace, whose number there is `space` */
	int space;
};
int sp_netlink_link(unsigned index, struct sp_netlink_link *link); /* -errno */
/* The name of an interface in another network namespace; false: the kernel does not tell us. Needs CAP_NET_ADMIN. */
bool sp_netlink_name_abroad(int space, unsigned index, char name[IF_NAMESIZE]);

/* What an interface's driver can do for XDP, as Linux 6.3 and later tell it; -errno. */
#define SP_XDP_BASIC	1u
#define SP_XDP_REDIRECT 2u
#define SP_XDP_ZEROCOPY 8u
int sp_netlink_xdp_features(unsigned index, uint64_t *features);

/* The decision about a filter, for each message of a dump in its order. */
enum sp_filter_says { SP_FILTER_NOTHING, SP_FILTER_DROPS_ALL, SP_FILTER_DOES_NOT };
enum sp_filter_says sp_netlink_filter(const void *message, size_t len);

#endif
