/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters summed over workers, ended contexts included. */
#include "stats.h"
#include "gone.h"
#include "../engine.h"
#include "../context.h"
#include "../view.h"
#include "../worker_call.h"

#include <stdlib.h>

void sp_nic_totals(struct sp_nic *nic, struct sp_nic_totals *t)
{
	struct sp_snapshot s;

	pthread_mutex_lock(&nic->control);
	sp_snapshot_take(nic, false, &s);
	sp_snapshot_totals(nic, &s, t);
	pthread_mutex_unlock(&nic->control);
}

/* ---- drops by name, of the pipeline, contexts and ended contexts; equal names add up ---- */

void sp_stats_drop(struct sp_drop_sums *s, const char *name, uint64_t n, bool all)
{
	size_t i = 0;

	if (!n && !all)
		return;
	while (i < s->count && strcmp(s->sum[i].name, name))
		i++;
	if (i == s->count) {
		struct sp_drop_sum *more = realloc(s->sum, (i + 1) * sizeof(*more));

		if (!more)
			return;
		s->sum = more;
		s->sum[s->count++] = (struct sp_drop_sum){.name = name};
	}
	s->sum[i].count += n;
}

struct sp_drop_sums sp_stats_drops(const struct sp_nic *nic, const struct sp_snapshot *snapshot)
{
	struct sp_drop_sums s = {0};

	for (unsigned d = 0; d < SP_DROP_COUNT; d++)
		for (uint16_t w = 0; w < nic->workers; w++)
			sp_stats_drop(&s, sp_drop_names[d], snapshot->worker[w].drops[d], false);
	for (size_t i = 0; i < snapshot->contexts; i++) {
		const struct sp_context_counts *c = &snapshot->context[i];

		for (unsigned r = 0; r < c->context->reasons && !c->context->first; r++)
			sp_stats_drop(&s, c->context->handler->drops[r], c->drops[r], false);
	}
	for (const struct sp_gone *g = nic->gone; g; g = g->next)
		sp_stats_drop(&s, g->name, g->count, false);
	return s;
}

uint64_t sp_nic_dropped(struct sp_nic *nic, const char *reason)
{
	struct sp_drop_sums s = {0};
	struct sp_snapshot snapshot;
	uint64_t n = 0;

	pthread_mutex_lock(&nic->control);
	if (!sp_snapshot_take(nic, true, &snapshot)) {
		s = sp_stats_drops(nic, &snapshot);
		for (size_t i = 0; i < s.count; i++)
			if (!strcmp(s.sum[i].name, reason)) /* compare text: the names are still valid */
				n = s.sum[i].count;
		sp_snapshot_free(&snapshot);
	}
	pthread_mutex_unlock(&nic->control);
	free(s.sum);
	return n;
}

/* ---- one counter ---- */

struct look {
	const struct sp_context *context;
	size_t at; /* offset in struct sp_view */
	uint64_t sum;
};

static void look(struct sp_worker *w, void *arg)
{
	struct look *l = arg;

	l->sum += *(const uint64_t *)((const uint8_t *)l->context->view[w->index] + l->at);
}

/* Offset of the counter of that name in a view; 0: none. */
static size_t place(const struct sp_context *c, const char *name)
{
	for (unsigned i = 0; i < c->counters; i++)
		if (!strcmp(c->handler->counters[i], name))
			return offsetof(struct sp_view, counters) + i * sizeof(uint64_t);
	for (unsigned r = 0; r < c->reasons; r++)
		if (!strcmp(c->handler->drops[r], name))
			return offsetof(struct sp_view, drops) + r * sizeof(uint64_t);
	return !strcmp(name, "packets") ? offsetof(struct sp_view, packets)
	       : !strcmp(name, "bytes") ? offsetof(struct sp_view, bytes)
					: 0;
}

uint64_t sp_nic_context_counter(struct sp_nic *nic, uint32_t id, const char *name)
{
	struct look l = {0};

	pthread_mutex_lock(&nic->control);
	for (l.context = sp_context_by_id(nic, id); l.context; l.context = l.context->companion)
		if ((l.at = place(l.context, name)) != 0)
			break;
	for (uint16_t w = 0; l.at && w < nic->workers; w++)
		if (sp_worker_look(nic->worker[w], look, &l)) /* the worker has stopped: read its counters directly */
			look(nic->worker[w], &l);
	pthread_mutex_unlock(&nic->control);
	return l.sum;
}
