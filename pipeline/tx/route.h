/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Routing: own addresses, prefixes and gateways, each on one port.
 *
 * A NIC with several ports is a multi-homed host: an address belongs to one port, its prefix is on that port's link,
 * and the longest prefix wins. Packets to the NIC itself use SP_PORT_LOOP (see loop.h).
 */
#ifndef PIPELINE_TX_ROUTE_H
#define PIPELINE_TX_ROUTE_H

#include "../nic.h"

struct sp_route_own {
	uint8_t ip[16];
	uint8_t bits; /* prefix length of 128 bits */
	uint16_t port;
};

/* Read-only once the NIC exists. */
struct sp_routes {
	struct sp_route_own own[SP_MAX_ADDRESSES];
	unsigned owns;
	uint8_t gateway[2][16]; /* for IPv6, for IPv4; all zero: none */
	int gateway_port[2];
};

struct sp_route {
	uint8_t next_hop[16]; /* address to resolve on the link */
	uint8_t source[16];   /* own address, the packet's source */
	uint16_t port;	      /* SP_PORT_LOOP: to the NIC itself */
};

/* Sets the routes from the configuration; a prefix of 0 bits means the address alone. -EINVAL and error: prefix too
 * long; too many addresses; no such port (port 0 is always valid); one address, or one prefix other than link-local, on
 * two ports; gateway in no prefix, or not a host address. */
int sp_routes_set(struct sp_routes *r, const struct sp_nic_config *config, struct sp_error *error);

/* Finds the longest prefix that holds ip, else the gateway. IPv6 link-local addresses are always on-link: on the
 * gateway's link for the gateway, else on the link of the own address in their prefix, else of the first IPv6 address.
 * An own address uses SP_PORT_LOOP, with itself as source. -ENETUNREACH: no prefix and no gateway of that family, or no
 * unicast destination (multicast, broadcast, loopback, unspecified). */
int sp_route_find(const struct sp_routes *r, const uint8_t ip[16], struct sp_route *route);
/* The port whose link holds ip; 0: no prefix holds it. */
uint16_t sp_route_port(const struct sp_routes *r, const uint8_t ip[16]);
/* The port's own address for requests to ip; NULL: ip is not on its link. */
const uint8_t *sp_route_source(const struct sp_routes *r, uint16_t port, const uint8_t ip[16]);
/* True for another host's unicast address. */
bool sp_route_is_host(const struct sp_routes *r, const uint8_t ip[16]);

bool sp_ip_is_ipv4(const uint8_t ip[16]);

#endif
