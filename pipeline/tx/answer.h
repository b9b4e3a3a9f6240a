/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets for the NIC itself: ARP, neighbour discovery, ICMP and ICMPv6 echo for its own addresses. */
#ifndef PIPELINE_TX_ANSWER_H
#define PIPELINE_TX_ANSWER_H

#include "../frame/parser.h"

struct sp_worker;

/* Answers (through sp_transmit_frame) or learns from the packet; true: the packet is consumed. parsed and ethertype
 * come from sp_parse; p->port received the packet, and sends the answer. */
bool sp_local_answer(struct sp_worker *w, struct sp_packet *p, int parsed, uint16_t ethertype);

#endif
