/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A schedule in the sense of GOAL (Hoefler, Siebert, Lumsdaine 2009): what each of `ranks` ranks sends, receives and
 * computes, and which of its operations wait for which. Dependencies are between operations of one rank; ranks wait
 * for each other by messages alone.
 *
 * It is built by goal_create(), goal_add() and the goal_requires() calls, packed by goal_finish(), and read-only from
 * then on: any number of threads may read it. Building is for one thread at a time. It takes 24 bytes an operation and
 * 4 a dependency, twice as much and more while it is built.
 */
#ifndef TESTBED_GOAL_SCHEDULE_H
#define TESTBED_GOAL_SCHEDULE_H

#include <stdint.h>

#define GOAL_ANY       UINT32_MAX /* source or tag of a receive: any */
#define GOAL_RANKS_MAX (1u << 24)
#define GOAL_OPS_MAX   ((1u << 30) - 1) /* of a rank; also of its dependencies */
#define GOAL_STARTED   (1u << 31)	/* see goal_successors() */

enum goal_type { GOAL_SEND, GOAL_RECV, GOAL_CALC };

struct goal_op {
	uint64_t size;	    /* bytes; of a calc ns, which is GOAL's unit */
	uint32_t peer, tag; /* destination or source; 0 of a calc */
	uint8_t type;	    /* enum goal_type */
	uint8_t cpu, nic;   /* of the rank; operations of one of them come one after the other */
	uint32_t first;	    /* private: where the successors begin; what goal_add() is given does not matter */
};

struct goal; /* a schedule */

/* A schedule without operations, *g; the caller destroys it. -EINVAL: 0 ranks, or more than GOAL_RANKS_MAX; -ENOMEM. */
int goal_create(uint32_t ranks, struct goal **g);
void goal_destroy(struct goal *g); /* g may be NULL */

/* Appends a copy of *op to a rank's operations. *index (may be NULL) is its number within the rank: 0, 1, 2 ...
 * -EINVAL: there is no such rank or type; -ENOSPC: GOAL_OPS_MAX; -EPERM: finished; -ENOMEM. */
int goal_add(struct goal *g, uint32_t rank, const struct goal_op *op, uint32_t *index);

/* Operation `op` of a rank starts after `before`, of the same rank, is done (requires), or has started (irequires). The
 * same may be said twice. -EINVAL: there is no such rank or operation yet; -ENOSPC, -EPERM, -ENOMEM as above. */
int goal_requires(struct goal *g, uint32_t rank, uint32_t op, uint32_t before);
int goal_irequires(struct goal *g, uint32_t rank, uint32_t op, uint32_t before);

/* Checks and packs; nothing can be added afterwards. -EINVAL: a peer is no rank, or a send has GOAL_ANY;
 * -ELOOP: operations wait for each other in a circle; -EPERM: finished before; -ENOMEM. After -EINVAL and -ELOOP
 * goal_fault() names the operation; then and after -ENOMEM the schedule can only be destroyed. Whether sends and
 * receives match is not checked: who executes finds that out. */
int goal_finish(struct goal *g);
void goal_fault(const struct goal *g, uint32_t *rank, uint32_t *op);

uint32_t goal_ranks(const struct goal *g);
uint32_t goal_ops(const struct goal *g, uint32_t rank);				/* how many; rank < goal_ranks() */
const struct goal_op *goal_op(const struct goal *g, uint32_t rank, uint32_t i); /* i < goal_ops(); until it changes */
uint64_t goal_ops_all(const struct goal *g);					/* of all ranks */

/* ---- of a finished schedule ---- */
/* What waits for operation i: *n entries. An entry is the number of an operation that waits until i is done; with
 * GOAL_STARTED set (in what remains the number stands) until i has started. One that is named twice waits for both. */
const uint32_t *goal_successors(const struct goal *g, uint32_t rank, uint32_t i, uint32_t *n);
/* For how many entries each operation of the rank waits, for executors to count down: goal_ops() numbers. */
void goal_waits(const struct goal *g, uint32_t rank, uint32_t *waits);
uint64_t goal_bytes(const struct goal *g); /* of memory that it takes */

#endif
