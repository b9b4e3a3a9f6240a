/* SPDX-License-Identifier: BSD-3-Clause */
/* What things take of memory, each looked at in a process that has done nothing else. */
#ifndef TESTBED_BENCH_MEMORY_H
#define TESTBED_BENCH_MEMORY_H

/* The process's: prints bytes of WHAT (qp, message or mailbox); returns the exit status. */
int bench_memory_end(const char *what);

#endif
