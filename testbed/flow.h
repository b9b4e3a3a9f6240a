/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue of a frame, as RSS of a port chooses it: all packets of a flow get the same one. A flow is given by
 * addresses, protocol and, for unfragmented UDP and TCP, the ports; RoCEv2's UDP source port carries the entropy.
 * Frames other than IP go by their MAC addresses. Toeplitz, which hardware uses, would be slower without benefit here.
 */
#ifndef TESTBED_FLOW_H
#define TESTBED_FLOW_H

#include <stdbool.h>
#include <stdint.h>

static inline uint32_t sp_flow_mix(uint64_t hash, const uint8_t *bytes, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++) /* FNV-1a */
		hash = (hash ^ bytes[i]) * 0x100000001B3u;
	hash ^= hash >> 32; /* FNV's low bits alone are weak */
	hash *= 0xD6E8FEB86659FD93u;
	return (uint32_t)(hash >> 32);
}

static inline uint32_t sp_flow_hash(const uint8_t *frame, uint32_t len)
{
	uint8_t key[40] = {0};
	uint32_t l3 = 14, addresses, used, l4;
	uint16_t type;
	uint8_t protocol;

	if (len < 14)
		return 0;
	type = (uint16_t)(frame[12] << 8 | frame[13]);
	for (int tags = 0; tags < 2 && (type == 0x8100 || type == 0x88A8) && len >= l3 + 4; tags++) {
		type = (uint16_t)(frame[l3 + 2] << 8 | frame[l3 + 3]);
		l3 += 4;
	}
	if (type == 0x0800 && len >= l3 + 20 && frame[l3] >> 4 == 4) {
		bool fragment = ((frame[l3 + 6] & 0x3F) | frame[l3 + 7]) != 0;

		addresses = l3 + 12;
		used = 8;
		protocol = frame[l3 + 9];
		l4 = fragment ? len : l3 + (frame[l3] & 15u) * 4;
	} else if (type == 0x86DD && len >= l3 + 40) {
		addresses = l3 + 8;
		used = 32;
		protocol = frame[l3 + 6];
		l4 = l3 + 40;
	} else {
		return sp_flow_mix(0xCBF29CE484222325u, frame, 12);
	}
	for (uint32_t i = 0; i < used; i++)
		key[i] = frame[addresses + i];
	key[used++] = protocol;
	if ((protocol == 17 || protocol == 6) && l4 <= len && len - l4 >= 4)
		for (uint32_t i = 0; i < 4; i++)
			key[used++] = frame[l4 + i];
	return sp_flow_mix(0xCBF29CE484222325u, key, used);
}

/* The queue of a flow among `queues`: by the high bits, so that any number of queues is used evenly. */
static inline uint16_t sp_flow_queue(const uint8_t *frame, uint32_t len, uint16_t queues)
{
	return queues <= 1 ? 0 : (uint16_t)((uint64_t)sp_flow_hash(frame, len) * queues >> 32);
}

#endif
