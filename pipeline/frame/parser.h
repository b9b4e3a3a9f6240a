/* SPDX-License-Identifier: BSD-3-Clause */
/* All lengths from the wire are checked here; later code may trust struct sp_packet. */
#ifndef PIPELINE_FRAME_PARSER_H
#define PIPELINE_FRAME_PARSER_H

#include "../../handlers/spindle-handler.h"
#include "../drop.h"

/* Result of the parser. */
enum sp_parsed {
	SP_PARSED_OTHER, /* Ethernet, but not IPv4 or IPv6 (ARP, ...): only frame and frame_len are set; l3, data and
			    len start after the last tag */
	SP_PARSED_IP,	 /* IP without a usable UDP header (other protocol, fragment); data after the IP headers */
	SP_PARSED_UDP,	 /* UDP, data after the UDP header */
	SP_PARSED_ROCE,	 /* UDP port 4791 with a valid BTH: data after BTH, ICRC not yet checked */
};

/* Fills p from a linear frame. Sets all fields except key, port and buf; qp_index is 0. Returns an sp_parsed, or -1 -
 * reason (enum sp_drop) for a malformed frame. *ethertype: the type after the tags (host order). The UDP checksum is
 * not verified: RoCEv2 has the ICRC, and ports check other packets. */
int sp_parse(uint8_t *frame, uint32_t frame_len, struct sp_packet *p, uint16_t *ethertype);
/* The same without the fast path of parser_plain.h, for callers that have tried it. */
int sp_parse_layers(uint8_t *frame, uint32_t frame_len, struct sp_packet *p, uint16_t *ethertype);

/* Of an SP_PARSED_IP packet without l4: would whoever puts it together, as the kernel does, find UDP port 4791? Or does
 * it have more extension headers than anybody looks through? */
bool sp_parse_hidden_roce(const struct sp_packet *p);

static inline const uint8_t *sp_packet_source(const struct sp_packet *p) /* 4 or 16 bytes; IP packets only */
{
	return p->frame + p->l3 + (p->flags & SP_PKT_IPV6 ? 8 : 12);
}
static inline const uint8_t *sp_packet_destination(const struct sp_packet *p)
{
	return p->frame + p->l3 + (p->flags & SP_PKT_IPV6 ? 24 : 16);
}

#endif
