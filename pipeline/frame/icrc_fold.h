/* SPDX-License-Identifier: BSD-3-Clause */
/* The ICRC by carry-less multiplication, on the packet in place. */
#ifndef PIPELINE_FRAME_ICRC_FOLD_H
#define PIPELINE_FRAME_ICRC_FOLD_H

#include <stdint.h>

#define SP_ICRC_FOLD_HEADERS 64 /* bytes: at least the longest headers with masked fields */

/* Bits that count as ones, with zeros around them: any 64 bytes that overlap them can be loaded. */
struct sp_icrc_mask {
	uint8_t before[64], ones[SP_ICRC_FOLD_HEADERS], behind[64];
} __attribute__((aligned(64)));

/* CRC register after 8 bytes of ones: 4 of them and their own CRC. And that after any message with its own CRC. */
#define SP_ICRC_AFTER_ONES 0xDEBB20E3u
#define SP_ICRC_AFTER_OWN  0xDEBB20E3u

/* A way to do it. The CRC starts with 8 bytes of ones, and covers at least 40 bytes, among them all that have bits in
 * the mask. No other byte is read. */
struct sp_icrc_fold {
	/* The CRC register after len bytes from l3 on, with mask's bits set. */
	uint32_t (*one)(const uint8_t *l3, uint32_t len, const struct sp_icrc_mask *mask);
	/* The register after head bytes from l3 on, and `blocks` times 64 bytes of payload. */
	uint32_t (*pieces)(const uint8_t *l3, uint32_t head, const uint8_t *payload, uint32_t blocks,
			   const struct sp_icrc_mask *mask);
	/* For up to 32 packets of one mask: a bit for each whose ICRC, behind its len bytes, is right. */
	uint32_t (*right)(const uint8_t *const *l3, const uint32_t *len, unsigned n, const struct sp_icrc_mask *mask);
	/* The register after each of up to 32 packets of one mask. */
	void (*run)(const uint8_t *const *l3, const uint32_t *len, unsigned n, const struct sp_icrc_mask *mask,
		    uint32_t *after);
	/* The register after head bytes from l3 on, and len bytes of payload, at least 33, which are copied there
	 * meanwhile. NULL: a copy before is faster. */
	uint32_t (*copy)(uint8_t *l3, uint32_t head, const uint8_t *payload, uint32_t len,
			 const struct sp_icrc_mask *mask);
};

/* By multiplications of 512 bits, for the level avx512; of 128 for those below it, with PCLMULQDQ. For x86-64 only. */
extern const struct sp_icrc_fold sp_icrc_fold512, sp_icrc_fold128_avx2, sp_icrc_fold128_baseline;

#endif
