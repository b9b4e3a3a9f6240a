/* SPDX-License-Identifier: BSD-3-Clause */
/* The guard over handlers' calls. No NIC here: this program's own sp_nic_trace() takes the callbacks, and the tests
 * call them as a NIC would. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "../../testbed/guard.h"
#include "../lib/suite.h"

#define LIMIT 40 /* ms */

static struct sp_tracer watch;
static volatile int zero;

int sp_nic_trace(struct sp_nic *nic, const struct sp_tracer *w)
{
	watch = *w;
	return 0;
}

static char said[64][512];
static unsigned sayings;

static void say(void *arg, const char *text)
{
	CU_ASSERT_STRING_EQUAL(arg, "arg");
	if (sayings < 64)
		snprintf(said[sayings++], sizeof(said[0]), "%s", text);
}

static struct sp_guard *guard_of(uint64_t limit)
{
	static char arg[] = "arg";
	const struct sp_guard_config config = {.limit_ms = limit, .say = say, .arg = arg};
	struct sp_guard *g = NULL;

	sayings = 0;
	CU_ASSERT_EQUAL_FATAL(sp_guard_create(&config, &g), 0);
	CU_ASSERT_EQUAL_FATAL(sp_guard_add(g, NULL), 0);
	return g;
}

/* ---- what a NIC would do ---- */
static uint8_t frame[8][64];
static struct sp_packet packet[8];
static struct sp_packet *const packets[8] = {&packet[0], &packet[1], &packet[2], &packet[3],
					     &packet[4], &packet[5], &packet[6], &packet[7]};

static void arrive(unsigned i)
{
	packet[i] = (struct sp_packet){.frame = frame[i], .frame_len = 60, .buf = frame[i]};
	watch.arrived(watch.arg, &packet[i], -1, 0);
}

static struct sp_traced_call call_of(enum sp_called function, unsigned first, unsigned n)
{
	return (struct sp_traced_call){.context = "x",
				       .handler = "y",
				       .function = function,
				       .now = SP_SEC / 2,
				       .packet = n ? packets + first : NULL,
				       .packets = n};
}

static void in(enum sp_called function, unsigned first, unsigned n)
{
	const struct sp_traced_call call = call_of(function, first, n);

	watch.enter(watch.arg, &call);
}

static void out(void)
{
	const struct sp_traced_call call = call_of(SP_CALLED_PAYLOAD, 0, 0);

	watch.leave(watch.arg, &call);
}

static uint64_t used_ms(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void spin(uint64_t ms)
{
	const uint64_t from = used_ms(CLOCK_THREAD_CPUTIME_ID);

	while (used_ms(CLOCK_THREAD_CPUTIME_ID) - from < ms)
		;
}

/* ---- calls that do not return ---- */
static int never_returns(void *arg)
{
	arrive(0);
	arrive(1);
	in(SP_CALLED_PAYLOAD, 1, 1);
	while (!zero)
		;
	return 0;
}

TEST(a_call_that_does_not_return_is_left_and_named)
{
	struct sp_guard *g = guard_of(LIMIT);
	const uint64_t from = used_ms(CLOCK_THREAD_CPUTIME_ID);

	CU_ASSERT_EQUAL(sp_guard_run(g, never_returns, NULL), -ETIMEDOUT);
	CU_ASSERT(used_ms(CLOCK_THREAD_CPUTIME_ID) - from >= LIMIT);
	CU_ASSERT(used_ms(CLOCK_THREAD_CPUTIME_ID) - from < 10 * LIMIT);
	CU_ASSERT_EQUAL(sayings, 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(said[0], "context x, handler y, payload, packet 2 ("));
	CU_ASSERT_PTR_NOT_NULL(strstr(said[0], "): did not return within 0.04 s of processor time"));
	CU_ASSERT_EQUAL(sp_guard_complaints(g), 1);
	sp_guard_destroy(g);
}

static int sleeps(void *arg)
{
	arrive(0);
	in(SP_CALLED_HEADER, 0, 1);
	while (!zero)
		pause();
	return 0;
}

TEST(a_call_that_sleeps_without_end_is_left_and_named)
{
	struct sp_guard *g = guard_of(20);

	CU_ASSERT_EQUAL(sp_guard_run(g, sleeps, NULL), -ETIMEDOUT);
	CU_ASSERT_EQUAL(sayings, 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(said[0], "context x, handler y, header, packet 1 ("));
	CU_ASSERT_PTR_NOT_NULL(strstr(said[0], "has not returned for 0.2 s, and uses no processor time"));
	sp_guard_destroy(g);
}

static int closes_and_never_returns(void *arg)
{
	arrive(0);
	in(SP_CALLED_PAYLOAD, 0, 1);
	in(SP_CALLED_COMPLETION, 0, 0);
	if (arg)
		out();
	while (!zero)
		;
	return 0;
}

TEST(of_calls_within_calls_the_one_that_hangs_is_named)
{
	static char back[] = "back";
	struct sp_guard *g = guard_of(LIMIT);

	CU_ASSERT_EQUAL(sp_guard_run(g, closes_and_never_returns, NULL), -ETIMEDOUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(said[0], "context x, handler y, completion, at 0.500000000 s, after packet 1:"));
	sp_guard_destroy(g);
	g = guard_of(LIMIT);
	CU_ASSERT_EQUAL(sp_guard_run(g, closes_and_never_returns, back), -ETIMEDOUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(said[0], "context x, handler y, payload, packet 1 ("));
	sp_guard_destroy(g);
}

static int many_calls(void *arg)
{
	for (int i = 0; i < 20; i++) {
		in(SP_CALLED_WORK, 0, 0);
		spin(LIMIT / 10);
		out();
	}
	return 7;
}

static int long_outside(void *arg)
{
	spin(3 * LIMIT);
	in(SP_CALLED_TIMER, 0, 0);
	sp_guard_hold();
	sp_guard_hold();
	sp_guard_let();
	spin(3 * LIMIT);
	sp_guard_let();
	out();
	spin(3 * LIMIT);
	return -5;
}

TEST(only_one_calls_own_time_counts)
{
	struct sp_guard *g = guard_of(LIMIT);

	CU_ASSERT_EQUAL(sp_guard_run(g, many_calls, NULL), 7);
	CU_ASSERT_EQUAL(sp_guard_run(g, long_outside, NULL), -5);
	CU_ASSERT_EQUAL(sayings, 0);
	sp_guard_destroy(g);
}

static int works_for_ever(void *arg)
{
	for (int i = 0; i < 100 && !zero; i++) {
		in(SP_CALLED_WORK, 0, 0);
		spin(LIMIT / 4);
		out();
		if (arg)
			arrive(0);
	}
	return 1;
}

TEST(calls_without_end_at_one_moment_are_left_and_named)
{
	static char packets[] = "packets";
	struct sp_guard *g = guard_of(LIMIT / 2);

	CU_ASSERT_EQUAL(sp_guard_run(g, works_for_ever, packets), 1);
	CU_ASSERT_EQUAL(sp_guard_run(g, works_for_ever, NULL), -ETIMEDOUT);
	CU_ASSERT_EQUAL(sayings, 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(said[0], "context x, handler y, work, "));
	CU_ASSERT_PTR_NOT_NULL(
		strstr(said[0], "virtual time stands still: calls without end, of which the last ones took 0.2 s"));
	sp_guard_destroy(g);
}

static int calls_now_and_then(void *arg)
{
	for (int i = 0; i < 2; i++) {
		in(SP_CALLED_ATTACH, 0, 0);
		spin(6);
		out();
		spin(250);
	}
	return 1;
}

TEST(time_used_between_calls_is_not_the_handlers)
{
	struct sp_guard *g = guard_of(20);

	CU_ASSERT_EQUAL(sp_guard_run(g, calls_now_and_then, NULL), 1);
	CU_ASSERT_EQUAL(sayings, 0);
	sp_guard_destroy(g);
}

/* What a call that is left has just got is nobody's: no leak that a sanitizer should tell of. */
void __lsan_disable(void) __attribute__((weak));
void __lsan_enable(void) __attribute__((weak));

static void *volatile left_behind[10]; /* by calls that were left */
static int round_at;

static int allocates(void *arg)
{
	in(SP_CALLED_WORK, 0, 0);
	while (!zero) {
		void *volatile p = left_behind[round_at] = malloc(3000);

		for (volatile int k = 0; k < 2000; k++) /* so long that ticks find it here too */
			;

		free(p);
		fprintf(arg, "%p", p);
		if (ftell(arg) > 10000)
			rewind(arg);
	}
	return 0;
}

static void *waits(void *mutex)
{
	pthread_mutex_lock(mutex);
	return NULL;
}

TEST(a_call_is_not_left_while_it_holds_locks_of_the_c_library)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_t other; /* without a second thread malloc() locks nothing */
	FILE *file = tmpfile();

	pthread_mutex_lock(&mutex);
	CU_ASSERT_EQUAL_FATAL(pthread_create(&other, NULL, waits, &mutex), 0);
	alarm(250); /* rather than wait for a lock for ever */

	for (int i = 0; i < 10; i++) {
		struct sp_guard *g = guard_of(20);

		round_at = i;
		if (__lsan_disable)
			__lsan_disable();
		CU_ASSERT_EQUAL(sp_guard_run(g, allocates, file), -ETIMEDOUT);
		if (__lsan_enable)
			__lsan_enable();
		sp_guard_destroy(g);
		free(malloc(3000));
		CU_ASSERT(fprintf(file, "still there") > 0);
	}
	alarm(0);
	fclose(file);
	pthread_mutex_unlock(&mutex);
	pthread_join(other, NULL);
}

/* ---- crashes: in a child, whose status and words the test reads ---- */
static int never_inlined(volatile int *n);
static int (*volatile recursive)(volatile int *) = never_inlined;
static int __attribute__((noinline)) never_inlined(volatile int *n)
{
	volatile int more[100] = {*n};

	return recursive(more) + more[0];
}

static int *volatile null;

static void __attribute__((no_sanitize("undefined"))) crash(char how)
{
	volatile int n = 1;

	switch (how) {
	case '0':
		*null = 1;
		break;
	case 'r':
		recursive(&n);
		break;
	case '/':
		n = n / zero;
		break;
	case 'a':
		abort();
	case 'k':
		raise(SIGSEGV);
		break;
	case 'e':
		exit(0);
	case 'i':
		__builtin_trap();
	}
}

static int crash_in_call(void *arg)
{
	arrive(0);
	arrive(1);
	arrive(2);
	in(SP_CALLED_PAYLOAD, 2, 1);
	crash(*(char *)arg);
	return 0;
}

static int crash_outside(void *arg)
{
	in(SP_CALLED_TIMER, 0, 0);
	out();
	crash(*(char *)arg);
	return 0;
}

static int crash_held(void *arg)
{
	in(SP_CALLED_TIMER, 0, 0);
	sp_guard_hold();
	crash(*(char *)arg);
	return 0;
}

static void flush(void *arg)
{
	if (write(STDERR_FILENO, "flushed\n", 8) != 8)
		_exit(99);
}

static void exit_42(int sig)
{
	_exit(42);
}

static char words[8192];
static uint64_t child_limit = 10000;

static int status_of(int (*fn)(void *), char how, bool before)
{
	static char arg[] = "arg";
	const struct sp_guard_config config = {
		.arg = arg, .limit_ms = child_limit, .say = say, .crash = flush, .program = "spindle test"};
	int fd[2], status = -1;
	ssize_t n;
	size_t len = 0;

	CU_ASSERT_EQUAL_FATAL(pipe(fd), 0);
	fflush(stdout);
	const pid_t child = fork();

	if (!child) {
		struct sp_guard *g;

		setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
		dup2(fd[1], STDERR_FILENO);
		close(fd[0]);
		close(fd[1]);
		if (before)
			signal(SIGSEGV, exit_42);
		if (sp_guard_create(&config, &g) || sp_guard_add(g, NULL))
			_exit(98);
		_exit(sp_guard_run(g, fn, &how));
	}
	close(fd[1]);
	while (len < sizeof(words) - 1 && (n = read(fd[0], words + len, sizeof(words) - 1 - len)) > 0)
		len += (size_t)n;
	words[len] = '\0';
	close(fd[0]);
	waitpid(child, &status, 0);
	return status;
}

#ifdef __SANITIZE_ADDRESS__
#define DIED(status, sig) (WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) == 1)) /* its report */
#else
#define DIED(status, sig) (WIFSIGNALED(status) && WTERMSIG(status) == (sig))
#endif

TEST(a_crash_names_the_handler_and_the_packet_and_ends_as_usual)
{
	static const struct {
		char how;
		int sig;
		const char *what;
	} crashes[] = {{'0', SIGSEGV, "segmentation fault at address 0x0 (a null pointer)\nflushed\n"},
		       {'r', SIGSEGV, "(the stack is used up)\nflushed\n"},
		       {'/', SIGFPE, "arithmetic error (division by 0)\nflushed\n"},
		       {'a', SIGABRT, "abort()\nflushed\n"},
		       {'k', SIGSEGV, "segmentation fault\nflushed\n"},
		       {'i', SIGILL, "illegal instruction\nflushed\n"}};

	for (size_t i = 0; i < sizeof(crashes) / sizeof(*crashes); i++) {
		int status = status_of(crash_in_call, crashes[i].how, false);

		CU_ASSERT(DIED(status, crashes[i].sig));
		CU_ASSERT_PTR_NOT_NULL(strstr(words, "spindle test: context x, handler y, payload, packet 3: "));
		CU_ASSERT_PTR_NOT_NULL(strstr(words, crashes[i].what));
		if (!DIED(status, crashes[i].sig) || !strstr(words, crashes[i].what))
			printf("# %c: status 0x%x: %s", crashes[i].how, (unsigned)status, words);
	}
}

TEST(exit_within_a_call_is_no_success)
{
	int status = status_of(crash_in_call, 'e', false);

	CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(words, "context x, handler y, payload, packet 3: called exit()\nflushed\n"));
	status = status_of(crash_outside, 'e', false);
	CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CU_ASSERT_STRING_EQUAL(words, "");
}

static int never_leaves_the_c_library(void *arg)
{
	static char bytes[1 << 20];
	arrive(0);
	in(SP_CALLED_PAYLOAD, 0, 1);
	while (!zero)
		memset(bytes, 1, sizeof(bytes));
	return 0;
}

TEST(a_call_that_never_leaves_the_c_library_ends_the_process)
{
	child_limit = 20;
	int status = status_of(never_leaves_the_c_library, 0, false);
	child_limit = 10000;
	/* It may be found outside after all. */
	CU_ASSERT(WIFEXITED(status) && (WEXITSTATUS(status) == 1 || WEXITSTATUS(status) == (-ETIMEDOUT & 0xFF)));
	if (WEXITSTATUS(status) == 1)
		CU_ASSERT_PTR_NOT_NULL(
			strstr(words, "context x, handler y, payload, packet 1: did not return within 20 ms"));
}

TEST(a_crash_outside_of_handlers_is_not_theirs)
{
	int status = status_of(crash_outside, '0', false);

	CU_ASSERT(DIED(status, SIGSEGV));
	CU_ASSERT_PTR_NULL(strstr(words, "handler y"));
	status = status_of(crash_held, '0', false);
	CU_ASSERT(DIED(status, SIGSEGV));
	CU_ASSERT_PTR_NULL(strstr(words, "handler y"));
}

TEST(who_had_the_signal_before_gets_it)
{
	int status = status_of(crash_in_call, '0', true);

	CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 42);
	CU_ASSERT_PTR_NOT_NULL(strstr(words, "packet 3: segmentation fault"));
	status = status_of(crash_in_call, 'k', true);
	CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 42);
}

TEST(one_guard_at_a_time_and_signals_are_given_back)
{
	static const int taken[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGVTALRM};
	struct sigaction before[6], after;
	struct sp_guard *second;
	stack_t stack, stack_after;

	sigaltstack(NULL, &stack);
	for (int i = 0; i < 6; i++)
		sigaction(taken[i], NULL, &before[i]);
	struct sp_guard *g = guard_of(LIMIT);
	CU_ASSERT_EQUAL(sp_guard_create(&(struct sp_guard_config){.say = say}, &second), -EBUSY);
	CU_ASSERT_EQUAL(sp_guard_run(g, never_returns, NULL), -ETIMEDOUT);
	sp_guard_destroy(g);
	for (int i = 0; i < 6; i++) {
		sigaction(taken[i], NULL, &after);
		CU_ASSERT_PTR_EQUAL(after.sa_sigaction, before[i].sa_sigaction);
	}
	sigaltstack(NULL, &stack_after);
	CU_ASSERT_PTR_EQUAL(stack.ss_sp, stack_after.ss_sp);
	sp_guard_destroy(guard_of(LIMIT));
	sp_guard_destroy(NULL);
}

/* ---- complaints ---- */
static void wrong(enum sp_called function, unsigned first, unsigned n, const char *what)
{
	const struct sp_traced_call call = call_of(function, first, n);

	watch.wrong(watch.arg, &call, what);
}

TEST(complaints_name_packets_by_number)
{
	struct sp_guard *g = guard_of(LIMIT);

	wrong(SP_CALLED_ATTACH, 0, 0, "a");
	arrive(0);
	arrive(1);
	arrive(2);
	wrong(SP_CALLED_PAYLOAD, 1, 1, "returned 99, which is no verdict");
	wrong(SP_CALLED_PAYLOAD, 0, 3, "c");
	packet[2].buf = NULL; /* sent */
	wrong(SP_CALLED_PAYLOAD, 2, 1, "d");
	watch.fate(watch.arg, &packet[0], SP_CAPTURE_TAKEN, NULL);
	watch.fate(watch.arg, &packet[2], SP_CAPTURE_TAKEN, NULL);
	packet[5] = packet[1]; /* it waits elsewhere, while others use its place */
	arrive(0);
	frame[1][0]++;
	packet[1] = (struct sp_packet){.frame = frame[6], .frame_len = 60, .buf = frame[6]};
	watch.arrived(watch.arg, &packet[1], -1, 0);
	wrong(SP_CALLED_PAYLOAD, 5, 1, "e");
	wrong(SP_CALLED_PAYLOAD, 1, 1, "f");
	wrong(SP_CALLED_TIMER, 0, 0, "g");
	watch.wrong(watch.arg, NULL, "nobody's");
	packet[1].buf = NULL;
	wrong(SP_CALLED_PAYLOAD, 1, 1, "h");
	CU_ASSERT_STRING_EQUAL(said[0], "context x, handler y, attach, before the first packet: a");
	CU_ASSERT_STRING_EQUAL(said[1], "context x, handler y, payload, packet 2: returned 99, which is no verdict");
	CU_ASSERT_STRING_EQUAL(said[2], "context x, handler y, payload, packets 1 to 3: c");
	CU_ASSERT_STRING_EQUAL(said[3], "context x, handler y, payload, packet 3: d");
	CU_ASSERT_STRING_EQUAL(said[4], "context x, handler y, payload, packet 2: e");
	CU_ASSERT_STRING_EQUAL(said[5], "context x, handler y, payload, packet 5: f");
	CU_ASSERT_STRING_EQUAL(said[6], "context x, handler y, timer, at 0.500000000 s, after packet 5: g");
	CU_ASSERT_STRING_EQUAL(said[7], "nobody's");
	CU_ASSERT_STRING_EQUAL(said[8], "context x, handler y, payload, packet 5: h");
	CU_ASSERT_EQUAL(sp_guard_complaints(g), 9);
	sp_guard_destroy(g);
}

TEST(many_complaints_are_counted)
{
	struct sp_guard *g = guard_of(LIMIT);

	for (int i = 0; i < 50; i++)
		wrong(SP_CALLED_TIMER, 0, 0, "again");
	CU_ASSERT_EQUAL(sayings, SP_GUARD_SAID);
	CU_ASSERT_EQUAL(sp_guard_complaints(g), 50);
	sp_guard_destroy(g);
	CU_ASSERT_EQUAL(sayings, SP_GUARD_SAID + 1);
	CU_ASSERT_STRING_EQUAL(said[SP_GUARD_SAID], "and 30 complaints more");
}
