/* SPDX-License-Identifier: BSD-3-Clause */
/* SDR for applications: receiving. */
#include "sdr_private.h"

#include <string.h>

static uint64_t sdr_recv_line(const struct sdr_recv *recv, size_t field)
{
	const struct sdr_qp *qp = recv->qp;

	return sdr_area_read(qp, qp->layout.recv + recv->message % qp->info.max_messages * 64 + field);
}
#define SDR_RECV_LINE(recv, field) sdr_recv_line(recv, offsetof(struct sp_sdr_recv_status, field))

static bool sdr_recv_open(const struct sdr_recv *recv)
{
	return SDR_RECV_LINE(recv, message) == recv->message + 1;
}

static bool sdr_recv_whole(const struct sdr_recv *recv)
{
	return sdr_recv_open(recv) && SDR_RECV_LINE(recv, state) & SP_SDR_COMPLETE;
}

/* The posted length until the NIC announces another one, and never more than that. */
static uint64_t sdr_recv_length(const struct sdr_recv *recv, bool *known)
{
	const uint64_t length = sdr_recv_open(recv) ? SDR_RECV_LINE(recv, length) : 0;

	*known = length & SP_SDR_LENGTH_FIXED && (length & ~SP_SDR_LENGTH_FIXED) <= recv->length;
	return *known ? length & ~SP_SDR_LENGTH_FIXED : recv->length;
}

int sdr_recv_post(struct sdr_qp *qp, struct sp_mr *mr, uint64_t offset, uint64_t len, struct sdr_recv **recv)
{
	struct sdr_recv *r = &qp->recvs[qp->next_recv % qp->info.max_messages];
	int rc = sdr_qp_check(qp);

	if (rc)
		return rc;
	if (qp->no_recv)
		return -EOPNOTSUPP;
	if (len > qp->info.max_message_bytes)
		return -EINVAL;
	rc = sp_mr_check(qp->dev, mr, offset, len);
	if (rc)
		return rc;
	if (r->qp)
		return -EAGAIN;

	const struct sp_command command = {
		.op = SP_CMD_POST, .context = qp->id, .cookie = qp->next_recv, .arg = {mr->id, offset, len}};

	rc = sp_command_post(qp->dev, &command);
	if (rc)
		return rc;
	*r = (struct sdr_recv){.qp = qp, .message = qp->next_recv++, .length = len};
	*recv = r;
	return 0;
}

int sdr_recv_bitmap_get(struct sdr_recv *recv, const uint64_t **bitmap, uint64_t *chunks)
{
	struct sdr_qp *qp = recv->qp;
	const uint64_t slot = recv->message % qp->info.max_messages;
	bool known;

	*bitmap = (const uint64_t *)(const void *)(qp->area + qp->layout.bitmap + slot * qp->layout.bitmap_stride);
	*chunks = sp_sdr_units(sdr_recv_length(recv, &known), qp->info.chunk_bytes);
	return sdr_qp_check(qp);
}

int sdr_recv_packets_get(struct sdr_recv *recv, uint64_t chunk, uint64_t *words, size_t max, uint64_t *packets)
{
	struct sdr_qp *qp = recv->qp;
	const struct sp_command command = {.op = SP_SDR_CMD_PACKETS,
					   .flags = SP_CMD_REPLY,
					   .context = qp->id,
					   .cookie = recv->message,
					   .arg = {chunk}};
	struct sp_event result = {.status = 0};
	uint64_t count;
	int rc = sdr_qp_check(qp);

	if (rc)
		return rc;
	if (recv->phase != SDR_RECV_POSTED)
		return -EINVAL;
	rc = sp_command_call(qp->dev, &command, &result);
	if (rc)
		return rc == -ENOENT ? -EAGAIN : rc;
	count = (result.arg[0] + 63) / 64;
	if (!count || count > (qp->layout.bytes - qp->layout.packets) / 8)
		return -EIO;
	if (count > max)
		return -ENOSPC;
	for (uint64_t i = 0; i < count; i++)
		words[i] = sdr_area_read(qp, qp->layout.packets + i * 8);
	*packets = result.arg[0];
	return 0;
}

int sdr_recv_imm_get(struct sdr_recv *recv, uint32_t *immediate, uint32_t *mask)
{
	const int rc = sdr_qp_check(recv->qp);
	const bool complete =
		sdr_recv_whole(recv); /* before the immediate: it has arrived when the receive is complete */
	const uint64_t both = sdr_recv_open(recv) ? SDR_RECV_LINE(recv, immediate) : 0;

	*immediate = (uint32_t)both;
	if (mask)
		*mask = (uint32_t)(both >> 32);
	if (rc)
		return rc;
	if (both >> 32 == UINT32_MAX)
		return 0;
	return complete || !recv->qp->split.user ? -ENODATA : -EAGAIN;
}

/* Workers update their packet counters at the end of a burst. By then another worker may have found the message
 * complete. Without erasure coding only packets complete a message, so the number is known. */
static uint64_t sdr_recv_packets(const struct sdr_recv *recv, bool complete, uint64_t length)
{
	const struct sdr_qp *qp = recv->qp;
	const struct sdr_qp_info *i = &qp->info;

	if (complete && !i->ec_code)
		return sp_sdr_units(length, i->mtu);

	uint64_t packets = SDR_RECV_LINE(recv, packets);

	for (uint32_t w = 0; qp->workers > 1 && w < qp->workers; w++)
		packets +=
			sdr_area_read(qp, sp_sdr_count(&qp->layout, recv->message % i->max_messages, w, qp->workers));
	return packets;
}

int sdr_recv_status(struct sdr_recv *recv, struct sdr_recv_status *status)
{
	const bool open = sdr_recv_open(recv), complete = sdr_recv_whole(recv);
	bool known;
	const uint64_t length = sdr_recv_length(recv, &known);

	*status = (struct sdr_recv_status){.message = recv->message,
					   .open = open,
					   .complete = complete,
					   .length_known = known,
					   .length = length,
					   .packets = open ? sdr_recv_packets(recv, complete, length) : 0};
	return sdr_qp_check(recv->qp);
}

int sdr_recv_test(struct sdr_recv *recv)
{
	int rc;

	if (!recv->qp->error && sdr_recv_whole(recv)) /* its own line says so: no event is looked at */
		return 0;
	rc = sdr_qp_check(recv->qp);
	return rc ? rc : -EAGAIN;
}

int sdr_recv_complete(struct sdr_recv *recv)
{
	struct sdr_qp *qp = recv->qp;
	int rc = sdr_qp_check(qp);

	if (rc)
		return rc;
	if (recv->phase == SDR_RECV_POSTED && SDR_RECV_LINE(recv, released) != recv->message + 1) {
		const struct sp_command command = {.op = SP_CMD_COMPLETE, .context = qp->id, .cookie = recv->message};

		rc = sp_command_post(qp->dev, &command);
		if (rc)
			return rc;
		recv->phase = SDR_RECV_RELEASING;
	}
	if (SDR_RECV_LINE(recv, released) == recv->message + 1) {
		recv->qp = NULL;
		return 0;
	}
	return -EAGAIN;
}

/* ---- waiting ---- */
struct sdr_recv_waiter {
	struct sdr_recv *recv;
	uint64_t *seen; /* NULL: all chunks */
};

static int sdr_recv_poll(void *arg)
{
	const struct sdr_recv_waiter *w = arg;
	const uint64_t *bitmap;
	uint64_t chunks, count = 0;
	int rc;

	if (!w->seen)
		return sdr_recv_test(w->recv);
	rc = sdr_recv_bitmap_get(w->recv, &bitmap, &chunks);
	if (rc)
		return rc;
	for (uint64_t i = 0; i < chunks; i += 64)
		count += (uint64_t)__builtin_popcountll(__atomic_load_n(&bitmap[i / 64], __ATOMIC_ACQUIRE));
	if (count <= *w->seen)
		return -EAGAIN;
	*w->seen = count;
	return 0;
}

int sdr_recv_wait(struct sdr_recv *recv, enum sdr_wait what, uint64_t *seen, sp_time timeout)
{
	struct sdr_recv_waiter w = {recv, what == SDR_WAIT_ANY ? seen : NULL};

	if (what == SDR_WAIT_ANY && !seen)
		return -EINVAL;
	return sp_wait_for(recv->qp->dev, SP_ARM_RECEIVE, sdr_recv_poll, &w, timeout);
}

static int sdr_recv_complete_any(void *recv)
{
	return sdr_recv_complete(recv);
}

int sdr_recv_complete_wait(struct sdr_recv *recv, sp_time timeout)
{
	return sp_wait_until(recv->qp->dev, sdr_recv_complete_any, recv, timeout);
}
