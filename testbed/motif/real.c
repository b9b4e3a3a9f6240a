/* SPDX-License-Identifier: BSD-3-Clause */
/* Real NICs that carry messages: when which of them does something, and what is common to all transports. */
#include "real.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define POLLS 1000000u /* of a NIC while time stands still, at most */

void real_fail(struct run *r, int err, const char *format, ...)
{
	va_list list;

	if (r->err)
		return;
	r->err = err;
	va_start(list, format);
	vsnprintf(r->why, r->whylen, format, list);
	va_end(list);
}

/* ---- the heap of ranks ---- */
static void put(struct real *real, uint32_t place, uint32_t rank)
{
	real->heap[place] = rank;
	real->rank[rank].place = place;
}

static bool before(const struct real *real, uint32_t a, uint32_t b)
{
	const sp_time x = real->rank[a].due, y = real->rank[b].due;

	return x != y ? x < y : a < b;
}

static void set_due(struct run *r, uint32_t rank, sp_time due)
{
	struct real *real = r->real;
	uint32_t at = real->rank[rank].place;

	real->rank[rank].due = due;
	for (; at && before(real, rank, real->heap[(at - 1) / 2]); at = (at - 1) / 2)
		put(real, at, real->heap[(at - 1) / 2]);
	for (;;) {
		uint32_t child = 2 * at + 1;

		if (child + 1 < r->ranks && before(real, real->heap[child + 1], real->heap[child]))
			child++;
		if (child >= r->ranks || !before(real, real->heap[child], rank))
			break;
		put(real, at, real->heap[child]);
		at = child;
	}
	put(real, at, rank);
}

void real_touch(struct run *r, uint32_t rank)
{
	if (r->real->rank[rank].due > r->now)
		set_due(r, rank, r->now);
}

/* ---- memory ---- */
struct channel *real_channel(const struct real *real, uint32_t src, uint32_t dst)
{
	const struct real_rank *k = &real->rank[src];

	for (uint32_t i = 0; i < k->outs; i++)
		if (k->out[i]->dst == dst)
			return k->out[i];
	return NULL;
}

struct slot *real_slot(struct channel *c)
{
	for (unsigned i = 0; i < REAL_SLOTS; i++)
		if (c->slot[i].t == NONE)
			return &c->slot[i];
	return NULL;
}

uint8_t *real_source(const struct run *r, const struct slot *s)
{
	return (uint8_t *)r->real->rank[s->channel->src].mr->addr + s->channel->out + s->number * s->channel->stride;
}

uint8_t *real_landing(const struct run *r, const struct slot *s, unsigned buffer)
{
	const struct channel *c = s->channel;
	const unsigned buffers = r->nic.transport == MOTIF_RVMA ? 2 : 1;

	return (uint8_t *)r->real->rank[c->dst].mr->addr + c->in + (s->number * buffers + buffer) * c->stride;
}

/* Eight bytes of a message, from byte 8 i on. */
static uint64_t word(const struct transfer *x, uint64_t i)
{
	const uint64_t message = ((uint64_t)x->src << 40 ^ (uint64_t)x->dst << 20 ^ x->order) * 0xD6E8FEB86659FD93u;

	return (message + i + 1) * 0x9E3779B97F4A7C15u ^ message >> 32;
}

void real_fill(const struct transfer *x, uint8_t *to)
{
	for (uint64_t i = 0; i < x->bytes; i += 8) {
		const uint64_t w = word(x, i / 8);

		memcpy(to + i, &w, x->bytes - i < 8 ? x->bytes - i : 8);
	}
}

bool real_filled(const struct run *r, const struct transfer *x, const uint8_t *bytes)
{
	for (uint64_t i = 0; i < x->bytes; i += 8) {
		const uint64_t w = word(x, i / 8);

		if (memcmp(bytes + i, &w, x->bytes - i < 8 ? x->bytes - i : 8))
			return false;
	}
	r->o->compared += x->bytes;
	return true;
}

uint8_t real_last(const struct transfer *x)
{
	const uint64_t w = word(x, (x->bytes - 1) / 8);
	uint8_t bytes[8];

	memcpy(bytes, &w, 8);
	return bytes[(x->bytes - 1) % 8];
}

/* ---- lists ---- */
void real_enqueue(struct run *r, struct queue *q, uint32_t t)
{
	r->transfer[t].next = NONE;
	if (q->first == NONE)
		q->first = t;
	else
		r->transfer[q->last].next = t;
	q->last = t;
}

uint32_t real_dequeue(struct run *r, struct queue *q)
{
	const uint32_t t = q->first;

	if (t != NONE)
		q->first = r->transfer[t].next;
	return t;
}

void real_watch(struct slot **list, uint32_t *count, struct slot *s)
{
	list[(*count)++] = s;
}

void real_unwatch(struct slot **list, uint32_t *count, uint32_t i)
{
	list[i] = list[--*count];
}

void real_tell(struct run *r, uint8_t kind, uint32_t t)
{
	run_event(r, r->now + r->nic.rx_match + r->nic.pcie, kind, t);
}

/* ---- time ---- */
static sp_time real_next(struct run *r)
{
	const struct real *real = r->real;
	const sp_time net = net_next(r->net), due = real->rank[real->heap[0]].due;
	const sp_time nic = due > r->now ? due : r->now;

	if (!real->under_way && !real->opening && net == SP_NEVER && nic > r->now)
		return SP_NEVER; /* only timers of NICs that nobody waits for */
	return net < nic ? net : nic;
}

/* All that a NIC does at the present time, and what its host sees of it. */
static void turn(struct run *r, uint32_t rank)
{
	struct real_rank *k = &r->real->rank[rank];
	sp_time due;
	unsigned polls = 0, did;

	do {
		did = sp_nic_poll(k->nic, 0, r->now);
		r->o->events++;
		if (k->rdma)
			real_rdma_look(r, rank);
		else
			real_rvma_look(r, rank);
		due = sp_nic_next_deadline(k->nic, 0);
		if (++polls > POLLS)
			real_fail(r, -ELOOP, "the NIC of rank %u does not come to an end", rank);
	} while (!r->err && (did || due <= r->now));
	set_due(r, rank, due);
}

static void real_advance(struct run *r, sp_time event)
{
	const struct real *real = r->real;

	(void)event;
	r->now = real_next(r);
	net_run(r->net, r->now);
	while (!r->err && real->rank[real->heap[0]].due <= r->now)
		turn(r, real->heap[0]);
}

static void real_event(struct run *r, uint8_t kind, uint32_t t)
{
	(void)kind;
	if (r->nic.transport == MOTIF_RVMA)
		real_rvma_posted(r, t);
	else
		real_rdma_posted(r, t);
}

/* What NICs have counted so far. */
static void count(const struct run *r, struct motif_outcome *o)
{
	const bool rvma = r->nic.transport == MOTIF_RVMA;
	const char *again = rvma ? "retransmits" : "packets_repeated";

	*o = (struct motif_outcome){0};
	for (uint32_t rank = 0; rank < r->ranks; rank++) {
		struct sp_nic *nic = r->real->rank[rank].nic;
		struct sp_nic_totals totals;
		uint32_t id;

		sp_nic_totals(nic, &totals);
		o->packets += totals.sent;
		o->wire_bytes += totals.sent_bytes + totals.sent * MOTIF_WIRE;
		if (sp_nic_context_find(nic, "motif", &id))
			continue;
		o->carrying += sp_nic_context_counter(nic, id, "packets_sent");
		o->again += sp_nic_context_counter(nic, id, again);
	}
}

static void real_outcome(struct run *r)
{
	const struct real *real = r->real;
	const struct motif_outcome *before = &real->counted;
	const uint64_t resident = real_resident();
	struct motif_outcome *o = r->o, now;
	struct net_nics_counters n;

	net_count(r->net, &o->net);
	net_nics_count(real->nics, &n);
	count(r, &now);
	o->packets = now.packets - before->packets;
	o->wire_bytes = now.wire_bytes - before->wire_bytes;
	o->again = now.again - before->again;
	o->carrying = now.carrying - before->carrying;
	o->nic_bytes = resident > real->resident ? (resident - real->resident) / r->ranks : 0;
	o->waited = n.waited + n.held;
}

/* ---- before the program begins ---- */
static int open_sessions(struct run *r, const struct motif_run_config *config, char *why, size_t whylen)
{
	int err = real_open(r, config, why, whylen);

	while (!err && r->real->opening) {
		real_advance(r, SP_NEVER);
		err = r->err;
	}
	if (err)
		return err;
	count(r, &r->real->counted);
	r->begun = r->now;
	r->o->events = 0;
	return 0;
}

const struct nic_kind nic_real = {.open = open_sessions,
				  .close = real_close,
				  .next = real_next,
				  .advance = real_advance,
				  .event = real_event,
				  .outcome = real_outcome};
