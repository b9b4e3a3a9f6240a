/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames that lie in memory and come again without end: more of them than a driver could keep in packet buffers. */
#ifndef TESTBED_BENCH_STORE_H
#define TESTBED_BENCH_STORE_H

#include <stdint.h>

struct rte_mempool;
struct rte_mbuf;

/* One queue's. */
struct bench_store {
	uint8_t *frames;
	struct rte_mempool *pool;
	uint64_t count, at; /* at: [worker] the next one */
	uint32_t length, stride;
	uint8_t apart[128]; /* the next queue's are written by another worker; lines are fetched in pairs */
};

/* Frames first, first + step, ... of what make() makes; as in struct bench_wire_config. All are of one length, and
 * their number is a multiple of SP_BURST. 0, -ENOMEM, -EINVAL; then, too, bench_store_close() may be called. */
int bench_store_open(struct bench_store *store, uint32_t (*make)(void *arg, uint64_t index, uint8_t *frame), void *arg,
		     uint64_t first, uint64_t step);
void bench_store_close(struct bench_store *store);
/* The next SP_BURST in buffers of their own; 0: there are no buffers. */
unsigned bench_store_receive(struct bench_store *store, struct rte_mbuf **packet);

#endif
