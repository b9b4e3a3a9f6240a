/* SPDX-License-Identifier: BSD-3-Clause */
#include "pair.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

#include "children.h"
#include "connect.h"

struct end {
	uint8_t ip[16];
	uint32_t qp, rkey;
	uint64_t va;
};

int bench_pair_open(struct bench_pair *p, const char *nic, uint64_t bytes, uint32_t send_wr)
{
	const struct sp_rdma_attr attr = {.qps = 1, .cqs = 1, .mrs = 8};
	struct sp_rdma_qp_init init = {.type = SP_RDMA_RC, .send_wr = send_wr, .recv_wr = 1, .inlined = 8};
	struct sp_error error = {.text = ""};
	int r;

	*p = (struct bench_pair){.dev = NULL};
	r = sp_attach(nic, &p->dev);
	if (!r)
		r = sp_mr_alloc(p->dev, bytes, &p->mr);
	if (!r)
		r = sp_rdma_open(p->dev, &attr, &p->rdma, &error);
	if (*error.text)
		fprintf(stderr, "%s\n", error.text);
	if (!r)
		r = sp_rdma_pd_alloc(p->rdma, &p->pd);
	if (!r)
		r = sp_rdma_cq_create(p->rdma, send_wr, true, NULL, &p->cq);
	init.send_cq = init.recv_cq = p->cq;
	if (!r)
		r = sp_rdma_qp_create(p->pd, &init, &p->qp);
	if (!r)
		r = sp_rdma_mr_reg(p->pd, p->mr, 0, bytes, SP_RDMA_LOCAL_WRITE | SP_RDMA_REMOTE_WRITE, &p->region);
	return r;
}

int bench_pair_meet(struct bench_pair *p, uint32_t mtu)
{
	struct end own = {.qp = sp_rdma_qp_number(p->qp), .rkey = p->region->rkey, .va = p->region->va}, other;
	int r = sp_dev_address(p->dev, AF_INET, own.ip);

	if (r)
		return r;
	if (send(BENCH_LINK, &own, sizeof(own), MSG_NOSIGNAL) != sizeof(own) ||
	    recv(BENCH_LINK, &other, sizeof(other), 0) != sizeof(other))
		return -EPIPE;
	p->remote = other.va;
	p->rkey = other.rkey;
	r = bench_connect(p->qp, other.ip, other.qp, mtu);
	/* The other end has a QP that takes packets before we send some. */
	if (!r && (send(BENCH_LINK, "", 1, MSG_NOSIGNAL) != 1 || recv(BENCH_LINK, &other, 1, 0) != 1))
		r = -EPIPE;
	return r;
}

void bench_pair_close(struct bench_pair *p)
{
	if (p->rdma)
		sp_rdma_close(p->rdma);
	if (p->dev)
		sp_dev_close(p->dev);
}
