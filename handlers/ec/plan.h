/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans: which chunks of a submessage are read, in which order, and which are made of them. Losses are often alike.
 * With short chunks, making a plan takes as long as following it, so plans are held with their tables. */
#ifndef EC_PLAN_H
#define EC_PLAN_H

#include "code.h"

#define SP_EC_PLANS	  16   /* plans held */
#define SP_EC_PLAN_TABLES 2048 /* bytes of tables held with a plan; larger ones are made again each time */

/* What a plan is for. Bits of chunks: `made`: those that it makes; `used`: parity that MDS decoding reads. */
struct sp_ec_aim {
	uint64_t made[SP_EC_WORDS], used[SP_EC_WORDS];
	const struct sp_ec_kernel *kernel;
	uint64_t shape; /* kind, k, m, data, and whether it is for checking; 0: none */
};

struct sp_ec_plan {
	struct sp_ec_aim aim;
	uint64_t needed[SP_EC_WORDS]; /* XOR: parity that it reads */
	uint8_t rows, sources;
	int16_t last_source, last_row; /* index of the last data chunk among them; -1: not among them */
	bool tabled;		       /* `tables` are ready */
	uint8_t chunk[SP_EC_CHUNKS];   /* sources, then rows */
	uint8_t first[SP_EC_CHUNKS];   /* XOR: row r has sources [first[r], first[r + 1]) */
	uint64_t tables[SP_EC_PLAN_TABLES / 8];
};

struct sp_ec_plans {
	struct sp_ec_plan plan[SP_EC_PLANS];
	unsigned latest; /* index of the plan used last */
};

/* The plan for making all parity chunks of all data chunks; or, for checking, those whose bit is set in `wanted`. */
struct sp_ec_plan *sp_ec_plan_parity(struct sp_ec_plans *plans, const struct sp_ec_code *code, unsigned data,
				     const uint64_t *wanted);
/* The plan for making the missing data chunks. NULL: it is impossible. */
struct sp_ec_plan *sp_ec_plan_data(struct sp_ec_plans *plans, const struct sp_ec_code *code, unsigned data,
				   const uint64_t missing[SP_EC_WORDS]);

/* True: the plan has room for its tables. */
static inline bool sp_ec_plan_keeps(const struct sp_ec_plan *plan, const struct sp_ec_code *code)
{
	const size_t each = code->kernel->coefficient ? code->kernel->coefficient : SP_EC_TABLE;

	return plan->rows <= sp_ec_group(plan->sources) && plan->rows * plan->sources * each <= SP_EC_PLAN_TABLES;
}

#endif
