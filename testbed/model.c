/* SPDX-License-Identifier: BSD-3-Clause */
#include "model.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "model_private.h"
#include "quantile.h"
#include "random.h"

/* ---- probabilities ---- */
double sp_model_chunk_drop(double packet_drop, uint64_t packets)
{
	return -expm1((double)packets * log1p(-packet_drop));
}

/* Probability that more than `most` of n are lost. Sums the tail itself: 1 minus the rest would round to 0 where it is
 * small. */
static double more_lost(unsigned n, int most, double p)
{
	double sum = 0;
	int sign;

	if (most < 0)
		return 1;
	if (p <= 0)
		return 0;
	if (p >= 1)
		return (int)n > most;
	for (unsigned i = (unsigned)most + 1; i <= n; i++)
		sum += exp(lgamma_r(n + 1.0, &sign) - lgamma_r(i + 1.0, &sign) - lgamma_r(n - i + 1.0, &sign) +
			   i * log(p) + (n - i) * log1p(-p));
	return fmin(sum, 1);
}

/* The same where one of n chunks is lost with probability odd, the others with p. */
static double more_lost_odd(unsigned n, int most, double p, double odd)
{
	return (1 - odd) * more_lost(n - 1, most, p) + odd * more_lost(n - 1, most - 1, p);
}

static double mds_fails(unsigned k, unsigned m, double p, double p_last)
{
	return more_lost_odd(k + m, (int)m, p, p_last);
}

static double xor_fails(unsigned k, unsigned m, double p, double p_last)
{
	double recovered = 0; /* logarithm */

	for (unsigned i = 0; i < m; i++) {
		unsigned covered = k / m + (i < k % m);

		recovered += log1p(-more_lost_odd(covered + 1, 1, p, i == (k - 1) % m ? p_last : p));
	}
	return -expm1(recovered);
}

double sp_model_mds_fails(unsigned k, unsigned m, double p)
{
	return mds_fails(k, m, p, p);
}

double sp_model_xor_fails(unsigned k, unsigned m, double p)
{
	return xor_fails(k, m, p, p);
}

double sp_model_fallback(const struct sp_model *model)
{
	struct model_plan p;

	if (model_plan(model, &p) || !p.submessages)
		return 0;
	if (p.submessages == 1)
		return p.fails_last;
	return -expm1((double)(p.submessages - 1) * log1p(-p.fails) + log1p(-p.fails_last));
}

/* ---- the message ---- */
static bool positive(double value)
{
	return value > 0 && isfinite(value);
}

static bool possible(const struct sp_model *m)
{
	if (!positive(m->bandwidth) || !positive(m->rtt) || !(m->rto >= 1) || !isfinite(m->rto))
		return false;
	if (!m->message || m->message > SP_MODEL_MESSAGE_MAX || !m->chunk || (m->mtu && m->chunk % m->mtu))
		return false;
	if (!(m->drop >= 0 && m->drop <= 1) || (unsigned)m->scheme > SP_MODEL_EC_XOR)
		return false;
	return m->scheme == SP_MODEL_SR || (m->m && m->m <= m->k && m->k < SP_MODEL_EC_MAX &&
					    m->k + m->m <= SP_MODEL_EC_MAX && m->beta >= 0 && isfinite(m->beta));
}

static int plan_submessages(const struct sp_model *model, struct model_plan *p)
{
	unsigned k = model->k, m = model->m, m_last;

	p->submessages = (p->chunks - 1) / k + 1;
	if (p->submessages > SP_MODEL_SUBMESSAGES_MAX)
		return -ERANGE;
	p->k = k;
	p->k_last = (unsigned)(p->chunks - (p->submessages - 1) * k);
	m_last = (p->k_last * m + k - 1) / k;
	p->base += (double)((p->submessages - 1) * m + m_last) * p->inject;
	p->fallback = model->rtt + model->beta * model->rtt + model->rtt;
	if (model->scheme == SP_MODEL_EC_MDS) {
		p->fails = sp_model_mds_fails(k, m, p->drop);
		p->fails_last = mds_fails(p->k_last, m_last, p->drop, p->drop_last);
	} else {
		p->fails = sp_model_xor_fails(k, m, p->drop);
		p->fails_last = xor_fails(p->k_last, m_last, p->drop, p->drop_last);
	}
	return 0;
}

int model_plan(const struct sp_model *model, struct model_plan *p)
{
	uint64_t last;

	if (!possible(model))
		return -EINVAL;
	*p = (struct model_plan){.chunks = (model->message - 1) / model->chunk + 1};
	last = model->message - (p->chunks - 1) * model->chunk;
	p->inject = (double)model->chunk * 8 / model->bandwidth;
	p->inject_last = (double)last * 8 / model->bandwidth;
	p->drop = p->drop_last = model->drop;
	if (model->mtu) {
		p->drop = sp_model_chunk_drop(model->drop, model->chunk / model->mtu);
		p->drop_last = sp_model_chunk_drop(model->drop, (last - 1) / model->mtu + 1);
	}
	if (p->drop > SP_MODEL_DROP_MAX)
		return -ERANGE;
	p->rto = model->rto * model->rtt;
	p->base = p->lossless = (double)model->message * 8 / model->bandwidth + model->rtt;
	return model->scheme == SP_MODEL_SR ? 0 : plan_submessages(model, p);
}

/* ---- samples ---- */
/* More than 0, at most 1. */
static double uniform(struct sp_random *r)
{
	return (double)((sp_random_next(r) >> 11) + 1) * 0x1p-53;
}

/* How many times in a row something of probability p happens, by inversion. */
static double times_in_row(struct sp_random *r, double p)
{
	return p > 0 ? floor(log(uniform(r)) / log(p)) : 0;
}

/* How many in a row are not hit by something of probability p; HUGE_VAL: all. */
static double spared(struct sp_random *r, double p)
{
	return p > 0 ? floor(log(uniform(r)) / log1p(-p)) : HUGE_VAL;
}

/*
 * How much longer selective repeat of n chunks takes than without losses. Of two chunks with equally many losses the
 * later one ends later. So, from the last chunk backwards, only a chunk with more losses than all later ones matters,
 * and the next such chunk is drawn directly: r losses or more have probability p^r. Exact, with a few random numbers.
 */
static double repeat(struct sp_random *r, const struct model_plan *p, uint64_t n, int last)
{
	double inject_last = last ? p->inject_last : p->inject;
	double worst = times_in_row(r, last ? p->drop_last : p->drop) * (p->rto + inject_last);
	double losses = 0, behind = 0; /* chunks between this one and the last */

	for (;;) {
		behind += spared(r, pow(p->drop, losses + 1));
		if (behind >= (double)(n - 1))
			return worst;
		losses += 1 + times_in_row(r, p->drop);
		worst = fmax(worst, losses * (p->rto + p->inject) - inject_last - behind * p->inject);
		behind++;
	}
}

static uint64_t failed_submessages(struct sp_random *r, const struct model_plan *p)
{
	uint64_t failed = 0;

	for (double at = spared(r, p->fails); at < (double)(p->submessages - 1); at += 1 + spared(r, p->fails))
		failed++;
	return failed;
}

/* The time beyond the plan's base. */
static double sample(struct sp_random *r, const struct model_plan *p, uint64_t *fallbacks)
{
	uint64_t failed, n;
	int last;

	if (!p->submessages)
		return repeat(r, p, p->chunks, true);
	last = sp_random_chance(r, p->fails_last);
	failed = failed_submessages(r, p) + (uint64_t)last;
	if (!failed)
		return 0;
	++*fallbacks;
	n = model_failed_chunks(p, failed, last);
	return p->fallback + model_inject(p, n, last) + repeat(r, p, n, last);
}

int sp_model_run(const struct sp_model *model, uint32_t samples, uint64_t seed, double *times,
		 struct sp_model_outcome *outcome)
{
	struct sp_model_outcome o = {0};
	struct model_plan p;
	struct sp_random r;
	double *extra, mean = 0, squares = 0;
	int err = model_plan(model, &p);

	if (err || !samples || samples > SP_MODEL_SAMPLES_MAX)
		return err ? err : -EINVAL;
	extra = malloc(samples * sizeof(*extra));
	if (!extra)
		return -ENOMEM;
	sp_random_seed(&r, seed, 0);
	for (uint32_t i = 0; i < samples; i++) { /* Welford's method: no cancellation of large sums */
		double before = mean;

		extra[i] = sample(&r, &p, &o.fallbacks);
		mean += (extra[i] - mean) / (i + 1.0);
		squares += (extra[i] - before) * (extra[i] - mean);
		if (times)
			times[i] = p.base + extra[i];
	}
	o.lossless = p.lossless;
	o.mean = p.base + mean;
	o.deviation = samples > 1 ? sqrt(squares / (samples - 1.0)) : 0;
	o.p50 = p.base + sp_quantile(extra, samples, 500);
	o.p99 = p.base + sp_quantile(extra, samples, 990);
	o.p999 = p.base + sp_quantile(extra, samples, 999);
	free(extra);
	*outcome = o;
	return 0;
}
