/* SPDX-License-Identifier: BSD-3-Clause */
/* Execution contexts: what makes none, how they come and go, and the companion that works beside the first handler. */
#include "../../pipeline/rx/match.h"
#include "../lib/companion_nic.h"

static const struct sp_param strict_params[] = {
	{"must", SP_UINT, NULL, 2, 10, "has no default"},
	{"count", SP_UINT, "4", 1, 8, "a number"},
	{"much", SP_UINT, "4", 4, 0, "a number without upper bound"},
	{"flag", SP_BOOL, "yes", .help = "yes or no"},
	{"after", SP_TIME, "5us", .help = "a time"},
	{"speed", SP_RATE, "1G", 1000, 1000000000, "a rate"},
	{"word", SP_STRING, "none", .help = "any text"},
	{"qps", SP_UINT, "0", .help = "QPs to claim"},
	{"fail", SP_UINT, "0", .help = "attach() returns that, negative"},
	{"limit", SP_UINT, "0", .help = "sp_messages_limit"},
	{NULL},
};

static struct {
	uint64_t must, count, flag, after, speed;
	char word[64];
} values;

static int strict_attach(struct sp_ctx *c)
{
	uint32_t qps = (uint32_t)sp_param_uint(c, "qps");

	values.must = sp_param_uint(c, "must");
	values.count = sp_param_uint(c, "count");
	values.flag = sp_param_uint(c, "flag");
	values.after = sp_param_uint(c, "after");
	values.speed = sp_param_uint(c, "speed");
	snprintf(values.word, sizeof(values.word), "%s", sp_param_string(c, "word"));
	CU_ASSERT_EQUAL(sp_param_uint(c, "nothing"), 0);
	CU_ASSERT_STRING_EQUAL(sp_param_string(c, "nothing"), "");
	CU_ASSERT_EQUAL(c->worker, c->home);
	if (sp_param_uint(c, "fail"))
		return -(int)sp_param_uint(c, "fail");
	int r = qps ? sp_qp_claim(c, qps) : 0;
	comp_attached += !r;
	return r;
}

static void strict_detach(struct sp_ctx *c)
{
	comp_detached++;
}

static uint32_t done(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	return SP_DONE;
}

static int answer(struct sp_ctx *c, const struct sp_command *cmd, struct sp_event *result)
{
	/* Calls of attach() alone. */
	CU_ASSERT_EQUAL(sp_qp_claim(c, 1), -EINVAL);
	CU_ASSERT_EQUAL(sp_qp_control(c, &(uint32_t){0}), -EINVAL);
	CU_ASSERT_EQUAL(sp_messages_limit(c, 1, 0), -EINVAL);
	CU_ASSERT_PTR_NULL(sp_alloc(c, 1));
	CU_ASSERT_PTR_NULL(sp_host_area(c));
	result->arg[0] = c->now;
	return 0;
}

static const struct sp_handler strict = {SP_HANDLER_HEAD, .name = "strict",	   .params = strict_params,
					 .ctx_size = 100, .attach = strict_attach, .detach = strict_detach,
					 .payload = done, .command = answer};

SP_HANDLER(strict)

static const struct sp_handler unlimited = {SP_HANDLER_HEAD, .name = "unlimited", .messages = SP_MESSAGES_HASHED,
					    .classify = classify, .payload = done};

SP_HANDLER(unlimited)

static const struct sp_handler blind = {SP_HANDLER_HEAD, .name = "blind", .messages = SP_MESSAGES_SLOTS,
					.payload = done};

SP_HANDLER(blind)

PROBE(hashed, "hashed", SP_MESSAGES_HASHED, NULL, NULL)

#define RULE(rule) TEST_BETWEEN(comp_start, comp_stop, rule)

/* ---- what makes no context ---- */

RULE(wrong_settings_are_refused_and_named)
{
	static const struct {
		const char *handler, *settings;
		int err;
		const char *key, *word; /* the setting, and what the text must say */
	} test[] = {
		{"none-such", "qp=16", -ENOENT, "handler", "none-such"},
		{"", "qp=16", -ENOENT, "handler", ""},
		{NULL, "qp=16", -ENOENT, "handler", ""},
		{"strict", "qp=16;must=3;colour=red", -EINVAL, "colour", "colour"},
		{"strict", "qp=16;must=3;=1", -EINVAL, "", ""},
		{"strict", "qp=16;must=red", -EINVAL, "must", "red"},
		{"strict", "qp=16;must=", -EINVAL, "must", "must"},
		{"strict", "qp=16;must=3x", -EINVAL, "must", "3x"},
		{"strict", "qp=16;must=-3", -EINVAL, "must", "-3"},
		{"strict", "qp=16;must=3;flag=perhaps", -EINVAL, "flag", "perhaps"},
		{"strict", "qp=16;must=3;after=5", -EINVAL, "after", "5"},
		{"strict", "qp=16;must=3;speed=fast", -EINVAL, "speed", "fast"},
		{"strict", "qp=16;must=1", -ERANGE, "must", "2 to 10"},
		{"strict", "qp=16;must=11", -ERANGE, "must", "2 to 10"},
		{"strict", "qp=16;must=99999999999999999999999", -ERANGE, "must", "2 to 10"},
		{"strict", "qp=16;must=3;much=3", -ERANGE, "much", "at least 4"},
		{"strict", "qp=16;must=3;speed=2G", -ERANGE, "speed", "2G"},
		{"strict", "qp=16;must=3;must=3", -EINVAL, "must", "twice"},
		{"strict", "qp=16;must=3;qp=16", -EINVAL, "qp", "twice"},
		{"strict", "qp=16", -EINVAL, "must", "must"},
		{"strict", "must=3", -EINVAL, "", "qp or a filter"},
		{"strict", "qp=0;must=3", -EINVAL, "qp", "QP"},
		{"strict", "qp=1;must=3", -EINVAL, "qp", "QP"},
		{"strict", "qp=0xFFFFFF;must=3", -EINVAL, "qp", "QP"},
		{"strict", "qp=0x1000000;must=3", -EINVAL, "qp", "QP"},
		{"strict", "qp=0xFFFFFFFFFF;must=3", -EINVAL, "qp", "QP"},
		{"strict", "qp=first;must=3", -EINVAL, "qp", "first"},
		{"strict", "qp=0xFFFFFD;must=3;qps=3", -EINVAL, "qp", "0xFFFFFE"},
		{"strict", "qp=16;must=3;qps=999999999", -EINVAL, "qp", ""},
		{"strict", "must=3;qps=1;filter=udp", -EINVAL, "qp", "qp"},
		{"strict", "qp=16;must=3;rate=fast", -EINVAL, "rate", "fast"},
		{"strict", "qp=16;must=3;message-timeout=soon", -EINVAL, "message-timeout", "soon"},
		{"strict", "qp=16;must=3;message-timeout=0s", -EINVAL, "message-timeout", "0s"},
		{"strict", "qp=16;must=3;filter=udp prot 7", -EINVAL, "filter", ""},
		{"strict", "must=3;filter=", -EINVAL, "filter", "empty"},
		{"strict", "qp=16;must=3;companion=none-such", -ENOENT, "companion", "none-such"},
		{"strict", "qp=16;must=3;fail=5", -EIO, "", "strict"},
		{"sdr", "qp=16;credit=perhaps", -EINVAL, "credit", "not one of control, implicit"},
		{"sdr", "qp=16;max-messages=0", -ERANGE, "max-messages", "out of range (1 to "},
		{"sdr", "qp=16;cts-interval=0s", -ERANGE, "cts-interval", "(1us to 3600s)"},
		{"sdr", "qp=16;max-packet-life=9999s", -ERANGE, "max-packet-life", "(0s to 3600s)"},
		{"sdr", "qp=16;chunk-bytes=1000", -EINVAL, "chunk-bytes", "multiple"},
		{"rvma", "qp=16;mailbox=1;mode=steady", -EINVAL, "mode", "not one of steered, managed, region"},
		{"strict", "qp=900;must=3", -EADDRINUSE, "qp", "taken"},
		{"strict", "qp=898;must=3;qps=4", -EADDRINUSE, "qp", "taken"},
		{"strict", "qp=901;must=3;qps=2", -EADDRINUSE, "qp", "taken"},
		{"unlimited", "qp=16", -EINVAL, "handler", "messages"},
		{"blind", "qp=16", -EINVAL, "handler", "classify"},
		{"hashed", "qp=16;messages=0", -ERANGE, "messages", ""},
		{"first", "qp=16;companion=second;second-fails=perhaps", -EINVAL, "second-fails", "perhaps"},
		{"first", "qp=16;second-fails=yes", -EINVAL, "second-fails", "second-fails"}, /* no companion */
		{"first", "qp=16;companion=second;second-fails=yes", -EIO, "second-fails", "as told"},
	};

	dut_context(&dut, "taken", "strict", "qp=900;qps=2;must=3");
	uint64_t used = dut.nic->memory_used;
	for (unsigned i = 0; i < sizeof(test) / sizeof(*test); i++) {
		struct sp_error error;
		uint32_t id;
		int r = dut_try_context(&dut, "c", test[i].handler, test[i].settings, &id, &error);

		if (r != test[i].err || strcmp(error.key, test[i].key) || !strstr(error.text, test[i].word) ||
		    !error.text[0]) {
			printf("# %s %s: %d, %s: %s\n", test[i].handler, test[i].settings, r, error.key, error.text);
			CU_FAIL("another error than expected");
		}
		CU_ASSERT_EQUAL(dut_try_context(&dut, "c", test[i].handler, test[i].settings, &id, NULL), test[i].err);
		CU_ASSERT_EQUAL(dut.nic->memory_used, used); /* and nothing stays of it */
		CU_ASSERT_EQUAL(sp_nic_context_find(dut.nic, "c", &id), -ENOENT);
	}
	CU_ASSERT_EQUAL(comp_attached - comp_detached, 1);
	dut_context(&dut, "c", "strict", "qp=16;must=3"); /* after all that */
}

RULE(settings_without_key_or_value_are_refused)
{
	struct sp_setting setting[] = {{"qp", "16"}, {"must", NULL}, {NULL, "1"}};
	struct sp_error error;
	uint32_t id;

	CU_ASSERT_EQUAL(sp_context_open(dut.dev, "c", "strict", setting, 2, &id, &error), -EINVAL);
	setting[1] = setting[2];
	CU_ASSERT_EQUAL(sp_context_open(dut.dev, "c", "strict", setting, 2, &id, &error), -EINVAL);
	CU_ASSERT(error.text[0]);
}

RULE(a_name_is_short_and_used_once)
{
	struct sp_error error;
	uint32_t id, other;

	CU_ASSERT_EQUAL(dut_try_context(&dut, "", "strict", "filter=udp;must=3", &id, &error), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "needs a name"));
	CU_ASSERT_EQUAL(dut_try_context(&dut, "0123456789012345678901234567890123456789", "strict", "qp=16;must=3", &id,
					&error),
			-EINVAL);
	id = dut_context(&dut, "012345678901234567890123456789012345678", "strict", "qp=16;must=3");
	CU_ASSERT_EQUAL(sp_nic_context_find(dut.nic, "012345678901234567890123456789012345678", &other), 0);
	CU_ASSERT_EQUAL(id, other);
	CU_ASSERT_EQUAL(dut_try_context(&dut, "012345678901234567890123456789012345678", "strict", "qp=17;must=3",
					&other, &error),
			-EEXIST);
}

static uint32_t qp_of(uint32_t id)
{
	uint32_t qp;

	CU_ASSERT_EQUAL(sp_context_qp(dut.dev, id, &qp), 0);
	return qp;
}

/* The NIC draws a number for a row of QPs, from its seed, and makes a name by it. */
RULE(any_qp_is_chosen_by_the_nic)
{
	struct sp_error error;
	uint32_t id[4], qp[2], other, none;
	char name[32];

	id[0] = dut_context(&dut, "", "strict", "qp=any;must=3");
	qp[0] = qp_of(id[0]);
	CU_ASSERT(qp[0] >= SP_QP_ANY_FIRST && qp[0] < SP_QP_CONTROL_FIRST);
	snprintf(name, sizeof(name), "strict-%u", qp[0]);
	CU_ASSERT_EQUAL(sp_nic_context_find(dut.nic, name, &other), 0);
	CU_ASSERT_EQUAL(other, id[0]);
	id[1] = dut_context(&dut, "named", "strict", "qp=any;must=3;qps=4");
	qp[1] = qp_of(id[1]);
	CU_ASSERT(qp[1] >= SP_QP_ANY_FIRST && qp[1] + 4 <= SP_QP_CONTROL_FIRST);
	for (uint32_t i = 0; i < 4; i++)
		CU_ASSERT_PTR_NOT_NULL(sp_qp_table_find(dut.nic->qps, qp[1] + i));
	CU_ASSERT(qp[1] < qp[0] || qp[1] - qp[0] > 1000);
	CU_ASSERT_EQUAL(sp_context_close(dut.dev, id[0]), 0);
	CU_ASSERT_EQUAL(sp_context_qp(dut.dev, id[0], &none), -ENOENT);
	dut_stop(&dut);
	dut_start(&dut, 1);
	id[0] = dut_context(&dut, "", "strict", "qp=any;must=3");
	CU_ASSERT_EQUAL(qp_of(id[0]), qp[0]);
	id[1] = dut_context(&dut, "named", "strict", "qp=any;must=3;qps=4");
	CU_ASSERT_EQUAL(qp_of(id[1]), qp[1]);
	CU_ASSERT_EQUAL(dut_try_context(&dut, "x", "strict", "qp=some;must=3", &id[0], &error), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "neither a QP number (2 to 0xFFFFFE) nor any"));
}

RULE(parameters_reach_attach_as_given_or_by_default)
{
	dut_context(&dut, "a", "strict", "qp=16;must=3");
	CU_ASSERT_EQUAL(values.must, 3);
	CU_ASSERT_EQUAL(values.count, 4);
	CU_ASSERT_EQUAL(values.flag, 1);
	CU_ASSERT_EQUAL(values.after, 5000000);
	CU_ASSERT_EQUAL(values.speed, 1000000000);
	CU_ASSERT_STRING_EQUAL(values.word, "none");
	dut_context(&dut, "b", "strict", "qp=17;must=0xA;count=8;flag=no;after=1.5ms;speed=2.5M;word=a b = c");
	CU_ASSERT_EQUAL(values.must, 10);
	CU_ASSERT_EQUAL(values.count, 8);
	CU_ASSERT_EQUAL(values.flag, 0);
	CU_ASSERT_EQUAL(values.after, 1500000000);
	CU_ASSERT_EQUAL(values.speed, 2500000);
	CU_ASSERT_STRING_EQUAL(values.word, "a b = c");
}

RULE(a_range_of_qps_ends_at_the_last_number)
{
	dut_context(&dut, "a", "strict", "qp=0xFFFFFC;must=3;qps=3");
	CU_ASSERT_PTR_NOT_NULL(sp_qp_table_find(dut.nic->qps, 0xFFFFFE));
	CU_ASSERT_PTR_NULL(sp_qp_table_find(dut.nic->qps, 0xFFFFFF));
	CU_ASSERT_PTR_NULL(sp_qp_table_find(dut.nic->qps, 0xFFFFFB));
}

RULE(a_qp_is_free_again_once_its_context_has_gone)
{
	uint32_t id;

	for (unsigned i = 0; i < 3; i++) {
		id = dut_context(&dut, "a", "strict", "qp=16;qps=4;must=3");
		CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, id), 0);
		CU_ASSERT_PTR_NULL(sp_qp_table_find(dut.nic->qps, 17));
	}
	CU_ASSERT_EQUAL(comp_attached, 3);
	CU_ASSERT_EQUAL(comp_detached, 3);
}

RULE(attachs_calls_are_attachs_alone)
{
	struct sp_command cmd = {.op = SP_CMD_QUERY};

	cmd.context = dut_context(&dut, "a", "strict", "qp=16;must=3");
	CU_ASSERT_EQUAL(sp_command_call(dut.dev, &cmd, NULL), 0);
}

RULE(an_id_is_not_used_twice)
{
	uint32_t before = 0, id;

	for (unsigned i = 0; i < 1000; i++) {
		id = dut_context(&dut, "a", "strict", "qp=16;must=3");
		CU_ASSERT_NOT_EQUAL(id, before);
		CU_ASSERT_NOT_EQUAL(id, 0);
		CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, before), -ENOENT);
		CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, id), 0);
		before = id;
	}
}

TEST(there_is_room_for_4096_contexts)
{
	struct sp_error error;
	uint32_t id, last = 0;

	comp_start();
	for (unsigned i = 0; i < SP_MAX_CONTEXTS; i++) {
		char name[16], settings[32];

		snprintf(name, sizeof(name), "c%u", i);
		snprintf(settings, sizeof(settings), "qp=%u;must=3", 16 + i);
		last = dut_context(&dut, name, "strict", settings);
	}
	CU_ASSERT_EQUAL(dut_try_context(&dut, "more", "strict", "qp=10000;must=3", &id, &error), -ENOSPC);
	comp_send((struct probe_words){0});
	dut_settle(&dut, 1);
	sp_nic_context_remove(dut.nic, last);
	dut_context(&dut, "more", "strict", "qp=10000;must=3");
	comp_stop();
	CU_ASSERT_EQUAL(comp_attached, SP_MAX_CONTEXTS + 1);
	CU_ASSERT_EQUAL(comp_detached, comp_attached);
}

RULE(totals_stay_when_a_context_goes)
{
	struct sp_nic_totals before, after;

	uint32_t id = dut_context(&dut, "a", "hashed", "qp=16");
	for (unsigned i = 0; i < 40; i++)
		comp_send((struct probe_words){
			.key = i, .verdict = (uint32_t[]){SP_DONE, SP_DROP(0), SP_DROP(1), SP_ERROR}[i % 4]});
	dut_settle(&dut, 1);
	sp_nic_totals(dut.nic, &before);
	CU_ASSERT_EQUAL(before.taken, 10);
	CU_ASSERT_EQUAL(before.dropped, 30);
	sp_nic_context_remove(dut.nic, id);
	sp_nic_totals(dut.nic, &after);
	CU_ASSERT(!memcmp(&before, &after, sizeof(before)));
}
