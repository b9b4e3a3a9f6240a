/* SPDX-License-Identifier: BSD-3-Clause */
#include "loss.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define BY_CHANCE -9.0 /* logarithm of the smallest probability that still counts as chance */
#define LOST_MOST 0.95
#define TENTH	  1.28 /* standard deviations: 1/10 of a normal distribution is beyond */

void sp_loss_init(struct sp_loss *l)
{
	memset(l, 0, sizeof(*l));
}

static struct sp_loss_share sum_of(const struct sp_loss *l, unsigned count)
{
	struct sp_loss_share sum = {0};

	for (unsigned i = 1; i <= count; i++) {
		const struct sp_loss_share *e = &l->event[(l->next - i) % SP_LOSS_EVENTS];

		sum.chunks += e->chunks;
		sum.packets += e->packets;
		sum.lost += e->lost;
		sum.runs += e->runs;
	}
	return sum;
}

/* Events before the latest ones belong to another path if the latest ones are so close that chance would do it once in
 * 3000 cases. */
static void forget_rarer(struct sp_loss *l)
{
	static const struct {
		unsigned events;
		double closer;
	} test[] = {{4, 16}, {8, 5}, {16, 3}};
	const struct sp_loss_share all = sum_of(l, l->count);

	for (unsigned i = 0; i < sizeof(test) / sizeof(*test) && l->count > test[i].events; i++) {
		const struct sp_loss_share latest = sum_of(l, test[i].events);

		if (latest.chunks / latest.runs * test[i].closer < all.chunks / all.runs) {
			l->count = test[i].events;
			return;
		}
	}
}

/* True: the next loss takes longer than chance explains, given how long the latest ones took. */
static bool overdue(const struct sp_loss *l)
{
	const struct sp_loss_share all = sum_of(l, l->count);

	return l->count && -all.runs * log1p(l->open.chunks / all.chunks) < BY_CHANCE;
}

void sp_loss_add(struct sp_loss *l, uint64_t chunks, uint64_t packets, uint64_t lost, uint64_t runs)
{
	double part, parts;

	if (!chunks)
		return;
	packets = packets < chunks ? chunks : packets;
	lost = lost > chunks ? chunks : lost;
	runs = runs > lost ? lost : lost && !runs ? 1 : runs;
	parts = runs < SP_LOSS_PARTS ? (double)runs : SP_LOSS_PARTS;
	part = runs ? (double)runs / ((double)runs + 1) / parts : 0; /* spread evenly */
	for (unsigned i = 0; i < parts; i++) {
		l->event[l->next] = (struct sp_loss_share){.chunks = l->open.chunks + (double)chunks * part,
							   .packets = l->open.packets + (double)packets * part,
							   .lost = (double)lost / parts,
							   .runs = (double)runs / parts};
		l->open = (struct sp_loss_share){0};
		l->next = (l->next + 1) % SP_LOSS_EVENTS;
		l->count += l->count < SP_LOSS_EVENTS;
		forget_rarer(l);
	}
	l->open.chunks += (double)chunks / ((double)runs + 1);
	l->open.packets += (double)packets / ((double)runs + 1);
	if (overdue(l))
		l->count = 0;
}

/* A quantile of a Gamma distribution of this shape, by Wilson and Hilferty; z as for a normal distribution. */
static double quantile(double shape, double z)
{
	return shape * pow(fmax(1 - 1 / (9 * shape) + z / (3 * sqrt(shape)), 0), 3);
}

void sp_loss_known(const struct sp_loss *l, struct sp_loss_known *known)
{
	struct sp_loss_share sum = sum_of(l, l->count);
	const double chunks = sum.chunks + l->open.chunks, events = sum.runs;

	*known = (struct sp_loss_known){.rates = l->count ? 3 : SP_LOSS_RATES};
	if (chunks > 0)
		known->packets = (sum.packets + l->open.packets) / chunks;
	if (l->count) {
		const double run = (sum.lost + 1) / (events + 1), again = 1 - 1 / run;
		const double lost = fmin(events * run / chunks, LOST_MOST);
		double z = TENTH;

		known->correlation = fmax((again - lost) / (1 - lost), 0);
		/* Runs are Poisson distributed only where losses are rare; and their lengths differ. */
		z *= (1 - lost) * sqrt(1 + known->correlation);
		known->lost[0] = fmin(quantile(events, -z) * run / chunks, lost);
		known->lost[1] = lost;
		known->lost[2] = fmax(fmin(quantile(events + 1, z) * run / chunks, LOST_MOST), lost);
		return;
	}
	known->lost[4] = chunks > 0 ? fmin(quantile(1, TENTH) / chunks, SP_LOSS_PRIOR) : SP_LOSS_PRIOR;
	for (unsigned i = 3; i; i--)
		known->lost[i] = known->lost[i + 1] / 6;
}
