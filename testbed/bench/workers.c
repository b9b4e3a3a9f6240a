/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sdr receive with two workers that share each message's packets, beside one worker, and beside two that share nothing:
 * each with messages and a NIC of its own. Bursts in alternation are what a sender's channels and a NIC's queues give
 * if each channel sends in bursts. Single packets in alternation (mixed) are the finest mix: our sender with two
 * channels does that. Messages are long, because one of the two workers also runs the application, whose work is per
 * message. So frames come from memory, for all sides alike.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_common.h>
#include <rte_cycles.h>
#include <rte_lcore.h>

#include "../../pipeline/nic.h"
#include "../../pipeline/engine.h"
#include "../../pipeline/context.h"
#include "../../pipeline/view.h"
#include "../../pipeline/worker.h"
#include "sdr.h"

#define PATIENCE 10  /* s, beyond a round */
#define APART	 128 /* bytes: processors fetch cache lines in pairs */

/* Workers of a NIC with a queue each. Neither takes a burst of a message that is not open yet: the other may still have
 * packets of the message before in that slot. */
struct crew {
	struct bench_sdr *one, *two; /* with one worker; with two */
	struct bench_sdr *apart;     /* the second of two that share nothing; [worker 1] while it runs */
	struct {
		uint64_t taken; /* packets taken from its queue */
		uint64_t until; /* packets that it may take, as of the last look at `open` */
	} __attribute__((aligned(APART))) queue[BENCH_QUEUES]; /* [worker] its own */
	_Atomic uint64_t open __attribute__((aligned(APART))); /* messages opened so far; [worker 0] */
	_Atomic uint64_t goal
		__attribute__((aligned(APART))); /* packets of each queue to take in this round; [worker 0] */
	_Atomic bool over;			 /* ... is final; [worker 0] */
	_Atomic bool ready;			 /* [worker 1] */
	uint64_t cycles;			 /* [worker 1] until it has ended: its cycles */
};

static inline bool gate(void *arg, uint16_t queue)
{
	struct bench_sdr *b = arg;
	struct crew *crew = b->crew;
	const uint64_t each = b->shape.packets / BENCH_QUEUES;

	if (crew->queue[queue].taken + SP_BURST > crew->queue[queue].until) {
		const uint64_t open = atomic_load_explicit(&crew->open, memory_order_acquire) * each;
		const uint64_t goal = atomic_load_explicit(&crew->goal, memory_order_acquire);

		crew->queue[queue].until = open < goal ? open : goal;
		if (crew->queue[queue].taken + SP_BURST > crew->queue[queue].until)
			return false;
	}
	/* The other one may lose its processor while it begins a message: then more than the NIC parks could come. */
	if (b->wire.nic->worker[queue]->parked.count)
		return false;
	crew->queue[queue].taken += SP_BURST;
	return true;
}

static inline bool always(void *arg, uint16_t queue)
{
	(void)arg;
	(void)queue;
	return true;
}

static void publish(struct crew *crew)
{
	struct bench_sdr *b = crew->two;
	uint64_t open = atomic_load_explicit(&crew->open, memory_order_relaxed);
	const uint64_t before = open;

	while (open < b->posted && bench_sdr_line(b, open, offsetof(struct sp_sdr_recv_status, message)) == open + 1)
		open++;
	if (open != before)
		atomic_store_explicit(&crew->open, open, memory_order_release);
}

/* One round of a worker. After a long wait it yields, perhaps to the one it waits for. */
static inline void worker_round(struct bench_sdr *b, uint16_t worker, unsigned *idle)
{
	if (sp_nic_poll(b->wire.nic, worker, bench_wire_now(&b->wire)))
		*idle = 0;
	else if (++*idle % 256 == 0)
		sched_yield();
}

static void *second(void *arg)
{
	struct crew *crew = arg;
	struct bench_sdr *b = crew->two;
	const bool registered = !rte_thread_register();
	struct bench_clock clock;
	unsigned idle = 0;

	bench_pin(1);
	atomic_store(&crew->ready, true);
	clock = bench_clock_begin();
	while (!atomic_load_explicit(&crew->over, memory_order_acquire) ||
	       crew->queue[1].taken < atomic_load_explicit(&crew->goal, memory_order_acquire))
		worker_round(b, 1, &idle);
	crew->cycles = bench_clock_end(&clock);
	if (registered)
		rte_thread_unregister();
	return NULL;
}

/* Cycles of both workers. */
static int run_two(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	struct crew *crew = state;
	struct bench_sdr *b = crew->two;
	const uint64_t from = crew->queue[0].taken;
	struct sp_nic_totals before, after;
	struct bench_clock clock;
	uint64_t end, patience, goal = from;
	unsigned idle = 0;
	pthread_t other;
	int r;

	sp_nic_totals(b->wire.nic, &before);
	atomic_store(&crew->over, false);
	atomic_store(&crew->ready, false);
	r = -pthread_create(&other, NULL, second, crew);
	if (r)
		return r;
	while (!atomic_load(&crew->ready))
		sched_yield();
	bench_pin(0);
	clock = bench_clock_begin();
	end = bench_round_end(seconds);
	patience = end + PATIENCE * rte_get_tsc_hz();
	while (crew->queue[0].taken < goal || !atomic_load_explicit(&crew->over, memory_order_relaxed)) {
		/* One capture ahead, so that no worker waits. */
		if (crew->queue[0].taken + b->wire.packets >= goal &&
		    !atomic_load_explicit(&crew->over, memory_order_relaxed)) {
			if (goal > from && (rte_rdtsc() >= end || bench_stopped()))
				atomic_store_explicit(&crew->over, true, memory_order_release);
			else
				atomic_store_explicit(&crew->goal, goal += b->wire.packets, memory_order_release);
		}
		worker_round(b, 0, &idle);
		bench_sdr_step(b);
		publish(crew);
		if (idle && rte_rdtsc() > patience) { /* messages do not complete */
			atomic_store(&crew->goal, goal = 0);
			atomic_store(&crew->over, true);
		}
	}
	while (b->completed * (b->shape.packets / BENCH_QUEUES) < goal && rte_rdtsc() < end + rte_get_tsc_hz()) {
		worker_round(b, 0, &idle); /* packets that the other one still has */
		bench_sdr_step(b);
		publish(crew);
	}
	round->cycles = bench_clock_end(&clock);
	pthread_join(other, NULL);
	round->cycles += crew->cycles;
	bench_unpin();
	round->units = BENCH_QUEUES * (goal - from);
	sp_nic_totals(b->wire.nic, &after);
	if (after.received - before.received != round->units || after.dropped || bench_sdr_wasted(b))
		return bench_fail(
			why, -EPROTO, "%llu packets taken, %llu received, %llu dropped: the measurement is not valid",
			(unsigned long long)round->units, (unsigned long long)(after.received - before.received),
			(unsigned long long)after.dropped);
	return 0;
}

static int run_one(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	return bench_sdr_run(((struct crew *)state)->one, seconds, round, why);
}

/* The second of two that share nothing. */
struct lone {
	struct crew *crew;
	double seconds;
	struct bench_round round;
	struct bench_why why;
	int result;
};

static void *lone(void *arg)
{
	struct lone *l = arg;
	const bool registered = !rte_thread_register();

	bench_pin(1);
	atomic_store(&l->crew->ready, true);
	l->result = bench_sdr_run(l->crew->apart, l->seconds, &l->round, &l->why);
	if (registered)
		rte_thread_unregister();
	return NULL;
}

static int run_apart(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	struct crew *crew = state;
	struct lone l = {.crew = crew, .seconds = seconds};
	pthread_t other;
	int r;

	atomic_store(&crew->ready, false);
	r = -pthread_create(&other, NULL, lone, &l);
	if (r)
		return r;
	while (!atomic_load(&crew->ready))
		sched_yield();
	bench_pin(0);
	r = bench_sdr_run(crew->one, seconds, round, why);
	pthread_join(other, NULL);
	bench_unpin();
	if (!r && l.result)
		snprintf(why->text, sizeof(why->text), "%s", l.why.text);
	round->units += l.round.units;
	round->cycles += l.round.cycles;
	return r ? r : l.result;
}

static void close_crew(void *state)
{
	struct crew *crew = state;

	bench_sdr_close(crew->apart);

	bench_sdr_close(crew->one);
	bench_sdr_close(crew->two);
	free(crew);
}

static int open_crew(const struct bench_sdr_shape *shape, const struct bench_options *o, void **state,
		     struct bench_why *why)
{
	struct bench_sdr_shape one = *shape, two = *shape;
	struct crew *crew;
	int r = bench_two_cpus(why);

	if (r)
		return r;
	crew = aligned_alloc(APART, RTE_ALIGN(sizeof(*crew), APART));
	if (!crew)
		return -ENOMEM;
	memset(crew, 0, sizeof(*crew));
	one.stored = two.stored = true;
	one.gate = always;
	two.gate = gate;
	two.workers = 2;
	r = bench_sdr_open(&one, o, &crew->one, why);
	if (!r)
		r = bench_sdr_open(&one, o, &crew->apart, why);
	if (!r) {
		two.crew = crew;
		r = bench_sdr_open(&two, o, &crew->two, why);
	}
	if (!r)
		publish(crew);
	if (r)
		close_crew(crew);
	else
		*state = crew;
	return r;
}

#define OPEN(name, size, length, chunks, each)                                                                         \
	static int open_##name(const struct bench_options *o, void **state, struct bench_why *why)                     \
	{                                                                                                              \
		static const struct bench_sdr_shape shape = {                                                          \
			.mtu = size, .packets = length, .chunk = chunks, .slots = 4, .deal = each, .look = 8};         \
                                                                                                                       \
		return open_crew(&shape, o, state, why);                                                               \
	}
OPEN(64, 64, 4096, 1, SP_BURST)
OPEN(mixed, 64, 4096, 1, 1)
OPEN(4096, 4096, 1024, 16, SP_BURST)

#define WORKERS(size, open_case, deals, ...)                                                                           \
	{                                                                                                              \
		.name = "sdr-workers-" size, .help = deals "; cycles of both", .threads = 2, .baseline = "one worker", \
		.open = open_case, .run = run_two, .run_baseline = run_one,                                            \
		.other = {{"two that share nothing", run_apart}}, .close = close_crew, __VA_ARGS__                     \
	}

const struct bench_case bench_workers[] = {
	WORKERS("64", open_64, "two workers get 32 packets of 64 bytes in turn, of each message's 4,096",
		.required = 0.9, .icrc_required = 0.9),
	WORKERS("64-mixed", open_mixed, "two workers get each second packet of 64 bytes, of each message's 4,096"),
	WORKERS("4096", open_4096, "two workers get 32 packets of 4096 bytes in turn, of each message's 1,024",
		.required = 0.9, .icrc_required = 0.9),
	{.name = NULL},
};
