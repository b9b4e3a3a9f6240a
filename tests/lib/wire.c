/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire.h"

uint64_t wire_get(const uint8_t *b, unsigned bytes)
{
	uint64_t v = 0;

	while (bytes--)
		v = v << 8 | *b++;
	return v;
}

void wire_put(uint8_t *b, unsigned bytes, uint64_t v)
{
	while (bytes--) {
		b[bytes] = (uint8_t)v;
		v >>= 8;
	}
}

/* Annex A17: CRC-32 over 64 ones and the packet from the IP header on, with the fields that routers change as ones. */
static uint32_t wire_icrc(const uint8_t *ip, uint32_t bytes)
{
	uint8_t head[8 + 40 + 8 + 12];
	const uint32_t l3 = ip[0] >> 4 == 6 ? 40 : 20, covered = l3 + 8 + 12;
	uint8_t *h = head + 8;
	uLong crc;

	memset(head, 0xFF, 8);
	memcpy(h, ip, covered);
	if (l3 == 40) {
		h[0] |= 0x0F; /* traffic class, flow label */
		h[1] = h[2] = h[3] = 0xFF;
		h[7] = 0xFF; /* hop limit */
	} else {
		h[1] = 0xFF; /* type of service */
		h[8] = 0xFF; /* time to live */
		h[10] = h[11] = 0xFF;
	}
	h[l3 + 6] = h[l3 + 7] = 0xFF; /* UDP checksum */
	h[l3 + 8 + 4] = 0xFF;	      /* BTH: FECN, BECN, reserved */
	crc = crc32(0, head, 8 + covered);
	return (uint32_t)crc32(crc, ip + covered, bytes - covered);
}

bool wire_decode(const uint8_t *f, uint32_t len, struct wire_packet *w)
{
	if (len < 14 + 20 + 8 + 12 + 4)
		return false;
	w->ipv6 = f[12] == 0x86 && f[13] == 0xDD;
	if (!w->ipv6 && (f[12] != 0x08 || f[13] != 0x00))
		return false;
	uint32_t l3 = w->ipv6 ? 40 : 20;
	if (f[14] >> 4 != (w->ipv6 ? 6 : 4) || (!w->ipv6 && (f[14] & 15) != 5) || f[14 + (w->ipv6 ? 6 : 9)] != 17)
		return false;
	uint32_t total = w->ipv6 ? 40 + (uint32_t)wire_get(f + 18, 2) : (uint32_t)wire_get(f + 16, 2);
	uint32_t udp = 14 + l3;
	if (14 + total > len || total < l3 + 8 + 12 + 4 || wire_get(f + udp + 2, 2) != 4791 ||
	    wire_get(f + udp + 4, 2) != total - l3)
		return false;
	const uint8_t *b = f + udp + 8;
	w->source_port = (uint16_t)wire_get(f + udp, 2);
	w->opcode = b[0];
	w->solicited = b[1] & 0x80;
	w->pad = b[1] >> 4 & 3;
	w->version = b[1] & 15;
	w->pkey = (uint16_t)wire_get(b + 2, 2);
	w->qp = (uint32_t)wire_get(b + 5, 3);
	w->ack_req = b[8];
	w->psn = (uint32_t)wire_get(b + 9, 3);
	w->payload = b + 12;
	w->len = total - l3 - 8 - 12 - 4;
	if (w->pad > w->len)
		return false;
	w->len -= w->pad;
	if (w->opcode != WIRE_WRITE_ONLY_IMM)
		return true;
	if (w->len < 20)
		return false;
	w->address = wire_get(w->payload, 8);
	w->rkey = (uint32_t)wire_get(w->payload + 8, 4);
	w->dma_len = (uint32_t)wire_get(w->payload + 12, 4);
	w->immediate = (uint32_t)wire_get(w->payload + 16, 4);
	w->body = w->payload + 20;
	w->body_len = w->len - 20;
	return true;
}

static uint32_t wire_ip_bytes(const uint8_t *f)
{
	return f[14] >> 4 == 6 ? 40 + (uint32_t)wire_get(f + 18, 2) : (uint32_t)wire_get(f + 16, 2);
}

bool wire_icrc_right(const uint8_t *f)
{
	const uint32_t bytes = wire_ip_bytes(f) - 4;
	const uint8_t *at = f + 14 + bytes;

	return wire_icrc(f + 14, bytes) ==
	       ((uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24);
}

void wire_icrc_set(uint8_t *f)
{
	const uint32_t bytes = wire_ip_bytes(f) - 4, crc = wire_icrc(f + 14, bytes);

	for (int i = 0; i < 4; i++)
		f[14 + bytes + i] = (uint8_t)(crc >> 8 * i);
}

static bool wire_is4(const uint8_t ip[16])
{
	static const uint8_t mapped[12] = {[10] = 0xFF, [11] = 0xFF};

	return !memcmp(ip, mapped, 12);
}

uint32_t wire_make(uint8_t *f, const struct wire_address *from, const struct wire_address *to, uint16_t source_port,
		   uint8_t opcode, bool solicited, uint32_t qp, uint32_t psn, const uint8_t *payload, uint32_t len)
{
	const bool four = wire_is4(to->ip);
	const uint32_t l3 = four ? 20 : 40, pad = (4 - len % 4) % 4, total = l3 + 8 + 12 + len + pad + 4;
	uint8_t *ip = f + 14, *udp = ip + l3, *b = udp + 8;

	memset(f, 0, 14 + l3 + 8 + 12);
	memcpy(f, to->mac, 6);
	memcpy(f + 6, from->mac, 6);
	if (four) {
		uint32_t sum = 0;

		wire_put(f + 12, 2, 0x0800);
		ip[0] = 0x45;
		wire_put(ip + 2, 2, total);
		ip[8] = 64;
		ip[9] = 17;
		memcpy(ip + 12, from->ip + 12, 4);
		memcpy(ip + 16, to->ip + 12, 4);
		for (int i = 0; i < 20; i += 2)
			sum += (uint32_t)wire_get(ip + i, 2);
		sum = (sum & 0xFFFF) + (sum >> 16);
		sum = (sum & 0xFFFF) + (sum >> 16);
		wire_put(ip + 10, 2, ~sum & 0xFFFF);
	} else {
		wire_put(f + 12, 2, 0x86DD);
		ip[0] = 0x60;
		wire_put(ip + 4, 2, total - 40);
		ip[6] = 17;
		ip[7] = 64;
		memcpy(ip + 8, from->ip, 16);
		memcpy(ip + 24, to->ip, 16);
	}
	wire_put(udp, 2, source_port);
	wire_put(udp + 2, 2, 4791);
	wire_put(udp + 4, 2, total - l3);
	b[0] = opcode;
	b[1] = (uint8_t)((solicited ? 0x80 : 0) | pad << 4);
	wire_put(b + 2, 2, 0xFFFF);
	wire_put(b + 5, 3, qp);
	wire_put(b + 9, 3, psn);
	if (len)
		memcpy(b + 12, payload, len);
	memset(b + 12 + len, 0, pad);
	wire_icrc_set(f);
	return 14 + total;
}
