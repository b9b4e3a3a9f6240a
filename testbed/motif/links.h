/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a schedule (testbed/goal/schedule.h) over full-duplex links, in virtual time and without packets. Every rank has
 * one link in each direction to a switch that never is the bottleneck: what contends is a rank's own link. A message of
 * N bytes that finds both links free arrives latency + N / rate after it was posted.
 *
 * Messages leave a rank one after the other, in the order in which they were posted. They enter a rank one after the
 * other, in the order in which their first bytes came; those that wait lie in the switch, which has room for all. So a
 * message waits for others of its sender and of its receiver, and for no one else's.
 *
 * A rank may have several links of different rate and latency ("nic" of an operation): a message leaves by link n and
 * enters by link n. And it has several processors ("cpu"), each of which does one thing at a time:
 *   - a calc takes its size;
 *   - a send takes the processor's overhead, then its message is posted. It is done when its last byte has left;
 *   - a receive takes the overhead once its message is there, and is done then.
 * What takes no time does not wait for the processor. A function may stretch all this, as noise does.
 *
 * LogGOPS (testbed/goal) is another model: there, sending and receiving share the processor, so it is half duplex.
 */
#ifndef TESTBED_MOTIF_LINKS_H
#define TESTBED_MOTIF_LINKS_H

#include <stdbool.h>

#include "../../pipeline/nic.h"
#include "../goal/schedule.h"

#define LINKS_NICS     2u
#define LINKS_CPUS     3u
#define LINKS_OPS_MAX  (1u << 28)   /* of all ranks */
#define LINKS_TIME_MAX (1ull << 62) /* ps; 53 days */

struct links_nic {
	uint64_t rate;	 /* bit/s in each direction, not 0; a message's time is rounded up to whole ps */
	sp_time latency; /* from a rank's link to another's */
};

struct links_config {
	const struct goal *goal; /* finished; neither cpu nor nic is beyond the numbers above */
	struct links_nic nic[LINKS_NICS];
	sp_time overhead[LINKS_CPUS];
	/* When work that begins at `from` and takes `work` (may be 0) by itself ends on this processor; NULL: at once
	 * after. Not before from + work. For each processor it is asked in the order of `from`, as long as overheads
	 * are 0 or work is not; but it should not depend on that. */
	sp_time (*stretch)(void *arg, uint32_t rank, uint8_t cpu, sp_time from, sp_time work);
	/* Whether a send is a copy of what its rank sent last on that link, which the switch makes: it leaves as that
	 * did, and takes none of the link. NULL: none is. */
	bool (*copy)(void *arg, uint32_t rank, uint32_t op);
	/* The latency of this message instead of nic[].latency. It may overtake those before it. NULL: that one. */
	sp_time (*latency)(void *arg, uint32_t rank, uint32_t op);
	/* A receive has its message, which send_op of `sender` sent; the receive is not done yet. NULL: nobody asks. */
	void (*moved)(void *arg, uint32_t sender, uint32_t send_op, uint32_t receiver, uint32_t receive_op);
	/* An operation is done. chain: how many messages have followed on each other until then. NULL: nobody asks. */
	void (*done)(void *arg, uint32_t rank, uint32_t op, sp_time now, uint32_t chain);
	void *arg;
};

struct links_node {					 /* of a rank */
	sp_time end;					 /* its last operation is done */
	sp_time work[LINKS_CPUS];			 /* calcs and overheads, without what they were stretched by */
	uint64_t sent[LINKS_NICS], received[LINKS_NICS]; /* bytes; of those sent, no copies */
	uint64_t messages_sent, messages_received;
	uint32_t fan_in; /* messages that came in at once on one link, at most */
};

struct links_result {
	sp_time end; /* of the last operation */
	uint64_t messages, bytes, events;
	uint32_t chain;		       /* the longest chain of messages, each of which needed the one before */
	uint32_t stuck_rank, stuck_op; /* after -EDEADLK: the first that waits */
};

/* Runs it from time 0 to its end. `node` has goal_ranks() entries, which are written. It takes about 20 bytes an
 * operation besides the schedule, and what is on its way. 0; -EINVAL: no rate, or a cpu or nic beyond the bounds;
 * -E2BIG: more than LINKS_OPS_MAX; -EDEADLK: a receive's message is never sent, or what waits for it; -ERANGE: beyond
 * LINKS_TIME_MAX; -ENOMEM. */
int links_run(const struct links_config *config, struct links_node *node, struct links_result *result);

/* Time of `bytes` on a link of `rate` bit/s, rounded up; LINKS_TIME_MAX if it is longer. */
sp_time links_wire(uint64_t bytes, uint64_t rate);

#endif
