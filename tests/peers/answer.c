/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A QP that answers what rc_replay.py asks, as one of Linux's has answered it in a capture. Each line on stdin is a
 * call and is answered by a line; numbers are decimal or 0x, bytes hexadecimal.
 *
 *   region VA LEN ACCESS          RKEY: memory of its own at these addresses, zeroed
 *   store VA BYTES                ok: what the application puts there
 *   load VA LEN                   BYTES
 *   receive LEN                   ok: one more receive
 *   ready ADDRESS QP PSN MTU      QP: the connection's other end, and the first PSN to come from there
 *   took                          LEN IMM BYTES of the next receive that has completed (IMM: 0 without one)
 *   counts                        RETRIES NAKS RNRS: what the QP has counted, the latter two sent
 */
#include "peer.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REGIONS	 16
#define RECEIVES 256
#define ROOM	 16384 /* of a receive, at most; all in the area */

static struct region {
	uint64_t va, len;
	struct sp_mr *memory;
	struct sp_rdma_mr *mr;
} region[REGIONS];
static unsigned regions, posted;
static char *arg[5];

static uint64_t number(unsigned k)
{
	return strtoull(arg[k] ? arg[k] : "", NULL, 0);
}

static uint8_t *at(uint64_t va, uint64_t len)
{
	for (unsigned k = 0; k < regions; k++) {
		const struct region *r = &region[k];

		if (va >= r->va && va - r->va <= r->len && len <= r->len - (va - r->va))
			return (uint8_t *)r->memory->addr + (va - r->va);
	}
	peer_fail("an address", -EFAULT);
}

static void hex(const uint8_t *bytes, uint64_t len)
{
	for (uint64_t k = 0; k < len; k++)
		printf("%02x", bytes[k]);
}

static void add_region(struct peer *p)
{
	struct region *r = &region[regions];
	struct sp_rdma_range range;

	if (regions == REGIONS)
		peer_fail("regions", -ENOSPC);
	r->va = number(1);
	r->len = number(2);
	peer_check("memory", sp_mr_alloc(p->dev, r->len, &r->memory));
	range = (struct sp_rdma_range){.mr = r->memory, .len = r->len};
	peer_check("region", sp_rdma_mr_reg_ranges(p->pd, r->va, &range, 1, (unsigned)number(3), &r->mr));
	regions++;
	printf("%" PRIu32, r->mr->rkey);
}

static void store(void)
{
	const char *digits = arg[2] ? arg[2] : "";
	const uint64_t len = strlen(digits) / 2;
	uint8_t *to = at(number(1), len);

	for (uint64_t k = 0; k < len; k++) {
		const char two[3] = {digits[2 * k], digits[2 * k + 1], '\0'};

		to[k] = (uint8_t)strtoul(two, NULL, 16);
	}
	printf("ok");
}

static void receive(struct peer_end *e)
{
	if (posted == RECEIVES || number(1) > ROOM)
		peer_fail("receives", -ENOSPC);
	peer_receive(e, (uint64_t)posted++ * ROOM, (uint32_t)number(1));
	printf("ok");
}

static void ready(struct peer_end *e)
{
	struct sp_rdma_qp_attr a = {.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_AV | SP_RDMA_QP_PATH_MTU |
					    SP_RDMA_QP_DEST_QP | SP_RDMA_QP_RQ_PSN | SP_RDMA_QP_MAX_DEST_RD |
					    SP_RDMA_QP_MIN_RNR,
				    .state = SP_RDMA_RTR,
				    .dest_qp = (uint32_t)number(2),
				    .rq_psn = (uint32_t)number(3),
				    .path_mtu = (uint32_t)number(4),
				    .hop_limit = 64,
				    .max_dest_rd_atomic = SP_RDMA_READS,
				    .min_rnr_timer = 12};

	peer_address(arg[1] ? arg[1] : "", a.ip);
	peer_check("ready to receive", sp_rdma_qp_modify(e->qp, &a));
	printf("%" PRIu32, sp_rdma_qp_number(e->qp));
}

static void took(struct peer_end *e)
{
	peer_wait_came(e);
	printf("%" PRIu32 " %" PRIu32 " ", e->last.len, e->last.flags & SP_RDMA_WC_IMM ? be32toh(e->last.imm) : 0);
	hex(e->peer->area + e->last.wr_id, e->last.op == SP_RDMA_WC_RECV ? e->last.len : 0);
}

static void count(struct peer_end *e)
{
	struct sp_rdma_qp_attr a;

	peer_check("asking the queue pair", sp_rdma_qp_query(e->qp, &a));
	printf("%" PRIu32 " %" PRIu32 " %" PRIu32, a.retries, a.naks_sent, a.rnrs_sent);
}

static void call(struct peer *p, struct peer_end *e)
{
	const char *verb = arg[0] ? arg[0] : "";

	if (!strcmp(verb, "region"))
		add_region(p);
	else if (!strcmp(verb, "store"))
		store();
	else if (!strcmp(verb, "load"))
		hex(at(number(1), number(2)), number(2));
	else if (!strcmp(verb, "receive"))
		receive(e);
	else if (!strcmp(verb, "ready"))
		ready(e);
	else if (!strcmp(verb, "took"))
		took(e);
	else if (!strcmp(verb, "counts"))
		count(e);
	else
		peer_fail("call", -EINVAL);
	printf("\n");
	fflush(stdout);
}

void peer_answer(struct peer *p, char **words)
{
	struct peer_end e;
	size_t room = 0;
	char *line = NULL;

	(void)words;
	peer_end_open(p, &e, SP_RDMA_RC, RECEIVES);
	peer_check("preparing", sp_rdma_prepare(e.qp, &(struct sp_rdma_link){.reads = SP_RDMA_READS}));
	while (getline(&line, &room, stdin) > 0) {
		char *rest = line;

		for (unsigned k = 0; k < 5; k++)
			arg[k] = strtok_r(k ? NULL : line, " \n", &rest);
		call(p, &e);
	}
	free(line);
	peer_end_close(&e);
}
