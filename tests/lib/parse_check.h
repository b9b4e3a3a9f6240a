/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses a frame in a buffer of its exact length and names the result. */
#ifndef TESTS_PARSE_CHECK_H
#define TESTS_PARSE_CHECK_H

#include "captures.h"
#include "frame.h"
#include "../../handlers/wire/roce.h"
#include "../../pipeline/frame/parser.h"
#include "../../pipeline/frame/parser_plain.h"

#define REJECT(reason) (-1 - SP_DROP_##reason)

struct result {
	int parsed;
	uint16_t type;
	struct sp_packet p;
	uint32_t data; /* offset */
};

/* Parses a malloc of exactly len bytes: under ASan a read beyond is an error. Fields start as `poison`. */
struct result parse_poisoned(const uint8_t *bytes, uint32_t len, uint8_t poison);
struct result parse_frame(const uint8_t *bytes, uint32_t len);
const char *parse_name_of(int parsed);
void parse_expect_(unsigned line, int got, int want, const struct frame_shape *s, uint32_t len);

#define EXPECT(got, want, shape, len) parse_expect_(__LINE__, got, want, shape, len)
#define PAYLOAD			      9
#define PAD			      3

void parse_each_shape(void (*check)(const struct frame_shape *, struct frame *));

#endif
