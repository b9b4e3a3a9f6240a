/* SPDX-License-Identifier: BSD-3-Clause */
#include "rvma_model.h"

void mo_transfer_over(struct mo *m, struct mo_session *s, struct mo_transfer *t, enum mo_status why)
{
	struct mo_buffer *b = t->buffer;

	if (t->state != MO_OPEN)
		return;
	t->state = MO_OVER;
	t->reasons = 1ull << why;
	m->count[why]++;
	if (t->opcode != RVMA_W_PUT)
		return;
	b->open--;
	b->flags |= MO_LOST;
	m->lost++;
	t->window->lost += why == MO_GIVEN_UP;
	mo_settle(m, s->owner, t->window);
}

static void mo_window_over(struct mo *m, unsigned c, struct mo_window *w, enum mo_status why)
{
	for (struct mo_session *s = m->sessions; s; s = s->next)
		for (struct mo_transfer *t = s->owner == c ? s->transfers : NULL; t; t = t->next)
			if (t->opcode == RVMA_W_PUT && t->window == w)
				mo_transfer_over(m, s, t, why);
}

void mo_rewind(struct mo *m, unsigned c, struct mo_window *w, struct mo_buffer *b)
{
	unsigned keep = 0;

	mo_window_over(m, c, w, MO_REWOUND);
	while (b && w->held[keep++] != b)
		;
	for (unsigned k = keep; k < w->helds; k++) {
		w->held[k]->forgotten = true;
		w->bytes -= w->held[k]->bytes;
		w->puts -= w->held[k]->ops;
	}
	mo_hold_drop(m, w, keep, w->helds);
	w->epoch = b ? b->epoch + 1 : 0;
	if (w->posteds) {
		struct mo_buffer *head = w->posted[0];

		w->bytes -= head->bytes;
		w->puts -= head->ops;

		head->bytes = head->ops = head->tail = head->flags = 0;
		head->mailbox = w->mailbox;
	}
}

void mo_window_free(struct mo *m, unsigned c, struct mo_window *w)
{
	w->gone = w->closed = w->freeing = true;
	mo_window_over(m, c, w, MO_CLOSED);
}

void mo_window_freed(struct mo *m, struct mo_window *w)
{
	w->freeing = false;
	mo_hold_drop(m, w, 0, w->helds);
	while (w->posteds)
		mo_discard(m, w->posted[--w->posteds]);
}

/* Reserves the put's range, or says why not: a bit for each reason there is. */
static uint64_t mo_begin(struct mo *m, unsigned c, struct mo_transfer *t)
{
	struct mo_window *w = mo_window_find(m, c, t->mailbox), *all = mo_window_catch_all(m, c);
	uint64_t why = 0, from;

	t->silent = (w ? w : all) && (w ? w : all)->flags & MO_SILENT;
	if (!w)
		w = all;
	if (!w)
		return 1ull << MO_NO_MAILBOX;
	t->window = w;
	if (w->key != t->key)
		return 1ull << MO_BAD_KEY;
	if (w->closed)
		return 1ull << MO_CLOSED;
	if (!w->posteds && all && !all->closed && all->posteds)
		w = t->window = all;
	if (!w->posteds)
		return 1ull << MO_NO_BUFFER;
	if (t->offset != RVMA_W_APPEND && w->flags & MO_MANAGED)
		why |= 1ull << MO_WRONG_MODE;
	else if (t->offset != RVMA_W_APPEND && t->offset + t->length < t->offset)
		why |= 1ull << MO_BAD_RANGE;
	if (w->limit_put && t->length > w->limit_put)
		why |= 1ull << MO_TOO_LARGE;
	struct mo_buffer *b = w->posted[0];
	from = w->flags & MO_MANAGED ? b->tail : t->offset == RVMA_W_APPEND ? 0 : t->offset;
	if (from > b->length || t->length > b->length - from)
		why |= 1ull << MO_TOO_LARGE;
	if (why)
		return why;
	t->buffer = b;
	t->at = b->at + from;
	b->open++;
	if (w->flags & MO_MANAGED)
		b->tail += t->length;
	return 0;
}

/* What a get asks for, or why not. */
static uint64_t mo_read(struct mo *m, unsigned c, struct mo_transfer *t, uint32_t back)
{
	struct mo_window *w = mo_window_find(m, c, t->mailbox);
	struct mo_buffer *b = NULL;
	uint64_t why = 0;
	unsigned n = 0;

	if (!w) {
		w = mo_window_catch_all(m, c);
		t->silent = w && w->flags & MO_SILENT;
		return 1ull << MO_NO_MAILBOX;
	}
	t->window = w;
	t->silent = w->flags & MO_SILENT;
	if (w->key != t->key)
		return 1ull << MO_BAD_KEY;
	if (!(w->flags & MO_READABLE))
		why |= 1ull << MO_NOT_READABLE;
	for (unsigned i = w->helds; i--;)
		if (w->held[i]->complete && n++ == back) {
			b = w->held[i];
			break;
		}
	if (!b)
		return why | 1ull << MO_NOT_COMPLETE;
	if (t->offset > b->length || t->length > b->length - t->offset)
		why |= 1ull << MO_BAD_RANGE;
	if (why)
		return why;
	b->read = true;
	t->buffer = b;
	t->bytes = malloc(t->length + 1);
	memcpy(t->bytes, m->context[c].memory + b->at + t->offset, t->length);
	return 0;
}

struct mo_transfer *mo_transfer_find(struct mo_session *s, uint64_t number)
{
	for (struct mo_transfer *t = s ? s->transfers : NULL; t; t = t->next)
		if (t->number == number)
			return t;
	return NULL;
}

static struct mo_transfer *mo_transfer_of(struct mo_session *s, uint64_t block)
{
	struct mo_transfer *last = NULL;

	/* of a transfer that was refused early, the later numbers may be another's */
	for (struct mo_transfer *t = s->transfers; t; t = t->next)
		if (block >= t->number && (!last || t->number > last->number))
			last = t;
	return last && block - last->number <= (last->packets - 1) / RVMA_W_BLOCK ? last : NULL;
}

static bool mo_block_complete(struct mo_session *s, uint64_t block)
{
	const struct mo_transfer *t = mo_transfer_of(s, block);

	if (!t)
		return false;
	for (uint64_t i = (block - t->number) * RVMA_W_BLOCK;
	     i < t->packets && i < (block - t->number + 1) * RVMA_W_BLOCK; i++)
		if (!mo_bit(t->have, i))
			return false;
	return true;
}

/* All before it has come, or is known to be of no use: then a fenced put may count. */
static bool mo_passed(struct mo_session *s, uint64_t number)
{
	for (uint64_t k = s->begin; k < number; k++) {
		const struct mo_transfer *t = mo_transfer_of(s, k);

		if (!t || (!mo_block_complete(s, k) &&
			   (t->state == MO_OPEN || t->state == MO_WHOLE || s->used[k] != t->number + 1)))
			return false;
	}
	return true;
}

/* All before it is complete. */
static bool mo_in_order(struct mo_session *s, uint64_t number)
{
	while (s->checked < number && (s->checked < s->begin || mo_block_complete(s, s->checked)))
		s->checked++;
	return s->checked >= number;
}

static struct mo_transfer *mo_transfer_new(struct mo *m, struct mo_session *s, const struct rvma_packet *p)
{
	const uint32_t mtu = m->context[s->owner].mtu;
	const uint32_t least = mtu < m->context[s->peer].mtu ? mtu : m->context[s->peer].mtu;
	struct mo_transfer *t = calloc(1, sizeof(*t));

	*t = (struct mo_transfer){.next = s->transfers,
				  .opcode = p->opcode,
				  .number = p->transfer,
				  .length = p->length,
				  .mailbox = p->mailbox,
				  .key = p->key,
				  .offset = p->offset};
	t->packets = p->opcode == RVMA_W_GET || !p->length ? 1 : (p->length - 1) / least + 1;
	t->have = calloc(t->packets / 64 + 1, 8);
	s->transfers = t;
	return t;
}

/* PUT, GET, DATA. Returns the transfer. */
static struct mo_transfer *mo_transfer_packet(struct mo *m, struct mo_session *s, const struct rvma_packet *p)
{
	const uint32_t mtu = m->context[s->owner].mtu;
	const uint32_t least = mtu < m->context[s->peer].mtu ? mtu : m->context[s->peer].mtu;
	struct mo_transfer *t = mo_transfer_find(s, p->transfer);

	if (p->transfer + p->packet / RVMA_W_BLOCK >= MO_BLOCKS)
		abort();
	s->used[p->transfer + p->packet / RVMA_W_BLOCK] = p->transfer + 1;
	s->spoke = true;
	if (!t) {
		if (p->fence && !mo_passed(s, p->transfer)) {
			m->fenced++;
			return NULL;
		}
		if (p->transfer < s->begin)
			return NULL;
		t = mo_transfer_new(m, s, p);
		t->reasons = p->opcode == RVMA_W_PUT   ? mo_begin(m, s->owner, t)
			     : p->opcode == RVMA_W_GET ? mo_read(m, s->owner, t, p->back)
						       : 0;
		if (t->reasons) {
			t->state = MO_REFUSED;
			for (unsigned i = 0; i < MO_STATUSES; i++)
				m->count[i] += t->reasons == 1ull << i;
			if (t->window && p->opcode == RVMA_W_PUT)
				t->window->refused++;
		}
	}
	MO_CHECK(m,
		 t->opcode == p->opcode && t->length == p->length && t->mailbox == p->mailbox && t->key == p->key &&
			 t->offset == p->offset,
		 "packets of transfer %llu from %u to %u (token %llx) contradict each other: opcode %x and %x, length "
		 "%llu and "
		 "%llu, mailbox %llx and %llx",
		 U(p->transfer), s->peer, s->owner, U(s->token), t->opcode, p->opcode, U(t->length), U(p->length),
		 U(t->mailbox), U(p->mailbox));
	MO_CHECK(m, p->packet < t->packets, "packet %u of transfer %llu, which has %llu", p->packet, U(t->number),
		 U(t->packets));
	if (m->text[0])
		return t;
	const uint64_t at = (uint64_t)p->packet * least;
	const uint64_t due = p->opcode == RVMA_W_GET ? 0 : t->length - at < least ? t->length - at : least;

	MO_CHECK(m, p->len == due, "packet %u of transfer %llu has %u bytes, should have %llu", p->packet, U(t->number),
		 p->len, U(due));
	if (m->text[0] || t->state == MO_REFUSED || t->state == MO_OVER)
		return t;
	if (mo_bit(t->have, p->packet)) {
		m->duplicates++;
		return t;
	}
	t->have[p->packet / 64] |= 1ull << p->packet % 64;
	t->got++;
	if (t->opcode == RVMA_W_PUT) {
		memcpy(m->context[s->owner].memory + t->at + at, p->body, p->len);
		t->buffer->bytes += p->len;
		t->window->bytes += p->len;
		m->placed++;
		if (!(t->window->flags & MO_OPS))
			mo_threshold(m, s->owner, t->window, t->buffer);
	}
	if (t->got < t->packets)
		return t;
	t->state = MO_WHOLE;
	m->wholes++;
	m->count[MO_DELIVERED]++;
	if (t->opcode == RVMA_W_PUT) {
		t->buffer->ops++;
		t->buffer->mailbox = t->mailbox;
		t->window->puts++;
		t->buffer->open--;
		if (t->window->flags & MO_OPS)
			mo_threshold(m, s->owner, t->window, t->buffer);
		mo_settle(m, s->owner, t->window);
	}
	return t;
}

struct mo_session *mo_session_find(struct mo *m, unsigned owner, uint64_t token)
{
	for (struct mo_session *s = m->sessions; s; s = s->next)
		if (s->owner == owner && s->token == token)
			return s;
	return NULL;
}

static struct mo_session *mo_session_current(struct mo *m, unsigned owner, unsigned peer)
{
	for (struct mo_session *s = m->sessions; s; s = s->next)
		if (s->owner == owner && s->peer == peer && s->current)
			return s;
	return NULL;
}

static void mo_session_over(struct mo *m, struct mo_session *s)
{
	m->context[s->owner].gone += s->spoke && !s->dead;
	s->current = false;
	s->dead = true;
	for (struct mo_transfer *t = s->transfers; t; t = t->next)
		mo_transfer_over(m, s, t, MO_GIVEN_UP);
}

unsigned mo_context_of(const struct mo *m, uint32_t qp)
{
	for (unsigned c = 0; c < m->contexts; c++)
		if (m->context[c].qp == qp)
			return c;
	return MO_CONTEXTS;
}

struct mo_transfer *mo_receive(struct mo *m, unsigned c, const struct rvma_packet *p, struct mo_session **session)
{
	struct mo_session *old;

	*session = NULL;
	m->packets++;
	if (!m->context[c].alive || p->opcode == RVMA_W_HELLO || p->opcode == RVMA_W_WELCOME)
		return NULL;
	struct mo_session *s = mo_session_find(m, c, p->token);
	if (!s || s->dead) {
		m->stale++;
		return NULL;
	}
	*session = s;
	if (!s->current && p->opcode != RVMA_W_BYE) { /* the first with this token: there is no older session now */
		old = mo_session_current(m, c, s->peer);
		if (old) {
			m->restarts++;
			mo_session_over(m, old);
		}
		s->current = true;
	}
	if (p->opcode == RVMA_W_BYE)
		mo_session_over(m, s);
	if (p->opcode == RVMA_W_POLL) {
		uint64_t begin = 0;

		MO_CHECK(m, rvma_poll_begin(p->body, p->len, &begin), "a POLL that is none");
		s->begin = begin > s->begin ? begin : s->begin;
		s->spoke |= begin > 0;
	}
	return p->opcode <= RVMA_W_DATA ? mo_transfer_packet(m, s, p) : NULL;
}

/* Nothing may be acknowledged that has not come, nor refused that was not. */
static void mo_ack(struct mo *m, struct mo_session *s, const struct rvma_packet *p)
{
	struct rvma_entry e;
	struct rvma_ack a;

	m->acks++;
	if (!rvma_ack_open(&a, p->body, p->len)) {
		mo_fail(m, "an ACK that is none");
		return;
	}
	MO_CHECK(m, mo_in_order(s, a.base), "all blocks below %llu are acknowledged, but %llu is not complete",
		 U(a.base), U(s->checked));
	while (!m->text[0] && a.entries) {
		if (!rvma_ack_next(&a, &e)) {
			mo_fail(m, "an ACK that is shorter than it says");
			return;
		}
		if (e.message < s->begin)
			continue;
		const struct mo_transfer *t = mo_transfer_of(s, e.message);
		if (e.refused) {
			MO_CHECK(m,
				 t && (t->opcode == RVMA_W_DATA || t->state == MO_OVER ||
				       (t->state == MO_REFUSED && !t->silent)),
				 "an ACK refuses block %llu, which is not", U(e.message));
			continue;
		}
		for (uint32_t i = 0; i < RVMA_W_BLOCK; i++) {
			const bool said = i < e.below || (i >= e.first && i < e.first + e.bits &&
							  e.bitmap[(i - e.first) / 8] >> (i - e.first) % 8 & 1);
			const uint64_t packet = t ? (e.message - t->number) * RVMA_W_BLOCK + i : 0;

			MO_CHECK(m, !said || (t && (packet >= t->packets || mo_bit(t->have, packet))),
				 "packet %llu of block %llu is acknowledged and has not come", U(i), U(e.message));
		}
	}
}

static void mo_nack(struct mo *m, struct mo_session *s, const struct rvma_packet *p)
{
	const struct mo_transfer *t = mo_transfer_find(s, p->transfer);

	m->nacks++;
	if (t && t->state == MO_OPEN && p->reason == MO_GIVEN_UP && !m->context[s->peer].alive)
		return; /* who sent it is gone, and we do not know when that is noticed */
	MO_CHECK(m,
		 t && (t->opcode == RVMA_W_DATA ||
		       ((t->state == MO_REFUSED || t->state == MO_OVER) && !t->silent && t->reasons >> p->reason & 1)),
		 "a NACK with reason %u for transfer %llu, which is %s for reasons 0x%llx", p->reason, U(p->transfer),
		 !t			  ? "unknown"
		 : t->state == MO_REFUSED ? "refused"
		 : t->state == MO_OVER	  ? "ended"
					  : "taken",
		 U(t ? t->reasons : 0));
}

struct mo_session *mo_send(struct mo *m, unsigned c, unsigned to, const struct rvma_packet *p)
{
	struct mo_session *s;

	if (p->opcode == RVMA_W_HELLO || p->opcode == RVMA_W_WELCOME) {
		MO_CHECK(m, p->from == m->context[c].qp, "a HELLO of QP %u from QP %u", p->from, m->context[c].qp);
		if (!mo_session_find(m, c, p->token)) {
			s = calloc(1, sizeof(*s));
			*s = (struct mo_session){.next = m->sessions, .owner = c, .peer = to, .token = p->token};
			m->sessions = s;
		}
		return NULL;
	}
	s = mo_session_current(m, c, to);
	if (p->opcode == RVMA_W_ACK && s)
		mo_ack(m, s, p);
	if (p->opcode == RVMA_W_NACK && s)
		mo_nack(m, s, p);
	return mo_session_find(m, to, p->token);
}

uint64_t mo_gone(const struct mo *m, unsigned c, uint64_t *most)
{
	*most = m->context[c].gone;
	for (const struct mo_session *s = m->sessions; s; s = s->next)
		*most += s->owner == c && s->spoke && s->left && !s->dead;
	return m->context[c].gone;
}

void mo_context_over(struct mo *m, unsigned c)
{
	struct mo_context *x = &m->context[c];

	x->alive = false;
	x->gone = 0;
	for (struct mo_session *s = m->sessions; s; s = s->next)
		if (s->owner == c)
			s->current = false, s->dead = true;
		else if (s->peer == c)
			s->left = true;
	for (struct mo_window *w = x->windows; w; w = w->next) {
		mo_hold_drop(m, w, 0, w->helds);
		while (w->posteds)
			mo_discard(m, w->posted[--w->posteds]);
		w->gone = true;
		w->freeing = false;
	}
}

void mo_free(struct mo *m)
{
	for (unsigned c = 0; c < m->contexts; c++) {
		mo_context_over(m, c);
		for (struct mo_window *w = m->context[c].windows, *next; w; w = next) {
			next = w->next;
			free(w);
		}
		free(m->context[c].memory);
	}
	for (unsigned i = 0; i < m->trashed; i++)
		free(m->trash[i]);
	for (struct mo_session *s = m->sessions, *next; s; s = next) {
		for (struct mo_transfer *t = s->transfers, *after; t; t = after) {
			after = t->next;
			free(t->have);
			free(t->bytes);
			free(t);
		}
		next = s->next;
		free(s);
	}
	memset(m, 0, sizeof(*m));
}
