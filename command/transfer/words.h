/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of the lines that both ends send: values, names, addresses. */
#ifndef COMMAND_TRANSFER_WORDS_H
#define COMMAND_TRANSFER_WORDS_H

#include "talk.h"

/* 0; or -EPROTO, and nothing is stored. */
int talk_uint(const json_t *line, const char *key, uint64_t least, uint64_t most, uint64_t *value);
/* Hexadecimal of least to most bytes; *len (may be NULL) gets how many. */
int talk_bytes(const json_t *line, const char *key, void *bytes, size_t least, size_t most, size_t *len);
json_t *talk_hex(const void *bytes, size_t len);

/* The sender's first line. */
struct talk_hello {
	uint64_t session, size, message, chunk, mtu; /* mtu 0: the most that both ports carry */
	uint64_t family;			     /* 4, 6; 0: either */
	uint64_t payload[2]; /* IPv4, IPv6: bytes that a packet of its port carries; 0: no address */
	char name[256];
	char scheme[TALK_SCHEME]; /* of reliability, by name: lower case, digits and '-' */
};
json_t *talk_hello_line(const struct talk_hello *hello);
/* On error, *what (a static text) says what is wrong. */
int talk_hello_get(const json_t *line, struct talk_hello *hello, const char **what);
/* Whether a file of that name stays in its directory, and is visible there. */
bool talk_name_fine(const char *name);
/* "host", "host:port", "1.2.3.4:port", "::1", "[::1]:port", with `listen` also "port" alone: host may become "".
 * without: the port where there is none. */
int talk_split(const char *text, bool listen, const char *without, char host[256], char port[16]);
/* Replaces control characters, in text from the peer for our terminal. */
void talk_clean(char *text);

#endif
