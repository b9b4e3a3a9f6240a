/* SPDX-License-Identifier: BSD-3-Clause */
/* The applications of the model's test: they make QPs, post at random, and do what they should not. */
#ifndef TESTS_PROPERTY_RDMA_MODEL_WORLD_H
#define TESTS_PROPERTY_RDMA_MODEL_WORLD_H

#include "rdma_model_nic.h"

#define WORLD_VA   0x7f0000000000ull
#define WORLD_HALF (RM_ARENA / 2) /* sources; then what is written to */

/* How a receive entry is, and what is wrong with a request. */
enum world_entry { ENTRY_GOOD, ENTRY_SHORT, ENTRY_KEY, ENTRY_MALFORMED };
enum world_fault {
	FAULT_NONE,
	FAULT_KEY,	 /* no such rkey */
	FAULT_BOUNDS,	 /* behind its region's end */
	FAULT_RIGHTS,	 /* a region that may only be looked at locally */
	FAULT_ALIGNMENT, /* ATOMIC: of the address; the others: none */
	FAULT_MEMORY,	 /* ATOMIC: of the memory behind it */
	FAULT_LKEY,
	FAULT_LENGTH,
	FAULT_OPCODE,
	FAULT_INLINE,
	FAULTS,
};

struct world_key {
	uint32_t key;
	uint64_t va, len;
};
struct world {
	struct world_key all, odd, closed, window[RM_QPS][2];
	uint32_t pd, cq[RM_CQS], srq, ah, cq_at[RM_CQS];
	uint32_t armed[RM_CQS], signals[RM_CQS];
	uint32_t sq_tail[RM_QPS], rq_tail[RM_RQS];
	uint64_t posts, receives;
	uint64_t ending[RM_QPS]; /* of a pair, since then; 0: it lives */
	uint64_t draining[RM_QPS];
	bool faults;
};
extern struct world world;

struct world_pair {
	uint8_t type;
	uint32_t mtu, access, max_rd, max_dest, rnr_retry, retry, timeout;
	bool srq, all_signaled;
};

void world_begin(uint64_t seed);
void world_end(void);
/* A pair's QPs, up to these states. */
void world_make(uint32_t pair, const struct world_pair *, uint8_t state0, uint8_t state1);
void world_random_pair(uint32_t pair);
void world_destroy(uint32_t qp);
int world_modify(uint32_t qp, uint8_t state, bool tell);
/* A request that would be right. */
struct rm_wr world_request(uint32_t qp, uint8_t op, uint32_t len);
void world_spoil(uint32_t qp, struct rm_wr *, enum world_fault);
/* False: there is no room. */
bool world_post(uint32_t qp, const struct rm_wr *);
bool world_receive(uint32_t rq, enum world_entry);
/* Registers the window anew, unless it is in use. */
void world_window_renew(uint32_t qp, unsigned k);
void world_arm(uint32_t cq, uint32_t how);

#endif
