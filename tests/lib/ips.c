/* SPDX-License-Identifier: BSD-3-Clause */
#include "ips.h"

const uint8_t *ip4(unsigned a, unsigned b, unsigned c, unsigned d)
{
	static uint8_t ring[8][16];
	static unsigned at;
	uint8_t *ip = ring[at++ % 8];
	memset(ip, 0, 10);
	ip[10] = ip[11] = 0xFF;
	ip[12] = (uint8_t)a, ip[13] = (uint8_t)b, ip[14] = (uint8_t)c, ip[15] = (uint8_t)d;
	return ip;
}

const uint8_t *ip6(int net, uint32_t low)
{
	static uint8_t ring[8][16];
	static unsigned at;
	uint8_t *ip = ring[at++ % 8];
	memset(ip, 0, 16);
	if (net < 0) {
		ip[0] = 0xFE, ip[1] = 0x80;
	} else {
		ip[0] = 0x20, ip[1] = 0x01, ip[2] = 0x0D, ip[3] = 0xB8, ip[5] = (uint8_t)net;
	}
	for (unsigned i = 0; i < 4; i++)
		ip[12 + i] = (uint8_t)(low >> (24 - 8 * i));
	return ip;
}
