/* SPDX-License-Identifier: BSD-3-Clause */
#include "path.h"
#include "../engine.h"
#include "../context.h"
#include "neighbour.h"
#include "../ports/port.h"
#include "../../handlers/wire/roce.h"
#include "route.h"
#include "../view.h"
#include "../worker.h"

#include <stdlib.h>

#include <rte_byteorder.h>
#include <rte_ip.h>

#define ASK_AGAIN (10 * SP_MS) /* how long a path caches the MAC */

static struct sp_path **list_of(struct sp_ctx *ctx, const uint8_t ip[16])
{
	return &sp_view_of(ctx)->paths->path[sp_hash(ctx, ip, 16) % SP_PATH_HEADS];
}

static struct sp_path *find(struct sp_ctx *ctx, const uint8_t ip[16])
{
	struct sp_path *p = *list_of(ctx, ip);

	while (p && memcmp(p->ip, ip, 16))
		p = p->next;
	return p;
}

/* Takes a closed path, or allocates one. */
static struct sp_path *take(struct sp_paths *c)
{
	struct sp_path *p = c->free;

	if (!p)
		return calloc(1, sizeof(*p));
	c->free = p->next;
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

	if (v->paths->count == SP_MAX_PATHS)
		return -ENOSPC;
	r = sp_route_find(&c->nic->routes, ip, &route);
	if (r)
		return r;
	p = take(v->paths);
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
	if (c->nic->vlan) {
		*h++ = 0x81;
		*h++ = 0x00;
		sp_store_be16(h, c->nic->vlan);
		h += 2;
	}
	p->l2_len = (uint8_t)(h + 2 - p->head);
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
	p->head_len = (uint8_t)(p->l2_len + p->l3_len + 8);
	p->next = *list_of(&v->pub, ip);
	*list_of(&v->pub, ip) = p;
	v->paths->count++;
	*path = p;
	return 0;
}

int sp_path_open(struct sp_ctx *ctx, const uint8_t ip[16], bool only, struct sp_path **path)
{
	struct sp_view *v = sp_view_of(ctx);
	struct sp_context *c = sp_context_newest(v->context); /* the newest version receives the packets */
	struct sp_path *p = v->paths ? find(ctx, ip) : NULL;
	int r = 0;

	if (!v->paths)
		return -EXDEV;
	if (only && c->peer_set && memcmp(c->peer, ip, 16)) /* workers read peer */
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
	struct sp_paths *c = sp_view_of(ctx)->paths;
	struct sp_path **at = list_of(ctx, p->ip);

	if (--p->opened)
		return;
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	p->next = c->free;
	c->free = p;
	c->count--;
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
	for (uint16_t w = 0; w < c->nic->workers && c->view[w]; w++) {
		struct sp_paths *p = c->view[w]->paths;

		for (unsigned i = 0; p && i < SP_PATH_HEADS; i++)
			free_list(p->path[i]);
		if (p)
			free_list(p->free);
		c->view[w]->paths = NULL;
	}
}

uint64_t sp_path_mac(struct sp_worker *w, struct sp_path *p)
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
