/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads and makes RoCEv2 frames byte by byte from the specifications. Includes nothing of the project, so that it
 * cannot repeat a mistake of the headers. */
#ifndef TESTS_WIRE_H
#define TESTS_WIRE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <zlib.h>

#define WIRE_SEND_ONLY	    0x24 /* UC SEND Only */
#define WIRE_WRITE_ONLY_IMM 0x2B /* UC RDMA WRITE Only with Immediate */
#define WIRE_FRAME_MAX	    4500

struct wire_packet {
	bool ipv6, solicited, tos_clear;
	uint8_t opcode, pad, ack_req, version;
	uint16_t source_port, pkey;
	uint32_t qp, psn;
	const uint8_t *payload; /* after the BTH */
	uint32_t len;		/* without pad and ICRC */
	/* WRITE Only with Immediate */
	uint64_t address;
	uint32_t rkey, dma_len, immediate;
	const uint8_t *body;
	uint32_t body_len;
};

uint64_t wire_get(const uint8_t *b, unsigned bytes);
void wire_put(uint8_t *b, unsigned bytes, uint64_t v);
/* False: no RoCEv2 frame, or one with lengths that do not fit together. */
bool wire_decode(const uint8_t *f, uint32_t len, struct wire_packet *w);
bool wire_icrc_right(const uint8_t *f);
void wire_icrc_set(uint8_t *f);

struct wire_address {
	uint8_t mac[6], ip[16]; /* IPv4 mapped */
};

/* A RoCEv2 frame; returns its length. payload: what follows the BTH. */
uint32_t wire_make(uint8_t *f, const struct wire_address *from, const struct wire_address *to, uint16_t source_port,
		   uint8_t opcode, bool solicited, uint32_t qp, uint32_t psn, const uint8_t *payload, uint32_t len);

#endif
