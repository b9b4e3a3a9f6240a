/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tenants of one worker: contexts whose packets say what they cost, in cycles of a clock that the handler turns on, and
 * a port at which they arrive at a rate of each. Time in the NIC runs with that clock.
 */
#ifndef TESTS_TENANTS_H
#define TESTS_TENANTS_H

#include <rte_cycles.h>

#include "../../pipeline/share.h"
#include "../lib/dut.h"

#define TENANTS	     24
#define TENANT_QP    64
#define TENANT_QUEUE 1024 /* descriptors of the port */

struct tenant {
	/* the test's wishes; times in cycles */
	uint32_t weight;
	uint64_t cost, every;	/* of a packet; between arrivals, 0: none come */
	uint64_t vary;		/* cost is 1 to so many times as much, at random */
	unsigned burst;		/* arrive at once */
	uint64_t from, until;	/* arrivals; until 0: for ever */
	uint64_t slices, slice; /* deferred work: so many works at a time, which never end; cycles of a slice */
	uint64_t issue;		/* a call of issue(), which never ends, takes so many */
	/* what became of it */
	uint32_t id;
	uint64_t next; /* arrival */
	uint32_t serial, last, reordered;
	uint64_t missed, came, done, had; /* missed: at the port; had: cycles, of packets, slices and issues */
	uint64_t sliced, issued;	  /* calls */
	uint32_t *wait;			  /* cycles from arrival to handler, of each packet */
	unsigned room;
};

struct tenant_words {
	uint32_t tenant, serial;
	uint64_t arrival, cost;
};

static struct tenancy {
	struct tenant tenant[TENANTS];
	unsigned tenants;
	uint64_t ticks, us; /* now; in a microsecond */
	uint64_t seed;
	struct tenant_words queue[TENANT_QUEUE];
	unsigned head, count;
	uint64_t received;
	uint64_t backlog_most, idle; /* polls that did nothing while packets waited */
	struct frame frame[TENANTS];
	void (*look)(void); /* after every poll */
} town;

static inline uint64_t tenant_clock(void *arg)
{
	return town.ticks;
}

static inline sp_time tenant_now(void)
{
	return (sp_time)((unsigned __int128)town.ticks * SP_US / town.us);
}

/* ---- their port ---- */

static inline void tenant_arrive(struct tenant *t, uint32_t index)
{
	for (unsigned i = 0; i < t->burst; i++) {
		struct tenant_words *w;

		if (town.count == TENANT_QUEUE) {
			t->missed++;
			continue;
		}
		w = &town.queue[(town.head + town.count++) % TENANT_QUEUE];
		*w = (struct tenant_words){.tenant = index, .serial = ++t->serial, .arrival = t->next, .cost = t->cost};
		if (t->vary)
			w->cost *= 1 + dut_random(&town.seed) % t->vary;
		t->came++;
	}
}

/* Everything that is due, in the order of its time. */
static inline void tenants_arrive(void)
{
	for (;;) {
		struct tenant *first = NULL;

		for (struct tenant *t = town.tenant; t < town.tenant + town.tenants; t++)
			if (t->every && t->next <= town.ticks && (!t->until || t->next < t->until) &&
			    (!first || t->next < first->next))
				first = t;
		if (!first)
			return;
		tenant_arrive(first, (uint32_t)(first - town.tenant));
		first->next += first->every;
	}
}

static inline unsigned tenant_receive(void *arg, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	unsigned n = 0;
	tenants_arrive();
	for (; n < max && town.count; n++, town.count--) {
		const struct tenant_words *w = &town.queue[town.head];
		const struct frame *f = &town.frame[w->tenant];
		uint8_t *bytes;

		packet[n] = sp_packet_alloc();
		CU_ASSERT_PTR_NOT_NULL_FATAL(packet[n]);
		bytes = (uint8_t *)rte_pktmbuf_append(packet[n], (uint16_t)f->len);
		memcpy(bytes, f->bytes, f->len);
		memcpy(bytes + f->data, w, sizeof(*w));
		town.head = (town.head + 1) % TENANT_QUEUE;
	}
	town.received += n;
	return n;
}

static inline sp_time tenant_next(void *arg, uint16_t queue, bool blocked)
{
	return SP_NEVER;
}

static const struct sp_port_ops tenant_ops = {.receive = tenant_receive, .transmit = dut_transmit, .next = tenant_next};

/* ---- their handler ---- */

struct tenant_state {
	uint32_t index;
	struct sp_work work[256];
	struct sp_issue issue;
};

static inline int tenant_attach(struct sp_ctx *c)
{
	struct tenant_state *s = c->state;

	s->index = (uint32_t)sp_param_uint(c, "index");
	for (uint64_t i = 0; i < town.tenant[s->index].slices; i++)
		sp_work_start(c, &s->work[i]);
	if (town.tenant[s->index].issue)
		sp_issue_start(c, &s->issue);
	return 0;
}

static inline uint32_t tenant_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	const struct tenant_state *s = c->state;
	struct tenant *t = &town.tenant[s->index];
	struct tenant_words w;
	memcpy(&w, p->data, sizeof(w));
	t->reordered += w.tenant != s->index || w.serial <= t->last;
	t->last = w.serial;
	dut_need((void **)&t->wait, &t->room, (unsigned)t->done, sizeof(*t->wait));
	t->wait[t->done++] = (uint32_t)(town.ticks - w.arrival);
	town.ticks += w.cost;
	t->had += w.cost;
	return SP_DONE;
}

static inline bool tenant_work(struct sp_ctx *c, struct sp_work *work)
{
	const struct tenant_state *s = c->state;
	struct tenant *t = &town.tenant[s->index];
	town.ticks += t->slice;
	t->had += t->slice;
	t->sliced++;
	return true;
}

static inline int tenant_issue(struct sp_ctx *c, struct sp_issue *i, unsigned budget)
{
	const struct tenant_state *s = c->state;
	struct tenant *t = &town.tenant[s->index];
	town.ticks += t->issue;
	t->had += t->issue;
	t->issued++;
	return SP_ISSUE_MORE;
}

static const struct sp_param tenant_params[] = {{"index", SP_UINT, "0", 0, TENANTS, "which it is"}, {NULL}};
static const struct sp_handler tenant_handler = {SP_HANDLER_HEAD,	  .name = "tenant",
						 .params = tenant_params, .ctx_size = sizeof(struct tenant_state),
						 .attach = tenant_attach, .payload = tenant_payload,
						 .issue = tenant_issue,	  .work = tenant_work};
SP_HANDLER(tenant_handler)

/* ---- a test ---- */

static inline void tenants_begin(void)
{
	memset(&town, 0, sizeof(town));
	dut_prepare(&dut, 1);
	town.us = rte_get_tsc_hz() / 1000000;
	town.ticks = 1000 * town.us;
	town.seed = 1;
	dut.config.cycles = tenant_clock;
	dut.config.icrc_off = true;
	dut.config.port[0].ops = &tenant_ops;
}

/* Microseconds; every: 0: none come. */
static inline struct tenant *tenant_add(uint32_t weight, double cost, double every)
{
	struct tenant *t = &town.tenant[town.tenants++];

	t->weight = weight;
	t->cost = (uint64_t)(cost * (double)town.us);
	t->every = (uint64_t)(every * (double)town.us);
	t->burst = 1;
	return t;
}

static inline void tenants_enter(void)
{
	struct tenant_words none = {0};

	dut_create(&dut);
	for (uint32_t i = 0; i < town.tenants; i++) {
		char name[24], settings[64];

		snprintf(name, sizeof(name), "tenant-%u", i);
		snprintf(settings, sizeof(settings), "qp=%u;weight=%u;index=%u", TENANT_QP + i, town.tenant[i].weight,
			 i);
		town.tenant[i].id = dut_context(&dut, name, "tenant", settings);
		town.tenant[i].next = town.ticks + town.tenant[i].from;
		dut_roce(&town.frame[i], FRAME_IP4, TENANT_QP + i, 0, &none, sizeof(none));
	}
}

static inline struct sp_view *tenant_view(const struct tenant *t)
{
	return sp_context_by_id(dut.nic, t->id)->view[0];
}

static inline struct sp_worker *tenants_worker(void)
{
	return dut.nic->worker[0];
}

/* One poll, and what it costs the worker itself; or, when there is nothing to do, until there is. */
static inline unsigned tenants_poll(uint64_t end)
{
	const unsigned waiting = sp_share_packets(tenants_worker());
	const uint64_t began = town.ticks;
	const unsigned done = sp_nic_poll(dut.nic, 0, tenant_now());

	town.idle += !done && waiting;
	if (sp_share_packets(tenants_worker()) > town.backlog_most)
		town.backlog_most = sp_share_packets(tenants_worker());
	if (!done && town.ticks == began) {
		for (const struct tenant *t = town.tenant; t < town.tenant + town.tenants; t++)
			if (t->every && t->next < end)
				end = t->next;
		if (end > town.ticks)
			town.ticks = end;
	}
	town.ticks += town.us / 10;
	if (town.look)
		town.look();
	return done;
}

/* For so many microseconds. */
static inline void tenants_run(double us)
{
	const uint64_t end = town.ticks + (uint64_t)(us * (double)town.us);

	while (town.ticks < end)
		tenants_poll(end);
}

/* Nothing more arrives; what is there ends. */
static inline void tenants_settle(void)
{
	for (unsigned i = 0; i < town.tenants; i++)
		town.tenant[i].every = 0;
	for (unsigned i = 0; i < 100000 && (town.count || sp_share_packets(tenants_worker())); i++)
		tenants_poll(0);
	CU_ASSERT_EQUAL(town.count, 0);
	CU_ASSERT_EQUAL(sp_share_packets(tenants_worker()), 0);
}

/* Received = taken + forwarded + dropped + parked; returns how many are wrong. */
static inline uint64_t tenants_lost(void)
{
	struct sp_nic_totals t;

	sp_nic_totals(dut.nic, &t);
	return (t.received != town.received) + (t.taken + t.forwarded + t.dropped + t.parked != t.received) +
	       (t.parked != sp_share_packets(tenants_worker()));
}

static inline void tenants_end(void)
{
	for (unsigned i = 0; i < town.tenants; i++)
		CU_ASSERT_EQUAL(town.tenant[i].reordered, 0);
	CU_ASSERT_EQUAL(tenants_lost(), 0);
	CU_ASSERT_EQUAL(town.idle, 0);
	dut_stop(&dut);
	for (unsigned i = 0; i < TENANTS; i++)
		free(town.tenant[i].wait);
}

static inline int tenant_less(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* In microseconds, of those that have been handled; sorts them. */
static inline double tenant_quantile(struct tenant *t, double q)
{
	if (!t->done)
		return 0;
	qsort(t->wait, t->done, sizeof(*t->wait), tenant_less);
	return (double)t->wait[(uint64_t)(q * (double)(t->done - 1))] / (double)town.us;
}

#endif
