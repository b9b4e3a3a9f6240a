/* SPDX-License-Identifier: BSD-3-Clause */
/* A handler that takes packets and does nothing with them: what is left is the NIC's own cost. */
#ifndef TESTBED_BENCH_NULL_H
#define TESTBED_BENCH_NULL_H

#define BENCH_NULL "bench-null" /* parameter qps: QP numbers from `qp` on that it claims; 0: it is given a filter */

/* Makes it known to this process; further calls do nothing. */
void bench_null_register(void);

#endif
