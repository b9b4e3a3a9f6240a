/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reports of a NIC whose workers run. Every counter is a plain field of its worker: whoever reads one elsewhere than
 * there is a race for ThreadSanitizer. What a report says of a moment must add up in that moment.
 */
#include <jansson.h>
#include <sched.h>
#include <time.h>

#include "../lib/probe.h"
#include "../lib/ports.h"

#define WORKERS 2
#define ROUNDS	suite_times(150) /* reports of each kind, at the least */

/* ---- a port that makes packets, each queue for itself ---- */

static struct source {
	uint64_t seed, made, of_tally, to_nobody;
} __attribute__((aligned(64))) source[WORKERS];
static struct frame tally_frame, nobody_frame;
static _Atomic bool hush;
static bool flows; /* what is for nobody comes from many ports; set while no worker runs */

static unsigned make(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	struct source *s = &source[queue];
	unsigned n = 0;
	for (; n < max && !atomic_load_explicit(&hush, memory_order_relaxed); n++) {
		const uint64_t dice = dut_random(&s->seed);
		const struct frame *f = dice % 8 ? &tally_frame : &nobody_frame;
		/* few messages, so that one worker waits for the other's header */
		struct probe_words w = {.magic = PROBE_MAGIC,
					.key = 1 + dice / 8 % 2,
					.verdict = dice / 16 % 32 == 0	 ? SP_END
						   : dice / 16 % 32 == 1 ? SP_DROP(1)
									 : SP_DONE};

		packet[n] = sp_packet_alloc();
		if (!packet[n])
			break;
		memcpy(rte_pktmbuf_append(packet[n], (uint16_t)f->len), f->bytes, f->len);
		memcpy(rte_pktmbuf_mtod(packet[n], uint8_t *) + f->data, &w, sizeof(w));
		if (flows && f == &nobody_frame)
			rte_pktmbuf_mtod(packet[n], uint8_t *)[34 + 1] = (uint8_t)(dice / 512 % 16); /* UDP source */
		s->made++;
		*(f == &tally_frame ? &s->of_tally : &s->to_nobody) += 1;
	}
	return n;
}

static const struct sp_port_ops source_ops = {.receive = make, .transmit = port_swallow, .next = port_never};

/* ---- a handler that counts without any lock ---- */

struct tally {
	uint64_t at_home; /* the home worker's alone: payload() there, and report() */
};

static const char *const tally_counters[] = {"seen", NULL};

static int tally_attach(struct sp_ctx *c)
{
	return sp_messages_limit(c, 16, 0);
}

static uint32_t tally_header(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	sched_yield(); /* the other one comes and has to wait */
	return SP_DONE;
}

static uint32_t tally_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	struct tally *t = c->state;
	c->counters[0]++;
	if (c->worker == c->home)
		t->at_home++;
	return probe_words_of(p).verdict;
}

static void tally_report(struct sp_ctx *c, struct sp_report *r)
{
	const struct tally *t = c->state;

	sp_report_uint(r, "at_home", t->at_home);
}

static const struct sp_handler tally = {SP_HANDLER_HEAD,
					.name = "tally",
					.doc = "counts",
					.drops = probe_drops,
					.counters = tally_counters,
					.ctx_size = sizeof(struct tally),
					.msg_size = 8,
					.messages = SP_MESSAGES_HASHED,
					.attach = tally_attach,
					.classify = probe_classify,
					.header = tally_header,
					.payload = tally_payload,
					.report = tally_report};
SP_HANDLER(tally)

/* ---- helpers ---- */

static uint32_t id;
static _Atomic bool enough;

static void start(void)
{
	struct probe_words w = {0};

	dut_roce(&tally_frame, FRAME_IP4, 16, 0, &w, sizeof(w));
	dut_roce(&nobody_frame, FRAME_IP4, 99, 0, &w, sizeof(w));
	memset(source, 0, sizeof(source));
	for (unsigned i = 0; i < WORKERS; i++)
		source[i].seed = i + 1;
	hush = enough = false;
	dut_prepare(&dut, WORKERS);
	dut.config.port[0].ops = &source_ops;
	dut.config.icrc_off = true; /* the sources change bytes under it */
	dut_create(&dut);
	id = dut_context(&dut, "a", "tally", "qp=16");
	CU_ASSERT_EQUAL_FATAL(sp_nic_start(dut.nic), 0);
}

static void end(void)
{
	sp_nic_stop(dut.nic);
	dut_stop(&dut);
}

static uint64_t number(const json_t *o, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(o, key));
}

static bool adds_up(const json_t *o)
{
	return number(o, "packets") ==
	       number(o, "taken") + number(o, "forwarded") + number(o, "dropped") + number(o, "parked");
}

/* Asks for everything, again and again, and looks whether it adds up and never goes back. */
struct watcher {
	bool handlers;
	unsigned rounds, wrong;
	uint64_t packets, counted;
};

static void *watch(void *arg)
{
	struct watcher *w = arg;

	while (!atomic_load(&enough) || w->rounds < ROUNDS) {
		struct sp_nic_totals t;
		char *text = NULL;
		json_t *worker;
		size_t i;

		sp_nic_totals(dut.nic, &t);
		w->wrong += t.received != t.taken + t.forwarded + t.dropped + t.parked || t.received < w->packets;
		w->packets = t.received;
		uint64_t n = sp_nic_context_counter(dut.nic, id, "seen");
		w->wrong += n < w->counted;
		w->counted = n;
		if (sp_nic_report_text(dut.nic, w->handlers, NULL, &text)) {
			w->wrong++;
			continue;
		}
		json_t *r = json_loads(text, 0, NULL);
		free(text);
		w->wrong += !r || !adds_up(r) || number(r, "packets") < w->packets;
		w->packets = number(r, "packets");
		json_array_foreach(json_object_get(r, "workers"), i, worker) w->wrong +=
			!adds_up(worker) || number(worker, "busy_us") > number(worker, "running_us");
		n = number(json_object_get(json_object_get(json_object_get(r, "contexts"), "a"), "counters"), "seen");
		w->wrong += n < w->counted;
		w->counted = n;
		json_decref(r);
		w->rounds++;
	}
	return NULL;
}

/* ---- rules ---- */

TEST(reports_under_load_add_up_and_do_not_race)
{
	struct watcher watcher[2] = {{.handlers = false}, {.handlers = true}};
	pthread_t thread[2];

	start();
	for (unsigned i = 0; i < 2; i++)
		CU_ASSERT_EQUAL_FATAL(pthread_create(&thread[i], NULL, watch, &watcher[i]), 0);
	/* Contexts come and go meanwhile, with and without packets. */
	for (unsigned i = 0; i < suite_times(60); i++) {
		uint32_t other = dut_context(&dut, "b", "tally", i % 2 ? "qp=99" : "qp=98");

		CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, other), 0);
	}
	atomic_store(&enough, true);
	for (unsigned i = 0; i < 2; i++) {
		pthread_join(thread[i], NULL);
		CU_ASSERT_EQUAL(watcher[i].wrong, 0);
		CU_ASSERT(watcher[i].packets > 0);
		printf("# %u reports, %llu packets\n", watcher[i].rounds, (unsigned long long)watcher[i].packets);
	}
	end();
}

TEST(reports_of_flows_that_come_and_go_do_not_race)
{
	unsigned seen = 0, wrong = 0;
	uint64_t packets = 0;

	flows = true;
	start();
	dut_context(&dut, "flows", "count", "qp=99;flows=8;idle=1us");
	for (unsigned i = 0; i < ROUNDS || !seen; i++) {
		const json_t *flow;
		char *text = NULL;
		size_t at;

		CU_ASSERT_EQUAL_FATAL(sp_nic_report_text(dut.nic, true, "flows", &text), 0);
		json_t *r = json_loads(text, 0, NULL);
		free(text);
		CU_ASSERT_PTR_NOT_NULL_FATAL(r);
		const json_t *totals = json_object_get(json_object_get(r, "contexts"), "flows");
		json_array_foreach(json_object_get(totals, "flows"), at, flow)
		{
			seen++;
			/* One flow as it was, not half of another: they are all between the same addresses. */
			wrong += number(flow, "ethertype") != 0x0800 || number(flow, "protocol") != 17 ||
				 number(flow, "destination_port") != 4791 || number(flow, "source_port") % 256 > 15 ||
				 number(flow, "last_ns") < number(flow, "first_ns");
		}
		totals = json_object_get(totals, "totals");
		wrong += number(totals, "packets") < packets;
		packets = number(totals, "packets");
		json_decref(r);
	}
	CU_ASSERT_EQUAL(wrong, 0);
	CU_ASSERT(packets > 0);
	end();
	flows = false;
}

TEST(sums_are_exact_when_traffic_has_ended)
{
	uint64_t made = 0, of_tally = 0, to_nobody = 0;
	struct sp_nic_totals t = {0};
	char *text = NULL;
	json_t *a;

	start();
	do
		sp_nic_totals(dut.nic, &t);
	while (t.received < 20000);
	atomic_store(&hush, true);
	/* What has been received, and what is parked. A worker may have to wait for a processor with packets in hand.
	 */
	for (unsigned still = 0; still < 60;) {
		struct sp_nic_totals before = t;

		nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
		sp_nic_totals(dut.nic, &t);
		still = t.received == before.received && !t.parked ? still + 1 : 0;
	}
	/* The workers run on; they have received nothing since, so what they wrote is settled. */
	CU_ASSERT_EQUAL_FATAL(sp_nic_report_text(dut.nic, true, NULL, &text), 0);
	for (unsigned i = 0; i < WORKERS; i++) {
		made += __atomic_load_n(&source[i].made, __ATOMIC_RELAXED);
		of_tally += __atomic_load_n(&source[i].of_tally, __ATOMIC_RELAXED);
		to_nobody += __atomic_load_n(&source[i].to_nobody, __ATOMIC_RELAXED);
	}
	json_t *r = json_loads(text, 0, NULL);
	free(text);
	CU_ASSERT_PTR_NOT_NULL_FATAL(r);
	a = json_object_get(json_object_get(r, "contexts"), "a");
	CU_ASSERT_EQUAL(number(r, "packets"), made);
	CU_ASSERT_EQUAL(number(json_object_get(r, "drops"), "bad-qp"), to_nobody);
	CU_ASSERT_EQUAL(number(a, "packets") + number(a, "dropped") +
				number(json_object_get(r, "drops"), "header-busy"),
			of_tally);
	CU_ASSERT_EQUAL(number(json_object_get(a, "counters"), "seen"), number(a, "packets") + number(a, "dropped"));
	CU_ASSERT(number(a, "at_home") > 0);
	CU_ASSERT(number(a, "at_home") <= number(json_object_get(a, "counters"), "seen"));
	CU_ASSERT(number(r, "taken") > 0 && number(r, "taken") == number(a, "packets"));
	json_decref(r);
	end();
}
