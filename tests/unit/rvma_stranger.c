/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hosts that are no party to an RVMA session. One knows the tokens and sends from its own address, or to another one of
 * the NIC's; one sends from the peer's address and does not know the tokens. Neither changes anything.
 */
#include "../../handlers/wire/reliability.h"
#include "../../handlers/wire/roce.h"
#include "../../handlers/wire/rvma.h"
#include "../lib/dut.h"

#define QP	64
#define THEIR	0x321 /* the peer's QP */
#define NONCE	7     /* the peer's */
#define MAILBOX 5

static uint8_t memory[65536];
static uint32_t id;
static sp_time now;
static uint64_t token;
static bool six;

/* Where a packet comes from and goes to. */
static const uint8_t *from, *to;
static const uint8_t stranger4[16] = DUT_IP4(192, 0, 2, 66), second4[16] = DUT_IP4(192, 0, 2, 3),
		     stranger6[16] = DUT_IP6(0x66), second6[16] = DUT_IP6(3);

static void from_peer(void)
{
	from = six ? dut_peer6 : dut_peer4;
	to = six ? dut_own6 : dut_own4;
}

static void make(struct frame *f, uint8_t opcode, const void *bytes, uint32_t len)
{
	const uint32_t source = six ? 8 : 12, size = six ? 16 : 4;

	dut_roce(f, six ? FRAME_IP6 : FRAME_IP4, QP, 0, bytes, len);
	f->bytes[f->l4 + 8] = opcode;
	memcpy(f->bytes + f->l3 + source, from + 16 - size, size);
	memcpy(f->bytes + f->l3 + source + size, to + 16 - size, size);
	if (!six)
		frame_checksum4(f);
	dut_seal(f);
}

static void feed(uint8_t opcode, const void *bytes, uint32_t len)
{
	struct frame f;

	make(&f, opcode, bytes, len);
	dut_feed(&dut, &f);
	dut_settle(&dut, now += SP_US);
}

static uint64_t count(const char *name)
{
	return sp_nic_context_counter(dut.nic, id, name);
}

struct put {
	struct sp_rvma_put put;
	uint8_t bytes[64];
};

static struct put put_of(uint64_t with, uint64_t transfer, uint8_t fill)
{
	struct put p = {.put = {.head = {.version = SP_RVMA_VERSION}}};

	sp_store_be64(p.put.head.token, with);
	sp_store_be64(p.put.head.transfer, transfer);
	sp_store_be64(p.put.length, sizeof(p.bytes));
	sp_store_be64(p.put.mailbox, MAILBOX);
	sp_store_be64(p.put.offset, transfer * sizeof(p.bytes));
	memset(p.bytes, fill, sizeof(p.bytes));
	return p;
}

static void feed_put(uint64_t with, uint64_t transfer, uint8_t fill)
{
	const struct put p = put_of(with, transfer, fill);

	feed(SP_RVMA_PUT, &p, sizeof(p));
}

static struct sp_rvma_hello hello(uint64_t nonce)
{
	struct sp_rvma_hello h = {.version = SP_RVMA_VERSION};

	sp_store_be32(h.qp, THEIR);
	sp_store_be32(h.mtu, 1024);
	sp_store_be32(h.window, 64);
	sp_store_be64(h.token, 0xABCDEF);
	sp_store_be64(h.nonce, nonce);
	return h;
}

/* A session in which the peer has put once. */
static void start(bool ipv6)
{
	struct sp_command post = {.op = SP_CMD_POST, .cookie = 1, .arg = {[2] = sizeof(memory)}};
	const struct sp_rvma_hello h = hello(NONCE);
	struct sp_mr *mr;

	six = ipv6;
	dut_prepare(&dut, 1);
	memcpy(dut.config.address[2].ip, second4, 16);
	dut.config.address[2].prefix = 24;
	memcpy(dut.config.address[3].ip, second6, 16);
	dut.config.address[3].prefix = 64;
	dut.config.addresses = 4;
	dut.config.neighbours = 2;
	memcpy(dut.config.neighbour[0].ip, dut_peer4, 16);
	memcpy(dut.config.neighbour[1].ip, dut_peer6, 16);
	for (unsigned i = 0; i < 2; i++)
		memcpy(dut.config.neighbour[i].mac, dut_peer_mac, 6);
	dut_create(&dut);
	id = dut_context(&dut, "c", "rvma", "qp=64;mailbox=5;timeout=1000s");
	now = SP_SEC;
	memset(memory, 0, sizeof(memory));
	CU_ASSERT_EQUAL_FATAL(sp_mr_reg(dut.dev, memory, sizeof(memory), &mr), 0);
	post.context = id;
	post.arg[0] = mr->id;
	CU_ASSERT_EQUAL_FATAL(sp_command_call(dut.dev, &post, NULL), 0);
	from_peer();
	feed(SP_RVMA_HELLO, &h, sizeof(h));
	CU_ASSERT_FATAL(dut.port.sents > 0);
	token = sp_load_be64(dut.port.sent[0].bytes + 14 + (six ? 40 : 20) + 8 + 12 +
			     offsetof(struct sp_rvma_hello, token));
	feed_put(token, 0, 1);
	CU_ASSERT_EQUAL(count("puts"), 1);
	now = dut_run(&dut, now, now + SP_MS); /* acknowledged */
}

static void end(void)
{
	dut_check_totals(&dut);
	dut_stop(&dut);
}

/* The session is as it was: the peer's next put arrives, is answered, and nothing else has come to the memory. */
static void goes_on(uint64_t transfer)
{
	const uint64_t puts = count("puts");

	from_peer();
	feed_put(token, transfer, 2);
	CU_ASSERT_EQUAL(count("puts"), puts + 1);
	for (unsigned i = 0; i < sizeof(memory); i++)
		if (memory[i] != (i < 64 ? 1 : i / 64 == transfer ? 2 : 0)) {
			CU_FAIL("a byte of a stranger's");
			break;
		}
	CU_ASSERT_EQUAL(count("sessions"), 1);
	CU_ASSERT_EQUAL(count("peer_restarts"), 0);
	CU_ASSERT_EQUAL(count("refusals"), 0);
}

/* Every kind of packet that a session has, with that token. Returns how many. */
static unsigned all_kinds(uint64_t with)
{
	struct {
		uint8_t token[8];
		union {
			struct sp_rel_poll poll;
			struct sp_rel_ack ack;
		};
	} d;
	struct sp_rvma_bye bye;
	struct sp_rvma_nack nack = {.reason = SP_RVMA_NO_BUFFER};
	struct sp_rvma_get get = {.head = {.version = SP_RVMA_VERSION}};
	struct sp_rvma_data data = {.head = {.version = SP_RVMA_VERSION}};

	sp_store_be64(bye.token, with);
	sp_store_be64(bye.nonce, NONCE);
	feed(SP_RVMA_BYE, &bye, sizeof(bye));
	sp_store_be64(nack.token, with);
	sp_store_be64(nack.transfer, 0);
	sp_store_be32(nack.blocks, 1);
	feed(SP_RVMA_NACK, &nack, sizeof(nack));
	memset(&d, 0, sizeof(d));
	sp_store_be64(d.token, with);
	d.poll = (struct sp_rel_poll){.head = {.magic = "SPRL", .version = SP_REL_VERSION, .type = SP_REL_POLL}};
	sp_store_be64(d.poll.head.poll, 1);
	sp_store_be64(d.poll.begin, 1 << 20); /* would give all blocks below up */
	feed(SP_RVMA_POLL, &d, 8 + sizeof(d.poll));
	memset(&d.ack, 0, sizeof(d.ack));
	d.ack.head = (struct sp_rel_head){.magic = "SPRL", .version = SP_REL_VERSION, .type = SP_REL_ACK};
	feed(SP_RVMA_ACK, &d, 8 + sizeof(d.ack));
	sp_store_be64(get.head.token, with);
	sp_store_be64(get.head.transfer, 1);
	sp_store_be64(get.mailbox, MAILBOX);
	feed(SP_RVMA_GET, &get, sizeof(get));
	sp_store_be64(data.head.token, with);
	sp_store_be64(data.head.transfer, 2);
	feed(SP_RVMA_DATA, &data, sizeof(data));
	feed_put(with, 1, 9);
	return 7;
}

static void nothing_with(const char *drop, uint64_t with)
{
	const uint64_t before = count(drop);
	const unsigned sent = dut.port.sents, packets = all_kinds(with);

	CU_ASSERT_EQUAL(count(drop), before + packets);
	CU_ASSERT_EQUAL(dut.port.sents, sent); /* a stranger is told nothing */
}

static void tokens_of_anothers_session(void)
{
	from_peer();
	from = six ? stranger6 : stranger4;
	nothing_with("wrong-peer", token);
	from_peer();
	to = six ? second6 : second4;
	nothing_with("wrong-peer", token);
	goes_on(3);
}

TEST(right_tokens_from_another_address_or_to_another_one_change_nothing)
{
	for (unsigned ipv6 = 0; ipv6 < 2; ipv6++) {
		start(ipv6);
		tokens_of_anothers_session();
		end();
	}
}

TEST(the_peers_address_with_wrong_tokens_changes_nothing)
{
	for (unsigned ipv6 = 0; ipv6 < 2; ipv6++) {
		start(ipv6);
		for (unsigned bit = 0; bit < 64; bit += 7) {
			from_peer();
			nothing_with("bad-token", token ^ 1ull << bit);
		}
		goes_on(3);
		end();
	}
}

/* A host with the right addresses, of the other version: IPv4-mapped ones are not the same. */
TEST(a_session_has_one_version_of_ip)
{
	for (unsigned ipv6 = 0; ipv6 < 2; ipv6++) {
		start(ipv6);
		six = !six;
		from_peer();
		nothing_with("wrong-peer", token);
		six = !six;
		goes_on(3);
		end();
	}
}

/* The plain puts of one burst are taken together: one from elsewhere among them is not. */
TEST(a_strangers_put_between_two_of_the_peers_is_dropped)
{
	for (unsigned ipv6 = 0; ipv6 < 2; ipv6++) {
		start(ipv6);
		for (unsigned i = 0; i < 9; i++) {
			const struct put p = put_of(token, 1 + i, 3);
			struct frame f;

			from_peer();
			if (i % 3 == 1)
				from = six ? stranger6 : stranger4;
			if (i % 3 == 2)
				to = six ? second6 : second4;
			make(&f, SP_RVMA_PUT, &p, sizeof(p));
			dut_feed(&dut, &f);
		}
		dut_settle(&dut, now += SP_US);
		CU_ASSERT_EQUAL(count("wrong-peer"), 6);
		CU_ASSERT_EQUAL(count("puts"), 4);
		for (unsigned i = 0; i < 9; i++)
			CU_ASSERT_EQUAL(memory[64 * (1 + i)], i % 3 ? 0 : 3);
		end();
	}
}

/* A HELLO as of the peer is answered to the peer, as it may have restarted. As long as nobody answers with the new
 * token, from the peer's address, the session goes on. */
TEST(a_hello_in_the_peers_name_changes_nothing)
{
	for (unsigned ipv6 = 0; ipv6 < 2; ipv6++) {
		const struct sp_rvma_hello h = hello(99);
		uint64_t offered;

		start(ipv6);
		dut.port.sents = 0;
		feed(SP_RVMA_HELLO, &h, sizeof(h));
		CU_ASSERT_EQUAL_FATAL(dut.port.sents, 1);
		offered = sp_load_be64(dut.port.sent[0].bytes + 14 + (six ? 40 : 20) + 8 + 12 +
				       offsetof(struct sp_rvma_hello, token));
		CU_ASSERT_NOT_EQUAL(offered, token);
		from = six ? stranger6 : stranger4; /* even if it knew it */
		nothing_with("wrong-peer", offered);
		goes_on(3);
		end();
	}
}

/* ... and one from its own address makes a session of its own, whose token opens nothing of the other. */
TEST(a_hello_of_another_host_begins_another_session)
{
	const struct sp_rvma_hello h = hello(99);

	start(false);
	from = stranger4;
	feed(SP_RVMA_HELLO, &h, sizeof(h));
	nothing_with("wrong-peer", token);
	goes_on(3);
	end();
}

/* What the tests above send is no nonsense: the peer itself ends its session so. */
TEST(the_peer_itself_may_end_its_session)
{
	for (unsigned ipv6 = 0; ipv6 < 2; ipv6++) {
		start(ipv6);
		CU_ASSERT_EQUAL(all_kinds(token) - 1, count("bad-token")); /* all after its BYE */
		CU_ASSERT_EQUAL(count("wrong-peer"), 0);
		end();
	}
}
