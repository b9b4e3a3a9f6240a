/* SPDX-License-Identifier: BSD-3-Clause */
/* cm at both ends of a network that loses, repeats and reorders: what applications begin ends, in the same way for
 * both. */
#include "../lib/cm_world.h"

#define SERVER 0
#define CLIENT 1
#define APP    5
#define PORT   4420

static void start(void)
{
	cm_world_open(1, NULL);
}

static void pass(sp_time time)
{
	cm_world_run(cm_world.now + time);
}

static uint32_t listening(uint32_t kind, uint32_t backlog)
{
	const uint32_t id = (uint32_t)cm_new(SERVER, APP, kind);

	CU_ASSERT_EQUAL(cm_listen_on(SERVER, APP, id, PORT, backlog), PORT);
	return id;
}

static uint32_t connecting(uint32_t kind, uint32_t qp)
{
	const uint32_t id = (uint32_t)cm_new(CLIENT, APP, kind);

	CU_ASSERT_EQUAL(cm_connect_to(CLIENT, APP, id, cm_world.nic[SERVER].ip, PORT, qp), 0);
	return id;
}

static struct sp_cm_event told(unsigned nic, uint32_t type)
{
	struct cm_told t = {.e = {0}};

	CU_ASSERT_TRUE(cm_next(nic, APP, &t));
	CU_ASSERT_EQUAL(t.e.type, type);
	return t.e;
}

static void silent(unsigned nic)
{
	struct cm_told t;

	CU_ASSERT_FALSE(cm_next(nic, APP, &t));
}

static enum cm_state state(unsigned nic, uint32_t id)
{
	const struct cm_id *x = cm_of_id(nic, id);

	return x ? x->state : CM_FREE;
}

struct pair {
	uint32_t client, server;
};

static struct pair connected(uint32_t qp)
{
	struct pair p = {.client = connecting(SP_CM_CONNECTED, qp)};

	pass(SP_MS);
	p.server = told(SERVER, SP_CM_EVENT_REQUEST).id;
	CU_ASSERT_EQUAL(cm_answer_with(SERVER, APP, SP_CM_ACCEPT, p.server, qp + 1), 0);
	pass(SP_MS);
	told(CLIENT, SP_CM_EVENT_RESPONSE);
	CU_ASSERT_EQUAL(cm_with(CLIENT, APP, SP_CM_READY, p.client), 0);
	pass(SP_MS);
	told(SERVER, SP_CM_EVENT_ESTABLISHED);
	return p;
}

TEST_BETWEEN(start, cm_world_close, a_connection_from_request_to_timewait)
{
	listening(SP_CM_CONNECTED, 0);
	const struct pair p = connected(100);

	CU_ASSERT_EQUAL(cm_with(SERVER, APP, SP_CM_DISCONNECT, p.server), 0);
	pass(SP_MS);
	told(CLIENT, SP_CM_EVENT_DISCONNECTED);
	CU_ASSERT_EQUAL(state(CLIENT, p.client), CM_DREQ_RCVD);
	CU_ASSERT_EQUAL(cm_with(CLIENT, APP, SP_CM_DISCONNECT, p.client), 0);
	pass(SP_MS);
	told(SERVER, SP_CM_EVENT_DISCONNECTED);
	pass(5 * SP_SEC);
	told(SERVER, SP_CM_EVENT_TIMEWAIT);
	told(CLIENT, SP_CM_EVENT_TIMEWAIT);
	CU_ASSERT_EQUAL(cm_with(SERVER, APP, SP_CM_DESTROY, p.server), 0);
	CU_ASSERT_EQUAL(cm_with(CLIENT, APP, SP_CM_DESTROY, p.client), 0);
	CU_ASSERT_EQUAL(cm_used(SERVER), 1);
	CU_ASSERT_EQUAL(cm_used(CLIENT), 0);
	pass(3 * SP_SEC);
	CU_ASSERT_EQUAL(cm_world.nic[CLIENT].paths, 0); /* unused */
}

TEST_BETWEEN(start, cm_world_close, both_disconnect_at_once)
{
	listening(SP_CM_CONNECTED, 0);
	const struct pair p = connected(100);

	CU_ASSERT_EQUAL(cm_with(SERVER, APP, SP_CM_DISCONNECT, p.server), 0);
	CU_ASSERT_EQUAL(cm_with(CLIENT, APP, SP_CM_DISCONNECT, p.client), 0);
	pass(SP_MS);
	told(SERVER, SP_CM_EVENT_DISCONNECTED);
	told(CLIENT, SP_CM_EVENT_DISCONNECTED);
	silent(SERVER);
	CU_ASSERT_EQUAL(state(SERVER, p.server), CM_TIMEWAIT);
	CU_ASSERT_EQUAL(state(CLIENT, p.client), CM_TIMEWAIT);
}

TEST_BETWEEN(start, cm_world_close, the_application_rejects)
{
	listening(SP_CM_CONNECTED, 0);
	const uint32_t id = connecting(SP_CM_CONNECTED, 100);
	struct {
		struct sp_cm_param p;
		uint8_t data[4];
	} a = {.data = {1, 2, 3, 4}};
	struct cm_told t;

	pass(SP_MS);
	a.p.id = told(SERVER, SP_CM_EVENT_REQUEST).id;
	a.p.private_len = 4;
	CU_ASSERT_EQUAL(cm_ask(SERVER, APP, SP_CM_REJECT, &a, sizeof(a.p) + 4, NULL, 0), 0);
	pass(SP_MS);
	CU_ASSERT_TRUE_FATAL(cm_next(CLIENT, APP, &t));
	CU_ASSERT_EQUAL(t.e.type, SP_CM_EVENT_REJECTED);
	CU_ASSERT_EQUAL(t.e.status, SP_CM_CONSUMER);
	CU_ASSERT_EQUAL(t.e.private_len, 148);
	CU_ASSERT_EQUAL(memcmp(t.private_data, a.data, 4), 0);
	CU_ASSERT_EQUAL(state(CLIENT, id), CM_CLOSED);
}

TEST_BETWEEN(start, cm_world_close, nobody_listens_or_nobody_is_there)
{
	const uint8_t nobody[16] = {[10] = 0xFF, [11] = 0xFF, 10, 9, 0, 77};
	const uint32_t refused = connecting(SP_CM_CONNECTED, 100), sidr = connecting(SP_CM_DATAGRAM, 101);
	const uint32_t lost = (uint32_t)cm_new(CLIENT, APP, SP_CM_CONNECTED);
	struct sp_cm_event e;

	pass(SP_MS);
	e = told(CLIENT, SP_CM_EVENT_REJECTED);
	CU_ASSERT_EQUAL(e.id, refused);
	CU_ASSERT_EQUAL(e.status, SP_CM_INVALID_SERVICE);
	e = told(CLIENT, SP_CM_EVENT_UNREACHABLE);
	CU_ASSERT_EQUAL(e.id, sidr);
	CU_ASSERT_EQUAL(e.status, SP_SIDR_UNSUPPORTED);
	CU_ASSERT_EQUAL(cm_connect_to(CLIENT, APP, lost, nobody, PORT, 102), 0);
	pass(100 * SP_SEC);
	e = told(CLIENT, SP_CM_EVENT_UNREACHABLE);
	CU_ASSERT_EQUAL(e.id, lost);
	CU_ASSERT_EQUAL(e.status, -ETIMEDOUT);
	CU_ASSERT_EQUAL(cm_world.kept_count, 17); /* one, 15 repetitions, and a REJ that it is given up */
	CU_ASSERT_EQUAL(sp_load_be16(cm_world_kept(0)->header.attribute), SP_CM_REJ);
}

/* The application takes its time: the client is told to wait, and does; a server that never answers is given up. */
TEST_BETWEEN(start, cm_world_close, a_slow_application)
{
	listening(SP_CM_CONNECTED, 0);
	const uint32_t id = connecting(SP_CM_CONNECTED, 100);

	pass(60 * SP_SEC);
	CU_ASSERT_EQUAL(cm_world.nic[CLIENT].counters[CM_RETRIES], 1);
	CU_ASSERT_EQUAL(cm_world.nic[CLIENT].counters[CM_MRAS], 1);
	CU_ASSERT_EQUAL(state(CLIENT, id), CM_REQ_SENT);
	pass(200 * SP_SEC);
	told(SERVER, SP_CM_EVENT_REQUEST);
	CU_ASSERT_EQUAL(told(SERVER, SP_CM_EVENT_UNREACHABLE).status, -ETIMEDOUT);
	CU_ASSERT_EQUAL(told(CLIENT, SP_CM_EVENT_REJECTED).status, SP_CM_TIMEOUT);
}

TEST_BETWEEN(start, cm_world_close, data_before_the_rtu)
{
	listening(SP_CM_CONNECTED, 0);
	const uint32_t id = connecting(SP_CM_CONNECTED, 100);
	uint32_t server;

	pass(SP_MS);
	server = told(SERVER, SP_CM_EVENT_REQUEST).id;
	cm_answer_with(SERVER, APP, SP_CM_ACCEPT, server, 200);
	pass(SP_MS);
	told(CLIENT, SP_CM_EVENT_RESPONSE);
	cm_world.loss = 1000;
	CU_ASSERT_EQUAL(cm_with(CLIENT, APP, SP_CM_READY, id), 0);
	pass(SP_MS);
	cm_world.loss = 0;
	CU_ASSERT_EQUAL(state(SERVER, server), CM_REP_SENT);
	CU_ASSERT_EQUAL(cm_with(SERVER, APP, SP_CM_ESTABLISHED, server), 0);
	told(SERVER, SP_CM_EVENT_ESTABLISHED);
	CU_ASSERT_EQUAL(cm_with(SERVER, APP, SP_CM_ESTABLISHED, server), 0);
	silent(SERVER);
}

/* A client that restarts uses a QP again that the server believes connected. */
TEST_BETWEEN(start, cm_world_close, a_stale_connection)
{
	listening(SP_CM_CONNECTED, 0);
	const struct pair p = connected(100);
	struct cm_id *x = cm_of_id(CLIENT, p.client);

	x->state = CM_IDLE; /* it has forgotten */
	CU_ASSERT_EQUAL(cm_with(CLIENT, APP, SP_CM_DESTROY, p.client), 0);
	const uint32_t again = connecting(SP_CM_CONNECTED, 100);
	pass(SP_MS);
	CU_ASSERT_EQUAL(told(CLIENT, SP_CM_EVENT_REJECTED).status, SP_CM_STALE);
	told(SERVER, SP_CM_EVENT_DISCONNECTED);
	CU_ASSERT_EQUAL(state(SERVER, p.server), CM_TIMEWAIT);
	CU_ASSERT_EQUAL(state(CLIENT, again), CM_CLOSED);
	connected(100);
}

TEST_BETWEEN(start, cm_world_close, applications_see_only_their_own_and_end_alone)
{
	listening(SP_CM_CONNECTED, 0);
	const struct pair p = connected(100), q = connected(200);
	const uint32_t open = connecting(SP_CM_CONNECTED, 300), other = (uint32_t)cm_new(SERVER, 6, SP_CM_CONNECTED);
	struct cm_told t;

	pass(SP_MS);
	CU_ASSERT_EQUAL(cm_with(SERVER, 6, SP_CM_DESTROY, p.server), -ENOENT);
	CU_ASSERT_EQUAL(cm_with(SERVER, 7, SP_CM_DISCONNECT, p.server), -ENOENT);
	CU_ASSERT_FALSE(cm_next(SERVER, 6, &t));
	CU_ASSERT_EQUAL(cm_listen_on(SERVER, 6, other, PORT, 1), -EADDRINUSE);
	CU_ASSERT_EQUAL(cm_listen_on(SERVER, 6, other, 80, 1), -EACCES);
	CU_ASSERT_TRUE(cm_listen_on(SERVER, 6, other, 0, 1) >= 49152);
	CU_ASSERT_EQUAL(cm_ask(SERVER, APP, SP_CONTROL_GONE, NULL, 0, NULL, 0), 0);
	pass(SP_MS);
	CU_ASSERT_EQUAL(told(CLIENT, SP_CM_EVENT_REJECTED).id, open); /* the latest first */
	told(CLIENT, SP_CM_EVENT_DISCONNECTED);
	told(CLIENT, SP_CM_EVENT_DISCONNECTED);
	cm_with(CLIENT, APP, SP_CM_DISCONNECT, p.client);
	cm_with(CLIENT, APP, SP_CM_DISCONNECT, q.client);
	pass(60 * SP_SEC);
	CU_ASSERT_EQUAL(cm_used(SERVER), 1); /* the other's */
}

static int bound(uint32_t app, uint32_t id, uint16_t port, bool shared)
{
	struct sp_cm_listen q = {.id = id, .port = port, .shared = shared};
	const int rc = cm_ask(SERVER, app, SP_CM_BIND, &q, sizeof(q), &q, sizeof(q));

	return rc ? rc : q.port;
}

TEST_BETWEEN(start, cm_world_close, a_port_is_bound_before_it_is_used)
{
	const uint32_t id = (uint32_t)cm_new(SERVER, APP, SP_CM_CONNECTED),
		       two = (uint32_t)cm_new(SERVER, APP, SP_CM_CONNECTED),
		       other = (uint32_t)cm_new(SERVER, 6, SP_CM_CONNECTED);

	CU_ASSERT_EQUAL(bound(APP, id, 80, false), -EACCES);
	CU_ASSERT_EQUAL(bound(APP, id, PORT, false), PORT);
	CU_ASSERT_EQUAL(bound(APP, id, 0, false), -EINVAL);
	CU_ASSERT_EQUAL(bound(APP, two, PORT, false), -EADDRINUSE);
	CU_ASSERT_EQUAL(bound(6, other, PORT, true), -EADDRINUSE);
	CU_ASSERT_TRUE(bound(6, other, 0, false) >= 49152);
	CU_ASSERT_EQUAL(bound(APP, two, PORT, true), PORT);
	cm_connect_to(CLIENT, APP, (uint32_t)cm_new(CLIENT, APP, SP_CM_CONNECTED), cm_world.nic[SERVER].ip, PORT, 100);
	pass(SP_MS);
	told(CLIENT, SP_CM_EVENT_REJECTED); /* nobody listens yet */
	CU_ASSERT_EQUAL(cm_listen_on(SERVER, APP, id, PORT + 1, 0), -EINVAL);
	CU_ASSERT_EQUAL(cm_listen_on(SERVER, APP, id, 0, 0), PORT);
	CU_ASSERT_EQUAL(bound(APP, id, 0, false), -EINVAL);
	CU_ASSERT_EQUAL(cm_listen_on(SERVER, APP, two, PORT, 0), -EADDRINUSE);
	cm_connect_to(CLIENT, APP, (uint32_t)cm_new(CLIENT, APP, SP_CM_CONNECTED), cm_world.nic[SERVER].ip, PORT, 101);
	pass(SP_MS);
	told(SERVER, SP_CM_EVENT_REQUEST);
}

/* An event queue without room delays what is told, and loses nothing. */
TEST_BETWEEN(start, cm_world_close, events_wait_for_room)
{
	listening(SP_CM_CONNECTED, 0);
	cm_world.nic[SERVER].post_room = 0;
	for (uint32_t i = 0; i < 20; i++)
		connecting(SP_CM_CONNECTED, 100 + i);
	pass(SP_MS / 2);
	CU_ASSERT_EQUAL(cm_world.nic[SERVER].posted, 0);
	cm_world.nic[SERVER].post_room = -1;
	pass(3 * SP_MS);
	CU_ASSERT_EQUAL(cm_world.nic[SERVER].posted, 20);
	for (uint32_t i = 0; i < 20; i++)
		told(SERVER, SP_CM_EVENT_REQUEST);
	silent(SERVER);
}

/* Selective repeat: both NICs and both applications must want it. Then both ends know, and the offer is not the
 * applications' to see. */
static void offered(bool nics, bool asks, bool answers)
{
	static const char *const on[] = {"selective", "yes", NULL};
	const uint8_t nothing[SP_RDMA_PRIVATE] = {0};
	struct cm_told t;

	cm_world_open(1, nics ? on : NULL);
	cm_world.selective[0] = asks;
	cm_world.selective[1] = answers;
	listening(SP_CM_CONNECTED, 0);
	connecting(SP_CM_CONNECTED, 100);
	pass(SP_MS);
	CU_ASSERT_TRUE_FATAL(cm_next(SERVER, APP, &t));
	CU_ASSERT_EQUAL(t.e.selective, nics && asks);
	CU_ASSERT_EQUAL(memcmp(t.private_data, nothing, t.e.private_len), 0);
	cm_answer_with(SERVER, APP, SP_CM_ACCEPT, t.e.id, 200);
	pass(SP_MS);
	CU_ASSERT_TRUE_FATAL(cm_next(CLIENT, APP, &t));
	CU_ASSERT_EQUAL(t.e.selective, nics && asks && answers);
	CU_ASSERT_EQUAL(memcmp(t.private_data, nothing, t.e.private_len), 0);
	cm_world_close();
}

TEST(selective_repeat_is_agreed_on)
{
	for (unsigned i = 0; i < 8; i++)
		offered(i & 4, i & 2, i & 1);
}

/* ---- many connections over a bad network ---- */
#define CONNECTIONS 24

struct fate {
	uint32_t client, server, end; /* end: what the server does, and who disconnects */
	bool up_client, up_server, refused, over_client, over_server;
};

static struct fate *fate_of(struct fate *f, uint32_t id, bool server)
{
	for (unsigned i = 0; i < CONNECTIONS; i++)
		if ((server ? f[i].server : f[i].client) == id)
			return &f[i];
	return NULL;
}

static void act_server(struct fate *f, const struct sp_cm_event *e)
{
	struct fate *x = e->type == SP_CM_EVENT_REQUEST ? &f[e->qp - 1000] : fate_of(f, e->id, true);

	CU_ASSERT_PTR_NOT_NULL_FATAL(x);
	if (e->type == SP_CM_EVENT_REQUEST) {
		CU_ASSERT_EQUAL(x->server, 0);
		x->server = e->id;
		CU_ASSERT_EQUAL(
			cm_answer_with(SERVER, APP, x->end % 4 == 3 ? SP_CM_REJECT : SP_CM_ACCEPT, e->id, e->qp + 1000),
			0);
	} else if (e->type == SP_CM_EVENT_ESTABLISHED) {
		x->up_server = true;
		if (x->end % 4 != 1)
			CU_ASSERT_EQUAL(cm_with(SERVER, APP, SP_CM_DISCONNECT, e->id), 0);
	} else if (e->type == SP_CM_EVENT_DISCONNECTED) {
		CU_ASSERT_EQUAL(e->status, 0);
		x->over_server = true;
		cm_with(SERVER, APP, SP_CM_DISCONNECT, e->id);
	} else {
		CU_ASSERT_EQUAL(e->type, SP_CM_EVENT_TIMEWAIT);
	}
}

static void act_client(struct fate *f, const struct sp_cm_event *e)
{
	struct fate *x = fate_of(f, e->id, false);

	CU_ASSERT_PTR_NOT_NULL_FATAL(x);
	if (e->type == SP_CM_EVENT_RESPONSE) {
		x->up_client = true;
		CU_ASSERT_EQUAL(e->qp, 2000 + (uint32_t)(x - f));
		CU_ASSERT_EQUAL(cm_with(CLIENT, APP, SP_CM_READY, e->id), 0);
		if (x->end % 4 == 1 || x->end % 8 == 2)
			CU_ASSERT_EQUAL(cm_with(CLIENT, APP, SP_CM_DISCONNECT, e->id), 0);
	} else if (e->type == SP_CM_EVENT_DISCONNECTED) {
		CU_ASSERT_EQUAL(e->status, 0);
		x->over_client = true;
		cm_with(CLIENT, APP, SP_CM_DISCONNECT, e->id);
	} else if (e->type == SP_CM_EVENT_REJECTED) {
		CU_ASSERT_EQUAL(e->status, SP_CM_CONSUMER);
		x->refused = true;
	} else {
		CU_ASSERT_EQUAL(e->type, SP_CM_EVENT_TIMEWAIT);
	}
}

static void storm(uint64_t seed)
{
	struct fate f[CONNECTIONS] = {{0}};
	struct cm_told t;

	cm_world_open(seed, NULL);
	cm_world.loss = cm_world_draw(4) * 100;
	cm_world.twice = cm_world_draw(4) * 100;
	cm_world.jitter = (uint64_t)cm_world_draw(3) * 800 * SP_MS;
	listening(SP_CM_CONNECTED, 0);
	for (uint32_t i = 0; i < CONNECTIONS; i++) {
		f[i].end = cm_world_draw(8);
		f[i].client = connecting(SP_CM_CONNECTED, 1000 + i);
	}
	for (unsigned i = 0; i < 3000; i++) {
		pass(50 * SP_MS);
		while (cm_next(SERVER, APP, &t))
			act_server(f, &t.e);
		while (cm_next(CLIENT, APP, &t))
			act_client(f, &t.e);
	}
	for (unsigned i = 0; i < CONNECTIONS; i++) {
		const bool refused = f[i].end % 4 == 3;

		CU_ASSERT_EQUAL(f[i].refused, refused);
		CU_ASSERT_EQUAL(f[i].up_client, !refused);
		CU_ASSERT_EQUAL(f[i].over_client, !refused);
		CU_ASSERT_EQUAL(f[i].over_server, !refused);
		cm_with(CLIENT, APP, SP_CM_DESTROY, f[i].client);
		cm_with(SERVER, APP, SP_CM_DESTROY, f[i].server);
	}
	pass(60 * SP_SEC);
	CU_ASSERT_EQUAL(cm_used(CLIENT), 0);
	CU_ASSERT_EQUAL(cm_used(SERVER), 1);
	CU_ASSERT_EQUAL(cm_of_id(SERVER, cm_of(&cm_world.nic[SERVER].c)->app[0].list->local)->waiting, 0);
	cm_world_close();
}

TEST(connections_end_alike_over_any_network)
{
	for (uint64_t seed = 1; seed <= suite_times(200); seed++)
		storm(seed);
}

/* Applications that do anything at any moment, and go: nothing is left, however bad the network. */
static void anything(uint64_t seed)
{
	uint32_t id[2][16] = {{0}};
	struct cm_told t;

	cm_world_open(seed, NULL);
	cm_world.loss = cm_world_draw(6) * 150;
	cm_world.twice = cm_world_draw(4) * 100;
	cm_world.jitter = (uint64_t)cm_world_draw(3) * 800 * SP_MS;
	for (unsigned n = 0; n < 2; n++)
		for (uint32_t kind = 0; kind < 2; kind++)
			cm_listen_on(n, APP, (uint32_t)cm_new(n, APP, kind), PORT, 1 + cm_world_draw(4));
	for (unsigned i = 0; i < 600; i++) {
		const unsigned n = cm_world_draw(2);
		uint32_t *x = &id[n][cm_world_draw(16)];
		const uint32_t what = cm_world_draw(12), qp = 2 + cm_world_draw(40);

		pass((uint64_t)cm_world_draw(1000) * SP_MS);
		if (!*x)
			*x = (uint32_t)cm_new(n, APP, cm_world_draw(2));
		if (what < 4)
			cm_connect_to(n, APP, *x, cm_world.nic[cm_world_draw(8) ? !n : n].ip, PORT, qp);
		else if (what < 7 && cm_next(n, APP, &t))
			*x = t.e.id;
		else if (what < 8)
			cm_answer_with(n, APP, SP_CM_ACCEPT, *x, qp);
		else if (what < 11)
			cm_with(n, APP, what == 8 ? SP_CM_READY : what == 9 ? SP_CM_DISCONNECT : SP_CM_ESTABLISHED, *x);
		else if (cm_world_draw(2))
			cm_with(n, APP, SP_CM_DESTROY, *x), *x = 0;
		else
			cm_answer_with(n, APP, SP_CM_REJECT, *x, qp);
	}
	CU_ASSERT_EQUAL(cm_ask(0, APP, SP_CONTROL_GONE, NULL, 0, NULL, 0), 0);
	CU_ASSERT_EQUAL(cm_ask(1, APP, SP_CONTROL_GONE, NULL, 0, NULL, 0), 0);
	pass(200 * SP_SEC);
	for (unsigned n = 0; n < 2; n++) {
		const struct cm *s = cm_of(&cm_world.nic[n].c);

		CU_ASSERT_EQUAL(s->used, 0);
		CU_ASSERT_EQUAL(s->orphan_count, 0);
		CU_ASSERT_EQUAL(s->peer_count, 0);
		for (unsigned k = 0; k < CM_CHAINS; k++)
			for (uint32_t b = 0; b < s->buckets; b++)
				CU_ASSERT_PTR_NULL(s->table[k][b]);
	}
	cm_world_close();
}

TEST(applications_may_do_anything_at_any_moment)
{
	for (uint64_t seed = 1; seed <= suite_times(200); seed++)
		anything(seed);
}
