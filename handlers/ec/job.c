/* SPDX-License-Identifier: BSD-3-Clause */
#include "job.h"

#include <errno.h>
#include <string.h>

/* Costs, in units of a byte multiplied and added. */
#define READ	    2	/* a byte from memory, in no cache */
#define READ_NEAR   1	/* ... of a message that caches may hold */
#define COEFFICIENT 400 /* a coefficient and its tables */
#define FACTOR	    50	/* a factor of a weight */

#define FETCH 256 /* bytes of a source */

#define STREAMS 15   /* sources combined together; with more only long chunks gain */
#define SHORT	1024 /* ... at least so many bytes of each */

void sp_ec_job_init(struct sp_ec_job *job, void *memory)
{
	memset(job, 0, sizeof(*job));
	job->memory = memory;
}

/* ---- starting ---- */
static int begin(struct sp_ec_job *job, const struct sp_ec_code *code, const struct sp_ec_submessage *sub)
{
	if (!sub->data || sub->data > code->k || sub->bytes < SP_EC_KERNEL_BYTES || !sub->last ||
	    sub->last > sub->bytes)
		return -EINVAL;
	job->code = code;
	job->rows = job->sources = 0;
	job->bytes = sub->bytes;
	job->last = sub->last;
	job->check = job->wrong = job->dry = false;
	job->cold = sub->cold;
	job->past = sub->past || (uint64_t)sub->data * sub->bytes >= code->kernel->past;
	job->loose |= job->past;
	job->data_ahead = sub->data_ahead;
	job->parity_ahead = sub->parity_ahead;
	job->done = job->added = 0;
	job->at = job->block = 0;
	return 0;
}

/* With short chunks from memory, the beginning of each takes as long as the rest, because the processor prefetches
 * within a page only. So this prefetches where a chunk begins, or better where the chunk after it begins: there is time
 * for that. A prefetch never faults, whatever the address. */
static void fetch(const struct sp_ec_job *job)
{
	const uint8_t data = (uint8_t)job->plan->aim.shape;

	for (unsigned s = 0; s < job->sources; s++) {
		const uint64_t ahead = job->plan->chunk[s] < data ? job->data_ahead : job->parity_ahead;

		for (uintptr_t i = 0; i < FETCH; i += 64)
			__builtin_prefetch((const void *)((uintptr_t)job->source[s] + ahead + i));
	}
}

/* Sets the lines of the plan's matrix. For decoding their weights are not known yet: `weighted` is false. */
static void lines(struct sp_ec_job *job, bool weighted)
{
	const struct sp_ec_plan *plan = job->plan;
	struct sp_ec_matrix *matrix = &job->matrix;
	unsigned data = (uint8_t)plan->aim.shape;

	matrix->rows = plan->rows;
	matrix->sources = plan->sources;
	for (unsigned i = 0; i < plan->sources + (unsigned)plan->rows; i++) {
		const uint8_t chunk = plan->chunk[i];
		const struct sp_ec_line line = {chunk < data ? chunk : sp_ec_parity_point(chunk - data), 0};

		*(i < plan->sources ? &matrix->source[i] : &matrix->row[i - plan->sources]) = line;
	}
	job->tabled = 0;
	job->weights = weighted ? 0 : plan->rows + plan->sources;
}

static void tables_choose(struct sp_ec_job *job, bool decode, bool all)
{
	struct sp_ec_plan *plan = job->plan;

	job->weights = plan->rows + plan->sources;
	job->tabled = plan->rows;
	if (!decode && all) {
		job->tables = job->code->tables;
		return;
	}
	if (!job->check && sp_ec_plan_keeps(plan, job->code)) {
		job->tables = (uint8_t *)plan->tables;
	} else {
		job->tables = job->memory;
		plan->tabled &= job->memory_of == plan;
		job->memory_of = plan;
	}
	if (!plan->tabled)
		lines(job, decode);
}

/* Starts the job with this plan. all: the submessage is complete and made in one piece. */
static void start(struct sp_ec_job *job, const struct sp_ec_submessage *sub, struct sp_ec_plan *plan, bool decode,
		  bool all)
{
	const bool is_short = sub->last < sub->bytes;
	const struct sp_ec_kernel *kernel = job->code->kind == SP_EC_MDS ? job->code->kernel : NULL;

	job->plan = plan;
	job->rows = plan->rows;
	job->sources = plan->sources;
	job->short_source = is_short ? plan->last_source : -1;
	job->short_row = is_short ? plan->last_row : -1;
	for (unsigned s = 0; s < job->sources; s++)
		job->source[s] = sub->chunk[plan->chunk[s]];
	for (unsigned r = 0; r < job->rows; r++)
		job->row[r] = sub->chunk[plan->chunk[job->sources + r]];
	if (job->cold)
		fetch(job);
	if (!kernel) {
		job->group = 1;
		job->together = false;
		job->least = SP_EC_SOURCES;
		job->strip = SP_EC_STRIP;
		job->weights = job->rows + job->sources;
		job->tabled = job->rows;
		return;
	}
	job->group = job->check ? 1 : sp_ec_group(sub->data);
	job->together =
		job->cold && job->sources <= kernel->together && (job->sources <= STREAMS || job->bytes >= SP_EC_BLOCK);
	job->least = kernel->sources;
	job->strip = kernel->strip;
	tables_choose(job, decode, all);
}

int sp_ec_encode_start(struct sp_ec_job *job, const struct sp_ec_code *code, const struct sp_ec_submessage *sub)
{
	const int err = begin(job, code, sub);

	if (!err)
		start(job, sub, sp_ec_plan_parity(&job->plans, code, sub->data, NULL), false, sub->data == code->k);
	return err;
}

int sp_ec_verify_start(struct sp_ec_job *job, const struct sp_ec_code *code, const struct sp_ec_submessage *sub,
		       const uint64_t check[SP_EC_WORDS])
{
	const int err = begin(job, code, sub);

	if (err)
		return err;
	job->check = true; /* one row at a time: `aside` has room for one */
	start(job, sub, sp_ec_plan_parity(&job->plans, code, sub->data, check), false, false);
	return 0;
}

int sp_ec_decode_start(struct sp_ec_job *job, const struct sp_ec_code *code, const struct sp_ec_submessage *sub,
		       const uint64_t missing[SP_EC_WORDS])
{
	const int err = begin(job, code, sub);
	struct sp_ec_plan *plan;

	if (err)
		return err;
	plan = sp_ec_plan_data(&job->plans, code, sub->data, missing);
	if (!plan)
		return -ENODATA;
	start(job, sub, plan, true, false);
	return 0;
}

static void move_on(struct sp_ec_job *job, uint64_t data, uint64_t parity)
{
	const uint8_t *chunk = job->plan->chunk;
	const uint8_t chunks = (uint8_t)job->plan->aim.shape; /* of data */

	for (unsigned s = 0; s < job->sources; s++)
		job->source[s] += chunk[s] < chunks ? data : parity;
	for (unsigned r = 0; r < job->rows; r++)
		job->row[r] += chunk[job->sources + r] < chunks ? data : parity;
	if (job->cold)
		fetch(job);
}

void sp_ec_job_again(struct sp_ec_job *job, uint64_t data, uint64_t parity)
{
	job->short_source = job->short_row = -1;
	job->wrong = false;
	job->loose |= job->past;
	job->done = job->added = 0;
	job->at = job->block = 0;
	move_on(job, data, parity);
}

/* ---- working ---- */
/* Decoding: computes the weight of the next line of the matrix. The parity chunks used are its last sources. */
static void weigh(struct sp_ec_job *job)
{
	struct sp_ec_matrix *matrix = &job->matrix;
	const struct sp_ec_line *lost = matrix->row, *used = matrix->source + job->sources - job->rows;
	const unsigned i = job->weights++;

	if (i < job->sources)
		matrix->source[i].weight =
			sp_ec_weight(&job->code->field, matrix->source[i].point, lost, used, job->rows);
	else
		matrix->row[i - job->sources].weight =
			sp_ec_weight(&job->code->field, matrix->row[i - job->sources].point, used, lost, job->rows);
}

static unsigned group_sources(const struct sp_ec_job *job, unsigned row)
{
	const uint8_t *first = job->plan->first;

	return job->code->kind == SP_EC_XOR ? (unsigned)(first[row + 1] - first[row]) : job->sources;
}

static unsigned group_rows(const struct sp_ec_job *job, unsigned row)
{
	return job->rows - row < job->group ? job->rows - row : job->group;
}

/* Cost of one byte of one source for a group of rows. The first group pays for reading. XOR overlaps with reading. */
static uint64_t byte_cost(const struct sp_ec_job *job, unsigned row)
{
	if (job->code->kind == SP_EC_XOR)
		return job->cold ? READ + 1 : READ_NEAR;
	return group_rows(job, row) + (row ? 0 : job->cold ? READ : READ_NEAR);
}

/* Bytes of the short source in the current block. */
static uint32_t own(const struct sp_ec_job *job)
{
	if (job->at >= job->last)
		return 0;
	return job->last - job->at < job->block ? job->last - job->at : job->block;
}

/* Where the current block begins in source s. */
static uint8_t *source_at(struct sp_ec_job *job, unsigned s)
{
	const uint32_t n = job->block, part = own(job);
	uint8_t *at = job->source[s] + job->at;

	if ((int)s != job->short_source || part == n)
		return at;
	if (part)
		memcpy(job->padded, at, part);
	memset(job->padded + part, 0, n - part);
	return job->padded;
}

/* Makes `count` rows of the current block from `take` more sources. */
static void compute(struct sp_ec_job *job, unsigned row, unsigned count, unsigned take)
{
	const struct sp_ec_kernel *kernel = job->code->kernel;
	const bool exclusive = job->code->kind == SP_EC_XOR;
	const unsigned first = (exclusive ? job->plan->first[row] : 0) + job->added, sources = group_sources(job, row);
	const bool past = job->past && take == sources && !job->check;
	const uint32_t n = job->block, part = own(job);
	uint8_t *from[SP_EC_CHUNKS + 1], *to[SP_EC_GROUP];
	unsigned had = 0;

	for (unsigned r = 0; r < count; r++) {
		const bool aside = job->check || ((int)(row + r) == job->short_row && part < n);

		to[r] = aside ? job->aside : job->row[row + r] + job->at;
	}
	if (exclusive && job->added)
		from[had++] = to[0];
	for (unsigned s = 0; s < take; s++)
		from[had + s] = source_at(job, first + s);
	if (exclusive)
		kernel->exclusive(n, had + take, from, to[0], past);
	else
		kernel->combine(n, sources, count, job->tables + sp_ec_tables_at(sources, row), first, take, from, to,
				past, job->together);
	if (job->added + take < sources)
		return;
	if (job->check)
		job->wrong |= memcmp(job->aside, job->row[row] + job->at, n) != 0;
	else if (job->short_row >= (int)row && job->short_row < (int)(row + count) && part && part < n)
		memcpy(job->row[job->short_row] + job->at, job->aside, part);
}

/* The same, and moves on. XOR goes on to the row's next block, as no other row reads its sources. */
static void make(struct sp_ec_job *job, unsigned row, unsigned count, unsigned take)
{
	if (!job->dry)
		compute(job, row, count, take);
	job->added += take;
	if (job->added < group_sources(job, row))
		return;
	job->added = 0;
	if (job->code->kind == SP_EC_XOR && job->at + job->block < job->bytes) {
		job->at += job->block;
		return;
	}
	job->done += count;
	if (job->done == job->rows) {
		job->done = 0;
		job->at += job->block;
	} else if (job->code->kind == SP_EC_XOR) {
		job->at = 0;
	}
}

/* With few sources: as many bytes as `budget` allows a group of rows at once. */
static uint32_t block_choose(const struct sp_ec_job *job, uint64_t budget)
{
	const uint32_t left = job->bytes - job->at;
	const unsigned sources = group_sources(job, job->done);
	const uint32_t least = job->together ? SHORT : job->strip;
	uint64_t n = least;

	if (left < least + SP_EC_REST) /* divisions take longer than most of this function */
		return left;
	if (job->together || sources <= job->least + job->least / 2) {
		n = budget / (byte_cost(job, job->done) * sources) / 64 * 64;
		n = n < least ? least : n > SP_EC_BLOCK ? SP_EC_BLOCK : n;
	}
	return left < n + SP_EC_REST ? left : (uint32_t)n;
}

/* Does the next piece of work if `budget` allows it, or if it must be done. Returns its cost; 0: it would exceed the
 * budget. */
static uint64_t advance(struct sp_ec_job *job, uint64_t budget, bool must)
{
	unsigned count, left, take;
	uint64_t cost;

	if (job->weights < job->rows + job->sources) {
		cost = 0;
		do {
			cost += (uint64_t)FACTOR * job->rows;
			if (cost > budget && !must)
				return cost - (uint64_t)FACTOR * job->rows;
			weigh(job);
			must = false;
		} while (job->weights < job->rows + job->sources);
		return cost;
	}
	if (job->tabled < job->rows) {
		count = group_rows(job, job->tabled);
		cost = (uint64_t)COEFFICIENT * count * job->sources;
		if (cost > budget && !must)
			return 0;
		sp_ec_tables(job->code, &job->matrix, job->tabled, count, job->tables);
		job->tabled += count;
		job->plan->tabled = job->tabled == job->rows;
		return cost;
	}
	if ((!job->done || job->code->kind == SP_EC_XOR) && !job->added)
		job->block = block_choose(job, budget);
	left = group_sources(job, job->done) - job->added;
	take = job->together || left <= job->least + job->least / 2 ? left : job->least;
	cost = byte_cost(job, job->done) * job->block;
	if (cost * take > budget && !must)
		return 0;
	if (take < left && budget / cost > take)
		take = budget / cost < left ? (unsigned)(budget / cost) : left;
	cost *= take;
	make(job, job->done, group_rows(job, job->done), take);
	return cost;
}

/* Cost of a submessage that is made in one piece. */
static uint64_t whole_cost(const struct sp_ec_job *job)
{
	return (uint64_t)job->sources * job->bytes * byte_cost(job, 0);
}

/* XOR: one row after the other. MDS: all rows. */
static void whole(const struct sp_ec_job *job)
{
	const uint8_t *first = job->plan->first;

	if (job->code->kind == SP_EC_MDS && !job->dry)
		job->code->kernel->combine(job->bytes, job->sources, job->rows, job->tables, 0, job->sources,
					   job->source, job->row, job->past, job->together);
	for (unsigned r = 0; job->code->kind == SP_EC_XOR && r < job->rows && !job->dry; r++)
		job->code->kernel->exclusive(job->bytes, (unsigned)(first[r + 1] - first[r]), job->source + first[r],
					     job->row[r], job->past);
}

/* XOR in one piece if that fits the budget. Returns its cost; 0: it does not fit. */
static uint64_t exclusive_whole(struct sp_ec_job *job, uint64_t budget)
{
	const uint64_t cost = whole_cost(job);

	if (cost > budget || job->at || job->done || job->added || job->check || job->short_source >= 0 ||
	    job->short_row >= 0)
		return 0;
	whole(job);
	job->at = job->bytes;
	return cost;
}

void sp_ec_job_settle(struct sp_ec_job *job)
{
	if (!job->loose)
		return;
	job->loose = false;
#if defined(__x86_64__)
	__builtin_ia32_sfence(); /* the fence of a locked operation waits for loads, too */
#else
	__sync_synchronize();
#endif
}

bool sp_ec_job_step(struct sp_ec_job *job, uint64_t budget)
{
	bool must = true;

	job->spent = job->rows && job->code->kind == SP_EC_XOR ? exclusive_whole(job, budget) : 0;
	budget -= job->spent;
	while (job->rows && job->at < job->bytes) {
		const uint64_t cost = advance(job, budget, must);

		if (!cost)
			return true;
		job->spent += cost;
		budget = cost < budget ? budget - cost : 0;
		must = false;
	}
	return false;
}

/* True: more submessages like this one can each be made in one piece. */
static bool repeatable(const struct sp_ec_job *job)
{
	if (job->check || !job->rows || job->short_source >= 0 || job->short_row >= 0)
		return false;
	return job->code->kind == SP_EC_XOR ||
	       (job->rows <= job->group && job->bytes <= SP_EC_BLOCK &&
		(job->together || (job->sources <= job->least + job->least / 2 && job->bytes <= job->strip)));
}

unsigned sp_ec_job_repeat(struct sp_ec_job *job, uint64_t data, uint64_t parity, unsigned count, uint64_t budget)
{
	const uint64_t cost = SP_EC_MORE + whole_cost(job);
	unsigned done = 0;

	job->spent = 0;
	if (!repeatable(job))
		return 0;
	for (; done < count && cost <= budget; done++, budget -= cost) {
		move_on(job, data, parity);
		whole(job);
		job->spent += cost;
	}
	job->loose |= done && job->past;
	return done;
}
