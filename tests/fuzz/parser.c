/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes through the parser: what it accepts keeps every promise of parser.h, and the ICRC stays within it. */
#include <stdio.h>
#include <stdlib.h>
#include "../../handlers/wire/roce.h"
#include "../../pipeline/frame/icrc.h"
#include "../../pipeline/frame/parser.h"

#define PROMISE(condition)                                                                                             \
	do {                                                                                                           \
		if (!(condition)) {                                                                                    \
			fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition);                        \
			abort();                                                                                       \
		}                                                                                                      \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint32_t sink; /* the ICRC is read for ASan's sake */

static void check_layers(const struct sp_packet *p, int parsed, uint16_t type)
{
	const uint8_t *end = p->frame + p->frame_len;
	bool ip6 = p->flags & SP_PKT_IPV6;

	PROMISE(p->l3 == 14 || p->l3 == 18 || p->l3 == 22);
	PROMISE(type == sp_load_be16(p->frame + p->l3 - 2));
	if (parsed == SP_PARSED_OTHER) {
		PROMISE(type != 0x0800 && type != 0x86DD);
		PROMISE(!p->flags && !p->l4 && !p->hash && p->data == p->frame + p->l3 && p->data + p->len == end);
		return;
	}
	PROMISE(ip6 ? type == 0x86DD : type == 0x0800);
	PROMISE(p->frame[p->l3] >> 4 == (ip6 ? 6 : 4));
	PROMISE(p->data - p->frame >= p->l3 + (ip6 ? 40 : 20));
	PROMISE(sp_packet_source(p) + (ip6 ? 16 : 4) == sp_packet_destination(p));
	PROMISE(sp_packet_destination(p) + (ip6 ? 16 : 4) <= end);
	PROMISE(!(p->flags & SP_PKT_UDP) == (parsed == SP_PARSED_IP));
	if (parsed == SP_PARSED_IP) {
		PROMISE(!p->l4 || p->data == p->frame + p->l4);
		return;
	}
	PROMISE(p->l4 >= p->l3 + (ip6 ? 40 : 20));
	PROMISE((sp_load_be16(p->frame + p->l4 + 2) == SP_ROCE_PORT) == (parsed == SP_PARSED_ROCE));
	PROMISE(p->data == p->frame + p->l4 + (parsed == SP_PARSED_ROCE ? 8 + 12 : 8));
}

static void check_roce(const struct sp_packet *p)
{
	const uint8_t *l4 = p->frame + p->l4, *bth = l4 + 8;
	uint32_t pad = bth[1] >> 4 & 3, udp_len = sp_load_be16(l4 + 4);

	bool ip6 = p->flags & SP_PKT_IPV6;
	uint32_t ip_len = sp_load_be16(p->frame + p->l3 + (ip6 ? 4 : 2)) + (ip6 ? 40 : 0);

	PROMISE(p->l4 + udp_len == p->l3 + ip_len);
	PROMISE(udp_len == 8 + 12 + p->len + pad + SP_ROCE_ICRC_LEN);
	PROMISE((uint32_t)(p->data - p->frame) + p->len + pad + SP_ROCE_ICRC_LEN <= p->frame_len);
	PROMISE(p->opcode == bth[0] && (bth[1] & 15) == 0 && !(bth[1] & 0x80) == !(p->flags & SP_PKT_SE));
	PROMISE(p->dest_qp == sp_load_be24(bth + 5) && p->psn == sp_load_be24(bth + 9));
	sink = sp_load_le32(p->data + p->len + pad);
	sink = sp_icrc(p->frame + p->l3, p->l4 - p->l3, (uint32_t)(p->data + p->len + pad - p->frame) - p->l3);
}

/* A frame that has no tag says the same when it gets one: the parser has a short way for the common case. */
static void check_tagged(const uint8_t *data, uint32_t size, const struct sp_packet *p, int parsed)
{
	struct sp_packet q;
	uint16_t type;
	uint8_t *tagged = malloc(size + 4);

	memcpy(tagged, data, 12);
	memcpy(tagged + 12, "\x88\xA8\x00\x01", 4);
	memcpy(tagged + 16, data + 12, size - 12);
	PROMISE(sp_parse(tagged, size + 4, &q, &type) == parsed);
	PROMISE(parsed < 0 || (q.data - tagged == p->data - p->frame + 4 && q.len == p->len && q.hash == p->hash &&
			       q.flags == p->flags && q.psn == p->psn && q.dest_qp == p->dest_qp));
	free(tagged);
}

static void check(const uint8_t *data, size_t size)
{
	struct sp_packet p;
	uint16_t type;

	memset(&p, 0xA5, sizeof(p));
	/* The frame is not const for the handlers' sake; the parser does not write. */
	int parsed = sp_parse((uint8_t *)data, (uint32_t)size, &p, &type);

	PROMISE(parsed <= SP_PARSED_ROCE && -1 - parsed <= SP_DROP_BAD_PAD);
	PROMISE(p.frame == data && p.frame_len == size && p.verdict == SP_DONE);
	if (parsed >= 0) {
		PROMISE(p.data >= data && p.data <= data + size && p.len <= (size_t)(data + size - p.data));
		PROMISE(!(p.flags & SP_PKT_ROCE) == (parsed != SP_PARSED_ROCE));
		check_layers(&p, parsed, type);
	}
	if (parsed == SP_PARSED_ROCE)
		check_roce(&p);
	else
		PROMISE(parsed < 0 || (!p.opcode && !p.psn && !p.dest_qp && !(p.flags & SP_PKT_SE)));
	if (size >= 14 && data[12] != 0x81 && data[12] != 0x88)
		check_tagged(data, (uint32_t)size, &p, parsed);
}

/* Makes an IPv4 header's checksum right, else nearly no input would get past it. False: it is no IPv4, or was right. */
static bool repair(uint8_t *frame, size_t size)
{
	size_t ip = 14;
	uint32_t sum = 0, header;

	while (size >= ip && ip < 22 &&
	       (sp_load_be16(frame + ip - 2) == 0x8100 || sp_load_be16(frame + ip - 2) == 0x88A8))
		ip += 4;
	if (size < ip + 20 || sp_load_be16(frame + ip - 2) != 0x0800)
		return false;
	header = (frame[ip] & 15u) * 4;
	if (header < 20 || size < ip + header)
		return false;
	uint16_t before = sp_load_be16(frame + ip + 10);
	sp_store_be16(frame + ip + 10, 0);
	for (uint32_t i = 0; i < header; i += 2)
		sum += sp_load_be16(frame + ip + i);
	sum = (sum & 0xFFFF) + (sum >> 16);
	sum = ~(sum + (sum >> 16)) & 0xFFFF;
	sp_store_be16(frame + ip + 10, (uint16_t)sum);
	return sum != before;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 1 << 16)
		return 0;
	check(data, size);
	uint8_t *copy = malloc(size ? size : 1);
	if (size)
		memcpy(copy, data, size);
	if (repair(copy, size))
		check(copy, size);
	free(copy);
	return 0;
}

#ifdef FUZZ_STANDALONE
#include "../lib/frame.h"
#include "standalone.h"

int main(int argc, char **argv)
{
	enum { SEEDS = 3 * FRAME_IPS * 3 };
	static struct frame frame[SEEDS];
	const uint8_t *seed[SEEDS];
	size_t len[SEEDS], n = 0;

	for (unsigned tags = 0; tags <= 2; tags++)
		for (enum frame_ip ip = 0; ip < FRAME_IPS; ip++)
			for (int kind = 0; kind < 3;
			     kind++, n++) { /* UDP; RoCE; RoCE where one more byte of pad is too many */
				static const struct frame_shape shape[] = {{.payload = 29},
									   {.roce = true, .payload = 29, .pad = 3},
									   {.roce = true, .pad = 2}};
				struct frame_shape s = shape[kind];

				s.tags = tags;
				s.ip = ip;
				frame_build(&frame[n], &s);
				seed[n] = frame[n].bytes;
				len[n] = frame[n].len;
			}
	return fuzz_standalone(argc, argv, seed, len, n);
}
#endif
