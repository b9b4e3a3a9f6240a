/* SPDX-License-Identifier: BSD-3-Clause */
/* The ICRC by carry-less multiplication of 512 bits, on the packet in place: the level avx512. */
#ifndef PIPELINE_FRAME_ICRC_FOLD_H
#define PIPELINE_FRAME_ICRC_FOLD_H

#include <stdint.h>

#define SP_ICRC_FOLD_HEADERS 64 /* bytes: at least the longest headers with masked fields */

/* Bits that count as ones, with zeros around them: any 64 bytes that overlap them can be loaded. */
struct sp_icrc_mask {
	uint8_t before[64], ones[SP_ICRC_FOLD_HEADERS], behind[64];
} __attribute__((aligned(64)));

/* The CRC register after 8 bytes of ones and len bytes from l3 on, with mask's bits set. len covers all bytes that have
 * bits in the mask. No other byte is read. */
uint32_t sp_icrc_fold(const uint8_t *l3, uint32_t len, const struct sp_icrc_mask *mask);
/* Register value after any message followed by its own CRC. */
#define SP_ICRC_AFTER_OWN 0xDEBB20E3u
/* For up to 32 packets of one mask: a bit for each whose ICRC, behind its len bytes, is right. */
uint32_t sp_icrc_fold_right(const uint8_t *const *l3, const uint32_t *len, unsigned n, const struct sp_icrc_mask *mask);
/* The register after each of up to 32 packets of one mask. */
void sp_icrc_fold_run(const uint8_t *const *l3, const uint32_t *len, unsigned n, const struct sp_icrc_mask *mask,
		      uint32_t *after);
/* The register after head bytes from l3 on (at least those with bits in the mask) and `blocks` times 64 bytes of
 * payload. */
uint32_t sp_icrc_fold_pieces(const uint8_t *l3, uint32_t head, const uint8_t *payload, uint32_t blocks,
			     const struct sp_icrc_mask *mask);

#endif
