/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of the test that plug-ins/live.c calls: it records each load of the plug-in and each call. */
#ifndef TESTS_LIVE_NIC_H
#define TESTS_LIVE_NIC_H

#include <jansson.h>
#include "../unit/plugins/live.h"
#include "dut.h"

struct live_call {
	unsigned load, worker;
	char what;
	uint32_t qp, serial;
	uint64_t key;
};

#define LIVE_LOADS 65536

extern struct live {
	unsigned loads, unloads;
	bool gone[LIVE_LOADS];
	unsigned wrong; /* calls of a load that is gone, or with what is another's */
	struct live_call call[65536];
	unsigned calls;
	void (*in_header)(void); /* header() calls it, once */
	uint64_t clock, cost;	 /* a clock that only payload() turns on, by so much */
} live;

uint64_t live_clock(void *arg);
unsigned live_loaded(void);
void live_unloaded(unsigned load);
void live_called(unsigned load, char what, unsigned worker, uint32_t qp, uint64_t key, uint32_t serial);
/* "h1 p1 c2 ": what and load of the calls since the last time, of those kinds; NULL: all. */
const char *live_told(const char *kinds);
void live_clear(void);
const char *live_built(const char *kind);
void live_feed_at(struct dut *r, uint32_t qp, uint16_t queue, sp_time at, const struct live_words *w);
/* One packet of message key; verdict SP_DONE, SP_END ... */
void live_feed(struct dut *r, uint32_t qp, uint64_t key, uint32_t verdict);
void live_act(struct dut *r, uint32_t qp, uint64_t key, uint32_t action, uint64_t arg);
/* A number of a copy in what a reload has told: context's index, copy's index (the oldest first). */
json_t *live_copy(json_t *told, size_t context, size_t copy);
uint64_t live_number(const json_t *object, const char *name);
int live_try(struct dut *r, const char *name, const char *file, sp_time force, json_t **told, struct sp_error *error);
/* To be freed by json_decref(). */
json_t *live_reload(struct dut *r, const char *kind, sp_time force);
void live_load(struct dut *r, const char *kind);
/* The last of it: nothing is mapped any more, and no call was wrong. */
void live_stop(struct dut *r);

#endif
