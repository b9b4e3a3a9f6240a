/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the two ends of spindle perf say to each other over TCP, one JSON object a line (transfer/talk.h):
 *
 *   client                                             server
 *   {"spindle": "perf", "version", "op", "size", "depth", "way", "time", "messages", "info"}
 *                                                      {"info"}
 *                                                      {"ready": true}
 *   who sends messages, once all have arrived: {"end": MESSAGES}
 *   both, once all that they wait for has happened: {"result": {"sent", "received", "time", "program", "nic"}}
 *   both: {"alive": true} when there is nothing else to say, {"error": TEXT} last
 *
 * Times are in ns; program and nic are processor time. The peer is not trusted: every value is checked.
 */
#ifndef COMMAND_PERF_SESSION_H
#define COMMAND_PERF_SESSION_H

#include "../transfer/words.h"
#include "end.h"

#define PERF_PORT    "5201" /* iperf3's */
#define PERF_VERSION 1

enum perf_way { PERF_UP, PERF_DOWN, PERF_BOTH, PERF_LATENCY }; /* UP: the client sends */

struct perf_plan {
	uint64_t op, size, depth, way;
	uint64_t time, messages; /* ns; messages of each sender. One of them is 0. */
};

struct perf_result {
	uint64_t sent, received;     /* messages */
	uint64_t time, program, nic; /* ns; program, nic: of processors */
};

struct perf_session {
	const char *nic;
	struct talk *talk;
	struct perf_plan plan;
	struct perf_end end;
	const struct perf_op *op;
	char error[400]; /* the first one */
	bool peer_said;	 /* it is the peer's */
};

/* Stores the text if it is the first error. -1. */
int perf_fail(struct perf_session *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
int perf_fail_end(struct perf_session *s, int rc); /* for -errno of an op's call */
/* All: 0 or -1. */
int perf_say(struct perf_session *s, json_t *line);
/* Looks at the connection. 1: the peer's next line that is not only "alive"; 0: none; -1. */
int perf_listen(struct perf_session *s, json_t **line);
int perf_await(struct perf_session *s, const char *key, json_t **line); /* the next line must have that key */
/* Connects with the server by TCP, and both NICs with each other by the plan. */
int perf_call(struct perf_session *s, const char *host, const char *port);
/* The same for the server, with a client that has come. */
int perf_answer(struct perf_session *s, int fd, const char *peer);
void perf_part(struct perf_session *s); /* tells the peer of our error, frees everything */

#endif
