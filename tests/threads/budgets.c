/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Budgets with workers in threads of their own: each overruns, disables the context for the others, finds it disabled
 * by them, and somebody reads what the meters say meanwhile. What is not said by relaxed atomics is a race for
 * ThreadSanitizer; what a packet becomes is one thing only.
 */
#include <sched.h>

#include "../../pipeline/exec/measure.h"
#include "../lib/dut.h"

#define WORKERS 2
#define PACKETS 3000

/* A port whose queues have nothing in common. */
static struct dut_port apart[WORKERS];

static unsigned receive(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	return dut_receive((struct dut_port *)port + queue, queue, packet, max, now);
}

static unsigned transmit(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned count, sp_time now)
{
	return dut_transmit((struct dut_port *)port + queue, queue, packet, count, now);
}

static sp_time next(void *port, uint16_t queue, bool blocked)
{
	return dut_next((struct dut_port *)port + queue, queue, blocked);
}

static const struct sp_port_ops ops = {.receive = receive, .transmit = transmit, .next = next};

struct state {
	struct sp_timer timer;
	uint64_t ticks;
	_Atomic uint64_t calls;
};

static int attach(struct sp_ctx *c)
{
	struct state *s = c->state;

	return sp_timer_arm(c, &s->timer, c->now + SP_MS);
}

static void timer(struct sp_ctx *c, struct sp_timer *t)
{
	((struct state *)c->state)->ticks++;
	sp_timer_arm(c, t, c->now + SP_MS);
}

static uint32_t payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	struct state *s = c->state;
	atomic_fetch_add_explicit(&s->calls, 1, memory_order_relaxed);
	return SP_DONE;
}

static const struct sp_handler spender = {SP_HANDLER_HEAD,  .name = "spender", .ctx_size = sizeof(struct state),
					  .attach = attach, .timer = timer,    .payload = payload};
SP_HANDLER(spender)

/* Every call costs more than a cycle. */
static void both_workers_overrun(const char *overrun, bool once)
{
	struct sp_nic_totals t = {0};
	struct frame f;
	char settings[64];

	dut_prepare(&dut, WORKERS);
	dut.config.port[0].ops = &ops;
	dut.config.port[0].ops_arg = apart;
	dut_create(&dut);
	snprintf(settings, sizeof(settings), "qp=16;budget=1;overrun=%s", overrun);
	uint32_t id = dut_context(&dut, "a", "spender", settings);
	struct sp_context *c = sp_context_by_id(dut.nic, id);
	dut_roce(&f, FRAME_IP4, 16, 0, NULL, 8);
	/* Some a millisecond, so that they come between pauses as well. */
	for (unsigned i = 0; i < PACKETS; i++)
		dut_feed_bytes(&apart[i % WORKERS], (uint16_t)(i % WORKERS), sp_clock() + i / 20 * SP_MS, f.bytes,
			       f.len);
	CU_ASSERT_EQUAL(sp_nic_start(dut.nic), 0);
	while (t.received < PACKETS) {
		sp_nic_totals(dut.nic, &t);
		CU_ASSERT_EQUAL(t.received, t.taken + t.forwarded + t.dropped + t.parked);
		if (once && t.received > PACKETS / 2)
			sp_context_disable(c, SP_NEVER - 1); /* by a thread that is no worker */
		sched_yield();
	}
	sp_nic_stop(dut.nic);
	CU_ASSERT_EQUAL(((struct state *)c->state)->calls, dut_view(&dut, id, packets));
	CU_ASSERT_EQUAL(dut_view(&dut, id, packets) + dut_view(&dut, id, dropped), PACKETS);
	CU_ASSERT_EQUAL(dut_view(&dut, id, dropped), dut_view(&dut, id, over_budget) + dut_view(&dut, id, disabled));
	CU_ASSERT(dut_view(&dut, id, dropped) > 0);
	CU_ASSERT_EQUAL(dut_view(&dut, id, meter.packets), dut_view(&dut, id, packets));
	if (!strcmp(overrun, "disable")) {
		CU_ASSERT_EQUAL(dut_view(&dut, id, over_budget), 0);
		CU_ASSERT_EQUAL(c->view[0]->meter.until, c->view[1]->meter.until);
		CU_ASSERT(dut_view(&dut, id, meter.disabled) >= 1);
		/* Whoever finds it disabled already counts no other one. */
		CU_ASSERT(dut_view(&dut, id, meter.disabled) <= dut_view(&dut, id, meter.overruns));
	} else {
		CU_ASSERT_EQUAL(dut_view(&dut, id, disabled), once ? dut_view(&dut, id, disabled) : 0);
		CU_ASSERT_EQUAL(dut_view(&dut, id, meter.disabled), 0);
	}
	if (once)
		CU_ASSERT(c->view[0]->meter.until == SP_NEVER - 1 && c->view[1]->meter.until == SP_NEVER - 1);
	sp_nic_totals(dut.nic, &t);
	CU_ASSERT_EQUAL(t.received, PACKETS);
	CU_ASSERT_EQUAL(t.taken + t.dropped, PACKETS);
	for (unsigned w = 0; w < WORKERS; w++)
		dut_port_free(&apart[w]);
	dut_stop(&dut);
}

TEST_CALL(workers_that_overrun_disable_the_context_together, both_workers_overrun("disable", false))
TEST_CALL(each_worker_has_its_own_debts, both_workers_overrun("drop", false))
TEST_CALL(another_thread_may_disable_the_context_for_longer, both_workers_overrun("disable", true))
