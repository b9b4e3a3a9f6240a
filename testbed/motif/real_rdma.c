/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages over RC: requests, answers and completions are SENDs of a few bytes, the message is a WRITE. Two ranks have
 * one QP at each end. The receiver chooses the slot of a message that was asked for; of others the sender does, which
 * knows their addresses from the first answer.
 *
 * rdma-polled: the host looks at the last byte whenever its NIC has done something; before, that byte is another one.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "../../handlers/wire/roce.h"
#include "real.h"

#define RIGHTS	(SP_RDMA_LOCAL_WRITE | SP_RDMA_REMOTE_WRITE)
#define TIMEOUT 10 /* IBTA code: 4.2 ms */
#define RETRIES 7
#define ANSWER	0x80000000u /* bit of the last word of an answer; a request has none there */

static uint8_t *base(const struct run *r, uint32_t rank)
{
	return r->real->rank[rank].mr->addr;
}

static int post_receive(struct run *r, struct link *l, uint32_t entry)
{
	struct real_rank *k = &r->real->rank[l->rank];
	const struct sp_rdma_sge sge = {(uintptr_t)base(r, l->rank) + l->receives + entry * REAL_CONTROL, REAL_CONTROL,
					k->region->lkey};
	const struct sp_rdma_recv_wr wr = {
		.wr_id = (uint64_t)(l - k->link) * REAL_RECEIVES + entry, .sge = &sge, .sges = 1};

	return sp_rdma_post_recv(l->qp, &wr, NULL);
}

/* QPs are connected without the connection manager. The NIC makes one for whoever opens rdma, for thousands of
 * connections, unless it has one: a small one. */
static int open_small_cm(struct sp_nic *nic, struct sp_error *error)
{
	static const struct sp_setting set[] = {{"qp", "1"},	       {"ids", "16"},  {"ids-per-application", "16"},
						{"applications", "4"}, {"peers", "4"}, {"peers-per-application", "4"}};
	const struct sp_context_config cm = {
		.name = "cm", .handler = "cm", .setting = set, .settings = sizeof(set) / sizeof(*set)};
	uint32_t id;

	return sp_nic_context_add(nic, &cm, &id, error);
}

int real_rdma_open(struct run *r, uint32_t rank, struct sp_error *error)
{
	struct real_rank *k = &r->real->rank[rank];
	const uint32_t links = k->links ? k->links : 1; /* a rank may have nobody to talk to */
	const struct sp_rdma_attr attr = {
		.qps = links, .cqs = 1, .srqs = 1, .pds = 1, .mrs = 8, .ahs = 1, .name = "motif"};
	struct sp_rdma_qp_init init = {
		.type = SP_RDMA_RC, .send_wr = REAL_SENDS, .recv_wr = REAL_RECEIVES, .inlined = REAL_CONTROL};
	struct sp_rdma_pd *pd;
	int err = open_small_cm(k->nic, error);

	if (!err)
		err = sp_rdma_open(k->dev, &attr, &k->rdma, error);
	if (!err)
		err = sp_rdma_pd_alloc(k->rdma, &pd);
	if (!err)
		err = sp_rdma_cq_create(k->rdma, links * (REAL_SENDS + REAL_RECEIVES), false, NULL, &k->cq);
	if (!err)
		err = sp_rdma_mr_reg(pd, k->mr, 0, k->mr->len, RIGHTS, &k->region);
	init.send_cq = init.recv_cq = k->cq;
	for (uint32_t i = 0; i < k->links && !err; i++)
		err = sp_rdma_qp_create(pd, &init, &k->link[i].qp);
	return err;
}

static struct link *link_of(const struct run *r, uint32_t rank, uint32_t peer)
{
	struct real_rank *k = &r->real->rank[rank];

	for (uint32_t i = 0; i < k->links; i++)
		if (k->link[i].peer == peer)
			return &k->link[i];
	return NULL;
}

/* From RESET to RTS, PSNs from 0 on. */
static int qp_connect(const struct run *r, struct link *l, const struct link *other)
{
	struct sp_rdma_qp_attr a = {.state = SP_RDMA_INIT,
				    .access = RIGHTS,
				    .dest_qp = sp_rdma_qp_number(other->qp),
				    .path_mtu = r->nic.packet,
				    .max_rd_atomic = 1,
				    .max_dest_rd_atomic = 1,
				    .timeout = TIMEOUT,
				    .retry_cnt = RETRIES,
				    .rnr_retry = RETRIES,
				    .selective = r->real->selective};
	int err = sp_dev_address(r->real->rank[other->rank].dev, AF_INET, a.ip);

	a.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_PKEY | SP_RDMA_QP_PORT | SP_RDMA_QP_ACCESS;
	if (!err)
		err = sp_rdma_qp_modify(l->qp, &a);
	a.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_AV | SP_RDMA_QP_PATH_MTU | SP_RDMA_QP_DEST_QP | SP_RDMA_QP_RQ_PSN |
		 SP_RDMA_QP_MAX_DEST_RD | SP_RDMA_QP_MIN_RNR | (r->real->selective ? SP_RDMA_QP_SELECTIVE : 0);
	a.state = SP_RDMA_RTR;
	if (!err)
		err = sp_rdma_qp_modify(l->qp, &a);
	a.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_SQ_PSN | SP_RDMA_QP_TIMEOUT | SP_RDMA_QP_RETRY_CNT |
		 SP_RDMA_QP_RNR_RETRY | SP_RDMA_QP_MAX_RD;
	a.state = SP_RDMA_RTS;
	return err ? err : sp_rdma_qp_modify(l->qp, &a);
}

int real_rdma_join(struct run *r, struct link *l)
{
	struct link *const end[2] = {l, link_of(r, l->peer, l->rank)};
	int err = 0;

	for (unsigned e = 0; e < 2 && !err; e++) {
		err = qp_connect(r, end[e], end[!e]);
		for (uint32_t i = 0; i < REAL_RECEIVES && !err; i++)
			err = post_receive(r, end[e], i);
	}
	return err;
}

/* ---- sending ---- */
static uint32_t sender(const struct transfer *x)
{
	return x->phase == MOTIF_PHASE_REPLY ? x->dst : x->src;
}

static struct slot *slot_of(const struct run *r, const struct transfer *x)
{
	return &real_channel(r->real, x->src, x->dst)->slot[x->slot];
}

/* Hands a phase to the NIC. */
static void post(struct run *r, struct link *l, uint32_t t)
{
	const struct transfer *x = &r->transfer[t];
	struct channel *c = real_channel(r->real, x->src, x->dst);
	const struct slot *s = &c->slot[x->slot];
	uint8_t control[REAL_CONTROL];
	struct sp_rdma_sge sge = {(uintptr_t)control, REAL_CONTROL, 0};
	struct sp_rdma_send_wr wr = {
		.wr_id = t, .op = SP_RDMA_WR_SEND, .flags = SP_RDMA_SIGNALED | SP_RDMA_INLINED, .sge = &sge, .sges = 1};
	int err;

	switch (x->phase) {
	case MOTIF_PHASE_REQUEST:
		sp_store_be64(control, x->bytes);
		sp_store_be32(control + 8, x->tag);
		sp_store_be32(control + 12, (uint32_t)x->order & ~ANSWER);
		real_enqueue(r, &c->asked, t);
		break;
	case MOTIF_PHASE_REPLY:
		sp_store_be64(control, (uintptr_t)real_landing(r, s, 0));
		sp_store_be32(control + 8, r->real->rank[x->dst].region->rkey);
		sp_store_be32(control + 12, ANSWER | x->slot);
		break;
	case MOTIF_PHASE_PUT:
		sge = (struct sp_rdma_sge){(uintptr_t)real_source(r, s), (uint32_t)x->bytes,
					   r->real->rank[x->src].region->lkey};
		wr.op = SP_RDMA_WR_WRITE;
		wr.flags = SP_RDMA_SIGNALED;
		wr.sges = x->bytes ? 1 : 0;
		wr.remote = (uintptr_t)real_landing(r, s, 0);
		wr.rkey = r->real->rank[x->dst].region->rkey;
		break;
	default:
		*control = x->slot;
		sge.len = MOTIF_COMPLETION;
		break;
	}
	err = sp_rdma_post_send(l->qp, &wr, NULL);
	if (err)
		real_fail(r, err, "rank %u posts to rank %u: %s", l->rank, l->peer, strerror(-err));
	l->sending++;
	r->real->under_way++;
	real_touch(r, l->rank);
}

static void send_phase(struct run *r, uint32_t t)
{
	const struct transfer *x = &r->transfer[t];
	const uint32_t from = sender(x);
	struct link *l = link_of(r, from, from == x->src ? x->dst : x->src);

	if (l->sending < REAL_SENDS && l->waiting.first == NONE)
		post(r, l, t);
	else
		real_enqueue(r, &l->waiting, t);
}

/* A slot for the message: the memory at both ends. False: it waits. */
static bool take_slot(struct run *r, uint32_t t)
{
	struct transfer *x = &r->transfer[t];
	struct channel *c = real_channel(r->real, x->src, x->dst);
	struct slot *s = real_slot(c);

	if (!s) {
		real_enqueue(r, &c->waiting, t);
		return false;
	}
	s->t = t;
	s->completion = NONE;
	x->slot = s->number;
	x->parts = 2; /* the write, and what the receiver learns of it */
	if (r->nic.transport == MOTIF_RDMA_POLLED) {
		struct real_rank *dst = &r->real->rank[x->dst];

		real_landing(r, s, 0)[x->bytes - 1] = (uint8_t)~real_last(x);
		real_watch(dst->receives, &dst->receiving, s);
	}
	return true;
}

void real_rdma_posted(struct run *r, uint32_t t)
{
	const struct transfer *x = &r->transfer[t];
	uint32_t completion;

	switch (x->phase) {
	case MOTIF_PHASE_REPLY:
		if (take_slot(r, t))
			send_phase(r, t);
		break;
	case MOTIF_PHASE_PUT:
		if (!x->asked && !take_slot(r, t))
			return;
		real_fill(x, real_source(r, slot_of(r, x)));
		send_phase(r, t);
		if (!transfer_by_completion(r) || r->nic.completion != MOTIF_BEHIND)
			break;
		completion = transfer_completion(r, t);
		if (completion != NONE)
			real_rdma_posted(r, completion);
		break;
	case MOTIF_PHASE_COMPLETION: {
		struct transfer *y = &r->transfer[t];

		y->slot = r->transfer[y->parent].slot;
		slot_of(r, y)->completion = t;
		send_phase(r, t);
		break;
	}
	default:
		send_phase(r, t);
		break;
	}
}

static void part_ended(struct run *r, struct slot *s)
{
	uint32_t next;

	if (--r->transfer[s->t].parts)
		return;
	s->t = s->completion = NONE;
	next = real_dequeue(r, &s->channel->waiting);
	if (next != NONE)
		real_rdma_posted(r, next);
}

/* ---- what has come ---- */
static void bad(struct run *r, const struct link *l)
{
	real_fail(r, -EBADMSG, "rank %u has a message from rank %u that it does not know", l->rank, l->peer);
}

static void asked(struct run *r, struct link *l, const uint8_t *control)
{
	const uint32_t t = l->in ? real_dequeue(r, &l->in->asked) : NONE;
	const struct transfer *x = &r->transfer[t == NONE ? 0 : t];

	if (t == NONE || sp_load_be64(control) != x->bytes || sp_load_be32(control + 8) != x->tag ||
	    sp_load_be32(control + 12) != ((uint32_t)x->order & ~ANSWER))
		bad(r, l);
	else
		real_tell(r, EVENT_ASKED, t);
}

static void answered(struct run *r, struct link *l, const uint8_t *control)
{
	const uint32_t slot = sp_load_be32(control + 12) & ~ANSWER;
	const struct slot *s = l->out && slot < REAL_SLOTS ? &l->out->slot[slot] : NULL;

	if (!s || s->t == NONE || r->transfer[s->t].phase != MOTIF_PHASE_REPLY ||
	    sp_load_be64(control) != (uintptr_t)real_landing(r, s, 0) ||
	    sp_load_be32(control + 8) != r->real->rank[l->peer].region->rkey)
		bad(r, l);
	else
		real_tell(r, EVENT_ANSWERED, s->t);
}

/* The receiver goes on. */
static void compare(struct run *r, const struct slot *s)
{
	const struct transfer *x = &r->transfer[s->t];

	if (!real_filled(r, x, real_landing(r, s, 0)))
		real_fail(r, -EBADMSG, "rank %u has other bytes than rank %u wrote", x->dst, x->src);
}

static void completed(struct run *r, struct link *l, uint8_t slot)
{
	struct slot *s = l->in && slot < REAL_SLOTS ? &l->in->slot[slot] : NULL;

	if (!s || s->t == NONE || s->completion == NONE) {
		bad(r, l);
		return;
	}
	compare(r, s);
	real_tell(r, EVENT_COMPLETED, s->completion);
	part_ended(r, s);
}

static void taken(struct run *r, struct link *l, const struct sp_rdma_wc *wc)
{
	const uint32_t entry = wc->wr_id % REAL_RECEIVES;
	const uint8_t *control = base(r, l->rank) + l->receives + entry * REAL_CONTROL;
	int err;

	if (wc->len == MOTIF_COMPLETION)
		completed(r, l, *control);
	else if (wc->len != REAL_CONTROL)
		bad(r, l);
	else if (sp_load_be32(control + 12) & ANSWER)
		answered(r, l, control);
	else
		asked(r, l, control);
	err = post_receive(r, l, entry);
	if (err)
		real_fail(r, err, "rank %u posts a receive: %s", l->rank, strerror(-err));
}

static void sent(struct run *r, struct link *l, const struct sp_rdma_wc *wc)
{
	uint32_t next;

	l->sending--;
	r->real->under_way--;
	if (wc->op == SP_RDMA_WC_WRITE) {
		const uint32_t t = (uint32_t)wc->wr_id;
		struct slot *s = slot_of(r, &r->transfer[t]);

		if (r->nic.transport == MOTIF_RDMA_POLLED)
			compare(r, s);
		real_tell(r, EVENT_ACKED, t);
		part_ended(r, s);
	}
	next = l->sending < REAL_SENDS ? real_dequeue(r, &l->waiting) : NONE;
	if (next != NONE)
		post(r, l, next);
}

/* Who polls: a last byte that is there lets its rank go on, whatever else is there. */
static void look_at_last_bytes(struct run *r, struct real_rank *k)
{
	for (uint32_t i = 0; i < k->receiving;) {
		struct slot *s = k->receives[i];
		const struct transfer *x = &r->transfer[s->t];
		const uint8_t *landing = real_landing(r, s, 0);
		const uint64_t compared = r->o->compared;

		if (__atomic_load_n(&landing[x->bytes - 1], __ATOMIC_ACQUIRE) != real_last(x)) {
			i++;
			continue;
		}
		r->o->early_reads += !real_filled(r, x, landing);
		r->o->compared = compared; /* once the write is acknowledged */
		real_unwatch(k->receives, &k->receiving, i);
		real_tell(r, EVENT_RECEIVED, s->t);
		part_ended(r, s);
	}
}

void real_rdma_look(struct run *r, uint32_t rank)
{
	struct real_rank *k = &r->real->rank[rank];
	struct sp_rdma_wc wc;

	if (r->nic.transport == MOTIF_RDMA_POLLED)
		look_at_last_bytes(r, k);
	while (!r->err && sp_rdma_poll_cq(k->cq, &wc, 1)) {
		const bool receive = wc.op == SP_RDMA_WC_RECV;

		if (wc.status != SP_RDMA_OK) {
			real_fail(r, -EIO, "the QP of rank %u ended: RC status %d (docs/rdma.md)", rank, wc.status);
			return;
		}
		for (uint32_t i = 0; i < k->links && !r->err; i++) {
			if (sp_rdma_qp_number(k->link[i].qp) != wc.qp)
				continue;
			if (receive)
				taken(r, &k->link[i], &wc);
			else
				sent(r, &k->link[i], &wc);
			break;
		}
	}
}
