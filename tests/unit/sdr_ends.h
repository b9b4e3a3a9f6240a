/* SPDX-License-Identifier: BSD-3-Clause */
/* Two NICs with a perfect link between them (ends.h) and an SDR queue pair on each. */
#ifndef TESTS_SDR_ENDS_H
#define TESTS_SDR_ENDS_H

#include "../../host-api/sdr.h"
#include "ends.h"

#define MTU   1024u
#define CHUNK 4096u
#define ROOM  (1u << 20)

struct end {
	struct sp_nic *nic;
	struct sp_dev *dev;
	struct sdr_context *context;
	struct sdr_qp *qp;
	struct sp_mr *mr;
	uint8_t *bytes;
};

static struct end a, b;

static inline void make_qp(struct end *e, unsigned index, const struct sdr_qp_attr *attr)
{
	struct sp_error error = {.text = ""};

	*e = (struct end){.nic = ends[index].nic, .dev = ends[index].dev};
	if (sdr_context_create(e->dev, NULL, &e->context) || sdr_mr_alloc(e->context, ROOM, &e->mr) ||
	    sdr_qp_create(e->context, attr, &e->qp, &error))
		bail(&error);
	e->bytes = e->mr->addr;
}

static const struct sdr_qp_attr usual = {
	.mtu = MTU, .chunk_bytes = CHUNK, .max_message_bytes = 65536, .max_messages = 4, .nonce = 5};

static inline void make(const struct sdr_qp_attr *attr_a, const struct sdr_qp_attr *attr_b)
{
	ends_make();
	make_qp(&a, 0, attr_a);
	make_qp(&b, 1, attr_b);
	for (uint32_t i = 0; i < ROOM; i++)
		a.bytes[i] = (uint8_t)(i * 7 + i / 1021);
}

static inline void join(void)
{
	struct sdr_qp_info ia, ib;

	sdr_qp_info_get(a.qp, &ia);
	sdr_qp_info_get(b.qp, &ib);
	CU_ASSERT_EQUAL_FATAL(sdr_qp_connect(a.qp, &ib), 0);
	CU_ASSERT_EQUAL_FATAL(sdr_qp_connect(b.qp, &ia), 0);
}

/* What was posted before has been run: a call comes after it. */
static inline void settle(struct end *e)
{
	struct sdr_qp_status status;
	struct sp_command nothing = {.op = SP_CMD_QUERY};

	sdr_qp_status(e->qp, &status);
	nothing.context = status.id;
	run(SP_MS);
	sp_command_call(e->dev, &nothing, NULL);
}

static inline uint64_t packets_of(struct sdr_recv *r)
{
	struct sdr_recv_status status;

	sdr_recv_status(r, &status);
	return status.packets;
}

static inline void complete(struct sdr_recv *r)
{
	if (mode == VIRTUAL) {
		CU_ASSERT_EQUAL(sdr_recv_complete(r), -EAGAIN);
		run(SP_MS);
		CU_ASSERT_EQUAL(sdr_recv_complete(r), 0);
	} else {
		CU_ASSERT_EQUAL(sdr_recv_complete_wait(r, PATIENCE), 0);
	}
}

static inline void unmake(void)
{
	for (int i = 0; i < 2; i++) {
		struct end *e = i ? &b : &a;

		CU_ASSERT_EQUAL(sdr_context_destroy(e->context), -EBUSY);
		CU_ASSERT_EQUAL(sdr_qp_destroy(e->qp), 0);
		CU_ASSERT_EQUAL(sdr_mr_dereg(e->mr), 0); /* nothing holds it any more */
		CU_ASSERT_EQUAL(sdr_context_destroy(e->context), 0);
	}
	ends_unmake();
}

#endif
