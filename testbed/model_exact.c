/* SPDX-License-Identifier: BSD-3-Clause */
/* The distribution of the model itself: chunks are independent, so the probability that all arrive in time is a
 * product. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "model_private.h"

#define NEGLIGIBLE 1e-18

/* Probability that selective repeat of n chunks ends at most `late` after its time without losses. A chunk that has
 * time for r losses is in time with probability 1 - p^(r + 1); chunks with the same r are handled together. */
static double repeat_below(const struct model_plan *p, uint64_t n, int last, double late)
{
	double inject_last = last ? p->inject_last : p->inject, drop_last = last ? p->drop_last : p->drop;
	double round = p->rto + p->inject, done = 0, spare, losses, log_sum;

	if (late < 0)
		return 0;
	log_sum = log1p(-pow(drop_last, floor(late / (p->rto + inject_last)) + 1));
	spare = late + inject_last; /* of the chunk before the last; each earlier one has one injection more */
	for (losses = floor(spare / round); done < (double)(n - 1); losses++) {
		double until = fmin(ceil(((losses + 1) * round - spare) / p->inject), (double)(n - 1));
		double lost = pow(p->drop, losses + 1);

		if (lost * (double)n < NEGLIGIBLE)
			break;
		if (until > done) {
			log_sum += (until - done) * log1p(-lost);
			done = until;
		}
	}
	return exp(log_sum);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The mean: the complementary probability, integrated from step to step. */
static int repeat_mean(const struct model_plan *p, uint64_t n, int last, double *mean)
{
	double inject_last = last ? p->inject_last : p->inject, drop = fmax(p->drop, last ? p->drop_last : 0);
	size_t rounds = drop > 0 ? (size_t)ceil(log(NEGLIGIBLE / (double)n) / log(drop)) : 0, steps = 1;
	double *step;

	*mean = 0;
	if (rounds * n > SP_MODEL_EXACT_MAX)
		return -E2BIG;
	step = malloc((rounds * n + 1) * sizeof(*step));
	if (!step)
		return -ENOMEM;
	step[0] = 0;
	for (size_t losses = 1; losses <= rounds; losses++) {
		step[steps++] = (double)losses * (p->rto + inject_last);
		for (uint64_t behind = 0; behind < n - 1; behind++) {
			double at = (double)losses * (p->rto + p->inject) - inject_last - (double)behind * p->inject;

			if (at > 0)
				step[steps++] = at;
		}
	}
	qsort(step, steps, sizeof(*step), by_value);
	for (size_t i = 1; i < steps; i++)
		if (step[i] > step[i - 1]) /* in the middle, so that rounding cannot move it beyond a step */
			*mean += (step[i] - step[i - 1]) *
				 (1 - repeat_below(p, n, last, step[i - 1] + (step[i] - step[i - 1]) / 2));
	free(step);
	return 0;
}

/* Probability that `failed` of the submessages before the last fail. */
static double failing(const struct model_plan *p, uint64_t failed)
{
	double n = (double)(p->submessages - 1), f = (double)failed;
	int sign;

	if (p->fails <= 0 || p->fails >= 1)
		return f == (p->fails <= 0 ? 0 : n);
	return exp(lgamma_r(n + 1, &sign) - lgamma_r(f + 1, &sign) - lgamma_r(n - f + 1, &sign) + f * log(p->fails) +
		   (n - f) * log1p(-p->fails));
}

int sp_model_below(const struct sp_model *model, double time, double *probability)
{
	struct model_plan p;
	int err = model_plan(model, &p);

	if (err)
		return err;
	if (!p.submessages) {
		*probability = repeat_below(&p, p.chunks, 1, time - p.base);
		return 0;
	}
	*probability = 0;
	for (uint64_t failed = 0; failed < p.submessages; failed++)
		for (int last = 0; last <= 1; last++) {
			uint64_t n = model_failed_chunks(&p, failed + (uint64_t)last, last);
			double weight = failing(&p, failed) * (last ? p.fails_last : 1 - p.fails_last);

			if (!n)
				*probability += time >= p.base ? weight : 0;
			else if (weight > NEGLIGIBLE)
				*probability +=
					weight * repeat_below(&p, n, last,
							      time - p.base - p.fallback - model_inject(&p, n, last));
		}
	return 0;
}

int sp_model_mean(const struct sp_model *model, double *mean)
{
	struct model_plan p;
	double late;
	int err = model_plan(model, &p);

	if (err || p.chunks > SP_MODEL_EXACT_MAX)
		return err ? err : -E2BIG;
	*mean = p.base;
	if (!p.submessages) {
		err = repeat_mean(&p, p.chunks, 1, &late);
		*mean += late;
	}
	for (uint64_t failed = 0; !err && failed < p.submessages; failed++)
		for (int last = 0; !err && last <= 1; last++) {
			uint64_t n = model_failed_chunks(&p, failed + (uint64_t)last, last);
			double weight = failing(&p, failed) * (last ? p.fails_last : 1 - p.fails_last);

			if (!n || weight < NEGLIGIBLE)
				continue;
			err = repeat_mean(&p, n, last, &late);
			*mean += weight * (p.fallback + model_inject(&p, n, last) + late);
		}
	return err;
}
