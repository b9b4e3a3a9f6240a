/* SPDX-License-Identifier: BSD-3-Clause */
#include "batch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../host-api/rvma.h"
#include "../pipeline/nic.h"
#include "link.h"
#include "world.h"

#define MTU	 4096
#define LARGEST	 (1u << 24)
#define WARM	 2 /* messages that do not count: the first one opens the session */
#define PATIENCE (10 * SP_SEC)

enum { BOX, DESK, BOXES }; /* where messages go; and where requests, answers and sends go, of 64 bytes at the most */
static const uint64_t mailbox[BOXES] = {0x11FF0011, 0x11FF0031}, key = 0x5EC2E7;

/* A mailbox, its one buffer and its notification. */
struct box {
	struct rvma_window *window;
	struct rvma_buffer buffer;
	volatile struct rvma_notification *note;
};

struct end {
	struct sp_dev *dev;
	struct rvma *rvma;
	struct rvma_peer *peer;
	struct sp_mr *mr, *notes; /* mr: the message, 64 bytes received at the desk, 64 to be sent to the other's */
	uint8_t *bytes;
	struct box box[BOXES];
};

struct sp_batch {
	struct sp_batch_config config;
	struct end end[2];
	struct rvma_op *op[2];	 /* the first: that the message is in; NULL: has ended */
	struct sp_mr *exchanged; /* that the receiver has registered for it */
	struct box region;
	enum { BEGIN, FLYING, SETTLING } state;
	bool asked, told; /* EXCHANGE: the request has come; AFTERWARDS: the send is under way */
	uint64_t number, torn;
	sp_time began;
};

/* ---- mailboxes ---- */

static int box_post(struct box *b)
{
	if (b->note)
		memset((void *)(uintptr_t)b->note, 0, sizeof(*b->note));
	return rvma_post_buffer(b->window, &b->buffer);
}

static bool box_noted(const struct box *b)
{
	return __atomic_load_n(&b->note->address, __ATOMIC_ACQUIRE);
}

static int box_open(struct end *e, unsigned which, const struct rvma_window_attr *attr, uint64_t offset, uint64_t size)
{
	struct box *b = &e->box[which];
	int r = rvma_init_window(e->rvma, mailbox[which], attr, &b->window);

	b->buffer = (struct rvma_buffer){.mr = e->mr,
					 .offset = offset,
					 .size = size,
					 .notify_mr = e->notes,
					 .notify_offset = which * sizeof(struct rvma_notification)};
	b->note = (struct rvma_notification *)e->notes->addr + which;
	return r ? r : box_post(b);
}

static uint64_t desk_offset(const struct sp_batch *v)
{
	return (v->config.size + 63) / 64 * 64;
}

static int end_open(struct sp_batch *v, unsigned which)
{
	const struct rvma_attr attr = {.mtu = v->config.mtu, .windows = 8, .buffers = 64, .ops = 8, .ack_delay = 1};
	const bool put = v->config.way == SP_BATCH_PUT;
	const struct rvma_window_attr desk = {.key = key, .threshold = 1, .type = RVMA_EPOCH_OPS, .forget = true},
				      box = {.key = key,
					     .threshold = put ? v->config.size : 0,
					     .mode = put ? RVMA_STEERED : RVMA_REGION,
					     .forget = put};
	struct end *e = &v->end[which];
	struct sp_error error;
	int r = rvma_open(e->dev, &attr, &e->rvma, &error);

	if (!r)
		r = sp_mr_alloc(e->dev, desk_offset(v) + 128, &e->mr);
	if (!r)
		r = sp_mr_alloc(e->dev, BOXES * sizeof(struct rvma_notification), &e->notes);
	if (r)
		return r;
	e->bytes = e->mr->addr;
	r = box_open(e, DESK, &desk, desk_offset(v), 64);
	return r || !which || v->config.way == SP_BATCH_EXCHANGE ? r : box_open(e, BOX, &box, 0, v->config.size);
}

static int end_connect(struct end *e, struct end *other)
{
	struct rvma_address address;
	int r = rvma_address_get(other->rvma, &address);

	return r ? r : rvma_peer_open(e->rvma, &address, &e->peer);
}

void sp_batch_destroy(struct sp_batch *v)
{
	if (!v)
		return;
	for (unsigned i = 0; i < 2; i++) {
		struct end *e = &v->end[i];

		rvma_close(e->rvma);
		if (e->mr)
			sp_mr_free(e->mr);
		if (e->notes)
			sp_mr_free(e->notes);
	}
	if (v->exchanged)
		sp_mr_free(v->exchanged);
	free(v);
}

int sp_batch_create(struct sp_dev *const dev[2], const struct sp_batch_config *config, struct sp_batch **batch)
{
	struct sp_batch *v;
	int r = 0;

	if (config->size < 8 || config->size > LARGEST || (unsigned)config->way >= SP_BATCH_WAYS)
		return -EINVAL;
	v = calloc(1, sizeof(*v));
	if (!v)
		return -ENOMEM;
	v->config = *config;
	v->config.mtu = config->mtu ? config->mtu : MTU;
	for (unsigned i = 0; i < 2 && !r; i++) {
		v->end[i].dev = dev[i];
		r = end_open(v, i);
	}
	if (!r)
		r = end_connect(&v->end[0], &v->end[1]);
	if (!r)
		r = end_connect(&v->end[1], &v->end[0]);
	if (r)
		sp_batch_destroy(v);
	else
		*batch = v;
	return r;
}

uint64_t sp_batch_torn(const struct sp_batch *v)
{
	return v->torn;
}

/* ---- a message ---- */

static uint8_t stamp(const struct sp_batch *v)
{
	return (uint8_t)(v->number % 255 + 1);
}

/* Each packet of it says which message it is of. */
static void mark(struct sp_batch *v)
{
	uint8_t *bytes = v->end[0].bytes;

	for (uint32_t at = 0; at < v->config.size; at += v->config.mtu)
		bytes[at] = stamp(v);
	bytes[v->config.size - 1] = stamp(v);
}

static bool whole(const struct sp_batch *v)
{
	const uint8_t *bytes = v->end[1].bytes;

	for (uint32_t at = 0; at < v->config.size; at += v->config.mtu)
		if (bytes[at] != stamp(v))
			return false;
	return bytes[v->config.size - 1] == stamp(v);
}

/* To the other's desk. */
static int tell(struct sp_batch *v, unsigned from, uint32_t bytes, bool fenced, struct rvma_op **op)
{
	struct end *e = &v->end[from];

	return (fenced ? rvma_put_fenced : rvma_put)(e->peer, mailbox[DESK], key, e->mr, desk_offset(v) + 64, bytes,
						     op);
}

static int begin(struct sp_batch *v, sp_time now)
{
	struct end *e = &v->end[0];
	int r;

	v->asked = v->told = false;
	if (v->config.way == SP_BATCH_EXCHANGE) {
		v->began = now;
		return tell(v, 0, 16, false, &v->op[0]);
	}
	mark(v);
	v->began = now;
	r = rvma_put_at(e->peer, mailbox[BOX], key, e->mr, 0, v->config.size, 0, &v->op[0]);
	if (!r && v->config.way == SP_BATCH_BEHIND)
		r = tell(v, 0, 1, true, &v->op[1]);
	return r;
}

/* Where the sender may write after an exchange: another mailbox for each. */
static uint64_t granted(const struct sp_batch *v)
{
	return mailbox[BOX] | (v->number + 1) << 32;
}

/* Memory for what the sender will write, and its answer. */
static int grant(struct sp_batch *v)
{
	const struct rvma_window_attr attr = {.key = key, .mode = RVMA_REGION};
	struct end *e = &v->end[1];
	uint64_t *answer = (uint64_t *)(void *)(e->bytes + desk_offset(v) + 64);
	int r = sp_mr_alloc(e->dev, v->config.size, &v->exchanged);

	if (!r)
		r = rvma_init_window(e->rvma, granted(v), &attr, &v->region.window);
	if (r)
		return r;
	v->region.buffer = (struct rvma_buffer){.mr = v->exchanged, .size = v->config.size};
	answer[0] = granted(v);
	answer[1] = key;
	r = box_post(&v->region);
	return r ? r : tell(v, 1, 16, false, &v->op[1]);
}

/* 1: the one who is to know it knows. */
static int fly(struct sp_batch *v)
{
	const struct end *from = &v->end[0], *to = &v->end[1];
	int r = 0;

	switch (v->config.way) {
	case SP_BATCH_PUT:
		return box_noted(&to->box[BOX]);
	case SP_BATCH_LAST_BYTE:
		return __atomic_load_n(&to->bytes[v->config.size - 1], __ATOMIC_ACQUIRE) == stamp(v);
	case SP_BATCH_AFTERWARDS:
		if (!v->told) {
			r = rvma_op_test(v->op[0]);
			if (r)
				return r == -EAGAIN ? 0 : r;
			v->op[0] = NULL;
			v->told = true;
			return tell(v, 0, 1, false, &v->op[1]);
		}
		return box_noted(&to->box[DESK]);
	case SP_BATCH_EXCHANGE:
		if (!v->asked && box_noted(&to->box[DESK])) {
			v->asked = true;
			r = grant(v);
		}
		return r ? r : box_noted(&from->box[DESK]);
	default:
		return box_noted(&to->box[DESK]);
	}
}

/* It has ended: what was used is made ready again, where that does not wait for anything. */
static int landed(struct sp_batch *v)
{
	struct end *to = &v->end[1];
	int r = 0;

	switch (v->config.way) {
	case SP_BATCH_PUT:
		v->torn += !whole(v);
		return box_post(&to->box[BOX]);
	case SP_BATCH_LAST_BYTE:
		v->torn += !whole(v);
		return 0;
	case SP_BATCH_EXCHANGE:
		r = box_post(&v->end[0].box[DESK]);
		break;
	default:
		v->torn += !whole(v);
	}
	return r ? r : box_post(&to->box[DESK]);
}

/* 1: nothing of it is left. */
static int settle(struct sp_batch *v)
{
	int r = 0;

	for (unsigned i = 0; i < 2; i++) {
		r = v->op[i] ? rvma_op_test(v->op[i]) : 0;
		if (r)
			return r == -EAGAIN ? 0 : r;
		v->op[i] = NULL;
	}
	if (v->exchanged) {
		r = rvma_free_win(v->region.window);
		if (!r)
			r = sp_mr_free(v->exchanged);
		if (r)
			return r;
		v->exchanged = NULL;
	}
	return 1;
}

int sp_batch_step(struct sp_batch *v, sp_time now)
{
	int r = 0;

	switch (v->state) {
	case BEGIN:
		if (v->number == v->config.messages + WARM)
			return 1;
		r = begin(v, now);
		v->state = FLYING;
		return r;
	case FLYING:
		r = fly(v);
		if (r < 1)
			return r ? r : now - v->began > PATIENCE ? -ETIMEDOUT : 0;
		if (v->number >= WARM && v->config.ended)
			v->config.ended(v->config.ended_arg, now - v->began);
		v->state = SETTLING;
		return landed(v);
	default:
		r = settle(v);
		if (r < 1)
			return r ? r : now - v->began > PATIENCE ? -ETIMEDOUT : 0;
		v->number++;
		v->state = BEGIN;
		return 0;
	}
}

/* ---- virtual time ---- */

void sp_batch_nic(struct sp_nic_config *config, unsigned which)
{
	*config = (struct sp_nic_config){.addresses = 1, .neighbours = 1, .mtu = 9000, .ports = 1, .seed = 1 + which};
	for (unsigned i = 0; i < 2; i++) {
		uint8_t *ip = i ? config->neighbour[0].ip : config->address[0].ip;

		ip[10] = ip[11] = 0xFF;
		ip[12] = 10;
		ip[15] = (uint8_t)(1 + (which ^ i));
	}
	config->address[0].prefix = 24;
	memcpy(config->mac, (uint8_t[]){2, 0, 0, 0, 0, (uint8_t)(1 + which)}, 6);
	memcpy(config->neighbour[0].mac, (uint8_t[]){2, 0, 0, 0, 0, (uint8_t)(2 - which)}, 6);
}

struct simulation {
	struct sp_batch *batch;
	int result;
};

static void step(void *arg, sp_time now)
{
	struct simulation *s = arg;
	int state;

	do {
		state = s->batch->state;
		if (!s->result)
			s->result = sp_batch_step(s->batch, now);
	} while (!s->result && (int)s->batch->state != state);
}

static sp_time never(void *arg)
{
	(void)arg;
	return SP_NEVER;
}

static bool over(void *arg)
{
	return ((struct simulation *)arg)->result;
}

int sp_batch_simulate(const struct sp_batch_config *config, const struct sp_link_direction *link, uint64_t seed,
		      uint64_t *torn)
{
	const struct sp_link_config wires = {.direction = {*link, *link}, .seed = seed};
	struct simulation s = {.batch = NULL};
	const struct sp_world_host host = {step, never, &s};
	struct sp_nic *nic[2] = {NULL, NULL};
	struct sp_dev *dev[2] = {NULL, NULL};
	struct sp_world *world = NULL;
	struct sp_link *wire = NULL;
	struct sp_nic_config *nc = malloc(sizeof(*nc));
	struct sp_error error;
	int r = nc ? sp_eal_init(0, NULL, &error) : -ENOMEM;

	if (!r)
		r = sp_link_create(&wires, &wire);
	if (!r)
		r = sp_world_create(&world);
	for (unsigned i = 0; i < 2 && !r; i++) {
		sp_batch_nic(nc, i);
		nc->port[0] = (struct sp_port_config){.ops = &sp_link_ops, .ops_arg = sp_link_port(wire, i)};
		r = sp_nic_create(nc, &error, &nic[i]);
		if (!r)
			r = sp_nic_dev(nic[i], false, &dev[i]);
		if (!r)
			r = sp_world_add_nic(world, nic[i]);
	}
	if (!r)
		r = sp_batch_create(dev, config, &s.batch);
	if (!r)
		r = sp_world_add_host(world, &host);
	if (!r)
		r = sp_world_run(world, SP_NEVER, over, &s);
	if (r >= 0)
		r = s.result == 1 ? 0 : s.result ? s.result : -ETIMEDOUT;
	if (torn && s.batch)
		*torn = sp_batch_torn(s.batch);
	sp_batch_destroy(s.batch);
	for (unsigned i = 0; i < 2; i++)
		if (dev[i])
			sp_dev_close(dev[i]);
	sp_nic_destroy(nic[0]);
	sp_nic_destroy(nic[1]);
	sp_world_destroy(world);
	sp_link_destroy(wire);
	free(nc);
	return r;
}
