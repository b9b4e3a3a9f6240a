/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A NIC in this process whose context has the companion ec, for measuring what its slices of work take: messages are
 * sent, of which it makes the parity, or received with chunks missing, which it repairs. Its port is made up here.
 */
#ifndef TESTBED_BENCH_CODER_H
#define TESTBED_BENCH_CODER_H

#include <stdbool.h>
#include <stdint.h>

#include "../handlers/ec/job.h"

struct bench_coder_shape {
	enum sp_ec_kind kind;
	unsigned k, m;
	uint32_t bytes; /* of a chunk, a multiple of 4 KiB */
	bool decode;	/* m data chunks, rather than making parity */
	unsigned submessages;
};

/* Of so many bytes of data, what they are and what is made of them comes from memory and goes there: before each
 * message, all of it is put out of the caches (of a socket, they may hold any amount; where that cannot be done, what
 * is used otherwise must suffice). */
bool bench_coder_cold(const struct bench_coder_shape *shape);
void bench_coder_flush(const uint8_t *from, uint64_t bytes);

#define BENCH_SLICES_MAX (1u << 17) /* of a message */

/* What the handler's work() took, of all messages so far, in TSC cycles. */
struct bench_work {
	uint64_t cycles, slices;
	/* Slices during which the kernel gave the processor to others, and what they took: not in `cycles`. */
	uint64_t disturbed, disturbed_cycles;
	/* Of each slice of a message, the least that it took; messages that had another number of slices do not count.
	 */
	uint32_t *least;
	unsigned parts, messages;
};

struct bench_coder;

#define BENCH_CODER_PAGE 4096 /* and a packet's payload */

/*
 * memory: the submessages' data chunks, one after the other, then as many parity chunks, at a multiple of 4 KiB; the
 * caller's, to outlive the coder. When decoding, chunks are sent as they are in `right`, which holds a page of
 * BENCH_CODER_PAGE bytes of each chunk of one submessage: all its pages, and all submessages, are alike. So what the
 * port that is made up here reads stays small, as a real one would read nothing: it would put data out of the cache
 * that the handler has just received, while what ISA-L is given stays there. 0, or -errno and words in why.
 */
int bench_coder_open(const struct bench_coder_shape *shape, uint8_t *memory, const uint8_t *right,
		     struct bench_coder **coder, char *why, unsigned room);
void bench_coder_close(struct bench_coder *coder); /* NULL is fine */

/* One message, of all submessages. -errno: something went wrong, or bench_stopped(). */
int bench_coder_message(struct bench_coder *coder);
struct bench_work *bench_coder_work(struct bench_coder *coder);

#endif
