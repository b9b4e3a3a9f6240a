/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sending half of reliability: which unit goes next, when to ask, what has been lost, what has failed. Selective
 * repeat over any number of messages in flight (arXiv 2505.05366, section 4), where loss is told from time of sending
 * as in RACK (RFC 8985); a tail is asked for, as by its tail loss probe, but by a poll and not by data.
 *
 * It has no clock, does no I/O and allocates nothing: times are arguments, what is to be sent is returned, memory is
 * the caller's. One thread at a time. Host library and handlers use it alike.
 *
 * Nothing is ever sent again without evidence: an answer to a poll that left after the unit, in which the unit is
 * missing. So neither lost acknowledgements nor repeats make anything go again. The schemes differ in what else it
 * takes: NACK: the unit had left `reorder` before the poll, so that reordering by less than that does not either. RTO:
 * so many round trips have gone by since it left. A unit that was sent again, and is lost again, needs new evidence.
 *
 * A message that is given up is told of by a poll, so that the peer does not wait for it: until one is answered, unless
 * the peer is silent anyway.
 */
#ifndef RELIABILITY_SENDER_H
#define RELIABILITY_SENDER_H

#include <stdbool.h>
#include <stddef.h>

#include "../wire/reliability.h"
#include "rtt.h"

enum sp_rel_scheme { SP_REL_RTO, SP_REL_NACK };

/* Zero is the default for every field but the last three. */
struct sp_rel_config {
	enum sp_rel_scheme scheme;
	sp_time rtt;	       /* first guess; default 1 ms */
	uint32_t rto_quarters; /* RTO in quarters of a round trip; default 12: 3 RTT (FACTS of the paper: SR-RTO) */
	sp_time reorder;       /* NACK: reordering window; default an eighth of the round trip */
	sp_time timeout;       /* of a message, from its start; default 10 s */
	uint32_t polls;	       /* per round trip while something is out; default 32, at most 128 */
	uint64_t rate;	       /* bit/s that units leave with; 0: no limit */
	uint32_t messages;     /* in flight at once: a power of two, at most 2^20 */
	uint32_t units;	       /* of a message, at most 2^31 */
	uint32_t in_flight;    /* units sent and not settled, over all messages: a power of two, at most 2^30 */
};

#define SP_REL_POLLS 256 /* whose time of sending is remembered */

struct sp_rel_counters {
	uint64_t units, retransmitted;	/* sent for the first time, and again */
	uint64_t spurious;		/* of the latter: the answer to an earlier poll shows that it was there */
	uint64_t polls, polls_late;	/* sent, and of these since an answer failed to come in time */
	uint64_t acks, acks_stale;	/* valid ones, and of these such as brought nothing new */
	uint64_t done, failed, refused; /* messages */
};

struct sp_rel_flight { /* a unit on its way, or lost and waiting to go again */
	uint64_t message;
	uint32_t unit;
	sp_time left; /* when its last bit left */
};

struct sp_rel_ring {
	struct sp_rel_flight *flight;
	uint32_t first, count;
};

enum sp_rel_state { SP_REL_FREE, SP_REL_OPEN, SP_REL_DONE, SP_REL_FAILED, SP_REL_REFUSED };
struct sp_rel_message {
	uint32_t units, next, acked;
	uint32_t below; /* all units below have been acknowledged */
	enum sp_rel_state state;
	bool given_up;	/* released though the peer may want it: it is to hear so */
	uint8_t reason; /* SP_REL_REFUSED: the peer's */
	sp_time deadline;
	sp_time hold;	/* its units count as having left no earlier; SP_NEVER: they are not lost yet */
	uint64_t *have; /* a bit per unit: acknowledged */
	uint32_t *era;	/* per unit: the next poll's when it was last sent again; 0: sent once */
};

/* A poll's number in 32 bits that are never 0; comparable within 2^30 polls. */
static inline uint32_t sp_rel_era(uint64_t poll)
{
	return (uint32_t)(poll << 1 | 1);
}

/* What the latest answer proves: units [from, limit) that left by `time` and are not acknowledged had not come. */
struct sp_rel_evidence {
	sp_time time;
	uint64_t from_message, limit_message;
	uint32_t from_unit, limit_unit;
};

struct sp_rel_sender {
	struct sp_rel_config config;
	struct sp_rtt rtt;
	struct sp_rel_message *message; /* number % messages */
	struct sp_rel_ring out, lost;	/* in order of sending; in order of being found lost */
	uint64_t begin, end;		/* messages [begin, end) were started and are not released */
	uint64_t fresh;			/* first that may have units never sent */
	uint64_t open;			/* first that may be open */
	sp_time room;			/* when the rate lets the next unit leave */
	sp_time unit_time;		/* that the latest one took */
	unsigned widened;		/* NACK: doublings of the window, since it was too small */
	struct sp_rel_evidence evidence;
	uint64_t polls, answered; /* numbers given so far; highest one answered */
	sp_time poll_sent[SP_REL_POLLS];
	sp_time left;	 /* when the latest unit left */
	unsigned silent; /* polls in a row that were late */
	uint64_t tells;	 /* the poll that tells, as all later ones, of the latest message given up below begin */
	uint64_t timed;	 /* answers to polls below this one tell nothing about the round trip: the peer was away, or it
			    is longer than we believed, and polls are further apart until one tells by how much */
	uint32_t repaired;	/* by the peer, as it says; modulo 2^32 */
	uint32_t repaired_runs; /* of neighbours, that these were lost in */
	struct sp_rel_counters counters;
};

/* Bytes of memory, 8-byte aligned, that sp_rel_sender_init wants; 0: config cannot be. */
size_t sp_rel_sender_bytes(const struct sp_rel_config *config);
/* memory: zeroed, the caller's, to outlive the sender. -EINVAL. */
int sp_rel_sender_init(struct sp_rel_sender *s, const struct sp_rel_config *config, void *memory);

/* The next message, of so many units (at least 1). Messages are numbered from 0. -EAGAIN: too many are in flight, or
 * not released yet; -EINVAL: units. */
int sp_rel_start(struct sp_rel_sender *s, uint32_t units, sp_time now, uint64_t *number);
/* SP_REL_DONE: all of it has been acknowledged. SP_REL_FAILED: its time is over. SP_REL_REFUSED: the peer takes no more
 * of it, and sp_rel_message.reason says why. SP_REL_FREE: it was released, or never started. */
enum sp_rel_state sp_rel_state(const struct sp_rel_sender *s, uint64_t number);
static inline uint8_t sp_rel_reason(const struct sp_rel_sender *s, uint64_t number) /* of one that was refused */
{
	return s->message[number & (s->config.messages - 1)].reason;
}
/* Makes room for another; one that is open is given up. In any order. -ENOENT. */
int sp_rel_release(struct sp_rel_sender *s, uint64_t number);
/* The owner has heard by other means that the peer takes no more of it, and why. Without effect on one that is not
 * open. -ENOENT: it was released, or never started. */
int sp_rel_refuse(struct sp_rel_sender *s, uint64_t number, uint8_t reason);

/* What else was sent of the message, and may make up for units that are lost (parity), left at `left`; SP_NEVER: it has
 * not yet. Until then none is taken for lost, unless there are `in_flight`. */
void sp_rel_hold(struct sp_rel_sender *s, uint64_t number, sp_time left);

/* What shall be sent at `now`: a unit, for the first time or again, or a poll. Once it is sent, say so by sp_rel_sent;
 * what could not be sent is asked for again the next time. Ask until there is nothing. */
enum sp_rel_what { SP_REL_NOTHING, SP_REL_UNIT, SP_REL_UNIT_AGAIN, SP_REL_ASK };
struct sp_rel_next {
	enum sp_rel_what what;
	uint64_t message;
	uint32_t unit;
	struct sp_rel_poll poll; /* SP_REL_ASK: the datagram */
};
void sp_rel_next(struct sp_rel_sender *s, sp_time now, struct sp_rel_next *next);
/* bits: that a unit takes of the rate, overhead included. */
void sp_rel_sent(struct sp_rel_sender *s, const struct sp_rel_next *next, uint64_t bits, sp_time now);

/* A datagram that came. 0: an ACK, also one that brings nothing new. -EINVAL: it is none, or cannot be true, for it
 * speaks of what was never sent: nothing of it counts. */
int sp_rel_ack(struct sp_rel_sender *s, const void *datagram, size_t len, sp_time now);

/* When sp_rel_next has something to say or a message fails, at the latest; SP_NEVER. */
sp_time sp_rel_deadline(const struct sp_rel_sender *s);

#endif
