/* SPDX-License-Identifier: BSD-3-Clause */
#include "pcapng.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

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
struct block {
	struct part fields, options;
	uint32_t head[2], total;
	struct iovec piece[6];
};

static void end_block(struct block *b, uint32_t type, const void *bytes, uint32_t len)
{
	static const uint8_t zero[4];
	const uint32_t pad = -len & 3;

	add32(&b->options, OPTION_END);
	b->total = 12 + b->fields.len + len + pad + b->options.len;
	b->head[0] = type;
	b->head[1] = b->total;
	b->piece[0] = (struct iovec){b->head, sizeof(b->head)};
	b->piece[1] = (struct iovec){b->fields.bytes, b->fields.len};
	b->piece[2] = (struct iovec){(void *)(uintptr_t)bytes, len};
	b->piece[3] = (struct iovec){(void *)(uintptr_t)zero, pad};
	b->piece[4] = (struct iovec){b->options.bytes, b->options.len};
	b->piece[5] = (struct iovec){&b->total, sizeof(b->total)};
}

static int write_block(FILE *to, const struct block *b)
{
	errno = 0;
	for (unsigned i = 0; i < 6; i++)
		if (fwrite(b->piece[i].iov_base, 1, b->piece[i].iov_len, to) != b->piece[i].iov_len)
			return errno ? -errno : -EIO;
	return 0;
}

static int write_block_fd(int fd, const struct block *b)
{
	ssize_t n;

	do
		n = writev(fd, b->piece, 6);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n == (ssize_t)b->total ? 0 : -ENOSPC;
}

static void make_section(struct block *b, const char *application)
{
	b->fields.len = b->options.len = 0;
	add32(&b->fields, BYTE_ORDER_MARK);
	add16(&b->fields, 1); /* version 1.0 */
	add16(&b->fields, 0);
	add64(&b->fields, UINT64_MAX); /* length of the section: not known */
	option_text(&b->options, SECTION_APPLICATION, application);
	end_block(b, SECTION, "", 0);
}

static void make_interface(struct block *b, const char *name, uint32_t snaplen)
{
	const uint8_t resolution = NANOSECONDS;

	b->fields.len = b->options.len = 0;
	add16(&b->fields, ETHERNET);
	add16(&b->fields, 0);
	add32(&b->fields, snaplen);
	option_text(&b->options, INTERFACE_NAME, name);
	option(&b->options, INTERFACE_RESOLUTION, &resolution, 1);
	end_block(b, INTERFACE, "", 0);
}

static void make_packet(struct block *b, const struct pcapng_packet *packet)
{
	const uint32_t flags = packet->outgoing ? OUTBOUND : INBOUND;

	b->fields.len = b->options.len = 0;
	add32(&b->fields, packet->interface);
	add_time(&b->fields, packet->time);
	add32(&b->fields, packet->captured);
	add32(&b->fields, packet->length);
	if (packet->comment && *packet->comment)
		option_text(&b->options, OPTION_COMMENT, packet->comment);
	option(&b->options, PACKET_FLAGS, &flags, sizeof(flags));
	option(&b->options, PACKET_QUEUE, &packet->queue, sizeof(packet->queue));
	end_block(b, PACKET, packet->frame, packet->captured);
}

int pcapng_begin(FILE *to, const char *application)
{
	struct block b;

	make_section(&b, application);
	return write_block(to, &b);
}

int pcapng_interface(FILE *to, const char *name, uint32_t snaplen)
{
	struct block b;

	make_interface(&b, name, snaplen);
	return write_block(to, &b);
}

int pcapng_packet(FILE *to, const struct pcapng_packet *packet)
{
	struct block b;

	make_packet(&b, packet);
	return write_block(to, &b);
}

int pcapng_begin_fd(int fd, const char *application, const char *interface)
{
	struct block b;
	int r;

	make_section(&b, application);
	r = write_block_fd(fd, &b);
	make_interface(&b, interface, 0);
	return r ? r : write_block_fd(fd, &b);
}

int pcapng_packet_fd(int fd, const struct pcapng_packet *packet)
{
	struct block b;

	make_packet(&b, packet);
	return write_block_fd(fd, &b);
}

static void option_time(struct part *p, uint16_t code, uint64_t time)
{
	struct part value = {.len = 0};

	add_time(&value, time);
	option(p, code, value.bytes, value.len);
}

int pcapng_statistics(FILE *to, uint32_t interface, uint64_t start, uint64_t end, uint64_t received, uint64_t lost)
{
	struct block b;

	b.fields.len = b.options.len = 0;
	add32(&b.fields, interface);
	add_time(&b.fields, end);
	option_time(&b.options, STATISTICS_START, start);
	option_time(&b.options, STATISTICS_END, end);
	option(&b.options, STATISTICS_RECEIVED, &received, sizeof(received));
	option(&b.options, STATISTICS_LOST, &lost, sizeof(lost));
	end_block(&b, STATISTICS, "", 0);
	return write_block(to, &b);
}
