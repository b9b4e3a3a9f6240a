/* SPDX-License-Identifier: BSD-3-Clause */
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>

#include "../handlers/wire/roce.h"
#include "fields.h"
#include "fields_table.h"

#define TAGS	   2 /* VLAN tags that the NIC accepts; further ones are payload */
#define EXTENSIONS 4 /* of IPv6, and options of neighbour discovery; further ones are payload */

#define AS_NAME(id, name, form, unit) name,
const char *const sp_field_names[] = {FIELDS(AS_NAME) NULL};
#define AS_FORM(id, name, form, unit) {SP_FIELD_##form, unit},
static const struct {
	uint8_t form, unit;
} kind[] = {FIELDS(AS_FORM)};

/* The parser: `at` advances, `end` shrinks when a header gives a length. */
struct reading {
	const uint8_t *frame;
	uint32_t at, end;
	struct sp_field *field;
	unsigned count;
};

static uint32_t left(const struct reading *r)
{
	return r->end - r->at;
}

static void put(struct reading *r, enum field_id id, uint32_t at, uint32_t len, unsigned shift, unsigned bits)
{
	/* At most 66 fields follow from the limits above (VLAN twice, IPv6 with four extensions, UDP, RoCEv2). */
	if (!len || r->count >= SP_FIELDS)
		return;
	r->field[r->count++] = (struct sp_field){.name = sp_field_names[id],
						 .id = (uint16_t)id,
						 .at = at,
						 .len = len,
						 .shift = (uint8_t)shift,
						 .bits = (uint8_t)bits,
						 .unit = kind[id].unit,
						 .form = kind[id].form};
}

static void take(struct reading *r, enum field_id id, uint32_t len)
{
	put(r, id, r->at, len, 0, 0);
	r->at += len;
}

/* Some bits of the next `len` bytes; the last field of these advances. */
static void bits(struct reading *r, enum field_id id, uint32_t len, unsigned shift, unsigned count)
{
	put(r, id, r->at, len, shift, count);
	if (!shift)
		r->at += len;
}

/* The end of the packet by a header's length; bytes after it are padding. */
static void shorten(struct reading *r, uint64_t end)
{
	if (end >= r->at && end < r->end)
		r->end = (uint32_t)end;
}

static void arp(struct reading *r)
{
	const uint8_t *p = r->frame + r->at;

	if (left(r) < 28 || memcmp(p, "\0\1\10\0\6\4", 6))
		return;
	shorten(r, r->at + 28);
	take(r, F_ARP_HW_TYPE, 2);
	take(r, F_ARP_PROTO_TYPE, 2);
	take(r, F_ARP_HW_SIZE, 1);
	take(r, F_ARP_PROTO_SIZE, 1);
	take(r, F_ARP_OPCODE, 2);
	take(r, F_ARP_SRC_MAC, 6);
	take(r, F_ARP_SRC_IP, 4);
	take(r, F_ARP_DST_MAC, 6);
	take(r, F_ARP_DST_IP, 4);
}

static void icmp(struct reading *r)
{
	const uint8_t type = left(r) ? r->frame[r->at] : 0;

	if (left(r) < 4)
		return;
	take(r, F_ICMP_TYPE, 1);
	take(r, F_ICMP_CODE, 1);
	take(r, F_ICMP_CHECKSUM, 2);
	if ((type == 0 || type == 8) && left(r) >= 4) {
		take(r, F_ICMP_IDENT, 2);
		take(r, F_ICMP_SEQ, 2);
	}
}

static void neighbour_options(struct reading *r)
{
	for (unsigned i = 0; i < EXTENSIONS && left(r) >= 8; i++) {
		const uint8_t type = r->frame[r->at];
		const uint32_t len = r->frame[r->at + 1] * 8u;

		if (!len || len > left(r))
			return;
		take(r, F_OPT_TYPE, 1);
		take(r, F_OPT_LEN, 1);
		take(r, (type == 1 || type == 2) && len == 8 ? F_OPT_MAC : F_OPT_DATA, len - 2);
	}
}

static void icmp6(struct reading *r)
{
	const uint8_t type = left(r) ? r->frame[r->at] : 0;

	if (left(r) < 4)
		return;
	take(r, F_ICMP6_TYPE, 1);
	take(r, F_ICMP6_CODE, 1);
	take(r, F_ICMP6_CHECKSUM, 2);
	if ((type == 128 || type == 129) && left(r) >= 4) {
		take(r, F_ICMP6_IDENT, 2);
		take(r, F_ICMP6_SEQ, 2);
	} else if (type == 133 && left(r) >= 4) { /* router solicitation */
		take(r, F_ICMP6_RESERVED, 4);
		neighbour_options(r);
	} else if (type == 135 && left(r) >= 20) {
		take(r, F_ICMP6_RESERVED, 4);
		take(r, F_NS_TARGET, 16);
		neighbour_options(r);
	} else if (type == 136 && left(r) >= 20) {
		bits(r, F_NA_R, 4, 31, 1);
		bits(r, F_NA_S, 4, 30, 1);
		bits(r, F_NA_O, 4, 29, 1);
		bits(r, F_NA_RSV, 4, 0, 29);
		take(r, F_NA_TARGET, 16);
		neighbour_options(r);
	}
}

static void tcp(struct reading *r)
{
	uint32_t header;

	if (left(r) < 20)
		return;
	header = (r->frame[r->at + 12] >> 4) * 4u;
	take(r, F_TCP_SRCPORT, 2);
	take(r, F_TCP_DSTPORT, 2);
	take(r, F_TCP_SEQ, 4);
	take(r, F_TCP_ACK, 4);
	bits(r, F_TCP_HDR_LEN, 2, 12, 4);
	bits(r, F_TCP_FLAGS, 2, 0, 12);
	take(r, F_TCP_WINDOW, 2);
	take(r, F_TCP_CHECKSUM, 2);
	take(r, F_TCP_URGENT, 2);
	if (header > 20 && header - 20 <= left(r))
		take(r, F_TCP_OPTIONS, header - 20);
}

/* ---- RoCEv2: which extension headers follow the BTH, by opcode, in their order (IBTA 1.4, table 35) ---- */
enum { DETH = 1, RETH = 2, ATOMIC = 4, AETH = 8, ATOMICACK = 16, IMM = 32, INVALIDATE = 64 };

static unsigned extensions(uint8_t opcode)
{
	static const uint8_t of[32] = {
		[SP_RC_SEND_LAST_IMM] = IMM,
		[SP_RC_SEND_ONLY_IMM] = IMM,
		[SP_RC_WRITE_FIRST] = RETH,
		[SP_RC_WRITE_LAST_IMM] = IMM,
		[SP_RC_WRITE_ONLY] = RETH,
		[SP_RC_WRITE_ONLY_IMM] = RETH | IMM,
		[SP_RC_READ_REQUEST] = RETH,
		[SP_RC_READ_RESPONSE_FIRST] = AETH,
		[SP_RC_READ_RESPONSE_LAST] = AETH,
		[SP_RC_READ_RESPONSE_ONLY] = AETH,
		[SP_RC_ACKNOWLEDGE] = AETH,
		[SP_RC_ATOMIC_ACKNOWLEDGE] = AETH | ATOMICACK,
		[SP_RC_COMPARE_SWAP] = ATOMIC,
		[SP_RC_FETCH_ADD] = ATOMIC,
		[SP_RC_SEND_LAST_INVALIDATE] = INVALIDATE,
		[SP_RC_SEND_ONLY_INVALIDATE] = INVALIDATE,
	};

	switch (SP_ROCE_TRANSPORT(opcode)) {
	case SP_ROCE_RC:
	case SP_ROCE_UC:
		return of[opcode & 31];
	case SP_ROCE_UD:
		return opcode == SP_UD_SEND_ONLY ? DETH : opcode == SP_UD_SEND_ONLY_IMM ? DETH | IMM : 0;
	default:
		return 0;
	}
}

static void extension_headers(struct reading *r, unsigned which)
{
	static const uint8_t bytes[] = {8, 16, 28, 4, 8, 4, 4};

	for (unsigned i = 0; i < sizeof(bytes); i++) {
		if (!(which & 1u << i))
			continue;
		if (left(r) < bytes[i])
			return;
		switch (1u << i) {
		case DETH:
			take(r, F_DETH_Q_KEY, 4);
			take(r, F_IB_RESERVED, 1);
			take(r, F_DETH_SRCQP, 3);
			break;
		case RETH:
		case ATOMIC:
			take(r, F_RETH_VA, 8);
			take(r, F_RETH_R_KEY, 4);
			if (1u << i == RETH) {
				take(r, F_RETH_DMALEN, 4);
				break;
			}
			take(r, F_ATOMIC_SWAPDT, 8);
			take(r, F_ATOMIC_CMPDT, 8);
			break;
		case AETH:
			take(r, F_AETH_SYNDROME, 1);
			take(r, F_AETH_MSN, 3);
			break;
		default:
			take(r, 1u << i == ATOMICACK ? F_ATOMIC_ACK : 1u << i == IMM ? F_IMMDT : F_IETH, bytes[i]);
		}
	}
}

static void roce(struct reading *r)
{
	uint32_t pad, end = r->end;
	uint8_t opcode;

	if (left(r) < sizeof(struct sp_bth) + SP_ROCE_ICRC_LEN)
		return;
	opcode = r->frame[r->at];
	pad = r->frame[r->at + 1] >> SP_BTH_PAD_SHIFT & 3;
	r->end -= SP_ROCE_ICRC_LEN;
	take(r, F_BTH_OPCODE, 1);
	bits(r, F_BTH_SE, 1, 7, 1);
	bits(r, F_BTH_M, 1, 6, 1);
	bits(r, F_BTH_PADCNT, 1, 4, 2);
	bits(r, F_BTH_TVER, 1, 0, 4);
	take(r, F_BTH_P_KEY, 2);
	take(r, F_IB_RESERVED, 1);
	take(r, F_BTH_DESTQP, 3);
	bits(r, F_BTH_A, 1, 7, 1);
	bits(r, F_BTH_RESERVED7, 1, 0, 7);
	take(r, F_BTH_PSN, 3);
	extension_headers(r, extensions(opcode));
	if (pad > left(r))
		pad = 0;
	take(r, F_PAYLOAD, left(r) - pad);
	take(r, F_IB_PAD, pad);
	r->end = end;
	take(r, F_ICRC, SP_ROCE_ICRC_LEN);
}

static void udp(struct reading *r, bool whole)
{
	uint16_t port, len;

	if (left(r) < 8)
		return;
	port = sp_load_be16(r->frame + r->at + 2);
	len = sp_load_be16(r->frame + r->at + 4);
	if (len >= 8)
		shorten(r, r->at + len);
	take(r, F_UDP_SRCPORT, 2);
	take(r, F_UDP_DSTPORT, 2);
	take(r, F_UDP_LENGTH, 2);
	take(r, F_UDP_CHECKSUM, 2);
	if (port == SP_ROCE_PORT && whole)
		roce(r);
}

/* whole: not a fragment. */
static void transport(struct reading *r, uint8_t protocol, bool ip6, bool whole)
{
	if (protocol == IPPROTO_UDP)
		udp(r, whole);
	else if (protocol == IPPROTO_TCP)
		tcp(r);
	else if (protocol == IPPROTO_ICMP && !ip6)
		icmp(r);
	else if (protocol == IPPROTO_ICMPV6 && ip6)
		icmp6(r);
}

static void ip4(struct reading *r)
{
	const uint8_t *p = r->frame + r->at;
	uint32_t header;
	uint16_t fragment;

	if (left(r) < 20 || p[0] >> 4 != 4)
		return;
	header = (p[0] & 15u) * 4;
	fragment = sp_load_be16(p + 6);
	if (sp_load_be16(p + 2) >= header && header >= 20)
		shorten(r, (uint64_t)r->at + sp_load_be16(p + 2));
	bits(r, F_IP_VERSION, 1, 4, 4);
	bits(r, F_IP_HDR_LEN, 1, 0, 4);
	take(r, F_IP_DSFIELD, 1);
	take(r, F_IP_LEN, 2);
	take(r, F_IP_ID, 2);
	bits(r, F_IP_RB, 1, 7, 1);
	bits(r, F_IP_DF, 1, 6, 1);
	bits(r, F_IP_MF, 1, 5, 1);
	bits(r, F_IP_FRAG_OFFSET, 2, 0, 13);
	take(r, F_IP_TTL, 1);
	take(r, F_IP_PROTO, 1);
	take(r, F_IP_CHECKSUM, 2);
	take(r, F_IP_SRC, 4);
	take(r, F_IP_DST, 4);
	if (header < 20 || header - 20 > left(r))
		return;
	take(r, F_IP_OPTIONS, header - 20);
	if (!(fragment & 0x1FFF))
		transport(r, p[9], false, !(fragment & 0x2000));
}

static void ip6(struct reading *r)
{
	const uint8_t *p = r->frame + r->at;
	bool whole = true;
	uint8_t next;

	if (left(r) < 40 || p[0] >> 4 != 6)
		return;
	next = p[6];
	shorten(r, (uint64_t)r->at + 40 + sp_load_be16(p + 4));
	bits(r, F_IP6_VERSION, 4, 28, 4);
	bits(r, F_IP6_TCLASS, 4, 20, 8);
	bits(r, F_IP6_FLOW, 4, 0, 20);
	take(r, F_IP6_PLEN, 2);
	take(r, F_IP6_NXT, 1);
	take(r, F_IP6_HLIM, 1);
	take(r, F_IP6_SRC, 16);
	take(r, F_IP6_DST, 16);
	for (unsigned i = 0; i < EXTENSIONS && (next == 0 || next == 43 || next == 44 || next == 60); i++) {
		if (left(r) < 8)
			return;
		p = r->frame + r->at;
		if (next == 44) {
			take(r, F_FRAG_NXT, 1);
			take(r, F_FRAG_RESERVED, 1);
			bits(r, F_FRAG_OFFSET, 2, 3, 13);
			bits(r, F_FRAG_BITS, 2, 1, 2);
			bits(r, F_FRAG_MORE, 2, 0, 1);
			take(r, F_FRAG_IDENT, 4);
			whole = whole && !(sp_load_be16(p + 2) & 0xFFF9);
			if (sp_load_be16(p + 2) & 0xFFF8)
				return;
		} else {
			if ((p[1] + 1u) * 8 > left(r))
				return;
			take(r, F_IP6_EXT_NXT, 1);
			take(r, F_IP6_EXT_LEN, 1);
			take(r, F_IP6_EXT_DATA, (p[1] + 1u) * 8 - 2);
		}
		next = p[0];
	}
	transport(r, next, true, whole);
}

static void ethernet(struct reading *r)
{
	uint16_t type;

	if (left(r) < 14)
		return;
	type = sp_load_be16(r->frame + 12);
	take(r, F_ETH_DST, 6);
	take(r, F_ETH_SRC, 6);
	take(r, type > 1500 ? F_ETH_TYPE : F_ETH_LEN, 2);
	for (unsigned i = 0; i < TAGS && (type == 0x8100 || type == 0x88A8) && left(r) >= 4; i++) {
		const bool ad = type == 0x88A8;

		type = sp_load_be16(r->frame + r->at + 2);
		bits(r, ad ? F_AD_PRIORITY : F_VLAN_PRIORITY, 2, 13, 3);
		bits(r, ad ? F_AD_DEI : F_VLAN_DEI, 2, 12, 1);
		bits(r, ad ? F_AD_ID : F_VLAN_ID, 2, 0, 12);
		take(r, ad ? F_AD_TYPE : F_VLAN_TYPE, 2);
	}
	if (type <= 1500)
		shorten(r, (uint64_t)r->at + type);
	else if (type == 0x0806)
		arp(r);
	else if (type == 0x0800)
		ip4(r);
	else if (type == 0x86DD)
		ip6(r);
}

unsigned sp_fields(const uint8_t *frame, uint32_t len, struct sp_field field[SP_FIELDS])
{
	struct reading r = {.frame = frame, .end = len, .field = field};

	ethernet(&r);
	take(&r, F_PAYLOAD, left(&r));
	r.end = len;
	take(&r, F_PADDING, left(&r));
	return r.count;
}
