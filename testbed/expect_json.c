/* SPDX-License-Identifier: BSD-3-Clause */
/* JSON, as a subset. */
#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "expect_private.h"

#define FILE_MAX (64u << 20) /* bytes of an expectation file */
#define GOES_ON	 "..."	     /* last element of an expected list that may be longer */

/* ---- reading ---- */
/*
 * Integers above 2^63 - 1, which jansson refuses, become reals: the report writes its large ones so. Other integers
 * stay (JSON_DECODE_INT_AS_REAL would round all above 2^53). The caller frees the result; NULL: no memory.
 */
static char *large_as_real(const char *text, size_t len, size_t *new_len)
{
	char *copy = malloc(len + len / 9 + 4), *to = copy; /* numbers of 19 digits and more grow by two characters */
	bool string = false;

	for (size_t i = 0; copy && i < len;) {
		size_t n = text[i] == '-';

		if (string ||
		    !(isdigit((unsigned char)text[i]) || (n && i + 1 < len && isdigit((unsigned char)text[i + 1])))) {
			if (string && text[i] == '\\' && i + 1 < len)
				*to++ = text[i++];
			else if (text[i] == '"')
				string = !string;
			*to++ = text[i++];
			continue;
		}
		while (i + n < len && isdigit((unsigned char)text[i + n]))
			n++;
		bool real = i + n < len && strchr(".eE", text[i + n]) && text[i + n];

		if (real)
			while (i + n < len &&
			       (isdigit((unsigned char)text[i + n]) || (text[i + n] && strchr(".eE+-", text[i + n]))))
				n++;
		memcpy(to, text + i, n);
		to[n] = '\0';
		errno = 0;
		if (!real && n > 18 && (strtoll(to, NULL, 10), errno == ERANGE)) {
			memcpy(to + n, ".0", 2);
			to += 2;
		}
		to += n;
		i += n;
	}
	if (copy)
		*new_len = (size_t)(to - copy);
	return copy;
}

static json_t *parse(const char *name, const char *text, size_t len, struct sp_error *error)
{
	json_error_t why = {.line = 0};
	size_t new_len = 0;
	char *copy = large_as_real(text, len, &new_len), words[200];
	json_t *tree = copy ? json_loadb(copy, new_len, JSON_REJECT_DUPLICATES, &why) : NULL;

	free(copy);
	if (tree)
		return tree;
	if (!copy)
		snprintf(words, sizeof(words), "%s", strerror(ENOMEM));
	else
		snprintf(words, sizeof(words), "no JSON: line %d, column %d: %s", why.line, why.column, why.text);
	sp_expect_fail(error, copy ? -EINVAL : -ENOMEM, name, words);
	return NULL;
}

static char *read_file(const char *name, size_t *len, struct sp_error *error)
{
	FILE *file = fopen(name, "rb");
	size_t room = 4096, n;
	char *text = NULL, *more;
	struct stat st;
	int err = 0;

	*len = 0;
	if (!file) {
		sp_expect_fail(error, -errno, name, strerror(errno));
		return NULL;
	}
	if (!fstat(fileno(file), &st) && S_ISDIR(st.st_mode))
		err = EISDIR;
	while (!err) {
		more = realloc(text, room *= 2);
		if (!more) {
			err = ENOMEM;
			break;
		}
		text = more;
		errno = 0;
		n = fread(text + *len, 1, room - *len, file);
		*len += n;
		if (ferror(file))
			err = errno ? errno : EIO;
		else if (*len > FILE_MAX)
			err = EFBIG;
		else if (!n)
			break;
	}
	fclose(file);
	if (err || !*len) {
		sp_expect_fail(error, err ? -err : -EINVAL, name, err ? strerror(err) : "empty file");
		free(text);
		return NULL;
	}
	return text;
}

/* ---- comparing ---- */
static bool goes_on(const json_t *list)
{
	const size_t n = json_array_size(list);
	const json_t *last = n ? json_array_get(list, n - 1) : NULL;

	return last && json_is_string(last) && !strcmp(json_string_value(last), GOES_ON);
}

/* Whether the value expects anything. */
static bool expects(const json_t *value)
{
	const char *name;
	json_t *part;
	size_t i;

	if (json_is_object(value)) {
		json_object_foreach((json_t *)(uintptr_t)value, name, part) if (expects(part)) return true;
		return false;
	}
	if (!json_is_array(value) || !goes_on(value))
		return true;
	json_array_foreach(value, i, part) if (i + 1 < json_array_size(value) && expects(part)) return true;
	return json_array_size(value) > 1;
}

static void words(const json_t *value, char *text, size_t room)
{
	char *dump;

	if (!value) {
		snprintf(text, room, "nothing");
	} else if (json_is_object(value)) {
		snprintf(text, room, "an object");
	} else if (json_is_array(value)) {
		snprintf(text, room, "a list");
	} else {
		dump = json_dumps(value, JSON_ENCODE_ANY);
		snprintf(text, room, "%s", dump ? dump : "?");
		free(dump);
	}
}

static bool numbers_equal(const json_t *a, const json_t *b)
{
	const json_t *real = json_is_real(a) ? a : b, *integer = json_is_real(a) ? b : a;
	double value;

	if (json_is_integer(a) && json_is_integer(b))
		return json_integer_value(a) == json_integer_value(b);
	if (json_is_real(a) && json_is_real(b))
		return json_real_value(a) == json_real_value(b);
	value = json_real_value(real); /* exact: not converted to a double */
	return value >= -0x1p63 && value < 0x1p63 && value == floor(value) &&
	       (json_int_t)value == json_integer_value(integer);
}

struct path {
	char text[400];
	size_t len;
};

/* Appends one step to the path; returns the length to restore afterwards. */
static size_t path_add(struct path *p, const char *name, size_t index)
{
	const size_t before = p->len;
	int n = name ? snprintf(p->text + p->len, sizeof(p->text) - p->len, "%s%s", p->len ? "." : "", name)
		     : snprintf(p->text + p->len, sizeof(p->text) - p->len, "[%zu]", index);

	p->len += (size_t)(n > 0 ? n : 0);
	if (p->len >= sizeof(p->text)) /* very deep: the text ends, the comparison goes on */
		p->len = sizeof(p->text) - 1;
	return before;
}

static void path_back(struct path *p, size_t len)
{
	p->len = len;
	p->text[len] = '\0';
}

static void compare(const json_t *expected, const json_t *found, struct path *p, struct sp_differences *d);

static void compare_object(const json_t *expected, const json_t *found, struct path *p, struct sp_differences *d)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)expected, name, value)
	{
		const size_t before = path_add(p, name, 0);

		compare(value, json_object_get(found, name), p, d);
		path_back(p, before);
	}
}

static void compare_list(const json_t *expected, const json_t *found, struct path *p, struct sp_differences *d)
{
	const bool open = goes_on(expected);
	const size_t n = json_array_size(expected) - open, m = json_array_size(found);

	if (open ? m < n : m != n)
		sp_differ(d, "%s: expected %s%zu element%s, found %zu", p->text, open ? "at least " : "", n,
			  n == 1 ? "" : "s", m);
	for (size_t i = 0; i < n && i < m; i++) {
		const size_t before = path_add(p, NULL, i);

		compare(json_array_get(expected, i), json_array_get(found, i), p, d);
		path_back(p, before);
	}
}

/* Recursion is bounded: jansson reads at most 2048 levels. */
static void compare(const json_t *expected, const json_t *found, struct path *p, struct sp_differences *d)
{
	char a[200], b[200];

	if (json_is_object(expected) && json_is_object(found)) {
		compare_object(expected, found, p, d);
	} else if (json_is_array(expected) && json_is_array(found)) {
		compare_list(expected, found, p, d);
	} else if (json_is_number(expected) && json_is_number(found) ? !numbers_equal(expected, found)
								     : !found || !json_equal(expected, found)) {
		words(expected, a, sizeof(a));
		words(found, b, sizeof(b));
		sp_differ(d, "%s: expected %s, found %s", p->text, a, b);
	}
}

int64_t sp_expect_json(const char *expected, const char *found, const struct sp_expect_say *say, struct sp_error *error)
{
	struct sp_differences d = {.say = say};
	struct path path = {.len = 0};
	json_t *want = NULL, *have = NULL;
	int64_t result = -EINVAL;
	size_t len;
	char *text = read_file(expected, &len, error);

	if (!text)
		return result;
	want = parse(expected, text, len, error);
	if (!want)
		goto out;
	if (!json_is_object(want)) {
		sp_expect_fail(error, -EINVAL, expected, "no JSON object, as a report is");
		goto out;
	}
	if (!expects(want)) {
		sp_expect_fail(error, -EINVAL, expected, "it expects nothing: no value is in it");
		goto out;
	}
	have = parse("the report", found, strlen(found), error);
	if (!have)
		goto out;
	compare(want, have, &path, &d);
	result = d.count;
out:
	json_decref(want);
	json_decref(have);
	free(text);
	return result;
}
