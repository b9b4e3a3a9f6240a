/* SPDX-License-Identifier: BSD-3-Clause */
/* A companion that uses an application's QP: what it is told, what it sends, and what becomes of its work when the QP
 * or the context ends. */
#include "../../handlers/rdma/wqe.h"
#include "../../handlers/spindle-export.h"
#include "../lib/rdma_nic.h"

#define WAY(i) (RN_PSN + (i))
#define WORKS  8

enum { BIND, UNBIND, POST, RECEIVE, NOW, WORKER, MEMORY };

/* ---- the companion ---- */
struct user {
	const struct sp_export *export;
	struct sp_qp_work work[WORKS];
};
struct told {
	char what; /* done, ended, left with the context */
	uint64_t wr_id;
	struct sp_rdma_cqe e;
};
static struct told told[64];
static unsigned tolds, heard;
static bool again; /* done() gives the work back at once */
static struct sp_qp_now now;
static struct sp_piece piece[2];
static struct user *user;
static unsigned inside; /* a call to the export table is under way */

static int user_attach(struct sp_ctx *c)
{
	struct sp_ctx *first;

	user = c->state;
	user->export = sp_first(c, &first);
	return user->export && user->export->qps ? 0 : sp_fail(c, EINVAL, NULL, "no QPs");
}

static void user_done(struct sp_ctx *c, struct sp_qp_work *w, const struct sp_rdma_cqe *e)
{
	struct sp_ctx *first;

	CU_ASSERT(!inside && c->state == user && tolds < 64);
	told[tolds++ % 64] = (struct told){'d', w->w.wr_id, *e};
	sp_first(c, &first);
	if (again && e->op < SP_RDMA_WC_RECV)
		user->export->qps->post(first, e->qp, w);
	else if (again)
		user->export->qps->receive(first, e->qp, w);
}

static void user_ended(struct sp_ctx *c, uint32_t qp)
{
	CU_ASSERT(!inside && c->state == user && tolds < 64);
	told[tolds++ % 64] = (struct told){'e', qp, {0}};
}

static int user_command(struct sp_ctx *c, const struct sp_command *x, struct sp_event *result)
{
	static const struct sp_qp_calls calls = {user_done, user_ended};
	const uint32_t qp = (uint32_t)x->arg[1], i = (uint32_t)x->arg[2];
	const struct sp_qp_export *q = user->export->qps;
	struct sp_ctx *first;
	int rc = -EINVAL;

	(void)result;
	sp_first(c, &first);
	inside++;
	if (x->arg[0] == BIND)
		rc = q->bind(first, qp, &calls);
	if (x->arg[0] == UNBIND)
		rc = q->unbind(first, qp);
	if (x->arg[0] == POST)
		rc = q->post(first, qp, &user->work[i]);
	if (x->arg[0] == RECEIVE)
		rc = q->receive(first, qp, &user->work[i]);
	if (x->arg[0] == NOW)
		rc = q->now(first, qp, &now);
	if (x->arg[0] == WORKER)
		rc = q->worker(first, qp);
	if (x->arg[0] == MEMORY)
		rc = q->memory(first, qp, (uint32_t)x->arg[2], x->arg[3], x->arg[4], x->arg[5], piece, 2);
	inside--;
	result->arg[0] = rc > 0 ? (uint32_t)rc : 0;
	return rc > 0 ? 0 : rc;
}

static void user_detach(struct sp_ctx *c)
{
	struct user *u = c->state;

	for (unsigned i = 0; i < WORKS; i++)
		if (u->work[i].out)
			told[tolds++ % 64] = (struct told){'l', u->work[i].w.wr_id, {0}};
}

static const struct sp_handler user_handler = {
	SP_HANDLER_HEAD,       .name = "qp-user",	.ctx_size = sizeof(struct user),
	.attach = user_attach, .command = user_command, .detach = user_detach};
SP_HANDLER(user_handler)
static const struct sp_handler user_home = {SP_HANDLER_HEAD,	      .name = "qp-user-home",
					    .flags = SP_HANDLER_HOME, .ctx_size = sizeof(struct user),
					    .attach = user_attach,    .command = user_command};
SP_HANDLER(user_home)

/* ---- the test ---- */
static struct sp_event answer;

static int ask_on(uint16_t worker, unsigned what, uint64_t a, uint64_t b, uint64_t len, uint64_t write)
{
	struct sp_command cmd = {.op = SP_CMD_OWN + 60,
				 .context = rn_context,
				 .flags = SP_CMD_ON(worker),
				 .arg = {what, rn_qpn, a, b, len, write}};

	return sp_command_call(dut.dev, &cmd, &answer);
}

static int ask(unsigned what, uint64_t i)
{
	return ask_on((uint16_t)rn_worker, what, i, 0, 0, 0);
}

static void begin(void)
{
	tolds = heard = 0;
	again = false;
	rn_begin("companion=qp-user");
	rn_connect(SP_RDMA_RC);
	CU_ASSERT_EQUAL(ask(BIND, 0), 0);
}

#define RULE(name) TEST_BETWEEN(begin, rn_stop, name)

/* Work i is of so many bytes of the data from `at` on. */
static struct sp_qp_work *work(unsigned i, uint8_t op, uint64_t at, uint32_t len)
{
	struct sp_qp_work *w = &user->work[i];

	w->w = (struct sp_rdma_wqe){.op = op, .sges = 1, .wr_id = 100 + i, .remote = 0x1000, .rkey = 0x77};
	w->sge[0] = (struct sp_rdma_sge){RN_VA + at, len, rn_key};
	return w;
}

static int send_of(unsigned i, uint8_t op, uint64_t at, uint32_t len)
{
	int rc;

	work(i, op, at, len);
	rc = ask(POST, i);
	rn_go();
	return rc;
}

static int receive_of(unsigned i, uint64_t at, uint32_t len)
{
	work(i, 0, at, len);
	return ask(RECEIVE, i);
}

static const struct told *next(void)
{
	return heard < tolds ? &told[heard++] : NULL;
}

static bool done(unsigned i, uint8_t status, uint8_t op, uint32_t len)
{
	const struct told *t = next();

	if (!t)
		return printf("# the companion was told nothing\n"), false;
	if (t->what == 'd' && t->wr_id == 100 + i && t->e.wr_id == 100 + i && t->e.status == status && t->e.op == op &&
	    t->e.len == len && t->e.qp == rn_qpn)
		return true;
	printf("# told %c wr_id %llu status %u op %u len %u\n", t->what, (unsigned long long)t->wr_id, t->e.status,
	       t->e.op, t->e.len);
	return false;
}

static bool flushed(unsigned i)
{
	const struct told *t = next();

	return t && t->what == 'd' && t->wr_id == 100 + i && t->e.status == SP_RDMA_FLUSHED;
}

static bool ended(void)
{
	const struct told *t = next();

	return t && t->what == 'e' && heard == tolds;
}

static void acknowledge(uint8_t syndrome, uint32_t psn)
{
	const uint8_t aeth[4] = {syndrome};

	rn_packet(SP_RC_ACKNOWLEDGE, psn, aeth, 4, NULL, 0);
}

static bool sent(uint8_t opcode, uint32_t psn, struct rn_answer *a)
{
	if (!rn_answered(a))
		return printf("# nothing was sent\n"), false;
	return a->opcode == opcode && a->psn == psn && a->qp == RN_PEER;
}

RULE(messages_fill_its_receives_in_order_and_none_of_the_applications)
{
	const uint8_t word[4] = {9, 8, 7, 6};
	uint8_t ext[20];

	rn_receive(1, 0, 4096);
	CU_ASSERT_EQUAL(receive_of(0, 8192, 1000), 0);
	CU_ASSERT_EQUAL(receive_of(1, 16384, 1000), 0);
	CU_ASSERT_EQUAL(receive_of(2, 24576, 0), 0);
	CU_ASSERT_EQUAL(ask(RECEIVE, 0), -EBUSY); /* it is not the companion's */
	rn_packet(SP_RC_SEND_FIRST, WAY(0), NULL, 0, NULL, RN_MTU);
	CU_ASSERT_EQUAL(tolds, 0);
	rn_packet(SP_RC_SEND_LAST, WAY(1), NULL, 0, NULL, 7);
	CU_ASSERT(done(0, SP_RDMA_OK, SP_RDMA_WC_RECV, RN_MTU + 7));
	CU_ASSERT(rn_filled(8192, 0, RN_MTU));
	rn_packet(SP_RC_SEND_ONLY_IMM, WAY(2), word, 4, NULL, 5);
	CU_ASSERT(done(1, SP_RDMA_OK, SP_RDMA_WC_RECV, 5));
	CU_ASSERT(told[1].e.flags == SP_RDMA_WC_IMM && !memcmp(&told[1].e.imm, word, 4));
	rn_reth(ext, RN_VA + 64, rn_key, 20);
	memcpy(ext + 16, word, 4);
	rn_packet(SP_RC_WRITE_ONLY_IMM, WAY(3), ext, 20, NULL, 20);
	CU_ASSERT(done(2, SP_RDMA_OK, SP_RDMA_WC_RECV_WRITE_IMM, 20));
	rn_ack = true;
	rn_packet(SP_RC_SEND_ONLY, WAY(4), NULL, 0, NULL, 5);
	CU_ASSERT(rn_acked(0x20 | 14, WAY(4))); /* it has none: not ready */
	CU_ASSERT(rn_untouched(0, 64) && rn_untouched(100, 4000));
	CU_ASSERT_PTR_NULL(rn_completion());
	CU_ASSERT(!next());
}

RULE(its_requests_are_done_when_they_are_acknowledged)
{
	struct rn_answer a;
	uint8_t bytes[4 + 10] = {0x1F};

	for (unsigned i = 0; i < 300; i++)
		rn_memory[RN_DATA + i] = (uint8_t)(i * 3);
	CU_ASSERT_EQUAL(send_of(0, SP_RDMA_WR_SEND, 0, RN_MTU + 10), 0);
	CU_ASSERT(sent(SP_RC_SEND_FIRST, 0, &a) && a.len == RN_MTU && !memcmp(a.payload, rn_memory + RN_DATA, RN_MTU));
	CU_ASSERT(sent(SP_RC_SEND_LAST, 1, &a) && !memcmp(a.payload, rn_memory + RN_DATA + RN_MTU, 10));
	CU_ASSERT_EQUAL(ask(POST, 0), -EBUSY);
	acknowledge(0x1F, 0);
	CU_ASSERT_EQUAL(tolds, 0);
	acknowledge(0x1F, 1);
	CU_ASSERT(done(0, SP_RDMA_OK, SP_RDMA_WC_SEND, RN_MTU + 10));
	/* The same memory again, and bytes that lie in no region. */
	work(0, SP_RDMA_WR_WRITE, 0, 0);
	user->work[0].w.flags = SP_RDMA_INLINED;
	user->work[0].w.length = SP_RDMA_INLINE;
	memset(user->work[0].inlined, 0x5A, SP_RDMA_INLINE);
	CU_ASSERT_EQUAL(ask(POST, 0), 0);
	rn_go();
	CU_ASSERT(sent(SP_RC_WRITE_ONLY, 2, &a) && sp_load_be64(a.payload) == 0x1000 && a.payload[16] == 0x5A);
	acknowledge(0x1F, 2);
	CU_ASSERT(done(0, SP_RDMA_OK, SP_RDMA_WC_WRITE, SP_RDMA_INLINE));
	CU_ASSERT_EQUAL(send_of(3, SP_RDMA_WR_READ, 512, 10), 0);
	CU_ASSERT(sent(SP_RC_READ_REQUEST, 3, &a));
	memset(bytes + 4, 0x77, 10);
	rn_packet(SP_RC_READ_RESPONSE_ONLY, 3, bytes, 4, bytes + 4, 10);
	CU_ASSERT(done(3, SP_RDMA_OK, SP_RDMA_WC_READ, 10));
	CU_ASSERT(rn_memory[RN_DATA + 512] == 0x77 && rn_memory[RN_DATA + 521] == 0x77 && rn_untouched(522, 10));
	CU_ASSERT_PTR_NULL(rn_completion());
	CU_ASSERT_EQUAL(rn_count("requests_done"), 3);
	CU_ASSERT(!next());
}

RULE(nothing_is_done_while_a_port_has_its_frames)
{
	CU_ASSERT_EQUAL(send_of(0, SP_RDMA_WR_SEND, 0, 100), 0);
	rn_state_of()->sq.first->mark = UINT64_MAX; /* a port that keeps them */
	acknowledge(0x1F, 0);
	CU_ASSERT_EQUAL(tolds, 0);
	rn_state_of()->sq.first->mark = 0;
	CU_ASSERT_EQUAL(send_of(1, SP_RDMA_WR_SEND, 0, 100), 0);
	CU_ASSERT(done(0, SP_RDMA_OK, SP_RDMA_WC_SEND, 100));
	/* And when the QP is reset. */
	rn_state_of()->sq.first->mark = UINT64_MAX;
	CU_ASSERT_EQUAL(rn_state(SP_RDMA_RESET), 0);
	rn_go();
	CU_ASSERT(!next());
	CU_ASSERT_EQUAL(rn_state(SP_RDMA_RESET), 0);
	rn_to(SP_RDMA_RTS);
	CU_ASSERT_EQUAL(ask(BIND, 0), -EBUSY);
	rn_state_of()->sq.dropped->mark = 0;
	CU_ASSERT_EQUAL(rn_state(SP_RDMA_RESET), 0);
	CU_ASSERT(flushed(1) && ended());
	rn_to(SP_RDMA_RTS);
	CU_ASSERT_EQUAL(ask(BIND, 0), 0);
}

RULE(its_requests_and_the_applications_take_turns)
{
	struct rn_answer a;

	CU_ASSERT_EQUAL(rn_state(SP_RDMA_SQD), 0);
	for (unsigned i = 0; i < 3; i++) {
		work(i, SP_RDMA_WR_SEND, 0, 8);
		CU_ASSERT_EQUAL(ask(POST, i), 0);
	}
	for (unsigned i = 0; i < 2; i++)
		rn_request(&(struct sp_rdma_wqe){.op = SP_RDMA_WR_SEND, .flags = SP_RDMA_SIGNALED, .wr_id = i}, NULL);
	rn_go();
	CU_ASSERT(rn_silent());
	CU_ASSERT_EQUAL(rn_state(SP_RDMA_RTS), 0);
	rn_go();
	for (unsigned i = 0; i < 5; i++) /* 8 bytes are the companion's */
		CU_ASSERT(sent(SP_RC_SEND_ONLY, i, &a) && a.len == (i % 2 ? 0 : 8));
	acknowledge(0x1F, 4);
	for (unsigned i = 0; i < 3; i++)
		CU_ASSERT(done(i, SP_RDMA_OK, SP_RDMA_WC_SEND, 8));
	for (unsigned i = 0; i < 2; i++) {
		const struct sp_rdma_cqe *e = rn_completion();

		CU_ASSERT_FATAL(e != NULL);
		CU_ASSERT(e->wr_id == i && e->entries == i + 1); /* the companion's are no entries of the queue */
	}
	CU_ASSERT_PTR_NULL(rn_completion());
}

RULE(a_qp_in_error_gives_all_back_and_takes_no_more)
{
	rn_receive(1, 0, 4096);
	again = true; /* it tries to post all anew, at once */
	receive_of(0, 0, 1000);
	receive_of(1, 1024, 1000);
	send_of(2, SP_RDMA_WR_SEND, 0, 10);
	send_of(3, SP_RDMA_WR_SEND, 0, 10);
	rn_packet(SP_RC_SEND_FIRST, WAY(0), NULL, 0, NULL, RN_MTU);
	acknowledge(0x62, 0); /* remote access error */
	CU_ASSERT(done(2, SP_RDMA_REM_ACCESS_ERR, SP_RDMA_WC_SEND, 10));
	CU_ASSERT(flushed(0) && flushed(1)); /* the first one was being filled */
	CU_ASSERT(flushed(3));
	CU_ASSERT(flushed(2)); /* it was still welcome as the error was told */
	CU_ASSERT(!next());
	CU_ASSERT_EQUAL(rn_attr().state, SP_RDMA_ERR);
	CU_ASSERT_EQUAL(ask(POST, 2), -ENOTCONN);
	CU_ASSERT_EQUAL(ask(RECEIVE, 0), -ENOTCONN);
	CU_ASSERT(rn_completed(1, SP_RDMA_FLUSHED, SP_RDMA_WC_RECV, 0)); /* the application's */
	CU_ASSERT_EQUAL(ask(UNBIND, 0), 0);
	rn_go();
	CU_ASSERT(ended());
	CU_ASSERT_EQUAL(ask(BIND, 0), -ENOTCONN);
}

RULE(a_qp_that_is_destroyed_gives_all_back_and_ends)
{
	again = true;
	receive_of(0, 0, 1000);
	receive_of(1, 1024, 1000);
	send_of(2, SP_RDMA_WR_SEND, 0, 10);
	rn_packet(SP_RC_SEND_FIRST, WAY(0), NULL, 0, NULL, RN_MTU);
	CU_ASSERT_EQUAL(rn_control(SP_RDMA_QP_DESTROY, rn_qpn, NULL, 0, NULL, 0), 0);
	CU_ASSERT(flushed(0) && flushed(1) && flushed(2) && ended());
	CU_ASSERT_EQUAL(ask(POST, 2), -ENOENT);
	CU_ASSERT_EQUAL(ask(RECEIVE, 2), -ENOENT);
	CU_ASSERT_EQUAL(ask(UNBIND, 0), -ENOENT);
	CU_ASSERT_EQUAL(ask(NOW, 0), -ENOENT);
	CU_ASSERT_EQUAL(ask(WORKER, 0), -ENOENT);
	rn_connect(SP_RDMA_RC); /* another QP is not bound, even if it has the slot */
	CU_ASSERT_EQUAL(ask(POST, 2), -ENOTCONN);
	CU_ASSERT(!next());
}

RULE(it_lets_a_qp_go)
{
	rn_receive(1, 0, 4096);
	rn_receive(2, 4096, 4096);
	receive_of(0, 8192, 1000);
	receive_of(1, 16384, 1000);
	send_of(2, SP_RDMA_WR_SEND, 0, 10);
	rn_packet(SP_RC_SEND_FIRST, WAY(0), NULL, 0, NULL, RN_MTU);
	CU_ASSERT_EQUAL(ask(UNBIND, 0), 0);
	CU_ASSERT_EQUAL(ask(UNBIND, 0), -ENOTCONN);
	CU_ASSERT_EQUAL(ask(POST, 3), -ENOTCONN);
	CU_ASSERT_EQUAL(tolds, 0); /* not within the call */
	rn_go();
	CU_ASSERT(flushed(1)); /* the other ones have begun */
	CU_ASSERT(!next());
	rn_packet(SP_RC_SEND_LAST, WAY(1), NULL, 0, NULL, 4);
	CU_ASSERT(done(0, SP_RDMA_OK, SP_RDMA_WC_RECV, RN_MTU + 4));
	CU_ASSERT_EQUAL(ask(BIND, 0), -EBUSY);
	acknowledge(0x1F, 0);
	CU_ASSERT(done(2, SP_RDMA_OK, SP_RDMA_WC_SEND, 10));
	CU_ASSERT(ended());
	rn_packet(SP_RC_SEND_ONLY, WAY(2), NULL, 0, NULL, 4);
	CU_ASSERT(rn_completed(1, SP_RDMA_OK, SP_RDMA_WC_RECV, 4));
	CU_ASSERT_EQUAL(ask(BIND, 0), 0);
}

RULE(what_it_may_not_do_fails_alone)
{
	struct sp_rdma_keys keys;
	const uint32_t pd = rn_id(SP_RDMA_PD_CREATE, NULL, 0);

	CU_ASSERT_EQUAL(rn_register(RN_VA, RN_DATA, 4096, pd, 1, &keys), 0);
	CU_ASSERT_EQUAL(ask(NOW, 0), 0);
	CU_ASSERT(now.type == SP_RDMA_RC && now.state == SP_RDMA_RTS && now.mtu == RN_MTU && now.peer_qp == RN_PEER &&
		  now.reads == 4 && !memcmp(now.peer, dut_peer4, 16));
	CU_ASSERT_EQUAL(ask(BIND, 0), -EBUSY);
	CU_ASSERT_EQUAL(ask_on(0, MEMORY, rn_key, RN_VA + 5, 100, 1), 0);
	CU_ASSERT(answer.arg[0] == 1 && piece[0].mem->id == rn_mem && piece[0].offset == RN_DATA + 5 &&
		  piece[0].len == 100);
	CU_ASSERT_EQUAL(ask_on(0, MEMORY, rn_key, RN_VA - 1, 100, 0), -EACCES);
	CU_ASSERT_EQUAL(ask_on(0, MEMORY, keys.lkey, RN_VA, 100, 0), -EACCES); /* of another domain */
	/* A region that is another domain's: the request fails, and so does the QP. */
	work(0, SP_RDMA_WR_SEND, 0, 10)->sge[0].lkey = keys.lkey;
	CU_ASSERT_EQUAL(ask(POST, 0), 0);
	rn_go();
	CU_ASSERT(done(0, SP_RDMA_LOC_PROT_ERR, SP_RDMA_WC_SEND, 0));
	CU_ASSERT(rn_silent());
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_MR_DEREG, keys.lkey), 0);
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_PD_DESTROY, pd), 0);
}

RULE(a_receive_that_is_malformed_is_told_to_it)
{
	work(0, 0, 0, 100)->w.sges = SP_RDMA_SGES + 1;
	CU_ASSERT_EQUAL(ask(RECEIVE, 0), 0);
	rn_packet(SP_RC_SEND_ONLY, WAY(0), NULL, 0, NULL, 4);
	CU_ASSERT(done(0, SP_RDMA_LOC_QP_OP_ERR, SP_RDMA_WC_RECV, 0));
	CU_ASSERT(rn_acked(0x63, WAY(0)));
}

TEST(a_context_that_ends_takes_the_work_along)
{
	begin();
	receive_of(0, 0, 1000);
	receive_of(1, 1024, 1000);
	send_of(2, SP_RDMA_WR_SEND, 0, 10);
	send_of(3, SP_RDMA_WR_READ, 0, 10);
	rn_packet(SP_RC_SEND_FIRST, WAY(0), NULL, 0, NULL, RN_MTU);
	rn_abandon();
	CU_ASSERT_EQUAL(tolds, 4); /* detach() comes, and no other call */
	for (unsigned i = 0; i < 4; i++)
		CU_ASSERT(told[i].what == 'l' && told[i].wr_id == 100 + i);
}

TEST(it_is_served_on_the_qps_worker_alone)
{
	rn_workers = 2;
	rn_begin("companion=qp-user");
	rn_workers = 1;
	rn_connect(SP_RDMA_RC);
	CU_ASSERT_EQUAL(ask_on(!rn_worker, WORKER, 0, 0, 0, 0), 0);
	CU_ASSERT_EQUAL(answer.arg[0], rn_worker);
	CU_ASSERT_EQUAL(ask_on(!rn_worker, BIND, 0, 0, 0, 0), -EXDEV);
	CU_ASSERT_EQUAL(ask_on(!rn_worker, NOW, 0, 0, 0, 0), -EXDEV);
	CU_ASSERT_EQUAL(ask(BIND, 0), 0);
	CU_ASSERT_EQUAL(ask_on(!rn_worker, POST, 0, 0, 0, 0), -EXDEV);
	CU_ASSERT_EQUAL(ask_on(!rn_worker, RECEIVE, 0, 0, 0, 0), -EXDEV);
	CU_ASSERT_EQUAL(ask_on(!rn_worker, UNBIND, 0, 0, 0, 0), -EXDEV);
	rn_stop();
}

TEST(a_companion_that_wants_one_worker_is_refused)
{
	struct sp_error error = {0};
	uint32_t id;

	dut_start(&dut, 1);
	CU_ASSERT_EQUAL(dut_try_context(&dut, "c", "rdma", "qp=64;qps=16;companion=qp-user-home", &id, &error),
			-EINVAL);
	CU_ASSERT_STRING_EQUAL(error.key, "companion");
	/* ec works on chunks, and rdma has none. */
	CU_ASSERT_EQUAL(dut_try_context(&dut, "c", "rdma", "qp=64;qps=16;companion=ec", &id, &error), -EINVAL);
	dut_stop(&dut);
}
