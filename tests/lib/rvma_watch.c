/* SPDX-License-Identifier: BSD-3-Clause */
#include "rvma_watch.h"

uint8_t app_source[APP_SOURCE];

const uint64_t app_keys[] = {0, 1, 0xFEDCBA9876543210u, UINT64_MAX};

const uint64_t app_mailboxes[APP_KINDS] = {0, 1, 0x11FF0011, 0x11FF0031, UINT64_MAX, 1ull << 63, 0xDEAD00000001};

uint64_t app_below(struct apps *a, uint64_t bound)
{
	return sp_random_next(&a->random) % bound;
}

bool chance(struct apps *a, double p)
{
	return sp_random_chance(&a->random, p);
}

/* ---- what goes by ---- */
/* A packet of a transfer leaves. The first one shows whose operation it is: they get their numbers in order of posting.
 */
static void app_bind(struct apps *a, unsigned c, struct mo_session *s, const struct rvma_packet *p)
{
	const uint32_t mine = a->mo.context[c].mtu, its = a->mo.context[s->owner].mtu;
	const bool fresh = p->transfer >= s->sent;
	struct op *o = NULL;

	if (fresh)
		s->sent = p->transfer + 1;
	if (p->opcode == RVMA_W_DATA)
		return;
	for (unsigned i = 0; i < APP_OPS; i++) {
		struct op *x = &a->app[c].op[i];

		if (x->used && x->bound && x->session == s && x->transfer == p->transfer)
			o = x;
		else if (fresh && x->used && !x->bound && x->to == s->owner && (!o || x->order < o->order))
			o = x;
	}
	if (!o) /* it has ended already */
		return;

	const bool same = o->length == p->length && o->mailbox == p->mailbox && o->key == p->key &&
			  o->at == p->offset && o->get == (p->opcode == RVMA_W_GET) && o->back == p->back &&
			  o->fence == p->fence;

	if (!same && !o->bound && a->app[c].orphans[s->owner]) { /* what a queue still held of one that has ended */
		a->app[c].orphans[s->owner]--;
		return;
	}
	o->bound = true;
	o->session = s;
	o->transfer = p->transfer;
	APP_CHECK(a, same,
		  "context %u to %u transfer %llu: opcode %x length %llu mailbox %llx offset %llx fence %d is sent, "
		  "asked for was get %d length %llu mailbox %llx offset %llx fence %d",
		  c, s->owner, U(p->transfer), p->opcode, U(p->length), U(p->mailbox), U(p->offset), p->fence, o->get,
		  U(o->length), U(o->mailbox), U(o->at), o->fence);
	if (o->get || a->mo.text[0])
		return;

	const uint64_t at = (uint64_t)p->packet * (mine < its ? mine : its);

	APP_CHECK(a, at + p->len <= o->length && !memcmp(p->body, app_source + o->source + at, p->len),
		  "a packet carries other bytes than were posted");
}

/* With SPINDLE_PCAP=FILE what the NICs send is kept there, for other eyes. */
static void app_keep(const uint8_t *frame, uint32_t len, sp_time now)
{
	const char *name = getenv("SPINDLE_PCAP");
	const uint32_t record[4] = {(uint32_t)(now / SP_SEC), (uint32_t)(now % SP_SEC / SP_NS), len, len};
	FILE *f = name ? fopen(name, "ab") : NULL;

	if (!f)
		return;
	if (!ftell(f)) {
		static const uint32_t head[6] = {0xA1B23C4D, 2 | 4 << 16, 0, 0, 65535, 1}; /* nanoseconds, Ethernet */

		fwrite(head, sizeof(head), 1, f);
	}
	fwrite(record, sizeof(record), 1, f);
	fwrite(frame, len, 1, f);
	fclose(f);
}

bool app_seen(void *arg, bool in, const uint8_t *frame, uint32_t len, uint64_t tag, sp_time now)
{
	const struct tap_end *end = arg;
	struct apps *a = end->apps;
	struct rvma_packet p;
	struct mo_session *s;
	unsigned to, from;
	if (!rvma_decode(frame, len, &p)) {
		mo_fail(&a->mo, "a frame of %u bytes that is no RVMA packet", len);
		return false;
	}
	to = mo_context_of(&a->mo, p.to);
	if (to == MO_CONTEXTS || a->app[to].nic != (in ? end->e : !end->e)) {
		mo_fail(&a->mo, "a packet to QP %u", p.to);
		return false;
	}
	if (!in) {
		app_keep(frame, len, now);
		/* Who sent it: as it says, or as its token does. */
		s = mo_session_find(&a->mo, to, p.token);
		from = p.opcode == RVMA_W_HELLO || p.opcode == RVMA_W_WELCOME ? mo_context_of(&a->mo, p.from)
		       : s						      ? s->peer
									      : MO_CONTEXTS;
		if (from == MO_CONTEXTS) {
			mo_fail(&a->mo, "a packet with opcode 0x%x and a token that context %u did not give", p.opcode,
				to);
			return false;
		}
		s = mo_send(&a->mo, from, to, &p);
		if (p.opcode <= RVMA_W_DATA && s)
			app_bind(a, from, s, &p);
		return true;
	}
	s = mo_session_find(&a->mo, to, p.token);
	if (p.opcode == RVMA_W_BYE && s && a->dead[s->peer])
		return false;
	mo_receive(&a->mo, to, &p, &s);
	return true;
}

/* Fewer at a time than a NIC would take. */
static unsigned app_receive(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	struct tap *t = port;
	const struct tap_end *end = t->arg;

	return tap_receive(port, queue, packet, max < end->apps->burst ? max : end->apps->burst, now);
}

const struct sp_port_ops app_ops = {.receive = app_receive, .transmit = tap_transmit, .next = tap_next};

const struct sp_rvma_area *app_area(const struct app *x)
{
	return (const struct sp_rvma_area *)(const void *)x->area;
}

struct sp_rvma_window_status app_window_status(const struct app *x, uint64_t id)
{
	const struct sp_rvma_area *area = app_area(x);
	struct sp_rvma_window_status s;

	for (uint32_t i = 0; i < area->windows; i++) {
		memcpy(&s, x->area + area->window + i * sizeof(s), sizeof(s));
		if (s.id == id)
			return s;
	}
	memset(&s, 0, sizeof(s));
	return s;
}

/* What is behind the counters of spilled buffers. */
static uint64_t app_word(const struct app *x, uint64_t at)
{
	uint64_t word;

	memcpy(&word, x->area + at, sizeof(word));
	return word;
}

void app_check_windows(struct apps *a, struct app *x)
{
	const struct sp_rvma_layout l = sp_rvma_layout(app_area(x)->windows, app_area(x)->ops);
	uint64_t most, least = mo_gone(&a->mo, x->c, &most), gone = app_word(x, l.gone);

	APP_CHECK(a, gone >= least && gone <= most, "context %u: %llu peers have gone; should be %llu to %llu", x->c,
		  U(gone), U(least), U(most));
	for (struct mo_window *w = a->mo.context[x->c].windows; w; w = w->next) {
		if (w->gone || w->freeing)
			continue;

		const struct sp_rvma_window_status s = app_window_status(x, w->id);
		const uint64_t waiting = w->helds - mo_completes(w);
		uint64_t open = 0;

		for (unsigned i = 0; i < w->posteds; i++)
			open += w->posted[i]->open;
		for (unsigned i = 0; i < w->helds; i++)
			open += w->held[i]->open;
		APP_CHECK(a,
			  s.id == w->id && s.epoch == w->epoch - waiting && s.posted == w->posteds &&
				  s.held == mo_completes(w) && s.closed == w->closed,
			  "context %u window %llx (mailbox %llx): epoch %llu, posted %llu, held %llu, closed %llu; "
			  "should be %llu, %llu, %u, %d",
			  x->c, U(w->id), U(w->mailbox), U(s.epoch), U(s.posted), U(s.held), U(s.closed),
			  U(w->epoch - waiting), U(w->posteds), mo_completes(w), w->closed);
		APP_CHECK(a,
			  s.puts == w->puts && (open ? s.bytes <= w->bytes : s.bytes == w->bytes) &&
				  s.refused == w->refused,
			  "context %u window %llx (mailbox %llx): %llu puts, %llu bytes, %llu refused; should be %llu, "
			  "%llu, %llu",
			  x->c, U(w->id), U(w->mailbox), U(s.puts), U(s.bytes), U(s.refused), U(w->puts), U(w->bytes),
			  U(w->refused));

		const uint64_t lost = app_word(x, l.lost + (uint32_t)w->id * sizeof(uint64_t));

		APP_CHECK(a, lost == w->lost,
			  "context %u window %llx (mailbox %llx): %llu puts are lost; should be %llu", x->c, U(w->id),
			  U(w->mailbox), U(lost), U(w->lost));
	}
}

void app_check_memory(struct apps *a, struct app *x, bool all)
{
	const uint8_t *must = a->mo.context[x->c].memory;
	uint64_t i;

	if (!memcmp(x->memory, must, APP_SLOT(0)) && (!all || !memcmp(x->memory, must, APP_LAND(0))))
		return;
	for (i = 0; x->memory[i] == must[i]; i++)
		;
	if (i < APP_SLOT(0)) {
		uint64_t is[8], should[8];

		memcpy(is, x->memory + i / 64 * 64, 64);
		memcpy(should, must + i / 64 * 64, 64);
		mo_fail(&a->mo,
			"context %u notification %llu: address %llx length %llu epoch %llu flags %llx mailbox %llx "
			"puts %llu; should be %llx %llu %llu %llx %llx %llu",
			x->c, U(i / 64), U(is[0]), U(is[1]), U(is[2]), U(is[3]), U(is[4]), U(is[5]), U(should[0]),
			U(should[1]), U(should[2]), U(should[3]), U(should[4]), U(should[5]));
	} else {
		i -= APP_SLOT(0);
		mo_fail(&a->mo, "context %u memory slot %llu byte %llu is %02x, should be %02x", x->c, U(i / APP_ROOM),
			U(i % APP_ROOM), x->memory[APP_SLOT(0) + i], must[APP_SLOT(0) + i]);
	}
}

static void app_op_ended(struct apps *a, struct app *x, unsigned slot, uint64_t status)
{
	struct op *o = &x->op[slot];
	const struct mo_transfer *t = o->bound ? mo_transfer_find(o->session, o->transfer) : NULL;
	const uint8_t *landed = x->memory + APP_LAND(slot) + APP_GUARD;
	/* one of the two has gone since */
	const bool gone = o->life != a->app[o->to].life || !a->app[o->to].open || a->app[o->to].life > 1 || x->life > 1;
	/* a get that was answered, but the window was freed before all had come */
	const bool cut = o->get && t && t->state == MO_WHOLE && t->window && t->window->gone;

	if (status >= MO_STATUSES) {
		mo_fail(&a->mo, "an operation that ended with status %llu", U(status));
		return;
	}
	a->statuses[status]++;
	if (status == MO_DELIVERED) {
		APP_CHECK(a, t && t->state == MO_WHOLE, "context %u: a %s of %llu bytes is called delivered, and is %s",
			  x->c, o->get ? "get" : "put", U(o->length),
			  !t			   ? "unknown"
			  : t->state == MO_OPEN	   ? "not whole"
			  : t->state == MO_REFUSED ? "refused"
						   : "ended");
		APP_CHECK(a, !o->get || !t || t->buffer->forgotten || !memcmp(landed, t->bytes, o->length),
			  "context %u: a get of %llu bytes has brought others than were there", x->c, U(o->length));
		a->got += o->get;
	} else if (status < MO_PEER_GONE) {
		APP_CHECK(a,
			  (t && (t->state == MO_REFUSED || t->state == MO_OVER) && t->reasons >> status & 1 &&
			   !t->silent) ||
				  (status == MO_GIVEN_UP && (gone || cut)),
			  "context %u: a %s of %llu bytes to %llx ended with status %llu; it is %s, for reasons 0x%llx",
			  x->c, o->get ? "get" : "put", U(o->length), U(o->mailbox), U(status),
			  !t			   ? "unknown"
			  : t->state == MO_OPEN	   ? "on its way"
			  : t->state == MO_REFUSED ? "refused"
			  : t->state == MO_WHOLE   ? "whole"
						   : "ended",
			  U(t ? t->reasons : 0));
	} else if (status == MO_TIMEOUT) {
		APP_CHECK(a, a->silent || gone || cut, "context %u: a put ended with a time-out", x->c);
	} else {
		APP_CHECK(a, status == MO_PEER_GONE && gone, "context %u: an operation to %u ended with status %llu",
			  x->c, o->to, U(status));
	}
	x->orphans[o->to] += !o->bound;
	/* beside where it may land nothing has changed */
	for (uint64_t i = 0; i < APP_ROOM; i++)
		if (!o->get || i < APP_GUARD || i >= APP_GUARD + o->length)
			APP_CHECK(a, x->memory[APP_LAND(slot) + i] == a->mo.context[x->c].memory[APP_LAND(slot) + i],
				  "context %u: a get wrote to byte %llu of its memory, which it has not got", x->c,
				  U(i));
	memcpy(a->mo.context[x->c].memory + APP_LAND(slot), x->memory + APP_LAND(slot), APP_ROOM);
	o->used = false;
}

void app_check_ops(struct apps *a, struct app *x)
{
	const struct sp_rvma_area *area = app_area(x);

	for (unsigned i = 0; i < APP_OPS; i++) {
		struct sp_rvma_op_status s;

		memcpy(&s, x->area + area->op + i * sizeof(s), sizeof(s));
		if (x->op[i].used && s.number == x->op[i].number)
			app_op_ended(a, x, i, s.status);
	}
}
