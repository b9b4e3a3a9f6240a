/* SPDX-License-Identifier: BSD-3-Clause */
/* host-api/examples/repeat.c, a scheme that knows nothing but sdr.h, over a link that does what links do. */
#include "../lib/reliable_pair.h"

#include "../../host-api/examples/repeat.h"

#define MESSAGES 48
#define GUARD	 64

struct word {
	uint64_t length, posted, source;
	struct repeat_op *send, *recv;
	int sent, received; /* -EAGAIN: not over */
};

struct way { /* from end e to the other */
	uint64_t messages, next_send, next_recv;
	struct word word[MESSAGES];
	uint8_t *arena;
	struct sp_mr *mr;
};

static struct {
	struct sdr_qp *qp[2];
	struct repeat *repeat[2];
	struct way way[2];
	sp_time timeout; /* of an operation; 0: none */
	uint64_t sent, chunks, runs;
} t;

static uint8_t *place(struct rel *p, struct way *w, uint64_t k)
{
	return w->arena + k % p->qp.max_messages * (p->qp.max_message_bytes + 2 * GUARD) + GUARD;
}

static void compare(struct rel *p, struct way *w, uint64_t k)
{
	const struct word *m = &w->word[k];
	const uint8_t *b = place(p, w, k);

	rel_expect(p, !memcmp(b, rel_source + m->source, m->length), "message %llu has other bytes than were sent",
		   U(k));
	for (uint64_t i = m->length; i < m->posted + GUARD; i++)
		rel_expect(p, b[i] == 0x5A, "message %llu: byte %llu beyond its end", U(k), U(i));
}

static sp_time until(sp_time now)
{
	return t.timeout ? now + t.timeout : SP_NEVER;
}

static void sending(struct rel *p, unsigned e, sp_time now)
{
	struct way *w = &t.way[e];

	for (uint64_t k = 0; k < w->next_send; k++) {
		struct word *m = &w->word[k];

		if (!m->send)
			continue;
		m->sent = repeat_poll(m->send, NULL);
		if (m->sent == -EAGAIN)
			continue;
		rel_expect(p, !m->sent || t.timeout, "message %llu failed: %d", U(k), m->sent);
		if (!m->sent && m->received == -EAGAIN) /* whoever says so must be right at once */
			compare(p, w, k);
		t.sent += !m->sent;
		m->send = NULL;
	}
	for (; w->next_send < w->messages; w->next_send++) {
		struct word *m = &w->word[w->next_send];
		const int rc = repeat_send(t.repeat[e], p->source[e], m->source, m->length, 7, until(now), &m->send);

		rel_expect(p, rc == 0 || rc == -EAGAIN, "repeat_send says %d", rc);
		if (rc)
			return;
	}
}

static void receiving(struct rel *p, unsigned e, sp_time now)
{
	struct way *w = &t.way[!e];

	for (uint64_t k = 0; k < w->next_recv; k++) {
		struct word *m = &w->word[k];
		uint64_t len;

		if (!m->recv)
			continue;
		m->received = repeat_poll(m->recv, &len);
		if (m->received == -EAGAIN)
			continue;
		rel_expect(p, !m->received || t.timeout, "receive %llu failed: %d", U(k), m->received);
		rel_expect(p, m->received || len == m->length, "message %llu has %llu bytes, not %llu", U(k), U(len),
			   U(m->length));
		if (!m->received)
			compare(p, w, k);
		m->recv = NULL;
	}
	for (; w->next_recv < w->messages; w->next_recv++) {
		struct word *m = &w->word[w->next_recv];
		uint8_t *b = place(p, w, w->next_recv);
		const int rc =
			repeat_recv(t.repeat[e], w->mr, (uint64_t)(b - w->arena), m->posted, until(now), &m->recv);

		rel_expect(p, rc == 0 || rc == -EAGAIN, "repeat_recv says %d", rc);
		if (rc)
			return;
		memset(b - GUARD, 0x5A, p->qp.max_message_bytes + 2 * GUARD);
	}
}

static void step(void *arg, sp_time now)
{
	struct rel *p = arg;

	rel_expect(p, ++p->steps < 1000000, "the run does not end");
	for (unsigned e = 0; e < 2 && !p->text[0]; e++) {
		if (p->dead[e])
			continue;
		rel_expect(p, repeat_progress(t.repeat[e], now) == 0, "repeat_progress fails");
		sending(p, e, now);
		receiving(p, e, now);
	}
}

static sp_time next(void *arg)
{
	const struct rel *p = arg;
	sp_time first = SP_NEVER;

	for (unsigned e = 0; e < 2 && !p->text[0]; e++)
		if (!p->dead[e] && repeat_deadline(t.repeat[e]) < first)
			first = repeat_deadline(t.repeat[e]);
	return first;
}

static bool over(void *arg)
{
	const struct rel *p = arg;

	for (unsigned e = 0; e < 2; e++)
		for (uint64_t k = 0; k < t.way[e].messages && !p->text[0]; k++)
			if ((!p->dead[e] && (k >= t.way[e].next_send || t.way[e].word[k].send)) ||
			    (!p->dead[!e] && (k >= t.way[e].next_recv || t.way[e].word[k].recv)))
				return false;
	return true;
}

/* ---- a run ---- */
static void more(struct rel *p, unsigned e, uint64_t count)
{
	struct way *w = &t.way[e];
	const uint64_t most = p->qp.max_message_bytes, chunk = p->qp.chunk_bytes;

	for (; count-- && w->messages < MESSAGES; w->messages++) {
		struct word *m = &w->word[w->messages];
		const uint64_t edges[] = {0, 1, p->qp.mtu, chunk - 1, chunk, most - 1, most, most};

		m->length = rel_below(p, 2) ? edges[rel_below(p, 8)] : rel_below(p, most + 1);
		m->posted = rel_below(p, 2) ? m->length : m->length + rel_below(p, most - m->length + 1);
		m->source = rel_below(p, REL_SOURCE - most);
		m->sent = m->received = -EAGAIN;
	}
}

static void start(struct rel *p, bool loses)
{
	const uint32_t mtu = 128u << rel_below(p, 4);
	const sp_time delay = SP_US << rel_below(p, 14);
	/* What is overtaken most, and what the queues of NIC and wire hold. */
	const sp_time pause = 5 * delay + 50 * SP_US + 600 * (mtu + 120) * 8 * SP_NS;
	struct sdr_qp_info info[2];
	struct sp_error error;

	memset(t.way, 0, sizeof(t.way));
	p->conns = 0; /* those of reliable_pair.h */
	p->context_attr.channels = 1 + (uint32_t)rel_below(p, 2);
	p->qp = (struct sdr_qp_attr){.mtu = mtu,
				     .chunk_bytes = mtu * (1 + (uint32_t)rel_below(p, 4)),
				     .max_message_bytes = mtu * (4 + rel_below(p, 40)),
				     .max_messages = 1 + (uint32_t)rel_below(p, 12),
				     .segments = 4 << rel_below(p, 6),
				     .cts_interval = pause,
				     .max_packet_life = 3 * pause};
	for (unsigned e = 0; e < 2; e++)
		p->link[e] = (struct sp_link_direction){.bandwidth = 1000000000,
							.delay = delay,
							.queue = 32,
							.loss = loses ? 0.1 : 0,
							.duplicate = 0.1,
							.corrupt = loses ? 0.01 : 0,
							.jitter = rel_below(p, delay + 1),
							.reorder = 0.1,
							.reorder_delay = rel_below(p, 3 * delay + 1)};
	rel_open(p);
	for (unsigned e = 0; e < 2; e++) {
		struct way *w = &t.way[!e];
		const uint64_t bytes = p->qp.max_messages * (p->qp.max_message_bytes + 2 * GUARD);

		p->qp.nonce = sp_random_next(&p->random) | 1;
		if (sdr_qp_create(p->context[e], &p->qp, &t.qp[e], &error) || repeat_open(t.qp[e], pause, &t.repeat[e]))
			abort();
		sdr_qp_info_get(t.qp[e], &info[e]);
		w->arena = malloc(bytes);
		rel_expect(p, sdr_mr_reg(p->context[e], w->arena, bytes, &w->mr) == 0, "sdr_mr_reg");
		more(p, e, rel_below(p, MESSAGES / 2 + 1));
	}
	for (unsigned e = 0; e < 2; e++)
		rel_expect(p, sdr_qp_connect(t.qp[e], &info[!e]) == 0, "sdr_qp_connect");
	if (sp_world_add_host(p->world, &(struct sp_world_host){.step = step, .next = next, .arg = p}))
		abort();
}

static void run(struct rel *p)
{
	const int rc = sp_world_run(p->world, sp_world_now(p->world) + 1000 * SP_SEC, over, p);

	rel_expect(p, rc == 1 && over(p), "not over (%d)", rc);
}

static void finish(struct rel *p)
{
	t.runs++;
	for (unsigned e = 0; e < 2; e++) {
		t.chunks += repeat_chunks(t.repeat[e]);
		repeat_close(t.repeat[e]);
		rel_expect(p, sdr_qp_destroy(t.qp[e]) == 0, "sdr_qp_destroy");
		rel_expect(p, sdr_mr_dereg(t.way[!e].mr) == 0, "sdr_mr_dereg");
		free(t.way[!e].arena);
	}
	rel_close(p);
}

static void seeds(const char *rule, unsigned count, void (*one)(struct rel *p))
{
	memset(&t, 0, sizeof(t));
	rel_over_seeds(rule, count, one);
	printf("# %s: %llu runs, %llu messages, %llu chunks sent\n", rule, U(t.runs), U(t.sent), U(t.chunks));
}

#define RULE(rule, count) TEST_SEEDS(rule, seeds, count, struct rel *p)

/* ---- rules ---- */
RULE(every_message_arrives_whole_and_right, 150)
{
	start(p, true);
	run(p);
	finish(p);
}

/* Chunks of the messages, counted otherwise than there. */
static uint64_t chunks(const struct rel *p)
{
	uint64_t n = 0;

	for (unsigned e = 0; e < 2; e++)
		for (uint64_t k = 0; k < t.way[e].messages; k++) {
			uint64_t left = t.way[e].word[k].length;

			do {
				left -= left < p->qp.chunk_bytes ? left : p->qp.chunk_bytes;
				n++;
			} while (left);
		}
	return n;
}

RULE(repeats_and_packets_overtaken_by_less_than_the_pause_make_nothing_go_again, 40)
{
	start(p, false);
	run(p);
	rel_expect(p, repeat_chunks(t.repeat[0]) + repeat_chunks(t.repeat[1]) == chunks(p),
		   "%llu chunks were sent, of %llu", U(repeat_chunks(t.repeat[0]) + repeat_chunks(t.repeat[1])),
		   U(chunks(p)));
	finish(p);
}

RULE(operations_to_a_silent_peer_fail_in_time_and_everything_is_usable_again, 40)
{
	t.timeout = 300 * SP_MS;
	start(p, true);
	rel_pass(p, rel_below(p, 3) ? rel_below(p, 20 * p->link[0].delay) : 0);
	p->dead[1] = true;
	sp_time died = sp_world_now(p->world);
	run(p);
	/* Each took its time, one after the other as they got room; the packets' life is over before room is used
	 * again. */
	rel_expect(p, sp_world_now(p->world) - died <= (MESSAGES / p->qp.max_messages + 1) * (t.timeout + 20 * SP_MS),
		   "over after %.6f s", (double)(sp_world_now(p->world) - died) / 1e12);
	rel_expect(p, repeat_deadline(t.repeat[0]) == SP_NEVER, "something is still to be done");
	rel_expect(p, sdr_mr_dereg(p->source[0]) == 0, "send buffers are not free after the timeout");
	rel_expect(p, sdr_mr_reg(p->context[0], rel_source, REL_SOURCE, &p->source[0]) == 0, "sdr_mr_reg");

	/* It has only been away: what is open there ends too, and everything works again. */
	p->dead[1] = false;
	step(p, sp_world_now(p->world));
	run(p);
	t.timeout = 0;
	for (unsigned e = 0; e < 2; e++)
		more(p, e, 8);
	step(p, sp_world_now(p->world));
	run(p);
	for (unsigned e = 0; e < 2; e++)
		for (uint64_t k = 0; k < t.way[e].messages; k++)
			rel_expect(p, t.way[e].word[k].sent || !t.way[e].word[k].received,
				   "message %llu is said to have come", U(k));
	finish(p);
}

/* Everything but what only a peer that lies about this very message and round could say. */
RULE(datagrams_that_are_forged_late_or_short_change_nothing, 40)
{
	start(p, true);
	for (unsigned turn = 0; turn < 60; turn++) {
		const unsigned e = (unsigned)rel_below(p, 2);
		const struct way *w = &t.way[!e];
		uint32_t head[32];
		uint8_t *bytes = (uint8_t *)head;
		uint32_t len = (uint32_t)rel_below(p, sizeof(head) - 3);

		for (unsigned i = 0; i < 32; i++)
			head[i] = (uint32_t)sp_random_next(&p->random);
		if (rel_below(p, 4)) { /* big-endian: magic, word, message, round, chunks */
			const uint64_t k = rel_below(p, 2) ? rel_below(p, w->messages + 1) : sp_random_next(&p->random);
			const uint64_t round = rel_below(p, 2) ? 0 : 1000 + rel_below(p, 9); /* over, or not yet */
			const uint64_t value[] = {0x52505431,	  rel_below(p, 6), k >> 32,
						  k & 0xFFFFFFFF, round,	   rel_below(p, 2000)};

			for (unsigned i = 0; i < 24; i++)
				bytes[i] = (uint8_t)(value[i / 4] >> (24 - i % 4 * 8));
			len = rel_below(p, 2) ? 24 : len;
		}
		sdr_control_send(t.qp[e], bytes, len);
		rel_pass(p, rel_below(p, 4 * p->link[0].delay));
	}
	run(p);
	finish(p);
}

RULE(each_operation_ends_as_the_header_says, 10)
{
	struct repeat_op *op, *other;
	struct repeat *r;
	struct sdr_qp *qp;
	struct sp_error error;

	start(p, true);
	struct sdr_qp_attr attr = p->qp;
	run(p);
	rel_expect(p, repeat_open(t.qp[0], 11 * SP_SEC, &r) == -EINVAL, "a pause of 11 s");
	attr.implicit_credit = true;
	rel_expect(p, sdr_qp_create(p->context[0], &attr, &qp, &error) == 0, "sdr_qp_create: %s", error.text);
	rel_expect(p, repeat_open(qp, 0, &r) == -EOPNOTSUPP, "no datagrams");
	sdr_qp_destroy(qp);
	attr = (struct sdr_qp_attr){
		.mtu = 2048, .chunk_bytes = 2048, .max_message_bytes = 8001 * 2048, .max_messages = 1};
	rel_expect(p, sdr_qp_create(p->context[0], &attr, &qp, &error) == 0, "sdr_qp_create: %s", error.text);
	rel_expect(p, repeat_open(qp, 0, &r) == -EOPNOTSUPP, "a bit more than fits");
	sdr_qp_destroy(qp);
	attr.max_message_bytes = 8000 * 2048;
	rel_expect(p, sdr_qp_create(p->context[0], &attr, &qp, &error) == 0, "sdr_qp_create: %s", error.text);
	rel_expect(p, repeat_open(qp, 0, &r) == 0, "as many as fit");
	if (!p->text[0])
		repeat_close(r);
	sdr_qp_destroy(qp);

	rel_expect(p, repeat_send(t.repeat[0], NULL, 0, 1, 0, SP_NEVER, &op) == -EFAULT, "no memory");
	rel_expect(p, repeat_send(t.repeat[0], p->source[0], REL_SOURCE, 1, 0, SP_NEVER, &op) == -EFAULT, "beyond");
	rel_expect(p, repeat_send(t.repeat[0], p->source[0], 0, p->qp.max_message_bytes + 1, 0, SP_NEVER, &op) < 0,
		   "too long");
	/* Longer than its receive: both ends are told, and the next message is as good as ever. */
	rel_expect(p, repeat_send(t.repeat[0], p->source[0], 0, 2 * p->qp.mtu, 0, SP_NEVER, &op) == 0, "repeat_send");
	rel_expect(p, repeat_recv(t.repeat[1], t.way[0].mr, 0, p->qp.mtu, SP_NEVER, &other) == 0, "repeat_recv");
	rel_pass(p, 20 * SP_SEC);
	rel_expect(p, repeat_poll(other, NULL) == -EAGAIN, "the NIC has let go without being asked");
	rel_pass(p, SP_SEC);
	rel_expect(p, repeat_poll(other, NULL) == -EMSGSIZE, "the receive");
	rel_expect(p, repeat_poll(op, NULL) == -ECANCELED, "the message");
	t.way[0].next_send = t.way[0].next_recv = t.way[0].messages = 0;
	more(p, 0, 5);
	step(p, sp_world_now(p->world));
	run(p);
	finish(p);
}
