/* SPDX-License-Identifier: BSD-3-Clause */
/* The schedule of a motif: the programs of all its ranks. */
#include "programs.h"

#include <errno.h>

#define RING_TAG 1 /* of pingpong, too */

static void pingpong(const struct motif *m, struct steps *s)
{
	for (uint32_t turn = 0; turn < m->iterations && s->rank < 2 && !s->err; turn++)
		for (uint32_t way = 0; way < 2; way++) {
			if (way == s->rank)
				steps_send(s, !s->rank, m->bytes, RING_TAG);
			else
				steps_recv(s, !s->rank, m->bytes, RING_TAG);
		}
}

static void ring(const struct motif *m, struct steps *s)
{
	const uint32_t ranks = motif_ranks(m), to = (s->rank + 1) % ranks, from = (s->rank + ranks - 1) % ranks;

	for (uint32_t turn = 0; turn < m->iterations && ranks > 1 && !s->err; turn++) {
		if (!s->rank)
			steps_send(s, to, m->bytes, RING_TAG);
		steps_recv(s, from, m->bytes, RING_TAG);
		if (s->rank)
			steps_send(s, to, m->bytes, RING_TAG);
	}
}

static void allreduce(const struct motif *m, struct steps *s)
{
	for (uint32_t turn = 0; turn < m->iterations && !s->err; turn++)
		steps_allreduce(s, motif_ranks(m), m->bytes, MOTIF_REDUCE_TAG + turn);
}

static void (*const programs[MOTIF_KINDS])(const struct motif *, struct steps *) = {
	[MOTIF_SWEEP3D] = motif_sweep3d, [MOTIF_HALO3D] = motif_halo3d, [MOTIF_HALO3D26] = motif_halo3d26,
	[MOTIF_PINGPONG] = pingpong,	 [MOTIF_RING] = ring,		[MOTIF_ALLREDUCE] = allreduce,
};

/* No rank has more operations than this. */
static uint64_t most_ops(const struct motif *m)
{
	switch (m->kind) {
	case MOTIF_SWEEP3D:
		return 8ull * m->iterations * (m->n[2] / m->kba) * 5 + 8;
	case MOTIF_HALO3D:
		return 24ull * m->iterations;
	case MOTIF_HALO3D26:
		return 64ull * m->iterations;
	default:
		return 8ull * m->iterations;
	}
}

int motif_schedule(const struct motif *m, struct goal **g)
{
	char why[1];
	int err = motif_check(m, why, sizeof(why));

	if (err)
		return err;
	if (most_ops(m) > MOTIF_OPS_MAX / m->jobs / motif_ranks(m))
		return -E2BIG;
	err = goal_create(m->jobs * motif_ranks(m), g);
	if (err)
		return err;
	for (uint32_t rank = 0; rank < m->jobs * motif_ranks(m) && !err; rank++) {
		struct steps s;

		steps_begin(&s, *g, rank - rank % motif_ranks(m), rank % motif_ranks(m));
		programs[m->kind](m, &s);
		err = s.err;
	}
	err = err ? err : goal_finish(*g);
	if (err) {
		goal_destroy(*g);
		*g = NULL;
	}
	return err;
}
