/* SPDX-License-Identifier: BSD-3-Clause */
#include "pcapng.h"

#include <errno.h>
#include <string.h>

enum {
	SECTION = 0x0A0D0D0A,
	BYTE_ORDER_MARK = 0x1A2B3C4D,
	INTERFACE = 1,
	STATISTICS = 5,
	PACKET = 6,
	ETHERNET = 1, /* LINKTYPE_ETHERNET */
	/* options; from 2 on, each kind of block has its own numbers */
	OPTION_END = 0,
	OPTION_COMMENT = 1,
	SECTION_APPLICATION = 4,
	INTERFACE_NAME = 2,
	INTERFACE_RESOLUTION = 9,
	NANOSECONDS = 9, /* 10^-9 */
	PACKET_FLAGS = 2,
	PACKET_QUEUE = 6,
	INBOUND = 1,
	OUTBOUND = 2,
	STATISTICS_START = 2,
	STATISTICS_END = 3,
	STATISTICS_RECEIVED = 4,
	STATISTICS_LOST = 5,
};

/* Fixed fields and options of a block. They are built first, as the block begins with its length. */
struct part {
	uint8_t bytes[768];
	uint32_t len;
};

static void add(struct part *p, const void *bytes, size_t len)
{
	memcpy(p->bytes + p->len, bytes, len);
	p->len += (uint32_t)len;
}

static void add16(struct part *p, uint16_t value)
{
	add(p, &value, sizeof(value));
}

static void add32(struct part *p, uint32_t value)
{
	add(p, &value, sizeof(value));
}

static void add64(struct part *p, uint64_t value)
{
	add(p, &value, sizeof(value));
}

/* The upper half of a time comes first, in either byte order. */
static void add_time(struct part *p, uint64_t time)
{
	add32(p, (uint32_t)(time >> 32));
	add32(p, (uint32_t)time);
}

static void option(struct part *p, uint16_t code, const void *bytes, size_t len)
{
	static const uint8_t zero[4];

	add16(p, code);
	add16(p, (uint16_t)len);
	add(p, bytes, len);
	add(p, zero, -len & 3);
}

static void option_text(struct part *p, uint16_t code, const char *text)
{
	option(p, code, text, strnlen(text, 255));
}

/* A block: fields, then bytes padded to 4, then options. */
static int write_block(FILE *to, uint32_t type, const struct part *fields, const void *bytes, uint32_t len,
		       const struct part *options)
{
	static const uint8_t zero[4];
	const uint32_t pad = -len & 3;
	const uint32_t total = 12 + fields->len + len + pad + options->len;
	const uint32_t head[2] = {type, total};

	errno = 0;
	if (fwrite(head, sizeof(head), 1, to) != 1 || fwrite(fields->bytes, 1, fields->len, to) != fields->len ||
	    fwrite(bytes, 1, len, to) != len || fwrite(zero, 1, pad, to) != pad ||
	    fwrite(options->bytes, 1, options->len, to) != options->len || fwrite(&total, sizeof(total), 1, to) != 1)
		return errno ? -errno : -EIO;
	return 0;
}

int pcapng_begin(FILE *to, const char *application)
{
	struct part fields = {.len = 0}, options = {.len = 0};

	add32(&fields, BYTE_ORDER_MARK);
	add16(&fields, 1); /* version 1.0 */
	add16(&fields, 0);
	add64(&fields, UINT64_MAX); /* length of the section: unknown */
	option_text(&options, SECTION_APPLICATION, application);
	add32(&options, OPTION_END);
	return write_block(to, SECTION, &fields, "", 0, &options);
}

int pcapng_interface(FILE *to, const char *name, uint32_t snaplen)
{
	struct part fields = {.len = 0}, options = {.len = 0};
	const uint8_t resolution = NANOSECONDS;

	add16(&fields, ETHERNET);
	add16(&fields, 0);
	add32(&fields, snaplen);
	option_text(&options, INTERFACE_NAME, name);
	option(&options, INTERFACE_RESOLUTION, &resolution, 1);
	add32(&options, OPTION_END);
	return write_block(to, INTERFACE, &fields, "", 0, &options);
}

int pcapng_packet(FILE *to, const struct pcapng_packet *packet)
{
	struct part fields = {.len = 0}, options = {.len = 0};
	const uint32_t flags = packet->outgoing ? OUTBOUND : INBOUND;

	add32(&fields, packet->interface);
	add_time(&fields, packet->time);
	add32(&fields, packet->captured);
	add32(&fields, packet->length);
	if (packet->comment && *packet->comment)
		option_text(&options, OPTION_COMMENT, packet->comment);
	option(&options, PACKET_FLAGS, &flags, sizeof(flags));
	option(&options, PACKET_QUEUE, &packet->queue, sizeof(packet->queue));
	add32(&options, OPTION_END);
	return write_block(to, PACKET, &fields, packet->frame, packet->captured, &options);
}

static void option_time(struct part *p, uint16_t code, uint64_t time)
{
	struct part value = {.len = 0};

	add_time(&value, time);
	option(p, code, value.bytes, value.len);
}

int pcapng_statistics(FILE *to, uint32_t interface, uint64_t start, uint64_t end, uint64_t received, uint64_t lost)
{
	struct part fields = {.len = 0}, options = {.len = 0};

	add32(&fields, interface);
	add_time(&fields, end);
	option_time(&options, STATISTICS_START, start);
	option_time(&options, STATISTICS_END, end);
	option(&options, STATISTICS_RECEIVED, &received, sizeof(received));
	option(&options, STATISTICS_LOST, &lost, sizeof(lost));
	add32(&options, OPTION_END);
	return write_block(to, STATISTICS, &fields, "", 0, &options);
}
