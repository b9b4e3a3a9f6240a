/* SPDX-License-Identifier: BSD-3-Clause */
/* Verbs: memory that no NIC has made. When a peer wants it, the NIC asks by an event; the agent copies between it and a
 * staging area, and the answer is a command. */
#include "rdma_private.h"

#include <stdlib.h>
#include <string.h>

#define AGENT_BYTES (8ull << 20) /* of the staging area, about */

/* A program may spin on the last byte, or follow the bytes as they come: memcpy() promises no order, so this copies
 * exactly these bytes, in rising order, and the last one with release. Aligned words of dst are written whole. */
static void agent_copy(uint8_t *dst, const uint8_t *src, uint32_t len)
{
	uint32_t i = 0;

	for (; i + 1 < len && (uintptr_t)(dst + i) % 8; i++)
		__atomic_store_n(dst + i, src[i], __ATOMIC_RELEASE);
	for (; i + 8 <= len; i += 8) {
		uint64_t word;

		memcpy(&word, src + i, 8);
		__atomic_store_n((uint64_t *)(void *)(dst + i), word, __ATOMIC_RELEASE);
	}
	for (; i < len; i++)
		__atomic_store_n(dst + i, src[i], __ATOMIC_RELEASE);
}

/* The default: the memory is this process's own. */
static int agent_copies(void *user, struct sp_rdma_fetch_op *op)
{
	uint8_t *own = op->own;

	(void)user;
	switch (op->kind) {
	case SP_RDMA_FETCH_READ:
		memcpy(op->bytes, own, op->len);
		return 0;
	case SP_RDMA_FETCH_WRITE:
		agent_copy(own, op->bytes, op->len);
		return 0;
	case SP_RDMA_FETCH_ADD:
		op->before = __atomic_fetch_add((uint64_t *)(void *)own, op->value, __ATOMIC_SEQ_CST);
		return 0;
	case SP_RDMA_FETCH_CAS:
		op->before = op->compare;
		__atomic_compare_exchange_n((uint64_t *)(void *)own, &op->before, op->value, false, __ATOMIC_SEQ_CST,
					    __ATOMIC_SEQ_CST);
		return 0;
	}
	return -EOPNOTSUPP;
}

int sp_rdma_agent_start(struct sp_rdma *r, sp_rdma_agent_fn *serve, void *user)
{
	struct sp_rdma_agent ask = {.log = SP_RDMA_AGENT_LOG_MIN};
	int rc;

	if (!r)
		return -EINVAL;
	if (r->serve)
		return -EBUSY;
	while (ask.log < SP_RDMA_AGENT_LOG_MAX && sp_rdma_agent_bytes(r->limits.qps, ask.log + 1) <= AGENT_BYTES)
		ask.log++;
	/* A QP has at most one question of either kind. */
	r->answer = calloc(2ull * r->limits.qps, sizeof(*r->answer));
	if (!r->answer)
		return -ENOMEM;
	r->answer_room = 2 * r->limits.qps;
	rc = verbs_alloc(r, sp_rdma_agent_bytes(r->limits.qps, ask.log), &r->staging);
	if (!rc) {
		ask.mem = verbs_memory_id(&r->staging);
		ask.offset = r->staging.offset;
		rc = verbs_control(r, SP_RDMA_AGENT, 0, &ask, sizeof(ask), NULL, 0);
	}
	if (rc) {
		verbs_free(&r->staging);
		free(r->answer);
		r->answer = NULL;
		r->answer_room = 0;
		return rc;
	}
	r->serve = serve ? serve : agent_copies;
	r->serve_user = user;
	return 0;
}

/* Where it is in this process, if it is of a region that is still registered, and the agent's; else NULL. */
static uint8_t *agent_own(const struct sp_rdma *r, uint32_t rkey, uint64_t va, uint32_t len)
{
	for (const struct sp_rdma_pd *pd = r->pds; pd; pd = pd->next)
		for (const struct verbs_mr *m = pd->mrs; m; m = m->next)
			if (m->fetched && m->mr.rkey == rkey)
				return va - m->mr.va <= m->mr.len && len <= m->mr.len - (va - m->mr.va)
					       ? m->own + (va - m->mr.va)
					       : NULL;
	return NULL;
}

/* What the NIC says is checked: its question must be about a region, and about the staging area. */
static int agent_do(struct sp_rdma *r, const struct sp_event *e, uint64_t *before)
{
	const uint32_t len = (uint32_t)e->arg[2], kind = (uint32_t)(e->arg[0] >> 32);
	const bool atomic = kind == SP_RDMA_FETCH_CAS || kind == SP_RDMA_FETCH_ADD;
	const uint64_t at = e->arg[3] - r->staging.offset, need = atomic ? 16 : len;
	struct sp_rdma_fetch_op op = {.kind = (enum sp_rdma_fetch)kind, .va = e->arg[1], .len = len};
	int rc;

	if (!r->serve || at > r->staging.len || need > r->staging.len - at || (atomic && (len != 8 || at % 8)) ||
	    !(op.own = agent_own(r, (uint32_t)(e->arg[2] >> 32), op.va, len)))
		return -EFAULT;
	op.bytes = r->staging.addr + at;
	if (atomic) {
		memcpy(&op.value, op.bytes, sizeof(op.value));
		memcpy(&op.compare, (uint8_t *)op.bytes + 8, sizeof(op.compare));
	}
	rc = r->serve(r->serve_user, &op);
	*before = op.before;
	return rc;
}

int verbs_answers(struct sp_rdma *r)
{
	while (r->answers) {
		const int rc = sp_command_post(r->dev, &r->answer[r->answer_first]);

		if (rc == -EAGAIN)
			return 0;
		r->answer_first = (r->answer_first + 1) % r->answer_room;
		r->answers--;
		if (rc)
			return rc;
	}
	return 0;
}

void verbs_serve(struct sp_rdma *r, const struct sp_event *e)
{
	uint64_t before = 0;
	const int rc = agent_do(r, e, &before);

	/* What finds no room belongs to questions that the NIC has given up. */
	if (r->answers == r->answer_room)
		return;
	r->answer[(r->answer_first + r->answers++) % r->answer_room] =
		(struct sp_command){.op = SP_RDMA_CMD_FETCHED,
				    .context = r->id,
				    .flags = (uint16_t)SP_CMD_ON(e->arg[4]),
				    .arg = {(uint32_t)e->arg[0], e->cookie, rc ? (uint64_t) - (int64_t)rc : 0, before}};
}
