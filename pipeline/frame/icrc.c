/* SPDX-License-Identifier: BSD-3-Clause */
/* Folds of our own by the level's multiplications: icrc_fold.h. For headers with options, odd payloads in pieces, and
 * processors without multiplications, ISA-L's CRC. For that, the headers are masked on their way into a small copy, so
 * that the packet stays unchanged; the CRC covers the copy, then the rest in place. The copy is stored in the 16-byte
 * units that ISA-L loads: a load that spans several stores could not be forwarded from the store buffer. */
#include "icrc.h"
#include "icrc_fold.h"

#include <endian.h>
#include <string.h>

#include <isa-l/crc.h>

#include "../../handlers/isa/isa.h"

enum {
	IP4_LEN = 20,
	IP6_LEN = 40,
	UDP_BTH_LEN = 8 + 12,
};

/* CRC32 of so many bytes of ones. RoCEv2 replaces the local route header by 8 bytes of ones; the CRC starts with those
 * not in the copy. */
#define ONES_4 0xFFFFFFFFu
#define ONES_8 0x2144DF1Cu

typedef uint8_t piece __attribute__((vector_size(16)));

/* Headers and the bytes before them, in whole 16-byte units; ones where the ICRC takes ones. */
static const union {
	uint8_t byte[48];
	piece piece[3];
} mask4 = {.byte = {
		   [0 ... 7] = 0xFF,
		   [8 + 1] = 0xFF,				 /* TOS */
		   [8 + 8] = 0xFF,				 /* TTL */
		   [8 + 10 ... 8 + 11] = 0xFF,			 /* header checksum */
		   [8 + IP4_LEN + 6 ... 8 + IP4_LEN + 7] = 0xFF, /* UDP checksum */
		   [8 + IP4_LEN + 8 + 4] = 0xFF,		 /* BTH resv8a */
	   }};
static const union {
	uint8_t byte[64];
	piece piece[4];
} mask6 = {.byte = {
		   [0 ... 3] = 0xFF,
		   [4 + 0] = 0x0F,	     /* traffic class ... */
		   [4 + 1 ... 4 + 3] = 0xFF, /* ... and flow label */
		   [4 + 7] = 0xFF,	     /* hop limit */
		   [4 + IP6_LEN + 6 ... 4 + IP6_LEN + 7] = 0xFF,
		   [4 + IP6_LEN + 8 + 4] = 0xFF,
	   }};

static const struct sp_icrc_mask fold4 = {.ones = {[1] = 0xFF,
						   [8] = 0xFF,
						   [10 ... 11] = 0xFF,
						   [IP4_LEN + 6 ... IP4_LEN + 7] = 0xFF,
						   [IP4_LEN + 8 + 4] = 0xFF}};
static const struct sp_icrc_mask fold6 = {.ones = {[0] = 0x0F,
						   [1 ... 3] = 0xFF,
						   [7] = 0xFF,
						   [IP6_LEN + 6 ... IP6_LEN + 7] = 0xFF,
						   [IP6_LEN + 8 + 4] = 0xFF}};
/* Set before main(), then constant. */
static const struct sp_icrc_fold *fold; /* NULL: none */
static typeof(crc32_gzip_refl) *crc_bytes;
uint32_t sp_icrc_copy_from = UINT32_MAX;

#ifdef __x86_64__
/* ISA-L exports these, but declares them in no header. */
typeof(crc32_gzip_refl) crc32_gzip_refl_by8, crc32_gzip_refl_by8_02, crc32_gzip_refl_by16_10;

static uint32_t crc_without_multiplications(uint32_t before, const unsigned char *bytes, uint64_t len)
{
	return crc32_gzip_refl_base(before, (uint8_t *)(uintptr_t)bytes, len);
}

static typeof(crc32_gzip_refl) *crc_of(enum sp_isa_level level)
{
	if (level == SP_ISA_BASELINE)
		return __builtin_cpu_supports("pclmul") ? crc32_gzip_refl_by8 : crc_without_multiplications;
	return level == SP_ISA_AVX2 ? crc32_gzip_refl_by8_02 : crc32_gzip_refl_by16_10;
}

static const struct sp_icrc_fold *fold_of(enum sp_isa_level level)
{
	if (level == SP_ISA_BASELINE)
		return __builtin_cpu_supports("pclmul") ? &sp_icrc_fold128_baseline : NULL;
	return level == SP_ISA_AVX2 ? &sp_icrc_fold128_avx2 : &sp_icrc_fold512;
}
#else
static typeof(crc32_gzip_refl) *crc_of(enum sp_isa_level level)
{
	(void)level;
	return crc32_gzip_refl;
}

static const struct sp_icrc_fold *fold_of(enum sp_isa_level level)
{
	(void)level;
	return NULL;
}
#endif

__attribute__((constructor)) static void choose(void)
{
	const enum sp_isa_level level = sp_isa_level();

	fold = fold_of(level);
	if (fold && fold->copy)
		sp_icrc_copy_from = 1024;
	crc_bytes = crc_of(level);
}

static inline uint32_t crc(uint32_t before, const uint8_t *bytes, uint32_t len)
{
	return len ? crc_bytes(before, bytes, len) : before;
}

static inline piece load(const uint8_t *from)
{
	piece p;

	memcpy(&p, from, sizeof(p));
	return p;
}

typedef uint64_t pair __attribute__((vector_size(16)));

static inline uint64_t load64(const uint8_t *from)
{
	uint64_t v;

	memcpy(&v, from, sizeof(v));
	return v;
}

static inline uint32_t crc_plain4(const uint8_t *l3)
{
	piece copy[3];

	copy[0] = (piece)(pair){0, load64(l3)} | mask4.piece[0];
	copy[1] = load(l3 + 8) | mask4.piece[1];
	copy[2] = load(l3 + 24) | mask4.piece[2];
	return crc(0, (const uint8_t *)copy, sizeof(copy));
}

static inline uint32_t crc_plain6(const uint8_t *l3)
{
	piece copy[4];

	copy[0] = (piece)(pair){load64(l3) << 32, load64(l3 + 4)} | mask6.piece[0];
	copy[1] = load(l3 + 12) | mask6.piece[1];
	copy[2] = load(l3 + 28) | mask6.piece[2];
	copy[3] = load(l3 + 44) | mask6.piece[3];
	return crc(ONES_4, (const uint8_t *)copy, sizeof(copy));
}

static uint32_t crc_masked(uint32_t before, const uint8_t *bytes, const uint8_t *mask, uint32_t len)
{
	uint8_t copy[IP6_LEN];

	for (uint32_t i = 0; i < len; i++)
		copy[i] = bytes[i] | mask[i];
	return crc(before, copy, len);
}

/* Options and extension headers are not masked, so they are not copied. */
static __attribute__((noinline)) uint32_t crc_general(const uint8_t *l3, uint32_t l3_len, bool ip6)
{
	const uint8_t *mask = ip6 ? mask6.byte + 4 : mask4.byte + 8;
	uint32_t ip_len = ip6 ? IP6_LEN : IP4_LEN, c;

	c = crc_masked(ONES_8, l3, mask, ip_len);
	c = crc(c, l3 + ip_len, l3_len - ip_len);
	return crc_masked(c, l3 + l3_len, mask + ip_len, UDP_BTH_LEN);
}

uint32_t sp_icrc_copied(const uint8_t *l3, uint32_t l3_len, uint32_t len)
{
	bool ip6 = l3[0] >> 4 == 6;
	uint32_t c;

	if (__builtin_expect(!ip6 && l3_len == IP4_LEN, 1))
		c = crc_plain4(l3);
	else if (ip6 && l3_len == IP6_LEN)
		c = crc_plain6(l3);
	else
		c = crc_general(l3, l3_len, ip6);
	return crc(c, l3 + l3_len + UDP_BTH_LEN, len - l3_len - UDP_BTH_LEN);
}

/* NULL: no mask for headers of that length. */
static inline const struct sp_icrc_mask *mask_of(const uint8_t *l3, uint32_t l3_len)
{
	const bool ip6 = l3[0] >> 4 == 6;

	if (__builtin_expect(l3_len == IP4_LEN && !ip6, 1))
		return &fold4;
	return l3_len == IP6_LEN && ip6 ? &fold6 : NULL;
}

uint32_t sp_icrc(const uint8_t *l3, uint32_t l3_len, uint32_t len)
{
	const struct sp_icrc_mask *mask = fold ? mask_of(l3, l3_len) : NULL;

	return mask ? ~fold->one(l3, len, mask) : sp_icrc_copied(l3, l3_len, len);
}

bool sp_icrc_right(const uint8_t *l3, uint32_t l3_len, uint32_t len)
{
	const struct sp_icrc_mask *mask = fold ? mask_of(l3, l3_len) : NULL;
	uint32_t there, c;

	if (__builtin_expect(mask != NULL, 1))
		return fold->one(l3, len + 4, mask) == SP_ICRC_AFTER_OWN;
	c = sp_icrc_copied(l3, l3_len, len);
	memcpy(&there, l3 + len, sizeof(there));
	return le32toh(there) == c;
}

uint32_t sp_icrc_right_plain(const uint8_t *const *l3, const uint32_t *len, unsigned n)
{
	uint32_t right = 0;

	if (__builtin_expect(fold != NULL, 1))
		return fold->right(l3, len, n, &fold4);
	for (unsigned i = 0; i < n; i++)
		right |= (uint32_t)sp_icrc_right(l3[i], IP4_LEN, len[i]) << i;
	return right;
}

void sp_icrc_run(const uint8_t *const *l3, uint32_t l3_len, const uint32_t *len, unsigned n, uint32_t *icrc)
{
	const struct sp_icrc_mask *mask = fold && n ? mask_of(l3[0], l3_len) : NULL;

	if (__builtin_expect(!mask, 0)) {
		for (unsigned i = 0; i < n; i++)
			icrc[i] = sp_icrc_copied(l3[i], l3_len, len[i]);
		return;
	}
	fold->run(l3, len, n, mask, icrc);
	for (unsigned i = 0; i < n; i++)
		icrc[i] = ~icrc[i];
}

uint32_t sp_icrc_pieces(const uint8_t *l3, uint32_t l3_len, uint32_t head, const uint8_t *payload, uint32_t len)
{
	static const uint8_t zeros[3];
	const struct sp_icrc_mask *mask = fold && len % 64 == 0 ? mask_of(l3, l3_len) : NULL;
	uint32_t c;

	/* Other sizes than multiples of 64 bytes would be shifted through registers. */
	if (__builtin_expect(mask != NULL, 1))
		return ~fold->pieces(l3, head, payload, len / 64, mask);
	c = crc(sp_icrc(l3, l3_len, head), payload, len);
	return crc(c, zeros, -len & 3);
}

uint32_t sp_icrc_copy(uint8_t *l3, uint32_t l3_len, uint32_t head, const uint8_t *payload, uint32_t len)
{
	const struct sp_icrc_mask *mask = len >= sp_icrc_copy_from ? mask_of(l3, l3_len) : NULL;
	const uint32_t pad = -len & 3;

	memset(l3 + head + len, 0, pad);
	if (__builtin_expect(mask != NULL, 1))
		return crc(~fold->copy(l3, head, payload, len, mask), l3 + head + len, pad);
	memcpy(l3 + head, payload, len);
	return sp_icrc(l3, l3_len, head + len + pad);
}
