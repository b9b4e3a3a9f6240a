/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contexts share a worker by weight when it is short of time. All of it is measured by a clock that the handlers turn
 * on: what a packet costs it says itself.
 */
#include "../lib/tenants.h"

#include "../../pipeline/observe/trace.h"

/* A light tenant's packet waits for one call of a heavy one at the most, and for what a quantum's packets of others
 * cost; however many heavy ones there are. Polls cost the rest. */
#define BOUND(call) ((call) + (double)(SP_QUANTUM / SP_US) + 2)

static double part(const struct tenant *t)
{
	uint64_t all = 0;

	for (unsigned i = 0; i < tenancy.tenants; i++)
		all += tenancy.tenant[i].had;
	return (double)t->had / (double)all;
}

#define RULE(rule) TEST_BETWEEN(tenants_begin, tenants_stop, rule)

/* ---- shares ---- */

RULE(equal_weights_get_equal_time_whatever_their_packets_cost)
{
	struct tenant *cheap = tenant_add(1, 1, 0.5);
	struct tenant *dear = tenant_add(1, 100, 50);
	tenants_enter();
	tenants_run(300000);
	CU_ASSERT_DOUBLE_EQUAL(part(cheap), 0.5, 0.01);
	CU_ASSERT_DOUBLE_EQUAL(part(dear), 0.5, 0.01);
}

TEST(time_goes_by_weight)
{
	static const uint32_t weight[][3] = {{1, 3, 0}, {3, 1, 0}, {1, 2, 5}, {100, 1, 10}};

	for (unsigned k = 0; k < sizeof(weight) / sizeof(*weight); k++) {
		const double cost[] = {3, 40, 7};
		double all = 0;

		tenants_begin();
		for (unsigned i = 0; i < 3 && weight[k][i]; i++) {
			tenant_add(weight[k][i], cost[i], cost[i] / 2);
			all += weight[k][i];
		}
		tenants_enter();
		tenants_run(300000);
		for (unsigned i = 0; i < tenancy.tenants; i++)
			CU_ASSERT_DOUBLE_EQUAL(part(&tenancy.tenant[i]), weight[k][i] / all, 0.01);
		tenants_stop();
	}
}

RULE(a_tenant_that_needs_less_gets_all_and_others_the_rest)
{
	struct tenant *modest = tenant_add(1, 10, 100); /* a tenth, a third is due to it */
	tenant_add(1, 30, 20);
	tenant_add(1, 80, 60);
	tenants_enter();
	tenants_run(300000);
	CU_ASSERT_DOUBLE_EQUAL(part(modest), 0.1, 0.005);
	CU_ASSERT(modest->done + 3 >= modest->came);
	CU_ASSERT_DOUBLE_EQUAL(part(modest + 1), 0.45, 0.01);
	CU_ASSERT_DOUBLE_EQUAL(part(modest + 2), 0.45, 0.01);
}

RULE(the_worker_rests_only_when_nothing_waits)
{
	struct tenant *dear = tenant_add(1, 50, 20);
	tenant_add(1, 1, 900000); /* is there, and wants next to nothing */
	tenants_enter();
	tenants_run(50000);
	uint64_t before = dear->had;
	uint64_t began = tenancy.ticks;
	tenants_run(100000);
	CU_ASSERT((double)(dear->had - before) > 0.99 * (double)(tenancy.ticks - began));
	CU_ASSERT(sp_scheduler_packets(tenants_worker()) > 0);
	CU_ASSERT_EQUAL(sp_nic_next_deadline(dut.nic, 0), tenants_worker()->now);
}

RULE(who_wanted_nothing_has_saved_up_nothing)
{
	struct tenant *first = tenant_add(1, 10, 5);
	tenant_add(1, 10, 5);
	struct tenant *late = tenant_add(1, 10, 5);
	late->from = 200000 * tenancy.us;
	tenants_enter();
	tenants_run(200000);
	uint64_t before = first->had;
	uint64_t began = tenancy.ticks;
	tenants_run(3000);
	CU_ASSERT_DOUBLE_EQUAL((double)(first->had - before) / (double)(tenancy.ticks - began), 1 / 3.0, 0.03);
}

/* ---- latency ---- */

/* Of a light tenant, every packet's, beside so many heavy ones. */
static double light_beside(unsigned heavy, double cost, bool share, double *p99)
{
	tenants_begin();
	struct tenant *light = tenant_add(1, 1, 97);
	for (unsigned i = 0; i < heavy; i++)
		tenant_add(1, cost, cost / 2 + i)->from = 1000 * tenancy.us; /* then the light one is known as such */
	tenants_enter();
	if (!share)
		sp_scheduler_destroy(dut.nic);
	tenants_run(heavy ? 400000 : 100000);
	double most = tenant_quantile(light, 1);
	*p99 = tenant_quantile(light, 0.99);
	if (share)
		CU_ASSERT(light->done + 3 >= light->came);
	tenants_stop();
	return most;
}

TEST(a_light_one_waits_for_one_call_of_a_heavy_one_at_the_most)
{
	double alone, p99, most = light_beside(0, 0, true, &alone);

	CU_ASSERT(most <= 2);
	most = light_beside(1, 100, true, &p99);
	CU_ASSERT(most <= BOUND(100));
	CU_ASSERT(p99 - alone <= BOUND(100));
	CU_ASSERT(p99 - alone >= 50); /* it does wait: a call is not interrupted */
	printf("# light alone: p99 %.1f us; beside one of 100 us a packet: p99 %.1f, most %.1f us\n", alone, p99, most);
	light_beside(1, 100, false, &p99);
	CU_ASSERT(p99 > 10 * BOUND(100)); /* else the test shows nothing */
	printf("# without sharing: p99 %.1f us\n", p99);
}

TEST(a_light_tenant_beside_any_number_of_heavy_ones_waits_no_longer)
{
	double p99;

	CU_ASSERT(light_beside(3, 100, true, &p99) <= BOUND(100));
	CU_ASSERT(light_beside(20, 100, true, &p99) <= BOUND(100));
	CU_ASSERT(light_beside(20, 6, true, &p99) <= BOUND(6));
}

RULE(an_unknown_tenant_is_measured_with_one_packet)
{
	struct tenant *light = tenant_add(1, 1, 31);
	struct tenant *heavy = tenant_add(1, 500, 200);
	heavy->burst = 32;
	heavy->from = 5000 * tenancy.us;
	tenants_enter();
	tenants_run(10000);
	CU_ASSERT(heavy->done > 0);
	CU_ASSERT(tenant_quantile(light, 1) <= BOUND(500));
}

RULE(a_tenant_that_becomes_expensive_is_detected_and_charged)
{
	struct tenant *light = tenant_add(1, 2, 3);
	struct tenant *heavy = tenant_add(1, 1, 20);
	heavy->burst = 4;
	tenants_enter();
	tenants_run(20000);
	heavy->cost *= 300;
	tenants_run(5000); /* until what came before is through */
	light->had = heavy->had = 0;
	tenants_run(300000);
	CU_ASSERT_DOUBLE_EQUAL(part(light), 0.5, 0.02);
}

/* ---- what is not packets ---- */

RULE(slices_of_work_are_charged)
{
	struct tenant *worker = tenant_add(1, 10, 5);
	worker->slices = 20;
	worker->slice = 10 * tenancy.us;
	struct tenant *other = tenant_add(1, 10, 5);
	tenants_enter();
	tenants_run(300000);
	CU_ASSERT(worker->sliced > 1000);
	CU_ASSERT_DOUBLE_EQUAL(part(worker), 0.5, 0.02);
	CU_ASSERT_DOUBLE_EQUAL(part(other), 0.5, 0.02);
}

RULE(work_is_shared_whoever_has_more_of_it_or_longer_slices)
{
	struct tenant *many = tenant_add(1, 1, 0);
	many->slices = 200;
	many->slice = 10 * tenancy.us;
	struct tenant *few = tenant_add(3, 1, 0);
	few->slices = 1;
	few->slice = 30 * tenancy.us;
	tenants_enter();
	tenants_run(100000);
	CU_ASSERT_DOUBLE_EQUAL(part(many), 0.25, 0.01);
	CU_ASSERT_DOUBLE_EQUAL(part(few), 0.75, 0.01);
}

RULE(calls_of_issue_are_charged)
{
	struct tenant *sender = tenant_add(1, 10, 0);
	sender->issue = 200 * tenancy.us;
	struct tenant *other = tenant_add(1, 10, 5);
	tenant_add(1, 10, 5);
	tenants_enter();
	tenants_run(300000);
	CU_ASSERT(sender->issued > 100);
	CU_ASSERT_DOUBLE_EQUAL(part(sender), 1 / 3.0, 0.02);
	CU_ASSERT_DOUBLE_EQUAL(part(other), 1 / 3.0, 0.02);
}

RULE(a_poll_does_not_make_all_calls_of_issue)
{
	struct tenant *light = tenant_add(1, 1, 97);
	for (unsigned i = 0; i < 8; i++)
		tenant_add(1, 10, 0)->issue = 100 * tenancy.us;
	tenants_enter();
	tenants_run(100000);
	CU_ASSERT(tenant_quantile(light, 1) <= BOUND(100));
	for (unsigned i = 1; i < tenancy.tenants; i++) /* and they take turns */
		CU_ASSERT(tenancy.tenant[i].issued + 2 >= tenancy.tenant[1].issued);
}

/* ---- the backlog ---- */

static uint64_t wrong;

static void count_wrong(void)
{
	wrong += tenants_lost();
}

RULE(the_backlog_is_bounded_and_has_always_room_for_another_one)
{
	for (unsigned i = 0; i < 12; i++)
		tenant_add(1, 100, 5);
	struct tenant *last = tenant_add(1, 15, 5000);
	last->burst = 20; /* more than its part at once, but little on the whole */
	last->from = 100000 * tenancy.us;
	tenants_enter();
	wrong = 0;
	tenancy.look = count_wrong;
	tenants_run(200000);
	CU_ASSERT_EQUAL(wrong, 0);
	CU_ASSERT(tenancy.backlog_most > SP_BACKLOG / 2);
	CU_ASSERT(tenancy.backlog_most <= SP_BACKLOG);
	CU_ASSERT(last->done > 100);
	CU_ASSERT_EQUAL(tenant_view(last)->backlog_full, 0);
	tenants_settle();
}

RULE(one_context_has_no_more_than_its_part_of_the_backlog)
{
	unsigned most = 0;

	struct tenant *dear = tenant_add(1, 100, 5);
	tenant_add(1, 1, 97);
	tenants_enter();
	for (unsigned i = 0; i < 2000; i++) {
		tenants_poll(UINT64_MAX);
		if (tenant_view(dear)->entity->backlog.count > most)
			most = tenant_view(dear)->entity->backlog.count;
	}
	CU_ASSERT(most >= SP_BACKLOG_CONTEXT - 1 && most <= SP_BACKLOG_CONTEXT); /* a poll ends with one served */
}

RULE(packets_without_room_are_dropped_by_name_and_counted_for_their_context)
{
	struct tenant *dear = tenant_add(1, 100, 5);
	struct tenant *dearer = tenant_add(1, 200, 5);
	struct tenant *light = tenant_add(1, 1, 97);
	tenants_enter();
	tenants_run(100000);
	tenants_settle();
	uint64_t full = sp_nic_dropped(dut.nic, "backlog-full");
	CU_ASSERT(tenant_view(dear)->backlog_full > 1000);
	CU_ASSERT(tenant_view(dearer)->backlog_full > 1000);
	CU_ASSERT_EQUAL(tenant_view(dear)->backlog_full, tenant_view(dear)->dropped);
	CU_ASSERT_EQUAL(tenant_view(light)->backlog_full, 0);
	CU_ASSERT_EQUAL(full, tenant_view(dear)->backlog_full + tenant_view(dearer)->backlog_full);
	CU_ASSERT_EQUAL(dear->came, dear->done + tenant_view(dear)->backlog_full);
	CU_ASSERT_EQUAL(light->came, light->done);
}

RULE(a_removed_context_takes_its_waiting_packets_with_it)
{
	struct sp_nic_totals t;

	struct tenant *dear = tenant_add(1, 100, 5);
	struct tenant *light = tenant_add(1, 1, 97);
	tenant_add(1, 80, 50);
	tenants_enter();
	tenants_run(20000);
	uint64_t waited = tenant_view(dear)->entity->backlog.count;
	CU_ASSERT(waited > 100);
	dear->every = 0;
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, dear->id), 0);
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "context-closed"), waited);
	CU_ASSERT_EQUAL(tenants_lost(), 0);
	tenants_run(20000);
	CU_ASSERT(light->done + 3 >= light->came);
	sp_nic_totals(dut.nic, &t);
	CU_ASSERT(t.parked > 0);
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, tenancy.tenant[2].id), 0);
	tenancy.tenant[2].every = 0;
}

TEST(a_nic_that_ends_releases_waiting_packets)
{
	tenants_begin();
	tenant_add(1, 100, 5);
	tenant_add(1, 1, 97);
	tenants_enter();
	tenants_run(20000);
	CU_ASSERT(sp_scheduler_packets(tenants_worker()) > 100);
	tenants_stop(); /* counts packet buffers */
}

/* ---- where it does not apply ---- */

RULE(a_context_without_others_leaves_what_it_cannot_do_at_the_port)
{
	struct tenant *dear = tenant_add(1, 100, 5);
	tenants_enter();
	tenants_run(100000);
	CU_ASSERT_EQUAL(tenancy.backlog_most, 0);
	CU_ASSERT_EQUAL(tenant_view(dear)->dropped, 0);
	CU_ASSERT(dear->missed > 1000);
}

RULE(while_there_is_time_for_all_nothing_waits)
{
	tenant_add(1, 1, 10);
	tenant_add(1, 2, 15);
	tenant_add(1, 5, 40);
	tenants_enter();
	tenants_run(100000);
	CU_ASSERT_EQUAL(tenancy.backlog_most, 0);
}

RULE(without_a_clock_nobody_waits)
{
	tenant_add(1, 100, 5);
	tenant_add(1, 1, 97);
	dut.config.cycles = NULL;
	tenants_enter();
	CU_ASSERT_PTR_NULL(tenants_worker()->scheduler);
	tenants_run(20000);
}

/* ---- whoever looks on ---- */

static struct {
	unsigned arrived, matched, taken, full;
} told;

static void arrived(void *arg, const struct sp_packet *p, int parsed, sp_time now)
{
	told.arrived++;
}

static void matched(void *arg, const struct sp_packet *p, const char *context, const char *handler)
{
	told.matched++;
}

static void fate(void *arg, const struct sp_packet *p, enum sp_capture_fate what, const char *reason)
{
	told.taken += what == SP_CAPTURE_TAKEN;
	told.full += what == SP_CAPTURE_DROPPED && !strcmp(reason, "backlog-full");
}

TEST(a_watch_is_told_of_a_packet_that_waits_once)
{
	static const struct sp_tracer watch = {.arrived = arrived, .matched = matched, .fate = fate};
	struct sp_nic_totals t;

	memset(&told, 0, sizeof(told));
	tenants_begin();
	tenant_add(1, 100, 5);
	tenant_add(1, 1, 97);
	tenants_enter();
	while (sp_nic_context_remove(dut.nic, tenancy.tenant[0].id) == 0)
		sp_nic_context_remove(dut.nic, tenancy.tenant[1].id);
	CU_ASSERT_EQUAL_FATAL(sp_nic_trace(dut.nic, &watch), 0);
	for (unsigned i = 0; i < 2; i++)
		tenancy.tenant[i].id =
			dut_context(&dut, i ? "b" : "a", "tenant", i ? "qp=65;index=1" : "qp=64;index=0");
	tenants_run(20000);
	CU_ASSERT(sp_scheduler_packets(tenants_worker()) > 0);
	tenants_settle();
	sp_nic_totals(dut.nic, &t);
	CU_ASSERT_EQUAL(told.arrived, t.received);
	CU_ASSERT_EQUAL(told.matched, t.received);
	CU_ASSERT_EQUAL(told.taken, t.taken);
	CU_ASSERT(told.full > 100);
	CU_ASSERT_EQUAL(told.full, t.dropped);
	tenants_stop();
}
