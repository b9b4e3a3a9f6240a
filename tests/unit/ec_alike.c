/* SPDX-License-Identifier: BSD-3-Clause */
/* Repairs by the ec handler where submessages in a row lack the same chunks: they are found, reserved, computed and
 * handed over as one, unless something is less simple. */
#include "../../handlers/ec/state.h"
#include "../lib/ec_nic.h"

/* Stands for a worker that still writes to some chunks of those that are to be reserved together. */
static struct sp_export busy;
static const struct sp_export *real;
static unsigned refusals; /* still to come */

static int refuse(struct sp_ctx *c, uint64_t key, uint64_t chunk, uint64_t *wanted)
{
	if (!refusals || !(*wanted & (*wanted - 1)))
		return real->reserve(c, key, chunk, wanted);
	refusals--;
	*wanted &= *wanted - 1; /* all but the first */
	int r = real->reserve(c, key, chunk, wanted);
	return r ? r : -EAGAIN;
}

static void be_busy(void)
{
	struct ec *s = sp_context_by_id(dut.nic, ecn_id)->companion->state;

	real = s->first;
	busy = *real;
	busy.reserve = refuse;
	s->first = &busy;
}

/* Submessages that all lack their chunks `lost` become repairable at once, by the packet that tells the length. */
static void alike(enum sp_ec_kind kind, unsigned k, unsigned m, uint64_t lost, unsigned per_chunk, unsigned packets)
{
	static uint8_t data[DATA], parity[DATA], zeros[8 * MTU];
	struct ec_code *code = ec_code_new(kind, k, m);
	const uint32_t bytes = per_chunk * MTU, length = packets * MTU;
	const unsigned chunks = (packets + per_chunk - 1) / per_chunk, subs = chunks / k, last = subs * m * per_chunk;
	const uint32_t immediate = sp_ec_immediate(kind == SP_EC_MDS ? SP_EC_CODE_MDS : SP_EC_CODE_XOR, k, m, length);
	uint8_t *chunk[16];
	const struct sp_ec_submessage sub = {.data = k, .bytes = bytes, .last = bytes, .chunk = chunk};
	char settings[200];

	CU_ASSERT_FATAL(chunks == subs * k && chunks * bytes <= sizeof(data) && last * MTU <= sizeof(parity));
	memset(data, 0, sizeof(data));
	for (uint32_t i = 0; i < length; i++)
		data[i] = (uint8_t)(i * i * 31 >> 7);
	for (unsigned i = 0; i < subs; i++) {
		for (unsigned j = 0; j < k + m; j++)
			chunk[j] = j < k ? data + (i * k + j) * bytes : parity + (i * m + j - k) * bytes;
		CU_ASSERT_EQUAL_FATAL(sp_ec_encode_start(&code->job, &code->code, &sub), 0);
		ec_run(code, UINT64_MAX);
	}
	CU_ASSERT_NOT_EQUAL(memcmp(parity, zeros, bytes), 0);
	snprintf(
		settings, sizeof(settings),
		"qp=0x100;mtu=1024;chunk-bytes=%u;max-message-bytes=256K;rkey=7;replay=yes;companion=ec;max-messages=4;"
		"generations=2;code=%s;k=%u;m=%u",
		bytes, kind == SP_EC_MDS ? "mds" : "xor", k, m);
	ecn_begin(settings);
	be_busy();
	ecn_post(0, DATA);
	ecn_post(1, DATA);
	for (unsigned p = 0; p < last; p++)
		ecn_packet(1, p, last - 1, parity + p * MTU, immediate);
	for (unsigned p = 0; p < packets - 1; p++)
		if (!(lost >> p / per_chunk % k & 1))
			ecn_packet(0, p, packets - 1, data + p * MTU, 0);
	ecn_settle();
	CU_ASSERT_EQUAL(ecn_total(SP_EC_DECODED), 0);
	ecn_packet(0, packets - 1, packets - 1, data + (packets - 1) * MTU, 0);
	ecn_settle();
	CU_ASSERT_EQUAL(ecn_total(SP_EC_DECODED), subs);
	CU_ASSERT_EQUAL(ecn_total(SP_EC_REPAIRED_CHUNKS), subs * (unsigned)__builtin_popcountll(lost));
	CU_ASSERT_EQUAL(ecn_status(0)->state, SP_SDR_OPEN | SP_SDR_COMPLETE);
	CU_ASSERT_EQUAL(memcmp(ecn_slot(0), data, length), 0);
	for (unsigned i = length; i < DATA; i++)
		CU_ASSERT_EQUAL_FATAL(ecn_slot(0)[i], 0xEE);
	CU_ASSERT_EQUAL(ecn_call(SP_CMD_COMPLETE, 0, 0, 0, 0, 0, 0), 0);
	CU_ASSERT_EQUAL(ecn_call(SP_CMD_COMPLETE, 1, 0, 0, 0, 0, 0), 0);
	ecn_stop();
	ec_code_free(code);
}

/* The last chunk, of which the repair of another one is made, is half as long: behind it lie bytes of others. */
TEST(the_last_submessage_with_a_short_chunk_is_not_similar)
{
	alike(SP_EC_XOR, 4, 2, 2, 2, 3 * 8 - 1);
	alike(SP_EC_MDS, 4, 2, 2, 2, 3 * 8 - 1);
}

/* Of seven in a row, a slice has time for three or so. */
TEST_CALL(similar_submessages_continue_where_a_slice_ended, alike(SP_EC_MDS, 4, 3, 7, 8, 7 * 32))

/* Sixteen are looked at together; the one whose chunks are not to be had yet costs the others nothing. */
TEST(submessages_with_a_chunk_being_written_are_reserved_alone)
{
	for (unsigned i = 1; i <= 2; i++) {
		refusals = i;
		alike(SP_EC_XOR, 4, 2, 3, 2, 30 * 8);
		CU_ASSERT_EQUAL(refusals, 0);
	}
	refusals = 1;
	alike(SP_EC_MDS, 8, 4, 6, 1, 7 * 8);
	CU_ASSERT_EQUAL(refusals, 0);
}
