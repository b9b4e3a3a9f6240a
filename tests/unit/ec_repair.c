/* SPDX-License-Identifier: BSD-3-Clause */
/* Repairs by the ec handler beside sdr: when they begin, in which slices they go on, and what comes, goes or ends
 * meanwhile. What is repaired in general is property/ec_sdr.c's. */
#include "../lib/ec_nic.h"

/* Everything of the pair has come but `lost` chunks, and the repair has begun and not ended. */
static void mid_repair(uint64_t k, unsigned lost)
{
	const uint64_t before = ecn_total(SP_EC_DECODE_SLICES);

	ecn_data_but(k, lost);
	ecn_settle();
	ecn_parity(k, lost, ecn_right);
	while (ecn_total(SP_EC_DECODE_SLICES) == before)
		CU_ASSERT_NOT_EQUAL_FATAL(dut_poll(&dut, ecn_now), 0);
	CU_ASSERT_EQUAL(ecn_bitmap(k), UINT32_MAX << lost);
}

TEST(the_packet_that_makes_it_possible_starts_the_repair_in_slices)
{
	uint64_t slices;

	ecn_begin(RECEIVER);
	ecn_post_pair(0);
	ecn_data_but(0, M);
	ecn_parity(0, M - 1, ecn_right);
	for (unsigned p = 0; p < CHUNK / MTU - 1; p++)
		ecn_packet(1, (M - 1) * CHUNK / MTU + p, PARITY / MTU - 1, ecn_area.right[K + M - 1] + p * MTU,
			   sp_ec_immediate(SP_EC_CODE_MDS, K, M, DATA));
	ecn_settle();
	CU_ASSERT_EQUAL(ecn_total(SP_EC_DECODE_SLICES), 0);
	CU_ASSERT_EQUAL(ecn_bitmap(0), UINT32_MAX << M);
	ecn_packet(1, PARITY / MTU - 1, PARITY / MTU - 1, ecn_area.right[K + M - 1] + CHUNK - MTU,
		   sp_ec_immediate(SP_EC_CODE_MDS, K, M, DATA));
	while (!ecn_is_whole(0)) {
		slices = ecn_total(SP_EC_DECODE_SLICES);
		CU_ASSERT_NOT_EQUAL_FATAL(dut_poll(&dut, ecn_now), 0);
		CU_ASSERT(ecn_total(SP_EC_DECODE_SLICES) <= slices + 1);
	}
	ecn_settle();
	/* (32 data and 8 rows of 8 KiB) in units of a byte: what SP_EC_SLICE counts */
	CU_ASSERT(ecn_total(SP_EC_DECODE_SLICES) >= (uint64_t)K * M * CHUNK / SP_EC_SLICE);
	CU_ASSERT_EQUAL(ecn_total(SP_EC_REPAIRED_CHUNKS), M);
	CU_ASSERT_EQUAL(ecn_total(SP_EC_DECODED), 1);
	CU_ASSERT_EQUAL(ecn_total(SP_EC_DECODED_BYTES), M * CHUNK);
	CU_ASSERT_EQUAL(dut_counter(&dut, ecn_id, "parity_packets"), PARITY / MTU);
	CU_ASSERT_EQUAL(ecn_status(0)->packets, (K - M) * CHUNK / MTU);
	CU_ASSERT_EQUAL(ecn_call(SP_CMD_COMPLETE, 0, 0, 0, 0, 0, 0), 0);
	CU_ASSERT_EQUAL(ecn_total(SP_EC_FAILED), 0);
	ecn_stop();
}

TEST(packets_for_a_chunk_in_repair_are_counted_and_not_written)
{
	static const uint8_t other[MTU] = {1, 2, 3};

	ecn_begin(RECEIVER);
	ecn_post_pair(0);
	ecn_packet(0, 3, DATA / MTU - 1, ecn_area.right[0] + 3 * MTU, 0); /* a chunk of which a part had come */
	mid_repair(0, M);
	for (unsigned p = 0; p < M * CHUNK / MTU; p++)
		ecn_packet(0, p, DATA / MTU - 1, other, 0);
	ecn_settle();
	CU_ASSERT(ecn_is_whole(0));
	CU_ASSERT_EQUAL(ecn_total(SP_EC_REPAIRED_CHUNKS), M);
	CU_ASSERT_EQUAL(dut_counter(&dut, ecn_id, "late_data_packets"), M * CHUNK / MTU);
	CU_ASSERT_EQUAL(dut_counter(&dut, ecn_id, "duplicates"), M * CHUNK / MTU);
	ecn_packet(0, 0, DATA / MTU - 1, other, 0); /* and after it */
	ecn_settle();
	CU_ASSERT(ecn_is_whole(0));
	CU_ASSERT_EQUAL(dut_counter(&dut, ecn_id, "late_data_packets"), M * CHUNK / MTU + 1);
	/* The next message's are not late. */
	ecn_post_pair(2);
	for (unsigned k = 0; k < 2; k++)
		CU_ASSERT_EQUAL(ecn_call(SP_CMD_COMPLETE, k, 0, 0, 0, 0, 0), 0);
	ecn_post_pair(4);
	ecn_settle();
	ecn_data_but(4, 0);
	ecn_settle();
	CU_ASSERT(ecn_is_whole(4));
	CU_ASSERT_EQUAL(dut_counter(&dut, ecn_id, "late_data_packets"), M * CHUNK / MTU + 1);
	ecn_stop();
}

TEST(a_message_ends_after_the_repair_that_it_is_in)
{
	for (unsigned which = 0; which < 2; which++) {
		static uint8_t kept[SLOT];

		ecn_begin(RECEIVER);
		ecn_post_pair(0);
		mid_repair(0, M);
		CU_ASSERT_EQUAL(ecn_call(SP_CMD_COMPLETE, which, 0, 0, 0, 0, 0), 0);
		CU_ASSERT_EQUAL(ecn_status(which)->released, 0);
		CU_ASSERT_EQUAL(sp_mr_free(ecn_mr), -EBUSY);
		for (unsigned i = 0; i < 1000 && !ecn_status(which)->released; i++)
			dut_poll(&dut, ecn_now);
		CU_ASSERT_EQUAL(ecn_status(which)->released, which + 1);
		CU_ASSERT(which ? ecn_is_whole(0) : ecn_bitmap(0) == 0);
		memcpy(kept, ecn_slot(which), SLOT);
		ecn_parity(0, M, ecn_right); /* late */
		ecn_data_but(0, 0);
		ecn_settle();
		CU_ASSERT_EQUAL(memcmp(kept, ecn_slot(which), SLOT), 0);
		CU_ASSERT_EQUAL(ecn_call(SP_CMD_COMPLETE, !which, 0, 0, 0, 0, 0), 0);
		ecn_settle();
		CU_ASSERT_EQUAL(ecn_call(SP_CMD_COMPLETE, 0, 0, 0, 0, 0, 0), -ENOENT);
		ecn_stop();
	}
}

TEST(a_context_may_end_while_it_repairs)
{
	ecn_begin(RECEIVER);
	ecn_post_pair(0);
	mid_repair(0, M);
	CU_ASSERT_EQUAL(sp_context_close(dut.dev, ecn_id), 0);
	ecn_id = 0;
	ecn_settle();
	ecn_stop();
}

/* Two submessages can be repaired; parity is taken back while the first of them is. */
TEST(a_chunk_without_packets_is_not_repaired_without_parity)
{
	const uint32_t immediate = sp_ec_immediate(SP_EC_CODE_MDS, 16, 8, DATA);
	const unsigned packets = 16 * CHUNK / MTU, half = packets / 2;

	ecn_begin(BASE "max-messages=4;generations=2;k=16;m=8");
	ecn_post(0, DATA);
	ecn_post(1, 16 * CHUNK);
	for (unsigned j = 0; j < K; j++)
		if (j % 16 >= 8)
			ecn_chunk_of(0, j, 0);
	for (unsigned p = 0; p < packets; p++)
		if (p != 0 && p != half)
			ecn_packet(1, p, packets - 1, ecn_area.right[K], immediate);
	ecn_settle();
	CU_ASSERT_EQUAL(ecn_total(SP_EC_DECODE_SLICES), 0);
	ecn_packet(1, 0, packets - 1, ecn_area.right[K], immediate);
	ecn_packet(1, half, packets - 1, ecn_area.right[K], immediate);
	while (!ecn_total(SP_EC_DECODE_SLICES))
		CU_ASSERT_NOT_EQUAL_FATAL(dut_poll(&dut, ecn_now), 0);
	CU_ASSERT_EQUAL(ecn_total(SP_EC_DECODED), 0);
	CU_ASSERT_EQUAL(ecn_call(SP_CMD_COMPLETE, 1, 0, 0, 0, 0, 0), 0);
	ecn_settle();
	CU_ASSERT_EQUAL(ecn_status(1)->released, 2);
	CU_ASSERT_EQUAL(ecn_total(SP_EC_DECODED), 1);
	CU_ASSERT_EQUAL(ecn_bitmap(0), 0xFF00FFFFull);
	ecn_chunk_of(0, 16, 0); /* what comes now finds nothing to do */
	ecn_settle();
	CU_ASSERT_EQUAL(ecn_bitmap(0), 0xFF01FFFFull);
	ecn_stop();
}

static uint64_t slices_of(uint16_t worker)
{
	return sp_context_by_id(dut.nic, ecn_id)->companion->view[worker]->pub.counters[SP_EC_DECODE_SLICES];
}

/* Of two submessages `lost` chunks each are missing; of the parity all packets but two have come, each the last of a
 * chunk. */
static void two_submessages(unsigned lost, unsigned first, unsigned second)
{
	ecn_workers = 2;
	ecn_begin(BASE "max-messages=4;generations=2;k=16;m=8");
	ecn_post(0, DATA);
	ecn_post(1, 16 * CHUNK);
	for (unsigned j = 0; j < K; j++)
		if (j % 16 >= lost)
			ecn_chunk_of(0, j, 0);
	for (unsigned p = 0; p < 16 * CHUNK / MTU; p++)
		if (p != first && p != second)
			ecn_packet(1, p, 16 * CHUNK / MTU - 1, ecn_area.right[K],
				   sp_ec_immediate(SP_EC_CODE_MDS, 16, 8, DATA));
	ecn_settle();
}

static void last_of_chunks(unsigned first, unsigned second)
{
	for (ecn_queue = 0; ecn_queue < 2; ecn_queue++)
		ecn_packet(1, ecn_queue ? second : first, 16 * CHUNK / MTU - 1, ecn_area.right[K],
			   sp_ec_immediate(SP_EC_CODE_MDS, 16, 8, DATA));
	ecn_queue = 0;
}

TEST(workers_repair_one_message_together)
{
	two_submessages(8, 0, 8 * CHUNK / MTU);
	CU_ASSERT_EQUAL(ecn_total(SP_EC_DECODE_SLICES), 0);
	last_of_chunks(0, 8 * CHUNK / MTU);
	while (!slices_of(0) || !slices_of(1))
		CU_ASSERT_NOT_EQUAL_FATAL(dut_poll(&dut, ecn_now), 0);
	CU_ASSERT_EQUAL(ecn_total(SP_EC_DECODED), 0); /* both are at it */
	ecn_settle();
	CU_ASSERT_EQUAL(ecn_total(SP_EC_DECODED), 2);
	CU_ASSERT_EQUAL(ecn_total(SP_EC_REPAIRED_CHUNKS), 16);
	CU_ASSERT_EQUAL(slices_of(0), slices_of(1));
	CU_ASSERT_EQUAL(ecn_status(0)->state, SP_SDR_OPEN | SP_SDR_COMPLETE);
	ecn_stop();
	ecn_workers = 1;
}

/* Seven losses: the seventh chunk of parity makes it possible, and the eighth comes at the same time on another worker.
 */
TEST(what_two_workers_find_is_repaired_once)
{
	two_submessages(7, 6 * CHUNK / MTU, 7 * CHUNK / MTU);
	CU_ASSERT_EQUAL(ecn_total(SP_EC_DECODED), 1); /* the other submessage */
	const uint64_t one = ecn_total(SP_EC_DECODE_SLICES);

	last_of_chunks(6 * CHUNK / MTU, 7 * CHUNK / MTU);
	ecn_settle();
	CU_ASSERT_EQUAL(ecn_total(SP_EC_DECODED), 2);
	CU_ASSERT_EQUAL(ecn_total(SP_EC_REPAIRED_CHUNKS), 14);
	/* twice would be three; the same losses as before, so tables need not be made again */
	CU_ASSERT(ecn_total(SP_EC_DECODE_SLICES) > one && ecn_total(SP_EC_DECODE_SLICES) <= 2 * one);
	CU_ASSERT_EQUAL(ecn_status(0)->state, SP_SDR_OPEN | SP_SDR_COMPLETE);
	ecn_stop();
	ecn_workers = 1;
}

/* Parity of everything has come, of data only the first half, and then the packet that tells the length. */
TEST(many_submessages_are_looked_at_a_few_at_a_time)
{
	const unsigned chunks = 200;
	const uint32_t immediate = sp_ec_immediate(SP_EC_CODE_MDS, 1, 1, (uint64_t)chunks * MTU);
	uint64_t slices;

	ecn_begin("qp=0x100;mtu=1024;chunk-bytes=1024;max-message-bytes=256K;rkey=7;replay=yes;companion=ec;max-"
		  "messages=4;"
		  "generations=2;"
		  "k=1;m=1");
	ecn_post(0, DATA);
	ecn_post(1, DATA);
	for (unsigned p = 0; p < chunks / 2; p++)
		ecn_packet(0, p, chunks - 1, ecn_area.right[p % K] + MTU, 0);
	for (unsigned p = 0; p < chunks; p++)
		ecn_packet(1, p, chunks - 1, ecn_area.right[p % K] + MTU, immediate);
	ecn_settle();
	CU_ASSERT_EQUAL(ecn_total(SP_EC_DECODED), 0);
	ecn_packet(0, chunks - 1, chunks - 1, ecn_area.right[(chunks - 1) % K] + MTU, 0);
	do {
		slices = ecn_total(SP_EC_DECODED);
		CU_ASSERT_NOT_EQUAL_FATAL(dut_poll(&dut, ecn_now), 0);
		CU_ASSERT(ecn_total(SP_EC_DECODED) <= slices + 64); /* EC_LOOKS */
	} while (ecn_total(SP_EC_DECODED) < chunks / 2 - 1);
	CU_ASSERT(ecn_total(SP_EC_DECODE_SLICES) <= 4); /* a submessage is 1024 * 3 + SP_EC_ONE of SP_EC_SLICE */
	ecn_settle();
	CU_ASSERT_EQUAL(ecn_status(0)->state, SP_SDR_OPEN | SP_SDR_COMPLETE);
	ecn_stop();
}

/* Of each two neighbours one is lost; then comes the parity of those alone, in runs of many packets. */
TEST(each_submessage_that_a_run_of_packets_makes_repairable_is_repaired)
{
	const unsigned chunks = 200;
	const uint32_t immediate = sp_ec_immediate(SP_EC_CODE_MDS, 1, 1, (uint64_t)chunks * MTU);

	ecn_begin("qp=0x100;mtu=1024;chunk-bytes=1024;max-message-bytes=256K;rkey=7;replay=yes;companion=ec;max-"
		  "messages=4;"
		  "generations=2;"
		  "k=1;m=1");
	ecn_post(0, DATA);
	ecn_post(1, DATA);
	for (unsigned p = 0; p < chunks; p += 2)
		ecn_packet(0, p, chunks - 1, ecn_area.right[p % K] + MTU, 0);
	ecn_packet(0, chunks - 1, chunks - 1, ecn_area.right[(chunks - 1) % K] + MTU, 0);
	ecn_settle();
	CU_ASSERT_EQUAL(ecn_total(SP_EC_DECODED), 0);
	for (unsigned p = 1; p < chunks - 1; p += 2)
		ecn_packet(1, p, chunks - 1, ecn_area.right[p % K] + MTU, immediate);
	ecn_settle();
	CU_ASSERT_EQUAL(ecn_total(SP_EC_DECODED), chunks / 2 - 1);
	CU_ASSERT_EQUAL(ecn_status(0)->state, SP_SDR_OPEN | SP_SDR_COMPLETE);
	ecn_stop();
}

TEST(parity_first_twice_and_late_does_what_it_should)
{
	ecn_begin(RECEIVER);
	ecn_post_pair(0);
	ecn_post_pair(2);
	ecn_parity(0, M, ecn_right);
	ecn_settle();
	ecn_parity(0, M, ecn_right);
	ecn_data_but(0, M);
	ecn_settle();
	CU_ASSERT(ecn_is_whole(0));
	CU_ASSERT_EQUAL(ecn_total(SP_EC_DECODED), 1);
	for (unsigned k = 0; k < 2; k++)
		CU_ASSERT_EQUAL(ecn_call(SP_CMD_COMPLETE, k, 0, 0, 0, 0, 0), 0);
	memset(ecn_slot(0), 0xEE, SLOT);
	ecn_parity(0, M, ecn_right); /* of a pair that is gone */
	ecn_settle();
	ecn_parity(2, M - 1, ecn_right); /* not enough of its own, and that of others does not help */
	ecn_data_but(2, M);
	ecn_parity(0, M, ecn_right);
	ecn_settle();
	CU_ASSERT_EQUAL(ecn_bitmap(2), UINT32_MAX << M);
	CU_ASSERT_EQUAL(ecn_total(SP_EC_DECODED), 1);
	for (unsigned i = 0; i < SLOT; i++)
		CU_ASSERT_EQUAL_FATAL(ecn_slot(0)[i], 0xEE);
	ecn_chunk_of(3, M - 1, ecn_right);
	ecn_settle();
	CU_ASSERT(ecn_is_whole(2));
	ecn_stop();
}

/* One generation: the keys are the same, and parity of an earlier message may be there still. */
TEST(parity_repairs_its_own_message_only)
{
	ecn_begin(BASE "max-messages=4;generations=1");
	ecn_generations = 1;
	ecn_post_pair(0);
	ecn_post_pair(2);
	ecn_data_but(0, 0);
	ecn_settle();
	ecn_parity(0, M, ecn_right);
	ecn_settle();
	CU_ASSERT_EQUAL(ecn_call(SP_CMD_COMPLETE, 0, 0, 0, 0, 0, 0), 0);
	memset(ecn_slot(0), 0xEE, SLOT);
	ecn_post(4, DATA);
	ecn_now += SP_MS;
	dut_run(&dut, ecn_now, ecn_now + 10 * SP_MS);
	ecn_now += 10 * SP_MS;
	CU_ASSERT_EQUAL(ecn_status(4)->message, 5);
	ecn_data_but(4, M);
	ecn_parity(0, 1, ecn_right); /* once more: it is looked at again */
	ecn_settle();
	CU_ASSERT_EQUAL(ecn_bitmap(4), UINT32_MAX << M);
	CU_ASSERT_EQUAL(ecn_total(SP_EC_DECODE_SLICES), 0);
	ecn_stop();
}

/* 20 chunks, posted as 32: what is missing is only known with the packet that ends the message. */
TEST(the_packet_that_tells_the_length_may_come_last)
{
	const unsigned chunks = 20, rows = 5, last = chunks * CHUNK / MTU - 1;
	const uint32_t immediate = sp_ec_immediate(SP_EC_CODE_MDS, K, M, (uint64_t)chunks * CHUNK);

	ecn_begin(RECEIVER);
	ec_area_free(&ecn_area);
	ec_area_new(&ecn_area, SP_EC_MDS, K, M, chunks, CHUNK, CHUNK, NULL);
	ecn_post_pair(0);
	for (unsigned p = CHUNK / MTU; p < last; p++)
		if (p != (chunks - 1) * CHUNK / MTU)
			ecn_packet(0, p, last, ecn_area.right[p * MTU / CHUNK] + p * MTU % CHUNK, 0);
	for (unsigned p = 0; p < rows * CHUNK / MTU; p++)
		ecn_packet(1, p, rows * CHUNK / MTU - 1, ecn_area.right[chunks + p * MTU / CHUNK] + p * MTU % CHUNK,
			   immediate);
	ecn_settle();
	CU_ASSERT_EQUAL(ecn_total(SP_EC_DECODE_SLICES), 0);
	ecn_packet(0, last, last, ecn_area.right[chunks - 1] + CHUNK - MTU, 0);
	ecn_settle();
	CU_ASSERT_EQUAL(ecn_bitmap(0), (1u << chunks) - 1);
	for (unsigned j = 0; j < chunks; j++)
		CU_ASSERT_EQUAL(memcmp(ecn_slot(0) + j * CHUNK, ecn_area.right[j], CHUNK), 0);
	for (unsigned i = chunks * CHUNK; i < SLOT; i++)
		CU_ASSERT_EQUAL_FATAL(ecn_slot(0)[i], 0xEE);
	ecn_stop();
}

TEST(a_message_of_which_nothing_came_is_made_of_parity)
{
	const unsigned rows = 4;

	ecn_begin(BASE "max-messages=4;generations=2;k=4;m=4");
	ec_area_free(&ecn_area);
	ec_area_new(&ecn_area, SP_EC_MDS, rows, rows, rows, CHUNK, CHUNK, NULL);
	ecn_post(0, rows * CHUNK);
	ecn_post(1, rows * CHUNK);
	for (unsigned i = 0; i < rows; i++)
		for (unsigned p = 0; p < CHUNK / MTU; p++)
			ecn_packet(1, i * CHUNK / MTU + p, rows * CHUNK / MTU - 1, ecn_area.right[rows + i] + p * MTU,
				   sp_ec_immediate(SP_EC_CODE_MDS, rows, rows, (uint64_t)rows * CHUNK));
	ecn_settle();
	CU_ASSERT_EQUAL(ecn_bitmap(0), 15);
	for (unsigned j = 0; j < rows; j++)
		CU_ASSERT_EQUAL(memcmp(ecn_slot(0) + j * CHUNK, ecn_area.right[j], CHUNK), 0);
	CU_ASSERT_EQUAL(ecn_status(0)->packets, 0);
	CU_ASSERT_EQUAL(ecn_status(0)->state, SP_SDR_OPEN | SP_SDR_COMPLETE);
	ecn_stop();
}
