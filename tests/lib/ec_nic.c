/* SPDX-License-Identifier: BSD-3-Clause */
#include "ec_nic.h"

struct sp_mr *ecn_mr;

static uint8_t ecn_memory[4 * SLOT];

uint32_t ecn_id;

struct ec_area ecn_area; /* a whole submessage, and its parity as defined */

sp_time ecn_now;

unsigned ecn_generations;

uint16_t ecn_workers = 1, ecn_queue; /* of the NIC; that packets come by */

void ecn_begin(const char *settings)
{
	static struct sp_random random;

	dut_prepare(&dut, ecn_workers);
	memcpy(dut.config.neighbour[0].ip, dut_peer4, 16);
	memcpy(dut.config.neighbour[0].mac, dut_peer_mac, 6);
	dut.config.neighbours = 1;
	dut_create(&dut);
	memset(ecn_memory, 0xEE, sizeof(ecn_memory));
	CU_ASSERT_EQUAL_FATAL(sp_mr_reg(dut.dev, ecn_memory, sizeof(ecn_memory), &ecn_mr), 0);
	ecn_id = dut_context(&dut, "sdr", "sdr", settings);
	sp_random_seed(&random, 1, 1);
	ec_area_new(&ecn_area, SP_EC_MDS, K, M, K, CHUNK, CHUNK, &random);
	ecn_now = SP_MS;
	ecn_generations = 2;
}

void ecn_stop(void)
{
	if (ecn_id)
		CU_ASSERT_EQUAL(sp_context_close(dut.dev, ecn_id), 0);
	CU_ASSERT_EQUAL(sp_mr_free(ecn_mr), 0); /* nothing holds it */
	ec_area_free(&ecn_area);
	dut_stop(&dut);
}

int ecn_call(uint16_t op, uint64_t cookie, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4)
{
	const struct sp_command c = {.op = op, .context = ecn_id, .cookie = cookie, .arg = {a0, a1, a2, a3, a4}};

	return sp_command_call(dut.dev, &c, NULL);
}

uint8_t *ecn_slot(uint64_t k)
{
	return ecn_memory + k % 4 * SLOT;
}

void ecn_post(uint64_t k, uint64_t length)
{
	CU_ASSERT_EQUAL_FATAL(ecn_call(SP_CMD_POST, k, ecn_mr->id, k % 4 * SLOT, length, 0, 0), 0);
}

void ecn_post_pair(uint64_t k)
{
	ecn_post(k, DATA);
	ecn_post(k + 1, PARITY);
}

void ecn_packet(uint64_t k, unsigned p, unsigned last, const uint8_t *bytes, uint32_t immediate)
{
	static struct frame f;

	dut_roce(&f, FRAME_IP4, 0x100 + (uint32_t)(k / 4 % ecn_generations), 0, NULL, SP_SDR_HEADER + MTU);
	uint8_t *bth = f.bytes + f.l4 + 8;
	bth[1] = p == last ? bth[1] | 0x80 : bth[1] & 0x7F;
	sp_store_be64(f.bytes + f.data, k % 4 * (256 << 10) + (uint64_t)p * MTU);
	sp_store_be32(f.bytes + f.data + 8, 7);
	sp_store_be32(f.bytes + f.data + 12, MTU);
	sp_store_be32(f.bytes + f.data + 16, (uint32_t)(k % 4) << 22 | p << 4 | (immediate >> p % 8 * 4 & 15));
	memcpy(f.bytes + f.data + SP_SDR_HEADER, bytes, MTU);
	dut_seal(&f);
	dut_feed_bytes(&dut.port, ecn_queue, 0, f.bytes, f.len);
}

const uint32_t ecn_right = 0x7FFFFFFF; /* stands for the immediate that fits */

void ecn_chunk_of(uint64_t k, unsigned chunk, uint32_t immediate)
{
	const bool parity = k & 1;

	if (immediate == ecn_right)
		immediate = sp_ec_immediate(SP_EC_CODE_MDS, K, M, DATA);
	for (unsigned p = 0; p < CHUNK / MTU; p++)
		ecn_packet(k, chunk * CHUNK / MTU + p, (parity ? PARITY : DATA) / MTU - 1,
			   ecn_area.right[chunk + (parity ? K : 0)] + p * MTU, parity ? immediate : 5);
}

void ecn_data_but(uint64_t k, unsigned lost)
{
	for (unsigned j = lost; j < K; j++)
		ecn_chunk_of(k, j, 0);
}

void ecn_parity(uint64_t k, unsigned count, uint32_t immediate)
{
	for (unsigned i = 0; i < count; i++)
		ecn_chunk_of(k + 1, i, immediate);
}

uint64_t ecn_total(enum sp_ec_total which)
{
	const struct sp_command c = {.op = SP_CMD_QUERY, .context = ecn_id, .arg = {which}};
	struct sp_event answer;

	CU_ASSERT_EQUAL(sp_command_call(dut.dev, &c, &answer), 0);
	return answer.arg[0];
}

const struct sp_sdr_recv_status *ecn_status(uint64_t k)
{
	void *at;
	uint64_t len;

	CU_ASSERT_EQUAL_FATAL(sp_context_area(dut.dev, ecn_id, &at, &len), 0);
	return (const struct sp_sdr_recv_status *)((uint8_t *)at + 128) + k % 4;
}

uint64_t ecn_bitmap(uint64_t k)
{
	const struct sp_sdr_area *a = (const void *)((const uint8_t *)ecn_status(0) - 128);
	uint64_t bits;

	memcpy(&bits, (const uint8_t *)a + a->bitmap + k % 4 * a->bitmap_stride, 8);
	return bits;
}

bool ecn_is_whole(uint64_t k)
{
	for (unsigned j = 0; j < K; j++)
		if (memcmp(ecn_slot(k) + j * CHUNK, ecn_area.right[j], CHUNK))
			return false;
	return ecn_bitmap(k) == UINT32_MAX && ecn_status(k)->state == (SP_SDR_OPEN | SP_SDR_COMPLETE) &&
	       ecn_status(k)->length == (SP_SDR_LENGTH_FIXED | DATA);
}

void ecn_settle(void)
{
	dut_settle(&dut, ecn_now);
	ecn_now += SP_US;
}
