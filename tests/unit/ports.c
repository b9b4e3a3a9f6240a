/* SPDX-License-Identifier: BSD-3-Clause */
/* A NIC with two ports: what goes where, what comes from where, and whose MAC it has. */
#include "../../pipeline/ports/port.h"
#include "../lib/ips.h"
#include "../lib/sender.h"

static struct dut_port second;
static const uint8_t second4[16] = DUT_IP4(198, 51, 100, 2), second_peer4[16] = DUT_IP4(198, 51, 100, 1);
static const uint8_t second_peer_mac[6] = {2, 0, 0, 0, 1, 2};

/* 192.0.2.2/24 and 2001:db8::2/64 on port 0; 198.51.100.2/24 on port 1, where the IPv4 gateway 198.51.100.254 is. */
static void prepare(uint16_t workers)
{
	probe_log_clear();
	dut_prepare(&dut, workers);
	memset(&second, 0, sizeof(second));
	dut.config.port[1].ops = &dut_ops;
	dut.config.port[1].ops_arg = &second;
	dut.config.ports = 2;
	dut.config.address[2] = (struct sp_address){.prefix = 24, .port = 1};
	memcpy(dut.config.address[2].ip, second4, 16);
	dut.config.addresses = 3;
	memcpy(dut.config.gateway4, ip4(198, 51, 100, 254), 16);
}

static void finish(void)
{
	struct sp_nic_totals t;

	sp_nic_totals(dut.nic, &t);
	CU_ASSERT_EQUAL(t.received, dut.port.received + second.received);
	CU_ASSERT_EQUAL(t.received, t.taken + t.forwarded + t.dropped);
	probe_log_clear();
	sp_dev_close(dut.dev);
	sp_nic_destroy(dut.nic);
	dut_port_free(&dut.port);
	dut_port_free(&dut.exception);
	dut_port_free(&second);
	CU_ASSERT_EQUAL(rte_mempool_in_use_count(sp_process_pool()), dut.in_use);
}

static unsigned open_path(uint32_t id, const uint8_t *to)
{
	uint64_t ip[2];

	memcpy(ip, to, 16);
	CU_ASSERT_EQUAL_FATAL(sender_call(id, CMD_PATH, ip[0], ip[1]), 0);
	return sender_job.paths - 1;
}

/* RFC 826: sender is at mac. */
static void arp(uint8_t f[42], unsigned operation, const uint8_t *to, const uint8_t *mac, const uint8_t *sender,
		const uint8_t *target)
{
	static const uint8_t head[10] = {8, 6, 0, 1, 8, 0, 6, 4};

	memset(f, 0, 42);
	memcpy(f, to, 6);
	memcpy(f + 6, mac, 6);
	memcpy(f + 12, head, 10);
	f[21] = (uint8_t)operation;
	memcpy(f + 22, mac, 6);
	memcpy(f + 28, sender + 12, 4);
	memcpy(f + 38, target + 12, 4);
}

TEST(each_port_has_a_mac_of_its_own)
{
	uint8_t made[2][6];

	for (unsigned round = 0; round < 3; round++) {
		prepare(1);
		dut.config.seed = round == 2 ? 99 : 5;
		dut_create(&dut);
		CU_ASSERT(!memcmp(dut.nic->port[0].mac, dut_mac, 6)); /* as configured */
		memcpy(made[round != 0], dut.nic->port[1].mac, 6);
		CU_ASSERT(made[round != 0][0] == 2 && memcmp(made[round != 0], dut_mac, 6));
		if (round == 1)
			CU_ASSERT(!memcmp(made[0], made[1], 6)); /* one seed, one MAC */
		if (round == 2)
			CU_ASSERT(memcmp(made[0], made[1], 6));
		finish();
	}
	prepare(1);
	memset(dut.config.mac, 0, 6);
	dut_create(&dut);
	CU_ASSERT(memcmp(dut.nic->port[0].mac, dut.nic->port[1].mac, 6));
	finish();
}

TEST(packets_leave_by_the_port_of_their_route)
{
	static const struct sp_neighbour_config known[3] = {{DUT_IP4(192, 0, 2, 1), {2, 0, 0, 0, 0, 2}},
							    {DUT_IP4(198, 51, 100, 1), {2, 0, 0, 0, 1, 2}},
							    {DUT_IP4(198, 51, 100, 254), {2, 0, 0, 0, 1, 254}}};
	static const struct {
		uint8_t to[16], mac[6], from[16];
		bool by_second;
	} way[3] = {
		{DUT_IP4(192, 0, 2, 1), {2, 0, 0, 0, 0, 2}, DUT_IP4(192, 0, 2, 2), false},
		{DUT_IP4(198, 51, 100, 1), {2, 0, 0, 0, 1, 2}, DUT_IP4(198, 51, 100, 2), true},
		{DUT_IP4(203, 0, 113, 9), {2, 0, 0, 0, 1, 254}, DUT_IP4(198, 51, 100, 2), true},
	};
	struct sp_send s = {.dest_qp = 16};

	prepare(1);
	memcpy(dut.config.neighbour, known, sizeof(known));
	dut.config.neighbours = 3;
	dut_create(&dut);
	uint32_t id = dut_context(&dut, "s", "sender", "qp=5");
	sender_job.send = &s;
	for (unsigned i = 0; i < 3; i++) {
		struct dut_port *p = way[i].by_second ? &second : &dut.port,
				*other = way[i].by_second ? &dut.port : &second;

		p->sents = other->sents = 0;
		CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, open_path(id, way[i].to), 0), 0);
		dut_settle(&dut, 1);
		CU_ASSERT_EQUAL(other->sents, 0);
		CU_ASSERT_EQUAL_FATAL(p->sents, 1);
		const uint8_t *f = p->sent[0].bytes;
		CU_ASSERT(!memcmp(f, way[i].mac, 6));
		CU_ASSERT(!memcmp(f + 6, dut.nic->port[way[i].by_second].mac, 6));
		CU_ASSERT(!memcmp(f + 26, way[i].from + 12, 4) && !memcmp(f + 30, way[i].to + 12, 4));
	}
	finish();
}

TEST(a_packet_waits_for_a_neighbour_of_its_own_port)
{
	struct sp_send s = {.dest_qp = 16};
	uint8_t f[42], mac[6];

	prepare(1);
	dut_create(&dut);
	memcpy(mac, dut.nic->port[1].mac, 6);
	uint32_t id = dut_context(&dut, "s", "sender", "qp=5");
	sender_job.send = &s;
	CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, open_path(id, second_peer4), 0), 0);
	dut_settle(&dut, 10);
	CU_ASSERT_EQUAL(dut.port.sents, 0);
	CU_ASSERT_EQUAL_FATAL(second.sents, 1);
	arp(f, 1, (const uint8_t[]){255, 255, 255, 255, 255, 255}, mac, second4, second_peer4);
	CU_ASSERT(!memcmp(second.sent[0].bytes, f, 42));
	arp(f, 2, dut_mac, dut_peer_mac, second_peer4, second4); /* somebody on the other link says it is he */
	dut_feed_bytes(&dut.port, 0, 20, f, sizeof(f));
	dut_run(&dut, 10, SP_MS);
	CU_ASSERT_EQUAL(second.sents, 1);
	CU_ASSERT_EQUAL(dut.nic->worker[0]->pending.count, 1);
	arp(f, 2, mac, second_peer_mac, second_peer4, second4);
	dut_feed_bytes(&second, 0, 2 * SP_MS, f, sizeof(f));
	dut_run(&dut, SP_MS, 3 * SP_MS);
	CU_ASSERT_EQUAL(dut.port.sents, 0);
	CU_ASSERT_EQUAL_FATAL(second.sents, 2);
	CU_ASSERT(!memcmp(second.sent[1].bytes, second_peer_mac, 6) && !memcmp(second.sent[1].bytes + 6, mac, 6));
	finish();
}

TEST(roce_is_taken_for_any_address_by_any_port)
{
	static const uint8_t other[4] = {198, 51, 100, 3};
	struct frame f;

	prepare(1);
	dut_create(&dut);
	uint32_t id = dut_context(&dut, "a", "sender", "qp=16");
	dut_roce(&f, FRAME_IP4, 16, 0, "abcd", 4); /* for port 0's address */
	dut_feed_bytes(&dut.port, 0, 0, f.bytes, f.len);
	dut_feed_bytes(&second, 0, 0, f.bytes, f.len);
	memcpy(f.bytes + f.l3 + 16, second4 + 12, 4);
	for (unsigned round = 0; round < 2; round++) {
		memset(f.bytes + f.l3 + 10, 0, 2);
		uint16_t sum = sp_checksum(f.bytes + f.l3, 20, 0);
		memcpy(f.bytes + f.l3 + 10, &sum, 2);
		dut_seal(&f);
		dut_feed_bytes(&dut.port, 0, 0, f.bytes, f.len);
		dut_feed_bytes(&second, 0, 0, f.bytes, f.len);
		memcpy(f.bytes + f.l3 + 16, other, 4); /* nobody's */
	}
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "packets"), 4);
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "wrong-destination"), 2);
	finish();
}

TEST(the_exception_port_answers_where_the_question_came_by)
{
	static const uint8_t a[6] = {2, 0, 0, 0, 9, 1}, b[6] = {2, 0, 0, 0, 9, 2}, kernel[6] = {2, 0, 0, 0, 9, 3};
	uint8_t f[64] = {0};

	prepare(1);
	dut_with_exception(&dut);
	dut_create(&dut);
	f[12] = 0x88, f[13] = 0xB5; /* local experimental */
	memcpy(f, kernel, 6);
	memcpy(f + 6, a, 6);
	dut_feed_bytes(&dut.port, 0, 0, f, sizeof(f));
	memcpy(f + 6, b, 6);
	dut_feed_bytes(&second, 0, 0, f, sizeof(f));
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(dut.exception.sents, 2);
	for (unsigned i = 0; i < 4; i++) { /* to a, to b, to a stranger, to all */
		static const uint8_t to[4][6] = {
			{2, 0, 0, 0, 9, 1}, {2, 0, 0, 0, 9, 2}, {2, 0, 0, 0, 9, 9}, {255, 255, 255, 255, 255, 255}};

		dut.port.sents = second.sents = 0;
		memcpy(f, to[i], 6);
		memcpy(f + 6, kernel, 6);
		dut_feed_bytes(&dut.exception, 0, 0, f, sizeof(f));
		dut_settle(&dut, 2);
		CU_ASSERT_EQUAL(dut.port.sents, i != 1);
		CU_ASSERT_EQUAL(second.sents, i == 1);
	}
	memcpy(f, kernel, 6); /* b has moved */
	memcpy(f + 6, b, 6);
	dut_feed_bytes(&dut.port, 0, 0, f, sizeof(f));
	dut_settle(&dut, 3);
	dut.port.sents = second.sents = 0;
	memcpy(f, b, 6);
	memcpy(f + 6, kernel, 6);
	dut_feed_bytes(&dut.exception, 0, 0, f, sizeof(f));
	dut_settle(&dut, 4);
	CU_ASSERT(dut.port.sents == 1 && second.sents == 0);
	finish();
}

TEST(stations_are_told_apart)
{
	static struct sp_mac_table s;

	for (unsigned i = 0; i < 100000; i++) { /* far more than places: the latest is right, the others are port 0 */
		uint8_t mac[6] = {2, 0, (uint8_t)(i >> 24), (uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i};
		uint8_t next[6] = {2, 1, mac[2], mac[3], mac[4], mac[5]};

		sp_mac_table_learn(&s, mac, 1 + i % 3);
		CU_ASSERT_EQUAL(sp_mac_table_port(&s, mac), 1 + i % 3);
		CU_ASSERT_EQUAL(sp_mac_table_port(&s, next), 0);
	}
}

TEST(impossible_values_are_refused_with_the_key)
{
	struct sp_error error = {.text = ""};

	prepare(1);
	dut.config.address[2].port = 2;
	CU_ASSERT_EQUAL(sp_nic_create(&dut.config, &error, &dut.nic), -EINVAL);
	CU_ASSERT_STRING_EQUAL(error.key, "ip");
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "198.51.100.2"));
	prepare(1);
	memcpy(dut.config.address[2].ip, ip4(192, 0, 2, 9), 16);
	CU_ASSERT_EQUAL(sp_nic_create(&dut.config, &error, &dut.nic), -EINVAL);
	CU_ASSERT_STRING_EQUAL(error.key, "ip");
	prepare(1);
	memcpy(dut.config.gateway4, ip4(203, 0, 113, 1), 16);
	CU_ASSERT_EQUAL(sp_nic_create(&dut.config, &error, &dut.nic), -EINVAL);
	CU_ASSERT_STRING_EQUAL(error.key, "gateway");
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "203.0.113.1"));
}
