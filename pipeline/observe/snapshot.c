/* SPDX-License-Identifier: BSD-3-Clause */
#include "snapshot.h"
#include "../engine.h"
#include "../context.h"
#include "../tx/zero_copy.h"
#include "../exec/scheduler.h"
#include "../worker_call.h"

#include <rte_common.h>
#include <stdlib.h>

struct slice {
	struct sp_snapshot *snapshot;
	size_t first, end; /* range of contexts */
};

static void copy_worker(const struct sp_worker *w, struct sp_worker_counts *to)
{
	memcpy(to->drops, w->drops, sizeof(to->drops));
	memcpy(to->rx, w->rx, sizeof(to->rx));
	for (unsigned p = 0; p < SP_MAX_PORTS; p++)
		to->tx[p] = (struct sp_rx_count){w->tx[p].packets, w->tx[p].bytes};
	to->tx[SP_PORT_LOOP] = (struct sp_rx_count){w->tx[SP_PORT_LOOP].packets, w->tx[SP_PORT_LOOP].bytes};
	to->taken = w->taken;
	to->refused = w->refused;
	to->answered = w->answered;
	to->forwarded = w->forwarded;
	to->parked = w->parked.count + sp_scheduler_packets(w);
	to->now = w->now;
	to->polls = w->polls;
	to->busy_polls = w->busy_polls;
	to->sleeps = w->sleeps;
	to->woken = w->sleeps_woken;
	to->ran = w->ran;
	to->busy = w->busy;
}

static void add_view(const struct sp_view *v, struct sp_context_counts *to)
{
	const struct sp_context *c = v->context;

	to->packets += v->packets;
	to->run += v->packets - v->taken_over + v->handed;
	to->bytes += v->bytes;
	to->forwarded += v->forwarded;
	to->dropped += v->dropped;
	to->errors += v->errors;
	to->ended += v->ended;
	to->answered += v->answered;
	to->sent += v->sent;
	to->sent_bytes += v->sent_bytes;
	to->lent += v->zc_queue->lent;
	to->dma_faults += v->dma_faults;
	to->events_lost += v->events_lost;
	to->held += (uint64_t)v->held;
	to->held_refused += v->held_refused;
	to->over_budget += v->over_budget;
	to->backlog_full += v->backlog_full;
	to->over_limit += v->over_limit;
	to->disabled += v->disabled;
	for (unsigned i = 0; i < c->reasons; i++)
		to->drops[i] += v->drops[i];
	for (unsigned i = 0; i < c->counters; i++)
		to->counters[i] += v->counters[i];
	if (unlikely(v->last_error.what) && v->last_error.at >= to->last_error.at)
		to->last_error = v->last_error;
	to->cycles[v->owner->index] = v->meter.cycles;
	sp_meter_add(&to->meter, &v->meter); /* a kilobyte, unread if there were no runs */
}

/* Runs on the worker: copies only, no allocation. */
static void copy(struct sp_worker *w, void *arg)
{
	const struct slice *s = arg;

	if (s->first == 0)
		copy_worker(w, &s->snapshot->worker[w->index]);
	for (size_t i = s->first; i < s->end; i++)
		add_view(s->snapshot->context[i].context->view[w->index], &s->snapshot->context[i]);
}

/* Counts entries and values for a version and its companion, or, once allocated, sets their addresses. */
static void place(struct sp_snapshot *s, struct sp_context *copy, struct sp_context *newest, size_t *values)
{
	for (struct sp_context *c = copy; c; c = c->companion, newest = newest ? newest->companion : NULL) {
		if (s->context) {
			struct sp_context_counts *to = &s->context[s->contexts];

			to->context = c;
			to->newest = newest ? newest : c;
			to->drops = s->value + *values;
			to->counters = to->drops + c->reasons;
			to->cycles = to->counters + c->counters;
		}
		s->contexts++;
		*values += c->reasons + c->counters + c->nic->workers;
	}
}

static size_t place_all(const struct sp_nic *nic, struct sp_snapshot *s)
{
	size_t values = 0;

	s->contexts = 0;
	for (uint32_t i = 0; i < nic->context_next; i++)
		for (struct sp_context *copy = nic->context[i]; copy; copy = copy->older)
			place(s, copy, nic->context[i], &values);
	return values;
}

/* Allocates room for all contexts. */
static int prepare(const struct sp_nic *nic, struct sp_snapshot *s)
{
	const size_t values = place_all(nic, s);

	s->context = calloc(s->contexts + 1, sizeof(*s->context));
	s->value = calloc(values + 1, sizeof(*s->value));
	if (!s->context || !s->value)
		return -ENOMEM;
	place_all(nic, s);
	/* Touch new pages here, so that no worker takes the page faults. */
	for (size_t i = 0; i < values; i += 512)
		*(volatile uint64_t *)&s->value[i] = 0;
	return 0;
}

int sp_snapshot_take(struct sp_nic *nic, bool all, struct sp_snapshot *s)
{
	memset(s, 0, sizeof(*s));
	if (all && prepare(nic, s)) {
		sp_snapshot_free(s);
		return -ENOMEM;
	}
	for (uint16_t w = 0; w < nic->workers; w++) {
		struct slice slice = {.snapshot = s};

		do {
			slice.end = RTE_MIN(slice.first + SP_SNAPSHOT_SLICE, s->contexts);
			/* A stopped worker writes nothing: read its counters directly. */
			if (sp_worker_look(nic->worker[w], copy, &slice))
				copy(nic->worker[w], &slice);
			slice.first = slice.end;
		} while (slice.first < s->contexts);
	}
	return 0;
}

void sp_snapshot_free(struct sp_snapshot *s)
{
	free(s->context);
	free(s->value);
	s->context = NULL;
	s->value = NULL;
	s->contexts = 0;
}

void sp_snapshot_totals(const struct sp_nic *nic, const struct sp_snapshot *s, struct sp_nic_totals *t)
{
	memset(t, 0, sizeof(*t));
	for (uint16_t i = 0; i < nic->workers; i++) {
		const struct sp_worker_counts *w = &s->worker[i];

		for (unsigned p = 0; p <= SP_PORT_LOOP; p++) {
			t->received += w->rx[p].packets;
			t->bytes += w->rx[p].bytes;
			t->sent += w->tx[p].packets;
			t->sent_bytes += w->tx[p].bytes;
		}
		t->answered += w->answered;
		t->taken += w->taken + w->answered;
		t->forwarded += w->forwarded;
		t->parked += w->parked;
		t->dropped += w->refused;
		for (unsigned d = 0; d < SP_DROP_FIRST_TX; d++)
			t->dropped += w->drops[d];
	}
}
