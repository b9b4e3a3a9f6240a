/* SPDX-License-Identifier: BSD-3-Clause */
#include "show.h"

#include <inttypes.h>
#include <string.h>

#include "since.h"
#include "table.h"

/* ---- the parts of a report ---- */

struct shown {
	const struct stat_view *view;
	const json_t *now, *before;
	FILE *to;
	unsigned width;
	struct table blank;
};

static struct table begin(const struct shown *s, const struct column *column, unsigned columns)
{
	struct table t = s->blank;

	t.column = column;
	t.columns = columns;
	return t;
}

static void finish(const struct shown *s, struct table *t)
{
	if (t->rows) {
		fputc('\n', s->to);
		stat_print(t, s->to, s->width);
	}
}

/* Fills column `at` and, with the rate, the one behind it. */
static void count_and_rate(const struct table *t, struct row *r, unsigned at, const json_t *now, const json_t *before,
			   const char *key)
{
	const uint64_t n = stat_value(now, key);

	stat_count(t, r->cell[at], n);
	stat_scaled(r->cell[at + 1], stat_rate(t, n, stat_value(before, key)));
}

static void given_and_rate(const struct table *t, struct row *r, unsigned at, const json_t *now, const json_t *before)
{
	stat_count(t, r->cell[at], stat_given(now));
	stat_scaled(r->cell[at + 1], stat_rate(t, stat_given(now), stat_given(before)));
}

/* TSC cycles that a worker has run since the previous sample; 0: unknown. */
static double ran(const struct shown *s, const json_t *now, const json_t *before)
{
	return (double)stat_since(now, before, "running_us") * (double)stat_value(s->now, "tsc_hz") / 1e6;
}

static void show_nic(const struct shown *s)
{
	static const struct column columns[] = {
		{"NIC", 0, 0},	     {"PACKETS", 1, 0}, {"PKT/S", 2, 1}, {"BIT/S", 3, 1}, {"TAKEN", 6, 0},
		{"FORWARDED", 7, 0}, {"DROPPED", 4, 0}, {"SENT", 5, 0},	 {"PKT/S", 8, 1}, {"BIT/S", 9, 1}};
	struct table t = begin(s, columns, 10);
	struct row *r = stat_row(&t);

	if (!r)
		return;
	stat_name(r->cell[0], json_string_value(json_object_get(s->now, "name")));
	count_and_rate(&t, r, 1, s->now, s->before, "packets");
	stat_scaled(r->cell[3], 8 * stat_rate(&t, stat_value(s->now, "bytes"), stat_value(s->before, "bytes")));
	stat_count(&t, r->cell[4], stat_value(s->now, "taken"));
	stat_count(&t, r->cell[5], stat_value(s->now, "forwarded"));
	stat_count(&t, r->cell[6], stat_value(s->now, "dropped"));
	count_and_rate(&t, r, 7, s->now, s->before, "sent");
	stat_scaled(r->cell[9],
		    8 * stat_rate(&t, stat_value(s->now, "sent_bytes"), stat_value(s->before, "sent_bytes")));
	stat_print(&t, s->to, s->width);
}

static void show_ports(const struct shown *s)
{
	static const struct column columns[] = {{"PORT", 0, 0},	 {"PACKETS", 1, 0}, {"PKT/S", 2, 1},
						{"BIT/S", 4, 1}, {"SENT", 3, 0},    {"PKT/S", 5, 1},
						{"BIT/S", 6, 1}, {"MISSED", 7, 0},  {"ERRORS", 8, 0}};
	struct table t = begin(s, columns, 9);
	const json_t *list = json_object_get(s->now, "ports");

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *now = json_array_get(list, i);
		const json_t *before = json_array_get(json_object_get(s->before, "ports"), i);
		const char *device = json_string_value(json_object_get(now, "device"));
		struct row *r = stat_row(&t);

		if (!r)
			break;
		stat_name(r->cell[0], device);
		if (!device)
			snprintf(r->cell[0], CELL, "%zu", i);
		count_and_rate(&t, r, 1, now, before, "packets");
		stat_scaled(r->cell[3], 8 * stat_rate(&t, stat_value(now, "bytes"), stat_value(before, "bytes")));
		count_and_rate(&t, r, 4, now, before, "sent");
		stat_scaled(r->cell[6],
			    8 * stat_rate(&t, stat_value(now, "sent_bytes"), stat_value(before, "sent_bytes")));
		stat_count(&t, r->cell[7], stat_value(now, "missed") + stat_value(now, "no_buffers"));
		stat_count(&t, r->cell[8], stat_value(now, "receive_errors") + stat_value(now, "transmit_errors"));
	}
	finish(s, &t);
}

/* The context that used most of the worker's time since the previous sample. */
static void busiest(const struct shown *s, const json_t *now, const json_t *before, char cell[CELL])
{
	const double elapsed = ran(s, now, before);
	json_t *spent = json_object_get(now, "contexts"), *cycles;
	const char *key, *most = NULL;
	uint64_t least = 0;

	json_object_foreach(spent, key, cycles)
	{
		const uint64_t n = stat_since(spent, json_object_get(before, "contexts"), key);

		if (n > least) {
			least = n;
			most = key;
		}
	}
	if (!most || elapsed <= 0)
		return;
	stat_name(cell, most);
	snprintf(cell + strlen(cell), CELL - strlen(cell), " %.0f%%", (double)least * 100 / elapsed);
}

static void show_workers(const struct shown *s)
{
	static const struct column columns[] = {{"WORKER", 0, 0},    {"BUSY", 1, 0},	{"PACKETS", 2, 0},
						{"PKT/S", 3, 1},     {"DROPPED", 5, 0}, {"POLLS/S", 6, 1},
						{"MOST BY", 4, 0, 1}};
	struct table t = begin(s, columns, 7);
	const json_t *list = json_object_get(s->now, "workers");

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *now = json_array_get(list, i);
		const json_t *before = json_array_get(json_object_get(s->before, "workers"), i);
		struct row *r = stat_row(&t);

		if (!r)
			break;
		snprintf(r->cell[0], CELL, "%zu", i);
		snprintf(r->cell[1], CELL, "%.0f%%", stat_busy(now, before) * 100);
		count_and_rate(&t, r, 2, now, before, "packets");
		stat_count(&t, r->cell[4], stat_value(now, "dropped"));
		stat_scaled(r->cell[5], stat_rate(&t, stat_value(now, "polls"), stat_value(before, "polls")));
		busiest(s, now, before, r->cell[6]);
	}
	finish(s, &t);
}

/* Workers that were stopped by a handler's call; the latest comes first. */
static void show_faults(const struct shown *s)
{
	static const struct column columns[] = {{"STOPPED IN", 0, 0}, {"HANDLER", 4, 0}, {"CALL", 1, 0},
						{"WORKER", 2, 0},     {"AGO", 5, 0},	 {"FOR", 3, 0},
						{"NOW", 1, 0, 1}};
	struct table t = begin(s, columns, 7);
	const json_t *list = json_object_get(s->now, "faults");

	for (size_t i = json_array_size(list); i-- > 0;) {
		const json_t *f = json_array_get(list, i);
		struct row *r = stat_row(&t);

		if (!r)
			break;
		stat_name(r->cell[0], json_string_value(json_object_get(f, "context")));
		stat_name(r->cell[1], json_string_value(json_object_get(f, "handler")));
		stat_name(r->cell[2], json_string_value(json_object_get(f, "function")));
		stat_count(&t, r->cell[3], stat_value(f, "worker"));
		snprintf(r->cell[4], CELL, "%.1fs", (double)stat_value(f, "ago_ms") / 1000);
		snprintf(r->cell[5], CELL, "%.1fs", (double)stat_value(f, "lasted_ms") / 1000);
		strcpy(r->cell[6], !json_is_true(json_object_get(f, "stopped")) ? "goes on"
				   : json_is_true(json_object_get(f, "runs"))	? "still there, runs"
										: "still there, waits");
	}
	finish(s, &t);
}

static void show_drops(const struct shown *s)
{
	static const struct column columns[] = {{"DROPPED FOR", 0, 0}, {"PACKETS", 0, 0}, {"PKT/S", 1, 1}};
	struct table t = begin(s, columns, 3);
	const char *key;
	json_t *drops = json_object_get(s->now, "drops"), *n;

	json_object_foreach(drops, key, n)
	{
		const uint64_t before = stat_value(json_object_get(s->before, "drops"), key);
		struct row *r = stat_row(&t);

		if (!r)
			break;
		stat_name(r->cell[0], key);
		stat_count(&t, r->cell[1], stat_value(drops, key));
		r->weight = (double)stat_value(drops, key);
		stat_scaled(r->cell[2], stat_rate(&t, stat_value(drops, key), before));
	}
	finish(s, &t);
}

/* What it has, and its limit. */
static void slash(char cell[CELL], const char most[CELL])
{
	snprintf(cell + strlen(cell), CELL - strlen(cell), "/%.20s", most);
}

static void share(char cell[CELL], uint64_t has, uint64_t limit)
{
	char most[CELL];

	stat_scaled(cell, (double)has);
	stat_scaled(most, (double)limit);
	slash(cell, most);
}

static void share_of_memory(char cell[CELL], uint64_t has, uint64_t limit)
{
	char most[CELL];

	stat_bytes(cell, has);
	stat_bytes(most, limit);
	slash(cell, most);
}

static void show_applications(const struct shown *s)
{
	static const struct column columns[] = {{"APPLICATION", 0, 0}, {"UID", 2, 0}, {"MEMORY", 1, 0},
						{"CONTEXTS", 3, 0},    {"QPS", 4, 0}, {"MESSAGES", 5, 0}};
	struct table t = begin(s, columns, 6);
	const json_t *list = json_object_get(s->now, "applications");

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *a = json_array_get(list, i);
		struct row *r = stat_row(&t);

		if (!r)
			break;
		snprintf(r->cell[0], CELL, "%" PRIu64, stat_value(a, "pid"));
		snprintf(r->cell[1], CELL, "%" PRIu64, stat_value(a, "uid"));
		share_of_memory(r->cell[2], stat_value(a, "memory"), stat_value(a, "memory_limit"));
		share(r->cell[3], stat_value(a, "contexts"), stat_value(a, "contexts_limit"));
		share(r->cell[4], stat_value(a, "qps"), stat_value(a, "qps_limit"));
		share(r->cell[5], stat_value(a, "messages"), stat_value(a, "messages_limit"));
	}
	finish(s, &t);
}

static void show_users(const struct shown *s)
{
	static const struct column columns[] = {{"USER", 0, 0},	       {"WEIGHT", 4, 0},     {"APPLICATIONS", 5, 0},
						{"MEMORY", 1, 0},      {"CONTEXTS", 6, 0},   {"QPS", 7, 0},
						{"LIMIT WAITS", 2, 0}, {"LIMIT DROPS", 3, 0}};
	struct table t = begin(s, columns, 8);
	const json_t *list = json_object_get(s->now, "users");

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *u = json_array_get(list, i);
		struct row *r = stat_row(&t);

		if (!r)
			break;
		snprintf(r->cell[0], CELL, "%" PRIu64, stat_value(u, "uid"));
		stat_count(&t, r->cell[1], stat_value(u, "weight"));
		stat_count(&t, r->cell[2], stat_value(u, "applications"));
		stat_bytes(r->cell[3], stat_value(u, "memory"));
		stat_count(&t, r->cell[4], stat_value(u, "contexts"));
		stat_count(&t, r->cell[5], stat_value(u, "qps"));
		stat_count(&t, r->cell[6], stat_value(u, "limit_waits"));
		stat_count(&t, r->cell[7], stat_value(u, "limit_drops"));
	}
	finish(s, &t);
}

/* ---- the cost of calls ---- */

/* Since the previous sample, except `most`, which is the maximum of all time. */
struct cost {
	uint64_t calls; /* packets, and turns without packets */
	double mean, share;
	uint64_t p99, most;
};

static uint64_t second(const json_t *pair)
{
	return (uint64_t)json_integer_value(json_array_get(pair, 1));
}

/* The count of a bucket in list: [[most cycles, count], ...] in rising order; null is the last bound. */
static uint64_t bucket(const json_t *list, const json_t *bound, size_t *from)
{
	for (; *from < json_array_size(list); (*from)++) {
		const json_t *pair = json_array_get(list, *from), *at = json_array_get(pair, 0);

		if (json_equal(at, bound))
			return second(pair);
		if (json_integer_value(at) > json_integer_value(bound) && !json_is_null(bound))
			break;
	}
	return 0;
}

static void look_at_cost(const json_t *now, const json_t *before, struct cost *cost)
{
	const json_t *cycles = json_object_get(now, "cycles"), *earlier = json_object_get(before, "cycles");
	const json_t *list = json_object_get(cycles, "histogram"), *old;
	uint64_t sum = 0;

	*cost = (struct cost){.most = stat_value(cycles, "max")};
	if (stat_value(cycles, "turns") < stat_value(earlier, "turns")) /* a new context of that name */
		earlier = NULL;
	old = json_object_get(earlier, "histogram");
	for (size_t i = 0, from = 0; i < json_array_size(list); i++) {
		const json_t *pair = json_array_get(list, i);

		cost->calls += second(pair) - bucket(old, json_array_get(pair, 0), &from);
	}
	if (!cost->calls)
		return;
	cost->mean = (double)stat_since(cycles, earlier, "total") / (double)cost->calls;
	for (size_t i = 0, from = 0; i < json_array_size(list) && sum < cost->calls - cost->calls / 100; i++) {
		const json_t *pair = json_array_get(list, i), *bound = json_array_get(pair, 0);
		const uint64_t most = (uint64_t)json_integer_value(bound);

		sum += second(pair) - bucket(old, bound, &from);
		cost->p99 = json_is_null(bound) || most > cost->most ? cost->most : most;
	}
}

/* Fills columns from `at` on. */
static void show_cost(struct row *r, unsigned at, const struct cost *c)
{
	if (c->calls) {
		stat_scaled(r->cell[at], c->mean < 9.95 ? c->mean : (double)(uint64_t)(c->mean + 0.5));
		stat_scaled(r->cell[at + 1], (double)c->p99);
	} else {
		strcpy(r->cell[at], "-"); /* no calls since the previous sample */
		strcpy(r->cell[at + 1], "-");
	}
	stat_scaled(r->cell[at + 2], (double)c->most);
}

/* The sort key: the increase since the previous sample, or without one the total. */
static double weight(const struct shown *s, const json_t *now, const json_t *before, const struct cost *c)
{
	switch (s->view->order) {
	case STAT_PACKETS:
		return (double)stat_since_given(now, before);
	case STAT_BYTES:
		return (double)stat_since(now, before, "bytes");
	case STAT_DROPPED:
		return (double)stat_since(now, before, "dropped");
	case STAT_CYCLES:
		return c->mean;
	case STAT_P99:
		return (double)c->p99;
	case STAT_SHARE:
		return c->share;
	case STAT_OVERRUNS:
		return (double)stat_since(json_object_get(now, "cycles"), json_object_get(before, "cycles"),
					  "overruns");
	default:
		/* without a previous sample they keep their order */
		return before ? (double)(stat_since_given(now, before) + stat_since(now, before, "sent")) : 0;
	}
}

/* column: the column of each sort order; 0: none. */
static void sort_by(const struct shown *s, struct table *t, const unsigned char column[STAT_ORDERS])
{
	t->top = s->view->top;
	t->backwards = s->view->backwards;
	t->by_name = s->view->order == STAT_NAME;
	t->marked = column[s->view->order];
}

/* As text: enabled, or disabled since when; and copies that still drain. */
static void condition(const json_t *context, char cell[CELL])
{
	const json_t *c = json_object_get(context, "condition"), *until = json_object_get(c, "enabled_in_us");
	const uint64_t draining = stat_value(c, "draining");

	stat_name(cell, json_string_value(json_object_get(c, "state")));
	if (json_is_integer(until))
		snprintf(cell + strlen(cell), CELL - strlen(cell), " %.2gs", (double)json_integer_value(until) / 1e6);
	if (draining)
		snprintf(cell + strlen(cell), CELL - strlen(cell), " +%" PRIu64 " draining", draining);
}

static void show_contexts(const struct shown *s)
{
	static const struct column columns[] = {
		{"CONTEXT", 0, 0},   {"HANDLER", 10, 0}, {"PACKETS", 1, 0},  {"PKT/S", 2, 1},
		{"BIT/S", 9, 1},     {"DROPPED", 3, 0},	 {"SENT", 11, 0},    {"PKT/S", 13, 1},
		{"MESSAGES", 12, 0}, {"CYCLES", 5, 0},	 {"P99", 6, 0},	     {"MAX", 14, 0},
		{"SHARE", 4, 0},     {"OVERRUNS", 8, 0}, {"STATE", 7, 0, 1}, {"FORWARDED", 15, 0}};
	static const unsigned char sorted[STAT_ORDERS] = {
		[STAT_PACKETS] = 2, [STAT_BYTES] = 4,  [STAT_DROPPED] = 5,  [STAT_CYCLES] = 9,
		[STAT_P99] = 10,    [STAT_SHARE] = 12, [STAT_OVERRUNS] = 13};
	struct table t = begin(s, columns, 16);
	json_t *contexts = json_object_get(s->now, "contexts"), *now;
	bool counts = false;
	const char *key;

	sort_by(s, &t, sorted);
	json_object_foreach(contexts, key, now)
	{
		const json_t *before = json_object_get(json_object_get(s->before, "contexts"), key);
		struct row *r = stat_row(&t);
		struct cost cost;

		if (!r)
			break;
		look_at_cost(now, before, &cost);
		cost.share = stat_share(s->now, s->before, key);
		r->weight = weight(s, now, before, &cost);
		stat_name(r->cell[0], key);
		stat_name(r->cell[1], json_string_value(json_object_get(now, "handler")));
		given_and_rate(&t, r, 2, now, before);
		stat_scaled(r->cell[4], 8 * stat_rate(&t, stat_value(now, "bytes"), stat_value(before, "bytes")));
		stat_count(&t, r->cell[5], stat_value(now, "dropped"));
		count_and_rate(&t, r, 6, now, before, "sent");
		stat_count(&t, r->cell[8], stat_value(now, "open_messages"));
		show_cost(r, 9, &cost);
		snprintf(r->cell[12], CELL, "%.1f%%", cost.share * 100);
		stat_count(&t, r->cell[13], stat_value(json_object_get(now, "cycles"), "overruns"));
		condition(now, r->cell[14]);
		stat_count(&t, r->cell[15], stat_value(now, "forwarded"));
		counts = counts || json_object_size(json_object_get(now, "counters"));
	}
	finish(s, &t);
	if (counts)
		fprintf(s->to, "\n%.*s\n", (int)s->width, "what a context counts itself: --context NAME");
}

static void show_handlers(const struct shown *s)
{
	static const struct column columns[] = {
		{"HANDLER", 0, 0}, {"CONTEXTS", 6, 0}, {"PACKETS", 1, 0}, {"PKT/S", 2, 1}, {"DROPPED", 3, 0},
		{"SENT", 7, 0},	   {"CYCLES", 4, 0},   {"P99", 5, 0},	  {"MAX", 9, 0},   {"OVERRUNS", 8, 0}};
	static const unsigned char sorted[STAT_ORDERS] = {[STAT_PACKETS] = 2, [STAT_BYTES] = 0, [STAT_DROPPED] = 4,
							  [STAT_CYCLES] = 6,  [STAT_P99] = 7,	[STAT_OVERRUNS] = 9};
	struct table t = begin(s, columns, 10);
	json_t *handlers = json_object_get(s->now, "handlers"), *now;
	const char *key;

	sort_by(s, &t, sorted);
	json_object_foreach(handlers, key, now)
	{
		const json_t *before = json_object_get(json_object_get(s->before, "handlers"), key);
		struct row *r = stat_row(&t);
		struct cost cost;

		if (!r)
			break;
		look_at_cost(now, before, &cost);
		cost.share =
			(double)stat_since(json_object_get(now, "cycles"), json_object_get(before, "cycles"), "total");
		r->weight = weight(s, now, before, &cost);
		stat_name(r->cell[0], key);
		stat_count(&t, r->cell[1], stat_value(now, "contexts"));
		given_and_rate(&t, r, 2, now, before);
		stat_count(&t, r->cell[4], stat_value(now, "dropped"));
		stat_count(&t, r->cell[5], stat_value(now, "sent"));
		show_cost(r, 6, &cost);
		stat_count(&t, r->cell[9], stat_value(json_object_get(now, "cycles"), "overruns"));
	}
	finish(s, &t);
}

/* ---- one context ---- */

/* Prints all values of one context; path: of the object that holds them. */
static void add_numbers(struct table *t, const json_t *now, const json_t *before, const char *path)
{
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)(uintptr_t)now, key, v)
	{
		char inner[CELL];
		struct row *r;

		snprintf(inner, sizeof(inner), "%.40s%s%.50s", path, *path ? "." : "", key);
		if (json_is_object(v) && strcmp(key, "application")) {
			add_numbers(t, v, json_object_get(before, key), inner);
			continue;
		}
		r = json_is_number(v) || json_is_string(v) ? stat_row(t) : NULL;
		if (!r)
			continue;
		stat_name(r->cell[0], inner);
		if (json_is_string(v)) {
			stat_text(r->cell[1], json_string_value(v));
			continue;
		}
		count_and_rate(t, r, 1, now, before, key);
	}
}

static void show_context(const struct shown *s)
{
	json_t *contexts = json_object_get(s->now, "contexts"), *now;
	const char *key;

	json_object_foreach(contexts, key, now)
	{
		char head[CELL];
		const struct column columns[] = {{head, 0, 0}, {"COUNT", 0, 0}, {"/S", 1, 1}};
		struct table t = begin(s, columns, 3);

		stat_name(head, key);
		add_numbers(&t, now, json_object_get(json_object_get(s->before, "contexts"), key), "");
		if (now != json_object_iter_value(json_object_iter(contexts)))
			fputc('\n', s->to);
		stat_print(&t, s->to, s->width);
	}
}

void stat_show(const struct stat_view *v, const struct stat_sample *now, const struct stat_sample *before, FILE *to)
{
	struct shown s = {.view = v, .now = now->report, .before = before->report, .to = to, .width = v->width};

	s.blank.exact = !v->live;
	s.blank.seconds = before->report ? (double)(now->at - before->at) / (double)SP_SEC : 0;
	if (v->context) {
		show_context(&s);
		return;
	}
	show_nic(&s);
	show_ports(&s);
	show_workers(&s);
	show_faults(&s);
	show_drops(&s);
	show_contexts(&s);
	show_handlers(&s);
	show_applications(&s);
	show_users(&s);
}
