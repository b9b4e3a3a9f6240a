/* SPDX-License-Identifier: BSD-3-Clause */
#include "capture_tap.h"
#include "../engine.h"
#include "../entity.h"
#include "../context.h"
#include "../rx/rule.h"
#include "../view.h"
#include "../worker.h"

#include <string.h>

#include <rte_cycles.h>
#include <rte_mbuf.h>

static_assert(SP_CAPTURE_EXCEPTION == SP_MAX_PORTS && SP_CAPTURE_LOOP == SP_PORT_LOOP, "queues are numbered so too");

/* ---- rings ---- */

static struct sp_capture_slot *staged_slot(const struct sp_capture *m, const struct lane *l, unsigned ahead)
{
	const uint64_t at = (l->tail + ahead) & (m->slots - 1);

	return (struct sp_capture_slot *)(void *)((uint8_t *)(l->ring + 1) + at * m->slot_bytes);
}

/* The slot `ahead` of the tail; NULL while the ring is full, or when the program's head makes no sense. */
static struct sp_capture_slot *claim(const struct sp_capture *m, const struct lane *l, unsigned ahead)
{
	const uint64_t at = l->tail + ahead;

	if (at - __atomic_load_n(&l->ring->head, __ATOMIC_ACQUIRE) >= m->slots)
		return NULL;
	return staged_slot(m, l, ahead);
}

static void count_lost(struct lane *l, uint16_t port)
{
	__atomic_store_n(&l->ring->lost[port], ++l->lost[port], __ATOMIC_RELAXED);
}

static void publish(struct lane *l, unsigned n)
{
	l->tail += n;
	__atomic_store_n(&l->ring->tail, l->tail, __ATOMIC_RELEASE);
}

static bool fits(const struct sp_capture *m, const struct sp_capture_slot *s)
{
	return (!m->drops || s->fate == SP_CAPTURE_DROPPED) && (!m->context[0] || !strcmp(m->context, s->context));
}

static uint32_t wanted(const struct sp_captures *ms, struct rte_mbuf *packet)
{
	uint32_t bits = 0;

	for (unsigned i = 0; i < SP_MAX_CAPTURES; i++)
		if (ms->capture[i] && (!ms->capture[i]->rule || sp_rule_matches(ms->capture[i]->rule, packet)))
			bits |= 1u << i;
	return bits;
}

static uint64_t stamp(const struct sp_worker *w)
{
	return w->tsc ? rte_rdtsc() : 0;
}

static void describe(const struct sp_worker *w, struct sp_capture_slot *s, uint16_t port, const struct rte_mbuf *packet)
{
	const struct sp_captures *ms = w->captures;

	memset(s, 0, sizeof(*s));
	s->time = ms->wall + (w->now - ms->since) / SP_NS;
	s->length = packet->pkt_len;
	s->port = port;
	s->worker = w->index;
	s->verdict = SP_CAPTURE_NO_VERDICT;
	s->tsc[SP_CAPTURE_ROUND] = w->tsc;
}

/* The frame's first bytes, at most room, from however many segments. */
static void copy_frame(struct sp_capture_slot *s, const struct rte_mbuf *packet, uint32_t room)
{
	const void *bytes;

	s->captured = RTE_MIN(packet->pkt_len, room);
	bytes = rte_pktmbuf_read(packet, 0, s->captured, s->frame);
	if (bytes && bytes != s->frame)
		memcpy(s->frame, bytes, s->captured);
}

/* ---- what is received ---- */

static struct sp_record **record_of(struct sp_captures *ms, const struct sp_packet *p)
{
	static struct sp_record *none;
	const size_t i = (size_t)((const uint8_t *)p - ms->packets) / ms->stride;

	return i < ms->count ? &ms->record[i] : &none;
}

/* It was the frame `before` the head of the queue of what the NIC sends to itself, unless another worker took it. */
static void came_by_loop(const struct sp_worker *w, struct sp_record *r, const struct rte_mbuf *packet, unsigned before)
{
	const struct sp_tx_queue *q = &w->tx[SP_PORT_LOOP];
	const unsigned at = (q->head + SP_TX_QUEUE - before) % SP_TX_QUEUE;

	if (q->packet[at] != packet)
		return;
	r->slot.tsc[SP_CAPTURE_ROUND] = w->captures->queued[SP_PORT_LOOP][at].round;
	r->slot.tsc[SP_CAPTURE_IN_HAND] = w->captures->queued[SP_PORT_LOOP][at].tsc;
}

static bool tap_arrive(struct sp_worker *w, uint16_t port, struct sp_packet *p, struct rte_mbuf **packet, unsigned n)
{
	struct sp_captures *ms = w->captures;
	const uint64_t in_hand = stamp(w);

	ms->packets = (const uint8_t *)p;
	ms->stride = sizeof(*p);
	ms->count = n;
	for (unsigned i = 0; i < n; i++) {
		struct sp_record *r = ms->free; /* there are enough for all that can be under way */
		uint32_t bits;

		if (packet[i]->nb_segs > 1) /* filters want them so; otherwise dispatch drops it */
			rte_pktmbuf_linearize(packet[i]);
		bits = wanted(ms, packet[i]);
		ms->record[i] = bits ? r : NULL;
		if (!bits)
			continue;
		ms->free = r->next;
		r->wanted = bits;
		describe(w, &r->slot, port, packet[i]);
		r->slot.tsc[SP_CAPTURE_IN_HAND] = in_hand;
		if (port == SP_PORT_LOOP)
			came_by_loop(w, r, packet[i], n - i);
		copy_frame(&r->slot, packet[i], SP_PACKET_ROOM);
	}
	return false;
}

static bool tap_again(struct sp_worker *w, const struct sp_waiting *waiting, unsigned n)
{
	struct sp_captures *ms = w->captures;

	ms->packets = (const uint8_t *)&waiting->packet;
	ms->stride = sizeof(*waiting);
	ms->count = n;
	for (unsigned i = 0; i < n; i++)
		ms->record[i] = waiting[i].record;
	return false;
}

static void tap_match(struct sp_worker *w)
{
	for (unsigned i = 0; i < w->actives; i++) {
		const struct sp_entity *e = w->active[i];

		for (unsigned k = 0; k < e->batched; k++) {
			struct sp_record *r = *record_of(w->captures, e->batch[k]);

			if (r)
				memcpy(r->slot.context, sp_entity_view(e)->context->name, sizeof(r->slot.context));
		}
	}
}

/* The pipeline drops these before the handler has a say. */
static bool is_asked(const char *reason)
{
	return reason != sp_drop_names[SP_DROP_HEADER_BUSY] && reason != sp_drop_names[SP_DROP_MESSAGE_TABLE_FULL] &&
	       reason != sp_drop_names[SP_DROP_NO_MESSAGE] && reason != sp_drop_names[SP_DROP_CONTEXT_CLOSED] &&
	       reason != sp_drop_names[SP_DROP_OVER_BUDGET] && reason != sp_drop_names[SP_DROP_CONTEXT_DISABLED] &&
	       reason != sp_drop_names[SP_DROP_BACKLOG_FULL] && reason != sp_drop_names[SP_DROP_OVER_LIMIT];
}

static void set_fate(struct sp_record *r, const struct sp_packet *p, enum sp_capture_fate fate, const char *reason)
{
	struct sp_capture_slot *s = &r->slot;

	s->fate = (uint8_t)fate;
	if (reason)
		strncpy(s->reason, reason, sizeof(s->reason) - 1);
	if (s->context[0] && is_asked(reason))
		s->verdict = p->verdict & 0xFF;
}

static void tap_fate(struct sp_worker *w, const struct sp_packet *p, enum sp_capture_fate fate, const char *reason)
{
	struct sp_record *r = *record_of(w->captures, p);

	if (r)
		set_fate(r, p, fate, reason);
}

static struct sp_record *tap_park(struct sp_worker *w, const struct sp_packet *p)
{
	struct sp_record **at = record_of(w->captures, p), *r = *at;

	*at = NULL;
	return r;
}

static void tap_hand_over(struct sp_worker *w, const struct sp_packet *p)
{
	struct sp_record *r = tap_park(w, p);

	if (r)
		recycle(w->captures, r);
}

static void commit(struct sp_worker *w, struct sp_record *r)
{
	struct sp_captures *ms = w->captures;

	for (unsigned i = 0; i < SP_MAX_CAPTURES; i++) {
		struct sp_capture *m = ms->capture[i];
		struct sp_capture_slot *s;
		struct lane *l;
		uint32_t bytes;

		if (!(r->wanted & 1u << i) || !fits(m, &r->slot))
			continue;
		l = &m->lane[w->index];
		s = claim(m, l, 0);
		if (!s) {
			count_lost(l, r->slot.port);
			continue;
		}
		bytes = RTE_MIN(r->slot.captured, m->snaplen);
		memcpy(s, &r->slot, sizeof(*s) + bytes);
		s->captured = bytes;
		publish(l, 1);
	}
	recycle(ms, r);
}

static void tap_forget(struct sp_worker *w, struct sp_waiting *waiting)
{
	if (!waiting->record)
		return;
	set_fate(waiting->record, &waiting->packet, SP_CAPTURE_DROPPED, sp_drop_names[SP_DROP_CONTEXT_CLOSED]);
	commit(w, waiting->record);
	waiting->record = NULL;
}

static void tap_settle(struct sp_worker *w)
{
	struct sp_captures *ms = w->captures;
	const uint64_t passed = stamp(w);
	const unsigned n = ms->count;

	for (unsigned i = 0; i < n; i++) {
		const struct sp_packet *p = (const void *)(ms->packets + i * ms->stride);
		struct sp_record *r = ms->record[i];

		if (!r)
			continue;
		if (!r->slot.fate)
			set_fate(r, p, SP_CAPTURE_TAKEN, NULL);
		r->slot.tsc[SP_CAPTURE_PASSED] = passed;
		commit(w, r);
	}
	ms->count = 0;
}

/* ---- what is sent ---- */

static void tap_sender(struct sp_worker *w, uint16_t port, uint32_t context)
{
	const struct sp_tx_queue *q = &w->tx[port];
	const unsigned at = (q->head + q->count - 1) % SP_TX_QUEUE;

	w->captures->sender[port][at] = context;
	w->captures->queued[port][at].round = w->tsc;
	w->captures->queued[port][at].tsc = stamp(w);
}

static void name_sender(struct sp_worker *w, struct sp_capture_slot *s, uint32_t id)
{
	const struct sp_context *c = id ? sp_context_by_id(w->nic, id) : NULL;

	if (c)
		memcpy(s->context, c->name, sizeof(s->context));
}

/* Into the slot `ahead` of the tail, where the program does not look yet. */
static int stage(struct sp_capture *m, struct lane *l, const struct sp_capture_slot *head,
		 const struct rte_mbuf *packet)
{
	struct sp_capture_slot *s;

	if (!fits(m, head))
		return NOT_WANTED;
	s = claim(m, l, l->staged);
	if (!s)
		return LOST;
	memcpy(s, head, sizeof(*s));
	copy_frame(s, packet, m->snaplen);
	l->staged++;
	return STAGED;
}

static void tap_offer(struct sp_worker *w, uint16_t port, unsigned at, unsigned n)
{
	struct sp_captures *ms = w->captures;

	for (unsigned i = 0; i < SP_MAX_CAPTURES; i++)
		if (ms->capture[i]) {
			ms->capture[i]->lane[w->index].staged = 0;
			memset(ms->capture[i]->lane[w->index].offered, NOT_WANTED, SP_OFFER);
		}
	for (unsigned k = 0; k < n && k < SP_OFFER; k++) {
		struct rte_mbuf *packet = w->tx[port].packet[at + k];
		const uint32_t sender = ms->sender[port][at + k];
		struct sp_capture_slot head;
		uint32_t bits;

		if (port == SP_MAX_PORTS && !sender) /* forwarded: it was seen when it arrived */
			continue;
		bits = wanted(ms, packet);
		describe(w, &head, port, packet);
		head.fate = SP_CAPTURE_SENT;
		head.outgoing = 1;
		head.tsc[SP_CAPTURE_ROUND] = ms->queued[port][at + k].round;
		head.tsc[SP_CAPTURE_IN_HAND] = ms->queued[port][at + k].tsc;
		name_sender(w, &head, sender);
		for (unsigned i = 0; i < SP_MAX_CAPTURES; i++)
			if (bits & 1u << i) {
				struct lane *l = &ms->capture[i]->lane[w->index];

				l->offered[k] = (uint8_t)stage(ms->capture[i], l, &head, packet);
			}
	}
}

static void tap_took(struct sp_worker *w, uint16_t port, unsigned at, unsigned done)
{
	struct sp_captures *ms = w->captures;
	const uint64_t passed = stamp(w);

	for (unsigned i = 0; i < SP_MAX_CAPTURES; i++) {
		struct lane *l;
		unsigned staged = 0;

		if (!ms->capture[i])
			continue;
		l = &ms->capture[i]->lane[w->index];
		for (unsigned k = 0; k < done && k < SP_OFFER; k++) {
			if (l->offered[k] == STAGED)
				staged_slot(ms->capture[i], l, staged++)->tsc[SP_CAPTURE_PASSED] = passed;
			if (l->offered[k] == LOST)
				count_lost(l, port);
		}
		if (staged)
			publish(l, staged);
	}
	memset(&ms->sender[port][at], 0, done * sizeof(ms->sender[port][0]));
	memset(&ms->queued[port][at], 0, done * sizeof(ms->queued[port][0]));
}

static void tap_unsent(struct sp_worker *w, uint16_t port, struct rte_mbuf *packet, uint32_t context, enum sp_drop why)
{
	struct sp_captures *ms = w->captures;
	const uint32_t bits = wanted(ms, packet);
	struct sp_capture_slot head;

	describe(w, &head, port, packet);
	head.fate = SP_CAPTURE_DROPPED;
	head.outgoing = 1;
	strncpy(head.reason, sp_drop_names[why], sizeof(head.reason) - 1);
	name_sender(w, &head, context);
	for (unsigned i = 0; i < SP_MAX_CAPTURES; i++) {
		struct lane *l;

		if (!(bits & 1u << i))
			continue;
		l = &ms->capture[i]->lane[w->index];
		l->staged = 0;
		switch (stage(ms->capture[i], l, &head, packet)) {
		case STAGED:
			publish(l, 1);
			break;
		case LOST:
			count_lost(l, port);
			break;
		}
	}
}

const struct sp_tap_calls sp_capture_tap = {.arrive = tap_arrive,
					    .again = tap_again,
					    .match = tap_match,
					    .fate = tap_fate,
					    .park = tap_park,
					    .forget = tap_forget,
					    .hand_over = tap_hand_over,
					    .settle = tap_settle,
					    .sender = tap_sender,
					    .offer = tap_offer,
					    .took = tap_took,
					    .unsent = tap_unsent};
