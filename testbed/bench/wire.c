/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire.h"

#include <errno.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_dev.h>
#include <rte_ethdev.h>
#include <rte_ip.h>
#include <rte_mbuf.h>
#include <rte_udp.h>

#include "../../pipeline/nic.h"
#include "port.h"

#define GATED_POOL 8191 /* buffers of a device that the NIC does not use directly */

static int said(int error, const char *what, struct bench_why *why)
{
	return bench_fail(why, error, "%s: %s", what, strerror(-error));
}

/* ---- the capture ---- */
static int open_dump(struct bench_wire *w, pcap_t *p, pcap_dumper_t **dump)
{
	const char *dir = getenv("TMPDIR");
	FILE *f;
	int fd;

	snprintf(w->file, sizeof(w->file), "%s/spindle-bench-XXXXXX", dir && strlen(dir) < 300 ? dir : "/tmp");
	fd = mkstemp(w->file);
	if (fd < 0) {
		w->file[0] = '\0';
		return -errno;
	}
	f = fdopen(fd, "w");
	*dump = f ? pcap_dump_fopen(p, f) : NULL;
	return *dump ? 0 : -ENOMEM;
}

static int make_capture(struct bench_wire *w)
{
	pcap_t *p = pcap_open_dead(DLT_EN10MB, 65535);
	pcap_dumper_t *dump = NULL;
	uint8_t frame[SP_PACKET_ROOM];
	struct pcap_pkthdr h = {.len = 0};
	int r = p ? open_dump(w, p, &dump) : -ENOMEM;

	while (!r && (h.len = w->config.make(w->config.arg, w->packets, frame))) {
		h.caplen = h.len;
		pcap_dump((uint8_t *)dump, &h, frame);
		w->packets++;
	}
	if (dump) {
		r = pcap_dump_flush(dump) ? -EIO : r;
		pcap_dump_close(dump);
	}
	if (p)
		pcap_close(p);
	return r;
}

static int make_stores(struct bench_wire *w)
{
	int r = 0;

	for (unsigned q = 0; q < w->config.queues && !r; q++)
		r = bench_store_open(&w->store[q], w->config.make, w->config.arg, q, w->config.queues);
	w->packets = w->store[0].count;
	return r;
}

/* ---- the device ---- */
static int make_device(struct bench_wire *w, struct bench_why *why)
{
	static unsigned made;
	int r;

	snprintf(w->source, sizeof(w->source), "rx_pcap=%s,infinite_rx=1", w->file);
	snprintf(w->device, sizeof(w->device), "net_pcap_bench%u", made++);
	r = rte_eal_hotplug_add("vdev", w->device, w->source);
	if (r)
		return said(r, "DPDK's net_pcap did not start", why);
	w->made = true;
	return rte_eth_dev_get_port_by_name(w->device, &w->port);
}

/* A device that the NIC does not use directly. */
static int start_device(struct bench_wire *w, struct bench_why *why)
{
	const struct rte_eth_conf conf = {0};
	int r = rte_eth_dev_configure(w->port, 1, 1, &conf);

	w->pool = rte_pktmbuf_pool_create(w->device, GATED_POOL, 256, 0,
					  (uint16_t)(RTE_PKTMBUF_HEADROOM + RTE_ALIGN(SP_PACKET_ROOM / 2, 64)),
					  SOCKET_ID_ANY);
	if (!w->pool)
		r = -ENOMEM;
	if (!r)
		r = rte_eth_rx_queue_setup(w->port, 0, 1024, SOCKET_ID_ANY, NULL, w->pool);
	if (!r)
		r = rte_eth_tx_queue_setup(w->port, 0, 1024, SOCKET_ID_ANY, NULL);
	if (!r)
		r = rte_eth_dev_start(w->port);
	return r ? said(r, "the port does not start", why) : 0;
}

static unsigned gated_receive(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	struct bench_wire *w = port;

	(void)now;
	if (!w->config.gate(w->config.arg, queue))
		return 0;
	if (w->config.stored)
		return max < SP_BURST ? 0 : bench_store_receive(&w->store[queue], packet);
	return rte_eth_rx_burst(w->port, queue, packet, (uint16_t)RTE_MIN(max, (unsigned)SP_BURST));
}

static const struct sp_port_ops gated = {
	.receive = gated_receive, .transmit = bench_port_discard, .next = bench_port_always, .external = true};

/* ---- the NIC ---- */
static int make_nic(struct bench_wire *w, struct bench_why *why)
{
	struct sp_nic_config config = {.addresses = 1,
				       .neighbours = 1,
				       .mtu = 9000,
				       .ports = 1,
				       .workers = (uint16_t)w->config.queues,
				       .icrc_off = !w->config.icrc,
				       .mac = {2, 0, 0, 0, 0, 1},
				       .neighbour = {{.mac = {2, 0, 0, 0, 0, 2}}}};
	struct sp_error error = {.text = "no NIC"};
	int r;

	memcpy(config.address[0].ip, "\0\0\0\0\0\0\0\0\0\0\xFF\xFF\xC0\0\2\1", 16);
	memcpy(config.neighbour[0].ip, "\0\0\0\0\0\0\0\0\0\0\xFF\xFF\xC0\0\2\2", 16);
	config.address[0].prefix = 24;
	if (w->config.gate)
		config.port[0] = (struct sp_port_config){.ops = &gated, .ops_arg = w};
	else
		config.port[0].device = w->device;
	r = sp_nic_create(&config, &error, &w->nic);
	if (!r)
		r = sp_nic_dev(w->nic, false, &w->dev);
	return r ? bench_fail(why, r, "%s", error.text) : 0;
}

int bench_wire_open(struct bench_wire *w, const struct bench_wire_config *config, struct bench_why *why)
{
	int r;

	*w = (struct bench_wire){.config = *config};
	w->config.queues = config->queues ? config->queues : 1;
	w->ps_per_cycle = 1e12 / (double)rte_get_tsc_hz();
	if (config->stored) {
		r = make_stores(w);
		if (r)
			return said(r, "there is no memory for the frames", why);
		return make_nic(w, why);
	}
	r = make_capture(w);
	if (r)
		return said(r, "a capture cannot be written to the temporary directory", why);
	r = make_device(w, why);
	if (!r && config->gate)
		r = start_device(w, why);
	return r ? r : make_nic(w, why);
}

void bench_wire_close(struct bench_wire *w)
{
	if (w->dev)
		sp_dev_close(w->dev);
	sp_nic_destroy(w->nic);
	if (w->made) {
		if (w->config.gate && rte_eth_dev_stop(w->port)) /* cannot fail: it was started, or does not exist */
			w->made = false;
		rte_eal_hotplug_remove("vdev", w->device);
	}
	rte_mempool_free(w->pool);
	if (w->file[0])
		unlink(w->file);
	for (unsigned q = 0; q < BENCH_QUEUES; q++)
		bench_store_close(&w->store[q]);
	*w = (struct bench_wire){.made = false};
}

/* ---- rounds ---- */
sp_time bench_wire_now(const struct bench_wire *w)
{
	return (sp_time)((double)rte_rdtsc() * w->ps_per_cycle);
}

int bench_wire_round(struct bench_wire *w, void (*step)(void *), void *arg, double seconds, struct bench_round *round,
		     struct bench_why *why)
{
	const uint64_t end = bench_round_end(seconds);
	struct sp_nic_totals before, after;
	struct bench_clock clock;
	uint64_t units = 0;

	sp_nic_totals(w->nic, &before);
	clock = bench_clock_begin();
	do {
		for (uint64_t left = w->packets; left;) {
			sp_nic_poll(w->nic, 0, bench_wire_now(w));
			left -= SP_BURST; /* infinite_rx always gives a full burst; the totals below check it */
			if (step)
				step(arg);
		}
		units += w->packets;
	} while (rte_rdtsc() < end && !bench_stopped());
	round->units = units;
	round->cycles = bench_clock_end(&clock);
	sp_nic_totals(w->nic, &after);
	if (after.received - before.received == units && after.dropped == before.dropped)
		return 0;
	return bench_fail(why, -EPROTO,
			  "%llu packets polled, %llu received, %llu dropped: the measurement is not valid",
			  (unsigned long long)units, (unsigned long long)(after.received - before.received),
			  (unsigned long long)(after.dropped - before.dropped));
}

static inline int bare(const struct bench_wire *w, void (*each)(void *, struct rte_mbuf **), bool send, void *arg,
		       double seconds, struct bench_round *round, struct bench_why *why)
{
	const struct bench_clock clock = bench_clock_begin();
	const uint64_t end = bench_round_end(seconds);
	struct rte_mbuf *packet[SP_BURST];
	uint64_t units = 0;

	do {
		for (uint64_t left = w->packets; left; left -= SP_BURST) {
			const unsigned n = rte_eth_rx_burst(w->port, 0, packet, SP_BURST);
			unsigned gone = 0;

			if (n != SP_BURST) {
				snprintf(why->text, sizeof(why->text), "the port gave %u packets, not %u", n, SP_BURST);
				rte_pktmbuf_free_bulk(packet, n);
				return -EIO;
			}
			if (each)
				each(arg, packet);
			if (send)
				gone = rte_eth_tx_burst(w->port, 0, packet, SP_BURST);
			rte_pktmbuf_free_bulk(packet + gone, SP_BURST - gone);
		}
		units += w->packets;
	} while (rte_rdtsc() < end && !bench_stopped());
	round->units = units;
	round->cycles = bench_clock_end(&clock);
	return 0;
}

int bench_wire_bare(const struct bench_wire *w, void (*each)(void *, struct rte_mbuf **), void *arg, double seconds,
		    struct bench_round *round, struct bench_why *why)
{
	return bare(w, each, false, arg, seconds, round, why);
}

static void swap_burst(void *arg, struct rte_mbuf **packet)
{
	(void)arg;
	for (unsigned i = 0; i < SP_BURST; i++) {
		struct rte_ether_hdr *eth = rte_pktmbuf_mtod(packet[i], struct rte_ether_hdr *);
		struct rte_ipv4_hdr *ip = (void *)(eth + 1);
		struct rte_udp_hdr *udp = (void *)(ip + 1);
		const struct rte_ether_addr mac = eth->dst_addr;
		const rte_be32_t to = ip->dst_addr;
		const rte_be16_t port = udp->dst_port;

		eth->dst_addr = eth->src_addr;
		eth->src_addr = mac;
		ip->dst_addr = ip->src_addr;
		ip->src_addr = to;
		udp->dst_port = udp->src_port;
		udp->src_port = port;
	}
}

int bench_wire_swap(const struct bench_wire *w, double seconds, struct bench_round *round, struct bench_why *why)
{
	return bare(w, swap_burst, true, NULL, seconds, round, why);
}
