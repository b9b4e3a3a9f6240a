/* SPDX-License-Identifier: BSD-3-Clause */
/* What the NIC answers itself, frame by frame, and what it leaves alone. Frames pass through the parser as they do from
 * a port, in buffers of exactly their size. */
#include "../../pipeline/local.c"
#include "suite.h"

/* ---- a NIC made by hand, and a port that remembers ---- */

static struct sp_nic nic;
static struct sp_worker worker = {.nic = &nic, .now = SP_SEC};
static const uint8_t own_mac[6] = {2, 0, 0, 0, 0, 0xAA}, peer_mac[6] = {2, 0, 0, 0, 0, 0xBB},
		     other_mac[6] = {2, 0, 0, 0, 0, 0xCC}, first_mac[6] = {2, 0, 0, 0, 0, 0xAD},
		     broadcast[6] = {255, 255, 255, 255, 255, 255};
static const uint8_t own4[4] = {192, 0, 2, 1}, peer4[4] = {192, 0, 2, 2};
#define NET6 0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0
static const uint8_t own6[16] = {NET6, 0, 0x12, 0x34, 0x56}, peer6[16] = {NET6, 0, 0, 0, 2},
		     node6[16] = {0xFF, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xFF, 0x12, 0x34, 0x56},
		     nodes6[16] = {0xFF, 2, [15] = 1}, none6[16];

static uint8_t sent[SP_PACKET_ROOM];
static uint32_t sent_len;
static unsigned sents;
static uint16_t sent_port;

int sp_transmit_frame(struct sp_worker *w, uint16_t port, const void *frame, uint32_t len)
{
	CU_ASSERT_PTR_EQUAL(w, &worker);
	CU_ASSERT_TRUE_FATAL(len <= sizeof(sent));
	memcpy(sent, frame, len);
	sent_len = len;
	sent_port = port;
	sents++;
	return 0;
}

static void begin(void)
{
	sp_neighbours_destroy(nic.neighbours);
	memset(&nic, 0, sizeof(nic));
	memcpy(nic.port[0].mac, first_mac, 6);
	memcpy(nic.port[1].mac, own_mac, 6); /* where the frames of these tests come from */
	nic.ports = nic.config.ports = 2;
	map4(nic.config.address[0].ip, own4);
	nic.config.address[0].prefix = 24;
	nic.config.address[0].port = nic.config.address[1].port = 1;
	memcpy(nic.config.address[1].ip, own6, 16);
	nic.config.address[1].prefix = 64;
	nic.config.addresses = 2;
	sents = 0;
	CU_ASSERT_EQUAL_FATAL(sp_routes_set(&nic.routes, &nic.config, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(sp_neighbours_create(&nic.config, &nic.routes, &nic.neighbours), 0);
}

/* Whether the table has that MAC for the address; mac NULL: nothing. */
static bool knows(const uint8_t *ip, bool is4, const uint8_t *mac)
{
	uint8_t key[16], got[6];
	if (is4)
		map4(key, ip);
	else
		memcpy(key, ip, 16);
	int r = sp_neighbour_find(nic.neighbours, 1, key, worker.now, got);
	return mac ? !r && !memcmp(got, mac, 6) : r != 0;
}

/* ---- frames ---- */

struct frame {
	uint8_t bytes[SP_PACKET_ROOM];
	uint32_t len, l3;
};

static uint32_t sum_words(uint32_t sum, const uint8_t *b, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		sum += i & 1 ? b[i] : (uint32_t)b[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xFFFF) + (sum >> 16);
	return sum;
}

static void append(struct frame *f, const void *bytes, uint32_t len)
{
	memcpy(f->bytes + f->len, bytes, len);
	f->len += len;
}

static void ethernet(struct frame *f, const uint8_t *to, const uint8_t *from, unsigned tags, unsigned type)
{
	static const uint8_t tag[2][4] = {{0x88, 0xA8, 0xA0, 0x64}, {0x81, 0x00, 0x20, 0x65}};
	uint8_t bytes[2] = {(uint8_t)(type >> 8), (uint8_t)type};
	memset(f, 0, sizeof(*f));
	append(f, to, 6);
	append(f, from, 6);
	for (unsigned i = 0; i < tags; i++)
		append(f, tag[i + (tags == 1)], 4);
	append(f, bytes, 2);
	f->l3 = f->len;
}

static void arp(struct frame *f, const uint8_t *to, unsigned tags, unsigned operation, const uint8_t *sender_mac,
		const uint8_t *sender, const uint8_t *target_mac, const uint8_t *target)
{
	uint8_t head[8] = {0, 1, 8, 0, 6, 4, 0, (uint8_t)operation};
	ethernet(f, to, sender_mac, tags, 0x0806);
	append(f, head, 8);
	append(f, sender_mac, 6);
	append(f, sender, 4);
	append(f, target_mac, 6);
	append(f, target, 4);
}

/* Sets lengths and both checksums. */
static void finish4(struct frame *f)
{
	uint8_t *ip = f->bytes + f->l3, *icmp = ip + (ip[0] & 15) * 4;
	uint32_t len = f->len - f->l3, sum;
	put16(ip + 2, len);
	put16(ip + 10, 0);
	put16(ip + 10, ~sum_words(0, ip, (ip[0] & 15u) * 4) & 0xFFFF);
	put16(icmp + 2, 0);
	sum = sum_words(0, icmp, f->len - (uint32_t)(icmp - f->bytes));
	put16(icmp + 2, ~sum & 0xFFFF);
}

static void echo4(struct frame *f, unsigned tags, const uint8_t *source, const uint8_t *destination, uint32_t data)
{
	static const uint8_t ip[12] = {0x45, 0xB8, 0, 0, 0xBE, 0xEF, 0x40, 0, 3, 1};
	static const uint8_t icmp[8] = {8, 0, 0, 0, 0xCA, 0xFE, 0, 7};
	ethernet(f, own_mac, peer_mac, tags, 0x0800);
	append(f, ip, 12);
	append(f, source, 4);
	append(f, destination, 4);
	append(f, icmp, 8);
	for (uint32_t i = 0; i < data; i++)
		f->bytes[f->len++] = (uint8_t)(i * 7 + 3);
	finish4(f);
}

static uint32_t sum6_of(const uint8_t *ip, uint32_t len)
{
	return sum_words(sum_words(sum_words(len + 58, ip + 8, 16), ip + 24, 16), ip + 40, len);
}

static void finish6(struct frame *f)
{
	uint8_t *ip = f->bytes + f->l3;
	uint32_t len = f->len - f->l3 - 40;
	put16(ip + 4, len);
	put16(ip + 42, 0);
	put16(ip + 42, ~sum6_of(ip, len) & 0xFFFF);
}

static void ip6_icmp(struct frame *f, unsigned tags, const uint8_t *to, const uint8_t *source,
		     const uint8_t *destination, unsigned hops, unsigned type)
{
	uint8_t head[8] = {0x6B, 0x81, 0x23, 0x45, 0, 0, 58, (uint8_t)hops};
	uint8_t icmp[4] = {(uint8_t)type};
	ethernet(f, to, peer_mac, tags, 0x86DD);
	append(f, head, 8);
	append(f, source, 16);
	append(f, destination, 16);
	append(f, icmp, 4);
}

static void echo6_request(struct frame *f, unsigned tags, const uint8_t *source, const uint8_t *destination,
			  uint32_t data)
{
	ip6_icmp(f, tags, own_mac, source, destination, 9, 128);
	append(f, "\xCA\xFE\0\7", 4);
	for (uint32_t i = 0; i < data; i++)
		f->bytes[f->len++] = (uint8_t)(i * 5 + 1);
	finish6(f);
}

/* option: the type, 0 for none */
static void nd(struct frame *f, unsigned tags, const uint8_t *to, const uint8_t *source, const uint8_t *destination,
	       unsigned type, unsigned flags, const uint8_t *target, unsigned option, const uint8_t *mac)
{
	uint8_t word[4] = {(uint8_t)flags}, head[2] = {(uint8_t)option, 1};
	ip6_icmp(f, tags, to, source, destination, 255, type);
	append(f, word, 4);
	append(f, target, 16);
	if (option) {
		append(f, head, 2);
		append(f, mac, 6);
	}
	finish6(f);
}

static void solicit(struct frame *f, const uint8_t *source, const uint8_t *destination)
{
	static const uint8_t group[6] = {0x33, 0x33, 0xFF, 0x12, 0x34, 0x56};
	nd(f, 0, destination[0] == 0xFF ? group : own_mac, source, destination, 135, 0, own6, source[0] ? 1 : 0,
	   peer_mac);
}

/* Whether the NIC took it, by that port. */
static bool offer_at(uint16_t port, const struct frame *f)
{
	struct sp_packet p;
	uint16_t ethertype;
	uint8_t *exact = malloc(f->len ? f->len : 1);
	memcpy(exact, f->bytes, f->len);
	int parsed = sp_parse(exact, f->len, &p, &ethertype);
	p.port = port;
	sents = 0;
	bool taken = sp_local_answer(&worker, &p, parsed, ethertype);
	free(exact);
	CU_ASSERT_TRUE(sents <= 1 && (!sents || sent_port == port));
	return taken;
}

static bool offer(const struct frame *f)
{
	return offer_at(1, f);
}

static bool answered(const struct frame *f)
{
	return offer(f) && sents == 1;
}

static bool taken_in_silence(const struct frame *f)
{
	return offer(f) && !sents;
}

static bool left_alone(const struct frame *f)
{
	return !offer(f) && !sents;
}

/* ---- ARP ---- */

static void arp_request_for_an_own_address_is_answered_and_teaches(void)
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

static void arp_probe_is_answered_and_teaches_nothing(void)
{
	struct frame f;
	begin();
	arp(&f, broadcast, 0, 1, peer_mac, none6, none6, own4);
	CU_ASSERT_TRUE(answered(&f));
	CU_ASSERT_TRUE(knows(none6, true, NULL));
}

static void arp_for_others_is_left_alone_and_updates_only_what_is_known(void)
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
	CU_ASSERT_TRUE(knows(peer4, true, other_mac));
	arp(&f, broadcast, 0, 2, peer_mac, peer4, peer_mac, peer4); /* the same as a reply */
	CU_ASSERT_TRUE(left_alone(&f));
	CU_ASSERT_TRUE(knows(peer4, true, peer_mac));
}

static void arp_reply_is_taken_and_only_updates(void)
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
	CU_ASSERT_TRUE(knows(peer4, true, peer_mac));
}

static void bad_arp_is_left_alone_and_teaches_nothing(void)
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

static void frames_for_or_from_the_wrong_mac_are_left_alone(void)
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

/* ---- echo ---- */

static void echo_is_answered_with_its_own_data(void)
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

static void echo6_is_answered_with_its_own_data(void)
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

static void ethernet_padding_of_an_echo_is_not_sent_back(void)
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

static void one_wrong_byte_in_an_echo_and_there_is_no_answer(void)
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

static void echo_from_or_to_groups_and_own_addresses_is_left_alone(void)
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

static void ipv4_addresses_mapped_into_ipv6_are_nobodys_on_the_wire(void)
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

static void fragments_options_and_extension_headers_are_left_alone(void)
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

static void other_icmp_is_left_alone(void)
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

/* ---- neighbour discovery ---- */

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

static void solicitation_is_answered_and_teaches(void)
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

static void duplicate_address_probe_is_answered_to_all_nodes(void)
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

static void bad_solicitation_is_left_alone_and_teaches_nothing(void)
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

static void advertisement_updates_what_is_known_as_its_flags_say(void)
{
	static const uint8_t all[6] = {0x33, 0x33, 0, 0, 0, 1};
	struct frame f;
	begin();
	nd(&f, 0, own_mac, peer6, own6, 136, 0x60, peer6, 2, peer_mac);
	CU_ASSERT_TRUE(taken_in_silence(&f));
	CU_ASSERT_TRUE(knows(peer6, false, NULL)); /* nobody had asked */
	sp_neighbour_learn(nic.neighbours, 1, peer6, other_mac, 0, true);
	CU_ASSERT_TRUE(taken_in_silence(&f));
	CU_ASSERT_TRUE(knows(peer6, false, peer_mac));
	nd(&f, 0, own_mac, peer6, own6, 136, 0x40, peer6, 2, other_mac); /* no override */
	CU_ASSERT_TRUE(taken_in_silence(&f));
	CU_ASSERT_TRUE(knows(peer6, false, peer_mac));
	nd(&f, 0, all, peer6, nodes6, 136, 0x20, peer6, 2, other_mac); /* announcement: for others too */
	CU_ASSERT_TRUE(left_alone(&f));
	CU_ASSERT_TRUE(knows(peer6, false, other_mac));
	nd(&f, 0, own_mac, peer6, own6, 136, 0x60, peer6, 0, NULL); /* says no MAC */
	CU_ASSERT_TRUE(taken_in_silence(&f));
	CU_ASSERT_TRUE(knows(peer6, false, other_mac));
}

static void bad_advertisement_is_left_alone_and_teaches_nothing(void)
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

/* ---- anything ---- */

/* Valid questions with some bytes changed and an end cut off, checksums put right again in half of them: no crash (run
 * it with a sanitizer), at most one answer, and none that is much longer than its question. */
static void mangled_frames_get_at_most_one_short_answer(void)
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

static void arp_is_answered_by_the_port_of_the_address_with_its_mac(void)
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

static void nothing_is_learnt_of_another_ports_link(void)
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

static void solicitation_is_answered_by_the_port_of_the_address_with_its_mac(void)
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

static void echo_for_any_address_is_answered_where_it_came_by(void)
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

SUITE("local", TEST(arp_request_for_an_own_address_is_answered_and_teaches),
      TEST(arp_probe_is_answered_and_teaches_nothing),
      TEST(arp_for_others_is_left_alone_and_updates_only_what_is_known), TEST(arp_reply_is_taken_and_only_updates),
      TEST(bad_arp_is_left_alone_and_teaches_nothing), TEST(frames_for_or_from_the_wrong_mac_are_left_alone),
      TEST(echo_is_answered_with_its_own_data), TEST(echo6_is_answered_with_its_own_data),
      TEST(ethernet_padding_of_an_echo_is_not_sent_back), TEST(one_wrong_byte_in_an_echo_and_there_is_no_answer),
      TEST(echo_from_or_to_groups_and_own_addresses_is_left_alone),
      TEST(ipv4_addresses_mapped_into_ipv6_are_nobodys_on_the_wire),
      TEST(fragments_options_and_extension_headers_are_left_alone), TEST(other_icmp_is_left_alone),
      TEST(solicitation_is_answered_and_teaches), TEST(duplicate_address_probe_is_answered_to_all_nodes),
      TEST(bad_solicitation_is_left_alone_and_teaches_nothing),
      TEST(advertisement_updates_what_is_known_as_its_flags_say),
      TEST(bad_advertisement_is_left_alone_and_teaches_nothing),
      TEST(arp_is_answered_by_the_port_of_the_address_with_its_mac), TEST(nothing_is_learnt_of_another_ports_link),
      TEST(solicitation_is_answered_by_the_port_of_the_address_with_its_mac),
      TEST(echo_for_any_address_is_answered_where_it_came_by), TEST(mangled_frames_get_at_most_one_short_answer))
