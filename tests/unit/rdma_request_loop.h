/* SPDX-License-Identifier: BSD-3-Clause */
/* All of the rdma handler, and a stand-in for the NIC with a link from it to itself: of rdma_request_loop.c. */
#ifndef TESTS_UNIT_RDMA_REQUEST_LOOP_H
#define TESTS_UNIT_RDMA_REQUEST_LOOP_H

#include "../../handlers/rdma/ack.c"
#include "../../handlers/rdma/ah.c"
#include "../../handlers/rdma/answer.c"
#include "../../handlers/rdma/cq.c"
#include "../../handlers/rdma/create.c"
#include "../../handlers/rdma/datagram.c"
#include "../../handlers/rdma/export.c"
#include "../../handlers/rdma/key.c"
#include "../../handlers/rdma/message.c"
#include "../../handlers/rdma/modify.c"
#include "../../handlers/rdma/packet.c"
#include "../../handlers/rdma/peer.c"
#include "../../handlers/rdma/place.c"
#include "../../handlers/rdma/fetch.c"
#include "../../handlers/rdma/flow.c"
#include "../../handlers/rdma/qp.c"
#include "../../handlers/rdma/rate.c"
#include "../../handlers/rdma/rdma.c"
#include "../../handlers/rdma/region.c"
#include "../../handlers/rdma/request.c"
#include "../../handlers/rdma/respond.c"
#include "../../handlers/rdma/retry.c"
#include "../../handlers/rdma/rq.c"
#include "../../handlers/rdma/second.c"
#include "../../handlers/rdma/tell.c"
#include "../../handlers/rdma/wqe.c"
#include "../lib/suite.h"

#define LOG    5
#define DEPTH  (1u << LOG)
#define SLOT   (1u << 15)
#define AREA   (DEPTH * SLOT)
#define SIDE   (8u << 20) /* memory of a side: queues; then areas: SENDs from, receives, WRITEs to, READs from */
#define DATA   (1u << 20)
#define VA     0x7f0000000000ull
#define HEAD   54 /* Ethernet, IPv4, UDP, BTH */
#define IN_AIR 4096
enum { AREA_OWN, AREA_RECEIVE, AREA_WRITTEN, AREA_SOURCE };

struct air {
	sp_time at;
	struct sp_packet p;
	bool used;
	uint8_t frame[HEAD + 64 + 4096 + 4];
};
struct request {
	uint8_t op;
	bool signaled;
	uint32_t len, imm;
	uint64_t from;
	uint8_t *bytes; /* SEND */
};
struct side {
	uint8_t *mem; /* SIDE bytes */
	uint32_t qp, lkey;
	uint32_t posted, done, received, receives, sends, taken, cq_at;
	struct request request[4096];
	uint32_t sent[4096]; /* the requests that take a receive entry */
	uint8_t *wanted;     /* AREA_WRITTEN */
};
static struct {
	struct sp_ctx c;
	struct rdma s;
	uint64_t counters[64];
	struct sp_mem mem;
	struct side side[2];
	struct air air[IN_AIR];
	unsigned airs;
	sp_time link;
	struct sp_issue *issue[2];
	struct sp_timer *timer[8];
	uint64_t random, lents, back;
	sp_time lent[IN_AIR];
	unsigned loss, repeat, late;
	bool bad, waits;
} * n;

static uint32_t draw(uint32_t below)
{
	n->random = n->random * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)((n->random >> 33) % below);
}
#define MUST(x)                                                                                                        \
	do {                                                                                                           \
		if (!(x) && !n->bad) {                                                                                 \
			printf("# %s:%d: %s\n", __func__, __LINE__, #x);                                               \
			n->bad = true;                                                                                 \
		}                                                                                                      \
	} while (0)

/* ---- the NIC ---- */
struct sp_ctx *sp_second(struct sp_ctx *c)
{
	return NULL;
}
void sp_second_end(struct sp_ctx *c)
{
}
void sp_handler_register(const struct sp_handler *h)
{
}
uint64_t sp_param_uint(struct sp_ctx *c, const char *name)
{
	for (const struct sp_param *p = rdma_params; p->name; p++)
		if (!strcmp(name, p->name))
			return !strcmp(p->fallback, "no")      ? 0
			       : !strcmp(name, "cnp-interval") ? 50 * SP_US
			       : strchr(p->fallback, 'K')      ? 1024u * (unsigned)atoi(p->fallback)
							       : (unsigned)atoi(p->fallback);
	return 0x1000; /* qp */
}
static void *given[64]; /* by sp_alloc(), until end() */
static unsigned gave;

void *sp_alloc(struct sp_ctx *c, size_t bytes)
{
	void *p = NULL;

	if (gave == 64 || posix_memalign(&p, 64, bytes))
		abort();
	return given[gave++] = memset(p, 0, bytes);
}
int sp_fail(struct sp_ctx *c, int err, const char *param, const char *format, ...)
{
	return -err;
}
int sp_qp_claim(struct sp_ctx *c, uint32_t count)
{
	return 0;
}
uint64_t sp_hash(struct sp_ctx *c, const void *bytes, size_t len)
{
	return ((const uint8_t *)bytes)[len - 1];
}
uint16_t sp_qp_worker(struct sp_ctx *c, uint32_t index)
{
	return 0;
}
const struct sp_mem *sp_mem_get(struct sp_ctx *c, uint32_t id)
{
	return &n->mem;
}
void sp_mem_put(struct sp_ctx *c, const struct sp_mem *m)
{
}
int sp_path_open(struct sp_ctx *c, const uint8_t ip[16], bool only, struct sp_path **path)
{
	*path = (struct sp_path *)n;
	return 0;
}
void sp_path_close(struct sp_ctx *c, struct sp_path *path)
{
}
uint64_t sp_random(struct sp_ctx *c)
{
	return draw(1u << 31);
}
uint64_t sp_grace_begin(struct sp_ctx *c)
{
	return 0;
}
bool sp_grace_over(struct sp_ctx *c, uint64_t token)
{
	return true;
}
int sp_event_post(struct sp_ctx *c, const struct sp_event *e)
{
	return 0;
}
void sp_report_close(struct sp_report *r)
{
}
void sp_report_open(struct sp_report *r, const char *name, bool list)
{
}
void sp_report_string(struct sp_report *r, const char *name, const char *s)
{
}
void sp_report_uint(struct sp_report *r, const char *name, uint64_t v)
{
}
void sp_dma_fault(struct sp_ctx *c, const struct sp_mem *m, uint64_t offset, uint64_t len)
{
	MUST(!"fault");
}
bool sp_dma_traced(struct sp_ctx *c, const struct sp_mem *m, uint64_t offset, const void *from, uint64_t len)
{
	return false;
}
int sp_dma_store64(struct sp_ctx *c, const struct sp_mem *m, uint64_t offset, uint64_t value)
{
	return sp_dma_write(c, m, offset, &value, 8);
}
int sp_dma_add64(struct sp_ctx *c, const struct sp_mem *m, uint64_t offset, uint64_t add, uint64_t *old)
{
	memcpy(old, m->base + offset, 8);
	return sp_dma_store64(c, m, offset, *old + add);
}
int sp_dma_swap64(struct sp_ctx *c, const struct sp_mem *m, uint64_t offset, uint64_t expect, uint64_t value,
		  uint64_t *old)
{
	memcpy(old, m->base + offset, 8);
	return *old == expect ? sp_dma_store64(c, m, offset, value) : 0;
}
void sp_issue_start(struct sp_ctx *c, struct sp_issue *i)
{
	for (unsigned k = 0; k < 2; k++)
		if (n->side[k].qp && i == &n->s.qp[n->side[k].qp - n->s.first_qp].issue)
			n->issue[k] = i;
}
int sp_timer_arm(struct sp_ctx *c, struct sp_timer *t, sp_time at)
{
	unsigned k = 0;

	while (n->timer[k] && n->timer[k] != t)
		k++;
	n->timer[k] = t;
	t->at = at;
	t->armed = 1;
	return 0;
}
int sp_timer_cancel(struct sp_ctx *c, struct sp_timer *t)
{
	t->armed = 0;
	return 0;
}
uint64_t sp_send_mark(struct sp_ctx *c)
{
	return n->lents;
}
bool sp_send_settled(struct sp_ctx *c, uint64_t mark)
{
	return n->back >= mark;
}
int sp_send_roce(struct sp_ctx *c, struct sp_path *path, const struct sp_send *s)
{
	uint8_t *to;
	unsigned i = 0;

	MUST(s->ext_len <= 64 && s->len <= 4096 && s->psn < 1u << 24);
	if (!draw(100))
		return -EAGAIN;
	n->link = (n->link > c->now ? n->link : c->now) + 100000;
	for (unsigned copies = draw(1000) < n->repeat ? 2 : 1; copies--;) {
		struct air *a;

		while (n->air[i].used)
			i++;
		a = &n->air[i];
		n->airs = i < n->airs ? n->airs : i + 1;
		memset(a->frame, 0, HEAD);
		memcpy(a->frame + 14 + 12, (const uint8_t[]){1, 2, 3, 4}, 4);
		to = a->frame + HEAD - 12;
		to[0] = s->opcode;
		to[1] = (uint8_t)((-s->len & 3) << SP_BTH_PAD_SHIFT);
		to[2] = to[3] = 0xFF;
		to[8] = s->flags & SP_SEND_ACK_REQ ? SP_BTH_ACK_REQ : 0;
		to += 12;
		if (s->ext_len)
			memcpy(to, s->ext, s->ext_len);
		to += s->ext_len;
		for (unsigned k = 0; s->piece && k < s->pieces; to += s->piece[k++].len)
			memcpy(to, s->piece[k].mem->base + s->piece[k].offset, s->piece[k].len);
		if (!s->piece && s->len)
			memcpy(to, s->mem ? s->mem->base + s->offset : s->bytes, s->len);
		a->used = draw(1000) >= n->loss;
		a->at = n->link + 5 * SP_US + (draw(1000) < n->late ? draw(30) * SP_US : 0);
		a->p = (struct sp_packet){.data = a->frame + HEAD,
					  .len = s->ext_len + s->len,
					  .frame = a->frame,
					  .frame_len = HEAD + s->ext_len + s->len + 4,
					  .l3 = 14,
					  .l4 = 34,
					  .dest_qp = s->dest_qp,
					  .psn = s->psn,
					  .opcode = s->opcode,
					  .flags = SP_PKT_ROCE | (s->flags & SP_PKT_SE)};
		a->p.qp_index = (uint16_t)(s->dest_qp - n->s.first_qp);
	}
	if (s->mem)
		n->lent[n->lents++ % IN_AIR] = n->link + SP_US;
	return 0;
}
int sp_send_roce_run(struct sp_ctx *c, struct sp_path *path, const struct sp_send *s, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		const int r = sp_send_roce(c, path, &s[i]);

		if (r)
			return i ? (int)i : r;
	}
	return (int)count;
}

#endif
