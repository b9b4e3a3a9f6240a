/* SPDX-License-Identifier: BSD-3-Clause */
#include "sdr_pair.h"
#include "seeds.h"

static void flow_open(struct pair *r, struct conn *c, unsigned from, uint64_t messages)
{
	struct pair_params *p = &r->p;
	struct flow *f = &c->flow[from];
	const uint64_t words = (pair_units(p->max_bytes, p->mtu) + 63) / 64,
		       average = p->budget / (messages ? messages : 1) + 1;

	*f = (struct flow){.conn = c, .from = from, .messages = messages};
	f->out = calloc(messages + 1, sizeof(*f->out));
	f->in = calloc(messages + 1, sizeof(*f->in));
	f->psn = calloc(PAIR_PSN_ROOM, sizeof(*f->psn));
	f->buffers = messages ? p->slots + 3 : 0;
	f->buffer = calloc(f->buffers + 1, sizeof(*f->buffer));
	f->buffer_bytes = p->max_bytes + 2 * PAIR_GUARD + 64;
	for (uint64_t k = 0; k < messages; k++) {
		struct out *o = &f->out[k];
		struct in *m = &f->in[k];
		const uint64_t edges[] = {0,
					  1,
					  p->mtu - 1,
					  p->mtu,
					  p->mtu + 1,
					  p->chunk - 1,
					  p->chunk,
					  p->chunk + 1,
					  p->max_bytes,
					  p->max_bytes - 1};

		o->length = pair_chance(r, 0.4) ? edges[pair_below(r, sizeof(edges) / sizeof(*edges))]
						: pair_below(r, p->max_bytes + 1);
		if (o->length > 3 * average * p->mtu)
			o->length = pair_below(r, 2 * average * p->mtu);
		if (o->length > p->max_bytes)
			o->length = p->max_bytes;
		o->source = pair_below(r, PAIR_SOURCE - PAIR_MESSAGE);
		o->immediate = (uint32_t)sp_random_next(&r->random);
		m->posted = o->length;
		if (pair_chance(r, p->mismatched))
			m->posted = pair_chance(r, 0.3) ? pair_below(r, o->length + 1)
							: o->length + pair_below(r, p->max_bytes - o->length + 1);
		m->arrived = calloc(words * 2, sizeof(uint64_t));
		m->window = m->arrived + words;
	}
	if (!messages)
		return;
	f->arena = malloc(f->buffers * f->buffer_bytes);
	f->scratch = calloc(p->slots, p->max_bytes);
	for (unsigned i = 0; i < f->buffers; i++) {
		f->buffer[i].base = f->arena + i * f->buffer_bytes;
		f->buffer[i].fill = (uint8_t)(i + 1);
		pair_buffer_fill(r, f, &f->buffer[i]);
	}
	PAIR_CHECK(r,
		   sdr_mr_reg(c->context[!from], f->arena, f->buffers * f->buffer_bytes, &f->arena_mr) == 0 &&
			   sdr_mr_reg(c->context[from], f->scratch, p->slots * p->max_bytes, &f->scratch_mr) == 0,
		   "sdr_mr_reg");
}

struct conn *pair_conn_open(struct pair *r, uint32_t qpn, uint64_t messages0, uint64_t messages1)
{
	struct pair_params *p = &r->p;
	struct conn *c = calloc(1, sizeof(*c));
	struct sp_error error = {.text = ""};

	if (!c || r->conns == PAIR_CONNS)
		abort();
	r->conn[r->conns++] = c;
	c->pair = r;
	c->alive = true;
	for (unsigned e = 0; e < 2; e++) {
		const struct sdr_context_attr x = {.channels = p->channels};
		const struct sdr_qp_attr attr = {
			.mtu = p->mtu,
			.chunk_bytes = p->chunk,
			.max_message_bytes = p->max_bytes,
			.max_messages = p->slots,
			.generations = p->generations,
			.split = p->split.text,
			.qpn = qpn ? qpn + e * 64 : 0,
			.rate_bps = p->rate,
			.segments = p->segments,
			.nonce = sp_random_next(&r->random) | 1,
			.cts_interval = p->cts_interval,
			.max_packet_life = p->life,
			.family = p->ipv6 ? AF_INET6 : AF_INET,
		};
		int rc = sdr_context_create(r->dev[e], &x, &c->context[e]);

		if (!rc)
			rc = sdr_qp_create(c->context[e], &attr, &c->qp[e], &error);
		if (rc) {
			pair_fail(r, "sdr_qp_create says %d: %s %s", rc, error.key, error.text);
			c->alive = false;
			return c;
		}
		sdr_qp_info_get(c->qp[e], &c->info[e]);

		struct sdr_qp_status status;

		sdr_qp_status(c->qp[e], &status);
		c->id[e] = status.id;
		c->connect_at[e] = sp_world_now(r->world) + (pair_chance(r, 0.5) ? 0 : pair_below(r, 2 * p->network));
	}
	flow_open(r, c, 0, messages0);
	flow_open(r, c, 1, messages1);
	r->wake = 0;
	return c;
}

static uint64_t pair_counter(struct pair *r, const struct flow *f, const char *name)
{
	return sp_nic_context_counter(r->nic[!f->from], f->conn->id[!f->from], name);
}

/* Where every frame of the flow has gone, by the receiver's counters. */
static void flow_check(struct pair *r, struct flow *f)
{
	const uint64_t placed = pair_counter(r, f, "placed_packets"), duplicates = pair_counter(r, f, "duplicates");
	const uint64_t recent = pair_counter(r, f, "late"), beyond = pair_counter(r, f, "beyond-end");
	const uint64_t late = f->delivered - placed - duplicates - beyond;

	/* Of a message that is gone: late, or with the key of an earlier lap. Packets of other connections have a wrong
	 * key, too. */
	PAIR_CHECK(r, late >= recent && late <= recent + pair_counter(r, f, "bad-rkey"),
		   "%llu packets came; %llu were placed, %llu duplicates, %llu late, %llu beyond the end",
		   U(f->delivered), U(placed), U(duplicates), U(recent), U(beyond));
	PAIR_CHECK(r, placed >= f->placed && placed <= f->placed + f->placed_maybe,
		   "%llu placed, should be %llu to %llu", U(placed), U(f->placed), U(f->placed + f->placed_maybe));
	PAIR_CHECK(r, duplicates >= f->duplicates && duplicates <= f->duplicates + f->duplicates_maybe,
		   "%llu duplicates, should be %llu to %llu", U(duplicates), U(f->duplicates),
		   U(f->duplicates + f->duplicates_maybe));
	PAIR_CHECK(r, late >= f->late && late <= f->late + f->placed_maybe + f->duplicates_maybe + f->beyond_maybe,
		   "%llu late, should be %llu to %llu", U(late), U(f->late),
		   U(f->late + f->placed_maybe + f->duplicates_maybe + f->beyond_maybe));
	PAIR_CHECK(r, beyond >= f->beyond && beyond <= f->beyond + f->beyond_maybe,
		   "%llu beyond the end, should be %llu to %llu", U(beyond), U(f->beyond),
		   U(f->beyond + f->beyond_maybe));
	PAIR_CHECK(r, pair_counter(r, f, "late_packets") == recent, "counter late_packets and drop reason late differ");
	PAIR_CHECK(r, !r->p.hostile || !pair_counter(r, f, "peer_restarts"),
		   "a peer that was there counts as restarted");
	for (unsigned i = 0; i < f->buffers; i++)
		if (!f->buffer[i].used)
			pair_buffer_check_idle(r, f, &f->buffer[i]);
}

void pair_conn_close(struct pair *r, struct conn *c, unsigned e)
{
	struct flow *f = &c->flow[!e];
	int rc = c->qp[e] ? sdr_qp_destroy(c->qp[e]) : 0;

	PAIR_CHECK(r, rc == 0, "sdr_qp_destroy says %d", rc);
	c->alive = false;
	if (!c->qp[e])
		return;
	c->qp[e] = NULL;
	for (unsigned i = 0; i < f->buffers; i++)
		if (f->buffer[i].used)
			pair_buffer_fill(r, f, &f->buffer[i]); /* ours again: nothing may change it */
}

void pair_conn_free(struct pair *r, struct conn *c)
{
	for (unsigned e = 0; e < 2; e++)
		pair_conn_close(r, c, e);
	for (unsigned e = 0; e < 2; e++) {
		struct flow *f = &c->flow[e];
		int rc = sdr_mr_dereg(f->arena_mr);

		PAIR_CHECK(r, rc == 0, "sdr_mr_dereg of receive buffers after sdr_qp_destroy says %d", rc);
		rc = sdr_mr_dereg(f->scratch_mr);
		PAIR_CHECK(r, rc == 0, "sdr_mr_dereg of send buffers after sdr_qp_destroy says %d", rc);
		rc = sdr_context_destroy(c->context[e]);
		PAIR_CHECK(r, rc == 0, "sdr_context_destroy says %d", rc);
		for (unsigned i = 0; i < f->buffers; i++)
			pair_buffer_check_idle(r, f, &f->buffer[i]);
		free(f->arena);
		free(f->scratch);
		for (uint64_t k = 0; f->in && k < f->messages; k++)
			free(f->in[k].arrived);
		free(f->in);
		free(f->out);
		free(f->psn);
		free(f->buffer);
	}
	for (unsigned i = 0; i < r->conns; i++)
		if (r->conn[i] == c)
			r->conn[i--] = r->conn[--r->conns];
	free(c);
}

void pair_check_totals(struct pair *r)
{
	for (unsigned e = 0; e < 2; e++) {
		struct sp_nic_totals t;

		sp_nic_totals(r->nic[e], &t);
		PAIR_CHECK(r, t.received == t.taken + t.forwarded + t.dropped,
			   "NIC %u: received %llu, taken %llu + forwarded %llu + dropped %llu", e, U(t.received),
			   U(t.taken), U(t.forwarded), U(t.dropped));
		PAIR_CHECK(r, t.received == r->tap[e].in && t.sent == r->tap[e].out,
			   "NIC %u: received %llu of %llu, sent %llu of %llu frames", e, U(t.received), U(r->tap[e].in),
			   U(t.sent), U(r->tap[e].out));
		PAIR_CHECK(r, !r->tap[e].no_buffer, "the test ran out of packet buffers");
	}
}

static struct pair_end pair_ends[2];

void pair_open(struct pair *r)
{
	const struct pair_params *p = &r->p;
	const uint32_t head = p->ipv6 ? 84 : 64, exact = (p->mtu + 3) / 4 * 4 + head;
	const uint32_t mtu = pair_chance(r, 0.5) ? (exact < 256 ? 256 : exact) : exact < 1500 ? 1500 : 9000;
	const struct sp_link_config link = {.direction = {p->link[0], p->link[1]},
					    .queues = {p->workers[0], p->workers[1]},
					    .seed = sp_random_next(&r->random)};

	r->tick = p->tick ? p->tick : p->network / 6 > SP_US ? p->network / 6 : SP_US;
	r->kept = calloc(PAIR_KEPT, sizeof(*r->kept));
	if (!r->kept || sp_link_create(&link, &r->link) || sp_world_create(&r->world))
		abort();
	for (unsigned e = 0; e < 2; e++) {
		struct sp_nic_config config = {
			.addresses = 1,
			.mtu = mtu,
			.workers = p->workers[e],
			.seed = sp_random_next(&r->random),
			.ports = 1,
			.port = {{.ops = &tap_ops, .ops_arg = &r->tap[e]}},
		};

		for (unsigned x = 0; x < 2; x++) {
			uint8_t *ip = r->address[x].ip;

			memset(&r->address[x], 0, sizeof(r->address[x]));
			if (p->ipv6)
				memcpy(ip, (const uint8_t[]){0xFD, 0, 0, 7}, 4);
			else
				memcpy(ip + 10, (const uint8_t[]){0xFF, 0xFF, 10, 7, 0}, 5);
			ip[15] = (uint8_t)(x + 1);
			memcpy(r->address[x].mac, (const uint8_t[]){2, 0, 0, 0, 7, (uint8_t)(x + 1)}, 6);
		}
		memcpy(config.address[0].ip, r->address[e].ip, 16);
		config.address[0].prefix = p->ipv6 ? 64 : 24;
		memcpy(config.mac, r->address[e].mac, 6);
		if (!p->resolve) {
			config.neighbours = 1;
			memcpy(config.neighbour[0].ip, r->address[!e].ip, 16);
			memcpy(config.neighbour[0].mac, r->address[!e].mac, 6);
		}
		snprintf(config.name, sizeof(config.name), "nic%u", e);
		tap_open(&r->tap[e], &sp_link_ops, sp_link_port(r->link, e), p->workers[e]);
		r->tap[e].spread = p->spread;
		sp_random_seed(&r->tap[e].random, r->seed, 7 + e);
		pair_ends[e] = (struct pair_end){.pair = r, .end = e};
		r->tap[e].arg = &pair_ends[e];
		r->tap[e].seen = pair_seen;

		struct sp_error error;

		if (sp_nic_create(&config, &error, &r->nic[e])) {
			printf("# sp_nic_create: %s\n", error.text);
			abort();
		}
		if (sp_nic_dev(r->nic[e], false, &r->dev[e]) || sp_world_add_nic(r->world, r->nic[e]))
			abort();
	}
	if (sp_world_add_host(r->world, &(struct sp_world_host){.step = pair_step, .next = pair_next, .arg = r}))
		abort();
	r->limit = 400 * SP_SEC;
}

struct pair_sum pair_sum;

void pair_run(struct pair *r)
{
	int rc = sp_world_run(r->world, r->limit, pair_done, r);

	if (rc != 1 && !r->failed) {
		for (unsigned i = 0; i < r->conns; i++)
			for (unsigned e = 0; e < 2; e++) {
				const struct flow *f = &r->conn[i]->flow[e];

				if (r->conn[i]->alive && !pair_flow_done(f))
					pair_fail(r,
						  "flow %u of connection %u did not finish (%d): %llu messages, sent "
						  "%llu of %llu, "
						  "taken %llu of %llu, clear-to-send %llu",
						  e, i, rc, U(f->messages), U(f->first_send), U(f->next_send),
						  U(f->first_recv), U(f->next_post), U(f->credit));
			}
		pair_fail(r, "the run does not end (%d)", rc);
	}
	if (!r->failed)
		sp_world_run(r->world, sp_world_now(r->world) + 8 * r->p.life + 4 * r->p.network, NULL, NULL);
	for (unsigned i = 0; i < r->conns && !r->failed; i++)
		for (unsigned e = 0; e < 2 && r->conn[i]->alive; e++) {
			const struct flow *f = &r->conn[i]->flow[e];

			flow_check(r, &r->conn[i]->flow[e]);
			pair_sum.delivered += f->delivered;
			pair_sum.placed += f->placed;
			pair_sum.duplicates += f->duplicates;
			pair_sum.late += f->late;
			pair_sum.beyond += f->beyond;
			pair_sum.maybe += f->placed_maybe + f->duplicates_maybe + f->beyond_maybe;
			pair_sum.injected += f->injected;
			pair_sum.injected_late += f->injected_late;
			pair_sum.completed += f->completed;
			pair_sum.messages += f->messages;
			pair_sum.cts += f->cts_seen;
			for (uint64_t k = 0; k < f->messages; k++) {
				pair_sum.fixed += f->in[k].fixed;
				pair_sum.immediates += f->in[k].mask == UINT32_MAX;
			}
		}
	pair_sum.runs++;
	if (!r->failed)
		pair_check_totals(r);
}

void pair_close(struct pair *r)
{
	while (r->conns)
		pair_conn_free(r, r->conn[r->conns - 1]);
	if (!r->failed)
		pair_check_totals(r); /* what contexts had counted does not go with them */
	for (unsigned e = 0; e < 2; e++) {
		sp_dev_close(r->dev[e]);
		sp_nic_destroy(r->nic[e]);
		tap_close(&r->tap[e]);
	}
	sp_world_destroy(r->world);
	r->world = NULL;
	sp_link_destroy(r->link);
	free(r->kept);
}

void pair_init(struct pair *r, uint64_t seed)
{
	static bool once;

	if (!once) {
		struct sp_random x;
		struct sp_error error;

		sp_random_seed(&x, 20250505, 0);
		for (uint32_t i = 0; i < PAIR_SOURCE; i += 8) {
			const uint64_t v = sp_random_next(&x);

			memcpy(pair_source + i, &v, 8);
		}
		if (sp_eal_init(0, NULL, &error)) {
			printf("Bail out! %s\n", error.text);
			exit(99);
		}
		once = true;
	}
	memset(r, 0, sizeof(*r));
	r->seed = seed;
	sp_random_seed(&r->random, seed, 0);
}

static void pair_print(const struct pair *r)
{
	const struct pair_params *p = &r->p;

	printf("#   mtu %u chunk %u max %llu slots %u generations %u channels %u split %s workers %u+%u IPv%d spread "
	       "%d "
	       "messages %llu\n",
	       p->mtu, p->chunk, U(p->max_bytes), p->slots, p->generations, p->channels, p->split.text, p->workers[0],
	       p->workers[1], p->ipv6 ? 6 : 4, p->spread, U(p->messages));
	for (unsigned e = 0; e < 2; e++)
		printf("#   from %u: loss %.2f duplicate %.2f reorder %.2f by %.1f us, delay %.1f us, %llu bit/s, "
		       "queue %u\n",
		       e, p->link[e].loss, p->link[e].duplicate, p->link[e].reorder,
		       (double)p->link[e].reorder_delay / 1e6, (double)p->link[e].delay / 1e6, U(p->link[e].bandwidth),
		       p->link[e].queue);
}

void pair_seeds(const char *rule, unsigned count, void (*one)(struct pair *r))
{
	static struct pair r; /* too large for a stack */
	const char *only = getenv("SPINDLE_SEED"), *more = getenv("SPINDLE_LONG");
	unsigned bad = 0;

	if (more && *more && strcmp(more, "0"))
		count *= 20;
#ifdef __SANITIZE_ADDRESS__
	else
		count = (count + 7) / 8; /* enough for who looks at addresses, not at values */
#endif
	for (unsigned i = 1; i <= count && bad < 3; i++) {
		const uint64_t seed = only ? strtoull(only, NULL, 0) : i;

		pair_init(&r, seed);
		uint64_t before = seeds_buffers();
		one(&r);
		uint64_t after = seeds_buffers();
		PAIR_CHECK(&r, before == after, "%llu packet buffers are lost", U(before - after));
		if (r.failed) {
			printf("# %s: seed %llu %s\n", rule, U(seed), r.text);
			pair_print(&r);
			bad++;
		}
		if (only)
			break;
	}
	printf("# %s: %llu runs, %llu messages (%llu complete, length of %llu told, immediate of %llu), packets: %llu "
	       "came, %llu "
	       "placed, %llu repeated, %llu late, %llu beyond the end, %llu while being ended; %llu delivered late on "
	       "purpose "
	       "(%llu after the end), %llu clear-to-send\n",
	       rule, U(pair_sum.runs), U(pair_sum.messages), U(pair_sum.completed), U(pair_sum.fixed),
	       U(pair_sum.immediates), U(pair_sum.delivered), U(pair_sum.placed), U(pair_sum.duplicates),
	       U(pair_sum.late), U(pair_sum.beyond), U(pair_sum.maybe), U(pair_sum.injected), U(pair_sum.injected_late),
	       U(pair_sum.cts));
	memset(&pair_sum, 0, sizeof(pair_sum));
	if (bad)
		printf("# to run a seed alone: SPINDLE_SEED=N\n");
	CU_ASSERT_EQUAL(bad, 0);
}
