/* SPDX-License-Identifier: BSD-3-Clause */
/* RC QPs of measurements, connected without the connection manager. */
#ifndef TESTBED_BENCH_CONNECT_H
#define TESTBED_BENCH_CONNECT_H

#include <string.h>

#include "../../host-api/rdma.h"

/* From RESET to RTS, PSNs from 0 on. 0 or -errno. */
static inline int bench_connect(struct sp_rdma_pair *qp, const uint8_t ip[16], uint32_t peer, uint32_t mtu)
{
	struct sp_rdma_qp_attr a = {.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_PKEY | SP_RDMA_QP_PORT | SP_RDMA_QP_ACCESS,
				    .state = SP_RDMA_INIT,
				    .access = SP_RDMA_LOCAL_WRITE | SP_RDMA_REMOTE_WRITE,
				    .dest_qp = peer,
				    .path_mtu = mtu,
				    .max_rd_atomic = 1,
				    .max_dest_rd_atomic = 1,
				    .min_rnr_timer = 12,
				    .timeout = 18,
				    .retry_cnt = 7,
				    .rnr_retry = 7};
	int r = sp_rdma_qp_modify(qp, &a);

	memcpy(a.ip, ip, sizeof(a.ip));
	a.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_AV | SP_RDMA_QP_PATH_MTU | SP_RDMA_QP_DEST_QP | SP_RDMA_QP_RQ_PSN |
		 SP_RDMA_QP_MAX_DEST_RD | SP_RDMA_QP_MIN_RNR;
	a.state = SP_RDMA_RTR;
	if (!r)
		r = sp_rdma_qp_modify(qp, &a);
	a.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_SQ_PSN | SP_RDMA_QP_TIMEOUT | SP_RDMA_QP_RETRY_CNT |
		 SP_RDMA_QP_RNR_RETRY | SP_RDMA_QP_MAX_RD;
	a.state = SP_RDMA_RTS;
	return r ? r : sp_rdma_qp_modify(qp, &a);
}

#endif
