/* SPDX-License-Identifier: BSD-3-Clause */
#include "client.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "../../handlers/wire/cm.h"
#include "../interrupt.h"
#include "show.h"

/* ---- words ---- */
static int word_came(struct rdma_ends *e, struct rdma_queue *q, const struct rdma_word *word, uint32_t imm)
{
	(void)e, (void)imm;
	q->answer = *word;
	return 0;
}

int rdma_client_ask(struct rdma_ends *e, uint32_t imm, uint64_t count, uint64_t size, struct rdma_word *answer)
{
	struct rdma_queue *q = &e->queue[0];
	const struct rdma_word word = {.number = ++q->last_word, .count = count, .size = size};
	const sp_time end = sp_clock() + RDMA_SILENCE;
	sp_time again = 0;

	while (q->answer.number != word.number) {
		const sp_time now = sp_clock();

		if (interrupt_came())
			return rdma_fail(e->asked, "interrupted");
		if (now >= end)
			return rdma_fail(e->asked, "the peer does not answer");
		if (now >= again && (e->how.type != SP_RDMA_RC || !again)) {
			if (rdma_ends_say(e, q, &word, imm))
				return -1;
			again = now + 200 * SP_MS;
		}
		if (rdma_ends_wait(e) < 0)
			return -1;
	}
	*answer = q->answer;
	return 0;
}

/* ---- connecting ---- */
static int target(struct rdma_ends *e, struct rdma_queue *q, const struct sp_rdma_cm_event *reply)
{
	struct sp_rdma_ah ah = {.hop_limit = 64};
	int rc;

	memcpy(ah.ip, e->asked->to, sizeof(ah.ip));
	rc = sp_rdma_ah_create(e->pd, &ah, &q->ah);
	q->remote_qp = reply->qp;
	q->qkey = reply->qkey;
	return rc ? rdma_fail_nic(e->asked, "address handle", rc) : 0;
}

static int connect_queue(struct rdma_ends *e, struct rdma_queue *q)
{
	const bool ud = e->how.type == SP_RDMA_UD;
	struct sp_rdma_cm_event reply = {.status = 0};
	struct rdma_reply answer;
	int rc = sp_rdma_cm_create(e->rdma, ud ? SP_CM_DATAGRAM : SP_CM_CONNECTED, ud ? 0x0111 : 0x0106, q, &q->cm);

	if (rc)
		return rdma_fail_nic(e->asked, "connection", rc);
	e->how.index = (uint16_t)q->index;
	e->how.qp = sp_rdma_qp_number(q->qp);
	e->how.rkey = e->mr->rkey;
	e->how.va = (uintptr_t)q->area;
	e->link.private_data = &e->how;
	e->link.private_len = sizeof(e->how);
	rc = sp_rdma_connect(q->cm, q->qp, &e->link, &reply, e->asked->timeout * SP_SEC);
	if (rc == -ECONNREFUSED && reply.status == SP_CM_CONSUMER)
		return rdma_fail(e->asked, "the server refuses: it has another client, or measures something else");
	if (rc == -ECONNREFUSED)
		return rdma_fail(e->asked, "refused, reason %d", reply.status);
	if (rc)
		return rdma_fail_nic(e->asked, "connecting", rc);
	if (reply.private_len < sizeof(answer))
		return rdma_fail(e->asked, "the peer is no spindle rdma");
	memcpy(&answer, reply.private_data, sizeof(answer));
	if (answer.magic != RDMA_MAGIC)
		return rdma_fail(e->asked, "the peer is another version of spindle rdma, or has another byte order");
	q->rkey = answer.rkey;
	q->va = answer.va;
	q->connected = true;
	e->peer_srq = reply.srq;
	return ud ? target(e, q, &reply) : 0;
}

static int session(struct rdma_ends *e)
{
	const struct rdma_asked *a = e->asked;
	static const uint8_t types[] = {SP_RDMA_RC, SP_RDMA_UC, SP_RDMA_UD};

	e->word = word_came;
	e->how = (struct rdma_hello){.magic = RDMA_MAGIC,
				     .mode = (uint8_t)a->mode,
				     .op = (uint8_t)a->op,
				     .type = types[a->type],
				     .flags = a->verify ? RDMA_HELLO_VERIFY : 0,
				     .size = (uint32_t)a->size,
				     .depth = (uint16_t)a->depth,
				     .queues = (uint16_t)a->queues,
				     .mtu = (uint16_t)a->mtu};
	if (getrandom(&e->how.session, sizeof(e->how.session), 0) != sizeof(e->how.session))
		return rdma_fail(a, "no random numbers");
	e->link = (struct sp_rdma_link){.port = (uint16_t)a->port,
					.path_mtu = (uint32_t)a->mtu,
					.timeout = (uint8_t)a->qp_timeout,
					.selective = a->selective};
	memcpy(e->link.to, a->to, sizeof(e->link.to));
	memcpy(e->link.from, a->from, sizeof(e->link.from));
	return 0;
}

/* The path MTU must fit into the port's packets, beside the headers. */
static int check_mtu(const struct rdma_ends *e)
{
	const uint32_t port = sp_dev_payload(e->dev, show_family(e->asked->to));

	return e->asked->mtu <= port ? 0
				     : rdma_fail(e->asked, "-m %u does not fit into the port's packets, which hold %u",
						 (unsigned)e->asked->mtu, port);
}

static int run(struct rdma_ends *e)
{
	const struct rdma_asked *a = e->asked;
	int (*const measure[])(struct rdma_ends *, uint64_t) = {rdma_client_bw, rdma_client_lat, rdma_client_ping};
	uint64_t size = a->all ? a->op == RDMA_ATOMIC ? 8 : 2 : a->size;
	struct rdma_word answer;
	int rc = 0;

	show_head(a);
	do
		rc = measure[a->mode](e, size);
	while (!rc && (size *= 2) <= a->size && a->all && !interrupt_came());
	if (!rc)
		rc = rdma_client_ask(e, RDMA_BYE, 0, 0, &answer);
	return rc;
}

int rdma_client(const struct rdma_asked *a)
{
	struct rdma_ends e;
	int rc = rdma_ends_attach(&e, a);

	rc = rc ? rc : check_mtu(&e);
	rc = rc ? rc : session(&e);
	rc = rc ? rc : rdma_ends_open(&e);
	for (uint32_t i = 0; !rc && i < e.queues; i++)
		rc = connect_queue(&e, &e.queue[i]);
	rc = rc ? rc : run(&e);
	for (uint32_t i = 0; e.queue && i < e.queues; i++)
		if (e.queue[i].connected && e.how.type != SP_RDMA_UD)
			sp_rdma_cm_disconnect(e.queue[i].cm);
	rdma_ends_detach(&e);
	return rc;
}
