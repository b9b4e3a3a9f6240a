/* SPDX-License-Identifier: BSD-3-Clause */
/* What a handler's table may hold: of those that are built in, and of those that plug-ins bring. */
#include "../../pipeline/plugin/handler.h"
#include "../../pipeline/nic.h"
#include "../lib/suite.h"

static const char *const words[] = {"a", "b", NULL};
static const char *const twice[] = {"one", "two", "one", NULL}, *const spaced[] = {"has space", NULL},
			 *const none[] = {"", NULL},
			 *const lengthy[] = {"a234567890123456789012345678901234567890", NULL},
			 *const usual[] = {"not-mine", "too_long", NULL};
static const char *many[66];
#define PARAMS(...) ((const struct sp_param[]){__VA_ARGS__, {NULL}})

static int attach(struct sp_ctx *c)
{
	return 0;
}
static uint64_t classify(struct sp_ctx *c, struct sp_packet *p)
{
	return 0;
}
static uint32_t miss(struct sp_ctx *c, struct sp_packet *p)
{
	return 0;
}
static uint32_t payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	return 0;
}
static uint32_t burst(struct sp_ctx *c, struct sp_message *m, struct sp_packet *const *p, unsigned n)
{
	return 0;
}
static void completion(struct sp_ctx *c, struct sp_message *m, enum sp_end why)
{
}
static int command(struct sp_ctx *c, const struct sp_command *cmd, struct sp_event *result)
{
	return 0;
}
static void timer(struct sp_ctx *c, struct sp_timer *t)
{
}

TEST(a_table_that_cannot_be_right_is_refused_in_words)
{
#define H SP_HANDLER_HEAD, .name = "h"
#define P H, .payload = payload
	const struct {
		struct sp_handler h;
		const char *words;
	} wrong[] = {
		{{SP_HANDLER_HEAD, .payload = payload}, "has no name"},
		{{SP_HANDLER_HEAD, .name = "", .payload = payload}, "has no name"},
		{{SP_HANDLER_HEAD, .name = "Upper", .payload = payload}, "handler Upper is no name"},
		{{SP_HANDLER_HEAD, .name = "1st", .payload = payload}, "is no name"},
		{{SP_HANDLER_HEAD, .name = "a_b", .payload = payload}, "is no name"},
		{{SP_HANDLER_HEAD, .name = "a234567890123456789012345678901x", .payload = payload}, "is no name"},
		{{P, .messages = 3}, "unknown kind of messages, 3"},
		{{P, .messages = SP_MESSAGES_SLOTS}, "has messages but no classify()"},
		{{P, .messages = SP_MESSAGES_HASHED, .header = payload}, "has messages but no classify()"},
		{{P, .messages = SP_MESSAGES_HASHED, .classify = classify, .miss = miss}, "SP_MESSAGES_SLOTS alone"},
		{{P, .miss = miss}, "SP_MESSAGES_SLOTS alone"},
		{{P, .classify = classify, .header = payload}, "has header() but no messages"},
		{{P, .classify = classify, .completion = completion}, "has completion() but no messages"},
		{{P, .classify = classify, .msg_size = 8}, "has msg_size but no messages"},
		{{H, .messages = SP_MESSAGES_HASHED, .classify = classify},
		 "none of header(), payload() and completion()"},
		{{H}, "no function that takes packets or commands"},
		{{H, .attach = attach}, "no function that takes packets or commands"},
		{{H, .timer = timer}, "no function that takes packets or commands"},
		{{P, .flags = SP_HANDLER_HOME | 48}, "has unknown flags, 0x30"},
		{{P, .flags = SP_HANDLER_HOME | SP_HANDLER_FLOWS}, "on one worker and on their flows' workers"},
		{{P, .flags = SP_HANDLER_FLOWS, .messages = SP_MESSAGES_HASHED, .classify = classify},
		 "has flows and messages"},
		{{P, .flags = SP_HANDLER_SERVICE}, "is a service but has no control()"},
		{{P, .ctx_size = (size_t)-1}, "wants a context state of"},
		{{P, .msg_size = (size_t)1 << 40}, "wants a message state of"},
		{{P, .counters = twice}, "declares the counter 'one' twice"},
		{{P, .drops = twice}, "declares the drop reason 'one' twice"},
		{{P, .drops = spaced}, "a drop reason 'has space': a name is"},
		{{P, .counters = none}, "a counter ''"},
		{{P, .counters = lengthy}, "at most 39 bytes"},
		{{P, .drops = many}, "declares more than 64 drop reasons"},
		{{P, .counters = many}, "declares more than 64 counters"},
		{{P, .params = PARAMS({"a", SP_UINT, "1"}, {"a", SP_BOOL, "no"})}, "declares the parameter 'a' twice"},
		{{P, .params = PARAMS({"qp", SP_UINT, "1"})}, "'qp', which is a key of every context"},
		{{P, .params = PARAMS({"a b", SP_UINT, "1"})}, "a parameter 'a b'"},
		{{P, .params = PARAMS({"a", 9, "1"})}, "'a' of an unknown type, 9"},
		{{P, .params = PARAMS({"a", SP_UINT, "1", 5, 4})}, "'a' from 5 up to 4"},
		{{P, .params = PARAMS({"a", SP_UINT, "17", 0, 16})}, "default '17' is out of its range"},
		{{P, .params = PARAMS({"a", SP_UINT, "0", 1, 0})}, "default '0' is out of its range"},
		{{P, .params = PARAMS({"a", SP_UINT, "many"})}, "default 'many' is no number"},
		{{P, .params = PARAMS({"a", SP_BOOL, "perhaps"})}, "default 'perhaps' is no yes or no"},
		{{P, .params = PARAMS({"a", SP_TIME, "10"})}, "default '10' is no time"},
		{{P, .params = PARAMS({"a", SP_STRING, "c", .choices = words})}, "default 'c' is no choice of its"},
		{{P, .params = PARAMS({"a", SP_UINT, "1", .choices = words})}, "choices, which is not SP_STRING"},
		{{P, .params = PARAMS({"a", SP_TIME, "1s", SP_MS, SP_US})}, "from 1000000000 up to 1000000"},
		{{P, .params = PARAMS({"a", SP_RATE, "fast"})}, "default 'fast' is no rate"},
	};
	const struct sp_handler right[] = {
		{P},
		{P, .drops = usual, .counters = usual, .ctx_size = 1 << 20},
		{P, .flags = SP_HANDLER_HOME},
		{P, .flags = SP_HANDLER_HOME | SP_HANDLER_HOSTED},
		{H, .payload_burst = burst},
		{H, .command = command},
		{H, .classify = classify},
		{H, .attach = attach, .timer = timer},
		{H, .header = payload, .completion = completion, .msg_size = 8}, /* a companion */
		{H, .messages = SP_MESSAGES_HASHED, .classify = classify, .header = payload, .msg_size = 8},
		{P, .messages = SP_MESSAGES_SLOTS, .classify = classify},
		{P, .messages = SP_MESSAGES_SLOTS, .classify = classify, .miss = miss},
		{P, .params = PARAMS({"a-b", SP_UINT}, {"b", SP_UINT, "16", 16, 16}, {"c", SP_STRING, ""},
				     {"d", SP_TIME, "0"}, {"e", SP_RATE, "400G"}, {"f", SP_BOOL, "off"})},
	};
	struct sp_error error;
	char names[66][8];

	for (unsigned i = 0; i < 65; i++) {
		snprintf(names[i], sizeof(names[i]), "n%u", i);
		many[i] = names[i];
	}
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		error = (struct sp_error){.text = "nothing"};
		int r = sp_handler_check(&wrong[i].h, &error);
		if (r != -EINVAL || !strstr(error.text, wrong[i].words))
			printf("# wrong %u: %d, '%s', not '%s'\n", i, r, error.text, wrong[i].words);
		CU_ASSERT_EQUAL(r, -EINVAL);
		CU_ASSERT_PTR_NOT_NULL(strstr(error.text, wrong[i].words));
		CU_ASSERT_EQUAL(sp_handler_check(&wrong[i].h, NULL), -EINVAL);
	}
	many[64] = NULL;
	for (unsigned i = 0; i < sizeof(right) / sizeof(*right); i++) {
		error.text[0] = 0;
		if (sp_handler_check(&right[i], &error))
			printf("# right %u: '%s'\n", i, error.text);
		CU_ASSERT_STRING_EQUAL(error.text, "");
	}
	CU_ASSERT_EQUAL(sp_handler_check(&(struct sp_handler){P, .drops = many, .counters = many}, NULL), 0);
}

TEST(built_in_handlers_pass_the_same_check)
{
	unsigned n = 0;

	for (const struct sp_handler *h = sp_handler_next(NULL); h; h = sp_handler_next(h)) {
		struct sp_error error = {.key = ""};
		CU_ASSERT_EQUAL(sp_handler_check(h, &error), 0);
		CU_ASSERT_STRING_EQUAL(error.text, "");
		CU_ASSERT_PTR_NULL(sp_handler_file(h));
		n++;
	}
	CU_ASSERT(n >= 3);
}

TEST(one_linked_in_for_another_abi_or_size_is_refused_by_name)
{
	static const struct sp_handler abi = {.abi = SP_ABI + 1, .size = sizeof(abi), .name = "linked-abi"};
	static const struct sp_handler size = {.abi = SP_ABI, .size = sizeof(size) - 8, .name = "linked-size"};
	struct sp_error error = {.key = ""};

	sp_handler_register(&abi);
	sp_handler_register(&size);
	CU_ASSERT_PTR_NULL(sp_handler_find("linked-abi"));
	CU_ASSERT_PTR_NULL(sp_handler_find("linked-size"));
	CU_ASSERT_EQUAL(sp_handler_missing("linked-abi", "handler", &error), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "handler linked-abi was built for ABI 6, this NIC has 5"));
	CU_ASSERT_STRING_EQUAL(error.key, "handler");
	CU_ASSERT_EQUAL(sp_handler_missing("linked-size", "companion", &error), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "handler linked-size has a struct sp_handler of "));
	CU_ASSERT_EQUAL(sp_handler_missing("nobody", "handler", &error), -ENOENT);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "there is no handler nobody"));
}
