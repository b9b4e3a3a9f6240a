/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef COMMAND_RDMA_SERVE_H
#define COMMAND_RDMA_SERVE_H

#include "ends.h"

int rdma_serve(const struct rdma_asked *a); /* 0 or -1 */

#endif
