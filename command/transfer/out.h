/* SPDX-License-Identifier: BSD-3-Clause */
/* The sending end of one transfer. */
#ifndef COMMAND_TRANSFER_OUT_H
#define COMMAND_TRANSFER_OUT_H

#include <sys/stat.h>

#include "transfer.h"

/* From "ready" on; opened: the file's status before any of it was read. 0 or -1. */
int transfer_out(struct transfer *t, int fd, const struct stat *opened);

#endif
