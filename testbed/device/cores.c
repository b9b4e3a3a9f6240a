/* SPDX-License-Identifier: BSD-3-Clause */
#include "cores.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int sp_cores_init(struct sp_cores *c, uint32_t count)
{
	memset(c, 0, sizeof(*c));
	if (!count || count > SP_CORES_MOST)
		return -EINVAL;
	c->until = calloc(count, sizeof(*c->until));
	if (!c->until)
		return -ENOMEM;
	c->count = count;
	return 0;
}

void sp_cores_free(struct sp_cores *c)
{
	free(c->until);
	c->until = NULL;
}

static void gap_remove(struct sp_cores *c, uint32_t i)
{
	c->gaps--;
	memmove(&c->gap[i], &c->gap[i + 1], (c->gaps - i) * sizeof(*c->gap));
}

static void gap_add(struct sp_cores *c, uint32_t core, sp_time from, sp_time to)
{
	if (from >= to)
		return;
	if (c->gaps == SP_CORES_GAPS)
		gap_remove(c, 0);
	c->gap[c->gaps++] = (struct sp_core_gap){from, to, core};
}

/* No job comes any more that could begin before now. */
static void gaps_forget(struct sp_cores *c, sp_time now)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < c->gaps; i++)
		if (c->gap[i].to > now)
			c->gap[kept++] = c->gap[i];
	c->gaps = kept;
}

static sp_time later(sp_time a, sp_time b)
{
	return a > b ? a : b;
}

/* The gap with the earliest start; c->gaps: the job fits into none. */
static uint32_t gap_for(const struct sp_cores *c, sp_time ready, sp_time length, int core)
{
	uint32_t best = c->gaps;

	for (uint32_t i = 0; i < c->gaps; i++) {
		const struct sp_core_gap *g = &c->gap[i];
		const sp_time start = later(g->from, ready);

		if ((core != SP_CORES_ANY && g->core != (uint32_t)core) || start > g->to || g->to - start < length)
			continue;
		if (best == c->gaps || start < later(c->gap[best].from, ready))
			best = i;
	}
	return best;
}

/* Whether core a is the better one behind all that is planned: it is free earlier; of those that are free in time the
 * one that was busy last, which leaves the smallest gap. */
static bool better(const struct sp_cores *c, uint32_t a, uint32_t b, sp_time ready)
{
	const sp_time ua = c->until[a], ub = c->until[b];

	if (ua <= ready && ub <= ready)
		return ua > ub;
	return ua < ub;
}

struct sp_core_place sp_cores_take(struct sp_cores *c, sp_time now, sp_time ready, sp_time length, int core)
{
	struct sp_core_place p = {.core = core == SP_CORES_ANY ? 0 : (uint32_t)core % c->count};
	uint32_t g;

	gaps_forget(c, now);
	if (core != SP_CORES_ANY)
		core = (int)p.core;
	else
		for (uint32_t i = 1; i < c->count; i++)
			if (better(c, i, p.core, ready))
				p.core = i;
	p.start = later(c->until[p.core], ready);
	g = gap_for(c, ready, length, core);
	if (g < c->gaps && later(c->gap[g].from, ready) < p.start) {
		const struct sp_core_gap gap = c->gap[g];

		p.core = gap.core;
		p.start = later(gap.from, ready);
		gap_remove(c, g);
		gap_add(c, gap.core, gap.from, p.start);
		gap_add(c, gap.core, p.start + length, gap.to);
	} else {
		gap_add(c, p.core, later(c->until[p.core], now), p.start);
		c->until[p.core] = p.start + length;
	}
	p.end = p.start + length;
	c->busy += length;
	c->last = later(c->last, p.end);
	c->jobs++;
	return p;
}
