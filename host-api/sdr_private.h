/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of the sdr_ calls: sdr.c (contexts, QPs, connections). sdr_send.c, sdr_recv.c and sdr_control.c use it. */
#ifndef HOST_API_SDR_PRIVATE_H
#define HOST_API_SDR_PRIVATE_H

#include <errno.h>

#include "../handlers/wire/ec.h"
#include "../handlers/wire/roce.h"
#include "../handlers/wire/sdr.h"
#include "context.h"
#include "sdr.h"

struct sdr_context {
	struct sp_dev *dev;
	uint32_t channels, qps;
};

struct sdr_send {
	struct sdr_qp *qp; /* NULL: free */
	uint64_t message, length, segments;
	bool ended;
};

enum sdr_recv_phase { SDR_RECV_POSTED, SDR_RECV_RELEASING };

struct sdr_recv {
	struct sdr_qp *qp; /* NULL: free */
	uint64_t message, length;
	enum sdr_recv_phase phase;
};

struct sdr_qp {
	struct sdr_context *context;
	struct sp_dev *dev;
	uint32_t id;
	const uint8_t *area; /* the NIC writes it and is not trusted: the library checks all that it reads there */
	struct sp_sdr_layout layout;
	uint32_t workers; /* of the NIC: each has its own packet counters */
	struct sp_sdr_split split;
	struct sdr_qp_info info;
	struct sp_ec_shape code[SP_EC_CODES_MAX]; /* the first is the one in info */
	unsigned codes;				  /* 0: no erasure coding */
	uint32_t segments;
	uint64_t segments_issued, rate_bps;
	bool no_send, no_recv, implicit, connected;
	int error; /* sticky */
	uint64_t next_send, next_recv;
	struct sdr_send *sends; /* max_messages each */
	struct sdr_recv *recvs;

	struct sp_mr *parity_out, *parity_in; /* scratch memory of reliable_ec.c; NULL: none */

	/* datagrams; control and control_seen are NULL where there are none */
	uint32_t control_slots, control_bytes;
	struct sp_mr *control;	 /* slots for sending */
	uint64_t *control_seen;	 /* per slot of the area: `number` of the datagram taken last */
	uint64_t control_issued; /* handed to the NIC */
	uint64_t control_next;	 /* number of the next datagram, if none is lost */
	uint64_t control_taken, control_lost;
	uint64_t control_looked; /* datagrams received when all slots were last found empty */
};

#define SDR_AREA_LINE(qp, kind, index, field)                                                                          \
	((qp)->layout.kind + (uint64_t)(index)*64 + offsetof(struct sp_sdr_##kind##_status, field))

static inline enum sp_ec_code_kind sdr_ec_kind(const struct sdr_qp_info *info)
{
	return info->ec_code == SDR_CODE_XOR ? SP_EC_CODE_XOR : SP_EC_CODE_MDS;
}

static inline uint64_t sdr_ec_parity_bytes_of(const struct sdr_qp *qp, unsigned which, uint64_t len)
{
	return sp_ec_parity_bytes(qp->code[which].k, qp->code[which].m, len, qp->info.chunk_bytes);
}

static inline uint64_t sdr_area_read(const struct sdr_qp *qp, uint64_t offset)
{
	return __atomic_load_n((const uint64_t *)(const void *)(qp->area + offset), __ATOMIC_ACQUIRE);
}

#pragma GCC visibility push(hidden)
/* Handles events of the NIC. Returns 0 or the QP's sticky error. */
int sdr_qp_check(struct sdr_qp *qp);
#pragma GCC visibility pop

#endif
