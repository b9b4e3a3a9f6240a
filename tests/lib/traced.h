/* SPDX-License-Identifier: BSD-3-Clause */
/* The NIC under test with a trace, a handler that does what the test says, and the calls of the trace as words in
 * order. */
#ifndef TESTS_TRACED_H
#define TESTS_TRACED_H

#include "../../pipeline/observe/trace.h"
#include "probe_nic.h"

/* ---- what is told ---- */

extern struct told {
	char text[65536]; /* "in(roce) to(c/wayward) classify{ }5 ... taken " */
	size_t at;
	bool quiet;
	unsigned wrongs;
	char wrong[256]; /* the last one, after the name of the function */
	struct sp_traced_call call;
	uint8_t frame[SP_PACKET_ROOM]; /* sent last */
	uint32_t len;
	uint16_t port;
	const struct sp_packet *packet;
} told;

const char *by(const struct sp_traced_call *call);
extern const struct sp_tracer told_watch;
/* What has been told since the last time. */
const char *told_words(void);

#define TOLD(words)                                                                                                    \
	do {                                                                                                           \
		const char *text_ = told_words();                                                                      \
		if (strcmp(text_, words))                                                                              \
			printf("# told:  %s\n# not:   %s\n", text_, words);                                            \
		CU_ASSERT_STRING_EQUAL(text_, words);                                                                  \
	} while (0)

/* ---- the handler: what a function is not told to do, it does not ---- */

extern struct does {
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
	uint64_t area;	 /* bytes */
} does;

struct wayward {
	struct sp_timer timer;
	struct sp_work work;
	struct sp_issue issue;
	struct sp_path *path;
	uint8_t *block;
};

#define WAYWARD_MESSAGES 8
#define WAYWARD(ident, text, kind, attach_fn, miss_fn, burst_fn)                                                       \
	static const struct sp_handler ident = {SP_HANDLER_HEAD,                                                       \
						.name = text,                                                          \
						.drops = probe_drops,                                                  \
						.ctx_size = sizeof(struct wayward),                                    \
						.msg_size = 8,                                                         \
						.messages = kind,                                                      \
						.configure = wayward_configure,                                        \
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

/* ---- the NIC ---- */

void watched_create(void);
void watched_start(void);
/* With a context c, of which only what follows is of interest. */
uint32_t watched_context(const char *handler);

#endif
