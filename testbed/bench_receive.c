/* SPDX-License-Identifier: BSD-3-Clause */
/* sdr receive by one worker, beside testpmd, and loops that receive, perhaps copy, and free on the same port. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#include <rte_mbuf.h>
#include <rte_memcpy.h>
#include <rte_pause.h>

#include "../pipeline/measure.h"
#include "bench_copy.h"
#include "bench_frame.h"
#include "bench_sdr.h"

#define PAUSE 64 /* a polling application's, between two looks: instructions `pause` */
#define HEAD  (BENCH_EXT + SP_SDR_HEADER)

static void close_case(void *state)
{
	bench_sdr_close(state);
}

static int run(void *state, double seconds, struct bench_turn *turn, char *why, unsigned room)
{
	return bench_sdr_run(state, seconds, turn, why, room);
}

/* As a NIC that has been started: what calls take is measured all the time. */
static int run_metered(void *state, double seconds, struct bench_turn *turn, char *why, unsigned room)
{
	struct bench_sdr *b = state;
	int r;

	sp_meters_set(b->wire.nic, true);
	r = run(b, seconds, turn, why, room);
	sp_meters_set(b->wire.nic, false);
	return r;
}

static int run_bare(void *state, double seconds, struct bench_turn *turn, char *why, unsigned room)
{
	struct bench_sdr *b = state;

	return bench_wire_bare(&b->wire, NULL, NULL, seconds, turn, why, room);
}

static int run_rxonly(void *state, double seconds, struct bench_turn *turn, char *why, unsigned room)
{
	struct bench_sdr *b = state;
	char device[1300];

	snprintf(device, sizeof(device), "net_pcap0,%s", b->wire.source);
	return bench_testpmd_turn(&b->testpmd, "rxonly", device, 0, seconds, turn, why, room);
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

		bench_stream(place_of(b), from, b->shape.mtu);
	}
	bench_stream_end();
}

/* The better of the two, half a turn each. */
static int run_copy(void *state, double seconds, struct bench_turn *turn, char *why, unsigned room)
{
	struct bench_sdr *b = state;
	struct bench_turn other = {0};
	int r = bench_wire_bare(&b->wire, copy_burst, b, seconds / 2, turn, why, room);

	if (!r)
		r = bench_wire_bare(&b->wire, stream_burst, b, seconds / 2, &other, why, room);
	if (!r && other.cycles * turn->units < turn->cycles * other.units)
		*turn = other;
	return r;
}

int bench_sdr_copy(struct bench_sdr *b, double seconds, struct bench_turn *turn, char *why, unsigned room)
{
	return run_copy(b, seconds, turn, why, room);
}

/* ---- an application that polls, on another core ---- */

struct poller {
	struct bench_sdr *bench;
	unsigned pause;
	_Atomic bool begun; /* [poller] */
	_Atomic bool stop;  /* [measuring thread] */
	pthread_t thread;
};

/* It looks at the bitmap of the message that comes until all of it is there, then goes on to the next: what is released
 * meanwhile it has missed. It only reads; completing and posting stays where it is in the other cases. */
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

static int run_polled(struct bench_sdr *b, unsigned pause, double seconds, struct bench_turn *turn, char *why,
		      unsigned room)
{
	struct poller p = {.bench = b, .pause = pause};
	int r = -pthread_create(&p.thread, NULL, look, &p);

	if (r)
		return r;
	while (!atomic_load_explicit(&p.begun, memory_order_acquire))
		sched_yield();
	bench_pin(0);
	r = run(b, seconds, turn, why, room);
	bench_unpin();
	atomic_store(&p.stop, true);
	pthread_join(p.thread, NULL);
	return r;
}

static int run_tight(void *state, double seconds, struct bench_turn *turn, char *why, unsigned room)
{
	return run_polled(state, 0, seconds, turn, why, room);
}

static int run_paused(void *state, double seconds, struct bench_turn *turn, char *why, unsigned room)
{
	return run_polled(state, PAUSE, seconds, turn, why, room);
}

/* ---- the cases ---- */

#define OPEN(name, open, ...)                                                                                          \
	static int open_##name(const struct bench_options *o, void **state, char *why, unsigned room)                  \
	{                                                                                                              \
		static const struct bench_sdr_shape shape = {__VA_ARGS__};                                             \
                                                                                                                       \
		return open(&shape, o, state, why, room);                                                              \
	}

static int open_alone(const struct bench_sdr_shape *shape, const struct bench_options *o, void **state, char *why,
		      unsigned room)
{
	return bench_sdr_open(shape, o, (struct bench_sdr **)state, why, room);
}

static int open_polled(const struct bench_sdr_shape *shape, const struct bench_options *o, void **state, char *why,
		       unsigned room)
{
	const int r = bench_two_cpus(why, room);

	return r ? r : open_alone(shape, o, state, why, room);
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

#define PLACE(size, where, least)                                                                                      \
	{                                                                                                              \
		.name = "sdr-place-" #size "-" #where,                                                                 \
		.help = #size "-byte packets, placed one after the other into " #where "iB", .threads = 1,             \
		.baseline = "receive, copy there (memcpy or streaming stores, the better), free", .required = least,   \
		.open = open_##size##_##where, .run = run, .run_baseline = run_copy, .other = {{BARE, run_bare}},      \
		.close = close_case                                                                                    \
	}
const struct bench_case bench_receive[] = {
	{.name = "sdr-receive-64",
	 .help = "64-byte packets, one-packet chunks, 2 KiB messages",
	 .threads = 1,
	 .baseline = RXONLY,
	 .required = 0.42,
	 .goal = 0.60,
	 .icrc_required = 0.32,
	 .icrc_goal = 0.48,
	 .open = open_64,
	 .run = run,
	 .run_baseline = run_rxonly,
	 .other = {{BARE, run_bare}},
	 .close = close_case},
	{.name = "sdr-receive-4096",
	 .help = "4 KiB packets, one-packet chunks, 64 KiB messages",
	 .threads = 1,
	 .baseline = BARE,
	 .open = open_4096,
	 .run = run,
	 .run_baseline = run_bare,
	 .close = close_case},
	{.name = "sdr-chunk-64",
	 .help = "64-byte packets, 64-packet chunks, 4 KiB messages",
	 .threads = 1,
	 .baseline = RXONLY,
	 .open = open_chunk,
	 .run = run,
	 .run_baseline = run_rxonly,
	 .other = {{BARE, run_bare}},
	 .close = close_case},
	{.name = "sdr-polled-64",
	 .help = "as sdr-receive-64, while an application polls the bitmap on another core without a pause",
	 .threads = 2,
	 .baseline = "the same without it",
	 .open = open_watched,
	 .run = run_tight,
	 .run_baseline = run,
	 .other = {{"with 64 pauses between looks", run_paused}},
	 .close = close_case},
	{.name = "sdr-metered-64",
	 .help = "as sdr-receive-64, while what calls of handlers take is measured, as in a NIC that has been started",
	 .threads = 1,
	 .baseline = "the same without it",
	 .required = 0.98,
	 .icrc_required = 0.98,
	 .open = open_64,
	 .run = run_metered,
	 .run_baseline = run,
	 .close = close_case},
	PLACE(1024, 8M, 0.75),
	PLACE(1024, 64M, 0.75),
	PLACE(4096, 8M, 0.90),
	PLACE(4096, 64M, 0.90),
	{.name = NULL},
};
