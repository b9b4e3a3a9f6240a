/* SPDX-License-Identifier: BSD-3-Clause */
/* Schedules over full-duplex links: an event loop over a heap. Events of the same time happen in the order in which
 * they were made, but a message that has come in makes room before the next one's first byte is counted. */
#include "links.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

enum kind { DELIVERED, DONE, STARTED, POSTED, HEAD };

struct event {
	sp_time at;
	uint64_t order;	   /* among those of the same time; the kind is in the lowest bits */
	uint32_t rank, op; /* of a message: its sender's */
};

/* Receives that wait, and messages that nobody waits for. */
struct entry {
	uint32_t rank, op, next; /* next: of the list, or of the free ones */
};

struct list {
	uint32_t first, last;
};

struct side {
	sp_time out, in; /* when the link is free again */
	sp_time begun;	 /* when the last message began to leave */
	uint32_t coming;
};

struct host {
	struct side side[LINKS_NICS];
	sp_time cpu[LINKS_CPUS];     /* when it is free again */
	struct list posted, arrived; /* receives; messages */
	uint64_t base;		     /* of the rank's operations in the arrays */
};

struct links {
	const struct links_config *config;
	const struct goal *goal;
	struct links_node *node;
	struct links_result *result;
	struct host *host;
	uint32_t *waits, *chain; /* per operation */
	struct event *heap;
	struct entry *entry;
	size_t events, heap_room;
	uint32_t entries, entry_room, unused;
	uint64_t made, done;
	sp_time now;
	int err;
};

sp_time links_wire(uint64_t bytes, uint64_t rate)
{
	const unsigned __int128 ps = ((unsigned __int128)bytes * 8 * SP_SEC + rate - 1) / rate;

	return ps < LINKS_TIME_MAX ? (sp_time)ps : LINKS_TIME_MAX;
}

/* ---- events ---- */
static bool earlier(const struct event *a, const struct event *b)
{
	return a->at < b->at || (a->at == b->at && a->order < b->order);
}

static int heap_grow(struct links *l)
{
	const size_t room = l->heap_room ? 2 * l->heap_room : 1024;
	struct event *heap = realloc(l->heap, room * sizeof(*heap));

	if (!heap)
		return -ENOMEM;
	l->heap = heap;
	l->heap_room = room;
	return 0;
}

static void event_add(struct links *l, sp_time at, enum kind kind, uint32_t rank, uint32_t op)
{
	const uint64_t urgent = kind == DELIVERED ? 0 : 1ull << 63;
	const struct event e = {at, urgent | l->made++ << 3 | kind, rank, op};
	size_t i = l->events;

	if (at >= LINKS_TIME_MAX)
		l->err = -ERANGE;
	else if (l->events == l->heap_room && heap_grow(l))
		l->err = -ENOMEM;
	if (l->err)
		return;
	l->events++;
	for (; i && earlier(&e, &l->heap[(i - 1) / 2]); i = (i - 1) / 2)
		l->heap[i] = l->heap[(i - 1) / 2];
	l->heap[i] = e;
}

static struct event event_take(struct links *l)
{
	const struct event first = l->heap[0], last = l->heap[--l->events];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < l->events) {
		if (child + 1 < l->events && earlier(&l->heap[child + 1], &l->heap[child]))
			child++;
		if (!earlier(&l->heap[child], &last))
			break;
		l->heap[i] = l->heap[child];
		i = child;
	}
	l->heap[i] = last;
	return first;
}

/* ---- lists ---- */
static void list_add(struct links *l, struct list *list, uint32_t rank, uint32_t op)
{
	uint32_t i = l->unused;

	if (i != NONE) {
		l->unused = l->entry[i].next;
	} else {
		if (l->entries == l->entry_room) {
			const uint32_t room = l->entry_room ? 2 * l->entry_room : 1024;
			struct entry *entry = realloc(l->entry, room * sizeof(*entry));

			if (!entry) {
				l->err = -ENOMEM;
				return;
			}
			l->entry = entry;
			l->entry_room = room;
		}
		i = l->entries++;
	}
	l->entry[i] = (struct entry){rank, op, NONE};
	if (list->first == NONE)
		list->first = i;
	else
		l->entry[list->last].next = i;
	list->last = i;
}

static bool fits(const struct goal_op *receive, uint32_t sender, const struct goal_op *send)
{
	return (receive->peer == GOAL_ANY || receive->peer == sender) &&
	       (receive->tag == GOAL_ANY || receive->tag == send->tag);
}

/* Takes the first that fits: of messages for receive `op` of `rank`, or of receives for message `op` of `rank`. */
static bool list_take(struct links *l, struct list *list, bool messages, uint32_t rank, uint32_t op,
		      struct entry *found)
{
	const struct goal_op *mine = goal_op(l->goal, rank, op);

	for (uint32_t before = NONE, i = list->first; i != NONE; before = i, i = l->entry[i].next) {
		const struct entry e = l->entry[i];
		const struct goal_op *other = goal_op(l->goal, e.rank, e.op);

		if (messages ? !fits(mine, e.rank, other) : !fits(other, rank, mine))
			continue;
		if (before == NONE)
			list->first = e.next;
		else
			l->entry[before].next = e.next;
		if (list->last == i)
			list->last = before;
		l->entry[i].next = l->unused;
		l->unused = i;
		*found = e;
		return true;
	}
	return false;
}

/* ---- operations ---- */
static void start(struct links *l, uint32_t rank, uint32_t op);

/* Counts down what waits for an operation's start, or for its end. */
static void release(struct links *l, uint32_t rank, uint32_t op, uint32_t flag)
{
	const uint64_t base = l->host[rank].base;
	uint32_t n;
	const uint32_t *s = goal_successors(l->goal, rank, op, &n);

	for (uint32_t i = 0; i < n; i++) {
		const uint32_t next = s[i] & ~GOAL_STARTED;

		if ((s[i] & GOAL_STARTED) != flag)
			continue;
		if (l->chain[base + next] < l->chain[base + op])
			l->chain[base + next] = l->chain[base + op];
		if (!--l->waits[base + next])
			start(l, rank, next);
	}
}

static bool has_started_successor(const struct links *l, uint32_t rank, uint32_t op)
{
	uint32_t n, any = 0;
	const uint32_t *s = goal_successors(l->goal, rank, op, &n);

	for (uint32_t i = 0; i < n; i++)
		any |= s[i] & GOAL_STARTED;
	return any;
}

/* An operation's work on its processor: from when to when. */
static sp_time work(struct links *l, uint32_t rank, uint32_t op, sp_time takes, sp_time *begin)
{
	const uint8_t cpu = goal_op(l->goal, rank, op)->cpu;
	struct host *h = &l->host[rank];
	sp_time end;

	*begin = takes && h->cpu[cpu] > l->now ? h->cpu[cpu] : l->now;
	end = *begin + takes;
	if (l->config->stretch)
		end = l->config->stretch(l->config->arg, rank, cpu, *begin, takes);
	if (takes)
		h->cpu[cpu] = end;
	l->node[rank].work[cpu] += takes;
	return end;
}

static void receive(struct links *l, uint32_t sender, uint32_t send_op, uint32_t rank, uint32_t op)
{
	const uint32_t chain = l->chain[l->host[sender].base + send_op] + 1;
	uint32_t *mine = &l->chain[l->host[rank].base + op];
	sp_time begin;

	if (*mine < chain)
		*mine = chain;
	if (l->config->moved)
		l->config->moved(l->config->arg, sender, send_op, rank, op);
	event_add(l, work(l, rank, op, l->config->overhead[goal_op(l->goal, rank, op)->cpu], &begin), DONE, rank, op);
}

/* Nothing that the operation requires is left. */
static void start(struct links *l, uint32_t rank, uint32_t op)
{
	const struct goal_op *o = goal_op(l->goal, rank, op);
	sp_time begin = l->now, end;
	struct entry message;

	if (o->type == GOAL_CALC) {
		if (o->size >= LINKS_TIME_MAX / SP_NS) {
			l->err = -ERANGE;
			return;
		}
		end = work(l, rank, op, o->size * SP_NS, &begin);
		event_add(l, end, DONE, rank, op);
	} else if (o->type == GOAL_SEND) {
		end = work(l, rank, op, l->config->overhead[o->cpu], &begin);
		event_add(l, end, POSTED, rank, op);
	} else if (list_take(l, &l->host[rank].arrived, true, rank, op, &message)) {
		receive(l, message.rank, message.op, rank, op);
	} else {
		list_add(l, &l->host[rank].posted, rank, op);
	}
	if (has_started_successor(l, rank, op))
		event_add(l, begin, STARTED, rank, op);
}

static void done(struct links *l, uint32_t rank, uint32_t op)
{
	const uint32_t chain = l->chain[l->host[rank].base + op];

	l->done++;
	l->node[rank].end = l->now;
	l->result->end = l->now;
	if (l->result->chain < chain)
		l->result->chain = chain;
	if (l->config->done)
		l->config->done(l->config->arg, rank, op, l->now, chain);
	release(l, rank, op, 0);
}

/* ---- messages ---- */
static void posted(struct links *l, uint32_t rank, uint32_t op)
{
	const struct goal_op *o = goal_op(l->goal, rank, op);
	const struct links_nic *nic = &l->config->nic[o->nic];
	struct side *side = &l->host[rank].side[o->nic];
	const bool copy = l->config->copy && l->config->copy(l->config->arg, rank, op);
	const sp_time free = copy ? side->begun : side->out, begin = free > l->now ? free : l->now;
	const sp_time end = begin + links_wire(o->size, nic->rate);
	const sp_time latency = l->config->latency ? l->config->latency(l->config->arg, rank, op) : nic->latency;

	if (!copy) {
		side->begun = begin;
		side->out = end;
		l->node[rank].sent[o->nic] += o->size;
		l->node[rank].messages_sent++;
	}
	event_add(l, end, DONE, rank, op);
	event_add(l, latency < LINKS_TIME_MAX ? begin + latency : LINKS_TIME_MAX, HEAD, rank, op);
}

static void head(struct links *l, uint32_t rank, uint32_t op)
{
	const struct goal_op *o = goal_op(l->goal, rank, op);
	struct side *side = &l->host[o->peer].side[o->nic];
	const sp_time begin = side->in > l->now ? side->in : l->now;

	side->in = begin + links_wire(o->size, l->config->nic[o->nic].rate);
	if (++side->coming > l->node[o->peer].fan_in)
		l->node[o->peer].fan_in = side->coming;
	event_add(l, side->in, DELIVERED, rank, op);
}

static void delivered(struct links *l, uint32_t rank, uint32_t op)
{
	const struct goal_op *o = goal_op(l->goal, rank, op);
	struct host *h = &l->host[o->peer];
	struct entry waiting;

	h->side[o->nic].coming--;
	l->node[o->peer].received[o->nic] += o->size;
	l->node[o->peer].messages_received++;
	l->result->messages++;
	l->result->bytes += o->size;
	if (list_take(l, &h->posted, false, rank, op, &waiting))
		receive(l, rank, op, o->peer, waiting.op);
	else
		list_add(l, &h->arrived, rank, op);
}

static void handle(struct links *l, const struct event *e)
{
	switch ((enum kind)(e->order & 7)) {
	case DELIVERED:
		delivered(l, e->rank, e->op);
		break;
	case DONE:
		done(l, e->rank, e->op);
		break;
	case STARTED:
		release(l, e->rank, e->op, GOAL_STARTED);
		break;
	case POSTED:
		posted(l, e->rank, e->op);
		break;
	case HEAD:
		head(l, e->rank, e->op);
		break;
	}
}

/* ---- begin and end ---- */
static int check(const struct links_config *c)
{
	if (goal_ops_all(c->goal) > LINKS_OPS_MAX)
		return -E2BIG;
	for (uint32_t rank = 0; rank < goal_ranks(c->goal); rank++)
		for (uint32_t i = 0; i < goal_ops(c->goal, rank); i++) {
			const struct goal_op *o = goal_op(c->goal, rank, i);

			if (o->cpu >= LINKS_CPUS || o->nic >= LINKS_NICS)
				return -EINVAL;
			if (o->type != GOAL_CALC && !c->nic[o->nic].rate)
				return -EINVAL;
		}
	return 0;
}

static int prepare(struct links *l)
{
	const uint32_t ranks = goal_ranks(l->goal);
	const uint64_t ops = goal_ops_all(l->goal) + 1;
	uint64_t base = 0;

	l->host = calloc(ranks, sizeof(*l->host));
	l->waits = malloc(ops * sizeof(*l->waits));
	l->chain = calloc(ops, sizeof(*l->chain));
	if (!l->host || !l->waits || !l->chain)
		return -ENOMEM;
	for (uint32_t rank = 0; rank < ranks; rank++) {
		struct host *h = &l->host[rank];

		h->base = base;
		h->posted = h->arrived = (struct list){NONE, NONE};
		goal_waits(l->goal, rank, l->waits + base);
		base += goal_ops(l->goal, rank);
	}
	return 0;
}

static void begin(struct links *l)
{
	for (uint32_t rank = 0; rank < goal_ranks(l->goal); rank++) {
		const uint32_t ops = goal_ops(l->goal, rank);
		uint32_t *first = l->waits + l->host[rank].base;

		/* Starting one makes no other ready at once: that is an event. */
		for (uint32_t i = 0; i < ops && !l->err; i++)
			if (!first[i])
				start(l, rank, i);
	}
}

/* The first operation that is not done. Those that are have been counted down to 0, and so have those that started. */
static void find_stuck(struct links *l)
{
	struct links_result *r = l->result;

	for (uint32_t rank = 0; rank < goal_ranks(l->goal); rank++)
		if (l->host[rank].posted.first != NONE) {
			r->stuck_rank = rank;
			r->stuck_op = l->entry[l->host[rank].posted.first].op;
			return;
		}
}

int links_run(const struct links_config *config, struct links_node *node, struct links_result *result)
{
	struct links l = {.config = config, .goal = config->goal, .node = node, .result = result, .unused = NONE};

	memset(node, 0, goal_ranks(config->goal) * sizeof(*node));
	*result = (struct links_result){0};
	l.err = check(config);
	l.err = l.err ? l.err : prepare(&l);
	if (!l.err)
		begin(&l);
	while (!l.err && l.events) {
		const struct event e = event_take(&l);

		l.now = e.at;
		result->events++;
		handle(&l, &e);
	}
	if (!l.err && l.done < goal_ops_all(config->goal)) {
		l.err = -EDEADLK;
		find_stuck(&l);
	}
	free(l.host);
	free(l.waits);
	free(l.chain);
	free(l.heap);
	free(l.entry);
	return l.err;
}
