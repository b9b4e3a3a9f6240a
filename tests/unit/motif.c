/* SPDX-License-Identifier: BSD-3-Clause */
/* Motifs' schedules: counts, bytes, tags and partners of each rank against sums made here, and that nobody waits for
 * ever. */
#include "../lib/suite.h"
#include "../../testbed/motif/motif.h"

struct sums {
	uint64_t messages, bytes, calcs, calc_ns, ops;
};

static struct goal *schedule_of(const struct motif *m)
{
	struct goal *g = NULL;
	char why[200] = "";

	CU_ASSERT_EQUAL_FATAL(motif_check(m, why, sizeof(why)), 0);
	CU_ASSERT_EQUAL_FATAL(motif_schedule(m, &g), 0);
	return g;
}

static struct sums sums_of(const struct goal *g)
{
	struct sums s = {0};

	for (uint32_t rank = 0; rank < goal_ranks(g); rank++)
		for (uint32_t i = 0; i < goal_ops(g, rank); i++) {
			const struct goal_op *o = goal_op(g, rank, i);

			s.ops++;
			s.messages += o->type == GOAL_SEND;
			s.bytes += o->type == GOAL_SEND ? o->size : 0;
			s.calcs += o->type == GOAL_CALC && o->size;
			s.calc_ns += o->type == GOAL_CALC ? o->size : 0;
		}
	return s;
}

enum { AWAY, REACHED, DONE, TAKEN }; /* states of an operation; TAKEN: a send whose receive is done */

static void finish(const struct goal *g, uint32_t rank, uint32_t op, uint32_t **waits, uint8_t **state, uint64_t *left)
{
	uint32_t n;
	const uint32_t *next = goal_successors(g, rank, op, &n);

	state[rank][op] = DONE;
	--*left;
	for (uint32_t i = 0; i < n; i++)
		waits[rank][next[i]]--;
}

/* The first operation of that type at the other end of a message, in one of two states; -1. */
static int64_t other_end(const struct goal *g, uint32_t rank, const struct goal_op *o, uint8_t **state, uint8_t a,
			 uint8_t b)
{
	for (uint32_t i = 0; i < goal_ops(g, o->peer); i++) {
		const struct goal_op *to = goal_op(g, o->peer, i);

		if (to->type != o->type && to->type != GOAL_CALC && to->peer == rank && to->tag == o->tag &&
		    (state[o->peer][i] == a || state[o->peer][i] == b))
			return i;
	}
	return -1;
}

/* Executes it without time; the number of operations that remain. Messages from one rank to another with one tag are
 * taken in order, and must have the size that is expected. strict: a send is done only when its receive has been
 * reached. */
static uint64_t remaining(const struct goal *g, bool strict)
{
	const uint32_t ranks = goal_ranks(g);
	uint64_t left = goal_ops_all(g);
	uint32_t **waits = calloc(ranks, sizeof(*waits));
	uint8_t **state = calloc(ranks, sizeof(*state));
	bool moved = true;

	for (uint32_t rank = 0; rank < ranks; rank++) {
		waits[rank] = calloc(goal_ops(g, rank) + 1u, sizeof(**waits));
		state[rank] = calloc(goal_ops(g, rank) + 1u, 1);
		goal_waits(g, rank, waits[rank]);
	}
	while (moved) {
		moved = false;
		for (uint32_t rank = 0; rank < ranks; rank++)
			for (uint32_t i = 0; i < goal_ops(g, rank); i++) {
				const struct goal_op *o = goal_op(g, rank, i);
				int64_t k = -1;

				if (waits[rank][i] || state[rank][i] >= DONE)
					continue;
				moved |= state[rank][i] == AWAY;
				state[rank][i] = REACHED;
				if (o->type == GOAL_RECV && !strict) {
					k = other_end(g, rank, o, state, DONE, DONE);
					if (k < 0)
						continue;
					state[o->peer][k] = TAKEN;
				}
				if (strict && o->type != GOAL_CALC) {
					k = o->type == GOAL_SEND ? other_end(g, rank, o, state, AWAY, REACHED) : -1;
					if (k < 0 || state[o->peer][k] == AWAY)
						continue;
					finish(g, o->peer, (uint32_t)k, waits, state, &left);
				}
				if (k >= 0)
					CU_ASSERT_EQUAL(goal_op(g, o->peer, (uint32_t)k)->size, o->size);
				finish(g, rank, i, waits, state, &left);
				moved = true;
			}
	}
	for (uint32_t rank = 0; rank < ranks; rank++) {
		free(waits[rank]);
		free(state[rank]);
	}
	free(waits);
	free(state);
	return left;
}

TEST(sweep3d_has_the_messages_and_bytes_of_the_closed_form)
{
	static const uint32_t grids[][2] = {{2, 2}, {1, 1}, {1, 8}, {5, 1}, {4, 16}, {7, 3}, {16, 8}, {64, 128}};

	for (unsigned i = 0; i < sizeof(grids) / sizeof(*grids); i++) {
		const uint64_t px = grids[i][0], py = grids[i][1];
		struct motif m = motif_defaults(MOTIF_SWEEP3D);
		struct goal *g;
		struct sums s;

		m.pe[0] = grids[i][0];
		m.pe[1] = grids[i][1];
		m.pe[2] = 1;
		m.n[0] = 50;
		m.n[1] = 30;
		m.n[2] = px * py > 1000 ? 10 : 50; /* the largest grid has fewer slices, for the time that it takes */
		m.kba = 5;
		g = schedule_of(&m);
		s = sums_of(g);
		/* Per slice and sweep (px - 1) py messages in x and px (py - 1) in y; eight sweeps. */
		CU_ASSERT_EQUAL(s.messages, 8 * (m.n[2] / 5) * ((px - 1) * py + px * (py - 1)));
		CU_ASSERT_EQUAL(s.bytes, 8 * (m.n[2] / 5) * 5 * 64 * ((px - 1) * py * 50 + px * (py - 1) * 30));
		CU_ASSERT_EQUAL(s.calcs, 8 * (m.n[2] / 5) * px * py);
		CU_ASSERT_EQUAL(s.calc_ns, s.calcs * 50 * 30 * 275 * 5 * 8);
		CU_ASSERT_EQUAL(s.ops, 2 * s.messages + s.calcs);
		goal_destroy(g);
	}
}

TEST(sweep3d_of_8192_ranks_is_that_of_the_papers_size)
{
	struct motif m = motif_defaults(MOTIF_SWEEP3D);
	struct goal *g;
	struct sums s;

	m.pe[0] = 64;
	m.pe[1] = 128;
	m.pe[2] = 1;
	m.n[2] = 5; /* a tenth of the slices */
	g = schedule_of(&m);
	s = sums_of(g);
	CU_ASSERT_EQUAL(s.messages, 16192 * 5 * 8); /* 6.48 million of 50 slices */
	CU_ASSERT_EQUAL(s.bytes, s.messages * 3200);
	goal_destroy(g);
}

/* The i-th blocking call of a rank in the middle: from where, to where, with which tag. */
TEST(a_rank_of_sweep3d_receives_in_x_then_y_computes_and_sends_in_x_then_y)
{
	/* Rank 4 of 3 x 3: neighbours 3 and 5 in x, 1 and 7 in y. */
	static const uint32_t peers[4][4] = {{3, 1, 5, 7}, {5, 1, 3, 7}, {5, 7, 3, 1}, {3, 7, 5, 1}};
	struct motif m = motif_defaults(MOTIF_SWEEP3D);
	struct goal *g;
	uint32_t i = 0, n;

	m.pe[0] = m.pe[1] = 3;
	m.pe[2] = 1;
	m.n[1] = 25;
	m.n[2] = 4;
	m.kba = 2;
	m.compute_ns = 7;
	g = schedule_of(&m);
	for (unsigned sweep = 0; sweep < 8; sweep++)
		for (unsigned slice = 0; slice < 2; slice++)
			for (unsigned call = 0; call < 5; call++, i++) {
				const struct goal_op *o = goal_op(g, 4, i);
				const uint8_t type = call < 2 ? GOAL_RECV : call == 2 ? GOAL_CALC : GOAL_SEND;
				const uint32_t *next = goal_successors(g, 4, i, &n);

				CU_ASSERT_EQUAL(o->type, type);
				CU_ASSERT_EQUAL(o->size, type == GOAL_CALC	  ? 7u * 2 * 8
							 : call == 0 || call == 3 ? 50u * 2 * 64
										  : 25u * 2 * 64);
				CU_ASSERT_EQUAL(o->peer,
						type == GOAL_CALC ? 0 : peers[sweep % 4][call < 2 ? call : call - 1]);
				CU_ASSERT_EQUAL(o->tag, type == GOAL_CALC ? 0 : 1000 * (sweep % 4 + 1));
				CU_ASSERT_EQUAL(n, i + 1 < 80);
				CU_ASSERT(!n || *next == i + 1);
			}
	CU_ASSERT_EQUAL(goal_ops(g, 4), 80);
	goal_destroy(g);
}

TEST(halo3d_has_the_faces_and_the_tree_of_the_closed_form)
{
	static const uint32_t grids[][3] = {{1, 1, 1}, {2, 2, 2}, {4, 4, 4}, {5, 3, 2}, {32, 16, 16}};

	for (unsigned i = 0; i < sizeof(grids) / sizeof(*grids); i++) {
		const uint64_t x = grids[i][0], y = grids[i][1], z = grids[i][2], ranks = x * y * z;
		struct motif m = motif_defaults(MOTIF_HALO3D);
		struct goal *g;
		struct sums s;

		memcpy(m.pe, grids[i], sizeof(m.pe));
		m.n[1] = 60;
		m.n[2] = 30;
		m.fields = 3;
		m.iterations = 2;
		g = schedule_of(&m);
		s = sums_of(g);
		/* Both ways over each face; the tree has ranks - 1 edges, up and down. */
		CU_ASSERT_EQUAL(s.messages,
				2 * (2 * ((x - 1) * y * z + x * (y - 1) * z + x * y * (z - 1)) + 2 * (ranks - 1)));
		CU_ASSERT_EQUAL(s.bytes, 2 * (2 * 3 * 8 *
						      ((x - 1) * y * z * 60 * 30 + x * (y - 1) * z * 100 * 30 +
						       x * y * (z - 1) * 100 * 60) +
					      2 * (ranks - 1) * 8));
		CU_ASSERT_EQUAL(s.calc_ns, 2 * ranks * 100 * 60 * 30 * 3 * 26 / 10);
		goal_destroy(g);
	}
}

TEST(a_rank_of_halo3d_goes_on_when_both_receives_and_both_sends_of_a_dimension_are_done)
{
	/* Rank 13, in the middle of 3 x 3 x 3: the lower and the upper neighbour in x, y and z. */
	static const uint32_t peers[3][2] = {{12, 14}, {10, 16}, {4, 22}};
	struct motif m = motif_defaults(MOTIF_HALO3D);
	struct goal *g;
	uint32_t *waits, n;

	m.pe[0] = m.pe[1] = m.pe[2] = 3;
	g = schedule_of(&m);
	waits = calloc(goal_ops(g, 13), sizeof(*waits));
	goal_waits(g, 13, waits);
	CU_ASSERT_EQUAL(goal_op(g, 13, 0)->type, GOAL_CALC);
	for (unsigned d = 0; d < 3; d++)
		for (unsigned call = 0; call < 4; call++) {
			const uint32_t i = 1 + 4 * d + call;
			const struct goal_op *o = goal_op(g, 13, i);

			CU_ASSERT_EQUAL(o->type, call < 2 ? GOAL_RECV : GOAL_SEND);
			CU_ASSERT_EQUAL(o->peer, peers[d][call % 2]);
			/* The second send waits for the first; the others for the computation, or what the dimension
			 * before has ended with: both receives and the second send. */
			CU_ASSERT_EQUAL(waits[i], call == 3 || !d ? 1 : 3);
			if (d == 2)
				continue;
			const uint32_t *next = goal_successors(g, 13, i, &n);

			CU_ASSERT_EQUAL_FATAL(n, call == 2 ? 1 : 3);
			for (uint32_t k = 0; k < n; k++)
				CU_ASSERT_EQUAL(next[k], call == 2 ? i + 1 : 5 + 4 * d + k);
		}
	free(waits);
	goal_destroy(g);
}

TEST(halo3d26_has_faces_edges_and_corners)
{
	static const uint32_t grids[][3] = {{1, 1, 1}, {2, 2, 2}, {3, 3, 3}, {5, 4, 2}};

	for (unsigned i = 0; i < sizeof(grids) / sizeof(*grids); i++) {
		const uint64_t x = grids[i][0], y = grids[i][1], z = grids[i][2];
		const uint64_t faces = 2 * ((x - 1) * y * z + x * (y - 1) * z + x * y * (z - 1));
		const uint64_t edges = 4 * ((x - 1) * (y - 1) * z + (x - 1) * y * (z - 1) + x * (y - 1) * (z - 1));
		const uint64_t corners = 8 * (x - 1) * (y - 1) * (z - 1);
		struct motif m = motif_defaults(MOTIF_HALO3D26);
		struct goal *g;
		struct sums s;

		memcpy(m.pe, grids[i], sizeof(m.pe));
		g = schedule_of(&m);
		s = sums_of(g);
		CU_ASSERT_EQUAL(s.messages, faces + edges + corners);
		CU_ASSERT_EQUAL(s.bytes, faces * 80000 + edges * 800 + corners * 8);
		CU_ASSERT_EQUAL(s.calc_ns, x * y * z * 26000000);
		goal_destroy(g);
	}
}

TEST(the_rank_in_the_middle_of_halo3d26_talks_to_all_26_once_each_way)
{
	struct motif m = motif_defaults(MOTIF_HALO3D26);
	uint32_t sent[27] = {0}, received[27] = {0};
	struct goal *g;

	m.pe[0] = m.pe[1] = m.pe[2] = 3;
	g = schedule_of(&m);
	for (uint32_t i = 0; i < goal_ops(g, 13); i++) {
		const struct goal_op *o = goal_op(g, 13, i);

		sent[o->peer] += o->type == GOAL_SEND;
		received[o->peer] += o->type == GOAL_RECV;
	}
	for (unsigned peer = 0; peer < 27; peer++) {
		CU_ASSERT_EQUAL(sent[peer], peer != 13);
		CU_ASSERT_EQUAL(received[peer], peer != 13);
	}
	goal_destroy(g);
}

TEST(pingpong_ring_and_allreduce_have_their_messages)
{
	struct motif m = motif_defaults(MOTIF_PINGPONG);
	struct goal *g;
	struct sums s;

	m.pe[0] = 64;
	m.pe[1] = m.pe[2] = 1;
	m.iterations = 10;
	m.bytes = 10000;
	s = sums_of(g = schedule_of(&m));
	CU_ASSERT_EQUAL(s.messages, 20);
	CU_ASSERT_EQUAL(s.bytes, 200000);
	goal_destroy(g);
	m.kind = MOTIF_RING;
	s = sums_of(g = schedule_of(&m));
	CU_ASSERT_EQUAL(s.messages, 640);
	CU_ASSERT_EQUAL(goal_op(g, 0, 0)->type, GOAL_SEND);
	CU_ASSERT_EQUAL(goal_op(g, 1, 0)->type, GOAL_RECV);
	CU_ASSERT_EQUAL(goal_op(g, 63, 1)->peer, 0);
	goal_destroy(g);
	m.kind = MOTIF_ALLREDUCE;
	s = sums_of(g = schedule_of(&m));
	CU_ASSERT_EQUAL(s.messages, 10 * 2 * 63);
	for (uint32_t rank = 1; rank < 64; rank++) /* the parent by the definition of its children */
		for (uint32_t i = 0; i < goal_ops(g, rank); i++) {
			const struct goal_op *o = goal_op(g, rank, i);

			if (o->type != GOAL_CALC)
				CU_ASSERT(2 * o->peer + 1 == rank || 2 * o->peer + 2 == rank ||
					  2 * rank + 1 == o->peer || 2 * rank + 2 == o->peer);
		}
	goal_destroy(g);
}

/* Also where a send waits until its receive is reached, as in a rendezvous. */
TEST(no_motif_waits_for_ever)
{
	static const uint32_t grids[][3] = {{2, 2, 1}, {1, 7, 1}, {8, 8, 1}, {3, 5, 1},
					    {2, 3, 4}, {4, 4, 4}, {30, 1, 1}};

	for (unsigned kind = 0; kind < MOTIF_KINDS; kind++)
		for (unsigned i = 0; i < sizeof(grids) / sizeof(*grids); i++) {
			struct motif m = motif_defaults(kind);
			struct goal *g;
			char why[200];

			memcpy(m.pe, grids[i], sizeof(m.pe));
			m.n[2] = 4;
			m.iterations = 2;
			if (motif_check(&m, why, sizeof(why)))
				continue;
			g = schedule_of(&m);
			CU_ASSERT_EQUAL(remaining(g, false), 0);
			CU_ASSERT_EQUAL(remaining(g, true), 0);
			goal_destroy(g);
		}
}

/* Each job is the schedule of one, on ranks of its own. */
TEST(jobs_are_the_same_program_several_times)
{
	for (unsigned kind = 0; kind < MOTIF_KINDS; kind++) {
		struct motif m = motif_defaults(kind);
		struct goal *one, *all;

		m.pe[0] = kind == MOTIF_SWEEP3D || kind == MOTIF_HALO3D || kind == MOTIF_HALO3D26 ? 4 : 12;
		m.pe[1] = m.pe[0] == 4 ? 3 : 1;
		m.pe[2] = 1;
		m.n[2] = 3;
		m.reduce = true;
		one = schedule_of(&m);
		m.jobs = 5;
		all = schedule_of(&m);
		CU_ASSERT_EQUAL_FATAL(goal_ranks(all), 60);
		for (uint32_t rank = 0; rank < 60; rank++) {
			const uint32_t of = rank % 12, first = rank - of;

			CU_ASSERT_EQUAL_FATAL(goal_ops(all, rank), goal_ops(one, of));
			for (uint32_t i = 0; i < goal_ops(one, of); i++) {
				const struct goal_op *a = goal_op(all, rank, i), *b = goal_op(one, of, i);
				uint32_t after[2];

				CU_ASSERT(a->type == b->type && a->size == b->size && a->tag == b->tag);
				CU_ASSERT_EQUAL(a->peer, a->type == GOAL_CALC ? 0 : first + b->peer);
				goal_successors(all, rank, i, &after[0]);
				goal_successors(one, of, i, &after[1]);
				CU_ASSERT_EQUAL(after[0], after[1]);
			}
		}
		CU_ASSERT_EQUAL(remaining(all, false), 0);
		goal_destroy(one);
		goal_destroy(all);
	}
}

/* A sweep's allreduce: a message up and one down each edge of the tree, after all sweeps. */
TEST(sweep3d_may_end_with_an_allreduce)
{
	struct motif m = motif_defaults(MOTIF_SWEEP3D);
	struct sums with, without;
	struct goal *g;

	m.pe[0] = 4;
	m.pe[1] = 3;
	m.pe[2] = 1;
	g = schedule_of(&m);
	without = sums_of(g);
	goal_destroy(g);
	m.reduce = true;
	g = schedule_of(&m);
	with = sums_of(g);
	CU_ASSERT_EQUAL(with.messages, without.messages + 2 * 11);
	CU_ASSERT_EQUAL(with.bytes, without.bytes + 2 * 11 * 8);
	goal_destroy(g);
}

/* Every split of a number of ranks, and the last of those with the least variance, by whole numbers. */
TEST(a_grid_has_the_factors_with_the_least_spread)
{
	uint32_t pe[3];

	for (uint32_t ranks = 1; ranks < 200; ranks++) {
		uint64_t best = UINT64_MAX, want[3] = {0};

		for (uint64_t x = 1; x <= ranks; x++)
			for (uint64_t y = 1; y <= ranks; y++)
				for (uint64_t z = 1; z <= ranks && x * y * z <= ranks; z++) {
					const uint64_t mean = (x + y + z) / 3;
					const uint64_t spread = (x * x + y * y + z * z) / 3 - mean * mean;

					if (x * y * z != ranks || spread > best)
						continue;
					best = spread;
					want[0] = x;
					want[1] = y;
					want[2] = z;
				}
		motif_grid(ranks, pe);
		CU_ASSERT(pe[0] == want[0] && pe[1] == want[1] && pe[2] == want[2]);
	}
	motif_grid(8192, pe);
	CU_ASSERT(pe[0] == 32 && pe[1] == 16 && pe[2] == 16);
}

TEST(what_cannot_be_is_refused_with_a_reason)
{
	static const struct {
		enum motif_kind kind;
		uint32_t pe[3], nz, kba, fields, iterations;
		uint64_t bytes, compute;
	} bad[] = {
		{MOTIF_SWEEP3D, {0, 4, 1}, 50, 1, 8, 1, 0, 1},
		{MOTIF_SWEEP3D, {4, 4, 2}, 50, 1, 8, 1, 0, 1},
		{MOTIF_SWEEP3D, {65536, 65536, 1}, 50, 1, 8, 1, 0, 1},
		{MOTIF_SWEEP3D, {4, 4, 1}, 50, 7, 8, 1, 0, 1},
		{MOTIF_SWEEP3D, {4, 4, 1}, 50, 0, 8, 1, 0, 1},
		{MOTIF_SWEEP3D, {4, 4, 1}, 50, 1, 0, 1, 0, 1},
		{MOTIF_SWEEP3D, {4, 4, 1}, 50, 1, 8, 0, 0, 1},
		{MOTIF_SWEEP3D, {4, 4, 1}, 50, 1, 8, 1, 0, 1ull << 62},
		{MOTIF_HALO3D, {1u << 31, 2, 1}, 50, 1, 8, 1, 0, 1},
		{MOTIF_HALO3D, {4, 4, 4}, 100000, 1, 100000, 1, 0, MOTIF_DEFAULT},
		{MOTIF_PINGPONG, {1, 1, 1}, 1, 1, 1, 1, 0, 1},
		{MOTIF_RING, {4, 4, 1}, 1, 1, 1, 1, 0, 1},
		{MOTIF_RING, {4, 1, 1}, 1, 1, 1, 1, UINT64_MAX, 1},
		{MOTIF_RING, {4, 1, 1}, 1, 1, 1, 1000001, 0, 1},
		{MOTIF_KINDS, {4, 1, 1}, 1, 1, 1, 1, 0, 1},
	};

	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct motif m = motif_defaults(bad[i].kind);
		struct goal *g = NULL;
		char why[200] = "";

		memcpy(m.pe, bad[i].pe, sizeof(m.pe));
		m.n[2] = bad[i].nz;
		m.kba = bad[i].kba;
		m.fields = bad[i].fields;
		m.iterations = bad[i].iterations;
		m.bytes = bad[i].bytes;
		m.compute_ns = bad[i].compute;
		CU_ASSERT_EQUAL(motif_check(&m, why, sizeof(why)), -EINVAL);
		CU_ASSERT(*why);
		CU_ASSERT_EQUAL(motif_schedule(&m, &g), -EINVAL);
	}
	{
		struct motif m = motif_defaults(MOTIF_RING);
		struct goal *g = NULL;

		m.pe[0] = 65536;
		m.pe[1] = m.pe[2] = 1;
		m.iterations = 1000000;
		CU_ASSERT_EQUAL(motif_schedule(&m, &g), -E2BIG);
		m.pe[0] = 100; /* of each of 655 jobs is fine */
		m.iterations = 1;
		for (m.jobs = 656; m.jobs; m.jobs = m.jobs == 656 ? UINT32_MAX : 0)
			CU_ASSERT_EQUAL(motif_schedule(&m, &g), -EINVAL);
		CU_ASSERT_EQUAL(motif_schedule(&m, &g), -EINVAL);
		m.jobs = 655;
		CU_ASSERT_EQUAL(motif_schedule(&m, &g), 0);
		goal_destroy(g);
	}
}
