/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages on their way: the phases of each transport, and the packets that NICs send. See nic.h for the rules. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "run_private.h"

#define PAGE  4096u
#define BLOCK (16u << 20)

static uint32_t transfer_new(struct run *r)
{
	uint32_t t = r->transfer_free;

	if (t != NONE) {
		r->transfer_free = r->transfer[t].next;
	} else if (r->transfers == r->transfer_room) {
		const uint32_t room = r->transfer_room ? 2 * r->transfer_room : 1024;
		struct transfer *all = room < 1u << 31 ? realloc(r->transfer, room * sizeof(*all)) : NULL;

		if (!all) {
			r->err = -ENOMEM;
			return NONE;
		}
		r->transfer = all;
		r->transfer_room = room;
	}
	if (t == NONE)
		t = r->transfers++;
	r->transfer[t] = (struct transfer){.recv = NONE, .next = NONE, .behind = NONE, .parent = NONE};
	return t;
}

static void release(struct run *r, uint32_t t)
{
	struct transfer *x = &r->transfer[t];

	if (--x->users)
		return;
	x->next = r->transfer_free;
	r->transfer_free = t;
}

/* The host gives this phase of a message to its NIC at a time. */
static void post(struct run *r, uint32_t t, enum motif_phase phase, sp_time at)
{
	struct transfer *x = &r->transfer[t];

	x->phase = (uint8_t)phase;
	x->sent = x->arrived = x->drawn = 0;
	run_event(r, at + r->nic.pcie + r->nic.tx_delay, EVENT_POSTED, t);
}

sp_time transfer_registering(const struct run *r, uint64_t bytes)
{
	return r->nic.mpi.register_memory + (bytes + PAGE - 1) / PAGE * r->nic.mpi.page;
}

void transfer_send(struct run *r, uint32_t rank, uint32_t op)
{
	const struct goal_op *send = goal_op(r->g, rank, op);
	const struct motif_mpi *mpi = &r->nic.mpi;
	const uint32_t t = transfer_new(r);
	struct pair *pair = match_pair(r, rank, send->peer);
	struct transfer *x = &r->transfer[t];

	if (t == NONE || !pair)
		return;
	x->bytes = send->size;
	x->order = pair->sent++;
	x->src = rank;
	x->dst = send->peer;
	x->send = op;
	x->tag = send->tag;
	x->users = 2; /* sender and receiver */
	switch (r->nic.transport) {
	case MOTIF_RVMA:
		post(r, t, MOTIF_PHASE_PUT, r->now);
		break;
	case MOTIF_MPI:
		if (x->bytes <= mpi->eager) {
			const sp_time copied = run_host(r, rank, mpi->tx_setup + x->bytes * mpi->copy);

			run_done(r, rank, op, copied);
			post(r, t, MOTIF_PHASE_PUT, copied);
			break;
		}
		x->asked = true;
		post(r, t, MOTIF_PHASE_REQUEST, run_host(r, rank, mpi->tx_setup + transfer_registering(r, x->bytes)));
		break;
	default:
		x->asked = !r->nic.setup_once || !pair->ready;
		post(r, t, x->asked ? MOTIF_PHASE_REQUEST : MOTIF_PHASE_PUT, r->now);
		break;
	}
}

/* A completion of a write; it keeps the write. NONE: no memory. */
static uint32_t completion_new(struct run *r, uint32_t parent)
{
	const uint32_t t = transfer_new(r);

	if (t == NONE)
		return NONE;
	r->transfer[t].src = r->transfer[parent].src;
	r->transfer[t].dst = r->transfer[parent].dst;
	r->transfer[t].parent = parent;
	r->transfer[t].users = 1;
	r->transfer[t].phase = MOTIF_PHASE_COMPLETION;
	r->transfer[parent].users++;
	return t;
}

/* Whether the receiver learns of a write by a completion. */
static bool by_completion(const struct run *r)
{
	return r->nic.transport == MOTIF_RDMA;
}

/* Whether a send is done once all bytes are read. */
static bool is_read(const struct run *r)
{
	return r->nic.transport != MOTIF_MPI && r->nic.sends == MOTIF_SEND_READ;
}

/* Whether somebody waits for the acknowledgement of a put: the send, or the completion. Eager messages have none. */
static bool is_acked(const struct run *r, const struct transfer *x)
{
	if (r->nic.transport == MOTIF_MPI)
		return x->asked;
	return !is_read(r) || (by_completion(r) && r->nic.completion == MOTIF_AFTER_ACK);
}

/* ---- packets ---- */
static void arrived(struct run *r, uint32_t t, bool last)
{
	struct transfer *x = &r->transfer[t];
	const uint64_t bytes = motif_phase_bytes(x->phase, x->bytes), packets = motif_packets(&r->nic, bytes);
	const sp_time told = r->now + r->nic.rx_match + r->nic.pcie;
	const bool all = ++x->arrived == packets;

	if (x->phase == MOTIF_PHASE_PUT) {
		/* Who is told by a completion is not told by the put. */
		const bool tells =
			!by_completion(r) && !x->told && (all || (last && r->nic.transport == MOTIF_RDMA_POLLED));

		r->o->early_reads += tells && !all;
		x->told |= tells;
		if (tells)
			run_event(r, told, EVENT_RECEIVED, t);
		if (all && is_acked(r, x))
			run_event(r, r->now + r->nic.rx_match + r->nic.tx_delay, EVENT_ACKNOWLEDGE, t);
		else if (all)
			release(r, t);
		return;
	}
	if (!all)
		return;
	switch (x->phase) {
	case MOTIF_PHASE_REQUEST:
		run_event(r, told, EVENT_ASKED, t);
		break;
	case MOTIF_PHASE_REPLY:
		run_event(r, told, EVENT_ANSWERED, t);
		break;
	case MOTIF_PHASE_ACK:
		run_event(r, told, EVENT_ACKED, t);
		break;
	default: {
		const struct transfer *put = &r->transfer[x->parent];

		r->o->early_reads += put->phase == MOTIF_PHASE_PUT && put->arrived < motif_packets(&r->nic, put->bytes);
		run_event(r, told, EVENT_COMPLETED, t);
	}
	}
}

void transfer_deliver(void *arg, const struct net_packet *p, sp_time now)
{
	struct run *r = arg;

	r->now = now;
	arrived(r, (uint32_t)(uintptr_t)p->user, p->tag);
}

static void enqueue(struct run *r, struct queue *q, uint32_t t)
{
	r->transfer[t].next = NONE;
	if (q->first == NONE)
		q->first = t;
	else
		r->transfer[q->last].next = t;
	q->last = t;
}

static bool is_control(const struct transfer *x)
{
	return x->phase == MOTIF_PHASE_REQUEST || x->phase == MOTIF_PHASE_REPLY || x->phase == MOTIF_PHASE_ACK;
}

/* A NIC gets something to send. */
static void nic_take(struct run *r, uint32_t rank, uint32_t t)
{
	struct queue *q = &r->rank[rank].nic;
	uint32_t before = NONE, next = q->first;

	if (!r->nic.control_first || !is_control(&r->transfer[t]) || q->first == NONE) {
		enqueue(r, q, t);
		return;
	}
	for (; next != NONE && is_control(&r->transfer[next]); next = r->transfer[next].next)
		before = next;
	if (next == NONE) {
		enqueue(r, q, t);
		return;
	}
	r->transfer[t].next = next;
	if (before == NONE)
		q->first = t;
	else
		r->transfer[before].next = t;
}

/* Before a packet is sent: what its message draws, at its beginning, and at each BLOCK of it. A packet that the network
 * refuses has drawn already. */
static void draw(struct run *r, struct transfer *x)
{
	const struct motif_noise *n = &r->noise;
	const uint64_t at = x->sent * r->nic.packet;

	if (x->drawn > x->sent)
		return;
	if (!x->sent)
		x->late = n->latencies ? goal_draw(n->latencies, &r->latencies) : n->latency;
	if (n->bytes && (!x->sent || at / BLOCK != (at - r->nic.packet) / BLOCK)) {
		const uint64_t ps = goal_draw(n->bytes, &r->bytes);

		x->byte_ps = ps < UINT32_MAX ? (uint32_t)ps : UINT32_MAX;
	}
	x->drawn = x->sent + 1;
}

/* The NIC sends what it can. */
static void pump(struct run *r, uint32_t rank)
{
	struct queue *q = &r->rank[rank].nic;

	while (q->first != NONE && !r->err) {
		const uint32_t t = q->first;
		struct transfer *x = &r->transfer[t];
		const uint64_t bytes = motif_phase_bytes(x->phase, x->bytes), packets = motif_packets(&r->nic, bytes);
		const uint32_t to = x->src == rank ? x->dst : x->src;

		draw(r, x);
		const struct net_packet p = {.dst = r->host_of[to],
					     .bytes = motif_packet_bytes(&r->nic, x->phase, bytes, x->sent),
					     .flow = (uint64_t)rank << 32 | to,
					     .byte_ps = x->byte_ps,
					     .late = x->late,
					     .user = (void *)(uintptr_t)t,
					     .tag = x->sent + 1 == packets};
		const bool done = p.tag;

		if (to != rank && !net_send(r->net, r->host_of[rank], &p, r->now))
			return;
		x = &r->transfer[t];
		r->o->packets++;
		r->o->wire_bytes += p.bytes;
		x->sent++;
		if (done) {
			q->first = x->next;
			if (x->phase == MOTIF_PHASE_PUT && is_read(r))
				run_done(r, rank, x->send, r->now + r->nic.pcie);
		}
		if (to == rank)
			arrived(r, t, done);
	}
}

void transfer_room(void *arg, uint32_t host, sp_time now)
{
	struct run *r = arg;

	r->now = now;
	if (r->rank_of[host] != NONE)
		pump(r, r->rank_of[host]);
}

/* ---- what hosts and NICs do ---- */
void transfer_looked(struct run *r, uint32_t rank, uint32_t looked)
{
	if (r->nic.transport == MOTIF_MPI)
		run_host(r, rank, looked * r->nic.mpi.match);
}

void transfer_matched(struct run *r, uint32_t t, uint32_t looked)
{
	struct transfer *x = &r->transfer[t];
	const struct motif_mpi *mpi = &r->nic.mpi;
	const bool is_mpi = r->nic.transport == MOTIF_MPI;

	if (x->asked) {
		const sp_time cost = is_mpi ? looked * mpi->match + mpi->rx_setup : 0;

		post(r, t, MOTIF_PHASE_REPLY, run_host(r, x->dst, cost));
		return;
	}
	run_done(r, x->dst, x->recv,
		 run_host(r, x->dst, is_mpi ? looked * mpi->match + mpi->rx_setup + x->bytes * mpi->copy : 0));
	release(r, t);
}

/* The receiver's host knows that the message is there. */
static void received(struct run *r, uint32_t t)
{
	struct transfer *x = &r->transfer[t];

	if (!x->asked) {
		match_arrived(r, t);
		return;
	}
	run_done(r, x->dst, x->recv,
		 run_host(r, x->dst, r->nic.transport == MOTIF_MPI ? transfer_registering(r, x->bytes) : 0));
	release(r, t);
}

static void answered(struct run *r, uint32_t t)
{
	struct transfer *x = &r->transfer[t];
	struct pair *pair = match_pair(r, x->src, x->dst);

	if (pair)
		pair->ready = true;
	post(r, t, MOTIF_PHASE_PUT, r->now);
}

void transfer_event(struct run *r, const struct motif_event *e)
{
	const uint32_t t = (uint32_t)e->what;
	struct transfer *x = &r->transfer[t];
	uint32_t sender, other = NONE;

	switch (e->order & 0xFF) {
	case EVENT_POSTED:
		sender = x->phase == MOTIF_PHASE_REPLY || x->phase == MOTIF_PHASE_ACK ? x->dst : x->src;
		nic_take(r, sender, t);
		if (x->phase == MOTIF_PHASE_PUT && by_completion(r) && r->nic.completion == MOTIF_BEHIND) {
			/* Both were posted together: the completion is the next in the queue. */
			other = completion_new(r, t);
			if (other == NONE)
				break;
			enqueue(r, &r->rank[sender].nic, other);
		}
		if (r->rank[sender].nic.first == t)
			pump(r, sender);
		break;
	case EVENT_ASKED:
		match_arrived(r, t);
		break;
	case EVENT_ANSWERED:
		answered(r, t);
		break;
	case EVENT_RECEIVED:
		received(r, t);
		break;
	case EVENT_ACKNOWLEDGE:
		x->phase = MOTIF_PHASE_ACK;
		x->sent = x->arrived = x->drawn = 0;
		nic_take(r, x->dst, t);
		if (r->rank[x->dst].nic.first == t)
			pump(r, x->dst);
		break;
	case EVENT_ACKED:
		if (!is_read(r))
			run_done(r, x->src, x->send, r->now);
		if (by_completion(r) && r->nic.completion == MOTIF_AFTER_ACK)
			other = completion_new(r, t);
		if (other != NONE)
			post(r, other, MOTIF_PHASE_COMPLETION, r->now);
		release(r, t);
		break;
	default: /* EVENT_COMPLETED */
		received(r, x->parent);
		release(r, r->transfer[t].parent);
		release(r, t);
		break;
	}
}
