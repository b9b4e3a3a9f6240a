/* SPDX-License-Identifier: BSD-3-Clause */
/* Sending: packets as the wire format says, in order, and only once the peer has cleared them to be sent. */
#include "../lib/sdr_two_alone.h"

static int send_one(uint64_t k, uint64_t offset, uint64_t len, uint32_t imm)
{
	const struct sp_command c = {.op = SP_SDR_CMD_SEND, .cookie = k, .arg = {BUFFER, offset, len, imm}};

	return fake_command(&alone_nic, &c, NULL);
}

static int stream(uint16_t op, uint64_t k, uint64_t offset, uint64_t len, uint64_t arg3)
{
	const struct sp_command c = {.op = op, .cookie = k, .arg = {BUFFER, offset, len, arg3}};

	return fake_command(&alone_nic, &c, NULL);
}

TEST(packets_sent_are_as_the_wire_format_says)
{
	static const char *const setting[] = {
		MTU_SETTINGS, "credit", "implicit", "max-messages", "4", "generations", "2", "channels", "3", NULL};

	alone_attach(&alone_nic, setting, M_BYTES, 1);
	CU_ASSERT_EQUAL(alone_connect_to(&alone_nic, 22, 11), 0);
	for (uint64_t k = 0; k < 5; k++)
		CU_ASSERT_EQUAL(send_one(k, 0, k < 4 ? 100 : 3 * MTU + 7, 0x87654321), k < 4 ? 0 : -EAGAIN);
	fake_issue(&alone_nic, 32, 10);
	alone_nic.sent_count = 0;
	/* message 4: slot 0, generation 1 */
	CU_ASSERT_EQUAL(send_one(4, 0, 3 * MTU + 7, 0x87654321), 0);
	fake_issue(&alone_nic, 32, 10);
	CU_ASSERT_EQUAL_FATAL(alone_nic.sent_count, 4);
	for (uint32_t p = 0; p < 4; p++) {
		const struct fake_sent *s = &alone_nic.sent[p];

		CU_ASSERT_EQUAL(s->send.opcode, 0x2B);
		CU_ASSERT_EQUAL(s->send.ext_len, 20);
		CU_ASSERT_EQUAL(s->send.len, p < 3 ? MTU : 7);
		CU_ASSERT_EQUAL(s->send.flags, p < 3 ? 0 : SP_PKT_SE);
		CU_ASSERT_EQUAL(sp_load_be64(s->bytes), p * MTU);
		CU_ASSERT_EQUAL(sp_load_be32(s->bytes + 8), 0x12345678);
		CU_ASSERT_EQUAL(sp_load_be32(s->bytes + 12), s->send.len);
		CU_ASSERT_EQUAL(sp_load_be32(s->bytes + 16), p << 4 | (p + 1));
		/* the packets before went over channels 0 1 2 0: on with 1 */
		CU_ASSERT_EQUAL(s->send.dest_qp, 0x100 + 3 + (p + 1) % 3);
		CU_ASSERT(s->send.udp_source >= 0xC000);
	}
	/* the fourth is on the QP of the first: next sequence number, same entropy */
	CU_ASSERT_EQUAL(alone_nic.sent[3].send.psn, (alone_nic.sent[0].send.psn + 1) & 0xFFFFFF);
	CU_ASSERT_EQUAL(alone_nic.sent[3].send.udp_source, alone_nic.sent[0].send.udp_source);
	CU_ASSERT_NOT_EQUAL(alone_nic.sent[1].send.udp_source, alone_nic.sent[0].send.udp_source);
	fake_detach(&alone_nic);
}

TEST(messages_leave_only_when_their_receives_are_posted)
{
	alone_pair(4 * M_BYTES);
	CU_ASSERT_EQUAL(send_one(0, 0, 1000, 0x87654321), 0);
	CU_ASSERT_EQUAL(send_one(1, 5000, 0, 0), 0);
	fake_issue(&alone_nic, 32, 10);
	CU_ASSERT_EQUAL(alone_nic.sent_count, 0);
	alone_post_to(&alone_peer, 0, 0, M_BYTES);
	fake_run(&alone_peer, alone_peer.c.now);
	CU_ASSERT_EQUAL(alone_peer.sent_count, 1);
	alone_deliver_all(&alone_peer, &alone_nic);
	fake_issue(&alone_nic, 32, 10);
	CU_ASSERT_EQUAL(alone_nic.sent_count, 8); /* message 0 and not 1 */
	alone_deliver_all(&alone_nic, &alone_peer);
	CU_ASSERT_EQUAL(memcmp(alone_peer.mem[BUFFER].base, alone_nic.mem[BUFFER].base, 1000), 0);
	CU_ASSERT_EQUAL(alone_line(&alone_peer, 0)->state, SP_SDR_OPEN | SP_SDR_COMPLETE);
	CU_ASSERT_EQUAL(alone_line(&alone_peer, 0)->length, SP_SDR_LENGTH_FIXED | 1000);
	CU_ASSERT_EQUAL(alone_line(&alone_peer, 0)->immediate, 0xFFFFFFFF87654321);
	alone_post_to(&alone_peer, 1, M_BYTES, M_BYTES);
	fake_run(&alone_peer, alone_peer.c.now);
	alone_deliver_all(&alone_peer, &alone_nic);
	fake_issue(&alone_nic, 32, 10);
	CU_ASSERT_EQUAL(alone_nic.sent_count, 1); /* no bytes, one packet */
	alone_deliver_all(&alone_nic, &alone_peer);
	CU_ASSERT_EQUAL(alone_line(&alone_peer, 1)->state, SP_SDR_OPEN | SP_SDR_COMPLETE);
	CU_ASSERT_EQUAL(alone_nic.refs[BUFFER], 0);
	alone_unpair();
}

TEST(clear_to_send_is_repeated_until_a_packet_comes)
{
	alone_pair(M_BYTES);
	alone_post_to(&alone_peer, 0, 0, M_BYTES);
	alone_post_to(&alone_peer, 1, 0, M_BYTES);
	fake_run(&alone_peer, alone_peer.c.now);
	CU_ASSERT_EQUAL(alone_peer.sent_count, 1); /* one for both */
	fake_run(&alone_peer, alone_peer.c.now + 16 * SP_MS);
	CU_ASSERT_EQUAL(alone_peer.sent_count, 5); /* again after 1, 3, 7, 15 ms */
	fake_run(&alone_peer, alone_peer.c.now + 10 * SP_SEC);
	CU_ASSERT(alone_peer.sent_count > 70 && alone_peer.sent_count < 100); /* every 128 ms at the longest */
	alone_deliver(&alone_nic, &alone_peer.sent[3]);			      /* one got through */
	alone_peer.sent_count = 0;
	send_one(0, 0, 10, 0);
	send_one(1, 0, 10, 0);
	fake_issue(&alone_nic, 32, 10);
	CU_ASSERT_EQUAL_FATAL(alone_nic.sent_count, 2);
	alone_deliver(&alone_peer, &alone_nic.sent[0]);
	fake_run(&alone_peer, alone_peer.c.now + SP_SEC);
	CU_ASSERT(alone_peer.sent_count > 0); /* a packet of message 0 does not tell that 1 is known */
	alone_deliver(&alone_peer, &alone_nic.sent[1]);
	alone_peer.sent_count = 0;
	fake_run(&alone_peer, alone_peer.c.now + SP_SEC);
	CU_ASSERT_EQUAL(alone_peer.sent_count, 0);
	alone_unpair();
}

TEST(only_the_right_peer_clears)
{
	alone_pair(M_BYTES);
	alone_post_to(&alone_peer, 0, 0, M_BYTES);
	fake_run(&alone_peer, alone_peer.c.now);
	struct fake_sent s = alone_peer.sent[0];
	const struct sp_sdr_connection *conn = (const void *)(alone_nic.mem[0].base + 64);

	s.bytes[15] ^= 1; /* to another */
	CU_ASSERT_EQUAL(alone_deliver(&alone_nic, &s), SP_DROP(SDR_BAD_NONCE));
	CU_ASSERT_EQUAL(conn->flags & SP_SDR_PEER_RESTARTED, 0);
	s = alone_peer.sent[0];
	s.bytes[23] ^= 1; /* for us, from a peer that may have started anew */
	CU_ASSERT_EQUAL(alone_deliver(&alone_nic, &s), SP_DROP(SDR_BAD_NONCE));
	CU_ASSERT_EQUAL(conn->flags & SP_SDR_PEER_RESTARTED, 0);
	s = alone_peer.sent[0];
	s.bytes[0]++;
	CU_ASSERT_EQUAL(alone_deliver(&alone_nic, &s), SP_DROP(SDR_BAD_CONTROL));
	s = alone_peer.sent[0];
	s.bytes[5] = 99; /* a type to come */
	CU_ASSERT_EQUAL(alone_deliver(&alone_nic, &s), SP_DROP(SDR_BAD_CONTROL));
	s = alone_peer.sent[0];
	s.bytes[7] = 33; /* longer than it is */
	CU_ASSERT_EQUAL(alone_deliver(&alone_nic, &s), SP_DROP(SDR_BAD_CONTROL));
	s = alone_peer.sent[0];
	memset(s.bytes + 24, 0xFF, 8); /* clears everything */
	CU_ASSERT_EQUAL(alone_deliver(&alone_nic, &s), SP_DROP(SDR_BAD_CONTROL));
	for (uint32_t len = 0; len < 32; len++) {
		s = alone_peer.sent[0];
		s.send.len = len;
		CU_ASSERT_EQUAL(alone_deliver(&alone_nic, &s), SP_DROP(len < 24 ? SDR_SHORT_HEADER : SDR_BAD_CONTROL));
	}
	s = alone_peer.sent[0];
	s.send.opcode = 0x2B;
	CU_ASSERT_EQUAL(alone_deliver(&alone_nic, &s), SP_DROP(SDR_BAD_OPCODE));
	CU_ASSERT_EQUAL(((struct sdr *)alone_nic.c.state)->may_send, 0);
	CU_ASSERT_EQUAL(alone_deliver(&alone_nic, &alone_peer.sent[0]), SP_DONE);
	CU_ASSERT_EQUAL(alone_deliver(&alone_nic, &alone_peer.sent[0]), SP_DONE); /* as often as it comes */
	CU_ASSERT_EQUAL(((struct sdr *)alone_nic.c.state)->may_send, 1);
	alone_unpair();
}

/* Two generations, four slots: message 8 uses what message 0 has used, and waits until that was quiet for 10 ms. */
TEST(a_slot_and_generation_rest_before_they_are_used_again)
{
	alone_pair(M_BYTES);
	for (uint64_t k = 0; k < 8; k++) {
		CU_ASSERT_EQUAL(alone_post_to(&alone_peer, k, 0, 256), 0);
		CU_ASSERT_EQUAL(alone_complete(&alone_peer, k), 0);
	}
	CU_ASSERT_EQUAL(alone_peer.opened, 8);
	struct packet *x = alone_of_message(5, 4, 2, 0); /* so its sender has ended message 0, see below */

	CU_ASSERT_EQUAL(fake_receive(&alone_peer, alone_build(x)), SP_DROP(SDR_LATE));
	const sp_time closed = alone_peer.c.now;

	fake_run(&alone_peer, closed + 6 * SP_MS);
	CU_ASSERT_EQUAL(alone_post_to(&alone_peer, 8, 0, 256), 0);
	CU_ASSERT_EQUAL(alone_peer.opened, 8);
	x = alone_of_message(0, 4, 2, 0); /* message 0 still trickles in */
	CU_ASSERT_EQUAL(fake_receive(&alone_peer, alone_build(x)), SP_DROP(SDR_LATE));
	fake_run(&alone_peer, closed + 15 * SP_MS);
	CU_ASSERT_EQUAL(alone_peer.opened, 8);
	fake_run(&alone_peer, closed + 16 * SP_MS - 1);
	CU_ASSERT_EQUAL(alone_peer.opened, 8);
	fake_run(&alone_peer, closed + 16 * SP_MS + 1);
	CU_ASSERT_EQUAL(alone_peer.opened, 9);
	CU_ASSERT_EQUAL(alone_line(&alone_peer, 0)->message, 9);
	alone_unpair();
}

/* Both ends' queues for so long; what one sends the other gets, unless `silent`. */
static void talk(sp_time until, bool silent)
{
	while (alone_nic.c.now < until) {
		fake_run(&alone_nic, alone_nic.c.now + 100 * SP_US);
		fake_run(&alone_peer, alone_nic.c.now);
		fake_issue(&alone_nic, 32, 10);
		fake_issue(&alone_peer, 32, 10);
		alone_deliver_all(&alone_nic, &alone_peer);
		if (silent)
			alone_peer.sent_count = 0;
		alone_deliver_all(&alone_peer, &alone_nic);
	}
}

TEST(a_peer_that_answers_has_not_restarted_whoever_says_so)
{
	const struct sp_sdr_connection *conn;
	struct fake_sent forged;

	alone_pair(M_BYTES);
	conn = (const void *)(alone_nic.mem[0].base + 64);
	alone_post_to(&alone_peer, 0, 0, M_BYTES);
	fake_run(&alone_peer, alone_peer.c.now);
	forged = alone_peer.sent[0];
	forged.bytes[23] ^= 1;
	for (sp_time t = 0; t < SP_SEC; t += SP_MS) {
		CU_ASSERT_EQUAL(alone_deliver(&alone_nic, &forged), SP_DROP(SDR_BAD_NONCE));
		talk(alone_nic.c.now + SP_MS, false);
	}
	CU_ASSERT_EQUAL(conn->flags & SP_SDR_PEER_RESTARTED, 0);
	CU_ASSERT_EQUAL(alone_nic.counters[SDR_PEER_RESTARTS], 0);
	CU_ASSERT(alone_nic.counters[SDR_PROBES_SENT] >= 1 && alone_nic.counters[SDR_PROBES_SENT] <= 16);
	CU_ASSERT_EQUAL(send_one(0, 0, 1000, 0), 0); /* and all goes on */
	talk(alone_nic.c.now + SP_MS, false);
	CU_ASSERT_EQUAL(alone_line(&alone_peer, 0)->state, SP_SDR_OPEN | SP_SDR_COMPLETE);
	/* Now it is silent. An answer of before, and one that is guessed, are none. */
	talk(alone_nic.c.now + SP_SEC, false);
	CU_ASSERT_EQUAL(conn->flags & SP_SDR_PEER_RESTARTED, 0);
	alone_deliver(&alone_nic, &forged);
	for (unsigned i = 0; i < 1022; i++) {
		struct fake_sent answer = forged;

		talk(alone_nic.c.now + SP_MS, true);
		CU_ASSERT_EQUAL(conn->flags & SP_SDR_PEER_RESTARTED, 0);
		answer.bytes[23] ^= 1;
		answer.bytes[5] = SP_SDR_ALIVE;
		CU_ASSERT_EQUAL(alone_deliver(&alone_nic, &answer), SP_DROP(SDR_BAD_CONTROL));
	}
	talk(alone_nic.c.now + 3 * SP_MS, true);
	CU_ASSERT_EQUAL(conn->flags & SP_SDR_PEER_RESTARTED, SP_SDR_PEER_RESTARTED);
	CU_ASSERT_EQUAL(alone_nic.counters[SDR_PEER_RESTARTS], 1);
	alone_unpair();
}

TEST(nothing_is_taken_before_there_is_a_peer)
{
	static const char *const waits[] = {MTU_SETTINGS, "credit",	  "implicit", "connect",
					    "yes",	  "max-messages", "4",	      NULL},
				 *const open[] = {MTU_SETTINGS, "credit", "control", "replay", "yes", NULL};
	const char *const *const setting[] = {alone_control4, waits, alone_implicit4, open};

	for (unsigned i = 0; i < 4; i++) {
		alone_attach(&alone_nic, setting[i], M_BYTES, 1);
		CU_ASSERT_EQUAL(alone_post_to(&alone_nic, 0, 0, M_BYTES), 0);
		CU_ASSERT_EQUAL(alone_post_to(&alone_nic, 1, 0, 0), 0);
		CU_ASSERT_EQUAL(alone_give(alone_packet(0, 0, MTU)), i < 2 ? SP_DROP(SDR_NOT_CONNECTED) : SP_DONE);
		CU_ASSERT_EQUAL(alone_give(alone_packet(1, 0, 0)), i < 2 ? SP_DROP(SDR_NOT_CONNECTED) : SP_DONE);
		CU_ASSERT_EQUAL(alone_untouched(alone_nic.mem[BUFFER].base, M_BYTES), i < 2);
		CU_ASSERT_EQUAL(alone_came(&alone_nic, 0) + alone_came(&alone_nic, 1), i < 2 ? 0 : 2);
		CU_ASSERT_EQUAL(alone_connect_to(&alone_nic, 22, 11), 0);
		CU_ASSERT_EQUAL(alone_give(alone_packet(0, 1, MTU)), SP_DONE);
		CU_ASSERT_EQUAL(alone_came(&alone_nic, 0), i < 2 ? 1 : 2);
		fake_detach(&alone_nic);
	}
}

/* Eight messages are a lap. What was recorded of one of them says the same slot, offset and QP as the message a lap
 * later. */
TEST(a_recorded_lap_is_no_part_of_the_next)
{
	static struct fake_sent recorded[8 * 2];
	unsigned count = 0;

	alone_pair(M_BYTES);
	for (uint64_t k = 0; k < 24; k++) {
		CU_ASSERT_EQUAL(alone_post_to(&alone_peer, k, k % 4 * 256, 256), 0);
		fake_run(&alone_peer, alone_peer.c.now + 20 * SP_MS);
		alone_deliver_all(&alone_peer, &alone_nic);
		CU_ASSERT_EQUAL(alone_line(&alone_peer, k % 4)->message, k + 1);
		for (unsigned i = 0; i < count; i++)
			CU_ASSERT_NOT_EQUAL(alone_deliver(&alone_peer, &recorded[i]), SP_DONE);
		CU_ASSERT_EQUAL(alone_came(&alone_peer, k % 4), 0);
		CU_ASSERT_EQUAL(alone_line(&alone_peer, k % 4)->length, 256);
		CU_ASSERT_EQUAL(send_one(k, k * 256, k % 4 == 3 ? 0 : 256, 0), 0); /* every fourth has no bytes */
		fake_issue(&alone_nic, 32, 10);
		CU_ASSERT_EQUAL(alone_nic.sent_count, k % 4 == 3 ? 1 : 2);
		for (unsigned i = 0; k < 8 && i < alone_nic.sent_count; i++)
			recorded[count++] = alone_nic.sent[i];
		alone_deliver_all(&alone_nic, &alone_peer);
		CU_ASSERT_EQUAL(alone_line(&alone_peer, k % 4)->state, SP_SDR_OPEN | SP_SDR_COMPLETE);
		CU_ASSERT_EQUAL(memcmp(alone_peer.mem[BUFFER].base + k % 4 * 256, alone_nic.mem[BUFFER].base + k * 256,
				       k % 4 == 3 ? 0 : 256),
				0);
		CU_ASSERT_EQUAL(alone_complete(&alone_peer, k), 0);
	}
	CU_ASSERT(alone_peer.drops[SDR_BAD_RKEY] > 8 * 14);
	alone_unpair();
}

/* One late packet in less than max-packet-life, again and again, is no reason to stand still for ever. */
TEST(late_packets_hold_a_slot_and_generation_up_for_so_long_and_no_longer)
{
	alone_pair(M_BYTES);
	for (uint64_t k = 0; k < 8; k++) {
		CU_ASSERT_EQUAL(alone_post_to(&alone_peer, k, 0, 256), 0);
		CU_ASSERT_EQUAL(alone_complete(&alone_peer, k), 0);
	}
	struct packet *x = alone_of_message(5, 4, 2, 0); /* so its sender has ended message 0 */

	CU_ASSERT_EQUAL(fake_receive(&alone_peer, alone_build(x)), SP_DROP(SDR_LATE));
	const sp_time closed = alone_peer.c.now;

	CU_ASSERT_EQUAL(alone_post_to(&alone_peer, 8, 0, 256), 0);
	for (sp_time t = 0; t <= 36 * SP_MS; t += 4 * SP_MS) {
		fake_run(&alone_peer, closed + t);
		CU_ASSERT_EQUAL(alone_peer.opened, 8);
		x = alone_of_message(0, 4, 2, 0);
		CU_ASSERT_EQUAL(fake_receive(&alone_peer, alone_build(x)), SP_DROP(SDR_LATE));
	}
	fake_run(&alone_peer, closed + 40 * SP_MS + 1);
	CU_ASSERT_EQUAL(alone_peer.opened, 9);
	alone_unpair();
}

/* Receives taken back before anything came: quiet says nothing of packets that have not been sent yet. */
TEST(a_slot_and_generation_wait_until_the_sender_has_ended_what_had_them)
{
	alone_pair(M_BYTES);
	for (uint64_t k = 0; k < 8; k++) {
		alone_post_to(&alone_peer, k, 0, 256);
		alone_complete(&alone_peer, k);
	}
	fake_run(&alone_peer, alone_peer.c.now);
	alone_deliver_all(&alone_peer, &alone_nic);
	CU_ASSERT_EQUAL(alone_post_to(&alone_peer, 8, 0, 256), 0);
	fake_run(&alone_peer, alone_peer.c.now + 300 * SP_MS);
	CU_ASSERT_EQUAL(alone_peer.opened, 8);
	CU_ASSERT_EQUAL(send_one(0, 0, 100, 0), 0); /* only now, and it is not for receive 8 */
	fake_issue(&alone_nic, 32, 10);
	alone_deliver_all(&alone_nic, &alone_peer);
	CU_ASSERT_EQUAL(alone_peer.counters[SDR_PACKETS], 0);
	CU_ASSERT_EQUAL(alone_peer.counters[SDR_LATE_PACKETS], 1);
	for (uint64_t k = 1; k < 8; k++) { /* all lost */
		CU_ASSERT_EQUAL(send_one(k, 0, 100, 0), 0);
		fake_issue(&alone_nic, 32, 10);
		alone_nic.sent_count = 0;
	}
	alone_peer.sent_count = 0;
	fake_run(&alone_peer, alone_peer.c.now + 300 * SP_MS);
	CU_ASSERT_EQUAL(alone_peer.opened, 8);
	CU_ASSERT(alone_peer.sent_count > 0); /* it repeats its clear-to-send, and the answer is what has ended */
	alone_deliver_all(&alone_peer, &alone_nic);
	fake_issue(&alone_nic, 32, 10);
	CU_ASSERT_EQUAL(alone_nic.sent_count, 1);
	alone_deliver_all(&alone_nic, &alone_peer);
	CU_ASSERT_EQUAL(((struct sdr *)alone_peer.c.state)->peer_ended, 8);
	const sp_time told = alone_peer.c.now;

	fake_run(&alone_peer, told + 9 * SP_MS); /* the last packets may be under way */
	CU_ASSERT_EQUAL(alone_peer.opened, 8);
	fake_run(&alone_peer, told + 12 * SP_MS);
	CU_ASSERT_EQUAL(alone_peer.opened, 9);
	alone_unpair();
}

/* Nobody can have ended what was never granted. */
TEST(ended_beyond_what_was_granted_is_bad_control)
{
	alone_pair(M_BYTES);
	alone_post_to(&alone_peer, 0, 0, 256);
	fake_run(&alone_peer, alone_peer.c.now);
	alone_deliver_all(&alone_peer, &alone_nic);
	CU_ASSERT_EQUAL(send_one(0, 0, 100, 0), 0);
	fake_issue(&alone_nic, 32, 10);
	alone_nic.sent_count = 0;
	fake_run(&alone_peer, alone_peer.c.now + 300 * SP_MS);
	alone_deliver_all(&alone_peer, &alone_nic);
	fake_issue(&alone_nic, 32, 10);
	CU_ASSERT_EQUAL(alone_nic.sent_count, 1);
	struct fake_sent s = alone_nic.sent[0];
	s.bytes[31] = 2;
	CU_ASSERT_EQUAL(alone_deliver(&alone_peer, &s), SP_DROP(SDR_BAD_CONTROL));
	CU_ASSERT_EQUAL(((struct sdr *)alone_peer.c.state)->peer_ended, 0);
	CU_ASSERT_EQUAL(alone_deliver(&alone_peer, &alone_nic.sent[0]), SP_DONE);
	CU_ASSERT_EQUAL(((struct sdr *)alone_peer.c.state)->peer_ended, 1);
	alone_unpair();
}

/* A receive taken back before it was open is passed over in its turn: numbers stay in step. */
TEST(a_receive_cancelled_before_it_opened_keeps_its_number)
{
	alone_pair(M_BYTES);
	for (uint64_t k = 0; k < 8; k++) {
		alone_post_to(&alone_peer, k, 0, 256);
		alone_complete(&alone_peer, k);
	}
	CU_ASSERT_EQUAL(alone_post_to(&alone_peer, 8, 0, 256), 0);
	CU_ASSERT_EQUAL(alone_post_to(&alone_peer, 9, 256, 256), 0);
	CU_ASSERT_EQUAL(alone_complete(&alone_peer, 8), 0);
	CU_ASSERT_EQUAL(alone_complete(&alone_peer, 8), -ENOENT);
	struct packet *x = alone_of_message(6, 4, 2, 0); /* so its sender has ended message 1 */

	CU_ASSERT_EQUAL(fake_receive(&alone_peer, alone_build(x)), SP_DROP(SDR_LATE));
	fake_run(&alone_peer, alone_peer.c.now + 20 * SP_MS);
	CU_ASSERT_EQUAL(alone_line(&alone_peer, 0)->released, 9);
	CU_ASSERT_EQUAL(alone_line(&alone_peer, 0)->message, 0);
	CU_ASSERT_EQUAL(alone_line(&alone_peer, 1)->message, 10);
	x = alone_of_message(8, 4, 2, 0);
	CU_ASSERT_EQUAL(fake_receive(&alone_peer, alone_build(x)), SP_DROP(SDR_LATE));
	CU_ASSERT_EQUAL(alone_post_to(&alone_peer, 12, 0, 1), -EINVAL); /* 10 is next */
	alone_unpair();
}

TEST(a_message_without_credit_never_holds_up_an_older_one)
{
	alone_pair(M_BYTES);
	alone_post_to(&alone_peer, 0, 0, M_BYTES);
	fake_run(&alone_peer, alone_peer.c.now);
	alone_deliver_all(&alone_peer, &alone_nic);
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_START, 0, 0, 4 * MTU, 7), 0);
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_CONTINUE, 0, 0, 4 * MTU, 0), 0);
	fake_issue(&alone_nic, 32, 10);
	CU_ASSERT_EQUAL(alone_nic.sent_count, 4);
	CU_ASSERT_EQUAL(send_one(1, 0, 100, 0), 0); /* waits for credit */
	CU_ASSERT_EQUAL(send_one(2, 0, 100, 0), 0);
	fake_issue(&alone_nic, 32, 10);
	CU_ASSERT_EQUAL(alone_nic.sent_count, 4);
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_CONTINUE, 0, 2 * MTU, MTU, 2 * MTU), 0); /* a retransmission */
	fake_issue(&alone_nic, 32, 10);
	CU_ASSERT_EQUAL_FATAL(alone_nic.sent_count, 5);
	CU_ASSERT_EQUAL(sp_load_be64(alone_nic.sent[4].bytes), 2 * MTU);
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_END, 0, 0, 0, 0), 0);
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_END, 0, 0, 0, 0), -ENOENT);
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_CONTINUE, 0, 0, MTU, 0), -ENOENT);
	alone_unpair();
}

TEST(a_stream_of_no_bytes_is_one_packet_as_often_as_asked_for)
{
	alone_attach(&alone_nic, alone_implicit4, M_BYTES, 1);
	alone_connect_to(&alone_nic, 1, 2);
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_START, 0, 0, 0, 0), 0);
	for (unsigned i = 0; i < 2; i++) {
		CU_ASSERT_EQUAL(stream(SP_SDR_CMD_CONTINUE, 0, 0, 0, 0), 0);
		fake_issue(&alone_nic, 32, 10);
		CU_ASSERT_EQUAL_FATAL(alone_nic.sent_count, i + 1);
		CU_ASSERT_EQUAL(alone_nic.sent[i].send.len, 0);
		CU_ASSERT(alone_nic.sent[i].send.flags & SP_PKT_SE);
	}
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_CONTINUE, 0, 0, MTU, 0), -EINVAL);
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_END, 0, 0, 0, 0), 0);
	fake_detach(&alone_nic);
}

TEST(older_messages_go_first)
{
	alone_attach(&alone_nic, alone_implicit4, M_BYTES, 1);
	alone_connect_to(&alone_nic, 1, 2);
	for (uint64_t k = 0; k < 4; k++)
		stream(SP_SDR_CMD_START, k, 0, 4 * MTU, 0);
	for (unsigned i = 0; i < 6; i++) {
		const uint64_t k = (const uint64_t[]){1, 3, 2, 0, 3, 1}[i];

		CU_ASSERT_EQUAL(stream(SP_SDR_CMD_CONTINUE, k, 0, MTU, i * MTU % (4 * MTU)), 0);
	}
	fake_issue(&alone_nic, 32, 10);
	CU_ASSERT_EQUAL_FATAL(alone_nic.sent_count, 6);
	for (unsigned i = 0; i < 6; i++) {
		const uint64_t k = (const uint64_t[]){0, 1, 1, 2, 3, 3}[i];

		CU_ASSERT_EQUAL(sp_load_be64(alone_nic.sent[i].bytes) / M_BYTES, k);
	}
	fake_detach(&alone_nic);
}

/* Wherever the port becomes full within packets that were made together: the next ones go on at the one that was not
 * taken, on its channel, and each QP's sequence numbers have neither gap nor repetition. */
TEST(packets_go_on_where_the_port_became_full)
{
	static const char *const channels[] = {"1", "2", "3", "7"};
	uint32_t seed = 5;

	for (uint32_t run = 0; run < 40; run++) {
		const uint32_t many = (uint32_t)(channels[run % 4][0] - '0');
		const char *const setting[] = {MTU_SETTINGS,  "credit", "implicit", "max-messages",    "4",
					       "generations", "2",	"channels", channels[run % 4], NULL};
		const uint64_t size[] = {100 * MTU + 1 + run, 0, 33 * MTU, 200 * MTU - run};
		uint32_t psn[32] = {0}, of = 0, k = 0, channel = 0, rounds = 0;
		bool known[32] = {false};
		uint64_t at = 0;

		alone_attach(&alone_nic, setting, M_BYTES, 1);
		CU_ASSERT_EQUAL(alone_connect_to(&alone_nic, 22, 11), 0);
		for (uint64_t i = 0; i < M_BYTES; i++)
			alone_nic.mem[BUFFER].base[i] = (uint8_t)(i * 31 + i / 256);
		for (uint64_t i = 0; i < 4; i++)
			CU_ASSERT_EQUAL(send_one(i, i * 1000, size[i], 0x12345678), 0);
		while (alone_nic.issue && rounds++ < 10000) {
			seed = seed * 1664525 + 1013904223;
			alone_nic.room = (int)(seed >> 16) % 40;
			fake_issue(&alone_nic, 1 + (seed >> 8) % 32, 1);
		}
		for (uint32_t i = 0; i < alone_nic.sent_count; i++) {
			const struct fake_sent *s = &alone_nic.sent[i];
			const uint32_t qp = s->send.dest_qp - 0x100,
				       len = size[of] - at < MTU ? (uint32_t)(size[of] - at) : MTU;

			CU_ASSERT_FATAL(of < 4 && qp < 32);
			CU_ASSERT_EQUAL(qp % many, channel);
			CU_ASSERT(!known[qp] || s->send.psn == ((psn[qp] + 1) & 0xFFFFFF));
			CU_ASSERT_EQUAL(sp_load_be64(s->bytes), of * M_BYTES + at);
			CU_ASSERT_EQUAL(s->send.len, len);
			CU_ASSERT_EQUAL(sp_load_be32(s->bytes + 12), len);
			CU_ASSERT_EQUAL(sp_load_be32(s->bytes + 16) >> 4, of << 18 | k);
			CU_ASSERT_EQUAL(s->send.flags, at + len == size[of] ? SP_PKT_SE : 0);
			CU_ASSERT_EQUAL(memcmp(s->bytes + 20, alone_nic.mem[BUFFER].base + of * 1000 + at, len), 0);
			known[qp] = true;
			psn[qp] = s->send.psn;
			channel = (channel + 1) % many;
			at += len;
			k++;
			if (at == size[of]) {
				of++;
				at = k = 0;
			}
		}
		CU_ASSERT_EQUAL(of, 4);
		CU_ASSERT_EQUAL(alone_nic.counters[SDR_PACKETS_SENT], alone_nic.sent_count);
		CU_ASSERT_EQUAL(alone_nic.counters[SDR_MESSAGES_SENT], 4);
		CU_ASSERT_EQUAL(alone_nic.refs[BUFFER], 0);
		fake_detach(&alone_nic);
	}
}

TEST(pieces_that_do_not_fit_are_refused)
{
	alone_pair(M_BYTES);
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_START, 1, 0, 1000, 0), -EINVAL);
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_START, 0, 0, M_BYTES + 1, 0), -EINVAL);
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_START, 0, 0, 1000, 0), 0);
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_CONTINUE, 0, 0, MTU, 1), -EINVAL);
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_CONTINUE, 0, 0, MTU + 1, 0), -EINVAL);
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_CONTINUE, 0, 0, 0, 0), -EINVAL);
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_CONTINUE, 0, 0, 1001, 0), -EINVAL);
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_CONTINUE, 0, 0, MTU, 8 * MTU), -EINVAL);
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_CONTINUE, 0, 0, UINT64_MAX - 7 * MTU + 1, 7 * MTU), -EINVAL);
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_CONTINUE, 0, M_BYTES - 10, MTU, 0), -EFAULT);
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_CONTINUE, 0, 0, 1000 - 7 * MTU, 7 * MTU), 0);
	CU_ASSERT_EQUAL(send_one(1, M_BYTES, 1, 0), -EFAULT);
	CU_ASSERT_EQUAL(alone_nic.refs[BUFFER], 1);
	CU_ASSERT_EQUAL(fake_command(&alone_nic, &(struct sp_command){.op = SP_CMD_CLOSE}, NULL), 0);
	CU_ASSERT_EQUAL(alone_nic.refs[BUFFER], 0); /* let go */
	CU_ASSERT_EQUAL(send_one(1, 0, 1, 0), -ENOTCONN);
	alone_unpair();
}

TEST(segments_are_bounded_and_come_back)
{
	static const char *const setting[] = {MTU_SETTINGS, "credit",	"implicit", "max-messages",
					      "4",	    "segments", "3",	    NULL};

	alone_attach(&alone_nic, setting, M_BYTES, 1);
	alone_connect_to(&alone_nic, 1, 2);
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_START, 0, 0, M_BYTES, 0), 0);
	alone_nic.room = 10;
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 4; i++)
			CU_ASSERT_EQUAL(stream(SP_SDR_CMD_CONTINUE, 0, 0, 8 * MTU, i * 8 * MTU), i < 3 ? 0 : -EAGAIN);
		CU_ASSERT_EQUAL(alone_nic.refs[BUFFER], 3);
		for (int i = 0; i < 40 && alone_nic.refs[BUFFER]; i++) { /* the port takes 10 at a time, issue() 4 */
			fake_issue(&alone_nic, 4, 1);
			alone_nic.room = alone_nic.room ? alone_nic.room : 10;
		}
		CU_ASSERT_EQUAL(alone_nic.refs[BUFFER], 0);
		CU_ASSERT_EQUAL(alone_nic.sent_count, 24u * (unsigned)(round + 1));
	}
	for (unsigned i = 0; i < alone_nic.sent_count; i++) /* each once and in order, however it was cut */
		if (sp_load_be64(alone_nic.sent[i].bytes) != i % 24 * MTU)
			CU_FAIL("order");
	fake_detach(&alone_nic);
}
