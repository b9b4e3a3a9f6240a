/* SPDX-License-Identifier: BSD-3-Clause */
/* SDR for applications: datagrams on the control QP. */
#include "sdr_private.h"

#include <string.h>

#define SDR_CONTROL_TRIES 4 /* to read a slot that is written at the same time */

static_assert(SDR_CONTROL_BYTES == SP_SDR_DATAGRAM_MAX, "the same");

static uint64_t sdr_control_word(const struct sdr_qp *qp, size_t field)
{
	return sdr_area_read(qp, qp->layout.connection + field);
}

int sdr_control_send(struct sdr_qp *qp, const void *bytes, uint32_t len)
{
	const uint64_t stride = (qp->control_bytes + 63) / 64 * 64;
	int rc = sdr_qp_check(qp);

	if (rc)
		return rc;
	if (!qp->control)
		return -EOPNOTSUPP;
	if (!qp->connected)
		return -ENOTCONN;
	if (len > qp->control_bytes)
		return -EMSGSIZE;
	if (qp->control_issued - sdr_control_word(qp, offsetof(struct sp_sdr_connection, datagrams_sent)) >=
	    qp->control_slots)
		return -EAGAIN;

	const struct sp_command command = {
		.op = SP_SDR_CMD_DATAGRAM,
		.context = qp->id,
		.cookie = qp->control_issued,
		.arg = {qp->control->id, qp->control_issued % qp->control_slots * stride, len}};

	if (len)
		memcpy((uint8_t *)qp->control->addr + command.arg[1], bytes, len);
	rc = sp_command_post(qp->dev, &command);
	qp->control_issued += !rc;
	return rc;
}

/* The bytes may change during the copy. The read of `number` afterwards (acquire) detects that. ThreadSanitizer would
 * report a race. */
__attribute__((no_sanitize("thread"), noinline)) static void sdr_control_copy(uint8_t *to, const uint8_t *from,
									      uint64_t len)
{
	for (; len >= 8; len -= 8, to += 8, from += 8) {
		const uint64_t word = __atomic_load_n((const uint64_t *)(const void *)from, __ATOMIC_ACQUIRE);

		memcpy(to, &word, 8);
	}
	for (; len; len--, to++, from++)
		*to = __atomic_load_n(from, __ATOMIC_ACQUIRE);
}

/* Reads a slot. Returns its length, -EAGAIN: nothing new, or -EMSGSIZE. */
static int sdr_control_take(struct sdr_qp *qp, uint32_t slot, void *bytes, uint32_t room)
{
	const uint64_t at = qp->layout.datagrams + slot * qp->layout.datagram_stride;

	for (int i = 0; i < SDR_CONTROL_TRIES; i++) {
		const uint64_t number = sdr_area_read(qp, at + offsetof(struct sp_sdr_datagram, number));
		uint64_t length;

		if (number & 1 || number <= qp->control_seen[slot])
			return -EAGAIN;
		length = sdr_area_read(qp, at + offsetof(struct sp_sdr_datagram, length));
		if (length <= room && length <= qp->control_bytes)
			sdr_control_copy(bytes, qp->area + at + sizeof(struct sp_sdr_datagram), length);
		if (sdr_area_read(qp, at + offsetof(struct sp_sdr_datagram, number)) != number)
			continue;
		if (length > qp->control_bytes) /* cannot be, but the NIC is not trusted */
			return -EIO;
		if (length > room)
			return -EMSGSIZE;
		qp->control_seen[slot] = number;
		qp->control_next = number / 2;
		qp->control_taken++;
		return (int)length;
	}
	return -EAGAIN;
}

int sdr_control_recv(struct sdr_qp *qp, void *bytes, uint32_t room)
{
	const int rc = sdr_qp_check(qp);
	uint64_t come, lost;

	if (rc)
		return rc;
	if (!qp->control)
		return -EOPNOTSUPP;
	come = sdr_control_word(qp, offsetof(struct sp_sdr_connection, datagrams));
	if (come == qp->control_looked)
		return -EAGAIN;
	/* Usually the next datagram is in the next slot. If the NIC has overwritten it, the oldest one is elsewhere,
	 * and there may be gaps. */
	if (come > qp->control_slots && qp->control_next < come - qp->control_slots)
		qp->control_next = come - qp->control_slots;
	for (uint32_t i = 0; i < qp->control_slots; i++) {
		const uint32_t slot = (uint32_t)((qp->control_next + i) % qp->control_slots);
		const int taken = sdr_control_take(qp, slot, bytes, room);

		if (taken != -EAGAIN)
			return taken;
	}
	/* All datagrams received by then were taken or overwritten. */
	qp->control_looked = come;
	lost = come > qp->control_taken ? come - qp->control_taken : 0;
	qp->control_lost = lost > qp->control_lost ? lost : qp->control_lost;
	return -EAGAIN;
}
