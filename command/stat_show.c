/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables of a NIC's report. What does not fit a terminal's width goes column by column, the least important first. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "stat.h"

#define CELL	100
#define COLUMNS 10

struct column {
	const char *head;
	unsigned rank; /* the highest goes first; 0 stays */
	bool rate;     /* needs a sample before this one */
};

struct row {
	char cell[COLUMNS][CELL];
	double weight; /* rows are sorted by it, the largest first; equal ones stay as they are */
	size_t at;
};

struct table {
	const struct column *column;
	unsigned columns;
	struct row *row;
	size_t rows;
	bool exact;	/* all digits */
	double seconds; /* since the sample before; 0: there is none */
};

/* ---- numbers ---- */

static uint64_t value(const json_t *object, const char *key)
{
	const json_t *v = json_object_get(object, key);

	return json_is_real(v) ? (uint64_t)json_real_value(v) : (uint64_t)json_integer_value(v);
}

static void scaled(char cell[CELL], double x)
{
	static const char unit[] = " kMGTPE";
	unsigned i = 0;

	for (; x >= 999.5 && unit[i + 1]; i++)
		x /= 1000;
	if (!i)
		snprintf(cell, CELL, "%.*f", x < 10 && x != (double)(uint64_t)x ? 1 : 0, x);
	else
		snprintf(cell, CELL, "%.*f%c", x < 9.995 ? 2 : x < 99.95 ? 1 : 0, x, unit[i]);
}

static void count(const struct table *t, char cell[CELL], uint64_t n)
{
	if (t->exact || n < 10000000)
		snprintf(cell, CELL, "%" PRIu64, n);
	else
		scaled(cell, (double)n);
}

/* Per second; what was counted anew (its context is another one of that name) has no rate yet. */
static double per_second(const struct table *t, uint64_t now, uint64_t before)
{
	return t->seconds > 0 && now >= before ? (double)(now - before) / t->seconds : 0;
}

/* Names are applications': nothing in them steers the terminal. */
static void name(char cell[CELL], const char *text)
{
	size_t i;

	for (i = 0; text && text[i] && i < CELL - 1; i++)
		cell[i] = text[i] > 0x20 && text[i] < 0x7F ? text[i] : '?';
	cell[i] = 0;
}

/* ---- tables ---- */

static struct row *add_row(struct table *t)
{
	struct row *more = realloc(t->row, (t->rows + 1) * sizeof(*more));

	if (!more)
		return NULL;
	t->row = more;
	memset(&t->row[t->rows], 0, sizeof(*more));
	t->row[t->rows].at = t->rows;
	return &t->row[t->rows++];
}

static int by_weight(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return x->weight > y->weight ? -1 : x->weight < y->weight ? 1 : x->at < y->at ? -1 : 1;
}

static void print_table(struct table *t, FILE *to, unsigned width)
{
	unsigned wide[COLUMNS], sum = 0, shown = 0;
	bool gone[COLUMNS] = {false};

	for (unsigned c = 0; c < t->columns; c++) {
		wide[c] = (unsigned)strlen(t->column[c].head);
		for (size_t r = 0; r < t->rows; r++)
			if (strlen(t->row[r].cell[c]) > wide[c])
				wide[c] = (unsigned)strlen(t->row[r].cell[c]);
		gone[c] = t->column[c].rate && t->seconds <= 0;
		sum += gone[c] ? 0 : wide[c] + 2;
	}
	sum -= 2; /* between them */
	while (sum > width) {
		unsigned least = 0;

		for (unsigned c = 1; c < t->columns; c++)
			if (!gone[c] && t->column[c].rank >= t->column[least].rank)
				least = c;
		if (!least || !t->column[least].rank)
			break;
		gone[least] = true;
		sum -= wide[least] + 2;
	}
	if (sum > width) /* the name is what gives way */
		wide[0] = wide[0] > sum - width + 4 ? wide[0] - (sum - width) : 4;
	qsort(t->row, t->rows, sizeof(*t->row), by_weight);
	for (size_t r = 0; r <= t->rows; r++) {
		char line[COLUMNS * (CELL + 2) + 1];
		size_t at = 0;

		shown = 0;
		for (unsigned c = 0; c < t->columns; c++) {
			const char *text = r ? t->row[r - 1].cell[c] : t->column[c].head;

			if (gone[c])
				continue;
			at += (size_t)snprintf(line + at, sizeof(line) - at, "%s%*.*s", shown++ ? "  " : "",
					       c ? (int)wide[c] : -(int)wide[c], (int)wide[c], text);
		}
		while (at && line[at - 1] == ' ')
			line[--at] = 0;
		fprintf(to, "%.*s\n", (int)(width < sizeof(line) ? width : sizeof(line) - 1), line);
	}
	free(t->row);
}

/* ---- what there is to see ---- */

struct shown {
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
		print_table(t, s->to, s->width);
	}
}

static void show_nic(const struct shown *s)
{
	static const struct column columns[] = {
		{"NIC", 0, 0},	     {"PACKETS", 1, 0}, {"PKT/S", 2, 1}, {"BIT/S", 3, 1}, {"TAKEN", 6, 0},
		{"FORWARDED", 7, 0}, {"DROPPED", 4, 0}, {"SENT", 5, 0},	 {"PKT/S", 8, 1}, {"BIT/S", 9, 1}};
	struct table t = begin(s, columns, 10);
	struct row *r = add_row(&t);

	if (!r)
		return;
	name(r->cell[0], json_string_value(json_object_get(s->now, "name")));
	count(&t, r->cell[1], value(s->now, "packets"));
	scaled(r->cell[2], per_second(&t, value(s->now, "packets"), value(s->before, "packets")));
	scaled(r->cell[3], 8 * per_second(&t, value(s->now, "bytes"), value(s->before, "bytes")));
	count(&t, r->cell[4], value(s->now, "taken"));
	count(&t, r->cell[5], value(s->now, "forwarded"));
	count(&t, r->cell[6], value(s->now, "dropped"));
	count(&t, r->cell[7], value(s->now, "sent"));
	scaled(r->cell[8], per_second(&t, value(s->now, "sent"), value(s->before, "sent")));
	scaled(r->cell[9], 8 * per_second(&t, value(s->now, "sent_bytes"), value(s->before, "sent_bytes")));
	print_table(&t, s->to, s->width);
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
		struct row *r = add_row(&t);

		if (!r)
			break;
		name(r->cell[0], device);
		if (!device)
			snprintf(r->cell[0], CELL, "%zu", i);
		count(&t, r->cell[1], value(now, "packets"));
		scaled(r->cell[2], per_second(&t, value(now, "packets"), value(before, "packets")));
		scaled(r->cell[3], 8 * per_second(&t, value(now, "bytes"), value(before, "bytes")));
		count(&t, r->cell[4], value(now, "sent"));
		scaled(r->cell[5], per_second(&t, value(now, "sent"), value(before, "sent")));
		scaled(r->cell[6], 8 * per_second(&t, value(now, "sent_bytes"), value(before, "sent_bytes")));
		count(&t, r->cell[7], value(now, "missed") + value(now, "no_buffers"));
		count(&t, r->cell[8], value(now, "receive_errors") + value(now, "transmit_errors"));
	}
	finish(s, &t);
}

static void show_workers(const struct shown *s)
{
	static const struct column columns[] = {{"WORKER", 0, 0}, {"BUSY", 1, 0},    {"PACKETS", 2, 0},
						{"PKT/S", 3, 1},  {"DROPPED", 4, 0}, {"POLLS/S", 5, 1}};
	struct table t = begin(s, columns, 6);
	const json_t *list = json_object_get(s->now, "workers");

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *now = json_array_get(list, i);
		const json_t *before = json_array_get(json_object_get(s->before, "workers"), i);
		const uint64_t ran = value(now, "running_us") - value(before, "running_us");
		const uint64_t busy = value(now, "busy_us") - value(before, "busy_us");
		struct row *r = add_row(&t);

		if (!r)
			break;
		snprintf(r->cell[0], CELL, "%zu", i);
		snprintf(r->cell[1], CELL, "%.0f%%", ran ? (double)busy * 100 / (double)ran : 0);
		count(&t, r->cell[2], value(now, "packets"));
		scaled(r->cell[3], per_second(&t, value(now, "packets"), value(before, "packets")));
		count(&t, r->cell[4], value(now, "dropped"));
		scaled(r->cell[5], per_second(&t, value(now, "polls"), value(before, "polls")));
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
		const uint64_t before = value(json_object_get(s->before, "drops"), key);
		struct row *r = add_row(&t);

		if (!r)
			break;
		name(r->cell[0], key);
		count(&t, r->cell[1], value(drops, key));
		r->weight = (double)value(drops, key);
		scaled(r->cell[2], per_second(&t, value(drops, key), before));
	}
	finish(s, &t);
}

/* Has, and may have. */
static void share(char cell[CELL], uint64_t has, uint64_t limit)
{
	char most[CELL];

	scaled(cell, (double)has);
	scaled(most, (double)limit);
	snprintf(cell + strlen(cell), CELL - strlen(cell), "/%.20s", most);
}

static void show_applications(const struct shown *s)
{
	static const struct column columns[] = {{"APPLICATION", 0, 0}, {"UID", 2, 0}, {"MEMORY", 1, 0},
						{"CONTEXTS", 3, 0},    {"QPS", 4, 0}, {"MESSAGES", 5, 0}};
	struct table t = begin(s, columns, 6);
	const json_t *list = json_object_get(s->now, "applications");

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *a = json_array_get(list, i);
		struct row *r = add_row(&t);

		if (!r)
			break;
		snprintf(r->cell[0], CELL, "%" PRIu64, value(a, "pid"));
		snprintf(r->cell[1], CELL, "%" PRIu64, value(a, "uid"));
		share(r->cell[2], value(a, "memory"), value(a, "memory_limit"));
		share(r->cell[3], value(a, "contexts"), value(a, "contexts_limit"));
		share(r->cell[4], value(a, "qps"), value(a, "qps_limit"));
		share(r->cell[5], value(a, "messages"), value(a, "messages_limit"));
	}
	finish(s, &t);
}

static void show_contexts(const struct shown *s)
{
	static const struct column columns[] = {{"CONTEXT", 0, 0}, {"HANDLER", 5, 0}, {"PACKETS", 1, 0},
						{"PKT/S", 2, 1},   {"BIT/S", 4, 1},   {"DROPPED", 3, 0},
						{"SENT", 6, 0},	   {"PKT/S", 7, 1},   {"MESSAGES", 8, 0}};
	struct table t = begin(s, columns, 9);
	json_t *contexts = json_object_get(s->now, "contexts"), *now;
	const char *key;

	json_object_foreach(contexts, key, now)
	{
		const json_t *before = json_object_get(json_object_get(s->before, "contexts"), key);
		struct row *r = add_row(&t);

		if (!r)
			break;
		r->weight = per_second(&t, value(now, "packets") + value(now, "sent"),
				       value(before, "packets") + value(before, "sent"));
		name(r->cell[0], key);
		name(r->cell[1], json_string_value(json_object_get(now, "handler")));
		count(&t, r->cell[2], value(now, "packets"));
		scaled(r->cell[3], per_second(&t, value(now, "packets"), value(before, "packets")));
		scaled(r->cell[4], 8 * per_second(&t, value(now, "bytes"), value(before, "bytes")));
		count(&t, r->cell[5], value(now, "dropped"));
		count(&t, r->cell[6], value(now, "sent"));
		scaled(r->cell[7], per_second(&t, value(now, "sent"), value(before, "sent")));
		count(&t, r->cell[8], value(now, "open_messages"));
	}
	finish(s, &t);
}

/* All numbers of one context; path: of the object that they are in. */
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
		r = json_is_number(v) ? add_row(t) : NULL;
		if (!r)
			continue;
		name(r->cell[0], inner);
		count(t, r->cell[1], value(now, key));
		scaled(r->cell[2], per_second(t, value(now, key), value(before, key)));
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

		name(head, key);
		add_numbers(&t, now, json_object_get(json_object_get(s->before, "contexts"), key), "");
		if (now != json_object_iter_value(json_object_iter(contexts)))
			fputc('\n', s->to);
		print_table(&t, s->to, s->width);
	}
}

static void show(const struct stat_view *v, const struct shown *s)
{
	if (v->context) {
		show_context(s);
		return;
	}
	show_nic(s);
	show_ports(s);
	show_workers(s);
	show_drops(s);
	show_applications(s);
	show_contexts(s);
}

/* ---- the terminal ---- */

static void measure(struct stat_view *v)
{
	struct winsize size = {0};

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col || !size.ws_row)
		size = (struct winsize){.ws_col = 80, .ws_row = 24};
	if (v->drawn && (size.ws_col != v->width || size.ws_row != v->height)) {
		printf("\033[2J\033[H"); /* the terminal has wrapped the old table: nobody knows where it starts */
		v->drawn = 0;
	}
	v->width = size.ws_col;
	v->height = size.ws_row;
}

/* In the place of the one before, as many lines as the terminal has. */
static void draw(struct stat_view *v, const char *text)
{
	const unsigned room = v->height > 2 ? v->height - 1 : 1;
	unsigned lines = 0, all = 0;

	for (const char *c = text; *c; c++)
		all += *c == '\n';
	if (v->drawn)
		printf("\033[%uA", v->drawn);
	for (; *text && lines < (all > room ? room - 1 : room); lines++) {
		const size_t len = strcspn(text, "\n");

		printf("\033[K%.*s\n", (int)len, text);
		text += len + (text[len] == '\n');
	}
	if (all > room) {
		printf("\033[K%.*s\n", (int)v->width, "... the terminal has no more lines");
		lines++;
	}
	printf("\033[J");
	v->drawn = lines;
}

void stat_show(struct stat_view *v, const struct stat_sample *now, const struct stat_sample *before)
{
	struct shown s = {.now = now->report, .before = before->report, .width = 10000};
	char *text = NULL;
	size_t bytes;

	if (v->live || isatty(STDOUT_FILENO)) {
		measure(v);
		s.width = v->width;
	}
	s.blank.exact = !v->live;
	s.blank.seconds = before->report ? (double)(now->at - before->at) / (double)SP_SEC : 0;
	s.to = open_memstream(&text, &bytes);
	if (!s.to)
		return;
	show(v, &s);
	if (!fclose(s.to)) {
		if (v->live)
			draw(v, text);
		else
			printf("%s%s", v->shown ? "\n" : "", text);
		fflush(stdout);
		v->shown++;
	}
	free(text);
}
