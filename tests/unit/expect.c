/* SPDX-License-Identifier: BSD-3-Clause */
/* Is it what was expected? What differs is named, exactly that and all of it; what cannot be compared is refused. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../testbed/expect.h"
#include "../../testbed/fields.h"
#include "../../testbed/random.h"
#include "../lib/frame.h"
#include "../lib/suite.h"

#define START  1700000000000000000ull
#define SEEDS  4000
#define ALWAYS 5 /* packets of a test capture at the least */
#define MOST   60

/* ---- what is said -------------------------------------------------------------------------------------------------
 */
static char said[SP_EXPECT_SAID + 2][1100];
static unsigned saying;
static struct sp_error error;

static void keep(void *arg, const char *text)
{
	if (saying < SP_EXPECT_SAID + 2)
		snprintf(said[saying], sizeof(said[0]), "%s", text);
	saying++;
}
static const struct sp_expect_say to_us = {.say = keep};

static void say_all(const char *what)
{
	printf("# %s:\n", what);
	for (unsigned i = 0; i < saying && i < SP_EXPECT_SAID; i++)
		printf("#   %s\n", said[i]);
	if (*error.text)
		printf("#   error: %s\n", error.text);
}

/* ---- files --------------------------------------------------------------------------------------------------------
 */
struct file {
	int fd;
	char path[32];
};
static struct file expected, found;

static void file_write(struct file *f, const void *bytes, size_t len)
{
	if (!*f->path) {
		f->fd = memfd_create("expect", 0);
		snprintf(f->path, sizeof(f->path), "/proc/self/fd/%d", f->fd);
	}
	CU_ASSERT_FATAL(f->fd >= 0 && !ftruncate(f->fd, 0));
	CU_ASSERT_EQUAL_FATAL(pwrite(f->fd, bytes, len, 0), (ssize_t)len);
}

static void file_text(struct file *f, const char *text)
{
	file_write(f, text, strlen(text));
}

struct packet {
	uint64_t ns;
	uint32_t len;
	uint8_t bytes[256];
};

struct capture {
	unsigned count;
	struct packet at[2 * MOST];
};
static struct capture a, b;

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

	file_write(f, bytes, capture_bytes(c, bytes, false, 1));
}

static int64_t compare(const struct sp_tolerance *t)
{
	saying = 0;
	memset(&error, 0, sizeof(error));
	return sp_expect_capture(expected.path, found.path, t, &to_us, &error);
}

static int64_t compare_ab(const struct sp_tolerance *t)
{
	capture_write(&a, &expected);
	capture_write(&b, &found);
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

/* ---- captures -----------------------------------------------------------------------------------------------------
 */
TEST(equal_captures_have_no_difference)
{
	static uint8_t bytes[sizeof(struct capture) + 4096];
	struct sp_random r;

	sp_random_seed(&r, 1, 0);
	capture_make(&a, &r, MOST);
	b = a;
	CU_ASSERT_EQUAL(compare_ab(NULL), 0);
	a.count = b.count = 0;
	CU_ASSERT_EQUAL(compare_ab(NULL), 0);
	a.count = b.count = MOST;
	a.at[3].ns += 999 - a.at[3].ns % 1000; /* what microseconds do not hold is no difference */
	file_write(&expected, bytes, capture_bytes(&b, bytes, true, 1));
	capture_write(&a, &found);
	CU_ASSERT_EQUAL(compare(NULL), 0);
	a.at[3].ns += 1000;
	capture_write(&a, &found);
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
			capture_make(&a, &r, ALWAYS + (unsigned)(sp_random_next(&r) % 20));
		b = a;
		const unsigned i = (unsigned)(sp_random_next(&r) % b.count);
		const struct sp_field *f = &field[sp_random_next(&r) % sp_fields(b.at[i].bytes, b.at[i].len, field)];

		change(&b.at[i], f, &r);
		snprintf(want, sizeof(want), "packet %u: %s: ", i + 1, f->name);
		if (compare_ab(NULL) != 1 || strncmp(said[0], want, strlen(want))) {
			say_all(want);
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
		capture_make(&a, &r, ALWAYS);
	while (!find(&a.at[2], "ip.ttl") || !find(&a.at[2], "udp.srcport") || !find(&a.at[2], "payload") ||
	       find(&a.at[2], "payload")->len < 12);
	b = a;
	b.at[2].bytes[find(&a.at[2], "ip.ttl")->at] = 63;
	CU_ASSERT_EQUAL(compare_ab(NULL), 1);
	CU_ASSERT_STRING_EQUAL(said[0], "packet 3: ip.ttl: expected 64, found 63");
	b = a;
	for (unsigned i = 5; i < 8; i++) {
		a.at[2].bytes[find(&a.at[2], "payload")->at + i] = (uint8_t)i;
		b.at[2].bytes[find(&a.at[2], "payload")->at + i] = (uint8_t)~i;
	}
	CU_ASSERT_EQUAL(compare_ab(NULL), 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(said[0], "packet 3: payload: 3 of "));
	CU_ASSERT_PTR_NOT_NULL(strstr(said[0], " bytes differ, the first at offset 5: expected 050607"));
	CU_ASSERT_PTR_NOT_NULL(strstr(said[0], ", found faf9f8"));
	b = a;
	b.at[2].len--; /* the last byte of the frame */
	CU_ASSERT(compare_ab(NULL) >= 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(said[0], "packet 3: "));
	CU_ASSERT_PTR_NOT_NULL(strstr(said[0], "bytes"));
	if (compare_ab(NULL) > 3)
		CU_FAIL("a short frame differs in more than its end");
}

TEST(the_first_differences_are_said_and_all_are_counted)
{
	struct sp_random r;

	sp_random_seed(&r, 3, 0);
	capture_make(&a, &r, MOST);
	b = a;
	for (unsigned i = 0; i < MOST; i++)
		b.at[i].bytes[0] ^= 2;
	CU_ASSERT_EQUAL(compare_ab(NULL), MOST);
	CU_ASSERT_EQUAL(saying, SP_EXPECT_SAID);
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
		capture_make(&a, &r, MOST);
		capture_make(&extra, &r, MOST);
		const unsigned run = (unsigned)(sp_random_next(&r) % 20),
			       at = (unsigned)(sp_random_next(&r) % (MOST - run));
		b.count = 0;
		for (unsigned i = 0; i < MOST; i++) {
			if (i >= at && i < at + run) {
				lost++;
				continue;
			}
			if (seed % 2 && sp_random_next(&r) % 16 == 0) {
				b.at[b.count] = extra.at[i];
				b.at[b.count++].bytes[5] ^= 0x40; /* to somebody else */
				added++;
			}
			b.at[b.count++] = a.at[i];
		}
		const int64_t n = compare_ab(&(struct sp_tolerance){.time = SP_NEVER});

		for (unsigned i = 0; i < saying && i < SP_EXPECT_SAID && !(seed % 2); i++) {
			snprintf(want, sizeof(want), "packet %u of %s (", at + i + 1, expected.path);
			good &= !strncmp(said[i], want, strlen(want)) && strstr(said[i], ") was not sent");
		}
		if (seed % 2) /* where one is lost and another added at the same place it may be told as changed */
			good &= lost ? n >= (lost > added ? lost - added : 0) : n == added;
		else
			good &= n == lost;
		if (!good) {
			say_all("lost or added");
			printf("# seed %u: %lld differences, %u lost, %u added\n", seed, (long long)n, lost, added);
			CU_FAIL("out of step");
			return;
		}
	}
	b = a;
	b.at[b.count++] = a.at[7];
	CU_ASSERT_EQUAL(compare_ab(NULL), 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(said[0], "the NIC sent one more: "));
	CU_ASSERT_PTR_NOT_NULL(strstr(said[0], "packet 61 of what it sent"));
	b.count = 0;
	CU_ASSERT_EQUAL(compare_ab(NULL), MOST);
	CU_ASSERT_PTR_NOT_NULL(strstr(said[0], " at 0.000000000 s) was not sent"));
	CU_ASSERT_PTR_NOT_NULL(strstr(said[1], " at 0.000001500 s) was not sent"));
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
		file_write(side ? &found : &expected, bytes, (size_t)(p - bytes));
	}
	CU_ASSERT(compare(NULL) >= (int64_t)count);
	CU_ASSERT_EQUAL(saying, SP_EXPECT_SAID);
	free(bytes);
}

TEST(times_may_be_off_by_the_tolerance_and_no_more)
{
	struct sp_tolerance t = {.time = 0};
	struct sp_random r;

	sp_random_seed(&r, 4, 0);
	capture_make(&a, &r, ALWAYS);
	b = a;
	b.at[2].ns += 55;
	CU_ASSERT_EQUAL(compare_ab(NULL), 1);
	CU_ASSERT_STRING_EQUAL(said[0],
			       "packet 3: time: expected 0.000003000 s, found 0.000003055 s (0.000000055 s late)");
	t.time = 54 * SP_NS;
	CU_ASSERT_EQUAL(compare_ab(&t), 1);
	t.time = 55 * SP_NS;
	CU_ASSERT_EQUAL(compare_ab(&t), 0);
	b.at[2].ns = a.at[2].ns - 56;
	CU_ASSERT_EQUAL(compare_ab(&t), 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(said[0], "early"));
	t.time = SP_NEVER;
	b.at[3].ns += 1000000000ull * 86400;
	CU_ASSERT_EQUAL(compare_ab(&t), 0);
}

/* ---- tolerances ---------------------------------------------------------------------------------------------------
 */
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
		capture_make(&a, &r, ALWAYS);
		while (i < a.count && !(find(&a.at[i], pair[0]) && find(&a.at[i], pair[1])))
			i++;
		if (i == a.count)
			continue;
		tried++;
		b = a;
		change(&b.at[i], find(&b.at[i], pair[1]), &r);
		const int64_t alone = compare_ab(&t); /* the checksum is wrong, and nothing excuses it */
		change(&b.at[i], find(&b.at[i], pair[0]), &r);
		const int64_t both = compare_ab(&t);
		if (alone != 1 || both != !covered) {
			say_all(pair[0]);
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
		capture_make(&a, &r, 30);
		b = a;
		const uint32_t shift[2] = {(uint32_t)sp_random_next(&r), (uint32_t)sp_random_next(&r)};
		unsigned seen[2][2] = {{0}}; /* packets of each QP */

		roce = last = 0;
		for (unsigned i = 0; i < b.count; i++) {
			const struct sp_field *psn = find(&b.at[i], "infiniband.bth.psn");

			if (!psn)
				continue;
			const unsigned qp = b.at[i].bytes[psn->at - 2]; /* 0 or 1 */
			const uint32_t value = (uint32_t)sp_field_value(psn, b.at[i].bytes) + shift[qp];

			b.at[i].bytes[psn->at] = (uint8_t)(value >> 16);
			b.at[i].bytes[psn->at + 1] = (uint8_t)(value >> 8);
			b.at[i].bytes[psn->at + 2] = (uint8_t)value;
			b.at[i].bytes[b.at[i].len - 1] ^= 0x5A; /* the ICRC follows */
			unsigned *known = &seen[qp][find(&b.at[i], "ipv6.dst") != NULL];
			if ((*known)++)
				last = i;
			roce++;
		}
		if (roce < 6 || !last)
			continue;
		if (compare_ab(&t)) {
			say_all("shifted PSNs");
			CU_FAIL("PSNs that start elsewhere");
			return;
		}
		CU_ASSERT(compare_ab(NULL) != 0);
		b.at[last].bytes[find(&b.at[last], "infiniband.bth.psn")->at + 2] ^= 1;
		if (compare_ab(&t) != 1 || !strstr(said[0], "infiniband.bth.psn: expected ") ||
		    !strstr(said[0], " after its QP's first, found ")) {
			say_all("a PSN out of the count");
			CU_FAIL("a PSN that does not count on");
			return;
		}
	}
}

TEST(tolerances_are_read_or_refused_by_word)
{
	struct sp_tolerance t = {.time = 0};

	CU_ASSERT_EQUAL(sp_tolerance_parse("time=10us,psn-start,ip.id", &t, &error), 0);
	CU_ASSERT(t.time == 10 * SP_US && t.psn_start && t.fields == 1);
	CU_ASSERT_STRING_EQUAL(t.field[0], "ip.id");
	CU_ASSERT_EQUAL(sp_tolerance_parse("payload", &t, &error), 0);
	CU_ASSERT_EQUAL(t.fields, 2);
	CU_ASSERT_EQUAL(sp_tolerance_parse("udp.length,ip.tll", &t, &error), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "ip.tll: "));
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "is ip.ttl meant?"));
	CU_ASSERT_EQUAL(t.fields, 2);
	CU_ASSERT_EQUAL(sp_tolerance_parse("time=ten", &t, &error), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "time=ten"));
	CU_ASSERT_EQUAL(sp_tolerance_parse("", &t, &error), -EINVAL);
	CU_ASSERT_EQUAL(sp_tolerance_parse("ip.id,", &t, &error), -EINVAL);
	CU_ASSERT_EQUAL(t.time, 10 * SP_US);
	CU_ASSERT_EQUAL(sp_tolerance_parse("time", &t, &error), 0);
	CU_ASSERT_EQUAL(t.time, SP_NEVER);
	sp_tolerance_free(&t);
	CU_ASSERT(!t.field && !t.fields);
	capture_write(&a, &expected);
	CU_ASSERT_EQUAL(sp_expect_capture(expected.path, expected.path,
					  &(struct sp_tolerance){.field = (const char *[]){"no.field"}, .fields = 1},
					  &to_us, &error),
			-EINVAL);
}

TEST(what_is_no_whole_capture_is_refused_and_never_equal)
{
	static uint8_t bytes[sizeof(struct capture) + 4096];
	struct sp_random r;
	size_t len;

	sp_random_seed(&r, 5, 0);
	capture_make(&a, &r, ALWAYS);
	capture_write(&a, &found);
	len = capture_bytes(&a, bytes, false, 1);
	for (size_t cut = 0; cut < len; cut++) {
		size_t at = 24;

		for (unsigned i = 0; i < a.count && at < cut; i++)
			at += 16 + a.at[i].len;
		file_write(&expected, bytes, cut);
		if (at == cut ? compare(NULL) <= 0 : compare(NULL) != -EINVAL || !strstr(error.text, expected.path)) {
			printf("# cut at %zu of %zu\n", cut, len);
			say_all("a cut file");
			CU_FAIL("a file cut off");
			return;
		}
	}
	capture_write(&a, &expected);
	file_write(&found, bytes, len - 1); /* also what was found */
	CU_ASSERT_EQUAL(compare(NULL), -EINVAL);
	capture_write(&a, &found);
	file_text(&expected, "this is a letter and no capture, and a long one at that");
	CU_ASSERT_EQUAL(compare(NULL), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "not a capture"));
	file_write(&expected, bytes, capture_bytes(&a, bytes, false, 113));
	CU_ASSERT_EQUAL(compare(NULL), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "LINUX_SLL"));
	len = capture_bytes(&a, bytes, false, 1);
	bytes[24 + 12] += 1; /* longer on the wire than in the file */
	file_write(&expected, bytes, len);
	CU_ASSERT_EQUAL(compare(NULL), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "of packet 1 it holds"));
	CU_ASSERT_EQUAL(sp_expect_capture("/nonexistent", found.path, NULL, &to_us, &error), -ENOENT);
	CU_ASSERT_EQUAL(sp_expect_capture("/", found.path, NULL, &to_us, &error), -EISDIR);
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
			capture_make(&a, &r, ALWAYS);
		const size_t len = capture_bytes(&a, bytes, seed % 2, 1);

		for (unsigned changes = 1 + (unsigned)(sp_random_next(&r) % 4); changes; changes--)
			bytes[sp_random_next(&r) % len] = (uint8_t)sp_random_next(&r);
		file_write(&expected, bytes, len);
		file_write(&found, bytes, len);
		const int64_t n = compare(&t[seed % 3]);

		refused += n == -EINVAL;
		if (n != 0 && (n != -EINVAL || !*error.text)) {
			say_all("damaged");
			printf("# seed %u: %lld\n", seed, (long long)n);
			CU_FAIL("neither refused nor equal");
			return;
		}
	}
	CU_ASSERT(refused > SEEDS / 20 && refused < SEEDS * 19 / 20);
}

/* ---- JSON ---------------------------------------------------------------------------------------------------------
 */
static int64_t json(const char *want, const char *have)
{
	saying = 0;
	memset(&error, 0, sizeof(error));
	file_text(&expected, want);
	return sp_expect_json(expected.path, have, &to_us, &error);
}

TEST(json_must_be_there_and_more_may_be)
{
	static const struct {
		const char *want, *have;
		int64_t count;
		const char *words;
	} row[] = {
		{"{\"a\": 7}", "{\"b\": 1, \"a\": 7}", 0, NULL},
		{"{\"a\": {\"b\": {\"c\": 7}}}", "{\"a\": {\"b\": {\"c\": 6}, \"d\": 1}}", 1,
		 "a.b.c: expected 7, found 6"},
		{"{\"a\": 7}", "{}", 1, "a: expected 7, found nothing"},
		{"{\"a\": 7}", "{\"a\": \"7\"}", 1, "a: expected 7, found \"7\""},
		{"{\"a\": null}", "{\"a\": null}", 0, NULL},
		{"{\"a\": null}", "{}", 1, "a: expected null, found nothing"},
		{"{\"a\": true}", "{\"a\": false}", 1, "a: expected true, found false"},
		{"{\"a\": {\"b\": 1}}", "{\"a\": [1]}", 1, "a: expected an object, found a list"},
		{"{\"a\": [1, 2]}", "{\"a\": [1, 2]}", 0, NULL},
		{"{\"a\": [1, 2]}", "{\"a\": [1, 2, 3]}", 1, "a: expected 2 elements, found 3"},
		{"{\"a\": []}", "{\"a\": [1]}", 1, "a: expected 0 elements, found 1"},
		{"{\"a\": [1, \"...\"]}", "{\"a\": [1, 2, 3]}", 0, NULL},
		{"{\"a\": [1, \"...\"]}", "{\"a\": []}", 1, "a: expected at least 1 element, found 0"},
		{"{\"a\": [{\"b\": 1}, {\"b\": 2}]}", "{\"a\": [{\"b\": 1, \"c\": 0}, {\"b\": 3}]}", 1,
		 "a[1].b: expected 2, found 3"},
		{"{\"a\": 1e3}", "{\"a\": 1000}", 0, NULL},
		{"{\"a\": 1000.5}", "{\"a\": 1000}", 1, NULL},
		{"{\"a\": 9007199254740993}", "{\"a\": 9007199254740992}", 1, NULL}, /* the same as doubles */
		{"{\"a\": 9007199254740993}", "{\"a\": 9007199254740993}", 0, NULL},
		{"{\"a\": 9223372036854775807}", "{\"a\": 9223372036854775808}", 1, NULL},
		{"{\"a\": 9223372036854775807}", "{\"a\": 9.2233720368547758e18}", 1, NULL},
		{"{\"a\": 18446744073709551615}", "{\"a\": 1.8446744073709552e19}", 0, NULL},
		{"{\"a\": 18446744073709549568}", "{\"a\": 1.8446744073709552e19}", 1, NULL},
		{"{\"a\": -9223372036854775809}", "{\"a\": -9223372036854775809}", 0, NULL},
		{"{\"18446744073709551615\": \"\\\"18446744073709551615\"}",
		 "{\"18446744073709551615\": \"\\\"18446744073709551615\"}", 0, NULL}, /* what is text stays text */
		{"{\"a\": 1, \"b\": 2, \"c\": {}}", "{\"a\": 2, \"b\": 1}", 3, "a: expected 1, found 2"},
	};

	for (unsigned i = 0; i < sizeof(row) / sizeof(*row); i++)
		if (json(row[i].want, row[i].have) != row[i].count || (row[i].words && strcmp(said[0], row[i].words))) {
			say_all(row[i].want);
			CU_FAIL("another result");
		}
}

TEST(json_that_cannot_fail_or_is_none_is_refused)
{
	static const struct {
		const char *want, *words;
	} row[] = {
		{"", "empty file"},
		{"{}", "expects nothing"},
		{"{\"a\": {}, \"b\": {\"c\": {}}}", "expects nothing"},
		{"{\"a\": [\"...\"]}", "expects nothing"},
		{"[1]", "no JSON object"},
		{"7", "no JSON"},
		{"{\"a\": 7", "line 1, column "},
		{"{\n\"a\": 7,\n}", "line 3, column "},
		{"{\"a\": 7} {", "no JSON"},
		{"{\"a\": 7, \"a\": 8}", "duplicate"},
		{"{\"a\": NaN}", "no JSON"},
		{"{\"a\": 1e999}", "no JSON"},
		{"{\"a\": 01}", "no JSON"},
		{"{\"a\": \"\xFF\"}", "no JSON"},
	};
	static char deep[20000];

	for (unsigned i = 0; i < sizeof(row) / sizeof(*row); i++)
		if (json(row[i].want, "{\"a\": 7}") != -EINVAL || !strstr(error.text, row[i].words) ||
		    !strstr(error.text, expected.path) || saying) {
			say_all(row[i].want);
			CU_FAIL("not refused");
		}
	strcpy(deep, "{\"a\": ");
	memset(deep + 6, '[', 9000);
	CU_ASSERT_EQUAL(json(deep, "{}"), -EINVAL); /* as deep as to cost the stack, if it were followed */
	strcpy(deep, "{\"a\": ");
	memset(deep + 6, '9', 9000);
	strcpy(deep + 9006, "}");
	CU_ASSERT_EQUAL(json(deep, "{}"), -EINVAL);
	CU_ASSERT(sp_expect_json("/nonexistent", "{}", &to_us, &error) < 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "/nonexistent"));
	CU_ASSERT(sp_expect_json("/", "{}", &to_us, &error) < 0);
	CU_ASSERT_EQUAL(json("{\"a\": 7}", "{\"a\": "), -EINVAL);
}

TEST(json_nested_deeply_is_compared_to_the_bottom)
{
	static char want[40000], have[40000];
	size_t used = 0;

	for (unsigned i = 0; i < 1000; i++)
		used += (size_t)sprintf(want + used, "{\"member%u\": ", i % 7);
	strcpy(want + used, "7");
	memset(want + used + 1, '}', 1000);
	strcpy(have, want);
	CU_ASSERT_EQUAL(json(want, have), 0);
	have[used] = '8';
	CU_ASSERT_EQUAL(json(want, have), 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(said[0], "member0.member1.member2"));
	CU_ASSERT_PTR_NOT_NULL(strstr(said[0], ": expected 7, found 8"));
}

/* Any text: it is refused, or equal to itself. */
TEST(damaged_json_is_refused_or_equal_to_itself)
{
	static const char whole[] =
		"{\"a\": [1, {\"b\": 18446744073709551615, \"c\": -2.5e-3}, \"...\"], "
		"\"d\": {\"e\": null, \"f\\u00e9\\\"\": true, \"g\": \"x12345678901234567890123\"}}";
	char text[2 * sizeof(whole)];
	struct sp_random r;
	unsigned refused = 0;

	sp_random_seed(&r, 10, 0);
	for (unsigned i = 0; i < 5 * SEEDS; i++) {
		size_t len = sizeof(whole) - 1;

		strcpy(text, whole);
		for (unsigned changes = 1 + (unsigned)(sp_random_next(&r) % 3); changes; changes--) {
			static const char likely[] = "0123456789.eE+-\"\\{}[],: x";
			const size_t at = sp_random_next(&r) % len;

			if (sp_random_next(&r) % 4 == 0) { /* twice */
				memmove(text + at + 1, text + at, len - at + 1);
				len++;
			}
			text[at] = likely[sp_random_next(&r) % (sizeof(likely) - 1)];
		}
		const int64_t n = json(text, text);

		refused += n < 0;
		if (n > 0 || (n < 0 && (n != -EINVAL || !*error.text))) {
			say_all(text);
			CU_FAIL("neither refused nor equal");
			return;
		}
	}
	CU_ASSERT(refused > SEEDS && refused < 5 * SEEDS);
}

/* ---- memory -------------------------------------------------------------------------------------------------------
 */
static int64_t memory(const void *want, size_t want_len, const void *have, size_t have_len)
{
	saying = 0;
	memset(&error, 0, sizeof(error));
	file_write(&expected, want, want_len);
	return sp_expect_memory(expected.path, have, have_len, "context flows", &to_us, &error);
}

TEST(memory_must_be_the_same_and_zero_behind_it)
{
	static uint8_t want[200000], have[200000];

	for (size_t i = 0; i < sizeof(want); i++)
		want[i] = have[i] = (uint8_t)(i * 7 >> 3);
	CU_ASSERT_EQUAL(memory(want, sizeof(want), have, sizeof(have)), 0);
	have[65535] ^= 1, have[65536] ^= 1,
		have[65540] ^= 1; /* one difference, over the border of what is read at once */
	have[70000] ^= 0xFF;
	CU_ASSERT_EQUAL(memory(want, sizeof(want), have, sizeof(have)), 2);
	CU_ASSERT_PTR_NOT_NULL(strstr(said[0], "context flows, offset 0xffff: expected "));
	CU_ASSERT_PTR_NOT_NULL(strstr(said[0], "(6 bytes)"));
	CU_ASSERT_PTR_NOT_NULL(strstr(said[1], "offset 0x11170: expected "));
	CU_ASSERT_PTR_NOT_NULL(strstr(said[1], "(1 byte)"));
	memcpy(have, want, sizeof(have));
	memset(have + 1000, 0, sizeof(have) - 1000);
	CU_ASSERT_EQUAL(memory(want, 1000, have, sizeof(have)), 0);
	have[150000] = 1;
	CU_ASSERT_EQUAL(memory(want, 1000, have, sizeof(have)), 1);
	CU_ASSERT_STRING_EQUAL(said[0], "context flows, offset 0x249f0: expected 00, found 01 (1 byte)");
	CU_ASSERT_EQUAL(memory(want, 1000, want, 999), 1);
	CU_ASSERT_STRING_EQUAL(said[0], "context flows has 999 bytes, 1000 are expected");
	CU_ASSERT_EQUAL(memory(want, 1000, want, 0), 1);
	CU_ASSERT_EQUAL(memory("", 0, want, 10), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "expects nothing"));
	CU_ASSERT_EQUAL(sp_expect_memory("/nonexistent", want, 1, "", &to_us, &error), -ENOENT);
	CU_ASSERT_EQUAL(sp_expect_memory("/", want, 1, "", &to_us, &error), -EISDIR);
}

/* One byte changed anywhere: one difference, there. */
TEST(one_changed_byte_of_memory_is_found_where_it_is)
{
	static uint8_t want[70000], have[70000];
	struct sp_random r;
	char text[64];

	sp_random_seed(&r, 6, 0);
	for (unsigned i = 0; i < 1000; i++) {
		const size_t len = 1 + sp_random_next(&r) % sizeof(want), at = sp_random_next(&r) % len;

		memset(have, 0, len);
		memcpy(have, want, len);
		have[at] ^= (uint8_t)(1 + sp_random_next(&r) % 255);
		snprintf(text, sizeof(text), "context flows, offset 0x%zx: ", at);
		if (memory(want, len, have, len) != 1 || strncmp(said[0], text, strlen(text))) {
			say_all(text);
			CU_FAIL("not found");
			return;
		}
	}
}
