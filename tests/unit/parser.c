/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parser takes, what it refuses and by which name, and that it reads nothing behind the frame's end. */
#include "../lib/suite.h"

#include "../lib/captures.h"
#include "../lib/frame.h"
#include "../../handlers/wire/roce.h"
#include "../../pipeline/parser.h"
#include "../../pipeline/parser_plain.h"

#define REJECT(reason) (-1 - SP_DROP_##reason)

struct result {
	int parsed;
	uint16_t type;
	struct sp_packet p;
	uint32_t data; /* offset */
};

/* Parses a malloc of exactly len bytes: under ASan a read beyond is an error. Fields start as `poison`. */
static struct result parse_poisoned(const uint8_t *bytes, uint32_t len, uint8_t poison)
{
	struct result r;
	uint8_t *exact = malloc(len ? len : 1), *frame = len ? exact : exact + 1;

	memset(&r, poison, sizeof(r));
	memcpy(frame, bytes, len);
	r.parsed = sp_parse(frame, len, &r.p, &r.type);
	CU_ASSERT_PTR_EQUAL(r.p.frame, frame);
	CU_ASSERT(!memcmp(frame, bytes, len));
	r.data = (uint32_t)(r.p.data - frame);
	if (r.parsed >= 0) {
		CU_ASSERT(r.data <= len && r.p.len <= len - r.data);
		CU_ASSERT(r.p.l3 <= r.data && r.p.l4 <= r.data && r.p.l3 >= 14);
	}
	r.p.frame = r.p.data = NULL;
	free(exact);
	return r;
}

static struct result parse(const uint8_t *bytes, uint32_t len)
{
	return parse_poisoned(bytes, len, 0x55);
}

static const char *name_of(int parsed)
{
	static const char *const accepted[] = {"other", "ip", "udp", "roce"};

	return parsed >= 0 ? accepted[parsed] : -1 - parsed < SP_DROP_COUNT ? sp_drop_names[-1 - parsed] : "nonsense";
}

static void expect_(unsigned line, int got, int want, const struct frame_shape *s, uint32_t len)
{
	if (got != want)
		printf("# line %u: %s, want %s (tags %u, ip %d, roce %d, %u bytes)\n", line, name_of(got),
		       name_of(want), s ? s->tags : 0, s ? s->ip : 0, s ? s->roce : 0, len);
	CU_ASSERT_EQUAL(got, want);
}
#define EXPECT(got, want, shape, len) expect_(__LINE__, got, want, shape, len)

#define PAYLOAD 9
#define PAD	3

static void each_shape(void (*check)(const struct frame_shape *, struct frame *))
{
	struct frame f;

	for (unsigned tags = 0; tags <= 2; tags++)
		for (enum frame_ip ip = 0; ip < FRAME_IPS; ip++)
			for (int roce = 0; roce <= 1; roce++) {
				struct frame_shape s = {tags, ip, roce, PAYLOAD, roce ? PAD : 0};

				frame_build(&f, &s);
				check(&s, &f);
			}
}

static void check_whole(const struct frame_shape *s, struct frame *f)
{
	struct result r = parse(f->bytes, f->len);

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

TEST(every_shape_is_decoded)
{
	each_shape(check_whole);
}

/* The frame ends early, all lengths in it stay what they were. */
static void check_cut_frame(const struct frame_shape *s, struct frame *f)
{
	uint32_t ip_header = frame_is6(s->ip) ? 40 : f->l4 - f->l3;

	for (uint32_t len = 0; len < f->len; len++) {
		int want = len < f->l3		     ? REJECT(SHORT_ETHERNET)
			   : len < f->l3 + ip_header ? REJECT(SHORT_IP)
						     : REJECT(BAD_IP_LENGTH);
		EXPECT(parse(f->bytes, len).parsed, want, s, len);
	}
}

TEST(a_frame_cut_anywhere_is_refused_by_name)
{
	each_shape(check_cut_frame);
}

/* The frame ends early and the IP header says so; the layers above do not. */
static void check_cut_ip(const struct frame_shape *s, struct frame *f)
{
	uint32_t from = s->ip == FRAME_IP6_EXTENSIONS ? f->l3 + 40 : f->l4;

	for (uint32_t len = from; len < f->len; len++) {
		int want = len < f->l4	     ? REJECT(BAD_IP_LENGTH)
			   : len < f->l4 + 8 ? REJECT(SHORT_UDP)
					     : REJECT(BAD_UDP_LENGTH);
		frame_ip_length(f, len - f->l3);
		EXPECT(parse(f->bytes, len).parsed, want, s, len);
		/* The same with the rest of the frame still there, as padding. */
		EXPECT(parse(f->bytes, f->len).parsed, want, s, f->len);
	}
}

TEST(an_ip_packet_cut_anywhere_is_refused_by_name)
{
	each_shape(check_cut_ip);
}

/* Everything up to UDP agrees on the cut: only BTH, pad and ICRC can tell. */
static void check_cut_udp(const struct frame_shape *s, struct frame *f)
{
	uint32_t whole = f->len;

	for (uint32_t len = f->l4 + 8; len < whole; len++) {
		uint32_t above = len - f->l4 - 8;

		frame_put16(f, f->l4 + 4, 8 + above);
		frame_ip_length(f, len - f->l3);
		for (int padded = 0; padded <= 1; padded++) {
			struct result r = parse(f->bytes, padded ? whole : len);

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

TEST(a_udp_datagram_cut_anywhere_is_refused_or_smaller)
{
	each_shape(check_cut_udp);
}

/* ---- one lie at a time ---------------------------------------------------------------------------------------- */
static bool provoked[SP_DROP_COUNT];

static void lie_(unsigned line, const struct frame_shape *s, const struct frame *f, uint32_t len, int want)
{
	int got = parse(f->bytes, len).parsed;

	expect_(line, got, want, s, len);
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
		CU_ASSERT(s->roce || parse(f.bytes, f.len).p.len == shorter - 8);
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
			CU_ASSERT(less || parse(f.bytes, f.len).p.len == 0);
		}
}

TEST(each_lying_length_has_its_own_name)
{
	each_shape(check_lies);
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
			struct result r = parse(f.bytes, f.len);
			EXPECT(r.parsed, SP_PARSED_IP, NULL, f.len);
			CU_ASSERT_EQUAL(r.data, f.l4);
			CU_ASSERT_EQUAL(r.p.len, f.len - f.l4);
			CU_ASSERT_EQUAL(r.p.flags, 0);
			CU_ASSERT_EQUAL(r.p.l4, 0); /* what is there is no header */
		}
		/* Do-not-fragment and the reserved bit are no fragment. */
		frame_put16(&f, f.l3 + 6, 0xC000);
		frame_checksum4(&f);
		EXPECT(parse(f.bytes, f.len).parsed, roce ? SP_PARSED_ROCE : SP_PARSED_UDP, NULL, f.len);

		frame_build(&f, &(struct frame_shape){.ip = FRAME_IP6_EXTENSIONS, .roce = roce, .payload = 20});
		f.bytes[f.l3 + 48] = 44; /* behind routing, in place of the destination options */
		struct result r = parse(f.bytes, f.len);
		EXPECT(r.parsed, SP_PARSED_IP, NULL, f.len);
		CU_ASSERT_EQUAL(r.data, f.l3 + 56);
		CU_ASSERT_EQUAL(r.p.len, f.len - f.l3 - 56);
		CU_ASSERT_EQUAL(r.p.flags, SP_PKT_IPV6);
		CU_ASSERT_EQUAL(r.p.l4, 0);
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
			struct result r = parse(f.bytes, f.len);
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
	uint32_t rest;

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
	rest = plain.len - plain.l4;
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
		struct result r = parse(f.bytes, f.len);

		EXPECT(r.parsed, n <= 8 ? SP_PARSED_ROCE : SP_PARSED_IP, NULL, f.len);
		CU_ASSERT_EQUAL(r.p.l4, n <= 8 ? l4 : 0);
	}
	/* l4 has 8 bits: 22 + 40 + 24 * 8 = 254 fits. Without tags there would be room for more, and it ends there too.
	 */
	for (unsigned tags = 0; tags <= 2; tags++)
		for (unsigned units = 20; units <= 100; units++) {
			uint32_t l4 = chain6(&f, 1, units);
			struct result r;

			memmove(f.bytes + 12 + 4 * tags, f.bytes + 12, f.len - 12);
			for (unsigned i = 0; i < tags; i++)
				memcpy(f.bytes + 12 + 4 * i, "\x81\x00\x00\x01", 4);
			f.len += 4 * tags;
			l4 += 4 * tags;
			r = parse(f.bytes, f.len);
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
			struct result r = parse(f.bytes, f.len);
			EXPECT(r.parsed, SP_PARSED_OTHER, NULL, f.len);
			CU_ASSERT_EQUAL(r.type, types[i]);
			CU_ASSERT_EQUAL(r.data, f.l3);
			CU_ASSERT_EQUAL(r.p.l3, f.l3);
			CU_ASSERT_EQUAL(r.p.l4, 0);
			CU_ASSERT_EQUAL(r.p.len, f.len - f.l3);
			CU_ASSERT_EQUAL(r.p.flags, 0);
		}
	EXPECT(parse(f.bytes, f.l3).parsed, SP_PARSED_OTHER, NULL, f.l3); /* nothing behind the type */
}

TEST(a_third_vlan_tag_is_not_looked_behind)
{
	struct frame f;

	frame_build(&f, &(struct frame_shape){.tags = 2, .roce = true});
	frame_put16(&f, f.l3 - 2, 0x8100);
	struct result r = parse(f.bytes, f.len);
	EXPECT(r.parsed, SP_PARSED_OTHER, NULL, f.len);
	CU_ASSERT_EQUAL(r.type, 0x8100);
	CU_ASSERT_EQUAL(r.data, 22);
}

static void check_padded(const struct frame_shape *s, struct frame *f)
{
	for (uint32_t more = 1; more <= 64; more++) {
		memset(f->bytes + f->len, 0xEE, more);
		struct result r = parse(f->bytes, f->len + more);
		EXPECT(r.parsed, s->roce ? SP_PARSED_ROCE : SP_PARSED_UDP, s, f->len + more);
		CU_ASSERT_EQUAL(r.p.len, PAYLOAD);
		CU_ASSERT_EQUAL(r.data, f->data);
		CU_ASSERT_EQUAL(r.p.frame_len, f->len + more);
	}
}

TEST(ethernet_padding_is_no_payload)
{
	each_shape(check_padded);
}

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

TEST(all_fields_but_three_are_set)
{
	each_shape(check_filled);
}

/* A tag sends a frame by the general way: it must say what the short way for plain RoCE says. */
static void differ(const struct frame *plain, uint32_t len, unsigned *bad)
{
	struct frame tagged = *plain;

	memmove(tagged.bytes + 16, plain->bytes + 12, len - 12);
	memcpy(tagged.bytes + 12, "\x81\x00\x00\x07", 4);
	struct result a = parse(plain->bytes, len), b = parse(tagged.bytes, len + 4);

	b.p.l3 -= 4;
	b.p.l4 -= b.p.l4 ? 4 : 0;
	b.p.frame_len -= 4;
	b.data -= 4;
	if (memcmp(&a, &b, sizeof(a)) && (*bad)++ < 10)
		printf("# %s without, %s with a tag, %u bytes\n", name_of(a.parsed), name_of(b.parsed), len);
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
			CU_ASSERT_EQUAL(parse(f.bytes, f.len).parsed, SP_PARSED_ROCE);
			f.bytes[f.l3 + 11] ^= 1;
			CU_ASSERT_EQUAL(parse(f.bytes, f.len).parsed, REJECT(BAD_IP_CHECKSUM));
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
		uint32_t hash = parse(f.bytes, f.len).p.hash, at[] = {f.l4, f.l3 + (frame_is6(ip) ? 22 : 14)};

		f.bytes[f.l4 + 8 + 11]++;		   /* PSN */
		f.bytes[f.l3 + (frame_is6(ip) ? 7 : 8)]--; /* hop limit */
		f.bytes[f.data]++;
		if (!frame_is6(ip))
			frame_checksum4(&f);
		CU_ASSERT_EQUAL(parse(f.bytes, f.len).p.hash, hash);
		/* Neighbouring source ports, then neighbouring sources, fall evenly into 16 by the low and the high
		 * bits. */
		for (int field = 0; field < 2; field++) {
			unsigned low[16] = {0}, high[16] = {0};

			for (unsigned i = 0; i < 4096; i++) {
				frame_put16(&f, at[field], 0xC000 + i);
				if (!frame_is6(ip))
					frame_checksum4(&f);
				uint32_t h = parse(f.bytes, f.len).p.hash;
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
