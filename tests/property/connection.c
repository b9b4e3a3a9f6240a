/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SDR connections as a whole: ends that do not fit, peers that start anew, QPs that end in any state. Two NICs and a
 * link in virtual time; the test is the host program, step by step.
 */
#include "../lib/sdr_pair.h"

enum { SENDER, RECEIVER };

/* A connection that the host programs do not use; it is not connected yet. */
static struct conn *manual(struct pair *r, uint32_t qpn)
{
	struct conn *c = pair_conn_open(r, qpn, 0, 0);

	c->alive = false;
	return c;
}

static void plain_params(struct pair *r, double loss)
{
	pair_random_params(r);
	r->p.mtu = 256;
	r->p.chunk = 512;
	r->p.max_bytes = 4096;
	r->p.slots = 4;
	r->p.generations = 2;
	r->p.channels = 2;
	r->p.segments = 32;
	r->p.split = pair_splits[0];
	r->p.cts_interval = 100 * SP_US;
	r->p.life = SP_MS;
	for (unsigned e = 0; e < 2; e++)
		r->p.link[e] = (struct sp_link_direction){.delay = 20 * SP_US, .bandwidth = 10000000000, .loss = loss};
}

static void plain(struct pair *r, double loss)
{
	plain_params(r, loss);
	pair_open(r);
	r->wake = SP_NEVER;
}

static void pass(struct pair *r, sp_time time)
{
	r->wake = SP_NEVER;
	PAIR_CHECK(r, sp_world_run(r->world, sp_world_now(r->world) + time, NULL, NULL) == 0, "sp_world_run");
}

static void join(struct pair *r, struct conn *c)
{
	for (unsigned e = 0; e < 2; e++) {
		int rc = sdr_qp_connect(c->qp[e], &c->info[!e]);

		PAIR_CHECK(r, rc == 0, "sdr_qp_connect says %d", rc);
	}
}

static struct sdr_qp_status status_of(struct sdr_qp *qp)
{
	struct sdr_qp_status s;

	sdr_qp_status(qp, &s);
	return s;
}

struct region {
	struct sp_mr *mr;
	uint8_t bytes[16384];
};

static void region_open(struct pair *r, struct conn *c, unsigned e, struct region *g, bool source)
{
	memset(g->bytes, 0x77, sizeof(g->bytes));
	if (source)
		memcpy(g->bytes, pair_source + pair_below(r, 4096), sizeof(g->bytes));
	PAIR_CHECK(r, sdr_mr_reg(c->context[e], g->bytes, sizeof(g->bytes), &g->mr) == 0, "sdr_mr_reg");
}

/* A message from one end to the other, whole. */
static void transfer(struct pair *r, struct conn *c, struct region *from, struct region *to)
{
	const uint64_t len = 1 + pair_below(r, 4096);
	struct sdr_recv *recv = NULL;
	struct sdr_send *send = NULL;

	memset(to->bytes, 0x77, sizeof(to->bytes));
	int rc = sdr_recv_post(c->qp[RECEIVER], to->mr, 5, len, &recv);
	PAIR_CHECK(r, rc == 0, "sdr_recv_post says %d", rc);
	rc = rc ? rc : sdr_send_post(c->qp[SENDER], from->mr, 3, len, 1234, &send);
	PAIR_CHECK(r, rc == 0, "sdr_send_post says %d", rc);
	if (rc)
		return;
	pass(r, 20 * SP_MS);
	rc = sdr_send_poll(send);
	PAIR_CHECK(r, rc == 0, "sdr_send_poll says %d", rc);
	rc = sdr_recv_test(recv);
	PAIR_CHECK(r,
		   rc == 0 && !memcmp(from->bytes + 3, to->bytes + 5, len) &&
			   pair_all_are(to->bytes + 5 + len, 64, 0x77),
		   "the message did not arrive as it was sent: %d", rc);
	sdr_recv_complete(recv);
	pass(r, 20 * SP_MS);
	rc = sdr_recv_complete(recv);
	PAIR_CHECK(r, rc == 0, "sdr_recv_complete says %d", rc);
}

#define RULE(rule, count) TEST_SEEDS(rule, pair_seeds, count, struct pair *r)

/* ---- ends that do not fit ---- */
RULE(ends_that_differ_are_refused_by_the_name_of_what_differs, 20)
{
	static const char *const names[] = {"mtu",	    "chunk-bytes", "max-message-bytes",
					    "max-messages", "generations", "channels",
					    "split",	    "credit",	   "magic",
					    "version"};
	struct region source, sink;
	struct sp_error error;

	plain(r, 0);
	struct conn *c = manual(r, 0);
	for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const struct sdr_context_attr channels = {.channels = r->p.channels + (i == 5)};
		const struct sdr_qp_attr attr = {
			.mtu = r->p.mtu - (i == 0 ? 128 : 0),
			.chunk_bytes = r->p.chunk * (i == 1 ? 2 : 1),
			.max_message_bytes = r->p.max_bytes - (i == 2),
			.max_messages = r->p.slots + (i == 3),
			.generations = r->p.generations + (i == 4),
			.split = i == 6 ? "10+20+2" : r->p.split.text,
			.implicit_credit = i == 7,
			.nonce = 99,
			.family = r->p.ipv6 ? AF_INET6 : AF_INET,
		};
		struct sdr_context *x;
		struct sdr_qp *other;
		struct sdr_qp_info info;

		PAIR_CHECK(r, !sdr_context_create(r->dev[1], &channels, &x), "sdr_context_create");
		int rc = sdr_qp_create(x, &attr, &other, &error);
		PAIR_CHECK(r, rc == 0, "sdr_qp_create: %s %s", error.key, error.text);
		if (rc)
			return;
		PAIR_CHECK(r, sdr_context_destroy(x) == -EBUSY, "a context with a QP can be destroyed");
		sdr_qp_info_get(other, &info);
		info.magic ^= i == 8;
		info.version += i == 9;
		const char *name = sdr_qp_mismatch(c->qp[0], &info);
		rc = sdr_qp_connect(c->qp[0], &info);
		PAIR_CHECK(r, name && !strcmp(name, names[i]) && rc == -EPROTO, "%s differs: %s, %d", names[i],
			   name ? name : "nothing", rc);
		PAIR_CHECK(r, !status_of(c->qp[0]).connected, "connected all the same");
		if (i < 8) {
			rc = sdr_qp_connect(other, &c->info[0]);
			PAIR_CHECK(r, rc == -EPROTO, "%s differs: the other end says %d", names[i], rc);
		}
		sdr_qp_destroy(other);
		PAIR_CHECK(r, sdr_context_destroy(x) == 0, "sdr_context_destroy");
	}

	struct sdr_qp_info bad = c->info[1];

	PAIR_CHECK(r, !sdr_qp_mismatch(c->qp[0], &c->info[1]), "ends that fit do not");
	bad.nonce = 0;
	PAIR_CHECK(r, sdr_qp_connect(c->qp[0], &bad) == -EPROTO, "nonce 0");
	bad = c->info[1];
	bad.qpn = 1;
	PAIR_CHECK(r, sdr_qp_connect(c->qp[0], &bad) == -EPROTO, "QP 1");
	bad.qpn = 0xFFFFFE; /* the last QPs of its range are none */
	PAIR_CHECK(r, sdr_qp_connect(c->qp[0], &bad) < 0, "QPs beyond the last");
	bad = c->info[1];
	memset(bad.ip, 0, 16);
	if (!r->p.ipv6)
		memcpy(bad.ip, (const uint8_t[]){0xFD, 1}, 2);
	else
		memcpy(bad.ip + 10, (const uint8_t[]){0xFF, 0xFF, 10, 7, 0, 2}, 6);
	PAIR_CHECK(r, sdr_qp_connect(c->qp[0], &bad) == -EPROTO, "addresses of two families");
	join(r, c); /* none of it has done harm */
	PAIR_CHECK(r, sdr_qp_connect(c->qp[0], &c->info[1]) == -EISCONN, "connected twice");
	region_open(r, c, SENDER, &source, true);
	region_open(r, c, RECEIVER, &sink, false);
	for (int i = 0; i < 10; i++)
		transfer(r, c, &source, &sink);
	pair_conn_close(r, c, 0);
	pair_conn_close(r, c, 1);
	PAIR_CHECK(r, !sdr_mr_dereg(source.mr) && !sdr_mr_dereg(sink.mr), "memory is not free");
	pair_close(r);
}

/* ---- an MTU that the port does not have ---- */
RULE(an_mtu_that_the_port_does_not_carry_is_refused_to_the_byte, 200)
{
	const uint32_t mtu = 64 + (uint32_t)pair_below(r, 4033), padded = (mtu + 3) / 4 * 4;
	const bool ipv6 = pair_chance(r, 0.5);
	/* what a packet has beside its payload, from the IP header on: IP, UDP 8, BTH 12, RETH 16, ImmDt 4, ICRC 4 */
	const uint32_t least = padded + (ipv6 ? 40 : 20) + 8 + 12 + 16 + 4 + 4;

	for (uint32_t port = least - 4; port <= least; port += 4) {
		struct sp_nic_config config = {.addresses = 1, .mtu = port, .seed = r->seed};
		struct sdr_qp_attr attr = {.mtu = mtu, .chunk_bytes = mtu, .max_message_bytes = mtu, .nonce = 1};
		struct sdr_context *x;
		struct sdr_qp *qp;
		struct sdr_qp_info info;
		struct sp_nic *nic;
		struct sp_dev *dev;
		struct sp_error error;
		struct tap tap;

		if (port < 256)
			continue; /* a NIC has no less */
		tap_open(&tap, NULL, NULL, 1);
		tap.seen = NULL;
		config.ports = 1;
		config.port[0] = (struct sp_port_config){.ops = &tap_ops, .ops_arg = &tap};
		if (ipv6)
			memcpy(config.address[0].ip, (const uint8_t[]){0xFD, [15] = 1}, 16);
		else
			memcpy(config.address[0].ip + 10, (const uint8_t[]){0xFF, 0xFF, 10, 0, 0, 1}, 6);
		config.address[0].prefix = ipv6 ? 64 : 24;
		int rc = sp_nic_create(&config, &error, &nic);
		PAIR_CHECK(r, rc == 0, "sp_nic_create: %s", error.text);
		if (rc)
			return;
		sp_nic_dev(nic, false, &dev);
		sdr_context_create(dev, NULL, &x);
		rc = sdr_qp_create(x, &attr, &qp, &error);
		PAIR_CHECK(r, rc == 0, "sdr_qp_create: %s %s", error.key, error.text);
		if (!rc) {
			sdr_qp_info_get(qp, &info);
			info.ip[15]++;
			rc = sdr_qp_connect(qp, &info);
			PAIR_CHECK(r, rc == (port < least ? -EMSGSIZE : 0), "IPv%d, mtu %u, port's %u: %d",
				   ipv6 ? 6 : 4, mtu, port, rc);
			sdr_qp_destroy(qp);
		}
		sdr_context_destroy(x);
		sp_dev_close(dev);
		sp_nic_destroy(nic);
		tap_close(&tap);
	}
}

/* ---- a peer that starts anew ---- */
struct stolen {
	uint8_t frame[512];
	uint32_t len;
};

static bool steal(struct pair *r, unsigned end, const struct wire_packet *w, sp_time now)
{
	struct stolen *s = r->mark;
	const uint32_t before = 12 + 8 + (w->ipv6 ? 40 : 20) + 14;
	if (end != SENDER || w->opcode != WIRE_SEND_ONLY || s->len)
		return false;
	s->len = before + w->len + w->pad + 4;
	memcpy(s->frame, w->payload - before, s->len);
	return false;
}

static void conn_forget(struct pair *r, struct conn *c)
{
	pair_conn_close(r, c, 0);
	pair_conn_close(r, c, 1);
	pair_conn_free(r, c);
}

static uint64_t counter_of(struct pair *r, unsigned end, struct sdr_qp *qp, const char *name)
{
	return sp_nic_context_counter(r->nic[end], status_of(qp).id, name);
}

static struct sdr_qp *anew(struct pair *r, struct conn *c, unsigned e, uint64_t nonce, struct sdr_qp_info *info)
{
	const struct sdr_qp_attr attr = {
		.mtu = r->p.mtu,
		.chunk_bytes = r->p.chunk,
		.max_message_bytes = r->p.max_bytes,
		.max_messages = r->p.slots,
		.generations = r->p.generations,
		.split = r->p.split.text,
		.qpn = c->info[e].qpn,
		.nonce = nonce,
		.cts_interval = r->p.cts_interval,
		.max_packet_life = r->p.life,
		.family = r->p.ipv6 ? AF_INET6 : AF_INET,
	};
	struct sdr_qp *qp = NULL;
	struct sp_error error;
	int rc = sdr_qp_create(c->context[e], &attr, &qp, &error);

	PAIR_CHECK(r, rc == 0, "sdr_qp_create on the same QP number says %d: %s", rc, error.text);
	if (qp)
		sdr_qp_info_get(qp, info);
	return qp;
}

RULE(a_peer_that_starts_anew_is_noticed_and_an_old_clear_to_send_ignored, 50)
{
	struct stolen stolen = {.len = 0};
	struct region source, sink;
	struct sdr_recv *recv;
	struct sdr_send *send;
	struct sdr_qp_info info;

	plain(r, 0);
	r->mark = &stolen;
	r->lose = steal;
	struct conn *c = manual(r, 0x20000);
	join(r, c);
	region_open(r, c, SENDER, &source, true);
	region_open(r, c, RECEIVER, &sink, false);
	for (int i = 0; i < 2; i++)
		PAIR_CHECK(r, !sdr_recv_post(c->qp[RECEIVER], sink.mr, 0, 4096, &recv), "sdr_recv_post");
	pass(r, SP_MS);
	PAIR_CHECK(r, status_of(c->qp[SENDER]).may_send == 2 && status_of(c->qp[SENDER]).peer_seen && stolen.len,
		   "no clear-to-send");
	PAIR_CHECK(r,
		   !sdr_send_stream_start(c->qp[SENDER], 4096, 5, &send) &&
			   !sdr_send_stream_continue(send, source.mr, 0, 256, 0),
		   "stream");
	pass(r, SP_MS);

	/* The receiver goes, and comes back under the same numbers. */
	PAIR_CHECK(r, !sdr_qp_destroy(c->qp[RECEIVER]), "sdr_qp_destroy");
	memset(sink.bytes, 0x77, sizeof(sink.bytes));
	c->qp[RECEIVER] = anew(r, c, RECEIVER, sp_random_next(&r->random) | 1, &info);
	PAIR_CHECK(r, info.qpn == c->info[RECEIVER].qpn && info.nonce != c->info[RECEIVER].nonce, "not anew");
	if (r->failed)
		return;
	PAIR_CHECK(r, !sdr_qp_connect(c->qp[RECEIVER], &c->info[SENDER]), "sdr_qp_connect");
	for (int i = 0; i < 4; i++)
		PAIR_CHECK(r, !sdr_recv_post(c->qp[RECEIVER], sink.mr, 0, 4096, &recv), "sdr_recv_post");
	PAIR_CHECK(r, !status_of(c->qp[SENDER]).peer_restarted, "told too early");
	pass(r, SP_MS);
	PAIR_CHECK(r, !status_of(c->qp[SENDER]).peer_restarted, "the peer was not asked");
	pass(r, 1100 * SP_MS);
	PAIR_CHECK(r, status_of(c->qp[SENDER]).peer_restarted, "the peer has started anew, and nobody says so");
	PAIR_CHECK(r, status_of(c->qp[SENDER]).may_send == 2, "clear-to-send of another connection counts");
	PAIR_CHECK(r,
		   counter_of(r, SENDER, c->qp[SENDER], "bad-nonce") > 0 &&
			   counter_of(r, SENDER, c->qp[SENDER], "peer_restarts") == 1,
		   "drops with bad-nonce: %llu", U(counter_of(r, SENDER, c->qp[SENDER], "bad-nonce")));
	/* What the sender still sends is for the one that is gone. */
	PAIR_CHECK(r, !sdr_send_stream_continue(send, source.mr, 0, 2048, 0), "stream");
	PAIR_CHECK(r, !sdr_send_post(c->qp[SENDER], NULL, 0, 0, 0, &send), "sdr_send_post of no bytes");
	pass(r, SP_MS);
	PAIR_CHECK(r, counter_of(r, RECEIVER, c->qp[RECEIVER], "bad-rkey") == 9,
		   "%llu packets with a wrong key, should be 9",
		   U(counter_of(r, RECEIVER, c->qp[RECEIVER], "bad-rkey")));
	PAIR_CHECK(r, pair_all_are(sink.bytes, sizeof(sink.bytes), 0x77), "they are in the new buffer");
	pair_conn_close(r, c, 0);
	pair_conn_close(r, c, 1);
	PAIR_CHECK(r, !sdr_mr_dereg(source.mr) && !sdr_mr_dereg(sink.mr), "memory is not free");
	conn_forget(r, c);

	/* Both anew: what the old receiver had granted is not for this sender. */
	struct conn *next = manual(r, 0x20000);
	join(r, next);
	wire_put(stolen.frame + 14 + (r->p.ipv6 ? 40 : 20) + 8 + 5, 3, next->info[SENDER].control_qpn);
	wire_icrc_set(stolen.frame);
	for (int i = 0; i < 5; i++)
		tap_inject(&r->tap[SENDER], stolen.frame, stolen.len, PAIR_JUNK,
			   sp_world_now(r->world) + (sp_time)i * SP_US);
	pass(r, SP_MS);
	uint64_t count = counter_of(r, SENDER, next->qp[SENDER], "bad-nonce");
	PAIR_CHECK(r,
		   count == 5 && !status_of(next->qp[SENDER]).may_send && !status_of(next->qp[SENDER]).peer_restarted &&
			   !status_of(next->qp[SENDER]).peer_seen,
		   "clear-to-send of an older connection: %llu of 5 dropped, may_send %llu", U(count),
		   U(status_of(next->qp[SENDER]).may_send));
	region_open(r, next, SENDER, &source, true);
	region_open(r, next, RECEIVER, &sink, false);
	for (int i = 0; i < 12; i++)
		transfer(r, next, &source, &sink);
	pair_conn_close(r, next, 0);
	pair_conn_close(r, next, 1);
	PAIR_CHECK(r, !sdr_mr_dereg(source.mr) && !sdr_mr_dereg(sink.mr), "memory is not free");
	pair_close(r);
}

/* ---- the end, in any state ---- */
enum state {
	CREATED,
	POSTED,	    /* receives, before the connection */
	ONE_SIDE,   /* only the sender is connected, and has queued */
	QUEUED,	    /* sends without clear-to-send */
	STREAMING,  /* a stream is open, pieces wait */
	UNDER_WAY,  /* packets are on the wire and in the NIC's queues */
	COMPLETING, /* receives are asked back, the NIC does not know yet */
	COMMANDED,  /* commands that the NIC has not seen */
	DISCONNECTED,
	STATES
};

static void bring_to(struct pair *r, struct conn *c, enum state state, struct region *source, struct region *sink)
{
	struct sdr_recv *recv[4] = {NULL};
	struct sdr_send *send = NULL;
	int rc = 0;

	if (state == CREATED)
		return;
	if (state == ONE_SIDE)
		PAIR_CHECK(r, !sdr_qp_connect(c->qp[SENDER], &c->info[RECEIVER]), "sdr_qp_connect");
	else if (state != POSTED)
		join(r, c);
	for (int i = 0; i < 4 && state != QUEUED && !rc; i++)
		rc = sdr_recv_post(c->qp[RECEIVER], sink->mr, 4096u * (unsigned)i, 4096, &recv[i]);
	PAIR_CHECK(r, rc == 0, "sdr_recv_post says %d", rc);
	if (state == POSTED)
		return;
	for (int i = 0; i < 4 && state != STREAMING && !rc; i++)
		rc = sdr_send_post(c->qp[SENDER], source->mr, 4096u * (unsigned)i, 4096, 7, &send);
	if (state == STREAMING && !rc) {
		rc = sdr_send_stream_start(c->qp[SENDER], 4096, 8, &send);
		for (int i = 0; i < 20 && !rc; i++)
			rc = sdr_send_stream_continue(send, source->mr, 0, 1024, 1024);
	}
	PAIR_CHECK(r, rc == 0, "sending says %d", rc);
	if (state == COMMANDED)
		return;
	if (state == UNDER_WAY || state == COMPLETING || state == DISCONNECTED || pair_chance(r, 0.5))
		pass(r, pair_below(r, 100 * SP_US));
	for (int i = 0; i < 4 && state == COMPLETING; i++) {
		rc = sdr_recv_complete(recv[i]);
		PAIR_CHECK(r, rc == -EAGAIN || rc == 0, "sdr_recv_complete says %d", rc);
	}
	if (state != DISCONNECTED)
		return;
	rc = sdr_qp_disconnect(c->qp[SENDER]);
	PAIR_CHECK(r, rc == 0, "sdr_qp_disconnect says %d", rc);
	PAIR_CHECK(r, status_of(c->qp[SENDER]).closed, "not closed");
	rc = sdr_send_poll(send);
	PAIR_CHECK(r, rc == 0, "what was not sent is not let go: %d", rc);
	PAIR_CHECK(r, sdr_send_post(c->qp[SENDER], source->mr, 0, 1, 0, &send) == -ENOTCONN, "sends after the end");
	PAIR_CHECK(r, sdr_qp_connect(c->qp[SENDER], &c->info[RECEIVER]) < 0, "connected again");
}

static void any_state(struct pair *r)
{
	const enum state state = (enum state)(r->seed % STATES);
	struct region source, sink;

	plain(r, pair_chance(r, 0.5) ? 0.3 : 0);
	struct conn *beside = manual(r, 0);
	join(r, beside);
	struct conn *c = manual(r, 0x20000);
	region_open(r, c, SENDER, &source, true);
	region_open(r, c, RECEIVER, &sink, false);
	bring_to(r, c, state, &source, &sink);
	unsigned first = (unsigned)pair_below(r, 2);
	for (unsigned i = 0; i < 2; i++) {
		const unsigned e = i ? !first : first;
		struct region *g = e == SENDER ? &source : &sink;

		pair_conn_close(r, c, e);
		memset(g->bytes, e == SENDER ? 0xDD : 0x66, sizeof(g->bytes));
		int rc = sdr_mr_dereg(g->mr);
		PAIR_CHECK(r, rc == 0, "state %d, end %u: sdr_mr_dereg says %d", state, e, rc);
		pass(r, pair_below(r, SP_MS));
		PAIR_CHECK(r, pair_all_are(g->bytes, sizeof(g->bytes), e == SENDER ? 0xDD : 0x66),
			   "state %d, end %u: memory written to after the end", state, e);
	}
	pair_conn_free(r, c);
	c = manual(r, 0x20000);
	join(r, c);
	for (int i = 0; i < 2; i++) { /* the new one, and the one that was there all the time */
		struct conn *x = i ? beside : c;

		r->p.life = SP_MS;
		region_open(r, x, SENDER, &source, true);
		region_open(r, x, RECEIVER, &sink, false);
		if (!r->p.link[0].loss)
			for (int k = 0; k < 10 && !r->failed; k++)
				transfer(r, x, &source, &sink);
		PAIR_CHECK(r, !sdr_mr_dereg(source.mr) && !sdr_mr_dereg(sink.mr), "memory is not free");
	}
	pair_check_totals(r);
	pair_close(r);
}

TEST_CALL(a_QP_may_end_in_any_state_and_its_numbers_be_used_again, pair_seeds(__func__, 40 * STATES, any_state))

/* NICs and link go while packets wait everywhere: for the port, for the neighbour's address, on the link. pair_seeds()
 * counts the buffers. */
RULE(NICs_that_end_with_packets_in_their_queues_lose_no_buffers, 100)
{
	struct region source, sink;
	struct sdr_recv *recv;
	struct sdr_send *send;

	plain_params(r, 0);
	r->p.link[0].bandwidth = 10000000;
	r->p.link[0].queue = 1 + (uint32_t)pair_below(r, 3);
	r->p.resolve = pair_chance(r, 0.3);
	pair_open(r);
	r->wake = SP_NEVER;
	struct conn *c = manual(r, 0);
	region_open(r, c, SENDER, &source, true);
	region_open(r, c, RECEIVER, &sink, false);
	join(r, c);
	for (int i = 0; i < 4; i++)
		PAIR_CHECK(r,
			   !sdr_recv_post(c->qp[RECEIVER], sink.mr, 0, 4096, &recv) &&
				   !sdr_send_post(c->qp[SENDER], source.mr, 0, 4096, 7, &send),
			   "posting");
	pass(r, pair_below(r, 4 * SP_MS));
	PAIR_CHECK(r, sdr_mr_dereg(sink.mr) == -EBUSY, "memory of a posted receive can be deregistered");
	for (unsigned e = 0; e < 2; e++)
		pair_conn_close(r, c, e);
	PAIR_CHECK(r, !sdr_mr_dereg(source.mr) && !sdr_mr_dereg(sink.mr), "memory is not free");
	pair_close(r);
}
