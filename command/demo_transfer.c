/* SPDX-License-Identifier: BSD-3-Clause */
/* Two machines, a link, and the programs on them: one sends all messages, the other takes what arrives. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "demo.h"

/* ---- the two machines ---- */
static const uint8_t addresses[2][2][16] = {
	{{[10] = 0xFF, 0xFF, 192, 0, 2, 1}, {[10] = 0xFF, 0xFF, 192, 0, 2, 2}},
	{{0x20, 0x01, 0x0D, 0xB8, [15] = 1}, {0x20, 0x01, 0x0D, 0xB8, [15] = 2}},
};
static const uint8_t mac[2][6] = {{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}};

static int machine_create(struct demo *d, unsigned e)
{
	struct sp_nic_config *config = calloc(1, sizeof(*config));
	const struct sdr_qp_attr attr = {
		.mtu = (uint32_t)d->o.mtu,
		.chunk_bytes = (uint32_t)d->o.chunk,
		.max_message_bytes = d->o.message,
		.max_messages = (uint32_t)d->window,
		.nonce = d->o.seed * 2 + e + 1 ? d->o.seed * 2 + e + 1 : 1,
		.cts_interval = 2 * d->o.delay > 10 * SP_US ? 2 * d->o.delay : 10 * SP_US,
		.max_packet_life = d->patience,
		.no_send = e == 1,
		.no_recv = e == 0,
	};
	const uint8_t(*address)[16] = addresses[d->o.ipv6];
	/* IP, UDP, BTH, RETH, immediate, ICRC */
	const uint32_t least = (uint32_t)d->o.mtu + (d->o.ipv6 ? 40 : 20) + 8 + 12 + 16 + 4 + 4;
	struct demo_side *s = &d->side[e];
	struct sp_error error = {.key = ""};
	int err;

	if (!config)
		return demo_fail("memory", -ENOMEM);
	snprintf(config->name, sizeof(config->name), "%s", e ? "receiver" : "sender");
	config->addresses = config->neighbours = 1;
	config->address[0].prefix = d->o.ipv6 ? 64 : 24;
	memcpy(config->address[0].ip, address[e], 16);
	memcpy(config->mac, mac[e], 6);
	memcpy(config->neighbour[0].ip, address[!e], 16);
	memcpy(config->neighbour[0].mac, mac[!e], 6);
	config->mtu = least > 1500 ? least : 1500;
	config->seed = d->o.seed + e ? d->o.seed + e : 1;
	config->ports = 1;
	d->tap[e] = (struct sp_tap){.ops = &sp_link_ops, .port = sp_link_port(d->link, e), .out = d->capture};
	config->port[0] = d->capture ? (struct sp_port_config){.ops = &sp_tap_ops, .ops_arg = &d->tap[e]}
				     : (struct sp_port_config){.ops = &sp_link_ops, .ops_arg = d->tap[e].port};
	err = sp_nic_create(config, &error, &s->nic);
	free(config);
	if (!err)
		err = sp_nic_dev(s->nic, false, &s->dev);
	if (!err)
		err = sdr_context_create(s->dev, &(struct sdr_context_attr){.channels = 1}, &s->context);
	if (!err)
		err = sdr_qp_create(s->context, &attr, &s->qp, &error);
	if (!err)
		err = sdr_mr_alloc(s->context, d->size ? d->size : 1, &s->mr);
	if (!err)
		err = sp_world_add_nic(d->world, s->nic);
	if (err && *error.text)
		fprintf(stderr, "spindle demo: %s%s%s\n", error.key, *error.key ? ": " : "", error.text);
	else if (err)
		demo_fail(e ? "the receiving NIC" : "the sending NIC", err);
	return err ? 1 : 0;
}

static int machines_connect(struct demo *d)
{
	struct sdr_qp_info info[2];
	int err = 0;

	for (unsigned e = 0; !err && e < 2; e++)
		err = sdr_qp_info_get(d->side[e].qp, &info[e]);
	for (unsigned e = 0; !err && e < 2; e++)
		err = sdr_qp_connect(d->side[e].qp, &info[!e]);
	for (unsigned e = 0; !err && e < 2; e++) {
		struct sdr_qp_status status;

		err = sdr_qp_status(d->side[e].qp, &status);
		d->side[e].id = status.id;
	}
	return err ? demo_fail("connecting", err) : 0;
}

/* ---- the two host programs, driven by virtual time ---- */
static bool went(struct demo *d, int err, const char *what)
{
	if (err && err != -EAGAIN && !d->failure) {
		d->failure = err;
		d->failed = what;
	}
	return !err;
}

static void sender_step(struct demo *d, sp_time now)
{
	while (d->next_send < d->messages) {
		struct demo_message *m = &d->message[d->next_send];

		if (!went(d,
			  sdr_send_post(d->side[0].qp, d->side[0].mr, m->offset, m->len, (uint32_t)d->next_send,
					&m->send),
			  "sdr_send_post"))
			break;
		d->next_send++;
	}
	for (uint64_t k = d->first_open; k < d->next_send; k++) {
		struct demo_message *m = &d->message[k];

		if (!m->sent && went(d, sdr_send_poll(m->send), "sdr_send_poll")) {
			m->sent = true;
			m->sent_at = now;
		}
	}
}

/* Which chunks are there: the NIC wipes its bitmap once the buffer is given back. */
static void message_snapshot(struct demo *d, struct demo_message *m)
{
	const uint64_t *bitmap;
	uint64_t chunks;

	if (!went(d, sdr_recv_bitmap_get(m->recv, &bitmap, &chunks), "sdr_recv_bitmap_get"))
		return;
	for (uint64_t i = 0; i < m->chunks && i < chunks; i++)
		d->arrived[m->first_chunk + i] = sdr_recv_chunk(bitmap, i);
}

static sp_time give_up_at(const struct demo *d, const struct demo_message *m)
{
	const sp_time left = m->sent_at + d->drain;

	if (m->state != POSTED || !m->sent)
		return SP_NEVER;
	return (left > m->progress_at ? left : m->progress_at) + d->patience;
}

static void message_step(struct demo *d, struct demo_message *m, sp_time now)
{
	struct sdr_recv_status status;

	if (m->state == POSTED) {
		if (!went(d, sdr_recv_status(m->recv, &status), "sdr_recv_status"))
			return;
		if (status.packets != m->packets) {
			m->packets = status.packets;
			m->progress_at = now;
		}
		m->complete = status.complete;
		if (!m->complete && give_up_at(d, m) > now)
			return;
		message_snapshot(d, m);
		m->state = ENDING;
	}
	if (m->state == ENDING && went(d, sdr_recv_complete(m->recv), "sdr_recv_complete")) {
		m->state = ENDED;
		d->ended++;
		d->ended_at = now;
	}
}

static void receiver_step(struct demo *d, sp_time now)
{
	while (d->next_post < d->messages) {
		struct demo_message *m = &d->message[d->next_post];

		if (!went(d, sdr_recv_post(d->side[1].qp, d->side[1].mr, m->offset, m->len, &m->recv), "sdr_recv_post"))
			break;
		m->state = POSTED;
		m->progress_at = now;
		d->next_post++;
	}
	for (uint64_t k = d->first_open; k < d->next_post; k++)
		message_step(d, &d->message[k], now);
	while (d->first_open < d->next_post && d->message[d->first_open].state == ENDED &&
	       d->message[d->first_open].sent)
		d->first_open++;
}

void demo_step(void *arg, sp_time now)
{
	struct demo *d = arg;

	if (d->failure)
		return;
	receiver_step(d, now);
	sender_step(d, now);
}

static sp_time hosts_next(void *arg)
{
	const struct demo *d = arg;
	sp_time next = SP_NEVER;

	for (uint64_t k = d->first_open; !d->failure && k < d->next_post; k++) {
		sp_time at = give_up_at(d, &d->message[k]);

		next = at < next ? at : next;
	}
	return next;
}

bool demo_finished(void *arg)
{
	const struct demo *d = arg;

	return d->failure || d->ended == d->messages;
}

/* ---- all of it ---- */
int demo_open(struct demo *d)
{
	const struct sp_link_direction direction = {.bandwidth = d->o.bandwidth,
						    .delay = d->o.delay,
						    .loss = d->o.loss,
						    .duplicate = d->o.duplicate,
						    .reorder = d->o.reorder,
						    .reorder_delay = d->reorder_delay,
						    .queue = DEMO_LINK_QUEUE};
	const struct sp_link_config config = {.direction = {direction, direction}, .seed = d->o.seed};
	struct sp_error error = {.key = ""};
	int err = sp_link_create(&config, &d->link);

	if (!err)
		err = sp_world_create(&d->world);
	if (err)
		return demo_fail("the link", err);
	if (d->o.capture && sp_capture_create(d->o.capture, 0, &d->capture, &error)) {
		fprintf(stderr, "spindle demo: %s\n", error.text);
		return 1;
	}
	for (unsigned e = 0; e < 2; e++)
		if (machine_create(d, e))
			return 1;
	err = sp_world_add_host(d->world, &(struct sp_world_host){.step = demo_step, .next = hosts_next, .arg = d});
	return err ? demo_fail("memory", err) : machines_connect(d);
}

void demo_close(struct demo *d)
{
	for (unsigned e = 0; e < 2; e++) {
		struct demo_side *s = &d->side[e];

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
	sp_world_destroy(d->world);
	sp_link_destroy(d->link); /* after the NICs: what they were to send is theirs */
	free(d->message);
	free(d->arrived);
}
