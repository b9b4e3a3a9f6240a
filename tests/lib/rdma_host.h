/* SPDX-License-Identifier: BSD-3-Clause */
/* An application of verbs, and a NIC that the test makes up: it has the queues' memory, and does what the test says. */
#ifndef TESTS_RDMA_HOST_H
#define TESTS_RDMA_HOST_H

#include <sys/socket.h>
#include "../../host-api/device.h"
#include "../../host-api/rdma.h"
#include "suite.h"

#define RDMA_CONTEXT 9u
#define RDMA_QP	     0x10000u /* the first one */
#define RDMA_WORKER  2u

extern struct rdma_fake {
	struct sp_dev dev; /* first */
	char set[1024];
	bool full, gone;
	unsigned regions, bells; /* bells: commands that were taken */
	struct sp_command bell;	 /* the latest */
	struct sp_event event[64];
	unsigned events;
	/* control requests */
	uint32_t op, qp;
	bool service;
	uint8_t in[2048];
	uint32_t in_len;
	int status;		/* what they return */
	int short_by;		/* bytes that the answer lacks */
	uint32_t next_id;	/* of what is made next */
	struct sp_rdma_qp made; /* QP_CREATE's answer, if not 0 */
	struct {
		struct sp_cm_event event;
		uint8_t private_data[SP_RDMA_PRIVATE];
	} cm[8]; /* that TAKE gives, from the first on */
	uint32_t cm_len[8];
	unsigned cms, ended; /* ended: SP_CM_DESTROY */
	struct sp_rdma_limits limits;
	/* of the latest objects made */
	struct sp_rdma_cq_create cq;
	struct sp_rdma_qp_create pair;
	struct sp_rdma_qp_attr rtr, rts; /* what the latest change to these states has said */
	struct sp_rdma_srq_create srq;
	uint32_t slot; /* completions written */
} rdma_f;

extern struct sp_rdma *rdma_r;
extern struct sp_rdma_pd *rdma_pd;
extern struct sp_rdma_cq *rdma_cq;
extern struct sp_rdma_pair *rdma_qp;

void rdma_host_fresh(void);
void rdma_host_open(
	void); /* ... and context, PD, CQ of 4 entries, QP: RC in RTS, queues of 4, 2 SGEs, 64 bytes inline */
void rdma_host_shut(void);
void rdma_host_event(uint16_t type, uint64_t cookie, uint64_t arg0);
void rdma_host_complete(uint64_t wr_id, uint8_t status);
uint8_t *rdma_host_memory(uint32_t id, uint64_t offset);
struct sp_rdma_queue *rdma_host_queue(bool send);
struct sp_rdma_wqe *rdma_host_wqe(uint32_t index);
struct sp_rdma_rqe *rdma_host_rqe(uint32_t index);
struct sp_rdma_cq_head *rdma_host_cq(void);

#endif
