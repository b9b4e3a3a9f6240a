/* SPDX-License-Identifier: BSD-3-Clause */
#include "sdr_watch.h"

#define PAIR_LAPS 65536u /* more than any of these connections sees */

static uint32_t *psn_slot(struct flow *f, uint32_t key, uint64_t **k)
{
	uint32_t at = (key + 1) * 0x9E3779B1u % PAIR_PSN_ROOM;

	while (f->psn[at].key && f->psn[at].key != key + 1)
		at = (at + 1) % PAIR_PSN_ROOM;
	*k = &f->psn[at].k;
	return &f->psn[at].key;
}

/* The flow that a packet from end `from` belongs to: by QP number and key, which counts laps. */
static struct flow *pair_flow(struct pair *r, unsigned from, uint32_t qp, uint32_t rkey)
{
	for (unsigned i = 0; i < r->conns; i++) {
		const struct sdr_qp_info *to = &r->conn[i]->info[!from];

		if (qp - to->qpn < to->generations * to->channels && rkey - to->rkey < PAIR_LAPS)
			return &r->conn[i]->flow[from];
	}
	return NULL;
}

/* All that one packet must look like, from the rules of the wire. */
static void pair_check_packet(struct pair *r, struct flow *f, uint64_t k, const uint8_t *frame,
			      const struct wire_packet *w)
{
	const struct pair_params *p = &r->p;
	const struct out *m = &f->out[k];
	const uint64_t id = k % p->slots, packet = w->immediate >> p->split.user & ((1ull << p->split.offset) - 1);
	const uint64_t at = packet * p->mtu;
	const uint64_t body = at < m->length ? (m->length - at < p->mtu ? m->length - at : p->mtu) : 0;
	const unsigned fragments = p->split.user ? 32u / p->split.user : 1;
	const uint32_t user = p->split.user ? (uint32_t)((uint64_t)m->immediate >> packet % fragments * p->split.user &
							 ((1ull << p->split.user) - 1))
					    : 0;

	PAIR_CHECK(r, w->version == 0 && w->pkey == 0xFFFF && w->ack_req == 0 && w->pad == (4 - w->body_len % 4) % 4,
		   "message %llu: TVer %u, P_Key 0x%x, AckReq 0x%x, pad %u of %u bytes", U(k), w->version, w->pkey,
		   w->ack_req, w->pad, w->body_len);
	PAIR_CHECK(r,
		   (uint64_t)w->immediate == ((id << (32 - p->split.id) & UINT32_MAX) | packet << p->split.user | user),
		   "message %llu, packet %llu: immediate 0x%x", U(k), U(packet), w->immediate);
	PAIR_CHECK(r, w->address == id * p->max_bytes + at && w->dma_len == w->body_len && w->body_len == body,
		   "message %llu, packet %llu: address %llu, DMALen %u, %u bytes of %llu", U(k), U(packet),
		   U(w->address), w->dma_len, w->body_len, U(body));
	PAIR_CHECK(r, w->rkey == f->conn->info[!f->from].rkey + k / p->slots / p->generations, "message %llu: key 0x%x",
		   U(k), w->rkey);
	PAIR_CHECK(r, w->solicited == (at + body == m->length), "message %llu, packet %llu: SE is %d", U(k), U(packet),
		   w->solicited);
	PAIR_CHECK(r, !memcmp(w->body, pair_source + m->source + at, body), "message %llu, packet %llu: wrong bytes",
		   U(k), U(packet));
	PAIR_CHECK(r, wire_icrc_right(frame), "message %llu, packet %llu: wrong ICRC", U(k), U(packet));
}

static void pair_left(struct pair *r, unsigned end, const uint8_t *frame, const struct wire_packet *w, sp_time now)
{
	const struct pair_params *p = &r->p;
	struct flow *f = pair_flow(r, end, w->qp, w->rkey);
	const uint64_t lap = (uint64_t)p->slots * p->generations;
	uint64_t *mapped;

	if (!f || !f->conn->alive)
		return;
	uint32_t q = w->qp - f->conn->info[!end].qpn;
	/* Of the messages that fit slot and generation the oldest that still has packets to come: messages of one slot
	 * follow each other through one queue. */
	uint64_t k = q / p->channels * p->slots + (p->split.id ? w->immediate >> (32 - p->split.id) : 0);
	while (k < f->next_send && f->out[k].left == f->out[k].due)
		k += lap;
	if (k >= f->next_send) {
		pair_fail(r, "a packet left of no message that is being sent: QP %u, immediate 0x%x", q, w->immediate);
		return;
	}
	pair_check_packet(r, f, k, frame, w);
	PAIR_CHECK(r, f->credit > k, "message %llu left, and clear-to-send had come for %llu", U(k), U(f->credit));
	if (++f->out[k].left == f->out[k].due)
		f->out[k].gone = now;
	if (!f->psn_count[q]++)
		f->psn_first[q] = w->psn;
	PAIR_CHECK(r, p->resolve || w->psn == ((f->psn_first[q] + f->psn_count[q] - 1) & 0xFFFFFF),
		   "QP %u: PSN %u is not the next", q, w->psn);
	uint32_t *key = psn_slot(f, q << 24 | w->psn, &mapped);
	*key = (q << 24 | w->psn) + 1;
	*mapped = k;
}

static void pair_keep(struct pair *r, unsigned end, const uint8_t *frame, uint32_t len)
{
	struct kept *keep = &r->kept[r->kept_next];

	if (len > WIRE_FRAME_MAX || !pair_chance(r, 0.3))
		return;
	*keep = (struct kept){.end = end, .len = len};
	memcpy(keep->frame, frame, len);
	r->kept_next = (r->kept_next + 1) % PAIR_KEPT;
	r->kept_count = r->kept_count < PAIR_KEPT ? r->kept_count + 1 : PAIR_KEPT;
}

static void pair_schedule_late(struct pair *r, unsigned end, sp_time now)
{
	if (!r->kept_count || r->injections >= 4096)
		return;
	const struct kept *keep = &r->kept[pair_below(r, r->kept_count)];
	if (keep->end != end)
		return; /* it would have to go to the other NIC */
	r->injections++;
	tap_inject(&r->tap[end], keep->frame, keep->len, 1,
		   now + pair_below(r, pair_chance(r, 0.5) ? r->p.network : 4 * r->p.life));
}

/* A copy with some bits wrong, or cut off. */
static void pair_damage(struct pair *r, unsigned end, const uint8_t *frame, uint32_t len, sp_time now)
{
	uint8_t copy[WIRE_FRAME_MAX];
	struct wire_packet w;

	if (len > sizeof(copy))
		return;
	memcpy(copy, frame, len);
	if (pair_chance(r, 0.3))
		len = (uint32_t)pair_below(r, len + 1);
	else
		for (int i = 0; i < 3; i++)
			copy[pair_below(r, len)] ^= (uint8_t)(1u << pair_below(r, 8));
	/* What is still right, because the ICRC leaves the field out, is none. */
	if (len && (!wire_decode(copy, len, &w) || !wire_icrc_right(copy)))
		tap_inject(&r->tap[end], copy, len, PAIR_JUNK, now + pair_below(r, 2 * r->p.network));
}

/* A data packet is about to enter the receiver's NIC; false: it does not. */
static bool pair_came(struct pair *r, unsigned end, const uint8_t *frame, uint32_t len, const struct wire_packet *w,
		      uint64_t tag, sp_time now)
{
	const struct pair_params *p = &r->p;
	struct flow *f = pair_flow(r, !end, w->qp, w->rkey);
	uint64_t *mapped;

	if (!f || !f->conn->alive)
		return true;
	uint32_t q = w->qp - f->conn->info[end].qpn;
	if (!*psn_slot(f, q << 24 | w->psn, &mapped)) {
		pair_fail(r, "a packet came that never left");
		return false;
	}
	uint64_t k = *mapped;
	struct in *m = &f->in[k];
	if (tag) { /* recorded, of whichever lap */
		f->injected++;
		f->injected_late += m->state == IN_DONE;
	}
	if (p->junk > 0 && pair_chance(r, p->junk))
		pair_damage(r, end, frame, len, now);
	if (p->inject > 0) {
		pair_keep(r, end, frame, len);
		if (pair_chance(r, p->inject))
			pair_schedule_late(r, end, now);
	}
	f->delivered++;
	PAIR_CHECK(r, m->state != IN_NONE, "message %llu came before its receive was posted", U(k));
	uint64_t packet = w->immediate >> p->split.user & ((1ull << p->split.offset) - 1);
	uint64_t stop = packet * p->mtu + w->body_len;
	if (m->state == IN_NONE || m->state == IN_DONE) {
		f->late++;
		return true;
	}
	if (stop > m->posted) { /* the sender sends more than was posted: these packets find no place */
		f->beyond += m->state == IN_POSTED;
		f->beyond_maybe += m->state == IN_ASKED;
		return true;
	}
	if (m->state == IN_ASKED) {
		/* The NIC has been told, or will be in its next poll: the packet lands, or is late. */
		const bool known = pair_bit_get(m->arrived, packet) || pair_bit_get(m->window, packet);

		pair_bit_set(m->window, packet);
		f->duplicates_maybe += known;
		f->placed_maybe += !known;
		return true;
	}
	if (w->solicited || w->body_len < p->mtu) {
		m->fixed = true;
		m->length = stop;
	}
	if (pair_bit_get(m->arrived, packet)) {
		m->duplicates++;
		f->duplicates++;
		return true;
	}
	pair_bit_set(m->arrived, packet);
	m->packets++;
	f->placed++;
	if (p->split.user) {
		const unsigned shift = (unsigned)(packet % (32u / p->split.user)) * p->split.user;

		m->mask |= (uint32_t)(((1ull << p->split.user) - 1) << shift);
	}
	return true;
}

/* A copy that says it comes from a peer that has started anew, of somebody who reads what is on the wire. */
static void pair_forge(struct pair *r, unsigned end, const uint8_t *frame, uint32_t len, const struct wire_packet *w,
		       sp_time now)
{
	uint8_t copy[WIRE_FRAME_MAX];

	if (len > sizeof(copy))
		return;
	memcpy(copy, frame, len);
	copy[w->payload - frame + 16] ^= (uint8_t)(1 + pair_below(r, 255));
	wire_icrc_set(copy);
	tap_inject(&r->tap[end], copy, len, PAIR_JUNK, now + pair_below(r, r->p.network));
	r->forged++;
}

/* Clear-to-send: 8 bytes magic, version, type, length; the nonces; the count. */
static bool pair_cts(struct pair *r, unsigned end, bool in, const uint8_t *frame, uint32_t len,
		     const struct wire_packet *w, sp_time now)
{
	if (w->len < 32 || memcmp(w->payload, "SDRC\1\1", 6))
		return true;
	if (in && r->p.hostile)
		pair_forge(r, end, frame, len, w, now);
	uint64_t count = wire_get(w->payload + 24, 8);
	for (unsigned i = 0; i < r->conns; i++) {
		struct conn *c = r->conn[i];
		const unsigned receiver = in ? !end : end;
		struct flow *f = &c->flow[!receiver];

		if (!c->alive || w->qp != c->info[!receiver].control_qpn ||
		    wire_get(w->payload + 8, 8) != c->info[!receiver].nonce ||
		    wire_get(w->payload + 16, 8) != c->info[receiver].nonce)
			continue;
		if (in && r->p.cts_loss > 0 && pair_chance(r, r->p.cts_loss))
			return false;
		PAIR_CHECK(r, count <= f->next_post, "clear-to-send for %llu, and %llu were posted", U(count),
			   U(f->next_post));
		f->cts_seen += in;
		if (in && c->connected[end] && count > f->credit)
			f->credit = count;
		PAIR_CHECK(r, wire_icrc_right(frame), "clear-to-send with a wrong ICRC");
	}
	return true;
}

bool pair_seen(void *arg, bool in, const uint8_t *frame, uint32_t len, uint64_t tag, sp_time now)
{
	struct pair *r = ((struct pair_end *)arg)->pair;
	const unsigned end = ((struct pair_end *)arg)->end;
	struct wire_packet w;

	if (tag == PAIR_JUNK)
		return true;
	if (!wire_decode(frame, len, &w))
		return true; /* ARP, neighbour discovery */
	if (in && r->lose && r->lose(r, end, &w, now))
		return false;
	if (w.opcode == WIRE_SEND_ONLY)
		return pair_cts(r, end, in, frame, len, &w, now);
	if (w.opcode != WIRE_WRITE_ONLY_IMM) {
		pair_fail(r, "a packet with opcode 0x%x", w.opcode);
		return true;
	}
	if (in)
		return pair_came(r, end, frame, len, &w, tag, now);
	pair_left(r, end, frame, &w, now);
	return true;
}
