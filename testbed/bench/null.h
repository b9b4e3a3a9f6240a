/* SPDX-License-Identifier: BSD-3-Clause */
/* A handler that takes packets and does nothing: only the NIC's own cost remains. */
#ifndef TESTBED_BENCH_NULL_H
#define TESTBED_BENCH_NULL_H

#define BENCH_NULL "bench-null" /* parameter qps: QP numbers from `qp` on that it claims; 0: it gets a filter */

/* Registers it in this process; further calls have no effect. */
void bench_null_register(void);

#endif
