/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker shared by random users, applications and contexts that all want more than there is: each context has its
 * part of its application's share, each application an even part of its user's, each user a part by the administrator's
 * weight. A user who wants little has it soon, whatever the others do; and a random limit of a user's time holds.
 */
#include <math.h>

#include "../lib/seeds.h"
#include "../lib/tenants.h"

#define RUN_US 300000.0

static char wrong[256];

static uint64_t below(struct sp_random *x, uint64_t n)
{
	return sp_random_next(x) % n;
}

static void say(const char *what, double value, double expected)
{
	if (!*wrong)
		snprintf(wrong, sizeof(wrong), "%s: %g, not %g", what, value, expected);
}

static double weights_of(uint32_t user, uint32_t app)
{
	double sum = 0;

	for (unsigned i = 1; i < tenancy.tenants; i++)
		if (tenancy.tenant[i].user == user && tenancy.tenant[i].app == app)
			sum += tenancy.tenant[i].weight;
	return sum;
}

static void run(uint64_t seed)
{
	struct sp_random x;
	uint32_t users, apps[TENANT_USERS];
	double all = 0, modest, dearest = 0;

	sp_random_seed(&x, seed, 2);
	*wrong = 0;
	tenants_begin();
	tenancy.seed = seed;
	users = 2 + (uint32_t)below(&x, 3);
	struct tenant *light = tenant_of(tenant_add(1, 1, 211), users + 1, 1);
	light->from = 20000 * tenancy.us;
	for (uint32_t u = 1; u <= users; u++) {
		tenancy.limits[u].weight = 1 + (uint32_t)below(&x, 4);
		all += tenancy.limits[u].weight;
		apps[u] = 1 + (uint32_t)below(&x, 2);
		for (uint32_t a = 1; a <= apps[u]; a++)
			for (unsigned c = 1 + (unsigned)below(&x, 2); c; c--) {
				const double cost = 2 + (double)below(&x, 30);

				/* whatever it claims to be, it counts within its application */
				const uint32_t weight = (1 + (uint32_t)below(&x, 3)) * (below(&x, 2) ? 1 : 250);
				tenant_of(tenant_add(weight, cost, cost / 4), u, a);
				dearest = fmax(dearest, cost);
			}
	}
	/* Two contexts of one application so far apart would need a longer run. */
	for (unsigned i = 1; i < tenancy.tenants; i++)
		for (unsigned k = 1; k < tenancy.tenants; k++)
			if (tenancy.tenant[i].user == tenancy.tenant[k].user &&
			    tenancy.tenant[i].app == tenancy.tenant[k].app &&
			    tenancy.tenant[i].weight >= 250 * 3 * tenancy.tenant[k].weight / 4)
				tenancy.tenant[k].weight = tenancy.tenant[i].weight;
	tenants_enter();
	tenants_run(RUN_US);
	modest = tenant_part(light);
	for (unsigned i = 1; i < tenancy.tenants; i++) {
		const struct tenant *t = &tenancy.tenant[i];
		const double due = (1 - modest) * tenancy.limits[t->user].weight / all / apps[t->user] * t->weight /
				   weights_of(t->user, t->app);

		if (fabs(tenant_part(t) - due) > 0.01 + 0.02 * due)
			say("a context has not its part", tenant_part(t), due);
	}
	if (light->done + 3 < light->came || tenant_view(light)->dropped)
		say("a light user has not had all", (double)light->done, (double)light->came);
	if (tenant_quantile(light, 1) > dearest + (double)(SP_QUANTUM / SP_US) + 2)
		say("a light user has waited for so many microseconds", tenant_quantile(light, 1), dearest);
	tenants_stop();
}

static void run_limited(uint64_t seed)
{
	struct sp_random x;
	uint64_t began, had = 0;
	double part, limit;

	sp_random_seed(&x, seed, 3);
	tenants_begin();
	tenancy.limits[1].worker_time = 5 + (uint32_t)below(&x, 40);
	tenancy.limits[1].weight = 1 + (uint32_t)below(&x, 1000);
	limit = tenancy.limits[1].worker_time / 100.0;
	for (unsigned i = 1 + (unsigned)below(&x, 5); i; i--) {
		const double cost = 1 + (double)below(&x, 20);
		struct tenant *t = tenant_of(tenant_add(1, cost, cost / 2), 1, 1 + (uint32_t)below(&x, 2));

		if (below(&x, 2))
			t->issue = (1 + below(&x, 20)) * tenancy.us;
		if (below(&x, 2)) {
			t->slices = 1 + below(&x, 3);
			t->slice = (1 + below(&x, 20)) * tenancy.us;
		}
	}
	const double cost = 1 + (double)below(&x, 20);
	struct tenant *other = tenant_of(tenant_add(1, cost, cost / 4), 2, 1);
	tenants_enter();
	began = tenancy.ticks;
	tenants_run(RUN_US);
	for (unsigned i = 0; i + 1 < tenancy.tenants; i++)
		had += tenancy.tenant[i].had;
	part = (double)had / (double)(tenancy.ticks - began);
	if (part > limit + 0.01)
		say("a limited user has had more", part, limit);
	if (tenant_part(other) < 0.9 * (1 - limit))
		say("the other has not had the rest", tenant_part(other), 1 - limit);
	tenants_stop();
}

TEST(users_share_a_worker_whatever_their_applications_do)
{
	struct seeds s = seeds_begin("share", 30);

	while (seeds_next(&s)) {
		run(s.seed);
		run_limited(s.seed);
		if (!seeds_whole(&s))
			say("packet buffers are lost", 0, 0);
		seeds_told(&s, wrong);
	}
	CU_ASSERT_EQUAL(s.bad, 0);
}
