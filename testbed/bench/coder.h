/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A NIC in this process whose context has the companion ec, to measure its slices of work: it makes the parity of
 * messages that are sent, or repairs messages that arrive with chunks missing. Its port is simulated here.
 */
#ifndef TESTBED_BENCH_CODER_H
#define TESTBED_BENCH_CODER_H

#include <stdbool.h>
#include <stdint.h>

#include "../../handlers/ec/job.h"

struct bench_coder_shape {
	enum sp_ec_kind kind;
	unsigned k, m;
	uint32_t bytes; /* of a chunk, a multiple of 4 KiB */
	bool decode;	/* repairs m data chunks instead of making parity */
	unsigned submessages;
};

/* Whether this much data, with its parity, is in memory outside of the caches: before each message, it is flushed from
 * the caches (of a socket; any size). Where that is not possible, its size must exceed them. */
bool bench_coder_cold(const struct bench_coder_shape *shape);
void bench_coder_flush(const uint8_t *from, uint64_t bytes);

struct bench_why;

#define BENCH_SLICES_MAX (1u << 17) /* of a message */

/* TSC cycles of the handler's work(), of all messages so far. */
struct bench_work {
	uint64_t cycles, slices;
	/* Slices interrupted by other threads, and their cycles: not in `cycles`. */
	uint64_t disturbed, disturbed_cycles;
	/* The least cycles of each slice over all messages with the usual number of slices. */
	uint32_t *least;
	unsigned parts, messages;
};

struct bench_coder;

#define BENCH_CODER_PAGE 4096 /* bytes, also the payload of a packet */

/*
 * memory: the data chunks of all submessages, one after the other, then as many parity chunks, aligned to 4 KiB. The
 * caller owns it; it must outlive the coder. When decoding, the port sends chunks from `right`, which has a page of
 * BENCH_CODER_PAGE bytes of each chunk of one submessage: all pages of a chunk are equal, and all submessages. So the
 * port reads little memory. A real one would read none: reading would evict data from the cache that the handler has
 * just received, and ISA-L's data would stay there. 0, or -errno with the reason in why.
 */
int bench_coder_open(const struct bench_coder_shape *shape, uint8_t *memory, const uint8_t *right,
		     struct bench_coder **coder, struct bench_why *why);
void bench_coder_close(struct bench_coder *coder); /* NULL is fine */

/* One message of all submessages. -errno: it has failed, or bench_stopped(). */
int bench_coder_message(struct bench_coder *coder);
struct bench_work *bench_coder_work(struct bench_coder *coder);

#endif
