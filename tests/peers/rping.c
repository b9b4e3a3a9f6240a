/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rping's protocol (librdmacm/examples/rping.c). The client tells where its data are; the server READs them, sends a
 * word; the client tells where they are to go; the server WRITEs them back, sends a word; the client compares.
 */
#include "peer.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD_IN	 0 /* in the area */
#define WORD_OUT 64
#define DATA	 4096
#define BACK	 (PEER_AREA / 2)
#define MOST	 (PEER_AREA / 2 - 4096)

/* What ends send each other; big endian. */
struct info {
	uint64_t address;
	uint32_t rkey, size;
};

static bool word(struct peer_end *e, struct info *info)
{
	peer_wait_came(e);
	if (e->last.len != sizeof(*info))
		peer_fail("the length of rping's word", 0);
	memcpy(info, e->peer->area + WORD_IN, sizeof(*info));
	peer_receive(e, WORD_IN, sizeof(*info));
	info->address = be64toh(info->address);
	info->rkey = be32toh(info->rkey);
	info->size = be32toh(info->size);
	return true;
}

static void say(struct peer_end *e, uint64_t at, uint32_t size)
{
	const struct info info = {
		.address = htobe64(e->peer->mr->va + at), .rkey = htobe32(e->peer->mr->rkey), .size = htobe32(size)};

	memcpy(e->peer->area + WORD_OUT, &info, sizeof(info));
	peer_send(e, (struct sp_rdma_send_wr){.op = SP_RDMA_WR_SEND}, WORD_OUT, sizeof(info));
	peer_wait_sent(e);
}

static void move(struct peer_end *e, enum sp_rdma_wr_op op, const struct info *info)
{
	if (info->size > MOST)
		peer_fail("the size that rping asks for", 0);
	peer_send(e, (struct sp_rdma_send_wr){.op = op, .remote = info->address, .rkey = info->rkey}, DATA, info->size);
	peer_wait_sent(e);
}

/* Until the client disconnects: then its next word does not come, but an event does. */
static bool another(struct peer_end *e)
{
	const sp_time end = sp_clock() + PEER_LIMIT;
	struct sp_rdma_cm_event event;

	while (!e->came && sp_clock() < end) { /* it may have come before the acknowledgement of what it answers */
		struct sp_rdma_wc wc;
		const int n = sp_rdma_poll_cq(e->cq, &wc, 1);

		if (n < 0)
			peer_fail("polling", n);
		/* Receives that are flushed: the event follows. */
		if (n && wc.status == SP_RDMA_OK && wc.op & SP_RDMA_WC_RECV) {
			e->last = wc;
			e->came++;
			return true;
		}
		if (sp_rdma_cm_take(e->peer->rdma, &event) == 1 && event.type == SP_CM_EVENT_DISCONNECTED) {
			sp_rdma_cm_disconnect(event.cm);
			return false;
		}
		if (!n)
			sp_rdma_cq_wait(e->cq, 20 * SP_MS);
	}
	if (!e->came)
		peer_fail("waiting for rping", -ETIMEDOUT);
	return true;
}

void peer_rping_server(struct peer *p, char **words)
{
	struct sp_rdma_cm *listener = peer_listen(p, SP_CM_CONNECTED, (uint16_t)atoi(words[0]));
	struct sp_rdma_cm_event request;
	struct peer_end e;
	struct info info;
	unsigned pings = 0;

	peer_request(p, &request);
	peer_end_open(p, &e, SP_RDMA_RC, 16);
	peer_check("preparing", sp_rdma_prepare(e.qp, &(struct sp_rdma_link){.reads = 1}));
	peer_receive(&e, WORD_IN, sizeof(info));
	peer_accept(&e, &request);
	while (another(&e)) {
		word(&e, &info);
		move(&e, SP_RDMA_WR_READ, &info);
		say(&e, DATA, info.size);
		word(&e, &info);
		move(&e, SP_RDMA_WR_WRITE, &info);
		say(&e, DATA, info.size);
		pings++;
	}
	printf("pings %u\n", pings);
	peer_end_close(&e);
	sp_rdma_cm_destroy(listener);
}

void peer_rping_client(struct peer *p, char **words)
{
	const unsigned count = (unsigned)atoi(words[2]), size = (unsigned)atoi(words[3]);
	struct peer_end e;
	struct info info;

	if (!size || size > MOST)
		peer_fail("size", 0);
	peer_end_open(p, &e, SP_RDMA_RC, 16);
	peer_check("preparing", sp_rdma_prepare(e.qp, &(struct sp_rdma_link){.reads = 1}));
	peer_receive(&e, WORD_IN, sizeof(info));
	peer_connect(&e, SP_CM_CONNECTED, words[0], (uint16_t)atoi(words[1]));
	for (unsigned k = 0; k < count; k++) {
		/* A text: rping's server writes back as far as its first zero. */
		for (unsigned i = 0; i + 1 < size; i++)
			p->area[DATA + i] = (uint8_t)(1 + (i * 7 + k) % 255);
		p->area[DATA + size - 1] = 0;
		memset(p->area + BACK, 0, size);
		say(&e, DATA, size);
		word(&e, &info);
		say(&e, BACK, size);
		word(&e, &info);
		if (memcmp(p->area + DATA, p->area + BACK, size) != 0)
			peer_fail("what came back", 0);
		p->bytes += 2 * (uint64_t)size; /* moved by the server */
	}
	peer_check("disconnecting", sp_rdma_cm_disconnect(e.cm));
	peer_end_close(&e);
}
