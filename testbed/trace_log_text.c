/* SPDX-License-Identifier: BSD-3-Clause */
/* A paragraph of a trace as text: a line at the margin, then an indented line per event. */
#include "trace_log_json.h"

#include <string.h>

#define COLUMN 64 /* column of the cycles */

static const char *string(const json_t *o, const char *name)
{
	const char *value = json_string_value(json_object_get(o, name));

	return value ? value : "?";
}

static long long integer(const json_t *o, const char *name)
{
	return json_integer_value(json_object_get(o, name));
}

static const char *plural(long long n)
{
	return n == 1 ? "" : "s";
}

static const char *parse_name(const char *parse)
{
	return !strcmp(parse, "roce") ? "RoCEv2" : !strcmp(parse, "udp") ? "UDP" : !strcmp(parse, "ip") ? "IP" : parse;
}

static void print_list(FILE *out, json_t *record)
{
	json_t *o, *arg;
	size_t i, k;

	json_array_foreach(json_object_get(record, "wrote"), i, o) fprintf(
		out, "  wrote       region %lld at %lld, %lld byte%s%s\n", integer(o, "region"), integer(o, "offset"),
		integer(o, "bytes"), plural(integer(o, "bytes")), json_object_get(o, "atomic") ? " (atomic)" : "");
	json_array_foreach(json_object_get(record, "sent"), i, o)
		fprintf(out, "  sent        port %lld, %lld bytes: %s\n", integer(o, "port"), integer(o, "bytes"),
			string(o, "frame"));
	json_array_foreach(json_object_get(record, "events"), i, o)
	{
		fprintf(out, "  event       type 0x%llx, status %lld, cookie %s, arguments", integer(o, "type"),
			integer(o, "status"), string(o, "cookie"));
		json_array_foreach(json_object_get(o, "args"), k, arg) fprintf(out, " %s", json_string_value(arg));
		fputc('\n', out);
	}
	json_array_foreach(json_object_get(record, "wrong"), i, o)
		fprintf(out, "  wrong       %s\n", json_string_value(o));
}

/* Times of a call on a device. */
static void print_device(FILE *out, json_t *d)
{
	static const struct {
		const char *name, *says;
	} time[] = {{"end_ps", " to"},
		    {"sent_ps", ", sent at"},
		    {"memory_ps", ", in memory at"},
		    {"event_ps", ", event at"}};

	fprintf(out, "  %-12s%.9f s", "device", (double)integer(d, "start_ps") / 1e12);
	for (size_t i = 0; i < sizeof(time) / sizeof(*time); i++)
		if (json_object_get(d, time[i].name))
			fprintf(out, "%s %.9f s", time[i].says, (double)integer(d, time[i].name) / 1e12);
	fputc('\n', out);
}

/* The result of a call as text. */
static void result_text(const json_t *c, char *text, size_t room)
{
	const json_t *verdict = json_object_get(c, "verdict"), *message = json_object_get(c, "message");

	if (json_is_integer(verdict))
		snprintf(text, room, "%lld, which is no verdict", integer(c, "verdict"));
	else if (verdict && json_object_get(c, "reason"))
		snprintf(text, room, "drop, %s", string(c, "reason"));
	else if (verdict)
		snprintf(text, room, "%s", json_string_value(verdict));
	else if (json_object_get(c, "status"))
		snprintf(text, room, "status %lld", integer(c, "status"));
	else if (json_is_integer(json_object_get(c, "result")))
		snprintf(text, room, "%lld", integer(c, "result"));
	else if (json_object_get(c, "result"))
		snprintf(text, room, "%s", string(c, "result"));
	else if (message)
		snprintf(text, room, json_is_null(message) ? "no message" : "message %s", json_string_value(message));
	else
		*text = '\0';
}

static void print_call(FILE *out, json_t *c)
{
	char text[256], *to = text, *end = text + sizeof(text);

	result_text(c, text, sizeof(text) / 2);
	to += strlen(text);
	if (json_object_get(c, "with"))
		to += snprintf(to, (size_t)(end - to), "%s(with packet %lld)", *text ? " " : "", integer(c, "with"));
	else if (!json_object_get(c, "cycles"))
		to += snprintf(to, (size_t)(end - to), "%s(has not returned)", *text ? " " : "");
	if (json_object_get(c, "within"))
		to += snprintf(to, (size_t)(end - to), "%s(within %s)", *text ? " " : "", string(c, "within"));
	if (json_object_get(c, "context") && to < end)
		snprintf(to, (size_t)(end - to), "%s(context %s, handler %s)", *text ? " " : "", string(c, "context"),
			 string(c, "handler"));
	if (json_object_get(c, "cycles"))
		fprintf(out, "  %-11s %-*s %8lld cycles\n", string(c, "function"), COLUMN - 14, text,
			integer(c, "cycles"));
	else
		fprintf(out, "  %-11s %s\n", string(c, "function"), text);
	print_list(out, c);
	if (json_object_get(c, "device"))
		print_device(out, json_object_get(c, "device"));
}

static void print_packet(FILE *out, const json_t *o)
{
	fprintf(out, "packet %lld   ", integer(o, "packet"));
	if (json_object_get(o, "port"))
		fprintf(out, "port %lld   ", integer(o, "port"));
	fprintf(out, "%.9f s   %lld bytes\n", (double)integer(o, "time_ps") / 1e12, integer(o, "bytes"));
	fprintf(out, "  parse       %s: %s\n", parse_name(string(o, "parse")), string(o, "frame"));
	if (!json_object_get(o, "context"))
		return;
	fprintf(out, "  context     %s, handler %s", string(o, "context"), string(o, "handler"));
	if (json_is_string(json_object_get(o, "qp_index")))
		fprintf(out, ", control QP");
	else if (json_object_get(o, "qp_index"))
		fprintf(out, ", QP index %lld", integer(o, "qp_index"));
	fputc('\n', out);
}

void sp_trace_log_text(FILE *out, json_t *o)
{
	json_t *calls = json_object_get(o, "calls"), *c;
	size_t i;

	if (json_object_get(o, "packet"))
		print_packet(out, o);
	else if (json_object_get(o, "context"))
		fprintf(out, "%s   %.9f s   context %s, handler %s\n", string(json_array_get(calls, 0), "function"),
			(double)integer(o, "time_ps") / 1e12, string(o, "context"), string(o, "handler"));
	else
		fprintf(out, "NIC   %.9f s\n", (double)integer(o, "time_ps") / 1e12);
	json_array_foreach(calls, i, c) print_call(out, c);
	print_list(out, o);
	if (json_object_get(o, "reason"))
		fprintf(out, "  %-11s %s\n", string(o, "fate"), string(o, "reason"));
	else if (json_object_get(o, "fate"))
		fprintf(out, "  %s\n", string(o, "fate"));
	else if (json_object_get(o, "packet"))
		fprintf(out, "  unfinished\n");
	fputc('\n', out);
}
