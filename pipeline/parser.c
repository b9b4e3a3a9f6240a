/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two ways through. parse_plain_roce() knows one layout (no tag, IPv4 without options, RoCEv2), reads all of it at
 * fixed offsets and only ever says yes: one test for everything that could be wrong. Whatever it does not take walks
 * through parse_ethernet() and its layers, which give the same answer for those frames and know the name of every
 * fault.
 */
#include "parser.h"

#include "../handlers/wire/roce.h"

enum {
	ETHERNET_LEN = 14,
	VLAN_LEN = 4,
	VLAN_TAGS = 2,
	IP4_LEN = 20,
	IP6_LEN = 40,
	IP6_EXTENSIONS = 8, /* extension headers looked at; IPv6 itself has no bound */
	UDP_LEN = 8,
	BTH_LEN = sizeof(struct sp_bth),

	TYPE_IP4 = 0x0800,
	TYPE_IP6 = 0x86DD,
	TYPE_VLAN = 0x8100,
	TYPE_SERVICE_VLAN = 0x88A8,

	IP4_FRAGMENT = 0x3FFF, /* more fragments, and the offset */

	NEXT_HOP_BY_HOP = 0,
	NEXT_UDP = 17,
	NEXT_ROUTING = 43,
	NEXT_FRAGMENT = 44,
	NEXT_DESTINATION = 60,
};

#define REJECT(reason) (-1 - SP_DROP_##reason)

/* ---- hash: one or three multiplications of 64 by 64 bits, halves folded --------------------------------------- */
#define HASH_1 0xA0761D6478BD642Fu
#define HASH_2 0xE7037ED1A0B428DBu
#define HASH_3 0x8EBC6AF09C88C6E3u
#define HASH_4 0x589965CC75374CC3u

static inline uint64_t native64(const uint8_t *b)
{
	uint64_t v;

	memcpy(&v, b, sizeof(v));
	return v;
}

static inline uint64_t mix(uint64_t a, uint64_t b)
{
	__uint128_t m = (__uint128_t)a * b;

	return (uint64_t)m ^ (uint64_t)(m >> 64);
}

static inline uint32_t hash_finish(uint64_t addresses, uint32_t ports, uint8_t protocol)
{
	uint64_t h = mix(addresses ^ HASH_1, ((uint64_t)protocol << 32 | ports) ^ HASH_2);

	return (uint32_t)(h ^ h >> 32);
}

/* Both addresses of IPv4: 64 bits as they are. */
static inline uint64_t addresses4(const uint8_t *ip)
{
	return native64(ip + 12);
}

static inline uint64_t addresses6(const uint8_t *ip)
{
	return mix(native64(ip + 8) ^ HASH_3, native64(ip + 16) ^ HASH_4) ^
	       mix(native64(ip + 24) ^ HASH_4, native64(ip + 32) ^ HASH_2);
}

/* ---- the common case ------------------------------------------------------------------------------------------ */
enum {
	PLAIN_IP = ETHERNET_LEN,
	PLAIN_UDP = PLAIN_IP + IP4_LEN,
	PLAIN_BTH = PLAIN_UDP + UDP_LEN,
	PLAIN_DATA = PLAIN_BTH + BTH_LEN,
	PLAIN_MIN = PLAIN_DATA + SP_ROCE_ICRC_LEN,
};

/* Up to 15 words of 32 bits: no step leaves a carry that the next does not take in. */
static inline uint32_t sum_fold(uint64_t sum)
{
	sum = (sum & 0xFFFFFFFF) + (sum >> 32);
	sum = (sum & 0xFFFF) + (sum >> 16 & 0xFFFF) + (sum >> 32);
	return (uint32_t)((sum & 0xFFFF) + (sum >> 16));
}

/* Ones' complement sums fold from any word size and do not mind the byte order: five loads in place of ten. */
static inline uint32_t checksum_plain(const uint8_t *ip)
{
	uint64_t a = native64(ip), b = native64(ip + 8);
	uint32_t c;

	memcpy(&c, ip + 16, sizeof(c));
	return sum_fold((a & 0xFFFFFFFF) + (a >> 32) + (b & 0xFFFFFFFF) + (b >> 32) + c);
}

static inline bool parse_plain_roce(uint8_t *f, uint32_t frame_len, struct sp_packet *p)
{
	if (frame_len < PLAIN_MIN)
		return false;
	const struct sp_bth *bth = (const struct sp_bth *)(f + PLAIN_BTH);
	uint32_t total = sp_load_be16(f + PLAIN_IP + 2), udp_len = sp_load_be16(f + PLAIN_UDP + 4);
	uint32_t pad = (bth->flags & SP_BTH_PAD_MASK) >> SP_BTH_PAD_SHIFT;
	/* Differences, OR-ed: one branch, which is always taken the same way. */
	uint32_t bad = (sp_load_be32(f + 12) >> 8) ^ (TYPE_IP4 << 8 | 0x45);

	bad |= sp_load_be16(f + PLAIN_IP + 6) & IP4_FRAGMENT;
	bad |= f[PLAIN_IP + 9] ^ NEXT_UDP;
	bad |= sp_load_be16(f + PLAIN_UDP + 2) ^ SP_ROCE_PORT;
	bad |= udp_len ^ (total - IP4_LEN);
	bad |= bth->flags & SP_BTH_TVER_MASK;
	bad |= checksum_plain(f + PLAIN_IP) ^ 0xFFFF;
	bad |= total > frame_len - ETHERNET_LEN;
	bad |= total < PLAIN_MIN - ETHERNET_LEN + pad;
	if (__builtin_expect(bad != 0, 0))
		return false;
	p->data = f + PLAIN_DATA;
	p->len = total - (PLAIN_MIN - ETHERNET_LEN) - pad;
	p->verdict = SP_DONE;
	p->dest_qp = sp_load_be32(&bth->resv8a) & SP_ROCE_QP_MASK;
	p->psn = sp_load_be32(&bth->ack_req) & SP_ROCE_PSN_MASK;
	p->opcode = bth->opcode;
	p->flags = SP_PKT_ROCE | SP_PKT_UDP | (bth->flags & SP_BTH_SE ? SP_PKT_SE : 0);
	p->frame_len = frame_len;
	p->frame = f;
	p->l3 = PLAIN_IP;
	p->l4 = PLAIN_UDP;
	uint32_t ports;
	memcpy(&ports, f + PLAIN_UDP, sizeof(ports));
	p->hash = hash_finish(addresses4(f + PLAIN_IP), ports, NEXT_UDP);
	return true;
}

/* ---- everything else; each layer has p->data and p->len set to what is its own -------------------------------- */
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

/* A protocol inside IP that is not a fragment; addresses: what the hash makes of them. */
static int parse_l4(struct sp_packet *p, uint8_t protocol, uint64_t addresses)
{
	uint32_t ports, udp_len;

	p->l4 = (uint8_t)(p->data - p->frame);
	if (protocol != NEXT_UDP) {
		p->hash = hash_finish(addresses, 0, protocol);
		return SP_PARSED_IP;
	}
	if (p->len < UDP_LEN)
		return REJECT(SHORT_UDP);
	bool roce = sp_load_be16(p->data + 2) == SP_ROCE_PORT;

	udp_len = sp_load_be16(p->data + 4);
	if (udp_len < UDP_LEN || udp_len > p->len || (roce && udp_len != p->len))
		return REJECT(BAD_UDP_LENGTH);
	memcpy(&ports, p->data, sizeof(ports));
	p->hash = hash_finish(addresses, ports, protocol);
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
	p->len = total; /* what is behind is Ethernet's padding */
	advance(p, header);
	if (sp_load_be16(ip + 6) & IP4_FRAGMENT) {
		p->hash = hash_finish(addresses4(ip), 0, ip[9]);
		return SP_PARSED_IP;
	}
	return parse_l4(p, ip[9], addresses4(ip));
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
	p->flags |= SP_PKT_IPV6;
	advance(p, IP6_LEN);
	p->len = payload;
	for (unsigned i = 0; next == NEXT_HOP_BY_HOP || next == NEXT_ROUTING || next == NEXT_DESTINATION; i++) {
		/* The packet's length is below that of its headers, as in IPv4. */
		if (p->len < 8 || p->len < (p->data[1] + 1u) * 8)
			return REJECT(BAD_IP_LENGTH);
		uint32_t bytes = (p->data[1] + 1u) * 8;
		/* Nobody sends such chains, and p->l4 has 8 bits: IP without a usable header above it. */
		if (i == IP6_EXTENSIONS || p->data - p->frame + bytes > UINT8_MAX)
			break;
		next = p->data[0];
		advance(p, bytes);
	}
	if (next == NEXT_HOP_BY_HOP || next == NEXT_ROUTING || next == NEXT_DESTINATION || next == NEXT_FRAGMENT) {
		p->hash = hash_finish(addresses6(ip), 0, next);
		return SP_PARSED_IP;
	}
	return parse_l4(p, next, addresses6(ip));
}

static __attribute__((noinline)) int parse_ethernet(uint8_t *frame, uint32_t frame_len, struct sp_packet *p,
						    uint16_t *ethertype)
{
	uint16_t type;

	p->data = p->frame = frame;
	p->len = p->frame_len = frame_len;
	p->verdict = SP_DONE;
	p->dest_qp = p->psn = p->hash = 0;
	p->opcode = p->flags = p->l3 = p->l4 = 0;
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
	if (__builtin_expect(parse_plain_roce(frame, frame_len, p), 1)) {
		*ethertype = TYPE_IP4;
		return SP_PARSED_ROCE;
	}
	return parse_ethernet(frame, frame_len, p, ethertype);
}
