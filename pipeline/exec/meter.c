/* SPDX-License-Identifier: BSD-3-Clause */
#include "meter.h"

#include <rte_common.h>

uint64_t sp_meter_bound(unsigned bucket)
{
	if (bucket < 4)
		return bucket;
	if (bucket >= SP_METER_BUCKETS - 1)
		return UINT64_MAX;
	return ((uint64_t)(bucket % 4 + 5) << (bucket / 4 - 1)) - 1;
}

const char *sp_doing_name(uint32_t what)
{
	static const char *const name[] = {
		[SP_DOING_NOTHING] = "",
		[SP_DOING_PACKETS] = "payload",
		[SP_DOING_TIMER] = "timer",
		[SP_DOING_COMMAND] = "command",
		[SP_DOING_ISSUE] = "issue",
		[SP_DOING_WORK] = "work",
		[SP_DOING_MIGRATE] = "migrate",
		[SP_DOING_CLASSIFY] = "classify",
		[SP_DOING_MISS] = "miss",
		[SP_DOING_HEADER] = "header",
		[SP_DOING_COMPLETION] = "completion",
		[SP_DOING_CONFIGURE] = "configure",
		[SP_DOING_ATTACH] = "attach",
		[SP_DOING_DETACH] = "detach",
		[SP_DOING_REPORT] = "report",
	};

	return what < sizeof(name) / sizeof(*name) && name[what] ? name[what] : "";
}

void sp_meter_add(struct sp_meter *sum, const struct sp_meter *one)
{
	const sp_time until = __atomic_load_n(&one->until, __ATOMIC_RELAXED);
	const sp_time pause = __atomic_load_n(&one->pause, __ATOMIC_RELAXED);

	sum->until = RTE_MAX(sum->until, until); /* also of a view that never ran */
	sum->pause = RTE_MAX(sum->pause, pause);
	sum->disabled += one->disabled;
	sum->debt += one->debt;
	if (!one->runs)
		return;
	if (!sum->runs || one->least < sum->least)
		sum->least = one->least;
	sum->most = RTE_MAX(sum->most, one->most);
	sum->runs += one->runs;
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
