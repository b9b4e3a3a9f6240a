/* SPDX-License-Identifier: BSD-3-Clause */
/* The receiving end of one transfer. */
#ifndef COMMAND_TRANSFER_IN_H
#define COMMAND_TRANSFER_IN_H

#include "file.h"
#include "transfer.h"

int transfer_in(struct transfer *t, struct recv_file *file); /* from "ready" on: 0 or -1 */

#endif
