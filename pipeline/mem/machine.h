/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory available to this process. */
#ifndef PIPELINE_MEM_MACHINE_H
#define PIPELINE_MEM_MACHINE_H

#include <stdint.h>

/* The machine's memory in bytes, or the limit of the process's control groups (version 1 or 2), if lower. */
uint64_t sp_machine_memory(void);
/* The control groups' limit, from files below `root` instead of /: proc/self/cgroup, sys/fs/cgroup/...; UINT64_MAX:
 * none. */
uint64_t sp_machine_group_limit(const char *root);

#endif
