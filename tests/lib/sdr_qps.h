/* SPDX-License-Identifier: BSD-3-Clause */
/* Two NICs with a perfect link (two_nics.h) and an SDR queue pair on each. */
#ifndef TESTS_SDR_QPS_H
#define TESTS_SDR_QPS_H

#include "../../host-api/sdr.h"
#include "two_nics.h"

#define MTU   1024u
#define CHUNK 4096u
#define ROOM  (1u << 20)

struct qp_end {
	struct sp_nic *nic;
	struct sp_dev *dev;
	struct sdr_context *context;
	struct sdr_qp *qp;
	struct sp_mr *mr;
	uint8_t *bytes;
};

extern struct qp_end qp_a, qp_b;
extern const struct sdr_qp_attr qps_usual;
void qps_make(const struct sdr_qp_attr *attr_a, const struct sdr_qp_attr *attr_b);
void qps_join(void);
/* What was posted before has been run: a call comes after it. */
void qps_settle(struct qp_end *e);
uint64_t qps_packets_of(struct sdr_recv *r);
void qps_complete(struct sdr_recv *r);
void qps_unmake(void);

#endif
