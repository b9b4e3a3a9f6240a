/* SPDX-License-Identifier: BSD-3-Clause */
/* For cases with a port of their own: a port with endless packets that drops what is sent, the NIC on it, and the loop
 * to compare with. */
#ifndef TESTBED_BENCH_PORT_H
#define TESTBED_BENCH_PORT_H

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_mbuf.h>

#include "../../pipeline/limits.h"
#include "../../pipeline/nic.h"
#include "bench.h"

#define BENCH_PORT_POOL	  2047u
#define BENCH_PORT_BURSTS 64u /* bursts between two looks at the clock */

static inline unsigned bench_port_discard(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned count,
					  sp_time now)
{
	(void)port;
	(void)queue;
	(void)now;
	rte_pktmbuf_free_bulk(packet, count);
	return count;
}

static inline sp_time bench_port_always(void *port, uint16_t queue, bool blocked)
{
	(void)port;
	(void)queue;
	(void)blocked;
	return 0;
}

/* Buffers for frames of that size; `what` is unique to the case. NULL: no memory. */
static inline struct rte_mempool *bench_port_pool(const char *what, unsigned bytes)
{
	static unsigned made;
	char name[RTE_MEMPOOL_NAMESIZE];

	snprintf(name, sizeof(name), "bench-%s%u", what, made++);
	return rte_pktmbuf_pool_create(name, BENCH_PORT_POOL, 256, 0, (uint16_t)(bytes + RTE_PKTMBUF_HEADROOM),
				       SOCKET_ID_ANY);
}

/* A NIC on this port alone that receives frames of bench_frame(). */
static inline struct sp_nic_config bench_port_nic(const struct sp_port_ops *ops, void *port)
{
	struct sp_nic_config config = {.addresses = 1,
				       .mtu = 9000,
				       .ports = 1,
				       .icrc_off = true,
				       .mac = {2, 0, 0, 0, 0, 1},
				       .port = {{.ops = ops, .ops_arg = port}}};

	memcpy(config.address[0].ip, "\0\0\0\0\0\0\0\0\0\0\xFF\xFF\xC0\0\2\1", 16);
	config.address[0].prefix = 24;
	return config;
}

typedef unsigned bench_port_receive_t(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now);

typedef void bench_port_each_t(void *port, struct rte_mbuf **packet, unsigned count);

/* A round of a loop that receives, calls `each` for a burst (NULL: nothing), and frees. Inlined, so that nothing else
 * is called. */
static inline __attribute__((always_inline)) int bench_port_bare(bench_port_receive_t *receive, bench_port_each_t *each,
								 void *port, double seconds, struct bench_round *round,
								 struct bench_why *why)
{
	const struct bench_clock clock = bench_clock_begin();
	const uint64_t end = bench_round_end(seconds);
	struct rte_mbuf *packet[SP_BURST];
	uint64_t units = 0;

	do {
		for (unsigned i = 0; i < BENCH_PORT_BURSTS; i++) {
			const unsigned n = receive(port, 0, packet, SP_BURST, 0);

			if (!n)
				return bench_fail(why, -ENOMEM, "no packet buffers");
			if (each)
				each(port, packet, n);
			rte_pktmbuf_free_bulk(packet, n);
			units += n;
		}
	} while (rte_rdtsc() < end && !bench_stopped());
	round->units = units;
	round->cycles = bench_clock_end(&clock);
	return 0;
}

#endif
