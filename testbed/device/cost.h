/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a call of a handler costs on a device, in cycles of its cores. It is a sum: "1163 + 756/word" is 1163 cycles a
 * call, and 756 for each word that the call writes to the host.
 */
#ifndef TESTBED_DEVICE_COST_H
#define TESTBED_DEVICE_COST_H

#include <stdbool.h>
#include <stdint.h>

#define SP_COSTS_MOST 256
#define SP_COST_NAME  40

/* Cycles for a call, and for each of what it handles. */
struct sp_cost {
	double call;
	double byte;  /* of the packet's payload */
	double write; /* of bytes to host memory */
	double word;  /* of host memory that is stored or changed: bits of a bitmap, counters */
	double frame; /* sent */
	double event; /* posted to the host */
};

/* What one call did. */
struct sp_cost_work {
	uint64_t bytes, writes, words, frames, events;
	uint64_t event_bytes; /* of writes: of the events */
};

struct sp_cost_row {
	char handler[SP_COST_NAME]; /* "*": each that has no row of its own */
	unsigned function;	    /* enum sp_called */
	struct sp_cost cost;
};

struct sp_costs {
	struct sp_cost_row row[SP_COSTS_MOST];
	unsigned count;
};

/* "38", "1163 + 756/word", "0.5/byte", "756/word - 349". 0; -EINVAL: why says what is wrong. */
int sp_cost_parse(const char *text, struct sp_cost *cost, char why[120]);
/* what: "HANDLER" (its payload()) or "HANDLER.FUNCTION"; it replaces an earlier row. -EINVAL; -ENOSPC. */
int sp_costs_set(struct sp_costs *costs, const char *what, const char *text, char why[120]);
/*
 * The cost of that call. A handler that has a row costs what its rows say, and nothing in its other functions; the same
 * holds for "*". NULL: no row is about this handler, and what it costs must be measured.
 */
const struct sp_cost *sp_costs_find(const struct sp_costs *costs, const char *handler, unsigned function);
double sp_cost_of(const struct sp_cost *cost, const struct sp_cost_work *work); /* cycles, never below 0 */

#endif
