/* SPDX-License-Identifier: BSD-3-Clause */
/* Extended completion queues: ibv_start_poll, ibv_next_poll, ibv_end_poll, ibv_wc_read_*. Between start and end the
 * queue belongs to one thread. */
#include "shim.h"

#include <time.h>

static struct shim_cq *cq_of(struct ibv_cq_ex *ex)
{
	return (struct shim_cq *)ex;
}

static uint64_t nanoseconds(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int next_poll(struct ibv_cq_ex *ex)
{
	struct shim_cq *q = cq_of(ex);
	const int n = shim_poll_cq(&q->ibv, 1, &q->wc);

	if (n <= 0)
		return n ? -n : ENOENT;
	ex->wr_id = q->wc.wr_id;
	ex->status = q->wc.status;
	return 0;
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct shim_cq *q = cq_of(ex);
	int rc;

	if (attr && attr->comp_mask)
		return EINVAL;
	if (!q->single)
		pthread_mutex_lock(&q->reading);
	rc = next_poll(ex);
	if (rc && !q->single)
		pthread_mutex_unlock(&q->reading);
	return rc;
}

static void end_poll(struct ibv_cq_ex *ex)
{
	if (!cq_of(ex)->single)
		pthread_mutex_unlock(&cq_of(ex)->reading);
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->wc.opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->wc.vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->wc.byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->wc.imm_data;
}

static uint32_t read_qp_num(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->wc.qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->wc.src_qp;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->wc.wc_flags;
}

static uint32_t read_slid(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->wc.slid;
}

static uint8_t read_sl(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->wc.sl;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->wc.dlid_path_bits;
}

/* The NIC writes no times: that at which the completion is read. */
static uint64_t read_completion_ts(struct ibv_cq_ex *ex)
{
	(void)ex;
	return nanoseconds(CLOCK_MONOTONIC);
}

static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *ex)
{
	(void)ex;
	return nanoseconds(CLOCK_REALTIME);
}

void shim_cq_extend(struct shim_cq *q, uint64_t wc_flags)
{
	struct ibv_cq_ex *ex = &q->ex;

	ex->start_poll = start_poll;
	ex->next_poll = next_poll;
	ex->end_poll = end_poll;
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_wc_flags = read_wc_flags;
	if (wc_flags & IBV_WC_EX_WITH_BYTE_LEN)
		ex->read_byte_len = read_byte_len;
	if (wc_flags & IBV_WC_EX_WITH_IMM)
		ex->read_imm_data = read_imm_data;
	if (wc_flags & IBV_WC_EX_WITH_QP_NUM)
		ex->read_qp_num = read_qp_num;
	if (wc_flags & IBV_WC_EX_WITH_SRC_QP)
		ex->read_src_qp = read_src_qp;
	if (wc_flags & IBV_WC_EX_WITH_SLID)
		ex->read_slid = read_slid;
	if (wc_flags & IBV_WC_EX_WITH_SL)
		ex->read_sl = read_sl;
	if (wc_flags & IBV_WC_EX_WITH_DLID_PATH_BITS)
		ex->read_dlid_path_bits = read_dlid_path_bits;
	if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
		ex->read_completion_ts = read_completion_ts;
	if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
		ex->read_completion_wallclock_ns = read_completion_wallclock_ns;
}
