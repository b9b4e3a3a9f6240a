/* SPDX-License-Identifier: BSD-3-Clause */
/* Execution contexts: what makes none, how they come and go, and the companion that works beside the first handler. */
#include "../../handlers/spindle-export.h"
#include "../lib/probe.h"

#define QP 16

/* ---- handlers ---- */

static unsigned attached, detached;

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
	int r;

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
	r = qps ? sp_qp_claim(c, qps) : 0;
	attached += !r;
	return r;
}

static void strict_detach(struct sp_ctx *c)
{
	detached++;
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
	CU_ASSERT_PTR_NULL(sp_host_area(c, 1));
	result->arg[0] = c->now;
	return 0;
}

static const struct sp_handler strict = {SP_HANDLER_HEAD, .name = "strict",	   .params = strict_params,
					 .ctx_size = 100, .attach = strict_attach, .detach = strict_detach,
					 .payload = done, .command = answer};
SP_HANDLER(strict)

/* Says that it has messages and then sets no limit. */
static uint64_t classify(struct sp_ctx *c, struct sp_packet *p)
{
	return 1;
}
static const struct sp_handler unlimited = {SP_HANDLER_HEAD, .name = "unlimited", .messages = SP_MESSAGES_HASHED,
					    .classify = classify, .payload = done};
SP_HANDLER(unlimited)
static const struct sp_handler blind = {SP_HANDLER_HEAD, .name = "blind", .messages = SP_MESSAGES_SLOTS,
					.payload = done};
SP_HANDLER(blind)

PROBE(hashed, "hashed", SP_MESSAGES_HASHED, NULL, NULL)
PROBE(slots, "slots", SP_MESSAGES_SLOTS, probe_miss, NULL)

/* ---- a first handler that exports, and its companion ---- */

static uint64_t first_present(struct sp_ctx *c, uint64_t key, uint64_t chunk)
{
	return *(uint64_t *)c->state == key && chunk == 3;
}
static const struct sp_export exports = {.present = first_present};

static int first_attach(struct sp_ctx *c)
{
	probe_note('a', c, 0, 0);
	*(uint64_t *)c->state = 42;
	return sp_messages_limit(c, 16, 0);
}

static const struct sp_handler first = {SP_HANDLER_HEAD,	.name = "first",	.drops = probe_drops,
					.ctx_size = 8,		.msg_size = PROBE_STATE,	.messages = SP_MESSAGES_HASHED,
					.attach = first_attach, .detach = probe_detach,	.classify = probe_classify,
					.header = probe_header,	.payload = probe_payload, .completion = probe_completion,
					.command = probe_command, .exports = &exports};
SP_HANDLER(first)

static const struct sp_param second_params[] = {{"second-fails", SP_BOOL, "no", .help = "attach() fails"}, {NULL}};
static unsigned exported;

static int second_attach(struct sp_ctx *c)
{
	struct sp_ctx *one = NULL;
	const struct sp_export *e = sp_first(c, &one);

	probe_note('a', c, 0, 0);
	CU_ASSERT_PTR_NOT_NULL(e);
	CU_ASSERT_PTR_NOT_NULL(one);
	CU_ASSERT(c->state != one->state);
	exported += e && one && e->present(one, 42, 3) && !e->present(one, 42, 2);
	return sp_param_uint(c, "second-fails") ? sp_fail(c, EIO, "second-fails", "as told") : 0;
}

/* Larger state than the first's, so that one that runs into the other shows. */
static uint32_t second_header(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	struct probe_call *call = probe_note('h', c, m->key, probe_words_of(p).serial);

	for (unsigned i = 0; i < 100; i++)
		call->dirty |= ((uint8_t *)m->state)[i] != 0;
	memset(m->state, 0x5B, 100);
	return SP_DROP(0); /* is not asked */
}

static uint32_t second_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	probe_note('p', c, m->key, probe_words_of(p).serial);
	return SP_DROP(0); /* neither */
}

static unsigned bursts; /* calls of: */

static uint32_t second_burst(struct sp_ctx *c, struct sp_message *m, struct sp_packet *const *p, unsigned n)
{
	bursts++;
	for (unsigned i = 0; i < n; i++)
		p[i]->verdict = second_payload(c, m, p[i]);
	return SP_DROP(0);
}

static void second_completion(struct sp_ctx *c, struct sp_message *m, enum sp_end why)
{
	struct probe_call *call = probe_note('c', c, m->key, why);

	for (unsigned i = 0; i < 100; i++)
		call->dirty |= ((uint8_t *)m->state)[i] != 0x5B;
	sp_event_post(c, &(struct sp_event){.type = SP_EVENT_OWN, .cookie = m->key});
}

/* Knows one command, and is asked for what the first does not know. */
static int second_command(struct sp_ctx *c, const struct sp_command *cmd, struct sp_event *result)
{
	struct sp_ctx *one;

	CU_ASSERT_PTR_NOT_NULL(sp_first(c, &one));
	result->arg[0] = cmd->arg[0] + 1;
	return cmd->op == SP_CMD_OWN + 50 ? 0 : -ENOENT;
}

#define SECOND(ident, text, one, burst)                                                                                \
	static const struct sp_handler ident = {SP_HANDLER_HEAD,	  .name = text,                                \
						.params = second_params,  .msg_size = 100,                             \
						.attach = second_attach,  .detach = probe_detach,                        \
						.header = second_header,  .payload = one,                              \
						.payload_burst = burst,	  .completion = second_completion,             \
						.command = second_command};                                            \
	SP_HANDLER(ident)
SECOND(second, "second", second_payload, NULL)
SECOND(second_with_burst, "second-burst", NULL, second_burst)

/* ---- helpers ---- */

static void start(void)
{
	attached = detached = exported = 0;
	probe_log_clear();
	dut_start(&dut, 1);
}

static void end(void)
{
	dut_stop(&dut);
	probe_log_clear();
}

static void say(struct probe_words w)
{
	probe_feed(&dut, QP, &w);
}

/* The calls of the first handler (0) or the companion (1), as letters. */
static const char *letters(unsigned companion)
{
	static char text[2][256];
	unsigned n = 0;

	for (unsigned i = 0; i < probe_log.n && n < 255; i++)
		if (probe_log.call[i].companion == companion)
			text[companion][n++] = probe_log.call[i].what;
	text[companion][n] = '\0';
	return text[companion];
}

/* ---- what makes no context ---- */

TEST(wrong_settings_are_refused_and_named)
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
	uint64_t used;

	start();
	dut_context(&dut, "taken", "strict", "qp=900;qps=2;must=3");
	used = dut.nic->memory_used;
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
	CU_ASSERT_EQUAL(attached - detached, 1);
	dut_context(&dut, "c", "strict", "qp=16;must=3"); /* after all that */
	end();
}

TEST(settings_without_key_or_value_are_refused)
{
	struct sp_setting setting[] = {{"qp", "16"}, {"must", NULL}, {NULL, "1"}};
	struct sp_error error;
	uint32_t id;

	start();
	CU_ASSERT_EQUAL(sp_context_open(dut.dev, "c", "strict", setting, 2, &id, &error), -EINVAL);
	setting[1] = setting[2];
	CU_ASSERT_EQUAL(sp_context_open(dut.dev, "c", "strict", setting, 2, &id, &error), -EINVAL);
	CU_ASSERT(error.text[0]);
	end();
}

TEST(a_name_is_short_and_used_once)
{
	struct sp_error error;
	uint32_t id, other;

	start();
	CU_ASSERT_EQUAL(dut_try_context(&dut, "", "strict", "qp=16;must=3", &id, &error), -EINVAL);
	CU_ASSERT_EQUAL(dut_try_context(&dut, NULL, "strict", "qp=16;must=3", &id, &error), -EINVAL);
	CU_ASSERT_EQUAL(dut_try_context(&dut, "0123456789012345678901234567890123456789", "strict", "qp=16;must=3", &id,
					&error),
			-EINVAL);
	id = dut_context(&dut, "012345678901234567890123456789012345678", "strict", "qp=16;must=3");
	CU_ASSERT_EQUAL(sp_nic_context_find(dut.nic, "012345678901234567890123456789012345678", &other), 0);
	CU_ASSERT_EQUAL(id, other);
	CU_ASSERT_EQUAL(dut_try_context(&dut, "012345678901234567890123456789012345678", "strict", "qp=17;must=3",
					&other, &error),
			-EEXIST);
	end();
}

TEST(parameters_reach_attach_as_given_or_by_default)
{
	start();
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
	end();
}

TEST(a_range_of_qps_ends_at_the_last_number)
{
	start();
	dut_context(&dut, "a", "strict", "qp=0xFFFFFC;must=3;qps=3");
	CU_ASSERT_PTR_NOT_NULL(sp_qp_table_find(dut.nic->qps, 0xFFFFFE));
	CU_ASSERT_PTR_NULL(sp_qp_table_find(dut.nic->qps, 0xFFFFFF));
	CU_ASSERT_PTR_NULL(sp_qp_table_find(dut.nic->qps, 0xFFFFFB));
	end();
}

TEST(a_qp_is_free_again_once_its_context_has_gone)
{
	uint32_t id;

	start();
	for (unsigned i = 0; i < 3; i++) {
		id = dut_context(&dut, "a", "strict", "qp=16;qps=4;must=3");
		CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, id), 0);
		CU_ASSERT_PTR_NULL(sp_qp_table_find(dut.nic->qps, 17));
	}
	CU_ASSERT_EQUAL(attached, 3);
	CU_ASSERT_EQUAL(detached, 3);
	end();
}

TEST(attachs_calls_are_attachs_alone)
{
	struct sp_command cmd = {.op = SP_CMD_QUERY};

	start();
	cmd.context = dut_context(&dut, "a", "strict", "qp=16;must=3");
	CU_ASSERT_EQUAL(sp_command_call(dut.dev, &cmd, NULL), 0);
	end();
}

TEST(an_id_is_not_used_twice)
{
	uint32_t before = 0, id;

	start();
	for (unsigned i = 0; i < 1000; i++) {
		id = dut_context(&dut, "a", "strict", "qp=16;must=3");
		CU_ASSERT_NOT_EQUAL(id, before);
		CU_ASSERT_NOT_EQUAL(id, 0);
		CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, before), -ENOENT);
		CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, id), 0);
		before = id;
	}
	end();
}

TEST(there_is_room_for_4096_contexts)
{
	struct sp_error error;
	uint32_t id, last = 0;

	start();
	for (unsigned i = 0; i < SP_MAX_CONTEXTS; i++) {
		char name[16], settings[32];

		snprintf(name, sizeof(name), "c%u", i);
		snprintf(settings, sizeof(settings), "qp=%u;must=3", 16 + i);
		last = dut_context(&dut, name, "strict", settings);
	}
	CU_ASSERT_EQUAL(dut_try_context(&dut, "more", "strict", "qp=10000;must=3", &id, &error), -ENOSPC);
	say((struct probe_words){0});
	dut_settle(&dut, 1);
	sp_nic_context_remove(dut.nic, last);
	dut_context(&dut, "more", "strict", "qp=10000;must=3");
	end();
	CU_ASSERT_EQUAL(attached, SP_MAX_CONTEXTS + 1);
	CU_ASSERT_EQUAL(detached, attached);
}

TEST(totals_stay_when_a_context_goes)
{
	struct sp_nic_totals before, after;
	uint32_t id;

	start();
	id = dut_context(&dut, "a", "hashed", "qp=16");
	for (unsigned i = 0; i < 40; i++)
		say((struct probe_words){.key = i,
				       .verdict = (uint32_t[]){SP_DONE, SP_DROP(0), SP_DROP(1), SP_ERROR}[i % 4]});
	dut_settle(&dut, 1);
	sp_nic_totals(dut.nic, &before);
	CU_ASSERT_EQUAL(before.taken, 10);
	CU_ASSERT_EQUAL(before.dropped, 30);
	sp_nic_context_remove(dut.nic, id);
	sp_nic_totals(dut.nic, &after);
	CU_ASSERT(!memcmp(&before, &after, sizeof(before)));
	end();
}

/* ---- companion ---- */

TEST(a_companion_sees_the_messages_of_the_first_and_what_it_accepts)
{
	static const char *const seconds[] = {"qp=16;companion=second", "qp=16;companion=second-burst"};

	for (unsigned k = 0; k < 2; k++) {
		uint32_t id;

		start();
		id = dut_context(&dut, "a", "first", seconds[k]);
		CU_ASSERT_EQUAL(exported, 1);
		say((struct probe_words){.key = 7, .serial = 1});
		say((struct probe_words){.key = 7, .serial = 2, .verdict = SP_DROP(0)});
		say((struct probe_words){.key = 7, .serial = 3, .verdict = SP_FORWARD});
		say((struct probe_words){.key = 7, .serial = 4, .verdict = SP_END});
		dut_settle(&dut, 1);
		say((struct probe_words){.key = 8, .serial = 5, .header = SP_DROP(0)}); /* refused: not a message */
		say((struct probe_words){.key = SP_NO_MESSAGE, .serial = 6});	      /* of no message */
		say((struct probe_words){.key = 9, .serial = 7});
		dut_settle(&dut, 2);
		CU_ASSERT_STRING_EQUAL(letters(0), "ahppppchphp");
		CU_ASSERT_STRING_EQUAL(letters(1), "ahppchp");
		for (unsigned i = 0; i < probe_log.n; i++) {
			const struct probe_call *call = &probe_log.call[i];

			CU_ASSERT(!call->dirty); /* each has its own state, zeroed before its header */
			if (call->companion && call->what == 'p')
				CU_ASSERT(call->serial == 1 || call->serial == 4 || call->serial == 7);
		}
		/* What it answers changes nothing: the counters are the first's verdicts. */
		CU_ASSERT_EQUAL(dut_counter(&dut, id, "packets"), 4);
		CU_ASSERT_EQUAL(dut_counter(&dut, id, "probe-zero"), 2);
		dut_check_totals(&dut);
		end();
	}
}

TEST(a_companions_bursts_are_what_the_first_has_accepted_in_a_row)
{
	uint32_t id;

	start();
	bursts = 0;
	id = dut_context(&dut, "a", "first", "qp=16;companion=second-burst");
	say((struct probe_words){.key = 7, .serial = 1});
	say((struct probe_words){.key = 7, .serial = 2});
	say((struct probe_words){.key = 7, .serial = 3});
	say((struct probe_words){.key = 7, .serial = 4, .verdict = SP_DROP(0)});
	say((struct probe_words){.key = 7, .serial = 5});
	say((struct probe_words){.key = 7, .serial = 6, .verdict = SP_END});
	dut_settle(&dut, 1);
	CU_ASSERT_STRING_EQUAL(letters(1), "ahpppppc");
	CU_ASSERT_EQUAL(bursts, 3); /* the one that ends the message goes alone */
	for (unsigned i = 0; i < probe_log.n; i++)
		if (probe_log.call[i].companion && probe_log.call[i].what == 'p')
			CU_ASSERT_NOT_EQUAL(probe_log.call[i].serial, 4);
	/* What it answers for a run changes nothing either. */
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "packets"), 5);
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "probe-zero"), 1);
	dut_check_totals(&dut);
	end();
}

TEST(header_of_the_first_comes_first_and_its_completion_last)
{
	start();
	dut_context(&dut, "a", "first", "qp=16;companion=second");
	say((struct probe_words){.key = 7, .verdict = SP_END});
	dut_settle(&dut, 1);
	CU_ASSERT_STRING_EQUAL(probe_letters(7), "hhppcc");
	CU_ASSERT_EQUAL_FATAL(probe_log.n, 8);
	CU_ASSERT(!probe_log.call[2].companion && probe_log.call[3].companion);
	CU_ASSERT(!probe_log.call[4].companion && probe_log.call[5].companion);
	CU_ASSERT(probe_log.call[6].companion && !probe_log.call[7].companion);
	end();
}

TEST(both_are_told_when_the_context_goes_and_detached_once)
{
	uint32_t id;

	start();
	id = dut_context(&dut, "a", "first", "qp=16;companion=second");
	say((struct probe_words){.key = 7});
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, id), 0);
	CU_ASSERT_STRING_EQUAL(letters(0), "ahpcd");
	CU_ASSERT_STRING_EQUAL(letters(1), "ahpcd");
	for (unsigned i = 0; i < probe_log.n; i++)
		if (probe_log.call[i].what == 'c')
			CU_ASSERT_EQUAL(probe_log.call[i].serial, SP_END_DETACH);
	end();
}

TEST(a_companion_that_fails_to_attach_takes_the_first_back)
{
	struct sp_error error;
	uint32_t id;

	start();
	CU_ASSERT_EQUAL(dut_try_context(&dut, "a", "first", "qp=16;companion=second;second-fails=yes", &id, &error),
			-EIO);
	CU_ASSERT_STRING_EQUAL(letters(0), "ad");
	CU_ASSERT_STRING_EQUAL(letters(1), "a");
	end();
}

TEST(the_hosts_events_are_the_firsts_and_the_companions)
{
	struct sp_event e;
	uint32_t id;

	start();
	id = dut_context(&dut, "a", "first", "qp=16;companion=second");
	for (unsigned i = 0; i < 3; i++) {
		struct sp_command cmd = {.op = PROBE_CMD_EVENT, .context = id, .arg = {100 + i}};

		say((struct probe_words){.key = i, .verdict = SP_END});
		dut_settle(&dut, i);
		CU_ASSERT_EQUAL(sp_command_call(dut.dev, &cmd, NULL), 0);
	}
	for (unsigned i = 0; i < 6; i++) {
		CU_ASSERT_EQUAL_FATAL(sp_event_take(dut.dev, id, &e), 1);
		CU_ASSERT_EQUAL(e.cookie, i % 2 ? 100 + i / 2 : i / 2);
		CU_ASSERT_EQUAL(e.context, id);
	}
	end();
}

TEST(commands_that_the_first_does_not_know_are_the_companions)
{
	struct sp_command cmd = {.op = SP_CMD_OWN + 50, .arg = {7}};
	struct sp_event e;

	start();
	cmd.context = dut_context(&dut, "a", "first", "qp=16;companion=second");
	CU_ASSERT_EQUAL(sp_command_call(dut.dev, &cmd, &e), 0);
	CU_ASSERT_EQUAL(e.arg[0], 8);
	CU_ASSERT_EQUAL(e.context, cmd.context);
	cmd.op = PROBE_CMD_FAIL; /* the first knows it, and says no */
	CU_ASSERT_EQUAL(sp_command_call(dut.dev, &cmd, &e), -7);
	cmd.op = SP_CMD_OWN + 51;
	CU_ASSERT_EQUAL(sp_command_call(dut.dev, &cmd, &e), -ENOENT);
	cmd.context = dut_context(&dut, "b", "first", "qp=17");
	CU_ASSERT_EQUAL(sp_command_call(dut.dev, &cmd, &e), -EOPNOTSUPP);
	end();
}

TEST(only_a_companion_has_a_first)
{
	struct sp_ctx *one;
	uint32_t id;

	start();
	id = dut_context(&dut, "a", "first", "qp=16");
	CU_ASSERT_PTR_NULL(sp_first(&sp_context_by_id(dut.nic, id)->view[0]->pub, &one));
	end();
}

/* What a NIC with that seed and that secret makes of some bytes. */
static uint64_t hash_of(uint64_t seed, uint64_t secret, const void *bytes, size_t len)
{
	uint64_t hash;
	uint32_t id;

	dut_prepare(&dut, 1);
	dut.config.seed = seed;
	dut.config.secret = secret;
	dut_create(&dut);
	id = dut_context(&dut, "a", "first", "qp=16");
	hash = sp_hash(&sp_context_by_id(dut.nic, id)->view[0]->pub, bytes, len);
	CU_ASSERT(hash < 1ull << 63);
	end();
	return hash;
}

TEST(hashes_are_the_nics_own_and_every_byte_counts)
{
	uint8_t bytes[19] = {1, 2, 3};
	const uint64_t hash = hash_of(7, 0, bytes, sizeof(bytes));

	CU_ASSERT_EQUAL(hash_of(7, 0, bytes, sizeof(bytes)), hash);
	CU_ASSERT_NOT_EQUAL(hash_of(8, 0, bytes, sizeof(bytes)), hash);
	CU_ASSERT_NOT_EQUAL(hash_of(7, 9, bytes, sizeof(bytes)), hash);
	CU_ASSERT_EQUAL(hash_of(7, 9, bytes, sizeof(bytes)), hash_of(8, 9, bytes, sizeof(bytes)));
	for (size_t len = 0; len < sizeof(bytes); len++)
		CU_ASSERT_NOT_EQUAL(hash_of(7, 0, bytes, len), hash);
	for (size_t i = 0; i < sizeof(bytes); i++) {
		bytes[i] ^= 0x10;
		CU_ASSERT_NOT_EQUAL(hash_of(7, 0, bytes, sizeof(bytes)), hash);
		bytes[i] ^= 0x10;
	}
}
