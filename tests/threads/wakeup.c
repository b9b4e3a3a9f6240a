/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleeping applications and the workers that have news for them, in threads of their own: a wake-up that is lost is a
 * sleep that does not end, and what the pipeline says is ordered but is not is a race for ThreadSanitizer.
 */
#include <sched.h>
#include <stdatomic.h>

#include "../../pipeline/exec/rings.h"
#include "../lib/dut.h"
#include "../lib/ports.h"

#define ROUNDS suite_times(100000)
#define LONG   (60 * SP_SEC) /* a sleep that long has missed its wake-up */

enum { CMD_STORE = SP_CMD_OWN, CMD_EVENT, CMD_PROGRESS };

static int echo_configure(struct sp_ctx *c, uint64_t *area)
{
	*area = 4096;
	return 0;
}

static int echo_attach(struct sp_ctx *c)
{
	const struct sp_mem **area = c->state;

	*area = sp_host_area(c);
	return *area ? 0 : -ENOMEM;
}

static int echo_command(struct sp_ctx *c, const struct sp_command *cmd, struct sp_event *event)
{
	const struct sp_mem **area = c->state;

	if (cmd->arg[1] || cmd->op == CMD_PROGRESS) { /* before the rest, or all that there is */
		const int r = sp_dma_progress64(c, *area, 8, cmd->arg[0]);

		if (r || cmd->op == CMD_PROGRESS)
			return r;
	}
	if (cmd->op == CMD_STORE)
		return sp_dma_store64(c, *area, 0, cmd->arg[0]);
	return sp_event_post(c, &(struct sp_event){.type = SP_EVENT_OWN, .arg = {cmd->arg[0]}});
}

static const struct sp_handler echo = {
	SP_HANDLER_HEAD,       .name = "echo",	       .ctx_size = sizeof(struct sp_mem *), .configure = echo_configure,
	.attach = echo_attach, .command = echo_command};
SP_HANDLER(echo)

/* One application: its own device and context, used by its own thread. */
struct sleeper {
	pthread_t thread;
	uint32_t qp;
	uint64_t seed;
	struct sp_device *device;
	struct sp_dev *dev;
	uint64_t todo, rounds, slept, lost, wrong;
} __attribute__((aligned(64)));

/* A port with nothing on it, for any number of workers at once. */
static const struct sp_port_ops silence = {
	.receive = port_hear_nothing, .transmit = port_hear_nothing, .next = port_never};

static void prepare_nic(uint16_t workers)
{
	dut_prepare(&dut, workers);
	dut.config.port[0].ops = &silence;
	dut.config.idle = workers == 1 ? SP_IDLE_SPIN : SP_IDLE_YIELD;
	dut_create(&dut);
}

static void start(uint16_t workers)
{
	prepare_nic(workers);
	CU_ASSERT_EQUAL_FATAL(sp_nic_start(dut.nic), 0);
}

/* Progress is waited for by those alone who arm for anything; they may have armed for less before. */
static bool arm(struct sleeper *s, uint16_t op)
{
	const enum sp_arm what = op == CMD_PROGRESS || dut_random(&s->seed) % 2 ? SP_ARM_ANY : SP_ARM_RECEIVE;

	if (what == SP_ARM_ANY && dut_random(&s->seed) % 2 && sp_dev_arm_for(s->dev, SP_ARM_RECEIVE))
		return false;
	return !sp_dev_arm_for(s->dev, what);
}

static void *sleeper_main(void *arg)
{
	struct sleeper *s = arg;
	char qp[16];
	struct sp_setting setting[] = {{"qp", qp}};
	struct sp_command cmd = {0};
	void *area;
	uint64_t len;

	snprintf(qp, sizeof(qp), "%u", s->qp);
	if (sp_context_open(s->dev, "c", "echo", setting, 1, &cmd.context, NULL) ||
	    sp_context_area(s->dev, cmd.context, &area, &len)) {
		s->wrong++;
		return NULL;
	}
	for (; s->rounds < s->todo && !s->lost && !s->wrong; s->rounds++) {
		uint64_t pause = dut_random(&s->seed) % (1u << dut_random(&s->seed) % 13);
		struct sp_event e;
		bool first = true;

		cmd.op = (uint16_t[]){CMD_STORE, CMD_EVENT, CMD_PROGRESS}[dut_random(&s->seed) % 3];
		cmd.arg[0] = s->rounds + 1;
		cmd.arg[1] = dut_random(&s->seed) % 2;
		if (sp_command_post(s->dev, &cmd))
			s->wrong++;
		while (pause--) /* so that the worker comes now before, now after the arming */
			__asm__ volatile("" ::: "memory");
		for (;; first = false) {
			if (cmd.op == CMD_STORE && __atomic_load_n((uint64_t *)area, __ATOMIC_ACQUIRE) == cmd.arg[0])
				break;
			if (cmd.op == CMD_PROGRESS &&
			    __atomic_load_n((uint64_t *)area + 1, __ATOMIC_ACQUIRE) == cmd.arg[0])
				break;
			if (cmd.op == CMD_EVENT && sp_event_take(s->dev, cmd.context, &e) == 1) {
				s->wrong += e.arg[0] != cmd.arg[0];
				break;
			}
			if (first) {
				if (!arm(s, cmd.op))
					s->wrong++;
				continue;
			}
			s->slept++;
			int r = sp_dev_wait(s->dev, LONG);
			if (r) {
				s->lost++;
				break;
			}
			arm(s, cmd.op); /* it may have been for nothing */
		}
	}
	return NULL;
}

static void sleep_and_wake(struct sleeper *s, unsigned n, bool attached)
{
	for (unsigned i = 0; i < n; i++) {
		s[i] = (struct sleeper){.qp = 16 + i, .seed = 5 + i, .todo = ROUNDS / n};
		if (attached) {
			CU_ASSERT_EQUAL_FATAL(sp_device_create(dut.nic, true, NULL, &s[i].device), 0);
			s[i].dev = &s[i].device->pub;
		} else {
			CU_ASSERT_EQUAL_FATAL(sp_nic_dev(dut.nic, false, &s[i].dev), 0);
		}
	}
	for (unsigned i = 0; i < n; i++)
		CU_ASSERT_EQUAL_FATAL(pthread_create(&s[i].thread, NULL, sleeper_main, &s[i]), 0);
	for (unsigned i = 0; i < n; i++) {
		pthread_join(s[i].thread, NULL);
		printf("# %llu rounds, slept %llu times\n", (unsigned long long)s[i].rounds,
		       (unsigned long long)s[i].slept);
		CU_ASSERT_EQUAL(s[i].rounds, s[i].todo);
		CU_ASSERT(s[i].slept > 0);
		CU_ASSERT_EQUAL(s[i].lost, 0);
		CU_ASSERT_EQUAL(s[i].wrong, 0);
	}
	for (unsigned i = 0; i < n; i++)
		sp_dev_close(s[i].dev);
}

TEST(no_wake_up_is_lost)
{
	struct sleeper s[1];

	start(1);
	sleep_and_wake(s, 1, false);
	dut_stop(&dut);
}

TEST(no_wake_up_is_lost_among_several_applications_and_workers)
{
	struct sleeper s[3];

	start(2);
	sleep_and_wake(s, 3, true);
	dut_stop(&dut);
}

/* ---- a post while the worker parks the application ---- */

/* Each round posts at another moment before, while or after the worker parks the application. A post that is missed is
 * never answered. */
TEST(no_post_is_lost_while_its_application_is_parked)
{
	const uint64_t rounds = getenv("SPINDLE_LONG") ? 100000000 : suite_times(4000000) / 4;
	struct sp_setting setting[] = {{"qp", "16"}};
	struct sp_command cmd = {.op = CMD_STORE};
	const uint64_t longest = suite_times(4) == 4 ? 4096 : 65536; /* ThreadSanitizer's polls take longer, too */
	uint64_t done = 0, parked = 0, seed = 7, len;
	const uint32_t *flag;
	struct sp_dev *dev;
	void *area;

	prepare_nic(1);
	dut.nic->park_after = 4;
	dut.nic->config.idle = SP_IDLE_YIELD;
	CU_ASSERT_EQUAL_FATAL(sp_nic_start(dut.nic), 0);
	CU_ASSERT_EQUAL_FATAL(sp_nic_dev(dut.nic, false, &dev), 0);
	CU_ASSERT_EQUAL_FATAL(sp_context_open(dev, "c", "echo", setting, 1, &cmd.context, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(sp_context_area(dev, cmd.context, &area, &len), 0);
	flag = &((struct sp_device *)dev)->commands[0].page->parked;
	for (; done < rounds; done++) {
		uint64_t pause = dut_random(&seed) % longest, spins = 0;
		sp_time began = 0;

		while (pause--)
			__asm__ volatile("" ::: "memory");
		cmd.arg[0] = done + 1;
		parked += __atomic_load_n(flag, __ATOMIC_RELAXED);
		if (sp_command_post(dev, &cmd))
			break;
		while (__atomic_load_n((uint64_t *)area, __ATOMIC_ACQUIRE) != cmd.arg[0])
			if (++spins % 8192 == 0) {
				sched_yield();
				began = began ? began : sp_clock();
				if (sp_clock() - began > LONG)
					goto lost;
			}
	}
lost:
	printf("# %llu posts, %llu of them when parked\n", (unsigned long long)done, (unsigned long long)parked);
	CU_ASSERT_EQUAL(done, rounds);
	CU_ASSERT(parked > rounds / 1000 && parked < rounds);
	sp_dev_close(dev);
	dut_stop(&dut);
}

/* ---- the NIC ends contexts that are in use ---- */

static _Atomic uint32_t victim;
static _Atomic bool done;

static void *remover(void *arg)
{
	uint64_t seed = 11;
	while (!atomic_load(&done)) {
		uint32_t id = atomic_exchange(&victim, 0);

		for (uint64_t i = dut_random(&seed) % 4; i; i--)
			sched_yield();
		if (id)
			sp_nic_context_remove(dut.nic, id);
		else
			sched_yield();
	}
	return NULL;
}

TEST(a_context_may_be_ended_while_its_application_uses_it)
{
	struct sp_setting setting[] = {{"qp", "16"}};
	uint64_t wrong = 0, seed = 3;
	struct sp_dev *dev;
	pthread_t thread;

	start(2);
	CU_ASSERT_EQUAL_FATAL(sp_nic_dev(dut.nic, false, &dev), 0);
	atomic_store(&done, false);
	CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, remover, NULL), 0);
	for (unsigned i = 0; i < 500; i++) {
		struct sp_command cmd = {.op = CMD_EVENT};
		struct sp_event e;
		uint64_t len;
		void *area;
		int r = 0;

		CU_ASSERT_EQUAL_FATAL(sp_context_open(dev, "c", "echo", setting, 1, &cmd.context, NULL), 0);
		CU_ASSERT_EQUAL_FATAL(sp_context_area(dev, cmd.context, &area, &len), 0);
		CU_ASSERT_EQUAL(sp_dev_arm(dev), 0);
		atomic_store(&victim, cmd.context);
		while (r != -ECONNRESET) {
			r = sp_command_post(dev, &cmd);
			wrong += r && r != -EAGAIN && r != -ECONNRESET;
			r = sp_event_take(dev, cmd.context, &e);
			wrong += r < 0 && r != -ECONNRESET;
			wrong += __atomic_load_n((uint64_t *)area, __ATOMIC_ACQUIRE) != 0;
			if (dut_random(&seed) % 8 == 0)
				sp_command_call(dev, &cmd, NULL);
		}
		wrong += sp_dev_wait(dev, LONG) != 0; /* the end, too, wakes */
		CU_ASSERT_EQUAL(sp_context_close(dev, cmd.context), 0);
	}
	atomic_store(&done, true);
	pthread_join(thread, NULL);
	CU_ASSERT_EQUAL(wrong, 0);
	sp_dev_close(dev);
	dut_stop(&dut);
}
