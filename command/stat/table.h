/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables for terminals. If a table is too wide, columns are left out, the least important first. */
#ifndef COMMAND_STAT_TABLE_H
#define COMMAND_STAT_TABLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define CELL	100
#define COLUMNS 16

struct column {
	const char *head;
	unsigned rank; /* the column with the highest rank is left out first; 0: never */
	bool rate;     /* needs a previous sample */
	bool text;     /* left-aligned, as the first column */
};

struct row {
	char cell[COLUMNS][CELL];
	double weight; /* rows are sorted by it, the largest first; equal rows keep their order */
	size_t at;
};

struct table {
	const struct column *column;
	unsigned columns;
	unsigned marked; /* the column that rows are sorted by; 0: none is shown */
	struct row *row;
	size_t rows;
	size_t top;	/* rows to show; 0: all */
	bool exact;	/* print all digits */
	bool by_name;	/* rows are sorted by their first cell, not by weight */
	bool backwards; /* the smallest first */
	double seconds; /* since the previous sample; 0: there is none */
};

/* ---- numbers ---- */

void stat_scaled(char cell[CELL], double x);
void stat_bytes(char cell[CELL], uint64_t bytes); /* of memory, as a configuration has them: 1G is 2^30 */
void stat_count(const struct table *t, char cell[CELL], uint64_t n);
/* Per second; 0 if the counter has restarted (with a new context of that name). */
double stat_rate(const struct table *t, uint64_t now, uint64_t before);
/* Replaces control characters: names come from applications. */
void stat_name(char cell[CELL], const char *text);
void stat_text(char cell[CELL], const char *text); /* the same, but blanks stay */

/* ---- rows ---- */

struct row *stat_row(struct table *t); /* NULL: no memory */
/* Sorts and prints; frees the rows. */
void stat_print(struct table *t, FILE *to, unsigned width);

#endif
