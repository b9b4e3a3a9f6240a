/* SPDX-License-Identifier: BSD-3-Clause */
#include "cost.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../pipeline/observe/trace.h"

#define CYCLES_MOST 1e9

static const struct {
	const char *name;
	size_t at;
} units[] = {
	{"", offsetof(struct sp_cost, call)},	    {"call", offsetof(struct sp_cost, call)},
	{"byte", offsetof(struct sp_cost, byte)},   {"write", offsetof(struct sp_cost, write)},
	{"word", offsetof(struct sp_cost, word)},   {"frame", offsetof(struct sp_cost, frame)},
	{"event", offsetof(struct sp_cost, event)},
};

static const char *past_blanks(const char *s)
{
	return s + strspn(s, " \t");
}

/* One term, "756/word"; NULL: it is wrong. */
static const char *term(const char *s, double sign, struct sp_cost *cost, char why[120])
{
	char unit[16] = "";
	char *end;
	size_t len;
	double n;

	s = past_blanks(s);
	if (!strchr("0123456789.", *s) || !*s) { /* strtod() would take nan, inf and signs */
		snprintf(why, 120, "'%.40s' does not begin with a number of cycles", s);
		return NULL;
	}
	n = strtod(s, &end);
	if (end == s || !isfinite(n) || n > CYCLES_MOST) {
		snprintf(why, 120, "'%.40s' is no number of cycles from 0 to 1e9", s);
		return NULL;
	}
	s = past_blanks(end);
	if (*s == '/') {
		s = past_blanks(s + 1);
		len = strspn(s, "abcdefghijklmnopqrstuvwxyz");
		snprintf(unit, sizeof(unit), "%.*s", (int)len, len ? s : "");
		if (!len)
			snprintf(unit, sizeof(unit), "?");
		s = past_blanks(s + len);
	}
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++)
		if (!strcmp(units[i].name, unit)) {
			*(double *)((char *)cost + units[i].at) += sign * n;
			return s;
		}
	snprintf(why, 120, "cycles are per call, byte, write, word, frame or event, not per %s", unit);
	return NULL;
}

int sp_cost_parse(const char *text, struct sp_cost *cost, char why[120])
{
	double sign = 1;

	*cost = (struct sp_cost){0};
	for (const char *s = text;; s++) {
		s = term(s, sign, cost, why);
		if (!s)
			return -EINVAL;
		if (!*s)
			return 0;
		if (*s != '+' && *s != '-') {
			snprintf(why, 120, "'%.40s' is behind a term: terms are joined by + or -", s);
			return -EINVAL;
		}
		sign = *s == '+' ? 1 : -1;
	}
}

/* SP_CALLED_COUNT: there is none. */
static unsigned function_of(const char *name)
{
	unsigned i = 0;

	while (i < SP_CALLED_COUNT && strcmp(name, sp_called_name((enum sp_called)i)))
		i++;
	return i;
}

int sp_costs_set(struct sp_costs *costs, const char *what, const char *text, char why[120])
{
	const char *dot = strchr(what, '.');
	const size_t len = dot ? (size_t)(dot - what) : strlen(what);
	struct sp_cost_row row = {.function = dot ? function_of(dot + 1) : SP_CALLED_PAYLOAD};
	int err;

	if (!len || len >= sizeof(row.handler)) {
		snprintf(why, 120, "'%.40s' names no handler", what);
		return -EINVAL;
	}
	memcpy(row.handler, what, len);
	if (row.function == SP_CALLED_COUNT) {
		snprintf(why, 120, "a handler has no function '%.40s' (payload, header, completion, ...)", dot + 1);
		return -EINVAL;
	}
	err = sp_cost_parse(text, &row.cost, why);
	if (err)
		return err;
	for (unsigned i = 0; i < costs->count; i++)
		if (costs->row[i].function == row.function && !strcmp(costs->row[i].handler, row.handler)) {
			costs->row[i] = row;
			return 0;
		}
	if (costs->count == SP_COSTS_MOST) {
		snprintf(why, 120, "more than %d costs", SP_COSTS_MOST);
		return -ENOSPC;
	}
	costs->row[costs->count++] = row;
	return 0;
}

const struct sp_cost *sp_costs_find(const struct sp_costs *costs, const char *handler, unsigned function)
{
	static const struct sp_cost nothing;
	const char *const names[] = {handler, "*"};

	for (unsigned n = 0; n < 2; n++) {
		bool named = false;

		for (unsigned i = 0; i < costs->count; i++) {
			if (strcmp(costs->row[i].handler, names[n]))
				continue;
			if (costs->row[i].function == function)
				return &costs->row[i].cost;
			named = true;
		}
		if (named)
			return &nothing;
	}
	return NULL;
}

double sp_cost_of(const struct sp_cost *c, const struct sp_cost_work *w)
{
	const double cycles = c->call + c->byte * (double)w->bytes + c->write * (double)w->writes +
			      c->word * (double)w->words + c->frame * (double)w->frames + c->event * (double)w->events;

	return fmax(cycles, 0);
}
