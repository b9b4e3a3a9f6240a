/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Motifs: schedules of what parallel programs exchange, by the rules of the Ember motifs of SST (sst-elements). Grids
 * do not wrap. A rank's blocking calls follow each other by dependencies of the schedule.
 *
 * sweep3d: pe[0] x pe[1] ranks, rank = x + pe[0] y. Four sweeps, from the corners (0, 0), (last, 0), (last, last) and
 * (0, last), with tags 1000, 2000, 3000 and 4000; the four of them 2 * iterations times. A sweep has n[2] / kba slices:
 * receive from upstream in x, then in y; compute compute_ns * kba * fields; send downstream in x (n[0] * kba * width *
 * fields bytes), then in y (n[1] * ...). All of these block. At the end an allreduce of 8 bytes, if `reduce`.
 *
 * halo3d: pe[0] x pe[1] x pe[2] ranks, rank = x + pe[0] (y + pe[1] z). Compute; then for x, y and z: post the receives
 * from both neighbours, send to the lower and to the upper one, each blocking, wait for the receives, copy for copy_ns.
 * At the end an allreduce of 8 bytes, if `reduce`. A face has fields * width * n * n bytes. All tags are 0.
 *
 * halo3d26: the same with all 26 neighbours: all receives and all sends at once, then wait for all. An edge has fields
 * * width * n bytes, a corner fields * width.
 *
 * pingpong: ranks 0 and 1 send `bytes` there and back; others do nothing. ring: `bytes` go round from rank 0 on.
 * allreduce: `bytes` up a binary tree (the children of r are 2 r + 1 and 2 r + 2), and down again. So does the
 * allreduce of the others. Each iteration of an allreduce has a tag of its own, from MOTIF_REDUCE_TAG on.
 *
 * jobs: so many programs at once, which exchange nothing with each other: rank r of job j is rank j * motif_ranks() + r
 * of the schedule. What is said of ranks above and below holds for each job.
 */
#ifndef TESTBED_MOTIF_MOTIF_H
#define TESTBED_MOTIF_MOTIF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../goal/schedule.h"

#define MOTIF_RANKS_MAX	     65536u /* so that no sum overflows */
#define MOTIF_ITERATIONS_MAX 1000000u
#define MOTIF_OPS_MAX	     200000000ull     /* operations of a schedule: about 12 GB while it is built */
#define MOTIF_CELLS_MAX	     100000u	      /* n[i], kba, width, fields */
#define MOTIF_MESSAGE_MAX    (1ull << 40)     /* bytes */
#define MOTIF_TIME_MAX	     1000000000000ull /* ns: compute, with its factors, and copy */
#define MOTIF_DEFAULT	     UINT64_MAX	      /* compute_ns: by the motif's rule */
#define MOTIF_REDUCE_TAG     1000000u

enum motif_kind {
	MOTIF_SWEEP3D,
	MOTIF_HALO3D,
	MOTIF_HALO3D26,
	MOTIF_PINGPONG,
	MOTIF_RING,
	MOTIF_ALLREDUCE,
	MOTIF_KINDS
};

struct motif {
	enum motif_kind kind;
	uint32_t pe[3];		     /* ranks in x, y, z; of what has no grid: ranks, 1, 1 */
	uint32_t n[3];		     /* cells of a rank in x, y, z */
	uint32_t kba, width, fields; /* kba: cells of a slice in z, divides n[2]; width: bytes of a field of a cell */
	uint64_t compute_ns;	     /* of the sweep per cell of a slice in z and field; MOTIF_DEFAULT: SST's rule */
	uint64_t copy_ns;
	uint64_t bytes;
	uint32_t iterations;
	uint32_t jobs;
	bool reduce;
};

extern const char *const motif_names[MOTIF_KINDS + 1]; /* up to a NULL */

/* SST's default values of that kind, one job; pe is 0 0 0. */
struct motif motif_defaults(enum motif_kind kind);
/* Splits ranks (1 to MOTIF_RANKS_MAX) in three factors of the least variance, as SST does: 8192 is 32 x 16 x 16. */
void motif_grid(uint32_t ranks, uint32_t pe[3]);
/* 0, or -EINVAL and a sentence that says what is wrong. */
int motif_check(const struct motif *m, char *why, size_t whylen);
uint32_t motif_ranks(const struct motif *m);   /* of a job */
uint64_t motif_compute(const struct motif *m); /* ns of one computation of a rank; 0 of motifs without */
/* A finished schedule; the caller destroys it. -EINVAL: see motif_check(); -E2BIG: more than MOTIF_OPS_MAX operations;
 * -ENOMEM. */
int motif_schedule(const struct motif *m, struct goal **g);

#endif
