/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The requester of rdma alone: stand-ins for the NIC and for the rest of the handler, a peer that was written from the
 * specification, and a link between them that loses, repeats and reorders. In virtual time. One program includes it.
 */
#ifndef TESTS_UNIT_RDMA_REQUEST_H
#define TESTS_UNIT_RDMA_REQUEST_H

#define RDMA_READ_PART 20 /* a longer READ has several requests */
#include "../../handlers/rdma/ack.c"
#include "../../handlers/rdma/packet.c"
#include "../../handlers/rdma/rate.c"
#include "../../handlers/rdma/request.c"
#include "../../handlers/rdma/retry.c"
#include "../../handlers/rdma/second.c"
#include "../../handlers/rdma/selective.c"
#include "../../handlers/rdma/slot.c"
#include "../../handlers/rdma/wqe.c"
#include "../lib/suite.h"

#define LOG	 6
#define DEPTH	 (1u << LOG)
#define SLOT	 (1u << 16) /* bytes of a work request's memory */
#define MEMORY	 (DEPTH * SLOT)
#define BASE	 0x7f0000000000ull /* where the application sees it */
#define REMOTE	 0x100000ull
#define SEGMENT	 3001 /* bytes: pieces end there */
#define IN_AIR	 4096
#define LKEY	 0x11
#define RKEY	 0x22
#define QPN	 0x1234
#define PEER_QPN 0x4321

struct air { /* a packet on its way */
	sp_time at;
	struct sp_packet p;
	bool ask, to_peer, used;
	uint8_t bytes[32 + 4096];
};
struct lent { /* of a port */
	sp_time until;
	uint64_t from, len;
};
struct expected {
	uint64_t wr_id;
	uint8_t op;
	bool signaled;
	uint32_t len, entries;
	uint64_t from; /* READ: offset of the source; ATOMIC: value before */
	unsigned sges;
	struct sp_rdma_sge sge[4];
};

static struct world {
	struct sp_ctx c;
	struct rdma s;
	struct rdma_qp qp;
	struct rdma_cq cq;
	struct sp_mem mem, queue;
	struct rdma_mr mr;
	uint64_t counters[64];
	unsigned loss, repeat, late, rnr; /* of 1000 */
	unsigned eagain;
	uint64_t random;
	bool running; /* the issue */
	int result;
	sp_time timer;
	struct air air[IN_AIR];
	sp_time link[2];
	struct lent lent[IN_AIR];
	uint64_t lents, back;
	/* the application */
	struct expected expected[1 << 16];
	unsigned posted, done, completions, atomics;
	struct sp_rdma_cqe last;
	uint8_t error;
	unsigned told, errors;
	bool bad, quiet; /* quiet: it may be */
	unsigned airs;	 /* no packet is behind these */
	/* the peer */
	uint32_t epsn, msn;
	bool silent, ack_due, mute;
	uint8_t refuse; /* syndrome for the next request */
	sp_time ack_at;
	uint32_t ack_psn;
	uint8_t *message; /* that is arriving */
	uint32_t got, total;
	uint64_t va;
	uint8_t kind; /* 0: none, 1: SEND, 2: WRITE */
	uint8_t *written, *wanted, *source;
	uint64_t counter, saved_value[1 << 16];
	uint32_t saved_psn[1 << 16], saved;
	struct {
		uint8_t *bytes;
		uint32_t len, imm;
		uint8_t op;
	} send[1 << 16];
	unsigned sends, received;
	unsigned packets, asked_reads;
} * w;

static inline uint32_t draw(uint32_t below)
{
	w->random = w->random * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)((w->random >> 33) % below);
}
#define MUST(x)                                                                                                        \
	do {                                                                                                           \
		if (!(x) && !w->bad) {                                                                                 \
			if (!w->quiet)                                                                                 \
				printf("# %s:%d: %s\n", __func__, __LINE__, #x);                                       \
			w->bad = true;                                                                                 \
		}                                                                                                      \
	} while (0)

/* ---- the rest of the handler ---- */
struct rdma_mr *rdma_key_find(struct sp_ctx *c, uint32_t pd, uint32_t key, uint64_t va, uint64_t len, uint32_t access)
{
	return key == w->mr.key && va >= BASE && va - BASE <= MEMORY && len <= MEMORY - (va - BASE) ? &w->mr : NULL;
}
int rdma_mr_pieces(const struct rdma_mr *m, uint64_t va, uint64_t len, struct sp_piece *out, unsigned room)
{
	unsigned n = 0;

	for (va -= BASE; len; n++) {
		const uint64_t left = SEGMENT - va % SEGMENT, take = left < len ? left : len;

		if (n == room)
			return -E2BIG;
		out[n] = (struct sp_piece){&w->mem, va, (uint32_t)take};
		va += take;
		len -= take;
	}
	return (int)n;
}
int rdma_key_pieces(struct sp_ctx *c, uint32_t pd, uint32_t key, uint64_t va, uint64_t len, uint32_t access,
		    struct sp_piece *out, unsigned room)
{
	return rdma_key_find(c, pd, key, va, len, access) ? rdma_mr_pieces(&w->mr, va, len, out, room) : -EACCES;
}
int rdma_rkey_invalidate(struct sp_ctx *c, const struct rdma_qp *qp, uint32_t key)
{
	return key == LKEY ? 0 : -EACCES;
}
bool rdma_window_bind(struct sp_ctx *c, const struct rdma_qp *qp, const struct rdma_binding *b)
{
	return false;
}
struct rdma_ah *rdma_ah_find(struct sp_ctx *c, uint32_t pd, uint32_t id)
{
	static struct rdma_ah ah;

	return id == 1 ? &ah : NULL;
}
int rdma_ah_path(struct sp_ctx *c, struct rdma_ah *ah, struct sp_path **path)
{
	*path = (struct sp_path *)w;
	return 0;
}
void rdma_qp_error(struct sp_ctx *c, struct rdma_qp *qp, int async)
{
	w->errors++;
	qp->state = SP_RDMA_ERR;
	rdma_sq_flush(c, qp);
}
void rdma_qp_sq_error(struct sp_ctx *c, struct rdma_qp *qp)
{
	w->errors++;
	qp->state = SP_RDMA_SQE;
	rdma_sq_flush(c, qp);
}
void rdma_qp_tell(struct sp_ctx *c, struct rdma_qp *qp, enum sp_rdma_async what)
{
	MUST(what == SP_RDMA_ASYNC_SQ_DRAINED && !w->qp.sq.first);
	w->told++;
}
void rdma_qp_timer(struct sp_ctx *c, struct rdma_qp *qp)
{
	if (qp->sq_at < w->timer)
		w->timer = qp->sq_at;
}
/* What the operation was to bring is there; then its memory is the application's, who spoils it. */
static void app_done(const struct expected *x, uint8_t status)
{
	uint64_t at = x->from, value;

	for (unsigned i = 0; i < x->sges; i++) {
		uint8_t *mine = w->mem.base + (x->sge[i].addr - BASE);

		if (!status && x->op == SP_RDMA_WC_READ)
			MUST(!memcmp(mine, w->source + at, x->sge[i].len));
		if (!status && (x->op == SP_RDMA_WC_CAS || x->op == SP_RDMA_WC_FETCH_ADD)) {
			memcpy(&value, mine, 8);
			MUST(value == x->from);
		}
		at += x->sge[i].len;
		memset(mine, 0xEE, x->sge[i].len);
	}
}
bool rdma_cq_post(struct sp_ctx *c, struct rdma_cq *q, const struct sp_rdma_cqe *e, bool solicited)
{
	const struct expected *x = &w->expected[w->done];
	const unsigned slot = e->wr_id % DEPTH;

	w->completions++;
	w->last = *e;
	MUST(w->done < w->posted);
	while (w->done < w->posted && x->wr_id != e->wr_id) { /* none of these was to be told */
		MUST(!x->signaled && !e->status);
		app_done(x, 0);
		x = &w->expected[++w->done];
		if (w->bad)
			return true;
	}
	app_done(x, e->status);
	w->done++;
	MUST(e->entries == x->entries && e->op == x->op && e->qp == QPN);
	MUST(e->status || e->len == x->len);
	if (e->status && !w->error)
		w->error = e->status;
	for (uint64_t i = w->back; i < w->lents; i++) /* no port has its bytes */
		MUST(w->lent[i % IN_AIR].from / SLOT != slot);
	return true;
}

/* ---- the NIC ---- */
struct sp_ctx *sp_second(struct sp_ctx *c)
{
	return NULL;
}
void sp_second_end(struct sp_ctx *c)
{
}
void sp_issue_start(struct sp_ctx *c, struct sp_issue *i)
{
	w->running = true;
}
uint64_t sp_param_uint(struct sp_ctx *c, const char *name)
{
	return !strcmp(name, "requests") ? 64 : !strcmp(name, "send-window") ? 64 : 12500000000ull * 8;
}
void *sp_alloc(struct sp_ctx *c, size_t bytes)
{
	void *p = NULL;

	if (posix_memalign(&p, 64, bytes))
		abort();
	return memset(p, 0, bytes);
}
int sp_fail(struct sp_ctx *c, int err, const char *param, const char *format, ...)
{
	return -err;
}
void sp_dma_fault(struct sp_ctx *c, const struct sp_mem *m, uint64_t offset, uint64_t len)
{
	MUST(!"fault");
}
bool sp_dma_traced(struct sp_ctx *c, const struct sp_mem *m, uint64_t offset, const void *from, uint64_t len)
{
	return false;
}
uint64_t sp_send_mark(struct sp_ctx *c)
{
	return w->lents;
}
bool sp_send_settled(struct sp_ctx *c, uint64_t mark)
{
	return w->back >= mark;
}
static struct air *air_new(bool to_peer)
{
	sp_time *link = &w->link[to_peer];

	for (unsigned i = 0; i < IN_AIR; i++) {
		struct air *a = &w->air[i];

		if (a->used)
			continue;
		w->airs = i < w->airs ? w->airs : i + 1;
		*link = (*link > w->c.now ? *link : w->c.now) + 100000;
		a->used = true;
		a->to_peer = to_peer;
		a->at = *link + 5 * SP_US + (draw(1000) < w->late ? draw(30) * SP_US : 0);
		a->ask = false;
		a->p = (struct sp_packet){.data = a->bytes};
		return a;
	}
	abort();
}
/* Now it may be lost, or come twice. */
static void air_go(struct air *a)
{
	if (draw(1000) < w->repeat) {
		struct air *b = air_new(a->to_peer);
		const sp_time at = b->at;

		*b = *a;
		b->at = at;
		b->p.data = b->bytes;
	}
	a->used = draw(1000) >= w->loss;
}
static void send_one(const struct sp_send *s)
{
	struct air *a = air_new(true);
	uint32_t at = s->ext_len, gathered = 0;

	w->packets++;
	MUST(s->ext_len <= 32 && s->len <= (w->qp.type == SP_RDMA_UD ? 4096 : w->qp.mtu) && s->psn < 1u << 24);
	a->ask = s->flags & SP_SEND_ACK_REQ;
	a->p.opcode = s->opcode;
	a->p.psn = s->psn;
	a->p.dest_qp = s->dest_qp;
	a->p.flags = s->flags & SP_PKT_SE;
	a->p.len = s->ext_len + s->len;
	memcpy(a->bytes, s->ext, s->ext_len);
	if (s->piece) {
		for (unsigned i = 0; i < s->pieces; i++, at += gathered) {
			gathered = s->piece[i].len;
			memcpy(a->bytes + at, w->mem.base + s->piece[i].offset, gathered);
		}
		MUST(at == a->p.len);
	} else if (s->mem) {
		MUST(s->mem == &w->mem && sp_mem_holds(s->mem, s->offset, s->len) && s->len);
		memcpy(a->bytes + at, w->mem.base + s->offset, s->len);
		if (w->lents - w->back < IN_AIR)
			w->lent[w->lents++ % IN_AIR] = (struct lent){a->at - 4 * SP_US, s->offset, s->len};
	} else if (s->len) {
		memcpy(a->bytes + at, s->bytes, s->len);
	}
	air_go(a);
}
int sp_send_roce_run(struct sp_ctx *c, struct sp_path *path, const struct sp_send *s, unsigned n)
{
	MUST(n && n <= RDMA_BATCH);
	if (draw(1000) < w->eagain)
		return -EAGAIN;
	if (draw(1000) < w->eagain)
		n = 1 + draw(n);
	for (unsigned i = 0; i < n; i++)
		send_one(&s[i]);
	return (int)n;
}

#endif
