/* SPDX-License-Identifier: BSD-3-Clause */
/* Reports: the JSON that comes out, and that misuse gives no report instead of a crash or a wrong one. */
#include "../lib/suite.h"

#include <jansson.h>

#include "../../pipeline/nic.h"
#include "../../pipeline/observe/report.h"

static void finishes_as(struct sp_report *r, const char *want)
{
	char *text = sp_report_finish(r);

	CU_ASSERT_PTR_NOT_NULL_FATAL(text);
	if (strcmp(text, want))
		printf("# have %s\n", text);
	CU_ASSERT_STRING_EQUAL(text, want);
	free(text);
}

/* After a misuse: no report, and whatever else was called in between did no harm. */
static void spoils(struct sp_report *r, bool with_more)
{
	if (with_more) {
		sp_report_uint(r, "after", 1);
		sp_report_string(r, "after", "x");
		sp_report_bool(r, "after", true);
		sp_report_open(r, "x", true);
		sp_report_close(r);
		sp_report_close(r);
	}
	CU_ASSERT_PTR_NULL(sp_report_finish(r));
}

TEST(values_come_out_in_order_with_two_blanks)
{
	struct sp_report *r = sp_report_new();

	sp_report_uint(r, "zebra", 5);
	sp_report_bool(r, "ape", true);
	sp_report_string(r, "none", NULL);
	sp_report_open(r, "list", true);
	sp_report_string(r, NULL, "a");
	sp_report_open(r, NULL, false);
	sp_report_bool(r, "b", false);
	sp_report_close(r);
	sp_report_close(r);
	sp_report_open(r, "empty", false);
	sp_report_close(r);
	finishes_as(r, "{\n"
		       "  \"zebra\": 5,\n"
		       "  \"ape\": true,\n"
		       "  \"none\": null,\n"
		       "  \"list\": [\n"
		       "    \"a\",\n"
		       "    {\n"
		       "      \"b\": false\n"
		       "    }\n"
		       "  ],\n"
		       "  \"empty\": {}\n"
		       "}");
	finishes_as(sp_report_new(), "{}");
}

TEST(large_numbers_are_exact_up_to_63_bits)
{
	struct sp_report *r = sp_report_new();

	sp_report_uint(r, "a", INT64_MAX);
	sp_report_uint(r, "b", UINT64_MAX);
	finishes_as(r, "{\n  \"a\": 9223372036854775807,\n  \"b\": 1.8446744073709552e19\n}");
}

TEST(text_that_is_no_utf8_is_replaced_byte_by_byte)
{
	static const struct {
		const char *in, *out;
	} row[] = {{"plain", "plain"},
		   {"\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80", "\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80"},
		   {"a\xFFz", "a\uFFFDz"},
		   {"\x80", "\uFFFD"},
		   {"\xC3", "\uFFFD"},			   /* cut off */
		   {"\xE2\x82", "\uFFFD\uFFFD"},	   /* cut off */
		   {"\xC0\x80", "\uFFFD\uFFFD"},	   /* NUL in two bytes */
		   {"\xE0\x80\x80", "\uFFFD\uFFFD\uFFFD"}, /* longer than needed */
		   {"\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"}, /* surrogate */
		   {"\xF4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
		   {"\xF5\x80\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
		   {"\"\\\n\x01", "\"\\\n\x01"}};

	for (unsigned i = 0; i < sizeof(row) / sizeof(*row); i++) {
		struct sp_report *r = sp_report_new();
		sp_report_string(r, row[i].in, row[i].in);
		char *text = sp_report_finish(r);
		CU_ASSERT_PTR_NOT_NULL_FATAL(text);
		json_t *json = json_loads(text, 0, NULL);
		CU_ASSERT_PTR_NOT_NULL_FATAL(json);
		const char *have = json_string_value(json_object_get(json, row[i].out));
		CU_ASSERT_PTR_NOT_NULL_FATAL(have);
		CU_ASSERT_STRING_EQUAL(have, row[i].out);
		json_decref(json);
		free(text);
	}
}

TEST(every_two_byte_text_gives_json)
{
	for (unsigned a = 1; a < 256; a++)
		for (unsigned b = 0; b < 256; b++) {
			const char in[] = {(char)a, (char)b, 0};
			struct sp_report *r = sp_report_new();
			sp_report_string(r, "x", in);
			char *text = sp_report_finish(r);
			CU_ASSERT_PTR_NOT_NULL(text);
			free(text);
		}
}

static void misuse(bool with_more)
{
	struct sp_report *r = sp_report_new();
	sp_report_close(r); /* close without open */
	spoils(r, with_more);
	r = sp_report_new();
	sp_report_uint(r, NULL, 1); /* no name in an object */
	spoils(r, with_more);
	r = sp_report_new();
	sp_report_open(r, NULL, false);
	spoils(r, with_more);
	r = sp_report_new();
	sp_report_open(r, "list", true);
	sp_report_string(r, "name", "in a list");
	sp_report_close(r);
	spoils(r, with_more);
	r = sp_report_new();
	sp_report_bool(r, "same", true); /* would be lost */
	sp_report_bool(r, "same", false);
	spoils(r, with_more);
	r = sp_report_new();
	sp_report_open(r, "left open", true);
	spoils(r, false);
}

TEST_CALL(misuse_gives_no_report, misuse(false))

TEST(calls_after_misuse_do_no_harm)
{
	misuse(true);
	sp_report_uint(NULL, "a", 1);
	sp_report_string(NULL, "a", "b");
	sp_report_bool(NULL, "a", true);
	sp_report_open(NULL, "a", true);
	sp_report_close(NULL);
	CU_ASSERT_PTR_NULL(sp_report_finish(NULL));
}

TEST(depth_is_bounded)
{
	struct sp_report *r = sp_report_new();

	for (unsigned i = 0; i < 15; i++)
		sp_report_open(r, i ? NULL : "deep", true);
	for (unsigned i = 0; i < 15; i++)
		sp_report_close(r);
	char *text = sp_report_finish(r);
	CU_ASSERT_PTR_NOT_NULL(text);
	free(text);
	r = sp_report_new();
	for (unsigned i = 0; i < 16; i++)
		sp_report_open(r, i ? NULL : "deep", true);
	for (unsigned i = 0; i < 16; i++)
		sp_report_close(r);
	CU_ASSERT_PTR_NULL(sp_report_finish(r));
}
