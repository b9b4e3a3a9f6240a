/* SPDX-License-Identifier: BSD-3-Clause */
/* The path to one peer: a header template, and the cached MAC of the next hop. */
#ifndef PIPELINE_TX_PATH_H
#define PIPELINE_TX_PATH_H

#include "../../handlers/spindle-handler.h"

#include <stdint.h>

struct sp_context;
struct sp_worker;

struct sp_path {
	struct sp_path *next; /* next in the list of open or of free paths */
	unsigned opened;      /* reference count */
	uint8_t ip[16], next_hop[16];
	_Atomic uint64_t mac;	   /* next hop's MAC in memory order, low 48 bits; 0: unknown */
	_Atomic sp_time mac_until; /* when to ask the neighbour table again */
	uint16_t udp_source;	   /* network order */
	uint16_t port;		   /* SP_PORT_LOOP: to the NIC itself */
	uint8_t l2_len;		   /* bytes of Ethernet header and tag, */
	uint8_t l3_len, head_len;  /* of IP header, and from Ethernet to UDP */
	uint32_t sum;		   /* IPv4: sum of the template's header in 16-bit words */
	bool lends;		   /* the port's driver can send payload by zero copy */
	uint8_t head[72];	   /* template up to the UDP header */
};

/* [worker] The next hop's MAC as a number; 0: unknown, and requested. */
uint64_t sp_path_mac(struct sp_worker *w, struct sp_path *p);
/* Frees a context's paths. */
void sp_paths_free(struct sp_context *c);

#endif
