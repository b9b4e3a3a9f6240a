/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sockets over RVMA: streams. Puts arrive once, and in any order. DATA and END have sequence numbers and wait in cells
 * until all before them have arrived. A cell is reserved before the peer may fill it: each stream owns two cells, for
 * one DATA and its END. Beyond these, a peer's window is at most an eighth of the free credit. So a record of a stream
 * always finds a cell, the bucket can always be read to its end, and a window update never waits behind data that
 * nobody reads. Streams that nobody reads get ever smaller windows, but never all cells.
 */
#include "rvma_socket_private.h"

#include <string.h>

#define RVMA_TOKEN_BITS 16u /* of a token: the stream's index */

/* ---- lists ---- */
struct rvma_stream *rvma_stream_find(const struct rvma_socket *s, uint64_t token)
{
	const uint32_t index = token & ((1u << RVMA_TOKEN_BITS) - 1);
	struct rvma_stream *st = &s->stream[index];

	return index < s->streams_fresh && st->state != RVMA_STREAM_FREE && st->token == token ? st : NULL;
}

void rvma_stream_ready(struct rvma_stream *st)
{
	if (st->ready || st->backlog || st->closed)
		return;
	st->ready = true;
	STAILQ_INSERT_TAIL(&st->socket->ready, st, ready_link);
}

static void rvma_ready_remove(struct rvma_stream *st)
{
	STAILQ_REMOVE(&st->socket->ready, st, rvma_stream, ready_link);
	st->ready = false;
}

static void rvma_backlog_remove(struct rvma_stream *st)
{
	STAILQ_REMOVE(&st->socket->backlog, st, rvma_stream, link);
	st->backlog = false;
	st->socket->backlogs--;
}

void rvma_stream_due(struct rvma_stream *st)
{
	if (st->due)
		return;
	st->due = true;
	STAILQ_INSERT_TAIL(&st->socket->due, st, due_link);
}

/* DATA records that it could send now. */
static uint32_t rvma_stream_records(const struct rvma_stream *st)
{
	const uint32_t most = rvma_before(st->next_out, st->limit_out) ? st->limit_out - st->next_out : 0;

	return st->established && !st->error ? rvma_slots_left(st->socket, st, most) : 0;
}

static bool rvma_stream_readable(const struct rvma_stream *st)
{
	return !STAILQ_EMPTY(&st->cells) && STAILQ_FIRST(&st->cells)->sequence == st->consumed;
}

/* ---- credit: cells that the peer may fill ---- */
/* Cells of the common credit in the peer's window. The stream's own cell is the first. */
static uint32_t rvma_stream_credit(const struct rvma_stream *st)
{
	const uint32_t unread = st->limit_in - st->consumed;

	return unread ? unread - 1 : 0;
}

/* The window that is fair now, in records. */
static uint32_t rvma_stream_window(const struct rvma_stream *st)
{
	const struct rvma_socket *s = st->socket;
	const uint32_t more = (s->credit + rvma_stream_credit(st)) / 8;

	return 1 + (more < s->attr.window ? more : s->attr.window - 1);
}

static void rvma_stream_set_window(struct rvma_stream *st, uint32_t consumed, uint32_t limit)
{
	st->socket->credit += rvma_stream_credit(st);
	st->consumed = consumed;
	st->limit_in = limit;
	st->socket->credit -= rvma_stream_credit(st);
}

/* ---- beginning and end ---- */
int rvma_stream_new(struct rvma_socket *s, const struct rvma_socket_address *to, struct rvma_stream **out)
{
	struct rvma_stream *st = STAILQ_FIRST(&s->streams);
	struct rvma_peer *peer;
	int rc;

	if (!st && s->streams_fresh == s->attr.streams)
		return -EMFILE;
	rc = rvma_peer_open(s->rvma, &to->address, &peer);
	if (rc)
		return rc;
	if (st)
		STAILQ_REMOVE_HEAD(&s->streams, link);
	else
		st = &s->stream[s->streams_fresh++];
	*st = (struct rvma_stream){.socket = s, .to = *to, .peer = peer, .alive = s->now};
	STAILQ_INIT(&st->cells);
	st->token = (rvma_secret(s) | 1) << RVMA_TOKEN_BITS | (uint32_t)(st - s->stream);
	rvma_stream_set_window(st, 0, rvma_stream_window(st));
	s->status.streams++;
	*out = st;
	return 0;
}

/* Frees a closed stream once no slot uses it and nothing is to be sent. */
static void rvma_stream_release(struct rvma_stream *st)
{
	struct rvma_socket *s = st->socket;
	struct rvma_cell *c;

	if (st->state == RVMA_STREAM_FREE || !st->closed || st->slots || st->due || !(st->error || st->ended))
		return;
	while ((c = STAILQ_FIRST(&st->cells))) {
		STAILQ_REMOVE_HEAD(&st->cells, link);
		rvma_cell_free(s, c);
	}
	s->credit += rvma_stream_credit(st);
	rvma_peer_close(st->peer);
	st->state = RVMA_STREAM_FREE;
	STAILQ_INSERT_HEAD(&s->streams, st, link);
	s->status.streams--;
}

/* Every record carries the window and both names of the stream. */
static void rvma_stream_send_record(struct rvma_stream *st, struct rvma_slot *slot, uint8_t type, uint16_t length)
{
	const struct rvma_record r = {.type = type,
				      .length = length,
				      .record = (uint16_t)st->socket->attr.record,
				      .sequence = st->next_out,
				      .limit = st->limit_in,
				      .stream = st->peer_token,
				      .source = st->token};

	st->next_out += type == SP_RVMA_RECORD_DATA || type == SP_RVMA_RECORD_END;
	rvma_slot_send(st->socket, slot, &r);
}

void rvma_stream_fail(struct rvma_stream *st, int error, bool reset)
{
	struct rvma_socket *s = st->socket;

	if (st->error)
		return;
	st->error = error;
	s->status.resets++;
	if (reset && st->peer_token) {
		struct rvma_slot *slot = rvma_slot_take(s, st, true);

		if (slot)
			rvma_stream_send_record(st, slot, SP_RVMA_RECORD_RESET, 0);
	}
	if (st->backlog) {
		rvma_backlog_remove(st);
		st->closed = true;
	}
	rvma_stream_ready(st);
	rvma_stream_release(st);
}

/* ---- records without data ---- */
/* Sends one record if it is due. False: there is no slot. */
static bool rvma_stream_send_if_due(struct rvma_stream *st, bool *due, uint8_t type)
{
	struct rvma_slot *slot;

	if (!*due || st->error)
		return true;
	slot = rvma_slot_take(st->socket, st, true);
	if (!slot)
		return false;
	*due = false;
	st->ended |= type == SP_RVMA_RECORD_END;
	rvma_stream_send_record(st, slot, type, 0);
	return true;
}

/* Opens the window further, once that is worth a record or the peer can send nothing. */
static void rvma_stream_update_window(struct rvma_stream *st)
{
	const uint32_t window = rvma_stream_window(st), limit = st->consumed + window;

	if (!rvma_before(st->limit_in, limit) || st->end_known || st->error)
		return;
	if (st->limit_in != st->consumed && limit - st->limit_in < (window + 1) / 2)
		return;
	rvma_stream_set_window(st, st->consumed, limit);
	st->window_due = true;
	rvma_stream_due(st);
}

/* False: a record is still due, there is no slot. */
static bool rvma_stream_send_due(struct rvma_stream *st)
{
	if (!rvma_stream_send_if_due(st, &st->accept_due, SP_RVMA_RECORD_ACCEPT))
		return false;
	if (!st->established)
		return true;
	st->window_due |= st->probe_due;
	st->probe_due = false;
	/* END follows all DATA of the application. It may be one beyond the peer's limit. */
	return rvma_stream_send_if_due(st, &st->window_due, SP_RVMA_RECORD_WINDOW) &&
	       rvma_stream_send_if_due(st, &st->end_due, SP_RVMA_RECORD_END);
}

static void rvma_due_progress(struct rvma_socket *s)
{
	struct rvma_stream *st;

	while ((st = STAILQ_FIRST(&s->due)) && rvma_stream_send_due(st)) {
		STAILQ_REMOVE_HEAD(&s->due, due_link);
		st->due = false;
		rvma_stream_release(st);
	}
}

/* Whether the record's failure is none of the stream. A peer that has sent its END needs no window. It may go as soon
 * as it has taken our END, and has then nobody who says so again if the first answer got lost. */
static bool rvma_stream_moot(const struct rvma_stream *st, uint8_t type, int rc)
{
	const bool heard = rc != -ETIMEDOUT && rc != -EHOSTUNREACH && rc != -ECANCELED; /* the peer's NIC refuses it */

	return st->end_known && (type == SP_RVMA_RECORD_WINDOW || (type == SP_RVMA_RECORD_END && heard));
}

void rvma_stream_sent(struct rvma_stream *st, uint8_t type, int rc)
{
	struct rvma_socket *s = st->socket;

	if (!rc)
		st->alive = s->now;
	if (!rc && type == SP_RVMA_RECORD_ACCEPT) {
		st->established = true;
		rvma_stream_due(st);
		rvma_stream_ready(st);
	}
	if (rc && type == SP_RVMA_RECORD_CONNECT &&
	    (rc == -ENOENT || rc == -EACCES || rc == -ESHUTDOWN || rc == -EMSGSIZE))
		rvma_stream_fail(st, -ECONNREFUSED, false);
	else if (rc && type != SP_RVMA_RECORD_RESET && !rvma_stream_moot(st, type, rc))
		rvma_stream_fail(st, rc == -ETIMEDOUT || rc == -EHOSTUNREACH ? rc : -ECONNRESET,
				 rc == -ETIMEDOUT || rc == -ECANCELED);
	s->starved |= st->wants_room;
	rvma_stream_release(st);
}

/* ---- time ---- */
/* Whether a record that the peer has sent is missing: the lowest such number. */
static bool rvma_stream_gap(const struct rvma_stream *st, uint32_t *missing)
{
	const struct rvma_cell *c;

	*missing = st->consumed;
	STAILQ_FOREACH (c, &st->cells, link)
		if (c->sequence == *missing)
			++*missing;
	return rvma_before(*missing, st->known_end);
}

/* A record that is missing for longer than its sender would try will not arrive: another put has overwritten it. */
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
	if (!st->slots && s->now - st->alive >= s->attr.probe) {
		st->probe_due = true;
		rvma_stream_due(st);
	}
}

void rvma_streams_progress(struct rvma_socket *s)
{
	rvma_due_progress(s);
	for (uint32_t i = 0; s->starved && i < s->streams_fresh; i++) {
		struct rvma_stream *st = &s->stream[i];

		if (st->state == RVMA_STREAM_OPEN && st->wants_room && rvma_stream_records(st)) {
			st->wants_room = false;
			rvma_stream_ready(st);
		}
	}
	s->starved = false;
	if (s->now < s->tick)
		return;
	s->tick = s->now + (s->attr.probe < s->attr.timeout ? s->attr.probe : s->attr.timeout) / 4;
	for (uint32_t i = 0; i < s->streams_fresh; i++)
		if (s->stream[i].state != RVMA_STREAM_FREE && !s->stream[i].error)
			rvma_stream_tick(&s->stream[i]);
	rvma_due_progress(s);
}

/* It has ended in both directions, and all that came has been read. Its last records may still be on their way. */
static bool rvma_stream_over(const struct rvma_stream *st)
{
	return st->ended && st->end_known && !rvma_before(st->consumed + 1, st->known_end);
}

void rvma_streams_end(struct rvma_socket *s)
{
	for (uint32_t i = 0; i < s->streams_fresh; i++) {
		struct rvma_stream *st = &s->stream[i];

		if (st->state == RVMA_STREAM_FREE)
			continue;
		if (st->backlog)
			rvma_backlog_remove(st);
		st->closed = true;
		if (!rvma_stream_over(st))
			rvma_stream_fail(st, -ECANCELED, true);
		rvma_stream_release(st);
	}
}

/* ---- calls ---- */
int rvma_socket_connect(struct rvma_socket *s, const struct rvma_socket_address *to, struct rvma_stream **stream)
{
	int rc = s->error;

	if (!rc && (s->closing || !to->port))
		rc = -EINVAL;
	if (!rc && !s->slots_free)
		rc = -EAGAIN;
	rc = rc ? rc : rvma_stream_new(s, to, stream);
	if (rc)
		return rc;
	(*stream)->state = RVMA_STREAM_CONNECTING;
	rvma_stream_send_record(*stream, rvma_slot_take(s, *stream, true), SP_RVMA_RECORD_CONNECT, 0);
	return 0;
}

int rvma_socket_accept(struct rvma_socket *s, struct rvma_stream **stream, struct rvma_socket_address *from)
{
	struct rvma_stream *st = STAILQ_FIRST(&s->backlog);

	if (!st)
		return s->error ? s->error : -EAGAIN;
	rvma_backlog_remove(st);
	rvma_stream_ready(st); /* data may have arrived before */
	if (from)
		*from = st->to;
	*stream = st;
	return 0;
}

int rvma_socket_ready(struct rvma_socket *s, struct rvma_stream **stream)
{
	struct rvma_stream *st = STAILQ_FIRST(&s->ready);

	if (!st)
		return s->error ? s->error : -EAGAIN;
	rvma_ready_remove(st);
	*stream = st;
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
	return st->established ? 0 : st->socket->error ? st->socket->error : -EAGAIN;
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
	st->wants_room = !room;
	return room > INT32_MAX ? INT32_MAX : room ? (int)room : -EAGAIN;
}

int rvma_stream_send(struct rvma_stream *st, const void *bytes, size_t len)
{
	struct rvma_socket *s = st->socket;
	int room = rvma_stream_room(st), sent = 0;

	if (!len && room == -EAGAIN)
		room = 0;
	if (room <= 0)
		return room;
	room = len < (size_t)room ? (int)len : room;
	while (sent < room && !st->error) {
		struct rvma_slot *slot = rvma_slot_take(s, st, false);
		const int n = room - sent < st->record ? room - sent : st->record;

		memcpy(rvma_slot_bytes(s, slot), (const uint8_t *)bytes + sent, (size_t)n);
		sent += n;
		st->window_due = false; /* DATA carries the window, too */
		rvma_stream_send_record(st, slot, SP_RVMA_RECORD_DATA, (uint16_t)n);
	}
	st->wants_room |= (size_t)sent < len;
	return sent;
}

int rvma_stream_recv(struct rvma_stream *st, void *bytes, size_t room)
{
	struct rvma_socket *s = st->socket;
	size_t got = 0;

	room = room < INT32_MAX ? room : INT32_MAX;
	while (got < room && rvma_stream_readable(st) && !STAILQ_FIRST(&st->cells)->end) {
		struct rvma_cell *c = STAILQ_FIRST(&st->cells);
		const size_t left = (size_t)c->length - c->read, n = left < room - got ? left : room - got;

		memcpy((uint8_t *)bytes + got, c->bytes + c->read, n);
		got += n;
		c->read = (uint16_t)(c->read + n);
		if (c->read < c->length)
			break;
		STAILQ_REMOVE_HEAD(&st->cells, link);
		rvma_stream_set_window(st, st->consumed + 1, st->limit_in);
		rvma_cell_free(s, c);
	}
	if (got || !room) {
		rvma_stream_update_window(st);
		return (int)got;
	}
	if (rvma_stream_readable(st)) /* END, which stays */
		return 0;
	return st->error ? st->error : s->error ? s->error : -EAGAIN;
}

int rvma_stream_shutdown(struct rvma_stream *st)
{
	const int rc = rvma_stream_may_send(st);

	if (rc)
		return rc == -EPIPE ? 0 : rc;
	st->shut = true;
	st->end_due = true;
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
	if (rvma_stream_readable(st) && !STAILQ_FIRST(&st->cells)->end) /* unread data: the sender must know */
		rvma_stream_fail(st, -ECONNRESET, true);
	rvma_stream_release(st);
}
