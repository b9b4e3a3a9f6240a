/* SPDX-License-Identifier: BSD-3-Clause */
/* What the counters say, added up over workers. */
#include "context.h"
#include "message.h"

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

uint64_t sp_nic_dropped(struct sp_nic *nic, const char *reason)
{
	uint64_t n = 0;

	for (unsigned d = 0; d < SP_DROP_COUNT; d++)
		if (!strcmp(sp_drop_names[d], reason))
			n += worker_drops(nic, d);
	for (uint32_t i = 0; i < nic->context_next; i++) {
		const struct sp_context *c = nic->context[i];

		for (unsigned r = 0; c && r < c->reasons; r++)
			if (!strcmp(c->handler->drops[r], reason))
				n += context_drops(c, r);
	}
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

/* All reasons in one object; a name that pipeline and handlers, or two contexts, share is added up. */
static void report_drops(struct sp_nic *nic, struct sp_report *r)
{
	sp_report_open(r, "drops", false);
	for (unsigned d = 0; d < SP_DROP_COUNT; d++)
		if (worker_drops(nic, d))
			sp_report_uint(r, sp_drop_names[d], sp_nic_dropped(nic, sp_drop_names[d]));
	for (uint32_t i = 0; i < nic->context_next; i++) {
		const struct sp_context *c = nic->context[i];

		for (unsigned k = 0; c && k < c->reasons; k++) {
			bool done = !context_drops(c, k);

			for (unsigned d = 0; d < SP_DROP_COUNT && !done; d++)
				done = !strcmp(sp_drop_names[d], c->handler->drops[k]) && worker_drops(nic, d);
			for (uint32_t j = 0; j < i && !done; j++)
				for (unsigned m = 0; nic->context[j] && m < nic->context[j]->reasons && !done; m++)
					done = !strcmp(nic->context[j]->handler->drops[m], c->handler->drops[k]) &&
					       context_drops(nic->context[j], m);
			if (!done)
				sp_report_uint(r, c->handler->drops[k], sp_nic_dropped(nic, c->handler->drops[k]));
		}
	}
	sp_report_close(r);
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
