/* SPDX-License-Identifier: BSD-3-Clause */
/* Reliable messages with erasure coding: whole and right whatever is lost, and nothing goes again that parity makes. */
#include "../lib/reliable_pair.h"

static struct {
	uint64_t runs, sent, units, again, needless, parity, repaired, fallbacks;
} sum;

static void counters(struct rel *p, struct sdr_reliable_status *all)
{
	rel_counters(p, all);
	sum.runs++;
	sum.sent += all->sent;
	sum.units += all->units;
	sum.again += all->retransmitted;
	sum.needless += all->spurious;
	sum.parity += all->parity;
	sum.repaired += all->repaired;
	sum.fallbacks += all->fallbacks;
}

static void over(const char *rule, unsigned count, void (*one)(struct rel *p))
{
	memset(&sum, 0, sizeof(sum));
	rel_over_seeds(rule, count, one);
	printf("# %s: %llu runs, %llu messages, %llu units and %llu of parity, %llu repaired, %llu sent again (%llu "
	       "needlessly) of %llu messages\n",
	       rule, U(sum.runs), U(sum.sent), U(sum.units), U(sum.parity), U(sum.repaired), U(sum.again),
	       U(sum.needless), U(sum.fallbacks));
}

/* Small codes mostly, for messages have few chunks here. */
static void codes(struct rel *p)
{
	const uint32_t k = rel_below(p, 8) ? 1 + (uint32_t)rel_below(p, 12) : 1 + (uint32_t)rel_below(p, 127);

	p->qp.ec = (struct sdr_ec){.code = rel_below(p, 3) ? SDR_CODE_MDS : SDR_CODE_XOR, .k = k};
	p->qp.ec.m = p->qp.ec.code == SDR_CODE_MDS && !rel_below(p, 8) ? 1 + (uint32_t)rel_below(p, 127)
								       : 1 + (uint32_t)rel_below(p, k);
	p->qp.max_messages += p->qp.max_messages % 2;
	p->attr.scheme = p->qp.ec.code == SDR_CODE_MDS ? SDR_EC_MDS : SDR_EC_XOR;
}

static void bad_planet(struct rel *p)
{
	struct sdr_reliable_status s;

	codes(p);
	if (!rel_below(p, 4))
		p->attr.scheme = rel_below(p, 2) ? SDR_AUTO : SDR_SR_NACK;
	rel_bad_link(p);
	rel_open(p);
	rel_run(p);
	counters(p, &s);
	rel_expect(p, !s.refused && !s.sending && !s.receiving && s.sent == s.received,
		   "%llu datagrams refused, %u sends and %u receives not over, %llu sent and %llu received",
		   U(s.refused), s.sending, s.receiving, U(s.sent), U(s.received));
	rel_close(p);
}

TEST(every_message_arrives_whole_and_right)
{
	over(__func__, 60, bad_planet);
	CU_ASSERT(getenv("SPINDLE_SEED") || (sum.repaired && sum.fallbacks));
}

/* ---- losses on purpose ---- */
/* One flow, each of whose messages has a slot and generation of its own: packets tell which one they are of. */
#define PLAN_CHUNKS 256 /* of data or parity */
static struct {
	uint8_t lost[2 * REL_MESSAGES][PLAN_CHUNKS]; /* how many packets of the chunk are yet to be lost */
	uint64_t lose;				     /* chunks */
	uint64_t units, messages;		     /* that parity does not make up for */
} plan;

static uint64_t field(const uint8_t *frame, uint32_t at, unsigned bytes)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < bytes; i++)
		v = v << 8 | frame[at + i];
	return v;
}

static bool lose_planned(void *arg, const uint8_t *frame, uint32_t len)
{
	const struct rel *p = arg;
	const uint32_t bth = 14 + (field(frame, 12, 2) == 0x0800 ? 20 : 40) + 8;

	if (len < bth + 32 || frame[bth] != 0x2B || p->dead[0])
		return false;
	uint64_t immediate = field(frame, bth + 28, 4);
	uint64_t message =
		(field(frame, bth + 5, 3) - p->conn[0].info[1].qpn) / p->context_attr.channels * p->qp.max_messages +
		(immediate >> 22);
	uint64_t chunk = (immediate >> 4 & 0x3FFFF) * p->qp.mtu / p->qp.chunk_bytes;
	if (message >= 2 * REL_MESSAGES || chunk >= PLAN_CHUNKS || !plan.lost[message][chunk])
		return false;
	plan.lost[message][chunk]--;
	return true;
}

static uint64_t units(uint64_t n, uint64_t of)
{
	return (n + of - 1) / of;
}

static void lose_chunk(struct rel *p, uint64_t message, uint64_t chunk)
{
	const uint64_t packets = p->qp.chunk_bytes / p->qp.mtu;

	plan.lost[message][chunk] = (uint8_t)(rel_below(p, 2) ? 1 : 1 + rel_below(p, packets));
	plan.lose++;
}

/* Of n + m chunks, or of one group of them, so many, or fewer. */
static void lose_some(struct rel *p, uint64_t j, uint64_t at, uint64_t n, uint64_t row, uint64_t rows, uint64_t most)
{
	for (uint64_t left = rel_below(p, most + 1); left; left--) {
		const uint64_t i = rel_below(p, n + rows), message = 2 * j + (i >= n);
		const uint64_t chunk = i < n ? at + i : row + i - n;

		if (!plan.lost[message][chunk])
			lose_chunk(p, message, chunk);
	}
}

static void lose_repairable(struct rel *p, uint64_t j, uint64_t chunks)
{
	const uint32_t k = p->qp.ec.k, m = p->qp.ec.m;

	for (uint64_t at = 0, row = 0; at < chunks; at += k, row += m) {
		const uint64_t n = chunks - at < k ? chunks - at : k, rows = units(n * m, k);

		if (p->qp.ec.code == SDR_CODE_MDS) {
			lose_some(p, j, at, n, row, rows, rows);
			continue;
		}
		for (uint64_t g = 0; g < rows && g < n; g++) {
			const uint64_t i = rel_below(p, units(n - g, rows) + 1);

			if (rel_below(p, 2))
				lose_chunk(p, 2 * j + !i, i ? at + g + (i - 1) * rows : row + g);
		}
	}
}

/* The link keeps the order, and loses what is planned only. */
static void one_flow(struct rel *p)
{
	struct flow *f = &p->conn[0].flow[0];

	codes(p);
	memset(&plan, 0, sizeof(plan));
	p->conns = 1;
	p->conn[0].flow[1].messages = 0;
	p->qp.max_messages = 16;
	p->qp.generations = 4;
	p->qp.chunk_bytes = p->qp.mtu * 8; /* as many packets as it takes to vouch for the length */
	p->qp.max_message_bytes = p->qp.chunk_bytes * (1 + rel_below(p, 40));
	p->qp.max_message_bytes =
		p->qp.max_message_bytes < REL_SOURCE / 2 ? p->qp.max_message_bytes : p->qp.chunk_bytes;
	p->qp.rate_bps = 0;
	p->attr.in_flight = 0;
	p->attr.rate_bps = 0;
	p->lose = lose_planned;
	if (f->messages > 32)
		f->messages = 32;
	for (uint64_t j = 0; j < f->messages; j++) {
		f->message[j].length = f->message[j].posted = 1 + rel_below(p, p->qp.max_message_bytes);
		f->message[j].source = rel_below(p, REL_SOURCE - f->message[j].length);
	}
}

/* Is there room for all of the parity, so that the message goes with it? */
static bool has_parity(struct rel *p, uint64_t length)
{
	const uint64_t chunks = units(length, p->qp.chunk_bytes);

	return (chunks / p->qp.ec.k * p->qp.ec.m + units(chunks % p->qp.ec.k * p->qp.ec.m, p->qp.ec.k)) *
		       p->qp.chunk_bytes <=
	       p->qp.max_message_bytes;
}

static void enough(struct rel *p)
{
	struct flow *f = &p->conn[0].flow[0];
	struct sdr_reliable_status s;

	one_flow(p);
	for (uint64_t j = 0; j < f->messages; j++)
		if (has_parity(p, f->message[j].length))
			lose_repairable(p, j, units(f->message[j].length, p->qp.chunk_bytes));
	rel_open(p);
	rel_run(p);
	counters(p, &s);
	rel_expect(p, !s.retransmitted && !s.fallbacks, "%llu units of %llu messages were sent again, of %llu lost",
		   U(s.retransmitted), U(s.fallbacks), U(plan.lose));
	rel_close(p);
}

TEST(nothing_goes_again_where_parity_suffices)
{
	over(__func__, 60, enough);
	CU_ASSERT(getenv("SPINDLE_SEED") || sum.repaired > 100);
}

/* All parity of a submessage, and some of its data. */
static void lose_too_much(struct rel *p, uint64_t j, uint64_t chunks)
{
	const uint32_t k = p->qp.ec.k, m = p->qp.ec.m;
	const uint64_t sub = rel_below(p, units(chunks, k)), at = sub * k, row = sub * m;
	const uint64_t n = chunks - at < k ? chunks - at : k, first = rel_below(p, n),
		       data = 1 + rel_below(p, n - first);

	for (uint64_t i = 0; i < units(n * m, k); i++)
		plan.lost[2 * j + 1][row + i] = 1;
	for (uint64_t i = 0; i < n; i++)
		plan.lost[2 * j][at + i] = i >= first && i < first + data;
	plan.units += data;
	plan.messages++;
}

static void too_much(struct rel *p)
{
	struct flow *f = &p->conn[0].flow[0];
	struct sdr_reliable_status s;

	one_flow(p);
	p->attr.rtt = 2 * p->link[0].delay;
	for (uint64_t j = 0; j < f->messages; j++)
		if (has_parity(p, f->message[j].length)) {
			lose_repairable(p, j, units(f->message[j].length, p->qp.chunk_bytes));
			if (rel_below(p, 2))
				lose_too_much(p, j, units(f->message[j].length, p->qp.chunk_bytes));
		}
	rel_open(p);
	rel_run(p);
	counters(p, &s);
	rel_expect(p, s.retransmitted == plan.units && s.fallbacks == plan.messages && !s.spurious,
		   "%llu units of %llu messages were sent again, should be %llu of %llu", U(s.retransmitted),
		   U(s.fallbacks), U(plan.units), U(plan.messages));
	rel_close(p);
}

TEST(exactly_what_parity_does_not_make_up_for_goes_again)
{
	over(__func__, 60, too_much);
	CU_ASSERT(getenv("SPINDLE_SEED") || (sum.fallbacks > sum.runs && sum.repaired > sum.runs));
}

static void more_messages(struct rel *p)
{
	for (unsigned i = 0; i < p->conns; i++)
		for (unsigned e = 0; e < 2; e++) {
			struct flow *f = &p->conn[i].flow[e];

#define RULE(rule, count) TEST_SEEDS(rule, over, count, struct rel *p)

			for (unsigned n = 0; n < 4; n++, f->messages++) {
				f->message[f->messages] = f->message[0];
				f->message[f->messages].length = f->message[f->messages].posted = 1 + n;
				f->message[f->messages].sent = f->message[f->messages].received = -EAGAIN;
			}
		}
}

RULE(messages_to_an_end_that_vanishes_fail_in_time_and_all_is_usable_again, 40)
{
	struct sdr_reliable_status s;

	codes(p);
	p->fails = true;
	p->attr.timeout = p->link[0].delay * 1000 + 500 * SP_MS;
	p->attr.recv_timeout = p->attr.timeout * 2;
	for (unsigned e = 0; e < 2; e++)
		p->link[e].loss = (double)rel_below(p, 10) / 100;
	p->alone[1] = p->dead[1] = !rel_below(p, 4); /* nothing is cleared to be sent, ever */
	rel_open(p);
	rel_pass(p, rel_below(p, 3) ? rel_below(p, p->attr.timeout) : 0);
	p->dead[1] = true;
	p->quiet = true;
	rel_run(p);
	for (unsigned i = 0; i < p->conns; i++) {
		sdr_reliable_status(p->conn[i].reliable[0], &s);
		rel_expect(p,
			   !s.sending && !s.receiving &&
				   (p->alone[1] || sdr_reliable_deadline(p->conn[i].reliable[0]) == SP_NEVER),
			   "%u sends and %u receives not over", s.sending, s.receiving);
	}
	rel_memory_is_released(p, 0);
	if (!p->alone[1]) { /* it has only been away */
		p->dead[1] = p->quiet = false;
		rel_run(p);
		rel_memory_is_released(p, 0);
		rel_memory_is_released(p, 1);
		more_messages(p);
		rel_step(p, sp_world_now(p->world));
		rel_run(p);
	}
	counters(p, &s);
	rel_close(p);
}

RULE(operations_that_either_end_gives_up_end_and_others_go_on, 40)
{
	struct sdr_reliable_status s;

	codes(p);
	rel_bad_link(p);
	p->fails = true;
	p->cancel = 1 + (unsigned)rel_below(p, 200);
	p->attr.recv_timeout = 400 * SP_SEC; /* who hears of nothing that was given up knows it then */
	rel_open(p);
	rel_run(p);
	rel_memory_is_released(p, 0);
	rel_memory_is_released(p, 1);
	p->cancel = 0;
	p->fails = false;
	more_messages(p);
	rel_step(p, sp_world_now(p->world));
	rel_run(p);
	for (unsigned i = 0; i < p->conns; i++)
		for (unsigned e = 0; e < 2; e++)
			for (uint64_t k = 0; k < p->conn[i].flow[e].messages; k++)
				rel_expect(p,
					   p->conn[i].flow[e].message[k].sent ||
						   !p->conn[i].flow[e].message[k].received,
					   "message %llu is said to have come: %d", U(k),
					   p->conn[i].flow[e].message[k].received);
	counters(p, &s);
	rel_expect(p, !s.sending && !s.receiving, "%u sends and %u receives not over", s.sending, s.receiving);
	rel_close(p);
}

/* ---- what a connection takes ---- */
static void odd(struct rel *p)
{
	static const struct {
		struct sdr_qp_attr qp;
		const char *key;
	} wrong[] = {
		{{.max_messages = 3, .ec.code = SDR_CODE_MDS}, "max-messages"},
		{{.ec = {.code = SDR_CODE_MDS, .k = 200, .m = 56}}, "m"},
		{{.ec = {.code = SDR_CODE_MDS, .k = UINT32_MAX, .m = 2}}, "m"},
		{{.ec = {.code = SDR_CODE_XOR, .k = 4, .m = 5}}, "m"},
		{{.ec = {.code = (enum sdr_code)3}}, "code"},
	};
	static const enum sdr_reliable_scheme schemes[] = {SDR_EC_MDS, SDR_EC_XOR, SDR_AUTO, SDR_SR_NACK};
	struct sdr_reliable *r;
	struct sp_error error;

	p->conns = 1;
	p->conn[0].flow[0].messages = p->conn[0].flow[1].messages = 0;
	rel_open(p);
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct sdr_qp *qp;
		const int rc = sdr_qp_create(p->context[0], &wrong[i].qp, &qp, &error);

		rel_expect(p, rc == -EINVAL && !strcmp(error.key, wrong[i].key), "%u: %d, %s: %s", i, rc, error.key,
			   error.text);
	}
	for (enum sdr_code code = SDR_CODE_NONE; code <= SDR_CODE_XOR; code++)
		for (unsigned i = 0; i < 4; i++) {
			const struct sdr_qp_attr attr = {.max_message_bytes = 1000, .max_messages = 2, .ec.code = code};
			const bool fits = schemes[i] == SDR_SR_NACK || (code && schemes[i] == SDR_AUTO) ||
					  (code == SDR_CODE_MDS && schemes[i] == SDR_EC_MDS) ||
					  (code == SDR_CODE_XOR && schemes[i] == SDR_EC_XOR);
			struct sdr_qp *qp;
			int rc = sdr_qp_create(p->context[0], &attr, &qp, &error);

			rel_expect(p, rc == 0, "sdr_qp_create: %d, %s", rc, error.text);
			rc = sdr_reliable_open(qp, &(const struct sdr_reliable_attr){.scheme = schemes[i]}, &r);
			rel_expect(p, rc == (fits ? 0 : -EINVAL), "code %d, scheme %d: %d", code, schemes[i], rc);
			if (!rc)
				sdr_reliable_close(r, 0);
			rel_expect(p, sdr_qp_destroy(qp) == 0, "sdr_qp_destroy");
		}
	rel_expect(p,
		   sdr_reliable_scheme("ec-mds") == SDR_EC_MDS && sdr_reliable_scheme("ec-xor") == SDR_EC_XOR &&
			   sdr_reliable_scheme("auto") == SDR_AUTO && sdr_reliable_scheme("ec") == -EINVAL,
		   "names");
	rel_close(p);
}

TEST_CALL(a_scheme_needs_the_code_that_the_connection_has, rel_over_seeds(__func__, 2, odd))

/* ---- auto ---- */
/* A long way, and messages that take as long as it: parity is worth much, or a part of the time for nothing. */
static void long_way(struct rel *p)
{
	struct flow *f = &p->conn[0].flow[0];

	codes(p);
	p->conns = 1;
	p->conn[0].flow[1].messages = 0;
	p->qp.ec = (struct sdr_ec){.code = SDR_CODE_MDS, .k = 8, .m = 4};
	p->qp.mtu = 1024;
	p->qp.chunk_bytes = 4096;
	p->qp.max_message_bytes = 512 * 1024;
	p->qp.max_messages = 2 + 2 * (uint32_t)rel_below(p, 2);
	p->qp.generations = 4;
	p->qp.segments = 256;
	p->qp.rate_bps = 0;
	p->attr = (struct sdr_reliable_attr){.scheme = SDR_AUTO, .rtt = 4 * SP_MS, .timeout = 300 * SP_SEC};
	p->qp.cts_interval = 5 * SP_MS;
	for (unsigned e = 0; e < 2; e++)
		p->link[e] = (struct sp_link_direction){.bandwidth = 1000000000, .delay = 2 * SP_MS, .queue = 16};
	f->messages = 150;
	for (uint64_t k = 0; k < f->messages; k++) {
		f->message[k].length = f->message[k].posted = p->qp.max_message_bytes;
		f->message[k].source = rel_below(p, REL_SOURCE - f->message[k].length);
		f->message[k].sent = f->message[k].received = -EAGAIN;
	}
}

RULE(auto_finds_out_whether_parity_is_worth_it, 4)
{
	const bool lossy = p->seed % 2;
	struct sdr_reliable_status s;

	long_way(p);
	p->link[0].loss = lossy ? 0.01 : 0;
	rel_open(p);
	rel_run(p);
	counters(p, &s);
	if (lossy)
		rel_expect(p, s.coded > 140 && s.repaired > 300, "%llu of 150 messages with parity, at 1 %% of losses",
			   U(s.coded));
	else
		rel_expect(p, s.coded < 15, "%llu of 150 messages with parity, without losses", U(s.coded));
	rel_close(p);
}
