/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages as RVMA puts. A receiver has a mailbox for each slot of each rank that sends to it, with two buffers posted:
 * one is filled, the next is there already. A put completes a buffer; the host compares it and posts it again.
 */
#include <errno.h>
#include <string.h>

#include "real.h"

#define KEY		   0x5EC2E7u
#define MAILBOX(src, slot) ((uint64_t)(src) << 8 | (slot))
#define NOBODY		   (UINT64_MAX - 1) /* a mailbox that nobody has: a put to it opens a session, and is refused */

static struct rvma_notification *note_of(const struct run *r, const struct slot *s, unsigned buffer)
{
	const struct channel *c = s->channel;
	uint8_t *notes = (uint8_t *)r->real->rank[c->dst].mr->addr + c->notes;

	return (struct rvma_notification *)(void *)(notes + (s->number * 2u + buffer) * REAL_NOTE);
}

static int post(struct run *r, struct slot *s, unsigned buffer)
{
	struct sp_mr *mr = r->real->rank[s->channel->dst].mr;
	struct rvma_notification *note = note_of(r, s, buffer);
	const struct rvma_buffer b = {.mr = mr,
				      .offset = (uint64_t)(real_landing(r, s, buffer) - (uint8_t *)mr->addr),
				      .size = s->channel->stride,
				      .notify_mr = mr,
				      .notify_offset = (uint64_t)((uint8_t *)note - (uint8_t *)mr->addr)};

	memset(note, 0, sizeof(*note));
	return rvma_post_buffer(s->window, &b);
}

int real_rvma_open(struct run *r, uint32_t rank, struct sp_error *error)
{
	const struct rvma_window_attr window = {
		.key = KEY, .threshold = 1, .type = RVMA_EPOCH_OPS, .forget = true, .max_buffers = 2};
	struct real_rank *k = &r->real->rank[rank];
	const uint32_t windows = k->ins * REAL_SLOTS + 1;
	const struct rvma_attr attr = {.mtu = r->nic.packet,
				       .windows = windows,
				       .buffers = 4 * windows,
				       .counters = windows,
				       .peers = k->links ? k->links : 1,
				       .ops = k->outs * (REAL_SLOTS + 1) + 1,
				       .ack_delay = 1,
				       .name = "motif"};
	int err = rvma_open(k->dev, &attr, &k->rvma, error);

	for (uint32_t i = 0; i < k->ins && !err; i++)
		for (unsigned n = 0; n < REAL_SLOTS && !err; n++) {
			struct slot *s = &k->in[i]->slot[n];

			err = rvma_init_window(k->rvma, MAILBOX(k->in[i]->src, n), &window, &s->window);
			for (unsigned buffer = 0; buffer < 2 && !err; buffer++)
				err = post(r, s, buffer);
		}
	return err;
}

int real_rvma_join(struct run *r, struct channel *c)
{
	struct real *real = r->real;
	struct rvma_address address;
	int err = rvma_address_get(real->rank[c->dst].rvma, &address);

	if (!err)
		err = rvma_peer_open(real->rank[c->src].rvma, &address, &c->peer);
	if (!err)
		err = rvma_put(c->peer, NOBODY, KEY, NULL, 0, 0, &c->opening);
	real->opening += !err;
	return err;
}

static void put(struct run *r, struct slot *s)
{
	const struct transfer *x = &r->transfer[s->t];
	struct real_rank *src = &r->real->rank[x->src];
	const uint64_t offset = (uint64_t)(real_source(r, s) - (uint8_t *)src->mr->addr);
	const int err = rvma_put(s->channel->peer, MAILBOX(x->src, s->number), KEY, x->bytes ? src->mr : NULL,
				 x->bytes ? offset : 0, x->bytes, &s->op);

	if (err)
		real_fail(r, err, "rank %u's put to rank %u: %s", x->src, x->dst, strerror(-err));
	real_touch(r, x->src);
}

void real_rvma_posted(struct run *r, uint32_t t)
{
	struct transfer *x = &r->transfer[t];
	struct real *real = r->real;
	struct channel *c = real_channel(real, x->src, x->dst);
	struct slot *s = real_slot(c);

	if (!s) {
		real_enqueue(r, &c->waiting, t);
		return;
	}
	s->t = t;
	x->slot = s->number;
	x->parts = 2; /* put, and notification */
	real->under_way++;
	real_fill(x, real_source(r, s));
	real_watch(real->rank[x->src].sends, &real->rank[x->src].sending, s);
	real_watch(real->rank[x->dst].receives, &real->rank[x->dst].receiving, s);
	put(r, s);
}

static void part_ended(struct run *r, struct slot *s)
{
	uint32_t next;

	if (--r->transfer[s->t].parts)
		return;
	s->t = NONE;
	r->real->under_way--;
	next = real_dequeue(r, &s->channel->waiting);
	if (next != NONE)
		real_rvma_posted(r, next);
}

/* Sessions that are being opened. */
static void look_opening(struct run *r, struct real_rank *k)
{
	for (uint32_t i = 0; i < k->outs; i++) {
		struct channel *c = k->out[i];
		const int rc = c->opening ? rvma_op_test(c->opening) : -EAGAIN;

		if (rc == -EAGAIN)
			continue;
		c->opening = NULL;
		r->real->opening--;
		if (rc != -ENOENT)
			real_fail(r, rc ? rc : -EPROTO, "the session of ranks %u and %u: %s", c->src, c->dst,
				  rvma_op_reason(rc));
	}
}

static void received(struct run *r, struct slot *s)
{
	const struct rvma_notification *note = note_of(r, s, s->head);
	const struct transfer *x = &r->transfer[s->t];
	const uint8_t *landing = real_landing(r, s, s->head);
	int err;

	if (note->address != landing || note->length != x->bytes || note->flags || note->puts != 1)
		real_fail(r, -EBADMSG, "rank %u's NIC tells of %llu bytes from rank %u that have %llu", x->dst,
			  (unsigned long long)note->length, x->src, (unsigned long long)x->bytes);
	else if (!real_filled(r, x, landing))
		real_fail(r, -EBADMSG, "rank %u has other bytes than rank %u put", x->dst, x->src);
	err = post(r, s, s->head);
	s->head ^= 1;
	if (err)
		real_fail(r, err, "rank %u posts a buffer: %s", x->dst, strerror(-err));
	real_touch(r, x->dst);
	real_tell(r, EVENT_RECEIVED, s->t);
	part_ended(r, s);
}

void real_rvma_look(struct run *r, uint32_t rank)
{
	struct real_rank *k = &r->real->rank[rank];

	if (r->real->opening)
		look_opening(r, k);
	for (uint32_t i = 0; i < k->receiving && !r->err;) {
		struct slot *s = k->receives[i];

		if (!__atomic_load_n(&note_of(r, s, s->head)->address, __ATOMIC_ACQUIRE)) {
			i++;
			continue;
		}
		real_unwatch(k->receives, &k->receiving, i);
		received(r, s);
	}
	for (uint32_t i = 0; i < k->sending && !r->err;) {
		struct slot *s = k->sends[i];
		const int rc = s->op ? rvma_op_test(s->op) : -EAGAIN;

		if (rc == -EAGAIN) {
			i++;
			continue;
		}
		s->op = NULL;
		if (rc == -ENOBUFS) {
			r->o->refused++;
			put(r, s);
			continue;
		}
		if (rc)
			real_fail(r, rc, "rank %u's put to rank %u: %s", rank, s->channel->dst, rvma_op_reason(rc));
		real_unwatch(k->sends, &k->sending, i);
		real_tell(r, EVENT_ACKED, s->t);
		part_ended(r, s);
	}
}
