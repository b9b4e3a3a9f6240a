/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rvma, transfers that arrive. Each packet names its transfer and its bytes in it. Packets take effect once, in any
 * order. The last one to arrive ends the transfer.
 */
#include "place.h"
#include "../branch.h"
#include "answer.h"
#include "blocks.h"
#include "control.h"
#include "copy.h"
#include "get.h"
#include "mailbox.h"
#include "run.h"
#include "session.h"
#include "transfer.h"

struct rv_piece {
	struct rv_session *x;
	const uint8_t *headers, *payload;
	uint64_t transfer, length, packets;
	uint64_t at; /* offset of its bytes in the transfer */
	uint32_t packet, bytes;
	bool fence;
};

static uint32_t rv_header_bytes(uint8_t opcode)
{
	switch (opcode) {
	case SP_RVMA_PUT:
		return sizeof(struct sp_rvma_put);
	case SP_RVMA_GET:
		return sizeof(struct sp_rvma_get);
	case SP_RVMA_DATA:
		return sizeof(struct sp_rvma_data);
	default:
		return 0;
	}
}

#define RV_LENGTH_AT sizeof(struct sp_rvma_head)
static_assert(offsetof(struct sp_rvma_put, length) == RV_LENGTH_AT &&
		      offsetof(struct sp_rvma_get, length) == RV_LENGTH_AT &&
		      offsetof(struct sp_rvma_data, length) == RV_LENGTH_AT,
	      "in the same place");

/* Returns 0, or 1 + the reason to drop the packet. */
static uint32_t rv_read(struct sp_ctx *c, const struct sp_packet *p, struct rv_piece *q)
{
	const struct sp_rvma_head *h = (const struct sp_rvma_head *)p->data;
	const uint32_t size = rv_header_bytes(p->opcode);
	uint8_t why;

	if (!size)
		return 1 + RV_BAD_OPCODE;
	if (p->len < size)
		return 1 + RV_SHORT_HEADER;
	if (h->version != SP_RVMA_VERSION)
		return 1 + RV_BAD_VERSION;
	q->x = rv_session_find(c, p, h->token, &why);
	if (!q->x)
		return 1u + why;
	q->headers = p->data;
	q->payload = p->data + size;
	q->bytes = p->len - size;
	q->transfer = sp_load_be64(h->transfer);
	q->packet = sp_load_be32(h->packet);
	q->length = sp_load_be64(p->data + RV_LENGTH_AT);
	q->fence = h->flags & SP_RVMA_FENCE;
	q->packets = p->opcode == SP_RVMA_GET ? 1 : sp_rvma_packets(q->length, q->x->mtu);
	q->at = (uint64_t)q->packet * q->x->mtu;
	if (q->packets > SP_RVMA_PACKETS_MAX || q->packet >= q->packets || q->transfer >= SP_RVMA_BLOCKS ||
	    (q->packets + SP_RVMA_BLOCK - 1) / SP_RVMA_BLOCK > SP_RVMA_BLOCKS - q->transfer)
		return 1 + RV_BAD_LENGTH;
	if (p->opcode == SP_RVMA_GET)
		return q->bytes ? 1 + RV_BAD_LENGTH : 0;
	return q->bytes == (q->packet + 1 < q->packets ? q->x->mtu : q->length - q->at) ? 0 : 1 + RV_BAD_LENGTH;
}

/* True: the packet is all of a put, or payload() will refuse it. */
static inline bool rv_is_single(const struct sp_packet *p)
{
	const struct sp_rvma_put *put = (const struct sp_rvma_put *)p->data;

	return p->opcode == SP_RVMA_PUT && p->len >= sizeof(*put) &&
	       sp_load_be64(put->length) == p->len - sizeof(*put) && !sp_load_be32(put->head.packet);
}

uint64_t rv_classify(struct sp_ctx *c, struct sp_packet *p)
{
	struct rv_piece q;
	uint32_t bad;

	if (rv_is_control(p))
		return SP_NO_MESSAGE;
	bad = rv_read(c, p, &q);
	if (unlikely(bad))
		return SP_REJECT(bad - 1);
	return q.packets == 1 ? SP_NO_MESSAGE : rv_message_key(q.x, q.transfer);
}

bool rv_classify_burst(struct sp_ctx *c, struct sp_packet *const *packet, unsigned n)
{
	bool rejects = false;

	for (unsigned i = 0; i < n; i++) {
		packet[i]->key = likely(rv_is_single(packet[i])) ? SP_NO_MESSAGE : rv_classify(c, packet[i]);
		rejects |= packet[i]->key > SP_REJECT(256) && packet[i]->key != SP_NO_MESSAGE;
	}
	return rejects;
}

/* ---- the first packet of a transfer ---- */
/* Returns 0 if the packet may take effect, or a verdict. */
static uint32_t rv_new(struct sp_ctx *c, const struct rv_piece *q)
{
	switch (rv_look(c, q->x, q->transfer, q->packet, q->packets)) {
	case RV_NEW:
		return 0;
	case RV_HAVE:
		c->counters[RV_DUPLICATES]++;
		return SP_DROP(RV_DUPLICATE);
	case RV_IS_REFUSED:
		return SP_DROP(RV_REFUSED);
	default:
		return SP_DROP(RV_BEYOND);
	}
}

static uint32_t rv_refuse_piece(struct sp_ctx *c, const struct rv_piece *q, enum sp_rvma_status why, bool silent)
{
	rv_refuse(c, q->x, q->transfer, q->packets, why, silent);
	return SP_DROP(RV_REFUSED);
}

/* Returns 0 with *t filled in, or a verdict. */
static uint32_t rv_begin(struct sp_ctx *c, const struct sp_packet *p, const struct rv_piece *q, struct rv_transfer *t)
{
	uint32_t verdict = rv_new(c, q);

	if (verdict)
		return verdict;
	if (q->fence && !rv_in_order(rv_of(c), q->x, q->transfer))
		return SP_DROP(RV_FENCED);
	*t = (struct rv_transfer){
		.session = q->x, .number = q->transfer, .length = q->length, .window = RV_NONE, .buffer = RV_NONE};
	if (p->opcode == SP_RVMA_PUT) {
		const struct sp_rvma_put *put = (const struct sp_rvma_put *)q->headers;
		const uint64_t mailbox = sp_load_be64(put->mailbox);
		const enum sp_rvma_status why =
			rv_put_begin(c, t, mailbox, sp_load_be64(put->key), sp_load_be64(put->offset));

		return why ? rv_refuse_piece(c, q, why, rv_window_silent(c, mailbox)) : 0;
	}

	const struct sp_rvma_data *data = (const struct sp_rvma_data *)q->headers;

	t->get = rv_get_find(c, q->x, sp_load_be64(data->get), q->length, &t->mem, &t->at);
	return t->get ? 0 : rv_refuse_piece(c, q, SP_RVMA_GIVEN_UP, false);
}

uint32_t rv_header(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	struct rv_transfer *t = m->state;
	struct rv_piece q;
	uint32_t verdict = rv_read(c, p, &q); /* again: the session may have ended since classify() */

	if (verdict)
		return SP_DROP(verdict - 1);
	if (q.x->open >= rv_of(c)->transfers_per_peer)
		return SP_DROP(RV_CROWDED);
	verdict = rv_begin(c, p, &q, t);
	if (verdict)
		return verdict;
	t->key = m->key;
	t->until = c->now + rv_time_of(rv_of(c), q.packets);
	rv_transfer_add(t);
	return SP_DONE;
}

/* ---- every packet ---- */
/* Copies the packet's bytes to their place, and counts them. */
static uint32_t rv_place(struct sp_ctx *c, const struct rv_piece *q, struct rv_transfer *t)
{
	if (q->bytes && rv_write(c, t->mem, t->at + q->at, q->payload, q->bytes))
		return SP_ERROR;
	t->received += q->bytes;
	if (rv_is_put(t))
		rv_put_bytes(c, t, q->bytes);
	rv_take(c, q->x, q->transfer, q->packet, q->packets);
	return t->received == t->length ? SP_END : SP_DONE;
}

/* True: the packet describes its transfer as the first one did. */
static bool rv_agrees(struct sp_ctx *c, const struct sp_packet *p, const struct rv_piece *q,
		      const struct rv_transfer *t)
{
	const struct sp_rvma_put *put = (const struct sp_rvma_put *)q->headers;
	uint64_t bad;

	if (q->x != t->session || q->length != t->length || (p->opcode == SP_RVMA_PUT) != rv_is_put(t))
		return false;
	if (!rv_is_put(t))
		return true;
	bad = sp_load_be64(put->key) ^ t->secret;
	c->counters[RV_BAD_KEYS] += bad != 0;
	return !(bad | (sp_load_be64(put->mailbox) ^ t->mailbox));
}

/* A get arrives. The answer goes out as a transfer of ours. */
static uint32_t rv_get(struct sp_ctx *c, const struct rv_piece *q)
{
	const struct sp_rvma_get *get = (const struct sp_rvma_get *)q->headers;
	uint32_t verdict = rv_new(c, q), window, buffer;
	enum sp_rvma_status why;
	uint64_t at;

	if (verdict)
		return verdict;
	if (q->fence && !rv_in_order(rv_of(c), q->x, q->transfer))
		return SP_DROP(RV_FENCED);
	why = rv_read_begin(c, sp_load_be64(get->mailbox), sp_load_be64(get->key), sp_load_be32(get->back),
			    sp_load_be64(get->offset), q->length, &window, &buffer, &at);
	if (!why) {
		why = rv_serve(c, q->x, q->transfer, rv_of(c)->buffer[buffer].mem, at, q->length, window, buffer);
		if (why)
			rv_read_end(c, window, buffer);
	}
	if (why)
		return rv_refuse_piece(c, q, why, rv_window_silent(c, sp_load_be64(get->mailbox)));
	rv_take(c, q->x, q->transfer, 0, 1);
	return SP_DONE;
}

/* A transfer of one packet ends at once. */
static uint32_t rv_single(struct sp_ctx *c, const struct sp_packet *p, const struct rv_piece *q)
{
	struct rv_transfer t;
	uint32_t verdict = rv_begin(c, p, q, &t);
	enum sp_rvma_status why;

	if (verdict)
		return verdict;
	verdict = rv_place(c, q, &t);
	why = verdict == SP_ERROR ? SP_RVMA_GIVEN_UP : SP_RVMA_DELIVERED;
	if (rv_is_put(&t))
		rv_put_end(c, &t, why);
	else
		rv_get_end(c, t.get, why);
	return verdict == SP_ERROR ? verdict : SP_DONE;
}

static uint32_t rv_packet(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	struct rv_transfer *t = m ? m->state : NULL;
	struct rv_piece q;
	uint32_t verdict;

	if (rv_is_control(p))
		return rv_control(c, p);
	verdict = rv_read(c, p, &q);
	if (unlikely(verdict))
		return SP_DROP(verdict - 1);
	if (!t)
		return p->opcode == SP_RVMA_GET ? rv_get(c, &q) : rv_single(c, p, &q);
	if (unlikely(c->now >= t->until))
		rv_transfer_end(c, t, SP_RVMA_GIVEN_UP);
	if (unlikely(t->ended))
		return SP_DROP(RV_REFUSED);
	if (unlikely(!rv_agrees(c, p, &q, t)))
		return SP_DROP(RV_BAD_LENGTH);
	verdict = rv_new(c, &q);
	return verdict ? verdict : rv_place(c, &q, t);
}

uint32_t rv_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *const *p, unsigned n)
{
	uint32_t all = 0;
	unsigned i = 0;

	while (i < n) {
		if (!m)
			i += rv_run(c, p + i, n - i);
		if (i == n)
			break;
		p[i]->verdict = rv_packet(c, m, p[i]);
		all |= p[i++]->verdict;
	}
	rv_copied(rv_of(c));
	return all;
}

void rv_completion(struct sp_ctx *c, struct sp_message *m, enum sp_end end)
{
	struct rv_transfer *t = m->state;
	enum sp_rvma_status why = SP_RVMA_DELIVERED;

	if (!t->session) /* header() has refused it */
		return;
	rv_transfer_remove(t);
	if (t->ended || end == SP_END_DETACH)
		return;
	if (t->received != t->length) {
		why = SP_RVMA_GIVEN_UP;
		rv_transfer_refuse(c, t, why);
	}
	if (rv_is_put(t))
		rv_put_end(c, t, why);
	else
		rv_get_end(c, t->get, why);
}
