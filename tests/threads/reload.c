/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A handler that is replaced over and over while workers run it under full load: between a source that numbers the
 * packets of every message and a verifier that expects each of them once, in order, on the copy that began the message.
 * Copies that have gone are unmapped: whoever calls one ends the process, or is told by the address sanitizer.
 */
#include <jansson.h>
#include <time.h>

#include "../unit/plugins/live.h"
#include "../lib/dut.h"
#include "../lib/ports.h"

#define WORKERS 2
#define KEYS	16 /* of each queue; each is one message after another */
#ifdef __SANITIZE_THREAD__
#define RELOADS 60
#else
#define RELOADS 300
#endif

struct live_orders live_orders;

/* ---- who is loaded ---- */

#define LOADS 16384
static _Atomic unsigned loads, unloads;
static _Atomic bool gone[LOADS];

unsigned live_loaded(void)
{
	return atomic_fetch_add(&loads, 1) + 1;
}

void live_unloaded(unsigned load)
{
	atomic_store(&gone[load % LOADS], true);
	atomic_fetch_add(&unloads, 1);
}

/* ---- the source: a queue's packets are its worker's alone ---- */

struct source {
	uint64_t seed, made;
	uint32_t next[KEYS]; /* serial */
} SP_CACHE_ALIGNED;
static struct source source[WORKERS];
static struct frame frame;
static _Atomic bool hush;
static _Atomic unsigned quiet; /* queues that have nothing more, seen after hush */

static unsigned make(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	struct source *s = &source[queue];
	unsigned n;
	if (atomic_load_explicit(&hush, memory_order_relaxed)) {
		atomic_fetch_or_explicit(&quiet, 1u << queue, memory_order_relaxed);
		return 0;
	}
	max = 1 + (unsigned)(dut_random(&s->seed) % max);
	for (n = 0; n < max; n++) {
		const uint64_t r = dut_random(&s->seed);
		const unsigned k = r % KEYS;
		struct live_words w = {.magic = LIVE_MAGIC, .key = queue * KEYS + k};

		packet[n] = sp_packet_alloc();
		if (!packet[n])
			break;
		w.serial = ++s->next[k];
		w.verdict = r >> 8 & 63 ? SP_DONE : SP_END;
		w.action = r >> 16 & 255 ? 0 : r >> 24 & 1 ? LIVE_TIMER : LIVE_ISSUE | LIVE_WORK;
		w.arg = w.action == LIVE_TIMER ? 20 * SP_US : 3;
		uint8_t *bytes = (uint8_t *)rte_pktmbuf_append(packet[n], (uint16_t)frame.len);
		memcpy(bytes, frame.bytes, frame.len);
		memcpy(bytes + frame.data, &w, sizeof(w));
	}
	s->made += n;
	return n;
}

static const struct sp_port_ops source_ops = {.receive = make, .transmit = port_swallow, .next = port_always};

/* ---- the verifier ---- */

static void nap(long us)
{
	nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

/* Which of a key's last packets have come: two workers take turns at a message's table, so that one packet may have to
 * wait while the next one does not. */
#define WINDOW 65536
static _Atomic uint64_t handled, again, wrong, kinds[128];
static _Atomic uint32_t seen[WORKERS * KEYS][WINDOW]; /* its serial, from 1 on */

/* Relaxed throughout: what orders would hide what the pipeline fails to. */
void live_called(unsigned load, char what, unsigned worker, uint32_t qp, uint64_t key, uint32_t serial)
{
	if (!load || what == '!' || atomic_load_explicit(&gone[load % LOADS], memory_order_relaxed))
		atomic_fetch_add_explicit(&wrong, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&kinds[(unsigned char)what], 1, memory_order_relaxed);
	if (what == 'm' || what == 'M') { /* migrate(): all others stand still */
		const uint64_t before = atomic_load(&handled);

		nap(100);
		if (atomic_load(&handled) != before)
			atomic_fetch_add(&wrong, 1);
	}
	if (what != 'p')
		return;
	atomic_fetch_add_explicit(&handled, 1, memory_order_relaxed);
	if (atomic_exchange_explicit(&seen[key][serial % WINDOW], serial, memory_order_relaxed) >= serial)
		atomic_fetch_add_explicit(&again, 1, memory_order_relaxed);
}

/* ---- reloads ---- */

static uint64_t number(const json_t *o, const char *name)
{
	return (uint64_t)json_integer_value(json_object_get(o, name));
}

static struct {
	uint64_t reloads, busy, failed, lost, gap, most, across;
} sum;

static void count(json_t *told)
{
	json_t *copies = json_object_get(json_array_get(json_object_get(told, "contexts"), 0), "copies"), *copy;
	uint64_t open = 0;
	size_t i;

	json_array_foreach(copies, i, copy) open += number(copy, "open_messages") * (i + 1 < json_array_size(copies));
	sum.across += open != 0;
	sum.lost += number(told, "lost");
	sum.gap += number(told, "received_meanwhile");
	if (number(told, "received_meanwhile") > sum.most)
		sum.most = number(told, "received_meanwhile");
}

static const char *built(unsigned i)
{
	static const char *const kind[] = {"hashed", "migrates", "newer"};
	static char path[512];

	snprintf(path, sizeof(path), PLUGINS "/live-%s.so", kind[i % RTE_DIM(kind)]);
	return path;
}

static void reload(struct dut *r, unsigned i)
{
	struct sp_error error = {.key = ""};
	const bool fails = i % 7 == 5;
	char *json = NULL;
	json_t *told;

	live_orders.attach = fails ? EIO : 0;
	int rc = sp_nic_handler_reload(r->nic, "live", built(i), 0, &json, &error);
	live_orders.attach = 0;
	if (rc == -EBUSY) {
		sum.busy++;
		nap(500);
	} else if (rc) {
		sum.failed++;
		if (!fails)
			printf("# %d: %s\n", rc, error.text);
		CU_ASSERT_TRUE(fails);
	} else {
		CU_ASSERT_FALSE(fails);
		told = json_loads(json, 0, NULL);
		count(told);
		json_decref(told);
		sum.reloads++;
	}
	free(json);
}

static uint64_t now_ms(void)
{
	return sp_clock() / SP_MS;
}

TEST(no_packet_is_lost_and_none_runs_on_unloaded_code)
{
	const unsigned reloads = getenv("SPINDLE_LONG") ? 5000 : RELOADS;
	const struct live_words empty = {.magic = LIVE_MAGIC};
	struct sp_error error = {.key = ""};
	struct sp_nic_totals totals;
	static struct dut r;
	uint64_t made = 0, busy, until;

	dut_prepare(&r, WORKERS);
	r.config.port[0].ops = &source_ops;
	r.config.icrc_off = true;
	dut_create(&r);
	dut_roce(&frame, FRAME_IP4, 5, 0, &empty, sizeof(empty));
	CU_ASSERT_EQUAL_FATAL(sp_nic_handler_load(r.nic, PLUGINS "/live-hashed.so", NULL, &error), 0);
	uint32_t id = dut_context(&r, "c0", "live", "qp=5;messages=1024");
	for (unsigned w = 0; w < WORKERS; w++)
		source[w].seed = w + 1;
	CU_ASSERT_EQUAL_FATAL(sp_nic_start(r.nic), 0);
	/* On a busy machine fewer, not longer. */
	until = now_ms() + (getenv("SPINDLE_LONG") ? 600000 : 20000);
	for (unsigned i = 0; sum.reloads < reloads && now_ms() < until; i++) {
		reload(&r, i);
		sp_nic_handler_collect(r.nic);
		if (i % 3 == 0)
			nap(200);
	}
	atomic_store(&hush, true);
	while (atomic_load(&quiet) != (1u << WORKERS) - 1)
		nap(200);
	/* What is still open ends with the context; all packets have come to an end once nobody waits. */
	do {
		nap(1000);
		sp_nic_totals(r.nic, &totals);
	} while (totals.parked);
	sp_nic_handler_collect(r.nic); /* what older copies have counted is the newest's */
	CU_ASSERT_EQUAL(sp_nic_context_counter(r.nic, id, "packets"), atomic_load(&handled));
	busy = sp_nic_dropped(r.nic, "header-busy");
	CU_ASSERT_EQUAL(sp_nic_context_remove(r.nic, id), 0);
	CU_ASSERT_EQUAL(sp_nic_handler_unload(r.nic, "live", &error), 0);
	sp_nic_stop(r.nic);
	for (unsigned w = 0; w < WORKERS; w++)
		made += source[w].made;
	printf("# %" PRIu64 " reloads (%" PRIu64 " with messages open across), %" PRIu64 " refused as ordered, %" PRIu64
	       " too early; %" PRIu64 " packets, %" PRIu64
	       " dropped where header() was busy; received meanwhile: %.1f on the "
	       "average, at most %" PRIu64 "\n",
	       sum.reloads, sum.across, sum.failed, sum.busy, made, busy,
	       sum.reloads ? (double)sum.gap / (double)sum.reloads : 0, sum.most);
	CU_ASSERT(sum.reloads >= 5);
	CU_ASSERT(sum.across > 0);
	CU_ASSERT(sum.failed > 0);
	CU_ASSERT(kinds['t'] && kinds['i'] && kinds['w'] && kinds['m'] && kinds['M']);
	CU_ASSERT_EQUAL(sum.lost, 0);
	CU_ASSERT_EQUAL(atomic_load(&wrong), 0);
	CU_ASSERT_EQUAL(atomic_load(&again), 0);
	CU_ASSERT_EQUAL(made - atomic_load(&handled), busy);
	CU_ASSERT_EQUAL(totals.received, made);
	CU_ASSERT_EQUAL(atomic_load(&loads), atomic_load(&unloads));
	dut_stop(&r);
}
