/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, datagrams that arrive. IBTA volume 1, 9.8.4; annex A17 for the bytes in front. */
#include "datagram.h"
#include "message.h"
#include "place.h"
#include "qp.h"

#define RDMA_IPV4 20

/* As a GRH of InfiniBand: the IPv6 header, or nothing and the IPv4 header. */
static void rdma_datagram_front(const struct sp_packet *p, uint8_t front[SP_RDMA_GRH])
{
	if (p->flags & SP_PKT_IPV6) {
		memcpy(front, p->frame + p->l3, SP_RDMA_GRH);
		return;
	}
	memset(front, 0, SP_RDMA_GRH - RDMA_IPV4);
	memcpy(front + SP_RDMA_GRH - RDMA_IPV4, p->frame + p->l3, RDMA_IPV4);
}

static uint64_t rdma_datagram_room(const struct rdma_receive *r)
{
	uint64_t room = 0;

	for (uint32_t i = 0; i < r->sges; i++)
		room += r->sge[i].len;
	return room;
}

static uint32_t rdma_datagram_bad_entry(struct sp_ctx *c, struct rdma_qp *qp, uint8_t status)
{
	struct sp_rdma_cqe e = {.op = SP_RDMA_WC_RECV, .status = status};

	rdma_receive_done(c, qp, &e, true);
	rdma_qp_error(c, qp, -1);
	return SP_DROP(RDMA_BAD_ENTRY);
}

uint32_t rdma_respond_ud(struct sp_ctx *c, struct rdma_qp *qp, struct sp_packet *p)
{
	const struct sp_deth *deth = (const struct sp_deth *)(const void *)p->data;
	const bool imm = p->opcode == SP_UD_SEND_ONLY_IMM;
	const uint32_t ext = sizeof(*deth) + (imm ? sizeof(struct sp_immdt) : 0);
	struct sp_rdma_cqe e = {.op = SP_RDMA_WC_RECV,
				.flags = SP_RDMA_WC_GRH | (p->flags & SP_PKT_IPV6 ? 0 : SP_RDMA_WC_IPV4)};
	uint8_t front[SP_RDMA_GRH];
	uint32_t len;
	int entry;

	if (!imm && p->opcode != SP_UD_SEND_ONLY)
		return SP_DROP(RDMA_BAD_OPCODE);
	if (p->len < ext)
		return SP_DROP(RDMA_SHORT_HEADER);
	len = p->len - ext;
	if (!rdma_pad_fits(p, len))
		return SP_DROP(RDMA_BAD_LENGTH);
	if (sp_load_be32(deth->qkey) != qp->attr.qkey)
		return SP_DROP(RDMA_BAD_QKEY);
	entry = rdma_receive_take(c, qp);
	if (!entry)
		return SP_DROP(RDMA_NO_RECEIVE);
	if (entry < 0)
		return rdma_datagram_bad_entry(c, qp, SP_RDMA_LOC_QP_OP_ERR);
	if (rdma_datagram_room(&qp->in.receive) < SP_RDMA_GRH + (uint64_t)len)
		return SP_DROP(RDMA_TOO_LONG); /* the next datagram gets the entry */
	rdma_datagram_front(p, front);
	if (rdma_receive_place(c, qp, front, sizeof(front)) || rdma_receive_place(c, qp, p->data + ext, len))
		return rdma_datagram_bad_entry(c, qp, SP_RDMA_LOC_PROT_ERR);
	if (imm) {
		e.flags |= SP_RDMA_WC_IMM;
		memcpy(&e.imm, deth + 1, sizeof(e.imm));
	}
	e.len = qp->in.receive.got;
	e.src_qp = sp_load_be24(deth->source_qp);
	c->counters[RDMA_MESSAGES]++;
	c->counters[RDMA_BYTES] += len;
	rdma_receive_done(c, qp, &e, p->flags & SP_PKT_SE);
	return SP_DONE;
}
