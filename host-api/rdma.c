/* SPDX-License-Identifier: BSD-3-Clause */
/* Verbs for applications: contexts, objects, notices. */
#include "rdma_private.h"

#include <stdlib.h>
#include <string.h>

/* ---- control requests ---- */
static int verbs_ask(struct sp_rdma *r, bool service, uint32_t op, uint32_t qp, const void *in, size_t in_len,
		     void *out, size_t out_len)
{
	uint32_t answered = (uint32_t)out_len;
	int rc = sp_control_call(r->dev, r->id, service, op, qp, in, (uint32_t)in_len, out, &answered);

	return rc > 0 || (!rc && answered != out_len) ? -EPROTO : rc;
}

int verbs_control(struct sp_rdma *r, uint32_t op, uint32_t qp, const void *in, size_t in_len, void *out, size_t out_len)
{
	return verbs_ask(r, false, op, qp, in, in_len, out, out_len);
}

int verbs_service(struct sp_rdma *r, uint32_t op, const void *in, size_t in_len, void *out, size_t out_len)
{
	return verbs_ask(r, true, op, 0, in, in_len, out, out_len);
}

/* ---- objects ---- */
static int verbs_more_slots(struct sp_rdma *r)
{
	const uint32_t slots = r->slots ? 2 * r->slots : 64;
	struct verbs_slot *slot = realloc(r->slot, slots * sizeof(*slot));

	if (!slot)
		return -ENOMEM;
	for (uint32_t i = slots; i-- > r->slots; r->slot_free = i + 1)
		slot[i] = (struct verbs_slot){.next_free = r->slot_free};
	r->slot = slot;
	r->slots = slots;
	return 0;
}

int verbs_make(struct sp_rdma *r, struct verbs_object *o, enum verbs_kind kind, void *user)
{
	struct verbs_slot *s;
	int rc = r->slot_free ? 0 : verbs_more_slots(r);

	if (rc)
		return rc;
	s = &r->slot[r->slot_free - 1];
	s->object = o;
	*o = (struct verbs_object){.rdma = r, .user = user, .kind = kind, .next_made = r->made, .back_made = &r->made};
	o->cookie = (uint64_t)++s->use << 32 | r->slot_free;
	r->slot_free = s->next_free;
	if (o->next_made)
		o->next_made->back_made = &o->next_made;
	r->made = o;
	return 0;
}

void verbs_unmake(struct verbs_object *o)
{
	struct sp_rdma *r = o->rdma;
	const uint32_t index = (uint32_t)o->cookie - 1;
	struct verbs_object **at = &r->told;

	while (*at && *at != o)
		at = &(*at)->next_told;
	if (*at) {
		*at = o->next_told;
		if (!*at)
			r->told_last = at;
	}
	*o->back_made = o->next_made;
	if (o->next_made)
		o->next_made->back_made = o->back_made;
	r->slot[index].object = NULL;
	r->slot[index].next_free = r->slot_free;
	r->slot_free = index + 1;
}

struct verbs_object *verbs_find(struct sp_rdma *r, uint64_t cookie, enum verbs_kind kind)
{
	const uint32_t index = (uint32_t)cookie - 1;
	struct verbs_object *o = index < r->slots ? r->slot[index].object : NULL;

	return o && o->cookie == cookie && o->kind == kind ? o : NULL;
}

/* ---- notices ---- */
static void verbs_tell(struct verbs_object *o, uint32_t bit)
{
	struct sp_rdma *r = o->rdma;

	if (!o->told) {
		o->next_told = NULL;
		*r->told_last = o;
		r->told_last = &o->next_told;
	}
	o->told |= bit;
}

/* An event of an object that has ended since names nothing. */
static void verbs_note(struct sp_rdma *r, const struct sp_event *e)
{
	struct verbs_object *o = NULL;

	switch ((int)e->type) {
	case SP_RDMA_EVENT_CQ:
		o = verbs_find(r, e->cookie, VERBS_CQ);
		if (o)
			verbs_tell(o, VERBS_TOLD_CQ);
		break;
	case SP_RDMA_EVENT_ASYNC:
		for (int kind = VERBS_CQ; kind <= VERBS_QP && !o; kind++)
			o = verbs_find(r, e->cookie, (enum verbs_kind)kind);
		if (o && e->arg[0] < 31)
			verbs_tell(o, 1u << e->arg[0]);
		break;
	case SP_RDMA_EVENT_FETCH:
		verbs_serve(r, e);
		break;
	case SP_RDMA_EVENT_CM:
		r->cm_more = r->cm_news = true;
		break;
	}
}

int verbs_pump(struct sp_rdma *r)
{
	struct sp_event e;
	int rc = verbs_bells(r);

	if (rc)
		return rc;
	while ((rc = sp_event_take(r->dev, r->id, &e)) == 1)
		verbs_note(r, &e);
	return rc ? rc : r->answers ? verbs_answers(r) : 0;
}

int sp_rdma_notice_take(struct sp_rdma *r, struct sp_rdma_notice *notice)
{
	struct verbs_object *o;
	uint32_t bit;
	int rc;

	if (!r || !notice)
		return -EINVAL;
	rc = verbs_pump(r);
	memset(notice, 0, sizeof(*notice));
	if (r->cm_news) {
		r->cm_news = false;
		notice->kind = SP_RDMA_NOTICE_CM;
		return 1;
	}
	o = r->told;
	if (!o)
		return rc; /* what came before the NIC has gone is told first */
	bit = o->told & -o->told;
	o->told &= ~bit;
	if (!o->told) {
		r->told = o->next_told;
		if (!r->told)
			r->told_last = &r->told;
	}
	notice->kind = bit == VERBS_TOLD_CQ ? SP_RDMA_NOTICE_CQ : SP_RDMA_NOTICE_ASYNC;
	notice->async = bit == VERBS_TOLD_CQ ? 0 : (enum sp_rdma_async)__builtin_ctz(bit);
	notice->user = o->user;
	notice->cq = o->kind == VERBS_CQ ? (struct sp_rdma_cq *)o : NULL;
	notice->srq = o->kind == VERBS_SRQ ? (struct sp_rdma_srq *)o : NULL;
	notice->qp = o->kind == VERBS_QP ? (struct sp_rdma_pair *)o : NULL;
	return 1;
}

/* ---- contexts ---- */
/* Limits that the library relies on. */
static int verbs_limits(struct sp_rdma *r)
{
	int rc = verbs_control(r, SP_RDMA_QUERY, 0, NULL, 0, &r->limits, sizeof(r->limits));
	struct sp_rdma_limits *l = &r->limits;

	if (rc)
		return rc;
	if (!l->wrs || l->wrs > 1u << SP_RDMA_QUEUE_LOG || !l->cqes || l->cqes > 1u << SP_RDMA_CQ_LOG || !l->sges ||
	    l->sges > SP_RDMA_SGES || l->inlined > SP_RDMA_INLINE || l->segments > SP_RDMA_SEGMENTS)
		return -EPROTO;
	return 0;
}

int sp_rdma_open(struct sp_dev *dev, const struct sp_rdma_attr *attr, struct sp_rdma **rdma, struct sp_error *error)
{
	static const struct sp_rdma_attr defaults;
	struct sp_settings s = {.count = 0};
	struct sp_error ignored;
	struct sp_rdma *r;
	uint32_t qpn;
	int rc;

	error = error ? error : &ignored;
	memset(error, 0, sizeof(*error));
	attr = attr ? attr : &defaults;
	if (!dev || !rdma)
		return -EINVAL;
	const struct {
		const char *key;
		uint32_t value;
	} numbers[] = {{"qps", attr->qps}, {"cqs", attr->cqs}, {"srqs", attr->srqs},
		       {"pds", attr->pds}, {"mrs", attr->mrs}, {"ahs", attr->ahs}};
	const struct sp_numbered how = {.handler = "rdma", .name = attr->name};

	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->dev = dev;
	r->told_last = &r->told;
	r->kept_last = &r->kept;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (numbers[i].value)
			sp_settings_uint(&s, numbers[i].key, numbers[i].value, "");
	if (attr->congestion)
		sp_settings_text(&s, "congestion-control", "yes");
	rc = sp_context_numbered(dev, &how, &s, &qpn, &r->id, error);
	if (rc) {
		free(r);
		return rc;
	}
	rc = verbs_limits(r);
	if (rc) {
		sp_context_close(dev, r->id);
		free(r);
		return rc;
	}
	*rdma = r;
	return 0;
}

static void verbs_pd_free(struct sp_rdma_pd *pd)
{
	while (pd->mrs) {
		struct verbs_mr *m = pd->mrs;

		pd->mrs = m->next;
		free(m);
	}
	while (pd->mws) {
		struct verbs_mw *w = pd->mws;

		pd->mws = w->next;
		free(w);
	}
	while (pd->targets) {
		struct sp_rdma_target *t = pd->targets;

		pd->targets = t->next;
		free(t);
	}
	free(pd);
}

int sp_rdma_close(struct sp_rdma *r)
{
	int rc;

	if (!r)
		return 0;
	rc = sp_context_close(r->dev, r->id);
	if (rc == -EAGAIN || rc == -EBUSY)
		return rc;
	while (r->made) {
		struct verbs_object *o = r->made;

		r->made = o->next_made;
		free(o);
	}
	while (r->pds) {
		struct sp_rdma_pd *pd = r->pds;

		r->pds = pd->next;
		verbs_pd_free(pd);
	}
	while (r->kept) {
		struct verbs_cm_kept *k = r->kept;

		r->kept = k->next;
		free(k);
	}
	verbs_slabs_free(r);
	free(r->answer);
	free(r->slot);
	free(r);
	return rc;
}

int sp_rdma_query(struct sp_rdma *r, struct sp_rdma_limits *limits)
{
	if (!r || !limits)
		return -EINVAL;
	*limits = r->limits;
	return 0;
}
