/* SPDX-License-Identifier: BSD-3-Clause */
/* A handler that does what the test says, on a watched NIC, and what the watch is told, as words in order. */
#ifndef TESTS_WATCHED_H
#define TESTS_WATCHED_H

#include <stdarg.h>

#include "../../pipeline/watch.h"
#include "../lib/probe_nic.h"

/* ---- what is told ---- */

static struct {
	char text[65536]; /* "in(roce) to(c/wayward) classify{ }5 ... taken " */
	size_t at;
	bool quiet;
	unsigned wrongs;
	char wrong[256]; /* the last one, after the name of the function */
	struct sp_watched_call call;
	uint8_t frame[SP_PACKET_ROOM]; /* sent last */
	uint32_t len;
	uint16_t port;
	const struct sp_packet *packet;
} told;

static inline __attribute__((format(printf, 1, 2))) void told_word(const char *format, ...)
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

static inline const char *by(const struct sp_watched_call *call)
{
	return call ? sp_called_name(call->function) : "-";
}

static inline void told_arrived(void *arg, const struct sp_packet *p, int parsed, sp_time now)
{
	static const char *const name[] = {"other", "ip", "udp", "roce"};
	CU_ASSERT_PTR_NOT_NULL(p->frame);
	CU_ASSERT_PTR_NOT_NULL(p->buf);
	CU_ASSERT(now > 0);
	told.packet = p;
	told_word("in(%s) ", parsed >= 0 ? name[parsed] : sp_drop_names[-1 - parsed]);
}

static inline void told_matched(void *arg, const struct sp_packet *p, const char *context, const char *handler)
{
	CU_ASSERT_PTR_EQUAL(p, told.packet);
	told_word("to(%s/%s) ", context, handler);
}

static inline void told_fate(void *arg, const struct sp_packet *p, enum sp_capture_fate fate, const char *reason)
{
	static const char *const name[] = {"?", "taken", "dropped", "forwarded", "answered", "sent"};
	CU_ASSERT_EQUAL(!reason, fate != SP_CAPTURE_DROPPED);
	told_word(reason ? "%s(%s) " : "%s ", name[fate], reason);
}

static inline void told_enter(void *arg, const struct sp_watched_call *call)
{
	if (call->packets == 1 && told.packet)
		CU_ASSERT_PTR_EQUAL(call->packet[0]->frame, told.packet->frame);
	told_word("%s", by(call));
	if (call->message)
		told_word("/%" PRIu64, call->message->key);
	told_word("{ ");
}

static inline void told_leave(void *arg, const struct sp_watched_call *call)
{
	told.call = *call;
	told_word("}%" PRId64 " ", (int64_t)call->result);
}

static inline void told_wrote(void *arg, const struct sp_watched_call *call, const struct sp_mem *mem, uint64_t offset,
			      const void *from, uint64_t len)
{
	uint64_t word = 0;
	memcpy(&word, from ? from : mem->base + offset, len < 8 ? len : 8);
	told_word("wrote(%s %" PRIu64 "+%" PRIu64 "%s%" PRIu64 ") ", by(call), offset, len, from ? "<" : "=", word);
}

static inline void told_sent(void *arg, const struct sp_watched_call *call, uint16_t port, const void *frame,
			     uint32_t len)
{
	told_word("sent(%s %u:%u) ", by(call), port, len);
	memcpy(told.frame, frame, len);
	told.len = len;
	told.port = port;
}

static inline void told_posted(void *arg, const struct sp_watched_call *call, const struct sp_event *e)
{
	told_word("posted(%s %u:%" PRIu64 ") ", by(call), e->type, e->cookie);
}

static inline void told_wrong(void *arg, const struct sp_watched_call *call, const char *what)
{
	told.wrongs++;
	snprintf(told.wrong, sizeof(told.wrong), "%s: %s", by(call), what);
	told_word("wrong ");
}

static const struct sp_watch told_watch = {.arrived = told_arrived,
					   .matched = told_matched,
					   .fate = told_fate,
					   .enter = told_enter,
					   .leave = told_leave,
					   .wrote = told_wrote,
					   .sent = told_sent,
					   .posted = told_posted,
					   .wrong = told_wrong};

/* What has been told since the last time. */
static inline const char *told_words(void)
{
	static char text[sizeof(told.text)];

	memcpy(text, told.text, told.at + 1);
	told.at = 0;
	told.text[0] = '\0';
	if (text[0])
		text[strlen(text) - 1] = '\0';
	return text;
}

#define TOLD(words)                                                                                                    \
	do {                                                                                                           \
		const char *text_ = told_words();                                                                      \
		if (strcmp(text_, words))                                                                              \
			printf("# told:  %s\n# not:   %s\n", text_, words);                                            \
		CU_ASSERT_STRING_EQUAL(text_, words);                                                                  \
	} while (0)

/* ---- the handler: what a function is not told to do, it does not ---- */

static struct does {
	int (*attach)(struct sp_ctx *);
	void (*detach)(struct sp_ctx *);
	uint64_t (*classify)(struct sp_ctx *, struct sp_packet *);
	uint32_t (*miss)(struct sp_ctx *, struct sp_packet *);
	uint32_t (*header)(struct sp_ctx *, struct sp_message *, struct sp_packet *);
	uint32_t (*payload)(struct sp_ctx *, struct sp_message *, struct sp_packet *);
	void (*completion)(struct sp_ctx *, struct sp_message *);
	int (*command)(struct sp_ctx *, const struct sp_command *);
	int (*issue)(struct sp_ctx *);
	uint32_t beside; /* the companion's verdict */
} does;

struct wayward {
	struct sp_timer timer;
	struct sp_work work;
	struct sp_issue issue;
	struct sp_path *path;
	uint8_t *block;
};
#define WAYWARD_MESSAGES 8

static inline int wayward_attach(struct sp_ctx *c)
{
	struct wayward *s = c->state;
	int r = sp_path_open(c, dut_peer4, false, &s->path);

	s->block = sp_alloc(c, 100);
	if (!r && does.attach)
		r = does.attach(c);
	return r;
}

static inline int wayward_attach_messages(struct sp_ctx *c)
{
	int r = wayward_attach(c);

	return r ? r : sp_messages_limit(c, WAYWARD_MESSAGES, 0);
}

static inline void wayward_detach(struct sp_ctx *c)
{
	if (does.detach)
		does.detach(c);
}

static inline uint64_t wayward_classify(struct sp_ctx *c, struct sp_packet *p)
{
	return does.classify ? does.classify(c, p) : probe_words_of(p).key;
}

static inline uint32_t wayward_miss(struct sp_ctx *c, struct sp_packet *p)
{
	return does.miss ? does.miss(c, p) : SP_DROP(0);
}

static inline uint32_t wayward_header(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	return does.header ? does.header(c, m, p) : SP_DONE;
}

static inline uint32_t wayward_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	return does.payload ? does.payload(c, m, p) : probe_words_of(p).verdict;
}

static inline uint32_t wayward_burst(struct sp_ctx *c, struct sp_message *m, struct sp_packet *const *p, unsigned n)
{
	uint32_t all = 0;

	for (unsigned i = 0; i < n; i++)
		all |= p[i]->verdict = wayward_payload(c, m, p[i]);
	return all;
}

static inline void wayward_completion(struct sp_ctx *c, struct sp_message *m, enum sp_end why)
{
	if (does.completion)
		does.completion(c, m);
}

static inline int wayward_command(struct sp_ctx *c, const struct sp_command *cmd, struct sp_event *result)
{
	return does.command ? does.command(c, cmd) : 0;
}

static inline int wayward_issue(struct sp_ctx *c, struct sp_issue *i, unsigned budget)
{
	return does.issue ? does.issue(c) : SP_ISSUE_DONE;
}

static inline bool wayward_work(struct sp_ctx *c, struct sp_work *w)
{
	return false;
}

static inline void wayward_timer(struct sp_ctx *c, struct sp_timer *t)
{
}

static inline void wayward_report(struct sp_ctx *c, struct sp_report *r)
{
	sp_report_uint(r, "one", 1);
}

static inline uint32_t beside_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	return does.beside;
}

#define WAYWARD(ident, text, kind, attach_fn, miss_fn, burst_fn)                                                       \
	static const struct sp_handler ident = {SP_HANDLER_HEAD,                                                       \
						.name = text,                                                          \
						.drops = probe_drops,                                                    \
						.ctx_size = sizeof(struct wayward),                                    \
						.msg_size = 8,                                                         \
						.messages = kind,                                                      \
						.attach = attach_fn,                                                   \
						.detach = wayward_detach,                                              \
						.classify = wayward_classify,                                          \
						.miss = miss_fn,                                                       \
						.header = wayward_header,                                              \
						.payload = wayward_payload,                                            \
						.payload_burst = burst_fn,                                             \
						.completion = wayward_completion,                                      \
						.command = wayward_command,                                            \
						.issue = wayward_issue,                                                \
						.work = wayward_work,                                                  \
						.timer = wayward_timer,                                                \
						.report = wayward_report};                                             \
	SP_HANDLER(ident)
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

/* ---- the NIC ---- */

static inline void watched_create(void)
{
	does = (struct does){0};
	probe_log_clear();
	memset(&told, 0, sizeof(told));
	dut_create(&dut);
	CU_ASSERT_EQUAL_FATAL(sp_nic_watch(dut.nic, &told_watch), 0);
}

static inline void watched_start(void)
{
	dut_prepare(&dut, 1);
	dut.config.neighbours = 1;
	memcpy(dut.config.neighbour[0].ip, dut_peer4, 16);
	memcpy(dut.config.neighbour[0].mac, dut_peer_mac, 6);
	watched_create();
}

/* With a context c, of which only what follows is of interest. */
static inline uint32_t watched_context(const char *handler)
{
	uint32_t id;

	watched_start();
	id = dut_context(&dut, "c", handler, "qp=0x10");
	told_words();
	return id;
}

static inline struct sp_ctx *ctx_of(uint32_t id)
{
	return &sp_context_by_id(dut.nic, id)->view[0]->pub;
}

#endif
