/* SPDX-License-Identifier: BSD-3-Clause */
/* RVMA's sessions, packet by packet: who is answered what, and what a peer that lies comes to. */
#include "../../handlers/wire/reliability.h"
#include "../../handlers/wire/roce.h"
#include "../../handlers/wire/rvma.h"
#include "../lib/dut.h"

#define QP    64
#define THEIR 0x321 /* the peer's QP */

static uint32_t id;
static sp_time now;
static uint32_t their_window; /* blocks that the peer takes */

static void start(const char *settings)
{
	dut_prepare(&dut, 1);
	dut.config.neighbours = 1;
	memcpy(dut.config.neighbour[0].ip, dut_peer4, 16);
	memcpy(dut.config.neighbour[0].mac, dut_peer_mac, 6);
	dut_create(&dut);
	id = dut_context(&dut, "c", "rvma", settings);
	now = SP_SEC;
	their_window = 64;
}

static void end(void)
{
	dut_check_totals(&dut);
	dut_stop(&dut);
}

/* ---- packets ---- */
static void feed_from(uint32_t source, uint8_t opcode, const void *bytes, uint32_t len)
{
	struct frame f;
	uint16_t sum;

	dut_roce(&f, FRAME_IP4, QP, 0, bytes, len);
	f.bytes[f.l4 + 8] = opcode;
	if (source) {
		sp_store_be32(f.bytes + f.l3 + 12, source);
		memset(f.bytes + f.l3 + 10, 0, 2);
		sum = sp_checksum(f.bytes + f.l3, 20, 0);
		memcpy(f.bytes + f.l3 + 10, &sum, 2);
	}
	dut_seal(&f);
	dut_feed(&dut, &f);
	dut_settle(&dut, now += SP_US);
}

static void feed(uint8_t opcode, const void *bytes, uint32_t len)
{
	feed_from(0, opcode, bytes, len);
}

static uint64_t drops(const char *name)
{
	return sp_nic_context_counter(dut.nic, id, name);
}

/* How many peers that had sent something have gone, as shared memory says. */
static uint64_t gone(void)
{
	const struct sp_rvma_area *area;
	uint64_t len, n;
	void *base;

	CU_ASSERT_EQUAL_FATAL(sp_context_area(dut.dev, id, &base, &len), 0);
	area = base;
	memcpy(&n, (const uint8_t *)base + sp_rvma_layout(area->windows, area->ops).gone, sizeof(n));
	return n;
}

/* What the NIC sent latest with that opcode, behind the BTH; NULL. */
static const uint8_t *latest(uint8_t opcode)
{
	for (unsigned i = dut.port.sents; i-- > 0;)
		if (dut.port.sent[i].len > 54 && dut.port.sent[i].bytes[42] == opcode)
			return dut.port.sent[i].bytes + 54;
	return NULL;
}

static struct sp_rvma_hello hello(uint64_t nonce)
{
	struct sp_rvma_hello h = {.version = SP_RVMA_VERSION};

	sp_store_be32(h.qp, THEIR);
	sp_store_be32(h.mtu, 1024);
	sp_store_be32(h.window, their_window);
	sp_store_be64(h.token, 0xABCDEF);
	sp_store_be64(h.nonce, nonce);
	return h;
}

static struct sp_rvma_hello welcomed_as(uint32_t qp, uint64_t nonce)
{
	struct sp_rvma_hello h = hello(nonce), w = {.version = 0};

	sp_store_be32(h.qp, qp);
	dut.port.sents = 0;
	feed(SP_RVMA_HELLO, &h, sizeof(h));
	if (latest(SP_RVMA_WELCOME))
		memcpy(&w, latest(SP_RVMA_WELCOME), sizeof(w));
	return w;
}

static struct sp_rvma_hello welcomed(uint64_t nonce)
{
	return welcomed_as(THEIR, nonce);
}

static void feed_put(uint64_t token, uint64_t transfer, uint32_t packet, uint64_t length, uint32_t bytes)
{
	struct {
		struct sp_rvma_put put;
		uint8_t bytes[1024];
	} p = {.put = {.head = {.version = SP_RVMA_VERSION}}};

	sp_store_be64(p.put.head.token, token);
	sp_store_be64(p.put.head.transfer, transfer);
	sp_store_be32(p.put.head.packet, packet);
	sp_store_be64(p.put.length, length);
	sp_store_be64(p.put.mailbox, 5);
	memset(p.bytes, (int)(transfer + packet + 1), bytes);
	feed(SP_RVMA_PUT, &p, (uint32_t)sizeof(p.put) + bytes);
}

static void feed_datagram(uint8_t opcode, uint64_t token, const void *bytes, uint32_t len)
{
	uint8_t b[256];

	sp_store_be64(b, token);
	memcpy(b + 8, bytes, len);
	feed(opcode, b, len + 8);
}

/* A session that a packet has proved. */
static uint64_t open_session(uint64_t nonce)
{
	const struct sp_rvma_hello w = welcomed(nonce);

	feed_put(sp_load_be64(w.token), 0, 0, 8, 8); /* to no mailbox */
	return sp_load_be64(w.token);
}

/* ---- who is answered what ---- */
TEST(a_hello_is_answered_and_repeated_gets_the_same_answer)
{
	start("qp=64;mtu=512;window=32");
	struct sp_rvma_hello w = welcomed(7);
	CU_ASSERT_EQUAL(w.version, SP_RVMA_VERSION);
	CU_ASSERT_EQUAL(sp_load_be64(w.echo), 7);
	CU_ASSERT_EQUAL(sp_load_be32(w.qp), QP);
	CU_ASSERT_EQUAL(sp_load_be32(w.mtu), 512);
	CU_ASSERT_EQUAL(sp_load_be32(w.window), 32);
	CU_ASSERT(sp_load_be64(w.nonce) && sp_load_be64(w.token));
	CU_ASSERT_EQUAL(dut.port.sent[0].bytes[42 + 7], THEIR & 0xFF);
	struct sp_rvma_hello again = welcomed(7);
	CU_ASSERT(!memcmp(&w, &again, sizeof(w)));
	CU_ASSERT_EQUAL(drops("sessions"), 0); /* nothing has come with the token */
	end();
}

TEST(another_hello_makes_a_candidate_that_takes_over_once_it_is_used)
{
	const uint64_t eight = 8;

	start("qp=64");
	uint64_t first = open_session(7);
	CU_ASSERT_EQUAL(drops("sessions"), 1);
	struct sp_rvma_hello other = welcomed(eight);
	uint64_t second = sp_load_be64(other.token);
	CU_ASSERT(second && second != first);
	struct sp_rvma_hello w = welcomed(7); /* late: the session is as it was */
	CU_ASSERT_EQUAL(sp_load_be64(w.token), first);
	feed_put(first, 1, 0, 8, 8);
	CU_ASSERT_EQUAL(drops("bad-token"), 0);
	CU_ASSERT_EQUAL(drops("peer_restarts"), 0);
	CU_ASSERT_EQUAL(welcomed(9).version, 0); /* a third one so soon is not believed */
	feed_put(second, 0, 0, 8, 8);
	CU_ASSERT_EQUAL(drops("peer_restarts"), 1);
	CU_ASSERT_EQUAL(drops("sessions"), 2);
	feed_put(first, 2, 0, 8, 8);
	CU_ASSERT_EQUAL(drops("bad-token"), 1);
	feed_put(second, 1, 0, 8, 8);
	CU_ASSERT_EQUAL(drops("bad-token"), 1);
	end();
}

/* The goodbye of one that restarts may be late, or its silence be noticed late: its next session has our WELCOME then.
 */
TEST(the_end_of_a_session_does_not_end_the_offer_of_the_next_one)
{
	struct sp_rvma_bye bye;

	start("qp=64");
	uint64_t first = open_session(7);
	uint64_t second = sp_load_be64(welcomed(8).token);
	sp_store_be64(bye.token, first);
	sp_store_be64(bye.nonce, 7);
	feed(SP_RVMA_BYE, &bye, sizeof(bye));
	CU_ASSERT_EQUAL(drops("sessions"), 1);
	CU_ASSERT_EQUAL(gone(), 1);
	feed_put(first, 1, 0, 8, 8);
	CU_ASSERT_EQUAL(drops("bad-token"), 1);
	CU_ASSERT_EQUAL(sp_load_be64(welcomed(8).token), second); /* a repeat */
	feed_put(second, 0, 0, 8, 8);
	CU_ASSERT_EQUAL(drops("bad-token"), 1);
	CU_ASSERT_EQUAL(drops("sessions"), 2);
	CU_ASSERT_EQUAL(drops("refusals"), 2); /* there is no mailbox: of each session one */
	end();
}

TEST(goodbye_counts_with_the_right_nonce_only)
{
	struct sp_rvma_bye bye;

	start("qp=64");
	uint64_t token = open_session(7);
	sp_store_be64(bye.token, token);
	sp_store_be64(bye.nonce, 8);
	feed(SP_RVMA_BYE, &bye, sizeof(bye));
	CU_ASSERT_EQUAL(drops("bad-control"), 1);
	feed_put(token, 1, 0, 8, 8);
	CU_ASSERT_EQUAL(drops("bad-token"), 0);
	CU_ASSERT_EQUAL(gone(), 0);
	sp_store_be64(bye.nonce, 7);
	feed(SP_RVMA_BYE, &bye, sizeof(bye));
	CU_ASSERT_EQUAL(drops("bad-control"), 1);
	CU_ASSERT_EQUAL(gone(), 1);
	feed_put(token, 2, 0, 8, 8);
	CU_ASSERT_EQUAL(drops("bad-token"), 1);
	end();
}

/* ---- lies ---- */
TEST(hellos_that_cannot_be_are_refused)
{
	static const uint32_t qps[] = {0, 1, 0xFFFFFF, 1u << 24 | 5};
	struct sp_rvma_hello h;
	uint64_t refused = 0;

	start("qp=64");
	for (unsigned i = 0; i < 4; i++) {
		h = hello(7);
		sp_store_be32(h.qp, qps[i]);
		feed(SP_RVMA_HELLO, &h, sizeof(h));
		CU_ASSERT_EQUAL(drops("bad-control"), ++refused);
	}
	h = hello(7);
	sp_store_be32(h.mtu, 63);
	feed(SP_RVMA_HELLO, &h, sizeof(h));
	CU_ASSERT_EQUAL(drops("bad-control"), ++refused);
	h = hello(7);
	sp_store_be32(h.window, 0);
	feed(SP_RVMA_HELLO, &h, sizeof(h));
	CU_ASSERT_EQUAL(drops("bad-control"), ++refused);
	h = hello(0);
	feed(SP_RVMA_HELLO, &h, sizeof(h));
	CU_ASSERT_EQUAL(drops("bad-control"), ++refused);
	h = hello(7);
	h.echo[3] = 1;
	feed(SP_RVMA_HELLO, &h, sizeof(h));
	CU_ASSERT_EQUAL(drops("bad-control"), ++refused);
	feed(SP_RVMA_WELCOME, &h, sizeof(h)); /* nobody has asked */
	CU_ASSERT_EQUAL(drops("bad-control"), ++refused);
	h = hello(7);
	h.version = 2;
	feed(SP_RVMA_HELLO, &h, sizeof(h));
	CU_ASSERT_EQUAL(drops("bad-version"), 1);
	h.version = 1;
	feed(SP_RVMA_HELLO, &h, sizeof(h) - 4);
	CU_ASSERT_EQUAL(drops("short-header"), 1);
	CU_ASSERT_EQUAL(dut.port.sents, 0);
	end();
}

TEST(what_speaks_of_what_was_never_sent_is_refused)
{
	struct sp_rel_ack ack = {.head = {.magic = "SPRL", .version = SP_REL_VERSION, .type = SP_REL_ACK}};
	struct sp_rel_poll poll = {.head = {.magic = "SPRL", .version = SP_REL_VERSION, .type = SP_REL_POLL}};
	struct sp_rvma_nack nack = {.reason = SP_RVMA_CLOSED};
	uint64_t token, refused = 0;

	start("qp=64");
	token = open_session(7);
	ack.base[7] = 1;
	feed_datagram(SP_RVMA_ACK, token, &ack, sizeof(ack));
	CU_ASSERT_EQUAL(drops("bad-control"), ++refused);
	feed_datagram(SP_RVMA_POLL, token, &poll, sizeof(poll)); /* without a number */
	CU_ASSERT_EQUAL(drops("bad-control"), ++refused);
	feed_datagram(SP_RVMA_POLL, token, &poll, 12);
	CU_ASSERT_EQUAL(drops("bad-control"), ++refused);
	feed_datagram(SP_RVMA_POLL, token ^ 1ull << 40, &poll, sizeof(poll));
	CU_ASSERT_EQUAL(drops("bad-token"), 1);
	sp_store_be64(nack.token, token);
	feed(SP_RVMA_NACK, &nack, sizeof(nack)); /* of no transfer of ours: nothing comes of it */
	nack.reason = 0;
	feed(SP_RVMA_NACK, &nack, sizeof(nack));
	CU_ASSERT_EQUAL(drops("bad-control"), ++refused);
	nack.reason = SP_RVMA_PEER_GONE;
	feed(SP_RVMA_NACK, &nack, sizeof(nack));
	CU_ASSERT_EQUAL(drops("bad-control"), ++refused);
	feed_put(token, 1, 0, 8, 8); /* it goes on */
	CU_ASSERT_EQUAL(drops("refusals"), 2);
	end();
}

/* A window of 4 blocks: what is further ahead than was offered does not begin; a poll that begins at the end of all
 * numbers makes all else late; nothing takes effect twice. */
TEST(blocks_count_within_what_was_offered)
{
	struct sp_rel_poll poll = {.head = {.magic = "SPRL", .version = SP_REL_VERSION, .type = SP_REL_POLL}};

	start("qp=64;window=4;mailbox=5;mode=steered;threshold=0;post-bytes=65536");
	uint64_t token = open_session(7);
	feed_put(token, 4, 0, 8, 8);
	CU_ASSERT_EQUAL(drops("beyond"), 1);
	feed_put(token, SP_RVMA_BLOCKS - 1, 0, 8, 8);
	feed_put(token, UINT64_MAX, 0, 8, 8);
	CU_ASSERT_EQUAL(drops("beyond") + drops("bad-length"), 3);
	feed_put(token, 0, 0, 8, 8); /* refused already */
	CU_ASSERT_EQUAL(drops("refusals"), 1);
	CU_ASSERT_EQUAL(drops("refused"), 2);
	sp_store_be64(poll.head.poll, 1);
	sp_store_be64(poll.begin, 1ull << 62);
	sp_store_be64(poll.from_message, 1ull << 62);
	feed_datagram(SP_RVMA_POLL, token, &poll, sizeof(poll));
	for (uint64_t k = 0; k < 6; k++)
		feed_put(token, k, 0, 8, 8);
	CU_ASSERT_EQUAL(drops("duplicate"), 6);
	CU_ASSERT_EQUAL(drops("refusals"), 1);
	end();
}

TEST(data_for_no_get_are_refused)
{
	struct {
		struct sp_rvma_data data;
		uint8_t bytes[16];
	} d = {.data = {.head = {.version = SP_RVMA_VERSION}}};

	start("qp=64");
	uint64_t token = open_session(7);
	sp_store_be64(d.data.head.token, token);
	sp_store_be64(d.data.head.transfer, 1);
	sp_store_be64(d.data.length, 16);
	sp_store_be64(d.data.get, 3);
	feed(SP_RVMA_DATA, &d, sizeof(d));
	CU_ASSERT_EQUAL(drops("refusals"), 2);
	CU_ASSERT_EQUAL(drops("placed_packets"), 0);
	end();
}

/* ---- readers ---- */
static uint8_t *memory;
static struct sp_mr *mr;

static int call(unsigned op, uint64_t window)
{
	const struct sp_command command = {.op = (uint16_t)op, .context = id, .arg = {window}};

	return sp_command_call(dut.dev, &command, NULL);
}

static void feed_get(uint64_t token, uint64_t transfer, uint64_t length)
{
	struct sp_rvma_get get = {.head = {.version = SP_RVMA_VERSION}};

	sp_store_be64(get.head.token, token);
	sp_store_be64(get.head.transfer, transfer);
	sp_store_be64(get.length, length);
	sp_store_be64(get.mailbox, 9);
	feed(SP_RVMA_GET, &get, sizeof(get));
}

/* A region of `length` bytes at mailbox 9, of which the peer gets all: its data are on their way, up to the 64 blocks
 * that it takes. */
static uint64_t being_read(uint64_t length, uint64_t *token)
{
	struct sp_event result = {.status = 0};
	const struct sp_command window = {
		.op = SP_RVMA_CMD_WINDOW, .context = id, .arg = {9, 0, 0, SP_RVMA_REGION | SP_RVMA_READABLE}};
	struct sp_command post = {.op = SP_CMD_POST, .context = id, .arg = {[2] = length}};

	memory = calloc(1, length);
	CU_ASSERT_EQUAL_FATAL(sp_mr_reg(dut.dev, memory, length, &mr), 0);
	CU_ASSERT_EQUAL_FATAL(sp_command_call(dut.dev, &window, &result), 0);
	post.arg[0] = mr->id;
	post.arg[5] = result.arg[0];
	CU_ASSERT_EQUAL(sp_command_call(dut.dev, &post, NULL), 0);
	*token = open_session(7);
	feed_get(*token, 1, length);
	CU_ASSERT_PTR_NOT_NULL(latest(SP_RVMA_DATA));
	return result.arg[0];
}

static void no_more_reading(void)
{
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, id), 0);
	CU_ASSERT_EQUAL(sp_mr_free(mr), 0); /* nothing holds it any more */
	free(memory);
	end();
}

TEST(a_window_that_is_freed_does_not_wait_for_those_who_read_it)
{
	uint64_t token;
	unsigned tries = 0;

	start("qp=64;mtu=1024");
	uint64_t window = being_read(1 << 20, &token);
	while (call(SP_RVMA_CMD_FREE, window) == -EAGAIN && tries++ < 100)
		dut_settle(&dut, now += SP_US);
	CU_ASSERT(tries < 100);
	CU_ASSERT_EQUAL(call(SP_RVMA_CMD_FREE, window), -ENOENT);
	dut_run(&dut, now, now + SP_SEC);
	no_more_reading();
}

TEST(a_peer_that_reads_much_leaves_room_for_others)
{
	uint64_t token;

	start("qp=64;mtu=1024;ops=6");
	being_read(1 << 20, &token);
	feed_get(token, 2, 1 << 20);
	feed_get(token, 3, 1 << 20);
	CU_ASSERT_EQUAL(drops("refusals"), 1); /* what opened the session */
	feed_get(token, 4, 1 << 20);
	CU_ASSERT_EQUAL(drops("refusals"), 2);
	const struct sp_rvma_nack *nack = (const void *)latest(SP_RVMA_NACK);
	CU_ASSERT_PTR_NOT_NULL_FATAL(nack);
	CU_ASSERT_EQUAL(nack->reason, SP_RVMA_NO_ROOM);
	CU_ASSERT_EQUAL(sp_load_be64(nack->transfer), 4);
	no_more_reading();
}

/* It takes one block at a time, and says a second later that it has come. */
TEST(a_peer_that_takes_its_time_to_read_does_not_keep_a_buffer)
{
	struct sp_rel_ack ack = {.head = {.magic = "SPRL", .version = SP_REL_VERSION, .type = SP_REL_ACK}};
	uint64_t token;
	unsigned second = 0;

	start("qp=64;mtu=64;timeout=2s");
	their_window = 1;
	uint64_t window = being_read(1 << 20, &token); /* 256 blocks, which may take 2 * (2 + 16) s */
	CU_ASSERT_EQUAL(call(SP_RVMA_CMD_CLOSE, window), 0);
	for (; second < 60 && sp_nic_context_counter(dut.nic, id, "epochs") == 0; second++) {
		sp_store_be64(ack.base, second);
		sp_store_be64(ack.from_message, second);
		sp_store_be64(ack.to_message, UINT64_MAX);
		ack.head.flags = SP_REL_UNASKED;
		feed_datagram(SP_RVMA_ACK, token, &ack, sizeof(ack));
		dut_run(&dut, now, now + SP_SEC);
		now += SP_SEC;
	}
	CU_ASSERT(second > 3 && second <= 38);
	CU_ASSERT_EQUAL(drops("bad-control"), 0);
	CU_ASSERT_EQUAL(drops("gets_served"), 0);
	no_more_reading();
}

/* ---- floods ---- */
TEST(a_flood_of_hellos_neither_ends_a_session_nor_keeps_others_out)
{
	struct sp_rvma_hello h = hello(9);
	uint64_t token, seed = 5;

	start("qp=64;peers=8");
	token = open_session(7);
	for (uint32_t i = 0; i < 5000; i++) {
		sp_store_be32(h.qp, 0x1000 + (uint32_t)(dut_random(&seed) % 100000));
		sp_store_be64(h.nonce, dut_random(&seed) | 1);
		feed_from(0xC0000200 + 10 + i % 200, SP_RVMA_HELLO, &h, sizeof(h));
	}
	CU_ASSERT(drops("no-session") > 4000); /* within 5 ms hardly one makes room */
	feed_put(token, 1, 0, 8, 8);
	CU_ASSERT_EQUAL(drops("bad-token"), 0);
	CU_ASSERT_EQUAL(drops("refusals"), 2);
	now += 20 * SP_MS;
	dut.port.sents = 0;
	sp_store_be32(h.qp, 0x777);
	feed(SP_RVMA_HELLO, &h, sizeof(h));
	CU_ASSERT_PTR_NOT_NULL(latest(SP_RVMA_WELCOME));
	end();
}

TEST(nacks_are_limited_in_rate_and_refusals_told_by_polls_all_the_same)
{
	struct sp_rel_poll poll = {.head = {.magic = "SPRL", .version = SP_REL_VERSION, .type = SP_REL_POLL}};

	start("qp=64;nack-rate=10;window=256");
	uint64_t token = open_session(7);
	for (uint64_t k = 1; k < 200; k++)
		feed_put(token, k, 0, 8, 8);
	CU_ASSERT_EQUAL(drops("refusals"), 200);
	CU_ASSERT(drops("nacks_sent") <= 33);
	CU_ASSERT_EQUAL(drops("nacks_sent") + drops("nacks_suppressed"), 200);
	sp_store_be64(poll.head.poll, 1);
	sp_store_be64(poll.from_message, 190);
	sp_store_be32(poll.reach, 200);
	feed_datagram(SP_RVMA_POLL, token, &poll, sizeof(poll));
	const uint8_t *answer = latest(SP_RVMA_ACK);
	CU_ASSERT_PTR_NOT_NULL_FATAL(answer);
	CU_ASSERT_EQUAL(sp_load_be64(answer), 0xABCDEF); /* the peer's token */
	answer += 8;
	CU_ASSERT_EQUAL(sp_load_be16(((const struct sp_rel_ack *)(const void *)answer)->entries), 10);
	answer += sizeof(struct sp_rel_ack);
	for (unsigned i = 0; i < 10; i++) {
		struct sp_rel_entry e;

		memcpy(&e, answer + i * sizeof(e), sizeof(e));
		CU_ASSERT_EQUAL(sp_load_be64(e.message), 190 + i);
		CU_ASSERT_EQUAL(e.flags, SP_REL_REFUSAL);
		CU_ASSERT_EQUAL(e.reason, SP_RVMA_NO_MAILBOX);
	}
	end();
}

/* One peer begins as many transfers as it can, and ends none: half of the room is left. What it could not begin comes
 * again, when one of its own has ended. */
TEST(a_peer_that_opens_many_puts_leaves_room_for_others)
{
	static uint8_t memory[16384];
	struct sp_command post = {.op = SP_CMD_POST, .cookie = 1, .arg = {[2] = sizeof(memory)}};
	struct sp_mr *mr;
	uint64_t token;

	start("qp=64;transfers=8;mailbox=5");
	CU_ASSERT_EQUAL_FATAL(sp_mr_reg(dut.dev, memory, sizeof(memory), &mr), 0);
	post.context = id;
	post.arg[0] = mr->id;
	CU_ASSERT_EQUAL_FATAL(sp_command_call(dut.dev, &post, NULL), 0);
	token = sp_load_be64(welcomed(7).token);
	uint64_t other = sp_load_be64(welcomed_as(THEIR + 1, 8).token);
	for (uint64_t k = 0; k < 6; k++)
		feed_put(token, k, 0, 2048, 1024);
	CU_ASSERT_EQUAL(drops("placed_packets"), 4);
	CU_ASSERT_EQUAL(drops("crowded"), 2);
	for (uint64_t k = 0; k < 3; k++)
		feed_put(other, k, 0, 2048, 1024);
	for (uint64_t k = 0; k < 3; k++)
		feed_put(other, k, 1, 2048, 1024);
	CU_ASSERT_EQUAL(drops("puts"), 3);
	CU_ASSERT_EQUAL(drops("crowded"), 2);
	feed_put(token, 4, 1, 2048, 1024); /* whichever of its packets comes */
	CU_ASSERT_EQUAL(drops("crowded"), 3);
	feed_put(token, 2, 1, 2048, 1024);
	feed_put(token, 4, 1, 2048, 1024);
	feed_put(token, 4, 0, 2048, 1024);
	CU_ASSERT_EQUAL(drops("puts"), 5);
	CU_ASSERT_EQUAL(drops("crowded"), 3);
	CU_ASSERT_EQUAL(drops("refusals"), 0);
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, id), 0);
	CU_ASSERT_EQUAL(sp_mr_free(mr), 0);
	end();
}
