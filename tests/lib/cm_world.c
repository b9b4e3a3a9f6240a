/* SPDX-License-Identifier: BSD-3-Clause */
#include "cm_world.h"

#include "../../handlers/cm/table.h"

#include <stdio.h>
#include <stdlib.h>

struct cm_world cm_world;
const struct sp_handler *cm_world_handler;
static const char *const *setting;

void sp_handler_register(const struct sp_handler *h)
{
	cm_world_handler = h;
}

static struct cm_nic *nic_of(struct sp_ctx *c)
{
	return (struct cm_nic *)c;
}

static uint64_t draw64(void)
{
	uint64_t z = cm_world.random += 0x9E3779B97F4A7C15ull;

	z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
	z = (z ^ z >> 27) * 0x94D049BB133111EBull;
	return z ^ z >> 31;
}

uint32_t cm_world_draw(uint32_t below)
{
	return (uint32_t)(draw64() >> 32) % below;
}

/* ---- what the handler calls ---- */
uint64_t sp_param_uint(struct sp_ctx *c, const char *name)
{
	const char *text = NULL;
	char *end;
	uint64_t v;

	for (const char *const *s = setting; s && *s; s += 2)
		if (!strcmp(s[0], name))
			text = s[1];
	for (const struct sp_param *p = cm_world_handler->params; p->name && !text; p++)
		if (!strcmp(p->name, name))
			text = p->fallback;
	if (!text)
		abort();
	v = strtoull(text, &end, 0);
	return !strcmp(end, "s") ? v * SP_SEC : !strcmp(end, "ms") ? v * SP_MS : !strcmp(text, "yes") ? 1 : v;
}

int sp_fail(struct sp_ctx *c, int err, const char *param, const char *format, ...)
{
	return -err;
}

void *sp_alloc(struct sp_ctx *c, size_t bytes)
{
	struct cm_nic *n = nic_of(c);
	void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);

	if (!p || n->allocs == 32)
		abort();
	memset(p, 0, bytes);
	return n->alloc[n->allocs++] = p;
}

int sp_qp_claim(struct sp_ctx *c, uint32_t count)
{
	return count == 1 ? 0 : -EINVAL;
}

uint64_t sp_random(struct sp_ctx *c)
{
	return draw64();
}

uint64_t sp_hash(struct sp_ctx *c, const void *bytes, size_t len)
{
	uint64_t h = 0xCBF29CE484222325ull;

	for (size_t i = 0; i < len; i++)
		h = (h ^ ((const uint8_t *)bytes)[i]) * 0x100000001B3ull;
	return (h ^ h >> 29) & INT64_MAX;
}

int sp_timer_cancel(struct sp_ctx *c, struct sp_timer *t)
{
	struct sp_timer **at = &nic_of(c)->timer;

	while (*at && *at != t)
		at = &(*at)->next;
	if (*at)
		*at = t->next;
	t->armed = 0;
	return 0;
}

int sp_timer_arm(struct sp_ctx *c, struct sp_timer *t, sp_time when)
{
	sp_timer_cancel(c, t);
	t->at = when;
	t->armed = 1;
	t->next = nic_of(c)->timer;
	nic_of(c)->timer = t;
	return 0;
}

int sp_event_post_to(struct sp_ctx *c, uint32_t context, const struct sp_event *e)
{
	struct cm_nic *n = nic_of(c);

	if (!n->post_room)
		return -EAGAIN;
	n->post_room -= n->post_room > 0;
	n->posted++;
	return e->type == SP_RDMA_EVENT_CM ? 0 : -EINVAL;
}

bool sp_qp_owned(struct sp_ctx *c, uint32_t context, uint32_t qp)
{
	return qp < CM_OWNED || qp - CM_OWNED == context;
}

struct sp_path {
	uint8_t ip[16];
};

int sp_path_open(struct sp_ctx *c, const uint8_t ip[16], bool only, struct sp_path **path)
{
	*path = malloc(sizeof(**path));
	memcpy((*path)->ip, ip, 16);
	nic_of(c)->paths++;
	return 0;
}

void sp_path_close(struct sp_ctx *c, struct sp_path *path)
{
	nic_of(c)->paths--;
	free(path);
}

static void fly(const uint8_t *bytes)
{
	struct cm_frame *f = cm_world.frame;

	while (f->used)
		if (++f == cm_world.frame + CM_FRAMES)
			abort();
	f->used = true;
	if (cm_world.frames <= f - cm_world.frame)
		cm_world.frames = (unsigned)(f - cm_world.frame) + 1;
	f->at = cm_world.now + cm_world.delay + (cm_world.jitter ? draw64() % cm_world.jitter : 0);
	memcpy(f->bytes, bytes, CM_FRAME);
}

void cm_world_frame(uint8_t *frame, const uint8_t from[16], const uint8_t to[16], const struct sp_cm_mad *m)
{
	struct sp_bth *bth = (struct sp_bth *)(frame + 42);
	struct sp_deth *deth = (struct sp_deth *)(bth + 1);

	memset(frame, 0, CM_FRAME);
	frame[14] = 0x45;
	memcpy(frame + 26, from + 12, 4);
	memcpy(frame + 30, to + 12, 4);
	bth->opcode = SP_UD_SEND_ONLY;
	bth->pkey[0] = bth->pkey[1] = 0xFF;
	bth->dest_qp[2] = 1;
	sp_store_be32(deth->qkey, SP_CM_QKEY);
	deth->source_qp[2] = 1;
	memcpy(deth + 1, m, sizeof(*m));
}

int sp_send_roce(struct sp_ctx *c, struct sp_path *path, const struct sp_send *send)
{
	struct cm_nic *n = nic_of(c);
	uint8_t frame[CM_FRAME];

	if (!n->room)
		return -EAGAIN;
	n->room -= n->room > 0;
	if (send->opcode != SP_UD_SEND_ONLY || send->dest_qp != 1 || send->len != SP_CM_MAD_LEN || send->mem ||
	    send->ext_len != 8 || !(send->flags & SP_SEND_ACK_REQ))
		abort();
	cm_world_frame(frame, n->ip, path->ip, send->bytes);
	memcpy(frame + 54, send->ext, 8);
	n->last_psn = send->psn;
	if (memcmp(path->ip, cm_world.nic[0].ip, 16) && memcmp(path->ip, cm_world.nic[1].ip, 16)) {
		memcpy(cm_world.kept[cm_world.kept_count++ % 64].bytes, frame, CM_FRAME);
		return 0;
	}
	if (cm_world_draw(1000) >= cm_world.loss)
		fly(frame);
	if (cm_world_draw(1000) < cm_world.twice)
		fly(frame);
	return 0;
}

void sp_report_uint(struct sp_report *r, const char *name, uint64_t v)
{
}

void sp_report_open(struct sp_report *r, const char *name, bool list)
{
}

void sp_report_close(struct sp_report *r)
{
}

/* ---- the world ---- */
void cm_world_open(uint64_t seed, const char *const *settings)
{
	memset(&cm_world, 0, sizeof(cm_world));
	cm_world.random = seed;
	cm_world.now = SP_SEC;
	cm_world.delay = 10 * SP_US;
	setting = settings;
	for (unsigned i = 0; i < CM_NICS; i++) {
		struct cm_nic *n = &cm_world.nic[i];
		uint64_t area = 0;

		memcpy(n->ip, (uint8_t[16]){[10] = 0xFF, [11] = 0xFF, 10, 9, 0, (uint8_t)(i + 1)}, 16);
		n->room = n->post_room = -1;
		n->c.counters = n->counters;
		n->c.workers = 1;
		n->c.now = cm_world.now;
		n->c.state = sp_alloc(&n->c, cm_world_handler->ctx_size);
		if (cm_world_handler->configure(&n->c, &area) || cm_world_handler->attach(&n->c))
			abort();
	}
}

uint32_t cm_world_end(void)
{
	uint32_t paths = 0;

	for (unsigned i = 0; i < CM_NICS; i++) {
		struct cm_nic *n = &cm_world.nic[i];

		cm_world_handler->detach(&n->c);
		paths += n->paths;
		for (unsigned k = 0; k < n->allocs; k++)
			free(n->alloc[k]);
	}
	return paths;
}

void cm_world_close(void)
{
	CU_ASSERT_EQUAL(cm_world_end(), 0);
}

uint32_t cm_world_give(unsigned nic, const uint8_t *frame)
{
	struct cm_nic *n = &cm_world.nic[nic];
	uint8_t *copy = malloc(CM_FRAME); /* of exactly its length */
	struct sp_packet p = {.flags = SP_PKT_ROCE | SP_PKT_UDP, .l3 = 14, .l4 = 34, .frame_len = CM_FRAME};
	uint32_t verdict;

	memcpy(copy, frame, CM_FRAME);
	p.frame = copy;
	p.data = copy + 54;
	p.len = 264;
	p.opcode = copy[42];
	p.dest_qp = 1;
	n->c.now = cm_world.now;
	p.key = cm_world_handler->classify(&n->c, &p);
	verdict = cm_world_handler->payload(&n->c, NULL, &p);
	free(copy);
	if (verdict == SP_DONE)
		n->taken++;
	else if ((verdict & 0xFF) == SP_DROP_KIND)
		n->drops[verdict >> 8]++;
	else
		abort();
	return verdict;
}

void cm_world_run(sp_time until)
{
	for (;;) {
		struct cm_frame *f = NULL;
		struct sp_timer *t = NULL;
		unsigned of = 0, frames = 0;

		for (unsigned i = 0; i < cm_world.frames; i++) {
			frames = cm_world.frame[i].used ? i + 1 : frames;
			if (cm_world.frame[i].used && (!f || cm_world.frame[i].at < f->at))
				f = &cm_world.frame[i];
		}
		cm_world.frames = frames;
		for (unsigned i = 0; i < CM_NICS; i++)
			for (struct sp_timer *o = cm_world.nic[i].timer; o; o = o->next)
				if (!t || o->at < t->at)
					t = o, of = i;
		if ((!f || f->at > until) && (!t || t->at > until))
			break;
		if (f && (!t || f->at <= t->at)) {
			uint8_t bytes[CM_FRAME];

			cm_world.now = f->at;
			memcpy(bytes, f->bytes, CM_FRAME);
			f->used = false;
			cm_world_give(memcmp(bytes + 30, cm_world.nic[0].ip + 12, 4) != 0, bytes);
		} else {
			struct sp_ctx *c = &cm_world.nic[of].c;

			cm_world.now = cm_world.now > t->at ? cm_world.now : t->at;
			c->now = cm_world.now;
			sp_timer_cancel(c, t);
			cm_world_handler->timer(c, t);
		}
	}
	cm_world.now = until;
}

const struct sp_cm_mad *cm_world_kept(unsigned back)
{
	return (const struct sp_cm_mad *)(cm_world.kept[(cm_world.kept_count - 1 - back) % 64].bytes + 62);
}

/* ---- applications ---- */
int cm_ask(unsigned nic, uint32_t app, uint32_t op, const void *in, uint32_t len, void *out, uint32_t room)
{
	struct cm_nic *n = &cm_world.nic[nic];
	struct sp_control r = {.op = op, .context = app, .in = in, .in_len = len, .out = out, .out_room = room};

	n->c.now = cm_world.now;
	return cm_world_handler->control(&n->c, &r);
}

int64_t cm_new(unsigned nic, uint32_t app, uint32_t kind)
{
	const struct sp_cm_create q = {
		.cookie = 7, .kind = kind, .port_space = kind == SP_CM_DATAGRAM ? 0x0111 : 0x0106};
	struct sp_cm_id id = {0};
	const int rc = cm_ask(nic, app, SP_CM_CREATE, &q, sizeof(q), &id, sizeof(id));

	return rc ? rc : (int64_t)id.id;
}

int cm_listen_on(unsigned nic, uint32_t app, uint32_t id, uint16_t port, uint32_t backlog)
{
	struct sp_cm_listen q = {.id = id, .port = port, .backlog = backlog};
	const int rc = cm_ask(nic, app, SP_CM_LISTEN, &q, sizeof(q), &q, sizeof(q));

	return rc ? rc : q.port;
}

static int with_param(unsigned nic, uint32_t app, uint32_t op, const struct sp_cm_param *p)
{
	return cm_ask(nic, app, op, p, sizeof(*p), NULL, 0);
}

static uint8_t type_of(unsigned nic, uint32_t id)
{
	const struct cm_id *x = cm_of_id(nic, id);

	return x && x->kind == SP_CM_DATAGRAM ? SP_RDMA_UD : SP_RDMA_RC;
}

int cm_connect_to(unsigned nic, uint32_t app, uint32_t id, const uint8_t to[16], uint16_t port, uint32_t qp)
{
	struct sp_cm_param p = {.id = id, .qp = qp, .psn = qp, .to_port = port, .type = type_of(nic, id)};

	memcpy(p.to, to, 16);
	memcpy(p.from, cm_world.nic[nic].ip, 16);
	p.retry_count = p.rnr_retry_count = 7;
	p.responder_resources = p.initiator_depth = 1;
	p.selective = cm_world.selective[0];
	return with_param(nic, app, SP_CM_CONNECT, &p);
}

int cm_answer_with(unsigned nic, uint32_t app, uint32_t op, uint32_t id, uint32_t qp)
{
	return with_param(nic, app, op,
			  &(struct sp_cm_param){.id = id,
						.qp = qp,
						.psn = qp,
						.type = type_of(nic, id),
						.rnr_retry_count = 7,
						.responder_resources = 1,
						.initiator_depth = 1,
						.selective = cm_world.selective[1]});
}

int cm_with(unsigned nic, uint32_t app, uint32_t op, uint32_t id)
{
	const struct sp_cm_id q = {id};

	return cm_ask(nic, app, op, &q, sizeof(q), NULL, 0);
}

bool cm_next(unsigned nic, uint32_t app, struct cm_told *t)
{
	return !cm_ask(nic, app, SP_CM_TAKE, NULL, 0, t, sizeof(*t));
}

struct cm_id *cm_of_id(unsigned nic, uint32_t id)
{
	return cm_id_find(&cm_world.nic[nic].c, id);
}

uint32_t cm_used(unsigned nic)
{
	return cm_of(&cm_world.nic[nic].c)->used;
}
