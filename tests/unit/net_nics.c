/* SPDX-License-Identifier: BSD-3-Clause */
/* Real NICs at the hosts of a network of switches: single frames, and SDR messages round a ring of NICs, also over
 * switches that drop. */
#include <rte_mempool.h>
#include <sys/socket.h>

#include "../../host-api/reliable.h"
#include "../../testbed/net/nics.h"
#include "../../testbed/world.h"
#include "../lib/buffers.h"
#include "../lib/link_ends.h"
#include "../lib/suite.h"

#define NICS	4u
#define MESSAGE 300000u

struct member {
	struct sp_nic *nic;
	struct sp_dev *dev;
	struct sdr_context *context;
	struct sdr_qp *qp[2]; /* 0: to the next, 1: from the one before */
	struct sdr_reliable *reliable[2];
	struct sdr_reliable_op *op[2];
	struct sp_mr *mr;
	uint8_t *bytes; /* sent, then received */
};

static struct net_topology *topology;
static struct net_nics *nics;
static struct sp_world *world;
static struct member member[NICS];
static uint64_t memory; /* of the next network */
static uint64_t held;	/* in the last one */

static void network(const char *text, struct net_config net)
{
	char why[256] = "";

	CU_ASSERT_EQUAL_FATAL(sp_eal_init(0, NULL, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(net_topology_parse(text, &topology, why, sizeof(why)), 0);
	net.topology = topology;
	CU_ASSERT_EQUAL_FATAL(
		net_nics_create(&(struct net_nics_config){.net = net, .memory = memory}, &nics, why, sizeof(why)), 0);
	for (uint32_t h = 0; h < NICS; h++)
		CU_ASSERT_EQUAL_FATAL(net_nics_mac(nics, h, (uint8_t[]){2, 0, 0, 0, 0, (uint8_t)(1 + h)}), 0);
}

static struct net_config plain(void)
{
	struct net_config c;

	net_defaults(&c);
	return c;
}

static void network_end(void)
{
	struct net_nics_counters c;

	net_nics_count(nics, &c);
	held = c.held;
	net_nics_destroy(nics);
	net_topology_destroy(topology);
}

/* 0xFFFF: the checksum in it is right. */
static uint16_t ip_sum(const uint8_t *ip)
{
	uint32_t sum = 0;

	for (int k = 0; k < 20; k += 2)
		sum += (uint32_t)(ip[k] << 8 | ip[k + 1]);
	return (uint16_t)((sum & 0xFFFF) + (sum >> 16));
}

static uint8_t traffic_class = 2; /* of the next frames: ECT(0) */

static unsigned give(uint32_t host, uint8_t to, uint32_t len, uint32_t number, sp_time now)
{
	struct rte_mbuf *m = link_frame(len, number, 7);
	uint8_t *bytes = rte_pktmbuf_mtod(m, uint8_t *);
	uint16_t sum;
	unsigned n;

	memcpy(bytes, (uint8_t[]){2, 0, 0, 0, 0, to}, 6);
	if (to == 0xFF)
		memset(bytes, 0xFF, 6);
	bytes[15] = traffic_class;
	sum = ip_sum(bytes + 14);
	bytes[24] = (uint8_t)(~sum >> 8);
	bytes[25] = (uint8_t)~sum;
	n = net_nics_ops.transmit(net_nics_port(nics, host), 0, &m, 1, now);
	if (!n)
		rte_pktmbuf_free(m);
	return n;
}

/* The number of the frame that has arrived; -1: none has. */
static int got(uint32_t host, sp_time now)
{
	struct rte_mbuf *m;
	int number;

	if (!net_nics_ops.receive(net_nics_port(nics, host), 0, &m, 1, now))
		return -1;
	number = (int)link_number_of(m);
	rte_pktmbuf_free(m);
	return number;
}

TEST(a_frame_arrives_when_the_network_says_and_only_where_its_mac_is)
{
	struct net_nics_counters c;
	sp_time at;

	network("star:4", plain());
	/* 1000 + 24 bytes are whole flits; 20 ps a byte, two links, a switch */
	at = 1024 * 20 + 2 * 20 * SP_NS + 60 * SP_NS;
	CU_ASSERT_EQUAL(give(0, 3, 1000, 55, 0), 1);
	CU_ASSERT_EQUAL(give(0, 3, 1000, 56, 1), 0); /* the link is busy */
	CU_ASSERT_EQUAL(net_nics_ops.next(net_nics_port(nics, 0), 0, true), net_next(net_nics_net(nics)));
	CU_ASSERT_EQUAL(got(2, at - 1), -1);
	CU_ASSERT_EQUAL(net_nics_ops.next(net_nics_port(nics, 0), 0, true), 0); /* there is room again */
	CU_ASSERT_EQUAL(got(1, at), -1);
	CU_ASSERT_EQUAL(got(2, at), 55);
	CU_ASSERT_EQUAL(give(0, 9, 1000, 57, at), 1);	/* a MAC that nobody has */
	CU_ASSERT_EQUAL(give(0, 0xFF, 100, 58, at), 0); /* one has gone to the first host */
	net_nics_count(nics, &c);
	CU_ASSERT_EQUAL(c.unknown, 1);
	CU_ASSERT_PTR_NULL(net_nics_port(nics, 4));
	CU_ASSERT_NOT_EQUAL(net_nics_mac(nics, 1, (uint8_t[]){2, 0, 0, 0, 0, 1}), 0);
	CU_ASSERT_NOT_EQUAL(net_nics_mac(nics, 1, (uint8_t[]){3, 0, 0, 0, 0, 1}), 0);
	CU_ASSERT_NOT_EQUAL(net_nics_mac(nics, 4, (uint8_t[]){2, 0, 0, 0, 0, 9}), 0);
	network_end();
}

TEST(a_broadcast_reaches_everybody_else_once)
{
	sp_time now = 0;

	network("star:4", plain());
	while (!give(1, 0xFF, 100, 77, now)) /* one packet for each: the link takes them one after the other */
		now += SP_NS;
	now += SP_US;
	for (uint32_t h = 0; h < NICS; h++) {
		CU_ASSERT_EQUAL(got(h, now), h == 1 ? -1 : 77);
		CU_ASSERT_EQUAL(got(h, now), -1);
	}
	network_end();
}

/* Three send to one at full speed; the frames that a switch has marked arrive with CE and a right checksum. */
TEST(a_mark_of_a_switch_becomes_congestion_experienced)
{
	struct net_config c = plain();
	struct net_nics_counters n;
	struct net_counters net;
	unsigned congested = 0, wrong = 0, received = 0;
	sp_time now = 0;

	c.ecn = 4096;
	network("star:4", c);
	for (unsigned i = 0; i < 3000 || net_next(net_nics_net(nics)) != SP_NEVER; i++, now += 10 * SP_NS) {
		struct rte_mbuf *m;

		for (uint32_t h = 0; h < 3 && i < 3000; h++)
			give(h, 4, 1000, i, now);
		while (net_nics_ops.receive(net_nics_port(nics, 3), 0, &m, 1, now)) {
			const uint8_t *ip = rte_pktmbuf_mtod_offset(m, const uint8_t *, 14);

			received++;
			congested += (ip[1] & 3) == 3;
			wrong += ip_sum(ip) != 0xFFFF;
			rte_pktmbuf_free(m);
		}
	}
	net_nics_count(nics, &n);
	net_count(net_nics_net(nics), &net);
	CU_ASSERT(received > 1000 && congested > received / 2 && congested < received);
	CU_ASSERT_EQUAL(wrong, 0);
	CU_ASSERT_EQUAL(net.marked, congested);
	CU_ASSERT_EQUAL(n.congested, congested);
	network_end();
}

/* ---- SDR ---- */
static void make_nic(uint32_t h)
{
	struct member *m = &member[h];
	struct sp_nic_config c = {.addresses = 1,
				  .neighbours = NICS - 1,
				  .seed = h + 1,
				  .ports = 1,
				  .port = {{.ops = &net_nics_ops, .ops_arg = net_nics_port(nics, h)}}};
	struct sp_error error = {.text = ""};

	for (uint32_t i = 0, k = 0; i < NICS; i++) {
		const uint8_t ip[16] = {[10] = 0xFF, 0xFF, 10, 0, 0, (uint8_t)(1 + i)},
			      mac[6] = {2, 0, 0, 0, 0, ip[15]};

		memcpy(i == h ? c.address[0].ip : c.neighbour[k].ip, ip, 16);
		memcpy(i == h ? c.mac : c.neighbour[k].mac, mac, 6);
		k += i != h;
	}
	c.address[0].prefix = 24;
	snprintf(c.name, sizeof(c.name), "net%u", h);
	CU_ASSERT_EQUAL_FATAL(sp_nic_create(&c, &error, &m->nic), 0);
	CU_ASSERT_EQUAL_FATAL(sp_nic_dev(m->nic, false, &m->dev), 0);
	CU_ASSERT_EQUAL_FATAL(sp_world_add_nic(world, m->nic), 0);
}

static void make_ends(uint32_t h)
{
	const struct sdr_context_attr x = {.channels = 1};
	const struct sdr_reliable_attr reliable = {.scheme = SDR_SR_NACK};
	struct member *m = &member[h];
	struct sp_error error = {.text = ""};

	m->bytes = calloc(2, MESSAGE);
	for (uint32_t i = 0; i < MESSAGE; i++)
		m->bytes[i] = (uint8_t)(i * 31 + h * 7 + i / 251);
	CU_ASSERT_EQUAL_FATAL(sdr_context_create(m->dev, &x, &m->context), 0);
	CU_ASSERT_EQUAL_FATAL(sdr_mr_reg(m->context, m->bytes, 2 * MESSAGE, &m->mr), 0);
	for (unsigned k = 0; k < 2; k++) {
		const struct sdr_qp_attr attr = {.mtu = 1024,
						 .chunk_bytes = 8192,
						 .max_message_bytes = 1024 * 1024,
						 .max_messages = 2,
						 .nonce = h * 2 + k + 1,
						 .cts_interval = SP_MS,
						 .max_packet_life = SP_MS,
						 .family = AF_INET};

		CU_ASSERT_EQUAL_FATAL(sdr_qp_create(m->context, &attr, &m->qp[k], &error), 0);
		CU_ASSERT_EQUAL_FATAL(sdr_reliable_open(m->qp[k], &reliable, &m->reliable[k]), 0);
	}
}

static void step(void *arg, sp_time now)
{
	for (uint32_t h = 0; h < NICS; h++)
		for (unsigned k = 0; k < 2; k++)
			CU_ASSERT_EQUAL(sdr_reliable_progress(member[h].reliable[k], now), 0);
}

static sp_time next(void *arg)
{
	sp_time first = SP_NEVER;

	for (uint32_t h = 0; h < NICS; h++)
		for (unsigned k = 0; k < 2; k++) {
			const sp_time t = sdr_reliable_deadline(member[h].reliable[k]);

			first = t < first ? t : first;
		}
	return first;
}

static bool all_done(void *arg)
{
	for (uint32_t h = 0; h < NICS; h++)
		for (unsigned k = 0; k < 2; k++)
			if (sdr_reliable_poll(member[h].op[k]) == -EAGAIN)
				return false;
	return true;
}

/* Every NIC sends a message to the `shift`th after it, all at once; they arrive. */
static struct net_counters round_of_messages(const char *text, struct net_config net, uint32_t shift)
{
	struct net_counters c;

	network(text, net);
	CU_ASSERT_EQUAL_FATAL(sp_world_create(&world), 0);
	for (uint32_t h = 0; h < NICS; h++)
		make_nic(h);
	for (uint32_t h = 0; h < NICS; h++)
		make_ends(h);
	for (uint32_t h = 0; h < NICS; h++) {
		struct member *a = &member[h], *b = &member[(h + shift) % NICS];
		struct sdr_qp_info info[2];

		sdr_qp_info_get(a->qp[0], &info[0]);
		sdr_qp_info_get(b->qp[1], &info[1]);
		CU_ASSERT_EQUAL_FATAL(sdr_qp_connect(a->qp[0], &info[1]), 0);
		CU_ASSERT_EQUAL_FATAL(sdr_qp_connect(b->qp[1], &info[0]), 0);
		CU_ASSERT_EQUAL(sdr_reliable_recv(b->reliable[1], b->mr, MESSAGE, MESSAGE, &b->op[1]), 0);
		CU_ASSERT_EQUAL(sdr_reliable_send(a->reliable[0], a->mr, 0, MESSAGE, 0, &a->op[0]), 0);
	}
	CU_ASSERT_EQUAL(sp_world_add_host(world, &(struct sp_world_host){.step = step, .next = next}), 0);
	CU_ASSERT_EQUAL(sp_world_run(world, SP_SEC, all_done, NULL), 1);
	for (uint32_t h = 0; h < NICS; h++) {
		struct member *b = &member[(h + shift) % NICS];

		CU_ASSERT_EQUAL(sdr_reliable_poll(member[h].op[0]), 0);
		CU_ASSERT_EQUAL(sdr_reliable_poll(b->op[1]), 0);
		CU_ASSERT_EQUAL(memcmp(b->bytes + MESSAGE, member[h].bytes, MESSAGE), 0);
	}
	net_count(net_nics_net(nics), &c);
	for (uint32_t h = 0; h < NICS; h++) {
		struct member *m = &member[h];

		for (unsigned k = 0; k < 2; k++) {
			sdr_reliable_close(m->reliable[k], 0);
			sdr_qp_destroy(m->qp[k]);
		}
		sdr_mr_dereg(m->mr);
		sdr_context_destroy(m->context);
		sp_dev_close(m->dev);
		sp_nic_destroy(m->nic);
		free(m->bytes);
	}
	sp_world_destroy(world);
	network_end();
	return c;
}

TEST(four_nics_on_a_switch_exchange_sdr_messages)
{
	const struct net_counters c = round_of_messages("star:4", plain(), 1);

	CU_ASSERT_EQUAL(c.delivered + c.in_flight, c.sent); /* it ends when the last acknowledgement is there */
	CU_ASSERT(c.bytes > NICS * MESSAGE);
}

TEST(sdr_takes_packets_that_switches_spray_over_several_ways)
{
	struct net_config net = plain();
	struct net_counters c;

	net.routing = NET_SPRAY;
	net.order = true;
	c = round_of_messages("fattree:2,4:2", net, 2);
	CU_ASSERT_EQUAL(c.delivered + c.in_flight, c.sent);
	CU_ASSERT(c.reordered > 0);
}

/* Two switches with one link of four hosts' speed between them, whose queues drop: SDR repairs it. */
TEST(sdr_repairs_what_full_switches_drop)
{
	struct net_config net = plain();
	struct net_counters c;

	net.lossless = false;
	net.input_buffer = net.output_buffer = 8192;
	c = round_of_messages("fattree:2,1:2", net, 2);
	CU_ASSERT(c.dropped[NET_DROP_OUTPUT_FULL] > 0);
	CU_ASSERT_EQUAL(c.sent,
			c.delivered + c.dropped[NET_DROP_OUTPUT_FULL] + c.dropped[NET_DROP_INPUT_FULL] + c.in_flight);
}

/* The same link with PFC: the switches pause the NICs, and nothing is lost. */
TEST(nics_that_are_paused_go_on_and_lose_nothing)
{
	struct net_config net = plain();
	struct net_counters c;

	net.pfc = (struct net_pfc){.on = true, .mtu = 4224};
	net.input_buffer = 32768;
	net.output_buffer = 8192;
	c = round_of_messages("fattree:2,1:2", net, 2);
	CU_ASSERT(c.pauses > 0 && c.paused > 0);
	CU_ASSERT_EQUAL(c.delivered + c.in_flight, c.sent);
	CU_ASSERT_EQUAL(held, 0);
}

/* Three hosts to one: the class of their frames is paused. A frame of another class, by its DSCP, may go. */
TEST(a_frames_priority_is_that_of_its_dscp)
{
	struct net_config net = plain();
	unsigned refused = 0;
	sp_time now = 0;

	net.pfc = (struct net_pfc){.on = true, .mtu = 1542};
	net.priorities = 8;
	network("star:4", net);
	/* 1024 bytes take 20.48 ns: who is refused twice is paused. */
	for (; refused < 2 && now < 100 * SP_US; now += 25 * SP_NS) {
		give(0, 4, 1000, 0, now);
		refused = give(1, 4, 1000, 0, now) ? 0 : refused + 1;
		give(2, 4, 1000, 0, now);
	}
	CU_ASSERT_EQUAL_FATAL(refused, 2);
	traffic_class = 0xA2; /* 5 */
	CU_ASSERT_EQUAL(give(1, 4, 1000, 0, now), 1);
	traffic_class = 2;
	now += 25 * SP_NS;
	CU_ASSERT_EQUAL(give(1, 4, 1000, 0, now), 0);
	network_end();
}

/* A long way, and memory for far less than it holds: senders wait, and go on. */
TEST(senders_wait_for_memory_of_frames)
{
	struct net_config net = plain();
	struct net_counters c;

	net.link_delay = 20 * SP_US;
	net.input_buffer = net.output_buffer = 1 << 24;
	memory = 1;
	c = round_of_messages("star:4", net, 1);
	memory = 0;
	CU_ASSERT_EQUAL(c.delivered + c.in_flight, c.sent);
	CU_ASSERT(held > 0);
}

/* What is refused for want of memory is tried again once a frame has been taken, and not before. */
TEST(a_port_says_when_there_is_memory_again)
{
	struct net_config net = plain();
	struct net_nics_counters c = {0};
	sp_time now = 0;
	uint32_t sent = 0, received = 0;

	net.link_delay = SP_MS;
	net.input_buffer = net.output_buffer = 1 << 24;
	memory = 1;
	network("star:4", net);
	memory = 0;
	net_nics_port(nics, 0); /* the port that moves the network on */
	for (; !c.held && sent < 10000; now += 50 * SP_NS) {
		sent += give(1, 1, 1000, sent, now);
		net_nics_count(nics, &c);
	}
	CU_ASSERT(c.held == 1 && sent > 100);
	CU_ASSERT_EQUAL(net_nics_ops.next(net_nics_port(nics, 1), 0, true), SP_NEVER);
	now += 3 * SP_MS;
	CU_ASSERT_EQUAL(got(0, now), 0);
	CU_ASSERT_EQUAL(net_nics_ops.next(net_nics_port(nics, 1), 0, true), 0);
	for (received = 1; got(0, now) == (int)received; received++)
		;
	CU_ASSERT_EQUAL(received, sent);
	CU_ASSERT_EQUAL(give(1, 1, 1000, 0, now), 1);
	network_end();
}
