/* SPDX-License-Identifier: BSD-3-Clause */
/* Valid frames of every shape that the parser knows. They are made byte by byte from the RFCs, without the code
 * under test. */
#ifndef TESTS_FRAME_H
#define TESTS_FRAME_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum frame_ip { FRAME_IP4, FRAME_IP4_OPTIONS, FRAME_IP6, FRAME_IP6_EXTENSIONS, FRAME_IPS };

struct frame_shape {
	unsigned tags;
	enum frame_ip ip;
	bool roce;
	unsigned payload, pad; /* bytes; pad with RoCE only */
};

struct frame {
	uint8_t bytes[2048];
	uint32_t len, l3, l4, data; /* offsets, and the length of the whole */
};

bool frame_is6(enum frame_ip ip);
void frame_put16(struct frame *f, uint32_t at, unsigned v);
/* The header checksum as RFC 791 says it: 16-bit words, end-around carry, complement. */
void frame_checksum4(struct frame *f);
/* Sets the IP packet's length, header included, and what depends on it. */
void frame_ip_length(struct frame *f, uint32_t bytes);
/* The last four bytes of a RoCE frame are the ICRC's place, left 0. */
void frame_build(struct frame *f, const struct frame_shape *s);

#endif
