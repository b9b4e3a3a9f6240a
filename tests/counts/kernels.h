/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels that exist once for each level of instructions, alone: the ICRC, and copies past the caches. */
#ifndef TESTS_COUNTS_KERNELS_H
#define TESTS_COUNTS_KERNELS_H

#include "../../testbed/bench/bench.h"

enum { COUNTS_ICRC_64, COUNTS_ICRC_1024, COUNTS_ICRC_4096, COUNTS_PLACE_1024, COUNTS_PLACE_4096, COUNTS_KERNELS };
extern const struct bench_case counts_kernel[COUNTS_KERNELS]; /* their units: packets of so many bytes of payload */

#endif
