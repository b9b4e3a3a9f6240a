/* SPDX-License-Identifier: BSD-3-Clause */
/* What this process has to live on. */
#ifndef PIPELINE_MACHINE_H
#define PIPELINE_MACHINE_H

#include <stdint.h>

/* Bytes of the machine's memory, or of what the process's control groups (either version) allow, if that is less. */
uint64_t sp_machine_memory(void);
/* The same from files below `root` instead of /: proc/self/cgroup, sys/fs/cgroup/...; UINT64_MAX: no limit. */
uint64_t sp_machine_group_limit(const char *root);

#endif
