/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A light tenant beside a heavy one on a worker in a thread of its own, in real time: nothing of the light one's is
 * lost, packets stay in order, totals are right at every moment. With --measure, how long the light one's packets wait
 * from their arrival to the handler: alone, and beside heavy ones with and without sharing (docs/handlers.md has the
 * table).
 */
#include <time.h>

#include "../../pipeline/exec/scheduler.h"
#include "../../pipeline/worker_call.h"
#include "../lib/dut.h"
#include "../lib/ports.h"

#define LIGHT_EVERY 100	  /* us */
#define QUEUE	    1024  /* descriptors of the port */
#define MOST	    65536 /* packets of the light one */
#define HEAVIES	    4

struct words {
	uint32_t tenant, serial;
	uint64_t arrival, cost; /* TSC */
};

/* [worker], but what is atomic */
static struct {
	uint64_t us, next[1 + HEAVIES], every[1 + HEAVIES], cost[1 + HEAVIES];
	unsigned tenants;
	uint32_t serial[1 + HEAVIES], last[1 + HEAVIES];
	struct words queue[QUEUE];
	unsigned head;
	_Atomic unsigned count;
	_Atomic uint64_t light_came, light_done, heavy_done, light_missed, reordered;
	_Atomic bool hush;
	uint64_t *wait;
	struct frame frame[1 + HEAVIES];
} traffic;
static void arrive(unsigned t)
{
	if (traffic.count == QUEUE) {
		traffic.light_missed += !t;
		return;
	}
	traffic.queue[(traffic.head + traffic.count++) % QUEUE] = (struct words){
		.tenant = t, .serial = ++traffic.serial[t], .arrival = traffic.next[t], .cost = traffic.cost[t]};
	traffic.light_came += !t;
}

static unsigned make(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time when)
{
	const uint64_t now = rte_rdtsc();
	unsigned n = 0;
	for (bool due = !traffic.hush; due;) {
		unsigned first = 0;

		for (unsigned t = 1; t < traffic.tenants; t++)
			first = traffic.next[t] < traffic.next[first] ? t : first;
		due = traffic.next[first] <= now;
		if (!due)
			break;
		arrive(first);
		traffic.next[first] += traffic.every[first];
	}
	for (; n < max && traffic.count; n++, traffic.count--) {
		const struct words *w = &traffic.queue[traffic.head];
		const struct frame *f = &traffic.frame[w->tenant];

		packet[n] = sp_packet_alloc();
		if (!packet[n])
			break;
		uint8_t *bytes = (uint8_t *)rte_pktmbuf_append(packet[n], (uint16_t)f->len);
		memcpy(bytes, f->bytes, f->len);
		memcpy(bytes + f->data, w, sizeof(*w));
		traffic.head = (traffic.head + 1) % QUEUE;
	}
	return n;
}

static const struct sp_port_ops ops = {.receive = make, .transmit = dut_transmit, .next = port_never};

static uint32_t payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	const uint64_t began = rte_rdtsc();
	struct words w;
	memcpy(&w, p->data, sizeof(w));
	traffic.reordered += w.serial <= traffic.last[w.tenant];
	traffic.last[w.tenant] = w.serial;
	if (w.tenant)
		traffic.heavy_done++;
	else if (traffic.light_done < MOST)
		traffic.wait[traffic.light_done++] = began - w.arrival;
	while (rte_rdtsc() - began < w.cost)
		;
	return SP_DONE;
}

static const struct sp_handler tenant = {SP_HANDLER_HEAD, .name = "tenant", .payload = payload};
SP_HANDLER(tenant)

static void no_share(struct sp_worker *w, void *arg)
{
	struct sp_scheduler **kept = arg, *s = w->scheduler;

	w->scheduler = *kept;
	*kept = s;
}

static int less(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static double quantile(double q)
{
	const uint64_t n = traffic.light_done;

	return n ? (double)traffic.wait[(uint64_t)(q * (double)(n - 1))] / (double)traffic.us : 0;
}

/* What arrives of the heavy ones is twice what the worker could do; each packet costs so many microseconds. */
static void run(unsigned heavies, unsigned cost, bool share, unsigned ms)
{
	const struct timespec pause = {.tv_nsec = 10000000};
	struct words none = {0};
	struct sp_scheduler *off = NULL;
	struct sp_nic_totals t;
	uint32_t light = 0, id;

	memset(&traffic, 0, sizeof(traffic));
	traffic.wait = calloc(MOST, sizeof(*traffic.wait));
	dut_prepare(&dut, 1);
	dut.config.icrc_off = true;
	dut.config.port[0].ops = &ops;
	dut.config.idle = SP_IDLE_SPIN;
	traffic.hush = true;
	dut_create(&dut);
	traffic.us = rte_get_tsc_hz() / 1000000;
	traffic.tenants = 1 + heavies;
	for (unsigned i = 0; i <= heavies; i++) {
		char name[16], settings[16];

		snprintf(name, sizeof(name), "tenant-%u", i);
		snprintf(settings, sizeof(settings), "qp=%u", 64 + i);
		id = dut_context(&dut, name, "tenant", settings);
		light = i ? light : id;
		dut_roce(&traffic.frame[i], FRAME_IP4, 64 + i, 0, &none, sizeof(none));
		traffic.cost[i] = (i ? cost : 1) * traffic.us;
		traffic.every[i] = i ? traffic.cost[i] * heavies / 2 : LIGHT_EVERY * traffic.us;
		traffic.next[i] = rte_rdtsc() + 1000 * traffic.us * (i ? 20 : 10);
	}
	sp_dev_close(dut.dev); /* it would poll for itself */
	CU_ASSERT_EQUAL_FATAL(sp_nic_start(dut.nic), 0);
	if (!share)
		sp_worker_call(dut.nic->worker[0], no_share, &off);
	traffic.hush = false;
	for (unsigned i = 0; i < ms / 10; i++) {
		nanosleep(&pause, NULL);
		sp_nic_totals(dut.nic, &t);
		CU_ASSERT_EQUAL(t.received, t.taken + t.forwarded + t.dropped + t.parked);
	}
	traffic.hush = true;
	for (unsigned i = 0; i < 6000 && (!i || traffic.count || t.parked || t.received != t.taken + t.dropped); i++) {
		nanosleep(&pause, NULL);
		sp_nic_totals(dut.nic, &t);
	}
	CU_ASSERT_EQUAL(t.received, t.taken + t.dropped);
	if (!share)
		sp_worker_call(dut.nic->worker[0], no_share, &off);
	sp_nic_stop(dut.nic);
	uint64_t full = sp_context_by_id(dut.nic, light)->view[0]->backlog_full;
	CU_ASSERT_EQUAL(traffic.reordered, 0);
	/* Of what the port had room for. A worker that the machine stops for long may have to drop some. */
	CU_ASSERT_EQUAL(traffic.light_done + full, traffic.light_came);
	CU_ASSERT(!heavies || traffic.heavy_done > 0);
	sp_nic_destroy(dut.nic);
	dut_port_free(&dut.port);
	CU_ASSERT_EQUAL(rte_mempool_in_use_count(sp_process_pool()), dut.in_use);
	qsort(traffic.wait, traffic.light_done, sizeof(*traffic.wait), less);
}

TEST(beside_heavy_tenants_each_packet_of_a_light_one_ends_in_one_place)
{
	run(1, 100, true, 300);
	free(traffic.wait);
	run(HEAVIES, 50, true, 300);
	free(traffic.wait);
}

static void measure(const char *what, unsigned heavies, unsigned cost, bool share)
{
	const struct timespec pause = {.tv_nsec = 700000000};

	nanosleep(&pause, NULL); /* with real-time priority, so that the kernel does not throttle us */
	run(heavies, cost, share, 500);
	printf("# %-48s p50 %9.1f  p99 %9.1f us, of %llu packets %llu lost at the port; heavy ones had %llu\n", what,
	       quantile(0.5), quantile(0.99), (unsigned long long)(traffic.light_came + traffic.light_missed),
	       (unsigned long long)traffic.light_missed, (unsigned long long)traffic.heavy_done);
	free(traffic.wait);
}

static void light_tenants_wait_measured(void)
{
	measure("alone", 0, 0, true);
	measure("beside one of 100 us a packet", 1, 100, true);
	measure("beside one of 100 us a packet, no sharing", 1, 100, false);
	measure("beside four of 100 us a packet", 4, 100, true);
	measure("beside four of 100 us a packet, no sharing", 4, 100, false);
	measure("beside one of 10 us a packet", 1, 10, true);
	measure("beside one of 10 us a packet, no sharing", 1, 10, false);
}

int main(int argc, char **argv)
{
	static struct suite_test measured = {"light_tenants_wait_measured", light_tenants_wait_measured, NULL,
					     UINT_MAX};

	if (argc > 1 && !strcmp(argv[1], "--measure"))
		suite_add(&measured);
	return suite_run();
}
