/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Executes a schedule by the LogGOPS model, without packets, by the rules of LogGOPSim (Hoefler, Schneider, Lumsdaine
 * 2010), so that times are equal to its to the last digit:
 *
 * - A send starts when its processor (o) and its NIC's sending side (g) are free. It takes the processor for
 *   o + (s-1)O and the NIC for g + (s-1)G; the first byte arrives o + L later. Up to S bytes it is done at once.
 * - A message that arrives needs the receiver's processor and the NIC's receiving side, and waits for both. It takes
 * the processor for o + (s-1)max(O, G) and the NIC for g + (s-1)G, whether a receive is posted or not. Thus a host
 * cannot begin a send while a message comes in: it is half duplex. LogGOPSim has that rule, and so has this.
 * - A receive takes no time. A message above S is a rendezvous: its send is done when it is matched; with `handshake`
 *   its arrival is 2L later, too.
 * - What becomes ready at the same time goes by type (send, receive, calc), then by age.
 *
 * Two differences, where LogGOPSim has no sense: a message of 0 bytes counts as one of 1; and with several processors
 * per rank, an operation waits until what it requires has ended also on another processor.
 */
#ifndef TESTBED_GOAL_LOGGOPS_H
#define TESTBED_GOAL_LOGGOPS_H

#include <stdbool.h>
#include <stdint.h>

#include "noise.h"
#include "schedule.h"

#define GOAL_G_BLOCK  (16u << 20)  /* bytes of a message that have one G, if G is drawn */
#define GOAL_SIZE_MAX (1ull << 50) /* bytes of a message; ns of a calc */

struct goal_hop {
	sp_time L, g;				 /* latency; gap between messages */
	uint64_t G;				 /* ps a byte */
	const struct goal_draws *latency, *byte; /* L and G are drawn from these instead; NULL: they are not */
};

struct goal_loggops {
	struct goal_hop hop[2];	   /* between hosts of one switch; between others */
	uint32_t nodes_per_switch; /* ranks 0 to n-1 share one, and so on; 0: all do */
	sp_time o;
	uint64_t O; /* ps a byte */
	uint64_t S; /* bytes */
	bool handshake, full_duplex;
	const struct goal_detours
		*detours;   /* of each rank's processors, from a random place of the trace; NULL: none */
	bool coscheduled;   /* all ranks from the same place */
	uint64_t seed, run; /* together they decide what is drawn */
};

struct goal_outcome {
	sp_time end;		  /* of the last rank */
	uint32_t last;		  /* the first of the ranks that end then */
	uint64_t messages, bytes; /* sent */
	uint64_t events;	  /* operations and messages */
	sp_time detours;	  /* what they added, of all ranks */
	/* ---- after -EDEADLK ---- */
	uint64_t undone, unreceived; /* operations that never ended; messages that no receive has taken */
	uint32_t rank, op; /* the first receive or rendezvous that nobody has matched; if undone is 0, of such a message
			      the receiver and the sender */
};

/* LogGOPSim's defaults, in ns there: L 2500, o 1500, g 1000, G 6, O 0, S 65535. */
extern const struct goal_loggops goal_loggops_default;

/* Runs the finished schedule. ends: NULL, or room for a time per rank, when its processors have become free and its
 * messages have come. Takes about 8 bytes of memory an operation and 300 a rank, which it frees. 0; -EDEADLK: not all
 * has been done, see above; -EINVAL: an operation above GOAL_SIZE_MAX, o->rank and o->op name it; -E2BIG: processors or
 * NICs of so high numbers for so many ranks; -ERANGE: L, g or o of 2^60 ps or more; -EOVERFLOW: times beyond 2^63 ps;
 * -ENOMEM. Any number may run at once, of one schedule or many. */
int goal_loggops_run(const struct goal *g, const struct goal_loggops *p, sp_time *ends, struct goal_outcome *o);

#endif
