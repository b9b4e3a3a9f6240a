/* SPDX-License-Identifier: BSD-3-Clause */
/* MAC table: the port that heard a MAC whose packets went to the exception port; replies from there leave by that port.
 * Of fixed size and indexed by the MAC's hash: the latest MAC wins, and an unknown MAC goes by port 0. The NIC's own
 * answers and the contexts' packets do not use it. */
#ifndef PIPELINE_TX_MAC_TABLE_H
#define PIPELINE_TX_MAC_TABLE_H

#include <stdatomic.h>
#include <stdint.h>

#define SP_MAC_TABLE_SIZE 256 /* a power of two */

struct sp_mac_table {
	_Atomic uint64_t entry[SP_MAC_TABLE_SIZE]; /* [shared] MAC, port + 1 in the upper 16 bits; relaxed, since one
						word is the whole entry */
};

void sp_mac_table_learn(struct sp_mac_table *s, const uint8_t mac[6], uint16_t port);
uint16_t sp_mac_table_port(const struct sp_mac_table *s, const uint8_t mac[6]);

#endif
