/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sdr receive, from net_pcap with infinite_rx, beside a loop that receives and frees on the same port.
 *
 * The capture spans slots x generations messages, so that when it starts again its first message is the next one in
 * order; the case completes and re-posts every receive as an application would, on the same core. A turn ends where the
 * capture ends, for both sides: so the case always finds the stream where it left it. Any duplicate, late or dropped
 * packet means that something else was measured, and fails the case.
 */
#include "bench.h"

#include <errno.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_dev.h>
#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "../handlers/wire/sdr.h"
#include "../pipeline/icrc.h"
#include "../pipeline/limits.h"
#include "../pipeline/nic.h"
#include "bench_frame.h"

#define SLOTS	    16	 /* messages at once, at least: what comes while some are completed and posted */
#define AHEAD	    128	 /* packets that these have, at least */
#define GENERATIONS 4	 /* at most; fewer where messages are long: */
#define CAPTURE	    2048 /* packets, which the port keeps in the NIC's buffers */
#define QP	    0x100
#define RKEY	    0x1234

struct shape {
	uint32_t mtu, packets, chunk; /* packets of a message, of a chunk */
	uint32_t slots, generations;  /* powers of 2, as are the packets of a message */
};

struct bench {
	struct shape shape;
	char file[512], device[32];
	bool device_made;
	struct sp_nic *nic;
	struct sp_dev *dev;
	struct sp_mr *mr;
	uint32_t context;
	const uint8_t *area;
	struct sp_sdr_layout layout;
	uint64_t completed, posted; /* next message to be completed, to be posted */
	uint64_t per_round;	    /* packets in the capture */
	uint16_t port;
	double ps_per_cycle;
};

/* ---- the capture ---- */

static uint32_t make_frame(uint8_t *f, const struct shape *s, uint64_t message, uint32_t index)
{
	const struct sp_sdr_split split = {10, 18, 4};
	const uint32_t slot = sp_sdr_slot(message, s->slots);
	const uint32_t generation = sp_sdr_generation(message, s->slots, s->generations);
	const uint32_t len = bench_frame(f, 0x2B, QP + generation, SP_SDR_HEADER + s->mtu + 4);
	uint8_t *reth = f + BENCH_EXT;

	f[BENCH_BTH + 1] = index + 1 == s->packets ? 0x80 : 0;
	sp_store_be64(reth, (uint64_t)slot * s->mtu * s->packets + (uint64_t)index * s->mtu);
	sp_store_be32(reth + 8, RKEY);
	sp_store_be32(reth + 12, s->mtu);
	sp_store_be32(reth + 16, sp_sdr_imm(split, slot, index, (uint32_t)message));
	for (uint32_t i = 0; i < s->mtu; i++)
		reth[SP_SDR_HEADER + i] = (uint8_t)(message * 31 + index * 7 + i);
	sp_store_le32(f + len - 4, sp_icrc(f + BENCH_IP, 20, len - BENCH_IP - 4));
	return len;
}

static int make_capture(struct bench *b)
{
	pcap_t *p = pcap_open_dead(DLT_EN10MB, 65535);
	const char *dir = getenv("TMPDIR");
	pcap_dumper_t *d;
	uint8_t frame[SP_PACKET_ROOM];
	int fd, r = 0;

	snprintf(b->file, sizeof(b->file), "%s/spindle-bench-XXXXXX", dir && strlen(dir) < 400 ? dir : "/tmp");
	fd = mkstemp(b->file);
	if (fd < 0 || !p) {
		b->file[0] = '\0';
		if (p)
			pcap_close(p);
		return -EIO;
	}
	d = pcap_dump_fopen(p, fdopen(fd, "w"));
	for (uint64_t k = 0; d && k < b->shape.slots * b->shape.generations; k++)
		for (uint32_t i = 0; i < b->shape.packets; i++) {
			struct pcap_pkthdr h = {.len = make_frame(frame, &b->shape, k, i)};

			h.caplen = h.len;
			pcap_dump((uint8_t *)d, &h, frame);
			b->per_round++;
		}
	if (!d || pcap_dump_flush(d))
		r = -EIO;
	if (d)
		pcap_dump_close(d);
	pcap_close(p);
	return r;
}

/* ---- the application ---- */

static struct sp_command make_command(const struct bench *b, uint16_t op, uint64_t k)
{
	const uint64_t bytes = (uint64_t)b->shape.mtu * b->shape.packets;

	return (struct sp_command){.op = op,
				   .context = b->context,
				   .cookie = k,
				   .arg = {b->mr->id, (k & (b->shape.slots - 1)) * bytes, bytes}};
}

static void command(struct bench *b, uint16_t op, uint64_t k)
{
	const struct sp_command c = make_command(b, op, k);

	while (sp_command_post(b->dev, &c) == -EAGAIN)
		sp_nic_poll(b->nic, 0, (sp_time)((double)rte_rdtsc() * b->ps_per_cycle));
}

static inline uint64_t line(const struct bench *b, uint64_t k, size_t field)
{
	return __atomic_load_n((const uint64_t *)(b->area + b->layout.recv + (k & (b->shape.slots - 1)) * 64 + field),
			       __ATOMIC_ACQUIRE);
}

/* Completes what is complete, posts again what has been let go. */
static inline void step(struct bench *b)
{
	while (b->completed < b->posted &&
	       line(b, b->completed, offsetof(struct sp_sdr_recv_status, message)) == b->completed + 1 &&
	       line(b, b->completed, offsetof(struct sp_sdr_recv_status, state)) & SP_SDR_COMPLETE)
		command(b, SP_CMD_COMPLETE, b->completed++);
	while (b->posted - b->shape.slots < b->completed &&
	       line(b, b->posted, offsetof(struct sp_sdr_recv_status, released)) == b->posted - b->shape.slots + 1)
		command(b, SP_CMD_POST, b->posted++);
}

/* ---- the case ---- */

static void close_bench(void *state)
{
	struct bench *b = state;

	if (b->dev) {
		sp_context_close(b->dev, b->context);
		sp_mr_free(b->mr);
		sp_dev_close(b->dev);
	}
	sp_nic_destroy(b->nic);
	if (b->device_made)
		rte_eal_hotplug_remove("vdev", b->device);
	if (b->file[0])
		unlink(b->file);
	free(b);
}

static int open_context(struct bench *b, char *why, unsigned room)
{
	char mtu[16], chunk[24], bytes[24], generations[16], slots[16];
	const struct sp_setting setting[] = {{"qp", "256"},
					     {"rkey", "0x1234"},
					     {"mtu", mtu},
					     {"chunk-bytes", chunk},
					     {"max-message-bytes", bytes},
					     {"max-messages", slots},
					     {"generations", generations},
					     {"max-packet-life", "1ps"}};
	struct sp_error error = {0};
	uint64_t len;
	void *area;
	int r;

	snprintf(mtu, sizeof(mtu), "%u", b->shape.mtu);
	snprintf(slots, sizeof(slots), "%u", b->shape.slots);
	snprintf(generations, sizeof(generations), "%u", b->shape.generations);
	snprintf(chunk, sizeof(chunk), "%u", b->shape.mtu * b->shape.chunk);
	snprintf(bytes, sizeof(bytes), "%u", b->shape.mtu * b->shape.packets);
	r = sp_context_open(b->dev, "bench", "sdr", setting, sizeof(setting) / sizeof(*setting), &b->context, &error);
	if (r) {
		snprintf(why, room, "%s", error.text);
		return r;
	}
	r = sp_context_area(b->dev, b->context, &area, &len);
	b->area = area;
	b->layout = sp_sdr_layout(b->shape.slots, sp_sdr_units(b->shape.packets, b->shape.chunk), b->shape.chunk);
	return r ? r : sp_mr_alloc(b->dev, (uint64_t)b->shape.slots * b->shape.mtu * b->shape.packets, &b->mr);
}

static int open_bench(const struct shape *shape, const struct bench_options *o, void **state, char *why, unsigned room)
{
	static unsigned made;
	struct sp_nic_config config = {.addresses = 1, .mtu = 9000, .ports = 1, .icrc_off = !o->icrc};
	struct sp_error error = {0};
	struct bench *b = calloc(1, sizeof(*b));
	char args[600];
	int r;

	if (!b)
		return -ENOMEM;
	b->shape = *shape;
	b->shape.packets = o->message_packets ? o->message_packets : shape->packets;
	b->shape.chunk = o->chunk_packets ? o->chunk_packets : shape->chunk;
	b->shape.slots = AHEAD / b->shape.packets > SLOTS ? AHEAD / b->shape.packets : SLOTS;
	b->shape.generations = CAPTURE / (b->shape.slots * b->shape.packets);
	if (b->shape.generations > GENERATIONS)
		b->shape.generations = GENERATIONS;
	b->ps_per_cycle = 1e12 / (double)rte_get_tsc_hz();
	r = make_capture(b);
	if (r) {
		snprintf(why, room, "cannot write a capture to %s", b->file[0] ? b->file : "the temporary directory");
		goto fail;
	}
	snprintf(b->device, sizeof(b->device), "net_pcap_bench%u", made++);
	snprintf(args, sizeof(args), "rx_pcap=%s,infinite_rx=1", b->file);
	r = rte_eal_hotplug_add("vdev", b->device, args);
	if (r) {
		snprintf(why, room, "DPDK's net_pcap does not start: %s", strerror(-r));
		goto fail;
	}
	b->device_made = true;
	memcpy(config.address[0].ip, "\0\0\0\0\0\0\0\0\0\0\xFF\xFF\xC0\0\2\1", 16);
	config.address[0].prefix = 24;
	config.port[0].device = b->device;
	r = sp_nic_create(&config, &error, &b->nic);
	if (r) {
		snprintf(why, room, "%s", error.text);
		goto fail;
	}
	r = rte_eth_dev_get_port_by_name(b->device, &b->port);
	if (!r)
		r = sp_nic_dev(b->nic, false, &b->dev);
	if (!r)
		r = open_context(b, why, room);
	if (r)
		goto fail;
	while (b->posted < b->shape.slots && !r) { /* at once: the port has packets at the first poll */
		const struct sp_command c = make_command(b, SP_CMD_POST, b->posted++);

		r = sp_command_call(b->dev, &c, NULL);
	}
	if (r)
		goto fail;
	*state = b;
	return 0;
fail:
	close_bench(b);
	return r;
}

static int open_64(const struct bench_options *o, void **state, char *why, unsigned room)
{
	static const struct shape shape = {.mtu = 64, .packets = 32, .chunk = 1};

	return open_bench(&shape, o, state, why, room);
}

static int open_4096(const struct bench_options *o, void **state, char *why, unsigned room)
{
	static const struct shape shape = {.mtu = 4096, .packets = 16, .chunk = 1};

	return open_bench(&shape, o, state, why, room);
}

static uint64_t wasted(struct bench *b)
{
	struct sp_nic_totals t;

	sp_nic_totals(b->nic, &t);
	return t.dropped + sp_nic_context_counter(b->nic, b->context, "duplicates");
}

static int run(void *state, double seconds, struct bench_turn *turn, char *why, unsigned room)
{
	struct bench *b = state;
	const uint64_t begin = rte_rdtsc(), end = begin + (uint64_t)(seconds * (double)rte_get_tsc_hz());
	struct sp_nic_totals before, after;
	uint64_t units = 0, waste;

	sp_nic_totals(b->nic, &before);
	do {
		for (uint64_t left = b->per_round; left;) {
			sp_nic_poll(b->nic, 0, (sp_time)((double)rte_rdtsc() * b->ps_per_cycle));
			left -= SP_BURST; /* infinite_rx always has a full burst; the totals below check it */
			step(b);
		}
		units += b->per_round;
	} while (rte_rdtsc() < end && !bench_stopped());
	turn->units = units;
	turn->cycles = rte_rdtsc() - begin;
	sp_nic_totals(b->nic, &after);
	waste = wasted(b);
	if (after.received - before.received != units || waste) {
		snprintf(why, room,
			 "%llu packets polled, %llu received, %llu duplicates or drops since the start: not what was "
			 "to be measured",
			 (unsigned long long)units, (unsigned long long)(after.received - before.received),
			 (unsigned long long)waste);
		return -EPROTO;
	}
	return 0;
}

static int run_bare(void *state, double seconds, struct bench_turn *turn, char *why, unsigned room)
{
	const struct bench *b = state;
	const uint64_t begin = rte_rdtsc(), end = begin + (uint64_t)(seconds * (double)rte_get_tsc_hz());
	struct rte_mbuf *packet[SP_BURST];
	uint64_t units = 0;

	do {
		for (uint64_t left = b->per_round; left;) {
			unsigned n = rte_eth_rx_burst(b->port, 0, packet, SP_BURST);

			if (n != SP_BURST) {
				snprintf(why, room, "the port gave %u packets, not %u", n, SP_BURST);
				rte_pktmbuf_free_bulk(packet, n);
				return -EIO;
			}
			rte_pktmbuf_free_bulk(packet, n);
			left -= n;
		}
		units += b->per_round;
	} while (rte_rdtsc() < end && !bench_stopped());
	turn->units = units;
	turn->cycles = rte_rdtsc() - begin;
	return 0;
}

#define BARE "receive and free on the same port"
const struct bench_case bench_sdr_64 = {
	.name = "sdr-receive-64",
	.help = "64-byte packets, one-packet chunks, 2 KiB messages",
	.baseline = BARE,
	.required = 0.42,
	.goal = 0.60,
	.open = open_64,
	.run = run,
	.run_baseline = run_bare,
	.close = close_bench,
};
const struct bench_case bench_sdr_4096 = {
	.name = "sdr-receive-4096",
	.help = "4 KiB packets, one-packet chunks, 62 KiB messages",
	.baseline = BARE,
	.open = open_4096,
	.run = run,
	.run_baseline = run_bare,
	.close = close_bench,
};
