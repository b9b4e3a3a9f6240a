/* SPDX-License-Identifier: BSD-3-Clause */
#include "traced.h"

struct told told;

static __attribute__((format(printf, 1, 2))) void told_word(const char *format, ...)
{
	va_list ap;

	if (told.quiet)
		return;
	va_start(ap, format);
	told.at += (size_t)vsnprintf(told.text + told.at, sizeof(told.text) - told.at, format, ap);
	va_end(ap);
	if (told.at >= sizeof(told.text))
		abort();
}

const char *by(const struct sp_traced_call *call)
{
	return call ? sp_called_name(call->function) : "-";
}

static void told_arrived(void *arg, const struct sp_packet *p, int parsed, sp_time now)
{
	static const char *const name[] = {"other", "ip", "udp", "roce"};
	CU_ASSERT_PTR_NOT_NULL(p->frame);
	CU_ASSERT_PTR_NOT_NULL(p->buf);
	CU_ASSERT(now > 0);
	told.packet = p;
	told_word("in(%s) ", parsed >= 0 ? name[parsed] : sp_drop_names[-1 - parsed]);
}

static void told_matched(void *arg, const struct sp_packet *p, const char *context, const char *handler)
{
	CU_ASSERT_PTR_EQUAL(p, told.packet);
	told_word("to(%s/%s) ", context, handler);
}

static void told_fate(void *arg, const struct sp_packet *p, enum sp_capture_fate fate, const char *reason)
{
	static const char *const name[] = {"?", "taken", "dropped", "forwarded", "answered", "sent"};
	CU_ASSERT_EQUAL(!reason, fate != SP_CAPTURE_DROPPED);
	told_word(reason ? "%s(%s) " : "%s ", name[fate], reason);
}

static void told_enter(void *arg, const struct sp_traced_call *call)
{
	if (call->packets == 1 && told.packet)
		CU_ASSERT_PTR_EQUAL(call->packet[0]->frame, told.packet->frame);
	told_word("%s", by(call));
	if (call->message)
		told_word("/%" PRIu64, call->message->key);
	told_word("{ ");
}

static void told_leave(void *arg, const struct sp_traced_call *call)
{
	told.call = *call;
	told_word("}%" PRId64 " ", (int64_t)call->result);
}

static void told_wrote(void *arg, const struct sp_traced_call *call, const struct sp_mem *mem, uint64_t offset,
		       const void *from, uint64_t len)
{
	uint64_t word = 0;
	memcpy(&word, from ? from : mem->base + offset, len < 8 ? len : 8);
	told_word("wrote(%s %" PRIu64 "+%" PRIu64 "%s%" PRIu64 ") ", by(call), offset, len, from ? "<" : "=", word);
}

static void told_sent(void *arg, const struct sp_traced_call *call, uint16_t port, const void *frame, uint32_t len)
{
	told_word("sent(%s %u:%u) ", by(call), port, len);
	memcpy(told.frame, frame, len);
	told.len = len;
	told.port = port;
}

static void told_posted(void *arg, const struct sp_traced_call *call, const struct sp_event *e)
{
	told_word("posted(%s %u:%" PRIu64 ") ", by(call), e->type, e->cookie);
}

static void told_wrong(void *arg, const struct sp_traced_call *call, const char *what)
{
	told.wrongs++;
	snprintf(told.wrong, sizeof(told.wrong), "%s: %s", by(call), what);
	told_word("wrong ");
}

const struct sp_tracer told_watch = {.arrived = told_arrived,
				     .matched = told_matched,
				     .fate = told_fate,
				     .enter = told_enter,
				     .leave = told_leave,
				     .wrote = told_wrote,
				     .sent = told_sent,
				     .posted = told_posted,
				     .wrong = told_wrong};

const char *told_words(void)
{
	static char text[sizeof(told.text)];

	memcpy(text, told.text, told.at + 1);
	told.at = 0;
	told.text[0] = '\0';
	if (text[0])
		text[strlen(text) - 1] = '\0';
	return text;
}

struct does does;

static int wayward_configure(struct sp_ctx *c, uint64_t *area)
{
	*area = does.area;
	return 0;
}

static int wayward_attach(struct sp_ctx *c)
{
	struct wayward *s = c->state;
	int r = sp_path_open(c, dut_peer4, false, &s->path);

	s->block = sp_alloc(c, 100);
	if (!r && does.attach)
		r = does.attach(c);
	return r;
}

static int wayward_attach_messages(struct sp_ctx *c)
{
	int r = wayward_attach(c);

	return r ? r : sp_messages_limit(c, WAYWARD_MESSAGES, 0);
}

static void wayward_detach(struct sp_ctx *c)
{
	if (does.detach)
		does.detach(c);
}

static uint64_t wayward_classify(struct sp_ctx *c, struct sp_packet *p)
{
	return does.classify ? does.classify(c, p) : probe_words_of(p).key;
}

static uint32_t wayward_miss(struct sp_ctx *c, struct sp_packet *p)
{
	return does.miss ? does.miss(c, p) : SP_DROP(0);
}

static uint32_t wayward_header(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	return does.header ? does.header(c, m, p) : SP_DONE;
}

static uint32_t wayward_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	return does.payload ? does.payload(c, m, p) : probe_words_of(p).verdict;
}

static uint32_t wayward_burst(struct sp_ctx *c, struct sp_message *m, struct sp_packet *const *p, unsigned n)
{
	uint32_t all = 0;

	for (unsigned i = 0; i < n; i++)
		all |= p[i]->verdict = wayward_payload(c, m, p[i]);
	return all;
}

static void wayward_completion(struct sp_ctx *c, struct sp_message *m, enum sp_end why)
{
	if (does.completion)
		does.completion(c, m);
}

static int wayward_command(struct sp_ctx *c, const struct sp_command *cmd, struct sp_event *result)
{
	return does.command ? does.command(c, cmd) : 0;
}

static int wayward_issue(struct sp_ctx *c, struct sp_issue *i, unsigned budget)
{
	return does.issue ? does.issue(c) : SP_ISSUE_DONE;
}

static bool wayward_work(struct sp_ctx *c, struct sp_work *w)
{
	return false;
}

static void wayward_timer(struct sp_ctx *c, struct sp_timer *t)
{
}

static void wayward_report(struct sp_ctx *c, struct sp_report *r)
{
	sp_report_uint(r, "one", 1);
}

static uint32_t beside_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	return does.beside;
}

WAYWARD(wayward, "wayward", SP_MESSAGES_HASHED, wayward_attach_messages, NULL, NULL)

WAYWARD(wayward_slots, "slots", SP_MESSAGES_SLOTS, wayward_attach_messages, wayward_miss, NULL)

WAYWARD(wayward_bursts, "bursts", SP_MESSAGES_HASHED, wayward_attach_messages, NULL, wayward_burst)

/* Few functions. */
static const struct sp_handler bare = {SP_HANDLER_HEAD,
				       .name = "bare",
				       .ctx_size = sizeof(struct wayward),
				       .attach = wayward_attach,
				       .payload = wayward_payload,
				       .command = wayward_command};
SP_HANDLER(bare)

static const struct sp_handler beside = {SP_HANDLER_HEAD, .name = "beside", .msg_size = 8, .payload = beside_payload};
SP_HANDLER(beside)

void watched_create(void)
{
	does = (struct does){0};
	probe_log_clear();
	memset(&told, 0, sizeof(told));
	dut_create(&dut);
	CU_ASSERT_EQUAL_FATAL(sp_nic_trace(dut.nic, &told_watch), 0);
}

void watched_start(void)
{
	dut_prepare(&dut, 1);
	dut.config.neighbours = 1;
	memcpy(dut.config.neighbour[0].ip, dut_peer4, 16);
	memcpy(dut.config.neighbour[0].mac, dut_peer_mac, 6);
	watched_create();
}

uint32_t watched_context(const char *handler)
{
	watched_start();
	uint32_t id = dut_context(&dut, "c", handler, "qp=0x10");
	told_words();
	return id;
}
