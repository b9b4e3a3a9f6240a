/* SPDX-License-Identifier: BSD-3-Clause */
/* Headers of RoCEv2 frames that the cases' ports receive: from 192.0.2.2 to 192.0.2.1, 02:00:00:00:00:01. */
#ifndef TESTBED_BENCH_FRAME_H
#define TESTBED_BENCH_FRAME_H

#include <string.h>

#include "../../handlers/wire/roce.h"

#define BENCH_IP  14		      /* offset of IPv4, */
#define BENCH_BTH (BENCH_IP + 20 + 8) /* ... BTH, */
#define BENCH_EXT (BENCH_BTH + 12)    /* ... and of what follows BTH */

/* Writes Ethernet, IPv4, UDP and BTH, to be followed by `rest` bytes including the ICRC. Returns the frame's length. */
static inline uint32_t bench_frame(uint8_t *f, uint8_t opcode, uint32_t qp, uint32_t rest)
{
	static const uint8_t head[] = {2, 0, 0, 0,    0, 1,  2,	 0, 0, 0,   0, 2, 8, 0,	  0x45, 0, 0,
				       0, 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 2, 192, 0,	2, 1};
	const uint32_t l3 = BENCH_EXT - BENCH_IP + rest;
	uint8_t *ip = f + BENCH_IP, *udp = ip + 20, *bth = f + BENCH_BTH;
	uint32_t sum = 0;

	memset(f, 0, BENCH_IP + l3);
	memcpy(f, head, sizeof(head));
	sp_store_be16(ip + 2, (uint16_t)l3);
	for (unsigned i = 0; i < 20; i += 2)
		sum += sp_load_be16(ip + i);
	sum = (sum & 0xFFFF) + (sum >> 16);
	sp_store_be16(ip + 10, (uint16_t) ~(sum + (sum >> 16)));
	sp_store_be16(udp, 0xC123);
	sp_store_be16(udp + 2, SP_ROCE_PORT);
	sp_store_be16(udp + 4, (uint16_t)(l3 - 20));
	bth[0] = opcode;
	sp_store_be16(bth + 2, SP_ROCE_PKEY);
	sp_store_be32(bth + 4, qp);
	return BENCH_IP + l3;
}

#endif
