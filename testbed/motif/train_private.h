/* SPDX-License-Identifier: BSD-3-Clause */
/* What the generators of training's schedules share. */
#ifndef TESTBED_MOTIF_TRAIN_PRIVATE_H
#define TESTBED_MOTIF_TRAIN_PRIVATE_H

#include "train.h"

#define TRAIN_NONE UINT32_MAX /* no operation */

/* What a receiver does with what has come: in the highest bits of the tag. The rest says which part of the gradients.
 */
enum train_action {
	TRAIN_ADD,     /* what the sender has by now */
	TRAIN_ADD_OWN, /* the sender's own gradients */
	TRAIN_STORE,   /* replace what the receiver has */
	TRAIN_KEEP,    /* a part of a checkpoint */
};
#define TRAIN_ACTION 28
#define TRAIN_ODD    (1u << 27) /* a message of an odd step: it may overtake one of the step before */
#define TRAIN_TAG    (TRAIN_ODD - 1)

/* One rank's part of a step. Errors stick: after one, nothing is added. */
struct train_builder {
	struct train *train;
	const struct train_config *c;
	uint32_t rank, step;
	uint32_t begin;	     /* the operation that ends the step before; TRAIN_NONE in the first */
	uint32_t streamed;   /* the last operation of the latest checkpoint */
	bool dying, dead;    /* what follows is of the step in which the rank dies; it has died */
	uint32_t collective; /* the last collective inside a server has ended */
	uint8_t cpu;	     /* of what follows */
	uint32_t *tail;	     /* what the step's end waits for */
	uint32_t tails, tail_room;
	uint32_t ops;
	int err;
};

/* A ring of `members` ranks, member i of which is first + i. */
struct train_ring {
	uint32_t first, members;
	uint64_t bytes;
	uint32_t tag; /* of its messages: and the number of the part in the lowest bits */
	uint8_t nic;
};

/* Where part i of n begins; i = n: the end. */
static inline uint64_t train_part_begin(uint64_t bytes, uint32_t i, uint32_t n)
{
	return bytes / n * i + bytes % n * i / n;
}

/* Bytes of part i of n. */
static inline uint64_t train_part(uint64_t bytes, uint32_t i, uint32_t n)
{
	return train_part_begin(bytes, i + 1, n) - train_part_begin(bytes, i, n);
}

uint32_t train_calc(struct train_builder *b, uint64_t ns, uint8_t cpu, uint32_t after);
uint32_t train_send(struct train_builder *b, uint32_t to, uint64_t bytes, uint32_t tag, uint8_t nic, uint32_t after);
uint32_t train_receive(struct train_builder *b, uint32_t from, uint64_t bytes, uint32_t tag, uint8_t nic,
		       uint32_t after);
/* Receives and adds; the operation after which the sum is there. */
uint32_t train_receive_and_add(struct train_builder *b, uint32_t from, uint64_t bytes, uint32_t tag, uint8_t nic,
			       uint32_t after);
void train_requires(struct train_builder *b, uint32_t op, uint32_t before); /* both may be TRAIN_NONE */
void train_tail(struct train_builder *b, uint32_t op);			    /* the step's end waits for it */

/* Half a ring allreduce; the operation after which this rank has its part of the sum, or all parts. */
uint32_t train_reduce_scatter(struct train_builder *b, const struct train_ring *ring, uint32_t after);
uint32_t train_all_gather(struct train_builder *b, const struct train_ring *ring, uint32_t after);

/* A step of the rank in a pipeline of tensor-parallel servers. */
void train_layers(struct train_builder *b);

/* ---- checkpoints ---- */
/* The messages of one; in each is train_part() of it. */
uint32_t train_checkpoint_parts(const struct train_config *c);
/* Whether there is one behind the step. */
bool train_checkpoint_due(const struct train_config *c, uint32_t step);
/* Behind the step's end: the worker's messages; storage's part of a step; what a worker begins with. */
void train_checkpoint_send(struct train_builder *b, uint32_t ended);
void train_checkpoint_store(struct train_builder *b);
uint32_t train_checkpoint_restore(struct train_builder *b);

/* ---- runs ---- */
/* As of links_config; NULL: nobody asks. */
struct train_watch {
	void (*moved)(void *arg, uint32_t sender, uint32_t send_op, uint32_t receiver, uint32_t receive_op);
	void (*done)(void *arg, uint32_t rank, uint32_t op, sp_time now);
	void *arg;
};

/* train_run(), watched. */
int train_run_watched(const struct train *train, const struct train_world *world, const struct train_watch *watch,
		      struct train_outcome *outcome);
/* The step of a rank's operation: how many of its steps have ended before. */
uint32_t train_step_of(const struct train *train, uint32_t rank, uint32_t op);
/* Parts of the gradients that travel by themselves; 0: the scheme adds nothing up. */
uint32_t train_parts_of(const struct train_config *c);

#endif
