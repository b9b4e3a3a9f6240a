/* SPDX-License-Identifier: BSD-3-Clause */
#include "metered.h"

#include <rte_cycles.h>

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

uint64_t sp_meter_bound(unsigned bucket)
{
	if (bucket < 4)
		return bucket;
	if (bucket >= SP_METER_BUCKETS - 1)
		return UINT64_MAX;
	return ((uint64_t)(bucket % 4 + 5) << (bucket / 4 - 1)) - 1;
}

/* ---- overruns ---- */

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

/* All workers of the context at once: its home view is where they agree on who does it, and on how long. */
static void disable(struct sp_view *v, uint64_t cycles)
{
	struct sp_context *c = whole(v->context);
	struct sp_meter *home = &c->view[c->home]->meter;
	const struct sp_worker *w = v->owner;
	sp_time last = __atomic_load_n(&home->until, __ATOMIC_RELAXED);
	sp_time pause = __atomic_load_n(&home->pause, __ATOMIC_RELAXED), until;

	if (last > w->now) /* it is already, by another worker */
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

/* So many turns that take as long, and the looks at the clock are about 1 % of them. */
static inline uint32_t alike(uint64_t cycles)
{
	const unsigned power = 63 - (unsigned)__builtin_clzll(cycles | 1);

	return power < 13 ? RTE_MIN(8192u >> power, 16u) - 1 : 0;
}

void sp_meter_note(struct sp_view *v, uint64_t cycles, uint32_t packets)
{
	struct sp_meter *m = &v->meter;
	const uint32_t weight = packets ? packets : 1;
	const uint64_t each = cycles / weight;
	const uint32_t one = (uint32_t)RTE_MIN(each + !each, UINT32_MAX);
	const unsigned bucket = bucket_of(each);

	m->turns++;
	m->cycles += cycles;
	m->packets += packets;
	if (packets) /* an eighth of what it is off by; never 0, which says that nothing is known */
		v->portion.cost = v->portion.cost ? v->portion.cost + ((int64_t)(each - v->portion.cost) >> 3) + !each
						  : each + !each;
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
		v->alike[!packets] = (struct sp_alike){alike(cycles), one, bucket};
}

void sp_meters_set(struct sp_nic *nic, bool started)
{
	for (uint16_t w = 0; w < nic->workers; w++) {
		nic->worker[w]->cycles = nic->config.cycles;
		nic->worker[w]->metering = started || nic->config.cycles;
	}
}

/* ---- for reports ---- */

const char *sp_doing_name(uint32_t what)
{
	static const char *const name[] = {
		[SP_DOING_NOTHING] = "",	[SP_DOING_PACKETS] = "payload",	      [SP_DOING_TIMER] = "timer",
		[SP_DOING_COMMAND] = "command", [SP_DOING_ISSUE] = "issue",	      [SP_DOING_WORK] = "work",
		[SP_DOING_MIGRATE] = "migrate", [SP_DOING_CLASSIFY] = "classify",     [SP_DOING_MISS] = "miss",
		[SP_DOING_HEADER] = "header",	[SP_DOING_COMPLETION] = "completion", [SP_DOING_ATTACH] = "attach",
		[SP_DOING_DETACH] = "detach",	[SP_DOING_REPORT] = "report",
	};

	return what < sizeof(name) / sizeof(*name) && name[what] ? name[what] : "";
}

void sp_meter_add(struct sp_meter *sum, const struct sp_meter *one)
{
	const sp_time until = __atomic_load_n(&one->until, __ATOMIC_RELAXED);
	const sp_time pause = __atomic_load_n(&one->pause, __ATOMIC_RELAXED);

	sum->until = RTE_MAX(sum->until, until); /* also of one that never had a turn */
	sum->pause = RTE_MAX(sum->pause, pause);
	sum->disabled += one->disabled;
	sum->debt += one->debt;
	if (!one->turns)
		return;
	if (!sum->turns || one->least < sum->least)
		sum->least = one->least;
	sum->most = RTE_MAX(sum->most, one->most);
	sum->turns += one->turns;
	sum->cycles += one->cycles;
	sum->packets += one->packets;
	sum->overruns += one->overruns;
	for (unsigned i = 0; i < SP_METER_BUCKETS; i++)
		sum->bucket[i] += one->bucket[i];
}

uint64_t sp_meter_quantile(const struct sp_meter *m, double q)
{
	uint64_t all = 0, sum = 0, rank;

	for (unsigned i = 0; i < SP_METER_BUCKETS; i++)
		all += m->bucket[i];
	if (!all)
		return 0;
	q = q > 0 ? RTE_MIN(q, 1.0) : 0;
	rank = (uint64_t)(q * (double)all);
	rank += (double)rank < q * (double)all; /* the least number of them that is a share q */
	rank = RTE_MIN(rank + !rank, all);
	for (unsigned i = 0; i < SP_METER_BUCKETS; i++) {
		sum += m->bucket[i];
		if (sum >= rank)
			return RTE_MIN(sp_meter_bound(i), (uint64_t)m->most);
	}
	return m->most;
}
