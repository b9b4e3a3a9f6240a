/* SPDX-License-Identifier: BSD-3-Clause */
/* RoCEv2's invariant CRC (IBTA annex A17.3.3): Ethernet's CRC32 over 8 bytes of ones, then the packet from the IP
 * header to the end of the pad, with mutable fields (TOS/TTL/checksums, BTH resv8a, ...) as ones. */
#ifndef PIPELINE_FRAME_ICRC_H
#define PIPELINE_FRAME_ICRC_H

#include <stdbool.h>
#include <stdint.h>

/* The ICRC, stored little-endian after the pad. l3: IP header without options, l3_len: its bytes; len: bytes from l3 to
 * the end of the pad, at least l3_len + 20. The packet is not changed. */
uint32_t sp_icrc(const uint8_t *l3, uint32_t l3_len, uint32_t len);
/* True if the ICRC behind the len bytes is right. */
bool sp_icrc_right(const uint8_t *l3, uint32_t l3_len, uint32_t len);
/* The same for up to 32 packets of IPv4 without options: a bit per right one. */
uint32_t sp_icrc_right_plain(const uint8_t *const *l3, const uint32_t *len, unsigned n);
/* sp_icrc() of up to 32 packets with IP headers of one version and length. */
void sp_icrc_run(const uint8_t *const *l3, uint32_t l3_len, const uint32_t *len, unsigned n, uint32_t *icrc);
/* sp_icrc() of a packet in pieces: `head` bytes from l3 on (at least l3_len + 20), len bytes of payload, and the 0 to 3
 * zero bytes of pad. */
uint32_t sp_icrc_pieces(const uint8_t *l3, uint32_t l3_len, uint32_t head, const uint8_t *payload, uint32_t len);
/* The same of a packet whose head is complete, len bytes of payload and the pad written behind it. */
uint32_t sp_icrc_copy(uint8_t *l3, uint32_t l3_len, uint32_t head, const uint8_t *payload, uint32_t len);
/* Bytes of payload from which sp_icrc_copy() is faster than a copy and sp_icrc(). Set before main(), then constant. */
extern uint32_t sp_icrc_copy_from;
/* sp_icrc() by ISA-L, as used where icrc_fold.h has nothing. */
uint32_t sp_icrc_copied(const uint8_t *l3, uint32_t l3_len, uint32_t len);

#endif
