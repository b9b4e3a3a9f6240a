/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two NICs, a bad link between them, and connections whose host programs send and receive reliably in both directions,
 * in virtual time, woken by NICs and deadlines alone. One seed is one run.
 */
#ifndef TESTS_PROPERTY_PLANET_H
#define TESTS_PROPERTY_PLANET_H

#include <sys/socket.h>

#include "planet_hosts.h"
#include "seeds.h"

/* ---- making and ending it ------------------------------------------------------------------------------------------
 */
/* Messages of all lengths; before planet_open. */
static inline void planet_random(struct planet *p)
{
	static const sp_time delays[] = {SP_US, 20 * SP_US, 500 * SP_US, 5 * SP_MS};
	static const uint32_t mtus[] = {128, 256, 1024, 4096};
	const sp_time delay = delays[below(p, 4)];
	const uint64_t bandwidth = 1000000000ull << below(p, 8);

	p->workers = 1 + (uint16_t)below(p, 2);
	p->conns = 1 + (unsigned)below(p, PLANET_CONNS);
	p->context_attr.channels = 1 + (uint32_t)below(p, 3);
	p->qp = (struct sdr_qp_attr){.mtu = mtus[below(p, 4)],
				     .max_messages = 1 + (uint32_t)below(p, 12),
				     .generations = 2 + (uint32_t)below(p, 3),
				     .segments = 4 << below(p, 6),
				     .rate_bps = below(p, 3) ? 0 : bandwidth / (1 + below(p, 3)),
				     .cts_interval = 2 * delay + 10 * SP_US,
				     .max_packet_life = 2 * delay + 500 * SP_US,
				     .family = below(p, 3) ? AF_INET : AF_INET6};
	p->qp.chunk_bytes = p->qp.mtu * (1 + (uint32_t)below(p, 6));
	p->qp.max_message_bytes = p->qp.chunk_bytes * (1 + below(p, 20));
	p->attr = (struct sdr_reliable_attr){.scheme = below(p, 2) ? SDR_SR_RTO : SDR_SR_NACK,
					     .rtt = below(p, 3) ? 2 * delay : 0,
					     .timeout = 300 * SP_SEC,
					     .rate_bps = below(p, 2) ? bandwidth : 0,
					     .polls = below(p, 2) ? 0 : 1 + (uint32_t)below(p, 64),
					     .in_flight = below(p, 2) ? 0 : 1u << below(p, 8)};
	for (unsigned e = 0; e < 2; e++)
		p->link[e] = (struct sp_link_direction){.bandwidth = bandwidth, .delay = delay, .queue = 16};
	for (unsigned i = 0; i < p->conns; i++)
		for (unsigned e = 0; e < 2; e++) {
			struct flow *f = &p->conn[i].flow[e];
			const uint64_t most = p->qp.max_message_bytes, chunk = p->qp.chunk_bytes;
			const uint64_t edges[] = {0, 1, p->qp.mtu, chunk - 1, chunk, most - 1, most, most};

			f->messages = below(p, 24);
			for (uint64_t k = 0; k < f->messages; k++) {
				struct message *m = &f->message[k];

				m->length = below(p, 2) ? edges[below(p, 8)] : below(p, most + 1);
				m->posted = below(p, 2) ? m->length : m->length + below(p, most - m->length + 1);
				m->source = below(p, PLANET_SOURCE - most);
				m->immediate = (uint32_t)sp_random_next(&p->random);
				m->sent = m->received = -EAGAIN;
			}
		}
}

static inline void planet_nic(struct planet *p, unsigned e)
{
	struct sp_nic_config config = {.addresses = 2,
				       .mtu = 9000,
				       .workers = p->workers,
				       .seed = sp_random_next(&p->random),
				       .neighbours = 2,
				       .ports = 1,
				       .port = {{.ops = &sp_link_ops, .ops_arg = sp_link_port(p->under, e)}}};
	struct sp_error error = {.text = ""};

	for (unsigned i = 0; i < 2; i++) {
		uint8_t ip[16] = {0xFD, 0, 0, 7};

		if (i)
			memcpy(ip, (const uint8_t[16]){[10] = 0xFF, 0xFF, 10, 7}, 16);
		ip[15] = (uint8_t)(e + 1);
		memcpy(config.address[i].ip, ip, 16);
		config.address[i].prefix = i ? 24 : 64;
		ip[15] = (uint8_t)(!e + 1);
		memcpy(config.neighbour[i].ip, ip, 16);
		memcpy(config.neighbour[i].mac, (const uint8_t[]){2, 0, 0, 0, 7, (uint8_t)(!e + 1)}, 6);
	}
	memcpy(config.mac, (const uint8_t[]){2, 0, 0, 0, 7, (uint8_t)(e + 1)}, 6);
	snprintf(config.name, sizeof(config.name), "planet%u", e);
	if (sp_nic_create(&config, &error, &p->nic[e]) || sp_nic_dev(p->nic[e], false, &p->dev[e]) ||
	    sp_world_add_nic(p->world, p->nic[e]) || sdr_context_create(p->dev[e], &p->context_attr, &p->context[e]) ||
	    sdr_mr_reg(p->context[e], planet_source, PLANET_SOURCE, &p->source[e])) {
		printf("# %s\n", error.text);
		abort();
	}
}

/* One end of a connection. qpn 0: any. */
static inline void end_open(struct planet *p, struct conn *c, unsigned e, uint32_t qpn)
{
	const uint64_t bytes = p->qp.max_messages * (p->qp.max_message_bytes + 2 * PLANET_GUARD);
	struct sdr_qp_attr attr = p->qp;
	struct flow *f = &c->flow[!e];
	struct sp_error error;
	int rc;

	attr.nonce = sp_random_next(&p->random) | 1;
	attr.qpn = qpn;
	rc = sdr_qp_create(p->context[e], &attr, &c->qp[e], &error);
	expect(p, rc == 0, "sdr_qp_create says %d: %s %s", rc, error.key, error.text);
	rc = rc ? rc : sdr_reliable_open(c->qp[e], &p->attr, &c->reliable[e]);
	expect(p, rc == 0, "sdr_reliable_open says %d", rc);
	if (rc)
		return;
	sdr_qp_info_get(c->qp[e], &c->info[e]);
	f->arena = malloc(bytes);
	expect(p, sdr_mr_reg(p->context[e], f->arena, bytes, &f->arena_mr) == 0, "sdr_mr_reg");
}

/* All that it held is free again. */
static inline void end_close(struct planet *p, struct conn *c, unsigned e)
{
	struct flow *f = &c->flow[!e];

	sdr_reliable_close(c->reliable[e], 0);
	expect(p, sdr_qp_destroy(c->qp[e]) == 0, "sdr_qp_destroy");
	expect(p, !f->arena_mr || sdr_mr_dereg(f->arena_mr) == 0, "sdr_mr_dereg of receive buffers");
	free(f->arena);
	c->reliable[e] = NULL;
	c->qp[e] = NULL;
	f->arena = NULL;
	f->arena_mr = NULL;
}

static inline void conn_connect(struct planet *p, struct conn *c, unsigned e)
{
	expect(p, sdr_qp_connect(c->qp[e], &c->info[!e]) == 0, "sdr_qp_connect");
}

static inline void conn_open(struct planet *p, struct conn *c)
{
	for (unsigned e = 0; e < 2 && !p->text[0]; e++)
		end_open(p, c, e, 0);
	for (unsigned e = 0; e < 2 && !p->text[0]; e++)
		if (!p->alone[e])
			conn_connect(p, c, e);
}

static inline void planet_open(struct planet *p)
{
	const struct sp_link_config link = {.direction = {p->link[0], p->link[1]},
					    .queues = {p->workers, p->workers},
					    .lose = {p->lose, p->lose},
					    .lose_arg = {p, p},
					    .seed = sp_random_next(&p->random)};

	if (sp_link_create(&link, &p->under) || sp_world_create(&p->world))
		abort();
	for (unsigned e = 0; e < 2; e++)
		planet_nic(p, e);
	for (unsigned i = 0; i < p->conns && !p->text[0]; i++)
		conn_open(p, &p->conn[i]);
	if (sp_world_add_host(p->world, &(struct sp_world_host){.step = planet_step, .next = planet_next, .arg = p}))
		abort();
}

/* Until all is over. */
static inline void planet_run(struct planet *p)
{
	const int rc = sp_world_run(p->world, sp_world_now(p->world) + 1000 * SP_SEC, planet_done, p);

	for (unsigned i = 0; i < p->conns; i++)
		for (unsigned e = 0; e < 2; e++)
			expect(p, rc == 1 || end_over(p, &p->conn[i], e),
			       "not over (%d): connection %u end %u: %llu sent, %llu received, of %llu and %llu", rc, i,
			       e, U(p->conn[i].flow[e].over_send), U(p->conn[i].flow[!e].over_recv),
			       U(p->conn[i].flow[e].messages), U(p->conn[i].flow[!e].messages));
	expect(p, rc == 1, "not over (%d)", rc);
}

/* Everything can be let go of: all that was used is free again. */
static inline void planet_close(struct planet *p)
{
	for (unsigned i = 0; i < p->conns; i++)
		for (unsigned e = 0; e < 2; e++)
			end_close(p, &p->conn[i], e);
	for (unsigned e = 0; e < 2; e++) {
		expect(p, sdr_mr_dereg(p->source[e]) == 0, "sdr_mr_dereg of send buffers");
		expect(p, sdr_context_destroy(p->context[e]) == 0, "sdr_context_destroy");
		sp_dev_close(p->dev[e]);
		sp_nic_destroy(p->nic[e]);
	}
	sp_world_destroy(p->world);
	p->world = NULL;
	sp_link_destroy(p->under);
}

/* Runs one(p) for `count` seeds. */
static inline void over_seeds(const char *rule, unsigned count, void (*one)(struct planet *p))
{
	static struct planet p;
	struct seeds s = seeds_begin(rule, count);

	seeds_fill(planet_source, PLANET_SOURCE, 20250505, 0);
	while (seeds_next(&s)) {
		memset(&p, 0, sizeof(p));
		p.seed = s.seed;
		sp_random_seed(&p.random, p.seed, 0);
		planet_random(&p);
		one(&p);
		expect(&p, seeds_whole(&s), "packet buffers are lost");
		seeds_told(&s, p.text);
	}
	CU_ASSERT_EQUAL(s.bad, 0);
}

#endif
