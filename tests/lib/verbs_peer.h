/* SPDX-License-Identifier: BSD-3-Clause */
/* A program whose memory is registered as libibverbs does it, and a peer that writes, reads and changes it. Their two
 * NICs run in a process of their own, so that the program's mappings are the program's. */
#ifndef TESTS_VERBS_PEER_H
#define TESTS_VERBS_PEER_H

#include <pthread.h>

#include "../../host-api/verbs/bounce.h"
#include "../../host-api/verbs/memory.h"
#include "../../host-api/verbs/pages.h"
#include "suite.h"

#define VERBS_ALL  (SP_RDMA_LOCAL_WRITE | SP_RDMA_REMOTE_WRITE | SP_RDMA_REMOTE_READ | SP_RDMA_REMOTE_ATOMIC)
#define VERBS_MOST (1u << 20) /* bytes that the peer moves at once */

struct verbs_side {
	struct sp_dev *dev;
	struct sp_rdma *rdma;
	struct sp_rdma_pd *pd;
	struct sp_rdma_cq *cq;
	struct sp_rdma_pair *qp;
	struct sp_mr *memory;
	struct sp_rdma_mr *mr;
};
extern struct verbs_side verbs_near, verbs_far; /* far: the peer */

void verbs_lock(void); /* the program's, as in libibverbs; a thread of its own serves what peers ask */
void verbs_unlock(void);
void verbs_idle(bool idle); /* it does not, for a while */
/* Registered with all rights. The lock is not held. */
struct shim_mr verbs_reg(void *addr, size_t len);
void verbs_dereg(struct shim_mr *mr);
/* The peer's: whether the request has succeeded. */
bool verbs_write(const struct shim_mr *mr, uint64_t offset, const void *bytes, uint32_t len);
bool verbs_read(const struct shim_mr *mr, uint64_t offset, void *bytes, uint32_t len);
bool verbs_add(const struct shim_mr *mr, uint64_t offset, uint64_t value, uint64_t *before);
void verbs_open(void);
void verbs_shut(void);

#endif
