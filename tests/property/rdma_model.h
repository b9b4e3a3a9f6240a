/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA as the specification has it (IBTA volume 1, chapters 9 to 11), to compare the handler with: no code of it is in
 * here. The model is told what applications post, which packets a NIC sends, which it is handed, and which completions
 * and events it makes. It keeps a copy of all memory, and says by rm_wrong() what should have been otherwise.
 *   rdma_model_respond.c  requests that arrive, and what may be said to them
 *   rdma_model_request.c  requests that are sent, and what their answers bring
 *   rdma_model_base.c     memory, completions, events, the ends of QPs; coverage
 */
#ifndef TESTS_PROPERTY_RDMA_MODEL_H
#define TESTS_PROPERTY_RDMA_MODEL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../handlers/wire/rdma.h"

#define RM_QPS	 8u	       /* slots; the peer of QP i is i ^ 1 */
#define RM_RQS	 (RM_QPS + 1u) /* each QP's own, and a shared one */
#define RM_SRQ	 RM_QPS
#define RM_CQS	 3u
#define RM_KEYS	 24u
#define RM_DEPTH 32u /* entries of a queue */
#define RM_OLD	 256u
#define RM_ARENA (256u << 10) /* bytes of memory that keys give access to */
#define RM_US	 1000000ull   /* time is in ps */
#define RM_NEVER UINT64_MAX

/* ---- packets ---- */
enum {
	RM_SEND_FIRST,
	RM_SEND_MIDDLE,
	RM_SEND_LAST,
	RM_SEND_LAST_IMM,
	RM_SEND_ONLY,
	RM_SEND_ONLY_IMM,
	RM_WRITE_FIRST,
	RM_WRITE_MIDDLE,
	RM_WRITE_LAST,
	RM_WRITE_LAST_IMM,
	RM_WRITE_ONLY,
	RM_WRITE_ONLY_IMM,
	RM_READ_REQUEST,
	RM_RESPONSE_FIRST,
	RM_RESPONSE_MIDDLE,
	RM_RESPONSE_LAST,
	RM_RESPONSE_ONLY,
	RM_ACKNOWLEDGE,
	RM_ATOMIC_ACKNOWLEDGE,
	RM_COMPARE_SWAP,
	RM_FETCH_ADD,
	RM_SEND_LAST_INV = 22,
	RM_SEND_ONLY_INV,
	RM_UC = 0x20,
	RM_UD = 0x60,
};
enum { RM_ACK = 0x1F, RM_RNR = 0x20, RM_SEQUENCE = 0x60, RM_INVALID, RM_ACCESS, RM_OPERATION };

struct rm_packet {
	uint32_t from, to; /* slots */
	uint32_t psn, len, ext_len;
	uint8_t op;
	bool ask, se;
	bool foul; /* nothing may come of it */
	uint8_t ip[20], ext[64], bytes[4096];
};
static inline bool rm_is_answer(uint8_t op)
{
	return op >= RM_RESPONSE_FIRST && op <= RM_ATOMIC_ACKNOWLEDGE;
}

/* ---- what applications have made and posted ---- */
struct rm_key {
	bool live, invalid;
	uint32_t key, access;
	uint64_t va, len;
	unsigned parts;
	struct {
		uint64_t len, at; /* in the arena */
	} part[3];
};

/* Of coverage: a message's losses, and the NAKs and states that it has met. */
enum { RM_LOST_NOT, RM_LOST_FIRST, RM_LOST_MIDDLE, RM_LOST_LAST, RM_LOST_ONLY, RM_LOST_ACK, RM_LOSSES };
enum { RM_NAK_NONE, RM_NAK_SEQUENCE, RM_NAK_RNR, RM_NAK_INVALID, RM_NAK_ACCESS, RM_NAK_OPERATION, RM_NAKS };
#define RM_STATES 7u
#define RM_OPS	  10u

struct rm_wr {
	uint64_t id, first; /* first: PSN, with 64 bits */
	uint32_t packets, len, imm, rkey, ah, qkey, to;
	uint64_t remote, compare_add, swap;
	uint8_t op, flags, sges;
	uint8_t bad; /* enum sp_rdma_status: it must fail */
	bool begun, used;
	uint8_t lost, naks, states;
	struct sp_rdma_sge sge[SP_RDMA_SGES];
	uint8_t inlined[SP_RDMA_INLINE];
};
struct rm_entry {
	uint64_t id;
	uint32_t sges;
	bool malformed;
	struct sp_rdma_sge sge[SP_RDMA_SGES];
};
struct rm_rq {
	uint32_t head, tail;
	struct rm_entry entry[RM_DEPTH];
};

/* Completions and events that must come, in order. */
struct rm_due {
	uint32_t head, tail;
	struct sp_rdma_cqe e[RM_OLD];
};

/* A READ or ATOMIC that the responder has taken. */
struct rm_read {
	uint32_t first, psns, rkey, len, at, end, msn;
	uint64_t va, value;
	bool used, atomic, pending, begins;
	bool answered; /* once in full: what is pending is an answer to a duplicate */
};

struct rm_qp {
	bool exists;
	uint8_t type, state;
	uint32_t number, mtu, access, max_rd, max_dest, min_rnr, timeout, retry, rnr_retry, qkey;
	bool all_signaled;
	unsigned rq;

	/* responder */
	uint32_t epsn, msn, ends[RM_OLD], ended; /* ends: the last PSNs of the latest messages */
	uint8_t kind;				 /* of the message that is arriving; 0: none */
	uint64_t va;
	uint32_t rkey, left, total;
	bool taken;
	struct rm_entry receive;
	uint32_t sge, within, got;
	bool gap, nak_may, nak_must, rnr_must, ack_must, heard;
	uint32_t ahead, ack_psn;
	uint8_t failing; /* syndrome of the NAK that will end it */
	int failure;	 /* its event; -1: none */
	struct rm_read read[SP_RDMA_READS];
	uint32_t reads;

	/* requester */
	struct rm_wr wr[RM_OLD];
	uint32_t wait, posted; /* the oldest that is not acknowledged; behind the latest */
	uint32_t done;
	uint64_t una, cursor, end, next;
	uint64_t rnr_until, heard_at;
	bool back;	 /* it has a reason to send from una on again */
	uint32_t fails;	 /* times that it did, without progress */
	uint32_t rnrs;	 /* that are left */
	uint8_t failed;	 /* the oldest request will end so */
	bool stopped;	 /* flushed */
	bool drain_tell; /* SQD: an event must come once it is drained; */
	bool drain_may;	 /* and if it has failed before, it may */

	struct rm_due sent, received;
	int event[16];
	uint32_t event_head, event_tail;
};

struct rm {
	uint64_t now;
	uint8_t arena[RM_ARENA];
	const uint8_t *real; /* what the NIC has made of it */
	struct rm_key key[RM_KEYS];
	struct rm_rq rq[RM_RQS];
	struct rm_qp qp[RM_QPS];
	uint64_t completions;
	bool bad;
	char text[256];
};
extern struct rm rm;

/* The first one counts. */
void rm_wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define RM_MUST(x, ...)                                                                                                \
	do {                                                                                                           \
		if (!(x))                                                                                              \
			rm_wrong(__VA_ARGS__);                                                                         \
	} while (0)

static inline int32_t rm_distance(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}
static inline uint32_t rm_psn(uint64_t psn)
{
	return (uint32_t)psn & 0xFFFFFF;
}
static inline uint32_t rm_packets(uint32_t len, uint32_t mtu)
{
	return len ? (len + mtu - 1) / mtu : 1;
}
static inline uint64_t rm_get(const uint8_t *p, unsigned bytes)
{
	uint64_t x = 0;

	while (bytes--)
		x = x << 8 | *p++;
	return x;
}
static inline void rm_put(uint8_t *p, unsigned bytes, uint64_t x)
{
	while (bytes--)
		p[bytes] = (uint8_t)x, x >>= 8;
}
static inline bool rm_op_reads(uint8_t op)
{
	return op == SP_RDMA_WR_READ || op == SP_RDMA_WR_CAS || op == SP_RDMA_WR_FETCH_ADD;
}

/* ---- the world tells ---- */
void rm_begin(void);
/* For each key, before its region is used. */
struct rm_key *rm_key_new(uint32_t key);
/* Room is the world's business. bad: enum sp_rdma_status that the entry must end with. */
void rm_post(uint32_t qp, const struct rm_wr *);
void rm_post_receive(uint32_t rq, const struct rm_entry *);
/* The application has modified the QP, or has destroyed it (RESET). */
void rm_modified(uint32_t qp, uint8_t state, uint32_t rq_psn, uint32_t sq_psn);
/* A packet leaves the NIC. */
void rm_sent(const struct rm_packet *);
/* A packet is handed to the NIC now. */
void rm_delivered(const struct rm_packet *);
/* The link has lost a packet. */
void rm_lost(const struct rm_packet *);
/* After each call of the handler: the QP's state, and whether it has nothing more to do without time or packets. */
void rm_look(uint32_t qp, uint8_t state, bool quiet);
/* True: it is solicited, or an error. */
bool rm_completed(const struct sp_rdma_cqe *);
void rm_event(uint32_t qp, int async);
/* Nothing is under way: nothing may be due. */
void rm_all_told(uint32_t qp);
/* What was written to the arena is what should have been. */
void rm_compare(void);

/* ---- between the model's files ---- */
extern const struct rm_form {
	uint8_t kind; /* 0: none, 1 SEND, 2 WRITE, 3 READ, 4 ATOMIC */
	bool first, last, imm, inv;
	uint8_t ext;
} rm_forms[32];
struct rm_key *rm_find(uint32_t key, uint64_t va, uint64_t len, uint32_t access);
/* Copies between a region and `bytes`. */
void rm_copy(const struct rm_key *, uint64_t va, uint8_t *bytes, uint32_t len, bool write);
bool rm_invalidate(uint32_t key);
void rm_tell(struct rm_qp *, int async);
/* A completion must come. */
void rm_receive_due(struct rm_qp *, const struct sp_rdma_cqe *);
void rm_error(struct rm_qp *, int async);
void rm_requests_flush(struct rm_qp *);
void rm_request(struct rm_qp *, const struct rm_packet *);
void rm_answered(struct rm_qp *, const struct rm_packet *);
void rm_answer(struct rm_qp *, const struct rm_packet *);
void rm_take(struct rm_qp *, const struct rm_packet *);
bool rm_answer_due(const struct rm_qp *);
/* The request of a PSN; NULL: none. */
struct rm_wr *rm_wr_of(struct rm_qp *, uint32_t psn);
void rm_wr_end(struct rm_qp *, uint8_t status);
/* An invalidation that stands at the head may have been done. */
bool rm_local_inv(struct rm_qp *);
void rm_local_inv_of(struct rm_qp *, uint32_t key); /* if it is of that key */
bool rm_may_fail(struct rm_qp *);

/* ---- coverage ---- */
extern uint64_t rm_cells[RM_OPS][RM_NAKS][RM_STATES][RM_LOSSES];
bool rm_possible(unsigned op, unsigned nak, unsigned state, unsigned loss);
void rm_count(const struct rm_wr *);

#endif
