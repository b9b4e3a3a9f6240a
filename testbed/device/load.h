/* SPDX-License-Identifier: BSD-3-Clause */
/* Made-up packets for a device, and the checks of its file: what the model says beside what was published. */
#ifndef TESTBED_DEVICE_LOAD_H
#define TESTBED_DEVICE_LOAD_H

#include "run.h"

/* Packets of one size at even distances, each a payload() of one cost that sends the packet back. */
struct sp_device_load {
	struct sp_cost cost, cold_cost;
	uint32_t cold; /* so many calls, the first ones, take cold_cost */
	uint32_t bytes, packets;
	sp_time interval;
	uint32_t word_every; /* 8 bytes are written to the host with every n-th packet; 0: never */
};
/* The caller destroys the run. -ENOMEM. */
int sp_device_load_run(const struct sp_device *device, const struct sp_device_load *load, struct sp_device_run **run);

/* What the model says of a check's quantity, in the units of sp_device_check.value. -ENOMEM. */
int sp_device_check_run(const struct sp_device *device, const struct sp_device_check *check, double *value);
const char *sp_device_quantity_name(enum sp_device_quantity quantity); /* "latency", ..., as in the file */

#endif
