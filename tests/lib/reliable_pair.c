/* SPDX-License-Identifier: BSD-3-Clause */
#include "reliable_pair.h"

/* ---- making and ending it ---- */
/* Messages of all lengths; before rel_open(). */
static void rel_random(struct rel *p)
{
	static const sp_time delays[] = {SP_US, 20 * SP_US, 500 * SP_US, 5 * SP_MS};
	static const uint32_t mtus[] = {128, 256, 1024, 4096};
	const sp_time delay = delays[rel_below(p, 4)];
	const uint64_t bandwidth = 1000000000ull << rel_below(p, 8);

	p->workers = 1 + (uint16_t)rel_below(p, 2);
	p->conns = 1 + (unsigned)rel_below(p, REL_CONNS);
	p->context_attr.channels = 1 + (uint32_t)rel_below(p, 3);
	p->qp = (struct sdr_qp_attr){.mtu = mtus[rel_below(p, 4)],
				     .max_messages = 1 + (uint32_t)rel_below(p, 12),
				     .generations = 2 + (uint32_t)rel_below(p, 3),
				     .segments = 4 << rel_below(p, 6),
				     .rate_bps = rel_below(p, 3) ? 0 : bandwidth / (1 + rel_below(p, 3)),
				     .cts_interval = 2 * delay + 10 * SP_US,
				     .max_packet_life = 2 * delay + 500 * SP_US,
				     .family = rel_below(p, 3) ? AF_INET : AF_INET6};
	p->qp.chunk_bytes = p->qp.mtu * (1 + (uint32_t)rel_below(p, 6));
	p->qp.max_message_bytes = p->qp.chunk_bytes * (1 + rel_below(p, 20));
	p->attr = (struct sdr_reliable_attr){.scheme = rel_below(p, 2) ? SDR_SR_RTO : SDR_SR_NACK,
					     .rtt = rel_below(p, 3) ? 2 * delay : 0,
					     .timeout = 300 * SP_SEC,
					     .rate_bps = rel_below(p, 2) ? bandwidth : 0,
					     .polls = rel_below(p, 2) ? 0 : 1 + (uint32_t)rel_below(p, 64),
					     .in_flight = rel_below(p, 2) ? 0 : 1u << rel_below(p, 8)};
	for (unsigned e = 0; e < 2; e++)
		p->link[e] = (struct sp_link_direction){.bandwidth = bandwidth, .delay = delay, .queue = 16};
	for (unsigned i = 0; i < p->conns; i++)
		for (unsigned e = 0; e < 2; e++) {
			struct flow *f = &p->conn[i].flow[e];
			const uint64_t most = p->qp.max_message_bytes, chunk = p->qp.chunk_bytes;
			const uint64_t edges[] = {0, 1, p->qp.mtu, chunk - 1, chunk, most - 1, most, most};

			f->messages = rel_below(p, 24);
			for (uint64_t k = 0; k < f->messages; k++) {
				struct message *m = &f->message[k];

				m->length = rel_below(p, 2) ? edges[rel_below(p, 8)] : rel_below(p, most + 1);
				m->posted =
					rel_below(p, 2) ? m->length : m->length + rel_below(p, most - m->length + 1);
				m->source = rel_below(p, REL_SOURCE - most);
				m->immediate = (uint32_t)sp_random_next(&p->random);
				m->sent = m->received = -EAGAIN;
			}
		}
}

static void rel_nic(struct rel *p, unsigned e)
{
	sim_nic(&p->sim, e, 9000, p->workers, SIM_IP4 | SIM_IP6);
	if (sp_nic_dev(p->nic[e], false, &p->dev[e]) ||
	    sdr_context_create(p->dev[e], &p->context_attr, &p->context[e]) ||
	    sdr_mr_reg(p->context[e], rel_source, REL_SOURCE, &p->source[e]))
		abort();
}

void rel_end_open(struct rel *p, struct conn *c, unsigned e, uint32_t qpn)
{
	const uint64_t bytes = p->qp.max_messages * (p->qp.max_message_bytes + 2 * REL_GUARD);
	struct sdr_qp_attr attr = p->qp;
	struct flow *f = &c->flow[!e];
	struct sp_error error;

	attr.nonce = sp_random_next(&p->random) | 1;
	attr.qpn = qpn;
	int rc = sdr_qp_create(p->context[e], &attr, &c->qp[e], &error);
	rel_expect(p, rc == 0, "sdr_qp_create says %d: %s %s", rc, error.key, error.text);
	rc = rc ? rc : sdr_reliable_open(c->qp[e], &p->attr, &c->reliable[e]);
	rel_expect(p, rc == 0, "sdr_reliable_open says %d", rc);
	if (rc)
		return;
	sdr_qp_info_get(c->qp[e], &c->info[e]);
	f->arena = malloc(bytes);
	rel_expect(p, sdr_mr_reg(p->context[e], f->arena, bytes, &f->arena_mr) == 0, "sdr_mr_reg");
}

void rel_end_close(struct rel *p, struct conn *c, unsigned e)
{
	struct flow *f = &c->flow[!e];

	sdr_reliable_close(c->reliable[e], 0);
	rel_expect(p, sdr_qp_destroy(c->qp[e]) == 0, "sdr_qp_destroy");
	rel_expect(p, !f->arena_mr || sdr_mr_dereg(f->arena_mr) == 0, "sdr_mr_dereg of receive buffers");
	free(f->arena);
	c->reliable[e] = NULL;
	c->qp[e] = NULL;
	f->arena = NULL;
	f->arena_mr = NULL;
}

void rel_conn_connect(struct rel *p, struct conn *c, unsigned e)
{
	rel_expect(p, sdr_qp_connect(c->qp[e], &c->info[!e]) == 0, "sdr_qp_connect");
}

void rel_conn_open(struct rel *p, struct conn *c)
{
	for (unsigned e = 0; e < 2 && !p->text[0]; e++)
		rel_end_open(p, c, e, 0);
	for (unsigned e = 0; e < 2 && !p->text[0]; e++)
		if (!p->alone[e])
			rel_conn_connect(p, c, e);
}

void rel_open(struct rel *p)
{
	sim_open(&p->sim, (struct sp_link_config){
				  .queues = {p->workers, p->workers}, .lose = {p->lose, p->lose}, .lose_arg = {p, p}});
	for (unsigned e = 0; e < 2; e++)
		rel_nic(p, e);
	for (unsigned i = 0; i < p->conns && !p->text[0]; i++)
		rel_conn_open(p, &p->conn[i]);
	if (sp_world_add_host(p->world, &(struct sp_world_host){.step = rel_step, .next = rel_next, .arg = p}))
		abort();
}

void rel_run(struct rel *p)
{
	const int rc = sp_world_run(p->world, sp_world_now(p->world) + 1000 * SP_SEC, rel_done, p);

	for (unsigned i = 0; i < p->conns; i++)
		for (unsigned e = 0; e < 2; e++)
			rel_expect(p, rc == 1 || rel_end_over(p, &p->conn[i], e),
				   "not over (%d): connection %u end %u: %llu sent, %llu received, of %llu and %llu",
				   rc, i, e, U(p->conn[i].flow[e].over_send), U(p->conn[i].flow[!e].over_recv),
				   U(p->conn[i].flow[e].messages), U(p->conn[i].flow[!e].messages));
	rel_expect(p, rc == 1, "not over (%d)", rc);
}

void rel_close(struct rel *p)
{
	for (unsigned i = 0; i < p->conns; i++)
		for (unsigned e = 0; e < 2; e++)
			rel_end_close(p, &p->conn[i], e);
	for (unsigned e = 0; e < 2; e++) {
		rel_expect(p, sdr_mr_dereg(p->source[e]) == 0, "sdr_mr_dereg of send buffers");
		rel_expect(p, sdr_context_destroy(p->context[e]) == 0, "sdr_context_destroy");
		sp_dev_close(p->dev[e]);
	}
	sim_close(&p->sim);
}

void rel_over_seeds(const char *rule, unsigned count, void (*one)(struct rel *p))
{
	static struct rel p;
	struct seeds s = seeds_begin(rule, count);

	seeds_fill(rel_source, REL_SOURCE, 20250505, 0);
	while (seeds_next(&s)) {
		sim_begin(&p.sim, sizeof(p), &s);
		rel_random(&p);
		one(&p);
		rel_expect(&p, seeds_whole(&s), "packet buffers are lost");
		seeds_told(&s, p.text);
	}
	CU_ASSERT_EQUAL(s.bad, 0);
}

/* ---- ends that vanish, operations that are given up ---- */
void rel_pass(struct rel *p, sp_time time)
{
	rel_expect(p, sp_world_run(p->world, sp_world_now(p->world) + time, NULL, NULL) == 0, "time stands still");
}

/* Sends and receives that are over hold no memory, though the QPs live on. */
void rel_memory_is_released(struct rel *p, unsigned e)
{
	rel_expect(p, sdr_mr_dereg(p->source[e]) == 0, "sdr_mr_dereg of send buffers");
	rel_expect(p, sdr_mr_reg(p->context[e], rel_source, REL_SOURCE, &p->source[e]) == 0, "sdr_mr_reg");
	for (unsigned i = 0; i < p->conns; i++) {
		struct flow *f = &p->conn[i].flow[!e];
		const uint64_t bytes = f->arena_mr->len;

		rel_expect(p, sdr_mr_dereg(f->arena_mr) == 0, "sdr_mr_dereg of receive buffers");
		rel_expect(p, sdr_mr_reg(p->context[e], f->arena, bytes, &f->arena_mr) == 0, "sdr_mr_reg");
	}
}

void rel_bad_link(struct rel *p)
{
	for (unsigned e = 0; e < 2; e++) {
		struct sp_link_direction *l = &p->link[e];

		l->loss = (double)rel_below(p, 21) / 100;
		if (rel_below(p, 3) == 0)
			sp_link_burst(l, 1 + (double)rel_below(p, 20), (double)rel_below(p, 15) / 100);
		l->duplicate = (double)rel_below(p, 20) / 100;
		l->corrupt = (double)rel_below(p, 5) / 100;
		l->jitter = rel_below(p, 2) ? rel_below(p, l->delay) : 0;
		l->reorder = (double)rel_below(p, 20) / 100;
		l->reorder_delay = rel_below(p, 2 * l->delay);
		p->qp.max_packet_life += 4 * l->delay;
	}
}

void rel_counters(struct rel *p, struct sdr_reliable_status *all)
{
	memset(all, 0, sizeof(*all));
	for (unsigned i = 0; i < p->conns; i++)
		for (unsigned e = 0; e < 2; e++) {
			struct sdr_reliable_status s;

			if (!p->conn[i].reliable[e])
				continue;
			sdr_reliable_status(p->conn[i].reliable[e], &s);
			all->units += s.units;
			all->retransmitted += s.retransmitted;
			all->spurious += s.spurious;
			all->refused += s.refused;
			all->sent += s.sent;
			all->received += s.received;
			all->sending += s.sending;
			all->receiving += s.receiving;
			all->polls += s.polls;
			all->parity += s.parity;
			all->repaired += s.repaired;
			all->fallbacks += s.fallbacks;
			all->coded += s.coded;
		}
}
