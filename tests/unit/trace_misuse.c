/* SPDX-License-Identifier: BSD-3-Clause */
/* What a watched handler does wrong is told in words, once, of the call that does it; what is right never is. */
#include "../lib/traced.h"

static const char *function; /* in whose name the words are to come */

/* One packet, and what has been told of it. */
static void check_packet(struct probe_words w, const char *words)
{
	char want[256];

	told.wrongs = 0;
	probe_say(0x10, w);
	dut_settle(&dut, 1);
	snprintf(want, sizeof(want), "%s: %s", function, words);
	if (told.wrongs != 1 || strcmp(told.wrong, want))
		printf("# %u times, last: %s\n# not: %s\n", told.wrongs, told.wrong, want);
	CU_ASSERT_EQUAL(told.wrongs, 1);
	CU_ASSERT_STRING_EQUAL(told.wrong, want);
}

/* The function of does.* that is set, called by a packet in that context. */
static void check(const char *handler, struct does d, const char *called, const char *words)
{
	watched_context(handler);
	does = d;
	function = called;
	check_packet((struct probe_words){.key = 5}, words);
	does = (struct does){0};
	probe_stop();
}

static void check_command(const char *handler, int (*command)(struct sp_ctx *, const struct sp_command *), int status,
			  const char *words)
{
	uint32_t id = watched_context(handler);

	does.command = command;
	CU_ASSERT_EQUAL(dut_call(&dut, id, SP_CMD_OWN, 0), status);
	CU_ASSERT_EQUAL(told.wrongs, 1);
	CU_ASSERT_STRING_EQUAL(told.wrong + strlen("command: "), words);
	probe_stop();
}

/* ---- verdicts ---- */

static const struct {
	uint32_t verdict;
	const char *words;
} none[] = {
	{99, "returned 99, which is no verdict"},
	{SP_DONE | 256, "returned 256, which is no verdict"},
	{SP_FORWARD | 512, "returned 514, which is no verdict"},
	{SP_DROP(5), "drops by reason 5, but declares 2 reasons"},
	{SP_SENT, "verdict SP_SENT, but the packet was not sent"},
	{SP_AGAIN, "returned SP_AGAIN, which only miss() may"},
};
static const uint32_t right[] = {SP_DONE, SP_END, SP_FORWARD, SP_ERROR, SP_DROP(0), SP_DROP(1)};

TEST(invalid_verdicts_are_reported)
{
	static const char *const handlers[] = {"wayward", "bursts", "bare"};

	function = "payload";
	for (unsigned h = 0; h < 2; h++) {
		watched_context(handlers[h]);
		for (unsigned i = 0; i < sizeof(none) / sizeof(*none); i++)
			check_packet((struct probe_words){.key = 5, .verdict = none[i].verdict}, none[i].words);
		told.wrongs = 0;
		for (unsigned i = 0; i < sizeof(right) / sizeof(*right); i++)
			probe_say(0x10, (struct probe_words){.key = 5, .verdict = right[i]});
		dut_settle(&dut, 2);
		CU_ASSERT_EQUAL(told.wrongs, 0);
		probe_stop();
	}
	watched_context(handlers[2]);
	check_packet((struct probe_words){.verdict = SP_DROP(0)}, "drops by reason 0, but declares no reasons");
	probe_stop();
}

static uint32_t sends_and_forwards(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	sp_packet_send(c, p);
	return SP_FORWARD;
}

static uint32_t sends_and_drops(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	sp_packet_send(c, p);
	return SP_DROP(0);
}

static uint32_t sends_twice(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	CU_ASSERT_EQUAL(sp_packet_send(c, p), 0);
	CU_ASSERT_EQUAL(sp_packet_send(c, p), -EINVAL);
	return SP_SENT;
}

static uint32_t keeps_what_is_sent(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	CU_ASSERT_EQUAL(sp_packet_send(c, p), 0);
	CU_ASSERT_EQUAL(sp_packet_keep(c, p), -EINVAL);
	return SP_SENT;
}

TEST(a_packet_goes_one_way)
{
	check("wayward", (struct does){.payload = sends_and_forwards}, "payload",
	      "verdict SP_FORWARD, but the packet was sent");
	check("wayward", (struct does){.payload = sends_and_drops}, "payload",
	      "verdict SP_DROP, but the packet was sent");
	check("wayward", (struct does){.payload = sends_twice}, "payload", "sent a packet that has been sent");
	check("wayward", (struct does){.payload = keeps_what_is_sent}, "payload", "kept a packet that has been sent");
}

static uint32_t ends(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	return SP_END;
}

static uint32_t again(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	return SP_AGAIN;
}

static uint32_t miss_again(struct sp_ctx *c, struct sp_packet *p)
{
	return SP_AGAIN;
}

static uint32_t miss_99(struct sp_ctx *c, struct sp_packet *p)
{
	return 99;
}

TEST(each_function_has_its_verdicts)
{
	check("wayward", (struct does){.header = ends}, "header", "returned SP_END, which header() may not");
	check("wayward", (struct does){.header = again}, "header", "returned SP_AGAIN, which only miss() may");
	check("slots", (struct does){.miss = miss_again}, "miss", "returned SP_AGAIN, but has not opened message 0x5");
	check("slots", (struct does){.miss = miss_99}, "miss", "returned 99, which is no verdict");
}

static uint32_t burst_forgets(struct sp_ctx *c, struct sp_message *m, struct sp_packet *const *p, unsigned n)
{
	return SP_DROP(0);
}
static uint32_t burst_hides(struct sp_ctx *c, struct sp_message *m, struct sp_packet *const *p, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		p[i]->verdict = SP_ERROR;
	return 0;
}
static const struct sp_handler forgets = {SP_HANDLER_HEAD, .name = "forgets", .drops = probe_drops,
					  .payload_burst = burst_forgets};
SP_HANDLER(forgets)
static const struct sp_handler hides = {SP_HANDLER_HEAD, .name = "hides", .payload_burst = burst_hides};
SP_HANDLER(hides)

TEST(a_burst_returns_what_its_packets_say)
{
	check("forgets", (struct does){0}, "payload", "returned 4, but the packets' verdicts make 0");
	check("hides", (struct does){0}, "payload", "returned 0, but the packets' verdicts make 3");
}

/* ---- keys ---- */

TEST(invalid_keys_are_reported)
{
	function = "classify";
	watched_context("wayward");
	check_packet((struct probe_words){.key = SP_REJECT(2)}, "rejects by reason 2, but declares 2 reasons");
	check_packet((struct probe_words){.key = SP_REJECT(255)}, "rejects by reason 255, but declares 2 reasons");
	told.wrongs = 0;
	probe_say(0x10, (struct probe_words){.key = SP_REJECT(1)});
	probe_say(0x10, (struct probe_words){.key = SP_NO_MESSAGE});
	probe_say(0x10, (struct probe_words){.key = 1ull << 63});
	dut_settle(&dut, 2);
	CU_ASSERT_EQUAL(told.wrongs, 0);
	probe_stop();
	watched_context("slots");
	check_packet((struct probe_words){.key = 1ull << 63},
		     "returned message key 0x8000000000000000, whose tag is not below 2^31");
	probe_stop();
}

/* ---- memory ---- */

static unsigned behind;

static uint32_t writes_behind_state(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	((uint8_t *)c->state)[sizeof(struct wayward) + behind] ^= 1;
	return SP_DONE;
}

static uint32_t writes_behind_message(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	((uint8_t *)m->state)[8 + behind] ^= 1;
	return SP_DONE;
}

static uint32_t writes_behind_block(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	const struct wayward *s = c->state;
	s->block[100 + behind] ^= 1;
	return SP_DONE;
}

TEST(writes_behind_own_memory_are_reported_once)
{
	static const struct {
		uint32_t (*payload)(struct sp_ctx *, struct sp_message *, struct sp_packet *);
		const char *words;
	} test[] = {{writes_behind_state, "wrote behind its context state (ctx_size %u)"},
		    {writes_behind_message, "wrote behind its message state (msg_size 8)"},
		    {writes_behind_block, "wrote behind a block of 100 bytes from sp_alloc"}};
	char words[128];

	function = "payload";
	for (unsigned i = 0; i < 3; i++)
		for (behind = 0; behind < 64; behind += 21) {
			watched_context("wayward");
			does.payload = test[i].payload;
			snprintf(words, sizeof(words), test[i].words, (unsigned)sizeof(struct wayward));
			check_packet((struct probe_words){.key = 5}, words);
			probe_say(0x10, (struct probe_words){.key = 5}); /* heals it, if anything */
			probe_say(0x10, (struct probe_words){.key = 5});
			probe_say(0x10, (struct probe_words){.key = 6});
			dut_settle(&dut, 2);
			CU_ASSERT_EQUAL(told.wrongs, 1);
			probe_stop();
		}
}

static uint32_t header_overruns(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	memset(m->state, 0, 9); /* zeroes too, which is what was there before it was opened */
	return SP_DONE;
}

static int overruns(struct sp_ctx *c, const struct sp_command *cmd)
{
	((uint8_t *)c->state)[sizeof(struct wayward)] = 0;
	return 0;
}

TEST(every_function_is_looked_after)
{
	char words[128];

	check("wayward", (struct does){.header = header_overruns}, "header",
	      "wrote behind its message state (msg_size 8)");
	snprintf(words, sizeof(words), "wrote behind its context state (ctx_size %zu)", sizeof(struct wayward));
	check_command("wayward", overruns, 0, words);
}

#define RULE(rule) TEST_BETWEEN(watched_start, probe_stop, rule)

static uint32_t beside_overruns(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	((uint8_t *)m->state)[16] = 1;
	return SP_DONE;
}
static const struct sp_handler clumsy = {SP_HANDLER_HEAD, .name = "clumsy", .msg_size = 16, .payload = beside_overruns};
SP_HANDLER(clumsy)

RULE(a_companions_message_state_has_an_end_too)
{
	dut_context(&dut, "c", "wayward", "qp=0x10;companion=clumsy");
	function = "payload";
	check_packet((struct probe_words){.key = 5}, "wrote behind its message state (msg_size 16)");
	probe_stop();
	watched_start();
	dut_context(&dut, "c", "wayward", "qp=0x10;companion=beside");
	does.payload = writes_behind_message;
	check_packet((struct probe_words){.key = 5}, "wrote behind its message state (msg_size 8)");
}

static struct sp_mem *area;
static uint32_t faults(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	static const uint8_t sixteen[16];
	CU_ASSERT_EQUAL(sp_dma_write(c, area, 4090, sixteen, 16), -EFAULT);
	return SP_DONE;
}

static int has_area(struct sp_ctx *c)
{
	area = (struct sp_mem *)(uintptr_t)sp_host_area(c);
	return area ? 0 : -ENOMEM;
}

RULE(ranges_outside_a_region_are_told)
{
	char words[128];

	does.attach = has_area;
	does.area = 4096;
	dut_context(&dut, "c", "wayward", "qp=0x10");
	does.payload = faults;
	function = "payload";
	snprintf(words, sizeof(words), "range 4090 + 16 is outside region %u of 4096 bytes", area->id);
	check_packet((struct probe_words){.key = 5}, words);
}

/* ---- functions that are missing, and calls at the wrong time ---- */

static int arms(struct sp_ctx *c, const struct sp_command *cmd)
{
	return sp_timer_arm(c, &((struct wayward *)c->state)->timer, 1);
}

static int issues(struct sp_ctx *c, const struct sp_command *cmd)
{
	sp_issue_start(c, &((struct wayward *)c->state)->issue);
	return 0;
}

static int works(struct sp_ctx *c, const struct sp_command *cmd)
{
	sp_work_start(c, &((struct wayward *)c->state)->work);
	return 0;
}

static int opens(struct sp_ctx *c, const struct sp_command *cmd)
{
	return sp_message_open(c, 64);
}

static int allocates(struct sp_ctx *c, const struct sp_command *cmd)
{
	return sp_alloc(c, 64) ? 0 : -ENOMEM;
}

static int returns_5(struct sp_ctx *c, const struct sp_command *cmd)
{
	return 5;
}

TEST(what_needs_a_function_that_is_missing_is_told)
{
	check_command("bare", arms, -EINVAL, "armed a timer, but has no timer()");
	check_command("bare", issues, 0, "started an issue, but has no issue()");
	check_command("bare", works, 0, "started work, but has no work()");
	check_command("bare", opens, -EINVAL, "opened a message, but messages = none");
	check_command("wayward", opens, -EINVAL, "opened a message, but messages = hashed");
	check_command("slots", opens, -EINVAL, "opened slot 64 of 8");
	check_command("bare", allocates, -ENOMEM, "called sp_alloc() outside attach()");
	check_command("bare", returns_5, 5, "returned 5, which is neither 0 nor a negative error number");
}

static int sends_much(struct sp_ctx *c)
{
	static const struct sp_send send = {.dest_qp = 7};
	struct wayward *s = c->state;

	for (unsigned i = 0; i < 40; i++)
		sp_send_roce(c, s->path, &send);
	return 7;
}

TEST(issue_keeps_to_its_budget_and_its_answers)
{
	uint32_t id = watched_context("wayward");

	does.command = issues;
	does.issue = sends_much;
	dut_call(&dut, id, SP_CMD_OWN, 0);
	sp_nic_poll(dut.nic, 0, 1);
	CU_ASSERT_EQUAL(told.wrongs, 2);
	CU_ASSERT_STRING_EQUAL(told.wrong, "issue: sent 40 packets, and had a budget of 32");
	does.issue = NULL;
	probe_stop();
}

/* ---- beginning and end ---- */

static int fails_silently(struct sp_ctx *c)
{
	return -EIO;
}

static int fails_with_words(struct sp_ctx *c)
{
	return sp_fail(c, EIO, "qp", "no");
}

static int asks_for_too_many_messages(struct sp_ctx *c)
{
	return sp_messages_limit(c, SP_MAX_MESSAGES + 1, 0);
}

static int asks_for_no_messages(struct sp_ctx *c)
{
	return sp_messages_limit(c, 0, 0);
}

static int asks_twice(struct sp_ctx *c)
{
	int r = sp_messages_limit(c, 16, 0);

	return r ? r : sp_messages_limit(c, 16, 0);
}

RULE(a_limit_of_messages_says_itself_why_it_cannot_be)
{
	static const struct {
		int (*attach)(struct sp_ctx *c);
		const char *words;
	} way[] = {
		{asks_for_too_many_messages,
		 "handler wayward asks for 1048577 messages at once; 1 to 1048576 are possible"},
		{asks_for_no_messages, "handler wayward asks for 0 messages at once; 1 to 1048576 are possible"},
		{asks_twice, "handler wayward asks twice for messages"},
	};
	struct sp_error error;
	uint32_t id;

	for (size_t i = 0; i < sizeof(way) / sizeof(*way); i++) {
		does.attach = way[i].attach;
		CU_ASSERT_EQUAL(dut_try_context(&dut, "c", "wayward", "qp=0x10", &id, &error), -EINVAL);
		CU_ASSERT_STRING_EQUAL(error.text, way[i].words);
		CU_ASSERT_EQUAL(told.wrongs, 0);
	}
}

RULE(attach_says_why_it_fails)
{
	struct sp_error error;
	uint32_t id;

	does.attach = fails_silently;
	CU_ASSERT_EQUAL(dut_try_context(&dut, "c", "wayward", "qp=0x10", &id, &error), -EIO);
	CU_ASSERT_EQUAL(told.wrongs, 1);
	CU_ASSERT_STRING_EQUAL(told.wrong, "attach: returned -5 without sp_fail()");
	does.attach = fails_with_words;
	CU_ASSERT_EQUAL(dut_try_context(&dut, "c", "wayward", "qp=0x10", &id, &error), -EIO);
	CU_ASSERT_EQUAL(told.wrongs, 1);
}

static void *kept[8];
static unsigned keeps;

static uint32_t keeps_it(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	CU_ASSERT_EQUAL(sp_packet_keep(c, p), 0);
	kept[keeps++] = p->buf;
	return SP_DONE;
}

static uint32_t releases_it(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	rte_mbuf_refcnt_update(p->buf, 1); /* else the buffer would be free twice */
	sp_packet_release(c, p->buf);
	return SP_DONE;
}

static void releases_all(struct sp_ctx *c)
{
	while (keeps)
		sp_packet_release(c, kept[--keeps]);
}

TEST(packets_kept_and_never_released_are_told_when_the_context_goes)
{
	static const char *const words[] = {"detach: kept 3 packets and never released them",
					    "detach: released 2 packets more than it kept"};

	for (unsigned more = 0; more < 2; more++) {
		uint32_t id = watched_context("wayward");

		does.payload = more ? releases_it : keeps_it;
		for (unsigned i = 0; i < 3 - more; i++)
			probe_say(0x10, (struct probe_words){.key = 5});
		dut_settle(&dut, 1);
		CU_ASSERT_EQUAL(told.wrongs, 0);
		sp_nic_context_remove(dut.nic, id);
		CU_ASSERT_EQUAL(told.wrongs, 1);
		CU_ASSERT_STRING_EQUAL(told.wrong, words[more]);
		while (keeps)
			rte_pktmbuf_free(kept[--keeps]);
		probe_stop();
	}
	watched_context("wayward");
	does.payload = keeps_it;
	does.detach = releases_all;
	probe_say(0x10, (struct probe_words){.key = 5});
	dut_settle(&dut, 1);
	probe_stop();
	CU_ASSERT_EQUAL(told.wrongs, 0);
}
