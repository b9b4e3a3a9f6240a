/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef COMMAND_RVMA_LISTEN_H
#define COMMAND_RVMA_LISTEN_H

#include "ends.h"

int rvma_listen(const struct rvma_asked *a); /* 0 or -1 */

#endif
