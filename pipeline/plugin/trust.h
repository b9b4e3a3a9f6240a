/* SPDX-License-Identifier: BSD-3-Clause */
/* Whose plug-ins are loaded: only those of root and of the process's own user, see trust.c. */
#ifndef PIPELINE_PLUGIN_TRUST_H
#define PIPELINE_PLUGIN_TRUST_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/* Opens the file for reading, through directories and symbolic links that only root or this process's user may change.
 * The descriptor and its state, or -errno: why names the component and what is wrong with it. */
int sp_plugin_trusted(const char *file, struct stat *st, char *why, size_t room);

#endif
