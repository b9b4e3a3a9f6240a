/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTBED_REPAIR_H
#define TESTBED_REPAIR_H

#include "../host-api/sdr.h"

/* Speed at which one core of this machine multiplies and adds chunks in repairs, bit/s, counted as SP_EC_SLICE does (a
 * byte that is read counts two more). Measured for a tenth of a second of processor time, with one chunk missing per
 * submessage, in memory larger than the cache. 0: no such code, or no memory. */
uint64_t sp_repair_rate(const struct sdr_ec *ec, uint32_t chunk);

#endif
