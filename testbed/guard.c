/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A handler's call costs the guard a few stores. A timer looks every few milliseconds whether the call at hand is still
 * the one that it saw last: arming a timer for each call was turned down, being two system calls for each.
 */
#include "guard.h"

#include <errno.h>
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "arrivals.h"
#include "fields.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

#define LIMIT_MS 2000
#define ASLEEP	 10 /* times the limit, for a call that uses no processor time */
#define INSIDE	 10 /* times the limit, for a call that is always found in the C library */
#define STILL	 10 /* times the limit, for calls at one moment of virtual time between two packets */
#define TICK_MAX 20000000ull
#define TICK_MIN 2000000ull
#define LEVELS	 8  /* calls within calls: closing a message from payload() calls completion() */
#define RANGES	 16 /* of code that holds locks which everybody needs */
#define STACK	 (256u << 10)
#define NEAR	 65536u /* bytes from the stack pointer */

static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
#define CRASHES (sizeof(crashes) / sizeof(*crashes))

/* A call under way. Everything is copied: the NIC's stack is gone when a call has been left. */
struct level {
	const char *context, *handler;
	enum sp_called function;
	sp_time now;
	uint64_t packet, last_packet; /* its first and last packet; 0: none */
	uint64_t after;		      /* the packet that a handler saw last */
	const uint8_t *frame;	      /* of the first packet */
	uint32_t frame_len;
	uint64_t sequence; /* no other call has this number */
	/* the timer's */
	uint64_t seen, cpu, ticks; /* sequence at some tick, and when that was */
};

struct sp_guard {
	struct sp_guard_config config;
	uint64_t complaints;
	struct sp_arrivals arrivals;
	uint64_t sequence, after;
	struct level level[LEVELS];
	volatile sig_atomic_t depth; /* calls under way; level[] is filled before it grows */
	volatile sig_atomic_t running;
	pid_t thread;
	uint64_t limit, tick; /* ns */
	uint64_t ticks;
	uint64_t arrivals_seen, still_cpu; /* the timer's: since when there is neither packet nor time passing ... */
	sp_time still;			   /* ... and when that was */
	sigjmp_buf out;
	unsigned left; /* the level that took too long */
	enum { SPINS, SLEEPS, STANDS_STILL } how;
	struct sigaction old[CRASHES];
	stack_t stack, old_stack;
	struct {
		uintptr_t from, to;
	} range[RANGES];
	unsigned ranges;
};

static struct sp_guard *volatile the_guard;
static volatile sig_atomic_t held; /* callbacks of watches under way */

void sp_guard_hold(void)
{
	held++;
	atomic_signal_fence(memory_order_seq_cst);
}

void sp_guard_let(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	held--;
}

/* ---- words ---- */

static void describe(const struct sp_guard *g, const struct level *l, char *text, size_t room)
{
	int n = snprintf(text, room, "context %s, handler %s, %s, ", l->context, l->handler,
			 sp_called_name(l->function));

	(void)g;
	if (n < 0 || (size_t)n >= room)
		return;
	text += n;
	room -= (size_t)n;
	if (l->packet && l->last_packet != l->packet)
		snprintf(text, room, "packets %llu to %llu", (unsigned long long)l->packet,
			 (unsigned long long)l->last_packet);
	else if (l->packet)
		snprintf(text, room, "packet %llu", (unsigned long long)l->packet);
	else if (l->after)
		snprintf(text, room, "at %.9f s, after packet %llu", (double)l->now / (double)SP_SEC,
			 (unsigned long long)l->after);
	else
		snprintf(text, room, "before the first packet");
}

static void complain(struct sp_guard *g, const char *text)
{
	if (g->complaints++ < SP_GUARD_SAID)
		g->config.say(g->config.arg, text);
}

/* ---- words in a signal handler ---- */

static char *put(char *to, const char *end, const char *text)
{
	while (*text && to < end)
		*to++ = *text++;
	return to;
}

static char *put_number(char *to, const char *end, uint64_t n, unsigned base)
{
	char digits[24];
	unsigned i = sizeof(digits);

	digits[--i] = '\0';
	do
		digits[--i] = "0123456789abcdef"[n % base];
	while (n /= base);
	return put(to, end, digits + i);
}

/* By hand: printf() is not for signal handlers. */
static char *put_call(char *to, const char *end, const struct sp_guard *g)
{
	const unsigned depth = (unsigned)g->depth < LEVELS ? (unsigned)g->depth : LEVELS;
	const struct level *l = &g->level[depth - 1];

	to = put(to, end, g->config.program ? g->config.program : "spindle");
	to = put(to, end, ": context ");
	to = put(to, end, l->context);
	to = put(to, end, ", handler ");
	to = put(to, end, l->handler);
	to = put(to, end, ", ");
	to = put(to, end, sp_called_name(l->function));
	if (!l->packet && !l->after)
		return put(to, end, ", before the first packet: ");
	to = put(to, end, !l->packet ? ", after packet " : l->packet == l->last_packet ? ", packet " : ", packets ");
	to = put_number(to, end, l->packet ? l->packet : l->after, 10);
	if (l->packet != l->last_packet) {
		to = put(to, end, " to ");
		to = put_number(to, end, l->last_packet, 10);
	}
	return put(to, end, ": ");
}

static void say_at_once(struct sp_guard *g, const char *text, size_t len)
{
	while (len) {
		ssize_t n = write(STDERR_FILENO, text, len);

		if (n < 0 && errno != EINTR)
			break;
		text += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	if (g->config.crash)
		g->config.crash(g->config.arg);
}

/* ---- the watch ---- */

static void fill(struct sp_guard *g, struct level *l, const struct sp_watched_call *call)
{
	l->context = call->context;
	l->handler = call->handler;
	l->function = call->function;
	l->now = call->now;
	l->packet = l->last_packet = 0;
	l->frame = NULL;
	if (call->packets) {
		l->packet = sp_arrivals_find(&g->arrivals, call->packet[0]);
		l->last_packet = sp_arrivals_find(&g->arrivals, call->packet[call->packets - 1]);
		l->frame = call->packet[0]->frame;
		l->frame_len = call->packet[0]->frame_len;
		g->after = l->last_packet;
	}
	l->after = g->after;
}

static void enter(void *arg, const struct sp_watched_call *call)
{
	struct sp_guard *g = arg;

	if (g->depth < LEVELS) {
		struct level *l = &g->level[g->depth];

		fill(g, l, call);
		l->sequence = ++g->sequence;
	}
	atomic_signal_fence(memory_order_seq_cst);
	g->depth++;
}

static void leave(void *arg, const struct sp_watched_call *call)
{
	struct sp_guard *g = arg;

	(void)call;
	if (g->depth)
		g->depth--;
	atomic_signal_fence(memory_order_seq_cst);
}

static void arrived(void *arg, const struct sp_packet *p, int parsed, sp_time now)
{
	(void)parsed;
	(void)now;
	sp_arrivals_add(&((struct sp_guard *)arg)->arrivals, p);
}

static void fate(void *arg, const struct sp_packet *p, enum sp_capture_fate fate, const char *reason)
{
	struct sp_arrivals *a = &((struct sp_guard *)arg)->arrivals;

	(void)fate;
	(void)reason;
	sp_arrivals_remove(a, sp_arrivals_find(a, p));
}

static void wrong(void *arg, const struct sp_watched_call *call, const char *what)
{
	struct sp_guard *g = arg;
	char text[1024];
	size_t n = 0;

	sp_guard_hold();
	if (call) {
		struct level l;

		fill(g, &l, call);
		describe(g, &l, text, sizeof(text) - 2);
		n = strlen(text);
		n += (size_t)sprintf(text + n, ": ");
	}
	snprintf(text + n, sizeof(text) - n, "%s", what);
	complain(g, text);
	sp_guard_let();
}

int sp_guard_add(struct sp_guard *g, struct sp_nic *nic)
{
	return sp_nic_watch(
		nic,
		&(struct sp_watch){
			.arg = g, .arrived = arrived, .fate = fate, .enter = enter, .leave = leave, .wrong = wrong});
}

uint64_t sp_guard_complaints(const struct sp_guard *g)
{
	return g->complaints;
}

/* ---- a call that does not return ---- */

static uint64_t processor_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Code that may hold the locks of malloc, stdio and the loader: it is let finish what it does. */
static int note_range(struct dl_phdr_info *info, size_t size, void *arg)
{
	static const char *const name[] = {"/libc.so", "/ld-linux", "/libasan.so", "/libubsan.so", "/libtsan.so"};
	struct sp_guard *g = arg;

	(void)size;
	for (size_t i = 0; i < sizeof(name) / sizeof(*name); i++)
		for (int k = 0; strstr(info->dlpi_name, name[i]) && k < info->dlpi_phnum; k++) {
			const ElfW(Phdr) *h = &info->dlpi_phdr[k];

			if (h->p_type != PT_LOAD || !(h->p_flags & PF_X) || g->ranges == RANGES)
				continue;
			g->range[g->ranges].from = info->dlpi_addr + h->p_vaddr;
			g->range[g->ranges++].to = info->dlpi_addr + h->p_vaddr + h->p_memsz;
		}
	return 0;
}

static bool may_hold_locks(const struct sp_guard *g, const ucontext_t *at)
{
#if defined(__x86_64__)
	const uintptr_t pc = (uintptr_t)at->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
	const uintptr_t pc = (uintptr_t)at->uc_mcontext.pc;
#else
	const uintptr_t pc = 0;
#endif
	for (unsigned i = 0; i < g->ranges; i++)
		if (pc >= g->range[i].from && pc < g->range[i].to)
			return true;
	return false;
}

/* Nothing that takes a lock can be trusted any more, not even to tell. */
static void __attribute__((noreturn)) end_at_once(struct sp_guard *g)
{
	char text[512] = "", *end = text + sizeof(text) - 1, *to = put_call(text, end, g);

	to = put(to, end, "did not return within ");
	to = put_number(to, end, g->limit / 1000000, 10);
	to = put(to, end, " ms of processor time, nor let go of the C library\n");
	say_at_once(g, text, (size_t)(to - text));
	_exit(1);
}

/*
 * Time without processor time is counted in ticks and not read from a clock: none come while a debugger has stopped the
 * process.
 */
static void tick(int sig, siginfo_t *info, void *at)
{
	struct sp_guard *g = the_guard;
	const int saved = errno;
	uint64_t cpu, used;
	bool asleep, still, inside;
	unsigned depth, i;

	(void)sig;
	(void)info;
	if (!g || !g->running || held || !g->depth)
		return;
	depth = (unsigned)g->depth < LEVELS ? (unsigned)g->depth : LEVELS;
	cpu = processor_time();
	errno = saved;
	g->ticks++;
	for (i = 0; i < depth; i++) {
		struct level *l = &g->level[i];

		if (l->seen == l->sequence)
			continue;
		l->seen = l->sequence;
		l->cpu = cpu;
		l->ticks = g->ticks;
	}
	used = cpu - g->level[0].cpu;
	if (g->still != g->level[0].now || g->arrivals_seen != g->arrivals.total) {
		g->still = g->level[0].now;
		g->arrivals_seen = g->arrivals.total;
		g->still_cpu = cpu;
	}
	inside = may_hold_locks(g, at);
	still = cpu - g->still_cpu >= STILL * g->limit && !inside;
	asleep = used < g->limit && (g->ticks - g->level[0].ticks) * g->tick >= ASLEEP * g->limit;
	if (!still && !asleep && (used < g->limit || (inside && used < INSIDE * g->limit)))
		return;
	/* The innermost one that has been there for long: it is the one that does not return. */
	for (i = depth - 1; i && cpu - g->level[i].cpu < g->limit / 2 &&
			    (g->ticks - g->level[i].ticks) * g->tick < ASLEEP / 2 * g->limit;
	     i--)
		;
	g->left = i;
	g->how = used >= g->limit ? SPINS : asleep ? SLEEPS : STANDS_STILL;
	if (g->how == SPINS && inside)
		end_at_once(g);
	g->depth = 0;
	siglongjmp(g->out, 1);
}

static void say_left(struct sp_guard *g)
{
	const struct level *l = &g->level[g->left];
	char text[1024], frame[256];
	size_t n;

	describe(g, l, text, sizeof(text) - 400);
	n = strlen(text);
	if (l->packet && l->frame && l->packet == l->last_packet) {
		sp_frame_text(l->frame, l->frame_len, frame, sizeof(frame));
		n += (size_t)sprintf(text + n, " (%s)", frame);
	}
	if (g->how == STANDS_STILL)
		sprintf(text + n, ": virtual time stands still: calls without end, of which the last ones took %g s",
			STILL * (double)g->limit / 1e9);
	else if (g->how == SLEEPS)
		sprintf(text + n, ": has not returned for %g s, and uses no processor time",
			ASLEEP * (double)g->limit / 1e9);
	else
		sprintf(text + n, ": did not return within %g s of processor time", (double)g->limit / 1e9);
	complain(g, text);
}

static int timer_start(struct sp_guard *g, timer_t *timer)
{
	const struct itimerspec every = {.it_value = {.tv_nsec = (long)g->tick},
					 .it_interval = {.tv_nsec = (long)g->tick}};
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGVTALRM};

	event.sigev_notify_thread_id = g->thread;
	if (timer_create(CLOCK_MONOTONIC, &event, timer))
		return -errno;
	timer_settime(*timer, 0, &every, NULL);
	return 0;
}

int sp_guard_run(struct sp_guard *g, int (*fn)(void *arg), void *arg)
{
	const struct sigaction action = {.sa_sigaction = tick, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
	struct sigaction old;
	timer_t timer;
	volatile int r;

	g->thread = gettid();
	sigaction(SIGVTALRM, &action, &old);
	r = timer_start(g, &timer);
	if (r) {
		sigaction(SIGVTALRM, &old, NULL);
		return r;
	}
	if (!sigsetjmp(g->out, 1)) {
		g->running = 1;
		r = fn(arg);
		g->running = 0;
	} else {
		g->running = 0;
		r = -ETIMEDOUT;
	}
	timer_delete(timer); /* and what of its signals is pending */
	sigaction(SIGVTALRM, &old, NULL);
	if (r == -ETIMEDOUT && !g->depth && g->left < LEVELS)
		say_left(g);
	return r;
}

/* ---- a crash ---- */

/* What lies just there is on the stack, unless there is no more of it. */
static bool near_stack(const ucontext_t *at, uintptr_t address)
{
#if defined(__x86_64__)
	const uintptr_t sp = (uintptr_t)at->uc_mcontext.gregs[REG_RSP];
#elif defined(__aarch64__)
	const uintptr_t sp = (uintptr_t)at->uc_mcontext.sp;
#else
	const uintptr_t sp = 0;
#endif
	return address - sp + NEAR < 2 * NEAR;
}

static void say_crash(struct sp_guard *g, int sig, const siginfo_t *info, const ucontext_t *at)
{
	static const char *const what[CRASHES] = {"segmentation fault", "bus error", "arithmetic error (division by 0)",
						  "illegal instruction", "abort()"};
	char text[512] = "", *end = text + sizeof(text) - 1, *to = put_call(text, end, g);
	size_t i;

	for (i = 0; crashes[i] != sig; i++)
		;
	to = put(to, end, what[i]);
	if ((sig == SIGSEGV || sig == SIGBUS) && info->si_code > 0) {
		to = put(to, end, " at address 0x");
		to = put_number(to, end, (uintptr_t)info->si_addr, 16);
		if ((uintptr_t)info->si_addr < 4096)
			to = put(to, end, " (a null pointer)");
		else if (near_stack(at, (uintptr_t)info->si_addr))
			to = put(to, end, " (the stack is used up)");
	}
	*to++ = '\n';
	say_at_once(g, text, (size_t)(to - text));
}

/* A handler must not end the process as if all were well. */
static void exited(void)
{
	struct sp_guard *g = the_guard;
	char text[512], *end = text + sizeof(text) - 1, *to;

	if (!g || !g->depth || held || gettid() != g->thread)
		return;
	to = put_call(text, end, g);
	to = put(to, end, "called exit()");
	*to++ = '\n';
	say_at_once(g, text, (size_t)(to - text));
	_exit(1);
}

static void crashed(int sig, siginfo_t *info, void *at)
{
	struct sp_guard *g = the_guard;
	size_t i;

	for (i = 0; crashes[i] != sig; i++)
		;
	sigaction(sig, g ? &g->old[i] : &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
	if (g)
		g->running = 0; /* who comes next takes the time that it needs: a sanitizer's report */
	if (g && g->depth && !held && gettid() == g->thread)
		say_crash(g, sig, info, at);
	/* The instruction faults again, for whose signal this was before; what was only sent must be sent again. */
	if (info->si_code <= 0)
		raise(sig);
}

/* A stack of its own: a handler that calls itself without end has none left. */
static int crashes_take(struct sp_guard *g)
{
	struct sigaction action = {.sa_sigaction = crashed, .sa_flags = SA_SIGINFO | SA_ONSTACK};

	g->stack = (stack_t){.ss_size = STACK};
	g->stack.ss_sp = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (g->stack.ss_sp == MAP_FAILED)
		return -ENOMEM;
	sigaltstack(&g->stack, &g->old_stack);
	sigemptyset(&action.sa_mask);
	sigaddset(&action.sa_mask, SIGVTALRM);
	for (size_t i = 0; i < CRASHES; i++)
		sigaction(crashes[i], &action, &g->old[i]);
	return 0;
}

int sp_guard_create(const struct sp_guard_config *config, struct sp_guard **guard)
{
	const uint64_t ms = config->limit_ms ? config->limit_ms : LIMIT_MS;
	static bool exits_seen; /* what is registered stays so */
	struct sp_guard *g;

	if (the_guard)
		return -EBUSY;
	if (!exits_seen && atexit(exited))
		return -ENOMEM;
	exits_seen = true;
	g = calloc(1, sizeof(*g));
	if (!g)
		return -ENOMEM;
	g->config = *config;
	g->limit = (ms < 1000000000 ? ms : 1000000000) * 1000000;
	g->tick = g->limit / 10 > TICK_MAX ? TICK_MAX : g->limit / 10 < TICK_MIN ? TICK_MIN : g->limit / 10;
	g->thread = gettid();
	g->left = LEVELS; /* none */
	dl_iterate_phdr(note_range, g);
	if (crashes_take(g)) {
		free(g);
		return -ENOMEM;
	}
	the_guard = *guard = g;
	return 0;
}

void sp_guard_destroy(struct sp_guard *g)
{
	char text[80];

	if (!g)
		return;
	if (g->complaints > SP_GUARD_SAID) {
		snprintf(text, sizeof(text), "and %llu complaints more",
			 (unsigned long long)(g->complaints - SP_GUARD_SAID));
		g->config.say(g->config.arg, text);
	}
	for (size_t i = 0; i < CRASHES; i++)
		sigaction(crashes[i], &g->old[i], NULL);
	sigaltstack(&g->old_stack, NULL);
	munmap(g->stack.ss_sp, STACK);
	the_guard = NULL;
	sp_arrivals_free(&g->arrivals);
	free(g);
}
