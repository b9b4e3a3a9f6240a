/* SPDX-License-Identifier: BSD-3-Clause */
/* Packet capture. A handler may change or forward a received packet, so the worker copies it into a record on arrival.
 * Once the packet's fate is known, the record goes into the rings: a slot reserved on arrival would leave a hole when
 * the packet waits or does not match. Transmitted frames are staged in the rings before the port gets them, and
 * published when the port accepts them. */
#include "rule.h"
#include "mirror.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_ether.h>

#include "engine.h"
#include "error.h"
#include "exec_context.h"
#include "match.h"
#include "onlooker.h"
#include "scheduler.h"
#include "worker_call.h"

#define ROOM	(16u << 20) /* bytes of memory of one capture */
#define SLOTS	65536	    /* limit per ring: a longer ring only delays the program */
#define LINE	64
#define OFFER	64 /* limit of frames that a queue offers to its port at once */
#define RECORDS (SP_BURST + SP_PARKED + SP_BACKLOG)

/* The ring of one worker. [worker], except the head in the ring. */
struct lane {
	struct sp_capture_ring *ring;
	uint64_t tail, lost[SP_CAPTURE_PORTS]; /* the ring holds copies for the program */
	unsigned staged;		       /* slots written, but not yet published */
	uint8_t offered[OFFER];		       /* result for each frame offered to a port: */
} SP_CACHE_ALIGNED;
enum { NOT_WANTED, STAGED, LOST };

struct sp_mirror {
	unsigned index;	      /* in nic->mirror and in the workers' arrays; [control] */
	struct sp_rule *rule; /* NULL: all packets. From here to snaplen: read-only after creation */
	bool drops;
	char context[40];
	uint32_t slots, slot_bytes, snaplen;
	struct sp_shared memory;
	struct lane lane[SP_MAX_WORKERS];
};

struct sp_record {
	struct sp_record *next;
	uint32_t wanted; /* bitmap of captures that match */
	uint32_t reserved;
	struct sp_capture_slot slot; /* followed by SP_PACKET_ROOM bytes of frame */
};

/* Capture state of one worker; [worker] once w->mirrors points to it. */
struct sp_mirrors {
	struct sp_mirror *mirror[SP_MAX_MIRRORS];
	uint64_t wall; /* ns since the epoch, at time `since` */
	sp_time since;
	/* The current burst: array of struct sp_packet, and their records (NULL: no capture matches). */
	const uint8_t *packets;
	size_t stride;
	unsigned count;
	struct sp_record *record[SP_BURST > SP_PARKED ? SP_BURST : SP_PARKED];
	struct sp_record *free;
	uint32_t sender[SP_PORT_LOOP + 1][SP_TX_QUEUE]; /* context id of each queued frame's sender; 0: none */
	uint8_t *records;
};
static_assert(SP_CAPTURE_EXCEPTION == SP_MAX_PORTS && SP_CAPTURE_LOOP == SP_PORT_LOOP, "queues are numbered so too");

/* ---- rings ---- */

/* The slot at tail + ahead. NULL: the ring is full, or the program has written a bad head. */
static struct sp_capture_slot *claim(const struct sp_mirror *m, const struct lane *l, unsigned ahead)
{
	const uint64_t at = l->tail + ahead;

	if (at - __atomic_load_n(&l->ring->head, __ATOMIC_ACQUIRE) >= m->slots)
		return NULL;
	return (struct sp_capture_slot *)(void *)((uint8_t *)(l->ring + 1) + (at & (m->slots - 1)) * m->slot_bytes);
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

static bool fits(const struct sp_mirror *m, const struct sp_capture_slot *s)
{
	return (!m->drops || s->fate == SP_CAPTURE_DROPPED) && (!m->context[0] || !strcmp(m->context, s->context));
}

static uint32_t wanted(const struct sp_mirrors *ms, struct rte_mbuf *packet)
{
	uint32_t bits = 0;

	for (unsigned i = 0; i < SP_MAX_MIRRORS; i++)
		if (ms->mirror[i] && (!ms->mirror[i]->rule || sp_rule_matches(ms->mirror[i]->rule, packet)))
			bits |= 1u << i;
	return bits;
}

static void describe(const struct sp_worker *w, struct sp_capture_slot *s, uint16_t port, const struct rte_mbuf *packet)
{
	const struct sp_mirrors *ms = w->mirrors;

	memset(s, 0, sizeof(*s));
	s->time = ms->wall + (w->now - ms->since) / SP_NS;
	s->length = packet->pkt_len;
	s->port = port;
	s->worker = w->index;
	s->verdict = SP_CAPTURE_NO_VERDICT;
}

/* Copies at most `room` bytes, from any number of segments. */
static void copy_frame(struct sp_capture_slot *s, const struct rte_mbuf *packet, uint32_t room)
{
	const void *bytes;

	s->captured = RTE_MIN(packet->pkt_len, room);
	bytes = rte_pktmbuf_read(packet, 0, s->captured, s->frame);
	if (bytes && bytes != s->frame)
		memcpy(s->frame, bytes, s->captured);
}

/* ---- received packets ---- */

static struct sp_record **record_of(struct sp_mirrors *ms, const struct sp_packet *p)
{
	static struct sp_record *none;
	const size_t i = (size_t)((const uint8_t *)p - ms->packets) / ms->stride;

	return i < ms->count ? &ms->record[i] : &none;
}

static void recycle(struct sp_mirrors *ms, struct sp_record *r)
{
	r->next = ms->free;
	ms->free = r;
}

static bool tap_arrive(struct sp_worker *w, uint16_t port, struct sp_packet *p, struct rte_mbuf **packet, unsigned n)
{
	struct sp_mirrors *ms = w->mirrors;

	ms->packets = (const uint8_t *)p;
	ms->stride = sizeof(*p);
	ms->count = n;
	for (unsigned i = 0; i < n; i++) {
		struct sp_record *r = ms->free; /* RECORDS covers all packets in flight */
		uint32_t bits;

		if (packet[i]->nb_segs > 1) /* filters need one segment; dispatch would drop it otherwise */
			rte_pktmbuf_linearize(packet[i]);
		bits = wanted(ms, packet[i]);
		ms->record[i] = bits ? r : NULL;
		if (!bits)
			continue;
		ms->free = r->next;
		r->wanted = bits;
		describe(w, &r->slot, port, packet[i]);
		copy_frame(&r->slot, packet[i], SP_PACKET_ROOM);
	}
	return false;
}

static bool tap_again(struct sp_worker *w, const struct sp_waiting *waiting, unsigned n)
{
	struct sp_mirrors *ms = w->mirrors;

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
			struct sp_record *r = *record_of(w->mirrors, e->batch[k]);

			if (r)
				memcpy(r->slot.context, sp_entity_view(e)->context->name, sizeof(r->slot.context));
		}
	}
}

/* False: the NIC drops for this reason before it calls the handler. */
static bool is_asked(const char *reason)
{
	return reason != sp_drop_names[SP_DROP_HEADER_BUSY] && reason != sp_drop_names[SP_DROP_MESSAGE_TABLE_FULL] &&
	       reason != sp_drop_names[SP_DROP_NO_MESSAGE] && reason != sp_drop_names[SP_DROP_CONTEXT_CLOSED] &&
	       reason != sp_drop_names[SP_DROP_OVER_BUDGET] && reason != sp_drop_names[SP_DROP_CONTEXT_DISABLED] &&
	       reason != sp_drop_names[SP_DROP_BACKLOG_FULL];
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
	struct sp_record *r = *record_of(w->mirrors, p);

	if (r)
		set_fate(r, p, fate, reason);
}

static struct sp_record *tap_park(struct sp_worker *w, const struct sp_packet *p)
{
	struct sp_record **at = record_of(w->mirrors, p), *r = *at;

	*at = NULL;
	return r;
}

static void tap_hand_over(struct sp_worker *w, const struct sp_packet *p)
{
	struct sp_record *r = tap_park(w, p);

	if (r)
		recycle(w->mirrors, r);
}

static void commit(struct sp_worker *w, struct sp_record *r)
{
	struct sp_mirrors *ms = w->mirrors;

	for (unsigned i = 0; i < SP_MAX_MIRRORS; i++) {
		struct sp_mirror *m = ms->mirror[i];
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
	struct sp_mirrors *ms = w->mirrors;
	const unsigned n = ms->count;

	for (unsigned i = 0; i < n; i++) {
		const struct sp_packet *p = (const void *)(ms->packets + i * ms->stride);
		struct sp_record *r = ms->record[i];

		if (!r)
			continue;
		if (!r->slot.fate)
			set_fate(r, p, SP_CAPTURE_TAKEN, NULL);
		commit(w, r);
	}
	ms->count = 0;
}

/* ---- sent packets ---- */

static void tap_sender(struct sp_worker *w, uint16_t port, uint32_t context)
{
	const struct sp_tx_queue *q = &w->tx[port];

	w->mirrors->sender[port][(q->head + q->count - 1) % SP_TX_QUEUE] = context;
}

static void name_sender(struct sp_worker *w, struct sp_capture_slot *s, uint32_t id)
{
	const struct sp_context *c = id ? sp_context_by_id(w->nic, id) : NULL;

	if (c)
		memcpy(s->context, c->name, sizeof(s->context));
}

/* Writes to the slot at tail + ahead, which the program cannot see yet. */
static int stage(struct sp_mirror *m, struct lane *l, const struct sp_capture_slot *head, const struct rte_mbuf *packet)
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
	struct sp_mirrors *ms = w->mirrors;

	for (unsigned i = 0; i < SP_MAX_MIRRORS; i++)
		if (ms->mirror[i]) {
			ms->mirror[i]->lane[w->index].staged = 0;
			memset(ms->mirror[i]->lane[w->index].offered, NOT_WANTED, OFFER);
		}
	for (unsigned k = 0; k < n && k < OFFER; k++) {
		struct rte_mbuf *packet = w->tx[port].packet[at + k];
		const uint32_t sender = ms->sender[port][at + k];
		struct sp_capture_slot head;
		uint32_t bits;

		if (port == SP_MAX_PORTS && !sender) /* forwarded: captured on arrival */
			continue;
		bits = wanted(ms, packet);
		describe(w, &head, port, packet);
		head.fate = SP_CAPTURE_SENT;
		head.outgoing = 1;
		name_sender(w, &head, sender);
		for (unsigned i = 0; i < SP_MAX_MIRRORS; i++)
			if (bits & 1u << i) {
				struct lane *l = &ms->mirror[i]->lane[w->index];

				l->offered[k] = (uint8_t)stage(ms->mirror[i], l, &head, packet);
			}
	}
}

static void tap_took(struct sp_worker *w, uint16_t port, unsigned at, unsigned done)
{
	struct sp_mirrors *ms = w->mirrors;

	for (unsigned i = 0; i < SP_MAX_MIRRORS; i++) {
		struct lane *l;
		unsigned staged = 0;

		if (!ms->mirror[i])
			continue;
		l = &ms->mirror[i]->lane[w->index];
		for (unsigned k = 0; k < done && k < OFFER; k++) {
			staged += l->offered[k] == STAGED;
			if (l->offered[k] == LOST)
				count_lost(l, port);
		}
		if (staged)
			publish(l, staged);
	}
	memset(&ms->sender[port][at], 0, done * sizeof(ms->sender[port][0]));
}

static void tap_unsent(struct sp_worker *w, uint16_t port, struct rte_mbuf *packet, uint32_t context, enum sp_drop why)
{
	struct sp_mirrors *ms = w->mirrors;
	const uint32_t bits = wanted(ms, packet);
	struct sp_capture_slot head;

	describe(w, &head, port, packet);
	head.fate = SP_CAPTURE_DROPPED;
	head.outgoing = 1;
	strncpy(head.reason, sp_drop_names[why], sizeof(head.reason) - 1);
	name_sender(w, &head, context);
	for (unsigned i = 0; i < SP_MAX_MIRRORS; i++) {
		struct lane *l;

		if (!(bits & 1u << i))
			continue;
		l = &ms->mirror[i]->lane[w->index];
		l->staged = 0;
		switch (stage(ms->mirror[i], l, &head, packet)) {
		case STAGED:
			publish(l, 1);
			break;
		case LOST:
			count_lost(l, port);
			break;
		}
	}
}

/* ---- control ---- */

static void mirrors_free(struct sp_mirrors *ms)
{
	if (ms)
		free(ms->records);
	free(ms);
}

static struct sp_mirrors *mirrors_new(void)
{
	const size_t bytes = RTE_ALIGN(sizeof(struct sp_record) + SP_PACKET_ROOM, LINE);
	struct sp_mirrors *ms = calloc(1, sizeof(*ms));

	if (!ms)
		return NULL;
	ms->records = calloc(RECORDS, bytes);
	if (!ms->records) {
		free(ms);
		return NULL;
	}
	for (unsigned i = 0; i < RECORDS; i++)
		recycle(ms, (struct sp_record *)(void *)(ms->records + i * bytes));
	return ms;
}

static void name_ports(const struct sp_nic *nic, struct sp_capture_memory *head)
{
	for (unsigned i = 0; i < nic->ports; i++) {
		const char *device = nic->config.port[i].device;

		if (device)
			snprintf(head->port[i], sizeof(head->port[i]), "%s", device);
		else
			snprintf(head->port[i], sizeof(head->port[i]), "port%u", i);
	}
	if (nic->has_exception)
		snprintf(head->port[SP_CAPTURE_EXCEPTION], sizeof(head->port[0]), "%s",
			 nic->config.exception.device ? nic->config.exception.device : "exception");
	snprintf(head->port[SP_CAPTURE_LOOP], sizeof(head->port[0]), "loop");
}

static int make_rings(struct sp_mirror *m, const struct sp_nic *nic, uint32_t snaplen)
{
	const uint32_t largest = nic->config.mtu + RTE_ETHER_HDR_LEN + 8; /* and two VLAN tags */
	const size_t first = RTE_ALIGN(sizeof(struct sp_capture_memory), LINE);
	struct sp_capture_memory *head;
	size_t stride;
	int r;

	m->snaplen = RTE_MIN(snaplen ? snaplen : largest, (uint32_t)SP_PACKET_ROOM);
	m->slot_bytes = RTE_ALIGN((uint32_t)sizeof(struct sp_capture_slot) + m->snaplen, LINE);
	m->slots = (uint32_t)(((ROOM - first) / nic->workers - sizeof(struct sp_capture_ring)) / m->slot_bytes);
	m->slots = RTE_MIN(rte_align32prevpow2(m->slots), (uint32_t)SLOTS);
	stride = sizeof(struct sp_capture_ring) + (size_t)m->slots * m->slot_bytes;
	r = sp_shared_create(first + nic->workers * stride, "spindle-capture", false, &m->memory);
	if (r)
		return r;
	head = m->memory.base;
	*head = (struct sp_capture_memory){.magic = SP_CAPTURE_MAGIC,
					   .workers = nic->workers,
					   .slots = m->slots,
					   .slot_bytes = m->slot_bytes,
					   .first = first,
					   .stride = stride,
					   .snaplen = m->snaplen};
	name_ports(nic, head);
	for (unsigned i = 0; i < nic->workers; i++)
		m->lane[i].ring = (struct sp_capture_ring *)(void *)((uint8_t *)head + first + i * stride);
	return 0;
}

static bool is_text(const char *text, size_t room)
{
	return memchr(text, '\0', room) != NULL;
}

static int check(const struct sp_nic *nic, const struct sp_capture_request *q, struct sp_error *error)
{
	if (q->flags & ~(uint32_t)SP_CAPTURE_DROPS || !is_text(q->context, sizeof(q->context)) ||
	    !is_text(q->filter, sizeof(q->filter)))
		return sp_error_set(error, EINVAL, "", "not a request to capture");
	if (!q->context[0])
		return 0;
	for (uint32_t i = 0; i < nic->context_next; i++)
		if (nic->context[i] && !strcmp(nic->context[i]->name, q->context))
			return 0;
	return sp_error_set(error, ENOENT, "context", "there is no context %s", q->context);
}

struct change {
	struct sp_mirror *mirror;
	unsigned index;
	struct sp_mirrors *part[SP_MAX_WORKERS]; /* in: parts for new workers' lists; out: parts to free */
	bool last;
};

static const struct sp_tap_calls tap = {.arrive = tap_arrive,
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

static void join(struct sp_worker *w, void *arg)
{
	struct change *change = arg;
	struct timespec wall;

	if (!w->mirrors)
		w->mirrors = change->part[w->index];
	clock_gettime(CLOCK_REALTIME, &wall);
	w->mirrors->wall = (uint64_t)wall.tv_sec * 1000000000u + (uint64_t)wall.tv_nsec;
	w->mirrors->since = w->now;
	w->mirrors->mirror[change->index] = change->mirror;
	sp_tap_set(w, SP_OBSERVER_CAPTURE, &tap);
}

static void unrecord(struct sp_waiting *waiting, void *arg)
{
	const struct change *change = arg;

	if (waiting->record) /* the next capture at this index has another filter */
		waiting->record->wanted &= ~(1u << change->index);
	if (change->last)
		waiting->record = NULL;
}

static void leave(struct sp_worker *w, void *arg)
{
	struct change *change = arg;
	struct sp_mirrors *ms = w->mirrors;
	struct sp_waiting *waiting;

	ms->mirror[change->index] = NULL;
	STAILQ_FOREACH (waiting, &w->parked.list, next)
		unrecord(waiting, change);
	sp_scheduler_each(w, unrecord, change);
	if (change->last) {
		change->part[w->index] = ms;
		w->mirrors = NULL;
		sp_tap_set(w, SP_OBSERVER_CAPTURE, NULL);
	}
}

static void discard(struct sp_mirror *m)
{
	sp_rule_destroy(m->rule);
	sp_shared_leave(&m->memory); /* the program may still read earlier packets */
	free(m);
}

int sp_mirror_open(struct sp_nic *nic, const struct sp_capture_request *request, struct sp_error *error,
		   struct sp_mirror **mirror, struct sp_shared **memory)
{
	struct change change = {0};
	struct sp_mirror *m;
	unsigned index = 0;
	int r = check(nic, request, error);

	if (r)
		return r;
	while (index < SP_MAX_MIRRORS && nic->mirror[index])
		index++;
	if (index == SP_MAX_MIRRORS)
		return sp_error_set(error, EBUSY, "", "there are %d captures already", SP_MAX_MIRRORS);
	m = aligned_alloc(LINE, RTE_ALIGN(sizeof(*m), LINE));
	if (!m)
		return sp_error_set(error, ENOMEM, "", "no memory for a capture");
	memset(m, 0, sizeof(*m));
	m->memory.fd = -1;
	m->index = index;
	m->drops = request->flags & SP_CAPTURE_DROPS;
	memcpy(m->context, request->context, sizeof(m->context));
	r = request->filter[0] ? sp_rule_create(request->filter, NULL, &m->rule, error) : 0;
	if (r)
		goto fail;
	r = make_rings(m, nic, request->snaplen);
	for (unsigned i = 0; !r && i < nic->workers; i++)
		if (!nic->worker[i]->mirrors && !(change.part[i] = mirrors_new()))
			r = -ENOMEM;
	if (r) {
		sp_error_set(error, -r, "", "no memory for a capture");
		goto fail;
	}
	change.mirror = m;
	change.index = index;
	for (unsigned i = 0; i < nic->workers; i++)
		sp_worker_call(nic->worker[i], join, &change);
	nic->mirror[index] = m;
	*mirror = m;
	*memory = &m->memory;
	return 0;
fail:
	for (unsigned i = 0; i < nic->workers; i++)
		mirrors_free(change.part[i]);
	discard(m);
	return r;
}

void sp_mirror_close(struct sp_nic *nic, struct sp_mirror *m)
{
	struct change change = {.index = m->index, .last = true};

	nic->mirror[m->index] = NULL;
	for (unsigned i = 0; i < SP_MAX_MIRRORS; i++)
		change.last &= !nic->mirror[i];
	for (unsigned i = 0; i < nic->workers; i++)
		sp_worker_call(nic->worker[i], leave, &change);
	for (unsigned i = 0; i < nic->workers; i++)
		mirrors_free(change.part[i]);
	discard(m);
}
