/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Resident memory of an idle QP of sdr and of rdma, a message in flight and a mailbox: what many more of them add to a
 * process, divided by their number; and of an idle NIC, all of `spindle run`. The results hardly vary, so there is one
 * round.
 */
#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../handlers/wire/rvma.h"
#include "../../handlers/wire/sdr.h"
#include "../../host-api/rdma.h"
#include "../../pipeline/nic.h"
#include "children.h"
#include "memory.h"

#define QPS	  256u
#define RDMA_QPS  8192u
#define FEW	  16u /* messages at once */
#define MANY	  1024u
#define MAILBOXES 100000u
#define MESSAGE	  (1u << 20)

static uint64_t resident(pid_t pid)
{
	char path[64];
	unsigned long long all = 0, here = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	f = fopen(path, "r");
	if (f && fscanf(f, "%llu %llu", &all, &here) != 2)
		here = 0;
	if (f)
		fclose(f);
	return here * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* ---- in the process ---- */
struct small {
	struct sp_nic *nic;
	struct sp_dev *dev;
};

static int connect_qp(struct small *s, unsigned number, unsigned messages, uint32_t *id)
{
	char name[16], qp[16], most[16];
	const struct sp_setting setting[] = {{"qp", qp},
					     {"mtu", "4096"},
					     {"chunk-bytes", "64K"},
					     {"max-message-bytes", "1M"},
					     {"max-messages", most},
					     {"generations", "1"},
					     {"segments", "64"},
					     {"control-slots", "1"}};
	struct sp_error error;

	snprintf(name, sizeof(name), "qp%u", number);
	snprintf(qp, sizeof(qp), "%u", 256 + number);
	snprintf(most, sizeof(most), "%u", messages);
	return sp_context_open(s->dev, name, "sdr", setting, sizeof(setting) / sizeof(*setting), id, &error);
}

/* Bytes of QPS contexts with one QP each. */
static int weigh_qps(struct small *s, double *bytes)
{
	uint32_t id;
	uint64_t before;
	int r = connect_qp(s, 0, FEW, &id); /* the first one also allocates memory of the NIC */

	before = resident(getpid());
	for (unsigned i = 1; i <= QPS && !r; i++)
		r = connect_qp(s, i, FEW, &id);
	*bytes = (double)(resident(getpid()) - before) / QPS;
	return r;
}

/* An RC QP in RTS. */
static int connect_rdma(struct sp_rdma_pd *pd, const struct sp_rdma_qp_init *init)
{
	struct sp_rdma_qp_attr a = {.dest_qp = 0x777, .path_mtu = 4096};
	struct sp_rdma_pair *qp;
	int r = sp_rdma_qp_create(pd, init, &qp);

	memcpy(a.ip, "\0\0\0\0\0\0\0\0\0\0\xFF\xFF\xC0\0\2\2", 16);
	for (a.state = SP_RDMA_INIT; !r && a.state <= SP_RDMA_RTS; a.state++) {
		a.mask = SP_RDMA_QP_STATE;
		a.mask |= a.state == SP_RDMA_INIT ? SP_RDMA_QP_PKEY | SP_RDMA_QP_PORT | SP_RDMA_QP_ACCESS
			  : a.state == SP_RDMA_RTR
				  ? SP_RDMA_QP_AV | SP_RDMA_QP_PATH_MTU | SP_RDMA_QP_DEST_QP | SP_RDMA_QP_RQ_PSN |
					    SP_RDMA_QP_MAX_DEST_RD | SP_RDMA_QP_MIN_RNR
				  : SP_RDMA_QP_TIMEOUT | SP_RDMA_QP_RETRY_CNT | SP_RDMA_QP_RNR_RETRY |
					    SP_RDMA_QP_SQ_PSN | SP_RDMA_QP_MAX_RD;
		r = sp_rdma_qp_modify(qp, &a);
	}
	return r;
}

/* Bytes of a QP of one context, which the context's own are shared out among. */
static int weigh_rdma_qps(struct small *s, double *bytes)
{
	const struct sp_rdma_attr attr = {.qps = RDMA_QPS, .cqs = 1, .srqs = 1, .pds = 1, .mrs = 8, .ahs = 1};
	struct sp_rdma_qp_init init = {.type = SP_RDMA_RC, .send_wr = 1, .recv_wr = 1};
	struct sp_rdma *rdma = NULL;
	struct sp_rdma_pd *pd;
	struct sp_error error;
	uint64_t before = resident(getpid());
	int r = sp_rdma_open(s->dev, &attr, &rdma, &error);

	if (!r)
		r = sp_rdma_pd_alloc(rdma, &pd);
	if (!r)
		r = sp_rdma_cq_create(rdma, 64, false, NULL, &init.send_cq);
	init.recv_cq = init.send_cq;
	for (unsigned i = 0; i < RDMA_QPS && !r; i++)
		r = connect_rdma(pd, &init);
	*bytes = (double)(resident(getpid()) - before) / RDMA_QPS;
	if (rdma)
		sp_rdma_close(rdma);
	return r;
}

/* A QP with that many receives posted, all open. */
static int weigh_posted(struct small *s, unsigned number, unsigned messages, const struct sp_mr *mr, uint64_t *bytes)
{
	const uint64_t before = resident(getpid());
	uint32_t id;
	int r = connect_qp(s, number, messages, &id);

	for (unsigned i = 0; i < messages && !r; i++) {
		const struct sp_command c = {
			.op = SP_CMD_POST, .context = id, .cookie = i, .arg = {mr->id, 0, MESSAGE}};

		r = sp_command_call(s->dev, &c, NULL);
	}
	*bytes = resident(getpid()) - before;
	return r;
}

static int weigh_messages(struct small *s, double *bytes)
{
	uint64_t warm, few = 0, many = 0;
	struct sp_mr *mr;
	int r = sp_mr_alloc(s->dev, MESSAGE, &mr);

	if (!r)
		r = weigh_posted(s, 0, FEW, mr, &warm);
	if (!r)
		r = weigh_posted(s, 1, FEW, mr, &few);
	if (!r)
		r = weigh_posted(s, 2, MANY, mr, &many);
	*bytes = (double)(many - few) / (MANY - FEW);
	return r;
}

/* Mailboxes with a buffer posted each. */
static int weigh_mailboxes(struct small *s, double *bytes)
{
	char windows[16];
	const struct sp_setting setting[] = {{"qp", "256"},	   {"mtu", "4096"},	 {"session", "implicit"},
					     {"windows", windows}, {"buffers", windows}, {"counters", windows}};
	struct sp_error error;
	struct sp_mr *mr;
	uint64_t before;
	uint32_t id;
	int r = sp_mr_alloc(s->dev, 4096, &mr);

	snprintf(windows, sizeof(windows), "%u", MAILBOXES);
	before = resident(getpid());
	if (!r)
		r = sp_context_open(s->dev, "boxes", "rvma", setting, sizeof(setting) / sizeof(*setting), &id, &error);
	for (uint32_t i = 0; i < MAILBOXES && !r; i++) {
		struct sp_command c = {
			.op = SP_RVMA_CMD_WINDOW,
			.context = id,
			.arg = {(i + 1) * 0x9E3779B97F4A7C15, 1, 4096, SP_RVMA_MANAGED | SP_RVMA_FORGET}};
		struct sp_event result;

		r = sp_command_call(s->dev, &c, &result);
		c = (struct sp_command){.op = SP_CMD_POST,
					.context = id,
					.cookie = (uintptr_t)mr->addr,
					.arg = {mr->id, 0, 4096, 0, 0, result.arg[0]}};
		if (!r)
			r = sp_command_call(s->dev, &c, NULL);
	}
	*bytes = (double)(resident(getpid()) - before) / MAILBOXES;
	return r;
}

static unsigned receive(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	(void)port, (void)queue, (void)packet, (void)max, (void)now;
	return 0;
}

static unsigned transmit(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned count, sp_time now)
{
	(void)port, (void)queue, (void)packet, (void)count, (void)now;
	return 0;
}

static sp_time next(void *port, uint16_t queue, bool blocked)
{
	(void)port, (void)queue, (void)blocked;
	return SP_NEVER;
}

int bench_memory_end(const char *what)
{
	static const struct sp_port_ops ops = {.receive = receive, .transmit = transmit, .next = next};
	struct sp_nic_config config = {.mtu = 9000, .addresses = 1, .ports = 1, .port = {{.ops = &ops}}};
	struct sp_error error = {.text = "no memory"};
	struct small s = {NULL};
	double bytes = 0;
	int r = sp_eal_init(0, NULL, &error);

	memcpy(config.address[0].ip, "\0\0\0\0\0\0\0\0\0\0\xFF\xFF\xC0\0\2\1", 16);
	config.address[0].prefix = 24;
	config.memory_limit = 4ull << 30; /* the limit is not measured */
	if (!r)
		r = sp_nic_create(&config, &error, &s.nic);
	if (!r)
		r = sp_nic_dev(s.nic, false, &s.dev);
	if (!r)
		r = !strcmp(what, "qp")	       ? weigh_qps(&s, &bytes)
		    : !strcmp(what, "rdma-qp") ? weigh_rdma_qps(&s, &bytes)
		    : !strcmp(what, "message") ? weigh_messages(&s, &bytes)
					       : weigh_mailboxes(&s, &bytes);
	if (r)
		fprintf(stderr, "%s: %s\n", what, strerror(-r));
	else
		printf("%.1f\n", bytes);
	if (s.dev)
		sp_dev_close(s.dev);
	sp_nic_destroy(s.nic);
	return r != 0;
}

/* ---- the cases ---- */
struct bench {
	struct bench_house house;
	const char *what; /* NULL: an idle NIC */
};

static void close_bench(void *state)
{
	struct bench *b = state;

	bench_house_close(&b->house);
	free(b);
}

static int open_bench(const char *what, void **state, struct bench_why *why)
{
	struct bench *b = calloc(1, sizeof(*b));
	int r = b ? bench_house_open(&b->house, why) : -ENOMEM;

	if (r) {
		free(b);
		return r;
	}
	b->what = what;
	*state = b;
	return 0;
}

static int run_thing(struct bench *b, struct bench_round *round, struct bench_why *why)
{
	const char *const argv[] = {"spindle", "bench", "--end", "memory", b->what, NULL};
	struct bench_child child;
	char line[128];
	int r = bench_child_start(&b->house, &(struct bench_start){.argv = argv, .space = -1}, &child, why);

	if (r)
		return r;
	r = bench_child_line(&b->house, &child, 120, line, sizeof(line), why);
	if (!r)
		r = bench_child_end(&b->house, &child, BENCH_PATIENCE, why);
	bench_child_stop(&child);
	round->value = r ? 0 : strtod(line, NULL);
	return r;
}

static int run(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	struct bench *b = state;
	int r;

	(void)seconds;
	if (b->what)
		return run_thing(b, round, why);
	r = bench_nic_start(&b->house, 0, "null:", -1, why);
	round->value = r ? 0 : (double)resident(b->house.nic[0].pid);
	bench_nics_stop(&b->house);
	return r;
}

#define OPEN(name, what)                                                                                               \
	static int open_##name(const struct bench_options *o, void **state, struct bench_why *why)                     \
	{                                                                                                              \
		(void)o;                                                                                               \
		return open_bench(what, state, why);                                                                   \
	}
OPEN(qp, "qp")
OPEN(rdma_qp, "rdma-qp")
OPEN(message, "message")
OPEN(mailbox, "mailbox")
OPEN(nic, NULL)

#define CASE(symbol, text, words)                                                                                      \
	{                                                                                                              \
		.name = "memory-" text, .help = words, .unit = "bytes", .less = true, .once = true,                    \
		.open = open_##symbol, .run = run, .close = close_bench                                                \
	}

const struct bench_case bench_memory[] = {
	CASE(qp, "qp", "resident for an SDR QP that is idle: a context of one QP, up to 16 messages of 1 MiB at once"),
	CASE(rdma_qp, "rdma-qp",
	     "resident for an RC QP of rdma, connected and idle, with queues of one entry, among 8,192 of a context"),
	CASE(message, "message",
	     "resident for a message in flight, of 1 MiB, without its bytes: a receive posted and open"),
	CASE(mailbox, "mailbox", "resident for an RVMA mailbox with a buffer posted, without its bytes, among 100,000"),
	CASE(nic, "nic", "resident for a NIC at rest: all of spindle run, one worker, no context"),
	{.name = NULL},
};
