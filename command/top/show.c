/* SPDX-License-Identifier: BSD-3-Clause */
#include "show.h"

#include <inttypes.h>
#include <string.h>

#include "../stat/since.h"
#include "../stat/table.h"

/* What all tables need. */
struct shown {
	const struct stat_view *view;
	const struct top_nic *nic;
	unsigned nics;
	FILE *to;
};

static struct table begin(const struct column *column, unsigned columns)
{
	return (struct table){.column = column, .columns = columns, .seconds = 1};
}

static double seconds(const struct top_nic *n)
{
	const double s = (double)(n->now.at - n->before.at) / (double)SP_SEC;

	return s > 0 ? s : 1;
}

/* Fills a cell with a rate, and returns it. */
static double rate_of(const struct top_nic *n, char cell[CELL], uint64_t count)
{
	const double r = (double)count / seconds(n);

	stat_scaled(cell, r);
	return r;
}

static double rate(const struct top_nic *n, char cell[CELL], const json_t *now, const json_t *before, const char *key)
{
	return rate_of(n, cell, stat_since(now, before, key));
}

static void name_nic(char cell[CELL], const struct top_nic *n)
{
	const char *name = json_string_value(json_object_get(n->now.report, "name"));

	stat_name(cell, name ? name : n->name);
}

static void percent(char cell[CELL], double share)
{
	snprintf(cell, CELL, "%.1f%%", share * 100);
}

static void show_nics(const struct shown *s)
{
	static const struct column columns[] = {{"NIC", 0, 0},	  {"PKT/S", 1, 1},	{"BYTE/S", 2, 1},
						{"DROP/S", 3, 1}, {"SENT PKT/S", 4, 1}, {"SENT BYTE/S", 5, 1}};
	struct table t = begin(columns, 6);

	for (const struct top_nic *n = s->nic; n < s->nic + s->nics; n++) {
		const json_t *now = n->now.report, *before = n->before.report;
		struct row *r = stat_row(&t);

		if (!r)
			break;
		name_nic(r->cell[0], n);
		rate(n, r->cell[1], now, before, "packets");
		rate(n, r->cell[2], now, before, "bytes");
		rate(n, r->cell[3], now, before, "dropped");
		rate(n, r->cell[4], now, before, "sent");
		rate(n, r->cell[5], now, before, "sent_bytes");
	}
	stat_print(&t, s->to, s->view->width);
}

static void show_workers(const struct shown *s)
{
	static const struct column columns[] = {
		{"WORKER", 0, 0}, {"NIC", 4, 0, 1}, {"BUSY", 1, 1}, {"PKT/S", 2, 1}, {"DROP/S", 3, 1}};
	struct table t = begin(columns, 5);

	for (const struct top_nic *n = s->nic; n < s->nic + s->nics; n++) {
		const json_t *list = json_object_get(n->now.report, "workers"),
			     *earlier = json_object_get(n->before.report, "workers");

		for (size_t i = 0; i < json_array_size(list); i++) {
			const json_t *now = json_array_get(list, i), *before = json_array_get(earlier, i);
			struct row *r = stat_row(&t);

			if (!r)
				break;
			snprintf(r->cell[0], CELL, "%zu", i);
			name_nic(r->cell[1], n);
			percent(r->cell[2], stat_busy(now, before));
			rate(n, r->cell[3], now, before, "packets");
			rate(n, r->cell[4], now, before, "dropped");
		}
	}
	fputc('\n', s->to);
	stat_print(&t, s->to, s->view->width);
}

static void show_contexts(const struct shown *s)
{
	static const struct column columns[] = {{"CONTEXT", 0, 0}, {"NIC", 6, 0, 1}, {"HANDLER", 7, 0, 1},
						{"PKT/S", 1, 1},   {"BYTE/S", 2, 1}, {"SHARE", 3, 1},
						{"DROP/S", 4, 1},  {"SENT/S", 5, 1}};
	static const unsigned char marked[STAT_ORDERS] = {
		[STAT_PACKETS] = 3, [STAT_BYTES] = 4, [STAT_SHARE] = 5, [STAT_DROPPED] = 6};
	const enum stat_order order = s->view->order;
	struct table t = begin(columns, 8);

	t.top = s->view->top;
	t.backwards = s->view->backwards;
	t.by_name = order == STAT_NAME;
	t.marked = marked[order];
	for (const struct top_nic *n = s->nic; n < s->nic + s->nics; n++) {
		json_t *contexts = json_object_get(n->now.report, "contexts"), *now;
		const char *key;

		json_object_foreach(contexts, key, now)
		{
			const json_t *before = json_object_get(json_object_get(n->before.report, "contexts"), key);
			const double share = stat_share(n->now.report, n->before.report, key);
			struct row *r = stat_row(&t);
			double packets, bytes, drops, sent;

			if (!r)
				break;
			stat_name(r->cell[0], key);
			name_nic(r->cell[1], n);
			stat_name(r->cell[2], json_string_value(json_object_get(now, "handler")));
			packets = rate_of(n, r->cell[3], stat_since_given(now, before));
			bytes = rate(n, r->cell[4], now, before, "bytes");
			percent(r->cell[5], share);
			drops = rate(n, r->cell[6], now, before, "dropped");
			sent = rate(n, r->cell[7], now, before, "sent");
			r->weight = order == STAT_PACKETS   ? packets
				    : order == STAT_BYTES   ? bytes
				    : order == STAT_SHARE   ? share
				    : order == STAT_DROPPED ? drops
							    : packets + sent;
		}
	}
	if (t.rows)
		fputc('\n', s->to);
	stat_print(&t, s->to, s->view->width);
}

/* What the contexts of a process do. */
static void sum_contexts(const struct top_nic *n, uint64_t pid, double *packets, double *share)
{
	json_t *contexts = json_object_get(n->now.report, "contexts"), *now;
	const char *key;

	json_object_foreach(contexts, key, now)
	{
		const json_t *before = json_object_get(json_object_get(n->before.report, "contexts"), key);

		if (stat_value(json_object_get(now, "application"), "pid") != pid)
			continue;
		*packets += (double)(stat_since_given(now, before) + stat_since(now, before, "sent")) / seconds(n);
		*share += stat_share(n->now.report, n->before.report, key);
	}
}

static bool is_first(const json_t *list, size_t at)
{
	for (size_t i = 0; i < at; i++)
		if (stat_value(json_array_get(list, i), "pid") == stat_value(json_array_get(list, at), "pid"))
			return false;
	return true;
}

/* A process that has attached several times is one row. */
static void show_applications(const struct shown *s)
{
	static const struct column columns[] = {{"APPLICATION", 0, 0}, {"NIC", 6, 0, 1}, {"UID", 5, 0}, {"PKT/S", 1, 1},
						{"SHARE", 2, 1},       {"MEMORY", 3, 0}, {"QPS", 4, 0}};
	struct table t = begin(columns, 7);

	for (const struct top_nic *n = s->nic; n < s->nic + s->nics; n++) {
		const json_t *list = json_object_get(n->now.report, "applications");

		for (size_t i = 0; i < json_array_size(list); i++) {
			const json_t *a = json_array_get(list, i);
			const uint64_t pid = stat_value(a, "pid");
			uint64_t memory = 0, qps = 0;
			double packets = 0, share = 0;
			struct row *r = is_first(list, i) ? stat_row(&t) : NULL;

			if (!r)
				continue;
			for (size_t k = i; k < json_array_size(list); k++) {
				const json_t *b = json_array_get(list, k);

				memory += stat_value(b, "pid") == pid ? stat_value(b, "memory") : 0;
				qps += stat_value(b, "pid") == pid ? stat_value(b, "qps") : 0;
			}
			sum_contexts(n, pid, &packets, &share);
			snprintf(r->cell[0], CELL, "%" PRIu64, pid);
			name_nic(r->cell[1], n);
			snprintf(r->cell[2], CELL, "%" PRIu64, stat_value(a, "uid"));
			stat_scaled(r->cell[3], packets);
			percent(r->cell[4], share);
			stat_bytes(r->cell[5], memory);
			snprintf(r->cell[6], CELL, "%" PRIu64, qps);
			r->weight = packets;
		}
	}
	if (t.rows) {
		fputc('\n', s->to);
		stat_print(&t, s->to, s->view->width);
	}
}

void top_show(const struct stat_view *v, const struct top_nic *nic, unsigned nics, FILE *to)
{
	const struct shown s = {.view = v, .nic = nic, .nics = nics, .to = to};

	show_nics(&s);
	show_workers(&s);
	show_contexts(&s);
	show_applications(&s);
}
