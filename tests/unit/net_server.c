/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A parameter server with real NICs over a switch: all workers send to one at once. By handlers on the server's NIC,
 * and by its host over SDR; with credits, where nothing is dropped, and by a drop-tail switch with small buffers, where
 * what is lost is sent again. The sums are those of a loop over all gradients.
 */
#include <rte_mempool.h>
#include <sys/socket.h>

#include "../../host-api/reliable.h"
#include "../../testbed/net/nics.h"
#include "../../testbed/world.h"
#include "../lib/suite.h"
#include "../lib/sum_handlers.h"

#define SERVER SUM_WORKERS /* host of the network */
#define NICS   (SUM_WORKERS + 1u)
#define BYTES  (4u * SUM_WORDS)

static struct net_topology *topology;
static struct net_nics *nics;
static struct sp_world *world;
static struct sp_nic *nic[NICS];
static struct sp_dev *dev[NICS];
static struct net_counters counted;
static uint64_t added; /* numbers, by the server's host */

/* ---- gradients, and what they must become ---- */
static int32_t gradient(uint32_t worker, uint32_t round, uint32_t i)
{
	uint64_t x = ((uint64_t)worker << 40 | (uint64_t)round << 32 | i) * 0x9E3779B97F4A7C15u;

	x = (x ^ x >> 31) * 0xBF58476D1CE4E5B9u;
	return (int32_t)(x >> 32);
}

static void check_sums(void)
{
	unsigned wrong = 0;

	for (uint32_t round = 0; round < SUM_ROUNDS; round++)
		for (uint32_t i = 0; i < SUM_WORDS; i++) {
			uint32_t sum = 0;

			for (uint32_t w = 0; w < SUM_WORKERS; w++)
				sum += (uint32_t)gradient(w, round, i);
			for (uint32_t w = 0; w < SUM_WORKERS; w++)
				wrong += sum_worker[w].sum[round][i] != (int32_t)sum;
		}
	CU_ASSERT_EQUAL(wrong, 0);
}

/* ---- NICs ---- */
static void mac_of(uint32_t host, uint8_t mac[6])
{
	memcpy(mac, (uint8_t[]){2, 0, 0, 0, 0, (uint8_t)(1 + host)}, 6);
}

static void make_nic(uint32_t h)
{
	struct sp_nic_config c = {.addresses = 1,
				  .neighbours = NICS - 1,
				  .seed = h + 1,
				  .ports = 1,
				  .port = {{.ops = &net_nics_ops, .ops_arg = net_nics_port(nics, h)}}};
	struct sp_error error = {.text = ""};

	for (uint32_t i = 0, k = 0; i < NICS; i++) {
		const uint8_t ip[16] = {[10] = 0xFF, 0xFF, 10, 0, 0, (uint8_t)(1 + i)};

		memcpy(i == h ? c.address[0].ip : c.neighbour[k].ip, ip, 16);
		mac_of(i, i == h ? c.mac : c.neighbour[k].mac);
		k += i != h;
	}
	c.address[0].prefix = 24;
	snprintf(c.name, sizeof(c.name), "net%u", h);
	CU_ASSERT_EQUAL_FATAL(net_nics_mac(nics, h, c.mac), 0);
	CU_ASSERT_EQUAL_FATAL(sp_nic_create(&c, &error, &nic[h]), 0);
	CU_ASSERT_EQUAL_FATAL(sp_nic_dev(nic[h], false, &dev[h]), 0);
	CU_ASSERT_EQUAL_FATAL(sp_world_add_nic(world, nic[h]), 0);
}

static void network(bool lossless)
{
	struct net_config net;
	char why[256] = "", star[16];

	CU_ASSERT_EQUAL_FATAL(sp_eal_init(0, NULL, NULL), 0);
	snprintf(star, sizeof(star), "star:%u", NICS);
	CU_ASSERT_EQUAL_FATAL(net_topology_parse(star, &topology, why, sizeof(why)), 0);
	net_defaults(&net);
	net.topology = topology;
	net.lossless = lossless;
	net.input_buffer = net.output_buffer = 8192; /* of the 6 workers' windows, which are 8 packets each */
	CU_ASSERT_EQUAL_FATAL(net_nics_create(&(struct net_nics_config){.net = net}, &nics, why, sizeof(why)), 0);
	CU_ASSERT_EQUAL_FATAL(sp_world_create(&world), 0);
	for (uint32_t h = 0; h < NICS; h++)
		make_nic(h);
	memset(sum_worker, 0, sizeof(sum_worker));
	for (uint32_t w = 0; w < SUM_WORKERS; w++)
		for (uint32_t round = 0; round < SUM_ROUNDS; round++)
			for (uint32_t i = 0; i < SUM_WORDS; i++)
				sum_worker[w].gradient[round][i] = gradient(w, round, i);
	added = sum_answers_again = 0;
}

static void network_end(void)
{
	struct net_nics_counters n;

	net_count(net_nics_net(nics), &counted);
	net_nics_count(nics, &n);
	CU_ASSERT_EQUAL(n.unknown + n.oversized + n.held + n.waited, 0);
	for (uint32_t h = 0; h < NICS; h++) {
		sp_dev_close(dev[h]);
		sp_nic_destroy(nic[h]);
	}
	sp_world_destroy(world);
	net_nics_destroy(nics);
	net_topology_destroy(topology);
}

static uint64_t dropped(void)
{
	CU_ASSERT_EQUAL(counted.sent, counted.delivered + counted.dropped[NET_DROP_OUTPUT_FULL] +
					      counted.dropped[NET_DROP_INPUT_FULL] + counted.in_flight);
	return counted.dropped[NET_DROP_OUTPUT_FULL] + counted.dropped[NET_DROP_INPUT_FULL];
}

/* ---- handlers ---- */
static bool all_have_sums(void *arg)
{
	(void)arg;
	for (uint32_t w = 0; w < SUM_WORKERS; w++)
		if (!sum_worker[w].done)
			return false;
	return true;
}

static void open_context(uint32_t h, const char *handler, const struct sp_setting *settings, size_t count)
{
	struct sp_error error = {.text = ""};
	uint32_t id;

	CU_ASSERT_EQUAL_FATAL(sp_context_open(dev[h], "sums", handler, settings, count, &id, &error), 0);
}

static uint64_t sums_by_handlers(bool lossless, unsigned deaf)
{
	uint64_t again = 0;

	network(lossless);
	open_context(SERVER, "sum-server", (struct sp_setting[]){{"filter", "udp dst port 7000"}}, 1);
	for (uint32_t w = 0; w < SUM_WORKERS; w++) {
		char rank[4];

		snprintf(rank, sizeof(rank), "%u", w);
		sum_worker[w].deaf = deaf;
		mac_of(w, sum_worker[w].mac);
		mac_of(SERVER, sum_worker[w].server_mac);
		memcpy(sum_worker[w].ip, (uint8_t[]){10, 0, 0, (uint8_t)(1 + w)}, 4);
		memcpy(sum_worker[w].server_ip, (uint8_t[]){10, 0, 0, 1 + SERVER}, 4);
		open_context(w, "sum-worker", (struct sp_setting[]){{"filter", "udp dst port 7001"}, {"rank", rank}},
			     2);
	}
	/* No host is in this world. */
	CU_ASSERT_EQUAL(sp_world_run(world, SP_SEC, all_have_sums, NULL), 1);
	network_end();
	for (uint32_t w = 0; w < SUM_WORKERS; w++)
		again += sum_worker[w].again;
	check_sums();
	CU_ASSERT_EQUAL(added, 0);
	return again;
}

TEST(handlers_of_the_servers_nic_add_and_answer_and_with_credits_nothing_is_dropped_or_sent_twice)
{
	CU_ASSERT_EQUAL(sums_by_handlers(true, 0), 0);
	CU_ASSERT_EQUAL(dropped(), 0);
	/* As many to the server as from it, and no more. */
	CU_ASSERT_EQUAL(counted.sent, 2 * SUM_WORKERS * SUM_SEGMENTS * SUM_ROUNDS);
	CU_ASSERT_EQUAL(sum_answers_again, 0);
}

TEST(a_drop_tail_switch_drops_of_those_who_send_at_once_and_all_sums_are_right_in_the_end)
{
	const uint64_t again = sums_by_handlers(false, 0);

	CU_ASSERT(dropped() > SUM_ROUNDS);
	CU_ASSERT(again >= SUM_ROUNDS);
}

TEST(a_sum_that_is_lost_on_its_way_back_is_sent_again_and_nothing_is_added_twice)
{
	const uint64_t again = sums_by_handlers(true, 5);

	/* Of 5 answers one is not heard; some of them are of the last round's last segments. */
	CU_ASSERT(again >= SUM_WORKERS * SUM_SEGMENTS * SUM_ROUNDS / 5);
	CU_ASSERT(sum_answers_again >= again - SUM_WORKERS);
}

/* ---- the server's host, over SDR ---- */
struct end {
	struct sdr_context *context;
	struct sdr_qp *qp;
	struct sdr_reliable *reliable;
	struct sdr_reliable_op *sent, *received;
	struct sp_mr *mr;
	int32_t *words; /* SUM_WORDS to send, and as many received */
};

static struct end at_worker[SUM_WORKERS], at_server[SUM_WORKERS];
static uint32_t worker_round[SUM_WORKERS], server_round; /* rounds that they have ended */

static void make_end(struct end *e, uint32_t host, uint64_t nonce)
{
	const struct sdr_context_attr x = {.channels = 1};
	const struct sdr_reliable_attr reliable = {.scheme = SDR_SR_NACK, .rtt = 20 * SP_US};
	const struct sdr_qp_attr attr = {.mtu = 1024,
					 .chunk_bytes = 1024,
					 .max_message_bytes = 1024 * 1024,
					 .max_messages = 4,
					 .nonce = nonce,
					 .cts_interval = SP_MS,
					 .max_packet_life = SP_MS,
					 .family = AF_INET};
	struct sp_error error;

	*e = (struct end){.words = calloc(2, BYTES)};
	CU_ASSERT_EQUAL_FATAL(sdr_context_create(dev[host], &x, &e->context), 0);
	CU_ASSERT_EQUAL_FATAL(sdr_mr_reg(e->context, e->words, 2 * BYTES, &e->mr), 0);
	CU_ASSERT_EQUAL_FATAL(sdr_qp_create(e->context, &attr, &e->qp, &error), 0);
	CU_ASSERT_EQUAL_FATAL(sdr_reliable_open(e->qp, &reliable, &e->reliable), 0);
}

static void close_end(struct end *e)
{
	sdr_reliable_close(e->reliable, 0);
	sdr_qp_destroy(e->qp);
	sdr_mr_dereg(e->mr);
	sdr_context_destroy(e->context);
	free(e->words);
}

static void post_receive(struct end *e)
{
	CU_ASSERT_EQUAL(sdr_reliable_recv(e->reliable, e->mr, BYTES, BYTES, &e->received), 0);
}

static void post_send(struct end *e)
{
	CU_ASSERT_EQUAL(sdr_reliable_send(e->reliable, e->mr, 0, BYTES, 0, &e->sent), 0);
}

/* Both its operations have ended, and are freed. */
static bool ended(struct end *e)
{
	if (sdr_reliable_poll(e->sent) == -EAGAIN || sdr_reliable_poll(e->received) == -EAGAIN)
		return false;
	CU_ASSERT_EQUAL(sdr_reliable_poll(e->sent), 0);
	CU_ASSERT_EQUAL(sdr_reliable_poll(e->received), 0);
	CU_ASSERT_EQUAL(sdr_reliable_op_free(e->sent), 0);
	CU_ASSERT_EQUAL(sdr_reliable_op_free(e->received), 0);
	return true;
}

static void begin_round(uint32_t w)
{
	memcpy(at_worker[w].words, sum_worker[w].gradient[worker_round[w]], BYTES);
	post_receive(&at_worker[w]);
	post_send(&at_worker[w]);
}

static void workers_step(void)
{
	for (uint32_t w = 0; w < SUM_WORKERS; w++) {
		if (worker_round[w] == SUM_ROUNDS || !ended(&at_worker[w]))
			continue;
		memcpy(sum_worker[w].sum[worker_round[w]], at_worker[w].words + SUM_WORDS, BYTES);
		if (++worker_round[w] < SUM_ROUNDS)
			begin_round(w);
		else
			sum_worker[w].done = true;
	}
}

/* Once all vectors are there, the sum goes to all; the next receive may then be posted, as the memory is free. */
static void server_step(void)
{
	if (server_round == SUM_ROUNDS)
		return;
	for (uint32_t w = 0; w < SUM_WORKERS; w++)
		if (sdr_reliable_poll(at_server[w].received) == -EAGAIN ||
		    (at_server[w].sent && sdr_reliable_poll(at_server[w].sent) == -EAGAIN))
			return;
	for (uint32_t i = 0; i < SUM_WORDS; i++) {
		uint32_t sum = 0;

		for (uint32_t w = 0; w < SUM_WORKERS; w++, added++)
			sum += (uint32_t)at_server[w].words[SUM_WORDS + i];
		for (uint32_t w = 0; w < SUM_WORKERS; w++)
			at_server[w].words[i] = (int32_t)sum;
	}
	server_round++;
	for (uint32_t w = 0; w < SUM_WORKERS; w++) {
		CU_ASSERT_EQUAL(sdr_reliable_op_free(at_server[w].received), 0);
		if (at_server[w].sent)
			CU_ASSERT_EQUAL(sdr_reliable_op_free(at_server[w].sent), 0);
		if (server_round < SUM_ROUNDS)
			post_receive(&at_server[w]);
		post_send(&at_server[w]);
	}
}

static void step(void *arg, sp_time now)
{
	(void)arg;
	for (uint32_t w = 0; w < SUM_WORKERS; w++) {
		CU_ASSERT_EQUAL(sdr_reliable_progress(at_worker[w].reliable, now), 0);
		CU_ASSERT_EQUAL(sdr_reliable_progress(at_server[w].reliable, now), 0);
	}
	server_step();
	workers_step();
	/* What was posted just now begins with the next call. */
	for (uint32_t w = 0; w < SUM_WORKERS; w++) {
		CU_ASSERT_EQUAL(sdr_reliable_progress(at_worker[w].reliable, now), 0);
		CU_ASSERT_EQUAL(sdr_reliable_progress(at_server[w].reliable, now), 0);
	}
}

static sp_time next(void *arg)
{
	sp_time first = SP_NEVER;

	(void)arg;
	for (uint32_t w = 0; w < SUM_WORKERS; w++) {
		const sp_time a = sdr_reliable_deadline(at_worker[w].reliable);
		const sp_time b = sdr_reliable_deadline(at_server[w].reliable);

		first = a < first ? a : first;
		first = b < first ? b : first;
	}
	return first;
}

static uint64_t sums_by_the_host(bool lossless)
{
	uint64_t again = 0;

	network(lossless);
	server_round = 0;
	for (uint32_t w = 0; w < SUM_WORKERS; w++) {
		struct sdr_qp_info info[2];

		worker_round[w] = 0;
		make_end(&at_worker[w], w, 2 * w + 1);
		make_end(&at_server[w], SERVER, 2 * w + 2);
		sdr_qp_info_get(at_worker[w].qp, &info[0]);
		sdr_qp_info_get(at_server[w].qp, &info[1]);
		CU_ASSERT_EQUAL_FATAL(sdr_qp_connect(at_worker[w].qp, &info[1]), 0);
		CU_ASSERT_EQUAL_FATAL(sdr_qp_connect(at_server[w].qp, &info[0]), 0);
		post_receive(&at_server[w]);
		begin_round(w);
	}
	CU_ASSERT_EQUAL(sp_world_add_host(world, &(struct sp_world_host){.step = step, .next = next}), 0);
	CU_ASSERT_EQUAL(sp_world_run(world, SP_SEC, all_have_sums, NULL), 1);
	for (uint32_t w = 0; w < SUM_WORKERS; w++) {
		struct sdr_reliable_status a, b;

		sdr_reliable_status(at_worker[w].reliable, &a);
		sdr_reliable_status(at_server[w].reliable, &b);
		again += a.retransmitted + b.retransmitted;
		close_end(&at_worker[w]);
		close_end(&at_server[w]);
	}
	network_end();
	check_sums();
	CU_ASSERT_EQUAL(added, (uint64_t)SUM_WORKERS * SUM_WORDS * SUM_ROUNDS);
	return again;
}

TEST(the_servers_host_comes_to_the_same_sums_and_adds_every_number_itself)
{
	sums_by_the_host(true);
	CU_ASSERT_EQUAL(dropped(), 0);
}

TEST(sdr_sends_again_what_a_drop_tail_switch_drops_on_the_way_to_the_servers_host)
{
	CU_ASSERT(sums_by_the_host(false) > SUM_ROUNDS);
	CU_ASSERT(dropped() > SUM_ROUNDS);
}
