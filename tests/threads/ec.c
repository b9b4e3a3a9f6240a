/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Erasure coding with threads: two workers take the packets of each message by turns, some chunks are lost and others
 * come late, amid their repair; the application takes messages back whenever it likes. For the thread sanitizer, and
 * for the bytes.
 */
#include "../../handlers/wire/ec.h"
#include "../../handlers/wire/roce.h"
#include "../../handlers/wire/sdr.h"
#include "../../host-api/spindle.h"
#include "../lib/cable.h"
#include "../lib/suite.h"

enum { K = 8, M = 4, MTU = 1024, CHUNK = 2048, SLOTS = 8, CHUNKS = 30, DATA = CHUNKS * CHUNK - 700, LATE = 64 };
#define ROOM	 (64u << 10)
#define PATIENCE (60 * SP_SEC)

static struct cable pair;
static struct sp_nic *nic[2];
static struct sp_dev *dev[2];
static struct sp_mr *mr[2];
static uint8_t *memory[2];
static uint32_t id[2];
static const uint8_t *area[2];

/* What comes late: kept by the wire until as many others have passed. */
static struct rte_mbuf *late[LATE];
static unsigned lates, passed;

/* Two chunks of each submessage of data at most. */
static bool is_missing(const struct rte_mbuf *m, bool *is_late)
{
	const uint8_t *bth = rte_pktmbuf_mtod(m, const uint8_t *) + 42;

	if (bth[0] != SP_UC_WRITE_ONLY_IMM)
		return false;
	uint32_t imm = sp_load_be32(bth + 12 + 16);
	uint32_t slot = imm >> 22;
	uint32_t chunk = (imm >> 4 & 0x3FFFF) * MTU / CHUNK;
	*is_late = chunk & 1;
	return slot % 2 == 0 && (chunk * 5 + slot) % 7 < 2;
}

/* One worker sends: its NIC's home. */
static unsigned transmit(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned count, sp_time now)
{
	unsigned n = 0;

	for (; n < count; n++) {
		bool is_late = false;

		if (port == &pair.end[0] && is_missing(packet[n], &is_late)) {
			if (is_late && lates < LATE && packet[n]->nb_segs == 1)
				late[lates++] = packet[n];
			else
				rte_pktmbuf_free(packet[n]);
			continue;
		}
		if (!cable_transmit(port, queue, &packet[n], 1, now))
			break;
		if (port == &pair.end[0] && ++passed % 4 == 0 && lates &&
		    cable_transmit(port, queue, &late[lates - 1], 1, now))
			lates--;
	}
	return n;
}

static const struct sp_port_ops ops = {.receive = cable_receive, .transmit = transmit, .next = cable_next};

static int call(unsigned e, uint16_t op, uint64_t cookie, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3,
		uint64_t a4, uint64_t a5)
{
	const struct sp_command c = {.op = op, .context = id[e], .cookie = cookie, .arg = {a0, a1, a2, a3, a4, a5}};

	return sp_command_call(dev[e], &c, NULL);
}

static void open_end(unsigned e)
{
	static const struct sp_setting setting[] = {{"qp", "0x100"},
						    {"mtu", "1024"},
						    {"chunk-bytes", "2048"},
						    {"max-message-bytes", "64K"},
						    {"max-messages", "8"},
						    {"channels", "2"},
						    {"rkey", "7"},
						    {"max-packet-life", "0ps"},
						    {"companion", "ec"},
						    {"k", "8"},
						    {"m", "4"}};
	struct sp_nic_config config = {.addresses = 1,
				       .workers = 2,
				       .seed = 5 + e,
				       .neighbours = 1,
				       .ports = 1,
				       .port = {{.ops = &ops, .ops_arg = &pair.end[e]}}};
	struct sp_error error = {.text = ""};
	void *at;
	uint64_t len;

	for (unsigned i = 0; i < 2; i++) {
		uint8_t *ip = i ? config.neighbour[0].ip : config.address[0].ip;

		memcpy(ip, (const uint8_t[16]){[10] = 0xFF, 0xFF, 10, 7}, 16);
		ip[15] = (uint8_t)(1 + (e ^ i));
	}
	config.address[0].prefix = 24;
	memcpy(config.mac, (const uint8_t[]){2, 0, 0, 0, 7, (uint8_t)(1 + e)}, 6);
	memcpy(config.neighbour[0].mac, (const uint8_t[]){2, 0, 0, 0, 7, (uint8_t)(2 - e)}, 6);
	memory[e] = malloc(SLOTS * ROOM);
	if (sp_nic_create(&config, &error, &nic[e]) || sp_nic_start(nic[e]) || sp_nic_dev(nic[e], false, &dev[e]) ||
	    sp_mr_reg(dev[e], memory[e], SLOTS * ROOM, &mr[e]) ||
	    sp_context_open(dev[e], "sdr", "sdr", setting, sizeof(setting) / sizeof(*setting), &id[e], &error) ||
	    sp_context_area(dev[e], id[e], &at, &len)) {
		printf("Bail out! %s: %s\n", error.key, error.text);
		exit(1);
	}
	area[e] = at;
}

static uint64_t line(unsigned e, uint64_t slot, size_t field)
{
	return __atomic_load_n((const uint64_t *)(const void *)(area[e] + 128 + slot * 64 + field), __ATOMIC_ACQUIRE);
}

static bool wait_for(unsigned e, uint64_t slot, size_t field, uint64_t at_least)
{
	const sp_time until = sp_clock() + PATIENCE;

	while (line(e, slot, field) < at_least)
		if (sp_clock() > until)
			return false;
	return true;
}

#define STATE	 offsetof(struct sp_sdr_recv_status, state)
#define RELEASED offsetof(struct sp_sdr_recv_status, released)
#define SENT	 offsetof(struct sp_sdr_send_status, released)

TEST(messages_are_repaired_while_packets_come)
{
#ifdef __SANITIZE_THREAD__
	const uint64_t few = 40; /* what is not ordered is told the first time */
#else
	const uint64_t few = 300;
#endif
	const uint64_t rounds = getenv("SPINDLE_LONG") ? 20000 : few;
	uint64_t k = 0;

	CU_ASSERT_EQUAL_FATAL(sp_eal_init(0, NULL, NULL), 0);
	cable_open(&pair);
	pair.wire[0].spread = true;
	for (unsigned e = 0; e < 2; e++)
		open_end(e);
	for (unsigned e = 0; e < 2; e++) {
		const struct sp_sdr_area *a = (const void *)area[!e];
		uint64_t ip[2];

		memcpy(ip, (const uint8_t[16]){[10] = 0xFF, 0xFF, 10, 7, 0, (uint8_t)(2 - e)}, 16);
		CU_ASSERT_EQUAL_FATAL(call(e, SP_SDR_CMD_CONNECT, 0, ip[0], ip[1],
					   0x100 | (uint64_t)a->control_qp << 32, 11 + !e, 11 + e, 7),
				      0);
	}
	for (uint64_t round = 0; round < rounds; round++, k += SLOTS) {
		const bool early = round % 3 == 2;

		for (uint64_t i = 0; i < SLOTS; i++)
			CU_ASSERT_EQUAL_FATAL(
				call(1, SP_CMD_POST, k + i, mr[1]->id, i * ROOM, i % 2 ? ROOM : DATA, 0, 0, 0), 0);
		for (uint64_t i = 0; i < SLOTS; i += 2) {
			uint32_t x = (uint32_t)(k + i) * 2654435761u + 1;

			for (uint32_t b = 0; b + 4 <= DATA; b += 4) {
				x = x * 1664525 + 1013904223;
				memcpy(memory[0] + i * ROOM + b, &x, 4);
			}
			CU_ASSERT_EQUAL_FATAL(call(0, SP_SDR_CMD_SEND, k + i, mr[0]->id, i * ROOM, DATA, 0, 0, 0), 0);
			CU_ASSERT_EQUAL_FATAL(call(0, SP_EC_CMD_PARITY, k + i + 1, mr[0]->id, i * ROOM, DATA, mr[0]->id,
						   (i + 1) * ROOM, 0),
					      0);
		}
		for (uint64_t i = 0; i < SLOTS; i += 2) {
			if (early && (i + round) % 4 == 0) {
				usleep((useconds_t)(round % 7 * 20));
				continue;
			}
			CU_ASSERT_FATAL(wait_for(1, i, STATE, SP_SDR_OPEN | SP_SDR_COMPLETE));
			CU_ASSERT_EQUAL_FATAL(memcmp(memory[0] + i * ROOM, memory[1] + i * ROOM, DATA), 0);
		}
		for (uint64_t i = 0; i < SLOTS; i++)
			CU_ASSERT_EQUAL(call(1, SP_CMD_COMPLETE, k + i, 0, 0, 0, 0, 0, 0), 0);
		for (uint64_t i = 0; i < SLOTS; i++) {
			CU_ASSERT_FATAL(wait_for(1, i, RELEASED, k + i + 1));
			memset(memory[1] + i * ROOM, 0xEE, ROOM);
		}
		for (uint64_t i = 0; i < SLOTS; i++)
			CU_ASSERT_FATAL(wait_for(0, SLOTS + i, SENT, k + i + 1));
		for (uint64_t b = 0; b < SLOTS * ROOM; b++)
			if (memory[1][b] != 0xEE) {
				CU_FAIL_FATAL("a byte of a buffer that had been given back");
			}
	}
	CU_ASSERT(sp_nic_context_counter(nic[1], id[1], "repaired_chunks") > rounds);
	printf("# %llu repaired, %llu packets late for that\n",
	       (unsigned long long)sp_nic_context_counter(nic[1], id[1], "repaired_chunks"),
	       (unsigned long long)sp_nic_context_counter(nic[1], id[1], "late_data_packets"));
	for (unsigned e = 0; e < 2; e++) {
		CU_ASSERT_EQUAL(sp_context_close(dev[e], id[e]), 0);
		CU_ASSERT_EQUAL(sp_mr_free(mr[e]), 0);
		sp_dev_close(dev[e]);
		sp_nic_stop(nic[e]);
	}
	while (lates)
		rte_pktmbuf_free(late[--lates]);
	for (unsigned e = 0; e < 2; e++) {
		sp_nic_destroy(nic[e]);
		free(memory[e]);
	}
	cable_close(&pair);
}
