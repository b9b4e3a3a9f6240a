/* SPDX-License-Identifier: BSD-3-Clause */
#include "datagrams.h"

uint64_t dgram_counter(struct qp_end *e, const char *name)
{
	struct sdr_qp_status status;

	sdr_qp_status(e->qp, &status);
	return sp_nic_context_counter(e->nic, status.id, name);
}

uint64_t dgram_lost(struct qp_end *e)
{
	struct sdr_qp_status status;

	sdr_qp_status(e->qp, &status);
	return status.control_lost;
}

/* A datagram whose bytes all follow from its number and length. */
static void fill(uint8_t *bytes, uint32_t number, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		bytes[i] = i < 4 ? (uint8_t)(number >> 8 * i) : (uint8_t)(number * 13 + len + i);
}

int dgram_send(struct qp_end *e, uint32_t number, uint32_t len)
{
	uint8_t bytes[SDR_CONTROL_BYTES];

	fill(bytes, number, len);
	int rc = sdr_control_send(e->qp, bytes, len);
	memset(bytes, 0xDD, sizeof(bytes)); /* ours again */
	return rc;
}

uint32_t dgram_recv(struct qp_end *e, uint32_t *len)
{
	uint8_t bytes[SDR_CONTROL_BYTES], expected[SDR_CONTROL_BYTES];
	const int got = sdr_control_recv(e->qp, bytes, sizeof(bytes));
	uint32_t number = 0;

	if (got < 0) {
		*len = UINT32_MAX;
		return UINT32_MAX;
	}
	memcpy(&number, bytes, got < 4 ? (size_t)got : 4);
	fill(expected, number, (uint32_t)got);
	CU_ASSERT_EQUAL(memcmp(bytes, expected, (size_t)got), 0);
	*len = (uint32_t)got;
	return number;
}
