/* SPDX-License-Identifier: BSD-3-Clause */
#include "sdr_qps.h"

struct qp_end qp_a, qp_b;

static void make_qp(struct qp_end *e, unsigned index, const struct sdr_qp_attr *attr)
{
	struct sp_error error = {.text = ""};

	*e = (struct qp_end){.nic = two_ends[index].nic, .dev = two_ends[index].dev};
	if (sdr_context_create(e->dev, NULL, &e->context) || sdr_mr_alloc(e->context, ROOM, &e->mr) ||
	    sdr_qp_create(e->context, attr, &e->qp, &error))
		two_bail(&error);
	e->bytes = e->mr->addr;
}

const struct sdr_qp_attr qps_usual = {
	.mtu = MTU, .chunk_bytes = CHUNK, .max_message_bytes = 65536, .max_messages = 4, .nonce = 5};

void qps_make(const struct sdr_qp_attr *attr_a, const struct sdr_qp_attr *attr_b)
{
	two_make();
	make_qp(&qp_a, 0, attr_a);
	make_qp(&qp_b, 1, attr_b);
	for (uint32_t i = 0; i < ROOM; i++)
		qp_a.bytes[i] = (uint8_t)(i * 7 + i / 1021);
}

void qps_join(void)
{
	struct sdr_qp_info ia, ib;

	sdr_qp_info_get(qp_a.qp, &ia);
	sdr_qp_info_get(qp_b.qp, &ib);
	CU_ASSERT_EQUAL_FATAL(sdr_qp_connect(qp_a.qp, &ib), 0);
	CU_ASSERT_EQUAL_FATAL(sdr_qp_connect(qp_b.qp, &ia), 0);
}

void qps_settle(struct qp_end *e)
{
	struct sdr_qp_status status;
	struct sp_command nothing = {.op = SP_CMD_QUERY};

	sdr_qp_status(e->qp, &status);
	nothing.context = status.id;
	two_run(SP_MS);
	sp_command_call(e->dev, &nothing, NULL);
}

uint64_t qps_packets_of(struct sdr_recv *r)
{
	struct sdr_recv_status status;

	sdr_recv_status(r, &status);
	return status.packets;
}

void qps_complete(struct sdr_recv *r)
{
	if (two_mode == VIRTUAL) {
		CU_ASSERT_EQUAL(sdr_recv_complete(r), -EAGAIN);
		two_run(SP_MS);
		CU_ASSERT_EQUAL(sdr_recv_complete(r), 0);
	} else {
		CU_ASSERT_EQUAL(sdr_recv_complete_wait(r, PATIENCE), 0);
	}
}

void qps_unmake(void)
{
	for (int i = 0; i < 2; i++) {
		struct qp_end *e = i ? &qp_b : &qp_a;

		CU_ASSERT_EQUAL(sdr_context_destroy(e->context), -EBUSY);
		CU_ASSERT_EQUAL(sdr_qp_destroy(e->qp), 0);
		CU_ASSERT_EQUAL(sdr_mr_dereg(e->mr), 0); /* nothing holds it any more */
		CU_ASSERT_EQUAL(sdr_context_destroy(e->context), 0);
	}
	two_unmake();
}
