/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work on one submessage, in slices: making its parity, making its missing data, or checking. The job writes straight
 * to the final place, and nowhere else. Chunks may lie at any address. Their content may change meanwhile, as the
 * memory is an application's: then the result is wrong, and nothing else happens.
 *
 * An error in a chunk that counts as present spreads unseen to all that is computed from it: parity that was used up
 * for losses cannot show it. Where more parity arrived than was needed, sp_ec_verify_start() can check.
 */
#ifndef EC_JOB_H
#define EC_JOB_H

#include "plan.h"

struct sp_ec_submessage {
	unsigned data;	 /* chunks, 1 to k */
	uint32_t bytes;	 /* of a chunk, at least SP_EC_KERNEL_BYTES */
	uint32_t last;	 /* of the last data chunk: 1 to `bytes` */
	uint8_t **chunk; /* data chunks, then sp_ec_parity() parity chunks. Read only when the job starts */
	bool cold;	 /* of a message larger than the caches: chunks come from memory */
	bool past;	 /* the caches lose the result before anybody reads it: writing past them is better */
	/* Distance in bytes from a chunk to the same chunk of the next submessage, which is prefetched: of data, and of
	 * parity. 0: there is none. */
	uint64_t data_ahead, parity_ahead;
};

/* The unit of work is one byte multiplied and added. So many take about 10 us, with data that is in no cache. */
#define SP_EC_SLICE (1 << 19)
#define SP_EC_ONE   10000 /* what a submessage takes besides its job: finding it, reserving it, handing it over */
#define SP_EC_MORE  1000  /* the same for one like it that follows at once */
#define SP_EC_BLOCK 16384 /* bytes of a chunk at once, at most */
#define SP_EC_STRIP 4096  /* ... with many sources, so that the rows stay in a cache (MDS: the kernel says) */
#define SP_EC_REST  256	  /* ... a shorter rest is done together with them */
#define SP_EC_SOURCES                                                                                                  \
	8 /* of a strip at once, at least, where there are more (MDS: the kernel's); up to half as many again: no      \
	     strips */
#define SP_EC_LONG (4 << 20) /* what is made of messages this long should be written past the caches */

/* For one thread. 80 KiB. It can be used for one submessage after the other. The fields are private. */
struct sp_ec_job {
	const struct sp_ec_code *code;
	struct sp_ec_plan *plan;
	uint8_t *memory;	      /* for tables that do not fit into the plan */
	struct sp_ec_plan *memory_of; /* ... the plan whose tables these are, or NULL */
	uint8_t *tables;	      /* memory, or those of the plan or of the code */
	unsigned rows, sources;
	unsigned group; /* rows made together */
	uint32_t bytes;
	int short_source, short_row; /* the index of the one that is shorter; -1: none */
	bool check, wrong, cold, past;
	/* Not next to `bytes`, as it is in a submessage: callers have just written both there, and one load of both
	 * would wait until these stores, and all before them, are in the cache. */
	uint32_t last;
	bool loose;		  /* something was written past the caches since sp_ec_job_settle() */
	bool together;		  /* all sources are combined at once; otherwise */
	unsigned least, strip;	  /* ... at least this many, and this many bytes of them */
	bool dry;		  /* see sp_ec_job_dry() */
	uint64_t spent;		  /* of the latest step */
	unsigned weights, tabled; /* lines of the matrix, and rows of tables, that are ready */
	uint32_t at, block;	  /* bytes that are done (XOR: of the row), and that are being done */
	unsigned done, added;	  /* rows of the block that are done; sources of the current group of rows */
	uint64_t data_ahead;
	uint8_t *source[SP_EC_CHUNKS];
	uint8_t *row[SP_EC_CHUNKS];
	uint64_t parity_ahead; /* nor are these two next to each other */
	struct sp_ec_matrix matrix;
	struct sp_ec_plans plans;
	uint8_t padded[SP_EC_BLOCK + SP_EC_REST]; /* of the short source */
	uint8_t aside[SP_EC_BLOCK + SP_EC_REST];  /* of the short row, or of one that is checked */
};

/* memory: sp_ec_code_bytes() bytes, 64-byte aligned; the caller's, and it must outlive the job. The job may be used
 * with any code whose sp_ec_code_bytes() are not more. */
void sp_ec_job_init(struct sp_ec_job *job, void *memory);

/*
 * Each starts a job, which sp_ec_job_step() does. -EINVAL: the submessage does not fit this code.
 *
 * encode: makes all parity chunks.
 * decode: makes the data chunks whose bit is set in `missing`, each in its own length. Parity chunks whose bit is set
 * are not read, and not made. -ENODATA: it is impossible (sp_ec_recoverable).
 * verify: all data are present. Makes each parity chunk whose bit is set in `check` aside, and compares it. With c of
 * them that decoding did not use, up to c wrong chunks are sure to be noticed (XOR: one of each group whose parity is
 * checked). Bits of data chunks have no effect.
 */
int sp_ec_encode_start(struct sp_ec_job *job, const struct sp_ec_code *code, const struct sp_ec_submessage *sub);
int sp_ec_decode_start(struct sp_ec_job *job, const struct sp_ec_code *code, const struct sp_ec_submessage *sub,
		       const uint64_t missing[SP_EC_WORDS]);
int sp_ec_verify_start(struct sp_ec_job *job, const struct sp_ec_code *code, const struct sp_ec_submessage *sub,
		       const uint64_t check[SP_EC_WORDS]);

/* Starts the finished job again for a submessage whose data chunks lie `data` bytes further on, and whose parity chunks
 * lie `parity` bytes further on. No chunk of either may be short. */
void sp_ec_job_again(struct sp_ec_job *job, uint64_t data, uint64_t parity);

/* Does the same for up to `count` submessages in a row, each as far from the one before, while each fits into what is
 * left of `budget` in one piece. Returns how many were done. sp_ec_job_spent() says what they took, with SP_EC_MORE for
 * each. */
unsigned sp_ec_job_repeat(struct sp_ec_job *job, uint64_t data, uint64_t parity, unsigned count, uint64_t budget);

/* A job that was just started takes all its steps without reading or writing chunks: for NICs without payload. */
static inline void sp_ec_job_dry(struct sp_ec_job *job)
{
	job->dry = true;
}

/* Works for about `budget`, such as SP_EC_SLICE, or UINT64_MAX to finish; at least a little gets done. True: there is
 * more to do. */
bool sp_ec_job_step(struct sp_ec_job *job, uint64_t budget);

/* A fence for stores past the caches, which keep no order. Call it before publishing the result or reading it
 * elsewhere. One call after several jobs is enough. */
void sp_ec_job_settle(struct sp_ec_job *job);

/* What the latest step took. It may be more than its budget. */
static inline uint64_t sp_ec_job_spent(const struct sp_ec_job *job)
{
	return job->spent;
}

/* After a verification: true if a chunk is wrong. */
static inline bool sp_ec_job_wrong(const struct sp_ec_job *job)
{
	return job->wrong;
}

#endif
