/* SPDX-License-Identifier: BSD-3-Clause */
/* Neighbour discovery (RFC 4861) for the NIC's own addresses: solicitations are answered, advertisements are learnt
 * from as their flags say, and bad ones teach nothing. */
#include "answer.h"

static void check_advertisement(const struct frame *f, const uint8_t *to, const uint8_t *destination, unsigned flags)
{
	uint8_t expect[] = {136, 0, 0, 0, 0, 0, 0, 0, NET6, 0, 0x12, 0x34, 0x56, 2, 1, 2, 0, 0, 0, 0, 0xAA};
	const uint8_t *ip = sent + f->l3;
	expect[4] = (uint8_t)flags;
	CU_ASSERT_EQUAL(sent_len, f->l3 + 72);
	CU_ASSERT_TRUE(!memcmp(sent, to, 6) && !memcmp(sent + 6, own_mac, 6));
	CU_ASSERT_EQUAL(memcmp(sent + 12, f->bytes + 12, f->l3 - 12), 0); /* tags, type */
	CU_ASSERT_EQUAL(ip[0] >> 4, 6);
	CU_ASSERT_TRUE(ip[4] == 0 && ip[5] == 32 && ip[6] == 58 && ip[7] == 255);
	CU_ASSERT_TRUE(!memcmp(ip + 8, own6, 16) && !memcmp(ip + 24, destination, 16));
	CU_ASSERT_EQUAL(sum6_of(ip, 32), 0xFFFF);
	memcpy(expect + 2, ip + 42, 2);
	CU_ASSERT_EQUAL(memcmp(ip + 40, expect, sizeof(expect)), 0);
}

TEST(solicitation_is_answered_and_teaches)
{
	static const uint8_t group[6] = {0x33, 0x33, 0xFF, 0x12, 0x34, 0x56};
	struct frame f;
	for (unsigned tags = 0; tags < 3; tags++) {
		begin();
		nd(&f, tags, group, peer6, node6, 135, 0, own6, 1, other_mac); /* who asks says where he is */
		CU_ASSERT_TRUE(answered(&f));
		check_advertisement(&f, other_mac, peer6, 0x60);
		CU_ASSERT_TRUE(knows(peer6, false, other_mac));
	}
	begin();
	nd(&f, 0, own_mac, peer6, own6, 135, 0, own6, 0, NULL); /* unicast, no option: to where it came from */
	CU_ASSERT_TRUE(answered(&f));
	check_advertisement(&f, peer_mac, peer6, 0x60);
	CU_ASSERT_TRUE(knows(peer6, false, NULL));
	nd(&f, 0, own_mac, peer6, own6, 135, 0, own6, 14, peer_mac); /* an option that nobody here knows */
	append(&f, "\1\1\2\0\0\0\0\xCC", 8);
	finish6(&f);
	CU_ASSERT_TRUE(answered(&f));
	check_advertisement(&f, other_mac, peer6, 0x60);
}

TEST(duplicate_address_probe_is_answered_to_all_nodes)
{
	static const uint8_t all[6] = {0x33, 0x33, 0, 0, 0, 1};
	struct frame f;
	begin();
	solicit(&f, none6, node6);
	CU_ASSERT_TRUE(answered(&f));
	check_advertisement(&f, all, nodes6, 0x20);
	CU_ASSERT_TRUE(knows(none6, false, NULL));
	nd(&f, 0, own_mac, none6, own6, 135, 0, own6, 0, NULL); /* not to a multicast address */
	CU_ASSERT_TRUE(left_alone(&f));
	nd(&f, 0, broadcast, none6, node6, 135, 0, own6, 1, peer_mac); /* nobody with an address of the link layer */
	memcpy(f.bytes, "\x33\x33\xFF\x12\x34\x56", 6);
	CU_ASSERT_TRUE(left_alone(&f));
}

TEST(bad_solicitation_is_left_alone_and_teaches_nothing)
{
	static const uint8_t group_target[16] = {0xFF, 2, [13] = 0x12, 0x34, 0x56};
	static const uint8_t other_node[16] = {0xFF, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xFF, 0x12, 0x34, 0x57};
	struct frame f;
	begin();
	solicit(&f, peer6, node6);
	f.bytes[f.l3 + 7] = 254; /* has been through a router */
	CU_ASSERT_TRUE(left_alone(&f));
	solicit(&f, peer6, node6);
	f.bytes[f.l3 + 41] = 1;
	finish6(&f);
	CU_ASSERT_TRUE(left_alone(&f));
	solicit(&f, peer6, node6);
	for (uint32_t i = f.l3 + 8; i < f.len; i++) { /* checksum: addresses and message */
		f.bytes[i] ^= 1;
		CU_ASSERT_TRUE(left_alone(&f));
		f.bytes[i] ^= 1;
	}
	nd(&f, 0, own_mac, peer6, own6, 135, 0, peer6, 1, peer_mac);
	CU_ASSERT_TRUE(left_alone(&f));
	nd(&f, 0, own_mac, peer6, own6, 135, 0, group_target, 1, peer_mac);
	CU_ASSERT_TRUE(left_alone(&f));
	nd(&f, 0, own_mac, peer6, other_node, 135, 0, own6, 1, peer_mac);
	CU_ASSERT_TRUE(left_alone(&f));
	nd(&f, 0, own_mac, own6, own6, 135, 0, own6, 1, peer_mac);
	CU_ASSERT_TRUE(left_alone(&f));
	nd(&f, 0, own_mac, peer6, own6, 135, 0, own6, 1, broadcast);
	CU_ASSERT_TRUE(left_alone(&f));
	nd(&f, 0, own_mac, peer6, own6, 135, 0, own6, 1, own_mac);
	CU_ASSERT_TRUE(left_alone(&f));
	for (uint32_t cut = 1; cut < 32; cut++) { /* cut off anywhere, with right lengths and checksum */
		solicit(&f, peer6, node6);
		f.len -= cut;
		finish6(&f);
		CU_ASSERT_EQUAL(left_alone(&f), cut != 8); /* without the option it is whole */
	}
	static const uint8_t lengths[] = {0, 2, 255};
	for (size_t i = 0; i < sizeof(lengths); i++) {
		nd(&f, 0, own_mac, peer6, own6, 135, 0, own6, 1, peer_mac);
		f.bytes[f.len - 7] = lengths[i];
		finish6(&f);
		CU_ASSERT_TRUE(left_alone(&f));
	}
	CU_ASSERT_TRUE(knows(peer6, false, NULL));
}

TEST(advertisement_updates_what_is_known_as_its_flags_say)
{
	static const uint8_t all[6] = {0x33, 0x33, 0, 0, 0, 1};
	struct frame f;
	begin();
	nd(&f, 0, own_mac, peer6, own6, 136, 0x60, peer6, 2, peer_mac);
	CU_ASSERT_TRUE(taken_in_silence(&f));
	CU_ASSERT_TRUE(knows(peer6, false, NULL)); /* nobody had asked */
	sp_neighbour_learn(nic.neighbours, 1, peer6, other_mac, 0, true);
	CU_ASSERT_TRUE(taken_in_silence(&f));
	nobody_answers();
	CU_ASSERT_TRUE(knows(peer6, false, peer_mac));
	nd(&f, 0, own_mac, peer6, own6, 136, 0x40, peer6, 2, other_mac); /* no override */
	CU_ASSERT_TRUE(taken_in_silence(&f));
	CU_ASSERT_TRUE(knows(peer6, false, peer_mac));
	nd(&f, 0, all, peer6, nodes6, 136, 0x20, peer6, 2, other_mac); /* announcement: for others too */
	CU_ASSERT_TRUE(left_alone(&f));
	CU_ASSERT_TRUE(knows(peer6, false, peer_mac));
	nobody_answers();
	CU_ASSERT_TRUE(knows(peer6, false, other_mac));
	nd(&f, 0, own_mac, peer6, own6, 136, 0x60, peer6, 0, NULL); /* says no MAC */
	CU_ASSERT_TRUE(taken_in_silence(&f));
	CU_ASSERT_TRUE(knows(peer6, false, other_mac));
}

TEST(advertisements_are_the_exception_ports_as_well)
{
	struct frame f;
	begin();
	nic.has_exception = true; /* whose kernel may have asked, from the same address */
	sp_neighbour_learn(nic.neighbours, 1, peer6, other_mac, 0, true);
	nd(&f, 0, own_mac, peer6, own6, 136, 0x60, peer6, 2, peer_mac);
	CU_ASSERT_TRUE(left_alone(&f));
	nobody_answers();
	CU_ASSERT_TRUE(knows(peer6, false, peer_mac));
	nd(&f, 0, own_mac, peer6, own6, 135, 0, own6, 1, peer_mac); /* questions stay the NIC's */
	CU_ASSERT_TRUE(answered(&f));
}

TEST(bad_advertisement_is_left_alone_and_teaches_nothing)
{
	static const uint8_t all[6] = {0x33, 0x33, 0, 0, 0, 1};
	struct frame f;
	begin();
	sp_neighbour_learn(nic.neighbours, 1, peer6, peer_mac, 0, true);
	nd(&f, 0, all, peer6, nodes6, 136, 0x60, peer6, 2, other_mac); /* solicited, to everybody */
	CU_ASSERT_TRUE(left_alone(&f));
	nd(&f, 0, own_mac, peer6, peer6, 136, 0x60, peer6, 2, other_mac);
	CU_ASSERT_TRUE(left_alone(&f));
	nd(&f, 0, own_mac, peer6, own6, 136, 0x60, own6, 2, other_mac); /* somebody has our address */
	CU_ASSERT_TRUE(left_alone(&f));
	nd(&f, 0, own_mac, none6, own6, 136, 0x60, peer6, 2, other_mac);
	CU_ASSERT_TRUE(left_alone(&f));
	nd(&f, 0, own_mac, peer6, own6, 136, 0x60, peer6, 2, broadcast);
	CU_ASSERT_TRUE(left_alone(&f));
	nd(&f, 0, own_mac, peer6, own6, 136, 0x60, peer6, 2, other_mac);
	f.bytes[f.l3 + 7] = 254;
	CU_ASSERT_TRUE(left_alone(&f));
	nd(&f, 0, own_mac, peer6, own6, 136, 0x60, peer6, 2, other_mac);
	f.bytes[f.l3 + 42] ^= 1;
	CU_ASSERT_TRUE(left_alone(&f));
	nd(&f, 0, own_mac, peer6, own6, 136, 0x60, peer6, 2, other_mac);
	f.bytes[f.len - 7] = 0;
	finish6(&f);
	CU_ASSERT_TRUE(left_alone(&f));
	CU_ASSERT_TRUE(knows(peer6, false, peer_mac) && knows(own6, false, NULL));
}
