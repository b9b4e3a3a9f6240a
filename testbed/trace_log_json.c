/* SPDX-License-Identifier: BSD-3-Clause */
#include "trace_log_json.h"

#include <inttypes.h>

#include "../pipeline/frame/parser.h"
#include "fields.h"

static void set_integer(json_t *o, const char *name, uint64_t value)
{
	json_object_set_new(o, name, json_integer((json_int_t)value));
}

/* Not every JSON reader keeps 64-bit numbers. */
static void set_hex(json_t *o, const char *name, uint64_t value)
{
	json_object_set_new(o, name, json_sprintf("0x%" PRIx64, value));
}

static void set_string(json_t *o, const char *name, const char *value)
{
	json_object_set_new(o, name, value ? json_string(value) : json_null());
}

static json_t *frame_text(const void *frame, uint32_t len)
{
	char text[256] = "";

	sp_frame_text(frame, len, text, sizeof(text));
	return json_string(text);
}

json_t *sp_trace_log_packet(uint64_t number, bool port, const struct sp_packet *p, int parsed, sp_time now)
{
	static const char *const what[] = {
		[SP_PARSED_OTHER] = "other", [SP_PARSED_IP] = "ip", [SP_PARSED_UDP] = "udp", [SP_PARSED_ROCE] = "roce"};
	json_t *o = json_object();

	set_integer(o, "packet", number);
	if (port && p->port < SP_MAX_PORTS) /* else the NIC sent it to itself */
		set_integer(o, "port", p->port);
	set_integer(o, "time_ps", now);
	set_integer(o, "bytes", p->frame_len);
	set_string(o, "parse", parsed < 0 ? "malformed" : what[parsed]);
	json_object_set_new(o, "frame", frame_text(p->frame, p->frame_len));
	if (parsed == SP_PARSED_ROCE) {
		set_integer(o, "qp", p->dest_qp);
		set_integer(o, "psn", p->psn);
		set_integer(o, "opcode", p->opcode);
	}
	return o;
}

json_t *sp_trace_log_outside(const struct sp_traced_call *call)
{
	json_t *o = json_object();

	set_integer(o, "time_ps", call->now);
	set_string(o, "context", call->context);
	set_string(o, "handler", call->handler);
	return o;
}

void sp_trace_log_matched(json_t *o, const struct sp_packet *p, const char *context, const char *handler)
{
	set_string(o, "context", context);
	set_string(o, "handler", handler);
	if (!json_object_get(o, "qp"))
		return;
	if (p->qp_index == SP_QP_CONTROL)
		set_string(o, "qp_index", "control");
	else
		set_integer(o, "qp_index", p->qp_index);
}

void sp_trace_log_fate(json_t *o, enum sp_capture_fate fate, const char *reason)
{
	static const char *const name[] = {[SP_CAPTURE_TAKEN] = "taken",
					   [SP_CAPTURE_DROPPED] = "dropped",
					   [SP_CAPTURE_FORWARDED] = "forwarded",
					   [SP_CAPTURE_ANSWERED] = "answered",
					   [SP_CAPTURE_SENT] = "sent"};

	set_string(o, "fate", name[fate]);
	if (reason)
		set_string(o, "reason", reason);
}

void sp_trace_log_append(json_t *o, const char *list, json_t *value)
{
	json_t *there = json_object_get(o, list);

	if (!there) {
		there = json_array();
		json_object_set_new(o, list, there);
	}
	json_array_append_new(there, value);
}

static bool is_other(json_t *o, const char *name, const char *value)
{
	const char *there = json_string_value(json_object_get(o, name));

	return !there || strcmp(there, value);
}

json_t *sp_trace_log_call(json_t *o, const struct sp_traced_call *call, const char *within)
{
	json_t *c = json_object();

	set_string(c, "function", sp_called_name(call->function));
	if (is_other(o, "context", call->context) || is_other(o, "handler", call->handler)) {
		set_string(c, "context", call->context);
		set_string(c, "handler", call->handler);
	}
	if (within)
		set_string(c, "within", within);
	if (call->message)
		set_hex(c, "message", call->message->key);
	sp_trace_log_append(o, "calls", c);
	return c;
}

/* ---- results ---- */
/* The handler's name of a drop reason; NULL: it has no such reason. */
static const char *reason_name(const char *handler, uint64_t reason)
{
	const struct sp_handler *h = sp_handler_find(handler);

	if (!h || !h->drops)
		return NULL;
	for (uint64_t i = 0; h->drops[i]; i++)
		if (i == reason)
			return h->drops[i];
	return NULL;
}

static void set_verdict(json_t *c, const char *handler, uint32_t verdict)
{
	static const char *const name[] = {
		[SP_DONE] = "done",	 [SP_END] = "end",   [SP_FORWARD] = "forward", [SP_ERROR] = "error",
		[SP_DROP_KIND] = "drop", [SP_SENT] = "sent", [SP_AGAIN] = "again"};
	const char *reason = (verdict & 0xFF) == SP_DROP_KIND ? reason_name(handler, verdict >> 8) : NULL;

	if (reason) {
		set_string(c, "verdict", "drop");
		set_string(c, "reason", reason);
	} else if (verdict < sizeof(name) / sizeof(*name) && verdict != SP_DROP_KIND) {
		set_string(c, "verdict", name[verdict]);
	} else {
		set_integer(c, "verdict", verdict); /* not a valid verdict */
	}
}

static void set_key(json_t *c, const char *handler, uint64_t key)
{
	const char *reason = key > SP_REJECT(256) ? reason_name(handler, UINT64_MAX - 1 - key) : NULL;

	if (key == SP_NO_MESSAGE) {
		json_object_set_new(c, "message", json_null());
	} else if (reason) {
		set_string(c, "verdict", "drop");
		set_string(c, "reason", reason);
	} else {
		set_hex(c, "message", key);
	}
}

void sp_trace_log_result(json_t *c, const struct sp_traced_call *call, uint64_t result)
{
	static const char *const issue[] = {
		[SP_ISSUE_DONE] = "done", [SP_ISSUE_MORE] = "more", [SP_ISSUE_WAIT] = "wait"};

	switch (call->function) {
	case SP_CALLED_CLASSIFY:
		set_key(c, call->handler, result);
		break;
	case SP_CALLED_MISS:
	case SP_CALLED_HEADER:
	case SP_CALLED_PAYLOAD:
		set_verdict(c, call->handler, (uint32_t)result);
		break;
	case SP_CALLED_ATTACH:
	case SP_CALLED_COMMAND:
		set_integer(c, "status", result);
		break;
	case SP_CALLED_ISSUE:
		if (result < sizeof(issue) / sizeof(*issue))
			set_string(c, "result", issue[result]);
		else
			set_integer(c, "result", result);
		break;
	case SP_CALLED_WORK:
		set_string(c, "result", result ? "more" : "done");
		break;
	default:
		break;
	}
}

/* ---- what it did ---- */
void sp_trace_log_wrote(json_t *record, const struct sp_mem *mem, uint64_t offset, bool atomic, uint64_t len)
{
	json_t *o = json_object();

	set_integer(o, "region", mem->id);
	set_integer(o, "offset", offset);
	set_integer(o, "bytes", len);
	if (atomic)
		json_object_set_new(o, "atomic", json_true());
	sp_trace_log_append(record, "wrote", o);
}

json_t *sp_trace_log_sent(uint16_t port, const void *frame, uint32_t len)
{
	json_t *o = json_object();

	set_integer(o, "port", port);
	set_integer(o, "bytes", len);
	json_object_set_new(o, "frame", frame_text(frame, len));
	return o;
}

void sp_trace_log_posted(json_t *record, const struct sp_event *event)
{
	json_t *o = json_object(), *list = json_array();

	set_integer(o, "type", event->type);
	if (event->type == SP_EVENT_RESULT)
		set_integer(o, "op", event->op);
	json_object_set_new(o, "status", json_integer(event->status));
	set_hex(o, "cookie", event->cookie);
	for (size_t i = 0; i < sizeof(event->arg) / sizeof(*event->arg); i++)
		json_array_append_new(list, json_sprintf("0x%" PRIx64, event->arg[i]));
	json_object_set_new(o, "args", list);
	sp_trace_log_append(record, "events", o);
}
