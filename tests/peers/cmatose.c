/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The protocols of ucmatose, cmtime and udaddy (librdmacm/examples). Connected: several connections; the server sends
 * MESSAGES on each, the client answers with as many, the server disconnects. Without messages the client disconnects.
 * Datagrams: the client sends first; the immediate of each message is its sender's QP number.
 */
#include "peer.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST 1024 /* connections */

struct counts {
	unsigned ends, messages, size;
};

static struct peer_end end[MOST];

static struct counts counts(char **words, bool datagrams)
{
	const struct counts c = {.ends = datagrams ? 1 : (unsigned)atoi(words[0]),
				 .messages = (unsigned)atoi(words[!datagrams]),
				 .size = (unsigned)atoi(words[1 + !datagrams])};

	if (!c.ends || c.ends > MOST || c.messages > 1000 || c.size > PEER_AREA / 4)
		peer_fail("counts", 0);
	return c;
}

static void prepare(struct peer *p, struct peer_end *e, enum sp_rdma_qp_type type, const struct counts *c)
{
	const uint32_t size = c->size + (type == SP_RDMA_UD ? SP_RDMA_GRH : 0);

	peer_end_open(p, e, type, c->messages + 1);
	peer_check("preparing", sp_rdma_prepare(e->qp, &(struct sp_rdma_link){.qkey = PEER_QKEY, .reads = 1}));
	for (unsigned k = 0; k < c->messages; k++)
		peer_receive(e, PEER_AREA / 2, size); /* nobody looks at the bytes: all into the same */
}

static void send_all(const struct counts *c, struct sp_rdma_send_wr wr)
{
	for (unsigned i = 0; i < c->ends; i++)
		for (unsigned k = 0; k < c->messages; k++)
			peer_send(&end[i], wr, 0, c->size);
	for (unsigned i = 0; i < c->ends; i++)
		for (unsigned k = 0; k < c->messages; k++)
			peer_wait_sent(&end[i]);
}

static void take_all(const struct counts *c, uint32_t len)
{
	for (unsigned i = 0; i < c->ends; i++)
		for (unsigned k = 0; k < c->messages; k++) {
			peer_wait_came(&end[i]);
			if (end[i].last.len != len)
				peer_fail("a message's length", 0);
		}
}

static void leave(struct peer *p, const struct counts *c, bool first)
{
	for (unsigned i = 0; first && i < c->ends; i++)
		peer_check("disconnecting", sp_rdma_cm_disconnect(end[i].cm));
	for (unsigned i = 0; i < c->ends; i++)
		peer_disconnected(p);
	for (unsigned i = 0; i < c->ends; i++)
		peer_end_close(&end[i]);
}

static const struct sp_rdma_send_wr plain = {.op = SP_RDMA_WR_SEND};

void peer_cm_server(struct peer *p, char **words)
{
	const struct counts c = counts(words + 1, false);
	struct sp_rdma_cm *listener = peer_listen(p, SP_CM_CONNECTED, (uint16_t)atoi(words[0]));
	struct sp_rdma_cm_event request;

	for (unsigned i = 0; i < c.ends; i++) {
		peer_request(p, &request);
		prepare(p, &end[i], SP_RDMA_RC, &c);
		peer_accept(&end[i], &request);
	}
	send_all(&c, plain);
	take_all(&c, c.size);
	leave(p, &c, c.messages != 0);
	sp_rdma_cm_destroy(listener);
}

void peer_cm_client(struct peer *p, char **words)
{
	const struct counts c = counts(words + 2, false);

	for (unsigned i = 0; i < c.ends; i++) {
		prepare(p, &end[i], SP_RDMA_RC, &c);
		peer_connect(&end[i], SP_CM_CONNECTED, words[0], (uint16_t)atoi(words[1]));
	}
	take_all(&c, c.size);
	send_all(&c, plain);
	leave(p, &c, c.messages == 0);
}

/* ---- datagrams ---- */
static void datagrams(struct peer *p, const struct counts *c, const uint8_t ip[16], uint32_t qp, uint32_t qkey)
{
	struct sp_rdma_send_wr wr = {.op = SP_RDMA_WR_SEND_IMM, .remote_qp = qp, .qkey = qkey};
	struct sp_rdma_ah ah = {.hop_limit = 64};

	for (unsigned k = 0; k < 16; k++)
		ah.ip[k] = ip[k];
	peer_check("address handle", sp_rdma_ah_create(p->pd, &ah, &wr.ah));
	wr.imm = htonl(sp_rdma_qp_number(end[0].qp));
	send_all(c, wr);
}

void peer_ud_server(struct peer *p, char **words)
{
	const struct counts c = counts(words + 1, true);
	struct sp_rdma_cm *listener = peer_listen(p, SP_CM_DATAGRAM, (uint16_t)atoi(words[0]));
	struct sp_rdma_cm_event request;

	peer_request(p, &request);
	prepare(p, &end[0], SP_RDMA_UD, &c);
	peer_accept(&end[0], &request);
	take_all(&c, c.size + SP_RDMA_GRH);
	datagrams(p, &c, request.peer, ntohl(end[0].last.imm), PEER_QKEY);
	peer_end_close(&end[0]);
	sp_rdma_cm_destroy(listener);
}

void peer_ud_client(struct peer *p, char **words)
{
	const struct counts c = counts(words + 2, true);
	uint8_t ip[16];

	peer_address(words[0], ip);
	prepare(p, &end[0], SP_RDMA_UD, &c);
	peer_connect(&end[0], SP_CM_DATAGRAM, words[0], (uint16_t)atoi(words[1]));
	datagrams(p, &c, ip, end[0].event.qp, end[0].event.qkey);
	take_all(&c, c.size + SP_RDMA_GRH);
	peer_end_close(&end[0]);
}
