/* SPDX-License-Identifier: BSD-3-Clause */
/* The connection manager's calls of libspindle over a NIC that the test makes up. */
#include "../lib/rdma_host.h"

#define HEAD offsetof(struct sp_cm_event, private_data)

static void nic_event(uint32_t id, uint32_t type, uint64_t cookie, const char *private_data)
{
	struct sp_cm_event *e = &rdma_f.cm[rdma_f.cms].event;

	*e = (struct sp_cm_event){.cookie = cookie,
				  .id = id,
				  .type = type,
				  .qp = 0x99,
				  .psn = 0x77,
				  .peer = {[10] = 0xFF, 0xFF, 10, 0, 0, 2},
				  .responder_resources = 4,
				  .path_mtu_code = 2,
				  .timeout = 17,
				  .private_len = (uint16_t)strlen(private_data)};
	memcpy((uint8_t *)e + HEAD, private_data, strlen(private_data));
	rdma_f.cm_len[rdma_f.cms++] = (uint32_t)(HEAD + strlen(private_data));
	rdma_host_event(SP_RDMA_EVENT_CM, 0, 0);
}

static struct sp_rdma_cm *id_of(enum sp_cm_kind kind, void *user, uint64_t *cookie)
{
	struct sp_cm_create ask;
	struct sp_rdma_cm *cm = NULL;

	CU_ASSERT_EQUAL_FATAL(sp_rdma_cm_create(rdma_r, kind, 0x0106, user, &cm), 0);
	memcpy(&ask, rdma_f.in, sizeof(ask));
	*cookie = ask.cookie;
	CU_ASSERT_EQUAL(rdma_f.service, true);
	return cm;
}

TEST_BETWEEN(rdma_host_open, rdma_host_shut, a_request_makes_an_id_that_has_events_of_its_own)
{
	uint64_t cookie;
	struct sp_rdma_cm *listener = id_of(SP_CM_CONNECTED, &rdma_r, &cookie);
	struct sp_rdma_cm_event event;
	uint16_t port = 0;

	CU_ASSERT_EQUAL(sp_rdma_cm_listen(listener, NULL, &port, 8), 0);
	CU_ASSERT_EQUAL(port, 4000);
	CU_ASSERT_EQUAL(sp_rdma_cm_take(rdma_r, &event), 0);
	nic_event(500, SP_CM_EVENT_REQUEST, cookie, "hello");
	nic_event(500, SP_CM_EVENT_ESTABLISHED, cookie, "");
	nic_event(12345, SP_CM_EVENT_ESTABLISHED, cookie, ""); /* nobody has it */
	CU_ASSERT_EQUAL(sp_rdma_cm_take(rdma_r, &event), 1);
	CU_ASSERT(event.type == SP_CM_EVENT_REQUEST && event.listener == listener && event.user == &rdma_r);
	CU_ASSERT(event.private_len == 5 && !memcmp(event.private_data, "hello", 5) && event.qp == 0x99);
	sp_rdma_cm_set_user(event.cm, &rdma_f);
	CU_ASSERT_EQUAL(sp_rdma_cm_take(rdma_r, &event), 1);
	CU_ASSERT(event.type == SP_CM_EVENT_ESTABLISHED && event.user == &rdma_f && !event.listener);
	CU_ASSERT_EQUAL(sp_rdma_cm_disconnect(event.cm), 0);
	CU_ASSERT_EQUAL(rdma_f.op, SP_CM_DISCONNECT);
	CU_ASSERT_EQUAL(sp_rdma_cm_destroy(event.cm), 0);
	CU_ASSERT_EQUAL(sp_rdma_cm_take(rdma_r, &event), 0);
}

TEST_BETWEEN(rdma_host_open, rdma_host_shut, what_comes_for_nobody_is_ended_and_nonsense_is_refused)
{
	uint64_t cookie;
	struct sp_rdma_cm *cm = id_of(SP_CM_CONNECTED, NULL, &cookie);
	struct sp_rdma_cm_event event;

	CU_ASSERT_EQUAL(sp_rdma_cm_destroy(cm), 0);
	nic_event(501, SP_CM_EVENT_REQUEST, cookie, "");
	CU_ASSERT_EQUAL(sp_rdma_cm_take(rdma_r, &event), 0);
	CU_ASSERT_EQUAL(rdma_f.ended, 2);
	nic_event(1, SP_CM_EVENT_REQUEST, cookie, "");
	rdma_f.cm[0].event.private_len = 1; /* more than there is */
	CU_ASSERT_EQUAL(sp_rdma_cm_take(rdma_r, &event), -EPROTO);
	nic_event(1, SP_CM_EVENT_REQUEST, cookie, "");
	rdma_f.cm_len[0] = 8;
	CU_ASSERT_EQUAL(sp_rdma_cm_take(rdma_r, &event), -EPROTO);
}

static void data(struct sp_cm_param *param)
{
	memset(param, 0, sizeof(*param));
	memcpy(param, rdma_f.in, offsetof(struct sp_cm_param, private_data));
}

TEST_BETWEEN(rdma_host_open, rdma_host_shut, private_data_follows_the_parameters)
{
	uint64_t cookie;
	struct sp_rdma_cm *cm = id_of(SP_CM_CONNECTED, NULL, &cookie);
	struct sp_cm_param param, seen;
	char bytes[SP_RDMA_PRIVATE + 1] = "private";

	memset(&param, 0, sizeof(param));
	param.qp = 5;
	param.private_len = 7;
	CU_ASSERT_EQUAL(sp_rdma_cm_connect(cm, &param, bytes), 0);
	data(&seen);
	CU_ASSERT(seen.id && seen.qp == 5 && seen.private_len == 7 && rdma_f.op == SP_CM_CONNECT);
	CU_ASSERT_EQUAL(rdma_f.in_len, offsetof(struct sp_cm_param, private_data) + 7);
	CU_ASSERT(!memcmp(rdma_f.in + offsetof(struct sp_cm_param, private_data), "private", 7));
	param.private_len = SP_RDMA_PRIVATE + 1;
	CU_ASSERT_EQUAL(sp_rdma_cm_reject(cm, &param, bytes), -EMSGSIZE);
	CU_ASSERT_EQUAL(sp_rdma_cm_accept(cm, &param, NULL), -EINVAL);
}

TEST_BETWEEN(rdma_host_open, rdma_host_shut, connect_moves_the_qp_and_keeps_events_of_others)
{
	uint64_t cookie, other_cookie;
	struct sp_rdma_cm *other = id_of(SP_CM_CONNECTED, NULL, &other_cookie),
			  *cm = id_of(SP_CM_CONNECTED, NULL, &cookie);
	const uint32_t id = rdma_f.next_id;
	const struct sp_rdma_link link = {.to = {[10] = 0xFF, 0xFF, 10, 0, 0, 2}, .port = 7, .path_mtu = 512};
	const struct sp_rdma_qp_attr reset = {.mask = SP_RDMA_QP_STATE, .state = SP_RDMA_RESET};
	struct sp_rdma_cm_event event;
	struct sp_rdma_notice n;

	sp_rdma_qp_modify(rdma_qp, &reset);
	nic_event(id - 1, SP_CM_EVENT_REJECTED, other_cookie, "");
	nic_event(id, SP_CM_EVENT_RESPONSE, cookie, "yes");
	CU_ASSERT_EQUAL(sp_rdma_connect(cm, rdma_qp, &link, &event, SP_SEC), 0);
	CU_ASSERT(event.type == SP_CM_EVENT_RESPONSE && event.private_len == 3 && rdma_f.op == SP_CM_READY);
	CU_ASSERT(rdma_f.rts.sq_psn == event.psn && event.psn == 0x77 && rdma_f.rtr.rq_psn != event.psn);
	CU_ASSERT_EQUAL(sp_rdma_notice_take(rdma_r, &n), 1);
	CU_ASSERT_EQUAL(n.kind, SP_RDMA_NOTICE_CM);
	CU_ASSERT_EQUAL(sp_rdma_cm_take(rdma_r, &event), 1);
	CU_ASSERT(event.cm == other && event.type == SP_CM_EVENT_REJECTED);
	CU_ASSERT_EQUAL(sp_rdma_cm_take(rdma_r, &event), 0);
	/* An answer that says no, and none. */
	sp_rdma_qp_modify(rdma_qp, &reset);
	nic_event(id, SP_CM_EVENT_REJECTED, cookie, "");
	CU_ASSERT_EQUAL(sp_rdma_connect(cm, rdma_qp, &link, &event, SP_SEC), -ECONNREFUSED);
	sp_rdma_qp_modify(rdma_qp, &reset);
	CU_ASSERT_EQUAL(sp_rdma_connect(cm, rdma_qp, &link, &event, SP_MS), -ETIMEDOUT);
	CU_ASSERT_EQUAL(sp_rdma_connect(cm, rdma_qp, &(struct sp_rdma_link){.path_mtu = 1000}, &event, SP_MS), -EINVAL);
}

TEST_BETWEEN(rdma_host_open, rdma_host_shut, accept_answers_with_the_own_qp_and_the_peers_mtu)
{
	uint64_t cookie;
	struct sp_rdma_cm *listener = id_of(SP_CM_CONNECTED, NULL, &cookie);
	const struct sp_rdma_qp_attr reset = {.mask = SP_RDMA_QP_STATE, .state = SP_RDMA_RESET};
	struct sp_rdma_link link = {.private_data = "reply", .private_len = 5};
	struct sp_rdma_cm_event event;
	struct sp_cm_param seen;

	CU_ASSERT_PTR_NOT_NULL(listener);
	sp_rdma_qp_modify(rdma_qp, &reset);
	nic_event(700, SP_CM_EVENT_REQUEST, cookie, "");
	CU_ASSERT_EQUAL(sp_rdma_cm_wait(rdma_r, &event, SP_SEC), 0);
	CU_ASSERT_EQUAL(sp_rdma_prepare(rdma_qp, &link), 0);
	CU_ASSERT_EQUAL(sp_rdma_post_recv(rdma_qp, &(struct sp_rdma_recv_wr){.wr_id = 1}, NULL), 0);
	CU_ASSERT_EQUAL(sp_rdma_accept(&event, rdma_qp, &link), 0);
	data(&seen);
	CU_ASSERT(rdma_f.op == SP_CM_ACCEPT && seen.id == 700 && seen.qp == RDMA_QP && seen.path_mtu_code == 2 &&
		  seen.private_len == 5 && !seen.selective);
	CU_ASSERT_EQUAL(sp_rdma_cm_wait(rdma_r, &event, SP_MS), -ETIMEDOUT);
	/* A message says with which PSN its sender wants to be sent to, as in Linux. */
	CU_ASSERT(rdma_f.rts.sq_psn == 0x77 && rdma_f.rtr.rq_psn == seen.psn);
	CU_ASSERT_EQUAL(rdma_f.rts.timeout, 17); /* the peer's, where we ask for none */
	sp_rdma_qp_modify(rdma_qp, &reset);
	nic_event(701, SP_CM_EVENT_REQUEST, cookie, "");
	CU_ASSERT_EQUAL(sp_rdma_cm_wait(rdma_r, &event, SP_SEC), 0);
	link.timeout = 12;
	CU_ASSERT_EQUAL(sp_rdma_accept(&event, rdma_qp, &link), 0);
	CU_ASSERT_EQUAL(rdma_f.rts.timeout, 12);
}

/* Selective repeat is said to the peer where it is used: if both want it, and the answer has room to say so. */
TEST_BETWEEN(rdma_host_open, rdma_host_shut, accept_offers_selective_repeat_where_it_is_used)
{
	uint64_t cookie;
	struct sp_rdma_cm *listener = id_of(SP_CM_CONNECTED, NULL, &cookie);
	const struct sp_rdma_qp_attr reset = {.mask = SP_RDMA_QP_STATE, .state = SP_RDMA_RESET};
	const char bytes[196] = "";
	struct sp_rdma_cm_event event;
	struct sp_cm_param seen;

	CU_ASSERT_PTR_NOT_NULL(listener);
	for (uint32_t i = 0; i < 8; i++) {
		const struct sp_rdma_link link = {
			.selective = i & 1, .private_data = bytes, .private_len = i & 2 ? 189 : 188};

		sp_rdma_qp_modify(rdma_qp, &reset);
		nic_event(700 + i, SP_CM_EVENT_REQUEST, cookie, "");
		CU_ASSERT_EQUAL(sp_rdma_cm_wait(rdma_r, &event, SP_SEC), 0);
		event.selective = i & 4;
		CU_ASSERT_EQUAL(sp_rdma_accept(&event, rdma_qp, &link), 0);
		data(&seen);
		CU_ASSERT_EQUAL(seen.selective, i == 5);
	}
}
