/* SPDX-License-Identifier: BSD-3-Clause */
/* The one place where lengths from the wire are checked; everything behind it may trust struct sp_packet. */
#ifndef PIPELINE_PARSER_H
#define PIPELINE_PARSER_H

#include "../handlers/spindle-handler.h"
#include "drop.h"

/* What a frame is, as far as the parser went. */
enum sp_parsed {
	SP_PARSED_OTHER, /* Ethernet, but neither IPv4 nor IPv6 (ARP, ...): only frame, frame_len; l3 is the offset of
			    what follows the last tag, data/len the same */
	SP_PARSED_IP,	 /* IP without a usable UDP header: other protocol, fragment; data after the IP header(s) */
	SP_PARSED_UDP,	 /* UDP, data after the UDP header */
	SP_PARSED_ROCE,	 /* UDP port 4791 with a valid BTH: data after BTH, ICRC not yet checked */
};

/*
 * Fills p from a linear frame. Sets every field except key, port, buf; qp_index to 0. Returns an sp_parsed, or -1 -
 * reason (enum sp_drop) for a malformed frame. *ethertype gets the type after the tags (host order). The UDP checksum
 * is not verified: RoCEv2 has the ICRC, and ports verify the others.
 */
int sp_parse(uint8_t *frame, uint32_t frame_len, struct sp_packet *p, uint16_t *ethertype);
/* The same without the short way of parser_plain.h, for who has tried that one already. */
int sp_parse_layers(uint8_t *frame, uint32_t frame_len, struct sp_packet *p, uint16_t *ethertype);

static inline const uint8_t *sp_packet_source(const struct sp_packet *p) /* 4 or 16 bytes; IP packets only */
{
	return p->frame + p->l3 + (p->flags & SP_PKT_IPV6 ? 8 : 12);
}
static inline const uint8_t *sp_packet_destination(const struct sp_packet *p)
{
	return p->frame + p->l3 + (p->flags & SP_PKT_IPV6 ? 24 : 16);
}

#endif
