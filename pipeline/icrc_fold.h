/* SPDX-License-Identifier: BSD-3-Clause */
/* The ICRC by carry-less multiplications of 512 bits, over the packet where it lies: the level avx512. */
#ifndef PIPELINE_ICRC_FOLD_H
#define PIPELINE_ICRC_FOLD_H

#include <stdint.h>

#define SP_ICRC_FOLD_HEADERS 64 /* bytes: at least those of the longest headers in which something counts as ones */

/* Bits that count as ones, with zeros before and behind them: loaded from anywhere 64 bytes may lie across them. */
struct sp_icrc_mask {
	uint8_t before[64], ones[SP_ICRC_FOLD_HEADERS], behind[64];
} __attribute__((aligned(64)));

/* The CRC's register after 8 bytes of ones and the packet's len from l3 on, mask's bits of them being ones. len: at
 * least that of all bytes that have bits in the mask. No other byte is read. */
uint32_t sp_icrc_fold(const uint8_t *l3, uint32_t len, const struct sp_icrc_mask *mask);
/* A message and its own CRC leave the same in the register, whatever the message. */
#define SP_ICRC_AFTER_OWN 0xDEBB20E3u
/* Of n packets of one mask, up to 32: those whose len bytes their own ICRC follows. */
uint32_t sp_icrc_fold_right(const uint8_t *const *l3, const uint32_t *len, unsigned n, const struct sp_icrc_mask *mask);
/* The register after each of n packets of one mask, up to 32. */
void sp_icrc_fold_run(const uint8_t *const *l3, const uint32_t *len, unsigned n, const struct sp_icrc_mask *mask,
		      uint32_t *after);
/* The register after head bytes from l3 on, at least those with bits in the mask, and 64 times `blocks` of payload. */
uint32_t sp_icrc_fold_pieces(const uint8_t *l3, uint32_t head, const uint8_t *payload, uint32_t blocks,
			     const struct sp_icrc_mask *mask);

#endif
