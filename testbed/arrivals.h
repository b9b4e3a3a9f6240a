/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers the packets of a watched NIC from 1 in the order in which they arrive, for users of watch.h. A packet in the
 * NIC is known by its buffer, even if the NIC copies struct sp_packet to let the packet wait.
 */
#ifndef TESTBED_ARRIVALS_H
#define TESTBED_ARRIVALS_H

#include "../handlers/spindle-handler.h"

struct sp_arrival {
	const struct sp_packet *p;
	const void *buf;
	uint64_t number;
};

struct sp_arrivals { /* zeroed: empty */
	struct sp_arrival *live;
	unsigned count, room;
	uint64_t total;
};

uint64_t sp_arrivals_add(struct sp_arrivals *a, const struct sp_packet *p);	   /* its number */
uint64_t sp_arrivals_find(const struct sp_arrivals *a, const struct sp_packet *p); /* 0: unknown */
void sp_arrivals_remove(struct sp_arrivals *a, uint64_t number);
void sp_arrivals_free(struct sp_arrivals *a);

#endif
