/* SPDX-License-Identifier: BSD-3-Clause */
/* Sockets over RVMA: records of streams that have arrived. */
#include "rvma_socket_private.h"

/* Tells the sender of a record that its stream does not exist. */
static void rvma_reset(struct rvma_socket *s, const struct rvma_record *r)
{
	const struct rvma_record reset = {.type = SP_RVMA_RECORD_RESET, .stream = r->source, .source = r->stream};
	struct rvma_route *route;
	struct rvma_slot *slot;

	/* Records with forged source addresses must not use up all slots: resets get half of the reserve at most. */
	if (r->type == SP_RVMA_RECORD_RESET || !r->source || !r->from.port || s->slots_free <= s->attr.sending / 16 ||
	    rvma_route_find(s, &r->from.address, &route))
		return;
	slot = rvma_slot_take(s, NULL, true);
	if (!slot)
		return;
	rvma_slot_route(slot, route, r->from.port);
	rvma_slot_send(s, slot, &reset);
}

static void rvma_stray(struct rvma_socket *s, const struct rvma_record *r)
{
	s->status.strays++;
	rvma_reset(s, r);
}

static void rvma_stream_opened(struct rvma_stream *st, const struct rvma_record *r)
{
	const uint32_t record = st->socket->attr.record;

	st->state = RVMA_STREAM_OPEN;
	st->peer_token = r->source;
	st->record = (uint16_t)(r->record < record ? r->record : record);
	st->limit_out = r->limit;
	rvma_stream_due(st);
}

static void rvma_connect_received(struct rvma_socket *s, const struct rvma_record *r)
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
	rvma_stream_opened(st, r);
	st->backlog = true;
	STAILQ_INSERT_TAIL(&s->backlog, st, link);
	s->backlogs++;
	st->accept_due = true;
}

static void rvma_accept_received(struct rvma_stream *st, const struct rvma_record *r)
{
	if (st->state == RVMA_STREAM_OPEN || !r->source || !r->record) {
		if (st->peer_token != r->source) /* a second answer, by another stream of the peer */
			rvma_stray(st->socket, r);
		return;
	}
	rvma_stream_opened(st, r);
	st->established = true;
	rvma_stream_ready(st);
}

/* DATA or END into its place by sequence number. -EPROTO: the number is impossible. */
static int rvma_data_received(struct rvma_stream *st, const struct rvma_record *r)
{
	const bool end = r->type == SP_RVMA_RECORD_END;
	struct rvma_cell *before = NULL, *after = STAILQ_FIRST(&st->cells), *c;

	if (rvma_before(r->sequence, st->consumed) || !rvma_before(r->sequence, st->limit_in + end) ||
	    (end ? st->end_known || rvma_before(r->sequence + 1, st->known_end)
		 : !r->length || (st->end_known && !rvma_before(r->sequence, st->known_end - 1))))
		return -EPROTO;
	if (after && rvma_before(st->last->sequence, r->sequence)) {
		before = st->last;
		after = NULL;
	}
	for (; after && rvma_before(after->sequence, r->sequence); after = STAILQ_NEXT(after, link))
		before = after;
	c = after && after->sequence == r->sequence ? NULL : rvma_cell_take(st->socket, r);
	if (!c) /* a repetition; there is always a cell */
		return -EPROTO;
	if (before)
		STAILQ_INSERT_AFTER(&st->cells, before, c, link);
	else
		STAILQ_INSERT_HEAD(&st->cells, c, link);
	if (!after)
		st->last = c;
	st->end_known |= end;
	if (rvma_before(st->known_end, r->sequence + 1))
		st->known_end = r->sequence + 1;
	if (STAILQ_FIRST(&st->cells)->sequence == st->consumed)
		rvma_stream_ready(st);
	return 0;
}

/* The window that each record carries, and of WINDOW records the number of the next DATA. */
static int rvma_window_received(struct rvma_stream *st, const struct rvma_record *r)
{
	if (r->type == SP_RVMA_RECORD_WINDOW && rvma_before(st->known_end, r->sequence)) {
		if (st->end_known || rvma_before(st->limit_in + 1, r->sequence))
			return -EPROTO;
		st->known_end = r->sequence;
	}
	if (rvma_before(st->limit_out, r->limit)) {
		st->limit_out = r->limit;
		st->socket->starved |= st->wants_room;
	}
	return 0;
}

void rvma_stream_received(struct rvma_socket *s, const struct rvma_record *r)
{
	struct rvma_stream *st = rvma_stream_find(s, r->stream);
	int rc;

	if (r->type == SP_RVMA_RECORD_CONNECT) {
		rvma_connect_received(s, r);
		return;
	}
	/* Only the peer knows both names of a stream. The name of one that is connecting is not known to us yet. */
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
		rvma_accept_received(st, r);
		return;
	}
	if (st->closed && r->type != SP_RVMA_RECORD_WINDOW) { /* nobody will read it */
		if (r->type == SP_RVMA_RECORD_DATA)
			rvma_stream_fail(st, -ECONNRESET, true);
		return;
	}
	rc = rvma_window_received(st, r);
	if (!rc && r->type != SP_RVMA_RECORD_WINDOW)
		rc = rvma_data_received(st, r);
	if (rc)
		rvma_stream_fail(st, -ECONNRESET, true);
}
