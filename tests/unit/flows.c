/* SPDX-License-Identifier: BSD-3-Clause */
/* Flows (SP_HANDLER_FLOWS): each QP has one worker, for its packets, commands, requests and issues. Services
 * (SP_HANDLER_SERVICE), and requests with data (control()). */
#include "../../pipeline/observe/trace.h"
#include "../lib/dut.h"

#define QPS	6
#define PACKETS 600

static struct {
	unsigned packets, early,
		elsewhere; /* early: not in order of arrival; elsewhere: on another worker than its QP's */
	uint32_t next[QPS], on[16];
	unsigned issued, commands, asked, gone;
	uint32_t gone_id;
	int posted;
	unsigned owned; /* bit 0: the asking context's; bit 1: that of the context after it */
	struct sp_issue issue[QPS];
	uint16_t started; /* worker + 1 */
} seen;

static int flow_attach(struct sp_ctx *c)
{
	return sp_qp_claim(c, QPS);
}

static uint32_t flow_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	(void)m;
	seen.packets++;
	seen.elsewhere += c->worker != sp_qp_worker(c, p->qp_index);
	seen.early += p->psn != seen.next[p->qp_index]++;
	if (p->psn % 7 == 0) { /* starts the issue of another flow, which is another worker's */
		struct sp_issue *i = &seen.issue[(p->qp_index + 1) % QPS];

		if (!i->on)
			i->on = sp_qp_worker(c, (p->qp_index + 1) % QPS) + 1u;
		sp_issue_start(c, i);
	}
	return SP_DONE;
}

static int flow_issue(struct sp_ctx *c, struct sp_issue *i, unsigned budget)
{
	(void)budget;
	seen.issued++;
	seen.elsewhere += i->on != c->worker + 1u;
	return SP_ISSUE_DONE;
}

static int flow_command(struct sp_ctx *c, const struct sp_command *cmd, struct sp_event *result)
{
	seen.commands++;
	result->arg[0] = c->worker;
	return cmd->arg[0] == 1 ? -ERANGE : 0;
}

/* Answers with the bytes in reverse, and its worker behind them. */
static int flow_control(struct sp_ctx *c, struct sp_control *q)
{
	uint8_t *out = q->out;

	if (q->op == 9)
		return -EBADSLT;
	if (q->out_room < q->in_len + 1)
		return -ENOSPC;
	for (uint32_t i = 0; i < q->in_len; i++)
		out[i] = ((const uint8_t *)q->in)[q->in_len - 1 - i];
	out[q->in_len] = (uint8_t)c->worker;
	q->out_len = q->in_len + 1;
	return 0;
}

static const struct sp_handler flowing = {SP_HANDLER_HEAD,	   .name = "flowing",	    .flags = SP_HANDLER_FLOWS,
					  .attach = flow_attach,   .payload = flow_payload, .issue = flow_issue,
					  .command = flow_command, .control = flow_control, .service = "served"};
SP_HANDLER(flowing)

static int serve_attach(struct sp_ctx *c)
{
	return sp_qp_claim(c, 1);
}

static uint32_t serve_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	(void)c, (void)m;
	CU_ASSERT_EQUAL(p->dest_qp, 1);
	seen.asked += 100;
	return SP_DONE;
}

static int serve_control(struct sp_ctx *c, struct sp_control *q)
{
	const struct sp_event e = {.type = SP_EVENT_OWN, .arg = {q->context}};

	if (q->op == SP_CONTROL_GONE) {
		seen.gone++;
		seen.gone_id = q->context;
		return 0;
	}
	seen.asked++;
	seen.owned = sp_qp_owned(c, q->context, q->qp) | sp_qp_owned(c, q->context + 1, q->qp) << 1;
	seen.posted = sp_event_post_to(c, q->op == 2 ? q->context + 1 : q->context, &e);
	return 0;
}

static const struct sp_handler served = {
	SP_HANDLER_HEAD,	.name = "served",	  .flags = SP_HANDLER_SERVICE | SP_HANDLER_HOME,
	.attach = serve_attach, .payload = serve_payload, .control = serve_control};
SP_HANDLER(served)

static uint32_t start(uint16_t workers)
{
	memset(&seen, 0, sizeof(seen));
	dut_start(&dut, workers);
	return dut_context(&dut, "flows", "flowing", "qp=64");
}

TEST(a_flows_packets_reach_its_worker_in_order_of_arrival)
{
	uint64_t seed = 7;

	for (uint16_t workers = 1; workers <= 4; workers++) {
		uint32_t sent[QPS] = {0};

		start(workers);
		for (unsigned i = 0; i < PACKETS; i++) {
			const uint32_t qp = (uint32_t)(dut_random(&seed) % QPS);
			struct frame f;

			dut_roce(&f, FRAME_IP4, 64 + qp, sent[qp]++, "01234567", 8);
			/* A flow comes by one queue, as its hash is one; which one does not matter. */
			dut_feed_bytes(&dut.port, (uint16_t)((qp * 5 + 1) % workers), 0, f.bytes, f.len);
		}
		CU_ASSERT(dut_run(&dut, 1, SP_SEC) < SP_SEC);
		CU_ASSERT_EQUAL(seen.packets, PACKETS);
		CU_ASSERT_EQUAL(seen.early, 0);
		CU_ASSERT_EQUAL(seen.elsewhere, 0);
		CU_ASSERT(seen.issued >= QPS);
		dut_check_totals(&dut);
		dut_stop(&dut);
	}
}

TEST(commands_and_requests_run_on_the_worker_that_they_name)
{
	for (uint16_t workers = 1; workers <= 3; workers++) {
		const uint32_t id = start(workers);
		uint8_t answer[16];
		struct sp_event e;

		for (uint16_t w = 0; w < workers; w++) {
			struct sp_command cmd = {.op = SP_CMD_OWN, .context = id, .flags = SP_CMD_ON(w) | SP_CMD_REPLY};

			CU_ASSERT_EQUAL(sp_command_call(dut.dev, &cmd, &e), 0);
			CU_ASSERT_EQUAL(e.arg[0], w);
			CU_ASSERT_EQUAL(sp_command_post(dut.dev, &cmd), 0);
			dut_settle(&dut, 1);
			CU_ASSERT_EQUAL(sp_event_take(dut.dev, id, &e), 1);
			CU_ASSERT_EQUAL(e.arg[0], w);
		}
		const struct sp_command beyond = {.op = SP_CMD_OWN, .context = id, .flags = SP_CMD_ON(workers)};

		CU_ASSERT_EQUAL(sp_command_call(dut.dev, &beyond, &e), -EINVAL);
		CU_ASSERT_EQUAL(sp_command_post(dut.dev, &beyond), -EINVAL);
		for (uint32_t qp = 0; qp < QPS; qp++) {
			uint32_t bytes = sizeof(answer);

			CU_ASSERT_EQUAL(sp_control_call(dut.dev, id, false, 3, 64 + qp, "abc", 3, answer, &bytes), 0);
			CU_ASSERT_EQUAL(bytes, 4);
			CU_ASSERT(!memcmp(answer, "cba", 3) && answer[3] == qp % workers);
		}
		uint32_t bytes = 3;

		CU_ASSERT_EQUAL(sp_control_call(dut.dev, id, false, 3, 0, "abc", 3, answer, &bytes), -ENOSPC);
		CU_ASSERT_EQUAL(bytes, 0);
		CU_ASSERT_EQUAL(sp_control_call(dut.dev, id, false, 9, 0, NULL, 0, NULL, NULL), -EBADSLT);
		CU_ASSERT_EQUAL(sp_control_call(dut.dev, id, false, 3, 64 + QPS, NULL, 0, NULL, NULL), -ENOENT);
		CU_ASSERT_EQUAL(sp_control_call(dut.dev, id, false, SP_CONTROL_GONE, 0, NULL, 0, NULL, NULL), -EINVAL);
		CU_ASSERT_EQUAL(sp_control_call(dut.dev, id + 7, false, 3, 0, NULL, 0, NULL, NULL), -ENOENT);
		CU_ASSERT_EQUAL(sp_control_call(dut.dev, id, false, 3, 0, answer, SP_CONTROL_BYTES + 1, NULL, NULL),
				-EMSGSIZE);
		dut_stop(&dut);
	}
}

TEST(a_service_is_opened_once_asked_for_contexts_and_told_of_their_end)
{
	const uint32_t id = start(2);
	const uint32_t second = dut_context(&dut, "more", "flowing", "qp=128");
	uint32_t service;
	struct sp_event e;
	struct frame f;

	CU_ASSERT_EQUAL(sp_nic_context_find(dut.nic, "served", &service), 0);
	CU_ASSERT_EQUAL(sp_control_call(dut.dev, id, true, 1, 0, NULL, 0, NULL, NULL), 0);
	CU_ASSERT_EQUAL(seen.asked, 1);
	CU_ASSERT_EQUAL(seen.posted, 0);
	CU_ASSERT_EQUAL(sp_event_take(dut.dev, id, &e), 1);
	CU_ASSERT(e.context == id && e.arg[0] == id);
	CU_ASSERT_EQUAL(sp_control_call(dut.dev, service, true, 1, 0, NULL, 0, NULL, NULL), -EOPNOTSUPP);
	CU_ASSERT_EQUAL(sp_control_call(dut.dev, second, true, 2, 0, NULL, 0, NULL, NULL), 0);
	CU_ASSERT_EQUAL(seen.posted, -ENOENT); /* nobody has that id */
	dut_roce(&f, FRAME_IP4, 1, 0, "01234567", 8);
	dut_feed(&dut, &f);
	CU_ASSERT(dut_run(&dut, 1, SP_SEC) < SP_SEC);
	CU_ASSERT_EQUAL(seen.asked, 102);
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, second), 0);
	CU_ASSERT(seen.gone == 1 && seen.gone_id == second);
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, service), 0);
	CU_ASSERT_EQUAL(sp_control_call(dut.dev, id, true, 1, 0, NULL, 0, NULL, NULL), -EOPNOTSUPP);
	dut_context(&dut, "again", "flowing", "qp=200"); /* opens it anew */
	CU_ASSERT_EQUAL(sp_control_call(dut.dev, id, true, 1, 0, NULL, 0, NULL, NULL), 0);
	dut_stop(&dut);
}

TEST(a_service_knows_whose_a_qp_is)
{
	static const struct {
		uint32_t qp;
		int of_id, of_second;
	} at[] = {{64, 1, 0},	     {64 + QPS - 1, 1, 0},  {63, 0, 0}, {64 + QPS, 0, 0},
		  {128, 0, 1},	     {128 + QPS - 1, 0, 1}, {1, 0, 0},	/* the service's own */ {0, 0, 0},
		  {UINT32_MAX, 0, 0}};
	const uint32_t id = start(2), second = dut_context(&dut, "more", "flowing", "qp=128");

	for (unsigned i = 0; i < sizeof(at) / sizeof(*at); i++) {
		CU_ASSERT_EQUAL(sp_control_call(dut.dev, id, true, 1, at[i].qp, NULL, 0, NULL, NULL), 0);
		CU_ASSERT_EQUAL(seen.owned & 1, at[i].of_id);
		CU_ASSERT_EQUAL(sp_control_call(dut.dev, second, true, 1, at[i].qp, NULL, 0, NULL, NULL), 0);
		CU_ASSERT_EQUAL(seen.owned, at[i].of_second); /* nobody has the id after it */
	}
	dut_stop(&dut);
}

TEST(only_a_service_may_have_qp_1)
{
	struct sp_error error;
	uint32_t id;

	start(1);
	CU_ASSERT_EQUAL(dut_try_context(&dut, "one", "flowing", "qp=1", &id, &error), -EINVAL);
	CU_ASSERT_STRING_EQUAL(error.key, "qp");
	dut_stop(&dut);
}
