/* SPDX-License-Identifier: BSD-3-Clause */
#include "warden.h"
#include "engine.h"
#include "exec_context.h"
#include "registry.h"
#include "view.h"
#include "worker_call.h"

#include <rte_common.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define TICK	    (50 * SP_MS)
#define COLLECT	    (10 * SP_MS)
#define ANSWER	    (50 * SP_MS) /* for a thread that gets a signal: it may have to be scheduled first */
#define AT_ONCE	    50		 /* tries to take it out before it is told, and the pause between two */
#define BETWEEN	    (2 * SP_MS)
#define OFTEN	    (SP_MS / 4) /* later: less than so much */
#define FIRST_STEPS 4096u	/* then twice as many instructions with each question, up to */
#define MOST_STEPS  (1u << 20)
#define TRIES	    1000000 /* then it stays there: what it does is hardly ever its own code */
#define AT_THE_END  (5 * SP_SEC)
#define STILL_WAITS 2 /* looks in a row that find it waiting */

/* What is remembered. */
struct fault {
	char context[40], handler[40];
	uint32_t id, what;
	uint16_t worker;
	sp_time from, to; /* to 0: it is still there */
	bool runs, aborted;
	unsigned frames;
	uint32_t frame_len[SP_FAULT_FRAMES];
};

/* A worker, as the warden sees it. */
struct ward {
	struct sp_catch catch;
	uint64_t polls; /* when it was seen to have changed: */
	sp_time since;
	uint64_t cpu; /* ns of its thread then */
	clockid_t clock;
	unsigned waited, tries;
	uint32_t steps;	      /* of the next question */
	bool pending;	      /* a question has not been answered in time */
	uint64_t fault;	      /* number of the one it is in; 0: none */
	_Atomic bool stopped; /* [warden] writes; whoever wants something of the worker reads */
};

struct sp_warden {
	struct sp_nic *nic;
	sp_time stall;
	int number; /* of the signal; 0: none */
	bool running;
	uint64_t random; /* [warden] */
	pthread_t thread, collector;
	bool collects;
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t wake;
	bool stop, settle;
	struct fault fault[SP_FAULTS]; /* number n at n % SP_FAULTS */
	uint64_t faults;	       /* so many so far: the last one's number */
	struct ward ward[SP_MAX_WORKERS];
};

static struct timespec spec(sp_time t)
{
	return (struct timespec){.tv_sec = (time_t)(t / SP_SEC), .tv_nsec = (long)(t % SP_SEC / 1000)};
}

static void pause_for(sp_time t)
{
	const struct timespec s = spec(t);

	nanosleep(&s, NULL);
}

static uint64_t cpu_of(const struct ward *a)
{
	struct timespec t = {0};

	return clock_gettime(a->clock, &t) ? 0 : (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Who ends the NIC does not wait for as long as its user may. */
static sp_time stall_of(const struct sp_warden *warden)
{
	const bool ends = atomic_load_explicit(&warden->nic->leaving, memory_order_relaxed) ||
			  atomic_load_explicit(&warden->nic->stop, memory_order_relaxed);

	return ends ? RTE_MIN(warden->stall, AT_THE_END) : warden->stall;
}

/* A quarter: it may have to share its processor. */
static bool has_run(const struct sp_warden *warden, const struct ward *a)
{
	return (cpu_of(a) - a->cpu) * 1000 >= stall_of(warden) / 4;
}

/* As in proc(5): R runs or could; S, D wait; T, t are held by somebody who debugs. 0: not known. */
static char state_of(const struct ward *a)
{
	char name[64], text[512], *end;
	ssize_t n = -1;
	int fd;

	snprintf(name, sizeof(name), "/proc/self/task/%d/stat", __atomic_load_n(&a->catch.tid, __ATOMIC_RELAXED));
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

/* ---- a question ---- */

enum answer { NO_ANSWER, CAME_BACK, STAYS, TAKEN };

static enum answer read_answer(const struct ward *a)
{
	if (atomic_load_explicit(&a->catch.answered, memory_order_acquire) !=
	    atomic_load_explicit(&a->catch.asked, memory_order_relaxed))
		return NO_ANSWER;
	return !a->catch.seen->call ? CAME_BACK : a->catch.seen->taken ? TAKEN : STAYS;
}

static enum answer ask(struct sp_warden *warden, unsigned i)
{
	struct ward *a = &warden->ward[i];
	enum answer answer = NO_ANSWER;

	if (!warden->number)
		return NO_ANSWER;
	/* A question that has not been answered stands: a signal for it is under way, or blocked. */
	if (read_answer(a) != NO_ANSWER) {
		a->catch.seen->call = a->catch.seen->taken = a->catch.seen->linked = false;
		a->catch.seen->frames = 0;
		a->catch.polls = a->polls;
		a->catch.steps = a->steps;
		atomic_fetch_add_explicit(&a->catch.asked, 1, memory_order_release);
		pthread_kill(warden->nic->worker[i]->thread, warden->number);
	}
	for (sp_time waited = 0, pause; waited < ANSWER && answer == NO_ANSWER; waited += pause) {
		pause = waited < SP_MS / 2 ? SP_MS / 20 : SP_MS / 2; /* most come at once */
		pause_for(pause);
		answer = read_answer(a);
	}
	a->pending = answer == NO_ANSWER;
	if (answer == STAYS && a->catch.seen->linked)
		a->tries = TRIES;
	return answer;
}

/* It has stayed whenever it was asked: now often, for a tick, with pauses that what it does cannot keep step with; and
 * it goes on step by step. */
static enum answer ask_often(struct sp_warden *warden, unsigned i)
{
	const sp_time end = sp_clock() + TICK;
	struct ward *a = &warden->ward[i];
	enum answer answer = STAYS;

	for (; answer == STAYS && a->tries < TRIES && sp_clock() < end; a->tries++) {
		a->steps = a->steps ? RTE_MIN(a->steps * 2, MOST_STEPS) : FIRST_STEPS;
		warden->random = warden->random * 6364136223846793005u + 1442695040888963407u; /* Knuth's */
		pause_for((warden->random >> 33) % OFTEN);
		answer = ask(warden, i);
	}
	return answer;
}

/* Of a thread that takes no signals. Its context cannot go while control is held, or while the worker is in its call.
 */
static bool read_names(struct sp_nic *nic, unsigned i, struct fault *f)
{
	const struct sp_view *v;

	if (pthread_mutex_trylock(&nic->control))
		return false;
	v = __atomic_load_n(&nic->worker[i]->doing.view, __ATOMIC_RELAXED);
	if (v) {
		snprintf(f->context, sizeof(f->context), "%s", v->context->name);
		snprintf(f->handler, sizeof(f->handler), "%s", v->context->registered->name);
		f->id = v->context->id;
		f->what = __atomic_load_n(&nic->worker[i]->doing.what, __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&nic->control);
	return v != NULL;
}

/* ---- faults ---- */

static void tell(struct sp_warden *warden, const struct fault *f, const struct sp_seen *seen)
{
	struct sp_fault told = {.context = f->context,
				.handler = f->handler,
				.function = sp_doing_name(f->what),
				.worker = f->worker,
				.since = sp_clock() - f->from,
				.runs = f->runs,
				.aborted = f->aborted,
				.frames = f->frames};

	for (unsigned i = 0; i < f->frames; i++) {
		told.frame[i] = seen->bytes + seen->frame_at[i];
		told.frame_len[i] = seen->frame_len[i];
	}
	if (warden->nic->config.fault)
		warden->nic->config.fault(warden->nic->config.fault_arg, &told);
}

static void describe(struct fault *f, const struct sp_seen *seen)
{
	memcpy(f->context, seen->context, sizeof(f->context));
	memcpy(f->handler, seen->handler, sizeof(f->handler));
	f->id = seen->id;
	f->what = seen->what;
	f->frames = seen->frames;
	memcpy(f->frame_len, seen->frame_len, sizeof(f->frame_len));
}

static void remember(struct sp_warden *warden, struct ward *a, const struct fault *f)
{
	pthread_mutex_lock(&warden->lock);
	if (!a->fault)
		a->fault = ++warden->faults;
	if (a->fault + SP_FAULTS > warden->faults) /* else others have come since */
		warden->fault[a->fault % SP_FAULTS] = *f;
	pthread_mutex_unlock(&warden->lock);
}

/* It goes round again, by itself or taken out. */
static void over(struct sp_warden *warden, struct ward *a, sp_time now)
{
	atomic_store_explicit(&a->stopped, false, memory_order_release);
	if (a->fault) {
		pthread_mutex_lock(&warden->lock);
		if (a->fault + SP_FAULTS > warden->faults)
			warden->fault[a->fault % SP_FAULTS].to = now;
		pthread_mutex_unlock(&warden->lock);
	}
	a->fault = 0;
	a->tries = a->waited = a->steps = 0;
	a->since = now;
	a->cpu = cpu_of(a);
}

static void stopped(struct sp_warden *warden, unsigned i, bool runs)
{
	struct ward *a = &warden->ward[i];
	struct fault f = {.worker = (uint16_t)i, .from = a->since, .runs = runs};
	enum answer answer;

	/* First of all: whoever waits for the worker with control held lets go of it. */
	atomic_store_explicit(&a->stopped, true, memory_order_release);
	/* The signal ends some waits (sleep, poll): then the handler is on its way back into its own code. */
	a->steps = runs ? 0 : FIRST_STEPS;
	answer = ask(warden, i);
	for (; answer == STAYS && runs && a->tries < AT_ONCE; a->tries++) {
		pause_for(BETWEEN);
		answer = ask(warden, i);
	}
	if (answer == CAME_BACK) {
		over(warden, a, sp_clock());
		return;
	}
	if (answer != NO_ANSWER)
		describe(&f, a->catch.seen);
	else
		for (unsigned n = 0; n < 20 && !read_names(warden->nic, i, &f); n++)
			pause_for(BETWEEN);
	f.aborted = answer == TAKEN;
	remember(warden, a, &f);
	tell(warden, &f, a->catch.seen);
	if (answer == TAKEN)
		over(warden, a, sp_clock());
}

/* It is still there, or has answered after all. */
static void again(struct sp_warden *warden, unsigned i, bool there)
{
	struct ward *a = &warden->ward[i];
	enum answer answer;
	struct fault f;

	pthread_mutex_lock(&warden->lock);
	f = warden->fault[a->fault % SP_FAULTS];
	pthread_mutex_unlock(&warden->lock);
	if (f.worker != i || f.to)
		return;
	answer = a->pending ? read_answer(a) : NO_ANSWER;
	a->pending &= answer == NO_ANSWER;
	if (answer == NO_ANSWER && there) {
		/* A call that waits is not disturbed a second time: a signal ends some system calls. */
		f.runs |= has_run(warden, a);
		if (!f.runs)
			return;
		answer = ask_often(warden, i);
	}
	if (answer != TAKEN)
		return;
	describe(&f, a->catch.seen);
	f.aborted = true;
	remember(warden, a, &f);
	tell(warden, &f, a->catch.seen);
	over(warden, a, sp_clock());
}

static void look(struct sp_warden *warden, unsigned i)
{
	const struct sp_worker *w = warden->nic->worker[i];
	const uint64_t polls = __atomic_load_n(&w->polls, __ATOMIC_RELAXED);
	struct ward *a = &warden->ward[i];
	const sp_time now = sp_clock();
	char state;

	if (polls != a->polls) {
		if (a->fault && a->pending)
			again(warden, i, false);
		over(warden, a, now);
		a->polls = polls;
		return;
	}
	if (a->fault) {
		again(warden, i, true);
		return;
	}
	if (now - a->since < stall_of(warden) || !__atomic_load_n(&w->doing.view, __ATOMIC_RELAXED))
		return;
	if (has_run(warden, a)) {
		stopped(warden, i, true);
		return;
	}
	state = state_of(a);
	a->waited = state == 'S' || state == 'D' ? a->waited + 1 : 0;
	if (a->waited >= STILL_WAITS)
		stopped(warden, i, false);
}

/* ---- threads ---- */

/* Until `end` or the time is over; false: `end`. */
static bool wait_for(struct sp_warden *warden, const bool *end, sp_time time)
{
	struct timespec at;
	bool ended;

	clock_gettime(CLOCK_MONOTONIC, &at);
	at.tv_nsec += (long)(time / 1000);
	at.tv_sec += at.tv_nsec / 1000000000;
	at.tv_nsec %= 1000000000;
	pthread_mutex_lock(&warden->lock);
	while (!*end && !pthread_cond_timedwait(&warden->wake, &warden->lock, &at))
		;
	ended = *end;
	pthread_mutex_unlock(&warden->lock);
	return !ended;
}

static void *watch(void *arg)
{
	struct sp_warden *warden = arg;
	const sp_time tick = RTE_MIN(TICK, warden->stall / 4);

	while (wait_for(warden, &warden->stop, tick))
		for (unsigned i = 0; i < warden->nic->workers; i++)
			look(warden, i);
	return NULL;
}

/* Another thread: it waits for control calls and for workers, and the warden must wait for neither. */
static void *collect(void *arg)
{
	struct sp_warden *warden = arg;
	unsigned flight = 0;
	bool stuck;

	while (wait_for(warden, &warden->settle, flight ? COLLECT : TICK)) {
		stuck = false;
		for (uint16_t i = 0; i < warden->nic->workers; i++)
			stuck |= sp_warden_stopped(warden->nic, i);
		if (!stuck)
			flight = sp_nic_handler_collect(warden->nic);
	}
	return NULL;
}

int sp_warden_create(struct sp_nic *nic)
{
	pthread_condattr_t attributes;
	struct sp_warden *warden;

	sp_warden_destroy(nic);
	warden = aligned_alloc(64, RTE_ALIGN(sizeof(*warden), 64));
	if (!warden)
		return -ENOMEM;
	memset(warden, 0, sizeof(*warden));
	warden->nic = nic;
	warden->stall = nic->config.stall ? nic->config.stall : SP_STALL;
	pthread_mutex_init(&warden->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&warden->wake, &attributes);
	pthread_condattr_destroy(&attributes);
	nic->warden = warden;
	sp_recover_signal(&warden->number); /* without one faults are seen, and nobody is taken out */
	for (unsigned i = 0; i < nic->workers; i++) {
		warden->ward[i].catch.seen = calloc(1, sizeof(*warden->ward[i].catch.seen));
		if (!warden->ward[i].catch.seen) {
			sp_warden_destroy(nic);
			return -ENOMEM;
		}
		nic->worker[i]->catcher = &warden->ward[i].catch;
	}
	return 0;
}

int sp_warden_start(struct sp_nic *nic)
{
	struct sp_warden *warden = nic->warden;
	sigset_t all, before;
	int r;

	for (unsigned i = 0; i < nic->workers; i++) {
		struct ward *a = &warden->ward[i];

		if (pthread_getcpuclockid(nic->worker[i]->thread, &a->clock))
			return -EAGAIN;
		a->polls = __atomic_load_n(&nic->worker[i]->polls, __ATOMIC_RELAXED);
		a->since = sp_clock();
		a->cpu = cpu_of(a);
	}
	sigfillset(&all); /* they are for the program's threads */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = -pthread_create(&warden->thread, NULL, watch, warden);
	warden->running = !r;
	if (!r)
		r = -pthread_create(&warden->collector, NULL, collect, warden);
	warden->collects = !r;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r;
}

static void end(struct sp_warden *warden, bool *flag)
{
	pthread_mutex_lock(&warden->lock);
	*flag = true;
	pthread_cond_broadcast(&warden->wake);
	pthread_mutex_unlock(&warden->lock);
}

void sp_warden_settle(struct sp_nic *nic)
{
	struct sp_warden *warden = nic->warden;

	if (!warden || !warden->collects)
		return;
	end(warden, &warden->settle);
	pthread_join(warden->collector, NULL);
	warden->collects = false;
}

void sp_warden_stop(struct sp_nic *nic)
{
	struct sp_warden *warden = nic->warden;

	if (!warden)
		return;
	if (warden->running) {
		end(warden, &warden->stop);
		pthread_join(warden->thread, NULL);
	}
	warden->running = false;
	for (unsigned i = 0; i < nic->workers; i++) {
		over(warden, &warden->ward[i], sp_clock());
		nic->worker[i]->catcher = NULL;
	}
}

void sp_warden_destroy(struct sp_nic *nic)
{
	struct sp_warden *warden = nic->warden;

	if (!warden)
		return;
	for (unsigned i = 0; i < nic->workers; i++) {
		nic->worker[i]->catcher = NULL;
		free(warden->ward[i].catch.seen);
	}
	pthread_cond_destroy(&warden->wake);
	pthread_mutex_destroy(&warden->lock);
	nic->warden = NULL;
	free(warden);
}

/* ---- what others ask ---- */

bool sp_warden_stopped(const struct sp_nic *nic, uint16_t worker)
{
	return nic->warden && atomic_load_explicit(&nic->warden->ward[worker].stopped, memory_order_acquire);
}

/* What has stopped, in words: who is in what of which handler and context, and for how long. False: nothing. */
static bool says(struct sp_nic *nic, char text[SP_FAULT_TEXT])
{
	struct sp_warden *warden = nic->warden;
	uint64_t first;
	bool found = false;

	if (!warden)
		return false;
	for (uint16_t i = 0; i < nic->workers && !found; i++) {
		if (!sp_warden_stopped(nic, i))
			continue;
		found = true;
		snprintf(text, SP_FAULT_TEXT, "worker %u does not come back", i); /* it is only being found out */
		pthread_mutex_lock(&warden->lock);
		first = warden->faults > SP_FAULTS ? warden->faults - SP_FAULTS : 0;
		for (uint64_t n = warden->faults; n > first; n--) {
			const struct fault *f = &warden->fault[n % SP_FAULTS];

			if (f->worker != i || f->to)
				continue;
			snprintf(text, SP_FAULT_TEXT,
				 "worker %u has been in %s() of handler %s, context %s, for %.1f s", i,
				 sp_doing_name(f->what), f->handler, f->context,
				 (double)(sp_clock() - f->from) / SP_SEC);
			break;
		}
		pthread_mutex_unlock(&warden->lock);
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

int sp_warden_pass(struct sp_nic *nic, struct sp_error *error)
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

bool sp_warden_last(struct sp_nic *nic, uint32_t context, const char *handler, sp_time after, char *text, size_t room)
{
	struct sp_warden *warden = nic->warden;
	bool found = false;
	uint64_t first;

	if (!warden)
		return false;
	pthread_mutex_lock(&warden->lock);
	first = warden->faults > SP_FAULTS ? warden->faults - SP_FAULTS : 0;
	for (uint64_t n = warden->faults; n > first && !found; n--) {
		const struct fault *f = &warden->fault[n % SP_FAULTS];

		found = f->from > after && f->id == context && !strcmp(f->handler, handler);
		if (found)
			snprintf(text, room, "%s() %s for %.1f s%s", sp_doing_name(f->what),
				 f->to ? "did not come back" : "has not come back",
				 (double)((f->to ? f->to : sp_clock()) - f->from) / SP_SEC,
				 f->aborted ? ", and was taken out" : "");
	}
	pthread_mutex_unlock(&warden->lock);
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
	sp_report_bool(r, "aborted", f->aborted);
	sp_report_open(r, "frames", true);
	for (unsigned i = 0; i < f->frames; i++)
		sp_report_uint(r, NULL, f->frame_len[i]);
	sp_report_close(r);
	sp_report_close(r);
}

void sp_warden_report(struct sp_nic *nic, struct sp_report *r)
{
	struct sp_warden *warden = nic->warden;
	const sp_time now = sp_clock();
	uint64_t first;

	sp_report_open(r, "faults", true);
	if (warden) {
		pthread_mutex_lock(&warden->lock);
		first = warden->faults > SP_FAULTS ? warden->faults - SP_FAULTS : 0;
		for (uint64_t n = first + 1; n <= warden->faults; n++)
			report_fault(&warden->fault[n % SP_FAULTS], now, r);
		pthread_mutex_unlock(&warden->lock);
	}
	sp_report_close(r);
}
