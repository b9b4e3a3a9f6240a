/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fields of a frame by name, for comparing and showing frames: Ethernet, VLAN, ARP, IPv4, IPv6, ICMP, ICMPv6, UDP,
 * TCP, and RoCEv2's BTH, RETH, ImmDt, AETH, AtomicETH, ICRC. What follows is "payload"; bytes beyond the headers'
 * lengths (usually Ethernet's padding) are "padding". Any bytes are accepted: a header that is cut off becomes
 * "payload". The NIC does not use it (its parser is pipeline/parser.c), so frames that the NIC sends are checked by
 * independent code.
 */
#ifndef TESTBED_FIELDS_H
#define TESTBED_FIELDS_H

#include <stddef.h>
#include <stdint.h>

#define SP_FIELDS 96 /* of a frame at most */

struct sp_field {
	const char
		*name; /* constant; as in wireshark's display filters, if they have the field: "ip.src", "udp.length" */
	uint16_t id;   /* index in sp_field_names */
	uint32_t at, len;    /* position in the frame, bytes */
	uint8_t shift, bits; /* bits 0: all of these bytes; otherwise that many bits above the lowest `shift` ones */
	uint8_t unit;	     /* factor of the number: 4 for a header's length in words; values are in bytes */
	enum { SP_FIELD_NUMBER, SP_FIELD_HEX, SP_FIELD_MAC, SP_FIELD_IP4, SP_FIELD_IP6, SP_FIELD_BYTES } form;
};

/* Returns the number of fields, in the order of the frame. They cover the whole frame without overlap. An empty frame
 * has none. */
unsigned sp_fields(const uint8_t *frame, uint32_t len, struct sp_field field[SP_FIELDS]);
uint64_t sp_field_value(const struct sp_field *f, const uint8_t *frame); /* fields of up to eight bytes */
void sp_field_text(const struct sp_field *f, const uint8_t *frame, char *text,
		   size_t room); /* of longer ones the first few bytes */
/* One line for users: "192.0.2.2 > 192.0.2.1 UDP 4000 > 9, 16 bytes". */
void sp_frame_text(const uint8_t *frame, uint32_t len, char *text, size_t room);
/* All names, ending with NULL. */
extern const char *const sp_field_names[];

#endif
