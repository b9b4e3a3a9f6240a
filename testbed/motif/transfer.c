/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages on their way, as hosts see them: the phases of each transport. See nic.h for the rules. */
#include <errno.h>
#include <stdlib.h>

#include "run_private.h"

#define PAGE 4096u

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

void transfer_release(struct run *r, uint32_t t)
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

uint32_t transfer_completion(struct run *r, uint32_t parent)
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

bool transfer_by_completion(const struct run *r)
{
	return r->nic.transport == MOTIF_RDMA;
}

bool transfer_is_read(const struct run *r)
{
	return r->nic.transport != MOTIF_MPI && r->nic.sends == MOTIF_SEND_READ;
}

/* The send waits, or the completion. Eager messages have none. */
bool transfer_is_acked(const struct run *r, const struct transfer *x)
{
	if (r->nic.transport == MOTIF_MPI)
		return x->asked;
	return !transfer_is_read(r) || (transfer_by_completion(r) && r->nic.completion == MOTIF_AFTER_ACK);
}

/* ---- what hosts do ---- */
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
	transfer_release(r, t);
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
	transfer_release(r, t);
}

static void answered(struct run *r, uint32_t t)
{
	struct transfer *x = &r->transfer[t];
	struct pair *pair = match_pair(r, x->src, x->dst);

	if (pair)
		pair->ready = true;
	post(r, t, MOTIF_PHASE_PUT, r->now);
}

void transfer_event(struct run *r, const struct goal_item *e)
{
	const uint32_t t = (uint32_t)e->wire;
	const struct transfer *x = &r->transfer[t];
	uint32_t other = NONE;

	switch (e->rank) {
	case EVENT_POSTED:
	case EVENT_ACKNOWLEDGE:
		r->kind->event(r, (uint8_t)e->rank, t);
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
	case EVENT_ACKED:
		if (!transfer_is_read(r))
			run_done(r, x->src, x->send, r->now);
		if (transfer_by_completion(r) && r->nic.completion == MOTIF_AFTER_ACK)
			other = transfer_completion(r, t);
		if (other != NONE)
			post(r, other, MOTIF_PHASE_COMPLETION, r->now);
		transfer_release(r, t);
		break;
	default: /* EVENT_COMPLETED */
		received(r, x->parent);
		transfer_release(r, r->transfer[t].parent);
		transfer_release(r, t);
		break;
	}
}
