/* SPDX-License-Identifier: BSD-3-Clause */
/* The progress of a file transfer, on a terminal, and its results. */
#ifndef COMMAND_TRANSFER_SHOW_H
#define COMMAND_TRANSFER_SHOW_H

#include "transfer.h"

void transfer_progress(struct transfer *t);
void transfer_bar_end(struct transfer *t); /* before anything else is printed */
/* Prints one line, or JSON. 0 or -1. */
int transfer_summary(struct transfer *t, bool json);

#endif
