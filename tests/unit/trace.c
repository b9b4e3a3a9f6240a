/* SPDX-License-Identifier: BSD-3-Clause */
/* Watching handlers: each call, write, frame and event is told once, in order, and of the call that does it. */
#include "../lib/traced.h"

/* ---- calls ---- */

TEST(the_calls_for_a_packet_come_between_its_match_and_its_fate)
{
	watched_context("wayward");
	probe_say(0x10, (struct probe_words){.key = 5});
	dut_settle(&dut, 1);
	TOLD("in(roce) to(c/wayward) classify{ }5 header/5{ }0 payload/5{ }0 taken");
	probe_say(0x10, (struct probe_words){.key = 5, .verdict = SP_END});
	dut_settle(&dut, 2);
	TOLD("in(roce) to(c/wayward) classify{ }5 payload/5{ }1 completion/5{ }0 taken");
	CU_ASSERT_EQUAL(told.wrongs, 0);
	probe_stop();
}

TEST(a_burst_comes_packet_by_packet)
{
	watched_context("bursts");
	for (unsigned i = 0; i < 3; i++)
		probe_say(0x10, (struct probe_words){.key = 5});
	dut_settle(&dut, 1);
	TOLD("in(roce) to(c/bursts) classify{ }5 header/5{ }0 payload/5{ }0 taken "
	     "in(roce) to(c/bursts) classify{ }5 payload/5{ }0 taken "
	     "in(roce) to(c/bursts) classify{ }5 payload/5{ }0 taken");
	probe_stop();
}

static uint32_t opens(struct sp_ctx *c, struct sp_packet *p)
{
	CU_ASSERT_EQUAL(sp_message_open(c, p->key), 0);
	return SP_AGAIN;
}

TEST(miss_is_told_and_what_it_opens)
{
	watched_context("slots");
	probe_say(0x10, (struct probe_words){.key = 3});
	dut_settle(&dut, 1);
	TOLD("in(roce) to(c/slots) classify{ }3 miss{ }4 dropped(probe-zero)");
	does.miss = opens;
	probe_say(0x10, (struct probe_words){.key = 3});
	dut_settle(&dut, 2);
	TOLD("in(roce) to(c/slots) classify{ }3 miss{ }6 header/3{ }0 payload/3{ }0 taken");
	CU_ASSERT_EQUAL(told.wrongs, 0);
	probe_stop();
}

#define RULE(rule) TEST_BETWEEN(watched_start, probe_stop, rule)

static int starts_all(struct sp_ctx *c, const struct sp_command *cmd)
{
	struct wayward *s = c->state;
	sp_timer_arm(c, &s->timer, c->now + 1);
	sp_work_start(c, &s->work);
	sp_issue_start(c, &s->issue);
	return 0;
}

RULE(calls_without_a_packet_are_told_too)
{
	uint32_t id = dut_context(&dut, "c", "wayward", "qp=0x10");
	TOLD("attach{ }0");
	does.command = starts_all;
	CU_ASSERT_EQUAL(dut_call(&dut, id, SP_CMD_OWN, 0), 0);
	TOLD("command{ posted(command 1:0) }0");
	dut_settle(&dut, 1);
	TOLD("timer{ }0 work{ }0 issue{ }0");
	struct sp_report *r = sp_report_new();
	sp_nic_report(dut.nic, r);
	free(sp_report_finish(r));
	TOLD("report{ }0");
	sp_nic_context_remove(dut.nic, id);
	TOLD("detach{ }0");
	CU_ASSERT_EQUAL(told.wrongs, 0);
}

static int fails(struct sp_ctx *c)
{
	return sp_fail(c, EIO, "", "as told");
}

RULE(a_traced_call_names_its_context_and_kind)
{
	struct sp_error error;
	uint32_t other;

	dut_context(&dut, "a", "bare", "qp=0x20");
	uint32_t id = dut_context(&dut, "c", "wayward", "qp=0x10");
	probe_say(0x10, (struct probe_words){.key = 5, .verdict = SP_FORWARD});
	dut_settle(&dut, 77);
	CU_ASSERT_STRING_EQUAL(told.call.context, "c");
	CU_ASSERT_STRING_EQUAL(told.call.handler, "wayward");
	CU_ASSERT_EQUAL(told.call.id, id);
	CU_ASSERT_EQUAL(told.call.function, SP_CALLED_PAYLOAD);
	CU_ASSERT_EQUAL(told.call.now, 77);
	CU_ASSERT_EQUAL(told.call.packets, 1);
	CU_ASSERT_EQUAL(told.call.result, SP_FORWARD);
	CU_ASSERT(told.call.cycles > 0 && told.call.cycles < 1ull << 40);
	told_words();
	does.attach = fails;
	CU_ASSERT_EQUAL(dut_try_context(&dut, "d", "wayward", "qp=0x30", &other, &error), -EIO);
	TOLD("attach{ }-5");
	CU_ASSERT_STRING_EQUAL(error.text, "as told");
}

RULE(a_companions_calls_are_its_own)
{
	dut_context(&dut, "c", "wayward", "qp=0x10;companion=beside");
	TOLD("attach{ }0");
	does.beside = SP_END; /* nobody asks it */
	probe_say(0x10, (struct probe_words){.key = 5});
	dut_settle(&dut, 1);
	TOLD("in(roce) to(c/wayward) classify{ }5 header/5{ }0 payload/5{ }0 payload/5{ }1 taken");
	CU_ASSERT_STRING_EQUAL(told.call.context, "c");
	CU_ASSERT_STRING_EQUAL(told.call.handler, "beside");
	CU_ASSERT_EQUAL(told.wrongs, 0);
}

/* ---- what they do ---- */

static uint32_t region;

static void writes(struct sp_ctx *c)
{
	const struct sp_mem *m = sp_mem_get(c, region);
	uint64_t old;

	CU_ASSERT_PTR_NOT_NULL_FATAL(m);
	CU_ASSERT_EQUAL(sp_dma_write(c, m, 3, "A", 1), 0);
	CU_ASSERT_EQUAL(sp_dma_store64(c, m, 16, 6), 0);
	CU_ASSERT_EQUAL(sp_dma_or64(c, m, 16, 1), 0);
	CU_ASSERT_EQUAL(sp_dma_add64(c, m, 16, 10, &old), 0);
	CU_ASSERT_EQUAL(old, 7);
	sp_mem_put(c, m);
}

static uint32_t payload_writes(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	writes(c);
	CU_ASSERT_EQUAL(sp_event_post(c, &(struct sp_event){.type = SP_EVENT_OWN, .cookie = 9}), 0);
	return SP_DONE;
}

TEST(writes_and_posts_of_a_call_are_traced_as_its_own)
{
	uint8_t memory[64] __attribute__((aligned(8))) = {0};
	struct sp_mr *mr;

	watched_context("wayward");
	CU_ASSERT_EQUAL_FATAL(sp_mr_reg(dut.dev, memory, sizeof(memory), &mr), 0);
	region = mr->id;
	does.payload = payload_writes;
	probe_say(0x10, (struct probe_words){.key = 5});
	dut_settle(&dut, 1);
	TOLD("in(roce) to(c/wayward) classify{ }5 header/5{ }0 payload/5{ wrote(payload 3+1<65) wrote(payload 16+8=6) "
	     "wrote(payload 16+8=7) wrote(payload 16+8=17) posted(payload 256:9) }0 taken");
	CU_ASSERT_EQUAL(memory[3], 'A');
	CU_ASSERT_EQUAL(sp_mr_free(mr), 0);
	probe_stop();
}

static void completion_writes(struct sp_ctx *c, struct sp_message *m)
{
	sp_event_post(c, &(struct sp_event){.type = SP_EVENT_OWN, .cookie = 1});
}

static int closes(struct sp_ctx *c, const struct sp_command *cmd)
{
	int r = sp_message_close(c, cmd->arg[0]);

	sp_event_post(c, &(struct sp_event){.type = SP_EVENT_OWN, .cookie = 2});
	return r;
}

TEST(nested_calls_have_their_own_state)
{
	uint32_t id = watched_context("wayward");

	does.completion = completion_writes;
	does.command = closes;
	probe_say(0x10, (struct probe_words){.key = 5});
	dut_settle(&dut, 1);
	told_words();
	CU_ASSERT_EQUAL(dut_call(&dut, id, SP_CMD_OWN, 5), 0);
	TOLD("command{ completion/5{ posted(completion 256:1) }0 posted(command 256:2) posted(command 1:0) }0");
	probe_stop();
}

TEST(the_result_of_a_command_is_told_once)
{
	struct sp_command cmd = {.op = SP_CMD_OWN, .flags = SP_CMD_REPLY, .cookie = 4};
	struct sp_event e;

	cmd.context = watched_context("wayward");
	CU_ASSERT_EQUAL(sp_command_post(dut.dev, &cmd), 0);
	dut_settle(&dut, 1);
	TOLD("command{ posted(command 1:4) }0");
	CU_ASSERT_EQUAL(sp_event_take(dut.dev, cmd.context, &e), 1);
	CU_ASSERT_EQUAL(e.cookie, 4);
	probe_stop();
}

/* ---- frames ---- */

static uint32_t answers(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	struct wayward *s = c->state;
	static const uint8_t frame[60];
	static const struct sp_send send = {.dest_qp = 7, .bytes = "hello", .len = 5};
	CU_ASSERT_EQUAL(sp_send_frame(c, 0, frame, sizeof(frame)), 0);
	CU_ASSERT_EQUAL(sp_send_roce(c, s->path, &send), 0);
	return sp_packet_send(c, p) ? SP_ERROR : SP_SENT;
}

TEST(each_frame_is_told_complete_with_the_call_that_sends_it)
{
	struct frame f = {0};

	watched_context("wayward");
	does.payload = answers;
	probe_say(0x10, (struct probe_words){.key = 5});
	dut_settle(&dut, 1);
	TOLD("in(roce) to(c/wayward) classify{ }5 header/5{ }0 payload/5{ sent(payload 0:60) sent(payload 0:66) "
	     "sent(payload 0:90) }5 taken");
	CU_ASSERT_EQUAL_FATAL(dut.port.sents, 3);
	CU_ASSERT(told.len == dut.port.sent[2].len && !memcmp(told.frame, dut.port.sent[2].bytes, told.len));
	/* The ICRC is there, and right. */
	memcpy(f.bytes, dut.port.sent[1].bytes, 66);
	f.len = 66;
	f.l3 = 14;
	dut_seal(&f);
	CU_ASSERT(!memcmp(f.bytes, dut.port.sent[1].bytes, 66));
	CU_ASSERT_EQUAL(told.wrongs, 0);
	probe_stop();
}

static uint8_t seen[3][128];
static unsigned seens;
static void sees(void *arg, const struct sp_traced_call *call, uint16_t port, const void *frame, uint32_t len)
{
	if (seens < 3 && len <= 128)
		memcpy(seen[seens++], frame, len);
}

RULE(frames_are_told_as_the_port_gets_them)
{
	seens = 0;
	CU_ASSERT_EQUAL(sp_nic_trace(dut.nic, &(struct sp_tracer){.sent = sees}), 0);
	dut_context(&dut, "c", "wayward", "qp=0x10");
	does.payload = answers;
	probe_say(0x10, (struct probe_words){.key = 5});
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL_FATAL(seens, 3);
	for (unsigned i = 0; i < 3; i++)
		CU_ASSERT(!memcmp(seen[i], dut.port.sent[i].bytes, dut.port.sent[i].len));
}

static const uint8_t who_has[42] = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2, 0, 0, 0, 0,	 2, 8, 6,
				    0,	  1,	8,    0,    6,	  4,	0, 1, 2, 0, 0,	 0, 0, 2,
				    192,  0,	2,    1,    0,	  0,	0, 0, 0, 0, 192, 0, 2, 2};

RULE(answers_of_the_nics_own_are_nobodys)
{
	dut_feed_bytes(&dut.port, 0, 0, who_has, sizeof(who_has));
	dut_settle(&dut, 1);
	TOLD("in(other) sent(- 0:42) answered");
}

TEST(what_waits_for_a_neighbour_is_told_when_it_leaves)
{
	dut_prepare(&dut, 1);
	watched_create();
	dut_context(&dut, "c", "wayward", "qp=0x10");
	told_words();
	does.payload = answers;
	probe_say(0x10, (struct probe_words){.key = 5});
	dut_poll(&dut, 1);
	TOLD("in(roce) to(c/wayward) classify{ }5 header/5{ }0 payload/5{ sent(payload 0:60) sent(- 0:60) "
	     "sent(payload 0:90) }5 taken");
	dut_feed_bytes(&dut.port, 0, 0, who_has, sizeof(who_has)); /* the peer, so that it is known now */
	dut_poll(&dut, 2);
	TOLD("in(other) sent(- 0:42) answered sent(- 0:66)");
	CU_ASSERT_EQUAL(dut.port.sents, 5);
	probe_stop();
}

/* ---- fates ---- */

TEST(every_packet_ends_once_by_its_name)
{
	struct frame f;

	dut_prepare(&dut, 1);
	dut_with_exception(&dut);
	watched_create();
	dut_context(&dut, "c", "bare", "qp=0x10;filter=udp port 7");
	told_words();
	probe_say(0x10, (struct probe_words){.verdict = SP_FORWARD});
	probe_say(0x10, (struct probe_words){.verdict = SP_ERROR});
	probe_say(0x11, (struct probe_words){.verdict = SP_DONE});
	probe_say_udp(7);
	probe_say_udp(8);
	dut_udp(&f, 7, NULL, 20);
	dut_feed_bytes(&dut.port, 0, 0, f.bytes, 13);
	dut_settle(&dut, 1);
	TOLD("in(roce) to(c/bare) payload{ }2 forwarded in(roce) to(c/bare) payload{ }3 dropped(handler-error) "
	     "in(roce) dropped(bad-qp) in(udp) to(c/bare) payload{ }0 taken in(udp) forwarded "
	     "in(short-ethernet) dropped(short-ethernet)");
	CU_ASSERT_EQUAL(told.wrongs, 0);
	probe_stop();
}

static void poll_the_other(void)
{
	sp_nic_poll(dut.nic, 1, dut.nic->worker[0]->now);
	told.packet = NULL; /* the first one goes on */
}

TEST(a_parked_packet_is_told_once_and_ends_later)
{
	struct probe_words w = {.magic = PROBE_MAGIC, .key = 5};
	struct frame f;

	dut_prepare(&dut, 2);
	watched_create();
	dut_context(&dut, "c", "hashed", "qp=0x10");
	told_words();
	dut_roce(&f, FRAME_IP4, 0x10, 0, &w, sizeof(w));
	for (uint16_t q = 0; q < 2; q++)
		dut_feed_bytes(&dut.port, q, 0, f.bytes, f.len);
	probe_log.in_header = poll_the_other;
	sp_nic_poll(dut.nic, 0, 1);
	TOLD("in(roce) to(c/hashed) classify{ }5 header/5{ in(roce) to(c/hashed) classify{ }5 }0 payload/5{ }0 taken");
	sp_nic_poll(dut.nic, 1, 2);
	TOLD("classify{ }5 payload/5{ }0 taken");
	probe_stop();
}

TEST(what_is_parked_for_a_context_that_goes_ends_with_it)
{
	struct probe_words w = {.magic = PROBE_MAGIC, .key = 5};
	struct frame f;

	dut_prepare(&dut, 2);
	watched_create();
	uint32_t id = dut_context(&dut, "c", "hashed", "qp=0x10");
	dut_roce(&f, FRAME_IP4, 0x10, 0, &w, sizeof(w));
	for (uint16_t q = 0; q < 2; q++)
		dut_feed_bytes(&dut.port, q, 0, f.bytes, f.len);
	probe_log.in_header = poll_the_other;
	sp_nic_poll(dut.nic, 0, 1);
	told_words();
	sp_nic_context_remove(dut.nic, id);
	TOLD("dropped(context-closed) completion/5{ }0 detach{ }0");
	probe_stop();
}

/* ---- whoever watches ---- */

TEST(watches_come_before_contexts_and_workers)
{
	probe_start();
	for (unsigned i = 0; i < SP_MAX_TRACERS; i++)
		CU_ASSERT_EQUAL(sp_nic_trace(dut.nic, &(struct sp_tracer){0}), 0);
	CU_ASSERT_EQUAL(sp_nic_trace(dut.nic, &(struct sp_tracer){0}), -ENOSPC);
	CU_ASSERT_EQUAL(sp_nic_start(dut.nic), -EBUSY);
	dut_context(&dut, "c", "wayward", "qp=0x10"); /* told to nobody */
	probe_say(0x10, (struct probe_words){.key = 5});
	dut_settle(&dut, 1);
	probe_stop();
	probe_start();
	uint32_t id = dut_context(&dut, "c", "plain", "qp=0x10");
	CU_ASSERT_EQUAL(sp_nic_trace(dut.nic, &told_watch), -EBUSY);
	sp_nic_context_remove(dut.nic, id);
	CU_ASSERT_EQUAL(sp_nic_trace(dut.nic, &told_watch), 0);
	probe_stop();
	probe_start();
	CU_ASSERT_EQUAL(sp_nic_start(dut.nic), 0);
	CU_ASSERT_EQUAL(sp_nic_trace(dut.nic, &told_watch), -EBUSY);
	sp_nic_stop(dut.nic);
	probe_stop();
}

TEST(every_kind_of_call_has_its_members_name)
{
	for (unsigned i = 0; i < SP_CALLED_COUNT; i++)
		for (unsigned k = 0; k < i; k++)
			CU_ASSERT(strcmp(sp_called_name(i), sp_called_name(k)));
	CU_ASSERT_STRING_EQUAL(sp_called_name(SP_CALLED_COMPLETION), "completion");
	CU_ASSERT_STRING_EQUAL(sp_called_name(SP_CALLED_COUNT), "?");
}

/* ---- and nothing else changes ---- */

struct outcome {
	char *report;
	uint64_t memory;
	struct dut_sent *sent;
	unsigned sents;
};

static uint32_t mixed(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	const struct probe_words w = probe_words_of(p);

	if (m)
		++*(uint64_t *)m->state;
	if (w.action & PROBE_SEND)
		return sp_packet_send(c, p) ? SP_ERROR : SP_SENT;
	return w.verdict;
}

static uint32_t opens_some(struct sp_ctx *c, struct sp_packet *p)
{
	return sp_message_open(c, p->key) ? SP_DROP(0) : SP_AGAIN;
}

static struct outcome traffic(uint16_t workers, bool watched)
{
	static const uint32_t verdict[] = {SP_DONE, SP_DONE, SP_END, SP_DROP(1), SP_FORWARD, SP_ERROR, 99, SP_DROP(5)};
	struct outcome o = {0};
	struct probe_words w = {.magic = PROBE_MAGIC};
	uint64_t seed = 3;
	struct frame f;

	dut_prepare(&dut, workers);
	probe_log_clear();
	dut_create(&dut);
	memset(&told, 0, sizeof(told));
	told.quiet = true;
	if (watched)
		CU_ASSERT_EQUAL_FATAL(sp_nic_trace(dut.nic, &told_watch), 0);
	does = (struct does){.payload = mixed, .miss = opens_some};
	dut_context(&dut, "a", "bursts", "qp=0x10");
	dut_context(&dut, "b", "wayward", "qp=0x11;companion=beside");
	dut_context(&dut, "c", "slots", "qp=0x12");
	dut_context(&dut, "d", "count", "filter=udp portrange 9-20");
	dut_context(&dut, "e", "reflect", "filter=udp");
	for (unsigned i = 0; i < 3000; i++) {
		const uint16_t queue = (uint16_t)(dut_random(&seed) % workers);

		w.key = dut_random(&seed) % 12;
		w.serial = i;
		w.verdict = verdict[dut_random(&seed) % 8];
		w.action = dut_random(&seed) % 3 ? 0 : PROBE_SEND;
		if (dut_random(&seed) % 4)
			dut_roce(&f, FRAME_IP4, 0x10 + dut_random(&seed) % 4, i, &w, sizeof(w));
		else
			dut_udp(&f, (uint16_t)(7 + dut_random(&seed) % 8), &w, sizeof(w));
		dut_feed_bytes(&dut.port, queue, i * SP_US, f.bytes, f.len);
	}
	dut_run(&dut, 1, 3000 * SP_US);
	CU_ASSERT_EQUAL(sp_nic_report_text(dut.nic, true, NULL, &o.report), 0);
	o.memory = dut.nic->memory_used;
	o.sent = dut.port.sent;
	o.sents = dut.port.sents;
	dut.port.sent = NULL;
	probe_stop();
	return o;
}

TEST(a_watched_nic_does_what_it_does_unwatched)
{
	for (uint16_t workers = 1; workers < 3; workers++) {
		struct outcome a = traffic(workers, false), b = traffic(workers, true);

		CU_ASSERT_STRING_EQUAL(a.report, b.report);
		CU_ASSERT_EQUAL(a.memory, b.memory);
		CU_ASSERT(a.sents > 100);
		CU_ASSERT_EQUAL_FATAL(a.sents, b.sents);
		for (unsigned i = 0; i < a.sents; i++)
			CU_ASSERT(a.sent[i].len == b.sent[i].len && a.sent[i].at == b.sent[i].at &&
				  !memcmp(a.sent[i].bytes, b.sent[i].bytes, a.sent[i].len));
		CU_ASSERT(told.wrongs > 100);
		free(a.report);
		free(b.report);
		free(a.sent);
		free(b.sent);
	}
}
