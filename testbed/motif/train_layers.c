/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Schedules of training: pipelines of servers that are tensor parallel inside. A pipeline has servers of one worker,
 * tensor parallelism has one server. Messages of several micro-batches are on their way at once. All forward passes
 * come before all backward passes; among themselves they go in the order in which what they need is there.
 */
#include "train_private.h"

#include <errno.h>

struct place {
	uint32_t servers, workers, server, worker;
	uint64_t share; /* bytes between servers */
};

enum pass { FORWARD, BACKWARD };

static struct place place(const struct train_builder *b)
{
	const struct train_config *c = b->c;
	const uint32_t workers = c->scheme == TRAIN_PIPELINE ? 1 : c->workers;
	const uint32_t servers = c->scheme == TRAIN_PIPELINE ? c->workers : c->scheme == TRAIN_TENSOR ? 1 : c->servers;
	const uint32_t worker = b->rank % workers;

	return (struct place){servers, workers, b->rank / workers, worker, train_part(c->bytes, worker, workers)};
}

/* The tags of a pass of a micro-batch through a layer: from this one on, two for each part. */
static uint32_t tag(struct train_builder *b, const struct place *p, enum pass pass, uint32_t micro, uint32_t layer)
{
	const uint64_t all = (uint64_t)b->c->micro_batches * b->c->layers * (p->workers + 1) * 2;

	if (all > TRAIN_TAG && !b->err)
		b->err = -E2BIG;
	return (((uint32_t)pass * b->c->micro_batches + micro) * b->c->layers + layer) * (p->workers + 1);
}

static struct train_ring inside(const struct train_builder *b, const struct place *p, uint32_t first_tag)
{
	return (struct train_ring){p->server * p->workers, p->workers, b->c->bytes, first_tag,
				   b->c->scheme == TRAIN_HYBRID ? TRAIN_INSIDE : TRAIN_NETWORK};
}

/* The message of the server before or behind, which brings the micro-batch; `after`, where there is none. */
static uint32_t take(struct train_builder *b, const struct place *p, enum pass pass, uint32_t first_tag, uint32_t after)
{
	if (pass == FORWARD ? !p->server : p->server + 1 == p->servers)
		return after;
	return train_receive(b, pass == FORWARD ? b->rank - p->workers : b->rank + p->workers, p->share,
			     first_tag + p->workers, TRAIN_NETWORK, after);
}

static void pass_on(struct train_builder *b, const struct place *p, enum pass pass, uint32_t first_tag, uint32_t after)
{
	if (pass == FORWARD ? p->server + 1 == p->servers : !p->server) {
		train_tail(b, after);
		return;
	}
	train_tail(b, train_send(b, pass == FORWARD ? b->rank + p->workers : b->rank - p->workers, p->share,
				 first_tag + p->workers, TRAIN_NETWORK, after));
}

/* The operation behind which the next collective inside the server may begin: it needs this, and the last one's end. */
static uint32_t queue(struct train_builder *b, const struct place *p, uint32_t needs)
{
	uint32_t turn;

	if (p->workers == 1)
		return needs;
	turn = train_calc(b, 0, b->cpu, needs);
	train_requires(b, turn, b->collective);
	return turn;
}

static uint32_t compute(struct train_builder *b, uint64_t ns, uint32_t after)
{
	return ns ? train_calc(b, ns, TRAIN_HOST, after) : after;
}

/* Layer by layer: all parts of the input are gathered, then the layer is computed. Returns the last operation. */
static uint32_t forward(struct train_builder *b, const struct place *p, uint32_t micro)
{
	uint32_t last = take(b, p, FORWARD, tag(b, p, FORWARD, micro, 0), b->begin);

	for (uint32_t layer = 0; layer < b->c->layers; layer++) {
		const struct train_ring ring = inside(b, p, tag(b, p, FORWARD, micro, layer));

		b->collective = train_all_gather(b, &ring, queue(b, p, last));
		last = compute(b, b->c->compute, b->collective);
	}
	pass_on(b, p, FORWARD, tag(b, p, FORWARD, micro, 0), last);
	return last;
}

/* Layer by layer: the input's gradient is computed, then added up over the workers. */
static void backward(struct train_builder *b, const struct place *p, uint32_t micro, uint32_t forwards)
{
	uint32_t last = take(b, p, BACKWARD, tag(b, p, BACKWARD, micro, 0), forwards);

	for (uint32_t layer = b->c->layers; layer--;) {
		const struct train_ring ring = inside(b, p, tag(b, p, BACKWARD, micro, layer));

		last = queue(b, p, compute(b, b->c->backward, last));
		last = train_all_gather(b, &ring, train_reduce_scatter(b, &ring, last));
		b->collective = last;
	}
	pass_on(b, p, BACKWARD, tag(b, p, BACKWARD, micro, 0), last);
}

void train_layers(struct train_builder *b)
{
	const struct place p = place(b);
	const uint32_t forwards = train_calc(b, 0, TRAIN_HOST, b->begin);

	b->collective = TRAIN_NONE;
	for (uint32_t micro = 0; micro < b->c->micro_batches && !b->err; micro++)
		train_requires(b, forwards, forward(b, &p, micro));
	for (uint32_t micro = 0; micro < b->c->micro_batches && !b->err; micro++)
		backward(b, &p, micro, forwards);
}
