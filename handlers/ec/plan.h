/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which chunks of a submessage are read, in which order, and which are made of them. Losses are often alike, and of
 * short chunks it takes as long to see what is to be done as to do it: so plans are kept, with their tables.
 */
#ifndef EC_PLAN_H
#define EC_PLAN_H

#include "code.h"

#define SP_EC_PLANS	  16   /* kept, by what they are for */
#define SP_EC_PLAN_TABLES 2048 /* bytes of tables that are kept with one; longer ones are made anew */

/* What a plan is for. Bits are of chunks: `made` of those that are made, `used` of parity that MDS decoding reads. */
struct sp_ec_aim {
	uint64_t made[SP_EC_WORDS], used[SP_EC_WORDS];
	const struct sp_ec_kernel *kernel;
	uint64_t shape; /* kind, k, m, data, and whether it is to check; 0: none */
};

struct sp_ec_plan {
	struct sp_ec_aim aim;
	uint64_t needed[SP_EC_WORDS]; /* XOR: parity that is read */
	uint8_t rows, sources;
	int16_t last_source, last_row; /* which of them is the last data chunk; -1: none */
	bool tabled;		       /* `tables` are what the rows need */
	uint8_t chunk[SP_EC_CHUNKS];   /* the sources', then the rows' */
	uint8_t first[SP_EC_CHUNKS];   /* XOR: row r has sources [first[r], first[r + 1]) */
	uint64_t tables[SP_EC_PLAN_TABLES / 8];
};

struct sp_ec_plans {
	struct sp_ec_plan plan[SP_EC_PLANS];
	unsigned latest; /* of them */
};

/* For making all parity chunks of all data chunks; or, to check them, those of which `wanted` has a bit. */
struct sp_ec_plan *sp_ec_plan_parity(struct sp_ec_plans *plans, const struct sp_ec_code *code, unsigned data,
				     const uint64_t *wanted);
/* For making the data chunks missing. NULL: they cannot be had. */
struct sp_ec_plan *sp_ec_plan_data(struct sp_ec_plans *plans, const struct sp_ec_code *code, unsigned data,
				   const uint64_t missing[SP_EC_WORDS]);

/* Do the plan's tables fit into it? */
static inline bool sp_ec_plan_keeps(const struct sp_ec_plan *plan, const struct sp_ec_code *code)
{
	const size_t each = code->kernel->coefficient ? code->kernel->coefficient : SP_EC_TABLE;

	return plan->rows <= sp_ec_group(plan->sources) && plan->rows * plan->sources * each <= SP_EC_PLAN_TABLES;
}

#endif
