/* SPDX-License-Identifier: BSD-3-Clause */
#include "mac_table.h"

#include <string.h>

static uint64_t number(const uint8_t mac[6])
{
	uint64_t n = 0;

	memcpy(&n, mac, 6); /* bytes 6 and 7 stay zero: x86 and arm64 are little endian */
	return n;
}

static unsigned place(uint64_t mac)
{
	return (unsigned)(mac * 0x9E3779B97F4A7C15ull >> 32) & (SP_MAC_TABLE_SIZE - 1);
}

void sp_mac_table_learn(struct sp_mac_table *s, const uint8_t mac[6], uint16_t port)
{
	uint64_t m = number(mac), is = m | (uint64_t)(port + 1) << 48;
	_Atomic uint64_t *e = &s->entry[place(m)];

	if (atomic_load_explicit(e, memory_order_relaxed) != is)
		atomic_store_explicit(e, is, memory_order_relaxed);
}

uint16_t sp_mac_table_port(const struct sp_mac_table *s, const uint8_t mac[6])
{
	uint64_t m = number(mac), is = atomic_load_explicit(&s->entry[place(m)], memory_order_relaxed);

	return is >> 48 && !((is ^ m) << 16) ? (uint16_t)((is >> 48) - 1) : 0;
}
