/* SPDX-License-Identifier: BSD-3-Clause */
#include "table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers ---- */

static void scaled(char cell[CELL], double x, double step, const char *unit)
{
	unsigned i = 0;

	for (; x >= 999.5 && unit[i + 1]; i++)
		x /= step;
	if (!i)
		snprintf(cell, CELL, "%.*f", x < 10 && x != (double)(uint64_t)x ? 1 : 0, x);
	else
		snprintf(cell, CELL, "%.*f%c", x < 9.995 ? 2 : x < 99.95 ? 1 : 0, x, unit[i]);
}

void stat_scaled(char cell[CELL], double x)
{
	scaled(cell, x, 1000, " kMGTPE");
}

void stat_bytes(char cell[CELL], uint64_t bytes)
{
	scaled(cell, (double)bytes, 1024, " KMGTPE");
}

void stat_count(const struct table *t, char cell[CELL], uint64_t n)
{
	if (t->exact || n < 10000000)
		snprintf(cell, CELL, "%" PRIu64, n);
	else
		stat_scaled(cell, (double)n);
}

double stat_rate(const struct table *t, uint64_t now, uint64_t before)
{
	return t->seconds > 0 && now >= before ? (double)(now - before) / t->seconds : 0;
}

static void clean(char cell[CELL], const char *text, char from)
{
	size_t i;

	for (i = 0; text && text[i] && i < CELL - 1; i++)
		cell[i] = text[i] >= from && text[i] < 0x7F ? text[i] : '?';
	cell[i] = 0;
}

void stat_name(char cell[CELL], const char *text)
{
	clean(cell, text, 0x21);
}

void stat_text(char cell[CELL], const char *text)
{
	clean(cell, text, 0x20);
}

/* ---- tables ---- */

struct row *stat_row(struct table *t)
{
	struct row *more = realloc(t->row, (t->rows + 1) * sizeof(*more));

	if (!more)
		return NULL;
	t->row = more;
	memset(&t->row[t->rows], 0, sizeof(*more));
	t->row[t->rows].at = t->rows;
	return &t->row[t->rows++];
}

static int by_weight(const void *a, const void *b, void *arg)
{
	const struct row *x = a, *y = b;
	const struct table *t = arg;
	int order = t->by_name ? strcmp(x->cell[0], y->cell[0]) : (x->weight < y->weight) - (x->weight > y->weight);

	if (!order)
		return x->at < y->at ? -1 : 1;
	return t->backwards ? -order : order;
}

void stat_print(struct table *t, FILE *to, unsigned width)
{
	unsigned wide[COLUMNS], sum = 0, shown = 0;
	bool gone[COLUMNS] = {false};
	char head[COLUMNS][CELL];

	if (t->rows) /* else there is no memory */
		qsort_r(t->row, t->rows, sizeof(*t->row), by_weight, t);
	if (t->top && t->rows > t->top)
		t->rows = t->top;
	for (unsigned c = 0; c < t->columns; c++) {
		snprintf(head[c], CELL, "%s%s", t->column[c].head, t->marked == c && c ? "*" : "");
		wide[c] = (unsigned)strlen(head[c]);
		for (size_t r = 0; r < t->rows; r++)
			if (strlen(t->row[r].cell[c]) > wide[c])
				wide[c] = (unsigned)strlen(t->row[r].cell[c]);
		gone[c] = t->column[c].rate && t->seconds <= 0;
		sum += gone[c] ? 0 : wide[c] + 2;
	}
	sum -= 2; /* the gap */
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
	if (sum > width) /* the first column gets narrower */
		wide[0] = wide[0] > sum - width + 4 ? wide[0] - (sum - width) : 4;
	for (size_t r = 0; r <= t->rows; r++) {
		char line[COLUMNS * (CELL + 2) + 1];
		size_t at = 0;

		shown = 0;
		for (unsigned c = 0; c < t->columns; c++) {
			const char *text = r ? t->row[r - 1].cell[c] : head[c];

			if (gone[c])
				continue;
			at += (size_t)snprintf(line + at, sizeof(line) - at, "%s%*.*s", shown++ ? "  " : "",
					       c && !t->column[c].text ? (int)wide[c] : -(int)wide[c], (int)wide[c],
					       text);
		}
		while (at && line[at - 1] == ' ')
			line[--at] = 0;
		fprintf(to, "%.*s\n", (int)(width < sizeof(line) ? width : sizeof(line) - 1), line);
	}
	free(t->row);
	t->row = NULL;
	t->rows = 0;
}
