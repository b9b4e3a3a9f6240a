/* SPDX-License-Identifier: BSD-3-Clause */
/* A NIC that receives SDR messages from a repeated capture, and its application. */
#ifndef TESTBED_BENCH_SDR_H
#define TESTBED_BENCH_SDR_H

#include "../../handlers/wire/sdr.h"
#include "testpmd.h"
#include "wire.h"

struct bench_sdr_shape {
	uint32_t mtu, packets, chunk; /* packets of a message, of a chunk: powers of 2 */
	uint32_t slots;		      /* messages posted, a power of 2; 0: from SLOTS and AHEAD */
	uint32_t deal;		      /* packets in a row for each of several workers, a power of 2; 0: 1 */
	unsigned look;		      /* rounds between two looks of the application, a power of 2; 0: each */
	uint64_t memory; /* bytes that messages are placed into one after the other, a power of 2; 0: one place per slot
			  */
	unsigned workers;			   /* 0: 1 */
	bool null;				   /* the packets go to a handler that does nothing (null.h) */
	bool (*gate)(void *bench, uint16_t queue); /* see wire.h */
	bool stored;				   /* see wire.h */
	void *crew;
};

struct bench_sdr {
	struct bench_sdr_shape shape;
	uint32_t slots, generations; /* powers of 2 */
	uint64_t places;	     /* a power of 2: of messages in memory */
	struct bench_wire wire;
	struct bench_testpmd testpmd;
	struct sp_mr *mr;
	uint32_t context;
	const uint8_t *area;
	struct sp_sdr_layout layout;
	void *crew;
	uint64_t bare_at; /* packets copied by the bare loop */
	/* Written by the stepping thread: the next message to complete and to post; rounds. Other threads read what is
	 * above. */
	uint64_t completed __attribute__((aligned(64))), posted;
	uint32_t rounds;
};

/* A word of the status line of message k's slot. */
static inline uint64_t bench_sdr_line(const struct bench_sdr *b, uint64_t k, size_t field)
{
	return __atomic_load_n((const uint64_t *)(b->area + b->layout.recv + (k & (b->slots - 1)) * 64 + field),
			       __ATOMIC_ACQUIRE);
}

/* 0, BENCH_SKIPPED or -errno with the reason in why. */
int bench_sdr_open(const struct bench_sdr_shape *shape, const struct bench_options *options, struct bench_sdr **bench,
		   struct bench_why *why);
void bench_sdr_close(struct bench_sdr *bench); /* NULL is fine */
/* The application after a burst: completes complete receives and posts released ones again. */
void bench_sdr_step(struct bench_sdr *bench);
/* Packets so far that did not belong to a new message. */
uint64_t bench_sdr_wasted(struct bench_sdr *bench);
/* A round of the NIC; null: of one whose handler does nothing. */
int bench_sdr_run(struct bench_sdr *bench, double seconds, struct bench_round *round, struct bench_why *why);
int bench_sdr_null(struct bench_sdr *bench, double seconds, struct bench_round *round, struct bench_why *why);
/* In receive.c: a round of the bare loop that copies. */
int bench_sdr_copy(struct bench_sdr *bench, double seconds, struct bench_round *round, struct bench_why *why);

#endif
