/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Workers that sleep without end: who has something for one has to wake it. A wake-up that is lost is a wait that does
 * not end, and what is not ordered is a race for ThreadSanitizer.
 */
#include <sched.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "../../pipeline/exec/rings.h"
#include "../lib/dut.h"
#include "../lib/ports.h"

#define ROUNDS suite_times(3000)
#define LONG   (60 * SP_SEC) /* a wait that long has missed its wake-up */

enum { CMD_ADD = SP_CMD_OWN };

/* ---- a handler: counts what reaches its home worker ---- */
static _Atomic uint64_t heard;

struct counts {
	struct sp_issue issue;
	_Atomic uint32_t wanted;
};

static uint32_t sleep_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	struct counts *s = c->state;

	atomic_fetch_add(&s->wanted, 1);
	sp_issue_start(c, &s->issue); /* of the home worker */
	return SP_DONE;
}

static int sleep_command(struct sp_ctx *c, const struct sp_command *cmd, struct sp_event *event)
{
	atomic_fetch_add(&heard, 1);
	return 0;
}

static int sleep_issue(struct sp_ctx *c, struct sp_issue *i, unsigned budget)
{
	struct counts *s = c->state;

	atomic_fetch_add(&heard, atomic_exchange(&s->wanted, 0));
	return SP_ISSUE_DONE;
}

#define HANDLER(id, text, how)                                                                                         \
	static const struct sp_handler id = {SP_HANDLER_HEAD,                                                          \
					     .name = text,                                                             \
					     .ctx_size = sizeof(struct counts),                                        \
					     .flags = how,                                                             \
					     .payload = sleep_payload,                                                 \
					     .command = sleep_command,                                                 \
					     .issue = sleep_issue};                                                    \
	SP_HANDLER(id)
HANDLER(sleep_any, "sleep-any", 0)
HANDLER(sleep_home, "sleep-home", SP_HANDLER_HOME)

/* ---- a port whose packets come by the first queue, one at a time ---- */
static struct rte_mbuf *_Atomic next;
static int bell[DUT_QUEUES];

static unsigned door_receive(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	if (queue)
		return 0;
	*packet = atomic_load_explicit(&next, memory_order_relaxed) ? atomic_exchange(&next, NULL) : NULL;
	return *packet != NULL;
}

static int door_descriptor(void *port, uint16_t queue)
{
	return bell[queue];
}

static const struct sp_port_ops door = {
	.receive = door_receive, .transmit = port_swallow, .next = port_never, .descriptor = door_descriptor};

static void start(uint16_t workers)
{
	for (unsigned i = 0; i < DUT_QUEUES; i++)
		bell[i] = eventfd(0, EFD_NONBLOCK);
	atomic_store(&heard, 0);
	dut_prepare(&dut, workers);
	dut.config.port[0].ops = &door;
	dut.config.idle = SP_IDLE_SLEEP;
	dut_create(&dut);
	dut.nic->sleep_most = SP_NEVER;
}

static void end(void)
{
	sp_nic_stop(dut.nic);
	dut_stop(&dut);
	for (unsigned i = 0; i < DUT_QUEUES; i++)
		close(bell[i]);
}

/* ---- what others do for a worker, before, while and after it falls asleep ---- */

static void pause_somewhat(uint64_t *seed)
{
	const unsigned us = (unsigned)(dut_random(seed) % (dut_random(seed) % 4 ? 100 : 1500));
	const sp_time until = sp_clock() + us * SP_US;

	while (sp_clock() < until)
		sched_yield();
}

/* One round in sixteen waits until all sleep: under a sanitizer a worker may be too slow for the pauses above. */
static void pause_before(uint64_t round, uint64_t *seed)
{
	const sp_time until = sp_clock() + LONG;

	for (uint16_t i = 0; round % 16 == 0 && i < dut.nic->workers; i++)
		while (!atomic_load(&dut.nic->worker[i]->asleep) && sp_clock() < until)
			usleep(100);
	pause_somewhat(seed);
}

static bool reached(uint64_t count)
{
	const sp_time until = sp_clock() + LONG;

	while (atomic_load(&heard) != count && sp_clock() < until)
		sched_yield();
	return atomic_load(&heard) == count;
}

static void slept(uint64_t rounds)
{
	uint64_t n = 0;

	sp_nic_stop(dut.nic);
	for (uint16_t i = 0; i < dut.nic->workers; i++)
		n += dut.nic->worker[i]->sleeps;
	printf("# %llu rounds, %llu sleeps\n", (unsigned long long)rounds, (unsigned long long)n);
	CU_ASSERT(n > 0);
}

/* A packet comes by worker 0; worker 1 is home of its context, which gets the packet itself, or an issue. */
static void packets_to(const char *handler)
{
	struct frame f;
	uint64_t seed = 3, done = 0;

	start(2);
	dut_context(&dut, "first", handler, "qp=16");
	dut_context(&dut, "second", handler, "qp=17");
	CU_ASSERT_EQUAL_FATAL(sp_nic_start(dut.nic), 0);
	dut_roce(&f, FRAME_IP4, 17, 0, "", 1);
	for (; done < ROUNDS; done++) {
		struct rte_mbuf *m = sp_packet_alloc();

		CU_ASSERT_PTR_NOT_NULL_FATAL(m);
		memcpy(rte_pktmbuf_append(m, (uint16_t)f.len), f.bytes, f.len);
		pause_before(done, &seed);
		atomic_store(&next, m);
		eventfd_write(bell[0], 1);
		if (!reached(done + 1))
			break;
	}
	CU_ASSERT_EQUAL(done, ROUNDS);
	slept(done);
	end();
}

TEST(a_packet_for_a_worker_that_sleeps_wakes_it)
{
	packets_to("sleep-home");
}

TEST(an_issue_for_a_worker_that_sleeps_wakes_it)
{
	packets_to("sleep-any");
}

TEST(a_command_for_a_worker_that_sleeps_wakes_it)
{
	struct sp_command cmd = {.op = CMD_ADD};
	struct sp_setting setting[] = {{"qp", "16"}};
	uint64_t seed = 5, done = 0;
	struct sp_dev *dev;

	start(2);
	CU_ASSERT_EQUAL_FATAL(sp_nic_start(dut.nic), 0);
	CU_ASSERT_EQUAL_FATAL(sp_nic_dev(dut.nic, false, &dev), 0);
	CU_ASSERT_EQUAL_FATAL(sp_context_open(dev, "c", "sleep-any", setting, 1, &cmd.context, NULL), 0);
	for (; done < ROUNDS; done++) {
		pause_before(done, &seed);
		CU_ASSERT_EQUAL(sp_command_post(dev, &cmd), 0);
		if (!reached(done + 1))
			break;
	}
	CU_ASSERT_EQUAL(done, ROUNDS);
	sp_dev_close(dev);
	slept(done);
	end();
}

/* They do not come back otherwise. */
TEST(control_calls_wake_workers_that_sleep)
{
	const unsigned rounds = ROUNDS / 20;
	uint64_t seed = 7;

	start(2);
	CU_ASSERT_EQUAL_FATAL(sp_nic_start(dut.nic), 0);
	for (unsigned i = 0; i < rounds; i++) {
		pause_before(i, &seed);
		uint32_t id = dut_context(&dut, "c", "sleep-home", "qp=16");
		pause_somewhat(&seed);
		sp_nic_context_remove(dut.nic, id);
	}
	slept(rounds);
	end();
}
