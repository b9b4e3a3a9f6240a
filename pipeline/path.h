/* SPDX-License-Identifier: BSD-3-Clause */
/* The way to one peer: headers made once, the next hop's MAC looked up now and then. */
#ifndef PIPELINE_PATH_H
#define PIPELINE_PATH_H

#include "../handlers/spindle-handler.h"

#include <stdint.h>

struct sp_context;
struct sp_worker;

struct sp_path {
	struct sp_path *next; /* of the list, or the free ones */
	unsigned opened;      /* times less those closed */
	uint8_t ip[16], next_hop[16];
	_Atomic uint64_t mac;	   /* next hop's, low 48 bits as they stand in memory; 0: not known */
	_Atomic sp_time mac_until; /* when to ask the neighbour table again */
	uint16_t udp_source;	   /* network order */
	uint16_t port;		   /* SP_PORT_LOOP: to the NIC itself */
	uint8_t l3_len, head_len;  /* IP header; Ethernet to UDP */
	uint32_t sum;		   /* IPv4: of the template's header, in 16-bit words */
	bool lends;		   /* the port's driver can do with payload where it lies */
	uint8_t head[64];	   /* template up to the UDP header */
};

/* [worker] The next hop's MAC as a number; 0 while it is unknown, which is asked for. */
uint64_t sp_path_mac(struct sp_worker *w, struct sp_path *p);
/* Forgets a context's paths. */
void sp_paths_free(struct sp_context *c);

#endif
