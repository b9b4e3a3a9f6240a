/* SPDX-License-Identifier: BSD-3-Clause */
/* Motifs: their parameters, and what these must be. */
#include "motif.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

const char *const motif_names[] = {"sweep3d", "halo3d", "halo3d26", "pingpong", "ring", "allreduce", NULL};

struct motif motif_defaults(enum motif_kind kind)
{
	const bool sweep = kind == MOTIF_SWEEP3D, halo = kind == MOTIF_HALO3D || kind == MOTIF_HALO3D26;
	const uint32_t cells = sweep ? 50 : halo ? 100 : 1;

	return (struct motif){.kind = kind,
			      .n = {cells, cells, cells},
			      .kba = 1,
			      .width = 8,
			      .fields = sweep ? 8 : 1,
			      .compute_ns = MOTIF_DEFAULT,
			      .bytes = kind == MOTIF_ALLREDUCE ? 8 : 1024,
			      .iterations = 1,
			      .jobs = 1,
			      .reduce = kind == MOTIF_HALO3D};
}

void motif_grid(uint32_t ranks, uint32_t pe[3])
{
	uint64_t least = UINT64_MAX;

	for (uint64_t x = 1; x <= ranks; x++)
		for (uint64_t y = 1; ranks % x == 0 && y <= ranks / x; y++) {
			const uint64_t z = ranks / x / y, mean = (x + y + z) / 3;
			const uint64_t spread = (x * x + y * y + z * z) / 3 - mean * mean;

			if (x * y * z != ranks || spread > least)
				continue;
			least = spread;
			pe[0] = (uint32_t)x;
			pe[1] = (uint32_t)y;
			pe[2] = (uint32_t)z;
		}
}

uint32_t motif_ranks(const struct motif *m)
{
	return m->pe[0] * m->pe[1] * m->pe[2];
}

uint64_t motif_compute(const struct motif *m)
{
	const uint64_t cells = (uint64_t)m->n[0] * m->n[1];
	const bool known = m->compute_ns != MOTIF_DEFAULT;

	switch (m->kind) {
	case MOTIF_SWEEP3D: /* 275 operations a cell, 10^9 of them a second */
		return (known ? m->compute_ns : cells * 275) * m->kba * m->fields;
	case MOTIF_HALO3D: /* 26 a cell and field, 10^10 a second */
		return known ? m->compute_ns : cells * m->n[2] * m->fields * 26 / 10;
	case MOTIF_HALO3D26: /* 10^9 a second */
		return known ? m->compute_ns : cells * m->n[2] * m->fields * 26;
	default:
		return 0;
	}
}

/* ---- checks ---- */
static int wrong(char *why, size_t whylen, const char *format, ...) __attribute__((format(printf, 3, 4)));

static int wrong(char *why, size_t whylen, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vsnprintf(why, whylen, format, list);
	va_end(list);
	return -EINVAL;
}

static bool in_range(uint32_t value)
{
	return value >= 1 && value <= MOTIF_CELLS_MAX;
}

/* Whether a * b is at most `most`. */
static bool fits(uint64_t a, uint64_t b, uint64_t most)
{
	return !b || a <= most / b;
}

/* Whether no message, and no computation, is beyond its bound: no product wraps. */
static bool bounded(const struct motif *m)
{
	const uint64_t cell = (uint64_t)m->width * m->fields, plane = (uint64_t)m->n[0] * m->n[1];
	uint64_t largest = 0, factor = (uint64_t)m->kba * m->fields;

	for (unsigned a = 0; a < 3; a++)
		for (unsigned b = 0; b < 3; b++)
			if (a != b && (uint64_t)m->n[a] * m->n[b] > largest)
				largest = (uint64_t)m->n[a] * m->n[b];
	if (m->kind == MOTIF_SWEEP3D) {
		largest = (uint64_t)(m->n[0] > m->n[1] ? m->n[0] : m->n[1]) * m->kba;
		return fits(cell, largest, MOTIF_MESSAGE_MAX) &&
		       fits(m->compute_ns == MOTIF_DEFAULT ? plane * 275 : m->compute_ns, factor, MOTIF_TIME_MAX);
	}
	if (m->compute_ns != MOTIF_DEFAULT)
		return fits(cell, largest, MOTIF_MESSAGE_MAX) && m->compute_ns <= MOTIF_TIME_MAX;
	return fits(cell, largest, MOTIF_MESSAGE_MAX) && plane <= MOTIF_TIME_MAX &&
	       fits(plane * 26, (uint64_t)m->n[2] * m->fields, MOTIF_TIME_MAX);
}

int motif_check(const struct motif *m, char *why, size_t whylen)
{
	const uint64_t ranks = (uint64_t)m->pe[0] * m->pe[1] * (m->pe[0] && m->pe[1] ? m->pe[2] : 1);
	const bool flat = m->kind != MOTIF_HALO3D && m->kind != MOTIF_HALO3D26;

	if ((unsigned)m->kind >= MOTIF_KINDS)
		return wrong(why, whylen, "there is no such motif");
	if (m->pe[0] > MOTIF_RANKS_MAX || m->pe[1] > MOTIF_RANKS_MAX || m->pe[2] > MOTIF_RANKS_MAX || !ranks ||
	    ranks > MOTIF_RANKS_MAX || (uint64_t)m->pe[0] * m->pe[1] > MOTIF_RANKS_MAX)
		return wrong(why, whylen, "there must be 1 to %u ranks, not %u x %u x %u", MOTIF_RANKS_MAX, m->pe[0],
			     m->pe[1], m->pe[2]);
	if (!m->jobs || m->jobs > MOTIF_RANKS_MAX / ranks)
		return wrong(why, whylen, "all jobs together must have 1 to %u ranks, not %u times %u", MOTIF_RANKS_MAX,
			     m->jobs, (uint32_t)ranks);
	if (flat && (m->pe[2] != 1 || (m->kind != MOTIF_SWEEP3D && m->pe[1] != 1)))
		return wrong(why, whylen, "ranks of %s are %s, not %u x %u x %u", motif_names[m->kind],
			     m->kind == MOTIF_SWEEP3D ? "a grid of two dimensions" : "in no grid", m->pe[0], m->pe[1],
			     m->pe[2]);
	if (m->kind == MOTIF_PINGPONG && ranks < 2)
		return wrong(why, whylen, "a pingpong needs 2 ranks");
	for (unsigned d = 0; d < 3; d++)
		if (!in_range(m->n[d]))
			return wrong(why, whylen, "a rank must have 1 to %u cells in each dimension, not %u",
				     MOTIF_CELLS_MAX, m->n[d]);
	if (!in_range(m->kba) || !in_range(m->width) || !in_range(m->fields))
		return wrong(why, whylen, "kba, width and fields must be 1 to %u, not %u, %u and %u", MOTIF_CELLS_MAX,
			     m->kba, m->width, m->fields);
	if (m->kind == MOTIF_SWEEP3D && m->n[2] % m->kba)
		return wrong(why, whylen, "kba must divide the cells in z: %u does not divide %u", m->kba, m->n[2]);
	if (!m->iterations || m->iterations > MOTIF_ITERATIONS_MAX)
		return wrong(why, whylen, "there must be 1 to %u iterations, not %u", MOTIF_ITERATIONS_MAX,
			     m->iterations);
	if (m->bytes > MOTIF_MESSAGE_MAX || m->copy_ns > MOTIF_TIME_MAX || !bounded(m))
		return wrong(why, whylen, "a message must be at most 2^40 bytes, and a computation 1000 s");
	return 0;
}
