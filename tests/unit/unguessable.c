/* SPDX-License-Identifier: BSD-3-Clause */
/* What a stranger could guess if he had a NIC of the same configuration: nothing, except in virtual time. */
#include "../../handlers/wire/roce.h"
#include "../../handlers/wire/rvma.h"
#include "../../pipeline/ports/port.h"
#include "../../pipeline/rx/match.h"
#include "../lib/dut.h"

#include <stdlib.h>

#define NICS  200u
#define THEIR 0x321

/* Of one NIC, all that it has chosen itself. */
struct chosen {
	uint64_t token, nonce, hash, mac;
	uint64_t qp, row, control, psn, udp_source;
};

#define FIELDS (sizeof(struct chosen) / sizeof(uint64_t))

static uint64_t qp_of(uint32_t id)
{
	uint32_t qp = 0;

	CU_ASSERT_EQUAL(sp_context_qp(dut.dev, id, &qp), 0);
	return qp;
}

static void say_hello(uint32_t qp)
{
	struct sp_rvma_hello h = {.version = SP_RVMA_VERSION};
	struct frame f;

	sp_store_be32(h.qp, THEIR);
	sp_store_be32(h.mtu, 1024);
	sp_store_be32(h.window, 64);
	sp_store_be64(h.token, 0xABCDEF);
	sp_store_be64(h.nonce, 7);
	dut_roce(&f, FRAME_IP4, qp, 0, &h, sizeof(h));
	f.bytes[f.l4 + 8] = SP_RVMA_HELLO;
	dut_seal(&f);
	dut_feed(&dut, &f);
}

/* A NIC of a configuration that is always the same, but for who drives it, and what a peer learns of it. */
static struct chosen make(uint64_t seed, bool unpredictable, bool threads)
{
	struct sp_rvma_hello welcome;
	const struct sp_context *sdr;
	struct chosen c = {.hash = 0};
	const uint8_t *sent;
	uint32_t id;

	dut_prepare(&dut, 1);
	memset(dut.config.mac, 0, 6);
	dut.config.seed = seed;
	dut.config.unpredictable = unpredictable;
	dut.config.neighbours = 1;
	memcpy(dut.config.neighbour[0].ip, dut_peer4, 16);
	memcpy(dut.config.neighbour[0].mac, dut_peer_mac, 6);
	dut_create(&dut);
	if (threads) /* and back: the rest of the test gives the time */
		CU_ASSERT_EQUAL_FATAL(sp_nic_start(dut.nic), 0);
	sp_nic_stop(dut.nic);
	id = dut_context(&dut, "r", "rvma", "qp=any");
	c.qp = qp_of(id);
	c.hash = sp_hash(&sp_context_by_id(dut.nic, id)->view[0]->pub, &id, sizeof(id));
	memcpy(&c.mac, dut.nic->port[0].mac, 6);
	id = dut_context(&dut, "s", "sdr", "qp=any;max-messages=2;max-message-bytes=4096;chunk-bytes=4096");
	c.row = qp_of(id);
	sdr = sp_context_by_id(dut.nic, id);
	c.control = sdr->qp_control;
	CU_ASSERT(sdr->qp_count > 1);
	say_hello((uint32_t)c.qp);
	dut_settle(&dut, SP_SEC);
	CU_ASSERT_EQUAL_FATAL(dut.port.sents, 1);
	sent = dut.port.sent[0].bytes + 34;
	c.udp_source = sp_load_be16(sent);
	c.psn = sp_load_be24(sent + 8 + 9);
	memcpy(&welcome, sent + 8 + 12, sizeof(welcome));
	c.token = sp_load_be64(welcome.token);
	c.nonce = sp_load_be64(welcome.nonce);
	dut_stop(&dut);
	return c;
}

static int compare(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Two NICs have 64, 48, 20 or 14 bits in common only by accident: the bounds are passed once in 10^9 runs. */
TEST(no_two_fresh_nics_choose_the_same)
{
	static struct chosen chosen[NICS];
	static const unsigned most[FIELDS] = {
		[offsetof(struct chosen, qp) / 8] = 3,	    [offsetof(struct chosen, row) / 8] = 3,
		[offsetof(struct chosen, control) / 8] = 5, [offsetof(struct chosen, psn) / 8] = 3,
		[offsetof(struct chosen, mac) / 8] = NICS,  [offsetof(struct chosen, udp_source) / 8] = 14};
	static uint64_t column[NICS];

	for (unsigned i = 0; i < NICS; i++)
		chosen[i] = make(1, true, false);
	for (unsigned field = 0; field < FIELDS; field++) {
		unsigned equal = 0;

		for (unsigned i = 0; i < NICS; i++)
			column[i] = ((const uint64_t *)&chosen[i])[field];
		qsort(column, NICS, sizeof(*column), compare);
		for (unsigned i = 1; i < NICS; i++)
			equal += column[i] == column[i - 1];
		CU_ASSERT(equal <= most[field]);
		if (equal > most[field])
			printf("# number %u of struct chosen: %u are not new\n", field, equal);
	}
	for (unsigned i = 1; i < NICS; i++) /* a MAC is no secret, and switches remember it */
		CU_ASSERT_EQUAL(chosen[i].mac, chosen[0].mac);
}

TEST(in_virtual_time_all_follows_from_the_seed)
{
	const struct chosen a = make(1, false, false), b = make(1, false, false), other = make(2, false, false);

	CU_ASSERT_EQUAL(memcmp(&a, &b, sizeof(a)), 0);
	CU_ASSERT(a.token != other.token && a.qp != other.qp && a.psn != other.psn && a.hash != other.hash);
	CU_ASSERT_NOT_EQUAL(a.mac, other.mac);
}

/* A program with a NIC inside, on real time: as `spindle run`, unless it wants a seed. */
TEST(a_nic_that_was_started_draws_from_the_kernel_unless_it_has_a_seed)
{
	const struct chosen a = make(0, false, true), b = make(0, false, true);

	CU_ASSERT(a.token != b.token && a.nonce != b.nonce && a.control != b.control);
	const struct chosen c = make(5, false, true), d = make(5, false, true), e = make(5, false, false);
	CU_ASSERT_EQUAL(memcmp(&c, &d, sizeof(c)), 0);
	CU_ASSERT_EQUAL(memcmp(&c, &e, sizeof(c)), 0);
	/* `unpredictable` is stronger than a seed */
	const struct chosen f = make(5, true, true), g = make(5, true, true);
	CU_ASSERT(f.token != g.token && f.nonce != g.nonce && f.mac == g.mac);
}
