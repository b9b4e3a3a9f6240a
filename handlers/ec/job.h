/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work on one submessage, in slices: making its parity, making its missing data, checking. The bytes go straight to
 * where they belong, and nowhere else; chunks may lie at any address. What a chunk holds may change meanwhile (the
 * memory is an application's): the result is rubbish then, and nothing else happens.
 *
 * What is wrong in a chunk that counts as present spreads to all that is made of it, unseen: parity that has been used
 * up on losses proves nothing. Where more parity came than losses took, sp_ec_verify_start() checks against it.
 */
#ifndef EC_JOB_H
#define EC_JOB_H

#include "plan.h"

struct sp_ec_submessage {
	unsigned data;	 /* chunks, 1 to k */
	uint32_t bytes;	 /* of a chunk, at least SP_EC_KERNEL_BYTES */
	uint32_t last;	 /* of the last data chunk, 1 to bytes */
	uint8_t **chunk; /* data chunks, then sp_ec_parity() parity chunks. Read when the job starts only. */
	bool cold;	 /* of a message that caches do not hold: chunks come from memory */
	bool past;	 /* nobody reads what is made before caches have lost it: better written past them */
	/* Bytes from a chunk of data, and of parity, to where the submessage after it has the same one, whose beginning
	 * is fetched meanwhile; 0: there is none. */
	uint64_t data_ahead, parity_ahead;
};

/* The unit of work: a byte multiplied and added. How many take about 10 us, with data that no cache has. */
#define SP_EC_SLICE (1 << 19)
#define SP_EC_ONE   10000 /* what a submessage takes besides its job: to find it, to take it and to hand it over; */
#define SP_EC_MORE  1000  /* ... and one like it right after it */
#define SP_EC_BLOCK 16384 /* bytes of a chunk at once, at most; */
#define SP_EC_STRIP 4096  /* ... of many sources, for the rows to stay in a cache meanwhile (MDS: the kernel's), */
#define SP_EC_REST  256	  /* ... and a rest of less goes with them */
#define SP_EC_SOURCES                                                                                                  \
	8 /* of a strip at once, at least, where there are more (MDS: the kernel's); up to half as many again: no      \
	     strips */
#define SP_EC_PAST (2 << 20) /* what is made of so many bytes of data is always written past the caches, */
#define SP_EC_LONG (4 << 20) /* ... and what is made of messages as long as this had better be */

/* One thread at a time. 80 KiB; may be used for one submessage after the other. The fields are the job's. */
struct sp_ec_job {
	const struct sp_ec_code *code;
	struct sp_ec_plan *plan;
	uint8_t *memory;	      /* for tables that the plan has no room for, */
	struct sp_ec_plan *memory_of; /* ... and whose those there are; NULL: nobody's */
	uint8_t *tables;	      /* memory, the plan's, or the code's */
	unsigned rows, sources;
	unsigned group; /* rows made at once */
	uint32_t bytes;
	int short_source, short_row; /* which of them is shorter than the others; -1: none */
	bool check, wrong, cold, past;
	/* Not beside `bytes`, as in a submessage: a caller has just written both of those, and one load of the two
	 * would wait until they, and all that was written before, have reached the cache. */
	uint32_t last;
	bool loose;		  /* something was written past the caches since sp_ec_job_settle() */
	bool together;		  /* all sources at once; if not, ... */
	unsigned least, strip;	  /* ... so many at least, and bytes of them */
	bool dry;		  /* see sp_ec_job_dry() */
	uint64_t spent;		  /* of the latest budget */
	unsigned weights, tabled; /* lines of the matrix, and its rows, that are ready */
	uint32_t at, block;	  /* bytes that are done (XOR: of the row), and how many are being done */
	unsigned done, added;	  /* rows of the latter, and sources of the group of rows at hand */
	uint64_t data_ahead;
	uint8_t *source[SP_EC_CHUNKS];
	uint8_t *row[SP_EC_CHUNKS];
	uint64_t parity_ahead; /* nor these two beside one another */
	struct sp_ec_matrix matrix;
	struct sp_ec_plans plans;
	uint8_t padded[SP_EC_BLOCK + SP_EC_REST]; /* of the short source */
	uint8_t aside[SP_EC_BLOCK + SP_EC_REST];  /* of the short row, or of one that is checked */
};

/* memory: sp_ec_code_bytes() of it, the caller's, 64-byte aligned, to outlive the job. Any code may use the job whose
 * sp_ec_code_bytes() are no more. */
void sp_ec_job_init(struct sp_ec_job *job, void *memory);

/*
 * Each begins a job; sp_ec_job_step() does it. -EINVAL: the submessage is none of this code.
 *
 * encode: makes all parity chunks.
 * decode: makes the data chunks whose bit is set in `missing`, each only as long as it is; parity chunks whose bit is
 * set are not read. Missing parity is not made. -ENODATA: they cannot be had (sp_ec_recoverable).
 * verify: all data are there; makes each parity chunk whose bit is set in `check`, aside, and compares. With c of them
 * that decoding did not use, up to c chunks that are wrong are sure to be noticed (XOR: one of a group whose parity is
 * checked). Bits of data chunks mean nothing.
 */
int sp_ec_encode_start(struct sp_ec_job *job, const struct sp_ec_code *code, const struct sp_ec_submessage *sub);
int sp_ec_decode_start(struct sp_ec_job *job, const struct sp_ec_code *code, const struct sp_ec_submessage *sub,
		       const uint64_t missing[SP_EC_WORDS]);
int sp_ec_verify_start(struct sp_ec_job *job, const struct sp_ec_code *code, const struct sp_ec_submessage *sub,
		       const uint64_t check[SP_EC_WORDS]);

/* The same, by a job that is done, for the submessage that has its data chunks `data` bytes further on, and its parity
 * chunks `parity` bytes; no chunk of either is short. */
void sp_ec_job_again(struct sp_ec_job *job, uint64_t data, uint64_t parity);

/* The same for up to `count` of them, one after the other, each as far from the one before, as long as each fits into
 * what is left of `budget` in one piece. Returns how many were done; what they took is sp_ec_job_spent(), with
 * SP_EC_MORE for each. */
unsigned sp_ec_job_repeat(struct sp_ec_job *job, uint64_t data, uint64_t parity, unsigned count, uint64_t budget);

/* A job that was just started takes its steps, and as many, but no chunk is read or written: for NICs without payload.
 */
static inline void sp_ec_job_dry(struct sp_ec_job *job)
{
	job->dry = true;
}

/* Works for about `budget`, such as SP_EC_SLICE, or UINT64_MAX to do all of it; whatever it is, a little gets done.
 * True: there is more to do. */
bool sp_ec_job_step(struct sp_ec_job *job, uint64_t budget);

/* What was written past the caches keeps no order: to be called before anybody is told of it, or may read it
 * elsewhere. Once for several jobs is enough. */
void sp_ec_job_settle(struct sp_ec_job *job);

/* What the latest step took, which may be more than its budget. */
static inline uint64_t sp_ec_job_spent(const struct sp_ec_job *job)
{
	return job->spent;
}

/* Of a verification that is done: a chunk is not what it should be. */
static inline bool sp_ec_job_wrong(const struct sp_ec_job *job)
{
	return job->wrong;
}

#endif
