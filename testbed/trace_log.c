/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A paragraph per packet waits in a queue until all its events have happened: packets of a burst arrive together, their
 * handlers run by context and message, and a message's completion comes after the fate of its last packet. Paragraphs
 * are written in the order of arrival, at the latest when the queue is full.
 */
#include "trace_log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>

#include "arrivals.h"
#include "guard.h"
#include "trace_log_json.h"

#define QUEUE  4096 /* paragraphs */
#define LEVELS 16   /* calls within calls that are recorded */
#define CALLED 256  /* packets of one call */

struct paragraph {
	json_t *o;
	uint64_t number; /* of the packet; 0: none */
	bool done;
};

struct level { /* a call under way */
	const char *function;
	uint64_t number; /* of the paragraph's packet; 0: outside of packets */
	json_t *paragraph;
	json_t *record[CALLED]; /* one for each of its packets; the first is also the call's */
	uint64_t packet[CALLED];
	unsigned records;
	uint64_t spent; /* of the trace when the call began */
};

struct sp_trace_log {
	FILE *out;
	bool json;
	bool ports;
	int err;
	uint64_t (*shown)(const struct sp_packet *);
	void (*more)(void *arg, json_t *call); /* NULL: nobody has more to say */
	void *more_arg;
	struct sp_arrivals arrivals;
	struct paragraph queue[QUEUE];
	unsigned count;
	struct level level[LEVELS];
	unsigned depth;	     /* calls in progress, also those beyond LEVELS */
	bool working;	     /* handlers have run since the last packet arrived: the next one begins another burst */
	json_t *loose;	     /* list of packets that the NIC sent on its own, or NULL */
	sp_time now;	     /* latest time seen */
	uint64_t spent;	     /* cycles spent in the trace, which are not the handlers' */
	uint64_t since;	     /* TSC at the beginning of the current callback */
	uint64_t ended, key; /* the packet that the message's latest payload() ended with, and the message's key */
};

/* ---- the queue ---- */
static void write_out(struct sp_trace_log *t, json_t *o)
{
	if (t->json) {
		if (json_dumpf(o, t->out, JSON_COMPACT) || fputc('\n', t->out) == EOF)
			t->err = t->err ? t->err : errno ? -errno : -ENOMEM;
	} else {
		sp_trace_log_text(t->out, o);
	}
	if (ferror(t->out) && !t->err)
		t->err = errno ? -errno : -EIO;
	json_decref(o);
}

/* Writes paragraphs that are done, from the head on; at least `at_least` of them even if not done. */
static void flush(struct sp_trace_log *t, unsigned at_least)
{
	unsigned n = 0;

	while (n < t->count && (t->queue[n].done || n < at_least))
		write_out(t, t->queue[n++].o);
	t->count -= n;
	memmove(t->queue, t->queue + n, t->count * sizeof(*t->queue));
}

static struct paragraph *find(struct sp_trace_log *t, uint64_t number)
{
	for (unsigned i = t->count; number && i-- > 0;)
		if (t->queue[i].number == number)
			return &t->queue[i];
	return NULL;
}

static void push(struct sp_trace_log *t, json_t *o, uint64_t number, bool done)
{
	if (!o)
		t->err = t->err ? t->err : -ENOMEM;
	if (t->count == QUEUE)
		flush(t, 1);
	t->queue[t->count++] = (struct paragraph){.o = o, .number = number, .done = done};
}

/* A paragraph of packets that the NIC sent on its own. */
static void push_loose(struct sp_trace_log *t)
{
	json_t *o;

	if (!t->loose)
		return;
	o = json_object();
	json_object_set_new(o, "time_ps", json_integer((json_int_t)t->now));
	json_object_set_new(o, "sent", t->loose);
	t->loose = NULL;
	push(t, o, 0, true);
}

/* ---- the watch ---- */
/* At the beginning of each callback: stdio and malloc take locks. */
static void begin(struct sp_trace_log *t)
{
	sp_guard_hold();
	t->since = rte_rdtsc();
}

static void end(struct sp_trace_log *t)
{
	t->spent += rte_rdtsc() - t->since;
	sp_guard_let();
}

static void arrived(void *arg, const struct sp_packet *p, int parsed, sp_time now)
{
	struct sp_trace_log *t = arg;
	uint64_t number, shown;

	begin(t);
	push_loose(t);
	if (t->working)
		flush(t, 0);
	t->working = false;
	t->ended = 0;
	t->now = now;
	number = sp_arrivals_add(&t->arrivals, p);
	shown = t->shown ? t->shown(p) : 0;
	push(t, sp_trace_log_packet(shown ? shown : number, t->ports, p, parsed, now), number, false);
	end(t);
}

static void matched(void *arg, const struct sp_packet *p, const char *context, const char *handler)
{
	struct sp_trace_log *t = arg;
	struct paragraph *at;

	begin(t);
	at = find(t, sp_arrivals_find(&t->arrivals, p));
	if (at)
		sp_trace_log_matched(at->o, p, context, handler);
	end(t);
}

static void fate(void *arg, const struct sp_packet *p, enum sp_capture_fate fate, const char *reason)
{
	struct sp_trace_log *t = arg;
	const uint64_t number = sp_arrivals_find(&t->arrivals, p);
	struct paragraph *at;

	begin(t);
	at = find(t, number);
	if (at && t->loose && (fate == SP_CAPTURE_ANSWERED || fate == SP_CAPTURE_FORWARDED)) {
		json_object_set_new(at->o, "sent", t->loose);
		t->loose = NULL;
	}
	push_loose(t);
	if (at) {
		sp_trace_log_fate(at->o, fate, reason);
		at->done = true;
	}
	t->working = true;
	sp_arrivals_remove(&t->arrivals, number);
	end(t);
}

/* The packet that a call without packets belongs to: that of the enclosing call, or the one that ended its message. */
static uint64_t cause(const struct sp_trace_log *t, const struct sp_traced_call *call)
{
	if (t->depth)
		return t->level[t->depth - 1].number;
	if (call->function == SP_CALLED_COMPLETION && call->message && call->message->key == t->key)
		return t->ended;
	return 0;
}

static void open_outside(struct sp_trace_log *t, const struct sp_traced_call *call, struct level *l)
{
	push_loose(t);
	flush(t, 0);
	t->ended = 0;
	push(t, sp_trace_log_outside(call), 0, false);
	l->paragraph = t->queue[t->count - 1].o;
	l->number = 0;
}

static void open_call(struct sp_trace_log *t, const struct sp_traced_call *call)
{
	struct level *l = &t->level[t->depth];
	const char *within = t->depth ? t->level[t->depth - 1].function : NULL;
	struct paragraph *at = NULL;

	l->function = sp_called_name(call->function);
	l->records = 0;
	for (unsigned i = 0; i < call->packets && i < CALLED; i++) {
		uint64_t number = sp_arrivals_find(&t->arrivals, call->packet[i]);
		json_t *c;

		at = find(t, number);
		if (!at)
			continue;
		c = sp_trace_log_call(at->o, call, within);
		if (!l->records) {
			l->paragraph = at->o;
			l->number = number;
		} else {
			json_object_set_new(c, "with", json_integer((json_int_t)l->number));
		}
		l->packet[l->records] = number;
		l->record[l->records++] = c;
	}
	if (l->records)
		return;
	l->number = cause(t, call);
	at = find(t, l->number);
	if (at)
		l->paragraph = at->o;
	else if (t->depth)
		l->paragraph = t->level[t->depth - 1].paragraph;
	else
		open_outside(t, call, l);
	l->record[0] = sp_trace_log_call(l->paragraph, call, within);
	l->records = 1;
	l->packet[0] = l->number;
}

static void enter(void *arg, const struct sp_traced_call *call)
{
	struct sp_trace_log *t = arg;

	begin(t);
	push_loose(t);
	t->working = true;
	t->now = call->now;
	if (t->depth < LEVELS)
		open_call(t, call);
	t->depth++;
	end(t);
	if (t->depth <= LEVELS)
		t->level[t->depth - 1].spent = t->spent;
}

static void close_call(struct sp_trace_log *t, const struct sp_traced_call *call)
{
	struct level *l = &t->level[t->depth];
	const uint64_t here = t->spent - l->spent, spent = here < call->cycles ? here : call->cycles;

	json_object_set_new(l->record[0], "cycles", json_integer((json_int_t)(call->cycles - spent)));
	if (call->packets <= 1) {
		sp_trace_log_result(l->record[0], call, call->result);
	} else {
		for (unsigned i = 0, k = 0; i < call->packets && k < l->records; i++, k++)
			sp_trace_log_result(l->record[k], call, call->packet[i]->verdict);
	}
	if (t->more)
		t->more(t->more_arg, l->record[0]);
	if (call->function == SP_CALLED_PAYLOAD && call->message) {
		t->key = call->message->key;
		t->ended = l->packet[l->records - 1];
		for (unsigned i = 0; call->packets > 1 && i < l->records; i++)
			if (call->packet[i]->verdict == SP_END)
				t->ended = l->packet[i];
	}
	for (unsigned i = t->count; !t->depth && !l->number && i-- > 0;)
		if (t->queue[i].o == l->paragraph)
			t->queue[i].done = true;
}

static void leave(void *arg, const struct sp_traced_call *call)
{
	struct sp_trace_log *t = arg;

	begin(t);
	if (t->depth && --t->depth < LEVELS)
		close_call(t, call);
	end(t);
}

/* The record of the current call; of a call with several packets, that of the packet which contains the bytes. */
static json_t *record_of(struct sp_trace_log *t, const struct sp_traced_call *call, const void *from)
{
	struct level *l;

	if (!call || !t->depth || t->depth > LEVELS)
		return NULL;
	l = &t->level[t->depth - 1];
	for (unsigned i = 0; from && i < call->packets && i < l->records; i++)
		if ((const uint8_t *)from >= call->packet[i]->frame &&
		    (const uint8_t *)from < call->packet[i]->frame + call->packet[i]->frame_len)
			return l->record[i];
	return l->record[0];
}

static void wrote(void *arg, const struct sp_traced_call *call, const struct sp_mem *mem, uint64_t offset,
		  const void *from, uint64_t len)
{
	struct sp_trace_log *t = arg;
	json_t *record;

	begin(t);
	record = record_of(t, call, from);
	if (record)
		sp_trace_log_wrote(record, mem, offset, !from, len);
	end(t);
}

static void sent(void *arg, const struct sp_traced_call *call, uint16_t port, const void *frame, uint32_t len)
{
	struct sp_trace_log *t = arg;
	json_t *record;

	begin(t);
	record = record_of(t, call, NULL);
	if (record) {
		sp_trace_log_append(record, "sent", sp_trace_log_sent(port, frame, len));
	} else {
		if (!t->loose)
			t->loose = json_array();
		json_array_append_new(t->loose, sp_trace_log_sent(port, frame, len));
	}
	end(t);
}

static void posted(void *arg, const struct sp_traced_call *call, const struct sp_event *event)
{
	struct sp_trace_log *t = arg;
	json_t *record;

	begin(t);
	record = record_of(t, call, NULL);
	if (record)
		sp_trace_log_posted(record, event);
	end(t);
}

static void wrong(void *arg, const struct sp_traced_call *call, const char *what)
{
	struct sp_trace_log *t = arg;
	json_t *record;

	begin(t);
	record = record_of(t, call, NULL);
	if (record)
		sp_trace_log_append(record, "wrong", json_string(what));
	end(t);
}

int sp_trace_log_create(FILE *out, bool json, struct sp_trace_log **trace)
{
	struct sp_trace_log *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->out = out;
	t->json = json;
	*trace = t;
	return 0;
}

void sp_trace_log_number(struct sp_trace_log *t, uint64_t (*number)(const struct sp_packet *packet))
{
	t->shown = number;
}

void sp_trace_log_more(struct sp_trace_log *t, void (*more)(void *arg, json_t *call), void *arg)
{
	t->more = more;
	t->more_arg = arg;
}

void sp_trace_log_ports(struct sp_trace_log *t)
{
	t->ports = true;
}

int sp_trace_log_add(struct sp_trace_log *t, struct sp_nic *nic)
{
	return sp_nic_trace(nic, &(struct sp_tracer){.arg = t,
						     .arrived = arrived,
						     .matched = matched,
						     .fate = fate,
						     .enter = enter,
						     .leave = leave,
						     .wrote = wrote,
						     .sent = sent,
						     .posted = posted,
						     .wrong = wrong});
}

int sp_trace_log_finish(struct sp_trace_log *t)
{
	push_loose(t);
	flush(t, t->count);
	if (fflush(t->out) && !t->err)
		t->err = errno ? -errno : -EIO;
	return t->err;
}

void sp_trace_log_crashed(struct sp_trace_log *t)
{
	for (unsigned i = 0; i < t->count && !t->json; i++)
		sp_trace_log_text(t->out, t->queue[i].o);
	fflush(t->out);
}

void sp_trace_log_destroy(struct sp_trace_log *t)
{
	if (!t)
		return;
	for (unsigned i = 0; i < t->count; i++)
		json_decref(t->queue[i].o);
	json_decref(t->loose);
	sp_arrivals_free(&t->arrivals);
	free(t);
}
