/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handlers that do not come back, on workers that run: they are found out and named, taken out where their own code
 * runs, and the NIC serves its other contexts. The handler (faulty.c) is a plug-in, and does what packets say.
 */
#include <jansson.h>
#include <signal.h>
#include <time.h>

#include "../../pipeline/host.h"
#include "../lib/dut.h"
#include "../lib/ports.h"

#define STALL	(200 * SP_MS)
#define PATIENT 30 /* s, for what must come */
#define BAD	16 /* QPs */
#define GOOD	17
#define WORKERS 2

/* ---- a port: what is said goes to a queue, and comes from it in one burst ---- */

static struct {
	pthread_mutex_t lock;
	struct rte_mbuf *packet[256];
	unsigned count;
} queue[WORKERS] = {{.lock = PTHREAD_MUTEX_INITIALIZER}, {.lock = PTHREAD_MUTEX_INITIALIZER}};

static unsigned hear(void *port, uint16_t q, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	unsigned n = 0;
	pthread_mutex_lock(&queue[q].lock);
	for (; n < max && n < queue[q].count; n++)
		packet[n] = queue[q].packet[n];
	queue[q].count -= n;
	memmove(queue[q].packet, queue[q].packet + n, queue[q].count * sizeof(*packet));
	pthread_mutex_unlock(&queue[q].lock);
	return n;
}

static const struct sp_port_ops port_ops = {.receive = hear, .transmit = port_swallow, .next = port_never};

/* A packet for each letter of `what`: to the context with that QP, of message `key`. The queue is locked. */
static void put(unsigned q, uint32_t qp, const char *what, uint8_t key)
{
	for (; *what; what++) {
		const uint8_t payload[8] = {(uint8_t)*what, key};
		struct rte_mbuf *m = sp_packet_alloc();
		struct frame f;

		CU_ASSERT_PTR_NOT_NULL_FATAL(m);
		dut_roce(&f, FRAME_IP4, qp, 0, payload, sizeof(payload));
		memcpy(rte_pktmbuf_append(m, (uint16_t)f.len), f.bytes, f.len);
		queue[q].packet[queue[q].count++] = m;
	}
}

static void say(unsigned q, uint32_t qp, const char *what, uint8_t key)
{
	pthread_mutex_lock(&queue[q].lock);
	put(q, qp, what, key);
	pthread_mutex_unlock(&queue[q].lock);
}

/* ---- one that does right, and one that is linked in, among the NIC's own code ---- */

static const char *const good_counters[] = {"served", NULL};

static uint32_t good_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	c->counters[0]++;
	return SP_DONE;
}
static const struct sp_handler good = {SP_HANDLER_HEAD, .name = "good", .doc = "counts", .counters = good_counters,
				       .payload = good_payload};
SP_HANDLER(good)

/* The plug-in's letter N calls it. */
void faulty_outside(void);
void faulty_outside(void)
{
	const uint64_t end = rte_rdtsc() + rte_get_tsc_hz() / 100;

	while (rte_rdtsc() < end)
		;
}

static _Atomic bool spin_on;

static uint32_t linked_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	c->counters[0]++;
	while (spin_on)
		;
	return SP_DONE;
}
static const struct sp_handler linked = {SP_HANDLER_HEAD, .name = "linked", .doc = "spins", .counters = good_counters,
					 .payload = linked_payload};
SP_HANDLER(linked)

/* ---- what has been told ---- */

static struct {
	pthread_mutex_t lock;
	unsigned count;
	struct sp_fault fault[8]; /* strings and frames are copies */
	char context[8][40], handler[8][40], function[8][40];
	uint8_t frame[8][256];
} told = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void on_fault(void *arg, const struct sp_fault *f)
{
	CU_ASSERT_PTR_EQUAL(arg, &told);
	pthread_mutex_lock(&told.lock);
	if (told.count < 8) {
		const unsigned i = told.count;

		told.fault[i] = *f;
		snprintf(told.context[i], 40, "%s", f->context);
		snprintf(told.handler[i], 40, "%s", f->handler);
		snprintf(told.function[i], 40, "%s", f->function);
		if (f->frames && f->frame_len[0] <= sizeof(told.frame[i]))
			memcpy(told.frame[i], f->frame[0], f->frame_len[0]);
	}
	told.count++;
	pthread_mutex_unlock(&told.lock);
}

static unsigned faults(void)
{
	pthread_mutex_lock(&told.lock);
	const unsigned n = told.count;
	pthread_mutex_unlock(&told.lock);
	return n;
}

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

	told.count = 0;
	dut_prepare(&dut, (uint16_t)workers);
	dut.config.port[0].ops = &port_ops;
	dut.config.stall = STALL;
	dut.config.fault = on_fault;
	dut.config.fault_arg = &told;
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

	say(q, GOOD, "ggggg", 0);
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

static bool is_fault(unsigned i, const char *function, bool runs, bool aborted)
{
	const struct sp_fault *f = &told.fault[i];

	if (!strcmp(told.context[i], "culprit") && !strcmp(told.function[i], function) && f->runs == runs &&
	    f->aborted == aborted && f->since >= STALL)
		return true;
	printf("# fault %u: %s() of %s, %s%s%s\n", i, told.function[i], told.handler[i], told.context[i],
	       f->runs ? " runs" : " waits", f->aborted ? ", aborted" : "");
	return false;
}

/* The last one told of; what has been told once may be told again, when it is taken out later. */
static bool taken_out_of(const char *function)
{
	UNTIL(faults() && told.fault[faults() - 1].aborted);
	return is_fault(faults() - 1, function, true, true) && !strcmp(told.handler[faults() - 1], "faulty");
}

static json_t *report(void)
{
	char *text = NULL;

	CU_ASSERT_EQUAL_FATAL(sp_nic_report_text(dut.nic, true, NULL, &text), 0);
	json_t *r = json_loads(text, 0, NULL);
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
static void is_taken_out(const char *letter, const char *function, bool frames)
{
	start(1, "in-detach=yes"); /* would it be called, there would be a second fault */
	say(0, BAD, "g", 2);
	UNTIL(dut_counter(&dut, bad_id, "served") == 1);
	say(0, BAD, letter, 1);
	CU_ASSERT(taken_out_of(function));
	if (frames) {
		CU_ASSERT_EQUAL_FATAL(told.fault[faults() - 1].frames, 1);
		CU_ASSERT_EQUAL(told.frame[faults() - 1][42 + 12], (uint8_t)*letter);
	} else {
		CU_ASSERT_EQUAL(told.fault[faults() - 1].frames, 0);
	}
	serves(0);
	uint64_t dropped = sp_nic_dropped(dut.nic, "context-disabled");
	say(0, BAD, "ggg", 2);
	UNTIL(sp_nic_dropped(dut.nic, "context-disabled") == dropped + 3);
	serves(0);
	adds_up();
	const unsigned before = faults();
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, bad_id), 0);
	CU_ASSERT_EQUAL(faults(), before);
	serves(0);
	end();
}

TEST_CALL(classify_is_taken_out, is_taken_out("c", "classify", true))
TEST_CALL(header_is_taken_out, is_taken_out("h", "header", true))
TEST_CALL(payload_is_taken_out, is_taken_out("p", "payload", true))
TEST_CALL(handlers_that_are_mostly_in_nic_code_are_stopped, is_taken_out("n", "payload", true))

TEST(handlers_that_are_mostly_in_library_code_are_stopped_on_their_return)
{
#if defined(__x86_64__)
	is_taken_out("N", "payload", true);
#endif
}

static volatile sig_atomic_t traps;

static void on_trap(int number)
{
	traps = traps + 1;
}

TEST(who_wants_sigtrap_keeps_it)
{
	struct sigaction ours = {.sa_handler = on_trap}, before, after;

	CU_ASSERT_EQUAL_FATAL(sigaction(SIGTRAP, &ours, &before), 0);
	traps = 0;
	is_taken_out("n", "payload", true);
	CU_ASSERT_EQUAL(traps, 0);
#if defined(__x86_64__)
	start(1, "");
	say(0, BAD, "N", 1);
	UNTIL(faults());
	const struct timespec pause = {.tv_nsec = 300000000};
	nanosleep(&pause, NULL);
	CU_ASSERT_EQUAL(traps, 0);
	CU_ASSERT_EQUAL_FATAL(sigaction(SIGTRAP, &before, &after), 0);
	CU_ASSERT(after.sa_handler == on_trap);
	CU_ASSERT(taken_out_of("payload")); /* now */
	serves(0);
	end();
#else
	CU_ASSERT_EQUAL_FATAL(sigaction(SIGTRAP, &before, &after), 0);
#endif
}

TEST_CALL(completion_is_taken_out, is_taken_out("e", "completion", true))
TEST_CALL(completion_within_payload_is_taken_out, is_taken_out("E", "completion", true))
TEST_CALL(timer_is_taken_out, is_taken_out("t", "timer", false))
TEST_CALL(work_is_taken_out, is_taken_out("w", "work", false))

TEST(command_is_taken_out_and_answered)
{
	const struct sp_command cmd = {.op = 1};
	struct sp_event result;

	start(1, "");
	pthread_mutex_lock(&dut.nic->control);
	CU_ASSERT_EQUAL(sp_command_run(sp_context_by_id(dut.nic, bad_id), &cmd, &result), -ESHUTDOWN);
	CU_ASSERT_EQUAL(sp_command_run(sp_context_by_id(dut.nic, bad_id), &cmd, &result), -ESHUTDOWN);
	pthread_mutex_unlock(&dut.nic->control);
	CU_ASSERT(taken_out_of("command"));
	serves(0);
	end();
}

TEST(attach_is_taken_out_and_refused)
{
	struct sp_error error = {0};
	uint32_t id;

	start(1, "");
	CU_ASSERT_EQUAL(dut_try_context(&dut, "second", "faulty", "qp=18;in-attach=yes", &id, &error), -ETIMEDOUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "attach()"));
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "faulty"));
	CU_ASSERT_EQUAL(sp_nic_context_find(dut.nic, "second", &id), -ENOENT);
	serves(0);
	say(0, BAD, "ggg", 1); /* the others of that handler go on */
	UNTIL(dut_counter(&dut, bad_id, "served") == 3);
	id = dut_context(&dut, "second", "faulty", "qp=18");
	end();
}

TEST(detach_is_taken_out)
{
	start(1, "in-detach=yes");
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, bad_id), 0);
	CU_ASSERT(taken_out_of("detach"));
	serves(0);
	end();
}

TEST(report_is_taken_out)
{
	start(1, "in-report=yes");
	json_decref(report());
	CU_ASSERT(taken_out_of("report"));
	json_decref(report());
	CU_ASSERT_EQUAL(faults(), 1); /* it was not asked again */
	serves(0);
	end();
}

/* Of a burst what had come to its end stays; all else of the context is dropped by name, and nothing of others. */
TEST(the_rest_of_the_burst_is_dropped_by_name)
{
	struct sp_nic_totals t;

	start(1, "");
	say(0, BAD, "g", 3);
	UNTIL(dut_counter(&dut, bad_id, "served") == 1);
	pthread_mutex_lock(&queue[0].lock); /* one burst */
	put(0, BAD, "gg", 1);
	put(0, BAD, "gpgg", 2);
	put(0, BAD, "ggg", 3);
	put(0, GOOD, "gggg", 0);
	pthread_mutex_unlock(&queue[0].lock);
	CU_ASSERT(taken_out_of("payload"));
	/* A worker that is short of time gives each packet a turn of its own: then g before p has been served, too. */
	CU_ASSERT(told.fault[0].frames >= 1);
	CU_ASSERT_EQUAL(told.frame[0][42 + 12], 'p');
	UNTIL(dut_counter(&dut, good_id, "served") == 4);
	UNTIL(sp_nic_dropped(dut.nic, "context-disabled") + dut_view(&dut, bad_id, packets) == 10);
	const uint64_t packets = dut_view(&dut, bad_id, packets);
	CU_ASSERT(packets == 3 || packets == 4);
	CU_ASSERT_EQUAL(dut_view(&dut, bad_id, disabled), 10 - packets);
	CU_ASSERT_EQUAL(dut_view(&dut, bad_id, dropped), 10 - packets);
	sp_nic_totals(dut.nic, &t);
	CU_ASSERT_EQUAL(t.received, 14);
	CU_ASSERT_EQUAL(t.taken, 4 + packets);
	CU_ASSERT_EQUAL(t.dropped, 10 - packets);
	end();
}

/* Nobody calls its detach(), which would have released them; end() looks whether buffers are missing. */
TEST(what_it_kept_is_released_with_it)
{
	start(1, "");
	say(0, BAD, "kkkkk", 1);
	UNTIL(dut_view(&dut, bad_id, kept) == 5);
	say(0, BAD, "p", 1);
	CU_ASSERT(taken_out_of("payload"));
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, bad_id), 0);
	CU_ASSERT_EQUAL(rte_mempool_in_use_count(sp_registry_pool()), dut.in_use);
	serves(0);
	end();
}

TEST(who_waits_is_named_and_nobody_waits_for_him)
{
	struct sp_error error = {0};
	char settings[64], text[256];
	json_t *fault;
	uint32_t id;
	int pipes[2];

	CU_ASSERT_EQUAL_FATAL(pipe(pipes), 0);
	snprintf(settings, sizeof(settings), "pipe=%d", pipes[0]);
	start(1, settings);
	CU_ASSERT(!sp_nic_stopped(dut.nic, text, sizeof(text)));
	say(0, BAD, "W", 1);
	UNTIL(faults());
	CU_ASSERT(is_fault(0, "payload", false, false));
	CU_ASSERT_EQUAL(told.fault[0].frames, 1);
	CU_ASSERT_EQUAL(told.frame[0][42 + 12], 'W');
	CU_ASSERT(sp_nic_stopped(dut.nic, text, sizeof(text)));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "payload() of handler faulty, context culprit"));
	json_t *r = report();
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
	CU_ASSERT_EQUAL_FATAL(write(pipes[1], "w", 1), 1);
	serves(0);
	UNTIL(!sp_nic_stopped(dut.nic, text, sizeof(text)));
	CU_ASSERT_EQUAL(dut_view(&dut, bad_id, packets), 1); /* it was done with the packet: the signal ended nothing */
	CU_ASSERT_EQUAL(faults(), 1);
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
	say(1, BAD, "W", 1);
	UNTIL(faults());
	CU_ASSERT(is_fault(0, "payload", false, false));
	CU_ASSERT_EQUAL(told.fault[0].worker, 1);
	serves(0);
	CU_ASSERT_EQUAL_FATAL(write(pipes[1], "w", 1), 1);
	serves(1);
	end();
	close(pipes[0]);
	close(pipes[1]);
}

TEST(both_workers_are_taken_out_of_one_context)
{
	start(2, "");
	say(0, BAD, "p", 1);
	say(1, BAD, "p", 2);
	UNTIL(faults() >= 2 && dut_view(&dut, bad_id, disabled) == 2);
	serves(0);
	serves(1);
	say(0, BAD, "gg", 1);
	say(1, BAD, "gg", 1);
	UNTIL(sp_nic_dropped(dut.nic, "context-disabled") == 6);
	json_t *r = report();
	CU_ASSERT_FATAL(last_fault_begins(r, "culprit", "payload() did not come back for "));
	CU_ASSERT_PTR_NOT_NULL(strstr(json_string_value(last_fault(r, "culprit")), " s, and was taken out"));
	json_decref(r);
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, bad_id), 0);
	end();
}

TEST(linked_in_handlers_are_named_and_never_unloaded)
{
	start_with(1, "linked", "");
	spin_on = true;
	say(0, BAD, "gg", 1);
	UNTIL(faults());
	CU_ASSERT(is_fault(0, "payload", true, false));
	CU_ASSERT_STRING_EQUAL(told.handler[0], "linked");
	CU_ASSERT_EQUAL(told.fault[0].frames, 2);
	const struct timespec pause = {.tv_nsec = 300000000};
	nanosleep(&pause, NULL);
	CU_ASSERT_EQUAL(faults(), 1);
	spin_on = false;
	serves(0);
	CU_ASSERT_EQUAL(dut_view(&dut, bad_id, packets), 2);
	end();
}

TEST(who_goes_round_has_not_stopped)
{
	start(2, "");
	for (unsigned i = 0; i < 8; i++) {
		const struct timespec pause = {.tv_nsec = 100000000};

		nanosleep(&pause, NULL); /* in nobody's call */
		say(i % 2, BAD, "gggg", 1);
	}
	UNTIL(dut_counter(&dut, bad_id, "served") == 32);
	CU_ASSERT_EQUAL(faults(), 0);
	end();
}

TEST(a_nic_can_be_started_again)
{
	start(1, "");
	say(0, BAD, "p", 1);
	CU_ASSERT(taken_out_of("payload"));
	serves(0);
	sp_nic_stop(dut.nic);
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, bad_id), 0);
	bad_id = dut_context(&dut, "culprit", "faulty", "qp=16");
	CU_ASSERT_EQUAL_FATAL(sp_nic_start(dut.nic), 0);
	say(0, BAD, "p", 1);
	UNTIL(faults() >= 2 && told.fault[faults() - 1].aborted);
	serves(0);
	end();
}
