/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records what a watched NIC does with each packet, as text or JSON: parse result, context, message, each call of a
 * handler with verdict and cycles, host memory written, events, packets sent, and the packet's fate. Text: a paragraph
 * per packet. JSON: one object a line (JSON Lines), documented in spindle-replay(1).
 */
#ifndef TESTBED_TRACE_LOG_H
#define TESTBED_TRACE_LOG_H

#include <stdio.h>

#include "../pipeline/observe/trace.h"

struct sp_trace_log;
struct json_t;

int sp_trace_log_create(FILE *out, bool json, struct sp_trace_log **trace); /* -ENOMEM; the caller owns out */
/* Shows packets by these numbers; 0, or no function: by their count. Before the first packet. */
void sp_trace_log_number(struct sp_trace_log *trace, uint64_t (*number)(const struct sp_packet *packet));
void sp_trace_log_ports(
	struct sp_trace_log *trace); /* names also the port of each packet that came; before the first */
/* Has `more` called with the JSON object of each call that has ended, which it may add to. */
void sp_trace_log_more(struct sp_trace_log *trace, void (*more)(void *arg, struct json_t *call), void *arg);
int sp_trace_log_add(struct sp_trace_log *trace, struct sp_nic *nic); /* watches the NIC */
/* Writes unfinished paragraphs; 0, or -errno if a write has failed. */
int sp_trace_log_finish(struct sp_trace_log *trace);
/* The last call, in a signal handler: writes what needs no allocation, so of JSON only finished paragraphs. */
void sp_trace_log_crashed(struct sp_trace_log *trace);
void sp_trace_log_destroy(struct sp_trace_log *trace); /* NULL is fine */

#endif
