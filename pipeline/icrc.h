/* SPDX-License-Identifier: BSD-3-Clause */
/* RoCEv2's invariant CRC (IBTA annex A17.3.3): Ethernet's CRC32 over 8 bytes of ones and the packet from the IP header
 * to the end of the pad, with the fields that routers change (TOS/TTL/checksums, BTH resv8a, ...) set to ones. */
#ifndef PIPELINE_ICRC_H
#define PIPELINE_ICRC_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The ICRC of a packet, to be stored little-endian after the pad. l3: IP header (no options), l3_len: bytes of IP
 * header, len: bytes from l3 to the end of the pad (without ICRC); at least l3_len + 20. The bytes are not changed.
 */
uint32_t sp_icrc(const uint8_t *l3, uint32_t l3_len, uint32_t len);
/* Is the ICRC that stands behind those len bytes theirs? */
bool sp_icrc_right(const uint8_t *l3, uint32_t l3_len, uint32_t len);
/* The same of up to 32 packets, of IPv4 without options: a bit for each that is right. */
uint32_t sp_icrc_right_plain(const uint8_t *const *l3, const uint32_t *len, unsigned n);
/* sp_icrc() of each of up to 32 packets whose IP headers are of one version and length. */
void sp_icrc_run(const uint8_t *const *l3, uint32_t l3_len, const uint32_t *len, unsigned n, uint32_t *icrc);
/* sp_icrc() of a packet in pieces: `head` bytes from l3 on, at least l3_len + 20; then len bytes of payload; then pad,
 * the 0 to 3 bytes of zeros that this takes. */
uint32_t sp_icrc_pieces(const uint8_t *l3, uint32_t l3_len, uint32_t head, const uint8_t *payload, uint32_t len);
/* sp_icrc() without icrc_fold.c, as levels below avx512 compute it. */
uint32_t sp_icrc_copied(const uint8_t *l3, uint32_t l3_len, uint32_t len);

#endif
