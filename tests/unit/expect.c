/* SPDX-License-Identifier: BSD-3-Clause */
/* Is it what was expected? What differs is named, exactly that and all of it; what cannot be compared is refused. */
#include "../lib/expect_files.h"

#define START 1700000000000000000ull

#define ALWAYS 5 /* packets of a test capture at the least */

static size_t capture_bytes(const struct capture *c, uint8_t *to, bool micro, uint32_t link)
{
	const uint32_t header[] = {micro ? 0xA1B2C3D4u : 0xA1B23C4Du, 0x00040002, 0, 0, 262144, link};
	size_t used = sizeof(header);

	memcpy(to, header, used);
	for (unsigned i = 0; i < c->count; i++) {
		const struct packet *p = &c->at[i];
		const uint64_t ns = START + p->ns;
		const uint32_t record[] = {(uint32_t)(ns / 1000000000u),
					   (uint32_t)(ns % 1000000000u / (micro ? 1000 : 1)), p->len, p->len};

		memcpy(to + used, record, sizeof(record));
		memcpy(to + used + sizeof(record), p->bytes, p->len);
		used += sizeof(record) + p->len;
	}
	return used;
}

static void capture_write(const struct capture *c, struct file *f)
{
	static uint8_t bytes[sizeof(struct capture) + 4096];

	expect_file_write(f, bytes, capture_bytes(c, bytes, false, 1));
}

static int64_t compare(const struct sp_tolerance *t)
{
	expect_saying = 0;
	memset(&expect_error, 0, sizeof(expect_error));
	return sp_expect_capture(expect_want.path, expect_found.path, t, &expect_to_us, &expect_error);
}

static int64_t compare_ab(const struct sp_tolerance *t)
{
	capture_write(&expect_a, &expect_want);
	capture_write(&expect_b, &expect_found);
	return compare(t);
}

/* Packets of all kinds, each with bytes of its own; those of RoCE on few QPs, with rising PSNs. */
static void capture_make(struct capture *c, struct sp_random *r, unsigned count)
{
	struct frame f;
	uint32_t psn = 0;

	c->count = count;
	for (unsigned i = 0; i < count; i++) {
		const uint64_t v = sp_random_next(r);
		struct frame_shape shape = {.tags = v & 1 ? 0 : v / 2 % 3,
					    .ip = v / 8 % FRAME_IPS,
					    .roce = v >> 20 & 1,
					    .payload = 12 + (unsigned)(v >> 24) % 60};

		frame_build(&f, &shape);
		memcpy(f.bytes + f.len - (shape.roce ? 12 : 8), &v, 8);
		if (shape.roce) {
			memcpy(f.bytes + f.l4 + 8, "\x2A\0\xFF\xFF\0\0\1\0\0", 9);
			f.bytes[f.l4 + 15] = v >> 56 & 1;
			f.bytes[f.l4 + 17] = (uint8_t)(psn >> 16);
			f.bytes[f.l4 + 18] = (uint8_t)(psn >> 8);
			f.bytes[f.l4 + 19] = (uint8_t)psn++;
		}
		c->at[i] = (struct packet){.ns = i * 1500ull, .len = f.len};
		CU_ASSERT_FATAL(f.len <= sizeof(c->at[i].bytes));
		memcpy(c->at[i].bytes, f.bytes, f.len);
	}
}

/* Other bits in one field, and in nothing else. */
static void change(struct packet *p, const struct sp_field *f, struct sp_random *r)
{
	const uint64_t before = sp_field_value(f, p->bytes), mask = ((f->bits ? 1ull << f->bits : 256) - 1) << f->shift;

	if (!f->bits) {
		p->bytes[f->at + sp_random_next(r) % f->len] ^= (uint8_t)(1 + sp_random_next(r) % 255);
		return;
	}
	do {
		const uint64_t noise = sp_random_next(r) & mask;

		for (uint32_t i = 0; i < f->len; i++)
			p->bytes[f->at + i] ^= (uint8_t)(noise >> 8 * (f->len - 1 - i));
	} while (sp_field_value(f, p->bytes) == before);
}

static const struct sp_field *find(const struct packet *p, const char *name)
{
	static struct sp_field field[SP_FIELDS];
	const unsigned n = sp_fields(p->bytes, p->len, field);

	for (unsigned i = 0; i < n; i++)
		if (!strcmp(field[i].name, name))
			return &field[i];
	return NULL;
}

/* ---- captures ---- */
TEST(equal_captures_have_no_difference)
{
	static uint8_t bytes[sizeof(struct capture) + 4096];
	struct sp_random r;

	sp_random_seed(&r, 1, 0);
	capture_make(&expect_a, &r, MOST);
	expect_b = expect_a;
	CU_ASSERT_EQUAL(compare_ab(NULL), 0);
	expect_a.count = expect_b.count = 0;
	CU_ASSERT_EQUAL(compare_ab(NULL), 0);
	expect_a.count = expect_b.count = MOST;
	expect_a.at[3].ns += 999 - expect_a.at[3].ns % 1000; /* what microseconds do not hold is no difference */
	expect_file_write(&expect_want, bytes, capture_bytes(&expect_b, bytes, true, 1));
	capture_write(&expect_a, &expect_found);
	CU_ASSERT_EQUAL(compare(NULL), 0);
	expect_a.at[3].ns += 1000;
	capture_write(&expect_a, &expect_found);
	CU_ASSERT_EQUAL(compare(NULL), 1);
}

TEST(one_changed_field_is_named_and_nothing_else)
{
	struct sp_field field[SP_FIELDS];
	struct sp_random r;
	char want[128];

	for (unsigned seed = 0; seed < SEEDS; seed++) {
		sp_random_seed(&r, seed, 1);
		if (seed % 20 == 0)
			capture_make(&expect_a, &r, ALWAYS + (unsigned)(sp_random_next(&r) % 20));
		expect_b = expect_a;
		const unsigned i = (unsigned)(sp_random_next(&r) % expect_b.count);
		const struct sp_field *f =
			&field[sp_random_next(&r) % sp_fields(expect_b.at[i].bytes, expect_b.at[i].len, field)];

		change(&expect_b.at[i], f, &r);
		snprintf(want, sizeof(want), "packet %u: %s: ", i + 1, f->name);
		if (compare_ab(NULL) != 1 || strncmp(expect_said[0], want, strlen(want))) {
			expect_say_all(want);
			CU_FAIL("not exactly the field that was changed");
			return;
		}
	}
}

TEST(a_difference_is_told_with_both_values)
{
	struct sp_random r;

	sp_random_seed(&r, 7, 0);
	do
		capture_make(&expect_a, &r, ALWAYS);
	while (!find(&expect_a.at[2], "ip.ttl") || !find(&expect_a.at[2], "udp.srcport") ||
	       !find(&expect_a.at[2], "payload") || find(&expect_a.at[2], "payload")->len < 12);
	expect_b = expect_a;
	expect_b.at[2].bytes[find(&expect_a.at[2], "ip.ttl")->at] = 63;
	CU_ASSERT_EQUAL(compare_ab(NULL), 1);
	CU_ASSERT_STRING_EQUAL(expect_said[0], "packet 3: ip.ttl: expected 64, found 63");
	expect_b = expect_a;
	for (unsigned i = 5; i < 8; i++) {
		expect_a.at[2].bytes[find(&expect_a.at[2], "payload")->at + i] = (uint8_t)i;
		expect_b.at[2].bytes[find(&expect_a.at[2], "payload")->at + i] = (uint8_t)~i;
	}
	CU_ASSERT_EQUAL(compare_ab(NULL), 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(expect_said[0], "packet 3: payload: 3 of "));
	CU_ASSERT_PTR_NOT_NULL(strstr(expect_said[0], " bytes differ, the first at offset 5: expected 050607"));
	CU_ASSERT_PTR_NOT_NULL(strstr(expect_said[0], ", found faf9f8"));
	expect_b = expect_a;
	expect_b.at[2].len--; /* the last byte of the frame */
	CU_ASSERT(compare_ab(NULL) >= 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(expect_said[0], "packet 3: "));
	CU_ASSERT_PTR_NOT_NULL(strstr(expect_said[0], "bytes"));
	if (compare_ab(NULL) > 3)
		CU_FAIL("a short frame differs in more than its end");
}

TEST(the_first_differences_are_said_and_all_are_counted)
{
	struct sp_random r;

	sp_random_seed(&r, 3, 0);
	capture_make(&expect_a, &r, MOST);
	expect_b = expect_a;
	for (unsigned i = 0; i < MOST; i++)
		expect_b.at[i].bytes[0] ^= 2;
	CU_ASSERT_EQUAL(compare_ab(NULL), MOST);
	CU_ASSERT_EQUAL(expect_saying, SP_EXPECT_SAID);
}

/* Some of a are missing in b, and b has some more: each is told by its number, and no other packet. */
TEST(missing_and_added_packets_are_told_and_what_follows_stays_in_step)
{
	struct sp_random r;
	struct capture extra;

	for (unsigned seed = 0; seed < SEEDS / 8; seed++) {
		bool good = true;
		unsigned lost = 0, added = 0;
		char want[160];

		sp_random_seed(&r, seed, 2);
		capture_make(&expect_a, &r, MOST);
		capture_make(&extra, &r, MOST);
		const unsigned run = (unsigned)(sp_random_next(&r) % 20),
			       at = (unsigned)(sp_random_next(&r) % (MOST - run));
		expect_b.count = 0;
		for (unsigned i = 0; i < MOST; i++) {
			if (i >= at && i < at + run) {
				lost++;
				continue;
			}
			if (seed % 2 && sp_random_next(&r) % 16 == 0) {
				expect_b.at[expect_b.count] = extra.at[i];
				expect_b.at[expect_b.count++].bytes[5] ^= 0x40; /* to somebody else */
				added++;
			}
			expect_b.at[expect_b.count++] = expect_a.at[i];
		}
		const int64_t n = compare_ab(&(struct sp_tolerance){.time = SP_NEVER});

		for (unsigned i = 0; i < expect_saying && i < SP_EXPECT_SAID && !(seed % 2); i++) {
			snprintf(want, sizeof(want), "packet %u of %s (", at + i + 1, expect_want.path);
			good &= !strncmp(expect_said[i], want, strlen(want)) &&
				strstr(expect_said[i], ") was not sent");
		}
		if (seed % 2) /* where one is lost and another added at the same place it may be told as changed */
			good &= lost ? n >= (lost > added ? lost - added : 0) : n == added;
		else
			good &= n == lost;
		if (!good) {
			expect_say_all("lost or added");
			printf("# seed %u: %lld differences, %u lost, %u added\n", seed, (long long)n, lost, added);
			CU_FAIL("out of step");
			return;
		}
	}
	expect_b = expect_a;
	expect_b.at[expect_b.count++] = expect_a.at[7];
	CU_ASSERT_EQUAL(compare_ab(NULL), 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(expect_said[0], "the NIC sent one more: "));
	CU_ASSERT_PTR_NOT_NULL(strstr(expect_said[0], "packet 61 of what it sent"));
	expect_b.count = 0;
	CU_ASSERT_EQUAL(compare_ab(NULL), MOST);
	CU_ASSERT_PTR_NOT_NULL(strstr(expect_said[0], " at 0.000000000 s) was not sent"));
	CU_ASSERT_PTR_NOT_NULL(strstr(expect_said[1], " at 0.000001500 s) was not sent"));
}

TEST(long_captures_that_differ_everywhere_take_no_longer_than_long_captures)
{
	const unsigned long count = suite_times(100000); /* every one is other: the slowest way through */
	uint8_t *bytes = malloc(24 + count * 76), *p;
	const uint32_t header[] = {0xA1B23C4Du, 0x00040002, 0, 0, 262144, 1};
	struct sp_random r;

	sp_random_seed(&r, 9, 0);
	for (unsigned side = 0; side < 2; side++) {
		memcpy(bytes, header, 24);
		p = bytes + 24;
		for (unsigned long i = 0; i < count; i++, p += 76) {
			const uint32_t record[] = {0, 0, 60, 60};

			memcpy(p, record, 16);
			for (unsigned k = 0; k < 60; k += 8)
				memcpy(p + 16 + k, &(uint64_t){sp_random_next(&r)}, k == 56 ? 4 : 8);
		}
		expect_file_write(side ? &expect_found : &expect_want, bytes, (size_t)(p - bytes));
	}
	CU_ASSERT(compare(NULL) >= (int64_t)count);
	CU_ASSERT_EQUAL(expect_saying, SP_EXPECT_SAID);
	free(bytes);
}

TEST(times_may_be_off_by_the_tolerance_and_no_more)
{
	struct sp_tolerance t = {.time = 0};
	struct sp_random r;

	sp_random_seed(&r, 4, 0);
	capture_make(&expect_a, &r, ALWAYS);
	expect_b = expect_a;
	expect_b.at[2].ns += 55;
	CU_ASSERT_EQUAL(compare_ab(NULL), 1);
	CU_ASSERT_STRING_EQUAL(expect_said[0],
			       "packet 3: time: expected 0.000003000 s, found 0.000003055 s (0.000000055 s late)");
	t.time = 54 * SP_NS;
	CU_ASSERT_EQUAL(compare_ab(&t), 1);
	t.time = 55 * SP_NS;
	CU_ASSERT_EQUAL(compare_ab(&t), 0);
	expect_b.at[2].ns = expect_a.at[2].ns - 56;
	CU_ASSERT_EQUAL(compare_ab(&t), 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(expect_said[0], "early"));
	t.time = SP_NEVER;
	expect_b.at[3].ns += 1000000000ull * 86400;
	CU_ASSERT_EQUAL(compare_ab(&t), 0);
}

/* ---- tolerances ---- */
TEST(a_tolerated_field_may_differ_and_so_may_what_covers_it)
{
	static const char *const pairs[][2] = {
		{"ip.ttl", "ip.checksum"},
		{"ip.id", "infiniband.invariant.crc"},
		{"payload", "udp.checksum"},
		{"udp.srcport", "udp.checksum"},
		{"udp.srcport", "infiniband.invariant.crc"},
		{"ipv6.src", "udp.checksum"},
		{"infiniband.reth.va", "infiniband.invariant.crc"},
		{"infiniband.bth.destqp", "udp.checksum"},
	};
	static const char *const apart[][2] = {{"ip.ttl", "infiniband.invariant.crc"},
					       {"ip.ttl", "udp.checksum"},
					       {"ipv6.hlim", "infiniband.invariant.crc"},
					       {"payload", "ip.checksum"},
					       {"eth.src", "ip.checksum"}};
	struct sp_random r;
	unsigned tried = 0;

	for (unsigned seed = 0; seed < 400; seed++) {
		const bool covered = seed % 2;
		const char *const *pair = covered ? pairs[seed / 2 % 8] : apart[seed / 2 % 5];
		struct sp_tolerance t = {.field = pair, .fields = 1};
		unsigned i = 0;

		sp_random_seed(&r, seed, 3);
		capture_make(&expect_a, &r, ALWAYS);
		while (i < expect_a.count && !(find(&expect_a.at[i], pair[0]) && find(&expect_a.at[i], pair[1])))
			i++;
		if (i == expect_a.count)
			continue;
		tried++;
		expect_b = expect_a;
		change(&expect_b.at[i], find(&expect_b.at[i], pair[1]), &r);
		const int64_t alone = compare_ab(&t); /* the checksum is wrong, and nothing excuses it */
		change(&expect_b.at[i], find(&expect_b.at[i], pair[0]), &r);
		const int64_t both = compare_ab(&t);
		if (alone != 1 || both != !covered) {
			expect_say_all(pair[0]);
			printf("# %s and %s: %lld alone, %lld both\n", pair[0], pair[1], (long long)alone,
			       (long long)both);
			CU_FAIL("tolerated too much, or too little");
			return;
		}
	}
	CU_ASSERT(tried > 200);
}

TEST(psns_may_start_anywhere_and_must_count_the_same)
{
	struct sp_tolerance t = {.psn_start = true};
	struct sp_random r;
	unsigned roce = 0, last = 0;

	for (unsigned seed = 0; seed < 200; seed++) {
		sp_random_seed(&r, seed, 4);
		capture_make(&expect_a, &r, 30);
		expect_b = expect_a;
		const uint32_t shift[2] = {(uint32_t)sp_random_next(&r), (uint32_t)sp_random_next(&r)};
		unsigned seen[2][2] = {{0}}; /* packets of each QP */

		roce = last = 0;
		for (unsigned i = 0; i < expect_b.count; i++) {
			const struct sp_field *psn = find(&expect_b.at[i], "infiniband.bth.psn");

			if (!psn)
				continue;
			const unsigned qp = expect_b.at[i].bytes[psn->at - 2]; /* 0 or 1 */
			const uint32_t value = (uint32_t)sp_field_value(psn, expect_b.at[i].bytes) + shift[qp];

			expect_b.at[i].bytes[psn->at] = (uint8_t)(value >> 16);
			expect_b.at[i].bytes[psn->at + 1] = (uint8_t)(value >> 8);
			expect_b.at[i].bytes[psn->at + 2] = (uint8_t)value;
			expect_b.at[i].bytes[expect_b.at[i].len - 1] ^= 0x5A; /* the ICRC follows */
			unsigned *known = &seen[qp][find(&expect_b.at[i], "ipv6.dst") != NULL];
			if ((*known)++)
				last = i;
			roce++;
		}
		if (roce < 6 || !last)
			continue;
		if (compare_ab(&t)) {
			expect_say_all("shifted PSNs");
			CU_FAIL("PSNs that start elsewhere");
			return;
		}
		CU_ASSERT(compare_ab(NULL) != 0);
		expect_b.at[last].bytes[find(&expect_b.at[last], "infiniband.bth.psn")->at + 2] ^= 1;
		if (compare_ab(&t) != 1 || !strstr(expect_said[0], "infiniband.bth.psn: expected ") ||
		    !strstr(expect_said[0], " after its QP's first, found ")) {
			expect_say_all("a PSN out of the count");
			CU_FAIL("a PSN that does not count on");
			return;
		}
	}
}

TEST(tolerances_are_read_or_refused_by_word)
{
	struct sp_tolerance t = {.time = 0};

	CU_ASSERT_EQUAL(sp_tolerance_parse("time=10us,psn-start,ip.id", &t, &expect_error), 0);
	CU_ASSERT(t.time == 10 * SP_US && t.psn_start && t.fields == 1);
	CU_ASSERT_STRING_EQUAL(t.field[0], "ip.id");
	CU_ASSERT_EQUAL(sp_tolerance_parse("payload", &t, &expect_error), 0);
	CU_ASSERT_EQUAL(t.fields, 2);
	CU_ASSERT_EQUAL(sp_tolerance_parse("udp.length,ip.tll", &t, &expect_error), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(expect_error.text, "ip.tll: "));
	CU_ASSERT_PTR_NOT_NULL(strstr(expect_error.text, "is ip.ttl meant?"));
	CU_ASSERT_EQUAL(t.fields, 2);
	CU_ASSERT_EQUAL(sp_tolerance_parse("time=ten", &t, &expect_error), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(expect_error.text, "time=ten"));
	CU_ASSERT_EQUAL(sp_tolerance_parse("", &t, &expect_error), -EINVAL);
	CU_ASSERT_EQUAL(sp_tolerance_parse("ip.id,", &t, &expect_error), -EINVAL);
	CU_ASSERT_EQUAL(t.time, 10 * SP_US);
	CU_ASSERT_EQUAL(sp_tolerance_parse("time", &t, &expect_error), 0);
	CU_ASSERT_EQUAL(t.time, SP_NEVER);
	sp_tolerance_free(&t);
	CU_ASSERT(!t.field && !t.fields);
	capture_write(&expect_a, &expect_want);
	CU_ASSERT_EQUAL(sp_expect_capture(expect_want.path, expect_want.path,
					  &(struct sp_tolerance){.field = (const char *[]){"no.field"}, .fields = 1},
					  &expect_to_us, &expect_error),
			-EINVAL);
}

TEST(truncated_captures_are_refused_and_never_equal)
{
	static uint8_t bytes[sizeof(struct capture) + 4096];
	struct sp_random r;

	sp_random_seed(&r, 5, 0);
	capture_make(&expect_a, &r, ALWAYS);
	capture_write(&expect_a, &expect_found);
	size_t len = capture_bytes(&expect_a, bytes, false, 1);
	for (size_t cut = 0; cut < len; cut++) {
		size_t at = 24;

		for (unsigned i = 0; i < expect_a.count && at < cut; i++)
			at += 16 + expect_a.at[i].len;
		expect_file_write(&expect_want, bytes, cut);
		if (at == cut ? compare(NULL) <= 0
			      : compare(NULL) != -EINVAL || !strstr(expect_error.text, expect_want.path)) {
			printf("# cut at %zu of %zu\n", cut, len);
			expect_say_all("a cut file");
			CU_FAIL("a file cut off");
			return;
		}
	}
	capture_write(&expect_a, &expect_want);
	expect_file_write(&expect_found, bytes, len - 1); /* also what was found */
	CU_ASSERT_EQUAL(compare(NULL), -EINVAL);
	capture_write(&expect_a, &expect_found);
	expect_file_text(&expect_want, "this is a letter and no capture, and a long one at that");
	CU_ASSERT_EQUAL(compare(NULL), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(expect_error.text, "not a capture"));
	expect_file_write(&expect_want, bytes, capture_bytes(&expect_a, bytes, false, 113));
	CU_ASSERT_EQUAL(compare(NULL), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(expect_error.text, "LINUX_SLL"));
	len = capture_bytes(&expect_a, bytes, false, 1);
	bytes[24 + 12] += 1; /* longer on the wire than in the file */
	expect_file_write(&expect_want, bytes, len);
	CU_ASSERT_EQUAL(compare(NULL), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(expect_error.text, "of packet 1 it holds"));
	CU_ASSERT_EQUAL(sp_expect_capture("/nonexistent", expect_found.path, NULL, &expect_to_us, &expect_error),
			-ENOENT);
	CU_ASSERT_EQUAL(sp_expect_capture("/", expect_found.path, NULL, &expect_to_us, &expect_error), -EISDIR);
}

/* Any bytes in a capture: it is refused, or equal to itself, under every tolerance. */
TEST(a_damaged_capture_is_refused_or_equal_to_itself)
{
	static uint8_t bytes[sizeof(struct capture) + 4096];
	const char *field[2] = {"payload", "ip.id"};
	struct sp_tolerance t[3] = {{.time = 0}, {.field = field, .fields = 2}, {.psn_start = true}};
	struct sp_random r;
	unsigned refused = 0;

	for (unsigned seed = 0; seed < SEEDS; seed++) {
		sp_random_seed(&r, seed, 8);
		if (seed % 50 == 0)
			capture_make(&expect_a, &r, ALWAYS);
		const size_t len = capture_bytes(&expect_a, bytes, seed % 2, 1);

		for (unsigned changes = 1 + (unsigned)(sp_random_next(&r) % 4); changes; changes--)
			bytes[sp_random_next(&r) % len] = (uint8_t)sp_random_next(&r);
		expect_file_write(&expect_want, bytes, len);
		expect_file_write(&expect_found, bytes, len);
		const int64_t n = compare(&t[seed % 3]);

		refused += n == -EINVAL;
		if (n != 0 && (n != -EINVAL || !*expect_error.text)) {
			expect_say_all("damaged");
			printf("# seed %u: %lld\n", seed, (long long)n);
			CU_FAIL("neither refused nor equal");
			return;
		}
	}
	CU_ASSERT(refused > SEEDS / 20 && refused < SEEDS * 19 / 20);
}
