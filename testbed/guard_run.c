/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Running under guard: calls that do not return. For each call of a handler the guard does a few stores. A timer checks
 * every few milliseconds whether the call is still the same. A timer per call would cost two system calls each.
 */
#include "guard_private.h"

#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "fields.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

#define LIMIT_MS 2000
#define ASLEEP	 10 /* times the limit, for a call that uses no processor time */
#define INSIDE	 10 /* times the limit, for a call that is always inside the C library */
#define STILL	 10 /* times the limit, for calls at one moment of virtual time between two packets */
#define TICK_MAX 20000000ull
#define TICK_MIN 2000000ull

static uint64_t processor_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Code that may hold the locks of malloc, stdio and the loader: it is allowed to finish. */
static int note_range(struct dl_phdr_info *info, size_t size, void *arg)
{
	static const char *const name[] = {"/libc.so", "/ld-linux", "/libasan.so", "/libubsan.so", "/libtsan.so"};
	struct sp_guard *g = arg;

	(void)size;
	for (size_t i = 0; i < sizeof(name) / sizeof(*name); i++)
		for (int k = 0; strstr(info->dlpi_name, name[i]) && k < info->dlpi_phnum; k++) {
			const ElfW(Phdr) *h = &info->dlpi_phdr[k];

			if (h->p_type != PT_LOAD || !(h->p_flags & PF_X) || g->ranges == SP_GUARD_RANGES)
				continue;
			g->range[g->ranges].from = info->dlpi_addr + h->p_vaddr;
			g->range[g->ranges++].to = info->dlpi_addr + h->p_vaddr + h->p_memsz;
		}
	return 0;
}

static void limit_set(struct sp_guard *g, uint64_t ms)
{
	if (!ms)
		ms = LIMIT_MS;
	g->limit = (ms < 1000000000 ? ms : 1000000000) * 1000000;
	g->tick = g->limit / 10 > TICK_MAX ? TICK_MAX : g->limit / 10 < TICK_MIN ? TICK_MIN : g->limit / 10;
	dl_iterate_phdr(note_range, g);
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

/* No function that takes a lock can be used any more, not even for the report. */
static void __attribute__((noreturn)) end_at_once(struct sp_guard *g)
{
	char text[512] = "", *end = text + sizeof(text) - 1, *to = sp_guard_put_call(text, end, g);

	to = sp_put(to, end, "did not return within ");
	to = sp_put_number(to, end, g->limit / 1000000, 10);
	to = sp_put(to, end, " ms of processor time, nor let go of the C library\n");
	sp_guard_say_at_once(g, text, (size_t)(to - text));
	_exit(1);
}

/*
 * Sleep is counted in ticks, not by a clock: there are no ticks while a debugger has stopped the process.
 */
static void tick(int sig, siginfo_t *info, void *at)
{
	struct sp_guard *g = sp_guard_here;
	const int saved = errno;
	uint64_t cpu, used;
	bool asleep, still, inside;
	unsigned depth, i;

	(void)sig;
	(void)info;
	if (!g || !g->running || sp_guard_held)
		return;
	cpu = processor_time();
	errno = saved;
	/* Between calls in a row, the NIC's time counts as theirs; with no call since the last tick, it does not. */
	if (g->depth || g->sequence != g->counted)
		g->still_cpu += cpu - g->cpu;
	g->counted = g->sequence;
	g->cpu = cpu;
	if (!g->depth)
		return;
	depth = (unsigned)g->depth < SP_GUARD_LEVELS ? (unsigned)g->depth : SP_GUARD_LEVELS;
	g->ticks++;
	for (i = 0; i < depth; i++) {
		struct sp_guard_level *l = &g->level[i];

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
		g->still_cpu = 0;
	}
	inside = may_hold_locks(g, at);
	still = g->still_cpu >= STILL * g->limit && !inside;
	asleep = used < g->limit && (g->ticks - g->level[0].ticks) * g->tick >= ASLEEP * g->limit;
	if (!still && !asleep && (used < g->limit || (inside && used < INSIDE * g->limit)))
		return;
	/* The innermost call that has lasted long: that one does not return. */
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
	const struct sp_guard_level *l = &g->level[g->left];
	char text[1024], frame[256];
	size_t n;

	sp_guard_describe(l, text, sizeof(text) - 400);
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
	sp_guard_complain(g, text);
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
	g->left = SP_GUARD_LEVELS; /* none */
	g->cpu = processor_time();
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
	if (r == -ETIMEDOUT && !g->depth && g->left < SP_GUARD_LEVELS)
		say_left(g);
	return r;
}

/* ---- making one ---- */
int sp_guard_create(const struct sp_guard_config *config, struct sp_guard **guard)
{
	struct sp_guard *g;
	int r;

	if (sp_guard_here)
		return -EBUSY;
	g = calloc(1, sizeof(*g));
	if (!g)
		return -ENOMEM;
	g->config = *config;
	g->thread = gettid();
	limit_set(g, config->limit_ms);
	r = sp_guard_crashes_take(g);
	if (r) {
		free(g);
		return r;
	}
	sp_guard_here = *guard = g;
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
	sp_guard_crashes_give(g);
	sp_guard_here = NULL;
	sp_arrivals_free(&g->arrivals);
	free(g);
}
