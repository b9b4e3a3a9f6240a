/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fate of a packet on one direction of a link, and the time of its arrival: the wire takes its time, the network
 * behind it delays, loses, repeats, reorders and corrupts. It knows only lengths and times: for packets of any kind and
 * for any clock in picoseconds that does not go back. The same seed, lengths and times of sending give the same
 * results. Threads: one per direction.
 */
#ifndef TESTBED_IMPAIRMENT_H
#define TESTBED_IMPAIRMENT_H

#include "../handlers/wire/host.h"
#include "random.h"

/* What a frame costs on the wire beyond its own bytes: preamble and delimiter 8, FCS 4, gap 12; and never less than 60.
 */
#define SP_LINK_OVERHEAD  24
#define SP_LINK_MIN_FRAME 60

#define SP_LINK_MAX_DELAY     (1000 * SP_SEC)	  /* for each of the three times */
#define SP_LINK_MAX_BANDWIDTH 1000000000000000ull /* 1 Pbit/s */
#define SP_LINK_MAX_QUEUE     (1u << 20)

/*
 * One direction. All-zero is a perfect, infinitely fast wire. Probabilities are per packet, 0 to 1, and independent
 * except for bursts. Bursts follow Gilbert (1960) and Elliott (1963): a Markov chain of two states that takes a step
 * with each packet. Its first state is drawn from the stationary distribution, so that short runs lose as much as long
 * ones. sp_link_burst() computes the three values from a mean length and a loss rate.
 */
struct sp_link_direction {
	uint64_t bandwidth; /* bit/s; 0: no limit; at most SP_LINK_MAX_BANDWIDTH */
	sp_time delay;	    /* propagation: end of sending to arrival */
	sp_time jitter;	    /* uniform in 0 to this for each packet, on top of delay: packets overtake each other */
	double loss;	    /* packet never arrives (it still takes its time on the wire); in the good state */
	double burst_begin; /* good to bad, after a packet; 0: no bursts, the other two are ignored */
	double burst_end;   /* bad to good; mean length of a bad time = 1 / this, in packets */
	double burst_loss;  /* packet never arrives, in the bad state, instead of loss */
	double duplicate;   /* packet arrives twice; jitter, reordering and corruption are drawn for each copy */
	double reorder;	    /* packet arrives reorder_delay later than it should */
	sp_time reorder_delay;
	double corrupt; /* one bit of the frame is inverted, all equally likely */
	uint32_t queue; /* packets that may wait for the wire; 0: 256 */
};

/* -EINVAL: a probability outside 0 to 1 (or NaN), or another value out of bounds. */
int sp_link_check(const struct sp_link_direction *direction);

/*
 * Sets loss to 0 and the burst_* values so that bursts have `length` packets on average (geometrically distributed),
 * all packets of a burst are lost, and `loss` of all packets are lost (Gilbert's model with nothing received in the bad
 * state). -EINVAL, nothing is set: length below 1; loss below 0, 1 or more, or more than such short bursts can lose:
 * loss > length / (length + 1).
 */
int sp_link_burst(struct sp_link_direction *direction, double length, double loss);

/* The delay of a link of `km` kilometres, as in arXiv 2505.05366: the round trip takes 2 * km / 300,000 s. SP_NEVER:
 * negative, NaN, or longer than SP_LINK_MAX_DELAY; sp_link_check() refuses it. */
sp_time sp_link_distance(double km);

/* State of one direction. Only impairment.c uses the fields. */
struct sp_impairment {
	struct sp_link_direction config;
	struct sp_random random; /* draws: loss, duplicate, reorder twice */
	struct sp_random more;	 /* draws: state, corrupt twice, bit twice, jitter twice */
	sp_time busy;		 /* when the wire is free again */
	sp_time in_turn;	 /* of the latest packet */
	uint64_t remainder;	 /* of the last time on the wire, in 1/bandwidth ps: keeps the rate exact */
	bool bad;
};

struct sp_fate {
	sp_time left;	 /* when the packet has left the wire */
	sp_time in_turn; /* arrival without jitter and reordering: never earlier than that of packets sent before */
	unsigned copies; /* 0: lost; 1; 2 */
	bool repeated;	 /* it would have arrived twice if it had not been lost */
	struct sp_copy {
		sp_time arrival; /* at or after in_turn */
		bool reordered;
		bool corrupted;
		uint32_t bit; /* the inverted bit: counted from the frame's first byte, lowest bit of each byte first */
	} copy[2];
};

/* direction: 0 or 1, for two independent directions of one seed. sp_link_check() has accepted the configuration. */
void sp_impairment_init(struct sp_impairment *impairment, const struct sp_link_direction *config, uint64_t seed,
			unsigned direction);

/* For packets from now on; checked as well. Packets in flight arrive as before, and later packets not before them. */
void sp_impairment_change(struct sp_impairment *impairment, const struct sp_link_direction *config);

/*
 * The fate of a packet whose frame has len bytes (without FCS; at most 2^20) and is given to the wire at `now`, behind
 * all packets before it; the caller bounds the queue. Every packet draws the same random numbers whatever its fate, so
 * runs that differ in one value can be compared.
 */
void sp_impair(struct sp_impairment *impairment, uint32_t len, sp_time now, struct sp_fate *fate);

#endif
