/* SPDX-License-Identifier: BSD-3-Clause */
/* Ids, applications, peers and ports. Ids are drawn at random: who knows one knows nothing of its neighbours. */
#include "table.h"

int cm_table_attach(struct sp_ctx *c)
{
	struct cm *s = cm_of(c);
	const uint64_t guid = sp_random(c);

	s->buckets = 16;
	while (s->buckets < s->ids)
		s->buckets *= 2;
	s->id = sp_alloc(c, sizeof(*s->id) * s->ids);
	s->app = sp_alloc(c, sizeof(*s->app) * s->apps);
	s->peer = sp_alloc(c, sizeof(*s->peer) * s->peers);
	s->peer_table = sp_alloc(c, sizeof(struct cm_peer *) * s->buckets);
	if (!s->id || !s->app || !s->peer || !s->peer_table)
		return sp_fail(c, ENOMEM, "ids", "no memory for %u", s->ids);
	for (unsigned i = 0; i < CM_CHAINS; i++) {
		s->table[i] = sp_alloc(c, sizeof(struct cm_id *) * s->buckets);
		if (!s->table[i])
			return sp_fail(c, ENOMEM, "ids", "no memory for %u", s->ids);
	}
	for (uint32_t i = s->ids; i--;) {
		s->id[i].timer.cookie = i;
		s->id[i].chain[CM_BY_ID] = s->free;
		s->free = &s->id[i];
	}
	for (uint32_t i = s->peers; i--;) {
		s->peer[i].next = s->peer_free;
		s->peer_free = &s->peer[i];
	}
	s->tick.cookie = UINT64_MAX;
	memcpy(s->guid, &guid, sizeof(s->guid));
	s->guid[0] = (uint8_t)((s->guid[0] | 2) & ~1); /* as an EUI-64 that nobody has assigned */
	return 0;
}

/* ---- chains ---- */
static struct cm_id **cm_bucket(struct sp_ctx *c, enum cm_chain which, uint64_t hash)
{
	return &cm_of(c)->table[which][hash & (cm_of(c)->buckets - 1)];
}

static uint64_t cm_hash_peer(struct sp_ctx *c, const uint8_t ip[16], uint32_t number)
{
	uint8_t key[20];

	memcpy(key, ip, 16);
	memcpy(key + 16, &number, 4);
	return sp_hash(c, key, sizeof(key));
}

static void cm_enter(struct cm_id **at, struct cm_id *x, enum cm_chain which)
{
	x->chain[which] = *at;
	*at = x;
}

static void cm_leave(struct cm_id **at, struct cm_id *x, enum cm_chain which)
{
	while (*at != x)
		at = &(*at)->chain[which];
	*at = x->chain[which];
}

struct cm_id *cm_id_find(struct sp_ctx *c, uint32_t local)
{
	struct cm_id *x = *cm_bucket(c, CM_BY_ID, local);

	while (x && x->local != local)
		x = x->chain[CM_BY_ID];
	return x;
}

struct cm_id *cm_remote_find(struct sp_ctx *c, const uint8_t ip[16], uint32_t remote, bool datagram)
{
	struct cm_id *x = *cm_bucket(c, CM_BY_REMOTE_ID, cm_hash_peer(c, ip, remote));

	while (x && (x->remote != remote || (x->kind == SP_CM_DATAGRAM) != datagram || memcmp(x->peer->ip, ip, 16)))
		x = x->chain[CM_BY_REMOTE_ID];
	return x;
}

void cm_remote_enter(struct sp_ctx *c, struct cm_id *x)
{
	cm_enter(cm_bucket(c, CM_BY_REMOTE_ID, cm_hash_peer(c, x->peer->ip, x->remote)), x, CM_BY_REMOTE_ID);
	x->in_remote = true;
}

void cm_remote_leave(struct sp_ctx *c, struct cm_id *x)
{
	if (x->in_remote)
		cm_leave(cm_bucket(c, CM_BY_REMOTE_ID, cm_hash_peer(c, x->peer->ip, x->remote)), x, CM_BY_REMOTE_ID);
	x->in_remote = false;
}

struct cm_id *cm_qp_find(struct sp_ctx *c, const uint8_t ip[16], const uint8_t guid[8], uint32_t qp,
			 const struct cm_id *but)
{
	struct cm_id *x = *cm_bucket(c, CM_BY_REMOTE_QP, cm_hash_peer(c, ip, qp));

	while (x && (x == but || x->remote_qp != qp || memcmp(x->peer->ip, ip, 16) || memcmp(x->guid, guid, 8)))
		x = x->chain[CM_BY_REMOTE_QP];
	return x;
}

void cm_qp_enter(struct sp_ctx *c, struct cm_id *x)
{
	cm_enter(cm_bucket(c, CM_BY_REMOTE_QP, cm_hash_peer(c, x->peer->ip, x->remote_qp)), x, CM_BY_REMOTE_QP);
	x->in_qp = true;
}

void cm_qp_leave(struct sp_ctx *c, struct cm_id *x)
{
	if (x->in_qp)
		cm_leave(cm_bucket(c, CM_BY_REMOTE_QP, cm_hash_peer(c, x->peer->ip, x->remote_qp)), x, CM_BY_REMOTE_QP);
	x->in_qp = false;
}

/* ---- ports ---- */
static bool cm_ip_any(const uint8_t ip[16])
{
	static const uint8_t any[16];

	return !memcmp(ip, any, 16);
}

static bool cm_port_taken(struct sp_ctx *c, const struct cm_id *x, uint64_t service, const uint8_t ip[16], bool share)
{
	for (const struct cm_id *o = *cm_bucket(c, CM_BY_PORT, service); o; o = o->chain[CM_BY_PORT])
		if (o != x && o->service == service &&
		    (cm_ip_any(o->own) || cm_ip_any(ip) || !memcmp(o->own, ip, 16)) &&
		    !(share && o->app == x->app && o->state != CM_LISTEN))
			return true;
	return false;
}

int cm_port_bind(struct sp_ctx *c, struct cm_id *x, const uint8_t ip[16], uint16_t port, bool share)
{
	const struct cm *s = cm_of(c);
	uint64_t service = SP_CM_SERVICE(x->port_space, port);

	if (x->in_port) { /* bound before */
		if (port && port != x->own_port)
			return -EINVAL;
		if (cm_port_taken(c, x, x->service, ip, share))
			return -EADDRINUSE;
		memcpy(x->own, ip, 16);
		return 0;
	}
	if (port && port < s->ports_from)
		return -EACCES;
	for (unsigned tries = 0; !port && tries < 1024; tries++) { /* dynamic ports, as IANA has them */
		service = SP_CM_SERVICE(x->port_space, 49152 + sp_random(c) % 16384);
		if (!cm_port_taken(c, x, service, ip, false))
			port = (uint16_t)service;
	}
	if (!port || cm_port_taken(c, x, service, ip, share))
		return -EADDRINUSE;
	x->service = service;
	x->own_port = port;
	memcpy(x->own, ip, 16);
	cm_enter(cm_bucket(c, CM_BY_PORT, service), x, CM_BY_PORT);
	x->in_port = true;
	return 0;
}

struct cm_id *cm_listener_find(struct sp_ctx *c, uint64_t service, const uint8_t ip[16])
{
	struct cm_id *x = *cm_bucket(c, CM_BY_PORT, service);

	while (x && (x->service != service || x->state != CM_LISTEN || !(cm_ip_any(x->own) || !memcmp(x->own, ip, 16))))
		x = x->chain[CM_BY_PORT];
	return x;
}

/* ---- applications ---- */
struct cm_app *cm_app_find(struct sp_ctx *c, uint32_t context, bool make)
{
	struct cm *s = cm_of(c);
	struct cm_app *unused = NULL;

	for (uint32_t i = 0; i < s->apps; i++)
		if (!s->app[i].used)
			unused = unused ? unused : &s->app[i];
		else if (s->app[i].context == context)
			return &s->app[i];
	if (!make || !unused)
		return NULL;
	*unused = (struct cm_app){.context = context, .used = true};
	unused->last = &unused->first;
	return unused;
}

void cm_app_free(struct sp_ctx *c, struct cm_app *app)
{
	struct cm *s = cm_of(c);

	/* Ids without an application may still speak with them. */
	for (uint32_t i = 0; app->peers && i < s->peers; i++)
		if (s->peer[i].first == app)
			s->peer[i].first = NULL;
	app->used = false;
}

/* ---- peers ---- */
static struct cm_peer **cm_peer_bucket(struct sp_ctx *c, const uint8_t ip[16])
{
	return &cm_of(c)->peer_table[sp_hash(c, ip, 16) & (cm_of(c)->buckets - 1)];
}

static void cm_peer_close(struct sp_ctx *c, struct cm_peer *p)
{
	struct cm *s = cm_of(c);
	struct cm_peer **at = cm_peer_bucket(c, p->ip);

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	sp_path_close(c, p->path);
	p->open = false;
	p->next = s->peer_free;
	s->peer_free = p;
	s->peer_count--;
}

void cm_peers_sweep(struct sp_ctx *c, sp_time idle)
{
	struct cm *s = cm_of(c);

	for (uint32_t i = 0; i < s->peers; i++)
		if (s->peer[i].open && !s->peer[i].refs && c->now - s->peer[i].used >= idle)
			cm_peer_close(c, &s->peer[i]);
}

/* Makes room: of some peers, one that no id needs. A flood from many addresses costs a bounded search. */
static void cm_peer_evict(struct sp_ctx *c)
{
	struct cm *s = cm_of(c);

	for (uint32_t i = 0; i < 32 && !s->peer_free; i++) {
		struct cm_peer *p = &s->peer[s->sweep++ % s->peers];

		if (p->open && !p->refs)
			cm_peer_close(c, p);
	}
}

struct cm_peer *cm_peer_get(struct sp_ctx *c, const uint8_t ip[16])
{
	struct cm *s = cm_of(c);
	struct cm_peer **at = cm_peer_bucket(c, ip), *p = *at;
	struct sp_path *path;

	while (p && memcmp(p->ip, ip, 16))
		p = p->next;
	if (!p) {
		if (!s->peer_free)
			cm_peer_evict(c);
		if (!s->peer_free || sp_path_open(c, ip, false, &path))
			return NULL;
		p = s->peer_free;
		s->peer_free = p->next;
		*p = (struct cm_peer){.path = path, .open = true, .next = *at};
		memcpy(p->ip, ip, 16);
		*at = p;
		if (!s->peer_count++ && !s->tick.armed)
			sp_timer_arm(c, &s->tick, c->now + s->peer_idle);
	}
	p->used = c->now;
	return p;
}

bool cm_peer_allows(struct sp_ctx *c, struct cm_peer *p)
{
	const struct cm *s = cm_of(c);
	const sp_time from = p->rate_at > c->now ? p->rate_at : c->now;

	if (from - c->now > s->peer_gap * s->peer_burst)
		return false;
	p->rate_at = from + s->peer_gap;
	return true;
}

bool cm_peer_room(struct sp_ctx *c, const struct cm_app *app, const struct cm_peer *p)
{
	return p->refs || app->peers < cm_of(c)->peers_per_app;
}

void cm_peer_attach(struct cm_id *x, struct cm_peer *p)
{
	if (!p->refs++) {
		p->first = x->app;
		x->app->peers++;
	}
	x->peer = p;
}

static void cm_peer_detach(struct sp_ctx *c, struct cm_id *x)
{
	struct cm_peer *p = x->peer;

	x->peer = NULL;
	if (!p)
		return;
	p->used = c->now;
	if (!--p->refs && p->first) {
		p->first->peers--;
		p->first = NULL;
	}
}

void cm_settle(struct cm_id *x, bool all)
{
	if (x->asked && x->listener)
		x->listener->waiting--;
	x->asked = false;
	if (all && x->counted) {
		x->peer->pending--;
		x->counted = false;
	}
}

/* ---- ids ---- */
static void cm_orphan_leave(struct cm *s, struct cm_id *x)
{
	*(x->orphan_prev ? &x->orphan_prev->orphan_next : &s->orphans) = x->orphan_next;
	*(x->orphan_next ? &x->orphan_next->orphan_prev : &s->orphans_last) = x->orphan_prev;
	s->orphan_count--;
}

struct cm_id *cm_id_make(struct sp_ctx *c, struct cm_app *app)
{
	struct cm *s = cm_of(c);
	struct cm_id *x;
	uint32_t local;

	if (app->ids >= s->ids_per_app)
		return NULL;
	if (!s->free && s->orphans)
		cm_id_free(c, s->orphans);
	x = s->free;
	if (!x)
		return NULL;
	s->free = x->chain[CM_BY_ID];
	do
		local = (uint32_t)(sp_random(c) >> 32);
	while (!local || cm_id_find(c, local));
	memset((char *)x + sizeof(x->timer), 0, sizeof(*x) - sizeof(x->timer));
	x->local = local;
	x->tid = sp_random(c);
	x->state = CM_IDLE;
	x->app = app;
	x->app_next = app->list;
	x->app_link = &app->list;
	if (app->list)
		app->list->app_link = &x->app_next;
	app->list = x;
	app->ids++;
	s->used++;
	cm_enter(cm_bucket(c, CM_BY_ID, local), x, CM_BY_ID);
	return x;
}

/* Its events are of no use to anybody. Ids that it let in no longer count at it. */
static void cm_app_leave(struct cm_id *x)
{
	struct cm_app *app = x->app;
	struct cm_note **at = &app->first;

	while (x->notes && *at)
		if ((*at)->id == x)
			*at = (*at)->next;
		else
			at = &(*at)->next;
	if (x->notes)
		app->last = at;
	x->notes = 0;
	if (x->state == CM_LISTEN)
		for (struct cm_id *o = app->list; o; o = o->app_next)
			o->listener = o->listener == x ? NULL : o->listener;
	*x->app_link = x->app_next;
	if (x->app_next)
		x->app_next->app_link = x->app_link;
	app->ids--;
	x->app = NULL;
}

static void cm_port_leave(struct sp_ctx *c, struct cm_id *x)
{
	if (x->in_port)
		cm_leave(cm_bucket(c, CM_BY_PORT, x->service), x, CM_BY_PORT);
	x->in_port = false;
}

void cm_id_orphan(struct sp_ctx *c, struct cm_id *x)
{
	struct cm *s = cm_of(c);

	cm_settle(x, true);
	cm_app_leave(x);
	cm_port_leave(c, x);
	x->listener = NULL;
	x->orphan_next = NULL;
	x->orphan_prev = s->orphans_last;
	*(s->orphans_last ? &s->orphans_last->orphan_next : &s->orphans) = x;
	s->orphans_last = x;
	s->orphan_count++;
}

void cm_id_free(struct sp_ctx *c, struct cm_id *x)
{
	struct cm *s = cm_of(c);

	sp_timer_cancel(c, &x->timer);
	cm_settle(x, true);
	if (x->app)
		cm_app_leave(x);
	else
		cm_orphan_leave(s, x);
	cm_port_leave(c, x);
	cm_qp_leave(c, x);
	cm_remote_leave(c, x);
	cm_leave(cm_bucket(c, CM_BY_ID, x->local), x, CM_BY_ID);
	cm_peer_detach(c, x);
	x->state = CM_FREE;
	x->chain[CM_BY_ID] = s->free;
	s->free = x;
	s->used--;
}
