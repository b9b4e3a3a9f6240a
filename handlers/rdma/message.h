/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, a packet of a SEND or a WRITE: what RC and UC have in common. On the QP's worker. */
#ifndef HANDLERS_RDMA_MESSAGE_H
#define HANDLERS_RDMA_MESSAGE_H

#include "state.h"

enum rdma_kind { RDMA_KIND_NONE, RDMA_KIND_SEND, RDMA_KIND_WRITE, RDMA_KIND_READ, RDMA_KIND_ATOMIC };
enum { RDMA_FIRST = 1, RDMA_LAST = 2, RDMA_ONLY = 3, RDMA_IMM = 4, RDMA_INV = 8 };
/* Of the lower five bits of an opcode, which RC and UC share. */
struct rdma_form {
	uint8_t kind, flags, ext; /* ext: bytes of extension headers */
};
extern const struct rdma_form rdma_forms[32];

/* What became of the packet. From RDMA_INVALID on, the message cannot go on. */
enum rdma_outcome {
	RDMA_TAKEN,
	RDMA_NO_ENTRY, /* nothing has happened */
	RDMA_BUSY,     /* an agent is, with what came before; nothing has happened that may not happen again */
	RDMA_INVALID,  /* opcode, length or rights of the QP */
	RDMA_LONG,     /* longer than the receive entry */
	RDMA_ACCESS,   /* the peer's key, rights or range */
	RDMA_LOCAL,    /* the receive entry is at fault */
};

struct rdma_request {
	const struct rdma_form *form;
	const uint8_t *ext, *payload;
	uint32_t len;
	bool solicited;
	bool placed; /* the payload of a WRITE has been placed already, and is not here */
};

/* The packet's BTH, which the parser has checked. */
static inline const struct sp_bth *rdma_bth(const struct sp_packet *p)
{
	return (const struct sp_bth *)(const void *)(p->data - sizeof(struct sp_bth));
}
/* Pad is what makes the payload a multiple of four. */
static inline bool rdma_pad_fits(const struct sp_packet *p, uint32_t payload)
{
	uint32_t pad = (rdma_bth(p)->flags & SP_BTH_PAD_MASK) >> SP_BTH_PAD_SHIFT;
	return pad == (-payload & 3);
}

/* False: the headers are not all there. */
bool rdma_request_parse(const struct sp_packet *, struct rdma_request *);
/* FIRST and MIDDLE fill the path MTU, LAST is not empty, ONLY may be; pad is exact. */
bool rdma_request_length(const struct rdma_qp *, const struct sp_packet *, const struct rdma_request *);
/* A packet of a SEND or WRITE, in its order: places it, and completes the message. */
enum rdma_outcome rdma_message_take(struct sp_ctx *, struct rdma_qp *, const struct rdma_request *);
/* Completes the receive entry that the packet was for, if there is one, with the error that the outcome stands for. */
void rdma_message_fail(struct sp_ctx *, struct rdma_qp *, enum rdma_outcome);

#endif
