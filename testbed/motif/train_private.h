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
};
#define TRAIN_ACTION 28
#define TRAIN_TAG    ((1u << TRAIN_ACTION) - 1)

/* One rank's part of a step. Errors stick: after one, nothing is added. */
struct train_builder {
	struct train *train;
	const struct train_config *c;
	uint32_t rank, step;
	uint32_t begin;	     /* the operation that ends the step before; TRAIN_NONE in the first */
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

/* Bytes of part i of n. */
static inline uint64_t train_part(uint64_t bytes, uint32_t i, uint32_t n)
{
	return bytes / n * (i + 1) + bytes % n * (i + 1) / n - bytes / n * i - bytes % n * i / n;
}

uint32_t train_calc(struct train_builder *b, uint64_t ns, uint8_t cpu, uint32_t after);
uint32_t train_send(struct train_builder *b, uint32_t to, uint64_t bytes, uint32_t tag, uint8_t nic, uint32_t after);
uint32_t train_receive(struct train_builder *b, uint32_t from, uint64_t bytes, uint32_t tag, uint8_t nic,
		       uint32_t after);
/* Receives and adds; the operation after which the sum is there. */
uint32_t train_receive_and_add(struct train_builder *b, uint32_t from, uint64_t bytes, uint32_t tag, uint8_t nic,
			       uint32_t after);
void train_requires(struct train_builder *b, uint32_t op, uint32_t before); /* before may be TRAIN_NONE */
void train_tail(struct train_builder *b, uint32_t op);			    /* the step's end waits for it */

/* Half a ring allreduce; the operation after which this rank has its part of the sum, or all parts. */
uint32_t train_reduce_scatter(struct train_builder *b, const struct train_ring *ring, uint32_t after);
uint32_t train_all_gather(struct train_builder *b, const struct train_ring *ring, uint32_t after);

/* A step of the rank in a pipeline of tensor-parallel servers. */
void train_layers(struct train_builder *b);

#endif
