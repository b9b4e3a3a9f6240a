/* SPDX-License-Identifier: BSD-3-Clause */
/* The fields of parsed packets, by each way through the parser, and those that tshark sees. */
#include "../lib/parse_check.h"

/* ---- the packet's fields -------------------------------------------------------------------------------------- */
static void check_filled(const struct frame_shape *s, struct frame *f)
{
	for (int reject = 0; reject <= 1; reject++) {
		uint32_t len = f->len - reject;
		struct result a = parse_poisoned(f->bytes, len, 0x55), b = parse_poisoned(f->bytes, len, 0xAA);

		EXPECT(a.parsed, b.parsed, s, len);
		CU_ASSERT_EQUAL(a.type, b.type);
		CU_ASSERT_EQUAL(a.p.key, 0x5555555555555555);
		CU_ASSERT_EQUAL(a.p.qp_index, 0);
		CU_ASSERT_EQUAL(a.p.port, 0x5555);
		CU_ASSERT_EQUAL((uintptr_t)a.p.buf, 0x5555555555555555);
		a.p.key = b.p.key;
		a.p.port = b.p.port;
		a.p.buf = b.p.buf;
		CU_ASSERT(!memcmp(&a.p, &b.p, sizeof(a.p)));
	}
}

TEST_CALL(all_fields_but_three_are_set, parse_each_shape(check_filled))

/* A tag sends a frame by the general way: it must say what the short way for plain RoCE says. */
static void differ(const struct frame *plain, uint32_t len, unsigned *bad)
{
	struct frame tagged = *plain;

	memmove(tagged.bytes + 16, plain->bytes + 12, len - 12);
	memcpy(tagged.bytes + 12, "\x81\x00\x00\x07", 4);
	struct result a = parse_frame(plain->bytes, len), b = parse_frame(tagged.bytes, len + 4);

	b.p.l3 -= 4;
	b.p.l4 -= b.p.l4 ? 4 : 0;
	b.p.frame_len -= 4;
	b.data -= 4;
	if (memcmp(&a, &b, sizeof(a)) && (*bad)++ < 10)
		printf("# %s without, %s with a tag, %u bytes\n", parse_name_of(a.parsed), parse_name_of(b.parsed),
		       len);
}

TEST(both_ways_through_the_parser_agree)
{
	struct frame valid, f;
	unsigned bad = 0;

	for (unsigned payload = 0; payload < 10; payload++) {
		frame_build(&valid, &(struct frame_shape){.roce = true, .payload = payload, .pad = -payload & 3});
		for (uint32_t len = 14; len <= valid.len + 2; len++)
			differ(&valid, len, &bad);
		/* Every byte behind the type at every value; with the header's checksum right and wrong. */
		for (uint32_t at = 14; at < valid.data; at++)
			for (unsigned value = 0; value < 256; value++) {
				f = valid;
				f.bytes[at] = (uint8_t)value;
				differ(&f, f.len, &bad);
				if (f.bytes[14] == 0x45)
					frame_checksum4(&f);
				differ(&f, f.len, &bad);
			}
	}
	CU_ASSERT_EQUAL(bad, 0);
}

static uint64_t random64(void)
{
	static uint64_t x = 0x9E3779B97F4A7C15u;

	x ^= x << 13;
	x ^= x >> 7;
	return x ^= x << 17;
}

/* Values that lengths, versions and ports turn on. */
static uint8_t hostile_byte(const struct frame *f, uint32_t at)
{
	static const uint8_t edges[] = {0,    1,    0x0F, 0x10, 0x11, 0x20, 0x30, 0x3F,
					0x40, 0x45, 0x46, 0x4F, 0x7F, 0x80, 0xC0, 0xFF};

	switch (random64() % 4) {
	case 0:
		return edges[random64() % sizeof(edges)];
	case 1:
		return f->bytes[at] + 1;
	case 2:
		return f->bytes[at] ^ (uint8_t)(1u << random64() % 8);
	default:
		return (uint8_t)random64();
	}
}

/* What the short way takes, the layers take too, with every field the same: hostile bytes in all headers, lengths that
 * agree with each other and ones that do not, checksums right and wrong, frames cut and padded. */
TEST(the_short_way_says_what_the_layers_say)
{
	unsigned taken = 0, refused = 0, bad = 0;

	for (unsigned i = 0; i < 200000; i++) {
		struct sp_packet a, b, short_way;
		uint16_t type_a = 0, type_b = 0;
		struct frame f;

		frame_build(&f, &(struct frame_shape){.roce = true, .payload = random64() % 90, .pad = random64() % 4});
		if (random64() % 4 == 0) /* all lengths of a shorter packet */
			frame_put16(&f, f.l3 + 2, (unsigned)(random64() % (f.len - 13)));
		if (random64() % 2)
			frame_put16(&f, f.l4 + 4, (unsigned)(f.bytes[f.l3 + 2] << 8 | f.bytes[f.l3 + 3]) - 20);
		for (unsigned n = random64() % 3; n; n--) {
			const uint32_t at = (uint32_t)(12 + random64() % (f.data - 12));

			f.bytes[at] = hostile_byte(&f, at);
		}
		if (random64() % 8 && f.bytes[14] == 0x45)
			frame_checksum4(&f);
		const uint32_t len = random64() % 4 ? f.len : (uint32_t)(random64() % (f.len + 8));
		uint8_t *exact = malloc(len ? len : 1); /* ASan sees a byte read behind it */

		memset(&a, 0x55, sizeof(a));
		memset(&b, 0x55, sizeof(b));
		memset(&short_way, 0x55, sizeof(short_way));
		memcpy(exact, f.bytes, len < f.len ? len : f.len);
		if (len > f.len)
			memset(exact + f.len, 0xEE, len - f.len);
		const int whole = sp_parse(exact, len, &a, &type_a), layers = sp_parse_layers(exact, len, &b, &type_b);

		if (sp_parse_plain(exact, len, &short_way)) {
			short_way.hash = sp_plain_hash(exact);
			bad += layers != SP_PARSED_ROCE || memcmp(&short_way, &b, sizeof(b)) != 0;
			taken++;
		} else {
			refused++;
		}
		bad += whole != layers || type_a != type_b || memcmp(&a, &b, sizeof(a)) != 0;
		free(exact);
	}
	CU_ASSERT_EQUAL(bad, 0);
	CU_ASSERT(taken > 20000 && refused > 20000); /* both were met */
}

TEST(the_checksum_is_right_for_every_header)
{
	struct frame f;

	frame_build(&f, &(struct frame_shape){.roce = true});
	for (int small = 0; small <= 1; small++) {
		for (unsigned id = 0; id < 0x10000; id++) {
			frame_put16(&f, f.l3 + 4, id);
			frame_checksum4(&f);
			CU_ASSERT_EQUAL(parse_frame(f.bytes, f.len).parsed, SP_PARSED_ROCE);
			f.bytes[f.l3 + 11] ^= 1;
			CU_ASSERT_EQUAL(parse_frame(f.bytes, f.len).parsed, REJECT(BAD_IP_CHECKSUM));
		}
		/* With addresses like these there is an id with which both halves of the 32-bit sum are all ones. */
		frame_put16(&f, f.l3 + 12, 0);
		frame_put16(&f, f.l3 + 16, 0);
	}
}

TEST(the_hash_is_the_flows_and_spreads)
{
	struct frame f;

	for (enum frame_ip ip = 0; ip < FRAME_IPS; ip++) {
		frame_build(&f, &(struct frame_shape){.ip = ip, .roce = true, .payload = 8});
		uint32_t hash = parse_frame(f.bytes, f.len).p.hash, at[] = {f.l4, f.l3 + (frame_is6(ip) ? 22 : 14)};

		f.bytes[f.l4 + 8 + 11]++;		   /* PSN */
		f.bytes[f.l3 + (frame_is6(ip) ? 7 : 8)]--; /* hop limit */
		f.bytes[f.data]++;
		if (!frame_is6(ip))
			frame_checksum4(&f);
		CU_ASSERT_EQUAL(parse_frame(f.bytes, f.len).p.hash, hash);
		/* Neighbouring source ports, then neighbouring sources, fall evenly into 16 by the low and the high
		 * bits. */
		for (int field = 0; field < 2; field++) {
			unsigned low[16] = {0}, high[16] = {0};

			for (unsigned i = 0; i < 4096; i++) {
				frame_put16(&f, at[field], 0xC000 + i);
				if (!frame_is6(ip))
					frame_checksum4(&f);
				uint32_t h = parse_frame(f.bytes, f.len).p.hash;
				low[h & 15]++;
				high[h >> 28]++;
			}
			for (int i = 0; i < 16; i++) { /* 256 each; five standard deviations are 77 */
				CU_ASSERT(low[i] > 179 && low[i] < 333);
				CU_ASSERT(high[i] > 179 && high[i] < 333);
			}
		}
	}
}

/* ---- known packets: values from `tshark -T fields` ------------------------------------------------------------ */
static const struct known {
	const char *file;
	unsigned number;
	uint32_t frame_len;
	const char *source; /* last byte of the address: .1 or .2, ::1 or ::2 */
	uint16_t udp_source, udp_len;
	uint8_t opcode, pad;
	uint32_t dest_qp, psn;
} known[] = {
	{"uc_pingpong.pcap", 20, 1082, "2", 49441, 1048, SP_UC_SEND_FIRST, 0, 0x11, 10948687},
	{"uc_pingpong.pcap", 21, 1082, "2", 49441, 1048, SP_UC_SEND_MIDDLE, 0, 0x11, 10948688},
	{"uc_pingpong.pcap", 22, 1010, "2", 49441, 976, SP_UC_SEND_LAST, 0, 0x11, 10948689},
	{"uc_pingpong.pcap", 23, 1082, "1", 49441, 1048, SP_UC_SEND_FIRST, 0, 0x11, 10948687},
	{"write_ipv6.pcap", 40, 1118, "2", 49441, 1064, SP_RC_WRITE_FIRST, 0, 0x11, 803226},
	{"write_ipv6.pcap", 41, 1102, "2", 49441, 1048, SP_RC_WRITE_MIDDLE, 0, 0x11, 803227},
	{"write_ipv6.pcap", 42, 1034, "2", 49441, 980, SP_RC_WRITE_LAST, 3, 0x11, 803228},
	{"ud_pingpong.pcap", 15, 846, "1", 57236, 812, SP_UD_SEND_ONLY, 3, 0x11, 5153470},
	{"udaddy.pcap", 5, 170, "2", 57236, 136, SP_UD_SEND_ONLY_IMM, 0, 0x11, 0},
	{"rstream_imm.pcap", 6, 94, "2", 54137, 60, SP_RC_WRITE_ONLY_IMM, 0, 0x11, 10602450},
	{"rc_pingpong_odd.pcap", 14, 62, "2", 49441, 28, SP_RC_SEND_LAST, 1, 0x11, 14089670},
	{"rc_pingpong_odd.pcap", 16, 62, "1", 49441, 28, SP_RC_ACKNOWLEDGE, 0, 0x11, 14089670},
	{"rping.pcap", 3, 322, "2", 55410, 288, SP_UD_SEND_ONLY, 0, 1, 0},
};

static unsigned known_seen;

static void check_known(const char *file, unsigned number, uint8_t *bytes, uint32_t len, void *arg)
{
	for (const struct known *k = known; k < known + sizeof(known) / sizeof(*known); k++) {
		struct sp_packet p;
		uint16_t type;

		if (strcmp(k->file, file) || k->number != number)
			continue;
		bool ip6 = !strcmp(file, "write_ipv6.pcap");
		CU_ASSERT_EQUAL(sp_parse(bytes, len, &p, &type), SP_PARSED_ROCE);
		CU_ASSERT_EQUAL(type, ip6 ? 0x86DD : 0x0800);
		CU_ASSERT_EQUAL(p.frame_len, k->frame_len);
		CU_ASSERT_EQUAL(sp_packet_source(&p)[ip6 ? 15 : 3], *k->source - '0');
		CU_ASSERT_EQUAL(sp_packet_destination(&p)[ip6 ? 15 : 3], 3 - (*k->source - '0'));
		CU_ASSERT_EQUAL(sp_load_be16(p.frame + p.l4), k->udp_source);
		CU_ASSERT_EQUAL(p.data - p.frame, k->frame_len - k->udp_len + 8 + 12);
		CU_ASSERT_EQUAL(p.len, k->udp_len - 8u - 12 - k->pad - 4);
		CU_ASSERT_EQUAL(p.opcode, k->opcode);
		CU_ASSERT_EQUAL(p.dest_qp, k->dest_qp);
		CU_ASSERT_EQUAL(p.psn, k->psn);
		CU_ASSERT_EQUAL(p.flags, SP_PKT_ROCE | SP_PKT_UDP | (ip6 ? SP_PKT_IPV6 : 0));
		known_seen++;
	}
}

TEST_OF_CAPTURES(captured_packets_have_the_fields_that_tshark_sees)
{
	for (const struct known *k = known; k < known + sizeof(known) / sizeof(*known); k++)
		if (k == known || strcmp(k->file, k[-1].file))
			CU_ASSERT(captures_each(k->file, check_known, NULL));
	CU_ASSERT_EQUAL(known_seen, sizeof(known) / sizeof(*known));
}
