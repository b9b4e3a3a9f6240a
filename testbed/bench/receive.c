/* SPDX-License-Identifier: BSD-3-Clause */
/* sdr receive with one worker, beside testpmd, and beside loops that receive, perhaps copy, and free on the same
 * port. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#include <rte_mbuf.h>
#include <rte_memcpy.h>
#include <rte_pause.h>

#include "../../pipeline/exec/measure.h"
#include "../../handlers/stream_copy.h"
#include "frame.h"
#include "sdr.h"

#define PAUSE 64 /* `pause` instructions between two looks of a polling application */
#define HEAD  (BENCH_EXT + SP_SDR_HEADER)

static void close_case(void *state)
{
	bench_sdr_close(state);
}

static int run(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	return bench_sdr_run(state, seconds, round, why);
}

/* As on a NIC that was started: cycles of calls are measured all the time. */
static int run_metered(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	struct bench_sdr *b = state;
	int r;

	sp_meters_set(b->wire.nic, true);
	r = run(b, seconds, round, why);
	sp_meters_set(b->wire.nic, false);
	return r;
}

static int run_bare(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	struct bench_sdr *b = state;

	return bench_wire_bare(&b->wire, NULL, NULL, seconds, round, why);
}

static int run_rxonly(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	struct bench_sdr *b = state;
	char device[1300];

	snprintf(device, sizeof(device), "net_pcap0,%s", b->wire.source);
	return bench_testpmd_round(&b->testpmd, "rxonly", device, 0, seconds, round, why);
}

/* ---- payload to its place, by a bare loop: the same addresses in the same order ---- */
static inline uint8_t *place_of(struct bench_sdr *b)
{
	const uint64_t packets = b->places * b->shape.packets;
	uint8_t *at = (uint8_t *)b->mr->addr + b->bare_at % packets * b->shape.mtu;

	b->bare_at++;
	return at;
}

static void copy_burst(void *arg, struct rte_mbuf **packet)
{
	struct bench_sdr *b = arg;

	for (unsigned i = 0; i < SP_BURST; i++)
		rte_memcpy(place_of(b), rte_pktmbuf_mtod_offset(packet[i], uint8_t *, HEAD), b->shape.mtu);
}

static void stream_burst(void *arg, struct rte_mbuf **packet)
{
	struct bench_sdr *b = arg;

	for (unsigned i = 0; i < SP_BURST; i++) {
		const uint8_t *from = rte_pktmbuf_mtod_offset(packet[i], uint8_t *, HEAD);

		sp_stream_copy(place_of(b), from, b->shape.mtu);
	}
	sp_stream_fence();
}

/* The better of the two, half a round each. */
static int run_copy(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	struct bench_sdr *b = state;
	struct bench_round other = {0};
	int r = bench_wire_bare(&b->wire, copy_burst, b, seconds / 2, round, why);

	if (!r)
		r = bench_wire_bare(&b->wire, stream_burst, b, seconds / 2, &other, why);
	if (!r && other.cycles * round->units < round->cycles * other.units)
		*round = other;
	return r;
}

int bench_sdr_copy(struct bench_sdr *b, double seconds, struct bench_round *round, struct bench_why *why)
{
	return run_copy(b, seconds, round, why);
}

/* ---- an application that polls, on another core ---- */
struct poller {
	struct bench_sdr *bench;
	unsigned pause;
	_Atomic bool begun; /* written by the poller */
	_Atomic bool stop;  /* written by the measuring thread */
	pthread_t thread;
};

/* Polls the bitmap of the arriving message until it is complete, then of the next. It only reads; completing and
 * posting happen as in the other cases. */
static void *look(void *arg)
{
	struct poller *p = arg;
	const struct bench_sdr *b = p->bench;
	const uint64_t chunks = b->shape.packets / b->shape.chunk, words = (chunks + 63) / 64;
	uint64_t k = b->completed;

	bench_pin(1);
	while (!atomic_load_explicit(&p->stop, memory_order_relaxed)) {
		const uint64_t *bitmap =
			(const void *)(b->area + b->layout.bitmap + (k & (b->slots - 1)) * b->layout.bitmap_stride);
		const uint64_t there = bench_sdr_line(b, k, offsetof(struct sp_sdr_recv_status, message));
		uint64_t bits = 0;

		for (uint64_t i = 0; i < words; i++)
			bits += (unsigned)__builtin_popcountll(__atomic_load_n(&bitmap[i], __ATOMIC_ACQUIRE));
		atomic_store_explicit(&p->begun, true, memory_order_release);
		if (there > k + 1 || (there == k + 1 && bits == chunks))
			k = there;
		for (unsigned i = 0; i < p->pause; i++)
			rte_pause();
	}
	return NULL;
}

static int run_polled(struct bench_sdr *b, unsigned pause, double seconds, struct bench_round *round,
		      struct bench_why *why)
{
	struct poller p = {.bench = b, .pause = pause};
	int r = -pthread_create(&p.thread, NULL, look, &p);

	if (r)
		return r;
	while (!atomic_load_explicit(&p.begun, memory_order_acquire))
		sched_yield();
	bench_pin(0);
	r = run(b, seconds, round, why);
	bench_unpin();
	atomic_store(&p.stop, true);
	pthread_join(p.thread, NULL);
	return r;
}

static int run_tight(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	return run_polled(state, 0, seconds, round, why);
}

static int run_paused(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	return run_polled(state, PAUSE, seconds, round, why);
}

/* ---- the cases ---- */
#define OPEN(name, open, ...)                                                                                          \
	static int open_##name(const struct bench_options *o, void **state, struct bench_why *why)                     \
	{                                                                                                              \
		static const struct bench_sdr_shape shape = {__VA_ARGS__};                                             \
                                                                                                                       \
		return open(&shape, o, state, why);                                                                    \
	}

static int open_alone(const struct bench_sdr_shape *shape, const struct bench_options *o, void **state,
		      struct bench_why *why)
{
	return bench_sdr_open(shape, o, (struct bench_sdr **)state, why);
}

static int open_polled(const struct bench_sdr_shape *shape, const struct bench_options *o, void **state,
		       struct bench_why *why)
{
	const int r = bench_two_cpus(why);

	return r ? r : open_alone(shape, o, state, why);
}

OPEN(64, open_alone, .mtu = 64, .packets = 32, .chunk = 1)
OPEN(4096, open_alone, .mtu = 4096, .packets = 16, .chunk = 1)
OPEN(chunk, open_alone, .mtu = 64, .packets = 64, .chunk = 64)
OPEN(watched, open_polled, .mtu = 64, .packets = 32, .chunk = 1)
OPEN(1024_8M, open_alone, .mtu = 1024, .packets = 64, .chunk = 64, .memory = 8 << 20)
OPEN(1024_64M, open_alone, .mtu = 1024, .packets = 64, .chunk = 64, .memory = 64 << 20)
OPEN(4096_8M, open_alone, .mtu = 4096, .packets = 64, .chunk = 16, .memory = 8 << 20)
OPEN(4096_64M, open_alone, .mtu = 4096, .packets = 64, .chunk = 16, .memory = 64 << 20)

#define RXONLY "dpdk-testpmd, rxonly"
#define BARE   "receive and free on the same port"

#define RECEIVE(text, about, open_case, polling, mine, against, base, ...)                                             \
	{                                                                                                              \
		.name = text, .help = about, .threads = polling, .baseline = against, .open = open_case, .run = mine,  \
		.run_baseline = base, .close = close_case, __VA_ARGS__                                                 \
	}
#define PLACE(size, where, least)                                                                                      \
	RECEIVE("sdr-place-" #size "-" #where, #size "-byte packets, placed one after the other into " #where "iB",    \
		open_##size##_##where, 1, run, "receive, copy there (memcpy or streaming stores, the better), free",   \
		run_copy, .required = least, .other = {{BARE, run_bare}})

const struct bench_case bench_receive[] = {
	RECEIVE("sdr-receive-64", "64-byte packets, one-packet chunks, 2 KiB messages", open_64, 1, run, RXONLY,
		run_rxonly, .required = 0.42, .goal = 0.60, .icrc_required = 0.32, .icrc_goal = 0.48,
		.other = {{BARE, run_bare}}),
	RECEIVE("sdr-receive-4096", "4 KiB packets, one-packet chunks, 64 KiB messages", open_4096, 1, run, BARE,
		run_bare, ),
	RECEIVE("sdr-chunk-64", "64-byte packets, 64-packet chunks, 4 KiB messages", open_chunk, 1, run, RXONLY,
		run_rxonly, .other = {{BARE, run_bare}}),
	RECEIVE("sdr-polled-64",
		"as sdr-receive-64, while an application polls the bitmap on another core without a pause",
		open_watched, 2, run_tight, "the same without it", run,
		.other = {{"with 64 pauses between looks", run_paused}}),
	RECEIVE("sdr-metered-64",
		"as sdr-receive-64, while what calls of handlers take is measured, as in a NIC that has been started",
		open_64, 1, run_metered, "the same without it", run, .required = 0.98, .icrc_required = 0.98),
	PLACE(1024, 8M, 0.75),
	PLACE(1024, 64M, 0.75),
	PLACE(4096, 8M, 0.90),
	PLACE(4096, 64M, 0.90),
	{.name = NULL},
};
