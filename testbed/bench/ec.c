/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Erasure codes: the handler ec in a NIC, beside calls of ISA-L on the same chunks, with tables made beforehand, and
 * beside the handler's jobs alone.
 *
 * Submessages lie one after the other and are coded in that order: in memory larger than all caches and flushed before,
 * or few enough for a near cache. ISA-L makes the parity of the first submessage when the case opens, with matrices
 * made and inverted here. Every side must produce the same bytes, or the case fails. Each chunk repeats one page, so
 * that the port reads little memory (coder.h).
 */
#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <isa-l/erasure_code.h>
#include <isa-l/raid.h>
#include <rte_cycles.h>

#include "coder.h"
#include "../random.h"

#define DATA  (64u << 20)  /* bytes of all data chunks: more than caches hold */
#define LESS  4		   /* ... quick: a part of it, which still is put out of all caches */
#define WARM  (256u << 10) /* ... and few enough for a near cache with the parity; at least a submessage */
#define PAGE  BENCH_CODER_PAGE
#define BATCH 64	 /* submessages between two looks at the clock, at most ... */
#define LOOK  (4u << 20) /* ... and bytes of data */
#define SLICE 50.0	 /* us allowed for a slice */

struct bench {
	struct bench_coder_shape shape;
	struct sp_ec_code code;
	struct sp_ec_job job;
	void *tables, *scratch; /* tables of the code, scratch memory of the job */
	uint8_t *memory;	/* data of all submessages, then parity */
	uint8_t *right;		/* a page of each chunk of a submessage, which repeats it */
	unsigned next;
	uint64_t missing[SP_EC_WORDS];
	uint8_t *isal; /* tables */
	struct bench_coder *coder;
};

static size_t data_bytes(const struct bench *b)
{
	return (size_t)b->shape.k * b->shape.bytes;
}

static size_t parity_bytes(const struct bench *b)
{
	return (size_t)b->shape.m * b->shape.bytes;
}

/* A submessage's chunks: data, then parity. */
static void find(const struct bench *b, unsigned i, uint8_t **chunk)
{
	const struct bench_coder_shape *s = &b->shape;
	uint8_t *data = b->memory + i * data_bytes(b),
		*parity = b->memory + s->submessages * data_bytes(b) + i * parity_bytes(b);

	for (unsigned j = 0; j < s->k; j++)
		chunk[j] = data + (size_t)j * s->bytes;
	for (unsigned j = 0; j < s->m; j++)
		chunk[s->k + j] = parity + (size_t)j * s->bytes;
}

/* ---- ISA-L ---- */
/* The rows of parity, as in handlers/ec/matrix.h. For decoding, with the data chunks [0, m) missing: the rows that make
 * these from the other data and all parity, from the inverse matrix of the chunks present. */
static int isal_open(struct bench *b, bool decode)
{
	static uint8_t parity[SP_EC_CHUNKS * SP_EC_CHUNKS], there[sizeof(parity)], inverse[sizeof(parity)];
	const unsigned k = b->shape.k, m = b->shape.m, lost = m < k ? m : k;

	for (unsigned i = 0; i < m; i++)
		for (unsigned j = 0; j < k; j++)
			parity[i * k + j] = gf_inv((uint8_t)((255 - i) ^ j));
	memset(there, 0, sizeof(there));
	for (unsigned j = lost; j < k; j++)
		there[(j - lost) * k + j] = 1;
	memcpy(there + (k - lost) * k, parity, lost * k);
	if (decode && gf_invert_matrix(there, inverse, (int)k))
		return -EINVAL;
	ec_init_tables((int)k, (int)(decode ? lost : m), decode ? inverse : parity, b->isal);
	return 0;
}

static unsigned lost(const struct bench *b)
{
	return b->shape.m < b->shape.k ? b->shape.m : b->shape.k;
}

static void isal_exclusive(const struct bench_coder_shape *s, uint8_t **chunk)
{
	for (unsigned i = 0; i < s->m; i++) { /* the last of a group is repaired */
		void *group[SP_EC_CHUNKS + 1];
		unsigned n = 0;

		for (unsigned j = i + (s->decode ? s->m : 0); j < s->k; j += s->m)
			group[n++] = chunk[j];
		if (s->decode)
			group[n++] = chunk[s->k + i];
		group[n++] = chunk[s->decode ? i : s->k + i];
		xor_gen((int)n, (int)s->bytes, group);
	}
}

/* All sources at once. */
static void isal(struct bench *b, uint8_t **chunk)
{
	const struct bench_coder_shape *s = &b->shape;

	if (s->kind == SP_EC_XOR)
		isal_exclusive(s, chunk);
	else if (s->decode)
		ec_encode_data((int)s->bytes, (int)s->k, (int)lost(b), b->isal, chunk + lost(b), chunk);
	else
		ec_encode_data((int)s->bytes, (int)s->k, (int)s->m, b->isal, chunk, chunk + s->k);
}

/* One source after the other, as they would arrive. */
static void isal_update(struct bench *b, uint8_t **chunk)
{
	const struct bench_coder_shape *s = &b->shape;
	const unsigned rows = s->decode ? lost(b) : s->m;
	uint8_t **from = s->decode ? chunk + lost(b) : chunk, **to = s->decode ? chunk : chunk + s->k;

	for (unsigned r = 0; r < rows; r++)
		memset(to[r], 0, s->bytes);
	for (unsigned j = 0; j < s->k; j++)
		ec_encode_data_update((int)s->bytes, (int)s->k, (int)rows, (int)j, b->isal, from[j], to);
}

/* ---- the job ---- */
static void job(struct bench *b, uint8_t **chunk)
{
	const bool cold = bench_coder_cold(&b->shape);
	const struct sp_ec_submessage sub = {.data = b->shape.k,
					     .bytes = b->shape.bytes,
					     .last = b->shape.bytes,
					     .cold = cold,
					     .past = cold,
					     .data_ahead = cold ? data_bytes(b) : 0,
					     .parity_ahead = cold ? parity_bytes(b) : 0,
					     .chunk = chunk};

	if (b->shape.decode)
		sp_ec_decode_start(&b->job, &b->code, &sub, b->missing);
	else
		sp_ec_encode_start(&b->job, &b->code, &sub);
	while (sp_ec_job_step(&b->job, SP_EC_SLICE))
		;
	sp_ec_job_settle(&b->job);
}

/* Processor time of this thread: the machine may have other load. */
static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the case ---- */
static void close_bench(void *state)
{
	struct bench *b = state;

	bench_coder_close(b->coder);
	free(b->tables);
	free(b->scratch);
	free(b->memory);
	free(b->right);
	free(b->isal);
	free(b);
}

/* Repeats a page of each chunk. */
static void spread(const uint8_t *pages, uint8_t *chunk, size_t chunks, uint32_t bytes)
{
	for (size_t i = 0; i < chunks; i++)
		for (uint32_t at = 0; at < bytes; at += PAGE)
			memcpy(chunk + i * bytes + at, pages + i * PAGE, PAGE);
}

/* Fills all submessages, with the parity that ISA-L makes. */
static int fill(struct bench *b)
{
	const unsigned k = b->shape.k, m = b->shape.m;
	const uint32_t bytes = b->shape.bytes;
	const bool decode = b->shape.decode;
	struct sp_random random;
	uint8_t *chunk[SP_EC_CHUNKS];
	int r;

	sp_random_seed(&random, 1, 0);
	for (size_t i = 0; i < (size_t)k * PAGE; i++)
		b->right[i] = (uint8_t)sp_random_next(&random);
	b->shape.decode = false;
	r = isal_open(b, false);
	find(b, 0, chunk);
	spread(b->right, chunk[0], k, bytes);
	isal(b, chunk);
	for (unsigned i = 0; i < m; i++)
		memcpy(b->right + (size_t)(k + i) * PAGE, chunk[k + i], PAGE);
	b->shape.decode = decode;
	for (unsigned i = 0; i < b->shape.submessages; i++) {
		find(b, i, chunk);
		spread(b->right, chunk[0], k, bytes);
		spread(b->right + (size_t)k * PAGE, chunk[k], m, bytes);
	}
	return r ? r : isal_open(b, decode);
}

static int open_bench(const struct bench_coder_shape *shape, void **state, struct bench_why *why)
{
	const size_t code = RTE_ALIGN_CEIL(sp_ec_code_bytes(shape->kind, shape->k, shape->m), PAGE);
	struct bench *b = calloc(1, sizeof(*b));
	int r = -ENOMEM;

	if (!b)
		return r;
	b->shape = *shape;
	b->tables = aligned_alloc(PAGE, code);
	b->scratch = aligned_alloc(PAGE, code);
	b->memory = aligned_alloc(PAGE, shape->submessages * (data_bytes(b) + parity_bytes(b)));
	b->right = malloc((size_t)(shape->k + shape->m) * PAGE);
	b->isal = malloc((size_t)SP_EC_TABLE * shape->k * shape->m);
	if (!b->tables || !b->scratch || !b->memory || !b->right || !b->isal)
		goto fail;
	r = sp_ec_code_init(&b->code, shape->kind, shape->k, shape->m, b->tables);
	sp_ec_job_init(&b->job, b->scratch);
	for (unsigned j = 0; j < lost(b); j++)
		b->missing[j / 64] |= 1ull << (j % 64);
	r = r ? r : fill(b);
	if (r)
		goto fail;
	r = bench_coder_open(&b->shape, b->memory, b->right, &b->coder, why);
	if (r) {
		close_bench(b);
		return r;
	}
	*state = b;
	return 0;
fail:
	snprintf(why->text, sizeof(why->text), "%s", strerror(-r));
	close_bench(b);
	return r;
}

/* Clears the chunks of the first submessage that are to be made. */
static void forget(struct bench *b)
{
	uint8_t *chunk[SP_EC_CHUNKS];

	find(b, 0, chunk);
	if (b->shape.decode)
		memset(chunk[0], 0, lost(b) * (size_t)b->shape.bytes);
	else
		memset(chunk[b->shape.k], 0, parity_bytes(b));
}

static int check(const struct bench *b, struct bench_why *why)
{
	const unsigned chunks = b->shape.k + (b->shape.decode ? 0 : b->shape.m);
	uint8_t *chunk[SP_EC_CHUNKS];
	bool wrong = false;

	find(b, 0, chunk);
	for (unsigned i = 0; i < chunks; i++)
		for (uint32_t at = 0; at < b->shape.bytes; at += PAGE)
			wrong |= memcmp(chunk[i] + at, b->right + (size_t)i * PAGE, PAGE) != 0;
	if (!wrong)
		return 0;
	return bench_fail(why, -EPROTO, "the chunks are not what ISA-L makes of them");
}

static void next_from_memory(const struct bench *b, unsigned count)
{
	uint8_t *chunk[SP_EC_CHUNKS];

	for (unsigned i = 0; i < count; i++) {
		find(b, (b->next + i) % b->shape.submessages, chunk);
		bench_coder_flush(chunk[0], data_bytes(b));
		bench_coder_flush(chunk[b->shape.k], parity_bytes(b));
	}
}

/* Codes one submessage after the other: GB/s of data. */
static inline double measure(struct bench *b, void (*make)(struct bench *, uint8_t **), double seconds)
{
	const size_t data = data_bytes(b);
	const unsigned batch = LOOK / data < 1 ? 1 : LOOK / data > BATCH ? BATCH : (unsigned)(LOOK / data);
	uint8_t *chunk[SP_EC_CHUNKS];
	uint64_t done = 0;
	double began, took = 0;

	forget(b);
	find(b, 0, chunk);
	make(b, chunk);
	do {
		if (bench_coder_cold(&b->shape))
			next_from_memory(b, batch);
		began = now();
		for (unsigned i = 0; i < batch; i++) {
			find(b, b->next, chunk);
			make(b, chunk);
			b->next = b->next + 1 < b->shape.submessages ? b->next + 1 : 0;
		}
		done += batch;
		took += now() - began;
	} while (took < seconds && !bench_stopped());
	return (double)(done * data) / took / 1e9;
}

/* The better of ISA-L's two ways. */
static int run_isal(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	struct bench *b = state;
	double other = 0;

	round->value = measure(b, isal, seconds / 2);
	if (b->shape.kind == SP_EC_MDS)
		other = measure(b, isal_update, seconds / 2);
	round->value = other > round->value ? other : round->value;
	return check(b, why);
}

static int run_job(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	round->value = measure(state, job, seconds);
	return check(state, why);
}

static int by_cycles(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* The slices of a message, each the shortest of all messages so far. */
static void slices(struct bench *b, struct bench_round *round)
{
	const struct bench_work *w = bench_coder_work(b->coder);
	const double us = 1e6 / (double)rte_get_tsc_hz();
	uint32_t *sorted = w->parts ? malloc(w->parts * sizeof(*sorted)) : NULL;

	if (!sorted)
		return;
	memcpy(sorted, w->least, w->parts * sizeof(*sorted));
	qsort(sorted, w->parts, sizeof(*sorted), by_cycles);
	round->slice = us * sorted[w->parts / 2];
	round->slice_max = us * sorted[w->parts - 1];
	free(sorted);
}

/* GB/s of data while the handler works, without the NIC's time for packets and commands. */
static int run_handler(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	struct bench *b = state;
	struct bench_work *w = bench_coder_work(b->coder);
	const double began = now();
	uint64_t messages = 0;
	int r;

	forget(b);
	w->cycles = w->slices = w->disturbed = w->disturbed_cycles = 0;
	do {
		r = bench_coder_message(b->coder);
		messages++;
	} while (!r && now() - began < seconds);
	if (r)
		return bench_fail(why, r, "the NIC did not finish a message: %s", strerror(-r));
	round->value = (double)(messages * b->shape.submessages * data_bytes(b)) / 1e9 * (double)rte_get_tsc_hz();
	/* If all were interrupted, uses the interrupted ones. */
	if (w->slices > w->disturbed)
		round->value *= (double)(w->slices - w->disturbed) / (double)w->slices / (double)w->cycles;
	else
		round->value /= (double)w->disturbed_cycles;
	slices(b, round);
	return check(b, why);
}

/* The value is the longest slice. */
static int run_slices(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	const int r = run_handler(state, seconds, round, why);

	round->value = round->slice_max;
	return r;
}

static int run_allowed(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	(void)state;
	(void)seconds;
	(void)why;
	round->value = SLICE;
	return 0;
}

/* ---- the cases: code, k, m, KiB of a chunk ---- */
#define CODES(X)                                                                                                       \
	X(mds, , 4, 2, 4)                                                                                              \
	X(mds, , 4, 2, 64)                                                                                             \
	X(mds, , 8, 3, 4)                                                                                              \
	X(mds, , 8, 3, 64)                                                                                             \
	X(mds, , 16, 4, 4)                                                                                             \
	X(mds, , 16, 4, 64)                                                                                            \
	X(mds, , 32, 8, 4)                                                                                             \
	X(mds, , 32, 8, 64)                                                                                            \
	X(xor, "xor-", 4, 2, 4)                                                                                        \
	X(xor, "xor-", 4, 2, 64)                                                                                       \
	X(xor, "xor-", 8, 3, 4)                                                                                        \
	X(xor, "xor-", 8, 3, 64)                                                                                       \
	X(xor, "xor-", 16, 4, 4)                                                                                       \
	X(xor, "xor-", 16, 4, 64)                                                                                      \
	X(xor, "xor-", 32, 8, 4)                                                                                       \
	X(xor, "xor-", 32, 8, 64)

/* Cases with long chunks, where slices are longest. */
#define SLICES(X)                                                                                                      \
	X(mds, , 32, 8, 1024)                                                                                          \
	X(mds, , 127, 128, 64)                                                                                         \
	X(mds, , 223, 32, 64)                                                                                          \
	X(xor, "xor-", 223, 32, 64)

#define KIND_mds SP_EC_MDS
#define KIND_xor SP_EC_XOR

#define OPEN(name, code, k_, m_, kib, decode_, count)                                                                  \
	static int open_##name##_##code##_##k_##_##m_##_##kib(const struct bench_options *o, void **state,             \
							      struct bench_why *why)                                   \
	{                                                                                                              \
		const struct bench_coder_shape shape = {                                                               \
			.kind = KIND_##code,                                                                           \
			.k = k_,                                                                                       \
			.m = m_,                                                                                       \
			.bytes = kib << 10,                                                                            \
			.decode = decode_,                                                                             \
			.submessages = o->quick && count * k_ * (kib << 10) == DATA ? count / LESS : count,            \
		};                                                                                                     \
                                                                                                                       \
		return open_bench(&shape, state, why);                                                                 \
	}
#define WARM_OF(bytes) (WARM / (bytes) ? WARM / (bytes) : 1)
#define OPEN_ALL(code, prefix, k, m, kib)                                                                              \
	OPEN(encode, code, k, m, kib, false, DATA / (k * kib << 10))                                                   \
	OPEN(decode, code, k, m, kib, true, DATA / (k * kib << 10))                                                    \
	OPEN(encode_warm, code, k, m, kib, false, WARM_OF(k *kib << 10))                                               \
	OPEN(decode_warm, code, k, m, kib, true, WARM_OF(k *kib << 10))
#define OPEN_SLICES(code, prefix, k, m, kib)                                                                           \
	OPEN(encode_slices, code, k, m, kib, false, 1)                                                                 \
	OPEN(decode_slices, code, k, m, kib, true, 1)
CODES(OPEN_ALL)
SLICES(OPEN_SLICES)

#define REQUIRED 0.95

#define CASE(function, code, prefix, k, m, kib, label, suffix, about, least, wanted)                                   \
	{                                                                                                              \
		.name = "ec-" label "-" prefix #k "-" #m "-" #kib "K" suffix,                                          \
		.help = about,                                                                                         \
		.unit = "GB/s",                                                                                        \
		.threads = 1,                                                                                          \
		.baseline = "ISA-L, the better of its ways",                                                           \
		.required = least,                                                                                     \
		.goal = wanted,                                                                                        \
		.open = open_##function##_##code##_##k##_##m##_##kib,                                                  \
		.run = run_handler,                                                                                    \
		.run_baseline = run_isal,                                                                              \
		.other = {{"the job alone", run_job}},                                                                 \
		.close = close_bench,                                                                                  \
	},
#define ENCODE(k, m, kib, where) #m " parity chunks of " #k " of data, " #kib " KiB each, " where
#define DECODE(k, m, kib, where) #m " of " #k " data chunks out of the rest, " #kib " KiB each, " where
#define CASES(code, prefix, k, m, kib)                                                                                 \
	CASE(encode, code, prefix, k, m, kib, "encode", "", ENCODE(k, m, kib, "from memory"), REQUIRED, 1.2)           \
	CASE(encode_warm, code, prefix, k, m, kib, "encode", "-warm", ENCODE(k, m, kib, "that a cache holds"),         \
	     REQUIRED, 2.0)                                                                                            \
	CASE(decode, code, prefix, k, m, kib, "decode", "", DECODE(k, m, kib, "from memory"), REQUIRED, 1.2)           \
	CASE(decode_warm, code, prefix, k, m, kib, "decode", "-warm", DECODE(k, m, kib, "that a cache holds"),         \
	     REQUIRED, 2.0)

#define SLICE_CASE(function, code, prefix, k, m, kib, label)                                                           \
	{                                                                                                              \
		.name = "ec-slices-" label "-" prefix #k "-" #m "-" #kib "K",                                          \
		.help = "the longest slice of work on a submessage, each the shortest of its repetitions",             \
		.unit = "us",                                                                                          \
		.less = true,                                                                                          \
		.threads = 1,                                                                                          \
		.baseline = "what a slice may take",                                                                   \
		.required = 1,                                                                                         \
		.open = open_##function##_##code##_##k##_##m##_##kib,                                                  \
		.run = run_slices,                                                                                     \
		.run_baseline = run_allowed,                                                                           \
		.close = close_bench,                                                                                  \
	},
#define SLICE_CASES(code, prefix, k, m, kib)                                                                           \
	SLICE_CASE(encode_slices, code, prefix, k, m, kib, "encode")                                                   \
	SLICE_CASE(decode_slices, code, prefix, k, m, kib, "decode")

const struct bench_case bench_ec[] = {CODES(CASES) SLICES(SLICE_CASES){0}};
