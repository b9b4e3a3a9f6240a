/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One strict parser per kind of value: no sign, no blanks, nothing after the value, no silent overflow, no octal.
 * strtoull() would take all of these. An output is written only on success.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "value.h"
#include "nic.h"

struct unit {
	const char *name;
	uint64_t scale;
};

/* Decimal digits at *text, which is moved past them. */
static int parse_digits(const char **text, uint64_t *value)
{
	const char *s = *text;
	uint64_t sum = 0;

	if (*s < '0' || *s > '9')
		return -EINVAL;
	for (; *s >= '0' && *s <= '9'; s++)
		if (__builtin_mul_overflow(sum, 10, &sum) || __builtin_add_overflow(sum, (uint64_t)(*s - '0'), &sum))
			return -ERANGE;
	*text = s;
	*value = sum;
	return 0;
}

static int parse_hex(const char *s, uint64_t *value)
{
	uint64_t sum = 0;

	if (!*s)
		return -EINVAL;
	for (; *s; s++) {
		uint64_t digit = *s >= '0' && *s <= '9'	  ? *s - '0'
				 : *s >= 'a' && *s <= 'f' ? *s - 'a' + 10
				 : *s >= 'A' && *s <= 'F' ? *s - 'A' + 10
							  : 16;
		if (digit == 16)
			return -EINVAL;
		if (sum >> 60)
			return -ERANGE;
		sum = sum << 4 | digit;
	}
	*value = sum;
	return 0;
}

static const struct unit *unit_find(const struct unit *unit, const char *name)
{
	for (; unit->name; unit++)
		if (!strcmp(unit->name, name))
			return unit;
	return NULL;
}

/* Digits, perhaps a point and digits, a unit. What is finer than 1 of the result is refused, not rounded. */
static int parse_scaled(const char *text, const struct unit *units, uint64_t *value)
{
	uint64_t sum;
	int error = parse_digits(&text, &sum);

	if (error)
		return error;
	const char *fraction = *text == '.' ? text + 1 : "";
	size_t digits = strspn(fraction, "0123456789");
	if (*text == '.' && !digits)
		return -EINVAL;
	const struct unit *unit = unit_find(units, *text == '.' ? fraction + digits : text);
	if (!unit)
		return -EINVAL;
	if (__builtin_mul_overflow(sum, unit->scale, &sum))
		return -ERANGE;
	uint64_t scale = unit->scale;
	for (size_t i = 0; i < digits; i++) {
		if (scale < 10 && fraction[i] != '0') /* scales are powers of ten */
			return -EINVAL;
		scale /= 10;
		if (__builtin_add_overflow(sum, scale * (uint64_t)(fraction[i] - '0'), &sum))
			return -ERANGE;
	}
	*value = sum;
	return 0;
}

int sp_parse_uint(const char *text, uint64_t *value)
{
	static const struct unit units[] = {{"", 1},	       {"K", 1ull << 10}, {"k", 1ull << 10}, {"M", 1ull << 20},
					    {"G", 1ull << 30}, {"T", 1ull << 40}, {NULL, 0}};
	uint64_t sum;

	if (!text)
		return -EINVAL;
	if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
		return parse_hex(text + 2, value);
	int error = parse_digits(&text, &sum);
	if (error)
		return error;
	const struct unit *unit = unit_find(units, text);
	if (!unit)
		return -EINVAL;
	if (__builtin_mul_overflow(sum, unit->scale, &sum))
		return -ERANGE;
	*value = sum;
	return 0;
}

int sp_parse_bool(const char *text, uint64_t *value)
{
	static const char *const words[] = {"no", "yes", "off", "on", "false", "true", "0", "1"};

	for (unsigned i = 0; text && i < sizeof(words) / sizeof(*words); i++)
		if (!strcasecmp(text, words[i])) {
			*value = i & 1;
			return 0;
		}
	return -EINVAL;
}

int sp_parse_time(const char *text, uint64_t *ps)
{
	static const struct unit units[] = {{"ps", 1},	   {"ns", SP_NS}, {"us", SP_US},
					    {"ms", SP_MS}, {"s", SP_SEC}, {NULL, 0}};
	uint64_t value;

	if (!text)
		return -EINVAL;
	if (!strcmp(text, "0")) { /* the one time that is the same in every unit */
		*ps = 0;
		return 0;
	}
	int error = parse_scaled(text, units, &value);
	if (error)
		return error;
	if (value == SP_NEVER)
		return -ERANGE;
	*ps = value;
	return 0;
}

int sp_parse_rate(const char *text, uint64_t *bits)
{
	static const struct unit units[] = {{"", 1},	    {"k", 1000},	  {"K", 1000},
					    {"M", 1000000}, {"G", 1000000000ull}, {"T", 1000000000000ull},
					    {NULL, 0}};

	return text ? parse_scaled(text, units, bits) : -EINVAL;
}

int sp_parse_ip(const char *text, uint8_t ip[16], uint8_t *prefix)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	char address[INET6_ADDRSTRLEN];
	uint8_t bytes[16];
	uint64_t bits = 0;

	if (!text)
		return -EINVAL;
	const char *slash = strchr(text, '/');
	size_t len = slash ? (size_t)(slash - text) : strlen(text);
	if (len >= sizeof(address) || (slash && !prefix))
		return -EINVAL;
	memcpy(address, text, len);
	address[len] = 0;
	if (slash) {
		const char *s = slash + 1;
		int error = parse_digits(&s, &bits);
		if (error)
			return error;
		if (*s)
			return -EINVAL;
	}
	if (inet_pton(AF_INET, address, bytes + 12) == 1) {
		memcpy(bytes, mapped, 12);
		bits = slash ? bits : 24;
	} else if (inet_pton(AF_INET6, address, bytes) == 1) {
		/* ::ffff:a.b.c.d is IPv4; its prefix counts the 96 bits before it, too (fewer wrap, and are refused
		 * below) */
		bool is_mapped = !memcmp(bytes, mapped, 12);
		bits = is_mapped ? (slash ? bits - 96 : 24) : slash ? bits : 64;
	} else {
		return -EINVAL;
	}
	if (bits > (memcmp(bytes, mapped, 12) ? 128 : 32))
		return -ERANGE;
	memcpy(ip, bytes, 16);
	if (prefix)
		*prefix = (uint8_t)bits;
	return 0;
}

int sp_parse_mac(const char *text, uint8_t mac[6])
{
	uint8_t bytes[6];

	if (!text || strnlen(text, 18) != 17 || (text[2] != ':' && text[2] != '-'))
		return -EINVAL;
	for (unsigned i = 0; i < 6; i++) {
		const char pair[3] = {text[3 * i], text[3 * i + 1]};
		uint64_t value;
		if ((i < 5 && text[3 * i + 2] != text[2]) || parse_hex(pair, &value))
			return -EINVAL;
		bytes[i] = (uint8_t)value;
	}
	memcpy(mac, bytes, 6);
	return 0;
}

void sp_format_ip(const uint8_t ip[16], char text[46])
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	bool is4 = !memcmp(ip, mapped, 12);

	if (!inet_ntop(is4 ? AF_INET : AF_INET6, is4 ? ip + 12 : ip, text, 46))
		text[0] = 0; /* cannot be: the room is enough for both */
}

/* Edits (insert, delete, replace, swap neighbours) between two words of at most 32 letters. */
static unsigned distance(const char *a, const char *b)
{
	unsigned rows[3][33], la = (unsigned)strlen(a), lb = (unsigned)strlen(b);
	unsigned *before = rows[0], *above = rows[1], *row = rows[2];

	for (unsigned j = 0; j <= lb; j++)
		before[j] = above[j] = j;
	for (unsigned i = 1; i <= la; i++) {
		row[0] = i;
		for (unsigned j = 1; j <= lb; j++) {
			unsigned best = above[j - 1] + (a[i - 1] != b[j - 1]);
			best = above[j] + 1 < best ? above[j] + 1 : best;
			best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
				best = before[j - 2] + 1;
			row[j] = best;
		}
		unsigned *free_row = before;
		before = above;
		above = row;
		row = free_row;
	}
	return above[lb];
}

const char *sp_nearest(const char *word, const char *const *known)
{
	const char *best = NULL;
	unsigned least = 3; /* three edits make another word */

	if (strlen(word) > 32)
		return NULL;
	for (; *known; known++) {
		if (strlen(*known) > 32)
			continue;
		unsigned edits = distance(word, *known);
		/* at most half of the word may be wrong */
		if (edits < least && 2 * edits <= strlen(*known)) {
			least = edits;
			best = *known;
		}
	}
	return best;
}
