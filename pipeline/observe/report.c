/* SPDX-License-Identifier: BSD-3-Clause */
/* Reports as a tree of jansson values. A handler's report() is not trusted: after the first invalid call all others do
 * nothing, and sp_report_finish() returns NULL. */
#include <jansson.h>
#include <stdlib.h>

#include "../nic.h"
#include "report.h"

#define REPORT_DEPTH 16 /* nesting of objects and lists, including the outermost */

struct sp_report {
	json_t *open[REPORT_DEPTH]; /* open[0] owns the others */
	unsigned depth;		    /* entries of open[] */
	bool spoilt;
};

struct sp_report *sp_report_new(void)
{
	struct sp_report *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->open[0] = json_object();
	r->depth = 1;
	if (!r->open[0]) {
		free(r);
		return NULL;
	}
	return r;
}

/* Length of the UTF-8 character at s; 0: invalid (RFC 3629: no surrogates, no overlong forms). */
static unsigned character(const unsigned char *s)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	unsigned len = s[0] < 0x80 ? 1 : s[0] < 0xC2 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : s[0] < 0xF5 ? 4 : 0;
	uint32_t code = s[0] & (0x7Fu >> len);

	for (unsigned i = 1; i < len; i++) {
		if ((s[i] & 0xC0) != 0x80) /* also the end of the string */
			return 0;
		code = code << 6 | (s[i] & 0x3F);
	}
	return len > 1 && (code < least[len] || code > 0x10FFFF || code >> 11 == 0x1B) ? 0 : len;
}

/* Copies text and replaces each invalid byte by U+FFFD, since jansson rejects invalid UTF-8. Caller frees. */
static char *utf8(const char *text)
{
	char *copy = malloc(3 * strlen(text) + 1), *to = copy;

	for (const unsigned char *s = (const unsigned char *)text; copy && *s;) {
		unsigned len = character(s);
		memcpy(to, len ? (const char *)s : "\xEF\xBF\xBD", len ? len : 3);
		to += len ? len : 3;
		s += len ? len : 1;
	}
	if (copy)
		*to = 0;
	return copy;
}

/* Takes value. True: added. */
static bool put(struct sp_report *r, const char *name, json_t *value)
{
	json_t *into = r->open[r->depth - 1];

	char *key = name ? utf8(name) : NULL;

	if (name && (!key || json_object_get(into, key))) { /* jansson would replace the first value of that name */
		json_decref(value);
		r->spoilt = true;
	} else if (name ? json_object_set_new(into, key, value) : json_array_append_new(into, value)) {
		r->spoilt = true; /* no value, no memory, or a misplaced or missing name: jansson has released value */
	}
	free(key);
	return !r->spoilt;
}

void sp_report_uint(struct sp_report *r, const char *name, uint64_t value)
{
	if (!r || r->spoilt)
		return;
	/* jansson's integers are signed; most JSON readers use doubles for larger ones anyway */
	put(r, name, value > INT64_MAX ? json_real((double)value) : json_integer((json_int_t)value));
}

void sp_report_string(struct sp_report *r, const char *name, const char *value)
{
	if (!r || r->spoilt)
		return;
	char *text = value ? utf8(value) : NULL;
	put(r, name, text ? json_string(text) : value ? NULL : json_null());
	free(text);
}

void sp_report_bool(struct sp_report *r, const char *name, bool value)
{
	if (!r || r->spoilt)
		return;
	put(r, name, json_boolean(value));
}

void sp_report_open(struct sp_report *r, const char *name, bool list)
{
	if (!r || r->spoilt)
		return;
	if (r->depth == REPORT_DEPTH) {
		r->spoilt = true;
		return;
	}
	json_t *value = list ? json_array() : json_object();
	if (put(r, name, value))
		r->open[r->depth++] = value; /* borrowed from the tree */
}

void sp_report_close(struct sp_report *r)
{
	if (!r || r->spoilt)
		return;
	if (r->depth == 1)
		r->spoilt = true;
	else
		r->depth--;
}

bool sp_report_has(const struct sp_report *r, const char *name)
{
	char *key = r && !r->spoilt ? utf8(name) : NULL;
	const bool has = key && json_object_get(r->open[r->depth - 1], key);

	free(key);
	return has;
}

void sp_report_spoil(struct sp_report *r)
{
	if (r)
		r->spoilt = true;
}

static bool fits(const struct sp_report *r, const struct sp_report *part)
{
	const char *key;
	json_t *value;

	if (!part || part->spoilt || part->depth != 1)
		return false;
	json_object_foreach(part->open[0], key, value) if (json_object_get(r->open[r->depth - 1], key)) return false;
	return true;
}

bool sp_report_adopt(struct sp_report *r, struct sp_report *part)
{
	const bool good = r && !r->spoilt && fits(r, part);

	if (good && json_object_update(r->open[r->depth - 1], part->open[0]))
		r->spoilt = true;
	if (part)
		json_decref(part->open[0]);
	free(part);
	return good;
}

char *sp_report_finish(struct sp_report *r)
{
	char *text = NULL;

	if (!r)
		return NULL;
	if (!r->spoilt && r->depth == 1)
		text = json_dumps(r->open[0], JSON_INDENT(2) | JSON_PRESERVE_ORDER);
	json_decref(r->open[0]);
	free(r);
	return text;
}
