/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets for the NIC itself: ARP, neighbour discovery, ICMP and ICMPv6 echo for its own addresses. */
#ifndef PIPELINE_LOCAL_H
#define PIPELINE_LOCAL_H

#include "parser.h"

struct sp_worker;

/* Answers (through sp_transmit_frame) or learns from the packet; true: it was for the NIC and is finished with.
 * parsed and ethertype are what sp_parse returned. p->port is where it came by, and where the answer goes. */
bool sp_local_answer(struct sp_worker *w, struct sp_packet *p, int parsed, uint16_t ethertype);

#endif
