/* SPDX-License-Identifier: BSD-3-Clause */
#include "plan.h"

#include <string.h>

static void set(uint64_t *bitmap, unsigned i)
{
	bitmap[i / 64] |= 1ull << (i % 64);
}

/* ---- what there is, and where ---- */
#define CHECK (1ull << 48) /* rows one at a time, so tables differ */

static uint64_t shape_of(const struct sp_ec_code *code, unsigned data)
{
	return (uint64_t)code->kind << 32 | code->k << 16 | code->m << 8 | data; /* 1 to 255 each */
}

/* Word by word: the words of an aim have just been written one by one. A wider load would wait until these stores, and
 * all before them, are in the cache. */
static bool is_for(const struct sp_ec_plan *plan, const struct sp_ec_aim *aim, unsigned chunks)
{
	if (plan->aim.shape != aim->shape || plan->aim.kernel != aim->kernel)
		return false;
	for (unsigned i = 0; i * 64 < chunks; i++)
		if (plan->aim.made[i] != aim->made[i] || plan->aim.used[i] != aim->used[i])
			return false;
	return true;
}

static struct sp_ec_plan *place_of(struct sp_ec_plans *plans, const struct sp_ec_aim *aim)
{
	uint64_t hash = aim->shape;

	for (unsigned i = 0; i < SP_EC_WORDS; i++)
		hash = (hash ^ aim->made[i]) * 0x9E3779B97F4A7C15 + (aim->used[i] ^ aim->used[i] >> 29);
	hash *= 0x9E3779B97F4A7C15;
	return &plans->plan[(hash >> 32) % SP_EC_PLANS];
}

/* ---- making one ---- */
static void source_add(struct sp_ec_plan *plan, unsigned chunk, unsigned data)
{
	if (chunk == data - 1)
		plan->last_source = plan->sources;
	plan->chunk[plan->sources++] = (uint8_t)chunk;
}

/* Adds all chunks of group `i` but one. */
static void group_add(struct sp_ec_plan *plan, unsigned data, unsigned parity, unsigned i, unsigned except)
{
	for (unsigned j = i; j < data; j += parity)
		if (j != except)
			source_add(plan, j, data);
	if (data + i != except) {
		source_add(plan, data + i, data);
		set(plan->needed, data + i);
	}
}

static void fill(struct sp_ec_plan *plan, const struct sp_ec_code *code, unsigned data, const struct sp_ec_aim *aim)
{
	const unsigned parity = sp_ec_parity(code, data);
	uint8_t row[SP_EC_CHUNKS];

	plan->aim = *aim;
	memset(plan->needed, 0, sizeof(plan->needed));
	plan->rows = plan->sources = 0;
	plan->last_source = plan->last_row = -1;
	plan->tabled = false;
	plan->first[0] = 0;
	for (unsigned j = 0; j < data + parity; j++) {
		if (!sp_ec_bit(aim->made, j)) {
			if (code->kind == SP_EC_MDS && (j < data || sp_ec_bit(aim->used, j)))
				source_add(plan, j, data);
			continue;
		}
		if (j == data - 1)
			plan->last_row = plan->rows;
		if (code->kind == SP_EC_XOR)
			group_add(plan, data, parity, j < data ? j % parity : j - data, j);
		row[plan->rows++] = (uint8_t)j;
		plan->first[plan->rows] = plan->sources;
	}
	memcpy(plan->chunk + plan->sources, row, plan->rows);
}

static struct sp_ec_plan *find(struct sp_ec_plans *plans, const struct sp_ec_code *code, unsigned data, unsigned parity,
			       const struct sp_ec_aim *aim)
{
	struct sp_ec_plan *plan = place_of(plans, aim);

	if (!is_for(plan, aim, data + parity))
		fill(plan, code, data, aim);
	plans->latest = (unsigned)(plan - plans->plan);
	return plan;
}

/* ---- asking for one ---- */
struct sp_ec_plan *sp_ec_plan_parity(struct sp_ec_plans *plans, const struct sp_ec_code *code, unsigned data,
				     const uint64_t *wanted)
{
	const unsigned parity = sp_ec_parity(code, data);
	struct sp_ec_aim aim = {.kernel = code->kernel, .shape = shape_of(code, data) | (wanted ? CHECK : 0)};

	for (unsigned i = data; i < data + parity; i++)
		if (!wanted || sp_ec_bit(wanted, i))
			set(aim.made, i);
	if (is_for(&plans->plan[plans->latest], &aim, data + parity))
		return &plans->plan[plans->latest];
	return find(plans, code, data, parity, &aim);
}

/* MDS: uses as many parity chunks as data chunks are lost. */
static bool use(struct sp_ec_aim *aim, unsigned data, unsigned parity, unsigned lost, const uint64_t *missing)
{
	for (unsigned i = data; lost; i++) {
		if (i == data + parity)
			return false;
		if (sp_ec_bit(missing, i))
			continue;
		set(aim->used, i);
		lost--;
	}
	return true;
}

struct sp_ec_plan *sp_ec_plan_data(struct sp_ec_plans *plans, const struct sp_ec_code *code, unsigned data,
				   const uint64_t missing[SP_EC_WORDS])
{
	const unsigned parity = sp_ec_parity(code, data);
	struct sp_ec_aim aim = {.kernel = code->kernel, .shape = shape_of(code, data)};
	struct sp_ec_plan *plan = &plans->plan[plans->latest];
	unsigned lost = 0;

	for (unsigned i = 0; i < data; i += 64) {
		aim.made[i / 64] = missing[i / 64] & (data - i < 64 ? (1ull << (data - i)) - 1 : ~0ull);
		lost += (unsigned)__builtin_popcountll(aim.made[i / 64]);
	}
	if (code->kind == SP_EC_MDS && !use(&aim, data, parity, lost, missing))
		return NULL;
	if (is_for(plan, &aim, data + parity)) {
		uint64_t lacking = 0;

		for (unsigned i = 0; i * 64 < data + parity; i++)
			lacking |= plan->needed[i] & missing[i];
		return lacking ? NULL : plan;
	}
	if (code->kind == SP_EC_XOR && !sp_ec_recoverable(code, data, missing))
		return NULL;
	return find(plans, code, data, parity, &aim);
}
