/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sockets over RVMA: records on their way out, and datagrams. A record that the receiver's NIC has refused is
 * retransmitted after a pause that doubles each time. A refused record was never delivered, so it cannot arrive twice.
 * After any other failure that is not certain, so the record is not retransmitted.
 */
#include "rvma_socket_private.h"

#include <string.h>

#define RVMA_PAUSE	(50 * SP_US)
#define RVMA_PAUSE_MOST (20 * SP_MS)

/* ---- slots ---- */
/* One slot in eight is reserved for records without data. */
static uint32_t rvma_slots_for_data(const struct rvma_socket *s)
{
	const uint32_t spare = s->attr.sending / 8;

	return s->slots_free > spare ? s->slots_free - spare : 0;
}

/* No stream takes more than half of the slots that the others have left: a peer that reads nothing cannot block the
 * socket. Nor does a stream go on while its records are refused: later ones would only arrive in the wrong order. */
uint32_t rvma_slots_left(const struct rvma_socket *s, const struct rvma_stream *st, uint32_t most)
{
	const uint32_t left = rvma_slots_for_data(s);
	uint32_t n = 0;

	while (!st->refused && n < most && n < left && st->slots + n < 1 + (left - n) / 2)
		n++;
	return n;
}

struct rvma_slot *rvma_slot_take(struct rvma_socket *s, struct rvma_stream *st, bool spare)
{
	struct rvma_slot *slot = STAILQ_FIRST(&s->slots);

	if (!(spare ? s->slots_free : rvma_slots_for_data(s)))
		return NULL;
	STAILQ_REMOVE_HEAD(&s->slots, link);
	s->slots_free--;
	*slot = (struct rvma_slot){.stream = st, .offset = slot->offset, .pause = RVMA_PAUSE};
	if (st) {
		slot->peer = st->peer;
		slot->mailbox = RVMA_SOCKET_MAILBOX + st->to.port;
		st->slots++;
	}
	return slot;
}

static void rvma_slot_free(struct rvma_socket *s, struct rvma_slot *slot)
{
	if (slot->stream) {
		slot->stream->slots--;
		slot->stream->refused -= slot->refused;
	}
	if (slot->route)
		slot->route->users--;
	STAILQ_INSERT_HEAD(&s->slots, slot, link);
	s->slots_free++;
}

uint8_t *rvma_slot_bytes(const struct rvma_socket *s, const struct rvma_slot *slot)
{
	return (uint8_t *)s->mr->addr + slot->offset + RVMA_HEAD;
}

/* ---- sending ---- */
static void rvma_slot_ended(struct rvma_socket *s, struct rvma_slot *slot, int rc)
{
	struct rvma_stream *st = slot->stream;
	const uint8_t type = slot->type;

	rvma_slot_free(s, slot);
	if (st)
		s->sent(st, type, rc);
	else if (rc && type == SP_RVMA_RECORD_DATAGRAM)
		s->status.failed++;
}

/* A stream that has failed sends nothing more but the reset. */
static bool rvma_slot_obsolete(const struct rvma_slot *slot)
{
	return slot->stream && slot->stream->error && slot->type != SP_RVMA_RECORD_RESET;
}

static bool rvma_may_go_again(int rc)
{
	return rc == -ENOBUFS || rc == -EDQUOT || rc == -ENOSPC || rc == -ECONNABORTED;
}

static void rvma_slot_wait(struct rvma_socket *s, struct rvma_slot *slot, sp_time pause)
{
	slot->op = NULL;
	slot->retry = s->now + pause;
	STAILQ_INSERT_TAIL(&s->waiting, slot, link);
}

/* The receiver has refused it. */
static void rvma_slot_again(struct rvma_socket *s, struct rvma_slot *slot)
{
	struct rvma_stream *st = slot->stream;

	if (!slot->until)
		slot->until = s->now + s->attr.timeout;
	if (s->now >= slot->until || s->closing || rvma_slot_obsolete(slot)) {
		rvma_slot_ended(s, slot, -ETIMEDOUT);
		return;
	}
	s->status.again++;
	if (st && !slot->refused)
		st->refused++;
	slot->refused = true;
	rvma_slot_wait(s, slot, slot->pause / 2 + rvma_random(s) % slot->pause);
	slot->pause = slot->pause * 2 < RVMA_PAUSE_MOST ? slot->pause * 2 : RVMA_PAUSE_MOST;
}

static void rvma_slot_put(struct rvma_socket *s, struct rvma_slot *slot)
{
	int rc;

	slot->stalled = false;
	rc = rvma_put(slot->peer, slot->mailbox, s->attr.key, s->mr, slot->offset, slot->size, &slot->op);

	if (!rc) {
		STAILQ_INSERT_TAIL(&s->in_flight, slot, link);
	} else if (rc == -EAGAIN) { /* the context or the queue to the NIC is full */
		slot->stalled = true;
		rvma_slot_wait(s, slot, 0);
	} else if (rvma_may_go_again(rc)) {
		rvma_slot_again(s, slot);
	} else {
		rvma_slot_ended(s, slot, rc);
	}
}

void rvma_slot_send(struct rvma_socket *s, struct rvma_slot *slot, const struct rvma_record *r)
{
	struct sp_rvma_record h = {.type = r->type, .version = SP_RVMA_RECORD_VERSION};
	uint8_t *at = (uint8_t *)s->mr->addr + slot->offset;

	sp_store_be16(h.length, r->length);
	sp_store_be16(h.port, s->name.port);
	sp_store_be32(h.qpn, s->name.address.qpn);
	memcpy(h.ip, s->name.address.ip, sizeof(h.ip));
	sp_store_be64(h.stream, r->stream);
	sp_store_be64(h.source, r->source);
	sp_store_be32(h.sequence, r->sequence);
	sp_store_be32(h.limit, r->limit);
	sp_store_be16(h.record, r->record);
	memcpy(at, &h, sizeof(h));
	slot->type = r->type;
	slot->size = RVMA_RECORD_BYTES(r->length);
	memset(at + RVMA_HEAD + r->length, 0, slot->size - RVMA_HEAD - r->length);
	rvma_slot_put(s, slot);
}

static void rvma_in_flight_progress(struct rvma_socket *s)
{
	struct rvma_slots all = STAILQ_HEAD_INITIALIZER(all);
	struct rvma_slot *slot;

	STAILQ_CONCAT(&all, &s->in_flight);
	while ((slot = STAILQ_FIRST(&all))) {
		const int rc = rvma_op_test(slot->op);

		STAILQ_REMOVE_HEAD(&all, link);
		if (rc == -EAGAIN) {
			STAILQ_INSERT_TAIL(&s->in_flight, slot, link);
			continue;
		}
		s->status.sent += !rc;
		if (rvma_may_go_again(rc))
			rvma_slot_again(s, slot);
		else
			rvma_slot_ended(s, slot, rc);
	}
}

static void rvma_waiting_progress(struct rvma_socket *s)
{
	struct rvma_slots all = STAILQ_HEAD_INITIALIZER(all);
	struct rvma_slot *slot;
	bool full = false;

	STAILQ_CONCAT(&all, &s->waiting);
	while ((slot = STAILQ_FIRST(&all))) {
		STAILQ_REMOVE_HEAD(&all, link);
		if (rvma_slot_obsolete(slot)) {
			rvma_slot_ended(s, slot, -ECANCELED);
		} else if (slot->retry <= s->now && !full) {
			rvma_slot_put(s, slot);
			full = slot->stalled && s->waiting.stqh_last == &STAILQ_NEXT(slot, link);
		} else {
			slot->stalled = slot->retry <= s->now;
			STAILQ_INSERT_TAIL(&s->waiting, slot, link);
		}
	}
}

void rvma_send_progress(struct rvma_socket *s)
{
	rvma_in_flight_progress(s);
	rvma_waiting_progress(s);
}

void rvma_send_drop(struct rvma_socket *s)
{
	struct rvma_slot *slot;

	while ((slot = STAILQ_FIRST(&s->waiting))) {
		STAILQ_REMOVE_HEAD(&s->waiting, link);
		rvma_slot_ended(s, slot, -ECANCELED);
	}
}

sp_time rvma_send_deadline(const struct rvma_socket *s)
{
	const struct rvma_slot *slot;
	sp_time next = SP_NEVER;

	STAILQ_FOREACH (slot, &s->waiting, link) {
		/* The end of an operation makes room for another and wakes us, but perhaps none of ours is in
		 * flight. */
		const sp_time retry =
			slot->stalled ? s->now + (STAILQ_EMPTY(&s->in_flight) ? 10 * SP_US : SP_MS) : slot->retry;

		next = retry < next ? retry : next;
	}
	return next;
}

/* ---- datagrams ---- */
static uint32_t rvma_address_hash(const struct rvma_address *a)
{
	uint64_t h = a->qpn, word;

	for (unsigned i = 0; i < sizeof(a->ip); i += 8) {
		memcpy(&word, a->ip + i, 8);
		h = (h ^ word) * 0x9E3779B97F4A7C15u;
		h ^= h >> 29;
	}
	return (uint32_t)(h >> 32);
}

int rvma_route_find(struct rvma_socket *s, const struct rvma_address *address, struct rvma_route **route)
{
	struct rvma_route *set = &s->route[rvma_address_hash(address) % (RVMA_ROUTES / RVMA_WAYS) * RVMA_WAYS];
	struct rvma_route *old = NULL;
	struct rvma_peer *peer;
	int rc;

	for (unsigned i = 0; i < RVMA_WAYS; i++) {
		if (set[i].peer && !memcmp(&set[i].peer->address, address, sizeof(*address))) {
			*route = &set[i];
			return 0;
		}
		if (!set[i].peer || (!set[i].users && (!old || old->peer)))
			old = &set[i];
	}
	if (!old)
		return -EAGAIN;
	rc = rvma_peer_open(s->rvma, address, &peer);
	if (rc)
		return rc;
	rvma_peer_close(old->peer);
	*old = (struct rvma_route){.peer = peer};
	*route = old;
	return 0;
}

void rvma_slot_route(struct rvma_slot *slot, struct rvma_route *route, uint16_t port)
{
	slot->route = route;
	route->users++;
	slot->peer = route->peer;
	slot->mailbox = RVMA_SOCKET_MAILBOX + port;
}

int rvma_socket_sendto(struct rvma_socket *s, const void *bytes, size_t len, const struct rvma_socket_address *to)
{
	const struct rvma_record r = {.type = SP_RVMA_RECORD_DATAGRAM, .length = (uint16_t)len};
	struct rvma_route *route;
	struct rvma_slot *slot;
	int rc = s->error;

	if (!rc && len > s->attr.record)
		rc = -EMSGSIZE;
	if (!rc && (s->closing || !to->port))
		rc = -EINVAL;
	rc = rc ? rc : rvma_route_find(s, &to->address, &route);
	if (rc)
		return rc;
	/* As for streams: a peer that reads nothing does not get all slots. */
	slot = route->users < 1 + rvma_slots_for_data(s) / 2 ? rvma_slot_take(s, NULL, false) : NULL;
	if (!slot)
		return -EAGAIN;
	rvma_slot_route(slot, route, to->port);
	if (len)
		memcpy(rvma_slot_bytes(s, slot), bytes, len);
	rvma_slot_send(s, slot, &r);
	return 0;
}

int rvma_socket_recvfrom(struct rvma_socket *s, void *bytes, size_t room, struct rvma_socket_address *from)
{
	struct rvma_cell *c = STAILQ_FIRST(&s->datagram);
	int length;

	if (!c)
		return s->error ? s->error : -EAGAIN;
	length = c->length;
	if (c->length && room)
		memcpy(bytes, c->bytes, c->length < room ? c->length : room);
	if (from)
		*from = c->from;
	STAILQ_REMOVE_HEAD(&s->datagram, link);
	s->datagrams--;
	rvma_cell_free(s, c);
	return length;
}
