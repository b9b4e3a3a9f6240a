/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTBED_REPAIR_H
#define TESTBED_REPAIR_H

#include "../host-api/sdr.h"

/* What one core of this machine multiplies and adds of chunks while it repairs others, in bit/s, as SP_EC_SLICE counts
 * (a byte that is read counts two more). Measured for a tenth of a second, with one chunk missing in each submessage,
 * which lie in memory and not in the cache; time of the
 * core is counted, not of the clock. 0: there is no such code, or no memory. */
uint64_t sp_repair_rate(const struct sdr_ec *ec, uint32_t chunk);

#endif
