/* SPDX-License-Identifier: BSD-3-Clause */
/* The end that asks. */
#ifndef COMMAND_RDMA_CLIENT_H
#define COMMAND_RDMA_CLIENT_H

#include "ends.h"

#define RDMA_SILENCE (10 * SP_SEC) /* an end that says nothing for so long has gone */

/* Says a word on the first QP, again where it may be lost, and waits for the answer. 0 or -1. */
int rdma_client_ask(struct rdma_ends *e, uint32_t imm, uint64_t count, uint64_t size, struct rdma_word *answer);
int rdma_client_bw(struct rdma_ends *e, uint64_t size);
int rdma_client_lat(struct rdma_ends *e, uint64_t size);
int rdma_client_ping(struct rdma_ends *e, uint64_t size);
int rdma_client(const struct rdma_asked *a); /* 0 or -1 */

#endif
