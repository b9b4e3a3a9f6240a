/* SPDX-License-Identifier: BSD-3-Clause */
#include "measure.h"
#include "../engine.h"
#include "../context.h"

/* Below 4 each its own; from there the two bits behind the highest are the step. */
static inline unsigned bucket_of(uint64_t cycles)
{
	unsigned power, bucket;

	if (unlikely(cycles < 4))
		return (unsigned)cycles;
	power = 63 - (unsigned)__builtin_clzll(cycles);
	bucket = (power - 1) * 4 + (unsigned)(cycles >> (power - 2) & 3);
	return RTE_MIN(bucket, SP_METER_BUCKETS - 1u);
}

static inline struct sp_context *whole(struct sp_context *c)
{
	return c->first ? c->first : c;
}

void sp_context_disable(struct sp_context *c, sp_time until)
{
	for (c = whole(c); c; c = c->companion)
		for (uint16_t w = 0; w < c->nic->workers; w++) {
			sp_time *at = &c->view[w]->meter.until, old = __atomic_load_n(at, __ATOMIC_RELAXED);

			while (old < until &&
			       !__atomic_compare_exchange_n(at, &old, until, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
				;
		}
}

/* For all workers at once. In the home worker's view they agree on which of them does it, and for how long. */
static void disable(struct sp_view *v, uint64_t cycles)
{
	struct sp_context *c = whole(v->context);
	struct sp_meter *home = &c->view[c->home]->meter;
	const struct sp_worker *w = v->owner;
	sp_time last = __atomic_load_n(&home->until, __ATOMIC_RELAXED);
	sp_time pause = __atomic_load_n(&home->pause, __ATOMIC_RELAXED), until;

	if (last > w->now) /* disabled already, by another worker */
		return;
	pause = pause && w->now < last + 2 * pause ? RTE_MIN(2 * pause, SP_PAUSE_MOST) : SP_PAUSE_LEAST;
	until = w->now + pause;
	/* now is when the poll began: a pause begins when the call is over. */
	if (!w->cycles)
		until += (sp_time)((unsigned __int128)cycles * SP_SEC / rte_get_tsc_hz());
	if (!__atomic_compare_exchange_n(&home->until, &last, until, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return;
	__atomic_store_n(&home->pause, pause, __ATOMIC_RELAXED);
	c->view[w->index]->meter.disabled++;
	sp_context_disable(c, until);
}

static __attribute__((noinline)) void overrun(struct sp_view *v, uint64_t cycles)
{
	const struct sp_budget *b = &v->context->budget;

	v->meter.overruns++;
	switch (b->overrun) {
	case SP_OVERRUN_COUNT:
		return;
	case SP_OVERRUN_DROP:
		whole(v->context)->view[v->pub.worker]->meter.debt += cycles - b->cycles;
		return;
	case SP_OVERRUN_DISABLE:
		disable(v, cycles);
	}
}

/* After how many more such runs the clock is read again: it is to take about 1 % of their time. */
static inline uint32_t unmeasured(uint64_t cycles)
{
	const unsigned power = 63 - (unsigned)__builtin_clzll(cycles | 1);

	return power < 13 ? RTE_MIN(8192u >> power, 16u) - 1 : 0;
}

void sp_meter_note(struct sp_view *v, uint64_t cycles, uint32_t packets)
{
	struct sp_meter *m = &v->meter;
	struct sp_entity *e = v->entity;
	const uint32_t weight = packets ? packets : 1;
	const uint64_t each = cycles / weight;
	const uint32_t one = (uint32_t)RTE_MIN(each + !each, UINT32_MAX);
	const unsigned bucket = bucket_of(each);

	m->runs++;
	m->cycles += cycles;
	m->packets += packets;
	e->cycles += cycles;
	if (packets) /* a moving average, an eighth of the difference each time; never 0, which means: not known */
		e->cost = e->cost ? e->cost + ((int64_t)(each - e->cost) >> 3) + !each : each + !each;
	m->bucket[bucket] += weight;
	if (one > m->most)
		m->most = one;
	if (one < m->least || !m->least)
		m->least = one;
	if (unlikely(v->context->budget.cycles)) {
		if (each > v->context->budget.cycles)
			overrun(v, each);
		return;
	}
	if (!v->owner->cycles)
		v->sample[!packets] = (struct sp_sample){unmeasured(cycles), one, bucket};
}

void sp_meters_set(struct sp_nic *nic, bool started)
{
	for (uint16_t w = 0; w < nic->workers; w++) {
		nic->worker[w]->cycles = nic->config.cycles;
		nic->worker[w]->metering = started || nic->config.cycles;
	}
}
