/* SPDX-License-Identifier: BSD-3-Clause */
#include "choice.h"

#include <math.h>

/* Found by comparing with codes of up to 192 and 64 chunks, for messages of 128 KiB to 512 MiB in 64 KiB chunks, 10 to
 * 400 Gbit/s, 0.1 to 100 ms and loss rates of 1e-6 to 5e-2: the best of these is within 20 % of the best of all, and
 * nearly everywhere within 5 %, whether coding takes time or not. Longer codes need a bit less parity for the same
 * losses, and take longer to decode. */
const struct sp_choice sp_choice_candidate[SP_CHOICE_CANDIDATES] = {
	{SP_CHOICE_SR_NACK, 0, 0},  {SP_CHOICE_SR_RTO, 0, 0},	{SP_CHOICE_EC_XOR, 32, 8}, {SP_CHOICE_EC_XOR, 16, 8},
	{SP_CHOICE_EC_MDS, 32, 2},  {SP_CHOICE_EC_MDS, 32, 4},	{SP_CHOICE_EC_MDS, 32, 8}, {SP_CHOICE_EC_MDS, 16, 4},
	{SP_CHOICE_EC_MDS, 8, 2},   {SP_CHOICE_EC_MDS, 16, 8},	{SP_CHOICE_EC_MDS, 8, 4},  {SP_CHOICE_EC_MDS, 32, 16},
	{SP_CHOICE_EC_MDS, 32, 32}, {SP_CHOICE_EC_MDS, 16, 16}, {SP_CHOICE_EC_MDS, 8, 8},  {SP_CHOICE_EC_MDS, 4, 4},
};

static double packets_of(const struct sp_choice_size *size)
{
	return size->mtu && size->chunk > size->mtu ? ceil((double)size->chunk / size->mtu) : 1;
}

/* False for what is not a number. */
static bool near(double a, double b)
{
	return fabs(a - b) <= SP_CHOICE_MOVED * fmax(fabs(a), fabs(b));
}

static bool unchanged(const struct sp_chooser *c, const struct sp_choice_path *path, const struct sp_choice_size *size,
		      const struct sp_loss_known *known)
{
	const struct sp_choice_path *p = &c->by.path;
	const struct sp_choice_size *s = &c->by.size;

	if (!c->messages || s->chunk != size->chunk || s->mtu != size->mtu ||
	    !near((double)s->bytes, (double)size->bytes))
		return false;
	if (!near(p->bandwidth, path->bandwidth) || !near(p->rtt, path->rtt) || !near(p->rto, path->rto) ||
	    !near(p->nack, path->nack) || !near(p->fallback, path->fallback) || p->lost_only != path->lost_only ||
	    !near(p->encode, path->encode) || !near(p->decode, path->decode))
		return false;
	for (unsigned i = 0; i < SP_LOSS_RATES; i++)
		if (!near(c->by.known.lost[i], known->lost[i]))
			return false;
	return c->by.known.rates == known->rates && near(c->by.known.correlation, known->correlation) &&
	       near(c->by.known.packets, known->packets);
}

void sp_chooser_init(struct sp_chooser *c, const struct sp_choice *candidate, unsigned candidates)
{
	if (!candidates) {
		candidate = sp_choice_candidate;
		candidates = SP_CHOICE_CANDIDATES;
	}
	*c = (struct sp_chooser){.choice = candidate[0]};
	for (; c->candidates < candidates && c->candidates < SP_CHOICE_CANDIDATES; c->candidates++)
		c->candidate[c->candidates] = candidate[c->candidates];
}

/* What is sent besides the data, as part of them. */
static double parity_of(struct sp_choice c)
{
	return c.k ? (double)c.m / c.k : 0;
}

/* Among those nearly as good as the best one, the one with the least parity; or the one in use, if it is good enough
 * and has not much more parity. */
static unsigned pick(const struct sp_chooser *c, const double *worst, double least)
{
	unsigned cheap = c->candidates, held = c->candidates;

	for (unsigned i = 0; i < c->candidates; i++) {
		const double more = cheap < c->candidates ? parity_of(c->candidate[cheap]) : HUGE_VAL;
		const double parity = parity_of(c->candidate[i]);

		if (worst[i] <= least * (1 + SP_CHOICE_NEARLY) &&
		    (parity < more || (parity == more && worst[i] < worst[cheap])))
			cheap = i;
		if (c->messages && i == c->which && worst[i] <= least * (1 + SP_CHOICE_MARGIN))
			held = i;
	}
	if (held < c->candidates && parity_of(c->candidate[held]) < 2 * parity_of(c->candidate[cheap]))
		return held;
	return cheap;
}

static void decide(struct sp_chooser *c)
{
	const struct sp_loss_known *known = &c->by.known;
	const double packets = known->packets > 0 ? known->packets : packets_of(&c->by.size);
	double time[SP_CHOICE_CANDIDATES][SP_LOSS_RATES], worst[SP_CHOICE_CANDIDATES] = {0}, least = HUGE_VAL;
	unsigned chosen;

	for (unsigned r = 0; r < known->rates; r++) {
		const struct sp_hazard hazard = {sp_hazard_rate(known->lost[r]) / packets, known->correlation};
		double best = HUGE_VAL;

		for (unsigned i = 0; i < c->candidates; i++) {
			time[i][r] = sp_duration(&c->by.path, &c->by.size, &hazard, c->candidate[i]);
			best = fmin(best, time[i][r]);
		}
		for (unsigned i = 0; i < c->candidates; i++)
			worst[i] = fmax(worst[i], time[i][r] / best);
	}
	for (unsigned i = 0; i < c->candidates; i++)
		least = fmin(least, worst[i]);
	chosen = pick(c, worst, least);
	c->changes += c->messages && chosen != c->which;
	c->which = chosen;
	c->choice = c->candidate[chosen];
	c->expected = time[chosen][known->rates / 2];
}

struct sp_choice sp_choose(struct sp_chooser *c, const struct sp_choice_path *path, const struct sp_choice_size *size,
			   const struct sp_loss *loss)
{
	struct sp_loss_known known;

	sp_loss_known(loss, &known);
	if (!unchanged(c, path, size, &known)) {
		c->by.path = *path;
		c->by.size = *size;
		c->by.known = known;
		decide(c);
	}
	c->messages++;
	return c->choice;
}
