/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opposite ibv_rc_pingpong, ibv_uc_pingpong, ibv_ud_pingpong and ibv_srq_pingpong (libibverbs/examples). They receive
 * into the buffer that they send from, so what they send is what they were sent last: each message says the next one's
 * bytes. Who starts us does what they do over TCP: we say "qp QPN PSN", and read "first|second ADDRESS QPN PSN".
 */
#include "peer.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PINGPONG_QKEY  0x11111111u
#define PINGPONG_FIRST 0x7B /* what a client sends before it has received anything; with an SRQ, zeros */
#define PINGPONG_PSN   0x123456u
#define PINGPONG_MTU   1024
#define IN	       (PEER_AREA / 2)

struct pingpong {
	struct peer_end end;
	struct sp_rdma_srq *srq;
	struct sp_rdma_send_wr wr;
	enum sp_rdma_qp_type type;
	unsigned count, size;
};

static void open_end(struct peer *p, struct pingpong *g, const char *type)
{
	const struct sp_rdma_srq_attr attr = {.entries = 16, .sges = 1};
	struct sp_rdma_qp_init init = {.send_wr = 16, .recv_wr = 16};

	g->type = !strcmp(type, "uc") ? SP_RDMA_UC : !strcmp(type, "ud") ? SP_RDMA_UD : SP_RDMA_RC;
	g->end.peer = p;
	peer_check("completion queue", sp_rdma_cq_create(p->rdma, 64, true, NULL, &g->end.cq));
	if (!strcmp(type, "srq"))
		peer_check("shared receive queue", sp_rdma_srq_create(p->pd, &attr, &g->srq));
	init.type = g->type;
	init.srq = g->srq;
	init.send_cq = init.recv_cq = g->end.cq;
	peer_check("queue pair", sp_rdma_qp_create(p->pd, &init, &g->end.qp));
	peer_check("preparing", sp_rdma_prepare(g->end.qp, &(struct sp_rdma_link){.qkey = PINGPONG_QKEY}));
}

static void receive(struct pingpong *g)
{
	const struct sp_rdma_sge sge = {.addr = g->end.peer->mr->va + IN,
					.len = g->size + (g->type == SP_RDMA_UD ? SP_RDMA_GRH : 0),
					.lkey = g->end.peer->mr->lkey};
	const struct sp_rdma_recv_wr wr = {.sge = &sge, .sges = 1};

	peer_check("posting a receive",
		   g->srq ? sp_rdma_post_srq_recv(g->srq, &wr, NULL) : sp_rdma_post_recv(g->end.qp, &wr, NULL));
}

/* To RTS, towards what the line says. Whether we send first. */
static bool connect_end(struct pingpong *g)
{
	struct sp_rdma_qp_attr rtr = {
		.mask = SP_RDMA_QP_STATE, .state = SP_RDMA_RTR, .path_mtu = PINGPONG_MTU, .hop_limit = 64};
	struct sp_rdma_qp_attr rts = {
		.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_SQ_PSN, .state = SP_RDMA_RTS, .sq_psn = PINGPONG_PSN};
	struct sp_rdma_ah ah = {.hop_limit = 64};
	char line[256], role[8], address[64];

	if (!fgets(line, sizeof(line), stdin) ||
	    sscanf(line, "%7s %63s %" SCNu32 " %" SCNu32, role, address, &rtr.dest_qp, &rtr.rq_psn) != 4)
		peer_fail("the line that says where to", -EINVAL);
	peer_address(address, rtr.ip);
	memcpy(ah.ip, rtr.ip, sizeof(ah.ip));
	g->wr = (struct sp_rdma_send_wr){.op = SP_RDMA_WR_SEND};
	if (g->type == SP_RDMA_UD) {
		g->wr.remote_qp = rtr.dest_qp;
		g->wr.qkey = PINGPONG_QKEY;
		peer_check("address handle", sp_rdma_ah_create(g->end.peer->pd, &ah, &g->wr.ah));
	} else {
		rtr.mask |= SP_RDMA_QP_AV | SP_RDMA_QP_PATH_MTU | SP_RDMA_QP_DEST_QP | SP_RDMA_QP_RQ_PSN;
	}
	if (g->type == SP_RDMA_RC) {
		rtr.mask |= SP_RDMA_QP_MAX_DEST_RD | SP_RDMA_QP_MIN_RNR;
		rtr.max_dest_rd_atomic = 1;
		rtr.min_rnr_timer = 12;
		rts.mask |= SP_RDMA_QP_TIMEOUT | SP_RDMA_QP_RETRY_CNT | SP_RDMA_QP_RNR_RETRY | SP_RDMA_QP_MAX_RD;
		rts.timeout = PEER_ACK;
		rts.retry_cnt = rts.rnr_retry = 7;
		rts.max_rd_atomic = 1;
	}
	peer_check("ready to receive", sp_rdma_qp_modify(g->end.qp, &rtr));
	peer_check("ready to send", sp_rdma_qp_modify(g->end.qp, &rts));
	return !strcmp(role, "first");
}

static void send(struct pingpong *g, unsigned k)
{
	for (unsigned i = 0; i < g->size; i++)
		g->end.peer->area[i] = (uint8_t)(i * 5 + k * 3 + 1);
	peer_send(&g->end, g->wr, 0, g->size);
}

/* The message that came is what we have sent last, or a client's first. */
static void look(struct pingpong *g, bool first)
{
	const uint32_t grh = g->type == SP_RDMA_UD ? SP_RDMA_GRH : 0;
	const uint8_t *in = g->end.peer->area + IN + grh;

	peer_wait_came(&g->end);
	if (g->end.last.len != g->size + grh)
		peer_fail("a message's length", 0);
	for (unsigned i = 0; i < g->size; i++)
		if (in[i] != (!first ? g->end.peer->area[i] : g->srq ? 0 : PINGPONG_FIRST))
			peer_fail("a message's bytes", 0);
}

static void begin(struct pingpong *g, struct peer *p, const char *type)
{
	if (!g->size || g->size > PEER_AREA / 2 - SP_RDMA_GRH)
		peer_fail("size", 0);
	open_end(p, g, type);
	printf("qp %" PRIu32 " %u\n", sp_rdma_qp_number(g->end.qp), PINGPONG_PSN);
	fflush(stdout);
	for (unsigned i = 0; i < 2; i++)
		receive(g);
}

static bool ready(struct pingpong *g)
{
	const bool first = connect_end(g);

	printf("ready\n");
	fflush(stdout);
	return first;
}

void peer_pingpong(struct peer *p, char **words)
{
	struct pingpong g = {.count = (unsigned)atoi(words[1]), .size = (unsigned)atoi(words[2])};
	bool first;

	begin(&g, p, words[0]);
	first = ready(&g);
	for (unsigned k = 0; k < g.count; k++) {
		if (first)
			send(&g, k);
		look(&g, !first && !k);
		receive(&g);
		if (!first)
			send(&g, k);
		peer_wait_sent(&g.end);
	}
	peer_end_close(&g.end);
	peer_check("destroying the shared receive queue", sp_rdma_srq_destroy(g.srq));
}

/* ---- over a link that loses: UC and UD repeat nothing ---- */
#define SILENCE	 (SP_SEC / 2) /* after it what was sent, or its answer, is taken to be lost */
#define SILENCES 100	      /* one after the other: there is nobody */
#define BEFORE	 -1	      /* the number of a client's first message */

struct lossy {
	struct pingpong g;
	bool strict;	 /* see peer_lossy_pingpong() */
	int sent, heard; /* the numbers of the latest messages */
	unsigned came, lost;
};

/* Which message came: the number of one that we have sent whose bytes it has, all of them. */
static int which(const struct lossy *l)
{
	const uint8_t *in = l->g.end.peer->area + IN + (l->g.type == SP_RDMA_UD ? SP_RDMA_GRH : 0);
	const uint8_t k = (uint8_t)((in[0] - 1) * 171); /* 3 * 171 is 1, modulo 256: as send() counts */
	bool whole = true, first = true;

	for (unsigned i = 0; i < l->g.size; i++) {
		whole = whole && in[i] == (uint8_t)(i * 5 + k * 3u + 1);
		first = first && in[i] == PINGPONG_FIRST;
	}
	if (!whole && !first)
		peer_fail("a message's bytes", 0);
	return whole ? l->sent - (uint8_t)(l->sent - k) : BEFORE;
}

/* Until the message of this number has come. False: silence came first. */
static bool hears(struct lossy *l, int number)
{
	const uint32_t grh = l->g.type == SP_RDMA_UD ? SP_RDMA_GRH : 0;
	struct peer_end *e = &l->g.end;

	do {
		const sp_time end = sp_clock() + SILENCE;
		int k;

		while (!e->came)
			if (!peer_complete(e, end))
				return false;
		e->came--;
		l->came++;
		if (e->last.len != l->g.size + grh)
			peer_fail("a message's length", 0);
		k = which(l);
		if (k < l->heard + l->strict)
			peer_fail("the order of messages", 0);
		l->heard = k;
		receive(&l->g);
	} while (l->heard != number);
	return true;
}

/*
 * One message is under way at a time. Those of several packets on UC come in order, and none twice: a packet that is
 * repeated, or late, ends the message that it belongs to. One packet that is repeated is two messages. Ends in silence,
 * once stdin has been closed; says how many messages came, and how often there was silence.
 */
void peer_lossy_pingpong(struct peer *p, char **words)
{
	struct lossy l = {.g.size = (unsigned)atoi(words[1]), .sent = BEFORE, .heard = BEFORE - 1};
	struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
	bool first, heard;
	unsigned row = 0;

	begin(&l.g, p, words[0]);
	l.strict = l.g.type == SP_RDMA_UC && l.g.size > PINGPONG_MTU;
	first = ready(&l.g);
	heard = first || hears(&l, BEFORE);
	while (heard || !poll(&in, 1, 0)) {
		row = heard ? 0 : row + 1;
		l.lost += !heard;
		if (row == SILENCES)
			peer_fail("waiting for an answer", -ETIMEDOUT);
		send(&l.g, (unsigned)++l.sent);
		peer_wait_sent(&l.g.end);
		heard = hears(&l, l.sent);
	}
	printf("came %u silences %u\n", l.came, l.lost);
	peer_end_close(&l.g.end);
}
