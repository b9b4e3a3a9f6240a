/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets in flight to one receiver, earliest arrival first; of equal ones the first that was put in. Nearly all arrive
 * in the order of sending and wait in a ring. A late packet moves to a heap when it reaches the head of the ring. So
 * the heap holds only what is overtaken at present: taking a packet costs the logarithm of that number, and nothing if
 * no packet is late. (A heap of everything costs 20 cache misses a packet with millions in flight.) Packets are
 * pointers owned by the caller. Threads: one.
 */
#ifndef TESTBED_IN_FLIGHT_H
#define TESTBED_IN_FLIGHT_H

#include <stdbool.h>

#include "../handlers/wire/host.h"

struct sp_in_flight_packet {
	sp_time arrival;
	sp_time in_turn; /* arrival without jitter: not earlier than that of packets put in before, not later than
			    arrival */
	void *packet;
	uint32_t len;	   /* for the caller, */
	uint64_t number;   /* ... like this one */
	uint64_t sequence; /* set by sp_in_flight_put() */
};

struct sp_in_flight {
	struct sp_in_flight_packet *ring; /* 2^n */
	uint32_t room, first, waiting;
	struct sp_in_flight_packet *heap;
	uint32_t heap_room, heaped;
	uint32_t late; /* late packets in ring and heap */
	uint64_t sequence;
};

int sp_in_flight_init(struct sp_in_flight *f);	/* -ENOMEM */
void sp_in_flight_free(struct sp_in_flight *f); /* does not free the packets */

/* Makes room for `more` packets, 1 to 8. Memory that it takes is subtracted from *left, in bytes. False: *left or the
 * machine has too little, and nothing has changed. */
bool sp_in_flight_reserve(struct sp_in_flight *f, uint32_t more, uint64_t *left);

/* sp_in_flight_reserve() must have made room. */
void sp_in_flight_put(struct sp_in_flight *f, struct sp_in_flight_packet p);

/* The earliest packet; NULL: none. Valid until the next put or take. */
const struct sp_in_flight_packet *sp_in_flight_first(const struct sp_in_flight *f);

/* Removes the earliest packet; there must be one. */
struct sp_in_flight_packet sp_in_flight_take(struct sp_in_flight *f);

static inline uint32_t sp_in_flight_count(const struct sp_in_flight *f)
{
	return f->waiting + f->heaped;
}

#endif
