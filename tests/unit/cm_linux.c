/* SPDX-License-Identifier: BSD-3-Clause */
/* cm says what Linux says, byte for byte, but for what either side draws: its id, the transaction and the GUID. */
#include "../lib/cm_world.h"
#include "cm_vectors.h"

#define SERVER 0
#define CLIENT 1
#define APP    5

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

/* The message that is on its way, which gets lost. */
static struct sp_cm_mad sent(void)
{
	struct sp_cm_mad m = {.header = {0}};

	for (unsigned i = 0; i < CM_FRAMES; i++)
		if (cm_world.frame[i].used) {
			memcpy(&m, cm_world.frame[i].bytes + 62, sizeof(m));
			cm_world.frame[i].used = false;
		}
	return m;
}

static uint32_t give(unsigned to, const struct sp_cm_mad *m)
{
	uint8_t frame[CM_FRAME];

	cm_world_frame(frame, cm_world.nic[!to].ip, cm_world.nic[to].ip, m);
	return cm_world_give(to, frame);
}

static void same(const struct sp_cm_mad *is, const struct sp_cm_mad *as)
{
	for (unsigned i = 0; i < sizeof(*is); i++)
		if (((const uint8_t *)is)[i] != ((const uint8_t *)as)[i]) {
			printf("# byte %u (of the message %d): 0x%02x, Linux has 0x%02x\n", i, (int)i - 24,
			       ((const uint8_t *)is)[i], ((const uint8_t *)as)[i]);
			CU_FAIL("not as Linux");
		}
}

TEST_BETWEEN(start, cm_world_close, a_client_speaks_as_that_of_linux)
{
	struct sp_cm_mad req = vector(linux_req), rep = vector(linux_rep), rtu = vector(linux_rtu),
			 dreq = vector(linux_dreq), drep = vector(linux_drep), is;
	const uint32_t id = (uint32_t)cm_new(CLIENT, APP, SP_CM_CONNECTED);
	struct sp_cm_param p = {.id = id,
				.qp = 0x11,
				.psn = 0xAC9F31,
				.to_port = 0x1C06,
				.from_port = 0xA9C0,
				.type = SP_RDMA_RC,
				.responder_resources = 1,
				.initiator_depth = 1,
				.retry_count = 7,
				.rnr_retry_count = 7};
	struct cm_told t;

	memcpy(p.to, cm_world.nic[SERVER].ip, 16);
	memcpy(p.from, cm_world.nic[CLIENT].ip, 16);
	CU_ASSERT_EQUAL(cm_ask(CLIENT, APP, SP_CM_CONNECT, &p, sizeof(p), NULL, 0), 0);
	is = sent();
	CU_ASSERT_EQUAL(sp_load_be32(is.req.local_id), id);
	CU_ASSERT_NOT_EQUAL(sp_load_be64(is.req.guid), 0);
	memcpy(req.header.tid, is.header.tid, 8);
	memcpy(req.req.local_id, is.req.local_id, 4);
	memcpy(req.req.guid, is.req.guid, 8);
	same(&is, &req);

	memcpy(rep.header.tid, is.header.tid, 8);
	sp_store_be32(rep.rep.remote_id, id);
	CU_ASSERT_EQUAL(give(CLIENT, &rep), SP_DONE);
	CU_ASSERT_TRUE_FATAL(cm_next(CLIENT, APP, &t));
	CU_ASSERT_EQUAL(t.e.type, SP_CM_EVENT_RESPONSE);
	CU_ASSERT_EQUAL(t.e.qp, 0x11);
	CU_ASSERT_EQUAL(t.e.psn, 0x51A95C);
	CU_ASSERT_EQUAL(t.e.rnr_retry_count, 7);
	CU_ASSERT_EQUAL(t.e.responder_resources, 1);
	CU_ASSERT_EQUAL(t.e.private_len, 196);
	CU_ASSERT_EQUAL(cm_with(CLIENT, APP, SP_CM_READY, id), 0);
	is = sent();
	memcpy(rtu.header.tid, is.header.tid, 8);
	sp_store_be32(rtu.rtu.local_id, id);
	same(&is, &rtu);

	CU_ASSERT_EQUAL(cm_with(CLIENT, APP, SP_CM_DISCONNECT, id), 0);
	is = sent();
	memcpy(dreq.header.tid, is.header.tid, 8);
	sp_store_be32(dreq.dreq.local_id, id);
	same(&is, &dreq);
	memcpy(drep.header.tid, is.header.tid, 8);
	sp_store_be32(drep.drep.remote_id, id);
	CU_ASSERT_EQUAL(give(CLIENT, &drep), SP_DONE);
	CU_ASSERT_TRUE_FATAL(cm_next(CLIENT, APP, &t));
	CU_ASSERT_EQUAL(t.e.type, SP_CM_EVENT_DISCONNECTED);
}

TEST_BETWEEN(start, cm_world_close, a_server_speaks_as_that_of_linux)
{
	struct sp_cm_mad req = vector(linux_req), rep = vector(linux_rep), rtu = vector(linux_rtu),
			 dreq = vector(linux_dreq), drep = vector(linux_drep), is;
	const uint32_t listener = (uint32_t)cm_new(SERVER, APP, SP_CM_CONNECTED);
	struct cm_told t;
	uint32_t id;

	CU_ASSERT_EQUAL(cm_listen_on(SERVER, APP, listener, 0x1C06, 0), 0x1C06);
	CU_ASSERT_EQUAL(give(SERVER, &req), SP_DONE);
	CU_ASSERT_TRUE_FATAL(cm_next(SERVER, APP, &t));
	CU_ASSERT_EQUAL(t.e.type, SP_CM_EVENT_REQUEST);
	CU_ASSERT_EQUAL(t.e.cookie, 7);
	CU_ASSERT_EQUAL(t.e.qp, 0x11);
	CU_ASSERT_EQUAL(t.e.psn, 0xAC9F31);
	CU_ASSERT_EQUAL(t.e.peer_port, 0xA9C0);
	CU_ASSERT_EQUAL(t.e.own_port, 0x1C06);
	CU_ASSERT_EQUAL(t.e.qp_type, SP_RDMA_RC);
	CU_ASSERT_EQUAL(t.e.path_mtu_code, 3);
	CU_ASSERT_EQUAL(t.e.timeout, 19);
	CU_ASSERT_EQUAL(t.e.retry_count, 7);
	CU_ASSERT_EQUAL(t.e.rnr_retry_count, 7);
	CU_ASSERT_EQUAL(t.e.private_len, 56);
	CU_ASSERT_EQUAL(memcmp(t.e.peer, cm_world.nic[CLIENT].ip, 16), 0);
	CU_ASSERT_EQUAL(memcmp(t.e.own, cm_world.nic[SERVER].ip, 16), 0);
	id = t.e.id;
	struct sp_cm_param p = {.id = id,
				.qp = 0x11,
				.psn = 0x51A95C,
				.type = SP_RDMA_RC,
				.responder_resources = 1,
				.initiator_depth = 1,
				.rnr_retry_count = 7};
	CU_ASSERT_EQUAL(cm_ask(SERVER, APP, SP_CM_ACCEPT, &p, sizeof(p), NULL, 0), 0);
	is = sent();
	sp_store_be32(rep.rep.local_id, id);
	memcpy(rep.rep.guid, is.rep.guid, 8);
	same(&is, &rep);

	sp_store_be32(rtu.rtu.remote_id, id);
	CU_ASSERT_EQUAL(give(SERVER, &rtu), SP_DONE);
	CU_ASSERT_TRUE_FATAL(cm_next(SERVER, APP, &t));
	CU_ASSERT_EQUAL(t.e.type, SP_CM_EVENT_ESTABLISHED);
	sp_store_be32(dreq.dreq.remote_id, id);
	CU_ASSERT_EQUAL(give(SERVER, &dreq), SP_DONE);
	CU_ASSERT_TRUE_FATAL(cm_next(SERVER, APP, &t));
	CU_ASSERT_EQUAL(t.e.type, SP_CM_EVENT_DISCONNECTED);
	CU_ASSERT_EQUAL(cm_with(SERVER, APP, SP_CM_DISCONNECT, id), 0);
	is = sent();
	sp_store_be32(drep.drep.local_id, id);
	same(&is, &drep);
}

TEST_BETWEEN(start, cm_world_close, datagrams_are_resolved_as_by_linux)
{
	struct sp_cm_mad req = vector(linux_sidr_req), rep = vector(linux_sidr_rep), is;
	const uint32_t listener = (uint32_t)cm_new(SERVER, APP, SP_CM_DATAGRAM);
	const uint32_t id = (uint32_t)cm_new(CLIENT, APP, SP_CM_DATAGRAM);
	struct sp_cm_param p = {.id = id, .to_port = 0x1C06, .from_port = 0xA751, .type = SP_RDMA_UD};
	struct cm_told t;

	CU_ASSERT_EQUAL(cm_listen_on(SERVER, APP, listener, 0x1C06, 0), 0x1C06);
	CU_ASSERT_EQUAL(give(SERVER, &req), SP_DONE);
	CU_ASSERT_TRUE_FATAL(cm_next(SERVER, APP, &t));
	CU_ASSERT_EQUAL(t.e.type, SP_CM_EVENT_REQUEST);
	CU_ASSERT_EQUAL(t.e.peer_port, 0xA751);
	CU_ASSERT_EQUAL(t.e.private_len, 180);
	CU_ASSERT_EQUAL(cm_answer_with(SERVER, APP, SP_CM_ACCEPT, t.e.id, 0x13), 0);
	is = sent();
	same(&is, &rep);
	CU_ASSERT_EQUAL(give(SERVER, &req), SP_DONE); /* it was lost */
	is = sent();
	same(&is, &rep);

	memcpy(p.to, cm_world.nic[SERVER].ip, 16);
	memcpy(p.from, cm_world.nic[CLIENT].ip, 16);
	CU_ASSERT_EQUAL(cm_ask(CLIENT, APP, SP_CM_CONNECT, &p, sizeof(p), NULL, 0), 0);
	is = sent();
	memcpy(req.header.tid, is.header.tid, 8);
	sp_store_be32(req.sidr_req.id, id);
	same(&is, &req);
	memcpy(rep.header.tid, is.header.tid, 8);
	sp_store_be32(rep.sidr_rep.id, id);
	CU_ASSERT_EQUAL(give(CLIENT, &rep), SP_DONE);
	CU_ASSERT_TRUE_FATAL(cm_next(CLIENT, APP, &t));
	CU_ASSERT_EQUAL(t.e.type, SP_CM_EVENT_ESTABLISHED);
	CU_ASSERT_EQUAL(t.e.qp, 0x13);
	CU_ASSERT_EQUAL(t.e.qkey, 0x01234567);
}

TEST_BETWEEN(start, cm_world_close, who_asks_for_what_nobody_serves_is_told_as_by_linux)
{
	const struct sp_cm_mad req = vector(linux_refused_req), rej = vector(linux_rej);

	memcpy(cm_world.nic[0].ip + 12, (uint8_t[]){192, 0, 2, 1}, 4);
	memcpy(cm_world.nic[1].ip + 12, (uint8_t[]){192, 0, 2, 2}, 4);
	CU_ASSERT_EQUAL(give(SERVER, &req), SP_DONE);
	const struct sp_cm_mad is = sent();
	same(&is, &rej);
	CU_ASSERT_EQUAL(cm_used(SERVER), 0);
}

TEST_BETWEEN(start, cm_world_close, private_data_come_as_they_were_sent)
{
	const struct sp_cm_mad req = vector(linux_private_req);
	struct sp_cm_mad rep = vector(linux_private_rep), is;
	const uint32_t listener = (uint32_t)cm_new(SERVER, APP, SP_CM_CONNECTED);
	struct cm_told t;

	memcpy(cm_world.nic[0].ip + 12, (uint8_t[]){192, 0, 2, 1}, 4);
	memcpy(cm_world.nic[1].ip + 12, (uint8_t[]){192, 0, 2, 2}, 4);
	CU_ASSERT_EQUAL(cm_listen_on(SERVER, APP, listener, 0x1D2F, 0), 0x1D2F);
	CU_ASSERT_EQUAL(give(SERVER, &req), SP_DONE);
	CU_ASSERT_TRUE_FATAL(cm_next(SERVER, APP, &t));
	CU_ASSERT_EQUAL(memcmp(t.private_data, req.req.private_data, 56), 0);
	struct {
		struct sp_cm_param p;
		uint8_t data[196];
	} a = {.p = {.id = t.e.id, .qp = 0x11, .psn = 0xA1C7D2, .type = SP_RDMA_RC, .rnr_retry_count = 7}};
	a.p.private_len = 196;
	memcpy(a.data, rep.rep.private_data, 196);
	CU_ASSERT_EQUAL(cm_ask(SERVER, APP, SP_CM_ACCEPT, &a, sizeof(a.p) + 196, NULL, 0), 0);
	is = sent();
	memcpy(rep.rep.local_id, is.rep.local_id, 4);
	memcpy(rep.rep.guid, is.rep.guid, 8);
	rep.rep.ack_delay &= 0xFE; /* rsockets asks for end-to-end flow control, which no RoCE device has */
	same(&is, &rep);
}
