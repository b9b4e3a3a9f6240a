/* SPDX-License-Identifier: BSD-3-Clause */
/* Comparison of captures: finds for each packet of one capture the matching packet of the other. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../handlers/wire/roce.h"
#include "expect_private.h"
#include "fields.h"
#include "records.h"

#define WINDOW 64 /* packets of each capture that are looked at to align them again */
#define STEADY 3  /* this many equal packets in a row: the captures are aligned */

/* Cost of each step that is not a pair of equal packets. To skip one packet on both sides costs more than to pair two
 * similar ones. */
enum { COST_SKIP = 2, COST_SIMILAR = 2, COST_FLOW = 3, COST_HALF = 4, COST_OTHER = 5, COST_LEFT = 1 };

/* The first PSN of each QP. Open addressing; key 0 is none. */
struct qps {
	struct qp {
		uint64_t key;
		uint32_t first;
	} * at;
	size_t used, room; /* a power of two */
};

struct side {
	struct sp_records *records;
	struct sp_expect_packet ring[WINDOW];
	unsigned first, count;
	bool ended;
	struct qps qps;
};

struct comparison {
	struct side expected, found;
	struct sp_expect_rules rules;
	struct sp_differences differences;
	struct sp_error *error;
	uint16_t cost[WINDOW + 1][WINDOW + 1]; /* of the best path from there to the end of the windows */
	uint8_t pair[WINDOW][WINDOW];
};

/* ---- reading ---- */
static struct qp *qp_slot(const struct qps *q, uint64_t key)
{
	size_t i = (key ^ key >> 32) & (q->room - 1);

	while (q->at[i].key && q->at[i].key != key)
		i = (i + 1) & (q->room - 1);
	return &q->at[i];
}

static int qps_grow(struct qps *q)
{
	struct qps bigger = {.used = q->used, .room = q->room ? 2 * q->room : 64};

	bigger.at = calloc(bigger.room, sizeof(*bigger.at));
	if (!bigger.at)
		return -ENOMEM;
	for (size_t i = 0; i < q->room; i++)
		if (q->at[i].key)
			*qp_slot(&bigger, q->at[i].key) = q->at[i];
	free(q->at);
	*q = bigger;
	return 0;
}

/* Sets p->psn: counted from the first packet to the same QP at the same address. */
static int psn_count(struct qps *q, struct sp_expect_packet *p)
{
	struct sp_field field[SP_FIELDS];
	const unsigned n = sp_fields(p->bytes, p->len, field);
	uint64_t key = 0xCBF29CE484222325u;
	const struct sp_field *psn = NULL;
	struct qp *qp;

	for (unsigned i = 0; i < n; i++) {
		if (field[i].id == F_BTH_PSN)
			psn = &field[i];
		if (field[i].id == F_IP_DST || field[i].id == F_IP6_DST || field[i].id == F_BTH_DESTQP)
			for (uint32_t k = 0; k < field[i].len; k++)
				key = (key ^ p->bytes[field[i].at + k]) * 0x100000001B3u;
	}
	if (!psn)
		return 0;
	if (2 * q->used >= q->room && qps_grow(q))
		return -ENOMEM;
	key |= 1;
	qp = qp_slot(q, key);
	if (!qp->key) {
		*qp = (struct qp){.key = key, .first = (uint32_t)sp_field_value(psn, p->bytes)};
		q->used++;
	}
	p->psn = (int64_t)((sp_field_value(psn, p->bytes) - qp->first) & SP_ROCE_PSN_MASK);
	return 0;
}

/* Reads one more packet into the window: 1; 0: none left. */
static int side_read(struct comparison *c, struct side *s)
{
	struct sp_expect_packet *p = &s->ring[(s->first + s->count) % WINDOW];
	struct sp_record record;
	char text[128];
	int result = sp_records_next(s->records, &record, c->error);

	if (result != 1) {
		s->ended = true;
		return result;
	}
	if (record.len != record.wire) {
		snprintf(text, sizeof(text), "of packet %llu it holds %u of %u bytes: only whole ones can be compared",
			 (unsigned long long)sp_records_count(s->records), record.len, record.wire);
		return sp_expect_fail(c->error, -EINVAL, sp_records_file(s->records), text);
	}
	if (record.len > p->room || !p->bytes) {
		uint8_t *bytes = realloc(p->bytes, record.len ? record.len : 1);

		if (!bytes)
			return sp_expect_fail(c->error, -ENOMEM, sp_records_file(s->records), strerror(ENOMEM));
		p->bytes = bytes;
		p->room = record.len;
	}
	memcpy(p->bytes, record.bytes, record.len);
	p->len = record.len;
	p->number = sp_records_count(s->records);
	p->ns = record.ns;
	p->psn = -1;
	p->has_flow = false;
	if (c->rules.tolerance->psn_start && psn_count(&s->qps, p))
		return sp_expect_fail(c->error, -ENOMEM, sp_records_file(s->records), strerror(ENOMEM));
	p->same = sp_expect_same(&c->rules, p);
	s->count++;
	return 1;
}

static int side_fill(struct comparison *c, struct side *s)
{
	int result = 0;

	while (!s->ended && s->count < WINDOW && (result = side_read(c, s)) == 1)
		;
	return result < 0 ? result : 0;
}

static struct sp_expect_packet *side_at(struct side *s, unsigned i)
{
	return &s->ring[(s->first + i) % WINDOW];
}

static void side_next(struct side *s)
{
	s->first = (s->first + 1) % WINDOW;
	s->count--;
}

static void side_close(struct side *s)
{
	for (unsigned i = 0; i < WINDOW; i++)
		free(s->ring[i].bytes);
	free(s->qps.at);
	sp_records_close(s->records);
}

/* ---- comparing ---- */
static void describe(const struct comparison *c, const struct sp_expect_packet *p, char *text, size_t room)
{
	char frame[256];

	sp_frame_text(p->bytes, p->len, frame, sizeof(frame));
	snprintf(text, room, "%s at %.9f s", frame, (double)(p->ns - c->rules.start) / 1e9);
}

static void missing(struct comparison *c)
{
	const struct sp_expect_packet *p = side_at(&c->expected, 0);
	char text[320];

	if (c->differences.count < SP_EXPECT_SAID)
		describe(c, p, text, sizeof(text));
	sp_differ(&c->differences, "packet %llu of %s (%s) was not sent", (unsigned long long)p->number,
		  sp_records_file(c->expected.records), text);
	side_next(&c->expected);
}

static void unexpected(struct comparison *c)
{
	const struct sp_expect_packet *p = side_at(&c->found, 0);
	char text[320];

	if (c->differences.count < SP_EXPECT_SAID)
		describe(c, p, text, sizeof(text));
	sp_differ(&c->differences, "the NIC sent one more: %s, packet %llu of what it sent", text,
		  (unsigned long long)p->number);
	side_next(&c->found);
}

static void paired(struct comparison *c)
{
	sp_expect_pair(&c->rules, side_at(&c->expected, 0), side_at(&c->found, 0), &c->differences);
	side_next(&c->expected);
	side_next(&c->found);
}

static bool is_same(const struct sp_expect_packet *a, const struct sp_expect_packet *b)
{
	return a->same == b->same;
}

static unsigned pair_cost(struct sp_expect_packet *a, struct sp_expect_packet *b)
{
	uint32_t differ = UINT32_MAX;

	if (is_same(a, b))
		return 0;
	if (a->len == b->len) {
		differ = 0;
		for (uint32_t i = 0; i < a->len; i++)
			differ += a->bytes[i] != b->bytes[i];
		if (differ <= 4 + a->len / 16)
			return COST_SIMILAR;
	}
	if (sp_expect_flow(a) == sp_expect_flow(b))
		return COST_FLOW;
	return differ <= 20 ? COST_HALF : COST_OTHER; /* differs in an IPv6 address and a checksum that covers it */
}

/* Dynamic programming from the end of both windows: the cheapest path from each pair of packets. Where a file goes on
 * beyond its window, the rest of the other window is not lost yet, and costs little. */
static void find_way(struct comparison *c)
{
	const unsigned n = c->expected.count, m = c->found.count;
	const unsigned rest = c->expected.ended && c->found.ended ? COST_SKIP : COST_LEFT;

	for (unsigned i = n + 1; i-- > 0;)
		for (unsigned k = m + 1; k-- > 0;) {
			unsigned best, other;

			if (i == n || k == m) {
				c->cost[i][k] = (uint16_t)(rest * (n - i + m - k));
				continue;
			}
			c->pair[i][k] = (uint8_t)pair_cost(side_at(&c->expected, i), side_at(&c->found, k));
			best = c->cost[i + 1][k + 1] + c->pair[i][k];
			other = (c->cost[i + 1][k] < c->cost[i][k + 1] ? c->cost[i + 1][k] : c->cost[i][k + 1]) +
				COST_SKIP;
			c->cost[i][k] = (uint16_t)(best < other ? best : other);
		}
}

/* The first packets differ: goes on to where they are equal again. If the path ends with a window and not with the
 * file, only its first half is taken: later packets may give a better one. */
static void realign(struct comparison *c)
{
	const unsigned n = c->expected.count, m = c->found.count;
	const unsigned limit = c->expected.ended && c->found.ended ? 2 * WINDOW : WINDOW / 2;
	unsigned i = 0, k = 0, steady = 0;

	find_way(c);
	for (unsigned steps = 0; steps < limit && steady < STEADY && i < n && k < m; steps++) {
		const unsigned here = c->cost[i][k];

		if (here == c->cost[i + 1][k + 1] + c->pair[i][k]) {
			steady = c->pair[i][k] ? 0 : steady + 1;
			i++;
			k++;
			paired(c);
		} else if (here == c->cost[i + 1][k] + (unsigned)COST_SKIP) {
			steady = 0;
			i++;
			missing(c);
		} else {
			steady = 0;
			k++;
			unexpected(c);
		}
	}
}

static int compare(struct comparison *c)
{
	struct side *e = &c->expected, *f = &c->found;
	int err;

	for (;;) {
		err = side_fill(c, e);
		if (!err)
			err = side_fill(c, f);
		if (err)
			return err;
		if (!c->rules.started && (e->count || f->count)) {
			c->rules.started = true;
			c->rules.start = side_at(e->count ? e : f, 0)->ns;
		}
		if (!e->count && !f->count)
			return 0;
		if (!f->count)
			missing(c);
		else if (!e->count)
			unexpected(c);
		else if (is_same(side_at(e, 0), side_at(f, 0)))
			paired(c);
		else
			realign(c);
	}
}

int64_t sp_expect_capture(const char *expected, const char *found, const struct sp_tolerance *t,
			  const struct sp_expect_say *say, struct sp_error *error)
{
	return sp_expect_interface(expected, SP_RECORDS_ALL, found, SP_RECORDS_ALL, t, say, error);
}

int64_t sp_expect_interface(const char *expected, int of_expected, const char *found, int of_found,
			    const struct sp_tolerance *t, const struct sp_expect_say *say, struct sp_error *error)
{
	static const struct sp_tolerance nothing;
	struct comparison *c = calloc(1, sizeof(*c));
	int err;

	if (!c)
		return sp_expect_fail(error, -ENOMEM, expected, strerror(ENOMEM));
	c->error = error;
	c->differences.say = say;
	err = sp_expect_rules(&c->rules, t ? t : &nothing, error);
	if (!err)
		err = sp_records_open_interface(expected, of_expected, &c->expected.records, error);
	if (!err)
		err = sp_records_open_interface(found, of_found, &c->found.records, error);
	if (!err) {
		if (sp_records_coarse(c->expected.records) || sp_records_coarse(c->found.records))
			c->rules.coarse = SP_US - SP_NS;
		err = compare(c);
	}
	const int64_t count = c->differences.count;
	side_close(&c->expected);
	side_close(&c->found);
	free(c);
	return err ? err : count;
}
