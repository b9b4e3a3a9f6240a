/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTBED_QUANTILE_H
#define TESTBED_QUANTILE_H

#include <stdint.h>

/* By the nearest rank: of n values in order, number ceil(n * thousandths / 1000), counted from 1. 1 <= n,
 * 1 <= thousandths <= 1000. Changes the values' order; linear time. */
double sp_quantile(double *v, uint64_t n, uint64_t thousandths);

#endif
