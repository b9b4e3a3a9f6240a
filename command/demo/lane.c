/* SPDX-License-Identifier: BSD-3-Clause */
#include "lane.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "../../pipeline/limits.h"
#include "../../testbed/port_tap.h"
#include "../../testbed/world.h"
#include "watch.h"
#include "../output.h"

#define LIMIT (100000 * SP_SEC) /* of virtual time: a transfer that takes longer hangs */

/* One machine: a NIC and the program on it. */
struct side {
	struct sp_nic *nic;
	struct sp_dev *dev;
	struct sdr_context *context;
	struct sdr_qp *qp;
	struct sp_mr *mr;
	struct sdr_reliable *reliable;
	uint32_t id; /* of the NIC's execution context */
};

/* The programs' view of a message. */
struct transfer {
	struct sdr_reliable_op *out, *in;
	struct sdr_send *send;
	struct sdr_recv *recv;
	bool sent, ended, snapped;
	sp_time sent_at, progress_at;
	uint64_t packets; /* that had arrived when the receiver last looked */
};

struct lane {
	const struct demo *d;
	struct demo_lane *l;
	bool reliable;
	struct side side[2]; /* sender, receiver */
	struct sp_link *link;
	struct sp_port_tap tap[2]; /* between link and NICs, for the capture */
	struct demo_watch watch;
	struct sp_world *world;
	struct transfer *transfer;
	sp_time patience; /* unreliable: a message ends if nothing of it arrives for so long ... */
	sp_time drain;	  /* ... after the last packet can have left the sender's queues */
	uint64_t open;	  /* transfers that have not ended */
	int failure;	  /* -errno of the first call that failed */
	const char *failed;
};

static bool succeeded(struct lane *x, int err, const char *what)
{
	if (err && err != -EAGAIN && !x->failure) {
		x->failure = err;
		x->failed = what;
	}
	return !err;
}

/* ---- the two machines ---- */
static const uint8_t addresses[2][2][16] = {
	{{[10] = 0xFF, 0xFF, 192, 0, 2, 1}, {[10] = 0xFF, 0xFF, 192, 0, 2, 2}},
	{{0x20, 0x01, 0x0D, 0xB8, [15] = 1}, {0x20, 0x01, 0x0D, 0xB8, [15] = 2}},
};
static const uint8_t mac[2][6] = {{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}};

/* The ports between the NIC and the link: a tap for the capture, and the sender's watch. */
static struct sp_port_config port_make(struct lane *x, unsigned e)
{
	struct sp_port_config port = {.ops = &sp_link_ops, .ops_arg = sp_link_port(x->link, e)};

	if (x->d->capture) {
		x->tap[e] = (struct sp_port_tap){.ops = port.ops, .port = port.ops_arg, .out = x->d->capture};
		port = (struct sp_port_config){.ops = &sp_port_tap_ops, .ops_arg = &x->tap[e]};
	}
	if (e == 0) {
		x->watch = (struct demo_watch){
			.d = x->d, .l = x->l, .ops = port.ops, .port = port.ops_arg, .link = x->link};
		port = (struct sp_port_config){.ops = &demo_watch_ops, .ops_arg = &x->watch};
	}
	return port;
}

static int nic_make(struct lane *x, unsigned e, struct sp_error *error)
{
	const struct demo_options *o = &x->d->o;
	const uint64_t seed = o->link.seed + e;
	const uint8_t(*address)[16] = addresses[o->ipv6];
	/* IP, UDP, BTH, RETH, immediate, ICRC */
	const uint32_t least = (uint32_t)o->mtu + (o->ipv6 ? 40 : 20) + 8 + 12 + 16 + 4 + 4;
	struct sp_nic_config *config = calloc(1, sizeof(*config));
	int err;

	if (!config)
		return -ENOMEM;
	snprintf(config->name, sizeof(config->name), "%s", e ? "receiver" : "sender");
	config->addresses = config->neighbours = 1;
	config->address[0].prefix = o->ipv6 ? 64 : 24;
	memcpy(config->address[0].ip, address[e], 16);
	memcpy(config->mac, mac[e], 6);
	memcpy(config->neighbour[0].ip, address[!e], 16);
	memcpy(config->neighbour[0].mac, mac[!e], 6);
	config->mtu = least > 1500 ? least : 1500;
	config->seed = seed ? seed : 1;
	config->memory_limit = UINT64_MAX;
	config->ports = 1;
	config->port[0] = port_make(x, e);
	err = sp_nic_create(config, error, &x->side[e].nic);
	free(config);
	return err;
}

static sp_time way(const struct lane *x)
{
	const struct sp_link_direction *w = x->d->o.link.direction;

	return w->delay + w->jitter + (w->reorder > 0 ? w->reorder_delay : 0);
}

static int program_make(struct lane *x, unsigned e, struct sp_error *error)
{
	const struct demo_options *o = &x->d->o;
	const bool coded = x->l->scheme->code != SDR_CODE_NONE;
	const uint64_t nonce = o->link.seed * 2 + e + 1;
	const sp_time packet = demo_wire_time(x->d, 1), trip = 2 * way(x) + 4 * packet;
	/* Room for all chunks in flight: a power of two. */
	const uint32_t units = x->d->chunks > 64 ? 1u << (64 - __builtin_clzll(x->d->chunks - 1)) : 64;
	const struct sdr_qp_attr attr = {
		.mtu = (uint32_t)o->mtu,
		.chunk_bytes = (uint32_t)o->chunk,
		.max_message_bytes = coded ? demo_units(o->message, o->chunk) * o->chunk : o->message,
		.max_messages = (uint32_t)x->d->messages * (coded ? 2 : 1),
		.ec = {.code = x->l->scheme->code, .k = o->k, .m = o->m},
		.nonce = nonce ? nonce : 1,
		.cts_interval = trip > 10 * SP_US ? trip : 10 * SP_US,
		.max_packet_life = x->patience,
	};
	const struct sdr_reliable_attr reliable = {
		.scheme = (enum sdr_reliable_scheme)x->l->scheme->scheme,
		.rtt = trip,
		.reorder = DEMO_LINK_QUEUE * packet + way(x) - o->link.direction->delay,
		.timeout = 200 * trip + 20 * x->d->lossless + 10 * SP_SEC,
		.in_flight = units,
		.queued_bytes = (uint32_t)(o->chunk > 16 * o->mtu ? 2 * o->chunk : 32 * o->mtu),
	};
	const uint64_t room = x->d->size ? x->d->size : 1;
	struct side *s = &x->side[e];
	int err = sp_nic_dev(s->nic, false, &s->dev);

	err = err ? err : sdr_context_create(s->dev, &(struct sdr_context_attr){.channels = 1}, &s->context);
	err = err ? err : sdr_qp_create(s->context, &attr, &s->qp, error);
	if (!err)
		err = e ? sdr_mr_alloc(s->context, room, &s->mr) : sdr_mr_reg(s->context, x->d->source, room, &s->mr);
	if (!err && x->reliable)
		err = sdr_reliable_open(s->qp, &reliable, &s->reliable);
	return err ? err : sp_world_add_nic(x->world, s->nic);
}

static int machines_connect(struct lane *x)
{
	struct sdr_qp_status status;
	struct sdr_qp_info info[2];
	int err = 0;

	for (unsigned e = 0; !err && e < 2; e++)
		err = sdr_qp_info_get(x->side[e].qp, &info[e]);
	for (unsigned e = 0; !err && e < 2; e++)
		err = sdr_qp_connect(x->side[e].qp, &info[!e]);
	for (unsigned e = 0; !err && e < 2; e++) {
		err = sdr_qp_status(x->side[e].qp, &status);
		x->side[e].id = status.id;
	}
	return err;
}

/* ---- unreliable: nothing is sent again ---- */
static sp_time give_up_at(const struct lane *x, const struct transfer *t)
{
	const sp_time left = t->sent_at + x->drain;

	if (!t->sent || t->snapped)
		return SP_NEVER;
	return (left > t->progress_at ? left : t->progress_at) + x->patience;
}

/* Reads the bitmap while the NIC still has it: it is cleared with sdr_recv_complete(). */
static void raw_look(struct lane *x, uint64_t k, sp_time now)
{
	struct transfer *t = &x->transfer[k];
	struct sdr_recv_status status;
	const uint64_t *bitmap;
	uint64_t chunks;

	if (!succeeded(x, sdr_recv_status(t->recv, &status), "sdr_recv_status"))
		return;
	if (status.packets != t->packets) {
		t->packets = status.packets;
		t->progress_at = now;
	}
	if (status.open && succeeded(x, sdr_recv_bitmap_get(t->recv, &bitmap, &chunks), "sdr_recv_bitmap_get"))
		demo_watch_chunks(&x->watch, &x->d->message[k], bitmap, now);
	t->snapped = status.complete || give_up_at(x, t) <= now;
}

static void raw_step(struct lane *x, uint64_t k, sp_time now)
{
	struct transfer *t = &x->transfer[k];

	if (!t->sent && succeeded(x, sdr_send_poll(t->send), "sdr_send_poll")) {
		t->sent = true;
		t->sent_at = now;
	}
	if (!t->snapped)
		raw_look(x, k, now);
	if (t->snapped && t->sent && succeeded(x, sdr_recv_complete(t->recv), "sdr_recv_complete")) {
		t->ended = true;
		x->l->time = now - x->watch.begin;
		x->open--;
	}
}

/* ---- reliable: lost chunks are sent again, or repaired ---- */
static void reliable_step(struct lane *x, uint64_t k, sp_time now)
{
	struct transfer *t = &x->transfer[k];
	struct sdr_reliable_op_status status;

	sdr_reliable_op_status(t->in, &status);
	if (status.bitmap)
		demo_watch_chunks(&x->watch, &x->d->message[k], status.bitmap, now);
}

static void reliable_end(struct lane *x, uint64_t k, sp_time now)
{
	struct transfer *t = &x->transfer[k];
	const int in = sdr_reliable_poll(t->in), out = sdr_reliable_poll(t->out);

	if (in == 0)
		demo_watch_chunks(&x->watch, &x->d->message[k], NULL, now);
	if (!t->sent && succeeded(x, out, "sending")) {
		t->sent = true;
		x->l->time = now - x->watch.begin;
	}
	if (t->sent && succeeded(x, in, "receiving")) {
		t->ended = true;
		x->open--;
	}
}

static void step(void *arg, sp_time now)
{
	struct lane *x = arg;

	for (uint64_t k = 0; x->reliable && x->open && k < x->d->messages; k++)
		reliable_step(x, k, now);
	for (unsigned e = 0; x->reliable && e < 2; e++)
		succeeded(x, sdr_reliable_progress(x->side[e].reliable, now), "sdr_reliable_progress");
	for (uint64_t k = 0; x->open && !x->failure && k < x->d->messages; k++) {
		if (x->transfer[k].ended)
			continue;
		if (x->reliable)
			reliable_end(x, k, now);
		else
			raw_step(x, k, now);
	}
	if (x->watch.failed)
		succeeded(x, -ENOMEM, "memory");
}

static sp_time next(void *arg)
{
	const struct lane *x = arg;
	sp_time first = SP_NEVER;

	if (x->reliable) {
		const sp_time a = sdr_reliable_deadline(x->side[0].reliable);
		const sp_time b = sdr_reliable_deadline(x->side[1].reliable);

		return x->failure ? SP_NEVER : a < b ? a : b;
	}
	for (uint64_t k = 0; x->open && !x->failure && k < x->d->messages; k++) {
		const sp_time at = give_up_at(x, &x->transfer[k]);

		first = at < first ? at : first;
	}
	return first;
}

/* ---- the run ---- */
static bool cleared(void *arg)
{
	struct lane *x = arg;
	struct sdr_qp_status status;

	return x->failure || !succeeded(x, sdr_qp_status(x->side[0].qp, &status), "sdr_qp_status") || status.may_send;
}

static bool finished(void *arg)
{
	const struct lane *x = arg;

	return x->failure || !x->open;
}

static void run_until(struct lane *x, bool (*done)(void *arg), const char *what)
{
	const int rc = x->failure ? 1 : sp_world_run(x->world, LIMIT, done, x);

	if (rc != 1)
		succeeded(x, rc ? rc : -ETIMEDOUT, rc ? "virtual time stands still" : what);
}

static void post(struct lane *x, bool out)
{
	struct side *s = &x->side[!out];

	for (uint64_t k = 0; k < x->d->messages && !x->failure; k++) {
		const struct demo_message *m = &x->d->message[k];
		struct transfer *t = &x->transfer[k];
		int err;

		if (x->reliable)
			err = out ? sdr_reliable_send(s->reliable, s->mr, m->offset, m->len, (uint32_t)k, &t->out)
				  : sdr_reliable_recv(s->reliable, s->mr, m->offset, m->len, &t->in);
		else
			err = out ? sdr_send_post(s->qp, s->mr, m->offset, m->len, (uint32_t)k, &t->send)
				  : sdr_recv_post(s->qp, s->mr, m->offset, m->len, &t->recv);
		succeeded(x, err == -EAGAIN ? -ENOBUFS : err, out ? "posting a send" : "posting a receive");
	}
}

/* Chunks in the bitmap must equal the source. In other chunks, the place of each packet holds the source's bytes or
 * zeros. */
static void verify(struct lane *x, const struct demo_message *m)
{
	const uint8_t *source = x->d->source, *got = x->side[1].mr->addr;

	for (uint64_t i = 0; i < m->chunks; i++) {
		uint64_t at = m->offset + i * x->d->o.chunk, end = m->offset + m->len;
		const uint64_t stop = end - at < x->d->o.chunk ? end : at + x->d->o.chunk;

		if (x->l->chunk[m->first_chunk + i].came != SP_NEVER) {
			const bool same = !memcmp(source + at, got + at, stop - at);

			x->l->good += same;
			x->l->differing += !same;
			continue;
		}
		for (; at < stop; at += x->d->o.mtu) {
			const uint64_t len = stop - at < x->d->o.mtu ? stop - at : x->d->o.mtu;
			const bool empty = !got[at] && !memcmp(got + at, got + at + 1, len - 1);

			x->l->stray += !empty && memcmp(source + at, got + at, len);
		}
	}
}

static void outcome(struct lane *x)
{
	struct demo_lane *l = x->l;
	struct sdr_qp_status status = {.id = 0};

	for (uint64_t k = 0; k < x->d->messages; k++)
		verify(x, &x->d->message[k]);
	sdr_qp_status(x->side[1].qp, &status);
	l->repaired = status.repaired;
	l->late = sp_nic_context_counter(x->side[1].nic, x->side[1].id, "late_packets");
	l->duplicates = sp_nic_context_counter(x->side[1].nic, x->side[1].id, "duplicates");
	sp_link_count(x->link, 0, &l->link);
}

static int transfer(struct lane *x)
{
	post(x, false);
	run_until(x, cleared, "no clear-to-send has come");
	x->watch.begin = sp_world_now(x->world);
	post(x, true);
	x->open = x->d->messages;
	if (!x->failure)
		step(x, x->watch.begin);
	run_until(x, finished, "the transfer does not end");
	if (!x->failure)
		outcome(x);
	return x->failure;
}

static void close_all(struct lane *x)
{
	for (unsigned e = 0; e < 2; e++) {
		struct side *s = &x->side[e];

		if (s->reliable)
			sdr_reliable_close(s->reliable, 0);
		if (s->qp)
			sdr_qp_destroy(s->qp);
		if (s->mr)
			sdr_mr_dereg(s->mr);
		if (s->context)
			sdr_context_destroy(s->context);
		if (s->dev)
			sp_dev_close(s->dev);
		sp_nic_destroy(s->nic);
	}
	sp_world_destroy(x->world);
	sp_link_destroy(x->link); /* after the NICs: they still hold packets of it */
	free(x->transfer);
}

static int open_all(struct lane *x, struct sp_error *error)
{
	struct demo_lane *l = x->l;
	int err = sp_link_create(&x->d->o.link, &x->link);

	err = err ? err : sp_world_create(&x->world);
	x->transfer = calloc(x->d->messages, sizeof(*x->transfer));
	l->chunk = calloc(x->d->chunks, sizeof(*l->chunk));
	l->packet = calloc(x->d->packets, 1);
	l->seen = calloc(x->d->chunks / 64 + x->d->messages + 1, sizeof(*l->seen));
	if (!err && !(x->transfer && l->chunk && l->packet && l->seen))
		err = -ENOMEM;
	for (uint64_t i = 0; !err && i < x->d->chunks; i++)
		l->chunk[i] = (struct demo_chunk){.sent = SP_NEVER, .lost = SP_NEVER, .came = SP_NEVER};
	for (unsigned e = 0; e < 2; e++)
		err = err ? err : nic_make(x, e, error);
	for (unsigned e = 0; e < 2; e++)
		err = err ? err : program_make(x, e, error);
	err = err ? err : machines_connect(x);
	return err ? err : sp_world_add_host(x->world, &(struct sp_world_host){.step = step, .next = next, .arg = x});
}

int demo_lane_run(const struct demo *d, struct demo_lane *l)
{
	struct lane x = {.d = d, .l = l, .reliable = l->scheme->scheme >= 0};
	struct sp_error error = {.key = ""};
	int err;

	x.patience = 2 * way(&x) + demo_wire_time(d, 4) + SP_US;
	x.drain = demo_wire_time(d, SP_TX_QUEUE + DEMO_LINK_QUEUE);
	err = open_all(&x, &error);
	if (err && *error.text)
		command_fail("demo", "%s: %s%s%s", l->title, error.key, *error.key ? ": " : "", error.text);
	else if (err)
		command_fail("demo", "%s: %s", l->title, strerror(-err));
	else if (transfer(&x))
		command_fail("demo", "%s: %s: %s", l->title, x.failed, strerror(-x.failure));
	err = err ? err : x.failure;
	close_all(&x);
	return err ? 1 : 0;
}

void demo_lane_free(struct demo_lane *l)
{
	free(l->chunk);
	free(l->packet);
	free(l->seen);
	free(l->event);
}
