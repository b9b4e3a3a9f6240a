/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that captures from the NIC under test: its rings and what it reads there. */
#ifndef TESTS_CAPTURE_CLIENT_H
#define TESTS_CAPTURE_CLIENT_H

#include "../../pipeline/observe/capture.h"
#include "sender.h"

/* ---- the capturing program ---- */

struct reader {
	struct sp_capture *capture;
	struct sp_shm memory;
	const struct sp_capture_memory *head;
	uint64_t at[SP_MAX_WORKERS];
};

int cap_try_read(struct reader *r, struct sp_capture_request q, struct sp_error *error);
struct reader cap_reading(struct sp_capture_request q);
struct sp_capture_ring *cap_ring_of(const struct reader *r, unsigned worker);
const struct sp_capture_slot *cap_next_of(struct reader *r, unsigned worker);
unsigned cap_left(struct reader *r);
uint64_t cap_lost(const struct reader *r);

#define NO SP_CAPTURE_NO_VERDICT

void cap_expect_of(struct reader *r, unsigned worker, enum sp_capture_fate fate, const char *context,
		   const char *reason, unsigned verdict, int line);

#define expect(r, fate, context, reason, verdict)                                                                      \
	cap_expect_of(r, 0, SP_CAPTURE_##fate, context, reason, verdict, __LINE__)

void cap_close(struct reader *r);

#define CAPTURE(...) cap_reading((struct sp_capture_request){__VA_ARGS__})

extern const uint8_t arp_request[42];

#endif
