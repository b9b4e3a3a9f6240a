/* SPDX-License-Identifier: BSD-3-Clause */
/* OpenMetrics 1.0.0 (openmetrics.io). All samples of a family must stand together: the loops go over families, then
 * over subjects (the NIC, its ports, workers, contexts, ...). Each subject has its labels. A value that is not in the
 * report has no sample. */
#include "metrics.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct subject {
	char *labels; /* name="value",... */
	const json_t *report;
};

struct list {
	struct subject *subject;
	size_t count;
	bool spoilt; /* no memory */
};

/* A number of each subject. */
struct family {
	const char *name, *key, *help;
	const char *unit;   /* or NULL; the name ends with it */
	const char *object; /* of the subject's report, that has the key; NULL: the report itself */
	const char *yes;    /* the value is a word: this one is 1, others are 0 */
	enum { COUNTER, GAUGE, STATE /* a gauge: true or `yes` is 1 */ } kind;
	bool micro; /* the report has microseconds; the sample, seconds */
};

/* ---- text ---- */

/* Quotes the value: it may come from an application. */
static void label(FILE *to, const char *name, const char *value)
{
	fprintf(to, "%s=\"", name);
	for (const char *c = value ? value : ""; *c; c++)
		if (*c == '\n')
			fputs("\\n", to);
		else if (*c == '"' || *c == '\\')
			fprintf(to, "\\%c", *c);
		else
			fputc(*c, to);
	fputc('"', to);
}

static void head(FILE *to, const char *name, const char *type, const char *unit, const char *help)
{
	fprintf(to, "# TYPE %s %s\n", name, type);
	if (unit)
		fprintf(to, "# UNIT %s %s\n", name, unit);
	fprintf(to, "# HELP %s %s\n", name, help);
}

static void sample(FILE *to, const struct family *f, const char *labels, const json_t *v)
{
	const uint64_t n = stat_integer(v);

	fprintf(to, "%s%s{%s} ", f->name, f->kind == COUNTER ? "_total" : "", labels);
	if (f->micro)
		fprintf(to, "%" PRIu64 ".%06" PRIu64 "\n", n / 1000000, n % 1000000);
	else
		fprintf(to, "%" PRIu64 "\n", n);
}

/* Whether the report has a value for the family, of the right type. */
static bool has_value(const struct family *f, const json_t *v)
{
	return f->kind != STATE ? json_is_number(v) : f->yes ? json_is_string(v) : json_is_boolean(v);
}

static void put(FILE *to, const struct family *f, const struct list *l)
{
	bool begun = false;

	for (const struct subject *s = l->subject; s < l->subject + l->count; s++) {
		const json_t *in = f->object ? json_object_get(s->report, f->object) : s->report;
		const json_t *v = json_object_get(in, f->key);

		if (!has_value(f, v))
			continue;
		if (!begun)
			head(to, f->name, f->kind == COUNTER ? "counter" : "gauge", f->unit, f->help);
		begun = true;
		if (f->kind == STATE)
			fprintf(to, "%s{%s} %d\n", f->name, s->labels,
				f->yes ? !strcmp(json_string_value(v), f->yes) : json_is_true(v));
		else
			sample(to, f, s->labels, v);
	}
}

static void put_all(FILE *to, const struct family *f, size_t count, const struct list *l)
{
	for (size_t i = 0; i < count; i++)
		put(to, &f[i], l);
}

/* One sample per key of f->object; the key becomes a label. */
static void put_keyed(FILE *to, const struct family *f, const char *name, const struct list *l)
{
	bool begun = false;

	for (const struct subject *s = l->subject; s < l->subject + l->count; s++) {
		const char *key;
		json_t *v;

		json_object_foreach(json_object_get(s->report, f->object), key, v)
		{
			char *labels = NULL;
			size_t bytes;
			FILE *more = json_is_number(v) ? open_memstream(&labels, &bytes) : NULL;

			if (!more)
				continue;
			fprintf(more, "%s,", s->labels);
			label(more, name, key);
			fclose(more);
			if (!begun)
				head(to, f->name, f->kind == COUNTER ? "counter" : "gauge", f->unit, f->help);
			begun = true;
			sample(to, f, labels, v);
			free(labels);
		}
	}
}

/* ---- cycles a packet ---- */

/* Bounds are 2^n - 1. The NIC has four buckets per power of 2; some end at these bounds. */
#define LEAST_POWER 4
#define MOST_POWER  28

/* The format wants bounds as Go prints a float: 4095.0, 1.048575e+06. */
static void bound(FILE *to, uint64_t n)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%" PRIu64, n);
	const int power = len - 1;

	if (len <= 6) {
		fprintf(to, "%s.0", digits);
		return;
	}
	while (len > 2 && digits[len - 1] == '0')
		digits[--len] = 0;
	fprintf(to, "%c.%se+%02d", digits[0], digits + 1, power);
}

static void put_histogram(FILE *to, const struct list *l)
{
	static const char name[] = "spindle_context_packet_cycles";
	bool begun = false;

	for (const struct subject *s = l->subject; s < l->subject + l->count; s++) {
		const json_t *cycles = json_object_get(s->report, "cycles"),
			     *list = json_object_get(cycles, "histogram");
		uint64_t sum = 0;
		size_t at = 0;

		if (!json_is_array(list))
			continue;
		if (!begun)
			head(to, name, "histogram", "cycles",
			     "Cycles of a packet in its context's calls (the mean of its turn), or of a turn without "
			     "packets.");
		begun = true;
		for (unsigned power = LEAST_POWER; power <= MOST_POWER + 1; power++) {
			const uint64_t most = power > MOST_POWER ? UINT64_MAX : (UINT64_C(1) << power) - 1;

			for (; at < json_array_size(list); at++) {
				const json_t *pair = json_array_get(list, at), *end = json_array_get(pair, 0);

				if (most != UINT64_MAX && (!json_is_integer(end) || stat_integer(end) > most))
					break;
				sum += stat_integer(json_array_get(pair, 1));
			}
			fprintf(to, "%s_bucket{%s,le=\"", name, s->labels);
			if (most == UINT64_MAX)
				fputs("+Inf", to);
			else
				bound(to, most);
			fprintf(to, "\"} %" PRIu64 "\n", sum);
		}
		fprintf(to, "%s_count{%s} %" PRIu64 "\n", name, s->labels, sum);
		fprintf(to, "%s_sum{%s} %" PRIu64 "\n", name, s->labels, stat_value(cycles, "total"));
	}
}

/* ---- subjects ---- */

/* Adds a subject and opens the stream for its labels. NULL: no memory. */
static FILE *begin(struct list *l, const char *nic, const json_t *report, size_t *bytes)
{
	struct subject *more = realloc(l->subject, (l->count + 1) * sizeof(*more));
	FILE *to;

	if (!more) {
		l->spoilt = true;
		return NULL;
	}
	l->subject = more;
	more[l->count] = (struct subject){.report = report};
	to = open_memstream(&more[l->count].labels, bytes);
	if (!to) {
		l->spoilt = true;
		return NULL;
	}
	label(to, "nic", nic);
	return to;
}

/* The labels of the subject that begin() has added are complete. */
static void end(struct list *l, FILE *to)
{
	if (fclose(to) || !l->subject[l->count].labels) {
		free(l->subject[l->count].labels);
		l->spoilt = true;
		return;
	}
	l->count++;
}

static void forget(struct list *l)
{
	for (size_t i = 0; i < l->count; i++)
		free(l->subject[i].labels);
	free(l->subject);
}

static void list_nic(struct list *l, const char *nic, const json_t *report)
{
	size_t bytes;
	FILE *to = begin(l, nic, report, &bytes);

	if (to)
		end(l, to);
}

/* Ports and workers are labelled by number, and by device if they have one. */
static void list_members(struct list *l, const char *nic, const json_t *array, const char *name)
{
	for (size_t i = 0; i < json_array_size(array); i++) {
		const json_t *one = json_array_get(array, i), *device = json_object_get(one, "device");
		size_t bytes;
		FILE *to = begin(l, nic, one, &bytes);

		if (!to)
			return;
		fprintf(to, ",%s=\"%zu\"", name, i);
		if (json_is_string(device)) {
			fputc(',', to);
			label(to, "device", json_string_value(device));
		}
		end(l, to);
	}
}

static void list_context(struct list *l, const char *nic, const char *name, const json_t *context, const char *role)
{
	const json_t *pid = json_object_get(json_object_get(context, "application"), "pid");
	const json_t *companion = json_object_get(context, "companion");
	size_t bytes;
	FILE *to = begin(l, nic, context, &bytes);

	if (!to)
		return;
	fputc(',', to);
	label(to, "context", name);
	fputc(',', to);
	label(to, "handler", json_string_value(json_object_get(context, "handler")));
	fprintf(to, ",role=\"%s\"", role);
	if (json_is_integer(pid))
		fprintf(to, ",pid=\"%" PRIu64 "\"", stat_integer(pid));
	end(l, to);
	if (json_is_object(companion))
		list_context(l, nic, name, companion, "companion");
}

static void list_contexts(struct list *l, const char *nic, const json_t *contexts)
{
	const char *name;
	json_t *one;

	json_object_foreach((json_t *)(uintptr_t)contexts, name, one) list_context(l, nic, name, one, "context");
}

/* A process that has attached several times has several entries; this adds their numbers, as labels must differ. */
static json_t *by_process(const json_t *applications)
{
	json_t *all = json_object();

	for (size_t i = 0; i < json_array_size(applications); i++) {
		json_t *one = json_array_get(applications, i), *sum, *v;
		char pid[24];
		const char *key;

		snprintf(pid, sizeof(pid), "%" PRIu64, stat_value(one, "pid"));
		sum = json_object_get(all, pid);
		if (!sum) {
			json_object_set_new(all, pid, json_copy(one));
			continue;
		}
		json_object_foreach(one, key, v) if (strcmp(key, "pid") && strcmp(key, "uid") && json_is_integer(v))
			json_object_set_new(
				sum, key,
				json_integer(json_integer_value(json_object_get(sum, key)) + json_integer_value(v)));
	}
	return all;
}

static void list_applications(struct list *l, const char *nic, const json_t *applications)
{
	const char *pid;
	json_t *one;

	json_object_foreach((json_t *)(uintptr_t)applications, pid, one)
	{
		size_t bytes;
		FILE *to = begin(l, nic, one, &bytes);

		if (!to)
			return;
		fprintf(to, ",pid=\"%s\",uid=\"%" PRIu64 "\"", pid, stat_value(one, "uid"));
		end(l, to);
	}
}

/* ---- families ---- */

static const struct family of_nic[] = {
	{"spindle_uptime_seconds", "uptime_s", "Since the workers started.", .unit = "seconds", .kind = GAUGE},
	{"spindle_tsc_hertz", "tsc_hz", "TSC cycles per second: the unit of all cycle counters.", .unit = "hertz",
	 .kind = GAUGE},
	{"spindle_memory_bytes", "memory_used", "Of regions and contexts.", .unit = "bytes", .kind = GAUGE},
	{"spindle_received_packets", "packets", "Packets received: taken, forwarded, dropped or parked."},
	{"spindle_received_bytes", "bytes", "Bytes of frames received.", .unit = "bytes"},
	{"spindle_sent_packets", "sent", "Packets sent by the ports."},
	{"spindle_sent_bytes", "sent_bytes", "Bytes of frames sent.", .unit = "bytes"},
	{"spindle_taken_packets", "taken", "Packets that contexts took, or that the NIC itself answered."},
	{"spindle_answered_packets", "answered", "Packets that the NIC itself answered (ARP, ND, ICMP)."},
	{"spindle_forwarded_packets", "forwarded", "Packets that went to the exception port."},
	{"spindle_dropped_packets", "dropped", "Packets received and dropped."},
	{"spindle_parked_packets", "parked", "Packets received that have not ended yet.", .kind = GAUGE},
};
static const struct family drops = {"spindle_drops", NULL, "Packets dropped, by reason; tx-...: packets to send.",
				    .object = "drops"};

static const struct family of_ports[] = {
	{"spindle_port_received_packets", "packets", "Packets received."},
	{"spindle_port_received_bytes", "bytes", "Bytes of frames received.", .unit = "bytes"},
	{"spindle_port_sent_packets", "sent", "Packets sent."},
	{"spindle_port_sent_bytes", "sent_bytes", "Bytes of frames sent.", .unit = "bytes"},
	{"spindle_port_missed_packets", "missed", "Packets that the port dropped for lack of room."},
	{"spindle_port_no_buffers", "no_buffers", "Times that the port had no buffer to receive into."},
	{"spindle_port_kernel_drops", "kernel_drops", "Packets that the kernel dropped before the port."},
	{"spindle_port_receive_errors", "receive_errors", "Packets received with errors."},
	{"spindle_port_transmit_errors", "transmit_errors", "Packets that could not be sent."},
};

static const struct family of_workers[] = {
	{"spindle_worker_packets", "packets", "Packets received."},
	{"spindle_worker_taken_packets", "taken", "Of them, taken or answered."},
	{"spindle_worker_answered_packets", "answered", "Of them, answered by the NIC itself."},
	{"spindle_worker_forwarded_packets", "forwarded", "Of them, to the exception port."},
	{"spindle_worker_dropped_packets", "dropped", "Of them, dropped."},
	{"spindle_worker_parked_packets", "parked", "Of them, not ended yet.", .kind = GAUGE},
	{"spindle_worker_polls", "polls", "Rounds."},
	{"spindle_worker_busy_polls", "busy_polls", "Rounds with something to do."},
	{"spindle_worker_sleeps", "sleeps", "Sleeps for want of work."},
	{"spindle_worker_woken", "woken", "Sleeps that something for the worker has ended."},
	{"spindle_worker_running_seconds", "running_us", "Time that its thread has run.", .unit = "seconds",
	 .micro = true},
	{"spindle_worker_busy_seconds", "busy_us", "Of that, in rounds with something to do.", .unit = "seconds",
	 .micro = true},
	{"spindle_worker_handler_cycles", "cycles", "Spent in contexts' calls.", .unit = "cycles"},
	{"spindle_worker_stopped", "stopped", "1 while a handler's call does not return.", .kind = STATE},
};
static const struct family spent = {"spindle_worker_context_cycles", NULL, "Spent in this context's calls.",
				    .unit = "cycles", .object = "contexts"};

static const struct family of_contexts[] = {
	{"spindle_context_packets", "packets", "Packets taken."},
	{"spindle_context_bytes", "bytes", "Bytes of their frames.", .unit = "bytes"},
	{"spindle_context_dropped_packets", "dropped", "Packets dropped, for whatever reason."},
	{"spindle_context_sent_packets", "sent", "Packets sent."},
	{"spindle_context_sent_bytes", "sent_bytes", "Bytes of frames sent.", .unit = "bytes"},
	{"spindle_context_lent_packets", "lent", "Packets sent whose payload was not copied."},
	{"spindle_context_errors", "errors", "Invalid verdicts and failed sends."},
	{"spindle_context_dma_faults", "dma_faults", "Accesses outside the context's memory, refused."},
	{"spindle_context_events_lost", "events_lost", "Events that the host left no room for."},
	{"spindle_context_kept_packets", "kept", "Packets that the handler holds.", .kind = GAUGE},
	{"spindle_context_kept_refused", "kept_refused", "Packets that it asked to hold and did not get."},
	{"spindle_context_open_messages", "open_messages", "Messages open.", .kind = GAUGE},
	{"spindle_context_turns", "turns", "Turns: packets of one burst, a timer, a command, ...", .object = "cycles"},
	{"spindle_context_overruns", "overruns", "Packets, and turns without, that cost more than the budget.",
	 .object = "cycles"},
	{"spindle_context_cycles_min", "min", "Fewest cycles per packet.", .object = "cycles", .kind = GAUGE},
	{"spindle_context_cycles_max", "max", "Most cycles per packet.", .object = "cycles", .kind = GAUGE},
	{"spindle_context_weight", "weight", "Share of a worker that is short of time.", .object = "limits",
	 .kind = GAUGE},
	{"spindle_context_budget_cycles", "budget", "Limit of cycles per packet.", .unit = "cycles", .object = "limits",
	 .kind = GAUGE},
	{"spindle_context_disabled", "disabled", "How often it was disabled.", .object = "condition"},
	{"spindle_context_copy", "copy", "Number of the handler's copy that runs.", .object = "condition",
	 .kind = GAUGE},
	{"spindle_context_draining_copies", "draining", "Older copies with something in flight.", .object = "condition",
	 .kind = GAUGE},
	{"spindle_context_enabled", "state", "1, or 0 while it is disabled.", .object = "condition", .kind = STATE,
	 .yes = "enabled"},
};
static const struct family verdicts = {"spindle_context_verdicts", NULL,
				       "Packets by verdict; errors are also counted as dropped.", .object = "verdicts"};
static const struct family context_drops = {"spindle_context_drops", NULL, "Packets dropped, by reason.",
					    .object = "drops"};
static const struct family counters = {"spindle_context_counters", NULL, "Counters of the handler.",
				       .object = "counters"};

static const struct family of_applications[] = {
	{"spindle_application_memory_bytes", "memory", "Memory that it has.", .unit = "bytes", .kind = GAUGE},
	{"spindle_application_memory_limit_bytes", "memory_limit", "Memory that it may have.", .unit = "bytes",
	 .kind = GAUGE},
	{"spindle_application_contexts", "contexts", "Contexts that it has.", .kind = GAUGE},
	{"spindle_application_contexts_limit", "contexts_limit", "Contexts that it may have.", .kind = GAUGE},
	{"spindle_application_qps", "qps", "QPs that it has.", .kind = GAUGE},
	{"spindle_application_qps_limit", "qps_limit", "QPs that it may have.", .kind = GAUGE},
	{"spindle_application_messages", "messages", "Messages that it has open.", .kind = GAUGE},
	{"spindle_application_messages_limit", "messages_limit", "Messages that it may have open.", .kind = GAUGE},
};

bool stat_metrics(const json_t *report, FILE *to)
{
	const char *nic = json_string_value(json_object_get(report, "name"));
	json_t *processes = by_process(json_object_get(report, "applications"));
	struct list self = {0}, ports = {0}, workers = {0}, contexts = {0}, applications = {0};
	bool whole;

	list_nic(&self, nic, report);
	list_members(&ports, nic, json_object_get(report, "ports"), "port");
	list_members(&workers, nic, json_object_get(report, "workers"), "worker");
	list_contexts(&contexts, nic, json_object_get(report, "contexts"));
	list_applications(&applications, nic, processes);
	whole = processes && !self.spoilt && !ports.spoilt && !workers.spoilt && !contexts.spoilt &&
		!applications.spoilt;
	if (whole) {
#define ALL(families) families, sizeof(families) / sizeof(*(families))
		put_all(to, ALL(of_nic), &self);
		put_keyed(to, &drops, "reason", &self);
		put_all(to, ALL(of_ports), &ports);
		put_all(to, ALL(of_workers), &workers);
		put_keyed(to, &spent, "context", &workers);
		put_all(to, ALL(of_contexts), &contexts);
		put_keyed(to, &verdicts, "verdict", &contexts);
		put_keyed(to, &context_drops, "reason", &contexts);
		put_keyed(to, &counters, "counter", &contexts);
		put_histogram(to, &contexts);
		put_all(to, ALL(of_applications), &applications);
#undef ALL
		fputs("# EOF\n", to);
	}
	forget(&self);
	forget(&ports);
	forget(&workers);
	forget(&contexts);
	forget(&applications);
	json_decref(processes);
	return whole;
}
