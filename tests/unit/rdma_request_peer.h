/* SPDX-License-Identifier: BSD-3-Clause */
/* The peer, the way of time, and the application of rdma_request.h. */
#ifndef TESTS_UNIT_RDMA_REQUEST_PEER_H
#define TESTS_UNIT_RDMA_REQUEST_PEER_H

#include "rdma_request.h"

/* ---- the peer ---- */
static inline void answer(uint8_t opcode, uint32_t psn, uint8_t syndrome, const void *bytes, uint32_t len)
{
	struct air *a = air_new(false);
	const bool aeth = opcode != SP_RC_READ_RESPONSE_MIDDLE;

	a->p.opcode = opcode;
	a->p.psn = psn & 0xFFFFFF;
	a->p.len = (aeth ? 4 : 0) + len;
	sp_store_be32(a->bytes, (uint32_t)syndrome << 24 | (w->msn & 0xFFFFFF));
	if (len)
		memcpy(a->bytes + (aeth ? 4 : 0), bytes, len);
	air_go(a);
}

static inline void answer_read(const struct air *a)
{
	const uint64_t from = sp_load_be64(a->bytes) - REMOTE;
	const uint32_t len = sp_load_be32(a->bytes + 12), mtu = w->qp.mtu, n = rdma_packets(len, mtu);

	MUST(sp_load_be32(a->bytes + 8) == RKEY && from <= MEMORY && len <= MEMORY - from && a->p.len == 16);
	w->asked_reads++;
	for (uint32_t i = 0; i < n; i++)
		answer(n == 1	    ? SP_RC_READ_RESPONSE_ONLY
		       : !i	    ? SP_RC_READ_RESPONSE_FIRST
		       : i == n - 1 ? SP_RC_READ_RESPONSE_LAST
				    : SP_RC_READ_RESPONSE_MIDDLE,
		       a->p.psn + i, 31, w->source + from + (uint64_t)i * mtu, i == n - 1 ? len - i * mtu : mtu);
}

static inline void answer_atomic(uint32_t psn, uint64_t value)
{
	uint8_t b[8];

	sp_store_be64(b, value);
	answer(SP_RC_ATOMIC_ACKNOWLEDGE, psn, 31, b, 8);
}

static inline void peer_duplicate(const struct air *a)
{
	if (a->p.opcode == SP_RC_READ_REQUEST) {
		answer_read(a);
	} else if (a->p.opcode == SP_RC_COMPARE_SWAP || a->p.opcode == SP_RC_FETCH_ADD) {
		for (uint32_t i = w->saved; i-- && i + 16 >= w->saved;)
			if (w->saved_psn[i] == a->p.psn) {
				answer_atomic(a->p.psn, w->saved_value[i]);
				return;
			}
	} else if (draw(2)) {
		answer(SP_RC_ACKNOWLEDGE, a->p.psn, 31, NULL, 0);
	} else {
		answer(SP_RC_ACKNOWLEDGE, w->epsn - 1, 31, NULL, 0);
	}
}

static inline void peer_atomic(const struct air *a)
{
	const uint64_t swap = sp_load_be64(a->bytes + 12), compare = sp_load_be64(a->bytes + 20);

	MUST(a->p.len == 28 && sp_load_be64(a->bytes) == REMOTE && sp_load_be32(a->bytes + 8) == RKEY);
	w->saved_psn[w->saved] = a->p.psn;
	w->saved_value[w->saved++] = w->counter;
	if (a->p.opcode == SP_RC_FETCH_ADD)
		w->counter += swap;
	else if (w->counter == compare)
		w->counter = swap;
	answer_atomic(a->p.psn, w->saved_value[w->saved - 1]);
}

/* The packet of a SEND or WRITE that was expected. */
static inline void peer_data(const struct air *a)
{
	const uint8_t op = a->p.opcode;
	const bool write = op >= SP_RC_WRITE_FIRST && op <= SP_RC_WRITE_ONLY_IMM;
	const uint8_t k = op == SP_RC_SEND_LAST_INVALIDATE   ? 2
			  : op == SP_RC_SEND_ONLY_INVALIDATE ? 4
			  : write			     ? op - SP_RC_WRITE_FIRST
							     : op;
	const bool starts = k == 0 || k >= 4, ends = k >= 2, extra = k == 3 || k == 5 || op >= 0x16;
	const uint8_t *b = a->bytes;
	uint32_t len = a->p.len;

	MUST(op <= SP_RC_WRITE_ONLY_IMM || op == 0x16 || op == 0x17);
	MUST(starts == !w->kind && (starts || w->kind == (write ? 2 : 1)));
	MUST(!ends || a->ask);
	if (starts) {
		w->kind = write ? 2 : 1;
		w->got = 0;
	}
	if (write && starts) {
		w->va = sp_load_be64(b) - REMOTE;
		w->total = sp_load_be32(b + 12);
		MUST(sp_load_be32(b + 8) == RKEY && w->va <= MEMORY && w->total <= MEMORY - w->va);
		b += 16;
		len -= 16;
	}
	if (extra) {
		MUST(w->sends > w->received && !memcmp(b, &w->send[w->received].imm, 4));
		b += 4;
		len -= 4;
	}
	MUST(ends ? len <= w->qp.mtu && (starts || len) : len == w->qp.mtu);
	if (write) {
		MUST(w->got + len <= w->total && (!ends || w->got + len == w->total));
		memcpy(w->written + w->va + w->got, b, len);
	} else {
		memcpy(w->message + w->got, b, len);
	}
	w->got += len;
	if (!ends)
		return;
	if (!write || extra) {
		MUST(w->received < w->sends && w->send[w->received].op == op - (starts && op < 0x16 ? 2 : starts));
		MUST(write ||
		     (w->send[w->received].len == w->got && !memcmp(w->send[w->received].bytes, w->message, w->got)));
		free(w->send[w->received++].bytes);
	}
	w->kind = 0;
	w->msn++;
}

static inline void peer(const struct air *a)
{
	const int32_t distance = rdma_psn_diff(a->p.psn, w->epsn);
	const uint8_t op = a->p.opcode;
	const bool waits = op == SP_RC_SEND_FIRST || (op >= SP_RC_SEND_ONLY && op <= SP_RC_SEND_ONLY_IMM);

	if (w->mute)
		return;
	MUST(a->p.dest_qp == PEER_QPN);
	if (distance < 0) {
		peer_duplicate(a);
		return;
	}
	if (distance > 0) {
		if (!w->silent)
			answer(SP_RC_ACKNOWLEDGE, w->epsn, 0x60, NULL, 0);
		w->silent = true;
		return;
	}
	if (w->refuse) {
		answer(SP_RC_ACKNOWLEDGE, w->epsn, w->refuse, NULL, 0);
		return;
	}
	if (waits && draw(1000) < w->rnr) {
		answer(SP_RC_ACKNOWLEDGE, w->epsn, 0x21, NULL, 0);
		w->silent = true;
		return;
	}
	w->silent = false;
	if (op == SP_RC_READ_REQUEST) {
		w->epsn += rdma_packets(sp_load_be32(a->bytes + 12), w->qp.mtu);
		w->ack_due = false;
		MUST(a->ask && !w->kind);
		answer_read(a);
	} else if (op == SP_RC_COMPARE_SWAP || op == SP_RC_FETCH_ADD) {
		w->epsn++;
		w->ack_due = false;
		MUST(a->ask && !w->kind);
		peer_atomic(a);
	} else {
		w->epsn++;
		peer_data(a);
		if (a->ask && !w->ack_due)
			w->ack_at = w->c.now + draw(3) * SP_US;
		w->ack_due |= a->ask;
		w->ack_psn = a->ask ? a->p.psn : w->ack_psn;
	}
	w->epsn &= 0xFFFFFF;
}

/* ---- the world ---- */
static inline void begin(uint64_t seed, uint32_t mtu, uint32_t psn)
{
	const struct sp_rdma_qp_create create = {.sq_log = LOG, .send_sges = 4, .inlined = 100};

	w = sp_alloc(NULL, sizeof(*w));
	w->random = seed * 2654435761u + 1;
	w->c = (struct sp_ctx){.state = &w->s, .counters = w->counters, .workers = 1, .now = SP_SEC};
	w->mem = (struct sp_mem){.base = sp_alloc(NULL, MEMORY), .len = MEMORY};
	w->queue = (struct sp_mem){.base = sp_alloc(NULL, 1 << 16), .len = 1 << 16};
	w->written = sp_alloc(NULL, MEMORY);
	w->wanted = sp_alloc(NULL, MEMORY);
	w->source = sp_alloc(NULL, MEMORY);
	w->message = sp_alloc(NULL, SLOT);
	for (unsigned i = 0; i < MEMORY; i += 4)
		*(uint32_t *)(void *)(w->source + i) = draw(1u << 31);
	w->mr.key = LKEY;
	w->timer = SP_NEVER;
	w->s.qps = 1;
	rdma_request_attach(&w->c);
	w->qp = (struct rdma_qp){.number = QPN, .type = SP_RDMA_RC, .mtu = mtu, .send_cq = &w->cq, .mem = &w->queue};
	w->qp.path = (struct sp_path *)w;
	CU_ASSERT_EQUAL(rdma_sq_open(&w->c, &w->qp, &create), 0);
	w->qp.attr = (struct sp_rdma_qp_attr){
		.dest_qp = PEER_QPN, .sq_psn = psn, .max_rd_atomic = 4, .timeout = 6, .retry_cnt = 7, .rnr_retry = 7};
	w->qp.state = SP_RDMA_RTS;
	w->epsn = psn;
	rdma_sq_state(&w->c, &w->qp, SP_RDMA_RTR);
}

static inline void end(void)
{
	CU_ASSERT_FALSE(w->bad);
	CU_ASSERT_EQUAL(w->mr.uses, 0);
	for (; w->received < w->sends; w->received++)
		free(w->send[w->received].bytes);
	free(w->s.out.pool->all);
	free(w->s.out.pool);
	free(w->mem.base);
	free(w->queue.base);
	free(w->written);
	free(w->wanted);
	free(w->source);
	free(w->message);
	free(w);
}

static inline void deliver(struct air *a)
{
	if (a->to_peer)
		peer(a);
	else
		rdma_request_answer(&w->c, &w->qp, &a->p);
	a->used = false;
}

/* Goes on to the next thing that happens, at `until` at the latest. False: until then nothing does. */
static inline bool step(sp_time until)
{
	struct air *next = NULL;
	sp_time at = until;

	for (unsigned i = 0; i < 50 && w->running; i++) {
		unsigned sent = 0;

		w->running = false;
		w->result = rdma_request_issue(&w->c, &w->qp, 1 + draw(40), &sent);
		w->running |= w->result == SP_ISSUE_MORE;
	}
	while (w->airs && !w->air[w->airs - 1].used)
		w->airs--;
	for (unsigned i = 0; i < w->airs; i++)
		if (w->air[i].used && w->air[i].at < at) {
			next = &w->air[i];
			at = next->at;
		}
	if (w->back < w->lents && w->lent[w->back % IN_AIR].until < at) {
		at = w->lent[w->back % IN_AIR].until;
		w->c.now = at > w->c.now ? at : w->c.now;
		w->back++;
		w->running |= w->result == SP_ISSUE_WAIT;
		return true;
	}
	if (w->ack_due && w->ack_at < at) {
		w->c.now = w->ack_at > w->c.now ? w->ack_at : w->c.now;
		w->ack_due = false;
		answer(SP_RC_ACKNOWLEDGE, w->ack_psn, 31, NULL, 0);
		return true;
	}
	if (w->timer < at) {
		w->c.now = w->timer > w->c.now ? w->timer : w->c.now;
		w->timer = SP_NEVER;
		rdma_request_timer(&w->c, &w->qp);
		return true;
	}
	w->c.now = at > w->c.now ? at : w->c.now;
	if (next)
		deliver(next);
	return next || w->running;
}

static inline void run_for(sp_time t)
{
	const sp_time until = w->c.now + t;

	while (!w->bad && step(until))
		;
}

/* ---- the application ---- */
static const uint8_t wc_of[] = {SP_RDMA_WC_WRITE,     SP_RDMA_WC_WRITE,	    SP_RDMA_WC_SEND,
				SP_RDMA_WC_SEND,      SP_RDMA_WC_READ,	    SP_RDMA_WC_CAS,
				SP_RDMA_WC_FETCH_ADD, SP_RDMA_WC_LOCAL_INV, 0,
				SP_RDMA_WC_SEND};

static inline uint8_t *entry_of(unsigned i)
{
	return w->qp.sq.entry + (size_t)(i % DEPTH) * w->qp.sq.stride;
}

/* Posts an operation of len bytes. */
static inline void post(uint8_t op, uint8_t flags, uint32_t len)
{
	static const uint8_t last[] = {0, SP_RC_WRITE_LAST_IMM,	     SP_RC_SEND_LAST, SP_RC_SEND_LAST_IMM, 0, 0, 0, 0,
				       0, SP_RC_SEND_LAST_INVALIDATE};
	const unsigned i = w->posted % DEPTH, sges = flags & SP_RDMA_INLINED || op == SP_RDMA_WR_LOCAL_INV ? 0
						     : len > 8						   ? 1 + draw(4)
													   : 1;
	struct sp_rdma_wqe h = {.op = op, .flags = flags, .sges = (uint8_t)sges, .wr_id = w->posted, .rkey = RKEY};
	struct expected *x = &w->expected[w->posted];
	uint8_t *bytes = malloc(SLOT), *e = entry_of(i);
	struct sp_rdma_sge g[4];
	uint32_t at = 0;
	uint64_t far = draw(MEMORY - SLOT);

	*x = (struct expected){.wr_id = w->posted, .op = wc_of[op], .signaled = flags & SP_RDMA_SIGNALED, .len = len};
	x->entries = ++w->posted;
	x->sges = sges;
	for (uint32_t k = 0; k < len; k++)
		bytes[k] = (uint8_t)draw(256);
	for (unsigned k = 0; k < sges; k++) {
		const uint32_t left = len - at,
			       part = k + 1 == sges ? left : draw(left < SLOT / 4 ? left + 1 : SLOT / 4);

		g[k] = (struct sp_rdma_sge){BASE + i * SLOT + k * (SLOT / 4) + draw(8), part, LKEY};
		if (k + 1 == sges && left > SLOT / 4 - 8) { /* too long for the last: it begins earlier */
			x->sges = h.sges = 1;
			g[0] = (struct sp_rdma_sge){BASE + i * SLOT, len, LKEY};
			at = 0;
		}
		memcpy(w->mem.base + (g[h.sges == 1 ? 0 : k].addr - BASE), bytes + at, g[h.sges == 1 ? 0 : k].len);
		at += part;
	}
	memcpy(x->sge, g, sizeof(g));
	x->from = far;
	h.remote = REMOTE + far;
	h.imm = draw(1u << 31);
	if (op == SP_RDMA_WR_CAS || op == SP_RDMA_WR_FETCH_ADD) {
		x->from = w->atomics++; /* each adds 1 */
		h.remote = REMOTE;
		h.compare_add = op == SP_RDMA_WR_CAS ? x->from : 1;
		h.swap = x->from + 1;
	}
	if (op == SP_RDMA_WR_LOCAL_INV)
		h.imm = LKEY;
	if (op <= SP_RDMA_WR_WRITE_IMM)
		memcpy(w->wanted + far, bytes, len);
	if (last[op]) {
		w->send[w->sends].bytes = bytes;
		w->send[w->sends].len = len;
		w->send[w->sends].imm = op == SP_RDMA_WR_SEND_INV ? __builtin_bswap32(h.imm) : h.imm;
		w->send[w->sends++].op = last[op];
	}
	h.length = len;
	memcpy(e + 4, (uint8_t *)&h + 4, sizeof(h) - 4);
	if (flags & SP_RDMA_INLINED)
		memcpy(e + sizeof(h), bytes, len);
	else
		memcpy(e + sizeof(h), g, h.sges * sizeof(g[0]));
	if (!last[op])
		free(bytes);
	__atomic_store_n((uint32_t *)(void *)e, 1, __ATOMIC_RELEASE);
	__atomic_store_n(w->qp.sq.tail, w->posted, __ATOMIC_RELEASE);
	if (!__atomic_exchange_n(w->qp.sq.rung, 1, __ATOMIC_SEQ_CST))
		rdma_doorbell(&w->c, &w->qp);
}

static inline bool room(void)
{
	return w->posted - w->done < DEPTH - 1;
}

#endif
