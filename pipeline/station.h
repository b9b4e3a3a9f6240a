/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which port a station was heard by whose packets went to the exception port: answers from there go back that way.
 * A fixed table, as a switch has: a station's place is its MAC's hash, the latest has it, and who is not in it is
 * sought by port 0. No answer of the NIC's own and nothing that contexts send depends on it.
 */
#ifndef PIPELINE_STATION_H
#define PIPELINE_STATION_H

#include <stdatomic.h>
#include <stdint.h>

#define SP_STATIONS 256 /* a power of two */

struct sp_stations {
	_Atomic uint64_t
		entry[SP_STATIONS]; /* [shared] MAC, port + 1 in the upper 16 bits; relaxed: one word says all */
};

void sp_station_heard(struct sp_stations *s, const uint8_t mac[6], uint16_t port);
uint16_t sp_station_port(const struct sp_stations *s, const uint8_t mac[6]);

#endif
