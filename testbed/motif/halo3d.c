/* SPDX-License-Identifier: BSD-3-Clause */
/* Halo3D and Halo3D26: a grid of ranks exchanges what lies at the borders of its cells. See motif.h for the rules. */
#include "programs.h"

/* The order in which halo3d26 posts its messages: faces, edges, corners. */
static const int8_t around[26][3] = {
	{-1, 0, 0},  {1, 0, 0},	 {0, -1, 0}, {0, 1, 0},	  {0, 0, -1},  {0, 0, 1},   {-1, -1, 0},
	{0, -1, -1}, {1, -1, 0}, {0, -1, 1}, {-1, 0, 1},  {1, 0, 1},   {-1, 0, -1}, {1, 0, -1},
	{-1, 1, 0},  {0, 1, 1},	 {1, 1, 0},  {0, 1, -1},  {-1, -1, 1}, {1, -1, 1},  {-1, -1, -1},
	{1, -1, -1}, {-1, 1, 1}, {1, 1, 1},  {-1, 1, -1}, {1, 1, -1},
};

/* The neighbour in a direction; false: beyond the grid. */
static bool neighbour(const struct motif *m, uint32_t rank, const int8_t way[3], uint32_t *peer)
{
	const uint32_t at[3] = {rank % m->pe[0], rank / m->pe[0] % m->pe[1], rank / m->pe[0] / m->pe[1]};
	uint32_t to[3];

	for (unsigned d = 0; d < 3; d++) {
		to[d] = at[d] + (uint32_t)way[d]; /* below 0 it is large */
		if (to[d] >= m->pe[d])
			return false;
	}
	*peer = to[0] + m->pe[0] * (to[1] + m->pe[1] * to[2]);
	return true;
}

/* What is shared with the neighbour in that direction: cells of each dimension in which they do not differ. */
static uint64_t shared(const struct motif *m, const int8_t way[3])
{
	uint64_t bytes = (uint64_t)m->fields * m->width;

	for (unsigned d = 0; d < 3; d++)
		bytes *= way[d] ? 1 : m->n[d];
	return bytes;
}

void motif_halo3d(const struct motif *m, struct steps *s)
{
	uint32_t peer;

	for (uint32_t turn = 0; turn < m->iterations && !s->err; turn++) {
		steps_compute(s, motif_compute(m));
		for (unsigned d = 0; d < 3; d++) {
			for (unsigned up = 0; up < 2; up++)
				if (neighbour(m, s->rank, around[2 * d + up], &peer))
					steps_irecv(s, peer, shared(m, around[2 * d + up]), 0);
			for (unsigned up = 0; up < 2; up++)
				if (neighbour(m, s->rank, around[2 * d + up], &peer))
					steps_send(s, peer, shared(m, around[2 * d + up]), 0);
			steps_wait(s);
			steps_compute(s, m->copy_ns);
		}
		if (m->reduce)
			steps_allreduce(s, motif_ranks(m), 8, MOTIF_REDUCE_TAG + turn);
	}
}

void motif_halo3d26(const struct motif *m, struct steps *s)
{
	uint32_t peer;

	for (uint32_t turn = 0; turn < m->iterations && !s->err; turn++) {
		steps_compute(s, motif_compute(m));
		for (unsigned i = 0; i < 26; i++)
			if (neighbour(m, s->rank, around[i], &peer))
				steps_irecv(s, peer, shared(m, around[i]), 0);
		for (unsigned i = 0; i < 26; i++)
			if (neighbour(m, s->rank, around[i], &peer))
				steps_isend(s, peer, shared(m, around[i]), 0);
		steps_wait(s);
		steps_compute(s, m->copy_ns);
		if (m->reduce)
			steps_allreduce(s, motif_ranks(m), 8, MOTIF_REDUCE_TAG + turn);
	}
}
