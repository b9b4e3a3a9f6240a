/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ends opposite Linux's example programs of rdma-core, for the tests with real peers; links libspindle and nothing
 * of the NIC. peer NIC WHAT WORD...
 *
 *   rping-server PORT                                      rping -c -a ADDRESS -p PORT
 *   rping-client ADDRESS PORT COUNT SIZE                   rping -s -a ADDRESS -p PORT
 *   cm-server PORT CONNECTIONS MESSAGES SIZE               ucmatose -s ADDRESS -p PORT; MESSAGES 0: cmtime -s ADDRESS
 *   cm-client ADDRESS PORT CONNECTIONS MESSAGES SIZE       ucmatose -p PORT; MESSAGES 0: cmtime
 *   ud-server PORT MESSAGES SIZE                           udaddy -s ADDRESS -p PORT
 *   ud-client ADDRESS PORT MESSAGES SIZE                   udaddy -p PORT
 *   pingpong TYPE COUNT SIZE                               ibv_TYPE_pingpong: rc, uc, ud, srq; see pingpong.c
 *   answer                                                 rc_replay.py's Asker; see answer.c
 *
 * A server says "listening PORT" first. The last line is "ok BYTES SECONDS RETRIES".
 */
#include "peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

noreturn void peer_fail(const char *what, int rc)
{
	fflush(stdout);
	fprintf(stderr, "peer: %s: %s\n", what, rc < 0 ? strerror(-rc) : "wrong");
	exit(1);
}

void peer_check(const char *what, int rc)
{
	if (rc)
		peer_fail(what, rc);
}

void peer_address(const char *text, uint8_t ip[16])
{
	memset(ip, 0, 16);
	if (inet_pton(AF_INET6, text, ip) == 1)
		return;
	ip[10] = ip[11] = 0xFF;
	if (inet_pton(AF_INET, text, ip + 12) != 1)
		peer_fail("address", -EINVAL);
}

/* ---- QPs ---- */
void peer_end_open(struct peer *p, struct peer_end *e, enum sp_rdma_qp_type type, unsigned depth)
{
	struct sp_rdma_qp_init init = {.type = type, .send_wr = depth, .recv_wr = depth};

	memset(e, 0, sizeof(*e));
	e->peer = p;
	peer_check("completion queue", sp_rdma_cq_create(p->rdma, 4 * depth, true, e, &e->cq));
	init.send_cq = init.recv_cq = e->cq;
	peer_check("queue pair", sp_rdma_qp_create(p->pd, &init, &e->qp));
}

void peer_end_close(struct peer_end *e)
{
	struct sp_rdma_qp_attr attr;
	int rc;

	peer_check("asking the queue pair", sp_rdma_qp_query(e->qp, &attr));
	e->peer->retries += attr.retries;
	if (e->cm)
		sp_rdma_cm_destroy(e->cm);
	while ((rc = sp_rdma_qp_destroy(e->qp)) == -EAGAIN)
		sp_progress(e->peer->dev, sp_clock());
	peer_check("destroying the queue pair", rc);
	peer_check("destroying the completion queue", sp_rdma_cq_destroy(e->cq));
}

void peer_receive(struct peer_end *e, uint64_t at, uint32_t len)
{
	const struct sp_rdma_sge sge = {.addr = e->peer->mr->va + at, .len = len, .lkey = e->peer->mr->lkey};
	const struct sp_rdma_recv_wr wr = {.wr_id = at, .sge = &sge, .sges = 1};

	peer_check("posting a receive", sp_rdma_post_recv(e->qp, &wr, NULL));
}

void peer_send(struct peer_end *e, struct sp_rdma_send_wr wr, uint64_t at, uint32_t len)
{
	const struct sp_rdma_sge sge = {.addr = e->peer->mr->va + at, .len = len, .lkey = e->peer->mr->lkey};

	wr.wr_id = at;
	wr.sge = &sge;
	wr.sges = 1;
	wr.flags |= SP_RDMA_SIGNALED;
	peer_check("posting a send", sp_rdma_post_send(e->qp, &wr, NULL));
	e->peer->bytes += len;
}

bool peer_complete(struct peer_end *e, sp_time end)
{
	struct sp_rdma_wc wc;
	char text[64];
	int n;

	while (!(n = sp_rdma_poll_cq(e->cq, &wc, 1))) {
		const sp_time now = sp_clock();

		if (now >= end)
			return false;
		n = sp_rdma_cq_wait(e->cq, end - now);
		if (n && n != -ETIMEDOUT)
			peer_fail("waiting for a completion", n);
	}
	if (n < 0)
		peer_fail("polling", n);
	if (wc.status != SP_RDMA_OK) {
		snprintf(text, sizeof(text), "completion with status %d", (int)wc.status);
		peer_fail(text, 0);
	}
	if (wc.op & SP_RDMA_WC_RECV) {
		e->last = wc;
		e->came++;
		e->peer->bytes += wc.len;
	} else {
		e->sent++;
	}
	return true;
}

static void wait_for(struct peer_end *e, unsigned *completions)
{
	const sp_time end = sp_clock() + PEER_LIMIT;

	while (!*completions)
		if (!peer_complete(e, end))
			peer_fail("waiting for a completion", -ETIMEDOUT);
	--*completions;
}

void peer_wait_sent(struct peer_end *e)
{
	wait_for(e, &e->sent);
}

void peer_wait_came(struct peer_end *e)
{
	wait_for(e, &e->came);
}

/* ---- connections ---- */
struct sp_rdma_cm *peer_listen(struct peer *p, enum sp_cm_kind kind, uint16_t port)
{
	struct sp_rdma_cm *cm;

	peer_check("listener",
		   sp_rdma_cm_create(p->rdma, kind, kind == SP_CM_DATAGRAM ? PEER_UDP : PEER_TCP, NULL, &cm));
	peer_check("listening", sp_rdma_cm_listen(cm, NULL, &port, 256));
	printf("listening %u\n", (unsigned)port);
	fflush(stdout);
	return cm;
}

void peer_request(struct peer *p, struct sp_rdma_cm_event *request)
{
	do
		peer_check("waiting for a request", sp_rdma_cm_wait(p->rdma, request, PEER_LIMIT));
	while (request->type == SP_CM_EVENT_ESTABLISHED);
	if (request->type != SP_CM_EVENT_REQUEST) {
		fprintf(stderr, "peer: event %d, status %d\n", (int)request->type, request->status);
		exit(1);
	}
}

void peer_accept(struct peer_end *e, const struct sp_rdma_cm_event *request)
{
	const struct sp_rdma_link link = {.qkey = PEER_QKEY, .reads = 1, .timeout = PEER_ACK};

	e->event = *request;
	e->cm = request->cm;
	peer_check("accepting", sp_rdma_accept(request, e->qp, &link));
}

void peer_connect(struct peer_end *e, enum sp_cm_kind kind, const char *address, uint16_t port)
{
	struct sp_rdma_link link = {.port = port, .qkey = PEER_QKEY, .reads = 1, .timeout = PEER_ACK};

	peer_address(address, link.to);
	peer_check("id",
		   sp_rdma_cm_create(e->peer->rdma, kind, kind == SP_CM_DATAGRAM ? PEER_UDP : PEER_TCP, e, &e->cm));
	peer_check("connecting", sp_rdma_connect(e->cm, e->qp, &link, &e->event, PEER_LIMIT));
}

void peer_disconnected(struct peer *p)
{
	struct sp_rdma_cm_event event;

	do
		peer_check("waiting for a disconnection", sp_rdma_cm_wait(p->rdma, &event, PEER_LIMIT));
	while (event.type == SP_CM_EVENT_ESTABLISHED || event.type == SP_CM_EVENT_TIMEWAIT);
	if (event.type != SP_CM_EVENT_DISCONNECTED) {
		fprintf(stderr, "peer: event %d, status %d\n", (int)event.type, event.status);
		exit(1);
	}
	sp_rdma_cm_disconnect(event.cm); /* the answer, if we have not been the first */
}

static const struct {
	const char *name;
	int words;
	void (*run)(struct peer *p, char **words);
} verbs[] = {
	{"rping-server", 1, peer_rping_server},
	{"rping-client", 4, peer_rping_client},
	{"cm-server", 4, peer_cm_server},
	{"cm-client", 5, peer_cm_client},
	{"ud-server", 3, peer_ud_server},
	{"ud-client", 4, peer_ud_client},
	{"pingpong", 3, peer_pingpong},
	{"lossy-pingpong", 2, peer_lossy_pingpong},
	{"answer", 0, peer_answer},
};

int main(int argc, char **argv)
{
	const unsigned all = SP_RDMA_LOCAL_WRITE | SP_RDMA_REMOTE_WRITE | SP_RDMA_REMOTE_READ | SP_RDMA_REMOTE_ATOMIC;
	struct peer p = {.dev = NULL};
	struct sp_error error = {.text = ""};
	sp_time began;
	size_t v = 0;
	int rc;

	while (v < sizeof(verbs) / sizeof(*verbs) &&
	       (argc < 3 || strcmp(verbs[v].name, argv[2]) != 0 || verbs[v].words != argc - 3))
		v++;
	if (v == sizeof(verbs) / sizeof(*verbs)) {
		fprintf(stderr, "usage: peer NIC WHAT WORD..., see tests/peers/peer.c\n");
		return 2;
	}
	peer_check("attaching", sp_attach(argv[1], &p.dev));
	rc = sp_rdma_open(p.dev, NULL, &p.rdma, &error);
	if (rc && *error.text)
		fprintf(stderr, "peer: %s: %s\n", error.key, error.text);
	peer_check("verbs", rc);
	peer_check("protection domain", sp_rdma_pd_alloc(p.rdma, &p.pd));
	peer_check("memory", sp_mr_alloc(p.dev, PEER_AREA, &p.memory));
	peer_check("registering", sp_rdma_mr_reg(p.pd, p.memory, 0, PEER_AREA, all, &p.mr));
	p.area = p.memory->addr;
	began = sp_clock();
	verbs[v].run(&p, argv + 3);
	printf("ok %" PRIu64 " %.3f %" PRIu32 "\n", p.bytes, (double)(sp_clock() - began) / SP_SEC, p.retries);
	while (sp_rdma_close(p.rdma) == -EAGAIN)
		sp_progress(p.dev, sp_clock());
	sp_dev_close(p.dev);
	return 0;
}
