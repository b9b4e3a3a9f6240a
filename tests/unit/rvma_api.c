/* SPDX-License-Identifier: BSD-3-Clause */
/* The rvma_ calls of libspindle over a device that the test makes up: what they ask of the NIC, what they make of its
 * answers, and what they do not believe. */
#include "../lib/rvma_host.h"

/* ---- contexts ---- */

TEST(settings_say_what_the_attributes_say)
{
	const struct rvma_attr all = {.mtu = 512,
				      .qpn = 0x12345,
				      .windows = WINDOWS,
				      .buffers = 20,
				      .counters = 30,
				      .peers = 40,
				      .ops = OPS,
				      .rate_bps = 50,
				      .nack_rate = 60,
				      .timeout = 70,
				      .family = AF_INET6,
				      .name = "mine"};
	struct rvma_address a;

	host_fresh();
	CU_ASSERT_EQUAL_FATAL(rvma_open(&host_f.dev, &all, &host_r, NULL), 0);
	CU_ASSERT_STRING_EQUAL(host_f.name, "mine");
	CU_ASSERT_STRING_EQUAL(host_f.set,
			       "mtu=512;windows=8;ops=4;buffers=20;counters=30;peers=40;rate=50;nack-rate=60;"
			       "timeout=70ps;qp=74565;");
	CU_ASSERT_EQUAL(rvma_address_get(host_r, &a), 0);
	CU_ASSERT(a.qpn == 0x12345 && a.ip[15] == 6 && a.ip[10] == 0);
	host_shut();

	host_open();
	CU_ASSERT_STRING_EQUAL(host_f.set, "mtu=1024;windows=8;ops=4;qp=any;");
	CU_ASSERT_STRING_EQUAL(host_f.name, ""); /* the NIC names it by its QP number */
	rvma_address_get(host_r, &a);
	CU_ASSERT(a.qpn == 0x10000 && a.ip[15] == 4 && a.ip[10] == 0xFF);
	host_shut();
}

TEST(the_nic_chooses_the_qp_number_and_the_library_asks_for_it)
{
	struct rvma_attr attr = host_usual;
	struct rvma_address a;

	host_fresh();
	host_f.qp = 0x10005;
	CU_ASSERT_EQUAL_FATAL(rvma_open(&host_f.dev, &attr, &host_r, NULL), 0);
	CU_ASSERT_EQUAL(host_f.opens, 1);
	rvma_address_get(host_r, &a);
	CU_ASSERT_EQUAL(a.qpn, 0x10005);
	host_shut();
	host_fresh();
	attr.qpn = TAKEN;
	CU_ASSERT_EQUAL(rvma_open(&host_f.dev, &attr, &host_r, NULL), -EADDRINUSE);
	CU_ASSERT_EQUAL(host_f.opens, 1);
	host_fresh(); /* the context has gone before its number is asked for */
	host_f.no_qp = true;
	attr.qpn = 0;
	CU_ASSERT_EQUAL(rvma_open(&host_f.dev, &attr, &host_r, NULL), -ENOENT);
	CU_ASSERT_TRUE(host_f.closed);
}

/* Of an IPv4 packet 2000 bytes are left beside BTH, RETH, ImmDt and ICRC: a put's header has 56 where these have 20. */
TEST(an_mtu_that_the_port_does_not_carry_is_refused)
{
	struct rvma_attr attr = host_usual;
	struct sp_error error;

	host_fresh();
	attr.mtu = PAYLOAD - 36;
	CU_ASSERT_EQUAL(rvma_open(&host_f.dev, &attr, &host_r, NULL), 0);
	host_shut();
	host_fresh();
	attr.mtu = PAYLOAD - 32;
	CU_ASSERT_EQUAL(rvma_open(&host_f.dev, &attr, &host_r, &error), -EMSGSIZE);
	CU_ASSERT_STRING_EQUAL(error.key, "mtu");
	attr.mtu = 0;
	attr.family = 99;
	CU_ASSERT_EQUAL(rvma_open(&host_f.dev, &attr, &host_r, &error), -EINVAL);
	CU_ASSERT_STRING_EQUAL(error.key, "family");
	attr.family = AF_INET;
	host_f.has4 = false;
	CU_ASSERT_EQUAL(rvma_open(&host_f.dev, &attr, &host_r, &error), -EADDRNOTAVAIL);
	CU_ASSERT_EQUAL(host_f.opens, 0);
}

TEST(an_area_that_is_not_the_one_asked_for_is_refused)
{
	struct rvma_attr attr = host_usual;

	for (int what = 0; what < 3; what++) {
		host_fresh();
		if (what == 0)
			attr.windows = WINDOWS + 1;
		else if (what == 1)
			attr = (struct rvma_attr){.windows = WINDOWS, .ops = OPS + 1};
		else
			attr = host_usual, host_f.area_len = 64;
		CU_ASSERT_EQUAL(rvma_open(&host_f.dev, &attr, &host_r, NULL), -EIO);
		CU_ASSERT(host_f.closed);
	}
}

#define RULE(rule) TEST_BETWEEN(host_open, host_shut, rule)

/* ---- operations ---- */

RULE(a_put_names_region_peer_mailbox_key_and_offset)
{
	struct rvma_peer *peer;
	struct rvma_op *op, *op2;
	struct sp_command *c = host_f.last;

	host_f.result.arg[0] = 0x55;
	CU_ASSERT_EQUAL_FATAL(rvma_peer_open(host_r, &host_far_away, &peer), 0);
	CU_ASSERT(c->op == SP_RVMA_CMD_PEER && !memcmp(c->arg, host_far_away.ip, 16) && c->arg[2] == 0x20000);
	CU_ASSERT_EQUAL(rvma_put_at(peer, 0x11FF0011, 9, &host_mr, 100, 5000, 77, &op), 0);
	CU_ASSERT(c->op == SP_RVMA_CMD_PUT && c->flags == 0 && c->arg[0] == (0x55ull << 32 | 3) && c->arg[1] == 100 &&
		  c->arg[2] == 5000 && c->arg[3] == 0x11FF0011 && c->arg[4] == 9 && c->arg[5] == 77 &&
		  c->cookie == SP_RVMA_OP(0, 1));
	CU_ASSERT_EQUAL(rvma_put(peer, 1, 2, &host_mr, 0, 1, &op2), 0);
	CU_ASSERT(c->arg[5] == SP_RVMA_APPEND && c->flags == 0 && c->cookie == SP_RVMA_OP(1, 1));
	host_line(0, 1, SP_RVMA_DELIVERED);
	host_line(1, 1, SP_RVMA_DELIVERED);
	CU_ASSERT_EQUAL(rvma_op_test(op), 0);
	CU_ASSERT_EQUAL(rvma_op_test(op2), 0);
	CU_ASSERT_EQUAL(rvma_put_fenced(peer, 1, 2, &host_mr, 0, 1, &op), 0);
	CU_ASSERT(c->arg[5] == SP_RVMA_APPEND && c->flags == SP_RVMA_CMD_FENCE && c->cookie == SP_RVMA_OP(1, 2));
	CU_ASSERT_EQUAL(rvma_get(peer, 1, 2, 255, 44, &host_mr, 8, 16, &op), 0);
	CU_ASSERT(c->op == SP_RVMA_CMD_GET && c->flags == 255 << SP_RVMA_CMD_BACK_SHIFT && c->arg[1] == 8 &&
		  c->arg[2] == 16 && c->arg[5] == 44);
	CU_ASSERT_EQUAL(rvma_get(peer, 1, 2, 256, 44, &host_mr, 8, 16, &op), -EINVAL);
	CU_ASSERT_EQUAL(rvma_put_at(peer, 1, 2, &host_mr, 0, 1, UINT64_MAX, &op), -EINVAL);
	CU_ASSERT_EQUAL(rvma_put(peer, 1, 2, NULL, 0, 0, &op), 0);
	CU_ASSERT(c->arg[0] == 0x55ull << 32 && c->arg[2] == 0);
}

RULE(a_range_outside_its_region_is_not_handed_over)
{
	struct sp_mr foreign = {.len = 4096, .id = 3};
	struct rvma_peer *peer;
	struct rvma_op *op;

	CU_ASSERT_EQUAL_FATAL(rvma_peer_open(host_r, &host_far_away, &peer), 0);
	memset(host_f.last, 0, sizeof(host_f.last));
	CU_ASSERT_EQUAL(rvma_put(peer, 1, 2, &host_mr, 1, 1 << 20, &op), -EFAULT);
	CU_ASSERT_EQUAL(rvma_put(peer, 1, 2, &host_mr, UINT64_MAX, 2, &op), -EFAULT);
	CU_ASSERT_EQUAL(rvma_put(peer, 1, 2, &host_mr, 0, 1ull << 63, &op), -EFAULT);
	CU_ASSERT_EQUAL(rvma_get(peer, 1, 2, 0, 0, &host_mr, (1 << 20) + 1, 0, &op), -EFAULT);
	CU_ASSERT_EQUAL(rvma_put(peer, 1, 2, &foreign, 0, 1, &op), -EINVAL);
	CU_ASSERT_EQUAL(rvma_put(peer, 1, 2, NULL, 0, 1, &op), -EINVAL);
	CU_ASSERT_EQUAL(host_f.last[0].op, 0);
}

RULE(as_many_operations_as_agreed_are_on_their_way)
{
	struct rvma_peer *peer;
	struct rvma_op *op[OPS + 1];

	CU_ASSERT_EQUAL_FATAL(rvma_peer_open(host_r, &host_far_away, &peer), 0);
	for (unsigned i = 0; i < OPS; i++)
		CU_ASSERT_EQUAL(rvma_put(peer, 1, 2, &host_mr, 0, 1, &op[i]), 0);
	CU_ASSERT_EQUAL(rvma_put(peer, 1, 2, &host_mr, 0, 1, &op[OPS]), -EAGAIN);
	CU_ASSERT_EQUAL(rvma_peer_close(peer), -EBUSY);
	host_line(2, 1, SP_RVMA_DELIVERED);
	for (unsigned i = 0; i < OPS; i++)
		CU_ASSERT_EQUAL(rvma_op_test(op[i]), i == 2 ? 0 : -EAGAIN);
	CU_ASSERT_EQUAL(rvma_put(peer, 1, 2, &host_mr, 0, 1, &op[2]), 0);
	CU_ASSERT_EQUAL(host_f.last[0].cookie, SP_RVMA_OP(2, 2));
	CU_ASSERT_EQUAL(rvma_op_test(op[2]), -EAGAIN);	      /* the line speaks of the earlier one */
	CU_ASSERT_EQUAL(rvma_op_wait(op[2], SP_MS), -EAGAIN); /* nor does it end by waiting */
	host_f.full = true;
	host_line(2, 2, SP_RVMA_DELIVERED);
	CU_ASSERT_EQUAL(rvma_op_wait(op[2], SP_SEC), 0);
	CU_ASSERT_EQUAL(rvma_put(peer, 1, 2, &host_mr, 0, 1, &op[2]), -EAGAIN); /* the queue of commands is full */
	host_f.full = false;
	CU_ASSERT_EQUAL(rvma_put(peer, 1, 2, &host_mr, 0, 1, &op[2]), 0);
	CU_ASSERT_EQUAL(host_f.last[0].cookie, SP_RVMA_OP(2, 3)); /* nothing was lost by that */
}

RULE(each_way_to_end_has_its_error)
{
	static const struct {
		uint64_t status;
		int error;
	} ends[] = {{SP_RVMA_DELIVERED, 0},
		    {SP_RVMA_NO_MAILBOX, -ENOENT},
		    {SP_RVMA_NO_BUFFER, -ENOBUFS},
		    {SP_RVMA_BAD_KEY, -EACCES},
		    {SP_RVMA_CLOSED, -ESHUTDOWN},
		    {SP_RVMA_TOO_LARGE, -EMSGSIZE},
		    {SP_RVMA_BAD_RANGE, -ERANGE},
		    {SP_RVMA_WRONG_MODE, -EPROTOTYPE},
		    {SP_RVMA_RATE, -EDQUOT},
		    {SP_RVMA_NOT_COMPLETE, -ENODATA},
		    {SP_RVMA_NOT_READABLE, -EACCES},
		    {SP_RVMA_NO_ROOM, -ENOSPC},
		    {SP_RVMA_REWOUND, -ECANCELED},
		    {SP_RVMA_GIVEN_UP, -ECONNABORTED},
		    {SP_RVMA_PEER_GONE, -ECONNRESET},
		    {SP_RVMA_TIMEOUT, -ETIMEDOUT},
		    {SP_RVMA_FAULT, -EFAULT},
		    {SP_RVMA_CANCELLED, -ECANCELED},
		    /* what the NIC cannot have meant */
		    {14, -EIO},
		    {31, -EIO},
		    {36, -EIO},
		    {UINT64_MAX, -EIO}};
	struct rvma_peer *peer;
	struct rvma_op *op;

	CU_ASSERT_EQUAL_FATAL(rvma_peer_open(host_r, &host_far_away, &peer), 0);
	for (unsigned i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		CU_ASSERT_EQUAL(rvma_put(peer, 1, 2, &host_mr, 0, 1, &op), 0);
		host_line(0, i + 1, ends[i].status);
		CU_ASSERT_EQUAL(i % 2 ? rvma_op_test(op) : rvma_op_wait(op, SP_SEC), ends[i].error);
		CU_ASSERT_STRING_NOT_EQUAL(rvma_op_reason(ends[i].error), ends[i].error == -EIO ? "" : "unknown error");
	}
	CU_ASSERT_EQUAL(rvma_peer_close(peer), 0);
	CU_ASSERT_STRING_EQUAL(rvma_op_reason(-EHOSTUNREACH), "no path to the peer"); /* when it was named anew */
	CU_ASSERT_STRING_EQUAL(rvma_op_reason(-EXDEV), "unknown error");
}

RULE(a_put_that_the_nic_did_not_take_has_ended)
{
	struct rvma_peer *peer;
	struct rvma_op *op, *other;

	CU_ASSERT_EQUAL_FATAL(rvma_peer_open(host_r, &host_far_away, &peer), 0);
	CU_ASSERT_EQUAL(rvma_put(peer, 1, 2, &host_mr, 0, 1, &op), 0);
	CU_ASSERT_EQUAL(rvma_put(peer, 1, 2, &host_mr, 0, 1, &other), 0);
	host_event(SP_RVMA_CMD_PUT, -EFAULT, SP_RVMA_OP(0, 2));	  /* not this one */
	host_event(SP_RVMA_CMD_PUT, -EFAULT, SP_RVMA_OP(OPS, 1)); /* none at all */
	host_event(SP_RVMA_CMD_PUT, -EFAULT, SP_RVMA_OP(UINT32_MAX, 1));
	host_event(SP_RVMA_CMD_LIMIT, -EFAULT, SP_RVMA_OP(0, 1));
	CU_ASSERT_EQUAL(rvma_op_test(op), -EAGAIN);
	host_event(SP_RVMA_CMD_PUT, -EFAULT, SP_RVMA_OP(0, 1));
	CU_ASSERT_EQUAL(rvma_op_test(other), -EAGAIN);
	CU_ASSERT_EQUAL(rvma_op_test(op), -EFAULT);
	host_event(SP_RVMA_CMD_PUT, -EAGAIN, SP_RVMA_OP(1, 1)); /* -EAGAIN would say that it goes on */
	CU_ASSERT_EQUAL(rvma_op_test(other), -EIO);
	CU_ASSERT_EQUAL(rvma_peer_close(peer), 0);
}

RULE(a_peer_is_asked_for_again_after_it_was_gone)
{
	struct rvma_peer *peer, *same;
	struct rvma_address wrong = host_far_away;
	struct rvma_op *op;

	wrong.qpn = 1;
	CU_ASSERT_EQUAL(rvma_peer_open(host_r, &wrong, &peer), -EINVAL);
	wrong = host_far_away;
	wrong.reserved[2] = 1;
	CU_ASSERT_EQUAL(rvma_peer_open(host_r, &wrong, &peer), -EINVAL);
	host_f.call_status = -ENOSPC;
	CU_ASSERT_EQUAL(rvma_peer_open(host_r, &host_far_away, &peer), -ENOSPC);
	host_f.call_status = 0;
	host_f.result.arg[0] = 5;
	CU_ASSERT_EQUAL_FATAL(rvma_peer_open(host_r, &host_far_away, &peer), 0);
	CU_ASSERT_EQUAL_FATAL(rvma_peer_open(host_r, &host_far_away, &same), 0);
	CU_ASSERT_PTR_EQUAL(peer, same);
	CU_ASSERT_EQUAL(rvma_peer_close(same), 0);
	CU_ASSERT_EQUAL(rvma_put(peer, 1, 2, &host_mr, 0, 1, &op), 0);
	host_line(0, 1, SP_RVMA_PEER_GONE);
	CU_ASSERT_EQUAL(rvma_op_test(op), -ECONNRESET);
	host_f.result.arg[0] = 6;
	CU_ASSERT_EQUAL(rvma_put(peer, 1, 2, &host_mr, 0, 1, &op), 0);
	CU_ASSERT_EQUAL(host_f.last[1].op, SP_RVMA_CMD_PEER);
	CU_ASSERT_EQUAL(host_f.last[0].arg[0] >> 32, 6);
	/* The NIC has had to make room for other peers: the put, which never began, goes to the peer by its new name.
	 */
	host_event(SP_RVMA_CMD_PUT, -ENOENT, SP_RVMA_OP(0, 2));
	host_f.result.arg[0] = 7;
	CU_ASSERT_EQUAL(rvma_op_test(op), -EAGAIN);
	CU_ASSERT_EQUAL(host_f.last[1].op, SP_RVMA_CMD_PEER);
	CU_ASSERT(host_f.last[0].op == SP_RVMA_CMD_PUT && host_f.last[0].arg[0] == (7ull << 32 | 3) &&
		  host_f.last[0].cookie == SP_RVMA_OP(0, 2));
	CU_ASSERT_EQUAL(rvma_op_test(op), -EAGAIN);
	host_event(SP_RVMA_CMD_PUT, -ENOENT, SP_RVMA_OP(0, 2));
	host_f.call_status = -ENOSPC; /* and has none for this one */
	CU_ASSERT_EQUAL(rvma_op_test(op), -ENOSPC);
	CU_ASSERT_EQUAL(rvma_peer_close(peer), 0);
}

TEST(operations_end_with_the_context_and_with_the_nic)
{
	struct rvma_peer *peer;
	struct rvma_window *w;
	struct rvma_op *op[3];
	struct rvma_address a;
	uint64_t epoch;

	for (int gone = 0; gone < 2; gone++) {
		const int error = gone ? -ENODEV : -ECONNRESET;

		host_open();
		CU_ASSERT_EQUAL_FATAL(rvma_peer_open(host_r, &host_far_away, &peer), 0);
		host_f.result.arg[0] = SP_RVMA_WINDOW(1, 1);
		CU_ASSERT_EQUAL_FATAL(rvma_init_window(host_r, 1, NULL, &w), 0);
		for (int i = 0; i < 3; i++)
			CU_ASSERT_EQUAL(rvma_put(peer, 1, 2, &host_mr, 0, 1, &op[i]), 0);
		host_line(1, 1, SP_RVMA_DELIVERED); /* before */
		if (gone)
			host_f.gone = true;
		else
			host_f.event[host_f.events++] = (struct sp_event){.type = SP_EVENT_CLOSED};
		CU_ASSERT_EQUAL(rvma_op_test(op[0]), error);
		CU_ASSERT_EQUAL(rvma_op_test(op[1]), 0);
		CU_ASSERT_EQUAL(rvma_op_wait(op[2], SP_NEVER), error);
		CU_ASSERT_EQUAL(rvma_put(peer, 1, 2, &host_mr, 0, 1, &op[0]), error);
		CU_ASSERT_EQUAL(rvma_close_win(w), error);
		CU_ASSERT_EQUAL(rvma_win_get_epoch(w, &epoch), error);
		CU_ASSERT_EQUAL(rvma_address_get(host_r, &a), error);
		CU_ASSERT_EQUAL(rvma_free_win(w), error);
		CU_ASSERT_EQUAL(rvma_peer_close(peer), 0);
		host_shut();
	}
}

/* ---- windows ---- */

RULE(a_window_is_made_as_its_attributes_say)
{
	const struct rvma_window_attr attr = {
		.key = 5, .threshold = 6, .type = RVMA_EPOCH_OPS, .mode = RVMA_MANAGED, .silent = true, .forget = true};
	const struct rvma_window_attr limited = {.mode = RVMA_REGION,
						 .catch_all = true,
						 .readable = true,
						 .max_buffers = 1,
						 .max_bytes = 2,
						 .max_put = 3,
						 .max_rate = 4};
	const struct rvma_window_attr bad_mode = {.mode = 3}, bad_type = {.type = 2};
	struct sp_command *c = host_f.last;
	struct rvma_window *w, *none = NULL;

	host_f.result.arg[0] = SP_RVMA_WINDOW(2, 1);
	CU_ASSERT_EQUAL_FATAL(rvma_init_window(host_r, 0x11FF0031, &attr, &w), 0);
	CU_ASSERT(c->op == SP_RVMA_CMD_WINDOW && c->arg[0] == 0x11FF0031 && c->arg[1] == 5 && c->arg[2] == 6);
	CU_ASSERT_EQUAL(c->arg[3], SP_RVMA_OPS | SP_RVMA_MANAGED | SP_RVMA_SILENT | SP_RVMA_FORGET);
	host_f.result.arg[0] = SP_RVMA_WINDOW(3, 9);
	CU_ASSERT_EQUAL_FATAL(rvma_init_window(host_r, 1, &limited, &w), 0);
	CU_ASSERT(c->op == SP_RVMA_CMD_LIMIT && c->arg[0] == SP_RVMA_WINDOW(3, 9) && c->arg[1] == 1 && c->arg[2] == 2 &&
		  c->arg[3] == 3 && c->arg[4] == 4);
	CU_ASSERT_EQUAL(c[1].arg[3], SP_RVMA_REGION | SP_RVMA_CATCH_ALL | SP_RVMA_READABLE);
	CU_ASSERT_EQUAL(rvma_init_window(host_r, 1, &bad_mode, &none), -EINVAL);
	CU_ASSERT_EQUAL(rvma_init_window(host_r, 1, &bad_type, &none), -EINVAL);
	host_f.call_status = -EEXIST;
	CU_ASSERT_EQUAL(rvma_init_window(host_r, 1, &attr, &none), -EEXIST);
	host_f.call_status = 0;
	host_f.result.arg[0] = SP_RVMA_WINDOW(WINDOWS, 1); /* a line that is not in the area */
	CU_ASSERT_EQUAL(rvma_init_window(host_r, 1, &attr, &none), -EIO);
	CU_ASSERT_PTR_NULL(none);
	host_f.call_status = -EAGAIN;
	CU_ASSERT_EQUAL(rvma_free_win(w), -EAGAIN); /* and is still there */
	host_f.call_status = 0;
	CU_ASSERT_EQUAL(rvma_free_win(w), 0);
	CU_ASSERT(c->op == SP_RVMA_CMD_FREE && c->arg[0] == SP_RVMA_WINDOW(3, 9));
}

RULE(a_posted_buffer_is_named_by_the_applications_own_address)
{
	struct rvma_buffer b = {.mr = &host_mr,
				.offset = 10,
				.size = 1000,
				.notify_mr = &host_notes,
				.notify_offset = 128,
				.threshold = 7};
	struct sp_command *c = host_f.last;
	struct rvma_window *w;

	host_f.result.arg[0] = SP_RVMA_WINDOW(2, 1);
	CU_ASSERT_EQUAL_FATAL(rvma_init_window(host_r, 1, NULL, &w), 0);
	CU_ASSERT_EQUAL(rvma_post_buffer(w, &b), 0);
	CU_ASSERT(c->op == SP_CMD_POST && c->cookie == 0x700000A && c->arg[0] == (4ull << 32 | 3) && c->arg[1] == 10 &&
		  c->arg[2] == 1000 && c->arg[3] == 128 && c->arg[4] == 7 && c->arg[5] == SP_RVMA_WINDOW(2, 1));
	host_f.call_status = -EDQUOT;
	CU_ASSERT_EQUAL(rvma_post_buffer(w, &b), -EDQUOT);
	host_f.call_status = 0;
	memset(host_f.last, 0, sizeof(host_f.last));
	b.notify_offset = 4096;
	CU_ASSERT_EQUAL(rvma_post_buffer(w, &b), -EFAULT);
	b.notify_offset = UINT64_MAX - 63;
	CU_ASSERT_EQUAL(rvma_post_buffer(w, &b), -EFAULT);
	b.notify_offset = 8;
	CU_ASSERT_EQUAL(rvma_post_buffer(w, &b), -EINVAL);
	b.notify_offset = 64;
	host_notes.addr = (void *)0x9000008;
	CU_ASSERT_EQUAL(rvma_post_buffer(w, &b), -EINVAL); /* the address counts */
	host_notes.addr = (void *)0x9000000;
	b.size = 1 << 20;
	CU_ASSERT_EQUAL(rvma_post_buffer(w, &b), -EFAULT);
	b.mr = NULL;
	CU_ASSERT_EQUAL(rvma_post_buffer(w, &b), -EINVAL);
	CU_ASSERT_EQUAL(host_f.last[0].op, 0);
	b = (struct rvma_buffer){.mr = &host_mr, .size = 5};
	CU_ASSERT_EQUAL(rvma_post_buffer(w, &b), 0);
	CU_ASSERT(c->arg[0] == 3 && c->cookie == 0x7000000);
}

TEST(a_windows_status_is_read_from_its_line)
{
	const struct sp_rvma_window_status s = {.id = SP_RVMA_WINDOW(2, 1),
						.epoch = 11,
						.posted = 12,
						.held = 13,
						.closed = 1,
						.puts = 14,
						.bytes = 15,
						.refused = 16};
	struct rvma_window_status status;
	struct rvma_completed done;
	struct rvma_window *w;
	uint64_t epoch;

	host_open();
	host_f.result.arg[0] = SP_RVMA_WINDOW(2, 1);
	CU_ASSERT_EQUAL_FATAL(rvma_init_window(host_r, 1, NULL, &w), 0);
	memcpy(host_f.area + 64 + 2 * 64, &s, sizeof(s));
	CU_ASSERT_EQUAL(rvma_win_get_epoch(w, &epoch), 0);
	CU_ASSERT_EQUAL(epoch, 11);
	CU_ASSERT_EQUAL(rvma_win_status(w, &status), 0);
	CU_ASSERT(status.epoch == 11 && status.posted == 12 && status.held == 13 && status.closed &&
		  status.puts == 14 && status.bytes == 15 && status.refused == 16);
	host_f.result = (struct sp_event){.arg = {0x7000000, 100, RVMA_PARTIAL, 1, 10}};
	CU_ASSERT_EQUAL(rvma_win_rewind(w, 10, &done), 0);
	CU_ASSERT(host_f.last[0].op == SP_RVMA_CMD_REWIND && host_f.last[0].arg[0] == SP_RVMA_WINDOW(2, 1) &&
		  host_f.last[0].arg[1] == 10);
	CU_ASSERT(done.address == (void *)0x7000000 && done.length == 100 && done.flags == RVMA_PARTIAL &&
		  done.mailbox == 1 && done.epoch == 10);
	CU_ASSERT_EQUAL(rvma_win_rewind(w, 10, NULL), 0);
	CU_ASSERT_EQUAL(rvma_win_release(w, 9), 0);
	CU_ASSERT(host_f.last[0].op == SP_RVMA_CMD_RELEASE && host_f.last[0].arg[1] == 9);
	CU_ASSERT_EQUAL(rvma_win_inc_epoch(w), 0);
	CU_ASSERT_EQUAL(host_f.last[0].op, SP_RVMA_CMD_INC_EPOCH);
	CU_ASSERT_EQUAL(rvma_close_win(w), 0);
	CU_ASSERT_EQUAL(host_f.last[0].op, SP_RVMA_CMD_CLOSE);
	host_shut();
}

/* Epoch and number of the held are read one after the other: a buffer may have been completed, or released, between. */
TEST(held_buffers_are_all_found_whatever_their_number_was_when_it_was_read)
{
	struct sp_rvma_window_status s = {.id = SP_RVMA_WINDOW(0, 1), .epoch = 9};
	struct rvma_completed done[8];
	struct rvma_window *w;

	host_open();
	host_f.result.arg[0] = SP_RVMA_WINDOW(0, 1);
	CU_ASSERT_EQUAL_FATAL(rvma_init_window(host_r, 1, NULL, &w), 0);
	host_f.from = 5;
	host_f.to = 9;
	for (s.held = 0; s.held < 12; s.held++) {
		memcpy(host_f.area + 64, &s, sizeof(s));
		CU_ASSERT_EQUAL(rvma_win_get_buf_ptrs(w, done, 8), 4);
		CU_ASSERT(done[0].epoch == 5 && done[3].epoch == 8);
	}
	s.held = 4;
	memcpy(host_f.area + 64, &s, sizeof(s));
	CU_ASSERT_EQUAL(rvma_win_get_buf_ptrs(w, done, 3), 3);
	CU_ASSERT(done[0].epoch == 5 && done[2].epoch == 7);
	CU_ASSERT_EQUAL(rvma_win_get_buf_ptrs(w, NULL, 0), 0);
	host_f.to = 11; /* completed meanwhile */
	CU_ASSERT_EQUAL(rvma_win_get_buf_ptrs(w, done, 8), 6);
	host_f.from = host_f.to = 0;
	CU_ASSERT_EQUAL(rvma_win_get_buf_ptrs(w, done, 8), 0);
	host_shut();
}

/* ---- waiting ---- */

TEST(waiting_ends_with_the_address_the_timeout_or_the_nic)
{
	static _Alignas(64) struct rvma_notification n;

	for (int how = RVMA_WAIT_POLL; how <= RVMA_WAIT_SLEEP; how++) {
		host_open();
		n = (struct rvma_notification){.length = 5};
		CU_ASSERT_EQUAL(rvma_wait(host_r, &n, (enum rvma_wait)how, 0), -ETIMEDOUT);
		CU_ASSERT_EQUAL(rvma_wait(host_r, &n, (enum rvma_wait)how, SP_MS), -ETIMEDOUT);
		n.address = &n;
		CU_ASSERT_EQUAL(rvma_wait(host_r, &n, (enum rvma_wait)how, 0), 0);
		CU_ASSERT_EQUAL(rvma_wait(host_r, &n, (enum rvma_wait)how, SP_NEVER), 0);
		n.address = NULL;
		host_f.event[host_f.events++] = (struct sp_event){.type = SP_EVENT_CLOSED};
		CU_ASSERT_EQUAL(rvma_wait(host_r, &n, (enum rvma_wait)how, SP_NEVER), -ECONNRESET);
		host_f.gone = true;
		CU_ASSERT(rvma_wait(host_r, &n, (enum rvma_wait)how, SP_NEVER) < 0);
		host_shut();
	}
	host_open();
	CU_ASSERT_EQUAL(rvma_wait(host_r, &n, (enum rvma_wait)3, 0), -EINVAL);
	host_shut();
}
