/* SPDX-License-Identifier: BSD-3-Clause */
#include "watchdog.h"
#include "../engine.h"
#include "../error.h"
#include "../context.h"
#include "../process.h"
#include "../view.h"
#include "../worker_call.h"

#include <rte_common.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define TICK	    (50 * SP_MS)
#define COLLECT	    (10 * SP_MS)
#define ANSWER	    SP_SEC /* for a thread that gets a signal: on a busy machine it is not scheduled at once */
#define BETWEEN	    (2 * SP_MS)
#define AT_THE_END  (5 * SP_SEC)
#define STILL_WAITS 2 /* looks in a row that find it waiting */

/* What is remembered. */
struct fault {
	char context[40], handler[40];
	uint32_t id, what;
	uint16_t worker;
	sp_time from, to; /* to 0: the call has not ended */
	bool runs, fatal;
	unsigned frames;
	uint32_t frame_len[SP_FAULT_FRAMES];
};

/* A worker, as the watchdog sees it. */
struct watched_worker {
	struct sp_question question;
	uint64_t polls; /* when it was seen to have changed: */
	sp_time since;
	uint64_t cpu; /* ns of its thread then */
	clockid_t clock;
	unsigned waited;
	uint64_t fault; /* number of the one it is in; 0: none */
	bool fatal;	/* which has been told to be fatal */
};

struct sp_watchdog {
	struct sp_nic *nic;
	sp_time stall;
	int number; /* of the signal; 0: none */
	bool running;
	pthread_t thread, collector;
	bool collects;
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t wake;
	bool stop, settle;
	struct fault fault[SP_FAULTS]; /* number n at n % SP_FAULTS */
	uint64_t faults;	       /* so many so far: the last one's number */
	struct watched_worker worker[SP_MAX_WORKERS];
};

static void pause_for(sp_time t)
{
	nanosleep(&(struct timespec){.tv_sec = (time_t)(t / SP_SEC), .tv_nsec = (long)(t % SP_SEC / 1000)}, NULL);
}

static uint64_t cpu_of(const struct watched_worker *a)
{
	struct timespec t = {0};

	return clock_gettime(a->clock, &t) ? 0 : (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool is_leaving(const struct sp_watchdog *watchdog)
{
	return atomic_load_explicit(&watchdog->nic->leaving, memory_order_relaxed) ||
	       atomic_load_explicit(&watchdog->nic->stop, memory_order_relaxed);
}

/* The end of a NIC waits for a stuck worker no longer than AT_THE_END, however large `stall` is. */
static sp_time stall_of(const struct sp_watchdog *watchdog)
{
	return is_leaving(watchdog) ? RTE_MIN(watchdog->stall, AT_THE_END) : watchdog->stall;
}

/* As in proc(5): R runs or could; S, D wait; T, t are held by somebody who debugs. 0: not known. */
static char state_of(const struct watched_worker *a)
{
	char name[64], text[512], *end;
	ssize_t n = -1;
	int fd;

	snprintf(name, sizeof(name), "/proc/self/task/%d/stat", __atomic_load_n(&a->question.tid, __ATOMIC_RELAXED));
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	if (n <= 0)
		return 0;
	text[n] = '\0';
	end = strrchr(text, ')'); /* of the thread's name, which may hold anything */
	return end && end[1] == ' ' ? end[2] : 0;
}

/* Has it been in its call for `limit`? It has run for a quarter of that (it may have to share its processor), or is
 * found waiting. A thread that was only not scheduled is not stuck. */
static bool is_stuck(struct watched_worker *a, sp_time now, sp_time limit, bool *runs)
{
	char state;

	if (now - a->since < limit)
		return false;
	*runs = (cpu_of(a) - a->cpu) * 1000 >= limit / 4;
	if (*runs)
		return true;
	state = state_of(a);
	a->waited = state == 'S' || state == 'D' ? a->waited + 1 : 0;
	return a->waited >= STILL_WAITS;
}

/* ---- what it is in ---- */

/* Asks the worker's thread. False: no answer came in time. */
static bool ask(struct sp_watchdog *watchdog, unsigned i)
{
	struct sp_question *q = &watchdog->worker[i].question;
	uint32_t asked = atomic_load_explicit(&q->asked, memory_order_relaxed);
	bool answered = atomic_load_explicit(&q->answered, memory_order_acquire) == asked;

	if (!watchdog->number)
		return false;
	/* An earlier question that has no answer stands: its signal is under way, or blocked. */
	if (answered) {
		q->seen->call = false;
		q->polls = watchdog->worker[i].polls;
		atomic_store_explicit(&q->asked, ++asked, memory_order_release);
		pthread_kill(watchdog->nic->worker[i]->thread, watchdog->number);
		answered = false;
	}
	for (sp_time waited = 0; waited < ANSWER && !answered; waited += SP_MS / 2) {
		pause_for(SP_MS / 2);
		answered = atomic_load_explicit(&q->answered, memory_order_acquire) == asked;
	}
	return answered;
}

/* Of a thread that takes no signals. Its context cannot go while control is held, or while the worker is in its call.
 */
static bool read_names(struct sp_nic *nic, unsigned i, struct sp_seen *s)
{
	const struct sp_view *v;

	if (pthread_mutex_trylock(&nic->control))
		return false;
	v = __atomic_load_n(&nic->worker[i]->doing.view, __ATOMIC_RELAXED);
	if (v) {
		snprintf(s->context, sizeof(s->context), "%s", v->context->name);
		snprintf(s->handler, sizeof(s->handler), "%s", v->context->registered->name);
		s->id = v->context->id;
		s->what = __atomic_load_n(&nic->worker[i]->doing.what, __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&nic->control);
	return v != NULL;
}

/* False: the worker has come back meanwhile. `unasked` is for a thread that does not answer: then the question's own
 * memory is still the thread's. */
static bool find_out(struct sp_watchdog *watchdog, unsigned i, struct sp_seen *unasked, const struct sp_seen **seen)
{
	const struct sp_seen *asked = watchdog->worker[i].question.seen;

	if (ask(watchdog, i)) {
		*seen = asked;
		return asked->call;
	}
	memset(unasked, 0, offsetof(struct sp_seen, bytes));
	for (unsigned n = 0; n < 20 && !read_names(watchdog->nic, i, unasked); n++)
		pause_for(BETWEEN);
	unasked->fault = (struct sp_fault){.nic = watchdog->nic->config.name,
					   .context = unasked->context,
					   .handler = unasked->handler,
					   .function = sp_doing_name(unasked->what),
					   .worker = (uint16_t)i};
	*seen = unasked;
	return true;
}

/* ---- faults ---- */

static void remember(struct sp_watchdog *watchdog, struct watched_worker *a, const struct sp_seen *s,
		     const struct sp_fault *told)
{
	struct fault f = {.id = s->id,
			  .what = s->what,
			  .worker = told->worker,
			  .from = a->since,
			  .runs = told->runs,
			  .fatal = told->fatal,
			  .frames = told->frames};

	memcpy(f.context, s->context, sizeof(f.context));
	memcpy(f.handler, s->handler, sizeof(f.handler));
	memcpy(f.frame_len, told->frame_len, sizeof(f.frame_len));
	pthread_mutex_lock(&watchdog->lock);
	if (!a->fault)
		a->fault = ++watchdog->faults;
	if (a->fault + SP_FAULTS > watchdog->faults) /* else others have come since */
		watchdog->fault[a->fault % SP_FAULTS] = f;
	pthread_mutex_unlock(&watchdog->lock);
}

/* It goes round again. */
static void over(struct sp_watchdog *watchdog, struct watched_worker *a, sp_time now)
{
	atomic_store_explicit(&watchdog->nic->worker[a - watchdog->worker]->stopped, false, memory_order_release);
	if (a->fault) {
		pthread_mutex_lock(&watchdog->lock);
		if (a->fault + SP_FAULTS > watchdog->faults)
			watchdog->fault[a->fault % SP_FAULTS].to = now;
		pthread_mutex_unlock(&watchdog->lock);
	}
	a->fault = 0;
	a->fatal = false;
	a->waited = 0;
	a->since = now;
	a->cpu = cpu_of(a);
}

static void report_stuck(struct sp_watchdog *watchdog, unsigned i, bool runs, bool fatal)
{
	struct sp_nic *nic = watchdog->nic;
	struct watched_worker *a = &watchdog->worker[i];
	struct sp_seen unasked;
	const struct sp_seen *seen;
	struct sp_fault told;

	/* First of all: control calls that wait for the worker give up. */
	atomic_store_explicit(&nic->worker[i]->stopped, true, memory_order_release);
	a->fatal = fatal;
	if (!find_out(watchdog, i, &unasked, &seen)) {
		over(watchdog, a, sp_clock());
		return;
	}
	told = seen->fault;
	told.since = sp_clock() - a->since;
	told.runs = runs;
	told.fatal = fatal;
	remember(watchdog, a, seen, &told);
	if (nic->config.fault)
		nic->config.fault(nic->config.fault_arg, &told);
}

static void look(struct sp_watchdog *watchdog, unsigned i)
{
	const struct sp_worker *w = watchdog->nic->worker[i];
	const uint64_t polls = __atomic_load_n(&w->polls, __ATOMIC_RELAXED);
	const sp_time now = sp_clock();
	struct watched_worker *a = &watchdog->worker[i];
	bool runs;

	if (polls != a->polls) {
		over(watchdog, a, now);
		a->polls = polls;
	} else if (!a->fault) {
		if (__atomic_load_n(&w->doing.view, __ATOMIC_RELAXED) && is_stuck(a, now, stall_of(watchdog), &runs))
			report_stuck(watchdog, i, runs, false);
	} else if (!a->fatal && !is_leaving(watchdog) && is_stuck(a, now, SP_STALLS_FATAL * watchdog->stall, &runs)) {
		report_stuck(watchdog, i, runs, true);
	}
}

/* ---- threads ---- */

/* Until `end` or the time is over; false: `end`. */
static bool wait_for(struct sp_watchdog *watchdog, const bool *end, sp_time time)
{
	struct timespec at;
	bool ended;

	clock_gettime(CLOCK_MONOTONIC, &at);
	at.tv_nsec += (long)(time / 1000);
	at.tv_sec += at.tv_nsec / 1000000000;
	at.tv_nsec %= 1000000000;
	pthread_mutex_lock(&watchdog->lock);
	while (!*end && !pthread_cond_timedwait(&watchdog->wake, &watchdog->lock, &at))
		;
	ended = *end;
	pthread_mutex_unlock(&watchdog->lock);
	return !ended;
}

static void *watch(void *arg)
{
	struct sp_watchdog *watchdog = arg;
	const sp_time tick = RTE_MIN(TICK, watchdog->stall / 4);

	while (wait_for(watchdog, &watchdog->stop, tick))
		for (unsigned i = 0; i < watchdog->nic->workers; i++)
			look(watchdog, i);
	return NULL;
}

/* Another thread: it waits for control calls and for workers, and the watchdog must wait for neither. */
static void *collect(void *arg)
{
	struct sp_watchdog *watchdog = arg;
	unsigned flight = 0;
	bool stuck;

	while (wait_for(watchdog, &watchdog->settle, flight ? COLLECT : TICK)) {
		stuck = false;
		for (uint16_t i = 0; i < watchdog->nic->workers; i++)
			stuck |= sp_watchdog_stopped(watchdog->nic, i);
		if (!stuck)
			flight = sp_nic_handler_collect(watchdog->nic);
	}
	return NULL;
}

int sp_watchdog_create(struct sp_nic *nic)
{
	pthread_condattr_t attributes;
	struct sp_watchdog *watchdog;

	sp_watchdog_destroy(nic);
	watchdog = aligned_alloc(64, RTE_ALIGN(sizeof(*watchdog), 64));
	if (!watchdog)
		return -ENOMEM;
	memset(watchdog, 0, sizeof(*watchdog));
	watchdog->nic = nic;
	watchdog->stall = nic->config.stall ? nic->config.stall : SP_STALL;
	pthread_mutex_init(&watchdog->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&watchdog->wake, &attributes);
	pthread_condattr_destroy(&attributes);
	nic->watchdog = watchdog;
	sp_fault_signal(&watchdog->number); /* without one, reports have no packets */
	for (unsigned i = 0; i < nic->workers; i++) {
		struct sp_question *q = &watchdog->worker[i].question;

		q->seen = calloc(1, sizeof(*q->seen));
		q->stack = malloc(SP_FAULT_SIGNAL_STACK);
		if (!q->seen || !q->stack) {
			sp_watchdog_destroy(nic);
			return -ENOMEM;
		}
		nic->worker[i]->question = q;
	}
	return 0;
}

int sp_watchdog_start(struct sp_nic *nic)
{
	struct sp_watchdog *watchdog = nic->watchdog;
	sigset_t all, before;
	int r;

	for (unsigned i = 0; i < nic->workers; i++) {
		struct watched_worker *a = &watchdog->worker[i];

		if (pthread_getcpuclockid(nic->worker[i]->thread, &a->clock))
			return -EAGAIN;
		a->polls = __atomic_load_n(&nic->worker[i]->polls, __ATOMIC_RELAXED);
		a->since = sp_clock();
		a->cpu = cpu_of(a);
	}
	sigfillset(&all);	 /* they are for the program's threads */
	sigdelset(&all, SIGSYS); /* as a crash, it is told */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = -pthread_create(&watchdog->thread, NULL, watch, watchdog);
	watchdog->running = !r;
	if (!r)
		r = -pthread_create(&watchdog->collector, NULL, collect, watchdog);
	watchdog->collects = !r;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r;
}

static void end(struct sp_watchdog *watchdog, bool *flag)
{
	pthread_mutex_lock(&watchdog->lock);
	*flag = true;
	pthread_cond_broadcast(&watchdog->wake);
	pthread_mutex_unlock(&watchdog->lock);
}

void sp_watchdog_settle(struct sp_nic *nic)
{
	struct sp_watchdog *watchdog = nic->watchdog;

	if (!watchdog || !watchdog->collects)
		return;
	end(watchdog, &watchdog->settle);
	pthread_join(watchdog->collector, NULL);
	watchdog->collects = false;
}

void sp_watchdog_stop(struct sp_nic *nic)
{
	struct sp_watchdog *watchdog = nic->watchdog;

	if (!watchdog)
		return;
	if (watchdog->running) {
		end(watchdog, &watchdog->stop);
		pthread_join(watchdog->thread, NULL);
	}
	watchdog->running = false;
	for (unsigned i = 0; i < nic->workers; i++) {
		over(watchdog, &watchdog->worker[i], sp_clock());
		nic->worker[i]->question = NULL;
		atomic_store_explicit(&nic->worker[i]->stopped, false, memory_order_release);
	}
}

void sp_watchdog_destroy(struct sp_nic *nic)
{
	struct sp_watchdog *watchdog = nic->watchdog;

	if (!watchdog)
		return;
	for (unsigned i = 0; i < nic->workers; i++) {
		nic->worker[i]->question = NULL;
		atomic_store_explicit(&nic->worker[i]->stopped, false, memory_order_release);
		free(watchdog->worker[i].question.seen);
		free(watchdog->worker[i].question.stack);
	}
	pthread_cond_destroy(&watchdog->wake);
	pthread_mutex_destroy(&watchdog->lock);
	nic->watchdog = NULL;
	free(watchdog);
}

/* ---- what others ask ---- */

bool sp_watchdog_stopped(const struct sp_nic *nic, uint16_t worker)
{
	return atomic_load_explicit(&nic->worker[worker]->stopped, memory_order_acquire);
}

/* What has stopped, in words: who is in what of which handler and context, and for how long. False: nothing. */
static bool says(struct sp_nic *nic, char text[SP_FAULT_TEXT])
{
	struct sp_watchdog *watchdog = nic->watchdog;
	uint64_t first;
	bool found = false;

	if (!watchdog)
		return false;
	for (uint16_t i = 0; i < nic->workers && !found; i++) {
		if (!sp_watchdog_stopped(nic, i))
			continue;
		found = true;
		snprintf(text, SP_FAULT_TEXT, "worker %u does not come back", i); /* it is only being found out */
		pthread_mutex_lock(&watchdog->lock);
		first = watchdog->faults > SP_FAULTS ? watchdog->faults - SP_FAULTS : 0;
		for (uint64_t n = watchdog->faults; n > first; n--) {
			const struct fault *f = &watchdog->fault[n % SP_FAULTS];

			if (f->worker != i || f->to)
				continue;
			snprintf(text, SP_FAULT_TEXT,
				 "worker %u has been in %s() of handler %s, context %s, for %.1f s", i,
				 sp_doing_name(f->what), f->handler, f->context,
				 (double)(sp_clock() - f->from) / SP_SEC);
			break;
		}
		pthread_mutex_unlock(&watchdog->lock);
	}
	return found;
}

bool sp_nic_stopped(struct sp_nic *nic, char *text, size_t room)
{
	char said[SP_FAULT_TEXT];

	if (!says(nic, said))
		return false;
	snprintf(text, room, "%s", said);
	return true;
}

static void pass_by(struct sp_worker *w, void *arg)
{
	(void)w;
	(void)arg;
}

int sp_watchdog_pass(struct sp_nic *nic, struct sp_error *error)
{
	char text[SP_FAULT_TEXT];

	/* One that is in nobody's call has not stopped in one: nearly always it need not be asked. */
	for (uint16_t i = 0; nic->started && i < nic->workers; i++)
		if (__atomic_load_n(&nic->worker[i]->doing.view, __ATOMIC_RELAXED) &&
		    sp_worker_look(nic->worker[i], pass_by, NULL)) {
			if (!says(nic, text))
				snprintf(text, sizeof(text), "worker %u did not come by", i);
			return sp_error_set(error, ETIMEDOUT, "", "%s", text);
		}
	return 0;
}

bool sp_watchdog_last(struct sp_nic *nic, uint32_t context, const char *handler, sp_time after, char *text, size_t room)
{
	struct sp_watchdog *watchdog = nic->watchdog;
	bool found = false;
	uint64_t first;

	if (!watchdog)
		return false;
	pthread_mutex_lock(&watchdog->lock);
	first = watchdog->faults > SP_FAULTS ? watchdog->faults - SP_FAULTS : 0;
	for (uint64_t n = watchdog->faults; n > first && !found; n--) {
		const struct fault *f = &watchdog->fault[n % SP_FAULTS];

		found = f->from > after && f->id == context && !strcmp(f->handler, handler);
		if (found)
			snprintf(text, room, "%s() %s for %.1f s", sp_doing_name(f->what),
				 f->to ? "did not come back" : "has not come back",
				 (double)((f->to ? f->to : sp_clock()) - f->from) / SP_SEC);
	}
	pthread_mutex_unlock(&watchdog->lock);
	return found;
}

static void report_fault(const struct fault *f, sp_time now, struct sp_report *r)
{
	sp_report_open(r, NULL, false);
	sp_report_string(r, "context", f->context);
	sp_report_string(r, "handler", f->handler);
	sp_report_string(r, "function", sp_doing_name(f->what));
	sp_report_uint(r, "worker", f->worker);
	sp_report_uint(r, "ago_ms", (now - f->from) / SP_MS);
	sp_report_uint(r, "lasted_ms", ((f->to ? f->to : now) - f->from) / SP_MS);
	sp_report_bool(r, "stopped", !f->to);
	sp_report_bool(r, "runs", f->runs);
	sp_report_bool(r, "fatal", f->fatal);
	sp_report_open(r, "frames", true);
	for (unsigned i = 0; i < f->frames; i++)
		sp_report_uint(r, NULL, f->frame_len[i]);
	sp_report_close(r);
	sp_report_close(r);
}

void sp_watchdog_report(struct sp_nic *nic, struct sp_report *r)
{
	struct sp_watchdog *watchdog = nic->watchdog;
	const sp_time now = sp_clock();
	uint64_t first;

	sp_report_open(r, "faults", true);
	if (watchdog) {
		pthread_mutex_lock(&watchdog->lock);
		first = watchdog->faults > SP_FAULTS ? watchdog->faults - SP_FAULTS : 0;
		for (uint64_t n = first + 1; n <= watchdog->faults; n++)
			report_fault(&watchdog->fault[n % SP_FAULTS], now, r);
		pthread_mutex_unlock(&watchdog->lock);
	}
	sp_report_close(r);
}
