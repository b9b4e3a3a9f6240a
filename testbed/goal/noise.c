/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of detours and of measured times, and what they do. */
#include "noise.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define PS_MOST (1ull << 62)
#define LINE	256 /* longer lines are not of such a file */

/* ---- lines of numbers ---- */
struct lines {
	FILE *f;
	const char *name;
	uint64_t line;
	char *why;
	size_t whylen;
	char text[LINE];
};

static int wrong(const struct lines *l, int err, const char *what)
{
	snprintf(l->why, l->whylen, "%s:%llu: %s", l->name, (unsigned long long)l->line, what);
	return err;
}

/* The numbers of the next line that has some: 1 or 2 of them, 0 at the end; or an error. */
static int next_numbers(struct lines *l, double v[2])
{
	while (fgets(l->text, sizeof(l->text), l->f)) {
		const size_t length = strlen(l->text);
		char *at = l->text + strspn(l->text, " \t\r\n"), *end;
		const bool comment = *at == '#';
		int n = 0;

		l->line++;
		if (length == sizeof(l->text) - 1 && l->text[length - 1] != '\n' && !comment)
			return wrong(l, -EINVAL, "the line is too long");
		if (comment) /* all of a long one */
			while (!strchr(l->text, '\n') && fgets(l->text, sizeof(l->text), l->f))
				;
		else if (!strchr(l->text, '\n') && !feof(l->f))
			return wrong(l, -EINVAL, "a byte is 0");
		if (comment || !*at)
			continue;
		for (; *at && n < 2; at = end + strspn(end, " \t\r\n,")) {
			v[n] = strtod(at, &end);
			if (end == at || !(v[n] >= 0) || !(v[n] < 1e18))
				return wrong(l, -EINVAL, "this is no number of at least 0");
			n++;
		}
		return *at ? wrong(l, -EINVAL, "there are more than two numbers") : n;
	}
	return ferror(l->f) ? wrong(l, -EIO, "cannot be read") : 0;
}

/* Room for one more value in both (b may be NULL). */
static int room(uint64_t **a, uint64_t **b, uint64_t n, uint64_t *have)
{
	const uint64_t wanted = *have ? *have * 2 : 1024;
	uint64_t *more;

	if (n < *have)
		return 0;
	more = realloc(*a, wanted * sizeof(**a));
	if (!more)
		return -ENOMEM;
	*a = more;
	more = b ? realloc(*b, wanted * sizeof(**b)) : NULL;
	if (b && !more)
		return -ENOMEM;
	if (b)
		*b = more;
	*have = wanted;
	return 0;
}

/* ---- detours ---- */
int goal_detours_set(struct goal_detours *d, const sp_time *at, const sp_time *length, uint64_t n)
{
	*d = (struct goal_detours){.n = n};
	if (!n)
		return -EINVAL;
	d->at = malloc(n * sizeof(*d->at));
	d->sum = malloc((n + 1) * sizeof(*d->sum));
	if (!d->at || !d->sum) {
		goal_detours_free(d);
		return -ENOMEM;
	}
	memcpy(d->at, at, n * sizeof(*at));
	d->sum[0] = 0;
	for (uint64_t i = 0; i < n; i++) {
		if ((i && at[i] < at[i - 1]) || at[i] >= PS_MOST / 4 || length[i] >= PS_MOST / 4 ||
		    d->sum[i] >= PS_MOST / 4) {
			goal_detours_free(d);
			return -EINVAL;
		}
		d->sum[i + 1] = d->sum[i] + length[i];
	}
	d->period = at[n - 1] + length[n - 1];
	if (d->sum[n] > d->period || !d->period) { /* they overlap */
		goal_detours_free(d);
		return -EINVAL;
	}
	return 0;
}

int goal_detours_read(struct goal_detours *d, FILE *f, const char *name, char *why, size_t whylen)
{
	struct lines l = {.f = f, .name = name, .why = why, .whylen = whylen};
	uint64_t n = 0, have = 0, *at = NULL, *length = NULL;
	double v[2];
	int err;

	*d = (struct goal_detours){0};
	while ((err = next_numbers(&l, v)) > 0) {
		if (err == 1)
			err = wrong(&l, -EINVAL, "a detour is TIME LENGTH, both in ns");
		else if (n && (uint64_t)(v[0] * 1000) < at[n - 1])
			err = wrong(&l, -EINVAL, "this detour begins before the one above");
		else if (n == GOAL_LINES_MAX)
			err = wrong(&l, -E2BIG, "these are too many detours");
		else if (v[0] > 1e15 || v[1] > 1e15)
			err = wrong(&l, -EINVAL, "that is longer than 11 days");
		else
			err = room(&at, &length, n, &have);
		if (err)
			break;
		at[n] = (uint64_t)(v[0] * 1000);
		length[n++] = (uint64_t)(v[1] * 1000);
	}
	if (!err && !n)
		err = wrong(&l, -EINVAL, "the file has no detours");
	if (!err) {
		err = goal_detours_set(d, at, length, n);
		if (err == -EINVAL)
			wrong(&l, err, "the detours overlap: together they are longer than the trace");
	}
	if (err == -ENOMEM)
		wrong(&l, err, "memory does not suffice");
	free(at);
	free(length);
	return err;
}

void goal_detours_free(struct goal_detours *d)
{
	free(d->at);
	free(d->sum);
	*d = (struct goal_detours){0};
}

/* How many begin at x or before. */
static uint64_t begun(const struct goal_detours *d, sp_time x)
{
	uint64_t low = 0, high = d->n;

	while (low < high) {
		const uint64_t middle = low + (high - low) / 2;

		if (d->at[middle] <= x)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

sp_time goal_detours_added(const struct goal_detours *d, sp_time begin, sp_time length)
{
	const sp_time all = d->sum[d->n], x = begin % d->period;
	const uint64_t before = begun(d, x);
	sp_time added = 0, end;

	if (before) {
		const sp_time until = d->at[before - 1] + (d->sum[before] - d->sum[before - 1]);

		added = until > x ? until - x : 0;
	}
	if (!length)
		return added;
	length--; /* a detour that begins at the end is late */
	added += length / d->period * all;
	end = x + length % d->period;
	if (end < d->period)
		return added + d->sum[begun(d, end)] - d->sum[before];
	return added + all - d->sum[before] + d->sum[begun(d, end - d->period)];
}

double goal_detours_share(const struct goal_detours *d)
{
	return (double)d->sum[d->n] / (double)d->period;
}

/* ---- distributions ---- */
int goal_draws_set(struct goal_draws *d, const uint64_t *value, uint64_t n)
{
	*d = (struct goal_draws){.n = n};
	for (uint64_t i = 0; i < n; i++)
		if (value[i] >= PS_MOST / 4)
			return -EINVAL;
	if (!n)
		return -EINVAL;
	d->value = malloc(n * sizeof(*value));
	if (!d->value)
		return -ENOMEM;
	memcpy(d->value, value, n * sizeof(*value));
	return 0;
}

int goal_draws_read(struct goal_draws *d, FILE *f, const char *name, enum goal_column column, uint32_t skip,
		    uint32_t of, char *why, size_t whylen)
{
	struct lines l = {.f = f, .name = name, .why = why, .whylen = whylen};
	uint64_t have = 0, row = 0;
	double v[2];
	int err;

	*d = (struct goal_draws){0};
	while ((err = next_numbers(&l, v)) > 0) {
		const double us = err == 2 ? v[1] : v[0], bytes = err == 2 ? v[0] : 1;
		const double ps = column == GOAL_A_BYTE && err == 2 ? trunc(us * 1e6) / bytes : us * 1e6;

		if (of && row++ % of < skip) {
			err = 0;
			continue;
		}
		if (column == GOAL_A_BYTE && !(bytes >= 1))
			err = wrong(&l, -EINVAL, "the number of bytes must be at least 1");
		else if (!(us < 1e12))
			err = wrong(&l, -EINVAL, "that is longer than 11 days");
		else if (d->n == GOAL_LINES_MAX)
			err = wrong(&l, -E2BIG, "these are too many values");
		else
			err = room(&d->value, NULL, d->n, &have);
		if (err)
			break;
		d->value[d->n++] = (uint64_t)ps;
	}
	if (!err && !d->n)
		err = wrong(&l, -EINVAL, "the file has no values");
	if (err == -ENOMEM)
		wrong(&l, err, "memory does not suffice");
	if (err)
		goal_draws_free(d);
	return err;
}

void goal_draws_free(struct goal_draws *d)
{
	free(d->value);
	*d = (struct goal_draws){0};
}

static int compare(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

double goal_draws_median(const struct goal_draws *d)
{
	uint64_t *sorted = malloc(d->n * sizeof(*sorted));
	double median;

	if (!sorted)
		return 0;
	memcpy(sorted, d->value, d->n * sizeof(*sorted));
	qsort(sorted, d->n, sizeof(*sorted), compare);
	median = ((double)sorted[(d->n - 1) / 2] + (double)sorted[d->n / 2]) / 2;
	free(sorted);
	return median;
}

int goal_draws_scale(const struct goal_draws *d, uint64_t median, struct goal_draws *to)
{
	const double has = goal_draws_median(d), factor = (double)median / has;
	int err;

	*to = (struct goal_draws){0};
	if (!(has > 0))
		return -EINVAL;
	err = goal_draws_set(to, d->value, d->n);
	for (uint64_t i = 0; !err && i < to->n; i++) {
		const double v = (double)d->value[i] * factor;

		if (!(v < (double)(PS_MOST / 4))) {
			goal_draws_free(to);
			return -ERANGE;
		}
		to->value[i] = (uint64_t)v;
	}
	return err;
}
