/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sdr receive by two workers, between whose queues each message's packets are shared, beside one worker, and beside two
 * that share nothing: each with messages, and a NIC, of its own. Bursts in turn is how a sender's channels and a NIC's
 * queues leave them where each channel is sent in bursts; each second packet to each (mixed) is as fine as it gets: our
 * sender with two channels does that. The messages are long, since one of the two workers also runs the application,
 * which is work per message; so frames come from memory, for all sides alike.
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

#include "../pipeline/nic.h"
#include "../pipeline/engine.h"
#include "../pipeline/exec_context.h"
#include "../pipeline/view.h"
#include "../pipeline/worker.h"
#include "bench_sdr.h"

#define PATIENCE 10  /* s, beyond a turn */
#define APART	 128 /* bytes: processors fetch lines in pairs */

/* A worker of a NIC whose packets come by a queue each. Neither takes a burst of a message that has yet to be opened:
 * the other one may not have had its packets of the message before in that slot. */
struct crew {
	struct bench_sdr *one, *two; /* by one worker; by two */
	struct bench_sdr *apart;     /* the other one's, of two that share nothing; [worker 1] while it runs */
	struct {
		uint64_t taken; /* packets that it has taken from its queue */
		uint64_t until; /* packets that it may take, as of the last look at `open` */
	} __attribute__((aligned(APART))) queue[BENCH_QUEUES]; /* [worker] its own */
	_Atomic uint64_t open __attribute__((aligned(APART))); /* messages that are or were open; [worker 0] */
	_Atomic uint64_t goal
		__attribute__((aligned(APART))); /* packets of each queue to be taken in this turn; [worker 0] */
	_Atomic bool over;			 /* ... and no more; [worker 0] */
	_Atomic bool ready;			 /* [worker 1] */
	uint64_t cycles;			 /* [worker 1] until it has ended: what it took */
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

/* A worker's round. One that has waited for long lets others run, who may be what it waits for. */
static inline void turn_round(struct bench_sdr *b, uint16_t worker, unsigned *idle)
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
		turn_round(b, 1, &idle);
	crew->cycles = bench_clock_end(&clock);
	if (registered)
		rte_thread_unregister();
	return NULL;
}

/* Cycles of both workers. */
static int run_two(void *state, double seconds, struct bench_turn *turn, char *why, unsigned room)
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
	end = bench_turn_end(seconds);
	patience = end + PATIENCE * rte_get_tsc_hz();
	while (crew->queue[0].taken < goal || !atomic_load_explicit(&crew->over, memory_order_relaxed)) {
		/* One capture ahead, so that nobody waits for the word. */
		if (crew->queue[0].taken + b->wire.packets >= goal &&
		    !atomic_load_explicit(&crew->over, memory_order_relaxed)) {
			if (goal > from && (rte_rdtsc() >= end || bench_stopped()))
				atomic_store_explicit(&crew->over, true, memory_order_release);
			else
				atomic_store_explicit(&crew->goal, goal += b->wire.packets, memory_order_release);
		}
		turn_round(b, 0, &idle);
		bench_sdr_step(b);
		publish(crew);
		if (idle && rte_rdtsc() > patience) { /* messages do not become complete */
			atomic_store(&crew->goal, goal = 0);
			atomic_store(&crew->over, true);
		}
	}
	while (b->completed * (b->shape.packets / BENCH_QUEUES) < goal && rte_rdtsc() < end + rte_get_tsc_hz()) {
		turn_round(b, 0, &idle); /* what the other one still has */
		bench_sdr_step(b);
		publish(crew);
	}
	turn->cycles = bench_clock_end(&clock);
	pthread_join(other, NULL);
	turn->cycles += crew->cycles;
	bench_unpin();
	turn->units = BENCH_QUEUES * (goal - from);
	sp_nic_totals(b->wire.nic, &after);
	if (after.received - before.received != turn->units || after.dropped || bench_sdr_wasted(b)) {
		snprintf(why, room, "%llu packets taken, %llu received, %llu dropped: not what was to be measured",
			 (unsigned long long)turn->units, (unsigned long long)(after.received - before.received),
			 (unsigned long long)after.dropped);
		return -EPROTO;
	}
	return 0;
}

static int run_one(void *state, double seconds, struct bench_turn *turn, char *why, unsigned room)
{
	return bench_sdr_run(((struct crew *)state)->one, seconds, turn, why, room);
}

/* What the other one of two that share nothing does. */
struct lone {
	struct crew *crew;
	double seconds;
	struct bench_turn turn;
	char why[160];
	int result;
};

static void *lone(void *arg)
{
	struct lone *l = arg;
	const bool registered = !rte_thread_register();

	bench_pin(1);
	atomic_store(&l->crew->ready, true);
	l->result = bench_sdr_run(l->crew->apart, l->seconds, &l->turn, l->why, sizeof(l->why));
	if (registered)
		rte_thread_unregister();
	return NULL;
}

static int run_apart(void *state, double seconds, struct bench_turn *turn, char *why, unsigned room)
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
	r = bench_sdr_run(crew->one, seconds, turn, why, room);
	pthread_join(other, NULL);
	bench_unpin();
	if (!r && l.result)
		snprintf(why, room, "%s", l.why);
	turn->units += l.turn.units;
	turn->cycles += l.turn.cycles;
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

static int open_crew(const struct bench_sdr_shape *shape, const struct bench_options *o, void **state, char *why,
		     unsigned room)
{
	struct bench_sdr_shape one = *shape, two = *shape;
	struct crew *crew;
	int r = bench_two_cpus(why, room);

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
	r = bench_sdr_open(&one, o, &crew->one, why, room);
	if (!r)
		r = bench_sdr_open(&one, o, &crew->apart, why, room);
	if (!r) {
		two.crew = crew;
		r = bench_sdr_open(&two, o, &crew->two, why, room);
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
	static int open_##name(const struct bench_options *o, void **state, char *why, unsigned room)                  \
	{                                                                                                              \
		static const struct bench_sdr_shape shape = {                                                          \
			.mtu = size, .packets = length, .chunk = chunks, .slots = 4, .deal = each, .look = 8};         \
                                                                                                                       \
		return open_crew(&shape, o, state, why, room);                                                         \
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
