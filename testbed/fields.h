/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fields of a frame by name, for comparing and showing frames: Ethernet, VLAN, ARP, IPv4, IPv6, ICMP, ICMPv6, UDP,
 * TCP, and RoCEv2's BTH, RETH, ImmDt, AETH, AtomicETH, ICRC; what follows is "payload", what no header's length covers
 * (Ethernet's padding above all) is "padding". It reads what it is given and believes nothing: a header that is cut off
 * ends as "payload". Not used by the NIC (whose parser is pipeline/parser.c), so that what the NIC sends is judged by
 * somebody else.
 */
#ifndef TESTBED_FIELDS_H
#define TESTBED_FIELDS_H

#include <stddef.h>
#include <stdint.h>

#define SP_FIELDS 96 /* of a frame at most */

struct sp_field {
	const char *name; /* constant, as in wireshark's display filters where they have one: "ip.src", "udp.length" */
	uint16_t id;	  /* its place in sp_field_names */
	uint32_t at, len; /* bytes of the frame that it lies in */
	uint8_t shift, bits; /* bits 0: all of these bytes; else: that many bits above the lowest `shift` ones */
	uint8_t unit;	     /* what the number counts: 4 for a header's length in words; its value is in bytes */
	enum { SP_FIELD_NUMBER, SP_FIELD_HEX, SP_FIELD_MAC, SP_FIELD_IP4, SP_FIELD_IP6, SP_FIELD_BYTES } form;
};

/* Returns how many, in the order of the frame. They cover all of it, and no two overlap. An empty frame has none. */
unsigned sp_fields(const uint8_t *frame, uint32_t len, struct sp_field field[SP_FIELDS]);
uint64_t sp_field_value(const struct sp_field *f, const uint8_t *frame);		     /* of up to eight bytes */
void sp_field_text(const struct sp_field *f, const uint8_t *frame, char *text, size_t room); /* bytes: the first few */
/* A line for people: "192.0.2.2 > 192.0.2.1 UDP 4000 > 9, 16 bytes". */
void sp_frame_text(const uint8_t *frame, uint32_t len, char *text, size_t room);
/* All names, up to NULL: what may be tolerated. */
extern const char *const sp_field_names[];

#endif
