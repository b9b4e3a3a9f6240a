/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long a message is expected to take with each scheme, if chunks are lost at a given rate. This is the mean of the
 * SDR paper's model (arXiv 2505.05366, section 4) in closed form, to about a percent. testbed/model.h draws samples
 * from the model, or goes through the whole distribution; a decision needs some fifty means within microseconds.
 *
 * Beyond the paper: losses may come in bursts, and encoding and decoding take time.
 *
 * No clock, no I/O, no allocation, no state. All functions accept any argument: an impossible one (not a number, zero,
 * negative, too large) counts as the nearest possible value, and all times are finite.
 */
#ifndef RELIABILITY_DURATION_H
#define RELIABILITY_DURATION_H

#include <stdbool.h>
#include <stdint.h>

enum sp_choice_scheme { SP_CHOICE_SR_RTO, SP_CHOICE_SR_NACK, SP_CHOICE_EC_MDS, SP_CHOICE_EC_XOR };

struct sp_choice {
	enum sp_choice_scheme scheme;
	uint8_t k, m; /* erasure coding: 1 <= m <= k, k + m <= 255; otherwise 0 */
};

/* Times are in seconds. */
struct sp_choice_path {
	double bandwidth; /* bit/s of payload */
	double rtt;
	/* In round trips: how long after it was sent a lost chunk is sent again; at least 1. */
	double rto;	 /* sr-rto */
	double nack;	 /* sr-nack: 1 + half the time between polls + the reordering window; also of a fallback */
	double fallback; /* erasure coding, in round trips: how much later chunks arrive that a fallback sends again, if
			    they are not lost again; 2 and the paper's beta, or 1 */
	bool lost_only;	 /* a fallback sends lost chunks again; otherwise whole submessages that failed */
	/* Coding speed: bytes/s of data, times the rows that are made of them; 0: no time. Both overlap with sending
	 * and receiving. Fewer rows than SP_CHOICE_ROWS take as long as that many: then memory is the limit. */
	double encode, decode;
};
#define SP_CHOICE_ROWS 3

struct sp_choice_size {
	uint64_t bytes;
	uint32_t chunk; /* bytes that are acknowledged and sent again together */
	uint32_t mtu;	/* bytes of a packet; 0: chunk */
};

/* How packets are lost. */
struct sp_hazard {
	double rate;	    /* n packets all arrive with probability exp(-rate n) */
	double correlation; /* correlation of the losses of neighbouring chunks, 0 to less than 1: bursts are 1 / (1 -
			       correlation) times as long as with independent losses */
};

/* The rate at which a packet is lost with probability `drop`. */
double sp_hazard_rate(double drop);
/* Probability that at least one of so many packets is lost. */
double sp_hazard_lost(double rate, double packets);

/* Probability that more than `most` of n chunks in a row are lost, if each is lost with probability p. Takes n * most *
 * 2 ns. */
double sp_duration_more_lost(unsigned n, unsigned most, double p, double correlation);
/* Probability that a submessage of `data` chunks cannot be recovered. 1: `choice` is not erasure coding. */
double sp_duration_fails(struct sp_choice choice, unsigned data, double p, double correlation);

/* Mean time from the first packet sent to the last acknowledgement. The loss rate of a chunk is limited to 3/4. */
double sp_duration(const struct sp_choice_path *path, const struct sp_choice_size *size, const struct sp_hazard *hazard,
		   struct sp_choice choice);

#endif
