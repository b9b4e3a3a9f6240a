/* SPDX-License-Identifier: BSD-3-Clause */
/* The full parser, layer by layer, for packets that parser_plain.h rejects; each fault has a drop reason. */
#include "parser.h"

#include "parser_plain.h"

enum {
	ETHERNET_LEN = 14,
	VLAN_LEN = 4,
	VLAN_TAGS = 2,
	IP4_LEN = 20,
	IP6_LEN = 40,
	IP6_EXTENSIONS = 8,					       /* limit of extension headers; IPv6 has none */
	IP6_HEADERS = UINT8_MAX - ETHERNET_LEN - VLAN_TAGS * VLAN_LEN, /* bytes of IPv6 header and extension headers */
	UDP_LEN = 8,
	BTH_LEN = sizeof(struct sp_bth),

	TYPE_IP4 = 0x0800,
	TYPE_IP6 = 0x86DD,
	TYPE_VLAN = 0x8100,
	TYPE_SERVICE_VLAN = 0x88A8,

	IP4_FRAGMENT = 0x3FFF, /* more-fragments flag and offset */
	IP4_OFFSET = 0x1FFF,
	IP6_OFFSET = 0xFFF8,
	IP6_LOOK = 64, /* extension headers that are looked through for RoCE */

	NEXT_HOP_BY_HOP = 0,
	NEXT_UDP = 17,
	NEXT_ROUTING = 43,
	NEXT_FRAGMENT = 44,
	NEXT_DESTINATION = 60,
};

#define REJECT(reason) (-1 - SP_DROP_##reason)

/* ---- hash: one or three multiplications ------------------------------------------------------------------------ */
#define HASH_3 0x8EBC6AF09C88C6E3u
#define HASH_4 0x589965CC75374CC3u

static inline uint64_t addresses6(const uint8_t *ip)
{
	return sp_hash_mix(sp_native64(ip + 8) ^ HASH_3, sp_native64(ip + 16) ^ HASH_4) ^
	       sp_hash_mix(sp_native64(ip + 24) ^ HASH_4, sp_native64(ip + 32) ^ SP_HASH_2);
}

/* For up to 15 words of 32 bits: no step leaves a carry behind. */
static inline uint32_t sum_fold(uint64_t sum)
{
	sum = (sum & 0xFFFFFFFF) + (sum >> 32);
	sum = (sum & 0xFFFF) + (sum >> 16 & 0xFFFF) + (sum >> 32);
	return (uint32_t)((sum & 0xFFFF) + (sum >> 16));
}

/* ---- layers; p->data and p->len are those of the layer -------------------------------- */
static inline void advance(struct sp_packet *p, uint32_t bytes)
{
	p->data += bytes;
	p->len -= bytes;
}

static int parse_bth(struct sp_packet *p)
{
	if (p->len < BTH_LEN + SP_ROCE_ICRC_LEN)
		return REJECT(SHORT_BTH);
	const struct sp_bth *bth = (const struct sp_bth *)p->data;
	uint32_t pad = (bth->flags & SP_BTH_PAD_MASK) >> SP_BTH_PAD_SHIFT;

	if (bth->flags & SP_BTH_TVER_MASK)
		return REJECT(BAD_BTH);
	if (p->len < BTH_LEN + SP_ROCE_ICRC_LEN + pad)
		return REJECT(BAD_PAD);
	p->opcode = bth->opcode;
	p->dest_qp = sp_load_be24(bth->dest_qp);
	p->psn = sp_load_be24(bth->psn);
	p->flags |= SP_PKT_ROCE | (bth->flags & SP_BTH_SE ? SP_PKT_SE : 0);
	advance(p, BTH_LEN);
	p->len -= pad + SP_ROCE_ICRC_LEN;
	return SP_PARSED_ROCE;
}

/* Parses UDP in an unfragmented IP packet; addresses: their part of the hash. */
static int parse_l4(struct sp_packet *p, uint8_t protocol, uint64_t addresses)
{
	uint32_t ports, udp_len;

	p->l4 = (uint8_t)(p->data - p->frame);
	if (protocol != NEXT_UDP) {
		p->hash = sp_hash_flow(addresses, 0, protocol);
		return SP_PARSED_IP;
	}
	if (p->len < UDP_LEN)
		return REJECT(SHORT_UDP);
	bool roce = sp_load_be16(p->data + 2) == SP_ROCE_PORT;

	udp_len = sp_load_be16(p->data + 4);
	if (udp_len < UDP_LEN || udp_len > p->len || (roce && udp_len != p->len))
		return REJECT(BAD_UDP_LENGTH);
	memcpy(&ports, p->data, sizeof(ports));
	p->hash = sp_hash_flow(addresses, ports, protocol);
	p->flags |= SP_PKT_UDP;
	p->len = udp_len;
	advance(p, UDP_LEN);
	return roce ? parse_bth(p) : SP_PARSED_UDP;
}

static int parse_ip4(struct sp_packet *p)
{
	const uint8_t *ip = p->data;
	uint64_t sum = 0;

	if (p->len < IP4_LEN)
		return REJECT(SHORT_IP);
	uint32_t header = (ip[0] & 15u) * 4, total = sp_load_be16(ip + 2);

	if (ip[0] >> 4 != 4 || header < IP4_LEN)
		return REJECT(BAD_IP_HEADER);
	if (p->len < header)
		return REJECT(SHORT_IP);
	for (uint32_t i = 0; i < header; i += 4)
		sum += sp_load_be32(ip + i);
	if (sum_fold(sum) != 0xFFFF)
		return REJECT(BAD_IP_CHECKSUM);
	if (total < header || total > p->len)
		return REJECT(BAD_IP_LENGTH);
	p->len = total; /* drops Ethernet's padding */
	advance(p, header);
	if (sp_load_be16(ip + 6) & IP4_FRAGMENT) {
		p->hash = sp_hash_flow(sp_addresses4(ip), 0, ip[9]);
		return SP_PARSED_IP;
	}
	return parse_l4(p, ip[9], sp_addresses4(ip));
}

/* ::ffff:a.b.c.d, under which the NIC keeps the IPv4 address. On a wire nobody has it (RFC 6890, table 20): taken from
 * there, it would pass for a.b.c.d wherever addresses of 16 bytes are compared. */
static bool is_mapped(const uint8_t *ip)
{
	return !sp_native64(ip) && sp_load_be32(ip + 8) == 0xFFFF;
}

static inline bool is_extension(uint8_t next)
{
	return next == NEXT_HOP_BY_HOP || next == NEXT_ROUTING || next == NEXT_DESTINATION || next == NEXT_FRAGMENT;
}

static int parse_ip6(struct sp_packet *p)
{
	const uint8_t *ip = p->data;

	if (p->len < IP6_LEN)
		return REJECT(SHORT_IP);
	if (ip[0] >> 4 != 6)
		return REJECT(BAD_IP_HEADER);
	uint32_t payload = sp_load_be16(ip + 4);
	uint8_t next = ip[6];

	if (payload > p->len - IP6_LEN)
		return REJECT(BAD_IP_LENGTH);
	if (is_mapped(ip + 8) || is_mapped(ip + 24))
		return REJECT(MAPPED_ADDRESS);
	p->flags |= SP_PKT_IPV6;
	advance(p, IP6_LEN);
	p->len = payload;
	for (unsigned i = 0; next == NEXT_HOP_BY_HOP || next == NEXT_ROUTING || next == NEXT_DESTINATION; i++) {
		/* p->len excludes the headers, as in IPv4. */
		if (p->len < 8 || p->len < (p->data[1] + 1u) * 8)
			return REJECT(BAD_IP_LENGTH);
		uint32_t bytes = (p->data[1] + 1u) * 8;
		/* Such chains do not occur, and p->l4 has 8 bits: treat it as IP without a usable upper header, with or
		 * without tags. */
		if (i == IP6_EXTENSIONS || p->data - p->frame - p->l3 + bytes > IP6_HEADERS)
			break;
		next = p->data[0];
		advance(p, bytes);
	}
	if (is_extension(next)) {
		p->hash = sp_hash_flow(addresses6(ip), 0, next);
		return SP_PARSED_IP;
	}
	return parse_l4(p, next, addresses6(ip));
}

static inline bool is_roce_port(const uint8_t *udp, uint32_t len)
{
	return len >= 4 && sp_load_be16(udp + 2) == SP_ROCE_PORT;
}

/* Only the first fragment has ports; without it nothing can be put together. */
bool sp_parse_hidden_roce(const struct sp_packet *p)
{
	const uint8_t *ip = p->frame + p->l3, *at = ip + IP6_LEN, *end = p->data + p->len;
	uint8_t next = ip[6];

	if (!(p->flags & SP_PKT_IPV6))
		return ip[9] == NEXT_UDP && !(sp_load_be16(ip + 6) & IP4_OFFSET) && is_roce_port(p->data, p->len);
	for (unsigned i = 0; i < IP6_LOOK; i++) {
		if (!is_extension(next))
			return next == NEXT_UDP && is_roce_port(at, (uint32_t)(end - at));
		const bool fragment = next == NEXT_FRAGMENT;

		if (end - at < 8 || (fragment && sp_load_be16(at + 2) & IP6_OFFSET))
			return false;
		const uint32_t bytes = fragment ? 8 : (at[1] + 1u) * 8;

		if ((uint32_t)(end - at) < bytes)
			return false;
		next = at[0];
		at += bytes;
	}
	return true;
}

int sp_parse_layers(uint8_t *frame, uint32_t frame_len, struct sp_packet *p, uint16_t *ethertype)
{
	uint16_t type;

	p->data = p->frame = frame;
	p->len = p->frame_len = frame_len;
	p->verdict = SP_DONE;
	p->dest_qp = p->psn = p->hash = 0;
	p->opcode = p->flags = p->l3 = p->l4 = 0;
	p->qp_index = 0;
	*ethertype = 0;
	if (frame_len < ETHERNET_LEN)
		return REJECT(SHORT_ETHERNET);
	type = sp_load_be16(frame + 12);
	advance(p, ETHERNET_LEN);
	for (unsigned i = 0; i < VLAN_TAGS && (type == TYPE_VLAN || type == TYPE_SERVICE_VLAN); i++) {
		if (p->len < VLAN_LEN)
			return REJECT(SHORT_ETHERNET);
		type = sp_load_be16(p->data + 2);
		advance(p, VLAN_LEN);
	}
	p->l3 = (uint8_t)(p->data - frame);
	*ethertype = type;
	if (type == TYPE_IP4)
		return parse_ip4(p);
	if (type == TYPE_IP6)
		return parse_ip6(p);
	return SP_PARSED_OTHER;
}

int sp_parse(uint8_t *frame, uint32_t frame_len, struct sp_packet *p, uint16_t *ethertype)
{
	if (__builtin_expect(sp_parse_plain(frame, frame_len, p), 1)) {
		p->hash = sp_plain_hash(frame);
		*ethertype = TYPE_IP4;
		return SP_PARSED_ROCE;
	}
	return sp_parse_layers(frame, frame_len, p, ethertype);
}
