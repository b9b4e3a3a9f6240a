/* SPDX-License-Identifier: BSD-3-Clause */
/* ec, parity: made submessage by submessage in the application's scratch memory, and sent as it becomes ready. */
#include "encode.h"
#include "../mem_range.h"

int ec_parity(struct sp_ctx *c, const struct sp_command *command)
{
	struct ec *s = c->state;
	const uint64_t k = command->cookie, bytes = command->arg[2];
	const uint64_t which = command->arg[5];
	const uint32_t pairs = s->limits.messages / 2;
	struct ec_order order = {.message = k, .from = command->arg[1], .bytes = bytes, .to = command->arg[4]};
	struct sp_ctx *first;
	int rc;

	sp_first(c, &first);
	if (k % 2 == 0 || bytes > s->limits.bytes || which >= s->codes)
		return -EINVAL;
	order.code = &s->code[which];

	const uint64_t parity = sp_ec_parity_bytes(order.code->k, order.code->m, bytes, s->limits.chunk_bytes);
	const uint32_t immediate = sp_ec_immediate_of(ec_immediate(s, bytes), (unsigned)which);

	if (!bytes)
		return s->first->send(first, k, 0, 0, 0, immediate);
	if (s->orders == pairs) /* orders of a connection that has ended: the next slice frees them */
		return -EAGAIN;
	rc = mem_range_get(c, command->arg[0], command->arg[1], bytes, &order.data);
	if (rc)
		return rc;
	rc = mem_range_get(c, command->arg[3], command->arg[4], parity, &order.parity);
	if (rc)
		goto put_data;
	rc = s->first->send(first, k, command->arg[3], order.to, parity, immediate);
	if (rc)
		goto put_parity;
	s->order[(s->order_first + s->orders++) % pairs] = order;
	sp_work_start(c, &s->encode);
	return 0;
put_parity:
	sp_mem_put(c, order.parity);
put_data:
	sp_mem_put(c, order.data);
	return rc;
}

static void ec_order_done(struct sp_ctx *c, struct ec *s)
{
	const struct ec_order *o = &s->order[s->order_first];

	sp_mem_put(c, o->data);
	sp_mem_put(c, o->parity);
	s->order_first = (s->order_first + 1) % (s->limits.messages / 2);
	s->orders--;
	s->encoded = 0;
	s->encoding = s->same = false;
}

/* Repeats the job for the next submessage, if it is like the one before. Otherwise returns false. With short chunks,
 * finding out what to do takes long. */
static bool ec_encode_again(const struct sp_ctx *c, struct ec *s, const struct ec_order *o)
{
	const uint64_t bytes = s->limits.chunk_bytes, data = o->code->k * bytes;

	if (c->watch || !s->same || (s->encoded + 1) * data > o->bytes)
		return false;
	sp_ec_job_again(&s->job, data, o->code->m * bytes);
	return true;
}

/* Starts the job for the next submessage. False: the NIC has no payload, so there is nothing to compute. */
static bool ec_encode_begin(struct sp_ctx *c, struct ec *s, const struct ec_order *o, unsigned data, unsigned rows)
{
	const uint32_t bytes = s->limits.chunk_bytes;
	const uint64_t at = s->encoded * o->code->k * bytes, to = o->to + s->encoded * o->code->m * bytes;
	const uint64_t left = o->bytes - at - (uint64_t)(data - 1) * bytes;
	const bool more = left > bytes; /* another submessage follows */
	const struct sp_ec_submessage sub = {.data = data,
					     .bytes = bytes,
					     .last = left < bytes ? (uint32_t)left : bytes,
					     .cold = o->bytes >= SP_EC_LONG,
					     .past = o->bytes >= SP_EC_LONG,
					     .data_ahead = more ? (uint64_t)o->code->k * bytes : 0,
					     .chunk = s->chunk};

	if (c->watch && sp_dma_traced(c, o->parity, to, o->parity->base + to, (uint64_t)rows * bytes))
		return false;
	for (unsigned j = 0; j < data; j++)
		s->chunk[j] = o->data->base + o->from + at + (uint64_t)j * bytes;
	for (unsigned i = 0; i < rows; i++)
		s->chunk[data + i] = o->parity->base + to + (uint64_t)i * bytes;
	return sp_ec_encode_start(&s->job, o->code, &sub) == 0;
}

/* Works on the current submessage, for `budget` at most. Returns what it took. It is ready unless s->encoding is still
 * set. */
static uint64_t ec_encode_one(struct sp_ctx *c, struct ec *s, const struct ec_order *o, unsigned data, uint64_t budget)
{
	if (!s->encoding)
		s->encoding = s->same =
			ec_encode_again(c, s, o) || ec_encode_begin(c, s, o, data, sp_ec_parity(o->code, data));
	if (!s->encoding)
		return 0;
	s->encoding = sp_ec_job_step(&s->job, budget);
	return sp_ec_job_spent(&s->job);
}

/* Repeats the job for more submessages, as many as are like it and there is time for. Returns what that took. */
static uint64_t ec_encode_more(const struct sp_ctx *c, struct ec *s, const struct ec_order *o, uint64_t budget,
			       uint64_t *more)
{
	const uint64_t bytes = s->limits.chunk_bytes, data = o->code->k * bytes, whole = o->bytes / data;

	*more = 0;
	if (c->watch || !s->same || s->encoded >= whole)
		return 0;
	*more = sp_ec_job_repeat(&s->job, data, o->code->m * bytes,
				 whole - s->encoded < UINT32_MAX ? (unsigned)(whole - s->encoded) : UINT32_MAX, budget);
	return sp_ec_job_spent(&s->job);
}

/* One slice of the first order: as many submessages as there is time for. */
bool ec_encode(struct sp_ctx *c)
{
	struct ec *s = c->state;
	const struct ec_order *o = &s->order[s->order_first];
	uint64_t left = SP_EC_SLICE, took, all = 0, count = 0, bytes = 0, chunks, more;
	struct sp_ctx *first;

	if (!s->orders)
		return false;
	chunks = sp_ec_units(o->bytes, s->limits.chunk_bytes) - s->encoded * o->code->k;
	do {
		const unsigned data = chunks < o->code->k ? (unsigned)chunks : o->code->k;

		took = ec_encode_one(c, s, o, data, left);
		all += took;
		took += SP_EC_ONE;
		left -= took < left ? took : left;
		if (s->encoding)
			break;
		bytes += (uint64_t)sp_ec_parity(o->code, data) * s->limits.chunk_bytes;
		chunks -= data;
		s->encoded++;
		count++;
		left -= ec_encode_more(c, s, o, left, &more);
		bytes += more * o->code->m * s->limits.chunk_bytes;
		chunks -= more * o->code->k;
		s->encoded += more;
		count += more;
	} while (chunks && took <= left); /* the next one may take as long */
	ec_count(c, SP_EC_ENCODE_SLICES, all != 0);
	if (!count)
		return true;
	ec_count(c, SP_EC_ENCODED, count);
	ec_count(c, SP_EC_ENCODED_BYTES, bytes);
	sp_ec_job_settle(&s->job);
	sp_first(c, &first);
	/* This fails once the connection has ended. */
	if (s->first->ready(first, o->message, bytes) || !chunks)
		ec_order_done(c, s);
	return s->orders;
}

void ec_encode_detach(struct sp_ctx *c)
{
	struct ec *s = c->state;

	while (s->orders)
		ec_order_done(c, s);
}
