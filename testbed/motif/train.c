/* SPDX-License-Identifier: BSD-3-Clause */
/* Schedules of training, step by step and rank by rank: the data-parallel schemes. */
#include "train_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- operations ---- */
static uint32_t add(struct train_builder *b, const struct goal_op *op, uint32_t after)
{
	uint32_t index = TRAIN_NONE;

	if (b->dead)
		return index;
	if (!b->err && b->ops++ >= TRAIN_OPS_MAX)
		b->err = -E2BIG;
	if (!b->err)
		b->err = goal_add(b->train->goal, b->rank, op, &index);
	train_requires(b, index, after);
	if (b->dying && op->type == GOAL_SEND && op->cpu != TRAIN_PACER) {
		b->dead = true;
		b->train->death = index;
	}
	return index;
}

uint32_t train_calc(struct train_builder *b, uint64_t ns, uint8_t cpu, uint32_t after)
{
	return add(b, &(struct goal_op){.size = ns, .type = GOAL_CALC, .cpu = cpu}, after);
}

static uint32_t stepped(const struct train_builder *b, uint32_t tag)
{
	return b->step % 2 ? tag | TRAIN_ODD : tag;
}

uint32_t train_send(struct train_builder *b, uint32_t to, uint64_t bytes, uint32_t tag, uint8_t nic, uint32_t after)
{
	return add(b, &(struct goal_op){bytes, to, stepped(b, tag), GOAL_SEND, b->cpu, nic, 0}, after);
}

uint32_t train_receive(struct train_builder *b, uint32_t from, uint64_t bytes, uint32_t tag, uint8_t nic,
		       uint32_t after)
{
	return add(b, &(struct goal_op){bytes, from, stepped(b, tag), GOAL_RECV, b->cpu, nic, 0}, after);
}

uint32_t train_receive_and_add(struct train_builder *b, uint32_t from, uint64_t bytes, uint32_t tag, uint8_t nic,
			       uint32_t after)
{
	const uint32_t received = train_receive(b, from, bytes, tag, nic, after);
	const uint64_t rate = b->c->add_rate;

	if (!rate || !bytes)
		return received;
	return train_calc(b, (links_wire(bytes, rate) + SP_NS - 1) / SP_NS, b->cpu, received);
}

void train_requires(struct train_builder *b, uint32_t op, uint32_t before)
{
	if (!b->err && op != TRAIN_NONE && before != TRAIN_NONE)
		b->err = goal_requires(b->train->goal, b->rank, op, before);
}

void train_tail(struct train_builder *b, uint32_t op)
{
	if (op == TRAIN_NONE)
		return;
	if (b->tails == b->tail_room) {
		const uint32_t room = b->tail_room ? 2 * b->tail_room : 64;
		uint32_t *tail = realloc(b->tail, room * sizeof(*tail));

		if (!tail) {
			b->err = -ENOMEM;
			return;
		}
		b->tail = tail;
		b->tail_room = room;
	}
	b->tail[b->tails++] = op;
}

/* ---- rings ---- */
struct neighbours {
	uint32_t me, next, before; /* me: which member; the others: ranks */
};

static struct neighbours neighbours(const struct train_builder *b, const struct train_ring *ring)
{
	const uint32_t me = b->rank - ring->first, n = ring->members;

	return (struct neighbours){me, ring->first + (me + 1) % n, ring->first + (me + n - 1) % n};
}

static uint32_t tag_of(const struct train_ring *ring, enum train_action action, uint32_t part)
{
	return (uint32_t)action << TRAIN_ACTION | (ring->tag + part);
}

uint32_t train_reduce_scatter(struct train_builder *b, const struct train_ring *ring, uint32_t after)
{
	const struct neighbours at = neighbours(b, ring);
	const uint32_t n = ring->members;
	uint32_t sent = after, last = after;

	for (uint32_t round = 0; round + 1 < n; round++) {
		const uint32_t out = (at.me + n - round) % n, in = (out + n - 1) % n;

		sent = train_send(b, at.next, train_part(ring->bytes, out, n), tag_of(ring, TRAIN_ADD, out), ring->nic,
				  last);
		last = train_receive_and_add(b, at.before, train_part(ring->bytes, in, n), tag_of(ring, TRAIN_ADD, in),
					     ring->nic, after);
	}
	train_tail(b, sent); /* they leave in order */
	return last;
}

uint32_t train_all_gather(struct train_builder *b, const struct train_ring *ring, uint32_t after)
{
	const struct neighbours at = neighbours(b, ring);
	const uint32_t n = ring->members;
	uint32_t sent = after, last = after;

	for (uint32_t round = 0; round + 1 < n; round++) {
		const uint32_t out = (at.me + 1 + n - round) % n, in = (out + n - 1) % n;

		sent = train_send(b, at.next, train_part(ring->bytes, out, n), tag_of(ring, TRAIN_STORE, out),
				  ring->nic, last);
		last = train_receive(b, at.before, train_part(ring->bytes, in, n), tag_of(ring, TRAIN_STORE, in),
				     ring->nic, after);
	}
	train_tail(b, sent);
	return last;
}

static void ring(struct train_builder *b, uint32_t computed)
{
	const struct train_ring all = {0, b->c->workers, b->c->bytes, 0, TRAIN_NETWORK};
	uint32_t last = computed;

	if (b->c->scheme != TRAIN_ALL_GATHER)
		last = train_reduce_scatter(b, &all, last);
	if (b->c->scheme != TRAIN_REDUCE_SCATTER)
		last = train_all_gather(b, &all, last);
	train_tail(b, last);
}

/* ---- parameter servers ---- */
static void ps_worker(struct train_builder *b, uint32_t computed)
{
	const uint32_t server = b->c->workers, n = b->c->segments;

	for (uint32_t i = 0; i < n; i++) {
		const uint64_t bytes = train_part(b->c->bytes, i, n);

		train_tail(b, train_send(b, server, bytes, TRAIN_ADD << TRAIN_ACTION | i, TRAIN_NETWORK, computed));
		train_tail(b,
			   train_receive(b, server, bytes, TRAIN_STORE << TRAIN_ACTION | i, TRAIN_NETWORK, computed));
	}
}

static void ps_server(struct train_builder *b)
{
	const uint32_t n = b->c->segments;

	for (uint32_t i = 0; i < n; i++) {
		const uint64_t bytes = train_part(b->c->bytes, i, n);
		const uint32_t summed = train_calc(b, 0, b->cpu, b->begin);

		for (uint32_t w = 0; w < b->c->workers; w++)
			train_requires(b, summed,
				       train_receive_and_add(b, w, bytes, TRAIN_ADD << TRAIN_ACTION | i, TRAIN_NETWORK,
							     b->begin));
		for (uint32_t w = 0; w < b->c->workers; w++)
			train_tail(b, train_send(b, w, bytes, TRAIN_STORE << TRAIN_ACTION | i, TRAIN_NETWORK, summed));
	}
}

/* Each worker's updates follow on each other, and on nothing else. */
static void async_server(struct train_builder *b)
{
	for (uint32_t w = 0; w < b->c->workers; w++)
		train_tail(b, train_send(b, w, b->c->bytes, TRAIN_STORE << TRAIN_ACTION, TRAIN_NETWORK,
					 train_receive_and_add(b, w, b->c->bytes, TRAIN_ADD << TRAIN_ACTION,
							       TRAIN_NETWORK, TRAIN_NONE)));
}

/* Worker i serves part i. All send first to the next, then to the one after: no two to one at a time. */
static void sharded(struct train_builder *b, uint32_t computed)
{
	const uint32_t n = b->c->workers, me = b->rank;
	const uint64_t mine = train_part(b->c->bytes, me, n);
	const uint32_t summed = train_calc(b, 0, b->cpu, computed);

	for (uint32_t i = 1; i < n; i++) {
		const uint32_t to = (me + i) % n, from = (me + n - i) % n;

		train_tail(b, train_send(b, to, train_part(b->c->bytes, to, n), TRAIN_ADD << TRAIN_ACTION | to,
					 TRAIN_NETWORK, computed));
		train_requires(
			b, summed,
			train_receive_and_add(b, from, mine, TRAIN_ADD << TRAIN_ACTION | me, TRAIN_NETWORK, computed));
	}
	for (uint32_t i = 1; i < n; i++) {
		const uint32_t to = (me + i) % n, from = (me + n - i) % n;

		train_tail(b, train_send(b, to, mine, TRAIN_STORE << TRAIN_ACTION | me, TRAIN_NETWORK, summed));
		train_tail(b, train_receive(b, from, train_part(b->c->bytes, from, n),
					    TRAIN_STORE << TRAIN_ACTION | from, TRAIN_NETWORK, computed));
	}
}

/* ---- others ---- */
static void decentralised(struct train_builder *b, uint32_t computed)
{
	const uint32_t n = b->c->workers, tag = TRAIN_ADD_OWN << TRAIN_ACTION;
	uint32_t sent = computed, received = computed;

	for (uint32_t i = 1; i < n; i++) {
		const uint32_t out = train_send(b, (b->rank + i) % n, b->c->bytes, tag, TRAIN_NETWORK, received);
		const uint32_t in =
			train_receive_and_add(b, (b->rank + n - i) % n, b->c->bytes, tag, TRAIN_NETWORK, received);

		train_requires(b, out, sent);
		sent = out;
		received = in;
	}
	train_tail(b, sent);
	train_tail(b, received);
}

static void barrier(struct train_builder *b, uint32_t computed)
{
	const uint32_t n = b->c->workers;
	uint32_t last = computed;

	for (uint32_t away = 1, round = 0; away < n; away *= 2, round++) {
		train_tail(b, train_send(b, (b->rank + away) % n, b->c->bytes, round, TRAIN_NETWORK, last));
		last = train_receive(b, (b->rank + n - away) % n, b->c->bytes, round, TRAIN_NETWORK, last);
	}
	train_tail(b, last);
}

/* What follows on the computation. */
static void exchange(struct train_builder *b, uint32_t computed)
{
	switch (b->c->scheme) {
	case TRAIN_PS:
	case TRAIN_PS_ASYNC:
		ps_worker(b, computed);
		break;
	case TRAIN_PS_SHARDED:
		sharded(b, computed);
		break;
	case TRAIN_DECENTRALISED:
		decentralised(b, computed);
		break;
	case TRAIN_BARRIER:
		barrier(b, computed);
		break;
	default:
		ring(b, computed);
		break;
	}
}

/* ---- schedules ---- */
static bool in_layers(const struct train_config *c)
{
	return c->scheme == TRAIN_PIPELINE || c->scheme == TRAIN_TENSOR || c->scheme == TRAIN_HYBRID;
}

static bool has_server(const struct train_config *c)
{
	return c->scheme == TRAIN_PS || c->scheme == TRAIN_PS_ASYNC;
}

static void step(struct train_builder *b)
{
	const bool server = has_server(b->c) && b->rank == b->c->workers;
	const bool store = train_has_store(b->c) && b->rank + 1 == b->train->ranks;
	const bool writes = !b->rank && train_checkpoint_due(b->c, b->step);
	uint32_t join;

	b->tails = 0;
	b->dying = b->c->dies && b->rank == b->c->dying && b->step == b->c->dying_step;
	b->cpu = b->c->offload && (server || !has_server(b->c)) ? TRAIN_NIC : TRAIN_HOST;
	if (in_layers(b->c))
		train_layers(b);
	else if (store)
		train_checkpoint_store(b);
	else if (server && b->c->scheme == TRAIN_PS)
		ps_server(b);
	else if (server)
		async_server(b);
	else
		exchange(b, b->c->compute ? train_calc(b, b->c->compute, TRAIN_HOST, b->begin) : b->begin);
	join = train_calc(b, 0, b->cpu, b->begin);
	for (uint32_t i = 0; i < b->tails; i++)
		train_requires(b, join, b->tail[i]);
	if (writes) /* there is memory for one checkpoint */
		train_requires(b, join, b->streamed);
	b->train->join[(uint64_t)b->rank * b->c->steps + b->step] = join;
	b->begin = join;
	if (writes)
		train_checkpoint_send(b, join);
}

static bool within_bounds(const struct train_config *c)
{
	const bool hybrid = c->scheme == TRAIN_HYBRID;

	if (c->workers < (hybrid ? 1 : 2) || c->workers > TRAIN_WORKERS_MAX || !c->steps || c->bytes > TRAIN_BYTES_MAX)
		return false;
	if (hybrid && (!c->servers || c->servers > TRAIN_WORKERS_MAX))
		return false;
	if ((c->scheme == TRAIN_PS || c->scheme == TRAIN_PS_ASYNC) && (!c->segments || c->segments > TRAIN_OPS_MAX))
		return false;
	if (c->multicast && c->scheme != TRAIN_PS)
		return false;
	if (c->scheme == TRAIN_PS_ASYNC && c->segments != 1)
		return false;
	if (in_layers(c) &&
	    (!c->micro_batches || !c->layers || c->micro_batches > TRAIN_OPS_MAX || c->layers > TRAIN_OPS_MAX))
		return false;
	if ((c->dies || train_has_store(c)) &&
	    (!train_parts_of(c) || c->scheme == TRAIN_REDUCE_SCATTER || c->checkpoint_bytes > TRAIN_BYTES_MAX ||
	     (c->checkpoint && !c->checkpoint_rate) || c->before > UINT32_MAX - c->steps))
		return false;
	if (c->dies && (c->dying >= c->workers || c->dying_step >= c->steps))
		return false;
	return c->compute < LINKS_TIME_MAX / SP_NS && c->backward < LINKS_TIME_MAX / SP_NS;
}

uint32_t train_ranks(const struct train_config *c)
{
	if (c->scheme == TRAIN_HYBRID)
		return c->workers * c->servers;
	return c->workers + has_server(c) + train_has_store(c);
}

static int build(struct train *t)
{
	struct train_builder b = {.train = t, .c = &t->config};

	for (b.rank = 0; b.rank < t->ranks && !b.err; b.rank++) {
		b.cpu = TRAIN_HOST;
		b.step = 0;
		b.dead = false;
		b.streamed = TRAIN_NONE;
		b.begin = train_checkpoint_restore(&b);
		for (b.step = 0; b.step < t->config.steps && !b.err; b.step++)
			step(&b);
	}
	free(b.tail);
	return b.err ? b.err : goal_finish(t->goal);
}

int train_create(const struct train_config *config, struct train **train)
{
	struct train *t;
	int err;

	if (!within_bounds(config))
		return -EINVAL;
	if ((uint64_t)train_ranks(config) * config->steps > TRAIN_OPS_MAX)
		return -E2BIG;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->config = *config;
	t->ranks = train_ranks(config);
	t->join = malloc((uint64_t)t->ranks * config->steps * sizeof(*t->join));
	err = t->join ? goal_create(t->ranks, &t->goal) : -ENOMEM;
	err = err ? err : build(t);
	if (err)
		train_destroy(t);
	else
		*train = t;
	return err;
}

void train_destroy(struct train *t)
{
	if (!t)
		return;
	goal_destroy(t->goal);
	free(t->join);
	free(t);
}
