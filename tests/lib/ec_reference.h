/* SPDX-License-Identifier: BSD-3-Clause */
/* A submessage between guard bytes, and its codes computed from their definition. Slow; uses nothing of the
 * library. */
#ifndef TESTS_EC_REFERENCE_H
#define TESTS_EC_REFERENCE_H

#include <stdlib.h>
#include <string.h>
#include "../../handlers/ec/job.h"
#include "../../testbed/random.h"

/* ---- GF(2^8) ---- */
extern uint8_t ec_product[256][256], ec_inverse[256];

void ec_field(void);
unsigned ec_rows(unsigned k, unsigned m, unsigned data);
/* Are all data determined by the chunks that are there? By elimination. */
bool ec_determined(enum sp_ec_kind kind, unsigned data, unsigned rows, const uint64_t *missing);

/* ---- a submessage ---- */
#define EC_GUARD 80

#define EC_FILL 0xA5

struct ec_area {
	struct sp_ec_submessage sub;
	enum sp_ec_kind kind;
	unsigned rows;
	uint8_t *memory[SP_EC_CHUNKS], *chunk[SP_EC_CHUNKS]; /* chunk: at any alignment within memory */
	uint8_t *right[SP_EC_CHUNKS];			     /* what they must be */
};

uint32_t ec_length(const struct ec_area *a, unsigned i);
void ec_area_new(struct ec_area *a, enum sp_ec_kind kind, unsigned k, unsigned m, unsigned data, uint32_t bytes,
		 uint32_t last, struct sp_random *random);
/* The library's view of it, made late: its address is the structure's. */
const struct sp_ec_submessage *ec_sub(struct ec_area *a);
void ec_area_free(struct ec_area *a);
void ec_fill(struct ec_area *a, unsigned i, uint8_t byte);
bool ec_is_right(const struct ec_area *a, unsigned i);
bool ec_is_filled(const struct ec_area *a, unsigned i, uint8_t byte);
bool ec_guarded(const struct ec_area *a);
void ec_set(uint64_t *bitmap, unsigned i);

/* ---- a code, and a job for it ---- */
struct ec_code {
	struct sp_ec_code code;
	struct sp_ec_job job;
	void *memory[2];
};

/* Those that this processor has, NULL past the last. */
const struct sp_ec_kernel *ec_kernel(unsigned i);
struct ec_code *ec_code_by(const struct sp_ec_kernel *kernel, enum sp_ec_kind kind, unsigned k, unsigned m);
/* By ISA-L, where it does not matter. */
struct ec_code *ec_code_new(enum sp_ec_kind kind, unsigned k, unsigned m);
void ec_code_free(struct ec_code *c);
/* To the end, in slices; returns how many. */
unsigned ec_run(struct ec_code *c, uint64_t budget);

extern const uint64_t NOTHING[SP_EC_WORDS]; /* no chunk */

#endif
