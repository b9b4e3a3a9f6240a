/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables for terminals. What does not fit the width goes column by column, the least important first. */
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
	unsigned rank; /* the highest goes first; 0 stays */
	bool rate;     /* needs a sample before this one */
	bool text;     /* to the left, as the first column */
};

struct row {
	char cell[COLUMNS][CELL];
	double weight; /* rows are sorted by it, the largest first; equal ones stay as they are */
	size_t at;
};

struct table {
	const struct column *column;
	unsigned columns;
	unsigned marked; /* the column that rows are sorted by; 0: not to be seen */
	struct row *row;
	size_t rows;
	size_t top;	/* rows that are shown; 0: all */
	bool exact;	/* all digits */
	bool by_name;	/* rows are sorted by their first cell, not by weight */
	bool backwards; /* the smallest first */
	double seconds; /* since the sample before; 0: there is none */
};

/* ---- numbers ---- */

/* Of an object in a report; 0: there is none. */
uint64_t stat_value(const json_t *object, const char *key);
void stat_scaled(char cell[CELL], double x);
void stat_count(const struct table *t, char cell[CELL], uint64_t n);
/* Per second; what was counted anew (its context is another one of that name) has no rate yet. */
double stat_rate(const struct table *t, uint64_t now, uint64_t before);
/* Names are applications': nothing in them steers the terminal. */
void stat_name(char cell[CELL], const char *text);
void stat_text(char cell[CELL], const char *text); /* the same, with blanks */

/* ---- rows ---- */

struct row *stat_row(struct table *t); /* NULL: no memory */
/* Sorts and prints; frees the rows. */
void stat_print(struct table *t, FILE *to, unsigned width);

#endif
