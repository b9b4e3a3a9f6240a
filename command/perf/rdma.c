/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle perf over RDMA: SENDs of a reliable connection, which the connection manager makes. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "../../host-api/rdma.h"
#include "../transfer/words.h"
#include "end.h"

#define RECVS 2 /* times depth */
enum { SENT = 1, CAME = 2 };

struct rdma_end {
	struct sp_rdma *rdma;
	struct sp_rdma_pd *pd;
	struct sp_rdma_cq *cq;
	struct sp_rdma_pair *qp;
	struct sp_rdma_cm *cm, *listener;
	struct sp_mr *memory; /* depth messages to send, RECVS * depth to receive */
	struct sp_rdma_mr *mr;
};

static int receive(struct perf_end *e, uint64_t k)
{
	struct rdma_end *r = e->own;
	const uint64_t place = k % ((uint64_t)RECVS * e->depth);
	const struct sp_rdma_sge sge = {(uintptr_t)r->memory->addr + (e->depth + place) * e->size, e->size,
					r->mr->lkey};
	const struct sp_rdma_recv_wr wr = {.wr_id = CAME, .sge = &sge, .sges = 1};

	return sp_rdma_post_recv(r->qp, &wr, NULL);
}

static int open_queues(struct perf_end *e)
{
	struct rdma_end *r = e->own;
	const struct sp_rdma_link link = {.path_mtu = 1024};
	int rc = sp_rdma_pd_alloc(r->rdma, &r->pd);

	rc = rc ? rc : sp_rdma_cq_create(r->rdma, (1 + RECVS) * e->depth + 8, false, NULL, &r->cq);
	if (!rc) {
		const struct sp_rdma_qp_init init = {.type = SP_RDMA_RC,
						     .send_cq = r->cq,
						     .recv_cq = r->cq,
						     .send_wr = e->depth,
						     .recv_wr = RECVS * e->depth};

		rc = sp_rdma_qp_create(r->pd, &init, &r->qp);
	}
	rc = rc ? rc : sp_mr_alloc(e->dev, (1ull + RECVS) * e->depth * e->size, &r->memory);
	rc = rc ? rc : sp_rdma_mr_reg(r->pd, r->memory, 0, r->memory->len, SP_RDMA_LOCAL_WRITE, &r->mr);
	rc = rc ? rc : sp_rdma_prepare(r->qp, &link);
	for (uint32_t i = 0; !rc && i < RECVS * e->depth; i++)
		rc = receive(e, i);
	return rc;
}

static int open_end(struct perf_end *e, json_t *info)
{
	const struct sp_rdma_attr attr = {.qps = 2};
	struct rdma_end *r = e->own = calloc(1, sizeof(*r));
	uint8_t ip[16];
	uint16_t port = 0;
	int rc;

	if (!r)
		return perf_failed(e, "memory", -ENOMEM);
	rc = sp_rdma_open(e->dev, &attr, &r->rdma, NULL);
	rc = rc ? rc : open_queues(e);
	if (rc || !e->server)
		return perf_failed(e, "a QP of the NIC", rc);
	rc = sp_dev_address(e->dev, AF_INET, ip);
	rc = rc == -ENOENT ? sp_dev_address(e->dev, AF_INET6, ip) : rc;
	rc = rc ? rc : sp_rdma_cm_create(r->rdma, SP_CM_CONNECTED, 0x0106, NULL, &r->listener);
	rc = rc ? rc : sp_rdma_cm_listen(r->listener, NULL, &port, 4);
	rc = rc ? rc : json_object_set_new(info, "ip", talk_hex(ip, sizeof(ip))) ? -ENOMEM : 0;
	rc = rc ? rc : json_object_set_new(info, "port", talk_hex(&port, sizeof(port))) ? -ENOMEM : 0;
	return perf_failed(e, "listening", rc);
}

static int await_client(struct perf_end *e)
{
	struct rdma_end *r = e->own;
	const struct sp_rdma_link link = {.path_mtu = 1024};
	struct sp_rdma_cm_event event;
	int rc;

	do
		rc = sp_rdma_cm_wait(r->rdma, &event, PERF_CONNECT);
	while (!rc && event.type != SP_CM_EVENT_REQUEST);
	if (!rc) {
		r->cm = event.cm;
		rc = sp_rdma_accept(&event, r->qp, &link);
	}
	return rc;
}

static int connect_end(struct perf_end *e, const json_t *info)
{
	struct rdma_end *r = e->own;
	struct sp_rdma_link link = {.path_mtu = 1024};
	struct sp_rdma_cm_event reply;
	int rc;

	if (e->server)
		return perf_failed(e, "waiting for the client's QP", await_client(e));
	rc = talk_bytes(info, "ip", link.to, sizeof(link.to), sizeof(link.to), NULL);
	rc = rc ? rc : talk_bytes(info, "port", &link.port, sizeof(link.port), sizeof(link.port), NULL);
	rc = rc ? rc : sp_rdma_cm_create(r->rdma, SP_CM_CONNECTED, 0x0106, NULL, &r->cm);
	return perf_failed(e, "connecting", rc ? rc : sp_rdma_connect(r->cm, r->qp, &link, &reply, PERF_CONNECT));
}

static int post(struct perf_end *e)
{
	struct rdma_end *r = e->own;
	const struct sp_rdma_sge sge = {(uintptr_t)r->memory->addr + e->posted % e->depth * e->size, e->size,
					r->mr->lkey};
	const struct sp_rdma_send_wr wr = {
		.wr_id = SENT, .op = SP_RDMA_WR_SEND, .flags = SP_RDMA_SIGNALED, .sge = &sge, .sges = 1};
	int rc;

	if (e->posted - e->sent == e->depth)
		return -EAGAIN;
	rc = sp_rdma_post_send(r->qp, &wr, NULL);
	e->posted += !rc;
	return rc == -EAGAIN ? rc : perf_failed(e, "sending", rc);
}

static int progress(struct perf_end *e)
{
	struct rdma_end *r = e->own;
	struct sp_rdma_wc wc[16];
	const int n = sp_rdma_poll_cq(r->cq, wc, 16);
	int rc = n < 0 ? n : sp_progress(e->dev, sp_clock());

	for (int i = 0; !rc && i < n; i++) {
		if (wc[i].status != SP_RDMA_OK || (wc[i].wr_id == CAME && wc[i].len != e->size))
			return perf_failed(e, "a message has failed", -EIO);
		if (wc[i].wr_id == SENT)
			e->sent++;
		else
			rc = receive(e, e->received++);
	}
	return perf_failed(e, "messages", rc);
}

/* -EAGAIN: the NIC still has frames of it. */
#define END(e, call)                                                                                                   \
	do {                                                                                                           \
		for (const sp_time until = sp_clock() + 2 * SP_SEC; (call) == -EAGAIN && sp_clock() < until;           \
		     sched_yield())                                                                                    \
			sp_progress((e)->dev, sp_clock());                                                             \
	} while (0)

static void close_end(struct perf_end *e)
{
	struct rdma_end *r = e->own;

	if (!r)
		return;
	if (r->cm) {
		sp_rdma_cm_disconnect(r->cm);
		sp_rdma_cm_destroy(r->cm);
	}
	if (r->listener)
		sp_rdma_cm_destroy(r->listener);
	if (r->rdma)
		END(e, sp_rdma_close(r->rdma));
	if (r->memory)
		END(e, sp_mr_free(r->memory));
	free(r);
	e->own = NULL;
}

const struct perf_op perf_rdma = {"rdma", open_end, connect_end, post, progress, close_end};
