/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Virtual time: how much of a network one core simulates per second. Two NICs and the programs at both ends, one
 * reliable SDR connection over a link of 400 Gbit/s and 25 ms that loses one packet of 10^5. Every packet is made,
 * sent, received and placed. There is no baseline.
 */
#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../pipeline/nic.h"
#include "../transfer.h"

#define MTU	4096u
#define CHUNK	(64u << 10)
#define MESSAGE (16u << 20)

enum what { PACKETS, BITS };

struct bench {
	enum what what;
	struct sp_transfer *transfer;
};

/* Processor time of this thread: the machine may have other load. */
static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void close_bench(void *state)
{
	struct bench *b = state;

	if (b->transfer)
		sp_transfer_destroy(b->transfer);
	free(b);
}

static int open_bench(enum what what, bool payload, const struct bench_options *o, void **state, struct bench_why *why)
{
	const struct sp_link_direction link = {
		.bandwidth = 400000000000, .queue = 256, .delay = 12500 * SP_US, .loss = o->loss < 0 ? 1e-5 : o->loss};
	const struct sp_transfer_config config = {.link = {link, link},
						  .message = MESSAGE,
						  .chunk = CHUNK,
						  .mtu = MTU,
						  .reliable = {.scheme = SDR_SR_NACK,
							       .rtt = 25 * SP_MS,
							       .rto_quarters = 12,
							       .reorder = 272 * 84 * SP_NS,
							       .timeout = 3600 * SP_SEC},
						  .payload_less = !payload,
						  .grain = 16 * 84 * SP_NS, /* the time of 16 packets is one step */
						  .seed = 1};
	struct sp_error error = {.text = "no memory"};
	struct bench *b = calloc(1, sizeof(*b));
	int r = b ? sp_eal_init(0, NULL, &error) : -ENOMEM;

	if (!r) {
		b->what = what;
		r = sp_transfer_create(&config, &error, &b->transfer);
	}
	if (r) {
		snprintf(why->text, sizeof(why->text), "%s", error.text);
		if (b)
			close_bench(b);
		return r;
	}
	*state = b;
	return 0;
}

static int run(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	struct bench *b = state;
	struct sp_transfer_counters before, after;
	const double began = now();
	double took;
	sp_time crossed;
	int r;

	sp_transfer_count(b->transfer, &before);
	do {
		r = sp_transfer_send(b->transfer, &crossed);
		took = now() - began;
	} while (!r && took < seconds && !bench_stopped());
	if (r)
		return bench_fail(why, r, "a message was not transferred: %s", strerror(-r));
	sp_transfer_count(b->transfer, &after);
	round->value = (b->what == PACKETS ? (double)(after.packets - before.packets) / 1e6
					   : (double)(after.messages - before.messages) * MESSAGE * 8 / 1e9) /
		       took;
	return 0;
}

#define OPEN(name, what, payload)                                                                                      \
	static int open_##name(const struct bench_options *o, void **state, struct bench_why *why)                     \
	{                                                                                                              \
		return open_bench(what, payload, o, state, why);                                                       \
	}
OPEN(packets, PACKETS, false)
OPEN(bits, BITS, false)
OPEN(bits_carried, BITS, true)

#define CASE(text, symbol, measure, words)                                                                             \
	{                                                                                                              \
		.name = text, .help = words, .unit = measure, .threads = 1, .open = open_##symbol, .run = run,         \
		.close = close_bench                                                                                   \
	}

const struct bench_case bench_virtual[] = {
	CASE("virtual-packets", packets, "Mpkt/s",
	     "packets of 4 KiB simulated in a core's second, without their payload"),
	CASE("virtual-bits", bits, "Gbit/s", "payload of the same"),
	CASE("virtual-bits-carried", bits_carried, "Gbit/s",
	     "payload simulated in a core's second, carried and compared"),
	{.name = NULL},
};
