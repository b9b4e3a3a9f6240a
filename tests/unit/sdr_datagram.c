/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams on the control QP: the packets, the slots that they come into, and what neither peer nor host can do. */
#include "../lib/sdr_two_alone.h"

#define LONGEST (MTU - 4)
#define HEAD	((uint32_t)sizeof(struct sp_sdr_control))

static int say(uint64_t offset, uint64_t len)
{
	const struct sp_command c = {.op = SP_SDR_CMD_DATAGRAM, .arg = {BUFFER, offset, len}};

	return fake_command(&alone_nic, &c, NULL);
}

static const struct sp_sdr_connection *connection(struct fake_nic *f)
{
	return (const void *)(f->mem[0].base + 64);
}

static const struct sp_sdr_datagram *slot(struct fake_nic *f, uint64_t n)
{
	const struct sdr *s = f->c.state;

	return (const void *)(f->mem[0].base + s->layout.datagrams + n % s->datagrams * s->layout.datagram_stride);
}

TEST(datagrams_are_as_the_wire_format_says)
{
	static const uint8_t head[] = {'S', 'D', 'R', 'C', 1, 3, 0, 0, 0, 0, 0, 0,
				       0,   0,	 0,   22,  0, 0, 0, 0, 0, 0, 0, 11};
	static const uint32_t size[] = {0, 1, 7, LONGEST};

	alone_pair(M_BYTES);
	for (unsigned i = 0; i < 4; i++) {
		const struct fake_sent *s = &alone_nic.sent[i];
		uint8_t expected[HEAD];

		memcpy(expected, head, HEAD);
		expected[7] = (uint8_t)(HEAD + size[i]);
		CU_ASSERT_EQUAL(say(100 * i, size[i]), 0);
		CU_ASSERT_EQUAL_FATAL(alone_nic.sent_count, i + 1); /* at once, for nothing else waits */
		CU_ASSERT_EQUAL(s->send.opcode, 0x24);
		CU_ASSERT_EQUAL(s->send.dest_qp, 0xF00001);
		CU_ASSERT_EQUAL(s->send.psn, (alone_nic.sent[0].send.psn + i) & 0xFFFFFF);
		CU_ASSERT_EQUAL(s->send.len, HEAD + size[i]);
		CU_ASSERT(!s->send.ext_len && !s->send.mem);
		CU_ASSERT_EQUAL(s->send.flags, SP_SEND_UNPACED); /* not SE */
		CU_ASSERT_EQUAL(memcmp(s->bytes, expected, HEAD), 0);
		CU_ASSERT_EQUAL(memcmp(s->bytes + HEAD, alone_nic.mem[BUFFER].base + 100 * i, size[i]), 0);
		CU_ASSERT_EQUAL(connection(&alone_nic)->datagrams_sent, i + 1);
	}
	CU_ASSERT_EQUAL(alone_nic.refs[BUFFER], 0);
	CU_ASSERT_EQUAL(alone_nic.counters[SDR_DATAGRAMS_SENT], 4);
	alone_unpair();
}

TEST(how_many_bytes_follows_from_the_mtu)
{
	CU_ASSERT_EQUAL(sp_sdr_datagram_bytes(64), 64);
	CU_ASSERT_EQUAL(sp_sdr_datagram_bytes(68), 64);
	CU_ASSERT_EQUAL(sp_sdr_datagram_bytes(69), 65);
	CU_ASSERT_EQUAL(sp_sdr_datagram_bytes(1024), 1020);
	CU_ASSERT_EQUAL(sp_sdr_datagram_bytes(1028), 1024);
	CU_ASSERT_EQUAL(sp_sdr_datagram_bytes(4096), 1024);
}

TEST(each_comes_into_the_next_slot)
{
	alone_pair(M_BYTES);
	for (uint32_t n = 0; n < 200; n++) { /* 64 slots */
		const uint32_t len = n * 7 % (LONGEST + 1);

		CU_ASSERT_EQUAL(say(n, len), 0);
		CU_ASSERT_EQUAL(alone_deliver(&alone_peer, &alone_nic.sent[0]), SP_DONE);
		alone_nic.sent_count = 0;
		CU_ASSERT_EQUAL(slot(&alone_peer, n)->number, 2 * n + 2);
		CU_ASSERT_EQUAL(slot(&alone_peer, n)->length, len);
		CU_ASSERT_EQUAL(memcmp(slot(&alone_peer, n) + 1, alone_nic.mem[BUFFER].base + n, len), 0);
		CU_ASSERT_EQUAL(connection(&alone_peer)->datagrams, n + 1);
	}
	CU_ASSERT_EQUAL(slot(&alone_peer, 136)->number, 2 * 136 + 2); /* the oldest that is left */
	CU_ASSERT_EQUAL(alone_peer.counters[SDR_DATAGRAMS_RECEIVED], 200);
	CU_ASSERT_EQUAL(connection(&alone_peer)->may_send, 0);
	alone_unpair();
}

/* Another datagram's bytes, as often as it comes: the host is told each time. */
TEST(repeats_and_what_is_beyond_the_length_are_the_senders)
{
	alone_pair(M_BYTES);
	say(0, 10);
	struct fake_sent s = alone_nic.sent[0];
	s.send.len += 50;
	memset(s.bytes + HEAD + 10, 0xAB, 50);
	CU_ASSERT_EQUAL(alone_deliver(&alone_peer, &s), SP_DONE);
	CU_ASSERT_EQUAL(slot(&alone_peer, 0)->length, 10);
	CU_ASSERT_EQUAL(((const uint8_t *)(slot(&alone_peer, 0) + 1))[10], 0);
	CU_ASSERT_EQUAL(alone_deliver(&alone_peer, &s), SP_DONE);
	CU_ASSERT_EQUAL(connection(&alone_peer)->datagrams, 2);
	alone_unpair();
}

/* Another worker is a lap behind, or ahead: neither waits for it nor writes beside it, nor over what is newer. */
TEST(a_slot_that_another_worker_has_is_left_alone)
{
	alone_pair(M_BYTES);
	struct sdr *s = alone_peer.c.state;
	say(0, 10);
	CU_ASSERT_EQUAL(alone_deliver(&alone_peer, &alone_nic.sent[0]), SP_DONE);
	s->datagrams_in = 64;	  /* all slots have been used */
	s->datagram_slot[0] |= 1; /* ... and this one is being written to */
	CU_ASSERT_EQUAL(alone_deliver(&alone_peer, &alone_nic.sent[0]), SP_DROP(SDR_DATAGRAM_BUSY));
	s->datagrams_in = 64;
	s->datagram_slot[0] = 2 * 128 + 2;
	CU_ASSERT_EQUAL(alone_deliver(&alone_peer, &alone_nic.sent[0]), SP_DROP(SDR_DATAGRAM_BUSY));
	CU_ASSERT_EQUAL(slot(&alone_peer, 0)->number, 2);
	CU_ASSERT_EQUAL(connection(&alone_peer)->datagrams, 1);
	CU_ASSERT_EQUAL(alone_deliver(&alone_peer, &alone_nic.sent[0]), SP_DONE); /* the next slot is free */
	CU_ASSERT_EQUAL(slot(&alone_peer, 1)->number, 2 * 65 + 2);
	s->datagrams_in = 192;
	CU_ASSERT_EQUAL(alone_deliver(&alone_peer, &alone_nic.sent[0]), SP_DONE);
	CU_ASSERT_EQUAL(slot(&alone_peer, 0)->number, 2 * 192 + 2);
	alone_unpair();
}

TEST(packets_that_lie_are_dropped_by_name)
{
	static const struct {
		unsigned at;
		uint8_t is;
		enum sdr_drop reason;
	} lie[] = {
		{0, 'X', SDR_BAD_CONTROL},		  /* no control packet */
		{4, 2, SDR_BAD_CONTROL},		  /* another version */
		{5, 6, SDR_BAD_CONTROL},		  /* a type to come */
		{5, 0, SDR_BAD_CONTROL},		  /* and none */
		{6, 0xFF, SDR_BAD_CONTROL},		  /* longer than it is */
		{7, HEAD + LONGEST + 1, SDR_BAD_CONTROL}, /* ... by one */
		{7, HEAD - 1, SDR_BAD_CONTROL},		  /* shorter than its head */
		{7, 0, SDR_BAD_CONTROL},		  /* ... and nothing at all */
		{15, 23, SDR_BAD_NONCE},		  /* for another */
		{8, 1, SDR_BAD_NONCE},			  /* ... */
		{23, 12, SDR_BAD_NONCE},		  /* from another */
	};
	struct fake_sent s;

	alone_pair(M_BYTES);
	say(0, LONGEST);
	for (unsigned i = 0; i < sizeof(lie) / sizeof(*lie); i++) {
		s = alone_nic.sent[0];
		s.bytes[lie[i].at] = lie[i].is;
		CU_ASSERT_EQUAL(alone_deliver(&alone_peer, &s), SP_DROP(lie[i].reason));
	}
	s = alone_nic.sent[0];
	s.send.opcode = 0x25; /* with an immediate */
	CU_ASSERT_EQUAL(alone_deliver(&alone_peer, &s), SP_DROP(SDR_BAD_OPCODE));
	for (uint32_t len = 0; len < HEAD + LONGEST; len++) { /* cut short */
		s = alone_nic.sent[0];
		s.send.len = len;
		CU_ASSERT_EQUAL(alone_deliver(&alone_peer, &s),
				SP_DROP(len < HEAD ? SDR_SHORT_HEADER : SDR_BAD_CONTROL));
	}
	s = alone_nic.sent[0]; /* truly longer than any may be */
	s.send.len++;
	s.bytes[7]++;
	CU_ASSERT_EQUAL(alone_deliver(&alone_peer, &s), SP_DROP(SDR_BAD_CONTROL));
	CU_ASSERT_EQUAL(connection(&alone_peer)->datagrams, 0);
	CU_ASSERT_EQUAL(slot(&alone_peer, 0)->number, 0);
	CU_ASSERT(alone_untouched(alone_peer.mem[BUFFER].base, M_BYTES));
	CU_ASSERT_EQUAL(alone_deliver(&alone_peer, &alone_nic.sent[0]), SP_DONE);
	fake_command(&alone_peer, &(struct sp_command){.op = SP_CMD_CLOSE}, NULL);
	CU_ASSERT_EQUAL(alone_deliver(&alone_peer, &alone_nic.sent[0]),
			SP_DROP(SDR_BAD_CONTROL)); /* no connection any more */
	CU_ASSERT_EQUAL(connection(&alone_peer)->datagrams, 1);
	alone_unpair();
}

TEST(commands_that_lie_are_refused)
{
	static const struct {
		uint64_t arg[3];
		int status;
	} lie[] = {
		{{BUFFER, 0, LONGEST + 1}, -EMSGSIZE},
		{{BUFFER, 0, UINT64_MAX}, -EMSGSIZE},
		{{BUFFER, 0, 1ull << 32}, -EMSGSIZE},
		{{BUFFER, M_BYTES - 3, 4}, -EFAULT},
		{{BUFFER, UINT64_MAX, 1}, -EFAULT},
		{{BUFFER, UINT64_MAX - 3, 10}, -EFAULT},
		{{0, 0, 4}, -EFAULT}, /* the area */
		{{7, 0, 4}, -EFAULT},
		{{BUFFER | 1ull << 32, 0, 4}, -EFAULT},
	};
	struct sp_command c = {.op = SP_SDR_CMD_DATAGRAM};

	alone_attach(&alone_nic, alone_control4, M_BYTES, 1);
	CU_ASSERT_EQUAL(say(0, 4), -ENOTCONN);
	fake_detach(&alone_nic);
	alone_attach(&alone_nic, alone_implicit4, M_BYTES, 1);
	alone_connect_to(&alone_nic, 22, 11);
	CU_ASSERT_EQUAL(say(0, 4), -EOPNOTSUPP);
	fake_detach(&alone_nic);
	alone_pair(M_BYTES);
	for (unsigned i = 0; i < sizeof(lie) / sizeof(*lie); i++) {
		memcpy(c.arg, lie[i].arg, sizeof(lie[i].arg));
		CU_ASSERT_EQUAL(fake_command(&alone_nic, &c, NULL), lie[i].status);
		CU_ASSERT_EQUAL(alone_nic.refs[BUFFER], 0);
	}
	CU_ASSERT_EQUAL(alone_nic.sent_count, 0);
	CU_ASSERT_EQUAL(connection(&alone_nic)->datagrams_sent, 0);
	alone_unpair();
}

TEST(a_full_port_keeps_as_many_as_there_are_slots)
{
	alone_pair(M_BYTES);
	for (int end = 0; end < 2; end++) {
		alone_nic.room = 0;
		alone_nic.sent_count = 0;
		for (unsigned i = 0; i < 70; i++)
			CU_ASSERT_EQUAL(say(i, 10), i < 64 ? 0 : -EAGAIN);
		CU_ASSERT_EQUAL(alone_nic.refs[BUFFER], 64);
		if (end)
			break;
		alone_nic.room = 10;
		fake_issue(&alone_nic, 32, 3);
		CU_ASSERT_EQUAL(alone_nic.sent_count, 10);
		CU_ASSERT_EQUAL(connection(&alone_nic)->datagrams_sent, 10);
		CU_ASSERT_EQUAL(say(70, 10), 0);
		alone_nic.room = -1;
		fake_issue(&alone_nic, 8, 1); /* no more than it may */
		CU_ASSERT_EQUAL(alone_nic.sent_count, 18);
		fake_issue(&alone_nic, 32, 10);
		CU_ASSERT_EQUAL_FATAL(alone_nic.sent_count, 65);
		CU_ASSERT_PTR_NULL(alone_nic.issue);
		for (unsigned i = 0; i < 65; i++) /* in order */
			CU_ASSERT_EQUAL(alone_nic.sent[i].bytes[HEAD], alone_nic.mem[BUFFER].base[i < 64 ? i : 70]);
		CU_ASSERT_EQUAL(alone_nic.refs[BUFFER], 0);
	}
	CU_ASSERT_EQUAL(fake_command(&alone_nic, &(struct sp_command){.op = SP_CMD_CLOSE}, NULL), 0);
	CU_ASSERT_EQUAL(alone_nic.refs[BUFFER], 0); /* let go */
	CU_ASSERT_EQUAL(connection(&alone_nic)->datagrams_sent, 65 + 64);
	CU_ASSERT_EQUAL(alone_nic.sent_count, 0);
	alone_unpair();

	alone_pair(M_BYTES); /* the context ends */
	alone_nic.room = 0;
	CU_ASSERT_EQUAL(say(0, 10), 0);
	CU_ASSERT_EQUAL(alone_nic.refs[BUFFER], 1);
	alone_unpair();
}

TEST(a_message_that_waits_for_clear_to_send_holds_none_up)
{
	const struct sp_command send = {.op = SP_SDR_CMD_SEND, .arg = {BUFFER, 0, 1000}};

	alone_pair(M_BYTES);
	CU_ASSERT_EQUAL(fake_command(&alone_nic, &send, NULL), 0);
	fake_issue(&alone_nic, 32, 10);
	for (unsigned i = 0; i < 100; i++)
		CU_ASSERT_EQUAL(say(i, 10), 0);
	CU_ASSERT_EQUAL(alone_nic.sent_count, 100);
	alone_unpair();
}

/* A port that takes one packet at a time, and a host that never has enough. */
TEST(a_flood_and_data_take_turns)
{
	const struct sp_command send = {.op = SP_SDR_CMD_SEND, .arg = {BUFFER, 0, 200 * MTU}};
	unsigned data = 0;

	alone_pair(M_BYTES);
	alone_post_to(&alone_peer, 0, 0, M_BYTES);
	fake_run(&alone_peer, alone_peer.c.now);
	alone_deliver_all(&alone_peer, &alone_nic);
	CU_ASSERT_EQUAL(fake_command(&alone_nic, &send, NULL), 0);
	for (unsigned i = 0; i < 100; i++) {
		alone_nic.room = 1;
		while (say(0, 10) == 0)
			;
		fake_issue(&alone_nic, 32, 1);
	}
	CU_ASSERT_EQUAL(alone_nic.sent_count, 100);
	for (unsigned i = 0; i < alone_nic.sent_count; i++)
		data += alone_nic.sent[i].send.opcode == 0x2B;
	CU_ASSERT(data >= 48 && data <= 52);
	alone_nic.sent_count = 0;
	for (unsigned i = 0; i < 10; i++) { /* one that takes all: few are ahead of data */
		alone_nic.room = -1;
		fake_issue(&alone_nic, 8, 1);
	}
	data = 0;
	for (unsigned i = 0; i < alone_nic.sent_count; i++)
		data += alone_nic.sent[i].send.opcode == 0x2B;
	CU_ASSERT(alone_nic.sent_count == 80 && data >= 38);
	alone_nic.room = -1;
	fake_issue(&alone_nic, 32, 100);
	alone_unpair();
}
