/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank's program, call by call, as operations of a schedule. */
#include "steps.h"

#include <errno.h>
#include <string.h>

#define JOINED 4 /* more than so many operations are waited for by one that takes no time */

void steps_begin(struct steps *s, struct goal *g, uint32_t first, uint32_t rank)
{
	*s = (struct steps){.g = g, .first = first, .rank = rank};
}

/* An operation that begins when the call before has returned. */
static uint32_t add(struct steps *s, enum goal_type type, uint64_t size, uint32_t peer, uint32_t tag)
{
	const struct goal_op op = {
		.type = type, .size = size, .peer = type == GOAL_CALC ? 0 : s->first + peer, .tag = tag};
	const uint32_t rank = s->first + s->rank;
	uint32_t index = 0;

	if (!s->err)
		s->err = goal_add(s->g, rank, &op, &index);
	for (uint32_t i = 0; i < s->befores && !s->err; i++)
		s->err = goal_requires(s->g, rank, index, s->before[i]);
	return index;
}

/* The next call waits for this operation, and for no other of before. */
static void block(struct steps *s, uint32_t index)
{
	s->before[0] = index;
	s->befores = 1;
	s->fresh = false;
}

static void leave_open(struct steps *s, uint32_t index)
{
	s->fresh = true;
	if (s->opens < STEPS_OPEN)
		s->open[s->opens++] = index;
	else if (!s->err)
		s->err = -ENOSPC;
}

void steps_send(struct steps *s, uint32_t peer, uint64_t bytes, uint32_t tag)
{
	block(s, add(s, GOAL_SEND, bytes, peer, tag));
}

void steps_recv(struct steps *s, uint32_t peer, uint64_t bytes, uint32_t tag)
{
	block(s, add(s, GOAL_RECV, bytes, peer, tag));
}

void steps_isend(struct steps *s, uint32_t peer, uint64_t bytes, uint32_t tag)
{
	leave_open(s, add(s, GOAL_SEND, bytes, peer, tag));
}

void steps_irecv(struct steps *s, uint32_t peer, uint64_t bytes, uint32_t tag)
{
	leave_open(s, add(s, GOAL_RECV, bytes, peer, tag));
}

void steps_wait(struct steps *s)
{
	if (!s->opens)
		return;
	/* What began after `before` was done implies it. */
	s->befores = s->fresh ? 0 : s->befores;
	if (s->befores + s->opens > STEPS_OPEN) {
		s->err = s->err ? s->err : -ENOSPC;
		return;
	}
	memcpy(s->before + s->befores, s->open, s->opens * sizeof(*s->open));
	s->befores += s->opens;
	s->opens = 0;
	s->fresh = false;
	if (s->befores > JOINED) /* or each of many would wait for each of many */
		block(s, add(s, GOAL_CALC, 0, 0, 0));
}

void steps_compute(struct steps *s, uint64_t ns)
{
	if (ns)
		block(s, add(s, GOAL_CALC, ns, 0, 0));
}

void steps_allreduce(struct steps *s, uint32_t ranks, uint64_t bytes, uint32_t tag)
{
	const uint32_t first = 2 * s->rank + 1, end = first + 2 < ranks ? first + 2 : ranks;

	for (uint32_t child = first; child < end; child++)
		steps_irecv(s, child, bytes, tag);
	steps_wait(s);
	if (s->rank) {
		const uint32_t parent = (s->rank - 1) / 2;

		steps_send(s, parent, bytes, tag);
		steps_recv(s, parent, bytes, tag);
	}
	for (uint32_t child = first; child < end; child++)
		steps_isend(s, child, bytes, tag);
	steps_wait(s);
}
