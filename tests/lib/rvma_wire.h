/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads RVMA packets byte by byte. Includes nothing of the project. */
#ifndef TESTS_RVMA_WIRE_H
#define TESTS_RVMA_WIRE_H

#include "wire.h"

enum rvma_opcode {
	RVMA_W_PUT = 0xC0,
	RVMA_W_GET,
	RVMA_W_DATA,
	RVMA_W_POLL,
	RVMA_W_ACK,
	RVMA_W_NACK,
	RVMA_W_HELLO,
	RVMA_W_WELCOME,
	RVMA_W_BYE,
};

#define RVMA_W_APPEND UINT64_MAX
#define RVMA_W_BLOCK  64

struct rvma_packet {
	uint8_t opcode;
	uint32_t to; /* QP */
	uint64_t token;
	/* PUT, GET, DATA, NACK */
	uint64_t transfer, length, mailbox, key, offset, get;
	uint32_t packet, back;
	bool fence;
	uint8_t reason;
	/* HELLO, WELCOME */
	uint32_t from;
	uint64_t nonce, echo;
	const uint8_t *body; /* payload; POLL and ACK: the datagram */
	uint32_t len;
};

/* False: no RVMA packet, or not one that a sound sender makes. */
bool rvma_decode(const uint8_t *frame, uint32_t len, struct rvma_packet *p);

/* An ACK's datagram, entry by entry. */
struct rvma_ack {
	uint64_t base;
	unsigned entries;
	const uint8_t *at, *end;
};

struct rvma_entry {
	uint64_t message;
	uint32_t below, first, bits;
	bool refused;
	const uint8_t *bitmap;
};

bool rvma_ack_open(struct rvma_ack *a, const uint8_t *b, uint32_t len);
bool rvma_ack_next(struct rvma_ack *a, struct rvma_entry *e);
/* A POLL's: the message below which its sender needs nothing any more. */
bool rvma_poll_begin(const uint8_t *b, uint32_t len, uint64_t *begin);

#endif
