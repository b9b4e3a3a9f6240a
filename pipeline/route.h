/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which way a packet goes: own addresses, prefixes, gateways, and the port that each of them belongs to.
 *
 * A NIC with several ports is a multi-homed host: an address belongs to one port, its prefix is on the link there, and
 * the longest prefix decides. To itself it goes by no port (SP_PORT_LOOP, see loop.h).
 */
#ifndef PIPELINE_ROUTE_H
#define PIPELINE_ROUTE_H

#include "nic.h"

struct sp_route_own {
	uint8_t ip[16];
	uint8_t bits; /* of the 128 */
	uint16_t port;
};

/* Read-only once the NIC exists. */
struct sp_routes {
	struct sp_route_own own[SP_MAX_ADDRESSES];
	unsigned owns;
	uint8_t gateway[2][16]; /* IPv6, IPv4; all zero: none */
	int gateway_port[2];
};

struct sp_route {
	uint8_t next_hop[16]; /* whom to ask for on the wire */
	uint8_t source[16];   /* own address to send from */
	uint16_t port;	      /* SP_PORT_LOOP: to itself */
};

/* From the NIC's configuration; a prefix of 0 bits means the address alone. -EINVAL, error says what: prefix too long,
 * too many addresses; an address on a port that there is not (port 0 always is, also on a NIC without ports); one
 * address, or one prefix other than a link-local one, on two ports; a gateway that no prefix holds, or where no station
 * can be. */
int sp_routes_set(struct sp_routes *r, const struct sp_nic_config *config, struct sp_error *error);

/* The longest prefix that holds ip, else the gateway. IPv6 link-local addresses are always on the link: on that of the
 * gateway if it is the gateway, else of the own address in their prefix, else of the first IPv6 address. An own address
 * is reached by SP_PORT_LOOP, from itself. -ENETUNREACH: no prefix and no gateway of that family, or nobody can be
 * reached there: multicast, broadcast, loopback, unspecified. */
int sp_route_find(const struct sp_routes *r, const uint8_t ip[16], struct sp_route *route);
/* The port where the neighbour ip is, 0 when no prefix holds it. */
uint16_t sp_route_port(const struct sp_routes *r, const uint8_t ip[16]);
/* The own address to ask from for ip, which is on the link of that port; NULL: it is not. */
const uint8_t *sp_route_source(const struct sp_routes *r, uint16_t port, const uint8_t ip[16]);
/* An address that one other station can have. */
bool sp_route_is_station(const struct sp_routes *r, const uint8_t ip[16]);

bool sp_ip_is_ipv4(const uint8_t ip[16]);

#endif
