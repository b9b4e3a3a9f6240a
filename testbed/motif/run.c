/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a schedule over a network: operations and their dependencies, and the order of all events. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "../random.h"
#include "links.h"
#include "run_private.h"

/* Streams of random numbers: what scatters ranks, and the noise of the network. */
#define PLACES	  7
#define LATENCIES 8
#define BYTES	  9

void run_event(struct run *r, sp_time at, uint8_t kind, uint64_t what)
{
	const struct goal_item e = {.time = at, .wire = what, .age = r->age++, .rank = kind};
	const int err = goal_heap_push(&r->events, &e);

	r->err = r->err ? r->err : err;
}

void run_done(struct run *r, uint32_t rank, uint32_t op, sp_time at)
{
	run_event(r, at, EVENT_OP_DONE, (uint64_t)rank << 32 | op);
}

/* When work of a host that begins at `from` ends. */
static sp_time worked(struct run *r, uint32_t rank, sp_time from, sp_time work)
{
	if (r->stalls && work && work < LINKS_TIME_MAX && from < LINKS_TIME_MAX)
		return r->begun + stalls_stretch(r->stalls, rank, 0, from - r->begun, work);
	return work < SP_NEVER - from ? from + work : SP_NEVER - 1;
}

sp_time run_host(struct run *r, uint32_t rank, sp_time cost)
{
	struct rank *x = &r->rank[rank];

	if (!cost)
		return r->now;
	x->busy = worked(r, rank, x->busy > r->now ? x->busy : r->now, cost);
	return x->busy;
}

/* ---- operations ---- */
static void ready(struct run *r, uint32_t rank, uint32_t op)
{
	if (r->readies == r->ready_room) {
		const size_t room = r->ready_room ? 2 * r->ready_room : 1024;
		uint64_t *all = realloc(r->ready, room * sizeof(*all));

		if (!all) {
			r->err = -ENOMEM;
			return;
		}
		r->ready = all;
		r->ready_room = room;
	}
	r->ready[r->readies++] = (uint64_t)rank << 32 | op;
}

/* Counts down what waits until the operation is done, or (flag) has started. */
static void successors(struct run *r, uint32_t rank, uint32_t op, uint32_t flag)
{
	uint32_t n;
	const uint32_t *next = goal_successors(r->g, rank, op, &n);

	for (uint32_t i = 0; i < n; i++)
		if ((next[i] & GOAL_STARTED) == flag && !--r->waits[rank][next[i] & ~GOAL_STARTED])
			ready(r, rank, next[i] & ~GOAL_STARTED);
}

static void start(struct run *r, uint32_t rank, uint32_t op)
{
	const struct goal_op *o = goal_op(r->g, rank, op);

	successors(r, rank, op, GOAL_STARTED);
	if (o->type == GOAL_SEND) {
		transfer_send(r, rank, op);
	} else if (o->type == GOAL_RECV) {
		match_post(r, rank, op);
	} else {
		sp_time *cpu = &r->cpu[(size_t)rank * r->cpus + o->cpu];
		const sp_time from = *cpu > r->now ? *cpu : r->now;

		*cpu = worked(r, rank, from, o->size < SP_NEVER / SP_NS ? o->size * SP_NS : SP_NEVER - 1);
		run_done(r, rank, op, *cpu);
	}
}

/* Starts what can start, in the order in which it became possible. */
static void start_ready(struct run *r)
{
	for (size_t i = 0; i < r->readies && !r->err; i++)
		start(r, (uint32_t)(r->ready[i] >> 32), (uint32_t)r->ready[i]);
	r->readies = 0;
}

static void op_done(struct run *r, uint32_t rank, uint32_t op)
{
	const struct goal_op *o = goal_op(r->g, rank, op);

	r->open--;
	r->o->time = r->now - r->begun;
	if (r->ends)
		r->ends[rank] = r->now - r->begun;
	if (o->type == GOAL_SEND) {
		r->o->messages++;
		r->o->bytes += o->size;
	}
	successors(r, rank, op, 0);
}

static sp_time next_event(const struct run *r)
{
	return goal_heap_empty(&r->events) ? SP_NEVER : goal_heap_first(&r->events)->time;
}

/* Until nothing is left to do. What the network does at a time comes before what hosts and NICs do at that time. */
static void run(struct run *r)
{
	for (;;) {
		const sp_time next = r->kind->next(r), event = next_event(r);
		struct goal_item e;

		if (r->err || (next == SP_NEVER && event == SP_NEVER))
			return;
		if (next <= event) {
			r->kind->advance(r, event);
			continue;
		}
		goal_heap_pop(&r->events, &e);
		r->now = e.time;
		r->o->events++;
		if (e.rank == EVENT_OP_DONE)
			op_done(r, (uint32_t)(e.wire >> 32), (uint32_t)e.wire);
		else
			transfer_event(r, &e);
		start_ready(r);
	}
}

/* ---- beginning and end ---- */
int run_wrong(char *why, size_t whylen, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vsnprintf(why, whylen, format, list);
	va_end(list);
	return -EINVAL;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

uint32_t run_largest_packet(const struct motif_nic *n)
{
	uint32_t largest = 0;

	for (unsigned phase = MOTIF_PHASE_REQUEST; phase <= MOTIF_PHASE_COMPLETION; phase++)
		for (uint64_t i = 0; i < 2; i++) {
			const uint64_t bytes =
				phase == MOTIF_PHASE_PUT ? 2ull * n->packet : motif_phase_bytes(phase, 0);

			if (i < motif_packets(n, bytes) && motif_packet_bytes(n, phase, bytes, i) > largest)
				largest = motif_packet_bytes(n, phase, bytes, i);
		}
	return largest;
}

static int check(const struct motif_run_config *c, char *why, size_t whylen)
{
	const struct motif_nic *n = &c->nic;
	const uint32_t hosts = net_topology_hosts(c->net.topology), ranks = goal_ranks(c->schedule);
	const uint32_t room = smaller(c->net.input_buffer, c->net.output_buffer), flit = c->net.flit ? c->net.flit : 1;
	uint32_t largest;

	if ((unsigned)n->transport >= MOTIF_TRANSPORTS || (unsigned)n->completion > MOTIF_BEHIND ||
	    (unsigned)n->sends > MOTIF_SEND_READ)
		return run_wrong(why, whylen, "there is no such transport, completion or end of sends");
	if (!n->packet || n->packet > MOTIF_PACKET_MAX)
		return run_wrong(why, whylen, "a packet must have 1 to %u bytes of payload, not %u", MOTIF_PACKET_MAX,
				 n->packet);
	if (n->header != MOTIF_HEADERS && n->header > MOTIF_PACKET_MAX)
		return run_wrong(why, whylen, "headers of a packet must be at most %u bytes, not %u", MOTIF_PACKET_MAX,
				 n->header);
	if (n->pcie > SP_SEC || n->tx_delay > SP_SEC || n->rx_match > SP_SEC)
		return run_wrong(why, whylen, "delays of a NIC must be at most 1 s");
	if (!motif_packet_bytes(n, MOTIF_PHASE_ACK, 0, 0))
		return run_wrong(why, whylen, "packets without payload must have headers");
	if (c->noise.latency > SP_SEC)
		return run_wrong(why, whylen, "the latency of a message must be at most 1 s");
	if (c->noise.bytes && c->net.pfc.on)
		return run_wrong(why, whylen, "PFC knows no links whose bandwidth changes: its headroom would not do");
	if (c->real && (c->noise.latency || c->noise.latencies || c->noise.bytes || c->net.pfc.on))
		return run_wrong(why, whylen, "real NICs have no noise of messages yet, and no PFC");
	if (!c->net.lossless && !c->real)
		return run_wrong(why, whylen, "modelled NICs do not repair losses: the network must be lossless");
	if (ranks > hosts)
		return run_wrong(why, whylen, "%u ranks need as many hosts, and the topology has %u", ranks, hosts);
	largest = run_largest_packet(n);
	if ((uint64_t)(largest + flit - 1) / flit * flit > room)
		return run_wrong(why, whylen, "a packet of %u bytes with its headers does not fit in a queue of %u",
				 largest, room);
	return 0;
}

/* Which host each rank is on. */
static int place(struct run *r, const struct motif_run_config *c)
{
	const uint32_t hosts = net_topology_hosts(c->net.topology);
	struct sp_random random;
	uint32_t *host = calloc(hosts, sizeof(*host));

	r->rank_of = malloc(hosts * sizeof(*r->rank_of));
	r->host_of = host;
	if (!host || !r->rank_of)
		return -ENOMEM;
	for (uint32_t h = 0; h < hosts; h++) {
		host[h] = h;
		r->rank_of[h] = NONE;
	}
	sp_random_seed(&random, c->net.seed, PLACES);
	for (uint32_t h = hosts; c->scatter && h > 1; h--) {
		const uint32_t other = (uint32_t)(sp_random_next(&random) % h), mine = host[h - 1];

		host[h - 1] = host[other];
		host[other] = mine;
	}
	for (uint32_t rank = 0; rank < r->ranks; rank++)
		r->rank_of[host[rank]] = rank;
	return 0;
}

static int prepare(struct run *r, const struct motif_run_config *c)
{
	const struct queue empty = {NONE, NONE};
	int err = place(r, c);

	r->cpus = 1;
	r->rank = calloc(r->ranks, sizeof(*r->rank));
	r->waits = calloc(r->ranks, sizeof(*r->waits));
	if (err || !r->rank || !r->waits)
		return -ENOMEM;
	for (uint32_t rank = 0; rank < r->ranks; rank++) {
		const uint32_t ops = goal_ops(r->g, rank);

		r->rank[rank] = (struct rank){.nic = empty, .receives = empty, .waiting = empty, .held = empty};
		r->waits[rank] = malloc((ops + 1ull) * sizeof(**r->waits));
		if (!r->waits[rank])
			return -ENOMEM;
		goal_waits(r->g, rank, r->waits[rank]);
		for (uint32_t op = 0; op < ops; op++)
			if (goal_op(r->g, rank, op)->cpu >= r->cpus)
				r->cpus = goal_op(r->g, rank, op)->cpu + 1u;
	}
	r->cpu = calloc((size_t)r->ranks * r->cpus, sizeof(*r->cpu));
	r->open = goal_ops_all(r->g);
	return r->cpu ? 0 : -ENOMEM;
}

static void release(struct run *r)
{
	for (uint32_t rank = 0; r->waits && rank < r->ranks; rank++)
		free(r->waits[rank]);
	r->kind->close(r);
	goal_heap_free(&r->events);
	free(r->waits);
	free(r->rank);
	free(r->cpu);
	free(r->host_of);
	free(r->rank_of);
	free(r->transfer);
	free(r->posted);
	free(r->pair);
	free(r->ready);
}

/* Names something that will never be. */
static int stuck(const struct run *r, char *why, size_t whylen)
{
	for (uint32_t rank = 0; rank < r->ranks; rank++) {
		if (r->rank[rank].receives.first != NONE) {
			const uint32_t op = r->posted[r->rank[rank].receives.first].op;
			const struct goal_op *o = goal_op(r->g, rank, op);

			run_wrong(why, whylen,
				  "operation %u of rank %u waits for a message that nobody sends: from rank %" PRId64
				  ", tag %" PRId64 " (-1: any); %" PRIu64 " operations are not done",
				  op, rank, o->peer == GOAL_ANY ? -1 : (int64_t)o->peer,
				  o->tag == GOAL_ANY ? -1 : (int64_t)o->tag, r->open);
			return -EDEADLK;
		}
		if (r->rank[rank].waiting.first != NONE) {
			const struct transfer *x = &r->transfer[r->rank[rank].waiting.first];

			run_wrong(why, whylen,
				  "operation %u of rank %u sends to rank %u, tag %u, which never receives it; %" PRIu64
				  " operations are not done",
				  x->send, x->src, rank, x->tag, r->open);
			return -EDEADLK;
		}
	}
	run_wrong(why, whylen, "%" PRIu64 " operations are not done, and nothing will happen any more", r->open);
	return -EDEADLK;
}

int motif_run(const struct motif_run_config *config, struct motif_outcome *outcome, char *why, size_t whylen)
{
	struct run r = {.g = config->schedule,
			.nic = config->nic,
			.noise = config->noise,
			.stalls = config->stalls,
			.ends = config->ends,
			.kind = config->real ? &nic_real : &nic_modelled,
			.ranks = goal_ranks(config->schedule),
			.transfer_free = NONE,
			.posted_free = NONE,
			.why = why,
			.whylen = whylen,
			.o = outcome};
	int err = check(config, why, whylen);

	*outcome = (struct motif_outcome){0};
	if (err)
		return err;
	sp_random_seed(&r.latencies, config->net.seed, LATENCIES);
	sp_random_seed(&r.bytes, config->net.seed, BYTES);
	err = prepare(&r, config);
	if (err)
		run_wrong(why, whylen, "memory for %u ranks", r.ranks);
	else
		err = r.kind->open(&r, config, why, whylen);
	if (!err) {
		for (uint32_t rank = 0; rank < r.ranks; rank++) {
			if (r.ends)
				r.ends[rank] = 0;
			for (uint32_t op = 0; op < goal_ops(r.g, rank); op++)
				if (!r.waits[rank][op])
					ready(&r, rank, op);
		}
		start_ready(&r);
		run(&r);
		err = r.err;
		if (err == -ENOMEM)
			run_wrong(why, whylen, "memory for %u messages on their way", r.transfers);
		else if (!err && r.open)
			err = stuck(&r, why, whylen);
		r.kind->outcome(&r);
		err = err ? err : r.err;
	}
	release(&r);
	return err;
}
