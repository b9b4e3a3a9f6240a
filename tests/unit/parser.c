/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parser takes, what it refuses and by which name, and that it reads nothing behind the frame's end. */
#include "../lib/parse_check.h"

static void check_whole(const struct frame_shape *s, struct frame *f)
{
	struct result r = parse_frame(f->bytes, f->len);

	EXPECT(r.parsed, s->roce ? SP_PARSED_ROCE : SP_PARSED_UDP, s, f->len);
	CU_ASSERT_EQUAL(r.type, frame_is6(s->ip) ? 0x86DD : 0x0800);
	CU_ASSERT_EQUAL(r.data, f->data);
	CU_ASSERT_EQUAL(r.p.len, PAYLOAD);
	CU_ASSERT_EQUAL(r.p.verdict, SP_DONE);
	CU_ASSERT_EQUAL(r.p.frame_len, f->len);
	CU_ASSERT_EQUAL(r.p.l3, f->l3);
	CU_ASSERT_EQUAL(r.p.l4, f->l4);
	CU_ASSERT_EQUAL(r.p.flags,
			(s->roce ? SP_PKT_ROCE | SP_PKT_SE : 0) | SP_PKT_UDP | (frame_is6(s->ip) ? SP_PKT_IPV6 : 0));
	CU_ASSERT_EQUAL(r.p.opcode, s->roce ? 0x2B : 0);
	CU_ASSERT_EQUAL(r.p.dest_qp, s->roce ? 0x123456 : 0);
	CU_ASSERT_EQUAL(r.p.psn, s->roce ? 0xABCDEF : 0);
	r.p.frame = f->bytes;
	CU_ASSERT_PTR_EQUAL(sp_packet_source(&r.p), f->bytes + f->l3 + (frame_is6(s->ip) ? 8 : 12));
	CU_ASSERT_PTR_EQUAL(sp_packet_destination(&r.p), f->bytes + f->l3 + (frame_is6(s->ip) ? 24 : 16));
}

TEST_CALL(every_shape_is_decoded, parse_each_shape(check_whole))

/* The frame ends early, all lengths in it stay what they were. */
static void check_cut_frame(const struct frame_shape *s, struct frame *f)
{
	uint32_t ip_header = frame_is6(s->ip) ? 40 : f->l4 - f->l3;

	for (uint32_t len = 0; len < f->len; len++) {
		int want = len < f->l3		     ? REJECT(SHORT_ETHERNET)
			   : len < f->l3 + ip_header ? REJECT(SHORT_IP)
						     : REJECT(BAD_IP_LENGTH);
		EXPECT(parse_frame(f->bytes, len).parsed, want, s, len);
	}
}

TEST_CALL(a_frame_cut_anywhere_is_refused_by_name, parse_each_shape(check_cut_frame))

/* The frame ends early and the IP header says so; the layers above do not. */
static void check_cut_ip(const struct frame_shape *s, struct frame *f)
{
	uint32_t from = s->ip == FRAME_IP6_EXTENSIONS ? f->l3 + 40 : f->l4;

	for (uint32_t len = from; len < f->len; len++) {
		int want = len < f->l4	     ? REJECT(BAD_IP_LENGTH)
			   : len < f->l4 + 8 ? REJECT(SHORT_UDP)
					     : REJECT(BAD_UDP_LENGTH);
		frame_ip_length(f, len - f->l3);
		EXPECT(parse_frame(f->bytes, len).parsed, want, s, len);
		/* The same with the rest of the frame still there, as padding. */
		EXPECT(parse_frame(f->bytes, f->len).parsed, want, s, f->len);
	}
}

TEST_CALL(an_ip_packet_cut_anywhere_is_refused_by_name, parse_each_shape(check_cut_ip))

/* Everything up to UDP agrees on the cut: only BTH, pad and ICRC can tell. */
static void check_cut_udp(const struct frame_shape *s, struct frame *f)
{
	uint32_t whole = f->len;

	for (uint32_t len = f->l4 + 8; len < whole; len++) {
		uint32_t above = len - f->l4 - 8;

		frame_put16(f, f->l4 + 4, 8 + above);
		frame_ip_length(f, len - f->l3);
		for (int padded = 0; padded <= 1; padded++) {
			struct result r = parse_frame(f->bytes, padded ? whole : len);

			if (!s->roce) {
				EXPECT(r.parsed, SP_PARSED_UDP, s, len);
				CU_ASSERT_EQUAL(r.p.len, above);
			} else if (above < 12 + 4) {
				EXPECT(r.parsed, REJECT(SHORT_BTH), s, len);
			} else if (above < 12 + PAD + 4) {
				EXPECT(r.parsed, REJECT(BAD_PAD), s, len);
			} else {
				EXPECT(r.parsed, SP_PARSED_ROCE, s, len);
				CU_ASSERT_EQUAL(r.p.len, above - 12 - PAD - 4);
				CU_ASSERT_EQUAL(r.data, f->data);
			}
		}
	}
}

TEST_CALL(a_udp_datagram_cut_anywhere_is_refused_or_smaller, parse_each_shape(check_cut_udp))

/* ---- one lie at a time ---------------------------------------------------------------------------------------- */
static bool provoked[SP_DROP_COUNT];

static void lie_(unsigned line, const struct frame_shape *s, const struct frame *f, uint32_t len, int want)
{
	int got = parse_frame(f->bytes, len).parsed;

	parse_expect_(line, got, want, s, len);
	if (got < 0 && got == want)
		provoked[-1 - got] = true;
}

#define LIE(want) lie_(__LINE__, s, &f, f.len, want)

static void check_lies4(const struct frame_shape *s, struct frame *valid)
{
	struct frame f = *valid;
	uint32_t header = f.l4 - f.l3, total = f.len - f.l3;

	for (unsigned words = 0; words < 5; words++, f = *valid) {
		f.bytes[f.l3] = 0x40 | words;
		LIE(REJECT(BAD_IP_HEADER));
	}
	for (unsigned version = 0; version < 16; version++, f = *valid) {
		if (version == 4)
			continue;
		f.bytes[f.l3] = (uint8_t)(version << 4 | header / 4);
		LIE(REJECT(BAD_IP_HEADER));
	}
	/* A header of 60 bytes: one byte longer than the frame, then than the packet in it. */
	f.bytes[f.l3] = 0x4F;
	lie_(__LINE__, s, &f, f.l3 + 59, REJECT(SHORT_IP));
	frame_put16(&f, f.l3 + 2, 59);
	frame_checksum4(&f);
	lie_(__LINE__, s, &f, f.l3 + 64, REJECT(BAD_IP_LENGTH));
	f = *valid;
	for (uint32_t at = 1; at < header; at++, f = *valid) {
		f.bytes[f.l3 + at] ^= 0x10;
		LIE(REJECT(BAD_IP_CHECKSUM));
	}
	uint32_t lies[] = {0, 1, 19, header - 1, total + 1, total + 4, 0x7FFF, 0xFFFF};
	for (size_t i = 0; i < sizeof(lies) / sizeof(*lies); i++, f = *valid) {
		frame_put16(&f, f.l3 + 2, lies[i]);
		frame_checksum4(&f);
		LIE(REJECT(BAD_IP_LENGTH));
	}
}

static void check_lies6(const struct frame_shape *s, struct frame *valid)
{
	struct frame f = *valid;
	uint32_t payload = f.len - f.l3 - 40;

	for (unsigned version = 0; version < 16; version++, f = *valid) {
		if (version == 6)
			continue;
		f.bytes[f.l3] = (uint8_t)(version << 4);
		LIE(REJECT(BAD_IP_HEADER));
	}
	uint32_t lies[] = {payload + 1, payload + 4, 0x7FFF, 0xFFFF};
	for (size_t i = 0; i < sizeof(lies) / sizeof(*lies); i++, f = *valid) {
		frame_put16(&f, f.l3 + 4, lies[i]);
		LIE(REJECT(BAD_IP_LENGTH));
	}
	/* The NIC keeps a.b.c.d as ::ffff:a.b.c.d: from a wire it must not come. Its neighbours may. */
	for (uint32_t at = f.l3 + 8; at <= f.l3 + 24; at += 16, f = *valid) {
		memset(f.bytes + at, 0, 10);
		memset(f.bytes + at + 10, 0xFF, 2);
		LIE(REJECT(MAPPED_ADDRESS));
		for (uint32_t i = 0; i < 12; i++) {
			f.bytes[at + i] ^= 1;
			LIE(s->roce ? SP_PARSED_ROCE : SP_PARSED_UDP);
			f.bytes[at + i] ^= 1;
		}
	}
	if (s->ip != FRAME_IP6_EXTENSIONS)
		return;
	for (uint32_t at = f.l3 + 40; at < f.l4; at += (f.bytes[at + 1] + 1u) * 8) {
		f.bytes[at + 1] = (uint8_t)((f.len - at + 7) / 8); /* the next multiple of 8 and one more */
		LIE(REJECT(BAD_IP_LENGTH));
		f.bytes[at + 1] = 0xFF;
		LIE(REJECT(BAD_IP_LENGTH));
		f = *valid;
	}
}

static void check_lies(const struct frame_shape *s, struct frame *valid)
{
	struct frame f = *valid;
	uint32_t udp_len = f.len - f.l4;

	(frame_is6(s->ip) ? check_lies6 : check_lies4)(s, valid);
	lie_(__LINE__, s, &f, 13, REJECT(SHORT_ETHERNET));
	lie_(__LINE__, s, &f, f.l3 + 19, REJECT(SHORT_IP));
	uint32_t lies[] = {0, 1, 7, udp_len + 1, udp_len + 8, 0x7FFF, 0xFFFF};
	for (size_t i = 0; i < sizeof(lies) / sizeof(*lies); i++, f = *valid) {
		frame_put16(&f, f.l4 + 4, lies[i]);
		LIE(REJECT(BAD_UDP_LENGTH));
	}
	for (uint32_t shorter = 8; shorter < udp_len; shorter++, f = *valid) {
		frame_put16(&f, f.l4 + 4, shorter);
		LIE(s->roce ? REJECT(BAD_UDP_LENGTH) : SP_PARSED_UDP);
		CU_ASSERT(s->roce || parse_frame(f.bytes, f.len).p.len == shorter - 8);
	}
	frame_ip_length(&f, f.l4 - f.l3 + 7);
	LIE(REJECT(SHORT_UDP));
	f = *valid;
	if (!s->roce)
		return;
	for (unsigned version = 1; version < 16; version++, f = *valid) {
		f.bytes[f.l4 + 9] |= version;
		LIE(REJECT(BAD_BTH));
	}
	frame_put16(&f, f.l4 + 4, 8 + 15);
	frame_ip_length(&f, f.l4 - f.l3 + 8 + 15);
	LIE(REJECT(SHORT_BTH));
	/* As many bytes as pad says are there, or one less. */
	for (uint32_t pad = 1; pad <= 3; pad++)
		for (uint32_t less = 0; less <= 1; less++) {
			f = *valid;
			f.bytes[f.l4 + 9] = (uint8_t)(pad << 4);
			frame_put16(&f, f.l4 + 4, 8 + 12 + pad - less + 4);
			frame_ip_length(&f, f.l4 - f.l3 + 8 + 12 + pad - less + 4);
			LIE(less ? REJECT(BAD_PAD) : SP_PARSED_ROCE);
			CU_ASSERT(less || parse_frame(f.bytes, f.len).p.len == 0);
		}
}

TEST(each_lying_length_has_its_own_name)
{
	parse_each_shape(check_lies);
	for (int reason = SP_DROP_SHORT_ETHERNET; reason <= SP_DROP_BAD_PAD; reason++) {
		if (!provoked[reason])
			printf("# never provoked: %s\n", sp_drop_names[reason]);
		CU_ASSERT(provoked[reason]);
	}
}

TEST(drop_reasons_have_distinct_names)
{
	for (int i = 0; i < SP_DROP_COUNT; i++) {
		CU_ASSERT_PTR_NOT_NULL_FATAL(sp_drop_names[i]);
		for (int j = 0; j < i; j++)
			CU_ASSERT_STRING_NOT_EQUAL(sp_drop_names[i], sp_drop_names[j]);
	}
}

/* ---- what is not UDP ------------------------------------------------------------------------------------------ */
TEST(fragments_are_ip_and_no_more)
{
	static const uint16_t fragment[] = {0x2000, 0x2001, 0x0001, 0x1FFF, 0x6000};
	struct frame f;

	for (int roce = 0; roce <= 1; roce++) {
		for (size_t i = 0; i < sizeof(fragment) / sizeof(*fragment); i++) {
			frame_build(&f, &(struct frame_shape){.ip = FRAME_IP4, .roce = roce, .payload = 20});
			frame_put16(&f, f.l3 + 6, fragment[i]);
			frame_checksum4(&f);
			struct result r = parse_frame(f.bytes, f.len);
			EXPECT(r.parsed, SP_PARSED_IP, NULL, f.len);
			CU_ASSERT_EQUAL(r.data, f.l4);
			CU_ASSERT_EQUAL(r.p.len, f.len - f.l4);
			CU_ASSERT_EQUAL(r.p.flags, 0);
			CU_ASSERT_EQUAL(r.p.l4, 0); /* what is there is no header */
		}
		/* Do-not-fragment and the reserved bit are no fragment. */
		frame_put16(&f, f.l3 + 6, 0xC000);
		frame_checksum4(&f);
		EXPECT(parse_frame(f.bytes, f.len).parsed, roce ? SP_PARSED_ROCE : SP_PARSED_UDP, NULL, f.len);

		frame_build(&f, &(struct frame_shape){.ip = FRAME_IP6_EXTENSIONS, .roce = roce, .payload = 20});
		f.bytes[f.l3 + 48] = 44; /* behind routing, in place of the destination options */
		struct result r = parse_frame(f.bytes, f.len);
		EXPECT(r.parsed, SP_PARSED_IP, NULL, f.len);
		CU_ASSERT_EQUAL(r.data, f.l3 + 56);
		CU_ASSERT_EQUAL(r.p.len, f.len - f.l3 - 56);
		CU_ASSERT_EQUAL(r.p.flags, SP_PKT_IPV6);
		CU_ASSERT_EQUAL(r.p.l4, 0);
	}
}

/* Whether it hides RoCE, whatever is cut off behind; the parser must find no UDP header. */
static bool hides(const struct frame *f, uint32_t len)
{
	struct sp_packet p;
	uint8_t copy[sizeof(f->bytes)];
	uint16_t type;

	memcpy(copy, f->bytes, len);
	CU_ASSERT_EQUAL(sp_parse(copy, len, &p, &type), SP_PARSED_IP);
	CU_ASSERT_EQUAL(p.l4, 0);
	return sp_parse_hidden_roce(&p);
}

TEST(roce_in_a_first_fragment_or_behind_many_headers_is_found)
{
	struct frame f;

	for (int roce = 0; roce <= 1; roce++) {
		frame_build(&f, &(struct frame_shape){.ip = FRAME_IP4, .roce = roce, .payload = 20});
		frame_put16(&f, f.l3 + 6, 0x2000); /* the first of some */
		frame_checksum4(&f);
		CU_ASSERT_EQUAL(hides(&f, f.len), roce);
		frame_put16(&f, f.l3 + 6, 0x2001);
		frame_checksum4(&f);
		CU_ASSERT_FALSE(hides(&f, f.len));
		frame_put16(&f, f.l3 + 6, 0x2000);
		f.bytes[f.l3 + 9] = 6;
		frame_checksum4(&f);
		CU_ASSERT_FALSE(hides(&f, f.len));

		frame_build(&f, &(struct frame_shape){.ip = FRAME_IP6, .roce = roce, .payload = 20});
		memmove(f.bytes + 62, f.bytes + 54, f.len - 54);
		memcpy(f.bytes + 54, (uint8_t[8]){17, 0, 0, 0, 0, 0, 0, 9},
		       8); /* a fragment that is the whole packet */
		f.bytes[f.l3 + 6] = 44;
		frame_put16(&f, f.l3 + 4, f.len - 46);
		f.len += 8;
		CU_ASSERT_EQUAL(hides(&f, f.len), roce);
		frame_put16(&f, 56, 8); /* the second piece */
		CU_ASSERT_FALSE(hides(&f, f.len));
		frame_put16(&f, 56, 7); /* more follow, and what is reserved */
		CU_ASSERT_EQUAL(hides(&f, f.len), roce);
	}
	for (unsigned headers = 9; headers < 90; headers += 9) { /* of 8 bytes each, destination options */
		uint8_t *ip = f.bytes + 14;

		frame_build(&f, &(struct frame_shape){.ip = FRAME_IP6, .roce = true, .payload = 20});
		memmove(ip + 40 + 8 * headers, ip + 40, f.len - 54);
		for (unsigned i = 0; i < headers; i++)
			memcpy(ip + 40 + 8 * i, (uint8_t[8]){i + 1 < headers ? 60 : 17, 0, 1, 4}, 8);
		ip[6] = 60;
		frame_put16(&f, f.l3 + 4, (uint16_t)(f.len - 54 + 8 * headers));
		CU_ASSERT_TRUE(hides(&f, f.len + 8 * headers)); /* more than anybody looks through: taken for RoCE */
		ip[40 + 8 * headers + 2] = 0;			/* another port */
		CU_ASSERT_EQUAL(hides(&f, f.len + 8 * headers), headers >= 64);
	}
}

TEST(other_protocols_are_ip)
{
	struct frame f;

	for (enum frame_ip ip = 0; ip < FRAME_IPS; ip++) {
		static const uint8_t protocol[] = {1, 6, 50, 51, 58, 59, 132, 255};

		for (size_t i = 0; i < sizeof(protocol); i++) {
			frame_build(&f, &(struct frame_shape){.ip = ip, .roce = true});
			if (ip == FRAME_IP6_EXTENSIONS)
				f.bytes[f.l4 - 16] = protocol[i];
			else
				f.bytes[f.l3 + (ip == FRAME_IP6 ? 6 : 9)] = protocol[i];
			if (!frame_is6(ip))
				frame_checksum4(&f);
			struct result r = parse_frame(f.bytes, f.len);
			EXPECT(r.parsed, SP_PARSED_IP, NULL, f.len);
			CU_ASSERT_EQUAL(r.data, f.l4);
			CU_ASSERT_EQUAL(r.p.l4, f.l4);
			CU_ASSERT_EQUAL(r.p.len, f.len - f.l4);
			CU_ASSERT_EQUAL(r.p.flags, frame_is6(ip) ? SP_PKT_IPV6 : 0);
		}
	}
}

/* n destination option headers of `units` * 8 bytes before UDP. */
static uint32_t chain6(struct frame *f, unsigned n, unsigned units)
{
	struct frame plain;

	frame_build(&plain, &(struct frame_shape){.ip = FRAME_IP6, .roce = true, .payload = 4});
	*f = plain;
	f->len = f->l4;
	f->bytes[f->l3 + 6] = n ? 60 : 17;
	for (unsigned i = 0; i < n; i++) {
		memset(f->bytes + f->len, 0, units * 8);
		f->bytes[f->len] = i + 1 < n ? 60 : 17;
		f->bytes[f->len + 1] = (uint8_t)(units - 1);
		f->len += units * 8;
	}
	uint32_t rest = plain.len - plain.l4;
	memcpy(f->bytes + f->len, plain.bytes + plain.l4, rest);
	f->len += rest;
	frame_ip_length(f, f->len - f->l3);
	return f->len - rest;
}

TEST(ipv6_header_chains_are_bounded)
{
	struct frame f;

	for (unsigned n = 0; n <= 20; n++) {
		uint32_t l4 = chain6(&f, n, 1);
		struct result r = parse_frame(f.bytes, f.len);

		EXPECT(r.parsed, n <= 8 ? SP_PARSED_ROCE : SP_PARSED_IP, NULL, f.len);
		CU_ASSERT_EQUAL(r.p.l4, n <= 8 ? l4 : 0);
	}
	/* l4 has 8 bits: 22 + 40 + 24 * 8 = 254 fits. Without tags there would be room for more, and it ends there too.
	 */
	for (unsigned tags = 0; tags <= 2; tags++)
		for (unsigned units = 20; units <= 100; units++) {
			uint32_t l4 = chain6(&f, 1, units);

			memmove(f.bytes + 12 + 4 * tags, f.bytes + 12, f.len - 12);
			for (unsigned i = 0; i < tags; i++)
				memcpy(f.bytes + 12 + 4 * i, "\x81\x00\x00\x01", 4);
			f.len += 4 * tags;
			l4 += 4 * tags;
			struct result r = parse_frame(f.bytes, f.len);
			EXPECT(r.parsed, units <= 24 ? SP_PARSED_ROCE : SP_PARSED_IP, NULL, f.len);
			CU_ASSERT_EQUAL(r.p.l4, units <= 24 ? l4 : 0);
			CU_ASSERT_EQUAL(r.data, units <= 24 ? l4 + 20 : 54 + 4 * tags);
		}
}

TEST(other_ethertypes_are_left_alone)
{
	static const uint16_t types[] = {0x0806, 0x0042, 0x8847, 0x9100, 0xFFFF};
	struct frame f;

	for (unsigned tags = 0; tags <= 2; tags++)
		for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
			frame_build(&f, &(struct frame_shape){.tags = tags, .roce = true});
			frame_put16(&f, f.l3 - 2, types[i]);
			struct result r = parse_frame(f.bytes, f.len);
			EXPECT(r.parsed, SP_PARSED_OTHER, NULL, f.len);
			CU_ASSERT_EQUAL(r.type, types[i]);
			CU_ASSERT_EQUAL(r.data, f.l3);
			CU_ASSERT_EQUAL(r.p.l3, f.l3);
			CU_ASSERT_EQUAL(r.p.l4, 0);
			CU_ASSERT_EQUAL(r.p.len, f.len - f.l3);
			CU_ASSERT_EQUAL(r.p.flags, 0);
		}
	EXPECT(parse_frame(f.bytes, f.l3).parsed, SP_PARSED_OTHER, NULL, f.l3); /* nothing behind the type */
}

TEST(a_third_vlan_tag_is_not_looked_behind)
{
	struct frame f;

	frame_build(&f, &(struct frame_shape){.tags = 2, .roce = true});
	frame_put16(&f, f.l3 - 2, 0x8100);
	struct result r = parse_frame(f.bytes, f.len);
	EXPECT(r.parsed, SP_PARSED_OTHER, NULL, f.len);
	CU_ASSERT_EQUAL(r.type, 0x8100);
	CU_ASSERT_EQUAL(r.data, 22);
}

static void check_padded(const struct frame_shape *s, struct frame *f)
{
	for (uint32_t more = 1; more <= 64; more++) {
		memset(f->bytes + f->len, 0xEE, more);
		struct result r = parse_frame(f->bytes, f->len + more);
		EXPECT(r.parsed, s->roce ? SP_PARSED_ROCE : SP_PARSED_UDP, s, f->len + more);
		CU_ASSERT_EQUAL(r.p.len, PAYLOAD);
		CU_ASSERT_EQUAL(r.data, f->data);
		CU_ASSERT_EQUAL(r.p.frame_len, f->len + more);
	}
}

TEST_CALL(ethernet_padding_is_no_payload, parse_each_shape(check_padded))
