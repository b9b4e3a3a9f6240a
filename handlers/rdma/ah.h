/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, address handles. */
#ifndef HANDLERS_RDMA_AH_H
#define HANDLERS_RDMA_AH_H

#include "state.h"

/* Any worker. NULL: no such handle of this PD. May be used until the call ends. */
struct rdma_ah *rdma_ah_find(struct sp_ctx *, uint32_t pd, uint32_t id);
/* This worker's path to it, opened at first use. -errno as of sp_path_open(). */
int rdma_ah_path(struct sp_ctx *, struct rdma_ah *, struct sp_path **);
/* Home worker: control requests. */
int rdma_ah_create(struct sp_ctx *, struct sp_control *);
int rdma_ah_destroy(struct sp_ctx *, struct sp_control *);
void rdma_ah_chore(struct sp_ctx *); /* each worker: closes its paths of handles that end */

#endif
