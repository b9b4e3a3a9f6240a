/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, requests that arrive: RC and UC. On the QP's worker. */
#ifndef HANDLERS_RDMA_RESPOND_H
#define HANDLERS_RDMA_RESPOND_H

#include "state.h"

/* Both return the verdict. Answers become due: rdma_answer_issue(). */
uint32_t rdma_respond_rc(struct sp_ctx *, struct rdma_qp *, struct sp_packet *);
uint32_t rdma_respond_uc(struct sp_ctx *, struct rdma_qp *, struct sp_packet *);

/* The packet's BTH, which the parser has checked. */
static inline const struct sp_bth *rdma_bth(const struct sp_packet *p)
{
	return (const struct sp_bth *)(const void *)(p->data - sizeof(struct sp_bth));
}
/* Pad is what makes the payload a multiple of four. */
static inline bool rdma_pad_fits(const struct sp_packet *p, uint32_t payload)
{
	return (rdma_bth(p)->flags & SP_BTH_PAD_MASK) >> SP_BTH_PAD_SHIFT == (-payload & 3);
}

#endif
