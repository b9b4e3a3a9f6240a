/* SPDX-License-Identifier: BSD-3-Clause */
/* The ICRC against real senders and against zlib, which shares no code with it. */
#include <zlib.h>

#include "../lib/captures.h"
#include "../lib/frame.h"
#include "../../handlers/wire/roce.h"
#include "../../pipeline/frame/icrc.h"
#include "../../pipeline/frame/parser.h"

/* The annex's words, on a copy: 8 bytes of ones, then the packet with the variant fields set to ones. */
static uint32_t reference(const uint8_t *l3, uint32_t l3_len, uint32_t len)
{
	uint8_t *copy = malloc(8 + len), *ip = copy + 8, *udp = ip + l3_len, *bth = udp + 8;

	memset(copy, 0xFF, 8);
	memcpy(ip, l3, len);
	if (ip[0] >> 4 == 6) {
		ip[0] |= 0x0F; /* traffic class */
		ip[1] = 0xFF;
		ip[2] = ip[3] = 0xFF; /* flow label */
		ip[7] = 0xFF;	      /* hop limit */
	} else {
		ip[1] = 0xFF;		/* type of service */
		ip[8] = 0xFF;		/* time to live */
		ip[10] = ip[11] = 0xFF; /* header checksum */
	}
	udp[6] = udp[7] = 0xFF;
	bth[4] = 0xFF;
	uint32_t c = (uint32_t)crc32(0, copy, 8 + len);
	free(copy);
	return c;
}

static unsigned told;

/* All over a malloc of exactly the packet, so that ASan sees a byte read before or behind it: by the level's
 * multiplications, by ISA-L's, and as a question. */
static bool agrees(const uint8_t *l3, uint32_t l3_len, uint32_t len)
{
	uint8_t *exact = malloc(len), *with = malloc(len + 4);

	memcpy(exact, l3, len);
	uint32_t want = reference(exact, l3_len, len), got = sp_icrc(exact, l3_len, len);
	bool unchanged = !memcmp(exact, l3, len);

	if (got == want)
		got = sp_icrc_copied(exact, l3_len, len);
	memcpy(with, l3, len);
	for (unsigned i = 0; i < 4; i++)
		with[len + i] = (uint8_t)(want >> 8 * i);
	if (!sp_icrc_right(with, l3_len, len))
		got = ~want;
	with[len + want % 4] ^= 1 << len % 8;
	if (sp_icrc_right(with, l3_len, len))
		got = ~want;
	unchanged &= !memcmp(with, l3, len);
	free(exact);
	free(with);
	if ((want != got || !unchanged) && told++ < 20)
		printf("# header %u, length %u: %08x, want %08x%s\n", l3_len, len, got, want,
		       unchanged ? "" : ", bytes changed");
	return want == got && unchanged;
}

static unsigned seen, rejected, wrong_sender, wrong_zlib;

static void check_captured(const char *file, unsigned number, uint8_t *bytes, uint32_t len, void *arg)
{
	struct sp_packet p;
	uint16_t type;
	int parsed = sp_parse(bytes, len, &p, &type);
	if (parsed < 0) {
		printf("# %s: packet %u: %s\n", file, number, sp_drop_names[-1 - parsed]);
		rejected++;
	}
	if (parsed != SP_PARSED_ROCE)
		return;
	const uint8_t *bth = p.data - sizeof(struct sp_bth), *end = p.data + p.len + (bth[1] >> 4 & 3);
	uint32_t l3_len = p.l4 - p.l3, covered = (uint32_t)(end - p.frame) - p.l3;
	uint32_t sent = end[0] | end[1] << 8 | end[2] << 16 | (uint32_t)end[3] << 24;

	seen++;
	wrong_sender += sp_icrc(p.frame + p.l3, l3_len, covered) != sent;
	wrong_zlib += reference(p.frame + p.l3, l3_len, covered) != sent;
}

static const struct {
	const char *file;
	unsigned packets; /* to port 4791, counted by tshark */
} captured[] = {{"atomic_cas.pcap", 40},      {"atomic_fadd.pcap", 40},	     {"dup_atomic.pcap", 218},
		{"rc_pingpong_new.pcap", 80}, {"rc_pingpong_odd.pcap", 120}, {"rping.pcap", 77},
		{"rstream_imm.pcap", 96},     {"uc_pingpong.pcap", 120},     {"ud_pingpong.pcap", 40},
		{"udaddy.pcap", 22},	      {"write_ipv6.pcap", 40},	     {"write_lat.pcap", 80},
		{"write_uc.pcap", 90}};

TEST_OF_CAPTURES(every_captured_packet_has_the_icrc_that_its_sender_gave_it)
{
	for (size_t i = 0; i < sizeof(captured) / sizeof(*captured); i++) {
		unsigned before = seen;

		CU_ASSERT(captures_each(captured[i].file, check_captured, NULL));
		if (seen - before != captured[i].packets)
			printf("# %s: %u packets\n", captured[i].file, seen - before);
		CU_ASSERT_EQUAL(seen - before, captured[i].packets);
	}
	CU_ASSERT_EQUAL(rejected, 0);
	CU_ASSERT_EQUAL(wrong_sender, 0);
	CU_ASSERT_EQUAL(wrong_zlib, 0);
}

/* All lengths about the sizes at which a CRC in wide registers changes its ways. */
TEST(agrees_with_zlib_for_every_ip_header_and_length)
{
	struct frame f;
	unsigned bad = 0;

	for (unsigned tags = 0; tags <= 2; tags++)
		for (enum frame_ip ip = 0; ip < FRAME_IPS; ip++)
			for (unsigned payload = 0; payload < 700; payload++) {
				frame_build(&f, &(struct frame_shape){.tags = tags,
								      .ip = ip,
								      .roce = true,
								      .payload = payload,
								      .pad = -payload & 3});
				bad += !agrees(f.bytes + f.l3, f.l4 - f.l3, f.len - 4 - f.l3);
			}
	CU_ASSERT_EQUAL(bad, 0);
}

TEST(agrees_with_zlib_for_the_largest_packets)
{
	static uint8_t ip[64 + 20 + 65536];

	for (size_t i = 0; i < sizeof(ip); i++)
		ip[i] = (uint8_t)(i * i >> 5 ^ i);
	ip[0] = 0x45;
	for (unsigned len = 4000; len < 4300; len++)
		CU_ASSERT(agrees(ip, 20, len));
	CU_ASSERT(agrees(ip, 20, 9000));
	CU_ASSERT(agrees(ip, 20, 65535));
	ip[0] = 0x6A;
	CU_ASSERT(agrees(ip, 40, 4156));
	CU_ASSERT(agrees(ip, 40, 65535));
}

/* Payloads of up to 5,000 bytes, at each place within the bytes that a register holds. */
TEST(agrees_with_zlib_at_every_address)
{
	unsigned bad = 0;

	for (unsigned six = 0; six < 2; six++) {
		const uint32_t l3_len = six ? 40 : 20, least = l3_len + 20;

		for (uint32_t at = 0; at < 16; at++)
			for (uint32_t len = least; len <= least + 5000; len += six ? 7 : 1) {
				uint8_t *bytes = malloc(at + len + 4), *ip = bytes + at;
				const uint8_t *const l3 = ip;
				uint32_t want, icrc;

				for (uint32_t i = 0; i < len; i += 4)
					sp_store_le32(ip + i, (i + len) * 0x9E3779B1u ^ at);
				ip[0] = six ? 0x6A : 0x45;
				want = reference(ip, l3_len, len);
				sp_store_le32(ip + len, want);
				sp_icrc_run(&l3, l3_len, &len, 1, &icrc);
				bad += icrc != want;
				bad += !sp_icrc_right(ip, l3_len, len);
				bad += !six && sp_icrc_right_plain(&l3, &len, 1) != 1;
				free(bytes);
			}
	}
	CU_ASSERT_EQUAL(bad, 0);
}

TEST(takes_ip_headers_of_any_length)
{
	uint8_t ip[40 + 300 * 8 + 20 + 5];

	for (size_t i = 0; i < sizeof(ip); i++)
		ip[i] = (uint8_t)(37 * i + 1);
	for (unsigned header = 20; header <= 60; header += 4) {
		ip[0] = 0x40 | header / 4;
		CU_ASSERT(agrees(ip, header, header + 20));
		CU_ASSERT(agrees(ip, header, header + 25));
	}
	for (unsigned header = 40; header <= 40 + 300 * 8; header += 8) {
		ip[0] = 0x63;
		CU_ASSERT(agrees(ip, header, header + 20));
		CU_ASSERT(agrees(ip, header, header + 25));
	}
}

/* Bursts of any number and lengths, a few of whose packets have lost a bit: those are told, and no others. */
TEST(in_a_burst_the_wrong_ones_are_told)
{
	uint64_t x = 0x9E3779B97F4A7C15u;
	unsigned bad = 0, wrong = 0;

	for (unsigned round = 0; round < 3000; round++) {
		const unsigned n = round % 33;
		const uint8_t *l3[32];
		uint8_t *packet[32];
		uint32_t len[32], right = 0;

		for (unsigned i = 0; i < n; i++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			len[i] = x % 3 ? 40 + (uint32_t)(x >> 8) % 300 : 40 + (uint32_t)(x >> 8) % 20 * 64 + 20;
			packet[i] = malloc(len[i] + 4);
			l3[i] = packet[i];
			for (uint32_t k = 0; k < len[i]; k++)
				packet[i][k] = (uint8_t)(x >> k % 57 ^ k * 31);
			packet[i][0] = 0x45;
			sp_store_le32(packet[i] + len[i], reference(packet[i], 20, len[i]));
			if (x >> 60)
				right |= 1u << i;
			else
				packet[i][(x >> 20) % 4 + len[i]] ^= 0x10; /* the ICRC's own */
		}
		bad += sp_icrc_right_plain(l3, len, n) != right;
		wrong += (unsigned)__builtin_popcount(~right) - (32 - n);
		for (unsigned i = 0; i < n; i++)
			free(packet[i]);
	}
	CU_ASSERT_EQUAL(bad, 0);
	CU_ASSERT(wrong > 1000);
}

/* Runs of any number and lengths. */
TEST(each_packet_of_a_run_has_its_own_icrc)
{
	uint64_t x = 0x9E3779B97F4A7C15u;
	unsigned bad = 0;

	for (unsigned round = 0; round < 3000; round++) {
		const unsigned n = round % 33, l3_len = round % 7 == 3 ? 24 : round % 2 ? 40 : 20;
		const uint8_t *l3[32];
		uint8_t *packet[32];
		uint32_t len[32], icrc[33] = {0};

		icrc[n] = 0x600DF00D;
		for (unsigned i = 0; i < n; i++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			len[i] = l3_len + 20 + (uint32_t)(x >> 8) % (x % 3 ? 300 : 1300);
			packet[i] = malloc(len[i]);
			l3[i] = packet[i];
			for (uint32_t k = 0; k < len[i]; k++)
				packet[i][k] = (uint8_t)(x >> k % 57 ^ k * 31);
			packet[i][0] = l3_len == 40 ? 0x60 : 0x40 | l3_len / 4;
		}
		sp_icrc_run(l3, l3_len, len, n, icrc);
		for (unsigned i = 0; i < n; i++) {
			bad += icrc[i] != reference(packet[i], l3_len, len[i]);
			free(packet[i]);
		}
		bad += icrc[n] != 0x600DF00D;
	}
	CU_ASSERT_EQUAL(bad, 0);
}

/* All lengths of what stands before the payload, and of it; each piece a malloc of its own. */
TEST(a_packet_in_pieces_has_the_icrc_of_the_whole)
{
	unsigned bad = 0;

	for (unsigned six = 0; six < 2; six++) {
		const uint32_t l3_len = six ? 40 : 20, least = l3_len + 20;
		uint8_t ip[40 + 20 + 64 + 4100 + 3] = {0};

		for (uint32_t head = least; head <= least + 64; head += 4)
			for (uint32_t len = 0; len <= 4100; len += head % 3 || len > 700 ? 61 + len / 64 % 4 : 1) {
				uint8_t *first = malloc(head), *payload = malloc(len + !len);

				for (uint32_t i = 0; i < head + len; i++)
					ip[i] = (uint8_t)(i * i >> 3 ^ i * 11 ^ len);
				memset(ip + head + len, 0, -len & 3);
				ip[0] = six ? 0x6A : 0x45;
				memcpy(first, ip, head);
				memcpy(payload, ip + head, len);
				bad += sp_icrc_pieces(first, l3_len, head, payload, len) !=
				       reference(ip, l3_len, head + len + (-len & 3));
				free(first);
				free(payload);
			}
	}
	CU_ASSERT_EQUAL(bad, 0);
}

/* From and to each place within a register's bytes, of memory that ends with the payload and with the pad. */
TEST(a_payload_that_is_copied_along_is_there_and_has_its_icrc)
{
	unsigned bad = 0;

	for (unsigned six = 0; six < 2; six++)
		for (uint32_t len = 0; len <= 5000; len++) {
			const uint32_t l3_len = six ? 40 : 20, head = l3_len + 20 + len % 5 * 4;
			const uint32_t at = len * 7 % 16, from = len / 16 % 16, all = head + len + (-len & 3);
			uint8_t *packet = malloc(at + all), *l3 = packet + at, *payload = malloc(from + len + !len);
			uint32_t icrc;

			for (uint32_t i = 0; i < at + all; i++)
				packet[i] = (uint8_t)(i * 31 ^ i >> 3 ^ len);
			for (uint32_t i = 0; i < from + len; i++)
				payload[i] = (uint8_t)(i * i >> 3 ^ i * 11 ^ len);
			l3[0] = six ? 0x6A : 0x45;
			icrc = sp_icrc_copy(l3, l3_len, head, payload + from, len);
			bad += memcmp(l3 + head, payload + from, len) || memcmp(l3 + head + len, "\0\0", -len & 3);
			bad += icrc != reference(l3, l3_len, all);
			for (uint32_t i = 0; i < at; i++)
				bad += packet[i] != (uint8_t)(i * 31 ^ i >> 3 ^ len);
			free(packet);
			free(payload);
		}
	CU_ASSERT_EQUAL(bad, 0);
}

/* What routers and offloads change must not count; every other bit must. */
TEST(only_the_variant_fields_do_not_count)
{
	struct frame f;

	for (enum frame_ip ip = 0; ip < FRAME_IPS; ip++) {
		frame_build(&f, &(struct frame_shape){.ip = ip, .roce = true, .payload = 5, .pad = 3});
		uint8_t *l3 = f.bytes + f.l3;
		uint32_t l3_len = f.l4 - f.l3, len = f.len - 4 - f.l3, right = sp_icrc(l3, l3_len, len);

		for (uint32_t bit = 0; bit < len * 8; bit++) {
			uint32_t at = bit / 8, l4_at = at - l3_len;
			bool variant = l4_at == 6 || l4_at == 7 || l4_at == 8 + 4;

			if (at == 0 && bit % 8 >= 4)
				continue; /* the version: another mask */
			if (frame_is6(ip))
				variant |= at < 4 || at == 7;
			else
				variant |= at == 1 || at == 8 || at == 10 || at == 11;
			l3[at] ^= 1 << bit % 8;
			bool same = sp_icrc(l3, l3_len, len) == right;
			l3[at] ^= 1 << bit % 8;
			if (same != variant)
				printf("# shape %d, byte %u\n", ip, at);
			CU_ASSERT_EQUAL(same, variant);
		}
	}
}
