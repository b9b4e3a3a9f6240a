/* SPDX-License-Identifier: BSD-3-Clause */
/* Builds RoCEv2 packets for handlers: headers, payload, ICRC. A run of packets is built step by step, to overlap the
 * waiting: one bulk allocation; headers, rewritten only where they differ from the packet before; then four ICRCs at a
 * time, over bytes that have left the store buffer by then. */
#include "../engine.h"
#include "../context.h"
#include "../limit.h"
#include "../frame/icrc.h"
#include "zero_copy.h"
#include "../observe/tap.h"
#include "pace.h"
#include "path.h"
#include "pending.h"
#include "../process.h"
#include "../../handlers/wire/roce.h"
#include "transmit.h"
#include "../view.h"
#include "../worker.h"

#include <rte_mbuf.h>
#include <rte_branch_prediction.h>
#include <rte_byteorder.h>

#define HEAD	 80 /* bytes written at once: Ethernet to BTH, rounded up */
#define HEAD_BTH 12

static_assert(18 + 40 + 8 + HEAD_BTH <= HEAD && HEAD <= SP_PIECE_ROOM, "headers fit, and have room");

static inline uint32_t pad_of(const struct sp_send *s)
{
	return -s->len & 3;
}

/* Bytes from the IP header to the end of the ICRC. */
static inline uint32_t l3_bytes_of(const struct sp_path *p, const struct sp_send *s)
{
	return p->l3_len + 8u + HEAD_BTH + s->ext_len + s->len + pad_of(s) + 4u;
}

/* ---- headers ---- */

static void fill_lengths(uint8_t *l3, const struct sp_path *p, uint32_t l3_bytes)
{
	uint8_t *udp = l3 + p->l3_len;

	if (p->l3_len == 20) {
		uint32_t sum = p->sum + l3_bytes; /* length and checksum are 0 in the template */

		sum = (sum & 0xFFFF) + (sum >> 16);
		sp_store_be16(l3 + 2, (uint16_t)l3_bytes);
		sp_store_be16(l3 + 10, (uint16_t) ~(sum + (sum >> 16)));
	} else {
		l3[4] = (uint8_t)((l3_bytes - 40) >> 8);
		l3[5] = (uint8_t)(l3_bytes - 40);
	}
	l3_bytes -= p->l3_len;
	udp[4] = (uint8_t)(l3_bytes >> 8);
	udp[5] = (uint8_t)l3_bytes;
}

/* Traffic class and hop limit, where they are not the template's (0, 64). ECN-capable transport, ECT(0): RFC 3168. */
static void fill_class(uint8_t *l3, const struct sp_path *p, const struct sp_send *s)
{
	const uint8_t class = (uint8_t)((s->traffic_class & 0xFC) | (s->flags & SP_SEND_ECT ? 2 : 0));
	const uint8_t hops = s->hop_limit ? s->hop_limit : 64;
	uint32_t sum;

	if (p->l3_len != 20) {
		l3[0] = (uint8_t)(0x60 | class >> 4);
		l3[1] = (uint8_t)(class << 4); /* the flow label is 0 */
		l3[7] = hops;
		return;
	}
	/* RFC 1624; what the template has goes, too */
	sum = (uint16_t)~sp_load_be16(l3 + 10) + (uint32_t)(uint16_t)~sp_load_be16(l3) +
	      (uint32_t)(uint16_t)~sp_load_be16(l3 + 8);
	l3[1] = class;
	l3[8] = hops;
	sum += (uint32_t)sp_load_be16(l3) + sp_load_be16(l3 + 8);
	sum = (sum & 0xFFFF) + (sum >> 16);
	sp_store_be16(l3 + 10, (uint16_t) ~((sum & 0xFFFF) + (sum >> 16)));
}

/* Writes Ethernet header to BTH, except for the PSN. */
static inline void fill_head(uint8_t *f, const struct sp_path *p, const struct sp_send *s, uint64_t mac)
{
	uint8_t *b = f + p->head_len;

	memcpy(f, p->head, sizeof(p->head));
	memcpy(f, &mac, 6);
	fill_lengths(f + p->l2_len, p, l3_bytes_of(p, s));
	if (s->udp_source) {
		b[-8] = (uint8_t)(s->udp_source >> 8);
		b[-7] = (uint8_t)s->udp_source;
	}
	b[0] = s->opcode;
	if (unlikely(s->flags & SP_SEND_ECT || s->traffic_class || s->hop_limit))
		fill_class(f + p->l2_len, p, s);
	b[1] = (uint8_t)((s->flags & SP_PKT_SE ? 0x80 : 0) | pad_of(s) << 4); /* SE, MigReq 0, pad count, TVer 0 */
	sp_store_be16(b + 2, SP_ROCE_PKEY);
	sp_store_be32(b + 4, (s->dest_qp & 0xFFFFFF) | (s->flags & SP_SEND_BECN ? (uint32_t)SP_BTH_BECN << 24 : 0));
}

/* Writes PSN and extension headers; returns the end. */
static inline uint8_t *fill_rest(uint8_t *f, const struct sp_path *p, const struct sp_send *s)
{
	uint8_t *b = f + p->head_len;

	sp_store_be32(b + 8, (s->psn & 0xFFFFFF) | (s->flags & SP_SEND_ACK_REQ ? (uint32_t)SP_BTH_ACK_REQ << 24 : 0));
	b += HEAD_BTH;
	if (likely(s->ext_len - 16 <= 16)) { /* without a call */
		typedef uint64_t half __attribute__((vector_size(16), aligned(1), may_alias));
		const uint8_t *ext = s->ext;
		const half a = *(const half *)ext, z = *(const half *)(ext + s->ext_len - 16);

		*(half *)b = a;
		*(half *)(b + s->ext_len - 16) = z;
	} else if (s->ext_len) {
		memcpy(b, s->ext, s->ext_len);
	}
	return b + s->ext_len;
}

static __attribute__((noinline)) void gather(uint8_t *to, const struct sp_send *s)
{
	for (uint32_t i = 0; i < s->pieces; i++) {
		memcpy(to, s->piece[i].mem->base + s->piece[i].offset, s->piece[i].len);
		to += s->piece[i].len;
	}
	memset(to, 0, 4);
}

/* Writes payload, zero pad and a zero ICRC. */
static inline void fill_payload(uint8_t *to, const struct sp_send *s)
{
	typedef uint64_t half __attribute__((vector_size(32), aligned(1), may_alias));
	if (unlikely(s->piece != NULL)) {
		gather(to, s);
		return;
	}
	const uint8_t *from = s->mem ? s->mem->base + s->offset : s->bytes;

	if (s->len == 2 * sizeof(half)) { /* without a call */
		const half a = *(const half *)from, b = *(const half *)(from + sizeof(half));

		*(half *)to = a;
		*(half *)(to + sizeof(half)) = b;
	} else if (s->len) {
		memcpy(to, from, s->len);
	}
	memset(to + s->len, 0, 4);
}

static inline void put_icrc(uint8_t *at, uint32_t icrc)
{
	icrc = rte_cpu_to_le_32(icrc);
	memcpy(at, &icrc, 4);
}

static inline bool is_copied_along(const struct sp_send *s)
{
	return s->len >= sp_icrc_copy_from && !s->piece;
}

/* Copies a large payload, and computes the ICRC meanwhile. l3: of a packet whose headers are there. */
static void copy_along(uint8_t *l3, const struct sp_path *p, const struct sp_send *s, uint32_t l3_bytes)
{
	const uint8_t *from = s->mem ? s->mem->base + s->offset : s->bytes;
	const uint32_t head = p->head_len + HEAD_BTH + s->ext_len - p->l2_len;

	put_icrc(l3 + l3_bytes - 4, sp_icrc_copy(l3, p->l3_len, head, from, s->len));
}

/* ---- checks and counters ---- */

/* len: bytes from the IP header on. No overflow as long as the summands are within their limits. */
static inline bool fits(const struct sp_view *v, const struct sp_send *s, uint32_t len)
{
	return likely(s->ext_len <= SP_EXT_MAX && s->len <= SP_PACKET_ROOM && len <= v->context->nic->config.mtu);
}

static __attribute__((noinline)) bool pieces_hold(const struct sp_send *s)
{
	uint64_t len = 0;

	for (uint32_t i = 0; i < s->pieces; i++) {
		if (!sp_mem_holds(s->piece[i].mem, s->piece[i].offset, s->piece[i].len))
			return false;
		len += s->piece[i].len;
	}
	return len == s->len && !s->mem;
}

static inline bool holds(const struct sp_send *s)
{
	if (unlikely(s->piece != NULL))
		return pieces_hold(s);
	return likely(!s->mem || sp_mem_holds(s->mem, s->offset, s->len));
}

/* True if the payload can be sent by zero copy. */
static inline bool is_lent(const struct sp_path *p, const struct sp_send *s)
{
	return p->lends && s->mem && s->len >= SP_LEND_MIN;
}

/* [worker] Counts n packets that were queued, or wait for a neighbour; len: their bytes from the IP header on. */
static inline void sent(struct sp_view *v, const struct sp_path *p, const struct sp_send *s, const uint32_t *len,
			unsigned n)
{
	struct sp_view *pacer = sp_context_newest(v->context)->view[v->pub.worker];
	uint64_t bytes = n * (uint32_t)p->l2_len;

	for (unsigned i = 0; i < n; i++)
		bytes += len[i];
	v->sent += n;
	v->sent_bytes += bytes;
	sp_limit_sent(v, n, bytes);
	if (likely(!pacer->rate))
		return;
	for (unsigned i = 0; i < n; i++)
		if (!(s[i].flags & SP_SEND_UNPACED))
			sp_pace_charge(pacer, v->owner->now, p->l2_len + len[i]);
}

/* ---- single packets ---- */

static struct rte_mbuf *copied(const struct sp_path *p, const struct sp_send *s, uint64_t mac, bool payload_less)
{
	const uint32_t l3_bytes = l3_bytes_of(p, s);
	struct rte_mbuf *m = sp_packet_alloc();
	uint8_t *f, *b;

	if (unlikely(!m))
		return NULL;
	f = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)(p->l2_len + l3_bytes));
	fill_head(f, p, s, mac);
	b = fill_rest(f, p, s);
	if (unlikely(payload_less && s->len > SP_PAYLOAD_KEPT))
		return m;
	if (!payload_less && is_copied_along(s)) {
		copy_along(f + p->l2_len, p, s, l3_bytes);
		return m;
	}
	fill_payload(b, s);
	if (likely(!payload_less))
		put_icrc(f + p->l2_len + l3_bytes - 4, sp_icrc(f + p->l2_len, p->l3_len, l3_bytes - 4));
	return m;
}

/* Zero copy: changing the payload before transmission makes the ICRC wrong, so the receiver drops the packet. */
static void fill_lent(struct rte_mbuf *m, const struct sp_path *p, const struct sp_send *s)
{
	const uint8_t *l3 = rte_pktmbuf_mtod_offset(m, const uint8_t *, p->l2_len);
	uint8_t *end = rte_pktmbuf_mtod(m->next->next, uint8_t *);

	memset(end, 0, 4);
	put_icrc(end + pad_of(s), sp_icrc_pieces(l3, p->l3_len, p->head_len + HEAD_BTH + s->ext_len - p->l2_len,
						 s->mem->base + s->offset, s->len));
}

static struct rte_mbuf *lent(struct sp_view *v, const struct sp_path *p, const struct sp_send *s, uint64_t mac)
{
	struct rte_mbuf *m;

	if (unlikely(!sp_zc_attach(v, p->head_len + HEAD_BTH, s, 1, &m)))
		return NULL;
	fill_head(rte_pktmbuf_mtod(m, uint8_t *), p, s, mac);
	fill_rest(rte_pktmbuf_mtod(m, uint8_t *), p, s);
	fill_lent(m, p, s);
	return m;
}

int sp_send_roce(struct sp_ctx *ctx, struct sp_path *p, const struct sp_send *s)
{
	struct sp_view *v = sp_view_of(ctx);
	struct sp_worker *w = v->owner;
	const uint32_t len = l3_bytes_of(p, s);
	const bool payload_less = v->context->nic->config.payload_less;
	struct rte_mbuf *m = NULL;
	uint64_t mac;
	int r;

	if (!fits(v, s, len))
		return -EMSGSIZE;
	if (!holds(s)) {
		if (s->mem)
			sp_dma_fault(ctx, s->mem, s->offset, s->len);
		return -EFAULT;
	}
	if (sp_limited_sends(v))
		return -EAGAIN;
	if (unlikely(!sp_transmit_room(w, p->port))) {
		sp_transmit_flush(w);
		if (!sp_transmit_room(w, p->port))
			return -EAGAIN;
	}
	mac = sp_path_mac(w, p);
	if (unlikely(!mac && w->pending.count == SP_NEIGHBOUR_PENDING))
		return -EAGAIN;
	/* A packet that waits for a neighbour is copied, so that the sender's buffer is free soon. */
	if (is_lent(p, s) && mac && !payload_less)
		m = lent(v, p, s, mac);
	if (!m)
		m = copied(p, s, mac, payload_less);
	if (unlikely(!m))
		return -EAGAIN;
	if (unlikely(!mac))
		r = sp_pending_add(w, p->port, p->next_hop, v->context->id, m);
	else
		r = likely(p->port != SP_PORT_LOOP) ? sp_transmit_packet(w, p->port, m) : sp_transmit_loop(w, m);
	if (unlikely(r)) {
		rte_pktmbuf_free(m);
		return r;
	}
	if (unlikely(w->tap != NULL) && mac)
		w->tap->sender(w, p->port, v->context->id);
	sent(v, p, s, &len, 1);
	return 0;
}

/* ---- runs ---- */

/* A run: number of packets, bytes of each from the IP header on, and a bitmap of packets whose headers up to the PSN
 * differ from the packet before. */
struct run {
	unsigned n;
	uint32_t anew;
	uint32_t len[SP_BURST];
};
static_assert(SP_BURST <= 32, "a bit each");
static_assert(offsetof(struct sp_send, len) == offsetof(struct sp_send, ext_len) + 4 &&
		      offsetof(struct sp_send, flags) == offsetof(struct sp_send, opcode) + 1 &&
		      offsetof(struct sp_send, udp_source) == offsetof(struct sp_send, opcode) + 2 &&
		      offsetof(struct sp_send, reserved) == offsetof(struct sp_send, opcode) + 6,
	      "compared together");

/* Collects up to SP_BURST leading packets that are valid and alike: all copied, or all zero copy from one region. */
static inline void look_at(struct run *r, const struct sp_view *v, const struct sp_path *p, const struct sp_send *s,
			   unsigned n)
{
	const struct sp_mem *mem = s->mem;
	const bool lends = is_lent(p, s);

	r->n = 0;
	r->anew = 1;
	for (unsigned i = 0; i < n; i++) {
		if (!i || unlikely(memcmp(&s[i].ext_len, &s[i - 1].ext_len, 8) != 0)) { /* and `len` behind it */
			r->len[i] = l3_bytes_of(p, &s[i]);
			if (!fits(v, &s[i], r->len[i]) || is_lent(p, &s[i]) != lends)
				return;
			r->anew |= 1u << i;
		} else {
			r->len[i] = r->len[i - 1];
			if (s[i].dest_qp != s[i - 1].dest_qp || memcmp(&s[i].opcode, &s[i - 1].opcode, 8) != 0)
				r->anew |= 1u << i;
		}
		if (s[i].mem != mem || !holds(&s[i]))
			return;
		r->n = i + 1;
	}
}

/* Writes the headers of all packets. */
static inline void fill_heads(const struct run *r, struct rte_mbuf *const *m, const struct sp_path *p,
			      const struct sp_send *s, uint64_t mac)
{
	uint8_t head[HEAD] __attribute__((aligned(64))) = {0};

	for (unsigned i = 0; i < r->n; i++) {
		uint8_t *f = rte_pktmbuf_mtod(m[i], uint8_t *);

		if (unlikely(r->anew >> i & 1))
			fill_head(head, p, &s[i], mac);
		memcpy(f, head, HEAD);
		fill_rest(f, p, &s[i]);
	}
}

#define NEAR 16384 /* bytes that stay in the L1 cache between two passes */

static inline uint8_t *l3_of(struct rte_mbuf *m, const struct sp_path *p, uint32_t l3_bytes)
{
	m->pkt_len = p->l2_len + l3_bytes;
	m->data_len = (uint16_t)m->pkt_len;
	return rte_pktmbuf_mtod_offset(m, uint8_t *, p->l2_len);
}

/* Writes payload and ICRC from packet i on, as long as the bytes fit in NEAR; returns the next packet. */
static inline unsigned fill_near(const struct run *r, struct rte_mbuf *const *m, const struct sp_path *p,
				 const struct sp_send *s, unsigned i)
{
	uint8_t *l3[SP_BURST];
	uint32_t before[SP_BURST], icrc[SP_BURST], bytes = 0;
	unsigned k = 0;

	for (; i < r->n && bytes < NEAR; i++, k++) {
		l3[k] = l3_of(m[i], p, r->len[i]);
		before[k] = r->len[i] - 4;
		bytes += r->len[i];
		fill_payload(l3[k] - p->l2_len + p->head_len + HEAD_BTH + s[i].ext_len, &s[i]);
	}
	sp_icrc_run((const uint8_t *const *)l3, p->l3_len, before, k, icrc);
	while (k--)
		put_icrc(l3[k] + before[k], icrc[k]);
	return i;
}

/* False: not enough buffers. */
static bool copy_run(const struct run *r, struct rte_mbuf **m, const struct sp_path *p, const struct sp_send *s,
		     uint64_t mac)
{
	if (unlikely(rte_pktmbuf_alloc_bulk(sp_process_pool(), m, r->n)))
		return false;
	fill_heads(r, m, p, s, mac);
	for (unsigned i = 0; i < r->n;) {
		if (is_copied_along(&s[i])) {
			copy_along(l3_of(m[i], p, r->len[i]), p, &s[i], r->len[i]);
			i++;
		} else {
			i = fill_near(r, m, p, s, i);
		}
	}
	return true;
}

/* Builds as many packets as zero copy allows now. */
static bool lend_run(struct sp_view *v, struct run *r, struct rte_mbuf **m, const struct sp_path *p,
		     const struct sp_send *s, uint64_t mac)
{
	r->n = sp_zc_attach(v, p->head_len + HEAD_BTH, s, r->n, m);
	fill_heads(r, m, p, s, mac);
	for (unsigned i = 0; i < r->n; i++)
		fill_lent(m[i], p, &s[i]);
	return r->n;
}

/* Sends a run of up to SP_BURST packets; returns their number. 0: send the first one singly, or not at all. */
static unsigned send_alike(struct sp_view *v, struct sp_path *p, const struct sp_send *s, unsigned n)
{
	struct sp_worker *w = v->owner;
	struct rte_mbuf *m[SP_BURST];
	struct run r;
	uint64_t mac;

	if (sp_limited_sends(v))
		return 0;
	if (unlikely(n < 2 || w->tap || p->port == SP_PORT_LOOP || v->context->nic->config.payload_less))
		return 0;
	n = RTE_MIN(n, sp_transmit_room(w, p->port));
	look_at(&r, v, p, s, RTE_MIN(n, (unsigned)SP_BURST));
	mac = likely(r.n) ? sp_path_mac(w, p) : 0;
	if (unlikely(!mac))
		return 0;
	if (unlikely(!(is_lent(p, s) ? lend_run(v, &r, m, p, s, mac) : copy_run(&r, m, p, s, mac))))
		return 0;
	sp_transmit_run(w, p->port, m, r.n);
	sent(v, p, s, r.len, r.n);
	return r.n;
}

int sp_send_roce_run(struct sp_ctx *ctx, struct sp_path *p, const struct sp_send *s, unsigned n)
{
	struct sp_view *v = sp_view_of(ctx);
	unsigned done = 0;

	while (done < n) {
		const struct sp_send *next = s + done;
		const unsigned run = send_alike(v, p, next, n - done);
		int r = 0;

		/* Stop before an invalid packet: it is counted when it comes first. */
		if (unlikely(!run && done && (!fits(v, next, l3_bytes_of(p, next)) || !holds(next))))
			return (int)done;
		if (unlikely(!run))
			r = sp_send_roce(ctx, p, next);
		if (unlikely(r))
			return done ? (int)done : r;
		done += run ? run : 1;
	}
	return (int)done;
}
