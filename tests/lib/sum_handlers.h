/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handlers of a parameter server and of its workers, which do all there is to do: gradients are added up where they
 * arrive, and come back as sums; no host takes part. A packet is SLMP as in handlers/examples/reduce.c, 12 bytes after
 * UDP: flags (16 bits; 1: a sum), rank (16), round (32), offset (32), then SUM_SEGMENT bytes of words of 32 bits.
 *
 * A worker has SUM_WINDOW segments of a round on their way, and sends again what was not answered in SUM_TIMEOUT. The
 * server adds each segment of each worker once. When it has all of them it answers all, and later whoever asks again.
 */
#ifndef TESTS_LIB_SUM_HANDLERS_H
#define TESTS_LIB_SUM_HANDLERS_H

#include <stdbool.h>
#include <stdint.h>

#include "../../handlers/wire/host.h"

enum {
	SUM_WORKERS = 6,
	SUM_SEGMENT = 1024,
	SUM_SEGMENTS = 24,
	SUM_WORDS = SUM_SEGMENT / 4 * SUM_SEGMENTS,
	SUM_ROUNDS = 3,
	SUM_WINDOW = 8,
	SUM_PORT = 7000, /* of the server; that of workers is the next */
};
#define SUM_TIMEOUT (200 * SP_US)

/* What a worker has. Its host has put gradients there, and finds sums when `done`. */
struct sum_worker {
	uint8_t mac[6], server_mac[6], ip[4], server_ip[4];
	int32_t gradient[SUM_ROUNDS][SUM_WORDS], sum[SUM_ROUNDS][SUM_WORDS];
	unsigned deaf;	/* it does not hear each so many-th answer; 0: it hears all */
	uint64_t heard; /* answers */
	uint64_t again; /* packets that were sent again */
	bool done;
};

extern struct sum_worker sum_worker[SUM_WORKERS]; /* by rank, which is a parameter of handler "sum-worker" */
extern uint64_t sum_answers_again;		  /* of handler "sum-server" */

#endif
