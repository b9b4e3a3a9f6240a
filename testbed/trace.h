/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a watched NIC does with each packet, for people and as JSON: parse result, context, message, each call of a
 * handler with verdict and cycles, host memory written, events, packets sent, and what became of it.
 * Text: a paragraph per packet. JSON: one object a line (JSON Lines), documented in spindle-replay(1).
 */
#ifndef TESTBED_TRACE_H
#define TESTBED_TRACE_H

#include <stdio.h>

#include "../pipeline/watch.h"

struct sp_trace;

int sp_trace_create(FILE *out, bool json, struct sp_trace **trace); /* -ENOMEM; out stays the caller's */
int sp_trace_add(struct sp_trace *trace, struct sp_nic *nic);	    /* sp_nic_watch */
/* Writes what is unfinished; 0, or -errno if something could not be written. */
int sp_trace_finish(struct sp_trace *trace);
/* In a signal handler, for the last time: what can be written without allocating, so of JSON only what is finished. */
void sp_trace_crashed(struct sp_trace *trace);
void sp_trace_destroy(struct sp_trace *trace); /* NULL is fine */

#endif
