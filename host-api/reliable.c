/* SPDX-License-Identifier: BSD-3-Clause */
/* Reliable messages over SDR: operations, and the lists that they are in. */
#include "reliable_private.h"

int sdr_reliable_poll(const struct sdr_reliable_op *op)
{
	return op->phase == SDR_OP_OVER ? op->result : -EAGAIN;
}

void sdr_reliable_cancel(struct sdr_reliable_op *op)
{
	struct sdr_reliable *r = op->reliable;

	op->cancelled = true;
	(op->sends ? &r->send : &r->recv)->cancelled = true;
	r->wake = 0;
}

int sdr_reliable_op_free(struct sdr_reliable_op *op)
{
	if (op->phase != SDR_OP_OVER)
		return -EBUSY;
	op->phase = SDR_OP_FREE;
	return 0;
}

int sdr_reliable_ready(const struct sdr_reliable *r, const struct sdr_reliable_side *side)
{
	if (r->error)
		return r->error;
	if (r->abandoned)
		return -ECONNABORTED;
	return sdr_reliable_op_of(r, side, side->next)->phase == SDR_OP_FREE ? 0 : -EAGAIN;
}

static void sdr_list_append(struct sdr_reliable_list *list, struct sdr_reliable_op *op)
{
	op->before = list->last;
	op->after = NULL;
	*(list->last ? &list->last->after : &list->first) = op;
	list->last = op;
	list->count++;
}

static void sdr_list_remove(struct sdr_reliable_list *list, struct sdr_reliable_op *op)
{
	*(op->before ? &op->before->after : &list->first) = op->after;
	*(op->after ? &op->after->before : &list->last) = op->before;
	list->count--;
}

struct sdr_reliable_op *sdr_reliable_begin(struct sdr_reliable *r, struct sdr_reliable_side *side,
					   const struct sdr_reliable_op *made)
{
	struct sdr_reliable_op *op = sdr_reliable_op_of(r, side, side->next);

	*op = *made;
	op->reliable = r;
	op->message = side->next++;
	sdr_list_append(&side->live, op);
	side->untimed = true;
	r->wake = 0;
	return op;
}

void sdr_reliable_decide(struct sdr_reliable_side *side, struct sdr_reliable_op *op, int result)
{
	sdr_list_remove(&side->live, op);
	sdr_list_append(&side->ending, op);
	op->phase = SDR_OP_ENDING;
	op->result = result;
	*(result ? &side->bad : &side->good) += 1;
}

void sdr_reliable_over(struct sdr_reliable_side *side, struct sdr_reliable_op *op)
{
	sdr_list_remove(&side->ending, op);
	op->phase = SDR_OP_OVER;
}

void sdr_reliable_expire(struct sdr_reliable *r, struct sdr_reliable_side *side,
			 void (*give_up)(struct sdr_reliable *r, struct sdr_reliable_op *op, int error))
{
	struct sdr_reliable_op *op, *after;

	for (op = side->live.last; side->untimed && op && !op->timed; op = op->before) {
		op->timed = true;
		op->deadline = side->timeout < SP_NEVER - r->now ? r->now + side->timeout : SP_NEVER;
	}
	side->untimed = false;
	for (op = side->live.first; op && (side->cancelled || r->abandoned); op = after) {
		after = op->after;
		if (op->cancelled || r->abandoned)
			give_up(r, op, op->cancelled ? -ECANCELED : -ECONNABORTED);
	}
	side->cancelled = false;
	while (side->live.first && side->live.first->deadline <= r->now)
		give_up(r, side->live.first, -ETIMEDOUT);
}

static void sdr_reliable_break(struct sdr_reliable_side *side, int error)
{
	while (side->live.first)
		sdr_reliable_decide(side, side->live.first, error);
	while (side->ending.first) {
		side->ending.first->result = error;
		sdr_reliable_over(side, side->ending.first);
	}
}

int sdr_reliable_fail(struct sdr_reliable *r, int error)
{
	r->error = error;
	r->wake = SP_NEVER;
	sdr_reliable_break(&r->send, error);
	sdr_reliable_break(&r->recv, error);
	return error;
}
