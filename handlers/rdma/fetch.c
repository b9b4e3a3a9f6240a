/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, memory that an agent in the application serves. */
#include "fetch.h"
#include "key.h"
#include "qp.h"
#include "region.h"

#define RDMA_ASK_AGAIN (20 * SP_US) /* the event queue was full */
#define RDMA_PARTS     3	    /* of a QP's staging area: what is fetched; two of what WRITEs bring */

int rdma_agent_set(struct sp_ctx *c, struct sp_control *x)
{
	const void *in = rdma_in(x, sizeof(struct sp_rdma_agent));
	struct rdma *s = rdma_of(c);
	struct sp_rdma_agent a;
	const struct sp_mem *mem;

	if (!in)
		return -EINVAL;
	memcpy(&a, in, sizeof(a));
	if (a.log < SP_RDMA_AGENT_LOG_MIN || a.log > SP_RDMA_AGENT_LOG_MAX || a.offset % 64)
		return -EINVAL;
	if (s->agent)
		return -EBUSY;
	mem = sp_mem_get(c, a.mem);
	if (!mem)
		return -ENOENT;
	if (!sp_mem_holds(mem, a.offset, sp_rdma_agent_bytes(s->qps, a.log))) {
		sp_mem_put(c, mem);
		return -EFAULT;
	}
	s->agent_offset = a.offset;
	s->agent_log = a.log;
	__atomic_store_n(&s->agent, mem, __ATOMIC_RELEASE); /* regions that need it are made after this */
	return 0;
}

static uint64_t rdma_part(const struct rdma *s, const struct rdma_qp *qp, unsigned part)
{
	return s->agent_offset + (((uint64_t)qp->index * RDMA_PARTS + part) << s->agent_log);
}

/* ---- asking ---- */
static void rdma_ask_tell(struct sp_ctx *c, const struct rdma_qp *qp, struct rdma_ask *a)
{
	const struct sp_event e = {.type = SP_RDMA_EVENT_FETCH,
				   .cookie = a->id,
				   .arg = {qp->number | (uint64_t)a->kind << 32, a->va,
					   a->len | (uint64_t)a->rkey << 32, a->offset, c->worker}};

	a->told = !sp_event_post(c, &e);
}

static void rdma_ask_arm(struct sp_ctx *c, struct rdma_qp *qp)
{
	const struct rdma_ask *both[] = {&qp->fetch.get, &qp->fetch.put};

	qp->ask_at = SP_NEVER;
	for (unsigned i = 0; i < 2; i++) {
		const struct rdma_ask *a = both[i];
		const sp_time again = c->now + RDMA_ASK_AGAIN, at = a->told || a->until < again ? a->until : again;

		if (a->id && at < qp->ask_at)
			qp->ask_at = at;
	}
	rdma_qp_timer(c, qp);
}

static void rdma_ask(struct sp_ctx *c, struct rdma_qp *qp, struct rdma_ask *a)
{
	a->id = ++qp->fetch.ids;
	a->until = c->now + rdma_of(c)->fetch_timeout;
	c->counters[RDMA_FETCHES]++;
	rdma_ask_tell(c, qp, a);
	rdma_ask_arm(c, qp);
}

/* The agent has said that it cannot, or says nothing. */
static void rdma_ask_fail(struct sp_ctx *c, struct rdma_qp *qp, const struct rdma_ask *a)
{
	struct rdma_responder *in = &qp->in;
	const uint32_t psn = a->psn;

	c->counters[RDMA_FETCHES_FAILED]++;
	rdma_qp_drop_answers(c, qp); /* with all that was asked */
	if (qp->type != SP_RDMA_RC)
		return; /* as if it were lost */
	in->ack_due = in->failing = true;
	in->ack_psn = psn;
	in->syndrome = RDMA_NAK_REMOTE_OP;
	in->failure = SP_RDMA_ASYNC_QP_FATAL;
	rdma_qp_start(c, qp);
}

void rdma_fetch_timer(struct sp_ctx *c, struct rdma_qp *qp)
{
	struct rdma_ask *both[] = {&qp->fetch.put, &qp->fetch.get};

	for (unsigned i = 0; i < 2; i++) {
		if (!both[i]->id)
			continue;
		if (both[i]->until <= c->now) {
			rdma_ask_fail(c, qp, both[i]);
			return;
		}
		if (!both[i]->told)
			rdma_ask_tell(c, qp, both[i]);
	}
	rdma_ask_arm(c, qp);
}

/* ---- WRITE ---- */
void rdma_fetch_submit(struct sp_ctx *c, struct rdma_qp *qp)
{
	struct rdma_fetch *f = &qp->fetch;

	if (!f->filled || f->put.id)
		return;
	f->put = f->next;
	f->put.len = f->filled;
	f->filled = 0;
	f->second = !f->second;
	rdma_ask(c, qp, &f->put);
}

/* An ATOMIC that is not done. */
static bool rdma_fetch_changing(const struct rdma_qp *qp)
{
	for (unsigned i = 0; qp->in.pending && i < SP_RDMA_READS; i++)
		if (qp->in.resource[i].pending && qp->in.resource[i].kind == RDMA_RESOURCE_ATOMIC &&
		    qp->in.resource[i].fetched)
			return true;
	return false;
}

bool rdma_fetch_ordered(struct sp_ctx *c, struct rdma_qp *qp)
{
	const struct rdma_fetch *f = &qp->fetch;

	if (!rdma_of(c)->agent)
		return true;
	rdma_fetch_submit(c, qp);
	return !f->filled && (!f->put.id || f->put.told) && !rdma_fetch_changing(qp);
}

int rdma_fetch_put(struct sp_ctx *c, struct rdma_qp *qp, uint32_t rkey, uint64_t va, const uint8_t *from, uint32_t len)
{
	const struct rdma *s = rdma_of(c);
	struct rdma_fetch *f = &qp->fetch;

	if (rdma_fetch_changing(qp))
		return -EAGAIN;
	if (f->filled &&
	    (f->next.rkey != rkey || f->next.va + f->filled != va || f->filled + len > rdma_fetch_room(c))) {
		if (f->put.id)
			return -EAGAIN;
		rdma_fetch_submit(c, qp);
	}
	if (!f->filled)
		f->next = (struct rdma_ask){.kind = SP_RDMA_FETCH_WRITE,
					    .rkey = rkey,
					    .va = va,
					    .psn = qp->in.psn,
					    .offset = rdma_part(s, qp, 1u + f->second)};
	if (sp_dma_write(c, s->agent, f->next.offset + f->filled, from, len))
		return -EACCES;
	f->filled += len;
	return 0;
}

/* ---- READ and ATOMIC ---- */
bool rdma_fetch_read(struct sp_ctx *c, struct rdma_qp *qp, struct rdma_resource *r, const struct rdma_mr *m,
		     uint32_t *stop, struct sp_piece *piece)
{
	const uint32_t left = r->end - r->at, room = rdma_fetch_room(c);
	const struct rdma *s = rdma_of(c);
	struct rdma_fetch *f = &qp->fetch;

	if (f->of == r && !f->get.id && r->at >= f->from && r->at < f->to) {
		*stop = f->to < r->end ? f->to : r->end;
		*piece = (struct sp_piece){s->agent, rdma_part(s, qp, 0) + (r->at - f->from), 0};
		return true;
	}
	if (f->get.id)
		return false;
	f->get = (struct rdma_ask){.kind = SP_RDMA_FETCH_READ,
				   .rkey = rdma_mr_key(m),
				   .va = r->va + r->at,
				   .len = left < room ? left : room,
				   .psn = rdma_psn(r->first + r->at / qp->mtu),
				   .offset = rdma_part(s, qp, 0)};
	f->of = r;
	f->from = r->at;
	f->to = r->at + f->get.len;
	rdma_ask(c, qp, &f->get);
	return false;
}

bool rdma_fetch_atomic(struct sp_ctx *c, struct rdma_qp *qp, struct rdma_resource *r)
{
	const struct rdma *s = rdma_of(c);
	struct rdma_fetch *f = &qp->fetch;

	if (!r->fetched || f->get.id)
		return !r->fetched;
	f->get = (struct rdma_ask){.kind = r->fetched,
				   .rkey = r->rkey,
				   .va = r->va,
				   .len = 8,
				   .psn = r->first,
				   .offset = rdma_part(s, qp, 0)};
	f->of = r;
	f->from = f->to = 0;
	sp_dma_write(c, s->agent, f->get.offset, &r->value, sizeof(r->value));
	sp_dma_write(c, s->agent, f->get.offset + 8, &r->compare, sizeof(r->compare));
	rdma_ask(c, qp, &f->get);
	return false;
}

/* ---- answers ---- */
int rdma_fetch_answer(struct sp_ctx *c, struct rdma_qp *qp, const struct sp_command *command)
{
	struct rdma_fetch *f = &qp->fetch;
	const uint64_t id = command->arg[1];
	struct rdma_ask *a = id && f->get.id == id ? &f->get : id && f->put.id == id ? &f->put : NULL;

	if (!a)
		return -ENOENT;
	if (command->arg[2]) {
		rdma_ask_fail(c, qp, a);
		return 0;
	}
	a->id = 0;
	if (a == &f->put) {
		rdma_fetch_submit(c, qp);
	} else if (a->kind != SP_RDMA_FETCH_READ) {
		f->of->value = command->arg[3];
		f->of->fetched = 0;
	}
	rdma_ask_arm(c, qp);
	rdma_qp_start(c, qp);
	return 0;
}
