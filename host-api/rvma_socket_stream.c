/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sockets over RVMA: streams. Puts arrive once, and in any order: DATA and END have numbers, and wait in cells until it
 * is their turn. Cells are promised before they are used: each stream has two of its own, for one DATA and its END, and
 * beyond these a peer may send what is at most an eighth of the cells that nobody has. So a record of a stream always
 * finds its cell, the bucket is always read to its end, and what lets the other side go on is never stuck behind what
 * nobody reads; and streams that nobody reads take ever less, and never all.
 */
#include "rvma_socket_private.h"

#include <string.h>

/* ---- lists ---------------------------------------------------------------------------------------------------------
 */
#define RVMA_TOKEN_BITS 16u /* of a token: the stream's place */

static struct rvma_stream *rvma_stream_find(const struct rvma_socket *s, uint64_t token)
{
	struct rvma_stream *st = &s->stream[token & ((1u << RVMA_TOKEN_BITS) - 1)];

	if ((token & ((1u << RVMA_TOKEN_BITS) - 1)) >= s->streams_fresh)
		return NULL;
	return st->state != RVMA_STREAM_FREE && st->token == token ? st : NULL;
}

static void rvma_stream_news(struct rvma_stream *st)
{
	struct rvma_socket *s = st->socket;

	if (st->ready || st->backlog || st->closed)
		return;
	st->ready = true;
	st->next_ready = NULL;
	if (s->ready)
		s->ready_last->next_ready = st;
	else
		s->ready = st;
	s->ready_last = st;
}

static void rvma_ready_remove(struct rvma_stream *st)
{
	struct rvma_socket *s = st->socket;
	struct rvma_stream **at = &s->ready, *last = NULL;

	for (; *at != st; at = &(*at)->next_ready)
		last = *at;
	*at = st->next_ready;
	if (s->ready_last == st)
		s->ready_last = last;
	st->ready = false;
}

static void rvma_backlog_remove(struct rvma_stream *st)
{
	struct rvma_socket *s = st->socket;
	struct rvma_stream **at = &s->backlog, *last = NULL;

	for (; *at != st; at = &(*at)->next)
		last = *at;
	*at = st->next;
	if (s->backlog_last == st)
		s->backlog_last = last;
	st->backlog = false;
	s->backlogs--;
}

/* It has something to say. */
static void rvma_stream_due(struct rvma_stream *st)
{
	struct rvma_socket *s = st->socket;

	if (st->due)
		return;
	st->due = true;
	st->next_due = NULL;
	if (s->due)
		s->due_last->next_due = st;
	else
		s->due = st;
	s->due_last = st;
}

/* Records that it could send now. */
static uint32_t rvma_stream_records(const struct rvma_stream *st)
{
	const uint32_t most = rvma_before(st->next_out, st->limit_out) ? st->limit_out - st->next_out : 0;

	return st->greeted && !st->error ? rvma_slots_left(st->socket, st, most) : 0;
}

/* ---- beginning and end ---------------------------------------------------------------------------------------------
 */
/* Cells beyond its own that it was promised. */
static uint32_t rvma_stream_promised(const struct rvma_stream *st)
{
	const uint32_t unread = st->told - st->consumed;

	return unread ? unread - 1 : 0;
}

/* What it may have unread if it is promised what is fair now. */
static uint32_t rvma_stream_share(const struct rvma_stream *st)
{
	const struct rvma_socket *s = st->socket;
	const uint32_t more = (s->floating + rvma_stream_promised(st)) / 8;

	return 1 + (more < s->attr.window ? more : s->attr.window - 1);
}

/* Before and after `told` or `consumed` changes. */
static void rvma_promise_back(struct rvma_stream *st)
{
	st->socket->floating += rvma_stream_promised(st);
}

static void rvma_promise(struct rvma_stream *st)
{
	st->socket->floating -= rvma_stream_promised(st);
}

static int rvma_stream_new(struct rvma_socket *s, const struct rvma_socket_address *to, struct rvma_stream **out)
{
	struct rvma_stream *st = s->stream_free ? s->stream_free : &s->stream[s->streams_fresh];
	struct rvma_peer *peer;
	int rc;

	if (!s->stream_free && s->streams_fresh == s->attr.streams)
		return -EMFILE;
	rc = rvma_peer_open(s->rvma, &to->address, &peer);
	if (rc)
		return rc;
	if (s->stream_free)
		s->stream_free = st->next;
	else
		s->streams_fresh++;
	*st = (struct rvma_stream){.socket = s, .to = *to, .peer = peer, .proved = s->now};
	st->token = (rvma_secret(s) | 1) << RVMA_TOKEN_BITS | (uint32_t)(st - s->stream);
	st->told = rvma_stream_share(st);
	rvma_promise(st);
	s->status.streams++;
	*out = st;
	return 0;
}

/* Once nobody asks for it: neither the application nor one of its slots. */
static void rvma_stream_release(struct rvma_stream *st)
{
	struct rvma_socket *s = st->socket;

	if (st->state == RVMA_STREAM_FREE || !st->closed || st->slots || st->due || !(st->error || st->ended))
		return;
	while (st->first) {
		struct rvma_cell *c = st->first;

		st->first = c->next;
		rvma_cell_free(s, c);
	}
	rvma_promise_back(st);
	rvma_peer_close(st->peer);
	st->state = RVMA_STREAM_FREE;
	st->next = s->stream_free;
	s->stream_free = st;
	s->status.streams--;
}

/* For slots of that kind: what the peer must always know. */
static void rvma_stream_say(struct rvma_stream *st, struct rvma_slot *slot, uint8_t type, uint16_t length)
{
	const struct rvma_heard r = {.type = type,
				     .length = length,
				     .record = (uint16_t)st->socket->attr.record,
				     .sequence = st->next_out,
				     .limit = st->told,
				     .stream = st->peer_token,
				     .source = st->token};

	st->next_out += type == SP_RVMA_RECORD_DATA || type == SP_RVMA_RECORD_END;
	rvma_slot_send(st->socket, slot, &r);
}

void rvma_stream_fail(struct rvma_stream *st, int error, bool tell)
{
	struct rvma_socket *s = st->socket;

	if (st->error)
		return;
	st->error = error;
	s->status.resets++;
	if (tell && st->peer_token) {
		struct rvma_slot *slot = rvma_slot_take(s, st, true);

		if (slot)
			rvma_stream_say(st, slot, SP_RVMA_RECORD_RESET, 0);
	}
	if (st->backlog) {
		rvma_backlog_remove(st);
		st->closed = true;
	}
	rvma_stream_news(st);
	rvma_stream_release(st);
}

/* ---- what is to be said --------------------------------------------------------------------------------------------
 */
/* Takes a slot for one thing that it owes. false: there is none. */
static bool rvma_stream_owed(struct rvma_stream *st, bool *owes, uint8_t type)
{
	struct rvma_slot *slot;

	if (!*owes || st->error)
		return true;
	slot = rvma_slot_take(st->socket, st, true);
	if (!slot)
		return false;
	*owes = false;
	if (type == SP_RVMA_RECORD_END)
		st->ended = true;
	rvma_stream_say(st, slot, type, 0);
	return true;
}

/* The peer may send more: told when that is worth a record, or it can send nothing. */
static void rvma_stream_tell(struct rvma_stream *st)
{
	const uint32_t share = rvma_stream_share(st), limit = st->consumed + share;

	if (!rvma_before(st->told, limit) || st->end_known || st->error)
		return;
	if (st->told != st->consumed && limit - st->told < (share + 1) / 2)
		return;
	rvma_promise_back(st);
	st->told = limit;
	rvma_promise(st);
	st->owes_window = true;
	rvma_stream_due(st);
}

static bool rvma_stream_talk(struct rvma_stream *st)
{
	if (!rvma_stream_owed(st, &st->owes_accept, SP_RVMA_RECORD_ACCEPT))
		return false;
	if (!st->greeted)
		return true;
	if (st->probes)
		st->owes_window = true;
	st->probes = false;
	/* END after all DATA that has been given to us; it may be the one beyond the limit. */
	return rvma_stream_owed(st, &st->owes_window, SP_RVMA_RECORD_WINDOW) &&
	       rvma_stream_owed(st, &st->owes_end, SP_RVMA_RECORD_END);
}

static void rvma_due_progress(struct rvma_socket *s)
{
	while (s->due) {
		struct rvma_stream *st = s->due;

		if (!rvma_stream_talk(st))
			return;
		s->due = st->next_due;
		st->due = false;
		rvma_stream_release(st);
	}
}

void rvma_stream_sent(struct rvma_stream *st, uint8_t type, int rc)
{
	struct rvma_socket *s = st->socket;

	if (!rc)
		st->proved = s->now;
	if (!rc && type == SP_RVMA_RECORD_ACCEPT) {
		st->greeted = true;
		rvma_stream_due(st);
		rvma_stream_news(st);
	}
	if (rc && type == SP_RVMA_RECORD_CONNECT &&
	    (rc == -ENOENT || rc == -EACCES || rc == -ESHUTDOWN || rc == -EMSGSIZE))
		rvma_stream_fail(st, -ECONNREFUSED, false);
	else if (rc && type != SP_RVMA_RECORD_RESET)
		rvma_stream_fail(st, rc == -ETIMEDOUT || rc == -EHOSTUNREACH ? rc : -ECONNRESET, rc == -ETIMEDOUT);
	if (st->wants)
		s->starved = true; /* it may have room now */
	rvma_stream_release(st);
}

/* ---- what comes ----------------------------------------------------------------------------------------------------
 */
/* What names a stream that is not: its sender shall know. */
static void rvma_reset(struct rvma_socket *s, const struct rvma_heard *r)
{
	const struct rvma_heard reset = {.type = SP_RVMA_RECORD_RESET, .stream = r->source, .source = r->stream};
	struct rvma_route *route;
	struct rvma_slot *slot;

	/* Whoever has invented the address must not get all slots: never more than half of those kept for this. */
	if (r->type == SP_RVMA_RECORD_RESET || !r->source || !r->from.port || s->slots_free <= s->attr.sending / 16 ||
	    rvma_route_find(s, &r->from.address, &route))
		return;
	slot = rvma_slot_take(s, NULL, true);
	if (!slot)
		return;
	rvma_slot_route(slot, route, r->from.port);
	rvma_slot_send(s, slot, &reset);
}

static void rvma_stray(struct rvma_socket *s, const struct rvma_heard *r)
{
	s->status.strays++;
	rvma_reset(s, r);
}

static void rvma_stream_agree(struct rvma_stream *st, const struct rvma_heard *r)
{
	const uint32_t record = st->socket->attr.record;

	st->state = RVMA_STREAM_OPEN;
	st->peer_token = r->source;
	st->record = (uint16_t)(r->record < record ? r->record : record);
	st->limit_out = r->limit;
}

static void rvma_connect_heard(struct rvma_socket *s, const struct rvma_heard *r)
{
	struct rvma_stream *st;

	if (r->stream || !r->source || !r->from.port || !r->record) {
		s->status.strays++;
		return;
	}
	if (s->backlogs >= s->attr.backlog || rvma_stream_new(s, &r->from, &st)) {
		s->status.refused++;
		rvma_reset(s, r);
		return;
	}
	rvma_stream_agree(st, r);
	st->backlog = true;
	st->next = NULL;
	if (s->backlog)
		s->backlog_last->next = st;
	else
		s->backlog = st;
	s->backlog_last = st;
	s->backlogs++;
	st->owes_accept = true;
	rvma_stream_due(st);
}

static void rvma_accept_heard(struct rvma_stream *st, const struct rvma_heard *r)
{
	if (st->state == RVMA_STREAM_OPEN || !r->source || !r->record) {
		if (st->peer_token != r->source) /* another answer to the same question */
			rvma_stray(st->socket, r);
		return;
	}
	rvma_stream_agree(st, r);
	st->greeted = true;
	rvma_stream_due(st);
	rvma_stream_news(st);
}

/* Into its place by number. -EPROTO: it cannot be. */
static int rvma_data_heard(struct rvma_stream *st, const struct rvma_heard *r)
{
	const bool end = r->type == SP_RVMA_RECORD_END;
	struct rvma_cell **at = &st->first, *c;

	if (rvma_before(r->sequence, st->consumed) || !rvma_before(r->sequence, st->told + end) ||
	    (end ? st->end_known || rvma_before(r->sequence + 1, st->known_end)
		 : !r->length || (st->end_known && !rvma_before(r->sequence, st->known_end - 1))))
		return -EPROTO;
	if (st->last && rvma_before(st->last->sequence, r->sequence))
		at = &st->last->next;
	while (*at && rvma_before((*at)->sequence, r->sequence))
		at = &(*at)->next;
	if (*at && (*at)->sequence == r->sequence)
		return -EPROTO;
	c = rvma_cell_take(st->socket, r);
	if (!c) /* was promised */
		return -EPROTO;
	c->next = *at;
	*at = c;
	if (!c->next)
		st->last = c;
	st->cells++;
	st->end_known |= end;
	if (rvma_before(st->known_end, r->sequence + 1))
		st->known_end = r->sequence + 1;
	if (st->first->sequence == st->consumed)
		rvma_stream_news(st);
	return 0;
}

/* What each record says besides. */
static int rvma_limits_heard(struct rvma_stream *st, const struct rvma_heard *r)
{
	if (r->type == SP_RVMA_RECORD_WINDOW && rvma_before(st->known_end, r->sequence)) {
		if (st->end_known || rvma_before(st->told + 1, r->sequence))
			return -EPROTO;
		st->known_end = r->sequence;
	}
	if (rvma_before(st->limit_out, r->limit)) {
		st->limit_out = r->limit;
		st->socket->starved |= st->wants;
	}
	return 0;
}

void rvma_stream_heard(struct rvma_socket *s, const struct rvma_heard *r)
{
	struct rvma_stream *st = rvma_stream_find(s, r->stream);
	int rc;

	if (r->type == SP_RVMA_RECORD_CONNECT) {
		rvma_connect_heard(s, r);
		return;
	}
	/* Its names for a stream only the peer knows; one that is connecting has been given none yet. */
	if (!st || st->error ||
	    (st->state == RVMA_STREAM_CONNECTING ? r->type != SP_RVMA_RECORD_ACCEPT && r->type != SP_RVMA_RECORD_RESET
						 : r->type != SP_RVMA_RECORD_ACCEPT && r->source != st->peer_token)) {
		rvma_stray(s, r);
		return;
	}
	if (r->type == SP_RVMA_RECORD_RESET) {
		rvma_stream_fail(st, st->state == RVMA_STREAM_CONNECTING ? -ECONNREFUSED : -ECONNRESET, false);
		return;
	}
	if (r->type == SP_RVMA_RECORD_ACCEPT) {
		rvma_accept_heard(st, r);
		return;
	}
	if (st->closed && r->type != SP_RVMA_RECORD_WINDOW) { /* nobody will read it */
		if (r->type == SP_RVMA_RECORD_DATA)
			rvma_stream_fail(st, -ECONNRESET, true);
		return;
	}
	rc = rvma_limits_heard(st, r);
	if (!rc && r->type != SP_RVMA_RECORD_WINDOW)
		rc = rvma_data_heard(st, r);
	if (rc)
		rvma_stream_fail(st, -ECONNRESET, true);
}

/* ---- time ----------------------------------------------------------------------------------------------------------
 */
static bool rvma_stream_readable(const struct rvma_stream *st)
{
	return st->first && st->first->sequence == st->consumed;
}

/* The lowest number that is known to have been sent, and is not here. */
static bool rvma_stream_gap(const struct rvma_stream *st, uint32_t *missing)
{
	*missing = st->consumed;
	for (const struct rvma_cell *c = st->first; c && c->sequence == *missing; c = c->next)
		++*missing;
	return rvma_before(*missing, st->known_end);
}

/* A record that is missing for longer than its sender would try is not to come: somebody has written over it. */
static void rvma_stream_tick(struct rvma_stream *st)
{
	struct rvma_socket *s = st->socket;
	uint32_t missing;

	if (!st->began)
		st->began = s->now;
	if (st->state == RVMA_STREAM_CONNECTING) {
		if (s->now - st->began >= s->attr.timeout)
			rvma_stream_fail(st, -ETIMEDOUT, false);
		return;
	}
	if (!rvma_stream_gap(st, &missing)) {
		st->gap_since = 0;
	} else if (!st->gap_since || s->blocked || missing != st->missing) {
		st->gap_since = s->now;
		st->missing = missing;
	} else if (s->now - st->gap_since > 2 * s->attr.timeout) {
		rvma_stream_fail(st, -ECONNRESET, true);
		return;
	}
	if (!st->slots && s->now - st->proved >= s->attr.probe) {
		st->probes = true;
		rvma_stream_due(st);
	}
}

void rvma_streams_progress(struct rvma_socket *s)
{
	rvma_due_progress(s);
	if (s->starved) {
		s->starved = false;
		for (uint32_t i = 0; i < s->streams_fresh; i++) {
			struct rvma_stream *st = &s->stream[i];

			if (st->state != RVMA_STREAM_OPEN || !st->wants)
				continue;
			if (rvma_stream_records(st)) {
				st->wants = false;
				rvma_stream_news(st);
			}
		}
	}
	if (s->now < s->tick)
		return;
	s->tick = s->now + (s->attr.probe < s->attr.timeout ? s->attr.probe : s->attr.timeout) / 4;
	for (uint32_t i = 0; i < s->streams_fresh; i++)
		if (s->stream[i].state != RVMA_STREAM_FREE && !s->stream[i].error)
			rvma_stream_tick(&s->stream[i]);
	rvma_due_progress(s);
}

/* As the socket ends. */
void rvma_streams_end(struct rvma_socket *s)
{
	for (uint32_t i = 0; i < s->streams_fresh; i++) {
		struct rvma_stream *st = &s->stream[i];

		if (st->state == RVMA_STREAM_FREE)
			continue;
		if (st->backlog)
			rvma_backlog_remove(st);
		st->closed = true;
		rvma_stream_fail(st, -ECANCELED, true);
		rvma_stream_release(st);
	}
}

/* ---- calls ---------------------------------------------------------------------------------------------------------
 */
int rvma_socket_connect(struct rvma_socket *s, const struct rvma_socket_address *to, struct rvma_stream **stream)
{
	struct rvma_stream *st;
	struct rvma_slot *slot;
	int rc = s->error;

	if (!rc && (s->closing || !to->port))
		rc = -EINVAL;
	if (!rc && !s->slots_free)
		rc = -EAGAIN;
	rc = rc ? rc : rvma_stream_new(s, to, &st);
	if (rc)
		return rc;
	st->state = RVMA_STREAM_CONNECTING;
	slot = rvma_slot_take(s, st, true);
	*stream = st;
	rvma_stream_say(st, slot, SP_RVMA_RECORD_CONNECT, 0);
	return 0;
}

int rvma_socket_accept(struct rvma_socket *s, struct rvma_stream **stream, struct rvma_socket_address *from)
{
	struct rvma_stream *st = s->backlog;

	if (!st)
		return s->error ? s->error : -EAGAIN;
	rvma_backlog_remove(st);
	rvma_stream_news(st); /* for what has come already */
	if (from)
		*from = st->to;
	*stream = st;
	return 0;
}

int rvma_socket_ready(struct rvma_socket *s, struct rvma_stream **stream)
{
	if (!s->ready)
		return s->error ? s->error : -EAGAIN;
	*stream = s->ready;
	rvma_ready_remove(s->ready);
	return 0;
}

void rvma_stream_set_user(struct rvma_stream *st, void *user)
{
	st->user = user;
}

void *rvma_stream_user(const struct rvma_stream *st)
{
	return st->user;
}

int rvma_stream_connected(const struct rvma_stream *st)
{
	if (st->error)
		return st->error;
	return st->greeted ? 0 : st->socket->error ? st->socket->error : -EAGAIN;
}

static int rvma_stream_may_send(const struct rvma_stream *st)
{
	if (st->socket->error || st->error)
		return st->socket->error ? st->socket->error : st->error;
	return st->shut ? -EPIPE : st->state == RVMA_STREAM_CONNECTING ? -ENOTCONN : 0;
}

int rvma_stream_room(struct rvma_stream *st)
{
	const int rc = rvma_stream_may_send(st);
	uint64_t room;

	if (rc)
		return rc;
	room = (uint64_t)rvma_stream_records(st) * st->record;
	st->wants = !room;
	return room > INT32_MAX ? INT32_MAX : room ? (int)room : -EAGAIN;
}

int rvma_stream_send(struct rvma_stream *st, const void *bytes, size_t len)
{
	struct rvma_socket *s = st->socket;
	int room = rvma_stream_room(st), gone = 0;

	if (!len && room == -EAGAIN)
		room = 0;
	if (room <= 0)
		return room;
	room = len < (size_t)room ? (int)len : room;
	while (gone < room && !st->error) {
		struct rvma_slot *slot = rvma_slot_take(s, st, false);
		const int n = room - gone < st->record ? room - gone : st->record;

		memcpy(rvma_slot_bytes(s, slot), (const uint8_t *)bytes + gone, (size_t)n);
		gone += n;
		st->owes_window = false; /* this one says it */
		rvma_stream_say(st, slot, SP_RVMA_RECORD_DATA, (uint16_t)n);
	}
	st->wants |= (size_t)gone < len;
	return gone;
}

int rvma_stream_recv(struct rvma_stream *st, void *bytes, size_t room)
{
	struct rvma_socket *s = st->socket;
	size_t got = 0;

	room = room < INT32_MAX ? room : INT32_MAX;
	while (rvma_stream_readable(st) && !st->first->end && got < room) {
		struct rvma_cell *c = st->first;
		const size_t left = (size_t)c->length - c->read, n = left < room - got ? left : room - got;

		memcpy((uint8_t *)bytes + got, c->bytes + c->read, n);
		got += n;
		c->read = (uint16_t)(c->read + n);
		if (c->read < c->length)
			break;
		st->first = c->next;
		if (!st->first)
			st->last = NULL;
		st->cells--;
		rvma_promise_back(st);
		st->consumed++;
		rvma_promise(st);
		rvma_cell_free(s, c);
	}
	if (got || !room) {
		rvma_stream_tell(st);
		return (int)got;
	}
	if (rvma_stream_readable(st)) /* and it stays so */
		return 0;
	return st->error ? st->error : s->error ? s->error : -EAGAIN;
}

int rvma_stream_shutdown(struct rvma_stream *st)
{
	const int rc = rvma_stream_may_send(st);

	if (rc)
		return rc == -EPIPE ? 0 : rc;
	st->shut = true;
	st->owes_end = true;
	rvma_stream_due(st);
	return 0;
}

void rvma_stream_close(struct rvma_stream *st)
{
	if (st->ready)
		rvma_ready_remove(st);
	if (st->state == RVMA_STREAM_CONNECTING && !st->error)
		rvma_stream_fail(st, -ECANCELED, false);
	else
		rvma_stream_shutdown(st);
	st->closed = true;
	if (rvma_stream_readable(st) && !st->first->end) /* what nobody will read: its sender shall know */
		rvma_stream_fail(st, -ECONNRESET, true);
	rvma_stream_release(st);
}
