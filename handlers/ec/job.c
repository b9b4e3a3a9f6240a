/* SPDX-License-Identifier: BSD-3-Clause */
#include "job.h"

#include <errno.h>
#include <string.h>

/* What things take, in units of a byte multiplied and added. */
#define READ	    2	/* a byte from memory that no cache has; */
#define READ_NEAR   1	/* ... of a message that caches may hold */
#define COEFFICIENT 400 /* one, and its tables */
#define FACTOR	    50	/* of a weight */

#define FETCH 256 /* bytes of a source */

#define STREAMS 15   /* sources together; more are worth it only where chunks are long */
#define SHORT	1024 /* of each, at least */

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
	job->tables = job->memory;
	job->rows = job->sources = 0;
	job->group = code->kind == SP_EC_MDS ? sp_ec_group(sub->data) : 1;
	job->bytes = sub->bytes;
	job->last = sub->last;
	job->short_source = job->short_row = -1;
	job->check = job->wrong = job->dry = false;
	job->cold = sub->cold;
	job->past = sub->past || (uint64_t)sub->data * sub->bytes >= SP_EC_PAST;
	job->loose |= job->past;
	job->weights = job->tabled = job->done = job->added = 0;
	job->at = job->block = 0;
	job->first[0] = 0;
	return 0;
}

static bool is_short(const struct sp_ec_submessage *sub, unsigned chunk)
{
	return chunk == sub->data - 1 && sub->last < sub->bytes;
}

/* From memory, short chunks take as long to begin with as for the rest, since the processor looks ahead within a page
 * only: fetches where one begins, or better the one after it, for which there is all the time. Anything but addresses
 * of chunks is harmless: fetching never faults. */
static void fetch(uintptr_t chunk, uint64_t ahead)
{
	for (uintptr_t i = 0; i < FETCH; i += 64)
		__builtin_prefetch((const void *)(chunk + ahead + i));
}

static void source_add(struct sp_ec_job *job, const struct sp_ec_submessage *sub, unsigned chunk)
{
	if (job->cold)
		fetch((uintptr_t)sub->chunk[chunk], chunk < sub->data ? sub->data_ahead : sub->parity_ahead);
	if (is_short(sub, chunk))
		job->short_source = (int)job->sources;
	job->matrix.source[job->sources].point =
		chunk < sub->data ? (uint8_t)chunk : sp_ec_parity_point(chunk - sub->data);
	job->matrix.source[job->sources].weight = 0;
	job->source[job->sources++] = sub->chunk[chunk];
}

/* XOR: its sources have been added. */
static void row_add(struct sp_ec_job *job, const struct sp_ec_submessage *sub, unsigned chunk)
{
	if (is_short(sub, chunk))
		job->short_row = (int)job->rows;
	if (job->code->kind == SP_EC_MDS)
		job->matrix.row[job->rows] =
			(struct sp_ec_line){chunk < sub->data ? (uint8_t)chunk : sp_ec_parity_point(chunk - sub->data)};
	job->row[job->rows++] = sub->chunk[chunk];
	job->first[job->rows] = (uint16_t)job->sources;
}

static unsigned group_sources(const struct sp_ec_job *job, unsigned row)
{
	return job->code->kind == SP_EC_XOR ? (unsigned)(job->first[row + 1] - job->first[row]) : job->sources;
}

static void started(struct sp_ec_job *job, bool weighted)
{
	const struct sp_ec_kernel *kernel = job->code->kind == SP_EC_MDS ? job->code->kernel : NULL;

	job->matrix.rows = job->rows;
	job->matrix.sources = job->sources;
	job->together = kernel && job->cold && job->sources <= kernel->together &&
			(job->sources <= STREAMS || job->bytes >= SP_EC_BLOCK);
	job->least = kernel ? kernel->sources : SP_EC_SOURCES;
	job->strip = kernel ? kernel->strip : SP_EC_STRIP;
	if (job->code->kind == SP_EC_XOR || !weighted)
		job->weights = job->rows + job->sources;
	if (job->code->kind == SP_EC_XOR || job->tables != job->memory)
		job->tabled = job->rows;
}

/* The chunks of XOR group i but for one. Of small ones this is much of all the work: no source_add() for each. */
static void group_add(struct sp_ec_job *job, const struct sp_ec_submessage *sub, unsigned parity, unsigned i,
		      unsigned except)
{
	uint8_t **source = job->source + job->sources;
	unsigned j = i;

	for (; j < sub->data; j += parity)
		if (j != except)
			*source++ = sub->chunk[j];
	if (sub->last < sub->bytes && j - parity == sub->data - 1 && sub->data - 1 != except)
		job->short_source = (int)(source - 1 - job->source);
	if (sub->data + i != except)
		*source++ = sub->chunk[sub->data + i];
	if (job->cold)
		for (uint8_t **s = job->source + job->sources; s < source; s++)
			fetch((uintptr_t)*s, *s == sub->chunk[sub->data + i] ? sub->parity_ahead : sub->data_ahead);
	job->sources = (unsigned)(source - job->source);
}

/* Rows are the parity chunks wanted, made of all data. */
static void parity_start(struct sp_ec_job *job, const struct sp_ec_submessage *sub, const uint64_t *wanted)
{
	const unsigned parity = sp_ec_parity(job->code, sub->data);

	if (job->code->kind == SP_EC_MDS)
		for (unsigned j = 0; j < sub->data; j++)
			source_add(job, sub, j);
	for (unsigned i = 0; i < parity; i++) {
		if (wanted && !sp_ec_bit(wanted, sub->data + i))
			continue;
		if (job->code->kind == SP_EC_XOR)
			group_add(job, sub, parity, i, sub->data + i);
		row_add(job, sub, sub->data + i);
	}
	started(job, false);
}

int sp_ec_encode_start(struct sp_ec_job *job, const struct sp_ec_code *code, const struct sp_ec_submessage *sub)
{
	const int err = begin(job, code, sub);

	if (err)
		return err;
	if (sub->data == code->k)
		job->tables = code->tables;
	parity_start(job, sub, NULL);
	return 0;
}

int sp_ec_verify_start(struct sp_ec_job *job, const struct sp_ec_code *code, const struct sp_ec_submessage *sub,
		       const uint64_t check[SP_EC_WORDS])
{
	const int err = begin(job, code, sub);

	if (err)
		return err;
	job->check = true;
	job->group = 1; /* there is room for one aside */
	parity_start(job, sub, check);
	return 0;
}

/* A row for each data chunk that is missing, of what else its group has. */
static void exclusive_decode(struct sp_ec_job *job, const struct sp_ec_submessage *sub, const uint64_t *missing)
{
	const unsigned parity = sp_ec_parity(job->code, sub->data);

	for (unsigned word = 0; word * 64 < sub->data; word++)
		for (uint64_t bits = missing[word]; bits; bits &= bits - 1) {
			const unsigned j = word * 64 + (unsigned)__builtin_ctzll(bits);

			if (j >= sub->data)
				break;
			group_add(job, sub, parity, j % parity, j);
			row_add(job, sub, j);
		}
	started(job, false);
}

int sp_ec_decode_start(struct sp_ec_job *job, const struct sp_ec_code *code, const struct sp_ec_submessage *sub,
		       const uint64_t missing[SP_EC_WORDS])
{
	const int err = begin(job, code, sub);
	unsigned used = 0;

	if (err)
		return err;
	if (!sp_ec_recoverable(code, sub->data, missing))
		return -ENODATA;
	if (code->kind == SP_EC_XOR) {
		exclusive_decode(job, sub, missing);
		return 0;
	}
	for (unsigned j = 0; j < sub->data; j++)
		if (sp_ec_bit(missing, j))
			row_add(job, sub, j);
		else
			source_add(job, sub, j);
	for (unsigned i = 0; used < job->rows; i++)
		if (!sp_ec_bit(missing, sub->data + i)) {
			source_add(job, sub, sub->data + i);
			used++;
		}
	started(job, true);
	return 0;
}

/* ---- working ---- */
/* Decoding: the weight of the next line of the matrix. The parity chunks used are its last sources. */
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

static unsigned group_rows(const struct sp_ec_job *job, unsigned row)
{
	return job->rows - row < job->group ? job->rows - row : job->group;
}

/* Of a byte of one source for a group; reading is done by the first group, and by each group of XOR. */
static uint64_t byte_cost(const struct sp_ec_job *job, unsigned row)
{
	return group_rows(job, row) + (!row || job->code->kind == SP_EC_XOR ? (job->cold ? READ : READ_NEAR) : 0);
}

/* What the short one has of the block at hand. */
static uint32_t own(const struct sp_ec_job *job)
{
	if (job->at >= job->last)
		return 0;
	return job->last - job->at < job->block ? job->last - job->at : job->block;
}

/* Source s of all, where the block at hand begins. */
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

/* `count` rows of the block at hand, of `take` more sources. */
static void compute(struct sp_ec_job *job, unsigned row, unsigned count, unsigned take)
{
	const struct sp_ec_kernel *kernel = job->code->kernel;
	const bool exclusive = job->code->kind == SP_EC_XOR;
	const unsigned first = (exclusive ? job->first[row] : 0) + job->added, sources = group_sources(job, row);
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

/* The same, and on to the next: of XOR, the row's next block, for its sources are read by it alone. */
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

/* Of few sources, as many bytes as `budget` lets a group of rows take at once. */
static uint32_t block_choose(const struct sp_ec_job *job, uint64_t budget)
{
	const uint32_t left = job->bytes - job->at;
	const unsigned sources = group_sources(job, job->done);
	const uint32_t least = job->together ? SHORT : job->strip;
	uint64_t n = least;

	if (left < least + SP_EC_REST) /* to divide takes longer than much else here */
		return left;
	if (job->together || sources <= job->least + job->least / 2) {
		n = budget / (byte_cost(job, job->done) * sources) / 64 * 64;
		n = n < least ? least : n > SP_EC_BLOCK ? SP_EC_BLOCK : n;
	}
	return left < n + SP_EC_REST ? left : (uint32_t)n;
}

/* Does the next bit of work if `budget` allows, or must be. Returns what it took; 0: it would take more. */
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
		sp_ec_tables(job->code, &job->matrix, job->tabled, count, job->memory);
		job->tabled += count;
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

/* XOR that fits the budget need not be cut up: each row at once. Returns what it took; 0: it must be. */
static uint64_t exclusive_whole(struct sp_ec_job *job, uint64_t budget)
{
	const uint64_t cost = (uint64_t)job->sources * job->bytes * byte_cost(job, 0);

	if (cost > budget || job->at || job->done || job->added || job->check || job->short_source >= 0 ||
	    job->short_row >= 0)
		return 0;
	for (unsigned r = 0; r < job->rows && !job->dry; r++)
		job->code->kernel->exclusive(job->bytes, (unsigned)(job->first[r + 1] - job->first[r]),
					     job->source + job->first[r], job->row[r], job->past);
	job->at = job->bytes;
	return cost;
}

void sp_ec_job_settle(struct sp_ec_job *job)
{
	if (!job->loose)
		return;
	job->loose = false;
#if defined(__x86_64__)
	__builtin_ia32_sfence(); /* a locked operation's fence waits for what was read, too */
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
