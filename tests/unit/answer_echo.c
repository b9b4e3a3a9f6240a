/* SPDX-License-Identifier: BSD-3-Clause */
/* ICMP and ICMPv6 echo for the NIC's own addresses: answered with the request's data and no more; anything else of
 * ICMP, and what is not whole, is left alone. */
#include "answer.h"

TEST(echo_is_answered_with_its_own_data)
{
	static const uint32_t sizes[] = {0, 1, 17, 18, 19, 56, 57, 1472, 9000};
	struct frame f;
	begin();
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		for (unsigned tags = 0; tags < 3; tags++) {
			echo4(&f, tags, peer4, own4, sizes[i]);
			CU_ASSERT_TRUE_FATAL(answered(&f));
			CU_ASSERT_EQUAL(sent_len, f.len);
			const uint8_t *ip = sent + f.l3, *was = f.bytes + f.l3;
			CU_ASSERT_TRUE(!memcmp(sent, peer_mac, 6) && !memcmp(sent + 6, own_mac, 6));
			CU_ASSERT_EQUAL(memcmp(sent + 12, f.bytes + 12, f.l3 - 12), 0);
			CU_ASSERT_EQUAL(memcmp(ip, was, 8), 0); /* version to DF */
			CU_ASSERT_EQUAL(ip[8], 64);
			CU_ASSERT_EQUAL(ip[9], 1);
			CU_ASSERT_EQUAL(sum_words(0, ip, 20), 0xFFFF);
			CU_ASSERT_TRUE(!memcmp(ip + 12, own4, 4) && !memcmp(ip + 16, peer4, 4));
			CU_ASSERT_EQUAL(ip[20], 0);
			CU_ASSERT_EQUAL(sum_words(0, ip + 20, sizes[i] + 8), 0xFFFF);
			CU_ASSERT_EQUAL(memcmp(ip + 24, was + 24, sizes[i] + 4), 0);
		}
}

TEST(echo6_is_answered_with_its_own_data)
{
	static const uint32_t sizes[] = {0, 1, 56, 57, 1452, 9000};
	struct frame f;
	begin();
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		for (unsigned tags = 0; tags < 3; tags++) {
			echo6_request(&f, tags, peer6, own6, sizes[i]);
			CU_ASSERT_TRUE_FATAL(answered(&f));
			CU_ASSERT_EQUAL(sent_len, f.len);
			const uint8_t *ip = sent + f.l3, *was = f.bytes + f.l3;
			CU_ASSERT_TRUE(!memcmp(sent, peer_mac, 6) && !memcmp(sent + 6, own_mac, 6));
			CU_ASSERT_EQUAL(memcmp(sent + 12, f.bytes + 12, f.l3 - 12), 0);
			CU_ASSERT_EQUAL(memcmp(ip, was, 7), 0);
			CU_ASSERT_EQUAL(ip[7], 64);
			CU_ASSERT_TRUE(!memcmp(ip + 8, own6, 16) && !memcmp(ip + 24, peer6, 16));
			CU_ASSERT_EQUAL(ip[40], 129);
			CU_ASSERT_EQUAL(sum6_of(ip, sizes[i] + 8), 0xFFFF);
			CU_ASSERT_EQUAL(memcmp(ip + 44, was + 44, sizes[i] + 4), 0);
		}
}

TEST(ethernet_padding_of_an_echo_is_not_sent_back)
{
	struct frame f;
	begin();
	echo4(&f, 0, peer4, own4, 1);
	memset(f.bytes + f.len, 0xEE, 40);
	uint32_t whole = f.len;
	f.len = 70;
	CU_ASSERT_TRUE(answered(&f));
	CU_ASSERT_EQUAL(sent_len, 60);
	for (uint32_t i = whole; i < 60; i++)
		CU_ASSERT_EQUAL(sent[i], 0);
}

TEST(one_wrong_byte_in_an_echo_and_there_is_no_answer)
{
	struct frame f;
	begin();
	echo4(&f, 0, peer4, own4, 20);
	for (uint32_t i = f.l3 + 20; i < f.len; i++) {
		f.bytes[i] ^= 0x10;
		CU_ASSERT_TRUE(left_alone(&f));
		f.bytes[i] ^= 0x10;
	}
	CU_ASSERT_TRUE(answered(&f));
	echo6_request(&f, 0, peer6, own6, 20);
	for (uint32_t i = f.l3 + 8; i < f.len; i++) {
		f.bytes[i] ^= 0x10;
		CU_ASSERT_TRUE(left_alone(&f));
		f.bytes[i] ^= 0x10;
	}
	CU_ASSERT_TRUE(answered(&f));
}

TEST(echo_from_or_to_groups_and_own_addresses_is_left_alone)
{
	static const uint8_t sources[][4] = {{192, 0, 2, 255}, {192, 0, 2, 0}, {224, 0, 0, 1}, {255, 255, 255, 255},
					     {0, 0, 0, 0},     {127, 0, 0, 1}, {240, 0, 0, 1}, {192, 0, 2, 1}};
	static const uint8_t destinations[][4] = {
		{192, 0, 2, 255}, {255, 255, 255, 255}, {224, 0, 0, 1}, {192, 0, 2, 7}};
	static const uint8_t sources6[][16] = {
		{0}, {[15] = 1}, {0xFF, 2, [15] = 1}, {NET6, 0, 0x12, 0x34, 0x56}, {[10] = 0xFF, 0xFF, 192, 0, 2, 2}};
	struct frame f;
	begin();
	for (size_t i = 0; i < sizeof(sources) / sizeof(*sources); i++) {
		echo4(&f, 0, sources[i], own4, 8);
		CU_ASSERT_TRUE(left_alone(&f));
	}
	for (size_t i = 0; i < sizeof(destinations) / sizeof(*destinations); i++) {
		echo4(&f, 0, peer4, destinations[i], 8);
		CU_ASSERT_TRUE(left_alone(&f));
	}
	for (size_t i = 0; i < sizeof(sources6) / sizeof(*sources6); i++) {
		echo6_request(&f, 0, sources6[i], own6, 8);
		CU_ASSERT_TRUE(left_alone(&f));
	}
	echo6_request(&f, 0, peer6, nodes6, 8);
	CU_ASSERT_TRUE(left_alone(&f));
	echo6_request(&f, 0, peer6, node6, 8);
	CU_ASSERT_TRUE(left_alone(&f));
	echo6_request(&f, 0, peer6, peer6, 8);
	CU_ASSERT_TRUE(left_alone(&f));
}

TEST(ipv4_addresses_mapped_into_ipv6_are_nobodys_on_the_wire)
{
	uint8_t own[16], peer[16];
	struct frame f;
	begin();
	map4(own, own4);
	map4(peer, peer4);
	echo6_request(&f, 0, peer6, own, 8);
	CU_ASSERT_TRUE(left_alone(&f));
	nd(&f, 0, own_mac, peer6, own, 135, 0, own, 1, peer_mac);
	CU_ASSERT_TRUE(left_alone(&f));
	nd(&f, 0, own_mac, peer, own6, 135, 0, own6, 1, peer_mac);
	CU_ASSERT_TRUE(left_alone(&f));
	CU_ASSERT_TRUE(knows(peer4, true, NULL));
	sp_neighbour_learn(nic.neighbours, 1, peer, peer_mac, 0, true);
	nd(&f, 0, own_mac, peer6, own6, 136, 0x60, peer, 2, other_mac);
	CU_ASSERT_TRUE(left_alone(&f));
	CU_ASSERT_TRUE(knows(peer4, true, peer_mac));
}

TEST(fragments_options_and_extension_headers_are_left_alone)
{
	struct frame f;
	begin();
	for (unsigned i = 0; i < 2; i++) {
		echo4(&f, 0, peer4, own4, 32);
		put16(f.bytes + f.l3 + 6, i ? 0x2000 : 3); /* the first of several; a later one */
		finish4(&f);
		CU_ASSERT_TRUE(left_alone(&f));
	}
	echo4(&f, 0, peer4, own4, 32);
	memmove(f.bytes + f.l3 + 24, f.bytes + f.l3 + 20, 40);
	memset(f.bytes + f.l3 + 20, 1, 4);
	f.bytes[f.l3] = 0x46;
	f.len += 4;
	finish4(&f);
	CU_ASSERT_TRUE(left_alone(&f));
	echo6_request(&f, 0, peer6, own6, 32); /* behind a destination options header */
	memmove(f.bytes + f.l3 + 48, f.bytes + f.l3 + 40, 40);
	memcpy(f.bytes + f.l3 + 40, (uint8_t[]){58, 0, 1, 4, 0, 0, 0, 0}, 8);
	f.bytes[f.l3 + 6] = 60;
	f.len += 8;
	put16(f.bytes + f.l3 + 4, f.len - f.l3 - 40);
	CU_ASSERT_TRUE(left_alone(&f));
	echo6_request(&f, 0, peer6, own6, 32); /* a fragment header that fragments nothing */
	memmove(f.bytes + f.l3 + 48, f.bytes + f.l3 + 40, 40);
	memcpy(f.bytes + f.l3 + 40, (uint8_t[]){58, 0, 0, 0, 0, 0, 0, 1}, 8);
	f.bytes[f.l3 + 6] = 44;
	f.len += 8;
	put16(f.bytes + f.l3 + 4, f.len - f.l3 - 40);
	CU_ASSERT_TRUE(left_alone(&f));
}

TEST(other_icmp_is_left_alone)
{
	struct frame f;
	begin();
	for (unsigned type = 0; type < 256; type++) {
		echo4(&f, 0, peer4, own4, 32);
		f.bytes[f.l3 + 20] = (uint8_t)type;
		finish4(&f);
		CU_ASSERT_EQUAL(left_alone(&f), type != 8);
		echo6_request(&f, 0, peer6, own6, 32);
		f.bytes[f.l3 + 40] = (uint8_t)type;
		f.bytes[f.l3 + 7] = 255;
		finish6(&f);
		CU_ASSERT_EQUAL(left_alone(&f), type != 128);
	}
	echo4(&f, 0, peer4, own4, 32);
	f.bytes[f.l3 + 21] = 1;
	finish4(&f);
	CU_ASSERT_TRUE(left_alone(&f));
	echo4(&f, 0, peer4, own4, 0);
	f.len -= 4; /* half an ICMP header */
	finish4(&f);
	CU_ASSERT_TRUE(left_alone(&f));
	echo4(&f, 0, peer4, own4, 32);
	f.bytes[f.l3 + 9] = 6;
	finish4(&f);
	CU_ASSERT_TRUE(left_alone(&f));
}
