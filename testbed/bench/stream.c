/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many bytes from the memory of one program to that of another, through two NICs that vhost-user or a veth joins;
 * beside TCP, and what moves packets over the same link without any protocol: two dpdk-testpmd, or iperf3 by UDP. NICs
 * run only in their own rounds.
 */
#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "children.h"
#include "iperf3.h"
#include "stream.h"
#include "testpmd.h"

#define GIB	  (double)(1u << 30)
#define SECONDS	  300 /* for one transfer */
#define HEADERS	  84  /* of a packet with payload, over IPv6, in the MTU */
#define PMD_LEAST 0.2 /* s of a round of testpmd: its commands take some ms */

struct link {
	bool veth;
	unsigned mtu; /* payload of a packet */
};

struct transfer {
	struct bench_house house;
	struct link link;
	uint64_t bytes;
	bool quick;
	struct bench_testpmd from, to;
};

static void close_transfer(void *state)
{
	struct transfer *t = state;

	bench_testpmd_close(&t->from);
	bench_testpmd_close(&t->to);
	bench_house_close(&t->house);
	free(t);
}

static int open_transfer(const struct link *link, const struct bench_options *o, void **state, struct bench_why *why)
{
	struct transfer *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return -ENOMEM;
	t->link = *link;
	t->bytes = o->stream_bytes;
	t->quick = o->quick;
	r = bench_house_open(&t->house, why);
	t->house.mtu = link->mtu + HEADERS;
	if (link->veth) {
		t->from.spaces = t->to.spaces = &t->house;
		t->from.space = 1;
	}
	if (!r && link->veth) {
		r = bench_house_spaces(&t->house, why);
		if (r == -EPERM)
			r = BENCH_SKIPPED;
	}
	if (r)
		close_transfer(t);
	else
		*state = t;
	return r;
}

int bench_stream_round(const struct bench_house *h, const char *way, unsigned mtu, uint64_t bytes,
		       struct bench_round *round, struct bench_why *why)
{
	const bool tcp = !strcmp(way, "tcp"), spaces = h->holder[0];
	const char *address = spaces ? "198.51.100.1" : "127.0.0.1";
	char payload[16], count[32], pid[2][16], line[128];
	const char *const recv[] = {
		"spindle", "bench", "--end", "stream", "recv", way, payload, count, tcp ? address : "left", NULL};
	const char *const send[] = {"spindle", "bench", "--end", "stream", "send",
				    way,       payload, count,	 "right",  tcp ? NULL : pid[0],
				    pid[1],    NULL};
	double took = 0, ran = 0;
	int r;

	snprintf(payload, sizeof(payload), "%u", mtu);
	snprintf(count, sizeof(count), "%llu", (unsigned long long)bytes);
	for (unsigned i = 0; i < 2; i++)
		snprintf(pid[i], sizeof(pid[i]), "%d", (int)h->nic[i].pid);
	r = bench_children_pair(h, &(struct bench_start){.argv = recv, .space = spaces ? 0 : -1},
				&(struct bench_start){.argv = send, .space = spaces ? 1 : -1}, SECONDS, line,
				sizeof(line), why);
	if (!r && (sscanf(line, "%lf %lf", &took, &ran) != 2 || took <= 0))
		r = bench_fail(why, -EPROTO, "no figures: %s", line);
	if (!r) {
		round->value = (double)bytes / took / 1e6;
		round->processor = ran / ((double)bytes / GIB);
	}
	return r;
}

static int run_nics(struct transfer *t, const char *way, struct bench_round *round, struct bench_why *why)
{
	int r = bench_nics_start(&t->house, t->link.veth ? "af_xdp" : "vhost", why);

	if (!r)
		r = bench_stream_round(&t->house, way, t->link.mtu, t->bytes, round, why);
	bench_nics_stop(&t->house);
	return r;
}

/* The faster way over this link, and the other one. */
static const char *way(const struct transfer *t, bool faster)
{
	return t->link.veth == faster ? "sdr" : "write";
}

static int run_faster(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	(void)seconds;
	return run_nics(state, way(state, true), round, why);
}

static int run_slower(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	const struct transfer *t = state;

	(void)seconds;
	if (t->quick)
		return bench_fail(why, BENCH_SKIPPED, "not with --quick");
	return run_nics(state, way(state, false), round, why);
}

static int run_tcp(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	const struct transfer *t = state;

	(void)seconds;
	return bench_stream_round(&t->house, "tcp", t->link.mtu, t->bytes, round, why);
}

static int run_iperf3(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	struct transfer *t = state;

	(void)seconds;
	return bench_iperf3_round(&t->house, t->link.mtu, t->bytes, round, why);
}

static int run_testpmd(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	struct transfer *t = state;
	char device[2][160];
	int r;

	if (t->link.veth && geteuid())
		return bench_fail(why, BENCH_SKIPPED, "af_xdp ports need root");
	if (t->link.veth) {
		snprintf(device[0], sizeof(device[0]), "net_af_xdp0,iface=left0");
		snprintf(device[1], sizeof(device[1]), "net_af_xdp0,iface=right0");
	} else {
		snprintf(device[0], sizeof(device[0]), "net_vhost0,iface=%s/pmd", t->house.dir);
		snprintf(device[1], sizeof(device[1]), "net_virtio_user0,path=%s/pmd", t->house.dir);
	}
	r = bench_testpmd_pair(&t->from, device[1], &t->to, device[0], t->link.mtu,
			       seconds < PMD_LEAST ? PMD_LEAST : seconds, round, why);
	if (t->link.veth) { /* the interfaces' queues are the NICs' in the next round */
		bench_testpmd_close(&t->from);
		bench_testpmd_close(&t->to);
	}
	return r;
}

static int open_vhost(const struct bench_options *o, void **state, struct bench_why *why)
{
	return open_transfer(&(const struct link){.mtu = 4096}, o, state, why);
}

static int open_veth(const struct bench_options *o, void **state, struct bench_why *why)
{
	return open_transfer(&(const struct link){.veth = true, .mtu = 2048}, o, state, why);
}

const struct bench_case bench_stream[] = {
	{.name = "stream-vhost",
	 .help = "memory to memory between two programs, on two NICs joined by vhost-user, packets of 4 KiB; RDMA "
		 "WRITE",
	 .unit = "MB/s",
	 .threads = 4,
	 .fresh = true,
	 .baseline = "TCP loopback",
	 .required = 0.5,
	 .goal = 1,
	 .strict = true,
	 .open = open_vhost,
	 .run = run_faster,
	 .run_baseline = run_tcp,
	 .other = {{"dpdk-testpmd, two, over vhost", run_testpmd, 0.5}, {"reliable SDR messages", run_slower, 0}},
	 .close = close_transfer},
	{.name = "stream-veth",
	 .help = "the same over a veth, by ports af_xdp, packets of 2 KiB; reliable SDR messages",
	 .unit = "MB/s",
	 .threads = 4,
	 .fresh = true,
	 .baseline = "iperf3 -u over the same veth",
	 .required = 1.5,
	 .strict = true,
	 .open = open_veth,
	 .run = run_faster,
	 .run_baseline = run_iperf3,
	 .other = {{"dpdk-testpmd, two, by af_xdp over the same veth", run_testpmd, 0.7},
		   {"TCP over the same veth", run_tcp, 0},
		   {"RDMA WRITE", run_slower, 0}},
	 .close = close_transfer},
	{.name = NULL}};
