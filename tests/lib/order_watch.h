/* SPDX-License-Identifier: BSD-3-Clause */
/* For NICs with several workers: ports that make packets, and handlers that check the order of their calls. */
#ifndef TESTS_ORDER_WATCH_H
#define TESTS_ORDER_WATCH_H

#include <sched.h>
#include <time.h>
#include "probe.h"

#define WORKERS 3
#define KEYS	8
#define SPAN	400 /* ms that a test goes on for */

/* ---- ports that make packets, each queue for itself ---- */

struct source {
	uint64_t seed;
	uint64_t left;		 /* packets still to come; only the worker of this queue touches it */
	_Atomic uint64_t polled; /* receive() calls since they ran out */
	uint64_t made;
	uint32_t qp, qps;    /* to QPs qp ... qp + qps - 1 */
	unsigned end_one_in; /* of so many packets one ends its message */
	uint16_t udp_port;   /* every other packet goes there instead; 0: none */
	bool one_key, slots;
	bool after_header; /* begins once a header() has */
} __attribute__((aligned(64)));

extern struct source watch_source[DUT_QUEUES];
extern _Atomic uint64_t watch_violations, watch_headers, watch_completions, watch_closings, watch_packets_in;
extern struct frame watch_roce, watch_udp;

extern _Atomic bool watch_hush; /* sources make nothing any more */

extern const struct sp_port_ops watch_source_ops;

/* ---- time ---- */

uint64_t watch_now_ms(void);

/* For SPAN ms, and on a busy machine longer, until enough has happened. */
bool watch_goes_on(uint64_t since, bool enough);

void watch_nap(long us);

/* ---- the handler that keeps watch ---- */

extern _Atomic bool watch_gate_shut; /* header() of key 1 waits until it opens */

extern _Atomic uint32_t watch_region; /* memory that payload() writes to, or 0 */

struct watch_message {
	_Atomic uint32_t phase; /* 0 new, 1 in header, 2 open, 3 completed */
	_Atomic int32_t inside;
	uint64_t key;		  /* plain: header() writes, the others read */
	uint64_t by[WORKERS + 1]; /* plain: each worker its own, completion() all */
};

struct watch {
	_Atomic bool gone; /* detach() was here */
	_Atomic uint64_t wanted;
	uint64_t issued; /* plain: the home worker's */
	struct sp_issue issue;
	struct sp_timer timer[WORKERS];
	struct sp_work work[WORKERS];
	_Atomic uint64_t timers, works, sent;
	uint64_t command;		 /* plain: the home worker's */
	struct sp_path *known, *unknown; /* the neighbour there */
};

void watch_must(bool ok);

#define WATCH(ident, text, kind)                                                                                       \
	static const struct sp_handler ident = {SP_HANDLER_HEAD,                                                       \
						.name = text,                                                          \
						.drops = probe_drops,                                                  \
						.ctx_size = sizeof(struct watch),                                      \
						.msg_size = sizeof(struct watch_message),                              \
						.messages = kind,                                                      \
						.attach = watch_attach,                                                \
						.detach = watch_detach,                                                \
						.classify = watch_classify,                                            \
						.miss = watch_miss,                                                    \
						.header = watch_header,                                                \
						.payload = watch_payload,                                              \
						.completion = watch_completion,                                        \
						.command = watch_command};                                             \
	SP_HANDLER(ident)

/* ---- one without messages that starts things wherever it is ---- */

/* ---- one whose every call is on its home worker: nothing in it is locked or atomic, but what the test reads ---- */

struct homely {
	uint64_t packets, timers, issues, messages; /* plain */
	struct sp_issue issue;
	struct sp_timer timer;
};

#endif
