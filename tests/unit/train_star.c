/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The same schedules packet by packet: hosts on a switch with credits (testbed/net), which knows neither messages nor
 * links.h. Nobody computes here. Without loss, and as long as one link is what all wait for, the times are the same.
 */
#include "../../testbed/motif/train.h"
#include "../../testbed/net/net.h"
#include "../lib/suite.h"

#define RATE	400000000000ull
#define LATENCY (2 * 20 * SP_NS + 2 * 30 * SP_NS) /* two links, and the switch in and out */
#define PACKET	4096u
#define RANKS	17u
#define MOST	4096u /* operations of a rank */

struct host {
	uint32_t queue[MOST], begin, end; /* sends, one after the other */
	uint64_t sent;			  /* bytes of the first */
	uint32_t waits[MOST];
	bool begun[MOST];
	uint64_t come[MOST]; /* bytes of this rank's messages that are there */
	bool posted[MOST];   /* receives that wait; sends whose message waits */
};

static struct host host[RANKS];
static struct net *net;
static const struct goal *goal;
static sp_time last;
static uint64_t done_ops;
static uint32_t copier, answers; /* the server whose answers the switch copies, and its group; UINT32_MAX: none */

static void start(uint32_t rank, uint32_t op, sp_time now);

static void done(uint32_t rank, uint32_t op, sp_time now)
{
	uint32_t n;
	const uint32_t *s = goal_successors(goal, rank, op, &n);

	last = now;
	done_ops++;
	for (uint32_t i = 0; i < n; i++)
		if (!--host[rank].waits[s[i]])
			start(rank, s[i], now);
}

/* Packets of the first message, as many as the link takes. */
static void push(void *arg, uint32_t rank, sp_time now)
{
	struct host *h = &host[rank];

	while (h->begin < h->end) {
		const uint32_t op = h->queue[h->begin];
		const struct goal_op *o = goal_op(goal, rank, op);
		const uint64_t left = o->size - h->sent;
		const struct net_packet p = {.dst = rank == copier ? answers : o->peer,
					     .bytes = left < PACKET ? (uint32_t)left : PACKET,
					     .tag = op,
					     .flow = rank};

		if (!net_send(net, rank, &p, now))
			return;
		h->sent += p.bytes;
		if (h->sent < o->size)
			continue;
		h->begin++;
		h->sent = 0;
		done(rank, op, now);
	}
}

/* The first operation of this kind that waits for its counterpart. */
static uint32_t waiting(uint32_t rank, enum goal_type type, uint32_t peer, uint32_t tag)
{
	uint32_t i = 0;

	for (; i < goal_ops(goal, rank); i++) {
		const struct goal_op *o = goal_op(goal, rank, i);

		if (host[rank].posted[i] && o->type == type && o->peer == peer && o->tag == tag)
			break;
	}
	return i;
}

/* The oldest posted receive takes the oldest message of its source and tag. */
static void match(uint32_t from, uint32_t to, uint32_t tag, sp_time now)
{
	const uint32_t send = waiting(from, GOAL_SEND, to, tag), receive = waiting(to, GOAL_RECV, from, tag);

	if (send == goal_ops(goal, from) || receive == goal_ops(goal, to))
		return;
	host[from].posted[send] = host[to].posted[receive] = false;
	done(to, receive, now);
}

static void deliver(void *arg, const struct net_packet *p, sp_time now)
{
	/* A copy is of the send to worker 0, behind which those to the others are. */
	const uint32_t op = (uint32_t)p->tag + (p->src == copier ? p->dst : 0);
	const struct goal_op *o = goal_op(goal, p->src, op);
	struct host *from = &host[p->src];

	from->come[op] += p->bytes;
	if (from->come[op] < o->size)
		return;
	from->posted[op] = true;
	match(p->src, o->peer, o->tag, now);
}

static void start(uint32_t rank, uint32_t op, sp_time now)
{
	const struct goal_op *o = goal_op(goal, rank, op);

	host[rank].begun[op] = true;
	if (o->type == GOAL_SEND && rank == copier && o->peer) {
		done(rank, op, now);
	} else if (o->type == GOAL_SEND) {
		host[rank].queue[host[rank].end++] = op;
		push(NULL, rank, now);
	} else if (o->type == GOAL_RECV) {
		host[rank].posted[op] = true;
		match(o->peer, rank, o->tag, now);
	} else {
		CU_ASSERT_EQUAL(o->size, 0);
		done(rank, op, now);
	}
}

static sp_time over_star(const struct train *train)
{
	struct net_topology *star;
	struct net_counters n;
	struct net_config c;
	char text[32], why[256];

	memset(host, 0, sizeof(host));
	goal = train->goal;
	last = done_ops = 0;
	net_defaults(&c);
	snprintf(text, sizeof(text), "star:%u", train->ranks);
	CU_ASSERT_EQUAL_FATAL(net_topology_parse(text, &star, why, sizeof(why)), 0);
	c.topology = star;
	c.rate = RATE;
	c.deliver = deliver;
	c.room = push;
	c.crossbar = train->config.multicast ? 64 : c.crossbar;
	CU_ASSERT_EQUAL_FATAL(net_create(&c, &net, why, sizeof(why)), 0);
	copier = train->config.multicast ? train->config.workers : UINT32_MAX;
	if (train->config.multicast) {
		uint32_t workers[RANKS], group;

		for (uint32_t i = 0; i < RANKS; i++)
			workers[i] = i;
		CU_ASSERT_EQUAL_FATAL(net_group_add(net, copier, workers, train->config.workers, &group), 0);
		answers = NET_GROUP | group;
	}
	for (uint32_t rank = 0; rank < train->ranks; rank++) {
		CU_ASSERT_FATAL(goal_ops(goal, rank) <= MOST);
		goal_waits(goal, rank, host[rank].waits);
	}
	for (uint32_t rank = 0; rank < train->ranks; rank++)
		for (uint32_t i = 0; i < goal_ops(goal, rank); i++)
			if (!host[rank].waits[i] && !host[rank].begun[i])
				start(rank, i, 0);
	net_run(net, SP_NEVER);
	net_count(net, &n);
	CU_ASSERT_EQUAL(n.delivered, n.sent + n.copied);
	CU_ASSERT_EQUAL(done_ops, goal_ops_all(goal));
	net_destroy(net);
	net_topology_destroy(star);
	return last;
}

/* Runs both. They must agree to the ns. */
static void compare(struct train_config c)
{
	const struct train_world world = {.nic = {{RATE, LATENCY}, {RATE, LATENCY}}};
	struct train_outcome outcome;
	struct train *train;
	sp_time packets, slack = SP_NS;

	c.steps = c.steps ? c.steps : 1;
	c.layers = 1;
	CU_ASSERT_EQUAL_FATAL(train_create(&c, &train), 0);
	CU_ASSERT_EQUAL_FATAL(train_run(train, &world, &outcome), 0);
	packets = over_star(train);
	/* This switch makes copies one after the other, by a crossbar that is 64 times as fast as a link. */
	if (c.multicast)
		slack += (c.workers - 1) * (PACKET * 8 * SP_SEC / RATE / 64);
	CU_ASSERT(packets < outcome.all.end + slack && outcome.all.end < packets + SP_NS);
	train_outcome_free(&outcome);
	train_destroy(train);
}

TEST(packets_by_a_switch_with_credits_take_as_long_as_messages_over_links)
{
	const enum train_scheme schemes[] = {TRAIN_PS,	   TRAIN_PS_SHARDED,	 TRAIN_DECENTRALISED,
					     TRAIN_RING,   TRAIN_REDUCE_SCATTER, TRAIN_ALL_GATHER,
					     TRAIN_TENSOR, TRAIN_PIPELINE};

	for (uint32_t p = 2; p <= 16; p *= 2)
		for (unsigned i = 0; i < sizeof(schemes) / sizeof(*schemes); i++)
			compare((struct train_config){.scheme = schemes[i],
						      .workers = p,
						      .bytes = p * 8 * PACKET,
						      .segments = 1,
						      .micro_batches = schemes[i] == TRAIN_PIPELINE ? 4 : 1});
	for (uint32_t p = 2; p <= 16; p *= 2)
		compare((struct train_config){
			.scheme = TRAIN_PS, .workers = p, .bytes = 8 * PACKET, .segments = 1, .multicast = true});
	for (uint32_t segments = 2; segments <= 8; segments *= 2)
		compare((struct train_config){
			.scheme = TRAIN_PS, .workers = 8, .bytes = 64 * PACKET, .segments = segments, .offload = true});
	for (uint32_t p = 2; p <= 16; p++)
		compare((struct train_config){.scheme = TRAIN_BARRIER, .workers = p, .bytes = 64, .steps = 3});
}
