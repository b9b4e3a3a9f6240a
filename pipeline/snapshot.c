/* SPDX-License-Identifier: BSD-3-Clause */
#include "snapshot.h"
#include "lend.h"

#include <stdlib.h>

struct slice {
	struct sp_snapshot *snapshot;
	size_t first, end; /* of the contexts */
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
	to->parked = w->parked_count;
	to->polls = w->polls;
	to->busy_polls = w->busy_polls;
	to->ran = w->ran;
	to->busy = w->busy;
}

static void add_view(const struct sp_view *v, struct sp_context_counts *to)
{
	const struct sp_context *c = v->context;

	to->packets += v->packets;
	to->bytes += v->bytes;
	to->forwarded += v->forwarded;
	to->dropped += v->dropped;
	to->errors += v->errors;
	to->sent += v->sent;
	to->sent_bytes += v->sent_bytes;
	to->lent += v->lender->lent;
	to->dma_faults += v->dma_faults;
	to->events_lost += v->events_lost;
	to->kept += (uint64_t)v->kept;
	for (unsigned i = 0; i < c->reasons; i++)
		to->drops[i] += v->drops[i];
	for (unsigned i = 0; i < c->counters; i++)
		to->counters[i] += v->counters[i];
}

/* On the worker: no allocation, nothing but copies. */
static void copy(struct sp_worker *w, void *arg)
{
	const struct slice *s = arg;

	if (s->first == 0)
		copy_worker(w, &s->snapshot->worker[w->index]);
	for (size_t i = s->first; i < s->end; i++)
		add_view(s->snapshot->context[i].context->view[w->index], &s->snapshot->context[i]);
}

/* Room for all contexts that there are. */
static int prepare(struct sp_nic *nic, struct sp_snapshot *s)
{
	size_t values = 0, at = 0;

	for (uint32_t i = 0; i < nic->context_next; i++)
		for (const struct sp_context *c = nic->context[i]; c; c = c->companion) {
			s->contexts++;
			values += c->reasons + c->counters;
		}
	s->context = calloc(s->contexts + 1, sizeof(*s->context));
	s->value = calloc(values + 1, sizeof(*s->value));
	if (!s->context || !s->value)
		return -ENOMEM;
	for (uint32_t i = 0; i < nic->context_next; i++)
		for (struct sp_context *c = nic->context[i]; c; c = c->companion) {
			struct sp_context_counts *to = &s->context[at++];

			to->context = c;
			to->drops = s->value + (values -= c->reasons);
			to->counters = s->value + (values -= c->counters);
		}
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
			sp_worker_call(nic->worker[w], copy, &slice);
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
