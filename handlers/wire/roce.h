/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RoCEv2 on the wire (InfiniBand Architecture Specification 1.4, volume 1, chapter 9 and annex A17):
 *   Ethernet | IPv4 or IPv6 | UDP, destination port 4791 | BTH | extension headers | payload | pad | ICRC
 * All numbers are big-endian but the ICRC, which is little-endian. The structs consist of bytes, so they may lie at any
 * address, and no field is read in the wrong byte order by mistake: use sp_load_be*() and sp_store_be*().
 */
#ifndef SPINDLE_WIRE_ROCE_H
#define SPINDLE_WIRE_ROCE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SP_ROCE_PORT	       4791u /* UDP destination port */
#define SP_ROCE_ICRC_LEN       4u
#define SP_ROCE_PKEY	       0xFFFFu /* default partition, full member */
#define SP_ROCE_MTU_DEFAULT    1024u
#define SP_ROCE_MTU_MAX	       4096u
#define SP_ROCE_QP_MASK	       0xFFFFFFu
#define SP_ROCE_PSN_MASK       0xFFFFFFu
#define SP_ROCE_QP_SMI	       0u	 /* subnet management: not used by RoCE */
#define SP_ROCE_QP_GSI	       1u	 /* general services (connection manager) */
#define SP_ROCE_QP_MULTICAST   0xFFFFFFu /* destination of multicasts */
#define SP_ROCE_UDP_SOURCE_MIN 0xC000u	 /* source ports carry 14 bits of entropy */

/* ---- unaligned big-endian access ---- */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define SP_BE(bits, v) __builtin_bswap##bits(v)
#else
#define SP_BE(bits, v) ((uint##bits##_t)(v))
#endif
#define SP_BE_ACCESS(bits)                                                                                             \
	static inline uint##bits##_t sp_load_be##bits(const void *from)                                                \
	{                                                                                                              \
		uint##bits##_t v;                                                                                      \
		memcpy(&v, from, sizeof(v));                                                                           \
		return SP_BE(bits, v);                                                                                 \
	}                                                                                                              \
	static inline void sp_store_be##bits(void *to, uint##bits##_t v)                                               \
	{                                                                                                              \
		v = SP_BE(bits, v);                                                                                    \
		memcpy(to, &v, sizeof(v));                                                                             \
	}
SP_BE_ACCESS(16)
SP_BE_ACCESS(32)
SP_BE_ACCESS(64)

static inline uint32_t sp_load_be24(const void *from)
{
	const uint8_t *b = (const uint8_t *)from;

	return (uint32_t)b[0] << 16 | (uint32_t)b[1] << 8 | b[2];
}

/* In the ICRC's byte order. */
static inline uint32_t sp_load_le32(const void *from)
{
	return __builtin_bswap32(sp_load_be32(from));
}

static inline void sp_store_le32(void *to, uint32_t v)
{
	sp_store_be32(to, __builtin_bswap32(v));
}

/* ---- base transport header ---- */
struct sp_bth {
	uint8_t opcode; /* enum sp_roce_opcode */
	uint8_t flags;	/* SP_BTH_* */
	uint8_t pkey[2];
	uint8_t resv8a;	    /* FECN, BECN, reserved: all ones for the ICRC */
	uint8_t dest_qp[3]; /* destination QP */
	uint8_t ack_req;    /* SP_BTH_ACK_REQ, rest reserved */
	uint8_t psn[3];	    /* packet sequence number */
};
static_assert(sizeof(struct sp_bth) == 12, "BTH");
static_assert(offsetof(struct sp_bth, dest_qp) == 5 && offsetof(struct sp_bth, psn) == 9, "BTH");

enum sp_bth_flags {
	SP_BTH_SE = 0x80,	/* solicited event */
	SP_BTH_MIGRATED = 0x40, /* path migration: without meaning on RoCE, some NICs set it */
	SP_BTH_PAD_MASK = 0x30, /* bytes of pad that make the payload a multiple of 4 */
	SP_BTH_PAD_SHIFT = 4,
	SP_BTH_TVER_MASK = 0x0F, /* transport version: 0 */
	SP_BTH_ACK_REQ = 0x80,	 /* in ack_req */
	SP_BTH_FECN = 0x80,	 /* in resv8a */
	SP_BTH_BECN = 0x40,	 /* in resv8a */
};

/* False for QP numbers that no context can have: management's, and the multicast destination. qp: 24 bits or more. */
static inline bool sp_roce_qp_valid(uint32_t qp)
{
	return qp > SP_ROCE_QP_GSI && qp < SP_ROCE_QP_MULTICAST;
}

/* The top three bits are the transport. 0xC0-0xFF are manufacturer-specific. */
enum sp_roce_opcode {
	SP_RC_SEND_FIRST = 0x00,
	SP_RC_SEND_MIDDLE = 0x01,
	SP_RC_SEND_LAST = 0x02,
	SP_RC_SEND_LAST_IMM = 0x03,
	SP_RC_SEND_ONLY = 0x04,
	SP_RC_SEND_ONLY_IMM = 0x05,
	SP_RC_WRITE_FIRST = 0x06,
	SP_RC_WRITE_MIDDLE = 0x07,
	SP_RC_WRITE_LAST = 0x08,
	SP_RC_WRITE_LAST_IMM = 0x09,
	SP_RC_WRITE_ONLY = 0x0A,
	SP_RC_WRITE_ONLY_IMM = 0x0B,
	SP_RC_READ_REQUEST = 0x0C,
	SP_RC_READ_RESPONSE_FIRST = 0x0D,
	SP_RC_READ_RESPONSE_MIDDLE = 0x0E,
	SP_RC_READ_RESPONSE_LAST = 0x0F,
	SP_RC_READ_RESPONSE_ONLY = 0x10,
	SP_RC_ACKNOWLEDGE = 0x11,
	SP_RC_ATOMIC_ACKNOWLEDGE = 0x12,
	SP_RC_COMPARE_SWAP = 0x13,
	SP_RC_FETCH_ADD = 0x14,
	SP_RC_SEND_LAST_INVALIDATE = 0x16,
	SP_RC_SEND_ONLY_INVALIDATE = 0x17,
	SP_UC_SEND_FIRST = 0x20,
	SP_UC_SEND_MIDDLE = 0x21,
	SP_UC_SEND_LAST = 0x22,
	SP_UC_SEND_LAST_IMM = 0x23,
	SP_UC_SEND_ONLY = 0x24,
	SP_UC_SEND_ONLY_IMM = 0x25,
	SP_UC_WRITE_FIRST = 0x26,
	SP_UC_WRITE_MIDDLE = 0x27,
	SP_UC_WRITE_LAST = 0x28,
	SP_UC_WRITE_LAST_IMM = 0x29,
	SP_UC_WRITE_ONLY = 0x2A,
	SP_UC_WRITE_ONLY_IMM = 0x2B, /* BTH, RETH, ImmDt, payload */
	SP_UD_SEND_ONLY = 0x64,	     /* BTH, DETH, payload */
	SP_UD_SEND_ONLY_IMM = 0x65,
	SP_ROCE_CNP = 0x81, /* congestion notification */
	SP_ROCE_MANUFACTURER_FIRST = 0xC0,
	SP_ROCE_MANUFACTURER_LAST = 0xFF,
};
#define SP_ROCE_TRANSPORT(opcode) ((uint8_t)(opcode)&0xE0)
enum sp_roce_transport { SP_ROCE_RC = 0x00, SP_ROCE_UC = 0x20, SP_ROCE_RD = 0x40, SP_ROCE_UD = 0x60 };

/* ---- extension headers, in the order in which they follow the BTH ---- */
struct sp_deth { /* datagram */
	uint8_t qkey[4];
	uint8_t reserved;
	uint8_t source_qp[3];
};
static_assert(sizeof(struct sp_deth) == 8 && offsetof(struct sp_deth, source_qp) == 5, "DETH");

struct sp_reth { /* RDMA */
	uint8_t va[8];
	uint8_t rkey[4];
	uint8_t dma_len[4]; /* bytes of the whole message */
};
static_assert(sizeof(struct sp_reth) == 16, "RETH");
static_assert(offsetof(struct sp_reth, rkey) == 8 && offsetof(struct sp_reth, dma_len) == 12, "RETH");

struct sp_immdt {
	uint8_t imm[4];
};
static_assert(sizeof(struct sp_immdt) == 4, "ImmDt");

struct sp_aeth { /* acknowledge */
	uint8_t syndrome;
	uint8_t msn[3]; /* message sequence number */
};
static_assert(sizeof(struct sp_aeth) == 4 && offsetof(struct sp_aeth, msn) == 1, "AETH");

/* What follows the BTH of SP_UC_WRITE_ONLY_IMM. */
struct sp_write_imm {
	struct sp_reth reth;
	struct sp_immdt immdt;
};
static_assert(sizeof(struct sp_write_imm) == 20 && offsetof(struct sp_write_imm, immdt) == 16, "RETH, ImmDt");

#endif
