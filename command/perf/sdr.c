/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle perf over SDR: messages that sr-nack makes reliable. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../../host-api/reliable.h"
#include "../transfer/words.h"
#include "end.h"

struct sdr_end {
	struct sdr_context *context;
	struct sdr_qp *qp;
	struct sdr_reliable *reliable;
	struct sp_mr *mr; /* depth messages to send, depth to receive */
	struct sdr_reliable_op *send[PERF_DEPTH_MOST], *recv[PERF_DEPTH_MOST]; /* message k is in place k % depth */
};

static int receive(struct perf_end *e, uint64_t k)
{
	struct sdr_end *s = e->own;

	return sdr_reliable_recv(s->reliable, s->mr, (e->depth + k % e->depth) * (uint64_t)e->size, e->size,
				 &s->recv[k % e->depth]);
}

static int open_end(struct perf_end *e, json_t *info)
{
	const struct sdr_qp_attr attr = {
		.chunk_bytes = 16384, .max_message_bytes = e->size, .max_messages = PERF_DEPTH_MOST};
	const struct sdr_reliable_attr reliable = {.scheme = SDR_SR_NACK, .timeout = SP_NEVER};
	struct sdr_end *s = e->own = calloc(1, sizeof(*s));
	struct sdr_qp_info own;
	int rc;

	if (!s)
		return perf_failed(e, "memory", -ENOMEM);
	rc = sdr_context_create(e->dev, NULL, &s->context);
	rc = rc ? rc : sdr_qp_create(s->context, &attr, &s->qp, NULL);
	if (rc)
		return perf_failed(e, "a QP of the NIC", rc);
	rc = sdr_reliable_open(s->qp, &reliable, &s->reliable);
	rc = rc ? rc : sdr_mr_alloc(s->context, 2ull * e->depth * e->size, &s->mr);
	for (uint32_t i = 0; !rc && i < e->depth; i++)
		rc = receive(e, i);
	if (rc)
		return perf_failed(e, "memory of the NIC", rc);
	rc = sdr_qp_info_get(s->qp, &own);
	return perf_failed(e, "QP",
			   rc								  ? rc
			   : json_object_set_new(info, "qp", talk_hex(&own, sizeof(own))) ? -ENOMEM
											  : 0);
}

static int connect_end(struct perf_end *e, const json_t *info)
{
	struct sdr_end *s = e->own;
	struct sdr_qp_info peer;
	int rc = talk_bytes(info, "qp", &peer, sizeof(peer), sizeof(peer), NULL);

	return perf_failed(e, "connecting", rc ? rc : sdr_qp_connect(s->qp, &peer));
}

static int post(struct perf_end *e)
{
	struct sdr_end *s = e->own;
	const uint64_t place = e->posted % e->depth;
	int rc;

	if (s->send[place])
		return -EAGAIN;
	rc = sdr_reliable_send(s->reliable, s->mr, place * e->size, e->size, 0, &s->send[place]);
	e->posted += !rc;
	return rc == -EAGAIN ? rc : perf_failed(e, "sending", rc);
}

/* 1: the operation has ended in order, and its handle is free. */
static int take(struct sdr_reliable_op **op, uint32_t size)
{
	const int rc = *op ? sdr_reliable_poll(*op) : -EAGAIN;
	struct sdr_reliable_op_status status;

	if (rc)
		return rc == -EAGAIN ? 0 : rc;
	sdr_reliable_op_status(*op, &status);
	if (status.length != size)
		return -EBADMSG;
	sdr_reliable_op_free(*op);
	*op = NULL;
	return 1;
}

static int progress(struct perf_end *e)
{
	struct sdr_end *s = e->own;
	int rc = sdr_reliable_progress(s->reliable, sp_clock());

	while (!rc && (rc = take(&s->send[e->sent % e->depth], e->size)) == 1) {
		e->sent++;
		rc = 0;
	}
	while (!rc && (rc = take(&s->recv[e->received % e->depth], e->size)) == 1) {
		rc = receive(e, e->received + e->depth);
		e->received++;
	}
	return perf_failed(e, "messages", rc);
}

static void close_end(struct perf_end *e)
{
	struct sdr_end *s = e->own;

	if (!s)
		return;
	if (s->reliable)
		sdr_reliable_close(s->reliable, 0);
	for (const sp_time until = sp_clock() + SP_SEC; s->qp && sdr_qp_destroy(s->qp) && sp_clock() < until;)
		sp_progress(e->dev, sp_clock());
	if (s->mr)
		sdr_mr_dereg(s->mr);
	if (s->context)
		sdr_context_destroy(s->context);
	free(s);
	e->own = NULL;
}

const struct perf_op perf_sdr = {"sdr", open_end, connect_end, post, progress, close_end};
