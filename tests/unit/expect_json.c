/* SPDX-License-Identifier: BSD-3-Clause */
/* JSON that a run writes, compared with what is expected. */
#include "../lib/expect_files.h"

/* ---- JSON ---- */
static int64_t json(const char *want, const char *have)
{
	expect_saying = 0;
	memset(&expect_error, 0, sizeof(expect_error));
	expect_file_text(&expect_want, want);
	return sp_expect_json(expect_want.path, have, &expect_to_us, &expect_error);
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
		if (json(row[i].want, row[i].have) != row[i].count ||
		    (row[i].words && strcmp(expect_said[0], row[i].words))) {
			expect_say_all(row[i].want);
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
		if (json(row[i].want, "{\"a\": 7}") != -EINVAL || !strstr(expect_error.text, row[i].words) ||
		    !strstr(expect_error.text, expect_want.path) || expect_saying) {
			expect_say_all(row[i].want);
			CU_FAIL("not refused");
		}
	strcpy(deep, "{\"a\": ");
	memset(deep + 6, '[', 9000);
	CU_ASSERT_EQUAL(json(deep, "{}"), -EINVAL); /* as deep as to cost the stack, if it were followed */
	strcpy(deep, "{\"a\": ");
	memset(deep + 6, '9', 9000);
	strcpy(deep + 9006, "}");
	CU_ASSERT_EQUAL(json(deep, "{}"), -EINVAL);
	CU_ASSERT(sp_expect_json("/nonexistent", "{}", &expect_to_us, &expect_error) < 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(expect_error.text, "/nonexistent"));
	CU_ASSERT(sp_expect_json("/", "{}", &expect_to_us, &expect_error) < 0);
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
	CU_ASSERT_PTR_NOT_NULL(strstr(expect_said[0], "member0.member1.member2"));
	CU_ASSERT_PTR_NOT_NULL(strstr(expect_said[0], ": expected 7, found 8"));
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
		if (n > 0 || (n < 0 && (n != -EINVAL || !*expect_error.text))) {
			expect_say_all(text);
			CU_FAIL("neither refused nor equal");
			return;
		}
	}
	CU_ASSERT(refused > SEEDS && refused < 5 * SEEDS);
}

/* ---- memory ---- */
static int64_t memory(const void *want, size_t want_len, const void *have, size_t have_len)
{
	expect_saying = 0;
	memset(&expect_error, 0, sizeof(expect_error));
	expect_file_write(&expect_want, want, want_len);
	return sp_expect_memory(expect_want.path, have, have_len, "context flows", &expect_to_us, &expect_error);
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
	CU_ASSERT_PTR_NOT_NULL(strstr(expect_said[0], "context flows, offset 0xffff: expected "));
	CU_ASSERT_PTR_NOT_NULL(strstr(expect_said[0], "(6 bytes)"));
	CU_ASSERT_PTR_NOT_NULL(strstr(expect_said[1], "offset 0x11170: expected "));
	CU_ASSERT_PTR_NOT_NULL(strstr(expect_said[1], "(1 byte)"));
	memcpy(have, want, sizeof(have));
	memset(have + 1000, 0, sizeof(have) - 1000);
	CU_ASSERT_EQUAL(memory(want, 1000, have, sizeof(have)), 0);
	have[150000] = 1;
	CU_ASSERT_EQUAL(memory(want, 1000, have, sizeof(have)), 1);
	CU_ASSERT_STRING_EQUAL(expect_said[0], "context flows, offset 0x249f0: expected 00, found 01 (1 byte)");
	CU_ASSERT_EQUAL(memory(want, 1000, want, 999), 1);
	CU_ASSERT_STRING_EQUAL(expect_said[0], "context flows has 999 bytes, 1000 are expected");
	CU_ASSERT_EQUAL(memory(want, 1000, want, 0), 1);
	CU_ASSERT_EQUAL(memory("", 0, want, 10), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(expect_error.text, "expects nothing"));
	CU_ASSERT_EQUAL(sp_expect_memory("/nonexistent", want, 1, "", &expect_to_us, &expect_error), -ENOENT);
	CU_ASSERT_EQUAL(sp_expect_memory("/", want, 1, "", &expect_to_us, &expect_error), -EISDIR);
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
		if (memory(want, len, have, len) != 1 || strncmp(expect_said[0], text, strlen(text))) {
			expect_say_all(text);
			CU_FAIL("not found");
			return;
		}
	}
}
