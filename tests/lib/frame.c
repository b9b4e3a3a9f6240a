/* SPDX-License-Identifier: BSD-3-Clause */
#include "frame.h"

bool frame_is6(enum frame_ip ip)
{
	return ip == FRAME_IP6 || ip == FRAME_IP6_EXTENSIONS;
}

void frame_put16(struct frame *f, uint32_t at, unsigned v)
{
	f->bytes[at] = (uint8_t)(v >> 8);
	f->bytes[at + 1] = (uint8_t)v;
}

void frame_checksum4(struct frame *f)
{
	uint32_t sum = 0, header = (f->bytes[f->l3] & 15u) * 4;

	frame_put16(f, f->l3 + 10, 0);
	for (uint32_t i = 0; i < header; i += 2) {
		sum += (uint32_t)f->bytes[f->l3 + i] << 8 | f->bytes[f->l3 + i + 1];
		sum = (sum & 0xFFFF) + (sum >> 16);
	}
	frame_put16(f, f->l3 + 10, ~sum & 0xFFFF);
}

void frame_ip_length(struct frame *f, uint32_t bytes)
{
	if (f->bytes[f->l3] >> 4 == 6) {
		frame_put16(f, f->l3 + 4, bytes - 40);
	} else {
		frame_put16(f, f->l3 + 2, bytes);
		frame_checksum4(f);
	}
}

static void frame_append(struct frame *f, const void *bytes, uint32_t len)
{
	memcpy(f->bytes + f->len, bytes, len);
	f->len += len;
}

void frame_build(struct frame *f, const struct frame_shape *s)
{
	static const uint8_t macs[] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2};
	static const uint8_t tag[2][4] = {{0x88, 0xA8, 0x20, 0x64}, {0x81, 0x00, 0x00, 0x65}};
	static const uint8_t ip4[] = {0x45, 0x02, 0, 0, 0x12, 0x34, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2};
	static const uint8_t options[] = {0x94, 4, 0, 0, 1, 1, 1, 0}; /* router alert, no operation, end */
	static const uint8_t ip6[] = {0x60, 0x1A, 0xBC, 0xDE, 0, 0, 17, 63, 0x20, 0x01, 0x0D, 0xB8, 0,	  0,
				      0,    0,	  0,	0,    0, 0, 0,	0,  0,	  1,	0x20, 0x01, 0x0D, 0xB8,
				      0,    0,	  0,	0,    0, 0, 0,	0,  0,	  0,	0,    2};
	static const uint8_t extensions[] = {
		43, 0, 5,   2,	0, 0, 1, 0,			    /* hop-by-hop: router alert, padding */
		60, 0, 253, 0,	0, 0, 0, 0,			    /* routing, an experimental type */
		17, 1, 1,   12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, /* destination: padding, 16 bytes */
	};
	static const uint8_t bth[] = {0x2B, 0x80, 0xFF, 0xFF, 0x40, 0x12, 0x34, 0x56, 0, 0xAB, 0xCD, 0xEF};
	uint32_t above = s->roce ? sizeof(bth) + s->payload + s->pad + 4 : s->payload;

	memset(f, 0, sizeof(*f));
	frame_append(f, macs, sizeof(macs));
	for (unsigned i = 0; i < s->tags; i++)
		frame_append(f, tag[i + (s->tags == 1)], 4);
	frame_append(f, frame_is6(s->ip) ? "\x86\xDD" : "\x08", 2);
	f->l3 = f->len;
	if (frame_is6(s->ip)) {
		frame_append(f, ip6, sizeof(ip6));
		if (s->ip == FRAME_IP6_EXTENSIONS) {
			f->bytes[f->l3 + 6] = 0;
			frame_append(f, extensions, sizeof(extensions));
		}
	} else {
		frame_append(f, ip4, sizeof(ip4));
		if (s->ip == FRAME_IP4_OPTIONS) {
			f->bytes[f->l3] = 0x47;
			frame_append(f, options, sizeof(options));
		}
	}
	f->l4 = f->len;
	f->len += 8;
	frame_put16(f, f->l4, 0xC0DE);
	frame_put16(f, f->l4 + 2, s->roce ? 4791 : 7);
	frame_put16(f, f->l4 + 4, 8 + above);
	frame_put16(f, f->l4 + 6, 0xBEEF);
	if (s->roce) {
		frame_append(f, bth, sizeof(bth));
		f->bytes[f->l4 + 8 + 1] |= s->pad << 4;
	}
	f->data = f->len;
	for (unsigned i = 0; i < s->payload; i++)
		f->bytes[f->len++] = (uint8_t)(0x5A + 7 * i);
	f->len += s->roce ? s->pad + 4 : 0;
	frame_ip_length(f, f->len - f->l3);
}
