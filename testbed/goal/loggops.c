/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * LogGOPS. All that waits for the same processor and NIC in the same way can go at the same time, the oldest first: it
 * is in a lane. Only the oldest of a lane is in the queue of events, so that thousands of ready sends of a rank cost no
 * more than their number.
 */
#include "loggops.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "heap.h"
#include "match.h"

#define TIME_MOST  (1ull << 63)
#define LANES_MOST (1u << 25)	/* with several processors or NICs; 64 bytes each */
#define LONGEST	   (1ull << 60) /* of what is added to a time */
#define NS	   1000u	/* ps */
#define DONE	   UINT32_MAX	/* of engine.waits */
#define NOTHING	   UINT32_MAX	/* no operation */

const struct goal_loggops goal_loggops_default = {
	.hop = {{.L = 2500000, .g = 1000000, .G = 6000}, {.L = 2500000, .g = 1000000, .G = 6000}},
	.o = 1500000,
	.S = 65535,
};

/* The oldest of `items` has a valid event if key_time is not SP_NEVER: that of key_time and key_age. */
struct lane {
	struct goal_heap items; /* by age alone */
	sp_time key_time;
	uint64_t key_age;
};

struct freed {
	uint32_t rank, op;
};

struct engine {
	const struct goal *g;
	const struct goal_loggops *p;
	struct goal_outcome *o;
	uint32_t ranks, cpus, nics, lanes; /* the last three of each rank */
	sp_time *next_o, *next_send, *next_recv;
	uint64_t *base;	 /* of each rank's operations in what follows */
	uint32_t *waits; /* of each operation */
	sp_time *ready; /* of each, with several processors or full duplex: not before; of a send that is done, when all
			   of its message is there; else NULL */
	sp_time *last;	/* of each rank: when all of its last message is there */
	sp_time *phase; /* of each rank in the trace of detours */
	struct lane *lane;
	struct goal_heap queue;
	struct goal_match *match;
	struct freed *freed; /* by what is being executed */
	uint32_t frees, freed_room;
	uint64_t age, done;
	struct sp_random random;
	int err;
};

/* Events of the queue: a lane's oldest, a message that arrives, an operation that is ready. */
enum kind { LANE, ARRIVAL, READY };

/* ---- time ---- */
static sp_time later(struct engine *e, sp_time t, sp_time by)
{
	if (by >= TIME_MOST || t + by >= TIME_MOST) {
		e->err = -EOVERFLOW;
		return TIME_MOST - 1;
	}
	return t + by;
}

static sp_time larger(sp_time a, sp_time b)
{
	return a > b ? a : b;
}

/* Time of all bytes of a message but the first. */
static sp_time bytes_time(struct engine *e, uint64_t size, uint64_t each)
{
	sp_time t;

	if (size <= 1)
		return 0;
	if (!__builtin_mul_overflow(size - 1, each, &t) && t < LONGEST)
		return t;
	e->err = -EOVERFLOW;
	return 0;
}

static sp_time noise(struct engine *e, uint32_t rank, sp_time t, sp_time length)
{
	sp_time added;

	if (!e->p->detours)
		return 0;
	added = goal_detours_added(e->p->detours, later(e, t, e->phase[rank]), length);
	e->o->detours += added;
	return added;
}

/* ---- lanes ---- */
static sp_time *processor(const struct engine *e, uint32_t rank, const struct goal_op *op)
{
	return &e->next_o[(size_t)rank * e->cpus + op->cpu];
}

static sp_time *nic(const struct engine *e, sp_time *side, uint32_t rank, const struct goal_op *op)
{
	return &side[(size_t)rank * e->nics + op->nic];
}

/* Lanes of a rank: for each processor one of calcs, then for each NIC one of sends and one of messages. */
static uint32_t lane_of(const struct engine *e, uint32_t rank, const struct goal_op *op, bool message)
{
	const uint32_t within = op->type == GOAL_CALC ? 0 : 1u + 2u * op->nic + message;

	return rank * e->lanes + op->cpu * (1 + 2 * e->nics) + within;
}

/* When what is in such a lane can go. */
static sp_time free_at(const struct engine *e, uint32_t rank, const struct goal_op *op, bool message)
{
	const sp_time cpu = *processor(e, rank, op);

	if (op->type == GOAL_CALC)
		return cpu;
	return larger(cpu, *nic(e, message ? e->next_recv : e->next_send, rank, op));
}

static void push(struct engine *e, struct goal_heap *h, const struct goal_item *item)
{
	const int err = goal_heap_push(h, item);

	e->err = e->err ? e->err : err;
}

/* Sees to it that the lane's oldest has an event, not before t. */
static void arm(struct engine *e, uint32_t lane, sp_time t)
{
	struct lane *l = &e->lane[lane];

	if (goal_heap_empty(&l->items) || (l->key_time == t && l->key_age == goal_heap_first(&l->items)->age))
		return;
	l->key_time = t;
	l->key_age = goal_heap_first(&l->items)->age;
	push(e, &e->queue, &(struct goal_item){.time = t, .age = l->key_age, .rank = lane, .kind = LANE});
}

/* Lets it wait in its lane, until t. */
static void wait_in(struct engine *e, uint32_t lane, struct goal_item item, sp_time t)
{
	item.time = 0;
	push(e, &e->lane[lane].items, &item);
	arm(e, lane, t);
}

/* ---- dependencies ---- */
static void release(struct engine *e, uint32_t rank, uint32_t op, uint32_t flag, sp_time t)
{
	uint32_t n;
	const uint32_t *s = goal_successors(e->g, rank, op, &n);

	for (uint32_t i = 0; i < n; i++) {
		const uint32_t next = s[i] & ~GOAL_STARTED;
		const uint64_t at = e->base[rank] + next;

		if ((s[i] & GOAL_STARTED) != flag)
			continue;
		if (e->ready)
			e->ready[at] = larger(e->ready[at], t);
		if (--e->waits[at])
			continue;
		if (e->frees == e->freed_room) {
			const uint32_t wanted = e->freed_room ? 2 * e->freed_room : 64;
			struct freed *more = realloc(e->freed, wanted * sizeof(*more));

			if (!more) {
				e->err = -ENOMEM;
				return;
			}
			e->freed = more;
			e->freed_room = wanted;
		}
		e->freed[e->frees++] = (struct freed){rank, next};
	}
}

static void started(struct engine *e, uint32_t rank, uint32_t op, sp_time t)
{
	release(e, rank, op, GOAL_STARTED, t);
}

static void done(struct engine *e, uint32_t rank, uint32_t op, sp_time t)
{
	e->done++;
	e->waits[e->base[rank] + op] = DONE;
	release(e, rank, op, 0, t);
}

/* Operation i of the rank waits for nothing but its processor and NIC. */
static void begin(struct engine *e, uint32_t rank, uint32_t i)
{
	const struct goal_op *op = goal_op(e->g, rank, i);
	const sp_time at = op->type == GOAL_RECV ? *processor(e, rank, op) : free_at(e, rank, op, false);
	const sp_time t = e->ready ? larger(at, e->ready[e->base[rank] + i]) : at;
	const struct goal_item item = {.time = t, .age = e->age++, .rank = rank, .op = i, .kind = READY};

	if (op->type == GOAL_RECV || t > at)
		push(e, &e->queue, &item);
	else
		wait_in(e, lane_of(e, rank, op, false), item, t);
}

/* What was freed becomes ready: by rank, by type, and in the order in which it was freed. */
static void begin_freed(struct engine *e)
{
	uint32_t low = UINT32_MAX, high = 0;

	for (uint32_t i = 0; i < e->frees; i++) {
		low = e->freed[i].rank < low ? e->freed[i].rank : low;
		high = e->freed[i].rank > high ? e->freed[i].rank : high;
	}
	for (unsigned side = 0; side < 2 && e->frees; side++) {
		const uint32_t rank = side ? high : low;

		for (unsigned type = GOAL_SEND; type <= GOAL_CALC; type++)
			for (uint32_t i = 0; i < e->frees; i++)
				if (e->freed[i].rank == rank && goal_op(e->g, rank, e->freed[i].op)->type == type)
					begin(e, rank, e->freed[i].op);
		if (low == high)
			break;
	}
	e->frees = 0;
}

/* ---- what happens ---- */
static void calc(struct engine *e, uint32_t rank, uint32_t i, sp_time t)
{
	const struct goal_op *op = goal_op(e->g, rank, i);
	const sp_time length = op->size * NS;
	sp_time *cpu = processor(e, rank, op);

	*cpu = later(e, t, length + noise(e, rank, t, length));
	started(e, rank, i, t);
	done(e, rank, i, *cpu);
}

/* The time of a message's bytes on the wire, with a G for each block if it is drawn. */
static sp_time wire_time(struct engine *e, const struct goal_hop *hop, uint64_t size)
{
	sp_time sum = 0;

	if (!hop->byte)
		return bytes_time(e, size, hop->G);
	for (uint64_t rest = size > 1 ? size - 1 : 0; rest;) {
		const uint64_t block = rest < GOAL_G_BLOCK ? rest : GOAL_G_BLOCK;

		sum = later(e, sum, bytes_time(e, block + 1, goal_draw(hop->byte, &e->random)));
		rest -= block;
		if (e->err)
			break;
	}
	return sum;
}

static const struct goal_hop *hop_of(const struct engine *e, uint32_t a, uint32_t b)
{
	const uint32_t n = e->p->nodes_per_switch;

	return &e->p->hop[n && a / n != b / n];
}

static void send(struct engine *e, uint32_t rank, uint32_t i, sp_time t)
{
	const struct goal_op *op = goal_op(e->g, rank, i);
	const struct goal_hop *hop = hop_of(e, rank, op->peer);
	const sp_time o = e->p->o, wire = wire_time(e, hop, op->size);
	const sp_time L = hop->latency ? goal_draw(hop->latency, &e->random) : hop->L;
	const bool rendezvous = op->size > e->p->S;
	sp_time *cpu = processor(e, rank, op);
	sp_time arrival = later(e, t, o + L);

	if (rendezvous && e->p->handshake)
		arrival = later(e, arrival, 2 * L);
	started(e, rank, i, t);
	*cpu = later(e, t, o + bytes_time(e, op->size, e->p->O) + noise(e, rank, t, o));
	*nic(e, e->next_send, rank, op) = later(e, t, hop->g + wire);
	push(e, &e->queue,
	     &(struct goal_item){
		     .time = arrival, .age = e->age++, .wire = wire, .rank = rank, .op = i, .kind = ARRIVAL});
	e->o->messages++;
	e->o->bytes += op->size;
	if (!rendezvous)
		done(e, rank, i, *cpu);
}

/* A rendezvous is matched: its send is done, and its sender goes on from now. */
static void matched(struct engine *e, uint32_t from, uint32_t i, sp_time t)
{
	const struct goal_op *op = goal_op(e->g, from, i);
	sp_time *cpu = processor(e, from, op), *side = nic(e, e->next_send, from, op);

	if (op->size <= e->p->S)
		return;
	done(e, from, i, t);
	*cpu = larger(*cpu, t);
	*side = larger(*side, t);
}

static void receive(struct engine *e, uint32_t rank, uint32_t i, sp_time t)
{
	const struct goal_op *op = goal_op(e->g, rank, i);
	struct goal_waiting message;

	started(e, rank, i, t);
	if (goal_match_receive(e->match, rank, op->peer, op->tag, &message)) {
		const sp_time there = e->p->full_duplex ? e->ready[e->base[message.from] + message.op] : 0;

		matched(e, message.from, message.op, t);
		done(e, rank, i, larger(t, there));
	} else if (goal_match_post(e->match, rank, op->peer, op->tag, i)) {
		e->err = -ENOMEM;
	}
}

static void arrive(struct engine *e, uint32_t from, uint32_t i, sp_time wire, sp_time t)
{
	const struct goal_op *op = goal_op(e->g, from, i);
	const uint32_t rank = op->peer;
	const sp_time o = e->p->o + noise(e, rank, t, e->p->o), host = bytes_time(e, op->size, e->p->O);
	const sp_time there = later(e, t, o + larger(host, wire));
	struct goal_waiting posted = {.op = NOTHING};

	*processor(e, rank, op) = e->p->full_duplex ? later(e, t, o + host) : there;
	e->last[rank] = larger(e->last[rank], there);
	*nic(e, e->next_recv, rank, op) = later(e, t, hop_of(e, from, rank)->g + wire);
	if (goal_match_message(e->match, rank, from, op->tag, &posted)) {
		matched(e, from, i, t);
		done(e, rank, posted.op, there);
	} else if (e->ready) {
		e->ready[e->base[from] + i] = there;
	}
	if (posted.op == NOTHING && goal_match_keep(e->match, rank, from, op->tag, i)) {
		e->err = -ENOMEM;
	}
}

/* ---- the loop ---- */
static void execute(struct engine *e, const struct goal_item *x, sp_time t)
{
	const struct goal_op *op = goal_op(e->g, x->rank, x->op);

	if (x->kind == ARRIVAL)
		arrive(e, x->rank, x->op, x->wire, t);
	else if (op->type == GOAL_SEND)
		send(e, x->rank, x->op, t);
	else if (op->type == GOAL_RECV)
		receive(e, x->rank, x->op, t);
	else
		calc(e, x->rank, x->op, t);
	begin_freed(e);
}

static uint32_t owner(const struct engine *e, const struct goal_item *x)
{
	return x->kind == ARRIVAL ? goal_op(e->g, x->rank, x->op)->peer : x->rank;
}

static void lane_turn(struct engine *e, const struct goal_item *event)
{
	struct lane *l = &e->lane[event->rank];
	struct goal_item x;
	sp_time at;

	if (l->key_time != event->time || l->key_age != event->age)
		return; /* another has become the oldest, or its time has changed */
	l->key_time = SP_NEVER;
	x = *goal_heap_first(&l->items);
	at = free_at(e, owner(e, &x), goal_op(e->g, x.rank, x.op), x.kind == ARRIVAL);
	if (at > event->time) {
		arm(e, event->rank, at);
		return;
	}
	goal_heap_pop(&l->items, &x);
	execute(e, &x, event->time);
	if (goal_heap_empty(&l->items))
		return;
	x = *goal_heap_first(&l->items);
	at = free_at(e, owner(e, &x), goal_op(e->g, x.rank, x.op), x.kind == ARRIVAL);
	arm(e, event->rank, larger(at, event->time));
}

static void run(struct engine *e)
{
	struct goal_item x;

	while (!e->err && goal_heap_pop(&e->queue, &x)) {
		const struct goal_op *op;
		sp_time at;

		if (x.kind == LANE) {
			lane_turn(e, &x);
			continue;
		}
		op = goal_op(e->g, x.rank, x.op);
		at = x.kind == READY && op->type == GOAL_RECV ? x.time
							      : free_at(e, owner(e, &x), op, x.kind == ARRIVAL);
		if (at <= x.time)
			execute(e, &x, x.time);
		else
			wait_in(e, lane_of(e, owner(e, &x), op, x.kind == ARRIVAL), x, at);
	}
}

/* ---- begin and end ---- */
static void measure(struct engine *e)
{
	e->cpus = e->nics = 1;
	for (uint32_t r = 0; r < e->ranks; r++)
		for (uint32_t i = 0; i < goal_ops(e->g, r); i++) {
			const struct goal_op *op = goal_op(e->g, r, i);

			e->cpus = op->cpu >= e->cpus ? op->cpu + 1u : e->cpus;
			e->nics = op->nic >= e->nics ? op->nic + 1u : e->nics;
			if (op->size <= GOAL_SIZE_MAX || e->err)
				continue;
			e->err = -EINVAL;
			e->o->rank = r;
			e->o->op = i;
		}
	e->lanes = e->cpus * (1 + 2 * e->nics);
}

static int allocate(struct engine *e)
{
	const size_t ops = goal_ops_all(e->g) + 1, cpus = (size_t)e->ranks * e->cpus, nics = (size_t)e->ranks * e->nics;
	const bool late = e->cpus > 1 || e->p->full_duplex;

	if (e->lanes > 3 && (uint64_t)e->ranks * e->lanes > LANES_MOST)
		return -E2BIG;
	e->next_o = calloc(cpus, sizeof(*e->next_o));
	e->next_send = calloc(nics, sizeof(*e->next_send));
	e->next_recv = calloc(nics, sizeof(*e->next_recv));
	e->base = malloc((e->ranks + 1ull) * sizeof(*e->base));
	e->waits = malloc(ops * sizeof(*e->waits));
	e->ready = late ? calloc(ops, sizeof(*e->ready)) : NULL;
	e->last = calloc(e->ranks, sizeof(*e->last));
	e->phase = calloc(e->ranks, sizeof(*e->phase));
	e->lane = calloc((size_t)e->ranks * e->lanes, sizeof(*e->lane));
	if (!e->next_o || !e->next_send || !e->next_recv || !e->base || !e->waits || !e->phase || !e->lane ||
	    !e->last || (late && !e->ready))
		return -ENOMEM;
	return goal_match_create(e->ranks, &e->match);
}

static void release_all(struct engine *e)
{
	for (size_t i = 0; e->lane && i < (size_t)e->ranks * e->lanes; i++)
		goal_heap_free(&e->lane[i].items);
	goal_heap_free(&e->queue);
	goal_match_destroy(e->match);
	free(e->next_o);
	free(e->next_send);
	free(e->next_recv);
	free(e->base);
	free(e->waits);
	free(e->ready);
	free(e->last);
	free(e->phase);
	free(e->lane);
	free(e->freed);
}

/* Where each rank is in the trace of detours at time 0. */
static void place(struct engine *e)
{
	const struct goal_draws any = {.n = e->p->detours ? e->p->detours->period : 0};

	for (uint32_t i = 0; i < e->ranks && any.n; i++)
		e->phase[i] = i && e->p->coscheduled
				      ? e->phase[0]
				      : (sp_time)((unsigned __int128)sp_random_next(&e->random) * any.n >> 64);
}

static void begin_all(struct engine *e)
{
	uint64_t base = 0;

	for (uint32_t r = 0; r < e->ranks; r++) {
		e->base[r] = base;
		goal_waits(e->g, r, e->waits + base);
		base += goal_ops(e->g, r);
	}
	for (size_t i = 0; i < (size_t)e->ranks * e->lanes; i++)
		e->lane[i].key_time = SP_NEVER;
	for (uint32_t r = 0; r < e->ranks && !e->err; r++)
		for (unsigned type = GOAL_SEND; type <= GOAL_CALC; type++)
			for (uint32_t i = 0; i < goal_ops(e->g, r); i++)
				if (goal_op(e->g, r, i)->type == type && !e->waits[e->base[r] + i])
					begin(e, r, i);
}

static void conclude(struct engine *e, sp_time *ends)
{
	for (uint32_t r = 0; r < e->ranks; r++) {
		sp_time end = e->last[r];

		for (uint32_t c = 0; c < e->cpus; c++)
			end = larger(end, e->next_o[(size_t)r * e->cpus + c]);
		if (ends)
			ends[r] = end;
		if (end > e->o->end) {
			e->o->end = end;
			e->o->last = r;
		}
	}
	e->o->events = e->age;
	e->o->undone = goal_ops_all(e->g) - e->done;
	e->o->unreceived = goal_match_messages(e->match);
}

/* The first receive or rendezvous that nobody has matched; all else waits for such. */
static void find_stuck(struct engine *e)
{
	if (!e->o->undone) {
		goal_match_message_left(e->match, &e->o->rank, &e->o->op);
		return;
	}
	for (uint32_t r = 0; r < e->ranks; r++)
		for (uint32_t i = 0; i < goal_ops(e->g, r); i++)
			if (!e->waits[e->base[r] + i]) {
				e->o->rank = r;
				e->o->op = i;
				return;
			}
}

static bool sensible(const struct goal_loggops *p)
{
	for (unsigned i = 0; i < 2; i++)
		if (p->hop[i].L >= LONGEST || p->hop[i].g >= LONGEST)
			return false;
	return p->o < LONGEST;
}

int goal_loggops_run(const struct goal *g, const struct goal_loggops *p, sp_time *ends, struct goal_outcome *o)
{
	struct engine e = {.g = g, .p = p, .o = o, .ranks = goal_ranks(g)};

	*o = (struct goal_outcome){0};
	if (!sensible(p))
		return -ERANGE;
	measure(&e);
	if (!e.err)
		e.err = allocate(&e);
	if (!e.err) {
		sp_random_seed(&e.random, p->seed, p->run);
		place(&e);
		begin_all(&e);
		run(&e);
	}
	if (!e.err) {
		conclude(&e, ends);
		if (o->undone || o->unreceived) {
			e.err = -EDEADLK;
			find_stuck(&e);
		}
	}
	release_all(&e);
	return e.err;
}
