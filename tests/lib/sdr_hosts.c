/* SPDX-License-Identifier: BSD-3-Clause */
#include "sdr_hosts.h"

bool pair_all_are(const uint8_t *b, uint64_t n, uint8_t value)
{
	return !n || (b[0] == value && !memcmp(b, b + 1, n - 1));
}

void pair_buffer_fill(struct pair *r, struct flow *f, struct buffer *b)
{
	b->fill = (uint8_t)(b->fill * 5 + 41);
	memset(b->base, b->fill, f->buffer_bytes);
	b->used = false;
	b->turn = f->turn++;
}

void pair_buffer_check_idle(struct pair *r, struct flow *f, const struct buffer *b)
{
	PAIR_CHECK(r, pair_all_are(b->base, f->buffer_bytes, b->fill),
		   "a buffer was written to after sdr_recv_complete had given it back");
}

/* Every byte of the buffer: of a packet that came the source's, else untouched. */
static void in_check_bytes(struct pair *r, struct flow *f, uint64_t k, bool window)
{
	const struct in *m = &f->in[k];
	const struct buffer *b = m->buffer;
	const uint8_t fill = b->fill, *source = pair_source + f->out[k].source;
	uint64_t at = 0, mtu = r->p.mtu;

	PAIR_CHECK(r, pair_all_are(b->base, (uint64_t)(b->at - b->base), fill), "message %llu: bytes before the buffer",
		   U(k));
	while (at < m->posted) {
		const uint64_t room = m->posted - at < mtu ? m->posted - at : mtu, whole = f->out[k].length;
		const uint64_t len = whole <= at ? 0 : whole - at < room ? whole - at : room;
		const bool came = pair_bit_get(m->arrived, at / mtu),
			   either = window && pair_bit_get(m->window, at / mtu);
		const bool there = !memcmp(b->at + at, source + at, len), none = pair_all_are(b->at + at, len, fill);

		PAIR_CHECK(r, came ? there : none || (either && there), "message %llu: %s at byte %llu of %llu", U(k),
			   came ? "a packet that came is not in the buffer"
				: "bytes changed of a packet that did not come",
			   U(at), U(m->posted));
		PAIR_CHECK(r, pair_all_are(b->at + at + len, room - len, fill),
			   "message %llu: bytes changed beyond its end", U(k));
		at += room;
	}
	PAIR_CHECK(r, pair_all_are(b->at + m->posted, f->buffer_bytes - (uint64_t)(b->at - b->base) - m->posted, fill),
		   "message %llu: bytes after the buffer", U(k));
}

/* Everything that the library says about an open receive, against what came. */
static void in_check(struct pair *r, struct flow *f, uint64_t k)
{
	struct in *m = &f->in[k];
	const uint64_t length = m->fixed ? m->length : m->posted, per_chunk = r->p.chunk / r->p.mtu;
	const uint64_t packets = pair_units(length, r->p.mtu), chunks = pair_units(length, r->p.chunk);
	const uint64_t room = (pair_units(r->p.max_bytes, r->p.chunk) + 63) / 64 * 64;
	const uint64_t *bitmap;
	uint64_t said, words[512 / 64 + 4] = {0}, count, present = 0;
	uint32_t immediate, mask;
	struct sdr_recv_status status;
	bool complete = true;

	PAIR_CHECK(r, sdr_recv_bitmap_get(m->handle, &bitmap, &said) == 0 && said == chunks,
		   "message %llu: %llu chunks, should be %llu", U(k), U(said), U(chunks));
	for (uint64_t i = 0; i < room; i++) {
		bool full = i < chunks;

		for (uint64_t j = i * per_chunk; full && j < (i + 1) * per_chunk && j < packets; j++)
			full = pair_bit_get(m->arrived, j);
		PAIR_CHECK(r, sdr_recv_chunk(bitmap, i) == full, "message %llu: chunk %llu is %d, should be %d", U(k),
			   U(i), !full, full);
		complete = complete && (full || i >= chunks);
		present += full;
	}
	complete = complete && m->packets;
	sdr_recv_status(m->handle, &status);
	PAIR_CHECK(r, status.message == k && (status.open || !m->packets) && status.packets == m->packets,
		   "message %llu: status of message %llu, open %d, %llu packets, should be %llu", U(k),
		   U(status.message), status.open, U(status.packets), U(m->packets));
	PAIR_CHECK(r, status.length_known == m->fixed && status.length == length,
		   "message %llu: length %llu, known %d; should be %llu, %d", U(k), U(status.length),
		   status.length_known, U(length), m->fixed);
	PAIR_CHECK(r, status.complete == complete, "message %llu: complete %d, %llu of %llu chunks", U(k),
		   status.complete, U(present), U(chunks));
	int rc = sdr_recv_test(m->handle);
	PAIR_CHECK(r, rc == (complete ? 0 : -EAGAIN), "message %llu: sdr_recv_test says %d", U(k), rc);
	rc = sdr_recv_imm_get(m->handle, &immediate, &mask);
	PAIR_CHECK(r, mask == m->mask && !((immediate ^ f->out[k].immediate) & mask) && !(immediate & ~mask),
		   "message %llu: immediate 0x%x of 0x%x, mask 0x%x, should be 0x%x", U(k), immediate,
		   f->out[k].immediate, mask, m->mask);
	PAIR_CHECK(r,
		   rc == (m->mask == UINT32_MAX		 ? 0
			  : complete || !r->p.split.user ? -ENODATA
							 : -EAGAIN),
		   "message %llu: sdr_recv_imm_get says %d", U(k), rc);
	m->was_complete = complete;

	const uint64_t chunk = pair_below(r, chunks + 1), first = chunk * per_chunk;
	const uint64_t end = first + per_chunk < packets ? first + per_chunk : packets;

	rc = sdr_recv_packets_get(m->handle, chunk, words, sizeof(words) / sizeof(*words), &count);
	if (rc == -EAGAIN && !m->packets)
		return; /* not open yet: sdr_recv_packets_get has let the NIC take the command, and it may be now */
	if (chunk == chunks) {
		PAIR_CHECK(r, rc == -ERANGE, "message %llu: packets of a chunk too many: %d", U(k), rc);
		return;
	}
	PAIR_CHECK(r, rc == 0 && count == end - first,
		   "message %llu: sdr_recv_packets_get says %d, %llu packets in chunk", U(k), rc, U(count));
	for (uint64_t j = 0; !rc && j < sizeof(words) * 8; j++)
		PAIR_CHECK(r, pair_bit_get(words, j) == (first + j < end && pair_bit_get(m->arrived, first + j)),
			   "message %llu, chunk %llu: bit %llu of its packets", U(k), U(chunk), U(j));
}

/* All that could still come has come. */
static bool in_settled(struct pair *r, struct flow *f, uint64_t k)
{
	const struct out *o = &f->out[k];

	return o->released && o->left == o->due && sp_world_now(r->world) > o->gone + r->p.network;
}

/* All had left when the receiver ended the message: for what is still under way then the NIC holds back for
 * max-packet-life. */
static bool in_ended_last(const struct flow *f, uint64_t k)
{
	const struct out *o = &f->out[k];

	return o->released && o->left == o->due && f->in[k].state == IN_DONE && o->gone <= f->in[k].ended;
}

static void flow_post(struct pair *r, struct flow *f)
{
	const uint64_t k = f->next_post, lap = (uint64_t)r->p.slots * r->p.generations;
	struct in *m = &f->in[k];
	struct buffer *b = NULL;

	/* A packet can only be told from one of S*G messages later. So the application must know that the sender is
	 * done with a message before it posts the one that takes its place; here it does, by looking. */
	if (!r->p.trusting && k >= lap && !in_settled(r, f, k - lap) && !in_ended_last(f, k - lap))
		return;
	if (f->buffers == 0)
		return;
	for (unsigned i = 0; i < f->buffers; i++) /* the one at rest for longest */
		if (!f->buffer[i].used && (!b || f->buffer[i].turn < b->turn))
			b = &f->buffer[i];
	if (!b)
		return;
	pair_buffer_check_idle(r, f, b);
	b->at = b->base + PAIR_GUARD + pair_below(r, 64);
	int rc = sdr_recv_post(f->conn->qp[!f->from], f->arena_mr, (uint64_t)(b->at - f->arena), m->posted, &m->handle);
	if (rc) {
		PAIR_CHECK(r, rc == -EAGAIN && k >= r->p.slots && f->in[k - r->p.slots].state != IN_DONE,
			   "sdr_recv_post of message %llu says %d", U(k), rc);
		return;
	}
	PAIR_CHECK(r, k < r->p.slots || f->in[k - r->p.slots].state == IN_DONE,
		   "more than max_messages receives are posted");
	b->used = true;
	m->buffer = b;
	m->state = IN_POSTED;
	m->early = pair_chance(r, r->p.early);
	m->deadline = sp_world_now(r->world) + pair_below(r, 4 * r->p.network + 10 * SP_US);
	f->next_post++;
}

static void in_step(struct pair *r, struct flow *f, uint64_t k)
{
	struct in *m = &f->in[k];
	bool end;

	if (m->state == IN_POSTED) {
		const bool settled = in_settled(r, f, k);

		end = (m->early && sp_world_now(r->world) >= m->deadline) || settled ||
		      (pair_chance(r, 0.2) && sdr_recv_test(m->handle) == 0);
		if (end || pair_chance(r, 0.1)) {
			in_check(r, f, k);
			in_check_bytes(r, f, k, false);
		}
		PAIR_CHECK(r, !settled || !r->p.lossless || m->was_complete || m->posted < f->out[k].length,
			   "message %llu is not complete, and nothing was lost", U(k));
		if (!end)
			return;
		f->completed += m->was_complete;
		m->state = IN_ASKED;
		m->ended = sp_world_now(r->world);
	}
	int rc = sdr_recv_complete(m->handle);
	if (rc) {
		PAIR_CHECK(r, rc == -EAGAIN, "sdr_recv_complete of message %llu says %d", U(k), rc);
		return;
	}
	m->state = IN_DONE;
	in_check_bytes(r, f, k, true);
	pair_buffer_fill(r, f, m->buffer); /* the application's again: nothing may change it */
}

static void flow_receive(struct pair *r, struct flow *f)
{
	for (uint64_t k = f->first_recv; k < f->next_post; k++)
		if (f->in[k].state != IN_DONE)
			in_step(r, f, k);
	while (f->first_recv < f->next_post && f->in[f->first_recv].state == IN_DONE)
		f->first_recv++;
	for (unsigned i = 0; i < r->p.slots && f->next_post < f->messages && !pair_chance(r, r->p.slow); i++) {
		const uint64_t before = f->next_post;

		flow_post(r, f);
		if (f->next_post == before)
			break;
	}
}

/* ---- sending ---- */
/* Every byte once at least, in pieces, in any order, some again. */
static void out_cut(struct pair *r, struct out *m)
{
	const uint64_t packets = pair_units(m->length, r->p.mtu);
	uint64_t at = 0;

	m->pieces = m->next = 0;
	while (at < packets) {
		uint64_t n = m->pieces >= PAIR_PIECES / 2 ? packets : 1 + pair_below(r, packets - at);
		const uint64_t stop = (at + n < packets ? at + n : packets) * r->p.mtu;

		m->piece[m->pieces].at = at * r->p.mtu;
		m->piece[m->pieces++].len = (stop < m->length ? stop : m->length) - at * r->p.mtu;
		at += n;
	}
	for (unsigned again = m->pieces; m->pieces < PAIR_PIECES && pair_chance(r, 0.3);)
		m->piece[m->pieces++] = m->piece[pair_below(r, again)];
	for (unsigned i = m->pieces; i > 1; i--) {
		const unsigned j = (unsigned)pair_below(r, i);
		const uint64_t a = m->piece[j].at, l = m->piece[j].len;

		m->piece[j] = m->piece[i - 1];
		m->piece[i - 1].at = a;
		m->piece[i - 1].len = l;
	}
}

static uint8_t *out_scratch(struct pair *r, struct flow *f, uint64_t k)
{
	return f->scratch + k % r->p.slots * r->p.max_bytes;
}

static bool flow_start(struct pair *r, struct flow *f)
{
	const uint64_t k = f->next_send;
	struct out *m = &f->out[k];
	struct sdr_qp *qp = f->conn->qp[f->from];
	uint8_t *bytes = out_scratch(r, f, k);
	int rc;

	m->stream = m->length && pair_chance(r, r->p.stream);
	if (k >= r->p.slots && !f->out[k - r->p.slots].released) {
		rc = sdr_send_post(qp, f->scratch_mr, 0, m->length, m->immediate, &m->handle);
		PAIR_CHECK(r, rc == -EAGAIN, "sdr_send_post with max_messages in flight says %d", rc);
		return false;
	}
	memcpy(bytes, pair_source + m->source, m->length);
	if (m->stream)
		rc = sdr_send_stream_start(qp, m->length, m->immediate, &m->handle);
	else
		rc = sdr_send_post(qp, f->scratch_mr, (uint64_t)(bytes - f->scratch), m->length, m->immediate,
				   &m->handle);
	if (rc) {
		PAIR_CHECK(r, rc == -EAGAIN, "sending message %llu says %d", U(k), rc);
		return false;
	}
	PAIR_CHECK(r, sdr_send_message(m->handle) == k, "message %llu has number %llu", U(k),
		   U(sdr_send_message(m->handle)));
	m->started = true;
	if (m->stream)
		out_cut(r, m);
	else
		m->due = pair_units(m->length, r->p.mtu);
	f->next_send++;
	return true;
}

static void out_step(struct pair *r, struct flow *f, uint64_t k)
{
	struct out *m = &f->out[k];
	uint8_t *bytes = out_scratch(r, f, k);
	int rc;

	while (m->stream && m->next < m->pieces && !pair_chance(r, 0.4)) {
		const uint64_t at = m->piece[m->next].at, len = m->piece[m->next].len;

		rc = sdr_send_stream_continue(m->handle, f->scratch_mr, (uint64_t)(bytes - f->scratch) + at, len, at);
		if (rc) {
			PAIR_CHECK(r, rc == -EAGAIN, "sdr_send_stream_continue says %d", rc);
			break;
		}
		m->due += pair_units(len, r->p.mtu);
		m->next++;
	}
	if (m->stream && m->next == m->pieces && !m->ended) {
		rc = sdr_send_stream_end(m->handle);
		PAIR_CHECK(r, rc == 0 || rc == -EAGAIN, "sdr_send_stream_end says %d", rc);
		m->ended = !rc;
	}
	if (m->stream && !m->ended) {
		rc = sdr_send_poll(m->handle);
		PAIR_CHECK(r, rc == 0 || rc == -EAGAIN, "sdr_send_poll says %d", rc);
		return;
	}
	rc = sdr_send_poll(m->handle);
	if (rc) {
		PAIR_CHECK(r, rc == -EAGAIN, "sdr_send_poll says %d", rc);
		return;
	}
	m->released = true;
	memset(bytes, 0xDD, m->length); /* the buffer is the application's again */
}

static void flow_send(struct pair *r, struct flow *f)
{
	for (uint64_t k = f->first_send; k < f->next_send; k++)
		if (!f->out[k].released)
			out_step(r, f, k);
	while (f->first_send < f->next_send && f->out[f->first_send].released)
		f->first_send++;
	while (f->next_send < f->messages && !pair_chance(r, r->p.slow))
		if (!flow_start(r, f))
			break;
}

bool pair_flow_done(const struct flow *f)
{
	return f->first_send == f->messages && f->first_recv == f->messages;
}

static bool conn_done(const struct conn *c)
{
	return !c->alive || (pair_flow_done(&c->flow[0]) && pair_flow_done(&c->flow[1]));
}

bool pair_done(void *arg)
{
	const struct pair *r = arg;

	if (r->failed)
		return true;
	for (unsigned i = 0; i < r->conns; i++)
		if (!conn_done(r->conn[i]))
			return false;
	return true;
}

void pair_step(void *arg, sp_time now)
{
	struct pair *r = arg;

	if (now >= r->wake)
		r->wake = pair_done(r) && !r->act ? SP_NEVER : now + 1 + pair_below(r, r->tick);
	if (++r->steps > 4000000)
		pair_fail(r, "the run does not end");
	if (r->failed)
		return;
	if (r->act)
		r->act(r, now);
	for (unsigned i = 0; i < r->conns; i++) {
		struct conn *c = r->conn[i];

		for (unsigned e = 0; e < 2 && c->alive; e++) {
			if (!c->connected[e] && now >= c->connect_at[e]) {
				int rc = sdr_qp_connect(c->qp[e], &c->info[!e]);

				PAIR_CHECK(r, rc == 0, "sdr_qp_connect says %d", rc);
				c->connected[e] = true;
			}
			if (c->connected[e])
				flow_send(r, &c->flow[e]);
			flow_receive(r, &c->flow[!e]);
		}
	}
}

sp_time pair_next(void *arg)
{
	return ((const struct pair *)arg)->wake;
}
