/* SPDX-License-Identifier: BSD-3-Clause */
/* A hostile application: requests that are nonsense, another's objects, keys of services, its end at any moment. It
 * costs nobody but itself. */
#include "../lib/rdma_nic.h"
#include "../lib/tx_ring.h"

#define WAY(i) ((RN_PSN + (i)) & 0xFFFFFF)

static void start_rc(void)
{
	rn_begin("");
	rn_connect(SP_RDMA_RC);
}

static void start_ud(void)
{
	rn_begin("");
	rn_connect(SP_RDMA_UD);
}

static bool works(uint32_t psn)
{
	rn_receive(77, 0, 100);
	rn_ack = true;
	rn_packet(SP_RC_SEND_ONLY, psn, NULL, 0, NULL, 8);
	return rn_acked(0x1F, psn) && rn_completed(77, SP_RDMA_OK, SP_RDMA_WC_RECV, 8);
}

/* ---- requests ---- */
static uint64_t seed;

/* Any of a context's requests with so many bytes, and as many random ones in front. */
static int nonsense(uint32_t context, bool service, uint32_t op, uint32_t qp, uint32_t len, uint32_t random)
{
	uint8_t *in = malloc(len ? len : 1), out[512]; /* of exactly its length */
	uint32_t room = (uint32_t)dut_random(&seed) % sizeof(out), r;

	CU_ASSERT_FATAL(in != NULL);
	for (uint32_t i = 0; i < len; i++)
		in[i] = i < random ? (uint8_t)dut_random(&seed) : 0;
	r = (uint32_t)sp_control_call(dut.dev, context, service, op, qp, in, len, out, &room);
	CU_ASSERT((int)r <= 0);
	free(in);
	return (int)r;
}

TEST_BETWEEN(start_rc, rn_stop, requests_of_any_length_and_content_are_refused_or_done)
{
	const uint32_t liar = dut_context(&dut, "liar", "rdma", "qp=128;qps=4;cqs=4;srqs=4;mrs=8;pds=4;ahs=4");
	struct sp_event e;

	seed = 1;
	rn_watch();
	for (uint32_t op = 0; op < 24; op++)
		for (uint32_t len = 0; len <= SP_CONTROL_BYTES; len += len < 200 ? 1 : len < 2000 ? 97 : 1031)
			for (unsigned how = 0; how < 4; how++)
				nonsense(liar, how & 1, op, how & 2 ? 128 + op % 5 : 0, len, op * len % 3 * 16);
	while (sp_event_take(dut.dev, liar, &e) == 1)
		;
	rn_go();
	CU_ASSERT(rn_only(0, 0));
	CU_ASSERT(works(WAY(0)));
	/* All ids that there may be, of the kinds that there are none of. */
	for (uint32_t op = SP_RDMA_PD_DESTROY; op <= SP_RDMA_AH_DESTROY; op++)
		for (uint32_t id = 0; id < 200; id++)
			sp_control_call(dut.dev, liar, false, op, 0, &id, sizeof(id), NULL, NULL);
	CU_ASSERT(works(WAY(1)));
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, liar), 0);
}

TEST_BETWEEN(start_rc, rn_stop, nobody_finds_anothers_objects)
{
	const uint32_t liar = dut_context(&dut, "liar", "rdma", "qp=128;qps=4");
	struct sp_rdma_qp_attr attr = {.mask = SP_RDMA_QP_STATE, .state = SP_RDMA_RESET};
	const struct sp_command bell = {.op = SP_RDMA_CMD_DOORBELL,
					.flags = SP_CMD_ON(rn_worker) | SP_CMD_REPLY,
					.context = liar,
					.arg = {rn_qpn}};
	struct sp_event result;
	uint32_t bytes = sizeof(attr);

	CU_ASSERT_EQUAL(
		sp_control_call(dut.dev, liar, false, SP_RDMA_QP_MODIFY, rn_qpn, &attr, sizeof(attr), NULL, NULL),
		-ENOENT);
	CU_ASSERT_EQUAL(sp_control_call(dut.dev, liar, false, SP_RDMA_QP_QUERY, rn_qpn, NULL, 0, &attr, &bytes),
			-ENOENT);
	CU_ASSERT_EQUAL(sp_control_call(dut.dev, liar, false, SP_RDMA_QP_DESTROY, rn_qpn, NULL, 0, NULL, NULL),
			-ENOENT);
	CU_ASSERT_EQUAL(sp_control_call(dut.dev, liar, false, SP_RDMA_MR_DEREG, 0, &rn_key, 4, NULL, NULL), -ENOENT);
	CU_ASSERT_EQUAL(sp_control_call(dut.dev, liar, false, SP_RDMA_CQ_DESTROY, 0, &rn_cq, 4, NULL, NULL), -ENOENT);
	CU_ASSERT_EQUAL(sp_control_call(dut.dev, liar, false, SP_RDMA_PD_DESTROY, 0, &rn_pd, 4, NULL, NULL), -ENOENT);
	CU_ASSERT_EQUAL(sp_command_call(dut.dev, &bell, &result), -ENOENT);
	CU_ASSERT(works(WAY(0)));
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, liar), 0);
}

/* ---- connection management ---- */
static int ask_cm(uint32_t context, uint32_t op, const void *in, uint32_t len, void *out, uint32_t room)
{
	return sp_control_call(dut.dev, context, true, op, 0, in, len, out, &room);
}

static uint32_t cm_id_for(uint32_t context)
{
	const struct sp_cm_create create = {.kind = SP_CM_CONNECTED, .port_space = 0x0106};
	struct sp_cm_id id = {0};

	CU_ASSERT_EQUAL(ask_cm(context, SP_CM_CREATE, &create, sizeof(create), &id, sizeof(id)), 0);
	return id.id;
}

TEST_BETWEEN(start_rc, rn_stop, messages_name_the_applications_own_qps)
{
	const uint32_t liar = dut_context(&dut, "liar", "rdma", "qp=128;qps=4"), id = cm_id_for(liar);
	struct sp_cm_param p = {.id = id, .qp = rn_qpn, .to_port = 4420, .type = SP_RDMA_RC};

	memcpy(p.to, dut_peer4, 16);
	memcpy(p.from, dut_own4, 16);
	CU_ASSERT_EQUAL(ask_cm(liar, SP_CM_CONNECT, &p, sizeof(p), NULL, 0), -EACCES);
	p.qp = 1;
	CU_ASSERT_EQUAL(ask_cm(liar, SP_CM_CONNECT, &p, sizeof(p), NULL, 0), -EINVAL);
	p.qp = 127;
	CU_ASSERT_EQUAL(ask_cm(liar, SP_CM_CONNECT, &p, sizeof(p), NULL, 0), -EACCES);
	CU_ASSERT_EQUAL(ask_cm(rn_context, SP_CM_CONNECT, &p, sizeof(p), NULL, 0), -ENOENT); /* not its id */
	CU_ASSERT_EQUAL(ask_cm(rn_context, SP_CM_DESTROY, &id, sizeof(id), NULL, 0), -ENOENT);
	rn_go();
	CU_ASSERT(rn_silent());
	p.qp = 128;
	CU_ASSERT_EQUAL(ask_cm(liar, SP_CM_CONNECT, &p, sizeof(p), NULL, 0), 0);
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, liar), 0);
}

/* Nobody else's machine takes a message of QP 1 from a program here. */
TEST_BETWEEN(start_ud, rn_stop, an_application_has_no_key_of_services)
{
	struct sp_rdma_qp_attr a = {.mask = SP_RDMA_QP_QKEY, .qkey = 0x80010000};
	struct sp_rdma_ah ah = {.pd = rn_pd};
	struct sp_rdma_wqe w = {.owner = 1,
				.op = SP_RDMA_WR_SEND,
				.flags = SP_RDMA_SIGNALED,
				.sges = 1,
				.remote_qp = 1,
				.qkey = 0x80010000};
	const struct sp_rdma_sge sge = {RN_VA, 256, rn_key};
	struct rn_answer sent;

	CU_ASSERT_EQUAL(rn_modify(&a), -EPERM);
	a.qkey = 0x80000000;
	CU_ASSERT_EQUAL(rn_modify(&a), -EPERM);
	CU_ASSERT_EQUAL(rn_attr().qkey, 0x11111111);
	memcpy(ah.ip, dut_peer4, 16);
	w.ah = rn_id(SP_RDMA_AH_CREATE, &ah, sizeof(ah));
	rn_post_wqe(&w, &sge, 1);
	CU_ASSERT_FATAL(rn_answered(&sent));
	CU_ASSERT_EQUAL(sent.qp, 1);
	CU_ASSERT_EQUAL(sp_load_be32(sent.payload), 0x11111111); /* the top bit stands for the QP's own */
	CU_ASSERT_EQUAL(sp_load_be24(sent.payload + 5), rn_qpn); /* and its sender is told */
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_AH_DESTROY, w.ah), 0);
}

/* ---- the end, at any moment ---- */
static void step(unsigned i)
{
	const struct sp_rdma_wqe w = {.owner = 1, .op = SP_RDMA_WR_WRITE, .sges = 1, .wr_id = i};
	const struct sp_rdma_sge sge = {RN_VA, 8192, rn_key};
	uint8_t ext[28] = {0};

	rn_reth(ext, RN_VA, rn_key, 8192);
	switch (i % 7) {
	case 0:
		rn_packet(SP_RC_READ_REQUEST, rn_state_of()->in.psn, ext, 16, NULL, 0);
		break;
	case 1:
		rn_post_wqe(&w, &sge, 1);
		break;
	case 2:
		rn_write(SP_RC_WRITE_FIRST, rn_state_of()->in.psn, RN_VA, rn_key, 4096, 1024);
		break;
	case 3:
		tx_ring_free(0);
		break;
	case 4:
		rn_packet(SP_RC_WRITE_LAST, rn_state_of()->in.psn + 3, NULL, 0, NULL, 4);
		break;
	case 5:
		rn_end(SP_RDMA_MR_DEREG, rn_key); /* while all of it is used */
		break;
	default:
		rn_control(SP_RDMA_QP_DESTROY, rn_qpn, NULL, 0, NULL, 0);
	}
}

TEST(an_application_may_end_at_any_moment)
{
	static struct sp_port_ops lending;
	struct sp_mr *mr;

	lending = tx_ring_lending;
	lending.receive = dut_receive;
	lending.next = dut_next;
	for (unsigned end = 0; end < 8; end++) {
		uint32_t id, key;
		int rc;

		memset(&tx_ring, 0, sizeof(tx_ring));
		tx_ring.keeps = true;
		rn_port = &lending;
		rn_mtu = 1024;
		start_rc();
		id = cm_id_for(rn_context);
		CU_ASSERT(id != 0);
		for (unsigned i = 0; i < end; i++)
			step(i);
		key = rn_key;
		CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, rn_context), 0);
		/* What ports still have stays where it is; packets find nobody. */
		rn_packet(SP_RC_SEND_ONLY, 0, NULL, 0, NULL, 4);
		CU_ASSERT_EQUAL(rn_end(SP_RDMA_MR_DEREG, key), -ENOENT);
		mr = rn_region();
		rc = sp_mr_free(mr);
		CU_ASSERT_EQUAL(rc, tx_ring.helds ? -EBUSY : 0);
		tx_ring_free_all();
		rn_now = dut_run(&dut, rn_now, rn_now + SP_MS);
		CU_ASSERT_EQUAL(rc ? sp_mr_free(mr) : 0, 0);
		dut_check_totals(&dut);
		dut_stop(&dut);
		free(rn_memory);
	}
	rn_port = NULL;
	rn_mtu = RN_MTU;
}
