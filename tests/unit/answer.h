/* SPDX-License-Identifier: BSD-3-Clause */
/* A NIC made by hand that answers by itself, a port that remembers, and frames that pass through the parser as they do
 * from a port, in buffers of exactly their size. */
#ifndef TESTS_UNIT_ANSWER_H
#define TESTS_UNIT_ANSWER_H

#include "../../pipeline/tx/answer.c"
#include "../lib/suite.h"

static struct sp_port ports[2];
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

static inline void begin(void)
{
	sp_neighbours_destroy(nic.neighbours);
	memset(&nic, 0, sizeof(nic));
	nic.port = ports;
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
/* A second in which nobody answers: what others claim of an address is believed then. */
static inline void nobody_answers(void)
{
	const sp_time until = worker.now + SP_SEC;
	for (sp_time at; (at = sp_neighbours_deadline(nic.neighbours)) <= until;) {
		worker.now = RTE_MAX(at, worker.now);
		sp_neighbours_tick(&worker, worker.now);
	}
	worker.now = until;
}

static inline bool knows(const uint8_t *ip, bool is4, const uint8_t *mac)
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

static inline uint32_t sum_words(uint32_t sum, const uint8_t *b, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		sum += i & 1 ? b[i] : (uint32_t)b[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xFFFF) + (sum >> 16);
	return sum;
}

static inline void append(struct frame *f, const void *bytes, uint32_t len)
{
	memcpy(f->bytes + f->len, bytes, len);
	f->len += len;
}

static inline void ethernet(struct frame *f, const uint8_t *to, const uint8_t *from, unsigned tags, unsigned type)
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

static inline void arp(struct frame *f, const uint8_t *to, unsigned tags, unsigned operation, const uint8_t *sender_mac,
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
static inline void finish4(struct frame *f)
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

static inline void echo4(struct frame *f, unsigned tags, const uint8_t *source, const uint8_t *destination,
			 uint32_t data)
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

static inline uint32_t sum6_of(const uint8_t *ip, uint32_t len)
{
	return sum_words(sum_words(sum_words(len + 58, ip + 8, 16), ip + 24, 16), ip + 40, len);
}

static inline void finish6(struct frame *f)
{
	uint8_t *ip = f->bytes + f->l3;
	uint32_t len = f->len - f->l3 - 40;
	put16(ip + 4, len);
	put16(ip + 42, 0);
	put16(ip + 42, ~sum6_of(ip, len) & 0xFFFF);
}

static inline void ip6_icmp(struct frame *f, unsigned tags, const uint8_t *to, const uint8_t *source,
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

static inline void echo6_request(struct frame *f, unsigned tags, const uint8_t *source, const uint8_t *destination,
				 uint32_t data)
{
	ip6_icmp(f, tags, own_mac, source, destination, 9, 128);
	append(f, "\xCA\xFE\0\7", 4);
	for (uint32_t i = 0; i < data; i++)
		f->bytes[f->len++] = (uint8_t)(i * 5 + 1);
	finish6(f);
}

/* option: the type, 0 for none */
static inline void nd(struct frame *f, unsigned tags, const uint8_t *to, const uint8_t *source,
		      const uint8_t *destination, unsigned type, unsigned flags, const uint8_t *target, unsigned option,
		      const uint8_t *mac)
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

static inline void solicit(struct frame *f, const uint8_t *source, const uint8_t *destination)
{
	static const uint8_t group[6] = {0x33, 0x33, 0xFF, 0x12, 0x34, 0x56};
	nd(f, 0, destination[0] == 0xFF ? group : own_mac, source, destination, 135, 0, own6, source[0] ? 1 : 0,
	   peer_mac);
}

/* Whether the NIC took it, by that port. */
static inline bool offer_at(uint16_t port, const struct frame *f)
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

static inline bool offer(const struct frame *f)
{
	return offer_at(1, f);
}

static inline bool answered(const struct frame *f)
{
	return offer(f) && sents == 1;
}

static inline bool taken_in_silence(const struct frame *f)
{
	return offer(f) && !sents;
}

static inline bool left_alone(const struct frame *f)
{
	return !offer(f) && !sents;
}

#endif
