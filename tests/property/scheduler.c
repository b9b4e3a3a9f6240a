/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker shared by tenants of random weights, costs and arrivals, of which some have deferred work or issues without
 * end, or come and go. Whatever they do: packets of one stay in order, each ends in one place, the backlog keeps its
 * bounds, the worker does not rest while something waits; those that wait all the time get time by weight; and one that
 * wants little has it soon.
 */
#include <math.h>

#include "../lib/seeds.h"

#include "../lib/tenants.h"

#define MOST_HEAVY 7
#define RUN_US	   40000.0

static struct {
	char wrong[256];
	uint64_t waits[TENANTS], had[TENANTS]; /* polls in which it waited in a row; had: when that began */
	uint64_t polls, uneven, call;	       /* call: the longest of anybody */
	double most_uneven;
} t;

static uint64_t below(struct sp_random *x, uint64_t n)
{
	return sp_random_next(x) % n;
}

static void say(const char *what, double value)
{
	if (!*t.wrong)
		snprintf(t.wrong, sizeof(t.wrong), "%s: %g", what, value);
}

/* Start-time fair queueing: of two that wait all the time, neither gets ahead by more than a call of each. What a call
 * of issue() or a slice of work takes is charged when their next packets have been served, so it is one of each kind;
 * and batches are of half a quantum. */
static void compare(unsigned a, unsigned b)
{
	const struct tenant *x = &tenancy.tenant[a], *y = &tenancy.tenant[b];
	const uint64_t slack = tenants_worker()->scheduler->quantum + tenancy.us;
	const double first = (double)(x->had - t.had[a]) / x->weight, second = (double)(y->had - t.had[b]) / y->weight;
	const double bound = (double)(x->cost * (x->vary ? x->vary : 1) + x->slice + 2 * x->issue + slack) / x->weight +
			     (double)(y->cost * (y->vary ? y->vary : 1) + y->slice + 2 * y->issue + slack) / y->weight;

	if (fabs(first - second) > bound)
		say("two that wait are uneven by so many times what may be", fabs(first - second) / bound);
}

static void look(void)
{
	const struct sp_scheduler *s = tenants_worker()->scheduler;
	unsigned all = 0;

	t.polls++;
	for (unsigned i = 0; i < tenancy.tenants; i++) {
		const unsigned n = tenant_view(&tenancy.tenant[i])->entity->backlog.count;

		all += n;
		if (n > SP_BACKLOG_CONTEXT)
			say("a context has more of the backlog than is for one", n);
		if (!n || !t.waits[i]) {
			t.waits[i] = n != 0;
			t.had[i] = tenancy.tenant[i].had;
		} else {
			t.waits[i]++;
		}
	}
	if (all != s->packets || all > SP_BACKLOG)
		say("the backlog is not what contexts have in it, or too large", all);
	if (t.polls % 64)
		return;
	if (tenants_lost())
		say("totals are wrong", (double)tenancy.received);
	/* Pairs are compared from when the later one began to wait: both begin anew then. */
	for (unsigned a = 0; a < tenancy.tenants; a++)
		for (unsigned b = 0; b < a; b++)
			if (t.waits[a] > 64 && t.waits[a] == t.waits[b])
				compare(a, b);
}

static struct tenant *heavy(struct sp_random *x)
{
	const double cost = 1 + (double)below(x, 150);
	struct tenant *h = tenant_add(1 + (uint32_t)below(x, 9), cost, 1 + cost * (double)(1 + below(x, 30)) / 10);

	if (below(x, 3) == 0)
		h->vary = 2 + below(x, 8);
	if (below(x, 3) == 0)
		h->burst = 1 + (unsigned)below(x, 40);
	if (below(x, 4) == 0) {
		h->slices = 1 + below(x, 100);
		h->slice = (1 + below(x, 60)) * tenancy.us;
	}
	if (below(x, 5) == 0)
		h->issue = (1 + below(x, 100)) * tenancy.us;
	if (below(x, 4) == 0)
		h->from = below(x, (uint64_t)RUN_US) * tenancy.us;
	if (below(x, 4) == 0)
		h->until = tenancy.ticks + below(x, (uint64_t)RUN_US) * tenancy.us;
	return h;
}

/* Longest of each kind: what a poll does of each is a quantum and one call more. */
static double soon(void)
{
	uint64_t cost = 0, slice = 0, issue = 0, varies = 0;

	for (const struct tenant *h = tenancy.tenant; h < tenancy.tenant + tenancy.tenants; h++) {
		cost = RTE_MAX(cost, h->cost * (h->vary ? h->vary : 1));
		varies = RTE_MAX(varies, h->vary ? h->cost * h->vary : 0); /* and may be taken for cheaper than it is */
		slice = RTE_MAX(slice, h->slice);
		issue = RTE_MAX(issue, h->issue);
	}
	/* Of packets: those of a burst that do not wait, and those that have waited. */
	return (double)(cost + varies + slice + issue + (issue ? 3 : 2) * (SP_QUANTUM / SP_US) * tenancy.us) /
		       (double)tenancy.us +
	       2;
}

static void run(uint64_t seed)
{
	struct sp_random x;
	double weights = 0, bound;

	sp_random_seed(&x, seed, 1);
	memset(&t, 0, sizeof(t));
	tenants_begin();
	tenancy.seed = seed;
	unsigned n = 1 + (unsigned)below(&x, MOST_HEAVY);
	struct tenant *light = tenant_add(1 + (uint32_t)below(&x, 9), 0.5, 0);
	for (unsigned i = 0; i < n; i++)
		weights += heavy(&x)->weight;
	/* A quarter of what is due to it, at the most, and not more in one call of another than there is room for. */
	light->every =
		(uint64_t)((double)light->cost * 4 * (weights + light->weight) / light->weight) + tenancy.us * 40;
	tenants_enter();
	tenancy.look = look;
	tenants_run(RUN_US);
	bound = soon();
	if (n > 1 && seed % 3 == 0) {
		if (sp_nic_context_remove(dut.nic, tenancy.tenant[tenancy.tenants - 1].id))
			say("a context does not go", 0);
		tenancy.tenants--;
		tenants_run(RUN_US / 4);
	}
	if (tenant_quantile(light, 1) > bound)
		say("a light one has waited for so many microseconds", tenant_quantile(light, 1));
	if (light->done + 20 < light->came || tenant_view(light)->dropped)
		say("a light one has not had all", (double)light->done);
	if (tenancy.idle)
		say("the worker has rested while something waited", (double)tenancy.idle);
	for (unsigned i = 0; i < tenancy.tenants; i++) {
		const struct sp_view *v = tenant_view(&tenancy.tenant[i]);

		if (tenancy.tenant[i].reordered)
			say("packets out of order", tenancy.tenant[i].reordered);
		if (v->dropped != v->backlog_full)
			say("drops that are not its", (double)v->dropped);
	}
	tenancy.look = NULL;
	tenants_settle();
	if (tenants_lost())
		say("totals are wrong in the end", (double)tenancy.received);
	for (unsigned i = 0; i < tenancy.tenants; i++) {
		const struct tenant *h = &tenancy.tenant[i];

		if (h->came != h->done + tenant_view(h)->backlog_full)
			say("packets are missing", (double)h->came);
	}
	tenants_stop();
}

TEST(tenants_share_a_worker_whatever_they_do)
{
	struct seeds s = seeds_begin("share", 60);

	while (seeds_next(&s)) {
		run(s.seed);
		if (!seeds_whole(&s))
			say("packet buffers are lost", 0);
		seeds_told(&s, t.wrong);
	}
	CU_ASSERT_EQUAL(s.bad, 0);
}
