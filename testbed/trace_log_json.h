/* SPDX-License-Identifier: BSD-3-Clause */
/* Paragraphs of a trace as JSON objects, as documented in spindle-replay(1). The text is made from these, so both have
 * the same content. */
#ifndef TESTBED_TRACE_LOG_JSON_H
#define TESTBED_TRACE_LOG_JSON_H

#include <jansson.h>
#include <stdio.h>

#include "../pipeline/observe/trace.h"

/* port: tells by which port it came. NULL, here and below: out of memory. */
json_t *sp_trace_log_packet(uint64_t number, bool port, const struct sp_packet *p, int parsed, sp_time now);
json_t *sp_trace_log_outside(const struct sp_traced_call *call);
void sp_trace_log_matched(json_t *paragraph, const struct sp_packet *p, const char *context, const char *handler);
void sp_trace_log_fate(json_t *paragraph, enum sp_capture_fate fate, const char *reason);
/* Appends a call, and returns it (borrowed). */
json_t *sp_trace_log_call(json_t *paragraph, const struct sp_traced_call *call, const char *within);
/* The result of a call: `result` replaces call->result for one packet of several. */
void sp_trace_log_result(json_t *record, const struct sp_traced_call *call, uint64_t result);
/* Appends to a list of the record of a call or a paragraph. */
void sp_trace_log_wrote(json_t *record, const struct sp_mem *mem, uint64_t offset, bool atomic, uint64_t len);
json_t *sp_trace_log_sent(uint16_t port, const void *frame, uint32_t len); /* a new object */
void sp_trace_log_append(json_t *record, const char *list, json_t *value); /* takes the reference to value */
void sp_trace_log_posted(json_t *record, const struct sp_event *event);

/* trace_text.c */
void sp_trace_log_text(FILE *out, json_t *paragraph);

#endif
