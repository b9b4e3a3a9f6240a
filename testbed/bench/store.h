/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames in memory that are received again and again: more than a driver could keep in packet buffers. */
#ifndef TESTBED_BENCH_STORE_H
#define TESTBED_BENCH_STORE_H

#include <stdint.h>

struct rte_mempool;
struct rte_mbuf;

/* Of one queue. */
struct bench_store {
	uint8_t *frames;
	struct rte_mempool *pool;
	uint64_t count, at; /* at: [worker] the next frame */
	uint32_t length, stride;
	uint8_t apart[128]; /* padding: another worker writes the next queue's; processors fetch cache lines in pairs */
};

/* Stores the frames first, first + step, ... of make(), see struct bench_wire_config. All have one length, and their
 * number is a multiple of SP_BURST. 0, -ENOMEM, -EINVAL; bench_store_close() may be called after an error, too. */
int bench_store_open(struct bench_store *store, uint32_t (*make)(void *arg, uint64_t index, uint8_t *frame), void *arg,
		     uint64_t first, uint64_t step);
void bench_store_close(struct bench_store *store);
/* The next SP_BURST frames in new buffers; 0: no buffers. */
unsigned bench_store_receive(struct bench_store *store, struct rte_mbuf **packet);

#endif
