/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is on its way to one receiver, earliest arrival first; of equal ones the first that was put in. Nearly all of it
 * arrives in the order of sending, so it waits in a ring; what is late moves to a heap only when its turn in the ring
 * comes. The heap thus holds what is overtaken at present, not all that is on its way: taking costs the logarithm of
 * that, nothing where nothing is late. (A heap of everything costs 20 cache misses a packet with millions on the way.)
 * Packets are pointers, owned by the caller. Threads: none of its own, one owner.
 */
#ifndef TESTBED_IN_FLIGHT_H
#define TESTBED_IN_FLIGHT_H

#include <stdbool.h>

#include "../handlers/wire/host.h"

struct sp_in_flight_packet {
	sp_time arrival;
	sp_time in_turn; /* not earlier than that of any put in before, not later than arrival */
	void *packet;
	uint32_t len;	   /* the caller's */
	uint64_t sequence; /* sp_in_flight_put()'s */
};

struct sp_in_flight {
	struct sp_in_flight_packet *ring; /* 2^n */
	uint32_t room, first, waiting;
	struct sp_in_flight_packet *heap;
	uint32_t heap_room, heaped;
	uint32_t late; /* of all */
	uint64_t sequence;
};

int sp_in_flight_init(struct sp_in_flight *f);	/* room for a few; -ENOMEM */
void sp_in_flight_free(struct sp_in_flight *f); /* not what the packets point to; zeroed: nothing */

/* Makes room for `more` flights, 1 to 8; memory that it takes goes from *left, bytes. False: *left or the machine has
 * too little, and nothing has happened. */
bool sp_in_flight_reserve(struct sp_in_flight *f, uint32_t more, uint64_t *left);

/* There is room, sp_in_flight_reserve() has said so. */
void sp_in_flight_put(struct sp_in_flight *f, struct sp_in_flight_packet p);

/* The earliest, NULL: none. Valid until the next put or take. */
const struct sp_in_flight_packet *sp_in_flight_first(const struct sp_in_flight *f);

/* Removes what sp_in_flight_first() shows; there is one. */
struct sp_in_flight_packet sp_in_flight_take(struct sp_in_flight *f);

static inline uint32_t sp_in_flight_count(const struct sp_in_flight *f)
{
	return f->waiting + f->heaped;
}

#endif
