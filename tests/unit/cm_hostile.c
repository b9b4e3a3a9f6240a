/* SPDX-License-Identifier: BSD-3-Clause */
/* cm and messages that are wrong, forged or far too many. */
#include "../lib/cm_world.h"
#include "cm_vectors.h"

#define SERVER 0
#define CLIENT 1
#define APP    5
#define PORT   0x1C06

static void start(void)
{
	cm_world_open(1, NULL);
}

static struct sp_cm_mad vector(const uint8_t bytes[256])
{
	struct sp_cm_mad m;

	memcpy(&m, bytes, sizeof(m));
	return m;
}

static uint32_t listening(uint32_t kind, uint32_t backlog)
{
	const uint32_t id = (uint32_t)cm_new(SERVER, APP, kind);

	CU_ASSERT_EQUAL(cm_listen_on(SERVER, APP, id, PORT, backlog), PORT);
	return id;
}

static void frame_of(uint8_t *frame, const struct sp_cm_mad *m)
{
	cm_world_frame(frame, cm_world.nic[CLIENT].ip, cm_world.nic[SERVER].ip, m);
}

/* A frame whose byte `at` is changed by `by`. */
static uint32_t give_changed(const struct sp_cm_mad *m, unsigned at, uint8_t by)
{
	uint8_t frame[CM_FRAME];

	frame_of(frame, m);
	frame[at] ^= by;
	return cm_world_give(SERVER, frame);
}

/* Every field that is not as it must be has a drop of its own, and opens nothing. */
TEST_BETWEEN(start, cm_world_close, each_wrong_field_is_dropped_by_name)
{
	static const struct {
		unsigned at;
		uint8_t by;
		enum cm_drop drop;
	} wrong[] = {
		{42, 0x01, CM_BAD_OPCODE},	 {44, 0x01, CM_BAD_PKEY},	 {45, 0x80, CM_BAD_PKEY},
		{54, 0x80, CM_BAD_QKEY},	 {57, 0x01, CM_BAD_QKEY},	 {59, 0x01, CM_NOT_QP1},
		{61, 0x02, CM_NOT_QP1},		 {62, 0x02, CM_BAD_MAD},	 {63, 0x06, CM_OTHER_CLASS},
		{63, 0x86, CM_OTHER_CLASS},	 {64, 0x01, CM_BAD_MAD},	 {65, 0x80, CM_BAD_MAD},
		{66, 0x01, CM_BAD_MAD},		 {78, 0x01, CM_BAD_ATTRIBUTE},	 {79, 0x10, CM_BAD_ATTRIBUTE},
		{79, 0x0A, CM_BAD_ATTRIBUTE},	 {85, 0x01, CM_BAD_MAD},	 {94, 0x01, CM_BAD_FIELD},
		{98, 0x01, CM_BAD_FIELD},	 {120, 0x11, CM_BAD_FIELD},	 {86 + 34, 0x11, CM_BAD_FIELD},
		{86 + 43, 0x04, CM_BAD_FIELD},	 {86 + 49, 0x01, CM_BAD_FIELD},	 {86 + 50, 0x40, CM_BAD_FIELD},
		{86 + 50, 0x30, CM_BAD_FIELD},	 {86 + 51, 0x01, CM_BAD_FIELD},	 {86 + 56, 0x01, CM_WRONG_PEER},
		{86 + 71, 0x01, CM_WRONG_PEER},	 {86 + 87, 0x01, CM_WRONG_PEER}, {86 + 140, 0x10, CM_WRONG_PEER},
		{86 + 141, 0x20, CM_WRONG_PEER}, {86 + 159, 1, CM_WRONG_PEER},	 {86 + 175, 1, CM_WRONG_PEER},
		{29, 0x04, CM_WRONG_PEER},
	};
	const struct sp_cm_mad req = vector(linux_req);
	uint8_t frame[CM_FRAME];

	listening(SP_CM_CONNECTED, 0);
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		const uint32_t verdict = give_changed(&req, wrong[i].at, wrong[i].by);

		if (verdict != SP_DROP(wrong[i].drop))
			printf("# byte %u: 0x%x\n", wrong[i].at, verdict);
		CU_ASSERT_EQUAL(verdict, SP_DROP(wrong[i].drop));
		CU_ASSERT_EQUAL(cm_used(SERVER), 1);
	}
	/* lengths: the frame says more or less than it has */
	for (uint32_t len = 0; len < 300; len++) {
		struct sp_packet p = {.flags = SP_PKT_ROCE, .l3 = 14, .opcode = SP_UD_SEND_ONLY, .frame = frame};

		frame_of(frame, &req);
		p.data = frame + 54;
		p.len = len;
		if (len != 264)
			CU_ASSERT_EQUAL(cm_world_handler->payload(&cm_world.nic[SERVER].c, NULL, &p),
					SP_DROP(CM_BAD_LENGTH));
	}
	CU_ASSERT_EQUAL(cm_used(SERVER), 1);
	CU_ASSERT_EQUAL(give_changed(&req, 0, 0), SP_DONE);
	CU_ASSERT_EQUAL(cm_used(SERVER), 2);
}

/* ---- what is forged ---- */
#define STATES 8

static uint32_t make(enum cm_state state)
{
	struct cm_told t;
	uint32_t id;

	cm_world_open(1, NULL);
	listening(SP_CM_CONNECTED, 0);
	id = (uint32_t)cm_new(CLIENT, APP, SP_CM_CONNECTED);
	CU_ASSERT_EQUAL(cm_connect_to(CLIENT, APP, id, cm_world.nic[SERVER].ip, PORT, 100), 0);
	if (state == CM_REQ_SENT)
		return id;
	cm_world_run(cm_world.now + SP_MS);
	CU_ASSERT_TRUE(cm_next(SERVER, APP, &t));
	cm_answer_with(SERVER, APP, SP_CM_ACCEPT, t.e.id, 200);
	cm_world_run(cm_world.now + SP_MS);
	if (state == CM_REP_RCVD)
		return id;
	cm_with(CLIENT, APP, SP_CM_READY, id);
	cm_world_run(cm_world.now + SP_MS);
	if (state == CM_ESTABLISHED)
		return id;
	if (state == CM_DREQ_RCVD)
		cm_with(SERVER, APP, SP_CM_DISCONNECT, t.e.id);
	else
		cm_with(CLIENT, APP, SP_CM_DISCONNECT, id);
	if (state != CM_DREQ_SENT)
		cm_world_run(cm_world.now + SP_MS);
	if (state == CM_TIMEWAIT)
		cm_with(SERVER, APP, SP_CM_DISCONNECT, t.e.id);
	cm_world_run(cm_world.now + (state == CM_TIMEWAIT ? SP_MS : 0));
	return id;
}

/* A message that would count, were it the peer's; from another address, for ids beside, with another id of the peer or
 * another transaction it does not. */
static void forge(uint32_t id, unsigned attribute, unsigned how)
{
	struct cm_id before = *cm_of_id(CLIENT, id);
	struct sp_cm_mad m = {.header = {1, 7, 2, 3}};
	uint8_t frame[CM_FRAME], from[16];
	uint32_t local = before.remote ? before.remote : 77, remote = id;

	memcpy(from, cm_world.nic[SERVER].ip, 16);
	sp_store_be16(m.header.attribute, (uint16_t)attribute);
	sp_store_be64(m.header.tid, before.state == CM_DREQ_SENT ? sp_load_be64(before.mad.header.tid) : before.tid);
	if (how == 0)
		from[15] = 99;
	else if (how == 1)
		remote += cm_world_draw(2) ? 1 + cm_world_draw(256) : -1 - cm_world_draw(256);
	else if (how == 2 && before.remote)
		local ^= 1u << cm_world_draw(32);
	else if (how == 3)
		m.header.tid[cm_world_draw(8)] ^= 1u << cm_world_draw(8);
	if (how == 3 && attribute != SP_CM_REP && attribute != SP_CM_DREP && attribute != SP_CM_DREQ)
		return; /* of these, the transaction is not looked at */
	if (how == 2 && !before.remote)
		return;
	sp_store_be32(m.ids.local_id, local);
	sp_store_be32(m.ids.remote_id, remote);
	if (attribute == SP_CM_REP)
		m.rep.qp[2] = 200;
	if (attribute == SP_CM_DREQ)
		m.dreq.remote_qp[2] = how == 3 ? 101 : 100; /* of it, the QP is looked at instead */
	cm_world_frame(frame, from, cm_world.nic[CLIENT].ip, &m);
	cm_world_give(CLIENT, frame);
	before.chain[CM_BY_ID] = cm_of_id(CLIENT, id)->chain[CM_BY_ID];
	CU_ASSERT_EQUAL(memcmp(&before, cm_of_id(CLIENT, id), sizeof(before)), 0);
}

TEST(forged_messages_change_nothing_in_any_state)
{
	static const enum cm_state states[] = {CM_REQ_SENT,  CM_REP_RCVD,  CM_ESTABLISHED,
					       CM_DREQ_SENT, CM_DREQ_RCVD, CM_TIMEWAIT};

	for (unsigned i = 0; i < sizeof(states) / sizeof(*states); i++) {
		const uint32_t id = make(states[i]);

		CU_ASSERT_EQUAL(cm_of_id(CLIENT, id)->state, states[i]);
		for (unsigned k = 0; k < 400; k++)
			forge(id, SP_CM_MRA + cm_world_draw(SP_CM_DREP - SP_CM_MRA + 1), k % 4);
		CU_ASSERT_EQUAL(cm_used(CLIENT), 1);
		cm_world_close();
	}
}

/* ---- what is random ---- */
static void whole(unsigned nic)
{
	const struct cm *s = cm_of(&cm_world.nic[nic].c);
	uint32_t used = 0, pending = 0, counted = 0, refs = 0, peered = 0;

	for (uint32_t i = 0; i < s->ids; i++) {
		used += s->id[i].state != CM_FREE;
		counted += s->id[i].state != CM_FREE && s->id[i].counted;
		peered += s->id[i].state != CM_FREE && s->id[i].peer;
		CU_ASSERT_TRUE(s->id[i].state < CM_STATES);
	}
	for (uint32_t i = 0; i < s->peers; i++)
		if (s->peer[i].open) {
			pending += s->peer[i].pending;
			refs += s->peer[i].refs;
		}
	CU_ASSERT_EQUAL(used, s->used);
	CU_ASSERT_EQUAL(pending, counted);
	CU_ASSERT_EQUAL(refs, peered);
}

/* Linux's messages with a few bytes of anything, to a server whose application answers; it survives and ends empty. */
static void shower(uint64_t seed)
{
	static const uint8_t *const all[] = {linux_req,	 linux_rep,	 linux_rtu,	 linux_dreq,
					     linux_drep, linux_sidr_req, linux_sidr_rep, linux_rej};
	struct cm_told t;
	uint32_t id = 0;

	cm_world_open(seed, NULL);
	listening(SP_CM_CONNECTED, 8);
	id = (uint32_t)cm_new(SERVER, APP, SP_CM_DATAGRAM);
	cm_listen_on(SERVER, APP, id, PORT, 8);
	for (unsigned i = 0; i < 600; i++) {
		struct sp_cm_mad m = vector(all[cm_world_draw(8)]);
		uint8_t frame[CM_FRAME];

		if (cm_world_draw(2) && sp_load_be16(m.header.attribute) != SP_CM_SIDR_REQ)
			sp_store_be32(m.ids.remote_id, id);
		if (cm_world_draw(2))
			sp_store_be32(m.ids.local_id, cm_world_draw(8));
		frame_of(frame, &m);
		for (uint32_t k = cm_world_draw(4); k; k--)
			frame[42 + cm_world_draw(CM_FRAME - 42)] = (uint8_t)cm_world_draw(256);
		cm_world_give(SERVER, frame);
		for (unsigned f = 0; f < CM_FRAMES && i % 64 == 0; f++)
			cm_world.frame[f].used = false;
		cm_world.now += cm_world_draw(20) ? 0 : SP_SEC;
		if (cm_next(SERVER, APP, &t)) {
			id = t.e.id;
			CU_ASSERT_TRUE(t.e.private_len <= SP_RDMA_PRIVATE);
			cm_answer_with(SERVER, APP, cm_world_draw(4) ? SP_CM_ACCEPT : SP_CM_REJECT, id, 100);
		}
	}
	whole(SERVER);
	CU_ASSERT_EQUAL(cm_ask(SERVER, APP, SP_CONTROL_GONE, NULL, 0, NULL, 0), 0);
	cm_world_run(cm_world.now + 200 * SP_SEC);
	CU_ASSERT_EQUAL(cm_used(SERVER), 0);
	cm_world_close();
}

TEST(random_messages_leave_all_in_order)
{
	for (uint64_t seed = 1; seed <= suite_times(100); seed++)
		shower(seed);
}

/* ---- what is too much ---- */
static uint32_t flood_from(uint32_t first, uint32_t n, bool spread)
{
	struct sp_cm_mad req = vector(linux_req);
	uint8_t frame[CM_FRAME], from[16];
	uint32_t taken = 0;

	memcpy(from, cm_world.nic[CLIENT].ip, 16);
	for (uint32_t i = first; i < first + n; i++) {
		if (spread) {
			from[13] = (uint8_t)(i >> 16);
			from[14] = (uint8_t)(i >> 8);
			from[15] = (uint8_t)i;
			memcpy(req.req.primary.local_gid, from, 16);
			memcpy(req.req.ip.source + 12, from + 12, 4);
		}
		sp_store_be32(req.req.local_id, 1000 + i);
		req.req.qp[0] = (uint8_t)(i >> 16);
		req.req.qp[1] = (uint8_t)(i >> 8);
		req.req.qp[2] = (uint8_t)(i | 2);
		cm_world_frame(frame, from, cm_world.nic[SERVER].ip, &req);
		taken += cm_world_give(SERVER, frame) == SP_DONE;
	}
	return taken;
}

static uint32_t flood(uint32_t n, bool spread)
{
	return flood_from(0, n, spread);
}

static void forget_frames(void)
{
	for (unsigned f = 0; f < CM_FRAMES; f++)
		cm_world.frame[f].used = false;
}

TEST(floods_are_bounded_and_counted)
{
	static const char *const few[] = {"ids",  "512",   "peer-pending", "100", "peer-burst",
					  "3000", "peers", "64",	   NULL};
	struct cm_told t;
	uint64_t *drops = cm_world.nic[SERVER].drops;

	cm_world_open(1, few);
	listening(SP_CM_CONNECTED, 150);
	flood(5000, false); /* from one address */
	CU_ASSERT_TRUE(cm_used(SERVER) <= 101);
	CU_ASSERT_TRUE(drops[CM_PEER_FULL] > 0);
	CU_ASSERT_TRUE(drops[CM_FLOOD] >= 1900);
	forget_frames();
	flood(5000, true); /* from as many as one likes */
	CU_ASSERT_TRUE(cm_used(SERVER) <= 151);
	CU_ASSERT_TRUE(cm_world.nic[SERVER].paths <= 64);
	CU_ASSERT_TRUE(drops[CM_PEERS] > 0 || drops[CM_BACKLOG] > 0);
	whole(SERVER);
	forget_frames();
	while (cm_next(SERVER, APP, &t)) /* the application has had enough of them */
		cm_with(SERVER, APP, SP_CM_DESTROY, t.e.id);
	forget_frames();
	cm_world_run(cm_world.now + 10 * SP_SEC);
	const uint32_t id = (uint32_t)cm_new(CLIENT, APP, SP_CM_CONNECTED);
	CU_ASSERT_EQUAL(cm_connect_to(CLIENT, APP, id, cm_world.nic[SERVER].ip, PORT, 0xABCDEF), 0);
	cm_world_run(cm_world.now + SP_MS);
	CU_ASSERT_TRUE(cm_next(SERVER, APP, &t));
	CU_ASSERT_EQUAL(t.e.qp, 0xABCDEF);
	cm_with(SERVER, APP, SP_CM_DESTROY, t.e.id);
	cm_world_run(cm_world.now + 60 * SP_SEC);
	CU_ASSERT_EQUAL(cm_world.nic[SERVER].paths, 0);
	cm_world_close();
}

/* REQs for a service that nobody has, and for one that nobody accepts: as many as one likes, from one address and from
 * as many as there are. */
TEST(a_hundred_thousand_requests_cost_a_bounded_number_of_answers_and_ids)
{
	for (unsigned how = 0; how < 4; how++) {
		const bool spread = how & 1, served = how & 2;
		const uint32_t n = suite_times(served ? 20000 : 100000);
		const struct cm_nic *server = &cm_world.nic[SERVER];
		const struct cm *s;

		cm_world_open(1, NULL);
		s = cm_of(&cm_world.nic[SERVER].c);
		if (served)
			listening(SP_CM_CONNECTED, 0);
		for (uint32_t i = 0; i < n; i += 5000) {
			flood_from(i, 5000, spread);
			forget_frames();
		}
		CU_ASSERT_TRUE(cm_used(SERVER) <= (served ? 1025 : 0));
		CU_ASSERT_TRUE(server->paths <= s->peers);
		CU_ASSERT_TRUE(server->counters[CM_SENT] <= (spread ? n : s->peer_burst + 1));
		CU_ASSERT_EQUAL(server->taken + server->drops[CM_FLOOD] + server->drops[CM_PEERS] +
					server->drops[CM_PEER_FULL] + server->drops[CM_BACKLOG],
				n);
		CU_ASSERT_EQUAL(server->taken, server->counters[CM_SENT] + (served ? cm_used(SERVER) - 1 : 0));
		CU_ASSERT_TRUE(spread || server->drops[CM_FLOOD] + s->peer_burst + 1 >= n);
		whole(SERVER);
		CU_ASSERT_EQUAL(cm_ask(SERVER, APP, SP_CONTROL_GONE, NULL, 0, NULL, 0), 0);
		forget_frames();
		cm_world_run(cm_world.now + 100 * SP_SEC);
		CU_ASSERT_EQUAL(cm_used(SERVER), 0);
		cm_world_close();
	}
}

/* A REP is rejected, a DREQ answered: once each, and no more than that. All others are dropped. Nothing is kept. */
TEST_BETWEEN(start, cm_world_close, messages_for_unknown_ids_leave_nothing)
{
	struct cm_nic *server = &cm_world.nic[SERVER];
	uint8_t frame[CM_FRAME];

	for (unsigned attribute = SP_CM_MRA; attribute <= SP_CM_SIDR_REP; attribute++) {
		const bool answered = attribute == SP_CM_REP || attribute == SP_CM_DREQ;
		const uint64_t sent = server->counters[CM_SENT], unknown = server->drops[CM_UNKNOWN];
		struct sp_cm_mad m = {.header = {1, 7, 2, 3}};

		if (attribute == SP_CM_SIDR_REQ)
			continue;
		sp_store_be16(m.header.attribute, (uint16_t)attribute);
		for (uint32_t i = 0; i < 100; i++) {
			sp_store_be32(m.ids.local_id, 1 + i);
			sp_store_be32(m.ids.remote_id, 0x1000 + i);
			m.rep.qp[2] = 9;
			frame_of(frame, &m);
			cm_world_give(SERVER, frame);
		}
		CU_ASSERT_EQUAL(server->drops[CM_UNKNOWN], unknown + 100);
		CU_ASSERT_EQUAL(server->counters[CM_SENT], sent + (answered ? 100 : 0));
		CU_ASSERT_EQUAL(cm_used(SERVER), 0);
		forget_frames();
	}
	CU_ASSERT_PTR_NULL(server->timer ? server->timer->next : NULL); /* the peer's, at most */
}

/* Who may not have more ids is told so; others still may. */
TEST(an_application_has_its_share_of_ids)
{
	static const char *const few[] = {"ids", "64", "ids-per-application", "32", "applications", "2", NULL};
	uint32_t ids = 0;

	cm_world_open(1, few);
	while (cm_new(SERVER, 1, SP_CM_CONNECTED) > 0)
		ids++;
	CU_ASSERT_EQUAL(ids, 32);
	CU_ASSERT_EQUAL(cm_new(SERVER, 1, SP_CM_CONNECTED), -ENOSPC);
	CU_ASSERT_TRUE(cm_new(SERVER, 2, SP_CM_CONNECTED) > 0);
	CU_ASSERT_EQUAL(cm_new(SERVER, 3, SP_CM_CONNECTED), -ENOSPC);
	CU_ASSERT_EQUAL(cm_ask(SERVER, 1, SP_CONTROL_GONE, NULL, 0, NULL, 0), 0);
	CU_ASSERT_TRUE(cm_new(SERVER, 3, SP_CM_CONNECTED) > 0);
	cm_world_close();
}

/* Nor does an application speak with all peers that there may be, be it that it asks or that it is asked. */
TEST(an_application_has_its_share_of_peers)
{
	static const char *const few[] = {"peers", "16", "peers-per-application", "10", NULL};
	uint8_t to[16];
	uint32_t mine = 0, ids[20];

	cm_world_open(1, few);
	memcpy(to, cm_world.nic[SERVER].ip, 16);
	for (unsigned i = 0; i < 20; i++) {
		ids[i] = (uint32_t)cm_new(CLIENT, APP, SP_CM_CONNECTED);
		to[15] = (uint8_t)(100 + i % 12); /* some of them twice */
		mine += !cm_connect_to(CLIENT, APP, ids[i], to, PORT, 100 + i);
	}
	CU_ASSERT_EQUAL(mine, 18); /* 10, and 8 of them once more */
	const uint32_t other = (uint32_t)cm_new(CLIENT, APP + 1, SP_CM_CONNECTED);
	to[15] = 111;
	CU_ASSERT_EQUAL(cm_connect_to(CLIENT, APP, ids[11], to, PORT, 200), -ENOSPC);
	CU_ASSERT_EQUAL(cm_connect_to(CLIENT, APP + 1, other, to, PORT, 100), 0);
	CU_ASSERT_EQUAL(cm_connect_to(CLIENT, APP, ids[11], to, PORT, 200), 0); /* that one is not its own */
	cm_with(CLIENT, APP, SP_CM_DESTROY, ids[9]);
	to[15] = 150;
	CU_ASSERT_EQUAL(cm_connect_to(CLIENT, APP, ids[10], to, PORT, 200), 0);
	/* Strangers that ask for its service. */
	listening(SP_CM_CONNECTED, 0);
	CU_ASSERT_EQUAL(flood(100, true), 10);
	CU_ASSERT_TRUE(cm_world.nic[SERVER].drops[CM_PEERS] == 90);
	CU_ASSERT_EQUAL(cm_ask(CLIENT, APP, SP_CONTROL_GONE, NULL, 0, NULL, 0), 0);
	whole(CLIENT);
	forget_frames();
	cm_world_close();
}

/* A REQ with a QP that the peer knows as another's connection would end that one: the peer takes it for stale. */
TEST_BETWEEN(start, cm_world_close, an_application_names_its_own_qps_only)
{
	const uint32_t id = (uint32_t)cm_new(CLIENT, APP, SP_CM_CONNECTED);
	const uint32_t other = (uint32_t)cm_new(CLIENT, APP + 1, SP_CM_CONNECTED);
	const uint32_t datagrams = (uint32_t)cm_new(SERVER, APP, SP_CM_DATAGRAM);
	const uint8_t *server = cm_world.nic[SERVER].ip;
	struct cm_told t;

	listening(SP_CM_CONNECTED, 0);
	CU_ASSERT_EQUAL(cm_connect_to(CLIENT, APP, id, server, PORT, CM_OWNED + APP), 0);
	cm_world_run(cm_world.now + SP_MS);
	CU_ASSERT_TRUE(cm_next(SERVER, APP, &t));
	CU_ASSERT_EQUAL(cm_answer_with(SERVER, APP, SP_CM_ACCEPT, t.e.id, CM_OWNED + 77), -EACCES);
	CU_ASSERT_EQUAL(cm_of_id(SERVER, t.e.id)->state, CM_REQ_RCVD);
	CU_ASSERT_EQUAL(cm_answer_with(SERVER, APP, SP_CM_ACCEPT, t.e.id, CM_OWNED + APP), 0);
	cm_world_run(cm_world.now + SP_MS);
	CU_ASSERT_EQUAL(cm_with(CLIENT, APP, SP_CM_READY, id), 0);
	CU_ASSERT_EQUAL(cm_connect_to(CLIENT, APP + 1, other, server, PORT, CM_OWNED + APP), -EACCES);
	cm_world_run(cm_world.now + SP_SEC);
	CU_ASSERT_EQUAL(cm_of_id(CLIENT, id)->state, CM_ESTABLISHED);
	CU_ASSERT_EQUAL(cm_of_id(SERVER, t.e.id)->state, CM_ESTABLISHED);
	CU_ASSERT_EQUAL(cm_of_id(CLIENT, other)->state, CM_IDLE);
	CU_ASSERT_EQUAL(cm_connect_to(CLIENT, APP + 1, other, server, PORT, CM_OWNED + APP + 1), 0);
	/* Datagrams: the peer would send them to another's QP. */
	CU_ASSERT_EQUAL(cm_listen_on(SERVER, APP, datagrams, PORT + 1, 0), PORT + 1);
	const uint32_t asks = (uint32_t)cm_new(CLIENT, APP, SP_CM_DATAGRAM);
	CU_ASSERT_EQUAL(cm_connect_to(CLIENT, APP, asks, server, PORT + 1, 0), 0);
	cm_world_run(cm_world.now + SP_MS);
	while (cm_next(SERVER, APP, &t) && t.e.qp_type != SP_RDMA_UD)
		;
	CU_ASSERT_EQUAL(cm_answer_with(SERVER, APP, SP_CM_ACCEPT, t.e.id, CM_OWNED), -EACCES);
	CU_ASSERT_EQUAL(cm_answer_with(SERVER, APP, SP_CM_ACCEPT, t.e.id, CM_OWNED + APP), 0);
}

/* Requests of applications that are no such: any length, any op, any field. */
TEST_BETWEEN(start, cm_world_close, requests_of_applications_are_checked)
{
	uint8_t in[512], out[512];

	for (unsigned i = 0; i < suite_times(100000); i++) {
		const uint32_t len = cm_world_draw(cm_world_draw(2) ? 512 : 80), room = cm_world_draw(400);

		for (unsigned k = 0; k < sizeof(in); k++)
			in[k] = cm_world_draw(3) ? 0 : (uint8_t)cm_world_draw(256);
		cm_ask(CLIENT, 1 + cm_world_draw(3), cm_world_draw(12), in, len, out, room);
	}
	whole(CLIENT);
}
