/* SPDX-License-Identifier: BSD-3-Clause */
/* The rvma_ calls of libspindle over a device that the test makes up: what they ask of the NIC, what they make of its
 * answers, and what they do not believe. */
#include <errno.h>
#include <sys/socket.h>

#include "../../handlers/wire/rvma.h"
#include "../../host-api/device.h"
#include "../../host-api/rvma.h"
#include "../lib/suite.h"

#define CONTEXT 7u
#define WINDOWS 8u
#define OPS	4u
#define PAYLOAD 2000u

static struct fake {
	struct sp_dev dev; /* first */
	bool has4, has6, gone, closed;
	unsigned opens, taken; /* taken: QP numbers from 0x10000 on that others have */
	char set[1024], name[32], error_key[40];
	_Alignas(64) uint8_t area[4096];
	uint64_t area_len;
	int call_status;
	struct sp_event result;	   /* of calls */
	struct sp_command last[4]; /* [0] the latest */
	struct sp_event event[128];
	unsigned events;
	uint64_t from, to; /* epochs that are held, and the one behind them */
	bool full;
} f;

static struct rvma *r;
static struct sp_mr mr = {.dev = &f.dev, .len = 1 << 20, .id = 3}, notes = {.dev = &f.dev, .len = 4096, .id = 4};
static const struct rvma_address far_away = {.ip = {[10] = 0xFF, 0xFF, 10, 0, 0, 2}, .qpn = 0x20000};

static int context_open(struct sp_dev *d, const char *name, const char *handler, const struct sp_setting *s, size_t n,
			uint32_t *id, struct sp_error *error)
{
	const struct sp_rvma_layout l = sp_rvma_layout(WINDOWS, OPS);
	struct sp_rvma_area header = {.magic = SP_RVMA_AREA_MAGIC,
				      .version = SP_RVMA_AREA_VERSION,
				      .windows = WINDOWS,
				      .ops = OPS,
				      .window = l.window,
				      .op = l.op,
				      .spill = l.spill,
				      .bytes = l.bytes};
	CU_ASSERT_STRING_EQUAL(handler, "rvma");
	f.set[0] = 0;
	for (size_t i = 0; i < n; i++) {
		if (!strcmp(s[i].key, "qp"))
			header.qp = (uint32_t)strtoul(s[i].value, NULL, 10);
		snprintf(f.set + strlen(f.set), sizeof(f.set) - strlen(f.set), "%s=%s;", s[i].key, s[i].value);
	}
	snprintf(f.name, sizeof(f.name), "%s", name);
	f.opens++;
	if (header.qp >= 0x10000 && header.qp < 0x10000 + f.taken)
		return -EADDRINUSE;
	memcpy(f.area, &header, sizeof(header));
	if (!f.area_len)
		f.area_len = l.bytes;
	*id = CONTEXT;
	return 0;
}

static int context_close(struct sp_dev *d, uint32_t id)
{
	CU_ASSERT_EQUAL(id, CONTEXT);
	f.closed = true;
	return f.gone ? -ENODEV : 0;
}

static int context_area(struct sp_dev *d, uint32_t id, void **addr, uint64_t *len)
{
	*addr = f.area;
	*len = f.area_len;
	return 0;
}

static int address(struct sp_dev *d, int family, uint8_t ip[16])
{
	memset(ip, 0, 16);
	if (family == AF_INET)
		ip[10] = ip[11] = 0xFF;
	ip[15] = family == AF_INET ? 4 : 6;
	return (family == AF_INET ? f.has4 : f.has6) ? 0 : -ENOENT;
}

static uint32_t payload(struct sp_dev *d, int family)
{
	return family == AF_INET ? PAYLOAD : PAYLOAD - 20;
}

static void note(const struct sp_command *c)
{
	memmove(f.last + 1, f.last, sizeof(f.last) - sizeof(*f.last));
	f.last[0] = *c;
	CU_ASSERT_EQUAL(c->context, CONTEXT);
}

static int post(struct sp_dev *d, const struct sp_command *c)
{
	if (f.gone)
		return -ENODEV;
	if (f.full)
		return -EAGAIN;
	note(c);
	return 0;
}

static int call(struct sp_dev *d, const struct sp_command *c, struct sp_event *result)
{
	if (f.gone)
		return -ENODEV;
	note(c);
	*result = f.result;
	if (c->op != SP_RVMA_CMD_EPOCH)
		return f.call_status;
	result->arg[4] = c->arg[1];
	return c->arg[1] >= f.from && c->arg[1] < f.to ? 0 : -ENODATA;
}

static int take(struct sp_dev *d, uint32_t id, struct sp_event *e)
{
	if (f.gone)
		return -ENODEV;
	if (!f.events)
		return 0;
	*e = f.event[0];
	memmove(f.event, f.event + 1, --f.events * sizeof(*e));
	return 1;
}

static int progress(struct sp_dev *d, sp_time now)
{
	return f.gone ? -ENODEV : 0;
}

static sp_time deadline(struct sp_dev *d)
{
	return SP_NEVER;
}

static int arm(struct sp_dev *d)
{
	return -EOPNOTSUPP;
}

static const struct sp_dev_ops ops = {.context_open = context_open,
				      .context_close = context_close,
				      .context_area = context_area,
				      .address = address,
				      .payload = payload,
				      .command_post = post,
				      .command_call = call,
				      .event_take = take,
				      .progress = progress,
				      .next_deadline = deadline,
				      .arm = arm};

static struct rvma_attr usual = {.windows = WINDOWS, .ops = OPS};

static void fresh(void)
{
	memset(&f, 0, sizeof(f));
	f.dev.ops = &ops;
	f.has4 = f.has6 = true;
	r = NULL;
	mr.addr = (void *)0x7000000;
	notes.addr = (void *)0x9000000;
}

static void open_it(void)
{
	fresh();
	CU_ASSERT_EQUAL_FATAL(rvma_open(&f.dev, &usual, &r, NULL), 0);
}

static void shut(void)
{
	f.closed = false;
	CU_ASSERT_EQUAL(rvma_close(r), 0);
	CU_ASSERT(f.closed);
}

static void event(uint16_t op, int status, uint64_t cookie)
{
	f.event[f.events++] = (struct sp_event){.type = SP_EVENT_RESULT, .op = op, .status = status, .cookie = cookie};
}

static void line(uint32_t slot, uint64_t number, uint64_t status)
{
	const struct sp_rvma_op_status s = {number, status};

	memcpy(f.area + sp_rvma_layout(WINDOWS, OPS).op + slot * sizeof(s), &s, sizeof(s));
}

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

	fresh();
	CU_ASSERT_EQUAL_FATAL(rvma_open(&f.dev, &all, &r, NULL), 0);
	CU_ASSERT_STRING_EQUAL(f.name, "mine");
	CU_ASSERT_STRING_EQUAL(f.set, "mtu=512;windows=8;ops=4;buffers=20;counters=30;peers=40;rate=50;nack-rate=60;"
				      "timeout=70ps;qp=74565;");
	CU_ASSERT_EQUAL(rvma_address_get(r, &a), 0);
	CU_ASSERT(a.qpn == 0x12345 && a.ip[15] == 6 && a.ip[10] == 0);
	shut();

	open_it();
	CU_ASSERT_STRING_EQUAL(f.set, "mtu=1024;windows=8;ops=4;qp=65536;");
	CU_ASSERT_STRING_EQUAL(f.name, "rvma-65536");
	rvma_address_get(r, &a);
	CU_ASSERT(a.qpn == 0x10000 && a.ip[15] == 4 && a.ip[10] == 0xFF);
	shut();
}

TEST(qp_numbers_that_others_have_are_passed_over)
{
	struct rvma_attr attr = usual;
	struct rvma_address a;

	fresh();
	f.taken = 5;
	CU_ASSERT_EQUAL_FATAL(rvma_open(&f.dev, &attr, &r, NULL), 0);
	CU_ASSERT_EQUAL(f.opens, 6);
	rvma_address_get(r, &a);
	CU_ASSERT_EQUAL(a.qpn, 0x10005);
	shut();
	fresh();
	f.taken = 5;
	attr.qpn = 0x10002;
	CU_ASSERT_EQUAL(rvma_open(&f.dev, &attr, &r, NULL), -EADDRINUSE);
	CU_ASSERT_EQUAL(f.opens, 1);
}

/* Of an IPv4 packet 2000 bytes are left beside BTH, RETH, ImmDt and ICRC: a put's header has 56 where these have 20. */
TEST(an_mtu_that_the_port_does_not_carry_is_refused)
{
	struct rvma_attr attr = usual;
	struct sp_error error;

	fresh();
	attr.mtu = PAYLOAD - 36;
	CU_ASSERT_EQUAL(rvma_open(&f.dev, &attr, &r, NULL), 0);
	shut();
	fresh();
	attr.mtu = PAYLOAD - 32;
	CU_ASSERT_EQUAL(rvma_open(&f.dev, &attr, &r, &error), -EMSGSIZE);
	CU_ASSERT_STRING_EQUAL(error.key, "mtu");
	attr.mtu = 63;
	CU_ASSERT_EQUAL(rvma_open(&f.dev, &attr, &r, &error), -EINVAL);
	attr.mtu = 4097;
	CU_ASSERT_EQUAL(rvma_open(&f.dev, &attr, &r, &error), -EINVAL);
	attr.mtu = 0;
	attr.family = 99;
	CU_ASSERT_EQUAL(rvma_open(&f.dev, &attr, &r, &error), -EINVAL);
	CU_ASSERT_STRING_EQUAL(error.key, "family");
	attr.family = AF_INET;
	f.has4 = false;
	CU_ASSERT_EQUAL(rvma_open(&f.dev, &attr, &r, &error), -EADDRNOTAVAIL);
	CU_ASSERT_EQUAL(f.opens, 0);
}

TEST(an_area_that_is_not_the_one_asked_for_is_refused)
{
	struct rvma_attr attr = usual;

	for (int what = 0; what < 3; what++) {
		fresh();
		if (what == 0)
			attr.windows = WINDOWS + 1;
		else if (what == 1)
			attr = (struct rvma_attr){.windows = WINDOWS, .ops = OPS + 1};
		else
			attr = usual, f.area_len = 64;
		CU_ASSERT_EQUAL(rvma_open(&f.dev, &attr, &r, NULL), -EIO);
		CU_ASSERT(f.closed);
	}
}

/* ---- operations ---- */

TEST(a_put_names_region_peer_mailbox_key_and_offset)
{
	struct rvma_peer *peer;
	struct rvma_op *op, *op2;
	struct sp_command *c = f.last;

	open_it();
	f.result.arg[0] = 0x55;
	CU_ASSERT_EQUAL_FATAL(rvma_peer_open(r, &far_away, &peer), 0);
	CU_ASSERT(c->op == SP_RVMA_CMD_PEER && !memcmp(c->arg, far_away.ip, 16) && c->arg[2] == 0x20000);
	CU_ASSERT_EQUAL(rvma_put_at(peer, 0x11FF0011, 9, &mr, 100, 5000, 77, &op), 0);
	CU_ASSERT(c->op == SP_RVMA_CMD_PUT && c->flags == 0 && c->arg[0] == (0x55ull << 32 | 3) && c->arg[1] == 100 &&
		  c->arg[2] == 5000 && c->arg[3] == 0x11FF0011 && c->arg[4] == 9 && c->arg[5] == 77 &&
		  c->cookie == SP_RVMA_OP(0, 1));
	CU_ASSERT_EQUAL(rvma_put(peer, 1, 2, &mr, 0, 1, &op2), 0);
	CU_ASSERT(c->arg[5] == SP_RVMA_APPEND && c->flags == 0 && c->cookie == SP_RVMA_OP(1, 1));
	line(0, 1, SP_RVMA_DELIVERED);
	line(1, 1, SP_RVMA_DELIVERED);
	CU_ASSERT_EQUAL(rvma_op_test(op), 0);
	CU_ASSERT_EQUAL(rvma_op_test(op2), 0);
	CU_ASSERT_EQUAL(rvma_put_fenced(peer, 1, 2, &mr, 0, 1, &op), 0);
	CU_ASSERT(c->arg[5] == SP_RVMA_APPEND && c->flags == SP_RVMA_CMD_FENCE && c->cookie == SP_RVMA_OP(1, 2));
	CU_ASSERT_EQUAL(rvma_get(peer, 1, 2, 255, 44, &mr, 8, 16, &op), 0);
	CU_ASSERT(c->op == SP_RVMA_CMD_GET && c->flags == 255 << SP_RVMA_CMD_BACK_SHIFT && c->arg[1] == 8 &&
		  c->arg[2] == 16 && c->arg[5] == 44);
	CU_ASSERT_EQUAL(rvma_get(peer, 1, 2, 256, 44, &mr, 8, 16, &op), -EINVAL);
	CU_ASSERT_EQUAL(rvma_put_at(peer, 1, 2, &mr, 0, 1, UINT64_MAX, &op), -EINVAL);
	CU_ASSERT_EQUAL(rvma_put(peer, 1, 2, NULL, 0, 0, &op), 0);
	CU_ASSERT(c->arg[0] == 0x55ull << 32 && c->arg[2] == 0);
	shut();
}

TEST(a_range_outside_its_region_is_not_handed_over)
{
	struct sp_mr foreign = {.len = 4096, .id = 3};
	struct rvma_peer *peer;
	struct rvma_op *op;

	open_it();
	CU_ASSERT_EQUAL_FATAL(rvma_peer_open(r, &far_away, &peer), 0);
	memset(f.last, 0, sizeof(f.last));
	CU_ASSERT_EQUAL(rvma_put(peer, 1, 2, &mr, 1, 1 << 20, &op), -EFAULT);
	CU_ASSERT_EQUAL(rvma_put(peer, 1, 2, &mr, UINT64_MAX, 2, &op), -EFAULT);
	CU_ASSERT_EQUAL(rvma_put(peer, 1, 2, &mr, 0, 1ull << 63, &op), -EFAULT);
	CU_ASSERT_EQUAL(rvma_get(peer, 1, 2, 0, 0, &mr, (1 << 20) + 1, 0, &op), -EFAULT);
	CU_ASSERT_EQUAL(rvma_put(peer, 1, 2, &foreign, 0, 1, &op), -EINVAL);
	CU_ASSERT_EQUAL(rvma_put(peer, 1, 2, NULL, 0, 1, &op), -EINVAL);
	CU_ASSERT_EQUAL(f.last[0].op, 0);
	shut();
}

TEST(as_many_operations_as_agreed_are_on_their_way)
{
	struct rvma_peer *peer;
	struct rvma_op *op[OPS + 1];

	open_it();
	CU_ASSERT_EQUAL_FATAL(rvma_peer_open(r, &far_away, &peer), 0);
	for (unsigned i = 0; i < OPS; i++)
		CU_ASSERT_EQUAL(rvma_put(peer, 1, 2, &mr, 0, 1, &op[i]), 0);
	CU_ASSERT_EQUAL(rvma_put(peer, 1, 2, &mr, 0, 1, &op[OPS]), -EAGAIN);
	CU_ASSERT_EQUAL(rvma_peer_close(peer), -EBUSY);
	line(2, 1, SP_RVMA_DELIVERED);
	for (unsigned i = 0; i < OPS; i++)
		CU_ASSERT_EQUAL(rvma_op_test(op[i]), i == 2 ? 0 : -EAGAIN);
	CU_ASSERT_EQUAL(rvma_put(peer, 1, 2, &mr, 0, 1, &op[2]), 0);
	CU_ASSERT_EQUAL(f.last[0].cookie, SP_RVMA_OP(2, 2));
	CU_ASSERT_EQUAL(rvma_op_test(op[2]), -EAGAIN);	      /* the line speaks of the earlier one */
	CU_ASSERT_EQUAL(rvma_op_wait(op[2], SP_MS), -EAGAIN); /* nor does it end by waiting */
	f.full = true;
	line(2, 2, SP_RVMA_DELIVERED);
	CU_ASSERT_EQUAL(rvma_op_wait(op[2], SP_SEC), 0);
	CU_ASSERT_EQUAL(rvma_put(peer, 1, 2, &mr, 0, 1, &op[2]), -EAGAIN); /* the queue of commands is full */
	f.full = false;
	CU_ASSERT_EQUAL(rvma_put(peer, 1, 2, &mr, 0, 1, &op[2]), 0);
	CU_ASSERT_EQUAL(f.last[0].cookie, SP_RVMA_OP(2, 3)); /* nothing was lost by that */
	shut();
}

TEST(each_way_to_end_has_its_error)
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

	open_it();
	CU_ASSERT_EQUAL_FATAL(rvma_peer_open(r, &far_away, &peer), 0);
	for (unsigned i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		CU_ASSERT_EQUAL(rvma_put(peer, 1, 2, &mr, 0, 1, &op), 0);
		line(0, i + 1, ends[i].status);
		CU_ASSERT_EQUAL(i % 2 ? rvma_op_test(op) : rvma_op_wait(op, SP_SEC), ends[i].error);
		CU_ASSERT_STRING_NOT_EQUAL(rvma_op_reason(ends[i].error), ends[i].error == -EIO ? "" : "unknown error");
	}
	CU_ASSERT_EQUAL(rvma_peer_close(peer), 0);
	CU_ASSERT_STRING_EQUAL(rvma_op_reason(-EHOSTUNREACH), "no path to the peer"); /* when it was named anew */
	CU_ASSERT_STRING_EQUAL(rvma_op_reason(-EXDEV), "unknown error");
	shut();
}

TEST(a_put_that_the_nic_did_not_take_has_ended)
{
	struct rvma_peer *peer;
	struct rvma_op *op, *other;

	open_it();
	CU_ASSERT_EQUAL_FATAL(rvma_peer_open(r, &far_away, &peer), 0);
	CU_ASSERT_EQUAL(rvma_put(peer, 1, 2, &mr, 0, 1, &op), 0);
	CU_ASSERT_EQUAL(rvma_put(peer, 1, 2, &mr, 0, 1, &other), 0);
	event(SP_RVMA_CMD_PUT, -EFAULT, SP_RVMA_OP(0, 2));   /* not this one */
	event(SP_RVMA_CMD_PUT, -EFAULT, SP_RVMA_OP(OPS, 1)); /* none at all */
	event(SP_RVMA_CMD_PUT, -EFAULT, SP_RVMA_OP(UINT32_MAX, 1));
	event(SP_RVMA_CMD_LIMIT, -EFAULT, SP_RVMA_OP(0, 1));
	CU_ASSERT_EQUAL(rvma_op_test(op), -EAGAIN);
	event(SP_RVMA_CMD_PUT, -EFAULT, SP_RVMA_OP(0, 1));
	CU_ASSERT_EQUAL(rvma_op_test(other), -EAGAIN);
	CU_ASSERT_EQUAL(rvma_op_test(op), -EFAULT);
	event(SP_RVMA_CMD_PUT, -EAGAIN, SP_RVMA_OP(1, 1)); /* -EAGAIN would say that it goes on */
	CU_ASSERT_EQUAL(rvma_op_test(other), -EIO);
	CU_ASSERT_EQUAL(rvma_peer_close(peer), 0);
	shut();
}

TEST(a_peer_is_asked_for_again_after_it_was_gone)
{
	struct rvma_peer *peer, *same;
	struct rvma_address wrong = far_away;
	struct rvma_op *op;

	open_it();
	wrong.qpn = 1;
	CU_ASSERT_EQUAL(rvma_peer_open(r, &wrong, &peer), -EINVAL);
	wrong = far_away;
	wrong.reserved[2] = 1;
	CU_ASSERT_EQUAL(rvma_peer_open(r, &wrong, &peer), -EINVAL);
	f.call_status = -ENOSPC;
	CU_ASSERT_EQUAL(rvma_peer_open(r, &far_away, &peer), -ENOSPC);
	f.call_status = 0;
	f.result.arg[0] = 5;
	CU_ASSERT_EQUAL_FATAL(rvma_peer_open(r, &far_away, &peer), 0);
	CU_ASSERT_EQUAL_FATAL(rvma_peer_open(r, &far_away, &same), 0);
	CU_ASSERT_PTR_EQUAL(peer, same);
	CU_ASSERT_EQUAL(rvma_peer_close(same), 0);
	CU_ASSERT_EQUAL(rvma_put(peer, 1, 2, &mr, 0, 1, &op), 0);
	line(0, 1, SP_RVMA_PEER_GONE);
	CU_ASSERT_EQUAL(rvma_op_test(op), -ECONNRESET);
	f.result.arg[0] = 6;
	CU_ASSERT_EQUAL(rvma_put(peer, 1, 2, &mr, 0, 1, &op), 0);
	CU_ASSERT_EQUAL(f.last[1].op, SP_RVMA_CMD_PEER);
	CU_ASSERT_EQUAL(f.last[0].arg[0] >> 32, 6);
	/* The NIC has had to make room for other peers: the put, which never began, goes to the peer by its new name.
	 */
	event(SP_RVMA_CMD_PUT, -ENOENT, SP_RVMA_OP(0, 2));
	f.result.arg[0] = 7;
	CU_ASSERT_EQUAL(rvma_op_test(op), -EAGAIN);
	CU_ASSERT_EQUAL(f.last[1].op, SP_RVMA_CMD_PEER);
	CU_ASSERT(f.last[0].op == SP_RVMA_CMD_PUT && f.last[0].arg[0] == (7ull << 32 | 3) &&
		  f.last[0].cookie == SP_RVMA_OP(0, 2));
	CU_ASSERT_EQUAL(rvma_op_test(op), -EAGAIN);
	event(SP_RVMA_CMD_PUT, -ENOENT, SP_RVMA_OP(0, 2));
	f.call_status = -ENOSPC; /* and has none for this one */
	CU_ASSERT_EQUAL(rvma_op_test(op), -ENOSPC);
	CU_ASSERT_EQUAL(rvma_peer_close(peer), 0);
	shut();
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

		open_it();
		CU_ASSERT_EQUAL_FATAL(rvma_peer_open(r, &far_away, &peer), 0);
		f.result.arg[0] = SP_RVMA_WINDOW(1, 1);
		CU_ASSERT_EQUAL_FATAL(rvma_init_window(r, 1, NULL, &w), 0);
		for (int i = 0; i < 3; i++)
			CU_ASSERT_EQUAL(rvma_put(peer, 1, 2, &mr, 0, 1, &op[i]), 0);
		line(1, 1, SP_RVMA_DELIVERED); /* before */
		if (gone)
			f.gone = true;
		else
			f.event[f.events++] = (struct sp_event){.type = SP_EVENT_CLOSED};
		CU_ASSERT_EQUAL(rvma_op_test(op[0]), error);
		CU_ASSERT_EQUAL(rvma_op_test(op[1]), 0);
		CU_ASSERT_EQUAL(rvma_op_wait(op[2], SP_NEVER), error);
		CU_ASSERT_EQUAL(rvma_put(peer, 1, 2, &mr, 0, 1, &op[0]), error);
		CU_ASSERT_EQUAL(rvma_close_win(w), error);
		CU_ASSERT_EQUAL(rvma_win_get_epoch(w, &epoch), error);
		CU_ASSERT_EQUAL(rvma_address_get(r, &a), error);
		CU_ASSERT_EQUAL(rvma_free_win(w), error);
		CU_ASSERT_EQUAL(rvma_peer_close(peer), 0);
		shut();
	}
}

/* ---- windows ---- */

TEST(a_window_is_made_as_its_attributes_say)
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
	struct sp_command *c = f.last;
	struct rvma_window *w, *none = NULL;

	open_it();
	f.result.arg[0] = SP_RVMA_WINDOW(2, 1);
	CU_ASSERT_EQUAL_FATAL(rvma_init_window(r, 0x11FF0031, &attr, &w), 0);
	CU_ASSERT(c->op == SP_RVMA_CMD_WINDOW && c->arg[0] == 0x11FF0031 && c->arg[1] == 5 && c->arg[2] == 6);
	CU_ASSERT_EQUAL(c->arg[3], SP_RVMA_OPS | SP_RVMA_MANAGED | SP_RVMA_SILENT | SP_RVMA_FORGET);
	f.result.arg[0] = SP_RVMA_WINDOW(3, 9);
	CU_ASSERT_EQUAL_FATAL(rvma_init_window(r, 1, &limited, &w), 0);
	CU_ASSERT(c->op == SP_RVMA_CMD_LIMIT && c->arg[0] == SP_RVMA_WINDOW(3, 9) && c->arg[1] == 1 && c->arg[2] == 2 &&
		  c->arg[3] == 3 && c->arg[4] == 4);
	CU_ASSERT_EQUAL(c[1].arg[3], SP_RVMA_REGION | SP_RVMA_CATCH_ALL | SP_RVMA_READABLE);
	CU_ASSERT_EQUAL(rvma_init_window(r, 1, &bad_mode, &none), -EINVAL);
	CU_ASSERT_EQUAL(rvma_init_window(r, 1, &bad_type, &none), -EINVAL);
	f.call_status = -EEXIST;
	CU_ASSERT_EQUAL(rvma_init_window(r, 1, &attr, &none), -EEXIST);
	f.call_status = 0;
	f.result.arg[0] = SP_RVMA_WINDOW(WINDOWS, 1); /* a line that is not in the area */
	CU_ASSERT_EQUAL(rvma_init_window(r, 1, &attr, &none), -EIO);
	CU_ASSERT_PTR_NULL(none);
	f.call_status = -EAGAIN;
	CU_ASSERT_EQUAL(rvma_free_win(w), -EAGAIN); /* and is still there */
	f.call_status = 0;
	CU_ASSERT_EQUAL(rvma_free_win(w), 0);
	CU_ASSERT(c->op == SP_RVMA_CMD_FREE && c->arg[0] == SP_RVMA_WINDOW(3, 9));
	shut();
}

TEST(a_posted_buffer_is_named_by_the_applications_own_address)
{
	struct rvma_buffer b = {
		.mr = &mr, .offset = 10, .size = 1000, .notify_mr = &notes, .notify_offset = 128, .threshold = 7};
	struct sp_command *c = f.last;
	struct rvma_window *w;

	open_it();
	f.result.arg[0] = SP_RVMA_WINDOW(2, 1);
	CU_ASSERT_EQUAL_FATAL(rvma_init_window(r, 1, NULL, &w), 0);
	CU_ASSERT_EQUAL(rvma_post_buffer(w, &b), 0);
	CU_ASSERT(c->op == SP_CMD_POST && c->cookie == 0x700000A && c->arg[0] == (4ull << 32 | 3) && c->arg[1] == 10 &&
		  c->arg[2] == 1000 && c->arg[3] == 128 && c->arg[4] == 7 && c->arg[5] == SP_RVMA_WINDOW(2, 1));
	f.call_status = -EDQUOT;
	CU_ASSERT_EQUAL(rvma_post_buffer(w, &b), -EDQUOT);
	f.call_status = 0;
	memset(f.last, 0, sizeof(f.last));
	b.notify_offset = 4096;
	CU_ASSERT_EQUAL(rvma_post_buffer(w, &b), -EFAULT);
	b.notify_offset = UINT64_MAX - 63;
	CU_ASSERT_EQUAL(rvma_post_buffer(w, &b), -EFAULT);
	b.notify_offset = 8;
	CU_ASSERT_EQUAL(rvma_post_buffer(w, &b), -EINVAL);
	b.notify_offset = 64;
	notes.addr = (void *)0x9000008;
	CU_ASSERT_EQUAL(rvma_post_buffer(w, &b), -EINVAL); /* the address counts */
	notes.addr = (void *)0x9000000;
	b.size = 1 << 20;
	CU_ASSERT_EQUAL(rvma_post_buffer(w, &b), -EFAULT);
	b.mr = NULL;
	CU_ASSERT_EQUAL(rvma_post_buffer(w, &b), -EINVAL);
	CU_ASSERT_EQUAL(f.last[0].op, 0);
	b = (struct rvma_buffer){.mr = &mr, .size = 5};
	CU_ASSERT_EQUAL(rvma_post_buffer(w, &b), 0);
	CU_ASSERT(c->arg[0] == 3 && c->cookie == 0x7000000);
	shut();
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

	open_it();
	f.result.arg[0] = SP_RVMA_WINDOW(2, 1);
	CU_ASSERT_EQUAL_FATAL(rvma_init_window(r, 1, NULL, &w), 0);
	memcpy(f.area + 64 + 2 * 64, &s, sizeof(s));
	CU_ASSERT_EQUAL(rvma_win_get_epoch(w, &epoch), 0);
	CU_ASSERT_EQUAL(epoch, 11);
	CU_ASSERT_EQUAL(rvma_win_status(w, &status), 0);
	CU_ASSERT(status.epoch == 11 && status.posted == 12 && status.held == 13 && status.closed &&
		  status.puts == 14 && status.bytes == 15 && status.refused == 16);
	f.result = (struct sp_event){.arg = {0x7000000, 100, RVMA_PARTIAL, 1, 10}};
	CU_ASSERT_EQUAL(rvma_win_rewind(w, 10, &done), 0);
	CU_ASSERT(f.last[0].op == SP_RVMA_CMD_REWIND && f.last[0].arg[0] == SP_RVMA_WINDOW(2, 1) &&
		  f.last[0].arg[1] == 10);
	CU_ASSERT(done.address == (void *)0x7000000 && done.length == 100 && done.flags == RVMA_PARTIAL &&
		  done.mailbox == 1 && done.epoch == 10);
	CU_ASSERT_EQUAL(rvma_win_rewind(w, 10, NULL), 0);
	CU_ASSERT_EQUAL(rvma_win_release(w, 9), 0);
	CU_ASSERT(f.last[0].op == SP_RVMA_CMD_RELEASE && f.last[0].arg[1] == 9);
	CU_ASSERT_EQUAL(rvma_win_inc_epoch(w), 0);
	CU_ASSERT_EQUAL(f.last[0].op, SP_RVMA_CMD_INC_EPOCH);
	CU_ASSERT_EQUAL(rvma_close_win(w), 0);
	CU_ASSERT_EQUAL(f.last[0].op, SP_RVMA_CMD_CLOSE);
	shut();
}

/* Epoch and number of the held are read one after the other: a buffer may have been completed, or released, between. */
TEST(held_buffers_are_all_found_whatever_their_number_was_when_it_was_read)
{
	struct sp_rvma_window_status s = {.id = SP_RVMA_WINDOW(0, 1), .epoch = 9};
	struct rvma_completed done[8];
	struct rvma_window *w;

	open_it();
	f.result.arg[0] = SP_RVMA_WINDOW(0, 1);
	CU_ASSERT_EQUAL_FATAL(rvma_init_window(r, 1, NULL, &w), 0);
	f.from = 5;
	f.to = 9;
	for (s.held = 0; s.held < 12; s.held++) {
		memcpy(f.area + 64, &s, sizeof(s));
		CU_ASSERT_EQUAL(rvma_win_get_buf_ptrs(w, done, 8), 4);
		CU_ASSERT(done[0].epoch == 5 && done[3].epoch == 8);
	}
	s.held = 4;
	memcpy(f.area + 64, &s, sizeof(s));
	CU_ASSERT_EQUAL(rvma_win_get_buf_ptrs(w, done, 3), 3);
	CU_ASSERT(done[0].epoch == 5 && done[2].epoch == 7);
	CU_ASSERT_EQUAL(rvma_win_get_buf_ptrs(w, NULL, 0), 0);
	f.to = 11; /* completed meanwhile */
	CU_ASSERT_EQUAL(rvma_win_get_buf_ptrs(w, done, 8), 6);
	f.from = f.to = 0;
	CU_ASSERT_EQUAL(rvma_win_get_buf_ptrs(w, done, 8), 0);
	shut();
}

/* ---- waiting ---- */

TEST(waiting_ends_with_the_address_the_timeout_or_the_nic)
{
	static _Alignas(64) struct rvma_notification n;

	for (int how = RVMA_WAIT_POLL; how <= RVMA_WAIT_SLEEP; how++) {
		open_it();
		n = (struct rvma_notification){.length = 5};
		CU_ASSERT_EQUAL(rvma_wait(r, &n, (enum rvma_wait)how, 0), -ETIMEDOUT);
		CU_ASSERT_EQUAL(rvma_wait(r, &n, (enum rvma_wait)how, SP_MS), -ETIMEDOUT);
		n.address = &n;
		CU_ASSERT_EQUAL(rvma_wait(r, &n, (enum rvma_wait)how, 0), 0);
		CU_ASSERT_EQUAL(rvma_wait(r, &n, (enum rvma_wait)how, SP_NEVER), 0);
		n.address = NULL;
		f.event[f.events++] = (struct sp_event){.type = SP_EVENT_CLOSED};
		CU_ASSERT_EQUAL(rvma_wait(r, &n, (enum rvma_wait)how, SP_NEVER), -ECONNRESET);
		f.gone = true;
		CU_ASSERT(rvma_wait(r, &n, (enum rvma_wait)how, SP_NEVER) < 0);
		shut();
	}
	open_it();
	CU_ASSERT_EQUAL(rvma_wait(r, &n, (enum rvma_wait)3, 0), -EINVAL);
	shut();
}
