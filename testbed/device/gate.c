/* SPDX-License-Identifier: BSD-3-Clause */
#include "gate.h"

#include <errno.h>
#include <stdlib.h>

#include <rte_mbuf.h>

#include "../../pipeline/limits.h"
#include "../../pipeline/observe/trace.h"

struct held {
	sp_time at;
	uint64_t number;
	struct rte_mbuf *packet;
};

struct line { /* a heap for each queue: the earliest first */
	struct held held[SP_DEVICE_GATED];
	unsigned count;
};

struct sp_device_gate {
	struct sp_device_gate_config config;
	struct sp_device_run *run;
	uint64_t number, dropped, bytes; /* bytes: held */
	unsigned count;			 /* held in all lines */
	sp_time now;
	struct line line[SP_MAX_WORKERS];
};

int sp_device_gate_create(const struct sp_device_gate_config *config, struct sp_device_gate **gate)
{
	struct sp_device_gate *g;
	int err;

	*gate = NULL;
	if (!sp_costs_find(&config->device->costs, config->handler, SP_CALLED_PAYLOAD))
		return -EINVAL;
	g = calloc(1, sizeof(*g));
	if (!g)
		return -ENOMEM;
	g->config = *config;
	err = sp_device_run_create(config->device, config->workers, &g->run);
	if (err) {
		free(g);
		return err;
	}
	g->config.device = sp_device_run_device(g->run);
	*gate = g;
	return 0;
}

void sp_device_gate_destroy(struct sp_device_gate *g)
{
	if (!g)
		return;
	for (unsigned q = 0; q < SP_MAX_WORKERS; q++)
		for (unsigned i = 0; i < g->line[q].count; i++)
			rte_pktmbuf_free(g->line[q].held[i].packet);
	sp_device_run_destroy(g->run);
	free(g);
}

/* ---- the heap ---- */

static bool before(const struct held *a, const struct held *b)
{
	return a->at != b->at ? a->at < b->at : a->number < b->number;
}

static void swap(struct held *a, struct held *b)
{
	const struct held t = *a;

	*a = *b;
	*b = t;
}

static void put(struct line *l, struct held h)
{
	unsigned i = l->count++;

	for (l->held[i] = h; i && before(&l->held[i], &l->held[(i - 1) / 2]); i = (i - 1) / 2)
		swap(&l->held[i], &l->held[(i - 1) / 2]);
}

static void take(struct line *l)
{
	l->held[0] = l->held[--l->count];
	for (unsigned i = 0, child; (child = 2 * i + 1) < l->count; i = child) {
		if (child + 1 < l->count && before(&l->held[child + 1], &l->held[child]))
			child++;
		if (!before(&l->held[child], &l->held[i]))
			return;
		swap(&l->held[i], &l->held[child]);
	}
}

/* ---- packets ---- */

static bool is_full(const struct sp_device_gate *g, uint32_t bytes)
{
	const uint64_t buffer = g->config.device->buffer;

	return g->count == SP_DEVICE_GATED || (buffer && g->bytes + bytes > buffer);
}

static void admit(struct sp_device_gate *g, uint16_t queue, struct rte_mbuf *packet, sp_time now)
{
	const struct sp_device_gate_config *c = &g->config;
	const uint32_t bytes = packet->pkt_len, payload = bytes > c->header ? bytes - c->header : 0;
	struct sp_device_job job = {.handler = c->handler,
				    .function = SP_CALLED_PAYLOAD,
				    .now = now,
				    .packet = true,
				    .worker = queue,
				    .work = {.bytes = payload, .words = c->words}};
	struct sp_device_result r;

	if (is_full(g, bytes)) {
		g->dropped++;
		rte_pktmbuf_free(packet);
		return;
	}
	g->number++;
	job.work.words += c->word_every && g->number % c->word_every == 0;
	job.work.writes = payload + 8 * job.work.words;
	sp_device_run_packet(g->run, now, bytes);
	r = sp_device_run_job(g->run, &job);
	put(&g->line[queue], (struct held){r.placed, g->number, packet});
	g->count++;
	g->bytes += bytes;
}

static unsigned gate_receive(void *arg, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	struct sp_device_gate *g = arg;
	struct line *l = &g->line[queue];
	struct rte_mbuf *came[SP_BURST];
	unsigned n;

	if (now < g->now) /* another worker was polled at a later time */
		now = g->now;
	g->now = now;
	for (n = 0; n < max && l->count && l->held[0].at <= now; n++) {
		packet[n] = l->held[0].packet;
		g->bytes -= packet[n]->pkt_len;
		g->count--;
		take(l);
	}
	do {
		const unsigned k = g->config.ops->receive(g->config.port, queue, came, SP_BURST, now);

		for (unsigned i = 0; i < k; i++)
			admit(g, queue, came[i], now);
		if (k < SP_BURST)
			break;
	} while (true);
	return n;
}

static unsigned gate_transmit(void *arg, uint16_t queue, struct rte_mbuf **packet, unsigned count, sp_time now)
{
	struct sp_device_gate *g = arg;

	return g->config.ops->transmit(g->config.port, queue, packet, count, now);
}

static sp_time gate_next(void *arg, uint16_t queue, bool transmit_blocked)
{
	struct sp_device_gate *g = arg;
	const struct line *l = &g->line[queue];
	const sp_time next = g->config.ops->next(g->config.port, queue, transmit_blocked);

	return l->count && l->held[0].at < next ? l->held[0].at : next;
}

const struct sp_port_ops sp_device_gate_ops = {.receive = gate_receive, .transmit = gate_transmit, .next = gate_next};

const struct sp_device_run *sp_device_gate_run(const struct sp_device_gate *g)
{
	return g->run;
}

uint64_t sp_device_gate_dropped(const struct sp_device_gate *g)
{
	return g->dropped;
}
