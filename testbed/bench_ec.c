/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Erasure codes: the jobs of handlers/ec, as the ec handler runs them (started anew for each submessage, with what that
 * computes, and done in slices), beside single calls of ISA-L on the same chunks, with tables made beforehand.
 *
 * Submessages lie one after the other in more memory than caches hold, and are taken in turn. Of the first one, ISA-L
 * makes the parity when the case is opened, with matrices made and inverted here: what either side makes of it must be
 * the same, or the case fails.
 */
#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <isa-l/erasure_code.h>
#include <isa-l/raid.h>
#include <rte_cycles.h>

#include "../handlers/ec/job.h"
#include "random.h"

#define DATA  (128u << 20) /* bytes of all data chunks */
#define LINE  64
#define K_MAX 32
#define M_MAX 8
#define BATCH 64	 /* submessages between two looks at the clock, at most ... */
#define LOOK  (4u << 20) /* ... and bytes of data */
#define BIN   32	 /* TSC cycles */
#define BINS  16384

struct shape {
	enum sp_ec_kind kind;
	unsigned k, m;
	uint32_t bytes; /* of a chunk */
	bool decode;	/* m data chunks, rather than making parity */
};

struct bench {
	struct shape shape;
	struct sp_ec_code code;
	struct sp_ec_job job;
	void *tables, *scratch; /* the code's, the job's */
	uint8_t *data, *parity; /* of all submessages */
	uint8_t *right;		/* the first submessage's chunks */
	unsigned submessages, next;
	uint64_t missing[SP_EC_WORDS];
	uint8_t isal[SP_EC_TABLE * K_MAX * M_MAX];
	uint64_t bins;
	uint32_t bin[BINS]; /* how many slices took so long */
};

/* A submessage's chunks: data, then parity. */
static void find(const struct bench *b, unsigned i, uint8_t **chunk)
{
	const struct shape *s = &b->shape;

	for (unsigned j = 0; j < s->k; j++)
		chunk[j] = b->data + ((size_t)i * s->k + j) * s->bytes;
	for (unsigned j = 0; j < s->m; j++)
		chunk[s->k + j] = b->parity + ((size_t)i * s->m + j) * s->bytes;
}

/* ---- ISA-L ---- */

/* The rows of parity, as handlers/ec/matrix.h documents them; with the data chunks [0, m) missing, those that make
 * them of the other data and all parity chunks: rows of the inverse of what is there. */
static int isal_open(struct bench *b)
{
	const unsigned k = b->shape.k, m = b->shape.m;
	uint8_t parity[M_MAX * K_MAX], there[K_MAX * K_MAX] = {0}, inverse[K_MAX * K_MAX];

	for (unsigned i = 0; i < m; i++)
		for (unsigned j = 0; j < k; j++)
			parity[i * k + j] = gf_inv((uint8_t)((255 - i) ^ j));
	for (unsigned j = m; j < k; j++)
		there[(j - m) * k + j] = 1;
	memcpy(there + (k - m) * k, parity, m * k);
	if (b->shape.decode && gf_invert_matrix(there, inverse, (int)k))
		return -EINVAL;
	ec_init_tables((int)k, (int)m, b->shape.decode ? inverse : parity, b->isal);
	return 0;
}

static void isal(struct bench *b, uint8_t **chunk)
{
	const struct shape *s = &b->shape;
	uint8_t **from = s->decode ? chunk + s->m : chunk, **to = s->decode ? chunk : chunk + s->k;
	void *group[K_MAX + 1];

	if (s->kind == SP_EC_MDS) {
		ec_encode_data((int)s->bytes, (int)s->k, (int)s->m, b->isal, from, to);
		return;
	}
	for (unsigned i = 0; i < s->m; i++) { /* the last of a group is made */
		unsigned n = 0;

		for (unsigned j = i + (s->decode ? s->m : 0); j < s->k; j += s->m)
			group[n++] = chunk[j];
		if (s->decode)
			group[n++] = chunk[s->k + i];
		group[n++] = to[i];
		xor_gen((int)n, (int)s->bytes, group);
	}
}

/* ---- the job ---- */

static void start(struct bench *b, uint8_t **chunk)
{
	const struct sp_ec_submessage sub = {
		.data = b->shape.k, .bytes = b->shape.bytes, .last = b->shape.bytes, .chunk = chunk};

	if (b->shape.decode)
		sp_ec_decode_start(&b->job, &b->code, &sub, b->missing);
	else
		sp_ec_encode_start(&b->job, &b->code, &sub);
}

static void job(struct bench *b, uint8_t **chunk)
{
	start(b, chunk);
	while (sp_ec_job_step(&b->job, SP_EC_SLICE))
		;
}

/* What this thread has computed: the machine may be doing other things. */
static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static long switches(void)
{
	struct rusage u = {0};

	getrusage(RUSAGE_THREAD, &u);
	return u.ru_nivcsw + u.ru_nvcsw;
}

static double bin_median(const struct bench *b)
{
	uint64_t below = 0;
	unsigned i = 0;

	while (i < BINS - 1 && 2 * (below += b->bin[i]) < b->bins)
		i++;
	return (i + 0.5) * BIN;
}

/* Once through the memory with a look at the TSC before and after each slice, the start in the first of a submessage.
 * Slices during which the kernel gave the processor to others do not count. */
static void slices(struct bench *b, struct bench_turn *turn)
{
	struct timespec began, ended;
	uint64_t first, took, longest = 0;
	uint8_t *chunk[K_MAX + M_MAX];
	double us;

	memset(b->bin, 0, sizeof(b->bin));
	b->bins = 0;
	clock_gettime(CLOCK_MONOTONIC, &began);
	first = rte_rdtsc();
	for (unsigned i = 0; i < b->submessages; i++) {
		bool more = true;

		find(b, i, chunk);
		for (bool begin = true; more; begin = false) {
			const long before = switches();

			took = rte_rdtsc();
			if (begin)
				start(b, chunk);
			more = sp_ec_job_step(&b->job, SP_EC_SLICE);
			took = rte_rdtsc() - took;
			if (switches() != before)
				continue;
			longest = took > longest ? took : longest;
			b->bin[took / BIN < BINS ? took / BIN : BINS - 1]++;
			b->bins++;
		}
	}
	clock_gettime(CLOCK_MONOTONIC, &ended);
	us = ((double)(ended.tv_sec - began.tv_sec) * 1e6 + (double)(ended.tv_nsec - began.tv_nsec) * 1e-3) /
	     (double)(rte_rdtsc() - first);
	turn->slice = us * bin_median(b);
	turn->slice_max = us * (double)longest;
}

/* ---- the case ---- */

static void close_bench(void *state)
{
	struct bench *b = state;

	free(b->tables);
	free(b->scratch);
	free(b->data);
	free(b->parity);
	free(b->right);
	free(b);
}

static int open_bench(const struct shape *shape, void **state, char *why, unsigned room)
{
	const size_t code = RTE_ALIGN_CEIL(sp_ec_code_bytes(shape->kind, shape->k, shape->m), LINE);
	const size_t data = (size_t)shape->k * shape->bytes, parity = (size_t)shape->m * shape->bytes;
	struct bench *b = calloc(1, sizeof(*b));
	uint8_t *chunk[K_MAX + M_MAX];
	struct sp_random random;
	int r = -ENOMEM;

	if (!b)
		return r;
	b->shape = *shape;
	b->submessages = (unsigned)(DATA / data);
	b->tables = aligned_alloc(LINE, code);
	b->scratch = aligned_alloc(LINE, code);
	b->data = aligned_alloc(LINE, b->submessages * data);
	b->parity = aligned_alloc(LINE, b->submessages * parity);
	b->right = malloc(data + parity);
	if (!b->tables || !b->scratch || !b->data || !b->parity || !b->right)
		goto fail;
	sp_random_seed(&random, 1, 0);
	for (size_t i = 0; i < data; i++)
		b->right[i] = (uint8_t)sp_random_next(&random);
	for (unsigned i = 0; i < b->submessages; i++)
		memcpy(b->data + i * data, b->right, data);
	memset(b->parity, 0, b->submessages * parity);
	r = sp_ec_code_init(&b->code, shape->kind, shape->k, shape->m, b->tables);
	sp_ec_job_init(&b->job, b->scratch);
	b->shape.decode = false;
	r = r ? r : isal_open(b);
	for (unsigned i = 0; i < b->submessages && !r; i++) {
		find(b, i, chunk);
		isal(b, chunk);
	}
	memcpy(b->right + data, b->parity, parity);
	b->shape.decode = shape->decode;
	b->missing[0] = (1ull << shape->m) - 1;
	r = r ? r : isal_open(b);
	if (r)
		goto fail;
	*state = b;
	return 0;
fail:
	snprintf(why, room, "%s", strerror(-r));
	close_bench(b);
	return r;
}

/* Forgets what is to be made of the first submessage. */
static void forget(struct bench *b)
{
	memset(b->shape.decode ? b->data : b->parity, 0, (size_t)b->shape.m * b->shape.bytes);
}

static int check(const struct bench *b, char *why, unsigned room)
{
	const size_t data = (size_t)b->shape.k * b->shape.bytes, parity = (size_t)b->shape.m * b->shape.bytes;

	if (!memcmp(b->data, b->right, data) && !memcmp(b->parity, b->right + data, parity))
		return 0;
	snprintf(why, room, "the chunks are not what ISA-L makes of them");
	return -EPROTO;
}

/* A submessage of `data` bytes after the other. */
static inline void measure(struct bench *b, void (*make)(struct bench *, uint8_t **), double seconds,
			   struct bench_turn *turn)
{
	const size_t data = (size_t)b->shape.k * b->shape.bytes;
	const unsigned batch = LOOK / data < 1 ? 1 : LOOK / data > BATCH ? BATCH : (unsigned)(LOOK / data);
	const double began = now();
	uint8_t *chunk[K_MAX + M_MAX];
	uint64_t done = 0;
	double took;

	do {
		for (unsigned i = 0; i < batch; i++) {
			find(b, b->next, chunk);
			make(b, chunk);
			b->next = b->next + 1 < b->submessages ? b->next + 1 : 0;
		}
		done += batch;
		took = now() - began;
	} while (took < seconds && !bench_stopped());
	turn->value = (double)(done * data) / took / 1e9;
}

static int run_isal(void *state, double seconds, struct bench_turn *turn, char *why, unsigned room)
{
	uint8_t *chunk[K_MAX + M_MAX];

	forget(state);
	find(state, 0, chunk);
	isal(state, chunk);
	measure(state, isal, seconds, turn);
	return check(state, why, room);
}

static int run_job(void *state, double seconds, struct bench_turn *turn, char *why, unsigned room)
{
	forget(state);
	slices(state, turn);
	measure(state, job, seconds, turn);
	return check(state, why, room);
}

#define CASE(symbol, text, about, ...)                                                                                 \
	static int open_##symbol(const struct bench_options *o, void **state, char *why, unsigned room)                \
	{                                                                                                              \
		(void)o;                                                                                               \
		return open_bench(&(const struct shape){__VA_ARGS__}, state, why, room);                               \
	}                                                                                                              \
	const struct bench_case bench_ec_##symbol = {                                                                  \
		.name = "ec-" text,                                                                                    \
		.help = about,                                                                                         \
		.unit = "GB/s",                                                                                        \
		.threads = 1,                                                                                          \
		.baseline = "ISA-L, one call",                                                                         \
		.required = 0.95,                                                                                      \
		.open = open_##symbol,                                                                                 \
		.run = run_job,                                                                                        \
		.run_baseline = run_isal,                                                                              \
		.close = close_bench,                                                                                  \
	}
#define BOTH(symbol, text, kind, k, m, kib)                                                                            \
	CASE(encode_##symbol, "encode-" text, #m " parity chunks of " #k " of data, " #kib " KiB each, from memory",   \
	     kind, k, m, kib << 10, false);                                                                            \
	CASE(decode_##symbol, "decode-" text, #m " of " #k " data chunks out of the rest, " #kib " KiB each", kind, k, \
	     m, kib << 10, true)

BOTH(4_2_4k, "4-2-4K", SP_EC_MDS, 4, 2, 4);
BOTH(4_2_64k, "4-2-64K", SP_EC_MDS, 4, 2, 64);
BOTH(8_3_4k, "8-3-4K", SP_EC_MDS, 8, 3, 4);
BOTH(8_3_64k, "8-3-64K", SP_EC_MDS, 8, 3, 64);
BOTH(32_8_4k, "32-8-4K", SP_EC_MDS, 32, 8, 4);
BOTH(32_8_64k, "32-8-64K", SP_EC_MDS, 32, 8, 64);
BOTH(xor_32_8_64k, "xor-32-8-64K", SP_EC_XOR, 32, 8, 64);
