/* SPDX-License-Identifier: BSD-3-Clause */
#include "path.h"
#include "icrc.h"
#include "issue.h"
#include "lend.h"
#include "loop.h"
#include "onlooker.h"
#include "port.h"
#include "registry.h"
#include "../handlers/wire/roce.h"

#include <stdlib.h>

#include <rte_byteorder.h>
#include <rte_ip.h>

#define ASK_AGAIN (10 * SP_MS) /* how long a path trusts the MAC it has */

static struct sp_path **list_of(struct sp_ctx *ctx, const uint8_t ip[16])
{
	return &sp_view_of(ctx)->context->path[sp_hash(ctx, ip, 16) % SP_PATH_HEADS];
}

static struct sp_path *find(struct sp_ctx *ctx, const uint8_t ip[16])
{
	struct sp_path *p = *list_of(ctx, ip);

	while (p && memcmp(p->ip, ip, 16))
		p = p->next;
	return p;
}

/* Room for a path; those that were closed come first. */
static struct sp_path *take(struct sp_context *c)
{
	struct sp_path *p = c->path_free;

	if (!p)
		return calloc(1, sizeof(*p));
	c->path_free = p->next;
	memset(p, 0, sizeof(*p));
	return p;
}

static int create(struct sp_view *v, const uint8_t ip[16], struct sp_path **path)
{
	static const uint8_t mapped[12] = {[10] = 0xFF, [11] = 0xFF};
	struct sp_context *c = v->context;
	struct sp_route route;
	struct sp_path *p;
	uint8_t *h;
	int r;

	if (c->paths == SP_MAX_PATHS)
		return -ENOSPC;
	r = sp_route_find(&c->nic->routes, ip, &route);
	if (r)
		return r;
	p = take(c);
	if (!p)
		return -ENOMEM;
	memcpy(p->ip, ip, 16);
	p->port = route.port;
	memcpy(p->next_hop, route.next_hop, 16);
	h = p->head + 12;
	if (p->port == SP_PORT_LOOP) {
		const uint8_t *mac = c->nic->port[sp_route_port(&c->nic->routes, ip)].mac;
		uint64_t known = 0;

		memcpy(p->head + 6, mac, 6);
		memcpy(&known, mac, 6);
		p->mac = known;
		p->mac_until = SP_NEVER;
		atomic_store_explicit(&c->nic->looping, true, memory_order_relaxed);
	} else {
		memcpy(p->head + 6, c->nic->port[p->port].mac, 6);
		p->lends = sp_port_external(&c->nic->port[p->port]);
	}
	if (!memcmp(ip, mapped, 12)) {
		static const uint8_t ip4[12] = {0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0};

		*h++ = 0x08;
		*h++ = 0x00;
		memcpy(h, ip4, 12);
		memcpy(h + 12, route.source + 12, 4);
		memcpy(h + 16, ip + 12, 4);
		for (unsigned i = 0; i < 20; i += 2)
			p->sum += sp_load_be16(h + i);
		p->l3_len = 20;
	} else {
		static const uint8_t ip6[8] = {0x60, 0, 0, 0, 0, 0, 17, 64};

		*h++ = 0x86;
		*h++ = 0xDD;
		memcpy(h, ip6, 8);
		memcpy(h + 8, route.source, 16);
		memcpy(h + 24, ip, 16);
		p->l3_len = 40;
	}
	h += p->l3_len;
	p->udp_source = rte_cpu_to_be_16((uint16_t)(0xC000 | (sp_worker_random(v->owner) & 0x3FFF)));
	memcpy(h, &p->udp_source, 2);
	h[2] = SP_ROCE_PORT >> 8;
	h[3] = SP_ROCE_PORT & 0xFF;
	p->head_len = (uint8_t)(14 + p->l3_len + 8);
	p->next = *list_of(&v->pub, ip);
	*list_of(&v->pub, ip) = p;
	c->paths++;
	*path = p;
	return 0;
}

int sp_path_open(struct sp_ctx *ctx, const uint8_t ip[16], bool only, struct sp_path **path)
{
	struct sp_view *v = sp_view_of(ctx);
	struct sp_context *c = sp_context_newest(v->context); /* whose packets are looked at */
	struct sp_path *p = find(ctx, ip);
	int r = 0;

	if (only && c->peer_set && memcmp(c->peer, ip, 16)) /* workers compare with it */
		return -EISCONN;
	if (!p)
		r = create(v, ip, &p);
	if (r)
		return r;
	p->opened++;
	if (only) {
		memcpy(c->peer, ip, 16);
		c->peer_self = p->port == SP_PORT_LOOP;
		atomic_store_explicit(&c->peer_set, true, memory_order_release);
	}
	*path = p;
	return 0;
}

void sp_path_close(struct sp_ctx *ctx, struct sp_path *p)
{
	struct sp_context *c = sp_view_of(ctx)->context;
	struct sp_path **at = list_of(ctx, p->ip);

	if (--p->opened)
		return;
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	p->next = c->path_free;
	c->path_free = p;
	c->paths--;
}

static void free_list(struct sp_path *p)
{
	while (p) {
		struct sp_path *next = p->next;

		free(p);
		p = next;
	}
}

void sp_paths_free(struct sp_context *c)
{
	for (unsigned i = 0; i < SP_PATH_HEADS; i++)
		free_list(c->path[i]);
	free_list(c->path_free);
	c->path_free = NULL;
	memset(c->path, 0, sizeof(c->path));
	c->paths = 0;
}

/* The next hop's MAC as a number; 0 while it is unknown, which is asked for. */
static uint64_t next_mac(struct sp_worker *w, struct sp_path *p)
{
	uint64_t mac = atomic_load_explicit(&p->mac, memory_order_relaxed);

	if (likely(mac && w->now < atomic_load_explicit(&p->mac_until, memory_order_relaxed)))
		return mac;
	mac = 0;
	if (sp_neighbour_find(w->nic->neighbours, p->port, p->next_hop, w->now, (uint8_t *)&mac)) {
		sp_neighbour_request(w, p->port, p->next_hop);
		mac = 0;
	}
	atomic_store_explicit(&p->mac, mac, memory_order_relaxed);
	atomic_store_explicit(&p->mac_until, w->now + ASK_AGAIN, memory_order_relaxed);
	return mac;
}

static void fill_lengths(uint8_t *l3, const struct sp_path *p, uint32_t l3_bytes)
{
	uint8_t *udp = l3 + p->l3_len;

	if (p->l3_len == 20) {
		uint32_t sum = p->sum + l3_bytes; /* the template's length and checksum are 0 */

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

/* Ethernet header to extension headers; returns what follows them. */
static inline uint8_t *fill_headers(uint8_t *f, const struct sp_path *p, const struct sp_send *s, uint64_t mac,
				    uint32_t l3_bytes)
{
	uint8_t *b = f + p->head_len;

	memcpy(f, p->head, sizeof(p->head));
	memcpy(f, &mac, 6);
	fill_lengths(f + 14, p, l3_bytes);
	if (s->udp_source) {
		f[14 + p->l3_len] = (uint8_t)(s->udp_source >> 8);
		f[15 + p->l3_len] = (uint8_t)s->udp_source;
	}
	b[0] = s->opcode;
	b[1] = (uint8_t)((s->flags & SP_PKT_SE ? 0x80 : 0) | (-s->len & 3) << 4); /* SE, MigReq 0, pad count, TVer 0 */
	sp_store_be16(b + 2, SP_ROCE_PKEY);
	sp_store_be32(b + 4, s->dest_qp & 0xFFFFFF);
	sp_store_be32(b + 8, s->psn & 0xFFFFFF); /* AckReq 0 */
	b += 12;
	if (s->ext_len)
		memcpy(b, s->ext, s->ext_len);
	return b + s->ext_len;
}

static struct rte_mbuf *copied(const struct sp_path *p, const struct sp_send *s, uint64_t mac, uint32_t l3_bytes,
			       bool payload_less)
{
	const uint32_t pad = -s->len & 3;
	struct rte_mbuf *m = sp_packet_alloc();
	uint32_t crc;
	uint8_t *f, *b;

	if (unlikely(!m))
		return NULL;
	f = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)(14 + l3_bytes));
	b = fill_headers(f, p, s, mac, l3_bytes);
	if (unlikely(payload_less && s->len > SP_PAYLOAD_KEPT))
		return m;
	if (s->len)
		memcpy(b, s->mem ? s->mem->base + s->offset : s->bytes, s->len);
	memset(b + s->len, 0, pad);
	if (unlikely(payload_less))
		return m;
	crc = rte_cpu_to_le_32(sp_icrc(f + 14, p->l3_len, l3_bytes - 4));
	memcpy(b + s->len + pad, &crc, 4);
	return m;
}

/* The payload stays where it is: whoever changes it before it is sent spoils the packet, which its ICRC tells. */
static struct rte_mbuf *lent(struct sp_view *v, const struct sp_path *p, const struct sp_send *s, uint64_t mac,
			     uint32_t l3_bytes)
{
	const uint32_t pad = -s->len & 3, head = p->head_len + 12u + s->ext_len;
	struct rte_mbuf *m = sp_lend(v, head, s->mem, s->offset, s->len, pad + 4);
	uint32_t crc;
	uint8_t *f, *end;

	if (unlikely(!m))
		return NULL;
	f = rte_pktmbuf_mtod(m, uint8_t *);
	end = rte_pktmbuf_mtod(m->next->next, uint8_t *);
	fill_headers(f, p, s, mac, l3_bytes);
	memset(end, 0, pad);
	crc = sp_icrc(f + 14, p->l3_len, head - 14);
	crc = sp_icrc_more(crc, s->mem->base + s->offset, s->len);
	crc = rte_cpu_to_le_32(sp_icrc_more(crc, end, pad));
	memcpy(end + pad, &crc, 4);
	return m;
}

int sp_send_roce(struct sp_ctx *ctx, struct sp_path *p, const struct sp_send *s)
{
	struct sp_view *v = sp_view_of(ctx);
	struct sp_worker *w = v->owner;
	const uint32_t l3_bytes = p->l3_len + 8u + 12u + s->ext_len + s->len + (-s->len & 3) + 4u;
	const bool payload_less = v->context->nic->config.payload_less;
	struct sp_context *pacer;
	struct rte_mbuf *m = NULL;
	uint64_t mac;
	int r;

	if (unlikely(s->ext_len > SP_EXT_MAX || s->len > SP_PACKET_ROOM || l3_bytes > v->context->nic->config.mtu))
		return -EMSGSIZE;
	if (unlikely(s->mem && !sp_mem_holds(s->mem, s->offset, s->len))) {
		sp_dma_fault(ctx, s->mem, s->offset, s->len);
		return -EFAULT;
	}
	if (unlikely(!sp_transmit_room(w, p->port))) {
		sp_transmit_flush(w);
		if (!sp_transmit_room(w, p->port))
			return -EAGAIN;
	}
	mac = next_mac(w, p);
	if (unlikely(!mac && w->pending_count == SP_NEIGHBOUR_PENDING))
		return -EAGAIN;
	/* What waits for a neighbour may wait for long: copied, and the sender's buffer is his again. */
	if (p->lends && s->mem && s->len >= SP_LEND_MIN && mac && !payload_less)
		m = lent(v, p, s, mac, l3_bytes);
	if (!m)
		m = copied(p, s, mac, l3_bytes, payload_less);
	if (unlikely(!m))
		return -EAGAIN;
	if (unlikely(!mac))
		r = sp_transmit_later(w, p->port, p->next_hop, v->context->id, m);
	else
		r = likely(p->port != SP_PORT_LOOP) ? sp_transmit_packet(w, p->port, m) : sp_loop_send(w, m);
	if (unlikely(r)) {
		rte_pktmbuf_free(m);
		return r;
	}
	if (unlikely(w->observed) && mac)
		sp_onlook_sender(w, p->port, v->context->id);
	v->sent++;
	v->sent_bytes += 14 + l3_bytes;
	pacer = sp_context_newest(v->context);
	if (pacer->rate && v->pub.worker == pacer->home && !(s->flags & SP_SEND_UNPACED))
		sp_pace_charge(pacer, w->now, 14 + l3_bytes);
	return 0;
}
