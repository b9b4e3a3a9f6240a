/* SPDX-License-Identifier: BSD-3-Clause */
#include "words.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int talk_uint(const json_t *line, const char *key, uint64_t least, uint64_t most, uint64_t *value)
{
	const json_t *word = json_object_get(line, key);
	const json_int_t number = json_integer_value(word);

	if (!json_is_integer(word) || number < 0 || (uint64_t)number < least || (uint64_t)number > most)
		return -EPROTO;
	*value = (uint64_t)number;
	return 0;
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int talk_bytes(const json_t *line, const char *key, void *bytes, size_t least, size_t most, size_t *len)
{
	const json_t *word = json_object_get(line, key);
	const char *text = json_string_value(word);
	const size_t digits = text ? json_string_length(word) : 0;

	if (!text || digits % 2 || digits / 2 < least || digits / 2 > most)
		return -EPROTO;
	for (size_t i = 0; i < digits; i++)
		if (hex_digit(text[i]) < 0)
			return -EPROTO;
	for (size_t i = 0; i < digits / 2; i++)
		((uint8_t *)bytes)[i] = (uint8_t)(hex_digit(text[2 * i]) << 4 | hex_digit(text[2 * i + 1]));
	if (len)
		*len = digits / 2;
	return 0;
}

json_t *talk_hex(const void *bytes, size_t len)
{
	char text[2 * 256];

	if (len > 256)
		return NULL;
	for (size_t i = 0; i < len; i++) {
		text[2 * i] = "0123456789abcdef"[((const uint8_t *)bytes)[i] >> 4];
		text[2 * i + 1] = "0123456789abcdef"[((const uint8_t *)bytes)[i] & 15];
	}
	return json_stringn(text, 2 * len);
}

/* ---- the sender's first line ---- */
json_t *talk_hello_line(const struct talk_hello *h)
{
	return json_pack("{s:s, s:i, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s}", "spindle", "file", "version",
			 TALK_VERSION, "session", talk_hex(&h->session, sizeof(h->session)), "name",
			 talk_hex(h->name, strlen(h->name)), "size", (json_int_t)h->size, "message",
			 (json_int_t)h->message, "chunk", (json_int_t)h->chunk, "mtu", (json_int_t)h->mtu, "family",
			 (json_int_t)h->family, "payload4", (json_int_t)h->payload[0], "payload6",
			 (json_int_t)h->payload[1], "scheme", h->scheme);
}

static int scheme_get(const json_t *line, char scheme[TALK_SCHEME])
{
	const char *text = json_string_value(json_object_get(line, "scheme"));
	const size_t len = text ? strlen(text) : 0;

	if (!len || len >= TALK_SCHEME || strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") != len)
		return -EPROTO;
	memcpy(scheme, text, len + 1);
	return 0;
}

int talk_hello_get(const json_t *line, struct talk_hello *hello, const char **what)
{
	const char *magic = json_string_value(json_object_get(line, "spindle"));
	struct talk_hello h = {.session = 0};
	uint64_t version;
	size_t len;

	*what = "no spindle send";
	if (!magic || strcmp(magic, "file"))
		return -EPROTO;
	*what = "version";
	if (talk_uint(line, "version", TALK_VERSION, TALK_VERSION, &version))
		return -EPROTO;
	*what = "session";
	if (talk_bytes(line, "session", &h.session, sizeof(h.session), sizeof(h.session), NULL))
		return -EPROTO;
	*what = "file name";
	if (talk_bytes(line, "name", h.name, 1, sizeof(h.name) - 1, &len) || strlen(h.name) != len)
		return -EPROTO;
	*what = "parameters";
	if (talk_uint(line, "size", 0, INT64_MAX, &h.size) || talk_uint(line, "message", 1, TALK_MESSAGE, &h.message) ||
	    talk_uint(line, "chunk", 1, TALK_MESSAGE, &h.chunk) || talk_uint(line, "mtu", 0, UINT32_MAX, &h.mtu) ||
	    talk_uint(line, "family", 0, 6, &h.family) || (h.family && h.family != 4 && h.family != 6) ||
	    talk_uint(line, "payload4", 0, UINT32_MAX, &h.payload[0]) ||
	    talk_uint(line, "payload6", 0, UINT32_MAX, &h.payload[1]))
		return -EPROTO;
	*what = "reliability scheme";
	if (scheme_get(line, h.scheme))
		return -EPROTO;
	*hello = h;
	return 0;
}

bool talk_name_fine(const char *name)
{
	/* No leading dot: strangers must not plant configuration files. */
	return *name && *name != '.' && !strchr(name, '/') && strlen(name) <= 255;
}

/* ---- text ---- */
int talk_split(const char *text, bool listen, const char *without, char host[256], char port[16])
{
	const char *colon = strrchr(text, ':'), *end = text + strlen(text), *p = without;
	size_t len;

	if (*text == '[') {
		end = strchr(text, ']');
		if (!end || (end[1] && end[1] != ':'))
			return -EINVAL;
		p = end[1] ? end + 2 : p;
		text++;
	} else if (colon && strchr(text, ':') == colon) {
		end = colon;
		p = colon + 1;
	} else if (listen && !colon && strspn(text, "0123456789") == strlen(text)) {
		p = text;
		end = text;
	}
	len = (size_t)(end - text);
	if (len > 255 || (!len && !listen) || !*p || strlen(p) > 15 || strspn(p, "0123456789") != strlen(p) ||
	    strtoul(p, NULL, 10) > 65535)
		return -EINVAL;
	memcpy(host, text, len);
	host[len] = 0;
	snprintf(port, 16, "%s", p);
	return 0;
}

void talk_clean(char *text)
{
	for (uint8_t *c = (uint8_t *)text; *c; c++)
		if (*c < 0x20 || *c == 0x7F)
			*c = '?';
		else if (c[0] == 0xC2 && c[1] >= 0x80 && c[1] < 0xA0) /* the C1 control characters, in UTF-8 */
			c[0] = c[1] = '?';
}
