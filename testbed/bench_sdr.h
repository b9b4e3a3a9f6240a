/* SPDX-License-Identifier: BSD-3-Clause */
/* A NIC that receives SDR messages from a repeated capture, and its application. */
#ifndef TESTBED_BENCH_SDR_H
#define TESTBED_BENCH_SDR_H

#include "../handlers/wire/sdr.h"
#include "bench_testpmd.h"
#include "bench_wire.h"

struct bench_sdr_shape {
	uint32_t mtu, packets, chunk; /* packets of a message, of a chunk: powers of 2 */
	uint32_t slots;		      /* messages at once, a power of 2; 0: as many as SLOTS and AHEAD want */
	uint32_t deal;		      /* packets in a row that a worker gets, of several, a power of 2; 0: 1 */
	unsigned look;	  /* rounds between two looks of the application, a power of 2; 0: it looks in each */
	uint64_t memory;  /* bytes that messages are placed into in turn, a power of 2; 0: one place a slot */
	unsigned workers; /* 0: 1 */
	bool null;	  /* the packets go to a handler that does nothing (bench_null.h) */
	bool (*gate)(void *bench, uint16_t queue); /* see bench_wire.h */
	bool stored;				   /* ... */
	void *crew;
};

struct bench_sdr {
	struct bench_sdr_shape shape;
	uint32_t slots, generations; /* powers of 2 */
	uint64_t places;	     /* the same: of messages in memory */
	struct bench_wire wire;
	struct bench_testpmd testpmd;
	struct sp_mr *mr;
	uint32_t context;
	const uint8_t *area;
	struct sp_sdr_layout layout;
	void *crew;
	uint64_t bare_at; /* packets that the bare loop has copied */
	/* The thread that steps: next message to be completed, to be posted; rounds. Others read what is above. */
	uint64_t completed __attribute__((aligned(64))), posted;
	uint32_t rounds;
};

/* A word of the status line of message k's slot. */
static inline uint64_t bench_sdr_line(const struct bench_sdr *b, uint64_t k, size_t field)
{
	return __atomic_load_n((const uint64_t *)(b->area + b->layout.recv + (k & (b->slots - 1)) * 64 + field),
			       __ATOMIC_ACQUIRE);
}

/* 0, BENCH_SKIPPED or -errno, and words in why. */
int bench_sdr_open(const struct bench_sdr_shape *shape, const struct bench_options *options, struct bench_sdr **bench,
		   char *why, unsigned room);
void bench_sdr_close(struct bench_sdr *bench); /* NULL is fine */
/* What its application does after a burst: completes what is complete, posts again what has been let go. */
void bench_sdr_step(struct bench_sdr *bench);
/* Packets that were none of a fresh message, since the start. */
uint64_t bench_sdr_wasted(struct bench_sdr *bench);
/* A round of the NIC; of one whose handler does nothing. */
int bench_sdr_run(struct bench_sdr *bench, double seconds, struct bench_round *round, char *why, unsigned room);
int bench_sdr_null(struct bench_sdr *bench, double seconds, struct bench_round *round, char *why, unsigned room);
/* bench_receive.c: of the bare loop that copies. */
int bench_sdr_copy(struct bench_sdr *bench, double seconds, struct bench_round *round, char *why, unsigned room);

#endif
