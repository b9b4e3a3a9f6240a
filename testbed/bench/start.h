/* SPDX-License-Identifier: BSD-3-Clause */
/* How long it takes to start a NIC, and to attach to one. */
#ifndef TESTBED_BENCH_START_H
#define TESTBED_BENCH_START_H

/* A process that is attached to NIC `nic` COUNT - 1 times: prints us of one more; returns the exit status. */
int bench_attach_end(const char *count, const char *nic);

#endif
