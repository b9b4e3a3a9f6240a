/* SPDX-License-Identifier: BSD-3-Clause */
/* When an application is woken or parked, and that no application's descriptors hold up another one. */
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "../lib/remote_app.h"

static int readable(int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, ms);
}

static int waiting(const struct sp_device *d)
{
	int n = -1;

	CU_ASSERT_EQUAL(ioctl(d->door.application, FIONREAD, &n), 0);
	return n;
}

static int post(struct sp_device *d, uint32_t id, uint16_t op, uint64_t arg)
{
	struct sp_command cmd = {.op = op, .context = id, .arg = {arg}};

	return sp_command_post(&d->pub, &cmd);
}

/* The workers have gone round since: what they had to ring has been marked. */
static void gone_round(struct sp_device *d, uint32_t id)
{
	for (unsigned i = 0; i < 3; i++)
		CU_ASSERT_EQUAL(remote_call(d, id, CMD_NOTE, 0), 0);
}

static void start_with_threads(void)
{
	dut_start(&dut, 1);
	CU_ASSERT_EQUAL_FATAL(sp_nic_start(dut.nic), 0);
}

TEST(an_application_is_woken_once_when_it_has_asked_and_not_else)
{
	static const uint16_t cause[] = {CMD_EVENTS, CMD_STORE, CMD_OR, CMD_ADD};
	struct sp_mr *mr;

	start_with_threads();
	struct sp_device *d = remote_attach(0, 0, 0, 0);
	struct sp_device *other = remote_attach(0, 0, 0, 0);
	uint32_t id = remote_opened(d, "qp=16;area=4096");
	uint32_t quiet = remote_opened(other, "qp=17;area=4096");
	for (unsigned i = 0; i < 4; i++) {
		CU_ASSERT_EQUAL(remote_call(d, id, cause[i], 1), 0);
		gone_round(d, id);
		CU_ASSERT_EQUAL(atomic_load(&d->door.due), 0); /* has not asked */
		CU_ASSERT_EQUAL(waiting(d), 0);
		CU_ASSERT_EQUAL(sp_dev_arm(&other->pub), 0);
		CU_ASSERT_EQUAL(sp_dev_arm(&d->pub), 0);
		CU_ASSERT_EQUAL(remote_call(d, id, CMD_NOTE, 1), 0); /* nothing that an application waits for */
		gone_round(d, id);
		CU_ASSERT_EQUAL(atomic_load(&d->door.due), 0);
		CU_ASSERT_EQUAL(waiting(d), 0);
		CU_ASSERT_EQUAL(remote_call(d, id, cause[i], 3), 0);
		CU_ASSERT_EQUAL(readable(sp_dev_fd(&d->pub), 10000), 1);
		CU_ASSERT_EQUAL(d->door.bell->armed, 0);
		CU_ASSERT_EQUAL(remote_call(d, id, cause[i], 3), 0); /* once per arming */
		gone_round(d, id);
		CU_ASSERT_EQUAL(atomic_load(&d->door.due), 0);
		CU_ASSERT_EQUAL(waiting(d), 1);
		CU_ASSERT_EQUAL(waiting(other), 0); /* nobody else */
		CU_ASSERT_EQUAL(sp_dev_arm(&d->pub), 0);
		CU_ASSERT_EQUAL(waiting(d), 0);
		__atomic_store_n(&d->door.bell->armed, 0, __ATOMIC_SEQ_CST);
	}
	/* A region is no area: it may change all the time. */
	CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(&d->pub, 4096, &mr), 0);
	CU_ASSERT_EQUAL(sp_dev_arm(&d->pub), 0);
	CU_ASSERT_EQUAL(remote_call(d, id, CMD_WRITE, mr->id), 0);
	gone_round(d, id);
	CU_ASSERT_EQUAL(waiting(d), 0);
	/* The end of a context is news, also for one that sleeps. */
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, quiet), 0);
	CU_ASSERT_EQUAL(readable(sp_dev_fd(&other->pub), 10000), 1);
	sp_dev_close(&d->pub);
	sp_dev_close(&other->pub);
	dut_stop(&dut);
}

/* Rounds of the same: the application sends, and its answer comes. Counts its wake-ups until it has that. */
static unsigned woken_in(struct sp_device *d, uint32_t id, enum sp_arm what, unsigned messages)
{
	unsigned woken = 0;
	void *area;
	uint64_t len;

	CU_ASSERT_EQUAL(sp_context_area(&d->pub, id, &area, &len), 0);
	for (unsigned i = 1; i <= messages; i++) {
		CU_ASSERT_EQUAL(sp_dev_arm_for(&d->pub, what), 0);
		CU_ASSERT_EQUAL(remote_call(d, id, CMD_PROGRESS, i), 0); /* what it has sent is sent */
		gone_round(d, id);
		if (readable(sp_dev_fd(&d->pub), what == SP_ARM_ANY ? 10000 : 0)) {
			woken++;
			CU_ASSERT_EQUAL(sp_dev_arm_for(&d->pub, what), 0);
		}
		CU_ASSERT_EQUAL(*(uint64_t *)((uint8_t *)area + 8), i); /* whoever looks sees it */
		CU_ASSERT_EQUAL(remote_call(d, id, CMD_STORE, 0), 0);	/* the answer */
		woken += (unsigned)readable(sp_dev_fd(&d->pub), 10000);
	}
	return woken;
}

TEST(one_that_waits_for_what_it_receives_is_woken_once_a_message)
{
	start_with_threads();
	struct sp_device *d = remote_attach(0, 0, 0, 0);
	uint32_t id = remote_opened(d, "qp=16;area=4096");

	CU_ASSERT_EQUAL(woken_in(d, id, SP_ARM_ANY, 20), 40);
	CU_ASSERT_EQUAL(woken_in(d, id, SP_ARM_RECEIVE, 20), 20);
	CU_ASSERT_EQUAL(sp_dev_arm_for(&d->pub, 0), -EINVAL);
	CU_ASSERT_EQUAL(sp_dev_arm_for(&d->pub, 3), -EINVAL);
	/* Armings add up: who has armed for anything is woken by progress, whatever was armed for besides. */
	for (unsigned i = 0; i < 2; i++) {
		CU_ASSERT_EQUAL(sp_dev_arm_for(&d->pub, i ? SP_ARM_ANY : SP_ARM_RECEIVE), 0);
		CU_ASSERT_EQUAL(sp_dev_arm_for(&d->pub, i ? SP_ARM_RECEIVE : SP_ARM_ANY), 0);
		CU_ASSERT_EQUAL(remote_call(d, id, CMD_PROGRESS, i), 0);
		CU_ASSERT_EQUAL(readable(sp_dev_fd(&d->pub), 10000), 1);
	}
	/* An event and progress in one poll are an event. */
	CU_ASSERT_EQUAL(sp_dev_arm_for(&d->pub, SP_ARM_RECEIVE), 0);
	CU_ASSERT_EQUAL(post(d, id, CMD_PROGRESS, 1), 0);
	CU_ASSERT_EQUAL(post(d, id, CMD_EVENTS, 1), 0);
	CU_ASSERT_EQUAL(readable(sp_dev_fd(&d->pub), 10000), 1);
	sp_dev_close(&d->pub);
	dut_stop(&dut);
}

/* It never reads its socket, which is full, waits for room, and is closed at last. Only that application sleeps on. */
TEST(an_application_that_does_not_read_its_wake_ups_holds_up_nobody)
{
	struct sp_event e;
	char path[64];

	start_with_threads();
	struct sp_device *bad = remote_attach(0, 0, 0, 0);
	struct sp_device *good = remote_attach(0, 0, 0, 0);
	uint32_t mine = remote_opened(bad, "qp=16");
	uint32_t other = remote_opened(good, "qp=17");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", bad->door.application);
	CU_ASSERT(open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC) < 0 && errno == ENXIO);
	CU_ASSERT(send(bad->door.application, path, 1, MSG_NOSIGNAL) < 0 && errno == EPIPE);
	CU_ASSERT_EQUAL(fcntl(bad->door.application, F_SETFL, 0), 0); /* blocks from here on: its own end alone */
	CU_ASSERT_EQUAL(fcntl(bad->door.ring, F_SETFL, 0), 0);
	CU_ASSERT(fcntl(bad->door.fd, F_GETFL) & O_NONBLOCK);
	CU_ASSERT_EQUAL(eventfd_write(bad->door.ring, UINT64_MAX - 1), 0); /* the next write would wait */
	int nowhere = open("/dev/null", O_RDONLY | O_CLOEXEC);
	for (unsigned i = 0; i < 200; i++) {
		if (i == 100) { /* no one can read it any more */
			CU_ASSERT(waiting(bad) > 1 && waiting(bad) < 100);
			CU_ASSERT_EQUAL(dup2(nowhere, bad->door.application), bad->door.application);
		}
		__atomic_store_n(&bad->door.bell->armed, i % 2 ? 1 : 0xFFFFFFFF, __ATOMIC_SEQ_CST);
		CU_ASSERT_EQUAL(remote_call(bad, mine, CMD_EVENTS, 1), 0);
		CU_ASSERT_EQUAL(sp_dev_arm(&good->pub), 0);
		CU_ASSERT_EQUAL(remote_call(good, other, CMD_EVENTS, 1), 0);
		CU_ASSERT_EQUAL_FATAL(readable(sp_dev_fd(&good->pub), 10000), 1);
		CU_ASSERT_EQUAL(sp_event_take(&good->pub, other, &e), 1);
		CU_ASSERT_EQUAL(sp_event_take(&bad->pub, mine, &e), 1);
	}
	close(nowhere);
	sp_dev_close(&bad->pub);
	sp_dev_close(&good->pub);
	dut_stop(&dut);
}

TEST(sleeping_is_for_nics_that_do_not_need_to_be_driven)
{
	struct sp_setting setting[] = {{"qp", "16"}};
	struct sp_command cmd = {.op = CMD_EVENTS, .arg = {1}};
	struct sp_dev *dev;
	struct sp_event e;
	uint32_t id;

	dut_start(&dut, 1);
	CU_ASSERT_EQUAL(sp_dev_arm(dut.dev), -EOPNOTSUPP); /* driven */
	CU_ASSERT_EQUAL(sp_dev_fd(dut.dev), -EOPNOTSUPP);
	CU_ASSERT_EQUAL(sp_dev_wait(dut.dev, SP_MS), -EOPNOTSUPP);
	CU_ASSERT_EQUAL_FATAL(sp_nic_dev(dut.nic, false, &dev), 0);
	CU_ASSERT_EQUAL(sp_dev_arm(dev), -EOPNOTSUPP); /* not started */
	CU_ASSERT_EQUAL_FATAL(sp_nic_start(dut.nic), 0);
	CU_ASSERT_EQUAL(sp_dev_arm(dut.dev), -EOPNOTSUPP);
	CU_ASSERT_EQUAL_FATAL(sp_context_open(dev, "c", "greedy", setting, 1, &id, NULL), 0);
	cmd.context = id;
	CU_ASSERT_EQUAL(sp_dev_arm(dev), 0);
	CU_ASSERT_EQUAL(sp_dev_wait(dev, SP_MS), -ETIMEDOUT);
	CU_ASSERT_EQUAL(sp_command_call(dev, &cmd, NULL), 0);
	CU_ASSERT_EQUAL(sp_dev_wait(dev, SP_NEVER), 0);
	CU_ASSERT_EQUAL(sp_dev_wait(dev, 0), 0); /* until it is armed again */
	CU_ASSERT_EQUAL(sp_event_take(dev, id, &e), 1);
	CU_ASSERT_EQUAL(sp_dev_arm(dev), 0);
	CU_ASSERT_EQUAL(sp_dev_wait(dev, 0), -ETIMEDOUT);
	sp_dev_close(dev);
	dut_stop(&dut);
}

/* ---- parking, in virtual time ---- */

/* Applications that the worker has looked at in one poll. */
static uint64_t walked(sp_time now)
{
	const uint64_t before = dut.nic->worker[0]->walked;

	dut_poll(&dut, now);
	return dut.nic->worker[0]->walked - before;
}

/* Where many are active a poll is long, and so many polls would be much longer. */
TEST(many_quiet_applications_are_parked_after_fewer_polls)
{
	enum { ALL = 64 };
	struct sp_device *d[ALL];
	uint64_t polls = 0, began;
	sp_time now = 1;

	dut_start(&dut, 1);
	dut.nic->park_after = UINT64_MAX / 2;
	for (unsigned i = 0; i < ALL; i++)
		d[i] = remote_attach(0, 0, 0, 0);
	began = dut.nic->worker[0]->walked;
	while (walked(++now) && polls <= SP_QUIET_POLLS)
		polls++;
	CU_ASSERT(polls < SP_QUIET_POLLS);
	/* Whoever has posted before may stay until the next time. */
	CU_ASSERT(dut.nic->worker[0]->walked - began <= 2 * (SP_QUIET_LOOKS + ALL + 1));
	for (unsigned i = 0; i < ALL; i++) {
		CU_ASSERT_EQUAL(d[i]->commands[0].page->parked, 1);
		sp_dev_close(&d[i]->pub);
	}
	dut_stop(&dut);
}

TEST(a_worker_walks_active_applications_only)
{
	enum { ALL = 20, QUIET = 8 };
	struct sp_device *d[ALL];
	uint32_t id[ALL];
	sp_time now = 1;

	dut_start(&dut, 1);
	dut.nic->park_after = QUIET;
	for (unsigned i = 0; i < ALL; i++) {
		char settings[16];

		snprintf(settings, sizeof(settings), "qp=%u", 16 + i);
		d[i] = remote_attach(0, 0, 0, 0);
		id[i] = remote_opened(d[i], settings);
	}
	CU_ASSERT_EQUAL(walked(now), ALL + 1); /* the test's own device, too */
	for (unsigned round = 1; round <= ALL; round++) {
		for (unsigned i = 0; i < 2 * QUIET + 1; i++)
			dut_poll(&dut, ++now);
		CU_ASSERT_EQUAL(walked(++now), 0);
		CU_ASSERT_NOT_EQUAL(sp_nic_next_deadline(dut.nic, 0), now);
		for (unsigned i = 0; i < round; i++) {
			CU_ASSERT_EQUAL(d[i]->commands[0].page->parked, 1);
			CU_ASSERT_EQUAL(post(d[i], id[i], CMD_NOTE, now), 0);
			CU_ASSERT_EQUAL(d[i]->commands[0].page->parked, 0);
			CU_ASSERT_EQUAL(post(d[i], id[i], CMD_NOTE, now + round),
					0); /* no one needs to be told again */
		}
		CU_ASSERT_EQUAL(sp_nic_next_deadline(dut.nic, 0), now); /* it is due at once */
		CU_ASSERT_EQUAL(walked(now), round);
		for (unsigned i = 0; i < ALL; i++)
			CU_ASSERT(i < round ? remote_state_of(id[i])->last == now + round
					    : remote_state_of(id[i])->last < now);
	}
	/* One that posts now and then stays active, and alone. */
	for (unsigned i = 0; i < 10 * QUIET; i++) {
		if (i % QUIET == 0)
			CU_ASSERT_EQUAL(post(d[5], id[5], CMD_NOTE, i), 0);
		dut_poll(&dut, ++now);
	}
	CU_ASSERT_EQUAL(walked(++now), 1);
	/* A call wakes, since it comes after what was posted before. */
	CU_ASSERT_EQUAL(post(d[6], id[6], CMD_NOTE, 1), 0);
	CU_ASSERT_EQUAL(remote_call(d[6], id[6], CMD_NOTE, 2), 0);
	CU_ASSERT_EQUAL(remote_state_of(id[6])->last, 2);
	/* They go parked, active, and about to be. */
	CU_ASSERT_EQUAL(post(d[7], id[7], CMD_NOTE, 1), 0);
	for (unsigned i = 0; i < ALL; i++)
		sp_dev_close(&d[i]->pub);
	CU_ASSERT_EQUAL(walked(++now), 0);
	dut_stop(&dut);
}
