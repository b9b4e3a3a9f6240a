/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sending half of reliability: which unit is sent next, when to poll, which units are lost, which messages have
 * failed. Selective repeat with any number of messages in flight (arXiv 2505.05366, section 4). Losses are found by
 * time of sending, as in RACK (RFC 8985). The tail is probed as by RACK's tail loss probe, but with a poll instead of
 * data.
 *
 * It has no clock, does no I/O and allocates nothing: times are arguments, what to send is returned, memory is the
 * caller's. One thread at a time. The host library and the handlers use it alike.
 *
 * No unit is sent again without evidence that it is lost: an answer in which it is missing, to a poll that was sent
 * after it. So lost acknowledgements and repeats cause no retransmission. The schemes differ in what they need besides.
 * NACK: the unit was sent at least `reorder` before the poll, so that less reordering than that causes none either.
 * RTO: so many round trips have passed since it was sent. A unit that was sent again needs new evidence to be sent once
 * more.
 *
 * When a message is given up, a poll says so, so that the peer does not wait for it. Polls repeat this until one is
 * answered, or until the peer counts as silent.
 */
#ifndef RELIABILITY_SENDER_H
#define RELIABILITY_SENDER_H

#include <stdbool.h>
#include <stddef.h>

#include "../wire/reliability.h"
#include "rtt.h"

enum sp_rel_scheme { SP_REL_RTO, SP_REL_NACK };

/* 0 is the default of every field but the last three. */
struct sp_rel_config {
	enum sp_rel_scheme scheme;
	sp_time rtt;	       /* first estimate; default 1 ms */
	uint32_t rto_quarters; /* RTO in quarters of a round trip; default 12: 3 RTT (SR-RTO in the paper) */
	sp_time reorder;       /* NACK: reordering window; default 1/8 round trip */
	sp_time timeout;       /* of a message, from its start; default 10 s */
	uint32_t polls;	       /* per round trip while units are unacknowledged; default 32, at most 128 */
	uint64_t rate;	       /* bit/s at which units are sent; 0: no limit */
	uint32_t messages;     /* in flight at once: a power of two, at most 2^20 */
	uint32_t units;	       /* of a message, at most 2^31 */
	uint32_t in_flight;    /* units sent and not settled, of all messages: a power of two, at most 2^30 */
};

#define SP_REL_POLLS 256 /* polls whose time of sending is remembered */

struct sp_rel_counters {
	uint64_t units, retransmitted; /* sent for the first time; sent again */
	uint64_t spurious;	    /* retransmitted units that had arrived, as the answer to an earlier poll shows */
	uint64_t polls, polls_late; /* sent; of these, since an answer did not come in time */
	uint64_t acks, acks_stale;  /* valid ACKs; of these, without news */
	uint64_t done, failed, refused; /* messages */
};

struct sp_rel_flight { /* a unit in flight, or lost and waiting to be sent again */
	uint64_t message;
	uint32_t unit;
	sp_time left; /* when its last bit was sent */
};

struct sp_rel_ring {
	struct sp_rel_flight *flight;
	uint32_t first, count;
};

enum sp_rel_state { SP_REL_FREE, SP_REL_OPEN, SP_REL_DONE, SP_REL_FAILED, SP_REL_REFUSED };
struct sp_rel_message {
	uint32_t units, next, acked;
	uint32_t below; /* all units below are acknowledged */
	enum sp_rel_state state;
	bool given_up;	/* released, although the peer may still wait for it: the next polls say so */
	uint8_t reason; /* SP_REL_REFUSED: the reason of the peer */
	sp_time deadline;
	sp_time hold;	/* its units count as sent at this time at the earliest; SP_NEVER: they do not count as lost yet
			 */
	uint64_t *have; /* a bit per unit: acknowledged */
	uint32_t *era;	/* per unit: number of the next poll when it was last sent again; 0: sent once */
};

/* The number of a poll in 32 bits, never 0; comparable within 2^30 polls. */
static inline uint32_t sp_rel_era(uint64_t poll)
{
	return (uint32_t)(poll << 1 | 1);
}

/* What the latest answer proves: units [from, limit) that were sent by `time` and are not acknowledged had not arrived.
 */
struct sp_rel_evidence {
	sp_time time;
	uint64_t from_message, limit_message;
	uint32_t from_unit, limit_unit;
};

struct sp_rel_sender {
	struct sp_rel_config config;
	struct sp_rtt rtt;
	struct sp_rel_message *message; /* by number % messages */
	struct sp_rel_ring out, lost;	/* in order of sending; in order in which they were found lost */
	uint64_t begin, end;		/* messages [begin, end) are started and not released */
	uint64_t fresh;			/* the first that may have units never sent */
	uint64_t open;			/* the first that may be open */
	sp_time room;			/* the rate allows the next unit at this time */
	sp_time unit_time;		/* of the latest unit, at this rate */
	unsigned widened;		/* NACK: how often the window was doubled, because it was too small */
	struct sp_rel_evidence evidence;
	uint64_t polls, answered; /* numbers given so far; highest number answered */
	sp_time poll_sent[SP_REL_POLLS];
	sp_time left;	 /* when the latest unit was sent */
	unsigned silent; /* late polls in a row */
	uint64_t tells;	 /* this poll and all later ones tell the peer of the latest message given up below `begin` */
	uint64_t timed;	 /* answers to polls below this one give no round-trip time: the peer was away, or it is longer
			    than estimated. Then polls are further apart until one gives it */
	uint32_t repaired;	/* by the peer, as it reports; modulo 2^32 */
	uint32_t repaired_runs; /* runs of neighbours in which these were lost */
	struct sp_rel_counters counters;
};

/* Bytes of memory that sp_rel_sender_init() needs, 8-byte aligned. 0: config is not possible. */
size_t sp_rel_sender_bytes(const struct sp_rel_config *config);
/* memory: zeroed, the caller's; it must outlive the sender. -EINVAL. */
int sp_rel_sender_init(struct sp_rel_sender *s, const struct sp_rel_config *config, void *memory);

/* Starts the next message, of so many units (at least 1). Messages are numbered from 0. -EAGAIN: too many are in
 * flight, or not released yet; -EINVAL: units. */
int sp_rel_start(struct sp_rel_sender *s, uint32_t units, sp_time now, uint64_t *number);
/* SP_REL_DONE: all of it is acknowledged. SP_REL_FAILED: it has timed out. SP_REL_REFUSED: the peer accepts no more of
 * it, and sp_rel_message.reason says why. SP_REL_FREE: it was released, or never started. */
enum sp_rel_state sp_rel_state(const struct sp_rel_sender *s, uint64_t number);
static inline uint8_t sp_rel_reason(const struct sp_rel_sender *s, uint64_t number) /* of a refused message */
{
	return s->message[number & (s->config.messages - 1)].reason;
}
/* Makes room for another message. A message that is open is given up. In any order. -ENOENT. */
int sp_rel_release(struct sp_rel_sender *s, uint64_t number);
/* The owner knows from elsewhere that the peer accepts no more of it, and why. No effect on a message that is not open.
 * -ENOENT: it was released, or never started. */
int sp_rel_refuse(struct sp_rel_sender *s, uint64_t number, uint8_t reason);

/* Something else was sent of the message, at `left`, that may make up for lost units (parity). SP_NEVER: it is not sent
 * yet. Until then none of its units counts as lost, unless `in_flight` are. */
void sp_rel_hold(struct sp_rel_sender *s, uint64_t number, sp_time left);

/* What to send at `now`: a unit, for the first time or again, or a poll. After sending it, call sp_rel_sent(). What
 * could not be sent is returned again by the next call. Call it until there is nothing. */
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

/* Takes a datagram. 0: it is an ACK, with or without news. -EINVAL: it is none, or impossible, as it speaks of what was
 * never sent: then nothing of it counts. */
int sp_rel_ack(struct sp_rel_sender *s, const void *datagram, size_t len, sp_time now);

/* When sp_rel_next() will have something to send or a message times out, at the latest; SP_NEVER. */
sp_time sp_rel_deadline(const struct sp_rel_sender *s);

#endif
