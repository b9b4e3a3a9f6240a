/* SPDX-License-Identifier: BSD-3-Clause */
/* Patterns, rank by rank. The order of a rank's operations is schedgen's: it decides who goes first of equals. */
#include "pattern.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../random.h"

#define NOTHING	   UINT32_MAX /* no operation */
#define OP_BYTES   60u /* about: an operation with its dependencies, and what arrays that grow hold beyond them */
#define RANK_BYTES 64u

struct maker {
	const struct goal_pattern *p;
	struct goal *g;
	uint32_t rank, n; /* n: ranks */
	uint32_t *pairs;  /* of random_bisect: 2n numbers */
	uint64_t ops, most;
	int err;
};

static uint32_t add(struct maker *m, enum goal_type type, uint64_t size, uint64_t peer, uint32_t tag)
{
	const struct goal_op op = {.size = size, .peer = (uint32_t)peer, .tag = tag, .type = (uint8_t)type};
	uint32_t i = 0;

	if (m->err)
		return 0;
	if (m->ops++ >= m->most)
		m->err = -E2BIG;
	else
		m->err = goal_add(m->g, m->rank, &op, &i);
	return i;
}

static uint32_t send(struct maker *m, uint64_t size, uint64_t peer)
{
	return add(m, GOAL_SEND, size, peer, 0);
}

static uint32_t recv(struct maker *m, uint64_t size, uint64_t peer)
{
	return add(m, GOAL_RECV, size, peer, 0);
}

static uint32_t calc(struct maker *m, uint64_t ns)
{
	return add(m, GOAL_CALC, m->p->no_calc ? 0 : ns, 0, 0);
}

/* Nothing, if one of them is none. */
static void require(struct maker *m, uint32_t op, uint32_t before)
{
	if (!m->err && op != NOTHING && before != NOTHING)
		m->err = goal_requires(m->g, m->rank, op, before);
}

/* The root and rank 0 change places; it is its own inverse. */
static uint32_t swapped(const struct maker *m, uint64_t rank)
{
	return rank == 0 ? m->p->root : rank == m->p->root ? 0 : (uint32_t)rank;
}

/* ---- trees ---- */
/* In round r, rank v < 2^r of a broadcast sends to v + 2^r; a reduction receives from it instead. */
static void binomial(struct maker *m, enum goal_type down, enum goal_type up)
{
	const uint64_t v = swapped(m, m->rank), size = m->p->size;
	uint32_t to = NOTHING, from = NOTHING;

	for (uint64_t d = 1; d < m->n; d *= 2) {
		if (v < d && v + d < m->n)
			to = add(m, down, size, swapped(m, v + d), 0);
		if (down == GOAL_SEND)
			require(m, to, from);
		else
			require(m, from, to);
		if (v >= d && v < 2 * d)
			from = add(m, up, size, swapped(m, v - d), 0);
	}
}

static void binomialtreebcast(struct maker *m)
{
	binomial(m, GOAL_SEND, GOAL_RECV);
}

static void binomialtreereduce(struct maker *m)
{
	binomial(m, GOAL_RECV, GOAL_SEND);
}

static void binarytreebcast(struct maker *m)
{
	const uint64_t v = swapped(m, m->rank);
	uint32_t from = NOTHING;

	if (v)
		from = recv(m, m->p->size, swapped(m, (v - 1) / 2));
	for (uint64_t child = 2 * v + 1; child <= 2 * v + 2 && child < m->n; child++)
		require(m, send(m, m->p->size, swapped(m, child)), from);
}

static void star(struct maker *m, enum goal_type root, enum goal_type others)
{
	if (m->rank != m->p->root) {
		add(m, others, m->p->size, m->p->root, 0);
		return;
	}
	for (uint32_t i = 1; i < m->n; i++)
		add(m, root, m->p->size, swapped(m, i), 0);
}

static void gather(struct maker *m)
{
	star(m, GOAL_RECV, GOAL_SEND);
}

static void scatter(struct maker *m)
{
	star(m, GOAL_SEND, GOAL_RECV);
}

static void linbarrier(struct maker *m)
{
	if (m->rank) {
		send(m, 1, 0);
		recv(m, 1, 0);
		return;
	}
	const uint32_t all = calc(m, 0);

	for (uint32_t i = 1; i < m->n; i++) {
		const uint32_t from = recv(m, 1, i), to = send(m, 1, i);

		require(m, all, from);
		require(m, to, all);
	}
}

/* ---- dissemination ---- */
static void dissemination(struct maker *m)
{
	uint32_t from = NOTHING;

	for (uint64_t d = 1; d < m->n; d *= 2) {
		require(m, send(m, m->p->size, (m->rank + d) % m->n), from);
		from = recv(m, m->p->size, (m->rank + m->n - d) % m->n);
	}
}

/* What came in the round before is added up first: each reduction requires the one before, and all sends the last. */
static void nwaydissemination(struct maker *m)
{
	const uint32_t ways = m->p->ways ? m->p->ways : 1;
	uint32_t *to = calloc(2ull * ways, sizeof(*to)), *from = to + ways;

	if (!to)
		m->err = -ENOMEM;
	for (uint64_t d = 1; d < m->n && !m->err; d *= ways + 1ull) {
		for (uint64_t w = 0; w < ways; w++)
			to[w] = send(m, m->p->size, (m->rank + (w + 1) * d) % m->n);
		if (d > 1) {
			uint32_t before = from[0], sum;

			for (uint32_t w = 1; w < ways; w++) {
				sum = calc(m, m->p->size);
				require(m, sum, from[w]);
				require(m, sum, before);
				before = sum;
			}
			sum = calc(m, m->p->size);
			require(m, sum, from[0]);
			require(m, to[ways - 1], before);
			for (uint32_t w = 0; w < ways; w++)
				require(m, to[w], sum);
		}
		for (uint64_t w = 0; w < ways; w++)
			from[w] = recv(m, m->p->size, (m->rank + m->n - (w + 1) * d % m->n) % m->n);
	}
	free(to);
}

/* ---- rings ---- */
static uint64_t segment(const struct maker *m)
{
	const uint64_t each = m->p->segment ? m->p->segment : m->p->size / m->n;

	return each ? each : 1;
}

/* The bytes of a round, and 0 behind the last one. */
static uint64_t round_bytes(const struct maker *m, uint64_t round)
{
	const uint64_t each = segment(m), before = round * each;

	if (before >= m->p->size)
		return 0;
	return m->p->size - before < each ? m->p->size - before : each;
}

static void pipelinedring(struct maker *m)
{
	const uint64_t v = swapped(m, m->rank);
	uint32_t from = NOTHING;
	uint64_t bytes;

	for (uint32_t r = 0; (bytes = round_bytes(m, r)) && !m->err; r++) {
		const uint32_t next = add(m, GOAL_RECV, bytes, swapped(m, (v + m->n - 1) % m->n), r);

		require(m, add(m, GOAL_SEND, bytes, swapped(m, (v + 1) % m->n), r), from);
		from = next;
	}
}

static void chain(struct maker *m, bool one)
{
	const uint64_t v = swapped(m, m->rank);
	uint32_t to = NOTHING;
	uint64_t bytes;

	for (uint32_t r = 0; (bytes = round_bytes(m, r)) && !m->err; r++) {
		const uint32_t from = v ? recv(m, bytes, swapped(m, v - 1)) : NOTHING;

		if (one)
			require(m, from, to);
		to = v + 1 < m->n ? send(m, bytes, swapped(m, v + 1)) : NOTHING;
		require(m, to, from);
	}
}

static void pipelinedchain(struct maker *m)
{
	chain(m, false);
}

static void pipelinedringdep(struct maker *m)
{
	chain(m, true);
}

static void doublering(struct maker *m)
{
	const uint64_t next = (m->rank + 1ull) % m->n, last = (m->rank + m->n - 1ull) % m->n;

	for (unsigned way = 0; way < 2; way++) {
		const uint32_t to = send(m, m->p->size, way ? last : next);
		const uint32_t from = recv(m, m->p->size, way ? next : last);

		if (m->rank)
			require(m, to, from);
	}
}

static void allreduce_ring(struct maker *m)
{
	uint32_t from = NOTHING;

	for (uint64_t step = 0; step < 2 * (m->n - 1ull) && !m->err; step++) {
		require(m, send(m, m->p->size / m->n, (m->rank + 1ull) % m->n), from);
		from = recv(m, m->p->size / m->n, (m->rank + m->n - 1ull) % m->n);
	}
}

/* ---- all with all ---- */
static void allreduce_recdoub(struct maker *m)
{
	uint64_t size = m->p->size, mask = 1;
	uint32_t from = NOTHING;

	for (; mask < m->n; mask *= 2) { /* reduce and scatter: halves */
		size /= 2;
		require(m, send(m, size, m->rank ^ mask), from);
		from = recv(m, size, m->rank ^ mask);
	}
	while (mask > 1) { /* gather: doubles */
		mask /= 2;
		require(m, send(m, size, m->rank ^ mask), from);
		from = recv(m, size, m->rank ^ mask);
		size *= 2;
	}
}

static void linear_alltoall(struct maker *m)
{
	for (uint64_t step = 1; step < m->n && !m->err; step++) {
		send(m, m->p->size, (m->rank + step) % m->n);
		recv(m, m->p->size, (m->rank + m->n - step) % m->n);
	}
}

/* A random half sends to the other half, pair by pair. Of an odd number, the last rank does nothing. */
static void random_bisect(struct maker *m)
{
	const uint32_t even = m->n - m->n % 2;
	uint32_t *order = m->pairs, *place = m->pairs + m->n;

	if (m->rank >= even)
		return;
	if (!m->rank) {
		struct sp_random random;

		sp_random_seed(&random, m->p->seed, 0);
		for (uint32_t i = 0; i < even; i++) {
			const uint32_t j = (uint32_t)(sp_random_next(&random) % (i + 1ull));

			order[i] = order[j];
			order[j] = i;
		}
		for (uint32_t i = 0; i < even; i++)
			place[order[i]] = i;
	}
	if (place[m->rank] < even / 2)
		send(m, m->p->size, order[place[m->rank] + even / 2]);
	else
		recv(m, m->p->size, order[place[m->rank] - even / 2]);
}

/* ---- all of them ---- */
#define PATTERNS                                                                                                       \
	X(allreduce_recdoub)                                                                                           \
	X(allreduce_ring)                                                                                              \
	X(binarytreebcast)                                                                                             \
	X(binomialtreebcast)                                                                                           \
	X(binomialtreereduce)                                                                                          \
	X(dissemination)                                                                                               \
	X(doublering)                                                                                                  \
	X(gather)                                                                                                      \
	X(linbarrier)                                                                                                  \
	X(linear_alltoall)                                                                                             \
	X(nwaydissemination) X(pipelinedchain) X(pipelinedring) X(pipelinedringdep) X(random_bisect) X(scatter)

#define X(name) #name,
const char *const goal_pattern_names[] = {PATTERNS NULL};
#undef X
#define X(name) name,
static void (*const makers[])(struct maker *m) = {PATTERNS};
#undef X

int goal_pattern_create(const struct goal_pattern *p, struct goal **g)
{
	struct maker m = {.p = p, .n = p->ranks};
	void (*make)(struct maker *) = NULL;

	for (unsigned i = 0; goal_pattern_names[i]; i++)
		if (!strcmp(p->name, goal_pattern_names[i]))
			make = makers[i];
	if (!make || !p->size || p->root >= p->ranks || p->ways > 1024 ||
	    (make == allreduce_recdoub && (p->ranks & (p->ranks - 1))))
		return -EINVAL;
	m.most = GOAL_PATTERN_OPS_MAX;
	if (p->memory) {
		const uint64_t ranks = (uint64_t)p->ranks * RANK_BYTES, ops = (p->memory - ranks) / OP_BYTES;

		if (p->memory < ranks)
			return -E2BIG;
		m.most = ops < m.most ? ops : m.most;
	}
	m.err = goal_create(p->ranks, &m.g);
	if (m.err)
		return m.err;
	m.pairs = make == random_bisect ? malloc(2ull * m.n * sizeof(*m.pairs)) : NULL;
	if (make == random_bisect && !m.pairs)
		m.err = -ENOMEM;
	for (; m.rank < m.n && !m.err; m.rank++)
		make(&m);
	if (!m.err)
		m.err = goal_finish(m.g);
	free(m.pairs);
	if (m.err)
		goal_destroy(m.g);
	else
		*g = m.g;
	return m.err;
}
