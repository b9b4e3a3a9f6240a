/* SPDX-License-Identifier: BSD-3-Clause */
/* The ec handler beside sdr on a NIC, poll by poll: messages, their parity, and packets of them made by hand. */
#ifndef TESTS_EC_BESIDE_H
#define TESTS_EC_BESIDE_H

#include "../../handlers/wire/ec.h"
#include "../../handlers/wire/roce.h"
#include "../../handlers/wire/sdr.h"
#include "../../pipeline/context.h"
#include "ec.h"
#include "../lib/dut.h"

enum { K = 32, M = 8, MTU = 1024, CHUNK = 8192, DATA = K * CHUNK, PARITY = M * CHUNK, SLOT = DATA + 4096 };
#define BASE	 "qp=0x100;mtu=1024;chunk-bytes=8192;max-message-bytes=256K;rkey=7;companion=ec;max-packet-life=0ps;"
#define RECEIVER BASE "max-messages=4;generations=2"
#define SENDER	 BASE "max-messages=4;credit=implicit"

static struct sp_mr *mr;
static uint8_t memory[4 * SLOT];
static uint32_t id;
static struct ec_area area; /* a whole submessage, and its parity as defined */
static sp_time now;
static unsigned generations;
static uint16_t workers = 1, queue; /* of the NIC; that packets come by */

static inline void begin(const char *settings)
{
	static struct sp_random random;

	dut_prepare(&dut, workers);
	memcpy(dut.config.neighbour[0].ip, dut_peer4, 16);
	memcpy(dut.config.neighbour[0].mac, dut_peer_mac, 6);
	dut.config.neighbours = 1;
	dut_create(&dut);
	memset(memory, 0xEE, sizeof(memory));
	CU_ASSERT_EQUAL_FATAL(sp_mr_reg(dut.dev, memory, sizeof(memory), &mr), 0);
	id = dut_context(&dut, "sdr", "sdr", settings);
	sp_random_seed(&random, 1, 1);
	ec_area_new(&area, SP_EC_MDS, K, M, K, CHUNK, CHUNK, &random);
	now = SP_MS;
	generations = 2;
}

static inline void end(void)
{
	if (id)
		CU_ASSERT_EQUAL(sp_context_close(dut.dev, id), 0);
	CU_ASSERT_EQUAL(sp_mr_free(mr), 0); /* nothing holds it */
	ec_area_free(&area);
	dut_stop(&dut);
}

static inline int call(uint16_t op, uint64_t cookie, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4)
{
	const struct sp_command c = {.op = op, .context = id, .cookie = cookie, .arg = {a0, a1, a2, a3, a4}};

	return sp_command_call(dut.dev, &c, NULL);
}

static inline uint8_t *slot(uint64_t k)
{
	return memory + k % 4 * SLOT;
}

static inline void post(uint64_t k, uint64_t length)
{
	CU_ASSERT_EQUAL_FATAL(call(SP_CMD_POST, k, mr->id, k % 4 * SLOT, length, 0, 0), 0);
}

static inline void post_pair(uint64_t k)
{
	post(k, DATA);
	post(k + 1, PARITY);
}

/* Packet p of message k, which ends with packet `last`. */
static inline void packet(uint64_t k, unsigned p, unsigned last, const uint8_t *bytes, uint32_t immediate)
{
	static struct frame f;
	uint8_t *bth;

	dut_roce(&f, FRAME_IP4, 0x100 + (uint32_t)(k / 4 % generations), 0, NULL, SP_SDR_HEADER + MTU);
	bth = f.bytes + f.l4 + 8;
	bth[1] = p == last ? bth[1] | 0x80 : bth[1] & 0x7F;
	sp_store_be64(f.bytes + f.data, k % 4 * (256 << 10) + (uint64_t)p * MTU);
	sp_store_be32(f.bytes + f.data + 8, 7);
	sp_store_be32(f.bytes + f.data + 12, MTU);
	sp_store_be32(f.bytes + f.data + 16, (uint32_t)(k % 4) << 22 | p << 4 | (immediate >> p % 8 * 4 & 15));
	memcpy(f.bytes + f.data + SP_SDR_HEADER, bytes, MTU);
	dut_seal(&f);
	dut_feed_bytes(&dut.port, queue, 0, f.bytes, f.len);
}

static const uint32_t right = 0x7FFFFFFF; /* stands for the immediate that fits */

static inline void chunk_of(uint64_t k, unsigned chunk, uint32_t immediate)
{
	const bool parity = k & 1;

	if (immediate == right)
		immediate = sp_ec_immediate(SP_EC_CODE_MDS, K, M, DATA);
	for (unsigned p = 0; p < CHUNK / MTU; p++)
		packet(k, chunk * CHUNK / MTU + p, (parity ? PARITY : DATA) / MTU - 1,
		       area.right[chunk + (parity ? K : 0)] + p * MTU, parity ? immediate : 5);
}

static inline void data_but(uint64_t k, unsigned lost)
{
	for (unsigned j = lost; j < K; j++)
		chunk_of(k, j, 0);
}

static inline void parity(uint64_t k, unsigned count, uint32_t immediate)
{
	for (unsigned i = 0; i < count; i++)
		chunk_of(k + 1, i, immediate);
}

static inline uint64_t total(enum sp_ec_total which)
{
	const struct sp_command c = {.op = SP_CMD_QUERY, .context = id, .arg = {which}};
	struct sp_event answer;

	CU_ASSERT_EQUAL(sp_command_call(dut.dev, &c, &answer), 0);
	return answer.arg[0];
}

static inline const struct sp_sdr_recv_status *status(uint64_t k)
{
	void *at;
	uint64_t len;

	CU_ASSERT_EQUAL_FATAL(sp_context_area(dut.dev, id, &at, &len), 0);
	return (const struct sp_sdr_recv_status *)((uint8_t *)at + 128) + k % 4;
}

static inline uint64_t bitmap(uint64_t k)
{
	const struct sp_sdr_area *a = (const void *)((const uint8_t *)status(0) - 128);
	uint64_t bits;

	memcpy(&bits, (const uint8_t *)a + a->bitmap + k % 4 * a->bitmap_stride, 8);
	return bits;
}

static inline bool is_whole(uint64_t k)
{
	for (unsigned j = 0; j < K; j++)
		if (memcmp(slot(k) + j * CHUNK, area.right[j], CHUNK))
			return false;
	return bitmap(k) == UINT32_MAX && status(k)->state == (SP_SDR_OPEN | SP_SDR_COMPLETE) &&
	       status(k)->length == (SP_SDR_LENGTH_FIXED | DATA);
}

static inline void settle(void)
{
	dut_settle(&dut, now);
	now += SP_US;
}

#endif
