/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The base of most packet cases: a capture made here, which a net_pcap port repeats without end (infinite_rx), a NIC on
 * that port, and bare loops on the same port to compare with.
 *
 * With gates the NIC uses a port of the case instead, which asks the case before it takes a burst from the device, or
 * from frames stored in memory: for cases with several threads that must stay in step.
 */
#ifndef TESTBED_BENCH_WIRE_H
#define TESTBED_BENCH_WIRE_H

#include "../../host-api/spindle.h"
#include "../../pipeline/limits.h"
#include "bench.h"
#include "store.h"

#define BENCH_QUEUES 2

struct rte_mempool;
struct rte_mbuf;

struct bench_wire_config {
	unsigned queues; /* 0: 1. Packet i arrives on queue i mod queues, one worker each; several need `stored` */
	bool icrc;
	/* Makes frame number `index` of the capture; returns its length, 0: no more. */
	uint32_t (*make)(void *arg, uint64_t index, uint8_t *frame);
	/* Whether a burst may be taken from the queue now. NULL: no gates. */
	bool (*gate)(void *arg, uint16_t queue);
	bool stored; /* needs a gate; no device: see store.h */
	void *arg;
};

struct bench_wire {
	struct bench_wire_config config;
	char file[512], device[32], source[600]; /* source: the device's arguments with rx_pcap and infinite_rx */
	struct bench_store store[BENCH_QUEUES];
	bool made;
	uint16_t port; /* the ethdev */
	struct rte_mempool *pool;
	struct sp_nic *nic;
	struct sp_dev *dev;
	uint64_t packets; /* in the capture, per queue */
	double ps_per_cycle;
};

/* 0, BENCH_SKIPPED or -errno with the reason in why; call bench_wire_close() after an error, too. */
int bench_wire_open(struct bench_wire *wire, const struct bench_wire_config *config, struct bench_why *why);
void bench_wire_close(struct bench_wire *wire);

sp_time bench_wire_now(const struct bench_wire *wire);
/* A round of the NIC, of whole captures; step(arg) follows each burst, NULL: nothing. -EPROTO and why: a packet was not
 * received, or was dropped. */
int bench_wire_round(struct bench_wire *wire, void (*step)(void *arg), void *arg, double seconds,
		     struct bench_round *round, struct bench_why *why);
/* A round of a bare loop, which receives, calls `each` for a burst (NULL: nothing), and frees. */
int bench_wire_bare(const struct bench_wire *wire, void (*each)(void *arg, struct rte_mbuf **packet), void *arg,
		    double seconds, struct bench_round *round, struct bench_why *why);
/* A bare loop that swaps addresses and ports as testpmd's 5tswap does, and sends. */
int bench_wire_swap(const struct bench_wire *wire, double seconds, struct bench_round *round, struct bench_why *why);

#endif
