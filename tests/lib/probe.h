/* SPDX-License-Identifier: BSD-3-Clause */
/* The probe: a handler that does what each packet says and records every call. */
#ifndef TESTS_PROBE_H
#define TESTS_PROBE_H

#include "dut.h"

/* What a packet for a probe says: its message, and what the handler shall answer. */
struct probe_words {
	uint32_t magic;	 /* anything else is a packet of no message */
	uint32_t serial; /* tells packets apart */
	uint64_t key;
	uint32_t header, verdict, miss;
	uint32_t action; /* PROBE_SEND ... */
};

#define PROBE_MAGIC 0x70726F62u

enum {
	PROBE_SEND = 1,	       /* payload() sends the packet */
	PROBE_KEEP = 2,	       /* payload() keeps it */
	PROBE_CLOSE = 4,       /* payload() closes the message */
	PROBE_CLOSE_EARLY = 8, /* header() does */
	PROBE_CLOSE_MISS = 16, /* miss() closes key ^ 1 << 32 (the other tag) */
};

/* Commands: arg[0] is the key. */
enum { PROBE_CMD_OPEN = SP_CMD_OWN, PROBE_CMD_CLOSE, PROBE_CMD_FAIL, PROBE_CMD_EVENT };

struct probe_call {
	char what; /* h p b c m a d: header, payload, burst, completion, miss, attach, detach */
	uint8_t worker, companion;
	bool dirty;	 /* header(): state was not zero; completion(): it was not what header() left */
	uint32_t serial; /* of the packet; completion: enum sp_end */
	uint32_t n;	 /* burst */
	uint32_t context;
	uint64_t key;
	sp_time now, first, last;
};

extern struct probe_log {
	struct probe_call *call;
	unsigned n, room;
	bool off;
	bool reopen; /* completion() tries to open the message again, with the next tag */
	int reopened;
	void (*in_header)(void); /* header() calls it, once */
	void *kept[64];
	unsigned keeps;
} probe_log;

void probe_log_clear(void);
struct probe_call *probe_note(char what, struct sp_ctx *c, uint64_t key, uint32_t serial);
struct probe_words probe_words_of(const struct sp_packet *p);

#define PROBE_STATE 40

int probe_attach(struct sp_ctx *c);
int probe_attach_none(struct sp_ctx *c);
void probe_detach(struct sp_ctx *c);
uint64_t probe_classify(struct sp_ctx *c, struct sp_packet *p);
uint32_t probe_header(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p);
uint32_t probe_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p);
uint32_t probe_burst(struct sp_ctx *c, struct sp_message *m, struct sp_packet *const *p, unsigned n);
uint32_t probe_miss(struct sp_ctx *c, struct sp_packet *p);
void probe_completion(struct sp_ctx *c, struct sp_message *m, enum sp_end why);
int probe_command(struct sp_ctx *c, const struct sp_command *cmd, struct sp_event *result);
extern const struct sp_param probe_params[];
extern const char *const probe_drops[];

/* Defines and registers a handler of that name. */
#define PROBE(ident, text, kind, miss_fn, burst_fn)                                                                    \
	static const struct sp_handler ident = {SP_HANDLER_HEAD,                                                       \
						.name = text,                                                          \
						.doc = "writes down what it is asked",                                 \
						.params = probe_params,                                                \
						.drops = probe_drops,                                                  \
						.msg_size = PROBE_STATE,                                               \
						.messages = kind,                                                      \
						.attach = probe_attach,                                                \
						.detach = probe_detach,                                                \
						.classify = probe_classify,                                            \
						.miss = miss_fn,                                                       \
						.header = probe_header,                                                \
						.payload = probe_payload,                                              \
						.payload_burst = burst_fn,                                             \
						.completion = probe_completion,                                        \
						.command = probe_command};                                             \
	SP_HANDLER(ident)

void probe_feed(struct dut *r, uint32_t qp, struct probe_words *w);
/* The log as letters; only calls of that key unless it is SP_NO_MESSAGE. */
const char *probe_letters(uint64_t key);
/* Per key the calls are h p* c, as often as you like; returns the number of messages, or 0 after a failure. */
unsigned probe_check_order(bool all_ended);
int dut_call(struct dut *r, uint32_t id, uint16_t op, uint64_t arg);

#endif
