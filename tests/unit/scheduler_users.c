/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A busy worker is shared among users, then among a user's applications, then among an application's contexts; and what
 * [limits NAME] allows a user. In virtual time: what a call costs it says itself, see scheduler.c.
 */
#include "../../pipeline/mem/freeing.h"
#include "../lib/tenants.h"
#include "../../pipeline/mem/account.h"
#include "../../pipeline/mem/memory.h"
#include "../../pipeline/user.h"

#define RULE(rule)  TEST_BETWEEN(tenants_begin, tenants_stop, rule)
#define BOUND(call) ((call) + (double)(SP_QUANTUM / SP_US) + 2)
#define NEAR(x, y)  CU_ASSERT_DOUBLE_EQUAL(x, y, 0.015)
#define RUN	    300000.0 /* microseconds */

/* Wants twice the worker, all the time. */
static struct tenant *busy(uint32_t user, uint32_t app, uint32_t weight, double cost)
{
	return tenant_of(tenant_add(weight, cost, cost / 2), user, app);
}

/* ---- shares ---- */

RULE(users_get_the_same_whatever_weights_and_however_many_contexts_they_have)
{
	for (unsigned i = 0; i < 12; i++)
		busy(1, 1, 1000, 5);
	busy(2, 1, 1, 5);
	tenants_enter();
	tenants_run(RUN);
	NEAR(tenants_part_of(1, 0), 0.5);
	NEAR(tenants_part_of(2, 0), 0.5);
}

RULE(the_administrators_weight_raises_a_users_share)
{
	tenancy.limits[1].weight = 3;
	for (unsigned i = 0; i < 3; i++)
		busy(1, 1, 1, 5);
	for (unsigned i = 0; i < 9; i++)
		busy(2, 1, 1000, 20);
	tenants_enter();
	tenants_run(RUN);
	NEAR(tenants_part_of(1, 0), 0.75);
	NEAR(tenants_part_of(2, 0), 0.25);
}

RULE(applications_of_a_user_get_the_same)
{
	for (unsigned i = 0; i < 8; i++)
		busy(1, 1, 1000, 5);
	busy(1, 2, 1, 5);
	busy(2, 1, 1, 30);
	tenants_enter();
	tenants_run(RUN);
	NEAR(tenants_part_of(1, 1), 0.25);
	NEAR(tenants_part_of(1, 2), 0.25);
	NEAR(tenants_part_of(2, 0), 0.5);
}

RULE(an_applications_weights_divide_its_own_share)
{
	struct tenant *light = busy(1, 1, 1, 5), *heavy = busy(1, 1, 4, 5);
	busy(2, 1, 1, 5);
	tenants_enter();
	tenants_run(RUN);
	NEAR(tenant_part(light), 0.1);
	NEAR(tenant_part(heavy), 0.4);
	NEAR(tenants_part_of(2, 0), 0.5);
}

RULE(the_nics_own_contexts_are_one_group_beside_users)
{
	for (unsigned i = 0; i < 5; i++)
		busy(0, 0, 1000, 5);
	busy(1, 1, 1, 5);
	tenants_enter();
	tenants_run(RUN);
	NEAR(tenants_part_of(0, 0), 0.5);
	NEAR(tenants_part_of(1, 0), 0.5);
}

RULE(slices_of_work_are_shared_the_same_way)
{
	for (unsigned i = 0; i < 6; i++) {
		struct tenant *t = tenant_of(tenant_add(1000, 1, 0), 1, 1);
		t->slices = 20;
		t->slice = 10 * tenancy.us;
	}
	struct tenant *few = tenant_of(tenant_add(1, 1, 0), 2, 1);
	few->slices = 1;
	few->slice = 30 * tenancy.us;
	tenants_enter();
	tenants_run(RUN);
	NEAR(tenants_part_of(1, 0), 0.5);
	NEAR(tenants_part_of(2, 0), 0.5);
}

RULE(calls_of_issue_are_shared_the_same_way)
{
	for (unsigned i = 0; i < 10; i++)
		tenant_of(tenant_add(1000, 1, 0), 1, 1 + i / 5)->issue = 40 * tenancy.us;
	tenant_of(tenant_add(1, 1, 0), 2, 1)->issue = 40 * tenancy.us;
	tenants_enter();
	tenants_run(RUN);
	NEAR(tenants_part_of(1, 1), 0.25);
	NEAR(tenants_part_of(1, 2), 0.25);
	NEAR(tenants_part_of(2, 0), 0.5);
}

RULE(a_user_who_only_sends_and_computes_does_not_starve_one_who_receives)
{
	for (unsigned i = 0; i < 6; i++) {
		struct tenant *t = tenant_of(tenant_add(1000, 1, 0), 1, 1);
		t->issue = 15 * tenancy.us;
		t->slices = 4;
		t->slice = 10 * tenancy.us;
	}
	busy(2, 1, 1, 5);
	tenants_enter();
	tenants_run(RUN);
	CU_ASSERT(tenants_part_of(2, 0) > 0.48);
	CU_ASSERT(tenants_part_of(1, 0) > 0.4);
}

/* ---- no starvation, and nothing wasted ---- */

RULE(a_light_user_waits_for_one_call_of_others_at_the_most)
{
	struct tenant *light = tenant_of(tenant_add(1, 1, 97), 2, 1);
	for (unsigned i = 0; i < 20; i++)
		busy(1, 1 + i / 10, 1000, 50)->from = 1000 * tenancy.us;
	tenants_enter();
	tenants_run(RUN);
	CU_ASSERT(light->done + 3 >= light->came);
	CU_ASSERT(tenant_quantile(light, 1) <= BOUND(50));
}

RULE(what_a_user_does_not_use_others_have)
{
	struct tenant *modest = tenant_of(tenant_add(1, 10, 100), 2, 1); /* a tenth; half is due to it */
	for (unsigned i = 0; i < 4; i++)
		busy(1, 1, 7, 5);
	tenants_enter();
	tenants_run(RUN);
	NEAR(tenant_part(modest), 0.1);
	NEAR(tenants_part_of(1, 0), 0.9);
	CU_ASSERT(modest->done + 3 >= modest->came);
}

RULE(a_user_who_comes_back_has_saved_up_nothing)
{
	struct tenant *first = busy(1, 1, 1, 10);
	busy(3, 1, 1, 10);
	struct tenant *late = busy(2, 1, 1, 10);
	late->from = 200000 * tenancy.us;
	tenants_enter();
	tenants_run(200000);
	uint64_t before = first->had, began = tenancy.ticks;
	tenants_run(3000);
	CU_ASSERT_DOUBLE_EQUAL((double)(first->had - before) / (double)(tenancy.ticks - began), 1 / 3.0, 0.03);
	CU_ASSERT_DOUBLE_EQUAL((double)late->had / (double)(tenancy.ticks - began), 1 / 3.0, 0.03);
}

RULE(one_user_leaves_room_in_the_backlog_for_another)
{
	for (unsigned i = 0; i < 20; i++)
		busy(1, 1 + i % 4, 1000, 20)->burst = 8;
	struct tenant *last = tenant_of(tenant_add(1, 15, 5000), 2, 1);
	last->burst = 60; /* more than the quantum at once, but little on the whole */
	last->from = 100000 * tenancy.us;
	tenants_enter();
	tenants_run(RUN);
	CU_ASSERT(tenancy.backlog_most > SP_BACKLOG / 2);
	CU_ASSERT(tenancy.backlog_most <= SP_BACKLOG);
	CU_ASSERT(last->done > 500);
	CU_ASSERT_EQUAL(tenant_view(last)->backlog_full, 0);
}

/* ---- limits ---- */

RULE(a_users_worker_time_is_limited_over_its_applications)
{
	tenancy.limits[1].worker_time = 20;
	struct tenant *packets = busy(1, 1, 1, 5);
	struct tenant *sender = tenant_of(tenant_add(1, 1, 0), 1, 2);
	sender->issue = 10 * tenancy.us;
	sender->slices = 2;
	sender->slice = 10 * tenancy.us;
	tenants_enter();
	uint64_t began = tenancy.ticks;
	tenants_run(RUN);
	double part = (double)(packets->had + sender->had) / (double)(tenancy.ticks - began);
	CU_ASSERT_DOUBLE_EQUAL(part, 0.2, 0.01);
	CU_ASSERT(tenant_view(packets)->over_limit > 1000);
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "over-limit"), tenant_view(packets)->over_limit);
	CU_ASSERT(dut.nic->user->allowance[0].waits > 100);
	CU_ASSERT_EQUAL(dut.nic->user->allowance[0].drops, tenant_view(packets)->over_limit);
}

RULE(the_packets_of_a_user_are_limited_and_those_of_others_are_not)
{
	tenancy.limits[1].packets = 10000;
	struct tenant *a = tenant_of(tenant_add(1, 1, 20), 1, 1);
	struct tenant *b = tenant_of(tenant_add(1, 1, 20), 1, 2);
	struct tenant *free = tenant_of(tenant_add(1, 1, 20), 2, 1);
	tenants_enter();
	tenants_run(RUN);
	CU_ASSERT_DOUBLE_EQUAL((double)(a->done + b->done), 3000, 15);
	CU_ASSERT(free->done + 3 >= free->came);
	CU_ASSERT_EQUAL(tenant_view(free)->over_limit, 0);
	CU_ASSERT_EQUAL(a->came + b->came, a->done + b->done + tenant_view(a)->over_limit + tenant_view(b)->over_limit);
}

RULE(the_bytes_of_a_user_are_limited)
{
	tenancy.limits[1].bytes = 1000000;
	struct tenant *t = tenant_of(tenant_add(1, 1, 20), 1, 1);
	tenants_enter();
	tenants_run(RUN);
	CU_ASSERT_DOUBLE_EQUAL((double)(t->done * tenancy.frame[0].len), 300000, 2000);
}

RULE(what_a_user_sends_waits_for_its_limit)
{
	tenancy.limits[1].packets = 50000;
	tenancy.limits[2].bytes = 10000000;
	struct tenant *packets = tenant_of(tenant_add(1, 1, 0), 1, 1);
	struct tenant *bytes = tenant_of(tenant_add(1, 1, 0), 2, 1);
	struct tenant *others = tenant_of(tenant_add(1, 1, 0), 3, 1);
	packets->frame = 64;
	bytes->frame = 1000;
	others->frame = 64;
	packets->issue = bytes->issue = others->issue = 20 * tenancy.us;
	tenants_enter();
	tenants_run(RUN / 3);
	CU_ASSERT_DOUBLE_EQUAL((double)packets->sent, 5000, 100);
	CU_ASSERT_DOUBLE_EQUAL((double)bytes->sent, 1000, 50);
	CU_ASSERT(others->sent > 20000);
	CU_ASSERT(sp_nic_next_deadline(dut.nic, 0) <= tenants_worker()->now + SP_MS);
}

RULE(a_limited_user_who_rests_has_no_more_than_a_milliseconds_worth_saved)
{
	tenancy.limits[1].packets = 100000;
	struct tenant *t = tenant_of(tenant_add(1, 0.1, 0.5), 1, 1);
	t->from = 200000 * tenancy.us;
	tenants_enter();
	tenants_run(200000);
	tenants_run(1000);
	CU_ASSERT(t->done >= 190 && t->done <= 230); /* of this millisecond, and of one before */
}

TEST(the_report_shows_users_and_their_limits)
{
	char *json;

	tenants_begin();
	tenancy.limits[1].packets = 10000;
	tenancy.limits[1].weight = 7;
	tenant_of(tenant_add(1, 1, 20), 1, 1);
	tenants_enter();
	tenants_run(10000);
	CU_ASSERT_EQUAL_FATAL(sp_nic_report_text(dut.nic, false, NULL, &json), 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(json, "\"users\""));
	CU_ASSERT_PTR_NOT_NULL(strstr(json, "\"weight\":7") ? json : strstr(json, "\"weight\": 7"));
	CU_ASSERT_PTR_NOT_NULL(strstr(json, "\"over-limit\""));
	CU_ASSERT_PTR_NOT_NULL(strstr(json, "\"limit_drops\""));
	free(json);
	tenants_stop();
}

/* ---- what stays for others ---- */

TEST(somebody_else_always_finds_something)
{
	static const uint64_t all[] = {4, 16, 64, 4096, 131072, 1ull << 34};

	for (unsigned k = 0; k < sizeof(all) / sizeof(*all); k++) {
		const uint64_t step = all[k] > 4096 ? all[k] / 4096 : 1, part = all[k] >= 16 ? all[k] / 16 : 1;
		uint64_t used = 0, own[8] = {0};

		while (sp_user_may(false, own[0], step, used, all[k])) /* takes what it gets */
			own[0] += step, used += step;
		CU_ASSERT_EQUAL(used, all[k] - all[k] / 4);
		for (unsigned u = 1; u < 4 && all[k] >= 16; u++) { /* three more */
			while (own[u] < part && sp_user_may(false, own[u], step, used, all[k]))
				own[u] += step, used += step;
			CU_ASSERT_EQUAL(own[u], part);
		}
		while (sp_user_may(false, own[5], step, used, all[k])) /* however many come */
			own[5] += step, used += step;
		CU_ASSERT(sp_user_may(true, 0, part, used, all[k])); /* and root */
		CU_ASSERT_FALSE(sp_user_may(true, 0, all[k] - used + 1, used, all[k]));
		CU_ASSERT_FALSE(sp_user_may(false, 0, UINT64_MAX, used, all[k]));
	}
}

RULE(contexts_and_qps_are_counted_over_a_users_applications)
{
	struct sp_account *a, *b, *root;

	tenants_enter();
	CU_ASSERT_EQUAL_FATAL(sp_account_create(NULL, &a), 0);
	CU_ASSERT_EQUAL_FATAL(sp_account_create(NULL, &b), 0);
	CU_ASSERT_EQUAL_FATAL(sp_account_create(NULL, &root), 0);
	sp_account_join(dut.nic, a, sp_user_take(dut.nic, 1, false, NULL));
	sp_account_join(dut.nic, b, sp_user_take(dut.nic, 1, false, NULL));
	sp_account_join(dut.nic, root, sp_user_take(dut.nic, 0, true, NULL));
	CU_ASSERT(a->user == b->user && a->user != root->user && a->user->applications == 2);
	CU_ASSERT_EQUAL(sp_account_contexts(a, 200), 0);
	CU_ASSERT(sp_account_leaves_contexts(b, 3500, 4096)); /* it has less than a sixteenth */
	CU_ASSERT_EQUAL(sp_account_contexts(b, 56), 0);
	CU_ASSERT_FALSE(sp_account_leaves_contexts(b, 3500, 4096));
	CU_ASSERT(sp_account_leaves_contexts(b, 3000, 4096));
	CU_ASSERT(sp_account_leaves_contexts(root, 4095, 4096));
	CU_ASSERT_EQUAL(sp_account_qps(a, 8192), 0);
	CU_ASSERT_FALSE(sp_account_leaves_qps(b, 1, 100000, 131072));
	CU_ASSERT(sp_account_leaves_qps(b, 1, 90000, 131072));
	CU_ASSERT_EQUAL(sp_account_qps(a, -1), 0);
	CU_ASSERT(sp_account_leaves_qps(b, 1, 100000, 131072));
	CU_ASSERT(sp_account_leaves_qps(b, 0, 131072, 131072));
	sp_account_destroy(a);
	sp_account_destroy(b);
	CU_ASSERT_EQUAL(dut.nic->user->applications + dut.nic->user->next->applications, 1);
	sp_account_destroy(root);
}

static unsigned regions(struct sp_device *d, uint64_t bytes)
{
	struct sp_mr *mr;
	unsigned n = 0;

	while (n < 200 && !sp_mr_alloc(&d->pub, bytes, &mr))
		n++;
	return n;
}

RULE(one_user_does_not_take_all_memory)
{
	const struct sp_device_user greedy = {.uid = 1}, late = {.uid = 2}, root = {.trusted = true};
	struct sp_device *a[3], *b, *c;
	uint64_t held, before, sum = 0;

	dut.config.memory_limit = 256 << 20;
	tenants_enter();
	before = dut.nic->memory_used;
	for (unsigned i = 0; i < 3; i++) {
		CU_ASSERT_EQUAL_FATAL(sp_device_create_for(dut.nic, &greedy, &a[i]), 0);
		regions(a[i], 4 << 20);
	}
	CU_ASSERT(dut.nic->memory_used <= 192 << 20);
	CU_ASSERT(dut.nic->memory_used > 180 << 20);
	CU_ASSERT_EQUAL_FATAL(sp_device_create_for(dut.nic, &late, &b), 0);
	CU_ASSERT(regions(b, 1 << 20) >= 15);
	CU_ASSERT_EQUAL(regions(a[0], 1 << 20), 0);
	CU_ASSERT_EQUAL_FATAL(sp_device_create_for(dut.nic, &root, &c), 0);
	CU_ASSERT(regions(c, 1 << 20) >= 30);
	CU_ASSERT_EQUAL_FATAL(sp_freeing_begin(dut.nic), 0); /* memory is still there when they are gone */
	for (unsigned i = 0; i < 3; i++)
		sp_dev_close(&a[i]->pub);
	sp_dev_close(&b->pub);
	sp_dev_close(&c->pub);
	/* Until it is gone, it is the user's. */
	CU_ASSERT(sp_freeing_bytes(dut.nic, NULL, &held) > 180 << 20);
	CU_ASSERT_EQUAL(sp_freeing_bytes(dut.nic, NULL, &held), dut.nic->memory_used - before);
	for (const struct sp_user *u = dut.nic->user; u; u = u->next)
		sum += u->memory;
	CU_ASSERT_EQUAL(sum, dut.nic->memory_used - before);
	while (sp_freeing_bytes(dut.nic, NULL, &held))
		sp_freeing_work(dut.nic);
	for (const struct sp_user *u = dut.nic->user; u; u = u->next) {
		CU_ASSERT_EQUAL(u->memory, 0);
		CU_ASSERT_EQUAL(u->applications, 0);
	}
	CU_ASSERT_EQUAL(dut.nic->memory_used, before);
	sp_freeing_end(dut.nic);
}
