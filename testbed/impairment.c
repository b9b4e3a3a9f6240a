/* SPDX-License-Identifier: BSD-3-Clause */
#include "impairment.h"

#include <errno.h>
#include <stddef.h>

static bool probability(double p)
{
	return p >= 0.0 && p <= 1.0; /* false for NaN */
}

int sp_link_check(const struct sp_link_direction *d)
{
	const double p[] = {d->loss, d->burst_begin, d->burst_end, d->burst_loss, d->duplicate, d->reorder, d->corrupt};

	for (size_t i = 0; i < sizeof(p) / sizeof(*p); i++)
		if (!probability(p[i]))
			return -EINVAL;
	return d->delay <= SP_LINK_MAX_DELAY && d->jitter <= SP_LINK_MAX_DELAY &&
			       d->reorder_delay <= SP_LINK_MAX_DELAY && d->bandwidth <= SP_LINK_MAX_BANDWIDTH &&
			       d->queue <= SP_LINK_MAX_QUEUE
		       ? 0
		       : -EINVAL;
}

/* The chain is in the bad state begin / (begin + end) of the time, and leaves it after 1 / end packets on average. */
int sp_link_burst(struct sp_link_direction *d, double length, double loss)
{
	double begin;

	if (!(length >= 1.0 && length <= 1e15) || !(loss >= 0.0 && loss < 1.0))
		return -EINVAL;
	begin = loss / (1.0 - loss) / length;
	if (begin > 1.0)
		return -EINVAL;
	d->loss = 0;
	d->burst_begin = begin;
	d->burst_end = 1.0 / length;
	d->burst_loss = 1.0;
	return 0;
}

sp_time sp_link_distance(double km)
{
	const double delay = km * (double)SP_SEC / 300000.0;

	return delay >= 0.0 && delay <= (double)SP_LINK_MAX_DELAY ? (sp_time)(delay + 0.5) : SP_NEVER;
}

static sp_time later(sp_time t, sp_time by)
{
	return by >= SP_NEVER - t ? SP_NEVER - 1 : t + by;
}

void sp_impairment_init(struct sp_impairment *i, const struct sp_link_direction *config, uint64_t seed,
			unsigned direction)
{
	const double begin = config->burst_begin, end = config->burst_end;

	*i = (struct sp_impairment){.config = *config};
	sp_random_seed(&i->random, seed, direction);
	sp_random_seed(&i->more, seed, 2 + direction);
	i->bad = sp_random_chance(&i->more, begin > 0 ? begin / (begin + end) : 0);
}

void sp_impairment_change(struct sp_impairment *i, const struct sp_link_direction *config)
{
	i->config = *config;
	i->remainder = 0;
	i->bad &= config->burst_begin > 0;
}

/* 0 to most, all equally likely. */
static uint64_t uniform(struct sp_random *r, uint64_t most)
{
	return (uint64_t)((unsigned __int128)sp_random_next(r) * ((unsigned __int128)most + 1) >> 64);
}

/* How long the packet takes on the wire. A fraction of a picosecond is carried over to the next packet of a busy
 * period. */
static sp_time time_on_wire(struct sp_impairment *i, uint32_t len, bool idle)
{
	const uint64_t bandwidth = i->config.bandwidth;
	uint64_t bits, numerator;

	if (!bandwidth)
		return 0;
	bits = 8ull * ((len < SP_LINK_MIN_FRAME ? SP_LINK_MIN_FRAME : len) + SP_LINK_OVERHEAD);
	numerator = bits * SP_SEC + (idle ? 0 : i->remainder); /* below 2^63 for all values that the header allows */
	i->remainder = numerator % bandwidth;
	return numerator / bandwidth;
}

/* Bursts, corruption and jitter were added later and draw from a second generator, so that configurations without them
 * keep their results. That generator stands still while all three are off. */
static void impair_more(struct sp_impairment *i, uint32_t len, struct sp_fate *f)
{
	const struct sp_link_direction *c = &i->config;
	const bool step = sp_random_chance(&i->more, i->bad ? c->burst_end : c->burst_begin);

	i->bad ^= step && c->burst_begin > 0;
	for (unsigned k = 0; k < 2; k++) {
		f->copy[k].corrupted = sp_random_chance(&i->more, c->corrupt);
		f->copy[k].bit = (uint32_t)uniform(&i->more, 8ull * (len ? len : 1) - 1);
		f->copy[k].arrival = later(f->copy[k].arrival, uniform(&i->more, c->jitter));
	}
}

void sp_impair(struct sp_impairment *i, uint32_t len, sp_time now, struct sp_fate *f)
{
	const struct sp_link_direction *c = &i->config;
	const bool idle = i->busy <= now;
	const bool lost = sp_random_chance(&i->random, i->bad ? c->burst_loss : c->loss);

	f->repeated = sp_random_chance(&i->random, c->duplicate);
	f->copies = lost ? 0 : 1 + f->repeated;
	i->busy = later(idle ? now : i->busy, time_on_wire(i, len, idle));
	f->left = i->busy;
	f->in_turn = later(i->busy, c->delay);
	if (f->in_turn < i->in_turn) /* the delay was longer before */
		f->in_turn = i->in_turn;
	i->in_turn = f->in_turn;
	for (unsigned k = 0; k < 2; k++) {
		f->copy[k].reordered = sp_random_chance(&i->random, c->reorder);
		f->copy[k].arrival = f->copy[k].reordered ? later(f->in_turn, c->reorder_delay) : f->in_turn;
		f->copy[k].corrupted = false;
		f->copy[k].bit = 0;
	}
	if (c->burst_begin > 0 || c->corrupt > 0 || c->jitter)
		impair_more(i, len, f);
}
