/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handlers that do not come back, on workers that run: they are found out and named, twice, the second time as fatal;
 * the NIC itself ends neither the call nor the process, and goes on when they do come back. The handler (faulty.c) is a
 * plug-in, and does what packets say.
 */
#include "../lib/stuck.h"

/* ---- helpers ---- */

static struct sp_plugin *plugin;
static uint32_t good_id, bad_id;

#define UNTIL(what)                                                                                                    \
	do {                                                                                                           \
		const sp_time until_end = sp_clock() + PATIENT * SP_SEC;                                               \
		const struct timespec until_pause = {.tv_nsec = 2000000};                                              \
		while (!(what) && sp_clock() < until_end)                                                              \
			nanosleep(&until_pause, NULL);                                                                 \
		CU_ASSERT_FATAL(what);                                                                                 \
	} while (0)

static void start_with(unsigned workers, const char *handler, const char *settings)
{
	struct sp_error error = {0};
	char text[128];

	stuck_told.count = stuck_fatal.count = 0;
	stuck_stays = true;
	dut_prepare(&dut, (uint16_t)workers);
	dut.config.port[0].ops = &stuck_port_ops;
	snprintf(dut.config.name, sizeof(dut.config.name), "nic0");
	dut.config.stall = STALL;
	dut.config.fault = stuck_on_fault;
	dut.config.fault_arg = &stuck_told;
	if (!plugin && sp_plugin_load(FAULTY, &plugin, &error))
		printf("# %s\n", error.text);
	CU_ASSERT_PTR_NOT_NULL_FATAL(plugin);
	dut_create(&dut);
	good_id = dut_context(&dut, "light", "good", "qp=17");
	snprintf(text, sizeof(text), "qp=16%s%s", *settings ? ";" : "", settings);
	bad_id = dut_context(&dut, "culprit", handler, text);
	CU_ASSERT_EQUAL_FATAL(sp_nic_start(dut.nic), 0);
}

static void start(unsigned workers, const char *settings)
{
	start_with(workers, "faulty", settings);
}

static void serves(unsigned q)
{
	const uint64_t before = dut_counter(&dut, good_id, "served");

	stuck_say(q, GOOD, "ggggg", 0);
	UNTIL(dut_counter(&dut, good_id, "served") == before + 5);
}

static void adds_up(void)
{
	struct sp_nic_totals t;

	sp_nic_totals(dut.nic, &t);
	CU_ASSERT_EQUAL(t.received, t.taken + t.forwarded + t.dropped + t.parked);
}

static void end(void)
{
	adds_up();
	sp_nic_stop(dut.nic);
	dut_stop(&dut);
}

static bool is_fault_of(const struct stuck_told *t, unsigned i, const char *function, bool runs)
{
	const struct sp_fault *f = &t->fault[i];

	if (!strcmp(t->context[i], "culprit") && !strcmp(t->function[i], function) && f->runs == runs && f->at &&
	    f->depth && f->since >= (t == &stuck_told ? STALL : 4 * STALL))
		return true;
	printf("# fault %u: %s() of %s, %s%s\n", i, t->function[i], t->handler[i], t->context[i],
	       f->runs ? " runs" : " waits");
	return false;
}

static bool is_fault(unsigned i, const char *function, bool runs)
{
	return is_fault_of(&stuck_told, i, function, runs);
}

/* Named when it has lasted for `stall`, and as fatal after 4 times that, and then no more; it comes back after that. */
static void is_named_twice(const char *function)
{
	const struct timespec pause = {.tv_nsec = 2 * STALL / 1000};

	UNTIL(stuck_count_of(&stuck_fatal));
	CU_ASSERT(is_fault(0, function, true));
	CU_ASSERT(is_fault_of(&stuck_fatal, 0, function, true));
	CU_ASSERT_STRING_EQUAL(stuck_told.handler[0], "faulty");
	CU_ASSERT_STRING_EQUAL(stuck_told.file[0], FAULTY);
	CU_ASSERT_STRING_EQUAL(stuck_fatal.handler[0], "faulty");
	nanosleep(&pause, NULL);
	CU_ASSERT_EQUAL(stuck_count_of(&stuck_told), 1);
	CU_ASSERT_EQUAL(stuck_count_of(&stuck_fatal), 1);
	stuck_stays = false;
}

static json_t *report(void)
{
	char *text = NULL;
	json_t *r;

	CU_ASSERT_EQUAL_FATAL(sp_nic_report_text(dut.nic, true, NULL, &text), 0);
	r = json_loads(text, 0, NULL);
	free(text);
	CU_ASSERT_PTR_NOT_NULL_FATAL(r);
	return r;
}

static const json_t *last_fault(const json_t *r, const char *context)
{
	return json_object_get(json_object_get(json_object_get(r, "contexts"), context), "last_fault");
}

static bool last_fault_begins(const json_t *r, const char *context, const char *words)
{
	const char *text = json_string_value(last_fault(r, context));

	return text && !strncmp(text, words, strlen(words));
}

/* ---- rules ---- */

/* letter: what the packet says. frames: the fault comes with the packet. */
static void is_named(const char *letter, const char *function, bool frames)
{
	start(1, "");
	stuck_say(0, BAD, "g", 2);
	UNTIL(dut_counter(&dut, bad_id, "served") == 1);
	stuck_say(0, BAD, letter, 1);
	is_named_twice(function);
	if (frames) {
		CU_ASSERT_EQUAL_FATAL(stuck_told.fault[0].frames, 1);
		CU_ASSERT_EQUAL(stuck_told.frame[0][42 + 12], (uint8_t)*letter);
		CU_ASSERT_EQUAL(stuck_fatal.frame[0][42 + 12], (uint8_t)*letter);
	} else {
		CU_ASSERT_EQUAL(stuck_told.fault[0].frames, 0);
	}
	serves(0);
	stuck_say(0, BAD, "ggg", 2); /* it has done nothing else wrong */
	UNTIL(dut_view(&dut, bad_id, packets) == 5);
	adds_up();
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, bad_id), 0);
	serves(0);
	end();
}

TEST_CALL(classify_is_named, is_named("c", "classify", true))
TEST_CALL(header_is_named, is_named("h", "header", true))
TEST_CALL(payload_is_named, is_named("p", "payload", true))
TEST_CALL(what_is_in_the_nics_code_most_of_the_time_is_named, is_named("n", "payload", true))
TEST_CALL(what_is_hardly_ever_in_its_own_code_is_named, is_named("N", "payload", true))
static volatile sig_atomic_t traps;

static void on_trap(int number)
{
	traps = traps + 1;
}

TEST(sigtrap_is_the_programs)
{
	struct sigaction ours = {.sa_handler = on_trap}, before, after;

	CU_ASSERT_EQUAL_FATAL(sigaction(SIGTRAP, &ours, &before), 0);
	traps = 0;
	is_named("n", "payload", true);
	is_named("N", "payload", true);
	CU_ASSERT_EQUAL(traps, 0);
	CU_ASSERT_EQUAL_FATAL(sigaction(SIGTRAP, &before, &after), 0);
	CU_ASSERT(after.sa_handler == on_trap);
}

TEST_CALL(completion_is_named, is_named("e", "completion", true))
TEST_CALL(completion_within_payload_is_named, is_named("E", "completion", true))
TEST_CALL(timer_is_named, is_named("t", "timer", false))
TEST_CALL(work_is_named, is_named("w", "work", false))
/* A control call on a thread of its own: it does not return before the handler does. */
static struct {
	pthread_t thread;
	void (*fn)(void);
	_Atomic bool done;
} apart;

static void *run_apart(void *arg)
{
	apart.fn();
	apart.done = true;
	return NULL;
}

static void is_named_in(void (*fn)(void), const char *function)
{
	apart.fn = fn;
	apart.done = false;
	CU_ASSERT_EQUAL_FATAL(pthread_create(&apart.thread, NULL, run_apart, NULL), 0);
	is_named_twice(function);
	UNTIL(apart.done);
	pthread_join(apart.thread, NULL);
	CU_ASSERT_EQUAL(stuck_told.fault[0].frames, 0);
	serves(0);
	end();
}

static void run_command(void)
{
	const struct sp_command cmd = {.op = 1};
	struct sp_event result;

	pthread_mutex_lock(&dut.nic->control);
	CU_ASSERT_EQUAL(sp_command_run(sp_context_by_id(dut.nic, bad_id), &cmd, &result), 0);
	pthread_mutex_unlock(&dut.nic->control);
}

TEST(command_is_named)
{
	start(1, "");
	is_named_in(run_command, "command");
}

static void add_context(void)
{
	dut_context(&dut, "culprit", "faulty", "qp=18;in-attach=yes");
}

TEST(attach_is_named)
{
	start_with(1, "good", "");
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, bad_id), 0);
	is_named_in(add_context, "attach");
}

static void configure_context(void)
{
	dut_context(&dut, "culprit", "faulty", "qp=18;in-configure=yes");
}

TEST(configure_is_named)
{
	start_with(1, "good", "");
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, bad_id), 0);
	is_named_in(configure_context, "configure");
}

static void remove_context(void)
{
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, bad_id), 0);
}

TEST(detach_is_named)
{
	start(1, "in-detach=yes");
	is_named_in(remove_context, "detach");
}

static void take_report(void)
{
	json_decref(report());
}

TEST(report_is_named)
{
	start(1, "in-report=yes");
	is_named_in(take_report, "report");
}

/* Those behind it in its burst are in the report, and are served when it comes back. */
TEST(what_waits_behind_it_is_told_and_lost_nowhere)
{
	struct sp_nic_totals t;

	start(1, "");
	stuck_say(0, BAD, "g", 3);
	UNTIL(dut_counter(&dut, bad_id, "served") == 1);
	pthread_mutex_lock(&stuck_queue[0].lock); /* one burst */
	stuck_put(0, BAD, "gg", 1);
	stuck_put(0, BAD, "gpgg", 2);
	stuck_put(0, BAD, "ggg", 3);
	stuck_put(0, GOOD, "gggg", 0);
	pthread_mutex_unlock(&stuck_queue[0].lock);
	is_named_twice("payload");
	/* A worker that is short of time gives each packet a turn of its own. */
	CU_ASSERT(stuck_told.fault[0].frames >= 1 && stuck_told.fault[0].frames <= 6);
	CU_ASSERT_EQUAL(stuck_told.frame[0][42 + 12], 'p');
	UNTIL(dut_counter(&dut, good_id, "served") == 4 && dut_view(&dut, bad_id, packets) == 10);
	sp_nic_totals(dut.nic, &t);
	CU_ASSERT_EQUAL(t.received, 14);
	CU_ASSERT_EQUAL(t.taken, 14);
	CU_ASSERT_EQUAL(t.dropped, 0);
	end();
}

/* ---- a signal's handler asks ---- */

static struct sp_fault here;
static char here_names[3][40], here_letter;
static volatile sig_atomic_t here_asked, here_in_call;

static void on_here(int number, siginfo_t *info, void *context)
{
	here_in_call = sp_fault_here(context, &here);
	if (here_in_call) {
		snprintf(here_names[0], 40, "%s", here.context);
		snprintf(here_names[1], 40, "%s", here.handler);
		snprintf(here_names[2], 40, "%s", here.function);
		here_letter = here.frames ? (char)here.frame[0][42 + 12] : 0;
	}
	here_asked = here_asked + 1;
}

TEST(who_handles_a_signal_learns_which_call_it_interrupts)
{
	struct sigaction ours = {.sa_sigaction = on_here, .sa_flags = SA_SIGINFO}, before;

	CU_ASSERT_EQUAL_FATAL(sigaction(SIGUSR2, &ours, &before), 0);
	here_asked = 0;
	start(1, "");
	raise(SIGUSR2); /* no worker's thread */
	CU_ASSERT_EQUAL(here_asked, 1);
	CU_ASSERT(!here_in_call);
	pthread_kill(dut.nic->worker[0]->thread, SIGUSR2); /* a worker in nobody's call */
	UNTIL(here_asked == 2);
	CU_ASSERT(!here_in_call);
	stuck_say(0, BAD, "S", 1);
	UNTIL(here_asked == 3);
	UNTIL(dut_view(&dut, bad_id, packets) == 1);
	CU_ASSERT(here_in_call);
	CU_ASSERT_STRING_EQUAL(here_names[0], "culprit");
	CU_ASSERT_STRING_EQUAL(here_names[1], "faulty");
	CU_ASSERT_STRING_EQUAL(here_names[2], "payload");
	CU_ASSERT_EQUAL(here_letter, 'S');
	CU_ASSERT(here.at && here.file && here.worker == 0);
	CU_ASSERT_EQUAL(stuck_faults(), 0);
	end();
	sigaction(SIGUSR2, &before, NULL);
}

TEST(who_waits_is_named_and_nobody_waits_for_him)
{
	struct sp_error error = {0};
	char settings[64], text[256];
	json_t *r, *fault;
	uint32_t id;
	int pipes[2];

	CU_ASSERT_EQUAL_FATAL(pipe(pipes), 0);
	snprintf(settings, sizeof(settings), "pipe=%d", pipes[0]);
	start(1, settings);
	CU_ASSERT(!sp_nic_stopped(dut.nic, text, sizeof(text)));
	stuck_say(0, BAD, "W", 1);
	UNTIL(stuck_faults());
	CU_ASSERT(is_fault(0, "payload", false));
	CU_ASSERT_EQUAL(stuck_told.fault[0].frames, 1);
	CU_ASSERT_EQUAL(stuck_told.frame[0][42 + 12], 'W');
	CU_ASSERT(sp_nic_stopped(dut.nic, text, sizeof(text)));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "payload() of handler faulty, context culprit"));
	r = report();
	fault = json_array_get(json_object_get(r, "faults"), 0);
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(fault, "context")), "culprit");
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(fault, "handler")), "faulty");
	CU_ASSERT(json_is_true(json_object_get(fault, "stopped")));
	CU_ASSERT(json_is_false(json_object_get(fault, "runs")));
	CU_ASSERT(json_is_true(json_object_get(json_array_get(json_object_get(r, "workers"), 0), "stopped")));
	CU_ASSERT(last_fault_begins(r, "culprit", "payload() has not come back for "));
	CU_ASSERT(json_is_null(last_fault(r, "light")));
	json_decref(r);
	CU_ASSERT_EQUAL(dut_try_context(&dut, "more", "good", "qp=18", &id, &error), -ETIMEDOUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "handler faulty, context culprit"));
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, bad_id), -ETIMEDOUT);
	CU_ASSERT_EQUAL(dut_counter(&dut, good_id, "served"), 0);
	UNTIL(stuck_count_of(&stuck_fatal));
	CU_ASSERT(is_fault_of(&stuck_fatal, 0, "payload", false));
	CU_ASSERT_EQUAL_FATAL(write(pipes[1], "w", 1), 1);
	serves(0);
	UNTIL(!sp_nic_stopped(dut.nic, text, sizeof(text)));
	CU_ASSERT_EQUAL(dut_view(&dut, bad_id, packets), 1); /* it was done with the packet: the signal ended nothing */
	CU_ASSERT_EQUAL(stuck_faults(), 1);
	r = report();
	CU_ASSERT(json_is_false(json_object_get(json_array_get(json_object_get(r, "faults"), 0), "stopped")));
	CU_ASSERT(last_fault_begins(r, "culprit", "payload() did not come back for "));
	json_decref(r);
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, bad_id), 0);
	end();
	close(pipes[0]);
	close(pipes[1]);
}

TEST(other_workers_go_on_meanwhile)
{
	char settings[64];
	int pipes[2];

	CU_ASSERT_EQUAL_FATAL(pipe(pipes), 0);
	snprintf(settings, sizeof(settings), "pipe=%d", pipes[0]);
	start(2, settings);
	stuck_say(1, BAD, "W", 1);
	UNTIL(stuck_faults());
	CU_ASSERT(is_fault(0, "payload", false));
	CU_ASSERT_EQUAL(stuck_told.fault[0].worker, 1);
	serves(0);
	CU_ASSERT_EQUAL_FATAL(write(pipes[1], "w", 1), 1);
	serves(1);
	end();
	close(pipes[0]);
	close(pipes[1]);
}

TEST(both_workers_in_one_context_are_named)
{
	json_t *r;

	start(2, "");
	stuck_say(0, BAD, "p", 1);
	stuck_say(1, BAD, "p", 2);
	UNTIL(stuck_count_of(&stuck_fatal) == 2);
	CU_ASSERT(is_fault(0, "payload", true) && is_fault(1, "payload", true));
	CU_ASSERT_EQUAL(stuck_told.fault[0].worker + stuck_told.fault[1].worker, 1);
	stuck_stays = false;
	serves(0);
	serves(1);
	UNTIL(!sp_watchdog_stopped(dut.nic, 0) && !sp_watchdog_stopped(dut.nic, 1));
	r = report();
	CU_ASSERT_FATAL(last_fault_begins(r, "culprit", "payload() did not come back for "));
	CU_ASSERT_EQUAL(json_array_size(json_object_get(r, "faults")), 2);
	json_decref(r);
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, bad_id), 0);
	end();
}

TEST(what_is_linked_in_is_named_like_any_other)
{
	start_with(1, "linked", "");
	stuck_spin_on = true;
	stuck_say(0, BAD, "gg", 1);
	UNTIL(stuck_count_of(&stuck_fatal));
	CU_ASSERT(is_fault(0, "payload", true));
	CU_ASSERT_STRING_EQUAL(stuck_told.handler[0], "linked");
	CU_ASSERT_STRING_EQUAL(stuck_told.file[0], "");
	CU_ASSERT_PTR_NULL(stuck_told.fault[0].file);
	CU_ASSERT(stuck_told.fault[0].frames >= 1);
	CU_ASSERT_EQUAL(stuck_faults(), 1);
	stuck_spin_on = false;
	serves(0);
	UNTIL(dut_view(&dut, bad_id, packets) == 2);
	end();
}

TEST(who_goes_round_has_not_stopped)
{
	start(2, "");
	for (unsigned i = 0; i < 8; i++) {
		const struct timespec pause = {.tv_nsec = 100000000};

		nanosleep(&pause, NULL); /* in nobody's call */
		stuck_say(i % 2, BAD, "gggg", 1);
	}
	UNTIL(dut_counter(&dut, bad_id, "served") == 32);
	CU_ASSERT_EQUAL(stuck_faults(), 0);
	end();
}

TEST(a_nic_can_be_started_again)
{
	start(1, "");
	stuck_say(0, BAD, "p", 1);
	is_named_twice("payload");
	serves(0);
	sp_nic_stop(dut.nic);
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, bad_id), 0);
	bad_id = dut_context(&dut, "culprit", "faulty", "qp=16");
	stuck_stays = true;
	CU_ASSERT_EQUAL_FATAL(sp_nic_start(dut.nic), 0);
	stuck_say(0, BAD, "p", 1);
	UNTIL(stuck_count_of(&stuck_fatal) == 2);
	stuck_stays = false;
	serves(0);
	end();
}
