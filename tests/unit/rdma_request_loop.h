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
#include "../../handlers/rdma/keep.c"
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
#include "../../handlers/rdma/rkey.c"
#include "../../handlers/rdma/rq.c"
#include "../../handlers/rdma/second.c"
#include "../../handlers/rdma/selective.c"
#include "../../handlers/rdma/slot.c"
#include "../../handlers/rdma/tell.c"
#include "../../handlers/rdma/wqe.c"
#include "../lib/suite.h"

#define LOG   5
#define DEPTH (1u << LOG)
#define SLOT  (1u << 15)
#define AREA  (DEPTH * SLOT)
#ifndef SIDE
#define SIDE   (8u << 20) /* memory of a side: queues; then areas: SENDs from, receives, WRITEs to, READs from */
#define IN_AIR 4096
#endif
#define DATA (1u << 20)
#define VA   0x7f0000000000ull
#define HEAD 54 /* Ethernet, IPv4, UDP, BTH */
enum { AREA_OWN, AREA_RECEIVE, AREA_WRITTEN, AREA_SOURCE };

struct air {
	sp_time at;
	struct sp_packet p;
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
	uint32_t heap[IN_AIR]; /* of air: the first `airs` are on their way, the earliest is the first; the rest is free
				*/
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

/* ---- the link ---- */
#define LOSSES 100000
static sp_time loop_delay = 5 * SP_US, loop_packet = 100000, loop_byte; /* loop_byte: that it takes on the link */
static uint64_t loop_window = 256, loop_buffers = 64;
static bool loop_selective; /* both QPs */
static uint8_t loop_timeout = 7;
static uint32_t loop_rate; /* of a QP, Mbit/s */

static bool air_before(unsigned a, unsigned b)
{
	return n->air[n->heap[a]].at < n->air[n->heap[b]].at;
}

static void air_swap(unsigned a, unsigned b)
{
	const uint32_t i = n->heap[a];

	n->heap[a] = n->heap[b];
	n->heap[b] = i;
}

/* The first free one is on its way. */
static void air_push(void)
{
	for (unsigned i = n->airs++; i && air_before(i, (i - 1) / 2); i = (i - 1) / 2)
		air_swap(i, (i - 1) / 2);
}

/* The earliest has arrived. */
static struct air *air_pop(void)
{
	air_swap(0, --n->airs);
	for (unsigned i = 0, least; 2 * i + 1 < n->airs; i = least) {
		least = 2 * i + 1;
		least += least + 1 < n->airs && air_before(least + 1, least);
		if (!air_before(least, i))
			break;
		air_swap(i, least);
	}
	air_swap(n->airs, IN_AIR - 1); /* what it makes us send takes another place */
	return &n->air[n->heap[IN_AIR - 1]];
}

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
	if (!strcmp(name, "send-window"))
		return loop_window;
	if (!strcmp(name, "selective-buffers"))
		return loop_buffers;
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

	MUST(s->ext_len <= 64 && s->len <= 4096 && s->psn < 1u << 24);
	if (!draw(100))
		return -EAGAIN;
	n->link = (n->link > c->now ? n->link : c->now) + loop_packet + loop_byte * (82 + s->ext_len + s->len);
	for (unsigned copies = draw(1000) < n->repeat ? 2 : 1; copies--;) {
		struct air *a;

		MUST(n->airs < IN_AIR - 1);
		if (n->airs == IN_AIR - 1 || draw(LOSSES) < n->loss)
			continue;
		a = &n->air[n->heap[n->airs]];
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
		a->at = n->link + loop_delay + (draw(1000) < n->late ? draw(30) * SP_US : 0);
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
		air_push();
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

/* ---- control ---- */
static void control(uint32_t op, uint32_t qp, const void *in, uint32_t in_len, void *out, uint32_t out_room)
{
	struct sp_control x = {.op = op, .qp = qp, .in_len = in_len, .in = in, .out = out, .out_room = out_room};

	CU_ASSERT_EQUAL_FATAL(rdma_control(&n->c, &x), 0);
}

static uint32_t make(uint32_t op, const void *in, uint32_t in_len)
{
	struct sp_rdma_id id;

	control(op, 0, in, in_len, &id, sizeof(id));
	return id.id;
}

static void modify(uint32_t qp, struct sp_rdma_qp_attr a, uint32_t state, uint32_t mask)
{
	a.state = state;
	a.mask = mask | SP_RDMA_QP_STATE;
	control(SP_RDMA_QP_MODIFY, qp, &a, sizeof(a), NULL, 0);
}

static void connect(unsigned k, uint32_t mtu)
{
	const struct sp_rdma_qp_attr a = {.access = 15,
					  .ip = {[10] = 0xFF, [11] = 0xFF, 1, 2, 3, 4},
					  .dest_qp = n->side[!k].qp,
					  .rq_psn = 0xFFFFF0 + !k,
					  .sq_psn = 0xFFFFF0 + k,
					  .path_mtu = mtu,
					  .max_rd_atomic = 4,
					  .max_dest_rd_atomic = 4,
					  .min_rnr_timer = 1,
					  .timeout = loop_timeout,
					  .selective = loop_selective,
					  .rate = loop_rate,
					  .retry_cnt = 7,
					  .rnr_retry = 7};

	modify(n->side[k].qp, a, SP_RDMA_INIT, PKEY | PORT | ACCESS);
	modify(n->side[k].qp, a, SP_RDMA_RTR, TO_RTR | SP_RDMA_QP_MAX_DEST_RD | RNR | SP_RDMA_QP_SELECTIVE);
	modify(n->side[k].qp, a, SP_RDMA_RTS, TO_RTS | SP_RDMA_QP_RATE);
}

static void begin(uint64_t seed, uint32_t mtu)
{
	uint32_t pd;

	n = sp_alloc(NULL, sizeof(*n));
	n->random = seed * 2654435761u + 1;
	n->mem = (struct sp_mem){.base = sp_alloc(NULL, 2 * SIDE), .len = 2 * SIDE};
	for (unsigned i = 0; i < IN_AIR; i++)
		n->heap[i] = i;
	n->c = (struct sp_ctx){.state = &n->s, .counters = n->counters, .workers = 1, .now = SP_SEC};
	rdma_configure(&n->c, &(uint64_t){0});
	CU_ASSERT_EQUAL_FATAL(rdma_attach(&n->c), 0);
	pd = make(SP_RDMA_PD_CREATE, NULL, 0);
	for (unsigned k = 0; k < 2; k++) {
		const uint64_t at = k * SIDE;
		struct side *x = &n->side[k];
		const struct sp_rdma_cq_create cq = {.offset = at, .log = 9};
		struct sp_rdma_qp_create qp = {.sq = at + (256 << 10),
					       .rq = at + (512 << 10),
					       .type = SP_RDMA_RC,
					       .pd = pd,
					       .sq_log = LOG,
					       .rq_log = LOG,
					       .send_sges = 4,
					       .recv_sges = 2,
					       .inlined = 64};
		struct {
			struct sp_rdma_mr_reg r;
			struct sp_rdma_segment g[2];
		} mr = {{VA, SIDE - DATA, pd, 15, 2, 0},
			{{5000, at + DATA, 0, 0}, {SIDE - DATA - 5000, at + DATA + 5000, 0, 0}}};
		struct sp_rdma_keys keys;
		struct sp_rdma_qp made;

		x->mem = n->mem.base + at;
		x->wanted = sp_alloc(NULL, AREA);
		for (unsigned i = 0; i < AREA; i += 4)
			*(uint32_t *)(void *)(x->mem + DATA + AREA_SOURCE * AREA + i) = draw(1u << 31);
		memset(x->mem + DATA + AREA_SOURCE * AREA, 0, 8); /* of ATOMICs */
		qp.send_cq = qp.recv_cq = make(SP_RDMA_CQ_CREATE, &cq, sizeof(cq));
		control(SP_RDMA_MR_REG, 0, &mr, sizeof(mr), &keys, sizeof(keys));
		x->lkey = keys.lkey;
		control(SP_RDMA_QP_CREATE, 0, &qp, sizeof(qp), &made, sizeof(made));
		x->qp = made.qp;
	}
	connect(0, mtu);
	connect(1, mtu);
}

/* Takes the completions of a side; of the program. */
static void poll(unsigned k);

/* ---- time ---- */
static bool step(sp_time until)
{
	bool next = false;
	struct sp_timer *timer = NULL;
	sp_time at = until;
	bool more = false;

	for (unsigned i = 0; i < 8; i++)
		if (n->issue[i % 2]) {
			struct sp_issue *issue = n->issue[i % 2];
			int r;

			n->issue[i % 2] = NULL;
			r = rdma_issue(&n->c, issue, 1 + draw(32));
			n->waits |= r == SP_ISSUE_WAIT;
			n->issue[i % 2] = r == SP_ISSUE_MORE ? issue : n->issue[i % 2];
		}
	poll(0);
	poll(1);
	more = n->issue[0] || n->issue[1];
	at = more && n->c.now + SP_US < until ? n->c.now + SP_US : until;
	if (n->airs && n->air[n->heap[0]].at < at) {
		next = true;
		at = n->air[n->heap[0]].at;
	}
	for (unsigned i = 0; i < 8 && n->timer[i]; i++)
		if (n->timer[i]->armed && n->timer[i]->at < at) {
			timer = n->timer[i];
			at = timer->at;
		}
	n->c.now = at > n->c.now ? at : n->c.now;
	for (; n->back < n->lents && n->lent[n->back % IN_AIR] <= n->c.now; n->back++)
		;
	if (n->waits) { /* it is called when ports are done, or too often */
		n->waits = false;
		rdma_qp_start(&n->c, &n->s.qp[n->side[0].qp - n->s.first_qp]);
		rdma_qp_start(&n->c, &n->s.qp[n->side[1].qp - n->s.first_qp]);
		more |= next || timer || n->back < n->lents;
	}
	if (timer) {
		timer->armed = 0;
		rdma_timer(&n->c, timer);
	} else if (next) {
		struct sp_packet *p = &air_pop()->p;

		rdma_payload(&n->c, NULL, &p, 1);
	}
	return (next || timer || more) && n->c.now < until;
}

static void run_for(sp_time t)
{
	const sp_time until = n->c.now + t;

	while (!n->bad && step(until))
		;
	n->c.now = until;
}

#endif
