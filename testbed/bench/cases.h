/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of all cases of `spindle bench`. */
#ifndef TESTBED_BENCH_CASES_H
#define TESTBED_BENCH_CASES_H

#include "bench.h"

/* Case number `index`; NULL past the last. */
const struct bench_case *bench_case(unsigned index);

#endif
