/* SPDX-License-Identifier: BSD-3-Clause */
#include "../worker.h"
#include "zero_copy.h"
#include "../engine.h"
#include "../context.h"
#include "../mem/memory.h"
#include "../ports/port.h"
#include "../process.h"
#include "transmit.h"
#include "../view.h"
#include "../worker_call.h"

#include <stdlib.h>

/* Stored in the private bytes of the payload's mbuf. The drivers allowed for zero copy never clone mbufs, so nobody
 * reads it after the free. */
struct zc_payload {
	struct rte_mbuf_ext_shared_info shared;
	struct sp_zc_queue *zc_queue;
	const struct sp_mem *mem;
	struct sp_zc_region *region; /* region whose shared reference it uses; NULL: a reference of its own */
	uint64_t number;
};
static_assert(sizeof(struct zc_payload) <= SP_PIECE_PRIVATE, "fits");
static_assert((SP_ZC_MAX & (SP_ZC_MAX - 1)) == 0, "a power of two");
static_assert(SP_PIECE_ROOM >= 3 + 4, "pad and ICRC fit too");

/* ---- freed packets ---- */

static bool is_out(const struct sp_zc *l)
{
	for (unsigned i = 0; i < l->workers; i++)
		if (__atomic_load_n(&l->zc_queue[i].back, __ATOMIC_ACQUIRE) != l->zc_queue[i].lent)
			return true;
	return false;
}

/* Called when the packet is freed: by the sending worker (in the driver or the transmit queue), or by a control call
 * while workers are stopped. Drivers may free packets in any order. */
static void come_back(void *addr, void *opaque)
{
	struct zc_payload *zc_payload = opaque;
	struct sp_zc_queue *o = zc_payload->zc_queue;
	struct sp_zc *l = o->zc;
	uint64_t back = o->back;
	const bool cut = l->cut;

	(void)addr;
	if ((!zc_payload->region || !--zc_payload->region->out) && likely(!cut))
		sp_memory_zc_put(zc_payload->mem);
	if (unlikely(zc_payload->number != back)) {
		o->returned[zc_payload->number % SP_ZC_MAX / 64] |= 1ull << zc_payload->number % 64;
		return;
	}
	for (back++; unlikely(o->returned[back % SP_ZC_MAX / 64] & 1ull << back % 64); back++)
		o->returned[back % SP_ZC_MAX / 64] &= ~(1ull << back % 64);
	if (unlikely(o->waiter != NULL) && back >= o->until) {
		struct sp_view *v = o->waiter->ctx;
		struct sp_issue *i = o->waiter;

		sp_zc_forget(v);
		sp_issue_start(&v->pub, i);
	}
	__atomic_store_n(&o->back, back, __ATOMIC_RELEASE); /* from here on the context may free `o`, unless cut */
	if (unlikely(cut) && !is_out(l))
		free(l);
}

bool sp_zc_await(struct sp_view *v, struct sp_issue *i)
{
	struct sp_zc_queue *o = v->zc_queue;

	if (!o->asked)
		return true;
	if (o->back >= o->asked) /* freed since it asked, by a flush during its own sends: nothing would start it */
		return false;
	if (o->waiter)
		return o->waiter == i;
	o->waiter = i;
	o->until = o->asked;
	v->owner->awaited++;
	return true;
}

void sp_zc_forget(struct sp_view *v)
{
	if (!v->zc_queue || !v->zc_queue->waiter)
		return;
	v->zc_queue->waiter = NULL;
	v->owner->awaited--;
}

/* ---- zero-copy mbufs ---- */

/* Takes n references of the region, or one if it has an entry in the table; false: no zero copy. */
static bool refer(struct sp_zc_queue *o, const struct sp_mem *mem, unsigned n, struct sp_zc_region **region)
{
	struct sp_zc_region *place = NULL;
	unsigned taken = 0;

	for (struct sp_zc_region *r = o->region; r < o->region + SP_ZC_REGIONS; r++) {
		if (r->out && r->mem == mem) {
			*region = r;
			r->out += n;
			return true;
		}
		place = r->out ? place : r;
	}
	*region = place;
	while (taken < (place ? 1 : n) && sp_memory_zc_get(mem)) /* all, or not the first */
		taken++;
	if (place && taken)
		*place = (struct sp_zc_region){.mem = mem, .out = n};
	return taken;
}

static void chain(struct rte_mbuf *const m[3], uint32_t head, uint32_t len, uint32_t tail)
{
	m[0]->data_len = (uint16_t)head;
	m[1]->data_len = (uint16_t)len;
	m[2]->data_len = (uint16_t)tail;
	m[0]->pkt_len = head + len + tail;
	m[0]->nb_segs = 3;
	m[0]->next = m[1];
	m[1]->next = m[2];
}

unsigned sp_zc_attach(struct sp_view *v, uint32_t head, const struct sp_send *s, unsigned n, struct rte_mbuf **packet)
{
	struct sp_zc_queue *o = v->zc_queue;
	struct sp_zc_region *region;
	struct rte_mbuf *m[3 * SP_BURST];

	n = (unsigned)RTE_MIN(n, SP_ZC_MAX - (o->lent - o->back));
	if (unlikely(!n || rte_pktmbuf_alloc_bulk(sp_process_pieces(), m, 3 * n)))
		return 0;
	if (unlikely(!refer(o, s->mem, n, &region))) {
		rte_pktmbuf_free_bulk(m, 3 * n);
		return 0;
	}
	for (unsigned i = 0; i < n; i++) {
		struct rte_mbuf *payload = m[3 * i + 1];
		struct zc_payload *zc_payload = rte_mbuf_to_priv(payload);
		uint8_t *at = s[i].mem->base + s[i].offset;

		zc_payload->shared.free_cb = come_back;
		zc_payload->shared.fcb_opaque = zc_payload;
		rte_mbuf_ext_refcnt_set(&zc_payload->shared, 1);
		zc_payload->zc_queue = o;
		zc_payload->mem = s[i].mem;
		zc_payload->region = region;
		zc_payload->number = o->lent++;
		/* Only PCI devices use the IOVA, which is the virtual address (sp_port_map). */
		rte_pktmbuf_attach_extbuf(payload, at, (rte_iova_t)(uintptr_t)at, (uint16_t)s[i].len,
					  &zc_payload->shared);
		chain(m + 3 * i, head + s[i].ext_len, s[i].len, (-s[i].len & 3) + 4);
		packet[i] = m[3 * i];
	}
	return n;
}

/* ---- handlers' calls ---- */

uint64_t sp_send_mark(struct sp_ctx *ctx)
{
	return sp_view_of(ctx)->zc_queue->lent;
}

bool sp_send_settled(struct sp_ctx *ctx, uint64_t mark)
{
	struct sp_zc_queue *o = sp_view_of(ctx)->zc_queue;

	if (o->back >= mark)
		return true;
	o->asked = mark;
	return false;
}

/* ---- control ---- */

static void reap(struct sp_nic *nic)
{
	for (struct sp_zc **at = &nic->zc_gone; *at;) {
		struct sp_zc *l = *at;

		if (is_out(l)) {
			at = &l->next;
			continue;
		}
		*at = l->next;
		free(l);
	}
}

int sp_zc_create(struct sp_context *c)
{
	struct sp_zc *l = calloc(1, sizeof(*l) + c->nic->workers * sizeof(l->zc_queue[0]));

	reap(c->nic);
	if (!l)
		return -ENOMEM;
	l->workers = c->nic->workers;
	for (unsigned i = 0; i < l->workers; i++) {
		l->zc_queue[i].zc = l;
		c->view[i]->zc_queue = &l->zc_queue[i];
	}
	c->zc = l;
	return 0;
}

static void reclaim(struct sp_worker *w, void *arg)
{
	(void)arg;
	sp_transmit_flush(w);
	sp_transmit_reclaim(w);
}

void sp_zc_reclaim(struct sp_nic *nic)
{
	bool lends = false;

	for (unsigned i = 0; i < nic->ports; i++)
		lends |= sp_port_external(&nic->port[i]);
	for (unsigned i = 0; lends && i < nic->workers; i++)
		sp_worker_call(nic->worker[i], reclaim, NULL);
}

void sp_zc_end(struct sp_context *c)
{
	struct sp_zc *l = c->zc;

	c->zc = NULL;
	if (!l)
		return;
	if (is_out(l))
		sp_zc_reclaim(c->nic);
	l->next = c->nic->zc_gone;
	c->nic->zc_gone = l;
	reap(c->nic);
}

void sp_zc_detach(struct sp_nic *nic)
{
	reap(nic);
	while (nic->zc_gone) {
		struct sp_zc *l = nic->zc_gone;

		nic->zc_gone = l->next;
		l->cut = true;
	}
}
