/* SPDX-License-Identifier: BSD-3-Clause */
/* The programs of a rank of the larger motifs, by the rules in motif.h. Errors are the steps'. */
#ifndef TESTBED_MOTIF_PROGRAMS_H
#define TESTBED_MOTIF_PROGRAMS_H

#include "motif.h"
#include "steps.h"

void motif_sweep3d(const struct motif *m, struct steps *s);
void motif_halo3d(const struct motif *m, struct steps *s);
void motif_halo3d26(const struct motif *m, struct steps *s);

#endif
