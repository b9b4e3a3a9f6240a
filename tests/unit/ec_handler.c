/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ec handler beside sdr, poll by poll: what comes, goes or ends while a submessage is being repaired or its parity
 * made; parity that does not fit; commands that lie. What is repaired in general is property/ec_sdr.c's.
 */
#include "../../handlers/wire/ec.h"
#include "../../handlers/wire/roce.h"
#include "../../handlers/wire/sdr.h"
#include "../../pipeline/context.h"
#include "ec.h"
#include "rig.h"

enum { K = 32, M = 8, MTU = 1024, CHUNK = 8192, DATA = K * CHUNK, PARITY = M * CHUNK, SLOT = DATA + 4096 };
#define BASE	 "qp=0x100;mtu=1024;chunk-bytes=8192;max-message-bytes=256K;rkey=7;companion=ec;max-packet-life=0ps;"
#define RECEIVER BASE "max-messages=4;generations=2"
#define SENDER	 BASE "max-messages=4;credit=implicit"

static struct rig rig;
static struct sp_mr *mr;
static uint8_t memory[4 * SLOT];
static uint32_t id;
static struct ec_area area; /* a whole submessage, and its parity as defined */
static sp_time now;
static unsigned generations;
static uint16_t workers = 1, queue; /* of the NIC; that packets come by */

static void begin(const char *settings)
{
	static struct sp_random random;

	rig_prepare(&rig, workers);
	memcpy(rig.config.neighbour[0].ip, rig_peer4, 16);
	memcpy(rig.config.neighbour[0].mac, rig_peer_mac, 6);
	rig.config.neighbours = 1;
	rig_create(&rig);
	memset(memory, 0xEE, sizeof(memory));
	CU_ASSERT_EQUAL_FATAL(sp_mr_reg(rig.dev, memory, sizeof(memory), &mr), 0);
	id = rig_context(&rig, "sdr", "sdr", settings);
	sp_random_seed(&random, 1, 1);
	ec_area_new(&area, SP_EC_MDS, K, M, K, CHUNK, CHUNK, &random);
	now = SP_MS;
	generations = 2;
}

static void end(void)
{
	if (id)
		CU_ASSERT_EQUAL(sp_context_close(rig.dev, id), 0);
	CU_ASSERT_EQUAL(sp_mr_free(mr), 0); /* nothing holds it */
	ec_area_free(&area);
	rig_stop(&rig);
}

static int call(uint16_t op, uint64_t cookie, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4)
{
	const struct sp_command c = {.op = op, .context = id, .cookie = cookie, .arg = {a0, a1, a2, a3, a4}};

	return sp_command_call(rig.dev, &c, NULL);
}

static uint8_t *slot(uint64_t k)
{
	return memory + k % 4 * SLOT;
}

static void post(uint64_t k, uint64_t length)
{
	CU_ASSERT_EQUAL_FATAL(call(SP_CMD_POST, k, mr->id, k % 4 * SLOT, length, 0, 0), 0);
}

static void post_pair(uint64_t k)
{
	post(k, DATA);
	post(k + 1, PARITY);
}

/* Packet p of message k, which ends with packet `last`. */
static void packet(uint64_t k, unsigned p, unsigned last, const uint8_t *bytes, uint32_t immediate)
{
	static struct frame f;
	uint8_t *bth;

	rig_roce(&f, FRAME_IP4, 0x100 + (uint32_t)(k / 4 % generations), 0, NULL, SP_SDR_HEADER + MTU);
	bth = f.bytes + f.l4 + 8;
	bth[1] = p == last ? bth[1] | 0x80 : bth[1] & 0x7F;
	sp_store_be64(f.bytes + f.data, k % 4 * (256 << 10) + (uint64_t)p * MTU);
	sp_store_be32(f.bytes + f.data + 8, 7);
	sp_store_be32(f.bytes + f.data + 12, MTU);
	sp_store_be32(f.bytes + f.data + 16, (uint32_t)(k % 4) << 22 | p << 4 | (immediate >> p % 8 * 4 & 15));
	memcpy(f.bytes + f.data + SP_SDR_HEADER, bytes, MTU);
	rig_seal(&f);
	rig_feed_bytes(&rig.port, queue, 0, f.bytes, f.len);
}

static const uint32_t right = 0x7FFFFFFF; /* stands for the immediate that fits */

static void chunk_of(uint64_t k, unsigned chunk, uint32_t immediate)
{
	const bool parity = k & 1;

	if (immediate == right)
		immediate = sp_ec_immediate(SP_EC_CODE_MDS, K, M, DATA);
	for (unsigned p = 0; p < CHUNK / MTU; p++)
		packet(k, chunk * CHUNK / MTU + p, (parity ? PARITY : DATA) / MTU - 1,
		       area.right[chunk + (parity ? K : 0)] + p * MTU, parity ? immediate : 5);
}

static void data_but(uint64_t k, unsigned lost)
{
	for (unsigned j = lost; j < K; j++)
		chunk_of(k, j, 0);
}

static void parity(uint64_t k, unsigned count, uint32_t immediate)
{
	for (unsigned i = 0; i < count; i++)
		chunk_of(k + 1, i, immediate);
}

static uint64_t total(enum sp_ec_total which)
{
	const struct sp_command c = {.op = SP_CMD_QUERY, .context = id, .arg = {which}};
	struct sp_event answer;

	CU_ASSERT_EQUAL(sp_command_call(rig.dev, &c, &answer), 0);
	return answer.arg[0];
}

static const struct sp_sdr_recv_status *status(uint64_t k)
{
	void *at;
	uint64_t len;

	CU_ASSERT_EQUAL_FATAL(sp_context_area(rig.dev, id, &at, &len), 0);
	return (const struct sp_sdr_recv_status *)((uint8_t *)at + 128) + k % 4;
}

static uint64_t bitmap(uint64_t k)
{
	const struct sp_sdr_area *a = (const void *)((const uint8_t *)status(0) - 128);
	uint64_t bits;

	memcpy(&bits, (const uint8_t *)a + a->bitmap + k % 4 * a->bitmap_stride, 8);
	return bits;
}

static bool is_whole(uint64_t k)
{
	for (unsigned j = 0; j < K; j++)
		if (memcmp(slot(k) + j * CHUNK, area.right[j], CHUNK))
			return false;
	return bitmap(k) == UINT32_MAX && status(k)->state == (SP_SDR_OPEN | SP_SDR_COMPLETE) &&
	       status(k)->length == (SP_SDR_LENGTH_FIXED | DATA);
}

static void settle(void)
{
	rig_settle(&rig, now);
	now += SP_US;
}

/* Everything of the pair has come but `lost` chunks, and the repair has begun and not ended. */
static void mid_repair(uint64_t k, unsigned lost)
{
	const uint64_t before = total(SP_EC_DECODE_SLICES);

	data_but(k, lost);
	settle();
	parity(k, lost, right);
	while (total(SP_EC_DECODE_SLICES) == before)
		CU_ASSERT_NOT_EQUAL_FATAL(rig_poll(&rig, now), 0);
	CU_ASSERT_EQUAL(bitmap(k), UINT32_MAX << lost);
}

/* ---- attaching -----------------------------------------------------------------------------------------------------
 */
static void impossible_codes_are_refused_by_name(void)
{
	static const char *const bad[][2] = {
		{"k", BASE "max-messages=4;k=0"},
		{"k", BASE "max-messages=4;k=255"},
		{"m", BASE "max-messages=4;m=0"},
		{"m", BASE "max-messages=4;k=200;m=56"},
		{"m", BASE "max-messages=4;code=xor;k=4;m=5"},
		{"code", BASE "max-messages=4;code=raid"},
		{"max-messages", BASE "max-messages=5"},
		{"generations", SENDER ";generations=1"},
		{"max-messages", BASE "max-messages=1"},
	};
	struct sp_error error;
	uint32_t none;

	begin(RECEIVER);
	CU_ASSERT_EQUAL(sp_context_close(rig.dev, id), 0);
	id = 0;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		CU_ASSERT(rig_try_context(&rig, "bad", "sdr", bad[i][1], &none, &error) < 0);
		if (strcmp(error.key, bad[i][0]))
			printf("# %s: %s: %s\n", bad[i][1], error.key, error.text);
		CU_ASSERT_STRING_EQUAL(error.key, bad[i][0]);
	}
	CU_ASSERT_EQUAL(rig_try_context(&rig, "bad", "count", "filter=udp;companion=ec", &none, &error), -EINVAL);
	CU_ASSERT_STRING_EQUAL(error.key, "companion");
	CU_ASSERT(rig_try_context(&rig, "bad", "ec", "filter=udp", &none, &error) < 0);
	end();
}

/* ---- repair --------------------------------------------------------------------------------------------------------
 */
static void the_packet_that_makes_it_possible_starts_the_repair_in_slices(void)
{
	uint64_t slices;

	begin(RECEIVER);
	post_pair(0);
	data_but(0, M);
	parity(0, M - 1, right);
	for (unsigned p = 0; p < CHUNK / MTU - 1; p++)
		packet(1, (M - 1) * CHUNK / MTU + p, PARITY / MTU - 1, area.right[K + M - 1] + p * MTU,
		       sp_ec_immediate(SP_EC_CODE_MDS, K, M, DATA));
	settle();
	CU_ASSERT_EQUAL(total(SP_EC_DECODE_SLICES), 0);
	CU_ASSERT_EQUAL(bitmap(0), UINT32_MAX << M);
	packet(1, PARITY / MTU - 1, PARITY / MTU - 1, area.right[K + M - 1] + CHUNK - MTU,
	       sp_ec_immediate(SP_EC_CODE_MDS, K, M, DATA));
	while (!is_whole(0)) {
		slices = total(SP_EC_DECODE_SLICES);
		CU_ASSERT_NOT_EQUAL_FATAL(rig_poll(&rig, now), 0);
		CU_ASSERT(total(SP_EC_DECODE_SLICES) <= slices + 1);
	}
	settle();
	/* (32 data and 8 rows of 8 KiB) in units of a byte: what SP_EC_SLICE counts */
	CU_ASSERT(total(SP_EC_DECODE_SLICES) >= (uint64_t)K * M * CHUNK / SP_EC_SLICE);
	CU_ASSERT_EQUAL(total(SP_EC_REPAIRED_CHUNKS), M);
	CU_ASSERT_EQUAL(total(SP_EC_DECODED), 1);
	CU_ASSERT_EQUAL(total(SP_EC_DECODED_BYTES), M * CHUNK);
	CU_ASSERT_EQUAL(rig_counter(&rig, id, "parity_packets"), PARITY / MTU);
	CU_ASSERT_EQUAL(status(0)->packets, (K - M) * CHUNK / MTU);
	CU_ASSERT_EQUAL(call(SP_CMD_COMPLETE, 0, 0, 0, 0, 0, 0), 0);
	CU_ASSERT_EQUAL(total(SP_EC_FAILED), 0);
	end();
}

static void what_comes_for_a_chunk_in_repair_is_counted_and_not_written(void)
{
	static const uint8_t other[MTU] = {1, 2, 3};

	begin(RECEIVER);
	post_pair(0);
	packet(0, 3, DATA / MTU - 1, area.right[0] + 3 * MTU, 0); /* a chunk of which a part had come */
	mid_repair(0, M);
	for (unsigned p = 0; p < M * CHUNK / MTU; p++)
		packet(0, p, DATA / MTU - 1, other, 0);
	settle();
	CU_ASSERT(is_whole(0));
	CU_ASSERT_EQUAL(total(SP_EC_REPAIRED_CHUNKS), M);
	CU_ASSERT_EQUAL(rig_counter(&rig, id, "late_data_packets"), M * CHUNK / MTU);
	CU_ASSERT_EQUAL(rig_counter(&rig, id, "duplicates"), M * CHUNK / MTU);
	packet(0, 0, DATA / MTU - 1, other, 0); /* and after it */
	settle();
	CU_ASSERT(is_whole(0));
	CU_ASSERT_EQUAL(rig_counter(&rig, id, "late_data_packets"), M * CHUNK / MTU + 1);
	/* The next message's are not late. */
	post_pair(2);
	for (unsigned k = 0; k < 2; k++)
		CU_ASSERT_EQUAL(call(SP_CMD_COMPLETE, k, 0, 0, 0, 0, 0), 0);
	post_pair(4);
	settle();
	data_but(4, 0);
	settle();
	CU_ASSERT(is_whole(4));
	CU_ASSERT_EQUAL(rig_counter(&rig, id, "late_data_packets"), M * CHUNK / MTU + 1);
	end();
}

static void a_message_ends_after_the_repair_that_it_is_in(void)
{
	for (unsigned which = 0; which < 2; which++) {
		static uint8_t kept[SLOT];

		begin(RECEIVER);
		post_pair(0);
		mid_repair(0, M);
		CU_ASSERT_EQUAL(call(SP_CMD_COMPLETE, which, 0, 0, 0, 0, 0), 0);
		CU_ASSERT_EQUAL(status(which)->released, 0);
		CU_ASSERT_EQUAL(sp_mr_free(mr), -EBUSY);
		for (unsigned i = 0; i < 1000 && !status(which)->released; i++)
			rig_poll(&rig, now);
		CU_ASSERT_EQUAL(status(which)->released, which + 1);
		CU_ASSERT(which ? is_whole(0) : bitmap(0) == 0);
		memcpy(kept, slot(which), SLOT);
		parity(0, M, right); /* late */
		data_but(0, 0);
		settle();
		CU_ASSERT_EQUAL(memcmp(kept, slot(which), SLOT), 0);
		CU_ASSERT_EQUAL(call(SP_CMD_COMPLETE, !which, 0, 0, 0, 0, 0), 0);
		settle();
		CU_ASSERT_EQUAL(call(SP_CMD_COMPLETE, 0, 0, 0, 0, 0, 0), -ENOENT);
		end();
	}
}

static void a_context_may_end_while_it_repairs(void)
{
	begin(RECEIVER);
	post_pair(0);
	mid_repair(0, M);
	CU_ASSERT_EQUAL(sp_context_close(rig.dev, id), 0);
	id = 0;
	settle();
	end();
}

/* Two submessages can be repaired; parity is taken back while the first of them is. */
static void what_has_not_begun_is_not_repaired_without_its_parity(void)
{
	const uint32_t immediate = sp_ec_immediate(SP_EC_CODE_MDS, 16, 8, DATA);
	const unsigned packets = 16 * CHUNK / MTU, half = packets / 2;

	begin(BASE "max-messages=4;generations=2;k=16;m=8");
	post(0, DATA);
	post(1, 16 * CHUNK);
	for (unsigned j = 0; j < K; j++)
		if (j % 16 >= 8)
			chunk_of(0, j, 0);
	for (unsigned p = 0; p < packets; p++)
		if (p != 0 && p != half)
			packet(1, p, packets - 1, area.right[K], immediate);
	settle();
	CU_ASSERT_EQUAL(total(SP_EC_DECODE_SLICES), 0);
	packet(1, 0, packets - 1, area.right[K], immediate);
	packet(1, half, packets - 1, area.right[K], immediate);
	while (!total(SP_EC_DECODE_SLICES))
		CU_ASSERT_NOT_EQUAL_FATAL(rig_poll(&rig, now), 0);
	CU_ASSERT_EQUAL(total(SP_EC_DECODED), 0);
	CU_ASSERT_EQUAL(call(SP_CMD_COMPLETE, 1, 0, 0, 0, 0, 0), 0);
	settle();
	CU_ASSERT_EQUAL(status(1)->released, 2);
	CU_ASSERT_EQUAL(total(SP_EC_DECODED), 1);
	CU_ASSERT_EQUAL(bitmap(0), 0xFF00FFFFull);
	chunk_of(0, 16, 0); /* what comes now finds nothing to do */
	settle();
	CU_ASSERT_EQUAL(bitmap(0), 0xFF01FFFFull);
	end();
}

static uint64_t slices_of(uint16_t worker)
{
	return sp_context_by_id(rig.nic, id)->companion->view[worker]->pub.counters[SP_EC_DECODE_SLICES];
}

/* Of two submessages `lost` chunks each are missing; of the parity all packets but two have come, each the last of a
 * chunk. */
static void two_submessages(unsigned lost, unsigned first, unsigned second)
{
	workers = 2;
	begin(BASE "max-messages=4;generations=2;k=16;m=8");
	post(0, DATA);
	post(1, 16 * CHUNK);
	for (unsigned j = 0; j < K; j++)
		if (j % 16 >= lost)
			chunk_of(0, j, 0);
	for (unsigned p = 0; p < 16 * CHUNK / MTU; p++)
		if (p != first && p != second)
			packet(1, p, 16 * CHUNK / MTU - 1, area.right[K], sp_ec_immediate(SP_EC_CODE_MDS, 16, 8, DATA));
	settle();
}

static void last_of_chunks(unsigned first, unsigned second)
{
	for (queue = 0; queue < 2; queue++)
		packet(1, queue ? second : first, 16 * CHUNK / MTU - 1, area.right[K],
		       sp_ec_immediate(SP_EC_CODE_MDS, 16, 8, DATA));
	queue = 0;
}

static void workers_repair_one_message_together(void)
{
	two_submessages(8, 0, 8 * CHUNK / MTU);
	CU_ASSERT_EQUAL(total(SP_EC_DECODE_SLICES), 0);
	last_of_chunks(0, 8 * CHUNK / MTU);
	while (!slices_of(0) || !slices_of(1))
		CU_ASSERT_NOT_EQUAL_FATAL(rig_poll(&rig, now), 0);
	CU_ASSERT_EQUAL(total(SP_EC_DECODED), 0); /* both are at it */
	settle();
	CU_ASSERT_EQUAL(total(SP_EC_DECODED), 2);
	CU_ASSERT_EQUAL(total(SP_EC_REPAIRED_CHUNKS), 16);
	CU_ASSERT_EQUAL(slices_of(0), slices_of(1));
	CU_ASSERT_EQUAL(status(0)->state, SP_SDR_OPEN | SP_SDR_COMPLETE);
	end();
	workers = 1;
}

/* Seven losses: the seventh chunk of parity makes it possible, and the eighth comes at the same time on another worker.
 */
static void what_two_workers_find_is_repaired_once(void)
{
	two_submessages(7, 6 * CHUNK / MTU, 7 * CHUNK / MTU);
	CU_ASSERT_EQUAL(total(SP_EC_DECODED), 1); /* the other submessage */
	const uint64_t one = total(SP_EC_DECODE_SLICES);

	last_of_chunks(6 * CHUNK / MTU, 7 * CHUNK / MTU);
	settle();
	CU_ASSERT_EQUAL(total(SP_EC_DECODED), 2);
	CU_ASSERT_EQUAL(total(SP_EC_REPAIRED_CHUNKS), 14);
	/* twice would be three; the same losses as before, so tables need not be made again */
	CU_ASSERT(total(SP_EC_DECODE_SLICES) > one && total(SP_EC_DECODE_SLICES) <= 2 * one);
	CU_ASSERT_EQUAL(status(0)->state, SP_SDR_OPEN | SP_SDR_COMPLETE);
	end();
	workers = 1;
}

/* Parity of everything has come, of data only the first half, and then the packet that tells the length. */
static void many_submessages_are_looked_at_a_few_at_a_time(void)
{
	const unsigned chunks = 200;
	const uint32_t immediate = sp_ec_immediate(SP_EC_CODE_MDS, 1, 1, (uint64_t)chunks * MTU);
	uint64_t slices;

	begin("qp=0x100;mtu=1024;chunk-bytes=1024;max-message-bytes=256K;rkey=7;companion=ec;max-messages=4;"
	      "generations=2;"
	      "k=1;m=1");
	post(0, DATA);
	post(1, DATA);
	for (unsigned p = 0; p < chunks / 2; p++)
		packet(0, p, chunks - 1, area.right[p % K] + MTU, 0);
	for (unsigned p = 0; p < chunks; p++)
		packet(1, p, chunks - 1, area.right[p % K] + MTU, immediate);
	settle();
	CU_ASSERT_EQUAL(total(SP_EC_DECODED), 0);
	packet(0, chunks - 1, chunks - 1, area.right[(chunks - 1) % K] + MTU, 0);
	do {
		slices = total(SP_EC_DECODED);
		CU_ASSERT_NOT_EQUAL_FATAL(rig_poll(&rig, now), 0);
		CU_ASSERT(total(SP_EC_DECODED) <= slices + 64); /* EC_LOOKS */
	} while (total(SP_EC_DECODED) < chunks / 2 - 1);
	CU_ASSERT(total(SP_EC_DECODE_SLICES) <= 4); /* a submessage is 1024 * 3 + SP_EC_ONE of SP_EC_SLICE */
	settle();
	CU_ASSERT_EQUAL(status(0)->state, SP_SDR_OPEN | SP_SDR_COMPLETE);
	end();
}

/* Of each two neighbours one is lost; then comes the parity of those alone, in runs of many packets. */
static void each_submessage_that_a_run_of_packets_makes_repairable_is_repaired(void)
{
	const unsigned chunks = 200;
	const uint32_t immediate = sp_ec_immediate(SP_EC_CODE_MDS, 1, 1, (uint64_t)chunks * MTU);

	begin("qp=0x100;mtu=1024;chunk-bytes=1024;max-message-bytes=256K;rkey=7;companion=ec;max-messages=4;"
	      "generations=2;"
	      "k=1;m=1");
	post(0, DATA);
	post(1, DATA);
	for (unsigned p = 0; p < chunks; p += 2)
		packet(0, p, chunks - 1, area.right[p % K] + MTU, 0);
	packet(0, chunks - 1, chunks - 1, area.right[(chunks - 1) % K] + MTU, 0);
	settle();
	CU_ASSERT_EQUAL(total(SP_EC_DECODED), 0);
	for (unsigned p = 1; p < chunks - 1; p += 2)
		packet(1, p, chunks - 1, area.right[p % K] + MTU, immediate);
	settle();
	CU_ASSERT_EQUAL(total(SP_EC_DECODED), chunks / 2 - 1);
	CU_ASSERT_EQUAL(status(0)->state, SP_SDR_OPEN | SP_SDR_COMPLETE);
	end();
}

static void parity_first_twice_and_late_does_what_it_should(void)
{
	begin(RECEIVER);
	post_pair(0);
	post_pair(2);
	parity(0, M, right);
	settle();
	parity(0, M, right);
	data_but(0, M);
	settle();
	CU_ASSERT(is_whole(0));
	CU_ASSERT_EQUAL(total(SP_EC_DECODED), 1);
	for (unsigned k = 0; k < 2; k++)
		CU_ASSERT_EQUAL(call(SP_CMD_COMPLETE, k, 0, 0, 0, 0, 0), 0);
	memset(slot(0), 0xEE, SLOT);
	parity(0, M, right); /* of a pair that is gone */
	settle();
	parity(2, M - 1, right); /* not enough of its own, and that of others does not help */
	data_but(2, M);
	parity(0, M, right);
	settle();
	CU_ASSERT_EQUAL(bitmap(2), UINT32_MAX << M);
	CU_ASSERT_EQUAL(total(SP_EC_DECODED), 1);
	for (unsigned i = 0; i < SLOT; i++)
		CU_ASSERT_EQUAL_FATAL(slot(0)[i], 0xEE);
	chunk_of(3, M - 1, right);
	settle();
	CU_ASSERT(is_whole(2));
	end();
}

/* One generation: the keys are the same, and parity of an earlier message may be there still. */
static void parity_repairs_its_own_message_only(void)
{
	begin(BASE "max-messages=4;generations=1");
	generations = 1;
	post_pair(0);
	post_pair(2);
	data_but(0, 0);
	settle();
	parity(0, M, right);
	settle();
	CU_ASSERT_EQUAL(call(SP_CMD_COMPLETE, 0, 0, 0, 0, 0, 0), 0);
	memset(slot(0), 0xEE, SLOT);
	post(4, DATA);
	now += SP_MS;
	rig_run(&rig, now, now + 10 * SP_MS);
	now += 10 * SP_MS;
	CU_ASSERT_EQUAL(status(4)->message, 5);
	data_but(4, M);
	parity(0, 1, right); /* once more: it is looked at again */
	settle();
	CU_ASSERT_EQUAL(bitmap(4), UINT32_MAX << M);
	CU_ASSERT_EQUAL(total(SP_EC_DECODE_SLICES), 0);
	end();
}

/* 20 chunks, posted as 32: what is missing is only known with the packet that ends the message. */
static void the_packet_that_tells_the_length_may_come_last(void)
{
	const unsigned chunks = 20, rows = 5, last = chunks * CHUNK / MTU - 1;
	const uint32_t immediate = sp_ec_immediate(SP_EC_CODE_MDS, K, M, (uint64_t)chunks * CHUNK);

	begin(RECEIVER);
	ec_area_free(&area);
	ec_area_new(&area, SP_EC_MDS, K, M, chunks, CHUNK, CHUNK, NULL);
	post_pair(0);
	for (unsigned p = CHUNK / MTU; p < last; p++)
		if (p != (chunks - 1) * CHUNK / MTU)
			packet(0, p, last, area.right[p * MTU / CHUNK] + p * MTU % CHUNK, 0);
	for (unsigned p = 0; p < rows * CHUNK / MTU; p++)
		packet(1, p, rows * CHUNK / MTU - 1, area.right[chunks + p * MTU / CHUNK] + p * MTU % CHUNK, immediate);
	settle();
	CU_ASSERT_EQUAL(total(SP_EC_DECODE_SLICES), 0);
	packet(0, last, last, area.right[chunks - 1] + CHUNK - MTU, 0);
	settle();
	CU_ASSERT_EQUAL(bitmap(0), (1u << chunks) - 1);
	for (unsigned j = 0; j < chunks; j++)
		CU_ASSERT_EQUAL(memcmp(slot(0) + j * CHUNK, area.right[j], CHUNK), 0);
	for (unsigned i = chunks * CHUNK; i < SLOT; i++)
		CU_ASSERT_EQUAL_FATAL(slot(0)[i], 0xEE);
	end();
}

static void a_message_of_which_nothing_came_is_made_of_parity(void)
{
	const unsigned rows = 4;

	begin(BASE "max-messages=4;generations=2;k=4;m=4");
	ec_area_free(&area);
	ec_area_new(&area, SP_EC_MDS, rows, rows, rows, CHUNK, CHUNK, NULL);
	post(0, rows * CHUNK);
	post(1, rows * CHUNK);
	for (unsigned i = 0; i < rows; i++)
		for (unsigned p = 0; p < CHUNK / MTU; p++)
			packet(1, i * CHUNK / MTU + p, rows * CHUNK / MTU - 1, area.right[rows + i] + p * MTU,
			       sp_ec_immediate(SP_EC_CODE_MDS, rows, rows, (uint64_t)rows * CHUNK));
	settle();
	CU_ASSERT_EQUAL(bitmap(0), 15);
	for (unsigned j = 0; j < rows; j++)
		CU_ASSERT_EQUAL(memcmp(slot(0) + j * CHUNK, area.right[j], CHUNK), 0);
	CU_ASSERT_EQUAL(status(0)->packets, 0);
	CU_ASSERT_EQUAL(status(0)->state, SP_SDR_OPEN | SP_SDR_COMPLETE);
	end();
}

/* Also of a place in the list of codes that has none, and of two places, whichever packet of a chunk says otherwise. */
static void parity_of_another_code_or_length_repairs_nothing_and_is_counted(void)
{
	const uint32_t fits = sp_ec_immediate(SP_EC_CODE_MDS, K, M, DATA);
	const uint32_t wrong[] = {sp_ec_immediate(SP_EC_CODE_XOR, K, M, DATA),
				  sp_ec_immediate(SP_EC_CODE_MDS, 16, 4, DATA),
				  sp_ec_immediate(SP_EC_CODE_MDS, M, K, DATA),
				  sp_ec_immediate(SP_EC_CODE_MDS, K, M, DATA - 1),
				  0,
				  fits ^ 0xFFFFFFFF,
				  fits ^ 1,
				  fits ^ 0x10000000,
				  fits ^ 0x22222221};

	for (unsigned i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		begin(RECEIVER);
		post_pair(0);
		data_but(0, M);
		parity(0, M, wrong[i]);
		settle();
		CU_ASSERT_EQUAL(bitmap(0), UINT32_MAX << M);
		CU_ASSERT_EQUAL(total(SP_EC_MISMATCHES), 1);
		for (unsigned b = 0; b < M * CHUNK; b++)
			CU_ASSERT_EQUAL_FATAL(slot(0)[b], 0xEE);
		for (unsigned j = 0; j < M; j++) /* they are sent again, as without any code */
			chunk_of(0, j, 0);
		settle();
		CU_ASSERT(is_whole(0));
		end();
	}
	/* Another code's immediate, but the length of the first one's parity. */
	begin(RECEIVER);
	post_pair(0);
	data_but(0, M);
	parity(0, M, sp_ec_immediate_of(fits, 1));
	settle();
	CU_ASSERT_EQUAL(bitmap(0), UINT32_MAX << M);
	CU_ASSERT_EQUAL(total(SP_EC_MISMATCHES), 1);
	end();
	/* The right immediate, but another length. */
	begin(RECEIVER);
	post_pair(0);
	data_but(0, M);
	parity(0, M - 1, right);
	packet(1, (M - 1) * CHUNK / MTU, (M - 1) * CHUNK / MTU, area.right[K],
	       sp_ec_immediate(SP_EC_CODE_MDS, K, M, DATA));
	for (unsigned j = 0; j < 2; j++)
		chunk_of(0, j, 0);
	settle();
	CU_ASSERT_EQUAL(bitmap(0), UINT32_MAX & ~0xFCull);
	CU_ASSERT_EQUAL(total(SP_EC_MISMATCHES), 1);
	end();
}

static void more_losses_than_parity_are_left_and_counted_as_failed(void)
{
	begin(RECEIVER);
	post_pair(0);
	data_but(0, M + 1);
	parity(0, M, right);
	settle();
	CU_ASSERT_EQUAL(bitmap(0), UINT32_MAX << (M + 1));
	CU_ASSERT_EQUAL(call(SP_CMD_COMPLETE, 0, 0, 0, 0, 0, 0), 0);
	settle();
	CU_ASSERT_EQUAL(total(SP_EC_FAILED), 1);
	CU_ASSERT_EQUAL(total(SP_EC_DECODE_SLICES), 0);
	end();
}

/* ---- sending -------------------------------------------------------------------------------------------------------
 */
static void connect_peer(void)
{
	struct sp_command c = {.op = SP_SDR_CMD_CONNECT, .context = id, .arg = {[2] = 0x200, 1, 2, 7}};

	memcpy(c.arg, rig_peer4, 16);
	CU_ASSERT_EQUAL_FATAL(sp_command_call(rig.dev, &c, NULL), 0);
}

static int send_data(uint64_t k)
{
	for (unsigned j = 0; j < K; j++)
		memcpy(slot(k) + j * CHUNK, area.right[j], CHUNK);
	return call(SP_SDR_CMD_SEND, k, mr->id, k % 4 * SLOT, DATA, 0, 0);
}

static int send_parity(uint64_t k)
{
	return call(SP_EC_CMD_PARITY, k, mr->id, (k - 1) % 4 * SLOT, DATA, mr->id, k % 4 * SLOT);
}

static void parity_is_sent_as_defined_behind_the_data(void)
{
	const uint32_t immediate = sp_ec_immediate(SP_EC_CODE_MDS, K, M, DATA);
	unsigned parities = 0;

	begin(SENDER);
	connect_peer();
	CU_ASSERT_EQUAL(send_data(0), 0);
	CU_ASSERT_EQUAL(send_parity(1), 0);
	settle();
	CU_ASSERT_EQUAL(rig.port.sents, (DATA + PARITY) / MTU);
	for (unsigned i = 0; i < rig.port.sents; i++) {
		const uint8_t *bth = rig.port.sent[i].bytes + 42, *reth = bth + 12;
		const uint32_t imm = sp_load_be32(reth + 16), p = imm >> 4 & 0x3FFFF;

		if (imm >> 22 == 0) {
			CU_ASSERT_EQUAL(parities, 0);
			continue;
		}
		CU_ASSERT_EQUAL(imm >> 22, 1);
		CU_ASSERT_EQUAL(p, parities);
		CU_ASSERT_EQUAL(sp_load_be64(reth), (256 << 10) + (uint64_t)p * MTU);
		CU_ASSERT_EQUAL(imm & 15, immediate >> p % 8 * 4 & 15);
		CU_ASSERT_EQUAL(bth[1] >> 7, p == PARITY / MTU - 1);
		CU_ASSERT_EQUAL(memcmp(reth + 20, area.right[K + p * MTU / CHUNK] + p * MTU % CHUNK, MTU), 0);
		parities++;
	}
	CU_ASSERT_EQUAL(parities, PARITY / MTU);
	CU_ASSERT_EQUAL(total(SP_EC_ENCODED), 1);
	CU_ASSERT_EQUAL(total(SP_EC_ENCODED_BYTES), PARITY);
	CU_ASSERT(total(SP_EC_ENCODE_SLICES) >= (uint64_t)K * M * CHUNK / SP_EC_SLICE);
	end();
}

static void commands_for_parity_are_not_believed(void)
{
	static const struct {
		int rc;
		uint64_t cookie, arg[5];
	} bad[] = {
		{-EINVAL, 0, {0, 0, DATA, 0, SLOT}}, /* not of data */
		{-EINVAL, 3, {0, 0, DATA, 0, SLOT}}, /* not the next */
		{-EINVAL, UINT64_MAX, {0, 0, DATA, 0, SLOT}}, {-EINVAL, 1, {0, 0, (256 << 10) + 1, 0, SLOT}},
		{-EINVAL, 1, {0, 0, UINT64_MAX, 0, SLOT}},    {-EFAULT, 1, {99, 0, DATA, 0, SLOT}},
		{-EFAULT, 1, {0, 0, DATA, 99, SLOT}},	      {-EFAULT, 1, {1ull << 32, 0, DATA, 0, SLOT}},
		{-EFAULT, 1, {0, 0, DATA, 1ull << 32, SLOT}}, {-EFAULT, 1, {0, 4 * SLOT - DATA + 1, DATA, 0, SLOT}},
		{-EFAULT, 1, {0, UINT64_MAX, DATA, 0, SLOT}}, {-EFAULT, 1, {0, 0, DATA, 0, 4 * SLOT - PARITY + 1}},
		{-EFAULT, 1, {0, 0, DATA, 0, UINT64_MAX}},
	};

	begin(SENDER);
	CU_ASSERT_EQUAL(call(SP_EC_CMD_PARITY, 1, mr->id, 0, DATA, mr->id, SLOT), -ENOTCONN);
	connect_peer();
	CU_ASSERT_EQUAL(send_data(0), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		const uint64_t *a = bad[i].arg, m0 = a[0] ? a[0] : mr->id, m3 = a[3] ? a[3] : mr->id;
		const int rc = call(SP_EC_CMD_PARITY, bad[i].cookie, m0, a[1], a[2], m3, a[4]);

		if (rc != bad[i].rc)
			printf("# bad[%zu]: %d\n", i, rc);
		CU_ASSERT_EQUAL(rc, bad[i].rc);
	}
	for (unsigned i = 0; i < 2; i++) { /* codes that there are not */
		const uint64_t which = i ? UINT64_MAX : SP_EC_CODES_MAX;
		const struct sp_command c = {.op = SP_EC_CMD_PARITY,
					     .context = id,
					     .cookie = 1,
					     .arg = {mr->id, 0, DATA, mr->id, SLOT, which}};

		CU_ASSERT_EQUAL(sp_command_call(rig.dev, &c, NULL), -EINVAL);
	}
	CU_ASSERT_EQUAL(call(SP_CMD_QUERY, 0, SP_EC_TOTALS, 0, 0, 0, 0), -EINVAL);
	CU_ASSERT_EQUAL(call(SP_EC_CMD_PARITY + 1, 1, mr->id, 0, DATA, mr->id, SLOT), -EOPNOTSUPP);
	CU_ASSERT_EQUAL(send_parity(1), 0);
	CU_ASSERT_EQUAL(send_parity(1), -EINVAL);
	settle();
	CU_ASSERT_EQUAL(rig.port.sents, (DATA + PARITY) / MTU);
	end();
	/* More parity than a message may be long; of no bytes, one packet. */
	begin(BASE "max-messages=4;credit=implicit;k=4;m=5");
	connect_peer();
	CU_ASSERT_EQUAL(call(SP_SDR_CMD_SEND, 0, mr->id, 0, DATA, 0, 0), 0);
	CU_ASSERT_EQUAL(call(SP_EC_CMD_PARITY, 1, mr->id, 0, DATA, mr->id, SLOT), -EINVAL);
	CU_ASSERT_EQUAL(call(SP_EC_CMD_PARITY, 1, 0, 0, 0, 0, 0), 0);
	settle();
	CU_ASSERT_EQUAL(rig.port.sents, DATA / MTU + 1);
	end();
}

static void a_connection_or_a_context_may_end_while_parity_is_made(void)
{
	for (unsigned whole = 0; whole < 2; whole++) {
		begin(SENDER);
		connect_peer();
		for (uint64_t k = 0; k < 4; k += 2) {
			CU_ASSERT_EQUAL(send_data(k), 0);
			CU_ASSERT_EQUAL(send_parity(k + 1), 0);
		}
		CU_ASSERT_EQUAL(call(SP_SDR_CMD_SEND, 4, mr->id, 0, MTU, 0, 0), -EAGAIN); /* all slots are in use */
		while (!total(SP_EC_ENCODE_SLICES))
			rig_poll(&rig, now);
		CU_ASSERT_EQUAL(total(SP_EC_ENCODED), 0);
		CU_ASSERT_EQUAL(sp_mr_free(mr), -EBUSY);
		if (whole) {
			CU_ASSERT_EQUAL(sp_context_close(rig.dev, id), 0);
			id = 0;
		} else {
			CU_ASSERT_EQUAL(call(SP_CMD_CLOSE, 0, 0, 0, 0, 0, 0), 0);
		}
		settle();
		for (unsigned i = 0; i < rig.port.sents; i++)
			CU_ASSERT_EQUAL(rig.port.sent[i].bytes[42 + 12 + 16] >> 6 & 1, 0); /* no parity has left */
		end();
	}
}

/* All that a connection may have: the list begins with the connection's code, and no other wants more room, or is twice
 * there. By each packet alone, with 4 user bits, it can be told which one it is. */
static void the_codes_of_a_connection_fit_its_room_and_can_be_told_apart(void)
{
	for (unsigned k = 1; k < SP_EC_CHUNKS_MAX; k++)
		for (unsigned m = 1; k + m <= SP_EC_CHUNKS_MAX; m += 1 + m / 8) {
			struct sp_ec_shape c[SP_EC_CODES_MAX];
			const unsigned codes = sp_ec_codes(SP_EC_CODE_MDS, k, m, 4, c);

			CU_ASSERT_FATAL(codes >= 1 && codes <= SP_EC_CODES_MAX && c[0].k == k && c[0].m == m);
			CU_ASSERT_EQUAL(sp_ec_codes(SP_EC_CODE_XOR, k, m, 4, c), 1);
			CU_ASSERT_EQUAL(sp_ec_codes(SP_EC_CODE_MDS, k, m, 0, c), 1);
			sp_ec_codes(SP_EC_CODE_MDS, k, m, 1, c);
			for (unsigned i = 0; i < codes; i++) {
				CU_ASSERT_FATAL(c[i].k >= 1 && c[i].m >= 1 && c[i].k <= k && c[i].m <= m);
				for (unsigned j = 0; j < i; j++)
					CU_ASSERT_FATAL(c[i].k != c[j].k || c[i].m != c[j].m);
				for (uint64_t bytes = 1; bytes < 300000; bytes = bytes * 3 + 1)
					CU_ASSERT_FATAL(sp_ec_parity_bytes(c[i].k, c[i].m, bytes, 64) <=
							sp_ec_parity_bytes(k, m, bytes, 64));
				for (unsigned part = 0; part < 32; part += 4)
					CU_ASSERT_EQUAL_FATAL(
						sp_ec_possible(99, sp_ec_immediate_of(99, i), 15u << part, codes),
						1u << i);
			}
		}
}

SUITE("ec_handler", TEST(the_codes_of_a_connection_fit_its_room_and_can_be_told_apart),
      TEST(impossible_codes_are_refused_by_name), TEST(the_packet_that_makes_it_possible_starts_the_repair_in_slices),
      TEST(what_comes_for_a_chunk_in_repair_is_counted_and_not_written),
      TEST(a_message_ends_after_the_repair_that_it_is_in), TEST(a_context_may_end_while_it_repairs),
      TEST(what_has_not_begun_is_not_repaired_without_its_parity), TEST(workers_repair_one_message_together),
      TEST(what_two_workers_find_is_repaired_once), TEST(many_submessages_are_looked_at_a_few_at_a_time),
      TEST(each_submessage_that_a_run_of_packets_makes_repairable_is_repaired),
      TEST(parity_first_twice_and_late_does_what_it_should), TEST(parity_repairs_its_own_message_only),
      TEST(the_packet_that_tells_the_length_may_come_last), TEST(a_message_of_which_nothing_came_is_made_of_parity),
      TEST(parity_of_another_code_or_length_repairs_nothing_and_is_counted),
      TEST(more_losses_than_parity_are_left_and_counted_as_failed), TEST(parity_is_sent_as_defined_behind_the_data),
      TEST(commands_for_parity_are_not_believed), TEST(a_connection_or_a_context_may_end_while_parity_is_made))
