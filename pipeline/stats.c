/* SPDX-License-Identifier: BSD-3-Clause */
/* What the counters say, added up over workers. */
#include "context.h"
#include "message.h"

#include <stdlib.h>

#include <rte_ethdev.h>

static uint64_t worker_drops(const struct sp_nic *nic, enum sp_drop why)
{
	uint64_t n = 0;

	for (uint16_t w = 0; w < nic->workers; w++)
		n += nic->worker[w]->drops[why];
	return n;
}

static uint64_t context_drops(const struct sp_context *c, unsigned reason)
{
	return sp_context_sum(c, offsetof(struct sp_view, drops) + reason * sizeof(uint64_t));
}

void sp_nic_totals(struct sp_nic *nic, struct sp_nic_totals *t)
{
	memset(t, 0, sizeof(*t));
	for (uint16_t i = 0; i < nic->workers; i++) {
		const struct sp_worker *w = nic->worker[i];

		for (unsigned p = 0; p < nic->ports; p++) {
			t->received += w->rx[p].packets;
			t->bytes += w->rx[p].bytes;
			t->sent += w->tx[p].packets;
			t->sent_bytes += w->tx[p].bytes;
		}
		t->answered += w->answered;
		t->forwarded += w->forwarded;
	}
	t->taken = t->answered + nic->gone.taken;
	t->dropped = nic->gone.dropped;
	for (unsigned d = 0; d < SP_DROP_FIRST_TX; d++)
		t->dropped += worker_drops(nic, d);
	for (uint32_t i = 0; i < nic->context_next; i++) {
		const struct sp_context *c = nic->context[i];

		if (!c)
			continue;
		t->taken += sp_context_sum(c, offsetof(struct sp_view, packets));
		for (unsigned r = 0; r < c->reasons; r++)
			t->dropped += context_drops(c, r);
	}
}

/* ---- drops by name: the pipeline's, the contexts', and those of contexts that are gone; equal names add up ---- */

struct drop_sums {
	struct sp_gone *sum;
	size_t count;
};

static void add_drops(struct drop_sums *s, const char *name, uint64_t n)
{
	size_t i = 0;

	while (i < s->count && strcmp(s->sum[i].name, name))
		i++;
	if (i == s->count && n) {
		struct sp_gone *more = realloc(s->sum, (i + 1) * sizeof(*more));

		if (!more)
			return;
		s->sum = more;
		s->sum[s->count++] = (struct sp_gone){.name = name};
	}
	if (n)
		s->sum[i].count += n;
}

static struct drop_sums sum_drops(const struct sp_nic *nic)
{
	struct drop_sums s = {0};

	for (unsigned d = 0; d < SP_DROP_COUNT; d++)
		add_drops(&s, sp_drop_names[d], worker_drops(nic, d));
	for (uint32_t i = 0; i < nic->context_next; i++)
		for (unsigned r = 0; nic->context[i] && r < nic->context[i]->reasons; r++)
			add_drops(&s, nic->context[i]->handler->drops[r], context_drops(nic->context[i], r));
	for (const struct sp_gone *g = nic->gone.drops; g; g = g->next)
		add_drops(&s, g->name, g->count);
	return s;
}

void sp_stats_remember(struct sp_nic *nic, const struct sp_context *c)
{
	nic->gone.taken += sp_context_sum(c, offsetof(struct sp_view, packets));
	for (unsigned r = 0; r < c->reasons; r++) {
		uint64_t n = context_drops(c, r);
		struct sp_gone *g = nic->gone.drops;

		nic->gone.dropped += n;
		while (g && strcmp(g->name, c->handler->drops[r]))
			g = g->next;
		if (!g && n) {
			char *name = strdup(c->handler->drops[r]);

			g = calloc(1, sizeof(*g));
			if (!g || !name) { /* then it is in the total alone */
				free(g);
				free(name);
				continue;
			}
			g->name = name;
			g->next = nic->gone.drops;
			nic->gone.drops = g;
		}
		if (g)
			g->count += n;
	}
}

void sp_stats_forget(struct sp_nic *nic)
{
	while (nic->gone.drops) {
		struct sp_gone *g = nic->gone.drops;

		nic->gone.drops = g->next;
		free((char *)(uintptr_t)g->name);
		free(g);
	}
}

uint64_t sp_nic_dropped(struct sp_nic *nic, const char *reason)
{
	struct drop_sums s = sum_drops(nic);
	uint64_t n = 0;

	for (size_t i = 0; i < s.count; i++)
		if (!strcmp(s.sum[i].name, reason))
			n = s.sum[i].count;
	free(s.sum);
	return n;
}

uint64_t sp_nic_context_counter(struct sp_nic *nic, uint32_t id, const char *name)
{
	const struct sp_context *c = sp_context_by_id(nic, id);

	if (!c)
		return 0;
	for (unsigned i = 0; i < c->counters; i++)
		if (!strcmp(c->handler->counters[i], name))
			return sp_context_sum(c, offsetof(struct sp_view, counters) + i * sizeof(uint64_t));
	for (unsigned r = 0; r < c->reasons; r++)
		if (!strcmp(c->handler->drops[r], name))
			return context_drops(c, r);
	if (!strcmp(name, "packets"))
		return sp_context_sum(c, offsetof(struct sp_view, packets));
	if (!strcmp(name, "bytes"))
		return sp_context_sum(c, offsetof(struct sp_view, bytes));
	return 0;
}

/* ---- as a report ---- */

static void report_drops(struct sp_nic *nic, struct sp_report *r)
{
	struct drop_sums s = sum_drops(nic);

	sp_report_open(r, "drops", false);
	for (size_t i = 0; i < s.count; i++)
		sp_report_uint(r, s.sum[i].name, s.sum[i].count);
	sp_report_close(r);
	free(s.sum);
}

static void report_ethdev(const struct sp_port *port, struct sp_report *r)
{
	struct rte_eth_stats s;
	char name[RTE_ETH_NAME_MAX_LEN];

	if (rte_eth_dev_get_name_by_port(port->ethdev, name))
		return;
	sp_report_string(r, "device", name);
	if (rte_eth_stats_get(port->ethdev, &s))
		return;
	sp_report_uint(r, "missed", s.imissed);
	sp_report_uint(r, "receive_errors", s.ierrors);
	sp_report_uint(r, "no_buffers", s.rx_nombuf);
	sp_report_uint(r, "transmit_errors", s.oerrors);
}

static void report_ports(const struct sp_nic *nic, struct sp_report *r)
{
	sp_report_open(r, "ports", true);
	for (unsigned p = 0; p < nic->ports; p++) {
		uint64_t rx = 0, rx_bytes = 0, tx = 0, tx_bytes = 0;

		for (uint16_t w = 0; w < nic->workers; w++) {
			rx += nic->worker[w]->rx[p].packets;
			rx_bytes += nic->worker[w]->rx[p].bytes;
			tx += nic->worker[w]->tx[p].packets;
			tx_bytes += nic->worker[w]->tx[p].bytes;
		}
		sp_report_open(r, NULL, false);
		if (!nic->port[p].ops)
			report_ethdev(&nic->port[p], r);
		sp_report_uint(r, "packets", rx);
		sp_report_uint(r, "bytes", rx_bytes);
		sp_report_uint(r, "sent", tx);
		sp_report_uint(r, "sent_bytes", tx_bytes);
		sp_report_close(r);
	}
	sp_report_close(r);
}

static void report_workers(const struct sp_nic *nic, struct sp_report *r)
{
	sp_report_open(r, "workers", true);
	for (uint16_t i = 0; i < nic->workers; i++) {
		const struct sp_worker *w = nic->worker[i];
		uint64_t packets = 0, dropped = 0;

		for (unsigned p = 0; p < nic->ports; p++)
			packets += w->rx[p].packets;
		for (unsigned d = 0; d < SP_DROP_FIRST_TX; d++)
			dropped += w->drops[d];
		sp_report_open(r, NULL, false);
		sp_report_uint(r, "packets", packets);
		sp_report_uint(r, "answered", w->answered);
		sp_report_uint(r, "forwarded", w->forwarded);
		sp_report_uint(r, "dropped", dropped);
		sp_report_uint(r, "polls", w->polls);
		sp_report_uint(r, "busy_polls", w->busy_polls);
		sp_report_close(r);
	}
	sp_report_close(r);
}

static void report_context(struct sp_context *c, const char *name, struct sp_report *r)
{
	static const struct {
		const char *name;
		size_t at;
	} field[] = {
		{"packets", offsetof(struct sp_view, packets)},
		{"bytes", offsetof(struct sp_view, bytes)},
		{"forwarded", offsetof(struct sp_view, forwarded)},
		{"dropped", offsetof(struct sp_view, dropped)},
		{"errors", offsetof(struct sp_view, errors)},
		{"sent", offsetof(struct sp_view, sent)},
		{"sent_bytes", offsetof(struct sp_view, sent_bytes)},
		{"dma_faults", offsetof(struct sp_view, dma_faults)},
		{"events_lost", offsetof(struct sp_view, events_lost)},
		{"kept", offsetof(struct sp_view, kept)},
	};

	sp_report_open(r, name, false);
	sp_report_string(r, "handler", c->handler->name);
	for (size_t i = 0; i < sizeof(field) / sizeof(*field); i++)
		sp_report_uint(r, field[i].name, sp_context_sum(c, field[i].at));
	if (c->messages)
		sp_report_uint(r, "open_messages", sp_messages_open(c));
	sp_report_open(r, "counters", false);
	for (unsigned i = 0; i < c->counters; i++)
		sp_report_uint(r, c->handler->counters[i],
			       sp_context_sum(c, offsetof(struct sp_view, counters) + i * sizeof(uint64_t)));
	sp_report_close(r);
	sp_report_open(r, "drops", false);
	for (unsigned i = 0; i < c->reasons; i++)
		if (context_drops(c, i))
			sp_report_uint(r, c->handler->drops[i], context_drops(c, i));
	sp_report_close(r);
	if (c->handler->report)
		c->handler->report(&c->view[c->home]->pub, r);
	if (c->companion)
		report_context(c->companion, "companion", r);
	sp_report_close(r);
}

/* A handler over all its contexts. */
static void report_handlers(struct sp_nic *nic, struct sp_report *r)
{
	sp_report_open(r, "handlers", false);
	for (const struct sp_handler *h = sp_handler_next(NULL); h; h = sp_handler_next(h)) {
		uint64_t contexts = 0, packets = 0, bytes = 0, dropped = 0, sent = 0;

		for (uint32_t i = 0; i < nic->context_next; i++)
			for (const struct sp_context *c = nic->context[i]; c; c = c->companion)
				if (c->handler == h) {
					contexts++;
					packets += sp_context_sum(c, offsetof(struct sp_view, packets));
					bytes += sp_context_sum(c, offsetof(struct sp_view, bytes));
					dropped += sp_context_sum(c, offsetof(struct sp_view, dropped));
					sent += sp_context_sum(c, offsetof(struct sp_view, sent));
				}
		if (!contexts)
			continue;
		sp_report_open(r, h->name, false);
		sp_report_uint(r, "contexts", contexts);
		sp_report_uint(r, "packets", packets);
		sp_report_uint(r, "bytes", bytes);
		sp_report_uint(r, "dropped", dropped);
		sp_report_uint(r, "sent", sent);
		sp_report_close(r);
	}
	sp_report_close(r);
}

void sp_nic_report(struct sp_nic *nic, struct sp_report *r)
{
	struct sp_nic_totals t;

	sp_nic_totals(nic, &t);
	sp_report_uint(r, "packets", t.received);
	sp_report_uint(r, "bytes", t.bytes);
	sp_report_uint(r, "sent", t.sent);
	sp_report_uint(r, "sent_bytes", t.sent_bytes);
	sp_report_uint(r, "taken", t.taken);
	sp_report_uint(r, "answered", t.answered);
	sp_report_uint(r, "forwarded", t.forwarded);
	sp_report_uint(r, "dropped", t.dropped);
	report_drops(nic, r);
	report_ports(nic, r);
	report_workers(nic, r);
	report_handlers(nic, r);
	sp_report_open(r, "contexts", false);
	for (uint32_t i = 0; i < nic->context_next; i++)
		if (nic->context[i])
			report_context(nic->context[i], nic->context[i]->name, r);
	sp_report_close(r);
}
