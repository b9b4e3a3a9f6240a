/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rvma, puts of one packet in a row, as most are. All of a run are new, of one session, and go to open mailboxes that
 * have a counter on the NIC and a buffer with room. What they have in common is checked once. Once per run the status
 * area is written and blocks are counted. The first put that is different ends the run. place.c handles it and checks
 * all of it again, so nothing is refused here.
 */
#include "run.h"
#include "../branch.h"
#include "blocks.h"
#include "bucket.h"
#include "copy.h"
#include "session.h"

#define RV_MANY 256 /* mailboxes; with more, windows and buffers do not stay in the nearest cache */

struct rv_run {
	struct rv_session *x;
	uint64_t token;
	uint64_t addresses;	       /* of the session's packets with IPv4; 0: it has IPv6, */
	const struct sp_packet *first; /* ... with the addresses of this packet of the run */
	bool taken;		       /* the run has completed blocks */
	/* the latest put; line RV_NONE: there is none */
	uint32_t line;
	bool managed;
	struct rv_window *w;
	struct rv_buffer *b;
	uint64_t key, room, most; /* room: bytes of the buffer; most: bytes of a put */
	uint8_t *base;
	uint64_t region;	     /* its bytes */
	uint64_t *bytes, *ops;	     /* placed in the buffer so far, */
	uint64_t end_bytes, end_ops; /* ... and the counts that complete it */
	/* since rv_run_publish() */
	uint64_t puts, placed;
	unsigned changes; /* windows to publish */
	uint32_t changed[RV_EXPECT];
};

static bool rv_run_window(struct sp_ctx *c, struct rv_run *r, uint32_t line)
{
	struct rv *s = rv_of(c);
	struct rv_window *w = line == RV_NONE ? NULL : &s->window[line];
	struct rv_buffer *b;

	r->line = RV_NONE;
	if (!w || w->closed || !w->posted.count || w->rated)
		return false;
	b = &s->buffer[w->posted.first];
	r->base = sp_dma_window(c, b->mem, b->offset, b->length);
	if (!r->base)
		return false;
	r->end_bytes = r->end_ops = UINT64_MAX;
	if (w->flags & SP_RVMA_REGION) {
		r->bytes = &b->bytes;
		r->ops = &b->ops;
	} else if (w->counter < s->counters) {
		r->bytes = &s->count[w->counter].bytes;
		r->ops = &s->count[w->counter].ops;
		*(w->flags & SP_RVMA_OPS ? &r->end_ops : &r->end_bytes) = b->threshold ? b->threshold : UINT64_MAX;
	} else { /* counted in host memory */
		return false;
	}
	r->line = line;
	r->managed = w->flags & SP_RVMA_MANAGED;
	r->w = w;
	r->b = b;
	r->key = w->key;
	r->room = b->length;
	r->most = w->limit_put ? w->limit_put : UINT64_MAX;
	r->region = b->mem->len;
	return true;
}

/* Publishes what has been placed. */
static void rv_run_publish(struct sp_ctx *c, struct rv_run *r)
{
	struct rv *s = rv_of(c);

	rv_copied(s);
	for (unsigned i = 0; i < r->changes; i++) {
		const struct rv_window *w = &s->window[r->changed[i]];

		RV_PUBLISH(c, s, w, bytes, w->bytes);
		RV_PUBLISH(c, s, w, puts, w->puts);
	}
	c->counters[RV_PACKETS] += r->puts;
	c->counters[RV_PUTS] += r->puts;
	c->counters[RV_BYTES] += r->placed;
	r->puts = r->placed = 0;
	r->changes = 0;
	r->line = RV_NONE;
}

static void rv_run_settle(struct sp_ctx *c, struct rv_run *r)
{
	rv_run_publish(c, r);
	if (r->taken)
		rv_taken(c, r->x);
	r->taken = false;
	r->x = NULL;
}

/* Goes on with puts of another session. */
static bool rv_run_session(struct sp_ctx *c, struct rv_run *r, const struct sp_packet *p)
{
	const struct sp_rvma_head *h = (const struct sp_rvma_head *)p->data;
	uint8_t why;

	if (h->version != SP_RVMA_VERSION)
		return false;
	rv_run_settle(c, r); /* the token may end the peer's session before */
	r->x = rv_session_find(c, p, h->token, &why);
	memcpy(&r->token, h->token, sizeof(r->token));
	r->first = p;
	r->addresses = 0;
	if (!(p->flags & SP_PKT_IPV6))
		memcpy(&r->addresses, rv_addresses(p), sizeof(r->addresses));
	return r->x;
}

/* True: the addresses of the packet that the session was found with. */
static inline bool rv_run_peer(const struct rv_run *r, const struct sp_packet *p)
{
	uint64_t addresses;

	if (unlikely(p->flags & SP_PKT_IPV6))
		return !r->addresses && !memcmp(rv_addresses(p), rv_addresses(r->first), 32);
	memcpy(&addresses, p->frame + p->l3 + 12, sizeof(addresses));
	return addresses == r->addresses;
}

/* Places a put. False: it is not a plain one, and nothing has changed. */
static inline bool rv_run_put(struct sp_ctx *c, struct rv_run *r, const struct sp_packet *p, uint32_t line)
{
	struct rv *s = rv_of(c);
	const struct sp_rvma_put *put = (const struct sp_rvma_put *)p->data;
	const uint32_t bytes = p->len - (uint32_t)sizeof(*put);
	const uint64_t number = sp_load_be64(put->head.transfer);
	uint64_t offset = sp_load_be64(put->offset), token;
	struct rv_block *block;

	memcpy(&token, put->head.token, sizeof(token));
	if (unlikely(!r->x || token != r->token || !rv_run_peer(r, p)) && !rv_run_session(c, r, p))
		return false;
	/* A packet that is all of a put, with payload. */
	if (unlikely(put->head.version != SP_RVMA_VERSION) || unlikely(put->head.flags & SP_RVMA_FENCE) ||
	    unlikely(sp_load_be32(put->head.packet)) || unlikely(sp_load_be64(put->length) != bytes) ||
	    unlikely(bytes - 1 >= r->x->mtu))
		return false;
	/* Its block is new, and within the window that we offered. */
	block = rv_block_of(s, r->x, number);
	if (unlikely(number - r->x->base >= s->blocks) || unlikely(number >= SP_RVMA_BLOCKS) ||
	    unlikely(rv_block_is(block, number)))
		return false;
	if (unlikely(line != r->line || line == RV_NONE) && !rv_run_window(c, r, line))
		return false;
	if (unlikely(sp_load_be64(put->key) != r->key))
		return false;
	if (r->managed) {
		if (unlikely(offset != SP_RVMA_APPEND))
			return false;
		offset = r->b->tail;
	} else if (offset == SP_RVMA_APPEND) {
		offset = 0;
	}
	if (unlikely(offset > r->room) || unlikely(bytes > r->room - offset) || unlikely(bytes > r->most))
		return false;

	/* within `room`, and the buffer lies within its region: see rv_run_window() */
	rv_copy(s, r->region, r->base + offset, p->data + sizeof(*put), bytes);
	if (r->managed)
		r->b->tail = offset + bytes;
	r->b->mailbox = sp_load_be64(put->mailbox);
	*block = (struct rv_block){.number = number + 1, .transfer = number, .have = 1, .units = 1, .seen = true};
	r->taken = true;
	r->x->end = number < r->x->end ? r->x->end : number + 1;
	r->w->puts++;
	r->w->bytes += bytes;
	*r->ops += 1;
	*r->bytes += bytes;
	if (!r->changes || r->changed[r->changes - 1] != line)
		r->changed[r->changes++] = line;
	r->puts++;
	r->placed += bytes;
	return true;
}

/* Looks up the windows of these puts, as line numbers. With many mailboxes, prefetches all that the puts need. */
static void rv_run_expect(const struct rv *s, struct sp_packet *const *packet, unsigned n, uint32_t *line)
{
	const bool many = s->table.count >= RV_MANY;
	uint64_t mailbox[RV_EXPECT];

	for (unsigned i = 0; i < n; i++) {
		mailbox[i] = sp_load_be64(((const struct sp_rvma_put *)packet[i]->data)->mailbox);
		if (many)
			sp_rvma_table_prefetch(&s->table, mailbox[i]);
	}
	for (unsigned i = 0; i < n; i++) {
		const struct rv_window *w;

		if (i && mailbox[i] == mailbox[i - 1]) {
			line[i] = line[i - 1];
			continue;
		}
		line[i] = sp_rvma_table_find(&s->table, mailbox[i]);
		if (!many || line[i] == RV_NONE)
			continue;
		w = &s->window[line[i]];
		__builtin_prefetch(w, 1);
		__builtin_prefetch(s->area->base + s->layout.window + line[i] * sizeof(struct sp_rvma_window_status),
				   1);
	}
	for (unsigned i = 0; i < n && many; i++) {
		const struct rv_window *w = line[i] == RV_NONE ? NULL : &s->window[line[i]];

		if (!w || !w->posted.count)
			continue;
		__builtin_prefetch(&s->buffer[w->posted.first], 1);
		if (w->counter < s->counters)
			__builtin_prefetch(&s->count[w->counter], 1);
	}
}

/* Returns how many packets have a complete header of a put. */
static inline unsigned rv_run_puts(struct sp_packet *const *packet, unsigned n)
{
	unsigned i = 0;

	while (i < n && i < RV_EXPECT && packet[i]->opcode == SP_RVMA_PUT &&
	       packet[i]->len > sizeof(struct sp_rvma_put))
		i++;
	return i;
}

unsigned rv_run(struct sp_ctx *c, struct sp_packet *const *packet, unsigned n)
{
	struct rv_run r = {.line = RV_NONE};
	uint32_t line[RV_EXPECT];
	unsigned i;

	if (unlikely(c->watch))
		return 0;
	n = rv_run_puts(packet, n);
	rv_run_expect(rv_of(c), packet, n, line);
	for (i = 0; i < n && rv_run_put(c, &r, packet[i], line[i]); i++) {
		struct rv_window *w = r.w;

		if (unlikely(*r.bytes >= r.end_bytes) || unlikely(*r.ops >= r.end_ops)) {
			rv_run_publish(c, &r);
			rv_bucket_retire(c, w, 0);
		}
	}
	rv_run_settle(c, &r);
	return i;
}
