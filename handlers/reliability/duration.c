/* SPDX-License-Identifier: BSD-3-Clause */
#include "duration.h"

#include <math.h>

#define ROUNDS	   64	 /* losses of a chunk in a row that are considered */
#define LOST_MOST  0.75	 /* of a chunk */
#define NEGLIGIBLE 1e-5	 /* probability that any chunk is lost so often in a row */
#define ODDS_LEAST 1e-12 /* probability of a fallback */

/* ---- what can be ---- */
static double between(double least, double value, double most)
{
	return value >= least ? fmin(value, most) : least; /* what is not a number counts as `least` */
}

static double coding(double rate)
{
	return rate > 0 ? fmax(rate, 1) : HUGE_VAL;
}

static struct sp_choice possible(struct sp_choice c)
{
	if (c.scheme != SP_CHOICE_EC_MDS && c.scheme != SP_CHOICE_EC_XOR)
		return (struct sp_choice){.scheme =
						  c.scheme == SP_CHOICE_SR_RTO ? SP_CHOICE_SR_RTO : SP_CHOICE_SR_NACK};
	c.k = c.k < 1 ? 1 : c.k > 254 ? 254 : c.k;
	c.m = c.m < 1 ? 1 : c.m > c.k ? c.k : c.m;
	c.m = c.m > 255 - c.k ? (uint8_t)(255 - c.k) : c.m;
	return c;
}

/* ---- probabilities ---- */
double sp_hazard_rate(double drop)
{
	return -log1p(-between(0, drop, 1 - 1e-9));
}

double sp_hazard_lost(double rate, double packets)
{
	return -expm1(-between(0, rate, 1e9) * between(0, packets, 1e18));
}

/* Losses follow a chain of two states (Gilbert): a chunk after an arrived one is lost with probability p (1 -
 * correlation), after a lost one with that + correlation. It sums the cases beyond `most`, as one minus the others
 * would be 0 where the result is small. */
double sp_duration_more_lost(unsigned n, unsigned most, double p, double correlation)
{
	double after[256] = {0}, lost[256] = {0},
	       beyond = 0; /* probability of i losses if the last chunk arrived, or was lost */
	double first, again;

	p = between(0, p, 1);
	correlation = between(0, correlation, 1);
	first = p * (1 - correlation);
	again = first + correlation;
	if (most >= n || p <= 0)
		return 0;
	if (most > 255)
		most = 255;
	after[0] = 1; /* the first chunk is lost with p */
	for (unsigned i = 0; i < n; i++) {
		const unsigned top = i < most ? i : most;
		const double begin = i ? first : p;

		if (i >= most)
			beyond += after[most] * begin + lost[most] * again;
		for (unsigned c = top < most ? top + 1 : most; c; c--) {
			const double next = after[c - 1] * begin + lost[c - 1] * again;

			after[c] = after[c] * (1 - begin) + lost[c] * (1 - again);
			lost[c] = next;
		}
		after[0] *= 1 - begin;
		lost[0] = 0;
	}
	return fmin(beyond, 1);
}

static unsigned parity_of(struct sp_choice c, unsigned data)
{
	return (data * c.m + c.k - 1u) / c.k;
}

double sp_duration_fails(struct sp_choice choice, unsigned data, double p, double correlation)
{
	const struct sp_choice c = possible(choice);
	double recovered = 0, apart; /* logarithm */
	unsigned rows, larger;

	if (!c.k)
		return 1;
	data = data < 1 ? 1 : data > c.k ? c.k : data;
	rows = parity_of(c, data);
	if (c.scheme == SP_CHOICE_EC_MDS)
		return sp_duration_more_lost(data + rows, rows, p, correlation);
	apart = pow(between(0, correlation, 1), rows); /* of chunks of a group, which are `rows` apart */
	larger = data % rows;
	recovered =
		(rows - larger) * log1p(-between(0, sp_duration_more_lost(data / rows + 1, 1, p, apart), 1 - 1e-12));
	if (larger)
		recovered +=
			larger * log1p(-between(0, sp_duration_more_lost(data / rows + 2, 1, p, apart), 1 - 1e-12));
	return -expm1(recovered);
}

/* ---- selective repeat ---- */
struct repeat {
	double chunks;		/* and a fraction */
	double inject, round;	/* of a chunk; from sending it to sending it again */
	double log[ROUNDS + 1]; /* of the probability that a chunk is not lost r + 1 times in a row */
	unsigned rounds;
};

/* Logarithm of the probability that nothing is later than `round` rounds and x. Chunk b, counted from the last, has had
 * time for r losses if x >= (r + 1 - round) rounds - b injections. The number of chunks is a step function of time; the
 * line that replaces it goes through the middle of its steps, so half a chunk is added to (their time) / inject. */
static double in_time(const struct repeat *s, unsigned round, double x)
{
	double sum = 0;
	unsigned r = round;

	for (double until = s->round - x; r < s->rounds; r++, until += s->round) {
		const double chunks = until / s->inject + 0.5;

		if (chunks >= s->chunks)
			return sum + s->chunks * s->log[r];
		sum += chunks * (s->log[r] - s->log[r + 1]);
	}
	return sum;
}

/* The integral of 1 - exp(g) over `width`, where g goes from a to b in a line. */
static double late_over(double width, double a, double b)
{
	if (fabs(b - a) < 1e-6)
		return width * -expm1((a + b) / 2);
	return width * (1 - (exp(b) - exp(a)) / (b - a));
}

/* Mean delay of selective repeat of so many chunks, compared with no losses. Between rounds, and where the message's
 * first chunk gets another round, the logarithm of the distribution is linear. */
static double repeat_late(double chunks, double inject, double rto, double p, double correlation)
{
	struct repeat s = {.chunks = fmax(chunks, 1), .inject = inject, .round = rto + inject};
	const double behind = (s.chunks - 0.5) * inject;
	const double kink = between(0, s.round * ceil(behind / s.round) - behind, s.round);
	double late = 0, power = p;

	for (; s.rounds < ROUNDS && power * s.chunks > NEGLIGIBLE; power *= p)
		s.log[s.rounds++] = (1 - correlation) * log1p(-power); /* the chunks of a burst are lost together */
	for (unsigned round = 0; round < s.rounds; round++) {
		const double middle = in_time(&s, round, kink);

		late += late_over(kink, in_time(&s, round, 0), middle);
		late += late_over(s.round - kink, middle, in_time(&s, round, s.round));
	}
	return late;
}

/* ---- a message ---- */
struct plan {
	struct sp_choice_path path;
	struct sp_choice choice;
	double bytes, chunk, packets; /* packets: of a chunk */
	double chunks;
	double inject, parity_inject; /* s per chunk; parity chunks are never short */
	double submessages;
	unsigned last; /* data chunks of the last submessage */
	double parity; /* chunks */
	double least;
};

static struct plan plan_of(const struct sp_choice_path *path, const struct sp_choice_size *size,
			   struct sp_choice choice)
{
	struct plan p = {.path = *path, .choice = possible(choice)};
	const double mtu = size->mtu ? size->mtu : size->chunk ? size->chunk : 1;
	const unsigned k = p.choice.k;

	p.path.bandwidth = between(1, path->bandwidth, 1e18);
	p.path.rtt = between(1e-12, path->rtt, 1e6);
	p.path.rto = between(1, path->rto, 1e6);
	p.path.nack = between(1, path->nack, 1e6);
	p.path.fallback = between(1, path->fallback, 1e6);
	p.path.encode = coding(path->encode);
	p.path.decode = coding(path->decode);
	p.bytes = between(1, (double)size->bytes, 0x1p50);
	p.chunk = fmin(size->chunk ? size->chunk : 1, p.bytes);
	p.packets = ceil(p.chunk / mtu);
	p.chunks = p.bytes / p.chunk;
	p.inject = p.chunk * 8 / p.path.bandwidth;
	p.parity_inject = (size->chunk ? size->chunk : 1) * 8.0 / p.path.bandwidth;
	p.least = p.bytes * 8 / p.path.bandwidth;
	if (k) {
		p.submessages = ceil(ceil(p.chunks) / k);
		p.last = (unsigned)(ceil(p.chunks) - (p.submessages - 1) * k);
		p.parity = (p.submessages - 1) * p.choice.m + parity_of(p.choice, p.last);
		p.least += p.parity * p.parity_inject;
	}
	p.least += p.path.rtt;
	return p;
}

static double rows_time(double bytes, double rows, double rate)
{
	return bytes * fmax(rows, SP_CHOICE_ROWS) / rate;
}

/* Time that encoding adds. It overlaps with sending, which waits where encoding is slower. */
static double encoding(const struct plan *p)
{
	const unsigned rows = p->choice.scheme == SP_CHOICE_EC_MDS ? p->choice.m : 1;

	return fmax(rows_time(p->bytes, rows, p->path.encode) - (p->least - p->path.rtt), 0);
}

/* Time that decoding adds: of the last submessage, or of all while parity still arrives. */
static double decoding(const struct plan *p, double lost, double correlation)
{
	const double none = (1 - lost) * pow(1 - lost * (1 - correlation), p->choice.k - 1);
	const double odds = fmax(1 - none, 1e-30);
	const double rows = p->choice.scheme == SP_CHOICE_EC_MDS ? fmax(p->choice.k * lost / odds, 1) : 1;
	const double one = odds * rows_time(fmin(p->choice.k * p->chunk, p->bytes), rows, p->path.decode);

	return fmax(one, p->submessages * one - p->parity * p->parity_inject);
}

/* Time that failed submessages add, whose data and parity count as neighbours. Their number is nearly Poisson: one
 * alone, or as many as are expected besides. */
static double falling_back(const struct plan *p, double lost, double correlation)
{
	const double fails = sp_duration_fails(p->choice, p->choice.k, lost, correlation);
	const double fails_last =
		p->last == p->choice.k ? fails : sp_duration_fails(p->choice, p->last, lost, correlation);
	const double expected = (p->submessages - 1) * fails + fails_last;
	const double odds =
		-expm1((p->submessages - 1) * log1p(-fmin(fails, 1 - 1e-12)) + log1p(-fmin(fails_last, 1 - 1e-12)));
	const double data = ((p->submessages - 1) * fails * p->choice.k + fails_last * p->last) / expected;
	const double rto = p->path.nack * p->path.rtt;
	double alone, more, again = data, late;

	if (!(expected > ODDS_LEAST) || !(odds > ODDS_LEAST))
		return 0;
	if (p->path.lost_only) {
		const double rows = parity_of(p->choice, (unsigned)data);
		const double least = p->choice.scheme == SP_CHOICE_EC_MDS ? rows + 1 : 2;

		again = fmax(data * lost, fmin(least * data / (data + rows), data));
	}
	alone = p->submessages < 2 ? 1 : fmin(expected * exp(-expected) / -expm1(-expected), 1);
	more = alone < 1 ? (expected / odds - alone) / (1 - alone) : 1;
	late = alone * repeat_late(again, p->inject, rto, lost, correlation);
	if (alone < 1)
		late += (1 - alone) * repeat_late(again * more, p->inject, rto, lost, correlation);
	return odds * (p->path.fallback * p->path.rtt + fmax(again * expected / odds - 1, 0) * p->inject + late);
}

double sp_duration(const struct sp_choice_path *path, const struct sp_choice_size *size, const struct sp_hazard *hazard,
		   struct sp_choice choice)
{
	const struct plan p = plan_of(path, size, choice);
	const double lost = fmin(sp_hazard_lost(hazard->rate, p.packets), LOST_MOST);
	const double correlation = between(0, hazard->correlation, 0.999);
	double rto;

	if (p.choice.k)
		return p.least + encoding(&p) + decoding(&p, lost, correlation) + falling_back(&p, lost, correlation);
	rto = (p.choice.scheme == SP_CHOICE_SR_RTO ? p.path.rto : p.path.nack) * p.path.rtt;
	return p.least + repeat_late(p.chunks, p.inject, rto, lost, correlation);
}
