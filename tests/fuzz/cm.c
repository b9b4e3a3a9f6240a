/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection management against hostile peers and applications: two NICs in virtual time, whose network also has
 * strangers. An input is a list of deeds: messages that are nearly right for what a NIC knows, requests of
 * applications, of which some are nonsense, time, queues without room, applications that end. The NICs live on from
 * input to input. What must hold after each: the tables agree with each other; whoever waits for an answer has a timer;
 * a message brings forth two at most. When all applications have ended and time has gone by, nothing is left.
 */
#include "../../handlers/cm/table.h"
#include "../lib/cm_world.h"
#include "../unit/cm_vectors.h"
#include "draw.h"
#ifdef FUZZ_STANDALONE
#include "standalone.h"
#endif

#define PROMISE(x)                                                                                                     \
	do {                                                                                                           \
		if (!(x))                                                                                              \
			__builtin_trap();                                                                              \
	} while (0)

#define LIFE  2000 /* inputs that the NICs live */
#define DEEDS 32   /* of an input */
#define APPS  3u
#define PORT  4420

const uint8_t *draw_input;
size_t draw_left;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool open;
static unsigned age;
static uint64_t entered[CM_STATES], dropped[CM_BACKLOG + 1];

/* ---- what must hold ---- */
static bool timed(uint8_t state)
{
	switch (state) {
	case CM_REQ_SENT:
	case CM_REQ_RCVD:
	case CM_REP_SENT:
	case CM_REP_RCVD:
	case CM_DREQ_SENT:
	case CM_DREQ_RCVD:
	case CM_TIMEWAIT:
	case CM_SIDR_SENT:
	case CM_SIDR_RCVD:
		return true;
	default:
		return false;
	}
}

static void check_ids(const struct cm *s)
{
	uint32_t used = 0, unused = 0, orphans = 0;

	for (uint32_t i = 0; i < s->ids; i++) {
		const struct cm_id *x = &s->id[i];
		unsigned notes = 0;

		if (x->state == CM_FREE)
			continue;
		used++;
		PROMISE(x->state < CM_STATES);
		orphans += !x->app;
		/* An orphan that has nothing to wait for would stay for ever. */
		PROMISE(x->timer.armed || (!timed(x->state) && x->app));
		PROMISE(!x->listener || x->listener->state == CM_LISTEN);
		for (unsigned k = 0; k < CM_NOTES; k++)
			notes += x->note[k].queued;
		PROMISE(!x->app || notes == x->notes);
	}
	for (const struct cm_id *x = s->free; x; x = x->chain[CM_BY_ID])
		unused++;
	PROMISE(used == s->used && used + unused == s->ids && orphans == s->orphan_count);
}

static void check_apps(const struct cm *s)
{
	for (uint32_t i = 0; i < s->apps; i++) {
		const struct cm_app *app = &s->app[i];
		uint32_t ids = 0, notes = 0, queued = 0;

		if (!app->used)
			continue;
		for (const struct cm_id *x = app->list; x; x = x->app_next, ids++) {
			uint32_t waiting = 0;

			PROMISE(x->app == app && *x->app_link == x);
			notes += x->notes;
			for (const struct cm_id *o = app->list; x->state == CM_LISTEN && o; o = o->app_next)
				waiting += o->asked && o->listener == x;
			PROMISE(x->state != CM_LISTEN || waiting == x->waiting);
		}
		for (const struct cm_note *n = app->first; n; n = n->next, queued++)
			PROMISE(n->queued && n->id->app == app);
		PROMISE(ids == app->ids && notes == queued && ids <= s->ids_per_app);
	}
}

static void check_peers(const struct cm *s, unsigned nic)
{
	uint32_t refs = 0, pending = 0, held = 0, counted = 0, peers = 0, firsts = 0;

	for (uint32_t i = 0; i < s->ids; i++) {
		held += s->id[i].state != CM_FREE && s->id[i].peer;
		counted += s->id[i].state != CM_FREE && s->id[i].counted;
	}
	for (uint32_t i = 0; i < s->peers; i++) {
		if (!s->peer[i].open)
			continue;
		peers++;
		refs += s->peer[i].refs;
		pending += s->peer[i].pending;
		firsts += s->peer[i].first != NULL;
		PROMISE(s->peer[i].pending <= s->peer_pending && (s->peer[i].refs || !s->peer[i].first));
	}
	for (uint32_t i = 0; i < s->apps; i++) {
		PROMISE(!s->app[i].used || s->app[i].peers <= s->peers_per_app);
		firsts -= s->app[i].used ? s->app[i].peers : 0;
	}
	PROMISE(!firsts && refs == held && pending == counted && peers == s->peer_count &&
		peers == cm_world.nic[nic].paths);
}

static void check(unsigned nic)
{
	const struct cm *s = cm_of(&cm_world.nic[nic].c);

	check_ids(s);
	check_apps(s);
	check_peers(s, nic);
}

/* ---- deeds: messages ---- */
static struct cm_id *any_id(unsigned nic)
{
	struct cm *s = cm_of(&cm_world.nic[nic].c);
	const uint32_t from = draw() % s->ids;

	for (uint32_t i = 0; i < s->ids; i++)
		if (s->id[(from + i) % s->ids].state > CM_LISTEN)
			return &s->id[(from + i) % s->ids];
	return NULL;
}

static void put24(uint8_t *to, uint32_t v)
{
	to[0] = (uint8_t)(v >> 16);
	to[1] = (uint8_t)(v >> 8);
	to[2] = (uint8_t)v;
}

static void asks(struct sp_cm_mad *m, const uint8_t from[16], const uint8_t to[16])
{
	const bool datagram = draw_one_of(3);
	struct sp_cm_ip *ip = datagram ? &m->sidr_req.ip : &m->req.ip;

	memcpy(m, datagram ? linux_sidr_req : linux_req, sizeof(*m));
	memcpy(ip->source + 12, from + 12, 4);
	memcpy(ip->destination + 12, to + 12, 4);
	sp_store_be64(m->header.tid, draw());
	if (datagram) {
		sp_store_be32(m->sidr_req.id, draw());
		sp_store_be64(m->sidr_req.service, SP_CM_SERVICE(0x0111, draw_near(PORT)));
		return;
	}
	sp_store_be32(m->req.local_id, draw());
	put24(m->req.qp, 2 + draw() % 16u);
	sp_store_be64(m->req.service, SP_CM_SERVICE(0x0106, draw_near(PORT)));
	memcpy(m->req.primary.local_gid, from, 16);
	memcpy(m->req.primary.remote_gid, to, 16);
}

/* What the peer of that id could say. */
static void says(struct sp_cm_mad *m, const struct cm_id *x)
{
	static const uint8_t *const like[] = {linux_rep,  linux_rep, linux_rtu, linux_rtu,     linux_dreq,
					      linux_drep, linux_rej, linux_rtu, linux_sidr_rep};
	const unsigned which = x->kind == SP_CM_DATAGRAM ? 8 : draw() % 8;

	memcpy(m, like[which], sizeof(*m));
	sp_store_be64(m->header.tid, draw_near(x->state == CM_DREQ_SENT ? sp_load_be64(x->mad.header.tid) : x->tid));
	if (which == 8) {
		sp_store_be32(m->sidr_rep.id, x->local);
		sp_store_be64(m->sidr_rep.service, SP_CM_SERVICE(x->port_space, x->peer_port));
		return;
	}
	sp_store_be32(m->ids.local_id, (uint32_t)draw_near(x->remote ? x->remote : draw()));
	sp_store_be32(m->ids.remote_id, (uint32_t)draw_near(x->local));
	if (which < 2)
		put24(m->rep.qp, 2 + draw() % 16u);
	if (which == 4)
		put24(m->dreq.remote_qp, x->qp);
	if (which == 7) {
		sp_store_be16(m->header.attribute, SP_CM_MRA);
		m->mra.about = (uint8_t)((x->state == CM_REP_SENT) << 6);
		m->mra.timeout = draw();
	}
}

static void message(unsigned nic)
{
	const uint8_t *to = cm_world.nic[nic].ip;
	uint8_t from[16], frame[CM_FRAME];
	const struct cm_id *x = any_id(nic);
	struct sp_cm_mad m;
	uint64_t sent;

	memcpy(from, cm_world.nic[!nic].ip, 16);
	if (draw_one_of(4))
		from[15] = 100 + draw() % 16; /* a stranger */
	if (!x || draw_one_of(6)) {
		asks(&m, from, to);
	} else {
		if (x->peer && !draw_one_of(16))
			memcpy(from, x->peer->ip, 16);
		says(&m, x);
	}
	cm_world_frame(frame, from, to, &m);
	for (unsigned k = draw_one_of(8) ? 1 + draw() % 3 : 0; k; k--)
		frame[42 + draw_bytes(2) % (CM_FRAME - 42)] = draw();
	sent = cm_world.nic[nic].counters[CM_SENT];
	cm_world_give(nic, frame);
	PROMISE(cm_world.nic[nic].counters[CM_SENT] - sent <= 2);
}

/* ---- deeds: applications ---- */
static uint32_t own_id(unsigned nic, uint32_t app)
{
	const struct cm_id *x = any_id(nic);

	for (unsigned k = 0; x && k < 4 && (!x->app || x->app->context != app); k++)
		x = any_id(nic);
	return x ? (uint32_t)draw_near(x->local) : draw();
}

static void make(unsigned nic, uint32_t app)
{
	const uint32_t kind = draw() % 2u, qp = draw_one_of(8) ? CM_OWNED + draw() % 4u : 2 + draw() % 16u;
	const int64_t id = cm_new(nic, app, kind);
	uint8_t to[16];

	PROMISE(id > 0 || id == -ENOSPC);
	if (id < 0)
		return;
	if (draw() & 1) {
		cm_listen_on(nic, app, (uint32_t)id, (uint16_t)draw_near(PORT), draw() % 8u);
		return;
	}
	memcpy(to, cm_world.nic[!nic].ip, 16);
	if (draw_one_of(4))
		to[15] = draw();
	cm_connect_to(nic, app, (uint32_t)id, to, (uint16_t)draw_near(PORT), qp);
}

static void nonsense(unsigned nic, uint32_t app)
{
	static uint8_t in[SP_CONTROL_BYTES], out[SP_CONTROL_BYTES];
	const uint32_t len = (uint32_t)draw_bytes(2) % (draw() & 3 ? 320 : sizeof(in)), id = own_id(nic, app);
	uint8_t *exact = malloc(len ? len : 1);
	const uint32_t op = draw() % 16u;

	PROMISE(exact);
	memcpy(in, &id, 4);
	for (uint32_t i = 4; i < len; i++)
		in[i] = i < 72 && draw() & 1 ? draw() : 0;
	if (len >= sizeof(struct sp_cm_param) && draw() & 3) {
		const uint16_t private_len = (uint16_t)(len - sizeof(struct sp_cm_param));

		memcpy(in + offsetof(struct sp_cm_param, private_len), &private_len, 2);
	}
	memcpy(exact, in, len);
	if (op) /* 0 is the NIC's own: the application has ended */
		cm_ask(nic, app, op, exact, len, out, (uint32_t)draw_bytes(2) % sizeof(out));
	free(exact);
}

static void application(unsigned nic)
{
	static const uint32_t ops[] = {SP_CM_READY, SP_CM_READY, SP_CM_DISCONNECT, SP_CM_ESTABLISHED, SP_CM_DESTROY};
	const uint32_t app = 1 + draw() % APPS, qp = draw_one_of(16) ? CM_OWNED + draw() % 4u : 2 + draw() % 16u;
	const uint8_t how = draw();
	struct cm_told t;

	if (how < 0x18)
		make(nic, app);
	else if (how < 0x60)
		cm_answer_with(nic, app, how & 7 ? SP_CM_ACCEPT : SP_CM_REJECT, own_id(nic, app), qp);
	else if (how < 0x90)
		cm_with(nic, app, ops[draw() % 5], own_id(nic, app));
	else if (how < 0xE0)
		PROMISE(!cm_next(nic, app, &t) || t.e.private_len <= SP_RDMA_PRIVATE);
	else if (how < 0xFC)
		nonsense(nic, app);
	else
		cm_ask(nic, app, SP_CONTROL_GONE, NULL, 0, NULL, 0);
}

static void deed(void)
{
	const uint8_t what = draw();
	const unsigned nic = what & 1;

	if (what < 0x70) {
		message(nic);
	} else if (what < 0xD8) {
		application(nic);
	} else if (what < 0xE8) {
		cm_world.nic[nic].room = draw() & 3 ? -1 : draw() % 3;
		cm_world.nic[nic].post_room = draw() & 3 ? -1 : draw() % 3;
		cm_world.loss = draw() & 1 ? 0 : draw() * 3u;
	} else {
		cm_world_run(cm_world.now + (draw() & 7 ? SP_MS : draw_one_of(4) ? 30 * SP_SEC : SP_SEC / 2));
	}
}

/* ---- the world ---- */
static void begin(void)
{
	static const char *const few[] = {"ids",
					  "64",
					  "ids-per-application",
					  "32",
					  "applications",
					  "3",
					  "peers",
					  "8",
					  "peers-per-application",
					  "5",
					  "peer-pending",
					  "12",
					  "peer-burst",
					  "60",
					  "peer-rate",
					  "100",
					  "accept",
					  "20s",
					  "selective",
					  "yes",
					  NULL};

	cm_world_open(++age, few);
	open = true;
}

static void end(void)
{
	for (unsigned nic = 0; nic < CM_NICS; nic++) {
		cm_world.nic[nic].room = cm_world.nic[nic].post_room = -1;
		for (uint32_t app = 1; app <= APPS; app++)
			cm_ask(nic, app, SP_CONTROL_GONE, NULL, 0, NULL, 0);
	}
	cm_world.loss = 0;
	cm_world_run(cm_world.now + 400 * SP_SEC);
	for (unsigned nic = 0; nic < CM_NICS; nic++) {
		const struct cm *s = cm_of(&cm_world.nic[nic].c);

		PROMISE(!cm_used(nic) && !cm_world.nic[nic].timer && !cm_world.nic[nic].paths);
		for (unsigned k = 0; k < CM_STATES; k++)
			entered[k] += s->states_entered[k];
		for (unsigned k = 0; k <= CM_BACKLOG; k++)
			dropped[k] += cm_world.nic[nic].drops[k];
	}
	PROMISE(!cm_world_end());
	open = false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!open)
		begin();
	draw_input = data;
	draw_left = size;
	for (unsigned i = 0; i < DEEDS && draw_left; i++)
		deed();
	check(0);
	check(1);
	if (++age % LIFE == 0)
		end();
	draw_left = 0; /* the input is the caller's again */
	return 0;
}

#ifdef FUZZ_STANDALONE
int main(int argc, char **argv)
{
	static uint8_t seed[64][400];
	const uint8_t *list[64];
	size_t len[64];
	uint64_t state = 7;
	char count[] = "30000";
	char *own[] = {argv[0], count, NULL};

	for (unsigned i = 0; i < 64; i++) {
		for (unsigned k = 0; k < sizeof(seed[i]); k++)
			seed[i][k] = (uint8_t)(fuzz_random(&state) >> 32);
		list[i] = seed[i];
		len[i] = sizeof(seed[i]);
	}
	int r = fuzz_standalone(argc > 1 ? argc : 2, argc > 1 ? argv : own, list, len, 64);
	if (open)
		end();
	/* All states and drops must have been met, or the fuzzer looks at nothing. */
	for (unsigned k = CM_LISTEN; k < CM_STATES; k++) {
		r = r || entered[k] ? r : 1;
		if (argc > 3 || !entered[k])
			printf("state %u: %llu\n", k, (unsigned long long)entered[k]);
	}
	for (unsigned k = CM_BAD_QKEY; k <= CM_BACKLOG; k++) {
		r = r || dropped[k] ? r : 1;
		if (argc > 3 || !dropped[k])
			printf("drop %u: %llu\n", k, (unsigned long long)dropped[k]);
	}
	return r;
}
#endif
