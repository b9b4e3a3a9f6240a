/* SPDX-License-Identifier: BSD-3-Clause */
/* Sweep3D: wavefronts from the corners of a grid of ranks. See motif.h for the rules. */
#include "programs.h"

struct neighbours {
	bool has[2]; /* lower, upper */
	uint32_t rank[2];
};

static struct neighbours around(uint32_t rank, uint32_t at, uint32_t count, uint32_t stride)
{
	return (struct neighbours){{at > 0, at + 1 < count}, {rank - stride, rank + stride}};
}

/* upwards: whether the sweep goes to higher x, y. */
static void sweep(const struct motif *m, struct steps *s, const bool upwards[2], uint32_t tag)
{
	const uint32_t px = m->pe[0];
	const struct neighbours by[2] = {around(s->rank, s->rank % px, px, 1),
					 around(s->rank, s->rank / px, m->pe[1], px)};
	const uint64_t cell = (uint64_t)m->kba * m->width * m->fields, bytes[2] = {m->n[0] * cell, m->n[1] * cell};
	const uint64_t ns = motif_compute(m);

	for (uint32_t slice = 0; slice < m->n[2] / m->kba; slice++) {
		for (unsigned d = 0; d < 2; d++)
			if (by[d].has[!upwards[d]])
				steps_recv(s, by[d].rank[!upwards[d]], bytes[d], tag);
		steps_compute(s, ns);
		for (unsigned d = 0; d < 2; d++)
			if (by[d].has[upwards[d]])
				steps_send(s, by[d].rank[upwards[d]], bytes[d], tag);
	}
}

void motif_sweep3d(const struct motif *m, struct steps *s)
{
	static const bool corner[4][2] = {{true, true}, {false, true}, {false, false}, {true, false}};

	for (uint64_t turn = 0; turn < 2ull * m->iterations && !s->err; turn++)
		for (unsigned c = 0; c < 4; c++)
			sweep(m, s, corner[c], 1000 * (c + 1));
	if (m->reduce && !s->err)
		steps_allreduce(s, motif_ranks(m), 8, MOTIF_REDUCE_TAG);
}
