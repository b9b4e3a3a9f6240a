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

enum kind { COUNTER, GAUGE };

/* A number of each subject. */
struct family {
	const char *name, *unit;  /* or NULL; the name ends with it */
	const char *object, *key; /* where it is in the subject's report; object NULL: at the top */
	enum kind kind;
	bool micro; /* the report has microseconds; the sample, seconds */
	const char *help;
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

static uint64_t integer(const json_t *v)
{
	const double x = json_real_value(v); /* the report has numbers above INT64_MAX as reals */

	if (!json_is_real(v))
		return (uint64_t)json_integer_value(v);
	return x >= 0 && x < 0x1p64 ? (uint64_t)x : 0;
}

static void sample(FILE *to, const struct family *f, const char *labels, const json_t *v)
{
	const uint64_t n = integer(v);

	fprintf(to, "%s%s{%s} ", f->name, f->kind == COUNTER ? "_total" : "", labels);
	if (f->micro)
		fprintf(to, "%" PRIu64 ".%06" PRIu64 "\n", n / 1000000, n % 1000000);
	else
		fprintf(to, "%" PRIu64 "\n", n);
}

static void put(FILE *to, const struct family *f, const struct list *l)
{
	bool begun = false;

	for (const struct subject *s = l->subject; s < l->subject + l->count; s++) {
		const json_t *in = f->object ? json_object_get(s->report, f->object) : s->report;
		const json_t *v = json_object_get(in, f->key);

		if (!json_is_number(v))
			continue;
		if (!begun)
			head(to, f->name, f->kind == COUNTER ? "counter" : "gauge", f->unit, f->help);
		begun = true;
		sample(to, f, s->labels, v);
	}
}

/* A yes or no as a gauge, as alerts need a number. yes: the word that becomes 1; NULL: true becomes 1. */
static void put_state(FILE *to, const struct family *f, const char *yes, const struct list *l)
{
	bool begun = false;

	for (const struct subject *s = l->subject; s < l->subject + l->count; s++) {
		const json_t *in = f->object ? json_object_get(s->report, f->object) : s->report;
		const json_t *v = json_object_get(in, f->key);

		if (yes ? !json_is_string(v) : !json_is_boolean(v))
			continue;
		if (!begun)
			head(to, f->name, "gauge", f->unit, f->help);
		begun = true;
		fprintf(to, "%s{%s} %d\n", f->name, s->labels,
			yes ? !strcmp(json_string_value(v), yes) : json_is_true(v));
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

				if (most != UINT64_MAX && (!json_is_integer(end) || integer(end) > most))
					break;
				sum += integer(json_array_get(pair, 1));
			}
			fprintf(to, "%s_bucket{%s,le=\"", name, s->labels);
			if (most == UINT64_MAX)
				fputs("+Inf", to);
			else
				bound(to, most);
			fprintf(to, "\"} %" PRIu64 "\n", sum);
		}
		fprintf(to, "%s_count{%s} %" PRIu64 "\n", name, s->labels, sum);
		fprintf(to, "%s_sum{%s} %" PRIu64 "\n", name, s->labels, integer(json_object_get(cycles, "total")));
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
		fprintf(to, ",pid=\"%" PRIu64 "\"", integer(pid));
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

		snprintf(pid, sizeof(pid), "%" PRIu64, integer(json_object_get(one, "pid")));
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
		fprintf(to, ",pid=\"%s\",uid=\"%" PRIu64 "\"", pid, integer(json_object_get(one, "uid")));
		end(l, to);
	}
}

/* ---- families ---- */

static const struct family of_nic[] = {
	{"spindle_uptime_seconds", "seconds", NULL, "uptime_s", GAUGE, false, "Since the workers started."},
	{"spindle_tsc_hertz", "hertz", NULL, "tsc_hz", GAUGE, false,
	 "Cycles a second, of all that is counted in cycles."},
	{"spindle_memory_bytes", "bytes", NULL, "memory_used", GAUGE, false, "Of regions and contexts."},
	{"spindle_received_packets", NULL, NULL, "packets", COUNTER, false,
	 "Packets received: taken, forwarded, dropped or parked."},
	{"spindle_received_bytes", "bytes", NULL, "bytes", COUNTER, false, "Bytes of frames received."},
	{"spindle_sent_packets", NULL, NULL, "sent", COUNTER, false, "Packets sent by the ports."},
	{"spindle_sent_bytes", "bytes", NULL, "sent_bytes", COUNTER, false, "Bytes of frames sent."},
	{"spindle_taken_packets", NULL, NULL, "taken", COUNTER, false,
	 "Packets that contexts took, or that the NIC itself answered."},
	{"spindle_answered_packets", NULL, NULL, "answered", COUNTER, false,
	 "Packets that the NIC itself answered (ARP, ND, ICMP)."},
	{"spindle_forwarded_packets", NULL, NULL, "forwarded", COUNTER, false,
	 "Packets that went to the exception port."},
	{"spindle_dropped_packets", NULL, NULL, "dropped", COUNTER, false, "Packets received and dropped."},
	{"spindle_parked_packets", NULL, NULL, "parked", GAUGE, false, "Packets received that have not ended yet."},
};
static const struct family drops = {"spindle_drops",
				    NULL,
				    "drops",
				    NULL,
				    COUNTER,
				    false,
				    "Packets dropped, by reason; those whose reason begins with tx- were to be sent."};

static const struct family of_ports[] = {
	{"spindle_port_received_packets", NULL, NULL, "packets", COUNTER, false, "Packets received."},
	{"spindle_port_received_bytes", "bytes", NULL, "bytes", COUNTER, false, "Bytes of frames received."},
	{"spindle_port_sent_packets", NULL, NULL, "sent", COUNTER, false, "Packets sent."},
	{"spindle_port_sent_bytes", "bytes", NULL, "sent_bytes", COUNTER, false, "Bytes of frames sent."},
	{"spindle_port_missed_packets", NULL, NULL, "missed", COUNTER, false, "Packets that the port had no room for."},
	{"spindle_port_no_buffers", NULL, NULL, "no_buffers", COUNTER, false,
	 "Times that there was no buffer to receive into."},
	{"spindle_port_kernel_drops", NULL, NULL, "kernel_drops", COUNTER, false,
	 "Packets that the kernel dropped before the port."},
	{"spindle_port_receive_errors", NULL, NULL, "receive_errors", COUNTER, false, "Packets received wrongly."},
	{"spindle_port_transmit_errors", NULL, NULL, "transmit_errors", COUNTER, false,
	 "Packets that could not be sent."},
};

static const struct family of_workers[] = {
	{"spindle_worker_packets", NULL, NULL, "packets", COUNTER, false, "Packets received."},
	{"spindle_worker_taken_packets", NULL, NULL, "taken", COUNTER, false, "Of them, taken or answered."},
	{"spindle_worker_answered_packets", NULL, NULL, "answered", COUNTER, false,
	 "Of them, answered by the NIC itself."},
	{"spindle_worker_forwarded_packets", NULL, NULL, "forwarded", COUNTER, false,
	 "Of them, to the exception port."},
	{"spindle_worker_dropped_packets", NULL, NULL, "dropped", COUNTER, false, "Of them, dropped."},
	{"spindle_worker_parked_packets", NULL, NULL, "parked", GAUGE, false, "Of them, not ended yet."},
	{"spindle_worker_polls", NULL, NULL, "polls", COUNTER, false, "Rounds."},
	{"spindle_worker_busy_polls", NULL, NULL, "busy_polls", COUNTER, false, "Rounds with something to do."},
	{"spindle_worker_running_seconds", "seconds", NULL, "running_us", COUNTER, true,
	 "For how long its thread has run."},
	{"spindle_worker_busy_seconds", "seconds", NULL, "busy_us", COUNTER, true,
	 "Of that, in rounds with something to do."},
	{"spindle_worker_handler_cycles", "cycles", NULL, "cycles", COUNTER, false, "Spent in contexts' calls."},
};
static const struct family stopped = {"spindle_worker_stopped",
				      NULL,
				      NULL,
				      "stopped",
				      GAUGE,
				      false,
				      "1 while it does not come back from a handler's call."};
static const struct family spent = {"spindle_worker_context_cycles", "cycles", "contexts", NULL, COUNTER, false,
				    "Spent in this context's calls."};

static const struct family of_contexts[] = {
	{"spindle_context_packets", NULL, NULL, "packets", COUNTER, false, "Packets taken."},
	{"spindle_context_bytes", "bytes", NULL, "bytes", COUNTER, false, "Bytes of their frames."},
	{"spindle_context_dropped_packets", NULL, NULL, "dropped", COUNTER, false,
	 "Packets dropped, for whatever reason."},
	{"spindle_context_sent_packets", NULL, NULL, "sent", COUNTER, false, "Packets sent."},
	{"spindle_context_sent_bytes", "bytes", NULL, "sent_bytes", COUNTER, false, "Bytes of frames sent."},
	{"spindle_context_lent_packets", NULL, NULL, "lent", COUNTER, false,
	 "Packets sent whose payload was not copied."},
	{"spindle_context_errors", NULL, NULL, "errors", COUNTER, false,
	 "Verdicts that are none, sends that were not."},
	{"spindle_context_dma_faults", NULL, NULL, "dma_faults", COUNTER, false,
	 "Accesses outside the context's memory, refused."},
	{"spindle_context_events_lost", NULL, NULL, "events_lost", COUNTER, false,
	 "Events that the host left no room for."},
	{"spindle_context_kept_packets", NULL, NULL, "kept", GAUGE, false, "Packets that the handler holds."},
	{"spindle_context_kept_refused", NULL, NULL, "kept_refused", COUNTER, false,
	 "Packets that it was not given to hold."},
	{"spindle_context_open_messages", NULL, NULL, "open_messages", GAUGE, false, "Messages open."},
	{"spindle_context_turns", NULL, "cycles", "turns", COUNTER, false,
	 "Turns: packets of one burst, a timer, a command, ..."},
	{"spindle_context_overruns", NULL, "cycles", "overruns", COUNTER, false,
	 "Packets, and turns without, that cost more than the budget."},
	{"spindle_context_cycles_min", NULL, "cycles", "min", GAUGE, false, "The least cycles a packet."},
	{"spindle_context_cycles_max", NULL, "cycles", "max", GAUGE, false, "The most cycles a packet."},
	{"spindle_context_weight", NULL, "limits", "weight", GAUGE, false, "Share of a worker that is short of time."},
	{"spindle_context_budget_cycles", "cycles", "limits", "budget", GAUGE, false, "What a packet may cost."},
	{"spindle_context_disabled", NULL, "condition", "disabled", COUNTER, false, "How often it was disabled."},
	{"spindle_context_copy", NULL, "condition", "copy", GAUGE, false, "Number of the handler's copy that runs."},
	{"spindle_context_draining_copies", NULL, "condition", "draining", GAUGE, false,
	 "Older copies with something in flight."},
};
static const struct family enabled = {"spindle_context_enabled",      NULL, "condition", "state", GAUGE, false,
				      "1, or 0 while it is disabled."};
static const struct family verdicts = {"spindle_context_verdicts",
				       NULL,
				       "verdicts",
				       NULL,
				       COUNTER,
				       false,
				       "Packets by what was said of them; errors are also among the dropped ones."};
static const struct family context_drops = {"spindle_context_drops",	  NULL, "drops", NULL, COUNTER, false,
					    "Packets dropped, by reason."};
static const struct family counters = {"spindle_context_counters", NULL, "counters", NULL, COUNTER, false,
				       "What the handler counts."};

static const struct family of_applications[] = {
	{"spindle_application_memory_bytes", "bytes", NULL, "memory", GAUGE, false, "Memory that it has."},
	{"spindle_application_memory_limit_bytes", "bytes", NULL, "memory_limit", GAUGE, false,
	 "Memory that it may have."},
	{"spindle_application_contexts", NULL, NULL, "contexts", GAUGE, false, "Contexts that it has."},
	{"spindle_application_contexts_limit", NULL, NULL, "contexts_limit", GAUGE, false,
	 "Contexts that it may have."},
	{"spindle_application_qps", NULL, NULL, "qps", GAUGE, false, "QPs that it has."},
	{"spindle_application_qps_limit", NULL, NULL, "qps_limit", GAUGE, false, "QPs that it may have."},
	{"spindle_application_messages", NULL, NULL, "messages", GAUGE, false, "Messages that it has open."},
	{"spindle_application_messages_limit", NULL, NULL, "messages_limit", GAUGE, false,
	 "Messages that it may have open."},
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
		put_state(to, &stopped, NULL, &workers);
		put_keyed(to, &spent, "context", &workers);
		put_all(to, ALL(of_contexts), &contexts);
		put_state(to, &enabled, "enabled", &contexts);
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
