/* SPDX-License-Identifier: BSD-3-Clause */
/* Fast path of the parser: RoCEv2 over IPv4 without VLAN tag, options or fragments. Inlined into the loop over a burst;
 * reads at fixed offsets, and only accepts. Rejected frames go to sp_parse_layers(), which gives the same result for
 * accepted ones, and finds the reason for each drop. */
#ifndef PIPELINE_FRAME_PARSER_PLAIN_H
#define PIPELINE_FRAME_PARSER_PLAIN_H

#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "../../handlers/spindle-handler.h"
#include "../../handlers/wire/roce.h"

enum {
	SP_PLAIN_TYPE = 0x0800,
	SP_PLAIN_IP = 14,
	SP_PLAIN_UDP = SP_PLAIN_IP + 20,
	SP_PLAIN_BTH = SP_PLAIN_UDP + 8,
	SP_PLAIN_DATA = SP_PLAIN_BTH + 12,
	SP_PLAIN_MIN = SP_PLAIN_DATA + SP_ROCE_ICRC_LEN,
};

/* ---- used by both parsers ----------------------------------------------------------------------------
 */
#define SP_NATIVE(bits)                                                                                                \
	static inline uint##bits##_t sp_native##bits(const uint8_t *from)                                              \
	{                                                                                                              \
		uint##bits##_t v;                                                                                      \
		memcpy(&v, from, sizeof(v));                                                                           \
		return v;                                                                                              \
	}
SP_NATIVE(32)
SP_NATIVE(64)

/* Flow hash: multiply 64 by 64 bits, then fold the halves. */
#define SP_HASH_1 0xA0761D6478BD642Fu
#define SP_HASH_2 0xE7037ED1A0B428DBu

static inline uint64_t sp_hash_mix(uint64_t a, uint64_t b)
{
	const __uint128_t m = (__uint128_t)a * b;

	return (uint64_t)m ^ (uint64_t)(m >> 64);
}

static inline uint32_t sp_hash_flow(uint64_t addresses, uint32_t ports, uint8_t protocol)
{
	const uint64_t h = sp_hash_mix(addresses ^ SP_HASH_1, ((uint64_t)protocol << 32 | ports) ^ SP_HASH_2);

	return (uint32_t)(h ^ h >> 32);
}

/* Both IPv4 addresses as 64 bits. */
static inline uint64_t sp_addresses4(const uint8_t *ip)
{
	return sp_native64(ip + 12);
}

/* ---- the frame ----------------------------------------------------------------------------------------------------
 */
/* True if the header checksum is right. A ones' complement sum does not depend on the word size, and the version is not
 * 0: so the sum of 64-bit words with end-around carry must be a multiple of 0xFFFF. Then its product with the inverse
 * of 0xFFFF is small. */
static inline bool sp_checksum4_right(const uint8_t *ip)
{
	const uint64_t inverse = 0xFFFEFFFEFFFEFFFFu; /* times 0xFFFF is 1 */
	uint64_t sum = sp_native64(ip);
	bool carry;

	static_assert(0xFFFEFFFEFFFEFFFFu * (uint64_t)0xFFFF == 1, "inverse");
	carry = __builtin_add_overflow(sum, sp_native64(ip + 8), &sum);
	sum += carry;
	carry = __builtin_add_overflow(sum, (uint64_t)sp_native32(ip + 16), &sum);
	sum += carry;
	return sum * inverse <= UINT64_MAX / 0xFFFF;
}

/* Checks the constant fields: type, version, header length, no fragment, UDP, port, TVer. */
static inline bool sp_plain_layout(const uint8_t *f)
{
#ifdef __AVX2__
	/* 32 bytes from the type to BTH's flags: f[12] to f[43] */
	const __m256i want = _mm256_setr_epi8(8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
					      0, SP_ROCE_PORT >> 8, (char)(SP_ROCE_PORT & 0xFF), 0, 0, 0, 0, 0, 0);
	const __m256i look = _mm256_setr_epi8(-1, -1, -1, 0, 0, 0, 0, 0, 0x3F, -1, 0, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
					      0, 0, -1, -1, 0, 0, 0, 0, 0, SP_BTH_TVER_MASK);

	return _mm256_testz_si256(_mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(f + 12)), want), look);
#else
	return sp_load_be16(f + 12) == SP_PLAIN_TYPE && f[SP_PLAIN_IP] == 0x45 &&
	       !(sp_load_be16(f + SP_PLAIN_IP + 6) & 0x3FFF) && f[SP_PLAIN_IP + 9] == 17 &&
	       sp_load_be16(f + SP_PLAIN_UDP + 2) == SP_ROCE_PORT && !(f[SP_PLAIN_BTH + 1] & SP_BTH_TVER_MASK);
#endif
}

/* Copies BTH into the fields of struct sp_packet in the same order: dest_qp, psn, qp_index 0, opcode, flags,
 * frame_len. */
static inline void sp_plain_bth(const uint8_t *bth, struct sp_packet *p, uint32_t frame_len)
{
	typedef uint8_t bytes __attribute__((vector_size(16)));
	typedef uint32_t words __attribute__((vector_size(16)));
	const words keep = {SP_ROCE_QP_MASK, SP_ROCE_PSN_MASK, 0x00FF0000, 0},
		    se = {0, 0, (uint32_t)SP_PKT_SE << 24, 0};
	const words flags = {0, 0, (uint32_t)(SP_PKT_ROCE | SP_PKT_UDP) << 24, 0};
	bytes b;
	words w;

	static_assert(offsetof(struct sp_packet, dest_qp) == 24 && offsetof(struct sp_packet, psn) == 28 &&
			      offsetof(struct sp_packet, qp_index) == 32 && offsetof(struct sp_packet, opcode) == 34 &&
			      offsetof(struct sp_packet, flags) == 35 && offsetof(struct sp_packet, frame_len) == 36,
		      "one store of 16 bytes");
	static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words of a vector are turned round");
	static_assert(SP_BTH_SE >> 4 == SP_PKT_SE, "SE is moved by 4 bits");
	memcpy(&b, bth, sizeof(b)); /* in bounds: the ICRC follows */
	/* Byte-swap; lanes without a source are masked away next. */
	w = (words)__builtin_shufflevector(b, b, 7, 6, 5, 0, 11, 10, 9, 0, 0, 0, 0, 1, 0, 0, 0, 0);
	w = (w & keep) | (w >> 4 & se) | flags;
	w[3] = frame_len;
	memcpy(&p->dest_qp, &w, sizeof(w));
}

static inline uint32_t sp_plain_ports(const uint8_t *f)
{
	return sp_native32(f + SP_PLAIN_UDP);
}

static inline uint32_t sp_plain_hash(const uint8_t *f)
{
	return sp_hash_flow(sp_addresses4(f + SP_PLAIN_IP), sp_plain_ports(f), 17);
}

/* Accepts the frame and sets what sp_parse() sets, except the hash; or returns false and leaves *p unchanged. */
static inline bool sp_parse_plain(uint8_t *f, uint32_t frame_len, struct sp_packet *p)
{
	if (__builtin_expect(frame_len < SP_PLAIN_MIN, 0) || __builtin_expect(!sp_plain_layout(f), 0))
		return false;
	const uint32_t total = sp_load_be16(f + SP_PLAIN_IP + 2), udp_len = sp_load_be16(f + SP_PLAIN_UDP + 4);
	const uint32_t pad = f[SP_PLAIN_BTH + 1] >> SP_BTH_PAD_SHIFT & 3;
	const uint64_t len = (uint32_t)(total - (SP_PLAIN_MIN - SP_PLAIN_IP) - pad); /* in 64 bits: also sets SP_DONE */

	if (__builtin_expect(udp_len + (SP_PLAIN_UDP - SP_PLAIN_IP) != total, 0) ||
	    __builtin_expect(total > frame_len - SP_PLAIN_IP, 0) ||
	    __builtin_expect(total < SP_PLAIN_MIN - SP_PLAIN_IP + pad, 0) ||
	    __builtin_expect(!sp_checksum4_right(f + SP_PLAIN_IP), 0))
		return false;
	static_assert(offsetof(struct sp_packet, verdict) == offsetof(struct sp_packet, len) + 4 && SP_DONE == 0,
		      "one store of 8 bytes");
	p->data = f + SP_PLAIN_DATA;
	memcpy(&p->len, &len, sizeof(len));
	sp_plain_bth(f + SP_PLAIN_BTH, p, frame_len);
	p->frame = f;
	p->l3 = SP_PLAIN_IP;
	p->l4 = SP_PLAIN_UDP;
	return true;
}

#endif
