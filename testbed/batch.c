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
#define WARM	 2 /* messages that are not measured: the first one opens the session */
#define PATIENCE (10 * SP_SEC)

/* The mailboxes: for messages; for requests, answers and sends of at most 64 bytes. */
enum { DATA, CONTROL, BOXES };
static const uint64_t mailbox[BOXES] = {0x11FF0011, 0x11FF0031}, key = 0x5EC2E7;

/* A mailbox with its one buffer and notification. */
struct box {
	struct rvma_window *window;
	struct rvma_buffer buffer;
	volatile struct rvma_notification *note;
};

struct end {
	struct sp_dev *dev;
	struct rvma *rvma;
	struct rvma_peer *peer;
	/* The message, 64 bytes received in CONTROL, 64 bytes to be sent to the other\'s CONTROL. */
	struct sp_mr *mr, *notes;
	uint8_t *bytes;
	struct box box[BOXES];
};

struct sp_batch {
	struct sp_batch_config config;
	struct end end[2];
	struct rvma_op *op[2];	 /* the first: carries the message; NULL: ended */
	struct sp_mr *exchanged; /* registered by the receiver for an exchange */
	struct box region;
	enum { BEGIN, IN_FLIGHT, CLEANING } state;
	bool asked, told; /* EXCHANGE: the request has arrived; AFTERWARDS: the send is in flight */
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

static uint64_t control_offset(const struct sp_batch *b)
{
	return (b->config.size + 63) / 64 * 64;
}

static int end_open(struct sp_batch *b, unsigned which)
{
	const struct rvma_attr attr = {.mtu = b->config.mtu, .windows = 8, .buffers = 64, .ops = 8, .ack_delay = 1};
	const bool put = b->config.way == SP_BATCH_PUT;
	const struct rvma_window_attr control = {.key = key, .threshold = 1, .type = RVMA_EPOCH_OPS, .forget = true},
				      box = {.key = key,
					     .threshold = put ? b->config.size : 0,
					     .mode = put ? RVMA_STEERED : RVMA_REGION,
					     .forget = put};
	struct end *e = &b->end[which];
	struct sp_error error;
	int r = rvma_open(e->dev, &attr, &e->rvma, &error);

	if (!r)
		r = sp_mr_alloc(e->dev, control_offset(b) + 128, &e->mr);
	if (!r)
		r = sp_mr_alloc(e->dev, BOXES * sizeof(struct rvma_notification), &e->notes);
	if (r)
		return r;
	e->bytes = e->mr->addr;
	r = box_open(e, CONTROL, &control, control_offset(b), 64);
	return r || !which || b->config.way == SP_BATCH_EXCHANGE ? r : box_open(e, DATA, &box, 0, b->config.size);
}

static int end_connect(struct end *e, struct end *other)
{
	struct rvma_address address;
	int r = rvma_address_get(other->rvma, &address);

	return r ? r : rvma_peer_open(e->rvma, &address, &e->peer);
}

void sp_batch_destroy(struct sp_batch *b)
{
	if (!b)
		return;
	for (unsigned i = 0; i < 2; i++) {
		struct end *e = &b->end[i];

		rvma_close(e->rvma);
		if (e->mr)
			sp_mr_free(e->mr);
		if (e->notes)
			sp_mr_free(e->notes);
	}
	if (b->exchanged)
		sp_mr_free(b->exchanged);
	free(b);
}

int sp_batch_create(struct sp_dev *const dev[2], const struct sp_batch_config *config, struct sp_batch **batch)
{
	struct sp_batch *b;
	int r = 0;

	if (config->size < 8 || config->size > LARGEST || (unsigned)config->way >= SP_BATCH_WAYS)
		return -EINVAL;
	b = calloc(1, sizeof(*b));
	if (!b)
		return -ENOMEM;
	b->config = *config;
	b->config.mtu = config->mtu ? config->mtu : MTU;
	for (unsigned i = 0; i < 2 && !r; i++) {
		b->end[i].dev = dev[i];
		r = end_open(b, i);
	}
	if (!r)
		r = end_connect(&b->end[0], &b->end[1]);
	if (!r)
		r = end_connect(&b->end[1], &b->end[0]);
	if (r)
		sp_batch_destroy(b);
	else
		*batch = b;
	return r;
}

uint64_t sp_batch_torn(const struct sp_batch *b)
{
	return b->torn;
}

/* ---- a message ---- */
static uint8_t stamp(const struct sp_batch *b)
{
	return (uint8_t)(b->number % 255 + 1);
}

/* Each packet of a message carries the message's number. */
static void stamp_packets(struct sp_batch *b)
{
	uint8_t *bytes = b->end[0].bytes;

	for (uint32_t at = 0; at < b->config.size; at += b->config.mtu)
		bytes[at] = stamp(b);
	bytes[b->config.size - 1] = stamp(b);
}

static bool whole(const struct sp_batch *b)
{
	const uint8_t *bytes = b->end[1].bytes;

	for (uint32_t at = 0; at < b->config.size; at += b->config.mtu)
		if (bytes[at] != stamp(b))
			return false;
	return bytes[b->config.size - 1] == stamp(b);
}

/* Sends to the other's CONTROL mailbox. */
static int send_control(struct sp_batch *b, unsigned from, uint32_t bytes, bool fenced, struct rvma_op **op)
{
	struct end *e = &b->end[from];

	return (fenced ? rvma_put_fenced : rvma_put)(e->peer, mailbox[CONTROL], key, e->mr, control_offset(b) + 64,
						     bytes, op);
}

static int begin(struct sp_batch *b, sp_time now)
{
	struct end *e = &b->end[0];
	int r;

	b->asked = b->told = false;
	if (b->config.way == SP_BATCH_EXCHANGE) {
		b->began = now;
		return send_control(b, 0, 16, false, &b->op[0]);
	}
	stamp_packets(b);
	b->began = now;
	r = rvma_put_at(e->peer, mailbox[DATA], key, e->mr, 0, b->config.size, 0, &b->op[0]);
	if (!r && b->config.way == SP_BATCH_BEHIND)
		r = send_control(b, 0, 1, true, &b->op[1]);
	return r;
}

/* The mailbox that an exchange grants: another one each time. */
static uint64_t granted_mailbox(const struct sp_batch *b)
{
	return mailbox[DATA] | (b->number + 1) << 32;
}

/* Registers memory for the sender and answers the request. */
static int answer_request(struct sp_batch *b)
{
	const struct rvma_window_attr attr = {.key = key, .mode = RVMA_REGION};
	struct end *e = &b->end[1];
	uint64_t *answer = (uint64_t *)(void *)(e->bytes + control_offset(b) + 64);
	int r = sp_mr_alloc(e->dev, b->config.size, &b->exchanged);

	if (!r)
		r = rvma_init_window(e->rvma, granted_mailbox(b), &attr, &b->region.window);
	if (r)
		return r;
	b->region.buffer = (struct rvma_buffer){.mr = b->exchanged, .size = b->config.size};
	answer[0] = granted_mailbox(b);
	answer[1] = key;
	r = box_post(&b->region);
	return r ? r : send_control(b, 1, 16, false, &b->op[1]);
}

/* 1: the receiver knows that the message is there (EXCHANGE: the sender has the answer). */
static int poll_message(struct sp_batch *b)
{
	const struct end *from = &b->end[0], *to = &b->end[1];
	int r = 0;

	switch (b->config.way) {
	case SP_BATCH_PUT:
		return box_noted(&to->box[DATA]);
	case SP_BATCH_LAST_BYTE:
		return __atomic_load_n(&to->bytes[b->config.size - 1], __ATOMIC_ACQUIRE) == stamp(b);
	case SP_BATCH_AFTERWARDS:
		if (!b->told) {
			r = rvma_op_test(b->op[0]);
			if (r)
				return r == -EAGAIN ? 0 : r;
			b->op[0] = NULL;
			b->told = true;
			return send_control(b, 0, 1, false, &b->op[1]);
		}
		return box_noted(&to->box[CONTROL]);
	case SP_BATCH_EXCHANGE:
		if (!b->asked && box_noted(&to->box[CONTROL])) {
			b->asked = true;
			r = answer_request(b);
		}
		return r ? r : box_noted(&from->box[CONTROL]);
	default:
		return box_noted(&to->box[CONTROL]);
	}
}

/* The message has ended: prepares what can be reused at once. */
static int message_ended(struct sp_batch *b)
{
	struct end *to = &b->end[1];
	int r = 0;

	switch (b->config.way) {
	case SP_BATCH_PUT:
		b->torn += !whole(b);
		return box_post(&to->box[DATA]);
	case SP_BATCH_LAST_BYTE:
		b->torn += !whole(b);
		return 0;
	case SP_BATCH_EXCHANGE:
		r = box_post(&b->end[0].box[CONTROL]);
		break;
	default:
		b->torn += !whole(b);
	}
	return r ? r : box_post(&to->box[CONTROL]);
}

/* 1: everything of the message has ended. */
static int clean_up(struct sp_batch *b)
{
	int r = 0;

	for (unsigned i = 0; i < 2; i++) {
		r = b->op[i] ? rvma_op_test(b->op[i]) : 0;
		if (r)
			return r == -EAGAIN ? 0 : r;
		b->op[i] = NULL;
	}
	if (b->exchanged) {
		r = rvma_free_win(b->region.window);
		if (!r)
			r = sp_mr_free(b->exchanged);
		if (r)
			return r;
		b->exchanged = NULL;
	}
	return 1;
}

int sp_batch_step(struct sp_batch *b, sp_time now)
{
	int r = 0;

	switch (b->state) {
	case BEGIN:
		if (b->number == b->config.messages + WARM)
			return 1;
		r = begin(b, now);
		b->state = IN_FLIGHT;
		return r;
	case IN_FLIGHT:
		r = poll_message(b);
		if (r < 1)
			return r ? r : now - b->began > PATIENCE ? -ETIMEDOUT : 0;
		if (b->number >= WARM && b->config.ended)
			b->config.ended(b->config.ended_arg, now - b->began);
		b->state = CLEANING;
		return message_ended(b);
	default:
		r = clean_up(b);
		if (r < 1)
			return r ? r : now - b->began > PATIENCE ? -ETIMEDOUT : 0;
		b->number++;
		b->state = BEGIN;
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
