/* SPDX-License-Identifier: BSD-3-Clause */
/* A companion: the second handler of a context, and what it sees of the first. */
#include "../lib/companion_nic.h"

/* The calls of the first handler (0) or the companion (1), as letters. */
static const char *letters(unsigned companion)
{
	static char text[2][256];
	unsigned n = 0;

	for (unsigned i = 0; i < probe_log.n && n < 255; i++)
		if (probe_log.call[i].companion == companion)
			text[companion][n++] = probe_log.call[i].what;
	text[companion][n] = '\0';
	return text[companion];
}

/* ---- companion ---- */

TEST(a_companion_sees_the_messages_of_the_first_and_what_it_accepts)
{
	static const char *const seconds[] = {"qp=16;companion=second", "qp=16;companion=second-burst"};

	for (unsigned k = 0; k < 2; k++) {
		comp_start();
		uint32_t id = dut_context(&dut, "a", "first", seconds[k]);
		CU_ASSERT_EQUAL(comp_exported, 1);
		comp_send((struct probe_words){.key = 7, .serial = 1});
		comp_send((struct probe_words){.key = 7, .serial = 2, .verdict = SP_DROP(0)});
		comp_send((struct probe_words){.key = 7, .serial = 3, .verdict = SP_FORWARD});
		comp_send((struct probe_words){.key = 7, .serial = 4, .verdict = SP_END});
		dut_settle(&dut, 1);
		comp_send(
			(struct probe_words){.key = 8, .serial = 5, .header = SP_DROP(0)}); /* refused: not a message */
		comp_send((struct probe_words){.key = SP_NO_MESSAGE, .serial = 6});	    /* of no message */
		comp_send((struct probe_words){.key = 9, .serial = 7});
		dut_settle(&dut, 2);
		CU_ASSERT_STRING_EQUAL(letters(0), "ahppppchphp");
		CU_ASSERT_STRING_EQUAL(letters(1), "ahppchp");
		for (unsigned i = 0; i < probe_log.n; i++) {
			const struct probe_call *call = &probe_log.call[i];

#define RULE(rule) TEST_BETWEEN(comp_start, comp_stop, rule)

			CU_ASSERT(!call->dirty); /* each has its own state, zeroed before its header */
			if (call->companion && call->what == 'p')
				CU_ASSERT(call->serial == 1 || call->serial == 4 || call->serial == 7);
		}
		/* What it answers changes nothing: the counters are the first's verdicts. */
		CU_ASSERT_EQUAL(dut_counter(&dut, id, "packets"), 4);
		CU_ASSERT_EQUAL(dut_counter(&dut, id, "probe-zero"), 2);
		dut_check_totals(&dut);
		comp_stop();
	}
}

RULE(a_companions_bursts_are_what_the_first_has_accepted_in_a_row)
{
	comp_bursts = 0;
	uint32_t id = dut_context(&dut, "a", "first", "qp=16;companion=second-burst");
	comp_send((struct probe_words){.key = 7, .serial = 1});
	comp_send((struct probe_words){.key = 7, .serial = 2});
	comp_send((struct probe_words){.key = 7, .serial = 3});
	comp_send((struct probe_words){.key = 7, .serial = 4, .verdict = SP_DROP(0)});
	comp_send((struct probe_words){.key = 7, .serial = 5});
	comp_send((struct probe_words){.key = 7, .serial = 6, .verdict = SP_END});
	dut_settle(&dut, 1);
	CU_ASSERT_STRING_EQUAL(letters(1), "ahpppppc");
	CU_ASSERT_EQUAL(comp_bursts, 3); /* the one that ends the message goes alone */
	for (unsigned i = 0; i < probe_log.n; i++)
		if (probe_log.call[i].companion && probe_log.call[i].what == 'p')
			CU_ASSERT_NOT_EQUAL(probe_log.call[i].serial, 4);
	/* What it answers for a run changes nothing either. */
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "packets"), 5);
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "probe-zero"), 1);
	dut_check_totals(&dut);
}

RULE(header_of_the_first_comes_first_and_its_completion_last)
{
	dut_context(&dut, "a", "first", "qp=16;companion=second");
	comp_send((struct probe_words){.key = 7, .verdict = SP_END});
	dut_settle(&dut, 1);
	CU_ASSERT_STRING_EQUAL(probe_letters(7), "hhppcc");
	CU_ASSERT_EQUAL_FATAL(probe_log.n, 8);
	CU_ASSERT(!probe_log.call[2].companion && probe_log.call[3].companion);
	CU_ASSERT(!probe_log.call[4].companion && probe_log.call[5].companion);
	CU_ASSERT(probe_log.call[6].companion && !probe_log.call[7].companion);
}

RULE(both_handlers_complete_and_detach_once_when_the_context_is_removed)
{
	uint32_t id = dut_context(&dut, "a", "first", "qp=16;companion=second");
	comp_send((struct probe_words){.key = 7});
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, id), 0);
	CU_ASSERT_STRING_EQUAL(letters(0), "ahpcd");
	CU_ASSERT_STRING_EQUAL(letters(1), "ahpcd");
	for (unsigned i = 0; i < probe_log.n; i++)
		if (probe_log.call[i].what == 'c')
			CU_ASSERT_EQUAL(probe_log.call[i].serial, SP_END_DETACH);
}

RULE(a_companion_that_fails_to_attach_takes_the_first_back)
{
	struct sp_error error;
	uint32_t id;

	CU_ASSERT_EQUAL(dut_try_context(&dut, "a", "first", "qp=16;companion=second;second-fails=yes", &id, &error),
			-EIO);
	CU_ASSERT_STRING_EQUAL(letters(0), "ad");
	CU_ASSERT_STRING_EQUAL(letters(1), "a");
}

RULE(the_hosts_events_are_the_firsts_and_the_companions)
{
	struct sp_event e;

	uint32_t id = dut_context(&dut, "a", "first", "qp=16;companion=second");
	for (unsigned i = 0; i < 3; i++) {
		struct sp_command cmd = {.op = PROBE_CMD_EVENT, .context = id, .arg = {100 + i}};

		comp_send((struct probe_words){.key = i, .verdict = SP_END});
		dut_settle(&dut, i);
		CU_ASSERT_EQUAL(sp_command_call(dut.dev, &cmd, NULL), 0);
	}
	for (unsigned i = 0; i < 6; i++) {
		CU_ASSERT_EQUAL_FATAL(sp_event_take(dut.dev, id, &e), 1);
		CU_ASSERT_EQUAL(e.cookie, i % 2 ? 100 + i / 2 : i / 2);
		CU_ASSERT_EQUAL(e.context, id);
	}
}

RULE(commands_that_the_first_does_not_know_are_the_companions)
{
	struct sp_command cmd = {.op = SP_CMD_OWN + 50, .arg = {7}};
	struct sp_event e;

	cmd.context = dut_context(&dut, "a", "first", "qp=16;companion=second");
	CU_ASSERT_EQUAL(sp_command_call(dut.dev, &cmd, &e), 0);
	CU_ASSERT_EQUAL(e.arg[0], 8);
	CU_ASSERT_EQUAL(e.context, cmd.context);
	cmd.op = PROBE_CMD_FAIL; /* the first knows it, and says no */
	CU_ASSERT_EQUAL(sp_command_call(dut.dev, &cmd, &e), -7);
	cmd.op = SP_CMD_OWN + 51;
	CU_ASSERT_EQUAL(sp_command_call(dut.dev, &cmd, &e), -ENOENT);
	cmd.context = dut_context(&dut, "b", "first", "qp=17");
	CU_ASSERT_EQUAL(sp_command_call(dut.dev, &cmd, &e), -EOPNOTSUPP);
}

RULE(only_a_companion_has_a_first)
{
	struct sp_ctx *one;

	uint32_t id = dut_context(&dut, "a", "first", "qp=16");
	CU_ASSERT_PTR_NULL(sp_first(&sp_context_by_id(dut.nic, id)->view[0]->pub, &one));
}

/* What a NIC with that seed and that secret makes of some bytes. */
static uint64_t hash_of(uint64_t seed, uint64_t secret, const void *bytes, size_t len)
{
	dut_prepare(&dut, 1);
	dut.config.seed = seed;
	dut.config.secret = secret;
	dut_create(&dut);
	uint32_t id = dut_context(&dut, "a", "first", "qp=16");
	uint64_t hash = sp_hash(&sp_context_by_id(dut.nic, id)->view[0]->pub, bytes, len);
	CU_ASSERT(hash < 1ull << 63);
	comp_stop();
	return hash;
}

TEST(hashes_are_the_nics_own_and_every_byte_counts)
{
	uint8_t bytes[19] = {1, 2, 3};
	const uint64_t hash = hash_of(7, 0, bytes, sizeof(bytes));

	CU_ASSERT_EQUAL(hash_of(7, 0, bytes, sizeof(bytes)), hash);
	CU_ASSERT_NOT_EQUAL(hash_of(8, 0, bytes, sizeof(bytes)), hash);
	CU_ASSERT_NOT_EQUAL(hash_of(7, 9, bytes, sizeof(bytes)), hash);
	CU_ASSERT_EQUAL(hash_of(7, 9, bytes, sizeof(bytes)), hash_of(8, 9, bytes, sizeof(bytes)));
	for (size_t len = 0; len < sizeof(bytes); len++)
		CU_ASSERT_NOT_EQUAL(hash_of(7, 0, bytes, len), hash);
	for (size_t i = 0; i < sizeof(bytes); i++) {
		bytes[i] ^= 0x10;
		CU_ASSERT_NOT_EQUAL(hash_of(7, 0, bytes, sizeof(bytes)), hash);
		bytes[i] ^= 0x10;
	}
}
