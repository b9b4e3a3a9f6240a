/* SPDX-License-Identifier: BSD-3-Clause */
/* What the NIC answers itself, frame by frame, and what it leaves alone: ARP; who it is that asks, and by which port;
 * and frames of all kinds with bytes changed. */
#include "answer.h"

/* ---- ARP ---- */

TEST(arp_request_for_an_own_address_is_answered_and_teaches)
{
	struct frame f, expect;
	for (unsigned tags = 0; tags < 3; tags++) {
		begin();
		arp(&f, broadcast, tags, 1, peer_mac, peer4, none6, own4);
		arp(&expect, peer_mac, tags, 2, own_mac, own4, peer_mac, peer4);
		CU_ASSERT_TRUE(answered(&f)); /* 42 bytes and no padding: as long as it came */
		CU_ASSERT_EQUAL(sent_len, expect.len);
		CU_ASSERT_EQUAL(memcmp(sent, expect.bytes, expect.len), 0);
		CU_ASSERT_TRUE(knows(peer4, true, peer_mac));
		memset(f.bytes + f.len, 0xEE, 60 - f.len);
		f.len = 60; /* what came as padding is not sent back */
		CU_ASSERT_TRUE(answered(&f));
		CU_ASSERT_EQUAL(sent_len, 60);
		CU_ASSERT_EQUAL(memcmp(sent, expect.bytes, 60), 0);
	}
	memcpy(f.bytes, own_mac, 6); /* asked by unicast, as stations do to confirm */
	CU_ASSERT_TRUE(answered(&f));
}

TEST(arp_probe_is_answered_and_teaches_nothing)
{
	struct frame f;
	begin();
	arp(&f, broadcast, 0, 1, peer_mac, none6, none6, own4);
	CU_ASSERT_TRUE(answered(&f));
	CU_ASSERT_TRUE(knows(none6, true, NULL));
}

TEST(arp_for_others_is_left_alone_and_updates_only_what_is_known)
{
	static const uint8_t third[4] = {192, 0, 2, 3};
	struct frame f;
	begin();
	arp(&f, broadcast, 0, 1, peer_mac, peer4, none6, third);
	CU_ASSERT_TRUE(left_alone(&f));
	CU_ASSERT_TRUE(knows(peer4, true, NULL));
	arp(&f, broadcast, 0, 1, peer_mac, peer4, none6, own4);
	CU_ASSERT_TRUE(answered(&f));
	arp(&f, broadcast, 0, 1, other_mac, peer4, none6, peer4); /* announcement (gratuitous) */
	CU_ASSERT_TRUE(left_alone(&f));
	CU_ASSERT_TRUE(knows(peer4, true, peer_mac));
	nobody_answers();
	CU_ASSERT_TRUE(knows(peer4, true, other_mac));
	arp(&f, broadcast, 0, 2, peer_mac, peer4, peer_mac, peer4); /* the same as a reply */
	CU_ASSERT_TRUE(left_alone(&f));
	nobody_answers();
	CU_ASSERT_TRUE(knows(peer4, true, peer_mac));
}

TEST(arp_reply_is_taken_and_only_updates)
{
	struct frame f;
	uint8_t ip[16];
	begin();
	arp(&f, own_mac, 0, 2, peer_mac, peer4, own_mac, own4);
	CU_ASSERT_TRUE(taken_in_silence(&f));
	CU_ASSERT_TRUE(knows(peer4, true, NULL));
	map4(ip, peer4);
	sp_neighbour_learn(nic.neighbours, 1, ip, other_mac, 0, true);
	CU_ASSERT_TRUE(taken_in_silence(&f));
	nobody_answers();
	CU_ASSERT_TRUE(knows(peer4, true, peer_mac));
}

TEST(arp_replies_are_the_exception_ports_as_well)
{
	struct frame f;
	uint8_t ip[16];
	begin();
	nic.has_exception = true; /* whose kernel may have asked, from the same address */
	map4(ip, peer4);
	sp_neighbour_learn(nic.neighbours, 1, ip, other_mac, 0, true);
	arp(&f, own_mac, 0, 2, peer_mac, peer4, own_mac, own4);
	CU_ASSERT_TRUE(left_alone(&f));
	nobody_answers();
	CU_ASSERT_TRUE(knows(peer4, true, peer_mac));
	arp(&f, broadcast, 0, 1, peer_mac, peer4, none6, own4); /* questions stay the NIC's */
	CU_ASSERT_TRUE(answered(&f));
}

TEST(bad_arp_is_left_alone_and_teaches_nothing)
{
	static const struct {
		unsigned at;
		uint8_t value;
	} bad[] = {{14, 1}, {15, 6}, {16, 0x86}, {18, 8}, {19, 16}, {20, 1}, {21, 3}, {21, 0}};
	struct frame f;
	begin();
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		arp(&f, broadcast, 0, 1, peer_mac, peer4, none6, own4);
		f.bytes[bad[i].at] = bad[i].value;
		CU_ASSERT_TRUE(left_alone(&f));
	}
	for (uint32_t len = 0; len < 42; len++) {
		arp(&f, broadcast, 0, 1, peer_mac, peer4, none6, own4);
		f.len = len;
		CU_ASSERT_TRUE(left_alone(&f));
	}
	arp(&f, broadcast, 0, 1, broadcast, peer4, none6, own4);
	memcpy(f.bytes + 6, peer_mac, 6); /* the group only inside */
	CU_ASSERT_TRUE(left_alone(&f));
	arp(&f, broadcast, 0, 1, none6, peer4, none6, own4);
	memcpy(f.bytes + 6, peer_mac, 6);
	CU_ASSERT_TRUE(left_alone(&f));
	CU_ASSERT_TRUE(knows(peer4, true, NULL));
	static const uint8_t sources[][4] = {
		{192, 0, 2, 255}, {192, 0, 2, 0}, {224, 0, 0, 1}, {127, 0, 0, 1}, {255, 255, 255, 255}};
	for (size_t i = 0; i < sizeof(sources) / sizeof(*sources); i++) {
		arp(&f, broadcast, 0, 1, peer_mac, sources[i], none6, own4);
		CU_ASSERT_TRUE(left_alone(&f));
		CU_ASSERT_TRUE(knows(sources[i], true, NULL));
	}
	arp(&f, broadcast, 0, 1, peer_mac, own4, none6, own4); /* somebody has our address */
	CU_ASSERT_TRUE(left_alone(&f));
	CU_ASSERT_TRUE(knows(own4, true, NULL));
}

TEST(frames_for_or_from_the_wrong_mac_are_left_alone)
{
	struct frame f;
	begin();
	arp(&f, other_mac, 0, 1, peer_mac, peer4, none6, own4);
	CU_ASSERT_TRUE(left_alone(&f));
	arp(&f, broadcast, 0, 1, own_mac, peer4, none6, own4); /* our own, come back over a loop */
	CU_ASSERT_TRUE(left_alone(&f));
	for (unsigned v6 = 0; v6 < 2; v6++)
		for (unsigned i = 0; i < 4; i++) {
			if (v6)
				echo6_request(&f, 0, peer6, own6, 8);
			else
				echo4(&f, 0, peer4, own4, 8);
			memcpy(f.bytes + (i & 2 ? 6 : 0),
			       i == 0	? other_mac
			       : i == 1 ? broadcast
			       : i == 2 ? own_mac
					: broadcast,
			       6);
			CU_ASSERT_TRUE(left_alone(&f));
		}
	echo6_request(&f, 0, peer6, own6, 8);
	memcpy(f.bytes, "\x33\x33\xFF\x12\x34\x56", 6); /* the address is one's, the MAC a group's */
	CU_ASSERT_TRUE(left_alone(&f));
	solicit(&f, peer6, own6);
	memcpy(f.bytes, other_mac, 6);
	CU_ASSERT_TRUE(left_alone(&f));
	CU_ASSERT_TRUE(knows(peer4, true, NULL) && knows(peer6, false, NULL));
}

/* ---- several ports ---- */

#define FIRST6 0x20, 0x01, 0x0D, 0xB8, 0, 1, 0, 0, 0, 0, 0, 0
static const uint8_t first4[4] = {198, 51, 100, 1}, first_peer4[4] = {198, 51, 100, 2};
static const uint8_t first6[16] = {FIRST6, 0, 0x12, 0x34, 0x56}, first_peer6[16] = {FIRST6, 0, 0, 0, 2};

/* 198.51.100.1/24 and 2001:db8:1::12:3456/64 on port 0, the others on port 1. */
static void begin_two(void)
{
	begin();
	sp_neighbours_destroy(nic.neighbours);
	map4(nic.config.address[2].ip, first4);
	nic.config.address[2].prefix = 24;
	memcpy(nic.config.address[3].ip, first6, 16);
	nic.config.address[3].prefix = 64;
	nic.config.addresses = 4;
	CU_ASSERT_EQUAL_FATAL(sp_routes_set(&nic.routes, &nic.config, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(sp_neighbours_create(&nic.config, &nic.routes, &nic.neighbours), 0);
}

static bool knows_at(uint16_t port, const uint8_t *ip, bool is4, const uint8_t *mac)
{
	uint8_t key[16], got[6];
	if (is4)
		map4(key, ip);
	else
		memcpy(key, ip, 16);
	int r = sp_neighbour_find(nic.neighbours, port, key, worker.now, got);
	return mac ? !r && !memcmp(got, mac, 6) : r != 0;
}

TEST(arp_is_answered_by_the_port_of_the_address_with_its_mac)
{
	struct frame f, expect;
	for (uint16_t port = 0; port < 2; port++) {
		const uint8_t *mac = port ? own_mac : first_mac, *own = port ? own4 : first4;
		const uint8_t *peer = port ? peer4 : first_peer4, *other = port ? first4 : own4;
		begin_two();
		arp(&f, broadcast, 0, 1, peer_mac, peer, none6, other); /* the NIC's, but not here */
		CU_ASSERT_FALSE(offer_at(port, &f));
		CU_ASSERT_EQUAL(sents, 0);
		CU_ASSERT(knows_at(0, peer, true, NULL) && knows_at(1, peer, true, NULL));
		arp(&f, broadcast, 0, 1, peer_mac, peer, none6, own);
		arp(&expect, peer_mac, 0, 2, mac, own, peer_mac, peer);
		CU_ASSERT_TRUE(offer_at(port, &f));
		CU_ASSERT_EQUAL_FATAL(sents, 1);
		CU_ASSERT(sent_len == expect.len && !memcmp(sent, expect.bytes, expect.len));
		CU_ASSERT(knows_at(port, peer, true, peer_mac) && knows_at(!port, peer, true, NULL));
	}
}

TEST(nothing_is_learnt_of_another_ports_link)
{
	struct frame f;
	begin_two();
	arp(&f, broadcast, 0, 1, other_mac, first_peer4, none6, own4); /* port 0's neighbour, heard by port 1 */
	CU_ASSERT_TRUE(offer_at(1, &f));
	CU_ASSERT(knows_at(0, first_peer4, true, NULL) && knows_at(1, first_peer4, true, NULL));
	arp(&f, broadcast, 0, 1, peer_mac, first_peer4, none6, first4);
	CU_ASSERT_TRUE(offer_at(0, &f));
	CU_ASSERT_TRUE(knows_at(0, first_peer4, true, peer_mac));
	arp(&f, own_mac, 0, 2, other_mac, first_peer4, own_mac, own4); /* a reply, but on the wrong link */
	CU_ASSERT_TRUE(offer_at(1, &f));
	CU_ASSERT(knows_at(0, first_peer4, true, peer_mac) && knows_at(1, first_peer4, true, NULL));
	nd(&f, 0, own_mac, first_peer6, own6, 135, 0, own6, 1, other_mac);
	CU_ASSERT_TRUE(offer_at(1, &f));
	CU_ASSERT(knows_at(0, first_peer6, false, NULL) && knows_at(1, first_peer6, false, NULL));
}

TEST(solicitation_is_answered_by_the_port_of_the_address_with_its_mac)
{
	static const uint8_t group[6] = {0x33, 0x33, 0xFF, 0x12, 0x34, 0x56};
	struct frame f;
	for (uint16_t port = 0; port < 2; port++) {
		const uint8_t *mac = port ? own_mac : first_mac, *own = port ? own6 : first6;
		const uint8_t *peer = port ? peer6 : first_peer6, *other = port ? first6 : own6;
		begin_two();
		nd(&f, 0, group, peer, node6, 135, 0, other, 1, peer_mac); /* both have this solicited-node group */
		CU_ASSERT_FALSE(offer_at(port, &f));
		CU_ASSERT_EQUAL(sents, 0);
		nd(&f, 0, group, peer, node6, 135, 0, own, 1, peer_mac);
		CU_ASSERT_TRUE(offer_at(port, &f));
		CU_ASSERT_EQUAL_FATAL(sents, 1);
		CU_ASSERT(!memcmp(sent, peer_mac, 6) && !memcmp(sent + 6, mac, 6));
		CU_ASSERT(!memcmp(sent + 14 + 8, own, 16) && !memcmp(sent + 14 + 24, peer, 16));
		CU_ASSERT(!memcmp(sent + 14 + 40 + 8, own, 16) && !memcmp(sent + 14 + 40 + 26, mac, 6));
		CU_ASSERT(knows_at(port, peer, false, peer_mac) && knows_at(!port, peer, false, NULL));
	}
}

TEST(echo_for_any_address_is_answered_where_it_came_by)
{
	struct frame f;
	begin_two();
	echo4(&f, 0, peer4, first4, 8); /* to port 1's MAC, for port 0's address: weak host model */
	CU_ASSERT_TRUE(offer_at(1, &f));
	CU_ASSERT_EQUAL_FATAL(sents, 1);
	CU_ASSERT(!memcmp(sent, peer_mac, 6) && !memcmp(sent + 6, own_mac, 6) && !memcmp(sent + 26, first4, 4));
	echo6_request(&f, 0, peer6, first6, 8);
	CU_ASSERT_TRUE(offer_at(1, &f));
	CU_ASSERT_EQUAL(sents, 1);
	echo4(&f, 0, peer4, first4, 8); /* port 1's MAC is nobody's on port 0 */
	CU_ASSERT_FALSE(offer_at(0, &f));
	memcpy(f.bytes, first_mac, 6);
	CU_ASSERT_TRUE(offer_at(0, &f));
	CU_ASSERT_EQUAL_FATAL(sents, 1);
	CU_ASSERT(!memcmp(sent + 6, first_mac, 6));
	memcpy(f.bytes + 6, own_mac, 6); /* from the NIC's own other port: both are on one link */
	CU_ASSERT_FALSE(offer_at(0, &f));
}

/* ---- anything ---- */

/* Valid questions with some bytes changed and an end cut off, checksums put right again in half of them: no crash (run
 * it with a sanitizer), at most one answer, and none that is much longer than its question. */
TEST(mangled_frames_get_at_most_one_short_answer)
{
	uint64_t random = 0x2545F4914F6CDD1Dull;
	unsigned answers = 0;
	begin();
	for (unsigned n = 0; n < 60000; n++) {
		struct frame f;
		random ^= random << 13, random ^= random >> 7, random ^= random << 17;
		unsigned tags = random >> 60 & 1, kind = n % 6;
		if (kind == 0)
			arp(&f, broadcast, tags, 1, peer_mac, peer4, none6, own4);
		else if (kind == 1)
			echo4(&f, tags, peer4, own4, random >> 50 & 31);
		else if (kind == 2)
			echo6_request(&f, tags, peer6, own6, random >> 50 & 31);
		else
			nd(&f, tags, own_mac, peer6, kind == 5 ? own6 : node6, kind == 5 ? 136 : 135, 0x60,
			   kind == 5 ? peer6 : own6, 1, peer_mac);
		if (kind == 4)
			append(&f, &random, 8);
		for (unsigned i = 0; i < (random >> 40 & 3); i++)
			f.bytes[f.l3 + (random >> (8 * i)) % (f.len - f.l3)] = (uint8_t)(random >> (20 + i));
		if (random >> 30 & 1)
			f.len -= (uint32_t)(random >> 32) % f.len;
		if (random >> 31 & 1 && kind >= 2 && f.len > f.l3 + 48)
			finish6(&f);
		if (random >> 31 & 1 && kind == 1 && f.len > f.l3 + 28 && f.bytes[f.l3] == 0x45)
			finish4(&f);
		offer(&f);
		answers += sents;
		CU_ASSERT_TRUE(!sents || sent_len <= f.len + 8);
	}
	CU_ASSERT_TRUE(answers > 1000);
	sp_neighbours_destroy(nic.neighbours);
	nic.neighbours = NULL;
}
