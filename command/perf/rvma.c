/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle perf over RVMA: puts. A message in flight has a mailbox of its own, so that puts that overtake each other
 * never meet in one buffer. */
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "../../host-api/rvma.h"
#include "../transfer/words.h"
#include "end.h"

#define BUFFERS 4 /* of a mailbox: a sender does not wait for them to be posted again */

struct rvma_end {
	struct rvma *rvma;
	struct rvma_peer *peer;
	struct sp_mr *mr; /* depth messages to send, BUFFERS for each mailbox */
	struct rvma_window *window[PERF_DEPTH_MOST];
	struct rvma_op *op[PERF_DEPTH_MOST];
	uint64_t epoch[PERF_DEPTH_MOST]; /* completed buffers that have been counted */
	uint64_t key, peer_key;
};

static int post_buffer(struct perf_end *e, uint32_t mailbox, uint64_t k)
{
	struct rvma_end *v = e->own;
	const struct rvma_buffer buffer = {.mr = v->mr,
					   .offset = (e->depth + (uint64_t)mailbox * BUFFERS + k % BUFFERS) * e->size,
					   .size = e->size};

	return rvma_post_buffer(v->window[mailbox], &buffer);
}

static int open_end(struct perf_end *e, json_t *info)
{
	const struct rvma_attr attr = {
		.windows = e->depth, .buffers = 2 * BUFFERS * e->depth, .peers = 2, .ops = 2 * e->depth};
	const struct rvma_window_attr window = {.threshold = e->size, .type = RVMA_EPOCH_BYTES, .forget = true};
	struct rvma_end *v = e->own = calloc(1, sizeof(*v));
	struct rvma_window_attr with_key = window;
	struct rvma_address own;
	int rc;

	if (!v || getrandom(&v->key, sizeof(v->key), 0) != sizeof(v->key))
		return perf_failed(e, "memory", -ENOMEM);
	with_key.key = v->key;
	rc = rvma_open(e->dev, &attr, &v->rvma, NULL);
	if (rc)
		return perf_failed(e, "a context of the NIC", rc);
	rc = sp_mr_alloc(e->dev, (1ull + BUFFERS) * e->depth * e->size, &v->mr);
	for (uint32_t i = 0; !rc && i < e->depth; i++) {
		rc = rvma_init_window(v->rvma, i + 1, &with_key, &v->window[i]);
		for (uint64_t k = 0; !rc && k < BUFFERS; k++)
			rc = post_buffer(e, i, k);
	}
	if (rc)
		return perf_failed(e, "memory of the NIC", rc);
	rc = rvma_address_get(v->rvma, &own);
	rc = rc ? rc : json_object_set_new(info, "address", talk_hex(&own, sizeof(own))) ? -ENOMEM : 0;
	return perf_failed(e, "address",
			   rc									 ? rc
			   : json_object_set_new(info, "key", talk_hex(&v->key, sizeof(v->key))) ? -ENOMEM
												 : 0);
}

static int connect_end(struct perf_end *e, const json_t *info)
{
	struct rvma_end *v = e->own;
	struct rvma_address peer;
	int rc = talk_bytes(info, "address", &peer, sizeof(peer), sizeof(peer), NULL);

	rc = rc ? rc : talk_bytes(info, "key", &v->peer_key, sizeof(v->peer_key), sizeof(v->peer_key), NULL);
	return perf_failed(e, "connecting", rc ? rc : rvma_peer_open(v->rvma, &peer, &v->peer));
}

static int put(struct perf_end *e, uint32_t place)
{
	struct rvma_end *v = e->own;

	return rvma_put_at(v->peer, place + 1, v->peer_key, v->mr, (uint64_t)place * e->size, e->size, 0,
			   &v->op[place]);
}

static int post(struct perf_end *e)
{
	struct rvma_end *v = e->own;

	for (uint32_t i = 0; i < e->depth; i++)
		if (!v->op[i]) {
			const int rc = put(e, i);

			e->posted += !rc;
			return rc == -EAGAIN ? rc : perf_failed(e, "putting", rc);
		}
	return -EAGAIN;
}

static int progress(struct perf_end *e)
{
	struct rvma_end *v = e->own;
	int rc = sp_progress(e->dev, sp_clock());

	for (uint32_t i = 0; !rc && i < e->depth; i++) {
		uint64_t epoch = v->epoch[i];
		const int ended = v->op[i] ? rvma_op_test(v->op[i]) : -EAGAIN;

		if (!ended) {
			v->op[i] = NULL;
			e->sent++;
		} else if (ended == -ENOBUFS) {
			rc = put(e, i); /* the peer has not posted yet: again */
		} else if (ended != -EAGAIN) {
			v->op[i] = NULL;
			return perf_failed(e, rvma_op_reason(ended), ended);
		}
		rc = rc ? rc : rvma_win_get_epoch(v->window[i], &epoch);
		for (; !rc && v->epoch[i] < epoch; v->epoch[i]++) {
			rc = post_buffer(e, i, v->epoch[i]);
			e->received++;
		}
	}
	return perf_failed(e, "puts", rc);
}

static void close_end(struct perf_end *e)
{
	struct rvma_end *v = e->own;

	if (v && v->rvma)
		rvma_close(v->rvma);
	free(v);
	e->own = NULL;
}

const struct perf_op perf_rvma = {"rvma", open_end, connect_end, post, progress, close_end};
