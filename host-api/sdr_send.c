/* SPDX-License-Identifier: BSD-3-Clause */
/* SDR for applications: sending. */
#include "sdr_private.h"

/* A free handle for another message, or NULL. */
static struct sdr_send *sdr_send_free(struct sdr_qp *qp)
{
	struct sdr_send *s = &qp->sends[qp->next_send % qp->info.max_messages];

	return s->qp ? NULL : s;
}

static int sdr_send_ready(struct sdr_qp *qp)
{
	int rc = sdr_qp_check(qp);

	if (rc)
		return rc;
	if (qp->no_send)
		return -EOPNOTSUPP;
	return qp->connected ? 0 : -ENOTCONN;
}

/* The library counts the NIC's segments, so that the NIC never refuses one. */
static bool sdr_send_full(const struct sdr_qp *qp)
{
	const uint64_t done = sdr_area_read(qp, qp->layout.connection + offsetof(struct sp_sdr_connection, segments));

	return qp->segments_issued - done >= qp->segments;
}

static int sdr_send_begin(struct sdr_qp *qp, struct sdr_send *s, struct sp_command *command, struct sdr_send **out)
{
	int rc;

	command->context = qp->id;
	command->cookie = qp->next_send;
	rc = sp_command_post(qp->dev, command);
	if (rc)
		return rc;
	*s = (struct sdr_send){.qp = qp, .message = qp->next_send++, .length = command->arg[2]};
	*out = s;
	return 0;
}

int sdr_send_post(struct sdr_qp *qp, struct sp_mr *mr, uint64_t offset, uint64_t len, uint32_t immediate,
		  struct sdr_send **send)
{
	struct sp_command command = {.op = SP_SDR_CMD_SEND, .arg = {mr ? mr->id : 0, offset, len, immediate}};
	struct sdr_send *s;
	int rc = sdr_send_ready(qp);

	if (rc)
		return rc;
	if (len > qp->info.max_message_bytes)
		return -EINVAL;
	rc = len ? sp_mr_check(qp->dev, mr, offset, len) : 0;
	if (rc)
		return rc;
	s = sdr_send_free(qp);
	if (!s || sdr_send_full(qp))
		return -EAGAIN;
	rc = sdr_send_begin(qp, s, &command, send);
	if (rc)
		return rc;
	s->ended = true;
	s->segments = 1;
	qp->segments_issued++;
	return 0;
}

uint64_t sdr_ec_parity_bytes(const struct sdr_qp *qp, uint64_t len)
{
	return qp->codes ? sdr_ec_parity_bytes_of(qp, 0, len) : 0;
}

unsigned sdr_ec_codes(const struct sdr_qp *qp, struct sdr_ec codes[SDR_EC_CODES])
{
	for (unsigned i = 0; i < qp->codes; i++)
		codes[i] = (struct sdr_ec){(enum sdr_code)qp->info.ec_code, qp->code[i].k, qp->code[i].m};
	return qp->codes;
}

int sdr_send_parity(struct sdr_qp *qp, struct sp_mr *mr, uint64_t offset, uint64_t len, struct sp_mr *scratch,
		    uint64_t scratch_offset, struct sdr_send **send)
{
	return sdr_send_parity_of(qp, 0, mr, offset, len, scratch, scratch_offset, send);
}

int sdr_send_parity_of(struct sdr_qp *qp, unsigned which, struct sp_mr *mr, uint64_t offset, uint64_t len,
		       struct sp_mr *scratch, uint64_t scratch_offset, struct sdr_send **send)
{
	const uint64_t parity = which < qp->codes ? sdr_ec_parity_bytes_of(qp, which, len) : 0;
	struct sp_command command = {
		.op = SP_EC_CMD_PARITY,
		.arg = {mr ? mr->id : 0, offset, len, scratch ? scratch->id : 0, scratch_offset, which}};
	struct sdr_send *s;
	int rc = sdr_send_ready(qp);

	if (rc)
		return rc;
	if (!qp->codes)
		return -EOPNOTSUPP;
	if (qp->next_send % 2 == 0 || which >= qp->codes || len > qp->info.max_message_bytes ||
	    parity > qp->info.max_message_bytes)
		return -EINVAL;
	rc = len ? sp_mr_check(qp->dev, mr, offset, len) : 0;
	rc = rc || !len ? rc : sp_mr_check(qp->dev, scratch, scratch_offset, parity);
	if (rc)
		return rc;
	s = sdr_send_free(qp);
	if (!s || sdr_send_full(qp))
		return -EAGAIN;
	rc = sdr_send_begin(qp, s, &command, send);
	if (rc)
		return rc;
	s->length = parity;
	s->ended = true;
	s->segments = 1;
	qp->segments_issued++;
	return 0;
}

int sdr_send_stream_start(struct sdr_qp *qp, uint64_t length, uint32_t immediate, struct sdr_send **send)
{
	struct sp_command command = {.op = SP_SDR_CMD_START, .arg = {[2] = length, immediate}};
	struct sdr_send *s;
	int rc = sdr_send_ready(qp);

	if (rc)
		return rc;
	if (length > qp->info.max_message_bytes)
		return -EINVAL;
	s = sdr_send_free(qp);
	return s ? sdr_send_begin(qp, s, &command, send) : -EAGAIN;
}

int sdr_send_stream_continue(struct sdr_send *send, struct sp_mr *mr, uint64_t offset, uint64_t len, uint64_t at)
{
	struct sdr_qp *qp = send->qp;
	int rc = sdr_send_ready(qp);

	if (rc)
		return rc;
	if (send->ended || (!len && send->length) || at > send->length || len > send->length - at ||
	    at % qp->info.mtu || (len % qp->info.mtu && len != send->length - at))
		return -EINVAL;
	rc = len ? sp_mr_check(qp->dev, mr, offset, len) : 0;
	if (rc)
		return rc;
	if (sdr_send_full(qp))
		return -EAGAIN;

	const struct sp_command command = {.op = SP_SDR_CMD_CONTINUE,
					   .context = qp->id,
					   .cookie = send->message,
					   .arg = {mr ? mr->id : 0, offset, len, at}};

	rc = sp_command_post(qp->dev, &command);
	if (rc)
		return rc;
	send->segments++;
	qp->segments_issued++;
	return 0;
}

int sdr_send_stream_end(struct sdr_send *send)
{
	const struct sp_command command = {.op = SP_SDR_CMD_END, .context = send->qp->id, .cookie = send->message};
	int rc = sdr_send_ready(send->qp);

	if (rc)
		return rc;
	if (send->ended)
		return -EINVAL;
	rc = sp_command_post(send->qp->dev, &command);
	send->ended = !rc;
	return rc;
}

int sdr_send_poll(struct sdr_send *send)
{
	struct sdr_qp *qp = send->qp;
	const uint64_t slot = send->message % qp->info.max_messages;
	const int rc = sdr_qp_check(qp);

	if (rc)
		return rc;
	if (sdr_area_read(qp, SDR_AREA_LINE(qp, send, slot, released)) == send->message + 1) {
		send->qp = NULL;
		return 0;
	}
	if (!send->ended && sdr_area_read(qp, SDR_AREA_LINE(qp, send, slot, message)) == send->message + 1 &&
	    sdr_area_read(qp, SDR_AREA_LINE(qp, send, slot, segments)) == send->segments)
		return 0;
	return -EAGAIN;
}

uint64_t sdr_send_message(const struct sdr_send *send)
{
	return send->message;
}

static int sdr_send_poll_any(void *send)
{
	return sdr_send_poll(send);
}

int sdr_send_wait(struct sdr_send *send, sp_time timeout)
{
	return sp_wait_until(send->qp->dev, sdr_send_poll_any, send, timeout);
}
