/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cost of eBPF: a handler of handlers/bpf, its twin in C and a handler that does nothing alternate on the same
 * port, which makes packets of one kind and drops what is sent. A round loads its handler and unloads it, because the
 * twins have the same name; that time is not measured.
 */
#include "bench.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_mbuf.h>
#include <rte_memcpy.h>

#include "../../handlers/spindle-handler.h"
#include "../../pipeline/limits.h"
#include "../../pipeline/nic.h"
#include "null.h"
#include "port.h"

#define FRAME 98u /* bytes of ping's echo requests */

struct bench {
	const char *handler; /* both forms of it are in dir */
	char dir[PATH_MAX];
	struct rte_mempool *pool;
	uint8_t frame[FRAME];
	struct sp_nic *nic;
	uint64_t received; /* from the port */
	double ps_per_cycle;
};

/* ---- the port ---- */
static void make_frame(uint8_t *f)
{
	static const uint8_t head[] = {2, 0,  0,    0, 0, 1,  2, 0, 0, 0,  0, 2, 8,  0, 0x45, 0, 0, 84, 0, 1, 0x40,
				       0, 64, 0x01, 0, 0, 10, 0, 0, 1, 10, 0, 0, 99, 8, 0,    0, 0, 0,	7, 0, 1};
	uint16_t sum;

	memset(f, 0x5A, FRAME);
	memcpy(f, head, sizeof(head));
	sum = sp_checksum(f + 14, 20, 0);
	memcpy(f + 24, &sum, 2);
	sum = sp_checksum(f + 34, FRAME - 34, 0);
	memcpy(f + 36, &sum, 2);
}

static unsigned receive(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	struct bench *b = port;
	const unsigned n = max < SP_BURST ? max : SP_BURST;

	(void)queue;
	(void)now;
	if (rte_pktmbuf_alloc_bulk(b->pool, packet, n))
		return 0;
	for (unsigned i = 0; i < n; i++) {
		rte_memcpy(rte_pktmbuf_mtod(packet[i], void *), b->frame, FRAME);
		packet[i]->data_len = FRAME;
		packet[i]->pkt_len = FRAME;
	}
	b->received += n;
	return n;
}

static const struct sp_port_ops ops = {.receive = receive, .transmit = bench_port_discard, .next = bench_port_always};

/* ---- where the handlers are ---- */
/* In ../handlers/bpf beside the NIC's library if it was built there, in spindle/bpf if it is installed. */
static int find(struct bench *b, struct bench_why *why)
{
	static const char *const places[] = {"../handlers/bpf", "spindle/bpf"};
	char file[PATH_MAX + 64];
	Dl_info library;
	char *slash;

	if (!dladdr((void *)(uintptr_t)sp_nic_create, &library))
		return -ENOENT;
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		snprintf(b->dir, sizeof(b->dir), "%s", library.dli_fname);
		slash = strrchr(b->dir, '/');
		snprintf(slash ? slash + 1 : b->dir, 32, "%s", places[i]);
		snprintf(file, sizeof(file), "%s/%s.bpf.o", b->dir, b->handler);
		if (!access(file, R_OK))
			return 0;
	}
	return bench_fail(why, BENCH_SKIPPED, "there is no %s.bpf.o: clang was not installed when this was built",
			  b->handler);
}

/* ---- the case ---- */
static void close_bpf(void *state)
{
	struct bench *b = state;

	sp_nic_destroy(b->nic);
	rte_mempool_free(b->pool);
	free(b);
}

static int open_bpf(const char *handler, const struct bench_options *o, void **state, struct bench_why *why)
{
	struct sp_error error = {.text = "no memory"};
	struct sp_nic_config config;
	struct bench *b;
	int r;

	if (o->icrc)
		return bench_fail(why, BENCH_SKIPPED, "these packets have no ICRC");
	b = calloc(1, sizeof(*b));
	if (!b)
		return -ENOMEM;
	b->handler = handler;
	b->ps_per_cycle = 1e12 / (double)rte_get_tsc_hz();
	r = find(b, why);
	if (r)
		goto fail;
	bench_null_register();
	r = -ENOMEM;
	b->pool = bench_port_pool("bpf", FRAME);
	if (!b->pool)
		goto fail;
	make_frame(b->frame);
	config = bench_port_nic(&ops, b);
	r = sp_nic_create(&config, &error, &b->nic);
	snprintf(why->text, sizeof(why->text), "%s", error.text);
	if (r)
		goto fail;
	*state = b;
	return 0;
fail:
	close_bpf(b);
	return r;
}

static void poll(struct bench *b, unsigned bursts)
{
	for (unsigned i = 0; i < bursts; i++)
		sp_nic_poll(b->nic, 0, (sp_time)((double)rte_rdtsc() * b->ps_per_cycle));
}

static int measure(struct bench *b, uint32_t id, double seconds, struct bench_round *round, struct bench_why *why)
{
	struct bench_clock clock;
	uint64_t before, end, taken;

	poll(b, BENCH_PORT_BURSTS);
	before = sp_nic_context_counter(b->nic, id, "packets");
	b->received = 0;
	clock = bench_clock_begin();
	end = rte_rdtsc() + (uint64_t)(seconds * (double)rte_get_tsc_hz());
	do {
		poll(b, BENCH_PORT_BURSTS);
	} while (rte_rdtsc() < end && !bench_stopped());
	round->units = b->received;
	round->cycles = bench_clock_end(&clock);
	taken = sp_nic_context_counter(b->nic, id, "packets") - before;
	if (taken == b->received)
		return 0;
	return bench_fail(why, -EPROTO, "%llu packets came, %llu were taken: the measurement is not valid",
			  (unsigned long long)b->received, (unsigned long long)taken);
}

/* suffix: of the handler's file; NULL: the handler that does nothing. */
static int run_one(struct bench *b, const char *suffix, double seconds, struct bench_round *round,
		   struct bench_why *why)
{
	const struct sp_setting setting[] = {{"filter", "icmp"}};
	const struct sp_context_config config = {
		.name = "bench", .handler = suffix ? b->handler : BENCH_NULL, .setting = setting, .settings = 1};
	struct sp_error error = {.text = "no memory"};
	struct sp_plugin *plugin = NULL;
	char file[PATH_MAX + 64];
	uint32_t id;
	int r = 0;

	snprintf(file, sizeof(file), "%s/%s%s", b->dir, b->handler, suffix ? suffix : "");
	if (suffix)
		r = sp_plugin_load(file, &plugin, &error);
	if (!r)
		r = sp_nic_context_add(b->nic, &config, &id, &error);
	if (r) {
		snprintf(why->text, sizeof(why->text), "%s", error.text);
	} else {
		r = measure(b, id, seconds, round, why);
		sp_nic_context_remove(b->nic, id);
	}
	sp_plugin_unload(plugin);
	return r;
}

static int run_ebpf(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	return run_one(state, ".bpf.o", seconds, round, why);
}

static int run_c(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	return run_one(state, ".so", seconds, round, why);
}

static int run_null(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	return run_one(state, NULL, seconds, round, why);
}

#define OPEN(id)                                                                                                       \
	static int open_##id(const struct bench_options *o, void **state, struct bench_why *why)                       \
	{                                                                                                              \
		return open_bpf(#id, o, state, why);                                                                   \
	}
OPEN(responder)
OPEN(sizes)

#define CASE(id, words)                                                                                                \
	{.name = "bpf-" #id,                                                                                           \
	 .help = words " in eBPF, packets of 98 bytes",                                                                \
	 .baseline = "the same handler in C",                                                                          \
	 .icrc = BENCH_UNCHECKED,                                                                                      \
	 .open = open_##id,                                                                                            \
	 .run = run_ebpf,                                                                                              \
	 .run_baseline = run_c,                                                                                        \
	 .other = {{"a handler that does nothing", run_null}},                                                         \
	 .close = close_bpf},

/* clang-format off */
const struct bench_case bench_bpf[] = {
	CASE(responder, "ICMP echo responder")
	CASE(sizes, "histograms of sizes and gaps")
	{.name = NULL},
};
/* clang-format on */
