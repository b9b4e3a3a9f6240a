/* SPDX-License-Identifier: BSD-3-Clause */
/* An RC QP of a measuring process, connected with that of its counterpart over BENCH_LINK, and a region of memory that
 * the peer may write to. */
#ifndef TESTBED_BENCH_PAIR_H
#define TESTBED_BENCH_PAIR_H

#include "../../host-api/rdma.h"

struct bench_pair {
	struct sp_dev *dev;
	struct sp_mr *mr;
	struct sp_rdma *rdma;
	struct sp_rdma_pd *pd;
	struct sp_rdma_cq *cq; /* with a channel: sp_rdma_cq_wait() works */
	struct sp_rdma_pair *qp;
	struct sp_rdma_mr *region; /* all of mr */
	uint64_t remote;	   /* the peer's region */
	uint32_t rkey;
};

/* All return 0 or -errno. Attaches to the NIC; `bytes` of memory, `send_wr` entries in the send queue and the CQ. Call
 * bench_pair_close() after an error, too. */
int bench_pair_open(struct bench_pair *pair, const char *nic, uint64_t bytes, uint32_t send_wr);
/* Both ends call it; when it returns, both can take packets. */
int bench_pair_meet(struct bench_pair *pair, uint32_t mtu);
void bench_pair_close(struct bench_pair *pair);

#endif
