/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdma, selective repeat of RC between two Spindles: what a QP and a worker have for it. docs/rdma.md has the rules. A
 * QP that uses it has one of the context's slots, and all that is in it belongs to the QP's worker.
 *
 * The requester (selective.c) knows of each packet in the window when it was sent, whether the peer has it, and whether
 * it is lost and to be sent again. The responder (keep.c) keeps what comes ahead of the expected PSN: a WRITE's packets
 * are placed at once if their message is known, others wait in a buffer. All are executed in the order of PSNs.
 */
#ifndef HANDLERS_RDMA_SLOT_H
#define HANDLERS_RDMA_SLOT_H

#include "../reliability/rtt.h"
#include "state.h"

#define RDMA_RANGES	64 /* messages ahead that are known */
/* Of a buffer: BTH, extension headers, payload; whole lines. */
#define RDMA_KEPT_BYTES (12 + 28 + SP_ROCE_MTU_MAX + 24)

enum { RDMA_KEPT_SE = 1, RDMA_KEPT_ASK = 2, RDMA_KEPT_PLACED = 4 };

/* A packet ahead of the expected one. */
struct rdma_kept {
	uint8_t opcode, flags;
	uint16_t len; /* what follows the BTH; PLACED: of the payload alone */
	uint32_t at;  /* buffer; PLACED: immediate data, as on the wire */
};

/* A message ahead, or the rest of the one that is arriving. */
struct rdma_range {
	uint32_t first, end; /* PSNs */
	uint32_t rkey, len;  /* WRITE; len 0: other */
	uint64_t va;
	bool direct; /* packets may be placed at once */
};

struct rdma_selective {
	uint32_t taken; /* atomic */
	uint32_t mask;	/* a PSN's place in the arrays: & mask */
	/* requester */
	uint32_t *sent; /* per PSN: when, in 131 ns; the lowest bit: not for the first time */
	uint64_t *has;	/* a bit per PSN: the peer has it */
	uint64_t *lost; /* to be sent again; only PSNs from una on */
	uint32_t losses;
	uint32_t probes; /* since the last progress */
	sp_time probed;
	struct sp_rtt rtt;
	/* responder */
	struct rdma_kept *kept;
	uint64_t *got; /* a bit per PSN: it is kept */
	uint32_t gots;
	uint32_t latest; /* PSN that has come last */
	uint32_t front;	 /* all messages that begin before are known */
	unsigned ranges;
	struct rdma_range range[RDMA_RANGES]; /* in order */
} __attribute__((aligned(64)));

int rdma_selective_attach(struct sp_ctx *);
/* Of an RC QP on its way to RTR, with the first PSN to expect. -ENOSPC: all slots are taken. */
int rdma_selective_begin(struct sp_ctx *, struct rdma_qp *, uint32_t psn);
/* ERR: nothing that is kept will be executed. RESET: and the slot is free. */
void rdma_selective_drop(struct sp_ctx *, struct rdma_qp *);
void rdma_selective_end(struct sp_ctx *, struct rdma_qp *);

/* A buffer of the worker; UINT32_MAX: there is none. */
uint32_t rdma_buffer_take(struct sp_ctx *);
uint8_t *rdma_buffer_at(struct sp_ctx *, uint32_t i);
void rdma_buffer_give(struct sp_ctx *, uint32_t i);

static inline bool rdma_bit(const uint64_t *bits, uint32_t i)
{
	return bits[i / 64] >> i % 64 & 1;
}
static inline void rdma_bit_set(uint64_t *bits, uint32_t i)
{
	bits[i / 64] |= 1ull << i % 64;
}
static inline void rdma_bit_clear(uint64_t *bits, uint32_t i)
{
	bits[i / 64] &= ~(1ull << i % 64);
}
/* 64 bits from a PSN's place on, in a ring of mask + 1. */
static inline uint64_t rdma_bits(const uint64_t *bits, uint32_t mask, uint32_t i)
{
	const uint32_t word = (i & mask) / 64, shift = i % 64;

	return shift ? bits[word] >> shift | bits[(word + 1) & mask / 64] << (64 - shift) : bits[word];
}

#endif
