/* SPDX-License-Identifier: BSD-3-Clause */
/* The event loop against NICs that are tables of times: this program's own sp_nic_poll() stands in for the library's.
 */
#include "../../testbed/world.h"
#include "../lib/suite.h"

struct sp_nic {
	sp_time due[8];	      /* SP_NEVER: done */
	bool stuck;	      /* says that something is due and never does it */
	bool command;	      /* has been left a command, of which it learns by being polled */
	struct sp_nic *feeds; /* what it does gives that NIC something to do at once */
};

static char trace[256];

static void note(char who, sp_time now)
{
	size_t n = strlen(trace);

	snprintf(trace + n, sizeof(trace) - n, "%c%llu ", who, (unsigned long long)now);
}

static struct sp_nic nics[2];

static void reset(void)
{
	memset(nics, 0, sizeof(nics));
	for (int i = 0; i < 2; i++)
		for (int k = 0; k < 8; k++)
			nics[i].due[k] = SP_NEVER;
	trace[0] = '\0';
}

static void feed(struct sp_nic *nic, sp_time at)
{
	for (int k = 0; k < 8; k++)
		if (nic->due[k] == SP_NEVER) {
			nic->due[k] = at;
			return;
		}
}

uint16_t sp_nic_workers(const struct sp_nic *nic)
{
	return 1;
}

sp_time sp_nic_next_deadline(struct sp_nic *nic, uint16_t worker)
{
	sp_time next = nic->stuck ? 5 : SP_NEVER;
	for (int k = 0; k < 8; k++)
		if (nic->due[k] < next)
			next = nic->due[k];
	return next;
}

unsigned sp_nic_poll(struct sp_nic *nic, uint16_t worker, sp_time now)
{
	unsigned done = 0;
	for (int k = 0; k < 8; k++)
		if (nic->due[k] <= now) {
			nic->due[k] = SP_NEVER;
			done++;
			note((char)('a' + (nic - nics)), now);
			if (nic->feeds)
				feed(nic->feeds, now);
		}
	if (nic->command) {
		nic->command = false;
		done++;
		note((char)('A' + (nic - nics)), now);
	}
	return done;
}

static sp_time host_due;
static unsigned host_commands;

static void host_step(void *arg, sp_time now)
{
	note('h', now);
	if (host_due <= now)
		host_due = SP_NEVER;
	if (host_commands) {
		host_commands--;
		((struct sp_nic *)arg)->command = true;
	}
}

static sp_time host_next(void *arg)
{
	return host_due;
}

static struct sp_world *world_of(unsigned count, bool host)
{
	struct sp_world *w;

	CU_ASSERT_EQUAL_FATAL(sp_world_create(&w), 0);
	for (unsigned i = 0; i < count; i++)
		CU_ASSERT_EQUAL_FATAL(sp_world_add_nic(w, &nics[i]), 0);
	host_due = SP_NEVER;
	host_commands = 0;
	if (host)
		CU_ASSERT_EQUAL_FATAL(
			sp_world_add_host(
				w, &(struct sp_world_host){.step = host_step, .next = host_next, .arg = &nics[0]}),
			0);
	return w;
}

TEST(everything_happens_at_its_time_and_in_the_order_of_adding)
{
	reset();
	struct sp_world *w = world_of(2, false);
	feed(&nics[0], 30);
	feed(&nics[0], 10);
	feed(&nics[1], 10);
	feed(&nics[1], 20);
	CU_ASSERT_EQUAL(sp_world_run(w, SP_NEVER, NULL, NULL), 0);
	CU_ASSERT_STRING_EQUAL(trace, "a10 b10 b20 a30 ");
	CU_ASSERT_EQUAL(sp_world_now(w), 30); /* nothing will ever happen again: time stays */
	sp_world_destroy(w);
}

TEST(with_a_grain_what_is_due_in_one_step_happens_together_at_its_end)
{
	reset();
	struct sp_world *w = world_of(2, false);
	sp_world_set_grain(w, 100);
	feed(&nics[0], 101);
	feed(&nics[0], 200);
	feed(&nics[1], 150);
	feed(&nics[1], 201);
	feed(&nics[1], SP_NEVER - 7); /* no step ends behind it */
	CU_ASSERT_EQUAL(sp_world_run(w, 299, NULL, NULL), 0);
	CU_ASSERT_STRING_EQUAL(trace, "a200 a200 b200 ");
	CU_ASSERT_EQUAL(sp_world_now(w), 299);
	CU_ASSERT_EQUAL(sp_world_run(w, SP_NEVER, NULL, NULL), 0);
	CU_ASSERT_STRING_EQUAL(trace, "a200 a200 b200 b299 b18446744073709551608 ");
	sp_world_destroy(w);
}

TEST(a_run_ends_at_until_and_goes_on_from_there)
{
	reset();
	struct sp_world *w = world_of(1, false);
	feed(&nics[0], 10);
	feed(&nics[0], 20);
	feed(&nics[0], 21);
	CU_ASSERT_EQUAL(sp_world_run(w, 15, NULL, NULL), 0);
	CU_ASSERT_EQUAL(sp_world_now(w), 15);
	CU_ASSERT_STRING_EQUAL(trace, "a10 ");
	CU_ASSERT_EQUAL(sp_world_run(w, 20, NULL, NULL), 0); /* inclusive */
	CU_ASSERT_STRING_EQUAL(trace, "a10 a20 ");
	CU_ASSERT_EQUAL(sp_world_run(w, 1000, NULL, NULL), 0);
	CU_ASSERT_EQUAL(sp_world_now(w), 1000);
	sp_world_destroy(w);
}

TEST(events_without_delay_happen_at_the_same_time)
{
	reset();
	struct sp_world *w = world_of(2, false);
	nics[1].feeds = &nics[0]; /* the later one feeds the one that was polled before it */
	feed(&nics[1], 7);
	CU_ASSERT_EQUAL(sp_world_run(w, SP_NEVER, NULL, NULL), 0);
	CU_ASSERT_STRING_EQUAL(trace, "b7 a7 ");
	sp_world_destroy(w);
}

TEST(a_host_is_stepped_when_a_nic_has_done_something_and_its_commands_are_noticed)
{
	reset();
	struct sp_world *w = world_of(1, true);
	feed(&nics[0], 10);
	host_commands = 1;
	CU_ASSERT_EQUAL(sp_world_run(w, SP_NEVER, NULL, NULL), 0);
	CU_ASSERT_STRING_EQUAL(trace, "a10 h10 A10 h10 ");
	sp_world_destroy(w);
}

TEST(a_host_is_stepped_at_its_own_time)
{
	reset();
	struct sp_world *w = world_of(1, true);
	host_due = 33;
	CU_ASSERT_EQUAL(sp_world_next(w), 33);
	CU_ASSERT_EQUAL(sp_world_run(w, SP_NEVER, NULL, NULL), 0);
	CU_ASSERT_STRING_EQUAL(trace, "h33 ");
	sp_world_destroy(w);
}

static bool at_least_20(void *arg)
{
	return sp_world_now(arg) >= 20;
}

TEST(a_run_ends_when_its_condition_holds)
{
	reset();
	struct sp_world *w = world_of(1, false);
	feed(&nics[0], 10);
	feed(&nics[0], 20);
	feed(&nics[0], 30);
	CU_ASSERT_EQUAL(sp_world_run(w, SP_NEVER, at_least_20, w), 1);
	CU_ASSERT_STRING_EQUAL(trace, "a10 a20 ");
	sp_world_destroy(w);
}

TEST(time_that_stands_still_is_called_off)
{
	reset();
	struct sp_world *w = world_of(1, false);
	nics[0].stuck = true;
	CU_ASSERT_EQUAL(sp_world_run(w, SP_NEVER, NULL, NULL), -ELOOP);
	sp_world_destroy(w);
	reset();
	w = world_of(0, true);
	host_due = 3;
	CU_ASSERT_EQUAL(sp_world_run(w, SP_NEVER, NULL, NULL), 0);
	sp_world_destroy(w);
}
