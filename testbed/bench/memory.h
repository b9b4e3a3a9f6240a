/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of QPs, messages and mailboxes, each measured in a process of its own. */
#ifndef TESTBED_BENCH_MEMORY_H
#define TESTBED_BENCH_MEMORY_H

/* Such a process: prints bytes of WHAT (qp, rdma-qp, message or mailbox); returns the exit status. */
int bench_memory_end(const char *what);

#endif
